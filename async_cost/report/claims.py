"""The published claims with what a run says of them, as a frame: one row a claim."""

import polars as pl

from async_cost import words
from async_cost.literature.claims import NO_CLAIM, Claim, load_claims
from async_cost.literature.replication import Judgement, outcomes
from async_cost.report import numbers
from async_cost.runs.run import Run
from async_cost.statistics.effects import Case, Operand
from async_cost.statistics.statement import OUTCOMES, Weighed, departure, region

#: Signs between the operands of an operation.
SIGNS = {
    "ratio": ("/",),
    "difference": (words.MINUS,),
    "ratio of ratios": ("/", "over", "/"),
    "difference of differences": (words.MINUS, "against", words.MINUS),
}
#: What of a claim is shown as it is in the table of claims.
COPIED = (
    *("study", "basis", "relation", "quantity", "statement", "confound", "same_as", "changed"),
    *("processors", "published_processors"),
)


def claims(run: Run) -> pl.DataFrame:
    """What `run` says of each claim, those that do not hold first, and at the end the numbers of what turned out to be
    no claim.

    published and here are the document's figure and the measured effect with its interval as text, in the unit of the
    claim; published_value and effect the same as numbers. region says where the claim holds and why for what reason,
    compared what was compared (of several cases that nearest to the border), departure how an effect differs from a
    claim that does not hold. clean and clean_outcome are here and outcome by the comparison that differs in nothing
    else, where the document's is confounded; ours and ours_outcome by that with something of ours. processors are how
    many a machine needs, published_processors how many the document's had for it. same_as is the claim with which it
    is counted, quantity whether it is on times or counts, changed when and why its region, operands or processors
    changed. note is what its own document has against it, and what else there is to say of its outcome.
    """
    everything = load_claims()
    judged = sorted(outcomes(run, everything), key=lambda one: OUTCOMES.index(one.published.outcome))
    no_claims = [_of_claim(claim) | {"outcome": NO_CLAIM} for claim in everything if not claim.is_claim]
    return pl.DataFrame([*map(_row, judged), *no_claims], infer_schema_length=None)


def _of_claim(claim: Claim) -> dict[str, object]:
    document = claim.source.split(" README")[0].split(" at ")[0]
    return {
        "claim": claim.id,
        "document": document,
        "why": claim.reason,
        **{name: getattr(claim, name) for name in COPIED},
    }


def _row(one: Judgement) -> dict[str, object]:
    claim, weighed, figure = one.claim, one.published, one.claim.published_value
    departs = departure(claim, weighed)
    return _of_claim(claim) | {
        "published": None if figure is None else numbers.value(claim, figure, figure, figure),
        "here": _here(claim, weighed),
        "outcome": weighed.outcome.value,
        "departure": departs,
        "region": numbers.span(claim, *region(claim)),
        "compared": None if weighed.case is None or weighed.effect is None else _compared(claim, weighed.case),
        "clean": one.clean and _here(claim, one.clean),
        "clean_outcome": one.clean and one.clean.outcome.value,
        "ours": one.ours and _here(claim, one.ours),
        "ours_outcome": one.ours and one.ours.outcome.value,
        "reason": weighed.reason,
        "to_decide": weighed.to_decide,
        "note": "; ".join(filter(None, (claim.own_figure, departs or weighed.reason or weighed.to_decide))) or None,
        "published_value": figure,
        "effect": weighed.effect,
        "in_ratios": claim.in_ratios and claim.quantity != "count",
    }


def _here(claim: Claim, weighed: Weighed) -> str | None:
    return None if weighed.effect is None else numbers.value(claim, weighed.effect, weighed.low, weighed.high)


def _compared(claim: Claim, case: Case) -> str:
    """What a case compares: `nonbox / manual, syscalls=off`."""
    operands = [operand for place in case for operand in place]
    parameters = list(dict.fromkeys(operand.parameter for operand in operands))
    names = [_name(place[0]) + (f" ({place[0].parameter})" if len(parameters) > 1 else "") for place in case]
    signs = ("", *(f" {sign} " for sign in SIGNS.get(claim.operation, ())))
    text = "".join(f"{sign}{name}" for sign, name in zip(signs, names, strict=False))
    counters = list(dict.fromkeys(operand.counter for operand in operands if operand.counter))
    text = f"{words.listing(counters)} of {text}" if counters else text
    text += f", {parameters[0]}" if len(parameters) == 1 and parameters[0] else ""
    cases = len(claim.cases(claim.faithful))
    return text + (f" (nearest to the border of {cases})" if cases > 1 else "")


def _name(one: Operand) -> str:
    """The variant, with the bench where that is no spelling of it: `nonbox`, but `TokioTp/SpawnHandle`."""
    return one.variant if one.bench.startswith(one.variant) else f"{one.bench}/{one.variant}"
