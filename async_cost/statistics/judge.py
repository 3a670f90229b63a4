"""The one judge: from an interval to a word, and what the controls of a run say about all of its intervals
(docs/method.md).

A control is a key measured a second time, so that its true ratio is 1. What the controls of a kind are off beyond their
own intervals widens all intervals of that kind (one variance component, DerSimonian and Laird 1986). A control that
differs from its baseline by more than chance explains (Holm 1979, over a run) widens those of its group by all that it
may be off; of a comparison of two loads, the controls of both do. Beside one that is slower or faster by its own
interval, significantly or not, nothing is the same. Without a control nothing is concluded.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from operator import itemgetter

import polars as pl
from scipy import special

from async_cost import words
from async_cost.runs.comparisons import BASE_KEY, KEY
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.statistics.interval import CONFIDENCE, LEAST_EPISODES, widened

#: Half the width of the region of practical equivalence around 1, unless a group of comparisons declares another.
EQUIVALENCE = 0.01
#: An estimate within this part of the limit from the border counts as on it: deciding its side would take a hundred
#: times as long as detecting the limit.
NEAR = 0.1
#: Begins what would decide a comparison whose two words, or whose control and itself, contradict each other.
CONTRADICTED = "nothing: "
#: What would decide one that looks the same beside a control that does not.
CONTROL_OFF = f"{CONTRADICTED}an A/A control of its group is itself slower or faster"
#: Whether a row is a control that differs from its baseline by more than chance explains.
DIFFERS = pl.col("control") & (pl.col("chance") < 1 - CONFIDENCE).fill_null(False)
#: Why an interval over rounds decides nothing: a process counts once, and of three the spread is hardly known.
TOO_FEW = "fewer than four processes"
#: More sittings than these are not counted.
MOST_SITTINGS = 100


class Verdict(StrEnum):
    """What a run says about a ratio of times."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNDECIDED = "undecided"


#: The words in the order of a legend.
VERDICTS = pl.Enum([verdict.value for verdict in Verdict])


def verdict_column(trusted: pl.Expr, limit: float | pl.Expr = EQUIVALENCE, prefix: str = "") -> pl.Expr:
    """Return the verdict for each row of a frame with low and high of a ratio, null where not `trusted`, as `verdict`.

    Args:
        limit: half the width of the region of practical equivalence.
        prefix: begins the names of other ends than low and high.
    """
    low, high = pl.col(f"{prefix}low"), pl.col(f"{prefix}high")
    word = (
        pl.when(trusted.not_())
        .then(None)
        .when(low > 1 + limit)
        .then(pl.lit(Verdict.SLOWER.value))
        .when(high < 1 - limit)
        .then(pl.lit(Verdict.FASTER.value))
        .when((low >= 1 - limit) & (high <= 1 + limit))
        .then(pl.lit(Verdict.SAME.value))
        .when(low.is_not_null())
        .then(pl.lit(Verdict.UNDECIDED.value))
    )
    return word.cast(VERDICTS).alias("verdict")


def sittings_needed(
    value: float,
    low: float,
    high: float,
    borders: Sequence[float],
    near: float,
    fixed: float,
    offset: float,
    sittings: int,
) -> float:
    """Return how many sittings it takes, in all, until an interval that crosses one of `borders` would not; infinite if
    no number would.

    Numbers are on a scale on which errors are added. The half width shrinks with the square root of the number of
    sittings, but for what controls add: `fixed`, as squares, and `offset`. Within `near` of a border the value counts
    as on it.
    """

    def needed(border: float) -> float:
        half, distance = (value - low if border < value else high - value) - offset, abs(border - value) - offset
        if half <= distance:
            return sittings
        return sittings * (half**2 - fixed**2) / (distance**2 - fixed**2) if distance > fixed else math.inf

    borders = [border for border in borders if math.isfinite(border)]
    at_one = min(abs(value - border) for border in borders) <= near
    return math.inf if at_one else max(map(needed, borders))


