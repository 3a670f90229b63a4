"""Publish a run: the pages of its analyses open from disk, without kernel and network.

`publish` writes index.html, a page per notebook, data/ with the run's own files, and summary.json for the list of all
runs, reports/runs.html, which it renews; reports/index.html leads to the front of the site.
"""

import json
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from markupsafe import Markup

from async_cost.files import write_whole
from async_cost.findings.committed import short
from async_cost.findings.latency import committed
from async_cost.report import assets, calculator, finding, latency, markup, provenance, site
from async_cost.report.notebook import Page, read, take_heading
from async_cost.report.notes import Notes
from async_cost.report.records import banner, covers, next_build
from async_cost.runs import comparisons
from async_cost.runs.find import open_run, reference
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.record import RunInfo
from async_cost.runs.run import Run

TO_NOTEBOOK = re.compile(rf'<a href="{markup.NOTEBOOK.pattern}">(?P<text>.*?)</a>', re.DOTALL)


def reading(run: Run) -> str:
    """Return how to read a finding of `run`."""
    marks = "; ".join(f"{mark}: {means}" for mark, means in finding.MEANS.items() if mark in finding.SIGNS)
    return f"{marks}. Brackets: 95 % confidence, {covers(run)}."


def signs(run: Run) -> str:
    """One-line legend of marks and brackets below a page's answer."""
    return f"Bold: {short(run.info.machine)}. {finding.FITTED}: range newer than the run. Brackets: 95 %."


def publish(
    run_dir: Path,
    pages: Iterable[Page],
    out_dir: Path,
    *,
    not_measured: Sequence[Path] = (),
    sources: Mapping[str, Path] | None = None,
    reports: Path | None = None,
) -> list[Path]:
    """Write the pages of a run into `out_dir`; returns their files, the front page first.

    `not_measured` are the unexecuted notebooks of analyses that the run has nothing for: the front page gives their
    headings. `sources` are the notebooks that measure, by study: numbers lead to their cells.
    `reports` is the folder two levels above `out_dir` whose list of runs is renewed.
    """
    run, pages = open_run(run_dir), list(pages)
    for page in pages:
        page.judged, page.doubt = banner(run, page.studies)
    absent = [take_heading(read(notebook), notebook) for notebook in not_measured]
    files = _copy_data(run.path, out_dir / "data")
    for sitting in run.sittings[1:]:
        files += _copy_data(sitting.path, out_dir / "data", sitting.path.name)
    return _Report(run.info, pages, out_dir, reports, Notes(run, sources or {}), files, absent).publish()


def _copy_data(run_dir: Path, data: Path, sitting: str = "") -> list[dict[str, str]]:
    data = data / sitting
    data.mkdir(parents=True, exist_ok=True)
    own = {path for pattern in ("run.json", "*.csv", "*.csv.gz") for path in run_dir.glob(pattern)}
    sources = sorted(own) + comparisons.files_of(run_dir)
    for source in sources:
        shutil.copyfile(source, data / source.name)
    return [
        {"name": str(Path(sitting) / path.name), "size": f"{max(path.stat().st_size / 1000, 1):,.0f} kB"}
        for path in sources
    ]


