"""What async would add to a request of a reader's own program on the machine of a run: a sum of prices, each times how
often a request pays it.

The page evaluates the same sum (program.js); a test holds both to the same numbers.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from async_cost.runs.comparisons import address
from async_cost.runs.run import Run
from async_cost.statistics import interval
from async_cost.statistics.measured import Measured
from async_cost.studies import ladder, prices
from async_cost.studies.own_work import overhead_by_work

ZERO_COST, PUBLISHED = "zero-cost", "nonbox"
OFF, ON = "syscalls=off", "syscalls=on"
#: Connections that were open in a run with few and in one with many.
LIVE = {ladder.FEW: 3, ladder.ALL: 256}


@dataclass(frozen=True)
class Term:
    """What one more of something adds to a request: `ns`, low and high in nanoseconds.

    It adds `ns` times (how many less `origin`). `least` and `most` are the numbers that were measured: others
    extrapolate. `usual` is what a form begins with. `rests` says on what it rests, `address` which comparison that is
    where it is one.
    """

    name: str
    label: str
    ns: float
    low: float
    high: float
    origin: float
    least: float
    most: float
    usual: float
    rests: str
    address: str | None = None


@dataclass(frozen=True)
class Added:
    """Nanoseconds for a request with the 95 % interval, and the terms whose numbers were never measured."""

    ns: float
    low: float
    high: float
    beyond: list[str]


def terms(run: Run) -> list[Term]:
    """The terms that the run has numbers for; none without what async adds at its leanest, on which all rest."""
    found = [term for term in _terms(run) if term]
    return found if found and found[0].name == "request" else []


def added(found: Sequence[Term], counts: Mapping[str, float]) -> Added:
    """The sum; a term that `counts` does not name counts for its origin. The errors of prices are independent: their
    squares add up.
    """
    times = [counts.get(term.name, term.origin) - term.origin for term in found]
    total = sum(count * term.ns for count, term in zip(times, found, strict=True))
    below, above = (
        math.hypot(*(count * (end(term) - term.ns) for count, term in zip(times, found, strict=True)))
        for end in (lambda term: term.low, lambda term: term.high)
    )
    beyond = [term.name for term in found if not term.least <= counts.get(term.name, term.least) <= term.most]
    return Added(total, total - below, total + above, beyond)


def _terms(run: Run) -> Iterator[Term | None]:
    rungs, published = Measured.of(run, ladder.STUDY), Measured.of(run, ZERO_COST)
    base = _compared(rungs, ladder.FRONTIER, ladder.MANUAL, ladder.FEW)
    yield base and _term(base, "request", "a request, on a connection and in a task of its own", 0, 1, 1, 1)
    levels = overhead_by_work(rungs, ladder.FRONTIER, ladder.MANUAL, ladder.FEW) if rungs else None
    if levels is not None and not levels.is_empty():
        most = levels["work_ns"].max() / 1000
        rests = "the same comparison with own work, which the sum takes to add nothing"
        yield Term("work", "work of the request itself, in microseconds", 0.0, 0.0, 0.0, 0, 0, most, 10, rests)
    calls = run.count(ZERO_COST, "syscalls", PUBLISHED, ON) if published else None
    off, on = (_compared(published, PUBLISHED, ladder.MANUAL, load) for load in (OFF, ON))
    if calls and off and on:
        each = calls / published.requests
        ns, low, high = _difference(on, off, each)
        rests = f"{PUBLISHED} compared with {ladder.MANUAL}, with system calls less without"
        yield Term("calls", "system calls", ns, low, high, 0, 0, each, round(each), rests)
    tasks = prices.prices(run, what="a task on one thread", who="tokio").row(0, named=True)
    if tasks["ns"] is not None:
        rests = "a task of tokio that is spawned and joined on one thread"
        yield Term("tasks", "further tasks spawned", tasks["ns"], tasks["low"], tasks["high"], 0, 0, 1000, 0, rests)
    box = _compared(rungs, "lean + box", ladder.LEAN, ladder.FEW)
    yield box and _term(box, "boxes", "boxes around small futures", 0, 0, 1, 0)
    few, many = (_compared(rungs, ladder.FRONTIER, ladder.MANUAL, load) for load in LIVE)
    if few and many:
        least, most = LIVE.values()
        ns, low, high = _difference(many, few, most - least)
        rests = f"{ladder.FRONTIER} compared with {ladder.MANUAL}, with {most} open connections less with {least}"
        yield Term("connections", "connections open at a time", ns, low, high, least, least, most, least, rests)


def _compared(measured: Measured, variant: str, other: str, parameter: str) -> dict | None:
    return interval.row(measured.compare(variant, other), parameter=parameter)


def _term(row: dict, name: str, label: str, origin: float, least: float, most: float, usual: float) -> Term:
    """What a comparison adds."""
    rests = f"{row['variant']} compared with {row['baseline_variant']}"
    ends = (row["added_ns"], row["added_low"], row["added_high"])
    return Term(name, label, *ends, origin, least, most, usual, rests, address(row))


def _difference(one: dict, other: dict, share: float) -> tuple[float, float, float]:
    """What one comparison adds less what another does, divided by `share`."""
    middle = one["added_ns"] - other["added_ns"]
    below = math.hypot(one["added_ns"] - one["added_low"], other["added_high"] - other["added_ns"])
    above = math.hypot(one["added_high"] - one["added_ns"], other["added_ns"] - other["added_low"])
    return middle / share, (middle - below) / share, (middle + above) / share
