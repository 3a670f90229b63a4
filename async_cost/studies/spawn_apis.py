"""The ring of spawns: what one way to spawn costs beside another, for one spawn, in wall time and in processor time.

A ring spawns a task for every message, a loop spawns tasks that do nothing. In a *joined* program every task is awaited, in a *dropped* one
none is; which of the two a layer can run is the confound of the published table. `JOINED` is each layer's own program, which for layers
without handles is the dropped one; under `DROPPED` all layers run the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from async_cost.literature.published import published_times
from async_cost.runs.comparisons import BASE_KEY, KEY
from async_cost.runs.run import Run
from async_cost.statistics.estimate import beside_itself, estimates, paired_costs, per_unit, trial_values
from async_cost.statistics.measured import Measured

STUDY = "spawn-apis"
#: The published sizes of the ring; the largest is the one that the published text speaks of.
SIZES = ("N=10", "N=100", "N=200")
JOINED, DROPPED, ONE_WORKER = "N=200", "N=200 handles=dropped", "N=200 workers=1"
LOOP, LOOP_DROPPED = "M=1000", "M=1000 handles=dropped"
#: Where tasks run. Each load there is a group of comparisons, with a control of its own.
ONE_THREAD, THREADS = "one thread", "threads"
CPU = "cpu_ns"
NATIVE = "native"


def lines(bench: str, variant: str) -> str:
    """A row's name in lines that fit beside a chart."""
    return f"{bench}\n{variant}".replace(", ", ",\n").replace(" with ", "\nwith ")


#: An executor and a way to spawn on it: bench, variant.
Row = tuple[str, str]
TOKIO, LOCAL_SET, ASYNC_STD = ("tokio::Runtime", NATIVE), ("tokio::LocalSet", NATIVE), ("async_std::task", NATIVE)


@dataclass(frozen=True)
class Step:
    """`one` beside `other` under one load; `what` says in which respect they differ."""

    one: Row
    other: Row
    parameter: str
    what: str

    @property
    def label(self) -> str:
        """Executor, way to spawn, and the way beside it, in lines that fit beside a chart."""
        return f"{lines(*self.one)}\n/ {self.other[1]}"


#: The two sides differ in one box: the first of a task, or one more around what is boxed already.
BOX, SECOND = "a box", "a second box"
BOXES = (
    Step(("TokioCt", "LocalSpawn"), LOCAL_SET, DROPPED, BOX),
    Step(("TokioTp", "Spawn"), TOKIO, DROPPED, BOX),
    Step(("AsyncStd", "Spawn"), ASYNC_STD, DROPPED, BOX),
    Step(("TokioTp", "SpawnHandleOs"), ("TokioTp", "SpawnHandle"), JOINED, BOX),
    Step(("AsyncStd", "SpawnHandleOs"), ("AsyncStd", "SpawnHandle"), JOINED, BOX),
    Step(("LocalPool", "LocalSpawnHandleOs"), ("LocalPool", "LocalSpawnHandle"), JOINED, SECOND),
    Step(("TokioCt", "LocalSpawnHandleOs"), ("TokioCt", "LocalSpawnHandle"), JOINED, SECOND),
    Step(("ThreadPool", "SpawnHandleOs"), ("ThreadPool", "SpawnHandle"), JOINED, SECOND),
)
#: They differ in how a handle is made.
ABORTABLE, ABORT, REMOTE = "Abortable", "the runtime's own abort", "remote_handle"
HANDLES = (
    Step(("TokioTp", "SpawnHandle"), TOKIO, JOINED, ABORTABLE),
    Step(("AsyncStd", "SpawnHandle"), ASYNC_STD, JOINED, ABORTABLE),
    Step(("TokioTp", "SpawnHandle, native abort"), TOKIO, JOINED, ABORT),
    Step(("TokioCt", "LocalSpawnHandle, native abort"), LOCAL_SET, JOINED, ABORT),
    Step(("LocalPool", "LocalSpawnHandle"), ("LocalPool", "LocalSpawn"), DROPPED, REMOTE),
    Step(("TokioCt", "LocalSpawnHandle"), ("TokioCt", "LocalSpawn"), DROPPED, REMOTE),
    Step(("ThreadPool", "SpawnHandle"), ("ThreadPool", "Spawn"), DROPPED, REMOTE),
    Step(("TokioTp", "Spawn with remote_handle"), ("TokioTp", "Spawn"), DROPPED, REMOTE),
)
#: On one worker, where wall time is processor time.
ALONE = (
    Step(("TokioTp", "SpawnHandle"), TOKIO, ONE_WORKER, ABORTABLE),
    Step(("AsyncStd", "SpawnHandle"), ASYNC_STD, ONE_WORKER, ABORTABLE),
    Step(("TokioTp", "SpawnHandleOs"), ("TokioTp", "SpawnHandle"), ONE_WORKER, BOX),
    Step(("AsyncStd", "SpawnHandleOs"), ("AsyncStd", "SpawnHandle"), ONE_WORKER, BOX),
    Step(("ThreadPool", "SpawnHandleOs"), ("ThreadPool", "SpawnHandle"), ONE_WORKER, SECOND),
)
#: What the document compared: two programs under `JOINED`, one and the same under `DROPPED`.
MIXED = (
    (("TokioTp", "Spawn"), TOKIO),
    (("AsyncStd", "Spawn"), ASYNC_STD),
    (("LocalPool", "LocalSpawnHandle"), ("LocalPool", "LocalSpawn")),
    (("ThreadPool", "SpawnHandle"), ("ThreadPool", "Spawn")),
    (("TokioCt", "LocalSpawnHandle"), ("TokioCt", "LocalSpawn")),
)
AS_PUBLISHED, ONE_PROGRAM = "two programs, as published", "one program"
PROGRAMS = {
    AS_PUBLISHED: tuple(Step(one, other, JOINED, AS_PUBLISHED) for one, other in MIXED),
    ONE_PROGRAM: tuple(Step(one, other, DROPPED, ONE_PROGRAM) for one, other in MIXED),
}


