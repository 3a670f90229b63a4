"""The analysis of thread pools finds the truth of made-up pools, and its words reverse with it."""

import re
from dataclasses import replace

import polars as pl
import pytest
from told import VERDICTS, Told, check_alts, check_form, read, tell

from async_cost.runs.run import load_run
from async_cost.statistics.measured import Measured
from async_cost.studies import thread_pools
from async_cost.studies.thread_pools import (
    CBCP,
    CBWP,
    COUNTING,
    DEFAULT,
    EXTERNAL,
    HIGH,
    INTERNAL,
    LEAN_CBCP,
    LEAN_CBWP,
    LEAN_NEVER_PARK,
    LOW,
    NEVER_PARK,
    NO_POOL,
    RAYON_JOIN,
    SIZES,
    STUDY,
    TP,
)
from async_cost.testing.made_up_runs import Study, make_run

ROOM = "thread-pools"
#: Nanoseconds of an empty job of the pools as described, with one worker; the original of each; and what was made of
#: it.
DESCRIBED = {
    CBCP: (300, "executors CBCP", LEAN_CBCP),
    DEFAULT: (200, "executors CBWP", LEAN_CBWP),
    CBWP: (200, "executors CBWP", LEAN_CBWP),
    NEVER_PARK: (190, "executors 0.9 CBWP (ws-no-park)", LEAN_NEVER_PARK),
    COUNTING: (195, "executors 0.8 CBWP (no ws-timed-fairness)", None),
}
#: The same of the others.
OTHERS = {TP: 400, "rayon spawn": 180, "futures ThreadPool": 500}
PUBLISHED = (CBCP, DEFAULT, NEVER_PARK, COUNTING)
STEP_NS = 2.0
#: Amplifications of the sizes of bursts, as published and where all of it is awaited.
BURSTS = {"latency": ((1, 100, 10_000), 100), "whole": ((1, 100, 1_000), 10)}
CPU = 1.5


