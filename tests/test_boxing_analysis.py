"""The analysis of boxing says what its pairs say, clean and otherwise."""

import re

import ladder_source
import polars as pl
import pytest
from told import VERDICTS, Told, check_alts, check_form, read, tell

from async_cost.runs.run import load_run
from async_cost.statistics.measured import Measured
from async_cost.studies import boxing_cost as boxing
from async_cost.testing.made_up_runs import ALL, FEW, LADDER, OFF, ON, SOCKETS, ZERO_COST, make_run, reversed_truth

ROOM = "boxing-cost"
#: The two studies whose clean pairs also cover system calls and a crowd, which runs made before there were any do not
#: have.
BOXES = ZERO_COST | {("callerbox", ON): 1.104}
RUNGS = LADDER | {("slab index", ALL): 1.9, ("lean + dyn", ALL): 2.15}


@pytest.fixture(scope="module")
def effect(runs) -> Told:
    return tell(
        ROOM,
        make_run(runs / "effect", BOXES, ladder=RUNGS, sockets=SOCKETS, seed=5, rounds=60, noise=0.005, work=False),
    )


@pytest.fixture(scope="module")
def reverse(runs) -> Told:
    run = make_run(
        runs / "reverse", reversed_truth(), ladder=reversed_truth(LADDER), rounds=60, noise=0.005, work=False
    )
    return tell(ROOM, run)


@pytest.fixture(scope="module")
def untrusted(runs) -> Told:
    controls = {OFF: 1.05, ON: 1.0, FEW: 1.05}
    return tell(
        ROOM,
        make_run(runs / "untrusted", ladder=LADDER, rounds=60, noise=0.005, work=False, controls=controls, version=2),
    )


# -- pairs ---------------------------------------------------------------------------------------------------


def test_clean_pairs_of_the_ladder_differ_in_how_futures_are_stored():
    """Both sides reach a common rung by steps that turn nothing but the storage."""

    def unboxed(variant: str) -> str:
        """The rung below all steps that only change the storage."""
        base, switch = steps.get(variant, ("", ""))
        return unboxed(base) if switch == "storage" else variant

    steps = ladder_source.steps()
    clean = [pair for pair in boxing.PAIRS if pair.study == boxing.LADDER]
    assert clean and all(pair.clean for pair in clean)
    for pair in clean:
        assert unboxed(pair.one) == unboxed(pair.other), pair.label


def test_one_function_reads_pairs_of_any_study(runs):
    run = load_run(make_run(runs / "pairs", sockets=SOCKETS, rounds=30, work=False))
    studies = {study: Measured.of(run, study) for study in (boxing.LADDER, boxing.ZERO_COST, boxing.SOCKETS)}
    found = boxing.compare(studies)
    assert set(found["study"]) == {boxing.ZERO_COST, boxing.SOCKETS}, "a study that is absent has no rows"
    row = found.row(by_predicate=(pl.col("one") == "callerbox"), named=True)
    assert row["clean"] and row["ratio"] == pytest.approx(3.65 / 3.6, rel=0.005)
    assert row["low"] <= row["ratio"] <= row["high"] and row["allocations"] == pytest.approx(257 / 256)
    assert row["published"] > 0 and row["bytes"] is None
    mine = boxing.Pair(boxing.ZERO_COST, "box+arc", "box+rc", OFF, benches=("box+arc", "box+rc"))
    assert boxing.compare(studies, [mine])["ratio"].item() == pytest.approx(4.2 / 3.9, rel=0.01)


# -- the text follows the run ------------------------------------------------------------------------------


def test_the_rule_is_computed_from_the_dearest_clean_pair(effect):
    assert effect.trusted
    assert effect.answer.startswith(
        "Boxing a small future takes up to 17 % more time (`lean + dyn` compared with `slab index`; no system calls, few live)."
    )
    rule = r"With small futures, a box costs ([\d.]+) ns \(.* to ([\d.]+) ns\).* takes ([\d.]+) µs or more .* less than ([\d.]+) ns"
    _, high, unseen, cheap = map(float, re.search(rule, effect.answer).groups())
    assert unseen * 1000 == pytest.approx(100 * high, rel=0.05)
    assert cheap == pytest.approx(10 * high, rel=0.05)
    assert re.search(r"16 KiB that are moved into their box, a box costs 3\d\d(\.\d)? ns", effect.answer)
    assert "Building a large future in its box is **faster** than moving it there" in effect.answer
    assert "build it in place" in effect.answer


