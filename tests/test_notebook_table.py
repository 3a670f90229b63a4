"""Notebooks stay readable: their cells are short, and prose comes before code."""

import pytest
from notebook_table import table

#: Lines of the longest cell. An analysis is an argument, a cell of it a chain, a chart or a paragraph.
LONGEST = {"analysis": 45, "measure": 82}


@pytest.mark.parametrize("row", table().to_dicts(), ids=lambda row: row["notebook"])
def test_cells_are_short(row):
    limit = LONGEST["analysis" if row["notebook"].endswith("/analysis") else "measure"]
    assert row["longest"] <= limit, f"a cell of {row['notebook']} has {row['longest']} lines: split it"
