"""A statement about numbers, and what a run says about it: published claims and findings of our own are both.

A statement names a region of effects in which it is true, the run gives an interval, and `outcome` compares the two. A
statement about several cases asserts all of them.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from async_cost import words
from async_cost.runs.run import Run
from async_cost.statistics.effects import NANOSECONDS, Case, Effect, Measure
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
        return self.quantity != "count" and self.no_effect in bounds.get(self.relation, ())


def region(statement: Statement) -> tuple[float, float]:
    """Return the smallest and the largest effect for which `statement` is true."""
    least = (0.0 if statement.in_ratios else -math.inf) if statement.least is None else statement.least
    return least, math.inf if statement.most is None else statement.most


def counts_for_nothing(statement: Statement, base: float = 0.0, nothing: float = EQUIVALENCE) -> tuple[float, float]:
    """Return the effects that do not count: ratios that differ from 1 by less than the share `nothing`, and differences
    of less than that share of `base`, the time of what is subtracted, in the unit of the statement.
    """
    return (1 - nothing, 1 + nothing) if statement.in_ratios else (-nothing * abs(base), nothing * abs(base))


def outcome(statement: Statement, low: float, high: float, base: float = 0.0, nothing: float = EQUIVALENCE) -> Outcome:
    """Judge `statement` by the interval [low, high] of its effect; `base` and `nothing` as for `counts_for_nothing`.

    It holds when the whole interval lies in the region in which it is true, it does not when all of the interval lies
    outside, on one side, and it is undecided when the interval crosses a border. That something is more or less does
    not hold either if the interval shows that the difference does not count.
    """
    none = counts_for_nothing(statement, base, nothing)
    if statement.is_direction and none[0] <= low and high <= none[1]:
        return Outcome.DOES_NOT_HOLD
    lowest, highest = region(statement)
    # An exact count that is equal is neither more nor less.
    nothing_more = low == high == statement.no_effect
    if nothing_more and statement.relation in ("greater", "less") and low in (lowest, highest):
        return Outcome.DOES_NOT_HOLD
    if lowest <= low and high <= highest:
        return Outcome.HOLDS
    return Outcome.DOES_NOT_HOLD if high < lowest or low > highest else Outcome.UNDECIDED


def together(outcomes: Iterable[Outcome], quantifier: str = "all") -> Outcome:
    """Judge a statement about several cases. If it asserts all of them, one that does not hold is enough."""
    cases = list(outcomes)
    kinds = set(cases)
    if not kinds - {Outcome.NOT_MEASURED, Outcome.NOT_MEASURABLE}:
        return Outcome.NOT_MEASURABLE if Outcome.NOT_MEASURABLE in kinds else Outcome.NOT_MEASURED
    if quantifier == "most":
        if 2 * cases.count(Outcome.HOLDS) > len(cases):
            return Outcome.HOLDS
        return Outcome.DOES_NOT_HOLD if 2 * cases.count(Outcome.DOES_NOT_HOLD) >= len(cases) else Outcome.UNDECIDED
    if Outcome.DOES_NOT_HOLD in kinds:
        return Outcome.DOES_NOT_HOLD
    return Outcome.HOLDS if kinds == {Outcome.HOLDS} else Outcome.UNDECIDED


@dataclass(frozen=True)
class Assessment:
    """Assessment of a statement by a run: outcome, deciding effect with interval, and why it is open.

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
    def numbers(self) -> tuple[float, float, float]:
        """Effect, low and high. Raises ValueError where nothing was measured."""
        if self.effect is None or self.low is None or self.high is None:
            raise ValueError(self.reason)
        return self.effect, self.low, self.high

    @property
    def to_decide(self) -> str | None:
        """What would decide it, in plain text; None where nothing crosses a border."""
        return None if self.sittings is None else in_sittings(self.sittings, self.covers_hours)

    @property
    def counts_for_nothing(self) -> bool:
        """Whether the whole interval is an effect that does not count."""
        if self.effect is None or self.none is None:
            return False
        _, low, high = self.numbers
        return self.none[0] <= low and high <= self.none[1]


def assess(
    statement: Statement, cases: Sequence[Case], effects: Sequence[Effect], run: Run, among: int | None = None
) -> tuple[Assessment, tuple[Assessment, ...]]:
    """Judge all cases together, and each of them, by intervals that hold together: each is that of Bonferroni, which is
    also the first step of Holm's procedure, by which alone one case that fails can be told from chance.

    Args:
        run: the run whose machine was measured.
        among: how many intervals hold together, if these are not all.
    """
    number = sum(effect.value is not None for effect in effects) if among is None else among
    assessments = tuple(
        _judged(statement, case, run, effect.among(number, statement.in_ratios))
        for case, effect in zip(cases, effects, strict=True)
    )
    return _deciding(assessments, statement.of), assessments


