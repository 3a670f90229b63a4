"""Is a trial in a forked process longer because its pages are copied when it first writes to them? Events of several
futures, which allocate in two of three variants, are measured in trials of 6, 60 and 600 ms, the lengths by turns.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from async_cost.runs.comparisons import KEY, PAIR
from async_cost.runs.reader import read_table
from async_cost.runs.record import read_record
from async_cost.runs.schemas import TimeRows
from async_cost.statistics.interval import estimates
from async_cost.statistics.trials import paired, trial_times
from async_cost.workflow import toolchain
from async_cost.workflow.steps import CARGO_ENV
from experiments.methods import program_of, run

STUDY = "async-fn-stopping"
#: Milliseconds of a trial, and the rounds of a process.
LENGTHS = {6: 40, 60: 8, 600: 2}


def measure(processes: int = 6) -> pl.DataFrame:
    """Measure a row for each comparison and length: PAIR, trial_ms, ratio, low, high, cpu, rustc, measured."""
    cargo = f"cargo bench --locked -p {STUDY} --bench forks --no-run --message-format=json"
    program = program_of(run(*cargo.split(), **CARGO_ENV))
    parts = []
    for number in range(processes):
        print(f"  processes {number + 1} of {processes}", flush=True)
        for trial_ms, rounds in sorted(LENGTHS.items(), reverse=number % 2 == 1):
            paired_trials = _pairs(program, trial_ms, rounds)
            parts.append(paired_trials.with_columns(trial_ms=trial_ms, episode=number))
    table = estimates(pl.concat(parts), by=[*PAIR, "trial_ms"]).select(*PAIR, "trial_ms", "ratio", "low", "high")
    facts = {"cpu": toolchain.cpu(), "rustc": toolchain.rustc_version(), "measured": f"{datetime.now(UTC):%Y-%m-%d}"}
    return table.sort(*PAIR, "trial_ms").with_columns(**{name: pl.lit(fact) for name, fact in facts.items()})


def _pairs(program: Path, trial_ms: int, rounds: int) -> pl.DataFrame:
    """What one process compares in each round."""
    with tempfile.TemporaryDirectory() as folder:
        run(program, 1000 * trial_ms, rounds, ASYNC_COST_PARTIAL=folder)
        compared = read_record(Path(folder, "run.json")).studies[STUDY].comparisons
        time = read_table(Path(folder, f"{STUDY}.time.csv"), TimeRows, STUDY)
    units = pl.DataFrame(schema=dict.fromkeys(KEY, pl.String) | {"units": pl.Int64})  # ratios of whole iterations
    pairs = pl.DataFrame([{name: getattr(one, name) for name in PAIR} for one in compared])
    return paired(trial_times(time.with_columns(episode=0, sitting=0)), pairs, units)
