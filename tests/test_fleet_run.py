"""`make fleet` on a Slurm with two nodes, one of which dies while it measures; then the command that submitted the jobs
dies, too.
"""

import csv
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from slurm import Slurm, missing

from async_cost.runs.find import load_run
from async_cost.workflow import fleet, fleet_job, toolchain
from async_cost.workflow.environment import OURS
from async_cost.workflow.steps import Progress, StepFailed
from async_cost.workflow.toolchain import ROOT

STUDY = "ladder"
CONFIG = {
    "profile": "quick",
    "studies": STUDY,
    "native": True,
    "hours": 0.5,
    "machines": {"node-a": "alpha", "node-b": "beta"},
}
TIME_COLUMNS = ("study", "bench", "variant", "parameter", "round", "position", "sample", "iterations", "elapsed_ns")
#: Seconds for whatever is waited for; machines compile in them.
PATIENCE_S = 1800


def written(path: Path, **changes: object) -> Path:
    """A configuration like CONFIG with some lines changed."""
    path.write_text(yaml.safe_dump({**CONFIG, **changes}))
    return path


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"machines": {}}, "machines is empty"),
        ({"machines": {"Node A": ""}}, "a machine is called 'Node A'; use lower-case letters, digits and hyphens"),
        ({"machines": {"a": "x; rm -rf /"}}, "the features of a are 'x; rm -rf /'"),
        ({"studies": "$(ladder)"}, "there is no study $(ladder); write names separated by blanks"),
        (
            {"studies": "ladder laddr"},
            'there is no study laddr; write names separated by blanks, or "" for all: zero-cost, ladder',
        ),
        ({"hours": 0}, "hours is 0"),
        ({"nodes": 3}, "unexpected keyword argument 'nodes'"),
    ],
)
def test_a_configuration_that_is_wrong_is_refused_in_a_line(tmp_path, changes, says):
    with pytest.raises(StepFailed) as caught:
        fleet.Fleet.read(written(tmp_path / "fleet.yaml", **changes))
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_the_configuration_of_the_repository_is_right():
    assert fleet.Fleet.read(ROOT / "fleet" / "config.yaml").profile == "standard"


