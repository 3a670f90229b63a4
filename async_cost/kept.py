"""Tables that are derived from a run and kept next to its report: one Parquet file each, under a key made of everything
that it depends on.

It is only a copy: a file that is missing, cannot be read or has another key is made again, and one that cannot be
written is not kept.
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

#: Under which name the metadata of a file holds the key and what else belongs to the table.
OURS = "async-cost"
#: So many tables are read together: a thread waits for each.
TOGETHER = 64
#: A table and what belongs to it.
Kept = tuple[pl.DataFrame, dict]


def read(file: Path, key: str, schema: Mapping[str, object]) -> Kept | None:
    """The table with this schema that was kept under `key`, and what belongs to it; None if there is none."""
    return read_all([(file, key)], schema)[0]


def read_all(places: Sequence[tuple[Path, str] | None], schema: Mapping[str, object]) -> list[Kept | None]:
    """The same for many files and their keys: small tables take a fifth of the time when they are read together."""
    abouts = [place and _about(*place) for place in places]
    tables = [
        pl.scan_parquet(place[0], glob=False) for place, about in zip(places, abouts, strict=True) if place and about
    ]
    starts = range(0, len(tables), TOGETHER)
    frames = iter([frame for start in starts for frame in _collected(tables[start : start + TOGETHER])])
    found = ((next(frames) if about else None, about) for about in abouts)
    return [
        (frame, about) if about and frame is not None and frame.schema == schema else None for frame, about in found
    ]


def _about(file: Path, key: str) -> dict | None:
    """What belongs to the table in `file`; None if it has another key, or cannot be read."""
    try:
        about = json.loads(pl.read_parquet_metadata(file)[OURS])
        return about if about["key"] == key else None
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return None


def _collected(tables: Sequence[pl.LazyFrame]) -> Sequence[pl.DataFrame | None]:
    """The tables, None for those that are damaged."""
    try:
        return pl.collect_all(tables)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException):
        return [None] if len(tables) == 1 else [frame for one in tables for frame in _collected([one])]


def write(frame: pl.DataFrame, file: Path, key: str, **about: object) -> None:
    """Writes the file entirely or not at all (on a full disk, for instance); pages that are made at the same time may
    write the same one.
    """
    partial = file.with_suffix(f".{os.getpid()}.partial")
    with contextlib.suppress(OSError):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            frame.write_parquet(partial, metadata={OURS: json.dumps({**about, "key": key})})
            os.replace(partial, file)
        finally:
            partial.unlink(missing_ok=True)
