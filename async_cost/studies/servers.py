"""An echo server written in several ways: processor time and elapsed time of a request, and memory of a connection.

The time that this study compares is the processor time of the server. Elapsed time and the latency that the clients saw
are metrics: they have estimates and no verdicts.
"""

import polars as pl

from async_cost.runs.comparisons import KEY, PAIR
from async_cost.statistics.interval import estimates
from async_cost.statistics.measured import Measured
from async_cost.statistics.ratios import paired
from async_cost.statistics.trials import trial_values
from async_cost.words import CONTROL

STUDY = "servers"
LOOP, FRONTIER = "loop", "frontier"
TOKIO, TOKIO_THREADS = "tokio current_thread", "tokio multi_thread"
#: The name of the measured time in sentences.
WHAT = "processor time"
_LOAD = {"connections": r"connections=(\d+)", "active": r"active=(\d+)", "work": r"work=(\d+)"}
#: The loads in the order in which they are shown.
_ORDER = ("work", "all_active", "connections")


def load_name(connections: int, active: int, work: int) -> str:
    """A load in words: `10 of 1,000 active`."""
    who = f"all of {connections:,}" if active == connections else f"{active:,} of {connections:,}"
    return f"{who} active{', with work' if work else ''}"


def with_load(frame: pl.DataFrame) -> pl.DataFrame:
    """Adds connections, active, work (steps), all_active and load (its name) from the parameter; sorted by load, in
    which rows keep their order.
    """
    frame = frame.with_columns(
        pl.col("parameter").str.extract(pattern).cast(pl.Int64).fill_null(0).alias(name)
        for name, pattern in _LOAD.items()
    )
    names = [load_name(*row) for row in frame.select(*_LOAD).iter_rows()]
    frame = frame.with_columns(
        pl.Series("load", names, pl.String), all_active=pl.col("active") == pl.col("connections")
    )
    # Ten of ten belong to the loads with few active connections.
    fewest = pl.col("active") == pl.col("active").min()
    return frame.with_columns(all_active=pl.col("all_active") & ~fewest).sort(*_ORDER, maintain_order=True)


def beside_loop(measured: Measured) -> pl.DataFrame:
    """Every server compared with the loop under its load, the least processor time first: rows of the table of
    comparisons, with their load.
    """
    rows = measured.comparisons.filter(pl.col("parameter") == pl.col("baseline_parameter"), baseline_variant=LOOP)
    return with_load(rows.sort("ratio"))


def frontier_beside_loop(measured: Measured) -> pl.DataFrame:
    """The frontier's rows of `beside_loop`, by load, with the loop's processor time of a request (loop_ns) and the
    kernel's share of it (kernel).
    """
    of_loop = processor_times(measured).filter(variant=LOOP).select("parameter", loop_ns="value")
    kernel = kernel_shares(measured).filter(variant=LOOP).select("parameter", kernel="value")
    rows = beside_loop(measured).filter(variant=FRONTIER)
    for more in (of_loop, kernel):
        rows = rows.join(more, on="parameter", how="left", maintain_order="left")
    return rows


def more_threads(measured: Measured) -> pl.DataFrame:
    """tokio with several threads compared with tokio with one: as `beside_loop`."""
    return with_load(measured.comparisons.filter(variant=TOKIO_THREADS, baseline_variant=TOKIO))


def more_connections(measured: Measured) -> pl.DataFrame:
    """Every server compared with itself with fewer connections, of which as many are active: as `beside_loop`."""
    idle = measured.comparisons.filter(
        pl.col("variant") == pl.col("baseline_variant"), ~pl.col("parameter").str.contains("work=")
    )
    return with_load(idle.sort("ratio"))


def own_work(measured: Measured) -> dict | None:
    """The loop with work of its own compared with the loop without: a row of the table of comparisons, None if that was
    not measured.
    """
    rows = measured.comparisons.filter(pl.col("parameter").str.contains("work="), variant=LOOP, baseline_variant=LOOP)
    return next(rows.iter_rows(named=True), None)


def processor_times(measured: Measured) -> pl.DataFrame:
    """Nanoseconds of processor time of a request: key, value, low, high, and its load."""
    return with_load(estimates(_servers(measured.trials).with_columns(value="ns"), "value"))


def of_metric(measured: Measured, metric: str) -> pl.DataFrame:
    """A metric, for a request where it adds up over them: key, value, low, high, and its load."""
    values = trial_values(measured.run, STUDY, metric) if measured else measured.trials.with_columns(value="ns")
    return with_load(estimates(_servers(values), "value"))


def wall_beside_loop(measured: Measured) -> pl.DataFrame:
    """Elapsed time of a request, compared with the loop's in the same round: the six columns of a pair, ratio, low,
    high, and its load.
    """
    pairs = beside_loop(measured).select(PAIR)
    if pairs.is_empty():
        return with_load(estimates(paired(measured.trials, pairs), "ratio", PAIR))
    times = trial_values(measured.run, STUDY, "wall_ns").rename({"value": "ns"})
    return with_load(estimates(paired(times, pairs), "ratio", PAIR))


def kernel_shares(measured: Measured) -> pl.DataFrame:
    """The kernel's share of the processor time: key, value, low, high, and its load. It is sampled, so it is capped at
    1.
    """
    if not measured:
        return of_metric(measured, "kernel_ns")
    kernel = trial_values(measured.run, STUDY, "kernel_ns").select(*KEY, "round", "value")
    rows = _servers(measured.trials).join(kernel, on=[*KEY, "round"])
    shares = estimates(rows.with_columns(pl.col("value") / pl.col("ns")), "value")
    return with_load(shares.with_columns(pl.col("value").clip(upper_bound=1)))


def memory(measured: Measured) -> pl.DataFrame:
    """Bytes of memory of a connection where most of them are open and active, the least first: key, value, low, high,
    and its load.
    """
    rows = of_metric(measured, "memory_bytes")
    most = rows.filter(pl.col("connections") == pl.col("connections").max(), pl.col("all_active"))
    return most.with_columns(pl.col("value", "low", "high") / pl.col("connections")).sort("value")


def _servers(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(~pl.col("variant").str.ends_with(CONTROL))
