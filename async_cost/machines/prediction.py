"""What machines have in common, and what to expect of one that nobody has measured yet.

A ratio differs from machine to machine, on one machine from run to run, and in one run from process to process
(episode). On a log scale these are three variances that add up. The last is known from the interval of each run. The
second is estimated from machines that were measured more than once, over all findings of a study together, since a
single finding seldom has more than two runs. The first is what the means of machines differ by beyond that.

The interval for another machine is the classical one for a further observation of a normal variable, with k - 1 degrees
of freedom for k machines, and so wide where there are few. It assumes that the other machine is drawn from the same lot
as those that were measured; how earlier predictions fared says how far that holds.
"""

import polars as pl
from scipy import special

from async_cost.machines.hardware import of_computers
from async_cost.machines.many import ManyRuns
from async_cost.machines.summary import FINDING, NAME

#: Of how many machines the predictions are compared with the outcome: each comparison takes all earlier runs.
NEWEST = 10
#: Two machines are the fewest that differ.
FEWEST = 2
CONFIDENCE = 0.95
PREDICTED = dict.fromkeys(FINDING, NAME) | {
    "machines": pl.Int64,
    "ratio": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "of_machines": pl.Float64,
    "of_runs": pl.Float64,
    "of_episodes": pl.Float64,
}
FARED = {"machine": NAME, "run": NAME, "machines": pl.Int64} | dict.fromkeys(FINDING, NAME) | {
    "predicted": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "ratio": pl.Float64,
    "held": pl.Boolean,
}  # fmt: skip


