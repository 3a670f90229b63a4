"""Claims and what became of them, as HTML that a notebook shows and a page filters.

One card for each study: how many claims have which verdict, then claim by claim, the surprising ones first; what was
not measured is folded away. Classes carry what can be filtered by (verdict, study, basis, confounded), so that the page
needs no script to be read. All text is escaped here: statements and keys are data.
"""

import math
from collections.abc import Iterable, Sequence
from html import escape

import polars as pl

from async_cost import words
from async_cost.literature.claims import Claim, Comparison
from async_cost.literature.replication import Judgement, tally, told_tally
from async_cost.statistics.effects import NANOSECONDS, Case
from async_cost.statistics.statement import OUTCOMES, Outcome, Weighed, departure

#: What a reader sees of a basis.
BASIS = {"prose": "said in prose", "figures": "shown by figures only"}
#: How an effect may depart from its claim, the most surprising first.
_SURPRISES = (
    "the reverse",
    "a difference that counts",
    "no effect that counts",
    "another number",
    "it is true of too few",
    "a smaller effect",
    "a larger effect",
    None,
)
#: Signs between the operands of an operation.
_SIGNS = {
    "ratio": ("/",),
    "difference": (words.MINUS,),
    "ratio of ratios": ("/", "over", "/"),
    "difference of differences": (words.MINUS, "against", words.MINUS),
}


def cards(outcomes: Sequence[Judgement]) -> str:
    """All claims, one card for each study in the order in which `outcomes` names them."""
    studies = dict.fromkeys(outcome.claim.study for outcome in outcomes)
    inner = "\n".join(_card(study, [one for one in outcomes if one.claim.study == study]) for study in studies)
    return f'<div class="claims">\n{inner}\n</div>'


def value(claim: Claim, number: float, low: float | None = None, high: float | None = None) -> str:
    """A number in the unit of a claim, with its interval where there is one: `0.27`, `258 ns`, `512`, as plain text."""
    exact = low is None or high is None or low == high
    if claim.unit in NANOSECONDS:
        scaled = [NANOSECONDS[claim.unit] * one for one in (number, low or 0.0, high or 0.0)]
        return words.time(scaled[0]) if exact else words.time_with_interval(*scaled)
    if claim.quantity == "count" and claim.operation == "value":
        return f"{number:,.0f}"
    if exact:
        return f"{number:.4g}"
    return f"{words.bare_ratio(number, low, high)} ({words.INTERVAL} {_ends(number, low, high)})"


def table(outcomes: Iterable[Judgement]) -> pl.DataFrame:
    """Claims with the document's figure and this run's, as texts: claim, says, published, this run, clean
    comparison.
    """
    rows = [
        (
            one.claim.id,
            one.claim.statement,
            None if one.claim.published_value is None else value(one.claim, one.claim.published_value),
            _came_out(one.claim, one.published),
            _came_out(one.claim, one.clean),
        )
        for one in outcomes
    ]
    names = ("claim", "says", "published", "this run", "clean comparison")
    return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")


def _came_out(claim: Claim, weighed: Weighed | None) -> str | None:
    """The effect of a comparison and its verdict; None where there is no such comparison."""
    if weighed is None:
        return None
    if weighed.effect is None:
        return str(Outcome.NOT_MEASURED)
    return f"{value(claim, weighed.effect, weighed.low, weighed.high)}: {weighed.outcome}"


def _ends(number: float, low: float, high: float) -> str:
    """The interval with as many places as the ratio itself."""
    places = len(words.bare_ratio(number, low, high).partition(".")[2])
    return f"{low:.{places}f} to {high:.{places}f}"


def operands(claim: Claim, case: Case) -> str:
    """What a case compares, as plain text: `nonbox / manual, syscalls=off`."""
    counters = [operand.counter for place in case for operand in place if operand.counter]
    parameters = list(dict.fromkeys(operand.parameter for place in case for operand in place))
    names = [_name([operand.variant for operand in place], place[0].bench) for place in case]
    if len(parameters) > 1:
        names = [f"{name} ({place[0].parameter})" for name, place in zip(names, case, strict=True)]
    text = names[0]
    for sign, name in zip(_SIGNS.get(claim.operation, ()), names[1:], strict=False):
        text += f" {sign} {name}"
    if len(parameters) == 1 and parameters[0]:
        text += f", {parameters[0]}"
    if counters:
        text = f"{words.listing(dict.fromkeys(counters))} of {text}"
    if added := case[0][0].plus_ns:
        text += f", with {words.time(added)} added on paper to both"
    return text


