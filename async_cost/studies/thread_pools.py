"""Three thread pools: throughput by threads, bursts, and what ours take beside the pools that they were built after.

In the benches `throughput/...` and `latency/...` the published program runs, which awaits the last chain of each submitting thread. In
`jobs/...` and `whole/...` all jobs are awaited. Our pools have their published names; the original of each has the word `executors` in it.
"""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from async_cost.literature.published import NANOSECONDS, load_published
from async_cost.runs.comparisons import BASE_KEY, KEY
from async_cost.runs.run import Run
from async_cost.statistics.estimate import estimates, paired_ratios, trial_values
from async_cost.statistics.measured import Measured
from async_cost.statistics.verdict import with_verdicts

STUDY = "thread-pools"
LOW, HIGH = "throughput/low-amplification", "throughput/high-amplification"
EXTERNAL, INTERNAL = "jobs/external", "jobs/internal"
SIZES = ("small", "medium", "large")
TP, CBCP, CBWP, NEVER_PARK = "TP", "CBCP", "CBWP", "CBWP (ws-no-park)"
DEFAULT, COUNTING = "CBWP (default-features)", "CBWP (no ws-timed-fairness)"
NO_POOL = "no pool"
#: The columns of the published tables, in their order.
PUBLISHED = (TP, CBCP, DEFAULT, NEVER_PARK, COUNTING)
#: Our pools, each of which has an original.
OURS = (CBCP, CBWP, DEFAULT, NEVER_PARK, COUNTING)
#: Threads that submit in the benches of throughput; they need processors, too.
PRODUCERS = 2
#: A rate of one job a nanosecond, in million jobs a second.
MILLIONS = 1e3
THREADS = r"threads=(\d+)"
WORK = r"work=(\d+)"


