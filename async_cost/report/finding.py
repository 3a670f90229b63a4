"""A finding as a reader sees it: a mark, the author's sentence, the values of this run; what follows from it, folded
where it does not hold.

✓ holds, ✗ does not hold and how it departs, ? undecided and what would decide it, · not judged, because the run or the
group is no evidence, a dash where nothing was measured. Only what holds is asserted.
"""

import math
from collections.abc import Mapping, Sequence
from html import escape

from async_cost import words
from async_cost.findings.finding import Found
from async_cost.findings.operands import Quantity
from async_cost.report import markup
from async_cost.runs.comparisons import address
from async_cost.statistics.effects import NANOSECONDS, Effect, Measure, Operand
from async_cost.statistics.statement import Outcome, Weighed, departure

#: How each outcome is marked, and what is said before a sentence that is not shown to be true.
MARKS = {
    Outcome.HOLDS: ("✓", ""),
    Outcome.DOES_NOT_HOLD: ("✗", "Does not hold here"),
    Outcome.UNDECIDED: ("?", "Undecided here"),
    Outcome.NOT_MEASURED: (words.NOTHING, "Not measured"),
    Outcome.NOT_MEASURABLE: (words.NOTHING, "Not measurable here"),
}
UNJUDGED = ("·", "Not judged")
#: Of a definition that other findings of the run are older than.
NEWER = "(Written after this run, which is no test of it.)"
#: The numbers of a comparison.
RATIO = Measure(operation="ratio", quantity="time", unit="ratio")
ADDED = Measure(operation="difference", quantity="time", unit="ns")


def marked(found: Found) -> tuple[str, str]:
    """Its mark, and what is said before its sentence."""
    if found.weighed.doubted:
        return UNJUDGED
    # Nothing crosses a border: what is missing leaves it open.
    missing = found.outcome is Outcome.UNDECIDED and Outcome.UNDECIDED not in {one.outcome for one in found.each}
    return MARKS[Outcome.NOT_MEASURED if missing else found.outcome]


def markdown(found: Found) -> str:
    """The finding where there is no style: mark, sentence, values; then what follows from it if it holds."""
    sign, label = marked(found)
    sentence = words.escape(found.finding.statement)
    head = f"{sign} *{label}:* {sentence}" if label else f"{sign} **{sentence}**"
    text = " ".join([head, *filter(None, [values(found), remark(found)])])
    follows = found.finding.because
    return f"{text}\n\n{follows}" if follows and found.outcome is Outcome.HOLDS else text


def html(found: Found) -> str:
    """The finding as a part of a page that can be linked to; what its region is can be pointed at."""
    one, (sign, label) = found.finding, marked(found)
    holds = found.outcome is Outcome.HOLDS and not label
    follows = markup.safe_output({"text/markdown": one.because}) if one.because else ""
    if follows and not holds:
        follows = f"<details><summary>What would follow if it held</summary>{follows}</details>"
    shown = markup.inline(" ".join(filter(None, [values(found), remark(found)])))
    sentence = f"<b>{escape(one.statement)}</b>" if holds else f"<i>{label}:</i> {escape(one.statement)}"
    name = label.lower().replace(" here", "").replace(" ", "-") or "holds"
    return (
        f'<div class="finding {name}" id="finding-{escape(one.id)}">\n'
        f'<p><span class="mark">{sign}</span> {sentence} '
        f'<span class="values" title="{escape(region(found))}">{shown}</span></p>\n'
        f"{follows}</div>"
    )


def values(found: Found) -> str:
    """The number of the finding with its interval and the further ones, in Markdown: `55 ns [54, 56] more a request`.
    Of several cases, the smallest and the largest.
    """
    one = found.finding
    measured = sorted((each for each in found.each if each.effect is not None), key=lambda each: each.effect)
    apart = (Outcome.UNDECIDED, Outcome.DOES_NOT_HOLD)
    texts = [_of(one.main, each.effect, each, each.holds if each.outcome in apart else None) for each in measured]
    if len(texts) > 1 and measured[0].effect == measured[-1].effect:
        texts = [f"{texts[0]} in all {len(texts)}"]
    elif len(texts) > 1:
        noun = f" {one.main.noun}".rstrip()
        ends = [f"{texts[at].removesuffix(noun)} ({words.code(_name(measured[at], measured))})" for at in (0, -1)]
        compared = f", {len(measured)} compared" if len(measured) > 2 else ""
        true = sum(weighed.outcome is Outcome.HOLDS for weighed in measured)
        of = f", true of {true}" if one.of == "most" else ""
        texts = [f"from {ends[0]} to {ends[1]}{noun}{compared}{of}"]
    further = zip(one.show, found.shown, strict=True)
    return "; ".join(texts + [_of(of, each.value, each) for of, each in further if each.value is not None])


