"""Notebooks stay readable: their cells are short, prose comes before code, and a chart is read right after it."""

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell

from async_cost.workflow.toolchain import ROOT

#: Lines of the longest cell. A cell of an analysis is a chain, a chart, or the findings of a section.
LONGEST = {"analysis": 70, "measure": 60}
#: Lines of the middle cell of an analysis.
MEDIAN = 16
#: Share of the code cells of an analysis that follow written prose.
AFTER_PROSE = 0.8
#: What makes a code cell a paragraph, and a chart.
SAYS = re.compile(r"^(?:say|ac\.say|run\.finding)\(|^    ac\.say\(", re.MULTILINE)
DRAWS = ("ac.intervals", "ac.lines", "ac.matrix", "ac.staircase", "alt.Chart")
NOTEBOOKS = sorted(ROOT.glob("notebooks/**/*.ipynb"))
ANALYSES = [path for path in NOTEBOOKS if path.name == "analysis.ipynb"]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT / "notebooks").with_suffix(""))


def cells_of(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.source.strip()]


def lengths(path: Path) -> list[int]:
    """Lines that are not blank, of each code cell."""
    code = (cell.source for cell in cells_of(path) if cell.cell_type == "code")
    return [sum(bool(line.strip()) for line in source.splitlines()) for source in code]


def unread(cells: Sequence[nbformat.NotebookNode]) -> list[str]:
    """The cells that show a chart, by a call of our own or of a function of the notebook that makes one, without a
    paragraph in the next cell, be it written, computed, or findings that a run judges.
    """
    trees = {place: ast.parse(cell.source) for place, cell in enumerate(cells) if cell.cell_type == "code"}
    makers = {
        made
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.Assign) and any(drawing in ast.unparse(node) for drawing in DRAWS)
        for made in ([node.name] if isinstance(node, ast.FunctionDef) else map(ast.unparse, node.targets))
    }
    found = []
    for place, tree in trees.items():
        last = tree.body[-1]
        if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
            called = ast.unparse(last.value.func)
            if (called in makers or called.startswith(DRAWS)) and not any(map(reads, cells[place + 1 : place + 2])):
                found.append(cells[place].source)
    return found


def reads(cell: nbformat.NotebookNode) -> bool:
    return (cell.cell_type == "markdown" or bool(SAYS.search(cell.source))) and not cell.source.startswith("#")


def after_prose(cells: Sequence[nbformat.NotebookNode]) -> float:
    """The share of code cells that follow written prose."""
    code = [place for place, cell in enumerate(cells) if cell.cell_type == "code"]
    return sum(place > 0 and cells[place - 1].cell_type == "markdown" for place in code) / len(code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_cells_are_short(path):
    limit = LONGEST["analysis" if path in ANALYSES else "measure"]
    assert max(lengths(path)) <= limit, f"a cell of {name(path)} has {max(lengths(path))} lines: split it"


@pytest.mark.parametrize("path", ANALYSES, ids=name)
def test_an_analysis_is_prose_short_cells_and_charts_that_are_read(path):
    cells, middle = cells_of(path), median(lengths(path))
    assert middle <= MEDIAN, f"the middle cell has {middle} lines: a cell is one chain, one chart or one paragraph"
    assert unread(cells) == [], "charts that the next cell does not read"
    assert after_prose(cells) >= AFTER_PROSE, (
        f"{after_prose(cells):.0%} of the cells follow prose: say what they are for"
    )


def test_a_chart_is_read_by_a_paragraph_and_prose_is_what_is_written():
    sources = ["import altair as alt", "def chart_of(frame):\n    return alt.Chart(frame)", "chart_of(frame)"]
    cells = [*map(new_code_cell, sources), new_markdown_cell("It rises.")]
    cells += [new_code_cell("ac.lines(frame)"), new_code_cell('say("It falls.")')]
    cells += [new_code_cell("a = 1\nac.lines(frame)"), new_markdown_cell("## Next")]
    assert unread(cells) == ["a = 1\nac.lines(frame)"]
    assert after_prose(cells) == pytest.approx(1 / 6)
