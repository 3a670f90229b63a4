"""All runs side by side, as the notebook on hardware reads them: polars frames. A machine is spoken for by its newest
run that is evidence; of two runs that are compared, each counts by itself.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from async_cost.errors import DataError
from async_cost.findings.committed import machines, short
from async_cost.findings.definitions import (
    NOT_JUDGED,
    PUBLISHED,
    Place,
    committed,
    limits_of_today,
    rows_of_finding,
    series_of,
)
from async_cost.findings.finding import Judge
from async_cost.findings.lint import SLOT, slots_of
from async_cost.findings.record import SHOWN, Finding, Slot, recorded
from async_cost.machines import hardware
from async_cost.machines.many import candidate_folders, read_many
from async_cost.paths import reports_root
from async_cost.report import charts, figures
from async_cost.report.finding import FITTED, forms_of, mark_of, parts
from async_cost.runs.find import open_run
from async_cost.runs.judged import seen_by
from async_cost.runs.record import read_run_info
from async_cost.runs.run import Run

JUDGED: dict[str, Any] = dict.fromkeys(("finding", "slot", "outcome", "tested"), pl.String)
JUDGED |= dict.fromkeys(("value", "low", "high", "least", "greatest"), pl.Float64)
#: Marks, those first that a sentence with several numbers has only if none of the later ones is there.
MARK = pl.Enum(["·", "✓", FITTED, "?", "≠"])


class Machines:
    """What `many` runs say, by `each` machine, or by run where two runs are compared."""

    def __init__(self) -> None:
        self.each = "run" if os.environ.get("ASYNC_COST_COMPARE") else "machine"
        self.many = read_many(candidate_folders())

    @property
    def runs(self) -> pl.DataFrame:
        """run, machine, cpu, cores, rustc, origin, profile, started, revision, evidence (how many studies are)."""
        evidence = pl.format("{} of {}", pl.col("trusted").sum(), pl.len())
        votes = self.many.studies.group_by("run").agg(evidence=evidence)
        return self.many.runs.join(votes, on="run", how="left").sort("machine", "started")

    @cached_property
    def numbers(self) -> pl.DataFrame:
        """What each machine says of each number of our findings: finding, slot, page, study, label (what it is),
        unit; on (what the machine or run is called), value, low, high, least, greatest, mark, and
        text, the number, or the least and the greatest of several, with its mark. The machine of the report is first.
        """
        findings = recorded(sorted(_analyses().glob("*.ipynb")))
        stated = _stated(findings)
        hashes = {(id, slot): hash for id, slot, hash in stated.select("finding", "slot", "hash").iter_rows()}
        speaking = hardware.representative_runs(self.many).cast(dict.fromkeys(("run", "study"), pl.String))
        runs = self.many.runs.cast(dict.fromkeys(("run", "machine"), pl.String))
        if self.each == "machine":
            runs = runs.join(speaking.filter("trusted"), on="run", how="semi", maintain_order="left")
        with ThreadPoolExecutor() as pool:
            folders = [self.many.folders[run] for run in runs["run"]]
            judged = list(pool.map(lambda folder: _judged(folder, findings, hashes), folders))
        named = zip(judged, runs["run"], self._called(runs), strict=True)
        parts_of = [frame.with_columns(run=pl.lit(run), on=pl.lit(name)) for frame, run, name in named]
        nothing = pl.DataFrame(schema=JUDGED | dict.fromkeys(("run", "on"), pl.String))
        numbers = pl.concat([nothing, *parts_of]).drop_nulls("value")
        numbers = numbers.join(stated, on=["finding", "slot"], maintain_order="left_right")
        if self.each == "machine":  # several runs may speak for a machine, each for other studies
            numbers = numbers.join(speaking, on=["run", "study"], how="semi", maintain_order="left")
        slots = {
            (finding.id, slot.name): (slot, forms_of(finding)[slot.name])
            for finding in findings
            for slot in finding.slots
        }
        rows = numbers.select("finding", "slot", "least", "greatest", "outcome", "tested").iter_rows()
        shown = (_shown(*slots[id, slot], *row) for id, slot, *row in rows)
        marks, texts = zip(*shown, strict=True) if numbers.height else ((), ())
        return numbers.with_columns(mark=pl.Series(marks, dtype=MARK), text=pl.Series(texts, dtype=pl.String))

    def _called(self, runs: pl.DataFrame) -> list[str]:
        """What committed machines are called, of others the processor in a word, or the machine's name if another
        machine has that processor.
        """
        if self.each == "run":
            return runs["run"].to_list()
        committed = {id: machine.name for machine in machines() for id in machine.series}
        folders = (self.many.folders[run] for run in runs["run"])
        own = [short(read_run_info(folder / "run.json").machine) for folder in folders]
        machines_of = Counter(name for name, _ in set(zip(own, runs["machine"], strict=True)))
        names = zip(runs["run"], own, runs["machine"], strict=True)
        return [committed.get(run, name if machines_of[name] == 1 else machine) for run, name, machine in names]


def _analyses() -> Path:
    """The folder of the executed analyses that are being published with this page, else of those of a report."""
    of_report = next(reports_root().glob("*/*/.notebooks/zero-cost.ipynb"), Path("no/analyses")).parent
    return Path(os.environ.get("ASYNC_COST_ANALYSES") or of_report)


def _stated(findings: Sequence[Finding]) -> pl.DataFrame:
    """The numbers of findings: finding, slot, page, study, label, unit, hash."""
    rows = []
    for finding in findings:
        labels = {slot: name for name, part in parts(finding) for slot in slots_of(part)}
        rows += [
            row | {"label": labels.get(str(row["slot"])) or SLOT.sub("…", finding.note or finding.label)}
            for row in rows_of_finding(finding, limits_of_today())
        ]
    columns = ("id", "slot", "page", "label", "operation", "unit", "hash", "operands")
    stated = pl.DataFrame(rows, dict.fromkeys(columns, pl.String)).filter(pl.col("operation") != PUBLISHED)
    study = pl.col("operands").str.split("|").list.first()
    return stated.select("slot", "page", "label", "unit", "hash", finding="id", study=study)


def _judged(folder: Path, findings: Sequence[Finding], hashes: Mapping[Place, str]) -> pl.DataFrame:
    """What the run in `folder` says about numbers of findings: JUDGED. Of a committed series it is known already;
    of a run whose samples cannot be read there is nothing.
    """
    if known := committed("finding", (series_of(folder),), hashes):
        columns = ("outcome", "tested", "value", "low", "high", "least", "greatest")
        return pl.DataFrame([(*at, *map(row.get, columns)) for at, row in known.items()], schema=JUDGED, orient="row")

    def rows_of(run: Run) -> Iterator[tuple]:
        tested = seen_by(run, "findings")
        for filled in (filled for result in map(Judge(run), findings) for filled in result.slots):
            id, slot, weighed = filled.slot.id, filled.slot.name, filled.weighed
            known = weighed.outcome.value if filled.judged else NOT_JUDGED if filled.slot.is_judged else SHOWN
            outcome = NOT_JUDGED if weighed.doubted else known
            seen = "yes" if hashes.get((id, slot)) in tested else None
            ends = (filled.ends.get(end) for end in ("least", "greatest"))
            yield id, slot, outcome, seen, weighed.effect, weighed.low, weighed.high, *ends

    try:
        return pl.DataFrame(list(rows_of(open_run(folder))), schema=JUDGED, orient="row")
    except DataError:
        return pl.DataFrame(schema=JUDGED)


def _shown(slot: Slot, form: str, least: float, greatest: float, outcome: str, tested: str | None) -> tuple[str, str]:
    """The mark of a number, and both as text, in the form of its sentence."""
    mark = "·" if outcome in (SHOWN, NOT_JUDGED) else mark_of([outcome], tested=bool(tested))
    return mark, f"{mark} {figures.text(slot, form, [least, greatest], signed=form == '%')}"


def open_machines() -> Machines:
    """All runs, or the two that are compared; the theme of charts is set."""
    charts.enable()
    return Machines()
