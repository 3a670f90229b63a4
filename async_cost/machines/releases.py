"""Which release of the compiler changed what: the same machine, measured with one release after the other."""

import re
from collections.abc import Mapping

import polars as pl
import ruptures
from scipy import stats

from async_cost.machines.many import ManyRuns
from async_cost.machines.summary import FINDING, NAME
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

    They are of one revision of our sources, the newest of which there are several. Runs of the quick profile are left
    out, and so are compilers without a number. Pre-releases are told apart by their date.
    """
    runs = [row for row in many.runs.to_dicts() if row["profile"] != "quick" and release(row["rustc"])]
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

    The steps of a series are found together by PELT with a cost of squares, in standard errors. These hold what differs
    between the processes of a run and, where a machine was measured again with the same compiler and sources, between
    runs. A step has to explain more of them than the best of all possible steps in pure noise does (by t, corrected by
    Bonferroni for the findings and releases of the machine), and its interval, corrected likewise, has to lie beyond
    what counts as the same. Only evidence counts, and no control.
    """
    order = series(many).with_row_index("place")
    points = _points(many)
    mine_only = points.join(order, on="run", how="semi", maintain_order="left").join(
        _between_runs(many, points), on=["machine", "study"], how="left", maintain_order="left"
    )
    error = (pl.col("error") ** 2 + pl.col("between").fill_null(0)).sqrt()
    mine_only = mine_only.with_columns(error=error).drop("machine", "between")
    found = []
    for (machine,), mine in order.join(mine_only, on="run").sort("place").group_by("machine", maintain_order=True):
        tries = mine.select(FINDING).n_unique() * (mine["run"].n_unique() - 1)
        share = FALSE_STEPS / max(tries, 1)
        for key, part in _uneven(mine, stats.chi2.isf(share, 1)).group_by(FINDING, maintain_order=True):
            degrees = (LEFT * part["episodes"] - 1).clip(1).sum()
            found += [(machine, *key, *step) for step in _steps(part, float(stats.t.isf(share / 2, degrees)))]
    named = pl.DataFrame(found, schema=STEPS, orient="row").with_columns(verdict_column(True, LIMIT))
    return named.filter(pl.col("verdict").is_in(["slower", "faster"]))


def _points(many: ManyRuns) -> pl.DataFrame:
    """The findings that are evidence: machine, run, FINDING, episodes, log (of the ratio), error (within the run)."""
    half = (pl.col("high").log() - pl.col("low").log()) / 2
    return (
        many.ratios.filter(~pl.col("control"))
        .drop_nulls("verdict")
        .select("machine", "run", *FINDING, "episodes", log=pl.col("ratio").log(), error=half / pl.col("quantile"))
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


def _uneven(mine: pl.DataFrame, penalty: float) -> pl.DataFrame:
    """The rows of the findings that can have a step at all: a single stretch costs as much as a step, or more. Most
    findings have none, and are not worth a search.
    """
    error = pl.max_horizontal((pl.col("error") ** 2).mean().sqrt(), 1e-9)
    cost = ((pl.col("log") - pl.col("log").mean()) ** 2).sum() / error**2
    # A little less, since sums may be rounded differently.
    return mine.filter((pl.len() >= FEWEST).over(FINDING), (cost > penalty * (1 - 1e-6)).over(FINDING))


def _steps(part: pl.DataFrame, quantile: float) -> list[tuple]:
    """Of one series (release, log, error): before, release, ratio, low, high of each step that explains more than the
    square of `quantile`.
    """
    error = max((part["error"] ** 2).mean() ** 0.5, 1e-9)
    scaled = part.select(pl.col("log") / error).to_numpy()
    ends = ruptures.Pelt(model="l2", min_size=1, jump=1).fit(scaled).predict(pen=quantile**2)
    starts, found = [0, *ends[:-1]], []
    for (first, middle), last in zip(zip(starts, ends, strict=True), ends[1:], strict=False):
        before, after = part["log"][first:middle], part["log"][middle:last]
        step = after.mean() - before.mean()
        reach = quantile * error * (1 / len(before) + 1 / len(after)) ** 0.5
        ends_of_step = pl.Series([step, step - reach, step + reach]).exp().to_list()
        found.append((part["release"][middle - 1], part["release"][middle], *ends_of_step))
    return found