@pytest.fixture
def job(tmp_path, monkeypatch) -> Callable[[], list[str]]:
    """A job with a `make measure` that makes a run at once; each call returns the ids of all runs."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    checkout = tmp_path / "checkouts" / "node-a"
    for folder in (checkout, tmp_path / "logs", tmp_path / "measured"):
        folder.mkdir(parents=True)
    for command in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "a"]):
        subprocess.run([*git, *command], cwd=checkout, check=True)
    run_of_now = "$$ASYNC_COST_RUNS/node-a/$$(date +%s%N)"
    script = f'measure:\n\ttest -z "$$PYTHONPATH"; run={run_of_now}; mkdir -p $$run && touch $$run/run.json\n'
    monkeypatch.setenv("PYTHONPATH", "of the clone")
    (checkout / "Makefile").write_text(script)

    def run() -> list[str]:
        outcome = tmp_path / "measured" / "node-a.json"
        fleet_job.measure(tmp_path, tmp_path / "all", "PROFILE=quick", "node-a", outcome)
        assert json.loads(outcome.read_text())["revision"] == toolchain.revision(checkout)
        return sorted(path.parent.name for path in (tmp_path / "all").glob("*/*/run.json"))

    return run


def test_a_job_that_is_killed_while_it_hands_its_run_over_measures_nothing_twice(job, tmp_path, monkeypatch):
    class Killed(BaseException):
        pass

    def killed(*_):
        raise Killed

    for name in ("json.dumps", "os.replace", "os.rename"):  # before the outcome, before it appears, before the run does
        module, function = name.split(".")
        with monkeypatch.context() as patched, pytest.raises(Killed):
            original = getattr(sys.modules[module], function)
            # What is hashed is dumped first.
            calls = iter([original, killed] if function == "dumps" else [killed])
            patched.setattr(name, lambda *arguments, calls=calls: next(calls)(*arguments))
            job()
    (only,) = job()
    assert only and not list(tmp_path.glob("all/.partial/*/*/*/run.json")), "a run was measured twice"


def test_an_outcome_of_another_configuration_is_no_answer(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet, "WORK", tmp_path)
    monkeypatch.setenv("ASYNC_COST_RUNS", str(tmp_path / "runs"))
    configured = fleet.Fleet.read(written(tmp_path / "fleet.yaml"))
    outcome = {"run": "node-a/20260101T000000Z", "what": configured.what(), "revision": "abc"}
    fleet.outcome_of("node-a").parent.mkdir()
    (tmp_path / "runs" / outcome["run"]).mkdir(parents=True)
    for changed in ({}, {"revision": "def"}, {"what": "PROFILE=thorough"}):
        fleet.outcome_of("node-a").write_text(json.dumps(outcome | changed))
        assert fleet.arrived(configured, "abc") == ({} if changed else {"node-a": outcome["run"]})
    for text in ("", json.dumps(outcome | {"run": "node-a/20260102T000000Z"})):
        fleet.outcome_of("node-a").write_text(text)
        assert fleet.arrived(configured, "abc") == {}, "torn, or its run is gone"


def test_a_folder_that_is_no_checkout_is_replaced_and_the_clone_around_it_stays(tmp_path, monkeypatch):
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    (tmp_path / "file").write_text("committed")
    for command in (["init", "-q"], ["add", "file"], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, *command], check=True)
    (tmp_path / "file").write_text("changed")
    monkeypatch.setattr(fleet, "ROOT", tmp_path)
    monkeypatch.setattr(fleet, "WORK", tmp_path / "work")
    place = tmp_path / "work" / "checkouts" / "node-a"
    place.mkdir(parents=True)
    fleet.check_out("node-a", toolchain.revision(tmp_path))
    assert (tmp_path / "file").read_text() == "changed" and (place / "file").read_text() == "committed"


def test_a_slurm_that_keeps_failing_is_told_once_with_the_command_that_says_why(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fleet, "POLL_S", 0)
    answers = iter([*[None] * 3 * fleet.ASKED, {}])
    monkeypatch.setattr(fleet, "jobs", lambda: next(answers, None))
    fleet.wait_for_earlier_jobs(float("inf"))
    says = "Slurm does not answer; `squeue --noheader --me '--format=%i|%T|%Z'` says why. "
    assert capsys.readouterr().out == f"{says}This command waits until it answers, or its hours are over.\n"
    monkeypatch.setattr(fleet, "WORK", tmp_path)
    monkeypatch.setattr(fleet, "SNAKEMAKE", "true")
    fleet.submit(fleet.Fleet.read(written(tmp_path / "fleet.yaml")), {}, "python3", float("inf"))
    assert capsys.readouterr().out == f"{says}Its remaining jobs go on; the next `make fleet` waits for them.\n"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory) -> Iterator[Slurm]:
    if absent := missing():
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


@dataclass
class Command:
    """`make fleet` with folders of its own."""

    slurm: Slurm
    folder: Path

    def start(self, **changes: object) -> subprocess.Popen:
        folders = {"FLEET": "work", "RUNS": "runs", "REPORTS": "reports"}
        env = {f"ASYNC_COST_{name}": str(self.folder / folder) for name, folder in folders.items()}
        env |= {"PYTHONPATH": str(ROOT)}
        config = written(self.folder / "fleet.yaml", **changes)
        command = [toolchain.SNAKEMAKE.with_name("python"), "-m", "async_cost.workflow.fleet", config]
        return subprocess.Popen(
            [*map(str, command), sys._base_executable],
            cwd=ROOT,
            env={**self.slurm.env, **OURS, "PATH": self.slurm.env["PATH"], **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def partial(self, machine: str) -> list[str]:
        """Whole lines of the partial run of a machine."""
        files = self.folder.glob(f"runs/.partial/{machine}-*/.partial/*/{STUDY}.time.csv")
        return [line for file in files for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def jobs(self, *options: str) -> list[str]:
        """What squeue lists: the node of each job."""
        listed = ["squeue", "-h", "-o", "%N", *options]
        return subprocess.run(listed, env=self.slurm.env, capture_output=True, text=True, check=True).stdout.split()


@pytest.fixture(scope="module")
def command(slurm, tmp_path_factory) -> Command:
    folder = tmp_path_factory.mktemp("fleet")
    step = toolchain.snakemake_step()
    if not step.done():
        step.run(Progress(lambda seen: None, folder / "install.log", ROOT))
    return Command(slurm, folder)


def round_of(line: str) -> str:
    """The round of a line of a table of times; a variant's name may hold commas."""
    (row,) = csv.DictReader([line], TIME_COLUMNS)
    return row["round"]


