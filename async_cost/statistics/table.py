"""The one table of comparisons: a row for each, from the raw samples of a run to a word.

It is derived, so it is never committed; it is kept beside the run's report, one Parquet file a study, under a key made of everything
that it follows from. Pages, claims, fleets and the headline are joins on it.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import polars as pl

from async_cost.paths import report_folder, repository_root
from async_cost.runs.comparisons import PAIR, SCHEMA
from async_cost.runs.run import Run
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
#: A table follows from the code of these rooms, too.
ROOMS = ("runs", "statistics")


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
    key, file = _key(run, study), _file(run, study)
    try:
        kept = json.loads(pl.read_parquet_metadata(file).get("async-cost", "{}")) if file and file.exists() else {}
        if kept.get("key") == key:
            return Comparisons(pl.read_parquet(file), kept["rows"], kept["elapsed_ns"])
    except (OSError, ValueError, pl.exceptions.PolarsError):
        pass  # it is only a copy: what cannot be read is made again
    made = make(run, study)
    if file:
        about = {"key": key, "rows": made.rows, "elapsed_ns": made.elapsed_ns}
        _keep(made.frame, file, {"async-cost": json.dumps(about)})
    return made


def make(run: Run, study: str) -> Comparisons:
    """The table, computed from the raw samples."""
    time, declared = run.time(study), run.comparisons(study)
    rounds = paired(trial_times(run.whole_time(study)), declared, run.units(study))
    of_group = declared.select(
        *PAIR, together=pl.when("control").then(pl.col("control").sum().over("group")).otherwise(1)
    )
    parts = []
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


def _file(run: Run, study: str) -> Path | None:
    """Where the table is kept; None for a run without a report."""
    report = report_folder(run.path)
    return report and report / "comparisons" / f"{study}.parquet"


def _key(run: Run, study: str) -> str:
    """Hash of the run's record, the tables of the study, what studies declare today, and the code between them and the table."""
    digest = hashlib.sha256(_code().encode())
    tables = (run.file(study, lens) for lens in ("time", "counts"))
    for path in (run.path / "run.json", *tables, repository_root() / "data" / "comparisons.csv"):
        digest.update(path.read_bytes() if path.is_file() else b"")
        digest.update(b"\0")
    return digest.hexdigest()


@lru_cache(maxsize=1)
def _code() -> str:
    files = sorted(path for room in ROOMS for path in (PACKAGE / room).glob("*.py"))
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def _keep(frame: pl.DataFrame, file: Path, metadata: dict[str, str]) -> None:
    """Writes the file at once or not at all; pages that are made side by side may make the same one."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_suffix(f".{os.getpid()}.partial")
    frame.write_parquet(partial, metadata=metadata)
    os.replace(partial, file)
