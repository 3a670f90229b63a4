"""Ways of calling something that may wait: what one call costs by each of them, and which to choose.

A *style* is how a procedure is called. A *batch* is one iteration: so many calls, then settling. All times here are for one call, or for
one wait of the root where nothing is called.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import polars as pl

from async_cost.literature.published import FOREIGN, load_published
from async_cost.runs.comparisons import BASE_KEY, KEY
from async_cost.runs.run import Run
from async_cost.statistics.estimate import beside_itself, estimates, paired_costs, per_unit
from async_cost.statistics.measured import Measured

STUDY = "call-styles"
#: The document's design, translated; the same with fibers; and the leanest executor that we have.
LOOP, FIBERS, FRONTIER = "event loop", "fibers", "frontier"
#: The floors: a function behind a pointer, and one that the compiler knows.
PROCEDURE, CLOSURE = "boxed closure", "closure"
#: One change to the translated design each.
INLINE, FRESH, EAGER = f"{LOOP} + inline", f"{LOOP} + fresh boxes", f"{LOOP} + eager handles"
INDEX, DIRECT = f"{LOOP} + index wakers", f"{LOOP} + no wakers"
HEAP, TREE = f"{LOOP} + heap", f"{LOOP} + tree"
EPOLL, KEPT, EPOLL_KEPT = f"{LOOP} + epoll", f"{LOOP} + kept", f"{LOOP} + epoll + kept"
STACKS = f"{FIBERS} + fresh stacks"
OTHERS = ("tokio", "smol", "LocalPool")
#: The published load, and the one in which everybody waits by yielding: what executors without our timers can do.
BATCH, YIELD = "batch=100", "batch=100 wait=yield"
SIZES = ("batch=1", "batch=10", BATCH, "batch=1000")

CALL, NONBLOCK, DETACHED, FORGET = STYLES = ("call", "call_nonblock", "call_detached", "call_and_forget")
#: Benches of the first two published tables; those of the third are named by `calls` and `waiting`.
INVOKE = {style: f"call_methods/conproc.{style}" for style in STYLES}
PLAIN = "call_methods/proc.call"
WAIT, READABLE, WRITABLE = (f"wait_methods/{name}" for name in ("wait", "await_readable", "await_writable"))


def calls(style: str) -> str:
    """The bench that calls a procedure which does not wait."""
    return f"call_methods_waiting/{style}"


def waiting(style: str) -> str:
    """The bench that calls a procedure which waits once."""
    return f"call_methods_waiting/waiting {style}"


Key = tuple[str, str, str]


@dataclass(frozen=True)
class Step:
    """`one` beside `other`; `label` names it in a chart, `what` says in which respect they differ."""

    one: Key
    other: Key
    label: str
    what: str


def _turned(what: str, variant: str, base: str, benches: dict[str, str], parameter: str = BATCH) -> tuple[Step, ...]:
    """One switch, in several benches."""
    return tuple(
        Step(
            (bench, variant, parameter), (bench, base, parameter), f"{name}\n{variant.removeprefix(f'{LOOP} + ')}", what
        )
        for bench, name in benches.items()
    )


_EMPTY = {INVOKE[style]: style for style in STYLES}
_WAITING = {waiting(style): f"waiting {style}" for style in STYLES}
#: The same loop without wakers, with futures and with fibers: what is left between them is the fiber.
STACKFUL = _turned("a fiber in the place of a boxed future", FIBERS, DIRECT, _EMPTY | _WAITING)
#: One switch of the translated design each.
SLOTS = (
    *_turned("a fresh box in the place of a pooled slot", FRESH, LOOP, _EMPTY | _WAITING),
    *_turned(
        "no slot: the future is polled where it stands",
        INLINE,
        LOOP,
        {INVOKE[CALL]: CALL, waiting(CALL): "waiting call"},
    ),
    *_turned("a fresh stack in the place of a pooled fiber", STACKS, FIBERS, _EMPTY),
)
HANDLES = _turned(
    "an eager handle in the place of a lazy one",
    EAGER,
    LOOP,
    {INVOKE[NONBLOCK]: NONBLOCK, waiting(NONBLOCK): "waiting call_nonblock"},
)
WAKERS = (
    *_turned("index wakers", INDEX, LOOP, {INVOKE[CALL]: CALL, WAIT: "wait"} | _WAITING),
    *_turned("no wakers", DIRECT, LOOP, {INVOKE[CALL]: CALL, WAIT: "wait"} | _WAITING),
)
MANY_TIMERS = f"{BATCH} pending=10000"
QUEUES = (
    *_turned("a heap", HEAP, LOOP, {WAIT: "wait"} | _WAITING),
    *_turned("a tree", TREE, LOOP, {WAIT: "wait"} | _WAITING),
    *_turned("a heap among 10,000 timers", HEAP, LOOP, {WAIT: "wait among many timers"}, MANY_TIMERS),
    *_turned("a tree among 10,000 timers", TREE, LOOP, {WAIT: "wait among many timers"}, MANY_TIMERS),
)
_READY = {READABLE: "await_readable", WRITABLE: "await_writable"}
SELECTORS = (
    *_turned("plain epoll", EPOLL, LOOP, _READY),
    *_turned("registrations that are kept", KEPT, LOOP, _READY),
    *_turned("plain epoll, registrations that are kept", EPOLL_KEPT, LOOP, _READY),
)
#: Kinds of waits of the root, beside a timer that is due.
KINDS = (
    Step((WAIT, LOOP, YIELD), (WAIT, LOOP, BATCH), "yield", "a bare yield"),
    *(
        Step(
            (bench, variant, BATCH),
            (WAIT, LOOP, BATCH),
            f"{name}\n{variant.removeprefix(LOOP).removeprefix(' + ') or 'polling crate'}",
            name,
        )
        for bench, name in _READY.items()
        for variant in (LOOP, KEPT, EPOLL, EPOLL_KEPT)
    ),
)
#: Registered descriptors, of which one is awaited.
REGISTERED = (f"{BATCH} registered=100", f"{BATCH} registered=10000")


#: Executors of others, and the frontier, beside the translated loop: calls that do not wait, and calls that yield.
ELSEWHERE = tuple(
    Step(
        (bench, variant, parameter),
        (bench, LOOP, parameter),
        f"{name}\n{variant}",
        f"{variant} in the place of the translated loop",
    )
    for variant in (*OTHERS, FRONTIER)
    for style in STYLES
    for bench, name, parameter in ((calls(style), style, BATCH), (waiting(style), f"waiting {style}", YIELD))
)


def pairs(measured: Measured, steps: Sequence[Step]) -> pl.DataFrame:
    """Steps as `Run.pairs`, with `label`, `what` and `number`; those that were not measured are left out."""
    rows = [(number, *step.one, *step.other, step.label, step.what) for number, step in enumerate(steps)]
    texts = dict.fromkeys((*KEY, *BASE_KEY, "label", "what"), pl.String)
    found = pl.DataFrame(rows, schema={"number": pl.Int64} | texts, orient="row")
    known = groups(measured)
    # A difference matters from the limit of the group on to which the first of the two belongs.
    return found.join(known, on=KEY).join(
        known.select(*(pl.col(name).alias(f"baseline_{name}") for name in KEY)), on=BASE_KEY
    )


def groups(measured: Measured) -> pl.DataFrame:
    """Every key with its group and the group's limit; a key that is only compared *with* has the group of a key of its bench."""
    mine = measured.pairs.select(*KEY, "group", "limit")
    bases = measured.pairs.select(*BASE_KEY, "group", "limit").rename(dict(zip(BASE_KEY, KEY, strict=True)))
    same_bench = bases.join(measured.pairs.select("bench", "group").unique(), on=["bench", "group"], how="semi")
    return pl.concat([mine, same_bench.join(mine, on=KEY, how="anti")]).unique(KEY, keep="first", maintain_order=True)


