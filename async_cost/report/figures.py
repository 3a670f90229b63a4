"""A number of a sentence as text: one rounding for sentence, table and chart.

How a slot is written stands behind its name: `{ratio}` and `{ratio:x}` 2.4 times, `{ratio:%}` 11 % (by how much it
differs from 1), `{ratio:of}` 55 % (of the other), `{time:+}` +86 ns. Of several cases the least and the greatest.
"""

from collections.abc import Iterable, Sequence

from async_cost import words
from async_cost.findings.record import Slot
from async_cost.statistics.effects import NANOSECONDS

NOTHING_MEASURABLE = "nothing measurable"
#: Of an interval in a sentence, whose number has two.
DIGITS = 3


def in_unit(slot: Slot, form: str, numbers: Sequence[float]) -> tuple[list[float], str]:
    """The numbers in the most readable unit of the largest, and that unit."""
    if slot.in_ratios:
        made = {"%": lambda one: 100 * (one - 1), "of": lambda one: 100 * one}.get(form, lambda one: one)
        return [made(one) for one in numbers], "%" if form in ("%", "of") else "times"
    largest = max(map(abs, numbers))
    if slot.unit in NANOSECONDS:
        unit, size = words.unit_of(largest * NANOSECONDS[slot.unit])
        return [one * NANOSECONDS[slot.unit] / size for one in numbers], unit
    if slot.main.cases[0][0][0].counter.endswith("bytes"):
        unit, size = words.bytes_unit(largest)
        return [one / size for one in numbers], unit
    return list(numbers), ""


def text(slot: Slot, form: str, numbers: Sequence[float], *, signed: bool = False) -> str:
    """One number, or the least and the greatest of several: `86 ns`, `2.0 to 2.4 times`; times as long have no sign."""
    ends, unit = in_unit(slot, form, numbers)
    if form == "%" and not signed:
        ends = [abs(one) for one in ends]
    ends = sorted(ends, key=abs) if form == "%" and not signed else ends
    largest = max(ends, key=abs) if unit != "times" else 0.0
    exact = not unit and all(one % 1 == 0 for one in ends)  # a count
    shown = list(dict.fromkeys(words.whole(one) if exact else words.figure(one, largest) for one in ends))
    if (signed and unit != "times" and form != "of") or form == "+":
        shown = [words.signed(one) for one in shown]
    return " to ".join(shown) + (f"{words.NBSP}{unit}" if unit else "")


def around(slot: Slot, form: str, low: float, high: float) -> str:
    """An interval that contains no effect, in place of a number: `[-45, +123] ns`."""
    ends, unit = in_unit(slot, "%" if slot.in_ratios else form, (low, high))
    shown = [words.signed(words.figure(end, max(ends, key=abs))) for end in ends]
    return f"[{shown[0]}, {shown[1]}]{_behind(unit)}"


def interval(slot: Slot, form: str, low: float, high: float) -> str:
    """An interval in the unit of its number: `[84, 89]`; of an exact number `exact`. That of several numbers is as wide
    as they are apart, and its ends are rounded as they are.
    """
    if low == high:
        return "exact"
    ends, unit = in_unit(slot, form, (low, high))
    if len(slot.main.cases) > 1:
        shown = [words.figure(end, max(ends, key=abs)) for end in ends]
        return f"[{shown[0]}, {shown[1]}]{_behind(unit)}"
    ends = sorted(map(abs, ends)) if form == "%" and min(ends) * max(ends) > 0 else ends
    nothing = 1.0 if unit == "times" else 0.0
    least, most = ends
    return words.with_ends((least + most) / 2, least, most, nothing, digits=DIGITS)[1] + _behind(unit)


def _behind(unit: str) -> str:
    """The unit of an interval; a ratio has none."""
    return f"{words.NBSP}{unit}" if unit and unit != "times" else ""


def region(slot: Slot, form: str = "") -> str:
    """What is expected, as text: `50 to 150 ns`, `at most 5 µs`, `4`."""
    nothing = 1.0 if slot.in_ratios else 0.0
    ends = [end for end in (slot.least, slot.most) if end is not None]
    around = ends[0] < nothing < ends[-1] or (form == "%" and ends[0] < nothing)
    shown = text(slot, form, ends if ends[0] != ends[-1] else ends[:1], signed=around)
    return shown if len(ends) == 2 else f"at {'least' if slot.most is None else 'most'} {shown}"


def together(texts: Iterable[str]) -> str:
    """`79 and 185 ns`: a unit once where it is the same."""
    texts = list(texts)
    units = {one.rpartition(words.NBSP)[2] if words.NBSP in one else "" for one in texts}
    if len(texts) > 1 and len(units) == 1 and (unit := units.pop()):
        texts = [*(one.removesuffix(f"{words.NBSP}{unit}") for one in texts[:-1]), texts[-1]]
    return words.listing(texts)
