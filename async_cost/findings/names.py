"""What programs and runtimes are called in prose and in charts: one name each, in data/names.csv."""

from collections.abc import Mapping
from functools import lru_cache

import polars as pl

from async_cost.runs.comparisons import DATA
from async_cost.runs.reader import read_own


@lru_cache(maxsize=1)
def _table() -> pl.DataFrame:
    return read_own(DATA / "names.csv")


@lru_cache(maxsize=1)
def names() -> Mapping[tuple[str, str], str]:
    """Return the name of a variant, by study and variant."""
    return {(study, variant): name for study, variant, name in _table().select("study", "variant", "name").iter_rows()}


@lru_cache(maxsize=1)
def keys() -> frozenset[str]:
    """Variants that have another name than their key."""
    return frozenset(variant for (_, variant), name in names().items() if variant != name)


@lru_cache(maxsize=1)
def aliases() -> Mapping[str, str]:
    """Map each spelling that prose must not use to the official name."""
    rows = _table().filter(pl.col("not_called") != "").select("not_called", "name").iter_rows()
    return {alias: name for listed, name in rows for alias in listed.split("; ")}


def name(study: str, variant: str) -> str:
    """Return what a reader calls a variant: its own name where data/names.csv has no other."""
    return names().get((study, variant), variant)