def pools(
    ratio: float = 0.7, never_park: float = 0.5, twins: dict[str, float] | None = None, known: float = 1.0
) -> Study:
    """Lean pools take `ratio` of the time of those as described, which take `known` of the time of their originals; a
    pool that never parks answers in `never_park` of the time of one that does, and disturbs its neighbour as much the
    more. `twins` are the true ratios of the controls by group, 1 where they are honest.
    """
    times, counts, metrics, comparisons, groups, controls = {}, {}, {}, [], {}, set()

    def add(key, ns, units=1, rival=None, control=False, amplification=0, more=None):
        group = f"{key[0]}, {key[2]}"
        groups[group] = 0.1
        times[key] = ns
        counts[key] = {
            "units": units,
            "workers": 2,
            "amplification": amplification,
            "burst_jobs": 1000,
            "burst_messages": 10,
        }
        metrics[key] = {"cpu_ns": CPU * ns, "voluntary_switches": 0.01, "involuntary_switches": 0.001} | (more or {})
        if rival:
            comparisons.append((key, (key[0], rival, key[2]), group))
        if control:
            twin = (key[0], f"{key[1]} (A/A)", key[2])
            controls.add(twin[1])
            times[twin], counts[twin], metrics[twin] = ns * (twins or {}).get(group, 1), counts[key], metrics[key]
            comparisons.append((twin, key, group))

    def field(bench, parameter, ours, others, scale, units=1, amplification=0, more=None):
        for name in ours:
            ns, original, lean = DESCRIBED[name]
            add((bench, name, parameter), ns * scale, units, original, name in (CBWP, DEFAULT), amplification, more)
            if (bench, original, parameter) not in times:
                add((bench, original, parameter), ns * scale / known, units, None, False, amplification, more)
            if lean:
                add((bench, lean, parameter), ns * scale * ratio, units, name, False, amplification, more)
        for name in others:
            rival = LEAN_CBWP if name.startswith(("rayon", "futures")) else None
            add((bench, name, parameter), OTHERS[name] * scale, units, rival, False, amplification, more)

    for bench, amplification in ((LOW, 1), (HIGH, 1000)):
        for threads in range(1, 10):
            field(bench, f"threads={threads}", PUBLISHED, [TP], 1 + threads / 20, amplification=amplification)
    for jobs, slower in ((1000, 1.0), (10_000, 1.0), (100_000, 1.3)):
        parameter = f"threads=4 m={jobs} a=1"
        add(("size/low-amplification", DEFAULT, parameter), 200 * slower, control=True)
    for fewer, more in ((1000, 10_000), (10_000, 100_000)):
        pair = [("size/low-amplification", DEFAULT, f"threads=4 m={jobs} a=1") for jobs in (more, fewer)]
        comparisons.append((*pair, f"size/low-amplification, threads=4 m={more} a=1"))
    for bench in (EXTERNAL, INTERNAL):
        for threads in (1, 2, 4, 8):
            field(bench, f"threads={threads} work=0", (CBCP, CBWP), OTHERS, 1)
        for work in (100, 1000):
            for name in (CBCP, CBWP):
                add(
                    (bench, name, f"threads=2 work={work}"),
                    DESCRIBED[name][0] + STEP_NS * work / 2,
                    control=name == CBWP,
                )
            add((bench, NO_POOL, f"threads=2 work={work}"), STEP_NS * work)
        # Each step takes 0.9 of the time of the one before.
        at = "threads=2 work=0"
        for pool, last in ((CBCP, LEAN_CBCP), (CBWP, LEAN_CBWP)):
            before, ns = pool, times[bench, pool, at]
            for number in (1, 2):
                ns *= 0.9
                add((bench, f"{pool}, step {number}", at), ns, rival=before)
                before = f"{pool}, step {number}"
            comparisons.append(((bench, last, at), (bench, before, at), f"{bench}, {at}"))
            add((bench, f"{pool} (pinned)", at), times[bench, pool, at] * 1.2, rival=pool)
    for name, ns in ((RAYON_JOIN, 20), (LEAN_CBWP, 100), ("chili join", 5)):
        rival = None if name == RAYON_JOIN else RAYON_JOIN
        add(("tree", name, "threads=2 work=0"), ns, rival=rival, control=name == LEAN_CBWP)
    for kind, (amplifications, pause) in BURSTS.items():
        for size, a in zip(SIZES, amplifications, strict=True):
            parameter = f"threads=6 p=1 m=100 a={a} s={pause}ms"
            jobs = 100 * (a + 1)
            more = {"rse_ppm": 40_000} | (
                {f"p{q}_ns": jobs * q for q in (50, 90, 99)} | {"max_ns": jobs * 110} if kind == "whole" else {}
            )
            field(f"{kind}/{size}-bursts", parameter, (CBCP, CBWP), [TP], jobs, jobs, a, more)
            never = jobs * DESCRIBED[CBWP][0] * never_park
            add((f"{kind}/{size}-bursts", NEVER_PARK, parameter), never, jobs, None, False, a, more)
    for name, slow in ((CBWP, 1.0), (NEVER_PARK, 1 / never_park), (NO_POOL, 1.0)):
        add(("idle", name, "threads=6"), 2e7)
        metrics["idle", name, "threads=6"]["cpu_ns"] = 2e7 * (1.9 if name == NEVER_PARK else 0.001)
        add(("neighbour", name, "threads=6"), 5e6 * slow, 1, None if name == NO_POOL else NO_POOL, name == NO_POOL)
    del groups["idle, threads=6"]
    made = {"times": times, "counts": counts, "metrics": metrics, "comparisons": comparisons, "groups": groups}
    return Study(**made, controls=sorted(controls))


def made(root, study: Study | None = None, **options):
    """A made-up run of pools alone."""
    # A seed with which no control of the many misses one by chance.
    settings = {"rounds": 16, "samples": 1, "noise": 0.01, "seed": 16} | options
    return make_run(root, None, others={STUDY: study or pools()}, **settings)


@pytest.fixture(scope="module")
def effect_run(runs):
    return made(runs / "effect")


@pytest.fixture(scope="module")
def effect(effect_run) -> Told:
    return tell(ROOM, effect_run)


@pytest.fixture(scope="module")
def reverse(runs) -> Told:
    return tell(ROOM, made(runs / "reverse", pools(ratio=1.4, never_park=2.0)))


@pytest.fixture(scope="module")
def untrusted(runs) -> Told:
    return tell(ROOM, made(runs / "untrusted", replace(pools(), controls=())))


# -- figures -------------------------------------------------------------------------------------------------


