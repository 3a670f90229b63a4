"""What many runs need of each: its comparisons and who measured it, made once for a run and kept next to its report.

It is keyed by the sizes and times of the run's files, which are looked up without opening them, so that a run that was
summarised before costs one small file.

    python -m async_cost.machines.summary < FOLDERS  # a list in JSON: makes and keeps their summaries
"""

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from async_cost import kept, words
from async_cost.errors import DataError
from async_cost.paths import report_folder, shown
from async_cost.runs.comparisons import DECLARED
from async_cost.runs.record import RunInfo, StudyInfo, check_clock
from async_cost.runs.run import open_run
from async_cost.statistics.judge import VERDICTS
from async_cost.statistics.table import CODE, Comparisons, comparisons

#: A finding is what is said about one pair: `variant` compared with `other`, which names the bench and the parameter of
#: the baseline where they are others.
FINDING = ("study", "bench", "variant", "other", "parameter")
#: Names of which a few thousand are repeated in millions of rows: a number in each, and the words once.
NAME = pl.Categorical()
RUNS = {
    "run": NAME,
    "machine": NAME,
    "cpu": pl.String,
    "cores": pl.Int64,
    "rustc": pl.String,
    "origin": pl.String,
    "profile": pl.String,
    "started": pl.String,
    "revision": pl.String,
}
STUDIES = {
    "run": NAME,
    "study": NAME,
    "trusted": pl.Boolean,
    "reason": pl.String,
    "rows": pl.Int64,
    "elapsed_ns": pl.Int64,
}
NUMBERS = dict.fromkeys(("ratio", "low", "high", "quantile"), pl.Float64) | {"episodes": pl.Int32, "verdict": VERDICTS}
#: No controls: that a baseline is as fast as itself is not a finding.
RATIOS = dict.fromkeys(("run", "machine", *FINDING), NAME) | NUMBERS
FILE = "summary.parquet"
#: Ends the name of a machine whose runs measured native programs.
NATIVE = " (native)"
#: This module as it was imported: a page may outlive an edit.
OWN = Path(__file__).read_bytes()
#: Reasons that are told of one study of a run, of which each control has its own.
MOST_REASONS = 2


@dataclass(frozen=True)
class Summary:
    """A run among others: `run` is its row of RUNS, `studies` are rows of STUDIES, `ratios` a table of RATIOS."""

    run: Mapping[str, object]
    studies: list[Mapping[str, object]]
    ratios: pl.DataFrame


def summary(folder: Path) -> Summary | str:
    """The summary of the run in `folder`, or why it cannot be used. Never raises because of what is in the folder."""
    try:
        if found := known([folder])[0]:
            return found
        before = place(folder, FILE)
        made = _made(folder)
        if before and place(folder, FILE) == before:
            kept.write(made.ratios, *before, run=made.run, studies=made.studies)
        return made
    except DataError as error:
        return str(error)
    except (OSError, pl.exceptions.PolarsError) as error:
        return f"{shown(folder)}: the run cannot be read ({type(error).__name__})"


def known(folders: Sequence[Path]) -> list[Summary | None]:
    """The summary of the run in each folder, if it was made before."""
    tables = kept.read_all([place(folder, FILE) for folder in folders], RATIOS)
    return [Summary(table[1]["run"], table[1]["studies"], table[0]) if table else None for table in tables]


