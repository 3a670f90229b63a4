"""What joins pages to a site: the sections that a reader can search, and the list of all runs in reports/.

Everything is files with relative links, so that any static host, or a folder on a disk, serves it.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

#: What the list of runs reads of each report.
SUMMARY = "summary.json"
#: How the id of a claim's element begins.
CLAIM = "claim-"
#: Elements whose text is no prose.
MUTE = ("style", "pre")
#: Most of a page by size; what a picture says stands also in the element of the live chart.
DRAWING = re.compile(r"<(svg|script)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
#: Elements without an end tag.
VOID = ("br", "col", "hr", "img", "input", "link", "meta", "wbr")


@dataclass(frozen=True)
class Section:
    """A part of a page that can be found: what stands below a heading of the second level, or one claim. Its id,
    heading and words.

    Claims are found by search; only what has a heading is `listed` as a section of the page.
    """

    anchor: str
    heading: str
    words: str
    listed: bool = True


def sections(body: str) -> list[Section]:
    """The sections and claims of a page's body, in order. Folded code and pictures count for nothing, alternative texts
    do.
    """
    parser = _Sections()
    parser.feed(DRAWING.sub("", body))
    parser.close()
    return [
        Section(anchor, " ".join(head.split()), " ".join(text.split()), not anchor.startswith(CLAIM))
        for anchor, head, text in parser.found
    ]


class _Sections(HTMLParser):
    """Collects [id, heading, text] of each h2 and each claim."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[list[str]] = []
        self._open: list[str] = []
        self._mute_from: int | None = None
        self._heading = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        name = attributes.get("id") or ""
        if tag == "h2" and name:
            self.found.append([name, "", ""])
            self._heading = True
        elif name.startswith(CLAIM):
            self.found.append([name, f"claim {name.removeprefix(CLAIM)}", ""])
        if self.found and self._mute_from is None and attributes.get("role") == "img":
            self.found[-1][2] += f" {attributes.get('aria-label') or ''} "
        if tag in VOID:
            return
        self._open.append(tag)
        classes = (attributes.get("class") or "").split()
        if self._mute_from is None and (tag in MUTE or "code" in classes or "anchor-link" in classes):
            self._mute_from = len(self._open)

    def handle_endtag(self, tag: str) -> None:
        if tag not in self._open:
            return
        while self._open.pop() != tag:
            pass
        if self._mute_from is not None and len(self._open) < self._mute_from:
            self._mute_from = None
        self._heading = self._heading and tag != "h2"

    def handle_data(self, data: str) -> None:
        if self.found and self._mute_from is None:
            # A blank keeps the cells of a table apart.
            self.found[-1][1 if self._heading else 2] += data if self._heading else f"{data} "


def write_summary(folder: Path, **facts: object) -> None:
    """Notes what the list of runs says about the report in `folder`."""
    replace(folder / SUMMARY, json.dumps(facts, indent=1) + "\n")


def summaries(reports: Path) -> list[Mapping[str, object]]:
    """What is known of each report below `reports`, newest first, with its folder as `href`; damaged notes are left
    out.
    """
    found = []
    for file in reports.glob(f"*/*/{SUMMARY}"):
        try:
            facts = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if isinstance(facts, dict) and (file.parent / "index.html").exists():
            found.append({**facts, "href": f"{file.parent.relative_to(reports).as_posix()}/index.html"})
    return sorted(found, key=lambda facts: (str(facts.get("when")), facts["href"]), reverse=True)


def front(runs: Sequence[Mapping[str, object]], reference: str) -> str:
    """Where the front of the site is: the report of the reference run, or the first of these where that is missing."""
    hrefs = [str(facts["href"]) for facts in runs]
    return next((href for href in hrefs if href.startswith(f"{reference}/")), hrefs[0])


def search_index(pages: Sequence[tuple[str, str, str, Sequence[Section]]]) -> str:
    """JSON for the search box: for each section of pages (name, href, answer, sections), where it is and what words it
    holds.
    """
    entries = []
    for name, href, answer, parts in pages:
        entries.append({"page": name, "heading": "The answer", "href": href, "text": answer})
        entries += [
            {"page": name, "heading": part.heading, "href": f"{href}#{part.anchor}", "text": part.words}
            for part in parts
        ]
    # No `<` may end the script element that holds it.
    return json.dumps(entries, ensure_ascii=True).replace("<", "\\u003c")


def replace(path: Path, text: str) -> None:
    """Write a whole file or none: a reader never sees half a page."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    os.replace(partial, path)
