"""The one interval: for a ratio or a time over the hours, the link orders and the processes of a series
(docs/method.md).

On a scale on which errors are added (logarithms of ratios), value = truth + hour + process: of a process the median
over its rounds, over processes and sittings the plain mean. The variance between sittings, s2, is moderated by a prior
of those of its pool (a study's, of one kind), as limma does with genes (Smyth 2004): `omega2`, the variance between
hours, which a pool has in common, and `v`, what processes alone would give; `d0` are the degrees of freedom of the
prior. With fewer than `LEAST_EPISODES` processes it is the median over all rounds, bounded by order statistics (David
and Nagaraja, Order Statistics, 2003, section 7.1).
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
    """Return which of `rounds` sorted values, from 0, bound the interval of their median with at least `confidence`:
    the smallest and the largest if there are too few, less than six for 95 %.
    """
    below = int(np.searchsorted(special.bdtr(np.arange(rounds + 1), rounds, 0.5), (1 - confidence) / 2))
    low = max(below - 1, 0)
    return low, rounds - 1 - low


def quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return half the width of an interval, in standard errors with so many degrees of freedom."""
    return float(special.stdtrit(freedom, (1 + confidence) / 2))


def of_sittings(frame: pl.DataFrame, value: str, by: Sequence[str]) -> pl.DataFrame:
    """Return the mean and within-variance of `value` over the processes of each sitting, a process being the median of
    its rounds: by..., sitting, mean, within, count (of processes), sorted, so that sums end in the same digits. A frame
    without a column `sitting` is of one sitting.
    """
    frame = frame if "sitting" in frame.columns else frame.with_columns(sitting=0)
    processes = frame.group_by(*by, "sitting", "episode").agg(pl.col(value).median()).sort(*by, "sitting", "episode")
    mean, variance, count = pl.col(value).mean(), pl.col(value).var(), pl.len().cast(pl.Int64)
    return processes.group_by(*by, "sitting", maintain_order=True).agg(mean=mean, within=variance, count=count)