def _name(variants: list[str], bench: str) -> str:
    """The variant, with the bench where that is no spelling of it: `nonbox`, but `TokioTp/SpawnHandle`."""
    variant = variants[0]
    return variant if bench.startswith(variant) else f"{bench}/{variant}"


def _card(study: str, outcomes: list[Judgement]) -> str:
    counts = tally(outcomes)
    shown = sorted(
        (one for one in outcomes if one.published.outcome is not Outcome.NOT_MEASURED),
        key=lambda one: (OUTCOMES.index(one.published.outcome), _SURPRISES.index(departure(one.claim, one.published))),
    )
    rest = [one for one in outcomes if one.published.outcome is Outcome.NOT_MEASURED]
    told = told_tally(counts)
    parts = [
        f'<h3 id="claims-{escape(study)}">{escape(study)}</h3>',
        f"<p>{words.counted(len(outcomes), 'claim')} of {escape(_sources(outcomes))}: {told}.</p>",
        *map(_claim, shown),
    ]
    if rest:
        folded = "\n".join(map(_claim, rest))
        summary = f"{words.counted(len(rest), 'claim')} not measured"
        parts.append(f'<details class="rest">\n<summary>{summary}</summary>\n{folded}\n</details>')
    return '<div class="study">\n' + "\n".join(parts) + "\n</div>"


def _sources(outcomes: Iterable[Judgement]) -> str:
    return words.listing(dict.fromkeys(outcome.claim.source for outcome in outcomes))


def _claim(outcome: Judgement) -> str:
    claim, faithful = outcome.claim, outcome.published
    classes = ["claim", _class(faithful.outcome), f"of-{claim.study}", claim.basis]
    if claim.confound:
        classes.append("confounded")
    rows = [("published", _published(outcome))]
    if faithful.holds and faithful.holds[0] != faithful.holds[1]:
        rows.append(("holds", f"{border(claim, faithful.holds)}: {words.plain(claim.reason)}"))
    rows += _measured("counterpart in this run" if claim.counterpart else "this run", outcome, claim.faithful)
    if claim.confound:
        rows.append(("confounded", words.sentence(words.plain(claim.confound))))
    if outcome.clean:
        rows += _measured("clean comparison", outcome, Comparison.CLEAN)
    lines = "\n".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in rows)
    return (
        f'<div class="{escape(" ".join(classes))}" id="claim-{escape(claim.id)}">\n'
        f'<p><b>{escape(claim.id)}</b> <span class="word">{faithful.outcome}</span> {escape(claim.statement)}</p>\n'
        f"<dl>\n{lines}\n</dl>\n</div>"
    )


def _published(outcome: Judgement) -> str:
    claim = outcome.claim
    figure = "no figure" if claim.published_value is None else value(claim, claim.published_value)
    own = f"; its own figure does not bear it out: {words.plain(claim.own_figure)}" if claim.own_figure else ""
    return f"{figure}, {BASIS[claim.basis]}{own}"


def border(claim: Claim, holds: tuple[float, float]) -> str:
    """The region in which a claim holds, as plain text: `above 1.01`, `from 0.894 to 0.935`."""
    least, most = (value(claim, end) if math.isfinite(end) else None for end in holds)
    if most is None:
        return f"above {least}"
    if least is None or holds[0] == 0:
        return f"below {most}"
    return f"from {least} to {most}"


def _measured(name: str, outcome: Judgement, comparison: Comparison) -> list[tuple[str, str]]:
    """The row of a comparison: what came out, and of what."""
    claim = outcome.claim
    weighed = outcome.clean if comparison is Comparison.CLEAN else outcome.published
    if weighed.effect is None:
        return [(name, words.sentence(words.plain(f"not measured: {weighed.reason}")))]
    text = value(claim, weighed.effect, weighed.low, weighed.high)
    if how := departure(claim, weighed):
        text += f", {how}"
    elif weighed.outcome is Outcome.HOLDS and claim.is_direction and weighed.counts_for_nothing:
        text += ", by a negligible amount"
    if weighed.reason:
        text += f"; {words.plain(weighed.reason)}"
    if weighed.closing:
        text += f"; to decide it: {weighed.closing.text}"
    cases = len(claim.cases(comparison))
    which = f"nearest to the border of {words.numeral(cases)} cases, " if cases > 1 else ""
    verdict = f"{weighed.outcome}; " if comparison is Comparison.CLEAN else ""
    return [(name, f"{verdict}{which}{operands(claim, weighed.case)}: {text}")]


def _class(outcome: Outcome) -> str:
    return outcome.value.replace(" ", "-")
