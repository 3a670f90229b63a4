"""A finding: an author's sentence about numbers, with the region in which it is true, and what a run says about it.

It is a statement like a published claim, judged alike. Its definition is what an executed notebook holds of it
(`record`); it is judged on any run without executing the notebook again.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import msgspec

from async_cost.findings.operands import Quantity
from async_cost.findings.vocabulary import Word, bounds
from async_cost.runs.run import Run
from async_cost.statistics.effects import Effect, Values, effect
from async_cost.statistics.statement import Outcome, Statement, Weighed, weigh

#: Under which name the metadata of an output holds the definition of its finding.
RECORD = "finding"


@dataclass(frozen=True, kw_only=True)
class Finding(Statement):
    """A sentence of the notebook in `page` with its cases and region.

    `show` are further numbers for the reader; `because` gives reasons and advice that fall with the sentence; `why` is
    the reason for a region of its own.
    """

    page: str
    main: Quantity
    show: tuple[Quantity, ...] = ()
    because: str = ""
    why: str = ""


@dataclass(frozen=True)
class Found:
    """What a run says of a finding: `weighed` all cases together, `each` one by one, `shown` the further numbers; not
    `tested` if the run tests other findings, and this one was defined after it began.
    """

    finding: Finding
    weighed: Weighed
    each: tuple[Weighed, ...] = ()
    shown: tuple[Effect, ...] = ()
    tested: bool = True

    @property
    def outcome(self) -> Outcome:
        return self.weighed.outcome


def finding(
    page: str,
    id: str,
    sentence: str,
    of: Quantity,
    word: Word,
    *,
    show: Iterable[Quantity] = (),
    because: str = "",
    processors: int = 1,
) -> Finding:
    """The finding that `word` is true `of` a quantity. Raises ValueError for a sentence without an end, and for a word
    that does not fit the quantity.
    """
    if not isinstance(of, Quantity):
        raise ValueError(f"finding {id}: say of which number of the {type(of).__name__}: pass its .ratio or .added")
    if not isinstance(word, Word):
        raise ValueError(f"finding {id}: {word!r} is no word of the vocabulary, such as ac.slower or ac.under(2)")
    if not sentence.endswith((".", "!", "?")):
        raise ValueError(f"finding {id}: {sentence!r} is no sentence; end it with a full stop")
    if word.relation in ("same", "slower", "faster", "not slower") and not (of.in_ratios and of.quantity == "time"):
        raise ValueError(
            f"finding {id}: {word.relation!r} is a word for a ratio of times, and this is a {of.operation}"
        )
    if word.of != "all" and len(of.cases) < 2:
        raise ValueError(f"finding {id}: {word.of}_of speaks of several cases, and there is one")
    if any(len(one.cases) != 1 for one in show):
        raise ValueError(f"finding {id}: a further number is one number; show the pairs one by one")
    least, most = bounds(word, of.in_ratios)
    if least is not None and most is not None and least > most:
        raise ValueError(f"finding {id}: the region from {least} to {most} is empty")
    given: dict[str, Any] = {
        name: getattr(of, name) for name in ("operation", "quantity", "unit", "per", "share", "scales")
    }
    ends = {"least": least, "most": most}  # as they are read again
    given |= {name: None if end is None else float(end) for name, end in ends.items()}
    given |= {"relation": word.relation, "of": word.of, "why": word.why}
    given |= {"id": id, "page": page, "statement": sentence, "because": because, "processors": processors}
    return Finding(**given, main=of, show=tuple(show))


class Judge:
    """Judges findings on `run`, whose studies are read once."""

    def __init__(self, run: Run) -> None:
        self.run = run
        #: What the run holds of a study.
        self.values = cache(partial(Values, run))

    def effects(self, of: Quantity) -> list[Effect]:
        """The number of each case of a quantity."""
        measured = [effect(of, case, self.values) for case in of.cases]
        return [one.divided(scale) for one, scale in zip(measured, of.scales, strict=True)] if of.scales else measured

    def __call__(self, one: Finding, effects: Sequence[Effect] | None = None) -> Found:
        """What the run says about a finding; or what `effects` say, each with its own interval, in place of the effects
        of its cases in the run.
        """
        effects = self.effects(one.main) if effects is None else effects
        weighed, each = weigh(one, one.main.cases, effects, self.values)
        return Found(one, weighed, each, tuple(self.effects(quantity)[0] for quantity in one.show))


def record(one: Finding) -> dict:
    """The definition as JSON holds it."""
    return msgspec.to_builtins(one)


def recorded(notebooks: Iterable[Path]) -> list[Finding]:
    """The findings that executed notebooks hold, in their order. Raises ValueError for an id that is there twice."""
    known: dict[str, Finding] = {}
    for notebook in notebooks:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        outputs = (output.get("metadata", {}) for cell in cells for output in cell.get("outputs", ()))
        for one in (msgspec.convert(metadata[RECORD], Finding) for metadata in outputs if RECORD in metadata):
            if known.setdefault(one.id, one) is not one:
                raise ValueError(f"{notebook}: there are two findings {one.id}")
    return list(known.values())
