"""`make fleet`, its job, and both on a Slurm with two nodes."""

import csv
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from slurm import PATIENCE_S, Slurm, until

from async_cost.runs.find import load_run
from async_cost.workflow import fleet, toolchain
from async_cost.workflow.environment import OURS
from async_cost.workflow.steps import StepFailed
from async_cost.workflow.toolchain import ROOT

STUDY = "ladder"
MACHINES = {"node-a": "alpha", "node-b": "beta"}
WHAT = ["PROFILE=quick", f"STUDIES={STUDY}", "NATIVE=1"]


def test_machines_are_named_in_lines_with_their_features(tmp_path):
    (tmp_path / "machines").write_text("# all\nnode-a   alpha&big # the new one\n\nnode-b\n")
    assert fleet.read(tmp_path / "machines") == {"node-a": "alpha&big", "node-b": ""}
    with pytest.raises(StepFailed, match="Compare it with fleet/machines"):
        fleet.read(tmp_path / "none")


def test_another_question_is_measured_into_another_folder(monkeypatch):
    def folder(*what: str) -> Path:
        return fleet.jobs_of(MACHINES, what, "python3")["node-a"][0]

    first = folder(*WHAT)
    assert folder(*WHAT) == first != folder(*WHAT[:2])
    monkeypatch.setattr(toolchain, "revision", lambda: "def")
    assert folder(*WHAT) != first


def test_a_job_that_is_killed_at_any_point_measures_nothing_twice_and_leaves_the_clone_alone(tmp_path):
    """`fleet/job.sh` where `make measure` makes a run at once, and a program that the job starts kills it."""
    clone, programs, git = tmp_path / "clone", tmp_path / "bin", ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    checkout, own = clone / "checkout", tmp_path / "runs" / ".partial" / "node-a"
    checkout.mkdir(parents=True)
    run = "$$ASYNC_COST_RUNS/$$ASYNC_COST_MACHINE/$$(date +%s%N)"
    compared = "$$ASYNC_COST_RUNS/../comparisons"
    made = f'measure:\n\techo "$$PROFILE $$(cat file)" >> {tmp_path}/made\n\tmkdir -p {compared}; touch {compared}/hash.csv\n'
    made += f"\trun={run}; mkdir -p $$run; touch $$run/run.json\n"
    (clone / "Makefile").write_text(made)
    (clone / "file").write_text("committed")
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, *command], cwd=clone, check=True)
    (clone / "file").write_text("changed")
    command = [ROOT / "fleet" / "job.sh", clone, toolchain.revision(clone), checkout, own]
    command += ["ASYNC_COST_MACHINE=node-a", "PROFILE=quick"]
    for deadly in ("git", "make", "mkdir", "cp", "ln", "mv"):
        programs.mkdir()
        (programs / deadly).write_text(f'#!/bin/sh\n{shutil.which(deadly)} "$@"\nkill -9 $PPID\n')
        (programs / deadly).chmod(0o755)
        killed = subprocess.run(command, env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"})
        assert killed.returncode == -signal.SIGKILL
        shutil.rmtree(programs)
    for _ in range(2):
        subprocess.run(command, check=True)
    assert [path.parent for path in tmp_path.glob("runs/*/*/run.json")] == [(own / "run").resolve()]
    assert (tmp_path / "comparisons" / "hash.csv").exists(), "what the run compares comes with it"
    assert (tmp_path / "made").read_text() == "quick committed\n" and (clone / "file").read_text() == "changed"


def test_a_slurm_that_does_not_answer_for_a_while_is_waited_for(tmp_path, monkeypatch):
    answers = iter([None, None, None, ["7"], []])
    monkeypatch.setattr(fleet, "WORK", tmp_path)
    monkeypatch.setattr(fleet, "POLL_S", 0)
    monkeypatch.setattr(fleet, "known", lambda *_: next(answers, None))
    fleet.measure({})
    assert next(answers, "asked until no job was left") == "asked until no job was left"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory) -> Iterator[Slurm]:
    if absent := [name for name in ("munged", "slurmctld", "slurmd", "sbatch") if not shutil.which(name)]:
        message = f"no {', '.join(absent)}: install Slurm (Debian: apt-get install slurm-wlm munge)"
        if os.environ.get("ASYNC_COST_REQUIRE_SLURM") == "1":
            pytest.fail(message)
        pytest.skip(message)
    started = Slurm(tmp_path_factory.mktemp("slurm"))
    try:
        started.start()
        yield started
    finally:
        started.stop()


