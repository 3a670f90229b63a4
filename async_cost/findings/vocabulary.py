"""The words of a finding, each with the region of effects in which it is true. There are no others: a region of one's
own is `between`, with a reason.

`about` leaves a quarter of the effect on either side, on the scale of logarithms for ratios: about twice is 1.68 to
2.38, about a tenth more is 1.07 to 1.13.
"""

from dataclasses import dataclass, replace

#: The part of an effect by which it may differ from what `about` says.
ROUGHLY = 0.25


@dataclass(frozen=True)
class Word:
    """A relation with its bounds. `of` says of how many of several cases it must be true: all, most or none."""

    relation: str
    least: float | None = None
    most: float | None = None
    why: str = ""
    of: str = "all"


#: Less than the limit of the group apart; more time, or less, by at least that limit.
same, slower, faster = Word("same"), Word("slower"), Word("faster")
#: On either side of no effect: of 1 for a ratio, of 0 for a difference.
less, more = Word("less"), Word("greater")
#: Of one variant against each of the others: none of them takes less time by what counts (a comparison with the best,
#: whoever that is: Hsu 1996, Multiple Comparisons, chapter 4).
cheapest = Word("not slower")


def about(value: float) -> Word:
    """Within a quarter of the effect."""
    if value <= 0:
        raise ValueError("about() takes a ratio, or a difference above 0")
    return Word("about", value, value)


def under(value: float) -> Word:
    """At most that."""
    return Word("at most", None, value)


def over(value: float) -> Word:
    """At least that."""
    return Word("at least", value, None)


def exactly(value: float) -> Word:
    """That count."""
    return Word("equal", value, value)


def between(least: float, most: float, *, why: str) -> Word:
    """A region of one's own, with the reason for its ends."""
    if not why:
        raise ValueError("a region of one's own needs a reason")
    return Word("between", least, most, why)


def all_of(word: Word) -> Word:
    """True of each case, by intervals that hold together."""
    return replace(word, of="all")


def most_of(word: Word) -> Word:
    """True of more than half of the cases, by intervals that hold together."""
    return replace(word, of="most")


def none_of(word: Word) -> Word:
    """Shown to be untrue of each case, by intervals that hold together."""
    return replace(word, of="none")


def bounds(word: Word, in_ratios: bool) -> tuple[float | None, float | None]:
    """The ends of the region of `word`, None where there is none or where it depends on what counts as a difference."""
    nothing = 1.0 if in_ratios else 0.0
    match word.relation:
        case "less":
            return None, nothing
        case "greater":
            return nothing, None
        case "about":
            value, parts = word.least or 0.0, (1 - ROUGHLY, 1 + ROUGHLY)
            ends = [value**part if in_ratios else value * part for part in parts]
            return min(ends), max(ends)
    return word.least, word.most
