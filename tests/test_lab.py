"""JupyterLab in a browser, as a reader uses it: cell by cell, a change and another run, and what may go wrong on the
way.
"""

import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from async_cost.runs.find import reference_run
from async_cost.workflow.environment import OURS
from async_cost.workflow.toolchain import PYTHON, ROOT

pytestmark = pytest.mark.kernel
#: Cells may compile the harness first, while other tests run.
CELLS_MS, PAGE_MS = 300_000, 120_000
#: Nanoseconds in the units of a glance.
UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6}
#: The notebooks that are opened, below `notebooks/`.
START, MEASURE, EXECUTORS, ANALYSIS = "start-here", "zero-cost/measure", "zero-cost/executors", "boxing-cost/analysis"


@dataclass
class Lab:
    """A running JupyterLab and the repository that it shows, a copy: what a browser saves must not be saved here."""

    clone: Path
    address: str

    def runs(self) -> list[Path]:
        """Finished runs besides the reference run."""
        return [run for run in self.clone.glob("data/runs/[!.]*/*/run.json") if not run.parent.is_symlink()]


@pytest.fixture(scope="module")
def lab(tmp_path_factory) -> Iterator[Lab]:
    clone = tmp_path_factory.mktemp("clone")
    for name in ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "pyproject.toml"):
        (clone / name).symlink_to(ROOT / name)
    # What is built is found again, since the kernel follows links; the crate of a paired notebook is written to, and so
    # a copy.
    kernels, paired = clone / "rust-kernels", MEASURE.split("/")[0]
    kernels.mkdir()
    for path in (ROOT / "rust-kernels").iterdir():
        if path.name != paired:
            (kernels / path.name).symlink_to(path)
    shutil.copytree(ROOT / "rust-kernels" / paired, kernels / paired, ignore_dangling_symlinks=True)  # of an editor
    for crate in (ROOT / "rust-kernels" / paired).glob("*/Cargo.toml"):
        shutil.rmtree(kernels / paired / crate.parent.name)
        (kernels / paired / crate.parent.name).symlink_to(crate.parent)
    for name in (START, MEASURE, EXECUTORS, ANALYSIS):
        notebook = clone / "notebooks" / f"{name}.ipynb"
        notebook.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "notebooks" / f"{name}.ipynb", notebook)
    run = reference_run().path
    # Tables are read from plain files only.
    shutil.copytree(ROOT / "data", clone / "data", ignore=shutil.ignore_patterns("runs", "experiments"))
    (clone / "data" / "runs" / run.parent.name).mkdir(parents=True)
    (clone / "data" / "runs" / run.parent.name / run.name).symlink_to(run)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": clone,
        "IdentityProvider.token": "",
        "LabApp.expose_app_in_browser": True,
    }
    options = ["--no-browser", "--allow-root", *(f"--{name}={value}" for name, value in settings.items())]
    environment = {**os.environ, **OURS}
    for name in [*filter(re.compile("ASYNC_COST_|JUPYTER_NO_CONFIG").match, environment)]:
        del environment[name]
    with (clone / "log").open("w") as log:
        server = subprocess.Popen(
            [PYTHON, "-m", "jupyterlab", *options], env=environment, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            _wait_for(f"http://127.0.0.1:{port}/api/status", server, clone / "log")
            yield Lab(clone, f"http://127.0.0.1:{port}/lab")
        finally:
            server.terminate()
            server.wait(60)


def _wait_for(status: str, server: subprocess.Popen, log: Path) -> None:
    deadline = time.monotonic() + PAGE_MS / 1000
    while time.monotonic() < deadline:
        assert server.poll() is None, log.read_text()
        try:
            urllib.request.urlopen(status, timeout=5).close()
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()}")


#: The open notebook, of which a test acts on one cell after the other by keys and reads all, also those that are not
#: drawn.
PANEL = "jupyterapp.shell.currentWidget"
CELLS = f"""() => {PANEL}.content.widgets.map(({{model}}) => ({{
    type: model.type,
    source: model.sharedModel.getSource(),
    tags: model.getMetadata("tags") ?? [],
    count: model.executionCount ?? null,
    outputs: model.outputs?.toJSON() ?? [],
}}))"""
#: Of the kernel; undefined until there is one.
STATUS = f"() => globalThis.jupyterapp && {PANEL}?.sessionContext?.session?.kernel?.status"


