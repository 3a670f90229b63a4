"""Many runs side by side: one pass over all of them, with whatever cannot be used set aside by name and reason.

A run is read in one of two ways. The quick one lets polars scan the few columns that a ratio needs and checks that the table has
the very shape in which the harness writes it. Where anything is out of that shape, the strict reader (`load_run`) has the
word: it either accepts the run or says which row is wrong. So hundreds of honest runs take seconds, a hostile one costs the time
of an error message, and no run is believed by the quick way that the strict one would refuse.

Only ratios with their intervals are kept of a run: memory grows with the number of runs and findings, not with their samples.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats

from async_cost import words
from async_cost.errors import DataError, quoted
from async_cost.paths import shown
from async_cost.runs.comparisons import BASE_KEY, KEY, due_controls, pairs_of
from async_cost.runs.record import LIMIT, RunInfo, StudyInfo, check_clock, read_run_info
from async_cost.runs.run import find_runs, load_run, no_stray_tables, table_file
from async_cost.runs.tables import COUNTER, REMEASURE, MetricRows, TimeRows, unpacked
from async_cost.statistics.estimate import CONFIDENCE, trial_times
from async_cost.statistics.verdict import verdict_column

#: The types of a time.csv for the quick way. Signed, so that a negative number is seen as one.
TIME = {"study": pl.String} | dict.fromkeys(KEY, pl.String)
TIME |= dict.fromkeys(("round", "position", "sample", "iterations", "elapsed_ns"), pl.Int64)
#: The same for a counts.csv.
COUNTS = {"study": pl.String} | dict.fromkeys((*KEY, "counter"), pl.String) | {"value": pl.Int64}
WORD, WORD_OR_NOTHING = (TimeRows.columns()[name].regex for name in ("variant", "parameter"))
METRICS = [name for name in MetricRows.column_names() if name != "line"]
#: A finding is what is said about one pair of variants: `variant` against `other`.
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
RATIOS = {"run": pl.String, "machine": pl.String} | dict.fromkeys(FINDING, pl.String)
RATIOS |= dict.fromkeys(("ratio", "low", "high", "limit"), pl.Float64) | {"rounds": pl.Int64}
#: A parameter that says how much work of its own a request has.
OWN_WORK = r"work=[1-9]"
ASIDE = {"run": pl.String, "reason": pl.String}


@dataclass(frozen=True)
class Headline:
    """A finding that is named in words, since it is one of those that people decide by: `variant` against `other`."""

    study: str
    variant: str
    other: str
    parameter: str
    label: str


HEADLINES = (
    Headline("zero-cost", "nonbox", "manual", "syscalls=off", "async / published loop"),
    Headline("zero-cost", "nonbox", "manual (best)", "syscalls=off", "async / best loop"),
    Headline("zero-cost", "nonbox", "manual", "syscalls=on", "async / loop, with system calls"),
    Headline("zero-cost-sockets", "async", "manual", "live=256", "async / loop, on sockets"),
    Headline("zero-cost-ladder", "frontier", "manual (best)", "live=3", "leanest async / best loop"),
    Headline("zero-cost-ladder", "lean + box", "slab index", "live=3", "boxed / unboxed"),
    Headline("zero-cost-ladder", "Arc waker", "Rc waker", "live=3", "Arc waker / Rc waker"),
    Headline("zero-cost-ladder", "lean + mutex queue", "slab index", "live=3", "locked queue / plain queue"),
    Headline("zero-cost", "large+nonbox", "nonbox", "syscalls=off", "16 KiB futures / small ones"),
)


@dataclass(frozen=True)
class Fleet:
    """What a number of runs say.

    `runs`: run, machine, cpu, cores, rustc, origin, profile, started. `studies`: run, study, trusted (in one group of comparisons at
    least), reason (why it is not, or not in all), rows (samples read). `ratios`: run, machine, study, bench, variant, other, parameter, ratio,
    low, high, limit (of what counts as the same), rounds, verdict (null where the run is no evidence for that group). `aside`: run,
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
    """The runs to set side by side: those that ASYNC_COST_COMPARE names (separated as in PATH), else all that there are.

    All are those under `root` (default: the folder in ASYNC_COST_RUNS, else data/runs) and the one of ASYNC_COST_RUN, which may lie elsewhere.
    """
    if named := environ.get("ASYNC_COST_COMPARE"):
        return list(dict.fromkeys(Path(folder).resolve() for folder in named.split(os.pathsep)))
    here = [Path(named).resolve()] if (named := environ.get("ASYNC_COST_RUN")) else []
    if root is None and (elsewhere := environ.get("ASYNC_COST_RUNS")):
        root = Path(elsewhere)
    return list(dict.fromkeys([*here, *(path.resolve() for path in find_runs(root))]))


