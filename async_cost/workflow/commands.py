"""The commands behind the Makefile: `report`, `measure`, `compare`, `contribute`, `lab`.

    python3 -m async_cost.workflow.commands report --profile standard
    python3 -m async_cost.workflow.commands report --run data/runs/<machine>/<utc-time>

Runs under the system's Python with its standard library alone; whatever needs packages is a command of the virtual environment.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

from async_cost.workflow import toolchain
from async_cost.workflow.steps import (
    CARGO_ENV,
    Progress,
    Step,
    StepFailed,
    cargo_progress,
    notebook_progress,
    run_steps,
)
from async_cost.workflow.toolchain import ENV, PYTHON, ROOT

PROFILES = ("quick", "standard", "thorough")


class Study(NamedTuple):
    """A study that measures: its notebook under notebooks/, and the seconds that it takes in each profile, with compiling its
    cells, on two slow cores; they serve the time left until a duration was measured here."""

    notebook: str
    quick: int
    standard: int
    thorough: int


#: Studies that measure, in order. A study's name is that of its crate and its files.
MEASURED = {
    "zero-cost": Study("zero-cost/measure", quick=60, standard=120, thorough=600),
    "zero-cost-ladder": Study("zero-cost/ladder", quick=60, standard=120, thorough=600),
    "zero-cost-sockets": Study("zero-cost/sockets", quick=60, standard=300, thorough=2400),
    "spawn-apis": Study("spawn-apis/measure", quick=150, standard=500, thorough=1500),
    "call-styles": Study("call-styles/measure", quick=180, standard=600, thorough=1500),
    "thread-pools": Study("thread-pools/measure", quick=120, standard=300, thorough=1800),
    "runtimes-executor": Study("runtimes/executor", quick=60, standard=90, thorough=180),
    "runtimes": Study("runtimes/measure", quick=180, standard=600, thorough=1800),
}
#: Rooms whose notebook `analysis` reads a run, in the order of the published page, each with the studies of which one must be in
#: the run for its page to say something; none: it has something to say about every run.
ANALYSED = {
    "zero-cost": ("zero-cost",),
    "ladder": ("zero-cost-ladder",),
    "boxing-cost": ("zero-cost-ladder", "zero-cost"),
    "spawn-apis": ("spawn-apis",),
    "call-styles": ("call-styles",),
    "thread-pools": ("thread-pools",),
    "runtimes": ("runtimes",),
    "replication": (),
    "trust": (),
    "hardware": (),
}

#: Where runs and pages go; the variables serve tests and machines that keep data elsewhere.
RUNS = Path(os.environ.get("ASYNC_COST_RUNS", ROOT / "data" / "runs")).resolve()
REPORTS = Path(os.environ.get("ASYNC_COST_REPORTS", ROOT / "reports")).resolve()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python3 -m async_cost.workflow.commands", description=__doc__.splitlines()[0]
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in [
        ("setup", "install everything inside the clone"),
        ("measure", "measure all studies into a new run under data/runs"),
        ("report", "measure (or take --run), analyse and publish under reports/"),
        ("compare", "set two runs side by side, under reports/compare"),
        ("contribute", "check a run, pack it, and show what a pull request with it says"),
        ("lab", "open JupyterLab with both kernels"),
    ]:
        command = commands.add_parser(name, help=text)
        if name in ("measure", "report"):
            command.add_argument("--profile", choices=PROFILES, default="standard", help="how much to measure")
            command.add_argument(
                "--studies", type=chosen_studies, help="only these, in one word with blanks between them"
            )
        if name == "report":
            command.add_argument("--run", type=Path, help="render this run and measure nothing")
        if name == "contribute":
            command.add_argument("run", type=Path, help="folder of the run")
        if name == "compare":
            command.add_argument("runs", type=Path, nargs=2, metavar="RUN", help="folder of a run")
    arguments = parser.parse_args()
    if getattr(arguments, "run", None) and getattr(arguments, "studies", None):
        parser.error("--run renders what was measured, --studies chooses what to measure: leave one of them out")
    if missing := toolchain.missing_programs():
        print("Before this can work, please install:", *missing, sep="\n  - ", file=sys.stderr)
        return 2
    try:
        return globals()[arguments.command](arguments)
    except StepFailed as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. What was finished stays: the same command goes on from here.", file=sys.stderr)
        return 130


def chosen_studies(text: str) -> tuple[str, ...]:
    """The studies named in `text`, in the order in which they are measured; all of them where it is blank."""
    named = text.split()
    if unknown := [name for name in named if name not in MEASURED]:
        raise argparse.ArgumentTypeError(f"no study {', '.join(map(repr, unknown))}; there is {', '.join(MEASURED)}")
    return tuple(study for study in MEASURED if study in named or not named)


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Two set-ups would remove each other's work; two measurements would disturb each other and share a partial run."""
    lock = toolchain.TOOLS / "lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.seek(0)
            raise StepFailed(
                f"another make is at work in this clone (process {file.read().strip()}): wait for it or stop it"
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield


@one_at_a_time()
def setup(arguments: argparse.Namespace) -> int:
    run_steps("set-up", toolchain.steps(), ROOT, ENV)
    return 0


@one_at_a_time()
def measure(arguments: argparse.Namespace) -> int:
    plan = Plan("measure", arguments.profile, arguments.studies)
    run_steps("make measure", [*toolchain.steps(), *plan.measuring()], ROOT, ENV)
    plan.close()
    print(f"The run is in {os.path.relpath(plan.run())}")
    return 0


@one_at_a_time()
def report(arguments: argparse.Namespace) -> int:
    if arguments.run:
        run = existing_run(arguments.run)
        run_steps(f"make report RUN={arguments.run}", [*toolchain.steps(), *publishing(lambda: run)], ROOT, ENV)
    else:
        run = measured_report(arguments.profile, arguments.studies)
    page = report_folder(run) / "index.html"
    print(f"The page: {os.path.relpath(page)}\n  {page.as_uri()}")
    return 0


def existing_run(folder: Path) -> Path:
    """The folder as an absolute path. Raises StepFailed when it is no run at all; whether it is a sound one is for `load` to say."""
    if not (folder / "run.json").exists():
        raise StepFailed(
            f"{folder} is not a run: it holds no run.json. Runs are the folders data/runs/<machine>/<utc-time>"
        )
    return folder.resolve()


@one_at_a_time()
def compare(arguments: argparse.Namespace) -> int:
    runs = [existing_run(folder) for folder in arguments.runs]
    report = REPORTS / "compare" / "--".join(f"{run.parent.name}-{run.name}" for run in runs)
    executed = report / ".notebooks" / "hardware.ipynb"
    env = {"ASYNC_COST_COMPARE": os.pathsep.join(map(str, runs)), "ASYNC_COST_RUN": ""}

    def analyse(progress: Progress) -> None:
        executed.parent.mkdir(parents=True, exist_ok=True)
        _execute(progress, _analysis("hardware"), executed, env, told=False)

    def publish(progress: Progress) -> None:
        progress.command(
            [PYTHON, "-m", "async_cost.report.publish", f"--site={REPORTS}", "--alone", runs[1], report, executed]
        )

    steps = [Step("compare", analyse, 10), Step("publish the comparison", publish, 10)]
    run_steps("make compare", [*toolchain.steps(), *steps], ROOT, ENV)
    page = report / "index.html"
    print(f"The page: {os.path.relpath(page)}\n  {page.as_uri()}")
    return 0


@one_at_a_time()
def contribute(arguments: argparse.Namespace) -> int:
    run = existing_run(arguments.run)
    run_steps("make contribute", toolchain.steps(), ROOT, ENV)
    command = [PYTHON, "-m", "async_cost.workflow.contribute", run, "--runs", RUNS]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **ENV}).returncode