class Notebook:
    """A notebook in a tab of its own; cells are counted from 0, with those of prose."""

    def __init__(self, browser, lab: Lab, name: str) -> None:
        self.page = browser.new_context(viewport={"width": 1280, "height": 1200}).new_page()
        # A workspace of its own: none opens what another had open.
        self.page.goto(f"{lab.address}/workspaces/{name.replace('/', '-')}/tree/notebooks/{name}.ipynb?reset")
        self.until("the kernel is idle", self.idle, PAGE_MS)

    def cells(self) -> list[dict]:
        """All cells, with what they have shown."""
        return self.page.evaluate(CELLS)

    def find(self, text: str, tag: str = "") -> int:
        """The one code cell with this text, and with this tag."""
        matches = [
            number
            for number, cell in enumerate(self.cells())
            if cell["type"] == "code" and text in cell["source"] and (not tag or tag in cell["tags"])
        ]
        assert len(matches) == 1, f"{text!r} is in the cells {matches}"
        return matches[0]

    def select(self, number: int) -> None:
        """Makes a cell the one that keys act on."""
        self.page.evaluate(
            f"""async number => {{
                const notebook = {PANEL}.content;
                notebook.mode = "command";
                notebook.activeCellIndex = number;
                await notebook.scrollToItem(number);
                await notebook.activeCell.ready;
                notebook.node.focus();
            }}""",
            number,
        )

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def start(self, first: int, last: int | None = None) -> None:
        """Sends a cell, or all from the first to the last, to the kernel: all at once."""
        self.select(first)
        for _ in range(first, last or first):
            self.press("Shift+ArrowDown")
        self.press("Control+Enter")

    def run(self, first: int, last: int | None = None) -> None:
        """Runs a cell, or all from the first to the last, and waits until they are done and nothing went wrong."""
        before, last = self.cells(), last or first
        self.start(first, last)

        def done() -> bool:
            cells = self.cells()[first : last + 1]
            if self.idle():
                self.check(first, last)  # an error is told at once
            # All are sent at once, and the numbers say that all of them have come back.
            return (
                all(
                    new["count"] is not None and new["count"] != old["count"]
                    for new, old in zip(cells, before[first : last + 1], strict=True)
                    if new["type"] == "code"
                )
                and self.idle()
            )

        self.until(f"the cells {first} to {last} are done", done, CELLS_MS)
        self.check(first, last)

    def check(self, first: int = 0, last: int | None = None) -> None:
        """No cell says that something went wrong, and no dialog asks anything."""
        assert not (dialogs := self.page.locator(".jp-Dialog").all_inner_texts()), dialogs
        for cell in self.cells()[first : None if last is None else last + 1]:
            wrong = [
                output
                for output in cell["outputs"]
                if output["output_type"] == "error" or output.get("name") == "stderr"
            ]
            assert not wrong, f"{wrong}\n{cell['source']}"

    def idle(self) -> bool:
        return self.page.evaluate(STATUS) == "idle"

    def change(self, number: int, old: str, new: str) -> None:
        """Types another source into a cell."""
        source = self.cells()[number]["source"]
        assert source.count(old) == 1
        self.select(number)
        self.press("Enter")
        self.page.wait_for_function("() => document.activeElement.classList.contains('cm-content')")
        self.press("Control+A")
        self.page.keyboard.insert_text(source.replace(old, new))
        self.press("Escape")
        assert self.cells()[number]["source"] == source.replace(old, new), "keys went elsewhere"

    def save(self) -> None:
        """Saves, which also writes the view as a crate, and waits until it is done."""
        self.press("Control+s")
        self.until("all is saved", lambda: not self.page.evaluate(f"() => {PANEL}.context.model.dirty"), PAGE_MS)
        self.check(0, 0)  # the dialog: an interrupted cell may still show its error

    def interrupt(self) -> None:
        self.press("i", "i")

    def text(self, number: int) -> str:
        """What a cell has printed."""
        outputs = self.cells()[number]["outputs"]
        return "".join("".join(output.get("text", "")) for output in outputs)

    def errors(self, number: int) -> list[str]:
        outputs = self.cells()[number]["outputs"]
        return [f"{output['ename']} {output['evalue']}" for output in outputs if output["output_type"] == "error"]

    def glance(self, number: int) -> dict[str, float]:
        """What a cell that glances shows: nanoseconds of each way. The caption says that they are no evidence."""
        html = "".join(
            "".join(output.get("data", {}).get("text/html", "")) for output in self.cells()[number]["outputs"]
        )
        assert "a glance, not evidence" in html, html
        rows = re.findall(r"<tr><td>(.*?)</td><td>([\d.]+) (\w+)</td>", html)
        return {name: float(value) * UNITS[unit] for name, value, unit in rows}

    def until(self, what: str, true: Callable[[], bool], ms: int = CELLS_MS) -> None:
        """Waits for it; fails when that takes longer than so many milliseconds."""
        deadline = time.monotonic() + ms / 1000
        while not true():
            assert time.monotonic() < deadline, (
                f"waited too long until {what}: the kernel is {self.page.evaluate(STATUS)}, cells show {self.cells()}"
            )
            self.page.wait_for_timeout(100)


