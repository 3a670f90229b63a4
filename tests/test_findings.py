"""A finding has the words and the region that its author wrote down, and every outcome can be provoked."""

import json
import math
from dataclasses import replace

import msgspec
import polars as pl
import pytest

import async_cost as ac
from async_cost import words
from async_cost.findings.definitions import limits_of_today, row_of
from async_cost.findings.finding import Judge, finding
from async_cost.findings.operands import Pair, Pairs, more_added, pair, pairs, ratio_of_ratios
from async_cost.findings.record import Finding, record
from async_cost.findings.vocabulary import bounds
from async_cost.report import finding as shown
from async_cost.report.reading import Reading
from async_cost.report.records import banner
from async_cost.runs.find import load_run
from async_cost.statistics.effects import Effect, _apart, _crossing
from async_cost.statistics.interval import quantile
from async_cost.statistics.statement import Outcome, departure, region
from async_cost.testing.made_up_runs import OFF, ON, REQUESTS, REVERSED, Study, make_run

about, all_of, between, cheapest, exactly = ac.about, ac.all_of, ac.between, ac.cheapest, ac.exactly
faster, less, more, most_of, none_of = ac.faster, ac.less, ac.more, ac.most_of, ac.none_of
over, same, slower, under = ac.over, ac.same, ac.slower, ac.under
FREE, CALLS = (pair("zero-cost", "nonbox", "manual", parameter) for parameter in (OFF, ON))
ZERO_COST_SERVERS = ("nonbox", "box", "box+arc")
DESIGNS = pairs("zero-cost", baseline="manual", parameter=OFF, only=["nonbox", "box", "box+arc"])
#: The published loop against each published server.
LOOP = pairs("zero-cost", variant="manual", parameter=OFF).where(lambda one: one.baseline[1] in ZERO_COST_SERVERS)
HOLDS, NOT, UNDECIDED = Outcome.HOLDS, Outcome.DOES_NOT_HOLD, Outcome.UNDECIDED


def said(of, word, **more_said):
    return finding("page", "page-id", "It is so.", of, word, **more_said)


@pytest.fixture(scope="module")
def judge(tmp_path_factory) -> Judge:
    folder = tmp_path_factory.mktemp("runs")
    return Judge(load_run(make_run(folder, rounds=30, noise=0.002, seed=5)))


# -- operands ------------------------------------------------------------------------------------------------


def test_a_pair_is_one_that_its_study_declares_in_either_direction():
    assert FREE.key == ("nonbox", "nonbox", OFF) and FREE.unit == "request"
    turned = pair("zero-cost", "manual", "nonbox", OFF)
    assert FREE.turned == turned and FREE.published == pytest.approx(1 / turned.published)
    assert (turned.key, turned.baseline) == (FREE.baseline, FREE.key)
    with pytest.raises(LookupError, match="does not declare it"):
        pair("zero-cost", "nonbox", "large+box", OFF)
    with pytest.raises(LookupError, match="has no such variant; it has 'nonbox'"):
        pair("zero-cost", "nonbx", "manual", OFF)
    with pytest.raises(LookupError, match=r"of 'nonbox' it declares 'manual' \('syscalls=off'\)"):
        pair("zero-cost", "nonbox", "manual", "syscall=off")
    with pytest.raises(LookupError, match="no study 'zero'"):
        pair("zero", "nonbox", "manual", OFF)


def test_a_variant_in_several_benches_needs_its_bench():
    with pytest.raises(LookupError, match="choose bench= from"):
        pair("spawn-apis", "SpawnHandle", "native", "M=1000 handles=dropped")
    with pytest.raises(LookupError, match="no 'native' in the bench 'tokyo'; choose bench= from 'tokio::LocalSet'"):
        pair("spawn-apis", "native", "native", bench="tokyo")
    with pytest.raises(LookupError, match="known: variant 'tokio'; baseline_variant 'tokio'"):
        pairs("runtimes", variant="tokyo", baseline="tokio")
    with pytest.raises(LookupError, match="declares no comparison of 'nobody'"):
        pairs("zero-cost", baseline="manual", only=["nobody"])


