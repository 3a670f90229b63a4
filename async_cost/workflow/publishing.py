"""Execute the analyses of a run and publish them; for two runs, the page that compares them.

python -m async_cost.workflow.publishing reports reports/<machine>/<utc-time> data/runs/<machine>/<utc-time>
python -m async_cost.workflow.publishing reports reports/compare/<name> <run> <run>

What makes pages of notebooks is imported when there is one, while the kernels go on with the next.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from async_cost.errors import DataError
from async_cost.report import PublishError
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.record import RunInfo, read_run_info
from async_cost.workflow import analyses
from async_cost.workflow.analyses import Made
from async_cost.workflow.execute import CellFailed
from async_cost.workflow.steps import READABLE
from async_cost.workflow.studies import MEASURED, analysed, analysis, measuring

if TYPE_CHECKING:
    from async_cost.report.notebook import Page


#: The analysis that is about other runs; it reads what the others have said.
OTHERS = "hardware"
#: Takes longest of a series of many sittings: begun beside the first, so that the kernels end at about the same time.
LONGEST = "trust"


def publish_run(reports: Path, report: Path, run: Path, rooms: Sequence[str] = ()) -> list[Path]:
    """Write the pages of `rooms`, or of all analyses that have something to say about `run`; print where the first of
    them is as soon as it can be read.
    """
    rooms = rooms or rooms_of(read_run_info(run / "run.json"))
    absent = [analysis(room) for room in analysed() if room not in rooms]
    sources = {study: measuring(study) for study in MEASURED}

    def written(pages: Sequence["Page"], **how: Any) -> list[Path]:
        from async_cost.report.publish import publish

        return publish(run, pages, report, not_measured=absent, sources=sources, **how)

    def page_of(notebook: Path) -> "Page":
        page = _page_of(notebook)
        if page.study == rooms[0]:
            written([page])
            print(f"{READABLE}{report / page.href}", flush=True)
        return page

    return written(execute(rooms, report / ".notebooks", {"ASYNC_COST_RUN": str(run)}, page_of), reports=reports)


def publish_comparison(reports: Path, report: Path, *runs: Path) -> list[Path]:
    """Write the page about hardware for these runs only."""
    env = {"ASYNC_COST_COMPARE": os.pathsep.join(map(str, runs)), "ASYNC_COST_RUN": ""}
    (page,) = execute(["hardware"], report / ".notebooks", env, _page_of)
    from async_cost.report.publish import publish_alone

    return publish_alone(runs[-1], page, report, reports=reports)


def _page_of(notebook: Path) -> "Page":
    from async_cost.report.notebook import page_of

    return page_of(notebook)


def rooms_of(info: RunInfo) -> list[str]:
    """The analyses that have something to say about a run: those that need no study, or one that it holds. Other
    machines are compared with what is evidence alone.
    """
    rooms = [room for room, needed in analysed().items() if not needed or any(one in info.studies for one in needed)]
    return [room for room in rooms if room != OTHERS or info.profile not in NOT_EVIDENCE]


def execute(rooms: Sequence[str], folder: Path, env: Mapping[str, str], then: Callable[[Path], Made]) -> list[Made]:
    """Execute the analyses of `rooms` into `folder`; returns what `then` makes of the notebooks, in that order."""
    folder.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, **env, "ASYNC_COST_ANALYSES": str(folder.resolve())}
    # What sets machines side by side judges the findings that the others have stated.
    ordered = sorted(rooms, key=lambda room: (room == OTHERS, room != rooms[0], room != LONGEST))
    executed = [folder / f"{room}.ipynb" for room in ordered]
    last = rooms.count(OTHERS)
    made = analyses.execute([*map(analysis, ordered)], executed, environ, then, last)
    return [made[ordered.index(room)] for room in rooms]


def main() -> None:
    reports, report, *runs = (Path(folder).resolve() for folder in sys.argv[1:])
    try:
        made = publish_run(reports, report, runs[0]) if len(runs) == 1 else publish_comparison(reports, report, *runs)
        print(*made, sep="\n")
    except (CellFailed, DataError, PublishError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
