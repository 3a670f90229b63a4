"""Do intervals hold the truth as often as they say, and what do they find? The estimator of the table (`interval`) on
simulated series, whose truth is known, and on the sittings of real ones, each predicted from the others.
"""

from itertools import product

import numpy as np
import polars as pl
from scipy import special

from async_cost.runs import series as sittings_of
from async_cost.runs.comparisons import BASE_KEY, KEY, PAIR
from async_cost.runs.find import find_runs, open_run, reference_run
from async_cost.runs.run import Run
from async_cost.statistics.differences import apart as apart_from_speed
from async_cost.statistics.interval import CONFIDENCE, moderated, of_sittings, quantile, spreads
from async_cost.statistics.table import FACTORS, PLACES, POOL, comparisons, rounds_of

#: What an hour adds where that is unknown.
HOUR = 0.5
#: Simulated series of a study for each case, and comparisons that are simulated at most.
SERIES, MOST = 300, 30
#: What intervals are of.
RATIOS, DIFFERENCES = "ratios", "differences"
#: What is estimated by itself.
BY = ("run", "pair")
#: One process in so many is so many times as noisy.
NOISY, NOISE = 7, 6.0
#: Sittings and processes a sitting of the simulated series.
DESIGNS = ((6, 12), (3, 12))
#: Whether an hour moves each key by itself, or nine tenths of the variance are one movement of the whole study.
CORRELATED = {"independent": 0.0, "common": 0.9}
#: Planted effects whose detection is counted, besides none.
EFFECTS = (0.005, 0.01, 0.02, 0.05)


def components(run: Run) -> pl.DataFrame:
    """Of each comparison of a run: study, kind, PAIR, limit, ratio; process and hour, the standard deviations of the
    logarithm between processes and between hours, and speed, that of the machine's speed between hours. Where one
    sitting does not know the latter two, they are `HOUR` times the median of the first in the study and kind.
    """
    rows = comparisons(run).frame.filter(~pl.col("control"), pl.col("freedom") < 1e6)
    v = pl.col("prior") - pl.col("omega2").fill_null(0.0)
    process = (v * pl.col("episodes") / pl.col("sittings")).clip(lower_bound=0.0).sqrt()
    between = {"hour": pl.col("omega2").sqrt(), "speed": pl.col("speed2").sqrt()}
    known = rows.select("study", "kind", *PAIR, "limit", "ratio", process=process, **between)
    supposed = HOUR * pl.col("process").median().over("study", "kind")
    return known.with_columns(pl.col(*between).fill_null(supposed))


def series(rows: pl.DataFrame, sittings: int, processes: int, common: float, rng: np.random.Generator) -> pl.DataFrame:
    """Return the errors of simulated series of comparisons, rows of `components` of one study and kind: run, pair,
    sitting, count, keys; mean, within (as `interval.of_sittings`, of the logarithm of the ratio); apart, within_apart
    (the same of `differences.apart`), speed and lever (as `table.of_processes`). Comparisons that share a key share its
    movements.
    """
    named = dict.fromkeys([*rows.select(KEY).rows(), *rows.select(BASE_KEY).rows()])
    keys = {key: place for place, key in enumerate(named)}
    first, second = (np.array([keys[key] for key in rows.select(names).rows()]) for names in (KEY, BASE_KEY))
    process, hour = (_of_keys(rows[name].to_numpy(), first, second, len(keys)) for name in ("process", "hour"))
    shape = (SERIES, sittings, processes, len(keys))
    uneven = np.sqrt(6 / rng.chisquare(6, (SERIES, 1, len(keys)))) * np.sqrt(4 / 6)  # some keys feel an hour more
    hours = rng.normal(size=(SERIES, sittings, len(keys))) * hour * uneven * np.sqrt(1 - common)
    noisy = np.where(rng.random(shape[:3]) < 1 / NOISY, NOISE, 1.0) / np.sqrt(1 + (NOISE**2 - 1) / NOISY)
    noise = rng.normal(size=shape) * noisy[..., None] * process
    mine, its = (hours[:, :, None, at] + noise[..., at] for at in (first, second))
    mine += rng.normal(size=(SERIES, sittings, 1, 1)) * np.sqrt(common) * rows["hour"].to_numpy()
    size = rows["ratio"].to_numpy()
    spread = np.sqrt((size**2 + 1) / 2)
    runs, sitting, pair = (place.ravel() for place in np.indices((SERIES, sittings, rows.height)))
    made = {"run": runs, "sitting": sitting, "pair": pair, "lever": ((size - 1) / spread)[pair]}
    made["speed"] = (rng.normal(size=(SERIES, sittings, 1)) * rows["speed"].to_numpy()).ravel()
    for name, within, values in (
        ("mean", "within", mine - its),
        ("apart", "within_apart", (size * mine - its) / spread),
    ):
        made |= {name: values.mean(2).ravel(), within: values.var(2, ddof=1).ravel()}
    return pl.DataFrame(made).with_columns(count=processes, keys=len(keys))


