"""What joins pages to a site: the sections that a reader can search, and the list of all runs in reports/.

Everything is files with relative links, so that any static host, or a folder on a disk, serves it.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from async_cost.files import read_json
from async_cost.report.markup import words_of
from async_cost.report.notebook import Page

#: What the list of runs reads of each report.
SUMMARY = "summary.json"
#: What is no prose: drawings, scripts, code. What a picture says is also in the element of the live chart.
MUTE = re.compile(r'<(svg|script|pre)\b.*?</\1\s*>|<details class="code">.*?</details>', re.DOTALL)
DESCRIBED = re.compile(r'<div [^>]*aria-label="([^"]*)"[^>]*></div>')
HEADING = re.compile(r'<h2 id="([^"]+)">(.*?)</h2>', re.DOTALL)


def search_index(pages: Iterable[Page]) -> str:
    """JSON for the search box: for the answer and each section of each page, where it is and what words it holds."""
    entries = [entry for page in pages for entry in _entries(page)]
    # No `<` may end the script element that holds it.
    return json.dumps(entries, ensure_ascii=True).replace("<", "\\u003c")


def _entries(page: Page) -> Iterator[dict[str, str]]:
    answer = words_of(page.answer or "")
    yield {"page": page.study, "heading": "The answer", "href": page.href, "text": answer}
    prose = DESCRIBED.sub(r"\1 ", MUTE.sub("", str(page.body))).replace("</td>", "</td> ")
    _, *parts = HEADING.split(prose)
    for anchor, heading, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        href = f"{page.href}#{anchor}"
        yield {"page": page.study, "heading": words_of(heading), "href": href, "text": words_of(text)}


def summaries(reports: Path) -> list[Mapping[str, object]]:
    """What is known of each report below `reports`, newest first, with its folder as `href`; no damaged notes."""
    found = []
    for file in reports.glob(f"*/*/{SUMMARY}"):
        facts = read_json(file, None)
        if isinstance(facts, dict) and (file.parent / "index.html").exists():
            found.append({**facts, "href": f"{file.parent.relative_to(reports).as_posix()}/index.html"})
    return sorted(found, key=lambda facts: (str(facts.get("when")), facts["href"]), reverse=True)


def front(runs: Sequence[Mapping[str, object]], reference: str) -> str:
    """Where the front of the site is: the report of the reference run, else the first, last of all a comparison."""
    hrefs = [str(facts["href"]) for facts in sorted(runs, key=lambda facts: bool(facts.get("comparison")))]
    return next((href for href in hrefs if href.startswith(f"{reference}/")), hrefs[0])
