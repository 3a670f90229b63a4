"""A finding says the numbers of a run, as its author's sentence only while they are in the regions that were written
down; every outcome can be provoked.
"""

import json
import math
from dataclasses import replace

import msgspec
import polars as pl
import pytest
from made_up_runs import OFF, ON, REQUESTS, Study, make_run

import async_cost as ac
from async_cost import words
from async_cost.findings import committed, definitions
from async_cost.findings.committed import called, machines
from async_cost.findings.definitions import OF_FINDING, hashes_of, limits_of_today, row_of
from async_cost.findings.finding import FindingResult, Judge, finding, slot
from async_cost.findings.operands import (
    Expected,
    Pair,
    Pairs,
    Quantity,
    difference_of_differences,
    pair,
    pairs,
    ratio_of_ratios,
)
from async_cost.findings.record import SHOWN, Finding, record
from async_cost.report import finding as shown
from async_cost.report import reading
from async_cost.report.reading import Reading
from async_cost.report.records import banner
from async_cost.runs.find import load_run
from async_cost.runs.judged import definition
from async_cost.statistics.effects import Effect, _apart, _crossing
from async_cost.statistics.interval import quantile
from async_cost.statistics.statement import Outcome, departure, outcome

FREE, CALLS = (pair("zero-cost", "nonbox", "manual", parameter) for parameter in (OFF, ON))
DESIGNS = pairs("zero-cost", baseline="manual", parameter=OFF, only=["nonbox", "box", "box+arc"])
HOLDS, NOT, UNDECIDED = Outcome.HOLDS, Outcome.DOES_NOT_HOLD, Outcome.UNDECIDED
FITTED, ABSENT = shown.FITTED, shown.NOTHING_TO_SAY


def over(least: float) -> dict:
    return {"least": least}


def under(most: float) -> dict:
    return {"most": most}


def between(least: float, most: float) -> dict:
    return {"least": least, "most": most}


#: Nothing is expected; more time, or less.
ANY, SLOWER, FASTER = dict[str, float](), over(1.01), under(0.99)
MOST = {"of": "most"}


def said(quantity: Quantity, region: dict = ANY, form: str = "", *, so: str = "", processors: int = 1) -> Finding:
    """A finding of one number that is expected in `region`, whatever the lint would say of it."""
    written = f"{{it:{form}}}" if form else "{it}"
    it = slot("page-id", "it", quantity.expect(**region) if region else quantity, f"It is {written}.", processors)
    return Finding(id="page-id", page="page", sentence=it.statement, label=f"it: {written}", slots=(it,), so=so)


def at(value: float, half: float = 0.0, **more: object) -> Effect:
    """A number that is known to within `half`."""
    return Effect(value, value - half, value + half, **more)


def spoken(result: FindingResult, run) -> str:
    """What a page says of it, as plain text."""
    return plain(shown.markdown(shown.said(result, run)))


def plain(text: str) -> str:
    """With signs and spaces as one types them."""
    return words.plain(text).replace(words.NBSP, " ").replace(words.MINUS, "-")


@pytest.fixture(scope="module")
def judge(tmp_path_factory) -> Judge:
    """Of a run on a machine for which nanoseconds were expected."""
    folder = tmp_path_factory.mktemp("runs")
    judge = Judge(load_run(make_run(folder, rounds=30, noise=0.002, seed=5)))
    judge.clock = True
    return judge


# -- operands ------------------------------------------------------------------------------------------------


def test_a_pair_is_one_that_its_study_declares_in_either_direction():
    assert FREE.key == ("nonbox", "nonbox", OFF) and FREE.unit == "request"
    turned = pair("zero-cost", "manual", "nonbox", OFF)
    assert FREE.turned == turned and FREE.reported.constant == pytest.approx(1 / turned.reported.constant)
    assert (turned.key, turned.baseline) == (FREE.baseline, FREE.key)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (("zero", "nonbox", "manual", OFF), "study 'zero', but 'zero-cost'"),
        (("zero-cost", "nonbx", "manual", OFF), "variant 'nonbx', but 'nonbox'"),
        (("zero-cost", "nonbox", "large+box", OFF), "baseline_variant 'large.box', but 'large.nonbox'"),
        (("zero-cost", "nonbox", "manual", "syscall=off"), "parameter 'syscall=off', but 'syscalls=off'"),
        (("spawn-apis", "SpawnHandle", "native", "M=1000 handles=dropped"), "choose bench= from 'TokioTp', 'AsyncStd'"),
    ],
)
def test_what_no_study_declares_is_refused_with_what_it_declares(named, message):
    with pytest.raises(LookupError, match=message):
        pair(*named)
    with pytest.raises(LookupError, match="variant 'nobody', but"):
        pairs("zero-cost", baseline="manual", only=["nobody"])


def test_groups_hold_no_controls_and_one_load_a_pair():
    everything = pairs("zero-cost")
    assert not any(words.CONTROL in declared.name for declared in everything)
    assert all(declared.key[2] == declared.baseline[2] for declared in everything)
    some = pairs("zero-cost", baseline="manual", parameter=OFF, only=["box", "nonbox"])
    assert [declared.name for declared in some] == ["box", "nonbox"]


def test_what_is_expected_is_a_region_that_fits_the_quantity():
    quantity = FREE.added
    given = (quantity.expect(50, 150), quantity.expect(4, 4), quantity.expect(4), quantity.expect(most=4))
    assert [expected.relation for expected in given] == ["between", "equal", "at least", "at most"]
    with pytest.raises(ValueError, match="at least one border"):
        quantity.expect()
    with pytest.raises(ValueError, match="is empty"):
        said(FREE.ratio, between(3, 2))
    with pytest.raises(ValueError, match="speaks of several cases"):
        said(FREE.ratio, SLOWER | MOST)
    with pytest.raises(LookupError, match="no pair is left"):
        _ = DESIGNS.where(lambda declared: False).ratio


