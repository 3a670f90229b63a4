"""Where a run's numbers come from, in the words of its page: machine, toolchain, revision, rounds, warnings.

Everything is plain text from run.json; the template escapes it. What run.json does not know is "unknown".
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime

from markupsafe import Markup
from msgspec.structs import asdict

from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.record import Codegen, Git, Machine, RunInfo, StudyInfo

UNKNOWN = "unknown"
#: The flag with which the Rust kernel compiles all cells.
KERNEL_FLAG = "-Cprefer-dynamic"


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


def facts(info: RunInfo) -> Facts:
    machine = f"{_text(info.machine.cpu)}, {_count(info.machine.logical_cores, 'core')}"
    when = _moment(info.started)
    groups = [
        Group("Run", list(_run_rows(info))),
        Group("Machine", list(_machine_rows(info.machine))),
        Group("Compiled by", list(_build_rows(info))),
        *(Group(f"Study {name}", list(_study_rows(study))) for name, study in info.studies.items()),
    ]
    headline = f"{machine} · {_text(info.toolchain.rustc)} · {info.profile} profile · {when}"
    return Facts(info.run_id, machine, when, headline, groups)


def notices(info: RunInfo, *, studies: Collection[str] | None = None) -> Iterator[Notice]:
    """What limits the run, most severe first; of failures, those in `studies` where a page is about these alone."""
    if info.profile in NOT_EVIDENCE:
        rough = Markup("rough intervals, nothing is judged. <code>make report</code> measures the run to quote.")
        yield Notice(f"{info.profile.capitalize()} profile:", rough)
    for name, study in info.studies.items():
        if study.failed and (studies is None or name in studies):
            missing = ", ".join(f"{one.variant} ({_text(one.parameter)})" for one in study.failed)
            why = "; ".join(f"{one.bench}: {one.error}" for one in study.failed)
            lost = Markup("{}.<details><summary>Why: it failed</summary>{}</details>").format(missing, why)
            yield Notice(f"{name} does not say anything about", lost)
    if info.git and info.git.clean is False:
        text = "The code that was measured is not exactly that of the revision named below."
        yield Notice("Uncommitted changes.", text)
    if info.machine.address_randomisation == 0:
        text = (
            "Every process had the same places in memory, as after setarch -R, so the intervals do not cover what differs "
            "from process to process. Switch it on (kernel.randomize_va_space = 2) and measure again."
        )
        yield Notice("No address randomisation.", text)
    throttled = {name: times for name, study in info.studies.items() if (times := _throttled(study))}
    if throttled:
        which = ", ".join(f"{name} {times} times" for name, times in throttled.items())
        text = (
            f"A limit of processor time, as a container has, stopped processes while they were measured: {which}. "
            "Their times contain the waiting. Measure without the limit."
        )
        yield Notice("Throttled.", text)
    if own := _own_options(info.codegen):
        text = f"The code was compiled with {own}, as configured for Cargo on this machine: its times may not be those of other runs."
        yield Notice("Other compiler options.", text)


def _throttled(study: StudyInfo) -> int:
    """How often a limit of processor time was used up, as far as that is known."""
    return max(0, (study.throttled_after or 0) - (study.throttled_before or 0))


def _own_options(codegen: Codegen) -> str:
    """Flags for the compiler that only this machine has, and optimisation across crates."""
    flags = codegen.rustflags if isinstance(codegen.rustflags, tuple) else (codegen.rustflags or "").split()
    own = [flag for flag in flags if flag != KERNEL_FLAG]
    return " ".join([*own, *([f"lto={codegen.lto}"] if codegen.lto not in (None, False, "off", "false") else [])])


# -- rows ---------------------------------------------------------------------------------------


def _run_rows(info: RunInfo) -> Iterator[tuple[str, str]]:
    yield "Run", info.run_id
    yield "Profile", info.profile
    yield "Measured by", info.origin
    yield "Command", _text(info.command)
    yield "Started", _moment(info.started)
    yield "Ended", _moment(info.ended)
    yield "Revision", _revision(info.git)


def _machine_rows(machine: Machine) -> Iterator[tuple[str, str]]:
    yield "Name", machine.name
    yield "CPU", f"{_text(machine.cpu)} ({_text(machine.architecture)})"
    yield "Cores", f"{_text(machine.logical_cores)} logical, {_text(machine.physical_cores)} physical"
    if machine.core_types:
        yield "Types of cores", ", ".join(f"{one.cores} {one.name}" for one in machine.core_types)
    if machine.affinity is not None:
        yield "Usable processors", ", ".join(map(str, machine.affinity))
    if machine.quota_cores is not None:
        yield "Limit of processor time", _text(machine.quota_cores)
    if machine.minimum_mhz is not None and machine.maximum_mhz is not None:
        yield "Frequency", f"{machine.minimum_mhz:g} to {machine.maximum_mhz:g} MHz"
    caches = (f"L{cache.level} {cache.kind} {_size(cache.bytes)}" for cache in machine.caches or ())
    yield "Caches", ", ".join(caches) or UNKNOWN
    yield "Memory", _size(machine.memory_bytes)
    yield "Virtualisation", _text(machine.virtualisation)
    yield "Frequency governor", _text(machine.governor)
    yield "Address randomisation", _text(machine.address_randomisation)
    if machine.mitigations is not None:
        affected = {name: told for name, told in machine.mitigations.items() if told != "Not affected"}
        yield "Mitigations", "; ".join(f"{name}: {told}" for name, told in affected.items()) or "not affected"
    yield "System", f"{_text(machine.os)}, kernel {_text(machine.kernel)}"


def _build_rows(info: RunInfo) -> Iterator[tuple[str, str]]:
    yield "Compiler", f"{_text(info.toolchain.rustc)}, {_text(info.toolchain.target)}"
    if info.toolchain.evcxr:
        yield "Kernel", f"evcxr {info.toolchain.evcxr}"
    yield "Code generation", _flags(info.codegen)
    yield "Criterion", _text(info.crates.get("criterion"))
    yield "Crates", f"{len(info.crates)}, with their versions in run.json" if info.crates else UNKNOWN


def _study_rows(study: StudyInfo) -> Iterator[tuple[str, str]]:
    yield "Rounds", f"{study.rounds} of {study.samples} samples each"
    yield "Each trial", f"{study.warm_up_ns / 1e6:g} ms warm-up, {study.trial_ns / 1e6:g} ms measured"
    yield "Seed of the shuffle", str(study.seed)
    yield "Started, ended", f"{_moment(study.started)}, {_moment(study.ended)}"
    yield "Load before, after", f"{_load(study.load_before)}; {_load(study.load_after)}"
    before, after = study.steal_before_ms, study.steal_after_ms
    yield "Time stolen by the host", UNKNOWN if before is None or after is None else f"{after - before} ms"
    yield "Interrupted and resumed", _count(study.resumed, "time")


# -- words --------------------------------------------------------------------------------------


def _text(fact: object) -> str:
    if isinstance(fact, bool):
        return "yes" if fact else "no"
    if isinstance(fact, tuple):
        return " ".join(map(str, fact)) or UNKNOWN
    return UNKNOWN if fact is None or fact == "" else str(fact)


def _count(number: int | None, noun: str) -> str:
    return f"{_text(number)} {noun}{'' if number == 1 else 's'}"


def _moment(text: str | None) -> str:
    return UNKNOWN if text is None else f"{datetime.fromisoformat(text):%Y-%m-%d %H:%M:%S} UTC"


def _size(number: int | None) -> str:
    if number is None:
        return UNKNOWN
    for unit, bytes_in_unit in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if number >= bytes_in_unit:
            return f"{number / bytes_in_unit:.3g} {unit}"
    return f"{number} bytes"


def _load(averages: tuple[float, ...] | None) -> str:
    return " ".join(map(str, averages)) if averages else UNKNOWN


def _flags(codegen: Codegen) -> str:
    known = {name: value for name, value in asdict(codegen).items() if (name, value) != ("options", None)}
    return ", ".join(f"{name.replace('_', ' ')} {_text(value)}" for name, value in known.items())


def _revision(git: Git | None) -> str:
    if git is None:
        return UNKNOWN
    state = {True: "clean", False: "with uncommitted changes", None: UNKNOWN}[git.clean]
    return f"{_text(git.revision)} ({state})"
