"""How the notebooks read: how long their cells are, how many of them come right after prose, and how many charts are
read right after.

    python tests/notebook_table.py

prints a row for each notebook, and the totals; test_notebook_table.py has the limits.
"""

import ast
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import nbformat
import polars as pl

ROOT = Path(__file__).resolve().parent.parent


def lines(source: str) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in source.splitlines())


def is_prose(cell: nbformat.NotebookNode) -> bool:
    """Whether a cell is a paragraph: written, computed, or findings that a run judges."""
    return cell.cell_type == "markdown" or bool(SAYS.search(cell.source))


#: What makes a code cell a paragraph, and a chart.
SAYS = re.compile(r"^(?:say|ac\.say|run\.finding)\(|^    ac\.say\(", re.MULTILINE)
DRAWS = ("charts.", "ac.intervals", "ac.lines", "ac.matrix", "ac.slope", "ac.staircase", "alt.Chart")


def drawn(cells: Sequence[nbformat.NotebookNode]) -> list[int]:
    """The places of the cells that show a chart: they end in a call of `charts`, or of a function of the notebook that
    makes one by it.
    """
    trees = {place: ast.parse(cell.source) for place, cell in enumerate(cells) if cell.cell_type == "code"}
    makers = {
        name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.Assign) and any(name in ast.unparse(node) for name in DRAWS)
        for name in ([node.name] if isinstance(node, ast.FunctionDef) else map(ast.unparse, node.targets))
    }

    def draws(node: ast.stmt) -> bool:
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
            return False
        called = ast.unparse(node.value.func)
        return called in makers or (called.startswith(DRAWS) and called != "charts.enable")

    return [place for place, tree in trees.items() if tree.body and draws(tree.body[-1])]


def row(path: Path, root: Path = ROOT) -> dict[str, object]:
    """What the table says of one notebook.

    `after_prose` is the share of code cells that follow written prose; `words` are those of written prose for each
    line of code; `charts` are shown, and `read` of them in the
    next cell, by a paragraph.
    """
    content = nbformat.read(path, as_version=4)
    cells = [cell for cell in content.cells if cell.source.strip()]
    charts = drawn(cells) if content.metadata.kernelspec.language == "python" else []
    read = [is_prose(cells[place + 1]) and not cells[place + 1].source.startswith("#") for place in charts]
    code = [place for place, cell in enumerate(cells) if cell.cell_type == "code"]
    after = [place > 0 and cells[place - 1].cell_type == "markdown" for place in code]
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
        "charts": len(charts),
        "read": sum(read),
    }


def total(rows: pl.DataFrame) -> pl.DataFrame:
    """What analyses have together, and the other notebooks."""
    analyses = pl.col("notebook").str.ends_with("/analysis")
    kind = pl.when(analyses).then(pl.lit("analyses")).otherwise(pl.lit("Rust"))
    return rows.group_by(notebooks=kind, maintain_order=True).agg(
        pl.len().alias("number"), pl.col("cells", "lines", "charts", "read").sum()
    )


def table(root: Path = ROOT) -> pl.DataFrame:
    """All notebooks, those of analyses first."""
    paths = sorted(root.glob("notebooks/**/*.ipynb"), key=lambda path: (path.name != "analysis.ipynb", path))
    return pl.DataFrame([row(path, root) for path in paths])


if __name__ == "__main__":
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_width_chars=140, float_precision=2, tbl_hide_dataframe_shape=True):
        rows = table()
        sys.stdout.write(f"{rows}\n{total(rows)}\n")
