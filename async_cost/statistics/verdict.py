"""From an interval to a word.

Two variants are practically equivalent when their ratio lies within +-1 %, or within what their group of comparisons declares: below that,
where the linker puts a function, or which thread wakes first, matters more than what was changed. An interval entirely above that region
says slower, entirely below faster, entirely inside same; one that reaches across a border leaves the question undecided.
"""

from enum import StrEnum

import polars as pl

from async_cost.runs.record import LIMIT
from async_cost.statistics.trust import Trust

#: Half the width of the region of practical equivalence around 1, unless a group of comparisons declares another.
EQUIVALENCE = LIMIT


class Verdict(StrEnum):
    """What a run says about a ratio of times."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNDECIDED = "undecided"


#: The words in the order of a legend.
VERDICTS = pl.Enum([verdict.value for verdict in Verdict])


def verdict(low: float, high: float, equivalence: float = EQUIVALENCE) -> Verdict:
    """The word for the interval [low, high] of a ratio of times (1 is equal)."""
    if low > 1 + equivalence:
        return Verdict.SLOWER
    if high < 1 - equivalence:
        return Verdict.FASTER
    if low >= 1 - equivalence and high <= 1 + equivalence:
        return Verdict.SAME
    return Verdict.UNDECIDED


def with_verdicts(estimated: pl.DataFrame, trust: Trust, equivalence: float | pl.Expr = EQUIVALENCE) -> pl.DataFrame:
    """Adds the column `verdict` to a frame with low and high of a ratio.

    `equivalence` is one half-width for all rows, or an expression for the column that holds each row's own. When the run is not
    trusted the column is null throughout, so whatever is made of it concludes nothing.
    """
    return estimated.with_columns(verdict_column(pl.lit(trust.trusted), equivalence))


def verdict_column(trusted: pl.Expr, equivalence: float | pl.Expr = EQUIVALENCE) -> pl.Expr:
    """The same as an expression over a frame with low and high, null where `trusted` is false; named verdict."""
    low, high = pl.col("low"), pl.col("high")
    word = (
        pl.when(~trusted)
        .then(None)
        .when(low > 1 + equivalence)
        .then(pl.lit(Verdict.SLOWER.value))
        .when(high < 1 - equivalence)
        .then(pl.lit(Verdict.FASTER.value))
        .when((low >= 1 - equivalence) & (high <= 1 + equivalence))
        .then(pl.lit(Verdict.SAME.value))
        .otherwise(pl.lit(Verdict.UNDECIDED.value))
    )
    return word.cast(VERDICTS).alias("verdict")
