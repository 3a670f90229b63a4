"""A finding without slots, as pages said it before them: a mark, the author's sentence, the values of this run behind it."""

from collections.abc import Sequence

from async_cost import words
from async_cost.findings.committed import machines
from async_cost.findings.definitions import hashes_of, said_by
from async_cost.findings.finding import Filled, Found
from async_cost.findings.operands import Quantity
from async_cost.report.finding import FITTED, NOTHING_TO_SAY, Row, Said
from async_cost.report.numbers import span, value
from async_cost.runs.comparisons import address
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.run import Run
from async_cost.statistics.effects import Operand
from async_cost.statistics.statement import Outcome, Weighed, departure

#: How each outcome is marked, and what is said before a sentence that is not shown to be true.
MARKS = {
    Outcome.HOLDS: ("✓", ""),
    Outcome.DOES_NOT_HOLD: ("≠", "Does not hold here"),
    Outcome.UNDECIDED: ("?", "Undecided here"),
    Outcome.NOT_MEASURED: (NOTHING_TO_SAY, "Not measured"),
    Outcome.NOT_MEASURABLE: (NOTHING_TO_SAY, "Not measurable here"),
}


def said_before(found: Found, run: Run) -> Said:
    """What a page says of a finding without slots."""
    one, (main, *further), rough = found.finding, found.slots, run.info.profile in NOT_EVIDENCE
    mark, label = _marked(found)
    texts = dict[str, str]()
    addresses = dict[str, str]()

    def place(filled: Filled, weighed: Weighed, borders: tuple[float, float] | None = None) -> str:
        name, of = f"number{len(texts)}", filled.slot.main
        numbers = weighed.effect, weighed.low, weighed.high
        shown = value(of, *numbers, baseline=_baseline(of), borders=borders)
        texts[name], _, interval = shown.partition(" [")
        if weighed.row and (where := address(weighed.row)):
            addresses[name] = where
        return f"{{{name}}}" + (f" [{interval}" if interval else "")

    values = _values(main, further, place)
    sentence = words.escape(one.sentence)
    asserted = not label and not rough
    name = f"{words.code(_side(*_ends(main.slot.main)))} {main.slot.main.noun}".rstrip()
    others = {machine.name: text for machine in machines() if (text := _other(found, machine.series))}
    head = sentence if asserted else f"{name}: {values}" if rough else f"*{label}:* {sentence}"
    small = "" if rough else " ".join(filter(None, [values, _why(found)]))
    return Said(
        id=one.id,
        page=one.page,
        mark="" if rough else FITTED if mark == "✓" and not found.tested else mark,
        head=head,
        small=small,
        texts=texts,
        addresses=addresses,
        rows=[Row(name, values_text(values, texts), others, study=main.slot.main.cases[0][0][0].study)],
        short=sentence if asserted else head,
        asserted=asserted,
        so=one.so if asserted and mark == "✓" else "",
        expected=_region(found),
        rough=rough,
    )


def values_text(template: str, texts: dict[str, str]) -> str:
    """A template with its numbers."""
    return template.format(**texts)


def _marked(found: Found) -> tuple[str, str]:
    """Its mark, and what is said before its sentence."""
    if found.doubted:
        return "·", "Not judged"
    # Nothing crosses a border: what is missing leaves it open.
    each = {one.outcome for one in found.slots[0].each}
    missing = found.outcome is Outcome.UNDECIDED and Outcome.UNDECIDED not in each
    return MARKS[Outcome.NOT_MEASURED if missing or found.outcome is None else found.outcome]


