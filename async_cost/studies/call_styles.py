"""Ways of calling something that may wait: what a call costs in each of them, and which to choose.

A *style* is how a procedure is called. A *batch* is one iteration: so many calls, then settling. All times here are for
one call, or for one wait of the root where nothing is called.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from async_cost.literature.published import FOREIGN, load_published
from async_cost.runs.comparisons import KEY
from async_cost.runs.run import Run
from async_cost.statistics.interval import estimates
from async_cost.statistics.measured import Measured, both_ways
from async_cost.statistics.trials import per_unit

STUDY = "call-styles"
#: The document's design, translated; the same with fibers; and the leanest executor that we have.
LOOP, FIBERS, FRONTIER = "event loop", "fibers", "frontier"
#: The floor: a function behind a pointer.
PROCEDURE = "boxed closure"
#: One change to the translated design each.
INLINE, FRESH, EAGER = f"{LOOP} + inline", f"{LOOP} + fresh boxes", f"{LOOP} + eager handles"
INDEX, DIRECT = f"{LOOP} + index wakers", f"{LOOP} + no wakers"
HEAP, TREE = f"{LOOP} + heap", f"{LOOP} + tree"
EPOLL, KEPT, EPOLL_KEPT = f"{LOOP} + epoll", f"{LOOP} + kept", f"{LOOP} + epoll + kept"
STACKS = f"{FIBERS} + fresh stacks"
OTHERS = ("tokio", "smol", "LocalPool")
#: A call there is a task that is awaited; so it is written, without a task.
AWAITED = tuple(f"{name} + await" for name in OTHERS)
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

#: Benches with their names in a chart.
EMPTY = {INVOKE[style]: style for style in STYLES}
WAITING = {waiting(style): f"waiting {style}" for style in STYLES}
READY = {READABLE: "await_readable", WRITABLE: "await_writable"}
MANY_TIMERS = f"{BATCH} pending=10000"
#: Registered descriptors, of which one is awaited.
REGISTERED = (f"{BATCH} registered=100", f"{BATCH} registered=10000")


def turned(
    measured: Measured, variants: Collection[str], base: str, benches: Mapping[str, str], parameter: str = BATCH
) -> pl.DataFrame:
    """Variants compared with the one without the change, in `benches`: the table of comparisons, and `label` for a
    chart.
    """
    rows = measured.comparisons.filter(
        pl.col("variant").is_in(variants),
        pl.col("bench").is_in(list(benches)),
        pl.col("bench") == pl.col("baseline_bench"),
        pl.col("parameter") == pl.col("baseline_parameter"),
        baseline_variant=base,
        parameter=parameter,
    )
    return rows.with_columns(label=_label(benches))


def _label(benches: Mapping[str, str]) -> pl.Expr:
    """The name of the bench, and below it the variant without the part that all have in common."""
    name = pl.col("bench").replace_strict(benches, default="", return_dtype=pl.String)
    return pl.format("{}\n{}", name, pl.col("variant").str.strip_prefix(f"{LOOP} + "))


def stackful(measured: Measured) -> pl.DataFrame:
    """The same loop without wakers, with fibers and with futures, which differ in the fiber alone."""
    return turned(measured, [FIBERS], DIRECT, EMPTY | WAITING)


def slots(measured: Measured) -> pl.DataFrame:
    """Fresh boxes, no slot at all, and fresh stacks, instead of pooled ones."""
    bare = {INVOKE[CALL]: CALL, waiting(CALL): "waiting call"}
    fresh, inline = turned(measured, [FRESH], LOOP, EMPTY | WAITING), turned(measured, [INLINE], LOOP, bare)
    return pl.concat([fresh, inline, turned(measured, [STACKS], FIBERS, EMPTY)])


def handles(measured: Measured) -> pl.DataFrame:
    """An eager handle instead of a lazy one."""
    benches = {INVOKE[NONBLOCK]: NONBLOCK, waiting(NONBLOCK): "waiting call_nonblock"}
    return turned(measured, [EAGER], LOOP, benches)


def wakers(measured: Measured) -> pl.DataFrame:
    """Index wakers, and none."""
    return turned(measured, [INDEX, DIRECT], LOOP, {INVOKE[CALL]: CALL, WAIT: "wait"} | WAITING)


def queues(measured: Measured) -> pl.DataFrame:
    """Timers in a heap and in a tree, few of them and many."""
    few = turned(measured, [HEAP, TREE], LOOP, {WAIT: "wait"} | WAITING)
    return pl.concat([few, turned(measured, [HEAP, TREE], LOOP, {WAIT: "wait among many timers"}, MANY_TIMERS)])


def selectors(measured: Measured) -> pl.DataFrame:
    """Plain epoll instead of the polling crate, and registrations that are kept."""
    return turned(measured, [EPOLL, KEPT, EPOLL_KEPT], LOOP, READY)


def kinds(measured: Measured) -> pl.DataFrame:
    """Kinds of waits of the root, compared with a timer that is due."""
    rows = measured.comparisons.filter(baseline_bench=WAIT, baseline_variant=LOOP, baseline_parameter=BATCH)
    ready = rows.filter(pl.col("bench").is_in(list(READY)), parameter=BATCH)
    ready = ready.with_columns(label=_label(READY).str.replace(f"\n{LOOP}", "\npolling crate", literal=True))
    bare = rows.filter(bench=WAIT, variant=LOOP, parameter=YIELD).with_columns(label=pl.lit("yield"))
    return pl.concat([bare, ready])


def elsewhere(measured: Measured) -> pl.DataFrame:
    """Other executors, and the frontier, compared with the translated loop: calls that do not wait, and calls that
    yield.
    """
    there = (*OTHERS, *AWAITED, FRONTIER)
    straight = turned(measured, there, LOOP, {calls(style): style for style in STYLES})
    return pl.concat([straight, turned(measured, there, LOOP, WAITING, YIELD)])


def one_call(measured: Measured) -> pl.DataFrame:
    """Every trial with the time of one call, or wait, in `ns`."""
    return per_unit(measured.trials, measured.run.units(STUDY)) if measured else measured.trials


def costs(trials: pl.DataFrame, keys: Sequence[Key]) -> pl.DataFrame:
    """Nanoseconds of one call of each of `keys` that was measured, in their order; `trials` as from `one_call`: columns
    of `estimates` of ns.
    """
    wanted = pl.DataFrame(keys, schema=dict.fromkeys(KEY, pl.String), orient="row").with_row_index("number")
    return wanted.join(estimates(trials.join(wanted, on=KEY, how="semi"), "ns"), on=KEY).sort("number").drop("number")


def beside_batch(measured: Measured, sizes: Sequence[str]) -> pl.DataFrame:
    """One call in batches of other `sizes` compared with one in the published batch: rows of the table of
    comparisons.
    """
    return measured.comparisons.filter(
        pl.col("parameter").is_in(sizes),
        pl.col("bench") == pl.col("baseline_bench"),
        pl.col("variant") == pl.col("baseline_variant"),
        baseline_parameter=BATCH,
    )


# -- which style when ----------------------------------------------------------------------------------------


class Agreement(StrEnum):
    """What a run says about a cell of the document's table of advice."""

    AGREES = "agrees"
    IN_PART = "agrees in part"
    DISAGREES = "disagrees"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Cell:
    """A question of the table: does the callee wait nearly always, or hardly ever, and is its result needed? `advised`
    is the answer that the document gives.
    """

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

    `ns` is the time of a call in the cheapest style; `best` contains it and all styles that are indistinguishable from
    it. `agreement` is None if the group's controls refuse it, and then `best` is the cheapest style alone.
    """

    cell: Cell
    variant: str
    best: tuple[str, ...]
    ns: float
    low: float
    high: float
    agreement: Agreement | None


def advise(measured: Measured, variant: str, cell: Cell, parameter: str = BATCH) -> Advice | None:
    """The advice of this run for one cell; None if `variant` was measured in fewer than two of its styles.

    The cheapest style is the one with the least median. Every other is compared with it, in the same rounds.
    """
    bench = waiting if cell.waits else calls
    parameter = parameter if cell.waits else BATCH
    costing = costs(one_call(measured), [(bench(style), variant, parameter) for style in cell.styles])
    if costing.height < 2:
        return None
    cheapest = costing.sort("ns").row(0, named=True)
    least = cheapest["bench"]
    beside = both_ways(measured.comparisons).filter(
        pl.col("bench").is_in(costing["bench"].implode()),
        baseline_bench=least,
        **dict.fromkeys(("variant", "baseline_variant"), variant),
        **dict.fromkeys(("parameter", "baseline_parameter"), parameter),
    )
    words = dict(beside.select("bench", "verdict").iter_rows()) | {least: "same"}
    figures = cheapest["ns"], cheapest["low"], cheapest["high"]
    styles = {bench(style): style for style in cell.styles}
    if None in words.values():
        return Advice(cell, variant, (styles[least],), *figures, None)
    best = tuple(style for name, style in styles.items() if words.get(name) in ("same", "undecided"))
    advised = [words[bench(style)] for style in cell.advised if bench(style) in words]
    return Advice(cell, variant, best, *figures, _agreement(advised))


def _agreement(verdicts: Sequence[str]) -> Agreement:
    """Whether the document's advice holds, by the verdicts of all advised styles compared with the cheapest."""
    if "undecided" in verdicts and "same" not in verdicts:
        return Agreement.UNDECIDED
    good = sum(verdict in ("same", "undecided") for verdict in verdicts)
    if good == len(verdicts):
        return Agreement.AGREES
    return Agreement.IN_PART if good else Agreement.DISAGREES


