"""The definition of a finding: an author's sentence whose numbers a run fills in. A number of it, a slot, may have a
region in which it is expected, which is judged as a published claim is; the words of the sentence are true while the
numbers are in there.

It is what an executed notebook holds of a finding (`RECORD`), so that it is judged on any run without executing the
notebook again.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from async_cost.findings.operands import Quantity
from async_cost.statistics.effects import NANOSECONDS
from async_cost.statistics.statement import Statement

#: Under which name the metadata of an output holds the definition of its finding.
RECORD = "finding"
#: The relation of a number that is not judged; every number is in its region.
SHOWN = "shown"


@dataclass(frozen=True, kw_only=True)
class Slot(Statement):
    """A number of a sentence: of which quantity, and the region in which it is expected, if it is judged. `why` is the
    reason for a border that is open, or looser than what was measured asks for.
    """

    name: str
    main: Quantity
    why: str = ""

    @property
    def is_judged(self) -> bool:
        """Whether anything is expected of it."""
        return self.relation != SHOWN

    @property
    def by_the_clock(self) -> bool:
        """Whether it is in nanoseconds, which differ between machines as their clocks do."""
        return self.operation != "break-even" and not self.in_ratios and self.unit in NANOSECONDS


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A sentence of the notebook in `page`: a template with its slots, and a `label` that is true of any numbers, in
    parts with a semicolon between them; `note` is said of how they were measured, `so` what follows if they are as
    expected.
    """

    id: str
    page: str
    sentence: str
    label: str
    slots: tuple[Slot, ...]
    note: str = ""
    so: str = ""

    @property
    def judged(self) -> tuple[Slot, ...]:
        """The slots of which something is expected."""
        return tuple(slot for slot in self.slots if slot.is_judged)


def record(finding: Finding) -> dict:
    """Return the definition as JSON holds it."""
    return msgspec.to_builtins(finding)


def recorded(notebooks: Iterable[Path]) -> list[Finding]:
    """Return the findings that executed notebooks hold, in their order. Raises ValueError for an id that is there
    twice.
    """
    known: dict[str, Finding] = {}
    for notebook in notebooks:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        outputs = (output.get("metadata", {}) for cell in cells for output in cell.get("outputs", ()))
        for finding in (msgspec.convert(metadata[RECORD], Finding) for metadata in outputs if RECORD in metadata):
            if known.setdefault(finding.id, finding) is not finding:
                raise ValueError(f"{notebook}: there are two findings {finding.id}")
    return list(known.values())