@dataclass
class _Report:
    """The pages of one report and what they share."""

    info: RunInfo
    pages: list[Page]
    out: Path
    reports: Path | None
    notes: Notes
    files: Sequence[dict[str, str]]
    absent: Sequence[Markup]

    def publish(self) -> list[Path]:
        """Write the pages and the list of all runs; return their files, the front page first."""
        written = [self._write_front()]
        turns = zip([None, *self.pages], self.pages, [*self.pages[1:], None], strict=False)
        written += [self._write_page(page, before, after) for before, page, after in turns]
        shown: set[str] = set()
        while left := self.notes.linked - shown:  # notebooks link to one another
            shown |= left
            for study in sorted(left):
                title = f"The notebook of {study}"
                body = self._linked(self.notes.sources[study].parent.name, self.notes.page_of_cells(study))
                values = {"title": title, "summary": title, "here": study, "body": body}
                self._render("cells.html.j2", f"cells-{study}.html", [], **values)
        return written if self.reports is None else [*written, self._list_runs(self.reports)]

    def _write_front(self) -> Path:
        numbers = latency.beside_committed(self.notes.run)
        return self._render(
            "front.html.j2",
            "index.html",
            [],
            lead=latency.lead(committed()),
            machines=list(numbers),
            blocks=latency.blocks(numbers),
            known={rendered.id for page in self.pages for rendered in page.said if not rendered.absent},
            advice=Markup(markup.safe_output({"text/markdown": latency.advice(committed())})),
            short={page.study: self._linked(page.study, page.short_answer or "") for page in self.pages},
            absent=self.absent,
            others=[
                (page, rendered, finding.head(rendered))
                for page in self.pages
                for rendered in page.said
                if rendered.mark in finding.OPEN
            ],
            reading=reading(self.notes.run),
            title=f"Run {self.info.run_id}",
            summary=f"What async Rust costs on {provenance.machine(self.info)}",
            here="index",
            doubt=None,
            studies=(),
        )

    def _write_page(self, page: Page, before: Page | None, after: Page | None) -> Path:
        scripts = [assets.chart_library(), assets.script("page.js")] if 'class="chart"' in page.body else []
        scripts += [assets.script("tables.js")] if 'class="fold"' in page.body else []
        scripts += [calculator.script(page.calculator)] if page.calculator else []
        notes = self.notes.of(page.rows)
        scripts += [assets.script("notes.js")] if notes else []
        run = self.notes.run if any(not rendered.rough for rendered in page.said) else None
        return self._render(
            "page.html.j2",
            page.href,
            scripts,
            title=page.heading,
            answer=page.answer and self._linked(page.study, page.answer),
            reading=run and f"{signs(run)} {next_build(run, page.study)}".strip(),
            doubt=page.doubt,
            studies=page.studies,
            notes=notes,
            summary=Markup(markup.plain(page.answer or page.heading)),
            here=page.study,
            body=self._linked(page.study, page.body),
            before=before,
            after=after,
        )

    def _linked(self, at: str, body: str) -> Markup:
        """HTML of the study `at`: links to notebooks lead to their pages or cells, or are text."""
        known = {other.study for other in self.pages}
        cells = {(source.parent.name, source.stem): study for study, source in self.notes.sources.items()}

        def link(match: re.Match[str]) -> str:
            folder, name = match["folder"] or at, match["name"]
            if name == "analysis" and folder in known:
                return f'<a href="{folder}.html{match["place"] or ""}">{match["text"]}</a>'
            if study := cells.get((folder, name)):
                self.notes.linked.add(study)
                return f'<a href="cells-{study}.html">{match["text"]}</a>'
            return match["text"]

        return Markup(TO_NOTEBOOK.sub(link, body))

    def _render(self, template: str, name: str, scripts: list[str], **values: object) -> Path:
        return assets.write_page(
            self.out / name,
            template,
            scripts,
            **values | provenance.facts(self.info),
            pages=self.pages,
            files=self.files,
            runs_href="../../runs.html" if self.reports else None,
        )

    def _list_runs(self, reports: Path) -> Path:
        """Note what there is to say of this report and renew the list of all runs."""
        first = self.pages[0] if self.pages else None
        judged = self.info.profile not in NOT_EVIDENCE and all(page.judged for page in self.pages)
        facts = {
            "title": self.info.run_id,
            "headline": provenance.headline(self.info),
            "when": self.info.started,
            "answer": markup.words_of(first.short_answer) if first and first.short_answer else "",
            "trusted": judged,
        }
        write_whole(self.out / site.SUMMARY, json.dumps(facts, indent=1) + "\n")
        runs = site.summaries(reports)
        assets.write_page(reports / "index.html", "front_of_site.html.j2", href=site.front(runs, reference()))
        return assets.write_page(
            reports / "runs.html",
            "runs.html.j2",
            title="All runs",
            summary="What async Rust costs: all runs that were published here",
            here="runs",
            runs=runs,
            pages=[],
            runs_href="runs.html",
        )
