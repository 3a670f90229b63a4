"""The published claims with what a run says of them, as a frame: one row a claim; and what may be quoted."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import polars as pl

from async_cost import words
from async_cost.findings.committed import machines
from async_cost.findings.definitions import committed
from async_cost.literature.claims import NO_CLAIM, Claim, load_claims
from async_cost.literature.replication import ClaimResult, outcomes, score
from async_cost.report import figures
from async_cost.runs.judged import claims_of_today
from async_cost.runs.run import Run
from async_cost.statistics.statement import OUTCOMES, Assessment, Outcome, departure, region, together

#: What of a claim is shown as it is in the table of claims.
COPIED = ("study", "basis", "statement", "confound", "same_as", "changed", "processors", "published_processors")
#: What claims are about, as a sentence names it.
KINDS = FASTER, SIZE, COUNTS = "which is faster", "by how much", "counts"
#: What to do with claims of some kinds, and with all of a document.
QUOTE, CHECK, DO_NOT = "quote {}", "check {}", "do not quote {}"
ADVICE = {QUOTE: "quote all", CHECK: "check each claim", DO_NOT: "do not quote any"}
#: So many of all claims of a kind must hold for others of that kind to be quoted unseen.
RELIABLE = 0.75
#: What the source of a claim says of its document.
SOURCE = re.compile(r"(?P<address>\S+/(?P<document>\S+)) .*(?:at|from) (?P<commit>[0-9a-f]+) \((?P<year>\d+)")


def claims(run: Run) -> pl.DataFrame:
    """Return what `run` says of each claim, those that do not hold first; at the end, numbers that are no claim.

    kind is one of KINDS, link and year are those of the document as it was read. published and here are the document's
    figure and the measured effect with its interval as text, in the unit of the claim; published_value and effect the
    same as numbers. region says where the claim holds and why for what reason. clean and clean_outcome are here and
    outcome by the comparison that differs in nothing else, where the document's is confounded; ours and ours_outcome by
    that with something of ours. processors are how many a machine needs, published_processors how many the document's
    had for it. same_as is the claim with which it is counted, changed when and why its region, operands or processors
    changed. note is what its own document has against it, and what else there is to say of its outcome.
    """
    everything = load_claims()
    judged = sorted(outcomes(run, everything), key=lambda judgement: OUTCOMES.index(judgement.published.outcome))
    no_claims = [_of_claim(claim) | {"outcome": NO_CLAIM} for claim in everything if not claim.is_claim]
    return pl.DataFrame([*map(_row, judged), *no_claims], infer_schema_length=None)


def counted(claims: pl.DataFrame) -> pl.DataFrame:
    """Return claims as they are counted: of those that say the same of one comparison all must hold, and the one that
    fares worst stands for them. confounded is whether it does not hold where nothing else differs.
    """
    group = pl.coalesce("same_as", "claim")
    every = pl.col("outcome").implode().map_elements(lambda values: together(map(Outcome, values)).value, pl.String)
    clean = pl.col("clean_outcome").eq(Outcome.DOES_NOT_HOLD).any()
    worst = pl.col("outcome").replace_strict({word: at for at, word in enumerate(OUTCOMES)}).arg_min()
    rows = claims.with_columns(confounded=clean.over(group), together=every.over(group))
    return rows.filter(pl.int_range(pl.len()).eq(worst).over(group)).with_columns(outcome="together")


def advice(claims: pl.DataFrame, *, numbers: bool = True) -> str:
    """Return which kinds of claims may be quoted: one of which `RELIABLE` of all claims hold here, whatever the others
    lack. One of which more do not hold than hold should not be, and of any other each has to be checked.
    """
    rows, advised = counted(claims), dict[str, list[str]]({advice: [] for advice in ADVICE})
    kinds = [kind for kind in KINDS if kind in rows["kind"]]
    for kind in kinds:
        outcomes = rows.filter(kind=kind)["outcome"].to_list()
        quoted = outcomes.count(Outcome.HOLDS) >= RELIABLE * len(outcomes)
        mostly_wrong = outcomes.count(Outcome.DOES_NOT_HOLD) > outcomes.count(Outcome.HOLDS)
        advised[QUOTE if quoted else DO_NOT if mostly_wrong else CHECK].append(kind)
    parts = []
    for advice, named in advised.items():
        every = named == kinds and len(kinds) > 1
        score = f" ({_score(rows.filter(pl.col('kind').is_in(named)), brief=True)})" if numbers else ""
        parts += [f"{ADVICE[advice] if every else advice.format(words.listing(named))}{score}"] if named else []
    return "; ".join(parts)


def in_numbers(claims: pl.DataFrame, elsewhere: Mapping[str, Mapping[str, str]]) -> str:
    """Return how many claims of each kind hold; `elsewhere` are the outcomes of each claim on other machines."""
    rows, kinds = counted(claims), [kind for kind in KINDS if kind in claims["kind"]]
    own = ". ".join(f"{kind.capitalize()}: {_score(rows.filter(kind=kind))}" for kind in kinds)
    others = ""
    for name, known in elsewhere.items():
        if known.keys().isdisjoint(claims["claim"]):
            continue
        there = counted(claims.with_columns(outcome=pl.col("claim").replace_strict(known, default="not measured")))
        counts = Counter(there.select("outcome", "kind").rows())
        hold, fail = (
            words.listing(str(counts[word, kind]) for kind in kinds) for word in (Outcome.HOLDS, Outcome.DOES_NOT_HOLD)
        )
        others += f" {name}: {hold} hold; {fail} do not."
    return f"**{own}.**{others}"


def elsewhere(run: Run) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield what the committed machines of another series say of each claim, if it was judged as it is."""
    hashes = {(id, ""): hash for id, hash in claims_of_today().items()}
    own = {sitting.info.run_id for sitting in run.sittings}
    for machine in (machine for machine in machines() if own.isdisjoint(machine.series)):
        if known := committed("claim", machine.series, hashes):
            yield machine.name, {id: row["outcome"] for (id, _), row in known.items()}