def read_fleet(folders: Sequence[Path]) -> Fleet:
    """Reads all runs, in the order given. Never raises for what is in a folder: see `Fleet.aside`."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = list(zip(folders, pool.map(_read_or_reason, folders), strict=True))
    runs, aside = _without_twins(outcomes)
    studies = [(run.info, study) for run in runs for study in run.studies]
    ratios = [
        study.ratios.with_columns(run=pl.lit(info.run_id), machine=pl.lit(info.machine.name)) for info, study in studies
    ]
    evidence = [
        (info.run_id, study.name, bool(study.ratios["trusted"].any()), study.reason, study.rows)
        for info, study in studies
    ]
    columns = RATIOS | {"trusted": pl.Boolean}
    frame = pl.concat([pl.DataFrame(schema=columns), *(part.select(*columns) for part in ratios)])
    return Fleet(
        runs=pl.DataFrame([_run_row(run.info) for run in runs], schema=RUNS, orient="row"),
        studies=pl.DataFrame(evidence, schema=STUDIES, orient="row"),
        ratios=frame.with_columns(verdict_column(pl.col("trusted"), pl.col("limit"))).drop("trusted"),
        aside=pl.DataFrame(aside, schema=ASIDE, orient="row"),
    )


# -- one run -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Study:
    """One study of a run: its ratios and whether each may be believed, why not all are (else empty), its samples and their time together."""

    name: str
    ratios: pl.DataFrame
    reason: str
    rows: int
    elapsed_ns: int


@dataclass(frozen=True)
class _Read:
    info: RunInfo
    studies: list[_Study]


def _read_or_reason(folder: Path) -> _Read | str:
    try:
        return _read(folder)
    except DataError as error:
        return str(error)
    except (OSError, pl.exceptions.PolarsError) as error:
        return f"{shown(folder)}: the run cannot be read ({type(error).__name__})"


def _read(folder: Path) -> _Read:
    if not folder.is_dir():
        raise DataError(folder, "there is no such run", "Name a folder data/runs/<machine>/<utc-time>")
    info = read_run_info(folder / "run.json")
    check_clock(folder / "run.json", info)
    no_stray_tables(folder, info)
    return _Read(info, [_study(folder, info, name) for name in info.studies])


def _study(folder: Path, info: RunInfo, name: str) -> _Study:
    details = info.studies[name]
    path = table_file(folder, f"{name}.time.csv")
    table = _quick_table(path, name, details) if _quick_others(folder, name) else None
    if table is None:
        table = _strict_table(folder, name)
    _check_elapsed(folder, name, details, table.elapsed_ns)
    plan = _Plan(tuple(table.keys), details.baseline, details.comparisons, tuple(details.groups.items()), details.controls,
                 details.failed, name, details, path)  # fmt: skip
    ratios, reason = _judged(info, plan, _ratios(table, plan))
    return _Study(name, ratios, reason, table.rows, table.elapsed_ns)


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


# -- from a table to a matrix ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Table:
    """`ns[key, round]` for the keys (bench, variant, parameter); samples and their time together."""

    keys: list[tuple[str, str, str]]
    ns: np.ndarray
    rows: int
    elapsed_ns: int


def _quick_table(path: Path, study: str, details: StudyInfo) -> _Table | None:
    """The table if it is exactly as the harness writes it: trial after trial, complete; None for anything else."""
    source = _source(path, TIME)
    if source is None:
        return None
    sample = pl.col("sample")
    columns = [
        *KEY,
        "round",
        "position",
        "sample",
        "elapsed_ns",
        (pl.col("elapsed_ns") / pl.col("iterations")).alias("ns"),
    ]
    one_trial = pl.all_horizontal(pl.col(name) == pl.col(name).shift(1) for name in KEY) | (sample == 0)
    try:
        time = (
            pl.scan_csv(source, schema=TIME, empty_string_is_null=False)
            .select(*columns, ((pl.col("study") == study) & one_trial).alias("honest"), pl.col("iterations") > 0)
            .collect()
        )
    except pl.exceptions.PolarsError:
        return None
    if time.is_empty() or any(column.null_count() for column in time):
        return None
    if not (time["honest"].all() and time["iterations"].all() and time["elapsed_ns"].min() > 0):
        return None
    sample = time["sample"].to_numpy()
    starts = np.flatnonzero(sample == 0)
    lengths = np.diff(np.append(starts, len(sample)))
    first = np.repeat(starts, lengths) if len(starts) and starts[0] == 0 else None
    if first is None or (sample != np.arange(len(sample)) - first).any() or lengths.max() > details.samples:
        return None
    if any((time[name].to_numpy() != time[name].to_numpy()[first]).any() for name in ("round", "position")):
        return None
    trials = time.select(*KEY, "round", "position")[starts]
    trials = trials.with_columns(ns=_medians(time["ns"].to_numpy(), first, lengths), samples=lengths).sort(
        *KEY, "round"
    )
    keys = trials.select(KEY).unique(maintain_order=True).rows()
    if trials.height != len(keys) * details.rounds or not _plain(tuple(keys)) or trials["position"].min() < 0:
        return None
    rounds, samples = (trials[name].to_numpy().reshape(len(keys), -1) for name in ("round", "samples"))
    if (rounds != np.arange(details.rounds)).any() or (samples != samples[:, :1]).any() or details.failed:
        return None
    return _Table(keys, trials["ns"].to_numpy().reshape(len(keys), -1), time.height, time["elapsed_ns"].sum())


def _medians(ns: np.ndarray, first: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The median of each trial; `first` is the row in which the trial of a row begins."""
    if (lengths == lengths[0]).all():
        return np.median(ns.reshape(-1, lengths[0]), axis=1)
    return pl.DataFrame({"first": first, "ns": ns}).group_by("first", maintain_order=True).median()["ns"].to_numpy()