def compare(run: Run, measured: Measured, steps: Sequence[Step], root: Path | None = None) -> pl.DataFrame:
    """One row for each of `steps` that was measured, in their order, with `label` and `what`; further columns as of `judged`."""
    rows = [(number, *s.one, s.parameter, *s.other, s.parameter, s.label, s.what) for number, s in enumerate(steps)]
    texts = dict.fromkeys((*KEY, *BASE_KEY, "label", "what"), pl.String)
    pairs = pl.DataFrame(rows, schema={"number": pl.Int64} | texts, orient="row")
    # A difference matters from the limit of the group on to which the first of the two belongs.
    pairs = pairs.join(measured.pairs.select(*KEY, "group", "limit"), on=KEY)
    return judged(run, measured, pairs, root).sort("number").drop("number")


def over_native(run: Run, measured: Measured, parameter: str, threads: str, root: Path | None = None) -> pl.DataFrame:
    """Every layer beside the native row of its executor, the cheapest first; columns as of `judged`, and `label`.

    `threads` is where tasks run: `ONE_THREAD` or `THREADS`.
    """
    layers = measured.pairs.filter(
        ~pl.col("variant").str.starts_with(NATIVE), pl.col("group").str.starts_with(threads), parameter=parameter
    )
    names = [lines(*row) for row in layers.select("bench", "variant").iter_rows()]
    return judged(run, measured, layers.with_columns(pl.Series("label", names, pl.String)), root).sort("ratio")


def runtimes(run: Run, measured: Measured, parameter: str, root: Path | None = None) -> pl.DataFrame:
    """Native rows of other executors beside the one they are compared with; columns as of `judged`, and `label`."""
    rows = measured.pairs.filter(parameter=parameter, variant=NATIVE)
    label = pl.format("{}\n/ {}", "bench", "baseline_bench").str.replace(
        "tokio::Runtime (basic_scheduler)", "tokio", literal=True
    )
    return judged(
        run, measured, rows.with_columns(label=label.str.replace(r"/ tokio::Runtime$", "/ tokio")), root
    ).sort("ratio")


def judged(run: Run, measured: Measured, pairs: pl.DataFrame, root: Path | None = None) -> pl.DataFrame:
    """What the first side of each pair costs beside the second.

    `pairs` as from `Run.pairs`; further columns of it are kept. Added: ratio, low, high, q1, q3, rounds and verdict (null where the group's
    controls do not hold) of the wall time; added_ns, added_low, added_high, the wall time added to one spawn; cpu_ratio, cpu_ratio_low,
    cpu_ratio_high, cpu_ns, cpu_low, cpu_high, the same in processor time of all threads, null where it was not noted; published and published_ns,
    the reported ratio and time added to one spawn, null where one of the two was not reported.
    """
    wall = _costs(run, measured.trials, pairs, "")
    cpu = (
        _costs(run, _noted(run, measured), pairs, "cpu_").drop("q1", "q3", "rounds").rename({"cpu_added_ns": "cpu_ns"})
    )
    cpu = cpu.rename({"cpu_added_low": "cpu_low", "cpu_added_high": "cpu_high"})
    found = pairs.join(wall, on=KEY).join(cpu, on=KEY, how="left").join(_reported(run, pairs, root), on=KEY, how="left")
    return measured.judged(found)


