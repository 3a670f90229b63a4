"""Which published claims hold in a run.

A claim is a statement whose author is somebody else (`statistics/statement.py`). The comparison that the document made
and, where it is confounded, the clean one are weighed alike and kept apart.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from async_cost import words
from async_cost.literature.claims import Claim, Comparison, load_claims
from async_cost.literature.published import FOREIGN
from async_cost.runs.run import Run
from async_cost.statistics.effects import Case, Values
from async_cost.statistics.statement import OUTCOMES, Outcome, Weighed, deciding, weigh


@dataclass(frozen=True)
class Judgement:
    """What a run says about one claim: by what the document compared, or by its counterpart here, and by the clean
    comparison, None where there is none.
    """

    claim: Claim
    published: Weighed
    clean: Weighed | None

    @property
    def clean_disagrees(self) -> bool:
        """Whether both comparisons were measured and have different verdicts."""
        words_of_both = {self.published.outcome, self.clean.outcome} if self.clean else set()
        return len(words_of_both) == 2 and not words_of_both & {Outcome.NOT_MEASURED, Outcome.NOT_MEASURABLE}


def outcomes(run: Run, claims: Sequence[Claim] | None = None) -> list[Judgement]:
    """What `run` says about each of `claims` (all of them by default), in their order."""
    claims = load_claims() if claims is None else claims
    studies: dict[str, Values] = {}

    def weighed(claim: Claim, comparison: Comparison) -> Weighed:
        found = []
        for case in claim.cases(comparison):
            name = case[0][0].study
            if name not in studies:
                studies[name] = Values(run, name)
            found.append(_weigh(claim, case, studies[name]))
        return deciding(found)

    return [
        Judgement(claim, weighed(claim, claim.faithful), weighed(claim, Comparison.CLEAN) if claim.clean else None)
        for claim in claims
    ]


def score(run: Run, claims: Sequence[Claim] | None = None) -> dict[Outcome, int]:
    """How many claims `run` bears out, does not bear out, leaves undecided and did not measure, by the published
    comparison.
    """
    return tally(outcomes(run, claims))


def tally(found: Iterable[Judgement]) -> dict[Outcome, int]:
    """How often each verdict was given, including those that never were."""
    counts = dict.fromkeys(OUTCOMES, 0)
    for outcome in found:
        counts[outcome.published.outcome] += 1
    return counts


#: Relations of claims that name a direction.
SIDED = ("greater", "less", "at most", "about")


def published_ratios(found: Iterable[Judgement]) -> pl.DataFrame:
    """Claims on a ratio of times or rates that were measured and have a published figure: label (the claim), ratio,
    low, high, published, word (the verdict) and sided (whether the claim names a direction).
    """
    schema = (
        {"label": pl.String}
        | dict.fromkeys(("ratio", "low", "high", "published"), pl.Float64)
        | {"word": pl.String, "sided": pl.Boolean}
    )
    rows = [
        (claim.id, one.effect, one.low, one.high, claim.published_value, one.outcome.value, claim.relation in SIDED)
        for claim, one in ((outcome.claim, outcome.published) for outcome in found)
        if claim.in_ratios and claim.quantity != "count" and one.effect is not None
    ]
    return pl.DataFrame(rows, schema=schema, orient="row").drop_nulls("published")


def told_tally(counts: Mapping[Outcome, int]) -> str:
    """How often each verdict was given: `3 hold, 9 do not and 1 is undecided`."""
    several = {Outcome.HOLDS: "hold", Outcome.DOES_NOT_HOLD: "do not hold"}
    return words.listing(
        f"{counts[word]} {word if counts[word] == 1 else several.get(word, word)}" for word in OUTCOMES if counts[word]
    )


def told(found: Sequence[Judgement]) -> str:
    """How many of one document's claims hold, and where the clean comparison has another verdict."""
    other = [words.code(one.claim.id) for one in found if one.clean_disagrees]
    more = f"; the clean comparison has another verdict on {words.listing(other)}" if other else ""
    return f"of the document's {len(found)} claims: {told_tally(tally(found))}{more}"


def told_score(counts: Mapping[Outcome, int]) -> str:
    """The score as a sentence in Markdown: `This run decides 106 of 141 published claims: …`."""
    decided = counts[Outcome.HOLDS] + counts[Outcome.DOES_NOT_HOLD]
    return (
        f"This run decides {decided} of {sum(counts.values())} published claims: **{counts[Outcome.HOLDS]} hold**, "
        f"**{counts[Outcome.DOES_NOT_HOLD]} do not**; {counts[Outcome.UNDECIDED]} {'stays' if counts[Outcome.UNDECIDED] == 1 else 'stay'} open, "
        + "".join(
            f"{counts[word]} {'is' if counts[word] == 1 else 'are'} {word}{end}"
            for word, end in ((Outcome.NOT_MEASURABLE, "; "), (Outcome.NOT_MEASURED, "."))
            if counts[word] or word is Outcome.NOT_MEASURED
        )
    )


def departure(claim: Claim, weighed: Weighed) -> str | None:
    """How an effect differs from the claim: its reverse, none that counts, smaller, larger, or another
    number.

    None unless the claim does not hold.
    """
    if weighed.outcome is not Outcome.DOES_NOT_HOLD:
        return None
    if claim.quantity == "count" or claim.relation == "between" or claim.unit == "fraction":
        return "another number"
    if claim.relation == "same":
        return "a difference that counts"
    nothing = (
        weighed.none[0] <= weighed.effect <= weighed.none[1] if claim.in_ratios else weighed.low <= 0 <= weighed.high
    )
    if nothing:
        return "no effect that counts"
    found, stated = weighed.effect, claim.published_value
    if claim.in_ratios:
        found, stated = math.log(found), math.log(stated or 1.0)
    if not stated or (found > 0) != (stated > 0):
        return "the reverse"
    return "a smaller effect" if abs(found) < abs(stated) else "a larger effect"


def _weigh(claim: Claim, case: Case, values: Values) -> Weighed:
    """The judgement on one case of a comparison."""
    if values.held and any(one.variant in FOREIGN.get(values.name, ()) for place in case for one in place):
        missing = "there is no counterpart here to a program in another language"
        return Weighed(Outcome.NOT_MEASURED, reason=missing, case=case)
    return weigh(claim, case, values)
