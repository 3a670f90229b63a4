"""The price list as HTML that a notebook shows and a page sorts, filters and hands out as CSV (prices.js).

A cell carries the number that it shows as `data-value`, to sort by and to take away; without the script the whole list
is there to be read. All text is escaped here.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import Any

import polars as pl

from async_cost import words
from async_cost.studies.program import Term

HEADS = ("what", "by whom", "time", "for one", "instructions", "allocations", "bytes", "processor time", "measured as")
#: Where a difference is the price, its cell begins with this sign.
MORE = "+"


def table(prices: pl.DataFrame) -> str:
    """All rows of `studies.prices.prices`, those without a number too."""
    heads = "".join(f'<th scope="col">{head}</th>' for head in HEADS)
    rows = "\n".join(map(_row, prices.iter_rows(named=True)))
    return f'<div class="prices"><table><thead><tr>{heads}</tr></thead><tbody>\n{rows}\n</tbody></table></div>'


def _row(price: Mapping[str, object]) -> str:
    kind = f"<small>{escape(str(price['kind']))}</small>"
    cells = [
        f'<th scope="row">{escape(str(price["what"]))} {kind}</th>',
        _cell(escape(str(price["who"] or ""))),
        _time(price),
        _cell(escape(str(price["unit"]))),
        *(_count(price, name) for name in ("instructions", "allocations", "bytes")),
        _cell(_spelled(price, "cpu_ns", "cpu_low", "cpu_high"), price["cpu_ns"]),
        _cell(_origin(price)),
    ]
    kept = "unknown" if price["lacks"] else "known"
    return f'<tr class="{kept}">{"".join(cells)}</tr>'


def _time(price: Mapping[str, object]) -> str:
    if price["lacks"]:
        return _cell(f"not measured: {escape(str(price['lacks']))}")
    doubt = "" if price["evidence"] else " <strong>not evidence</strong>"
    shown = _spelled(price, "ns", "low", "high")
    asked = f'<a href="#{words.ASKED}{price["asked"]}">{shown}</a>' if price["asked"] else shown
    return _cell(f"{asked}{doubt}", price["ns"])


def _spelled(price: Mapping[str, object], *names: str) -> str:
    """A time with its interval, as short as a table wants it."""
    values = [price[name] for name in names]
    if None in values:
        return words.NOTHING
    more = MORE if price["baseline_variant"] and values[0] > 0 else ""
    value, *ends = (words.time(one, values[1], values[2]) for one in values)
    return f"{more}{value} <small>{' to '.join(ends)}</small>"


def _count(price: Mapping[str, Any], name: str) -> str:
    value = price[name]
    if value is None:
        return _cell(words.NOTHING)
    return _cell(words.whole(value) if abs(value) >= 10 or value == round(value) else words.number(value, 0.1), value)


def _origin(price: Mapping[str, object]) -> str:
    """The key, as a command takes it, and its baseline."""
    if price["lacks"] and not price["study"]:
        return words.NOTHING
    more = " less <code>{}</code>".format(escape(str(price["baseline_variant"]))) if price["baseline_variant"] else ""
    parameter = f" ({escape(str(price['parameter']))})" if price["parameter"] else ""
    bench = f"{escape(str(price['bench']))}: " if price["bench"] not in ("", price["variant"]) else ""
    return f"{escape(str(price['study']))}: {bench}<code>{escape(str(price['variant']))}</code>{more}{parameter}"


def _cell(shown: str, value: object = None) -> str:
    return f"<td>{shown}</td>" if value is None else f'<td data-value="{value:.6g}">{shown}</td>'


def program(found: Sequence[Term]) -> str:
    """The prices that a reader's own program is made of, with the form of program.js above them: the data of the form
    is in the element.
    """
    data = escape(json.dumps([asdict(term) for term in found]))
    heads = "".join(f'<th scope="col">{head}</th>' for head in ("for each", "async adds", "measured with", "rests on"))
    rows = "\n".join(map(_of_program, found))
    return f'<div class="program" data-value="{data}"><table><thead><tr>{heads}</tr></thead><tbody>\n{rows}\n</tbody></table></div>'


def _of_program(term: Term) -> str:
    price = words.time_with_interval(term.ns, term.low, term.high) if term.high > term.low else words.NOTHING
    known = f"{term.least:.3g} to {term.most:.4g}" if term.most > term.least else f"{term.least:g}"
    rests = escape(term.rests)
    if term.address:
        rests = f'<a href="#{words.ASKED}{term.address}">{rests}</a>'
    return f'<tr><th scope="row">{escape(term.label)}</th><td>{price}</td><td>{known}</td><td>{rests}</td></tr>'
