"""Runtimes on micro-benchmarks: which of their gaps come from queues, which from policy, and which from the meaning of
`block_on`.

A row is a test under one parameter. The published rows come with controls, whose parameters say what they change:
`driver=task` runs the root of an iteration as a task on all runtimes, `workers=cores` has as many workers as there are
processors.
"""

import polars as pl

from async_cost.literature.published import published_times
from async_cost.runs.comparisons import BASE_KEY, KEY, PAIR
from async_cost.runs.run import Run
from async_cost.statistics.interval import estimates
from async_cost.statistics.measured import Measured
from async_cost.statistics.ratios import paired
from async_cost.statistics.trials import trial_values

STUDY, EXECUTOR = "runtimes", "runtimes-executor"
TOKIO, NIO, OURS = "tokio", "nio", "ours"
AS_PUBLISHED, BY_TASK, HONEST = "", "driver=task", "workers=cores"
#: The tables of sync_notify, by nio's setting; its default comes first.
TABLES = ("table: min_tasks_per_worker=3", "table: min_tasks_per_worker=10")
PUBLISHED = (AS_PUBLISHED, *TABLES)
#: The published suites in the order of the document, with the one that was announced and left out.
SUITES = (
    "rt_current_thread",
    "rt_multi_threaded",
    "spawn_blocking",
    "spawn",
    "sync_broadcast",
    "sync_mpsc_oneshot",
    "sync_mpsc",
    "sync_notify",
    "sync_semaphore",
    "sync_watch",
    "timer",
)
#: The suite of programs that are in no document.
PROGRAMS = "programs"
#: The test in which two policies for tasks from outside meet a stall.
BUSY = "rt_multi_threaded/spawn_many_remote_busy2"
CPU, SWITCHES = "cpu_ns", "voluntary_switches"


def test_of(bench: str) -> str:
    """The test without its suite, unless both have the same name."""
    suite, _, test = bench.partition("/")
    return test.removeprefix(f"{suite}/")


def label(row: dict) -> str:
    """A row's test, the published table where there are two, and the runtime, in lines that fit next to a chart."""
    table = (
        f" ({row['parameter'].removeprefix('table: min_tasks_per_worker=')} a worker)"
        if row["parameter"] in TABLES
        else ""
    )
    return f"{test_of(row['bench'])}{table}\n{row['variant']}"


def labelled(frame: pl.DataFrame) -> pl.DataFrame:
    """The frame with a column `label`."""
    labels = [label(row) for row in frame.iter_rows(named=True)]
    return frame.with_columns(pl.Series("label", labels, pl.String))


def published() -> pl.DataFrame:
    """The reported ratios of nio to tokio, row by row: bench, variant, parameter, published."""
    times = published_times(STUDY).select(*KEY, "ns")
    base = times.filter(variant=TOKIO).select("bench", "parameter", base="ns")
    rows = times.filter(variant=NIO).join(base, on=["bench", "parameter"])
    return rows.select(*KEY, published=pl.col("ns") / pl.col("base"))


def beside_tokio(measured: Measured) -> pl.DataFrame:
    """Every runtime compared with tokio in every row: the table of comparisons, suite, published and label."""
    rows = _same_row(measured).filter(pl.col("baseline_variant") == TOKIO, pl.col("variant") != TOKIO)
    return labelled(rows.join(published(), on=KEY, how="left"))


def _same_row(measured: Measured) -> pl.DataFrame:
    """The comparisons within one row (bench and parameter), with its suite."""
    rows = measured.comparisons.filter(
        pl.col("baseline_parameter") == pl.col("parameter"), pl.col("baseline_bench") == pl.col("bench")
    )
    return rows.with_columns(suite=pl.col("bench").str.split("/").list.first())


def of_suite(rows: pl.DataFrame, suite: str) -> pl.DataFrame:
    """The published rows of a suite, in the order of the tests: by table, test and number, nio first."""
    number = pl.col("bench").str.extract(r"(\d+)$").cast(pl.Int64).fill_null(0)
    test = pl.col("bench").str.replace(r"\d+$", "")
    turn = pl.col("variant").replace_strict({NIO: 0, OURS: 1}, default=2, return_dtype=pl.Int64)
    chosen = rows.filter(pl.col("parameter").is_in(PUBLISHED), suite=suite)
    return chosen.sort(pl.col("parameter").str.len_chars(), test, number, turn, "variant")


def settings(measured: Measured, bench: str, variant: str) -> pl.DataFrame:
    """One runtime with a setting of its own compared with itself as published, in one bench: rows of the table of
    comparisons.
    """
    return measured.comparisons.filter(
        pl.col("parameter") != pl.col("baseline_parameter"), bench=bench, variant=variant, baseline_variant=variant
    )