def test_of_each_number_the_newest_series_of_its_machine_speaks_that_measured_it(monkeypatch):
    """A study that came later may be in a run of its own."""
    newer = next(machine.series[0] for machine in machines())
    older = newer.partition("/")[0] + "/20260101T000000Z"
    rows = [("yield", older, 1.0), ("await", older, 2.0), ("await", newer, 3.0)]
    frame = pl.DataFrame(rows, ["id", "series", "value"], orient="row")
    frame = frame.with_columns(kind=pl.lit("finding"), slot=pl.lit(""))
    for module in (committed, definitions):
        monkeypatch.setattr(module, "judged", lambda: frame)
    (machine,) = committed.machines.__wrapped__()
    said = definitions.said_by.__wrapped__("finding", machine.series)
    assert machine.series == (newer, older)
    assert {id: row["value"] for (id, _), row in said.items()} == {"yield": 1.0, "await": 3.0}
    frame = frame.filter(id="await")
    assert committed.machines.__wrapped__()[0].series == (newer,), "the older one has nothing of its own to say"


# -- judged on runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quantity", "region", "outcome", "departs"),
    [
        (FREE.ratio, SLOWER, HOLDS, None),
        (FREE.ratio, over(6), NOT, "a smaller effect"),
        (FREE.ratio, under(3), NOT, "a larger effect"),
        (FREE.ratio, FASTER, NOT, "the reverse"),
        (FREE.ratio, between(0.99, 1.01), NOT, "another number"),
        (FREE.ratio, over(3.6), UNDECIDED, None),
        (FREE.added, over(200), HOLDS, None),
        (ratio_of_ratios(CALLS, FREE), FASTER, HOLDS, None),
        (difference_of_differences(CALLS, FREE), over(1), NOT, "the reverse"),
        (DESIGNS.ratio, SLOWER, HOLDS, None),
        (DESIGNS.ratio, over(3.95), NOT, "a smaller effect"),
        (DESIGNS.ratio, over(3.95) | MOST, HOLDS, None),
        (DESIGNS.ratio, over(9) | MOST, NOT, "it is true of too few"),
    ],
)
def test_a_run_that_knows_the_truth_gives_the_outcome(judge, quantity, region, outcome, departs):
    result = judge(said(quantity, region))
    (filled,) = result.slots
    assert result.outcome is outcome, filled.weighed
    if outcome is UNDECIDED:
        assert filled.weighed.reason is None and "sittings" in filled.weighed.to_decide
    if quantity is not DESIGNS.ratio or departs:
        assert departure(filled.slot, filled.weighed) == departs


def test_numbers_are_for_one_unit_of_the_work_of_each_side(tmp_path):
    """One side does ten jobs in an iteration, the other two hundred; each takes 100 ns of time, 300 of the processors'
    and ten spawns.
    """
    few, many = (("LocalPool", "LocalSpawn", f"N={number}") for number in (10, 200))
    study = Study(
        {few: 1000.0, many: 20_000.0},
        baseline="LocalSpawn",
        comparisons=[(few, many, "")],
        counts={few: {"units": 10, "spawns": 100}, many: {"units": 200, "spawns": 2000}},
        metrics={few: {"cpu_ns": 3000.0}, many: {"cpu_ns": 60_000.0}},
    )
    judge = Judge(load_run(make_run(tmp_path, None, others={"spawn-apis": study}, rounds=30, noise=0.002)))
    both = Pair("spawn-apis", few, many, "job")
    for quantity, value in (
        (both.time(), 100),
        (both.time("spawns"), 10),
        (both.metric("cpu_ns").each, 300),
        (both.metric("cpu_ns", "spawns").each, 30),
        (both.metric("cpu_ns").ratio, 1),
    ):
        assert judge.effects(quantity)[0].value == pytest.approx(value, rel=0.02)
    assert abs(judge.effects(both.metric("cpu_ns").added)[0].value) < 10
    assert judge.effects(both.added)[0].base == pytest.approx(100, rel=0.02), "of the baseline's own unit"
    value, low, high, name = Reading(judge.run).values(both.time("spawns")).row(0)[3:]
    assert low < value < high and value == pytest.approx(10, rel=0.02) and name == "LocalSpawn"


def test_ratios_of_two_programs_are_compared_though_they_share_no_round(tmp_path):
    """And each operand is that of its own study: both have the same keys."""
    bench = "spawn_blocking/spawn_blocking/concurrency/1"
    ours, other = (pair(study, "tokio", "nio", bench=bench) for study in ("runtimes", "runtimes-std-mutex"))
    made = {
        declared.study: Study({declared.key: time, declared.baseline: 1e4}, [(declared.key, declared.baseline, "")])
        for declared, time in ((ours, 1.5e4), (other, 3e4))
    }
    judge = Judge(load_run(make_run(tmp_path, None, others=made, rounds=30, noise=0.02)))
    alone = [judge.effects(declared.ratio)[0] for declared in (other, ours)]
    both = judge.effects(ratio_of_ratios(other, ours))[0]
    assert both.value == pytest.approx(alone[0].value / alone[1].value) == pytest.approx(2, rel=0.02)
    widths = [math.log(effect.high / effect.value) for effect in (alone[0], both)]
    assert both.low < both.value < both.high and widths[1] > widths[0]
    lacking = Judge(load_run(make_run(tmp_path / "lacks", None, others={"runtimes": made["runtimes"]}, rounds=20)))
    assert "does not hold `runtimes-std-mutex`" in lacking.effects(ratio_of_ratios(other, ours))[0].missing
    with pytest.raises(ValueError, match=r"no difference of differences is of two studies \(runtimes-std-mutex, runti"):
        judge(said(difference_of_differences(other, ours), under(5)))