def measured_report(profile: str, studies: Sequence[str] | None = None) -> Path:
    """Measure a new run (or go on with the one that was stopped), publish it, and return its folder."""
    plan = Plan("report", profile, studies)
    run_steps("make report", [*toolchain.steps(), *plan.measuring(), *publishing(plan.run)], ROOT, ENV)
    plan.close()
    return plan.run()


def lab(arguments: argparse.Namespace) -> int:
    setup(arguments)
    command = [
        PYTHON,
        "-m",
        "jupyterlab",
        "--ServerApp.root_dir=.",
        *os.environ.get("LAB_OPTIONS", "").split(),
    ]
    try:
        return subprocess.run(command, cwd=ROOT, env={**os.environ, **ENV}).returncode
    except KeyboardInterrupt:  # the usual way to leave JupyterLab
        return 0


class Plan:
    """What one `make measure` does: measure the studies into a partial run, then let the run appear by one rename.

    The partial run's folder is named after everything that its numbers depend on. So the same command after a kill finds it and
    goes on at the next round, and a changed source, compiler, profile or choice of studies begins anew instead of mixing two programs.
    """

    def __init__(self, goal: str, profile: str, studies: Sequence[str] | None = None) -> None:
        self.profile, self.studies = profile, tuple(studies or MEASURED)
        #: The command that makes such a run, for whoever reads the run.
        self.command = f"make {goal} PROFILE={profile}"
        if self.studies != tuple(MEASURED):
            self.command += f' STUDIES="{" ".join(self.studies)}"'
        #: Load averages before anything of ours ran: afterwards they tell of the compiler that compiled the cells.
        self.load_before = " ".join(f"{load:.2f}" for load in os.getloadavg())
        self.partial = RUNS / ".partial" / f"{profile}-{_fingerprint(profile, self.studies)}"
        #: Where `finish` says which run came out of this plan; `close` removes nothing but this plan's claim on it.
        self.outcome = RUNS / ".partial" / "last-run.json"

    def measuring(self) -> list[Step]:
        steps = [Step("compare notebooks and crates", self._compare, 2, self._finished)]
        for study in self.studies:
            count, measure = partial(self._count, study=study), partial(self._measure, study=study)
            steps.append(Step(f"count {study}", count, 90, partial(self._counted, study)))
            expected_s = getattr(MEASURED[study], self.profile)
            steps.append(Step(f"measure {study} ({self.profile})", measure, expected_s, self._finished))
        return [*steps, Step("complete the run", self._finish, 3, self._finished)]

    def run(self) -> Path:
        """The folder of the completed run."""
        return RUNS / self._outcome()["run"]

    def close(self) -> None:
        """Note that the run was delivered, so that the next command measures a new one."""
        self.outcome.write_text(json.dumps({**self._outcome(), "plan": None}) + "\n", encoding="utf-8")

    def _outcome(self) -> dict[str, str | None]:
        try:
            return json.loads(self.outcome.read_text(encoding="utf-8"))
        except OSError:
            return {}

    def _finished(self) -> bool:
        """The run is complete but was not delivered: the command before this one was stopped after measuring."""
        outcome = self._outcome()
        return outcome.get("plan") == self.partial.name and (RUNS / outcome["run"]).exists()

    def _counted(self, study: str) -> bool:
        return self._finished() or (self.partial / f"{study}.counts.csv").exists()

    def _env(self) -> dict[str, str]:
        return {
            "ASYNC_COST_PARTIAL": str(self.partial),
            "ASYNC_COST_PROFILE": self.profile,
            "ASYNC_COST_COMMAND": self.command,
            "ASYNC_COST_LOAD_BEFORE": self.load_before,
        }

    def _compare(self, progress: Progress) -> None:
        # Else the counts of one program would stand beside the times of another.
        notebooks = [_notebook(study) for study in self.studies]
        progress.command([PYTHON, "-m", "async_cost.workflow.in_step", *notebooks])

    def _count(self, progress: Progress, study: str) -> None:
        self.partial.mkdir(parents=True, exist_ok=True)
        counts = ["cargo", "bench", "--locked", "-p", study, "--bench", "counts"]
        progress.command(counts, env={**CARGO_ENV, **self._env()}, progress=cargo_progress)

    def _measure(self, progress: Progress, study: str) -> None:
        executed = self.partial / f"{study}.measure.ipynb"
        _execute(progress, _notebook(study), executed, self._env())

    def _finish(self, progress: Progress) -> None:
        progress.command([PYTHON, "-m", "async_cost.runs.finish", self.partial, RUNS, self.outcome])


