"""Do intervals hold the truth as often as they say, and what do they find? Two answers, both by the estimator of the
table (`interval`): on simulated series, whose truth is known, and on the sittings of a real one, each predicted from
the others.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, product

import numpy as np
import polars as pl
from scipy import special

from async_cost.runs.comparisons import BASE_KEY, KEY, PAIR
from async_cost.runs.run import Run
from async_cost.statistics.interval import moderated, of_sittings, spreads
from async_cost.statistics.table import comparisons, of_processes

#: Sittings and processes a sitting of the simulated series.
DESIGNS = ((6, 12), (3, 12))
#: Whether an hour moves each key by itself, or nine tenths of the variance are one movement of the whole study.
CORRELATED = {"independent": 0.0, "common": 0.9}
#: What an hour adds where that is unknown.
HOUR = 0.5
#: Planted effects whose detection is told, besides none.
EFFECTS = (0.005, 0.01, 0.02, 0.05)
#: Simulated series of a study for each case, and comparisons that are simulated at most.
SERIES, MOST = 300, 30
#: One process in so many is so many times as noisy.
NOISY, NOISE = 7, 6.0


def components(run: Run) -> pl.DataFrame:
    """Of each comparison of a run: study, kind, PAIR, limit, process and hour, the standard deviations of the logarithm
    between processes and between hours. Where one sitting does not know the latter, it is `HOUR` times the median of
    the former in the study and kind.
    """
    rows = comparisons(run).frame.filter(~pl.col("control"), pl.col("freedom") < 1e6)
    v = pl.col("prior") - pl.col("omega2").fill_null(0.0)
    process = (v * pl.col("episodes") / pl.col("sittings")).clip(lower_bound=0.0).sqrt()
    between = pl.col("omega2").sqrt()
    found = rows.select("study", "kind", *PAIR, "limit", process=process, hour=between)
    supposed = HOUR * pl.col("process").median().over("study", "kind")
    return found.with_columns(pl.col("hour").fill_null(supposed))


def series(of: pl.DataFrame, sittings: int, processes: int, common: float, rng: np.random.Generator) -> pl.DataFrame:
    """Simulated series of comparisons whose true logarithms are 0, rows of `components` of one study and kind: run,
    pair, sitting, mean, within, count (as `interval.of_sittings`). Comparisons that share a key share its movements.
    """
    named = dict.fromkeys([*of.select(KEY).rows(), *of.select(BASE_KEY).rows()])
    keys = {key: place for place, key in enumerate(named)}
    one, other = (np.array([keys[key] for key in of.select(names).rows()]) for names in (KEY, BASE_KEY))
    process, hour = (_of_keys(of[name].to_numpy(), one, other, len(keys)) for name in ("process", "hour"))
    shape = (SERIES, sittings, processes, len(keys))
    uneven = np.sqrt(6 / rng.chisquare(6, (SERIES, 1, len(keys)))) * np.sqrt(4 / 6)  # some keys feel an hour more
    hours = rng.normal(size=(SERIES, sittings, len(keys))) * hour * uneven * np.sqrt(1 - common)
    noisy = np.where(rng.random(shape[:3]) < 1 / NOISY, NOISE, 1.0) / np.sqrt(1 + (NOISE**2 - 1) / NOISY)
    noise = rng.normal(size=shape) * noisy[..., None] * process
    values = (hours[..., one] - hours[..., other])[:, :, None] + noise[..., one] - noise[..., other]
    values += rng.normal(size=(SERIES, sittings, 1, 1)) * np.sqrt(common) * of["hour"].to_numpy()
    runs, sitting, pair = (place.ravel() for place in np.indices((SERIES, sittings, of.height)))
    spread = {"mean": values.mean(2).ravel(), "within": values.var(2, ddof=1).ravel()}
    places = {"run": runs, "sitting": sitting, "pair": pair}
    return pl.DataFrame(places | spread).with_columns(count=processes, keys=len(keys))


def _of_keys(of_pairs: np.ndarray, one: np.ndarray, other: np.ndarray, number: int) -> np.ndarray:
    """The standard deviation of each key that gives its pairs theirs, on average."""
    both, squares = np.concatenate([one, other]), np.tile(of_pairs**2, 2) / 2
    return np.sqrt(np.bincount(both, squares, number) / np.bincount(both, minlength=number))


def _moderated(sittings: pl.DataFrame) -> pl.DataFrame:
    """The estimates of each run and pair: `interval.moderated`, moderated over the pairs of a pool of a run."""
    pool = sittings.group_by("run", "pair").agg(pl.col("keys").first(), pl.col("^pool$").first())
    unknown = {name: pl.lit(None, pl.Float64) for name in ("omega2", "d0")}
    pool = pool.with_columns(pool=pl.struct("run", *pool.select("^pool$").columns).rank("dense"), **unknown)
    found = spreads(sittings, ("run", "pair"))
    return moderated(found.join(pool, on=["run", "pair"], maintain_order="left"))


def coverage(of: pl.DataFrame, seed: int = 7) -> pl.DataFrame:
    """What simulated series of each study and kind of `components` say: study, kind, sittings, processes, hours, cases,
    inside (share of the intervals that hold the truth), half (median half width), found_… (share of planted effects
    that are called slower), wrong (share of these, of any size, that are called faster).
    """
    rows, rng = [], np.random.default_rng(seed)
    for (study, kind), some in of.group_by("study", "kind", maintain_order=True):
        some = some.sample(min(MOST, some.height), seed=seed)
        for (sittings, processes), (hours, common) in product(DESIGNS, CORRELATED.items()):
            found = _moderated(series(some, sittings, processes, common, rng))
            half = special.stdtrit(found["freedom"].to_numpy(), 0.975) * found["error"].to_numpy()
            mean, limit = found["mean"].to_numpy(), some["limit"].to_numpy()[found["pair"].to_numpy()]
            planted = {effect: mean + np.log1p(effect) for effect in EFFECTS}
            power = {f"found_{effect:g}": np.mean(at - half > np.log1p(limit)) for effect, at in planted.items()}
            wrong = max(np.mean(at + half < np.log1p(-limit)) for at in planted.values())
            case = {"study": study, "kind": kind, "sittings": sittings, "processes": processes, "hours": hours}
            numbers = {"cases": found.height, "inside": np.mean(np.abs(mean) <= half), "half": np.median(half)}
            rows.append(case | numbers | power | {"wrong": wrong})
    return pl.DataFrame(rows)


# -- held-out sittings ---------------------------------------------------------------------------------------


def held_out(run: Run, seed: int = 7) -> pl.DataFrame:
    """Sittings of a run predicted from others, by study: study, test (each from the rest, or halves from each other),
    cases, inside_95, inside_50 (shares inside of such intervals), each with _low and _high, between which the shares of
    95 % of simulated honest series lie, and score, the mean interval score over that of plain t over sittings: below 1
    is better (Gneiting and Raftery 2007). No rows for less than three sittings.
    """
    if len(run.sittings) < 3:
        return pl.DataFrame()
    values = of_processes(run).filter(~pl.col("control"))
    each = of_sittings(values, "log_ratio", ("study", "kind", *PAIR)).drop_nulls("within")
    known, rng, rows = components(run), np.random.default_rng(seed), []
    for (study,), mine in each.group_by("study", maintain_order=True):
        sittings = mine["sitting"].n_unique()
        mine = mine.with_columns(run=0, pair=pl.struct(PAIR).rank("dense"), pool="kind")
        mine = mine.with_columns(keys=pl.len().over("pool") // sittings)
        simulated = []
        for (kind,), some in known.filter(study=study).group_by("kind", maintain_order=True):
            some = some.sample(min(MOST, some.height), seed=seed)
            processes = int(mine.filter(kind=kind)["count"].median())
            made = series(some, sittings, processes, 0.0, rng)
            simulated.append(made.with_columns(pair=pl.format("{} {}", pl.lit(kind), "pair"), pool=pl.lit(kind)))
        honest = dict(_tests(pl.concat(simulated)))
        for test, found in _tests(mine):
            row: dict[str, object] = {"study": study, "test": test, "cases": found.height}
            for name in ("inside_95", "inside_50"):
                low, high = np.quantile(honest[test].group_by("run").agg(pl.col(name).mean())[name], [0.025, 0.975])
                row |= {name: found[name].mean(), f"{name}_low": low, f"{name}_high": high}
            rows.append(row | {"score": found["score"].mean() / found["score_t"].mean()})
    return pl.DataFrame(rows)


def _tests(sittings: pl.DataFrame) -> Iterator[tuple[str, pl.DataFrame]]:
    """The two tests, with a row for each prediction: run, inside_95, inside_50, score, score_t."""
    numbers = sittings["sitting"].unique().sort().to_list()
    alone = [([one], [other for other in numbers if other != one]) for one in numbers]
    yield "each from the rest", pl.concat(_predicted(sittings, *case) for case in alone)
    if len(numbers) >= 4:
        halves = combinations(numbers, len(numbers) // 2)
        cases = [(list(half), [one for one in numbers if one not in half]) for half in halves if numbers[0] in half]
        yield "half from half", pl.concat(_predicted(sittings, *case) for case in cases)


def _predicted(sittings: pl.DataFrame, some: Sequence[int], others: Sequence[int]) -> pl.DataFrame:
    """Whether the mean of `some` is where `others` say (Welch). A single sitting takes its variance from the others."""
    mine, theirs = (sittings.filter(pl.col("sitting").is_in(numbers)) for numbers in (some, others))
    found = _moderated(theirs)
    own = _moderated(mine) if len(some) > 1 else spreads(mine, ("run", "pair"))
    both = found.join(own, on=["run", "pair"], suffix="_own")
    mean, error, free, s2 = (both[name].to_numpy() for name in ("mean", "error", "freedom", "s2"))
    number = both["sittings"].to_numpy()
    far = np.abs(mean - both["mean_own"].to_numpy())
    if len(some) > 1:
        error_own, free_own = both["error_own"].to_numpy(), both["freedom_own"].to_numpy()
        reach = np.sqrt(error**2 + error_own**2)
        free = reach**4 / (error**4 / free + error_own**4 / free_own)
    else:
        reach = error * np.sqrt(1 + number)
    half = special.stdtrit(free, 0.975) * reach
    half_of_t = special.stdtrit(number - 1, 0.975) * np.sqrt(s2 * (1 / number + 1 / len(some)))
    inside = {"inside_95": far <= half, "inside_50": far <= special.stdtrit(free, 0.75) * reach}
    # The interval score of 95 %: the width, and forty times what is missed.
    of = {"score": half, "score_t": half_of_t}
    scores = {name: 2 * width + 40 * np.maximum(0, far - width) for name, width in of.items()}
    return pl.DataFrame({"run": both["run"]} | inside | scores)
