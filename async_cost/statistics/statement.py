"""A statement about numbers, and what a run says about it: published claims and findings of our own are both.

A statement names a region of effects in which it is true, the run gives an interval, and `outcome` compares the two. A
statement about several cases asserts all of them.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from async_cost import words
from async_cost.statistics.effects import NANOSECONDS, Case, Effect, Measure, Values
from async_cost.statistics.judge import EQUIVALENCE, NEAR, in_sittings, sittings_needed


class Outcome(StrEnum):
    """What a run says about a statement."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    UNDECIDED = "undecided"
    #: The machine has fewer processors than the statement is about.
    NOT_MEASURABLE = "not measurable here"
    NOT_MEASURED = "not measured"


#: The outcomes in the order in which a page shows them: decided ones first, surprises before all.
OUTCOMES = (Outcome.DOES_NOT_HOLD, Outcome.HOLDS, Outcome.UNDECIDED, Outcome.NOT_MEASURABLE, Outcome.NOT_MEASURED)


@dataclass(frozen=True, kw_only=True)
class Statement(Measure):
    """A statement: what is measured, and the effects from `least` to `most` for which it is true, unbounded where None.

    `relation` is the word that the region stands for. `processors` is how many it is about, `of` of how many of its
    cases it must be true: all or most.
    """

    id: str
    statement: str
    relation: str
    least: float | None
    most: float | None
    processors: int = 1
    of: str = "all"

    @property
    def is_direction(self) -> bool:
        """Whether it says that something is more, or less, than something else, so that a bound is no effect. What is
        counted exactly always counts.
        """
        bounds = {"greater": [self.least], "less": [self.most], "between": [self.least, self.most]}
        no_effect = 1.0 if self.in_ratios else 0.0
        return self.quantity != "count" and no_effect in bounds.get(self.relation, ())


def region(statement: Statement) -> tuple[float, float]:
    """The smallest and the largest effect for which `statement` is true."""
    least = (0.0 if statement.in_ratios else -math.inf) if statement.least is None else statement.least
    return least, math.inf if statement.most is None else statement.most


def counts_for_nothing(statement: Statement, base: float = 0.0, nothing: float = EQUIVALENCE) -> tuple[float, float]:
    """The effects that do not count: ratios that differ from 1 by less than the share `nothing`, and differences of
    less than that share of `base`, the time of what is subtracted, in the unit of the statement.
    """
    return (1 - nothing, 1 + nothing) if statement.in_ratios else (-nothing * abs(base), nothing * abs(base))


def outcome(statement: Statement, low: float, high: float, base: float = 0.0, nothing: float = EQUIVALENCE) -> Outcome:
    """The outcome for `statement` if its effect has the interval [low, high]; `base` and `nothing` as for
    `counts_for_nothing`.

    A statement that something is more or less than something else does not hold if the interval shows that the
    difference does not count. Apart from that it holds when the whole interval lies in the region in which it is true,
    it does not when all of the interval lies outside, on one side, and it is undecided when the interval crosses a
    border. An exact count is an interval of one point and is never undecided.
    """
    none = counts_for_nothing(statement, base, nothing)
    if statement.is_direction and none[0] <= low and high <= none[1]:
        return Outcome.DOES_NOT_HOLD
    lowest, highest = region(statement)
    # An exact count that is equal is neither more nor less.
    nothing_more = low == high == (1.0 if statement.in_ratios else 0.0)
    if nothing_more and statement.relation in ("greater", "less") and low in (lowest, highest):
        return Outcome.DOES_NOT_HOLD
    if lowest <= low and high <= highest:
        return Outcome.HOLDS
    return Outcome.DOES_NOT_HOLD if high < lowest or low > highest else Outcome.UNDECIDED