def _of_keys(of_pairs: np.ndarray, first: np.ndarray, second: np.ndarray, number: int) -> np.ndarray:
    """The standard deviation of each key that gives its pairs theirs, on average."""
    both, squares = np.concatenate([first, second]), np.tile(of_pairs**2, 2) / 2
    return np.sqrt(np.bincount(both, squares, number) / np.bincount(both, minlength=number))


def moderated_pairs(sittings: pl.DataFrame, quantity: str) -> pl.DataFrame:
    """Estimate `quantity`, `RATIOS` or `DIFFERENCES` apart from speed, for each run and pair: the columns of
    `interval.moderated`, moderated over the pairs of a pool of a run; lever (0 for ratios); speed, speed_error,
    speed_freedom; and plain, the variance between sittings with the effect of speed included.
    """
    pool = sittings.group_by(BY).agg(pl.col("keys").first(), pl.col("^pool$").first())
    unknown = {name: pl.lit(None, pl.Float64) for name in ("omega2", "d0")}
    pool = pool.with_columns(pool=pl.struct("run", *pool.select("^pool$").columns).rank("dense"), **unknown)
    estimate = moderated(spreads(sittings, BY).join(pool, on=BY, maintain_order="left"))
    if quantity == DIFFERENCES:
        sittings = sittings.with_columns(mean="apart", within="within_apart")
        estimate = moderated(spreads(sittings, BY).join(estimate.select(*pool.columns), on=BY, maintain_order="left"))
    lever, speed = pl.col("lever") * (quantity == DIFFERENCES), pl.col("speed")
    more = sittings.group_by(BY).agg(
        lever.first(),
        speed.mean(),
        speed_error=speed.std() / pl.len().sqrt(),
        speed_freedom=pl.len() - 1.0,
        plain=(pl.col("mean") + lever * speed).var(),
    )
    return estimate.join(more, on=BY, maintain_order="left")


def half_widths(estimates: pl.DataFrame, confidence: float = CONFIDENCE) -> np.ndarray:
    """Half the width of each interval."""
    freedom, error, free, of_speed = (
        estimates[name].to_numpy() for name in ("freedom", "error", "speed_freedom", "speed_error")
    )
    quantiles, speed = (special.stdtrit(degrees, (1 + confidence) / 2) for degrees in (freedom, free))
    return np.hypot(quantiles * error, estimates["lever"].to_numpy() * speed * of_speed)


def of_reference() -> pl.DataFrame:
    """`coverage` of series like the reference run."""
    return coverage(components(reference_run()))


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


def predictions() -> pl.DataFrame:
    """`held_out` of every series in data/runs, by its `run`."""
    heads = dict.fromkeys(sittings_of.folders(folder)[0] for folder in find_runs())
    tables = [(run.info.run_id, held_out(run)) for run in map(open_run, heads)]
    return pl.concat(table.select(pl.lit(id).alias("run"), pl.all()) for id, table in tables if table.height)


