"""Measure the studies in turns, an episode each: every episode is a fresh process that measures some rounds of one
study.

A machine changes within minutes. Studies that take turns are spread over the whole measuring time, so their intervals
cover these changes. The study's own program, or cell, wrote down how a process is started
(`rust-kernels/harness/src/measure/episode.rs`).
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from async_cost.files import read_json, write_whole
from async_cost.workflow import layouts
from async_cost.workflow.steps import CommandFailed, Progress, Seen, StepFailed


@dataclass(frozen=True)
class Start:
    """How a process of a study is started: program with arguments, standard input, and the library that belongs to it.

    `until` are the rounds at which episodes end; `done_status` and `refused_status` the exit statuses of a process that
    has measured its episode and of one that would be refused again.
    """

    command: tuple[str, ...]
    library: Path | None
    entry: str
    until: tuple[int, ...]
    done_status: int
    refused_status: int

    @classmethod
    def read(cls, partial: Path, study: str) -> Start | None:
        """What `study` wrote into the partial run and `record_program` completed; None without, or if its program has
        changed since or is gone.
        """
        try:
            start = json.loads(start_file(partial, study).read_text(encoding="utf-8"))
            if start["sha256"] != _digest(start):
                return None
        except (OSError, ValueError, KeyError):
            return None
        library = start["library"] or {"path": None, "entry": ""}
        path = library["path"] and Path(library["path"])
        command = (start["program"], *start["arguments"])
        statuses = start["done_status"], start["refused_status"]
        return cls(command, path, library["entry"], tuple(start["until"]), *statuses)

    def run(self, study: str, until: int, env: Mapping[str, str], progress: Progress, layout: int) -> None:
        """Measure `study` up to the round `until`, linked in the order that `layout` draws where that can be. Raises
        StepFailed if a process is refused, or if two processes die.
        """
        program = self.library or Path(self.command[0])
        for attempt in (1, 2):
            everything = {**env, "ASYNC_COST_EPISODE": str(until), "ASYNC_COST_PADDING": "x" * random.randrange(4096)}
            with layouts.relinked(program, layout) as drawn:
                command, typed = (str(drawn or program), *self.command[1:]), ""
                if self.library:
                    # A kernel's program runs cells when it has this variable.
                    everything["EVCXR_IS_RUNTIME"] = "1"
                    command, typed = self.command, f"LOAD_AND_RUN {drawn or program} {self.entry}\n"
                try:
                    progress.command(command, everything, typed=typed, status=self.done_status)
                    return
                except CommandFailed as error:
                    if error.status == 0:
                        problem = "its cell panicked (see below), or uses variables of other cells; make it stand alone"
                        raise StepFailed(f"an episode of {study} was not measured: {problem}\n{error}") from error
                    if error.status == self.refused_status or attempt == 2:
                        raise


def start_file(partial: Path, study: str) -> Path:
    """The file in which `study` says how its episodes are started."""
    return partial / f"{study}.episode.json"


def record_program(partial: Path, study: str) -> None:
    """Record what `study` is measured with, since another build would have the same path; keep what links it again."""
    file = start_file(partial, study)
    start = json.loads(file.read_text(encoding="utf-8"))
    measured = linked = Path(start["program"])
    if start["library"]:
        measured = Path(start["library"]["path"])
        linked = measured.parent / "deps" / "libctx.so"  # cargo's name for the kernel's last cell
    layouts.store(measured, linked)
    write_json(file, start | {"sha256": _digest(start)})


def is_ready(partial: Path, study: str) -> bool:
    """Whether `study` can still be measured with that program."""
    return Start.read(partial, study) is not None


def _digest(start: Mapping) -> str:
    """Hash of the program and of its library. Raises OSError if one of them is gone."""
    paths = [start["program"], *([start["library"]["path"]] if start["library"] else [])]
    return hashlib.sha256(b"".join(hashlib.sha256(Path(path).read_bytes()).digest() for path in paths)).hexdigest()


def write_json(file: Path, content: object) -> None:
    write_whole(file, json.dumps(content))


def done_file(partial: Path) -> Path:
    """The file of the measured episodes: a list of study and until (a round)."""
    return partial / "episodes.json"


def done_episodes(partial: Path) -> list[list]:
    """The entries of `done_file`."""
    return read_json(done_file(partial), [])


def measure(partial: Path, studies: Mapping[str, float], env: Mapping[str, str], progress: Progress) -> None:
    """Measure the missing episodes; `studies` with the seconds that each takes on two slow cores. Raises StepFailed for
    the first episode that cannot be measured; all earlier ones are kept.
    """
    done = done_episodes(partial)
    run_id = json.loads((partial / "run.json").read_text(encoding="utf-8"))["run_id"]
    until = {study: _start(partial, study).until for study in studies}
    turns, left = _turns(until), dict(studies)
    for number, (study, end) in enumerate(turns, start=1):
        if [study, end] in done:
            left[study] = studies[study] * (1 - (until[study].index(end) + 1) / len(until[study]))
            continue

        def report(seen: Seen, study: str = study, number: int = number) -> None:
            left[study] = left[study] if seen.left_s is None else seen.left_s
            text = f"episode {number} of {len(turns)}: {study}" + (f", {seen.text}" if seen.text else "")
            progress.report(Seen(text, left_s=sum(left.values()) if seen.text else None))

        layout = layouts.seed(run_id, study, end)
        _start(partial, study).run(study, end, env, replace(progress, report=report), layout)
        done.append([study, end])
        write_json(done_file(partial), done)


def _start(partial: Path, study: str) -> Start:
    if start := Start.read(partial, study):
        return start
    raise StepFailed(f"the program that measures {study} was rebuilt meanwhile, or is gone: run the same command again")


def _turns(until: Mapping[str, Sequence[int]]) -> list[tuple[str, int]]:
    """Every episode of every study, with those of each study spread evenly over the whole time."""
    turns = [(study, end) for study, ends in until.items() for end in ends]
    return sorted(turns, key=lambda turn: (until[turn[0]].index(turn[1]) + 0.5) / len(until[turn[0]]))
