"""The list of all runs in reports/. Everything is files with relative links, which any static host serves."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from async_cost.files import read_json

#: What the list of runs reads of each report.
SUMMARY = "summary.json"


def summaries(reports: Path) -> list[Mapping[str, object]]:
    """Return what is known of each report below `reports`, newest first, with its folder as `href`; damaged summaries
    are left out.
    """
    known = []
    for file in reports.glob(f"*/*/{SUMMARY}"):
        facts = read_json(file, None)
        if isinstance(facts, dict) and (file.parent / "index.html").exists():
            known.append({**facts, "href": f"{file.parent.relative_to(reports).as_posix()}/index.html"})
    return sorted(known, key=lambda facts: (str(facts.get("when")), facts["href"]), reverse=True)


def front(runs: Sequence[Mapping[str, object]], reference: str) -> str:
    """Return where the front of the site is: the report of the reference run, else the first."""
    hrefs = [str(facts["href"]) for facts in runs]
    return next((href for href in hrefs if href.startswith(f"{reference}/")), hrefs[0])
