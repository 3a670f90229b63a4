"""The crate `by-turns`, which others use: it judges as the table does, and a repository of theirs works with it."""

import csv
import io
import math
import subprocess

import polars as pl
import pytest

from async_cost.runs.comparisons import BASE_KEY, KEY, PAIR
from async_cost.runs.find import reference_run
from async_cost.runs.run import Run
from async_cost.statistics.judge import _groups_behind, in_sittings
from async_cost.statistics.table import make
from async_cost.workflow.toolchain import ROOT

#: What the table and the crate both say, as numbers.
NUMBERS = ("ratio", "low", "high", "undisturbed", "undisturbed_low", "undisturbed_high", "bias", "chance")


@pytest.fixture(scope="module")
def run() -> Run:
    return reference_run()


@pytest.fixture(scope="module")
def table(run) -> pl.DataFrame:
    return make(run).frame


@pytest.fixture(scope="module")
def by_the_crate(run, table, tmp_path_factory) -> list[dict[str, str]]:
    """What the example `judge` of the crate says of each row of the table, from the same samples."""
    folder = tmp_path_factory.mktemp("judge")
    for study in run.info.studies:
        run.whole_time(study).select(
            "study", *KEY, "round", "position", "sample", "iterations", "elapsed_ns"
        ).write_csv(folder / f"{study}.time.csv")
        starts = [episode.first_round for episode in run.study(study).episodes]
        pl.DataFrame({"first_round": starts}).write_csv(folder / f"{study}.episodes.csv")
    units = pl.concat(run.units(study).select(*KEY, "units", study=pl.lit(study)) for study in run.info.studies)
    behind = [";".join(group for _, group in groups[1:]) for groups in _groups_behind(table)]
    rows = table.with_columns(behind=pl.Series(behind))
    rows = rows.join(units, on=["study", *KEY], how="left", maintain_order="left").join(
        units.rename({"units": "baseline_units"}),
        left_on=["study", *BASE_KEY],
        right_on=["study", *KEY],
        how="left",
        maintain_order="left",
    )
    both = pl.col("units").is_not_null() & pl.col("baseline_units").is_not_null()
    rows = rows.with_columns(pl.when(both).then(name).otherwise(1).alias(name) for name in ("units", "baseline_units"))
    names = ("study", *PAIR, "group", "kind", "limit", "control", "units", "baseline_units", "behind")
    rows.select(names).write_csv(folder / "comparisons.csv")
    command = ["cargo", "run", "--quiet", "--release", "-p", "by-turns", "--example", "judge", "--", folder]
    said = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return list(csv.DictReader(io.StringIO(said)))


def test_the_crate_judges_each_comparison_of_the_reference_run_as_the_table_does(table, by_the_crate):
    assert len(by_the_crate) == table.height > 100
    for theirs, ours in zip(by_the_crate, table.iter_rows(named=True), strict=True):
        which = " ".join(str(ours[name]) for name in ("study", *PAIR))
        for name in NUMBERS:
            one, other = float(theirs[name] or "nan"), math.nan if ours[name] is None else ours[name]
            same = math.isclose(one, other, rel_tol=1e-7, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
            assert same, f"{which}: {name} is {one} by the crate, {other} in the table"
        assert (theirs["verdict"] or None) == ours["verdict"], which
        assert bool(theirs["doubt"]) == (ours["doubt"] is not None), which
        assert theirs["doubt"] or told(theirs["needed"]) == ours["to_decide"], which


def told(needed: str) -> str | None:
    """What the crate says would decide it, in the words of the table."""
    if "/" in needed:
        return "nothing: {} on a typical machine, {} on an undisturbed one".format(*needed.split("/"))
    return in_sittings(float(needed)) if needed else None


def test_the_reference_run_holds_every_word(table):
    assert {"slower", "faster", "same", "undecided"} == {*table["verdict"].drop_nulls()}
    assert (table["bias"] > 0).any() and table["undisturbed"].is_not_null().any()
