"""Where a number comes from: a note on each comparison that a page links to (`words.linked`), and the cells that define
its variants.

A note is there without a script, as the target of its link; notes.js also shows it at a number that is pointed at or
has the focus.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import nbformat
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import RustLexer

from async_cost import words
from async_cost.report import markup, numbers
from async_cost.runs.comparisons import BASE_KEY, KEY, address
from async_cost.runs.run import Run
from async_cost.statistics.measured import both_ways
from async_cost.statistics.table import comparisons


@dataclass
class Notes:
    """The notes on the comparisons of `run`; `sources` are the notebooks that measure its studies."""

    run: Run
    sources: Mapping[str, Path]
    #: The studies some of whose cells a note links to.
    linked: set[str] = field(default_factory=set)

    @cached_property
    def rows(self) -> dict[str, dict[str, Any]]:
        """All comparisons with numbers, as declared and turned round, by their addresses."""
        table = both_ways(comparisons(self.run).frame.drop_nulls("ratio"))
        return {place: row for row in table.iter_rows(named=True) if (place := address(row))}

    def of(self, addresses: Iterable[str]) -> list[dict[str, object]]:
        """Return the notes on the comparisons with these addresses, as notes.html.j2 shows them."""
        return [self._note(where, self.rows[where]) for where in dict.fromkeys(addresses) if where in self.rows]

    def _note(self, where: str, row: Mapping[str, Any]) -> dict[str, object]:
        study, variants = row["study"], [row["variant"].removesuffix(words.CONTROL), row["baseline_variant"]]
        mine, theirs = (
            words.key(dict(zip(KEY, (row[name] for name in names), strict=True))) for names in (KEY, BASE_KEY)
        )
        return {
            "address": where,
            "row": row,
            "names": markup.inline(f"{mine} compared with {theirs}, in {words.escape(study)}"),
            "numbers": markup.inline(numbers.numbers(row)),
            "baseline": markup.inline(theirs),
            "change": markup.inline(row["change"] or words.NOTHING),
            "limit": words.exact_percent(row["limit"]),
            "quartiles": words.with_ends(row["ratio"], row["q1"], row["q3"], 1)[1],
            "rows": f"data/{self.run.file(study, 'time').name}",
            "cells": [(name, place) for name in variants if (place := self._cell(study, name))],
            "command": f'make report STUDIES={study} ONLY="{"; ".join(dict.fromkeys(variants))}"',
        }

    def _cell(self, study: str, variant: str) -> str | None:
        """The place of the first cell that names a variant, None where none does."""
        for number, cell in enumerate(self.cells.get(study, [])):
            if f'"{variant}"' in cell.source:
                self.linked.add(study)
                return f"cells-{study}.html#cell-{number}"
        return None

    @cached_property
    def cells(self) -> dict[str, list[nbformat.NotebookNode]]:
        """The cells of the notebooks that measure, by study."""
        return {study: nbformat.read(source, as_version=4).cells for study, source in self.sources.items()}

    def page_of_cells(self, study: str) -> Markup:
        """Return all cells of a study, each with its place."""
        cells = (f'<div id="cell-{at}">{_shown(cell)}</div>' for at, cell in enumerate(self.cells[study]))
        return Markup("\n".join(cells))


def _shown(cell: nbformat.NotebookNode) -> str:
    """A cell, below the heading of its page."""
    if cell.cell_type == "markdown":
        return re.sub(r"(</?h)1\b", r"\g<1>2", markup.safe_markdown(cell.source))
    return highlight(cell.source, RustLexer(), HtmlFormatter()).replace("<pre>", '<pre tabindex="0">')