def test_a_ratio_of_two_programs_is_known_as_far_as_the_one_that_is_known_less():
    """Standard errors of 3 % with 3 degrees of freedom, and of 4 % with 30."""

    def known(error: float, freedom: float, **more) -> Effect:
        half = quantile(freedom) * error
        return Effect(2.0, 2 * math.exp(-half), 2 * math.exp(half), freedom=freedom, **more)

    first, second = known(0.03, 3, sittings=6), known(0.04, 30, sittings=1, covers_hours=False)
    for both in (_apart(first, second), _apart(second, first)):
        assert (both.sittings, both.covers_hours, both.value) == (1, False, 1.0)
        assert both.freedom == pytest.approx((0.03**2 + 0.04**2) ** 2 / (0.03**4 / 3 + 0.04**4 / 30))
    exact = _apart(Effect(3.0, 3.0, 3.0), Effect(2.0, 2.0, 2.0))
    assert (exact.low, exact.high, exact.freedom) == (1.5, 1.5, 0)
    assert _apart(first, Effect(0.0, 0.0, 0.0)).missing == "one of its ratios is zero"


def test_several_numbers_need_intervals_that_hold_together(judge):
    """All cases of a slot, and all judged slots of a sentence; what is only shown has an interval of its own."""
    alone = judge(said(FREE.ratio, SLOWER)).slots[0].weighed
    by_hand = {n: quantile(alone.row["freedom"], 1 - 0.05 / n) / quantile(alone.row["freedom"]) for n in (1, 3, 4)}

    def wider(**slots) -> float:
        sentence = f"{' '.join(f'{{{name}}}' for name in slots)}."
        result = judge(finding("page", "id", sentence, sentence, slots))
        weighed = next(
            assessment for filled in result.slots for assessment in filled.each if assessment.case == alone.case
        )
        assert weighed.effect == alone.effect
        return math.log(weighed.high / weighed.low) / math.log(alone.high / alone.low)

    several, known = DESIGNS.ratio.expect(1.1, 9), CALLS.ratio.expect(0.5, 1.5)
    assert wider(several=several) == pytest.approx(by_hand[3])
    assert wider(several=several, known=known) == pytest.approx(by_hand[4])
    assert wider(several=several, known=CALLS.ratio) == pytest.approx(by_hand[3])
    assert wider(one=FREE.ratio, known=known, several=CALLS.added.expect(1, 2)) == pytest.approx(by_hand[1])


def test_a_sentence_has_one_outcome(judge):
    declared = finding("page", "id", "{one} and {other}.", "{one}; {other}", TWO)
    outcomes = [
        judge(declared, {"one": [at(free)], "other": [at(calls)]}).outcome
        for free, calls in ((85, 110), (85, 11), (8, 11))
    ]
    assert outcomes == [HOLDS, NOT, NOT]
    assert judge(declared, {"one": [at(85)], "other": [at(80, 10)]}).outcome is UNDECIDED
    assert judge(declared, {"one": [at(8)], "other": [at(80, 10)]}).outcome is NOT, "which one number is enough for"
    assert judge(said(FREE.added)).outcome is None, "nothing is expected"


def test_what_is_more_added_is_the_difference_of_what_both_rows_say(judge):
    box, nonbox = (pair("zero-cost", name, "manual", OFF) for name in ("box", "nonbox"))
    (more_of_one,), *rows = (
        judge.effects(quantity) for quantity in (ac.difference_of_differences(box, nonbox), box.added, nonbox.added)
    )
    assert more_of_one.value == pytest.approx(rows[0][0].value - rows[1][0].value)
    assert more_of_one.low < more_of_one.value < more_of_one.high


def test_every_value_of_a_unit_of_work_is_divided_by_its_number(judge):
    """Totals of an iteration would be 256 times as large."""
    run = judge.run
    counted = run.counts("zero-cost").filter(counter="instructions", parameter=OFF)
    whole = dict(counted.select("variant", "value").rows())
    result = judge(said(FREE.counted("instructions").added, over(1)))
    assert result.slots[0].weighed.effect == pytest.approx((whole["nonbox"] - whole["manual"]) / REQUESTS)
    counts = Reading(run).counts
    assert (counts["each"] * counts["units"] - counts["value"]).abs().max() < 1e-6 and counts["units"].max() == 256


def test_a_break_even_lies_between_measured_loads_and_knows_that_what_is_added_grows(tmp_path):
    """Async adds 100, 120 and 140 ns at 0, 1 and 10 µs of own work: 5 % are 118 ns of 2.36 µs, not 100 ns of 2."""
    loads = {f"work={work}": (work + 100.0, work + 200.0 + more) for work, more in ((0, 0), (1000, 20), (10_000, 40))}
    keys = [(("s", "async", load), ("s", "loop", load)) for load in loads]
    times = {
        key: ns for pair, two in zip(keys, loads.values(), strict=True) for key, ns in zip(pair, two[::-1], strict=True)
    }
    study = Study(times, baseline="loop", comparisons=[(*two, "") for two in keys], controls=["loop"])
    run = load_run(make_run(tmp_path, None, others={"s": study}, rounds=60, noise=0.002, episodes=12))
    pairs_ = Pairs(tuple(Pair("s", *two, "request") for two in keys))
    (effect,) = Judge(run).effects(pairs_.break_even(0.05))
    true = 1000 + 9000 * (120 - 55) / (120 - 55 - 140 + 505)
    assert effect.value == pytest.approx(true / 1000, rel=0.05) and effect.low < true / 1000 < effect.high
    for share, message in (
        (0.001, "at the last of the measured loads it costs more"),
        (1.5, "at all measured loads it costs less"),
    ):
        assert message in Judge(run).effects(pairs_.break_even(share))[0].missing
    shrinks = {"place0": 120.0, "place1": 100.0, "place2": 90.0, "place3": 90.0}
    rounds = pl.DataFrame({"sitting": 0, "episode": range(4)}).with_columns(
        **{name: pl.lit(ns) for name, ns in shrinks.items()}
    )
    assert "do not grow with the work" in _crossing(rounds, 0.05)
    with pytest.raises(LookupError, match="there is one"):
        Pairs(pairs_.each[:1]).break_even(0.05)


