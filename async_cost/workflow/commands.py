"""The commands behind the Makefile: `report`, `measure`, `fleet`.

    python3 -m async_cost.workflow report --profile standard
    python3 -m async_cost.workflow report --run data/runs/<machine>/<utc-time>

Runs under the system's Python with its standard library alone; whatever needs packages is a command of the virtual
environment.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from async_cost.paths import reports_root
from async_cost.runs.profiles import NOT_EVIDENCE, PROFILES
from async_cost.workflow import preflight, sitting, toolchain
from async_cost.workflow.fleet import run_fleet
from async_cost.workflow.plan import Plan
from async_cost.workflow.running import run_steps
from async_cost.workflow.steps import READABLE, Progress, Step, StepFailed
from async_cost.workflow.studies import MEASURED
from async_cost.workflow.toolchain import PYTHON, ROOT


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m async_cost.workflow", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    native = "programs instead of cells: no Rust kernel is needed"
    command = commands.add_parser("setup", help="install everything inside the clone")
    command.add_argument("--native", action="store_true", help=native)
    for name, text, of_run in (
        ("measure", "measure all studies into a new run under data/runs", "measure another sitting of its series"),
        ("report", "measure, analyse and publish under reports/", "render this run and measure nothing"),
        ("fleet", "measure many machines by Slurm, and make one site of them", None),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("--native", action="store_true", help=native)
        command.add_argument("--profile", choices=PROFILES, help="how much to measure; default: standard")
        command.add_argument(
            "--studies", type=chosen_studies, help="only these studies, separated by blanks, in quotes"
        )
        command.add_argument("--only", help="only these variants of the one study, separated by semicolons")
        if of_run:
            command.add_argument("--run", type=Path, help=of_run)
        else:
            command.add_argument("machines", type=Path, help="which machines, such as fleet/machines")
    command = commands.add_parser("tool", help="start a program in the environment of these commands")
    command.add_argument("words", nargs=argparse.REMAINDER, help="the program and its arguments")
    arguments = parser.parse_args()
    chosen = [name for name in ("profile", "studies", "only", "native") if getattr(arguments, name, None)]
    if chosen and getattr(arguments, "run", None):
        parser.error(
            f"--run and --{chosen[0]} exclude each other: a run says itself what is measured; leave one of them out"
        )
    if "only" in chosen and len(arguments.studies or ()) != 1:
        parser.error(
            '--only names variants of one study: name the study, as in make measure STUDIES=zero-cost ONLY="nonbox; box"'
        )
    if arguments.command == "tool":
        return tool(arguments.words)
    try:
        return start(arguments)
    except StepFailed as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. Completed steps are kept: run the same command again to continue.", file=sys.stderr)
        return 130


def start(arguments: argparse.Namespace) -> int:
    """Start the command, if what it needs is there. Raises StepFailed."""
    if arguments.command in ("measure", "report"):
        arguments.profile, arguments.series = arguments.profile or "standard", None
        if arguments.command == "measure" and arguments.run:
            vars(arguments).update(sitting.repeated(existing_run(arguments.run)))
            # A machine may have been named as its run was finished, by what tells it from another one.
            os.environ.setdefault("ASYNC_COST_MACHINE", arguments.series["machine"]["name"])
    renders = arguments.command == "report" and arguments.run
    if missing := [] if renders else list(preflight.obstacles()):
        print("Before this can start, it needs:", *missing, sep="\n  - ", file=sys.stderr)
        return 2
    if arguments.command in ("measure", "report") and not renders:
        studies, evidence = arguments.studies or tuple(MEASURED), arguments.profile not in NOT_EVIDENCE
        for remark in preflight.remarks(studies, evidence):
            print(f"Note: {remark}")
    return globals()[arguments.command](arguments)


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
    with lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            who = f"process {lock.read_text(encoding='utf-8').strip()}"
            raise StepFailed(
                f"another make command is running in this clone ({who}): wait for it or stop it"
            ) from error
        lock.write_text(f"{os.getpid()}\n", encoding="utf-8")
        yield


@one_at_a_time()
def setup(arguments: argparse.Namespace) -> int:
    run_steps("set-up", [*toolchain.steps(arguments.native), toolchain.lab_step()], ROOT)
    return 0


@one_at_a_time()
def measure(arguments: argparse.Namespace) -> int:
    """Measure; then publish, if the command is `report`."""
    names = ("command", "profile", "studies", "native", "only", "series")
    plan = Plan(*(getattr(arguments, name) for name in names))
    pages = [publishing(plan.run)] if arguments.command == "report" else []
    steps = [*toolchain.steps(arguments.native), *plan.steps(), *pages]
    run_steps(f"make {arguments.command}", steps, ROOT)
    plan.close()
    if pages:
        return print_page(plan.run())
    run = os.path.relpath(plan.run())
    print(f"The run is in {run}\n  another sitting of its series, at another hour: make measure RUN={run}")
    return 0


@one_at_a_time()
def render(run: Path) -> int:
    """Publish an existing run; analyses need no Rust kernel."""
    run_steps("make report", [*toolchain.steps(native=True), publishing(lambda: run)], ROOT)
    return print_page(run)


def report(arguments: argparse.Namespace) -> int:
    return render(existing_run(arguments.run)) if arguments.run else measure(arguments)


def fleet(arguments: argparse.Namespace) -> int:
    if shutil.which("sbatch") is None:
        raise StepFailed("there is no sbatch here: run this where jobs can be submitted to Slurm")
    with one_at_a_time():
        run_steps("make fleet", toolchain.steps(native=True), ROOT)
    what = [f"PROFILE={arguments.profile or 'standard'}", f"STUDIES={' '.join(arguments.studies or ())}"]
    what += [f"ONLY={arguments.only or ''}", *["NATIVE=1"] * arguments.native]
    return run_fleet(arguments.machines, what)


def tool(words: list[str]) -> int:
    """`exec` a program in this environment, after echoing the command line."""
    print(shlex.join(words), file=sys.stderr, flush=True)
    try:
        os.execvp(words[0], words)
    except OSError as error:
        print(f"{words[0]}: {error.strerror}; if it is a tool of this repository: make setup", file=sys.stderr)
        return 127


def existing_run(folder: Path) -> Path:
    """The folder as an absolute path. Raises StepFailed when it is no run; whether it is sound, its readers say."""
    if not (folder / "run.json").exists():
        raise StepFailed(
            f"{folder} is not a run: it holds no run.json. Runs are the folders data/runs/<machine>/<utc-time>"
        )
    return folder.resolve()


def publishing(run: Callable[[], Path]) -> Step:
    """Execute the analyses of the run, whose folder is known when the step begins, and publish them."""

    def publish(progress: Progress) -> None:
        def readable(line: str) -> None:
            if line.startswith(READABLE):
                progress.say(f"The page: {where(Path(line.removeprefix(READABLE)))}")

        progress.command([PYTHON, "-m", "async_cost.workflow.publishing", run()], progress=readable)

    return Step("analyse and publish", publish, 60)


def where(page: Path) -> str:
    """Where a page is, for a person and for a browser."""
    return f"{os.path.relpath(page)}\n  {page.as_uri()}"


def print_page(run: Path) -> int:
    print(f"All pages: {where(reports_root() / run.parent.name / run.name / 'index.html')}")
    return 0
