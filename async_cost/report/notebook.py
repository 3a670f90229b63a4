"""An executed analysis notebook becomes the parts of a page. What a cell tagged `answer` says opens the page, and its
first sentence stands for the page on the front page.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
from markupsafe import Markup
from nbconvert import HTMLExporter
from traitlets.config import Config

from async_cost.findings.finding import RECORD, Finding, recorded
from async_cost.report import charts, markup
from async_cost.report.assets import TEMPLATE
from async_cost.statistics.statement import Outcome

#: Tags prose that is for those who see the code below it.
OF_CODE = "code"
OUTPUT_ORDER = [charts.VEGALITE_MIME, "text/html", "text/markdown", "text/plain"]


@dataclass
class Page:
    """One analysis, rendered; what is `Markup` is safe HTML, what is `str` is text."""

    study: str
    heading: Markup
    body: Markup
    answer: Markup | None
    #: The first of its charts, which stands for it on the front page.
    picture: Markup | None
    #: What it says of numbers, in its order.
    findings: list[Finding]
    #: Those that were judged and are not shown to be true: mark, id and statement.
    others: list[tuple[str, str, str]] = field(default_factory=list)
    #: Whether anything that it says is judged, and what is not and why.
    judged: bool = True
    doubt: str = ""
    pdf: str | None = None
    href: str = ""

    def __post_init__(self) -> None:
        self.href = self.href or f"{self.study}.html"

    @property
    def studies(self) -> list[str]:
        """The studies that its findings are about."""
        return list(dict.fromkeys(case[0][0].study for one in self.findings for case in one.main.cases))

    @property
    def short_answer(self) -> Markup | None:
        """The first paragraph of the answer, which says it in one sentence."""
        first = re.search(r"<p>.*?</p>", self.answer or "", re.DOTALL)
        return Markup(first[0]) if first else self.answer


def answers_of(content: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The outputs that answer, those that say yes or no first: what is undecided does not lead."""
    outputs = [
        output
        for cell in content.cells
        if _answers(cell)
        for output in cell.get("outputs", [])
        if "text/markdown" in output.get("data", {})
    ]
    decided = (Outcome.HOLDS, Outcome.DOES_NOT_HOLD)
    return sorted(outputs, key=lambda output: output.metadata.get("outcome") not in decided)


def not_shown(content: nbformat.NotebookNode) -> list[tuple[str, str, str]]:
    """Of the findings that were judged and are not shown to be true: mark, id and statement."""
    outputs = [output for cell in content.cells for output in cell.get("outputs", [])]
    says = [output for output in outputs if RECORD in output.get("metadata", {})]
    found = [(output.data["text/markdown"][0], output.metadata[RECORD]) for output in says]
    return [(sign, one["id"], one["statement"]) for sign, one in found if sign in "✗?"]


def _answers(cell: nbformat.NotebookNode) -> bool:
    return "answer" in cell.metadata.get("tags", [])


def read(notebook: Path) -> nbformat.NotebookNode:
    """The notebook as pages show it: without what is said of its code."""
    content = nbformat.read(notebook, as_version=4)
    content.cells = [cell for cell in content.cells if OF_CODE not in cell.metadata.get("tags", [])]
    return content


def page_of(notebook: Path) -> Page:
    """The page of an executed notebook. Raises `PublishError` for a chart without a description."""
    content = read(notebook)
    heading, others = take_heading(content, notebook), not_shown(content)
    answers = [Markup(markup.safe_output(output.data)) for output in answers_of(content)]
    _lift(content)
    _join_code(content)
    figures = markup.Charts(notebook.stem)
    exporter = HTMLExporter(
        config=Config({"NbConvertBase": {"display_data_priority": OUTPUT_ORDER}}),
        template_name=TEMPLATE.name,
        extra_template_basedirs=[str(TEMPLATE.parent)],
        filters={"safe_markdown": markup.safe_markdown, "safe_output": markup.safe_output, "chart": figures.chart},
    )
    body, _ = exporter.from_notebook_node(content)
    return Page(
        study=notebook.stem,
        heading=heading,
        body=Markup(body),
        answer=Markup("\n").join(answers) if answers else None,
        picture=figures.first,
        findings=recorded([notebook]),
        others=others,
    )


def take_heading(content: nbformat.NotebookNode, notebook: Path) -> Markup:
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
        if _answers(cell):
            cell.outputs = [output for output in cell.outputs if "text/markdown" not in output.get("data", {})]
        if cell.cell_type == "markdown":
            cell.source = re.sub(r"^#+ +The answer\s*$", "", cell.source, count=1, flags=re.MULTILINE).strip()


def _join_code(content: nbformat.NotebookNode) -> None:
    """Make neighbouring code cells one, so that a page folds their code together, below all that they show."""
    joined: list[nbformat.NotebookNode] = []
    for cell in content.cells:
        if not cell.source.strip() and not cell.get("outputs"):
            continue
        before = joined[-1] if joined else None
        if before and before.cell_type == cell.cell_type == "code" and not _answers(before):
            before.source = f"{before.source.strip()}\n\n\n{cell.source.strip()}"
            before.outputs += cell.outputs
            before.metadata["tags"] = [*before.metadata.get("tags", []), *cell.metadata.get("tags", [])]
        else:
            joined.append(cell)
    content.cells = joined
