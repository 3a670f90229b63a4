"""What would decide a question that a run leaves open: more time for the same study, and about how much, or that no
amount of time would.

The half width of an interval shrinks with the square root of the measuring time, so the time that is needed grows with
the square of the half width over the distance to the border. What controls add to an interval does not shrink, since it
is not noise of this comparison.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from async_cost import words

#: An estimate within this part of the limit from the border counts as on it: deciding its side would take a hundred
#: times as long as detecting the limit.
NEAR = 0.1
#: Nobody measures one study for longer.
LONGEST_SECONDS = 10 * 3600


@dataclass(frozen=True)
class Closing:
    """`text` says what would decide, in plain text; `times` how many times the measuring that would take in all,
    infinite where it would not help.
    """

    text: str
    times: float


def closing(
    value: float,
    low: float,
    high: float,
    borders: Sequence[float],
    near: float,
    limit: float,
    fixed: float = 0.0,
    seconds: float | None = None,
) -> Closing:
    """What would decide on which side of `borders` a value lies if its interval crosses one of them.

    Numbers are on a scale on which errors are added: logarithms of ratios, else the value's own. `near` is the distance
    from a border within which the value counts as on it, which the text gives as a part of `limit`, a share; `fixed` is
    the half width that controls add to the interval; `seconds` is how long the study was measured, None if that is
    unknown.
    """
    borders = [border for border in borders if math.isfinite(border)]
    if min(abs(value - border) for border in borders) <= near:
        return Closing(
            f"more time does not help, as it lies within {words.exact_percent(NEAR * limit)} of the border", math.inf
        )
    times = max(_times(value, low, high, border, fixed) for border in borders)
    if math.isinf(times):
        return Closing("more time does not help, as the same code measured twice differs by as much", times)
    if seconds is None:
        return Closing(f"about {words.number(max(times, 1.1), times / 10)} times the rounds of this study", times)
    more = (times - 1) * seconds
    if more > LONGEST_SECONDS:
        return Closing(f"not within {LONGEST_SECONDS // 3600} hours of this study", times)
    return Closing(f"about {_about(more)} of this study", times)


def _times(value: float, low: float, high: float, border: float, fixed: float) -> float:
    """How many times the measuring it takes until the interval ends before `border`; 1 if it does already, infinite if
    it never will.
    """
    half, distance = (value - low if border < value else high - value), abs(border - value)
    if half <= distance:
        return 1.0
    return (half**2 - fixed**2) / (distance**2 - fixed**2) if distance > fixed else math.inf


def _about(seconds: float) -> str:
    """`7 more minutes`, `40 more minutes`, `3 more hours`: a forecast is no more precise than that."""
    minutes = max(1, math.ceil(seconds / 60))
    if minutes > 90:
        return f"{math.ceil(minutes / 60)} more hours"
    minutes = minutes if minutes < 10 else 5 * math.ceil(minutes / 5)
    return f"{minutes} more {'minute' if minutes == 1 else 'minutes'}"


def of_comparison_closing(row: dict, seconds: float | None) -> Closing | None:
    """What would decide an undecided row of the table of comparisons; None if it is decided, refused, or was not
    measured.
    """
    if row["ratio"] is None or row["doubt"] or row["verdict"] != "undecided":
        return None
    value, low, high = (math.log(row[name]) for name in ("ratio", "low", "high"))
    borders, fixed = (math.log(1 - row["limit"]), math.log(1 + row["limit"])), row["quantile"]
    near = math.log1p(NEAR * row["limit"])
    return closing(value, low, high, borders, near, row["limit"], fixed * (row["bias"] or 0.0), seconds)


def of_comparison(row: dict, seconds: float | None) -> str | None:
    """The same in words; for a refused row, why it is refused."""
    if row["ratio"] is not None and row["doubt"]:
        return f"nothing in this run: {row['doubt']}"
    found = of_comparison_closing(row, seconds)
    return found and found.text


def to_decide(comparisons: pl.DataFrame, seconds: dict[str, float | None]) -> pl.Series:
    """`of_comparison` of each row; `seconds` by study."""
    texts = [of_comparison(row, seconds[row["study"]]) for row in comparisons.iter_rows(named=True)]
    return pl.Series("to_decide", texts, pl.String)
