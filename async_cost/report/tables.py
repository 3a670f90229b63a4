"""Tables of a page: a frame whose columns are text, as a reader shall see them, and expressions that make such
columns.
"""

from collections.abc import Callable

import polars as pl
from great_tables import GT

from async_cost import words


def table(frame: pl.DataFrame, title: str | None = None) -> GT | None:
    """The frame as a table in which nothing known is a dash; None for one without rows."""
    if frame.is_empty():
        return None
    shown = GT(frame).sub_missing(missing_text=words.NOTHING)
    return shown.tab_header(title) if title else shown


def text(show: Callable[..., str], *columns: str) -> pl.Expr:
    """What `show` (one of `words`) says of the values of these columns, such as a ratio and its ends; null where the
    first is.
    """

    def shown(row: dict[str, object]) -> str | None:
        return None if row[columns[0]] is None else show(*row.values())

    return pl.struct(columns).map_elements(shown, pl.String)


#: A ratio as a number with the digits that its interval supports.
BARE_RATIO = text(words.bare_ratio, "ratio", "low", "high")
