"""run.json: everything that is known about a run except its numbers, as typed records.

A record has exactly its fields: an unknown field, a missing one or one of another type is a `DataError`, since a reader
that skips what it does not know cannot claim to have understood the rest. Facts that the measuring machine did not
reveal are None. Only `read_run_info` opens a run.json.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from async_cost.errors import DataError, quoted
from async_cost.paths import SLUG
from async_cost.runs.decode import read_json, typed
from async_cost.runs.profiles import PROFILES
from async_cost.runs.reader import REMEASURE

SCHEMA_VERSION = 4
#: `crate` is a bench of somebody's own, by the crate by-turns: compiled as its program is shipped.
ORIGINS = ("notebook", "native", CRATE := "crate")
#: Kinds of groups of comparisons. The controls of one kind, in all studies of a run, show one systematic error.
KINDS = ("one thread", "forked trials", "many threads", "long trials")

UTC_NAME = re.compile(r"\d{8}T\d{6}Z")
UTC_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z")
#: No run is older than the first stable Rust.
EARLIEST = datetime(2015, 5, 15, tzinfo=UTC)
#: How far the clock of another machine may be ahead of ours.
CLOCK_AHEAD = timedelta(days=1)

#: Numbers beyond this fit no column of a table.
LARGEST = 2**63 - 1
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Number = Annotated[float, Meta(ge=-LARGEST, le=LARGEST)]
#: No measurement has more rounds, or samples in a trial: at 1 ms for a trial, these would take 16 minutes for each
#: variant.
Rounds = Annotated[int, Meta(ge=1, le=1_000_000)]
#: A SHA-256.
Hash = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
#: Hashes of definitions (`runs.judged`), or of older runs one of all of them.
Definitions = Annotated[str, Meta(pattern="^([0-9a-f]{64}|[0-9a-f]{16}( [0-9a-f]{16})*)$")]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all records of a run.json have in common."""


class Cache(Record, frozen=True):
    """One cache of the processor."""

    level: Count
    kind: str
    bytes: Count


class CoreType(Record, frozen=True):
    """Cores of one kind, on a processor with several."""

    name: str
    cores: Count


class Machine(Record, frozen=True):
    """The machine, without anything that names its owner.

    `affinity` are the numbers of the logical processors that the run might use, `quota_cores` is how many processors'
    time it might use at most ("none" without a limit). `address_randomisation` is how much of where things lie in
    memory is drawn anew for each process: 0 nothing, 1 all but the heap, 2 everything. `mitigations` says what the
    system does against each weakness of the processor.
    """

    name: str
    cpu: str | None
    architecture: str | None
    logical_cores: Count | None
    physical_cores: Count | None
    caches: tuple[Cache, ...] | None
    memory_bytes: Count | None
    virtualisation: str | None
    governor: str | None
    kernel: str | None
    os: str | None
    vendor: str | None
    minimum_mhz: Number | None
    maximum_mhz: Number | None
    threads_per_core: Count | None
    core_types: tuple[CoreType, ...] | None
    affinity: tuple[Count, ...] | None
    quota_cores: Number | str | None
    address_randomisation: Count | None
    mitigations: dict[str, str] | None


class Toolchain(Record, frozen=True):
    """Compiler, linker and, for a run from a notebook, kernel."""

    rustc: str | None
    target: str | None
    evcxr: str | None
    linker: str | None


class Codegen(Record, frozen=True):
    """How the measured code was compiled. `options` are all that the compiler was given (`-C`), without paths; from
    these come the other fields.
    """

    profile: str | None
    opt_level: Count | str | None
    debug_assertions: bool
    overflow_checks: bool
    codegen_units: Count | None
    incremental: bool | None
    lto: str | bool | None
    prefer_dynamic: bool | None
    rustflags: str | tuple[str, ...] | None
    options: tuple[str, ...] | None


class Git(Record, frozen=True):
    """The revision that was measured."""

    revision: str | None
    clean: bool | None


class Keyed(Record, frozen=True):
    """A record about one measured thing."""

    bench: str
    variant: str
    parameter: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.bench, self.variant, self.parameter


class FailedVariant(Keyed, frozen=True):
    """A variant that ended with an error or a panic; the others went on."""

    error: str


class Comparison(Keyed, frozen=True):
    """One measured key with its baseline, and the group whose limit holds for the two.

    `change` says what differs, `unit` the unit of a difference.
    """

    baseline_bench: str
    baseline_variant: str
    baseline_parameter: str
    group: str
    change: str
    unit: str

    @property
    def baseline(self) -> tuple[str, str, str]:
        return self.baseline_bench, self.baseline_variant, self.baseline_parameter


