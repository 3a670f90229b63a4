"""Publish a run: executed analysis notebooks become pages that open from disk, without kernel and network.

    python -m async_cost.report.publish data/runs/<machine>/<utc-time> reports/<machine>/<utc-time> zero-cost.ipynb …

`--not-measured=notebooks/<room>/analysis.ipynb` names an analysis that has no page, since the run lacks what it reads; the front
page says so.

Writes index.html, one page per notebook, named after the notebook's file, a PDF of each where there is a Chromium, data/ with the
run's own files, and summary.json for the list of runs. `--site=reports` renews that list, reports/index.html, and links to it. `--alone`
publishes one notebook that is not about this run alone, as index.html.

Two cells are lifted from each notebook by their tags: `answer`, whose Markdown output says what was found and opens the
page and its card on the front page, and `trust`, whose Markdown output says how far the run can be believed. When that
output's metadata holds `"trusted": False`, it becomes the page's warning, and is not repeated below:
`display(Markdown(sentence), metadata={"trusted": trusted, "studies": {"zero-cost": trusted}})`. The verdict on each of the `studies` that the
page reads stands at its top, below the title.
"""

import argparse
import base64
import hashlib
import json
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
import nbformat
import vl_convert
from markupsafe import Markup
from nbconvert import HTMLExporter
from pygments.formatters import HtmlFormatter
from traitlets.config import Config

from async_cost.report import charts, markup, provenance, site
from async_cost.report import pdf as paper

TEMPLATES = Path(__file__).parent / "template"
TEMPLATE = TEMPLATES / "async-cost"
RUN_FILES = ("run.json", "*.csv", "*.csv.gz")
OUTPUT_ORDER = [
    charts.VEGALITE_MIME,
    "text/html",
    "text/markdown",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "text/plain",
]
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0072b2"/>'
    '<path d="M3 5h10M3 11h6" stroke="#fff" stroke-width="2.4"/></svg>'
)


class PublishError(Exception):
    """The run or a notebook cannot be published; the message names the file and what is wrong with it."""


@dataclass
class Page:
    """One analysis, rendered; what is `Markup` is safe HTML, what is `str` is text."""

    study: str
    heading: Markup
    body: Markup
    answer: Markup | None
    trust: Markup | None
    trusted: bool
    #: The studies that the page reads, and whether each may be believed.
    verdicts: dict[str, str]
    has_charts: bool
    has_claims: bool
    pdf: str | None = None
    href: str = field(init=False)

    def __post_init__(self) -> None:
        self.href = f"{self.study}.html"

    @property
    def short_answer(self) -> Markup | None:
        """The first paragraph of the answer, which says it in one sentence; all of it where it has no paragraphs."""
        paragraph = re.match(r"\s*<p>.*?</p>", self.answer or "", re.DOTALL)
        return Markup(paragraph[0]) if paragraph else self.answer

    @cached_property
    def sections(self) -> list[site.Section]:
        return site.sections(self.body)


def publish(
    run_dir: Path,
    notebooks: Sequence[Path],
    out_dir: Path,
    *,
    pdf: bool = True,
    not_measured: Sequence[Path] = (),
    reports: Path | None = None,
) -> list[Path]:
    """Write the pages of a run into `out_dir`; returns them, the front page first.

    `not_measured` are the unexecuted notebooks of analyses that the run has nothing for: the front page gives their headings. `reports` is
    the folder two levels above `out_dir` whose list of runs is renewed.
    """
    info = _run_info(run_dir)
    pages = [_page(notebook) for notebook in notebooks]
    absent = [_take_heading(_read(notebook), notebook) for notebook in not_measured]
    (out_dir / "data").mkdir(parents=True, exist_ok=True)
    report = _Report(info, pages, out_dir, _copy_data(run_dir, out_dir / "data"), absent, reports is not None)
    written = report.write()
    if pdf and report.add_pdfs(written):
        report.write()
    if reports is not None:
        written.append(_list_runs(report, reports))
    return written


def publish_alone(
    run_dir: Path, notebook: Path, out_dir: Path, *, pdf: bool = True, reports: Path | None = None
) -> list[Path]:
    """Write one notebook, which is about more than the run in `run_dir`, as `out_dir`/index.html; returns the page."""
    out_dir.mkdir(parents=True, exist_ok=True)
    page = _page(notebook)
    page.href = "index.html"
    report = _Report(_run_info(run_dir), [page], out_dir, [], [], reports is not None, alone=True)
    written = report.write()
    if pdf and report.add_pdfs(written):
        report.write()
    if reports is not None:
        written.append(_list_runs(report, reports))
    return written


