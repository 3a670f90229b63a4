"""Read a run: a table is complete and checked, or it is a `DataError`. Only what is asked for is opened."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import dataframely as dy
import polars as pl

from async_cost import words
from async_cost.errors import DataError, quoted
from async_cost.paths import runs_root, shown
from async_cost.runs.comparisons import BASE_KEY, KEY, SCHEMA
from async_cost.runs.reader import REMEASURE, read_table, refuse
from async_cost.runs.record import RunInfo, StudyInfo, read_run_info
from async_cost.runs.schemas import CountRows, MetricRows, TimeRows, of_crate

#: Follows the name of a counter in the row that stands for a count that could not be made.
FAILED = "_failed"
COUNTING_FAILED = pl.col("counter").str.ends_with(FAILED)


@dataclass(frozen=True)
class Run:
    """A run. The tables of a study are read and checked when they are first asked for; see data/README.md for columns
    and units.

    Asking for a study that the run does not contain, or for a table that is torn, foreign, duplicated or missing,
    raises `DataError`, which names file, row, column and remedy.
    """

    path: Path
    info: RunInfo
    _read: dict[tuple[str, str], pl.DataFrame] = field(default_factory=dict, repr=False, compare=False)

    def study(self, study: str) -> StudyInfo:
        """Return how `study` was measured. Raises `DataError` if it was not."""
        if study not in self.info.studies:
            problem = f"study {quoted(study)} was not measured (the run holds {', '.join(self.info.studies)})"
            raise DataError(self.path, problem, "Choose one of these, or another run")
        return self.info.studies[study]

    def time(self, study: str) -> pl.DataFrame:
        """Read the raw samples: study, bench, variant, parameter, round, position, sample, iterations, elapsed_ns,
        episode, sitting.

        `episode` is the number, from 0, of the process that measured the round, `sitting` that of the run of the series
        (`runs.series`); they come from run.json, not from the file.
        """
        return self._once("time", study)

    def whole_time(self, study: str) -> pl.DataFrame:
        """Read `time` without the variants that failed: their rounds are kept, but nothing is estimated from them."""
        failed = _failed(self.study(study))
        return self.time(study) if failed.is_empty() else self.time(study).join(failed, on=KEY, how="anti")

    def comparisons(self, study: str) -> pl.DataFrame:
        """Return what is compared with what, failed keys included, in the order of declaration: the columns of
        `SCHEMA`.
        """
        details, rows = self.study(study), []
        for entry in details.comparisons:
            again = entry.baseline_variant + words.CONTROL, entry.baseline_parameter
            control = (entry.variant, entry.parameter) == again and entry.variant in details.controls
            limit = details.groups[entry.group]
            rows.append((*entry.key, *entry.baseline, entry.group, entry.change, entry.unit, limit, control))
        return pl.DataFrame(rows, schema=SCHEMA, orient="row")

    def metrics(self, study: str) -> pl.DataFrame:
        """Read what else was noted about a sample: study, bench, variant, parameter, round, position, sample, metric,
        value.

        Empty if the study records nothing but times.
        """
        return self._once("metrics", study)

    def counts(self, study: str) -> pl.DataFrame:
        """Read exact counts for one iteration: study, bench, variant, parameter, counter, value."""
        return self._once("counts", study).filter(~COUNTING_FAILED)

    def not_counted(self, study: str) -> dict[str, int]:
        """Return, by counter, of how many variants it should have been counted and could not be."""
        failed = self._once("counts", study).filter(COUNTING_FAILED)["counter"].str.strip_suffix(FAILED)
        return dict(sorted(failed.value_counts().iter_rows()))

    def units(self, study: str) -> pl.DataFrame:
        """Return how many units of work (spawns, jobs, calls, requests) an iteration does: bench, variant, parameter,
        units.

        It is the counter `units`, in zero-cost `transactions`. Keys for which neither was counted are not there.
        """
        counted = self.counts(study).filter(pl.col("counter").is_in(["units", "transactions"]), pl.col("value") > 0)
        return counted.sort("counter").group_by(KEY).agg(units=pl.col("value").last()).sort(KEY)

    def counted_units(self, study: str) -> pl.DataFrame:
        """Return how many units of work the exact counts of a key are of: bench, variant, parameter, units.

        That is what an iteration does, unless the study counts something larger: `burst_jobs`, or the session of
        `counted_requests`; null where a session's length was not noted.
        """
        larger_units = pl.col("value").filter(pl.col("counter").is_in(["burst_jobs", "counted_requests"])).first()
        counts = (
            self.counts(study).group_by(KEY).agg(own=larger_units, session=(pl.col("counter") == "connections").any())
        )
        of_iteration = pl.when(~pl.col("session")).then(pl.col("units").fill_null(1))
        counts = counts.join(self.units(study), on=KEY, how="left")
        return counts.select(*KEY, units=pl.coalesce("own", of_iteration)).sort(KEY)

    def checked(self) -> "Run":
        """Read every table of every study, and return this run. Raises `DataError` if one of them is invalid."""
        for study in self.info.studies:
            for table in (self.time, self.counts, self.metrics):
                table(study)
        return self

    def file(self, study: str, lens: str) -> Path:
        """Return the file of a table, `time`, `counts` or `metrics`. Raises `DataError` if it is there plain and
        packed.
        """
        plain = self.path / f"{study}.{lens}.csv"
        packed = self.path / f"{plain.name}.gz"
        if plain.exists() and packed.exists():
            raise DataError(plain, "the table is there twice, plain and compressed", "Keep the one that was measured")
        return packed if packed.exists() else plain

    @property
    def sittings(self) -> tuple["Run", ...]:
        """Return the runs of the series, one for a run that is alone."""
        return (self,)

    def uncached(self) -> "Run":
        """Copy with its own table cache, so that tables read through it are freed with it."""
        return replace(self, _read=dict(self._read))

    def read(self, file: Path, schema: type[dy.Schema], study: str) -> pl.DataFrame:
        """Read a table of this run, whose names are any text if the crate has written it, and which may lack no row."""
        table = read_table(file, of_crate(schema) if self.info.origin == "crate" else schema, study)
        written = (self.info.rows or {}).get(file.name.removesuffix(".gz"), table.height)
        if table.height != written:
            raise DataError(file, f"the table has {table.height} rows, but {written} were measured", REMEASURE)
        return table

    def _once(self, lens: str, study: str) -> pl.DataFrame:
        self.study(study)
        if (lens, study) not in self._read:
            self._read[lens, study] = self._load(lens, study)
        return self._read[lens, study]

    def _load(self, lens: str, study: str) -> pl.DataFrame:
        file = self.file(study, lens)
        if lens == "counts":
            return self.read(file, CountRows, study).drop("line")
        return (_load_time if lens == "time" else _load_metrics)(self, study, file).drop("line")


def open_sitting(path: Path) -> Run:
    """Open the run in folder `path` alone. Raises `DataError` for a table that its run.json does not mention."""
    path = Path(path)
    if not path.is_dir():
        raise DataError(path, "there is no such run", f"Runs are the folders {shown(runs_root())}/<machine>/<utc-time>")
    info = read_run_info(path / "run.json")
    known = {f"{study}.{lens}.csv" for study in info.studies for lens in ("time", "counts", "metrics")}
    for file in sorted((*path.glob("*.csv"), *path.glob("*.csv.gz"))):
        if file.name.removesuffix(".gz") not in known:
            remedy = "Move the table to the run that it belongs to"
            raise DataError(file, "run.json names no such study", remedy)
    return Run(path, info)


def _failed(details: StudyInfo) -> pl.DataFrame:
    """The keys that failed: bench, variant, parameter."""
    return pl.DataFrame([entry.key for entry in details.failed], schema=dict.fromkeys(KEY, pl.String), orient="row")


def _load_time(run: Run, study: str, path: Path) -> pl.DataFrame:
    """The samples of a study, which have to agree with its comparisons and with run.json."""
    time, details = run.read(path, TimeRows, study), run.study(study)
    if time.is_empty():
        raise DataError(path, "no samples: the run is empty", REMEASURE, row=1)
    trials = time.group_by(*KEY, "round").agg(
        pl.len().alias("samples"), pl.col("position").n_unique().alias("positions"), pl.col("line").min()
    )
    _check_trials(path, trials, details)
    known = pl.concat([trials.select(KEY), _failed(details)])
    for names in (KEY, BASE_KEY):
        for row in run.comparisons(study).join(known, left_on=names, right_on=KEY, how="anti").iter_rows(named=True):
            key = quoted(" / ".join(row[name] for name in names))
            problem = f"run.json compares {key}, which was neither measured nor failed"
            raise DataError(path, problem, REMEASURE, column="bench")
    firsts = pl.Series([episode.first_round for episode in details.episodes], dtype=pl.UInt32)
    episode = firsts.search_sorted(time["round"], side="right") - 1
    return time.with_columns(episode=episode, sitting=pl.lit(0, pl.UInt32))


def _check_trials(path: Path, trials: pl.DataFrame, details: StudyInfo) -> None:
    """Every variant that did not fail was measured in every round of run.json, since ratios are taken within a round,
    and as often in each of them.
    """
    problem = f"round {{round}} in a run of {details.rounds} rounds (counted from 0)"
    refuse(path, trials.filter(pl.col("round") >= details.rounds), "round", problem)
    keys = trials.group_by(KEY).agg(pl.len().alias("rounds"), pl.col("line").min(), usual=pl.col("samples").max())
    short = keys.filter(pl.col("rounds") < details.rounds).join(_failed(details), on=KEY, how="anti")
    problem = "'{bench} / {variant} / {parameter}' was measured in {rounds} rounds and did not fail: "
    refuse(path, short, "round", f"{problem}it lacks some of {details.rounds}")
    unlike = trials.join(keys.select(*KEY, "usual"), on=KEY).filter(pl.col("samples") != pl.col("usual"))
    refuse(path, unlike, "sample", "the trial that starts here has {samples} samples instead of {usual}")
    moved = trials.filter(pl.col("positions") > 1)
    refuse(path, moved, "position", "the trial that starts here has {positions} positions")


def _load_metrics(run: Run, study: str, path: Path) -> pl.DataFrame:
    """A metric belongs to a sample of the table of times, and a key that has it has it for all of its samples."""
    if not path.exists():
        return MetricRows.create_empty()
    metrics, time = read_table(path, MetricRows, study), run.time(study)
    sample = [*KEY, "round", "position", "sample"]
    refuse(path, metrics.join(time, on=sample, how="anti"), "sample", "{metric} of a sample that has no time")
    samples = time.group_by(KEY).agg(pl.len().alias("samples"))
    counted = metrics.group_by(*KEY, "metric").agg(pl.len().alias("noted"), pl.col("line").max()).join(samples, on=KEY)
    problem = "{metric} of '{bench} / {variant} / {parameter}' is there for {noted} of its {samples} samples"
    refuse(path, counted.filter(pl.col("noted") != pl.col("samples")), "metric", problem)
    return metrics
