"""The ladder of zero-cost: which rung is compared with which, what the step changes, and what it costs by either lens.

The list says in words what ladder.rs says in code. A test reads that source and compares: names, order, bases and the one
switch in which a variant differs from its base.
"""

from dataclasses import dataclass

import polars as pl

from async_cost.runs.run import Run
from async_cost.statistics.estimate import added_time, between, estimates
from async_cost.statistics.measured import Measured
from async_cost.statistics.verdict import with_verdicts

STUDY = "zero-cost-ladder"
MANUAL, FRONTIER, LEAN = "manual (best)", "frontier", "slab index"
FEW, ALL = "live=3", "live=256"
#: Instructions for a request below which a difference is code layout: what inlining moved between prototypes of the ladder
#: that did the same.
LAYOUT = 30


@dataclass(frozen=True)
class Step:
    """`variant` differs from `base` in one `switch` of ladder.rs; `change` says how. Branches are off the main ladder."""

    variant: str
    base: str
    switch: str
    change: str
    branch: bool = False


STEPS = (
    Step("split", MANUAL, "structure", "futures, reactor and executor instead of one loop"),
    Step(FRONTIER, "split", "task", "`async fn` instead of futures by hand"),
    Step("ready queue", FRONTIER, "dispatch", "events wake, tasks are polled from a queue"),
    Step("stream in future", "ready queue", "placement", "a stream lives in its future, not in the reactor's table"),
    Step("generic runtime", "stream in future", "runtime", "the runtime of the rungs below, which trusts its tasks"),
    Step(LEAN, "generic runtime", "lookup", "objects and tasks found by index in slabs"),
    Step("cloned waker", LEAN, "keeps", "the reactor keeps a `Waker`, no number"),
    Step("bound per operation", "cloned waker", "binding", "each operation binds and unbinds its waker"),
    Step("embedded waker", "bound per operation", "waker", "a waker in its task that counts its owners"),
    Step("Rc waker", "embedded waker", "waker", "wakers behind an `Rc`"),
    Step("Arc waker", "Rc waker", "waker", "wakers behind an `Arc`: atomic counting"),
    Step("atomic queue", "Arc waker", "queue", "a ready queue of atomic flags"),
    Step("Arc per task", "atomic queue", "waker", "an `Arc` allocated for each task"),
    Step("boxed dyn", "Arc per task", "storage", "futures in a `Box<dyn Future>`"),
    Step("Rc handles", "boxed dyn", "handles", "`Rc` handles to reactor and ledger"),
    Step("checked cells", "Rc handles", "cells", "`RefCell` around shared state"),
    Step("mutex queue", "checked cells", "queue", "a ready queue behind a `Mutex`"),
    Step("lean + Rc handles", LEAN, "handles", "`Rc` handles to reactor and ledger", True),
    Step("lean + checked cells", LEAN, "cells", "`RefCell` around shared state", True),
    Step("lean + atomic queue", LEAN, "queue", "a ready queue of atomic flags", True),
    Step("lean + mutex queue", LEAN, "queue", "a ready queue behind a `Mutex`", True),
    Step("lean + box", LEAN, "storage", "futures in a `Box` of their own type", True),
    Step("lean + dyn", LEAN, "storage", "futures in a `Box<dyn Future>`", True),
    Step("lean + dyn by caller", "lean + dyn", "storage", "the caller makes the box", True),
    Step("lean + dyn in place", "lean + dyn", "storage", "the future is built in its box", True),
    Step("16 KiB zeroed", LEAN, "buffer", "a large buffer, set to zero", True),
    Step("16 KiB uninitialised", LEAN, "buffer", "a large buffer, left as it is", True),
    Step(
        "16 KiB uninitialised + dyn", "16 KiB uninitialised", "storage", "a large future in a `Box<dyn Future>`", True
    ),
    Step(
        "16 KiB uninitialised + dyn in place",
        "16 KiB uninitialised + dyn",
        "storage",
        "the large future is built in its box",
        True,
    ),
    Step("noop waker", "bound per operation", "waker", "a waker that does nothing", True),
    Step("Rc waker, cached check", "Rc waker", "waker", "thread checked by a cached id", True),
    Step("Rc waker, asked check", "Rc waker", "waker", "thread asked of the standard library", True),
    Step("Rc waker, address check", "Rc waker", "waker", "thread checked by an address", True),
    Step("Arc waker, kept", "Arc waker", "binding", "bound when pending, and kept", True),
)


def steps(measured: Measured, run: Run, parameter: str = FEW) -> pl.DataFrame:
    """One row a step, in the order of the ladder: what the variant costs beside its base.

    Columns: variant, base, switch, change, branch; ratio, low, high, q1, q3, rounds, verdict of the times; added_ns,
    added_low, added_high for a request; instructions of the variant and step_instructions beside its base, for a request,
    and instruction_ratio (null where not counted). Steps of which a side was not measured are left out.
    """
    named = pl.DataFrame([vars(step) for step in STEPS]).with_row_index("place")
    pairs = pl.concat(between(measured.trials, step.variant, step.base) for step in STEPS).filter(parameter=parameter)
    ratios = with_verdicts(estimates(pairs), measured.trust).drop("bench", "parameter")
    times = added_time(pairs, measured.requests).select("variant", "added_ns", added_low="low", added_high="high")
    counted = per_request(run, "instructions", parameter)
    return (
        named.join(ratios, on="variant")
        .join(times, on="variant")
        .join(counted.rename({"value": "instructions"}), on="variant", how="left")
        .join(counted.rename({"variant": "base", "value": "base_instructions"}), on="base", how="left")
        .with_columns(
            step_instructions=pl.col("instructions") - pl.col("base_instructions"),
            instruction_ratio=pl.col("instructions") / pl.col("base_instructions"),
        )
        .sort("place")
        .drop("place", "base_instructions")
    )


def per_request(run: Run, counter: str, parameter: str = FEW) -> pl.DataFrame:
    """An exact count of each variant, for one request: variant, value. Empty where nothing was counted."""
    if STUDY not in run.info.studies:
        return pl.DataFrame(schema={"variant": pl.String, "value": pl.Float64})
    counts = run.counts(STUDY).filter(counter=counter, parameter=parameter)
    return counts.select("variant", pl.col("value") / run.requests(STUDY))


def totals(measured: Measured, parameter: str = FEW) -> pl.DataFrame:
    """Nanoseconds for a request, down the ladder: variant, value. The loop's own median, and on top what each rung adds to it.

    Each addition is a paired one, so that a drift of the machine is in none of them.
    """
    loop = measured.trials.filter(variant=MANUAL, parameter=parameter)["ns"].median()
    rungs = [step.variant for step in STEPS if not step.branch]
    pairs = pl.concat(between(measured.trials, rung, MANUAL) for rung in rungs).filter(parameter=parameter)
    added = added_time(pairs, measured.requests)
    order = pl.DataFrame({"variant": [MANUAL, *rungs]})
    if loop is None:
        return order.clear().with_columns(value=pl.lit(None, pl.Float64))
    found = added.select("variant", value=pl.col("added_ns") + loop / measured.requests)
    first = pl.DataFrame({"variant": [MANUAL], "value": [loop / measured.requests]})
    return order.join(pl.concat([first, found]), on="variant", maintain_order="left")


def fall(totals: pl.DataFrame) -> pl.DataFrame:
    """Totals in order as bars for `charts.waterfall`: variant, start (the total before; 0 for the first), end."""
    return totals.select("variant", start=pl.col("value").shift(1, fill_value=0.0), end="value")
