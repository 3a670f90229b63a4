"""The prediction for a machine that was not measured holds as often as it says, and knows nothing of what came
later.
"""

import numpy as np
import polars as pl
import pytest
from made_up_machines import many_of

from async_cost.machines import prediction
from async_cost.machines.many import read_many
from async_cost.runs.run import find_runs
from async_cost.testing.made_up_runs import OFF, ZERO_COST, make_run

#: Standard deviations of the logarithm between machines, runs and episodes.
MACHINES, RUNS, EPISODES = 0.10, 0.03, 0.01
FINDINGS = 2000


def logs(rng: np.random.Generator, machines: int, runs: int) -> np.ndarray:
    """What runs of machines find, by finding, machine and run."""
    between = rng.normal(0, MACHINES, (FINDINGS, machines, 1))
    return between + rng.normal(0, np.hypot(RUNS, EPISODES), (FINDINGS, machines, runs))


@pytest.mark.parametrize(("machines", "runs"), [(2, 1), (2, 2), (3, 1), (4, 3), (12, 1)])
def test_another_machine_lies_in_the_interval_as_often_as_it_says(machines, runs):
    rng = np.random.default_rng(machines * 10 + runs)
    found = logs(rng, machines + 1, runs)
    expected = prediction.predicted(many_of(found[:, :-1], EPISODES).ratios)
    assert expected.height == FINDINGS and expected["machines"].unique().to_list() == [machines]
    seen = np.exp(found[:, -1, 0])
    held = expected.sort("variant").select(pl.lit(pl.Series(seen)).is_between("low", "high")).to_series()
    # Never below what it says; where the runs of a machine are many, being careful costs some width.
    assert 0.94 <= held.mean() <= 0.98


def test_the_three_variances_are_told_apart():
    found = logs(np.random.default_rng(7), 40, 3)
    expected = prediction.predicted(many_of(found, EPISODES).ratios)
    for column, truth in (("of_machines", MACHINES), ("of_runs", RUNS), ("of_episodes", EPISODES)):
        assert expected[column].median() == pytest.approx(truth, rel=0.1), column


def test_one_machine_predicts_nothing():
    assert prediction.predicted(many_of(logs(np.random.default_rng(1), 1, 4), EPISODES).ratios).is_empty()


def test_a_prediction_is_made_from_what_came_before(tmp_path):
    quiet = {"rounds": 60, "noise": 0.005, "work": False}
    for day, (name, ratio) in enumerate((("alpha", 3.5), ("beta", 3.7), ("gamma", 30.0), ("delta", 3.6)), start=1):
        when = {"started": f"2026-01-0{day}T00:00:00Z", "ended": f"2026-01-0{day}T00:30:00Z"}
        truth = ZERO_COST | {("nonbox", OFF): ratio}
        make_run(tmp_path, truth, machine=name, seed=day, name=f"2026010{day}T000000Z", changes=when, **quiet)
    runs = read_many(find_runs(tmp_path))
    of_nonbox = {"variant": "nonbox", "other": "manual", "parameter": OFF}
    rows = prediction.fared(runs).filter(**of_nonbox).to_dicts()
    assert [(row["machine"], row["machines"], row["held"]) for row in rows] == [("gamma", 2, False), ("delta", 3, True)]
    assert 3.5 < rows[0]["predicted"] < 3.7 and rows[0]["ratio"] == pytest.approx(30, rel=0.05)
    now = prediction.predicted(runs.ratios).filter(**of_nonbox)
    assert now["machines"].to_list() == [4]


def test_what_is_no_evidence_predicts_nothing_and_is_not_predicted():
    many = many_of(logs(np.random.default_rng(2), 3, 1), EPISODES)
    doubted = many.ratios.with_columns(verdict=pl.lit(None, many.ratios.schema["verdict"]))
    assert prediction.predicted(doubted).is_empty()
