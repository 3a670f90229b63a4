"""Execute the analyses of a run, and publish them under reports/<machine>/<utc-time>.

    python -m async_cost.workflow.publishing data/runs/<machine>/<utc-time>

There are as many Python kernels as processors: to start one takes longer than an analysis. Each analysis begins as in a
new kernel: in its own folder, without a variable of another one.
"""

import os
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from threading import Lock
from typing import TypeVar

import nbformat
from jupyter_client.client import KernelClient
from jupyter_client.manager import KernelManager, start_new_kernel
from jupyter_core.utils import ensure_event_loop
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode

from async_cost.errors import DataError
from async_cost.paths import reports_root
from async_cost.report import notebook
from async_cost.report.publish import publish
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.record import RunInfo, read_run_info
from async_cost.workflow.execute import STARTUP_S, CellFailed, errors_of, failure_of
from async_cost.workflow.steps import READABLE, die_with_parent, print_progress
from async_cost.workflow.studies import analysed, analysis

Made = TypeVar("Made")
#: Seconds for what a cell showed to arrive; after nbclient's own four, a page would lack it without a word.
OUTPUT_S = 120
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

    def page_of(executed: Path) -> notebook.Page:
        page = notebook.page_of(executed)
        if page.study == names[0]:
            publish(run, [page], report, not_measured=absent)
            print(f"{READABLE}{report / page.href}", flush=True)
        return page

    pages = execute(names, report / ".notebooks", {"ASYNC_COST_RUN": str(run)}, page_of)
    return publish(run, pages, report, not_measured=absent, reports=reports)


def analyses_of(info: RunInfo) -> list[str]:
    """The analyses that have something to say about a run: those that need no study, or one that it holds. Other
    machines are compared with what is evidence alone.
    """
    names = [
        name for name, needed in analysed().items() if not needed or any(study in info.studies for study in needed)
    ]
    if OTHERS in names and info.profile in NOT_EVIDENCE:
        names.remove(OTHERS)
        if os.environ.get("ASYNC_COST_COMPARE"):
            print(
                f"Note: a {info.profile} run is compared with no machine, so ASYNC_COST_COMPARE changes nothing",
                flush=True,
            )
    return names


def execute(names: Sequence[str], folder: Path, env: Mapping[str, str], then: Callable[[Path], Made]) -> list[Made]:
    """Execute the analyses of `names` into `folder`; returns what `then` makes of the notebooks, in that order."""
    folder.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, **env, "ASYNC_COST_ANALYSES": str(folder.resolve())}
    ordered = sorted(names, key=lambda name: (name != names[0], name != LONGEST))
    made = dict[str, Made]()
    # What sets machines side by side judges the findings that the others have stated.
    for part in ([name for name in ordered if name != OTHERS], [name for name in ordered if name == OTHERS]):
        executed = [folder / f"{name}.ipynb" for name in part]
        made |= zip(part, execute_all([*map(analysis, part)], executed, environ, then), strict=True)
    return [made[name] for name in names]


def begin(folder: Path, environ: Mapping[str, str]) -> NotebookNode:
    """The cell before the first one of a notebook in `folder`; of our settings, there are those of `environ` alone."""
    ours = {name: value for name, value in environ.items() if name.startswith("ASYNC_COST_")}
    code = f"""
        %reset -f
        __spec__ = None  # which processes that this one starts look at
        import os
        [os.environ.pop(name) for name in list(os.environ) if name.startswith("ASYNC_COST_")]
        os.environ.update({ours!r})
        os.chdir({str(folder)!r})
    """
    return nbformat.v4.new_code_cell(textwrap.dedent(code))


def execute_all(
    notebooks: Sequence[Path], executed: Sequence[Path], environ: Mapping[str, str], then: Callable[[Path], Made]
) -> list[Made]:
    """Run `notebooks` from top to bottom, write them to `executed`, even those that fail, and return what `then` makes
    of each.

    Raises CellFailed, which names notebook and cell, once no kernel is left.
    """
    one_page_at_a_time = Lock()
    waiting, made = iter([*zip(notebooks, executed, strict=True)]), dict[Path, Made]()

    def one_kernel() -> None:
        history = ["--HistoryManager.hist_file=:memory:"]
        manager, client = start_new_kernel(STARTUP_S, extra_arguments=history, preexec_fn=die_with_parent)
        try:
            for notebook, target in waiting:
                _run(notebook, target, environ, manager, client)
                with one_page_at_a_time:
                    made[target] = then(target)
                print_progress("analysis", len(made), len(notebooks), done=len(made), trials=len(notebooks))
        except BaseException:
            list(waiting)  # none of the others begins
            raise
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
            ensure_event_loop().close()  # that of this thread, which nbclient has opened

    with ThreadPoolExecutor() as pool:
        for kernel in as_completed([pool.submit(one_kernel) for _ in range(min(os.cpu_count() or 1, len(notebooks)))]):
            kernel.result()
    return [made[target] for target in executed]


def _run(
    notebook: Path, target: Path, environ: Mapping[str, str], manager: KernelManager, client: KernelClient
) -> None:
    content = nbformat.read(notebook, as_version=4)
    content.cells.insert(0, begin(notebook.parent, environ))
    runner = NotebookClient(content, km=manager, timeout=None, iopub_timeout=OUTPUT_S, raise_on_iopub_timeout=True)
    runner.kc = client
    try:
        runner.execute()
    except CellExecutionError as error:
        failed = next(cell for cell in content.cells if errors_of(cell))
        raise CellFailed(f"{notebook}: {failure_of(failed, errors_of(failed))}") from error
    except (DeadKernelError, TimeoutError) as error:
        raise CellFailed(f"{notebook}: the kernel died or does not answer ({error})") from error
    finally:
        del content.cells[0]
        nbformat.write(content, target)


def main() -> None:
    try:
        print(*publish_run(Path(sys.argv[1]).resolve()), sep="\n")
    except (CellFailed, DataError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
