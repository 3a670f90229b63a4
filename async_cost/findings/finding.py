"""Findings, made of what an author writes, and judged on a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from async_cost.findings import lint
from async_cost.findings.committed import kind, machines
from async_cost.findings.operands import Expected, Quantity
from async_cost.findings.record import SHOWN, Finding, Slot
from async_cost.runs.run import Run
from async_cost.statistics.effects import Effect, effect
from async_cost.statistics.measured import Measured
from async_cost.statistics.statement import Outcome, Weighed, together, weigh


@dataclass(frozen=True)
class Filled:
    """What a run says of a slot: `weighed` all its cases together, `each` one by one; `judged` whether its region is
    judged on this machine.
    """

    slot: Slot
    weighed: Weighed
    each: tuple[Weighed, ...]
    judged: bool

    @property
    def measured(self) -> list[Weighed]:
        """The cases that have a number, the least first."""
        return sorted((one for one in self.each if one.effect is not None), key=lambda one: one.effect or 0.0)

    @property
    def ends(self) -> dict[str, float]:
        """The least and the greatest number, the lowest and the highest end of an interval, where measured."""
        if not self.measured:
            return {}
        numbers = [one.numbers for one in self.measured]
        values, lows, highs = zip(*numbers, strict=True)
        return {"least": min(values), "greatest": max(values), "low": min(lows), "high": max(highs)}


@dataclass(frozen=True)
class Found:
    """What a run says of a finding, slot by slot; not `tested` if the run tests other findings, and this one was
    defined after it began.
    """

    finding: Finding
    slots: tuple[Filled, ...]
    tested: bool = True

    @property
    def judged(self) -> list[Filled]:
        """The slots that are judged here."""
        return [one for one in self.slots if one.judged]

    @property
    def outcome(self) -> Outcome | None:
        """One for the sentence: that of all judged slots together; None where none is."""
        return together(one.weighed.outcome for one in self.judged) if self.judged else None

    @property
    def doubted(self) -> Filled | None:
        """The first slot whose number is no evidence in this run, unless the others refute the sentence."""
        doubted = next((one for one in self.slots if one.weighed.doubted), None)
        return None if self.outcome is Outcome.DOES_NOT_HOLD else doubted


def finding(
    page: str,
    id: str,
    sentence: str,
    label: str,
    slots: Mapping[str, Quantity | Expected],
    *,
    note: str = "",
    so: str = "",
    processors: int = 1,
) -> Finding:
    """Return the finding that says `sentence` with these slots. Raises ValueError for what a program can see to be
    wrong with it (`lint`).
    """
    made = tuple(slot(f"{page}-{id}", name, one, sentence, processors) for name, one in slots.items())
    one = Finding(id=f"{page}-{id}", page=page, sentence=sentence, label=label, slots=made, note=note, so=so)
    lint.check(one)
    return one


def slot(id: str, name: str, given: Quantity | Expected, sentence: str, processors: int = 1) -> Slot:
    """Return the slot of a quantity, which is judged if something is expected of it. Raises ValueError for what is no
    quantity, and for a region that does not fit it.
    """
    if not isinstance(given, Quantity | Expected):
        raise ValueError(
            f"finding {id}: {name}= is which number of the {type(given).__name__}? Pass its .ratio or .added"
        )
    expected = given if isinstance(given, Expected) else Expected(given, SHOWN)
    of, least, most = expected.quantity, expected.least, expected.most
    if expected.of != "all" and len(of.cases) < 2:
        raise ValueError(f"finding {id}: {expected.of} speaks of several cases, and there is one")
    if least is not None and most is not None and least > most:
        raise ValueError(f"finding {id}: the region from {least} to {most} is empty")
    measure: dict[str, Any] = {part: getattr(of, part) for part in ("operation", "quantity", "unit", "per", "share")}
    measure |= {"relation": expected.relation, "of": expected.of, "why": expected.why}
    # As they are read again.
    measure |= {"least": None if least is None else float(least), "most": None if most is None else float(most)}
    return Slot(id=id, statement=sentence, name=name, main=of, processors=processors, **measure)


class Judge:
    """Judges findings on `run`, whose studies are read once."""

    def __init__(self, run: Run) -> None:
        self.run = run
        #: What the run holds of a study.
        self.measured = cache(partial(Measured, run))
        #: Whether nanoseconds were expected for this kind of machine.
        self.clock = any(one.kind == kind(run.info.machine) for one in machines())

    def effects(self, of: Quantity) -> list[Effect]:
        """Return the number of each case of a quantity."""
        if of.constant is not None:
            return [Effect(of.constant, of.constant, of.constant)]
        return [effect(of, case, self.measured) for case in of.cases]

    def __call__(self, one: Finding, effects: Mapping[str, Sequence[Effect]] | None = None) -> Found:
        """What the run says about a finding; or what `effects` say, by slot, each with its own interval, in place of
        those of the run. The intervals of all judged cases of a sentence hold together.
        """
        given = effects or {}
        numbers = {slot.name: given.get(slot.name) or self.effects(slot.main) for slot in one.slots}
        judged = {slot.name for slot in one.judged if self.clock or not slot.by_the_clock}
        among = sum(each.value is not None for name in judged for each in numbers[name])
        filled = []
        for slot in one.slots:
            number = among if slot.name in judged else 1
            weighed, each = weigh(slot, slot.main.cases, numbers[slot.name], self.run, number)
            filled.append(Filled(slot, weighed, each, slot.name in judged))
        return Found(one, tuple(filled))
