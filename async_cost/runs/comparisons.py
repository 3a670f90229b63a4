"""What a study compares: pairs of a key and its baseline, in groups whose limits say how small a difference matters.

The study declares them, in Rust, and the run records them in its run.json. Runs of schema version 1 recorded only the
first comparison of each key; the others are in data/comparisons.csv, which is what the studies declare today.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import polars as pl

from async_cost.errors import DataError, quoted
from async_cost.paths import repository_root
from async_cost.runs.reader import read_table
from async_cost.runs.record import StudyInfo
from async_cost.runs.schemas import ComparisonRows
from async_cost.words import CONTROL

#: What identifies one measured thing. A study's files, the published figures and the claims use the same words.
KEY = ("bench", "variant", "parameter")
#: The same for what it is compared with.
BASE_KEY = tuple(f"baseline_{name}" for name in KEY)
PAIR = (*KEY, *BASE_KEY)
#: `limit` is half the width of the region of practical equivalence of the group; `control` says that key and baseline
#: are the same code.
SCHEMA = dict.fromkeys((*PAIR, "group", "change", "unit"), pl.String) | {
    "limit": pl.Float64,
    "control": pl.Boolean,
}
DATA = repository_root() / "data"
#: What is declared outside of a run.
DECLARED = (DATA / "comparisons.csv",)


@dataclass(frozen=True)
class Headline:
    """A finding with a name, because people base decisions on it: `variant` against `other`."""

    study: str
    variant: str
    other: str
    parameter: str
    label: str


HEADLINES = (
    Headline("ladder", "frontier", "manual (best)", "live=3", "leanest async / best loop"),
    Headline("zero-cost", "nonbox", "manual", "syscalls=off", "async / published loop"),
    Headline("zero-cost", "nonbox", "manual (best)", "syscalls=off", "async / best loop"),
    Headline("zero-cost", "nonbox", "manual", "syscalls=on", "async / loop, with system calls"),
    Headline("zero-cost-sockets", "async", "manual", "live=256", "async / loop, on sockets"),
    Headline("ladder", "lean + box", "slab index", "live=3", "boxed / unboxed"),
    Headline("ladder", "Arc waker", "Rc waker", "live=3", "Arc waker / Rc waker"),
    Headline("ladder", "lean + mutex queue", "slab index", "live=3", "locked queue / plain queue"),
    Headline("zero-cost", "large+nonbox", "nonbox", "syscalls=off", "16 KiB futures / small ones"),
)


def declared(study: str, details: StudyInfo, version: int, keys: pl.DataFrame) -> pl.DataFrame:
    """The comparisons of a study in the order of declaration: the columns of `SCHEMA`.

    `details` is the study's part of a run.json of that schema `version`; `keys` (bench, variant, parameter) were
    measured or failed.
    """
    rows = []
    for entry in details.comparisons:
        repeated = (entry.variant, entry.parameter) == (entry.baseline_variant + CONTROL, entry.baseline_parameter)
        control = repeated and entry.variant in details.controls
        limit = details.groups[entry.group]
        rows.append((*entry.key, *entry.baseline, entry.group, entry.change, entry.unit, limit, control))
    own = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    return with_later(own, study, details.groups, keys) if version == 1 else own


def turned(frame: pl.DataFrame) -> pl.DataFrame:
    """The same comparisons in the other direction: key and baseline swapped."""
    return frame.rename(dict(zip(PAIR, (*BASE_KEY, *KEY), strict=True))).select(frame.columns)


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


def require_known(pairs: pl.DataFrame, keys: pl.DataFrame, path: Path) -> None:
    """Raises `DataError` for a comparison of a key that is not among `keys`; `path` is the file that the message
    names.
    """
    for names in (KEY, BASE_KEY):
        for row in pairs.join(keys, left_on=names, right_on=KEY, how="anti").head(1).iter_rows(named=True):
            problem = f"run.json compares {quoted(' / '.join(row[name] for name in names))}, which was neither measured nor failed"
            raise DataError(
                path, problem, "Restore run.json and the tables from where they were measured", column="bench"
            )


def with_later(own: pl.DataFrame, study: str, groups: Mapping[str, float], keys: pl.DataFrame) -> pl.DataFrame:
    """The comparisons of a run of version 1 with those of `keys` that its study has declared since, in the order of
    today.

    Each is in the group that the run gave to its key or baseline, else in its group of today if the run has that.
    """
    later = of_today().filter(study=study)
    base = own.select(*(pl.col(base).alias(name) for name, base in zip(KEY, BASE_KEY, strict=True)), "group")
    given = pl.concat([own.select(*KEY, "group"), base]).unique(KEY, keep="first", maintain_order=True)
    known = pl.concat([own.select(PAIR), turned(own.select(PAIR))])
    new = later.join(known, on=PAIR, how="anti")
    for names in (KEY, BASE_KEY):
        new = new.join(keys, left_on=names, right_on=KEY, how="semi")
    new = new.join(given, on=KEY, how="left", suffix="_of_key")
    new = new.join(given, left_on=BASE_KEY, right_on=KEY, how="left", suffix="_of_base")
    new = new.with_columns(group=pl.coalesce("group_of_key", "group_of_base", "group"))
    limits = pl.DataFrame({"group": list(groups), "limit": list(groups.values())})
    new = new.join(limits, on="group").with_columns(control=pl.lit(False)).select(*SCHEMA)
    known_now = own.drop("change", "unit").join(later.select(*PAIR, "change", "unit"), on=PAIR, how="left")
    order = later.select(PAIR).with_row_index("place")
    both = pl.concat([known_now.with_columns(pl.col("change", "unit").fill_null("")).select(*SCHEMA), new])
    return both.join(order, on=PAIR, how="left").sort("place", nulls_last=True, maintain_order=True).drop("place")


@lru_cache(maxsize=1)
def of_today() -> pl.DataFrame:
    """data/comparisons.csv."""
    return read_table(DATA / "comparisons.csv", ComparisonRows)