@pytest.mark.parametrize(
    ("quantity", "region"),
    [
        (FREE.counted("read").added, {"relation": "greater", "least": 0.0, "most": None}),
        (FREE.counted("read").ratio, {"relation": "less", "least": None, "most": 1.0}),
    ],
)
def test_equal_counts_are_neither_more_nor_less(quantity, region):
    """In the words of claims."""
    equal = 1.0 if quantity.in_ratios else 0.0
    assert outcome(replace(said(quantity).slots[0], **region), equal, equal) is NOT


def test_counts_of_two_pairs_are_compared_as_times_are(judge):
    instructions = FREE.counted("instructions")
    added, ratio = (judge.effects(quantity)[0].value for quantity in (instructions.added, instructions.ratio))
    assert judge.effects(difference_of_differences(instructions, instructions.turned))[0].value == pytest.approx(
        2 * added
    )
    assert judge.effects(ratio_of_ratios(instructions, instructions.turned))[0].value == pytest.approx(ratio**2)
    none = FREE.counted("syscalls")
    assert judge.effects(ratio_of_ratios(instructions, none))[0].missing == "it divides by a count of zero"


@pytest.mark.parametrize("region", [SLOWER, SLOWER | MOST])
def test_one_refused_case_leaves_a_group_open_unless_the_others_decide(judge, region):
    declared = said(DESIGNS.ratio, region, so="So avoid them.")
    effects = judge.effects(declared.slots[0].main)
    for refused in range(len(effects)):
        doubted = [replace(effect, doubt="made up") if at == refused else effect for at, effect in enumerate(effects)]
        result, decided = judge(declared, {"it": doubted}), "of" in region
        said_of_it, text = shown.said(result, judge.run), spoken(result, judge.run)
        assert result.outcome is (HOLDS if decided else UNDECIDED) and said_of_it.mark == ("✓" if decided else "·")
        assert ("avoid" in text) == said_of_it.asserted == decided and ("made up" in text) != decided


def test_a_typical_and_an_undisturbed_machine_that_contradict_each_other_leave_it_undecided(judge):
    declared = said(FREE.ratio, over(2.0))

    def result_of(*undisturbed: float) -> FindingResult:
        return judge(declared, {"it": [Effect(2.5, 2.4, 2.6, freedom=9.0, undisturbed=undisturbed)]})

    assert result_of(2.45, 2.35, 2.55).outcome is result_of(2.0, 1.9, 2.1).outcome is HOLDS, (
        "nor does one that is undecided"
    )
    against = result_of(1.8, 1.7, 1.9)
    assert against.outcome is UNDECIDED and shown.said(against, judge.run).mark == "?", "however well it is known"
    assert "on a typical machine it holds, on an undisturbed one it does not" in spoken(against, judge.run)


def test_nanoseconds_are_judged_on_kinds_of_machine_that_are_committed(tmp_path):
    """Ratios, counts and break-evens are everywhere."""
    info = msgspec.to_builtins(
        dict(zip(("cpu", "architecture", "logical_cores", "caches"), machines()[-1].kind, strict=True))
    )
    known = {f"machine.{name}": value for name, value in info.items()}
    assert Judge(load_run(make_run(tmp_path / "known", {}, rounds=2, changes=known))).clock
    elsewhere = Judge(load_run(make_run(tmp_path, rounds=2)))
    assert not elsewhere.clock
    loads = pairs("zero-cost", variant="nonbox", baseline="manual", only=["nonbox"]).where(
        lambda declared: OFF in declared.key[2]
    )
    for quantity, judged in (
        (FREE.added, False),
        (FREE.time(), False),
        (FREE.metric("cpu_ns").each, False),
        (FREE.ratio, True),
        (FREE.counted("instructions").added, True),
        ((Pairs((FREE,)) + loads).break_even(0.05), True),
    ):
        result = elsewhere(said(quantity, under(1000)), {"it": [at(2)]})
        assert result.slots[0].judged == judged and (result.outcome is HOLDS if judged else result.outcome is None)


# -- the marks, and what goes with them ----------------------------------------------------------------------

TWO = {"one": FREE.added.expect(50, 150), "other": CALLS.added.expect(80, 250)}
ADDED = finding(
    "page",
    "id",
    "Async adds {one}, and {other} with calls.",
    "what async adds: {one}; with calls: {other}",
    TWO,
    so="So {one}.",
)
SENTENCE = "Async adds 85 ns, and 110 ns with calls."


