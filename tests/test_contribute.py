"""A run that is offered to others is sound and no quick one; packing changes none of its numbers."""

import shutil
import sys

import pytest
from made_up_runs import OFF, ON, change_record, make_run

from async_cost.errors import DataError
from async_cost.runs.find import load_run
from async_cost.statistics.measured import Measured
from async_cost.workflow import contribute as contribute_module
from async_cost.workflow.contribute import contribute

QUIET = {"rounds": 60, "noise": 0.005}


@pytest.fixture(autouse=True)
def among_these_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNC_COST_RUNS", str(tmp_path))


def test_a_good_run_is_packed_once_without_a_trace_and_says_the_same(tmp_path, monkeypatch):
    runs, packed = [make_run(tmp_path / name, machine="alpha", **QUIET) for name in "ab"], []
    before = load_run(runs[0])
    for run in [*runs, runs[0]]:
        monkeypatch.setenv("ASYNC_COST_RUNS", str(run.parents[1]))
        contribute(run)
        packed.append((run / "zero-cost.time.csv.gz").read_bytes())
    assert packed[0] == packed[1] == packed[2]
    assert packed[0][3:8] == b"\0" * 5, "neither a name nor a time stands in the header"
    tables = ["zero-cost.counts.csv.gz", "zero-cost.time.csv.gz"]
    assert sorted(path.name for path in runs[0].iterdir()) == ["run.json", *tables]
    assert load_run(runs[0]).time("zero-cost").equals(before.time("zero-cost"))


def test_a_run_whose_controls_find_fault_is_welcome(tmp_path):
    run = make_run(tmp_path, machine="alpha", controls={OFF: 1.05, ON: 1.0}, **QUIET)
    assert Measured(contribute(run), "zero-cost").widened
    assert (run / "zero-cost.time.csv.gz").exists()


def test_the_name_of_a_machine_with_another_processor_is_refused(tmp_path):
    known = make_run(tmp_path, machine="alpha", **QUIET)
    run = make_run(tmp_path / "new", machine="alpha", seed=7, changes={"machine.cpu": "Other"}, **QUIET)
    claimed = tmp_path / "alpha" / "20260102T000000Z"
    shutil.move(run, claimed)
    change_record(claimed, {"run_id": f"alpha/{claimed.name}"})
    with pytest.raises(DataError, match="an older run of a machine of this name is from another processor"):
        contribute(claimed)
    change_record(claimed, {"machine.cpu": load_run(known).info.machine.cpu})
    assert contribute(claimed).path == claimed


@pytest.mark.parametrize("good", [True, False], ids=["good", "quick"])
def test_the_command_packs_a_good_run_and_leaves_a_refused_one_as_it_was(tmp_path, monkeypatch, capsys, good):
    run = make_run(tmp_path, machine="alpha", profile="standard" if good else "quick", **QUIET)
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    monkeypatch.setattr(sys, "argv", ["contribute", str(run)])
    if good:
        contribute_module.main()
        assert "git add" in capsys.readouterr().out
    else:
        with pytest.raises(SystemExit, match="the profile is quick"):
            contribute_module.main()
    assert ({path.name: path.read_bytes() for path in run.iterdir()} == before) != good
