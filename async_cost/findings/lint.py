"""What a program can see of a sentence: that its numbers are filled in and none is typed, and that it is short."""

import re
from collections.abc import Iterator

from async_cost.findings.names import aliases, keys
from async_cost.findings.record import Finding
from async_cost.words import TIMES

#: Words of a sentence, a slot counting as one.
MOST_WORDS = 25
#: A slot in a template, with how it is written.
SLOT = re.compile(r"\{(\w+)(?::([^}]+))?\}")
#: A result that was typed. Loads (KiB, connections, tasks) and what a document says may be typed.
TYPED = re.compile(rf"\d\s?(?:ns|µs|us|ms|s|%|times|{TIMES}|x|kB|MB|bytes|nanoseconds|microseconds|per cent)(?!\w)")
#: How a slot may be written, and a ratio alone.
FORMS, FORMS_OF_RATIOS = ("", "+", "x", "%", "of"), ("x", "%", "of")
CODE = re.compile(r"`([^`]+)`")


def slots_of(template: str) -> dict[str, str]:
    """Return the slots of a template with how each is written, in their order."""
    return dict(SLOT.findall(template))


def check(finding: Finding) -> None:
    """Raises ValueError for the first thing that is wrong with a finding."""
    if problem := next(problems(finding), None):
        raise ValueError(f"finding {finding.id}: {problem}")


def problems(finding: Finding) -> Iterator[str]:
    """Return what is wrong with the definition of a finding."""
    known, in_sentence = {slot.name for slot in finding.slots}, slots_of(finding.sentence)
    texts = {"sentence": finding.sentence, "label": finding.label, "note": finding.note, "so": finding.so}
    if not finding.sentence.endswith((".", "!", "?")):
        yield f"{finding.sentence!r} is no sentence; end it with a full stop"
    if not in_sentence:
        yield "the sentence has no number; a direction needs its size: write {slot} where it belongs"
    if unknown := {name for text in texts.values() for name in slots_of(text)} - known:
        yield f"no slot {sorted(unknown)[0]!r} is given"
    if unused := known - {name for text in texts.values() for name in slots_of(text)}:
        yield f"the slot {sorted(unused)[0]!r} is in none of its texts"
    if missing := [slot.name for slot in finding.judged if slot.name not in in_sentence]:
        yield f"the slot {missing[0]!r} is judged and not in the sentence"
    if lost := set(in_sentence) - set(slots_of(finding.label)):
        yield f"the label lacks the slot {sorted(lost)[0]!r}: say there what each number is"
    if (count := len(SLOT.sub("number", finding.sentence).split())) > MOST_WORDS:
        yield f"the sentence has {count} words; at most {MOST_WORDS}"
    for where, text in texts.items():
        bare = SLOT.sub("", text)
        if typed := TYPED.search(bare):
            yield f"the {where} has {typed[0]!r} typed into it; make it a slot"
        yield from (f"the {where}: {problem}" for problem in unclear(bare))
    if any(slot.operation.startswith("ratio of") and slot.name in in_sentence for slot in finding.slots):
        ratios = [slot for slot in finding.slots if slot.operation == "ratio"]
        if len(ratios) < 2:
            yield "a ratio of ratios stands alone; show both ratios beside it"
    for text in texts.values():
        for name, form in slots_of(text).items():
            ratio = any(slot.name == name and slot.in_ratios for slot in finding.slots)
            if form not in FORMS or (form in FORMS_OF_RATIOS and not ratio):
                yield f"{{{name}:{form}}} is no form of it; a ratio has {', '.join(FORMS_OF_RATIOS)}, another number +"
    for slot in finding.judged:
        if not slot.why and slot.relation in ("at most", "at least"):
            yield f"a side of {slot.name} is open; close it, or say why="


def unclear(text: str) -> Iterator[str]:
    """Yield a problem for each data key and each unofficial name found in a text."""
    for code in CODE.findall(text):
        if code in keys() or re.search(r"\w=\w", code):
            yield f"`{code}` is a key of the data; write its name (data/names.csv)"
    for alias, name in aliases().items():
        if re.search(rf"(?<!\w){re.escape(alias)}(?!\w)", text, re.IGNORECASE):
            yield f"{alias!r} is called {name!r} elsewhere (data/names.csv)"
