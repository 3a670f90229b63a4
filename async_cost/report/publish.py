"""Publish a run: the pages of its analyses open from disk, without kernel and network.

`publish` writes index.html, one page per notebook, named after the notebook's file, a PDF of each where there is a
Chromium, cards/ with a small page for each finding, data/ with the run's own files, and summary.json for the list of
all runs, reports/runs.html, which it renews and links to; reports/index.html leads to the front of the site.
`publish_alone` publishes one notebook that is not about this run alone, as index.html.
`async_cost.workflow.publishing` is the command.
"""

import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from markupsafe import Markup

from async_cost.report import assets, cards, markup, provenance, site
from async_cost.report import pdf as paper
from async_cost.report.asked import Asked, elsewhere, without
from async_cost.report.finding import TIMES
from async_cost.report.notebook import Page, heading_of
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.record import RunInfo, read_run_info
from async_cost.runs.run import open_run, reference

RUN_FILES = ("run.json", "*.csv", "*.csv.gz")
TO_NOTEBOOK = re.compile(rf'<a href="{markup.NOTEBOOK.pattern}">(?P<text>.*?)</a>', re.DOTALL)
#: How to read a finding.
READING = (
    "✓ holds in this run, ✗ does not, ? undecided. Brackets: 95 % confidence, for this build on this machine. "
    f" 2{TIMES} a name: twice its time."
)
#: What a reader of each page may want to decide; the front page asks it in these words, and shows the first of them
#: first.
DECISIONS = {
    "zero-cost": "Is async free, with I/O and without?",
    "ladder": "Which part of async is worth avoiding?",
    "boxing-cost": "May I box a future in a hot path?",
    "runtimes": "Which runtime? What do a message, a timeout, a blocking call take?",
    "servers": "A loop, a runtime, or a thread for each connection?",
    "spawn-apis": "What does a spawn take, and may it go through a trait?",
    "thread-pools": "Which pool for which load?",
    "call-styles": "How should I call what may wait?",
    "prices": "What does each thing cost?",
    "replication": "May I quote what was published?",
    "hardware": "Does it hold on other machines?",
    "trust": "May I rely on this run?",
}