def test_groups_hold_no_controls_and_one_load_a_pair():
    everything = pairs("zero-cost")
    assert not any(words.CONTROL in one.name for one in everything)
    assert all(one.key[2] == one.baseline[2] for one in everything)
    some = pairs("zero-cost", baseline="manual", parameter=OFF, only=["box", "nonbox"])
    assert [one.name for one in some] == ["box", "nonbox"]


# -- words ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "in_ratios", "ends"),
    [
        (about(2), True, (1.68, 2.38)),
        (about(0.5), True, (0.42, 0.59)),
        (about(1.1), True, (1.07, 1.13)),
        (about(100), False, (75, 125)),
        (under(1.1), True, (None, 1.1)),
        (over(3), False, (3, None)),
        (less, True, (None, 1)),
        (less, False, (None, 0)),
        (more, False, (0, None)),
        (exactly(93), False, (93, 93)),
        (between(1, 2, why="so"), True, (1, 2)),
    ],
)
def test_a_word_has_one_region(word, in_ratios, ends):
    assert [end and round(end, 2) for end in bounds(word, in_ratios)] == [end and round(end, 2) for end in ends]


def test_the_regions_of_slower_faster_and_same_are_those_of_the_group():
    wide = 0.05
    assert region(said(FREE.ratio, slower), wide) == (1.05, math.inf)
    assert region(said(FREE.ratio, faster), wide) == (0, 0.95)
    assert region(said(FREE.ratio, same), wide) == (0.95, 1.05)
    assert region(said(FREE.ratio, cheapest), wide) == (0, 1.05)


def test_a_word_fits_its_quantity():
    with pytest.raises(ValueError, match="word for a ratio of times"):
        said(FREE.added, slower)
    with pytest.raises(ValueError, match=r"pass its \.ratio or \.added"):
        said(FREE, slower)
    with pytest.raises(ValueError, match=r"is no word of the vocabulary, such as ac\.slower or ac\.under\(2\)"):
        finding("zero-cost", "x", "It is slower.", FREE.ratio, under)
    with pytest.raises(ValueError, match="speaks of several cases"):
        said(FREE.ratio, none_of(slower))
    with pytest.raises(ValueError, match="needs a reason"):
        between(1, 2, why="")
    with pytest.raises(ValueError, match="end it with a full stop"):
        finding("page", "page-id", "no sentence", FREE.ratio, slower)


# -- judged on runs ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "word", "outcome", "departs"),
    [
        (FREE.ratio, slower, HOLDS, None),
        (FREE.ratio, about(3.6), HOLDS, None),
        (FREE.ratio, about(8), NOT, "a smaller effect"),
        (FREE.ratio, under(3), NOT, "a larger effect"),
        (FREE.ratio, faster, NOT, "the reverse"),
        (FREE.ratio, same, NOT, "a difference that counts"),
        (FREE.ratio, over(3.6), UNDECIDED, None),
        (FREE.added, over(200), HOLDS, None),
        (ratio_of_ratios(CALLS, FREE), less, HOLDS, None),
        (more_added(CALLS, FREE), more, NOT, "the reverse"),
        (DESIGNS.ratio, all_of(slower), HOLDS, None),
        (DESIGNS.ratio, all_of(over(3.95)), NOT, "a smaller effect"),
        (DESIGNS.ratio, most_of(over(3.95)), HOLDS, None),
        (DESIGNS.ratio, none_of(faster), HOLDS, None),
        (DESIGNS.ratio, none_of(over(3.95)), NOT, "it is true of some"),
        (LOOP.ratio, cheapest, HOLDS, None),
    ],
)
def test_a_run_that_knows_the_truth_gives_the_outcome(judge, of, word, outcome, departs):
    result = judge(said(of, word))
    assert result.outcome is outcome, result.weighed
    if of is not DESIGNS.ratio or departs:
        assert departure(result.finding, result.weighed) == departs