@pytest.mark.parametrize(
    ("free", "calls", "mark", "text"),
    [
        (at(85, 5), at(110, 5), "✓", f"✓ {SENTENCE} [80, 90] and [105, 115] ns"),
        (
            at(15, 5),
            at(110, 5),
            "≠",
            "≠ What async adds: 15 ns; with calls: 110 ns [10, 20] and [105, 115] ns; expected 50 to 150 ns and 80 to 250 ns",
        ),
        (at(-15, 5), at(110, 5), "≠", "≠ What async adds: -15 ns; with calls: 110 ns"),
        (
            at(52, 13),
            at(110, 5),
            "≈",
            "≈ What async adds: 52 ns; with calls: 110 ns [40, 60] and [105, 115] ns; at the border of what was expected, 50",
        ),
        (
            at(52, 14),
            at(110, 5),
            "?",
            "? What async adds: 52 ns; with calls: 110 ns [40, 70] and [105, 115] ns; expected 50 to 150 ns",
        ),
        (at(52, 14, base=1400.0), at(110, 5), "≈", "≈ What async adds: 52 ns"),
        (at(52, 13), at(82, 40), "?", "? What async adds: 52 ns"),
        (at(85, 5), Effect(missing="it failed"), "·", "· What async adds: 85 ns [80, 90] ns"),
        (at(15, 5), Effect(missing="it failed"), "·", "· What async adds: 15 ns"),
        (
            at(85, 5),
            at(110, 5, doubt="made up"),
            "·",
            "· What async adds: 85 ns; with calls: 110 ns [80, 90] and [105, 115] ns; no evidence in this run: made up",
        ),
        (Effect(missing="it failed"), Effect(missing="it failed"), ABSENT, f"{ABSENT} (it failed"),
    ],
)
def test_a_mark_says_how_the_numbers_are(judge, free, calls, mark, text):
    result = judge(ADDED, {"one": [free], "other": [calls]})
    said_of_it, whole = shown.said(result, judge.run), spoken(result, judge.run)
    assert said_of_it.mark == mark and whole.startswith(text)
    assert said_of_it.asserted == ("Async adds" in whole) == ("So 85 ns." in whole) == (mark == "✓")
    assert said_of_it.absent == (mark == ABSENT)


@pytest.mark.parametrize(("half", "mark"), [(0.05, "≈"), (0.26, "?")])
def test_a_ratio_at_the_border_is_of_use_if_it_is_known_to_a_quarter_of_its_effect(judge, half, mark):
    """On the scale of logarithms: of 2 times, to a factor of 1.19."""
    result = judge(said(FREE.ratio, over(2.01)), {"it": [Effect(2.0, 2 * math.exp(-half), 2 * math.exp(half))]})
    assert shown.said(result, judge.run).mark == mark


def test_a_border_that_was_written_after_the_run_is_fitted(judge):
    result = judge(ADDED, {"one": [at(85, 5)], "other": [at(110, 5)]})
    fitted, text = (render(replace(result, tested=False), judge.run) for render in (shown.said, spoken))
    assert (fitted.mark, fitted.asserted) == (FITTED, True)
    assert text.startswith(f"{SENTENCE} fitted; [80, 90]") and text.endswith("So 85 ns.")
    against = judge(ADDED, {"one": [at(15, 5)], "other": [at(110, 5)]})
    assert shown.said(replace(against, tested=False), judge.run).mark == "≠"


def test_what_is_not_judged_is_a_sentence_without_advice(judge):
    result = judge(said(FREE.added, so="So."), {"it": [at(85, 5)]})
    assert spoken(result, judge.run).startswith("It is 85 ns. [80, 90] ns") and not shown.said(result, judge.run).so
    doubted = judge(said(FREE.added), {"it": [at(85, 5, doubt="made up")]})
    assert spoken(doubted, judge.run).startswith("· It: 85 ns [80, 90] ns; no evidence in this run: made up")


def test_a_number_that_is_shown_elsewhere_has_the_sign_that_the_sentence_says(judge):
    """Where nanoseconds are not judged: on the other side of no effect, it has the label."""
    elsewhere = Judge(judge.run)
    two = {"one": FREE.added.expect(50, 150), "other": CALLS.ratio.expect(1.1, 1.3)}
    both = finding("page", "id", "It adds {one}, and {other:%}.", "added: {one}; {other:%}", two, so="So.")

    def text(effect: Effect, **other: list[Effect]) -> str:
        return spoken(
            elsewhere(
                both if other else said(FREE.added, between(50, 150)), {"it": [effect], "one": [effect], **other}
            ),
            judge.run,
        )

    assert text(at(500, 5)).startswith("It is 500 ns.")
    assert text(at(-85, 5)).startswith("· It: -85 ns") and text(at(-2, 5)).startswith("· It: [-7.0, +3.0] ns")
    assert text(at(500, 5), other=[at(1.2, 0.01)]).startswith("✓ It adds 500 ns, and 20 %.")
    against = text(at(-85, 5), other=[at(1.2, 0.01)])
    assert against.startswith("· Added: -85 ns; 20 %") and "So." not in against
    assert text(at(-85, 5), other=[at(2.0, 0.01)]).startswith("≠ Added: -85 ns; 100 %")
    below = elsewhere(said(FREE.added, under(0)), {"it": [at(5, 1)]})
    assert not shown.said(below, judge.run).asserted


def test_more_processors_than_the_machine_has_cannot_be_judged(judge):
    for quantity, region in ((FREE.ratio, SLOWER), (FREE.added, ANY)):
        text = spoken(judge(said(quantity, region, so="So.", processors=1000)), judge.run)
        assert text.startswith(f"{ABSENT} It: ") and "about 1,000 processors" in text and "So." not in text


