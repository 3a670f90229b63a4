"""run.json: what is known about a run besides its numbers, as typed records.

A record knows its fields and nothing else: an unknown field, a missing one or one of another type is a `DataError`,
since a reader that skips what it does not know cannot promise to have understood the rest. Fields with a default came later: runs from
before may lack them. Facts that the measuring machine could not tell are None.
"""

import json
import re
import types
import typing
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from math import isfinite
from pathlib import Path

from async_cost.errors import DataError, quoted, require_plain_file

SCHEMA_VERSION = 1
PROFILES = ("quick", "standard", "thorough")
ORIGINS = ("notebook", "native")

SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
UTC_NAME = re.compile(r"\d{8}T\d{6}Z")
#: How far the A/A control of a group of comparisons may reach from 1, unless the study says otherwise.
LIMIT = 0.01
UTC_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
#: Whole numbers beyond this fit no column of a table.
LARGEST = 2**63 - 1
#: Rounds and samples of a trial beyond this are no measurement: at 1 ms for a trial, these rounds would take a variant 16 minutes.
MOST_ROUNDS = 1_000_000
#: No run is older than the first stable Rust.
EARLIEST = datetime(2015, 5, 15, tzinfo=UTC)
#: How far the clock of another machine may be ahead of ours.
CLOCK_AHEAD = timedelta(days=1)


@dataclass(frozen=True)
class Cache:
    """One cache of the processor."""

    level: int
    kind: str
    bytes: int


@dataclass(frozen=True)
class Machine:
    """The machine, without anything that names its owner."""

    name: str
    cpu: str | None
    architecture: str | None
    logical_cores: int | None
    physical_cores: int | None
    caches: tuple[Cache, ...] | None
    memory_bytes: int | None
    virtualisation: str | None
    governor: str | None
    kernel: str | None
    os: str | None


@dataclass(frozen=True)
class Toolchain:
    """Compiler and, for a run from a notebook, kernel."""

    rustc: str | None
    target: str | None
    evcxr: str | None


@dataclass(frozen=True)
class Codegen:
    """How the measured code was compiled."""

    profile: str | None
    opt_level: int | str | None
    debug_assertions: bool
    overflow_checks: bool
    codegen_units: int | None
    incremental: bool | None
    lto: str | bool | None
    prefer_dynamic: bool | None
    rustflags: str | tuple[str, ...] | None


@dataclass(frozen=True)
class Git:
    """The revision that was measured."""

    revision: str | None
    clean: bool | None


@dataclass(frozen=True)
class FailedVariant:
    """A variant that ended with an error or a panic; the others went on."""

    bench: str
    variant: str
    parameter: str
    error: str


@dataclass(frozen=True)
class Comparison:
    """One measured key beside the key that it is compared with, and the group whose limit holds for the two."""

    bench: str
    variant: str
    parameter: str
    baseline_bench: str
    baseline_variant: str
    baseline_parameter: str
    group: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.bench, self.variant, self.parameter

    @property
    def baseline(self) -> tuple[str, str, str]:
        return self.baseline_bench, self.baseline_variant, self.baseline_parameter


@dataclass(frozen=True)
class StudyInfo:
    """How one study was measured. Loads are averages over 1, 5 and 15 minutes; steal is in ms since boot, all CPUs.

    `groups` maps the name of each group of comparisons to the half-width of its region of practical equivalence, which is also what
    its A/A controls have to keep. `comparisons` is None in runs that declared none; `async_cost.runs.comparisons` knows what holds then.
    """

    state: str
    baseline: str
    controls: tuple[str, ...]
    seed: int
    rounds: int
    samples: int
    warm_up_ns: int
    trial_ns: int
    started: str
    ended: str | None
    resumed: int
    load_before: tuple[float, ...] | None
    load_after: tuple[float, ...] | None
    steal_before_ms: float | None
    steal_after_ms: float | None
    failed: tuple[FailedVariant, ...]
    comparisons: tuple[Comparison, ...] | None = None
    groups: dict[str, float] = field(default_factory=lambda: {"": LIMIT})