def _values(main: Filled, further: Sequence[Filled], place) -> str:
    """The number of the finding with its interval and the further ones: `55 ns [54, 56] more a request`. Of several cases,
    the smallest and the largest.
    """
    measured, of = main.measured, main.slot.main
    apart = (Outcome.UNDECIDED, Outcome.DOES_NOT_HOLD)

    def shown(each: Weighed) -> str:
        return place(main, each, each.holds if each.outcome in apart else None)

    noun = f" {of.noun}".rstrip()
    if not measured:
        texts = []
    elif len(measured) == 1:
        texts = [f"{shown(measured[0])}{noun}"]
    elif measured[0].effect == measured[-1].effect:
        texts = [f"{shown(measured[0])}{noun} in all {len(measured)}"]
    else:
        ends = [f"{shown(measured[at])} ({words.code(_name(measured[at], measured))})" for at in (0, -1)]
        compared = f", {len(measured)} compared" if len(measured) > 2 else ""
        true = sum(weighed.outcome is Outcome.HOLDS for weighed in measured)
        texts = [
            f"from {ends[0]} to {ends[1]}{noun}{compared}" + (f", true of {true}" if main.slot.of == "most" else "")
        ]
    more = (f"{place(one, one.each[0])} {one.slot.main.noun}".rstrip() for one in further if one.measured)
    return "; ".join([*texts, *more])


def _other(found: Found, series: str) -> str:
    """The deciding number of a committed series."""
    slot = found.finding.slots[0]
    row = said_by("finding", series).get((slot.id, slot.name))
    if not row or row["hash"] != hashes_of([found.finding])[slot.id, slot.name] or row["value"] is None:
        return ""
    return value(slot.main, row["value"], row["low"], row["high"])


def _why(found: Found) -> str:
    main = found.slots[0]
    weighed, missing = main.weighed, [one for one in main.each if one.effect is None]
    if weighed.doubted or weighed.effect is None or found.outcome is Outcome.NOT_MEASURABLE:
        return f"({weighed.reason}.)"
    if found.outcome is Outcome.DOES_NOT_HOLD:
        return f"({departure(main.slot, weighed)}: it {_region(found)}.)"
    if found.outcome is Outcome.HOLDS:
        return ""
    if missing:
        return f"({len(missing)} of {len(main.each)} were not measured: {missing[0].reason}.)"
    close = weighed.to_decide
    why = f" To decide it: {close}." if close else f" {weighed.reason}." if weighed.reason else ""
    return f"(It {_region(found)}.{why})"


def _region(found: Found) -> str:
    """The region in which it holds, as plain text: `holds from 1.68 to 2.38`."""
    if found.slots[0].weighed.holds is None:
        return "holds nowhere here"
    of = {"all": "", "most": " for most", "none": " for none"}[found.slots[0].slot.of]
    return f"holds{of} {span(found.slots[0].slot, *found.slots[0].weighed.holds)}"


def _baseline(quantity: Quantity) -> str:
    """What a ratio of times is to, if it is the same for all cases."""
    if quantity.operation != "ratio" or quantity.scales or quantity.quantity != "time":
        return ""
    names = {_side(case[1][0], case[0][0]) for case in quantity.cases}
    return names.pop() if len(names) == 1 else ""


def _ends(quantity: Quantity) -> tuple[Operand, Operand]:
    """The two sides of the first case of a quantity."""
    case = quantity.cases[0]
    return case[0][0], case[-1][0]


def _side(one: Operand, other: Operand) -> str:
    """What one side of a comparison is called: its variant, or what it differs from the other in."""
    if one.variant != other.variant or one == other:
        return one.variant
    return one.parameter if one.bench == other.bench else one.bench.rpartition("/")[2]


def _name(weighed: Weighed, among: Sequence[Weighed]) -> str:
    """What tells a case from the others: its first side, and bench, baseline and parameter if they differ."""
    ends = [(one.case[0][0], one.case[-1][0]) for one in among]
    sides = {(_side(one, other), _side(other, one)) for one, other in ends}
    first, last = weighed.case[0][0], weighed.case[-1][0]
    name = _side(first, last)
    if len({other for _, other in sides}) > 1 and first != last:
        name += f" / {_side(last, first)}"
    if first.variant == last.variant and len({one.variant for one, _ in ends}) > 1:
        name = first.variant if len(sides) == 1 or first == last else f"{first.variant}, {name}"
    by_bench = len({one.bench for one, _ in ends}) > 1 and not first.bench.startswith(first.variant)
    bench = first.bench if by_bench and (first.variant != last.variant or first == last) else ""
    parameter = first.parameter if len({one.parameter for one, _ in ends}) > 1 else ""
    return " ".join(filter(None, (bench, name if len(sides) > 1 or not bench else "", parameter)))
