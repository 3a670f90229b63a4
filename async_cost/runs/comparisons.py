"""What is compared with what in a study: each key with one other, in a group whose limit says how small a difference matters.

The measuring program writes its comparisons into run.json. Runs from before it did compare every variant with the study's
baseline at the same parameter.
"""

from pathlib import Path

import polars as pl

from async_cost.errors import DataError, quoted
from async_cost.runs.record import StudyInfo

#: What names one measured thing. A study's files, the published figures and the claims use the same words.
KEY = ("bench", "variant", "parameter")
#: The same for what it is compared with.
BASE_KEY = tuple(f"baseline_{name}" for name in KEY)
#: Appended to the name of a variant that is measured a second time.
CONTROL = " (A/A)"

SCHEMA = dict.fromkeys((*KEY, *BASE_KEY, "group"), pl.String) | {"limit": pl.Float64}


def pairs_of(details: StudyInfo, keys: pl.DataFrame, path: Path) -> pl.DataFrame:
    """The comparisons of a study: bench, variant, parameter, baseline_bench, baseline_variant, baseline_parameter, group, limit.

    `keys` (bench, variant, parameter) are those that were to be measured; `limit` is that of the group. Raises `DataError` for a
    comparison of what is not among them, and, where the study declared none, for a variant whose baseline is missing or ambiguous.
    `path` is the file that errors name.
    """
    if details.comparisons is None:
        return _by_default(details, keys, path)
    rows = [
        (*(getattr(entry, name) for name in (*KEY, *BASE_KEY, "group")), details.groups[entry.group])
        for entry in details.comparisons
    ]
    pairs = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    for names in (KEY, BASE_KEY):
        unknown = pairs.join(keys, left_on=names, right_on=KEY, how="anti").head(1)
        for row in unknown.iter_rows(named=True):
            problem = f"run.json compares {quoted(' / '.join(row[name] for name in names))}, which was neither measured nor failed"
            raise DataError(
                path, problem, "Restore run.json and the tables from where they were measured", column="bench"
            )
    return pairs


def _by_default(details: StudyInfo, keys: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Every variant with the study's baseline at the same parameter."""
    base = keys.filter(variant=details.baseline)
    for row in base.filter(pl.col("parameter").is_duplicated()).head(1).iter_rows(named=True):
        problem = f"several benches have a baseline {quoted(details.baseline)} for parameter {quoted(row['parameter'])}"
        raise DataError(path, problem, "Measure again with a harness that writes comparisons", column="bench")
    pairs = keys.filter(pl.col("variant") != details.baseline).join(
        base.select("parameter", *(pl.col(name).alias(f"baseline_{name}") for name in KEY)), on="parameter", how="left"
    )
    for row in pairs.filter(pl.col("baseline_variant").is_null()).head(1).iter_rows(named=True):
        problem = f"there is no baseline {quoted(details.baseline)} for parameter {quoted(row['parameter'])}"
        raise DataError(
            path, problem, "Restore the table from where it was measured, or measure again", column="variant"
        )
    return pairs.select(*KEY, *BASE_KEY, pl.lit("").alias("group"), pl.lit(details.groups[""]).alias("limit")).sort(KEY)


def due_controls(details: StudyInfo, pairs: pl.DataFrame) -> pl.DataFrame:
    """The comparisons whose ratio is 1 by construction: the rows of `pairs` in which a key is compared with itself.

    Where the study declared no comparisons, every control name is due at every parameter of the baseline. Levels of own work
    (`work=`) have none: they differ from others in the work alone.
    """
    if details.comparisons is not None:
        return pairs.filter(pl.col("variant").is_in(details.controls))
    parameters = (
        pairs.filter(~pl.col("parameter").str.contains("work=", literal=True)).unique(BASE_KEY).sort("parameter")
    )
    names = pl.DataFrame({"control": details.controls}, schema={"control": pl.String})
    return (
        parameters.join(names, how="cross")
        .with_columns(variant=pl.col("control"), bench=pl.col("baseline_bench"))
        .select(*SCHEMA)
    )
