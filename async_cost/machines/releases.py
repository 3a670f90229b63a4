"""Which release of the compiler changed what: the same machine, measured with one release after the other."""

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
VERSION = r"rustc (\d+)\.(\d+)\.(\d+)"
SERIES = {"machine": NAME, "release": pl.String, "run": NAME}
STEPS = (
    dict.fromkeys(("machine", *FINDING), NAME)
    | dict.fromkeys(("before", "release"), pl.String)
    | dict.fromkeys(("ratio", "low", "high"), pl.Float64)
)


def series(many: ManyRuns) -> pl.DataFrame:
    """The newest run of each release on each machine that has several, releases in order: machine, release, run.

    Runs of the quick profile are left out, and so are compilers without a number. Two builds of one release, such as a
    nightly, are told apart by their whole name.
    """
    numbers = [pl.col("rustc").str.extract(VERSION, place).cast(pl.Int64).alias(f"v{place}") for place in (1, 2, 3)]
    known = many.runs.filter(pl.col("profile") != "quick").with_columns(numbers).drop_nulls("v1")
    newest = known.sort("v1", "v2", "v3", "rustc", "started", "run").unique(
        ["machine", "rustc"], keep="last", maintain_order=True
    )
    several = newest.filter(pl.len().over("machine") >= FEWEST).sort("machine", maintain_order=True)
    name = pl.col("rustc").str.strip_prefix("rustc ").str.split(" (").list.first()
    return several.select("machine", name.alias("release"), "run").cast(SERIES)


def steps(many: ManyRuns) -> pl.DataFrame:
    """The releases that changed a finding on a machine: machine, FINDING, before (the release before), release, ratio
    (mean of the ratios from there on over that of the stretch before), low, high, verdict.

    The steps of a series are found together by PELT with a cost of squares, in standard errors of the runs. A step has
    to explain more of them than the best of all possible steps in pure noise does (corrected by Bonferroni for the
    findings and releases of the machine), and its interval has to lie beyond what counts as the same. Only evidence
    counts, and no control.
    """
    order = series(many).with_row_index("place")
    half = (pl.col("high").log() - pl.col("low").log()) / 2
    ratios = many.ratios.join(order, on="run", how="semi", maintain_order="left")
    points = (
        ratios.filter(~pl.col("control"))
        .drop_nulls("verdict")
        .select("run", *FINDING, "quantile", log=pl.col("ratio").log(), error=half / pl.col("quantile"))
    )
    found = []
    for (machine,), mine in order.join(points, on="run").sort("place").group_by("machine", maintain_order=True):
        tries = mine.select(FINDING).n_unique() * (mine["release"].n_unique() - 1)
        penalty = stats.chi2.isf(FALSE_STEPS / max(tries, 1), 1)
        for key, part in _uneven(mine, penalty).group_by(FINDING, maintain_order=True):
            found += [(machine, *key, *step) for step in _steps(part, penalty)]
    named = pl.DataFrame(found, schema=STEPS, orient="row").with_columns(verdict_column(True, LIMIT))
    return named.filter(pl.col("verdict").is_in(["slower", "faster"]))


def _uneven(mine: pl.DataFrame, penalty: float) -> pl.DataFrame:
    """The rows of the findings that can have a step at all: a single stretch costs as much as a step, or more. Most
    findings have none, and are not worth a search.
    """
    error = pl.max_horizontal(pl.col("error").mean(), 1e-9)
    cost = ((pl.col("log") - pl.col("log").mean()) ** 2).sum() / error**2
    # A little less, since sums may be rounded differently.
    return mine.filter((pl.len() >= FEWEST).over(FINDING), (cost > penalty * (1 - 1e-6)).over(FINDING))


def _steps(part: pl.DataFrame, penalty: float) -> list[tuple]:
    """Of one series (release, log, error, quantile): before, release, ratio, low, high of each step."""
    error = max(part["error"].mean(), 1e-9)
    scaled = part.select(pl.col("log") / error).to_numpy()
    ends = ruptures.Pelt(model="l2", min_size=1, jump=1).fit(scaled).predict(pen=penalty)
    starts, found = [0, *ends[:-1]], []
    for (first, middle), last in zip(zip(starts, ends, strict=True), ends[1:], strict=False):
        before, after = part["log"][first:middle], part["log"][middle:last]
        step = after.mean() - before.mean()
        reach = part["quantile"].max() * error * (1 / len(before) + 1 / len(after)) ** 0.5
        found.append(
            (
                part["release"][middle - 1],
                part["release"][middle],
                *(pl.Series([step, step - reach, step + reach]).exp().to_list()),
            )
        )
    return found
