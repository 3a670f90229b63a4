"""Numbers of the pages, computed once more from the raw samples of the runs that they read, in plain polars. Nothing of
the package is used, so that a slip in it cannot hide in both.
"""

import csv
import json
import math
from functools import cache
from pathlib import Path

import polars as pl
import pytest

DATA = Path(__file__).resolve().parents[1] / "data"
KEY = ["bench", "variant", "parameter"]
REFERENCE = (DATA / "runs" / "REFERENCE").read_text(encoding="utf-8").split()
#: Nanoseconds in a unit.
NS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


@cache
def sittings(study: str) -> list[str]:
    """The runs of the reference, or, if they lack the study, those of the newest series that holds it."""
    holding = [file.parent for file in (DATA / "runs").glob(f"*/*/{study}.time.csv.gz")]
    known = [f"{folder.parent.name}/{folder.name}" for folder in sorted(holding, key=lambda folder: folder.name)]
    if not set(known).isdisjoint(REFERENCE):
        return REFERENCE
    series = {
        one: json.loads((DATA / "runs" / one / "run.json").read_text(encoding="utf-8"))["series"] for one in known
    }
    first = series[known[-1]] or known[-1]
    return [one for one in known if first in (one, series[one])]


@cache
def counts(study: str) -> dict[tuple[str, ...], int]:
    """Exact counts of one iteration, by bench, variant, parameter and counter, from the first sitting that has them."""
    path = next(file for one in sittings(study) if (file := DATA / "runs" / one / f"{study}.counts.csv.gz").exists())
    rows = pl.read_csv(path).with_columns(pl.col("parameter").fill_null(""))
    return {row[:4]: row[4] for row in rows.select(*KEY, "counter", "value").iter_rows()}


def units(study: str, key: tuple[str, ...]) -> int | None:
    """Units of work of one iteration."""
    known = (counts(study).get((*key, name)) for name in ("units", "transactions"))
    return next((number for number in known if number), None)


@cache
def trials(study: str) -> pl.DataFrame:
    """The median nanoseconds of an iteration over the samples of each trial: KEY, sitting, process, round, ns."""
    parts = []
    for number, one in enumerate(sittings(study)):
        folder = DATA / "runs" / one
        about = json.loads((folder / "run.json").read_text(encoding="utf-8"))["studies"][study]
        firsts = [episode["first_round"] for episode in about["episodes"]]
        process = pl.sum_horizontal(*(pl.col("round") >= first for first in firsts))
        samples = pl.read_csv(folder / f"{study}.time.csv.gz").with_columns(pl.col("parameter").fill_null(""))
        each = samples.with_columns(ns=pl.col("elapsed_ns") / pl.col("iterations"))
        each = each.group_by(*KEY, "round").agg(pl.col("ns").median())
        parts.append(each.with_columns(sitting=pl.lit(number), process=process))
    return pl.concat(parts)


def over_processes(values: pl.DataFrame) -> float:
    """Of each process the median over its rounds, of each sitting the mean of these, and over sittings the mean."""
    processes = values.group_by("sitting", "process").agg(pl.col("value").median())
    return processes.group_by("sitting").agg(pl.col("value").mean())["value"].mean()


def ratio(study: str, one: tuple[str, ...], other: tuple[str, ...], per_unit: bool = True) -> float:
    """The time of `one` over that of `other`, for a unit of work where both count units."""
    sides = [trials(study).filter(**dict(zip(KEY, key, strict=True))) for key in (one, other)]
    work = [units(study, key) for key in (one, other)] if per_unit else [1, 1]
    scale = work[1] / work[0] if all(work) else 1.0
    both = sides[0].join(sides[1], on=["sitting", "round"], suffix="_other")
    return scale * math.exp(over_processes(both.with_columns(value=(pl.col("ns") / pl.col("ns_other")).log())))


def added(study: str, one: tuple[str, ...], other: tuple[str, ...], unit: str) -> float:
    """What a unit of work of `one` takes more than one of `other`: the time of the latter, times the ratio less one."""
    return value(study, other, "unit", unit) * (ratio(study, one, other) - 1)


def value(study: str, key: tuple[str, ...], per: str, unit: str) -> float:
    """The time of `key` for a unit of work, or for one of the counter `per`."""
    mine = trials(study).filter(**dict(zip(KEY, key, strict=True)))
    each = {"unit": units(study, key) or 1, "": 1}.get(per) or counts(study)[(*key, per)]
    return math.exp(over_processes(mine.with_columns(value=pl.col("ns").log()))) / each / NS[unit]


def recomputed() -> list[tuple[str, str, float, float]]:
    """The findings with one case that is a ratio of times or of counts, a difference of times, or a time: id,
    operation, what the pages say, and the same number from the samples.
    """
    with (DATA / "judged.csv").open(encoding="utf-8", newline="") as file:
        said = {(row["id"], row["slot"], row["series"]): row["value"] for row in csv.DictReader(file)}
    found = []
    with (DATA / "findings.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            study = row["operands"].partition("|")[0]
            says = study and said.get((row["id"], row["slot"], sittings(study)[0]))
            if " & " in row["operands"] or not says:
                continue
            (study, *one, counter), *others = (place.split("|") for place in row["operands"].split(" > "))
            keys = [tuple(one), *(tuple(other[1:4]) for other in others)]
            match row["quantity"], row["operation"]:
                case "time", "ratio":
                    again = ratio(study, *keys, per_unit=row["per"] == "unit")
                case "time", "difference" if row["per"] == "unit":
                    again = added(study, *keys, row["unit"])
                case "time", "value":
                    again = value(study, keys[0], row["per"], row["unit"])
                case "count", "ratio" if not counts(study).get((*keys[0], "burst_jobs")):
                    each = [counts(study)[(*key, counter)] / (units(study, key) or 1) for key in keys]
                    again = each[0] / each[1]
                case _:
                    continue
            found.append((f"{row['id']} {row['slot']}", row["operation"], float(says), again))
    return found


def test_numbers_of_the_pages_follow_from_the_samples():
    found = recomputed()
    assert len(found) >= 150
    for name, operation, said, again in found:
        # A difference that is declared the other way round has the median time of its other side in it.
        assert again == pytest.approx(said, rel=1e-2 if operation == "difference" else 1e-4), name
