"""What would the same samples have said if the variants had been measured one after the other?

A run is cut into stretches of rounds. The paired reading takes a ratio within a stretch. The sequential reading takes
the variant from one stretch and its baseline from another, like a benchmark that finishes one before it begins the
next. Both readings use the same number of samples, and both are compared with the whole run, paired.
"""

import numpy as np
import polars as pl

from async_cost.runs.comparisons import BASE_KEY, KEY

#: Stretches of a run: enough for 90 sequential readings, few enough that each has a dozen standard rounds.
PARTS = 10
READINGS = ("paired", "sequential")


def errors(trials: pl.DataFrame, pairs: pl.DataFrame, parts: int = PARTS) -> pl.DataFrame:
    """Relative errors of both readings: bench, variant, parameter, reading, typical, worst.

    `trials` as of `trial_times`, `pairs` as of `Run.comparisons`. `reading` is paired or sequential, `typical` the
    median over all readings of that kind, `worst` the largest. With too few rounds for two stretches there are no rows.

    Each paired reading is a tenth of the whole run that serves as truth, which flatters it by some 5 %.
    """
    found = []
    both = pairs.select(*KEY, *BASE_KEY).join(trials.select(*KEY, "round", "ns"), on=KEY)
    base = trials.select(
        *(pl.col(name).alias(base) for name, base in zip(KEY, BASE_KEY, strict=True)), "round", base_ns="ns"
    )
    sides = both.join(base, on=[*BASE_KEY, "round"]).sort("round").group_by(*KEY, *BASE_KEY).agg("ns", "base_ns")
    for pair in pairs.join(sides, on=[*KEY, *BASE_KEY], maintain_order="left").iter_rows(named=True):
        times = np.column_stack((pair["ns"], pair["base_ns"]))
        stretches = [part for part in np.array_split(times, parts) if len(part)]
        if len(stretches) < 2:
            continue
        whole = np.median(times[:, 0] / times[:, 1])
        paired = np.array([np.median(part[:, 0] / part[:, 1]) for part in stretches])
        times = np.array([np.median(part, axis=0) for part in stretches])
        apart = times[:, 0][:, None] / times[:, 1][None, :]
        sequential = apart[~np.eye(len(stretches), dtype=bool)]
        for reading, ratios in zip(READINGS, (paired, sequential), strict=True):
            off = np.abs(ratios / whole - 1)
            found.append((*(pair[name] for name in KEY), reading, float(np.median(off)), float(off.max())))
    names = dict.fromkeys((*KEY, "reading"), pl.String) | dict.fromkeys(("typical", "worst"), pl.Float64)
    return pl.DataFrame(found, schema=names, orient="row")


def summary(found: pl.DataFrame) -> pl.DataFrame:
    """One row for each reading: reading, typical (the median over comparisons), worst (the largest of all)."""
    return found.group_by("reading").agg(pl.col("typical").median(), pl.col("worst").max()).sort("reading")


def unpaired_range(
    trials: pl.DataFrame, variant: str, other: str, parameter: str, parts: int = 10
) -> tuple[float, float] | None:
    """The smallest and the largest ratio that measuring one after the other could give: each variant in another of
    `parts` stretches of the run.

    None if one of the two was not measured. It shows the benefit of pairing; nothing is concluded from it.
    """

    def stretches(name: str) -> pl.Series:
        rows = trials.filter(pl.col("variant") == name, pl.col("parameter") == parameter)
        part = pl.col("round") * parts // (pl.col("round").max() + 1)
        return rows.group_by(part.alias("part")).agg(pl.col("ns").median())["ns"]

    mine, base = stretches(variant), stretches(other)
    if mine.is_empty() or base.is_empty():
        return None
    return mine.min() / base.max(), mine.max() / base.min()
