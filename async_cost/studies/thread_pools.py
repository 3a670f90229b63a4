"""Three thread pools: throughput by threads, bursts, and how ours compare with the pools that they are modelled on.

The benches `throughput/...` and `latency/...` run the published program, which awaits the last chain of each submitting
thread. In `jobs/...` and `whole/...` all jobs are awaited. Pools as described have their published names; the originals
have `executors` in their names, and our lean versions `lean`.
"""

from collections.abc import Mapping, Sequence

import polars as pl

from async_cost.literature.published import load_published
from async_cost.runs.comparisons import KEY
from async_cost.runs.run import Run
from async_cost.statistics.effects import NANOSECONDS
from async_cost.statistics.interval import estimates
from async_cost.statistics.measured import Measured, both_ways
from async_cost.statistics.trials import trial_values
from async_cost.words import CONTROL

STUDY = "thread-pools"
LOW, HIGH = "throughput/low-amplification", "throughput/high-amplification"
EXTERNAL, INTERNAL = "jobs/external", "jobs/internal"
SIZES = ("small", "medium", "large")
TP, CBCP, CBWP, NEVER_PARK = "TP", "CBCP", "CBWP", "CBWP (ws-no-park)"
DEFAULT, COUNTING = "CBWP (default-features)", "CBWP (no ws-timed-fairness)"
NO_POOL = "no pool"
RAYON_JOIN = "rayon join"
#: Pools that are compared with one other pool only: steps from the described pools to the lean ones, and workers that
#: are bound to processors.
STEP, PINNED = ", step ", " (pinned)"
#: The columns of the published tables, in their order.
PUBLISHED = (TP, CBCP, DEFAULT, NEVER_PARK, COUNTING)
#: The pools as described, each of which has an original.
DESCRIBED = (CBCP, CBWP, DEFAULT, NEVER_PARK, COUNTING)
LEAN_CBCP, LEAN_CBWP, LEAN_NEVER_PARK = LEAN = tuple(f"lean {name}" for name in (CBCP, CBWP, NEVER_PARK))
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
    """Logical processors of the machine, 1 if unknown."""
    return run.info.machine.logical_cores or 1


def rates(measured: Measured, benches: Sequence[str], as_published: bool = False) -> pl.DataFrame:
    """Million jobs a second: key, value, low, high, q1, q3, rounds, threads; without controls, steps and pools whose
    workers are bound.

    `as_published` counts what the published tables do: the jobs of a message without its first.
    """
    rows = _of_the_field(_trials(measured)).filter(pl.col("bench").is_in(benches))
    share = pl.lit(1.0)
    if as_published and rows.height:
        a = measured.run.counts(STUDY).filter(counter="amplification").select(*KEY, a="value")
        rows = rows.join(a, on=KEY)
        share = pl.col("a") / (pl.col("a") + 1)
    return with_threads(estimates(rows.with_columns(value=MILLIONS / pl.col("ns") * share), "value"))


def published_rates() -> pl.DataFrame:
    """The published throughput, in million schedulings a second: key, value, threads."""
    table = load_published(STUDY).filter(metric="throughput")
    return with_threads(table.select(*KEY, "value"))


def published_bursts() -> pl.DataFrame:
    """The published latency in nanoseconds: key, mean, bound (the largest deviation of one run from it)."""
    table = load_published(STUDY).with_columns(
        ns=pl.col("value") * pl.col("unit").replace_strict(NANOSECONDS, default=None)
    )
    mean = table.filter(metric="latency_mean").select(*KEY, mean="ns")
    return mean.join(table.filter(metric="latency_max_min_bound").select(*KEY, bound="ns"), on=KEY)


def against_originals(measured: Measured) -> pl.DataFrame:
    """The pools as described compared with their originals, wherever both were measured: the table of comparisons,
    threads, speed, speed_low, speed_high.

    The speeds are the reciprocals of the ratios: above 1, the pool as described is faster.
    """
    rows = measured.comparisons.filter(
        pl.col("variant").is_in(DESCRIBED), pl.col("baseline_variant").str.starts_with("executors")
    )
    return with_threads(_with_speed(rows)).sort("bench", "variant", "threads", "parameter")


def by_size(measured: Measured) -> pl.DataFrame:
    """Each size of a throughput compared with the next smaller one, by time of a job: rows of the table of
    comparisons.
    """
    return measured.comparisons.filter(pl.col("bench").str.starts_with("size/")).sort("bench", "variant")


def lean(measured: Measured) -> pl.DataFrame:
    """The lean pools compared with those as described, wherever both were measured: columns as of
    `against_originals`.
    """
    rows = measured.comparisons.filter(pl.col("variant").is_in(LEAN), pl.col("baseline_variant").is_in(DESCRIBED))
    return with_threads(_with_speed(rows)).sort("bench", "variant", "threads", "parameter")


def steps(measured: Measured) -> pl.DataFrame:
    """Each step from a pool as described to the lean one compared with the step before it: rows of the table of
    comparisons, in the order of the steps.
    """
    stepped = [pl.col(name).str.contains(STEP, literal=True) for name in ("variant", "baseline_variant")]
    pool = pl.col("baseline_variant").str.split(",").list.first()
    rows = measured.comparisons.filter(pl.any_horizontal(stepped))
    return rows.sort("bench", "parameter", pool, pl.col("variant").is_in(LEAN), "variant")


