"""Measure one machine of a fleet: what `fleet/Snakefile` runs there.

    python3 -m async_cost.workflow.fleet_job <work> <runs> "<what to measure, as for make measure>" <machine> <outcome>

It measures in a checkout of its own, `<work>/checkouts/<machine>`, so that machines with a shared file system share
neither what they compile nor a partial run. A job that died resumes at its next round when it is started again, since
it runs the same command there. (This module itself comes from the clone where `make fleet` was called.)
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path


def measure(work: Path, runs: Path, what: str, machine: str, outcome: Path) -> None:
    """Measure, let the run appear below `runs` by one rename, then the outcome, which names it. Raises
    CalledProcessError when `make measure` fails.

    The outcome is written beforehand under another name: a job that is killed between the two renames finds it when it
    is started again.
    """
    checkout = work / "checkouts" / machine
    question = {"what": what, "revision": revision(checkout)}
    own = work / "runs" / machine / hashlib.sha256(json.dumps(question).encode()).hexdigest()[:12]
    part = outcome.with_suffix(".part")
    if not handed_over(part, question, runs):
        if not (run := _finished(own)):
            env = {**os.environ, "ASYNC_COST_RUNS": str(own), "ASYNC_COST_MACHINE": machine}
            env.pop("PYTHONPATH", None)  # it names the clone; the checkout has its own package
            with (work / "logs" / f"{machine}.log").open("a", encoding="utf-8") as log:
                command = ["make", "--no-print-directory", "measure", f"PYTHON={sys.executable}", *shlex.split(what)]
                subprocess.run(command, cwd=checkout, env=env, stdout=log, stderr=log, check=True)
            run = _finished(own)
            assert run is not None, "make measure has made a run"
        name = "/".join(run.parts[-2:])
        part.write_text(json.dumps({"run": name, **question}) + "\n", encoding="utf-8")
        _move(run, runs / name)
    os.replace(part, outcome)
    shutil.rmtree(own, ignore_errors=True)


def revision(checkout: Path) -> str:
    """The commit that is checked out."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True, check=True)
    return head.stdout.strip()


def handed_over(part: Path, question: dict[str, str], runs: Path) -> bool:
    """Whether the run that a killed job has noted is among all runs already, and answers this question."""
    with contextlib.suppress(OSError, ValueError):
        noted = json.loads(part.read_text(encoding="utf-8"))
        return question.items() <= noted.items() and (runs / noted["run"]).exists()
    return False


def _finished(own: Path) -> Path | None:
    """The run that is complete below `own`."""
    return next((path.parent for path in own.glob("[!.]*/*/run.json")), None)


def _move(run: Path, target: Path) -> None:
    """By one rename, also to another file system."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.rename(run, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        copy = target.parents[1] / ".partial" / "-".join(target.parts[-2:])
        shutil.rmtree(copy, ignore_errors=True)  # a copy that was killed is begun again
        shutil.copytree(run, copy)
        os.rename(copy, target)


if __name__ == "__main__":
    work, runs, what, machine, outcome = sys.argv[1:]
    try:
        measure(Path(work), Path(runs), what, machine, Path(outcome))
    except subprocess.CalledProcessError as error:
        sys.exit(f"{machine}: {shlex.join(error.cmd)} failed; see its log")