def predicted(ratios: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    """What a run on another machine is expected to find, from rows of `ManyRuns.ratios`, all runs of all machines:
    columns PREDICTED.

    `ratio` is the geometric mean over `machines`, `low` to `high` where a run of one more machine lies with a
    probability of 95 %. `of_machines`, `of_runs` and `of_episodes` are the standard deviations of the logarithm between
    machines, between runs of one, and within a run. Only evidence counts, and findings of two machines or more.
    """
    findings, logs = _numbered(ratios)
    return _expected(findings, _of_machines(logs))


def _numbered(ratios: pl.DataFrame | pl.LazyFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The findings that have evidence (FINDING and `finding`, a number), and their values: finding, machine, run, log,
    within (the variance within the run). One number is grouped faster than five names.
    """
    log, half = pl.col("ratio").log(), (pl.col("high").log() - pl.col("low").log()) / 2
    evidence = ratios.lazy().drop_nulls("verdict")
    findings = evidence.select(FINDING).unique(maintain_order=True).with_row_index("finding").collect()
    known = evidence.select("machine", "run", *FINDING, log=log, within=(half / pl.col("quantile")) ** 2)
    numbered = known.join(findings.lazy(), on=FINDING, maintain_order="left").drop(FINDING)
    return findings, numbered.collect(engine="streaming")


def _of_machines(logs: pl.DataFrame) -> pl.DataFrame:
    """The mean of each machine for each finding, with what its runs differ by: machine, finding, log, within, runs,
    squares.
    """
    return logs.group_by("machine", "finding", maintain_order=True).agg(
        pl.col("log").mean(),
        pl.col("within").mean(),
        runs=pl.len(),
        squares=pl.col("log").var(ddof=0) * pl.len(),
    )


def _expected(findings: pl.DataFrame, machines: pl.DataFrame) -> pl.DataFrame:
    """The predictions from these machines."""
    by_finding = machines.group_by("finding", maintain_order=True).agg(
        machines=pl.len(),
        log=pl.col("log").mean(),
        spread=pl.col("log").var(),
        within=pl.col("within").mean(),
        share=(1 / pl.col("runs")).mean(),
        # Variance beyond that within a run is known of machines that were measured again.
        degrees=(pl.col("runs") - 1).sum(),
        squares=pl.col("squares").sum(),
        of_degrees=(pl.col("within") * (pl.col("runs") - 1)).sum(),
    )
    by_finding = findings.join(by_finding, on="finding", maintain_order="left")
    by_finding = by_finding.with_columns(between_runs=_between_runs().over("study"))
    found = by_finding.filter(pl.col("machines") >= FEWEST)
    one_run = pl.col("between_runs") + pl.col("within")
    # The mean over several runs of a machine has lost a part of the variance that another single run has.
    of_means, of_run = pl.col("spread") * (1 + 1 / pl.col("machines")), one_run * (1 - pl.col("share"))
    # Only the first is estimated from few values, and needs the quantile of t.
    quantile = special.stdtrit(found["machines"].to_numpy() - 1, (1 + CONFIDENCE) / 2)
    wide = (
        pl.lit(pl.Series(quantile, dtype=pl.Float64)) ** 2 * of_means
        + special.ndtri((1 + CONFIDENCE) / 2) ** 2 * of_run
    )
    found = found.with_columns(
        reach=wide.sqrt(),
        of_machines=(pl.col("spread") - one_run * pl.col("share")).clip(0).sqrt(),
    )
    return found.select(
        *FINDING,
        "machines",
        ratio=pl.col("log").exp(),
        low=(pl.col("log") - pl.col("reach")).exp(),
        high=(pl.col("log") + pl.col("reach")).exp(),
        of_machines=pl.col("of_machines"),
        of_runs=pl.col("between_runs").sqrt(),
        of_episodes=pl.col("within").sqrt(),
    ).cast(PREDICTED)


def _between_runs() -> pl.Expr:
    """Variance from run to run of one machine beyond that within a run, over all findings of a study; 0 where no
    machine was measured twice.
    """
    degrees, squares, within = (pl.col(name).sum() for name in ("degrees", "squares", "of_degrees"))
    return pl.when(degrees > 0).then(((squares - within) / degrees).clip(0)).otherwise(0.0)


def fared(many: ManyRuns) -> pl.DataFrame:
    """How the first evidence of each of the `NEWEST` machines compares with what the machines before it predicted:
    columns FARED, in the order of arrival.

    The prediction is made from all runs that started before it, and from no other. Findings that fewer than two
    machines had are not predicted.
    """
    speaking = of_computers(many)
    ratios = many.ratios.lazy().drop_nulls("verdict").join(speaking.lazy(), on="run", how="semi", maintain_order="left")
    started = speaking.select("run", "started")
    arrival = ratios.select("machine", "run").unique().collect().join(started, on="run").sort("started", "run")
    newest = arrival.unique("machine", keep="first", maintain_order=True).tail(NEWEST)
    first = (
        ratios.join(newest.lazy(), on="machine", how="semi")
        .join(started.lazy(), on="run")
        .sort("started", "run", maintain_order=True)
        .unique(["machine", *FINDING], keep="first", maintain_order=True)
        .collect()
    )
    findings, logs = _numbered(ratios)
    # Machines that were not measured since say the same in each prediction.
    since = arrival.filter(pl.col("started") >= newest["started"].min())
    settled = _of_machines(logs.join(since, on="machine", how="anti", maintain_order="left"))
    others = logs.join(since, on="machine", how="semi").join(started, on="run")
    parts = [pl.DataFrame(schema=FARED)]
    for (start, run, machine), mine in first.group_by("started", "run", "machine", maintain_order=True):
        before = _of_machines(others.filter(pl.col("started") < start, pl.col("machine") != machine))
        expected = _expected(findings, pl.concat([settled, before])).rename({"ratio": "predicted"})
        seen = mine.select(*FINDING, "ratio").join(expected, on=list(FINDING), maintain_order="left")
        held = pl.col("ratio").is_between("low", "high")
        parts.append(seen.with_columns(held=held, machine=pl.lit(machine), run=pl.lit(run)).select(*FARED).cast(FARED))
    return pl.concat(parts)
