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

#: Published variants by study that are programs in another language: context that is not measured here.
FOREIGN = {"call-styles": ("ruby 2.4.1", "mruby 1.3.0")}


def load_published(study: str, root: Path | None = None, edition: str | None = None) -> pl.DataFrame:
    """The reported figures of `study`: study, bench, variant, parameter, metric, unit, value, low, high, machine,
    source.

    `edition` is a folder below data/published with another printing ("later-edition"). Raises `DataError` as runs do.
    """
    folder = (repository_root() if root is None else root) / "data" / "published"
    folder = folder if edition is None else folder / edition
    return read_table(folder / f"{study}.csv", PublishedRows, study).drop("line")


def published_times(study: str, root: Path | None = None, edition: str | None = None) -> pl.DataFrame:
    """The reported times in nanoseconds: bench, variant, parameter, ns, low_ns, high_ns (null where not reported)."""
    factor = pl.col("unit").replace_strict(NANOSECONDS, default=None, return_dtype=pl.Float64)
    return (
        load_published(study, root, edition)
        .filter(pl.col("metric") == "time")
        .select(
            *KEY,
            (pl.col("value") * factor).alias("ns"),
            (pl.col("low") * factor).alias("low_ns"),
            (pl.col("high") * factor).alias("high_ns"),
        )
    )


def published_ratios(study: str, baseline: str, root: Path | None = None, edition: str | None = None) -> pl.DataFrame:
    """Reported times over that of `baseline` with the same parameter: bench, variant, parameter, published,
    published_low, published_high, published_added_ns (the difference, for one iteration).

    The outer values divide the printed ends of the one by the opposite ends of the other. They cover the uncertainty
    within one printed run, but not what differs between two runs.
    """
    times = published_times(study, root, edition)
    base = times.filter(pl.col("variant") == baseline).select(
        "parameter",
        pl.col("ns").alias("base_ns"),
        pl.col("low_ns").alias("base_low_ns"),
        pl.col("high_ns").alias("base_high_ns"),
    )
    return times.join(base, on="parameter").select(
        *KEY,
        (pl.col("ns") / pl.col("base_ns")).alias("published"),
        (pl.col("low_ns") / pl.col("base_high_ns")).alias("published_low"),
        (pl.col("high_ns") / pl.col("base_low_ns")).alias("published_high"),
        (pl.col("ns") - pl.col("base_ns")).alias("published_added_ns"),
    )
