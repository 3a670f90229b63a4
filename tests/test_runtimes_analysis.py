"""The analysis of runtimes finds the truth of made-up runs, and its words reverse with it."""

import re

import polars as pl
import pytest
from told import VERDICTS, Told, check_alts, check_form, read, tell

from async_cost.literature.published import published_times
from async_cost.runs.run import load_run
from async_cost.statistics.measured import Measured
from async_cost.studies import runtimes
from async_cost.studies.runtimes import BUSY, BY_TASK, HONEST, NIO, OURS, STUDY, TABLES, TOKIO
from async_cost.testing.made_up_runs import Study, make_run

ROOM = "runtimes"
#: Rows that are driven by a task as well, and in which nio's gap is gone then; and one in which it stays.
FREED = ("sync_mpsc_oneshot/request_reply", "spawn/threaded_scheduler_spawn_10")
KEPT = "spawn/threaded_scheduler_spawn_1000"
#: Rows in which ours is a third above the better of tokio and nio; a fifth below it everywhere else.
LOST = ("timer/single_thread_sleep", "rt_multi_threaded/chained_spawn")
LIMIT = 0.05


def rows(turn: float, twins: dict[str, float] | None = None, **options) -> Study:
    """A study in which nio compared with tokio is as published, to the power of `turn`; `twins` are the true ratios of
    the controls by suite.
    """
    published = {
        (row["bench"], row["variant"], row["parameter"]): row["ns"]
        for row in published_times(STUDY).iter_rows(named=True)
    }
    times: dict = {}
    for (bench, variant, parameter), ns in published.items():
        if variant != TOKIO:
            continue
        gap = (published[bench, NIO, parameter] / ns) ** turn
        pair = {TOKIO: ns, NIO: ns * gap}
        pair[OURS] = min(pair.values()) * (4 / 3 if bench in LOST else 0.8)
        loads = {parameter: pair}
        if bench in (*FREED, KEPT):
            loads[BY_TASK] = {TOKIO: ns, NIO: ns * (1 if bench in FREED else gap), OURS: ns}
        if bench == BUSY:
            loads[HONEST] = {TOKIO: ns, NIO: ns * 2, OURS: ns}
        times |= {(bench, name, load): value for load, sides in loads.items() for name, value in sides.items()}
    times[BUSY, TOKIO, "global_queue_interval=1"] = times[BUSY, TOKIO, ""] / 50
    comparisons = [(key, (key[0], TOKIO, key[2]), suite(key)) for key in times if key[1] != TOKIO]
    comparisons.append(((BUSY, TOKIO, "global_queue_interval=1"), (BUSY, TOKIO, ""), suite((BUSY,))))
    first = {suite(key): key for key in reversed(times) if key[1] == TOKIO and "=1" not in key[2]}
    for name, key in first.items():
        twin = (key[0], f"{TOKIO} (A/A)", key[2])
        times[twin] = times[key] * (twins or {}).get(name, 1)
        comparisons.append((twin, key, name))
    made = {
        "times": times,
        "comparisons": comparisons,
        "groups": dict.fromkeys(first, LIMIT),
        "metrics": {
            key: {"cpu_ns": 2 * ns, "voluntary_switches": 3, "busy_threads": 2 if key[1] == OURS else 4}
            for key, ns in times.items()
        },
        "counts": {key: {"workers": 64 if "sync_notify" in key[0] else 1} for key in times},
        "controls": [f"{TOKIO} (A/A)"],
    }
    return Study(**{**made, **options})


def suite(key: tuple) -> str:
    return key[0].split("/")[0]


def decisions(worth: float) -> Study:
    """The executor's own study: without a seat for the caller, one task takes `worth` times as long."""
    key = ("one_task", OURS, HONEST)
    twin, bare = (key[0], f"{OURS} (A/A)", HONEST), (key[0], "not seated", HONEST)
    group = f"one_task, {HONEST}"
    return Study(
        times={key: 1000, twin: 1000, bare: 1000 * worth},
        comparisons=[(bare, key, group), (twin, key, group)],
        groups={group: LIMIT},
        controls=[f"{OURS} (A/A)"],
    )


def made(root, turn: float = 1.0, twins: dict[str, float] | None = None, **options):
    studies = {STUDY: rows(turn, twins), runtimes.EXECUTOR: decisions(3.0 if turn > 0 else 0.5)}
    return make_run(root, None, others=studies, **{"rounds": 24, "samples": 1, "noise": 0.005, **options})


@pytest.fixture(scope="module")
def effect_run(runs):
    return made(runs / "effect")


@pytest.fixture(scope="module")
def effect(effect_run) -> Told:
    return tell(ROOM, effect_run)


@pytest.fixture(scope="module")
def reverse(runs) -> Told:
    return tell(ROOM, made(runs / "reverse", turn=-1.0))


# -- the numbers ---------------------------------------------------------------------------------------------


