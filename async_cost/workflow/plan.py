"""What one measurement consists of, and the name under which it is resumed after a kill."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from async_cost.files import read_json, write_whole
from async_cost.paths import reports_root, runs_root
from async_cost.runs.judged import claims_of_today, findings_of_today
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.workflow import episodes, layouts, sitting, toolchain
from async_cost.workflow.steps import CARGO_ENV, Command, Progress, Step, cargo_progress
from async_cost.workflow.studies import MEASURED, crate_of, left_by, measuring
from async_cost.workflow.toolchain import CRATES, EVCXR_STEP, PACKAGES, PYTHON, ROOT

#: Where runs go.
RUNS = runs_root()


class Plan:
    """What one `make measure` does: measure the studies into a partial run, then make the run appear by one rename.

    The partial run's folder is named after everything that its numbers depend on. After a kill the same command finds
    it and continues with the next round; a changed source, compiler, profile or choice of studies starts over.
    """

    def __init__(
        self,
        goal: str,
        profile: str,
        studies: Sequence[str] | None = None,
        native: bool = False,
        only: str | None = None,
        singly: bool = False,
        series: Mapping[str, Any] | None = None,
    ) -> None:
        #: Hash of all that is measured.
        self.program = _sources(tuple(MEASURED)).hexdigest()
        #: The run.json of the run of which this is another sitting.
        self.series = series
        if series:
            sitting.refuse_other(series, {"program": self.program, "toolchain": {"rustc": toolchain.rustc_version()}})
        self.profile, self.studies, self.native = profile, tuple(studies or MEASURED), native
        #: Variants of the one study, with semicolons between them: what else it has is not measured.
        self.only = only
        #: Whether the kernel gets every cell on its own, as from a person in JupyterLab.
        self.singly = singly
        #: How many times the rounds and episodes of the profile are measured.
        self.times = 1 if studies is None or len(studies) > 1 else MEASURED[studies[0]].times(profile)
        #: The command that makes such a run, for whoever reads the run.
        self.command = f"make {goal} PROFILE={profile}"
        if self.studies != tuple(MEASURED):
            self.command += f' STUDIES="{" ".join(self.studies)}"'
        if only:
            self.command += f' ONLY="{only}"'
        if native:
            self.command += " NATIVE=1"
        if singly:
            self.command += " SINGLY=1"
        if series:
            self.command = f"make {goal} RUN=data/runs/{series['run_id']}"
        #: Load averages before anything of ours ran: afterwards they tell of the compiler that compiled the cells.
        self.load_before = os.getloadavg()
        about = [profile, *self.studies, str(native), only or ""]
        #: How the studies of this very program are started: a further sitting compiles and counts nothing again.
        self.seals = RUNS / ".partial" / f"sealed-{_fingerprint(self.studies, [*about, str(singly)])}"
        about += [_revision(), series["run_id"] if series else ""]
        self.partial = RUNS / ".partial" / f"{profile}-{_fingerprint(self.studies, about)}"
        #: Where `finish` says which run came out of this plan; `close` removes nothing but this plan's claim on it.
        self.outcome = RUNS / ".partial" / "last-run.json"

    def steps(self) -> list[Step]:
        seconds, number = sum(self._seconds().values()), len(self.studies)
        count, build, each, needs = f"count {number}", "compile the cells of", 60, [PACKAGES, EVCXR_STEP, CRATES]
        if self.native:  # after the counting: what that has compiled is needed here, too
            build, each, needs = "build", 5, [count]
        ready = [
            Step(count, self._count_all, 40 * number, lambda: all(map(self._counted, self.studies)), []),
            Step(f"{build} {number}", self._prepare_all, each * number, self._all_prepared, needs),
        ]
        if self.series and all(episodes.is_sealed(self.seals, study) for study in self.studies):
            # Exact counts are read from the first sitting of a series.
            ready = [Step(f"prove {number} again", self._prove_again, 4 * number, self._all_prepared)]
        return [
            Step("compare notebooks and crates", self._compare, 2, self._finished, [PACKAGES]),
            *ready,
            Step(f"measure {number} in turns ({self.profile})", self._measure, seconds, self._finished),
            Step("complete the run", self._finish, 3, self._finished),
        ]

    def run(self) -> Path:
        """The folder of the completed run."""
        return RUNS / self._outcome()["run"]

    def close(self) -> None:
        """Record that the run was delivered, so that the next command measures a new one."""
        self.outcome.write_text(json.dumps({**self._outcome(), "plan": None}) + "\n", encoding="utf-8")

    def _outcome(self) -> dict[str, Any]:
        return read_json(self.outcome, {})

    def _finished(self) -> bool:
        """Whether the run is complete but not delivered: the previous command was stopped after measuring."""
        outcome = self._outcome()
        return outcome.get("plan") == self.partial.name and (RUNS / outcome["run"]).exists()

    def _counted(self, study: str) -> bool:
        # Not by the counts themselves: preparing a study writes some of them, too.
        return self._finished() or self._is_counted(study).exists()

    def _is_counted(self, study: str) -> Path:
        return self.partial / f"{study}.counted"

    def _all_prepared(self) -> bool:
        return all(map(self._prepared, self.studies))

    def _prepared(self, study: str) -> bool:
        return self._finished() or (
            episodes.start_file(self.partial, study).exists() and episodes.is_sealed(self.partial, study)
        )

    def _seconds(self) -> dict[str, float]:
        return {study: MEASURED[study].seconds(self.profile) * self.times for study in self.studies}

    def _env(self) -> dict[str, str]:
        return {
            "ASYNC_COST_PARTIAL": str(self.partial),
            "ASYNC_COST_PROFILE": self.profile,
            "ASYNC_COST_TIMES": str(self.times),
            "ASYNC_COST_COMMAND": self.command,
            "ASYNC_COST_CLAIMS": claims_of_today(),
            "ASYNC_COST_FINDINGS": findings_of_today(),
            "ASYNC_COST_PROGRAM": self.program,
            "CARGO_INCREMENTAL": "0",  # goes before a profile, and before what a user has configured for all profiles
            **({"ASYNC_COST_VARIANTS": self.only} if self.only else {}),
            **({"ASYNC_COST_SERIES": self.series["run_id"]} if self.series else {}),
        }

    def _compare(self, progress: Progress) -> None:
        # Else the counts of one program would stand next to the times of another.
        progress.command([PYTHON, "-m", "async_cost.workflow.in_step", *map(measuring, self.studies)])

    def _count_all(self, progress: Progress) -> None:
        self.partial.mkdir(parents=True, exist_ok=True)
        progress.commands([list(map(self._count, self._together(self._counted)))])

    def _prepare_all(self, progress: Progress) -> None:
        """Compile the programs or cells that measure; two notebooks at a time, each kernel in a folder of its own."""
        self.partial.mkdir(parents=True, exist_ok=True)
        if self.native:
            return progress.commands([list(map(self._prepare_native, self._together(self._prepared)))])
        # The notebooks of a room one after the other: they share what a kernel has compiled.
        rooms: dict[Path, list[Command]] = {}
        for study in self.studies:
            if not self._prepared(study):
                rooms.setdefault(measuring(study).parent, []).append(self._prepare(study))
        progress.commands(rooms.values(), lanes=2)

    def _prove_again(self, progress: Progress) -> None:
        """What the first sitting has compiled, in processes of this one."""
        self.partial.mkdir(parents=True, exist_ok=True)
        for study in self.studies:
            if not self._prepared(study):
                progress(study)
                episodes.reuse(self.seals, self.partial, study, self._env(), progress)

    def _together(self, done: Callable[[str], bool]) -> list[list[str]]:
        """The studies that are not done, those together that are compiled together. What is measured has the features
        that it names itself, and no others; a smoke run says nothing about time, and compiles those of others once.
        """
        left = [study for study in self.studies if not done(study)]
        return [left] if left and self.profile == "smoke" else [[study] for study in left]

    def _count(self, studies: list[str]) -> Command:
        return self._bench("counts", studies, "count", {}, lambda study: self._is_counted(study).touch())

    def _prepare_native(self, studies: list[str]) -> Command:
        """Compile and prove what measures `studies`, and record how their episodes are started."""
        env = {"ASYNC_COST_EPISODE": "prepare"}
        return self._bench(
            "measure", studies, "build", env, lambda study: episodes.seal(self.partial, study, self.seals)
        )

    def _bench(
        self, bench: str, studies: list[str], verb: str, env: dict[str, str], then: Callable[[str], object]
    ) -> Command:
        packages = [word for study in studies for word in ("-p", study)]
        name = f"{verb} {studies[0] if len(studies) == 1 else len(studies)}"
        return Command(
            ["cargo", "bench", "--locked", *packages, "--bench", bench],
            name,
            {**CARGO_ENV, **layouts.environment(), **self._env(), **env},
            cargo_progress,
            then=lambda: [then(study) for study in studies],
        )

    def _prepare(self, study: str) -> Command:
        """The same of the cells that measure `study`."""
        arguments: list[str | Path] = [PYTHON, "-m", "async_cost.workflow.execute", measuring(study)]
        arguments += [self.partial / f"{study}.measure.ipynb", *(["--singly"] if self.singly else [])]
        env = {**self._env(), "ASYNC_COST_EPISODE": "prepare"}
        return Command(arguments, f"cells of {study}", env, then=lambda: episodes.seal(self.partial, study, self.seals))

    def _measure(self, progress: Progress) -> None:
        seconds = self._seconds()
        if not episodes.done_episodes(self.partial):
            self._begin(progress, sum(seconds.values()))
        episodes.measure(self.partial, seconds, self._env(), progress)

    def _begin(self, progress: Progress, seconds: float) -> None:
        """Right before the first episode: what is evidence waits for a quiet machine."""
        file = self.partial / "run.json"
        if self.series:
            sitting.refuse_other(self.series, json.loads(file.read_text(encoding="utf-8")))
        load, waited = self.load_before, None
        if self.profile not in NOT_EVIDENCE:
            waited = sitting.wait(progress, seconds)
            load = os.getloadavg()
        sitting.record(file, load, waited)

    def _finish(self, progress: Progress) -> None:
        leave_notebooks(self.partial, self.studies, reports_root())
        progress.command([PYTHON, "-m", "async_cost.runs.finish", self.partial, RUNS, self.outcome])


def leave_notebooks(partial: Path, studies: Iterable[str], reports: Path) -> None:
    """Leave the executed notebooks of a partial run beside its pages, without folders of this machine."""
    with contextlib.suppress(OSError, ValueError, KeyError):  # what is wrong with the run, its readers say
        run = json.loads((partial / "run.json").read_text(encoding="utf-8"))["run_id"]
        for study in studies:
            if (executed := partial / f"{study}.measure.ipynb").exists():
                text = executed.read_text(encoding="utf-8").replace(str(partial), f"data/runs/{run}")
                left = left_by(reports / run, study)
                left.parent.mkdir(parents=True, exist_ok=True)
                write_whole(left, text.replace(f"{ROOT}/", "").replace(str(Path.home()), "~"))


def _fingerprint(studies: Sequence[str], about: Sequence[str]) -> str:
    """Hash of all that the numbers of `studies` depend on: sources, lock, compiler, settings, CPU, and `about`."""
    digest = _sources(studies)
    compiler = [toolchain.rustc_version(), *toolchain.compiler_settings()]
    digest.update("\0".join([*about, *compiler, _cpu()]).encode())
    return digest.hexdigest()[:16]


def _sources(studies: Sequence[str]) -> hashlib._Hash:
    digest = hashlib.sha256()
    for path in measured_files(studies):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest


def measured_files(studies: Iterable[str]) -> list[Path]:
    """The files that the numbers of `studies` depend on: notebooks, crates, those that these use, and the lock."""
    notebooks = [measuring(study) for study in studies]
    files = {ROOT / "Cargo.lock", ROOT / "Cargo.toml", ROOT / "rust-toolchain.toml", *notebooks}
    waiting, seen = [crate_of(notebook) for notebook in notebooks], set()
    while waiting:
        crate = waiting.pop()
        if crate in seen:
            continue
        seen.add(crate)
        manifest = tomllib.loads((crate / "Cargo.toml").read_text(encoding="utf-8"))
        files |= {path for path in crate.rglob("*") if path.is_file()}
        files.add((crate / manifest.get("lib", {}).get("path", "src/lib.rs")).resolve())
        for kind in ("dependencies", "build-dependencies", "dev-dependencies"):
            ours = (
                used["path"] for used in manifest.get(kind, {}).values() if isinstance(used, dict) and "path" in used
            )
            waiting += [(crate / path).resolve() for path in ours]
    return sorted(files)


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return os.uname().machine
    return "\n".join(line for line in lines if line.startswith(("model name", "cpu cores", "Hardware")))


def _revision() -> str:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return head.stdout.strip()
