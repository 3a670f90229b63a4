"""How much work of its own a request must do before the cost of async stops mattering.

The levels are measured, not computed: a parameter `syscalls=off work=1000` executes 1000 steps for each request. Their
duration is measured as well, as the time that they add to the baseline, paired in the round.
"""

from collections.abc import Sequence

import polars as pl

from async_cost.runs.comparisons import KEY
from async_cost.statistics.interval import estimates
from async_cost.statistics.measured import Measured
from async_cost.statistics.ratios import across_parameters


def work_parameters(trials: pl.DataFrame, parameter: str) -> list[str]:
    """The parameters that add own work to `parameter`, least work first."""
    levels = trials["parameter"].unique().to_list()
    mine = [level for level in levels if level.startswith(f"{parameter} work=")]
    return sorted(mine, key=lambda level: int(level.rpartition("=")[2]))


def overhead_by_work(measured: Measured, variant: str, baseline: str, parameter: str) -> pl.DataFrame:
    """What `variant` costs against `baseline` at every level of own work, least work first.

    Columns: those of the table of comparisons, work_ns (own work of one request), work_low, work_high. Empty when no
    level was measured.
    """
    levels = work_parameters(measured.trials, parameter)
    extra = [across_parameters(measured.compared, baseline, level, parameter) for level in levels]
    names = ("work_ns", "work_low", "work_high")
    work = pl.DataFrame(schema={"parameter": pl.String} | dict.fromkeys(names, pl.Float64))
    if extra:
        found = estimates(pl.concat(extra).with_columns(pl.col("added_ns") / measured.requests), "added_ns")
        work = found.select("parameter", work_ns="added_ns", work_low="low", work_high="high")
    return measured.compare(variant, baseline).join(work, on="parameter").sort("work_ns")


def covered_from(levels: pl.DataFrame, share: float) -> dict | None:
    """The first level from which on `variant` is shown to cost no more than `share` extra; None if no level shows it.

    Shown means that this interval and those of all levels with more work end below 1 + share.
    """
    beyond = levels.sort("work_ns").with_columns(
        (pl.col("high") <= 1 + share).reverse().cum_min().reverse().alias("covered")
    )
    return next(beyond.filter("covered").iter_rows(named=True), None)


def covered(levels: pl.DataFrame, shares: Sequence[float]) -> list[tuple[float, dict | None]]:
    """What `covered_from` says of each of `shares`, the largest first, without what another entry implies: of shares
    that one level covers the smallest is left, of those that none is shown to cover the largest.
    """
    found: dict[float | None, tuple[float, dict | None]] = {}
    for share in shares:
        level = covered_from(levels, share)
        if level is not None:
            found[level["work_ns"]] = (share, level)
        else:
            found.setdefault(None, (share, None))
    return list(found.values())


def against_paper(trials: pl.DataFrame, variant: str, baseline: str, parameter: str, level: str) -> pl.DataFrame:
    """Time measured with work over the time that addition predicts: bench, variant, parameter, round, episode, ratio.

    The prediction for a round is `variant` without work, plus what the work adds to `baseline`. A ratio of 1 means that
    other work does not change the overhead.
    """

    def ns(name: str, of: str, column: str) -> pl.DataFrame:
        return trials.filter(variant=name, parameter=of).select("round", pl.col("ns").alias(column))

    predicted = pl.col("bare") + pl.col("base_with_work") - pl.col("base")
    return (
        trials.filter(variant=variant, parameter=level)
        .join(ns(variant, parameter, "bare"), on="round")
        .join(ns(baseline, parameter, "base"), on="round")
        .join(ns(baseline, level, "base_with_work"), on="round")
        .select(*KEY, "round", "episode", ratio=pl.col("ns") / predicted)
    )
