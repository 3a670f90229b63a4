"""Measure the measuring, in some twenty minutes on a quiet machine; `--tiny` shows with few samples that it works.

    python -m async_cost.workflow.experiments [--tiny]

- coverage, a simulation: what the estimator says of series whose truth is known, made of the components that the
  reference run shows (`statistics/coverage.py`). Its table is data/experiments/coverage.csv.
- shapes: what each shape of a call costs the compiler (`workflow/shapes.py`), in data/experiments/shapes.csv.
- identical: one function compared with itself, for the same time by interleaved rounds, by Criterion and tango-bench.
- layout: the same object code of zero-cost, its functions put in another order by the linker each time.
- kernel: all of zero-cost natively, from the notebook, and from one without the settings of its first cell.

The last three make one table of trials and a record of its origin (data/README.md), from which the notebook on trust
computes. What a machine cannot do (no kernel, another linker) is left out, and the record says why.
"""

import argparse
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import nbformat
import polars as pl

from async_cost.errors import DataError
from async_cost.paths import repository_root
from async_cost.runs.decode import read_json
from async_cost.runs.find import reference_run
from async_cost.runs.reader import read_table
from async_cost.runs.record import Codegen, read_record
from async_cost.runs.schemas import TimeRows, TrialRows
from async_cost.statistics import coverage
from async_cost.statistics.trials import trial_times
from async_cost.words import CONTROL
from async_cost.workflow import layouts, shapes, toolchain
from async_cost.workflow.steps import CARGO_ENV
from async_cost.workflow.toolchain import ROOT

#: Where results are, below the root of the repository.
FOLDER = Path("data/experiments")
#: The names of the simulation, and of the measurement of the compiler.
COVERAGE, SHAPES = "coverage", "shapes"
#: Of the results.
SCHEMA_VERSION = 2
COLUMNS = {name: column.dtype for name, column in TrialRows.columns().items() if name != "line"}
STUDY = "zero-cost"
NOTEBOOK = ROOT / "notebooks" / STUDY / "measure.ipynb"
TANGO = ROOT / "rust-kernels" / "tango" / "Cargo.toml"
#: The function that is measured against itself.
BASELINE = "manual"
#: Trials of interleaved rounds: microseconds of warm-up and of samples, and samples; first those of `standard`.
TRIALS = {"short trials": (300, 1_000, 2), "long trials": (2_000, 6_000, 10)}
#: What a sequential reading prints for each variant.
ESTIMATE = re.compile(r"^(?P<variant>[^\t\n]+)\t(?P<ns>[\d.]+)$", re.MULTILINE)
#: Facts of run.json that hold for all experiments of one machine.
SHARED = ("machine", "toolchain", "git", "crates")


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    #: Readings of each kind of identical code, and the milliseconds of each.
    windows: int = 64
    window_ms: int = 1000
    #: Orders of linking, and how often each of them is measured, by a process with so many rounds each time.
    layouts: int = 5
    passes: int = 8
    layout_rounds: int = 100
    #: Rounds and processes of the whole study in each way of compiling it.
    kernel_rounds: int = 160
    kernel_episodes: int = 8

    def rounds(self, warm_up_us: int, trial_us: int) -> int:
        """Rounds of two variants in a window. A warm-up, which doubles its iterations, takes half as long again."""
        return max(2, round(1000 * self.window_ms / 2 / (1.5 * warm_up_us + trial_us)))


#: So little that it only shows that everything works.
TINY = Sizes(windows=2, window_ms=40, layouts=2, passes=1, layout_rounds=3, kernel_rounds=2, kernel_episodes=2)


class Unable(Exception):
    """An experiment cannot be made here; the message says why."""


