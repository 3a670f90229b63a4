"""How much work of its own a request must do before what async adds stops mattering.

The levels are measured, not added on paper: a parameter `syscalls=off work=1000` executes 1000 steps for each request. How
long they take is measured too, as what they add to the baseline, paired in the round.
"""

import polars as pl

from async_cost.runs.run import KEY
from async_cost.statistics.estimate import across_parameters, added_time, estimates, paired_ratios


def work_parameters(trials: pl.DataFrame, parameter: str) -> list[str]:
    """The parameters that add own work to `parameter`, least work first."""
    levels = trials["parameter"].unique().to_list()
    mine = [level for level in levels if level.startswith(f"{parameter} work=")]
    return sorted(mine, key=lambda level: int(level.rpartition("=")[2]))


def overhead_by_work(trials: pl.DataFrame, variant: str, baseline: str, parameter: str, requests: int) -> pl.DataFrame:
    """What `variant` costs against `baseline` at every level of own work, least work first.

    Columns: bench, variant, parameter, work_ns (own work of one request), work_low, work_high, ratio, low, high, rounds.
    Empty when no level was measured.
    """
    levels = work_parameters(trials, parameter)
    at_levels = trials.filter(pl.col("parameter").is_in(levels), pl.col("variant").is_in([variant, baseline]))
    if at_levels["variant"].n_unique() < 2:
        names = ("work_ns", "work_low", "work_high", "ratio", "low", "high", "rounds")
        return pl.DataFrame(schema=dict.fromkeys(KEY, pl.String) | dict.fromkeys(names, pl.Float64))
    extra = pl.concat([across_parameters(trials, baseline, level, parameter) for level in levels])
    work = added_time(extra, requests).select("parameter", work_ns="added_ns", work_low="low", work_high="high")
    ratios = estimates(paired_ratios(at_levels, baseline)).select(*KEY, "ratio", "low", "high", "rounds")
    return ratios.join(work, on="parameter").sort("work_ns")


def covered_from(levels: pl.DataFrame, share: float) -> dict | None:
    """The first level from which on `variant` is shown to cost no more than `share` extra; None where no level shows it.

    Shown means that this interval and those of all levels with more work end below 1 + share.
    """
    beyond = levels.sort("work_ns").with_columns(
        (pl.col("high") <= 1 + share).reverse().cum_min().reverse().alias("covered")
    )
    return next(beyond.filter("covered").iter_rows(named=True), None)


def against_paper(trials: pl.DataFrame, variant: str, baseline: str, parameter: str, level: str) -> pl.DataFrame:
    """Time measured with work over the time that addition predicts: bench, variant, parameter, round, ratio.

    The prediction for a round is `variant` without work, plus what the work adds to `baseline`. A ratio of 1 means that
    the overhead stays what it was when there is work beside it.
    """

    def ns(name: str, of: str, column: str) -> pl.DataFrame:
        rows = trials.filter(pl.col("variant") == name, pl.col("parameter") == of)
        return rows.select("round", pl.col("ns").alias(column))

    return (
        trials.filter(pl.col("variant") == variant, pl.col("parameter") == level)
        .join(ns(variant, parameter, "bare"), on="round")
        .join(ns(baseline, parameter, "base"), on="round")
        .join(ns(baseline, level, "base_with_work"), on="round")
        .select(
            *KEY,
            "round",
            (pl.col("ns") / (pl.col("bare") + pl.col("base_with_work") - pl.col("base"))).alias("ratio"),
        )
    )
