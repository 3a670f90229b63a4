"""docs/sample: the report of the reference run as pages that are readable where the repository is hosted.

    python -m async_cost.workflow.sample          # write them
    python -m async_cost.workflow.sample --check  # exit with 1 when they are not what the code makes of the run

The reference run is the one that data/runs/REFERENCE names.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from async_cost import words
from async_cost.paths import repository_root
from async_cost.report import provenance, sample
from async_cost.report.headline import reference_run
from async_cost.runs.run import Run
from async_cost.workflow.execute import CellFailed
from async_cost.workflow.publishing import execute, rooms_of

FOLDER = Path("docs") / "sample"
#: The page that is about other runs.
OTHERS = "hardware"


def made(run: Run, executed: Sequence[Path]) -> dict[str, str]:
    """The files of the sample by name, of the executed analyses of `run`."""
    origin = f"Run {words.code(run.info.run_id)}: {words.escape(provenance.facts(run.info).headline)}."
    return sample.pages([notebook for notebook in executed if notebook.stem != OTHERS], origin)


def old(files: dict[str, str], folder: Path) -> list[str]:
    """The names of files in `folder` that are not what `files` say, or not among them, or missing."""
    there = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*")}
    return sorted(name for name in there.keys() | files.keys() if there.get(name) != files.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m async_cost.workflow.sample", description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 when the sample is old")
    check, folder = parser.parse_args().check, repository_root() / FOLDER
    run = reference_run()
    rooms = [room for room in rooms_of(run.info) if room != OTHERS]
    try:
        with tempfile.TemporaryDirectory() as temporary:
            executed = execute(rooms, Path(temporary), {"ASYNC_COST_RUN": str(run.path.resolve())}, Path)
            files = made(run, executed)
    except CellFailed as error:
        print(error, file=sys.stderr)
        return 1
    folder.mkdir(exist_ok=True)
    for name in (changed := old(files, folder)):
        if check:
            print(f"{FOLDER / name} is not what the code makes of the reference run: make sample", file=sys.stderr)
        elif name in files:
            (folder / name).write_text(files[name], encoding="utf-8")
        else:
            (folder / name).unlink()
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
