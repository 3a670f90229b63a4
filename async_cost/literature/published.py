"""What five documents reported, in the words and units of a run, and joined with it.

data/published/<study>.csv keeps the figures as printed; data/published/later-edition/ holds a second printing of the
same table.
"""

from pathlib import Path

import polars as pl

from async_cost.paths import repository_root
from async_cost.runs.comparisons import KEY
from async_cost.runs.reader import read_table
from async_cost.runs.schemas import PublishedRows
from async_cost.statistics.effects import NANOSECONDS


def load_published(study: str, root: Path | None = None) -> pl.DataFrame:
    """Read the reported figures of `study`: study, bench, variant, parameter, metric, unit, value, low, high, machine,
    source. Raises `DataError` as runs do.
    """
    folder = (repository_root() if root is None else root) / "data" / "published"
    return read_table(folder / f"{study}.csv", PublishedRows, study).drop("line")


def published_studies() -> list[str]:
    """Return the studies of which a document has reported figures."""
    return sorted(path.stem for path in (repository_root() / "data" / "published").glob("*.csv"))


def published_times(study: str) -> pl.DataFrame:
    """Read the reported times in nanoseconds: bench, variant, parameter, ns."""
    factor = pl.col("unit").replace_strict(NANOSECONDS, default=None, return_dtype=pl.Float64)
    return load_published(study).filter(pl.col("metric") == "time").select(*KEY, (pl.col("value") * factor).alias("ns"))
