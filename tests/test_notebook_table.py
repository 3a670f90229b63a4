"""Notebooks stay readable: their cells are short, and prose comes before code."""

import nbformat
import polars as pl
import pytest
from notebook_table import lines, row, table, total

#: Lines of the longest cell. A cell of an analysis is a chain, a chart, or the findings of a section.
LONGEST = {"analysis": 70, "measure": 60}
#: Lines of the middle cell of an analysis.
MEDIAN = 16
#: Share of the code cells of an analysis that follow written prose.
AFTER_PROSE = 0.8
ROWS = table().to_dicts()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["notebook"])
def test_cells_are_short(row):
    limit = LONGEST["analysis" if row["notebook"].endswith("/analysis") else "measure"]
    assert row["longest"] <= limit, f"a cell of {row['notebook']} has {row['longest']} lines: split it"


of_an_analysis = pytest.mark.parametrize(
    "row", [row for row in ROWS if row["notebook"].endswith("/analysis")], ids=lambda row: row["notebook"]
)


@of_an_analysis
def test_the_middle_cell_of_an_analysis_is_short(row):
    told = f"the middle cell of {row['notebook']} has {row['median']:g} lines"
    assert row["median"] <= MEDIAN, f"{told}: a cell is one chain, one chart or one paragraph"


@of_an_analysis
def test_every_chart_is_read_in_the_next_cell(row):
    assert row["read"] == row["charts"], f"{row['charts'] - row['read']} charts of {row['notebook']} are not read"


@of_an_analysis
def test_code_of_an_analysis_follows_prose(row):
    told = f"{row['after_prose']:.0%} of the code cells of {row['notebook']} follow prose"
    assert row["after_prose"] >= AFTER_PROSE, f"{told}: say above the others what they are for"


def notebook(cells: list) -> nbformat.NotebookNode:
    """A notebook in Python."""
    kernel = {"name": "python3", "display_name": "Python", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})


def test_a_chart_is_read_by_the_paragraph_that_follows(tmp_path):
    cells = [
        nbformat.v4.new_code_cell("from x import charts\ncharts.enable()"),
        nbformat.v4.new_code_cell("def chart_of(frame):\n    return charts.bars(frame)"),
        nbformat.v4.new_code_cell("chart_of(frame)"),
        nbformat.v4.new_markdown_cell("It rises."),
        nbformat.v4.new_code_cell("charts.bars(frame)"),
        nbformat.v4.new_code_cell('say("It falls.")'),
        nbformat.v4.new_code_cell("a = 1\ncharts.bars(frame)"),
        nbformat.v4.new_markdown_cell("## Next"),
    ]
    path = tmp_path / "notebooks" / "x" / "analysis.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook(cells), path)
    found = row(path, tmp_path)
    assert (found["charts"], found["read"]) == (3, 2)
    assert total(pl.DataFrame([found])).row(0) == ("analyses", 1, 6, 9, 3, 2)


def test_a_computed_paragraph_is_no_prose_for_the_cell_after_it(tmp_path):
    cells = [
        nbformat.v4.new_markdown_cell("One two."),
        nbformat.v4.new_code_cell("a = 1\n\nb = 2"),
        nbformat.v4.new_code_cell('say("{{ a | numeral }}")'),
        nbformat.v4.new_code_cell("c = 3"),
        nbformat.v4.new_code_cell("d = 4"),
    ]
    path = tmp_path / "notebooks" / "x" / "analysis.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook(cells), path)
    found = row(path, tmp_path)
    assert found["notebook"] == "x/analysis" and (found["cells"], found["lines"], found["longest"]) == (4, 5, 2)
    assert found["after_prose"] == pytest.approx(1 / 4) and found["words"] == pytest.approx(2 / 5)
    assert lines("a\n\n b\n") == 2