def in_sittings(number: float, covers_hours: bool = True) -> str:
    """Say a number of sittings: `about 12 sittings`; a least number if the interval does not cover another hour."""
    if math.isinf(number):
        return "no number of sittings, as it lies at the border or identical code differs by as much"
    if number > MOST_SITTINGS:
        return f"more than {MOST_SITTINGS} sittings"
    return f"{'' if covers_hours else 'at least '}about {max(math.ceil(round(number, 6)), 2)} sittings"


def _to_decide(row: Mapping) -> str | None:
    """What would decide a row; why it is refused; None if it is decided or was not measured."""
    if row["ratio"] is None:
        return None
    if row["doubt"]:
        return f"nothing in this run: {row['doubt']}"
    if row["verdict"] != Verdict.UNDECIDED:
        return None
    if row["off"]:
        return CONTROL_OFF
    if row["typical"] != Verdict.UNDECIDED:
        return f"{CONTRADICTED}{row['typical']} on a typical machine, {row['undisturbed_word']} on an undisturbed one"
    value, low, high = (math.log(row[name]) for name in ("ratio", "low", "high"))
    borders, near = (math.log(1 - row["limit"]), math.log(1 + row["limit"])), math.log1p(NEAR * row["limit"])
    fixed = row["quantile"] * (row["bias"] or 0.0)
    needed = sittings_needed(value, low, high, borders, near, fixed, row["offset"], row["sittings"])
    return in_sittings(needed, row["omega2"] is not None)


def judged(comparisons: pl.DataFrame, profile: str, refused: str | None = None) -> pl.DataFrame:
    """Correct all comparisons of a run, and add bias, offset, doubt and verdict. `refused` says why nothing is
    concluded from any of them.

    Takes study, the columns of a pair, group, kind, limit, control, ratio, low, high, rounds, episodes, sittings,
    freedom, quantile, unit_ns (the time of the slower side), undisturbed, next_... and added_... with their ends,
    and chance (of a control: the p-value of its ratio being 1); null where they were not measured. `chance` becomes
    that of Holm over the controls of the run. `bias` is the standard deviation of the error that the controls of the
    kind show, on the scale of logarithms: 0 if they show none, null if there are no controls; it widens the intervals
    of everything that is not a control. `offset`, on the same scale, is how far a control that differs from its
    baseline may be off, and by how much such controls of its groups widen another interval on each side; else 0.
    `doubt` says in a few words of plain text why nothing is concluded from the row, and is null without a reason;
    `verdict` is null if there is one; `to_decide` says what would decide an undecided one.
    """
    rows = comparisons.with_columns(chance=_holm(_chances(comparisons)))
    rows = rows.join(_biases(rows), on="kind", how="left", maintain_order="left")
    groups, behind = rows.partition_by("study", "group", as_dict=True), list(_groups_behind(rows))
    why = {group: list(reasons(some.to_dicts(), profile, refused)) for group, some in groups.items()}
    doubts = ["; ".join(dict.fromkeys(reason for group in some for reason in why[group])) or None for some in behind]
    rows = rows.with_columns(pl.Series("doubt", doubts, pl.String), offset=_offsets(rows, behind))
    rows = _corrected(rows)
    trusted, limit = pl.col("doubt").is_null(), pl.col("limit")
    typical, undisturbed = verdict_column(trusted, limit), verdict_column(trusted, limit, "undisturbed_")
    within = pl.col("ratio").is_between(1 - limit, 1 + limit).fill_null(False)
    rows = rows.with_columns(
        typical=typical, undisturbed_word=undisturbed, off=within & _beside_control_off(rows, behind)
    )
    contradicted = pl.col("typical").ne(pl.col("undisturbed_word")) & pl.col("undisturbed_word").ne(
        Verdict.UNDECIDED.value
    )
    undecided = pl.lit(Verdict.UNDECIDED.value, VERDICTS)
    open_ = trusted & (contradicted.fill_null(False) | pl.col("off"))
    rows = rows.with_columns(verdict=pl.when(open_).then(undecided).otherwise("typical"))
    texts = [_to_decide(row) for row in rows.iter_rows(named=True)]
    return rows.drop("typical", "undisturbed_word", "off").with_columns(to_decide=pl.Series(texts, dtype=pl.String))


