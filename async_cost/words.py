"""Numbers as prose: units, digits, singular and plural.

Three rules. A number never shows more digits than its interval supports: rounding stops at the decimal place of the
interval's half-width, unless an interval that excludes equality would then seem to touch it. A number and its unit stay
on one line: the space between them does not break. And text from a file is data: it goes through `escape` (or `code`)
before it is shown. All functions return Markdown.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

#: Appended to the name of a variant that is measured a second time.
CONTROL = " (A/A)"
#: Digits when no interval says how many are known.
DIGITS = 3
#: More digits than these only distract a reader, however narrow the interval.
MOST_DIGITS = 4
#: What may begin or end markup. A hyphen inside a word does not, nor a colon before a space or between digits, nor do
#: quotes, commas and the like by themselves.
MARKUP = re.compile(r"(?<![^\W_])-|(?<!\d):(?=\S)|:(?=[^\s\d])|[\\`*_{}\[\]<>#+|~$&@^=]")
MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
#: Between a number and its unit. (Examples in the comments below show it as a plain space.)
NBSP = "\N{NO-BREAK SPACE}"
PERCENT = f"{NBSP}%"
#: What a table shows where nothing is known.
NOTHING = "\N{EN DASH}"
INFINITE = "\N{INFINITY}"
#: How the address of a comparison begins on a page that has a note on it.
NOTE = "note-"
#: Counts that prose writes as words.
NUMERALS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
#: Bytes in a unit, largest first.
BYTES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0))
#: Nanoseconds in a unit, largest first.
UNITS = (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0))


def escape(text: object) -> str:
    """`text` escaped so that Markdown shows it literally, tags included; characters that cannot be shown become spaces.

    Every character that Markdown or HTML could take for markup gets a backslash, which Markdown removes again. For raw
    HTML, use `html.escape` instead.
    """
    return MARKUP.sub(r"\\\g<0>", _printable(text))


def code(text: object) -> str:
    """A name from the data, as code. (Backticks, which would end the code span, become apostrophes.)"""
    return f"`{_printable(text).replace('`', chr(39))}`"


def _printable(text: object) -> str:
    return "".join(c if c.isprintable() else " " for c in str(text))


def key(row: Mapping[str, object]) -> str:
    """What a row with `variant`, `parameter` and perhaps `bench` is about: the variant, and the parameter in brackets
    if there is one.

    The bench is named if it does more than repeat the variant: `` `Spawn` in `ThreadPool` (`N=10`) ``.
    """
    bench, variant, parameter = (str(row.get(name, "")) for name in ("bench", "variant", "parameter"))
    more = f" in {code(bench)}" if bench and not bench.startswith(variant.removesuffix(CONTROL)) else ""
    return f"{code(variant)}{more}" + (f" ({code(parameter)})" if parameter else "")


def counted(count: int, noun: str) -> str:
    """`1 round`, `60 rounds`, `2 processes`, `2,308 entries`."""
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def plural(noun: str) -> str:
    """`rounds`, `processes`, `entries`."""
    if re.search("[^aeiou]y$", noun):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "z", "ch", "sh")) else f"{noun}s"


def one(noun: str) -> str:
    """`a request`, `an iteration`."""
    return f"{'an' if noun[:1] in 'aeio' else 'a'} {noun}"


def listing(items: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`; `none` for nothing."""
    *first, last = items = list(items) or ["none"]
    return f"{', '.join(first)} and {last}" if first else items[0]


def numeral(count: int) -> str:
    """A small count as a word, `three`; a larger one in digits."""
    return NUMERALS[count] if count < len(NUMERALS) else f"{count:,}"


def number(value: float) -> str:
    """`value` in three digits, with thousands separators."""
    return _fixed(value, _decimals(value, None))


def whole(value: float) -> str:
    """An exact count for a unit of work, without the fractions that come from dividing a whole run: `1,094`."""
    return _fixed(value, 0)


def exact_percent(share: float) -> str:
    """A share that is set, not measured: `1 %`, `2.5 %`."""
    return f"{100 * share:g}{PERCENT}"


def time(ns: float) -> str:
    """Nanoseconds in the most readable unit, `241 ns` or `1.1 ms`."""
    unit, size = unit_of(abs(ns))
    return f"{number(ns / size)}{NBSP}{unit}"


def short_time(ns: float) -> str:
    """Nanoseconds in two digits, or whole in their unit: `1.3 ns`, `121 ns`, `3.6 µs`, `12 µs`."""
    unit, size = unit_of(abs(ns))
    return f"{figure(ns / size)}{NBSP}{unit}"


