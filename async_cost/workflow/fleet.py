"""Measure many machines by one command: a Slurm job for each (`fleet/job.sh`), and a site of all their runs.

Slurm starts a job again when its node has died, or when it fails and asks for that. The command only waits: the jobs
go on without it, and when it is given again, it waits for them and finds their runs. Uses the standard library alone.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from async_cost.paths import reports_root, runs_root, shown
from async_cost.workflow import toolchain
from async_cost.workflow.steps import StepFailed
from async_cost.workflow.toolchain import PYTHON, ROOT

#: Checkouts and logs, by machine; on a file system that the machines share.
WORK = Path(os.environ.get("ASYNC_COST_FLEET") or ROOT / "fleet" / ".work").resolve()
#: Seconds between two polls of the jobs.
POLL_S = 5


def read(file: Path) -> dict[str, str]:
    """The machines of a file such as fleet/machines, with the features by which Slurm finds each. Raises StepFailed."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise StepFailed(f"{file}: {error.strerror}. Compare it with fleet/machines") from error
    words = (line.partition("#")[0].split() for line in lines)
    return {line[0]: "".join(line[1:]) for line in words if line}


def log_of(machine: str) -> Path:
    """What the job of a machine prints."""
    return WORK / "logs" / f"{machine}.log"


def jobs_of(machines: Mapping[str, str], what: Sequence[str], python: str) -> dict[str, tuple[Path, list[str]]]:
    """By machine, the folder into which it measures, another for each commit and for other arguments `what` of `make
    measure`, and what sbatch takes. A job is called after its checkout: Slurm runs those of one name one by one.
    """
    revision, jobs = toolchain.revision(), {}
    asked = hashlib.sha256(" ".join([revision, *what]).encode()).hexdigest()[:12]
    for machine, features in machines.items():
        checkout, own = WORK / "checkouts" / machine, runs_root() / ".partial" / f"{machine}-{asked}"
        options = {"job-name": checkout, "constraint": features, "output": log_of(machine), "chdir": WORK}
        script = [ROOT / "fleet" / "job.sh", ROOT, revision, checkout, own, f"ASYNC_COST_MACHINE={machine}"]
        script += [f"PYTHON={python}", *what]
        jobs[machine] = own, [*(f"--{name}={value}" for name, value in options.items()), *map(str, script)]
    return jobs


def submit(machine: str, job: list[str], *options: str) -> None:
    """Submit the job of a machine. Raises StepFailed, in a line, if this cluster has no such node."""
    done = subprocess.run(["sbatch", *options, *job], capture_output=True, text=True)
    if done.returncode != 0:
        reason = " ".join(done.stderr.split())
        raise StepFailed(f"{machine}: Slurm refuses the job; are its features right? {reason}")


def known(*options: str) -> list[str] | None:
    """The jobs of this fleet in Slurm, whichever command submitted them; None if Slurm does not answer and says why."""
    squeue = ["squeue", "--me", "--noheader", "--format=%A %j", *options]
    listed = subprocess.run(squeue, stdout=subprocess.PIPE, text=True)
    rows = (line.split(" ", 1) for line in listed.stdout.splitlines())
    return None if listed.returncode else [number for number, name in rows if name.startswith(f"{WORK}/")]


def measure(jobs: Mapping[str, list[str]]) -> None:
    """Submit all jobs or none, and wait until they have ended. Raises StepFailed."""
    (WORK / "logs").mkdir(parents=True, exist_ok=True)
    for machine, job in jobs.items():
        submit(machine, job, "--test-only")
    # Of an earlier command, perhaps with other features; what runs goes on.
    if waiting := known("--states=PENDING"):
        subprocess.run(["scancel", *waiting], check=False)
    for machine, job in jobs.items():
        submit(machine, job)
    print(f"Their progress: tail -f {shown(log_of('*'))}", flush=True)
    while known() != []:
        time.sleep(POLL_S)


def publish(run: Path) -> bool:
    """Write the pages of a run, and renew the list of all; whether that succeeded."""
    command: list[str | Path] = [PYTHON, "-m", "async_cost.workflow.publishing", run]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode == 0


def run_fleet(file: Path, what: Sequence[str], python: str = sys.executable) -> int:
    """Measure the machines of a file and publish their runs; the exit status. Raises StepFailed."""
    machines = read(file)
    changes = ["git", "status", "--porcelain", "--", "notebooks", "rust-kernels", "async_cost", "Cargo.lock"]
    if changed := subprocess.run(changes, cwd=ROOT, stdout=subprocess.PIPE).stdout.splitlines():
        print(f"Note: a fleet measures the last commit, without your {len(changed)} changed files.")
    jobs, failed = jobs_of(machines, what, python), []
    measure({machine: job for machine, (own, job) in jobs.items() if not (own / "run").exists()})
    for machine, (own, _) in jobs.items():
        if not (own / "run").exists():
            failed.append(f"{machine}: no run; its log: {shown(log_of(machine))}")
        elif not publish((own / "run").resolve()):
            failed.append(f"{machine}: measured, but its pages failed, see above")
    if len(failed) < len(jobs):
        print(f"The site: {(reports_root() / 'index.html').as_uri()}")
    if failed:
        print(*failed, "Completed machines are kept: run the same command to try the others again.", sep="\n")
        return 1
    for own, _ in jobs.values():  # delivered: the next command measures anew
        shutil.rmtree(own)
    return 0