def _quick_others(folder: Path, study: str) -> bool:
    """Whether the tables that no ratio needs are whole and plain all the same. If not, the strict reader has the word."""
    metrics = table_file(folder, f"{study}.metrics.csv")
    return _quick_counts(table_file(folder, f"{study}.counts.csv"), study) and (
        not (metrics.exists() or metrics.is_symlink()) or _source(metrics, METRICS) is not None
    )


def _quick_counts(path: Path, study: str) -> bool:
    """Whether a table of counts is whole and plain."""
    source = _source(path, COUNTS)
    if source is None:
        return False
    try:
        counts = pl.read_csv(source, schema=COUNTS, empty_string_is_null=False)
    except pl.exceptions.PolarsError:
        return False
    if counts.is_empty() or any(column.null_count() for column in counts) or counts["value"].min() < 0:
        return False
    names = [name for name in COUNTS if name != "value"]
    return not counts.select(names).is_duplicated().any() and _plain_counts(tuple(counts.select(names).rows()), study)


@lru_cache(maxsize=64)
def _plain_counts(rows: tuple[tuple[str, ...], ...], study: str) -> bool:
    counters = pl.Series([row[4] for row in rows]).str.contains(COUNTER)
    return {row[0] for row in rows} == {study} and counters.all() and _plain(tuple({row[1:4] for row in rows}))


def _source(path: Path, schema: Iterable[str]) -> Path | bytes | None:
    """What polars may scan: a whole text with the columns of `schema`; None for anything else."""
    header = ",".join(schema).encode() + b"\n"
    if path.is_symlink() or not path.is_file():
        return None
    if path.suffix == ".gz":
        try:
            text = unpacked(path, path.read_bytes())
        except (DataError, OSError):
            return None
        return text if text.startswith(header) and text.endswith(b"\n") else None
    with path.open("rb") as file:
        if file.read(len(header)) != header:
            return None
        file.seek(-1, os.SEEK_END)
        return path if file.read(1) == b"\n" else None