class Episode(Record, frozen=True):
    """One of the processes that measured a study: from `first_round` to the next one's, or to the end.

    `ended` is None if it was interrupted. `layout` is the number from which the order of linking was drawn; null means
    that of the compiler.
    """

    first_round: Count
    started: str
    ended: str | None
    layout: Count | None


class StudyInfo(Record, frozen=True):
    """How one study was measured. Loads are averages over 1, 5 and 15 minutes; steal is in ms since boot, over all
    CPUs; throttled is how often a limit of processor time was used up.

    `groups` maps the name of each group of comparisons to the half-width of its region of practical equivalence,
    `kinds` to its kind.
    """

    state: str
    baseline: str
    controls: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    groups: dict[str, Number]
    seed: Count
    rounds: Rounds
    samples: Rounds
    warm_up_ns: Count
    trial_ns: Count
    started: str
    ended: str | None
    resumed: Count
    load_before: tuple[Number, ...] | None
    load_after: tuple[Number, ...] | None
    steal_before_ms: Count | None
    steal_after_ms: Count | None
    failed: tuple[FailedVariant, ...]
    episodes: tuple[Episode, ...]
    kinds: dict[str, str]
    throttled_before: Count | None
    throttled_after: Count | None


class RunInfo(Record, frozen=True):
    """The whole of run.json. `claims` and `findings` are hashes of what the run will judge, `program` one of all that
    is measured, as they were when the run began. `series` is the run id of the first run of its series, `waited_s` how
    long the run waited for the machine to become quiet, `boot` what tells this start of the machine from another
    (older runs do not say it).
    """

    schema_version: Count
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
    claims: Definitions | None
    findings: Definitions | None
    program: Hash | None
    series: str | None
    waited_s: Number | None
    boot: Hash | None = None


def read_run_info(path: Path) -> RunInfo:
    """The records of a run.json.

    Raises `DataError` for torn JSON, another schema version, unknown, missing or ill-typed fields, names that could
    leave their folder or a page, an unfinished study, and code that was not compiled for measuring.
    """
    info = read_record(path)
    for column, problem, remedy in _problems(path, info):
        raise DataError(path, problem, remedy, column=column)
    return info


def read_record(path: Path) -> RunInfo:
    """The records of a run.json in the known version, whatever they say, such as those of an experiment."""
    document = read_json(path)
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        problem = f"schema version {quoted(version)}, this package reads {SCHEMA_VERSION}"
        remedy = "Use the revision of async-cost that made the run, or measure again"
        raise DataError(path, problem, remedy, column="schema_version")
    studies = document.get("studies")
    for study, details in studies.items() if isinstance(studies, dict) else ():
        typed(path, StudyInfo, details, f"studies.{study}")  # of the whole document msgspec would not say which study
    return typed(path, RunInfo, document)


#: What is wrong: the field, the problem, the remedy.
Problem = tuple[str, str, str]


def _problems(path: Path, info: RunInfo) -> Iterator[Problem]:
    """All that is wrong with a run.json whose fields are there and of the right types."""
    yield from _names(path, info)
    if not info.studies:
        yield "studies", "the run holds no study", "Measure one"
    for study, details in info.studies.items():
        field = f"studies.{study}"
        if details.state != "complete":
            remedy = "Resume it: `make report` continues with the first missing round"
            yield f"{field}.state", f"study {study} is {quoted(details.state)}, not complete", remedy
        yield from _comparisons(details, field)
        yield from _episodes(details, field)
    yield from _codegen(info)


def _names(path: Path, info: RunInfo) -> Iterator[Problem]:
    """Names become folders and headings, so they must be plain, and those of the folder that contains the file."""
    if not SLUG.fullmatch(info.machine.name):
        remedy = "Lower case letters, digits and hyphens only, such as amd-epyc-2c"
        yield "machine.name", f"{quoted(info.machine.name)} is not a machine name", remedy
    machine, _, time = info.run_id.partition("/")
    if machine != info.machine.name or not UTC_NAME.fullmatch(time):
        problem = f"{quoted(info.run_id)} is not a run id of machine {info.machine.name}"
        yield "run_id", problem, "It reads <machine>/<utc-time>, such as amd-epyc-2c/20261120T190102Z"
    folder = path.resolve().parent
    if folder.parent.name != ".partial" and (folder.parent.name, folder.name) != (machine, time):
        problem = f"the run calls itself {info.run_id} but lies in {quoted(folder.parent.name + '/' + folder.name)}"
        yield "run_id", problem, "Move the folder to where its run id says"
    for study in info.studies:
        if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", study):
            yield "studies", f"{quoted(study)} is not a study", "Lower case words with hyphens"
    spans: dict[str, RunInfo | StudyInfo | Episode] = {}
    for study, details in info.studies.items():
        spans[f"studies.{study}."] = details
        spans |= {f"studies.{study}.episodes[{place}].": one for place, one in enumerate(details.episodes)}
    for field, span in (spans | {"": info}).items():
        for name, value in (("started", span.started), ("ended", span.ended)):
            if value is not None and not _is_time(value):
                yield field + name, f"{quoted(value)} is not a time in UTC", "It reads 2026-11-20T19:01:02Z"
    for name, value, known in (("profile", info.profile, PROFILES), ("origin", info.origin, ORIGINS)):
        if value not in known:
            yield name, f"{quoted(value)} is none of {', '.join(known)}", "Measure again"