def with_threads(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds `threads` of the pool from the parameter."""
    return frame.with_columns(threads=pl.col("parameter").str.extract(THREADS).cast(pl.Int64))


def processors(run: Run) -> int:
    """Logical processors of the machine, 1 where it could not tell."""
    return run.info.machine.logical_cores or 1


def crowded(run: Run) -> pl.Expr:
    """Whether a pool with `threads` has more of them than the machine has processors."""
    return pl.col("threads") > processors(run)


def rates(run: Run, measured: Measured, benches: Sequence[str], as_published: bool = False) -> pl.DataFrame:
    """Million jobs a second: key, value, low, high, q1, q3, rounds, threads; controls are left out.

    `as_published` counts what the published tables do: the jobs of a message without its first.
    """
    rows = _trials(run, measured).filter(pl.col("bench").is_in(benches))
    share = pl.lit(1.0)
    if as_published and rows.height:
        a = run.counts(STUDY).filter(counter="amplification").select(*KEY, a="value")
        rows = rows.join(a, on=KEY)
        share = pl.col("a") / (pl.col("a") + 1)
    return with_threads(estimates(rows.with_columns(value=MILLIONS / pl.col("ns") * share), "value"))


def published_rates(root: Path | None = None) -> pl.DataFrame:
    """The published throughput, in million schedulings a second: key, value, threads."""
    table = load_published(STUDY, root).filter(metric="throughput")
    return with_threads(table.select(*KEY, "value"))


def published_bursts(root: Path | None = None) -> pl.DataFrame:
    """The published latency in nanoseconds: key, mean, bound (the largest deviation of one run from it)."""
    table = load_published(STUDY, root).with_columns(
        ns=pl.col("value") * pl.col("unit").replace_strict(NANOSECONDS, default=None)
    )
    mean = table.filter(metric="latency_mean").select(*KEY, mean="ns")
    return mean.join(table.filter(metric="latency_max_min_bound").select(*KEY, bound="ns"), on=KEY)


def against_originals(measured: Measured) -> pl.DataFrame:
    """Our pools beside their originals, wherever both were measured: columns of `Measured.compared`, threads, speed, speed_low, speed_high.

    The speeds are one over the ratio: above 1, ours is faster.
    """
    rows = measured.compared().filter(
        pl.col("variant").is_in(OURS), pl.col("baseline_variant").str.starts_with("executors")
    )
    return with_threads(_with_speed(rows)).sort("bench", "variant", "threads", "parameter")


def against(measured: Measured, variant: str, other: str, benches: Sequence[str]) -> pl.DataFrame:
    """One pool beside another under each load of `benches` that has both: ratio, low, high and verdict, group and limit, threads, speed...

    The speeds are one over the ratio: above 1, the first is faster.
    """
    if not measured:
        return against_originals(measured)
    mine = measured.trials.filter(pl.col("bench").is_in(benches), variant=variant).select(KEY).unique()
    pairs = mine.select(*KEY, baseline_bench="bench", baseline_variant=pl.lit(other), baseline_parameter="parameter")
    groups = measured.pairs.select("bench", "parameter", "group", "limit").unique()
    return with_threads(_with_speed(_judged(measured, pairs.join(groups, on=["bench", "parameter"])))).sort(
        "bench", "threads", "parameter"
    )


def fastest(run: Run, measured: Measured, bench: str, parameter: str) -> pl.DataFrame:
    """All pools under one load, the fastest first, each beside the first: key, value, low, high (time of an iteration), behind, behind_low, behind_high.

    `behind` is the time over that of the fastest, in the same round; 1 for the fastest itself.
    """
    rows = _trials(run, measured).filter(pl.col("variant") != NO_POOL, bench=bench, parameter=parameter)
    times = estimates(rows.with_columns(value="ns"), "value").sort("value")
    if times.is_empty():
        return times.with_columns(behind=pl.lit(1.0), behind_low=pl.lit(1.0), behind_high=pl.lit(1.0))
    base = rows.filter(variant=times["variant"][0]).select("round", base="ns")
    ratios = estimates(rows.join(base, on="round").with_columns(behind=pl.col("ns") / pl.col("base")), "behind")
    behind = ratios.select(*KEY, "behind", behind_low="low", behind_high="high")
    return times.join(behind, on=KEY, maintain_order="left")


def beside_no_pool(run: Run, measured: Measured, bench: str) -> pl.DataFrame:
    """Time of a job that works, with two workers, over the time that the work alone takes on one thread: columns of `estimates`, work, own_ns.

    With two processors and no cost of its own, a pool would need half the time.
    """
    rows = (
        _trials(run, measured)
        .filter(bench=bench)
        .with_columns(work=pl.col("parameter").str.extract(WORK).cast(pl.Int64))
    )
    alone = rows.filter(variant=NO_POOL).select("parameter", "round", own="ns")
    both = rows.filter(pl.col("variant") != NO_POOL).join(alone, on=["parameter", "round"])
    found = estimates(both.with_columns(ratio=pl.col("ns") / pl.col("own")), by=(*KEY, "work"))
    own = estimates(rows.filter(variant=NO_POOL).with_columns(value="ns"), "value").select("parameter", own_ns="value")
    return found.join(own, on="parameter").sort("work", "variant")


def of_metric(run: Run, measured: Measured, metric: str, benches: Sequence[str]) -> pl.DataFrame:
    """A metric for one iteration (a quantile for its bursts): key, value, low, high, q1, q3, rounds; empty where it was not noted."""
    if not measured:
        return estimates(measured.trials.with_columns(value="ns"), "value")
    rows = trial_values(run, STUDY, metric).filter(
        pl.col("bench").is_in(benches), ~pl.col("variant").is_in(run.study(STUDY).controls)
    )
    return estimates(rows, "value")


def bursts(run: Run, measured: Measured, kind: str) -> pl.DataFrame:
    """Time of a burst: columns of `estimates` in ns, and size. `kind` is `latency` (last chain awaited) or `whole` (all)."""
    rows = _trials(run, measured).filter(pl.col("bench").str.starts_with(f"{kind}/"))
    found = estimates(rows.with_columns(value="ns"), "value")
    return found.with_columns(size=pl.col("bench").str.extract(r"/(\w+)-bursts")).sort(
        pl.col("size").replace_strict({size: number for number, size in enumerate(SIZES)}, default=None), "variant"
    )


def _trials(run: Run, measured: Measured) -> pl.DataFrame:
    if not measured:
        return measured.trials
    return measured.trials.filter(~pl.col("variant").is_in(run.study(STUDY).controls))


def _with_speed(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(speed=1 / pl.col("ratio"), speed_low=1 / pl.col("high"), speed_high=1 / pl.col("low"))


def _judged(measured: Measured, pairs: pl.DataFrame) -> pl.DataFrame:
    """Estimates of these pairs, each judged by the limit and the controls of its group."""
    found = estimates(paired_ratios(measured.trials, pairs)).join(pairs.drop(BASE_KEY), on=KEY)
    parts = [with_verdicts(found.clear(), measured.trust)]
    parts += [
        with_verdicts(part, measured.groups[group], pl.col("limit"))
        for (group,), part in found.group_by("group", maintain_order=True)
    ]
    return pl.concat(parts)