def held_out(run: Run, seed: int = 7) -> pl.DataFrame:
    """Each sitting of a run predicted from the others, by study: study, of (ratios, or differences), cases, inside_95,
    inside_50 (shares inside of such intervals), each with _low and _high, between which the shares of 95 % of simulated
    honest series lie, and score, the mean interval score over that of plain t over sittings: below 1 is better
    (Gneiting and Raftery 2007). No rows for less than three sittings.
    """
    if len(run.sittings) < 3:
        return pl.DataFrame()
    values = _of_processes(run).filter(~pl.col("control"))
    by = ("study", "kind", *PAIR)
    ratios, apart = (of_sittings(values, name, by) for name in ("log_ratio", "apart"))
    more = values.group_by(*by, "sitting").agg(pl.col("speed").mean(), pl.col("lever").first())
    apart = apart.select(*by, "sitting", apart="mean", within_apart="within")
    for some in (apart, more):  # the order of sittings is that of `spreads`
        ratios = ratios.join(some, on=[*by, "sitting"], maintain_order="left")
    ratios = ratios.drop_nulls("within")
    known, rng, rows = components(run), np.random.default_rng(seed), []
    for (study,), mine in ratios.group_by("study", maintain_order=True):
        sittings = mine["sitting"].n_unique()
        mine = mine.with_columns(run=0, pair=pl.struct(PAIR).rank("dense"), pool="kind")
        mine = mine.with_columns(keys=pl.len().over("pool") // sittings)
        simulated = []
        for (kind,), some in known.filter(study=study).group_by("kind", maintain_order=True):
            some = some.sample(min(MOST, some.height), seed=seed)
            processes = int(mine.filter(kind=kind).select(pl.col("count").median()).item())
            made = series(some, sittings, processes, 0.0, rng)
            simulated.append(made.with_columns(pair=pl.format("{} {}", pl.lit(kind), "pair"), pool=pl.lit(kind)))
        for quantity in (RATIOS, DIFFERENCES):
            honest, predicted = (_predicted(some, quantity) for some in (pl.concat(simulated), mine))
            row: dict[str, object] = {"study": study, "of": quantity, "cases": predicted.height}
            for name in ("inside_95", "inside_50"):
                low, high = np.quantile(honest.group_by("run").agg(pl.col(name).mean())[name], [0.025, 0.975])
                row |= {name: predicted[name].mean(), f"{name}_low": low, f"{name}_high": high}
            rows.append(row | {"score": predicted.select(pl.col("score").mean() / pl.col("score_t").mean()).item()})
    return pl.DataFrame(rows)


def _of_processes(run: Run) -> pl.DataFrame:
    """What each process says of each comparison: study, PAIR, kind, control, limit, sitting, episode; log_ratio,
    apart and speed (`differences`), medians over its rounds; lever (the difference, in its spreads).
    """
    parts = []
    for study in run.info.studies:
        declared, rounds, *_ = rounds_of(run.uncached(), study, 0)
        rounds = apart_from_speed(rounds.rename(PLACES), FACTORS, ["pair"])
        medians = pl.col("log_ratio", "apart", "speed").median()
        lever = (pl.col("value") / pl.col("spread")).first()
        values = rounds.group_by("pair", "sitting", "episode").agg(medians, lever=lever)
        parts.append(
            declared.select("pair", *POOL, *PAIR, "limit")
            .join(values, on="pair", maintain_order="left_right")
            .drop("pair")
        )
    return pl.concat(parts)


def _predicted(sittings: pl.DataFrame, quantity: str) -> pl.DataFrame:
    """For each sitting and pair, whether it is where the other sittings say: run, inside_95, inside_50, score, score_t.
    A single sitting takes its variance from the others.
    """
    parts = []
    for number in sittings["sitting"].unique().sort():
        others = sittings.filter(pl.col("sitting") != number)
        own = sittings.filter(sitting=number).select(*BY, "speed", mean="mean" if quantity == RATIOS else "apart")
        both = moderated_pairs(others, quantity).join(own, on=BY, suffix="_own", maintain_order="left")
        count = others["sitting"].n_unique()
        both = both.with_columns(pl.col("error", "speed_error") * np.sqrt(1 + count))
        off = pl.col("mean") - pl.col("mean_own") + pl.col("lever") * (pl.col("speed") - pl.col("speed_own"))
        far = both.select(off.abs()).to_series().to_numpy()
        half = half_widths(both)
        half_of_t = quantile(count - 1) * np.sqrt(both["plain"].to_numpy() * (1 / count + 1))
        inside = {"inside_95": far <= half, "inside_50": far <= half_widths(both, 0.5)}
        # The interval score of 95 %: the width, and forty times what is missed.
        of_both = {"score": half, "score_t": half_of_t}
        scores = {name: 2 * width + 40 * np.maximum(0, far - width) for name, width in of_both.items()}
        parts.append(pl.DataFrame({"run": both["run"]} | inside | scores))
    return pl.concat(parts)
