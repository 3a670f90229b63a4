"""The ring of spawns: what one way to spawn costs compared with another, per spawn, in wall time and in processor time.

A ring spawns a task for every message, a loop spawns tasks that do nothing. In a *joined* program every task is
awaited, in a *dropped* one none is; which of the two a layer can run is the confound of the published table. `JOINED`
is each layer's own program, which for layers without handles is the dropped one; under `DROPPED` all layers run the
same.
"""

from collections.abc import Sequence

import polars as pl

from async_cost.literature.published import published_times
from async_cost.runs.comparisons import BASE_KEY, KEY, PAIR
from async_cost.runs.run import Run
from async_cost.statistics.interval import estimates
from async_cost.statistics.measured import Measured, pairs_frame
from async_cost.statistics.ratios import paired
from async_cost.statistics.trials import per_unit, trial_values
from async_cost.words import CONTROL

STUDY = "spawn-apis"
#: The published sizes of the ring; the largest is the one that the published text speaks of.
SIZES = ("N=10", "N=100", "N=200")
JOINED, DROPPED, ONE_WORKER = "N=200", "N=200 handles=dropped", "N=200 workers=1"
LOOP, LOOP_DROPPED = "M=1000", "M=1000 handles=dropped"
#: Where tasks run. Each load there is a group of comparisons, with a control of its own.
ONE_THREAD, THREADS = "one thread", "threads"
CPU = "cpu_ns"
NATIVE = "native"
#: The pools of futures have no native way to spawn: their plainest layer replaces it.
POOLS, PLAIN = ("LocalPool", "ThreadPool"), ("LocalSpawn", "Spawn")


def lines(bench: str, variant: str) -> str:
    """A row's name in lines that fit next to a chart."""
    return f"{bench}\n{variant}".replace(", ", ",\n").replace(" with ", "\nwith ")


#: An executor and a way to spawn on it: bench, variant.
Row = tuple[str, str]
TOKIO, LOCAL_SET, ASYNC_STD = ("tokio::Runtime", NATIVE), ("tokio::LocalSet", NATIVE), ("async_std::task", NATIVE)


#: Benches and ways to spawn, two by two: the first of the two sides has one box more, of a task, or around what is
#: boxed already.
BOXES = {
    DROPPED: (
        (("TokioCt", "LocalSpawn"), LOCAL_SET),
        (("TokioTp", "Spawn"), TOKIO),
        (("AsyncStd", "Spawn"), ASYNC_STD),
    ),
    JOINED: (
        (("TokioTp", "SpawnHandleOs"), ("TokioTp", "SpawnHandle")),
        (("AsyncStd", "SpawnHandleOs"), ("AsyncStd", "SpawnHandle")),
        (("LocalPool", "LocalSpawnHandleOs"), ("LocalPool", "LocalSpawnHandle")),
        (("TokioCt", "LocalSpawnHandleOs"), ("TokioCt", "LocalSpawnHandle")),
        (("ThreadPool", "SpawnHandleOs"), ("ThreadPool", "SpawnHandle")),
    ),
}
#: They differ in how a handle is made.
HANDLES = {
    JOINED: (
        (("TokioTp", "SpawnHandle"), TOKIO),
        (("AsyncStd", "SpawnHandle"), ASYNC_STD),
        (("TokioTp", "SpawnHandle, native abort"), TOKIO),
        (("TokioCt", "LocalSpawnHandle, native abort"), LOCAL_SET),
    ),
    DROPPED: (
        (("LocalPool", "LocalSpawnHandle"), ("LocalPool", "LocalSpawn")),
        (("TokioCt", "LocalSpawnHandle"), ("TokioCt", "LocalSpawn")),
        (("ThreadPool", "SpawnHandle"), ("ThreadPool", "Spawn")),
        (("TokioTp", "Spawn with remote_handle"), ("TokioTp", "Spawn")),
    ),
}
#: On one worker, where wall time is processor time.
ALONE = {
    ONE_WORKER: (
        (("TokioTp", "SpawnHandle"), TOKIO),
        (("AsyncStd", "SpawnHandle"), ASYNC_STD),
        *((pool, base) for pool, base in BOXES[JOINED] if pool[0] in ("TokioTp", "AsyncStd", "ThreadPool")),
    )
}
#: What the document compared: two programs under `JOINED`, one and the same under `DROPPED`.
MIXED = (
    (("TokioTp", "Spawn"), TOKIO),
    (("AsyncStd", "Spawn"), ASYNC_STD),
    (("LocalPool", "LocalSpawnHandle"), ("LocalPool", "LocalSpawn")),
    (("ThreadPool", "SpawnHandle"), ("ThreadPool", "Spawn")),
    (("TokioCt", "LocalSpawnHandle"), ("TokioCt", "LocalSpawn")),
)
AS_PUBLISHED, ONE_PROGRAM = "two programs, as published", "one program"
PROGRAMS = {AS_PUBLISHED: {JOINED: MIXED}, ONE_PROGRAM: {DROPPED: MIXED}}
#: Ways to spawn by load (the parameter), two by two.
Chosen = dict[str, tuple[tuple[Row, Row], ...]]


def compare(measured: Measured, chosen: Chosen) -> pl.DataFrame:
    """The `chosen` comparisons that were measured, in their order: columns as of `noted`, and `label` for a chart."""
    pairs = [((*one, load), (*other, load)) for load, rows in chosen.items() for one, other in rows]
    rows = measured.pick(pairs_frame(pairs))
    label = [
        f"{lines(*row[:2])}\n/ {row[2]}" for row in rows.select("bench", "variant", "baseline_variant").iter_rows()
    ]
    return noted(measured, rows.with_columns(pl.Series("label", label, pl.String)))


