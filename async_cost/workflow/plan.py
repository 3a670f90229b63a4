"""What one measurement consists of, and the name under which it is resumed after a kill."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from async_cost.files import read_json
from async_cost.paths import runs_root
from async_cost.runs.judged import claims_of_today, findings_of_today, recorded
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.workflow import episodes, layouts, sitting, toolchain
from async_cost.workflow.steps import CARGO_ENV, Progress, Step, cargo_progress
from async_cost.workflow.studies import MEASURED, measuring
from async_cost.workflow.toolchain import CRATES, EVCXR_STEP, PACKAGES, PYTHON, ROOT

#: With it, what measures a study proves it, and measures nothing.
PREPARE = {"ASYNC_COST_EPISODE": "prepare"}
#: Where runs go.
RUNS = runs_root()
#: Files of a crate that a build or what it has built reads; a test compares them with those of the repository. What
#: editors and systems leave there, texts for people and tests change no number.
READ = re.compile(r"(?!\.).*\.(rs|toml|rb)|linker")
#: Folders below rust-kernels on which no number depends; tango compares another way to measure.
UNUSED = {"tests", "tango", "by-turns", "cargo-by-turns"}


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
        series: Mapping[str, Any] | None = None,
    ) -> None:
        #: Hash of all that is measured.
        self.program = _sources().hexdigest()
        #: The run.json of the run of which this is another sitting.
        self.series = series
        if series:
            sitting.refuse_other(series, {"program": self.program, "toolchain": {"rustc": toolchain.rustc_version()}})
        self.profile, self.studies, self.native = profile, tuple(studies or MEASURED), native
        #: Variants of the one study, with semicolons between them: what else it has is not measured.
        self.only = only
        #: How many times the rounds and episodes of the profile are measured.
        self.times = 1 if studies is None or len(studies) > 1 else MEASURED[studies[0]].times(profile)
        chosen = "" if self.studies == tuple(MEASURED) else f' STUDIES="{" ".join(self.studies)}"'
        chosen += (f' ONLY="{only}"' if only else "") + " NATIVE=1" * native
        #: The command that makes such a run, for its readers.
        self.command = f"make {goal} PROFILE={profile}{chosen}"
        if series:
            self.command = f"make {goal} RUN=data/runs/{series['run_id']}"
        #: Load averages before anything of ours ran: afterwards they tell of the compiler that compiled the cells.
        self.load_before = os.getloadavg()
        about = [profile, *self.studies, str(native), only or ""]
        about += [toolchain.revision(), series["run_id"] if series else ""]
        self.partial = RUNS / ".partial" / f"{profile}-{_fingerprint(about)}"
        #: Where `finish` says which run came out of this plan; `close` removes nothing but this plan's claim on it.
        self.outcome = RUNS / ".partial" / "last-run.json"

    def steps(self) -> list[Step]:
        """There are none if the run is complete but not delivered: the previous command was stopped after measuring.
        There is one if it was stopped while it completed the run.
        """
        outcome, complete = self._outcome(), Step("complete the run", self._finish, 3)
        if outcome.get("plan") == self.partial.name:
            if (RUNS / outcome["run"]).exists():
                return []
            if read_json(self.partial / "run.json", {}).get("run_id") == outcome["run"]:
                return [complete]
        seconds, number = sum(self._seconds().values()), len(self.studies)
        count = Step(f"count {number}", self._count, 40 * number, self._counted, [])
        # Exact counts are read from the first sitting of a series.
        counts = [] if self.series else [count]
        if self.native:  # after the counting: what that has compiled is needed here, too
            needs = [step.name for step in counts]
            builds = [Step(f"build {number}", self._build, 5 * number, self._prepared, needs)]
        else:
            folders = map(self._compile, dict.fromkeys(measuring(study).parent for study in self.studies))
            # The longest first, so that two at a time end at about the same time.
            builds = sorted(folders, key=lambda step: -step.expected_s)
        return [
            Step("compare notebooks and crates", self._compare, 2, needs=[PACKAGES]),
            *counts,
            *builds,
            Step(f"measure {number} in turns ({self.profile})", self._measure, seconds),
            complete,
        ]

    def run(self) -> Path:
        """The folder of the completed run."""
        return RUNS / self._outcome()["run"]

    def close(self) -> None:
        """Record that the run was delivered, so that the next command measures a new one."""
        self.outcome.write_text(json.dumps({**self._outcome(), "plan": None}) + "\n", encoding="utf-8")

    def _outcome(self) -> dict[str, Any]:
        return read_json(self.outcome, {})

    def _counted(self, *studies: str) -> bool:
        # Not by the counts themselves: preparing a study writes some of them, too.
        return all(self._is_counted(study).exists() for study in studies or self.studies)

    def _is_counted(self, study: str) -> Path:
        return self.partial / f"{study}.counted"

    def _prepared(self, *studies: str) -> bool:
        return all(episodes.is_ready(self.partial, study) for study in studies or self.studies)

    def _seconds(self) -> dict[str, float]:
        return {study: MEASURED[study].seconds(self.profile) * self.times for study in self.studies}

    def _env(self) -> dict[str, str]:
        return {
            "ASYNC_COST_PARTIAL": str(self.partial),
            "ASYNC_COST_PROFILE": self.profile,
            "ASYNC_COST_TIMES": str(self.times),
            "ASYNC_COST_COMMAND": self.command,
            "ASYNC_COST_CLAIMS": recorded(claims_of_today().values()),
            "ASYNC_COST_FINDINGS": recorded(findings_of_today().values()),
            "ASYNC_COST_PROGRAM": self.program,
            "CARGO_INCREMENTAL": "0",  # goes before a profile, and before what a user has configured for all profiles
            **({"ASYNC_COST_VARIANTS": self.only} if self.only else {}),
            **({"ASYNC_COST_SERIES": self.series["run_id"]} if self.series else {}),
        }

    def _compare(self, progress: Progress) -> None:
        # Else the counts of one program would stand next to the times of another.
        progress.command([PYTHON, "-m", "async_cost.workflow.pairing", "compare", *map(measuring, self.studies)])

    def _count(self, progress: Progress) -> None:
        self._bench("counts", {}, self._counted, lambda study: self._is_counted(study).touch(), progress)

    def _build(self, progress: Progress) -> None:
        """Compile and prove the programs that measure."""
        self._bench(
            "measure", PREPARE, self._prepared, lambda study: episodes.record_program(self.partial, study), progress
        )

    def _bench(
        self,
        bench: str,
        env: dict[str, str],
        done: Callable[[str], bool],
        then: Callable[[str], None],
        progress: Progress,
    ) -> None:
        """Run `bench` of the studies that are not done. What is measured has the features that it names itself, and no
        others, on which exact counts depend; a smoke run only shows that everything works, and compiles them together.
        """
        self.partial.mkdir(parents=True, exist_ok=True)
        left = [study for study in self.studies if not done(study)]
        together = [left] if left and self.profile == "smoke" else [[study] for study in left]
        for number, studies in enumerate(together):
            command = ["cargo", "bench", "--locked", *(f"-p{study}" for study in studies), "--bench", bench]
            env = {**CARGO_ENV, **layouts.environment(), **self._env(), **env}
            progress.part(studies[0], number, len(together)).command(command, env, cargo_progress)
            for study in studies:
                then(study)

    def _compile(self, folder: Path) -> Step:
        """Compile and prove the cells that measure the studies of a folder, one notebook after the other: they share
        what a kernel has compiled.
        """
        studies = [study for study in self.studies if measuring(study).parent == folder]

        def run(progress: Progress) -> None:
            self.partial.mkdir(parents=True, exist_ok=True)
            for number, study in enumerate(studies):
                if not self._prepared(study):
                    command: list[str | Path] = [PYTHON, "-m", "async_cost.workflow.execute", measuring(study)]
                    command += [self.partial / f"{study}.measure.ipynb"]
                    progress.part(study, number, len(studies)).command(command, {**self._env(), **PREPARE})
                    episodes.record_program(self.partial, study)

        name, needs = f"compile the cells of {folder.name}", [PACKAGES, EVCXR_STEP, CRATES]
        return Step(name, run, 90 * len(studies), lambda: self._prepared(*studies), needs)

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
        progress.command([PYTHON, "-m", "async_cost.runs.finish", self.partial, RUNS, self.outcome])


def _fingerprint(about: Sequence[str]) -> str:
    """Hash of all that numbers depend on: sources, lock, compiler, CPU, and `about`."""
    digest = _sources()
    digest.update("\0".join([*about, toolchain.rustc_version(), toolchain.cpu(), str(os.cpu_count())]).encode())
    return digest.hexdigest()[:16]


def _sources() -> hashlib._Hash:
    digest = hashlib.sha256()
    for path in measured_files():
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + _content(path) + b"\0")
    return digest


def _content(path: Path) -> bytes:
    """What a number can depend on in a file: of a notebook, its cells without what these have printed."""
    if path.suffix != ".ipynb":
        return path.read_bytes()
    cells = read_json(path, {}).get("cells", ())  # half a notebook is refused before it measures
    return json.dumps(["".join(cell["source"]) + str(cell["metadata"].get("tags")) for cell in cells]).encode()


def measured_files() -> list[Path]:
    """The files that numbers depend on: the notebooks that measure, what is read of crates, and the lock."""
    files = [ROOT / "Cargo.lock", ROOT / "Cargo.toml", ROOT / "rust-toolchain.toml", *map(measuring, MEASURED)]
    crates = ROOT / "rust-kernels"
    files += [path for path in crates.rglob("*") if READ.fullmatch(path.name) and path.is_file()]
    return sorted(path for path in files if UNUSED.isdisjoint(path.relative_to(ROOT).parts))