@dataclass(frozen=True)
class RunInfo:
    """The whole of run.json."""

    schema_version: int
    run_id: str
    origin: str
    profile: str
    command: str | None
    started: str
    ended: str | None
    machine: Machine
    toolchain: Toolchain
    codegen: Codegen
    crates: dict[str, str | tuple[str, ...]]
    git: Git | None
    studies: dict[str, StudyInfo]


def read_run_info(path: Path) -> RunInfo:
    """The records of a run.json.

    Raises `DataError` for torn JSON, another schema version, unknown, missing or ill-typed fields, names that could
    leave their folder or a page, an unfinished study, and code that was not compiled for measuring.
    """
    document = _read_json(path)
    _check_version(path, document)
    info = _record(path, RunInfo, document, "")
    _check_names(path, info)
    _check_complete(path, info)
    for study, details in info.studies.items():
        _check_comparisons(path, details, f"studies.{study}")
    _check_codegen(path, info.codegen)
    return info


def _read_json(path: Path) -> dict:
    def no_duplicates(pairs: list) -> dict:
        seen = dict(pairs)
        if len(seen) != len(pairs):
            raise DataError(path, "a field appears twice", "Restore the file from where it was measured")
        return seen

    def no_constant(name: str) -> None:
        raise DataError(path, f"{name} is not a number", "An unknown fact is null")

    try:
        require_plain_file(path)
        text = path.read_text(encoding="utf-8")
        document = json.loads(text, object_pairs_hook=no_duplicates, parse_constant=no_constant)
    except FileNotFoundError:
        raise DataError(
            path, "the file is missing", "A run's folder appears whole: restore it, or measure again"
        ) from None
    except OSError as error:
        problem = f"the file cannot be read ({type(error).__name__})"
        raise DataError(path, problem, "Restore the file from where it was measured") from None
    except json.JSONDecodeError as error:
        problem = "torn or invalid JSON"
        raise DataError(path, problem, "Restore the file from where it was measured", row=error.lineno) from None
    except (ValueError, RecursionError):  # not UTF-8, a number of thousands of digits, or thousands of brackets
        raise DataError(path, "not JSON text", "Restore the file from where it was measured") from None
    if not isinstance(document, dict):
        raise DataError(path, "not a JSON object", "Restore the file from where it was measured")
    return document


