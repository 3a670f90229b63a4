"""From raw samples to one value for each trial, and to ratios of two trials of the same round.

Frames are named by their key columns bench, variant, parameter; times are nanoseconds per iteration.

A shared machine may halve its speed within a minute. So times from different moments are never compared: each round
measures every variant once, and a ratio is taken within a round. That of the lowest times is taken within an episode,
whose rounds follow each other (`lowest`); its `round` is then the episode.
"""

from collections.abc import Sequence

import polars as pl

from async_cost.runs.comparisons import BASE_KEY, KEY, PAIR
from async_cost.runs.run import Run

#: Metrics that add up over the iterations of a sample: processor time, the kernel's part of it, the time that passed,
#: how often the scheduler took the processor away, and calls.
TOTALS = ("cpu_ns", "kernel_ns", "wall_ns", "voluntary_switches", "involuntary_switches", "calls")
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


def paired(trials: pl.DataFrame, pairs: pl.DataFrame, units: pl.DataFrame, by: Sequence[str] = PAIR) -> pl.DataFrame:
    """Compare key with baseline in each round: by..., round, sitting, episode, ns (of the key), base (of the baseline),
    ratio, log_ratio (natural). A round that lacks a side is left out.

    Args:
        pairs: the columns of a pair, and those of `by` if it is named by others, such as a number, which is sorted and
            grouped faster.
        units: as from `Run.units`: times are of one unit of work where both sides count units, else of one iteration.
    """
    places = ("round", "sitting", "episode")
    base = trials.select(pl.col(KEY).name.prefix("baseline_"), "round", base="ns")
    both = (
        pairs.select(*dict.fromkeys((*by, *PAIR)))
        .join(units, on=KEY, how="left")
        .join(units, left_on=BASE_KEY, right_on=KEY, how="left", suffix="_base")
        .join(trials.select(*KEY, *places, "ns"), on=KEY)
        .join(base, on=[*BASE_KEY, "round"])
    )
    counted = pl.all_horizontal(pl.col("units", "units_base").is_not_null())
    mine = pl.col("ns") / pl.when(counted).then("units").otherwise(1)
    other = pl.col("base") / pl.when(counted).then("units_base").otherwise(1)
    both = both.with_columns(ns=mine, base=other, ratio=mine / other, log_ratio=(mine / other).log())
    return both.select(*by, *places, "ns", "base", "ratio", "log_ratio").sort(*by, "round")