@lru_cache(maxsize=64)
def _plain(keys: tuple[tuple[str, str, str], ...]) -> bool:
    """Whether all names are words that may stand in a table. (Remembered: runs of one revision have the same names.)"""
    names = pl.DataFrame(keys, schema=list(KEY), orient="row")
    good = pl.col("bench", "variant").str.contains(WORD), pl.col("parameter").str.contains(WORD_OR_NOTHING)
    return names.select(pl.all_horizontal(*good).all()).item()


def _strict_table(folder: Path, study: str) -> _Table:
    """The table as the strict reader has it, without variants that failed. Raises its `DataError`."""
    run = load_run(folder)
    time = run.whole_time(study)
    trials = trial_times(time)
    keys = trials.select(KEY).unique(maintain_order=True).rows()
    return _Table(keys, trials["ns"].to_numpy().reshape(len(keys), -1), time.height, time["elapsed_ns"].sum())


# -- from a matrix to ratios -----------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def interval_ranks(rounds: int, confidence: float = CONFIDENCE) -> tuple[int, int]:
    """Which of `rounds` sorted values, counted from 0, bound the interval of their median.

    These order statistics hold the median with at least `confidence`, whatever the distribution, and differ from the ends of the bootstrap
    that `estimate` uses by about one rank; they cost nothing, which the bootstrap of hundreds of runs does not. With too few
    rounds for that confidence it is the smallest and the largest.
    """
    below = int(stats.binom.ppf((1 - confidence) / 2, rounds, 0.5))
    low = max(below - 1, 0)
    return low, rounds - 1 - low


@dataclass(frozen=True)
class _Plan:
    """What a study compares. Runs of one revision have equal plans, so what follows from a plan is found out once."""

    keys: tuple[tuple[str, str, str], ...]
    baseline: str
    comparisons: tuple | None
    groups: tuple[tuple[str, float], ...]
    controls: tuple[str, ...]
    failed: tuple
    study: str
    details: StudyInfo = field(compare=False)
    path: Path = field(compare=False)


@dataclass(frozen=True)
class _Pairs:
    """Which keys (as numbers) are divided by which; their names, groups and limits; which rows are controls and which are due."""

    ones: list[int]
    others: list[int]
    names: pl.DataFrame
    is_control: np.ndarray
    due: pl.DataFrame


@lru_cache(maxsize=64)
def _pairs(plan: _Plan) -> _Pairs:
    """The comparisons that the study declared or has by default, and its headlines.

    Levels of own work are left out: they are points of a curve, not findings of their own. Raises `DataError` as `pairs_of` does.
    """
    failed = [(entry.bench, entry.variant, entry.parameter) for entry in plan.failed]
    keys = pl.DataFrame([*plan.keys, *failed], schema=list(KEY), orient="row").unique(maintain_order=True)
    declared = pairs_of(plan.details, keys, plan.path).filter(~pl.col("parameter").str.contains(OWN_WORK))
    due = due_controls(plan.details, declared)
    place = {key: number for number, key in enumerate(plan.keys)}
    pairs = [(row[:3], row[3:6], row[6:]) for row in declared.select(*KEY, *BASE_KEY, "group", "limit").rows()]
    groups = {one: group for one, _, group in pairs}
    known = {(one, other) for one, other, _ in pairs}
    for entry in HEADLINES:
        if entry.study == plan.study:
            named = _named_pairs(plan.keys, entry)
            pairs += [(one, other, groups.get(one, ("", LIMIT))) for one, other in named if (one, other) not in known]
    pairs = [pair for pair in pairs if pair[0] in place and pair[1] in place]
    controls = set(due.select(KEY).rows())
    names = pl.DataFrame(
        [
            (plan.study, *one[:2], other[1] if other[1] != one[1] else " ".join(other), one[2], *group)
            for one, other, group in pairs
        ],
        schema=dict.fromkeys((*FINDING, "group"), pl.String) | {"limit": pl.Float64},
        orient="row",
    )
    sides = ([place[pair[side]] for pair in pairs] for side in (0, 1))
    return _Pairs(*sides, names, np.array([one in controls for one, _, _ in pairs], dtype=bool), due)


