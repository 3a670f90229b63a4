"""The analysis of the ladder says what its run says; its steps are those that the study declares."""

import re

import ladder_source
import pytest
from told import VERDICTS, Told, check_alts, check_form, read, tell

from async_cost.runs.comparisons import of_today
from async_cost.runs.run import load_run
from async_cost.statistics.measured import Measured
from async_cost.studies import ladder
from async_cost.testing.made_up_runs import FEW, LADDER, OFF, ON, make_run, reversed_truth

ROOM = "ladder"


@pytest.fixture(scope="module")
def effect(runs) -> Told:
    return tell(ROOM, make_run(runs / "effect", {}, ladder=LADDER, rounds=120, drift=2.0))


@pytest.fixture(scope="module")
def reverse(runs) -> Told:
    return tell(ROOM, make_run(runs / "reverse", {}, ladder=reversed_truth(LADDER), rounds=120))


@pytest.fixture(scope="module")
def untrusted(runs) -> Told:
    controls = {OFF: 1.0, ON: 1.0, FEW: 1.05}
    return tell(ROOM, make_run(runs / "untrusted", {}, ladder=LADDER, rounds=120, controls=controls, version=2))


# -- the steps are those that the study declares -----------------------------------------------------------------


def test_each_variant_is_compared_with_the_one_that_it_is_built_on():
    declared = ladder.built_on(of_today().filter(study=ladder.STUDY, parameter=FEW))
    built_on = {variant: base for variant, (base, _) in ladder_source.steps().items()}
    assert dict(declared.select("variant", "baseline_variant").rows()) == built_on
    assert len(built_on) > 30 and (declared["change"].str.len_chars() > 5).all()


def test_branches_are_what_stands_in_branches(runs):
    found = ladder.steps(Measured.of(load_run(make_run(runs / "steps", {}, ladder=LADDER, rounds=6)), ladder.STUDY))
    assert found.height == len(ladder_source.steps())
    assert set(found.filter("branch")["variant"]) == set(ladder_source.branches())


# -- the text follows the run ------------------------------------------------------------------------------


def test_the_answer_turns_round_with_the_effect(effect, reverse):
    assert effect.trusted and reverse.trusted
    assert re.match(r"Against the best loop by hand, the leanest async takes (39|40|41) % more time\.", effect.answer)
    assert "`frontier` is **slower** than `manual (best)`" in effect.answer and "adds" in effect.answer
    assert "`mutex queue` is **slower** than `manual (best)`" in effect.answer
    assert "`frontier` is **faster** than `manual (best)`" in reverse.answer and "saves" in reverse.answer
    assert "slower" not in reverse.answer


def test_the_dearest_steps_are_named_by_either_lens(effect):
    assert "add most time: `mutex queue`, `Arc waker` and `boxed dyn`" in effect.answer
    assert "add most instructions: `mutex queue`, `bound per operation` and `boxed dyn`" in effect.answer
    assert "750 instructions" in effect.answer and "568" not in effect.answer
    assert "`frontier` executes 750 instructions, `manual (best)` 570: 180 added" in effect.answer


def test_wakers_have_a_price_of_their_own(effect, reverse):
    assert "`frontier` is **slower** than `no wakers`" in effect.text
    assert "`frontier` executes 750 instructions, `no wakers` 720: 30 added" in effect.text
    assert "`frontier` is **faster** than `no wakers`" in reverse.text


def test_the_price_is_told_in_bytes_as_well_and_without_the_fake(effect, reverse):
    assert "For each connection `frontier` keeps 304 bytes, `manual (best)` 185: 119 added, " in effect.answer
    assert re.search(
        r"and the frontier adds \d+ ns .*; without the fake it takes (1\.9|2\.0)\d* times the time", effect.text
    )
    assert "without the fake it takes" not in reverse.text.split("By the clock")[1], (
        "nothing is left without a fake that is slower"
    )


def test_every_step_is_sorted_by_its_verdict(effect, reverse):
    pattern = r"\*\*{}\*\* than the rung that it is built on:[^.]*`Arc waker`"
    assert re.search(pattern.format("Slower"), effect.text) and not re.search(pattern.format("Faster"), effect.text)
    assert re.search(pattern.format("Faster"), reverse.text) and not re.search(pattern.format("Slower"), reverse.text)
    branch = r"\*\*The same\*\* as the variant that it branches from:[^*]*`16 KiB uninitialised`"
    assert re.search(branch, effect.text)


def test_the_lenses_disagree_where_they_should(effect):
    silent = re.search(r"Seen by the clock, and less than 50 instructions: ([^.]*)\.", effect.text)[1]
    assert "`Arc waker`" in silent and "`mutex queue`" not in silent
    assert "Instructions of `Arc waker` and `Rc waker` differ by 0 for a request." in effect.text
    assert "Counting with atomics is **slower** than counting without" in effect.text
    assert re.search(
        r"`16 KiB zeroed` compared with `slab index` takes [\d.]+ times the instructions, 1\.01 for each byte zeroed",
        effect.text,
    )
    assert re.search(
        r"`16 KiB uninitialised \+ dyn` compared with [^,]*, 1\.03 for each byte of its future", effect.text
    )


def test_the_gap_to_the_loop_is_divided(effect):
    assert "Of 180 additional instructions the separation takes 150 (83.3 %), the keyword 30." in effect.text
    assert "The crowd **raises** the ratio" in effect.text


def test_own_work_hides_only_what_is_there(effect):
    assert re.search(r"with [\d.]+ µs of own work or more it costs less than 5 %", effect.text)


def test_counts_that_were_not_made_are_not_spoken_of(runs):
    run = make_run(runs / "uncounted", {}, ladder=LADDER, rounds=20)
    counts = run / "ladder.counts.csv"
    kept = [row for row in counts.read_text().splitlines() if not re.search(r",(instructions|zeroed_bytes),", row)]
    counts.write_text("\n".join(kept) + "\n")
    assert "Instructions of a request were not counted" in tell(ROOM, run).text


def test_a_failed_rung_is_missing_and_said_to_be(runs):
    told = tell(ROOM, make_run(runs / "failed", {}, ladder=LADDER, rounds=20, failed=[("frontier", FEW)]))
    assert "**not measured**" in told.answer
    assert "failed and is missing or incomplete" in told.text


# -- without trust, or without the study, there is nothing to conclude ------------------------------------------


def test_a_run_that_is_no_evidence_gives_numbers_without_verdicts(untrusted):
    assert not untrusted.trusted
    assert untrusted.answer.startswith("**This run is not evidence and concludes nothing.**")
    assert "differs from its twin" in untrusted.trust
    assert not [word for word in VERDICTS if word in untrusted.text]
    assert "Seen by the clock" not in untrusted.text


def test_a_run_without_the_study_says_so_once(runs):
    told = tell(ROOM, make_run(runs / "absent", {}, rounds=20))
    assert told.trusted and not told.alts
    assert told.answer.strip() == "The ladder was **not measured** in this run."
    assert told.text.count("not measured") == 1


# -- form ----------------------------------------------------------------------------------------------------


def test_charts_say_what_they_show(effect, reverse):
    assert len(effect.alts) == 7
    check_alts(effect)
    assert "Slower than the rung that it is built on: split" in effect.alts[2]
    assert effect.alts[2] != reverse.alts[2]


def test_the_notebook_keeps_the_house_rules():
    check_form(read(ROOM))
