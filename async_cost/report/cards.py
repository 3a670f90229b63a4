"""A card of each finding: a small page to link to where people discuss, with what such places show of a link (Open
Graph). It leads to the finding on its page, whose mark leads to the card.
"""

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from markupsafe import Markup

from async_cost.report import assets, markup
from async_cost.report.notebook import Page

FOLDER = "cards"
FINDING = re.compile(
    r'<div class="finding [^"]*" id="finding-(?P<id>[^"]+)">\s*<p><span class="mark">(?P<mark>.)</span> '
    r'(?P<sentence>.*?)<span class="values"[^>]*>(?P<values>.*?)</span></p>',
    re.DOTALL,
)


def linked(body: str) -> Markup:
    """`body` with the mark of each finding as a link to its card."""

    def link(found: re.Match[str]) -> str:
        href, mark = f"{FOLDER}/{found['id']}.html", f">{found['mark']}</span>"
        return found[0].replace(mark, f'><a href="{href}" title="A card of this finding">{found["mark"]}</a></span>', 1)

    return Markup(FINDING.sub(link, body))


def write(report: Path, pages: Iterable[Page], machine: str) -> list[Path]:
    """Write the cards of all findings of `pages` into the folder of a report; returns them."""
    folder = report / FOLDER
    shutil.rmtree(folder, ignore_errors=True)  # an earlier report may have had others
    folder.mkdir(parents=True, exist_ok=True)
    return [
        assets.write_page(
            folder / f"{found['id']}.html",
            "card.html.j2",
            sentence=f"{found['mark']} {markup.words_of(found['sentence'])}",
            values=markup.words_of(found["values"]),
            page=page.heading,
            href=f"../{page.href}#finding-{found['id']}",
            machine=machine,
        )
        for page in pages
        for found in FINDING.finditer(f"{page.answer}{page.body}")
    ]
