"""Do ratios from the cells of a notebook equal those of `cargo bench`? The studies on one thread that hardly anything
disturbs are measured both ways, an episode of each in turn, each process in a link order of its own.
"""

import json
import re
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
from scipy import special

from async_cost.runs.comparisons import KEY, PAIR
from async_cost.runs.reader import read_table
from async_cost.runs.schemas import TimeRows
from async_cost.statistics.interval import CONFIDENCE
from async_cost.statistics.trials import paired, trial_times
from async_cost.workflow import episodes, layouts, toolchain
from async_cost.workflow.plan import Plan
from async_cost.workflow.steps import Progress
from async_cost.workflow.toolchain import ROOT

#: What is measured, and how: whether as a program.
STUDIES, WAYS = ("zero-cost", "ladder", "async-fn"), {"program": True, "cells": False}
#: Processes, and link orders, of each study each way.
PROCESSES = 16


def compare() -> pl.DataFrame:
    """A row for each comparison of the studies: study, PAIR, limit, control (whether it is the same code, which shows
    that the method finds nothing where nothing is), program and cells (the ratio each way), both (that from cells over
    that of the program), low, high (its interval: t over processes, Welch 1947), differs (whether that lies beyond what
    counts as a difference), cpu, rustc, measured (the day).
    """
    (ROOT / "target").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "target", prefix="cells-") as scratch:
        progress = Progress(lambda seen: None, Path(scratch, "log"), ROOT)
        plans = {way: _prepared(Path(scratch), native, progress) for way, native in WAYS.items()}
        for number in range(PROCESSES):
            print(f"  processes {number + 1} of {PROCESSES}", flush=True)
            for study in STUDIES:
                for way in sorted(plans, reverse=number % 2 == 1):  # neither is always the first
                    _measure(plans[way], study, number, progress)
        compared = pl.concat(_compared(plans, study) for study in STUDIES)
    facts = {"cpu": _processor(), "rustc": toolchain.rustc_version(), "measured": f"{datetime.now(UTC):%Y-%m-%d}"}
    return compared.with_columns(**{name: pl.lit(fact) for name, fact in facts.items()})


def _prepared(scratch: Path, native: bool, progress: Progress) -> Plan:
    """A plan of standard trials with twice the processes of a run, compiled and proved."""
    plan = Plan("measure", "standard", STUDIES, native)
    plan.partial, plan.times = scratch / f"{native}", 2
    for step in plan.steps():
        if step.name.startswith(("build", "compile", "compare")):
            print(f"  {step.name}", flush=True)
            step.run(progress)
    return plan


def _processor() -> str:
    """The processor; several generations may have one name."""
    file = Path("/proc/cpuinfo")
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    facts = dict(re.findall(r"^(cpu family|model)\s*: (\d+)$", text, re.MULTILINE))
    more = ", ".join(f"{name.removeprefix('cpu ')} {number}" for name, number in facts.items())
    return toolchain.cpu() + (f" ({more})" if more else "")


def _measure(plan: Plan, study: str, number: int, progress: Progress) -> None:
    """One episode of a study."""
    start = episodes.Start.read(plan.partial, study)
    assert start, "it was prepared"
    run = json.loads((plan.partial / "run.json").read_text(encoding="utf-8"))
    layout = layouts.seed(run["run_id"], study, start.until[number])
    start.run(study, start.until[number], plan._env(), progress, layout)


def _compared(plans: dict[str, Plan], study: str) -> pl.DataFrame:
    values = [_processes(plan, study).rename({"mean": way, "error2": f"error2_{way}"}) for way, plan in plans.items()]
    both = values[0].join(values[1].drop("limit", "control"), on=PAIR, maintain_order="left")
    squares = [pl.col(f"error2_{way}") for way in plans]
    both = both.with_columns(log=pl.col("cells") - pl.col("program"), error2=squares[0] + squares[1])
    free = pl.col("error2") ** 2 / ((squares[0] ** 2 + squares[1] ** 2) / (PROCESSES - 1))
    reach = special.stdtrit(both.select(free).to_series().to_numpy(), (1 + CONFIDENCE) / 2)
    half = pl.Series(reach) * both["error2"].sqrt()
    both = both.with_columns(low=pl.col("log") - half, high=pl.col("log") + half)
    limit = pl.col("limit").log1p()
    return both.select(
        pl.lit(study).alias("study"),
        *(*PAIR, "limit", "control"),
        *(pl.col(name).exp() for name in plans),
        both=pl.col("log").exp(),
        low=pl.col("low").exp(),
        high=pl.col("high").exp(),
        differs=(pl.col("low") > limit) | (pl.col("high") < -limit),
    )


def _processes(plan: Plan, study: str) -> pl.DataFrame:
    """What the processes of a study say: PAIR, limit, control, mean (of the logarithm of the ratio), error2 (of that
    mean).
    """
    about = json.loads((plan.partial / "run.json").read_text(encoding="utf-8"))["studies"][study]
    firsts = pl.Series([episode["first_round"] for episode in about["episodes"]], dtype=pl.UInt32)
    time = read_table(plan.partial / f"{study}.time.csv", TimeRows, study)
    time = time.with_columns(episode=firsts.search_sorted(time["round"], side="right") - 1, sitting=0)
    declared = pl.DataFrame(about["comparisons"]).with_columns(
        limit=pl.col("group").replace_strict(about["groups"], return_dtype=pl.Float64),
        control=pl.col("variant").is_in(about["controls"]),
    )
    units = pl.DataFrame(schema=dict.fromkeys(KEY, pl.String) | {"units": pl.Int64})  # ratios of whole iterations
    rounds = paired(trial_times(time), declared, units)
    processes = rounds.group_by(*PAIR, "episode").agg(pl.col("log_ratio").median())
    mean, error2 = pl.col("log_ratio").mean(), pl.col("log_ratio").var() / pl.len()
    return declared.select(*PAIR, "limit", "control").join(
        processes.group_by(PAIR).agg(mean=mean, error2=error2), on=PAIR, maintain_order="left"
    )
