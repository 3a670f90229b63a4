"""Tables of a page: a frame whose columns are already text, as a reader shall see them."""

import polars as pl
from great_tables import GT

from async_cost import words


def table(frame: pl.DataFrame, title: str | None = None) -> GT | None:
    """The frame as a table in which nothing known is a dash; None for one without rows."""
    if frame.is_empty():
        return None
    shown = GT(frame).sub_missing(missing_text=words.NOTHING)
    return shown.tab_header(title) if title else shown