# -- a notebook -----------------------------------------------------------------------------------


def _read(notebook: Path) -> nbformat.NotebookNode:
    try:
        return nbformat.read(notebook, as_version=4)
    except (OSError, ValueError) as error:
        raise PublishError(f"{notebook}: not a readable notebook ({error})") from error


def _page(notebook: Path) -> Page:
    content = _read(notebook)
    _require_executed(content, notebook)
    heading = _take_heading(content, notebook)
    answer, trust = _tagged(content, "answer"), _tagged(content, "trust")
    _lift(content, {"answer"} if trust is None or trust.trusted else {"answer", "trust"})
    _join_code(content)
    figures = markup.Charts()
    exporter = HTMLExporter(
        config=Config({"NbConvertBase": {"display_data_priority": OUTPUT_ORDER}}),
        template_name=TEMPLATE.name,
        extra_template_basedirs=[str(TEMPLATES)],
        filters={
            "safe_markdown": markup.safe_markdown,
            "safe_output_markdown": markup.safe_output_markdown,
            "safe_table": markup.safe_table,
            "chart": figures.chart,
            "picture": figures.picture,
        },
    )
    try:
        body, _ = exporter.from_notebook_node(content)
    except markup.MissingDescription as error:
        raise PublishError(f"{notebook}: {error}") from error
    return Page(
        study=notebook.stem,
        heading=heading,
        body=Markup(body),
        answer=answer and Markup(markup.safe_output_markdown(answer.text)),
        trust=trust and Markup(markup.safe_output_markdown(trust.text)),
        trusted=trust is None or trust.trusted,
        verdicts=_verdicts(notebook, trust),
        has_charts=figures.seen,
        has_claims='<div class="claims">' in body,
    )


def _require_executed(content: nbformat.NotebookNode, notebook: Path) -> None:
    """A page with holes would look like a page without findings."""
    for number, cell in enumerate(content.cells, start=1):
        if cell.cell_type != "code" or not cell.source.strip():
            continue
        if any(output.output_type == "error" for output in cell.outputs):
            raise PublishError(f"{notebook}: cell {number} failed; execute the notebook again")
        if cell.execution_count is None:
            raise PublishError(f"{notebook}: cell {number} was not executed")


def _take_heading(content: nbformat.NotebookNode, notebook: Path) -> Markup:
    """Cut the first `# heading` out of the notebook: on the page, warnings and origin come right below it."""
    for cell in content.cells:
        found = re.search(r"^# +(.+?)\s*$", cell.source, re.MULTILINE) if cell.cell_type == "markdown" else None
        if found:
            cell.source = (cell.source[: found.start()] + cell.source[found.end() :]).strip()
            return Markup(markup.plain(markup.safe_markdown(f"# {found[1]}")))
    return Markup.escape(notebook.stem)


def _lift(content: nbformat.NotebookNode, tags: set[str]) -> None:
    """Take what cells with these tags said, and a heading `The answer`, out of the body: the page's head shows them."""
    for cell in content.cells:
        if tags & set(cell.metadata.get("tags", [])):
            cell.outputs = [output for output in cell.outputs if "text/markdown" not in output.get("data", {})]
        if cell.cell_type == "markdown" and "answer" in tags:
            cell.source = re.sub(r"^#+ +The answer\s*$", "", cell.source, count=1, flags=re.MULTILINE).strip()


def _join_code(content: nbformat.NotebookNode) -> None:
    """Make neighbouring code cells one, so that a page folds their code together, below all that they show."""
    joined: list[nbformat.NotebookNode] = []
    for cell in content.cells:
        if not cell.source.strip() and not cell.get("outputs"):
            continue
        before = joined[-1] if joined else None
        if before and before.cell_type == cell.cell_type == "code":
            before.source = "\n\n\n".join(filter(None, (before.source.strip(), cell.source.strip())))
            before.outputs += cell.outputs
            before.metadata["tags"] = [*before.metadata.get("tags", []), *cell.metadata.get("tags", [])]
        else:
            joined.append(cell)
    content.cells = joined


@dataclass(frozen=True)
class Said:
    text: str
    trusted: bool
    studies: dict[str, str] | None


