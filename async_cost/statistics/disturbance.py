"""What disturbed a measurement: the machine's speed, its load, and whether the ratios held from beginning to end.

None of this decides whether a run is evidence; the A/A controls do (`judge`). It shows what they had to cope with.
"""

import polars as pl

from async_cost import words
from async_cost.runs.comparisons import KEY, PAIR
from async_cost.runs.run import Run
from async_cost.statistics.interval import CONFIDENCE, LEAST_EPISODES

#: The columns of `conditions`.
CONDITIONS = {
    "study": pl.String,
    "rounds": pl.Int64,
    "keys": pl.Int64,
    "seconds": pl.Float64,
    "load_before": pl.Float64,
    "load_after": pl.Float64,
    "steal": pl.Float64,
    "interruptions": pl.Float64,
    "resumed": pl.Int64,
    "failed": pl.Int64,
}


def speed(trials: pl.DataFrame) -> pl.DataFrame:
    """How slow the machine was in each round, over all keys: round, relative (1 is the median, 2 half as fast).

    Takes `trial_times`. Each key is divided by its own median over rounds, so long and short workloads weigh the same;
    the median over keys is what they have in common.
    """
    relative = pl.col("ns") / pl.col("ns").median().over(KEY)
    return trials.with_columns(relative=relative).group_by("round").agg(pl.col("relative").median()).sort("round")


def drift(trials: pl.DataFrame, baseline: str) -> pl.DataFrame:
    """How fast the machine was in each round: parameter, round, ns, relative (ns / its median over rounds)."""
    return (
        trials.filter(pl.col("variant") == baseline)
        .with_columns((pl.col("ns") / pl.col("ns").median().over("parameter")).alias("relative"))
        .select("parameter", "round", "ns", "relative")
        .sort("parameter", "round")
    )


def conditions(run: Run) -> pl.DataFrame:
    """One row for each study, in the order of measuring; unknown values are null.

    Columns: study, rounds, keys (how many were measured), seconds, load_before and load_after (average over a minute),
    steal (share of the processors' time), interruptions (how often in a second of measured time a thread lost its core
    involuntarily, to any other thread; null if the study does not record it), resumed (how often), failed (keys).
    Seconds and steal of a resumed study would include its break, so they are unknown.
    """
    rows = []
    for study, details in sorted(run.info.studies.items(), key=lambda entry: entry[1].started):
        rows.append(
            {
                "study": study,
                "rounds": details.rounds,
                "keys": run.time(study).select(KEY).n_unique(),
                "seconds": run.seconds(study),
                "load_before": details.load_before[0] if details.load_before else None,
                "load_after": details.load_after[0] if details.load_after else None,
                "steal": steal_share(run, study),
                "interruptions": _interruptions(run, study),
                "resumed": details.resumed,
                "failed": len(details.failed),
            }
        )
    return pl.DataFrame(rows, schema=CONDITIONS)


def _interruptions(run: Run, study: str) -> float | None:
    noted = run.metrics(study).filter(metric="involuntary_switches")
    seconds = noted.join(run.time(study), on=[*KEY, "round", "sample"])["elapsed_ns"].sum() / 1e9
    return noted["value"].sum() / seconds if seconds else None


def steal_share(run: Run, study: str) -> float | None:
    """Share of all processor time between start and end that the host gave to others; None if unknown.

    For a resumed measurement it is unknown: the break is between the two readings, perhaps with a restart of the
    machine.
    """
    details = run.study(study)
    if details.resumed:
        return None
    cores = run.info.machine.logical_cores
    if None in (details.steal_before_ms, details.steal_after_ms, details.ended, cores):
        return None
    seconds = words.seconds_between(details.started, details.ended)
    if seconds <= 0:
        return None
    return (details.steal_after_ms - details.steal_before_ms) / 1000 / (seconds * cores)


def halves(ratios: pl.DataFrame) -> pl.DataFrame:
    """Whether each ratio is the same in the second half of the rounds: the columns of a pair, first, second, change,
    moved.

    Takes rows of `ratios.paired`. `first` and `second` are medians, `change` is second / first. `moved` says that the
    two halves differ by the test of Mann and Whitney (over episodes, where there are enough of them: the rounds of one
    process are not independent), so strictly (Bonferroni) that in 95 % of honest runs none of the ratios is called
    moved. A ratio that moved is not constant: something warmed up, filled up or throttled, and the median over rounds
    hides it.
    """
    from scipy.stats import mannwhitneyu  # half a second, for what one page needs

    pairs, of_ratio = ratios.select(PAIR).unique(maintain_order=True), pl.col("ratio")
    many = pl.col("episode").n_unique().over(PAIR) >= LEAST_EPISODES
    episodes = ratios.filter(many).group_by(*PAIR, "episode").agg(of_ratio.median(), pl.col("round").min())
    values = pl.concat([frame.select(*PAIR, "round", "ratio") for frame in (episodes, ratios.remove(many))])
    late = pl.col("round") > pl.col("round").median().over(PAIR)
    parts = (
        values.with_columns(late=late)
        .group_by(PAIR)
        .agg(early=of_ratio.filter(~pl.col("late")), late=of_ratio.filter(pl.col("late")))
    )
    parts = pairs.join(parts, on=PAIR, maintain_order="left").filter(
        pl.col("early").list.len() > 0, pl.col("late").list.len() > 0
    )
    chances = (mannwhitneyu(*both).pvalue for both in parts.select("early", "late").iter_rows())
    moved = [bool(chance * pairs.height < 1 - CONFIDENCE) for chance in chances]
    return parts.select(
        *PAIR,
        first=pl.col("early").list.median(),
        second=pl.col("late").list.median(),
        moved=pl.Series(moved, dtype=pl.Boolean),
    ).select(*PAIR, "first", "second", change=pl.col("second") / pl.col("first"), moved="moved")