def _judged(statement: Statement, case: Case, run: Run, effect: Effect) -> Assessment:
    """The judgement on an effect. A group of comparisons that is no evidence decides nothing."""
    if effect.missing:
        return Assessment(Outcome.NOT_MEASURED, reason=effect.missing, case=case)
    value, low, high = effect.numbers
    weighed = Assessment(
        outcome(statement, low, high, effect.base, effect.nothing),
        *(value, low, high),
        case=case,
        holds=region(statement),
        none=counts_for_nothing(statement, effect.base, effect.nothing),
        covers_hours=effect.covers_hours,
        row=effect.row,
    )
    cores = run.info.machine.logical_cores
    if cores is not None and cores < statement.processors:
        about = words.counted(statement.processors, "processor")
        reason = f"it is about {about}, and this machine has {words.numeral(cores)}"
        return replace(weighed, outcome=Outcome.NOT_MEASURABLE, reason=reason)
    if effect.doubt:
        reason = f"no evidence in this run: {words.escape(effect.doubt)}"
        return replace(weighed, outcome=Outcome.UNDECIDED, reason=reason, doubted=True)
    if weighed.outcome is Outcome.UNDECIDED:
        return replace(weighed, sittings=_sittings(statement, effect))
    if effect.undisturbed:
        undisturbed = outcome(statement, *effect.undisturbed[1:], effect.base, effect.nothing)
        if undisturbed not in (weighed.outcome, Outcome.UNDECIDED):
            typical, other = (
                "holds" if word is Outcome.HOLDS else "does not" for word in (weighed.outcome, undisturbed)
            )
            reason = f"on a typical machine it {typical}, on an undisturbed one it {other}"
            return replace(weighed, outcome=Outcome.UNDECIDED, reason=reason)
    return weighed


def _sittings(statement: Statement, effect: Effect) -> float:
    """How many sittings would decide on which side of a border of the region the effect lies; for a direction also
    whether the effect counts at all, if that is decided sooner.
    """
    (value, low, high), holds, near = effect.numbers, region(statement), NEAR * effect.nothing
    by_controls = effect.fixed, effect.offset
    if statement.is_direction:
        none = counts_for_nothing(statement, effect.base, effect.nothing)
        if min(value - none[0], none[1] - value) > abs(value - statement.no_effect):
            holds = none
    if statement.in_ratios:
        value, low, high = (math.log(number) for number in (value, low, high))
        borders = [math.log(end) for end in holds if 0 < end < math.inf]
        return sittings_needed(value, low, high, borders, math.log1p(near), *by_controls, effect.sittings)
    scale = abs(effect.base) if statement.unit in NANOSECONDS else abs(value)
    return sittings_needed(value, low, high, holds, near * scale, *by_controls, effect.sittings)


def _deciding(cases: Sequence[Assessment], quantifier: str) -> Assessment:
    """The judgement on all cases together, with the numbers of the one that supports the statement least."""
    if not cases:
        return Assessment(Outcome.NOT_MEASURED, reason="no count and no time of these studies tells it")

    def support(weighed: Assessment) -> tuple[bool, bool, float]:
        if weighed.effect is None or weighed.holds is None:
            return True, True, 0.0
        (_, low, high), (lowest, highest) = weighed.numbers, weighed.holds
        margin = min(low - lowest, highest - high)
        return False, weighed.outcome is not Outcome.DOES_NOT_HOLD, margin

    word = together((weighed.outcome for weighed in cases), quantifier)
    shown = replace(min(cases, key=support), outcome=word)
    if word is not Outcome.UNDECIDED:
        return replace(shown, reason=None if shown.doubted else shown.reason, doubted=False, sittings=None)
    # One refused case leaves the statement open, or does not matter for what the others decide.
    if doubted := next((weighed for weighed in cases if weighed.doubted), None):
        return replace(shown, reason=doubted.reason, sittings=None, doubted=True)
    # A statement with several open cases stays open as long as the one that takes longest.
    sittings = max((weighed.sittings for weighed in cases if weighed.sittings), default=None)
    open_cases = [case for case in cases if case.outcome in (Outcome.NOT_MEASURED, Outcome.UNDECIDED)]
    gaps = dict.fromkeys(case.reason for case in open_cases if case.reason)
    return replace(shown, reason=shown.reason or (words.listing(gaps) if gaps else None), sittings=sittings)


def departure(statement: Statement, weighed: Assessment) -> str | None:
    """Say how an effect differs from a statement that does not hold: its reverse, none that counts, a smaller or a
    larger one, or another number. None if the statement holds or is open.
    """
    if weighed.outcome is not Outcome.DOES_NOT_HOLD or weighed.effect is None or weighed.holds is None:
        return None
    if statement.of != "all":
        return "it is true of too few"
    if weighed.low == weighed.high or (statement.relation == "between" and not statement.is_direction):
        return "another number"
    if statement.relation == "same":
        return "a difference that counts"
    if weighed.counts_for_nothing:
        return "no effect that counts"
    least, most = weighed.holds
    nothing = statement.no_effect
    stated_more, stated_less = least >= nothing, most <= nothing
    if (stated_more and weighed.effect < nothing) or (stated_less and weighed.effect > nothing):
        return "the reverse"
    beyond = weighed.effect > most
    if stated_less:
        return "a smaller effect" if beyond else "a larger effect"
    return "a larger effect" if beyond else "a smaller effect"
