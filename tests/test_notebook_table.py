"""Notebooks stay readable: their cells are short, and prose comes before code."""

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import nbformat
import pytest
from ours import NOTEBOOKS

from async_cost.workflow.toolchain import ROOT

#: Lines of the longest cell. A cell of an analysis is a chain, a chart, or the findings of a section.
LONGEST = {"analysis": 70, "measure": 60}
#: Lines of the middle cell of an analysis.
MEDIAN = 16
#: Share of the code cells of an analysis that follow a paragraph.
AFTER_PROSE = 0.7
#: What makes a code cell a paragraph.
SAYS = re.compile(r"^(?:say|ac\.say|run\.finding)\(|^    ac\.say\(", re.MULTILINE)
ANALYSES = [path for path in NOTEBOOKS if path.name == "analysis.ipynb"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT / "notebooks").with_suffix(""))


def cells_of(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.source.strip()]


def lengths(path: Path) -> list[int]:
    """Lines that are not blank, of each code cell."""
    code = (cell.source for cell in cells_of(path) if cell.cell_type == "code")
    return [sum(bool(line.strip()) for line in source.splitlines()) for source in code]


def reads(cell: nbformat.NotebookNode) -> bool:
    return (cell.cell_type == "markdown" or bool(SAYS.search(cell.source))) and not cell.source.startswith("#")


def after_prose(cells: Sequence[nbformat.NotebookNode]) -> float:
    """The share of code cells that follow a paragraph, be it written or made of findings."""
    code = [place for place, cell in enumerate(cells) if cell.cell_type == "code"]
    follow = (cells[place - 1].cell_type == "markdown" or reads(cells[place - 1]) for place in code if place)
    return sum(follow) / len(code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_cells_are_short(path):
    limit = LONGEST["analysis" if path in ANALYSES else "measure"]
    assert max(lengths(path)) <= limit, f"a cell of {name(path)} has {max(lengths(path))} lines: split it"


@pytest.mark.parametrize("path", ANALYSES, ids=name)
def test_an_analysis_is_prose_and_short_cells(path):
    cells, middle = cells_of(path), median(lengths(path))
    assert middle <= MEDIAN, f"the middle cell has {middle} lines: a cell is one chain, one chart or one paragraph"
    share = after_prose(cells)
    assert share >= AFTER_PROSE, f"{share:.0%} of the cells follow prose: say what they are for"