@pytest.fixture
def start(slurm, tmp_path) -> Callable[..., subprocess.Popen]:
    """Starts `make fleet` with folders of its own."""

    def started(python: str = sys._base_executable, **machines: str) -> subprocess.Popen:
        folders = {f"ASYNC_COST_{name}": str(tmp_path / name.lower()) for name in ("FLEET", "RUNS", "REPORTS")}
        file = tmp_path / "machines"
        file.write_text("".join(f"{name.replace('_', '-')} {feature}\n" for name, feature in machines.items()))
        code = f"from async_cost.workflow.fleet import *; sys.exit(run_fleet(Path({str(file)!r}), {WHAT}, {python!r}))"
        return subprocess.Popen(
            [sys._base_executable, "-c", code],
            cwd=ROOT,
            env={**slurm.env, **OURS, **folders},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return started


def partial(folder: Path, machine: str) -> list[str]:
    """Whole lines of the partial run of a machine."""
    files = folder.glob(f"runs/.partial/{machine}-*/.partial/*/{STUDY}.time.csv")
    return [line for file in files for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


def round_of(line: str) -> str:
    """The round of a line of a table of times; a variant's name may hold commas."""
    return next(csv.reader([line]))[4]


def test_a_feature_that_no_node_has_is_refused_in_a_line(start, slurm):
    process = start(node_a="alpha", node_c="gamma")
    output = process.communicate(timeout=PATIENCE_S)[0]
    assert process.returncode == 1 and "StepFailed: node-c: Slurm refuses the job; " in output.splitlines()[-1], output
    assert not slurm.jobs()


def test_a_dead_node_and_a_dead_submitter_lose_no_round_and_measure_nothing_twice(start, slurm, tmp_path):
    first = start(node_b="beta")
    until(lambda: len(set(map(round_of, partial(tmp_path, "node-b")[1:]))) > 2, first)
    slurm.kill_node("b")
    before = partial(tmp_path, "node-b")
    until(lambda: slurm.states()["b"].startswith("down"), first)
    slurm.start_node("b")
    until(lambda: "b" in slurm.jobs("%N", "-t", "RUNNING"), first)
    first.kill()
    first.communicate()

    second = start(node_b="beta")
    output = second.communicate(timeout=PATIENCE_S)[0]
    assert second.returncode == 0, output
    assert (tmp_path / "reports" / "index.html").exists() and "The site: " in output
    (b,) = tmp_path.glob("runs/node-b/*")
    after = (b / f"{STUDY}.time.csv").read_text().splitlines(keepends=True)
    last_round = round_of(before[-1])  # may be incomplete: it is measured again
    whole = [line for line in before[1:] if round_of(line) != last_round]
    assert whole and after[1 : 1 + len(whole)] == whole
    assert load_run(b).info.studies[STUDY].resumed >= 1
    assert load_run(b).info.machine.logical_cores == 2, "confined to a part of its node"


def test_jobs_that_fail_are_tried_three_times(start, slurm, tmp_path):
    process = start(python="/bin/false", node_a="alpha", node_b="beta")
    output = process.communicate(timeout=PATIENCE_S)[0]
    assert process.returncode == 1 and not slurm.jobs()
    for machine in MACHINES:
        log = (tmp_path / "fleet" / "logs" / f"{machine}.log").read_text()
        assert f"{machine}: no run; its log: " in output and log.count("make: *** ") == 3, log
