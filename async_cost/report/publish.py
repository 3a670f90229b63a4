"""Publish a run: the pages of its analyses open from disk, without kernel and network.

`publish` writes index.html, a page per notebook, data/ with the run's own files as an RO-Crate, and renews what all
runs share: the list reports/runs.html, badges and a card to share; reports/index.html leads to the front of the site.
"""

import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from markupsafe import Markup

from async_cost.files import write_whole
from async_cost.findings.committed import called
from async_cost.findings.latency import committed
from async_cost.report import assets, calculator, finding, latency, markup, provenance, ro_crate
from async_cost.report.notebook import Page, read, take_heading
from async_cost.report.notes import Rows, comparisons_by_address
from async_cost.report.notes import notes as notes_on
from async_cost.report.records import banner, covers, next_build
from async_cost.runs import comparisons
from async_cost.runs.find import open_run, reference
from async_cost.runs.run import Run

TO_NOTEBOOK = re.compile(rf'<a href="{markup.NOTEBOOK.pattern}">(?P<text>.*?)</a>', re.DOTALL)


def reading(run: Run) -> str:
    """Return how to read a finding of `run`."""
    marks = "; ".join(f"{mark}: {means}" for mark, means in finding.MEANS.items() if mark in finding.SIGNS)
    return f"{marks}. Brackets: 95 % confidence, {covers(run)}."


def signs(run: Run) -> str:
    """One-line legend of marks and brackets below a page's answer."""
    return f"Bold: {called(run)}. {finding.FITTED}: range newer than the run. Brackets: 95 %."


def publish(
    run_dir: Path,
    pages: Iterable[Page],
    out_dir: Path,
    *,
    not_measured: Sequence[Path] = (),
    reports: Path | None = None,
) -> list[Path]:
    """Write the pages of a run into `out_dir`; returns their files, the front page first.

    `not_measured` are the unexecuted notebooks of analyses that the run has nothing for: the front page gives their
    headings. `reports` is the folder two levels above `out_dir` whose list of runs is renewed.
    """
    run, pages = open_run(run_dir), list(pages)
    for page in pages:
        page.judged, page.doubt = banner(run, page.studies)
    absent = [take_heading(read(notebook), notebook) for notebook in not_measured]
    files = _copy_data(run.sittings[0], out_dir / "data")
    for sitting in run.sittings[1:]:
        files += _copy_data(sitting, out_dir / "data", sitting.path.name)
    return _Report(run, pages, out_dir, reports, files, absent).publish()


def _copy_data(run: Run, data: Path, sitting: str = "") -> list[dict[str, str]]:
    data = data / sitting
    data.mkdir(parents=True, exist_ok=True)
    own = {path for pattern in ("run.json", "*.csv", "*.csv.gz") for path in run.path.glob(pattern)}
    sources = sorted(own) + comparisons.files_of(run.path)
    copies = [Path(shutil.copyfile(source, data / source.name)) for source in sources]
    write_whole(data / ro_crate.NAME, ro_crate.metadata(run.info, copies))
    return [
        {"name": str(Path(sitting) / path.name), "size": f"{max(path.stat().st_size / 1000, 1):,.0f} kB"}
        for path in [*copies, data / ro_crate.NAME]
    ]


@dataclass
class _Report:
    """The pages of one report and what they share."""

    run: Run
    pages: list[Page]
    out: Path
    reports: Path | None
    files: Sequence[dict[str, str]]
    absent: Sequence[Markup]

    def publish(self) -> list[Path]:
        """Write the pages and the list of all runs; return their files, the front page first."""
        written = [self._write_front()]
        written += [self._write_page(page) for page in self.pages]
        return written if self.reports is None else [*written, self._list_runs(self.reports)]

    def _write_front(self) -> Path:
        numbers = latency.beside_committed(self.run)
        return self._render(
            "front.html.j2",
            "index.html",
            [],
            lead=latency.lead(committed()),
            machines=list(numbers),
            blocks=latency.blocks(numbers),
            known={rendered.id for page in self.pages for rendered in page.said if not rendered.absent},
            advice=Markup(markup.safe_output({"text/markdown": latency.advice(committed())})),
            short={page.study: self._linked(page.short_answer or "") for page in self.pages},
            absent=self.absent,
            others=[
                (page, rendered, finding.head(rendered))
                for page in self.pages
                for rendered in page.said
                if rendered.mark in finding.OPEN
            ],
            reading=reading(self.run),
            title=f"Run {self.run.info.run_id}",
            summary=f"What async Rust costs on {provenance.machine(self.run.info)}",
            here="index",
            doubt=None,
            studies=(),
        )

    def _write_page(self, page: Page) -> Path:
        scripts = [assets.chart_library(), assets.script("page.js")] if 'class="chart"' in page.body else []
        scripts += [assets.script("tables.js")] if 'class="fold"' in page.body else []
        scripts += [calculator.script(page.calculator)] if page.calculator else []
        notes = list(notes_on(self.run, self._comparisons, page.rows))
        scripts += [assets.script("notes.js")] if notes else []
        run = self.run if any(not rendered.rough for rendered in page.said) else None
        return self._render(
            "page.html.j2",
            page.href,
            scripts,
            title=page.heading,
            answer=page.answer and self._linked(page.answer),
            reading=run and f"{signs(run)} {next_build(run, page.study)}".strip(),
            doubt=page.doubt,
            studies=page.studies,
            notes=notes,
            summary=Markup(markup.plain(page.answer or page.heading)),
            here=page.study,
            body=self._linked(page.body),
        )

    @cached_property
    def _comparisons(self) -> Rows:
        return comparisons_by_address(self.run)

    def _linked(self, body: str) -> Markup:
        """HTML whose links to analyses lead to their pages; those to other notebooks are text."""
        known = {other.study for other in self.pages}

        def link(match: re.Match[str]) -> str:
            if match["name"] == "analysis" and match["folder"] in known:
                return f'<a href="{match["folder"]}.html{match["place"] or ""}">{match["text"]}</a>'
            return match["text"]

        return Markup(TO_NOTEBOOK.sub(link, body))

    def _render(self, template: str, name: str, scripts: list[str], **values: object) -> Path:
        return assets.write_page(
            self.out / name,
            template,
            scripts,
            **values | provenance.facts(self.run.info),
            pages=self.pages,
            files=self.files,
            runs_href="../../runs.html" if self.reports else None,
        )

    def _list_runs(self, reports: Path) -> Path:
        """Renew the list of all reports, and the way to the front: that of the reference run, else the newest."""
        folders = sorted(reports.glob("*/*/index.html"), key=lambda file: file.parent.name, reverse=True)
        runs = [file.parent.relative_to(reports).as_posix() for file in folders]
        front = reference() if reference() in runs else runs[0]
        assets.write_page(reports / "index.html", "front_of_site.html.j2", href=f"{front}/index.html")
        for name, content in latency.to_share(committed()).items():
            write_whole(reports / name, content)
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