def _check_version(path: Path, document: dict) -> None:
    version = document.get("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        problem = f"schema version {quoted(version)}, this package reads version {SCHEMA_VERSION}"
        raise DataError(path, problem, "Use the revision of async-cost that made the run", column="schema_version")


def _record(path: Path, kind: object, value: object, field: str) -> object:
    """`value` as the type `kind` (a dataclass, tuple, dict, union or plain type); `field` is its dotted name."""
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _one_of(path, typing.get_args(kind), value, field)
    if origin is tuple:
        if isinstance(value, list):
            item = typing.get_args(kind)[0]
            return tuple(_record(path, item, entry, f"{field}[{place}]") for place, entry in enumerate(value))
    elif origin is dict:
        if isinstance(value, dict):
            item = typing.get_args(kind)[1]
            return {
                _text(path, name, field): _record(path, item, entry, f"{field}.{name}") for name, entry in value.items()
            }
    elif is_dataclass(kind):
        if isinstance(value, dict):
            return _fields(path, kind, value, field)
    elif kind is str:
        if isinstance(value, str):
            return _text(path, value, field)
    elif kind is float:
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST and isfinite(value):
            return float(value)
    elif type(value) is kind:
        if kind is int and not 0 <= value <= LARGEST:
            problem = f"{quoted(value)} is {'negative' if value < 0 else 'beyond all measure'}"
            raise DataError(path, problem, "Restore the file from where it was measured", column=field)
        return value
    problem = f"{quoted(value)} is not {_kind_name(kind)}"
    raise DataError(path, problem, "See run.json in data/README.md", column=field)


def _one_of(path: Path, kinds: tuple, value: object, field: str) -> object:
    if value is None and type(None) in kinds:
        return None
    kinds = [kind for kind in kinds if kind is not type(None)]
    for kind in kinds[:-1]:
        try:
            return _record(path, kind, value, field)
        except DataError:
            continue
    return _record(path, kinds[-1], value, field)


def _fields(path: Path, kind: type, value: dict, field: str) -> object:
    hints = typing.get_type_hints(kind)
    names = [entry.name for entry in fields(kind)]
    required = {entry.name for entry in fields(kind) if entry.default is entry.default_factory is MISSING}
    prefix = f"{field}." if field else ""
    for name in value:
        if name not in names:
            remedy = "Nothing is dropped silently: use the revision of async-cost that made the run"
            raise DataError(path, f"unknown field {quoted(name)}", remedy, column=f"{prefix}{quoted(name)}")
    for name in names:
        if name in required and name not in value:
            raise DataError(path, "the field is missing", "An unknown fact is null, not left out", column=prefix + name)
    return kind(**{name: _record(path, hints[name], value[name], prefix + name) for name in names if name in value})


def _text(path: Path, value: str, field: str) -> str:
    if not value.isprintable() and any(not c.isprintable() for c in value):
        problem = f"{quoted(value)} holds control characters"
        raise DataError(path, problem, "Write plain text in one line", column=field)
    return value


def _kind_name(kind: object) -> str:
    if is_dataclass(kind) or typing.get_origin(kind) is dict:
        return "an object"
    if typing.get_origin(kind) is tuple:
        return "a list"
    return {str: "text", int: "a whole number", float: "a number", bool: "true or false"}.get(kind, str(kind))


def _check_names(path: Path, info: RunInfo) -> None:
    """Names become folders and headings: plain ones only, and the ones of the folder that holds the file."""
    if not SLUG.fullmatch(info.machine.name):
        problem = f"{quoted(info.machine.name)} is not a machine name"
        remedy = "Lower case letters, digits and hyphens only, such as amd-epyc-2c"
        raise DataError(path, problem, remedy, column="machine.name")
    machine, _, time = info.run_id.partition("/")
    if machine != info.machine.name or not UTC_NAME.fullmatch(time):
        problem = f"{quoted(info.run_id)} is not a run id of machine {info.machine.name}"
        raise DataError(
            path, problem, "It reads <machine>/<utc-time>, such as amd-epyc-2c/20261120T190102Z", column="run_id"
        )
    folder = path.resolve().parent
    if folder.parent.name != ".partial" and (folder.parent.name, folder.name) != (machine, time):
        problem = f"the run calls itself {info.run_id} but lies in {quoted(folder.parent.name + '/' + folder.name)}"
        raise DataError(path, problem, "Move the folder to where its run id says", column="run_id")
    for study, details in info.studies.items():
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", study):
            raise DataError(path, f"{quoted(study)} is not a study", "Lower case words with hyphens", column="studies")
        for name, value in (("started", details.started), ("ended", details.ended)):
            _check_time(path, value, f"studies.{study}.{name}")
    _check_time(path, info.started, "started")
    _check_time(path, info.ended, "ended")
    for name, value, known in (("profile", info.profile, PROFILES), ("origin", info.origin, ORIGINS)):
        if value not in known:
            raise DataError(path, f"{quoted(value)} is none of {', '.join(known)}", "Measure again", column=name)


def _check_time(path: Path, value: str | None, field: str) -> None:
    if value is None:
        return
    try:
        known = UTC_TIME.fullmatch(value) and datetime.fromisoformat(value)
    except ValueError:  # the form is right, but there is no such day or hour
        known = None
    if not known:
        problem = f"{quoted(value)} is not a time in UTC"
        raise DataError(path, problem, "It reads 2026-11-20T19:01:02Z", column=field)


def _check_complete(path: Path, info: RunInfo) -> None:
    remedy = "Resume it: `make report` goes on at the first round that is missing"
    if not info.studies:
        raise DataError(path, "the run holds no study", "Measure one", column="studies")
    for study, details in info.studies.items():
        if details.state != "complete":
            problem = f"study {study} is {quoted(details.state)}, not complete"
            raise DataError(path, problem, remedy, column=f"studies.{study}.state")
        if details.rounds < 1 or details.samples < 1:
            raise DataError(path, f"study {study} has no rounds", "Measure again", column=f"studies.{study}.rounds")
        if max(details.rounds, details.samples) > MOST_ROUNDS:
            problem = f"study {study} has more than {MOST_ROUNDS:,} rounds or samples of a trial"
            raise DataError(path, problem, "Measure again", column=f"studies.{study}.rounds")


def _check_comparisons(path: Path, details: StudyInfo, field: str) -> None:
    """A key is compared once, with another key, in a group that has a limit."""
    remedy = "Restore the file from where it was measured"
    for name, limit in details.groups.items():
        if not 0 < limit < 1:
            problem = f"the limit {limit} of group {quoted(name)} is no share between 0 and 1"
            raise DataError(path, problem, remedy, column=f"{field}.groups")
    if details.comparisons is None and "" not in details.groups:
        raise DataError(
            path, "no comparison is declared, and there is no group '' for all", remedy, column=f"{field}.groups"
        )
    seen = set()
    for entry in details.comparisons or ():
        key = quoted(" / ".join(entry.key))
        if entry.group not in details.groups:
            problem = f"{key} is compared in group {quoted(entry.group)}, which has no limit"
        elif entry.key == entry.baseline:
            problem = f"{key} is compared with itself"
        elif entry.key in seen:
            problem = f"{key} is compared twice"
        else:
            seen.add(entry.key)
            continue
        raise DataError(path, problem, remedy, column=f"{field}.comparisons")


def _check_codegen(path: Path, codegen: Codegen) -> None:
    """The stock kernel compiles like a debug build, where async looks dearer or cheaper than it is."""
    wanted = {
        "opt_level": "3",
        "debug_assertions": "False",
        "overflow_checks": "False",
        "codegen_units": "1",
        "incremental": "False",
    }
    for name, value in wanted.items():
        found = str(getattr(codegen, name))
        if found != value:
            problem = f"measured with {name} = {quoted(found)} instead of {value}, as a debug build"
            remedy = "Set the CARGO_PROFILE_DEV_ variables of the notebook's first cell and measure again"
            raise DataError(path, problem, remedy, column=f"codegen.{name}")


def check_clock(path: Path, info: RunInfo, now: datetime | None = None) -> None:
    """Do the times of a run.json make sense: in order, and neither ahead of `now` nor before there was Rust?

    Raises `DataError`. Nothing is computed from these times but durations and an order of runs, so a reader of one run does without
    this check, and a measurement is not lost because somebody set the clock; whoever sets runs side by side needs it.
    """
    latest = (datetime.now(UTC) if now is None else now) + CLOCK_AHEAD
    spans = {"": info} | {f"studies.{study}.": details for study, details in info.studies.items()}
    remedy = "Set the clock of the machine and measure again"
    for prefix, span in spans.items():
        times = {name: datetime.fromisoformat(value) for name in ("started", "ended") if (value := getattr(span, name))}
        for name, time in times.items():
            if not EARLIEST <= time <= latest:
                raise DataError(path, f"{time:%Y-%m-%d} cannot be the day of a run", remedy, column=prefix + name)
        if len(times) == 2 and times["ended"] < times["started"]:
            raise DataError(path, "the end lies before the start", remedy, column=f"{prefix}ended")
