"""Which release of the compiler changed what: the same machine, measured with one release after the other."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import polars as pl
import ruptures
from scipy import special

from async_cost.machines.many import ManyRuns
from async_cost.machines.summary import FINDING, NAME
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.statistics.judge import EQUIVALENCE, verdict_column

#: How often some step is named on a machine where no release changed anything.
FALSE_STEPS = 0.05
#: Steps that are smaller count as none.
LIMIT = EQUIVALENCE
#: Two releases are the fewest that differ.
FEWEST = 2
VERSION = re.compile(r"rustc (\d+)\.(\d+)\.(\d+)(-[\w.]+)?(?: \(\S+ (\d{4}-\d{2}-\d{2})\))?")
#: What is left of the episodes of a run when the highest and the lowest fifth are cut off.
LEFT = 0.6
SERIES = {"machine": NAME, "release": pl.String, "run": NAME}
STEPS = (
    dict.fromkeys(("machine", *FINDING), NAME)
    | dict.fromkeys(("before", "release"), pl.String)
    | dict.fromkeys(("ratio", "low", "high"), pl.Float64)
)


def release(rustc: str | None) -> tuple | None:
    """What puts compilers in the order of their releases: version, whether it is no pre-release, date; None for one
    without a number.
    """
    found = VERSION.match(rustc or "")
    return found and (*map(int, found.group(1, 2, 3)), found[4] is None, found[5] or "")


def _name(rustc: str) -> str:
    found = VERSION.match(rustc)
    assert found, "only such as have a number are named"
    version, date = f"{'.'.join(found.group(1, 2, 3))}{found[4] or ''}", found[5] or ""
    return f"{version} of {date}" if found[4] and date else version


def series(many: ManyRuns) -> pl.DataFrame:
    """The newest run of each release on each machine that has several, releases in order: machine, release, run.

    They are of one revision of our sources, the newest of which there are several. Left out are runs that are no
    evidence, unknown sources and compilers without a number. Pre-releases are told apart by their date.
    """
    runs = [
        row
        for row in many.runs.to_dicts()
        if row["profile"] not in NOT_EVIDENCE and row["revision"] and release(row["rustc"])
    ]
    by_revision: dict[tuple, dict[tuple, dict]] = {}
    for row in sorted(runs, key=lambda row: (row["started"], row["run"])):
        by_revision.setdefault((row["machine"], row["revision"]), {})[release(row["rustc"]) or ()] = row
    several = {key: found for key, found in by_revision.items() if len(found) >= FEWEST}
    newest = {machine: found for (machine, _), found in sorted(several.items(), key=lambda one: _latest(one[1]))}
    rows = [
        (machine, _name(found[key]["rustc"]), found[key]["run"])
        for machine, found in sorted(newest.items())
        for key in sorted(found)
    ]
    return pl.DataFrame(rows, schema=SERIES, orient="row")


def _latest(found: Mapping[tuple, dict]) -> str:
    return max(row["started"] for row in found.values())


def steps(many: ManyRuns) -> pl.DataFrame:
    """The releases that changed a finding on a machine: machine, FINDING, before (the release before), release, ratio
    (mean of the ratios from there on over that of the stretch before), low, high, verdict.

    The steps of a series are found together by PELT with a cost of squares, in standard errors: those of its noisiest
    run, since a mean would let that run's noise pass for a step of a quiet one. These hold what differs
    between the processes of a run and, where a machine was measured again with the same compiler and sources, between
    runs. A step has to explain more of them than the best of all possible steps in pure noise does (by t, corrected by
    Bonferroni for the findings and releases of the machine), and its interval, corrected likewise, has to lie beyond
    what counts as the same. Only evidence counts.
    """
    order = series(many).with_row_index("place")
    points = _points(many, order["machine"])
    mine = (
        points.drop("machine")
        .join(order, on="run")
        .join(_between_runs(many, points), on=["machine", "study"], how="left")
    )
    parts = (
        mine.sort("place")
        .group_by("machine", *FINDING, maintain_order=True)
        .agg(
            "release",
            "log",
            error=pl.max_horizontal((pl.col("error") ** 2 + pl.col("between").fill_null(0)).max().sqrt(), 1e-9),
            degrees=(LEFT * pl.col("episodes") - 1).clip(1).min(),
            squares=((pl.col("log") - pl.col("log").mean()) ** 2).sum(),
        )
        .join(mine.group_by("machine").agg(runs=pl.col("run").n_unique()), on="machine", maintain_order="left")
        .with_columns(tries=pl.len().over("machine") * (pl.col("runs") - 1))
        .filter(pl.col("log").list.len() >= FEWEST)
    )
    share = FALSE_STEPS / parts["tries"].to_numpy()
    parts = parts.with_columns(
        quantile=pl.Series(-special.stdtrit(parts["degrees"].to_numpy(), share / 2), dtype=pl.Float64)
    )
    # A single stretch costs as much as a step, or more, where there can be a step: most findings have none, and are not
    # worth a search. A little less, since sums may be rounded differently.
    cost = pl.col("squares") / pl.col("error") ** 2
    parts = parts.filter(cost > pl.col("quantile") ** 2 * (1 - 1e-6))
    keys = ("machine", *FINDING)
    found = [(*(part[key] for key in keys), *step) for part in parts.iter_rows(named=True) for step in _steps(part)]
    named = pl.DataFrame(found, schema=STEPS, orient="row").with_columns(verdict_column(True, LIMIT))
    return named.filter(pl.col("verdict").is_in(["slower", "faster"]))


def _points(many: ManyRuns, machines: pl.Series) -> pl.DataFrame:
    """The findings of these machines that are evidence: machine, run, FINDING, episodes, log (of the ratio), error
    (within the run).
    """
    half = (pl.col("high").log() - pl.col("low").log()) / 2
    evidence = many.ratios.lazy().filter(pl.col("machine").is_in(machines.unique().implode()))
    return (
        evidence.drop_nulls("verdict")
        .select("machine", "run", *FINDING, "episodes", log=pl.col("ratio").log(), error=half / pl.col("quantile"))
        .collect()
    )


def _between_runs(many: ManyRuns, points: pl.DataFrame) -> pl.DataFrame:
    """What runs of one machine, compiler and revision differ by beyond their errors: machine, study, between
    (variance).
    """
    about = many.runs.select("run", "rustc", "revision")
    again = (
        points.join(about, on="run")
        .group_by("machine", *FINDING, "rustc", "revision")
        .agg(beyond=pl.col("log").var() - (pl.col("error") ** 2).mean(), runs=pl.len())
    )
    known = again.filter(pl.col("runs") > 1).group_by("machine", "study").agg(between=pl.col("beyond").mean().clip(0))
    return known.select("machine", "study", "between")


def _steps(part: Mapping[str, Any]) -> Iterator[tuple]:
    """Of one series (release and log, lists; error; quantile): before, release, ratio, low, high of each step that
    explains more than the square of the quantile.
    """
    names, logs, error, quantile = part["release"], np.array(part["log"]), part["error"], part["quantile"]
    ends = ruptures.Pelt(model="l2", min_size=1, jump=1).fit(logs / error).predict(pen=quantile**2)
    starts = [0, *ends[:-1]]
    for first, middle, last in zip(starts, ends, ends[1:], strict=False):
        before, after = logs[first:middle], logs[middle:last]
        step = after.mean() - before.mean()
        reach = quantile * error * (1 / len(before) + 1 / len(after)) ** 0.5
        yield (names[middle - 1], names[middle], *np.exp([step, step - reach, step + reach]).tolist())
