"""The one interval: of a median over rounds, by order statistics.

How many of n values lie below their true median is binomial, whatever their distribution. So two of the sorted values, by their ranks
alone, hold the median with a known probability (David and Nagaraja, Order Statistics, 2003, section 7.1). Nothing is drawn by lot, the interval
of a ratio turned round is the interval turned round, and hundreds of runs cost no more than sorting.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import polars as pl
from scipy import stats

from async_cost.runs.comparisons import KEY

#: Share of intervals that are to hold the truth.
CONFIDENCE = 0.95


@lru_cache(maxsize=256)
def ranks(rounds: int, confidence: float = CONFIDENCE) -> tuple[int, int]:
    """Which of `rounds` sorted values, counted from 0, bound the interval of their median with at least `confidence`.

    With too few rounds for that it is the smallest and the largest: less than six for 95 %.
    """
    below = int(stats.binom.ppf((1 - confidence) / 2, rounds, 0.5))
    low = max(below - 1, 0)
    return low, rounds - 1 - low


def enough(rounds: int, confidence: float = CONFIDENCE) -> bool:
    """Whether the smallest and the largest of `rounds` values hold their median with `confidence`."""
    return 2 * 0.5**rounds <= 1 - confidence


def estimates(
    frame: pl.DataFrame, value: str = "ratio", by: Sequence[str] = KEY, confidence: float = CONFIDENCE
) -> pl.DataFrame:
    """The median of `value` over rounds, with its interval (95 % by default): by..., value, low, high, q1, q3, rounds.

    q1 and q3 are the quartiles over rounds, for charts. No rows give no estimates; less than two rounds raise ValueError.
    """
    values = pl.col(value)
    found = frame.group_by(by).agg(
        values.median(),
        values.sort().alias("sorted"),
        values.quantile(0.25, "linear").alias("q1"),
        values.quantile(0.75, "linear").alias("q3"),
        pl.len().cast(pl.Int64).alias("rounds"),
    )
    counts = found["rounds"].unique()
    if counts.len() and counts.min() < 2:
        raise ValueError("an interval needs at least two rounds")
    ends = [(rounds, *ranks(rounds, confidence)) for rounds in counts]
    ends = pl.DataFrame(ends, schema=dict.fromkeys(("rounds", "first", "last"), pl.Int64), orient="row")
    return (
        found.join(ends, on="rounds")
        .with_columns(low=pl.col("sorted").list.get(pl.col("first")), high=pl.col("sorted").list.get(pl.col("last")))
        .select(*by, value, "low", "high", "q1", "q3", "rounds")
        .sort(*by)
    )


def relative_standard_error(values: np.ndarray) -> tuple[float, float, float]:
    """The relative standard error of the mean of `values`, one for each round, and its 95 % interval.

    It is a spread and no median, so no two ranks bound it: the interval is a percentile bootstrap over rounds, with a fixed seed so that
    the same run gives the same words. Less than two rounds raise ValueError.
    """
    if len(values) < 2:
        raise ValueError("an interval needs at least two rounds")

    def error(sample: np.ndarray, axis: int = -1) -> np.ndarray:
        return sample.std(axis=axis, ddof=1) / np.sqrt(sample.shape[axis]) / sample.mean(axis=axis)

    result = stats.bootstrap(
        (values,),
        error,
        method="percentile",
        confidence_level=CONFIDENCE,
        n_resamples=4000,
        rng=np.random.default_rng(1),
    )
    return float(error(values)), float(result.confidence_interval.low), float(result.confidence_interval.high)


def added_time(ratios: pl.DataFrame, units: int, by: Sequence[str] = KEY) -> pl.DataFrame:
    """What is added to one of the `units` of work of an iteration, of rows with added_ns: by..., added_ns, low, high, q1, q3, rounds."""
    return estimates(ratios.with_columns(pl.col("added_ns") / units), "added_ns", by)


def row(frame: pl.DataFrame, **key: str) -> dict | None:
    """The one row with these key columns, None where there is none. Raises ValueError when there are several."""
    found = frame.filter(**key) if key else frame
    if found.height > 1:
        raise ValueError(f"{found.height} rows for {key}")
    return found.row(0, named=True) if found.height else None
