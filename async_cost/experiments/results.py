"""The results of experiments on the measuring itself: reads their table, and computes errors and differences from it.

`async_cost.experiments.measure` makes the table; data/README.md describes it. A machine without one has no results, and
every question about them gets an empty frame.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from scipy import stats

from async_cost.errors import DataError
from async_cost.paths import repository_root
from async_cost.runs.comparisons import KEY, PAIR
from async_cost.runs.reader import unpacked
from async_cost.statistics.interval import CONFIDENCE, LEAST_EPISODES, estimates, freedom
from async_cost.statistics.judge import VERDICTS, Verdict, verdict_column
from async_cost.statistics.ratios import enough_episodes, paired
from async_cost.statistics.trials import ALONE, undisturbed

#: Where results are kept, below the root of the repository.
FOLDER = Path("data/experiments")
COLUMNS = {
    "experiment": pl.String,
    "setting": pl.String,
    "repeat": pl.Int64,
    **dict.fromkeys(KEY, pl.String),
    "round": pl.Int64,
    "episode": pl.Int64,
    "ns": pl.Float64,
}
#: What is compared in repeated runs: as in a run.json, `limit` being half the width of the region of practical
#: equivalence, `kind` that of its group (null: not known, in older results).
PAIRS = {
    "study": pl.String,
    **dict.fromkeys(PAIR, pl.String),
    "limit": pl.Float64,
    "control": pl.Boolean,
    "kind": pl.String,
}
BASELINE = "manual"
#: Version 2 added the episode of a trial and what repeated runs compare.
SCHEMA_VERSIONS = (1, 2)
#: By how much code is made slower on paper, to see whether the judge finds it.
EFFECTS = (0.0, 0.005, 0.02, 0.05, 0.2)
#: Standard errors between which a normal variable lies in 95 % of cases.
NORMAL = 1.96


@dataclass(frozen=True)
class Experiments:
    """`record` is experiments.json (None: nothing was measured), `trials` the table of `COLUMNS`."""

    record: dict | None
    trials: pl.DataFrame

    def of(self, experiment: str) -> pl.DataFrame:
        """The trials of one experiment."""
        return self.trials.filter(experiment=experiment)

    @property
    def pairs(self) -> pl.DataFrame:
        """What is compared in the experiment `repeats`: the columns of `PAIRS`."""
        return pl.DataFrame((self.record or {}).get("comparisons", []), schema=PAIRS)


def newest(machine: str, environ: Mapping[str, str] = os.environ, root: Path | None = None) -> Experiments:
    """The newest result from this machine; else the newest from any machine; else an empty one.

    ASYNC_COST_EXPERIMENTS names another folder, or says `none`. Raises `DataError` for a damaged one.
    """
    root = repository_root() / FOLDER if root is None else root
    named = environ.get("ASYNC_COST_EXPERIMENTS")
    if named and named != "none":
        return load(Path(named))
    folders = [path for path in root.glob("[!.]*/[!.]*") if path.is_dir() and not named]
    folders.sort(key=lambda path: (path.parent.name == machine, path.name, path.parent.name))
    return load(folders[-1]) if folders else Experiments(None, pl.DataFrame(schema=COLUMNS))


def load(folder: Path) -> Experiments:
    """The result in `folder`. Raises `DataError` if it is not complete."""
    record_file, table = folder / "experiments.json", folder / "trials.csv.gz"
    remedy = "Remove the folder, or measure with `make experiments`"
    try:
        record = json.loads(record_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(record_file, f"not readable ({type(error).__name__})", remedy) from None
    version = record.get("schema_version") if isinstance(record, dict) else None
    if version not in SCHEMA_VERSIONS:
        known = " or ".join(map(str, SCHEMA_VERSIONS))
        raise DataError(record_file, f"not of schema version {known}", remedy, column="schema_version")
    columns = {name: kind for name, kind in COLUMNS.items() if version > 1 or name != "episode"}
    try:
        trials = pl.read_csv(unpacked(table, table.read_bytes()), schema=columns)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(table, f"not readable ({type(error).__name__})", remedy) from None
    bad = trials.with_row_index("row", 2).filter(~(pl.col("ns") > 0) | pl.col("ns").is_null()).head(1)
    for row in bad.iter_rows(named=True):
        raise DataError(table, "a time that is not above 0", remedy, row["row"], "ns")
    if version == 1:
        trials = trials.with_columns(episode=pl.lit(None, COLUMNS["episode"]))
    return Experiments(record, trials.select(*COLUMNS))


def repeats(trials: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """What each run says: study, repeat, the columns of a pair, limit, control, log_ratio, low, high, error, episodes.

    Takes the trials of the experiment of that name and rows of `PAIRS`. `low` and `high` are the ends of the interval
    of `log_ratio`, as the pages have it before the controls of a whole run widen it; `error` is its standard error.
    """
    by, beside = ("setting", "repeat", *PAIR), pairs.select(PAIR)
    ratios = enough_episodes(_ratios(_compared(trials, pairs), beside), _ratios(trials, beside), by)
    if ratios.is_empty():
        return pairs.select(
            *PAIRS, repeat=pl.lit(0), **dict.fromkeys(("log_ratio", "low", "high", "error"), "limit"), episodes=0
        ).clear()
    found = estimates(ratios, "log_ratio", by).rename({"setting": "study"})
    return (
        found.with_columns(error=(pl.col("high") - pl.col("low")) / 2 / pl.col("quantile"))
        .join(pairs, on=["study", *PAIR])
        .select(*PAIRS, "repeat", "log_ratio", "low", "high", "error", "episodes")
        .sort("study", *PAIR, "repeat")
    )


def dealt(trials: pl.DataFrame) -> pl.DataFrame:
    """The same processes dealt out to as many runs, one of each real run in turn, so that every run is spread over the
    whole time: columns as given.

    The workflow spreads a run of many studies like that; a run of a few keys is over before the machine changes its
    state. These runs share their minutes, so they agree more easily than complete runs, and runs made one after the
    other agree less easily.
    """
    runs = pl.col("repeat").n_unique().over("setting").cast(pl.Int64)
    return trials.with_columns((pl.col("repeat") + pl.col("episode")) % runs)


def coverage(found: pl.DataFrame) -> pl.DataFrame:
    """The share of pairs of runs that agree within their intervals: study, runs, cases, share, low, high, expected.

    Takes rows of `repeats`. A case is a comparison in two runs: |difference of the log ratios| < 1.96 of its standard
    error, the root of the sum of the squares of both runs'. Cases of one run depend on each other, so the interval of
    the share is a bootstrap over runs (percentiles, with a fixed seed; null of fewer than four runs). `expected` is the
    share if the intervals are right: t, with the degrees of freedom of two runs.
    """
    cases = _two_runs(found).with_columns(agree=pl.col("difference").abs() < NORMAL * pl.col("difference_error"))
    rows = []
    for (study,), part in cases.group_by("study", maintain_order=True):
        numbers = sorted({*part["repeat"], *part["repeat_other"]})
        low, high = _over_runs(part, numbers)
        episodes = part["episodes"].min()
        right = 2 * stats.t.cdf(NORMAL, 2 * freedom(episodes)) - 1 if episodes >= LEAST_EPISODES else CONFIDENCE
        rows.append((study, len(numbers), part.height, part["agree"].mean(), low, high, float(right)))
    kinds = {
        "study": pl.String,
        "runs": pl.Int64,
        "cases": pl.Int64,
        **dict.fromkeys(("share", "low", "high", "expected"), pl.Float64),
    }
    return pl.DataFrame(rows, schema=kinds, orient="row").sort("study")


def _over_runs(cases: pl.DataFrame, numbers: list[int]) -> tuple[float | None, float | None]:
    """The interval of the share of `cases` that agree, if other runs had been drawn; `numbers` are those of the
    runs.
    """
    if len(numbers) < LEAST_EPISODES:
        return None, None
    place = {number: index for index, number in enumerate(numbers)}
    agree, all_cases = np.zeros((2, len(numbers), len(numbers)))
    for one, other, agrees in cases.select("repeat", "repeat_other", "agree").iter_rows():
        agree[place[one], place[other]] += agrees
        all_cases[place[one], place[other]] += 1

    def share(drawn: np.ndarray) -> float:
        # A run that is drawn several times makes no pair with itself.
        times = np.bincount(drawn.astype(int), minlength=len(numbers))
        weight = np.outer(times, times)
        return (weight * agree).sum() / (weight * all_cases).sum()

    drawn = stats.bootstrap(
        (np.arange(len(numbers)),),
        share,
        vectorized=False,
        method="percentile",
        confidence_level=CONFIDENCE,
        n_resamples=2000,
        rng=np.random.default_rng(1),
    ).confidence_interval
    return float(drawn.low), float(drawn.high)


def planted(found: pl.DataFrame, effects: tuple[float, ...] = EFFECTS) -> pl.DataFrame:
    """What the judge says about known effects: study, limit, effect, cases, slower, same, faster, undecided, found,
    missed, wrong (shares).

    Takes rows of `repeats`. For each comparison of different code and each run, the judge of the pages gets the
    interval minus the truth, which is the mean of the other runs, plus the effect. An effect above the limit should be
    called slower, any other the same: `found`. `missed` is undecided, `wrong` every other verdict.
    """
    others = pl.col("log_ratio").sum().over("study", *PAIR) - pl.col("log_ratio")
    runs = pl.len().over("study", *PAIR)
    less = (
        found.filter(~pl.col("control")).with_columns(truth=others / (runs - 1), runs=runs).filter(pl.col("runs") > 1)
    )
    shifted = less.join(pl.DataFrame({"effect": effects}), how="cross").with_columns(
        (pl.col(end) - pl.col("truth") + (1 + pl.col("effect")).log()).exp() for end in ("low", "high")
    )
    right = (
        pl.when(pl.col("effect") > pl.col("limit"))
        .then(pl.lit(Verdict.SLOWER.value))
        .otherwise(pl.lit(Verdict.SAME.value))
    )
    word = pl.col("verdict").cast(pl.String)
    return (
        shifted.with_columns(verdict_column(True, pl.col("limit")))
        .group_by("study", "limit", "effect")
        .agg(
            pl.len().alias("cases"),
            *((word == verdict).mean().alias(verdict) for verdict in VERDICTS.categories),
            found=(word == right).mean(),
            missed=(word == Verdict.UNDECIDED.value).mean(),
            wrong=(~word.is_in(pl.concat_list(right, pl.lit(Verdict.UNDECIDED.value)))).mean(),
        )
        .sort("study", "limit", "effect")
    )


def identical(trials: pl.DataFrame) -> pl.DataFrame:
    """What each reading says about one function compared with itself: setting, repeat, ratio, error (|ratio - 1|).

    Takes the trials of the experiment of that name. For rounds it is the median of their ratios, for other methods the
    ratio of their two estimates.
    """
    estimated = trials.filter(pl.col("round").is_null())
    base = estimated.filter(variant=BASELINE).select("setting", "repeat", base_ns="ns")
    twin = estimated.filter(pl.col("variant") != BASELINE).join(base, on=["setting", "repeat"])
    readings = [
        _ratios(trials).group_by("setting", "repeat").agg(pl.col("ratio").median()),
        twin.select("setting", "repeat", ratio=pl.col("ns") / pl.col("base_ns")),
    ]
    return pl.concat(readings).with_columns(error=(pl.col("ratio") - 1).abs()).sort("setting", "repeat")


def errors(found: pl.DataFrame) -> pl.DataFrame:
    """The errors of each method: setting, readings, median, p90, p99 (quantiles), the smallest median first. Takes rows
    of `identical`.
    """
    return found.group_by("setting").agg(pl.len().alias("readings"), *_quantiles(pl.col("error"))).sort("median")


def layouts(trials: pl.DataFrame) -> pl.DataFrame:
    """The ratio of each variant in each order of linking: variant, setting, ratio, low, high, rounds."""
    return _estimated(trials, ("variant", "setting"))


def spread(found: pl.DataFrame) -> pl.DataFrame:
    """How far the orders of linking move each variant: variant, least, most, moved (most / least - 1), apart.

    Takes rows of `layouts`. `apart` is true if the intervals of the smallest and the largest ratio do not overlap.
    """
    return (
        found.sort("ratio")
        .group_by("variant", maintain_order=True)
        .agg(
            least=pl.col("ratio").first(),
            most=pl.col("ratio").last(),
            apart=pl.col("high").first() < pl.col("low").last(),
        )
        .with_columns(moved=pl.col("most") / pl.col("least") - 1)
        .sort("moved", descending=True)
    )


def kernels(trials: pl.DataFrame) -> pl.DataFrame:
    """Ratios to `manual` in each way of compiling: bench, variant, parameter, setting, ratio, low, high, rounds."""
    return _estimated(trials, (*KEY, "setting"))


def departures(found: pl.DataFrame, setting: str) -> pl.DataFrame:
    """A setting's ratios compared with the native ones: bench, variant, parameter, native, other, ratio (other /
    native), low, high, apart.

    Takes rows of `kernels`. The two were measured in separate rounds, so the interval from `low` to `high` combines
    both intervals and errs on the wide side. `apart` is true if it excludes 1. The largest departure comes first.
    """
    native = found.filter(setting="native").select(*KEY, native="ratio", native_low="low", native_high="high")
    both = found.filter(setting=setting).join(native, on=KEY)
    return (
        both.select(
            *KEY,
            "native",
            other="ratio",
            ratio=pl.col("ratio") / pl.col("native"),
            low=pl.col("low") / pl.col("native_high"),
            high=pl.col("high") / pl.col("native_low"),
        )
        .with_columns(apart=(pl.col("low") > 1) | (pl.col("high") < 1))
        .sort(pl.col("ratio").log().abs(), descending=True)
    )


def _quantiles(value: pl.Expr) -> list[pl.Expr]:
    """median, p90 and p99 of a value."""
    shares = {"median": 0.5, "p90": 0.9, "p99": 0.99}
    return [value.quantile(share, "linear").alias(name) for name, share in shares.items()]


def _two_runs(found: pl.DataFrame) -> pl.DataFrame:
    """Each comparison in each pair of runs: study, the columns of a pair, control, episodes, repeat, repeat_other,
    difference, difference_error.

    Takes rows of `repeats`; the difference is that of the log ratios.
    """
    by = ["study", *PAIR, "control"]
    return (
        found.join(found, on=by, suffix="_other")
        .filter(pl.col("repeat") < pl.col("repeat_other"))
        .select(
            *by,
            pl.min_horizontal("episodes", "episodes_other"),
            "repeat",
            "repeat_other",
            difference=pl.col("log_ratio_other") - pl.col("log_ratio"),
            difference_error=(pl.col("error") ** 2 + pl.col("error_other") ** 2).sqrt(),
        )
    )


def _compared(trials: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """The trials of repeated runs behind the comparisons, as on the pages: for a study on one thread the undisturbed
    ones.
    """
    columns = ["setting", "repeat", *KEY, "round", "episode", "ns"]
    alone = pl.col("setting").is_in(pairs.filter(kind=ALONE)["study"].unique().implode())
    quick = undisturbed(trials.filter(alone), ("setting", "repeat"))
    return pl.concat([quick.select(columns), trials.filter(~alone).select(columns)])


def _ratios(trials: pl.DataFrame, pairs: pl.DataFrame | None = None) -> pl.DataFrame:
    """Ratios within each round of each setting and repeat: setting, repeat, the columns of a pair, episode, ratio,
    log_ratio.

    `pairs` are the six columns of a pair; without them every variant is compared with the baseline of its parameter.
    """
    # One number for a round of a setting and repeat; results of schema version 1 knew no episodes.
    rounds = trials.drop_nulls("round").with_columns(
        pl.struct("setting", "repeat", "round").rank("dense").alias("round"), pl.col("episode").fill_null(0)
    )
    whose = rounds.select("setting", "repeat", "round").unique()
    beside = _beside_baseline(rounds) if pairs is None else pairs
    return (
        paired(rounds, beside)
        .join(whose, on="round")
        .select("setting", "repeat", *PAIR, "episode", "ratio", "log_ratio")
    )


def _beside_baseline(trials: pl.DataFrame) -> pl.DataFrame:
    """Every variant compared with the baseline of its parameter: the columns of a pair."""
    keys = trials.select(KEY).unique()
    base = keys.filter(variant=BASELINE).select("parameter", *(pl.col(name).alias(f"baseline_{name}") for name in KEY))
    return keys.filter(pl.col("variant") != BASELINE).join(base, on="parameter").select(PAIR)


def _estimated(trials: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """Estimates over the rounds of all repeats, each of which is one process or several."""
    ratios = _ratios(trials)
    if ratios.is_empty():
        return ratios.select(*by, "ratio", low="ratio", high="ratio", rounds=pl.lit(0)).clear()
    processes = ratios.with_columns(episode=pl.struct("repeat", "episode").rank("dense"))
    # An estimate needs two rounds.
    enough = processes.filter(pl.len().over(by) > 1)
    return estimates(enough, by=by).select(*by, "ratio", "low", "high", "rounds")
