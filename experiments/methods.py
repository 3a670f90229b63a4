"""Would another method, or another build, say the same? One function is compared with itself by several methods, and
one program is linked in several orders.

Both are measured at the ratios of zero-cost to its hand-written loop.
"""

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from async_cost.runs.reader import read_table
from async_cost.runs.record import Machine, read_record
from async_cost.runs.schemas import TimeRows
from async_cost.statistics.interval import estimates
from async_cost.statistics.trials import trial_times
from async_cost.words import CONTROL
from async_cost.workflow import layouts
from async_cost.workflow.steps import CARGO_ENV
from async_cost.workflow.toolchain import ROOT

STUDY = "zero-cost"
TANGO = ROOT / "rust-kernels" / "tango" / "Cargo.toml"
#: The function that is measured against itself, and what others are compared with.
BASELINE = "manual"
#: Trials of interleaved rounds: microseconds of warm-up and of samples, and samples; first those of `standard`.
TRIALS = {"short trials": (300, 1_000, 2), "long trials": (2_000, 6_000, 10)}
#: Beside it, as `KEPT`.tar, is what the program of the experiments was linked from.
KEPT = ROOT / "target" / "experiments"
#: What a sequential reading prints for each variant.
ESTIMATE = re.compile(r"^([^\t\n]+)\t([\d.]+)$", re.MULTILINE)
#: Trials, or estimates, which have no round.
COLUMNS = {"setting": pl.String, "repeat": pl.Int64, "variant": pl.String, "parameter": pl.String, "round": pl.Int64}
COLUMNS |= {"episode": pl.Int64, "ns": pl.Float64}


class Unable(Exception):
    """An experiment cannot be made here; the message says why."""


