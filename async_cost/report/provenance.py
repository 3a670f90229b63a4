"""What a page says of where its numbers come from: plain text from run.json, which the templates escape."""

from msgspec.structs import asdict

from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.record import Codegen, RunInfo

UNKNOWN = "unknown"


def facts(info: RunInfo) -> dict[str, object]:
    """Return what the templates show of a run."""
    return {
        "info": info,
        "headline": headline(info),
        "codegen": asdict(info.codegen),
        "options": _own_options(info.codegen),
        "rough": NOT_EVIDENCE,
        "throttled": throttled(info),
    }


def headline(info: RunInfo) -> str:
    """Return machine, compiler, profile, whether programs or cells were measured, and time in one line."""
    how = f"{info.profile} profile" + (", from the cells of notebooks" if info.origin == "notebook" else "")
    return f"{machine(info)} · {info.toolchain.rustc or UNKNOWN} · {how} · {moment(info.started)}"


def moment(text: str | None) -> str | None:
    """Return a time of run.json for readers: `2026-11-20 19:01:02 UTC`."""
    return text and f"{text[:19].replace('T', ' ')} UTC"


def shown(value: object) -> object:
    """Return a value as the templates show it."""
    return UNKNOWN if value is None else {True: "yes", False: "no"}[value] if isinstance(value, bool) else value


def machine(info: RunInfo) -> str:
    """Return processor and cores."""
    cores = info.machine.logical_cores
    return f"{info.machine.cpu or UNKNOWN}, {cores or UNKNOWN} core{'' if cores == 1 else 's'}"


def throttled(info: RunInfo) -> dict[str, int]:
    """Return how often a limit of processor time was used up while a study was measured, by study, if it ever was."""
    times = (
        (name, (study.throttled_after or 0) - (study.throttled_before or 0)) for name, study in info.studies.items()
    )
    return {name: count for name, count in times if count > 0}


def _own_options(codegen: Codegen) -> str:
    """Flags for the compiler besides that of the Rust kernel for all cells, and optimisation across crates."""
    flags = codegen.rustflags if isinstance(codegen.rustflags, tuple) else (codegen.rustflags or "").split()
    own = [flag for flag in flags if flag != "-Cprefer-dynamic"]
    return " ".join([*own, *([f"lto={codegen.lto}"] if codegen.lto not in (None, False, "off", "false") else [])])
