"""Numbers with their intervals, in Markdown, as tables and notes have them."""

import math
from collections.abc import Mapping

from async_cost import words
from async_cost.statistics.effects import NANOSECONDS, Measure

#: The numbers of a comparison.
RATIO = Measure(operation="ratio", quantity="time", unit="ratio")
ADDED = Measure(operation="difference", quantity="time", unit="ns")


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