def compare(run: Run, measured: Measured, steps: Sequence[Step]) -> pl.DataFrame:
    """One row for each of `steps` that was measured, in their order.

    Columns: those of `pairs`; ratio, low, high, q1, q3, rounds and verdict (null where the group's controls do not hold); added_ns, added_low,
    added_high, the time that the first side adds to one call or wait of the second.
    """
    wanted = pairs(measured, steps)
    # One key may be compared with several others, so each kind of difference is asked for by itself.
    parts = [
        part.join(paired_costs(measured.trials, part, run.units(STUDY)), on=KEY)
        for _, part in wanted.group_by("what", maintain_order=True)
    ]
    empty = paired_costs(measured.trials.clear(), wanted.clear(), None)
    found = pl.concat([wanted.clear().join(empty, on=KEY), *parts])
    return measured.judged(found).sort("number").drop("number")


def one_call(run: Run, measured: Measured) -> pl.DataFrame:
    """Every trial with the time of one call, or wait, in `ns`; controls are left out."""
    if not measured:
        return measured.trials
    trials = measured.trials.filter(~pl.col("variant").is_in(run.study(STUDY).controls))
    return per_unit(trials, run.units(STUDY))


def costs(trials: pl.DataFrame, keys: Sequence[Key]) -> pl.DataFrame:
    """Nanoseconds of one call of each of `keys` that was measured, in their order; `trials` as from `one_call`: columns of `estimates` of ns."""
    wanted = pl.DataFrame(keys, schema=dict.fromkeys(KEY, pl.String), orient="row").with_row_index("number")
    return wanted.join(estimates(trials.join(wanted, on=KEY, how="semi"), "ns"), on=KEY).sort("number").drop("number")


