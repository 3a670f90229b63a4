"""A finding as a reader sees it: a mark (`MEANS`), the sentence with its numbers, then small their intervals and what
the committed machines say; what follows from it where it is as expected. What is not as expected is said by the label,
which is true of any numbers. A quick run shows labels and numbers.

`said` makes the record that an output of a notebook holds (`SAID`); pages and samples render that.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import chain

import msgspec
import polars as pl

from async_cost import words
from async_cost.findings.committed import Machine, definitions, kind, kinds, machine_of, machines
from async_cost.findings.committed import short as short_name
from async_cost.findings.definitions import NOT_JUDGED, hashes_of, said_by
from async_cost.findings.finding import FindingResult, SlotResult
from async_cost.findings.lint import SLOT, slots_of
from async_cost.findings.names import name as called
from async_cost.findings.record import Finding, Slot
from async_cost.report import figures, markup, tables
from async_cost.runs.comparisons import address
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.run import Run
from async_cost.statistics.statement import Assessment, Outcome, together

#: What data/judged.csv says by a series of each slot of a finding, by its name.
Rows = Mapping[str, dict | None]
#: Under which name the metadata of an output holds what is said of its finding.
SAID = "said"
FITTED, NOTHING_TO_SAY = "fitted", words.NOTHING
#: The marks that say yes or no.
DECIDED = ("✓", FITTED, "≠")
#: What each says.
MEANS = {
    "✓": "as expected",
    FITTED: "as expected, by a border that was written after this run, which does not test it",
    "≠": "not as expected",
    "≈": "at the border of what was expected",
    "?": "not known well enough to say",
    "·": "only shown",
    NOTHING_TO_SAY: "not measured",
}
#: Those that a page explains.
SIGNS = ("✓", FITTED, "≠", "≈", "?")
#: Those of what is not as it was expected to be.
OPEN = ("≠", "≈", "?")
#: What an interval around no effect is called that ends within this part of it.
NOTHING_MEASURABLE, NEGLIGIBLE = "nothing measurable", 0.05
#: Before a part of a label that follows another one.
FURTHER = "… "
#: Half an interval, as a part of the effect, up to which a number is of use although it crosses a border.
USABLE = 0.25


class Row(msgspec.Struct, frozen=True):
    """A part of a label with its number here (empty: not measured) and on the committed machines, and what was
    expected.
    """

    name: str
    here: str
    others: dict[str, str]
    expected: str = ""
    changed: str = ""
    study: str = ""


class RenderedFinding(msgspec.Struct, frozen=True):
    """What a page says of a finding. `head` and `small` are Markdown with places for the `texts` of numbers, of which
    those that are rows of the table of comparisons have `addresses`. `asserted`: the head is the author's sentence.
    """

    id: str
    page: str
    mark: str
    head: str
    small: str
    texts: dict[str, str]
    addresses: dict[str, str]
    rows: list[Row]
    short: str
    asserted: bool = False
    so: str = ""
    expected: str = ""
    rough: bool = False
    elsewhere: dict[str, str] = {}
    is_yardstick: bool = False
    #: Whether what it is about was not measured.
    absent: bool = False

    @property
    def title(self) -> str:
        """Its sentence or label with its numbers as plain text, for a chart."""
        return words.plain(filled(self, self.head)).rstrip(".")

    def _ipython_display_(self) -> None:
        """Do nothing: `Reading.finding` displayed this already; keeps IPython from showing it twice."""


def said(result: FindingResult, run: Run) -> RenderedFinding:
    """Return what a page of `run` says of a finding."""
    finding, rough = result.finding, run.info.profile in NOT_EVIDENCE
    forms, known = forms_of(finding), _committed(finding)
    others = {machine.name: known[machine.name] for machine in apart_from(run)}
    lacking = {filled.slot.name for filled in result.slots if not filled.measured}
    # What its sentence names first is what it is about: without that, the rest would be a fragment.
    absent = _nothing_measured(result) or next(iter(slots_of(finding.sentence))) in lacking
    mark = "" if rough else NOTHING_TO_SAY if absent else _mark(result, lacking)
    # A sentence of which nothing is judged here may be said, too.
    shown = result.outcome is None and not lacking and not result.doubted and _signs_are_right(result)
    asserted = mark in ("✓", FITTED) or (mark == "·" and shown)
    template = finding.sentence if asserted else _label(finding, lacking)
    by_name = {filled.slot.name: filled for filled in result.slots}
    used = [by_name[name] for name in slots_of(template)]
    texts = {filled.slot.name: number(filled, forms[filled.slot.name], label=not asserted) for filled in result.slots}
    rows = {filled.slot.name: filled.weighed.row for filled in result.slots if len(filled.each) == 1}
    note = "" if lacking & slots_of(finding.note).keys() else finding.note
    # A number that crosses no effect is its interval.
    spans = [text for filled in used if "[" not in texts[filled.slot.name] and (text := _interval(filled, forms))]
    spans = spans if set(spans) != {"exact"} else spans[:1]
    intervals = "" if rough or not spans else figures.together(spans)
    remark = "" if rough else _remark(result, mark, forms)
    return RenderedFinding(
        id=finding.id,
        page=finding.page,
        mark=mark,
        head=template,
        small="; ".join(filter(None, [intervals, note, remark, *_others(used, forms, others, rough)])),
        texts={name: text for name, text in texts.items() if name not in lacking},
        addresses={name: place for name, row in rows.items() if row and (place := address(row))},
        rows=[*_rows(result, forms, texts, known)],
        short=_label(finding, lacking),
        asserted=asserted,
        so=finding.so if mark in ("✓", FITTED) else "",
        expected="; ".join(figures.region(slot, forms[slot.name]) for slot in finding.judged),
        rough=rough,
        elsewhere={name: there for name, rows in others.items() if (there := _mark_of_rows(finding, rows))},
        absent=absent,
    )


def yardstick(result: FindingResult, run: Run) -> RenderedFinding:
    """Return how fast a machine is: a line that a page of another kind of machine begins with, and a row for its
    table.
    """
    finding, (filled,) = said(result, run), result.slots
    whole, line = machines(), ""
    alike = next(
        (machine for machine in whole if machine.name == short_name(run.info.machine)), next(iter(whole), None)
    )
    there = alike and _committed(result.finding)[alike.name].get(filled.slot.name)
    if filled.ends and alike and there and kind(run.info.machine) not in kinds():
        ratio = filled.ends["least"] / there["value"]
        speed = f"{words.figure(max(ratio, 1 / ratio))} times as {'slow' if ratio > 1 else 'fast'} as"
        takes = f"{finding.rows[0].name} takes {finding.rows[0].here}, there {finding.rows[0].others[alike.name]}"
        line = (
            f"**This machine is {speed} the committed {alike.name}: {takes}.** Compare ratios with the other columns, and "
            "nanoseconds with that time."
        )
    return msgspec.structs.replace(finding, mark="", head=line, small="", asserted=False, is_yardstick=True)


# -- the mark --------------------------------------------------------------------------------------


def _mark(result: FindingResult, lacking: set[str]) -> str:
    outcomes = {filled.weighed.outcome for filled in result.slots}
    if Outcome.NOT_MEASURABLE in outcomes:
        return NOTHING_TO_SAY
    if result.doubted or lacking or result.outcome is None or _gap(result):
        return "·"
    if result.outcome is Outcome.HOLDS and not _signs_are_right(result):
        return "·"
    if result.outcome is Outcome.UNDECIDED:
        return "≈" if all(map(_usable, chain.from_iterable(filled.each for filled in result.judged))) else "?"
    return "≠" if result.outcome is Outcome.DOES_NOT_HOLD else "✓" if result.tested else FITTED


def mark_of(outcomes: Iterable[str], *, tested: bool) -> str:
    """Return the mark of a sentence whose numbers have these outcomes, of data/judged.csv."""
    word = together(Outcome(outcome) if outcome in list(Outcome) else Outcome.UNDECIDED for outcome in outcomes)
    return {Outcome.HOLDS: "✓" if tested else FITTED, Outcome.DOES_NOT_HOLD: "≠"}.get(word, "?")


def _usable(weighed: Assessment) -> bool:
    """Whether a number that crosses a border is known well enough to use: to a quarter of its effect, or to what counts
    as a difference. One that two readings contradict is not.
    """
    if weighed.outcome is not Outcome.UNDECIDED:
        return True
    effect, low, high, none = weighed.effect, weighed.low, weighed.high, weighed.none
    if weighed.sittings is None or effect is None or low is None or high is None or none is None:
        return False
    if none[0] > 0:  # a ratio
        return math.log(high / low) / 2 <= max(USABLE * abs(math.log(effect)), math.log(none[1]))
    return (high - low) / 2 <= max(USABLE * abs(effect), none[1])


def _signs_are_right(result: FindingResult) -> bool:
    """Whether numbers that this machine only shows lie on the side of no effect that the sentence says."""
    for filled in result.slots:
        slot, nothing = filled.slot, figures.nothing(filled.slot)
        if filled.judged or not slot.is_judged or _around(slot) or slot.of != "all":
            continue
        side = 1 if slot.most is None or slot.most > nothing else -1
        ends = (end for weighed in filled.measured for end in (weighed.low, weighed.high))
        if any((end - nothing) * side < 0 for end in ends if end is not None):
            return False
    return True


def _nothing_measured(result: FindingResult) -> bool:
    """Whether a run has none of its numbers: the figure of a document is no measurement."""
    return not any(filled.measured for filled in result.slots if filled.slot.main.constant is None)


def _gap(result: FindingResult) -> SlotResult | None:
    """The slot of an undecided finding that missing cases leave open, where no number crosses a border."""
    crossing = any(weighed.outcome is Outcome.UNDECIDED for filled in result.judged for weighed in filled.each)
    if crossing or result.outcome is not Outcome.UNDECIDED:
        return None
    return next((filled for filled in result.judged if len(filled.measured) < len(filled.each)), None)


# -- its numbers -----------------------------------------------------------------------------------


def number(filled: SlotResult, form: str, *, label: bool = False) -> str:
    """Return the number of a slot; of several cases the least and the greatest, or of how many it is true."""
    ends, slot = filled.ends, filled.slot
    if not ends:
        return "not measured"
    true = sum(weighed.outcome is Outcome.HOLDS for weighed in filled.each)
    inside = filled.weighed.outcome is Outcome.HOLDS and slot.is_judged
    return _text(slot, form, ends | {"true": true, "value": filled.weighed.effect}, inside, label)


def _text(slot: Slot, form: str, row: dict, inside: bool, label: bool) -> str:
    nothing, around = figures.nothing(slot), _around(slot)
    if slot.of == "most" and slot.is_judged:
        return f"{row['true']} of {len(slot.main.cases)}"
    if slot.quantity == "count" and slot.in_ratios and row["least"] == row["greatest"] == 1:
        return "equally many"
    single = len(slot.main.cases) == 1 and slot.operation != "value" and slot.main.constant is None
    if single and row["low"] < nothing < row["high"] and form != "x":
        ends = figures.around(slot, form, row["low"], row["high"])
        narrow = not slot.in_ratios or (row["low"] > 1 - NEGLIGIBLE and row["high"] < 1 + NEGLIGIBLE)
        return f"{NOTHING_MEASURABLE} {ends}" if around and inside and narrow else ends
    values = [row["least"], row["greatest"]]
    below = slot.is_judged and slot.most is not None and slot.most <= nothing
    on_other_side = min(values) < nothing or (below and max(values) > nothing)
    other_side = on_other_side and (label or not slot.is_judged)
    return figures.text(slot, form, values, signed=around or other_side)


def _interval(filled: SlotResult, forms: dict[str, str]) -> str:
    """The interval of a number, of several cases from the lowest end to the highest; nothing of a given number."""
    ends, slot = filled.ends, filled.slot
    if not ends or slot.main.constant is not None or (slot.of == "most" and slot.is_judged):
        return ""
    return figures.interval(slot, forms[slot.name], ends["low"], ends["high"])


def _others(
    used: Sequence[SlotResult], forms: dict[str, str], others: Mapping[str, Rows], rough: bool
) -> Iterator[str]:
    """The numbers of each committed machine of another kind, behind its name; beside a quick run, only known ones.
    Nothing is said of a machine on which nothing of the finding was ever measured.
    """
    slots = [filled.slot for filled in used if filled.slot.main.constant is None]
    for name, rows in others.items():
        numbers = [text for slot in slots if (text := _of_row(slot, forms[slot.name], rows.get(slot.name)))]
        if numbers or (rows and not rough):
            yield f"{name}: {figures.together(numbers) if numbers else 'not measured'}"


def _mark_of_rows(finding: Finding, rows: Rows) -> str:
    """The mark of a finding on a committed machine; none where a number is missing."""
    known = [row for slot in finding.judged if (row := rows.get(slot.name))]
    if not known or len(known) < len(finding.judged):
        return ""
    return mark_of([row["outcome"] for row in known], tested=all(row["tested"] for row in known))


def apart_from(run: Run) -> list[Machine]:
    """Return the committed machines but that of a run."""
    return [machine for machine in machines() if machine != machine_of(run)]


def _committed(finding: Finding) -> dict[str, Rows]:
    """What data/judged.csv says of each slot by the series of each machine, if it is defined as it was then; no row
    where a machine has none of the finding.
    """
    hashes = hashes_of([finding])

    def row_of(slot: Slot, series: tuple[str, ...]) -> dict | None:
        row = said_by("finding", series).get((slot.id, slot.name))
        return row if row and row["hash"] == hashes[slot.id, slot.name] and row["value"] is not None else None

    return {
        machine.name: {slot.name: row_of(slot, machine.series) for slot in finding.slots}
        if any((slot.id, slot.name) in said_by("finding", machine.series) for slot in finding.slots)
        else {}
        for machine in machines()
    }


def _of_row(slot: Slot, form: str, row: dict | None) -> str:
    if row is None or row["outcome"] in (NOT_JUDGED, Outcome.NOT_MEASURABLE):
        return ""
    text = _text(slot, form, row, row["outcome"] == Outcome.HOLDS, label=True)
    if row["outcome"] == Outcome.UNDECIDED and "[" not in text:
        return f"? {text} {figures.interval(slot, form, row['low'], row['high'])}"
    return f"≠ {text}" if row["outcome"] == Outcome.DOES_NOT_HOLD else text


# -- what is around them ---------------------------------------------------------------------------


def _remark(result: FindingResult, mark: str, forms: dict[str, str]) -> str:
    """Why it is not said as a sentence."""
    expected = words.listing(figures.region(filled.slot, forms[filled.slot.name]) for filled in result.judged)
    if result.doubted:
        return str(result.doubted.weighed.reason)
    if mark == NOTHING_TO_SAY:
        return next((str(filled.weighed.reason) for filled in result.slots if filled.weighed.reason), "")
    if mark == "·" and (gap := _gap(result)):
        missing = [weighed for weighed in gap.each if weighed.effect is None]
        return f"{len(missing)} of {len(gap.each)} were not measured: {missing[0].reason}" if gap.measured else ""
    if mark == "≠":
        return f"expected {expected}"
    if mark == "≈":
        return f"at the border of what was expected, {expected}"
    if mark == "?":
        every = (weighed for filled in result.judged for weighed in filled.each)
        undecided = [weighed for weighed in every if weighed.outcome is Outcome.UNDECIDED]
        why = [f"to decide it: {weighed.to_decide}" for weighed in undecided if weighed.to_decide]
        why += [weighed.reason for weighed in undecided if weighed.reason]
        return "; ".join([f"expected {expected}", *why[:1]])
    return ""


def _rows(
    result: FindingResult, forms: dict[str, str], texts: dict[str, str], known: Mapping[str, Rows]
) -> Iterator[Row]:
    """The parts of the label, a row each, with the numbers of all machines."""
    finding = result.finding
    defined = definitions().filter(id=finding.id).with_columns(reworded=pl.format("{}: reworded", "reworded"))
    changes = {row["slot"]: row for row in defined.iter_rows(named=True)}
    for at, (name, part) in enumerate(parts(finding)):
        names = list(slots_of(part))
        filled = [number for number in result.slots if number.slot.name in names]
        if _nothing_measured(result) and all(number.slot.main.constant is not None for number in filled):
            continue
        measured = all(number.measured for number in filled)
        others = {
            machine: figures.together(
                _of_row(number.slot, forms[number.slot.name], rows.get(number.slot.name)) for number in filled
            )
            for machine, rows in known.items()
            if all(rows.get(name) for name in names)
        }
        judged = [number.slot for number in filled if number.slot.is_judged]
        history = (changes[slot.name] for slot in judged if slot.name in changes)
        yield Row(
            name=f"{FURTHER}{name}" if at else name,
            here=figures.together(texts[name] for name in names) + _against(filled) if measured else "",
            others=others,
            expected=words.listing(figures.region(slot, forms[slot.name]) for slot in judged) if judged else "",
            changed="; ".join(text for row in history for text in (row["changed"], row["reworded"]) if text),
            study=filled[0].slot.main.cases[0][0][0].study,
        )


def _against(filled: Sequence[SlotResult]) -> str:
    """The cases that are not as expected, or open, of a number that most must be: ` (not: a; b; open: c)`."""
    listed = []
    for head, outcome in (("not", Outcome.DOES_NOT_HOLD), ("open", Outcome.UNDECIDED)):
        every = (weighed for number in filled if number.slot.of == "most" for weighed in number.each)
        sides = (weighed.case[0][0] for weighed in every if weighed.outcome is outcome and weighed.case)
        names = [f"{called(side.study, side.variant)} {side.parameter}".rstrip() for side in sides]
        listed += [f"{head}: {'; '.join(names)}"] if names else []
    return f" ({words.escape('; '.join(listed))})" if listed else ""


def parts(finding: Finding) -> list[tuple[str, str]]:
    """Return the parts of a label that have a number: what it is, and the part as a template."""
    listed = [part.strip() for part in finding.label.split(";")]
    return [(SLOT.sub("", part).strip().rstrip(":").strip(), part) for part in listed if SLOT.search(part)]


def _label(finding: Finding, lacking: set[str]) -> str:
    """The label as a sentence, without the parts whose numbers were not measured."""
    own = [part for _, part in parts(finding) if not lacking & slots_of(part).keys()]
    text = "; ".join(own)
    return f"{text[:1].upper()}{text[1:]}"


def forms_of(finding: Finding) -> dict[str, str]:
    """Return how each slot is written: as the sentence says, else as the label or the note does."""
    return {**slots_of(finding.note), **slots_of(finding.so), **slots_of(finding.label), **slots_of(finding.sentence)}


def _around(slot: Slot) -> bool:
    """Whether its region is on both sides of no effect."""
    nothing, least, most = figures.nothing(slot), slot.least, slot.most
    return slot.is_judged and (least is None or least < nothing) and (most is None or most > nothing)


# -- rendered --------------------------------------------------------------------------------------


def filled(finding: RenderedFinding, template: str, *, links: bool = False, strong: bool = False) -> str:
    """Return a template of a finding with its numbers, which are bold or linked to their notes, in Markdown."""

    def shown(name: str) -> str:
        text = words.linked(finding.texts[name], finding.addresses.get(name) if links else None)
        return f"**{text}**" if strong else text

    return SLOT.sub(lambda match: shown(match[1]) if match[1] in finding.texts else "", template)


def head(finding: RenderedFinding, *, links: bool = False) -> str:
    """Return the sentence in bold, or the label with its numbers in bold, in Markdown."""
    text = filled(finding, finding.head, links=links, strong=not finding.asserted)
    return f"**{text}**" if finding.asserted else text


def short(finding: RenderedFinding) -> str:
    """Return the label with its numbers, in Markdown."""
    return filled(finding, finding.short, strong=finding.head != finding.short or not finding.asserted)


def sign(finding: RenderedFinding) -> str:
    """Return the mark before a sentence; none where its border was fitted, which is said behind it."""
    return "" if finding.mark == FITTED or (finding.mark == "·" and finding.asserted) else finding.mark


def small(finding: RenderedFinding, *, links: bool = False) -> str:
    """Return what stands behind the sentence, in Markdown."""
    text = filled(finding, finding.small, links=links)
    if finding.mark == FITTED:
        return "; ".join(filter(None, [FITTED, text]))
    return text if finding.asserted or text.startswith("[") or not text else f"({text})"


def markdown(finding: RenderedFinding) -> str:
    """Return the finding in Markdown, for where there is no style."""
    if finding.is_yardstick:
        return finding.head
    text = " ".join(filter(None, [sign(finding), head(finding), small(finding)]))
    return f"{text}\n\n{filled(finding, finding.so)}" if finding.so else text


def html(finding: RenderedFinding) -> str:
    """Return the finding as a part of a page that can be linked to; what was expected is a tooltip."""
    if finding.is_yardstick:
        return f"<p>{markup.inline(finding.head)}</p>" if finding.head else ""
    name = "other" if finding.mark in OPEN else "plain" if sign(finding) else "unmarked"
    so = f"<p>{markup.inline(filled(finding, finding.so, links=True))}</p>" if finding.so else ""
    title = escape(f"expected: {finding.expected}") if finding.expected else ""
    mark = f'<span class="mark" title="{MEANS[finding.mark]}">{sign(finding)}</span> ' if sign(finding) else ""
    return (
        f'<div class="finding {name}" id="finding-{escape(finding.id)}">\n<p>{mark}'
        f'{markup.inline(head(finding, links=True))} <span class="values" title="{title}">{markup.inline(small(finding, links=True))}</span></p>\n{so}</div>'
    )


def table(findings: Sequence[RenderedFinding]) -> str:
    """Return findings of a quick run as HTML: what each number is, the reader's, those of the committed machines."""
    names = [machine.name for machine in machines()]
    top = "".join(f'<th scope="col">{escape(name)}</th>' for name in ("", "yours", *names))
    body = ""
    for finding in findings:
        for at, row in enumerate(row for row in finding.rows if row.here):
            anchor = "" if at else f' id="finding-{escape(finding.id)}"'
            numbers = "".join(f"<td>{markup.inline(row.others.get(name, words.NOTHING))}</td>" for name in names)
            here = f"<td>{markup.inline(row.name)}</td><td><b>{markup.inline(row.here)}</b></td>"
            body += f"<tr{anchor}>{here}{numbers}</tr>\n"
    return f'<table class="numbers"><thead><tr>{top}</tr></thead><tbody>\n{body}</tbody></table>' if body else ""


