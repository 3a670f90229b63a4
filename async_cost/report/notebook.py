"""An executed analysis notebook becomes the parts of a page.

What a cell tagged `answer` says opens the page, and its first sentence stands for the page on the front page. How far
the page may be relied on is a property of the run, and said above it (`banner`).
"""

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import nbformat
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell
from traitlets.config import Config

from async_cost.findings.finding import Finding, recorded
from async_cost.report import PublishError, charts, markup, site
from async_cost.report.assets import TEMPLATE
from async_cost.report.banner import banner
from async_cost.runs.run import Run
from async_cost.statistics.statement import Outcome

OUTPUT_ORDER = [
    charts.VEGALITE_MIME,
    "text/html",
    "text/markdown",
    "image/svg+xml",
    "image/png",
    "image/jpeg",
    "text/plain",
]
#: Tags a sentence that says what the next cell computes. Who reads a page does not see that cell, so it is a comment
#: in the folded code.
OF_CODE = "code"
#: The beginning of a list, up to the end of its first item.
LIST_START = re.compile(r"\s*<ul>\s*<li>((?!<ul>).)*?</li>", re.DOTALL)
#: A finding, and its sentence with the values.
FINDING = re.compile(r'<div class="finding[^>]*>\s*(<p>.*?</p>)', re.DOTALL)
#: What makes a list of that class one that can be filtered.
SCRIPTS = {"fold": "tables.js"}


@dataclass
class Page:
    """One analysis, rendered; what is `Markup` is safe HTML, what is `str` is text."""

    study: str
    heading: Markup
    body: Markup
    answer: Markup | None
    has_charts: bool
    #: What stands for all charts on the front page.
    picture: Markup | None
    #: Scripts for what it holds, besides that of charts.
    scripts: list[str]
    #: What it says of numbers, in its order.
    findings: list[Finding] = field(default_factory=list)
    #: Why not everything that it says is judged.
    doubt: Markup | None = None
    #: Whether anything is.
    judged: bool = True
    pdf: str | None = None
    href: str = field(init=False)

    def __post_init__(self) -> None:
        self.href = f"{self.study}.html"

    @property
    def short_answer(self) -> Markup | None:
        """The first paragraph of the answer, which says it in one sentence, and the first item of a list that it only
        announces; all of it where it has no paragraphs.
        """
        return short(self.answer)

    def rely_on(self, run: Run) -> None:
        """Note what the banner of `run` says of the studies that the findings are about."""
        studies = dict.fromkeys(case[0][0].study for one in self.findings for case in one.main.cases)
        if studies:
            found = banner(run, list(studies))
            self.judged, self.doubt = found.judged, markup.inline(found.text) if found.text else None

    @cached_property
    def sections(self) -> list[site.Section]:
        return site.sections(self.body)


def short(answer: Markup | None) -> Markup | None:
    """What `Page.short_answer` is of an answer."""
    if first := FINDING.search(answer or ""):
        return Markup(first[1])
    paragraph = re.match(r"\s*<p>.*?</p>", answer or "", re.DOTALL)
    if paragraph is None or answer is None:
        return answer
    announced = paragraph[0].endswith(":</p>") and LIST_START.match(answer, paragraph.end())
    return Markup(paragraph[0] + (f"{announced[0]}</ul>" if announced else ""))


def answer_of(content: nbformat.NotebookNode) -> Markup | None:
    """What opens the page of an executed notebook."""
    shown = [
        markup.safe_table(output.data["text/html"])
        if "text/html" in output.data
        else markup.safe_output_markdown(output.data["text/markdown"])
        for output in answers_of(content)
    ]
    return Markup("\n").join(map(Markup, shown)) if shown else None


def answers_of(content: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The outputs that answer, those that say yes or no first."""
    return sorted(_outputs(content, "answer"), key=_undecided)


def _undecided(output: nbformat.NotebookNode) -> bool:
    """Whether a finding says neither yes nor no: then it does not lead."""
    return output.metadata.get("outcome", Outcome.HOLDS) not in (Outcome.HOLDS, Outcome.DOES_NOT_HOLD)


def read(notebook: Path) -> nbformat.NotebookNode:
    """The notebook. Raises `PublishError` when it is none."""
    try:
        return nbformat.read(notebook, as_version=4)
    except (OSError, ValueError) as error:
        raise PublishError(f"{notebook}: not a readable notebook ({error})") from error


def page_of(notebook: Path) -> Page:
    content = read(notebook)
    _require_executed(content, notebook)
    heading = _take_heading(content, notebook)
    answer = answer_of(content)
    _lift(content)
    _join_code(content)
    figures = markup.Charts(f"{notebook.stem}-")
    exporter = HTMLExporter(
        config=Config({"NbConvertBase": {"display_data_priority": OUTPUT_ORDER}}),
        template_name=TEMPLATE.name,
        extra_template_basedirs=[str(TEMPLATE.parent)],
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
        answer=answer,
        has_charts=figures.seen,
        picture=figures.first and Markup(figures.first),
        scripts=[script for of, script in SCRIPTS.items() if f'class="{of}"' in body],
        findings=recorded([notebook]),
    )


def heading_of(notebook: Path) -> Markup:
    """The heading of a notebook, which need not be executed."""
    return _take_heading(read(notebook), notebook)


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


def _lift(content: nbformat.NotebookNode) -> None:
    """Take the answers, and a heading `The answer`, out of the body: the page's head shows them."""
    for cell in content.cells:
        if "answer" in cell.metadata.get("tags", []):
            cell.outputs = [output for output in cell.outputs if "text/markdown" not in output.get("data", {})]
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"^#+ +The answer\s*$", "", cell.source, count=1, flags=re.MULTILINE).strip()


def _join_code(content: nbformat.NotebookNode) -> None:
    """Make neighbouring code cells one, so that a page folds their code together, below all that they show."""
    joined: list[nbformat.NotebookNode] = []
    for cell in content.cells:
        if OF_CODE in cell.metadata.get("tags", []):
            cell = new_code_cell("\n".join(f"# {line}" for line in cell.source.splitlines()))
        if not cell.source.strip() and not cell.get("outputs"):
            continue
        before = joined[-1] if joined else None
        apart = before is not None and "answer" in before.metadata.get("tags", [])
        if before and not apart and before.cell_type == cell.cell_type == "code":
            before.source = "\n\n\n".join(filter(None, (before.source.strip(), cell.source.strip())))
            before.outputs += cell.outputs
            before.metadata["tags"] = [*before.metadata.get("tags", []), *cell.metadata.get("tags", [])]
        else:
            joined.append(cell)
    content.cells = joined


def _outputs(content: nbformat.NotebookNode, tag: str) -> list[nbformat.NotebookNode]:
    """What the cells with that tag say."""
    return [
        output
        for cell in content.cells
        if tag in cell.metadata.get("tags", [])
        for output in cell.get("outputs", [])
        if "text/markdown" in output.get("data", {})
    ]
