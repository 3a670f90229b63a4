"""Measure the measuring: what the kernel costs, what rounds are worth, what the linker's order does.

    python -m async_cost.experiments.measure            some nine minutes on a quiet machine, into data/experiments/<machine>/<utc-time>/
    python -m async_cost.experiments.measure --tiny     the same with hardly any samples, to see that it works

Three experiments, all on zero-cost and all with the harness that measures the studies:

- precision: five variants as Criterion measures them one after the other, and in interleaved rounds, with the same time for both, several
  times in turn. A long reference is measured before, between and after.
- layout: the same object code, its functions put in another order by the linker each time.
- kernel: the whole study natively, from the notebook, and from a notebook without the settings of its first cell.

The result is one table of trials and a record of its origin (data/README.md describes both); it appears by one rename. `async_cost.experiments.results`
reads it. What a machine cannot do (no kernel, another linker) is left out, and the record says why.
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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import nbformat
import polars as pl

from async_cost.experiments.results import COLUMNS, FOLDER
from async_cost.runs.reader import read_table
from async_cost.runs.record import Codegen, read_record
from async_cost.runs.schemas import TimeRows
from async_cost.statistics.trials import trial_times
from async_cost.workflow import toolchain
from async_cost.workflow.steps import CARGO_ENV
from async_cost.workflow.toolchain import ROOT

STUDY = "zero-cost"
NOTEBOOK = ROOT / "notebooks" / STUDY / "measure.ipynb"
#: What a sequential reading prints for each variant.
ESTIMATE = re.compile(r"^(?P<variant>[^\t\n]+)\t(?P<ns>[\d.]+)$", re.MULTILINE)
#: Milliseconds that a trial takes with its warm-up in the standard profile: as the harness plans them.
TRIAL_MS = 9
#: Facts of run.json that hold for all experiments of one machine.
SHARED = ("machine", "toolchain", "git", "crates")


@dataclass(frozen=True)
class Sizes:
    """How much is measured."""

    #: Milliseconds for each variant, warm-up and measurement, of one sequential reading.
    warm_up_ms: int = 500
    time_ms: int = 1500
    #: Readings of each kind.
    repeats: int = 6
    #: How many times as long as one interleaved reading each of the three references is.
    reference: int = 2
    #: Orders of linking, and how often each of them is measured.
    layouts: int = 5
    passes: int = 2
    #: Rounds of one pass over a layout, and of the whole study in each way of compiling it.
    layout_rounds: int = 90
    kernel_rounds: int = 60

    @property
    def rounds(self) -> int:
        """Rounds that take as long as a sequential reading."""
        return max(2, (self.warm_up_ms + self.time_ms) // TRIAL_MS)


TINY = Sizes(warm_up_ms=10, time_ms=40, repeats=2, reference=1, layouts=2, passes=1, layout_rounds=3, kernel_rounds=2)


class Unable(Exception):
    """An experiment cannot be made here; the message says why."""


class Table:
    """The trials so far, and where they come from."""

    def __init__(self) -> None:
        self.parts: list[pl.DataFrame] = []
        self.facts: dict[str, object] = {}
        #: How each setting was compiled, by `<experiment> <setting>`.
        self.codegen: dict[str, Codegen] = {}

    def add_run(self, experiment: str, setting: str, repeat: int, folder: Path) -> None:
        """The trials of a run that the harness wrote into `folder`."""
        info = read_record(folder / "run.json")
        self.facts = {name: getattr(info, name) for name in SHARED}
        self.codegen[f"{experiment} {setting}"] = info.codegen
        trials = trial_times(read_table(folder / f"{STUDY}.time.csv", TimeRows, STUDY))
        self._add(experiment, setting, repeat, trials)

    def add_estimates(self, experiment: str, setting: str, repeat: int, printed: str) -> None:
        """What a sequential reading printed: one estimate for each variant, of no round."""
        found = [(line["variant"], float(line["ns"])) for line in ESTIMATE.finditer(printed)]
        if not found:
            raise Unable(f"no estimate in what was printed: {printed[-300:]!r}")
        names, times = zip(*found, strict=True)
        frame = pl.DataFrame({"bench": names, "variant": names, "ns": times})
        frame = frame.with_columns(parameter=pl.lit("syscalls=off"), round=pl.lit(None, pl.Int64))
        self._add(experiment, setting, repeat, frame)

    def _add(self, experiment: str, setting: str, repeat: int, trials: pl.DataFrame) -> None:
        origin = {"experiment": pl.lit(experiment), "setting": pl.lit(setting), "repeat": pl.lit(repeat)}
        self.parts.append(
            trials.with_columns(**origin).select(pl.col(name).cast(kind) for name, kind in COLUMNS.items())
        )


def measure(sizes: Sizes, only: tuple[str, ...], say: Callable[[str], None] = print) -> Path:
    """Makes the experiments and returns the folder of their results."""
    table, started, load, skipped = Table(), _now(), os.getloadavg(), {}
    # Inside the repository, because a kernel's harness looks for the root above its own folder.
    (ROOT / "target").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "target", prefix="experiments-") as scratch:
        for name in only:
            say(name)
            try:
                EXPERIMENTS[name](table, sizes, Path(scratch), say)
            except Unable as error:
                skipped[name] = public(str(error))
                say(f"{name} is left out: {error}")
    if not table.parts:
        raise SystemExit("nothing could be measured")
    record = {
        "schema_version": 1,
        "command": "python -m async_cost.experiments.measure",
        "started": started,
        "ended": _now(),
        "load_before": list(load),
        "sizes": asdict(sizes),
        "tiny": sizes == TINY,
        "skipped": skipped,
        "codegen": table.codegen,
        **table.facts,
    }
    return write(msgspec.to_builtins(record), pl.concat(table.parts), ROOT / FOLDER)


def public(message: str) -> str:
    """The last line of a message, without folders of this machine."""
    return re.sub(r"(?<![\w.])/[^\s:`'\"]*/", "", message.strip().splitlines()[-1])


def write(record: dict, trials: pl.DataFrame, root: Path) -> Path:
    """Writes the two files of a result below `root`, whole or not at all."""
    target = root / str(record["machine"]["name"]) / re.sub(r"[-:]", "", str(record["started"]))
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".") as hidden:
        buffer = io.BytesIO()
        trials.write_csv(buffer, float_precision=1)
        folder = Path(hidden) / "whole"
        folder.mkdir()
        (folder / "trials.csv.gz").write_bytes(gzip.compress(buffer.getvalue(), mtime=0))
        (folder / "experiments.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        folder.rename(target)
    return target


# -- the experiments -----------------------------------------------------------------------------------------


def _precision(table: Table, sizes: Sizes, scratch: Path, say: Callable[[str], None]) -> None:
    """Both readings in turn, so that they meet the same weather; the reference around them."""
    program = _build(scratch / "precision")
    middle = sizes.repeats // 2

    def reference(repeat: int) -> None:
        say(f"  reference {repeat + 1} of 3")
        _interleaved(table, "precision", "reference", repeat, program, sizes.reference * sizes.rounds)

    reference(0)
    for repeat in range(sizes.repeats):
        if repeat == middle:
            reference(1)
        say(f"  readings {repeat + 1} of {sizes.repeats}")
        printed = _run([program, "sequential", str(sizes.warm_up_ms), str(sizes.time_ms)])
        table.add_estimates("precision", "sequential", repeat, printed)
        _interleaved(table, "precision", "interleaved", repeat, program, sizes.rounds)
    reference(2)


def _layout(table: Table, sizes: Sizes, scratch: Path, say: Callable[[str], None]) -> None:
    """One program for each order of its functions; all programs in turn, and that several times."""
    orders = []
    for order in range(sizes.layouts):
        say(f"  link order {order + 1} of {sizes.layouts}")
        # The order of the object files first, then shuffled by this seed: an option of LLVM's linker, which rustc brings along.
        options = [] if order == 0 else [f"-Clink-arg=-Wl,--shuffle-sections=.text*={order}"]
        orders.append(_build(scratch / f"layout-{order}", options))
    if len({program.read_bytes() for program in orders}) == 1:
        raise Unable("the linker ignores the order that it is asked for")
    for number in range(sizes.passes):
        say(f"  pass {number + 1} of {sizes.passes}")
        for order, program in enumerate(orders):
            _interleaved(table, "layout", f"order {order}", number, program, sizes.layout_rounds)


def _kernel(table: Table, sizes: Sizes, scratch: Path, say: Callable[[str], None]) -> None:
    """The same study, compiled in three ways."""
    program = _build(scratch / "native")
    say("  native")
    with _partial() as folder:
        _run([program, "whole", str(sizes.kernel_rounds)], ASYNC_COST_PARTIAL=str(folder))
        table.add_run("kernel", "native", 0, folder)
    if not toolchain.KERNEL.exists():
        raise Unable("there is no Rust kernel: `make setup` installs it")
    for setting, like_bench in (("notebook", True), ("debug notebook", False)):
        say(f"  {setting}")
        # The folder's name is that of the kernel's build folder: the real notebook's serves both its own copy and itself.
        room = scratch / (STUDY if like_bench else f"{STUDY}-debug")
        room.mkdir()
        nbformat.write(notebook(sizes.kernel_rounds, like_bench), room / "measure.ipynb")
        command = [sys.executable, "-m", "async_cost.workflow.execute", room / "measure.ipynb", room / "executed.ipynb"]
        with _partial() as folder:
            _run(command, ASYNC_COST_PARTIAL=str(folder), **toolchain.ENV)
            table.add_run("kernel", setting, 0, folder)


EXPERIMENTS = {"precision": _precision, "layout": _layout, "kernel": _kernel}


def notebook(rounds: int, like_bench: bool) -> nbformat.NotebookNode:
    """The measuring notebook with this many rounds of the profile `test`, which may be measured whatever the build.

    Without `like_bench`, its cells are compiled as a stock kernel compiles them. Raises ValueError when the notebook no longer has
    the lines that are to be replaced.
    """
    content = nbformat.read(NOTEBOOK, as_version=4)
    profile = f'harness::Profile {{ name: "test".to_owned(), rounds: {rounds}, ..harness::Profile::standard() }}'
    changes = [
        (r"harness::Profile::from_env\(\)\.unwrap_or_else\([\w:]+\)", profile),
        (r"\.\./\.\./rust-kernels", str(ROOT / "rust-kernels")),
    ]
    if not like_bench:
        changes.append((r"(:build_env CARGO_PROFILE_DEV_\w+=\w+\n)+", ""))
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


def _build(target: Path, options: list[str] | None = None) -> Path:
    """Compiles the bench `experiments` with further options of rustc for its last step, and copies the program to `target`."""
    cargo = ["cargo", "rustc", "--locked", "-p", STUDY, "--bench", "experiments", "--profile", "bench"]
    try:
        printed = _run([*cargo, "--message-format=json", "--", *(options or [])], **CARGO_ENV)
    except Unable as error:
        if options:
            raise Unable(f"the linker does not take {options[0]}") from error
        raise
    messages = (json.loads(line) for line in printed.splitlines() if line.startswith("{"))
    shutil.copyfile([m["executable"] for m in messages if m.get("executable")][-1], target)
    target.chmod(0o755)
    return target


def _interleaved(table: Table, experiment: str, setting: str, repeat: int, program: Path, rounds: int) -> None:
    with _partial() as folder:
        _run([program, "interleaved", str(rounds)], ASYNC_COST_PARTIAL=str(folder))
        table.add_run(experiment, setting, repeat, folder)


@contextmanager
def _partial() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def _run(command: list[str | Path], **env: str) -> str:
    """Runs a command to its end and returns what it printed. Raises `Unable` with its last words when it fails."""
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unable(
            f"{Path(command[0]).name} exited with {done.returncode}: {(done.stderr or done.stdout)[-600:].strip()}"
        )
    return done.stdout


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"


def main() -> None:
    """Makes the experiments and says where the results are."""
    parser = argparse.ArgumentParser(
        prog="python -m async_cost.experiments.measure", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--tiny", action="store_true", help="hardly any samples: to see that it works")
    parser.add_argument("--only", choices=EXPERIMENTS, action="append", help="one experiment (may be repeated)")
    arguments = parser.parse_args()
    folder = measure(TINY if arguments.tiny else Sizes(), tuple(arguments.only or EXPERIMENTS))
    print(f"The results are in {os.path.relpath(folder)}")


if __name__ == "__main__":
    main()
