"""A step of a workflow: its commands, their output, and the progress that this shows.

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
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, TextIO

#: Lines of a failed command's output that are repeated on the terminal.
TAIL_LINES = 30
#: Cargo's progress line: `Building [==> ] 45/273: tokio`.
CARGO_COUNT = re.compile(r"\] (\d+)/(\d+)")
#: Loaded here: after a fork, a lock of the loader may be held by a thread that the child does not have.
LIBC = ctypes.CDLL(None)


class StepFailed(Exception):
    """A step did not succeed; the message says which one, where its log is and what to do."""


class CommandFailed(StepFailed):
    """A command ended with an unexpected exit status (`status`); the message has its last lines."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(eq=False)
class Step:
    """One named piece of a workflow: `done` says whether there is nothing left to do, `expected_s` how long it takes on
    two slow cores, `needs` names the steps, earlier in the list, after which it may start; None: all.
    """

    name: str
    run: Callable[[Progress], None]
    expected_s: float
    done: Callable[[], bool] = lambda: False
    needs: Collection[str] | None = None


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
    #: Set when the workflow ends early: the commands of this step are ended.
    stop: Event = field(default_factory=Event)
    #: Prints a line that stays.
    say: Callable[[str], None] = print

    def __call__(self, text: str, fraction: float | None = None) -> None:
        """Show a few words about what is going on, and the fraction done (0 to 1) if it is known."""
        self.report(Seen(text, fraction))

    def command(self, arguments: Iterable[str | Path], **options: Any) -> None:
        """Run one command to its end; `options` are those of `Command`. Raises CommandFailed as `commands` does."""
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
                    if self.stop.is_set():
                        raise StepFailed("another step failed")
                    while waiting and len(outputs.get_map()) < lanes:
                        chain = waiting.popleft()
                        started = _Running(chain.popleft(), chain, self, log)
                        outputs.register(started.output, selectors.EVENT_READ, started)
                    for running in (key.data for key, _ in outputs.select(1)):
                        left = len(outputs.get_map()) + sum(map(len, waiting))
                        left += sum(len(key.data.chain) for key in outputs.get_map().values())
                        if not running.read(self, 1 - left / total if total > 1 else None):
                            outputs.unregister(running.output)
                            running.finish()
                            if running.chain:
                                waiting.appendleft(running.chain)
            except BaseException:
                for key in outputs.get_map().values():
                    with key.data.process as process:
                        process.terminate()
                raise


@dataclass(frozen=True)
class Command:
    """A command of a step, with `typed` on its standard input. `progress` reads the lines that are not JSON; `name` is
    put before what it reports, where several run at the same time; `then` is called when it has ended with `status`.
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
        """Read the available output; False at the end. `fraction` is that of all commands, if there are several."""
        chunk = os.read(self.output.fileno(), 65536)
        *whole, self.unread = re.split(rb"[\r\n]+", self.unread + chunk if chunk else self.unread + b"\n")
        for line in (line.decode("utf-8", "replace") for line in whole if line):
            self._note(line)
            self.tail = [*self.tail, line][-TAIL_LINES:]
            seen = parse_progress(line) or self.command.progress(line)
            if seen and fraction is not None:
                seen = Seen(f"{self.command.name}: {seen.text}", fraction)
            if seen:
                step.report(seen)
        return bool(chunk)

    def finish(self) -> None:
        with self.process:  # which closes its output, and waits
            pass
        if self.process.returncode != self.command.status:
            shown = "\n    ".join(self.tail)
            message = f"`{' '.join(self.arguments)}` exited with {self.process.returncode}:\n    {shown}"
            raise CommandFailed(message, self.process.returncode)
        self.command.then()


def die_with_parent() -> None:
    """For `preexec_fn`: the child is killed when this process is, even by SIGKILL (on Linux alone). Without it a killed
    `make report` would leave a kernel behind that continues to measure, next to the one that resumes.
    """
    if sys.platform == "linux":
        pr_set_pdeathsig = 1  # linux/prctl.h
        LIBC.prctl(pr_set_pdeathsig, signal.SIGKILL)


def cargo_progress(line: str) -> Seen | None:
    """Read cargo's `45/273` out of its progress bar."""
    if count := CARGO_COUNT.search(line):
        return Seen(f"{count[1]} of {count[2]} crates", fraction=int(count[1]) / int(count[2]))
    return None


def print_progress(unit: str, number: int, of: int, **more: float) -> None:
    """Report the progress of this program, `unit` `number` of `of`: to the workflow as JSON, to a person in words."""
    if os.environ.get("ASYNC_COST_PROGRESS") == "json":
        print(json.dumps({"unit": unit, "round": number, "rounds": of, **more}), flush=True)
    else:
        print(f"{unit} {number} of {of}", flush=True)


def parse_progress(line: str) -> Seen | None:
    """Read what `print_progress` and the harness print if ASYNC_COST_PROGRESS is `json`: one object per line."""
    if not line.startswith("{"):
        return None
    try:
        report = json.loads(line)
        text = f"{report['unit']} {report['round']} of {report['rounds']}"
    except (ValueError, KeyError):
        return None
    if "seconds_left" in report:
        return Seen(text, left_s=report["seconds_left"])
    return Seen(text, report["done"] / report["trials"] if "done" in report else None)


#: Makes cargo print the bar that `cargo_progress` reads although its output is not a terminal.
CARGO_ENV = {"CARGO_TERM_PROGRESS_WHEN": "always", "CARGO_TERM_PROGRESS_WIDTH": "100", "CARGO_TERM_COLOR": "never"}
