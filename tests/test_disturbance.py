"""What the machine did during a run is found where it was put, and not where it was not."""

import pytest

from async_cost.runs.find import load_run
from async_cost.statistics import disturbance
from async_cost.testing.made_up_runs import Study, make_run


def test_conditions_of_a_resumed_study_are_unknown(tmp_path):
    interrupted = {"first_round": 0, "started": "2026-01-01T00:00:00Z", "ended": None, "layout": None}
    changes = {"studies.zero-cost.resumed": 2, "studies.zero-cost.episodes": [interrupted]}
    changes["studies.zero-cost.steal_after_ms"] = 9000
    run = load_run(make_run(tmp_path, rounds=4, changes=changes))
    row = disturbance.conditions(run).row(0, named=True)
    assert (row["study"], row["resumed"], row["seconds"], row["steal"]) == ("zero-cost", 2, None, None)
    honest = load_run(make_run(tmp_path / "whole", rounds=4, changes={"studies.zero-cost.steal_after_ms": 20}))
    row = disturbance.conditions(honest).row(0, named=True)
    assert row["seconds"] == 1 and row["steal"] == pytest.approx(0.02 / 1 / 2)


def test_interruptions_are_told_for_a_second_of_measured_time(tmp_path):
    key = ("spawn", "tokio", "")
    # One iteration takes 1 ms and is interrupted every second time.
    noted = Study({key: 1e6}, comparisons=[], metrics={key: {"involuntary_switches": 0.5}})
    run = load_run(make_run(tmp_path, others={"runtimes": noted}, rounds=30))
    found = dict(disturbance.conditions(run).select("study", "interruptions").rows())
    assert found["zero-cost"] is None
    assert found["runtimes"] == pytest.approx(500, rel=0.1)
