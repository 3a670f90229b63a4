"""The steps of a workflow: order, progress, failure, and what is remembered between two commands."""

import json
import selectors
import sys

import pytest

from async_cost.workflow.steps import (
    Command,
    Seen,
    Step,
    StepFailed,
    cargo_progress,
    minutes,
    run_steps,
    tell,
    told_progress,
)
from async_cost.workflow.toolchain import ROOT


def python_step(name, code, **keywords):
    return Step(name, lambda progress: progress.command([sys.executable, "-c", code]), 1, **keywords)


def test_steps_run_in_order_and_say_how_long_they_took(tmp_path, capsys):
    order = []
    steps = [Step(name, lambda progress, name=name: order.append(name), 1) for name in ("first", "second")]
    run_steps("make all", steps, tmp_path)
    assert order == ["first", "second"]
    assert "2/2 second: done in" in capsys.readouterr().out


def test_a_step_that_is_done_is_not_run_again(tmp_path, capsys):
    run_steps("make all", [Step("ready", lambda progress: pytest.fail("ran"), 1, lambda: True)], tmp_path)
    assert "ready: done already" in capsys.readouterr().out


def test_a_failing_command_stops_the_workflow_and_names_step_log_and_output(tmp_path):
    later = Step("later", lambda progress: pytest.fail("ran after a failure"), 1)
    with pytest.raises(StepFailed) as failure:
        run_steps("make all", [python_step("broken", "print('the reason'); exit(3)"), later], tmp_path)
    text = str(failure.value)
    assert "step 1/2 broken failed" in text and "exited with 3" in text and "the reason" in text
    assert (tmp_path / ".tools" / "log" / "broken.log").read_text().endswith("the reason\n")


def test_progress_lines_reach_the_terminal_with_time_left(tmp_path, capsys):
    def half(progress):
        progress.report.__self__.printed = -1000  # as if the last line were long ago
        progress("half of it", fraction=0.5)

    run_steps("make all", [Step("count", half, 1)], tmp_path)
    shown = capsys.readouterr().out
    assert "[########--------]  50%" in shown and "left in all · half of it" in shown


def test_the_next_command_expects_what_the_last_one_took(tmp_path):
    run_steps("make all", [python_step("brief", "pass")], tmp_path)
    remembered = (tmp_path / ".tools" / "durations.json").read_text()
    assert '"brief"' in remembered


def test_harness_and_cargo_progress_are_understood():
    told = {"study": "zero-cost", "unit": "round", "round": 24, "rounds": 60, "done": 240, "trials": 600}
    assert told_progress(json.dumps({**told, "seconds_left": 72.0})) == Seen("round 24 of 60", left_s=72)
    assert told_progress(json.dumps(told)) == Seen("round 24 of 60", fraction=0.4)
    for line in ("anything else", "{}", "{torn", '{"unit": "round"}', "cell 3 of 66"):
        assert told_progress(line) is None, line
    assert cargo_progress("    Building [=====>      ] 45/180: tokio, serde") == Seen("45 of 180 crates", fraction=0.25)
    assert cargo_progress("   Compiling serde v1.0.0") is None


def test_a_program_tells_a_person_in_words_and_the_workflow_what_it_understands(monkeypatch, capsys):
    monkeypatch.delenv("ASYNC_COST_PROGRESS", raising=False)
    tell("cell", 3, 66)
    assert capsys.readouterr().out == "cell 3 of 66\n"
    monkeypatch.setenv("ASYNC_COST_PROGRESS", "json")
    tell("cell", 3, 66)
    assert told_progress(capsys.readouterr().out) == Seen("cell 3 of 66")


def test_what_a_command_tells_is_shown_and_everything_is_in_the_log(tmp_path, capsys):
    code = "from async_cost.workflow.steps import tell; print('loading'); tell('cell', 3, 66)"

    def step(progress):
        progress.report.__self__.printed = -1000  # as if the last line were long ago
        progress.command([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)})

    run_steps("make all", [Step("measure", step, 1)], tmp_path)
    assert "left in all · cell 3 of 66" in capsys.readouterr().out
    assert "loading\n{" in (tmp_path / ".tools" / "log" / "measure.log").read_text()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (3900, "1 h 5 min")]
)
def test_durations_are_written_for_people(seconds, text):
    assert minutes(seconds) == text


def python(name, code, **options):
    return Command([sys.executable, "-c", code], name, **options)


def test_chains_run_side_by_side_and_each_in_order(tmp_path):
    ended = []
    # Each of the first two waits for the other, and so they must run at the same time; the third must come after the
    # first.
    meet = "import pathlib, time; pathlib.Path({0!r}).touch()\nwhile not pathlib.Path({1!r}).exists(): time.sleep(0.01)"
    one, two = (str(tmp_path / name) for name in ("one", "two"))
    chains = [
        [
            python("first", meet.format(one, two), then=lambda: ended.append("first")),
            python("third", "print('after')", then=lambda: ended.append("third")),
        ],
        [python("second", meet.format(two, one))],
        [],
    ]
    run_steps("make all", [Step("meet", lambda progress: progress.commands(chains, lanes=2), 1)], tmp_path)
    assert ended == ["first", "third"]
    assert "third: after\n" in (tmp_path / ".tools" / "log" / "meet.log").read_text()


def test_one_lane_runs_one_command_at_a_time(tmp_path):
    turn = "import pathlib, time; here = pathlib.Path({0!r}); assert not here.exists(); here.touch(); time.sleep(0.1); here.unlink()"
    chains = [[python(name, turn.format(str(tmp_path / "here")))] for name in ("first", "second")]
    run_steps("make all", [Step("alone", lambda progress: progress.commands(chains), 1)], tmp_path)


def test_a_failing_chain_ends_the_others_and_says_which(tmp_path):
    chains = [[python("waits", "import time; time.sleep(600)")], [python("broken", "print('why'); exit(3)")]]
    step = Step("both", lambda progress: progress.commands(chains, lanes=2), 1)
    with pytest.raises(StepFailed, match=r"(?s)exited with 3:\n    why"):
        run_steps("make all", [step], tmp_path)


def test_a_command_ends_when_it_ends(tmp_path):
    selected = []

    class Selector(selectors.DefaultSelector):
        def select(self, timeout=None):
            selected.append(len(self.get_map()))
            return super().select(timeout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selectors, "DefaultSelector", Selector)
        run_steps("make all", [python_step("brief", "pass")], tmp_path)
    assert all(selected), "nothing is left to wait for"
