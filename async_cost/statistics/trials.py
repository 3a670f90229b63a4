"""From raw samples to one value for each trial.

Frames are named by their key columns bench, variant, parameter; times are nanoseconds per iteration.
"""

from collections.abc import Collection, Sequence

import polars as pl

from async_cost.runs.comparisons import KEY
from async_cost.runs.run import Run
from async_cost.statistics.interval import LEAST_EPISODES

#: Metrics that add up over the iterations of a sample: processor time, the kernel's part of it, the time that passed,
#: and how often the scheduler took the processor away.
TOTALS = ("cpu_ns", "kernel_ns", "wall_ns", "voluntary_switches", "involuntary_switches")
#: The kind of a group whose trials run on one thread in one process.
ALONE = "one thread"
#: The quantile of its trials that represents a key, and how many times as long keys may take in an undisturbed episode.
LOW, UNDISTURBED = 0.1, 1.05
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
        .agg(pl.col("episode", "position").first(), (pl.col("elapsed_ns") / pl.col("iterations")).median().alias("ns"))
        .sort(*KEY, "round")
    )


def compared(trials: pl.DataFrame, kinds: Collection[str]) -> pl.DataFrame:
    """The trials behind the comparisons of a study with groups of these `kinds`: for work on one thread with enough
    undisturbed episodes, one row for each of these (`undisturbed`), else all.
    """
    found = undisturbed(trials) if set(kinds) == {ALONE} else trials
    return found if found["episode"].n_unique() >= LEAST_EPISODES else trials


def undisturbed(trials: pl.DataFrame, within: Sequence[str] = ()) -> pl.DataFrame:
    """The lowest decile of the trials of a key in each undisturbed episode: bench, variant, parameter, episode, round
    (its number again), ns.

    Whatever disturbs a thread that waits for no other makes it slower: a neighbour on the same core, an interrupt. So
    its shortest times are closest to what the program takes (Chen and Revels, Robust benchmarking in noisy
    environments, 2016). An episode counts as disturbed throughout, and is left out, if most of its keys are slower
    there than elsewhere by 5 % or more; but at least half of the episodes are kept. What slows down one key alone, such
    as its memory layout, excludes nothing. Trials that differ in a column of `within` are kept apart.
    """
    by = [*within, *KEY]
    low = trials.group_by(*by, "episode").agg(pl.col("ns").quantile(LOW, "linear"))
    slower = pl.col("ns") / pl.col("ns").quantile(LOW, "linear").over(by)
    episodes = low.with_columns(slower=slower).group_by(*within, "episode").agg(pl.col("slower").median())
    usual = pl.col("slower").median().over(within) if within else pl.col("slower").median()
    kept = episodes.filter(pl.col("slower") <= pl.max_horizontal(usual, UNDISTURBED))
    return low.join(kept, on=[*within, "episode"], how="semi").with_columns(round=pl.col("episode")).sort(*by, "round")


def trial_values(run: Run, study: str, metric: str, per_iteration: bool | None = None) -> pl.DataFrame:
    """One row for each trial: bench, variant, parameter, round, episode, position, value; variants that failed are left
    out.

    `value` is the median over the trial's samples. Metrics that add up over a sample (those in `TOTALS`, unless
    `per_iteration` says otherwise) are divided by the sample's iterations; quantiles are taken as they are. Empty if
    the metric was not recorded.
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
