"""The one table of comparisons: a row for each, from the raw samples of a run to a word.

It is derived, so it is never committed; it is kept beside the run's report, one Parquet file a study, under a key made of everything
that it follows from. Pages, claims, fleets and the headline are joins on it.
"""

import contextlib
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from async_cost.paths import report_folder, repository_root
from async_cost.runs.comparisons import PAIR, SCHEMA
from async_cost.runs.run import Run, open_run
from async_cost.statistics.interval import CONFIDENCE, estimates
from async_cost.statistics.judge import VERDICTS, judged
from async_cost.statistics.ratios import paired
from async_cost.statistics.trials import trial_times

PACKAGE = Path(__file__).parents[1]
#: The columns of the table, in their order.
COLUMNS = (
    {"study": pl.String}
    | SCHEMA
    | dict.fromkeys(("ratio", "low", "high", "q1", "q3"), pl.Float64)
    | dict.fromkeys(("rounds", "episodes"), pl.Int64)
    | dict.fromkeys(("added_ns", "added_low", "added_high", "smallest", "bias"), pl.Float64)
    | {"doubt": pl.String, "verdict": VERDICTS}
)
#: What `estimates` finds of each pair, by way of logarithms.
NUMBERS = (
    dict.fromkeys(PAIR, pl.String)
    | dict.fromkeys(("log_ratio", "low", "high", "q1", "q3"), pl.Float64)
    | {"rounds": pl.Int64}
    | dict.fromkeys(("added_ns", "added_low", "added_high"), pl.Float64)
)
#: A table follows from the code of these rooms, too: as it was imported, for a page may outlive an edit.
CODE = hashlib.sha256(
    b"\0".join(path.read_bytes() for room in ("runs", "statistics") for path in sorted((PACKAGE / room).glob("*.py")))
    + pl.__version__.encode()
).hexdigest()


@dataclass(frozen=True)
class Comparisons:
    """The table of one study, and of how many samples (`rows`) it is made, which took `elapsed_ns` together.

    Columns of `frame`, in the order of declaration: study; those of `runs.comparisons.SCHEMA`; ratio (time of the key over that of its baseline,
    median over rounds), low, high (its interval), q1, q3 (quartiles over rounds); rounds, episodes (processes that measured them);
    added_ns, added_low, added_high (what it adds to one unit of work); smallest (the least share by which it would have had to be slower
    to be called so); bias, doubt, verdict (`judge.judged`). What failed has a row without numbers.
    """

    frame: pl.DataFrame
    rows: int
    elapsed_ns: int

    @property
    def measured(self) -> pl.DataFrame:
        """The rows with numbers."""
        return self.frame.drop_nulls("ratio")


def comparisons(run: Run, study: str) -> Comparisons:
    """The table of `study`: read if it was made before of the very same run by the same code, else made, and kept."""
    key, report = _key(run, study), report_folder(run.path)
    if report is None:
        return make(run, study)
    file = report / "comparisons" / f"{study}.parquet"
    if kept := _kept(file, key):
        return kept
    made = make(open_run(run.path), study)  # of the files as they are now, whatever `run` has read of them before
    if _key(run, study) == key:
        _keep(made, file, key)
    return made


def make(run: Run, study: str) -> Comparisons:
    """The table, computed from the raw samples."""
    time, declared = run.time(study), run.comparisons(study)
    rounds = paired(trial_times(run.whole_time(study)), declared, run.units(study))
    rounds = rounds.filter(pl.len().over(PAIR) > 1)  # one round has no interval
    of_group = declared.select(
        *PAIR, together=pl.when("control").then(pl.col("control").sum().over("group")).otherwise(1)
    )
    parts = [pl.DataFrame(schema=NUMBERS)]
    for (number,), pairs in of_group.group_by("together", maintain_order=True):
        here = rounds.join(pairs, on=PAIR, how="semi")
        ratios = estimates(here, "log_ratio", PAIR, confidence=1 - (1 - CONFIDENCE) / number)
        added = estimates(here, "added_ns", PAIR).select(*PAIR, "added_ns", added_low="low", added_high="high")
        parts.append(ratios.join(added, on=PAIR))
    log = ("log_ratio", "low", "high", "q1", "q3")
    found = pl.concat(parts).with_columns(pl.col(log).exp()).rename({"log_ratio": "ratio"})
    half = (pl.col("high") / pl.col("low")).sqrt()
    frame = declared.join(found, on=PAIR, how="left", maintain_order="left").with_columns(
        study=pl.lit(study),
        episodes=pl.when(pl.col("rounds").is_not_null()).then(pl.lit(1, pl.Int64)),
        smallest=half * (1 + pl.col("limit")) - 1,
    )
    return Comparisons(judged(frame, run.info.profile).select(*COLUMNS), time.height, time["elapsed_ns"].sum())


def _key(run: Run, study: str) -> str:
    """Hash of the run's record, the tables of the study, what studies declare today, and the code between them and the table."""
    digest = hashlib.sha256(CODE.encode())
    tables = (run.file(study, lens) for lens in ("time", "counts"))
    for path in (run.path / "run.json", *tables, repository_root() / "data" / "comparisons.csv"):
        digest.update(path.read_bytes() if path.is_file() else b"")
        digest.update(b"\0")
    return digest.hexdigest()


def _kept(file: Path, key: str) -> Comparisons | None:
    """The table that was kept under `key`; None without one. It is only a copy: what cannot be read is made again."""
    try:
        about = json.loads(pl.read_parquet_metadata(file)["async-cost"])
        if about["key"] == key:
            frame = pl.read_parquet(file)
            return Comparisons(frame, about["rows"], about["elapsed_ns"]) if frame.schema == COLUMNS else None
    except (OSError, ValueError, KeyError, TypeError, pl.exceptions.PolarsError):
        pass
    return None


def _keep(made: Comparisons, file: Path, key: str) -> None:
    """Writes the file at once or not at all, on a full disk, say; pages that are made side by side may make the same one."""
    about = {"key": key, "rows": made.rows, "elapsed_ns": made.elapsed_ns}
    partial = file.with_suffix(f".{os.getpid()}.partial")
    with contextlib.suppress(OSError):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            made.frame.write_parquet(partial, metadata={"async-cost": json.dumps(about)})
            os.replace(partial, file)
        finally:
            partial.unlink(missing_ok=True)
