"""An executed analysis notebook becomes the parts of a page. What a cell tagged `answer` says opens the page, and its
first sentence stands for the page on the front page.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

import msgspec
import nbformat
from markupsafe import Markup
from nbconvert import HTMLExporter
from nbformat.v4 import new_code_cell, new_output
from traitlets.config import Config

from async_cost.findings.record import Finding, recorded
from async_cost.report import charts, finding, markup
from async_cost.report.assets import TEMPLATE
from async_cost.report.calculator import CALCULATOR
from async_cost.report.finding import RenderedFinding
from async_cost.report.tables import ROWS

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
    #: The definitions of what it says of numbers, in its order, and what it says.
    findings: list[Finding]
    said: list[RenderedFinding] = field(default_factory=list)
    #: The addresses of the comparisons whose numbers it shows.
    rows: list[str] = field(default_factory=list)
    #: What its calculator reads, as JSON, if it has one.
    calculator: str = ""
    #: Whether anything that it says is judged, and what is not and why.
    judged: bool = True
    doubt: str = ""
    #: As the front page asks it; without one, that shows the heading.
    question: str = ""

    @property
    def href(self) -> str:
        """Its file."""
        return f"{self.study}.html"

    @property
    def studies(self) -> list[str]:
        """The studies that its findings are about."""
        cases = (slot.main.cases[0] for definition in self.findings for slot in definition.slots)
        return list(dict.fromkeys(case[0][0].study for case in cases))

    @property
    def short_answer(self) -> Markup | None:
        """What it says first: labels and numbers of the first finding; else the first paragraph of the answer."""
        if first := first_finding(rendered for rendered in self.said if not rendered.absent):
            return markup.inline(finding.short(first))
        match = re.search(r"<p>.*?</p>", self.answer or "", re.DOTALL)
        return Markup(match[0]) if match else self.answer


def findings_in(content: nbformat.NotebookNode) -> list[RenderedFinding]:
    """What a notebook says of its findings, in its order."""
    outputs = (output for cell in content.cells for output in cell.get("outputs", []))
    return [rendered for output in outputs if (rendered := finding_of(output))]


def first_finding(findings: Iterable[RenderedFinding]) -> RenderedFinding | None:
    """Return the first finding that is not a yardstick."""
    return next((rendered for rendered in findings if not rendered.is_yardstick), None)


def finding_of(output: nbformat.NotebookNode) -> RenderedFinding | None:
    """Return what an output says of a finding."""
    record = output.get("metadata", {}).get(finding.SAID)
    return record and msgspec.convert(record, RenderedFinding)


def answers_of(content: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    """The outputs that answer, those that say yes or no first: what is undecided does not lead."""
    outputs = [
        output
        for cell in content.cells
        if _answers(cell)
        for output in cell.get("outputs", [])
        if output.output_type == "display_data" and not {charts.VEGALITE_MIME} & set(output.data)
    ]

    def undecided(output: nbformat.NotebookNode) -> bool:
        rendered = finding_of(output)
        return bool(rendered and not rendered.rough and rendered.mark not in finding.DECIDED)

    return sorted(outputs, key=undecided)


def _answers(cell: nbformat.NotebookNode) -> bool:
    return "answer" in cell.metadata.get("tags", [])


def read(notebook: Path) -> nbformat.NotebookNode:
    """Read a notebook and drop the prose cells tagged `code`."""
    content = nbformat.read(notebook, as_version=4)
    content.cells = [cell for cell in content.cells if OF_CODE not in cell.metadata.get("tags", [])]
    return content


def question_of(content: nbformat.NotebookNode) -> str:
    """Return what the page of a notebook answers, as lists of pages ask it; empty if its metadata do not say."""
    return content.metadata.get("async_cost", {}).get("question", "")


def page_of(notebook: Path) -> Page:
    """The page of an executed notebook. Raises `PublishError` for a chart without a description."""
    content = read(notebook)
    heading, shown = take_heading(content, notebook), findings_in(content)
    rows = [place for rendered in shown for place in rendered.addresses.values()]
    metadata = [output.get("metadata", {}) for cell in content.cells for output in cell.get("outputs", [])]
    rows += [place for entry in metadata for place in entry.get(ROWS, ())]
    render(content)
    answers = [Markup(markup.safe_output(output.data)) for output in answers_of(content)]
    _lift(content)
    _join_code(content)
    exporter = HTMLExporter(
        config=Config({"NbConvertBase": {"display_data_priority": OUTPUT_ORDER}}),
        template_name=TEMPLATE.name,
        extra_template_basedirs=[str(TEMPLATE.parent)],
        filters={
            "safe_markdown": markup.safe_markdown,
            "safe_output": markup.safe_output,
            "chart": partial(markup.chart, notebook.stem, count()),
        },
    )
    body, _ = exporter.from_notebook_node(content)
    return Page(
        study=notebook.stem,
        heading=heading,
        question=question_of(content),
        body=Markup(body),
        answer=Markup("\n").join(answers) if answers else None,
        findings=recorded([notebook]),
        said=shown,
        rows=rows,
        calculator="".join(entry.get(CALCULATOR, "") for entry in metadata),
    )


def render(content: nbformat.NotebookNode, *, as_markdown: bool = False) -> None:
    """Put what is said of findings in place of the outputs that hold it: as HTML, or as Markdown. What was not measured
    goes to the end, in a folded line, and before it what was expected; of a quick run, findings that follow one another
    are a table.
    """
    shown = findings_in(content)
    for cell in content.cells:
        outputs, rough = list[nbformat.NotebookNode](), list[RenderedFinding]()
        for output in [*cell.get("outputs", []), None]:
            rendered = output and finding_of(output)
            if rendered and rendered.rough:
                if rendered.is_yardstick:
                    outputs.append(_html_output(finding.html(rendered)))
                rough += [] if rendered.absent else [rendered]
                continue
            if rough:
                outputs.append(_html_output(finding.table(rough)))
                rough = []
            if rendered and not rendered.absent:
                output.data = (
                    {"text/markdown": finding.markdown(rendered)}
                    if as_markdown
                    else {"text/html": finding.html(rendered)}
                )
            if output and not (rendered and rendered.absent):
                outputs.append(output)
        if "outputs" in cell:
            cell.outputs = outputs
    if notes := [_html_output(html) for html in finding.footnotes(shown)]:
        content.cells.append(new_code_cell("", outputs=notes))


def _html_output(html: str) -> nbformat.NotebookNode:
    return new_output("display_data", {"text/html": html})


def take_heading(content: nbformat.NotebookNode, notebook: Path) -> Markup:
    """Cut the first `# heading` out of the notebook: on the page, warnings and origin come right below it."""
    for cell in content.cells:
        match = re.search(r"^# +(.+?)\s*$", cell.source, re.MULTILINE) if cell.cell_type == "markdown" else None
        if match:
            cell.source = (cell.source[: match.start()] + cell.source[match.end() :]).strip()
            return Markup(markup.plain(markup.safe_markdown(f"# {match[1]}")))
    return Markup.escape(notebook.stem)


def _lift(content: nbformat.NotebookNode) -> None:
    """Take the answers, and a heading `The answer`, out of the body: the page's head shows them."""
    for cell in content.cells:
        if _answers(cell):
            cell.outputs = [output for output in cell.outputs if charts.VEGALITE_MIME in output.get("data", {})]
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
