"""Run the steps of a workflow one after another and show which one runs, how far it is and how long remains.

Only the standard library is used: the first steps make the virtual environment in which everything else lives.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: Lines of a failed command's output that are repeated on the terminal.
TAIL_LINES = 30
#: Seconds between two progress lines where the output is not a terminal.
QUIET_SECONDS = 10
#: Cargo's progress line: `Building [==> ] 45/273: tokio`.
CARGO_COUNT = re.compile(r"\] (\d+)/(\d+)")


class StepFailed(Exception):
    """A step did not succeed; the message says which one, where its log is and what to do."""


class CommandFailed(StepFailed):
    """A command ended with another exit status (`status`) than it should; the message holds its last lines."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Step:
    """One named piece of a workflow.

    `run` is called with a `Progress`; `done` says that there is nothing left to do. `expected_s` is how long the step takes
    on two slow cores, used for the time left until a duration has been measured on this machine.
    """

    name: str
    run: Callable[[Progress], None]
    expected_s: float
    done: Callable[[], bool] = lambda: False


@dataclass
class Seen:
    """What one line of output tells about a step: words, and the fraction done or the seconds left where it knows them."""

    text: str = ""
    fraction: float | None = None
    left_s: float | None = None


@dataclass
class Progress:
    """Where a running step reports how far it is; also runs its commands, with their output kept in a log file."""

    report: Callable[[Seen], None]
    log: Path
    root: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, text: str, fraction: float | None = None) -> None:
        """Show a few words about what is going on, and how far it is (0 to 1) where that is known."""
        self.report(Seen(text, fraction))

    def command(
        self,
        arguments: Iterable[str | Path],
        env: Mapping[str, str] | None = None,
        progress: Callable[[str], Seen | None] = lambda line: None,
        cwd: Path | None = None,
        typed: str = "",
        status: int = 0,
    ) -> None:
        """Run a command to its end, with `typed` on its standard input. What it tells as JSON is shown; `progress` reads the other lines.

        Raises CommandFailed with the last lines of the output when the command does not exit with `status`.
        """
        arguments = [str(argument) for argument in arguments]
        tail: list[str] = []
        with self.log.open("a", encoding="utf-8") as log:
            log.write("$ " + " ".join(arguments) + "\n")
            process = subprocess.Popen(
                arguments,
                cwd=cwd or self.root,
                env={**os.environ, **self.env, **(env or {}), "ASYNC_COST_PROGRESS": "json"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
            try:
                with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
                    stdin.write(typed.encode())
                for line in _lines(process):
                    if line is None:  # a second without output: the clock still moves
                        self.report(Seen())
                        continue
                    log.write(line + "\n")
                    log.flush()
                    tail = [*tail, line][-TAIL_LINES:]
                    if seen := told_progress(line) or progress(line):
                        self.report(seen)
            except BaseException:
                process.terminate()
                raise
            if process.wait() != status:
                shown = "\n    ".join(tail)
                message = f"`{' '.join(arguments)}` exited with {process.returncode}:\n    {shown}"
                raise CommandFailed(message, process.returncode)


def die_with_parent() -> None:
    """For `preexec_fn`: the child is killed when this process is, even by SIGKILL (Linux only; elsewhere nothing happens).

    Without it a killed `make report` would leave a kernel behind that measures on, next to the one that resumes.
    """
    if sys.platform == "linux":
        pr_set_pdeathsig = 1  # linux/prctl.h
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str | None]:
    """Lines of a process's output as they come (a carriage return ends one, too); None for each silent second."""
    buffer = b""
    while True:
        if not select.select([process.stdout], [], [], 1)[0]:
            yield None
            continue
        chunk = os.read(process.stdout.fileno(), 65536)
        *whole, buffer = re.split(rb"[\r\n]+", buffer + chunk if chunk else buffer + b"\n")
        yield from (line.decode("utf-8", "replace") for line in whole if line)
        if not chunk:
            return


def cargo_progress(line: str) -> Seen | None:
    """Read cargo's `45/273` out of its progress bar."""
    if count := CARGO_COUNT.search(line):
        return Seen(f"{count[1]} of {count[2]} crates", fraction=int(count[1]) / int(count[2]))
    return None


def tell(unit: str, number: int, of: int, **more: float) -> None:
    """Say how far this program is, `unit` `number` of so many: to the workflow as it wants to be told, to a person in words."""
    if os.environ.get("ASYNC_COST_PROGRESS") == "json":
        print(json.dumps({"unit": unit, "round": number, "rounds": of, **more}), flush=True)
    else:
        print(f"{unit} {number} of {of}", flush=True)


def told_progress(line: str) -> Seen | None:
    """Read what `tell` and the harness print where ASYNC_COST_PROGRESS is `json`: one object a line."""
    if not line.startswith("{"):
        return None
    try:
        told = json.loads(line)
        text = f"{told['unit']} {told['round']} of {told['rounds']}"
    except (ValueError, KeyError):
        return None
    if "seconds_left" in told:
        return Seen(text, left_s=told["seconds_left"])
    return Seen(text, told["done"] / told["trials"] if "done" in told else None)


#: Makes cargo print the bar that `cargo_progress` reads although its output is not a terminal.
CARGO_ENV = {
    "CARGO_TERM_PROGRESS_WHEN": "always",
    "CARGO_TERM_PROGRESS_WIDTH": "100",
    "CARGO_TERM_COLOR": "never",
}


def run_steps(title: str, steps: list[Step], root: Path, env: Mapping[str, str]) -> None:
    """Run `steps` in order, skipping those that are done; raise StepFailed at the first that fails."""
    logs = root / ".tools" / "log"
    logs.mkdir(parents=True, exist_ok=True)
    memory = _Durations(root / ".tools" / "durations.json")
    left = [memory.expected(step) for step in steps if not step.done()]
    print(f"{title}: {len(steps)} steps, {len(steps) - len(left)} of them done already, about {minutes(sum(left))}")
    for number, step in enumerate(steps, start=1):
        head = f"{number}/{len(steps)} {step.name}"
        if step.done():
            print(f"  {head}: done already")
            continue
        later = sum(memory.expected(other) for other in steps[number:] if not other.done())
        display = _Display(head, memory.expected(step), later)
        log = logs / (re.sub(r"[^a-z0-9]+", "-", step.name.lower()).strip("-") + ".log")
        log.write_text("", encoding="utf-8")
        try:
            step.run(Progress(display.show, log, root, env))
        except StepFailed as error:
            display.end("failed")
            raise StepFailed(
                f"step {head} failed: {error}\n  whole output: {log.relative_to(root)}\n"
                "  completed steps are kept: run the same command again to continue"
            ) from error
        display.end("done")
        memory.learn(step, display.elapsed())


class _Durations:
    """How long each step took last time on this machine, in seconds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.seconds = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            self.seconds = {}

    def expected(self, step: Step) -> float:
        return float(self.seconds.get(step.name, step.expected_s))

    def learn(self, step: Step, seconds: float) -> None:
        self.seconds[step.name] = round(seconds, 1)
        self.path.write_text(json.dumps(self.seconds, indent=1) + "\n", encoding="utf-8")


class _Display:
    """The progress line of one step."""

    def __init__(self, head: str, expected_s: float, later_s: float) -> None:
        self.head, self.expected_s, self.later_s = head, expected_s, later_s
        self.start = time.monotonic()
        self.text = ""
        self.fraction: float | None = None
        #: When the step said how long it still takes, and how long that was.
        self.told: tuple[float, float] | None = None
        self.terminal = sys.stdout.isatty()
        self.printed = -QUIET_SECONDS
        self.show(Seen())

    def elapsed(self) -> float:
        return time.monotonic() - self.start

    def own_left(self) -> float:
        """Seconds for the rest of this step: told by it, else expected, and extrapolated the more of it is done."""
        elapsed = self.elapsed()
        if self.told is not None:
            return max(self.told[1] - (elapsed - self.told[0]), 0)
        expected = max(self.expected_s - elapsed, 0.1 * elapsed)
        if not self.fraction:
            return expected
        extrapolated = elapsed * (1 - self.fraction) / self.fraction
        return self.fraction * extrapolated + (1 - self.fraction) * expected

    def show(self, seen: Seen) -> None:
        self.text = seen.text or self.text
        self.fraction = seen.fraction if seen.fraction is not None else self.fraction
        self.told = (self.elapsed(), seen.left_s) if seen.left_s is not None else self.told
        if not self.terminal and self.elapsed() - self.printed < QUIET_SECONDS:
            return
        self.printed = self.elapsed()
        own_left = self.own_left()
        done = self.fraction if self.fraction is not None else self.elapsed() / (self.elapsed() + own_left + 0.001)
        bar = "#" * round(16 * done) + "-" * (16 - round(16 * done))
        line = f"  {self.head} [{bar}] {done:4.0%} · {minutes(own_left + self.later_s)} left in all"
        line += f" · {self.text}" if self.text else ""
        if self.terminal:
            columns = os.get_terminal_size().columns
            print("\r\x1b[K" + line[: columns - 1], end="", flush=True)
        else:
            print(line, flush=True)

    def end(self, word: str) -> None:
        clear = "\r\x1b[K" if self.terminal else ""
        print(f"{clear}  {self.head}: {word} in {minutes(self.elapsed())}", flush=True)


def minutes(seconds: float) -> str:
    """A duration for people: `8 s`, `3 min 20 s`, `1 h 5 min`.

    >>> minutes(8), minutes(200), minutes(3900)
    ('8 s', '3 min 20 s', '1 h 5 min')
    """
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