def turning_point(measured: Measured, variant: str, parameter: str = BATCH) -> dict | None:
    """The share of waiting calls above which `call_and_forget` is cheaper than `call_nonblock`: a row with share, low
    and high.

    The cost of mixed calls is the mixture of their costs, which is a calculation and not a measurement. None if one of
    the four was not measured, or if one style is cheaper at every share.
    """
    keys = {
        "n": (calls(NONBLOCK), BATCH),
        "f": (calls(FORGET), BATCH),
        "wn": (waiting(NONBLOCK), parameter),
        "wf": (waiting(FORGET), parameter),
    }
    trials = one_call(measured).filter(variant=variant)
    joined = None
    for name, (bench, load) in keys.items():
        part = trials.filter(bench=bench, parameter=load).select("round", "episode", pl.col("ns").alias(name))
        joined = part if joined is None else joined.join(part, on=["round", "episode"])
    before, after = pl.col("f") - pl.col("n"), pl.col("wn") - pl.col("wf")
    joined = joined.with_columns(before=before, after=after, share=before / (before + after))
    if joined.height < 2 or joined["before"].median() <= 0 or joined["after"].median() <= 0:
        return None
    return estimates(joined.with_columns(bench=pl.lit(variant)), "share", by=("bench",)).row(0, named=True)


