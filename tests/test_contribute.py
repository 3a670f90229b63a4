"""A run that is offered to others is sound, no quick one, small, and names nobody; packing changes none of its
numbers.
"""

import shutil
import sys

import pytest
from made_up_runs import OFF, ON, change_record, make_run

from async_cost.errors import DataError
from async_cost.runs.find import load_run
from async_cost.statistics.measured import Measured
from async_cost.workflow import contribute as contribute_module
from async_cost.workflow.contribute import contribute, packed_size

QUIET = {"rounds": 60, "noise": 0.005}


@pytest.fixture(autouse=True)
def among_these_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNC_COST_RUNS", str(tmp_path))


def refused(run) -> str:
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    with pytest.raises(DataError) as error:
        contribute(run)
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before, "a refused run is left as it was"
    return str(error.value)


def test_a_good_run_is_packed_and_says_the_same(tmp_path):
    run = make_run(tmp_path, machine="alpha", **QUIET)
    before, size = load_run(run), packed_size(run)
    contribute(run)
    after = load_run(run)
    tables = ["zero-cost.counts.csv.gz", "zero-cost.time.csv.gz"]
    assert sorted(path.name for path in run.iterdir()) == ["run.json", *tables]
    assert after.time("zero-cost").equals(before.time("zero-cost"))
    assert sum(path.stat().st_size for path in run.iterdir()) == size


def test_a_run_whose_controls_find_fault_is_welcome(tmp_path):
    run = make_run(tmp_path, machine="alpha", controls={OFF: 1.05, ON: 1.0}, **QUIET)
    assert Measured(contribute(run), "zero-cost").refused
    assert (run / "zero-cost.time.csv.gz").exists()


def test_packing_leaves_no_trace_and_is_done_once(tmp_path, monkeypatch):
    runs, packed = [make_run(tmp_path / name, machine="alpha", **QUIET) for name in "ab"], []
    for run in [*runs, runs[0]]:
        monkeypatch.setenv("ASYNC_COST_RUNS", str(run.parents[1]))
        contribute(run)
        packed.append((run / "zero-cost.time.csv.gz").read_bytes())
    assert packed[0] == packed[1] == packed[2]
    assert packed[0][3:8] == b"\0" * 5, "neither a name nor a time stands in the header"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ({"profile": "quick"}, "the profile is quick"),
        ({"changes": {"machine.kernel": "Linux of /mnt/elsewhere/linux"}}, "names the folder '/mnt/elsewhere/linux'"),
        ({"changes": {"ended": "2025-01-01T00:00:00Z"}}, " to 2025-01-01T00:00:00Z"),
    ],
)
def test_what_others_could_not_use_is_refused(tmp_path, made, reason):
    assert reason in refused(make_run(tmp_path, machine="alpha", **QUIET | made))


def test_a_run_that_is_too_large_is_refused(tmp_path, monkeypatch):
    run = make_run(tmp_path, machine="alpha", **QUIET)
    monkeypatch.setattr(contribute_module, "LIMIT_BYTES", packed_size(run) - 1)
    assert "bytes packed, more than" in refused(run)


def test_other_files_and_other_places_are_refused(tmp_path):
    run = make_run(tmp_path, machine="alpha", **QUIET)
    (run / "notes.txt").write_text("mine")
    moved = tmp_path / "elsewhere" / "alpha" / run.name
    shutil.copytree(run, moved)
    text = refused(moved)
    assert "notes.txt is not part of a run" in text and "move it to" in text


def test_the_name_of_a_machine_with_another_processor_is_refused(tmp_path):
    known = make_run(tmp_path, machine="alpha", **QUIET)
    run = make_run(tmp_path / "new", machine="alpha", seed=7, changes={"machine.cpu": "Other"}, **QUIET)
    claimed = tmp_path / "alpha" / "20260102T000000Z"
    shutil.move(run, claimed)
    text = refused(change_record(claimed, {"run_id": f"alpha/{claimed.name}"}))
    assert "an older run of a machine of this name is from another processor" in text and "another name" in text
    change_record(claimed, {"machine.cpu": load_run(known).info.machine.cpu})
    assert contribute(claimed).path == claimed


@pytest.mark.parametrize("good", [True, False], ids=["good", "quick"])
def test_the_command_says_by_its_exit_whether_a_run_is_packed(tmp_path, monkeypatch, capsys, good):
    run = make_run(tmp_path, machine="alpha", profile="standard" if good else "quick", **QUIET)
    monkeypatch.setattr(sys, "argv", ["contribute", str(run)])
    if good:
        contribute_module.main()
        assert "git add" in capsys.readouterr().out
    else:
        with pytest.raises(SystemExit, match="the profile is quick"):
            contribute_module.main()
    assert (run / "zero-cost.time.csv.gz").exists() == good
