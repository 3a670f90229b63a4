"""Drift, order and a sequential reading are found where they were put, and not where they were not."""

import numpy as np
import polars as pl
import pytest

from async_cost.runs.comparisons import BASE_KEY, KEY
from async_cost.runs.run import load_run
from async_cost.statistics import disturbance, order, sequential
from async_cost.statistics.interval import estimates
from async_cost.statistics.ratios import between, paired
from async_cost.statistics.trials import trial_times
from async_cost.testing.made_up_runs import Study, make_run

KEYS = ["manual", "manual (A/A)", "nonbox", "box", "large", "callerbox"]
TRUTH = {"manual": 1.0, "manual (A/A)": 1.0, "nonbox": 2.5, "box": 3.0, "large": 5.0, "callerbox": 2.6}
PAIRS = pl.DataFrame(
    [("b", name, "p", "b", "manual", "p") for name in KEYS[1:]], schema=[*KEY, *BASE_KEY], orient="row"
)


def made_up(
    rounds=120, noise=0.01, weather=lambda moment: 1.0, first=1.0, after: dict | None = None, grows=1.0, seed=1
):
    """Trials of `KEYS`: `weather` is the machine's slowness by share of the run, `first` the factor on the first trial
    of a round, `after` factors on whatever runs after a variant, `grows` the factor by which nonbox grows in the second
    half.
    """
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(rounds):
        before = None
        for position, name in enumerate(rng.permutation(KEYS)):
            ns = 1000 * TRUTH[name] * weather((number + position / len(KEYS)) / rounds) * np.exp(rng.normal(0, noise))
            ns *= first if position == 0 else (after or {}).get(before, 1.0)
            ns *= grows if name == "nonbox" and number >= rounds / 2 else 1.0
            rows.append(("b", str(name), "p", number, 0, position, ns))
            before = name
    return pl.DataFrame(rows, schema=[*KEY, "round", "episode", "position", "ns"], orient="row")


def test_speed_is_what_all_variants_have_in_common():
    slow = disturbance.speed(made_up(weather=lambda moment: 2.0 if 0.25 <= moment < 0.5 else 1.0))
    assert slow.filter(pl.col("round").is_between(31, 59))["relative"].median() == pytest.approx(2, rel=0.02)
    assert slow.filter(~pl.col("round").is_between(29, 60))["relative"].max() < 1.05


def test_a_ratio_that_grows_on_the_way_is_told_from_a_machine_that_slows_down():
    weather = dict(weather=lambda moment: 1 + moment)
    steady = disturbance.halves(paired(made_up(**weather), PAIRS))
    assert not steady["moved"].any() and steady.height == 5
    grown = disturbance.halves(paired(made_up(**weather, grows=1.05), PAIRS)).filter("moved")
    assert grown["variant"].to_list() == ["nonbox"]
    assert grown["change"].item() == pytest.approx(1.05, abs=0.01)


def test_halves_of_one_round_say_nothing():
    assert disturbance.halves(paired(made_up(rounds=1), PAIRS)).is_empty()


def test_conditions_of_a_resumed_study_are_unknown(tmp_path):
    changes = {f"studies.zero-cost.{name}": value for name, value in (("resumed", 2), ("steal_after_ms", 9000))}
    run = load_run(make_run(tmp_path, rounds=4, work=False, changes=changes, version=2))
    row = disturbance.conditions(run).row(0, named=True)
    assert (row["study"], row["resumed"], row["seconds"], row["steal"]) == ("zero-cost", 2, None, None)
    honest = load_run(
        make_run(tmp_path / "whole", rounds=4, work=False, changes={"studies.zero-cost.steal_after_ms": 12_000})
    )
    row = disturbance.conditions(honest).row(0, named=True)
    assert row["seconds"] == 600 and row["steal"] == pytest.approx(12 / 600 / 2)


