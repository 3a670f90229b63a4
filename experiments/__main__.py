"""Measure the measuring, in some twenty minutes on a quiet machine; `--tiny` shows with few samples that it works.

    python -m experiments [--tiny]

- coverage, a simulation: what the estimator says of series whose truth is known, made of the components that the
  reference run shows (`coverage.py`). Its table is data/experiments/coverage.csv.
- shapes: what each shape of a call costs the compiler (`shapes.py`), in data/experiments/shapes.csv.
- cells: ratios from the cells of notebooks beside those of `cargo bench` (`cells.py`), in
  data/experiments/cells.csv; it needs the Rust kernel.
- identical: one function compared with itself, for the same time by interleaved rounds, by Criterion and tango-bench.
- layout: the same object code of zero-cost, its functions put in another order by the linker each time.

The last two make one table, data/experiments/trials.csv.gz (`--tiny`: below target/), and a record of its origin
(data/README.md), from which the notebook on trust computes. What a machine cannot do (another linker) is left out, and
the record says why.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from async_cost.files import write_whole
from async_cost.runs.comparisons import KEY
from async_cost.runs.experiments import FOLDER
from async_cost.runs.find import reference_run
from async_cost.runs.reader import read_table
from async_cost.runs.record import read_record
from async_cost.runs.schemas import TimeRows
from async_cost.statistics.coverage import components
from async_cost.statistics.trials import trial_times
from async_cost.words import CONTROL
from async_cost.workflow import layouts
from async_cost.workflow.steps import CARGO_ENV
from async_cost.workflow.toolchain import ROOT
from experiments import cells, coverage, shapes

STUDY = "zero-cost"
TANGO = ROOT / "rust-kernels" / "tango" / "Cargo.toml"
#: The function that is measured against itself.
BASELINE = "manual"
#: Trials of interleaved rounds: microseconds of warm-up and of samples, and samples; first those of `standard`.
TRIALS = {"short trials": (300, 1_000, 2), "long trials": (2_000, 6_000, 10)}
#: What a sequential reading prints for each variant.
ESTIMATE = re.compile(r"^([^\t\n]+)\t([\d.]+)$", re.MULTILINE)
#: Facts of run.json that hold for all experiments of one machine.
SHARED = ("machine", "toolchain", "git", "crates")
#: The columns of a trial (data/README.md).
COLUMNS: dict[str, Any] = {"experiment": pl.String, "setting": pl.String, "repeat": pl.Int64}
COLUMNS |= dict.fromkeys(KEY, pl.String) | {"round": pl.Int64, "ns": pl.Float64, "episode": pl.Int64}


class Sizes(NamedTuple):
    """How much is measured."""

    #: Readings of each kind of identical code, and the milliseconds of each.
    windows: int = 64
    window_ms: int = 1000
    #: Orders of linking, and how often each of them is measured, by a process with so many rounds each time.
    layouts: int = 5
    passes: int = 8
    layout_rounds: int = 100


#: So little that it only shows that everything works.
TINY = Sizes(windows=2, window_ms=40, layouts=2, passes=1, layout_rounds=3)


class Unable(Exception):
    """An experiment cannot be made here; the message says why."""


def measure(sizes: Sizes, only: tuple[str, ...]) -> Path:
    """Makes the experiments and returns the table of their trials."""
    record: dict[str, Any] = {
        "command": "python -m experiments",
        "started": _now(),
        "load_before": list(os.getloadavg()),
        "sizes": sizes._asdict(),
        "skipped": {},
        "codegen": {},
    }
    parts: list[pl.DataFrame] = []
    # Inside the repository, because a kernel's harness looks for the root above its own folder.
    (ROOT / "target").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "target", prefix="experiments-") as scratch:
        for name in only:
            print(name)
            try:
                for part in EXPERIMENTS[name](record, sizes, Path(scratch)):
                    parts.append(part)
            except Unable as error:
                leave_out(record, name, error)
    if not parts:
        raise SystemExit("nothing could be measured")
    folder = ROOT / ("target" if sizes == TINY else FOLDER)
    return write(msgspec.to_builtins(record | {"ended": _now()}), pl.concat(parts), folder)


def leave_out(record: dict[str, Any], name: str, error: Exception) -> None:
    """Records that something is not measured here, with the reason: its last line, without folders of this machine."""
    record["skipped"][name] = re.sub(r"(?<![\w.])/[^\s:`'\"]*/", "", str(error).strip().splitlines()[-1])
    print(f"{name} is left out: {error}")


def write(record: dict, trials: pl.DataFrame, folder: Path) -> Path:
    """Writes the table of trials, in place of that of earlier ones, and where it comes from."""
    write_whole(folder / "trials.json", json.dumps(record, indent=2) + "\n")
    origin = {name: record["machine"][column] for name, column in {"machine": "name", "cpu": "cpu"}.items()}
    origin["measured"] = record["started"][:10]
    file = folder / "trials.csv.gz"
    trials.with_columns(pl.lit(value).alias(name) for name, value in origin.items()).write_csv(
        file, float_precision=3, compression="gzip"
    )
    return file


# -- the experiments: each yields its trials, and enters into the record what it has found on its way ----------


def _identical(record: dict[str, Any], sizes: Sizes, scratch: Path) -> Iterator[pl.DataFrame]:
    """One reading by each method in turn, so that all meet the same conditions, and that many times."""
    program, tango = _build(scratch / "identical"), None
    try:
        tango = _build_tango()
    except Unable as error:
        leave_out(record, "tango-bench", error)
    # Criterion divides its time by itself; a quarter of it for the warm-up is somewhat less than its default.
    warm_up = sizes.window_ms // 8
    for number in range(sizes.windows):
        print(f"  readings {number + 1} of {sizes.windows}")
        for setting, (warm_up_us, trial_us, samples) in TRIALS.items():
            # Of two variants in a window. A warm-up, which doubles its iterations, takes half as long again.
            rounds = max(2, round(1000 * sizes.window_ms / 2 / (1.5 * warm_up_us + trial_us)))
            command = [program, "twins", rounds, warm_up_us, trial_us, samples]
            yield _rounds(record, f"identical {setting}", command, number)
        printed = _run([program, "sequential", warm_up, sizes.window_ms // 2 - warm_up])
        yield estimates("identical Criterion", printed, number)
        if tango:
            yield estimates("identical tango-bench", _run_tango(tango, sizes.window_ms / 1000), number)


def _layout(record: dict[str, Any], sizes: Sizes, scratch: Path) -> Iterator[pl.DataFrame]:
    """One program in each order of its functions, the linker's own among them; all orders in turn, several times."""
    program = _build(scratch / "layout")
    for number in range(sizes.passes):
        print(f"  pass {number + 1} of {sizes.passes}")
        for order in range(sizes.layouts):
            with layouts.relinked(program, order) if order else nullcontext(program) as drawn:
                if drawn is None:
                    raise Unable("no linker here puts functions in another order")
                command = [drawn, "interleaved", sizes.layout_rounds]
                yield _rounds(record, f"layout order {order}", command, number)


