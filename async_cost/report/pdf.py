"""Pages on paper: PDFs through a Chromium, where there is one.

What is printed is a copy without scripts and without links to other files. The print style shows the static pictures
anyway, so drawing the live charts would only cost time; and a PDF keeps every link as an absolute one, which would name
the folders of this machine.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ARGUMENTS = [
    *("--disable-gpu", "--disable-dev-shm-usage", "--disable-quic"),  # /dev/shm is small in a container
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
PDF_SECONDS = 120
SCRIPT = re.compile(r"<script\b.*?</script\s*>", re.DOTALL | re.IGNORECASE)
#: A link that leads neither into the page nor to the web.
LINK_TO_FILE = re.compile(r"""(<a\b[^>]*?)\shref="(?!#|https?:|mailto:)[^"]*\"""", re.IGNORECASE)


def find_chromium() -> str | None:
    """The browser that prints and tests pages: $ASYNC_COST_CHROMIUM, or the first known name on PATH."""
    named = os.environ.get("ASYNC_COST_CHROMIUM")
    return named or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


def print_pdfs(pages: Sequence[Path]) -> list[Path]:
    """Print each page into a PDF next to it; returns those that were made, and says on stderr why others were not."""
    chromium = find_chromium()
    if chromium is None:
        print("no Chromium found, so no PDF is made", file=sys.stderr)
        return []
    targets = [page.with_suffix(".pdf") for page in pages]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failures = list(pool.map(lambda page, target: _print(chromium, page, target), pages, targets))
    for target, failure in zip(targets, failures, strict=True):
        if failure:
            target.unlink(missing_ok=True)  # of an earlier time: it would show other numbers than the page
            print(f"{target.name} was not made: {failure}", file=sys.stderr)
    return [target for target, failure in zip(targets, failures, strict=True) if not failure]


def for_paper(html: str) -> str:
    """The page as it is printed: without scripts, and without the links that lead to other files."""
    return LINK_TO_FILE.sub(r"\1", SCRIPT.sub("", html))


def _print(chromium: str, page: Path, target: Path) -> str | None:
    """Print `page` into `target`; returns what went wrong, if anything did."""
    # Chromium refuses to run its sandbox as root, which is whom a container usually runs as.
    sandbox = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    # Next to the page: a browser in a package of its own (snap) sees a user's files, but neither /tmp nor hidden ones.
    with tempfile.TemporaryDirectory(prefix="printing-", dir=page.parent.absolute()) as profile:
        still, printed = Path(profile) / "page.html", Path(profile) / "page.pdf"
        still.write_text(for_paper(page.read_text(encoding="utf-8")), encoding="utf-8")
        command = [chromium, "--headless", *sandbox, *CHROMIUM_ARGUMENTS, f"--user-data-dir={profile}/profile"]
        command += ["--no-pdf-header-footer", f"--print-to-pdf={printed}", still.as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, timeout=PDF_SECONDS, text=True, errors="replace")
        except (OSError, subprocess.SubprocessError) as error:
            return str(error)
        if done.returncode != 0 or not printed.exists():
            last = [f", and says: {line}" for line in done.stderr.strip().splitlines()[-1:]]
            return "".join([f"{chromium} wrote nothing (exit status {done.returncode})", *last])
        shutil.move(printed, target)
    return None
