"""Check a run before it is offered to others, pack its tables, and show what the offer says.

    python -m async_cost.workflow.contribute data/runs/<machine>/<utc-time> data/runs

Packing replaces `<study>.time.csv` by `<study>.time.csv.gz` and so on, without the time of packing or the name of the
file. A run that is packed already stays as it is. Nothing is changed unless all checks pass.
"""

import getpass
import gzip
import json
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from async_cost import words
from async_cost.errors import DataError
from async_cost.files import write_whole
from async_cost.machines.many import read_many
from async_cost.paths import shown
from async_cost.report import numbers, provenance
from async_cost.report.records import refused_groups, remarks
from async_cost.runs import series
from async_cost.runs.comparisons import HEADLINES, file_of
from async_cost.runs.find import find_runs, load_run
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.record import check_clock
from async_cost.runs.run import Run
from async_cost.statistics.measured import Measured

#: Bytes that a contributed run may take. The repository keeps every run for ever.
LIMIT_BYTES = 6_000_000
TABLES = (".csv", ".csv.gz")
#: What looks like a folder of somebody's machine.
FOLDER = re.compile(
    r"(?<![\w.])(?:/(?:home|root|Users|mnt|media|tmp|var|opt)/[^\s\"',;]*|[A-Za-z]:\\+[^\s\"',;]*|~/[^\s\"',;]*)"
)
#: Names shorter than this, and those that every machine has, tell nobody who measured.
SHORTEST_NAME = 3
COMMON_NAMES = {"root", "user", "admin", "ubuntu", "debian", "runner", "localhost", "linux"}

#: What no program can check, as part of the pull request's text.
REVIEW = """## For the reviewer

- The pull request adds this folder and data/comparisons/, and changes nothing else but data/judged.csv.
- `make contribute` with this run, on its branch, changes no file and prints this text.
- The revision in run.json is one of this repository, without changes (`git.clean`).
- Processor, load and duration are plausible, and so is each finding that differs from those of other machines.
"""


def objections(run: Run, runs: Path) -> Iterator[str]:
    """Why `run` cannot be contributed, as sentences. What its controls say is no reason: if they find fault, its own
    pages conclude nothing, and other runs still benefit.
    """
    mine = run.path.resolve()
    if mine != (runs / run.info.run_id).resolve():
        yield f"the run lies in {shown(run.path)}; move it to {shown(runs / run.info.run_id)}"
    if run.info.profile in NOT_EVIDENCE:
        yield f"the profile is {run.info.profile}, which is never evidence; measure in the standard profile"
    for file in sorted(run.path.iterdir()):
        if file.name != "run.json" and not file.name.endswith(TABLES):
            yield f"{file.name} is not part of a run; remove it"
    yield from _personal(run)
    # Whether it has the samples of a known run, or the name of another machine: the check of the page on hardware.
    others = [folder for folder in find_runs(runs) if folder.resolve() != mine]
    yield from read_many([*others, mine]).aside.filter(run="/".join(mine.parts[-2:]))["reason"]


def _personal(run: Run) -> Iterator[str]:
    """Whatever names a folder, a user or a host. Tables hold words of the study and numbers, run.json the rest."""
    text = (run.path / "run.json").read_text(encoding="utf-8")
    for found in sorted(set(FOLDER.findall(text))):
        yield f"run.json names the folder {found!r}; blank it out"
    machine = json.dumps(json.loads(text)["machine"])
    for name in sorted(_names() - COMMON_NAMES):
        if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", machine):
            yield f"run.json names {name!r}, which is the name of a user or of a host here; blank it out"


def _names() -> set[str]:
    """The user and the host of this machine, if they are known."""
    names = {socket.gethostname(), socket.gethostname().split(".")[0], Path.home().name}
    with suppress(KeyError, OSError):  # a user without an entry, as in containers
        names.add(getpass.getuser())
    return {name for name in names if len(name) >= SHORTEST_NAME}


