"""Numbers as prose: units, digits, singular and plural, verdict sentences.

Three rules. A number never shows more digits than its interval supports: rounding stops at the decimal place of the
interval's half-width, unless an interval that excludes equality would then seem to touch it. A number and its unit stay
on one line: the space between them does not break. And text from a file is data: it goes through `escape` (or
`code`) before it is shown. All functions return Markdown.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime

import polars as pl

#: Appended to the name of a variant that is measured a second time.
CONTROL = " (A/A)"
#: From this ratio on "3.6 times the time" reads better than "260 % more time".
TIMES_FROM = 1.5
#: How far from equality an interval may reach whose middle is called the same.
WIDE = 0.05
#: Digits when no interval says how many are known.
DIGITS = 3
#: More digits than these only distract a reader, however narrow the interval.
MOST_DIGITS = 4
#: What may begin or end markup. A hyphen inside a word does not, nor do brackets, commas and the like by themselves.
MARKUP = re.compile(r"(?<![^\W_])-|[\\`*_{}\[\]<>#+!|~$&@:^=\"']")
MINUS = "\N{MINUS SIGN}"
#: Between a number and its unit. (Examples in the comments below show it as a plain space.)
NBSP = "\N{NO-BREAK SPACE}"
PERCENT = f"{NBSP}%"
#: What a table shows where nothing is known.
NOTHING = "\N{EN DASH}"
INTERVAL = f"95{PERCENT} interval"
#: The baseline of rows that are pairs, each with a baseline of its own, named by `label` as `a / b`.
SECOND = "the second of the two"
#: How the address of a comparison begins on a page that tells of it.
ASKED = "asked-"
#: Counts that prose writes as words.
NUMERALS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
#: Nanoseconds in a unit, largest first.
UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))


def escape(text: object) -> str:
    """`text` escaped so that Markdown shows it literally, tags included; characters that cannot be shown become spaces.

    Every character that Markdown or HTML could take for markup gets a backslash, which Markdown removes again. For raw
    HTML, use `html.escape` instead.
    """
    shown = "".join(c if c.isprintable() else " " for c in str(text))
    return MARKUP.sub(r"\\\g<0>", shown)


def code(text: object) -> str:
    """A name from the data, as code. (Backticks, which would end the code span, become apostrophes.)"""
    shown = "".join(c if c.isprintable() else " " for c in str(text)).replace("`", "'")
    return f"`{shown}`"


def key(row: Mapping[str, object]) -> str:
    """What a row with `variant`, `parameter` and perhaps `bench` is about: the variant, and the parameter in brackets
    if there is one.

    The bench is named if it does more than repeat the variant: `` `Spawn` in `ThreadPool` (`N=10`) ``.
    """
    bench, variant, parameter = (str(row.get(name, "")) for name in ("bench", "variant", "parameter"))
    more = f" in {code(bench)}" if bench and not bench.startswith(variant.removesuffix(CONTROL)) else ""
    return f"{code(variant)}{more}" + (f" ({code(parameter)})" if parameter else "")


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """`1 round`, `60 rounds`, `2,308 entries`."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def one(noun: str) -> str:
    """`a request`, `an iteration`."""
    return f"{'an' if noun[:1] in 'aeio' else 'a'} {noun}"


