"""The one judge: from an interval to a word, and whether a group of comparisons may be believed at all.

Two variants are practically equivalent when their ratio lies within the limit of their group, ±1 % unless the study declares another: below
that, where the linker puts a function, or which thread wakes first, matters more than what was changed. An interval entirely above that
region says slower, entirely below faster, entirely inside same; one that reaches across a border leaves the question undecided.

A control is a key measured a second time under another name. Its true ratio is 1, so whatever the run says about it is what the run says
about nothing. When the interval of one misses 1, or reaches beyond the limit of its group, nothing is concluded from that group. The
controls of a group have intervals so wide (Bonferroni) that they hold 1 all together in 95 % of honest runs. A comparison of
two loads needs the controls of both: nothing is concluded from it either when a group in which one of its sides is compared is in doubt.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import polars as pl

from async_cost import words
from async_cost.runs.comparisons import BASE_KEY, KEY
from async_cost.statistics.interval import CONFIDENCE, enough

#: Half the width of the region of practical equivalence around 1, unless a group of comparisons declares another.
EQUIVALENCE = 0.01


class Verdict(StrEnum):
    """What a run says about a ratio of times."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    UNDECIDED = "undecided"


#: The words in the order of a legend.
VERDICTS = pl.Enum([verdict.value for verdict in Verdict])


def verdict_column(trusted: bool | pl.Expr, limit: float | pl.Expr = EQUIVALENCE) -> pl.Expr:
    """The word for each row of a frame with low and high of a ratio, null where `trusted` is false; named verdict.

    `limit` is one half-width of the region of practical equivalence for all rows, or an expression for each row's own.
    """
    low, high = pl.col("low"), pl.col("high")
    word = (
        pl.when(pl.lit(trusted).not_() if isinstance(trusted, bool) else trusted.not_())
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


def judged(comparisons: pl.DataFrame, profile: str) -> pl.DataFrame:
    """Adds bias, doubt and verdict to comparisons (pair, group, limit, control, ratio, low, high, rounds; null where they were not measured).

    `bias` is the largest share by which a control of the group was off, null without one; `doubt` says in a few words of plain text why nothing
    is concluded from the row, null where there is no reason; `verdict` is null where there is one.
    """
    reasons = {
        group: [kind for kind, _ in _reasons(rows, profile)]
        for (group,), rows in comparisons.group_by("group", maintain_order=True)
    }
    doubts = [
        "; ".join(dict.fromkeys(kind for group in groups for kind in reasons[group])) or None
        for groups in _groups_behind(comparisons)
    ]
    off = pl.when("control").then(pl.col("ratio").log().abs().exp() - 1).max().over("group")
    told = comparisons.with_columns(pl.Series("doubt", doubts, pl.String), bias=off)
    return told.with_columns(verdict_column(pl.col("doubt").is_null(), pl.col("limit")))


def _groups_behind(comparisons: pl.DataFrame) -> Iterator[list[str]]:
    """For each row its own group; for one of two loads also the groups in which its sides are compared under their own."""
    held: dict[tuple[str, ...], list[str]] = {}
    one_load = pl.col("parameter") == pl.col("baseline_parameter")
    for row in comparisons.filter(one_load).iter_rows(named=True):
        for names in (KEY, BASE_KEY):
            held.setdefault(tuple(row[name] for name in names), []).append(row["group"])
    for row in comparisons.iter_rows(named=True):
        groups = [row["group"]]
        if row["parameter"] != row["baseline_parameter"]:
            for names in (KEY, BASE_KEY):
                groups += held.get(tuple(row[name] for name in names), ())
        yield list(dict.fromkeys(groups))


@dataclass(frozen=True)
class Trust:
    """Whether a study of a run, or one group of its comparisons, is evidence, and why.

    `reasons` say why it is not (empty when trusted), sentences in Markdown. `controls` are the rows of the table that are controls. `partly` says
    that some groups of a study that is not trusted as a whole may be believed.
    """

    trusted: bool
    reasons: tuple[str, ...]
    controls: pl.DataFrame
    partly: bool = False

    @property
    def extent(self) -> bool | str:
        """What a page says of the study: true, false or "in part"."""
        return self.trusted or ("in part" if self.partly else False)

    def label(self, text: str) -> str:
        """`text`, unless the run is trusted marked as no more than what it showed: for what is said without a verdict."""
        return text if self.trusted else f"*In this run:* {text}"


def trust(comparisons: pl.DataFrame, profile: str) -> Trust:
    """The trust in judged comparisons, of a whole study or of some groups: in all of their groups or not at all."""
    why = tuple(sentence for _, sentence in _reasons(comparisons, profile))
    controls = comparisons.filter(pl.col("control"), pl.col("ratio").is_not_null()).sort(KEY)
    return Trust(not why, why, controls, bool(why) and comparisons["doubt"].is_null().any())


def _reasons(rows: pl.DataFrame, profile: str) -> Iterator[tuple[str, str]]:
    """Why nothing is concluded from these comparisons, which are all of their groups: in a few words, and as a sentence in Markdown."""
    if profile == "quick":
        yield "quick profile", "the profile is quick, which shows that everything works and is never evidence"
    controls = rows.filter("control").sort("parameter", "variant", "bench")
    least = rows["rounds"].min()
    if least is not None and not enough(least, 1 - (1 - CONFIDENCE) / max(controls.height, 1)):
        rounds = words.counted(least, "round")
        yield "too few rounds", f"no interval over {rounds} holds the truth as often as it says"
    if controls.is_empty():
        yield "no control", "the run has no A/A control"
    else:
        for group in rows.join(controls, on="group", how="anti")["group"].unique().sort():
            which = f"of group {words.code(group)}" if group else "that belong to no named group"
            yield "no control", f"the comparisons {which} have no A/A control"
    for row in controls.iter_rows(named=True):
        what = f"the A/A control {words.key(row)}"
        if row["ratio"] is None:
            yield "a control is missing", f"{what} was not measured"
        elif not row["low"] <= 1 <= row["high"]:
            interval = words.interval(row["low"], row["high"])
            yield (
                "a control differs from its twin",
                f"{what} differs from its twin, to which it is identical: {interval}",
            )
        elif max(1 - row["low"], row["high"] - 1) > row["limit"]:
            reach = words.interval(row["low"], row["high"], limit=row["limit"])
            beyond = (
                f"{what} is known no better than {reach}, which reaches beyond ±{words.exact_percent(row['limit'])}"
            )
            yield "a control is too uncertain", beyond
