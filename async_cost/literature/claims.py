"""What five documents claim, in a form that a program can compare with a run.

data/claims.csv gives the region of effects in which each claim is true, data/claims-operands.csv the keys of the tidy
data from which the effect is computed; both are described in data/README.md. This module reads and checks them;
`replication` judges them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from async_cost.errors import DataError, quoted
from async_cost.paths import repository_root
from async_cost.runs.comparisons import KEY
from async_cost.runs.reader import CORRECT, read_table, refuse
from async_cost.runs.schemas import ClaimRows, OperandRows
from async_cost.statistics.effects import PLACES, Case, Operand
from async_cost.statistics.statement import Statement

#: In place of prose or figures: a number that turned out to be no claim, and is not given to another one.
NO_CLAIM = "no claim"


class Comparison(StrEnum):
    """`published` is what the document compared; `counterpart` replaces it if that is not what is measured here under
    its key, because it is written in another language or too long; `clean` differs in nothing but what the claim is
    about; `ours` is the same with something of ours in place of what the document has.
    """

    PUBLISHED = "published"
    COUNTERPART = "counterpart"
    CLEAN = "clean"
    OURS = "ours"


@dataclass(frozen=True, kw_only=True)
class Claim(Statement):
    """A row of data/claims.csv with its operands: its columns are described in data/README.md. A claim about several
    cases asserts all of them.
    """

    study: str
    basis: str
    reason: str
    published_value: float | None
    own_figure: str | None
    published_processors: int | None
    same_as: str | None
    changed: str | None
    confound: str | None
    source: str
    published: tuple[Case, ...]
    clean: tuple[Case, ...]
    counterpart: tuple[Case, ...] = ()
    ours: tuple[Case, ...] = ()

    @property
    def is_claim(self) -> bool:
        """Whether the document asserts it."""
        return self.basis != NO_CLAIM

    def cases(self, comparison: Comparison) -> tuple[Case, ...]:
        return getattr(self, comparison.value)

    @property
    def faithful(self) -> Comparison:
        """The measurable comparison that is closest to what the document compared."""
        return Comparison.COUNTERPART if self.counterpart else Comparison.PUBLISHED


def load_claims(root: Path | None = None) -> tuple[Claim, ...]:
    """Return all claims, in the order of the file.

    Raises `DataError`, naming file, row, column and remedy, for a row that breaks a rule of its table, for operands of
    no claim, and for claims whose operands do not fill the places of their operation.
    """
    folder = (repository_root() if root is None else root) / "data"
    file, operand_file = folder / "claims.csv", folder / "claims-operands.csv"
    rows, operands = read_table(file, ClaimRows), read_table(operand_file, OperandRows)
    for path, table, column in ((operand_file, operands, "claim"), (file, rows.drop_nulls("same_as"), "same_as")):
        refuse(
            path, table.join(rows, left_on=column, right_on="id", how="anti"), column, f"there is no claim {{{column}}}"
        )
    by_claim = operands.rows_by_key("claim", named=True, include_key=True)
    return tuple(_claim(file, operand_file, row, by_claim.get(row["id"], [])) for row in rows.iter_rows(named=True))


def _claim(file: Path, operand_file: Path, row: dict, operands: Sequence[dict]) -> Claim:
    line = row.pop("line")
    for operand in operands:
        for column, problem in _wrong_with_operand(row, operand):
            raise DataError(operand_file, f"{row['id']} {problem}", CORRECT, operand["line"], column)
    cases: dict[str, Any] = {
        comparison.value: tuple(_cases(operand_file, row, operands, comparison)) for comparison in Comparison
    }
    for column, problem in _wrong_with_claim(row, bool(cases[Comparison.CLEAN])):
        raise DataError(file, f"{row['id']} {problem}", CORRECT, line, column)
    return Claim(**row, **cases)


def _wrong_with_claim(row: dict, has_clean: bool) -> Iterator[tuple[str, str]]:
    """Columns, and what is wrong with them: the document's own figure lies in the region, or the row says why not."""
    value, least, most = row["published_value"], row["least"], row["most"]
    inside = value is None or ((least is None or least <= value) and (most is None or value <= most))
    if inside == bool(row["own_figure"]):
        where = "inside" if inside else "outside of"
        yield "own_figure", f"has the figure {value} {where} its region, and own_figure is {quoted(row['own_figure'])}"
    if has_clean and not row["confound"]:
        yield "confound", "has a clean comparison, but nothing says what is wrong with the published one"


def _wrong_with_operand(claim: dict, operand: dict) -> Iterator[tuple[str, str]]:
    counted = claim["quantity"] == "count"
    if counted != bool(operand["counter"]):
        yield "counter", f"is on {'counts' if counted else 'times'}, and the counter is {quoted(operand['counter'])}"
    if counted and operand["plus_ns"] is not None:
        yield "plus_ns", "adds a time to a count"
    if operand["comparison"] == Comparison.PUBLISHED and operand["study"] != claim["study"]:
        yield "study", f"is a claim on {claim['study']}, and this operand is of {operand['study']}"


def _cases(file: Path, claim: dict, operands: Sequence[dict], comparison: Comparison) -> Iterator[Case]:
    """Collect the cases of one comparison, each with all the places that the operation needs, from one study."""
    wanted = list(range(1, PLACES.get(claim["operation"], 0) + 1))
    cases: dict[int, dict[int, list[dict]]] = {}
    for operand in operands:
        if operand["comparison"] == comparison:
            cases.setdefault(operand["case"], {}).setdefault(operand["place"], []).append(operand)
    for number, case in cases.items():
        line = min(operand["line"] for place in case.values() for operand in place)
        places = sorted(case)
        if places != wanted:
            problem = (
                f"case {number} of {claim['id']} has the places {places}, and a {claim['operation']} needs {wanted}"
            )
            raise DataError(file, problem, CORRECT, line, "place")
        if len({operand["study"] for place in case.values() for operand in place}) > 1:
            problem = f"case {number} of {claim['id']} compares two studies, which are not measured in the same rounds"
            raise DataError(file, problem, CORRECT, line, "study")
        yield tuple(tuple(map(_operand, case[place])) for place in wanted)


def _operand(row: dict) -> Operand:
    key = {name: row[name] for name in ("study", *KEY, "counter")}
    return Operand(**key, plus_ns=row["plus_ns"] or 0.0)
