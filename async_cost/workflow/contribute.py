"""Check a run before it is offered to others, and pack its tables.

    python -m async_cost.workflow.contribute data/runs/<machine>/<utc-time>

Packing replaces `<study>.time.csv` by `<study>.time.csv.gz` and so on, without the time of packing or the name of the
file. A run that is packed already stays as it is. Nothing is changed unless all checks pass.
"""

import gzip
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from async_cost.errors import DataError
from async_cost.files import write_whole
from async_cost.machines.many import read_many
from async_cost.paths import runs_root, shown
from async_cost.runs.comparisons import files_of
from async_cost.runs.find import find_runs, load_run
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.record import check_clock
from async_cost.runs.run import Run

#: Bytes that a contributed run may take. The repository keeps every run for ever.
LIMIT_BYTES = 6_000_000
TABLES = (".csv", ".csv.gz")
#: What looks like a folder of the measuring machine.
FOLDER = re.compile(
    r"(?<![\w.])(?:/(?:home|root|Users|mnt|media|tmp|var|opt)/[^\s\"',;]*|[A-Za-z]:\\+[^\s\"',;]*|~/[^\s\"',;]*)"
)


def objections(run: Run) -> Iterator[str]:
    """Why `run` cannot be contributed, as sentences. What its controls say is no reason: if they find fault, its own
    pages conclude nothing, and other runs still benefit.
    """
    mine, place = run.path.resolve(), runs_root() / run.info.run_id
    if mine != place.resolve():
        yield f"the run lies in {shown(run.path)}; move it to {shown(place)}"
    if run.info.profile in NOT_EVIDENCE:
        yield f"the profile is {run.info.profile}, which is never evidence; measure in the standard profile"
    for file in sorted(run.path.iterdir()):
        if file.name != "run.json" and not file.name.endswith(TABLES):
            yield f"{file.name} is not part of a run; remove it"
    if (size := packed_size(run.path)) > LIMIT_BYTES:
        yield f"it takes {size:,} bytes packed, more than {LIMIT_BYTES:,}; measure with fewer rounds or studies"
    for path in sorted({*FOLDER.findall((run.path / "run.json").read_text(encoding="utf-8"))}):
        yield f"run.json names the folder {path!r}; blank it out"
    # Whether it has the samples of a known run, or the name of another machine: the check of the page on hardware.
    others = [folder for folder in find_runs(runs_root()) if folder.resolve() != mine]
    yield from read_many([*others, mine]).aside.filter(run="/".join(mine.parts[-2:]))["reason"]


def packed_bytes(table: Path) -> bytes:
    """A table compressed as `gzip -9n` does: the same bytes for the same table, anywhere and any time."""
    return gzip.compress(table.read_bytes(), compresslevel=9, mtime=0)


def packed_size(run: Path) -> int:
    """Bytes of the run once its tables are packed."""
    files = [file for file in run.iterdir() if file.is_file()]
    return sum(len(packed_bytes(file)) if file.suffix == ".csv" else file.stat().st_size for file in files)


def contribute(folder: Path) -> Run:
    """Check and pack the run in `folder`, or all runs of its series. Raises DataError with all objections, having
    changed nothing.
    """
    run = load_run(folder)
    for sitting in run.sittings:
        check_clock(sitting.path / "run.json", sitting.info)
    if against := [f"  - {text}" for sitting in run.sittings for text in objections(sitting)]:
        raise DataError(folder, "\n".join(["this run cannot be contributed:", *against]), "")
    for table in (table for sitting in run.sittings for table in sorted(sitting.path.glob("*.csv"))):
        write_whole(table.with_name(f"{table.name}.gz"), packed_bytes(table))
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
