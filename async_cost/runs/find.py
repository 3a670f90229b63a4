"""Find and open runs: the newest, the reference, one by its folder. A run is joined with the others of its series."""

import os
from collections.abc import Mapping
from pathlib import Path

from async_cost.errors import DataError
from async_cost.paths import runs_root
from async_cost.runs import series
from async_cost.runs.run import Run


def announced(machine: str, profile: str) -> int | None:
    """How many sittings a series of this machine and profile will have, by the last line about them in
    data/runs/ANNOUNCED, which is written before the first is measured; None where nothing was.
    """
    file = runs_root() / "ANNOUNCED"
    lines = map(str.split, file.read_text(encoding="utf-8").splitlines() if file.exists() else [])
    numbers = [number for *about, number in filter(None, lines) if about == [machine, profile]]
    if not all(map(str.isdecimal, numbers)):
        raise DataError(
            file, f"{machine} {profile}: no number of sittings", "A line reads <machine> <profile> <number>"
        )
    return int(numbers[-1]) if numbers else None


def find_runs(root: Path | None = None) -> list[Path]:
    """The folders `<machine>/<utc-time>` under `root` (default data/runs), newest first. Nothing is opened.

    Folders whose name starts with a dot hold unfinished runs and are left out.
    """
    root = runs_root() if root is None else Path(root)
    folders = [
        run
        for machine in (root.iterdir() if root.is_dir() else ())
        if machine.is_dir() and not machine.name.startswith(".")
        for run in machine.iterdir()
        if run.is_dir() and not run.name.startswith(".")
    ]
    return sorted(folders, key=lambda run: (run.name, run.parent.name), reverse=True)


def _referenced() -> list[str]:
    file = runs_root() / "REFERENCE"
    return file.read_text(encoding="utf-8").split() if file.exists() else []


def reference() -> str:
    """The id of the first of the committed runs that data/runs/REFERENCE lists; nothing where that file is missing."""
    return next(iter(_referenced()), "")


def reference_run() -> Run:
    """The series of these runs (`series.checked_reference`)."""
    return series.checked_reference(_referenced(), runs_root())


def choose_run(
    study: str | None = None,
    environ: Mapping[str, str] = os.environ,
    root: Path | None = None,
    instead: str | None = None,
) -> Run:
    """The run that the environment variable ASYNC_COST_RUN names, else the newest one that contains `study`; any run if
    that is None.

    A notebook that can do without `study` names another one to use `instead` if `study` is missing. Raises
    `DataError` if there is no run, or if the one to be read is damaged: an older run never replaces it silently.
    """
    wanted = [study] if instead is None else [study, instead]
    if named := environ.get("ASYNC_COST_RUN"):
        run = open_run(Path(named))
        if study is not None:
            run.study(next((held for held in wanted if held in run.info.studies), study))
        return run
    for name in wanted:
        for path in find_runs(root):
            run = open_run(path)
            if name is None or name in run.info.studies:
                return run
    searched = runs_root() if root is None else root
    sought = "no run" if study is None else f"no run of {study}"
    raise DataError(searched, f"{sought} is here", "Measure one with `make report`, or set ASYNC_COST_RUN")


def open_run(path: Path) -> Run:
    """The run in folder `path`, joined with the others of its series (`runs.series`), with each run.json read and
    checked. Raises `DataError` if one is damaged, not finished, or belongs to something else.
    """
    return series.opened(Path(path))


def load_run(path: Path) -> Run:
    """`open_run`, with every table read and checked, as is done before a run is finished, contributed or compared with
    others.
    """
    return open_run(path).checked()