def test_every_runtime_stands_beside_tokio_with_the_published_ratio(effect_run):
    run = load_run(effect_run)
    found = runtimes.beside_tokio(Measured.of(run, STUDY)).filter(pl.col("parameter").is_in(runtimes.PUBLISHED))
    nio = found.filter(variant=NIO)
    assert nio.height == 59 and not nio["published"].null_count()
    assert nio["ratio"].to_list() == pytest.approx(nio["published"].to_list(), rel=0.01)
    assert found.filter(variant=OURS)["published"].null_count() == 59
    assert not found["variant"].str.contains("A/A").any()


def test_a_suite_is_in_the_order_of_its_numbers(effect_run):
    run = load_run(effect_run)
    found = runtimes.of_suite(runtimes.beside_tokio(Measured.of(run, STUDY)), "spawn_blocking")
    assert found["label"].to_list()[:4] == [
        "concurrency/1\nnio",
        "concurrency/1\nours",
        "concurrency/2\nnio",
        "concurrency/2\nours",
    ]
    assert found["label"].to_list()[-1] == "concurrency/16\nours"


def test_ours_stands_beside_the_better_of_the_two(effect_run):
    run = load_run(effect_run)
    found = runtimes.beside_the_better(Measured.of(run, STUDY))
    assert found.height == 59
    lost = found.filter(pl.col("bench").is_in(LOST))
    assert lost["ratio"].to_list() == pytest.approx([4 / 3] * 2, rel=0.01)
    assert set(lost["verdict"]) == {"slower"}
    assert set(found.filter(~pl.col("bench").is_in(LOST))["verdict"]) == {"faster"}
    ping = found.filter(bench="rt_multi_threaded/ping_pong")["baseline_variant"].item()
    assert ping == TOKIO, "the published table has tokio ahead there"
    assert runtimes.at_least_as_fast(found).height == 57


def test_gaps_that_go_with_the_driver_are_told_from_those_that_stay(effect_run):
    run = load_run(effect_run)
    twice = runtimes.both_ways(Measured.of(run, STUDY), BY_TASK)
    assert set(twice["bench"]) == {*FREED, KEPT}
    assert set(runtimes.changed(twice)["bench"]) == set(FREED)


def test_rows_with_too_many_workers_are_known(effect_run):
    found = runtimes.oversubscribed(load_run(effect_run))
    assert found.height == 20 and set(found["parameter"]) == set(TABLES)


def test_they_say_how_many_threads_ran(effect_run):
    found = runtimes.busy(load_run(effect_run))
    assert found.height == 20 and set(found["workers"]) == {64}
    assert set(found[TOKIO]) == {4.0} and set(found[OURS]) == {2.0}


def test_what_is_used_is_told_by_suite(effect_run):
    run = load_run(effect_run)
    found = runtimes.used(Measured.of(run, STUDY))
    assert found.height == 2 * 10 and found["switches"].to_list() == pytest.approx([3] * 20, rel=0.05)
    assert found["cpu"].to_list() == pytest.approx(found["wall"].to_list(), rel=0.05)


# -- the text follows the run --------------------------------------------------------------------------------


def test_the_answer_has_the_share_of_rows_that_ours_holds(effect):
    assert effect.trusted
    assert re.search(r"better of tokio and nio in 57 of 59 rows \(97 %\)", effect.answer)
    assert "changes in 2" in effect.answer
    assert effect.answer.startswith("Much of what such a table shows is where the root runs: ")
    for bench in LOST:
        assert re.search(rf"`{bench}`: 3\d(\.\d)? % more time", effect.text)


def test_the_answer_turns_round_with_the_gaps(effect, reverse):
    assert re.search(r"the direction is the document's in (\d+) of \1 rows", effect.answer)
    assert "the direction is the document's in 0 of" in reverse.answer
    assert re.search(r"\*\*Slower\*\* than the executor as it is:[^.]*`not seated one_task", effect.text)
    assert re.search(r"\*\*Faster\*\* than the executor as it is:[^.]*`not seated one_task", reverse.text)


def test_every_claim_has_its_figure(effect):
    (cards,) = (html for html in effect.tables if ">N44<" in html)
    for number in range(1, 45):
        assert f">N{number}<" in cards


def test_a_suite_whose_control_fails_is_doubted_alone(runs):
    told = tell(ROOM, made(runs / "half", twins={"timer": 1.2}))
    assert (
        told.trusted and "**Nothing is concluded** from 1 of 10 groups of comparisons, `timer`, because" in told.trust
    )
    assert "**Slower**" in told.text


def test_a_run_that_is_no_evidence_gives_numbers_without_verdicts(runs):
    told = tell(ROOM, made(runs / "quick", profile="quick", rounds=3))
    assert not told.trusted and "quick" in told.trust
    assert told.answer.startswith("**This run is not evidence and concludes nothing.**")
    assert not [word for word in VERDICTS if word in told.text]


def test_a_run_without_runtimes_says_so(runs):
    told = tell(ROOM, make_run(runs / "absent", rounds=12, work=False))
    assert told.answer.strip() == "Runtimes were **not measured** in this run."


# -- form ----------------------------------------------------------------------------------------------------


def test_charts_say_what_they_show(effect):
    assert len(effect.alts) == 16
    check_alts(effect)


def test_the_notebook_keeps_the_house_rules():
    check_form(read(ROOM))