def _is_time(value: str) -> bool:
    try:
        return bool(UTC_TIME.fullmatch(value) and datetime.fromisoformat(value))
    except ValueError:  # the form is right, but there is no such day or hour
        return False


def _comparisons(details: StudyInfo, field: str) -> Iterator[Problem]:
    """Every group has a limit and one of the known kinds. Two different keys are compared once, in a group."""
    for name in sorted(details.groups | details.kinds):
        limit, kind = details.groups.get(name), details.kinds.get(name)
        if limit is None or not 0 < limit < 1:
            problem = f"the limit {limit} of group {quoted(name)} is not a share between 0 and 1"
            yield f"{field}.groups", problem, REMEASURE
        if kind not in KINDS:
            problem = f"the kind {quoted(kind)} of group {quoted(name)} is none of {', '.join(KINDS)}"
            yield f"{field}.kinds", problem, REMEASURE
    seen = set()
    for entry in details.comparisons:
        key, pair = quoted(" / ".join(entry.key)), (entry.key, entry.baseline)
        problem = ""
        if entry.group not in details.groups:
            problem = f"{key} is compared in group {quoted(entry.group)}, which has no limit"
        elif entry.key == entry.baseline:
            problem = f"{key} is compared with itself"
        elif pair in seen or pair[::-1] in seen:
            problem = f"{key} is compared twice with {quoted(' / '.join(entry.baseline))}"
        if problem:
            yield f"{field}.comparisons", problem, REMEASURE
        seen.add(pair)


def _episodes(details: StudyInfo, field: str) -> Iterator[Problem]:
    """Episodes begin at round 0, follow one another, and each of them measured something."""
    if not details.episodes:
        yield f"{field}.episodes", "no episode: some process must have measured", REMEASURE
    least = 0
    for place, episode in enumerate(details.episodes):
        first = episode.first_round
        most = details.rounds - 1 if place else 0
        if not least <= first <= most:
            problem = f"an episode begins with round {first}, instead of one from {least} to {most} (counted from 0)"
            yield f"{field}.episodes[{place}].first_round", problem, REMEASURE
        least = first + 1


def _codegen(info: RunInfo) -> Iterator[Problem]:
    """The stock kernel compiles like a debug build, in which the cost of async is distorted."""
    wanted = {"debug_assertions": "False", "overflow_checks": "False"}
    if info.origin != CRATE:
        wanted |= {"opt_level": "3", "codegen_units": "1", "incremental": "False"}
    for name, value in wanted.items():
        if (found := str(getattr(info.codegen, name))) != value:
            problem = f"measured with {name} = {quoted(found)} instead of {value}, as a debug build"
            remedy = "Set the CARGO_PROFILE_DEV_ variables of the notebook's first cell and measure again"
            yield f"codegen.{name}", problem, remedy


def check_clock(path: Path, info: RunInfo) -> None:
    """Do the times of a run.json make sense: in order, and neither ahead of now nor before there was Rust?

    Raises `DataError`. Only durations and the order of runs are computed from these times, so a reader of one run skips
    this check, and no measurement is lost because somebody set the clock; a comparison of runs needs it.
    """
    latest = datetime.now(UTC) + CLOCK_AHEAD
    spans = {"": info} | {f"studies.{study}.": details for study, details in info.studies.items()}
    for prefix, span in spans.items():
        times = [EARLIEST, *(datetime.fromisoformat(value) for value in (span.started, span.ended) if value), latest]
        if times != sorted(times):
            problem = f"a run cannot have been measured from {span.started} to {span.ended}"
            raise DataError(path, problem, "Set the clock of the machine and measure again", column=f"{prefix}started")
