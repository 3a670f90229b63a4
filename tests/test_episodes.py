"""A run consists of episodes, one process each: run.json says which rounds they measured, and intervals hold their
spread.
"""

import json

import numpy as np
import polars as pl
import pytest

from async_cost.errors import DataError
from async_cost.runs import finish
from async_cost.runs.comparisons import KEY
from async_cost.runs.record import KINDS, SCHEMA_VERSIONS, read_record
from async_cost.runs.run import load_run
from async_cost.statistics.disturbance import conditions
from async_cost.statistics.interval import LEAST_EPISODES, chances, estimates, quantile, trimmed
from async_cost.statistics.measured import Measured
from async_cost.statistics.ratios import between
from async_cost.statistics.trials import trial_times, trial_values
from async_cost.testing.made_up_runs import BASELINE, OFF, Study, make_run

STUDY = "zero-cost"
NONBOX, MANUAL = ("nonbox", "nonbox", OFF), (BASELINE, BASELINE, OFF)


def made(tmp_path, **how):
    given = {"truth": {("nonbox", OFF): 3.0}, "controls": {OFF: 1.0}, "work": False, "rounds": 24, "episodes": 6}
    return make_run(tmp_path, **given | how)


def edit(run, **fields) -> None:
    document = json.loads((run / "run.json").read_text())
    document["studies"][STUDY] |= fields
    (run / "run.json").write_text(json.dumps(document))


def refused(run) -> DataError:
    with pytest.raises(DataError) as caught:
        load_run(run)
    assert caught.value.remedy
    return caught.value


# -- reading -------------------------------------------------------------------------------------------------


