"""Pages for where a repository is hosted: Markdown with pictures, light and dark, made by nbconvert from executed
analyses.

They need no server and no script. What a page of a report does besides, such as filters and questions to numbers, is
left out, and code is in the notebooks.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter
from nbconvert.preprocessors import Preprocessor

from async_cost import words
from async_cost.findings.finding import RECORD
from async_cost.report import charts, markup
from async_cost.report.asked import LINK
from async_cost.report.notebook import OF_CODE, answers_of, read
from async_cost.report.publish import DECISIONS, READING

#: Findings of it at the head of README.md.
SHOWN = 3
#: The page whose answer and chart stand for all.
FIRST = next(iter(DECISIONS))
#: What of a table is for a page with a style and scripts.
OF_PAGE = re.compile(r' (?:class|data-value|tabindex|role|aria-label|id)="[^"]*"|\n\s*')
#: What an SVG says that is so without it.
SPARE = re.compile(
    r' (?:class|font-weight="normal"|stroke-miterlimit|xmlns:xlink|version|data-[a-z]+)(?:="[^"]*")?(?=[ />])'
)
EMPTY = re.compile(r'<path d="(?:M0,0h0v0h0Z)?"(?: display="none")?/>')
#: A mark without a stroke.
FILLED = re.compile(r'<circle((?: (?!stroke=)[\w-]+="[^"]*")*)/>')
WIDE = re.compile(' stroke-width="[^"]*"')
#: Where a circle is moved to: it has shorter words for that.
MOVED = re.compile(r' transform="translate\(([^,]+),([^)]+)\)"')
FONTS = re.compile(r' font-family="([^"]*)"')


def pages(notebooks: Sequence[Path], origin: str) -> dict[str, str]:
    """The files of a sample by name: a page for each executed notebook, its pictures, and README.md, which lists them.
    `origin` says of which run.
    """
    files: dict[str, str] = {}
    for notebook in notebooks:
        files |= _page(notebook)
    listed = "\n".join(_questions(notebooks, ""))
    files["README.md"] = (
        f"# A sample of the report\n\n{origin} These pages are made by `make sample`; a report of your own, by `make report`, holds "
        f"the same with charts that answer questions, and tables that sort and filter.\n\n{READING}\n\n{listed}\n"
    )
    return files


def readme(notebooks: Sequence[Path], folder: Path, picture: Path, origin: str) -> str:
    """The answer at the head of README.md: the findings of the first page, its chart in `picture`, and what people ask,
    with links into the sample in `folder`.
    """
    (first,) = (notebook for notebook in notebooks if notebook.stem == FIRST)
    findings = [output for output in answers_of(read(first)) if RECORD in output.metadata]
    answers = "\n>\n".join(f"> {_sentence(output)}" for output in findings[:SHOWN])
    dark = picture.with_stem(f"{picture.stem}-dark")
    alt = _Shown(FIRST).alt_of_first(read(first))
    shown = f'<picture><source media="(prefers-color-scheme: dark)" srcset="{dark}"><img src="{picture}" alt="{escape(alt)}"></picture>'
    rest = [notebook for notebook in notebooks if notebook.stem not in (FIRST, "hardware", "trust")]
    asked = "\n".join(_questions(rest, f"{folder}/", values=False))
    return f"{answers}\n\n{shown}\n\n{READING} {origin}\n\n{asked}"


def _questions(notebooks: Sequence[Path], folder: str, *, values: bool = True) -> Iterator[str]:
    """What people ask, an entry of a list each, with the first answer, its values if wanted, and the page."""
    for notebook in sorted(notebooks, key=lambda path: list(DECISIONS).index(path.stem)):
        answers = answers_of(read(notebook))
        said = _sentence(answers[0]) if answers else ""
        if not values and said.count("**") == 2 and said.startswith("✓"):
            said = said[: said.rindex("**") + 2]
        elif not values and answers and RECORD not in answers[0].metadata:  # a score
            said = said.partition(";")[0] + "."
        yield f"- [{DECISIONS[notebook.stem]}]({folder}{notebook.stem}.md) {said}"


def _sentence(output: nbformat.NotebookNode) -> str:
    """The first paragraph of what a cell said."""
    return words.unasked(output.data["text/markdown"]).split("\n\n")[0]


class _Shown(Preprocessor):
    """What a cell showed, as Markdown that needs no page around it; `pictures` collects what it links to, by file
    name.
    """

    def __init__(self, room: str) -> None:
        super().__init__()
        self.room = room
        self.pictures: dict[str, str] = {}

    def preprocess_cell(self, cell: nbformat.NotebookNode, resources: Mapping, index: int) -> tuple:
        for output in cell.get("outputs", []):
            if output.output_type in ("display_data", "execute_result"):
                place = output.get("metadata", {}).get(RECORD)
                anchor = f'<a id="finding-{place["id"]}"></a>' if place else ""
                output.data = {"text/markdown": anchor + self._markdown(output.data)}
        return cell, resources

    def alt_of_first(self, content: nbformat.NotebookNode) -> str:
        """What the first chart of a notebook says to those who cannot see it."""
        outputs = (output for cell in content.cells for output in cell.get("outputs", []))
        return next(str(one.data["text/plain"]) for one in outputs if charts.VEGALITE_MIME in one.get("data", {}))

    def _markdown(self, data: Mapping[str, object]) -> str:
        if charts.VEGALITE_MIME in data:
            return self._picture(str(data["image/svg+xml"]), str(data["text/plain"]))
        if "text/markdown" in data:
            # Tags mean nothing in what a cell computed, here as on a page.
            return _linked(re.sub(r"(?<!\\)<", "&lt;", words.unasked(str(data["text/markdown"]))), self.room)
        if "text/html" in data:
            html = LINK.sub(r"\2", markup.safe_table(str(data["text/html"])))
            return OF_PAGE.sub("", html).replace("<tr", "\n<tr")
        return f"```\n{data.get('text/plain', '')}\n```"

    def _picture(self, svg: str, alt: str) -> str:
        name = f"{self.room}-{len(self.pictures) // 2 + 1}"
        light = _small(svg)
        self.pictures |= {f"{name}.svg": light, f"{name}-dark.svg": charts.dark(light)}
        return (
            f'<picture><source media="(prefers-color-scheme: dark)" srcset="{name}-dark.svg">'
            f'<img src="{name}.svg" alt="{escape(alt)}"></picture>'
        )


def _page(notebook: Path) -> dict[str, str]:
    content, shown = read(notebook), _Shown(notebook.stem)
    content.cells = [cell for cell in content.cells if OF_CODE not in cell.metadata.get("tags", [])]
    for cell in content.cells:
        if cell.cell_type == "markdown":  # neighbours are pages of the sample too
            cell.source = _linked(cell.source, notebook.stem)
    exporter = MarkdownExporter(exclude_input=True)
    exporter.register_preprocessor(shown, enabled=True)
    body, _ = exporter.from_notebook_node(content)
    text = re.sub(r"\n{3,}", "\n\n", re.sub(r"[ \t]+\n", "\n", body)).strip()
    source = f"[The notebook](../../notebooks/{notebook.stem}/analysis.ipynb) · [All pages](README.md)"
    return {f"{notebook.stem}.md": f"{text}\n\n{source}\n"} | shown.pictures


def _linked(text: str, room: str) -> str:
    """Markdown with links to neighbours as links to their pages here, and to other files as links into the repository;
    headings are called as a forge calls them.
    """
    text = re.sub(r"\]\(\.\./([\w-]+)/analysis\.ipynb(#[\w-]+)?\)", r"](\1.md\2)", text)
    text = re.sub(r"\]\(\.\./(?!\.\.)([^)]+)\)", r"](../../notebooks/\1)", text)
    text = re.sub(r"\]\((?![a-z]+:|\.\./|#|[\w-]+\.md[)#])([^)]+)\)", rf"](../../notebooks/{room}/\1)", text)
    place = re.compile(r"[^\w-]")
    return re.sub(r"\]\(#([^)]+)\)", lambda found: f"](#{place.sub('', found[1]).lower()})", text)


def _small(svg: str) -> str:
    """An SVG with what a picture of that size can show."""
    head, rest = svg.split(">", 1)
    fonts = FONTS.findall(rest)
    rest = EMPTY.sub("", SPARE.sub("", FONTS.sub("", rest)))
    rest = FILLED.sub(lambda mark: f"<circle{_placed(WIDE.sub('', mark[1]))}/>", rest)
    family = f' font-family="{fonts[0]}"' if fonts else ""
    return f"{SPARE.sub('', head)}{family}>{rest}\n"


def _placed(circle: str) -> str:
    return MOVED.sub(r' cx="\1" cy="\2"', circle)
