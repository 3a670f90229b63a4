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

from async_cost.runs.comparisons import BASE_KEY, KEY
from async_cost.runs.run import Run

#: Metrics that add up over the iterations of a sample: processor time, and how often the scheduler took the processor away.
TOTALS = ("cpu_ns", "voluntary_switches", "involuntary_switches")
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


def trial_values(run: Run, study: str, metric: str, per_iteration: bool | None = None) -> pl.DataFrame:
    """One row for each trial: bench, variant, parameter, round, position, value; variants that failed are left out.

    `value` is the median over the trial's samples. What adds up over a sample is divided by the sample's iterations, which is to
    say the metrics in `TOTALS` unless `per_iteration` says otherwise; a quantile stands for its sample as it is. Empty where the
    metric was not noted.
    """
    noted = run.metrics(study).filter(metric=metric)
    rows = noted.join(run.whole_time(study), on=[*KEY, "round", "position", "sample"])
    divided = metric in TOTALS if per_iteration is None else per_iteration
    value = pl.col("value") / pl.col("iterations") if divided else pl.col("value").cast(pl.Float64)
    return (
        rows.group_by(*KEY, "round").agg(pl.col("position").first(), value.median().alias("value")).sort(*KEY, "round")
    )


def per_unit(trials: pl.DataFrame, units: pl.DataFrame) -> pl.DataFrame:
    """The trials with the time of one unit instead of one iteration; `units` as from `Run.units`. Keys without units are left out."""
    return trials.join(units, on=KEY).with_columns(pl.col("ns") / pl.col("units")).drop("units")


def paired_ratios(
    trials: pl.DataFrame, baseline: str | pl.DataFrame, within: Sequence[str] = ("parameter",)
) -> pl.DataFrame:
    """Every variant against `baseline`, within the same round.

    Returns bench, variant, parameter, round, ns, ratio (ns / ns of the baseline) and difference_ns (ns - that), without
    the baseline's own rows. `baseline` is the frame `Run.pairs`, which says for each key what it is compared with; keys that it
    does not name, and rounds that lack one of the two, have no ratio. Or it is the name of any variant; then `within` are
    the key columns that have to agree, and ValueError is raised when it is missing for all, or is not one row for each round.
    """
    if isinstance(baseline, pl.DataFrame):
        return _by_pairs(trials, baseline)
    base = trials.filter(pl.col("variant") == baseline)
    if base.is_empty():
        raise ValueError(f"no trial of the baseline {baseline!r}")
    return _paired(trials, base, baseline, within)


