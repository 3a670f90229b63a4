"""Where a run's numbers come from, in the words of its page: machine, toolchain, revision, rounds, warnings.

Everything is plain text from run.json; the template escapes it. What run.json does not know is "unknown".
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

UNKNOWN = "unknown"


@dataclass(frozen=True)
class Facts:
    run: str
    machine: str
    when: str
    headline: str
    groups: list["Group"]


@dataclass(frozen=True)
class Group:
    name: str
    rows: list[tuple[str, str]]


@dataclass(frozen=True)
class Notice:
    """Something that the reader must know before the first number."""

    head: str
    text: str


def facts(info: Mapping[str, Any]) -> Facts:
    machine, toolchain = info.get("machine") or {}, info.get("toolchain") or {}
    cpu, profile = _text(machine.get("cpu")), _text(info.get("profile"))
    cores = _count(machine.get("logical_cores"), "core")
    when = _moment(info.get("started"))
    groups = [
        Group("Run", list(_run_rows(info))),
        Group("Machine", list(_machine_rows(machine))),
        Group("Compiled by", list(_build_rows(toolchain, info))),
        *(Group(f"Study {name}", list(_study_rows(study))) for name, study in _studies(info)),
    ]
    headline = f"{cpu}, {cores} · {_text(toolchain.get('rustc'))} · {profile} profile · {when}"
    return Facts(_text(info.get("run_id")), f"{cpu}, {cores}", when, headline, groups)


def notices(info: Mapping[str, Any], *, profile: bool = True) -> Iterator[Notice]:
    """What limits the run, most severe first; without `profile`, what is said elsewhere about a quick one is left out."""
    if profile and info.get("profile") == "quick":
        text = "This run shows that everything works; it is too short to conclude anything from."
        yield Notice("Quick profile: not evidence.", text)
    for name, study in _studies(info):
        if study.get("state") != "complete":
            yield Notice(f"{name} is incomplete.", "The measurement was stopped; its rounds so far are shown.")
        failed = study.get("failed") or []
        if failed:
            which = "; ".join(f"{_key(entry)}: {_text(entry.get('error'))}" for entry in failed)
            yield Notice(f"{name}: {_count(len(failed), 'variant')} failed.", which)
    git = info.get("git")
    if git and git.get("clean") is False:
        text = "The code that was measured is not exactly that of the revision named below."
        yield Notice("Uncommitted changes.", text)


# -- rows ---------------------------------------------------------------------------------------


def _run_rows(info: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Run", _text(info.get("run_id"))
    yield "Profile", _text(info.get("profile"))
    yield "Measured by", _text(info.get("origin"))
    yield "Command", _text(info.get("command"))
    yield "Started", _moment(info.get("started"))
    yield "Ended", _moment(info.get("ended"))
    yield "Revision", _revision(info.get("git"))


def _machine_rows(machine: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Name", _text(machine.get("name"))
    yield "CPU", f"{_text(machine.get('cpu'))} ({_text(machine.get('architecture'))})"
    logical, physical = machine.get("logical_cores"), machine.get("physical_cores")
    yield "Cores", f"{_text(logical)} logical, {_text(physical)} physical"
    caches = machine.get("caches") or []
    sizes = (f"L{_text(c.get('level'))} {_text(c.get('kind'))} {_size(c.get('bytes'))}" for c in caches)
    yield "Caches", ", ".join(sizes) or UNKNOWN
    yield "Memory", _size(machine.get("memory_bytes"))
    yield "Virtualisation", _text(machine.get("virtualisation"))
    yield "Frequency governor", _text(machine.get("governor"))
    yield "System", f"{_text(machine.get('os'))}, kernel {_text(machine.get('kernel'))}"


def _build_rows(toolchain: Mapping[str, Any], info: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Compiler", f"{_text(toolchain.get('rustc'))}, {_text(toolchain.get('target'))}"
    if toolchain.get("evcxr"):
        yield "Kernel", f"evcxr {_text(toolchain['evcxr'])}"
    codegen = info.get("codegen") or {}
    flags = (f"{name.replace('_', ' ')} {_text(value)}" for name, value in codegen.items())
    yield "Code generation", ", ".join(flags) or UNKNOWN
    crates = info.get("crates") or {}
    yield "Criterion", _text(crates.get("criterion"))
    yield "Crates", f"{len(crates)}, with their versions in run.json" if crates else UNKNOWN


def _study_rows(study: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "Rounds", f"{_text(study.get('rounds'))} of {_text(study.get('samples'))} samples each"
    yield "Each trial", f"{_time(study.get('warm_up_ns'))} warm-up, {_time(study.get('trial_ns'))} measured"
    yield "Seed of the shuffle", _text(study.get("seed"))
    yield "Started, ended", f"{_moment(study.get('started'))}, {_moment(study.get('ended'))}"
    yield "Load before, after", f"{_load(study.get('load_before'))}; {_load(study.get('load_after'))}"
    before, after = study.get("steal_before_ms"), study.get("steal_after_ms")
    known = isinstance(before, int | float) and isinstance(after, int | float)
    yield "Time stolen by the host", f"{after - before:.0f} ms" if known else UNKNOWN
    yield "Interrupted and resumed", _count(study.get("resumed"), "time")


# -- words --------------------------------------------------------------------------------------


def _studies(info: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return list((info.get("studies") or {}).items())


def _key(entry: Mapping[str, Any]) -> str:
    return " ".join(_text(entry.get(part)) for part in ("variant", "parameter"))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return UNKNOWN if value is None or value == "" else str(value)


def _count(value: Any, noun: str) -> str:
    return f"{_text(value)} {noun}{'' if value == 1 else 's'}"


def _moment(text: Any) -> str:
    try:
        return f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S} UTC"
    except (TypeError, ValueError):
        return _text(text)


def _size(value: Any) -> str:
    if not isinstance(value, int | float):
        return UNKNOWN
    for unit, bytes_in_unit in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if value >= bytes_in_unit:
            return f"{value / bytes_in_unit:.3g} {unit}"
    return f"{value} bytes"


def _time(nanoseconds: Any) -> str:
    return f"{nanoseconds / 1e6:g} ms" if isinstance(nanoseconds, int | float) else UNKNOWN


def _load(values: Any) -> str:
    return " ".join(_text(value) for value in values) if values else UNKNOWN


def _revision(git: Mapping[str, Any] | None) -> str:
    if not git:
        return UNKNOWN
    state = {True: "clean", False: "with uncommitted changes"}.get(git.get("clean"), UNKNOWN)
    return f"{_text(git.get('revision'))} ({state})"
