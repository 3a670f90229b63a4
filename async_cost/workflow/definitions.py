"""Write data/findings.csv, how each finding of the analyses is defined, and data/judged.csv, what each committed series
says of findings and claims; or data/comparisons.csv, what studies declare that they compare.

    python -m async_cost.workflow.definitions [comparisons [study ...]]
"""

import csv
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from async_cost.findings.committed import FINDINGS, JUDGED
from async_cost.findings.definitions import judged_by, rows_of
from async_cost.findings.record import Finding, recorded
from async_cost.paths import repository_root
from async_cost.runs.comparisons import DATA
from async_cost.runs.find import not_as_announced, open_run, reference_run
from async_cost.runs.run import Run
from async_cost.workflow import layouts
from async_cost.workflow.execute import CellFailed
from async_cost.workflow.publishing import analyses_of, execute
from async_cost.workflow.studies import MEASURED, analysed, analysis

#: The two files, and their columns.
FILES: dict[str, dict] = {"findings.csv": FINDINGS, "judged.csv": JUDGED}


def committed_series() -> list[Run]:
    """The series of the committed runs, the oldest first; without one that still lacks announced sittings."""
    command = ["git", "ls-files", "data/runs/*/*/run.json"]
    listed = subprocess.run(command, cwd=repository_root(), check=True, capture_output=True, text=True).stdout
    folders = sorted((Path(file).parent for file in listed.split()), key=lambda folder: folder.name)
    series = {run.info.run_id: run for run in (open_run(repository_root() / folder) for folder in folders)}
    return [run for run in series.values() if not not_as_announced(run)]


def execute_committed(
    folder: Path, environ: Mapping[str, str], names: Iterable[str] = ()
) -> dict[str, tuple[Run, Path]]:
    """Execute the analyses of `names` (by default all) into `folder`: each with the reference, or, where that lacks
    its studies, with the newest committed series that measured them. Returns both by name, in the order of the pages.
    """
    names = list(names) or list(analysed())
    chosen = dict[str, Run]()
    for run in [reference_run(), *reversed(committed_series())]:
        chosen |= {name: run for name in analyses_of(run.info) if name in names and name not in chosen}
    made = dict[str, Path]()
    for run in {run.path: run for run in chosen.values()}.values():
        its = [name for name, of in chosen.items() if of is run]
        env = {"ASYNC_COST_RUN": str(run.path.resolve()), **environ}
        made |= zip(its, execute(its, folder, env, Path), strict=True)
    return {name: (chosen[name], made[name]) for name in names if name in made}


def tables(findings: Iterable[Finding]) -> dict[str, list[dict[str, object]]]:
    """The rows of both files."""
    findings = list(findings)
    judged = [row for run in committed_series() for row in judged_by(run, findings)]
    return {"findings.csv": list(rows_of(findings)), "judged.csv": judged}


def write_comparisons(studies: Sequence[str]) -> None:
    """Write the rows of these studies of data/comparisons.csv, as the native program of each lists them."""
    if unknown := [study for study in studies if study not in MEASURED]:
        sys.exit(f"no study {', '.join(map(repr, unknown))}; there is {', '.join(MEASURED)}")
    if "call-styles" in studies and not (shutil.which("ruby") and shutil.which("mruby")):
        sys.exit("call-styles compares ruby and mruby where they are installed: install both, or name other studies")
    file = DATA / "comparisons.csv"
    header, *known = file.read_text(encoding="utf-8").splitlines(keepends=True)
    rows = {study: [row for row in known if row.startswith(f"{study},")] for study in MEASURED}
    for number, study in enumerate(studies, 1):
        print(f"study {number} of {len(studies)}: {study}", flush=True)
        command = ["cargo", "bench", "--locked", "-p", study, "--bench", "measure", "--", "--comparisons"]
        environment = {**os.environ, **layouts.environment()}
        listed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        # Cargo may say something of its own before the program does.
        header, *rows[study] = listed[listed.index("study,bench,") :].splitlines(keepends=True)
    file.write_text("".join((header, *chain.from_iterable(rows.values()))), encoding="utf-8")


def write_findings() -> None:
    """Write data/findings.csv and data/judged.csv."""
    names = [name for name in analysed() if ".finding(" in analysis(name).read_text(encoding="utf-8")]
    try:
        with tempfile.TemporaryDirectory() as temporary:
            executed = execute_committed(Path(temporary), {}, names)
            findings = recorded(path for _, path in executed.values())
    except CellFailed as error:
        sys.exit(str(error))
    for name, rows in tables(findings).items():
        with (DATA / name).open("w", encoding="utf-8", newline="") as file:
            table = csv.DictWriter(file, list(FILES[name]), lineterminator="\n")
            table.writeheader()
            table.writerows(rows)


if __name__ == "__main__":
    write_comparisons(sys.argv[2:] or list(MEASURED)) if sys.argv[1:2] == ["comparisons"] else write_findings()
