"""The ladder: what each step costs by either lens.

Which rung is built on which, and what the step changes, is declared by the study; those of the main ladder come first.
"""

from collections.abc import Callable

import polars as pl

from async_cost.runs.run import Run
from async_cost.statistics.measured import Measured

STUDY = "ladder"
MANUAL, FRONTIER, LEAN = "manual (best)", "frontier", "slab index"
#: The operations of all servers, without a server.
FAKE = "fake alone"
#: The frontier's servers on a runtime that cannot wake.
UNWOKEN = "no wakers"
FEW, ALL = "live=3", "live=256"
#: Instructions for a request below which a difference is code layout: what moved between builds that differed in the
#: names of types only.
LAYOUT = 50


def steps(measured: Measured, parameter: str = FEW) -> pl.DataFrame:
    """One row a step, in the order of the ladder: what the variant costs compared with its base.

    Columns: those of the table of comparisons; base, branch (off the main ladder); instructions of the variant and
    step_instructions more than its base, for a request, and instruction_ratio (null where not counted). Steps of which
    a side was not measured are left out.
    """
    declared = built_on(measured.declared.filter(~pl.col("control"), parameter=parameter))
    counted = instructions(measured.run, parameter)
    return (
        declared.with_columns(base="baseline_variant", branch=~pl.col("variant").is_in(_main(declared)))
        .drop_nulls("ratio")
        .join(counted.rename({"value": "instructions"}), on="variant", how="left", maintain_order="left")
        .join(counted.rename({"variant": "base", "value": "under"}), on="base", how="left", maintain_order="left")
        .with_columns(
            step_instructions=pl.col("instructions") - pl.col("under"),
            instruction_ratio=pl.col("instructions") / pl.col("under"),
        )
        .drop("under")
    )


def built_on(declared: pl.DataFrame) -> pl.DataFrame:
    """Of declared comparisons, that of each variant with the one that it is built on.

    It is the first that is not with the loop, with which all are compared; only the first rung is built on the loop
    itself.
    """
    servers = declared.filter(pl.col("variant") != FAKE)
    first = servers.with_row_index("place").sort(pl.col("baseline_variant") == MANUAL, "place")
    return first.unique("variant", keep="first").sort("place").drop("place")


def _main(declared: pl.DataFrame) -> list[str]:
    """The variants of the main ladder, from the loop down: what is declared first on top of a rung is the next one."""
    above, rungs = dict(declared.select("baseline_variant", "variant").reverse().iter_rows()), []
    here = MANUAL
    while (here := above.pop(here, None)) is not None:
        rungs.append(here)
    return rungs


def per_request(run: Run, counter: str, parameter: str = FEW) -> pl.DataFrame:
    """An exact count of each variant, for one request: variant, value. Empty where nothing was counted."""
    if STUDY not in run.info.studies:
        return pl.DataFrame(schema={"variant": pl.String, "value": pl.Float64})
    counts = run.counts(STUDY).filter(counter=counter, parameter=parameter)
    return counts.select("variant", pl.col("value") / run.requests(STUDY))


def instructions(run: Run, parameter: str = FEW) -> pl.DataFrame:
    """The instructions of each variant for one request, rounded so that steps add up as shown: variant, value."""
    return per_request(run, "instructions", parameter).with_columns(pl.col("value").round())


def counts(run: Run, parameter: str) -> Callable[[str], tuple[str, float | None]]:
    """Looks up the instructions for one request by the name of a variant: the name and the count, None where it was not
    counted.
    """
    found = dict(instructions(run, parameter).iter_rows())
    return lambda variant: (variant, found.get(variant))


def totals(measured: Measured, parameter: str = FEW) -> pl.DataFrame:
    """Nanoseconds for a request, down the ladder: variant, value. The loop's own median, and on top what each rung adds
    to it.

    Each addition is a paired one, so that a drift of the machine is in none of them.
    """
    rungs = steps(measured, parameter).filter(~pl.col("branch")).select("variant")
    loop = measured.trials.filter(variant=MANUAL, parameter=parameter)["ns"].median()
    if loop is None:
        return rungs.with_columns(value=pl.lit(None, pl.Float64))
    loop /= measured.requests
    above = measured.comparisons.filter(baseline_variant=MANUAL, parameter=parameter)
    rest = rungs.join(above.select("variant", value=pl.col("added_ns") + loop), on="variant", maintain_order="left")
    return pl.concat([pl.DataFrame({"variant": [MANUAL], "value": [loop]}), rest])


def fall(totals: pl.DataFrame) -> pl.DataFrame:
    """Totals in order as bars for `charts.waterfall`: variant, start (the total before; 0 for the first), end."""
    return totals.select("variant", start=pl.col("value").shift(1, fill_value=0.0), end="value")
