"""A standard run waits for a quiet machine, and may be another sitting of a series."""

import json
import sys
from types import SimpleNamespace

import pytest
from made_up_runs import OFF, change_record, changed, make_run, make_series

from async_cost.errors import DataError
from async_cost.report.records import ended_early
from async_cost.runs.find import announced, load_run, not_as_announced
from async_cost.runs.record import read_record
from async_cost.statistics.measured import Measured
from async_cost.statistics.table import comparisons
from async_cost.workflow import episodes, sitting, toolchain
from async_cost.workflow.commands import existing_run
from async_cost.workflow.plan import Plan
from async_cost.workflow.steps import Progress, Seen, StepFailed


class Machine:
    """A machine whose load average is told, one look at a time; the last one stays."""

    def __init__(self, monkeypatch, loads, longest_s=0.05):
        self.loads, self.seen, self.said = list(loads), list[Seen](), list[str]()
        monkeypatch.setattr("os.cpu_count", lambda: 2)
        monkeypatch.setattr("os.getloadavg", lambda: (self.loads.pop(0) if self.loads[1:] else self.loads[0], 0.5, 0.5))
        monkeypatch.setattr(sitting, "POLL_S", 0.001)
        monkeypatch.setattr(sitting, "LONGEST_S", longest_s)

    def progress(self, tmp_path) -> Progress:
        return Progress(self.seen.append, tmp_path / "log", tmp_path, say=self.said.append)


def test_a_run_waits_until_less_than_a_third_of_a_program_runs_on_each_core(monkeypatch, tmp_path):
    machine = Machine(monkeypatch, [0.9, 0.7, 0.59], longest_s=60)
    assert sitting.wait(machine.progress(tmp_path), 900) > 0
    assert len(machine.seen) == 2 and not machine.said
    assert "load 0.90, not below 0.60" in machine.seen[0].text
    assert 900 < machine.seen[1].left_s < machine.seen[0].left_s < 960


def test_it_waits_no_longer_than_it_may_and_says_so(monkeypatch, tmp_path):
    machine = Machine(monkeypatch, [1.2])
    assert sitting.wait(machine.progress(tmp_path), 0) >= 0.05
    assert "load 1.20" in machine.said[0] and "measuring all the same" in machine.said[0]


def test_a_wait_ends_with_the_command(monkeypatch, tmp_path):
    progress = Machine(monkeypatch, [1.2], longest_s=60).progress(tmp_path)
    progress.stop.set()
    with pytest.raises(StepFailed):
        sitting.wait(progress, 0)


@pytest.fixture
def first(tmp_path, monkeypatch):
    """The run.json of a run of today's program and compiler, among all runs."""
    monkeypatch.setenv("ASYNC_COST_RUNS", str(tmp_path))
    program = SimpleNamespace(hexdigest=lambda: "5" * 64)
    monkeypatch.setattr("async_cost.workflow.plan._sources", lambda: program)
    monkeypatch.setattr("async_cost.workflow.plan._fingerprint", "-".join)
    run = make_run(tmp_path, rounds=2)
    about = {"program": "5" * 64, "git": {"revision": "a1", "clean": True}}
    about["command"] = 'make report PROFILE=quick STUDIES="zero-cost" ONLY="nonbox; box" NATIVE=1'
    return change_record(run, about | {"toolchain.rustc": toolchain.rustc_version()}) / "run.json"


def another(first) -> Plan:
    return Plan("measure", **sitting.repeated(existing_run(first.parent)))


def test_another_sitting_measures_the_same_into_a_run_of_its_own(first):
    plan, document = another(first), json.loads(first.read_text())
    asked = (plan.profile, plan.studies, plan.only, plan.native)
    assert asked == ("quick", ("zero-cost",), "nonbox; box", True)
    assert plan.command == f"make measure RUN=data/runs/{document['run_id']}"
    assert plan._env()["ASYNC_COST_SERIES"] == document["run_id"]
    alone = Plan("measure", *asked[:2], native=True, only=plan.only)
    assert plan.partial != alone.partial and "ASYNC_COST_SERIES" not in alone._env()
    names = ["compare notebooks and crates", "count 1", "build 1", "measure 1 in turns (quick)", "complete the run"]
    assert [step.name for step in alone.steps()] == names
    names.remove("count 1")  # the counts are those of the first
    assert [step.name for step in plan.steps()] == names
    # A later sitting names the first, whichever of them was asked for.
    later = first.parent.with_name("20261231T235959Z") / "run.json"
    later.parent.mkdir()
    later.write_text(json.dumps(document | {"series": document["run_id"], "command": "make measure RUN=x"}))
    assert another(later).series == document


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"program": "6" * 64}, r"differ in program\..*git checkout a1.*make measure"),
        ({"toolchain": {"rustc": "rustc 1.0.0"}}, "differ in toolchain.rustc"),
        ({"command": None}, "does not say what was measured.*A new series begins with `make measure`"),
        ({"series": "gone/20260101T000000Z"}, "a first run that is not here"),
    ],
)
def test_another_program_or_compiler_is_refused_before_anything_is_compiled(first, changes, says):
    first.write_text(json.dumps(json.loads(first.read_text()) | changes))
    with pytest.raises(StepFailed, match=says):
        another(first)


