"""Many runs compared; those that cannot be used are set aside, by name and with the reason.

Only the table of comparisons of each run is kept, so memory grows with the number of runs and findings, not with their samples. It is the same
table as on the pages of that run, so a finding has the same verdict in both places.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from async_cost import words
from async_cost.errors import DataError, quoted
from async_cost.paths import shown
from async_cost.runs.reader import REMEASURE
from async_cost.runs.record import RunInfo, StudyInfo, check_clock
from async_cost.runs.run import find_runs, open_run
from async_cost.statistics.judge import VERDICTS
from async_cost.statistics.table import Comparisons, comparisons

#: A finding is what is said about one pair: `variant` compared with `other`, which names the bench and the parameter of the baseline where they are others.
FINDING = ("study", "bench", "variant", "other", "parameter")
RUNS = {
    "run": pl.String,
    "machine": pl.String,
    "cpu": pl.String,
    "cores": pl.Int64,
    "rustc": pl.String,
    "origin": pl.String,
    "profile": pl.String,
    "started": pl.String,
}
STUDIES = {"run": pl.String, "study": pl.String, "trusted": pl.Boolean, "reason": pl.String, "rows": pl.Int64}
NUMBERS = dict.fromkeys(("ratio", "low", "high", "limit"), pl.Float64) | {
    "rounds": pl.Int64,
    "control": pl.Boolean,
    "verdict": VERDICTS,
}
RATIOS = {"run": pl.String, "machine": pl.String} | dict.fromkeys(FINDING, pl.String) | NUMBERS
#: Reasons that are told of one study of a run, of which each control has its own.
MOST_REASONS = 2
ASIDE = {"run": pl.String, "reason": pl.String}


@dataclass(frozen=True)
class Fleet:
    """What a number of runs say.

    `runs`: run, machine, cpu, cores, rustc, origin, profile, started. `studies`: run, study, trusted (in one group of comparisons at
    least), reason (why it is not, or not in all), rows (samples read). `ratios`: run, machine, study, bench, variant, other, parameter, ratio,
    low, high, limit (of what counts as the same), rounds, control, verdict (null where the run is no evidence for that group). `aside`: run,
    reason, both text from outside.
    """

    runs: pl.DataFrame
    studies: pl.DataFrame
    ratios: pl.DataFrame
    aside: pl.DataFrame

    @property
    def rows(self) -> int:
        """Samples that were read."""
        return self.studies["rows"].sum()


def chosen_folders(environ: Mapping[str, str] = os.environ, root: Path | None = None) -> list[Path]:
    """The runs to compare: those that ASYNC_COST_COMPARE names (separated as in PATH), else all of them.

    All are those under `root` (default: the folder in ASYNC_COST_RUNS, else data/runs) and the one of ASYNC_COST_RUN, which may lie elsewhere.
    """
    if named := environ.get("ASYNC_COST_COMPARE"):
        return list(dict.fromkeys(Path(folder).resolve() for folder in named.split(os.pathsep)))
    here = [Path(named).resolve()] if (named := environ.get("ASYNC_COST_RUN")) else []
    if root is None and (elsewhere := environ.get("ASYNC_COST_RUNS")):
        root = Path(elsewhere)
    return list(dict.fromkeys([*here, *(path.resolve() for path in find_runs(root))]))


def read_fleet(folders: Sequence[Path]) -> Fleet:
    """Reads all runs, in the given order. Never raises because of what is in a folder: see `Fleet.aside`."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(zip(folders, pool.map(_read_or_reason, folders), strict=True))
    runs, aside = _without_twins(outcomes)
    ratios = [
        _findings(run.table.frame.drop_nulls("ratio"))
        .with_columns(run=pl.lit(run.info.run_id), machine=pl.lit(_machine(run.info)))
        .select(*RATIOS)
        for run in runs
    ]
    evidence = [
        (run.info.run_id, name, frame["doubt"].is_null().any(), _reason(frame), rows)
        for run in runs
        for name, rows in run.table.rows.items()
        for frame in [run.table.of(name)]
    ]
    return Fleet(
        runs=pl.DataFrame([_run_row(run.info) for run in runs], schema=RUNS, orient="row"),
        studies=pl.DataFrame(evidence, schema=STUDIES, orient="row"),
        ratios=pl.concat([pl.DataFrame(schema=RATIOS), *ratios]),
        aside=pl.DataFrame(aside, schema=ASIDE, orient="row"),
    )


