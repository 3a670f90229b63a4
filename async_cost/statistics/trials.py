"""From raw samples to one value for each trial.

Frames are named by their key columns bench, variant, parameter; times are nanoseconds per iteration.
"""

import polars as pl

from async_cost.runs.comparisons import KEY
from async_cost.runs.run import Run

#: Metrics that add up over the iterations of a sample: processor time, and how often the scheduler took the processor away.
TOTALS = ("cpu_ns", "voluntary_switches", "involuntary_switches")
NO_TRIALS = pl.DataFrame(
    schema=dict.fromkeys(KEY, pl.String)
    | dict.fromkeys(("round", "episode", "position"), pl.UInt32)
    | {"ns": pl.Float64}
)


def trial_times(time: pl.DataFrame) -> pl.DataFrame:
    """One row for each trial: bench, variant, parameter, round, episode, position, ns.

    `ns` is the median over the trial's samples of elapsed_ns / iterations: one interrupted sample does not move it.
    """
    return (
        time.group_by(*KEY, "round")
        .agg(
            pl.col("episode", "position").first(),
            (pl.col("elapsed_ns") / pl.col("iterations")).median().alias("ns"),
        )
        .sort(*KEY, "round")
    )


def trial_values(run: Run, study: str, metric: str, per_iteration: bool | None = None) -> pl.DataFrame:
    """One row for each trial: bench, variant, parameter, round, episode, position, value; variants that failed are left out.

    `value` is the median over the trial's samples. What adds up over a sample is divided by the sample's iterations, which is to
    say the metrics in `TOTALS` unless `per_iteration` says otherwise; a quantile stands for its sample as it is. Empty where the
    metric was not noted.
    """
    noted = run.metrics(study).filter(metric=metric)
    rows = noted.join(run.whole_time(study), on=[*KEY, "round", "position", "sample"])
    divided = metric in TOTALS if per_iteration is None else per_iteration
    value = pl.col("value") / pl.col("iterations") if divided else pl.col("value").cast(pl.Float64)
    return (
        rows.group_by(*KEY, "round")
        .agg(pl.col("episode", "position").first(), value.median().alias("value"))
        .sort(*KEY, "round")
    )


def per_unit(trials: pl.DataFrame, units: pl.DataFrame) -> pl.DataFrame:
    """The trials with the time of one unit instead of one iteration; `units` as from `Run.units`. Keys without units are left out."""
    return trials.join(units, on=KEY).with_columns(pl.col("ns") / pl.col("units")).drop("units")


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