def unit_of(ns: float) -> tuple[str, float]:
    """The most readable unit of a time, as it is rounded, and its nanoseconds."""
    return next(((unit, size) for unit, size in UNITS if float(f"{ns:.3g}") >= size), UNITS[-1])


def interval(low: float, high: float) -> str:
    """`95 % interval 0.98 to 1.02`, of a ratio."""
    places = _places((low + high) / 2, low, high, 1)
    return f"95{PERCENT} interval {_fixed(low, places)} to {_fixed(high, places)}"


def with_ends(value: float, low: float, high: float, equal: float, digits: int = 0) -> tuple[str, str]:
    """A number and its interval with the digits that this supports, at most `digits` of them (0: all): `2.12` and
    `[2.10, 2.14]`; `equal` is no effect.
    """
    places = _places(value, low, high, equal)
    if digits and math.isfinite(size := max(abs(low), abs(high))) and size:
        places = min(places, max(0, digits - 1 - math.floor(math.log10(size))))
    return _fixed(value, places), f"[{_fixed(low, places)}, {_fixed(high, places)}]"


def figure(value: float, larger: float = 0.0) -> str:
    """A number as sentences, tables and charts have it: two digits, or all of a whole number: `8.6`, `86`, `1,234`,
    `0.45`; with as many decimals as a `larger` one beside it.
    """
    size = max(abs(value), abs(larger))
    return _fixed(value, 0 if size >= 9.95 else 1 if size >= 0.95 or not size else 2)


def signed(text: str) -> str:
    """With a sign also where it is more than nothing."""
    return text if text.startswith(MINUS) or not any(digit in text for digit in "123456789") else f"+{text}"


def bytes_unit(count: float) -> tuple[str, float]:
    """The most readable unit of bytes, and how many it is."""
    return next(((unit, size) for unit, size in BYTES if abs(count) >= size), BYTES[-1])


def ends(least: str, most: str) -> str:
    """`9.6 to 256 ns`: the unit once where it is the same."""
    _, space, unit = most.rpartition(NBSP)
    return least if least == most else f"{least.removesuffix(space + unit)} to {most}"


def linked(text: str, address: str | None) -> str:
    """`text` as a link to the note on the comparison with that `address`; as it is without one."""
    return text if address is None else f"[{text}](#{NOTE}{address})"


def unlinked(markdown: str) -> str:
    """Without the links of `linked`."""
    return re.sub(rf"\[([^\]]*)\]\(#{NOTE}\w+\)", r"\1", markdown)


def plain(markdown: str) -> str:
    """The words of a computed text without emphasis, code spans, links and escapes: for alt texts, which are not
    Markdown.
    """
    return re.sub(r"\\(.)", r"\1", re.sub(r"(?<!\\)[*`]", "", unlinked(markdown)))


def bullets(sentences: Sequence[str]) -> str:
    """Sentences as a Markdown list."""
    texts = (text.strip() for text in sentences)
    return "\n".join(f"- {text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}" for text in texts)


def seconds_between(start: str, end: str) -> float:
    """Seconds between two times in the format of run.json."""
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def _places(value: float, low: float, high: float, equal: float) -> int:
    """Decimal places that the interval supports, and more if it excludes `equal` but an end would be printed as
    that.
    """
    places = _decimals(value, (high - low) / 2)
    if low <= equal <= high:
        return places
    nearest = low if low > equal else high
    while round(nearest, places) == equal:
        places += 1
    return places


def _decimals(value: float, half_width: float | None) -> int:
    """Decimal places to show; negative ones round to tens and hundreds."""
    leading = math.floor(math.log10(abs(value))) if value and math.isfinite(value) else 0
    if not half_width or not math.isfinite(half_width):
        return DIGITS - 1 - leading
    return min(-math.floor(math.log10(half_width)), MOST_DIGITS - 1 - leading)


def _fixed(value: float, places: int) -> str:
    """`value` in digits; an end that an interval does not have is infinite, and what is no number is unknown."""
    if not math.isfinite(value):
        return NOTHING if math.isnan(value) else (MINUS if value < 0 else "") + INFINITE
    rounded = round(value, places)
    text = f"{abs(rounded):,.{max(places, 0)}f}"
    negative = rounded < 0 and any(digit in text for digit in "123456789")
    return (MINUS if negative else "") + text
