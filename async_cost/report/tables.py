"""Tables of a page: a frame whose columns are text or numbers, as a reader shall see them, folded under its title.

On a page a table with a title can be sorted by each column and filtered by words (tables.js).
"""

from collections.abc import Iterable
from html import escape
from typing import Any

import polars as pl
from great_tables import GT
from IPython.display import HTML

from async_cost import words
from async_cost.report import numbers
from async_cost.runs.comparisons import address
from async_cost.statistics.judge import CONTRADICTED, Verdict

#: Under which name the metadata of an output holds the addresses of the comparisons whose numbers it shows.
ROWS = "rows"


class Table(HTML):
    """HTML whose output also holds the addresses of the comparisons that it shows."""

    def _repr_mimebundle_(self, **_options: Any) -> tuple[dict[str, str], dict[str, list[str]]]:
        return {"text/html": self.data, "text/plain": "a table"}, self.metadata


def table(frame: pl.DataFrame, title: str | None = None, rows: Iterable[str] = ()) -> Table | None:
    """The frame as a table in which nothing known is a dash, folded if it has a title; None for one without rows.
    `rows` are the addresses of the comparisons that its numbers link to.
    """
    if frame.is_empty():
        return None
    texts = frame.select(pl.selectors.string())
    links = [cells.name for cells in texts if cells.str.contains(f"](#{words.NOTE}", literal=True).any()]
    shown = GT(frame).fmt_markdown(links).sub_missing(missing_text=words.NOTHING)
    html = shown.as_raw_html()
    if title is not None:
        head = f"{escape(title)} ({words.counted(frame.height, 'row')})"
        html = f'<details class="fold"><summary>{head}</summary>{html}</details>'
    return Table(html, metadata={ROWS: list(rows)})


def comparison_table(frame: pl.DataFrame, title: str) -> Table | None:
    """Rows of `Reading.comparisons` with all that is known of each, and why there is no verdict where there is none."""

    several = frame["study"].n_unique() > 1

    def shown(row: dict) -> dict:
        where = address(row)
        other = row["baseline_parameter"] != row["parameter"]
        return {
            "study": row["study"] if several else None,
            "variant": row["variant"] + (f" ({row['bench']})" if not row["bench"].startswith(row["variant"]) else ""),
            "compared with": row["baseline_variant"] + (f" ({row['baseline_parameter']})" if other else ""),
            "parameter": row["parameter"],
            "ratio [95 %]": numbers.value(numbers.RATIO, row["ratio"], row["low"], row["high"], where),
            f"more {words.one(row['unit'] or 'iteration')}": numbers.added(row),
            "published": None if row["published"] is None else words.number(row["published"]),
            "verdict": _word(row),
        }

    rows = pl.DataFrame([shown(row) for row in frame.iter_rows(named=True)], infer_schema_length=None)
    shown_rows = filter(None, map(address, frame.iter_rows(named=True)))
    return table(rows.select(column.name for column in rows if column.null_count() < rows.height), title, shown_rows)


def _word(row: dict) -> str | None:
    """The verdict of a comparison, and what contradicts what if that leaves it undecided; else why there is none."""
    if row["verdict"] == Verdict.UNDECIDED and (why := row["to_decide"] or "").startswith(CONTRADICTED):
        return f"undecided: {why.removeprefix(CONTRADICTED)}"
    return row["verdict"] or row["doubt"]


def time_text(column: str) -> pl.Expr:
    """Nanoseconds of a column in the most readable unit, as text."""
    return pl.col(column).map_elements(words.time, pl.String)
