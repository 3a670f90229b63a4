"""What a run leaves open says what would decide it: more time, a forecast that comes true on made-up runs, or nothing
of the kind.
"""

import math

import pytest

from async_cost import words
from async_cost.literature import replication
from async_cost.literature.claims import load_claims
from async_cost.report import claims as frame
from async_cost.runs.run import load_run
from async_cost.statistics.closing import closing, of_comparison, of_comparison_closing
from async_cost.statistics.interval import quantile
from async_cost.statistics.measured import Measured
from async_cost.statistics.statement import Outcome
from async_cost.testing.made_up_runs import OFF, ON, make_run

HOUR = 3600.0


def row(ratio: float, low: float, high: float, **values) -> dict:
    """A row of the table of comparisons, undecided within a limit of 1 %."""
    numbers = {"ratio": ratio, "low": low, "high": high, "limit": 0.01, "bias": 0.0, "quantile": quantile(20)}
    return numbers | {"doubt": None, "verdict": "undecided"} | values


def logs(ratio: float, half: float) -> tuple[float, float, float]:
    return ratio, ratio * math.exp(-half), ratio * math.exp(half)


@pytest.mark.parametrize(
    ("half", "told"),
    [
        (0.02, "about 3 more hours of this study"),  # (2 / 1)^2 times an hour, less the hour that was measured
        (0.011, "about 15 more minutes of this study"),
        (0.0101, "about 2 more minutes of this study"),
        (0.05, "not within 10 hours of this study"),
    ],
)
def test_the_time_grows_with_the_square_of_half_width_over_distance(half, told):
    border = math.log(1.01)
    assert (
        closing(
            border + 0.01, border + 0.01 - half, border + 0.01 + half, [-border, border], 0.001, 0.01, seconds=HOUR
        ).text
        == told
    )


def test_an_estimate_at_the_border_is_said_to_be_there():
    assert of_comparison(row(*logs(1.0105, 0.01)), HOUR).endswith(f"as it lies within 0.1{words.PERCENT} of the border")
    assert math.isinf(of_comparison_closing(row(*logs(1.0105, 0.01)), HOUR).times)
    assert "of the border" not in of_comparison(row(*logs(1.0125, 0.01)), HOUR)


def test_every_border_that_the_interval_reaches_across_counts():
    """Around 0.998, an interval of 0.985 to 1.012 crosses both; the nearer one takes longer to clear."""
    both = of_comparison_closing(row(0.998, 0.985, 1.012), HOUR).times
    nearer = (math.log(0.998 / 0.985) / math.log(0.998 / 0.99)) ** 2
    assert both == pytest.approx(nearer)
    assert of_comparison_closing(row(0.999, 0.995, 1.02), HOUR).times == pytest.approx(
        (math.log(1.02 / 0.999) / math.log(1.01 / 0.999)) ** 2
    ), "the farther one, where only that is crossed"


def test_what_controls_add_takes_no_time_away():
    plain = of_comparison_closing(row(*logs(1.03, 0.025)), HOUR).times
    biased = of_comparison_closing(row(*logs(1.03, 0.025), bias=0.005), HOUR).times
    assert 1 < plain < biased < math.inf
    never = of_comparison(row(*logs(1.03, 0.025), bias=0.011), HOUR)
    assert never == "more time does not help, as the same code measured twice differs by as much"


def test_without_a_known_time_it_is_told_in_rounds():
    assert of_comparison(row(*logs(1.03, 0.04)), None) == "about 4.2 times the rounds of this study"


def test_what_is_decided_or_was_not_measured_needs_nothing_and_what_is_refused_names_its_control():
    assert of_comparison(row(1.5, 1.4, 1.6, verdict="slower"), HOUR) is None
    assert of_comparison(row(None, None, None, verdict=None, doubt="no control"), HOUR) is None
    refused = row(1.5, 1.4, 1.6, verdict=None, doubt="control a (A/A) differs from its twin")
    assert of_comparison(refused, HOUR) == "nothing in this run: control a (A/A) differs from its twin"
    assert of_comparison_closing(refused, HOUR) is None


def test_the_table_says_it(tmp_path):
    run = load_run(make_run(tmp_path, {("nonbox", OFF): 1.013}, controls={OFF: 1.0}, noise=0.02, rounds=60, work=False))
    found = Measured.of(run, "zero-cost").compare("nonbox", "manual").row(0, named=True)
    assert found["verdict"] == "undecided" and "of this study" in found["to_decide"]


def test_a_claim_says_it_about_its_own_region(tmp_path):
    run = load_run(make_run(tmp_path, rounds=20, noise=0.15, work=False))
    outcomes = replication.outcomes(run, [claim for claim in load_claims() if claim.study == "zero-cost"])
    stays = [one for one in outcomes if one.published.outcome is Outcome.UNDECIDED]
    assert stays
    for one in stays:
        assert one.published.closing or one.published.reason
        if one.published.closing:
            assert one.published.closing.text in frame.claims(run).filter(claim=one.claim.id)["to_decide"].item()
    decided = [one for one in outcomes if one.published.outcome is Outcome.HOLDS]
    assert decided and all(one.published.closing is None for one in decided)


def test_a_claim_on_what_is_refused_names_the_control(tmp_path):
    run = load_run(make_run(tmp_path, controls={OFF: 1.1, ON: 1.0}, rounds=20, work=False))
    for one in replication.outcomes(run, [claim for claim in load_claims() if claim.study == "zero-cost"]):
        if one.published.outcome is Outcome.UNDECIDED:
            assert "control manual (A/A)" in words.plain(one.published.reason) and one.published.closing is None
