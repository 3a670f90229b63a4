"""run.json: everything that is known about a run except its numbers, as typed records.

A record has exactly its fields: an unknown field, a missing one or one of another type is a `DataError`, since a reader
that skips what it does not know cannot claim to have understood the rest. Facts that the measuring machine did not
reveal are None. Only `read_run_info` opens a run.json.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal, get_args

import msgspec
import polars as pl
from msgspec import Meta

from async_cost.errors import DataError, quoted
from async_cost.paths import SLUG
from async_cost.runs.comparisons import recorded
from async_cost.runs.profiles import PROFILES
from async_cost.runs.reader import REMEASURE, read_json
from async_cost.runs.schemas import STUDY

SCHEMA_VERSION = 4
#: Kinds of groups of comparisons. The controls of one kind, in all studies of a run, show one systematic error.
Kind = Literal["one thread", "forked trials", "many threads", "long trials"]
KINDS: tuple[Kind, ...] = get_args(Kind)

#: floats beyond this fit no column of a table.
LARGEST = 2**63 - 1
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
#: No measurement has more rounds, or samples in a trial: at 1 ms for a trial, these would take 16 minutes for each
#: variant.
Rounds = Annotated[int, Meta(ge=1, le=1_000_000)]
#: A time in UTC, such as 2026-11-20T19:01:02Z.
Time = Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z$")]
#: A SHA-256.
HASH = re.compile("[0-9a-f]{64}")
Hash = Annotated[str, Meta(pattern=f"^{HASH.pattern}$")]
#: Hashes of definitions (`runs.judged`), or of older runs one of all of them.
Definitions = Annotated[str, Meta(pattern="^([0-9a-f]{64}|[0-9a-f]{16}( [0-9a-f]{16})*)$")]


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all records of a run.json have in common."""


class Span(Record, frozen=True):
    """What began, and ended or was interrupted."""

    started: Time
    ended: Time | None

    def __post_init__(self) -> None:
        for time in (self.started, self.ended or self.started):
            datetime.fromisoformat(time)  # raises ValueError for a day that does not exist


class Cache(Record, frozen=True):
    """One cache of the processor."""

    level: Count
    kind: str
    bytes: Count


class CoreType(Record, frozen=True):
    """Cores of one kind, on a processor with several."""

    name: str
    cores: Count


#: What tells one kind of processor from another: virtual machines often hide the model in `cpu`, but not the caches.
PROCESSOR = ("cpu", "architecture", "logical_cores", "caches")


class Machine(Record, frozen=True):
    """The machine, without anything that names its owner.

    `affinity` are the numbers of the logical processors that the run might use, `quota_cores` is how many processors'
    time it might use at most ("none" without a limit). `address_randomisation` is how much of where things lie in
    memory is drawn anew for each process: 0 nothing, 1 all but the heap, 2 everything. `mitigations` says what the
    system does against each weakness of the processor.
    """

    name: Annotated[str, Meta(pattern=f"^{SLUG.pattern}$")]
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
    minimum_mhz: float | None
    maximum_mhz: float | None
    threads_per_core: Count | None
    core_types: tuple[CoreType, ...] | None
    affinity: tuple[Count, ...] | None
    quota_cores: float | str | None
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


class Episode(Span, frozen=True):
    """One of the processes that measured a study: from `first_round` to the next one's, or to the end.

    `ended` is None if it was interrupted. `layout` is the number from which the order of linking was drawn; null means
    that of the compiler.
    """

    first_round: Count
    layout: Count | None


class StudyInfo(Span, frozen=True):
    """How one study was measured. Loads are averages over 1, 5 and 15 minutes; steal is in ms since boot, over all
    CPUs; throttled is how often a limit of processor time was used up.

    `groups` maps the name of each group of comparisons to the half-width of its region of practical equivalence,
    `kinds` to its kind.
    """

    state: str
    baseline: str
    controls: tuple[str, ...]
    comparisons: tuple[Comparison, ...]
    groups: dict[str, Annotated[float, Meta(gt=0, lt=1)]]
    seed: Count
    rounds: Rounds
    samples: Rounds
    warm_up_ns: Count
    trial_ns: Count
    resumed: Count
    load_before: tuple[float, ...] | None
    load_after: tuple[float, ...] | None
    steal_before_ms: Count | None
    steal_after_ms: Count | None
    failed: tuple[FailedVariant, ...]
    episodes: tuple[Episode, ...]
    kinds: dict[str, Kind]
    throttled_before: Count | None
    throttled_after: Count | None


