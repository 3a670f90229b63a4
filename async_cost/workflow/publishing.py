"""Execute the analyses of a run and publish them; for two runs, the page that compares them.

python -m async_cost.workflow.publishing reports reports/<machine>/<utc-time> data/runs/<machine>/<utc-time>
python -m async_cost.workflow.publishing reports reports/compare/<name> <run> <run>
"""

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from async_cost.errors import DataError
from async_cost.report.notebook import PublishError
from async_cost.report.publish import publish, publish_alone
from async_cost.runs.record import RunInfo, read_run_info
from async_cost.workflow.in_step import source_of
from async_cost.workflow.steps import die_with_parent, tell
from async_cost.workflow.studies import ANALYSED, MEASURED, analysis, measuring


def publish_run(reports: Path, report: Path, run: Path) -> list[Path]:
    """Write the pages of all analyses that have something to say about `run`."""
    rooms = rooms_of(read_run_info(run / "run.json"))
    executed = execute(rooms, report / ".notebooks", {"ASYNC_COST_RUN": str(run)})
    absent = [analysis(room) for room in ANALYSED if room not in rooms]
    sources = {study: source_of(measuring(study)) for study in MEASURED}
    return publish(run, executed, report, not_measured=absent, sources=sources, reports=reports)


def publish_comparison(reports: Path, report: Path, runs: Sequence[Path]) -> list[Path]:
    """Write the page about hardware for these runs only."""
    env = {"ASYNC_COST_COMPARE": os.pathsep.join(map(str, runs)), "ASYNC_COST_RUN": ""}
    (executed,) = execute(["hardware"], report / ".notebooks", env)
    return publish_alone(runs[-1], executed, report, reports=reports)


def rooms_of(info: RunInfo) -> list[str]:
    """The analyses that have something to say about a run: those that need no study, or one that it holds."""
    return [room for room, needed in ANALYSED.items() if not needed or any(study in info.studies for study in needed)]


def execute(rooms: Sequence[str], folder: Path, env: Mapping[str, str]) -> list[Path]:
    """Execute the analyses of `rooms`; returns the executed notebooks in `folder`, in that order."""
    folder.mkdir(parents=True, exist_ok=True)

    executed = [folder / f"{room}.ipynb" for room in rooms]

    def one(room: str, notebook: Path) -> str:
        # What several notebooks say at once, nobody could read.
        return subprocess.run(
            [sys.executable, "-m", "async_cost.workflow.execute", analysis(room), notebook],
            env={**os.environ, **env, "ASYNC_COST_PROGRESS": ""},
            check=True,
            preexec_fn=die_with_parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ).stdout

    # They are independent of one another, and starting Python takes as long as reading the run: one for each core.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for number, said in enumerate(pool.map(one, rooms, executed), start=1):
            print(said, end="")
            tell("analysis", number, len(rooms), done=number, trials=len(rooms))
    return executed


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m async_cost.workflow.publishing", description=__doc__.splitlines()[0]
    )
    parser.add_argument("reports", type=Path, help="folder of all reports, whose list of runs is renewed")
    parser.add_argument("report", type=Path, help="folder that receives the pages")
    parser.add_argument(
        "runs", type=lambda folder: Path(folder).resolve(), nargs="+", metavar="run", help="folder of a run"
    )
    arguments = parser.parse_args()
    try:
        if len(arguments.runs) > 1:
            pages = publish_comparison(arguments.reports, arguments.report, arguments.runs)
        else:
            pages = publish_run(arguments.reports, arguments.report, *arguments.runs)
    except (DataError, PublishError) as error:
        print(error, file=sys.stderr)
        return 1
    except subprocess.CalledProcessError as error:  # a notebook that failed says itself why
        print(error.stdout, file=sys.stderr)
        return 1
    print(*pages, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