def _chances(comparisons: pl.DataFrame) -> pl.Series:
    """The chance of each control if it may also have the error that the other controls of its kind show. Without that,
    a kind whose controls are all off would lose the largest of them, one by one, and be corrected by the rest.
    """
    squared = _with_squares(comparisons).with_columns(
        surplus=pl.col("surplus").sum().over("kind") - pl.col("surplus"),
        precision=pl.col("precision").sum().over("kind") - pl.col("precision"),
    )
    others = (pl.col("surplus") / pl.col("precision")).clip(lower_bound=0.0).fill_nan(0.0).fill_null(0.0)
    far = squared.select(pl.col("ratio").log().abs() / (pl.col("error") ** 2 + others).sqrt(), others.alias("others"))
    free = squared["freedom"].fill_null(1.0).to_numpy()
    chance = 2 * special.stdtr(free, -far["ratio"].to_numpy())
    known = (far["others"] > 0) & squared["precision"].is_not_null()
    alone = squared["chance"]
    return pl.select(pl.when(known).then(pl.max_horizontal(alone, pl.Series(chance))).otherwise(alone)).to_series()


def _with_squares(comparisons: pl.DataFrame) -> pl.DataFrame:
    """The rows with, of controls, error (the standard error of the logarithm), precision (1 / error squared) and
    surplus (the square of the control's own error, in its standard errors, minus its expectation).
    """
    known = pl.col("control") & (pl.col("high") > pl.col("low"))
    error = pl.when(known).then((pl.col("high") / pl.col("low")).log() / 2 / pl.col("quantile"))
    free = pl.col("freedom")
    expected = pl.when(free > 2).then(free / (free - 2)).otherwise(1.0)
    precision = 1 / error**2
    return comparisons.with_columns(
        error=error, precision=precision, surplus=pl.col("ratio").log() ** 2 * precision - expected
    )


def _holm(chances: pl.Series) -> pl.Series:
    """The p-values of a family (null where there is none), adjusted by Holm's step-down procedure: in 95 % of
    honest families none is below 5 %."""
    frame = pl.DataFrame({"chance": chances}).with_row_index("row").sort("chance", nulls_last=True)
    left = chances.len() - chances.null_count() - pl.int_range(pl.len()).cast(pl.Float64)
    return frame.with_columns((pl.col("chance") * left).cum_max().clip(upper_bound=1.0)).sort("row")["chance"]


def _biases(comparisons: pl.DataFrame) -> pl.DataFrame:
    """The standard deviation of the error that the controls that do not differ have in common: kind, bias. The squares
    of honest errors, in their standard errors, add up to the sum of nu / (nu - 2); the rest is that variance.
    """
    controls = _with_squares(comparisons).filter("control", ~DIFFERS)
    surplus = pl.col("surplus").sum() / pl.col("precision").sum()
    return controls.drop_nulls("surplus").group_by("kind").agg(bias=surplus.clip(lower_bound=0.0).sqrt())


def _offsets(comparisons: pl.DataFrame, behind: Sequence[Sequence[tuple[str, str]]]) -> pl.Series:
    """The column offset: of a control that differs, the farther end of its interval; else the sum of the largest of
    each of the groups `behind` a row.
    """
    far = pl.max_horizontal(pl.col("low", "high").log().abs())
    own = comparisons.select("study", "group", "control", own=pl.when(DIFFERS).then(far).otherwise(0.0))
    largest = {key[:2]: key[2] for key in own.group_by("study", "group").agg(pl.col("own").max()).iter_rows()}
    sums = pl.Series([math.fsum(largest[group] for group in groups) for groups in behind], dtype=pl.Float64)
    return own.select(pl.when("control").then("own").otherwise(sums)).to_series()


def _beside_control_off(comparisons: pl.DataFrame, behind: Sequence[Sequence[tuple[str, str]]]) -> pl.Series:
    """Whether a control of the groups `behind` a row that is none is slower or faster by its own interval. Among many
    controls chance may explain it, and precise ones outweigh it in the bias of its kind; but it speaks against what
    would be the same.
    """
    word = verdict_column(pl.col("control"), pl.col("limit"))
    off = comparisons.filter(word.is_in([Verdict.SLOWER.value, Verdict.FASTER.value]))
    groups = set(off.select("study", "group").iter_rows())
    return pl.Series([not groups.isdisjoint(some) for some in behind], dtype=pl.Boolean) & ~comparisons["control"]


