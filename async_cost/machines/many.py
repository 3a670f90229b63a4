"""Many runs compared; those that cannot be used are set aside, by name and with the reason.

Only the summary of each run is read (`summary`), so memory grows with the number of runs and findings, not with their
samples. Its comparisons are those on the pages of that run, so a finding has the same verdict in both places.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from async_cost.errors import quoted
from async_cost.machines.summary import NATIVE, RATIOS, RUNS, STUDIES, Summary, known, summary
from async_cost.paths import report_folder, shown
from async_cost.runs.reader import REMEASURE
from async_cost.runs.run import find_runs

#: So many runs are summarised faster than processes start.
FEW = 8
ASIDE = {"run": pl.String, "reason": pl.String}


@dataclass(frozen=True)
class ManyRuns:
    """What a number of runs say.

    `runs`: run, machine, cpu, cores, rustc, origin, profile, started, revision (of the sources). `studies`: run, study,
    trusted (in one group of comparisons at least), reason (why it is not, or not in all), rows (samples read),
    elapsed_ns (their time). `ratios`: run, machine, study, bench, variant, other, parameter, ratio, low, high, quantile
    (half the width of the interval in standard errors), episodes, verdict (null where the run is no evidence for that
    group); controls are left out. `aside`: run, reason, both text from outside. `folders`
    are those of the runs.
    """

    folders: Mapping[str, Path]
    runs: pl.DataFrame
    studies: pl.DataFrame
    ratios: pl.DataFrame
    aside: pl.DataFrame

    @property
    def rows(self) -> int:
        """Samples that were read."""
        return self.studies["rows"].sum()


def chosen_folders(environ: Mapping[str, str] = os.environ, root: Path | None = None) -> list[Path]:
    """The runs to compare: those that ASYNC_COST_COMPARE names (separated as in PATH), else all of them.

    All are those under `root` (default: the folder in ASYNC_COST_RUNS, else data/runs) and the one of ASYNC_COST_RUN,
    which may lie elsewhere.
    """
    if named := environ.get("ASYNC_COST_COMPARE"):
        return list(dict.fromkeys(Path(folder).resolve() for folder in named.split(os.pathsep)))
    here = [Path(named).resolve()] if (named := environ.get("ASYNC_COST_RUN")) else []
    if root is None and (elsewhere := environ.get("ASYNC_COST_RUNS")):
        root = Path(elsewhere)
    return list(dict.fromkeys([*here, *(path.resolve() for path in find_runs(root))]))


def read_many(folders: Sequence[Path]) -> ManyRuns:
    """Reads all runs, in the given order. Never raises because of what is in a folder: see `ManyRuns.aside`."""
    outcomes = list(zip(folders, summaries(folders), strict=True))
    runs, aside, folders_of = _without_twins(outcomes)
    return ManyRuns(
        folders=folders_of,
        runs=pl.DataFrame([run.run for run in runs], schema=RUNS),
        studies=pl.DataFrame([study for run in runs for study in run.studies], schema=STUDIES),
        ratios=pl.concat([pl.DataFrame(schema=RATIOS), *(run.ratios for run in runs)]),
        aside=pl.DataFrame(aside, schema=ASIDE, orient="row"),
    )


def summaries(folders: Sequence[Path]) -> list[Summary | str]:
    """The summary of each run, or why it cannot be used."""
    found = known(folders)
    left = [folder for folder, one in zip(folders, found, strict=True) if one is None]
    keepable = [folder for folder in left if report_folder(folder)]
    if len(keepable) >= FEW:
        _in_processes(keepable)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        made = pool.map(summary, left)
        return [next(made) if one is None else one for one in found]


def _in_processes(folders: Sequence[Path]) -> None:
    """Makes and keeps the summaries of these runs, each processor in a process of its own: half of the work is
    Python's, of which a process does one thing at a time. What fails there is told when it is tried again here.
    """
    number, environ = os.cpu_count() or 1, os.environ | {"POLARS_MAX_THREADS": "1"}
    shares = [json.dumps([str(folder) for folder in folders[place::number]]) for place in range(number)]
    command = [sys.executable, "-m", "async_cost.machines.summary"]
    with ThreadPoolExecutor(number) as pool:
        for share in shares:
            pool.submit(subprocess.run, command, input=share, text=True, env=environ, capture_output=True, check=False)


def _without_twins(
    outcomes: Sequence[tuple[Path, Summary | str]],
) -> tuple[list[Summary], list[tuple[str, str]], dict[str, Path]]:
    """Runs in the given order, what is set aside, and the folders of the runs.

    Two runs with one id, or with the very same samples, are one run and its copy, and a machine of another processor
    than the first of its name is another machine: the oldest run is believed.
    """
    aside = [("/".join(folder.parts[-2:]), outcome) for folder, outcome in outcomes if isinstance(outcome, str)]
    samples, processors, folders = dict[tuple, str](), dict[object, tuple](), dict[str, Path]()
    runs = [(folder, outcome) for folder, outcome in outcomes if not isinstance(outcome, str)]
    for folder, outcome in sorted(runs, key=lambda one: (str(one[1].run["started"]), str(one[1].run["run"]))):
        run, processor = str(outcome.run["run"]), (outcome.run["cpu"], outcome.run["cores"])
        twins = {(study["study"], study["rows"], study["elapsed_ns"]): run for study in outcome.studies}
        original = next((samples[key] for key in twins if key in samples), None)
        problem = None
        if run in folders:
            problem = f"another folder holds a run of the same id {quoted(run)}"
        elif original is not None:
            problem = f"holds the very samples of run {original}. {REMEASURE}"
        elif processors.setdefault(str(outcome.run["machine"]).removesuffix(NATIVE), processor) != processor:
            problem = "an older run of a machine of this name is from another processor. Give this machine another name"
        if problem:
            aside.append(("/".join(folder.parts[-2:]), f"{shown(folder)}: {problem}"))
        else:
            folders[run] = folder
            samples |= twins
    return [outcome for folder, outcome in runs if folders.get(str(outcome.run["run"])) == folder], aside, folders
