"""Measure one machine of a fleet: what `fleet/Snakefile` runs there.

    python3 -m async_cost.workflow.fleet_job <work> <runs> "<what to measure, as for make measure>" <machine> <outcome>

It measures in a checkout of its own, `<work>/checkouts/<machine>`, so that machines share neither what they compile nor
a partial run. A job that died resumes at its next round, since it runs the same command there.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from async_cost.files import write_whole
from async_cost.workflow.toolchain import revision


def measure(work: Path, runs: Path, what: str, machine: str, outcome: Path) -> None:
    """Measure, write the outcome, which names the run, and let that appear below `runs` by one rename. Raises
    CalledProcessError when `make measure` fails.

    A job that is killed between the two finds its run where it was; `fleet.arrived` takes no outcome without a run.
    """
    checkout = work / "checkouts" / machine
    question = {"what": what, "revision": revision(checkout)}
    own = runs / ".partial" / f"{machine}-{hashlib.sha256(json.dumps(question).encode()).hexdigest()[:12]}"
    if not (run := _finished(own)):
        env = {**os.environ, "ASYNC_COST_RUNS": str(own), "ASYNC_COST_MACHINE": machine}
        env.pop("PYTHONPATH", None)  # it names the clone; the checkout has its own package
        with (work / "logs" / f"{machine}.log").open("a", encoding="utf-8") as log:
            command = ["make", "--no-print-directory", "measure", f"PYTHON={sys.executable}", *shlex.split(what)]
            subprocess.run(command, cwd=checkout, env=env, stdout=log, stderr=log, check=True)
        run = _finished(own)
        assert run is not None, "make measure has made a run"
    target = runs / "/".join(run.parts[-2:])
    target.parent.mkdir(parents=True, exist_ok=True)
    write_whole(outcome, json.dumps({"run": "/".join(run.parts[-2:]), **question}) + "\n")
    os.rename(run, target)
    shutil.rmtree(own, ignore_errors=True)


def _finished(own: Path) -> Path | None:
    """The run that is complete below `own`."""
    return next((path.parent for path in own.glob("[!.]*/*/run.json")), None)


if __name__ == "__main__":
    work, runs, what, machine, outcome = sys.argv[1:]
    try:
        measure(Path(work), Path(runs), what, machine, Path(outcome))
    except subprocess.CalledProcessError as error:
        sys.exit(f"{machine}: {shlex.join(error.cmd)} failed; see its log")
