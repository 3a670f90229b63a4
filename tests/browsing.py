"""Pages as a browser shows them, opened from disk on a desk or on a phone."""

import os
import shutil
from pathlib import Path

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 740}
DRAWN_MS = 20_000  # drawing takes well under 1 s; a busy test machine may take longer
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ARGUMENTS = [
    *("--disable-gpu", "--disable-dev-shm-usage", "--disable-quic"),  # /dev/shm is small in a container
    *("--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


def find_chromium() -> str | None:
    """The browser that opens pages: $ASYNC_COST_CHROMIUM, or the first known name on PATH."""
    named = os.environ.get("ASYNC_COST_CHROMIUM")
    return named or next(filter(None, map(shutil.which, CHROMIUM_NAMES)), None)


class Visit:
    """A page opened from disk, with every request of the browser noted, and every complaint, error and dialog."""

    def __init__(self, browser, path: Path, **context) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page = browser.new_context(**context).new_page()
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.goto(path.as_uri())

    def wait_until_drawn(self) -> None:
        self.page.wait_for_function("!document.querySelector('figure.chart:not(.drawn)')", timeout=DRAWN_MS)
