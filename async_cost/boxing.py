"""Pairs of variants that tell what a box costs, from whichever study measured them.

A pair is one line below. Another study adds its own; `compare` reads them all. A pair is clean when nothing but the question
differs between its two sides; what else differs is said in `also`, and such a pair is shown beside the clean ones, never
among them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from async_cost.estimate import added_time, between, estimates
from async_cost.load import Run
from async_cost.measured import Measured
from async_cost.published import published_between
from async_cost.verdict import VERDICTS, with_verdicts

LADDER, ZERO_COST, SOCKETS = "zero-cost-ladder", "zero-cost", "zero-cost-sockets"
#: What is behind the I/O, and how many connections live at a time.
BARE, CROWD, CALLS = "no system calls, few live", "no system calls, 256 live", "system calls, few live"
FEW, ALL = "sockets, few live", "sockets, 256 live"
LOADS = (BARE, CROWD, CALLS, FEW, ALL)
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
        """`one / other` and the load if it is not the usual one, in two lines where one would be long."""
        other = self.other if self.load == BARE else f"{self.other}, {self.load.removesuffix(', few live')}"
        gap = "\n" if len(self.one) + len(other) > 18 else " "
        return f"{self.one}{gap}/ {other}"


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
)


def compare(run: Run, studies: Mapping[str, Measured], pairs: Sequence[Pair] = PAIRS) -> pl.DataFrame:
    """One row for each pair that `run` measured, in the order of `pairs`.

    Columns: label, study, one, other, parameter, future, load, asks, also, clean; ratio, low, high, q1, q3, rounds,
    verdict (null where the study is no evidence) of the times; published (the reported ratio); added_ns, added_low, added_high,
    allocations and bytes, all for a request, `one` beside `other`; future_bytes of `one`. Counts are null where not made.
    """
    rows = [row for pair in pairs if (row := _row(run, studies[pair.study], pair))]
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
    time = with_verdicts(estimates(paired), measured.trust).row(0, named=True)
    added = added_time(paired, measured.requests).row(0, named=True)
    counts = {name: _counted(run, pair, name) for name in ("allocations", "allocated_bytes", "future_bytes")}
    more = {name: None if None in both else (both[0] - both[1]) / measured.requests for name, both in counts.items()}
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


def _counted(run: Run, pair: Pair, counter: str) -> tuple[int | None, int | None]:
    return tuple(run.count(pair.study, counter, variant, pair.parameter) for variant in (pair.one, pair.other))


def _published(pair: Pair) -> float | None:
    if pair.study != ZERO_COST:
        return None
    reported = published_between(pair.study, pair.one, pair.other).filter(parameter=pair.parameter)["published"]
    return reported[0] if reported.len() else None