def together(outcomes: Iterable[Outcome], of: str = "all") -> Outcome:
    """The outcome for a statement about several cases. If it asserts all of them, one that does not hold is enough."""
    each = list(outcomes)
    found = set(each)
    if not found - {Outcome.NOT_MEASURED, Outcome.NOT_MEASURABLE}:
        return Outcome.NOT_MEASURABLE if Outcome.NOT_MEASURABLE in found else Outcome.NOT_MEASURED
    if of == "most":
        if 2 * each.count(Outcome.HOLDS) > len(each):
            return Outcome.HOLDS
        return Outcome.DOES_NOT_HOLD if 2 * each.count(Outcome.DOES_NOT_HOLD) >= len(each) else Outcome.UNDECIDED
    if Outcome.DOES_NOT_HOLD in found:
        return Outcome.DOES_NOT_HOLD
    return Outcome.HOLDS if found == {Outcome.HOLDS} else Outcome.UNDECIDED


@dataclass(frozen=True)
class Weighed:
    """What a run says about one or several cases of a statement.

    `effect`, `low` and `high` are in the unit of the statement, null if nothing was measured; of several cases they
    belong to the deciding one, `case`. `holds` is the region in which the statement is true, `none` the effects that
    count for nothing. `reason`, Markdown with words of the data escaped, says why there is no effect or no conclusion,
    `doubted` that the run has an effect and it is no evidence. `sittings` is how many would decide it if the
    interval crosses a border, `covers_hours` whether that knows how hours differ. `row` is the row of the table of
    comparisons that gave the effect.
    """

    outcome: Outcome
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    case: Case | None = None
    holds: tuple[float, float] | None = None
    none: tuple[float, float] | None = None
    sittings: float | None = None
    covers_hours: bool = True
    doubted: bool = False
    row: dict | None = field(default=None, compare=False)

    @property
    def to_decide(self) -> str | None:
        """What would decide it, in plain text; None where nothing crosses a border."""
        return None if self.sittings is None else in_sittings(self.sittings, self.covers_hours)

    @property
    def counts_for_nothing(self) -> bool:
        """Whether the whole interval is an effect that does not count."""
        return self.effect is not None and self.none[0] <= self.low and self.high <= self.none[1]


def weigh(
    statement: Statement,
    cases: Sequence[Case],
    effects: Sequence[Effect],
    values: Callable[[str], Values],
    among: int | None = None,
) -> tuple[Weighed, tuple[Weighed, ...]]:
    """The judgement on all cases together, and on each of them, from intervals that hold together: each is that of
    Bonferroni, which is also the first step of Holm's procedure, by which alone one case that fails can be told from
    chance. `among` is how many intervals hold together, if these are not all.
    """
    number = sum(one.value is not None for one in effects) if among is None else among
    each = tuple(
        judged(statement, case, values(case[0][0].study), one.among(number, statement.in_ratios))
        for case, one in zip(cases, effects, strict=True)
    )
    return deciding(each, statement.of), each


def judged(statement: Statement, case: Case, values: Values, found: Effect) -> Weighed:
    """The judgement on an effect. A group of comparisons that is no evidence decides nothing."""
    if found.missing:
        return Weighed(Outcome.NOT_MEASURED, reason=found.missing, case=case)
    word, reason, needed = outcome(statement, found.low, found.high, found.base, found.nothing), None, None
    holds = region(statement)
    none = counts_for_nothing(statement, found.base, found.nothing)
    cores, doubted = values.measured.run.info.machine.logical_cores, False
    if cores is not None and cores < statement.processors:
        word = Outcome.NOT_MEASURABLE
        about = words.counted(statement.processors, "processor")
        reason = f"it is about {about}, and this machine has {words.numeral(cores)}"
    elif found.doubt:
        word, reason, doubted = Outcome.UNDECIDED, f"no evidence in this run: {words.escape(found.doubt)}", True
    elif word is Outcome.UNDECIDED:
        needed = _sittings(statement, found, holds)
    elif found.undisturbed:
        quiet = outcome(statement, *found.undisturbed[1:], found.base, found.nothing)
        if quiet not in (word, Outcome.UNDECIDED):
            reason = f"on a typical machine it {_says(word)}, on an undisturbed one it {_says(quiet)}"
            word = Outcome.UNDECIDED
    numbers = found.value, found.low, found.high
    return Weighed(word, *numbers, reason, case, holds, none, needed, found.covers_hours, doubted, found.row)


