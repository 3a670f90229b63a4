"""The rows of data/findings.csv, how each number of a finding is defined, and of data/judged.csv, what the committed
series say of findings, claims and prices.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import cache, lru_cache
from pathlib import Path

import msgspec
import polars as pl

from async_cost.findings.committed import definitions, judged
from async_cost.findings.finding import Judge, SlotResult, slot
from async_cost.findings.latency import latencies
from async_cost.findings.prices import Place, counted, priced, quantity
from async_cost.findings.record import SHOWN, Finding, Slot
from async_cost.literature.claims import load_claims
from async_cost.literature.replication import outcomes
from async_cost.runs.comparisons import BASE_KEY, KEY, of_today
from async_cost.runs.judged import claims_of_today, definition, seen_by
from async_cost.runs.run import Run
from async_cost.statistics.effects import Case
from async_cost.statistics.measured import Key
from async_cost.statistics.statement import Assessment, Outcome, assess

#: What of a finding is judged, besides its operands and the limits of their groups.
OF_FINDING = ("operation", "quantity", "unit", "per", "share", "processors", "of", "relation", "least", "most")
#: The page of the latency numbers.
LATENCY = "latency"
#: In place of an operation, of a figure that a document reports.
PUBLISHED = "published"
#: In place of an outcome, of a group that is no evidence in that series.
NOT_JUDGED = "not judged"
#: Digits of a number in data/judged.csv: the last ones of a sum depend on the order in which threads add up.
DIGITS = 6
#: How small a difference matters where a study compares two keys.
Limits = Mapping[tuple[str, Key, Key], float]


def committed(kind: str, series: tuple[str, ...], hashes: Mapping[Place, str]) -> dict[Place, dict]:
    """Return what data/judged.csv says of findings or claims by the series of a machine, by id and slot; nothing where
    one of `hashes`, their definitions, is not what was judged. What needs a study that they lack is in no row.
    """
    rows = said_by(kind, series)
    return rows if all(hashes.get(at, row["hash"]) == row["hash"] for at, row in rows.items()) else {}


def series_of(folder: Path) -> str:
    """Return the name of the series of the run in `folder`."""
    return f"{folder.parent.name}/{folder.name}"


@cache
def said_by(kind: str, series: tuple[str, ...]) -> dict[Place, dict]:
    """Return what data/judged.csv says by the series of a machine, by id and slot: of each the newest."""
    rows = judged().filter(pl.col("series").is_in(series), kind=kind).sort("series")
    return {(row["id"], row["slot"]): row for row in rows.iter_rows(named=True)}


@lru_cache(maxsize=1)
def limits_of_today() -> Limits:
    """Return the limit of each comparison that the studies declare, in both directions."""
    limits = dict[tuple[str, Key, Key], float]()
    for study, *sides, limit in of_today().select("study", *KEY, *BASE_KEY, "limit").iter_rows():
        key, baseline = tuple(sides[:3]), tuple(sides[3:])
        limits[study, key, baseline] = limits[study, baseline, key] = limit
    return limits


def row_of(declared: Slot, limits: Limits, others: int = 0) -> dict[str, object]:
    """Return the row of a slot in data/findings.csv, without page, changed and reworded.

    Its hash covers what is judged (measure, region, limits, operands) and `others`, the number of further cases whose
    intervals hold together with its own; it does not cover names, sentences and advice.
    """
    used = sorted({limits[pair] for case in declared.main.cases for pair in _compared(case) if pair in limits})
    used = [] if declared.quantity == "count" else used
    judged = [*(getattr(declared, name) for name in OF_FINDING), used, declared.main.cases]
    judged.insert(OF_FINDING.index("share") + 1, ())  # of what was a column once, and empty: hashes stay
    judged += ([declared.main.constant] if declared.main.constant is not None else []) + ([others] if others else [])
    row: dict[str, object] = {
        "id": declared.id,
        "slot": declared.name,
        "operands": " & ".join(map(_shown, declared.main.cases)),
    }
    row |= {name: getattr(declared, name) for name in OF_FINDING}
    row |= {"operation": PUBLISHED} if declared.main.constant is not None else {}
    row |= {"limits": " ".join(f"{limit:g}" for limit in used)}
    return row | {"hash": definition(msgspec.to_builtins(judged)), "sentence": definition(declared.statement)}


def rows_of_finding(finding: Finding, limits: Limits) -> list[dict[str, object]]:
    """Return the rows of its slots."""
    cases = {slot.name: len(slot.main.cases) for slot in finding.judged}
    return [
        row_of(slot, limits, sum(cases.values()) - cases[slot.name] if slot.name in cases else 0)
        | {"page": finding.page}
        for slot in finding.slots
    ]


def hashes_of(findings: Iterable[Finding]) -> dict[Place, str]:
    """Return the hashes of the definitions of all slots, by id and slot."""
    limits = limits_of_today()
    rows = (row for finding in findings for row in rows_of_finding(finding, limits))
    return {(str(row["id"]), str(row["slot"])): str(row["hash"]) for row in rows}


def _compared(case: Case) -> Iterator[tuple[str, Key, Key]]:
    """The comparisons behind a case: of its first place with the second, and so on."""
    sides = [place[0] for place in case]
    for operand, baseline in zip(sides[::2], sides[1::2], strict=False):
        yield operand.study, operand.key, baseline.key


def _shown(case: Case) -> str:
    """Its places, `zero-cost|nonbox|nonbox|syscalls=off|`: study, key and what is counted; no name has these signs."""
    sides = [place[0] for place in case]
    return " > ".join("|".join((operand.study, *operand.key, operand.counter)) for operand in sides)


def rows_of(findings: Iterable[Finding]) -> Iterator[dict[str, object]]:
    """Return the rows of data/findings.csv. `changed` stays as it was written; `reworded` is the day on which a
    sentence became another one.
    """
    limits = limits_of_today()
    known = {(row["id"], row["slot"]): row for row in definitions().iter_rows(named=True)}
    rows = [row for finding in findings for row in rows_of_finding(finding, limits)]
    for row in rows + [row_of(price, limits) | {"page": LATENCY} for price in price_slots()]:
        before = known.get((row["id"], row["slot"]), {})
        reworded = before.get("reworded") if before.get("sentence") == row["sentence"] else f"{date.today()}"
        yield row | {"changed": before.get("changed"), "reworded": (before and reworded) or None}


def price_slots() -> list[Slot]:
    """Return the latency numbers and the prices that a request is counted by, as slots of which nothing is expected."""
    slots = [slot(latency.id, "", latency.quantity, latency.short) for latency in latencies().values()]
    return slots + [slot(*at, quantity(priced(entry)), entry["what"]) for at, entry in counted().items()]


def judged_by(run: Run, findings: Iterable[Finding]) -> Iterator[dict[str, object]]:
    """Return the rows of data/judged.csv of a series, of what needs a study that it holds."""
    findings, judge, claims = list(findings), Judge(run), claims_of_today()
    judge.clock = True  # what is committed is what nanoseconds are expected of
    hashes, tested = hashes_of(findings), seen_by(run, "findings")
    findings = [finding for finding in findings if any(_is_of(slot, run) for slot in finding.slots)]
    for judgement in map(judge, findings):
        for result in judgement.slots:
            at = result.slot.id, result.slot.name
            yield (
                _row("finding", *at, hashes[at], run)
                | _says(result)
                | {"tested": "yes" if hashes[at] in tested else ""}
            )
    for price in (price for price in price_slots() if _is_of(price, run)):
        filled = SlotResult(price, *assess(price, price.main.cases, judge.effects(price.main), run), judged=False)
        yield _row("price", price.id, price.name, str(row_of(price, limits_of_today())["hash"]), run) | _says(filled)
    for claim_result in outcomes(run, [claim for claim in load_claims() if claim.study in run.info.studies]):
        weighed = claim_result.published
        yield (
            _row("claim", claim_result.claim.id, "", claims[claim_result.claim.id], run)
            | _numbers_of(weighed)
            | _outcome(weighed)
        )


def _is_of(slot: Slot, run: Run) -> bool:
    return any(place[0].study in run.info.studies for case in slot.main.cases for place in case)


def _row(kind: str, id: str, slot: str, hash: str, run: Run) -> dict[str, object]:
    return {"kind": kind, "id": id, "slot": slot, "hash": hash, "series": run.info.run_id}


def _says(result: SlotResult) -> dict[str, object]:
    """What is said of a slot: the case that decides, the ends of all cases, and of how many it is true."""
    measured = result.measured
    ends = {"least": measured[0].effect, "greatest": measured[-1].effect} if measured else {}
    true = (
        sum(case.outcome is Outcome.HOLDS for case in measured)
        if len(result.each) > 1 and result.slot.is_judged
        else None
    )
    outcome = _outcome(result.weighed) if result.slot.is_judged or result.weighed.doubted else {"outcome": SHOWN}
    return _numbers_of(result.weighed) | {name: _digits(end) for name, end in ends.items()} | {"true": true} | outcome


def _outcome(weighed: Assessment) -> dict[str, object]:
    return {"outcome": NOT_JUDGED if weighed.doubted else weighed.outcome.value}


def _numbers_of(weighed: Assessment) -> dict[str, object]:
    return {"value": _digits(weighed.effect), "low": _digits(weighed.low), "high": _digits(weighed.high)}


def _digits(number: float | None) -> str | None:
    return None if number is None else f"{number:.{DIGITS}g}"
