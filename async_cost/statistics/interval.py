"""The one interval: for the centre of a ratio or a time over the processes and rounds of a run.

A process has its own memory layout, and therefore its own speed, which more rounds do not average out. So within an
episode (a process) the value is the median over its rounds, and over episodes the mean of these medians, with a t
interval: that of the random-effects model of a balanced one-way layout, which includes the variance within processes
and between them (Kalibera and Jones 2013; Searle, Casella, McCulloch, Variance Components, 1992, chapter 3). A process
that met a busy moment is far off, so the mean is trimmed: without the lowest and the highest fifth of the episodes,
with the matching standard error (Tukey and McLaughlin 1963). For normal values such an interval is 8 % wider than the
untrimmed one; when one process in seven differs six times as much as the others, it is half as wide.

With fewer than `LEAST_EPISODES` it is the median over all rounds, bounded by order statistics. How many of n values lie
below their true median is binomial, whatever their distribution. So two of the sorted values, chosen by rank alone,
enclose the median with a known probability (David and Nagaraja, Order Statistics, 2003, section 7.1). This does not
cover the variance between processes.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
import polars as pl
from scipy import special

from async_cost.runs.comparisons import KEY

#: A number, or a column of them.
Number = TypeVar("Number", float, pl.Expr)
#: Share of intervals that should contain the truth.
CONFIDENCE = 0.95
#: Least number of episodes whose spread is used. With three, the quantile of t is above 4 and the standard deviation
#: hardly known.
LEAST_EPISODES = 4
#: Share of the episodes that is left out at either end.
TRIM = 0.2


@lru_cache(maxsize=256)
def ranks(rounds: int, confidence: float = CONFIDENCE) -> tuple[int, int]:
    """Which of `rounds` sorted values, counted from 0, bound the interval of their median with at least `confidence`.

    With too few rounds for that it is the smallest and the largest: less than six for 95 %.
    """
    below = int(np.searchsorted(special.bdtr(np.arange(rounds + 1), rounds, 0.5), (1 - confidence) / 2))
    low = max(below - 1, 0)
    return low, rounds - 1 - low


@lru_cache(maxsize=256)
def quantile(episodes: int, confidence: float = CONFIDENCE) -> float:
    """Half the width of an interval over `episodes`, in standard errors: of t with their degrees of freedom, or normal
    for order statistics.
    """
    share = (1 + confidence) / 2
    return float(special.stdtrit(freedom(episodes), share) if episodes >= LEAST_EPISODES else special.ndtri(share))


def freedom(episodes: int) -> int:
    """Degrees of freedom of the standard error over this many episodes: one less than remain after trimming."""
    return episodes - 2 * int(TRIM * episodes) - 1


def trimmed(within: pl.DataFrame, value: str, by: Sequence[str]) -> pl.DataFrame:
    """The trimmed mean of `value` over the rows of each group: by..., mean, error (its standard error), episodes
    (rows).

    The error is that of the Winsorized values: the trimmed ones are replaced by the nearest that remain.
    """
    order, number, cut = pl.col(value).sort(), pl.len().cast(pl.Int64), (TRIM * pl.len()).floor().cast(pl.Int64)
    ends = order.get(cut), order.get(number - 1 - cut)
    left = number - 2 * cut
    # Of the sorted values: a sum in another order, as threads have it, ends in other digits.
    spread = order.clip(*ends).std() * ((number - 1) / (left * (left - 1))).sqrt()
    return within.group_by(by).agg(
        order.slice(cut, left).mean().alias("mean"), spread.alias("error"), number.alias("episodes")
    )


def after_looks(looks: int, confidence: float = CONFIDENCE) -> float:
    """The confidence that each of `looks` intervals for one truth needs so that all of them contain it with
    `confidence`: Bonferroni, which is valid however much was measured between the looks, and whatever that depended on
    (Jennison and Turnbull, Group Sequential Methods, 2000, chapter 9).
    """
    return 1 - (1 - confidence) / looks


def enough(rounds: int, episodes: int = 1, confidence: float = CONFIDENCE) -> bool:
    """Whether an interval over this many rounds and episodes can contain the truth with `confidence`."""
    return episodes >= LEAST_EPISODES or 2 * 0.5**rounds <= 1 - confidence


def estimates(frame: pl.DataFrame, value: str = "ratio", by: Sequence[str] = KEY) -> pl.DataFrame:
    """`value` over episodes and rounds (columns of `frame`), with its interval: by..., value, low, high, q1, q3,
    rounds, episodes, quantile.

    q1 and q3 are the quartiles over all rounds, for charts; quantile is half the width of the interval in standard
    errors. An episode that lacks a value does not count for it. If `frame` has a column `looks` (how often the run is
    judged), all intervals for one truth together contain it with 95 %. No rows give no estimates; less than two rounds
    raise ValueError.
    """
    looks = pl.col("looks").first() if "looks" in frame.columns else pl.lit(1).first()
    over = trimmed(frame.group_by(*by, "episode").agg(pl.col(value).median()), value, by)
    found = medians(frame, value, by).join(over, on=by).join(frame.group_by(by).agg(looks=looks), on=by)
    # With too few processes nothing is evidence, and the order statistics are those of one look.
    looked = found.select("episodes", pl.when(pl.col("episodes") >= LEAST_EPISODES).then("looks").otherwise(1))
    known = [quantile(episodes, after_looks(looks)) for episodes, looks in looked.rows()]
    found = found.with_columns(quantile=pl.Series(known, dtype=pl.Float64))
    several, half = pl.col("episodes") >= LEAST_EPISODES, pl.col("quantile") * pl.col("error")
    return (
        found.with_columns(
            pl.when(several).then("mean").otherwise(value).alias(value),
            low=pl.when(several).then(pl.col("mean") - half).otherwise("low"),
            high=pl.when(several).then(pl.col("mean") + half).otherwise("high"),
        )
        .select(*by, value, "low", "high", "q1", "q3", "rounds", "episodes", "quantile")
        .sort(*by)
    )


def medians(frame: pl.DataFrame, value: str, by: Sequence[str] = KEY, confidence: float = CONFIDENCE) -> pl.DataFrame:
    """The median of `value` over rounds, bounded by order statistics, regardless of the process that measured them:
    by..., value, low, high, q1, q3, rounds.

    For values too sparse to exist in every episode. Otherwise like `estimates`.
    """
    values = pl.col(value)
    found = frame.group_by(by).agg(
        values.median().cast(pl.Float64),
        values.sort().cast(pl.Float64).alias("sorted"),
        values.quantile(0.25, "linear").alias("q1"),
        values.quantile(0.75, "linear").alias("q3"),
        pl.len().cast(pl.Int64).alias("rounds"),
    )
    counts = found["rounds"].unique()
    if counts.len() and counts.min() < 2:
        raise ValueError("an interval needs at least two rounds")
    bounds = [(rounds, *ranks(rounds, confidence)) for rounds in counts]
    ends = pl.DataFrame(bounds, schema=dict.fromkeys(("rounds", "first", "last"), pl.Int64), orient="row")
    return (
        found.join(ends, on="rounds")
        .with_columns(low=pl.col("sorted").list.get(pl.col("first")), high=pl.col("sorted").list.get(pl.col("last")))
        .select(*by, value, "low", "high", "q1", "q3", "rounds")
        .sort(*by)
    )


def chances(frame: pl.DataFrame, value: str, by: Sequence[str] = KEY) -> pl.DataFrame:
    """How likely a `value` whose true value is 0 is to be this far off, on either side: by..., chance (a p-value).

    Student's t test of the mean over all episodes: a process that is far off makes it cautious, while the trimmed mean
    of `estimates` has a slightly heavier tail than t, which matters to Holm's procedure over 40 controls (it would
    refuse 6 to 7.5 % of honest runs instead of 5). With too few episodes it is the exact sign test over rounds, in
    which a value of exactly 0 counts for neither side.
    """
    medians = pl.col(value).sort()
    over = (
        frame.group_by(*by, "episode")
        .agg(medians.median())
        .group_by(by)
        .agg(medians.mean().alias("mean"), (medians.std() / pl.len().sqrt()).alias("error"), pl.len().alias("episodes"))
    )
    signs = frame.group_by(by).agg(above=(pl.col(value) > 0).sum(), below=(pl.col(value) < 0).sum())
    over = over.join(signs, on=by)
    mean, error, episodes, above, below = (
        over[name].cast(pl.Float64).fill_null(0.0).to_numpy()
        for name in ("mean", "error", "episodes", "above", "below")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where((mean == 0) & (error == 0), 0.0, np.abs(mean) / error)
    of_t = 2 * special.stdtr(np.maximum(episodes - 1, 1), -far)
    of_signs = np.minimum(1.0, 2 * special.bdtr(np.minimum(above, below), (above + below).astype(int), 0.5))
    chance = np.where(episodes >= LEAST_EPISODES, of_t, of_signs)
    return over.select(by).with_columns(chance=pl.Series(chance, dtype=pl.Float64)).sort(*by)


def widened(value: Number, low: Number, high: Number, more: Number) -> tuple[Number, Number]:
    """Both ends of an interval to which an independent error of half width `more` was added: as squares, for each side
    separately.
    """
    return value - ((value - low) ** 2 + more**2) ** 0.5, value + ((high - value) ** 2 + more**2) ** 0.5


def row(frame: pl.DataFrame, **key: str) -> dict | None:
    """The one row with these key columns, None if there is none. Raises ValueError if there are several."""
    found = frame.filter(**key) if key else frame
    if found.height > 1:
        raise ValueError(f"{found.height} rows for {key}")
    return found.row(0, named=True) if found.height else None
