"""A number of a sentence as text: one rounding for sentence, table and chart.

How a slot is written stands behind its name: `{ratio}` and `{ratio:x}` 2.4 times, `{ratio:%}` 11 % (by how much it
differs from 1), `{ratio:of}` 55 % (of the other), `{time:+}` +86 ns. Of several cases the least and the greatest.
"""

from collections.abc import Iterable, Sequence

from async_cost import words
from async_cost.findings.record import Slot
from async_cost.statistics.effects import NANOSECONDS


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