def place(folder: Path, name: str, depends_on: bytes = b"") -> tuple[Path, str] | None:
    """File and key of what is kept of the run in `folder`; None if the run has no report, or cannot be read.

    The key is a hash of what the summary depends on: names, sizes and times of the run's files and of what studies
    declare today, our code, and `depends_on`.
    """
    digest = hashlib.sha256(CODE.encode() + OWN + depends_on)
    with suppress(OSError):
        if report := report_folder(folder):
            declared = (path for path in DECLARED if path.is_file())
            for path in (*declared, *sorted(folder.iterdir())):
                status = path.stat()
                digest.update(f"{path.name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
            return report / name, digest.hexdigest()
    return None


def _made(folder: Path) -> Summary:
    run = open_run(folder)
    check_clock(folder / "run.json", run.info)
    table = comparisons(run)
    for name, elapsed_ns in table.elapsed_ns.items():
        _check_elapsed(folder, name, run.info.studies[name], elapsed_ns)
    machine = _machine(run.info)
    row = dict(zip(RUNS, _run_row(run.info), strict=True))
    names = {"run": pl.lit(run.info.run_id), "machine": pl.lit(machine)}
    ratios = (
        _findings(table.frame.drop_nulls("ratio").remove("control")).with_columns(**names).select(*RATIOS).cast(RATIOS)
    )
    if ratios.select(FINDING).is_duplicated().any():
        problem = "two comparisons of one variant with the same other under one parameter cannot be told apart"
        raise DataError(
            folder / "run.json", problem, "Give them different names and measure again", column="comparisons"
        )
    return Summary(row, [_study_row(run.info.run_id, name, table) for name in table.rows], ratios)


def _check_elapsed(folder: Path, name: str, details: StudyInfo, elapsed_ns: int) -> None:
    """All samples were taken one after another between start and end."""
    if details.ended is None:
        return
    lasted = words.seconds_between(details.started, details.ended) + 1  # both are cut to whole seconds
    if elapsed_ns > lasted * 1e9:
        problem = f"the samples of {name} took {elapsed_ns / 1e9:.0f} s together, in {lasted - 1:.0f} s by the clock"
        raise DataError(
            folder / "run.json", problem, "Set the clock of the machine and measure again", column="studies"
        )


def _findings(table: pl.DataFrame) -> pl.DataFrame:
    """The table with `other`: the baseline's variant, its bench where that is another one than its name, its parameter
    where that differs.
    """
    other, bench, parameter = (pl.col(f"baseline_{name}") for name in ("variant", "bench", "parameter"))
    elsewhere = (bench != pl.col("bench")) & ~bench.str.starts_with(other)
    named = pl.when(elsewhere).then(pl.format("{} in {}", other, bench)).otherwise(other)
    changed = parameter != pl.col("parameter")
    shown = pl.when(parameter == "").then(pl.lit("no parameter")).otherwise(parameter)
    return table.with_columns(other=pl.when(changed).then(pl.format("{} ({})", named, shown)).otherwise(named))


def _study_row(run: str, name: str, table: Comparisons) -> dict[str, object]:
    frame = table.of(name)
    trusted = bool(frame["doubt"].is_null().any())
    return dict(
        zip(STUDIES, (run, name, trusted, _reason(frame), table.rows[name], table.elapsed_ns[name]), strict=True)
    )


def _reason(table: pl.DataFrame) -> str:
    """Why not all groups of a study are evidence; empty if they are."""
    if table.is_empty():
        return "no comparisons"
    groups = table.sort(pl.col("doubt").is_not_null(), maintain_order=True).unique(
        "group", keep="first", maintain_order=True
    )
    doubts = groups["doubt"].drop_nulls()
    kinds = doubts.unique(maintain_order=True).to_list()
    more = [words.counted(len(kinds) - MOST_REASONS, "other reason")] if len(kinds) > MOST_REASONS else []
    told = ", ".join([*kinds[:MOST_REASONS], *more])
    return f"in {doubts.len()} of {groups.height} groups: {told}" if 0 < doubts.len() < groups.height else told


def _machine(info: RunInfo) -> str:
    """The machine of a run. Native programs and cells are compiled differently, so their runs count as different
    machines.
    """
    return info.machine.name + (NATIVE if info.origin == "native" else "")


def _run_row(info: RunInfo) -> tuple:
    machine = info.machine
    return (
        info.run_id,
        _machine(info),
        machine.cpu,
        machine.logical_cores,
        info.toolchain.rustc,
        info.origin,
        info.profile,
        info.started,
        info.git.revision if info.git else None,
    )


if __name__ == "__main__":
    for folder in json.load(sys.stdin):
        summary(Path(folder))
