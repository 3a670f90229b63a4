"""The commands behind the Makefile: `report`, `measure`, `lab`.

    python3 -m async_cost.workflow report --profile standard
    python3 -m async_cost.workflow report --run data/runs/<machine>/<utc-time>

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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from async_cost import toolchain
from async_cost.steps import CARGO_ENV, Progress, Step, StepFailed, cargo_progress, notebook_progress, run_steps
from async_cost.toolchain import ENV, PYTHON, ROOT

PROFILES = ("quick", "standard", "thorough")
#: Studies that measure, in order, each with its notebook under notebooks/. The study's name is that of its crate and its files.
MEASURED = {
    "zero-cost": "zero-cost/measure",
    "zero-cost-ladder": "zero-cost/ladder",
    "zero-cost-sockets": "zero-cost/sockets",
}
#: Notebooks that read a run, in the order of the published page.
ANALYSED = ("zero-cost", "ladder", "boxing-cost")
#: Seconds of measuring per profile and study on two slow cores, for the time left before anything is known.
EXPECTED_S = {"quick": 120, "standard": 420, "thorough": 2400}

#: Where runs and pages go; the variables serve tests and machines that keep data elsewhere.
RUNS = Path(os.environ.get("ASYNC_COST_RUNS", ROOT / "data" / "runs")).resolve()
REPORTS = Path(os.environ.get("ASYNC_COST_REPORTS", ROOT / "reports")).resolve()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m async_cost.workflow", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name, text in [
        ("setup", "install everything inside the clone"),
        ("measure", "measure all studies into a new run under data/runs"),
        ("report", "measure (or take --run), analyse and publish under reports/"),
        ("lab", "open JupyterLab with both kernels"),
    ]:
        command = commands.add_parser(name, help=text)
        if name in ("measure", "report"):
            command.add_argument("--profile", choices=PROFILES, default="standard", help="how much to measure")
        if name == "report":
            command.add_argument("--run", type=Path, help="render this run and measure nothing")
    arguments = parser.parse_args()
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
    plan = Plan(arguments.profile, f"make measure PROFILE={arguments.profile}")
    run_steps("make measure", [*toolchain.steps(), *plan.measuring()], ROOT, ENV)
    plan.close()
    print(f"The run is in {os.path.relpath(plan.run())}")
    return 0


@one_at_a_time()
def report(arguments: argparse.Namespace) -> int:
    if arguments.run:
        run = arguments.run.resolve()
        if not (run / "run.json").exists():
            raise StepFailed(
                f"{arguments.run} is not a run: it holds no run.json. Runs are the folders data/runs/<machine>/<utc-time>"
            )
        run_steps(f"make report RUN={arguments.run}", [*toolchain.steps(), *publishing(lambda: run)], ROOT, ENV)
    else:
        run = measured_report(arguments.profile)
    page = report_folder(run) / "index.html"
    print(f"The page: {os.path.relpath(page)}\n  {page.as_uri()}")
    return 0


def measured_report(profile: str) -> Path:
    """Measure a new run (or go on with the one that was stopped), publish it, and return its folder."""
    plan = Plan(profile, f"make report PROFILE={profile}")
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
    """What one `make measure` does: measure every study into a partial run, then let the run appear by one rename.

    The partial run's folder is named after everything that its numbers depend on. So the same command after a kill finds it and
    goes on at the next round, and a changed source, compiler or profile begins anew instead of mixing two programs.
    """

    def __init__(self, profile: str, command: str) -> None:
        self.profile, self.command = profile, command
        #: Load averages before anything of ours ran: afterwards they tell of the compiler that compiled the cells.
        self.load_before = " ".join(f"{load:.2f}" for load in os.getloadavg())
        self.partial = RUNS / ".partial" / f"{profile}-{_fingerprint(profile)}"
        #: Where `finish` says which run came out of this plan; `close` removes nothing but this plan's claim on it.
        self.outcome = RUNS / ".partial" / "last-run.json"

    def measuring(self) -> list[Step]:
        steps = [Step("compare notebooks and crates", self._compare, 2, self._finished)]
        for study in MEASURED:
            count, measure = partial(self._count, study=study), partial(self._measure, study=study)
            steps.append(Step(f"count {study}", count, 90, partial(self._counted, study)))
            steps.append(Step(f"measure {study} ({self.profile})", measure, EXPECTED_S[self.profile], self._finished))
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
        notebooks = [ROOT / "notebooks" / f"{notebook}.ipynb" for notebook in MEASURED.values()]
        progress.command([PYTHON, "-m", "async_cost.pairing", *notebooks])

    def _count(self, progress: Progress, study: str) -> None:
        self.partial.mkdir(parents=True, exist_ok=True)
        counts = ["cargo", "bench", "--locked", "-p", study, "--bench", "counts"]
        progress.command(counts, env={**CARGO_ENV, **self._env()}, progress=cargo_progress)

    def _measure(self, progress: Progress, study: str) -> None:
        notebook = ROOT / "notebooks" / f"{MEASURED[study]}.ipynb"
        executed = self.partial / f"{study}.measure.ipynb"
        _execute(progress, notebook, executed, self._env())

    def _finish(self, progress: Progress) -> None:
        progress.command([PYTHON, "-m", "async_cost.finish", self.partial, RUNS, self.outcome])


def publishing(run: Callable[[], Path]) -> list[Step]:
    """Execute the analysis notebooks on the run that `run()` names, then publish them."""

    def analyse(progress: Progress) -> None:
        folder = report_folder(run()) / ".notebooks"
        folder.mkdir(parents=True, exist_ok=True)
        env = {"ASYNC_COST_RUN": str(run())}

        def one(study: str) -> str:
            _execute(
                progress, ROOT / "notebooks" / study / "analysis.ipynb", folder / f"{study}.ipynb", env, told=False
            )
            return study

        # They are independent of one another, and starting Python takes as long as reading the run: one for each core.
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for done, study in enumerate(pool.map(one, ANALYSED), start=1):
                progress(study, done / len(ANALYSED))

    def publish(progress: Progress) -> None:
        executed = [report_folder(run()) / ".notebooks" / f"{study}.ipynb" for study in ANALYSED]
        progress.command([PYTHON, "-m", "async_cost.publish", run(), report_folder(run()), *executed])

    return [Step("analyse", analyse, 10 * len(ANALYSED)), Step("publish", publish, 20)]


def report_folder(run: Path) -> Path:
    """reports/<machine>/<utc-time>, the page of data/runs/<machine>/<utc-time>."""
    return REPORTS / run.parent.name / run.name


def _execute(progress: Progress, notebook: Path, executed: Path, env: dict[str, str], told: bool = True) -> None:
    """Execute a notebook; `told` shows its cells and rounds as the step's progress."""
    command = [PYTHON, "-m", "async_cost.execute", notebook, executed]
    # What the environment asks for (one cell at a time, say) is for a test of the notebooks themselves.
    command += os.environ.get("ASYNC_COST_EXECUTE", "").split()
    progress.command(command, env=env, progress=notebook_progress if told else lambda line: None)


def _fingerprint(profile: str) -> str:
    """Hash of all that a measurement depends on: sources, lock, compiler, CPU, revision, profile."""
    files = [ROOT / "Cargo.lock", ROOT / "Cargo.toml", ROOT / "rust-toolchain.toml"]
    files += sorted(path for path in (ROOT / "rust-kernels").rglob("*") if path.is_file())
    files += [ROOT / "notebooks" / f"{notebook}.ipynb" for notebook in MEASURED.values()]
    digest = hashlib.sha256()
    for path in files:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update("\0".join([profile, toolchain.rustc_version(), _cpu(), _revision()]).encode())
    return digest.hexdigest()[:16]


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