def publishing(run: Callable[[], Path]) -> list[Step]:
    """Execute the analysis notebooks that have something to say about the run that `run()` names, then publish them."""

    def analyse(progress: Progress) -> None:
        folder = report_folder(run()) / ".notebooks"
        folder.mkdir(parents=True, exist_ok=True)
        env = {"ASYNC_COST_RUN": str(run())}

        def one(room: str) -> str:
            _execute(progress, _analysis(room), folder / f"{room}.ipynb", env, told=False)
            return room

        rooms = rooms_of(run())
        # They are independent of one another, and starting Python takes as long as reading the run: one for each core.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for done, room in enumerate(pool.map(one, rooms), start=1):
                progress(room, done / len(rooms))

    def publish(progress: Progress) -> None:
        rooms = rooms_of(run())
        executed = [report_folder(run()) / ".notebooks" / f"{room}.ipynb" for room in rooms]
        absent = [f"--not-measured={_analysis(room)}" for room in ANALYSED if room not in rooms]
        progress.command(
            [
                PYTHON,
                "-m",
                "async_cost.report.publish",
                f"--site={REPORTS}",
                *absent,
                run(),
                report_folder(run()),
                *executed,
            ]
        )

    return [Step("analyse", analyse, 10 * len(ANALYSED)), Step("publish", publish, 20)]


