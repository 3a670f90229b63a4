"""Tables of experiments on the measuring (`experiments/`), for the pages that quote them."""

from pathlib import Path

import polars as pl

from async_cost.paths import repository_root

#: Where they are, below the root of the repository.
FOLDER = Path("data/experiments")


def last_experiment(name: str) -> pl.DataFrame:
    """Read data/experiments/<name>.csv; no rows without it."""
    file = repository_root() / FOLDER / f"{name}.csv"
    return pl.read_csv(file) if file.exists() else pl.DataFrame()