def test_pools_as_described_stand_beside_their_originals_in_every_published_cell(runs):
    measured = Measured.of(load_run(made(runs / "known", pools(known=1.3))), STUDY)
    published = thread_pools.against_originals(measured).filter(pl.col("bench").is_in([LOW, HIGH]))
    assert published.height == 4 * 2 * 9
    assert published["ratio"].to_list() == pytest.approx([1.3] * published.height, rel=0.03)
    assert set(published["verdict"]) == {"slower"}


def test_lean_pools_stand_beside_those_as_described(effect_run):
    found = thread_pools.lean(Measured.of(load_run(effect_run), STUDY))
    assert found.filter(pl.col("bench").is_in([LOW, HIGH])).height == 3 * 2 * 9
    assert found["ratio"].to_list() == pytest.approx([0.7] * found.height, rel=0.03)
    assert found["speed"].to_list() == pytest.approx([1 / 0.7] * found.height, rel=0.03)
    assert (found["speed_low"] <= found["speed"]).all() and set(found["verdict"]) == {"faster"}


def test_the_published_count_leaves_the_first_job_of_a_message_out(effect_run):
    run = load_run(effect_run)
    measured = Measured.of(run, STUDY)
    counted, all_jobs = (thread_pools.rates(measured, [LOW], as_published=flag) for flag in (True, False))
    both = counted.join(all_jobs, on=["bench", "variant", "parameter"])
    assert (both["value"] / both["value_right"]).to_list() == pytest.approx([0.5] * both.height)
    row = all_jobs.row(by_predicate=(pl.col("variant") == CBCP) & (pl.col("threads") == 2), named=True)
    assert row["value"] == pytest.approx(1e3 / (300 * 1.1), rel=0.02), "million jobs a second"
    assert not counted["variant"].str.contains("A/A").any()


def test_a_published_figure_is_there_for_every_measured_cell_of_the_tables(effect_run):
    run = load_run(effect_run)
    measured = Measured.of(run, STUDY)
    keys = ["bench", "variant", "parameter"]
    assert thread_pools.published_rates().join(thread_pools.rates(measured, [LOW, HIGH]), on=keys).height == 90
    assert thread_pools.published_bursts().join(thread_pools.bursts(measured, "latency"), on=keys).height == 12


def test_the_fastest_pool_comes_first_and_others_stand_beside_ours(effect_run):
    measured = Measured.of(load_run(effect_run), STUDY)
    load = INTERNAL, "threads=2 work=0"
    assert thread_pools.ranked(measured, *load)["variant"][0] == LEAN_CBWP
    beside = dict(thread_pools.beside_ours(measured, *load).select("variant", "ratio").rows())
    assert beside["rayon spawn"] == pytest.approx(180 / (200 * 0.7), rel=0.02)
    assert LEAN_CBWP not in beside and len(beside) >= 3


def test_work_is_taken_without_a_pool(effect_run):
    run = load_run(effect_run)
    found = thread_pools.beside_no_pool(Measured.of(run, STUDY), INTERNAL)
    row = found.row(by_predicate=(pl.col("variant") == CBCP) & (pl.col("work") == 1000), named=True)
    assert row["own_ns"] == pytest.approx(1000 * STEP_NS, rel=0.02)
    assert row["ratio"] == pytest.approx((300 + 500 * STEP_NS) / (1000 * STEP_NS), rel=0.02)


def test_each_step_stands_beside_the_one_before_and_the_lean_pool_beside_the_last(effect_run):
    found = thread_pools.steps(Measured.of(load_run(effect_run), STUDY)).filter(bench=EXTERNAL)
    pairs = [
        (f"{pool}{step}", f"{pool}{before}")
        for pool in (CBCP, CBWP)
        for step, before in ((", step 1", ""), (", step 2", ", step 1"))
    ]
    stepped = found.filter(~pl.col("variant").is_in([LEAN_CBCP, LEAN_CBWP]))
    assert stepped.select("variant", "baseline_variant").rows() == pairs
    assert stepped["ratio"].to_list() == pytest.approx([0.9] * 4, rel=0.03)
    assert found["variant"].to_list()[2::3] == [LEAN_CBCP, LEAN_CBWP], "the last step of each"


def test_bound_workers_and_trees_stand_beside_their_counterparts(effect_run):
    measured = Measured.of(load_run(effect_run), STUDY)
    assert thread_pools.pinned(measured)["ratio"].to_list() == pytest.approx([1.2] * 4, rel=0.03)
    assert dict(thread_pools.trees(measured).select("variant", "ratio").rows()) == pytest.approx(
        {"chili join": 0.25, LEAN_CBWP: 5.0}, rel=0.03
    )
    ranking = thread_pools.ranked(measured, EXTERNAL, "threads=2 work=0")["variant"]
    assert not ranking.str.contains("step|pinned").any(), "they are no pools of the field"