def test_a_run_that_is_no_evidence_shows_numbers_and_judges_nothing(tmp_path):
    run = load_run(make_run(tmp_path, rounds=30, seed=5, profile="quick"))
    result = Judge(run)(said(FREE.ratio, SLOWER, so="So."))
    rough, text = shown.said(result, run), spoken(result, run)
    assert (rough.mark, rough.so, rough.asserted) == ("", "", False) and text.startswith("It: 3.6 times")
    assert not any(word in text for word in ("[", "expected", "not measured", "no evidence"))
    table = shown.table([rough])
    assert "<td>it</td>" in table and "3.6" in table and all(f">{machine.name}<" in table for machine in machines())


def test_a_group_that_is_refused_shows_its_numbers_with_the_reason(tmp_path):
    run = load_run(make_run(tmp_path, rounds=30, seed=5, controls={}))
    text = spoken(Judge(run)(said(FREE.ratio, SLOWER)), run)
    assert text.startswith("· It: 3.6 times") and "no evidence in this run" in text
    judged, reason = banner(run, ["zero-cost", "ladder"])
    assert not judged and "have no A/A control" in reason


def test_a_case_that_was_not_measured_is_no_number_at_a_border(judge):
    lacks = Pairs((FREE, pair("ladder", "frontier", "manual (best)", "live=3")))
    result = judge(said(lacks.ratio, SLOWER))
    assert result.outcome is UNDECIDED and shown.said(result, judge.run).mark == "·"
    assert "1 of 2 were not measured: this run does not hold ladder" in spoken(result, judge.run)


def test_the_figure_of_a_document_is_said_beside_a_number_and_not_alone(judge):
    slots = {"here": FREE.ratio.expect(1.8, 5), "reported": FREE.reported}
    declared = finding(
        "page", "id", "It takes {here}; reported were {reported}.", "time: {here}; reported: {reported}", slots
    )
    assert spoken(judge(declared, {"here": [at(2.4, 0.01)]}), judge.run).startswith(
        "✓ It takes 2.4 times; reported were 3.7 times. [2.39, 2.41]"
    )
    alone = shown.said(judge(declared, {"here": [Effect(missing="it failed")]}), judge.run)
    assert alone.mark == ABSENT and alone.absent


def test_what_was_not_measured_is_listed_with_the_command_that_measures_it(judge):
    lacks = shown.said(judge(said(pair("ladder", "frontier", "manual (best)", "live=3").ratio, SLOWER)), judge.run)
    (folded,) = (text for text in shown.footnotes([lacks]) if "absent" in text)
    assert lacks.absent and "Not in this run: it" in folded and "make report STUDIES=ladder" in folded


# -- numbers as text -----------------------------------------------------------------------------------------

ONE_SIDE, AROUND = between(50, 150), between(-150, 150)


@pytest.mark.parametrize(
    ("quantity", "region", "form", "effects", "text"),
    [
        (FREE.added, ONE_SIDE, "", [at(86, 2)], "86 ns"),
        (FREE.added, ONE_SIDE, "+", [at(86, 2)], "+86 ns"),
        (FREE.added, ONE_SIDE, "", [at(-86, 2)], "-86 ns"),
        (FREE.added, ONE_SIDE, "", [at(2, 5)], "[-3.0, +7.0] ns"),
        (FREE.added, AROUND, "", [at(39, 84)], "nothing measurable [-45, +123] ns"),
        (FREE.added, AROUND, "", [at(39, 884)], "[-845, +923] ns"),
        (FREE.added, AROUND, "", [at(86, 2)], "+86 ns"),
        (FREE.added, ANY, "", [at(39, 84)], "[-45, +123] ns"),
        (FREE.time(), ANY, "", [at(1234, 84)], "1.2 µs"),
        (FREE.ratio, over(1.1), "", [at(2.44, 0.1)], "2.4 times"),
        (FREE.ratio, over(1.1), "%", [at(1.11, 0.01)], "11 %"),
        (FREE.ratio, over(1.1), "%", [at(0.89, 0.01)], "-11 %"),
        (FREE.ratio, under(0.9), "of", [at(0.55, 0.01)], "55 %"),
        (FREE.ratio, between(0.8, 1.3), "%", [at(1.05, 0.1)], "[-5, +15] %"),
        (DESIGNS.ratio, over(1.1), "", [at(2.4), at(2.0), at(2.2)], "2.0 to 2.4 times"),
        (DESIGNS.ratio, between(0.8, 1.3), "%", [at(0.97), at(1.16), at(1)], "-3 to +16 %"),
        (DESIGNS.ratio, between(0.8, 1.3), "", [at(0.9), at(1.1), at(1)], "0.90 to 1.1 times"),
        (FREE.ratio, SLOWER, "", [at(0.9, 0.01)], "0.90 times"),
        (FREE.ratio, SLOWER, "%", [at(1.11, 0.01)], "11 %"),
        (DESIGNS.added, over(1), "", [at(1200), at(900), at(3000)], "0.9 to 3.0 µs"),
        (DESIGNS.ratio, under(0.9), "%", [at(0.6), at(0.8), at(0.7)], "20 to 40 %"),
        (DESIGNS.ratio, under(0.7), "%", [at(0.6), at(0.8), at(0.7)], "-40 to -20 %"),
        (DESIGNS.ratio, over(2) | MOST, "", [at(2.5), at(2.1), at(1.2)], "2 of 3"),
        (FREE.counted("read").ratio, between(1, 1), "", [at(1)], "equally many"),
        (FREE.counted("read").ratio, between(1, 1), "", [at(2)], "2.0 times"),
        (FREE.counted("allocated_bytes").each, ANY, "", [at(1235)], "1.2 kB"),
        (FREE.reported, ANY, "", [], "3.7 times"),
    ],
)
def test_a_number_is_said_in_its_form(judge, quantity, region, form, effects, text):
    result = shown.said(judge(said(quantity, region, form), {"it": effects}), judge.run)
    assert plain(result.texts["it"]) == text