def _ratios(table: _Table, plan: _Plan) -> pl.DataFrame:
    """Columns of `Fleet.ratios` from study to rounds, and the group."""
    pairs = _pairs(plan)
    if not pairs.ones:
        kinds = RATIOS | {"group": pl.String}
        return pl.DataFrame(schema={name: kind for name, kind in kinds.items() if name not in ("run", "machine")})
    ratio = np.sort(table.ns[pairs.ones] / table.ns[pairs.others], axis=1)
    rounds = ratio.shape[1]
    # As in `trust`: the controls of a group hold 1 all together.
    controls = Counter(pairs.names["group"].filter(pairs.is_control))
    ranks = [
        interval_ranks(rounds, 1 - (1 - CONFIDENCE) / controls[group] if control else CONFIDENCE)
        for control, group in zip(pairs.is_control, pairs.names["group"], strict=True)
    ]
    low, high = np.take_along_axis(ratio, np.array(ranks), axis=1).T
    return pairs.names.with_columns(
        pl.Series("ratio", np.median(ratio, axis=1)),
        pl.Series("low", low),
        pl.Series("high", high),
        pl.lit(rounds, pl.Int64).alias("rounds"),
    )


def _named_pairs(keys: Sequence[tuple], entry: Headline) -> list[tuple[tuple, tuple]]:
    sides = [[key for key in keys if key[1:] == (name, entry.parameter)] for name in (entry.variant, entry.other)]
    return [(sides[0][0], sides[1][0])] if all(len(side) == 1 for side in sides) else []


def _judged(info: RunInfo, plan: _Plan, ratios: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """`ratios` with a column `trusted`, by the rules of `trust` for each group; and why not all are, empty when they are."""
    pairs = _pairs(plan)
    controls = ratios.filter(pairs.is_control)
    doubts = {
        group: _doubt(pairs.due.filter(group=group), controls.filter(group=group))
        for group, _ in plan.groups
        if group in pairs.names["group"]
    }
    if info.profile == "quick":
        doubts = dict.fromkeys(doubts, "quick profile")
    trusted = [group for group, doubt in doubts.items() if not doubt]
    reasons = list(dict.fromkeys(doubt for doubt in doubts.values() if doubt))
    # What is alike about dozens of groups is said once, without the places.
    kinds = list(dict.fromkeys(reason.split(" (")[0] for reason in reasons))
    reason = ", ".join(reasons if len(reasons) == 1 else kinds)
    if reason and trusted:
        reason += f" in {len(doubts) - len(trusted)} of {len(doubts)} groups"
    return ratios.with_columns(pl.col("group").is_in(trusted).alias("trusted")), reason


def _doubt(due: pl.DataFrame, controls: pl.DataFrame) -> str:
    """Why a group of comparisons is no evidence, by its `controls` and those that were `due`; empty when it is."""
    if due.is_empty():
        return "the run has no control"
    if controls.height < due.height:
        return "a control is missing"
    rows = controls.select("parameter", "low", "high", "limit").rows()
    if away := [parameter for parameter, low, high, _ in rows if not low <= 1 <= high]:
        return f"control differs from its twin ({', '.join(away)})"
    wide = [parameter for parameter, low, high, limit in rows if max(1 - low, high - 1) > limit]
    return f"control too uncertain ({', '.join(wide)})" if wide else ""


# -- runs beside each other ------------------------------------------------------------------------------------


def _without_twins(outcomes: Sequence[tuple[Path, "_Read | str"]]) -> tuple[list[_Read], list[tuple[str, str]]]:
    """Runs, and what is set aside; two runs with one id, or with the very same samples, are one run and its copy."""
    runs, aside, ids, samples = [], [], set(), {}
    for folder, outcome in outcomes:
        name = "/".join(folder.parts[-2:])
        if isinstance(outcome, str):
            aside.append((name, outcome))
            continue
        twins = {(study.name, study.rows, study.elapsed_ns): outcome.info.run_id for study in outcome.studies}
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


def _run_row(info: RunInfo) -> tuple:
    machine = info.machine
    return (
        info.run_id,
        machine.name,
        machine.cpu,
        machine.logical_cores,
        info.toolchain.rustc,
        info.origin,
        info.profile,
        info.started,
    )
