"""The one table of comparisons: a row for each, from the raw samples of a run to a verdict.

It covers the whole run, since the controls of all its studies correct and are tested together. It is derived (see
`derived`), so it is never committed. Pages, claims, the runs of other machines and the headline are joins on it.
"""

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import polars as pl

from async_cost import derived
from async_cost.paths import report_folder
from async_cost.runs.comparisons import DECLARED, SCHEMA
from async_cost.runs.run import Run, open_run
from async_cost.statistics.closing import to_decide
from async_cost.statistics.interval import chances, estimates, medians
from async_cost.statistics.judge import VERDICTS, judged
from async_cost.statistics.ratios import enough_episodes, paired
from async_cost.statistics.trials import compared, trial_times

PACKAGE = Path(__file__).parents[1]
#: The columns of the table, in their order.
COLUMNS = (
    {"study": pl.String}
    | SCHEMA
    | {"kind": pl.String}
    | dict.fromkeys(("ratio", "low", "high", "q1", "q3"), pl.Float64)
    | dict.fromkeys(("rounds", "episodes"), pl.Int64)
    | dict.fromkeys(("quantile", "added_ns", "added_low", "added_high", "smallest", "chance", "bias"), pl.Float64)
    | {"doubt": pl.String, "verdict": VERDICTS, "to_decide": pl.String}
)
#: The number of a pair in the run: grouped faster than the words of its name. All studies are estimated at once: the
#: small steps of each would take longer than the samples.
BY = ("pair",)
#: What is estimated for each pair, on a logarithmic scale.
NUMBERS = (
    {"pair": pl.UInt32}
    | dict.fromkeys(("log_ratio", "low", "high", "q1", "q3"), pl.Float64)
    | dict.fromkeys(("rounds", "episodes"), pl.Int64)
    | dict.fromkeys(("quantile", "added_ns", "added_low", "added_high", "unit_ns", "chance"), pl.Float64)
)
#: A table also depends on the code of these packages, in the version that was imported: a page may outlive an edit.
CODE = hashlib.sha256(
    b"\0".join(path.read_bytes() for room in ("runs", "statistics") for path in sorted((PACKAGE / room).glob("*.py")))
    + pl.__version__.encode()
).hexdigest()


@dataclass(frozen=True)
class Comparisons:
    """The table of a run, and by study how many samples (`rows`) it was computed from, and their total time
    `elapsed_ns`.

    Columns of `frame`, study by study in the order of declaration: study; those of `runs.comparisons.SCHEMA`; kind (of
    the group); ratio (time of the key over that of its baseline), low, high (its interval: `interval.estimates`, as the
    controls correct it), q1, q3 (quartiles over rounds); rounds, episodes (processes that measured them); quantile
    (half the width of the interval in standard errors); added_ns, added_low, added_high (what it adds to one unit of
    work); smallest (the least slowdown that would have been called slower); chance, bias, doubt, verdict
    (`judge.judged`); to_decide (what would decide it, null if it is decided). A key that failed has a row without
    numbers.
    """

    frame: pl.DataFrame
    rows: Mapping[str, int]
    elapsed_ns: Mapping[str, int]

    def of(self, study: str) -> pl.DataFrame:
        """The rows of one study."""
        return self.frame.filter(study=study)


def comparisons(run: Run) -> Comparisons:
    """The table of `run`: read if the same code made it from the same files before, else made."""
    return _of_files(run.path, key_of(run.path))


@lru_cache(maxsize=8)
def _of_files(folder: Path, key: str) -> Comparisons:
    """The table of the run in `folder`, whose files have this `key`: each page wants it study by study."""
    place = place_of(folder, "comparisons")
    if (about := derived.about(place)) and (frame := derived.read(place, COLUMNS)) is not None:
        return Comparisons(frame, about["rows"], about["elapsed_ns"])
    made = make(open_run(folder))  # the files as they are now, whatever was read of them before
    if key_of(folder) == key:
        derived.write(made.frame, place, rows=made.rows, elapsed_ns=made.elapsed_ns)
    return made


