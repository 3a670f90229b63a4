"""Execute the analyses of a run and publish them under reports/<machine>/<utc-time>.

python -m async_cost.workflow.publishing data/runs/<machine>/<utc-time>
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from async_cost.errors import DataError
from async_cost.paths import reports_root
from async_cost.report import PublishError, notebook
from async_cost.report.publish import publish
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.record import RunInfo, read_run_info
from async_cost.workflow import analyses
from async_cost.workflow.analyses import Made
from async_cost.workflow.execute import CellFailed
from async_cost.workflow.steps import READABLE
from async_cost.workflow.studies import MEASURED, analysed, analysis, measuring

#: The analysis that is about other runs; it reads what the others have said.
OTHERS = "hardware"
#: Takes longest of a series of many sittings: begun beside the first, so that the kernels end at about the same time.
LONGEST = "trust"


def publish_run(run: Path) -> list[Path]:
    """Write the pages of all analyses that have something to say about `run`; print where the first of them is as soon
    as it can be read.
    """
    reports = reports_root()
    report = reports / run.parent.name / run.name
    names = analyses_of(read_run_info(run / "run.json"))
    absent = [analysis(name) for name in analysed() if name not in names]
    sources = {study: measuring(study) for study in MEASURED}

    def page_of(executed: Path) -> notebook.Page:
        page = notebook.page_of(executed)
        if page.study == names[0]:
            publish(run, [page], report, not_measured=absent, sources=sources)
            print(f"{READABLE}{report / page.href}", flush=True)
        return page

    pages = execute(names, report / ".notebooks", {"ASYNC_COST_RUN": str(run)}, page_of)
    return publish(run, pages, report, not_measured=absent, sources=sources, reports=reports)


def analyses_of(info: RunInfo) -> list[str]:
    """The analyses that have something to say about a run: those that need no study, or one that it holds. Other
    machines are compared with what is evidence alone.
    """
    names = [
        name for name, needed in analysed().items() if not needed or any(study in info.studies for study in needed)
    ]
    return [name for name in names if name != OTHERS or info.profile not in NOT_EVIDENCE]


def execute(names: Sequence[str], folder: Path, env: Mapping[str, str], then: Callable[[Path], Made]) -> list[Made]:
    """Execute the analyses of `names` into `folder`; returns what `then` makes of the notebooks, in that order."""
    folder.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, **env, "ASYNC_COST_ANALYSES": str(folder.resolve())}
    ordered = sorted(names, key=lambda name: (name != names[0], name != LONGEST))
    made = dict[str, Made]()
    # What sets machines side by side judges the findings that the others have stated.
    for part in ([name for name in ordered if name != OTHERS], [name for name in ordered if name == OTHERS]):
        executed = [folder / f"{name}.ipynb" for name in part]
        made |= zip(part, analyses.execute([*map(analysis, part)], executed, environ, then), strict=True)
    return [made[name] for name in names]


def main() -> None:
    try:
        print(*publish_run(Path(sys.argv[1]).resolve()), sep="\n")
    except (CellFailed, DataError, PublishError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
