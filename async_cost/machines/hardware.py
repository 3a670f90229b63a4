"""What changes from machine to machine: comparisons of several runs, and changes between two runs.

A comparison is consistent when every machine gives it the same verdict.
"""

from collections.abc import Sequence

import polars as pl

from async_cost.machines.many import COMPARISON, NAME, NATIVE, ManyRuns
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.statistics.judge import verdict_column


def representative_ratios(many: ManyRuns, unit: str = "machine") -> pl.DataFrame:
    """Return the ratios of one run for each machine and study: the newest that is evidence, else the newest.

    With `unit` = "run", every run counts. Columns as `ManyRuns.ratios`, and `unit`, the name of what is compared.
    """
    ratios = many.ratios.with_columns(unit=pl.col(unit))
    if unit == "run" or ratios.is_empty():
        return ratios
    return ratios.join(representative_runs(many), on=["machine", "study", "run"], how="semi", maintain_order="left")


def representative_runs(many: ManyRuns) -> pl.DataFrame:
    """Choose the run that speaks for each machine and study: machine, study, run, trusted. It is the newest that is
    evidence, else the newest. Of a machine that has runs of native programs that can be evidence, those of the cells of
    notebooks do not count: they would count it twice, and ratios from cells may differ from those of programs.
    """
    native, can_be = pl.col("origin") == "native", ~pl.col("profile").is_in(NOT_EVIDENCE)
    measured = many.runs.filter(native, can_be)["machine"].cast(pl.String).str.strip_suffix(NATIVE).unique().to_list()
    double = ~native & pl.col("machine").cast(pl.String).is_in(measured)
    runs = many.runs.remove(double).select("run", "machine", "started")
    order = many.studies.join(runs, on="run").sort("trusted", "started", "run")
    return order.group_by("machine", "study", maintain_order=True).agg(pl.col("run", "trusted").last())


def agreement(ratios: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each comparison of rows of `representative_ratios`: columns COMPARISON, units, slower, faster,
    same, undecided, least, most, agreement.

    Only what is evidence counts. `least` and `most` are the ends of the ratios; `agreement` is one machine, reverses,
    consistent, undecided everywhere or not the same everywhere. Where a verdict is undecided on one machine and decided
    on another, that may be the machine's, or for want of rounds.
    """
    verdicts = ("slower", "faster", "same", "undecided")
    counted = (
        ratios.drop_nulls("verdict")
        .group_by(COMPARISON, maintain_order=True)
        .agg(
            pl.len().alias("units"),
            *((pl.col("verdict") == word).sum().alias(word) for word in verdicts),
            pl.col("ratio").min().alias("least"),
            pl.col("ratio").max().alias("most"),
        )
    )
    word = (
        pl.when(pl.col("units") == 1)
        .then(pl.lit("one machine"))
        .when((pl.col("slower") > 0) & (pl.col("faster") > 0))
        .then(pl.lit("reverses"))
        .when(pl.max_horizontal("slower", "faster", "same") == pl.col("units"))
        .then(pl.lit("consistent"))
        .when(pl.col("undecided") == pl.col("units"))
        .then(pl.lit("undecided everywhere"))
        .otherwise(pl.lit("not the same everywhere"))
    )
    return counted.with_columns(word.alias("agreement"))


def changes(ratios: pl.DataFrame, pairs: Sequence[tuple[str, str, str]]) -> pl.DataFrame:
    """Compute how each comparison changes from one run to another, for each of `pairs` (machine, before, after):
    COMPARISON, ratio (after / before), low, high, evident, unit (the machine), before, after, verdict.

    The two runs share no round, so nothing is paired: on a log scale, the half-widths of the two intervals are added as
    squares. Like them, the interval covers the noise of two runs and nothing else. The verdict is null if one of the
    two is no evidence.
    """
    names = ("unit", "before", "after")
    chosen = pl.DataFrame(pairs, schema=dict.fromkeys(names, NAME), orient="row")
    logs = ratios.filter(pl.col("run").is_in(pl.concat([chosen["before"], chosen["after"]]).implode())).select(
        *("run", *COMPARISON),
        log=pl.col("ratio").log(),
        half=(pl.col("high").log() - pl.col("low").log()) / 2,
        evident=pl.col("verdict").is_not_null(),
    )
    before = chosen.join(logs, left_on="before", right_on="run", maintain_order="left_right")
    both = before.join(
        logs, left_on=["after", *COMPARISON], right_on=["run", *COMPARISON], suffix="_after", maintain_order="left"
    )
    middle = pl.col("log_after") - pl.col("log")
    reach = (pl.col("half") ** 2 + pl.col("half_after") ** 2).sqrt()
    return both.select(
        *COMPARISON,
        middle.exp().alias("ratio"),
        (middle - reach).exp().alias("low"),
        (middle + reach).exp().alias("high"),
        (pl.col("evident") & pl.col("evident_after")).alias("evident"),
        *names,
    ).with_columns(verdict_column(pl.col("evident")))


def repeated(many: ManyRuns) -> list[tuple[str, str, str]]:
    """Find machines that were measured twice with one compiler: machine, older run, newer run, the two newest."""
    runs = many.runs.filter(~pl.col("profile").is_in(NOT_EVIDENCE), pl.col("rustc").is_not_null())
    pairs = []
    for (machine,), mine in runs.sort("started", "run").group_by("machine", maintain_order=True):
        *older, (newest, rustc) = mine.select("run", "rustc").rows()
        if fitting := [run for run, its in older if its == rustc]:
            pairs.append((machine, fitting[-1], newest))
    return sorted(pairs)