@pytest.mark.parametrize("profile", ["quick", "standard"])
def test_the_load_of_a_run_is_that_right_before_its_first_episode(first, monkeypatch, tmp_path, profile):
    machine = Machine(monkeypatch, [0.4, 0.9, 0.5])
    plan = Plan("measure", profile)
    plan.partial = tmp_path / ".partial" / "x"
    plan.partial.mkdir(parents=True)
    (plan.partial / "run.json").write_text(first.read_text())
    monkeypatch.setattr(
        episodes, "measure", lambda partial, *_: episodes.write_json(episodes.done_file(partial), [["a", 1]])
    )
    for _ in range(2):  # the second time after a kill: nobody waits in the middle
        plan._measure(machine.progress(tmp_path))
        run = read_record(plan.partial / "run.json")
        (study,) = run.studies.values()
        assert study.load_before == ((0.4, 0.5, 0.5) if profile == "quick" else (0.5, 0.5, 0.5))
        assert run.waited_s is None if profile == "quick" else 0 <= run.waited_s < 1
        assert run.boot == sitting.boot() and (run.boot is None) == (sys.platform != "linux")
    assert len(machine.seen) == (0 if profile == "quick" else 1)


def test_a_sitting_on_another_machine_is_refused_before_its_first_episode(first, monkeypatch, tmp_path):
    Machine(monkeypatch, [0.1])
    document = json.loads(first.read_text())
    plan = Plan("measure", "quick", ("zero-cost",), series=document)
    plan.partial = tmp_path / ".partial" / "x"
    plan.partial.mkdir(parents=True)
    document = changed(json.loads(first.read_text()), {"machine.cpu": "another", "studies.new": {}})
    (plan.partial / "run.json").write_text(json.dumps(document))
    with pytest.raises(StepFailed, match=r"differ in studies, machine\.cpu"):
        plan._measure(Progress(lambda seen: None, tmp_path / "log", tmp_path))


def test_nothing_is_concluded_from_a_series_until_it_has_as_many_sittings_as_were_announced(tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNC_COST_RUNS", str(tmp_path))
    how = {"truth": {("nonbox", OFF): 3.0}, "controls": {OFF: 1.0}, "rounds": 12, "episodes": 6}
    first, second = make_series(tmp_path, 2, **how)
    run = load_run(second)

    def announce(what: str) -> None:
        (tmp_path / "ANNOUNCED").write_text(f"\ufeffother/20251231T000000Z 9 20251231T000000Z\n{what}\n", "utf-8")

    def refused() -> set:
        frame = comparisons(run).frame
        assert frame["doubt"].is_null().all() == frame["verdict"].is_not_null().any()
        return {*frame["doubt"]}

    announce(f"made-up/{first.name} 3 20251231T000000Z")
    assert refused() == {not_as_announced(run)} == {"2 of 3 announced sittings"}
    assert "the series has 2 of 3 announced sittings" in Measured(run, "zero-cost").refused[""]
    announce(f"made-up/{first.name} 1 20251231T000000Z")
    assert refused() == {not_as_announced(run)} == {"2 sittings, not 1 as announced"}
    announce(f"made-up/{first.name} 3 20251231T000000Z ended with 2: the machine | is gone")
    assert refused() == {not_as_announced(run)} == {None}
    assert ended_early(run) == "Three sittings were announced and two measured: the machine \\| is gone."
    announce(f"made-up/{first.name} six")
    with pytest.raises(DataError, match="ANNOUNCED, line 2: this is no announcement"):
        announced(run)