def test_interruptions_are_told_for_a_second_of_measured_time(tmp_path):
    key = ("spawn", "tokio", "")
    # One iteration takes 1 ms and is interrupted every second time.
    noted = Study({key: 1e6}, comparisons=[], metrics={key: {"involuntary_switches": 0.5}})
    run = load_run(make_run(tmp_path, others={"runtimes": noted}, rounds=30, work=False))
    found = dict(disturbance.conditions(run).select("study", "interruptions").rows())
    assert found["zero-cost"] is None
    assert found["runtimes"] == pytest.approx(500, rel=0.1)


# -- order -------------------------------------------------------------------------------------------------


def test_without_an_effect_of_order_none_is_found():
    rests = order.rest(made_up(weather=lambda moment: 1 + moment))
    assert order.matters(order.effects(rests, ["position"])).is_empty()
    assert order.matters(order.effects(rests, order.BEFORE)).is_empty()


def test_a_cold_first_place_is_found():
    found = order.matters(order.effects(order.rest(made_up(first=1.05)), ["position"]))
    assert found["position"][0] == 0
    assert found["rest"][0] == pytest.approx(1.05, abs=0.01)


def test_a_variant_that_slows_its_successor_down_is_named():
    found = order.matters(order.effects(order.rest(made_up(after={"large": 1.04})), order.BEFORE))
    assert found["before_variant"][0] == "large"
    assert found["rest"][0] == pytest.approx(1.04, abs=0.01)


def test_taking_an_effect_out_brings_back_the_truth():
    # Always first is nobody's fate in an honest run; here it is, to see the effect that shuffling keeps out.
    trials = made_up(rounds=60, noise=0.001)
    unfair = trials.filter((pl.col("variant") != "nonbox") | (pl.col("position") < 2))
    unfair = unfair.with_columns(ns=pl.when(position=0).then(pl.col("ns") * 1.1).otherwise("ns"))

    def ratio(frame):
        return estimates(between(frame, "nonbox", "manual"))["ratio"].item()

    biased, mended = ratio(unfair), ratio(order.taken_out(order.rest(unfair), ["position"]))
    assert abs(mended - 2.5) < abs(biased - 2.5) / 3


def test_too_few_rounds_decide_nothing_about_order():
    found = order.effects(order.rest(made_up(rounds=3, first=2.0)), ["position"])
    assert order.matters(found).is_empty()
    assert found["high"].is_infinite().all()


def test_the_successor_of_a_failed_trial_has_no_predecessor():
    trials = made_up(rounds=5).filter((pl.col("variant") != "box") | (pl.col("round") == 0))
    rests = order.rest(trials)
    assert rests.filter(pl.col("round") > 0, before_variant="box").is_empty()
    assert rests.filter(pl.col("position") == 0)["before_variant"].null_count() > 0


# -- one after the other -----------------------------------------------------------------------------------


def test_on_a_drifting_machine_a_sequential_reading_is_many_times_as_wrong():
    drifting = sequential.summary(sequential.errors(made_up(weather=lambda m: 1.6 ** np.sin(9 * m)), PAIRS))
    paired, apart = drifting.rows_by_key("reading", named=True, unique=True).values()
    assert apart["typical"] > 10 * paired["typical"]
    assert apart["worst"] > 0.4 > 0.05 > paired["worst"]


def test_on_a_steady_machine_both_readings_are_about_as_good():
    steady = sequential.summary(sequential.errors(made_up(), PAIRS))
    paired, apart = steady.rows_by_key("reading", named=True, unique=True).values()
    assert 0.5 < apart["typical"] / paired["typical"] < 2


def test_a_single_round_is_no_sequence():
    assert sequential.errors(made_up(rounds=1), PAIRS).is_empty()


def test_all_of_it_reads_a_run(tmp_path):
    run = load_run(make_run(tmp_path, rounds=20, failed=[("box", "syscalls=off")], drift=1.5))
    trials = trial_times(run.whole_time("zero-cost"))
    relative = disturbance.speed(trials)["relative"]
    assert 1.3 < relative.max() / relative.min() < 1.7
    assert order.effects(order.rest(trials), ["position"]).height == trials["position"].n_unique()
