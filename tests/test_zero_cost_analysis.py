"""The analysis of zero-cost says what its run says: an effect, its reverse, or nothing at all."""

import math
import re
from functools import partial

import pytest
import told as telling
from told import Told, check_form, read

from async_cost import words
from async_cost.testing.made_up_runs import (
    ALL,
    ALL_KEPT,
    FEW,
    FEW_KEPT,
    FLOOR,
    KEPT,
    OFF,
    ON,
    SOCKETS,
    ZERO_COST,
    make_run,
    reversed_truth,
)

tell = partial(telling.tell, "zero-cost")


@pytest.fixture(scope="module")
def effect(runs) -> Told:
    return tell(make_run(runs / "effect", sockets=SOCKETS, seed=4, rounds=120, drift=2.4))


@pytest.fixture(scope="module")
def reverse(runs) -> Told:
    return tell(make_run(runs / "reverse", reversed_truth(), sockets=reversed_truth(SOCKETS), seed=4, rounds=120))


@pytest.fixture(scope="module")
def nothing(runs) -> Told:
    truth = dict.fromkeys(ZERO_COST, 1.0)
    return tell(make_run(runs / "nothing", truth, seed=4))


@pytest.fixture(scope="module")
def untrusted(runs) -> Told:
    controls = {OFF: 1.04, ON: 1.0, ALL: 1.05}
    return tell(make_run(runs / "untrusted", sockets=SOCKETS, seed=4, rounds=120, controls=controls, version=2))


@pytest.fixture(scope="module")
def quick(runs) -> Told:
    return tell(make_run(runs / "quick", sockets=SOCKETS, seed=4, rounds=12, profile="quick"))


# -- the text follows the run ------------------------------------------------------------------------------


def test_the_answer_says_slower_when_async_is_slower(effect):
    assert effect.trusted
    assert effect.answer.count("**slower**") == 5, "two loops, with and without system calls, and real sockets"
    assert "**faster**" not in effect.answer
    assert "3.6" in effect.answer and "adds" in effect.answer


def test_the_answer_says_the_reverse_of_a_reversed_effect(reverse):
    assert reverse.trusted
    assert reverse.answer.count("**faster**") == 5
    assert "slower" not in reverse.answer
    assert "saves" in reverse.answer and "adds" not in reverse.answer


def test_the_answer_says_the_same_when_there_is_no_effect(nothing):
    assert nothing.trusted
    assert "**slower**" not in nothing.answer and "**faster**" not in nothing.answer
    assert nothing.answer.count("**the same**") + nothing.answer.count("**undecided**") == 4


def test_every_reading_turns_round_with_the_effect(effect, reverse):
    for variant in ("nonbox", "box", "large+box"):
        pattern = rf"\*\*Slower\*\* than `manual`:[^.]*`{re.escape(variant)}`"
        assert re.search(pattern, effect.text), f"{variant} is slower and not said to be"
        assert not re.search(pattern, reverse.text), f"{variant} is faster and said to be slower"
        assert re.search(pattern.replace("Slower", "Faster"), reverse.text)
    assert "`Arc / Rc`" in effect.text
    assert re.search(r"\*\*Slower\*\* than the second of the two:[^.]*`checked Rc / Rc`", effect.text)
    assert re.search(r"\*\*Faster\*\* than the second of the two:[^.]*`checked Rc / Rc`", reverse.text)


def test_break_even_is_only_spoken_of_when_there_is_something_to_hide(effect, reverse):
    assert "of own work on, async costs less than 10 %" in effect.text
    assert "there is nothing to hide" not in effect.text
    assert "there is nothing to hide" in reverse.text
    assert "of own work on, async costs less than" not in reverse.text


def test_system_calls_bring_a_ratio_closer_to_one_from_either_side(effect, reverse, nothing):
    for told in (effect, reverse):
        assert "System calls **bring** the ratio of `nonbox` to `manual` **closer to one**" in told.text
    assert "System calls **are not shown to bring** the ratio" in nothing.text


def test_other_choices_are_told_beside_the_described_ones(effect, runs):
    lean = {("manual (lean)", OFF): 0.8, ("nonbox (lean)", OFF): 2.0, ("box (lean)", OFF): 2.4}
    nested = {("manual (nested)", ON): 1.0, ("nonbox (nested)", ON): 1.3}
    told = tell(make_run(runs / "choices", seed=5, rounds=120, noise=0.002, truth=ZERO_COST | lean | nested))
    found = re.search(
        r"`nonbox` compared with `manual`: ([\d.]+)[^:]* as described, ([\d.]+)[^:]* with all lean choices on both sides",
        told.text,
    )
    assert float(found[1]) == pytest.approx(3.6, rel=0.01)
    assert float(found[2]) == pytest.approx(2.0 / 0.8, rel=0.01)
    rows = re.findall(r"<tr>(.*?)</tr>", "".join(told.tables), re.DOTALL)
    cells = {cell[0]: cell[1:] for cell in (re.findall(r">([^<>]*)(?:</a>)?</td>", row) for row in rows) if cell}
    expected = {
        "all lean choices": ("off", [0.8, 2 / 3.6, 0.6, 2.5, 3.0]),
        "operations called by one more function": ("on", [1.0, 1.3 / 1.1, math.nan, 1.3, math.nan]),
    }
    for change, (calls, ratios) in expected.items():
        told_calls, *told_ratios = cells[change]
        assert told_calls == calls
        numbers = [math.nan if cell == words.NOTHING else float(cell.split()[0]) for cell in told_ratios]
        assert numbers == pytest.approx(ratios, rel=0.01, nan_ok=True)
    assert "Other choices were not measured" in effect.text