def test_each_round_belongs_to_the_process_that_measured_it(tmp_path):
    run = load_run(made(tmp_path, rounds=10, episodes=3))
    by_round = dict(run.time(STUDY).select("round", "episode").unique().rows())
    assert [by_round[number] for number in range(10)] == [0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
    trials = trial_times(run.time(STUDY))
    assert dict(trials.select("round", "episode").unique().rows()) == by_round
    assert dict(between(trials, "nonbox", BASELINE).select("round", "episode").unique().rows()) == by_round


def test_metrics_carry_the_episode_on(tmp_path):
    study = Study({NONBOX: 2e5, MANUAL: 1e5}, baseline=BASELINE, metrics={NONBOX: {"cpu_ns": 5e4}})
    run = load_run(make_run(tmp_path, None, others={STUDY: study}, rounds=8, episodes=4))
    values = trial_values(run, STUDY, "cpu_ns")
    assert values.group_by("episode").len().sort("episode")["len"].to_list() == [2] * 4


def episode(first: int, started: str = "2026-01-01T00:00:00Z", only: object = None) -> dict:
    return {"first_round": first, "started": started, "ended": None, "only": only, "layout": None}


@pytest.mark.parametrize(
    ("episodes", "place", "problem"),
    [
        ([], "", "no episode"),
        ([episode(1)], "[0].first_round", "begins with round 1 instead of 0"),
        ([episode(0), episode(9), episode(9)], "[2].first_round", "begins with round 9, the one before it with 9"),
        ([episode(0), episode(24)], "[1].first_round", "begins with round 24 in a study of 24 rounds"),
        ([episode(0, "yesterday")], "[0].started", "not a time in UTC"),
        ([episode(0), episode(4, only=[])], "[1].only", "measured no key"),
        ([episode(0), episode(4, only=[["nonbox", "nonbox"]])], "[1].only[0]", "of length 3"),
        ([{"first_round": 0, "started": "2026-01-01T00:00:00Z", "ended": None}], "[0].only", "missing"),
    ],
)
def test_episodes_that_cannot_be_are_refused(tmp_path, episodes, place, problem):
    run = made(tmp_path)
    edit(run, episodes=episodes)
    error = refused(run)
    assert error.column == f"studies.{STUDY}.episodes{place}" and problem in error.problem


@pytest.mark.parametrize(
    ("kinds", "problem"),
    [
        ({}, "group '' has no kind"),
        ({"": KINDS[0], "threads": KINDS[1]}, "group 'threads' has a kind and no limit"),
        ({"": "two threads"}, "is none of one thread, forked trials, many threads, long trials"),
    ],
)
def test_kinds_that_cannot_be_are_refused(tmp_path, kinds, problem):
    run = made(tmp_path)
    edit(run, kinds=kinds)
    error = refused(run)
    assert error.column == f"studies.{STUDY}.kinds" and problem in error.problem


def test_an_episode_may_measure_some_keys_only(tmp_path):
    truth = {("nonbox", OFF): 3.0, ("box", OFF): 4.0}
    chosen = {5: [NONBOX, MANUAL]}
    run = load_run(made(tmp_path, truth=truth, only=chosen))
    rows = Measured.of(run, STUDY).declared.filter(baseline_variant=BASELINE).iter_rows(named=True)
    rows = {row["variant"]: row for row in rows}
    assert (rows["nonbox"]["rounds"], rows["nonbox"]["episodes"]) == (24, 6)
    assert (rows["box"]["rounds"], rows["box"]["episodes"]) == (20, 5)
    assert rows["box"]["low"] < 4.0 < rows["box"]["high"]


def test_what_an_episode_did_not_choose_is_not_in_it_and_what_it_chose_is(tmp_path):
    whole = made(tmp_path / "whole")
    some = json.loads((whole / "run.json").read_text())["studies"][STUDY]["episodes"]
    some[5]["only"] = [list(NONBOX), list(MANUAL)]
    edit(whole, episodes=some)
    assert "was measured in round 20, for which run.json names other keys only" in refused(whole).problem
    less = made(tmp_path / "less", only={5: [NONBOX, MANUAL]})
    some[5]["only"] = None
    edit(less, episodes=some)
    assert "round 20" in refused(less).problem
    some[5]["only"] = [list(NONBOX), list(MANUAL), ["never", "never", OFF]]
    edit(less, episodes=some)
    assert "'never / never / syscalls=off' was not measured in round 0 and" in refused(less).problem


def test_a_key_that_failed_may_be_missing_where_it_was_chosen(tmp_path):
    chosen = {5: [NONBOX, MANUAL, ("box", "box", OFF)]}
    run = made(tmp_path, truth={("nonbox", OFF): 3.0, ("box", OFF): 4.0}, failed=[("box", OFF)], only=chosen)
    assert load_run(run).time(STUDY).filter(variant="box")["round"].unique().to_list() == [0]


def test_a_study_lasted_as_long_as_its_episodes_whatever_ran_between_them(tmp_path):
    other = Study({NONBOX: 2e5, MANUAL: 1e5}, baseline=BASELINE)
    run = made(tmp_path, others={"zero-cost-sockets": other}, episodes=2)
    document = json.loads((run / "run.json").read_text())
    spans = {STUDY: ("00", "01", "05", "08"), "zero-cost-sockets": ("01", "05", "08", "10")}
    for study, seconds in spans.items():
        for place, second in enumerate(seconds):
            which = ("started", "ended")[place % 2]
            document["studies"][study]["episodes"][place // 2][which] = f"2026-01-01T00:00:{second}Z"
    (run / "run.json").write_text(json.dumps(document))
    loaded = load_run(run)
    assert loaded.seconds(STUDY) == 1 + 3 and loaded.seconds("zero-cost-sockets") == 4 + 2
    assert conditions(loaded)["seconds"].sum() == 10
    document["studies"][STUDY]["episodes"][0]["ended"] = None
    (run / "run.json").write_text(json.dumps(document))
    assert load_run(run).seconds(STUDY) is None, "it was interrupted"


@pytest.mark.parametrize("version", SCHEMA_VERSIONS)
def test_a_finished_run_says_what_it_said_before(tmp_path, version):
    partial = make_run(tmp_path / "made", rounds=6, work=False, episodes=3, version=version)
    moved = tmp_path / "runs" / ".partial" / "plan"
    moved.parent.mkdir(parents=True)
    partial.rename(moved)
    document = json.loads((moved / "run.json").read_text())
    (moved / "run.json").write_text(json.dumps(document | {"ended": None}))
    folder = finish.finish(moved, tmp_path / "runs", tmp_path / "outcome.json")
    written = json.loads((folder / "run.json").read_text())
    assert written.pop("ended") and document.pop("ended")
    assert written == document and read_record(folder / "run.json")
    load_run(folder)


# -- the interval --------------------------------------------------------------------------------------------


def frame(by_episode: list[list[float]], name: str = "v") -> pl.DataFrame:
    rows = [(name, number, value) for number, values in enumerate(by_episode) for value in values]
    return pl.DataFrame(rows, schema={"variant": pl.String, "episode": pl.UInt32, "value": pl.Float64}, orient="row")


def test_the_interval_is_that_of_the_medians_of_episodes():
    """Medians 1, 2, 3, 6: mean 3, standard error sqrt(14/3)/2, and t of three degrees of freedom is 3.1824463."""
    found = estimates(frame([[1, 0, 5], [2, 2], [3], [6, 6, 6, 7]]), "value", ["variant"]).row(0, named=True)
    half = 3.1824463052842638 * np.sqrt(14 / 3) / 2
    assert (found["value"], found["rounds"], found["episodes"]) == (3.0, 10, 4)
    assert [found["low"], found["high"]] == pytest.approx([3 - half, 3 + half])


def test_with_few_episodes_rounds_alone_bound_the_median():
    values = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0]]
    few, one = (
        estimates(frame(some), "value", ["variant"]).drop("episodes")
        for some in (values, [[one for some in values for one in some]])
    )
    assert few.equals(one) and few.row(0)[1:4] == (4.0, 1.0, 7.0)