def over_native(measured: Measured, parameter: str, threads: str) -> pl.DataFrame:
    """Every layer compared with the native row of its executor, the cheapest first; columns as of `noted`, and `label`.

    `threads` is where tasks run: `ONE_THREAD` or `THREADS`.
    """
    layers = measured.comparisons.filter(
        ~pl.col("variant").str.starts_with(NATIVE),
        (pl.col("baseline_variant") == NATIVE) | pl.col("baseline_variant").is_in(PLAIN) & pl.col("bench").is_in(POOLS),
        pl.col("group").str.starts_with(threads),
        parameter=parameter,
        baseline_parameter=parameter,
    )
    names = [lines(*row) for row in layers.select("bench", "variant").iter_rows()]
    return noted(measured, layers.with_columns(pl.Series("label", names, pl.String))).sort("ratio")


def runtimes(measured: Measured, parameter: str) -> pl.DataFrame:
    """Native rows of other executors with what they are compared with; columns as of `noted`, and `label`."""
    rows = measured.comparisons.filter(parameter=parameter, variant=NATIVE, baseline_parameter=parameter)
    label = pl.format("{}\n/ {}", "bench", "baseline_bench").str.replace(
        "tokio::Runtime (basic_scheduler)", "tokio", literal=True
    )
    return noted(measured, rows.with_columns(label=label.str.replace(r"/ tokio::Runtime$", "/ tokio"))).sort("ratio")


def noted(measured: Measured, rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of the table of comparisons with further values that were recorded for the two sides.

    Added: cpu_ratio, cpu_ratio_low, cpu_ratio_high, cpu_ns, cpu_low, cpu_high, ratio and added time of one spawn in
    processor time of all threads, null if it was not recorded; published and published_ns, the reported ratio and time
    added to one spawn, null if one of the two was not reported.
    """
    units = measured.run.units(STUDY) if measured else None
    cpu = paired(_processor_time(measured), rows.select(PAIR), units)
    ratio = estimates(cpu, "ratio", PAIR).select(*PAIR, cpu_ratio="ratio", cpu_ratio_low="low", cpu_ratio_high="high")
    added = estimates(cpu, "added_ns", PAIR).select(*PAIR, cpu_ns="added_ns", cpu_low="low", cpu_high="high")
    for more in (ratio, added, _reported(measured, rows)):
        rows = rows.join(more, on=PAIR, how="left", maintain_order="left")
    return rows


def _reported(measured: Measured, rows: pl.DataFrame) -> pl.DataFrame:
    """The six columns of a pair, published, published_ns where the two sides are in the published table."""
    times = published_times(STUDY).select(*KEY, "ns")
    base = times.select(*(pl.col(name).alias(base) for name, base in zip(KEY, BASE_KEY, strict=True)), base_ns="ns")
    both = rows.select(PAIR).join(times, on=KEY).join(base, on=BASE_KEY)
    units = measured.run.units(STUDY) if measured else both.select(*KEY, units=pl.lit(1))
    difference = (pl.col("ns") - pl.col("base_ns")) / pl.col("units")
    return both.join(units, on=KEY).select(*PAIR, published=pl.col("ns") / pl.col("base_ns"), published_ns=difference)


def per_spawn(measured: Measured, parameters: Sequence[str]) -> pl.DataFrame:
    """Wall time of one spawn with everything that belongs to it: key, ns, low, high, q1, q3, rounds; without
    controls.
    """
    trials = measured.trials.filter(pl.col("parameter").is_in(parameters), ~pl.col("variant").str.ends_with(CONTROL))
    return estimates(per_unit(trials, measured.run.units(STUDY)) if measured else trials, "ns")


def beside_parameter(measured: Measured, parameters: Sequence[str], other: str) -> pl.DataFrame:
    """One spawn with each of `parameters` compared with one of the same layer with `other`: rows of the table of
    comparisons.
    """
    return measured.comparisons.filter(
        pl.col("parameter").is_in(parameters),
        pl.col("bench") == pl.col("baseline_bench"),
        pl.col("variant") == pl.col("baseline_variant"),
        baseline_parameter=other,
    )


def allocations(run: Run, parameter: str) -> pl.DataFrame:
    """Allocations of one spawn with everything that belongs to it, the fewest first: key, value. Empty if none were
    counted.
    """
    counted = run.counts(STUDY).filter(counter="allocations", parameter=parameter)
    mine = counted.filter(~pl.col("variant").is_in(run.study(STUDY).controls)).join(run.units(STUDY), on=KEY)
    return mine.select(*KEY, value=pl.col("value") / pl.col("units")).sort("value", *KEY)


def processors_in_use(measured: Measured, parameter: str) -> pl.DataFrame:
    """Processor time over wall time of native rows with worker threads: key, value, low, high, q1, q3, rounds."""
    threaded = measured.run.counts(STUDY).filter(counter="workers") if measured else measured.trials
    wall = measured.trials.filter(variant=NATIVE, parameter=parameter).join(threaded.select(KEY), on=KEY, how="semi")
    rows = wall.join(_processor_time(measured).select(*KEY, "round", cpu_ns="ns"), on=[*KEY, "round"])
    return estimates(rows.with_columns(value=pl.col("cpu_ns") / pl.col("ns")), "value")


def _processor_time(measured: Measured) -> pl.DataFrame:
    """Trials of processor time instead of wall time, in `ns`."""
    return trial_values(measured.run, STUDY, CPU).rename({"value": "ns"}) if measured else measured.trials
