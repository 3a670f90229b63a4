"""Where a number comes from: a note on each comparison that a page links to (`words.linked`).

A note is there without a script, as the target of its link; notes.js also shows it at a number that is pointed at or
has the focus.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from async_cost import words
from async_cost.report import figures, markup
from async_cost.runs.comparisons import BASE_KEY, KEY, address
from async_cost.runs.run import Run
from async_cost.statistics.measured import both_ways
from async_cost.statistics.table import comparisons

#: Rows of the table of comparisons by their addresses.
Rows = Mapping[str, Mapping[str, Any]]


def comparisons_by_address(run: Run) -> Rows:
    """Return all comparisons with numbers, as declared and turned round."""
    table = both_ways(comparisons(run).frame.drop_nulls("ratio"))
    return {place: row for row in table.iter_rows(named=True) if (place := address(row))}


def notes(run: Run, rows: Rows, addresses: Iterable[str]) -> Iterator[dict[str, object]]:
    """Yield the notes on the rows with these addresses, as notes.html.j2 shows them."""
    for where in dict.fromkeys(addresses):
        if row := rows.get(where):
            study, variants = row["study"], [row["variant"].removesuffix(words.CONTROL), row["baseline_variant"]]
            mine, theirs = (
                words.key(dict(zip(KEY, (row[name] for name in names), strict=True))) for names in (KEY, BASE_KEY)
            )
            yield {
                "address": where,
                "row": row,
                "names": markup.inline(f"{mine} compared with {theirs}, in {words.escape(study)}"),
                "numbers": markup.inline(figures.numbers(row)),
                "baseline": markup.inline(theirs),
                "change": markup.inline(row["change"] or words.NOTHING),
                "limit": words.exact_percent(row["limit"]),
                "quartiles": words.with_ends(row["ratio"], row["q1"], row["q3"], 1)[1],
                "rows": f"data/{run.file(study, 'time').name}",
                "command": f'make report STUDIES={study} ONLY="{"; ".join(dict.fromkeys(variants))}"',
            }
