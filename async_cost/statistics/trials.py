"""From raw samples to one value for each trial.

Frames are named by their key columns bench, variant, parameter; times are nanoseconds per iteration.
"""

import polars as pl

from async_cost.runs.comparisons import KEY
from async_cost.runs.run import Run

#: Metrics that add up over the iterations of a sample: processor time, the kernel's part of it, the time that passed,
#: and how often the scheduler took the processor away.
TOTALS = ("cpu_ns", "kernel_ns", "wall_ns", "voluntary_switches", "involuntary_switches")
#: The kind of a group whose trials run on one thread in one process.
ALONE = "one thread"
#: The quantile of its trials that represents a key on an undisturbed machine.
LOW = 0.1


def trial_times(time: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each trial: bench, variant, parameter, round, sitting, episode, position, ns (of an iteration:
    the median over the samples, which one interrupted sample does not move).
    """
    return _of_trials(time, (pl.col("elapsed_ns") / pl.col("iterations")).alias("ns"))


def lowest(trials: pl.DataFrame) -> pl.DataFrame:
    """Return the lowest decile of the trials of a key in each process: bench, variant, parameter, sitting, episode,
    round (the episode again), ns.

    Whatever disturbs a thread that waits for no other makes it slower, so its shortest times are closest to those on an
    undisturbed machine (Chen and Revels, Robust benchmarking in noisy environments, 2016). Of threads that meet, short
    times are lucky ones instead.
    """
    by = [*KEY, "sitting", "episode"]
    low = trials.group_by(by).agg(pl.col("ns").quantile(LOW, "linear"))
    return low.with_columns(round=pl.col("episode")).sort(by)


def trial_values(run: Run, study: str, metric: str) -> pl.DataFrame:
    """Return a row for each trial: bench, variant, parameter, round, sitting, episode, position, value (the median over
    the samples; of `TOTALS` for an iteration). Variants that failed are left out; empty if nothing was recorded.
    """
    noted = run.metrics(study).filter(metric=metric)
    rows = noted.join(run.whole_time(study), on=[*KEY, "round", "position", "sample"])
    return _of_trials(rows, pl.col("value") / (pl.col("iterations") if metric in TOTALS else 1))


def _of_trials(samples: pl.DataFrame, value: pl.Expr) -> pl.DataFrame:
    """A row for each trial, with the median of a value over its samples."""
    places = pl.col("sitting", "episode", "position").first()
    return samples.group_by(*KEY, "round").agg(places, value.median()).sort(*KEY, "round")
