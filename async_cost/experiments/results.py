"""What experiments on the measuring itself found: read their table, and compute errors and departures from it.

`async_cost.experiments.measure` makes the table; data/README.md describes it. A machine without one has no results, and every question to those
gets an empty frame.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from async_cost.errors import DataError
from async_cost.paths import repository_root
from async_cost.runs.comparisons import KEY
from async_cost.runs.reader import unpacked
from async_cost.statistics.interval import estimates
from async_cost.statistics.ratios import paired

#: Where results are kept, below the root of the repository.
FOLDER = Path("data/experiments")
COLUMNS = {
    "experiment": pl.String,
    "setting": pl.String,
    "repeat": pl.Int64,
    **dict.fromkeys(KEY, pl.String),
    "round": pl.Int64,
    "ns": pl.Float64,
}
BASELINE = "manual"
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Experiments:
    """`record` is experiments.json (None: nothing was measured), `trials` the table of `COLUMNS`."""

    record: dict | None
    trials: pl.DataFrame

    def of(self, experiment: str) -> pl.DataFrame:
        """The trials of one experiment."""
        return self.trials.filter(experiment=experiment)


def newest(machine: str, environ: Mapping[str, str] = os.environ, root: Path | None = None) -> Experiments:
    """The newest result that was made on this machine; without one, the newest of any machine; of no result, an empty one.

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
    """The result in `folder`. Raises `DataError` when it is not whole."""
    record_file, table = folder / "experiments.json", folder / "trials.csv.gz"
    remedy = "Remove the folder, or measure with `make experiments`"
    try:
        record = json.loads(record_file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(record_file, f"not readable ({type(error).__name__})", remedy) from None
    if not isinstance(record, dict) or record.get("schema_version") != SCHEMA_VERSION:
        raise DataError(record_file, f"not of schema version {SCHEMA_VERSION}", remedy, column="schema_version")
    try:
        trials = pl.read_csv(unpacked(table, table.read_bytes()), schema=COLUMNS)
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(table, f"not readable ({type(error).__name__})", remedy) from None
    bad = trials.with_row_index("row", 2).filter(~(pl.col("ns") > 0) | pl.col("ns").is_null()).head(1)
    for row in bad.iter_rows(named=True):
        raise DataError(table, "a time that is not above 0", remedy, row["row"], "ns")
    return Experiments(record, trials)


def precision(trials: pl.DataFrame) -> pl.DataFrame:
    """How wrong each reading was: setting, repeat, variant, ratio, truth, error (|ratio / truth - 1|).

    Takes the trials of the experiment of that name. A sequential reading divides Criterion's two estimates, an interleaved one is the
    median over its rounds; the truth is the median over all rounds of the reference.
    """
    per_round = _ratios(trials.drop_nulls("round"))
    truth = per_round.filter(setting="reference").group_by("variant").agg(truth=pl.col("ratio").median())
    estimated = trials.filter(pl.col("round").is_null())
    base = estimated.filter(variant=BASELINE).select("setting", "repeat", base_ns="ns")
    sequential = estimated.filter(pl.col("variant") != BASELINE).join(base, on=["setting", "repeat"])
    readings = pl.concat(
        [
            sequential.select("setting", "repeat", "variant", ratio=pl.col("ns") / pl.col("base_ns")),
            per_round.filter(setting="interleaved")
            .group_by("setting", "repeat", "variant")
            .agg(pl.col("ratio").median())
            .select("setting", "repeat", "variant", "ratio"),
        ]
    )
    return (
        readings.join(truth, on="variant")
        .with_columns(error=(pl.col("ratio") / pl.col("truth") - 1).abs())
        .sort("setting", "repeat", "variant")
    )


def layouts(trials: pl.DataFrame) -> pl.DataFrame:
    """The ratio of each variant in each order of linking: variant, setting, ratio, low, high, rounds."""
    return _estimated(trials, ("variant", "setting"))


def spread(found: pl.DataFrame) -> pl.DataFrame:
    """How far the orders of linking move each variant: variant, least, most, moved (most / least - 1), apart.

    Takes rows of `layouts`. `apart` is true where the least and the greatest ratio have intervals that do not touch.
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
    """A setting's ratios beside the native ones: bench, variant, parameter, native, other, ratio (other / native), low, high, apart.

    Takes rows of `kernels`. The two were measured in rounds of their own, so the interval from `low` to `high` is made of both
    intervals and errs on the wide side. `apart` is true where it misses 1. The largest departure comes first.
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


def baseline_times(trials: pl.DataFrame) -> pl.DataFrame:
    """The time of the baseline in each setting: parameter, setting, ns."""
    return (
        trials.filter(variant=BASELINE)
        .group_by("parameter", "setting")
        .agg(pl.col("ns").median())
        .sort("parameter", "setting")
    )


def _ratios(trials: pl.DataFrame) -> pl.DataFrame:
    """Ratios to the baseline within each round of each setting and repeat."""
    parts = [
        _beside_baseline(part.select(*KEY, "round", "ns")).with_columns(
            setting=pl.lit(setting), repeat=pl.lit(repeat, pl.Int64)
        )
        for (setting, repeat), part in trials.group_by("setting", "repeat", maintain_order=True)
    ]
    empty = trials.select("setting", "repeat", *KEY, "round", ratio="ns").clear()
    return pl.concat([empty, *(part.select(empty.columns) for part in parts)])


def _beside_baseline(trials: pl.DataFrame) -> pl.DataFrame:
    """Every variant beside the baseline of its parameter."""
    keys = trials.select(KEY).unique()
    base = keys.filter(variant=BASELINE).select("parameter", *(pl.col(name).alias(f"baseline_{name}") for name in KEY))
    return paired(trials, keys.filter(pl.col("variant") != BASELINE).join(base, on="parameter"))


def _estimated(trials: pl.DataFrame, by: tuple[str, ...]) -> pl.DataFrame:
    """Estimates over the rounds of all repeats."""
    ratios = _ratios(trials)
    if ratios.is_empty():
        return ratios.select(*by, "ratio", low="ratio", high="ratio", rounds="round")
    rounds = ratios.with_columns(round=pl.struct("repeat", "round").rank("dense").cast(pl.Int64))
    return estimates(rounds, by=by).select(*by, "ratio", "low", "high", "rounds")