def test_keys_of_different_numbers_of_episodes_are_estimated_side_by_side():
    both = pl.concat([frame([[1], [2], [3], [6]], "four"), frame([[1, 2, 3], [4, 5, 6]], "two")])
    found = estimates(both, "value", ["variant"])
    assert dict(found.select("variant", "episodes").rows()) == {"four": 4, "two": 2}
    assert found.filter(variant="four").equals(estimates(frame([[1], [2], [3], [6]], "four"), "value", ["variant"]))
    assert estimates(both.clear(), "value", ["variant"]).columns == found.columns


def simulated(runs: int, episodes: int, rounds: int, between: float, within: float, seed: int) -> pl.DataFrame:
    """Logarithms of ratios whose truth is 0: every process is off by its own amount."""
    rng = np.random.default_rng(seed)
    values = rng.normal(0, between, (runs, episodes, 1)) + rng.normal(0, within, (runs, episodes, rounds))
    places = np.indices(values.shape)
    return pl.DataFrame(
        {
            "variant": places[0].ravel(),
            "episode": places[1].ravel(),
            "round": places[2].ravel(),
            "value": values.ravel(),
        }
    )


@pytest.mark.parametrize(("episodes", "rounds"), [(4, 10), (6, 8), (20, 6)])
def test_an_interval_over_episodes_holds_the_truth_as_often_as_it_says_and_one_within_does_not(episodes, rounds):
    runs = 2000
    values = simulated(runs, episodes, rounds, between=0.04, within=0.02, seed=7)
    found = estimates(values, "value", ["variant"])
    held = ((found["low"] <= 0) & (found["high"] >= 0)).mean()
    assert abs(held - 0.95) < 3 * np.sqrt(0.95 * 0.05 / runs), f"{held:.1%}"
    within = estimates(values.with_columns(episode=0), "value", ["variant"])
    assert ((within["low"] <= 0) & (within["high"] >= 0)).mean() < 0.75


def test_the_test_of_nothing_agrees_with_its_interval():
    for episodes, rounds in ((8, 5), (1, 40)):
        values = simulated(300, episodes, rounds, between=0.01 if episodes > 1 else 0.0, within=0.02, seed=3)
        both = estimates(values, "value", ["variant"]).join(chances(values, "value", ["variant"]), on="variant")
        misses = (both["low"] > 0) | (both["high"] < 0)
        assert misses.any()
        agree = (misses == (both["chance"] < 0.05)).mean()
        if episodes >= LEAST_EPISODES:
            assert agree > 0.93, "the one is trimmed, the other is not"
        else:
            assert (misses >= (both["chance"] < 0.05)).all() and agree > 0.95


