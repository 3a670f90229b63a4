"""On how many machines each published claim holds."""

import hashlib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

import polars as pl

from async_cost import kept
from async_cost.errors import DataError
from async_cost.literature.claims import load_claims
from async_cost.literature.replication import outcomes
from async_cost.machines.hardware import chosen_runs
from async_cost.machines.many import ManyRuns
from async_cost.machines.summary import place
from async_cost.paths import repository_root
from async_cost.runs.run import open_run
from async_cost.statistics.statement import Outcome

VERDICTS = {"claim": pl.String, "study": pl.String, "verdict": pl.String}
FILE = "claims.parquet"
#: The verdicts that a page counts.
COUNTED = (Outcome.HOLDS, Outcome.DOES_NOT_HOLD, Outcome.UNDECIDED)
#: A verdict also depends on the claims and on the code that judges them.
SOURCES = b"".join(
    path.read_bytes() for path in (*sorted((Path(__file__).parents[1] / "literature").glob("*.py")), Path(__file__))
)


def on_machines(many: ManyRuns) -> pl.DataFrame:
    """One row for each claim that was measured: claim, study, holds, does not hold, undecided (numbers of
    machines), machines (their sum).

    Of each machine the run counts that speaks for the study of the claim. A machine that does not hold the operands of
    a claim is left out.
    """
    chosen = chosen_runs(many).filter("trusted").cast({"run": pl.String, "study": pl.String})
    names = chosen["run"].unique(maintain_order=True).to_list()
    parts = zip(names, verdicts([many.folders[name] for name in names]), strict=True)
    none = pl.DataFrame(schema=VERDICTS | {"run": pl.String})
    found = pl.concat([none, *(part.with_columns(run=pl.lit(name)) for name, part in parts)])
    found = found.join(chosen, on=["run", "study"], how="semi").filter(pl.col("verdict").is_in(list(COUNTED)))
    each = (pl.col("verdict").eq(word).sum().alias(word) for word in COUNTED)
    return found.group_by("claim", "study", maintain_order=True).agg(*each, machines=pl.len()).sort("claim")


def verdicts(folders: Sequence[Path]) -> list[pl.DataFrame]:
    """What each run says about each claim: the columns VERDICTS. Empty where its samples cannot be read."""
    places = [place_of(folder) for folder in folders]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(_verdicts, folders, places, kept.read_all(places, VERDICTS)))


def _verdicts(folder: Path, file: tuple[Path, str] | None, known: kept.Kept | None) -> pl.DataFrame:
    if known:
        return known[0]
    try:
        judged = outcomes(open_run(folder), load_claims())
    except DataError:
        return pl.DataFrame(schema=VERDICTS)
    rows = [(one.claim.id, one.claim.study, one.published.outcome.value) for one in judged]
    made = pl.DataFrame(rows, schema=VERDICTS, orient="row")
    if file:
        kept.write(made, *file)
    return made


def place_of(folder: Path) -> tuple[Path, str] | None:
    """File and key of the verdicts that are kept of a run; they depend on the claims, too, and on what judges them."""
    return place(folder, FILE, _on_claims())


@lru_cache(maxsize=1)
def _on_claims() -> bytes:
    """Hash of the claims and of the code that judges them."""
    data = (repository_root() / "data" / name for name in ("claims.csv", "claims-operands.csv"))
    return hashlib.sha256(SOURCES + b"".join(path.read_bytes() for path in data)).digest()