def pack(run: Path) -> list[Path]:
    """Compress the tables of a run in place, one after the other; returns all files of the run."""
    for table in sorted(run.glob("*.csv")):
        write_whole(table.with_name(f"{table.name}.gz"), packed_bytes(table))
        table.unlink()
    return sorted(path for path in run.iterdir() if path.name == "run.json" or path.name.endswith(".csv.gz"))


def packed_bytes(table: Path) -> bytes:
    """A table compressed as `gzip -9n` does: the same bytes for the same table, anywhere and any time."""
    return gzip.compress(table.read_bytes(), compresslevel=9, mtime=0)


def packed_size(run: Path) -> int:
    """Bytes of the run once its tables are packed."""
    files = [file for file in run.iterdir() if file.is_file()]
    return sum(len(packed_bytes(file)) if file.suffix == ".csv" else file.stat().st_size for file in files)


def preview(run: Run, files: list[Path]) -> str:
    """What the pull request says: machine, trust, the findings with a name, files. Markdown."""
    ratios = read_many([run.path]).ratios
    named = ("study", "variant", "other", "parameter")
    rows = {tuple(map(row.get, named)): row for row in ratios.reverse().iter_rows(named=True)}
    found = [
        f"{label}: {numbers.value(numbers.RATIO, row['ratio'], row['low'], row['high'])}"
        for key, label in HEADLINES.items()
        if (row := rows.get(key))
    ]
    studies = []
    for name, study in run.info.studies.items():
        processes = words.counted(len(study.episodes), "process")
        amount = f"{words.code(name)}: {words.counted(study.rounds, 'round')} in {processes}."
        refused = refused_groups(Measured(run, name)) or "Its controls refuse none of its comparisons."
        studies.append(" ".join([amount, refused, *remarks(run, name)]))
    listed = [f"{words.code(file.name)}, {file.stat().st_size / 1000:,.0f} kB" for file in files]
    return (
        f"# Run {run.info.run_id}\n\n{words.escape(provenance.headline(run.info))}\n\n{words.bullets(studies)}\n\n"
        f"## What it says\n\n{words.bullets(found) or 'None of the findings with a name.'}\n\n## Files\n\n{words.bullets(listed)}\n\n"
        f"{REVIEW}"
    )


def contribute(folder: Path, runs: Path) -> str:
    """Check and pack the run in `folder`, or all runs of its series; returns the preview. Raises `DataError` with all
    objections, having changed nothing.
    """
    against: list[str] = []
    run = load_run(folder)
    for one in run.sittings:
        check_clock(one.path / "run.json", one.info)
        against += objections(one, runs)
        if (size := packed_size(one.path)) > LIMIT_BYTES:
            limit = f"{size:,} bytes packed, more than {LIMIT_BYTES:,}"
            against.append(f"it takes {limit}; measure with fewer rounds or studies")
    if against:
        raise DataError(folder, "this run cannot be contributed:\n" + "\n".join(f"  - {text}" for text in against), "")
    files = [file for one in run.sittings for file in pack(one.path)]
    load_run(folder)  # as every reader will find it
    return preview(run, files)


def main() -> None:
    run, runs = map(Path, sys.argv[1:])
    try:
        print(contribute(run, runs))
    except DataError as error:
        sys.exit(str(error).rstrip(". \n"))
    folders = series.folders(run)
    texts = ((one / "run.json").read_text(encoding="utf-8") for one in folders)
    hashes = {digest for text in texts for digest in re.findall(r'"comparisons": "(\w+)"', text)}
    added = " ".join(map(shown, (*folders, *(file_of(run, digest) for digest in sorted(hashes)))))
    machine = run.resolve().parent.name
    print(f"The run is checked and packed. To offer it:\n\n  git switch -c run-{machine}")
    print(f"  git add {added}\n  make findings  # what it says of our findings and of claims")
    print(f"  git add data/judged.csv\n  git commit -m 'data: a run on {machine}'\n")
    print("Then push the branch and open a pull request with the text above.")


if __name__ == "__main__":
    main()