def _tagged(content: nbformat.NotebookNode, tag: str) -> Said | None:
    """What the cell with that tag says in Markdown; None when there is no such cell or it says nothing."""
    outputs = [
        output
        for cell in content.cells
        if tag in cell.metadata.get("tags", [])
        for output in cell.get("outputs", [])
        if "text/markdown" in output.get("data", {})
    ]
    if not outputs:
        return None
    text = "\n\n".join(output.data["text/markdown"] for output in outputs)
    metadata = [output.get("metadata", {}) for output in outputs]
    named = [one["studies"] for one in metadata if "studies" in one]
    studies = {study: _belief(trusted) for some in named for study, trusted in some.items()} if named else None
    return Said(text, all(one.get("trusted", True) for one in metadata), studies)


def _belief(trusted: object) -> str:
    """What a notebook says of a study, true, false or "in part" (some groups of its comparisons hold), as an entry of BELIEFS."""
    return IN_PART if trusted == IN_PART else "yes" if trusted else "no"


def _verdicts(notebook: Path, trust: Said | None) -> dict[str, str]:
    """The verdict on each study that a page reads; the page's own name stands for them where it names none."""
    if trust is None:
        return {}
    return {notebook.stem: _belief(trust.trusted)} if trust.studies is None else trust.studies


# -- a run ----------------------------------------------------------------------------------------


def _run_info(run_dir: Path) -> dict[str, Any]:
    file = run_dir / "run.json"
    try:
        info = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PublishError(f"{file}: not readable as JSON ({error})") from error
    if not isinstance(info, dict):
        raise PublishError(f"{file}: holds no JSON object")
    return info


def _copy_data(run_dir: Path, data: Path) -> list[dict[str, str]]:
    sources = sorted({path for pattern in RUN_FILES for path in run_dir.glob(pattern)})
    for source in sources:
        shutil.copyfile(source, data / source.name)
    return [{"name": path.name, "size": f"{max(path.stat().st_size / 1000, 1):,.0f} kB"} for path in sources]


# -- pages ----------------------------------------------------------------------------------------


@dataclass
class _Report:
    """The pages of one report and what they share; `alone` is a report of one page without a front page."""

    info: dict[str, Any]
    pages: list[Page]
    out: Path
    files: list[dict[str, str]]
    absent: Sequence[Markup]
    listed: bool
    alone: bool = False
    front_pdf: str | None = None

    def write(self) -> list[Path]:
        """Write all pages; returns them, the front page first."""
        turns = [None, *self.pages, None]
        written = [] if self.alone else [self._write_front()]
        for before, page, after in zip(turns, self.pages, turns[2:], strict=False):
            written.append(self._write_page(page, before, after))
        return written

    def add_pdfs(self, written: Sequence[Path]) -> bool:
        """Print all pages and note which PDFs there are; whether there is any."""
        made = {path.name for path in paper.print_pdfs(written)}
        for page in self.pages:
            name = Path(page.href).with_suffix(".pdf").name
            page.pdf = name if name in made else None
        self.front_pdf = "index.pdf" if "index.pdf" in made else None
        return bool(made)

    def _write_front(self) -> Path:
        facts = provenance.facts(self.info)
        scripts = [_script("search.js")]
        found = [(page.study, page.href, markup.words_of(page.answer or ""), page.sections) for page in self.pages]
        return self._render(
            "front.html.j2",
            "index.html",
            scripts,
            absent=self.absent,
            notices=_notices(self.info, self.pages),
            title=f"Run {facts.run}",
            summary=f"What async Rust costs on {facts.machine}",
            here="index",
            pdf=self.front_pdf,
            index=Markup(site.search_index(found)),
            score=next((page.short_answer for page in self.pages if page.study == "replication"), None),
            doubted=[page.study for page in self.pages if not page.trusted],
        )

    def _write_page(self, page: Page, before: Page | None, after: Page | None) -> Path:
        scripts = [_chart_library(), _script("page.js")] if page.has_charts else []
        scripts += [_script("claims.js")] if page.has_claims else []
        return self._render(
            "page.html.j2",
            page.href,
            scripts,
            notices=_notices(self.info, [page]) if not self.alone else [],
            title=page.heading,
            heading=page.heading,
            answer=page.answer,
            verdicts=[(study, belief.replace(" ", "-"), BELIEFS[belief]) for study, belief in page.verdicts.items()],
            summary=Markup(markup.plain(page.answer or page.heading)),
            here=page.study,
            body=page.body,
            pdf=page.pdf,
            before=before,
            after=after,
        )

    def _render(self, template: str, name: str, scripts: list[str], **values: object) -> Path:
        html = (
            _environment()
            .get_template(template)
            .render(
                **values,
                facts=provenance.facts(self.info),
                pages=[] if self.alone else self.pages,
                files=self.files,
                alone=self.alone,
                runs_href="../../index.html" if self.listed else None,
                css=_css(),
                icon=_icon(),
                scripts=[Markup(script) for script in scripts],
                policy=_policy(scripts),
            )
        )
        site.replace(self.out / name, html)
        return self.out / name