@dataclass
class Table:
    """The trials so far, and their origin."""

    parts: list[pl.DataFrame] = field(default_factory=list)
    facts: dict[str, object] = field(default_factory=dict)
    #: How each setting was compiled, by `<experiment> <setting>`.
    codegen: dict[str, Codegen] = field(default_factory=dict)
    #: What cannot be measured here, with the reason.
    skipped: dict[str, str] = field(default_factory=dict)

    def add_run(self, experiment: str, setting: str, repeat: int, folder: Path) -> None:
        """The trials of a run that the harness wrote into `folder`."""
        info = read_record(folder / "run.json")
        self.facts = {name: getattr(info, name) for name in SHARED}
        self.codegen[f"{experiment} {setting}"] = info.codegen
        details = info.studies[STUDY]
        time = read_table(folder / f"{STUDY}.time.csv", TimeRows, STUDY)
        firsts = pl.Series([episode.first_round for episode in details.episodes], dtype=pl.UInt32)
        # Of two episodes that begin with one round the later measured it.
        time = time.with_columns(episode=firsts.search_sorted(time["round"], side="right") - 1, sitting=0)
        self._add(experiment, setting, repeat, trial_times(time))

    def add_estimates(self, experiment: str, setting: str, repeat: int, printed: str) -> None:
        """What a sequential reading printed: one estimate for each variant, without a round."""
        found = {line["variant"]: float(line["ns"]) for line in ESTIMATE.finditer(printed)}
        if not found:
            raise Unable(f"no estimate in what was printed: {printed[-300:]!r}")
        frame = pl.DataFrame({"variant": list(found), "ns": list(found.values()), "round": None, "episode": None})
        key = {"bench": pl.lit(BASELINE), "parameter": pl.lit("syscalls=off")}
        self._add(experiment, setting, repeat, frame.with_columns(**key))

    def skip(self, name: str, error: Exception, say: Callable[[str], None]) -> None:
        """Leaves something out, and says why."""
        self.skipped[name] = public(str(error))
        say(f"{name} is left out: {error}")

    def _add(self, experiment: str, setting: str, repeat: int, trials: pl.DataFrame) -> None:
        origin = {"experiment": pl.lit(experiment), "setting": pl.lit(setting), "repeat": pl.lit(repeat)}
        self.parts.append(
            trials.with_columns(**origin).select(pl.col(name).cast(kind) for name, kind in COLUMNS.items())
        )


def measure(sizes: Sizes, only: tuple[str, ...], say: Callable[[str], None] = print) -> Path:
    """Makes the experiments and returns the folder of their results."""
    table, started, load = Table(), _now(), os.getloadavg()
    # Inside the repository, because a kernel's harness looks for the root above its own folder.
    (ROOT / "target").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "target", prefix="experiments-") as scratch:
        for name in only:
            say(name)
            try:
                EXPERIMENTS[name](table, sizes, Path(scratch), say)
            except Unable as error:
                table.skip(name, error, say)
    if not table.parts:
        raise SystemExit("nothing could be measured")
    record = {
        "schema_version": SCHEMA_VERSION,
        "command": "python -m async_cost.workflow.experiments",
        "started": started,
        "ended": _now(),
        "load_before": list(load),
        "sizes": asdict(sizes),
        "tiny": sizes == TINY,
        "skipped": table.skipped,
        "codegen": table.codegen,
        **table.facts,
    }
    return write(msgspec.to_builtins(record), pl.concat(table.parts), ROOT / FOLDER)


def public(message: str) -> str:
    """The last line of a message, without folders of this machine."""
    return re.sub(r"(?<![\w.])/[^\s:`'\"]*/", "", message.strip().splitlines()[-1])


