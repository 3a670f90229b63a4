"""Find and open runs: the newest, the reference, one by its folder. A run is joined with the others of its series."""

import os
import re
from pathlib import Path
from typing import NamedTuple

from async_cost.errors import DataError
from async_cost.paths import repository_root, runs_root
from async_cost.runs.run import Run
from async_cost.runs.series import open_run

#: The first run of a series, how many sittings it will have, and when that was decided; and how many it had when
#: something else than their results ended it, and what.
ANNOUNCEMENT = re.compile(r"(\S+/\d{8}T\d{6}Z) ([1-9]\d*) \d{8}T\d{6}Z(?: ended with ([1-9]\d*): (.+))?")


class Announced(NamedTuple):
    """How many sittings a series was to have, and how many it has; why, if these are fewer."""

    sittings: int
    ended_with: int
    why: str = ""


def announced(run: Run) -> Announced | None:
    """Return how many sittings this series was to have, as data/runs/ANNOUNCED says; None if it says nothing."""
    file = runs_root() / "ANNOUNCED"
    for number, line in enumerate(file.read_text(encoding="utf-8-sig").splitlines() if file.exists() else [], 1):
        parts = ANNOUNCEMENT.fullmatch(line)
        if not parts:
            remedy = (
                "A line reads <first run> <number of sittings> <time in UTC, as 20260131T120000Z>, and if the series was "
                "not completed, goes on: ended with <number>: <why>"
            )
            raise DataError(file, "this is no announcement", remedy, row=number)
        first, sittings, ended, why = parts.groups()
        if first == run.info.run_id:
            return Announced(int(sittings), int(ended or sittings), why or "")
    return None


def not_as_announced(run: Run) -> str | None:
    """Say why a series is not judged yet, or no longer: if one looks, and then measures until a claim is decided, the
    result is wrong more often than an interval says.
    """
    announcement, measured = announced(run), len(run.sittings)
    if announcement is None or measured == announcement.ended_with:
        return None
    if measured < announcement.ended_with:
        return f"{measured} of {announcement.sittings} announced sittings"
    return f"{measured} sittings, not {announcement.ended_with} as announced"


def find_runs(root: Path | None = None) -> list[Path]:
    """Return the folders `<machine>/<utc-time>` under `root` (default data/runs), newest first. Nothing is opened.

    Folders whose name starts with a dot hold unfinished runs and are left out.
    """
    root = runs_root() if root is None else Path(root)
    folders = [run for run in root.glob("[!.]*/[!.]*") if run.is_dir()]
    return sorted(folders, key=lambda run: (run.name, run.parent.name), reverse=True)


def _referenced() -> list[str]:
    file = runs_root() / "REFERENCE"
    return file.read_text(encoding="utf-8-sig").split() if file.exists() else []


def reference() -> str:
    """Return the id of the first of the committed runs that data/runs/REFERENCE lists; nothing where that file is
    missing.
    """
    return next(iter(_referenced()), "")


def reference_run() -> Run:
    """Return the series of these runs. Raises `DataError` if it has others, or lacks one."""
    ids, file = _referenced(), runs_root() / "REFERENCE"
    run = open_run(runs_root() / ids[0])
    sittings = [sitting.info.run_id for sitting in run.sittings]
    if sittings != ids:
        problem = f"the series consists of {', '.join(sittings)}"
        raise DataError(file, problem, "List all of its runs, one per line, the first one first")
    return run


def choose_run(study: str | None = None, instead: str | None = None) -> Run:
    """Return the run that the environment variable ASYNC_COST_RUN names, a folder below the root of the repository or
    anywhere, else the newest one that contains `study`, of a series that has all its announced sittings if there is
    one; any study if that is None.

    A notebook that can do without `study` names another one to use `instead` if `study` is missing. Raises
    `DataError` if there is no run, or if the one to be read is damaged: an older run never replaces it silently.
    """
    wanted = [study, instead] if instead else [study]
    if named := os.environ.get("ASYNC_COST_RUN"):
        run = open_run(repository_root() / named)
        if study is not None:
            run.study(next((name for name in wanted if name in run.info.studies), study))
        return run
    for name in wanted:
        lacking = None
        for path in find_runs():
            run = open_run(path)
            if name is None or name in run.info.studies:
                if not not_as_announced(run):
                    return run
                lacking = lacking or run
        if lacking:
            return lacking
    sought = "no run" if study is None else f"no run of {study}"
    raise DataError(runs_root(), f"there is {sought}", "Measure one with `make report`, or set ASYNC_COST_RUN")


def load_run(path: Path) -> Run:
    """Open a run, and read and check every table."""
    return open_run(path).checked()
