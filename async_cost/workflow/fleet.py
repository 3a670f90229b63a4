"""Measure many machines by one command: a job for each, submitted by Snakemake, and a site of all their runs.

    .tools/snakemake/bin/python -m async_cost.workflow.fleet fleet/config.yaml python3

The jobs are `async_cost/workflow/fleet_job.py`. What Snakemake leaves open is here: jobs of a killed submitter are
waited for, a machine whose node died is tried again, and one that never answers delays the others for a limited time.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from async_cost.paths import SLUG, reports_root, runs_root, shown
from async_cost.runs.profiles import PROFILES
from async_cost.workflow import toolchain
from async_cost.workflow.steps import StepFailed, die_with_parent
from async_cost.workflow.studies import MEASURED
from async_cost.workflow.toolchain import PYTHON, ROOT, SNAKEMAKE

#: Checkouts, logs and outcomes, by machine; on a file system that the machines share.
WORK = Path(os.environ.get("ASYNC_COST_FLEET") or ROOT / "fleet" / ".work").resolve()
#: How often a machine is tried; not by Snakemake, which would keep a retry from the node that failed.
ATTEMPTS = 3
#: Seconds between two polls of the jobs, and how often Slurm is asked before it is said not to answer.
POLL_S, ASKED = 1.0, 10
SQUEUE = ["squeue", "--noheader", "--me", "--format=%i|%T|%Z"]
#: In what `sbatch --test-only` says of a job that would start.
PROCESSORS = re.compile(r"using (\d+) processors")


@dataclass(frozen=True)
class Fleet:
    """A configuration that was read: see fleet/config.yaml for the meaning of its lines."""

    profile: str
    studies: str
    native: bool
    hours: float
    machines: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> Fleet:
        """The configuration in `path`. Raises StepFailed with the line that is wrong, and the remedy."""
        try:
            read = yaml.safe_load(path.read_text(encoding="utf-8"))
            fleet = cls(**read)
        except (OSError, yaml.YAMLError, TypeError) as error:
            raise StepFailed(f"{path}: {' '.join(str(error).split())}. Compare it with fleet/config.yaml") from error
        if wrong := next(fleet._wrong(), None):
            raise StepFailed(f"{path}: {wrong}")
        return fleet

    def _wrong(self) -> Iterator[str]:
        if self.profile not in PROFILES:
            yield f"profile is {self.profile!r}; write one of {', '.join(PROFILES)}"
        if not isinstance(self.native, bool):
            yield f"native is {self.native!r}; write true or false"
        if unknown := sorted(set(str(self.studies).split()) - MEASURED.keys()):
            yield f'there is no study {", ".join(unknown)}; write names separated by blanks, or "" for all: {", ".join(MEASURED)}'
        if not isinstance(self.hours, int | float) or not 0 < self.hours <= 1000:
            yield f"hours is {self.hours!r}; write a number of hours"
        if not isinstance(self.machines, dict) or not self.machines:
            yield "machines is empty; write one line for each, as in `node-a: epyc`"
            return
        for name, features in self.machines.items():
            if not isinstance(name, str) or not SLUG.fullmatch(name):
                yield f"a machine is called {name!r}; use lower-case letters, digits and hyphens"
            if not isinstance(features, str) or not re.fullmatch(r"[\w|&!()\[\]*.-]*", features):
                yield f"the features of {name} are {features!r}; write them as for sbatch --constraint, in quotes"

    def what(self) -> str:
        """The arguments of `make measure`."""
        return f"PROFILE={self.profile} STUDIES='{self.studies}'" + (" NATIVE=1" if self.native else "")


def outcome_of(machine: str) -> Path:
    """Where the job of `machine` writes which run it has made; it is none without the run."""
    return WORK / "measured" / f"{machine}.json"


def log_of(machine: str) -> Path:
    """What `make measure` prints on a machine."""
    return WORK / "logs" / f"{machine}.log"


def arrived(fleet: Fleet, revision: str) -> dict[str, str]:
    """The runs that are done, by machine. An outcome of another configuration, or whose run is gone, is removed."""
    runs = {}
    for machine in fleet.machines:
        with contextlib.suppress(OSError, ValueError):
            outcome = json.loads(outcome_of(machine).read_text(encoding="utf-8"))
            same = (outcome["what"], outcome["revision"]) == (fleet.what(), revision)
            if same and (runs_root() / outcome["run"]).exists():
                runs[machine] = outcome["run"]
            else:
                outcome_of(machine).unlink()
    return runs


def check_out(machine: str, revision: str) -> None:
    """A checkout of `revision` for a machine, where it keeps what it compiles."""
    place = WORK / "checkouts" / machine
    if (place / ".git").exists():
        git("-C", place, "checkout", "--quiet", "--force", "--detach", revision)
    else:
        shutil.rmtree(place, ignore_errors=True)  # without .git it is a part of this clone, whose files git would reset
        git("worktree", "prune")
        git("worktree", "add", "--quiet", "--force", "--detach", place, revision)


def git(*arguments: str | Path) -> str:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise StepFailed(f"git {shlex.join(map(str, arguments))} failed: {done.stderr.strip()}")
    return done.stdout.strip()


# Slurm.


def processors(fleet: Fleet) -> dict[str, int]:
    """How many processors the node of each machine has, for jobs that use all of them: a step of a job is confined to
    those that it asks for. Raises StepFailed, in a line, for a machine that this cluster does not have.
    """
    found = {}
    for machine, features in fleet.machines.items():
        command = ["sbatch", "--test-only", "--exclusive", "--constraint", features, "--wrap", "true"]
        tried = subprocess.run(command, capture_output=True, text=True)
        lines = (tried.stdout + tried.stderr).strip().splitlines()
        answer = PROCESSORS.search(lines[-1]) if lines and tried.returncode == 0 else None
        if answer is None:
            raise StepFailed(
                f"{machine}: Slurm has no node with the features {features!r}; correct them in the configuration. "
                f"Slurm says: {lines[-1] if lines else 'nothing'}"
            )
        found[machine] = int(answer[1])
    return found


def jobs() -> dict[str, str] | None:
    """Jobs of this fleet that Slurm knows, whichever command submitted them: by id the state. None if Slurm does not
    answer, as for a while after its controller was restarted.
    """
    listed = subprocess.run(SQUEUE, capture_output=True, text=True)
    if listed.returncode != 0:
        return None
    rows = (line.split("|") for line in listed.stdout.splitlines())
    return {number: state for number, state, folder in rows if Path(folder) == WORK}


def say_silent(then: str) -> None:
    """Say that Slurm keeps failing to answer, and what comes of it."""
    print(f"Slurm does not answer; `{shlex.join(SQUEUE)}` says why. {then}", flush=True)


def cancel(numbers: Iterable[str]) -> None:
    """Take jobs out of Slurm."""
    if numbers := list(numbers):
        subprocess.run(["scancel", *numbers], check=False)


# The whole.


def wait_for_earlier_jobs(deadline: float) -> None:
    """Wait for jobs whose submitter is gone. Those that have not begun are cancelled, to be submitted again."""
    announced, unanswered = False, 0
    while (left := jobs()) != {} and time.monotonic() < deadline:
        unanswered = unanswered + 1 if left is None else 0
        if unanswered == ASKED:
            say_silent("This command waits until it answers, or its hours are over.")
        pending = [number for number, state in (left or {}).items() if state == "PENDING"]
        cancel(pending)
        if left and len(left) > len(pending) and not announced:
            print(f"Waiting for {len(left) - len(pending)} jobs that an earlier command has submitted.", flush=True)
            announced = True
        time.sleep(POLL_S)
    cancel(left or ())


def submit(fleet: Fleet, of_machines: dict[str, int], python: str, deadline: float) -> None:
    """One attempt at all machines that have not answered yet: until all jobs have ended, or the time is over."""
    job = [python, "-m", "async_cost.workflow.fleet_job", str(WORK), str(runs_root()), fleet.what()]
    command = f"PYTHONPATH={shlex.quote(str(ROOT))} {shlex.join(job)}"
    minutes = math.ceil(fleet.hours * 60)
    settings = {"machines": fleet.machines, "processors": of_machines, "minutes": minutes, "command": command}
    (WORK / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
    files = {"directory": WORK, "configfile": WORK / "settings.json"}
    files |= {"snakefile": ROOT / "fleet" / "Snakefile", "profile": ROOT / "fleet" / "profile"}
    arguments = [*(f"--{name}={file}" for name, file in files.items()), "--quiet", "rules"]
    with (WORK / "snakemake.log").open("a", encoding="utf-8") as log:
        snakemake = subprocess.Popen(
            [SNAKEMAKE, *arguments],
            cwd=ROOT,
            env={**os.environ, "SBATCH_MEM_PER_NODE": "0"},  # all the memory of a node
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        try:
            while snakemake.poll() is None and time.monotonic() < deadline:
                time.sleep(POLL_S)
        finally:
            # On SIGTERM it would wait even for a job that never begins.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(snakemake.pid, signal.SIGKILL)
            snakemake.wait()
            for _ in range(ASKED):
                if (left := jobs()) is not None:
                    break
                time.sleep(POLL_S)
            else:
                say_silent("Its remaining jobs go on; the next `make fleet` waits for them.")
            cancel(left or ())


def measure(fleet: Fleet, python: str) -> dict[str, str]:
    """Measure all machines that have not answered yet; returns the runs of those that have, by machine."""
    for folder in ("checkouts", "logs", "measured"):
        (WORK / folder).mkdir(parents=True, exist_ok=True)
    deadline, of_machines = time.monotonic() + fleet.hours * 3600, processors(fleet)
    print(f"Their progress: tail -f {shown(log_of('*'))}", flush=True)
    wait_for_earlier_jobs(deadline)
    if changed := git("status", "--porcelain", "--", "notebooks", "rust-kernels", "async_cost", "Cargo.lock"):
        print(f"Note: a fleet measures the last commit, without your {len(changed.splitlines())} changed files.")
    revision = toolchain.revision()
    for _ in range(ATTEMPTS):
        missing = fleet.machines.keys() - arrived(fleet, revision).keys()
        if not missing or time.monotonic() > deadline:
            break
        for machine in sorted(missing):
            check_out(machine, revision)
        submit(fleet, of_machines, python, deadline)
    return arrived(fleet, revision)


def publish(run: str) -> None:
    """Write the pages of a run, and renew the list of all. Raises StepFailed."""
    reports, runs = reports_root(), runs_root()
    command = [PYTHON, "-m", "async_cost.workflow.publishing", reports, reports / run, runs / run]
    done = subprocess.run(list(map(str, command)), cwd=ROOT, capture_output=True, text=True)
    if done.returncode != 0:
        raise StepFailed(f"{run} cannot be published:\n{done.stderr}")


def main() -> None:
    config, python = sys.argv[1:]
    try:
        fleet = Fleet.read(Path(config))
        runs = measure(fleet, python)
    except StepFailed as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        print("Interrupted: the same command resumes the jobs.", file=sys.stderr)
        sys.exit(130)
    unpublished = []
    for machine, run in runs.items():
        print(f"{machine}: measured, {shown(runs_root() / run)}; making its pages", flush=True)
        try:
            publish(run)
        except StepFailed as error:
            print(error, file=sys.stderr)
            unpublished.append(machine)
    missing = sorted(fleet.machines.keys() - runs.keys())
    for machine in missing:
        logs = f"its log: {shown(log_of(machine))}, that of all jobs: {shown(WORK / 'snakemake.log')}"
        print(f"{machine}: no run after {ATTEMPTS} attempts or {fleet.hours} hours; {logs}")
    if len(unpublished) < len(runs):
        print(f"The site: {(reports_root() / 'index.html').as_uri()}")
    if missing or unpublished:
        sys.exit("Completed machines are kept: run the same command to try the others again.")
    for machine in runs:  # delivered: the next command measures anew
        outcome_of(machine).unlink()


if __name__ == "__main__":
    main()