def remark(found: Found) -> str:
    """Why it does not hold, is not decided, not judged or not measured, in Markdown, and whether it was written after
    the run.
    """
    return " ".join(filter(None, [_why(found), "" if found.tested else NEWER]))


def _why(found: Found) -> str:
    weighed, missing = found.weighed, [one for one in found.each if one.effect is None]
    if weighed.doubted or weighed.effect is None or found.outcome is Outcome.NOT_MEASURABLE:
        return f"({weighed.reason}.)"
    if found.outcome is Outcome.DOES_NOT_HOLD:
        return f"({departure(found.finding, weighed)}: it {region(found)}.)"
    if found.outcome is Outcome.HOLDS:
        return ""
    if missing:
        return f"({len(missing)} of {len(found.each)} were not measured: {missing[0].reason}.)"
    close = weighed.to_decide
    why = f" To decide it: {close}." if close else f" {weighed.reason}." if weighed.reason else ""
    return f"(It {region(found)}.{why})"


def region(found: Found) -> str:
    """The region in which it holds, as plain text: `holds from 1.68 to 2.38`."""
    if found.weighed.holds is None:
        return "holds nowhere here"
    of = {"all": "", "most": " for most", "none": " for none"}[found.finding.of]
    return f"holds{of} {span(found.finding, *found.weighed.holds)}"


def span(measure: Measure, least: float, most: float) -> str:
    """`from 1.68 to 2.38`, `up to 5 ns`."""
    if least == most:
        return f"at {value(measure, least, least, least)}"
    start, end = (
        value(measure, end, end, end) if math.isfinite(end) and not (measure.in_ratios and end == 0) else ""
        for end in (least, most)
    )
    if start and end:
        return f"from {start} to {end}"
    return f"from {start} on" if start else f"up to {end}" if end else "everywhere"


def value(
    measure: Measure,
    number: float,
    low: float,
    high: float,
    where: str | None = None,
    *,
    baseline: str = "",
    borders: tuple[float, float] | None = None,
) -> str:
    """A number in the unit of its measure with its interval, in Markdown: `55 ns [54, 56]`, `93`.

    `where` is the address of the comparison that it is of, `baseline` what a ratio is to. There are as many digits as
    it takes to tell the ends of the interval from `borders`.
    """
    unit, size = "", 1.0
    if measure.in_ratios:
        unit = words.TIMES + (f"{words.NBSP}{words.code(baseline)}" if baseline else "")
    elif measure.unit in NANOSECONDS:
        ns = NANOSECONDS[measure.unit]
        name, size = words.unit_of(max(abs(end) * ns for end in (number, low, high)))
        unit, size = f"{words.NBSP}{name}", size / ns
    elif low == high:
        return words.number(number) if abs(number) < 10 and number % 1 else words.whole(number)
    if low == high:
        shown = words.number(number / size)
        hidden = any(number != end and words.number(end / size) == shown for end in borders or () if math.isfinite(end))
        return f"{f'{number / size:.7g}' if hidden else shown}{unit}"
    ends = [end / size for end in borders or () if math.isfinite(end)]
    shown, interval = words.with_ends(number / size, low / size, high / size, 1.0 if measure.in_ratios else 0.0, ends)
    return f"{words.linked(shown + unit, where)} {interval}"


def numbers(row: Mapping) -> str:
    """What a row of the table of comparisons says: its ratio, and what a unit of work takes more."""
    ratio = value(RATIO, row["ratio"], row["low"], row["high"])
    return f"{ratio}; more {words.one(row['unit'] or 'iteration')}: {added(row)}"


def added(row: Mapping) -> str:
    """What a unit of work takes more, of a row of the table of comparisons."""
    return value(ADDED, row["added_ns"], row["added_low"], row["added_high"])


def _of(quantity: Quantity, number: float, found: Weighed | Effect, borders: tuple | None = None) -> str:
    where = found.row and address(found.row)
    shown = value(quantity, number, found.low, found.high, where, baseline=_baseline(quantity), borders=borders)
    return f"{shown} {quantity.noun}".rstrip()


def _baseline(quantity: Quantity) -> str:
    """What a ratio of times is to, if it is the same for all cases."""
    if quantity.operation != "ratio" or quantity.scales or quantity.quantity != "time":
        return ""
    names = {_side(case[1][0], case[0][0]) for case in quantity.cases}
    return names.pop() if len(names) == 1 else ""


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
