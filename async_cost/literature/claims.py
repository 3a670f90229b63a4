"""What seven documents claim, in a form that a program can compare with a run.

data/claims.csv gives the region of effects in which each claim is true, data/claims-operands.csv the keys of the tidy
data from which the effect is computed; both are described in data/README.md. `replication` judges them.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from async_cost.paths import repository_root
from async_cost.runs.comparisons import KEY
from async_cost.runs.reader import read_table
from async_cost.runs.schemas import ClaimRows, OperandRows
from async_cost.statistics.effects import Case, Operand
from async_cost.statistics.statement import Statement

#: In place of prose or figures: a number that turned out to be no claim, and is not given to another one.
NO_CLAIM = "no claim"


class Comparison(StrEnum):
    """`published` is what the document compared; `counterpart` replaces it if that is not what is measured here under
    its key, because it is in another language, too long, or printed as a picture; `clean` differs in nothing but
    what the claim is about; `ours` is the same with something of ours in place of what the document has.
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

    Raises `DataError`, naming file, row, column and remedy, for a row that breaks a rule of its table.
    """
    folder = (repository_root() if root is None else root) / "data"
    operands = read_table(folder / "claims-operands.csv", OperandRows).rows_by_key("claim", named=True)
    rows = read_table(folder / "claims.csv", ClaimRows).drop("line").iter_rows(named=True)
    return tuple(Claim(**row, **_cases(operands.get(row["id"], []))) for row in rows)


def _cases(operands: Iterable[dict]) -> dict[str, Any]:
    """The cases of each comparison of a claim, with their places in order."""
    cases: dict[str, dict[int, dict[int, list[Operand]]]] = {comparison.value: {} for comparison in Comparison}
    for row in operands:
        key = {name: row[name] for name in ("study", *KEY, "counter")}
        case = cases[row["comparison"]].setdefault(row["case"], {})
        case.setdefault(row["place"], []).append(Operand(**key, plus_ns=row["plus_ns"] or 0.0))
    return {
        comparison: tuple(tuple(tuple(case[place]) for place in sorted(case)) for case in some.values())
        for comparison, some in cases.items()
    }
