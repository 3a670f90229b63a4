"""How each finding is defined, and what the committed series say of findings and claims: data/findings.csv and
data/judged.csv, whose columns are described in data/README.md.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from functools import lru_cache
from pathlib import Path

import msgspec
import polars as pl

from async_cost.findings.finding import Finding, Judge
from async_cost.literature.replication import outcomes
from async_cost.runs.comparisons import BASE_KEY, DATA, KEY, of_today
from async_cost.runs.judged import claims_of_today, definition, seen_by
from async_cost.runs.reader import read_table
from async_cost.runs.run import Run
from async_cost.runs.schemas import FindingRows, JudgedRows
from async_cost.statistics.effects import Case, Key
from async_cost.statistics.statement import Weighed

#: What of a finding is judged, besides its operands and the limits of their groups.
OF_FINDING = (
    "operation",
    "quantity",
    "unit",
    "per",
    "share",
    "scales",
    "processors",
    "of",
    "relation",
    "least",
    "most",
)
#: In place of an outcome, of a group that is no evidence in that series.
NOT_JUDGED = "not judged"
#: Digits of a number in data/judged.csv: the last ones of a sum depend on the order in which threads add up.
DIGITS = 6
#: How small a difference matters where a study compares two keys.
Limits = Mapping[tuple[str, Key, Key], float]


@lru_cache(maxsize=1)
def definitions() -> pl.DataFrame:
    """data/findings.csv."""
    return read_table(DATA / "findings.csv", FindingRows).drop("line")


@lru_cache(maxsize=1)
def judged() -> pl.DataFrame:
    """data/judged.csv."""
    return read_table(DATA / "judged.csv", JudgedRows).drop("line")


def committed(kind: str, folder: Path, hashes: Mapping[str, str]) -> dict[str, dict]:
    """What data/judged.csv says of findings or claims by the series of the run in `folder`, by id; nothing where one of
    `hashes`, their definitions, is not what was judged.
    """
    rows = (
        judged()
        .filter(kind=kind, series=f"{folder.parent.name}/{folder.name}")
        .rows_by_key("id", named=True, unique=True)
    )
    return rows if all(id in rows and rows[id]["hash"] == hash for id, hash in hashes.items()) else {}


def newer() -> set[str]:
    """The ids of findings that are defined otherwise than before the reference was measured."""
    return set(definitions().drop_nulls("since")["id"])


@lru_cache(maxsize=1)
def limits_of_today() -> Limits:
    """The limit of each comparison that the studies declare, in both directions."""
    limits = dict[tuple[str, Key, Key], float]()
    for study, *sides, limit in of_today().select("study", *KEY, *BASE_KEY, "limit").iter_rows():
        one, other = tuple(sides[:3]), tuple(sides[3:])
        limits[study, one, other] = limits[study, other, one] = limit
    return limits


def row_of(one: Finding, limits: Limits) -> dict[str, object]:
    """The row of a finding in data/findings.csv, without `since` and `changed`. Its hash is of what is judged, from the
    operands to the region, and not of names, sentences and advice.
    """
    used = sorted({limits[pair] for case in one.main.cases for pair in _compared(case) if pair in limits})
    used = [] if one.quantity == "count" else used
    judged = msgspec.to_builtins([*(getattr(one, name) for name in OF_FINDING), used, one.main.cases])
    return {
        **{"id": one.id, "slot": "", "page": one.page, "operands": " & ".join(map(_shown, one.main.cases))},
        **{name: getattr(one, name) for name in OF_FINDING},
        **{"scales": _numbers(one.scales), "limits": _numbers(used)},
        **{"hash": definition(judged), "sentence": definition(one.statement)},
    }


def _compared(case: Case) -> Iterator[tuple[str, Key, Key]]:
    """The comparisons behind a case: of its first place with the second, and so on."""
    sides = [place[0] for place in case]
    for one, other in zip(sides[::2], sides[1::2], strict=False):
        yield one.study, one.key, other.key


def _shown(case: Case) -> str:
    """Its places, `zero-cost|nonbox|nonbox|syscalls=off|`: study, key and what is counted; no name has these signs."""
    sides = [place[0] for place in case]
    return " > ".join("|".join((one.study, *one.key, one.counter)) for one in sides)


def _numbers(some: Iterable[float]) -> str:
    return " ".join(f"{number:g}" for number in some)


def rows_of(findings: Iterable[Finding], reference: Run) -> Iterator[dict[str, object]]:
    """The rows of data/findings.csv. `changed` stays as somebody wrote it; `since` is the day on which a definition
    came about, of those that the reference has not recorded.
    """
    limits, tested = limits_of_today(), seen_by(reference, "findings")
    known = {(row["id"], row["slot"]): row for row in definitions().iter_rows(named=True)}
    for one in findings:
        row = row_of(one, limits)
        before = known.get((row["id"], row["slot"]), {})
        since = before.get("since") if before.get("hash") == row["hash"] else None
        since = None if row["hash"] in tested else since or f"{date.today()}"
        yield row | {"since": since, "changed": before.get("changed")}


def judged_by(run: Run, findings: Iterable[Finding]) -> Iterator[dict[str, object]]:
    """The rows of data/judged.csv of a series."""
    limits, judge, claims = limits_of_today(), Judge(run), claims_of_today()
    about = {"slot": "", "series": run.info.run_id}
    for one in findings:
        kind = {"kind": "finding", "id": one.id, "hash": row_of(one, limits)["hash"]}
        yield about | kind | _says(judge(one).weighed)
    for said in outcomes(run):
        yield about | {"kind": "claim", "id": said.claim.id, "hash": claims[said.claim.id]} | _says(said.published)


def _says(weighed: Weighed) -> dict[str, object]:
    numbers = {"value": weighed.effect, "low": weighed.low, "high": weighed.high}
    shown = {name: None if number is None else f"{number:.{DIGITS}g}" for name, number in numbers.items()}
    return {**shown, "outcome": NOT_JUDGED if weighed.doubted else weighed.outcome.value}
