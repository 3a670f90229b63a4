"""Tables that are derived from a run and kept next to its report: one Parquet file each, under a key made of everything
that it depends on.

It is only a copy: a file that is missing, damaged or has another key is made again, and one that cannot be written is
not kept.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import polars as pl

#: Under which name the metadata of a file holds the key and what else belongs to the table.
OURS = "async-cost"


def read(file: Path, key: str, schema: Mapping[str, object]) -> tuple[pl.DataFrame, dict] | None:
    """The table with this schema that was kept under `key`, and what belongs to it; None if there is none."""
    try:
        about = json.loads(pl.read_parquet_metadata(file)[OURS])
        if about["key"] == key:
            frame = pl.read_parquet(file)
            return (frame, about) if frame.schema == schema else None
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError):
        pass
    return None


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
