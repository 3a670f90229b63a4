"""A series: runs of one program on one machine, hours apart, that readers join. Each is a sitting, and a run of its own
that is never changed; its run.json names the first run of its series.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path

import msgspec
import polars as pl

from async_cost.errors import DataError, quoted
from async_cost.runs.reader import REMEASURE
from async_cost.runs.record import RunInfo, StudyInfo
from async_cost.runs.run import Run, open_sitting

NAMED = re.compile(rb'"series":\s*"([^"\\]*)"')
#: What the sittings of a series have in common, by its field of run.json.
ALIKE = (
    *("origin", "profile", "program", "machine.name", "machine.cpu", "machine.logical_cores", "machine.caches"),
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

    def uncached(self) -> "Series":
        return replace(self, _read=dict(self._read), members=tuple(run.uncached() for run in self.members))

    def file(self, study: str, lens: str) -> Path:
        return next(run for run in self.members if study in run.info.studies).file(study, lens)

    def _load(self, lens: str, study: str) -> pl.DataFrame:
        parts, rounds, episodes, known = [], 0, 0, dict[tuple[int, int], Run]()
        for number, run in enumerate(self.members):
            if study not in run.info.studies:
                continue
            if lens == "counts":
                return run._once(lens, study)
            table = getattr(run, lens)(study).with_columns(pl.col("round") + pl.lit(rounds, pl.UInt32))
            if lens == "time":
                original = known.setdefault((table.height, table["elapsed_ns"].sum()), run)
                if original is not run:
                    problem = f"holds the same samples as {original.info.run_id}"
                    raise DataError(run.file(study, lens), problem, REMEASURE)
                places = pl.col("episode") + pl.lit(episodes, pl.UInt32), pl.lit(number, pl.UInt32).alias("sitting")
                table = table.with_columns(*places)
            parts.append(table)
            rounds += run.info.studies[study].rounds
            episodes += len(run.info.studies[study].episodes)
        return pl.concat(parts)


def _series(folder: Path) -> str | None:
    """Return the series that a run.json names: by its bytes, since many runs may lie next to one another."""
    file = folder / "run.json"
    match = NAMED.search(file.read_bytes()) if file.is_file() else None
    return match[1].decode(errors="replace") if match else None


def folders(folder: Path) -> list[Path]:
    """Return the runs of the series of the run in `folder`, the first one first. Nothing is checked."""
    folder = folder.resolve()
    name = _series(folder) or f"{folder.parent.name}/{folder.name}"
    first = folder.parents[1] / name
    others = sorted(path for path in first.parent.glob("[!.]*") if path != first and _series(path) == name)
    series = [first, *others] if first.is_dir() else others
    return series if folder in series else [folder]


def open_run(folder: Path) -> Run:
    """Return the run in `folder`, joined with the others of its series, with each run.json read and checked.

    Raises `DataError` if one is damaged, not finished, or belongs to something else, or the first one is missing.
    """
    this = open_sitting(folder)
    if this.path.resolve().parent.name == ".partial":
        return this
    named, series = this.info.series, folders(this.path)
    first, problem = series[0], ""
    if named is not None and f"{first.parent.name}/{first.name}" != named:
        problem = f"its first run {quoted(named)} is not next to it"
    elif named is not None and (further := _series(first)) not in (None, named):
        problem = f"{quoted(named)} is not the first run of a series: it names {quoted(further)}"
    if problem:
        remedy = "Name the first run of the series, and put it next to the others"
        raise DataError(this.path / "run.json", problem, remedy, column="series")
    return this if series == [this.path.resolve()] else joined(map(open_sitting, series))


def joined(members: Iterable[Run]) -> Run:
    """Join sittings to one run. Raises `DataError` if one measured something else, or elsewhere, than the first."""
    first, *others = members
    facts = _facts(first.info)
    for other in others:
        for field, fact in sorted(_facts(other.info).items()):
            if facts.get(field, fact) != fact:
                problem = f"differs from that of {first.info.run_id}, the first run of its series"
                remedy = "Sittings measure one program on one machine: move this run out of the series"
                raise DataError(other.path / "run.json", problem, remedy, column=field)
    infos = [first.info, *(other.info for other in others)]
    names = dict.fromkeys(name for info in infos for name in info.studies)
    studies = {name: _study([info.studies[name] for info in infos if name in info.studies]) for name in names}
    info = msgspec.structs.replace(first.info, studies=studies, ended=infos[-1].ended)
    return Series(first.path, info, members=(first, *others))


def _facts(info: RunInfo) -> dict[str, object]:
    """What the sittings of a series have in common, and those that measured a study of it, by field of run.json."""
    of_studies = {
        f"studies.{name}.{field}": getattr(study, field) for name, study in info.studies.items() for field in DECLARED
    }
    return {name: attrgetter(name)(info) for name in ALIKE} | of_studies


def _study(sittings: list[StudyInfo]) -> StudyInfo:
    """A study over all sittings. What was noted before and after belongs to each of them and is unknown of all."""
    episodes, rounds = [], 0
    for sitting in sittings:
        episodes += [
            msgspec.structs.replace(episode, first_round=episode.first_round + rounds) for episode in sitting.episodes
        ]
        rounds += sitting.rounds
    noted = ("load_before", "load_after", "steal_before_ms", "steal_after_ms", "throttled_before", "throttled_after")
    return msgspec.structs.replace(
        sittings[0],
        episodes=tuple(episodes),
        rounds=rounds,
        samples=max(sitting.samples for sitting in sittings),
        ended=sittings[-1].ended,
        resumed=sum(sitting.resumed for sitting in sittings),
        failed=tuple({failure.key: failure for sitting in sittings for failure in sitting.failed}.values()),
        **dict.fromkeys(noted),
    )
