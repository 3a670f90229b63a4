"""Check a run before it is offered to others, and pack its tables.

    python -m async_cost.workflow.contribute data/runs/<machine>/<utc-time>

Packing replaces `<study>.time.csv` by `<study>.time.csv.gz` and so on, without the time of packing or the name of the
file. A run that is packed already stays as it is. Nothing is changed unless all checks pass.
"""

import gzip
import sys
from collections.abc import Iterator
from pathlib import Path

from async_cost.errors import DataError
from async_cost.files import write_whole
from async_cost.machines.many import read_many
from async_cost.paths import shown
from async_cost.runs.comparisons import files_of
from async_cost.runs.find import find_runs, load_run
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.run import Run


def objections(run: Run) -> Iterator[str]:
    """Why `run` cannot be contributed, as sentences. What its controls say is no reason: if they find fault, its own
    pages conclude nothing, and other runs still benefit.
    """
    if run.info.profile in NOT_EVIDENCE:
        yield f"the profile is {run.info.profile}, which is never evidence; measure in the standard profile"
    # Whether it has the samples of a known run, or the name of another machine: the check of the page on hardware.
    mine = run.path.resolve()
    others = [folder for folder in find_runs() if folder.resolve() != mine]
    yield from read_many([*others, mine]).aside.filter(run="/".join(mine.parts[-2:]))["reason"]


def contribute(folder: Path) -> Run:
    """Check and pack the run in `folder`, or all runs of its series. Raises DataError with all objections, having
    changed nothing.
    """
    run = load_run(folder)
    if against := [f"  - {text}" for sitting in run.sittings for text in objections(sitting)]:
        raise DataError(folder, "\n".join(["this run cannot be contributed:", *against]), "")
    for table in (table for sitting in run.sittings for table in sorted(sitting.path.glob("*.csv"))):
        packed = gzip.compress(table.read_bytes(), compresslevel=9, mtime=0)  # the same bytes anywhere and any time
        write_whole(table.with_name(f"{table.name}.gz"), packed)
        table.unlink()
    return load_run(folder)  # as every reader will find it


def main() -> None:
    try:
        run = contribute(Path(sys.argv[1]))
    except DataError as error:
        sys.exit(str(error).rstrip(". \n"))
    machine = run.info.run_id.split("/")[0]
    print(f"The run is checked and packed. To offer it:\n\n  git switch -c run-{machine}")
    folders = [sitting.path for sitting in run.sittings]
    compared = sorted({file for folder in folders for file in files_of(folder)})
    print(f"  git add {' '.join(map(shown, [*folders, *compared]))}")
    print("  make findings  # what it says of our findings and of claims")
    print(f"  git add data/judged.csv\n  git commit -m 'data: a run on {machine}'\n")
    print("Then push the branch and open a pull request; CONTRIBUTING.md says what a reviewer looks at.")


if __name__ == "__main__":
    main()
