"""The one interval: for a ratio or a time over the hours, the link orders and the processes of a series.

The model, on a scale on which errors are added (logarithms of ratios): value = truth + hour + process. A sitting is an
hour of its own; in it each process has a link order and a memory layout of its own. Within a process the value is the
median over its rounds; over processes and over sittings it is the plain mean, since a process that differs is one of
those that a reader may get.

Few sittings say little about their own variance. So it is moderated over the comparisons of a pool (a study's, of one
kind), as limma does with genes (Smyth 2004): the variance between hours, `omega2`, is what a pool has in common; what
processes alone would give, `v`, is a comparison's own; both together are the prior of the variance s2 between its
sittings, with as many degrees of freedom, `d0`, as the spread of all s2 of the pool around their priors shows. Degrees
of freedom are added as Satterthwaite (1946) does. With one sitting and a known `omega2` the prior is all there is; if
that is unknown as well, the interval is the t interval over processes and does not cover another hour.

With fewer than `LEAST_EPISODES` processes it is the median over all rounds, bounded by order statistics. How many of n
values lie below their true median is binomial, whatever their distribution. So two of the sorted values, chosen by rank
alone, enclose the median with a known probability (David and Nagaraja, Order Statistics, 2003, section 7.1).
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
import polars as pl
from scipy import special

from async_cost.runs.comparisons import KEY

#: A number, or a column of them.
Number = TypeVar("Number", float, pl.Expr)
#: Share of intervals that should contain the truth.
CONFIDENCE = 0.95
#: Least number of processes whose spread is used. With three, the quantile of t is above 4 and the standard deviation
#: hardly known.
LEAST_EPISODES = 4
#: The columns of an estimate, besides what it is of and its value.
ESTIMATE = ("low", "high", "q1", "q3", "rounds", "episodes", "sittings", "error", "freedom", "quantile", "chance")
#: Degrees of freedom in place of those of order statistics, whose width is given in normal standard errors.
RANKS = 1e9


def ranks(rounds: int, confidence: float = CONFIDENCE) -> tuple[int, int]:
    """Which of `rounds` sorted values, counted from 0, bound the interval of their median with at least `confidence`.

    With too few rounds for that it is the smallest and the largest: less than six for 95 %.
    """
    below = int(np.searchsorted(special.bdtr(np.arange(rounds + 1), rounds, 0.5), (1 - confidence) / 2))
    low = max(below - 1, 0)
    return low, rounds - 1 - low


def quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Half the width of an interval, in standard errors with so many degrees of freedom."""
    return float(special.stdtrit(freedom, (1 + confidence) / 2))


def enough(rounds: int, episodes: int = 1) -> bool:
    """Whether an interval over this many rounds and processes can contain the truth with `CONFIDENCE`."""
    return episodes >= LEAST_EPISODES or 2 * 0.5**rounds <= 1 - CONFIDENCE


def of_sittings(frame: pl.DataFrame, value: str, by: Sequence[str]) -> pl.DataFrame:
    """What each sitting says of `value`: by..., sitting, mean, within (variance between processes), count (of them).

    A frame without a column `sitting` is of one. Sorted, so that sums end in the same digits whatever the order of
    rows.
    """
    frame = frame if "sitting" in frame.columns else frame.with_columns(sitting=0)
    processes = frame.group_by(*by, "sitting", "episode").agg(pl.col(value).median()).sort(*by, "sitting", "episode")
    mean, variance, count = pl.col(value).mean(), pl.col(value).var(), pl.len().cast(pl.Int64)
    return processes.group_by(*by, "sitting", maintain_order=True).agg(mean=mean, within=variance, count=count)


