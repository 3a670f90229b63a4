"""Details of the published program that are not async: each changed alone, on the loop and on two executors.

A variant `nonbox (small error)` is `nonbox` with that detail changed; `(lean)` has all of the lean choices.
"""

import polars as pl

from async_cost.statistics.measured import Measured

_NAME = r"^(manual|nonbox|box) \((.+)\)$"
#: Other words in parentheses: the best loop, and controls.
_OTHERS = ("best", "A/A")


def is_choice() -> pl.Expr:
    """Whether a row is about a variant with another choice."""
    word = pl.col("variant").str.extract(_NAME, 2)
    return word.is_not_null() & ~word.is_in(_OTHERS)


def effects(measured: Measured) -> pl.DataFrame:
    """What each choice does to each server, compared with the same server as described: the table of comparisons,
    server, choice.
    """
    return _named(measured).filter(pl.col("baseline_variant") == pl.col("server"))


def gaps(measured: Measured) -> pl.DataFrame:
    """The executors compared with the loop, both with the same choice: the table of comparisons, server, choice."""
    return _named(measured).filter(pl.col("baseline_variant") == pl.format("manual ({})", "choice"))


def _named(measured: Measured) -> pl.DataFrame:
    server, choice = (pl.col("variant").str.extract(_NAME, group) for group in (1, 2))
    return measured.comparisons.filter(is_choice()).with_columns(server=server, choice=choice)
