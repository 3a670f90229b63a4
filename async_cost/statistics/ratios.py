"""From trials to comparisons: two times of the same round, as a ratio and as a difference.

A shared machine may halve its speed within a minute. So times from different moments are never compared: each round
measures every variant once, and a ratio is taken within a round. That of the lowest times is taken within an episode,
whose rounds follow each other (`trials.lowest`); its `round` is then the episode.
"""

from collections.abc import Sequence

import polars as pl

from async_cost.runs.comparisons import BASE_KEY, KEY, PAIR


def paired(
    trials: pl.DataFrame, pairs: pl.DataFrame, units: pl.DataFrame | None = None, by: Sequence[str] = PAIR
) -> pl.DataFrame:
    """Key compared with baseline in each round: by..., round, sitting (if trials have it), episode, ns, ratio,
    log_ratio (natural), added_ns.

    `pairs` holds the six columns of a pair, and those of `by` if it is named by others, such as a number, which is
    sorted and grouped faster; a round that lacks one of the two sides is left out. Times are those of one unit of work
    (`units` as from `Run.units`) where both sides count units, else of one iteration: `ns` is that of the key, `ratio`
    ns / ns of the baseline, `added_ns` the difference.
    """
    if units is not None:
        counted = pairs.join(units, on=KEY).join(units, left_on=BASE_KEY, right_on=KEY, suffix="_base")
        counted = counted.select(*PAIR, "units", "units_base")
        pairs = pairs.join(counted, on=PAIR, how="left", maintain_order="left")
    else:
        pairs = pairs.with_columns(units=1, units_base=1)
    base = trials.select(
        *(pl.col(name).alias(base) for name, base in zip(KEY, BASE_KEY, strict=True)), "round", base="ns"
    )
    places = [name for name in ("round", "sitting", "episode") if name in trials.columns]
    both = pairs.select(*dict.fromkeys((*by, *PAIR)), "units", "units_base").join(
        trials.select(*KEY, *places, "ns"), on=KEY
    )
    mine, other = pl.col("ns") / pl.col("units").fill_null(1), pl.col("base") / pl.col("units_base").fill_null(1)
    return (
        both.join(base, on=[*BASE_KEY, "round"])
        .with_columns(ns=mine, ratio=mine / other, added_ns=mine - other)
        .with_columns(log_ratio=pl.col("ratio").log())
        .select(*by, *places, "ns", "ratio", "log_ratio", "added_ns")
        .sort(*by, "round")
    )
