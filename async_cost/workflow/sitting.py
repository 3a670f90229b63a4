"""A sitting: one stretch of time, for which a standard run waits until the machine is quiet; it may be another one of a
series, whose sittings measure the same program on the same machine.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from async_cost.paths import runs_root, shown
from async_cost.runs.profiles import QUIET_LOAD
from async_cost.workflow.episodes import write_json
from async_cost.workflow.steps import Progress, Seen, StepFailed

#: Seconds that a run waits at most, and between two looks.
LONGEST_S, POLL_S = 600.0, 5.0


def wait(progress: Progress, then_s: float) -> float:
    """Wait until the load average over a minute is below `QUIET_LOAD` for each processor; returns the seconds that it
    took. `then_s` is what comes after it, for the time left.
    """
    began, waited, limit = time.monotonic(), 0.0, QUIET_LOAD * (os.cpu_count() or 1)
    while (load := os.getloadavg()[0]) >= limit and waited < LONGEST_S:
        # Once nothing runs, it falls to a third in a minute: also after what has compiled here.
        left = min(60 * math.log(load / limit), LONGEST_S - waited)
        progress.report(
            Seen(f"waiting for a quiet machine: load {load:.2f}, not below {limit:.2f}", left_s=left + then_s)
        )
        if progress.stop.wait(POLL_S):
            raise StepFailed("another step failed")
        waited = time.monotonic() - began
    if load >= limit:
        progress.say(
            f"  not quiet after {waited / 60:.0f} minutes (load {load:.2f}): measuring all the same, and the run says so"
        )
    return waited


def record(file: Path, load: Sequence[float], waited_s: float | None) -> None:
    """Enter into a run.json the load before its first episode, how long that was waited for, and which start of the
    machine this is.
    """
    run = json.loads(file.read_text(encoding="utf-8"))
    run["waited_s"] = waited_s and round(waited_s, 1)
    run["boot"] = boot()
    for study in run["studies"].values():
        study["load_before"] = [round(average, 2) for average in load]
    write_json(file, run)


def boot() -> str | None:
    """SHA-256 of Linux's boot id, to see reboots between sittings; None elsewhere."""
    drawn = Path("/proc/sys/kernel/random/boot_id")
    return hashlib.sha256(drawn.read_bytes()).hexdigest() if drawn.exists() else None


def repeated(run: Path) -> dict[str, Any]:
    """What another sitting of the series of `run` has to measure, as arguments of `make measure`; `series` is the
    run.json of its first run. Raises StepFailed.
    """
    try:
        first = json.loads((run / "run.json").read_bytes())
        if first["series"]:
            first = json.loads((runs_root() / first["series"] / "run.json").read_bytes())
        requested = dict(word.split("=", 1) for word in shlex.split(first["command"].removeprefix("make "))[1:])
        profile = requested["PROFILE"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problem = "its run.json does not say what was measured, or names a first run that is not here"
        raise StepFailed(f"another sitting of {shown(run)} cannot be measured: {problem}. {BEGIN}") from error
    return {
        "profile": profile,
        "studies": tuple(requested.get("STUDIES", "").split()) or None,
        "only": requested.get("ONLY"),
        "native": "NATIVE" in requested,
        "series": first,
    }


BEGIN = "A new series begins with `make measure`"
#: What the sittings of a series have in common, by its place in run.json.
COMMON = (
    *("program", "toolchain.rustc", "toolchain.evcxr", "codegen", "profile", "studies"),
    *("machine.name", "machine.cpu", "machine.logical_cores", "machine.caches"),
)


def refuse_other(first: Mapping[str, Any], this: Mapping[str, Any]) -> None:
    """Raise StepFailed, with the remedy, if `this` cannot be another sitting of the series that `first` has begun, as
    far as `this` tells by now.
    """

    def recorded(run: Any, place: str) -> Any:
        for name in place.split("."):
            run = run.get(name) if isinstance(run, Mapping) else None
        return sorted(run) if place == "studies" and run else run

    differ = [place for place in COMMON if recorded(this, place) not in (None, recorded(first, place))]
    if differ:
        revision = (first.get("git") or {}).get("revision") or "its revision"
        raise StepFailed(
            f"this cannot be another sitting of {first['run_id']}: it would differ in {', '.join(differ)}. To continue that "
            f"series, measure the same (git checkout {revision}) on the same machine. {BEGIN}"
        )