def test_time_and_what_adds_up_over_a_sample_are_for_one_unit(tmp_path):
    boxed = pair("spawn-apis", "Spawn", "native", "N=200", bench="TokioTp")
    times, cpu = {boxed.key: 3e4, boxed.baseline: 1e4}, {boxed.key: 4e4, boxed.baseline: 2e4}
    study = Study(
        times,
        [(boxed.key, boxed.baseline, "threads, N=200")],
        groups={"threads, N=200": 0.01},
        counts={key: {"units": 10, "spawns": 1000} for key in times},
        metrics={key: {"cpu_ns": value} for key, value in cpu.items()},
    )
    judge = Judge(load_run(make_run(tmp_path, None, others={"spawn-apis": study}, rounds=20, noise=0.002)))
    for of, value in (
        (boxed.time(), 3e3),
        (boxed.time("spawns"), 30),
        (boxed.metric("cpu_ns").each, 4e3),
        (boxed.metric("cpu_ns", "spawns").each, 40),
        (boxed.metric("cpu_ns").ratio, 2),
    ):
        assert judge(said(of, over(0.0))).weighed.effect == pytest.approx(value, rel=0.01)
    shown_value, *ends = Reading(judge.run).values(boxed.time("spawns").named("a task")).row(0)[3:]
    assert shown_value == pytest.approx(30, rel=0.01) and ends[0] < shown_value < ends[1]


def test_a_side_is_called_by_what_it_differs_in(tmp_path):
    placed = pair("spawn-apis", "LocalSpawn", "LocalSpawn", "N=200", bench="TokioCt")
    study = Study({placed.key: 3e4, placed.baseline: 1e4}, [(placed.key, placed.baseline, "")])
    judge = Judge(load_run(make_run(tmp_path, None, others={"spawn-apis": study}, rounds=20, noise=0.002)))
    assert "`LocalPool`" in shown.values(judge(said(placed.ratio, over(1.0))))


def test_cases_are_called_by_their_bench_where_they_differ_in_it(tmp_path):
    calls = [f"spawn_blocking/spawn_blocking/concurrency/{tasks}" for tasks in (1, 2)]
    several = Pairs(tuple(pair("runtimes", "nio", "tokio", bench=bench) for bench in calls))
    times = {key: 1e4 * (1 + n) for n, one in enumerate(several) for key in (one.key, one.baseline)}
    study = Study(times, [(one.key, one.baseline, "") for one in several])
    judge = Judge(load_run(make_run(tmp_path, None, others={"runtimes": study}, rounds=20, noise=0.002)))
    for of in (several.ratio, several.time()):
        assert all(f"`{bench}`" in shown.values(judge(said(of, all_of(over(0.1))))) for bench in calls)


def test_ratios_of_two_programs_are_compared_though_they_share_no_round(tmp_path):
    """And each operand is that of its own study: both have the same keys."""
    bench = "spawn_blocking/spawn_blocking/concurrency/1"
    ours, other = (pair(study, "tokio", "nio", bench=bench) for study in ("runtimes", "runtimes-std-mutex"))
    made = {
        one.study: Study({one.key: time, one.baseline: 1e4}, [(one.key, one.baseline, "")])
        for one, time in ((ours, 1.5e4), (other, 3e4))
    }
    judge = Judge(load_run(make_run(tmp_path, None, others=made, rounds=30, noise=0.02)))
    alone = [judge.effects(one.ratio)[0] for one in (other, ours)]
    both = judge.effects(ratio_of_ratios(other, ours))[0]
    assert both.value == pytest.approx(alone[0].value / alone[1].value) == pytest.approx(2, rel=0.02)
    widths = [math.log(one.high / one.value) for one in (alone[0], both)]
    assert both.low < both.value < both.high and widths[1] > widths[0]
    lacking = Judge(load_run(make_run(tmp_path / "lacks", None, others={"runtimes": made["runtimes"]}, rounds=20)))
    assert "does not hold `runtimes-std-mutex`" in lacking.effects(ratio_of_ratios(other, ours))[0].missing
    with pytest.raises(ValueError, match=r"no difference of differences is of two studies \(runtimes-std-mutex, runti"):
        judge(said(more_added(other, ours), under(5)))


