"""The published claims with what a run says of them, as a frame: one row a claim."""

import math
from collections.abc import Sequence

import polars as pl

from async_cost import words
from async_cost.literature.claims import NO_CLAIM, Claim, load_claims
from async_cost.literature.replication import Judgement, outcomes, tested
from async_cost.report import finding
from async_cost.runs.run import Run
from async_cost.statistics.effects import Case
from async_cost.statistics.statement import OUTCOMES, Weighed, departure, region

#: Signs between the operands of an operation.
SIGNS = {
    "ratio": ("/",),
    "difference": (words.MINUS,),
    "ratio of ratios": ("/", "over", "/"),
    "difference of differences": (words.MINUS, "against", words.MINUS),
}
TEXTS = [
    "claim",
    "document",
    "study",
    "basis",
    "statement",
    "published",
    "here",
    "outcome",
    "departure",
    "region",
    "why",
    "compared",
    "clean",
    "clean_outcome",
    "confound",
    "reason",
    "to_decide",
    "same_as",
    "changed",
]
COLUMNS = (
    dict.fromkeys(TEXTS, pl.String)
    | dict.fromkeys(("published_value", "effect", "low", "high"), pl.Float64)
    | dict.fromkeys(("processors", "published_processors"), pl.Int64)
    | dict.fromkeys(("in_ratios", "tested"), pl.Boolean)
)


def claims(run: Run) -> pl.DataFrame:
    """What `run` says of each claim, those that do not hold first, and at the end the numbers of what turned out to be
    no claim: COLUMNS.

    published and here are the document's figure and the measured effect with its interval as text, in the unit of the
    claim; published_value, effect, low and high the same as numbers. region says where the claim holds and why for what
    reason, compared what was compared (of several cases that nearest to the border), departure how an effect differs
    from a claim that does not hold. clean and clean_outcome are here and outcome by the comparison that differs in
    nothing else, where the document's is confounded. processors are how many a machine needs, published_processors how
    many the document's had for it. same_as is the claim with which it is counted, changed when and why its region,
    operands or processors changed, and tested whether they stood as they are before the run.
    """
    everything = load_claims()
    judged = sorted(outcomes(run, everything), key=lambda one: OUTCOMES.index(one.published.outcome))
    rows = [_said(one.claim) | _row(one) | {"tested": tested(run, one.claim)} for one in judged]
    rows += [_said(claim) | {"outcome": NO_CLAIM} for claim in everything if not claim.is_claim]
    return pl.DataFrame(rows, schema=COLUMNS)


def _said(claim: Claim) -> dict[str, object]:
    """What stands in the table of claims."""
    names = ("study", "basis", "statement", "confound", "same_as", "changed", "processors", "published_processors")
    document = claim.source.split(" README")[0].split(" at ")[0]
    more = {"claim": claim.id, "document": document, "why": claim.reason}
    return {name: getattr(claim, name) for name in names} | more


def _row(one: Judgement) -> dict[str, object]:
    claim, weighed = one.claim, one.published
    figure = claim.published_value
    return {
        "published": None if figure is None else _value(claim, figure, figure, figure),
        "here": _here(claim, weighed),
        "outcome": weighed.outcome.value,
        "departure": departure(claim, weighed),
        "region": _region(claim),
        "compared": None if weighed.case is None or weighed.effect is None else _compared(claim, weighed.case),
        "clean": _here(claim, one.clean) if one.clean else None,
        "clean_outcome": one.clean.outcome.value if one.clean else None,
        "reason": weighed.reason,
        "to_decide": weighed.closing.text if weighed.closing else None,
        "published_value": figure,
        "effect": weighed.effect,
        "low": weighed.low,
        "high": weighed.high,
        "in_ratios": claim.in_ratios and claim.quantity != "count",
    }


def _value(claim: Claim, number: float, low: float, high: float) -> str:
    return finding.value(claim, number, low, high)


def _here(claim: Claim, weighed: Weighed) -> str | None:
    return None if weighed.effect is None else _value(claim, weighed.effect, weighed.low, weighed.high)


def _region(claim: Claim) -> str:
    """Where the claim holds: `above 1.01`, `from 0.894 to 0.935`."""
    least, most = region(claim)
    ends = [_value(claim, end, end, end) if math.isfinite(end) else None for end in (least, most)]
    if least == most:
        return f"at {ends[0]}"
    if ends[1] is None:
        return f"from {ends[0]} on"
    return f"up to {ends[1]}" if ends[0] is None or least == 0 else f"from {ends[0]} to {ends[1]}"


def _compared(claim: Claim, case: Case) -> str:
    """What a case compares: `nonbox / manual, syscalls=off`."""
    parameters = list(dict.fromkeys(operand.parameter for place in case for operand in place))
    names = [_name([operand.variant for operand in place], place[0].bench) for place in case]
    if len(parameters) > 1:
        names = [f"{name} ({place[0].parameter})" for name, place in zip(names, case, strict=True)]
    text = names[0]
    for sign, name in zip(SIGNS.get(claim.operation, ()), names[1:], strict=False):
        text += f" {sign} {name}"
    counters = list(dict.fromkeys(operand.counter for place in case for operand in place if operand.counter))
    text = f"{words.listing(counters)} of {text}" if counters else text
    text += f", {parameters[0]}" if len(parameters) == 1 and parameters[0] else ""
    cases = len(claim.cases(claim.faithful))
    return text + (f" (nearest to the border of {cases})" if cases > 1 else "")


def _name(variants: Sequence[str], bench: str) -> str:
    """The variant, with the bench where that is no spelling of it: `nonbox`, but `TokioTp/SpawnHandle`."""
    return variants[0] if bench.startswith(variants[0]) else f"{bench}/{variants[0]}"
