"""Pages for where a repository is hosted: Markdown with pictures, light and dark, made by nbconvert from executed
analyses.

They need no server and no script. What a page of a report does besides, such as filters and notes on numbers, is left
out, and code is in the notebooks.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from nbconvert import MarkdownExporter
from nbformat.v4 import new_output

from async_cost import words
from async_cost.report import charts, finding, markup
from async_cost.report.notebook import finding_of, findings_in, first_finding, question_of, read, render

#: A link to the note on a comparison, which pages here do not have.
LINK = re.compile(rf'<a href="#{words.NOTE}\w+">(.*?)</a>', re.DOTALL)
#: What of a table is for a page with a style and scripts.
OF_PAGE = re.compile(r' (?:class|tabindex|role|aria-label|id)="[^"]*"|\n\s*')


def pages(
    notebooks: Sequence[Path], origin: str, reading: str, signs: Iterable[str], numbers: str = ""
) -> dict[str, str]:
    """The files of a sample by name: a page for each executed notebook, its pictures, and README.md, which lists them.
    `origin` says of which run, `reading` how to read it, `signs` the same of each page in a line; `numbers` are the
    latency numbers, in Markdown.
    """
    files: dict[str, str] = {}
    for notebook, line in zip(notebooks, signs, strict=True):
        files |= _page(notebook, line)
    listed = "\n".join(questions(notebooks, ""))
    others = "\n".join(
        f"- {rendered.mark} [{finding.head(rendered)}]({notebook.stem}.md#finding-{rendered.id})"
        for notebook in notebooks
        for rendered in findings_in(read(notebook))
        if rendered.mark in finding.OPEN
    )
    files["README.md"] = (
        f"# What async Rust costs: a sample of the report\n\n{numbers}\n\n{listed}\n\n{reading}\n\n{origin} These pages are made by "
        "`make sample`; your own report (`make report`) has the same pages with interactive charts.\n"
        + (f"\n## What this run refuted (≠) or could not decide (≈ ?)\n\n{others}\n" if others else "")
    )
    return files


def questions(notebooks: Sequence[Path], folder: str, *, brief: bool = False) -> Iterator[str]:
    """Yield what people ask, an entry of a list each, with the first numbers of the page that answers it, or the very
    first of them; of a page without findings the question alone.
    """
    for notebook in notebooks:
        content = read(notebook)
        first = first_finding(findings_in(content))
        text = finding.short(first) if first else ""
        numbers = text.partition("; ")[0] if brief else text
        yield f"- [{question_of(content)}]({folder}{notebook.stem}.md) {numbers}".rstrip()


def headed(notebook: Path, executed: Path) -> str:
    """Return an analysis, below its question what its first finding says of the run that it was executed with."""
    content = json.loads(notebook.read_text(encoding="utf-8"))
    if first := first_finding(findings_in(read(executed))):
        cell = content["cells"][1]
        text = re.sub(r"^.*? So says the", lambda _: f"{finding.head(first)} So says the", "".join(cell["source"]))
        cell["source"] = text.splitlines(keepends=True)
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def picture(light: str, dark: str, alt: str) -> str:
    """A picture in both themes, as a forge shows it."""
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
    return f'<picture>{source}<img src="{light}" alt="{escape(alt)}"></picture>'


def _page(notebook: Path, signs: str) -> dict[str, str]:
    """The page of an executed notebook, and the pictures that it links to, by file name."""
    content, study, pictures = read(notebook), notebook.stem, dict[str, str]()
    render(content, as_markdown=True)
    answer = next((cell for cell in content.cells if "answer" in cell.metadata.get("tags", [])), None)
    if answer and any(map(finding_of, answer.outputs)):
        answer.outputs.append(new_output("display_data", {"text/markdown": f"*{signs} [All signs](README.md).*"}))
    for cell in content.cells:
        if cell.cell_type == "markdown":  # neighbours are pages of the sample too
            cell.source = _linked(cell.source, study)
        for output in cell.get("outputs", []):
            if output.output_type in ("display_data", "execute_result"):
                rendered = finding_of(output)
                anchor = f'<a id="finding-{rendered.id}"></a>' if rendered and not rendered.is_yardstick else ""
                output.data = {"text/markdown": anchor + _markdown(output.data, study, pictures)}
    body, _ = MarkdownExporter(exclude_input=True).from_notebook_node(content)
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", body)).strip()
    source = f"[The notebook](../../notebooks/{study}/analysis.ipynb) · [All pages, and what the signs mean](README.md)"
    return {f"{study}.md": f"{text}\n\n{source}\n"} | pictures


def _markdown(data: Mapping[str, str], study: str, pictures: dict[str, str]) -> str:
    """What a cell showed, as Markdown that needs no page around it; its picture goes to `pictures`."""
    if charts.VEGALITE_MIME in data:
        name, svg = f"{study}-{len(pictures) // 2 + 1}", data["image/svg+xml"]
        pictures |= {f"{name}.svg": f"{svg}\n", f"{name}-dark.svg": f"{charts.dark(svg)}\n"}
        return picture(f"{name}.svg", f"{name}-dark.svg", data["text/plain"])
    if "text/markdown" in data:
        # Tags mean nothing in what a cell computed, here as on a page.
        return _linked(re.sub(r"(?<!\\)<", "&lt;", words.unlinked(data["text/markdown"])), study)
    if "text/html" in data:
        html = LINK.sub(r"\1", markup.safe_output(data))
        return OF_PAGE.sub("", html).replace("<tr", "\n<tr")
    return f"```\n{data.get('text/plain', '')}\n```"


def _linked(text: str, study: str) -> str:
    """Markdown whose links lead to pages here, else into the repository; headings are called as a forge calls them."""
    text = re.sub(r"\]\(\.\./([\w-]+)/analysis\.ipynb(#[\w-]+)?\)", r"](\1.md\2)", text)
    text = re.sub(r"\]\(\.\./(?!\.\.)([^)]+)\)", r"](../../notebooks/\1)", text)
    text = re.sub(r"\]\((?![a-z]+:|\.\./|#|[\w-]+\.md[)#])([^)]+)\)", rf"](../../notebooks/{study}/\1)", text)
    place = re.compile(r"[^\w-]")
    return re.sub(r"\]\(#([^)]+)\)", lambda match: f"](#{place.sub('', match[1]).lower()})", text)
