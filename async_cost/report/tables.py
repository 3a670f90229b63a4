"""Tables of a page: with a title, they are folded, and can be sorted and filtered (tables.js)."""

from collections.abc import Iterable
from html import escape
from typing import Any

import polars as pl
from great_tables import GT
from IPython.display import HTML

from async_cost import words
from async_cost.report import figures
from async_cost.runs.comparisons import address
from async_cost.statistics.judge import CONTRADICTED, Verdict

#: Under which name the metadata of an output holds the addresses of the comparisons whose numbers it shows.
ROWS = "rows"
#: Columns of a comparison whose cells come from a file: a name may look like markup.
NAMES = ("variant", "compared with", "parameter")


class Table(HTML):
    """HTML whose output has metadata."""

    def _repr_mimebundle_(self, **_options: Any) -> tuple[dict[str, str], Any]:
        return {"text/html": self.data, "text/plain": "a table"}, self.metadata


def table(frame: pl.DataFrame, title: str | None = None, rows: Iterable[str] = ()) -> Table | None:
    """Return the frame as a table in which what is not known is a dash, folded if it has a title; None without rows.
    Columns with bold texts or links to notes are Markdown, but for those of names. `rows` are the addresses of the
    comparisons that these are.
    """
    if frame.is_empty():
        return None
    texts = frame.select(pl.selectors.string() - pl.selectors.by_name(*NAMES, require_all=False))
    markdown = [cells.name for cells in texts if cells.str.contains(rf"\]\(#{words.NOTE}|^\*\*.*\*\*$").any()]
    html = GT(frame).fmt_markdown(markdown).sub_missing(missing_text=words.NOTHING).as_raw_html()
    if title is not None:
        head = f"{escape(title)} ({words.counted(frame.height, 'row')})"
        html = f'<details class="fold"><summary>{head}</summary>{html}</details>'
    return Table(html, metadata={ROWS: list(rows)})


def comparison_table(frame: pl.DataFrame, title: str) -> Table | None:
    """Return rows of `Reading.comparisons` with what is known of each, and why there is no verdict where there is
    none.
    """
    several = frame["study"].n_unique() > 1

    def shown(row: dict) -> dict:
        other = row["baseline_parameter"] != row["parameter"]
        return {
            "study": row["study"] if several else None,
            "variant": row["variant"] + (f" ({row['bench']})" if not row["bench"].startswith(row["variant"]) else ""),
            "compared with": row["baseline_variant"] + (f" ({row['baseline_parameter']})" if other else ""),
            "parameter": row["parameter"],
            "ratio [95 %]": figures.value(figures.RATIO, row["ratio"], row["low"], row["high"], address(row)),
            f"more {words.one(row['unit'] or 'iteration')}": figures.added(row),
            "published": None if row["published"] is None else words.number(row["published"]),
            "processor time": _processor_time(row),
            "busy threads": _busy(row),
            "verdict": _word(row),
        }

    given = frame.rows(named=True)
    rows = pl.DataFrame(map(shown, given), infer_schema_length=None)
    known = [column.name for column in rows if column.null_count() < rows.height]
    return table(rows.select(known), title, filter(None, map(address, given)))


def _processor_time(row: dict) -> str | None:
    """Return by how much that of all threads differs, and that of each side, if the study looks and it can be told."""
    mine, other = row["cpu_ns"], row["baseline_cpu_ns"]
    if not (mine and other):
        return None
    return f"{words.number(mine / other)}{words.TIMES} ({words.time(mine)} / {words.time(other)})"


def _busy(row: dict) -> str | None:
    """How many threads of each side were busy, if the study looks; the caller of `block_on` counts."""
    sides = row["busy"], row["baseline_busy"]
    return None if None in sides else " / ".join(f"{threads:g}" for threads in sides)


def _word(row: dict) -> str | None:
    """The verdict of a comparison, and what contradicts what if that leaves it undecided; else why there is none."""
    if row["verdict"] == Verdict.UNDECIDED and (why := row["to_decide"] or "").startswith(CONTRADICTED):
        return f"undecided: {why.removeprefix(CONTRADICTED)}"
    return row["verdict"] or row["doubt"]


def time_text(column: str) -> pl.Expr:
    """Return the nanoseconds of a column in the most readable unit, as text."""
    return pl.col(column).map_elements(words.time, pl.String)
