"""Which published claims hold in a run.

A claim is a statement of another author (`statistics/statement.py`). The comparison that the document made
and, where it is confounded, the clean one are weighed alike and apart.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from async_cost import words
from async_cost.literature.claims import Claim, Comparison, load_claims
from async_cost.runs.judged import claims_of_today, seen_by
from async_cost.runs.run import Run
from async_cost.statistics.effects import effect
from async_cost.statistics.measured import Measured
from async_cost.statistics.statement import Assessment, Outcome, assess

#: Claims that are named; of more, only the number.
NAMED = 3
#: What is said of one claim with an outcome, and of several.
SAID = {
    Outcome.HOLDS: ("holds", "hold"),
    Outcome.DOES_NOT_HOLD: ("does not", "do not"),
    Outcome.UNDECIDED: ("undecided", "undecided"),
    Outcome.NOT_MEASURABLE: ("needs more processors", "need more processors"),
    Outcome.NOT_MEASURED: ("not measured", "not measured"),
}


@dataclass(frozen=True)
class ClaimResult:
    """What a run says about one claim: by what the document compared, or by its counterpart here, by the clean
    comparison and by ours, None where there is none.
    """

    claim: Claim
    published: Assessment
    clean: Assessment | None
    ours: Assessment | None


def outcomes(run: Run, claims: Sequence[Claim] | None = None) -> list[ClaimResult]:
    """Judge each of `claims` (by default all of them) on `run`, in their order, without numbers that are no claims."""
    claims = load_claims() if claims is None else claims
    measured = cache(partial(Measured, run))

    def weighed(claim: Claim, comparison: Comparison) -> Assessment:
        cases = claim.cases(comparison)
        effects = [effect(claim, case, measured) for case in cases]
        return assess(claim, cases, effects, run)[0]

    def others(claim: Claim) -> Iterator[Assessment | None]:
        for comparison in (Comparison.CLEAN, Comparison.OURS):
            yield weighed(claim, comparison) if claim.cases(comparison) else None

    return [ClaimResult(claim, weighed(claim, claim.faithful), *others(claim)) for claim in claims if claim.is_claim]


def validity_sentence(run: Run) -> str:
    """Say in Markdown whether the definitions of the claims are those that `run` recorded when it began."""
    tested, hashes = seen_by(run, "claims"), claims_of_today()
    changed = [id for id, hash in hashes.items() if hash not in tested]
    if len(changed) == len(hashes):
        return "This run is no test of them: their regions may have been written after it was seen."
    if changed:
        few = f": {words.listing(changed)}" if len(changed) <= NAMED else ""
        number = f"{len(changed)} of the {words.counted(len(hashes), 'row')} of claims.csv"
        return f"This run is no test of {number}, written or changed since{few}."
    return "This run was made for the claims as they are: their regions were written before it."


def score(counts: Mapping[Outcome, int], confounded: int = 0, *, brief: bool = False) -> str:
    """Say how many of all claims hold, and why the others do not: `46 of 82 claims hold, 5 do not, 9 undecided`;
    `brief` says of these only which were not measured or need more processors. Of those that hold, so many are
    `confounded`.
    """
    hold = counts[Outcome.HOLDS]
    parts = [f"{hold} of {sum(counts.values())} {'' if brief else 'claims '}{SAID[Outcome.HOLDS][hold != 1]}"]
    parts += [f"{confounded} {'' if brief else 'of them '}confounded"] if confounded else []
    others = (
        [Outcome.NOT_MEASURED, Outcome.NOT_MEASURABLE]
        if brief
        else [word for word in SAID if word is not Outcome.HOLDS]
    )
    return ", ".join(parts + [f"{counts[word]} {SAID[word][counts[word] != 1]}" for word in others if counts[word]])
