"""What several test files need: a folder for made-up runs, a browser, and whole runs of the workflow, killed once on
their way; and what is said at the end: what was tested, and what was not.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from browsing import CHROMIUM_ARGUMENTS, Visit, find_chromium

from async_cost.workflow.toolchain import ROOT

#: Files that take longest; begun first, so that two processes end at about the same time.
LONG = ("test_notebooks.py", "test_memory.py", "test_loom.py", "test_execute.py", "test_fleet_run.py", "test_lab.py")
#: What `make test` leaves out and `make test-all` tests as well: markers of pytest (pyproject.toml), and what each is.
MORE = {
    "kernel": "cells and JupyterLab",
    "address_sanitizer": "AddressSanitizer",
    "valgrind": "valgrind",
    "loom": "loom",
    "soak": "random programs for a minute",
    "slurm": "a fleet on Slurm",
}
#: Studies that are measured as cells, too: two notebooks of one folder, and one whose trials are forks.
IN_CELLS = ("zero-cost", "zero-cost-sockets", "servers")
#: Where the last line goes, for the Makefile to repeat when everything else has ended, too.
TESTED = ROOT / "target" / "tested.txt"


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what `-m` does not choose
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for fixture, marker in (("rust", "kernel"), ("slurm", "slurm")):
            if fixture in getattr(item, "fixturenames", ()):
                item.add_marker(marker)
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was tested, what was not, and which command tests it. What was skipped was not tested."""
    if terminalreporter.config.option.collectonly:
        return
    ended = [report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, [])]
    skipped = [report for report in terminalreporter.stats.get("skipped", []) if hasattr(report, "keywords")]
    done = [what for marker, what in MORE.items() if any(marker in report.keywords for report in ended)]
    lacking = sorted({report.longrepr[2].removeprefix("Skipped: ") for report in skipped})
    left = [what for marker, what in MORE.items() if what not in done]
    tested = [
        "Python",
        *(["a whole run of programs"] if any("native" in report.keywords for report in ended) else []),
        *done,
    ]
    # What grows with each finding and each study: seen at the end of a test, and refused only at twice its size.
    sizes = dict(sorted(size for report in ended for size in report.user_properties))  # the largest of each name
    if sizes:
        terminalreporter.write_line(f"Sizes: {', '.join(f'{size:,} {what}' for what, size in sizes.items())}.")
    text = f"Tested: {', '.join(tested)}."
    text += f" Not tested: {', '.join(left)} (make test-all)." if left else ""
    text += f" Skipped: {'; '.join(lacking)}." if lacking else ""
    text += " Not run: Miri (make test-miri, weekly); ThreadSanitizer, by no command: CONTRIBUTING.md says how."
    terminalreporter.write_line(text)
    TESTED.parent.mkdir(exist_ok=True)
    TESTED.write_text(f"{text}\n", encoding="utf-8")


@pytest.fixture(autouse=True)
def no_chosen_run(monkeypatch) -> None:
    """Tests ignore a run that was chosen for notebooks."""
    monkeypatch.delenv("ASYNC_COST_RUN", raising=False)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """A folder for the runs that a test file makes up."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def browser() -> Iterator[object]:
    chromium = find_chromium()
    if chromium is None:
        message = "no Chromium found: install one, or name it in ASYNC_COST_CHROMIUM"
        if os.environ.get("ASYNC_COST_REQUIRE_CHROMIUM") == "1":
            pytest.fail(message)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", *CHROMIUM_ARGUMENTS]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        yield browser
        browser.close()


@pytest.fixture
def opened(browser) -> Iterator[Callable[..., Visit]]:
    """Opens pages for a test."""
    visits: list[Visit] = []
    yield lambda path, **context: visits.append(Visit(browser, path, **context)) or visits[-1]
    for visit in visits:
        visit.page.context.close()


@dataclass
class Workflow:
    """`make report PROFILE=smoke NATIVE=1`, or `make measure PROFILE=smoke` of some studies in cells, with its own
    folders for runs and pages, as a test may start, watch and kill it.
    """

    runs: Path
    reports: Path
    native: bool

    def start(self) -> subprocess.Popen:
        """Start it in a process group of its own."""
        folders = {"ASYNC_COST_RUNS": str(self.runs), "ASYNC_COST_REPORTS": str(self.reports)}
        how = ["report", "--native"] if self.native else ["measure", "--studies", " ".join(IN_CELLS)]
        return subprocess.Popen(
            [sys.executable, "-m", "async_cost.workflow", *how, "--profile", "smoke"],
            cwd=ROOT,
            env={**os.environ, **folders},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def visible_runs(self) -> list[Path]:
        return sorted(path.parent for path in self.runs.glob("[!.]*/*/run.json"))

    def partial_times(self) -> dict[str, list[str]]:
        """Lines of each time.csv in the partial run, by file name."""
        return {path.name: path.read_text().splitlines() for path in self.runs.glob(".partial/*/*.time.csv")}


@dataclass
class WholeRun:
    """The outcome of a killed and resumed run."""

    in_cells: bool
    run: Path
    page: Path
    output: str
    lines_at_kill: dict[str, list[str]]
    visible_at_kill: list[Path]


def measured_rounds(workflow: Workflow) -> set[str]:
    """Rounds of which at least one whole line is on disk."""
    lines = [line for lines in workflow.partial_times().values() for line in lines[1:]]
    return {line.split(",")[4] for line in lines if line.count(",") == 8}


@pytest.fixture(
    scope="session",
    params=[pytest.param("native", marks=pytest.mark.native), pytest.param("cells", marks=pytest.mark.kernel)],
)
def whole_run(request, tmp_path_factory) -> WholeRun:
    """Run the workflow, SIGKILL all of it in the middle of measuring, run it again to the end."""
    folder = tmp_path_factory.mktemp(request.param)
    workflow = Workflow(folder / "runs", folder / "reports", native=request.param == "native")
    first = workflow.start()
    while len(measured_rounds(workflow)) < 3:  # on disk: the workflow's own lines come seconds later
        if first.poll() is not None:
            pytest.fail(f"the workflow ended before it could be killed:\n{first.stdout.read()}")
        time.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()
    lines, visible = workflow.partial_times(), workflow.visible_runs()
    second = workflow.start()
    output = second.communicate()[0]
    assert second.returncode == 0, f"the workflow failed:\n{output}"
    runs = workflow.visible_runs()
    assert len(runs) == 1, f"expected one run, found {runs}"
    run = runs[0]
    report = workflow.reports / run.parent.name / run.name
    return WholeRun(not workflow.native, run, report / "index.html", output, lines, visible)