def until(condition: Callable[[], object], process: subprocess.Popen) -> None:
    """Waits for a condition, as long as the process lives."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "nothing happens"
        if process.poll() is not None:
            pytest.fail(f"the command ended early:\n{process.stdout.read()}")
        time.sleep(0.02)


def test_a_feature_that_no_node_has_is_refused_in_a_line(command):
    process = command.start(machines={"node-c": "gamma"})
    said = process.communicate(timeout=PATIENCE_S)[0]
    assert process.returncode == 1 and said.count("\n") == 1, said
    assert said.startswith("node-c: Slurm has no node with the features 'gamma'; correct them")


def test_a_dead_node_and_a_dead_submitter_lose_no_round_and_measure_nothing_twice(command, slurm):
    first = command.start()
    until(lambda: len(set(map(round_of, command.partial("node-b")[1:]))) > 2, first)
    slurm.kill_node("b")
    before = command.partial("node-b")
    until(lambda: slurm.states()["b"].startswith("down"), first)
    slurm.start_node("b")
    until(lambda: "b" in command.jobs("-t", "RUNNING"), first)
    os.killpg(first.pid, signal.SIGKILL)
    first.communicate()

    second = command.start()
    said = second.communicate(timeout=PATIENCE_S)[0]
    assert second.returncode == 0, said
    assert (command.folder / "reports" / "index.html").exists() and "The site: " in said
    runs = {path.parents[1].name: path.parent for path in command.folder.glob("runs/[!.]*/*/run.json")}
    assert sorted(runs) == sorted(CONFIG["machines"])
    assert len(list(command.folder.glob("runs/[!.]*/*/run.json"))) == 2, "a machine was measured twice"
    after = (runs["node-b"] / f"{STUDY}.time.csv").read_text().splitlines(keepends=True)
    last_round = round_of(before[-1])  # may be incomplete: it is measured again
    whole = [line for line in before[1:] if round_of(line) != last_round]
    assert whole and after[1 : 1 + len(whole)] == whole
    assert load_run(runs["node-b"]).info.studies[STUDY].resumed >= 1
    assert load_run(runs["node-a"]).info.studies[STUDY].resumed == 0
    assert load_run(runs["node-a"]).info.machine.logical_cores == 2, "confined to a part of its node"
    ended = command.jobs("-t", "all")
    assert ended.count("a") == 1 and ended.count("b") == 2, shlex.join(ended)


def test_a_machine_that_never_answers_is_given_up_when_the_time_is_over(command, slurm):
    occupied = ["sbatch", "--parsable", "--exclusive", "--constraint", "beta", "--chdir", "/", "--output", "/dev/null"]
    other = subprocess.run(
        [*occupied, "--wrap", "sleep 600"], env=slurm.env, capture_output=True, text=True, check=True
    )
    process = command.start(machines={"node-b": "beta"}, hours=0.005)
    said = process.communicate(timeout=PATIENCE_S)[0]
    left = subprocess.run(["squeue", "-h", "-o", "%i"], env=slurm.env, capture_output=True, text=True, check=True)
    subprocess.run(["scancel", other.stdout.strip()], env=slurm.env, check=True)
    assert process.returncode == 1 and "node-b: no run after 3 attempts or 0.005 hours; its log: " in said, said
    assert left.stdout.split() == [other.stdout.strip()], "its job is still waiting"
