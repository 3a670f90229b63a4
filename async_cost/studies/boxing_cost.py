"""Pairs of variants that tell what a box costs, from whichever study measured them.

A pair is one line below. Another study adds its own; `compare` reads them all. A pair is clean when nothing but the question
differs between its two sides; what else differs is said in `also`, and such a pair is shown beside the clean ones, never
among them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from async_cost.literature.published import published_between
from async_cost.runs.run import Run
from async_cost.statistics.estimate import added_time, between, estimates
from async_cost.statistics.measured import Measured
from async_cost.statistics.trust import Trust
from async_cost.statistics.verdict import EQUIVALENCE, VERDICTS, with_verdicts
from async_cost.studies import spawn_apis
from async_cost.studies.spawn_apis import DROPPED, JOINED, LOOP_DROPPED, ONE_WORKER

LADDER, ZERO_COST, SOCKETS, SPAWNS = "zero-cost-ladder", "zero-cost", "zero-cost-sockets", spawn_apis.STUDY
#: What is behind the I/O, and how many connections live at a time.
BARE, CROWD, CALLS = "no system calls, few live", "no system calls, 256 live", "system calls, few live"
FEW, ALL = "sockets, few live", "sockets, 256 live"
#: Tasks that are spawned: with a message each, or with nothing to do.
RING, LOOP, WORKER = "a ring of spawns, one thread", "a loop of spawns, one thread", "a ring of spawns, one worker"
LOADS = (BARE, CROWD, CALLS, FEW, ALL, RING, LOOP, WORKER)
#: Questions that a pair may ask.
BOX, DYN, PLACE, REST = "a box or none", "dyn or its own type", "built in its box or moved there", "all but the box"


@dataclass(frozen=True)
class Pair:
    """`one` against `other`, variants of `study` with `parameter`. `future` is small or large.

    `also` names what differs besides the question `asks`; nothing for a clean pair. `benches` of the two are given where a
    variant occurs in several benches.
    """

    study: str
    one: str
    other: str
    parameter: str
    future: str = "small"
    load: str = BARE
    asks: str = BOX
    also: str = ""
    benches: tuple[str, str] | None = None

    @property
    def label(self) -> str:
        """`one / other` and the load if it is not the usual one, in lines of their own where one would be long."""
        load = "" if self.load == BARE else self.load.removesuffix(", few live")
        gap = "\n" if len(self.one) + len(self.other) + len(load) > 18 else " "
        return f"{self.one}{gap}/ {self.other}" + (f",{gap}{load}" if load else "")


_IN_BUNDLE = "`Rc` handles, calls through `dyn`, no enum of two kinds of task, and another spawner"
_ON_SOCKETS = "the executor, and wakers counted with atomics"

PAIRS = (
    Pair(LADDER, "lean + box", "slab index", "live=3"),
    Pair(LADDER, "lean + dyn", "slab index", "live=3"),
    Pair(LADDER, "lean + dyn", "slab index", "live=256", load=CROWD),
    Pair(LADDER, "lean + dyn in place", "slab index", "live=3"),
    Pair(LADDER, "boxed dyn", "Arc per task", "live=3"),
    Pair(ZERO_COST, "callerbox", "nonbox", "syscalls=off"),
    Pair(ZERO_COST, "callerbox", "nonbox", "syscalls=on", load=CALLS),
    Pair(LADDER, "16 KiB uninitialised + dyn", "16 KiB uninitialised", "live=3", "large"),
    Pair(LADDER, "16 KiB uninitialised + dyn in place", "16 KiB uninitialised", "live=3", "large"),
    Pair(LADDER, "lean + dyn", "lean + box", "live=3", asks=DYN),
    Pair(LADDER, "lean + dyn in place", "lean + dyn", "live=3", asks=PLACE),
    Pair(LADDER, "16 KiB uninitialised + dyn in place", "16 KiB uninitialised + dyn", "live=3", "large", asks=PLACE),
    Pair(ZERO_COST, "box", "nonbox", "syscalls=off", also=_IN_BUNDLE),
    Pair(ZERO_COST, "box", "nonbox", "syscalls=on", load=CALLS, also=_IN_BUNDLE),
    Pair(ZERO_COST, "large+box", "large+nonbox", "syscalls=off", "large", also=_IN_BUNDLE),
    Pair(ZERO_COST, "box", "callerbox", "syscalls=off", asks=REST),
    Pair(SOCKETS, "async+box", "async", "live=3", load=FEW, also=_ON_SOCKETS),
    Pair(SOCKETS, "async+box", "async", "live=256", load=ALL, also=_ON_SOCKETS),
    Pair(SPAWNS, "LocalSpawn", "native", DROPPED, load=RING, benches=("TokioCt", "tokio::LocalSet")),
    Pair(SPAWNS, "LocalSpawnHandleOs", "LocalSpawnHandle", JOINED, load=RING, benches=("LocalPool", "LocalPool")),
    Pair(SPAWNS, "LocalSpawn", "native", LOOP_DROPPED, load=LOOP, benches=("TokioCt", "tokio::LocalSet")),
    Pair(SPAWNS, "SpawnHandleOs", "SpawnHandle", ONE_WORKER, load=WORKER, benches=("TokioTp", "TokioTp")),
)


def compare(run: Run, studies: Mapping[str, Measured], pairs: Sequence[Pair] = PAIRS) -> pl.DataFrame:
    """One row for each pair of `studies` that `run` measured, in the order of `pairs`.

    Columns: label, study, one, other, parameter, future, load, asks, also, clean; ratio, low, high, q1, q3, rounds,
    verdict (null where the study is no evidence) of the times; published (the reported ratio); added_ns, added_low, added_high,
    allocations and bytes, all for a task, `one` beside `other`; future_bytes of `one`. Counts are null where not made.
    """
    rows = [row for pair in pairs if pair.study in studies and (row := _row(run, studies[pair.study], pair))]
    if not rows:
        texts = ("label", "study", "one", "other", "parameter", "future", "load", "asks", "also")
        numbers = ("ratio", "low", "high", "q1", "q3", "published", "added_ns", "added_low", "added_high")
        schema = dict.fromkeys(texts, pl.String) | {"clean": pl.Boolean} | dict.fromkeys(numbers, pl.Float64)
        counts = dict.fromkeys(("allocations", "bytes", "future_bytes"), pl.Float64)
        return pl.DataFrame(schema=schema | counts | {"rounds": pl.Int64, "verdict": VERDICTS})
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col("verdict").cast(VERDICTS))


def _row(run: Run, measured: Measured, pair: Pair) -> dict | None:
    trials = measured.trials
    if pair.benches:
        trials = trials.filter(pl.col("bench").is_in(pair.benches))
    paired = between(trials, pair.one, pair.other).filter(parameter=pair.parameter)
    if paired.is_empty():
        return None
    judged, limit = _judged(measured, pair)
    time = with_verdicts(estimates(paired), judged, limit).row(0, named=True)
    tasks = _of(run.units(pair.study), pair, 0)["units"][0]
    added = added_time(paired, tasks).row(0, named=True)
    counts = {name: _counted(run, pair, name) for name in ("allocations", "allocated_bytes", "future_bytes")}
    more = {name: None if None in both else (both[0] - both[1]) / tasks for name, both in counts.items()}
    texts = ("label", "study", "one", "other", "parameter", "future", "load", "asks", "also")
    return {
        **{name: getattr(pair, name) for name in texts},
        "clean": not pair.also,
        **{name: time[name] for name in ("ratio", "low", "high", "q1", "q3", "rounds", "verdict")},
        "published": _published(pair),
        **{"added_ns": added["added_ns"], "added_low": added["low"], "added_high": added["high"]},
        "allocations": more["allocations"],
        "bytes": more["allocated_bytes"],
        "future_bytes": None if counts["future_bytes"][0] is None else float(counts["future_bytes"][0]),
    }


def _of(frame: pl.DataFrame, pair: Pair, side: int) -> pl.DataFrame:
    """The rows of a frame with key columns that are of one side of a pair."""
    mine = frame.filter(variant=(pair.one, pair.other)[side], parameter=pair.parameter)
    return mine.filter(bench=pair.benches[side]) if pair.benches else mine


def _judged(measured: Measured, pair: Pair) -> tuple[Trust, float]:
    """Trust in the group of comparisons that the pair's first side is among, and its limit."""
    declared = _of(measured.pairs, pair, 0)
    if declared.is_empty():
        return measured.trust, EQUIVALENCE
    return measured.groups[declared["group"][0]], declared["limit"][0]


def _counted(run: Run, pair: Pair, counter: str) -> tuple[int | None, int | None]:
    sides = (_of(run.counts(pair.study).filter(counter=counter), pair, side)["value"] for side in (0, 1))
    return tuple(values[0] if values.len() else None for values in sides)


def _published(pair: Pair) -> float | None:
    if pair.study != ZERO_COST:
        return None
    reported = published_between(pair.study, pair.one, pair.other).filter(parameter=pair.parameter)["published"]
    return reported[0] if reported.len() else None
