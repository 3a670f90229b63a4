"""Runs of many machines whose truth is known, without the samples behind them."""

import numpy as np
import polars as pl

from async_cost.machines.many import ASIDE, ManyRuns
from async_cost.machines.summary import RATIOS, RUNS, STUDIES
from async_cost.statistics.judge import VERDICTS, Verdict

QUANTILE = 2.0
#: Processes of each run.
EPISODES = 12


def many_of(logs: np.ndarray, error: float | np.ndarray, rustc: list[str] | None = None) -> ManyRuns:
    """Machines whose runs find exp(`logs`[finding, machine, run]), with so large a standard error; the runs of a
    machine are of the compilers `rustc`, if these are given.
    """
    findings, machines, runs = logs.shape
    errors = np.broadcast_to(error, logs.shape)
    rows, about = [], []
    for machine in range(machines):
        for number in range(runs):
            name = f"m-{machine:03d}/{number:03d}"
            compiler = rustc[number] if rustc else "rustc 1.95.0 (0123 2026-01-01)"
            started = f"2026-01-01T{machine // 60:02d}:{machine % 60:02d}:{number:02d}Z"
            about.append(
                (name, f"m-{machine:03d}", "a processor", 2, compiler, "notebook", "standard", started, "0" * 40)
            )
            log, error = logs[:, machine, number], errors[:, machine, number]
            rows.append(
                pl.DataFrame(
                    {
                        "variant": [f"v-{place:05d}" for place in range(findings)],
                        "ratio": np.exp(log),
                        "low": np.exp(log - QUANTILE * error),
                        "high": np.exp(log + QUANTILE * error),
                    }
                ).with_columns(run=pl.lit(name), machine=pl.lit(f"m-{machine:03d}"))
            )
    common = {
        "study": pl.lit("made-up"),
        "bench": pl.lit("b"),
        "other": pl.lit("base"),
        "parameter": pl.lit(""),
        "quantile": QUANTILE,
        "limit": 0.01,
        "rounds": pl.lit(60, pl.Int64),
        "episodes": pl.lit(EPISODES, pl.Int64),
        "control": False,
        "verdict": pl.lit(Verdict.SLOWER.value, VERDICTS),
    }
    return ManyRuns(
        folders={},
        runs=pl.DataFrame(about, schema=RUNS, orient="row"),
        studies=pl.DataFrame(schema=STUDIES),
        ratios=pl.concat(rows).with_columns(**common).select(*RATIOS).cast(RATIOS),
        aside=pl.DataFrame(schema=ASIDE),
    )