def publish(
    run_dir: Path,
    pages: Sequence[Page],
    out_dir: Path,
    *,
    pdf: bool = True,
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
        page.rely_on(run)
    absent = [heading_of(notebook) for notebook in not_measured]
    return _Report(
        run.info,
        pages,
        out_dir,
        reports,
        _copy_data(run_dir, out_dir / "data"),
        absent,
        numbers=Asked(run_dir, sources or {}),
    ).publish(pdf)


def publish_alone(
    run_dir: Path, page: Page, out_dir: Path, *, pdf: bool = True, reports: Path | None = None
) -> list[Path]:
    """Write one page, which is about more than the run in `run_dir`, as `out_dir`/index.html; returns the file."""
    out_dir.mkdir(parents=True, exist_ok=True)
    page.href = "index.html"
    return _Report(read_run_info(run_dir / "run.json"), [page], out_dir, reports, alone=True).publish(pdf)


def _copy_data(run_dir: Path, data: Path) -> list[dict[str, str]]:
    data.mkdir(parents=True, exist_ok=True)
    sources = sorted({path for pattern in RUN_FILES for path in run_dir.glob(pattern)})
    for source in sources:
        shutil.copyfile(source, data / source.name)
    return [{"name": path.name, "size": f"{max(path.stat().st_size / 1000, 1):,.0f} kB"} for path in sources]


@dataclass
class _Report:
    """The pages of one report and what they share; `alone` is a report of one page without a front page."""

    info: RunInfo
    pages: list[Page]
    out: Path
    reports: Path | None
    files: Sequence[dict[str, str]] = ()
    absent: Sequence[Markup] = ()
    alone: bool = False
    front_pdf: str | None = None
    #: What may be asked of the numbers of the run; of nothing on a page alone, which is about several runs.
    numbers: Asked | None = None

    @cached_property
    def facts(self) -> provenance.Facts:
        return provenance.facts(self.info)

    def publish(self, pdf: bool) -> list[Path]:
        """Write everything: the pages with links to their PDFs (once more where one of these cannot be made), and the
        list of all runs.
        """
        hrefs = ["index.html", *(page.href for page in self.pages)]
        expected = {paper.name_of(href) for href in hrefs} if pdf and paper.find_chromium() else set()
        written = self.write(expected)
        if pdf and (made := {path.name for path in paper.print_pdfs(written)}) != expected:
            self.write(made)
        return written if self.reports is None else [*written, self._list_runs(self.reports)]

    def write(self, pdfs: Collection[str]) -> list[Path]:
        """Write all pages, with links to those of their PDFs that are in `pdfs`; returns them, the front page first."""
        for page in self.pages:
            page.pdf = name if (name := paper.name_of(page.href)) in pdfs else None
        self.front_pdf = name if (name := paper.name_of("index.html")) in pdfs else None
        turns = [None, *self.pages, None]
        written = [] if self.alone else [self._write_front()]
        for before, page, after in zip(turns, self.pages, turns[2:], strict=False):
            written.append(self._write_page(page, before, after))
        shown: set[str] = set()
        while self.numbers and (left := self.numbers.linked - shown):  # notebooks link to one another
            shown |= left
            for study in sorted(left):
                self._write_cells(self.numbers, study)
        cards.write(self.out, self.pages, self.facts.headline)
        return written

    def _write_front(self) -> Path:
        scripts = [assets.script("search.js")]
        shown = sorted(self.pages, key=lambda page: page.study != next(iter(DECISIONS)))
        leads = {page.study: page.short_answer and elsewhere(page.short_answer, page.href) for page in self.pages}
        found = [(page.study, page.href, markup.words_of(page.answer or ""), page.sections) for page in self.pages]
        of = {page.study: page for page in self.pages}
        first = of.get(next(iter(DECISIONS)))
        return self._render(
            "front.html.j2",
            "index.html",
            scripts,
            cards=shown,
            decisions=DECISIONS,
            leads=leads,
            answer=first
            and first.answer
            and cards.linked(self._linked(first.study, elsewhere(first.answer, first.href))),
            reading=READING if any(page.findings for page in self.pages) else None,
            picture=first and first.picture,
            prices=of["prices"].picture if "prices" in of else None,
            absent=self.absent,
            notices=_notices(self.info, self.pages, front=True),
            title=f"Run {self.facts.run}",
            summary=f"What async Rust costs on {self.facts.machine}",
            here="index",
            pdf=self.front_pdf,
            index=Markup(site.search_index(found)),
            doubted=[page.study for page in self.pages if not page.judged],
        )

    def _write_page(self, page: Page, before: Page | None, after: Page | None) -> Path:
        scripts = [assets.chart_library(), assets.script("page.js")] if page.has_charts else []
        scripts += map(assets.script, page.scripts)
        notes = self.numbers.notes(page.answer, page.body) if self.numbers else []
        scripts += [assets.script("asked.js")] if notes else []
        return self._render(
            "page.html.j2",
            page.href,
            scripts,
            notices=_notices(self.info, [page]) if not self.alone else [],
            title=page.heading,
            heading=page.heading,
            answer=page.answer and cards.linked(self._linked(page.study, without(page.answer, notes))),
            reading=READING if page.findings else None,
            notes=notes,
            summary=Markup(markup.plain(page.answer or page.heading)),
            here=page.study,
            body=cards.linked(self._linked(page.study, without(page.body, notes))),
            pdf=page.pdf,
            before=before,
            after=after,
        )

    def _linked(self, at: str, body: str) -> Markup:
        """The body of a notebook in the room `at` with its links to notebooks as links to their pages, or to their
        cells; as text where there are none.
        """
        known = {other.study for other in self.pages}
        sources = self.numbers.sources if self.numbers else {}
        cells = {(source.parent.name, source.stem): study for study, source in sources.items()}

        def link(found: re.Match[str]) -> str:
            room, name = found["room"] or at, found["name"]
            if name == "analysis" and room in known:
                return f'<a href="{room}.html{found["place"] or ""}">{found["text"]}</a>'
            if study := cells.get((room, name)):
                self.numbers.linked.add(study)
                return f'<a href="cells-{study}.html">{found["text"]}</a>'
            return found["text"]

        return Markup(TO_NOTEBOOK.sub(link, body))

    def _write_cells(self, numbers: Asked, study: str) -> Path:
        """The cells of the notebook that measures a study, for numbers to link to."""
        title = f"The notebook of {study}"
        return self._render(
            "page.html.j2",
            f"cells-{study}.html",
            [],
            notices=[],
            title=title,
            heading=title,
            answer=None,
            notes=[],
            summary=title,
            here=study,
            body=self._linked(numbers.sources[study].parent.name, numbers.page_of_cells(study)),
            pdf=None,
            before=None,
            after=None,
        )

    def _render(self, template: str, name: str, scripts: list[str], **values: object) -> Path:
        return assets.write_page(
            self.out / name,
            template,
            scripts,
            **{"reading": None} | values,
            facts=self.facts,
            pages=[] if self.alone else self.pages,
            files=self.files,
            alone=self.alone,
            runs_href="../../runs.html" if self.reports else None,
        )

    def _list_runs(self, reports: Path) -> Path:
        """Note what there is to say of this report and renew the list of all runs."""
        first = self.pages[0] if self.pages else None
        site.write_summary(
            self.out,
            title=first.heading if self.alone else self.facts.run,
            machine=self.facts.machine,
            when=self.facts.when,
            profile=self.info.profile,
            answer=markup.words_of(first.short_answer) if first and first.short_answer else "",
            trusted=self.info.profile not in NOT_EVIDENCE and all(page.judged for page in self.pages),
            comparison=self.alone,
        )
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
            alone=True,
        )


def _notices(info: RunInfo, pages: Sequence[Page], *, front: bool = False) -> list[provenance.Notice]:
    """What a reader of these pages must know first: on a page what of its studies is not judged, and what limits the
    run.
    """
    studies = {case[0][0].study for page in pages for one in page.findings for case in one.main.cases}
    doubts = [provenance.Notice("", page.doubt) for page in pages if page.doubt and not front]
    return [*doubts, *provenance.notices(info, studies=None if front or not studies else studies)]
