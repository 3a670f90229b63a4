"""All runs side by side, as the notebook on hardware reads them: polars frames.

A machine is spoken for by its newest run that is evidence; where two runs are named to be compared, each counts by
itself.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

import polars as pl

from async_cost import words
from async_cost.derived import code_of
from async_cost.findings.definitions import NOT_JUDGED, committed, hashes_of, series_of
from async_cost.findings.finding import Judge
from async_cost.findings.lint import SLOT
from async_cost.findings.record import Finding, recorded
from async_cost.machines import claims, hardware
from async_cost.machines.many import chosen_folders, read_many, stored_rows
from async_cost.paths import reports_root
from async_cost.report import charts, numbers
from async_cost.runs.run import Run
from async_cost.statistics.statement import Outcome, together

#: Names the folder of executed analyses, whose findings are judged on every run.
ANALYSES = "ASYNC_COST_ANALYSES"
#: A judgement also depends on the code that judges findings and words it.
CODE = code_of("literature", "findings", "machines", "report")
#: How an outcome is marked in a table of machines.
MARKS: dict[str, str] = {
    Outcome.HOLDS: "✓",
    Outcome.DOES_NOT_HOLD: "≠",
    Outcome.UNDECIDED: "?",
    Outcome.NOT_MEASURABLE: words.NOTHING,
    Outcome.NOT_MEASURED: words.NOTHING,
}
JUDGED = dict.fromkeys(("run", "study", "finding", "page", "sentence", "outcome", "mark", "values"), pl.String)


class Machines:
    """What all runs say. `each` is "machine", or "run" where two runs are compared."""

    def __init__(self) -> None:
        self.each = "run" if os.environ.get("ASYNC_COST_COMPARE") else "machine"
        self._many = read_many(chosen_folders())

    @property
    def runs(self) -> pl.DataFrame:
        """run, machine, cpu, cores, rustc, origin, profile, started, revision, evidence (studies that may be judged, of
        all)."""
        votes = self._many.studies.group_by("run").agg(
            evidence=pl.format("{} of {}", pl.col("trusted").sum(), pl.len())
        )
        return self._many.runs.join(votes, on="run", how="left").sort("machine", "started")

    @property
    def refused(self) -> pl.DataFrame:
        """Studies of runs of which not all is judged: run, study, reason."""
        return self._many.studies.filter(pl.col("reason") != "").select("run", "study", "reason")

    @property
    def aside(self) -> pl.DataFrame:
        """Folders that cannot be used: run, reason."""
        return self._many.aside

    @property
    def agreement(self) -> pl.DataFrame:
        """A row for each comparison that is evidence somewhere: the columns of `hardware.agreement`."""
        return hardware.agreement(hardware.one_of_each(self._many, self.each))

    @property
    def claims(self) -> pl.DataFrame:
        """On how many machines each published claim has which outcome: the columns of `machines.claims.on_machines`."""
        return claims.on_machines(self._many)

    @property
    def repeats(self) -> pl.DataFrame:
        """How each comparison changed between the two newest runs of a machine with one compiler: the columns of
        `hardware.changes`."""
        return hardware.changes(self._many.ratios, hardware.repeated(self._many, same_compiler=True))

    @property
    def releases(self) -> pl.DataFrame:
        """The same between two compilers on one machine, from the same sources."""
        return hardware.changes(self._many.ratios, hardware.repeated(self._many, same_compiler=False))

    @cached_property
    def findings(self) -> pl.DataFrame:
        """What each machine says about each finding of our pages: JUDGED, unit; values are the numbers as text."""
        stated = recorded(sorted(_analyses().glob("*.ipynb")))
        speaking = hardware.chosen_runs(self._many).cast({"run": pl.String, "study": pl.String})
        chosen = self._many.runs if self.each == "run" else speaking.filter("trusted")
        units = chosen.select(pl.col("run").cast(pl.String), unit=pl.col(self.each).cast(pl.String))
        units = units.unique(maintain_order=True)
        folders = [self._many.folders[run] for run in units["run"]]
        with ThreadPoolExecutor() as pool:
            judged = pl.concat(
                [pl.DataFrame(schema=JUDGED), *pool.map(lambda folder: _judged(folder, stated), folders)]
            )
        found = judged.filter(pl.col("outcome") != Outcome.NOT_MEASURED.value)
        found = found.join(units, on="run", maintain_order="left")
        if self.each == "run":
            return found
        # Several runs may speak for a machine, each for other studies.
        return found.join(speaking, on=["run", "study"], how="semi", maintain_order="left")


def _analyses() -> Path:
    """The executed analyses: those that are being published with this page, else those of a report."""
    of_report = next(reports_root().glob("*/*/.notebooks/zero-cost.ipynb"), Path("no/analyses")).parent
    return Path(os.environ.get(ANALYSES) or of_report)


def _judged(folder: Path, stated: Sequence[Finding]) -> pl.DataFrame:
    """What the run in `folder` says about findings: JUDGED. Of a committed series it is known already."""
    hashes = hashes_of(stated)
    known = committed("finding", series_of(folder), hashes)
    if stated and known:
        rows = [row for one in stated if (row := _known(one, known))]
        return pl.DataFrame(rows, schema=JUDGED, orient="row")

    def rows_of(run: Run) -> Iterator[tuple]:
        for found in map(Judge(run), stated):
            if found.outcome:
                values = [(one.weighed.effect, one.weighed.low, one.weighed.high) for one in found.judged]
                outcome = NOT_JUDGED if found.doubted else found.outcome
                yield _row(run.info.run_id, found.finding, outcome, values)

    return stored_rows(folder, "findings", CODE + repr(stated).encode(), JUDGED, rows_of)


def _known(one: Finding, rows: Mapping) -> tuple | None:
    """A row of JUDGED from those of data/judged.csv, if anything is expected."""
    judged = [rows[slot.id, slot.name] for slot in one.judged]
    outcomes = [row["outcome"] for row in judged]
    if not judged:
        return None
    outcome = NOT_JUDGED if NOT_JUDGED in outcomes else together(map(Outcome, outcomes))
    return _row(judged[0]["series"], one, outcome, [(row["value"], row["low"], row["high"]) for row in judged])


def _row(run: str, one: Finding, outcome: str, values: Sequence[tuple]) -> tuple:
    study, mark = one.slots[0].main.cases[0][0][0].study, MARKS.get(outcome, "·")
    shown = (
        numbers.value(slot.main, *each) for slot, each in zip(one.judged, values, strict=True) if each[0] is not None
    )
    return run, study, one.id, one.page, SLOT.sub("…", one.sentence), outcome, mark, words.plain("; ".join(shown))


def open_machines() -> Machines:
    """All runs, or the two that are compared; the theme of charts is set."""
    charts.enable()
    return Machines()
