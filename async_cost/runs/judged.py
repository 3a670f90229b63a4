"""What a run will judge, as hashes of definitions that it records before its first round: it tests a finding or a claim
whose definition it has recorded, whatever is renamed, rewritten or added around it. Uses the standard library alone,
since the workflow passes the hashes to the harness.
"""

import csv
import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from async_cost.paths import repository_root

if TYPE_CHECKING:
    from async_cost.runs.run import Run

#: The columns of a claim that say what is judged: no words, and nothing that the document reports.
OF_CLAIMS = ("operation", "quantity", "per", "of", "relation", "least", "most", "unit", "processors")
OF_OPERANDS = ("comparison", "case", "place", "study", "bench", "variant", "parameter", "counter", "plus_ns")


def definition(judged: object) -> str:
    """Return the hash of a definition, 64 bits of a SHA-256: of what is judged, as JSON."""
    text = json.dumps(judged, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def findings_of_today() -> dict[str, str]:
    """Return the hash of each definition in data/findings.csv that is judged, by `id/slot`."""
    rows = (row for row in _rows("findings.csv") if row["relation"] != "shown")
    return {f"{row['id']}/{row['slot']}": row["hash"] for row in rows}


def claims_of_today(root: Path | None = None) -> dict[str, str]:
    """Return the hash of each claim in data/claims.csv, with its operands, by id; nothing of what is no claim."""
    operands: dict[str, list[list[str | float]]] = {}
    for row in _rows("claims-operands.csv", root):
        operands.setdefault(row["claim"], []).append([_plain(row[name]) for name in OF_OPERANDS])
    claims = {
        row["id"]: [_plain(row[name]) for name in OF_CLAIMS] for row in _rows("claims.csv", root) if row["operation"]
    }
    return {name: definition([columns, sorted(operands.get(name, []), key=repr)]) for name, columns in claims.items()}


def recorded(hashes: Iterable[str]) -> str:
    """Write hashes of definitions as a run.json holds them."""
    return " ".join(sorted(set(hashes)))


def seen(field: str | None) -> frozenset[str]:
    """Return the hashes of the definitions that a run has recorded in this field of its run.json.

    Of an older run, which recorded one hash of all, they are those of data/earlier-definitions.csv.
    """
    words = (field or "").split()
    return _earlier().get(words[0], frozenset()) if words and len(words[0]) == 64 else frozenset(words)


def seen_by(run: "Run", what: str) -> frozenset[str]:
    """Return the definitions of `what`, findings or claims, that each sitting recorded before its first round."""
    return frozenset.intersection(*(seen(getattr(sitting.info, what)) for sitting in run.sittings))


@lru_cache(maxsize=1)
def _earlier() -> dict[str, frozenset[str]]:
    earlier: dict[str, set[str]] = {}
    for row in _rows("earlier-definitions.csv"):
        earlier.setdefault(row["recorded"], set()).add(row["hash"])
    return {recorded: frozenset(hashes) for recorded, hashes in earlier.items()}


def _plain(text: str) -> str | float:
    """A number in whatever way it is written."""
    try:
        return float(text)
    except ValueError:
        return text


def _rows(name: str, root: Path | None = None) -> list[dict[str, str]]:
    file = (repository_root() if root is None else root) / "data" / name
    with file.open(encoding="utf-8-sig", newline="") as lines:
        return list(csv.DictReader(lines))