def key_of(folder: Path, depends_on: bytes = b"") -> str:
    """Hash of what is computed of the run in `folder`: by names, sizes and times its files and what studies declare
    today, and by content our code and `depends_on`. Raises OSError if the folder cannot be read.
    """
    digest = hashlib.sha256(CODE.encode() + depends_on)
    for path in (*filter(Path.is_file, DECLARED), *sorted(folder.iterdir())):
        status = path.lstat()
        digest.update(f"{path.name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def place_of(folder: Path, name: str, depends_on: bytes = b"") -> derived.Place | None:
    """Where the derived table `name` of the run in `folder` is; None if the run has no report, or cannot be read."""
    with suppress(OSError):
        if report := report_folder(folder):
            return report / f"{name}.parquet", key_of(folder, depends_on)
    return None


def make(run: Run) -> Comparisons:
    """The table, computed from the raw samples."""
    parts = list[tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]]()
    rows, elapsed_ns = {}, {}
    for study in run.info.studies:
        alone = replace(
            run, _read=dict(run._read)
        )  # the samples of one study are let go before those of the next are read
        time = alone.time(study)
        alone.metrics(study)  # a run is used entirely or not at all
        rows[study], elapsed_ns[study] = time.height, time["elapsed_ns"].sum()
        parts.append(_paired(alone, study, sum(declared.height for declared, *_ in parts)))
    half = (pl.col("high") / pl.col("low")).sqrt()
    estimated = _estimated(*(pl.concat(some) for some in zip(*parts, strict=True)))
    frame = judged(estimated, run.info.profile).with_columns(smallest=half * (1 + pl.col("limit")) - 1)
    frame = frame.with_columns(to_decide(frame, {study: run.seconds(study) for study in run.info.studies}))
    return Comparisons(frame.select(*COLUMNS), rows, elapsed_ns)


def _paired(run: Run, study: str, first: int) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """The comparisons of a study, with the kind of their group and their number in the run, from `first` on; their
    rounds; and the values that their intervals rest on.
    """
    kinds, units = run.study(study).kinds, run.units(study)
    kind = pl.col("group").replace_strict(kinds, return_dtype=pl.String)
    declared = run.comparisons(study).with_row_index("pair", first).with_columns(study=pl.lit(study), kind=kind)
    trials = trial_times(run.whole_time(study))
    rounds = paired(trials, declared, units, BY)
    rounds = rounds.filter(pl.len().over(BY) > 1)  # one round has no interval
    values = enough_episodes(paired(compared(trials, kinds.values()), declared, units, BY), rounds, BY)
    return declared, rounds, values.join(declared.select(*BY, "looks"), on=BY)


def _estimated(declared: pl.DataFrame, rounds: pl.DataFrame, values: pl.DataFrame) -> pl.DataFrame:
    """The comparisons of a run with their numbers, before any correction by controls: the input of `judge.judged`."""
    found = estimates(values, "log_ratio", BY).drop("q1", "q3", "rounds")
    spread = medians(rounds, "log_ratio", BY).select(*BY, "q1", "q3", "rounds")
    added = estimates(values, "added_ns", BY).select(*BY, "added_ns", added_low="low", added_high="high")
    time = rounds.group_by(BY).agg(unit_ns=pl.col("ns").median())
    controls = declared.filter("control").select(BY)
    chance = chances(values.join(controls, on=BY, how="semi"), "log_ratio", BY)
    for more in (spread, added, time, chance):
        found = found.join(more, on=BY, how="left")
    found = pl.concat([pl.DataFrame(schema=NUMBERS), found.select(*NUMBERS)])
    found = found.with_columns(pl.col("log_ratio", "low", "high", "q1", "q3").exp()).rename({"log_ratio": "ratio"})
    return declared.join(found, on=BY, how="left", maintain_order="left")