@pytest.mark.parametrize("outliers", [0.0, 0.15])
@pytest.mark.parametrize("episodes", [8, 12, 24])
def test_no_more_than_one_honest_run_in_twenty_has_a_control_that_misses(episodes, outliers):
    """From the medians of 40 controls to the least chance of a run, times 40 (Holm's first step), against 5 % and two
    standard errors.
    """
    runs, controls = 1_000, 40
    rng = np.random.default_rng(7)
    scale = np.where(rng.random((runs * controls, episodes)) < outliers, 6.0, 1.0)
    values = pl.DataFrame(
        {
            "variant": np.repeat(np.arange(runs * controls), episodes),
            "episode": np.tile(np.arange(episodes), runs * controls),
            "value": (scale * rng.standard_normal(scale.shape)).ravel(),
        }
    )
    least = chances(values, "value", ["variant"])["chance"].to_numpy().reshape(runs, controls).min(axis=1)
    assert (least * controls < 0.05).mean() <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs)


def test_the_sign_test_leaves_out_what_is_exactly_nothing():
    found = chances(frame([[1, 1, 1, 1, 1, 1, 0, 0]]), "value", ["variant"])
    assert found["chance"].item() == pytest.approx(2 / 2**6)
    assert chances(frame([[0, 0, 0]]), "value", ["variant"])["chance"].item() == 1
    assert chances(frame([[0], [0], [0], [0]]), "value", ["variant"])["chance"].item() == 1


def test_the_least_and_the_greatest_fifth_of_the_episodes_are_left_out():
    """Of 0, 1, 2, 3, 100 the middle three: mean 2, standard deviation of 1, 1, 2, 3, 3 is 1, so the error is sqrt(4 /
    (3 * 2)).
    """
    found = trimmed(pl.DataFrame({"of": "a", "value": [0.0, 3.0, 100.0, 1.0, 2.0]}), "value", ["of"]).row(0, named=True)
    assert (found["mean"], found["error"], found["episodes"]) == pytest.approx((2.0, np.sqrt(4 / 6), 5))
    same = trimmed(pl.DataFrame({"of": "a", "value": [1.0, 3.0, 5.0, 7.0]}), "value", ["of"]).row(0, named=True)
    assert (same["mean"], same["error"]) == pytest.approx((4.0, np.sqrt(20 / 3 / 4)))


@pytest.mark.parametrize("outliers", [0.0, 0.15])
def test_busy_moments_do_not_cost_the_interval_its_coverage_nor_its_width(outliers):
    """Runs of 24 episodes, in which some meet a moment that makes them differ six times as much."""
    rng, runs = np.random.default_rng(8), 2000
    values = rng.normal(size=(runs, 24)) * np.where(rng.random((runs, 24)) < outliers, 6.0, 1.0)
    rows = pl.DataFrame({"of": np.repeat(np.arange(runs), 24), "value": values.ravel()})
    found = trimmed(rows, "value", ["of"])
    held = (found["mean"].abs() < quantile(24) * found["error"]).mean()
    assert abs(held - 0.95) < 3 * np.sqrt(0.95 * 0.05 / runs), f"{held:.1%}"
    half = (quantile(24) * found["error"]).median()
    plain = np.median(2.07 * values.std(axis=1, ddof=1) / np.sqrt(24))
    assert half < (0.65 if outliers else 1.12) * plain


def test_quantiles_are_those_of_t_from_four_episodes_on():
    assert quantile(1) == quantile(3) == pytest.approx(1.959964)
    # Of four none is left out, of five one at either end, which leaves two degrees of freedom.
    assert quantile(4) == pytest.approx(3.182446) and quantile(5) == pytest.approx(4.302653)


def test_a_made_up_run_of_processes_that_differ_is_known_as_well_as_they_agree(tmp_path):
    run = load_run(made(tmp_path, rounds=120, episodes=12, between=0.02, noise=0.004))
    one = load_run(made(tmp_path / "same", rounds=120, episodes=12, between=0.0, noise=0.004))
    width, narrow = (
        Measured.of(one, STUDY).compare("nonbox", BASELINE).select(pl.col("high") / pl.col("low") - 1).item()
        for one in (run, one)
    )
    # The ratio of two keys that are off by 2 % each: 2.4 * 0.02 * sqrt(2 / 12), to either side, and a little more for
    # the trimming.
    assert width == pytest.approx(2 * 2.5 * 0.02 * np.sqrt(2 / 12), rel=0.7) and narrow < width / 4
    row = Measured.of(run, STUDY).compare("nonbox", BASELINE).row(0, named=True)
    assert row["low"] < 3 < row["high"] and row["episodes"] == 12
    assert tuple(Measured.of(run, STUDY).trials.columns[:5]) == (*KEY, "round", "episode")