def test_a_ratio_of_two_programs_is_known_as_far_as_the_one_that_is_known_less():
    """Standard errors of 3 % with 3 degrees of freedom, and of 4 % with 30."""

    def known(error: float, freedom: float, **more) -> Effect:
        half = quantile(freedom) * error
        return Effect(2.0, 2 * math.exp(-half), 2 * math.exp(half), freedom=freedom, **more)

    one, other = known(0.03, 3, sittings=6), known(0.04, 30, sittings=1, covers_hours=False)
    for both in (_apart(one, other), _apart(other, one)):
        assert (both.sittings, both.covers_hours, both.value) == (1, False, 1.0)
        assert both.freedom == pytest.approx((0.03**2 + 0.04**2) ** 2 / (0.03**4 / 3 + 0.04**4 / 30))
    exact = _apart(Effect(3.0, 3.0, 3.0), Effect(2.0, 2.0, 2.0))
    assert (exact.low, exact.high, exact.freedom) == (1.5, 1.5, 0)
    assert _apart(one, Effect(0.0, 0.0, 0.0)).missing == "one of its ratios is zero"


def test_several_cases_need_intervals_that_hold_together(judge):
    alone, among = judge(said(FREE.ratio, slower)), judge(said(DESIGNS.ratio, all_of(slower)))
    one, other = alone.weighed, among.each[0]
    assert one.case == other.case and one.effect == other.effect
    wider = math.log(other.high / other.low) / math.log(one.high / one.low)
    by_hand = quantile(one.row["freedom"], 1 - 0.05 / 3) / quantile(one.row["freedom"])
    assert wider == pytest.approx(by_hand) and wider > 1.1


def test_the_reverse_of_a_truth_turns_the_finding(tmp_path):
    turned = Judge(load_run(make_run(tmp_path, REVERSED, rounds=30, noise=0.002, seed=5)))
    result = turned(said(FREE.ratio, slower, because="So avoid it."))
    text, sign = shown.markdown(result), shown.marked(result)[0]
    assert result.outcome is NOT and sign == "✗" and "the reverse" in text and "avoid" not in text
    assert "<details>" in shown.html(result) and "avoid" in shown.html(result)


@pytest.mark.parametrize("options", [{"profile": "quick"}, {"controls": {OFF: 1.05, ON: 1.0}}])
def test_a_run_or_a_group_that_is_no_evidence_shows_numbers_and_judges_nothing(tmp_path, options):
    run = load_run(make_run(tmp_path, rounds=30, seed=5, **options))
    result = Judge(run)(said(FREE.ratio, slower))
    assert shown.marked(result)[0] == "·" and "Not judged" in shown.markdown(result)
    assert words.number(result.weighed.effect, 0.05)[:3] in shown.markdown(result)
    judged, doubt = banner(run, ["zero-cost", "ladder"])
    assert not judged
    assert doubt == "" if "profile" in options else "differs from" in doubt


def test_what_a_run_lacks_is_said_to_be_not_measured(judge):
    result = judge(said(pair("ladder", "frontier", "manual (best)", "live=3").ratio, slower))
    assert result.outcome is Outcome.NOT_MEASURED and "does not hold `ladder`" in shown.markdown(result)


def test_more_processors_than_the_machine_has_cannot_be_judged(judge):
    result = judge(said(FREE.ratio, slower, processors=1000))
    assert result.outcome is Outcome.NOT_MEASURABLE and "1000 processors" in shown.remark(result).replace(",", "")


def test_one_case_without_a_value_leaves_all_of_undecided(judge):
    both = Pairs((FREE, pair("ladder", "frontier", "manual (best)", "live=3")))
    assert judge(said(both.ratio, all_of(slower))).outcome is UNDECIDED


# -- the record, and how it is shown -------------------------------------------------------------------------


def test_a_definition_survives_the_notebook_that_holds_it():
    one = said(FREE.ratio, about(2), show=[FREE.added, CALLS.counted("instructions").added], because="So.")
    assert msgspec.convert(json.loads(json.dumps(record(one))), Finding) == one


