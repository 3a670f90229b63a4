"""What a study compares: pairs of a key and its baseline, in groups whose limits say how small a difference matters.

The study declares them, in Rust, and the run records them in its run.json; data/comparisons.csv is what the studies
declare today.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache

import polars as pl

from async_cost.paths import repository_root
from async_cost.runs.reader import read_table
from async_cost.runs.schemas import ComparisonRows

#: What identifies one measured thing. A study's files, the published figures and the claims use the same words.
KEY = ("bench", "variant", "parameter")
#: The same for what it is compared with.
BASE_KEY = tuple(f"baseline_{name}" for name in KEY)
PAIR = (*KEY, *BASE_KEY)
#: `limit` is half the width of the region of practical equivalence of the group; `control` says that key and baseline
#: are the same code.
SCHEMA = dict.fromkeys((*PAIR, "group", "change", "unit"), pl.String) | {"limit": pl.Float64, "control": pl.Boolean}
DATA = repository_root() / "data"


#: Findings with a name, because people base decisions on them: by study, variant, what it is compared with, parameter.
HEADLINES = {
    ("ladder", "frontier", "manual (best)", "live=3"): "leanest async / best loop",
    ("zero-cost", "nonbox", "manual", "syscalls=off"): "async / published loop",
    ("zero-cost", "nonbox", "manual (best)", "syscalls=off"): "async / best loop",
    ("zero-cost", "nonbox", "manual", "syscalls=on"): "async / loop, with system calls",
    ("zero-cost-sockets", "async", "manual", "live=256"): "async / loop, on sockets",
    ("ladder", "lean + box", "slab index", "live=3"): "boxed / unboxed",
    ("ladder", "Arc waker", "Rc waker", "live=3"): "Arc waker / Rc waker",
    ("ladder", "lean + mutex queue", "slab index", "live=3"): "locked queue / plain queue",
    ("zero-cost", "large+nonbox", "nonbox", "syscalls=off"): "16 KiB futures / small ones",
}
#: The columns of a comparison that its address is made of.
ADDRESSED = ("study", *PAIR, "ratio", "low", "high")


def address(row: Mapping[str, object]) -> str | None:
    """Names a comparison with its numbers, for links to where they come from; None for a row that is no comparison with
    numbers.

    Rows of another run, or numbers that were made of several comparisons, have another address.
    """
    if any(row.get(name) is None for name in ADDRESSED):
        return None
    words = (f"{value:.6g}" if isinstance(value := row[name], float) else str(value) for name in ADDRESSED)
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:12]


@lru_cache(maxsize=1)
def of_today() -> pl.DataFrame:
    """data/comparisons.csv."""
    return read_table(DATA / "comparisons.csv", ComparisonRows)
