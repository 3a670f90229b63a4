"""A run consists of episodes, one process each: run.json says which rounds they measured."""

import json
import shutil
from pathlib import Path

import msgspec
import pytest
from made_up_runs import BASELINE, OFF, Study, make_run
from refusal import refused

from async_cost.errors import DataError
from async_cost.report.publish import publish
from async_cost.runs import finish
from async_cost.runs.find import load_run
from async_cost.runs.record import KINDS
from async_cost.runs.run import open_sitting
from async_cost.statistics.trials import paired, trial_times, trial_values
from async_cost.workflow import plan

STUDY = "zero-cost"
NONBOX, MANUAL = ("nonbox", "nonbox", OFF), (BASELINE, BASELINE, OFF)


def made(tmp_path, **how):
    given = {"truth": {("nonbox", OFF): 3.0}, "controls": {OFF: 1.0}, "rounds": 24, "episodes": 6}
    return make_run(tmp_path, **given | how)


# -- reading -------------------------------------------------------------------------------------------------


def test_each_round_belongs_to_the_process_that_measured_it(tmp_path):
    run = load_run(made(tmp_path, rounds=10, episodes=3))
    by_round = dict(run.time(STUDY).select("round", "episode").unique().rows())
    assert [by_round[number] for number in range(10)] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
    trials = trial_times(run.time(STUDY))
    assert dict(trials.select("round", "episode").unique().rows()) == by_round
    rounds = paired(trials, run.comparisons(STUDY), run.units(STUDY))
    assert dict(rounds.select("round", "episode").unique().rows()) == by_round


def test_metrics_carry_the_episode_on(tmp_path):
    study = Study({NONBOX: 2e5, MANUAL: 1e5}, baseline=BASELINE, metrics={NONBOX: {"cpu_ns": 5e4}})
    run = load_run(make_run(tmp_path, None, others={STUDY: study}, rounds=8, episodes=4))
    values = trial_values(run, STUDY, "cpu_ns")
    assert values.group_by("episode").len().sort("episode")["len"].to_list() == [2] * 4


def episode(first: int) -> dict:
    return {"first_round": first, "started": "2026-01-01T00:00:00Z", "ended": None, "layout": None}


@pytest.mark.parametrize(
    ("field", "value"),
    [("episodes", [*map(episode, firsts)]) for firsts in ([], [1], [0, 9, 9], [0, 24])]
    + [("kinds", kinds) for kinds in ({}, {"": KINDS[0], "threads": KINDS[1]}, {"": "two threads"})],
)
def test_episodes_and_kinds_that_cannot_be_are_refused(tmp_path, field, value):
    error = refused(made(tmp_path, changes={f"studies.{STUDY}.{field}": value}))
    assert error.column.startswith((f"studies.{STUDY}.{field}", f"studies.{STUDY}.groups"))


def finished(tmp_path) -> Path:
    """A run that was measured below tmp_path."""
    partial = tmp_path / "runs" / ".partial" / "plan"
    partial.parent.mkdir(parents=True)
    make_run(tmp_path / "made", rounds=6, episodes=3, changes={"ended": None}).rename(partial)
    return finish.finish(partial, tmp_path / "runs", tmp_path / "outcome.json")


def test_a_finished_run_says_what_it_said_before_and_names_what_it_compares_by_hash(tmp_path):
    folder, before = finished(tmp_path), load_run(make_run(tmp_path / "before", rounds=6, episodes=3))
    after = load_run(folder)
    assert after.comparisons(STUDY).equals(before.comparisons(STUDY))
    rows = {f"{STUDY}.counts.csv": after.counts(STUDY).height, f"{STUDY}.time.csv": after.time(STUDY).height}
    assert after.info == msgspec.structs.replace(before.info, ended=after.info.ended, rows=rows)
    digest = json.loads((folder / "run.json").read_text())["studies"][STUDY]["comparisons"]
    assert (tmp_path / "comparisons" / f"{digest}.csv").is_file()
    publish(folder, [], tmp_path / "report")
    assert (tmp_path / "report" / "data" / f"{digest}.csv").is_file(), "a report offers it with the samples"


@pytest.mark.parametrize("table", ["counts", "time"])
def test_a_table_that_ends_early_at_the_end_of_a_row_is_refused(tmp_path, table):
    file = finished(tmp_path) / f"{STUDY}.{table}.csv"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    with pytest.raises(DataError, match=r"rows, but .* were measured") as refusal:
        open_sitting(file.parent).checked()
    assert refusal.value.path == file


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("made-up-2c", ["made-up-2c", "made-up-l1d-16k-2c", "made-up-l1d-16k-2c", "made-up-l1d-8k-2c"]),
        ("mine", ["mine", "mine-2", "mine-2", "mine-3"]),
    ],
)
def test_a_machine_of_another_processor_that_calls_itself_the_same_gets_a_name_of_its_own(tmp_path, name, names):
    for number, bytes in enumerate((32_768, 16_384, 16_384, 8192)):
        caches = [{"level": 1, "kind": "data", "bytes": bytes}]
        changes = {"ended": None, "machine.name": name, "machine.caches": caches}
        partial = tmp_path / "runs" / ".partial" / "plan"
        partial.parent.mkdir(parents=True, exist_ok=True)
        changes["run_id"] = f"{name}/2026010{number + 1}T000000Z"
        make_run(tmp_path / str(number), rounds=6, episodes=3, changes=changes).rename(partial)
        folder = finish.finish(partial, tmp_path / "runs", tmp_path / "outcome.json")
        assert load_run(folder).info.machine.name == folder.parent.name == names[number]


@pytest.mark.parametrize("damage", [Path.unlink, lambda file: file.write_text(file.read_text().lower())])
def test_a_run_whose_comparisons_are_missing_or_altered_is_refused(tmp_path, damage):
    folder = finished(tmp_path)
    (file,) = (tmp_path / "comparisons").iterdir()
    damage(file)
    error = refused(folder)
    assert error.path == file and "where the run was measured" in error.remedy


@pytest.mark.parametrize(("where", "what"), [(Path, "unlink"), (finish.os, "rename")])
def test_a_run_that_was_stopped_while_it_was_completed_is_completed_and_nothing_is_done_again(
    tmp_path, monkeypatch, where, what
):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(plan, "RUNS", tmp_path)
    measured = plan.Plan("measure", "quick", (STUDY,), native=True)
    measured.partial.parent.mkdir()
    made(tmp_path / "made").rename(measured.partial)
    (measured.partial / f"{STUDY}.counted").touch()
    whole = [step.name for step in measured.steps()]
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(where, what, stop)
        finish.finish(measured.partial, tmp_path, measured.outcome)
    assert [step.name for step in measured.steps()] == ["complete the run"]
    finish.finish(measured.partial, tmp_path, measured.outcome)
    assert measured.steps() == [] and not list(measured.run().glob("*.counted"))
    shutil.rmtree(measured.run())
    measured.partial.mkdir()
    (measured.partial / "run.json").write_text('{"run_id": "begun anew"}')
    assert [step.name for step in measured.steps()] == whole
