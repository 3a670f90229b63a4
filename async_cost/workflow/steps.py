"""Run the steps of a workflow one after another and show the current step, its progress and the time left.

Only the standard library is used: the first steps create the virtual environment for everything else.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

#: Lines of a failed command's output that are repeated on the terminal.
TAIL_LINES = 30
#: Seconds between two progress lines where the output is not a terminal.
QUIET_SECONDS = 10
#: Cargo's progress line: `Building [==> ] 45/273: tokio`.
CARGO_COUNT = re.compile(r"\] (\d+)/(\d+)")


class StepFailed(Exception):
    """A step did not succeed; the message says which one, where its log is and what to do."""


class CommandFailed(StepFailed):
    """A command ended with an unexpected exit status (`status`); the message has its last lines."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Step:
    """One named piece of a workflow.

    `run` is called with a `Progress`; `done` says whether there is nothing left to do. `expected_s` is how long the
    step takes on two slow cores; it gives the time left until a duration has been measured on this machine.
    """

    name: str
    run: Callable[[Progress], None]
    expected_s: float
    done: Callable[[], bool] = lambda: False


@dataclass
class Seen:
    """What one line of output says about a step: words, and the fraction done or the seconds left if it has them."""

    text: str = ""
    fraction: float | None = None
    left_s: float | None = None


@dataclass
class Progress:
    """Takes the progress reports of a running step; also runs its commands, and keeps their output in a log file."""

    report: Callable[[Seen], None]
    log: Path
    root: Path

    def __call__(self, text: str, fraction: float | None = None) -> None:
        """Show a few words about what is going on, and the fraction done (0 to 1) if it is known."""
        self.report(Seen(text, fraction))

    def command(self, arguments: Iterable[str | Path], **options: Any) -> None:
        """Run one command to its end; `options` are those of `Command`.

        Raises CommandFailed with the last lines of the output if it exits with an unexpected status.
        """
        self.commands([[Command(arguments, **options)]])

    def commands(self, chains: Iterable[Iterable[Command]], lanes: int = 1) -> None:
        """Run chains of commands, each in order and several at the same time. What they report as JSON is shown.

        Raises CommandFailed with the last lines of the output of the first command that exits with an unexpected
        status; the others are ended.
        """
        waiting = deque(chain for chain in map(deque, chains) if chain)
        total = sum(map(len, waiting))
        with self.log.open("a", encoding="utf-8") as log, selectors.DefaultSelector() as outputs:
            try:
                while waiting or outputs.get_map():
                    while waiting and len(outputs.get_map()) < lanes:
                        chain = waiting.popleft()
                        started = _Running(chain.popleft(), chain, self, log)
                        outputs.register(started.output, selectors.EVENT_READ, started)
                    ready = outputs.select(1)
                    if not ready:  # a second without output: the clock still moves
                        self.report(Seen())
                    for running in (key.data for key, _ in ready):
                        left = len(outputs.get_map()) + sum(map(len, waiting))
                        left += sum(len(key.data.chain) for key in outputs.get_map().values())
                        if not running.read(self, 1 - left / total if total > 1 else None):
                            outputs.unregister(running.output)
                            running.finish()
                            if running.chain:
                                waiting.appendleft(running.chain)
            except BaseException:
                for key in outputs.get_map().values():
                    key.data.process.terminate()
                    key.data.process.wait()
                raise


@dataclass(frozen=True)
class Command:
    """A command of a step, with `typed` on its standard input. `progress` reads the lines that are not JSON; `name` is
    put before what it tells, where several run at the same time; `then` is called when it has ended with `status`.
    """

    arguments: Iterable[str | Path]
    name: str = ""
    env: Mapping[str, str] | None = None
    progress: Callable[[str], Seen | None] = lambda line: None
    cwd: Path | None = None
    typed: str = ""
    status: int = 0
    then: Callable[[], object] = lambda: None


class _Running:
    """A command that was started, its output so far, and those that come after it."""

    def __init__(self, command: Command, chain: deque[Command], step: Progress, log: TextIO) -> None:
        self.command, self.chain, self.log = command, chain, log
        self.arguments = [str(argument) for argument in command.arguments]
        self.unread, self.tail = b"", list[str]()
        self._note("$ " + " ".join(self.arguments))
        self.process = subprocess.Popen(
            self.arguments,
            cwd=command.cwd or step.root,
            env={**os.environ, **(command.env or {}), "ASYNC_COST_PROGRESS": "json"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
        assert self.process.stdin and self.process.stdout, "both are pipes"
        self.output = self.process.stdout
        with contextlib.suppress(BrokenPipeError), self.process.stdin as stdin:
            stdin.write(command.typed.encode())

    def _note(self, line: str) -> None:
        self.log.write(f"{self.command.name}: {line}\n" if self.command.name else f"{line}\n")
        self.log.flush()

    def read(self, step: Progress, fraction: float | None) -> bool:
        """Read the available output; False at the end. A carriage return also ends a line. `fraction` is that of all
        commands, if there are several.
        """
        chunk = os.read(self.output.fileno(), 65536)
        *whole, self.unread = re.split(rb"[\r\n]+", self.unread + chunk if chunk else self.unread + b"\n")
        for line in (line.decode("utf-8", "replace") for line in whole if line):
            self._note(line)
            self.tail = [*self.tail, line][-TAIL_LINES:]
            seen = told_progress(line) or self.command.progress(line)
            if seen and fraction is not None:
                seen = Seen(f"{self.command.name}: {seen.text}", fraction)
            if seen:
                step.report(seen)
        return bool(chunk)

    def finish(self) -> None:
        if self.process.wait() != self.command.status:
            shown = "\n    ".join(self.tail)
            message = f"`{' '.join(self.arguments)}` exited with {self.process.returncode}:\n    {shown}"
            raise CommandFailed(message, self.process.returncode)
        self.command.then()


def die_with_parent() -> None:
    """For `preexec_fn`: the child is killed when this process is, even by SIGKILL (Linux only; elsewhere nothing
    happens).

    Without it a killed `make report` would leave a kernel behind that continues to measure, next to the one that
    resumes.
    """
    if sys.platform == "linux":
        pr_set_pdeathsig = 1  # linux/prctl.h
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)


def cargo_progress(line: str) -> Seen | None:
    """Read cargo's `45/273` out of its progress bar."""
    if count := CARGO_COUNT.search(line):
        return Seen(f"{count[1]} of {count[2]} crates", fraction=int(count[1]) / int(count[2]))
    return None


def tell(unit: str, number: int, of: int, **more: float) -> None:
    """Report the progress of this program, `unit` `number` of `of`: to the workflow as JSON, to a person in words."""
    if os.environ.get("ASYNC_COST_PROGRESS") == "json":
        print(json.dumps({"unit": unit, "round": number, "rounds": of, **more}), flush=True)
    else:
        print(f"{unit} {number} of {of}", flush=True)


def told_progress(line: str) -> Seen | None:
    """Read what `tell` and the harness print if ASYNC_COST_PROGRESS is `json`: one object per line."""
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


def run_steps(title: str, steps: list[Step], root: Path) -> None:
    """Run `steps` in order, skipping those that are done; raise StepFailed for the first that fails."""
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
            step.run(Progress(display.show, log, root))
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
        self.printed = float(-QUIET_SECONDS)
        self.show(Seen())

    def elapsed(self) -> float:
        return time.monotonic() - self.start

    def own_left(self) -> float:
        """Seconds for the rest of this step: as it reports, else as expected, and increasingly extrapolated from its
        progress.
        """
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
