"""A series: runs of one program on one machine, hours apart, that readers join. Each is a sitting, and a run of its own
that is never changed; its run.json names the first run of its series.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from pathlib import Path
from stat import S_ISREG

import msgspec
import polars as pl

from async_cost.errors import DataError, quoted
from async_cost.runs.profiles import QUIET_LOAD
from async_cost.runs.reader import REMEASURE
from async_cost.runs.record import Record, RunInfo, StudyInfo
from async_cost.runs.run import Run, open_sitting

NAMED = re.compile(rb'"series":\s*"([^"\\]*)"')
#: What the sittings of a series have in common, by its field of run.json.
ALIKE = (
    *("origin", "profile", "program", "machine.name", "machine.cpu", "machine.logical_cores"),
    *("toolchain.rustc", "toolchain.evcxr", "codegen"),
)
#: The same of a study that two of them measured.
DECLARED = ("comparisons", "groups", "kinds", "controls", "baseline")


@dataclass(frozen=True)
class Series(Run):
    """The runs `members`, the first one first, as one: its path and its name. Rounds and episodes are numbered on from
    sitting to sitting. Exact counts are those of the first that has them.
    """

    members: tuple[Run, ...] = ()

    @property
    def sittings(self) -> tuple[Run, ...]:
        return self.members

    def afresh(self) -> "Series":
        return replace(self, _read=dict(self._read), members=tuple(one.afresh() for one in self.members))

    def file(self, study: str, lens: str) -> Path:
        return next(one for one in self.members if study in one.info.studies).file(study, lens)

    def _load(self, lens: str, study: str) -> pl.DataFrame:
        parts, rounds, episodes, known = [], 0, 0, dict[tuple[int, int], Run]()
        for number, one in enumerate(self.members):
            if study not in one.info.studies:
                continue
            if lens == "counts":
                return one.counts(study)
            table = getattr(one, lens)(study).with_columns(pl.col("round") + pl.lit(rounds, pl.UInt32))
            if lens == "time":
                other = known.setdefault((table.height, table["elapsed_ns"].sum()), one)
                if other is not one:
                    problem = f"holds the very samples of {other.info.run_id}"
                    raise DataError(one.file(study, lens), problem, REMEASURE)
                places = pl.col("episode") + pl.lit(episodes, pl.UInt32), pl.lit(number, pl.UInt32).alias("sitting")
                table = table.with_columns(*places)
            parts.append(table)
            rounds += one.info.studies[study].rounds
            episodes += len(one.info.studies[study].episodes)
        return pl.concat(parts)


@lru_cache(maxsize=4096)
def _named(file: Path, _size: int, _modified: int) -> str | None:
    """The series that a run.json names: by its bytes, since many runs may lie beside one another."""
    found = NAMED.search(file.read_bytes())
    return found[1].decode(errors="replace") if found else None


def _series(folder: Path) -> str | None:
    try:
        status = (folder / "run.json").stat()
        # Whoever opens a pipe waits for its other end.
        return _named(folder / "run.json", status.st_size, status.st_mtime_ns) if S_ISREG(status.st_mode) else None
    except OSError:
        return None


def folders(folder: Path) -> list[Path]:
    """The runs of the series of the run in `folder`, the first one first; it may be alone. Nothing is checked."""
    folder = folder.resolve()
    own = f"{folder.parent.name}/{folder.name}"
    name = _series(folder) or own
    first = folder.parents[1] / name
    try:
        beside = [one for one in first.parent.iterdir() if not one.name.startswith(".")]
    except OSError:
        beside = []
    others = sorted(one for one in beside if one != first and _series(one) == name)
    found = [*([first] if first.is_dir() else []), *others]
    return found if folder in found else [folder]


def opened(folder: Path) -> Run:
    """The run in `folder`, or the series that it belongs to. Raises `DataError` if a run of it is damaged or does not
    belong to it, or its first run is missing.
    """
    this = open_sitting(folder)
    if this.path.resolve().parent.name == ".partial":
        return this
    named, found = this.info.series, folders(this.path)
    first = found[0]
    if named is not None and f"{first.parent.name}/{first.name}" != named:
        remedy = "Put the first run of the series beside the others"
        raise DataError(this.path / "run.json", f"{quoted(named)} is not beside it", remedy, column="series")
    if named is not None and (further := _series(first)) not in (None, named):
        problem = f"{quoted(named)} is not the first run of a series: it names {quoted(further)}"
        raise DataError(this.path / "run.json", problem, "Name the first run", column="series")
    return this if found == [this.path.resolve()] else joined([open_sitting(one) for one in found])


def joined(members: Iterable[Run]) -> Run:
    """These sittings as one run. Raises `DataError` if one measured something else, or elsewhere, than the first."""
    first, *others = members
    for other in others:
        _require_alike(first, other)
    return Series(first.path, _together([one.info for one in (first, *others)]), members=(first, *others))


def _require_alike(first: Run, other: Run) -> None:
    both: list[tuple[str, Record, Record]] = [(name, first.info, other.info) for name in ALIKE]
    for study in other.info.studies.keys() & first.info.studies.keys():
        studies = first.info.studies[study], other.info.studies[study]
        both += [(f"studies.{study}.{name}", *studies) for name in DECLARED]
    for field, one, two in sorted(both, key=lambda case: case[0]):
        name = field.rpartition(".")[2] if field.startswith("studies.") else field
        if attrgetter(name)(one) != attrgetter(name)(two):
            problem = f"differs from that of {first.info.run_id}, the first run of its series"
            remedy = "Sittings measure one program on one machine: move this run out of the series"
            raise DataError(other.path / "run.json", problem, remedy, column=field)


def _together(infos: list[RunInfo]) -> RunInfo:
    names = dict.fromkeys(name for info in infos for name in info.studies)
    studies = {name: _study([info.studies[name] for info in infos if name in info.studies]) for name in names}
    return msgspec.structs.replace(infos[0], studies=studies, ended=infos[-1].ended)


def _study(sittings: list[StudyInfo]) -> StudyInfo:
    """A study over all sittings. What was noted before and after belongs to each of them and is unknown of all."""
    episodes, rounds = [], 0
    for one in sittings:
        episodes += [msgspec.structs.replace(each, first_round=each.first_round + rounds) for each in one.episodes]
        rounds += one.rounds
    noted = ("load_before", "load_after", "steal_before_ms", "steal_after_ms", "throttled_before", "throttled_after")
    return msgspec.structs.replace(
        sittings[0],
        episodes=tuple(episodes),
        rounds=rounds,
        samples=max(one.samples for one in sittings),
        ended=sittings[-1].ended,
        resumed=sum(one.resumed for one in sittings),
        failed=tuple({each.key: each for one in sittings for each in one.failed}.values()),
        **dict.fromkeys(noted),
    )


def disturbed(info: RunInfo) -> str | None:
    """Why a run is no reference: it began while the machine was busy, or used up its limit of processor time."""
    for name, one in info.studies.items():
        load = one.load_before[0] if one.load_before else 0.0
        if load > QUIET_LOAD * (info.machine.logical_cores or 1):
            waited = f" after waiting for {info.waited_s:.0f} s" if info.waited_s else ""
            return f"the load was {load:.2f} before its first round{waited}"
        if (one.throttled_after or 0) > (one.throttled_before or 0):
            return f"its limit of processor time was used up while {name} was measured"
    return None


def checked_reference(ids: list[str], root: Path) -> Run:
    """The runs of these ids below `root`, which are one series. Raises `DataError` if the series has others, one is
    missing, or one began or ran disturbed.
    """
    run = opened(root / ids[0])
    file = root / "REFERENCE"
    if [one.info.run_id for one in run.sittings] != ids:
        problem = f"the series consists of {', '.join(one.info.run_id for one in run.sittings)}"
        raise DataError(file, problem, "List all of its runs, one a line, the first one first")
    for one in run.sittings:
        if why := disturbed(one.info):
            raise DataError(file, f"{one.info.run_id} is no reference: {why}", "Measure this sitting again")
    return run