def _by_pairs(trials: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    if pairs.select(KEY).is_duplicated().any():
        raise ValueError("a key is compared with more than one baseline: ask for one pair at a time")
    base = trials.select(*(pl.col(name).alias(f"baseline_{name}") for name in KEY), "round", base_ns="ns")
    return _ratios(trials.join(pairs.select(*KEY, *BASE_KEY), on=KEY).join(base, on=[*BASE_KEY, "round"]))


def _paired(trials: pl.DataFrame, base: pl.DataFrame, baseline: str, within: Sequence[str]) -> pl.DataFrame:
    here = [*within, "round"]
    if base.select(here).is_duplicated().any():
        raise ValueError(f"the baseline {baseline!r} is ambiguous within {here}: name more columns in `within`")
    return _ratios(
        trials.filter(pl.col("variant") != baseline).join(base.select(*here, pl.col("ns").alias("base_ns")), on=here)
    )


def _ratios(joined: pl.DataFrame) -> pl.DataFrame:
    """Ratio and difference of `ns` and `base_ns`, which stand side by side."""
    return (
        joined.with_columns(
            (pl.col("ns") / pl.col("base_ns")).alias("ratio"),
            (pl.col("ns") - pl.col("base_ns")).alias("difference_ns"),
        )
        .drop("base_ns", "position", *BASE_KEY, strict=False)
        .sort(*KEY, "round")
    )


def estimates(
    frame: pl.DataFrame, value: str = "ratio", by: Sequence[str] = KEY, confidence: float = CONFIDENCE
) -> pl.DataFrame:
    """The median of `value` over rounds, with its interval (95 % by default): by..., value, low, high, q1, q3, rounds.

    The interval is a percentile bootstrap of the median. (BCa would need the jackknife, which fails for a median: leaving
    one round out moves it to one of two values. The percentile interval of a median is close to the exact one
    from order statistics.) All groups of equal size share their resampled rounds, so a group's interval does not depend on
    which others are asked for. q1 and q3 are the quartiles over rounds, for charts. No rows give no estimates; less than two
    rounds raise ValueError.
    """
    groups = frame.sort("round").group_by(by, maintain_order=True).agg(pl.col(value), pl.len().alias("rounds"))
    if groups.is_empty():
        columns = dict.fromkeys((value, "low", "high", "q1", "q3"), pl.Float64) | {"rounds": pl.Int64}
        return groups.select(*by).with_columns(pl.lit(None, kind).alias(name) for name, kind in columns.items())
    if groups["rounds"].min() < 2:
        raise ValueError("an interval needs at least two rounds")
    parts = []
    for (rounds,), part in groups.group_by("rounds", maintain_order=True):
        samples = np.stack(part[value].to_list()).reshape(part.height, rounds)
        low, high = _median_interval(samples, confidence)
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


def _median_interval(samples: np.ndarray, confidence: float) -> tuple[np.ndarray, np.ndarray]:
    """The interval of the median of each row; columns are rounds."""
    result = stats.bootstrap(
        (samples,),
        np.median,
        axis=-1,
        vectorized=True,
        method="percentile",
        confidence_level=confidence,
        n_resamples=RESAMPLES,
        batch=100,
        rng=np.random.default_rng(SEED),
    )
    return result.confidence_interval.low, result.confidence_interval.high


def relative_standard_error(values: np.ndarray) -> tuple[float, float, float]:
    """The relative standard error of the mean of `values`, one for each round, and its 95 % interval by bootstrap over rounds.

    Less than two rounds raise ValueError.
    """
    if len(values) < 2:
        raise ValueError("an interval needs at least two rounds")

    def error(sample: np.ndarray, axis: int = -1) -> np.ndarray:
        return sample.std(axis=axis, ddof=1) / np.sqrt(sample.shape[axis]) / sample.mean(axis=axis)

    result = stats.bootstrap(
        (values,),
        error,
        vectorized=True,
        method="percentile",
        confidence_level=CONFIDENCE,
        n_resamples=RESAMPLES,
        rng=np.random.default_rng(SEED),
    )
    return float(error(values)), float(result.confidence_interval.low), float(result.confidence_interval.high)


def between(trials: pl.DataFrame, variant: str, other: str, within: Sequence[str] = ("parameter",)) -> pl.DataFrame:
    """One named variant against another, paired within the round; columns as in `paired_ratios`.

    Empty where one of the two was not measured.
    """
    both = trials.filter(pl.col("variant").is_in([variant, other]))
    base = both.filter(pl.col("variant") == other)
    return _paired(both, base, other, within)


def above_floor(trials: pl.DataFrame, floor: str) -> pl.DataFrame:
    """The trials of all other variants less the time of `floor`, a null subject, in the same round and parameter.

    Parameters for which `floor` was not measured are left out.
    """
    under = trials.filter(pl.col("variant") == floor).select("parameter", "round", pl.col("ns").alias("floor_ns"))
    return (
        trials.filter(pl.col("variant") != floor)
        .join(under, on=["parameter", "round"])
        .with_columns(pl.col("ns") - pl.col("floor_ns"))
        .drop("floor_ns")
    )


def added_time(ratios: pl.DataFrame, requests: int) -> pl.DataFrame:
    """What a variant adds to the baseline, for each request: bench, variant, parameter, added_ns, low, high, q1, q3, rounds.

    `requests` is how many requests one iteration serves. Nanoseconds; negative where the variant is faster.
    """
    return estimates(ratios.with_columns(added_ns=pl.col("difference_ns") / requests), "added_ns")


def paired_costs(trials: pl.DataFrame, pairs: pl.DataFrame, units: pl.DataFrame | None) -> pl.DataFrame:
    """What the first side of each pair costs beside the second: bench, variant, parameter, ratio, low, high, q1, q3, rounds, and the time that
    it adds to one unit: added_ns, added_low, added_high.

    `pairs` as from `Run.pairs`, `units` as from `Run.units`; where there are no trials, None will do.
    """
    ratios = paired_ratios(trials, pairs)
    ratios = ratios.with_columns(units=pl.lit(1)) if units is None else ratios.join(units, on=KEY)
    added = estimates(ratios.with_columns(added_ns=pl.col("difference_ns") / pl.col("units")), "added_ns")
    added = added.select(*KEY, "added_ns", added_low="low", added_high="high")
    return estimates(ratios).join(added, on=KEY)


def beside_itself(trials: pl.DataFrame, parameters: Sequence[str], other: str) -> pl.DataFrame:
    """Every bench and variant with each of `parameters` beside itself with `other`: its trials, base_ns and ratio, paired in the round."""
    base = trials.filter(parameter=other).select("bench", "variant", "round", base_ns="ns")
    rows = trials.filter(pl.col("parameter").is_in(parameters)).join(base, on=["bench", "variant", "round"])
    return rows.with_columns(ratio=pl.col("ns") / pl.col("base_ns"))


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


def change(ratios: pl.DataFrame, parameter: str, other: str) -> pl.DataFrame:
    """How a ratio and a difference change from parameter `other` to `parameter`, within the round.

    Takes rows of `paired_ratios`; returns bench, variant, parameter, round, ratio (ratio / ratio) and difference_ns
    (difference - difference).
    """
    before = ratios.filter(pl.col("parameter") == other).select(
        "variant", "round", pl.col("ratio").alias("ratio_before"), pl.col("difference_ns").alias("ns_before")
    )
    return (
        ratios.filter(pl.col("parameter") == parameter)
        .join(before, on=["variant", "round"])
        .select(
            *KEY,
            "round",
            (pl.col("ratio") / pl.col("ratio_before")).alias("ratio"),
            (pl.col("difference_ns") - pl.col("ns_before")).alias("difference_ns"),
        )
    )


def unpaired_range(
    trials: pl.DataFrame, variant: str, other: str, parameter: str, parts: int = 10
) -> tuple[float, float] | None:
    """The least and greatest ratio to be had by measuring one after the other: each in another of `parts` stretches of the run.

    None where one of the two was not measured. It shows what pairing is good for; nothing is concluded from it.
    """

    def stretches(name: str) -> pl.Series:
        rows = trials.filter(pl.col("variant") == name, pl.col("parameter") == parameter)
        part = pl.col("round") * parts // (pl.col("round").max() + 1)
        return rows.group_by(part.alias("part")).agg(pl.col("ns").median())["ns"]

    mine, base = stretches(variant), stretches(other)
    if mine.is_empty() or base.is_empty():
        return None
    return mine.min() / base.max(), mine.max() / base.min()


def row(frame: pl.DataFrame, **key: str) -> dict | None:
    """The one row with these key columns, None where there is none. Raises ValueError when there are several."""
    found = frame.filter(**key) if key else frame
    if found.height > 1:
        raise ValueError(f"{found.height} rows for {key}")
    return found.row(0, named=True) if found.height else None


def drift(trials: pl.DataFrame, baseline: str) -> pl.DataFrame:
    """How fast the machine was in each round: parameter, round, ns, relative (ns / its median over rounds)."""
    return (
        trials.filter(pl.col("variant") == baseline)
        .with_columns((pl.col("ns") / pl.col("ns").median().over("parameter")).alias("relative"))
        .select("parameter", "round", "ns", "relative")
        .sort("parameter", "round")
    )
