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
from async_cost.report.finding import Said
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
    said: list[Said] = field(default_factory=list)
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
        cases = (slot.main.cases[0] for one in self.findings for slot in one.slots)
        return list(dict.fromkeys(case[0][0].study for case in cases))

    @property
    def short_answer(self) -> Markup | None:
        """What it says first: labels and numbers of the first finding; else the first paragraph of the answer."""
        if first := first_of(one for one in self.said if not one.absent):
            return markup.inline(finding.short(first))
        found = re.search(r"<p>.*?</p>", self.answer or "", re.DOTALL)
        return Markup(found[0]) if found else self.answer


def said_in(content: nbformat.NotebookNode) -> list[Said]:
    """What a notebook says of its findings, in its order."""
    outputs = (output for cell in content.cells for output in cell.get("outputs", []))
    return [one for output in outputs if (one := said_of(output))]


def first_of(said: Iterable[Said]) -> Said | None:
    """Return the first finding that is not a yardstick."""
    return next((one for one in said if not one.is_yardstick), None)


def said_of(output: nbformat.NotebookNode) -> Said | None:
    """Return what an output says of a finding."""
    record = output.get("metadata", {}).get(finding.SAID)
    return record and msgspec.convert(record, Said)


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
        one = said_of(output)
        return bool(one and not one.rough and one.mark not in finding.DECIDED)

    return sorted(outputs, key=undecided)


def _answers(cell: nbformat.NotebookNode) -> bool:
    return "answer" in cell.metadata.get("tags", [])


def read(notebook: Path) -> nbformat.NotebookNode:
    """The notebook as pages show it: without what is said of its code."""
    content = nbformat.read(notebook, as_version=4)
    content.cells = [cell for cell in content.cells if OF_CODE not in cell.metadata.get("tags", [])]
    return content


def question_of(content: nbformat.NotebookNode) -> str:
    """Return what the page of a notebook answers, as lists of pages ask it; empty if its metadata do not say."""
    return content.metadata.get("async_cost", {}).get("question", "")


def page_of(notebook: Path) -> Page:
    """The page of an executed notebook. Raises `PublishError` for a chart without a description."""
    content = read(notebook)
    heading, said = take_heading(content, notebook), said_in(content)
    rows = [place for one in said for place in one.addresses.values()]
    metadata = [one.get("metadata", {}) for cell in content.cells for one in cell.get("outputs", [])]
    rows += [place for one in metadata for place in one.get(ROWS, ())]
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
        said=said,
        rows=rows,
        calculator="".join(one.get(CALCULATOR, "") for one in metadata),
    )


def render(content: nbformat.NotebookNode, *, as_markdown: bool = False) -> None:
    """Put what is said of findings in place of the outputs that hold it: as HTML, or as Markdown. What was not measured
    goes to the end, in a folded line, and before it what was expected; of a quick run, findings that follow one another
    are a table.
    """
    said = said_in(content)
    for cell in content.cells:
        outputs, rough = list[nbformat.NotebookNode](), list[Said]()
        for output in [*cell.get("outputs", []), None]:
            one = output and said_of(output)
            if one and one.rough:
                if one.is_yardstick:
                    outputs.append(_html_output(finding.html(one)))
                rough += [] if one.absent else [one]
                continue
            if rough:
                outputs.append(_html_output(finding.table(rough)))
                rough = []
            if one and not one.absent:
                output.data = (
                    {"text/markdown": finding.markdown(one)} if as_markdown else {"text/html": finding.html(one)}
                )
            if output and not (one and one.absent):
                outputs.append(output)
        if "outputs" in cell:
            cell.outputs = outputs
    if notes := [_html_output(html) for html in finding.footnotes(said)]:
        content.cells.append(new_code_cell("", outputs=notes))


def _html_output(html: str) -> nbformat.NotebookNode:
    return new_output("display_data", {"text/html": html})


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