def cited(claims: pl.DataFrame) -> str:
    """Return the document of claims, linked, with its year."""
    name, link, year = claims.select("document", "link", "year").row(0)
    return f"[{words.escape(name)}]({link}), {year}"


def _score(rows: pl.DataFrame, *, brief: bool = False) -> str:
    confounded = rows.filter("confounded", outcome=Outcome.HOLDS).height
    return score(Counter(map(Outcome, rows["outcome"])), confounded, brief=brief)


def _of_claim(claim: Claim) -> dict[str, object]:
    source = next(SOURCE.finditer(claim.source))
    kind = FASTER if claim.relation in ("greater", "less") else SIZE
    return {
        "claim": claim.id,
        "document": source["document"],
        "year": source["year"],
        "link": f"https://github.com/{source['address']}/tree/{source['commit']}",
        "kind": COUNTS if claim.quantity == "count" else kind,
        "why": claim.reason,
        **{name: getattr(claim, name) for name in COPIED},
    }


def _row(judgement: ClaimResult) -> dict[str, object]:
    claim, weighed, clean, ours = judgement.claim, judgement.published, judgement.clean, judgement.ours
    figure, against = claim.published_value, departure(claim, weighed) or weighed.reason or weighed.to_decide
    return _of_claim(claim) | {
        "published": None if figure is None else figures.value(claim, figure, figure, figure),
        "here": _here(claim, weighed),
        "outcome": weighed.outcome.value,
        "region": figures.span(claim, *region(claim)),
        "clean": clean and _here(claim, clean),
        "clean_outcome": clean and clean.outcome.value,
        "ours": ours and _here(claim, ours),
        "ours_outcome": ours and ours.outcome.value,
        "note": "; ".join(filter(None, (claim.own_figure, against))) or None,
        "published_value": figure,
        "effect": weighed.effect,
        "in_ratios": claim.in_ratios and claim.quantity != "count",
    }


def _here(claim: Claim, weighed: Assessment) -> str | None:
    if weighed.effect is None or weighed.low is None or weighed.high is None:
        return None
    return figures.value(claim, weighed.effect, weighed.low, weighed.high)
