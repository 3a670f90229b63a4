"""The steps of a workflow: order, progress, failure, and what is remembered between two commands."""

import sys

import pytest

from async_cost.workflow.steps import Seen, Step, StepFailed, cargo_progress, minutes, notebook_progress, run_steps


def python_step(name, code, **keywords):
    return Step(name, lambda progress: progress.command([sys.executable, "-c", code]), 1, **keywords)


def test_steps_run_in_order_and_say_how_long_they_took(tmp_path, capsys):
    order = []
    steps = [Step(name, lambda progress, name=name: order.append(name), 1) for name in ("first", "second")]
    run_steps("make all", steps, tmp_path, {})
    assert order == ["first", "second"]
    assert "2/2 second: done in" in capsys.readouterr().out


def test_a_step_that_is_done_is_not_run_again(tmp_path, capsys):
    run_steps("make all", [Step("ready", lambda progress: pytest.fail("ran"), 1, lambda: True)], tmp_path, {})
    assert "ready: done already" in capsys.readouterr().out


def test_a_failing_command_stops_the_workflow_and_names_step_log_and_output(tmp_path):
    later = Step("later", lambda progress: pytest.fail("ran after a failure"), 1)
    with pytest.raises(StepFailed) as failure:
        run_steps("make all", [python_step("broken", "print('the reason'); exit(3)"), later], tmp_path, {})
    text = str(failure.value)
    assert "step 1/2 broken failed" in text and "exited with 3" in text and "the reason" in text
    assert (tmp_path / ".tools" / "log" / "broken.log").read_text().endswith("the reason\n")


def test_a_step_sees_the_workflows_environment(tmp_path):
    run_steps(
        "make all", [python_step("env", "import os; assert os.environ['GIVEN'] == '1'")], tmp_path, {"GIVEN": "1"}
    )


def test_progress_lines_reach_the_terminal_with_time_left(tmp_path, capsys):
    def half(progress):
        progress.report.__self__.printed = -1000  # as if the last line were long ago
        progress("half of it", fraction=0.5)

    run_steps("make all", [Step("count", half, 1)], tmp_path, {})
    shown = capsys.readouterr().out
    assert "[########--------]  50%" in shown and "left in all · half of it" in shown


def test_the_next_command_expects_what_the_last_one_took(tmp_path):
    run_steps("make all", [python_step("brief", "pass")], tmp_path, {})
    remembered = (tmp_path / ".tools" / "durations.json").read_text()
    assert '"brief"' in remembered


def test_harness_and_cargo_progress_are_understood():
    line = "[########------------]  40 % · zero-cost · round 24 of 60 · about 1 min 12 s left"
    assert notebook_progress(line) == Seen("round 24 of 60", left_s=72)
    assert notebook_progress(line.replace("1 min 12 s", "9 s")) == Seen("round 24 of 60", left_s=9)
    assert notebook_progress("cell 3 of 66") == Seen("cell 3 of 66")
    assert notebook_progress("anything else") is None
    assert cargo_progress("    Building [=====>      ] 45/180: tokio, serde") == Seen("45 of 180 crates", fraction=0.25)
    assert cargo_progress("   Compiling serde v1.0.0") is None


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (3900, "1 h 5 min")]
)
def test_durations_are_written_for_people(seconds, text):
    assert minutes(seconds) == text
