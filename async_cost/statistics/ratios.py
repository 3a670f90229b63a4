"""From trials to comparisons: two times of the same round, and their ratio.

A shared machine may halve its speed within a minute. So times from different moments are never compared: each round
measures every variant once, and a ratio is taken within a round. That of the lowest times is taken within an episode,
whose rounds follow each other (`trials.lowest`); its `round` is then the episode.
"""

from collections.abc import Sequence

import polars as pl

from async_cost.runs.comparisons import BASE_KEY, KEY, PAIR


def paired(trials: pl.DataFrame, pairs: pl.DataFrame, units: pl.DataFrame, by: Sequence[str] = PAIR) -> pl.DataFrame:
    """Compare key with baseline in each round: by..., round, sitting, episode, ns (of the key), base (of the baseline),
    ratio, log_ratio (natural). A round that lacks a side is left out.

    Args:
        pairs: the columns of a pair, and those of `by` if it is named by others, such as a number, which is sorted and
            grouped faster.
        units: as from `Run.units`: times are of one unit of work where both sides count units, else of one iteration.
    """
    places = ("round", "sitting", "episode")
    base = trials.select(pl.col(KEY).name.prefix("baseline_"), "round", base="ns")
    both = (
        pairs.select(*dict.fromkeys((*by, *PAIR)))
        .join(units, on=KEY, how="left")
        .join(units, left_on=BASE_KEY, right_on=KEY, how="left", suffix="_base")
        .join(trials.select(*KEY, *places, "ns"), on=KEY)
        .join(base, on=[*BASE_KEY, "round"])
    )
    counted = pl.all_horizontal(pl.col("units", "units_base").is_not_null())
    mine = pl.col("ns") / pl.when(counted).then("units").otherwise(1)
    other = pl.col("base") / pl.when(counted).then("units_base").otherwise(1)
    both = both.with_columns(ns=mine, base=other, ratio=mine / other, log_ratio=(mine / other).log())
    return both.select(*by, *places, "ns", "base", "ratio", "log_ratio").sort(*by, "round")
