"""Tables that are derived from a run, each in a Parquet file next to its report, under a key of all that it depends on.

Such a file is only a copy: one that is missing, cannot be read or has another key is made again, and what cannot be
written is made each time.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

#: Under which name the metadata of a file holds the key and what else belongs to the table.
OURS = "async-cost"
#: The file of a table, and its key.
CacheEntry = tuple[Path, str]
PACKAGE = Path(__file__).parent
UNREADABLE = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, KeyError, TypeError)


def code_of(*packages: str) -> bytes:
    """Hash the code of these packages, of what all packages use, and of polars. It is for a constant of a module,
    so that it is that of the version that was imported: a page may outlive an edit.
    """
    files = (path for package in ("", *packages) for path in sorted((PACKAGE / package).glob("*.py")))
    return hashlib.sha256(b"\0".join([pl.__version__.encode(), *(path.read_bytes() for path in files)])).digest()


def stored(
    place: Callable[[], CacheEntry | None], schema: Mapping[str, Any], make: Callable[[], tuple[pl.DataFrame, dict]]
) -> tuple[pl.DataFrame, dict]:
    """Return the table at `place`, and what belongs to it; if there is none with this key and schema, what `make`
    makes, stored there unless its key is another one by now.
    """
    before = place()
    if before:
        with contextlib.suppress(*UNREADABLE):
            known = json.loads(pl.read_parquet_metadata(before[0])[OURS])
            if known["key"] == before[1]:
                frame = pl.scan_parquet(before[0], glob=False).collect()
                if frame.schema == schema:
                    return frame, known
    frame, belongs = make()
    if before and place() == before:
        _write(frame, before, belongs)
    return frame, belongs


def _write(frame: pl.DataFrame, place: CacheEntry, about: dict) -> None:
    """Write the file entirely or not at all (on a full disk, for instance); pages that are made at the same time may
    write the same one.
    """
    file, key = place
    partial = file.with_suffix(f".{os.getpid()}.partial")
    with contextlib.suppress(OSError):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            frame.write_parquet(partial, metadata={OURS: json.dumps({**about, "key": key})})
            os.replace(partial, file)
        finally:
            partial.unlink(missing_ok=True)
