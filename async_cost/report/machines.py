"""All runs side by side, as the notebook on hardware reads them: polars frames.

A machine is spoken for by its newest run that is evidence; where two runs are named to be compared, each counts by
itself.
"""

import hashlib
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

import polars as pl

from async_cost import derived
from async_cost.errors import DataError
from async_cost.findings.finding import Finding, Judge, recorded
from async_cost.machines import claims, hardware
from async_cost.machines.many import chosen_folders, read_many
from async_cost.paths import report_folder
from async_cost.report import charts, finding
from async_cost.runs.run import open_run
from async_cost.statistics.table import place_of

#: Names the folder of executed analyses, whose findings are judged on every run.
ANALYSES = "ASYNC_COST_ANALYSES"
JUDGED = {"finding": pl.String, "page": pl.String, "sentence": pl.String, "outcome": pl.String, "mark": pl.String}
JUDGED |= {"values": pl.String}


class Machines:
    """What all runs say. `each` is "machine", or "run" where two runs are compared."""

    def __init__(self) -> None:
        self.each = "run" if os.environ.get("ASYNC_COST_COMPARE") else "machine"
        self._many = read_many(chosen_folders())

    @cached_property
    def runs(self) -> pl.DataFrame:
        """run, machine, cpu, cores, rustc, origin, profile, started, revision, evidence (studies that may be judged, of
        all)."""
        votes = self._many.studies.group_by("run").agg(
            evidence=pl.format("{} of {}", pl.col("trusted").sum(), pl.len())
        )
        return self._many.runs.join(votes, on="run", how="left").sort("machine", "started")

    @cached_property
    def refused(self) -> pl.DataFrame:
        """Studies of runs of which not all is judged: run, study, reason."""
        return self._many.studies.filter(pl.col("reason") != "").select("run", "study", "reason")

    @property
    def aside(self) -> pl.DataFrame:
        """Folders that cannot be used: run, reason."""
        return self._many.aside

    @cached_property
    def comparisons(self) -> pl.DataFrame:
        """The comparisons of the run that speaks for each machine: the columns of `ManyRuns.ratios`, unit (what is
        compared)."""
        return hardware.one_of_each(self._many, self.each)

    @cached_property
    def agreement(self) -> pl.DataFrame:
        """A row for each comparison that is evidence somewhere: the columns of `hardware.agreement`."""
        return hardware.agreement(self.comparisons)

    @cached_property
    def claims(self) -> pl.DataFrame:
        """On how many machines each published claim has which outcome: the columns of `machines.claims.on_machines`."""
        return claims.on_machines(self._many)

    @cached_property
    def repeats(self) -> pl.DataFrame:
        """How each comparison changed between the two newest runs of a machine with one compiler: the columns of
        `hardware.changes`."""
        return hardware.changes(self._many.ratios, hardware.repeats(self._many))

    @cached_property
    def releases(self) -> pl.DataFrame:
        """The same between two compilers on one machine, from the same sources."""
        return hardware.changes(self._many.ratios, hardware.upgrades(self._many))

    @cached_property
    def findings(self) -> pl.DataFrame:
        """What each machine says about each finding of our pages: JUDGED, unit; values are the numbers as text."""
        stated = recorded(sorted(self._analyses().glob("*.ipynb")))
        chosen = self._many.runs if self.each == "run" else hardware.chosen_runs(self._many).filter("trusted")
        rows = chosen.select(pl.col("run").cast(pl.String), unit=pl.col(self.each).cast(pl.String)).unique(
            maintain_order=True
        )
        # A machine may be spoken for by several runs, each for other studies.
        of_run = hardware.chosen_runs(self._many).select(pl.col("run", "study").cast(pl.String))
        parts = [pl.DataFrame(schema=JUDGED | {"unit": pl.String})]
        with ThreadPoolExecutor() as pool:
            folders = [self._many.folders[run] for run in rows["run"]]
            for (run, unit), judged in zip(
                rows.rows(), pool.map(lambda folder: _judged(folder, stated), folders), strict=True
            ):
                mine = judged.filter(pl.col("outcome") != "not measured")
                if self.each == "machine":
                    speaks = set(of_run.filter(run=run)["study"])
                    about = {one.id for one in stated if one.main.cases[0][0][0].study in speaks}
                    mine = mine.filter(pl.col("finding").is_in(about))
                parts.append(mine.with_columns(unit=pl.lit(unit)))
        return pl.concat(parts)

    def _analyses(self) -> Path:
        """The executed analyses: those that are being published with this page, else those of a report."""
        if named := os.environ.get(ANALYSES):
            return Path(named)
        reports = (report_folder(folder) for folder in self._many.folders.values())
        known = [report / ".notebooks" for report in reports if report and (report / ".notebooks").is_dir()]
        return known[0] if known else Path("no analyses")


def _judged(folder: Path, stated: Sequence[Finding]) -> pl.DataFrame:
    """What the run in `folder` says about findings: JUDGED."""
    key = hashlib.sha256(repr(stated).encode() + Path(finding.__file__).read_bytes()).digest()
    place = place_of(folder, "findings", key)
    if place and (known := derived.read(place, JUDGED)) is not None:
        return known
    try:
        judge = Judge(open_run(folder))
        found = [judge(one) for one in stated]
    except DataError:
        return pl.DataFrame(schema=JUDGED)
    rows = [
        (
            one.finding.id,
            one.finding.page,
            one.finding.statement,
            one.outcome.value,
            finding.mark(one),
            finding.plain_values(one),
        )
        for one in found
    ]
    made = pl.DataFrame(rows, schema=JUDGED, orient="row")
    derived.write(made, place)
    return made


def open_machines() -> Machines:
    """All runs, or the two that are compared; the theme of charts is set."""
    charts.enable()
    return Machines()
