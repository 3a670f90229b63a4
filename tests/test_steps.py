"""The steps of a workflow: order, progress and failure."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from async_cost.workflow import running
from async_cost.workflow.running import minutes, run_steps, seconds_left
from async_cost.workflow.steps import Progress, Seen, Step, StepFailed, cargo_progress, parse_progress, print_progress
from async_cost.workflow.toolchain import ROOT


def python_step(name, code, **keywords):
    return Step(name, lambda progress: progress.command([sys.executable, "-c", code]), 1, **keywords)


def test_steps_run_in_order_and_one_that_is_done_does_not_run_again(tmp_path, capsys):
    order = []
    steps = [Step(name, lambda progress, name=name: order.append(name), 1) for name in ("first", "second")]
    steps.insert(1, Step("ready", lambda progress: pytest.fail("ran"), 1, lambda: True))
    run_steps("make all", steps, tmp_path)
    assert order == ["first", "second"]
    shown = capsys.readouterr().out
    assert "ready: done already" in shown and "3/3 second: done in" in shown


@pytest.fixture
def until_shown(monkeypatch):
    """Waits, in a step, until what it has report was shown."""
    shown, show = threading.Event(), running._Display.show

    def show_and_tell(display, now, left_s):
        display.printed = float("-inf")  # as if the last line were long ago
        show(display, now, left_s)
        if all(seen.text for seen in now):
            shown.set()

    monkeypatch.setattr(running._Display, "show", show_and_tell)
    return lambda: shown.wait(60) or pytest.fail("not shown")


def test_steps_that_need_nothing_run_side_by_side_two_at_a_time(tmp_path, capsys, until_shown):
    met, now, most = threading.Barrier(2), [], []

    def meet(name):
        def run(progress):
            now.append(name)
            most.append(len(now))
            progress(f"in {name}", fraction=0.5)
            if name != "third":
                met.wait(60)
                until_shown()
            now.remove(name)

        return Step(name, run, 1, needs=())

    run_steps("make all", [meet("first"), meet("second"), meet("third")], tmp_path)
    assert max(most) == 2
    shown = capsys.readouterr().out
    assert "  1/3 first [####----]  50% and 2/3 second [####----]  50% · " in shown
    assert "left in all · in first · in second\n" in shown


def test_a_step_waits_for_those_that_it_needs_and_for_no_other(tmp_path):
    released, order = threading.Event(), []

    def run(name):
        def step(progress):
            if name == "long":
                assert released.wait(60), "what does not need it waits for it"
            order.append(name)
            if name == "user":
                released.set()

        return step

    steps = [
        Step("long", run("long"), 1, needs=()),
        Step("short", run("short"), 1, needs=()),
        Step("user", run("user"), 1, needs=("short",)),
        Step("end", run("end"), 1),
    ]
    run_steps("make all", steps, tmp_path)
    assert order == ["short", "user", "long", "end"]


def test_a_failure_stops_the_step_beside_it(tmp_path, capsys):
    pid = tmp_path / "pid"
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(pid)!r}).exists(): time.sleep(0.01)"
    broken = f"{wait}\nprint('why'); exit(3)"
    steps = [
        python_step("waits", sleeper(pid), needs=()),
        python_step("broken", broken, needs=()),
        Step("later", lambda progress: pytest.fail("ran after a failure"), 1),
    ]
    with pytest.raises(StepFailed, match=r"(?s)step 2/3 broken failed: .*why.*\.tools/log/broken\.log"):
        run_steps("make all", steps, tmp_path)
    assert not alive(pid)
    assert (tmp_path / ".tools" / "log" / "broken.log").read_text().endswith("why\n")
    assert "waits: done" not in capsys.readouterr().out


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_when_the_workflow_is_ended_so_are_both_of_its_steps(tmp_path, how):
    pids = [tmp_path / "one", tmp_path / "two"]
    code = (
        "import pathlib, sys; from async_cost.workflow.running import run_steps; from async_cost.workflow.steps import Step\n"
        "step = lambda code: Step(code, lambda progress: progress.command([sys.executable, '-c', code]), 1, needs=())\n"
        f"run_steps('make all', [*map(step, {[*map(sleeper, pids)]!r})], pathlib.Path({str(tmp_path)!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stderr=subprocess.DEVNULL) as workflow:
        wait_until(lambda: all(pid.exists() for pid in pids))
        workflow.send_signal(how)
    wait_until(lambda: not any(map(alive, pids)))


def sleeper(pid: Path) -> str:
    """A program that writes its process into this file and stays."""
    return (
        f"import os, pathlib, time; new = pathlib.Path({f'{pid}.new'!r}); new.write_text(str(os.getpid())); "
        f"new.rename({str(pid)!r}); time.sleep(600)"
    )


def alive(pid: Path) -> bool:
    try:
        os.kill(int(pid.read_text()), 0)
    except ProcessLookupError:
        return False
    return True


def wait_until(true) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("took", "left_s"),
    [
        ({"one": 30, "two": 40, "both": 5, "last": 1}, 46),  # side by side
        ({"two": 40, "both": 5, "last": 1}, 46),
        ({"one": 30, "two": 10, "beside": 25, "both": 5, "last": 1}, 36),  # in the place of the first that ends
        ({}, 0),
    ],
)
def test_the_time_left_is_that_of_steps_side_by_side(took, left_s):
    needs = {"one": (), "two": (), "beside": (), "both": ("one", "two"), "last": None}
    steps = [Step(name, pytest.fail, 1, needs=needs[name]) for name in took]
    assert seconds_left(steps, dict(zip(steps, took.values(), strict=True)), {}) == left_s
    for step in steps[:1]:  # it is running, and half of it is done
        rest = {other: took[other.name] for other in steps[1:]}
        assert left_s - took[step.name] / 2 <= seconds_left(steps, rest, {step: took[step.name] / 2}) <= left_s


def test_harness_and_cargo_progress_are_understood():
    report = {"study": "zero-cost", "unit": "round", "round": 24, "rounds": 60, "done": 240, "trials": 600}
    assert parse_progress(json.dumps({**report, "seconds_left": 72.0})) == Seen("round 24 of 60", left_s=72)
    assert parse_progress(json.dumps(report)) == Seen("round 24 of 60", fraction=0.4)
    for line in ("anything else", "{}", "{torn", '{"unit": "round"}', "cell 3 of 66"):
        assert parse_progress(line) is None, line
    assert cargo_progress("    Building [=====>      ] 45/180: tokio, serde") == Seen("45 of 180 crates", fraction=0.25)
    assert cargo_progress("   Compiling serde v1.0.0") is None


def test_a_program_tells_a_person_in_words_and_the_workflow_what_it_understands(monkeypatch, capsys):
    monkeypatch.delenv("ASYNC_COST_PROGRESS", raising=False)
    print_progress("cell", 3, 66)
    assert capsys.readouterr().out == "cell 3 of 66\n"
    monkeypatch.setenv("ASYNC_COST_PROGRESS", "json")
    print_progress("cell", 3, 66)
    assert parse_progress(capsys.readouterr().out) == Seen("cell 3 of 66")


def test_what_a_command_tells_is_shown_and_everything_is_in_the_log(tmp_path, capsys, until_shown):
    code = "from async_cost.workflow.steps import print_progress; print('loading'); print_progress('cell', 3, 66)"

    def step(progress):
        progress.command([sys.executable, "-c", code], env={"PYTHONPATH": str(ROOT)})
        until_shown()

    run_steps("make all", [Step("measure", step, 1)], tmp_path)
    assert "left in all · cell 3 of 66" in capsys.readouterr().out
    assert "loading\n{" in (tmp_path / ".tools" / "log" / "measure.log").read_text()


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59.6, "1 min 0 s"), (200, "3 min 20 s"), (3900, "1 h 5 min")]
)
def test_durations_are_written_for_people(seconds, text):
    assert minutes(seconds) == text


def test_parts_are_told_by_name_with_the_fraction_of_all(tmp_path):
    seen: list[Seen] = []
    progress = Progress(seen.append, tmp_path / "log", tmp_path)
    progress.part("alone", 0, 1)("cell 3 of 66", fraction=0.5)
    progress.part("second", 1, 4)("cell 3 of 66", fraction=0.5)
    assert seen == [Seen("cell 3 of 66", 0.5), Seen("second: cell 3 of 66", 0.375)]
