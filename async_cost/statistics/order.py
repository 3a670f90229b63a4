"""Does it matter when in a round a trial ran, and what ran before?

Rounds are shuffled so that such effects affect all variants alike. They still widen the intervals, and in few rounds
they need not cancel. They show in what remains of a trial's time after it is divided by its own median and the speed of
its round.
"""

from collections.abc import Sequence

import polars as pl

from async_cost.runs.comparisons import KEY, PAIR
from async_cost.statistics.disturbance import speed
from async_cost.statistics.interval import CONFIDENCE, enough, medians
from async_cost.statistics.ratios import paired

#: The key that ran before, in columns of its own.
BEFORE = ("before_bench", "before_variant", "before_parameter")


def rest(trials: pl.DataFrame) -> pl.DataFrame:
    """`trials` (of `trial_times`) with what is unexplained: adds rest (1 is nothing) and the columns of `BEFORE`.

    The first trial of a round has no predecessor, nor has one whose neighbour failed: null.
    """
    named = dict(zip(KEY, BEFORE, strict=True))
    before = trials.select("round", pl.col("position") + 1, *(pl.col(name).alias(new) for name, new in named.items()))
    return (
        trials.join(speed(trials), on="round")
        .join(before, on=["round", "position"], how="left")
        .with_columns(rest=pl.col("ns") / pl.col("ns").median().over(KEY) / pl.col("relative"))
        .drop("relative")
        .sort("round", "position")
    )


def effects(rests: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The median of rest for each group: by..., rest, low, high, rounds.

    `by` is ["position"] or `BEFORE`. The intervals are exact for a median (order statistics), and so wide (Bonferroni)
    that in 95 % of runs in which order does not matter all of them include 1. With too few rounds for that, an interval
    is 0 to infinity.
    """
    known = rests.drop_nulls(by)
    groups = known.group_by(by).agg(pl.len().alias("rounds"))
    confidence = 1 - (1 - CONFIDENCE) / max(1, groups.height)
    sure = groups.filter(
        pl.col("rounds").map_elements(lambda rounds: enough(rounds, confidence=confidence), pl.Boolean)
    )
    found = medians(known.join(sure, on=by, how="semi"), "rest", by, confidence).drop("q1", "q3")
    middle = (
        known.join(sure, on=by, how="anti")
        .group_by(by)
        .agg(pl.col("rest").median(), pl.len().cast(pl.Int64).alias("rounds"))
    )
    unsure = middle.with_columns(low=pl.lit(0.0), high=pl.lit(float("inf"))).select(found.columns)
    return pl.concat([found, unsure]).sort(*by)


def matters(found: pl.DataFrame) -> pl.DataFrame:
    """The rows of `effects` whose interval excludes 1, the largest effect first."""
    missed = found.filter((pl.col("low") > 1) | (pl.col("high") < 1))
    return missed.sort(pl.col("rest").log().abs(), descending=True)


def taken_out(rests: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The trials as if order by `by` had no effect: each time divided by the median rest of its group."""
    effect = pl.col("rest").median().over(by)
    unknown = pl.any_horizontal(pl.col(name).is_null() for name in by)
    return rests.with_columns(ns=pl.when(unknown).then("ns").otherwise(pl.col("ns") / effect))


def told(trials: pl.DataFrame, pairs: pl.DataFrame, rests: pl.DataFrame, by: Sequence[str]) -> dict[str, object]:
    """What order by `by` does in one study: groups (how many there are), matter (how many of them), most (the row of
    `matters` with the largest effect, or None), moved (the largest change of a ratio when the effect is taken out).
    """
    found = effects(rests, by)
    mattering = matters(found)
    kept, without = (
        paired(frame, pairs).group_by(PAIR).agg(pl.col("ratio").median())
        for frame in (trials, taken_out(rests, by).select(trials.columns))
    )
    both = kept.join(without, on=PAIR, suffix="_without")
    moved = both.select((pl.col("ratio_without") / pl.col("ratio") - 1).abs().max()).item()
    return {
        "groups": found.height,
        "matter": mattering.height,
        "most": next(mattering.iter_rows(named=True), None),
        "moved": moved or 0.0,
    }
