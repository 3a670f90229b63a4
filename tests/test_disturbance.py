"""What the machine did during a run is found where it was put, and not where it was not."""

import numpy as np
import polars as pl
import pytest

from async_cost.runs.comparisons import KEY
from async_cost.runs.find import load_run
from async_cost.statistics import disturbance
from async_cost.statistics.trials import trial_times
from async_cost.testing.made_up_runs import Study, make_run

TRUTH = {"manual": 1.0, "manual (A/A)": 1.0, "nonbox": 2.5, "box": 3.0, "large": 5.0, "callerbox": 2.6}


def made_up(rounds=120, noise=0.01, weather=lambda moment: 1.0, seed=1):
    """Trials of the variants in TRUTH; `weather` is the machine's slowness by share of the run."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(rounds):
        for position, name in enumerate(rng.permutation(list(TRUTH))):
            slow = weather((number + position / len(TRUTH)) / rounds)
            rows.append(
                ("b", str(name), "p", number, 0, position, 1000 * TRUTH[name] * slow * np.exp(rng.normal(0, noise)))
            )
    return pl.DataFrame(rows, schema=[*KEY, "round", "episode", "position", "ns"], orient="row")


def test_speed_is_what_all_variants_have_in_common():
    slow = disturbance.speed(made_up(weather=lambda moment: 2.0 if 0.25 <= moment < 0.5 else 1.0))
    assert slow.filter(pl.col("round").is_between(31, 59))["relative"].median() == pytest.approx(2, rel=0.02)
    assert slow.filter(~pl.col("round").is_between(29, 60))["relative"].max() < 1.05


def test_conditions_of_a_resumed_study_are_unknown(tmp_path):
    interrupted = {"first_round": 0, "started": "2026-01-01T00:00:00Z", "ended": None, "only": None, "layout": None}
    changes = {"studies.zero-cost.resumed": 2, "studies.zero-cost.episodes": [interrupted]}
    changes["studies.zero-cost.steal_after_ms"] = 9000
    run = load_run(make_run(tmp_path, rounds=4, work=False, changes=changes))
    row = disturbance.conditions(run).row(0, named=True)
    assert (row["study"], row["resumed"], row["seconds"], row["steal"]) == ("zero-cost", 2, None, None)
    honest = load_run(
        make_run(tmp_path / "whole", rounds=4, work=False, changes={"studies.zero-cost.steal_after_ms": 20})
    )
    row = disturbance.conditions(honest).row(0, named=True)
    assert row["seconds"] == 1 and row["steal"] == pytest.approx(0.02 / 1 / 2)


def test_interruptions_are_told_for_a_second_of_measured_time(tmp_path):
    key = ("spawn", "tokio", "")
    # One iteration takes 1 ms and is interrupted every second time.
    noted = Study({key: 1e6}, comparisons=[], metrics={key: {"involuntary_switches": 0.5}})
    run = load_run(make_run(tmp_path, others={"runtimes": noted}, rounds=30, work=False))
    found = dict(disturbance.conditions(run).select("study", "interruptions").rows())
    assert found["zero-cost"] is None
    assert found["runtimes"] == pytest.approx(500, rel=0.1)


def test_a_machine_that_slows_down_shows_in_a_run(tmp_path):
    run = load_run(make_run(tmp_path, rounds=20, failed=[("box", "syscalls=off")], drift=1.5))
    relative = disturbance.speed(trial_times(run.whole_time("zero-cost")))["relative"]
    assert 1.3 < relative.max() / relative.min() < 1.7