def test_the_rule_turns_round_with_the_effect(reverse):
    assert reverse.trusted
    assert reverse.answer.startswith("No clean pair shows that boxing a small future costs time.")
    assert "no clean pair shows that a box costs time: box when it is convenient" in reverse.answer
    assert "second thought" not in reverse.answer
    assert "Building a large future in its box is **slower** than moving it there" in reverse.answer
    assert "do not go to that trouble" in reverse.answer


def test_readings_turn_round_with_the_effect(effect, reverse):
    for told, word in ((effect, "Slower"), (reverse, "Faster")):
        assert re.search(rf"\*\*{word}\*\* than the same without a box:[^.]*`lean \+ box / slab index`", told.text)


def test_the_published_pair_is_set_beside_the_clean_one(effect):
    assert re.search(
        r"The bundle of `box` adds (39|4\d)(\.\d)? ns .* The box alone, in `callerbox`, adds \d(\.\d+)? ns", effect.text
    )
    assert "`box` is **slower** than `callerbox`" in effect.text
    assert "`Rc` handles" in effect.text


def test_loads_without_a_clean_pair_are_named(effect, reverse):
    assert "No system calls, 256 live: 1 clean pair" in effect.text
    assert "System calls, few live: 1 clean pair" in effect.text
    assert "Sockets, 256 live: no clean pair; `async+box` compared with `async` takes" in effect.text
    assert "No system calls, 256 live: nothing was measured" in reverse.text
    assert "System calls, few live: no clean pair; `box` compared with `nonbox` takes" in reverse.text
    assert "Sockets, 256 live: nothing was measured" in reverse.text


def test_a_load_is_named_where_it_is_not_the_usual_one(effect):
    assert re.search(
        r"\*\*Slower\*\* than the same without a box:[^.]*`lean \+ dyn\s/ slab index, no system calls, 256 live`",
        effect.text,
    )
    assert "`callerbox`, system calls, few live: " in effect.text


def test_without_the_ladder_one_clean_pair_is_left(runs):
    told = tell(ROOM, make_run(runs / "published", rounds=60, noise=0.005, work=False))
    assert "No clean pair with futures of 16 KiB that are moved into their box was measured." in told.answer
    assert "`callerbox` compared with `nonbox`" in told.answer


def test_without_any_clean_pair_there_is_one_sentence(runs):
    truth = {key: ratio for key, ratio in ZERO_COST.items() if key[0] != "callerbox"}
    told = tell(ROOM, make_run(runs / "absent", truth, rounds=20, work=False))
    assert told.answer.strip() == "Boxing was **not measured** in this run."
    assert told.trusted and told.text.count("not measured") == 1


# -- without trust there is nothing to conclude ----------------------------------------------------------------


def test_a_run_that_is_no_evidence_gives_numbers_without_verdicts(untrusted):
    assert not untrusted.trusted
    assert untrusted.answer.startswith("**This run is not evidence and concludes nothing.**")
    assert "differs from its twin" in untrusted.trust
    assert not [word for word in VERDICTS if word in untrusted.text]
    assert "second thought" not in untrusted.text and "build it in place" not in untrusted.text


def test_one_study_may_be_doubted_alone(runs):
    controls = {OFF: 1.05, ON: 1.0}
    told = tell(ROOM, make_run(runs / "half", ladder=LADDER, rounds=60, noise=0.005, work=False, controls=controls))
    assert not told.trusted
    assert told.answer.startswith("**Not all of this run is evidence**: nothing is concluded from `zero-cost`.")
    assert "With small futures, a box costs" in told.answer


# -- form ----------------------------------------------------------------------------------------------------


def test_charts_say_what_they_show(effect, reverse):
    assert len(effect.alts) == 4
    check_alts(effect)
    assert "Slower than the same without a box" in effect.alts[0]
    assert effect.alts[0] != reverse.alts[0]


def test_the_notebook_keeps_the_house_rules():
    check_form(read(ROOM))