def beside_the_better(measured: Measured, parameters: tuple[str, ...] = PUBLISHED) -> pl.DataFrame:
    """Our executor compared with the better of tokio and nio, which is the one with the smaller median time: the table
    of comparisons, suite, label.
    """
    rows = _same_row(measured).filter(
        pl.col("baseline_variant").is_in([TOKIO, NIO]), pl.col("parameter").is_in(parameters), variant=OURS
    )
    # Compared with the better of the two, ours takes the larger ratio.
    rows = rows.sort("ratio", descending=True).unique(["bench", "parameter"], keep="first", maintain_order=True)
    labels = [
        label({**row, "variant": f"compared with {row['baseline_variant']}"}) for row in rows.iter_rows(named=True)
    ]
    return rows.with_columns(pl.Series("label", labels, pl.String)).sort("ratio")


def at_least_as_fast(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of `beside_the_better` in which ours is not shown to be slower, and its estimate is not longer by more
    than the limit of its group.
    """
    return rows.filter(pl.col("ratio") <= 1 + pl.col("limit"), pl.col("low") <= 1 + pl.col("limit"))


def both_ways(measured: Measured, parameter: str) -> pl.DataFrame:
    """nio compared with tokio as published and under `parameter`, where both were measured: the table of comparisons,
    unit, label.
    """
    rows = _same_row(measured).filter(variant=NIO, baseline_variant=TOKIO)
    other = rows.filter(parameter=parameter).with_columns(unit=pl.lit(parameter))
    usual = rows.filter(pl.col("parameter").is_in(PUBLISHED)).join(other, on="bench", how="semi")
    usual = usual.sort("parameter").unique("bench", keep="first", maintain_order=True)
    usual = usual.with_columns(unit=pl.lit("as published"))
    return pl.concat([usual, other]).with_columns(label="bench").sort("label", "unit")


def changed(twice: pl.DataFrame) -> pl.DataFrame:
    """The benches of `both_ways` whose two intervals do not overlap: bench, ratio, low, high as published, and the same
    with `_other`.
    """
    usual, other = (twice.filter(pl.col("unit") == "as published"), twice.filter(pl.col("unit") != "as published"))
    paired = usual.join(other.select("bench", "ratio", "low", "high", "verdict"), on="bench", suffix="_other")
    return paired.filter((pl.col("high") < pl.col("low_other")) | (pl.col("low") > pl.col("high_other")))


def used(measured: Measured) -> pl.DataFrame:
    """Suite by suite: of the published rows and of our programs, the median ratio of each runtime to tokio in wall time
    and in processor time, and the voluntary context switches of one iteration: suite, variant, wall, cpu, switches,
    tokio_switches.
    """
    shown = pl.col("parameter").is_in(PUBLISHED) | (pl.col("suite") == PROGRAMS)
    rows = _same_row(measured).filter(shown, pl.col("variant").is_in([NIO, OURS]), baseline_variant=TOKIO)
    if rows.is_empty():
        return rows
    cpu = paired(trial_values(measured.run, STUDY, CPU).rename({"value": "ns"}), rows.select(PAIR))
    switches = trial_values(measured.run, STUDY, SWITCHES).group_by(KEY).agg(switches=pl.col("value").median())
    rows = rows.rename({"ratio": "wall"}).join(estimates(cpu, "ratio", PAIR).select(*PAIR, cpu="ratio"), on=PAIR)
    rows = rows.join(switches, on=KEY)
    rows = rows.join(switches.rename({"switches": "tokio_switches"}), left_on=BASE_KEY, right_on=KEY)
    columns = ("wall", "cpu", "switches", "tokio_switches")
    return rows.group_by("suite", "variant").agg(pl.col(columns).median()).sort("suite", "variant")


def oversubscribed(run: Run) -> pl.DataFrame:
    """Published rows with more workers than this machine has processors: bench, parameter, workers."""
    if STUDY not in run.info.studies:
        return pl.DataFrame(schema={"bench": pl.String, "parameter": pl.String, "workers": pl.Int64})
    workers = run.counts(STUDY).filter(counter="workers", variant=TOKIO)
    more = workers.filter(pl.col("value") > (run.info.machine.logical_cores or 1), pl.col("parameter").is_in(PUBLISHED))
    return more.select("bench", "parameter", workers="value").sort("bench", "parameter")


def busy(run: Run) -> pl.DataFrame:
    """How many threads of each runtime ran in the rows of `oversubscribed`, the caller's among them: bench, parameter,
    workers, and a column for each runtime, the median over trials; empty in runs that did not note it.
    """
    rows = oversubscribed(run)
    if rows.is_empty():
        return rows
    noted = trial_values(run, STUDY, "busy_threads").join(rows, on=["bench", "parameter"])
    medians = noted.group_by("bench", "parameter", "workers", "variant").agg(pl.col("value").median())
    runtimes = [name for name in (TOKIO, NIO, OURS) if name in set(medians["variant"])]
    return (
        medians.pivot("variant", index=["bench", "parameter", "workers"], values="value")
        .select("bench", "parameter", "workers", *runtimes)
        .sort("bench", "parameter")
    )


def decisions(run: Run) -> tuple[Measured, pl.DataFrame]:
    """Our executor without one of its decisions, compared with itself: the table of comparisons, label."""
    measured = Measured.of(run, EXECUTOR)
    return measured, measured.comparisons.with_columns(label=pl.format("{}\n{}", "bench", "variant"))