class RunInfo(Span, frozen=True):
    """The whole of run.json. `claims` and `findings` are hashes of what the run will judge, `program` one of
    all that is measured, as they were when the run began. `series` is the run id of the first run of its
    series, `waited_s` how long the run waited for the machine to become quiet, `boot` what tells this start of
    the machine from another, and `rows` how many rows each table has, by its name unpacked (older runs say
    neither). `origin` is `crate` for a bench of another repository, by the crate by-turns, which is compiled as
    its program is shipped.
    """

    schema_version: Literal[4]
    run_id: Annotated[str, Meta(pattern=r"^[a-z0-9-]+/\d{8}T\d{6}Z$")]
    origin: Literal["notebook", "native", "crate"]
    profile: str
    command: str | None
    machine: Machine
    toolchain: Toolchain
    codegen: Codegen
    crates: dict[str, str | tuple[str, ...]]
    git: Git | None
    studies: Annotated[dict[Annotated[str, Meta(pattern=STUDY)], StudyInfo], Meta(min_length=1)]
    claims: Definitions | None
    findings: Definitions | None
    program: Hash | None
    series: str | None
    waited_s: float | None
    boot: Hash | None = None
    rows: dict[str, Count] | None = None


# Two threads that first use a type at once have crashed msgspec.
msgspec.json.Decoder(RunInfo)
#: What is wrong: the field, the problem, the remedy.
Problem = tuple[str, str, str]


def read_run_info(path: Path) -> RunInfo:
    """Read the run.json of a finished run.

    Raises `DataError` for torn JSON, another schema version, unknown, missing or ill-typed fields, a run in a folder of
    another name, an unfinished study, and code that was not compiled for measuring.
    """
    info = read_record(path)
    for column, problem, remedy in _problems(path, info):
        raise DataError(path, problem, remedy, column=column)
    return info


def read_record(path: Path) -> RunInfo:
    """Read a run.json whose fields are there and of the right types, of a run that may be unfinished, or of an
    experiment.
    """
    document = read_json(path)
    if (version := document.get("schema_version")) != SCHEMA_VERSION:
        problem = f"schema version {quoted(version)}, this package reads {SCHEMA_VERSION}"
        remedy = "Use the revision of async-cost that made the run, or measure again"
        raise DataError(path, problem, remedy, column="schema_version")
    studies = document.get("studies")
    where = "$"
    try:
        for study, details in studies.items() if isinstance(studies, dict) else ():
            where = f"$.studies.{study}"
            if isinstance(details, dict) and HASH.fullmatch(str(details.get("comparisons"))):
                details["comparisons"] = recorded(path.parent, details["comparisons"])
            msgspec.convert(details, StudyInfo)
        where = "$"
        return msgspec.convert(document, RunInfo)
    except (msgspec.ValidationError, pl.exceptions.PolarsError) as error:
        message = str(error).replace(" - at `$", f" - at `{where}", 1)
        message = "".join(character if character.isprintable() else "?" for character in message)
        problem, _, field = message.removesuffix("`").partition(" - at `$.")
        remedy = "See data/README.md: measure again, or use the revision of async-cost that made the run"
        raise DataError(path, problem, remedy, column=field) from None


def _problems(path: Path, info: RunInfo) -> Iterator[Problem]:
    """Find all that is wrong with a run.json whose fields are there and of the right types."""
    machine, _, time = info.run_id.partition("/")
    folder = path.resolve().parent
    if machine != info.machine.name:
        yield "run_id", f"{info.run_id} is not a run id of machine {info.machine.name}", REMEASURE
    if folder.parent.name != ".partial" and (folder.parent.name, folder.name) != (machine, time):
        problem = f"the run calls itself {info.run_id} but lies in {quoted(folder.parent.name + '/' + folder.name)}"
        yield "run_id", problem, "Move the folder to where its run id says"
    if info.profile not in PROFILES:
        yield "profile", f"{quoted(info.profile)} is none of {', '.join(PROFILES)}", REMEASURE
    for study, details in info.studies.items():
        field = f"studies.{study}"
        if details.state != "complete":
            remedy = "Resume it: `make report` continues with the first missing round"
            yield f"{field}.state", f"study {study} is {quoted(details.state)}, not complete", remedy
        yield from _groups(details, field)
        firsts = [episode.first_round for episode in details.episodes]
        if firsts[:1] != [0] or firsts != sorted(set(firsts)) or firsts[-1] >= details.rounds:
            problem = f"episodes begin with rounds {quoted(firsts)}: from 0, ascending, below {details.rounds}"
            yield f"{field}.episodes", problem, REMEASURE
    # The stock kernel compiles like a debug build, in which the cost of async is distorted.
    wanted = {"debug_assertions": "False", "overflow_checks": "False"}
    if info.origin != "crate":
        wanted |= {"opt_level": "3", "codegen_units": "1", "incremental": "False"}
    for name, value in wanted.items():
        if (recorded_value := str(getattr(info.codegen, name))) != value:
            problem = f"measured with {name} = {quoted(recorded_value)} instead of {value}, as a debug build"
            remedy = "Set the CARGO_PROFILE_DEV_ variables of the notebook's first cell and measure again"
            yield f"codegen.{name}", problem, remedy


def _groups(details: StudyInfo, field: str) -> Iterator[Problem]:
    """Find groups without a limit or a kind."""
    for name in sorted(details.groups.keys() ^ details.kinds.keys()):
        yield f"{field}.groups", f"group {quoted(name)} lacks its limit or its kind", REMEASURE
    for name in sorted({entry.group for entry in details.comparisons} - details.groups.keys()):
        yield f"{field}.comparisons", f"keys are compared in group {quoted(name)}, which has no limit", REMEASURE