def beside_batch(trials: pl.DataFrame, sizes: Sequence[str]) -> pl.DataFrame:
    """One call in batches of other `sizes` over one in the published batch: as `estimates` of ratios."""
    return estimates(beside_itself(trials, sizes, BATCH))


# -- which style when ----------------------------------------------------------------------------------------


class Agreement(StrEnum):
    """What a run says about a cell of the document's table of advice."""

    AGREES = "agrees"
    IN_PART = "agrees in part"
    DISAGREES = "disagrees"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Cell:
    """A question of the table: does the callee wait nearly always, or hardly ever, and is its result needed? `advised` is the answer that
    the document gives."""

    waits: bool
    needed: bool
    advised: tuple[str, ...]

    @property
    def styles(self) -> tuple[str, ...]:
        """The styles among which there is a choice: one gives no result."""
        return tuple(style for style in STYLES if style != FORGET or not self.needed)

    @property
    def question(self) -> tuple[str, str]:
        """How often the callee waits, and whether its result is needed, in words."""
        return ("nearly always" if self.waits else "hardly ever", "needed" if self.needed else "not needed")


CELLS = (
    Cell(waits=True, needed=True, advised=(NONBLOCK, DETACHED)),
    Cell(waits=True, needed=False, advised=(FORGET,)),
    Cell(waits=False, needed=True, advised=(NONBLOCK,)),
    Cell(waits=False, needed=False, advised=(NONBLOCK,)),
)


@dataclass(frozen=True)
class Advice:
    """What a run advises in one cell for one executor.

    `ns` is the time of a call by the cheapest style; `best` holds it and all that are not told from it. `agreement` is None where the
    group's controls do not hold, and then `best` is the cheapest style alone.
    """

    cell: Cell
    variant: str
    best: tuple[str, ...]
    ns: float
    low: float
    high: float
    agreement: Agreement | None


def advise(run: Run, measured: Measured, variant: str, cell: Cell, parameter: str = BATCH) -> Advice | None:
    """The advice of this run for one cell; None where `variant` was not measured in more than one of its styles.

    The cheapest style is the one with the least median. Every other is compared with it, in the same rounds.
    """
    bench = waiting if cell.waits else calls
    parameter = parameter if cell.waits else BATCH
    costing = costs(one_call(run, measured), [(bench(style), variant, parameter) for style in cell.styles])
    if costing.height < 2:
        return None
    cheapest = costing.sort("ns").row(0, named=True)
    least: Key = tuple(cheapest[name] for name in KEY)
    steps = [
        Step((row[0], variant, parameter), least, row[0], row[0]) for row in costing.iter_rows() if row[0] != least[0]
    ]
    compared = compare(run, measured, steps)
    words = {row["bench"]: row["verdict"] for row in compared.iter_rows(named=True)} | {least[0]: "same"}
    figures = cheapest["ns"], cheapest["low"], cheapest["high"]
    styles = {bench(style): style for style in cell.styles}
    if None in words.values():
        return Advice(cell, variant, (styles[least[0]],), *figures, None)
    best = tuple(style for name, style in styles.items() if words.get(name) in ("same", "undecided"))
    advised = [words[bench(style)] for style in cell.advised if bench(style) in words]
    return Advice(cell, variant, best, *figures, _agreement(advised))


