"""What became known of a run after it was measured: data/errata.csv."""

import polars as pl

from async_cost.paths import repository_root

COLUMNS = ("run", "study", "bench", "variant", "parameter", "statement")


def errata(run: str, study: str) -> pl.DataFrame:
    """Read the rows of this run and study, with the columns `COLUMNS`."""
    known = pl.read_csv(repository_root() / "data" / "errata.csv", schema=dict.fromkeys(COLUMNS, pl.String))
    return known.filter(run=run, study=study)


def without_changed(ratios: pl.DataFrame) -> pl.DataFrame:
    """Return comparisons of many runs (run, study, bench, variant, other, parameter) without those of a key that names
    another program today: of a row with a bench, variants (with semicolons between them) or a parameter.
    """
    for run, study in ratios.select("run", "study").unique().iter_rows():
        for row in errata(run, study).iter_rows(named=True):
            variants = [name.strip() for name in (row["variant"] or "").split(";") if name]
            changed = [pl.col("variant").is_in(variants) | pl.col("other").is_in(variants)] if variants else []
            changed += [pl.col(name) == row[name] for name in ("bench", "parameter") if row[name]]
            if changed:
                ratios = ratios.filter(~pl.all_horizontal(pl.col("run") == run, pl.col("study") == study, *changed))
    return ratios
