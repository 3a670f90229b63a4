"""How the notebooks read: how long their cells are, and how many of them come right after prose.

    python tests/notebook_table.py

prints a row for each notebook; test_notebook_table.py holds the limits.
"""

import sys
from pathlib import Path

import nbformat
import polars as pl

ROOT = Path(__file__).resolve().parent.parent


def lines(source: str) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in source.splitlines())


def is_prose(cell: nbformat.NotebookNode) -> bool:
    """Whether a cell is a paragraph, written or computed (one template that is said)."""
    return cell.cell_type == "markdown" or cell.source.startswith("say(")


def row(path: Path, root: Path = ROOT) -> dict[str, object]:
    """What the table says of one notebook.

    `after_prose` is the share of code cells that follow a paragraph, written or computed, among those that are none themselves; `words`
    are those of written prose for each line of code.
    """
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.source.strip()]
    code = [place for place, cell in enumerate(cells) if cell.cell_type == "code"]
    after = [is_prose(cells[place - 1]) for place in code if not is_prose(cells[place])]
    lengths = pl.Series([lines(cells[place].source) for place in code])
    prose = sum(len(cell.source.split()) for cell in cells if cell.cell_type == "markdown")
    return {
        "notebook": str(path.relative_to(root / "notebooks").with_suffix("")),
        "cells": len(code),
        "lines": lengths.sum(),
        "median": lengths.median(),
        "p90": lengths.quantile(0.9, "nearest"),
        "longest": lengths.max(),
        "after_prose": sum(after) / len(after),
        "words": prose / lengths.sum(),
    }


def table(root: Path = ROOT) -> pl.DataFrame:
    """All notebooks, those of analyses first."""
    paths = sorted(root.glob("notebooks/**/*.ipynb"), key=lambda path: (path.name != "analysis.ipynb", path))
    return pl.DataFrame([row(path, root) for path in paths])


if __name__ == "__main__":
    with pl.Config(tbl_rows=-1, tbl_width_chars=120, float_precision=2, tbl_hide_dataframe_shape=True):
        sys.stdout.write(f"{table()}\n")
