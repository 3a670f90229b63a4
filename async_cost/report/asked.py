"""Where a number comes from: what a page tells of each comparison that it links to (`words.asked`), and the cells that
define its variants.

A note is there without a script, as the target of its link; asked.js shows it also to whoever points at a number or
moves the focus to it.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from html import escape
from pathlib import Path

import nbformat
import polars as pl
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import RustLexer

from async_cost import words
from async_cost.report import markup
from async_cost.runs.comparisons import KEY, PAIR, address
from async_cost.runs.run import Run, open_run
from async_cost.statistics.measured import Measured, both_ways
from async_cost.statistics.ratios import paired
from async_cost.statistics.table import comparisons

LINK = re.compile(rf'<a href="#{words.ASKED}(\w+)">(.*?)</a>', re.DOTALL)
#: A drawing of one comparison: pixels, and what is left free at either side.
WIDTH, HEIGHT, FREE = 320, 40, 8


@dataclass(frozen=True)
class Note:
    """What is told of one comparison. `names` are those of key and baseline, `rows` is the file of its samples, `cells`
    what defines its variants.
    """

    address: str
    names: Markup
    numbers: Markup
    facts: list[tuple[str, str | Markup]]
    drawing: Markup
    rows: str
    cells: list[tuple[str, str]]
    command: str


@dataclass
class Asked:
    """What may be asked of the comparisons of the run in `folder`; `sources` are the notebooks that measure its
    studies, with what they showed where the run has left executed ones.
    """

    folder: Path
    sources: Mapping[str, Path]
    #: The studies some of whose cells a note links to.
    linked: set[str] = field(default_factory=set)
    _drawn: dict[str, dict[tuple, list[float]]] = field(default_factory=dict)

    @cached_property
    def run(self) -> Run:
        return open_run(self.folder)

    @cached_property
    def rows(self) -> dict[str, dict[str, object]]:
        """All comparisons with numbers, as declared and turned round, by their addresses."""
        table = both_ways(comparisons(self.run).frame.drop_nulls("ratio"))
        return {address(row): row for row in table.iter_rows(named=True)}

    def _by_episode(self, study: str) -> dict[tuple, list[float]]:
        """The ratio in each process, of each pair of a study that has numbers."""
        if study not in self._drawn:
            pairs = [tuple(row[name] for name in PAIR) for row in self.rows.values() if row["study"] == study]
            wanted = pl.DataFrame(pairs, schema=dict.fromkeys(PAIR, pl.String), orient="row").unique()
            rounds = paired(Measured.of(self.run, study).compared, wanted, self.run.units(study))
            found = rounds.group_by(*PAIR, "episode").agg(pl.col("ratio").median()).sort("episode")
            parts = found.partition_by(PAIR, as_dict=True)
            self._drawn[study] = {pair: part["ratio"].to_list() for pair, part in parts.items()}
        return self._drawn[study]

    def notes(self, *bodies: str | None) -> list[Note]:
        """The notes of all comparisons that `bodies` link to, in order of appearance."""
        wanted = dict.fromkeys(found for body in bodies for found, _ in LINK.findall(body or ""))
        return [self._note(where, self.rows[where]) for where in wanted if where in self.rows]

    def _note(self, where: str, row: Mapping[str, object]) -> Note:
        study, variant, other = (str(row[name]) for name in ("study", "variant", "baseline_variant"))
        mine, theirs = (words.key(dict(zip(KEY, key, strict=True))) for key in _sides(row))
        added = words.added(row, row["verdict"], f"each {row['unit'] or 'iteration'}")
        told = f"{words.ratio_with_interval(row['ratio'], row['low'], row['high'])}; it {added}"
        verdict = "nothing is concluded" if row["verdict"] is None else str(row["verdict"])
        quartiles = words.interval(row["q1"], row["q3"], around=row["ratio"]).removeprefix(words.INTERVAL).strip()
        facts = [
            ("Verdict", f"{verdict}; differences below {words.exact_percent(row['limit'])} count as nothing"),
            ("Baseline", markup.inline(theirs)),
            ("What changes", markup.inline(str(row["change"] or words.NOTHING))),
            (
                "Measured",
                f"{words.counted(row['rounds'], 'round')} in {words.counted(row['episodes'], 'process', 'processes')}",
            ),
            ("Middle half of the rounds", quartiles),
        ]
        cells = [
            (name, f"cells-{study}.html#{place}") for name in (variant, other) if (place := self._cell(study, name))
        ]
        names = list(dict.fromkeys(name.removesuffix(words.CONTROL) for name in (variant, other)))
        return Note(
            where,
            markup.inline(f"{mine} compared with {theirs}, in {words.escape(study)}"),
            markup.inline(told),
            facts,
            _drawing(self._by_episode(study)[tuple(row[name] for name in PAIR)], row["low"], row["ratio"], row["high"]),
            f"data/{self.run.file(study, 'time').name}",
            cells,
            f'make report STUDIES={study} ONLY="{"; ".join(names)}"',
        )

    def _cell(self, study: str, variant: str) -> str | None:
        """The place of the first cell that names a variant, None where none does."""
        name = f'"{variant.removesuffix(words.CONTROL)}"'
        for number, cell in enumerate(self.cells(study)):
            if name in cell.source:
                self.linked.add(study)
                return f"cell-{number}"
        return None

    def cells(self, study: str) -> list[nbformat.NotebookNode]:
        """The cells of the notebook that measures a study."""
        return _cells(self.sources[study]) if study in self.sources else []

    def page_of_cells(self, study: str) -> Markup:
        """All cells of a study, each with its place."""
        cells = (
            Markup('<div id="cell-{}">{}</div>').format(number, Markup(_shown(cell)))
            for number, cell in enumerate(self.cells(study))
        )
        return Markup("\n").join(cells)


def without(body: str, notes: Collection[Note]) -> Markup:
    """`body` without the links that none of the notes answers."""
    known = {note.address for note in notes}
    return Markup(LINK.sub(lambda found: found[0] if found[1] in known else found[2], body))


def elsewhere(body: str, href: str) -> Markup:
    """`body` on another page than the one at `href`, which has the notes."""
    return Markup(str(body).replace(f'href="#{words.ASKED}', f'href="{href}#{words.ASKED}'))


def _sides(row: Mapping[str, object]) -> tuple[tuple, tuple]:
    return tuple(row[name] for name in PAIR[:3]), tuple(row[name] for name in PAIR[3:])


def _drawing(values: list[float], low: float, middle: float, high: float) -> Markup:
    """A dot for each process, above the interval."""
    least, most = min([low, *values]), max([high, *values])

    def at(value: float) -> str:
        return f"{FREE + (WIDTH - 2 * FREE) * ((value - least) / (most - least) if most > least else 0.5):.1f}"

    dots = "".join(f'<circle cx="{at(value)}" cy="10" r="3"/>' for value in values)
    ends = f"from {words.bare_ratio(min(values), low, high)} to {words.bare_ratio(max(values), low, high)}"
    label = f"The ratio in each of {words.counted(len(values), 'process', 'processes')}, {ends}; below, the interval"
    return Markup(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{label}">{dots}'
        f'<path d="M{at(low)} 28H{at(high)}"/><path class="middle" d="M{at(middle)} 21V35"/></svg>'
    )


@cache
def _cells(source: Path) -> list[nbformat.NotebookNode]:
    return nbformat.read(source, as_version=4).cells if source.is_file() else []


def _shown(cell: nbformat.NotebookNode) -> str:
    """A cell with its outputs; below the heading of its page."""
    if cell.cell_type == "markdown":
        return re.sub(r"(</?h)1\b", r"\g<1>2", markup.safe_markdown(cell.source))
    shown = highlight(cell.source, RustLexer(), HtmlFormatter())
    for output in cell.outputs:
        data = output.get("data", {})
        text = output.get("text") or data.get("text/plain", "")
        shown += markup.safe_table(data["text/html"]) if "text/html" in data else f"<pre>{escape(text)}</pre>"
    # Lines that a cell printed one after the other are one output.
    return shown.replace("</pre><pre>", "").replace("<pre>", '<pre tabindex="0">')