def test_values_have_their_units_and_link_to_where_they_come_from(judge):
    one = said(FREE.ratio, slower, show=[FREE.added, FREE.counted("instructions").added])
    text = shown.markdown(judge(one)).replace(words.NBSP, " ")
    assert "](#note-" in text and "ns](#note-" in text
    assert " more a request" in text and "instructions more a request" in text
    assert 'title="holds from 1.01' in shown.html(judge(one))


def test_a_ratio_to_a_published_one_is_divided_wherever_it_is_shown(judge):
    one = said(FREE.ratio, slower, show=[Pairs((FREE,)).of_published])
    reported = judge(said(Pairs((FREE,)).of_published, less))
    shown_one = judge(one).shown[0]
    assert shown_one.value == reported.weighed.effect == pytest.approx(judge(one).weighed.effect / (90.724 / 24.548))


def test_what_is_more_added_is_the_difference_of_what_both_rows_say(judge):
    one, other = (pair("zero-cost", name, "manual", OFF) for name in ("box", "nonbox"))
    (more_of_one,), *rows = (judge.effects(of) for of in (ac.more_added(one, other), one.added, other.added))
    assert more_of_one.value == pytest.approx(rows[0][0].value - rows[1][0].value)
    assert more_of_one.low < more_of_one.value < more_of_one.high


def test_every_value_of_a_unit_of_work_is_divided_by_its_number(judge):
    """Totals of an iteration would be 256 times as large."""
    run = judge.run
    counted = run.counts("zero-cost").filter(counter="instructions", parameter=OFF)
    whole = dict(counted.select("variant", "value").rows())
    result = judge(said(FREE.counted("instructions").added, more))
    assert result.weighed.effect == pytest.approx((whole["nonbox"] - whole["manual"]) / REQUESTS)
    counts = Reading(run).counts
    assert (counts["each"] * counts["units"] - counts["value"]).abs().max() < 1e-6 and counts["units"].max() == 256


def test_both_sides_are_for_one_unit_of_their_own_work(tmp_path):
    """One side does ten spawns in an iteration, the other two hundred; each takes 100 ns of time and 300 of the
    processors'.
    """
    few, many = (("LocalPool", "LocalSpawn", f"N={number}") for number in (10, 200))
    study = Study(
        {few: 1000.0, many: 20_000.0},
        baseline="LocalSpawn",
        comparisons=[(few, many, "")],
        counts={few: {"units": 10}, many: {"units": 200}},
        metrics={few: {"cpu_ns": 3000.0}, many: {"cpu_ns": 60_000.0}},
    )
    run = load_run(make_run(tmp_path, None, others={"spawn-apis": study}, rounds=30, noise=0.002))
    both = Pair("spawn-apis", few, many, "spawn")
    effects = Judge(run).effects
    assert effects(both.metric("cpu_ns").ratio)[0].value == pytest.approx(1, rel=0.02)
    assert abs(effects(both.metric("cpu_ns").added)[0].value) < 10
    assert effects(both.added)[0].base == pytest.approx(100, rel=0.02), "of the baseline's own unit"


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
    (found,) = Judge(run).effects(pairs_.break_even(0.05))
    true = 1000 + 9000 * (120 - 55) / (120 - 55 - 140 + 505)
    assert found.value == pytest.approx(true / 1000, rel=0.05) and found.low < true / 1000 < found.high
    for share, told in (
        (0.001, "at the last of the measured loads it costs more"),
        (1.5, "at all measured loads it costs less"),
    ):
        assert told in Judge(run).effects(pairs_.break_even(share))[0].missing
    shrinks = {"place0": 120.0, "place1": 100.0, "place2": 90.0, "place3": 90.0}
    rounds = pl.DataFrame({"sitting": 0, "episode": range(4)}).with_columns(
        **{name: pl.lit(ns) for name, ns in shrinks.items()}
    )
    assert "do not grow with the work" in _crossing(rounds, 0.05)
    with pytest.raises(LookupError, match="there is one"):
        Pairs(pairs_.each[:1]).break_even(0.05)


