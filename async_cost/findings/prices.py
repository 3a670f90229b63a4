"""The price list: what each thing costs on the machine of a run, by the clock and by the counts.

data/prices.csv says what a price is: `what`, for one `unit` of it, is a key of a study's tables. With a baseline it is
what the key adds to a unit of work; without, it is the time of an iteration, shared out among what the iteration does
of `counter` (the study's own units where that is empty; `iteration` for the whole). Each is a number as findings have
them.
"""

from collections.abc import Iterator

import polars as pl

from async_cost import words
from async_cost.findings.finding import Judge
from async_cost.findings.operands import Pair, Quantity
from async_cost.runs.comparisons import BASE_KEY, DATA, KEY
from async_cost.runs.reader import read_table
from async_cost.runs.run import Run
from async_cost.runs.schemas import PriceRows
from async_cost.statistics.effects import UNIT_OF_WORK, Effect, Key, Values

#: What is counted, and its column here.
COUNTED = {"instructions": "instructions", "allocations": "allocations", "allocated_bytes": "bytes"}
#: Says that a price is that of a whole iteration.
WHOLE = "iteration"
ENTRY = dict.fromkeys(("kind", "what", "unit", "who", "study", *KEY, *BASE_KEY[:2], "counter"), pl.String)
NUMBERS = ("ns", "low", "high", "cpu_ns", *COUNTED.values())
COLUMNS = ENTRY | dict.fromkeys(NUMBERS, pl.Float64) | {"lacks": pl.String}


def entries() -> pl.DataFrame:
    """What may have a price, in the order of data/prices.csv, a row for each of its variants: the columns of `ENTRY`;
    who is whose it is.
    """
    rows = read_table(DATA / "prices.csv", PriceRows)
    who = pl.when(pl.col("who") == "").then("variants").otherwise("who").str.split(";")
    return (
        rows.with_columns(variant=pl.col("variants").str.split(";"), who=who).explode("variant", "who").select(*ENTRY)
    )


def prices(run: Run) -> pl.DataFrame:
    """The price list of a run, a row for each of `entries`: the columns of `COLUMNS`.

    ns, low, high are nanoseconds for one unit with the 95 % interval; cpu_ns processor time of all threads;
    instructions, allocations, bytes counts for one unit. Of a price that is a difference all are differences, and
    processor time is not given. What has no price has nulls; `lacks` says why, or that a price is no evidence.
    """
    judge = Judge(run)
    rows = [entry | _price(judge, entry) for entry in entries().iter_rows(named=True)]
    return pl.DataFrame(rows, schema=COLUMNS)


def _price(judge: Judge, entry: dict[str, str]) -> dict[str, object]:
    """What the price list says of one of `entries`."""
    study, values = entry["study"], judge.values(entry["study"])
    if not values.measured:
        return {"lacks": f"this run does not hold {study}" if study else "no study measures it by itself"}
    found = next(_pairs(values, entry), None)
    if found is None:
        return {"lacks": "this run did not measure it"}
    per = {"": UNIT_OF_WORK, WHOLE: None}.get(entry["counter"], entry["counter"])
    pair = Pair(study, *found, entry["unit"], per=per)
    added = bool(entry["baseline_variant"])

    def of(one: Pair) -> Effect:
        quantity: Quantity = one.added if added else one.each
        return judge.effects(quantity)[0]

    time, cpu = of(pair), None if added else of(pair.metric("cpu_ns", per)).value
    # A count is for a unit of work already, or for an iteration.
    units = 1 if per in (UNIT_OF_WORK, None) else values.counts.get((*pair.key, per))
    counts = {name: of(pair.counted(counter)).value for counter, name in COUNTED.items()}
    return {
        **dict(zip((*KEY, *BASE_KEY[:2]), (*pair.key, *pair.baseline[:2]) if added else pair.key, strict=False)),
        **{"ns": time.value, "low": time.low, "high": time.high, "cpu_ns": cpu},
        **{name: count / units for name, count in counts.items() if count is not None and units},
        "lacks": words.plain(time.missing) if time.missing else time.doubt and "no evidence in this run",
    }


def _pairs(values: Values, entry: dict[str, str]) -> Iterator[tuple[Key, Key]]:
    """The key of a price with its baseline, or with itself; an empty bench is any."""
    compared = values.comparisons if entry["baseline_variant"] else {(key, key): key for key in values.times}
    for key, baseline in compared:
        names = dict(zip((*KEY, *BASE_KEY[:2]), (*key, *baseline[:2]), strict=True))
        same = key[2] == baseline[2] == entry["parameter"] and names["variant"] == entry["variant"]
        if same and all(names[name] == entry[name] for name in ("bench", *BASE_KEY[:2]) if entry[name]):
            yield key, baseline