def _agreement(verdicts: Sequence[str]) -> Agreement:
    """What the verdicts of all styles that the document advises, beside the cheapest, make of its advice."""
    if "undecided" in verdicts and "same" not in verdicts:
        return Agreement.UNDECIDED
    good = sum(verdict in ("same", "undecided") for verdict in verdicts)
    if good == len(verdicts):
        return Agreement.AGREES
    return Agreement.IN_PART if good else Agreement.DISAGREES


def turning_point(run: Run, measured: Measured, variant: str, parameter: str = BATCH) -> dict | None:
    """From which share of waiting calls on `call_and_forget` is cheaper than `call_nonblock`: a row with share, low and high.

    A mixture of calls costs the mixture of their costs, which is a calculation and not a measurement. None where one of the four was not
    measured, or where one style is the cheaper one at every share.
    """
    keys = {
        "n": (calls(NONBLOCK), BATCH),
        "f": (calls(FORGET), BATCH),
        "wn": (waiting(NONBLOCK), parameter),
        "wf": (waiting(FORGET), parameter),
    }
    trials = one_call(run, measured).filter(variant=variant)
    joined = None
    for name, (bench, load) in keys.items():
        part = trials.filter(bench=bench, parameter=load).select("round", pl.col("ns").alias(name))
        joined = part if joined is None else joined.join(part, on="round")
    before, after = pl.col("f") - pl.col("n"), pl.col("wn") - pl.col("wf")
    joined = joined.with_columns(before=before, after=after, share=before / (before + after))
    if joined.height < 2 or joined["before"].median() <= 0 or joined["after"].median() <= 0:
        return None
    return estimates(joined.with_columns(bench=pl.lit(variant)), "share", by=("bench",)).row(0, named=True)


# -- beside the document -------------------------------------------------------------------------------------


def published_ratios(root: Path | None = None) -> pl.DataFrame:
    """The document's rates as times of one execution, by interpreter: bench, variant, ns."""
    rows = load_published(STUDY, root)
    wide = rows.pivot(on="metric", index=["bench", "variant"], values="value")
    return wide.select("bench", "variant", ns=1e9 * pl.col("elapsed") / pl.col("executions"))


def beside_published(
    run: Run, measured: Measured, benches: Sequence[str], base: str, root: Path | None = None
) -> pl.DataFrame:
    """Time of one execution of each of `benches` over that of `base`, in this run with futures and with fibers and as published.

    Columns: label (the bench), unit (who), ratio, low, high; for the document, which gives no spread, both ends are the ratio.
    """
    trials = one_call(run, measured).filter(parameter=BATCH)
    parts = []
    for variant in (LOOP, FIBERS):
        plain = {PLAIN: PROCEDURE}
        mine = trials.filter(
            pl.col("variant") == pl.col("bench").replace_strict(plain, default=variant, return_dtype=pl.String)
        )
        under = mine.filter(bench=base).select("round", base_ns="ns")
        rows = mine.filter(pl.col("bench").is_in(benches)).join(under, on="round")
        found = estimates(rows.with_columns(ratio=pl.col("ns") / pl.col("base_ns")), by=("bench",))
        who = "futures" if variant == LOOP else "fibers"
        parts.append(
            found.select(label="bench", unit=pl.lit(f"{who}, this run"), ratio="ratio", low="low", high="high")
        )
    printed = published_ratios(root)
    for interpreter in FOREIGN[STUDY]:
        mine = printed.filter(variant=interpreter)
        ratio = pl.col("ns") / mine.filter(bench=base)["ns"].item()
        rows = mine.filter(pl.col("bench").is_in(benches)).with_columns(ratio=ratio)
        unit = pl.lit(f"{interpreter}, published")
        parts.append(rows.select(label="bench", unit=unit, ratio="ratio", low="ratio", high="ratio"))
    order = {bench: number for number, bench in enumerate(benches)}
    return pl.concat(parts).sort(pl.col("label").replace_strict(order, return_dtype=pl.Int64), maintain_order=True)


def counted(run: Run, variant: str = LOOP, parameter: str = BATCH) -> pl.DataFrame:
    """Exact counts of one execution: bench, and a column for each counter, null where it was not counted."""
    rows = run.counts(STUDY).filter(variant=variant, parameter=parameter).join(run.units(STUDY), on=KEY)
    rows = rows.with_columns(value=pl.col("value") / pl.col("units"))
    return rows.pivot(on="counter", index="bench", values="value").sort("bench")
