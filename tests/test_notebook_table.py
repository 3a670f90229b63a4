"""Notebooks stay readable: their cells are short, and prose comes before code."""

import nbformat
import pytest
from notebook_table import lines, row, table

#: Lines of the longest cell, as far as the notebooks have come. An analysis is an argument, a cell of it a chain, a chart or a paragraph.
LONGEST = {"analysis": 25, "measure": 60}
#: Share of the code cells of an analysis that follow a paragraph.
AFTER_PROSE = 0.9
ROWS = table().to_dicts()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["notebook"])
def test_cells_are_short(row):
    limit = LONGEST["analysis" if row["notebook"].endswith("/analysis") else "measure"]
    assert row["longest"] <= limit, f"a cell of {row['notebook']} has {row['longest']} lines: split it"


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row["notebook"].endswith("/analysis")], ids=lambda row: row["notebook"]
)
def test_code_of_an_analysis_follows_prose(row):
    told = f"{row['after_prose']:.0%} of the code cells of {row['notebook']} follow a paragraph"
    assert row["after_prose"] >= AFTER_PROSE, f"{told}: say above the others what they are for"


def test_a_computed_paragraph_counts_as_prose(tmp_path):
    cells = [
        nbformat.v4.new_markdown_cell("One two."),
        nbformat.v4.new_code_cell("a = 1\n\nb = 2"),
        nbformat.v4.new_code_cell('say("{{ a | numeral }}")'),
        nbformat.v4.new_code_cell("c = 3"),
        nbformat.v4.new_code_cell("d = 4"),
    ]
    path = tmp_path / "notebooks" / "x" / "analysis.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    found = row(path, tmp_path)
    assert found["notebook"] == "x/analysis" and (found["cells"], found["lines"], found["longest"]) == (4, 5, 2)
    assert found["after_prose"] == pytest.approx(2 / 3) and found["words"] == pytest.approx(2 / 5)
    assert lines("a\n\n b\n") == 2
