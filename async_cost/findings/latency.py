"""The latency numbers of async Rust: the prices on the first screen, each driven as the others of its block are.

data/latency.csv says which they are, in their order; what is measured is data/prices.csv's.
"""

from dataclasses import dataclass
from functools import lru_cache

import polars as pl

from async_cost.findings import prices
from async_cost.findings.committed import definitions
from async_cost.findings.finding import Judge
from async_cost.findings.operands import Pair, Quantity
from async_cost.runs.comparisons import DATA
from async_cost.runs.reader import read_own
from async_cost.runs.run import Run

#: What `numbers` says of each.
NAMED = dict.fromkeys(("block", "id", "short", "finding"), pl.String) | {"added": pl.Boolean}
COLUMNS = NAMED | dict.fromkeys(("ns", "low", "high"), pl.Float64) | {"lacks": pl.String}


@dataclass(frozen=True)
class Latency:
    """A row of the first screen: `short` is its name, in Markdown; `card` its name on the shared card, if it is there;
    `finding` the id of what explains it, if anything does; `price` what is measured, `driver` and `workers` how.
    """

    id: str
    block: str
    short: str
    card: str
    finding: str
    driver: str
    workers: str
    price: Pair

    @property
    def quantity(self) -> Quantity:
        return prices.quantity(self.price)

    @property
    def added(self) -> bool:
        """Whether the price is a difference from a baseline, and not a whole."""
        return prices.is_added(self.price)

    @property
    def page(self) -> str:
        """The page of its finding; empty without one."""
        return dict(definitions().select("id", "page").iter_rows()).get(self.finding, "")


@lru_cache(maxsize=1)
def latencies() -> dict[str, Latency]:
    """Return the rows of the first screen by id, in their order. Raises LookupError for one that is no price."""
    prices_of = {(entry["what"], entry["variant"]): entry for entry in prices.entries().iter_rows(named=True)}
    rows = {}
    for row in read_own(DATA / "latency.csv").iter_rows(named=True):
        what, variant = row.pop("what"), row.pop("variant")
        if (what, variant) not in prices_of:
            raise LookupError(f"data/latency.csv: {row['id']}: no price is called {what!r} of {variant!r}")
        entry = prices_of[what, variant]
        how = {"driver": entry["driver"], "workers": entry["workers"]}
        rows[row["id"]] = Latency(**row, **how, price=prices.priced(entry))
    return rows


def committed() -> dict[str, dict[str, float]]:
    """Return the latency numbers of the committed machines, in nanoseconds by id, by the name of the machine."""
    return {
        machine: {id: ns for (id, slot), (ns, _, _, no_evidence) in known.items() if not slot and not no_evidence}
        for machine, known in prices.committed().items()
    }


def numbers(run: Run) -> pl.DataFrame:
    """Return the latency numbers of a run, in the order of the screen: the columns of `COLUMNS`.

    ns, low, high are nanoseconds for one with the 95 % interval, what it adds if it is `added`; nulls where the run
    has none, and `lacks` says why, or that a number is no evidence.
    """
    judge = Judge(run)
    rows = [
        {name: getattr(latency, name) for name in NAMED} | prices.timed(judge, latency.price)
        for latency in latencies().values()
    ]
    return pl.DataFrame(rows, schema=COLUMNS)