def spreads(sittings: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """What rows of `of_sittings` say together: by..., mean, within, v (the part of within that is left in the mean of a
    sitting), free (its degrees of freedom), s2 (variance between the means of sittings), moves (each mean less
    that of all), sittings, episodes.
    """
    return sittings.group_by(by, maintain_order=True).agg(
        pl.col("mean").mean(),
        pl.col("within").mean(),
        v=(pl.col("within") / pl.col("count")).mean().fill_null(0.0),
        free=(pl.col("count") - 1).sum(),
        s2=pl.col("mean").var(),
        moves=pl.col("mean") - pl.col("mean").mean(),
        sittings=pl.len().cast(pl.Int64),
        episodes=pl.col("count").sum(),
    )


def hours(found: pl.DataFrame) -> pl.DataFrame:
    """`omega2` and `d0` of each pool of comparisons in which some have several sittings: pool, omega2, d0. Rows of
    `spreads` with pool and keys, the number of keys that the pool compares.

    `d0` is that of limma: the variance of log(s2 / prior) beyond what sittings alone explain. Its limit is the number
    of other comparisons that an hour moves independently, times the sittings but one: comparisons that share keys
    repeat one another, and so do those of a study that an hour moves together.
    """
    several = found.filter(pl.col("sittings") > 1).with_columns(free=pl.col("sittings") - 1.0)
    omega2 = (pl.col("s2") - pl.col("v")).mean().clip(0.0).over("pool")
    several = several.with_columns(
        omega2=omega2, prior=pl.col("v") + omega2, most=pl.col("free").mean().over("pool") * pl.col("keys") / 2
    )
    if several.is_empty():
        return several.select("pool", "omega2", d0="most")
    halves = several["free"].to_numpy() / 2
    chance = {"log": special.digamma(halves) - np.log(halves), "spread": special.polygamma(1, halves)}
    several = several.with_columns(pl.Series(name, column, pl.Float64) for name, column in chance.items())
    known = (pl.col("s2") > 0) & (pl.col("prior") > 0)
    logs = ((pl.col("s2") / pl.col("prior")).log() - pl.col("log")).filter(known)
    whole = known & (pl.col("free") == pl.col("free").filter(known).max())
    moves = [
        (pl.col("moves").list.get(place, null_on_oob=True) / pl.col("prior").sqrt()).filter(whole)
        for place in range(max(several["sittings"].to_list()))
    ]
    pools = several.group_by("pool", maintain_order=True).agg(
        pl.col("omega2", "most").first(),
        free=pl.col("free").filter(known).max(),
        beyond=logs.var() - pl.col("spread").filter(known).mean(),
        trace=pl.sum_horizontal((one**2).sum() for one in moves),
        square=pl.sum_horizontal((one * other).sum() ** 2 for one in moves for other in moves),
    )
    free, beyond, most = (pools[name].cast(pl.Float64).to_numpy() for name in ("free", "beyond", "most"))
    others = _independent(pools["trace"].to_numpy() ** 2 / pools["square"].to_numpy(), free) - 1  # than itself
    most = np.minimum(most, free * others)
    # Nearly nothing beyond: as many degrees of freedom as there may be. One comparison has nothing besides itself.
    d0 = np.where(beyond < 0.02, most, np.minimum(most, 2 * _inverse_of_trigamma(np.maximum(beyond, 0.02))))
    return pools.select("pool", "omega2", d0=pl.Series(d0).fill_nan(0.0))


def _independent(ratio: np.ndarray, sittings: np.ndarray) -> np.ndarray:
    """How many of the moves of comparisons over `sittings` and one more are independent. `ratio` is that of the squared
    trace of the matrix of their products and the trace of its square: of so many, the means of both are those of
    Wishart's distribution. Two sittings cannot tell.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.maximum(1.0, (ratio * (sittings + 1) - 2) / (sittings - ratio))
    return np.where((sittings == 1) | (ratio >= sittings), np.inf, found)


def _inverse_of_trigamma(value: np.ndarray) -> np.ndarray:
    """Newton's method, as in limma."""
    found = 0.5 + 1 / value
    for _ in range(50):
        reached = special.polygamma(1, found)
        found = found + reached * (1 - reached / value) / special.polygamma(2, found)
    return found


def moderated(found: pl.DataFrame) -> pl.DataFrame:
    """`found`, which has the columns of `spreads` and pool, keys, omega2 and d0 (null where the pool shall show them),
    with these, and with prior (the variance that was expected of the mean of a sitting), error (the standard error of
    the mean) and freedom.
    """
    shown = hours(found.filter(pl.col("omega2").is_null()))
    found = found.join(shown, on="pool", how="left", maintain_order="left", suffix="_shown")
    found = found.with_columns(pl.coalesce(name, f"{name}_shown") for name in ("omega2", "d0"))
    v, free, s2, sittings, omega2, d0 = (
        found[name].cast(pl.Float64).fill_null(0.0).to_numpy()
        for name in ("v", "free", "s2", "sittings", "omega2", "d0")
    )
    prior, more = v + omega2, sittings - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        variance = np.where(more > 0, (d0 * prior + more * s2) / (d0 + more), prior)
        of_prior = 1 / ((v / prior) ** 2 / np.maximum(free, 1) + (omega2 / prior) ** 2 / np.maximum(d0, 1))
        share = np.where(more > 0, d0 / (d0 + more), 1.0)  # of the prior in the variance
        freedom = 1 / (share**2 / np.where(prior > 0, of_prior, free) + np.where(more > 0, (1 - share) ** 2 / more, 0))
    freedom = np.where(more > 0, np.minimum(freedom, d0 + more), freedom)  # at most as many as limma has
    columns = {"prior": prior, "error": np.sqrt(variance / sittings), "freedom": np.maximum(freedom, 1)}
    return found.with_columns(pl.Series(name, column, pl.Float64) for name, column in columns.items())


def estimates(
    frame: pl.DataFrame,
    value: str = "ratio",
    by: Sequence[str] = KEY,
    pools: pl.DataFrame | None = None,
    **known: float,
) -> pl.DataFrame:
    """`value` over sittings, processes and rounds (columns sitting, episode and a row a round of `frame`), with its
    interval: by..., value, low, high, q1, q3, rounds, episodes, sittings, error, freedom, quantile, chance, omega2, d0,
    prior, within.

    `pools` says what is moderated together: by..., pool, keys, omega2, d0; the last two are null where the pool itself
    shall show them. Without it each value is by itself, with the omega2 and d0 that are `known`. q1 and q3 are the
    quartiles over all rounds, for charts; quantile is half the width of the interval in standard errors; chance is the
    p-value of the value being 0: Student's t with `freedom`, with too few processes the exact sign test over rounds, in
    which a value of exactly 0 counts for neither side. omega2 and d0 are null where the interval does not cover another
    hour, prior and within where it does not cover another process. No rows give no estimates; less than two rounds
    raise ValueError, and a value that is called like another of these columns DuplicateError.
    """
    # Whatever the column is called, it is none of those that are computed of it.
    places = [name for name in ("sitting", "episode") if name in frame.columns]
    frame = frame.select(*by, *places, value=value)
    spread = spreads(of_sittings(frame, "value", by), by)
    found = medians(frame, "value", by).join(spread, on=by, maintain_order="left")
    if pools is None:
        shared = {name: pl.lit(known.get(name), pl.Float64) for name in ("omega2", "d0")}
        pools = found.select(by).with_row_index("pool").with_columns(keys=2, **shared)
    found = moderated(found.join(pools, on=by, how="left", maintain_order="left"))
    several = pl.col("episodes") >= LEAST_EPISODES
    found = found.with_columns(freedom=pl.when(several).then("freedom").otherwise(RANKS))
    mean, error, freedom, above, below = (
        found[name].cast(pl.Float64).to_numpy() for name in ("mean", "error", "freedom", "above", "below")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where((mean == 0) & (error == 0), 0.0, np.abs(mean) / error)
    of_signs = np.minimum(1.0, 2 * special.bdtr(np.minimum(above, below), (above + below).astype(int), 0.5))
    chance = np.where(freedom < RANKS, 2 * special.stdtr(freedom, -far), of_signs)
    found = found.with_columns(
        quantile=pl.Series(special.stdtrit(freedom, (1 + CONFIDENCE) / 2), dtype=pl.Float64),
        chance=pl.Series(chance, dtype=pl.Float64),
    )
    half = pl.col("quantile") * pl.col("error")
    ends = {"value": pl.col("mean"), "low": pl.col("mean") - half, "high": pl.col("mean") + half}
    of_processes = ("omega2", "d0", "prior", "within", "error")
    found = found.with_columns(
        *(pl.when(several).then(end).otherwise(name).alias(name) for name, end in ends.items()),
        *(pl.when(several).then(name).alias(name) for name in of_processes),
    )
    return found.select(*by, pl.col("value").alias(value), *ESTIMATE, "omega2", "d0", "prior", "within")


def centres(frame: pl.DataFrame, value: str, by: Sequence[str] = KEY) -> pl.DataFrame:
    """The `value` of `estimates` without its interval: by..., value."""
    found = of_sittings(frame, value, by).group_by(by).agg(pl.col("mean").mean(), episodes=pl.col("count").sum())
    found = found.join(frame.group_by(by).agg(pl.col(value).median()), on=by, maintain_order="left")
    return found.select(*by, pl.when(pl.col("episodes") >= LEAST_EPISODES).then("mean").otherwise(value).alias(value))


def medians(frame: pl.DataFrame, value: str, by: Sequence[str] = KEY) -> pl.DataFrame:
    """The median of `value` over rounds, bounded by order statistics, regardless of the process that measured them:
    by..., value, low, high, q1, q3, rounds, above and below (rounds above and below 0).
    """
    values = pl.col(value)
    found = frame.group_by(by).agg(
        values.median().cast(pl.Float64),
        values.sort().cast(pl.Float64).alias("sorted"),
        values.quantile(0.25, "linear").alias("q1"),
        values.quantile(0.75, "linear").alias("q3"),
        pl.len().cast(pl.Int64).alias("rounds"),
        above=(values > 0).sum(),
        below=(values < 0).sum(),
    )
    counts = found["rounds"].unique().to_list()
    if any(rounds < 2 for rounds in counts):
        raise ValueError("an interval needs at least two rounds")
    first, last = (
        pl.col("rounds").replace_strict({rounds: ranks(rounds)[end] for rounds in counts}, return_dtype=pl.Int64)
        for end in (0, 1)
    )
    found = found.with_columns(low=pl.col("sorted").list.get(first), high=pl.col("sorted").list.get(last))
    return found.select(*by, value, "low", "high", "q1", "q3", "rounds", "above", "below").sort(*by)


def widened(value: Number, low: Number, high: Number, more: Number) -> tuple[Number, Number]:
    """Both ends of an interval, with an independent error of half width `more` added as squares, on each side."""
    return value - ((value - low) ** 2 + more**2) ** 0.5, value + ((high - value) ** 2 + more**2) ** 0.5
