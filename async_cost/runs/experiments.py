"""Results of experiments on the measuring (`experiments/`), for the pages that quote it."""

from pathlib import Path

import polars as pl

from async_cost.paths import repository_root

#: Where results are, below the root of the repository.
FOLDER = Path("data/experiments")


def last_experiment(name: str) -> pl.DataFrame:
    """Read the table `name` of data/experiments, .csv or .csv.gz; no rows without one."""
    file = next((repository_root() / FOLDER).glob(f"{name}.csv*"), None)
    return pl.read_csv(file, infer_schema_length=None) if file else pl.DataFrame()