def _costs(run: Run, trials: pl.DataFrame, pairs: pl.DataFrame, prefix: str) -> pl.DataFrame:
    """Key, ratio, low, high, q1, q3, rounds, added_ns, added_low, added_high; `prefix` before all but q1, q3 and rounds."""
    found = paired_costs(trials, pairs, run.units(STUDY) if trials.height else None)
    if not prefix:
        return found
    names = {"ratio": "cpu_ratio", "low": "cpu_ratio_low", "high": "cpu_ratio_high"}
    return found.rename(names | {name: f"{prefix}{name}" for name in ("added_ns", "added_low", "added_high")})


def _reported(run: Run, pairs: pl.DataFrame, root: Path | None) -> pl.DataFrame:
    """Key, published, published_ns of the pairs whose two sides are in the published table."""
    times = published_times(STUDY, root).select(*KEY, "ns")
    base = times.select(*(pl.col(name).alias(f"baseline_{name}") for name in KEY), base_ns="ns")
    both = pairs.select(*KEY, *BASE_KEY).join(times, on=KEY).join(base, on=BASE_KEY)
    units = run.units(STUDY) if STUDY in run.info.studies else both.select(*KEY, units=pl.lit(1))
    difference = (pl.col("ns") - pl.col("base_ns")) / pl.col("units")
    return both.join(units, on=KEY).select(*KEY, published=pl.col("ns") / pl.col("base_ns"), published_ns=difference)


def per_spawn(run: Run, measured: Measured, parameters: Sequence[str]) -> pl.DataFrame:
    """Wall time of one spawn with all that belongs to it: key, ns, low, high, q1, q3, rounds; controls are left out."""
    return estimates(_per_spawn(run, measured, parameters), "ns")


def beside_parameter(run: Run, measured: Measured, parameters: Sequence[str], other: str) -> pl.DataFrame:
    """The time of one spawn with each of `parameters` over that of the same layer with `other`: as `estimates` of ratios."""
    spawns = _per_spawn(run, measured, [*parameters, other])
    return estimates(beside_itself(spawns, parameters, other))


def _per_spawn(run: Run, measured: Measured, parameters: Sequence[str]) -> pl.DataFrame:
    if not measured:
        return measured.trials
    trials = measured.trials.filter(
        pl.col("parameter").is_in(parameters), ~pl.col("variant").is_in(run.study(STUDY).controls)
    )
    return per_unit(trials, run.units(STUDY))


def allocations(run: Run, parameter: str) -> pl.DataFrame:
    """Allocations of one spawn with all that belongs to it, the fewest first: key, value. Empty where none were counted."""
    counted = run.counts(STUDY).filter(counter="allocations", parameter=parameter)
    mine = counted.filter(~pl.col("variant").is_in(run.study(STUDY).controls)).join(run.units(STUDY), on=KEY)
    return mine.select(*KEY, value=pl.col("value") / pl.col("units")).sort("value", *KEY)


def processors_in_use(run: Run, measured: Measured, parameter: str) -> pl.DataFrame:
    """Processor time over wall time of native rows with worker threads: key, value, low, high, q1, q3, rounds."""
    threaded = run.counts(STUDY).filter(counter="workers") if measured else measured.trials
    wall = measured.trials.filter(variant=NATIVE, parameter=parameter).join(threaded.select(KEY), on=KEY, how="semi")
    rows = wall.join(_noted(run, measured).select(*KEY, "round", cpu_ns="ns"), on=[*KEY, "round"])
    return estimates(rows.with_columns(value=pl.col("cpu_ns") / pl.col("ns")), "value")


def _noted(run: Run, measured: Measured) -> pl.DataFrame:
    """Trials of processor time instead of wall time, in `ns`."""
    if not measured:
        return measured.trials
    return trial_values(run, STUDY, CPU).rename({"value": "ns"})
