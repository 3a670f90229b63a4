"""Find and open runs: the newest, the reference, one by its folder. A run is joined with the others of its series."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from async_cost.errors import DataError
from async_cost.paths import repository_root, runs_root
from async_cost.runs.run import Run
from async_cost.runs.series import open_run

#: A machine, a profile, how many sittings its next series will have, and when that was decided; and how many it had
#: when something else than their results ended it, and what.
ANNOUNCEMENT = re.compile(r"(\S+) (\S+) ([1-9]\d*) (\d{8}T\d{6}Z)(?: ended with ([1-9]\d*): (.+))?")
#: In a run.json, the command of the first run of a series of all studies and variants: `STUDIES=` and `ONLY=` leave
#: some out, and `RUN=` adds a sitting to a series.
OF_ALL = re.compile(rb'"command": "make \w+(?: PROFILE=\w+)?(?: NATIVE=1)?(?: SINGLY=1)?"')


class Announced(NamedTuple):
    """How many sittings a series was to have, and how many it has; why, if these are fewer."""

    sittings: int
    ended_with: int
    why: str = ""


def announced(run: Run) -> Announced | None:
    """Return how many sittings this series was to have: by the line of data/runs/ANNOUNCED about its machine and
    profile of which it is the first series since. None where nothing was announced, for a run of some studies or
    variants, and for one that lies elsewhere.
    """
    file, announcement = runs_root() / "ANNOUNCED", None
    if run.path.resolve().parents[1] != runs_root().resolve():
        return None  # of another user, on a machine of the same name
    started, series_of = run.info.run_id.rpartition("/")[2], {sitting.path.name for sitting in run.sittings}
    for number, line in enumerate(file.read_text(encoding="utf-8-sig").splitlines() if file.exists() else [], 1):
        parts = ANNOUNCEMENT.fullmatch(line)
        if not parts:
            remedy = (
                "A line reads <machine> <profile> <number of sittings> <time in UTC, as 20260131T120000Z>, and if the "
                "series was not completed, goes on: ended with <number>: <why>"
            )
            raise DataError(file, "this is no announcement", remedy, row=number)
        machine, profile, sittings, when, ended, why = parts.groups()
        announces = (machine, profile) == (run.info.machine.name, run.info.profile) and when <= started
        if announces and _may_be_announced(run.path, profile):
            since = {path.name for path in run.path.parent.glob("[0-9]*Z") if when <= path.name < started} - series_of
            # A later series is not the announced one: it may be of another user, on a machine of the same name.
            later = any(_may_be_announced(run.path.with_name(name), profile) for name in since)
            announcement = None if later else Announced(int(sittings), int(ended or sittings), why or "")
    return announcement


def _may_be_announced(folder: Path, profile: str) -> bool:
    """Whether a run begins a series of all studies and variants in this profile; not so if it cannot be read."""
    with suppress(OSError):
        content = (folder / "run.json").read_bytes() if (folder / "run.json").is_file() else b""
        return f'"profile": "{profile}"'.encode() in content and OF_ALL.search(content) is not None
    return False


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
    anywhere, else the newest one that contains `study`; any run if that is None.

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
        for path in find_runs():
            run = open_run(path)
            if name is None or name in run.info.studies:
                return run
    sought = "no run" if study is None else f"no run of {study}"
    raise DataError(runs_root(), f"there is {sought}", "Measure one with `make report`, or set ASYNC_COST_RUN")


def load_run(path: Path) -> Run:
    """Open a run, and read and check every table."""
    return open_run(path).checked()
