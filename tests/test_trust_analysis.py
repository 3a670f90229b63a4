"""The page on trust says of each study whether it may be believed, and of a machine what was done to it."""

import re

import pytest
from told import VERDICTS, Told, check_alts, check_form, read, tell

from async_cost.synthetic import LADDER, OFF, ON, SOCKETS, make_run

ROOM = "trust"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def honest(runs) -> Told:
    return tell(
        ROOM, make_run(runs / "honest", ladder=LADDER, sockets=SOCKETS, seed=5, rounds=60, noise=0.005, work=False)
    )


@pytest.fixture(scope="module")
def troubled(runs) -> Told:
    """A machine that slows down to a half and recovers, is robbed by others, and has one control that fails."""
    changes = {
        "studies.zero-cost-sockets.steal_after_ms": 120_000,
        "studies.zero-cost.load_before": [3.0, 3.0, 3.0],
        "studies.zero-cost.resumed": 1,
    }
    controls = {OFF: 1.05, ON: 1.0}
    return tell(
        ROOM,
        make_run(
            runs / "troubled", sockets=SOCKETS, rounds=60, noise=0.005, drift=2.0, controls=controls, changes=changes
        ),
    )


def test_every_study_has_its_verdict_first(honest):
    assert honest.trusted
    assert honest.answer.startswith("All three studies of this run may be believed.")
    for study in ("zero-cost", "zero-cost-ladder", "zero-cost-sockets"):
        assert f"- `{study}` **may be believed**: its two controls lie within 0." in honest.answer


def test_a_study_that_fails_is_named_with_its_reason_and_the_others_stay(troubled):
    assert not troubled.trusted
    assert troubled.answer.startswith("**Not all of this run is evidence**: nothing is concluded from `zero-cost`.")
    assert "- `zero-cost` is **not evidence** and concludes nothing" in troubled.answer
    assert "- `zero-cost-sockets` **may be believed**" in troubled.answer
    assert "differs from its twin" in troubled.trust and "sockets" not in troubled.trust


def test_a_quick_run_concludes_nothing(runs):
    told = tell(ROOM, make_run(runs / "quick", rounds=2, work=False, profile="quick"))
    assert not told.trusted
    assert told.answer.startswith("**This run is not evidence and concludes nothing.**")
    assert "the profile is quick" in told.trust
    assert "none is shown to matter" in told.text and "No chart: there are too few rounds to tell." in told.text


def test_the_page_gives_no_verdict_on_variants(honest, troubled):
    for told in (honest, troubled):
        assert not [word for word in VERDICTS if word in told.text]


def test_drift_is_measured_and_so_is_what_it_does_to_a_sequential_reading(honest, troubled):
    assert re.search(r"`zero-cost`: the slowest round took [12] % more time than the fastest", honest.text)
    times = re.search(r"`zero-cost`: the slowest round took ([\d.]+) times as long as the fastest", troubled.text)[1]
    assert 1.8 < float(times) < 2.2
    wrong = r"`zero-cost`: typically wrong by [\d.]+ % instead of [\d.]+ %, ([\d.]+) times as much"
    assert float(re.search(wrong, honest.text)[1]) < 2.5
    assert float(re.search(wrong, troubled.text)[1]) > 20


def test_disturbances_on_record_are_told(honest, troubled):
    assert "Nobody is known to have taken 1 % of the time from any study." in honest.text
    assert "Others took 1 % of the time or more from `zero-cost-sockets`." in troubled.text
    assert "How much was taken from `zero-cost` is not known." in troubled.text
    assert "The machine was not idle before the run: load 3.00." in troubled.text
    assert "resumed once" in troubled.text


def test_order_and_course_are_quiet_in_an_honest_run(honest):
    for study in ("zero-cost", "zero-cost-ladder", "zero-cost-sockets"):
        for found in (r"place[s]?, none is shown to matter", r"ratios, none is shown to have moved"):
            assert re.search(rf"`{study}`: of \d+ {found}", honest.text)


def test_charts_say_what_they_show(honest, troubled):
    assert len(honest.alts) == 5
    check_alts(honest)
    assert honest.alts[1] != troubled.alts[1]


def test_the_notebook_keeps_the_house_rules():
    check_form(read(ROOM))
