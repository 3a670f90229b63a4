"""Pages as a browser shows them, opened from disk on a desk or on a phone."""

from pathlib import Path

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 740}
DRAWN_MS = 20_000  # drawing takes well under 1 s; a busy test machine may take longer
#: For a report whose PDFs say no more than those of another test.
NO_PDFS = {"ASYNC_COST_CHROMIUM": "false"}


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