@dataclass(frozen=True)
class _Read:
    info: RunInfo
    table: Comparisons


def _read_or_reason(folder: Path) -> _Read | str:
    try:
        run = open_run(folder)
        check_clock(folder / "run.json", run.info)
        table = comparisons(run)
        for name, elapsed_ns in table.elapsed_ns.items():
            _check_elapsed(folder, name, run.info.studies[name], elapsed_ns)
        return _Read(run.info, table)
    except DataError as error:
        return str(error)
    except (OSError, pl.exceptions.PolarsError) as error:
        return f"{shown(folder)}: the run cannot be read ({type(error).__name__})"


def _check_elapsed(folder: Path, name: str, details: StudyInfo, elapsed_ns: int) -> None:
    """All samples were taken one after another between start and end."""
    if details.ended is None:
        return
    lasted = words.seconds_between(details.started, details.ended) + 1  # both are cut to whole seconds
    if elapsed_ns > lasted * 1e9:
        problem = f"the samples of {name} took {elapsed_ns / 1e9:.0f} s together, in {lasted - 1:.0f} s by the clock"
        raise DataError(
            folder / "run.json", problem, "Set the clock of the machine and measure again", column="studies"
        )


def _findings(table: pl.DataFrame) -> pl.DataFrame:
    """The table with `other`: the baseline's variant, its bench where that is another one than its name, its parameter where that differs."""
    other, bench, parameter = (pl.col(f"baseline_{name}") for name in ("variant", "bench", "parameter"))
    elsewhere = (bench != pl.col("bench")) & ~bench.str.starts_with(other)
    named = pl.when(elsewhere).then(pl.format("{} in {}", other, bench)).otherwise(other)
    changed = parameter != pl.col("parameter")
    shown = pl.when(parameter == "").then(pl.lit("no parameter")).otherwise(parameter)
    return table.with_columns(other=pl.when(changed).then(pl.format("{} ({})", named, shown)).otherwise(named))


def _reason(table: pl.DataFrame) -> str:
    """Why not all groups of a study are evidence; empty if they are."""
    if table.is_empty():
        return "no comparisons"
    groups = table.sort(pl.col("doubt").is_not_null(), maintain_order=True).unique(
        "group", keep="first", maintain_order=True
    )
    doubts = groups["doubt"].drop_nulls()
    kinds = doubts.unique(maintain_order=True).to_list()
    more = [words.counted(len(kinds) - MOST_REASONS, "other reason")] if len(kinds) > MOST_REASONS else []
    told = ", ".join([*kinds[:MOST_REASONS], *more])
    return f"in {doubts.len()} of {groups.height} groups: {told}" if 0 < doubts.len() < groups.height else told


def _without_twins(outcomes: Sequence[tuple[Path, "_Read | str"]]) -> tuple[list[_Read], list[tuple[str, str]]]:
    """Runs, and what is set aside; two runs with one id, or with the very same samples, are one run and its copy."""
    runs, aside, ids, samples = [], [], set(), {}
    for folder, outcome in outcomes:
        name = "/".join(folder.parts[-2:])
        if isinstance(outcome, str):
            aside.append((name, outcome))
            continue
        table = outcome.table
        twins = {(name, rows, table.elapsed_ns[name]): outcome.info.run_id for name, rows in table.rows.items()}
        original = next((samples[key] for key in twins if key in samples), None)
        if outcome.info.run_id in ids:
            aside.append(
                (name, f"{shown(folder)}: another folder holds a run of the same id {quoted(outcome.info.run_id)}")
            )
        elif original is not None:
            aside.append((name, f"{shown(folder)}: holds the very samples of run {original}. {REMEASURE}"))
        else:
            runs.append(outcome)
            ids.add(outcome.info.run_id)
            samples |= twins
    return runs, aside


def _machine(info: RunInfo) -> str:
    """The machine of a run. Native programs and cells are compiled differently, so their runs count as different machines."""
    return info.machine.name + (" (native)" if info.origin == "native" else "")


def _run_row(info: RunInfo) -> tuple:
    machine = info.machine
    return (
        info.run_id,
        _machine(info),
        machine.cpu,
        machine.logical_cores,
        info.toolchain.rustc,
        info.origin,
        info.profile,
        info.started,
    )