EXPERIMENTS = {"identical": _identical, "layout": _layout}


def _rounds(record: dict[str, Any], name: str, command: list[object], repeat: int = 0) -> pl.DataFrame:
    """The trials that a program measures in interleaved rounds; `name` is experiment and setting."""
    with tempfile.TemporaryDirectory() as folder:
        _run(command, ASYNC_COST_PARTIAL=folder)
        info = read_record(Path(folder, "run.json"))
        time = read_table(Path(folder, f"{STUDY}.time.csv"), TimeRows, STUDY)
    record |= {name: getattr(info, name) for name in SHARED}
    record["codegen"][name] = info.codegen
    firsts = pl.Series([episode.first_round for episode in info.studies[STUDY].episodes], dtype=pl.UInt32)
    # Of two episodes that begin with one round the later measured it.
    time = time.with_columns(episode=firsts.search_sorted(time["round"], side="right") - 1, sitting=0)
    return _named(name, repeat, trial_times(time))


def estimates(name: str, printed: str, repeat: int) -> pl.DataFrame:
    """What a sequential reading printed: one estimate for each variant, without a round. Raises `Unable`."""
    matches = ESTIMATE.findall(printed)
    if not matches:
        raise Unable(f"no estimate in what was printed: {printed[-300:]!r}")
    frame = pl.DataFrame(matches, schema=["variant", "ns"], orient="row").with_columns(pl.col("ns").cast(float))
    key = {"bench": pl.lit(BASELINE), "parameter": pl.lit("syscalls=off")}
    return _named(name, repeat, frame.with_columns(**key, round=None, episode=None))


