"""Numbers as text: first those of a sentence, by one rounding for sentence, table and chart; then those of tables of
comparisons and claims, with their intervals, in Markdown.

How a slot is written stands behind its name: `{ratio}` and `{ratio:x}` 2.4 times, `{ratio:%}` 11 % (by how much it
differs from 1), `{ratio:of}` 55 % (of the other), `{time:+}` +86 ns. Of several cases the least and the greatest.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from async_cost import words
from async_cost.findings.record import Slot
from async_cost.statistics.effects import NANOSECONDS, Measure

#: The numbers of a comparison.
RATIO = Measure(operation="ratio", quantity="time", unit="ratio")
ADDED = Measure(operation="difference", quantity="time", unit="ns")


def nothing(slot: Slot) -> float:
    """Return the value of no effect: 1 for ratios, 0 for differences."""
    return 1.0 if slot.in_ratios else 0.0


def in_unit(slot: Slot, form: str, numbers: Sequence[float]) -> tuple[list[float], str]:
    """Return the numbers in the most readable unit of the largest, and that unit."""
    if slot.in_ratios:
        scale, less = {"%": (100, 1), "of": (100, 0)}.get(form, (1, 0))
        return [scale * (number - less) for number in numbers], "%" if form in ("%", "of") else "times"
    largest = max(map(abs, numbers))
    if slot.unit in NANOSECONDS:
        unit, size = words.unit_of(largest * NANOSECONDS[slot.unit])
        return [number * NANOSECONDS[slot.unit] / size for number in numbers], unit
    if slot.main.cases[0][0][0].counter.endswith("bytes"):
        unit, size = words.bytes_unit(largest)
        return [number / size for number in numbers], unit
    return list(numbers), ""


def text(slot: Slot, form: str, numbers: Sequence[float], *, signed: bool = False) -> str:
    """Return one number, or the least and the greatest of several: `86 ns`, `2.0 to 2.4 times`; `times` has no sign."""
    ends, unit = in_unit(slot, form, numbers)
    if form == "%" and not signed:
        ends = sorted(map(abs, ends))
    largest = max(ends, key=abs) if unit != "times" else 0.0
    exact = not unit and all(end % 1 == 0 for end in ends)  # a count
    shown = list(dict.fromkeys(words.whole(end) if exact else words.figure(end, largest) for end in ends))
    if (signed and unit != "times" and form != "of") or form == "+":
        shown = [*map(words.signed, shown)]
    return " to ".join(shown) + (f"{words.NBSP}{unit}" if unit else "")


def around(slot: Slot, form: str, low: float, high: float) -> str:
    """Return an interval that contains no effect, in place of a number: `[-45, +123] ns`."""
    ends, unit = in_unit(slot, "%" if slot.in_ratios else form, (low, high))
    least, most = (words.signed(words.figure(end, max(ends, key=abs))) for end in ends)
    return f"[{least}, {most}]{_behind(unit)}"


def interval(slot: Slot, form: str, low: float, high: float) -> str:
    """Return an interval in the unit of its number, `[84, 89]`; of an exact number `exact`."""
    if low == high:
        return "exact"
    ends, unit = in_unit(slot, form, (low, high))
    if len(slot.main.cases) > 1:  # as wide as the numbers are apart: it is rounded as they are
        return f"[{', '.join(words.figure(end, max(ends, key=abs)) for end in ends)}]{_behind(unit)}"
    ends = sorted(map(abs, ends)) if form == "%" and min(ends) * max(ends) > 0 else ends
    least, most = ends
    equal = 1.0 if unit == "times" else 0.0
    return words.with_ends((least + most) / 2, least, most, equal, digits=3)[1] + _behind(unit)


def _behind(unit: str) -> str:
    """The unit of an interval; a ratio has none."""
    return f"{words.NBSP}{unit}" if unit and unit != "times" else ""


def region(slot: Slot, form: str = "") -> str:
    """Return what is expected, as text: `50 to 150 ns`, `at most 5 µs`, `4`."""
    ends = [end for end in (slot.least, slot.most) if end is not None]
    around = ends[0] < nothing(slot) < ends[-1] or (form == "%" and ends[0] < nothing(slot))
    shown = text(slot, form, ends if ends[0] != ends[-1] else ends[:1], signed=around)
    return shown if len(ends) == 2 else f"at {'least' if slot.most is None else 'most'} {shown}"


def together(texts: Iterable[str]) -> str:
    """Return several numbers with a unit once where it is the same: `79 and 185 ns`."""
    *further, last = texts
    _, space, unit = last.rpartition(words.NBSP)
    if space and all(text.rpartition(words.NBSP)[1:] == (space, unit) for text in further):
        further = [text.removesuffix(space + unit) for text in further]
    return words.listing([*further, last])


# -- with their intervals, for tables and notes ----------------------------------------------------


def span(measure: Measure, least: float, most: float) -> str:
    """Return a region of numbers in Markdown: `from 1.68 to 2.38`, `up to 5 ns`."""
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
) -> str:
    """Return a number in the unit of its measure with its interval, in Markdown: `55 ns [54, 56]`, `93`. `where` is the
    address of the comparison that it is of.
    """
    unit, size = "", 1.0
    if measure.in_ratios:
        unit = words.TIMES
    elif measure.unit in NANOSECONDS:
        ns = NANOSECONDS[measure.unit]
        name, size = words.unit_of(max(abs(end) * ns for end in (number, low, high)))
        unit, size = f"{words.NBSP}{name}", size / ns
    elif low == high:
        return words.number(number) if abs(number) < 10 and number % 1 else words.whole(number)
    if low == high:
        return f"{words.number(number / size)}{unit}"
    shown, interval = words.with_ends(number / size, low / size, high / size, 1.0 if measure.in_ratios else 0.0)
    return f"{words.linked(shown + unit, where)} {interval}"


def numbers(row: Mapping) -> str:
    """Return the ratio of a row of the table of comparisons, and what a unit of work takes more."""
    ratio = value(RATIO, row["ratio"], row["low"], row["high"])
    return f"{ratio}; more {words.one(row['unit'] or 'iteration')}: {added(row)}"


def added(row: Mapping) -> str:
    """Return what a unit of work takes more, of a row of the table of comparisons."""
    return value(ADDED, row["added_ns"], row["added_low"], row["added_high"])