def identical(windows: int = 64, window_ms: int = 1000) -> pl.DataFrame:
    """Compare one function with itself by each method in turn, so that all meet the same conditions, in so many
    readings of so many milliseconds: `of_methods`, machine, cpu, measured (the day). Raises `Unable`.
    """
    parts, tango = [], None
    with _built() as program:
        try:
            tango = _build_tango()
        except Unable as error:
            print(f"tango-bench is left out: {error}")
        # Criterion divides its time by itself; a quarter of it for the warm-up is somewhat less than its default.
        warm_up = window_ms // 8
        for number in range(windows):
            print(f"  readings {number + 1} of {windows}")
            for setting, (warm_up_us, trial_us, samples) in TRIALS.items():
                # Of two variants in a window. A warm-up, which doubles its iterations, takes half as long again.
                rounds = max(2, round(1000 * window_ms / 2 / (1.5 * warm_up_us + trial_us)))
                trials, machine = _rounds(setting, number, program, "twins", rounds, warm_up_us, trial_us, samples)
                parts.append(trials)
            printed = run(program, "sequential", warm_up, window_ms // 2 - warm_up)
            parts.append(printed_estimates("Criterion", number, printed))
            if tango:
                parts.append(printed_estimates("tango-bench", number, _run_tango(tango, window_ms / 1000)))
    return _with_origin(of_methods(pl.concat(parts)), machine)


def of_methods(trials: pl.DataFrame) -> pl.DataFrame:
    """Return how far readings of one function compared with itself are off: method, readings, median, p90, p99."""
    readings = _beside_loop(trials).group_by("setting", "repeat").agg(pl.col("ratio").median())
    off = (pl.col("ratio") - 1).abs()
    quantiles = {"p90": off.quantile(0.9, "linear"), "p99": off.quantile(0.99, "linear")}
    methods = readings.group_by(method="setting").agg(readings=pl.len(), median=off.median(), **quantiles)
    return methods.sort("median")


def linked(orders: int = 5, passes: int = 8, rounds: int = 100) -> pl.DataFrame:
    """Measure one program in so many orders of its functions, the linker's own among them, all in turn and so often,
    in so many rounds each time: `of_orders`, machine, cpu, measured (the day). Raises `Unable`.
    """
    parts = []
    with _built(f"-Clink-arg=-Wl,--reproduce={KEPT}.tar") as program:
        layouts.store(program, KEPT)
        for number in range(passes):
            print(f"  pass {number + 1} of {passes}")
            for order in range(orders):
                with layouts.relinked(program, order) if order else nullcontext(program) as drawn:
                    if drawn is None:
                        raise Unable("no linker here puts functions in another order")
                    trials, machine = _rounds(f"order {order}", number, drawn, "interleaved", rounds)
                    parts.append(trials)
    return _with_origin(of_orders(pl.concat(parts)), machine)


def of_orders(trials: pl.DataFrame) -> pl.DataFrame:
    """Return by how much orders of linking move the ratio of each variant to the loop: variant, moved (the largest over
    the smallest, less one), apart (whether their intervals do not meet).
    """
    beside = _beside_loop(trials).with_columns(episode=pl.struct("repeat", "episode").rank("dense"))
    beside = beside.filter(pl.len().over("variant", "setting") > 1)
    ends = estimates(beside, by=["variant", "setting"]).sort("ratio").group_by("variant", maintain_order=True)
    largest = {"most": pl.col("ratio").last(), "most_low": pl.col("low").last()}
    orders = ends.agg(pl.col("ratio", "high").first(), **largest)
    moved = {"moved": pl.col("most") / pl.col("ratio") - 1, "apart": pl.col("high") < pl.col("most_low")}
    return orders.select("variant", **moved).sort("moved", descending=True)


def _beside_loop(trials: pl.DataFrame) -> pl.DataFrame:
    """The trials of other variants, with their ratio to the loop in the same round."""
    together = ["setting", "repeat", "parameter", "round"]
    loop = trials.filter(variant=BASELINE).select(*together, loop_ns="ns")
    others = trials.remove(variant=BASELINE).join(loop, on=together, nulls_equal=True)
    return others.with_columns(ratio=pl.col("ns") / pl.col("loop_ns"))


def _with_origin(table: pl.DataFrame, machine: Machine) -> pl.DataFrame:
    facts = {"machine": machine.name, "cpu": machine.cpu, "measured": f"{datetime.now(UTC):%Y-%m-%d}"}
    return table.with_columns(**{name: pl.lit(fact) for name, fact in facts.items()})


def _rounds(setting: str, repeat: int, *command: object) -> tuple[pl.DataFrame, Machine]:
    """The trials that a program measures in interleaved rounds, and where."""
    with tempfile.TemporaryDirectory() as folder:
        run(*command, ASYNC_COST_PARTIAL=folder)
        info = read_record(Path(folder, "run.json"))
        time = read_table(Path(folder, f"{STUDY}.time.csv"), TimeRows, STUDY)
    firsts = pl.Series([episode.first_round for episode in info.studies[STUDY].episodes], dtype=pl.UInt32)
    # Of two episodes that begin with one round the later measured it.
    time = time.with_columns(episode=firsts.search_sorted(time["round"], side="right") - 1, sitting=0)
    return _named(setting, repeat, trial_times(time)), info.machine


def printed_estimates(setting: str, repeat: int, printed: str) -> pl.DataFrame:
    """Return what a sequential reading printed: one estimate for each variant, without a round. Raises `Unable`."""
    matches = ESTIMATE.findall(printed)
    if not matches:
        raise Unable(f"no estimate in what was printed: {printed[-300:]!r}")
    frame = pl.DataFrame(matches, schema=["variant", "ns"], orient="row")
    return _named(setting, repeat, frame.with_columns(parameter=pl.lit("syscalls=off"), round=None, episode=None))


def _named(setting: str, repeat: int, trials: pl.DataFrame) -> pl.DataFrame:
    trials = trials.with_columns(setting=pl.lit(setting), repeat=repeat)
    return trials.select(pl.col(name).cast(kind) for name, kind in COLUMNS.items())


# -- programs ------------------------------------------------------------------------------------------------


@contextmanager
def _built(*options: str) -> Iterator[Path]:
    """Compile the program of the experiments, with these options of rustc, and copy it."""
    cargo = f"cargo rustc --locked -p {STUDY} --all-features --bench experiments --profile bench --message-format=json"
    (ROOT / "target").mkdir(exist_ok=True)
    printed = run(*cargo.split(), "--", *options, **CARGO_ENV, **layouts.environment())
    # Inside the repository, because a kernel's harness looks for the root above its own folder.
    with tempfile.TemporaryDirectory(dir=ROOT / "target", prefix="experiments-") as scratch:
        target = Path(scratch, "program")
        shutil.copy(program_of(printed), target)
        yield target


def _build_tango() -> Path:
    """Compile the program that tango-bench compares with itself: a workspace of its own, downloaded for it alone."""
    cargo = ["cargo", "build", "--locked", "--release", "--message-format=json"]
    return program_of(run(*cargo, "--manifest-path", TANGO, "--target-dir", ROOT / "target" / "tango", **CARGO_ENV))


def program_of(printed: str) -> Path:
    """The last program that cargo reports."""
    messages = (json.loads(line) for line in printed.splitlines() if line.startswith("{"))
    return Path([message["executable"] for message in messages if message.get("executable")][-1])


def _run_tango(program: Path, seconds: float) -> str:
    """The mean times of a program and itself, whose ratio tango-bench reports, as a sequential reading prints them."""
    with tempfile.TemporaryDirectory() as folder:
        # Beyond any difference: else it exits with an error where it finds one.
        run(program, "compare", "--time", seconds, "--noise-threshold", 1e9, "--dump", folder)
        names = ["base", "candidate", "iterations"]
        samples = pl.read_csv(Path(folder) / f"{BASELINE}.csv", has_header=False, new_columns=names)
    base, candidate = (samples.select((pl.col(name) / pl.col("iterations")).mean()).item() for name in names[:2])
    return f"{BASELINE}\t{base}\n{BASELINE}{CONTROL}\t{candidate}\n"


def run(*command: object, **env: str) -> str:
    """Run a command to its end and return what it printed. Raises `Unable` with the end of its output if it fails."""
    arguments = [str(part) for part in command]
    done = subprocess.run(arguments, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unable(
            f"{Path(arguments[0]).name} exited with {done.returncode}: {(done.stderr or done.stdout)[-600:].strip()}"
        )
    return done.stdout
