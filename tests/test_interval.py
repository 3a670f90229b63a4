"""The interval over hours, link orders and processes: what it is by hand, and that it holds the truth as often as it
says, where an interval over processes alone does not.
"""

from itertools import product

import numpy as np
import polars as pl
import pytest
from scipy import stats

from async_cost.statistics.differences import PLACE, differences, speeds
from async_cost.statistics.interval import CONFIDENCE, LEAST_EPISODES, estimates, hours, of_sittings, quantile, spreads


def frame(by_episode: list[list[float]], name: str = "v") -> pl.DataFrame:
    rows = [(name, number, value) for number, values in enumerate(by_episode) for value in values]
    return pl.DataFrame(rows, schema={"variant": pl.String, "episode": pl.UInt32, "value": pl.Float64}, orient="row")


def estimated(values: pl.DataFrame, **pools) -> pl.DataFrame:
    return estimates(values, "value", ["variant"], **pools)


def test_the_interval_of_one_sitting_is_that_of_the_medians_of_processes():
    """Medians 1, 2, 3, 6: mean 3, standard error sqrt(14/3)/2, and t of three degrees of freedom is 3.1824463."""
    row = estimated(frame([[1, 0, 5], [2, 2], [3], [6, 6, 6, 7]])).row(0, named=True)
    half = 3.1824463052842638 * np.sqrt(14 / 3) / 2
    assert (row["value"], row["rounds"], row["episodes"], row["sittings"]) == (3.0, 10, 4, 1)
    assert [row["low"], row["high"]] == pytest.approx([3 - half, 3 + half])
    assert row["omega2"] is row["d0"] is None, "it does not cover another hour"


def test_the_interval_does_not_depend_on_what_the_column_is_called():
    values = frame([[1], [2], [3], [6]])
    for name in ("v", "mean", "moves", "pool", "above", "value", "sorted"):
        table = estimates(values.rename({"value": name}), name, ["variant"])
        assert table.rename({name: "value"}).equals(estimated(values))
    with pytest.raises(pl.exceptions.DuplicateError, match="error"):
        estimates(values.rename({"value": "error"}), "error", ["variant"])


def test_with_few_processes_rounds_alone_bound_the_median():
    values = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0]]
    together = [[value for some in values for value in some]]
    few, single = (estimated(frame(some)).drop("episodes") for some in (values, together))
    assert few.equals(single) and few.row(0)[1:4] == (4.0, 1.0, 7.0)
    assert quantile(few["freedom"].item()) == pytest.approx(1.959964)


def test_keys_of_different_numbers_of_processes_are_estimated_side_by_side():
    both = pl.concat([frame([[1], [2], [3], [6]], "four"), frame([[1, 2, 3], [4, 5, 6]], "two")])
    table = estimated(both)
    assert dict(table.select("variant", "episodes").rows()) == {"four": 4, "two": 2}
    assert table.filter(variant="four").equals(estimated(frame([[1], [2], [3], [6]], "four")))
    assert estimated(both.clear()).columns == table.columns


