"""Pages for where a repository is hosted: Markdown with pictures, light and dark, made by nbconvert from executed
analyses.

They need no server and no script. What a page of a report does besides, such as filters and notes on numbers, is left
out, and code is in the notebooks.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

from async_cost import words
from async_cost.findings.finding import RECORD
from async_cost.report import PublishError, charts, markup
from async_cost.report.notebook import answers_of, not_shown, read
from async_cost.report.notes import LINK
from async_cost.report.publish import DECISIONS, FIRST

#: Findings of the first page at the head of README.md.
SHOWN = 3
#: What of a table is for a page with a style and scripts.
OF_PAGE = re.compile(r' (?:class|tabindex|role|aria-label|id)="[^"]*"|\n\s*')


def pages(notebooks: Sequence[Path], origin: str, reading: str) -> dict[str, str]:
    """The files of a sample by name: a page for each executed notebook, its pictures, and README.md, which lists them.
    `origin` says of which run, `reading` how to read it.
    """
    files: dict[str, str] = {}
    for notebook in notebooks:
        files |= _page(notebook)
    listed = "\n".join(_questions(notebooks, ""))
    others = "\n".join(
        f"- {sign} [{words.escape(statement)}]({notebook.stem}.md#finding-{id})"
        for notebook in notebooks
        for sign, id, statement in not_shown(read(notebook))
    )
    files["README.md"] = (
        f"# A sample of the report\n\n{origin} These pages are made by `make sample`; a report of your own, by `make report`, holds "
        f"the same with charts that answer questions, and tables that sort and filter.\n\n{reading}\n\n{listed}\n"
        + (f"\n## What is not shown in this run\n\n{others}\n" if others else "")
    )
    return files


def readme(notebooks: Sequence[Path], folder: Path, picture: Path, origin: str, reading: str) -> str:
    """The answer at the head of README.md: findings of the first page, its chart, and what people ask, with links."""
    first = read(next(notebook for notebook in notebooks if notebook.stem == FIRST))
    findings = [output for output in answers_of(first) if RECORD in output.metadata]
    answers = "\n>\n".join(f"> {_sentence(output)}" for output in findings[:SHOWN])
    outputs = (output for cell in first.cells for output in cell.get("outputs", []))
    alt = next(output.data["text/plain"] for output in outputs if charts.VEGALITE_MIME in output.get("data", {}))
    rest = [notebook for notebook in notebooks if notebook.stem not in (FIRST, "hardware", "trust")]
    questions = "\n".join(_questions(rest, f"{folder}/", values=False))
    shown = _picture(str(picture), str(picture.with_stem(f"{picture.stem}-dark")), alt)
    more = f"[More]({folder}/{FIRST}.md)."
    return f"{answers}\n\n{shown}\n\n{more} {reading} {origin}\n\n{questions}"


def _questions(notebooks: Sequence[Path], folder: str, *, values: bool = True) -> Iterator[str]:
    """What people ask, an entry of a list each, with the first answer, its values if wanted, and the page."""
    if unknown := [notebook.stem for notebook in notebooks if notebook.stem not in DECISIONS]:
        raise PublishError(f"async_cost/report/publish.py: DECISIONS lacks what a reader of {unknown[0]} decides")
    for notebook in sorted(notebooks, key=lambda path: list(DECISIONS).index(path.stem)):
        answers = answers_of(read(notebook))
        answer = _sentence(answers[0]) if answers else ""
        if not values and answer.count("**") == 2 and answer.startswith("✓"):
            answer = answer[: answer.rindex("**") + 2]
        elif not values and answers and RECORD not in answers[0].metadata:  # a score
            answer = f"{answer.partition('.')[0]}."
        yield f"- [{DECISIONS[notebook.stem]}]({folder}{notebook.stem}.md) {answer}"


def _sentence(output: nbformat.NotebookNode) -> str:
    """The first paragraph of what a cell showed."""
    return words.unlinked(output.data["text/markdown"]).split("\n\n")[0]


def _picture(light: str, dark: str, alt: str) -> str:
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
    return f'<picture>{source}<img src="{light}" alt="{escape(alt)}"></picture>'


def _page(notebook: Path) -> dict[str, str]:
    """The page of an executed notebook, and the pictures that it links to, by file name."""
    content, room, pictures = read(notebook), notebook.stem, dict[str, str]()
    for cell in content.cells:
        if cell.cell_type == "markdown":  # neighbours are pages of the sample too
            cell.source = _linked(cell.source, room)
        for output in cell.get("outputs", []):
            if output.output_type in ("display_data", "execute_result"):
                place = output.metadata.get(RECORD)
                anchor = f'<a id="finding-{place["id"]}"></a>' if place else ""
                output.data = {"text/markdown": anchor + _markdown(output.data, room, pictures)}
    body, _ = MarkdownExporter(exclude_input=True).from_notebook_node(content)
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", body)).strip()
    source = f"[The notebook](../../notebooks/{room}/analysis.ipynb) · [All pages, and what the signs mean](README.md)"
    return {f"{room}.md": f"{text}\n\n{source}\n"} | pictures


def _markdown(data: Mapping[str, str], room: str, pictures: dict[str, str]) -> str:
    """What a cell showed, as Markdown that needs no page around it; its picture goes to `pictures`."""
    if charts.VEGALITE_MIME in data:
        name, svg = f"{room}-{len(pictures) // 2 + 1}", data["image/svg+xml"]
        pictures |= {f"{name}.svg": f"{svg}\n", f"{name}-dark.svg": f"{charts.dark(svg)}\n"}
        return _picture(f"{name}.svg", f"{name}-dark.svg", data["text/plain"])
    if "text/markdown" in data:
        # Tags mean nothing in what a cell computed, here as on a page.
        return _linked(re.sub(r"(?<!\\)<", "&lt;", words.unlinked(data["text/markdown"])), room)
    if "text/html" in data:
        html = LINK.sub(r"\2", markup.safe_output(data))
        return OF_PAGE.sub("", html).replace("<tr", "\n<tr")
    return f"```\n{data.get('text/plain', '')}\n```"


def _linked(text: str, room: str) -> str:
    """Markdown whose links lead to pages here, else into the repository; headings are called as a forge calls them."""
    text = re.sub(r"\]\(\.\./([\w-]+)/analysis\.ipynb(#[\w-]+)?\)", r"](\1.md\2)", text)
    text = re.sub(r"\]\(\.\./(?!\.\.)([^)]+)\)", r"](../../notebooks/\1)", text)
    text = re.sub(r"\]\((?![a-z]+:|\.\./|#|[\w-]+\.md[)#])([^)]+)\)", rf"](../../notebooks/{room}/\1)", text)
    place = re.compile(r"[^\w-]")
    return re.sub(r"\]\(#([^)]+)\)", lambda found: f"](#{place.sub('', found[1]).lower()})", text)
