"""The price list: what each thing costs on the machine of a run, by the clock and by the counts.

data/prices.csv says what a price is: `what`, for one `unit` of it, is a key of a study's tables. With a baseline it is
what the key adds to a unit of work; without, it is the time of an iteration, shared out among what the iteration does
of `counter` (the study's own units where that is empty; `iteration` for the whole), or what the samples say of it where
`counter` is a metric of them in nanoseconds, such as `p99_ns`. Each is a number as findings have them.
"""

from dataclasses import replace

import polars as pl

from async_cost import words
from async_cost.findings.committed import judged, machines
from async_cost.findings.finding import Judge
from async_cost.findings.names import names
from async_cost.findings.operands import Pair, Quantity, pair
from async_cost.findings.record import SHOWN
from async_cost.runs.comparisons import DATA, KEY
from async_cost.runs.reader import read_own
from async_cost.runs.run import Run
from async_cost.statistics.effects import UNIT_OF_WORK

#: What is counted, and its column here.
COUNTED = {"instructions": "instructions", "allocations": "allocations", "allocated_bytes": "bytes"}
#: Says that a price is that of a whole iteration.
WHOLE = "iteration"
#: Runtimes on which a request may be counted together.
RUNTIMES = ("tokio", "smol", "nio")
#: How a price is driven, as a page says it.
DRIVERS = {"block_on": "from block_on", "task": "inside a task", "outside": "from a thread outside"}
DRIVERS |= {"simulation": "simulated", "server": "on sockets", "": ""}
WORKERS = {"1": "one thread", "2": "two workers", "6": "six workers", "cores": "a worker for each core", "": ""}
ENTRY = dict.fromkeys(
    ("kind", "what", "id", "unit", "driver", "workers", "who", "study", *KEY, "baseline_variant", "counter"), pl.String
)
#: A price: nanoseconds with the ends of its interval, and whether it is no evidence.
Price = tuple[float, float, float, bool]
#: Where data/judged.csv has it: id and slot.
Place = tuple[str, str]
NUMBERS = ("ns", "low", "high", "cpu_ns", *COUNTED.values())
COLUMNS = ENTRY | dict.fromkeys(NUMBERS, pl.Float64) | dict.fromkeys(("by", "driven", "lacks"), pl.String)


def entries() -> pl.DataFrame:
    """Return the entries of data/prices.csv, in its order, one row per variant: the columns of `ENTRY`. `who`, whose
    price it is, is the variant where the file leaves it empty.
    """
    rows = read_own(DATA / "prices.csv")
    who = pl.when(pl.col("who") == "").then("variants").otherwise("who").str.split(";")
    return (
        rows.with_columns(variant=pl.col("variants").str.split(";"), who=who).explode("variant", "who").select(*ENTRY)
    )


def prices(run: Run) -> pl.DataFrame:
    """Return the price list of a run, one row for each of `entries`: the columns of `COLUMNS`.

    `by` is the name of `who`, `driven` says how the price is driven; `ns`, `low`, `high` are nanoseconds per unit with
    the 95 % interval, `cpu_ns` is the processor time of all threads per unit; `instructions`, `allocations` and `bytes`
    are counts per unit. Where the price is a difference, so are the counts, and `cpu_ns` is null. Where there is no
    price, all numbers are null. `lacks` says why, or that a price is no evidence.
    """
    judge = Judge(run)
    rows = [
        entry
        | {"by": names().get((entry["study"], entry["who"]), entry["who"]), "driven": driven(entry)}
        | _price(judge, entry)
        for entry in entries().iter_rows(named=True)
    ]
    return pl.DataFrame(rows, schema=COLUMNS)


def driven(entry: dict[str, str]) -> str:
    """Say how a price is driven: `two workers, inside a task`."""
    return ", ".join(filter(None, [WORKERS[entry["workers"]], DRIVERS[entry["driver"]]]))


def counted() -> dict[Place, dict[str, str]]:
    """Return the entries that a request can be counted by, by their place in data/judged.csv: the id, and as slot the
    runtime, one of `RUNTIMES`, or nothing if it is measured without one.
    """
    named = entries().filter(pl.col("id") != "")
    alone = pl.col("who").n_unique().over("id") == 1
    slot = pl.when(pl.col("who").is_in(RUNTIMES)).then("who").when(alone).then(pl.lit(""))
    rows = named.with_columns(slot=slot).drop_nulls("slot").iter_rows(named=True)
    return {(row["id"], row.pop("slot")): row for row in rows}


def committed() -> dict[str, dict[Place, Price]]:
    """Return the prices that data/judged.csv holds of the committed machines, by id and slot, by the name of the
    machine.
    """
    known = judged().filter(pl.col("value").is_not_null(), kind="price").sort("series")
    known = known.select("series", "id", "slot", "value", "low", "high", pl.col("outcome") != SHOWN)
    return {
        machine.name: {
            (id, slot): tuple(price) for series, id, slot, *price in known.rows() if series in machine.series
        }
        for machine in machines()
    }


def priced(entry: dict[str, str]) -> Pair:
    """Return what one of `entries` is the price of: a key, with its baseline, or with itself where the price is a
    whole.

    Raises LookupError for a difference that its study does not declare.
    """
    study, key = entry["study"], (entry["bench"], entry["variant"], entry["parameter"])
    if baseline := entry["baseline_variant"]:
        return replace(pair(study, key[1], baseline, key[2], bench=key[0]), unit=entry["unit"])
    if entry["counter"].endswith("_ns"):
        return Pair(study, key, key, entry["unit"]).metric(entry["counter"], None)
    per = {"": UNIT_OF_WORK, WHOLE: None}.get(entry["counter"], entry["counter"])
    return Pair(study, key, key, entry["unit"], per=per)


def is_added(price: Pair) -> bool:
    """Say whether the price is what the first side has more than the second."""
    return price.key != price.baseline


def quantity(price: Pair) -> Quantity:
    """Return `.added` if the price has a baseline, else `.each`."""
    return price.added if is_added(price) else price.each


def timed(judge: Judge, price: Pair) -> dict[str, object]:
    """Return `ns`, `low`, `high` of a price, and in `lacks` why it is missing or no evidence (None: it is evidence)."""
    time = judge.effects(quantity(price))[0]
    lacks = words.plain(time.missing) if time.missing else time.doubt and "no evidence in this run"
    return {"ns": time.value, "low": time.low, "high": time.high, "lacks": lacks}


def _price(judge: Judge, entry: dict[str, str]) -> dict[str, object]:
    """What the price list says of one of `entries`."""
    if not entry["study"]:
        return {"lacks": "no study measures it by itself"}
    price = priced(entry)
    time = timed(judge, price)
    if time["ns"] is None or price.quantity == "metric":
        return time

    def value_of(priced_pair: Pair) -> float | None:
        return judge.effects(quantity(priced_pair))[0].value

    # A count is for a unit of work already, or for an iteration.
    whole = price.per in (UNIT_OF_WORK, None)
    units = 1 if whole else judge.measured(price.study).counts.get((*price.key, f"{price.per}"))
    counts = {name: value_of(price.counted(counter)) for counter, name in COUNTED.items()}
    return {
        **time,
        "cpu_ns": None if is_added(price) else value_of(price.metric("cpu_ns", price.per)),
        **{name: count / units for name, count in counts.items() if count is not None and units},
    }
