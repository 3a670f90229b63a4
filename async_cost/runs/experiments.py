"""Results of experiments on the measuring (`experiments/`), for the pages that quote it."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import polars as pl

from async_cost.errors import DataError
from async_cost.paths import repository_root
from async_cost.runs.reader import read_json, read_table
from async_cost.runs.schemas import TrialRows

#: Where results are, below the root of the repository.
FOLDER = Path("data/experiments")
#: Version of the format of results.
SCHEMA_VERSION = 2
COLUMNS = {name: column.dtype for name, column in TrialRows.columns().items() if name != "line"}


def last_experiment(name: str) -> pl.DataFrame:
    """Read the newest data/experiments/<name>.csv; no rows without one."""
    file = repository_root() / FOLDER / f"{name}.csv"
    return pl.read_csv(file) if file.exists() else pl.DataFrame()


class Results(NamedTuple):
    """`record` is experiments.json (None: nothing was measured), `trials` the table of `COLUMNS`."""

    record: dict | None = None
    trials: pl.DataFrame = pl.DataFrame(schema=COLUMNS)


def newest(machine: str, environ: Mapping[str, str] = os.environ, root: Path | None = None) -> Results:
    """Return the newest results from this machine; else the newest from any machine; else empty ones.

    ASYNC_COST_EXPERIMENTS names the folders to choose from, or says `none`. Raises `DataError` for damaged ones.
    """
    named = environ.get("ASYNC_COST_EXPERIMENTS")
    if named == "none":
        return Results()
    here = (file.parent for file in (root or repository_root() / FOLDER).glob("*/*/experiments.json"))
    folders = list(map(Path, named.split(os.pathsep)) if named else here)
    folders.sort(key=lambda path: (path.parent.name == machine, path.name, path.parent.name))
    return load(folders[-1]) if folders else Results()


def committed() -> str:
    """Return the folders of results that git knows, as ASYNC_COST_EXPERIMENTS names them."""
    command = ["git", "ls-files", f"{FOLDER}/*/*/experiments.json"]
    listed = subprocess.run(command, cwd=repository_root(), check=True, capture_output=True, text=True).stdout.split()
    return os.pathsep.join(str((repository_root() / name).parent) for name in listed) or "none"


def load(folder: Path) -> Results:
    """Read the results in `folder`. Raises `DataError` if a file is damaged, or of an unknown version."""
    record = read_json(folder / "experiments.json")
    if record.get("schema_version") != SCHEMA_VERSION:
        problem = f"not of schema version {SCHEMA_VERSION}"
        remedy = "Remove the folder, or measure with `make experiments`"
        raise DataError(folder / "experiments.json", problem, remedy, column="schema_version")
    return Results(record, read_table(folder / "trials.csv.gz", TrialRows).select(*COLUMNS))