def test_drift_is_spoken_of_as_found(effect, reverse):
    course = r"slowest round `manual` takes ([\d.]+) times as long"
    assert float(re.search(course, effect.text)[1]) > 2
    assert float(re.search(course, reverse.text)[1]) < 1.3


def test_unequal_work_is_said_to_be_unequal(effect, runs):
    assert "kind by kind" in effect.text
    run = make_run(runs / "unequal", seed=2, rounds=20, noise=0.005)
    counts = run / "zero-cost.counts.csv"
    counts.write_text(counts.read_text().replace(f"box,box,{OFF},read,512", f"box,box,{OFF},read,511"))
    told = tell(run)
    assert "**Not equal**: `box` do" in told.text
    assert "kind by kind" not in told.text


def test_a_failed_variant_is_missing_and_said_to_be(runs):
    failed = [("manual (best)", OFF), ("box+arc", OFF), ("nonbox", f"{OFF} work=300")]
    told = tell(make_run(runs / "failed", seed=4, rounds=120, failed=failed))
    assert "**not measured**" in told.answer
    assert told.text.count("failed and is missing or incomplete") == 3


def test_counts_that_were_not_made_are_not_spoken_of(effect, runs):
    assert "Allocating nothing while they run: `large+nonbox`" in effect.text
    run = make_run(runs / "uncounted", seed=4, rounds=20)
    counts = run / "zero-cost.counts.csv"
    kept = [
        row for row in counts.read_text().splitlines() if ",allocations," not in row and ",instructions," not in row
    ]
    counts.write_text("\n".join(kept) + "\n")
    told = tell(run)
    assert "did not count allocations" in told.text
    assert "Instructions were not counted" in told.text
    assert "instructions for each request" not in " ".join(told.alts).lower()


def test_the_two_lenses_are_compared_where_both_looked(effect, quick):
    assert re.search(
        r"`nonbox` compared with `manual`: 2\.18 times the instructions, 3\.6\d+ times the time", effect.text
    )
    assert re.search(r"`box\+arc` compared with `box\+rc`: the same instructions, [78][.\d]* % more time", effect.text)
    assert "An atomic addition is one instruction, like a plain one, but takes longer." in effect.text
    assert "An atomic addition" not in quick.text, "an explanation of what is not shown"
    assert any("manual 1,094" in alt for alt in effect.alts)


def test_counts_that_all_share_have_no_column(effect):
    assert (
        "1,025 polls, 768 wakes and 1,536 waker clones in an iteration (256 requests); these have no column"
        in effect.text
    )
    assert "The others make 257 allocations in an iteration (256 requests)" in effect.text


# -- real sockets ------------------------------------------------------------------------------------------------


def test_the_answer_begins_with_its_gist(effect, reverse, nothing):
    for told, ratio in ((effect, "3.6 times the time"), (reverse, "0.28 times the time"), (nothing, "the same time")):
        first, rest = told.answer.split("\n\n", 1)
        assert first.startswith(f"Compared with a loop written by hand, async takes {ratio} when I/O costs nothing")
        assert first.count(".") - len(re.findall(r"\d\.\d", first)) == 1 and rest.startswith("- ")
    assert re.search(r"[\d.]+ % more time on real sockets\.", effect.answer)
    assert re.search(r"[\d.]+ % less time on real sockets\.", reverse.answer)


def test_sockets_turn_round_with_their_effect(effect, reverse):
    servers = [f"`async` at `{FEW}`", f"`async+box` at `{ALL}`", f"`async` at `{ALL} work=1000`"]
    for told, word in ((effect, "Slower"), (reverse, "Faster")):
        groups = re.findall(rf"\*\*{word}\*\* than `manual`:([^.]*)", told.text)
        assert any(all(server in group for server in servers) for group in groups)
        assert "This study's own control" in told.text
        floors = re.findall(r"At `live=\d+` ([\d.]+) % of the time of `manual` [^;]*is not the server's", told.text)
        assert [float(floor) for floor in floors] == pytest.approx([70, 80], abs=1), "the floor is no effect"
    above = r"above that floor, `async` takes (?:[\d.]+ % (\w+) time|[\d.]+ times)"
    assert re.findall(above, effect.text) == ["more", "more"]
    assert re.findall(above, reverse.text) == ["less", "less"]
    assert re.search(rf"On sockets, `async` adds .* \(`{FEW}`, compared with `manual`\)", effect.text)
    assert re.search(rf"On sockets, `async` saves .* \(`{FEW}`, compared with `manual`\)", reverse.text)


