"""Differences of times per unit of work: sums of times with factors, such as 1 for a key and -1 for its baseline
(docs/method.md).

The value is computed from the time of each baseline (every second place) and the ratio of the place before it to it, so
its sign is that of the ratio. The error has two parts, on the scale of logarithms: that of the machine's `speed` in an
hour, which multiplies a difference and moves no ratio, and, apart from speed, that of each time by itself, in
proportion to its size, whose variance between hours the pool knows.
"""

from collections.abc import Sequence

import polars as pl

from async_cost.runs.comparisons import KEY
from async_cost.statistics.interval import centres, estimates, widened

#: Which process of which sitting measured a trial, and when.
PLACE = ("round", "sitting", "episode")


def speeds(trials: pl.DataFrame) -> pl.DataFrame:
    """Return how slow the machine was in each round of a study: PLACE, speed (the mean over keys of the logarithm of
    the time over the mean of its key).
    """
    slower = pl.col("ns").log() - pl.col("ns").log().mean().over(KEY)
    return trials.with_columns(speed=slower).group_by(PLACE, maintain_order=True).agg(pl.col("speed").mean())


def apart(rounds: pl.DataFrame, factors: Sequence[float], by: Sequence[str]) -> pl.DataFrame:
    """Add value, larger, spread and apart to rounds.

    Args:
        rounds: by..., PLACE, speed, and place0, place1, ..., times that are multiplied by `factors` and added up.

    Returns:
        value: the sum. larger: the larger of what is added and what is subtracted. spread: by how much the sum moves
        where independent moves of the times move a ratio by one. apart: the sum in this round without the effect of
        speed, in spreads. Value, larger and spread are the same in all rounds.
    """
    logs = [pl.col(f"place{number}").log() for number in range(len(factors))]
    sizes = []
    for number in range(0, len(factors), 2):
        ratio, base = f"ratio{number}", f"base{number}"
        rounds = rounds.with_columns((logs[number] - logs[number + 1]).alias(ratio), logs[number + 1].alias(base))
        for name in (ratio, base):
            rounds = rounds.drop(name).join(centres(rounds, name, by), on=by, how="left", maintain_order="left")
        sizes += [(pl.col(ratio) + pl.col(base)).exp() * factors[number], pl.col(base).exp() * factors[number + 1]]
    plus, minus = (pl.sum_horizontal((sign * size).clip(0.0) for size in sizes) for sign in (1, -1))
    moved = pl.sum_horizontal(size * log for size, log in zip(sizes, logs, strict=True))
    spread = (pl.sum_horizontal(size**2 for size in sizes) / 2).sqrt()
    rounds = rounds.with_columns(value=plus - minus, larger=pl.max_horizontal(plus, minus), spread=spread)
    return rounds.with_columns(apart=(moved - pl.col("value") * pl.col("speed")) / pl.col("spread"))


def differences(
    rounds: pl.DataFrame,
    factors: Sequence[float],
    by: Sequence[str],
    pools: pl.DataFrame | None = None,
    **known: float,
) -> pl.DataFrame:
    """Estimate the sums of times of `rounds` (as `apart` takes them, and unsure, the half width of the interval of the
    speed): by..., value, low, high, larger, and the further columns of `interval.estimates`, with its `pools` and
    `known`.
    """
    rounds = apart(rounds, factors, by)
    fixed = rounds.group_by(by).agg(pl.col("value", "larger", "spread", "unsure").first())
    estimate = estimates(rounds, "apart", by, pools, **known).join(fixed, on=by, maintain_order="left")
    # The larger side moves by a factor, so that a difference reaches 0 where the ratio reaches 1.
    value, larger, sign = pl.col("value"), pl.col("larger"), pl.when(pl.col("value") < 0).then(-1).otherwise(1)
    moves = (sign * pl.col("spread") / larger * (pl.col(end) - pl.col("apart")) for end in ("low", "high"))
    low, high = (value + sign * larger * (move.exp() - 1) for move in moves)
    low, high = widened(value, low, high, value.abs() * pl.col("unsure"))
    return estimate.with_columns(low=low, high=high).drop("apart", "spread", "unsure")