def test_two_sittings_by_hand():
    """Sittings of processes 1, 3 and 4, 8: means 2 and 6, so s2 = 8; variances 2 and 8 over 2, so v = 2.5; omega2 =
    5.5. One comparison has no others to be moderated by: t over sittings, unless d0 is known.
    """
    values = frame([[1], [3], [4], [8]]).with_columns(sitting=pl.col("episode") // 2)
    row = estimated(values).row(0, named=True)
    assert (row["value"], row["omega2"], row["prior"], row["d0"]) == (4.0, 5.5, 8.0, 0.0)
    assert row["within"] == 5.0 and row["error"] == pytest.approx(2.0)
    assert row["freedom"] == 1 and row["high"] == pytest.approx(4 + 2 * stats.t.ppf(0.975, 1))
    known = {"pool": 0, "keys": 2, "omega2": 3.0, "d0": 10.0}
    both = estimated(values, pools=pl.DataFrame([{"variant": "v"} | known])).row(0, named=True)
    assert both["error"] == pytest.approx(np.sqrt((10 * (2.5 + 3) + 8) / 11 / 2))
    of_prior = 1 / ((2.5 / 5.5) ** 2 / 2 + (3 / 5.5) ** 2 / 10)
    assert both["freedom"] == pytest.approx(1 / ((10 / 11) ** 2 / of_prior + (1 / 11) ** 2))
    single = estimated(values.filter(sitting=0), pools=pl.DataFrame([{"variant": "v"} | known]))
    assert single["sittings"].item() == 1 and single["error"].is_null().item(), "two processes are too few"


def test_one_sitting_takes_the_hours_of_the_reference_where_they_are_known():
    """Processes 1, 2, 3, 6: v = 14/12; an hour adds 3."""
    known = {"variant": "v", "pool": 0, "keys": 2, "omega2": 3.0, "d0": 10.0}
    row = estimated(frame([[1], [2], [3], [6]]), pools=pl.DataFrame([known])).row(0, named=True)
    v = 14 / 3 / 4
    assert row["error"] == pytest.approx(np.sqrt(v + 3))
    assert row["freedom"] == pytest.approx(1 / ((v / (v + 3)) ** 2 / 3 + (3 / (v + 3)) ** 2 / 10))


def test_the_prior_is_as_free_as_the_variances_of_its_pool_agree_and_as_it_moves_independently():
    rng = np.random.default_rng(3)

    def pool(spread: np.ndarray | float = 1.0, common: float = 0.0) -> pl.DataFrame:
        """400 comparisons over six sittings, in which v is 1 and an hour adds 2."""
        alone, together = rng.normal(size=(400, 6)), rng.normal(size=(1, 6))
        hour = np.sqrt(2) * (np.sqrt(1 - common) * alone + np.sqrt(common) * together)
        means = (hour + rng.normal(size=(400, 6))) * np.reshape(np.sqrt(spread), (-1, 1))
        moves = means - means.mean(axis=1, keepdims=True)
        return pl.DataFrame({"v": 1.0, "s2": means.var(axis=1, ddof=1), "moves": moves.tolist()})

    cases = {
        "plain": (pool(), 1000),
        "uneven": (pool(4 / rng.chisquare(4, 400)), 1000),
        "shared keys": (pool(), 8),
        "common": (pool(common=0.95), 1000),
        "two": (pool().with_columns(pl.col("moves").list.head(2), s2=pl.col("moves").list.head(2).list.var()), 1000),
        "one": (pool(), 8),
    }
    # All at once, as each by itself.
    sittings = {"two": 2, "one": 1}
    together = [
        rows.with_columns(pool=pl.lit(name), keys=keys, sittings=sittings.get(name, 6))
        for name, (rows, keys) in cases.items()
    ]
    priors = {name: (omega2, d0) for name, omega2, d0 in hours(pl.concat(together)).rows()}
    for name, rows in zip(cases, together, strict=True):
        alone = hours(rows).rows()
        assert alone == ([(name, *map(pytest.approx, priors[name]))] if name in priors else [])
    omega2, free = priors["plain"]
    assert omega2 == pytest.approx(2, rel=0.15) and free > 100
    assert priors["uneven"][1] == pytest.approx(4, rel=0.4)
    assert priors["shared keys"][1] == 5 * 8 / 2, "comparisons that share keys repeat one another"
    assert priors["common"][1] < 30, "and so do those that an hour moves together"
    assert priors["two"][1] > 20, "two sittings cannot tell"
    assert "one" not in priors


# -- coverage ------------------------------------------------------------------------------------------------

RUNS, PAIRS, SITTINGS, PROCESSES = 60, 30, 3, 8


def simulated(seed: int, hour: float, process: float) -> pl.DataFrame:
    """Runs of a study whose true values are 0. One process in seven is six times as noisy."""
    rng = np.random.default_rng(seed)
    shape = (RUNS * PAIRS, SITTINGS, PROCESSES)
    noise = rng.normal(size=shape) * np.where(rng.random(shape) < 1 / 7, 6.0, 1.0)
    values = rng.normal(0, hour, (*shape[:2], 1)) + process * noise / np.sqrt(6)
    places = dict(zip(("variant", "sitting", "episode"), (place.ravel() for place in np.indices(shape)), strict=True))
    # Two rounds a process.
    rows = pl.DataFrame(places | {"value": values.ravel()}).with_columns(round=pl.int_range(pl.len()))
    return pl.concat([rows, rows])


def share_inside(intervals: pl.DataFrame) -> float:
    return ((intervals["low"] <= 0) & (intervals["high"] >= 0)).mean()


@pytest.mark.parametrize(("hour", "process"), [(0.0, 0.02), (0.005, 0.02), (0.02, 0.01)])
def test_intervals_hold_the_truth_as_often_as_they_say_whatever_an_hour_does(hour, process):
    values = simulated(5, hour, process)
    pools = pl.DataFrame({"variant": np.arange(RUNS * PAIRS)}).with_columns(
        pool=pl.col("variant") // PAIRS, keys=PAIRS, omega2=pl.lit(None, pl.Float64), d0=pl.lit(None, pl.Float64)
    )
    share = share_inside(estimated(values, pools=pools))
    # Intervals of t are a little wide where some processes are far off.
    assert 0.93 <= share <= 0.985, f"{share:.1%}"
    if hour >= process:
        single = estimated(values.with_columns(sitting=0))
        assert share_inside(single) < 0.75, "an interval over processes alone is too narrow"


#: True ratios of one study, and the noise of both of their sides.
OF_ONE_STUDY = list(product((0.5, 1.02, 1.5, 5.0, 200.0, 500.0), ((0.02, 0.02), (0.05, 0.01), (0.01, 0.05))))


def differing(rng: np.random.Generator, sittings: int) -> pl.DataFrame:
    """Trials of pairs with all of these ratios to 100 ns, in hours that move each key by itself and all of them."""
    shape = (len(OF_ONE_STUDY), 2, sittings, 6)
    logs = np.log([[100 * ratio, 100] for ratio, _ in OF_ONE_STUDY])[:, :, None, None]
    logs = logs + rng.normal(0, 0.01, (*shape[:3], 1)) + rng.normal(0, 0.015, (1, 1, sittings, 1))
    logs = logs + rng.normal(size=shape) * np.array([noise for _, noise in OF_ONE_STUDY])[:, :, None, None]
    pair, side, sitting, episode = (place.ravel() for place in np.indices(shape))
    places = {
        "pair": pair,
        "side": side,
        "sitting": sitting,
        "episode": episode + 6 * sitting,
        "ns": np.exp(logs).ravel(),
    }
    named = {"bench": pl.format("{} {}", "pair", "side"), "variant": pl.lit("x"), "parameter": pl.lit("p")}
    trials = pl.DataFrame(places).with_columns(**named, round=2 * pl.col("episode"))
    return pl.concat([trials, trials.with_columns(round=pl.col("round") + 1)])


def of_differences(trials: pl.DataFrame, **known: float) -> tuple[pl.DataFrame, dict[str, float]]:
    """The intervals of both kinds, pair by pair, and what they know of hours."""
    speed = speeds(trials)
    hours = {"omega2": known.get("speed2"), "d0": 5.0 if known else None}
    of_speed = estimated(speed.with_columns(variant=0, value="speed"), **hours).row(0, named=True)
    mine, its = (trials.filter(side=side).select("pair", *PLACE, "ns") for side in (0, 1))
    rounds = mine.rename({"ns": "place0"}).join(its.rename({"ns": "place1"}), on=["pair", *PLACE]).join(speed, on=PLACE)
    rounds = rounds.with_columns(
        ratio=(pl.col("place0") / pl.col("place1")).log(), unsure=(of_speed["high"] - of_speed["low"]) / 2
    )
    shown = {name: pl.lit(known.get(name), pl.Float64) for name in ("omega2", "d0")}
    pools = pl.DataFrame({"pair": range(len(OF_ONE_STUDY))}).with_columns(pool=0, keys=2 * len(OF_ONE_STUDY), **shown)
    ratios = estimates(rounds, "ratio", ["pair"], pools)
    pools = pools.drop(shown).join(ratios.select("pair", *shown), on="pair")
    both = differences(rounds, (1.0, -1.0), ["pair"], pools).join(ratios, on="pair", suffix="_ratio")
    return both, {name: ratios[name][0] for name in shown} | {"speed2": of_speed["omega2"]}


@pytest.mark.parametrize("sittings", [6, 1])
def test_intervals_of_differences_hold_the_truth_whatever_the_ratio_and_the_noise_of_its_sides(sittings):
    rng, parts = np.random.default_rng(5), []
    for _ in range(40):
        known = {} if sittings > 1 else of_differences(differing(rng, 6))[1]
        parts.append(of_differences(differing(rng, sittings), **known)[0])
    table = pl.concat(parts)
    ratio = pl.Series([OF_ONE_STUDY[pair][0] for pair in table["pair"]])
    inside = (table["low"] <= 100 * (ratio - 1)) & (table["high"] >= 100 * (ratio - 1))
    assert 0.93 <= inside.mean() <= 0.975, f"{inside.mean():.1%}"
    by_ratio = pl.DataFrame({"ratio": ratio, "inside": inside}).group_by("ratio").agg(pl.col("inside").mean())
    assert by_ratio["inside"].is_between(0.9, 1).all(), by_ratio
    equal = table.filter(pl.Series(ratio == 1.02))
    width, of_ratio = ((equal[f"high{suffix}"] - equal[f"low{suffix}"]).median() for suffix in ("", "_ratio"))
    assert width / 102 == pytest.approx(of_ratio, rel=0.1), "what is 200 times as long widens no interval but its own"


def test_a_difference_has_the_sign_of_its_ratio_where_a_few_slow_processes_decide_the_mean():
    rounds = pl.DataFrame(
        {"variant": "x", "place0": 130.0, "place1": [100.0] * 9 + [700.0], "speed": 0.0, "unsure": 0.0}
    )
    rounds = rounds.with_columns(episode=pl.int_range(10), sitting=0, round=pl.int_range(10))
    rounds = pl.concat([rounds, rounds.with_columns(round=pl.col("round") + 10)])
    assert (rounds["place0"] - rounds["place1"]).mean() < 0
    forward, back = (
        differences(rounds.rename(names), (1.0, -1.0), ["variant"]).row(0, named=True)
        for names in ({}, {"place0": "place1", "place1": "place0"})
    )
    ratio = estimated(rounds.with_columns(value=(pl.col("place0") / pl.col("place1")).log())).row(0, named=True)
    assert forward["value"] > 0 and ratio["value"] > 0
    assert forward["value"] / (100 * 7**0.1) == pytest.approx(np.exp(ratio["value"]) - 1), (
        "the baseline's time, ratio - 1"
    )
    assert [-back[name] for name in ("value", "high", "low")] == pytest.approx(
        [forward[name] for name in ("value", "low", "high")]
    )


def test_the_chance_of_nothing_agrees_with_the_interval():
    rng = np.random.default_rng(3)
    for episodes, rounds in ((8, 5), (1, 40)):
        values = rng.normal(0, 0.01 * (episodes > 1), (300, episodes, 1)) + rng.normal(0, 0.02, (300, episodes, rounds))
        places = dict(zip(("variant", "episode", "round"), map(np.ravel, np.indices(values.shape)), strict=True))
        table = estimated(pl.DataFrame(places | {"value": values.ravel()}))
        misses, unlikely = (table["low"] > 0) | (table["high"] < 0), table["chance"] < 1 - CONFIDENCE
        assert misses.any()
        assert (misses == unlikely).all() if episodes >= LEAST_EPISODES else (misses >= unlikely).all()


def test_the_sign_test_leaves_out_what_is_exactly_nothing():
    assert estimated(frame([[1, 1, 1, 1, 1, 1, 0, 0]]))["chance"].item() == pytest.approx(2 / 2**6)
    assert estimated(frame([[0, 0, 0]]))["chance"].item() == 1
    assert estimated(frame([[0], [0], [0], [0]]))["chance"].item() == 1


def test_a_sitting_without_spread_of_its_own_counts_by_its_mean():
    values = frame([[1], [2], [4], [5]]).with_columns(sitting=pl.col("episode"))
    spread = spreads(of_sittings(values, "value", ["variant"]), ["variant"]).row(0, named=True)
    assert (spread["v"], spread["free"], spread["sittings"]) == (0.0, 0, 4)
    row = estimated(values).row(0, named=True)
    assert row["error"] == pytest.approx(np.sqrt(spread["s2"] / 4)) and row["freedom"] == 3