@pytest.mark.parametrize(
    ("quantity", "region", "form", "text"),
    [
        (FREE.added, ONE_SIDE, "", "50 to 150 ns"),
        (FREE.added, AROUND, "", "-150 to +150 ns"),
        (FREE.time(), under(5000), "", "at most 5.0 µs"),
        (FREE.ratio, between(1.06, 1.2), "%", "6 to 20 %"),
        (FREE.ratio, between(0.8, 1.3), "", "0.80 to 1.3 times"),
        (FREE.counted("read").added, between(4, 4), "", "4"),
        (FREE.ratio, SLOWER, "", "at least 1.0 times"),
    ],
)
def test_what_was_expected_is_said_in_the_same_form(judge, quantity, region, form, text):
    assert plain(shown.said(judge(said(quantity, region, form)), judge.run).expected) == text


def test_the_other_machines_stand_behind_with_what_is_not_as_expected_there(judge, monkeypatch):
    first, *_, last = (machine.name for machine in machines())
    hashes = hashes_of([ADDED])

    def row(name: str, value: float, outcome: str) -> dict:
        ends = dict.fromkeys(("value", "low", "high", "least", "greatest"), value)
        return ends | {"hash": hashes["page-id", name], "true": None, "tested": "yes", "outcome": outcome}

    series = {
        machines()[0].series: {
            ("page-id", "one"): row("one", 79, "holds"),
            ("page-id", "other"): row("other", 185, "holds"),
        },
        machines()[-1].series: {("page-id", "one"): row("one", 400, "does not hold")},
    }
    monkeypatch.setattr(shown, "said_by", lambda kind, name: series.get(name, {}))
    result = judge(ADDED, {"one": [at(85, 5)], "other": [at(110, 5)]})
    assert spoken(result, judge.run).split("\n")[0].endswith(f"; {first}: 79 and 185 ns; {last}: ≠ 400 ns")
    assert shown.said(result, judge.run).elsewhere == {first: "✓"}, "what is not measured in full decides nothing"
    series[machines()[-1].series]["page-id", "one"]["hash"] = "defined otherwise"
    assert spoken(result, judge.run).split("\n")[0].endswith(f"{last}: not measured")


def test_numbers_link_to_the_comparisons_that_they_are_of(judge):
    ratio, added = said(FREE.ratio, SLOWER, so="So it is {it}."), said(difference_of_differences(CALLS, FREE))
    html = shown.html(shown.said(judge(ratio), judge.run))
    assert (
        html.count('href="#note-') == 2 and 'title="expected: at least 1.0' in html and 'id="finding-page-id"' in html
    )
    assert "note-" not in shown.html(shown.said(judge(added), judge.run)), "it is in no row"


# -- what a page says besides --------------------------------------------------------------------------------


def test_a_cause_is_confirmed_refuted_or_open_on_each_machine(judge, monkeypatch):
    texts: list[str] = []
    monkeypatch.setattr(reading, "say", texts.append)
    page, cause = Reading(judge.run), shown.said(judge(ADDED, {"one": [at(85, 5)], "other": [at(110, 5)]}), judge.run)
    here = called(judge.run)

    def why(*marks: str, **elsewhere: str) -> str:
        page.why(*(msgspec.structs.replace(cause, mark=mark, elsewhere=elsewhere) for mark in marks))
        return texts.pop() if texts else ""

    assert why("✓", FITTED) == f"**Cause consistent on the {here}.**"
    assert why("≠") == f"**Cause refuted on the {here}.**"
    assert why("✓", "≠") == f"**Cause open on the {here}.**" and not why("·", "≈")
    assert why("✓", EPYC="≠", Xeon="✓") == f"**Cause refuted on the EPYC, confirmed on the {here} and Xeon.**"
    assert why("✓", **{here: "≠"}) == f"**Cause refuted on the {here}, confirmed on the {here} here.**"


def test_a_page_of_another_machine_begins_with_how_fast_it_is(judge, monkeypatch):
    declared = said(FREE.turned.time())
    ((_, hash),) = hashes_of([declared]).items()
    ends = dict.fromkeys(("value", "low", "high", "least", "greatest"), 50.0) | {"tested": "yes"}
    row = {("page-id", "it"): ends | {"hash": hash, "true": None, "outcome": SHOWN}}
    monkeypatch.setattr(shown, "said_by", lambda kind, series: row)
    lines = [shown.markdown(shown.yardstick(judge(declared, {"it": [at(ns, 1)]}), judge.run)) for ns in (110, 25)]
    name = machines()[0].name
    assert f"2.2 times as slow as the committed {name}: it takes 110 ns, there 50 ns" in plain(lines[0])
    assert "2.0 times as fast as" in lines[1]
    monkeypatch.setattr(shown, "kind", lambda machine: machines()[0].kind)
    assert not shown.markdown(shown.yardstick(judge(declared), judge.run)), "one of a kind that is committed"


def test_what_is_added_stands_on_top_of_what_it_is_added_to(judge):
    (row,) = (
        Reading(judge.run)
        .on_top({"empty": FREE, "not in the run": pair("ladder", "frontier", "manual (best)", "live=3")})
        .rows(named=True)
    )
    assert row["row"] == "empty" and row["base"] == pytest.approx(26_000 / REQUESTS, rel=0.02)
    assert plain(row["strong"]).startswith("+2") and "3.6 times as long" in plain(row["plain"])


