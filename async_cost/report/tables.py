"""Tables of a page: a frame whose columns are text, as a reader shall see them, and expressions that make such
columns.
"""

from collections.abc import Callable

import polars as pl
from great_tables import GT

from async_cost import words
from async_cost.runs.comparisons import ADDRESSED, address


def table(frame: pl.DataFrame, title: str | None = None) -> GT | None:
    """The frame as a table in which nothing known is a dash; None for one without rows."""
    if frame.is_empty():
        return None
    links = [name for name, cells in frame.to_dict().items() if cells.dtype == pl.String and _has_links(cells)]
    shown = GT(frame).fmt_markdown(links).sub_missing(missing_text=words.NOTHING)
    return shown.tab_header(title) if title else shown


def _has_links(cells: pl.Series) -> bool:
    return bool(cells.str.contains(f"](#{words.ASKED}", literal=True).any())


def text(show: Callable[..., str], *columns: str) -> pl.Expr:
    """What `show` (one of `words`) says of the values of these columns, such as a ratio and its ends; null where the
    first is.
    """

    def shown(row: dict[str, object]) -> str | None:
        return None if row[columns[0]] is None else show(*row.values())

    return pl.struct(columns).map_elements(shown, pl.String)


def asked(show: Callable[..., str], *columns: str) -> pl.Expr:
    """The same for rows of the table of comparisons: each number is a link to where it comes from."""

    def shown(row: dict[str, object]) -> str | None:
        if row[columns[0]] is None:
            return None
        return words.asked(show(*(row[name] for name in columns)), address(row))

    return pl.struct(list(dict.fromkeys((*columns, *ADDRESSED)))).map_elements(shown, pl.String)


#: A ratio as a number with the digits that its interval supports.
BARE_RATIO = asked(words.bare_ratio, "ratio", "low", "high")
