"""Comparisons that show what a box costs, from any study that declares them.

Each entry below says which kind of box a comparison is about, and under which load. A comparison is clean if its two
sides differ in nothing else; what differs in others is stated by the study, as `change`, and they are shown next to the
clean ones, never among them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from async_cost.literature.published import published_between
from async_cost.runs.comparisons import BASE_KEY, KEY, PAIR
from async_cost.statistics.measured import Measured

LADDER, ZERO_COST, SOCKETS, SPAWNS = "ladder", "zero-cost", "zero-cost-sockets", "spawn-apis"
JOINED, DROPPED, ONE_WORKER, LOOP_DROPPED = (
    "N=200",
    "N=200 handles=dropped",
    "N=200 workers=1",
    "M=1000 handles=dropped",
)
#: What is behind the I/O, and how many connections are alive at a time.
BARE, CROWD, CALLS = "no system calls, few live", "no system calls, 256 live", "system calls, few live"
FEW, ALL = "sockets, few live", "sockets, 256 live"
#: Tasks that are spawned: with a message each, or with nothing to do.
RING, LOOP, WORKER = "a ring of spawns, one thread", "a loop of spawns, one thread", "a ring of spawns, one worker"
LOADS = (BARE, CROWD, CALLS, FEW, ALL, RING, LOOP, WORKER)
#: Questions that a pair may ask.
BOX, DYN, PLACE, REST = "a box or none", "dyn or its own type", "built in its box or moved there", "all but the box"


#: bench, variant, parameter.
Key = tuple[str, str, str]
#: Columns of a pair other than its keys.
TEXTS = ("study", "one", "other", "future", "load", "asks")


@dataclass(frozen=True)
class Pair:
    """`one` against `other`, variants of `study` with `parameter`. `future` is small or large.

    `clean` means that nothing differs but what the pair `asks`. `benches` of the two are given if a
    variant occurs in several benches.
    """

    study: str
    one: str
    other: str
    parameter: str
    future: str = "small"
    load: str = BARE
    asks: str = BOX
    clean: bool = True
    benches: tuple[str, str] | None = None

    @property
    def key(self) -> Key:
        return self._side(0), self.one, self.parameter

    @property
    def baseline(self) -> Key:
        return self._side(1), self.other, self.parameter

    def _side(self, side: int) -> str:
        """The bench of one side. If none is given it is the variant's own name, in zero-cost with its system calls."""
        calls = "+syscalls" if self.study == ZERO_COST and self.parameter == "syscalls=on" else ""
        return self.benches[side] if self.benches else (self.one, self.other)[side] + calls

    @property
    def published(self) -> float | None:
        """The reported ratio, None if there is none."""
        if self.study != ZERO_COST:
            return None
        reported = published_between(self.study, self.one, self.other).filter(parameter=self.parameter)["published"]
        return reported[0] if reported.len() else None

    @property
    def label(self) -> str:
        """`one / other` and the load if it is not the usual one, on separate lines if one would be too long."""
        load = "" if self.load == BARE else self.load.removesuffix(", few live")
        gap = "\n" if len(self.one) + len(self.other) + len(load) > 18 else " "
        return f"{self.one}{gap}/ {self.other}" + (f",{gap}{load}" if load else "")


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
    Pair(ZERO_COST, "box", "nonbox", "syscalls=off", clean=False),
    Pair(ZERO_COST, "box", "nonbox", "syscalls=on", load=CALLS, clean=False),
    Pair(ZERO_COST, "large+box", "large+nonbox", "syscalls=off", "large", clean=False),
    Pair(ZERO_COST, "box", "callerbox", "syscalls=off", asks=REST),
    Pair(SOCKETS, "async+box", "async", "live=3", load=FEW, clean=False),
    Pair(SOCKETS, "async+box", "async", "live=256", load=ALL, clean=False),
    Pair(SPAWNS, "LocalSpawn", "native", DROPPED, load=RING, benches=("TokioCt", "tokio::LocalSet")),
    Pair(SPAWNS, "LocalSpawnHandleOs", "LocalSpawnHandle", JOINED, load=RING, benches=("LocalPool", "LocalPool")),
    Pair(SPAWNS, "LocalSpawn", "native", LOOP_DROPPED, load=LOOP, benches=("TokioCt", "tokio::LocalSet")),
    Pair(SPAWNS, "SpawnHandleOs", "SpawnHandle", ONE_WORKER, load=WORKER, benches=("TokioTp", "TokioTp")),
)


def compare(studies: Mapping[str, Measured], pairs: Sequence[Pair] = PAIRS) -> pl.DataFrame:
    """One row for each pair of `studies` that was measured, in the order of `pairs`.

    Columns: those of the table of comparisons; label, one, other, future, load, asks, clean; published (the reported
    ratio); allocations and bytes, for a task, of `one` in addition to those of `other`; future_bytes of `one`. Counts
    are null where not made.
    """
    named = pl.DataFrame(
        [(*pair.key, *pair.baseline, pair.label, *(getattr(pair, name) for name in TEXTS), pair.clean, pair.published) for pair in pairs],
        schema=dict.fromkeys((*PAIR, "label", *TEXTS), pl.String) | {"clean": pl.Boolean, "published": pl.Float64},
        orient="row",
    )  # fmt: skip
    found = [
        _counted(measured, measured.pick(named.filter(study=study).drop("study")))
        for study, measured in studies.items()
    ]
    order = named.select("study", *PAIR).with_row_index("place")
    return pl.concat(found).join(order, on=["study", *PAIR]).sort("place").drop("place")


def _counted(measured: Measured, rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with what one side allocates more than the other for a task, and the size of its future."""
    empty = pl.DataFrame(schema=dict.fromkeys(KEY, pl.String) | {"counter": pl.String, "value": pl.Int64})
    counts = measured.run.counts(measured.study) if measured else empty
    units = measured.run.units(measured.study) if measured else empty.select(*KEY, units="value")

    def side(frame: pl.DataFrame, keys: Sequence[str], counter: str, name: str) -> pl.DataFrame:
        mine = counts.filter(counter=counter).select(*KEY, pl.col("value").cast(pl.Float64).alias(name))
        return frame.join(mine, left_on=keys, right_on=KEY, how="left", maintain_order="left")

    rows = rows.join(units, on=KEY, how="left", maintain_order="left")
    for name, counter in (("allocations", "allocations"), ("bytes", "allocated_bytes")):
        rows = side(side(rows, KEY, counter, name), BASE_KEY, counter, "base")
        rows = rows.with_columns(((pl.col(name) - pl.col("base")) / pl.col("units")).alias(name)).drop("base")
    return side(rows, KEY, "future_bytes", "future_bytes").drop("units")
