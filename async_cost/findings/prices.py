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

from async_cost.runs.comparisons import BASE_KEY, DATA, KEY, address
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
#: Whose prices have a colour of their own in a chart: those of the runtimes that most things were measured for.
OWNERS = ("tokio", "smol", "nio", "ours")
OTHERS = "others"
ENTRY = dict.fromkeys(("kind", "what", "unit", "who", "study", *KEY, *BASE_KEY[:2], "counter"), pl.String)
TIMES = ("ns", "low", "high", "cpu_ns", "cpu_low", "cpu_high")
COLUMNS = (
    ENTRY
    | dict.fromkeys((*TIMES, *COUNTED.values()), pl.Float64)
    | {"episodes": pl.Int64, "evidence": pl.Boolean, "asked": pl.String, "lacks": pl.String}
)


def entries() -> pl.DataFrame:
    """What may have a price, in the order of data/prices.csv, a row for each of its variants: the columns of `ENTRY`;
    who is whose it is.
    """
    rows = read_table(DATA / "prices.csv", PriceRows)
    who = pl.when(pl.col("who") == "").then("variants").otherwise("who").str.split(";")
    return (
        rows.with_columns(variant=pl.col("variants").str.split(";"), who=who).explode("variant", "who").select(*ENTRY)
    )


def prices(run: Run, **chosen: str) -> pl.DataFrame:
    """The price list of a run, a row for each of `entries`, or of those `chosen` by their columns: the columns of
    `COLUMNS`.

    ns, low, high are nanoseconds for one unit with the 95 % interval; cpu_ns, cpu_low, cpu_high processor time of all
    threads; instructions, allocations, bytes counts for one unit. Of a price that is a difference all are differences,
    and processor time is not given. `evidence` is whether anything may be concluded from it, `asked` the address of the
    comparison that it is, or of the first that its key is in. What has no price has nulls, and `lacks` says why.
    """
    listed = entries().filter(**chosen)
    studies = {study: _Study(Measured.of(run, study)) for study in listed["study"].unique(maintain_order=True)}
    rows = [studies[entry["study"]].price(entry) for entry in listed.iter_rows(named=True)]
    return pl.DataFrame([{**dict.fromkeys(COLUMNS), **row} for row in rows], schema=COLUMNS)


def drawn(found: pl.DataFrame) -> pl.DataFrame:
    """The price list as a chart on a log scale shows it, a row for each kind, the cheapest first: label (the kind),
    whose, thing, value in nanoseconds.

    `whose` is one of `OWNERS`, or others. What is below 0 has no place on such a scale.
    """
    whose = pl.when(pl.col("who").is_in(OWNERS)).then("who").otherwise(pl.lit(OTHERS))
    thing = pl.format("{}, {}", "what", "who")
    middle = pl.col("ns").median().over("kind")
    shown = found.filter(pl.col("ns") > 0).sort(middle, maintain_order=True)
    return shown.select(label="kind", whose=whose, thing=thing, value="ns")


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
        """The row of the price list for one of `entries`."""
        if not self.measured:
            study = entry["study"]
            return {**entry, "lacks": f"this run does not hold {study}" if study else "no study measures it by itself"}
        found = self._difference(entry) if entry["baseline_variant"] else self._whole(entry)
        return {**entry, **(found or {"lacks": "this run did not measure it"})}

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
            **{name: row[name] for name in (*KEY, *BASE_KEY[:2], "episodes")},
            **dict(zip(TIMES[:3], (row["added_ns"], row["added_low"], row["added_high"]), strict=True)),
            **{name: mine[name] - theirs[name] for name in mine.keys() & theirs.keys()},
            "evidence": row["verdict"] is not None,
            "asked": address(row),
        }

    def _whole(self, entry: dict[str, str]) -> dict[str, object] | None:
        """The time of an iteration, shared out."""
        wanted = [pl.col(name) == entry[name] for name in KEY if entry[name] or name == "parameter"]
        trials = self.measured.compared.filter(wanted)
        if trials.height < 2:
            return None
        key = trials.select(KEY).row(0)
        units, declared = self._units(key, entry["counter"]), self._declared(key)
        if not units:
            return {"lacks": "what an iteration does was not counted"}
        found: dict[str, object] = {
            "episodes": trials["episode"].n_unique(),
            # Something is concluded from a comparison that it is in.
            "evidence": declared["verdict"].count() > 0,
            "asked": next(filter(None, map(address, declared.iter_rows(named=True))), None),
        }
        bias = declared["bias"].max() or 0.0
        for names, rows in ((TIMES[:3], self.times), (TIMES[3:], self.cpu)):
            if row := rows.get(key):
                logs = row["ns"], *widened(row["ns"], row["low"], row["high"], row["quantile"] * bias)
                found |= {name: math.exp(log) / units for name, log in zip(names, logs, strict=True)}
        return {**dict(zip(KEY, key, strict=True)), **found, **self._counted(key, entry["counter"])}

    def _declared(self, key: tuple[str, ...]) -> pl.DataFrame:
        """The comparisons that a key is in, as if it were never the baseline; those with its control come last."""
        return self.both.filter(pl.col(name) == value for name, value in zip(KEY, key, strict=True)).sort("control")

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