def _says(word: Outcome) -> str:
    return "holds" if word is Outcome.HOLDS else "does not"


def _sittings(statement: Statement, found: Effect, holds: tuple[float, float]) -> float:
    """How many sittings would decide on which side of a border of `holds` the effect lies; for a direction also whether
    the effect counts at all, if that is decided sooner.
    """
    near = NEAR * found.nothing
    if statement.is_direction:
        none = counts_for_nothing(statement, found.base, found.nothing)
        bound = 1.0 if statement.in_ratios else 0.0
        if min(found.value - none[0], none[1] - found.value) > abs(found.value - bound):
            holds = none
    if statement.in_ratios:
        value, low, high = (math.log(number) for number in (found.value, found.low, found.high))
        borders = [math.log(end) for end in holds if 0 < end < math.inf]
        return sittings_needed(value, low, high, borders, math.log1p(near), found.fixed, found.sittings)
    scale = abs(found.base) if statement.unit in NANOSECONDS else abs(found.value)
    return sittings_needed(found.value, found.low, found.high, holds, near * scale, found.fixed, found.sittings)


def deciding(cases: Sequence[Weighed], of: str = "all") -> Weighed:
    """The judgement on all cases together, with the numbers of the one that supports the statement least."""
    if not cases:
        return Weighed(Outcome.NOT_MEASURED, reason="no count and no time of these studies tells it")

    def on_its_side(weighed: Weighed) -> tuple[bool, bool, float]:
        if weighed.effect is None:
            return True, True, 0.0
        lowest, highest = weighed.holds
        room = min(weighed.low - lowest, highest - weighed.high)
        return False, weighed.outcome is not Outcome.DOES_NOT_HOLD, room

    word = together((weighed.outcome for weighed in cases), of)
    shown = min(cases, key=on_its_side)
    gaps = [weighed.reason for weighed in cases if weighed.outcome in (Outcome.NOT_MEASURED, Outcome.UNDECIDED)]
    reason = shown.reason
    if word is Outcome.UNDECIDED and reason is None:
        reason = words.listing(dict.fromkeys(filter(None, gaps))) or None
    # One refused case leaves the statement open, or does not matter for what the others decide.
    doubted = next((weighed for weighed in cases if weighed.doubted), None) if word is Outcome.UNDECIDED else None
    if doubted:
        return replace(shown, outcome=word, reason=doubted.reason, sittings=None, doubted=True)
    # A statement with several open cases stays open as long as the one that takes longest.
    open_ones = [weighed.sittings for weighed in cases if weighed.sittings] if word is Outcome.UNDECIDED else []
    reason = None if shown.doubted else reason
    return replace(
        shown,
        outcome=word,
        reason=reason,
        doubted=False,
        sittings=max(open_ones, default=None),
    )


def departure(one: Statement, weighed: Weighed) -> str | None:
    """How an effect differs from what a statement says: its reverse, none that counts, a smaller or a larger one, or
    another number. None unless the statement does not hold.
    """
    if weighed.outcome is not Outcome.DOES_NOT_HOLD or weighed.effect is None or weighed.holds is None:
        return None
    if one.of != "all":
        return "it is true of too few"
    if weighed.low == weighed.high or (one.relation == "between" and not one.is_direction):
        return "another number"
    if one.relation == "same":
        return "a difference that counts"
    if weighed.counts_for_nothing:
        return "no effect that counts"
    least, most = weighed.holds
    nothing = 1.0 if one.in_ratios else 0.0
    stated_more, stated_less = least >= nothing, most <= nothing
    if (stated_more and weighed.effect < nothing) or (stated_less and weighed.effect > nothing):
        return "the reverse"
    beyond = weighed.effect > most
    if stated_less:
        return "a smaller effect" if beyond else "a larger effect"
    return "a larger effect" if beyond else "a smaller effect"
