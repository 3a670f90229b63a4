"""JupyterLab in a browser, as a reader uses it: start-here cell by cell, then a change, and another look."""

import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from async_cost.workflow.toolchain import ENV, PYTHON, ROOT

#: A cell may compile the harness first, beside other tests.
CELL_MS, PAGE_MS = 300_000, 120_000
COUNT = re.compile(r"\[(\d+)\]:")


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> Iterator[str]:
    """Of the notebook in a JupyterLab of its own, on a copy: what a browser saves must not be saved here."""
    clone = tmp_path_factory.mktemp("clone")
    for name in ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml", "rust-kernels"):
        (clone / name).symlink_to(ROOT / name)
    (clone / "notebooks").mkdir()
    shutil.copy(ROOT / "notebooks" / "start-here.ipynb", clone / "notebooks")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--no-browser", "--allow-root", "--IdentityProvider.token=", f"--ServerApp.root_dir={clone}"]
    command = [PYTHON, "-m", "jupyterlab", f"--ServerApp.port={port}", "--ServerApp.port_retries=0", *options]
    with (clone / "log").open("w") as log:
        server = subprocess.Popen(command, env={**os.environ, **ENV}, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait_for(f"http://127.0.0.1:{port}/api/status", server, clone / "log")
            yield f"http://127.0.0.1:{port}/lab/tree/notebooks/start-here.ipynb"
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


class Notebook:
    """The open notebook, cell by cell; cells are counted from 0, code cells only."""

    def __init__(self, browser, address: str) -> None:
        # As high as the notebook, since JupyterLab draws only the cells that are seen.
        self.page = browser.new_context(viewport={"width": 1280, "height": 5000}).new_page()
        self.page.goto(address)
        self.cells = self.page.locator(".jp-CodeCell")
        self.cells.nth(4).wait_for(timeout=PAGE_MS)
        assert self.cells.count() == 5, "five code cells"

    def run(self, number: int) -> None:
        """Runs a cell, and waits until it is done."""
        prompt = self.cells.nth(number).locator(".jp-InputPrompt")
        before = prompt.inner_text()
        self.cells.nth(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")
        deadline, again = time.monotonic() + CELL_MS / 1000, time.monotonic() + 5
        while not COUNT.fullmatch(now := prompt.inner_text().strip()) or now == before.strip():
            assert time.monotonic() < deadline, f"cell {number} is not done: {now}"
            if now == before.strip() and time.monotonic() > again:  # keys that came before the page listened
                self.page.keyboard.press("Control+Enter")
                again += 5
            self.page.wait_for_timeout(100)
        assert not self.errors(), self.errors()

    def errors(self) -> list[str]:
        """What cells say went wrong, and what a dialog asks."""
        wrong = self.page.locator(
            '[data-mime-type="application/vnd.jupyter.error"], [data-mime-type$="stderr"], .jp-Dialog'
        )
        return wrong.all_inner_texts()

    def change(self, number: int, old: str, new: str) -> None:
        """Types another source into a cell."""
        source = "\n".join(self.cells.nth(number).locator(".cm-line").all_inner_texts())
        assert source.count(old) == 1
        self.cells.nth(number).locator(".cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.insert_text(source.replace(old, new))

    def output(self, number: int) -> str:
        """What a cell has printed."""
        return self.cells.nth(number).locator(".jp-OutputArea").inner_text()

    def glance(self) -> tuple[str, dict[str, str]]:
        """What the last cell shows: the caption, and the time of each way."""
        table = self.cells.nth(4).locator("table")
        rows = [row.locator("td").all_inner_texts() for row in table.locator("tr").all()]
        return table.locator("caption").inner_text(), {name: told for name, told, *_ in rows}


def test_a_reader_runs_start_here_changes_it_and_looks_again(address, browser):
    notebook = Notebook(browser, address)
    for number in range(5):
        notebook.run(number)
    caption, first = notebook.glance()
    assert "a glance, not evidence" in caption
    assert list(first) == ["by hand", "async", "async, boxed"]
    assert all(re.fullmatch(r"[\d.]+ (ns|µs)", told) for told in first.values()), first
    assert "each way: 200 tries for 100 requests" in notebook.output(3)
    notebook.change(1, "const REQUESTS: u64 = 100;", "const REQUESTS: u64 = 50;")
    for number in (1, 3, 4):
        notebook.run(number)
    assert "each way: 100 tries for 50 requests" in notebook.output(3), "the cells below do not see the change"
    assert list(notebook.glance()[1]) == list(first)
