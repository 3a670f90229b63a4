"""Run the steps of a workflow, two at a time where they allow it, and show which are running, their progress and the
time left.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event

from async_cost.workflow.steps import Progress, Seen, Step, StepFailed

#: Steps that run at the same time at most: what one leaves of two cores, a second one uses.
LANES = 2
#: Seconds between two progress lines where the output is not a terminal.
QUIET_SECONDS = 10


def run_steps(title: str, steps: Sequence[Step], root: Path) -> None:
    """Run `steps`, each after those that it needs. Raise StepFailed for the first that fails, and stop the other."""
    logs = root / ".tools" / "log"
    logs.mkdir(parents=True, exist_ok=True)
    display, stop = _Display(), Event()
    waiting, running = list(steps), dict[Future, _Running]()
    expected = {step: step.expected_s for step in steps if not step.done()}
    about = minutes(seconds_left(steps, expected, {}))
    display.say(f"{title}: {len(steps)} steps, {len(steps) - len(expected)} of them done already, about {about}")
    with ThreadPoolExecutor(LANES) as pool:
        try:
            while waiting or running:
                while step := next_step(steps, waiting, [current.step for current in running.values()]):
                    waiting.remove(step)
                    log = logs / (re.sub(r"[^a-z0-9]+", "-", step.name.lower()).strip("-") + ".log")
                    head = f"{steps.index(step) + 1}/{len(steps)} {step.name}"
                    if step.done():
                        display.say(f"  {head}: done already")
                        continue
                    log.write_text("", encoding="utf-8")
                    current = _Running(step, head, log)
                    running[pool.submit(step.run, Progress(current.take, log, root, stop, display.say))] = current
                    expected = {step: step.expected_s for step in waiting if not step.done()}
                    display.printed = -QUIET_SECONDS  # a new step is shown at once
                if not (now := list(running.values())):
                    break
                display.show(now, seconds_left(steps, expected, {current.step: current.left() for current in now}))
                for future in wait(running, 1, FIRST_COMPLETED).done:
                    current = running.pop(future)
                    failed = future.exception()
                    display.say(f"  {current.head}: {'failed' if failed else 'done'} in {minutes(current.elapsed())}")
                    if isinstance(failed, StepFailed):
                        raise StepFailed(
                            f"step {current.head} failed: {failed}\n  whole output: {current.log.relative_to(root)}\n"
                            "  completed steps are kept: run the same command again to continue"
                        ) from failed
                    future.result()
        except BaseException:
            stop.set()
            raise


def next_step(steps: Sequence[Step], waiting: Collection[Step], running: Collection[Step]) -> Step | None:
    """The first of `waiting` that may start beside those that are `running`."""
    before, open_names = list[str](), {step.name for step in (*waiting, *running)}
    for step in steps if len(running) < LANES else ():
        needs = before if step.needs is None else step.needs
        if step in waiting and open_names.isdisjoint(needs):
            return step
        before.append(step.name)
    return None


def seconds_left(steps: Sequence[Step], waiting: Mapping[Step, float], running: Mapping[Step, float]) -> float:
    """Seconds until the last step ends, if each takes so many: those of `waiting` start as they will."""
    now, waiting, ends = 0.0, dict(waiting), dict(running)
    while waiting or ends:
        while step := next_step(steps, waiting, ends):
            ends[step] = now + waiting.pop(step)
        now = ends.pop(min(ends, key=ends.__getitem__))
    return now


class _Running:
    """A running step: what it has reported, and how long it still takes."""

    def __init__(self, step: Step, head: str, log: Path) -> None:
        self.step, self.head, self.log = step, head, log
        self.start = time.monotonic()
        self.text = ""
        self.fraction: float | None = None
        #: When the step said how long it still takes, and how long that was.
        self.reported: tuple[float, float] | None = None

    def take(self, seen: Seen) -> None:
        """Called by the step, in its own thread."""
        self.text = seen.text or self.text
        self.fraction = seen.fraction if seen.fraction is not None else self.fraction
        self.reported = (self.elapsed(), seen.left_s) if seen.left_s is not None else self.reported

    def elapsed(self) -> float:
        return time.monotonic() - self.start

    def left(self) -> float:
        """Seconds for the rest: as the step reports, else extrapolated from its progress, else as expected."""
        elapsed = self.elapsed()
        if self.reported:
            return max(self.reported[1] - (elapsed - self.reported[0]), 0)
        if self.fraction:
            return elapsed * (1 - self.fraction) / self.fraction
        return max(self.step.expected_s - elapsed, 0.1 * elapsed)

    def bar(self, width: int) -> str:
        """The step and how much of it is done."""
        done = self.fraction or self.elapsed() / (self.elapsed() + self.left() + 0.001)
        return f"{self.head} [{'#' * round(width * done):-<{width}}] {done:4.0%}"


class _Display:
    """The line that shows what is running."""

    def __init__(self) -> None:
        self.terminal = sys.stdout.isatty()
        self.printed = float(-QUIET_SECONDS)

    def show(self, running: Sequence[_Running], left_s: float) -> None:
        if not self.terminal and time.monotonic() - self.printed < QUIET_SECONDS:
            return
        self.printed = time.monotonic()
        line = "  " + " and ".join(current.bar(16 // len(running)) for current in running)
        line += f" · {minutes(left_s)} left in all" + "".join(
            f" · {current.text}" for current in running if current.text
        )
        if self.terminal:
            print("\r\x1b[K" + line[: os.get_terminal_size().columns - 1], end="", flush=True)
        else:
            print(line, flush=True)

    def say(self, line: str) -> None:
        """Print a line that stays."""
        print(f"\r\x1b[K{line}" if self.terminal else line, flush=True)


def minutes(seconds: float) -> str:
    """A duration for people: `8 s`, `3 min 20 s`, `1 h 5 min`."""
    seconds = max(0, round(seconds))
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