def footnotes(findings: Sequence[RenderedFinding]) -> Iterator[str]:
    """Yield what stands at the end of a page: what was expected of each number, as a folded table; what was not
    measured, with the command that measures it.
    """
    expected = [
        {"number": words.plain(row.name.removeprefix(FURTHER)), "expected": row.expected}
        | {"here": words.plain(row.here or words.NOTHING)}
        | {machine.name: row.others.get(machine.name, words.NOTHING) for machine in machines()}
        | {"changed": row.changed}
        for finding in findings
        for row in finding.rows
        if row.expected and not finding.rough
    ]
    if shown := tables.table(pl.DataFrame(expected), "What was expected of each number"):
        yield shown.data
    missing = [(row, finding.rough) for finding in findings for row in finding.rows if not row.here]
    if missing:
        studies = " ".join(dict.fromkeys(row.study for row, _ in missing))
        studies = f'"{studies}"' if " " in studies else studies
        how = "PROFILE=quick NATIVE=1 " if missing[0][1] else ""
        listed = words.listing(dict.fromkeys(markup.inline(row.name.removeprefix(FURTHER)) for row, _ in missing))
        yield (
            f'<details class="absent"><summary>Not in this run: {listed}</summary>'
            f"<p><code>make report {how}STUDIES={escape(studies)}</code> measures them.</p></details>"
        )