def rooms_of(run: Path) -> list[str]:
    """The analyses that have something to say about `run`: those that need no study, or one that it holds."""
    held = json.loads((run / "run.json").read_text(encoding="utf-8"))["studies"]
    return [room for room, needed in ANALYSED.items() if not needed or any(study in held for study in needed)]


def report_folder(run: Path) -> Path:
    """reports/<machine>/<utc-time>, the page of data/runs/<machine>/<utc-time>."""
    return REPORTS / run.parent.name / run.name


def _execute(progress: Progress, notebook: Path, executed: Path, env: dict[str, str], told: bool = True) -> None:
    """Execute a notebook; `told` shows its cells and rounds as the step's progress."""
    command = [PYTHON, "-m", "async_cost.workflow.execute", notebook, executed]
    # What the environment asks for (one cell at a time, say) is for a test of the notebooks themselves.
    command += os.environ.get("ASYNC_COST_EXECUTE", "").split()
    progress.command(command, env=env, progress=notebook_progress if told else lambda line: None)


def _notebook(study: str) -> Path:
    """The notebook that measures `study`."""
    return ROOT / "notebooks" / f"{MEASURED[study].notebook}.ipynb"


def _analysis(room: str) -> Path:
    """The notebook that reads a run for `room`."""
    return ROOT / "notebooks" / room / "analysis.ipynb"


def crate_of(notebook: Path) -> Path:
    """The folder of the crate that a measuring notebook is: the room's for `measure`, one of its own in the room for any other."""
    room = ROOT / "rust-kernels" / notebook.parent.name
    return room if notebook.stem == "measure" else room / notebook.stem


def _fingerprint(profile: str, studies: Sequence[str]) -> str:
    """Hash of all that a measurement of `studies` depends on: sources, lock, compiler, CPU, revision, profile."""
    digest = hashlib.sha256()
    for path in measured_files(studies):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update("\0".join([profile, *studies, toolchain.rustc_version(), _cpu(), _revision()]).encode())
    return digest.hexdigest()[:16]


def measured_files(studies: Iterable[str]) -> list[Path]:
    """The files that the numbers of `studies` depend on: their notebooks, their crates and those that these use, and the lock."""
    import tomllib  # an older Python lacks it, and is told so by `missing_programs` before this is called

    files = {ROOT / "Cargo.lock", ROOT / "Cargo.toml", ROOT / "rust-toolchain.toml"}
    files |= {_notebook(study) for study in studies}
    waiting, seen = [crate_of(_notebook(study)) for study in studies], set()
    while waiting:
        crate = waiting.pop()
        if crate in seen:
            continue
        seen.add(crate)
        manifest = tomllib.loads((crate / "Cargo.toml").read_text(encoding="utf-8"))
        files |= {path for path in crate.rglob("*") if path.is_file()}
        files.add((crate / manifest.get("lib", {}).get("path", "src/lib.rs")).resolve())
        for kind in ("dependencies", "build-dependencies", "dev-dependencies"):
            ours = (
                used["path"] for used in manifest.get(kind, {}).values() if isinstance(used, dict) and "path" in used
            )
            waiting += [(crate / path).resolve() for path in ours]
    return sorted(files)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return os.uname().machine
    return "\n".join(line for line in lines if line.startswith(("model name", "cpu cores", "Hardware")))


def _revision() -> str:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return head.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