def pinned(measured: Measured) -> pl.DataFrame:
    """Pools with workers bound to processors compared with the same without: rows of the table of comparisons."""
    return measured.comparisons.filter(pl.col("variant").str.ends_with(PINNED)).sort("variant", "bench", "parameter")


def trees(measured: Measured) -> pl.DataFrame:
    """Ways to run a tree compared with rayon's `join`: rows of the table of comparisons, the fastest first under each
    load.
    """
    return measured.comparisons.filter(bench="tree", baseline_variant=RAYON_JOIN).sort("parameter", "ratio")


def against(measured: Measured, variant: str, other: str, benches: Sequence[str]) -> pl.DataFrame:
    """One pool compared with another under each load of `benches` that has both: columns as of `against_originals`."""
    rows = measured.compare(variant, other).filter(pl.col("bench").is_in(benches))
    return with_threads(_with_speed(rows)).sort("bench", "threads", "parameter")


def ranked(measured: Measured, bench: str, parameter: str) -> pl.DataFrame:
    """All pools under one load, the fastest first: key, value, low, high (time of an iteration)."""
    rows = _of_the_field(_trials(measured)).filter(pl.col("variant") != NO_POOL, bench=bench, parameter=parameter)
    return estimates(rows.with_columns(value="ns"), "value").sort("value")


def winners(rankings: Mapping[str, pl.DataFrame]) -> dict[str, list[str]]:
    """The loads under which each pool is the fastest, by pool; `rankings` as from `ranked`, by load."""
    found: dict[str, list[str]] = {}
    for load, ranking in rankings.items():
        found.setdefault(ranking["variant"][0], []).append(load)
    return found


def beside_ours(measured: Measured, bench: str, parameter: str) -> pl.DataFrame:
    """Every other pool compared with `lean CBWP` under one load, the fastest first: rows of the table of
    comparisons.
    """
    rows = _of_the_field(both_ways(measured.comparisons)).filter(
        pl.col("variant") != NO_POOL,
        baseline_variant=LEAN_CBWP,
        bench=bench,
        parameter=parameter,
        baseline_parameter=parameter,
    )
    return rows.sort("ratio")


def beside_no_pool(measured: Measured, bench: str) -> pl.DataFrame:
    """A job that works compared with the work alone on one thread: the table of comparisons, work (steps), own_ns (the
    time of the work alone).

    With two processors and no cost of its own, a pool of two workers would need half the time.
    """
    rows = measured.comparisons.filter(bench=bench, baseline_variant=NO_POOL).with_columns(
        work=pl.col("parameter").str.extract(WORK).cast(pl.Int64)
    )
    alone = _trials(measured).filter(variant=NO_POOL).with_columns(own_ns="ns")
    own = estimates(alone, "own_ns").select("parameter", "own_ns", baseline_bench="bench")
    return rows.join(own, on=["baseline_bench", "parameter"]).sort("work", "variant")


def of_metric(measured: Measured, metric: str, benches: Sequence[str]) -> pl.DataFrame:
    """A metric for one iteration (a quantile for its bursts): key, value, low, high, q1, q3, rounds; empty if it was
    not recorded.
    """
    if not measured:
        return estimates(measured.trials.with_columns(value="ns"), "value")
    rows = _of_the_field(trial_values(measured.run, STUDY, metric)).filter(
        pl.col("bench").is_in(benches), ~pl.col("variant").str.ends_with(CONTROL)
    )
    return estimates(rows, "value")


def bursts(measured: Measured, kind: str) -> pl.DataFrame:
    """Time of a burst: columns of `estimates` in ns, size, and as in the published tables own_mean and own_bound (the
    largest deviation of a trial from it).

    `kind` is `latency` (last chain awaited) or `whole` (all).
    """
    rows = _trials(measured).filter(pl.col("bench").str.starts_with(f"{kind}/"))
    deviation = (pl.col("ns") - pl.col("ns").mean()).abs().max()
    own = rows.group_by(*KEY).agg(own_mean=pl.col("ns").mean(), own_bound=deviation)
    found = estimates(rows.with_columns(value="ns"), "value").join(own, on=list(KEY))
    return found.with_columns(size=pl.col("bench").str.extract(r"/(\w+)-bursts")).sort(
        pl.col("size").replace_strict({size: number for number, size in enumerate(SIZES)}, default=None), "variant"
    )


def _of_the_field(rows: pl.DataFrame) -> pl.DataFrame:
    """Without the pools that are compared with one other pool only."""
    return rows.filter(
        ~pl.any_horizontal(pl.col("variant").str.contains(mark, literal=True) for mark in (STEP, PINNED))
    )


def _trials(measured: Measured) -> pl.DataFrame:
    return measured.trials.filter(~pl.col("variant").str.ends_with(CONTROL))


def _with_speed(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(speed=1 / pl.col("ratio"), speed_low=1 / pl.col("high"), speed_high=1 / pl.col("low"))