def listing(items: Iterable[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`; `none` for nothing."""
    items = list(items)
    if len(items) < 2:
        return items[0] if items else "none"
    return f"{', '.join(items[:-1])} {last} {items[-1]}"


def numeral(count: int, zero: str = NUMERALS[0]) -> str:
    """A small count as a word, `three`; a larger one in digits; `zero` for 0: "no" before a noun, "none" without
    one.
    """
    if not count:
        return zero
    return NUMERALS[count] if count < len(NUMERALS) else f"{count:,}"


def verb(count: int, one: str, many: str) -> str:
    """The form of a verb that goes with `none`, `one` and larger numerals."""
    return many if count > 1 else one


def number(value: float, half_width: float | None = None) -> str:
    """`value` with as many digits as an uncertainty of +-`half_width` allows, with thousands separators."""
    return _fixed(value, _decimals(value, half_width))


def whole(value: float) -> str:
    """An exact count for a unit of work, without the fractions that come from dividing a whole run: `1,094`."""
    return f"{value:,.0f}".replace("-", MINUS)


def percent(share: float, half_width: float | None = None) -> str:
    """A share of 1 as `12 %`."""
    return number(100 * share, None if half_width is None else 100 * half_width) + PERCENT


def exact_percent(share: float, places: int | None = None) -> str:
    """A share that is set, not measured: `1 %`, `2.5 %`; or a share of counted cases, to `places` decimals."""
    return f"{100 * share if places is None else round(100 * share, places):g}{PERCENT}"


def time(ns: float, low: float | None = None, high: float | None = None) -> str:
    """Nanoseconds in the most readable unit, `241 ns` or `1.1 ms`."""
    unit, size = unit_of(max(abs(ns), abs(low or 0), abs(high or 0)) if low is not None else abs(ns))
    if low is None or high is None:
        return f"{number(ns / size)}{NBSP}{unit}"
    return f"{_fixed(ns / size, _places(ns / size, low / size, high / size, 0))}{NBSP}{unit}"


def time_with_interval(ns: float, low: float, high: float) -> str:
    """`258 ns (95 % interval 251 to 266 ns)`."""
    unit, size = unit_of(max(abs(ns), abs(low), abs(high)))
    scaled = ns / size, low / size, high / size
    values = [_fixed(value, _places(*scaled, 0)) for value in scaled]
    return f"{values[0]}{NBSP}{unit} ({INTERVAL} {values[1]} to {values[2]}{NBSP}{unit})"


def ratio(value: float, low: float | None = None, high: float | None = None, what: str = "time") -> str:
    """`3.65 times the time`, `12 % more time`, `9 % less time`, `the same time`, `0.27 times the time`."""
    if not 1 / TIMES_FROM < value < TIMES_FROM:
        return f"{_fixed(value, _places(value, low, high, 1))} times the {what}"
    shown = _fixed(100 * abs(value - 1), _percent_places(value, low, high))
    if any(digit in shown for digit in "123456789"):
        return f"{shown}{PERCENT} {'more' if value > 1 else 'less'} {what}"
    # An estimate near equality says little where the interval is wide.
    wide = low is not None and high is not None and max(1 - low, high - 1) > WIDE
    return f"0{PERCENT} more {what}" if wide else f"the same {what}"


def interval(low: float, high: float, around: float | None = None, limit: float | None = None) -> str:
    """`95 % interval 3.58 to 3.70 times`, or in per cent near 1: `95 % interval 0.4 % less to 1.2 % more`.

    If the sentence is about a distance of `limit` from 1, there is one more digit, and as many as it takes to show that
    an end lies beyond it.
    """
    middle = (low + high) / 2 if around is None else around
    if not 1 / TIMES_FROM < middle < TIMES_FROM:
        places = _places(middle, low, high, 1)
        return f"{INTERVAL} {_fixed(low, places)} to {_fixed(high, places)} times"
    places = _percent_places(middle, low, high)
    if limit is not None:
        beyond = [abs(value - 1) for value in (low, high) if abs(value - 1) > limit]
        places += 1
        while any(round(100 * distance, places) <= round(100 * limit, places) for distance in beyond):
            places += 1

    def side(value: float) -> str:
        shown = _fixed(100 * abs(value - 1), places)
        if not any(digit in shown for digit in "123456789"):
            return "equal"
        return f"{shown}{PERCENT} {'more' if value > 1 else 'less'}"

    least, most = side(low), side(high)
    return f"{INTERVAL} {'0' if least == 'equal' != most else least} to {most}"


def ratio_with_interval(value: float, low: float, high: float, what: str = "time") -> str:
    """`3.65 times the time (95 % interval 3.58 to 3.70 times)`."""
    return f"{ratio(value, low, high, what)} ({interval(low, high, around=value)})"


def added(row: dict | None, verdict: str | None, to: str = "each request", asked: Callable[[str], str] = str) -> str:
    """`adds 258 ns (...) to each request` from a row with added_ns and its ends, added_low and added_high or low and
    high.

    The verb follows from the verdict; without one it `differs by 258 ns (...) on each request`. `asked` is applied to
    the time.
    """
    if row is None:
        return f"was not measured, so nothing is known about {to}"
    low, high = (row.get(f"added_{end}", row[end]) for end in ("low", "high"))
    shown = asked(time_with_interval(row["added_ns"], low, high))
    match verdict:
        case "slower":
            return f"adds {shown} to {to}"
        case "faster":
            turned = asked(time_with_interval(-row["added_ns"], -high, -low))
            return f"saves {turned} on {to}"
        case "same":
            return f"changes {to} by a negligible amount, {shown}"
        case "undecided":
            return f"changes {to} by an undecided amount, {shown}"
        case _:
            return f"differs by {shown} on {to}"


def label_of(frame: pl.DataFrame) -> str:
    """The column that names the rows of a frame: `label` if there is one, else `variant`."""
    return "label" if "label" in frame.columns else "variant"


def by_verdict(frame: pl.DataFrame, other: str, label: str | None = None, show: Callable[[object], str] = code) -> str:
    """Sentences that sort all rows of a frame with verdict by it, named by `label` (`label_of`): `Slower than x: a and
    b. The same as x: c.`

    Without verdicts, they only give the range of its ratios (ratio, low, high).
    """
    label = label or label_of(frame)
    if frame.is_empty():
        return f"Nothing was measured against {other}."
    if frame["verdict"].null_count():
        return _reach(frame, label, show)
    heads = {
        "slower": f"**Slower** than {other}",
        "faster": f"**Faster** than {other}",
        "same": f"**The same** as {other}",
        "undecided": "**Undecided**",
    }
    groups = {word: frame.filter(pl.col("verdict") == word)[label].to_list() for word in heads}
    return " ".join(f"{heads[word]}: {listing(map(show, names))}." for word, names in groups.items() if names)


def _reach(frame: pl.DataFrame, label: str, show: Callable[[object], str]) -> str:
    """The smallest and the largest ratio of a frame."""
    ends = [frame.sort("ratio").row(place, named=True) for place in (0, -1)]
    least, most = (f"{bare_ratio(row['ratio'], row['low'], row['high'])} ({show(row[label])})" for row in ends)
    if frame.height == 1:
        return f"The ratio is {least}."
    return f"The smallest of these {frame.height} ratios is {least}, the largest {most}."


def bare_ratio(value: float, low: float, high: float) -> str:
    """`3.65`: a ratio as charts and tables show it."""
    return _fixed(value, _places(value, low, high, 1))


def with_ends(value: float, low: float, high: float, equal: float, borders: Iterable[float] = ()) -> tuple[str, str]:
    """A number and its interval with the digits that this supports: `2.12` and `[2.10, 2.14]`; `equal` is no effect. At
    most two more tell an end from one of the `borders`.
    """
    places = _places(value, low, high, equal)
    for border in borders:
        for end in (low, high):
            places += sum(round(end, more) == round(border, more) != end for more in (places, places + 1))
    return _fixed(value, places), f"[{_fixed(low, places)}, {_fixed(high, places)}]"


def plain(markdown: str) -> str:
    """The words of a computed text without emphasis, code spans, links and escapes: for alt texts, which are not
    Markdown.
    """
    return re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\)[*`]", "", unasked(markdown)))


def asked(text: str, address: str | None) -> str:
    """`text` as a link to where its number comes from, a comparison with that `address`; as it is without one."""
    return text if address is None else f"[{text}](#{ASKED}{address})"


def unasked(markdown: str) -> str:
    """Without the links of `asked`."""
    return re.sub(rf"\[([^\]]*)\]\(#{ASKED}\w+\)", r"\1", markdown)


def sentence(text: str) -> str:
    """`text` with a capital first letter and one full stop at its end."""
    text = text.strip()
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")


def bullets(sentences: Sequence[str]) -> str:
    """Sentences as a Markdown list."""
    return "\n".join(f"- {sentence(entry)}" for entry in sentences)


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `2 h 5 min`."""
    minutes = round(seconds / 60)
    if seconds < 90:
        return f"{round(seconds)}{NBSP}s"
    if minutes < 60:
        return f"{minutes}{NBSP}min"
    return f"{minutes // 60}{NBSP}h {minutes % 60}{NBSP}min"


def seconds_between(start: str, end: str) -> float:
    """Seconds between two times in the format of run.json."""
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def unit_of(ns: float) -> tuple[str, float]:
    """The most readable unit of a time, and its nanoseconds."""
    return next(((unit, size) for unit, size in UNITS if ns >= size), UNITS[-1])


def _half(low: float, high: float) -> float:
    return (high - low) / 2


def _places(value: float, low: float | None, high: float | None, equal: float) -> int:
    """Decimal places that the interval supports, and more if it excludes `equal` but an end would be printed as
    that.
    """
    if low is None or high is None:
        return _decimals(value, None)
    places = _decimals(value, _half(low, high))
    if low <= equal <= high:
        return places
    nearest = low if low > equal else high
    while round(nearest, places) == equal:
        places += 1
    return places


def _percent_places(value: float, low: float | None, high: float | None) -> int:
    """The same for a ratio that is shown as a distance from 1 in per cent."""
    if low is None or high is None:
        return _decimals(100 * (value - 1), None)
    return _places(100 * (value - 1), 100 * (low - 1), 100 * (high - 1), 0)


def _decimals(value: float, half_width: float | None) -> int:
    """Decimal places to show; negative ones round to tens and hundreds."""
    leading = 0 if value == 0 else math.floor(math.log10(abs(value)))
    if half_width is None or half_width == 0:
        return DIGITS - 1 - leading
    supported = -math.floor(math.log10(half_width))
    return min(supported, MOST_DIGITS - 1 - leading)


def _fixed(value: float, places: int) -> str:
    rounded = round(value, places)
    text = f"{abs(rounded):,.{max(places, 0)}f}"
    negative = rounded < 0 and any(digit in text for digit in "123456789")
    return (MINUS if negative else "") + text