@pytest.fixture(scope="module")
def start_here(browser, lab) -> Notebook:
    return Notebook(browser, lab, START)


@pytest.fixture(scope="module")
def measure(browser, lab) -> Notebook:
    return Notebook(browser, lab, MEASURE)


def test_a_reader_runs_start_here_changes_it_and_looks_again(start_here):
    assert sum(cell["type"] == "code" for cell in start_here.cells()) == 5, "five code cells"
    proof, glance = start_here.find("tries for {REQUESTS} requests"), start_here.find("by_turns_core::Glance")
    start_here.run(0, glance)
    first = start_here.glance(glance)
    assert list(first) == ["by hand", "async", "async, boxed"] and all(first.values())
    assert start_here.text(proof).count(": 200 tries for 100 requests") == 3
    job = start_here.find("const REQUESTS")
    start_here.change(job, "const REQUESTS: u64 = 100;", "const REQUESTS: u64 = 50;")
    start_here.run(job)
    start_here.run(proof, glance)
    assert start_here.text(proof).count(": 100 tries for 50 requests") == 3, "the cells below do not see the change"
    assert list(start_here.glance(glance)) == list(first)


def test_a_reader_runs_a_measuring_notebook_cell_by_cell(measure):
    glance = measure.find("study()", "glance")
    measure.run(0, glance)
    assert set(measure.glance(glance)) == {"manual", "manual (best)", "nonbox", "box"}


def test_an_interrupted_measurement_leaves_no_run_and_a_kernel_that_goes_on(measure, lab):
    cell, glance = measure.find(".measure(&profile)"), measure.find("study()", "glance")
    measure.start(cell)
    measure.until(
        "samples are on disk", lambda: any(map(has_samples, lab.clone.glob("data/runs/.partial/*/*.time.csv")))
    )
    measure.interrupt()
    measure.until("the cell has ended", measure.idle)
    assert "Subprocess terminated" in measure.errors(cell)[0]
    assert not lab.runs(), "an interrupted measurement is no run"
    measure.run(glance)
    assert all(measure.glance(glance).values())


def has_samples(table: Path) -> bool:
    return table.read_text().count("\n") > 1


def test_a_changed_variant_and_a_new_row_show_at_the_next_glance(browser, lab):
    notebook = Notebook(browser, lab, EXECUTORS)
    timed = "zero_cost_loop::Timed<()>"
    variant, glance = (
        notebook.find("pub fn nonbox<"),
        notebook.find('"manual", zero_cost_loop::manual::<NoWork', "glance"),
    )
    notebook.run(0, glance)
    notebook.change(
        variant, "executor.spawn(", "std::thread::sleep(std::time::Duration::from_millis(1));\n        executor.spawn("
    )
    row = f'("nonbox", nonbox::<NoWork, {timed}, SMALL_BUFFER>),'
    notebook.change(glance, row, f'{row}\n    ("nonbox, 1 KiB", nonbox::<NoWork, {timed}, 1024>),')
    notebook.save()
    crate = (lab.clone / "rust-kernels" / "zero-cost" / "executors.rs").read_text()
    assert "from_millis(1)" in crate and '"nonbox, 1 KiB"' in crate, "the view as a crate does not follow"
    notebook.run(variant)
    notebook.run(glance)
    seen = notebook.glance(glance)
    assert list(seen) == ["manual", "nonbox", "nonbox, 1 KiB", "callerbox"]
    # A millisecond of sleep for each 256 requests is the least that both then take.
    assert min(seen["nonbox"], seen["nonbox, 1 KiB"]) > 1e6 / 256
    notebook.save()


def test_a_reader_runs_an_analysis_cell_by_cell(browser, lab):
    analysis = Notebook(browser, lab, ANALYSIS)
    analysis.run(0, max(number for number, cell in enumerate(analysis.cells()) if cell["type"] == "code"))
    shown = [kind for cell in analysis.cells() for output in cell["outputs"] for kind in output.get("data", {})]
    assert "text/markdown" in shown and "application/vnd.vegalite.v5+json" in shown
    assert analysis.page.locator(".jp-RenderedVegaCommon5 svg").count(), "no chart is drawn"
