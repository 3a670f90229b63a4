"""The price list: what each thing costs on the machine of a run, by the clock and by the counts.

data/prices.csv says what a price is: `what`, for one `unit` of it, is a key of a study's tables. With a baseline it is
what the key adds to a unit of work, from the table of comparisons; without, it is the time of an iteration, shared out
among what the iteration does of `counter` (the study's own units where that is empty; `iteration` for the whole).
Nothing else is known here: every number comes from the run.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from async_cost.runs.comparisons import BASE_KEY, DATA, KEY
from async_cost.runs.reader import read_table
from async_cost.runs.run import Run
from async_cost.runs.schemas import PriceRows
from async_cost.statistics.interval import estimates, widened
from async_cost.statistics.measured import Measured, both_ways
from async_cost.statistics.trials import trial_values

#: What is counted for one iteration, and its column here.
COUNTED = {"instructions": "instructions", "allocations": "allocations", "allocated_bytes": "bytes"}
#: The processor time of all threads, which a study with several of them notes beside what has passed.
CPU = "cpu_ns"
#: Says that a price is that of a whole iteration.
WHOLE = "iteration"
ENTRY = dict.fromkeys(("kind", "what", "unit", "who", "study", *KEY, *BASE_KEY[:2], "counter"), pl.String)
COLUMNS = ENTRY | dict.fromkeys(("ns", "low", "high", "cpu_ns", *COUNTED.values()), pl.Float64) | {"lacks": pl.String}
NO_EVIDENCE = "no evidence in this run"


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
    listed = entries()
    studies = {study: _Study(Measured.of(run, study)) for study in listed["study"].unique(maintain_order=True)}
    rows = [entry | studies[entry["study"]].price(entry) for entry in listed.iter_rows(named=True)]
    return pl.DataFrame(rows, schema=COLUMNS)


@dataclass
class _Study:
    """What of one study is read more than once."""

    measured: Measured

    @cached_property
    def counts(self) -> dict[tuple[str, ...], dict[str, int]]:
        """The exact counts of each key for an iteration."""
        rows = self.measured.counts.select(*KEY, "counter", "value").iter_rows()
        found: dict[tuple[str, ...], dict[str, int]] = {}
        for *key, counter, value in rows:
            found.setdefault(tuple(key), {})[counter] = value
        return found

    @cached_property
    def counted_units(self) -> dict[tuple[str, ...], int | None]:
        """Units of work that the counts of each key are of."""
        return {row[:-1]: row[-1] for row in self.measured.run.counted_units(self.measured.study).iter_rows()}

    @cached_property
    def times(self) -> dict[tuple[str, ...], dict]:
        """The logarithm of the time of an iteration, with its interval, by key."""
        return _estimated(self.measured.compared)

    @cached_property
    def cpu(self) -> dict[tuple[str, ...], dict]:
        """The same of the processor time."""
        return _estimated(trial_values(self.measured.run, self.measured.study, CPU).rename({"value": "ns"}))

    @cached_property
    def both(self) -> pl.DataFrame:
        """All comparisons, each as declared and reversed."""
        return both_ways(self.measured.declared)

    def price(self, entry: dict[str, str]) -> dict[str, object]:
        """What the price list says of one of `entries`."""
        if not self.measured:
            study = entry["study"]
            return {"lacks": f"this run does not hold {study}" if study else "no study measures it by itself"}
        found = self._difference(entry) if entry["baseline_variant"] else self._whole(entry)
        return found or {"lacks": "this run did not measure it"}

    def _difference(self, entry: dict[str, str]) -> dict[str, object] | None:
        """What a variant adds to a unit of work of its baseline."""
        found = self.measured.compare(entry["variant"], entry["baseline_variant"]).filter(parameter=entry["parameter"])
        for name in ("bench", "baseline_bench"):
            found = found.filter(pl.col(name) == entry[name]) if entry[name] else found
        if found.is_empty():
            return None
        row = found.row(0, named=True)
        mine, theirs = (self._counted(tuple(row[name] for name in names), "") for names in (KEY, BASE_KEY))
        return {
            **{name: row[name] for name in (*KEY, *BASE_KEY[:2])},
            **{"ns": row["added_ns"], "low": row["added_low"], "high": row["added_high"]},
            **{name: mine[name] - theirs[name] for name in mine.keys() & theirs.keys()},
            "lacks": NO_EVIDENCE if row["verdict"] is None else None,
        }

    def _whole(self, entry: dict[str, str]) -> dict[str, object] | None:
        """The time of an iteration, shared out."""
        wanted = [pl.col(name) == entry[name] for name in KEY if entry[name] or name == "parameter"]
        trials = self.measured.compared.filter(wanted)
        if trials.height < 2:
            return None
        key = trials.select(KEY).row(0)
        units = self._units(key, entry["counter"])
        if not units:
            return {"lacks": "what an iteration does was not counted"}
        # The comparisons that the key is in say how far off controls are, and whether anything is concluded.
        declared = self.both.filter(**dict(zip(KEY, key, strict=True)))
        ns, cpu = self.times[key], self.cpu.get(key)
        ends = widened(ns["ns"], ns["low"], ns["high"], ns["quantile"] * (declared["bias"].max() or 0.0))
        return {
            **dict(zip(KEY, key, strict=True)),
            **{name: math.exp(log) / units for name, log in zip(("ns", "low", "high"), (ns["ns"], *ends), strict=True)},
            "cpu_ns": cpu and math.exp(cpu["ns"]) / units,
            **self._counted(key, entry["counter"]),
            "lacks": None if declared["verdict"].count() else NO_EVIDENCE,
        }

    def _units(self, key: tuple[str, ...], counter: str) -> int | None:
        """How many units one iteration does; None where they were not counted."""
        counted = self.counts.get(key, {})
        if counter == WHOLE:
            return 1
        return counted.get(counter) if counter else counted.get("units") or counted.get("transactions")

    def _counted(self, key: tuple[str, ...], counter: str) -> dict[str, float]:
        """What of `COUNTED` was counted, for one unit; instructions are whole, as on all pages."""
        counted = self.counts.get(key, {})
        units = self._units(key, counter) if counter else self.counted_units.get(key)
        found = {name: counted[of] / units for of, name in COUNTED.items() if units and of in counted}
        return found | {"instructions": float(round(found["instructions"]))} if "instructions" in found else found


def _estimated(trials: pl.DataFrame) -> dict[tuple[str, ...], dict]:
    """The logarithm of the time of each key that was measured more than once."""
    several = trials.filter(pl.len().over(KEY) > 1)
    rows = estimates(several.with_columns(pl.col("ns").log()), "ns").iter_rows(named=True)
    return {tuple(row[name] for name in KEY): row for row in rows}
