"""A finding as a reader sees it: a mark, the author's sentence, the values of this run; what follows from it, folded
where it does not hold.

✓ holds, ✗ does not hold and how it departs, ? not decided and what would decide it, · not judged, because the run or
the group is no evidence, or nothing was measured.
"""

import math
from collections.abc import Iterator
from html import escape

from async_cost import words
from async_cost.findings.finding import Found, departure
from async_cost.findings.operands import Quantity
from async_cost.report import markup
from async_cost.runs.comparisons import address
from async_cost.statistics.effects import NANOSECONDS, Effect, Measure
from async_cost.statistics.statement import Outcome, Weighed

MARKS = {Outcome.HOLDS: "✓", Outcome.DOES_NOT_HOLD: "✗", Outcome.UNDECIDED: "?"}
#: The mark of what is not judged.
UNJUDGED = "·"
TIMES = "\N{MULTIPLICATION SIGN}"


def mark(found: Found) -> str:
    """Its mark."""
    return UNJUDGED if found.weighed.doubted else MARKS.get(found.outcome, UNJUDGED)


def anchor(found: Found) -> str:
    """The name of its place on a page."""
    return f"finding-{found.finding.id}"


def markdown(found: Found) -> str:
    """The finding where there is no style: mark, sentence, values; then what follows from it if it holds."""
    sentence = f"{mark(found)} **{words.escape(found.finding.statement)}**"
    text = " ".join([sentence, *filter(None, [values(found), remark(found)])])
    follows = found.finding.because
    if not follows or found.outcome is Outcome.DOES_NOT_HOLD:
        return text
    return f"{text}\n\n{follows}"


def html(found: Found) -> str:
    """The finding as a part of a page that can be linked to; what its region is can be pointed at."""
    one, word = found.finding, "not-judged" if mark(found) == UNJUDGED else found.outcome.value.replace(" ", "-")
    follows = markup.safe_output_markdown(one.because) if one.because else ""
    if follows and found.outcome is Outcome.DOES_NOT_HOLD:
        follows = f"<details><summary>What would follow if it held</summary>{follows}</details>"
    told = markup.inline(" ".join(filter(None, [values(found), remark(found)])))
    return (
        f'<div class="finding {word}" id="{escape(anchor(found))}">\n'
        f'<p><span class="mark" title="{escape(found.outcome.value)}">{mark(found)}</span> '
        f'<b>{escape(one.statement)}</b> <span class="values" title="{escape(region(found))}">{told}</span></p>\n'
        f"{follows}</div>"
    )


def values(found: Found) -> str:
    """The number of the finding with its interval and the further ones, in Markdown: `55 ns [54, 56] more a request`.
    Of several cases, the smallest and the largest.
    """
    return "; ".join(_all_values(found))


def _all_values(found: Found) -> Iterator[str]:
    one = found.finding
    measured = [weighed for weighed in found.each if weighed.effect is not None]
    if len(measured) > 1:
        ends = [min(measured, key=lambda each: each.effect), max(measured, key=lambda each: each.effect)]
        apart = len({weighed.case[0][0].parameter for weighed in measured}) > 1
        least, most = (f"{_of(one.main, end)} ({words.code(_name(end, apart))})" for end in ends)
        same = ends[0].effect == ends[1].effect
        yield (
            f"{_of(one.main, ends[0])}, {len(measured)} compared"
            if same
            else f"{least} to {most}, {len(measured)} compared"
        )
    elif measured:
        yield _of(one.main, measured[0])
    for quantity, effect in zip(one.show, found.shown, strict=True):
        if effect.value is not None:
            yield value(quantity, effect.value, effect.low, effect.high, _address(effect)) + _noun(quantity)


def remark(found: Found) -> str:
    """Why it does not hold, is not decided or not judged, in Markdown; nothing where it holds."""
    weighed = found.weighed
    if weighed.effect is None:
        return f"*Not measured:* {weighed.reason}."
    match found.outcome:
        case _ if weighed.doubted:
            return f"*Not judged:* {weighed.reason}."
        case Outcome.DOES_NOT_HOLD:
            return f"*Does not hold here:* {departure(found.finding, weighed)}."
        case Outcome.UNDECIDED:
            close = weighed.closing.text if weighed.closing else weighed.reason
            return f"*Not decided:* the interval crosses the border ({region(found)})." + (
                f" To decide it: {close}." if close else ""
            )
        case Outcome.NOT_MEASURABLE:
            return f"*Not measurable here:* {weighed.reason}."
    return ""


def region(found: Found) -> str:
    """The region in which it holds, as plain text: `holds from 1.68 to 2.38`."""
    one = found.finding
    if found.weighed.holds is None:
        return "holds nowhere here"
    least, most = found.weighed.holds
    of = {"all": "", "most": " for most", "none": " for none"}[one.of]
    ends = [
        _plain(one, end) if math.isfinite(end) and not (one.in_ratios and end == 0) else None for end in (least, most)
    ]
    if ends[0] is None:
        return f"holds{of} up to {ends[1]}"
    if ends[1] is None:
        return f"holds{of} from {ends[0]} on"
    return f"holds{of} at {ends[0]}" if least == most else f"holds{of} from {ends[0]} to {ends[1]}"


def value(measure: Measure, number: float, low: float, high: float, where: str | None = None) -> str:
    """A number in the unit of its measure with its interval, in Markdown: `55 ns [54, 56]`, `93`.

    `where` is the address of the comparison that it is of.
    """
    exact = low == high
    if measure.in_ratios:
        if exact:
            return f"{words.number(number)}{TIMES}"
        shown, ends = words.with_ends(number, low, high, 1.0)
        return f"{words.asked(shown + TIMES, where)} {ends}"
    if measure.unit in NANOSECONDS:
        size = NANOSECONDS[measure.unit]
        return _time(*(end * size for end in (number, low, high)), where)
    if measure.quantity == "metric":
        shown, ends = words.with_ends(number, low, high, 0.0)
        return f"{words.asked(shown, where)} {ends}"
    return words.number(number) if abs(number) < 10 and number % 1 else words.whole(number)


def _time(number: float, low: float, high: float, where: str | None) -> str:
    unit, size = words.unit_of(max(map(abs, (number, low, high))))
    shown, ends = words.with_ends(number / size, low / size, high / size, 0.0)
    return f"{words.asked(f'{shown}{words.NBSP}{unit}', where)} {ends}"


def _of(quantity: Quantity, weighed: Weighed) -> str:
    where = weighed.row and address(weighed.row)
    return value(quantity, weighed.effect, weighed.low, weighed.high, where) + _noun(quantity)


def _noun(measure: Measure) -> str:
    noun = getattr(measure, "noun", "")
    return f" {noun}" if noun else ""


def _address(effect: Effect) -> str | None:
    return effect.row and address(effect.row)


def _name(weighed: Weighed, apart: bool) -> str:
    """What tells a case from the others: its variant, and the parameter if they have several (`apart`)."""
    first = weighed.case[0][0]
    return f"{first.variant} {first.parameter}".strip() if apart else first.variant


def _plain(measure: Measure, end: float) -> str:
    if measure.in_ratios:
        return f"{words.number(end)}{TIMES}"
    if measure.unit in NANOSECONDS:
        return words.time(end * NANOSECONDS[measure.unit])
    return words.number(end)
