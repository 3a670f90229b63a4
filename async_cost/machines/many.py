"""Many runs compared; those that cannot be used are set aside, by name and with the reason.

Of each run its comparisons are read, which are those of its own pages, so that each has the same verdict in both
places, and who measured it: memory grows with the number of comparisons, not of samples.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from async_cost import words
from async_cost.errors import DataError, quoted
from async_cost.findings.committed import judged
from async_cost.paths import repository_root, shown
from async_cost.runs import series
from async_cost.runs.errata import without_changed
from async_cost.runs.find import find_runs, open_run
from async_cost.runs.reader import REMEASURE
from async_cost.runs.record import PROCESSOR
from async_cost.statistics.judge import VERDICTS
from async_cost.statistics.table import comparisons

#: What names a comparison: `other` is what `variant` is compared with, and names the bench and the parameter of the
#: baseline where they are others.
COMPARISON = ("study", "bench", "variant", "other", "parameter")
#: Names of which a few thousand are repeated in millions of rows: a number in each, and the words once.
NAME = pl.Categorical()
RUNS: dict[str, Any] = {"run": NAME, "machine": NAME, "cpu": pl.String, "cores": pl.Int64, "processor": pl.String}
RUNS |= dict.fromkeys(("rustc", "origin", "profile", "started", "revision"), pl.String)
STUDIES: dict[str, Any] = {"run": NAME, "study": NAME, "trusted": pl.Boolean, "reason": pl.String, "rows": pl.Int64}
STUDIES |= {"elapsed_ns": pl.Int64}
ASIDE = {"run": pl.String, "reason": pl.String}
#: Without controls.
RATIOS: dict[str, Any] = dict.fromkeys(("run", "machine", *COMPARISON), NAME)
RATIOS |= dict.fromkeys(("ratio", "low", "high"), pl.Float64) | {"verdict": VERDICTS}
#: Ends the name of a machine whose runs measured native programs, which are compiled differently.
NATIVE = " (native)"
#: Reasons that are given of one study of a run, of which each control has its own.
MOST_REASONS = 2


@dataclass(frozen=True)
class ManyRuns:
    """What a number of runs say.

    `runs`: the columns RUNS; revision is that of the sources. `studies`: the columns STUDIES; trusted (in one group of
    comparisons at least), reason (why it is not, or not in all), rows (samples read), elapsed_ns (their time).
    `ratios`: the columns RATIOS; verdict is null where the run is no evidence for that group; controls are left out,
    and keys that name another program today. `aside`: run, reason, both text from outside. `folders` are those of the
    runs.
    """

    folders: Mapping[str, Path]
    runs: pl.DataFrame
    studies: pl.DataFrame
    ratios: pl.DataFrame
    aside: pl.DataFrame


@dataclass(frozen=True)
class Summary:
    """One of many runs: `run` is its row of RUNS, `studies` are its rows of STUDIES, `ratios` its table of RATIOS."""

    run: Mapping[str, object]
    studies: Sequence[Mapping[str, object]]
    ratios: pl.DataFrame


def candidate_folders() -> list[Path]:
    """Return the runs to compare: those that ASYNC_COST_COMPARE names (separated as in PATH), else all that there are
    and the one of ASYNC_COST_RUN, which may lie elsewhere; with ASYNC_COST_COMMITTED, of these the committed series.
    """
    named = os.environ.get("ASYNC_COST_COMPARE")
    here = [run] if (run := os.environ.get("ASYNC_COST_RUN")) else []
    folders = [Path(name) for name in (named.split(os.pathsep) if named else [*here, *map(str, find_runs())])]
    if os.environ.get("ASYNC_COST_COMMITTED"):
        known = set(judged()["series"])
        folders = [folder for folder in folders if "/".join(folder.parts[-2:]) in known]
    return list(dict.fromkeys((repository_root() / folder).resolve() for folder in folders))


def read_many(folders: Sequence[Path]) -> ManyRuns:
    """Read all runs, in the given order. Never raises because of what is in a folder: see `ManyRuns.aside`."""
    # The sittings of a series are one run.
    folders = list(dict.fromkeys(series.folders(folder)[0] if folder.is_dir() else folder for folder in folders))
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        runs, aside = _without_copies(dict(zip(folders, threads.map(_summary, folders), strict=True)))
    return ManyRuns(
        folders={str(run.run["run"]): folder for folder, run in runs.items()},
        runs=pl.DataFrame([run.run for run in runs.values()], schema=RUNS),
        studies=pl.DataFrame([study for run in runs.values() for study in run.studies], schema=STUDIES),
        ratios=without_changed(pl.concat([pl.DataFrame(schema=RATIOS), *(run.ratios for run in runs.values())])),
        aside=pl.DataFrame(aside, schema=ASIDE, orient="row"),
    )


def _summary(folder: Path) -> Summary | str:
    """The run in `folder` among others, or why it cannot be used. Never raises because of what is in the folder."""
    try:
        return _read(folder)
    except DataError as error:
        return str(error)
    except (OSError, pl.exceptions.PolarsError) as error:
        return f"{shown(folder)}: the run cannot be read ({type(error).__name__})"


def _read(folder: Path) -> Summary:
    run = open_run(folder)
    info = run.info
    table = comparisons(run)
    row = {
        "run": info.run_id,
        "machine": info.machine.name + (NATIVE if info.origin == "native" else ""),
        "cpu": info.machine.cpu,
        "cores": info.machine.logical_cores,
        "processor": "; ".join(str(getattr(info.machine, name)) for name in PROCESSOR),
        "rustc": info.toolchain.rustc,
        **{name: getattr(info, name) for name in ("origin", "profile", "started")},
        "revision": info.git.revision if info.git else None,
    }
    names = {name: pl.lit(row[name]) for name in ("run", "machine")}
    ratios = _named(table.frame.drop_nulls("ratio").remove("control")).with_columns(**names)
    ratios = ratios.select(*RATIOS).cast(pl.Schema(RATIOS))
    studies = [
        {"run": row["run"], "study": name, "rows": rows, "elapsed_ns": table.elapsed_ns[name]} | _trust(table.of(name))
        for name, rows in table.rows.items()
    ]
    return Summary(row, studies, ratios)


def _without_copies(outcomes: Mapping[Path, Summary | str]) -> tuple[dict[Path, Summary], list[tuple[str, str]]]:
    """Runs in the given order, and what is set aside.

    Two runs with one id, or with the very same samples, are one run and its copy, and a machine of another processor
    than the first of its name is another machine: the oldest run counts.
    """
    aside = {folder: outcome for folder, outcome in outcomes.items() if isinstance(outcome, str)}
    runs = {folder: outcome for folder, outcome in outcomes.items() if isinstance(outcome, Summary)}
    samples, processors, names = dict[tuple, str](), dict[str, object](), set[str]()
    for folder, summary in sorted(
        runs.items(), key=lambda item: (str(item[1].run["started"]), str(item[1].run["run"]))
    ):
        run, processor = str(summary.run["run"]), summary.run["processor"]
        mine = {(study["study"], study["rows"], study["elapsed_ns"]): run for study in summary.studies}
        original = next((samples[key] for key in mine if key in samples), None)
        if run in names:
            problem = f"another folder holds a run of the same id {quoted(run)}"
        elif original is not None:
            problem = f"holds the same samples as run {original}. {REMEASURE}"
        elif processors.setdefault(str(summary.run["machine"]).removesuffix(NATIVE), processor) != processor:
            problem = (
                "an older run of a machine of this name is from another processor. Give this machine another name, for "
                "machine.name, run_id and the folder, or measure with ASYNC_COST_MACHINE=<name>"
            )
        else:
            names.add(run)
            samples |= mine
            continue
        aside[folder] = f"{shown(folder)}: {problem}"
    reasons = [("/".join(folder.parts[-2:]), reason) for folder, reason in aside.items()]
    return {folder: run for folder, run in runs.items() if folder not in aside}, reasons


def _named(table: pl.DataFrame) -> pl.DataFrame:
    """Add a column `other`: the baseline's variant, its bench where that is another one than its name, its parameter
    where that differs.
    """
    other, bench, parameter = (pl.col(f"baseline_{name}") for name in ("variant", "bench", "parameter"))
    elsewhere = (bench != pl.col("bench")) & ~bench.str.starts_with(other)
    named = pl.when(elsewhere).then(pl.format("{} in {}", other, bench)).otherwise(other)
    changed = parameter != pl.col("parameter")
    shown = pl.when(parameter == "").then(pl.lit("no parameter")).otherwise(parameter)
    return table.with_columns(other=pl.when(changed).then(pl.format("{} ({})", named, shown)).otherwise(named))


def _trust(table: pl.DataFrame) -> dict[str, object]:
    """Return whether a study is trusted in one of its groups, and why it is not in all of them."""
    groups = table.group_by("group", maintain_order=True).agg(
        pl.col("doubt").sort_by(pl.col("doubt").is_not_null(), maintain_order=True).first()
    )
    doubts = groups["doubt"].drop_nulls()
    kinds = doubts.unique(maintain_order=True).to_list()
    more = [words.counted(len(kinds) - MOST_REASONS, "other reason")] if len(kinds) > MOST_REASONS else []
    reason = ", ".join([*kinds[:MOST_REASONS], *more]) if groups.height else "no comparisons"
    if 0 < doubts.len() < groups.height:
        reason = f"in {doubts.len()} of {groups.height} groups: {reason}"
    return {"trusted": doubts.len() < groups.height, "reason": reason}
