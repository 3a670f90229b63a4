"""What is measured further, after the episodes that everything gets: what claims and headlines need and time can close,
the cheapest first.
"""

import json
import math

import pytest

from async_cost.runs.comparisons import PAIR, claimed
from async_cost.runs.run import load_run
from async_cost.statistics.interval import after_looks, quantile
from async_cost.statistics.measured import Measured
from async_cost.testing.made_up_runs import make_run
from async_cost.workflow import further
from async_cost.workflow.episodes import done_file, further_file

STUDY = "zero-cost"


def eight(folder, **how):
    """A run of eight episodes with ten rounds each."""
    return load_run(make_run(folder, rounds=80, episodes=8, work=False, **how))


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """One whose rounds differ so much that claims stay open."""
    return eight(tmp_path_factory.mktemp("noisy"), noise=0.2)


def questions(run):
    return [question for question in further.open_questions(run) if question.study == STUDY]


def seconds(run):
    return {study: [10.0] * len(details.episodes) for study, details in run.info.studies.items()}


def test_what_a_claim_rests_on_is_judged_twice_and_so_with_a_wider_interval(noisy):
    rows = Measured.of(noisy, STUDY).declared
    pairs = claimed().filter(study=STUDY)
    mine = rows.join(pairs, on=PAIR, how="semi")
    assert mine.height and set(mine["looks"]) == {2}
    assert set(rows["looks"]) == {1, 2}
    for row in rows.drop_nulls("ratio").iter_rows(named=True):
        once, twice = quantile(row["episodes"]), quantile(row["episodes"], after_looks(2))
        assert twice > 1.1 * once
        assert row["quantile"] == pytest.approx({1: once, 2: twice}[row["looks"]])


def test_open_questions_are_undecided_claims_and_headlines_with_their_keys(noisy, tmp_path):
    found = questions(noisy)
    assert found
    measured = set(noisy.time(STUDY).select("bench", "variant", "parameter").unique().rows())
    for question in found:
        assert set(question.keys) <= measured and math.isfinite(question.times), question
    assert {"Z", "a"} == {question.name[0] for question in found}, "claims of the document, and a headline"
    assert len(questions(eight(tmp_path))) < len(found)


def test_the_budget_is_kept_and_more_of_it_closes_more(noisy):
    measured = sum(map(sum, seconds(noisy).values()))
    before = -1
    for share in (0.0, 0.2, 1.0, 10.0):
        chosen, took = further.choose(noisy, seconds(noisy), share)
        assert sum(took.values()) <= share * measured
        keys = sum(len(one.keys) for one in chosen.values())
        assert keys >= before
        before = keys
    assert before > 0


def test_what_cannot_close_is_not_begun(noisy, monkeypatch):
    far = [further.Open(one.name, one.study, one.keys, 1000.0) for one in questions(noisy)]
    monkeypatch.setattr(further, "open_questions", lambda run: far)
    assert further.choose(noisy, seconds(noisy), 10.0) == ({}, {})


def test_more_rounds_help_where_the_rounds_differ_and_episodes_where_these_do(noisy, tmp_path):
    assert further.gain(0.0, 4, 8) == further.gain(0.0, 1, 8)
    assert further.gain(1.0, 4, 8) > 1.5 * further.gain(1.0, 1, 8)
    question = questions(noisy)[0]
    assert further.share_within(noisy, question) > 0.5
    assert further.share_within(eight(tmp_path, between=0.02), question) < 0.3


def test_the_plan_goes_on_after_the_common_rounds_with_as_many_episodes_again(noisy):
    chosen, took = further.choose(noisy, seconds(noisy), 10.0)
    told = further.plan(noisy, chosen, took)[STUDY]
    rounds = 10 * chosen[STUDY].more
    assert told["until"] == [80 + rounds * number for number in range(1, 9)]
    assert {tuple(key) for key in told["only"]} == chosen[STUDY].keys


@pytest.mark.parametrize(("share", "says"), [("0", ""), ("10", STUDY)])
def test_the_command_writes_what_it_chose_into_the_partial_run(noisy, capsys, monkeypatch, share, says):
    entries = [{"study": study, "until": 1, "seconds": one} for study, all_ in seconds(noisy).items() for one in all_]
    done_file(noisy.path).write_text(json.dumps(entries))
    monkeypatch.setattr("sys.argv", ["further", str(noisy.path), share])
    try:
        assert further.main() == 0
        told = json.loads(further_file(noisy.path).read_text())
    finally:
        done_file(noisy.path).unlink()
        further_file(noisy.path).unlink(missing_ok=True)
    assert bool(told) == bool(says) and says in capsys.readouterr().out