@pytest.mark.parametrize("of", [all_of(slower), most_of(slower), none_of(faster)])
def test_one_refused_case_leaves_a_group_open_unless_the_others_decide(judge, of):
    one = said(DESIGNS.ratio, of, because="So avoid them.")
    effects = judge.effects(one.main)
    for refused in range(len(effects)):
        doubted = [replace(each, doubt="made up") if at == refused else each for at, each in enumerate(effects)]
        result = judge(one, doubted)
        decided = of.of == "most"
        assert result.outcome is (HOLDS if decided else UNDECIDED)
        assert shown.marked(result)[0] == ("✓" if decided else "·")
        assert ("avoid" in shown.markdown(result)) == decided and ("made up" in shown.markdown(result)) != decided


def test_equal_counts_are_neither_more_nor_less(judge):
    one, equal = said(FREE.counted("read").added, more), said(FREE.counted("read").ratio, less)
    assert judge(one).weighed.effect == 0 and judge(one).outcome is judge(equal).outcome is NOT


def test_counts_of_two_pairs_are_compared_as_times_are(judge):
    one = FREE.counted("instructions")
    added, ratio = (judge.effects(of)[0].value for of in (one.added, one.ratio))
    assert judge.effects(more_added(one, one.turned))[0].value == pytest.approx(2 * added)
    assert judge.effects(ratio_of_ratios(one, one.turned))[0].value == pytest.approx(ratio**2)
    none = FREE.counted("syscalls")
    assert judge.effects(ratio_of_ratios(one, none))[0].missing == "it divides by a count of zero"


def test_what_a_finding_cannot_be_is_refused():
    with pytest.raises(ValueError, match="one by one"):
        said(FREE.ratio, slower, show=[DESIGNS.ratio])
    with pytest.raises(ValueError, match="is empty"):
        said(FREE.ratio, between(3, 2, why="turned"))
    with pytest.raises(LookupError, match="no pair is left"):
        _ = DESIGNS.where(lambda one: False).ratio


def test_a_typical_and_an_undisturbed_machine_that_contradict_each_other_leave_it_undecided(judge):
    one = said(FREE.ratio, over(2.0))

    def at(*undisturbed: float):
        return judge(one, [Effect(2.5, 2.4, 2.6, freedom=9.0, undisturbed=undisturbed)])

    assert at(2.45, 2.35, 2.55).outcome is at(2.0, 1.9, 2.1).outcome is HOLDS, "nor does one that is undecided"
    against = at(1.8, 1.7, 1.9)
    assert against.outcome is UNDECIDED and against.weighed.sittings is None
    assert "on a typical machine it holds, on an undisturbed one it does not." in shown.markdown(against)


def test_a_definition_is_what_is_judged_and_not_how_it_is_said():
    limits = limits_of_today()
    with_a_further_study = {**limits, ("dummy", FREE.key, FREE.baseline): 0.5}

    def hash_of(one: Finding, limits=limits) -> object:
        return row_of(one, limits)["hash"]

    one = said(FREE.ratio, under(2))
    also = finding("other", "other-id", "In other words.", FREE.ratio.named("as such"), under(2.0), because="So.")
    assert hash_of(one) == hash_of(also) == hash_of(one, with_a_further_study)
    assert row_of(one, limits)["sentence"] != row_of(also, limits)["sentence"]
    read_again = msgspec.convert(record(one), Finding)
    assert hash_of(one) == hash_of(read_again)
    others = [
        said(FREE.ratio, under(2.01)),
        said(FREE.ratio, over(2)),
        said(FREE.added, under(2)),
        said(CALLS.ratio, under(2)),
        said(FREE.turned.ratio, under(2)),
        said(FREE.ratio, under(2), processors=2),
        said(DESIGNS.ratio, under(2)),
        said(DESIGNS.ratio, most_of(under(2))),
    ]
    stricter = {pair: limit / 2 for pair, limit in limits.items()}
    assert len({hash_of(one), hash_of(one, stricter), *map(hash_of, others)}) == len(others) + 2


def test_a_finding_that_is_newer_than_a_run_that_tests_others_says_so(judge):
    found = judge(said(FREE.ratio, over(1)))
    assert "after this run" not in shown.markdown(found)
    assert "after this run" in shown.markdown(replace(found, tested=False))
    assert "after this run" in shown.html(replace(found, tested=False))
