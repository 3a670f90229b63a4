"""How findings are defined and what the committed series say of them (data/findings.csv and data/judged.csv, whose
columns are described in data/README.md), and the machines of these series, beside which a reader's numbers stand.
"""

import re
from collections import Counter
from functools import lru_cache
from typing import Any, NamedTuple

import polars as pl

from async_cost.paths import repository_root
from async_cost.runs import record
from async_cost.runs.comparisons import DATA
from async_cost.runs.find import reference
from async_cost.runs.run import Run

#: The columns of the two tables, as `make findings` writes them.
FINDINGS: dict[str, Any] = dict.fromkeys(
    ("id", "slot", "page", "operands", "operation", "quantity", "unit", "per", "share", "processors", "of", "relation"),
    pl.String,
)
FINDINGS |= dict.fromkeys(("least", "most", "limits", "reworded", "changed", "hash", "sentence"), pl.String)
FINDINGS |= {"share": pl.Float64, "processors": pl.UInt32, "least": pl.Float64, "most": pl.Float64}
JUDGED: dict[str, Any] = dict.fromkeys(("kind", "id", "slot", "hash", "series"), pl.String)
JUDGED |= dict.fromkeys(("value", "low", "high", "least", "greatest"), pl.Float64)
JUDGED |= {"true": pl.UInt32, "tested": pl.String, "outcome": pl.String}
#: What is no name in the name of a processor.
VENDORS = re.compile(r"\((?:R|TM)\)|\b(?:AMD|Intel|Apple|Processor|CPU|@.*|\d+-Core)\b")


class Machine(NamedTuple):
    """A committed machine: what it is called, the series that speak for it, and its kind of processor. Of each number
    its newest series speaks that measured the study: a study that came later has one of its own.
    """

    name: str
    series: tuple[str, ...]
    kind: tuple
    #: Whether its newest series measured the cells of notebooks, not programs.
    in_cells: bool


@lru_cache(maxsize=1)
def definitions() -> pl.DataFrame:
    """data/findings.csv."""
    return pl.read_csv(DATA / "findings.csv", schema=FINDINGS).with_columns(pl.col("slot").fill_null(""))


@lru_cache(maxsize=1)
def judged() -> pl.DataFrame:
    """data/judged.csv."""
    return pl.read_csv(DATA / "judged.csv", schema=JUDGED).with_columns(pl.col("slot").fill_null(""))


def kinds() -> set[tuple]:
    """Return the kinds of processor of all committed series: nanoseconds are expected of these."""
    return {machine.kind for machine in machines()}


@lru_cache(maxsize=1)
def machines() -> tuple[Machine, ...]:
    """Return the machines of all committed series, beside which numbers stand, that of the reference first."""
    of_machine = pl.col("series").str.split("/").list.first().alias("machine")
    speaking = judged().sort("series").unique(["kind", "id", "slot", of_machine], keep="last")
    speaking = speaking.group_by(of_machine).agg(pl.col("series").unique().sort(descending=True))
    series = {machine: tuple(ids) for machine, ids in speaking.iter_rows()}
    first, infos = reference().partition("/")[0], dict[str, record.RunInfo]()
    for name in sorted(series, key=lambda machine: (machine != first, machine)):
        file = repository_root() / "data" / "runs" / series[name][0] / "run.json"
        if file.exists():  # a reader may have put the runs of others aside
            infos[name] = record.read_run_info(file)
    labels = {name: short(info.machine) for name, info in infos.items()}
    for clearer in (_with_cache, lambda machine: f"{short(machine)} ({machine.name})"):
        shared = Counter(labels.values())
        labels |= {name: clearer(infos[name].machine) for name, label in labels.items() if shared[label] > 1}
    return tuple(
        Machine(label, series[name], kind(infos[name].machine), infos[name].origin == "notebook")
        for name, label in labels.items()
    )


def machine_of(run: Run) -> Machine | None:
    """Return the committed machine for which the series of a run speaks, if there is one."""
    ids = {sitting.info.run_id for sitting in run.sittings}
    return next((machine for machine in machines() if not ids.isdisjoint(machine.series)), None)


def called(run: Run) -> str:
    """Return what the machine of a run is called: as that of the committed series, else its processor in a word."""
    machine = machine_of(run)
    return machine.name if machine else short(run.info.machine)


def kind(machine: record.Machine) -> tuple:
    """Return the key of a processor model: cpu, architecture, logical cores, caches."""
    return tuple(getattr(machine, name) for name in record.PROCESSOR)


def _with_cache(machine: record.Machine) -> str:
    """Tell a processor from another one that hides its model as well: EPYC (32 KiB L1d)."""
    first = next((cache.bytes for cache in machine.caches or () if (cache.level, cache.kind) == (1, "data")), 0)
    return f"{short(machine)} ({first // 1024} KiB L1d)" if first else short(machine)


def short(machine: record.Machine) -> str:
    """Return a processor in a word or two: Xeon, EPYC; nothing in it is markup."""
    words = re.sub(r"[^\w .+-]", " ", VENDORS.sub(" ", machine.cpu or ""))
    return " ".join(words.split()) or "an unknown processor"