def _named(name: str, repeat: int, trials: pl.DataFrame) -> pl.DataFrame:
    experiment, setting = name.split(" ", 1)
    trials = trials.with_columns(experiment=pl.lit(experiment), setting=pl.lit(setting), repeat=repeat)
    return trials.select(pl.col(name).cast(kind) for name, kind in COLUMNS.items())


# -- programs ------------------------------------------------------------------------------------------------


def _build(target: Path) -> Path:
    """Compiles the program of the experiments, and copies it to `target` with what is needed to link it again."""
    cargo = f"cargo rustc --locked -p {STUDY} --all-features --bench experiments --profile bench --message-format=json"
    printed = _run([*cargo.split()], **CARGO_ENV, **layouts.environment())
    shutil.copyfile(program := _program(printed), target)
    target.chmod(0o755)
    layouts.store(target, program)
    return target


def _build_tango() -> Path:
    """Compiles the program that tango-bench compares with itself: a workspace of its own, downloaded for it alone."""
    cargo = ["cargo", "build", "--locked", "--release", "--message-format=json"]
    return _program(_run([*cargo, "--manifest-path", TANGO, "--target-dir", ROOT / "target" / "tango"], **CARGO_ENV))


def _program(printed: str) -> Path:
    """The last program that cargo reports."""
    messages = (json.loads(line) for line in printed.splitlines() if line.startswith("{"))
    return Path([message["executable"] for message in messages if message.get("executable")][-1])


def _run_tango(program: Path, seconds: float) -> str:
    """The mean times of a program and itself, whose ratio tango-bench reports, as a sequential reading prints them."""
    with tempfile.TemporaryDirectory() as folder:
        # Beyond any difference: else it exits with an error where it finds one.
        _run([program, "compare", "--time", seconds, "--noise-threshold", 1e9, "--dump", folder])
        names = ["base", "candidate", "iterations"]
        samples = pl.read_csv(Path(folder) / f"{BASELINE}.csv", has_header=False, new_columns=names)
    base, candidate = (samples.select((pl.col(name) / pl.col("iterations")).mean()).item() for name in names[:2])
    return f"{BASELINE}\t{base}\n{BASELINE}{CONTROL}\t{candidate}\n"


def _run(command: list[object], **env: str) -> str:
    """Runs a command to its end and returns what it printed. Raises `Unable` with the end of its output if it fails."""
    arguments = [str(part) for part in command]
    done = subprocess.run(arguments, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unable(
            f"{Path(arguments[0]).name} exited with {done.returncode}: {(done.stderr or done.stdout)[-600:].strip()}"
        )
    return done.stdout


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


#: Tables that need no trials, by name, with what makes them and how many decimals it has.
TABLES = {
    "coverage": (lambda: coverage.coverage(components(reference_run())), 4),
    "shapes": (shapes.measure, 1),
    "cells": (cells.compare, 4),
}


def main() -> None:
    """Makes the experiments and says where the results are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="hardly any samples: to see that it works")
    names = (*TABLES, *EXPERIMENTS)
    parser.add_argument("--only", choices=names, action="append", help="one experiment (may be repeated)")
    arguments = parser.parse_args()
    only = arguments.only or names
    for name in () if arguments.tiny else (name for name in only if name in TABLES):
        file = ROOT / FOLDER / f"{name}.csv"
        make, decimals = TABLES[name]
        make().write_csv(file, float_precision=decimals)
        print(f"The table is in {os.path.relpath(file)}")
    if chosen := tuple(name for name in only if name in EXPERIMENTS):
        print(f"The results are in {os.path.relpath(measure(TINY if arguments.tiny else Sizes(), chosen))}")


if __name__ == "__main__":
    main()