def _list_runs(report: _Report, reports: Path) -> Path:
    """Note what there is to say of `report` and renew the list of all runs."""
    facts = provenance.facts(report.info)
    first = report.pages[0] if report.pages else None
    site.write_summary(
        report.out,
        title=first.heading if report.alone else facts.run,
        machine=facts.machine,
        when=facts.when,
        profile=str(report.info.get("profile")),
        answer=markup.words_of(first.short_answer) if first and first.short_answer else "",
        trusted=all(page.trusted for page in report.pages),
        comparison=report.alone,
    )
    html = (
        _environment()
        .get_template("runs.html.j2")
        .render(
            title="All runs",
            summary="What async Rust costs: all runs that were published here",
            here="runs",
            runs=site.summaries(reports),
            pages=[],
            runs_href="index.html",
            alone=True,
            css=_css(),
            icon=_icon(),
            scripts=[],
            policy=_policy([]),
        )
    )
    site.replace(reports / "index.html", html)
    return reports / "index.html"


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )


def _icon() -> Markup:
    return Markup(f"data:image/svg+xml,{quote(ICON)}")


#: What may be said of a study, for those who read a page: as its words, and as a class of the style.
IN_PART = "in part"
BELIEFS = {"yes": "may be believed", IN_PART: "may be believed in part", "no": "is not evidence"}
#: Length, as HTML, from which on reasons not to rely on a run are folded: more than a few sentences.
LONG_REASON = 1500


def _notices(info: dict[str, Any], pages: Sequence[Page]) -> list[provenance.Notice]:
    """What a reader of these pages must know first. What speaks against relying on the run is one notice, for all pages."""
    doubts = [page for page in pages if not page.trusted and page.trust]
    others = list(provenance.notices(info, profile=not doubts))
    if not doubts:
        return others
    if len(pages) > 1:
        reasons = [Markup("<p>{}:</p>{}").format(page.study, page.trust) for page in doubts]
    else:
        reasons = [page.trust for page in doubts]
    text = Markup("").join(reasons)
    if len(text) > LONG_REASON:
        # A study of many controls names each that failed. The verdict must be seen at once, the list by those who ask for it.
        quick = "The profile is quick, which shows that everything works and is never evidence. "
        short = quick if info.get("profile") == "quick" else ""
        text = Markup("{}<details><summary>The reasons, one by one</summary>{}</details>").format(short, text)
    some = any(belief != "no" for page in pages for belief in page.verdicts.values())
    head = "Not all of this run is evidence." if some else "Do not rely on this run: it is not evidence."
    return [provenance.Notice(head, text), *others]


def _policy(scripts: Sequence[str]) -> str:
    """Nothing is fetched, and no script runs but these: not even one that a run's words smuggled in."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes) or "'none'"
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


@cache
def _css() -> Markup:
    # Of the styles at hand, the one all of whose colours stand out from the page's tint as WCAG asks, 4.5 to 1.
    light = HtmlFormatter(style="xcode").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    recoloured = charts.dark_css("figure.chart")
    page = (TEMPLATE / "page.css").read_text(encoding="utf-8")
    return Markup(
        f"{light}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n{recoloured}\n}}\n{page}"
        ".highlight, .highlight pre { background: var(--tint); }\n"
    )


@cache
def _chart_library() -> str:
    library = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", charts.VEGALITE_VERSION)
    return library.replace("</script", "<\\/script")


@cache
def _script(name: str) -> str:
    return (TEMPLATE / name).read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m async_cost.report.publish", description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("report", type=Path, help="folder that receives the pages")
    parser.add_argument("notebooks", type=Path, nargs="*", help="executed analyses, in the order of the pages")
    parser.add_argument("--site", type=Path, help="folder of all reports, whose list of runs is renewed")
    parser.add_argument("--alone", action="store_true", help="one notebook that is not about this run alone")
    parser.add_argument("--not-measured", type=Path, action="append", default=[], help="analysis that has no page")
    arguments = parser.parse_args()
    try:
        if arguments.alone:
            (notebook,) = arguments.notebooks
            pages = publish_alone(arguments.run, notebook, arguments.report, reports=arguments.site)
        else:
            pages = publish(
                arguments.run,
                arguments.notebooks,
                arguments.report,
                not_measured=arguments.not_measured,
                reports=arguments.site,
            )
        for page in pages:
            print(page)
    except PublishError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