def _corrected(comparisons: pl.DataFrame) -> pl.DataFrame:
    """The intervals of all but the controls with the bias of their kind and their offset in them. They add to a time
    what they add to the ratio: the slower side moves by a factor.
    """
    more, offset = pl.col("quantile") * pl.col("bias").fill_null(0.0), pl.col("offset")
    sign, slower = pl.when(pl.col("added_ns") < 0).then(-1).otherwise(1), pl.col("unit_ns")
    added_low, added_high = widened(pl.col("added_ns"), pl.col("added_low"), pl.col("added_high"), more * slower)
    ends = {
        "added_low": added_low + slower * sign * ((-sign * offset).exp() - 1),
        "added_high": added_high + slower * sign * ((sign * offset).exp() - 1),
    }
    for prefix, value in (("", "ratio"), ("undisturbed_", "undisturbed"), ("next_", "ratio")):
        low, high = f"{prefix}low", f"{prefix}high"
        both = widened(pl.col(value).log(), pl.col(low).log(), pl.col(high).log(), more, offset)
        ends |= {low: both[0].exp(), high: both[1].exp()}
    # Without either the ends stay the same, to the last digit.
    applies = ~pl.col("control") & ((more > 0) | (offset > 0))
    return comparisons.with_columns(
        pl.when(applies).then(end).otherwise(name).alias(name) for name, end in ends.items()
    )


def _groups_behind(comparisons: pl.DataFrame) -> Iterator[list[tuple[str, str]]]:
    """For each row its study and group; for a comparison of two loads also the groups in which its sides are compared
    under their own load.
    """
    rows, groups = comparisons.rows(named=True), dict[tuple[str, ...], list[tuple[str, str]]]()
    sides = [[(row["study"], *(row[name] for name in names)) for names in (KEY, BASE_KEY)] for row in rows]
    for row, both in zip(rows, sides, strict=True):
        for side in both if row["parameter"] == row["baseline_parameter"] else ():
            groups.setdefault(side, []).append((row["study"], row["group"]))
    for row, both in zip(rows, sides, strict=True):
        loads = both if row["parameter"] != row["baseline_parameter"] else ()
        behind = [(row["study"], row["group"]), *(group for side in loads for group in groups.get(side, ()))]
        yield list(dict.fromkeys(behind))


def reasons(rows: Sequence[Mapping], profile: str, refused: str | None) -> dict[str, str]:
    """Say why nothing is concluded from the comparisons of a group: sentences in Markdown, by the same in few words."""
    why = {}
    if profile in NOT_EVIDENCE:
        why[f"{profile} profile"] = f"the profile is {profile}, which shows that everything works but is never evidence"
    elif few := [row["episodes"] for row in rows if (row["episodes"] or LEAST_EPISODES) < LEAST_EPISODES]:
        why[TOO_FEW] = f"{words.counted(min(few), 'process')} cannot tell how much another would differ"
    if refused:
        why[refused] = f"the series has {refused}"
    controls = _controls(rows)
    if not controls:
        which = f"group {words.code(rows[0]['group'])}" if rows[0]["group"] else "no named group"
        why["no control"] = f"the comparisons of {which} have no A/A control"
    for row in controls:
        if row["ratio"] is None:
            what = f"control {words.key(row)} was not measured"
            why[words.plain(what)] = f"the A/A {what}"
    return why


def differing(rows: Sequence[Mapping]) -> list[str]:
    """Say which controls of a group differ from their baselines, so that its intervals are wider (Markdown)."""
    return [
        f"the A/A control {words.key(row)} differs from its baseline, to which it is identical, by more than chance "
        f"explains: {words.interval(row['low'], row['high'])}"
        for row in _controls(rows)
        if row["offset"]
    ]


def _controls(rows: Sequence[Mapping]) -> list[Mapping]:
    return sorted((row for row in rows if row["control"]), key=itemgetter("parameter", "variant", "bench"))
