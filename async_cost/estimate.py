"""From raw samples to ratios with intervals.

A shared machine may halve its speed within a minute. So no two times from different moments are ever compared: each round
measures every variant once, in shuffled order, a ratio is taken within a round, and the rounds are the sample. The
estimate is the median over rounds, its 95 % interval comes from a bootstrap over rounds.

Frames are named by their key columns bench, variant, parameter; times are nanoseconds per iteration.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from scipy import stats

from async_cost.load import KEY

#: Share of intervals that are to hold the truth.
CONFIDENCE = 0.95
#: Bootstrap resamples. At 4,000 the ends of an interval move by some 2 % of its width when only the seed changes.
RESAMPLES = 4000
#: Fixed, so that the same run always gives the same words.
SEED = 20_260_101


def trial_times(time: pl.DataFrame) -> pl.DataFrame:
    """One row for each trial: bench, variant, parameter, round, position, ns.

    `ns` is the median over the trial's samples of elapsed_ns / iterations: one interrupted sample does not move it.
    """
    return (
        time.group_by(*KEY, "round")
        .agg(
            pl.col("position").first(),
            (pl.col("elapsed_ns") / pl.col("iterations")).median().alias("ns"),
        )
        .sort(*KEY, "round")
    )


def paired_ratios(trials: pl.DataFrame, baseline: str, within: Sequence[str] = ("parameter",)) -> pl.DataFrame:
    """Every variant against `baseline`, within the same round and `within`.

    Returns bench, variant, parameter, round, ns, ratio (ns / ns of the baseline) and difference_ns (ns - that), without
    the baseline's own rows. Any variant may be the baseline. `within` are further key columns that have to agree;
    studies whose bench is a task (and not a variant's name) add "bench". Raises ValueError when the baseline is
    missing for all, or is not one row for each round.
    """
    here = [*within, "round"]
    base = trials.filter(pl.col("variant") == baseline).select(*here, pl.col("ns").alias("base_ns"))
    if base.is_empty():
        raise ValueError(f"no trial of the baseline {baseline!r}")
    if base.select(here).is_duplicated().any():
        raise ValueError(f"the baseline {baseline!r} is ambiguous within {here}: name more columns in `within`")
    return (
        trials.filter(pl.col("variant") != baseline)
        .join(base, on=here)
        .with_columns(
            (pl.col("ns") / pl.col("base_ns")).alias("ratio"),
            (pl.col("ns") - pl.col("base_ns")).alias("difference_ns"),
        )
        .drop("base_ns", "position", strict=False)
        .sort(*KEY, "round")
    )


def estimates(frame: pl.DataFrame, value: str = "ratio", by: Sequence[str] = KEY) -> pl.DataFrame:
    """The median of `value` over rounds, with its 95 % interval: by..., value, low, high, q1, q3, rounds.

    The interval is a percentile bootstrap of the median. (BCa would need the jackknife, which fails for a median: leaving
    one round out moves it to one of two values. The percentile interval of a median is close to the exact one
    from order statistics.) All groups of equal size share their resampled rounds, so a group's interval does not depend on
    which others are asked for. q1 and q3 are the quartiles over rounds, for charts. Raises ValueError for less than two rounds.
    """
    groups = frame.sort("round").group_by(by, maintain_order=True).agg(pl.col(value), pl.len().alias("rounds"))
    if groups.is_empty():
        raise ValueError(f"no rows to estimate {value} from")
    if groups["rounds"].min() < 2:
        raise ValueError("an interval needs at least two rounds")
    parts = []
    for (rounds,), part in groups.group_by("rounds", maintain_order=True):
        samples = np.stack(part[value].to_list()).reshape(part.height, rounds)
        low, high = _median_interval(samples)
        parts.append(
            part.select(
                *by,
                pl.Series(value, np.median(samples, axis=1)),
                pl.Series("low", low),
                pl.Series("high", high),
                pl.Series("q1", np.quantile(samples, 0.25, axis=1)),
                pl.Series("q3", np.quantile(samples, 0.75, axis=1)),
                pl.col("rounds").cast(pl.Int64),
            )
        )
    return pl.concat(parts).sort(*by)


def _median_interval(samples: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % interval of the median of each row; columns are rounds."""
    result = stats.bootstrap(
        (samples,),
        np.median,
        axis=-1,
        vectorized=True,
        method="percentile",
        confidence_level=CONFIDENCE,
        n_resamples=RESAMPLES,
        batch=100,
        rng=np.random.default_rng(SEED),
    )
    return result.confidence_interval.low, result.confidence_interval.high


def between(trials: pl.DataFrame, variant: str, other: str, within: Sequence[str] = ("parameter",)) -> pl.DataFrame:
    """One named variant against another, paired within the round; columns as in `paired_ratios`."""
    return paired_ratios(trials.filter(pl.col("variant").is_in([variant, other])), other, within)


def added_time(ratios: pl.DataFrame, requests: int) -> pl.DataFrame:
    """What a variant adds to the baseline, for each request: bench, variant, parameter, added_ns, low, high, q1, q3, rounds.

    `requests` is how many requests one iteration serves. Nanoseconds; negative where the variant is faster.
    """
    return estimates(ratios.with_columns(added_ns=pl.col("difference_ns") / requests), "added_ns")


def across_parameters(trials: pl.DataFrame, variant: str, parameter: str, other: str) -> pl.DataFrame:
    """One variant with `parameter` against itself with parameter `other`: round, ratio, difference_ns, paired in the round."""
    mine = trials.filter(pl.col("variant") == variant)
    base = mine.filter(pl.col("parameter") == other).select("round", pl.col("ns").alias("base_ns"))
    return (
        mine.filter(pl.col("parameter") == parameter)
        .join(base, on="round")
        .select(
            *KEY,
            "round",
            (pl.col("ns") / pl.col("base_ns")).alias("ratio"),
            (pl.col("ns") - pl.col("base_ns")).alias("difference_ns"),
        )
    )


def drift(trials: pl.DataFrame, baseline: str) -> pl.DataFrame:
    """How fast the machine was in each round: parameter, round, ns, relative (ns / its median over rounds)."""
    return (
        trials.filter(pl.col("variant") == baseline)
        .with_columns((pl.col("ns") / pl.col("ns").median().over("parameter")).alias("relative"))
        .select("parameter", "round", "ns", "relative")
        .sort("parameter", "round")
    )