def write(record: dict, trials: pl.DataFrame, root: Path) -> Path:
    """Writes the two files of a result below `root`, entirely or not at all."""
    target = root / str(record["machine"]["name"]) / re.sub(r"[-:]", "", str(record["started"]))
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as hidden:
        buffer = io.BytesIO()
        trials.write_csv(buffer, float_precision=3)
        folder = Path(hidden) / "whole"
        folder.mkdir()
        (folder / "trials.csv.gz").write_bytes(gzip.compress(buffer.getvalue(), mtime=0))
        (folder / "experiments.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        folder.rename(target)
    return target


@dataclass(frozen=True)
class Results:
    """`record` is experiments.json (None: nothing was measured), `trials` the table of `COLUMNS`."""

    record: dict | None
    trials: pl.DataFrame


def newest(machine: str, environ: Mapping[str, str] = os.environ, root: Path | None = None) -> Results:
    """The newest results from this machine; else the newest from any machine; else empty ones.

    ASYNC_COST_EXPERIMENTS names another folder, or says `none`. Raises `DataError` for damaged ones.
    """
    if named := environ.get("ASYNC_COST_EXPERIMENTS"):
        return load(Path(named)) if named != "none" else Results(None, pl.DataFrame(schema=COLUMNS))
    folders = [path for path in (root or repository_root() / FOLDER).glob("[!.]*/[!.]*") if path.is_dir()]
    folders.sort(key=lambda path: (path.parent.name == machine, path.name, path.parent.name))
    return load(folders[-1]) if folders else Results(None, pl.DataFrame(schema=COLUMNS))


def load(folder: Path) -> Results:
    """The results in `folder`. Raises `DataError` if a file is damaged, or of an unknown version."""
    record = read_json(folder / "experiments.json")
    if record.get("schema_version") != SCHEMA_VERSION:
        problem = f"not of schema version {SCHEMA_VERSION}"
        remedy = "Remove the folder, or measure with `make experiments`"
        raise DataError(folder / "experiments.json", problem, remedy, column="schema_version")
    return Results(record, read_table(folder / "trials.csv.gz", TrialRows).select(*COLUMNS))


# -- the experiments -----------------------------------------------------------------------------------------


def _identical(table: Table, sizes: Sizes, scratch: Path, say: Callable[[str], None]) -> None:
    """One reading by each method in turn, so that all meet the same conditions, and that many times."""
    program, tango = _build(scratch / "identical"), None
    try:
        tango = _build_tango()
    except Unable as error:
        table.skip("tango-bench", error, say)
    # Criterion divides its time by itself; a quarter of it for the warm-up is somewhat less than its default.
    warm_up = sizes.window_ms // 8
    for number in range(sizes.windows):
        say(f"  readings {number + 1} of {sizes.windows}")
        for setting, (warm_up_us, trial_us, samples) in TRIALS.items():
            rounds = sizes.rounds(warm_up_us, trial_us)
            _rounds(table, "identical", setting, number, [program, "twins", rounds, warm_up_us, trial_us, samples])
        printed = _run([program, "sequential", warm_up, sizes.window_ms // 2 - warm_up])
        table.add_estimates("identical", "Criterion", number, printed)
        if tango:
            table.add_estimates("identical", "tango-bench", number, _run_tango(tango, sizes.window_ms / 1000))


def _layout(table: Table, sizes: Sizes, scratch: Path, say: Callable[[str], None]) -> None:
    """One program in each order of its functions, the linker's own among them; all orders in turn, several times."""
    program = _build(scratch / "layout")
    for number in range(sizes.passes):
        say(f"  pass {number + 1} of {sizes.passes}")
        for order in range(sizes.layouts):
            with layouts.drawn(program, order) if order else nullcontext(program) as drawn:
                if drawn is None:
                    raise Unable("no linker here puts functions in another order")
                _rounds(table, "layout", f"order {order}", number, [drawn, "interleaved", sizes.layout_rounds])


def _kernel(table: Table, sizes: Sizes, scratch: Path, say: Callable[[str], None]) -> None:
    """The same study, compiled in three ways."""
    program = _build(scratch / "native")
    say("  native")
    _rounds(table, "kernel", "native", 0, [program, "whole", sizes.kernel_rounds, sizes.kernel_episodes])
    if not toolchain.KERNEL.exists():
        raise Unable("there is no Rust kernel: `make setup` installs it")
    for setting, like_bench in (("notebook", True), ("debug notebook", False)):
        say(f"  {setting}")
        # The folder's name is that of the kernel's build folder: a copy shares that of its notebook.
        room = scratch / (STUDY if like_bench else f"{STUDY}-debug")
        room.mkdir()
        nbformat.write(notebook(sizes.kernel_rounds, sizes.kernel_episodes, like_bench), room / "measure.ipynb")
        command = [sys.executable, "-m", "async_cost.workflow.execute", room / "measure.ipynb", room / "executed.ipynb"]
        _rounds(table, "kernel", setting, 0, command)


EXPERIMENTS = {"identical": _identical, "layout": _layout, "kernel": _kernel}


def notebook(rounds: int, processes: int, like_bench: bool) -> nbformat.NotebookNode:
    """The measuring notebook with this many rounds, in so many processes, of the profile `test`, which may be measured
    whatever the build.

    Without `like_bench`, its cells are compiled like those of a stock kernel. Raises ValueError if the notebook no
    longer has the lines that should be replaced.
    """
    content = nbformat.read(NOTEBOOK, as_version=4)
    given = f'name: "test".to_owned(), rounds: {rounds}, episodes: {processes}'
    profile = f"harness::Profile {{ {given}, ..harness::Profile::standard() }}"
    changes = [
        (r"harness::Profile::from_env\(\)\.unwrap_or_else\([\w:]+\)", profile),
        (r"\.\./\.\./rust-kernels", str(ROOT / "rust-kernels")),
    ]
    if not like_bench:
        changes.append((r"(:build_env CARGO_\w+=\w+\n)+", ""))
    for pattern, instead in changes:
        found = 0
        for cell in content.cells:
            if cell.cell_type == "code":
                cell.source, count = re.subn(pattern, lambda _, text=instead: text, cell.source)
                found += count
        if not found:
            raise ValueError(f"{NOTEBOOK.name} has no {pattern}")
    return content


# -- programs ------------------------------------------------------------------------------------------------


def _build(target: Path) -> Path:
    """Compiles the program of the experiments, and copies it to `target` with what is needed to link it again."""
    cargo = f"cargo rustc --locked -p {STUDY} --all-features --bench experiments --profile bench --message-format=json"
    printed = _run([*cargo.split()], **CARGO_ENV, **layouts.environment())
    shutil.copyfile(program := _program(printed), target)
    target.chmod(0o755)
    layouts.keep(target, program)
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


def _rounds(table: Table, experiment: str, setting: str, repeat: int, command: list[object]) -> None:
    """Runs a program that measures interleaved rounds, and adds what it measured."""
    with tempfile.TemporaryDirectory() as folder:
        _run(command, ASYNC_COST_PARTIAL=folder)
        table.add_run(experiment, setting, repeat, Path(folder))


def _run(command: list[object], **env: str) -> str:
    """Runs a command to its end and returns what it printed. Raises `Unable` with the end of its output if it fails."""
    command = [str(part) for part in command]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unable(
            f"{Path(command[0]).name} exited with {done.returncode}: {(done.stderr or done.stdout)[-600:].strip()}"
        )
    return done.stdout


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def simulate(folder: Path) -> Path:
    """Writes coverage.csv into `folder`."""
    file = folder / f"{COVERAGE}.csv"
    coverage.coverage(coverage.components(reference_run())).write_csv(file, float_precision=4)
    return file


def compile_shapes(folder: Path) -> Path:
    """Writes shapes.csv into `folder`."""
    file = folder / f"{SHAPES}.csv"
    shapes.measure().write_csv(file, float_precision=1)
    return file


def last_experiment(name: str) -> pl.DataFrame:
    """The last table of the simulation, or of the compiler; no rows without one."""
    file = repository_root() / FOLDER / f"{name}.csv"
    return pl.read_csv(file) if file.exists() else pl.DataFrame()


def main() -> None:
    """Makes the experiments and says where the results are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="hardly any samples: to see that it works")
    parser.add_argument(
        "--only", choices=(COVERAGE, SHAPES, *EXPERIMENTS), action="append", help="one experiment (may be repeated)"
    )
    arguments = parser.parse_args()
    only = arguments.only or (COVERAGE, SHAPES, *EXPERIMENTS)
    if COVERAGE in only and not arguments.tiny:
        print(f"The coverage of intervals is in {os.path.relpath(simulate(ROOT / FOLDER))}")
    if SHAPES in only and not arguments.tiny:
        print(f"What shapes cost before they run is in {os.path.relpath(compile_shapes(ROOT / FOLDER))}")
    if chosen := tuple(name for name in only if name in EXPERIMENTS):
        folder = measure(TINY if arguments.tiny else Sizes(), chosen)
        print(f"The results are in {os.path.relpath(folder)}")


if __name__ == "__main__":
    main()