def test_a_request_on_a_kept_connection_is_told_with_the_share_of_the_kernel(effect, runs):
    assert "Connections that stay open were not measured in this run." in effect.text
    for name, verb, more, turn in (("kept", "adds", "more", dict), ("kept-reverse", "saves", "less", reversed_truth)):
        told = tell(make_run(runs / name, sockets=turn(SOCKETS | KEPT), seed=4, rounds=60, noise=0.005))
        assert re.search(rf"A request alone, on connections that stay open: .*{more} time .* It {verb} ", told.answer)
        found = re.findall(
            rf"At `([^`]*asks=\d+)`, `async` takes [\d.]+ % {more} time .*?; it {verb} ([\d.]+) ns", told.text
        )
        assert [load for load, _ in found] == [FEW_KEPT, ALL_KEPT]
        assert [float(ns) for _, ns in found] == pytest.approx([30, 30], abs=4), "3 % of a microsecond"
        shares = re.findall(r"Of the time of `manual`, ([\d.]+) % \(.*?\) are the kernel's, and ([\d.]+) ns", told.text)
        assert [float(share) for share, _ in shares] == pytest.approx([95, 95], abs=1)
        assert [float(own) for _, own in shares] == pytest.approx([50, 50], abs=6)


def test_a_study_that_was_not_measured_is_said_not_to_be(nothing, effect):
    assert "Real sockets were **not measured** in this run." in nothing.text
    assert "`async` was **not measured** against `manual`" in nothing.answer
    assert "On sockets" not in nothing.text and "sockets" not in nothing.answer.split("\n")[0]
    assert "Real sockets were" not in effect.text


def test_sockets_without_a_good_control_conclude_nothing(runs):
    run = make_run(runs / "sockets", sockets=SOCKETS, seed=4, rounds=120, controls={OFF: 1.0, ON: 1.0, FEW: 1.06})
    told = tell(run)
    assert told.trusted, "the other study has controls of its own"
    assert "**Nothing is concluded on real sockets**" in told.text
    assert re.search(r"On real sockets, .* \(no evidence: .*\): compared with `manual`, `async` takes", told.answer)
    assert told.answer.count("**slower**") == 4
    assert "on real sockets." not in told.answer.split("\n")[0]


def test_servers_that_make_other_system_calls_are_named(effect, runs):
    assert "combinations of server and load make as many system calls as `manual`" in effect.text
    run = make_run(runs / "calls", sockets=SOCKETS, failed=[(FLOOR, FEW)], seed=4, rounds=20)
    counts = run / "zero-cost-sockets.counts.csv"
    row = f"async+box,async+box,{ALL},syscalls,"
    counts.write_text(counts.read_text().replace(f"{row}3342", f"{row}3343"))
    told = tell(run)
    assert "**Not equal**: `async+box` make other system calls than `manual`" in told.text
    assert f"At `{FEW}` no floor was found" in told.text


def test_work_beside_system_calls_is_executed_and_compared_with_paper(effect, reverse):
    assert "the published text computed 2.6 % less time for `manual` than for `nonbox`" in effect.text
    executed = r"Executed here, with work that takes [\d.]+ µs: [^(]*% (less|more) time \("
    assert re.search(executed, effect.text)[1] == "less"
    assert re.search(executed, reverse.text)[1] == "more"


# -- without trust there is nothing to conclude ----------------------------------------------------------------


@pytest.mark.parametrize("which", ["untrusted", "quick"])
def test_a_run_that_is_no_evidence_says_so_first_and_concludes_nothing(which, request):
    told = request.getfixturevalue(which)
    assert not told.trusted
    assert told.answer.startswith("What this run shows, without being evidence:")
    assert re.search(r"`nonbox` takes [\d.]+ times the time .* differs by [\d.]+ ns", told.answer), (
        "the numbers are there"
    )
    assert told.trust.startswith("Nothing is concluded from this run:\n\n- ")
    assert not re.search(r"\*\*\w", told.text), "a verdict, or what looks like one"
    assert not re.search(r"\b(slower|faster|more expensive|cheaper)\b(?! than published)", told.text, re.IGNORECASE)
    assert len(re.findall("evidence", told.text)) <= 2, "one notice is enough"


def test_the_reason_for_distrust_is_the_one_of_the_run(untrusted, quick):
    assert "differs from its twin" in untrusted.trust and OFF in untrusted.trust
    assert "quick" in quick.trust


# -- charts --------------------------------------------------------------------------------------------------


def test_every_chart_has_its_finding_as_alt_text(effect, reverse):
    assert len(effect.alts) >= 6
    for told in (effect, reverse):
        for alt in told.alts:
            assert len(alt.split()) > 6 and "`" not in alt and "**" not in alt
    assert effect.alts[0] != reverse.alts[0]
    assert re.search(r"Slower than manual: nonbox", effect.alts[0])


# -- no number is typed into prose -----------------------------------------------------------------------------


def test_prose_and_code_hold_no_result_and_every_chart_is_read():
    check_form(read("zero-cost"))