def spreads(sittings: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """Combine the sittings (`of_sittings`): by..., mean, within, v (the part of within that is left in the mean of a
    sitting), free (its degrees of freedom), s2 (variance between the means of sittings), moves (each mean less that of
    all), sittings, episodes.
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


def hours(rows: pl.DataFrame) -> pl.DataFrame:
    """Fit limma's prior per pool: between-hour variance `omega2` and prior degrees of freedom `d0`. A pool in which no
    comparison has several sittings has no row.

    `rows` are those of `spreads` with pool and keys, the number of keys that the pool compares. `d0` is that of limma:
    the variance of log(s2 / prior) beyond what sittings alone explain. Its limit is the number of other comparisons
    that an hour moves independently, times the sittings but one: comparisons that share keys repeat one another, and so
    do those of a study that an hour moves together.
    """
    several = rows.filter(pl.col("sittings") > 1).with_columns(free=pl.col("sittings") - 1.0)
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
        trace=pl.sum_horizontal((move**2).sum() for move in moves),
        square=pl.sum_horizontal((move * other).sum() ** 2 for move in moves for other in moves),
    )
    free, beyond, most = (pools[name].cast(pl.Float64).to_numpy() for name in ("free", "beyond", "most"))
    with np.errstate(invalid="ignore"):  # of a pool in which nothing moves
        ratio = pools["trace"].to_numpy() ** 2 / pools["square"].to_numpy()
    others = _independent(ratio, free) - 1  # than itself
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
        number = np.maximum(1.0, (ratio * (sittings + 1) - 2) / (sittings - ratio))
    return np.where((sittings == 1) | (ratio >= sittings), np.inf, number)


def _inverse_of_trigamma(value: np.ndarray) -> np.ndarray:
    """Newton's method, as in limma."""
    inverse = 0.5 + 1 / value
    for _ in range(50):
        reached = special.polygamma(1, inverse)
        inverse = inverse + reached * (1 - reached / value) / special.polygamma(2, inverse)
    return inverse


def moderated(rows: pl.DataFrame) -> pl.DataFrame:
    """Add prior (the variance that was expected of the mean of a sitting), error (the standard error of the mean) and
    freedom to `rows`: those of `spreads` with pool, keys, omega2 and d0 (null where the pool shall show them).
    """
    shown = hours(rows.filter(pl.col("omega2").is_null()))
    rows = rows.join(shown, on="pool", how="left", maintain_order="left", suffix="_shown")
    rows = rows.with_columns(pl.coalesce(name, f"{name}_shown") for name in ("omega2", "d0"))
    v, free, s2, sittings, omega2, d0 = (
        rows[name].cast(pl.Float64).fill_null(0.0).to_numpy()
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
    return rows.with_columns(pl.Series(name, column, pl.Float64) for name, column in columns.items())


def estimates(
    frame: pl.DataFrame,
    value: str = "ratio",
    by: Sequence[str] = KEY,
    pools: pl.DataFrame | None = None,
    **known: float,
) -> pl.DataFrame:
    """Estimate `value` over sittings, processes and rounds: by..., value, `ESTIMATE`, omega2, d0, prior, within.

    Args:
        frame: a row a round, with by, value, and sitting and episode unless they are one.
        pools: what is moderated together: by..., pool, keys, omega2, d0; the last two are null where the pool itself
            shall show them. Without it each value is by itself, with the omega2 and d0 that are `known`.

    Returns:
        q1 and q3 are the quartiles over all rounds, for charts; quantile is half the width of the interval in standard
        errors; chance is the p-value of the value being 0: Student's t, with too few processes the exact sign test over
        rounds. omega2 and d0 are null where the interval does not cover another hour, prior and within where it does
        not cover another process.

    Raises:
        ValueError: for less than two rounds.
        DuplicateError: for a value that is called like another of these columns.
    """
    # Whatever the column is called, it is none of those that are computed of it.
    places = [name for name in ("sitting", "episode") if name in frame.columns]
    frame = frame.select(*by, *places, value=value)
    spread = spreads(of_sittings(frame, "value", by), by)
    rows = medians(frame, "value", by).join(spread, on=by, maintain_order="left")
    if pools is None:
        shared = {name: pl.lit(known.get(name), pl.Float64) for name in ("omega2", "d0")}
        pools = rows.select(by).with_row_index("pool").with_columns(keys=2, **shared)
    rows = moderated(rows.join(pools, on=by, how="left", maintain_order="left"))
    several = pl.col("episodes") >= LEAST_EPISODES
    rows = rows.with_columns(freedom=pl.when(several).then("freedom").otherwise(RANKS))
    mean, error, freedom, above, below = (
        rows[name].cast(pl.Float64).to_numpy() for name in ("mean", "error", "freedom", "above", "below")
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        far = np.where((mean == 0) & (error == 0), 0.0, np.abs(mean) / error)
    of_signs = np.minimum(1.0, 2 * special.bdtr(np.minimum(above, below), (above + below).astype(int), 0.5))
    chance = np.where(freedom < RANKS, 2 * special.stdtr(freedom, -far), of_signs)
    rows = rows.with_columns(
        quantile=pl.Series(special.stdtrit(freedom, (1 + CONFIDENCE) / 2), dtype=pl.Float64),
        chance=pl.Series(chance, dtype=pl.Float64),
    )
    half = pl.col("quantile") * pl.col("error")
    ends = {"value": pl.col("mean"), "low": pl.col("mean") - half, "high": pl.col("mean") + half}
    of_processes = ("omega2", "d0", "prior", "within", "error")
    rows = rows.with_columns(
        *(pl.when(several).then(end).otherwise(name).alias(name) for name, end in ends.items()),
        *(pl.when(several).then(name).alias(name) for name in of_processes),
    )
    return rows.select(*by, pl.col("value").alias(value), *ESTIMATE, "omega2", "d0", "prior", "within")


def centres(frame: pl.DataFrame, value: str, by: Sequence[str] = KEY) -> pl.DataFrame:
    """Estimate `value` as `estimates` does, without its interval: by..., value."""
    rows = of_sittings(frame, value, by).group_by(by).agg(pl.col("mean").mean(), episodes=pl.col("count").sum())
    rows = rows.join(frame.group_by(by).agg(pl.col(value).median()), on=by, maintain_order="left")
    return rows.select(*by, pl.when(pl.col("episodes") >= LEAST_EPISODES).then("mean").otherwise(value).alias(value))


def medians(frame: pl.DataFrame, value: str, by: Sequence[str] = KEY) -> pl.DataFrame:
    """Return the median of `value` over all rounds, bounded by order statistics: by..., value, low, high, q1, q3,
    rounds, above and below (rounds above and below 0).
    """
    values = pl.col(value)
    rows = frame.group_by(by).agg(
        values.median().cast(pl.Float64),
        values.sort().cast(pl.Float64).alias("sorted"),
        values.quantile(0.25, "linear").alias("q1"),
        values.quantile(0.75, "linear").alias("q3"),
        pl.len().cast(pl.Int64).alias("rounds"),
        above=(values > 0).sum(),
        below=(values < 0).sum(),
    )
    counts = rows["rounds"].unique().to_list()
    if any(rounds < 2 for rounds in counts):
        raise ValueError("an interval needs at least two rounds")
    first, last = (
        pl.col("rounds").replace_strict({rounds: ranks(rounds)[end] for rounds in counts}, return_dtype=pl.Int64)
        for end in (0, 1)
    )
    rows = rows.with_columns(low=pl.col("sorted").list.get(first), high=pl.col("sorted").list.get(last))
    return rows.select(*by, value, "low", "high", "q1", "q3", "rounds", "above", "below").sort(*by)


def widened(
    value: Number, low: Number, high: Number, more: Number, offset: Number | float = 0.0
) -> tuple[Number, Number]:
    """Return both ends of an interval with an independent error of half width `more`, which is added as squares, and
    one that is no larger than `offset` and may be the same everywhere, on each side.
    """
    below, above = ((value - low) ** 2 + more**2) ** 0.5, ((high - value) ** 2 + more**2) ** 0.5
    return value - below - offset, value + above + offset
