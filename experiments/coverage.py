"""Do intervals hold the truth as often as they say, and what do they find? The estimator of the table on simulated
series, whose truth is known.
"""

from itertools import product

import numpy as np
import polars as pl

from async_cost.statistics.coverage import DIFFERENCES, MOST, RATIOS, half_widths, moderated_pairs, series

#: Sittings and processes a sitting of the simulated series.
DESIGNS = ((6, 12), (3, 12))
#: Whether an hour moves each key by itself, or nine tenths of the variance are one movement of the whole study.
CORRELATED = {"independent": 0.0, "common": 0.9}
#: Planted effects whose detection is counted, besides none.
EFFECTS = (0.005, 0.01, 0.02, 0.05)


def coverage(components: pl.DataFrame, seed: int = 7) -> pl.DataFrame:
    """What simulated series of each study and kind of `components` say: study, kind, sittings, processes, hours, cases,
    inside and inside_added (shares of the intervals of ratios and of differences that hold the truth), half (median
    half width of the former), found_… (share of planted effects that are called slower), wrong (share of these, of any
    size, that are called faster).
    """
    rows, rng = [], np.random.default_rng(seed)
    for (study, kind), some in components.group_by("study", "kind", maintain_order=True):
        some = some.sample(min(MOST, some.height), seed=seed)
        for (sittings, processes), (hours, common) in product(DESIGNS, CORRELATED.items()):
            made = series(some, sittings, processes, common, rng)
            ratios, added = (moderated_pairs(made, what) for what in (RATIOS, DIFFERENCES))
            mean, half, limit = (
                ratios["mean"].to_numpy(),
                half_widths(ratios),
                some["limit"].to_numpy()[ratios["pair"].to_numpy()],
            )
            off = added.select(pl.col("mean") + pl.col("lever") * pl.col("speed")).to_series().abs().to_numpy()
            planted = {effect: mean + np.log1p(effect) for effect in EFFECTS}
            power = {f"found_{effect:g}": np.mean(at - half > np.log1p(limit)) for effect, at in planted.items()}
            wrong = max(np.mean(at + half < np.log1p(-limit)) for at in planted.values())
            case = {"study": study, "kind": kind, "sittings": sittings, "processes": processes, "hours": hours}
            inside = {"inside": np.mean(np.abs(mean) <= half), "inside_added": np.mean(off <= half_widths(added))}
            rows.append(case | {"cases": ratios.height} | inside | {"half": np.median(half)} | power | {"wrong": wrong})
    return pl.DataFrame(rows)
