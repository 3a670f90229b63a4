"""A step of a workflow: its commands, their output, and the progress that this shows.

Only the standard library is used: the first steps create the virtual environment for everything else.
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
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

#: Lines of a failed command's output that are repeated on the terminal.
TAIL_LINES = 30
#: Before the file of a page that can be read while others are made.
READABLE = "readable: "
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

    def part(self, name: str, number: int, parts: int) -> Progress:
        """The progress of part `number`, from 0, of so many: it has the part's name, and the fraction of all parts."""
        if parts == 1:
            return self
        return replace(
            self, report=lambda seen: self.report(Seen(f"{name}: {seen.text}", (number + (seen.fraction or 0)) / parts))
        )

    def command(
        self,
        arguments: Iterable[str | Path],
        env: Mapping[str, str] | None = None,
        progress: Callable[[str], Seen | None] = lambda line: None,
        typed: str = "",
        status: int = 0,
    ) -> None:
        """Run a command to its end, with `typed` on its standard input. What it reports as JSON is shown, and what
        `progress` makes of its other lines. Raises CommandFailed, with its last lines, if it exits with another
        status.
        """
        words, unread, tail = [*map(str, arguments)], b"", deque[str](maxlen=TAIL_LINES)
        how: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        how |= {"cwd": self.root, "env": {**os.environ, **(env or {}), "ASYNC_COST_PROGRESS": "json"}}
        with (
            self.log.open("a", encoding="utf-8", buffering=1) as log,
            subprocess.Popen(words, preexec_fn=die_with_parent, **how) as process,  # which waits for its end
        ):
            assert process.stdin and process.stdout, "both are pipes"
            try:
                print("$", *words, file=log)
                with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
                    stdin.write(typed.encode())
                chunk = b"\n"
                while chunk:
                    if self.stop.is_set():
                        raise StepFailed("another step failed")
                    if not select.select([process.stdout], [], [], 1)[0]:
                        continue
                    chunk = os.read(process.stdout.fileno(), 65536)
                    *whole, unread = re.split(rb"[\r\n]+", unread + (chunk or b"\n"))
                    for line in (line.decode("utf-8", "replace") for line in whole if line):
                        print(line, file=log)
                        tail.append(line)
                        if seen := parse_progress(line) or progress(line):
                            self.report(seen)
            except BaseException:
                process.terminate()
                raise
        if process.returncode != status:
            shown = "\n    ".join(tail)
            message = f"`{' '.join(words)}` exited with {process.returncode}:\n    {shown}"
            raise CommandFailed(message, process.returncode)


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


def print_progress(unit: str, number: int, total: int, **more: float) -> None:
    """Report this program's progress, `unit` `number` of `total`: to the workflow as JSON, to a person in words."""
    if os.environ.get("ASYNC_COST_PROGRESS") == "json":
        print(json.dumps({"unit": unit, "round": number, "rounds": total, **more}), flush=True)
    else:
        print(f"{unit} {number} of {total}", flush=True)


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
