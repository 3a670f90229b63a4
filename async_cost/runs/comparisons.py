"""What a study compares: pairs of a key and its baseline, in groups whose limits say how small a difference matters.

The study declares them, in Rust; data/comparisons.csv is what the studies declare today. A run.json holds, for each
study, the hash of a table in the folder `comparisons` next to that of all runs; older ones hold the comparisons.
"""

import hashlib
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from async_cost.errors import DataError
from async_cost.files import write_whole
from async_cost.paths import repository_root, shown
from async_cost.runs.reader import read_own

#: What identifies one measured thing. A study's files, the published figures and the claims use the same words.
KEY = ("bench", "variant", "parameter")
#: The same for what it is compared with.
BASE_KEY = tuple(f"baseline_{name}" for name in KEY)
PAIR = (*KEY, *BASE_KEY)
#: The columns of a comparison as a run records it.
RECORDED = dict.fromkeys((*PAIR, "group", "change", "unit"), pl.String)
#: `limit` is half the width of the region of practical equivalence of the group; `control` says that key and baseline
#: are the same code.
SCHEMA = RECORDED | {"limit": pl.Float64, "control": pl.Boolean}
DATA = repository_root() / "data"

#: The comparisons that say what another build would show, as study, variant, what it is compared with, parameter: the
#: first of a study that a run has.
HEADLINES = (
    ("ladder", "frontier", "manual (best)", "live=3"),
    ("zero-cost", "nonbox", "manual", "syscalls=off"),
    ("zero-cost", "nonbox", "manual (best)", "syscalls=off"),
    ("zero-cost", "nonbox", "manual", "syscalls=on"),
    ("zero-cost-sockets", "async", "manual", "live=256"),
    ("ladder", "lean + box", "slab index", "live=3"),
    ("ladder", "Arc waker", "Rc waker", "live=3"),
    ("ladder", "lean + mutex queue", "slab index", "live=3"),
    ("zero-cost", "large+nonbox", "nonbox", "syscalls=off"),
)
#: The columns of a comparison that its address is made of.
ADDRESSED = ("study", *PAIR, "ratio", "low", "high")


def address(row: Mapping[str, object]) -> str | None:
    """Name a comparison with its numbers, for links to where they come from; None for a row that is no comparison with
    numbers.

    Rows of another run, or numbers that were made of several comparisons, have another address.
    """
    if any(row.get(name) is None for name in ADDRESSED):
        return None
    words = (f"{value:.6g}" if isinstance(value := row[name], float) else str(value) for name in ADDRESSED)
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def of_today() -> pl.DataFrame:
    """Read data/comparisons.csv."""
    return read_own(DATA / "comparisons.csv", limit=pl.Float64)


def file_of(run: Path, digest: str) -> Path:
    """Return the file of recorded comparisons with this SHA-256, for the run in this folder."""
    return run.resolve().parent.parent.parent / "comparisons" / f"{digest}.csv"


def files_of(run: Path) -> list[Path]:
    """Return the files of what the studies of a run compare; none of an older run, which holds it in run.json."""
    digests = re.findall(r'"comparisons": "(\w+)"', (run / "run.json").read_text(encoding="utf-8"))
    return [file_of(run, digest) for digest in sorted({*digests})]


def record(run: Path, studies: Mapping[str, Any]) -> None:
    """Store what each study of a run.json compares in a file, and put the hash of the file in its place."""
    for details in studies.values():
        if isinstance(details["comparisons"], str):
            continue  # stored before the command was killed
        content = pl.DataFrame(details["comparisons"], schema=RECORDED).write_csv().encode()
        details["comparisons"] = hashlib.sha256(content).hexdigest()
        file = file_of(run, details["comparisons"])
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, content)


def recorded(run: Path, digest: str) -> list[dict[str, str]]:
    """Return what a study of a run compares, as older runs hold it in run.json.

    Raises `DataError` if the file with this hash is missing, or has another one.
    """
    file = file_of(run, digest)
    content = file.read_bytes().replace(b"\r\n", b"\n") if file.is_file() else b""
    if hashlib.sha256(content).hexdigest() != digest:
        problem = f"the file is missing, or not the one that {shown(run)} names"
        raise DataError(file, problem, "Take it from data/comparisons where the run was measured")
    return pl.read_csv(content, schema=RECORDED, empty_string_is_null=False).to_dicts()
