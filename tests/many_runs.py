"""How long the page on hardware and the summaries behind it take for many runs of realistic size.

    python tests/many_runs.py FOLDER --runs 1000            # warm: summarised before, then read_many and the page
    python tests/many_runs.py FOLDER --cold 50000000        # cold: so many raw rows are summarised

The runs are copies of the reference run under the names of other machines, whose ratios differ by some noise. Prints a
line of JSON: what was done, seconds, and the largest memory of a process in MiB.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import polars as pl

from async_cost import kept
from async_cost.machines.summary import RATIOS, key_of, summary
from async_cost.paths import reports_root, runs_root
from async_cost.report.headline import reference_run

READ = """
from async_cost.machines.many import chosen_folders, read_many
many = read_many(chosen_folders())
print(many.runs.height, "runs,", many.ratios.height, "ratios")
"""
COLD = """
import os
from concurrent.futures import ThreadPoolExecutor
from async_cost.machines.many import chosen_folders
from async_cost.machines.summary import summary
with ThreadPoolExecutor(os.cpu_count()) as pool:
    made = list(pool.map(summary, chosen_folders()))
print(sum(row["rows"] for run in made for row in run.studies), "rows of", len(made), "runs")
"""


def copies(number: int, summarised: bool) -> None:
    """Makes so many runs below ASYNC_COST_RUNS, with their summaries below ASYNC_COST_REPORTS if they are asked for."""
    original = reference_run().path
    info = json.loads((original / "run.json").read_text(encoding="utf-8"))
    pattern = summary(original)
    assert not isinstance(pattern, str), pattern
    rng = np.random.default_rng(1)
    for place in range(number):
        machine = f"m-{place:04d}"
        folder = runs_root() / machine / original.name
        folder.mkdir(parents=True)
        for file in original.iterdir():
            if file.name != "run.json":
                os.link(file, folder / file.name)
        about = info | {"run_id": f"{machine}/{original.name}", "machine": info["machine"] | {"name": machine}}
        (folder / "run.json").write_text(json.dumps(about), encoding="utf-8")
        if summarised:
            factor = np.exp(rng.normal(0, 0.05, pattern.ratios.height))
            names = {"run": pl.lit(about["run_id"]), "machine": pl.lit(machine)}
            ratios = pattern.ratios.with_columns(pl.col("ratio", "low", "high") * pl.lit(factor), **names)
            run = {**pattern.run, "run": about["run_id"], "machine": machine, "cpu": f"processor {place % 20}"}
            studies = [
                {**row, "run": about["run_id"], "elapsed_ns": row["elapsed_ns"] + place} for row in pattern.studies
            ]
            file = reports_root() / machine / original.name / "summary.parquet"
            kept.write(ratios.select(*RATIOS), file, key_of(folder), run=run, studies=studies)


def timed(what: str, command: list[str]) -> None:
    """Runs a command, and prints how long it took and what it needed."""
    began = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.monotonic() - began
    if done.returncode:
        raise SystemExit(done.stderr)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    told = done.stdout.strip().splitlines()[-1:] or [""]
    told = {"what": what, "seconds": round(seconds, 1), "MiB": round(peak), "load": os.getloadavg()[0], "said": told[0]}
    sys.stdout.write(json.dumps(told) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=0)
    parser.add_argument("--cold", type=int, default=0)
    arguments = parser.parse_args()
    os.environ["ASYNC_COST_RUNS"] = str(arguments.folder / "runs")
    os.environ["ASYNC_COST_REPORTS"] = str(arguments.folder / "reports")
    if arguments.runs:
        copies(arguments.runs, summarised=True)
        timed("read", [sys.executable, "-c", READ])
        page = ["jupyter", "nbconvert", "--to", "html", "--execute", "--output-dir", str(arguments.folder)]
        timed("page", [sys.executable, "-m", *page, "notebooks/hardware/analysis.ipynb"])
    if arguments.cold:
        pattern = summary(reference_run().path)
        assert not isinstance(pattern, str), pattern
        copies(-(-arguments.cold // sum(row["rows"] for row in pattern.studies)), summarised=False)
        timed("cold", [sys.executable, "-c", COLD])


if __name__ == "__main__":
    main()