# -- next to the document -------------------------------------------------------------------------------------


def published_ratios() -> pl.DataFrame:
    """The document's rates as times of one execution, by interpreter: bench, variant, ns."""
    rows = load_published(STUDY)
    wide = rows.pivot(on="metric", index=["bench", "variant"], values="value")
    return wide.select("bench", "variant", ns=1e9 * pl.col("elapsed") / pl.col("executions"))


def beside_published(measured: Measured, benches: Sequence[str], base: str) -> pl.DataFrame:
    """Time of one execution of each of `benches` divided by that of `base`, in this run with futures and with fibers,
    and as published.

    Columns: label (the bench without its table), unit (who), ratio, low, high; for the document, which gives no spread,
    both ends are the ratio.
    """
    found = both_ways(measured.comparisons).filter(
        pl.col("bench").is_in(benches), baseline_bench=base, parameter=BATCH, baseline_parameter=BATCH
    )
    parts = []
    for variant, who in ((LOOP, "futures"), (FIBERS, "fibers")):
        of = {side: pl.when(pl.col(side.replace("variant", "bench")) == PLAIN).then(pl.lit(PROCEDURE)).otherwise(pl.lit(variant))
              for side in ("variant", "baseline_variant")}  # fmt: skip
        mine = found.filter(pl.col(side) == wanted for side, wanted in of.items())
        parts.append(mine.select(label="bench", unit=pl.lit(f"{who}, this run"), ratio="ratio", low="low", high="high"))
    printed = published_ratios()
    for interpreter in FOREIGN[STUDY]:
        mine = printed.filter(variant=interpreter)
        ratio = pl.col("ns") / mine.filter(bench=base)["ns"].item()
        rows = mine.filter(pl.col("bench").is_in(benches)).with_columns(ratio=ratio)
        unit = pl.lit(f"{interpreter}, published")
        parts.append(rows.select(label="bench", unit=unit, ratio="ratio", low="ratio", high="ratio"))
    order = {bench: number for number, bench in enumerate(benches)}
    found = pl.concat(parts).sort(pl.col("label").replace_strict(order, return_dtype=pl.Int64), maintain_order=True)
    return found.with_columns(pl.col("label").str.split("/").list.last())


def sides(table: pl.DataFrame) -> pl.DataFrame:
    """Whether this run, with futures, lies on the same side of equality as every published figure: label, same. Takes
    rows of `beside_published`.
    """
    above = pl.col("ratio") > 1
    mine = table.filter(pl.col("unit").str.starts_with("futures")).select("label", mine=above)
    printed = table.filter(pl.col("unit").str.ends_with("published")).join(mine, on="label", maintain_order="left")
    return printed.group_by("label", maintain_order=True).agg(same=(above == pl.col("mine")).all())


def counted(run: Run, variant: str = LOOP, parameter: str = BATCH) -> pl.DataFrame:
    """Exact counts of one execution: bench, and a column for each counter, null where it was not counted."""
    rows = run.counts(STUDY).filter(variant=variant, parameter=parameter).join(run.units(STUDY), on=KEY)
    rows = rows.with_columns(value=pl.col("value") / pl.col("units"))
    return rows.pivot(on="counter", index="bench", values="value").sort("bench")
