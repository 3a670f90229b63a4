"""How long the page on hardware and the summaries behind it take for many runs of realistic size.

    python tests/many_runs.py FOLDER --runs 1000            # warm: summarised before, then read_many and the page
    python tests/many_runs.py FOLDER --cold 50000000        # cold: so many raw rows are summarised

The runs are copies of the reference run under the names of other machines, whose ratios differ by some noise. Prints a
line of JSON: what was done, seconds by the clock and of processors, the largest memory of a process in MiB (of this and
what was done before), and the load.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

from async_cost import derived
from async_cost.machines import claims, many
from async_cost.machines.many import RATIOS, Summary
from async_cost.paths import runs_root
from async_cost.runs.run import reference_run

READ = """
from async_cost.machines.many import chosen_folders, read_many
many = read_many(chosen_folders())
print(many.runs.height, "runs,", many.ratios.height, "ratios")
"""
COLD = """
from async_cost.machines.many import chosen_folders, read_many
made = read_many(chosen_folders())
print(made.rows, "rows of", made.runs.height, "runs")
"""


#: One machine in so many is measured a second time, every second of these with another compiler.
AGAIN = 4
LATER = "rustc 1.99.0 (made up)"


def copies(original: Path, number: int) -> Iterator[tuple[int, Path, dict]]:
    """Makes so many runs below ASYNC_COST_RUNS, one after another: number, folder, and what its run.json says."""
    info = json.loads((original / "run.json").read_text(encoding="utf-8"))
    first = datetime.fromisoformat(info["started"])
    machines = number - number // (AGAIN + 1)
    for index in range(number):
        turn, machine = divmod(index, machines)
        machine, started = f"m-{machine * (AGAIN if turn else 1):04d}", first + timedelta(minutes=index)
        run = f"{machine}/{started:%Y%m%dT%H%M%SZ}"
        folder = runs_root() / run
        folder.mkdir(parents=True)
        for file in original.iterdir():
            if file.name != "run.json":
                os.link(file, folder / file.name)
        about = info | {"run_id": run, "machine": info["machine"] | {"name": machine}}
        if turn and index % 2:
            about["toolchain"] = info["toolchain"] | {"rustc": LATER}
        (folder / "run.json").write_text(json.dumps(about), encoding="utf-8")
        yield index, folder, about | {"started": f"{started:%Y-%m-%dT%H:%M:%SZ}"}


def summarised(pattern: Summary, verdicts: pl.DataFrame, made: Iterable[tuple[int, Path, dict]]) -> None:
    """Writes the derived tables of each run below ASYNC_COST_REPORTS. Ratios differ by 5 % between machines, by half a
    percent between two runs of one.
    """
    number = pattern.ratios.height
    for index, folder, about in made:
        run, machine = about["run_id"], about["machine"]["name"]
        of_machine = np.random.default_rng(int(machine[2:])).normal(0, 0.05, number)
        of_run = np.random.default_rng([1, index]).normal(0, 0.005, number)
        factor = pl.lit(pl.Series(np.exp(of_machine + of_run)))
        ratios = pattern.ratios.with_columns(
            pl.col("ratio", "low", "high") * factor, run=pl.lit(run), machine=pl.lit(machine)
        )
        row = {**pattern.run, "run": run, "machine": machine, "cpu": f"processor {int(machine[2:]) % 20}"}
        row |= {"started": about["started"], "rustc": about["toolchain"]["rustc"]}
        studies = [{**study, "run": run, "elapsed_ns": study["elapsed_ns"] + index} for study in pattern.studies]
        derived.write(ratios.select(*RATIOS).cast(RATIOS), many.place(folder), run=row, studies=studies)
        derived.write(verdicts.with_columns(run=pl.lit(run)), claims.place(folder))


def timed(what: str, command: list[str]) -> None:
    """Runs a command, and prints how long it took and what it needed."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.monotonic() - began
    if done.returncode:
        raise SystemExit(done.stderr)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, peak = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime, used.ru_maxrss / 1024
    said = done.stdout.strip().splitlines()[-1:] or [""]
    found = {"what": what, "seconds": round(seconds, 1), "cpu_seconds": round(cpu, 1), "MiB": round(peak)}
    sys.stdout.write(json.dumps(found | {"load": round(os.getloadavg()[0], 1), "said": said[0]}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="a new one, on the disk that holds the reference run")
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--cold", type=int, default=0)
    arguments = parser.parse_args()
    original = reference_run().path.resolve()
    pattern = many.summary(original)
    if isinstance(pattern, str):
        raise SystemExit(pattern)
    verdicts = claims.verdicts([original])
    for name, what in (("ASYNC_COST_RUNS", "runs"), ("ASYNC_COST_REPORTS", "reports")):
        os.environ[name] = str(arguments.folder.resolve() / what)
    if arguments.runs:
        summarised(pattern, verdicts, copies(original, arguments.runs))
        timed("read", [sys.executable, "-c", READ])
        page = ["nbconvert", "--to", "notebook", "--execute", "--output-dir", str(arguments.folder)]
        timed("page", [sys.executable, "-m", *page, "notebooks/hardware/analysis.ipynb"])
    if arguments.cold:
        rows = sum(row["rows"] for row in pattern.studies)
        for _ in copies(original, -(-arguments.cold // rows)):
            pass
        timed("cold", [sys.executable, "-c", COLD])


if __name__ == "__main__":
    main()
