"""Findings, made of what an author writes, and judged on a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from async_cost.findings import lint
from async_cost.findings.committed import kind, kinds
from async_cost.findings.operands import Expected, Quantity
from async_cost.findings.record import SHOWN, Finding, Slot
from async_cost.runs.run import Run
from async_cost.statistics.effects import Effect, effect
from async_cost.statistics.measured import Measured
from async_cost.statistics.statement import Assessment, Outcome, assess, together


@dataclass(frozen=True)
class SlotResult:
    """What a run says of a slot: `weighed` all its cases together, `each` one by one; `judged` whether its region is
    judged on this machine.
    """

    slot: Slot
    weighed: Assessment
    each: tuple[Assessment, ...]
    judged: bool

    @property
    def measured(self) -> list[Assessment]:
        """The cases that have a number, the least first."""
        return sorted((case for case in self.each if case.effect is not None), key=lambda case: case.effect or 0.0)

    @property
    def ends(self) -> dict[str, float]:
        """The least and the greatest number, the lowest and the highest end of an interval, where measured."""
        if not self.measured:
            return {}
        numbers = [case.numbers for case in self.measured]
        values, lows, highs = zip(*numbers, strict=True)
        return {"least": min(values), "greatest": max(values), "low": min(lows), "high": max(highs)}


@dataclass(frozen=True)
class FindingResult:
    """What a run says of a finding, slot by slot; not `tested` if the run tests other findings, and this one was
    defined after it began.
    """

    finding: Finding
    slots: tuple[SlotResult, ...]
    tested: bool = True

    @property
    def judged(self) -> list[SlotResult]:
        """The slots that are judged here."""
        return [result for result in self.slots if result.judged]

    @property
    def outcome(self) -> Outcome | None:
        """One for the sentence: that of all judged slots together; None where none is."""
        return together(result.weighed.outcome for result in self.judged) if self.judged else None

    @property
    def doubted(self) -> SlotResult | None:
        """The first slot whose number is no evidence in this run, unless the others refute the sentence."""
        doubted = next((result for result in self.slots if result.weighed.doubted), None)
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
    made = tuple(slot(f"{page}-{id}", name, given, sentence, processors) for name, given in slots.items())
    declared = Finding(id=f"{page}-{id}", page=page, sentence=sentence, label=label, slots=made, note=note, so=so)
    lint.check(declared)
    return declared


def slot(id: str, name: str, given: Quantity | Expected, sentence: str, processors: int = 1) -> Slot:
    """Return the slot of a quantity, which is judged if something is expected of it. Raises ValueError for what is no
    quantity, and for a region that does not fit it.
    """
    if not isinstance(given, Quantity | Expected):
        raise ValueError(
            f"finding {id}: {name}= is which number of the {type(given).__name__}? Pass its .ratio or .added"
        )
    expected = given if isinstance(given, Expected) else Expected(given, SHOWN)
    quantity, least, most = expected.quantity, expected.least, expected.most
    if expected.of != "all" and len(quantity.cases) < 2:
        raise ValueError(f"finding {id}: {expected.of} speaks of several cases, and there is one")
    if least is not None and most is not None and least > most:
        raise ValueError(f"finding {id}: the region from {least} to {most} is empty")
    measure: dict[str, Any] = {
        part: getattr(quantity, part) for part in ("operation", "quantity", "unit", "per", "share")
    }
    measure |= {"relation": expected.relation, "of": expected.of, "why": expected.why}
    # As they are read again.
    measure |= {"least": None if least is None else float(least), "most": None if most is None else float(most)}
    return Slot(id=id, statement=sentence, name=name, main=quantity, processors=processors, **measure)


class Judge:
    """Judges findings on `run`, whose studies are read once."""

    def __init__(self, run: Run) -> None:
        self.run = run
        #: What the run holds of a study.
        self.measured = cache(partial(Measured, run))
        #: Whether nanoseconds were expected for this kind of machine.
        self.clock = kind(run.info.machine) in kinds()

    def effects(self, quantity: Quantity) -> list[Effect]:
        """Return the number of each case of a quantity."""
        if quantity.constant is not None:
            return [Effect(quantity.constant, quantity.constant, quantity.constant)]
        return [effect(quantity, case, self.measured) for case in quantity.cases]

    def __call__(self, declared: Finding, effects: Mapping[str, Sequence[Effect]] | None = None) -> FindingResult:
        """Judge a finding on the run. `effects`, by slot, replace what the run measured. The intervals of all judged
        cases of the sentence hold together (`Effect.among`).
        """
        given = effects or {}
        numbers = {slot.name: given.get(slot.name) or self.effects(slot.main) for slot in declared.slots}
        judged = {slot.name for slot in declared.judged if self.clock or not slot.by_the_clock}
        among = sum(case_effect.value is not None for name in judged for case_effect in numbers[name])
        filled = []
        for slot in declared.slots:
            number = among if slot.name in judged else 1
            weighed, cases = assess(slot, slot.main.cases, numbers[slot.name], self.run, number)
            filled.append(SlotResult(slot, weighed, cases, slot.name in judged))
        return FindingResult(declared, tuple(filled))
