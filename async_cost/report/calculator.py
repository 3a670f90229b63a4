"""What a request takes by what it does: a worked example, which a page's script makes a calculator.

Prices add up, and so do the ends of their intervals: the errors are those of one machine, and not independent.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from async_cost import words
from async_cost.findings import prices
from async_cost.findings.committed import machine_of
from async_cost.findings.prices import RUNTIMES, Price
from async_cost.report import assets
from async_cost.report.latency import YOURS
from async_cost.report.tables import Table, table
from async_cost.runs.run import Run

#: Under which name the metadata of an output holds what the script reads.
CALCULATOR = "calculator"
NOT_MEASURED = "not measured"


def calculator(run: Run, listed: pl.DataFrame, counts: Mapping[str, float]) -> Table:
    """Return the worked example that does so much of the prices with these ids, by the price list of `run`."""
    counted, machine = prices.counted(), machine_of(run)
    known = {(row["what"], row["variant"]): row for row in listed.drop_nulls("ns").iter_rows(named=True)}
    mine = ((at, known.get((entry["what"], entry["variant"]))) for at, entry in counted.items())
    own = {at: (row["ns"], row["low"], row["high"], bool(row["lacks"])) for at, row in mine if row}
    name = machine.name if machine else YOURS
    every = {name: own} | {other: theirs for other, theirs in prices.committed().items() if other != name}
    rows = {id: (entry, slot) for (id, slot), entry in counted.items()}
    data = {
        "machines": list(every),
        "runtimes": RUNTIMES,
        "rows": [
            {"id": id, "what": entry["what"], "unit": entry["unit"], "count": counts.get(id, 0)}
            | {"driven": prices.driven(entry) + ("" if slot else f", {entry['who']}")}
            | {"prices": [[theirs.get((id, on if slot else "")) for on in RUNTIMES] for theirs in every.values()]}
            for id, (entry, slot) in rows.items()
        ],
    }
    shown = table(pl.DataFrame(_example(data)))
    html = f'<div class="calculator">{shown.data if shown else ""}</div>'
    return Table(html, metadata={CALCULATOR: json.dumps(data)})


def total(parts: Iterable[tuple[float, Price | None]]) -> Price | None:
    """Sum of count * price (ns, low, high, doubtful); None if a price is missing."""
    known = list(parts)
    priced = [(count, price) for count, price in known if price]
    if len(priced) < len(known):
        return None
    ns, low, high = (sum(count * price[at] for count, price in priced) for at in range(3))
    return ns, low, high, any(price[3] for _, price in priced)


def script(data: str) -> str:
    """Return the script of the page, with what it reads."""
    safe = data.replace("<", r"\u003c")
    return f"const COUNTED = {safe};\n{assets.script('calculator.js')}"


def _example(data: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """The rows that are counted, with the times of the first machine, then the sums of each machine."""
    used = [row for row in data["rows"] if row["count"]]
    for row in used:
        times = {on: _text(price) for on, price in zip(RUNTIMES, row["prices"][0], strict=True)}
        how = {"per": row["unit"], "driven": row["driven"]}
        yield {"a request does": row["what"]} | how | {"how often": f"{row['count']:g}"} | times
    for at, machine in enumerate(data["machines"]):
        sums = [total((row["count"], row["prices"][at][on]) for row in used) for on in range(len(RUNTIMES))]
        cells = [_text(price, between=True) for price in sums]
        yield {"a request does": f"together, {machine}"} | dict(zip(RUNTIMES, cells, strict=True))


def _text(price: Price | None, *, between: bool = False) -> str:
    """A price as text, with its interval if it is a sum."""
    if price is None:
        return NOT_MEASURED
    ns, low, high, doubtful = price
    ends = f", {words.time(low)} to {words.time(high)}" if between else ""
    return f"{words.time(ns)}{' ?' if doubtful else ''}{ends}"