# -- what is wrong with a definition -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"sentence": "It adds {it}"}, "is no sentence; end it with a full stop"),
        ({"sentence": "Async costs more."}, "the sentence has no number"),
        ({"sentence": "It adds {that}.", "label": "added: {that}"}, "no slot 'that' is given"),
        ({"note": "beside {that}"}, "no slot 'that' is given"),
        ({"more": FREE.time()}, "the slot 'more' is in none of its texts"),
        ({"more": FREE.time().expect(1, 9), "note": "of {more}"}, "the slot 'more' is judged and not in the sentence"),
        ({"label": "what async adds"}, "the label lacks the slot 'it'"),
        ({"sentence": f"It adds {{it}} {'so ' * 23}."}, "the sentence has 27 words; at most 25"),
        ({"sentence": "It adds {it}, or 5 ns."}, "the sentence has '5 ns' typed into it; make it a slot"),
        ({"so": "So it is twice, or 2.5 times."}, "the so has '5 times' typed into it"),
        ({"note": "of which 3 % is chance"}, "the note has '3 %' typed into it"),
        ({"sentence": "In `nonbox` it adds {it}."}, "the sentence: `nonbox` is a key of the data; write its name"),
        ({"so": "So with `syscalls=off`."}, "the so: `syscalls=off` is a key of the data"),
        (
            {"sentence": "The leanest async server adds {it}."},
            "'the leanest async server' is called 'the leanest server of",
        ),
        ({"it": FREE.added.expect(50)}, "a side of it is open; close it, or say why="),
        ({"it": ratio_of_ratios(CALLS, FREE)}, "a ratio of ratios stands alone; show both ratios beside it"),
        ({"it": FREE}, r"it= is which number of the Pair\? Pass its \.ratio or \.added"),
    ],
)
def test_what_a_program_can_see_to_be_wrong_is_refused(given, message):
    texts = {name: text for name, text in given.items() if isinstance(text, str)}
    slots = {"it": FREE.added.expect(50, 150)} | {
        name: quantity for name, quantity in given.items() if name not in texts
    }
    texts = {"sentence": "It adds {it}.", "label": "added: {it}"} | texts
    with pytest.raises(ValueError, match=f"finding page-id: .*{message}"):
        finding("page", "id", texts.pop("sentence"), texts.pop("label"), slots, **texts)


def test_what_is_no_result_may_be_typed():
    so = "So with 16 KiB, on 1,000 connections, in 2022: [see](../ladder/analysis.ipynb)."
    assert finding("page", "id", "It adds {it} to 10 tasks.", "added: {it}", {"it": FREE.added.expect(50, 150)}, so=so)
    assert finding("page", "id", "It adds {it}.", "added: {it}", {"it": FREE.added.expect(50, why="no bound is known")})
    ratios = {"both": ratio_of_ratios(CALLS, FREE), "one": FREE.ratio, "other": CALLS.ratio}
    assert finding("page", "id", "It is {both}.", "both: {both}", ratios, note="of {one} and {other}")


# -- the record ----------------------------------------------------------------------------------------------


def test_a_definition_survives_the_notebook_that_holds_it():
    for declared in (ADDED, said(FREE.reported)):
        assert msgspec.convert(json.loads(json.dumps(record(declared))), Finding) == declared


def test_a_definition_is_what_is_judged_and_not_how_it_is_said():
    limits = limits_of_today()
    with_a_further_study = {**limits, ("dummy", FREE.key, FREE.baseline): 0.5}

    def hash_of(declared: Finding, limits=limits) -> object:
        return row_of(declared.slots[0], limits)["hash"]

    declared = said(FREE.ratio, under(2))
    also = said(FREE.ratio, under(2.0), "x", so="So.")
    assert hash_of(declared) == hash_of(also) == hash_of(declared, with_a_further_study)
    assert row_of(declared.slots[0], limits)["sentence"] != row_of(also.slots[0], limits)["sentence"]
    assert hash_of(declared) == hash_of(msgspec.convert(record(declared), Finding))
    others = [
        said(FREE.ratio, under(2.01)),
        said(FREE.ratio, over(2)),
        said(FREE.added, under(2)),
        said(CALLS.ratio, under(2)),
        said(FREE.turned.ratio, under(2)),
        said(FREE.ratio, under(2), processors=2),
        said(DESIGNS.ratio, under(2)),
        said(DESIGNS.ratio, under(2) | MOST),
        said(FREE.ratio),
        said(FREE.reported),
    ]
    stricter = {pair: limit / 2 for pair, limit in limits.items()}
    assert len({hash_of(declared), hash_of(declared, stricter), *map(hash_of, others)}) == len(others) + 2


def test_what_holds_together_with_a_number_is_a_part_of_its_definition():
    """A slot alone is defined as a finding was before slots; what is only shown beside it changes nothing."""
    expected, calls = FREE.added.expect(50, 150), CALLS.added

    def hash_of(sentence: str, **slots: Quantity | Expected) -> str:
        declared = finding(
            "page", "id", sentence, f"{' '.join(f'{{{name}}}' for name in slots)}", {"one": expected} | slots
        )
        return hashes_of([declared])["page-id", "one"]

    alone, it = hash_of("{one}.", one=expected), said(FREE.added, between(50, 150)).slots[0]
    judged = [*(getattr(it, name) for name in OF_FINDING), [0.01], it.main.cases]
    judged.insert(OF_FINDING.index("share") + 1, ())
    assert alone == definition(msgspec.to_builtins(judged))
    assert alone == hash_of("It adds {one}.", one=expected)
    assert alone == hash_of("{one} and {other}.", one=expected, other=calls)
    judged = [calls.expect(80, 250), DESIGNS.added.expect(80, 900)]
    together = {hash_of("{one} and {other}.", one=expected, other=other) for other in judged}
    assert len({alone, *together}) == 3
