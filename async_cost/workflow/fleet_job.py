"""Measure one machine of a fleet: what `fleet/Snakefile` runs there.

    python3 -m async_cost.workflow.fleet_job <work> <runs> "<what to measure, as for make measure>" <machine> <outcome>

It measures in a checkout of its own, `<work>/<machine>`: machines that share a file system share neither what they compile nor a partial run. A job that
died goes on at its next round when it is started again, since it runs the same command there.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path


def measure(work: Path, runs: Path, what: str, machine: str) -> str:
    """Measure, and let the run appear below `runs` by one rename; returns its id. Raises CalledProcessError when `make measure` fails."""
    own = work / f"{machine}.runs"
    if not (run := _finished(own)):  # else it was killed between measuring and handing over
        env = {**os.environ, "ASYNC_COST_RUNS": str(own), "ASYNC_COST_MACHINE": machine}
        with (work / f"{machine}.log").open("a", encoding="utf-8") as log:
            command = ["make", "measure", f"PYTHON={sys.executable}", *shlex.split(what)]
            subprocess.run(command, cwd=work / machine, env=env, stdout=log, stderr=log, check=True)
        run = _finished(own)
    assert run is not None, "`make measure` made no run"
    name, part = "/".join(run.parts[-2:]), runs / ".partial" / f"{machine}-{run.name}"
    shutil.rmtree(part, ignore_errors=True)  # a copy that was killed is begun again
    shutil.copytree(run, part)
    (runs / name).parent.mkdir(parents=True, exist_ok=True)
    os.rename(part, runs / name)
    shutil.rmtree(run)
    return name


def _finished(own: Path) -> Path | None:
    """The run that is complete below `own`."""
    return next((path.parent for path in own.glob("[!.]*/*/run.json")), None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("work", "runs"):
        parser.add_argument(name, type=Path)
    parser.add_argument("what")
    parser.add_argument("machine")
    parser.add_argument("outcome", type=Path)
    arguments = parser.parse_args()
    try:
        run = measure(arguments.work, arguments.runs, arguments.what, arguments.machine)
    except subprocess.CalledProcessError as error:
        print(f"{arguments.machine}: {shlex.join(error.cmd)} failed; see its log", file=sys.stderr)
        return 1
    part = arguments.outcome.with_suffix(".part")
    part.write_text(json.dumps({"run": run}) + "\n", encoding="utf-8")
    os.replace(part, arguments.outcome)
    return 0


if __name__ == "__main__":
    sys.exit(main())