# -- the text follows the run --------------------------------------------------------------------------------


def test_the_answer_names_the_fastest_pool_of_each_load(effect, reverse):
    assert effect.trusted and reverse.trusted
    assert re.match(
        r"The fastest pools on this machine are `lean CBWP` for jobs that come from outside and jobs that workers submit; "
        r"`CBWP \(ws-no-park\)` for a small burst",
        effect.answer,
    )
    assert re.match(
        r"The fastest pools on this machine are `rayon spawn` for jobs that come from outside and jobs that workers submit; `(executors )?CBWP` for a small burst",
        reverse.answer,
    )


def test_lean_pools_beside_those_as_described_turn_round(effect, reverse):
    pairs = r"the lean ones compared with those as described, over (\d+) pairs of cells: \1 "
    assert re.search(pairs + "faster", effect.answer, re.IGNORECASE)
    assert re.search(pairs + "slower", reverse.answer, re.IGNORECASE)
    assert re.search(r"0 are in this list: in 0 the estimate", effect.text)
    assert re.search(r"Of (\d+) pairs of cells, \1 are in this list: in \1 the estimate is under one", reverse.text)


def test_oversubscription_is_marked_in_the_table(effect):
    (table,) = (table for table in effect.tables if "this run / published" in table)
    assert "9 (oversubscribed)" in table and "1 (oversubscribed)" not in table


def test_who_never_parks_is_said_to_keep_processors_busy(effect):
    busy = re.search(r"`CBWP \(ws-no-park\)` keeps ([0-9.]+) processors busy", effect.answer)
    assert float(busy[1]) == pytest.approx(1.9, abs=0.03)
    assert re.search(r"\*\*Slower\*\* than the same without a pool: `CBWP \(ws-no-park\)`", effect.text)


def test_every_claim_has_its_figure(effect):
    (table,) = (table for table in effect.tables if ">P18<" in table)
    for number in range(1, 28):
        assert f">P{number}<" in table
    assert "not measured" not in table, "made-up pools hold every published row that a claim is about"


def test_claims_on_bursts_turn_round(effect, reverse):
    def verdict(told: Told, claim: str) -> str:
        (table,) = (table for table in told.tables if ">P18<" in table)
        row = table.partition(f">{claim}<")[2].partition("</tr>")[0]
        return re.search(r"(does not hold|holds|undecided)", row)[1]

    assert [verdict(effect, claim) for claim in ("P17", "P18", "P19")] == ["holds"] * 3
    assert [verdict(reverse, claim) for claim in ("P17", "P18", "P19")] == ["does not hold"] * 3


# -- without trust there is nothing to conclude --------------------------------------------------------------


def test_a_run_that_is_no_evidence_gives_numbers_without_verdicts(untrusted):
    assert not untrusted.trusted
    assert untrusted.answer.startswith("**This run is not evidence for its answer")
    assert not [word for word in VERDICTS if word in untrusted.text]
    assert "without evidence" in untrusted.answer


def test_a_load_whose_control_fails_is_doubted_alone(runs):
    told = tell(ROOM, made(runs / "half", pools(twins={f"{LOW}, threads=9": 1.5})))
    assert (
        told.trusted
        and f"**Nothing is concluded** from 1 of 41 groups of comparisons, `{LOW}, threads=9`, because" in told.trust
    )
    assert "4 without evidence" in told.answer


def test_a_run_without_pools_says_so_once(runs):
    told = tell(ROOM, make_run(runs / "absent", rounds=12, work=False))
    assert told.answer.strip() == "Thread pools were **not measured** in this run."
    assert told.trusted and told.text.count("not measured") == 1


# -- form ----------------------------------------------------------------------------------------------------


def test_charts_say_what_they_show(effect, reverse):
    assert len(effect.alts) == 10
    check_alts(effect)
    assert effect.alts[2] != reverse.alts[2]


def test_the_notebook_keeps_the_house_rules():
    check_form(read(ROOM))


def test_a_rate_that_hangs_on_the_size_is_told(effect):
    assert "Of 2 steps to more jobs: 1 same and 1 slower." in effect.text
