"""The analysis of spawns finds the truth of made-up rings, and its words reverse with it."""

import re
from dataclasses import replace

import polars as pl
import pytest
from told import VERDICTS, Told, check_alts, check_form, read, tell

from async_cost.report import charts
from async_cost.runs.comparisons import PAIR, of_today
from async_cost.runs.run import load_run
from async_cost.statistics.measured import Measured
from async_cost.studies import boxing_cost as boxing
from async_cost.studies import spawn_apis
from async_cost.studies.spawn_apis import (
    DROPPED,
    JOINED,
    LOOP,
    LOOP_DROPPED,
    ONE_THREAD,
    ONE_WORKER,
    SIZES,
    STUDY,
    THREADS,
)
from async_cost.testing.made_up_runs import Study, make_run

ROOM = "spawn-apis"
CROWDED = "N=200 workers=4 oversubscribed"
BASIC, LOCAL_SET, POOL = (
    ("tokio::Runtime (basic_scheduler)", "native"),
    spawn_apis.LOCAL_SET,
    ("LocalPool", "LocalSpawn"),
)
TOKIO, ASYNC_STD, THREAD_POOL = spawn_apis.TOKIO, spawn_apis.ASYNC_STD, ("ThreadPool", "Spawn")
GLOBAL = ("async_global_executor", "native")
#: Nanoseconds of one spawn of the rows that others are compared with, in a joined ring; and what they are compared with
#: themselves.
BASES = {
    ONE_THREAD: {
        BASIC: (400, None),
        LOCAL_SET: (420, BASIC),
        POOL: (410, None),
        ("smol::LocalExecutor", "native"): (380, BASIC),
    },
    THREADS: {
        TOKIO: (500, None),
        ASYNC_STD: (900, TOKIO),
        GLOBAL: (880, ASYNC_STD),
        THREAD_POOL: (600, None),
        ("smol::Executor", "native"): (850, TOKIO),
        ("nio", "native"): (700, TOKIO),
    },
}
#: What each layer adds to a spawn of its base: nanoseconds, allocations.
LAYERS = {
    ONE_THREAD: {
        ("TokioCt", "LocalSpawn"): (LOCAL_SET, 20, 1),
        ("TokioCt", "LocalSpawnHandle"): (LOCAL_SET, 130, 3),
        ("TokioCt", "LocalSpawnHandleOs"): (LOCAL_SET, 150, 4),
        ("TokioCt", "LocalSpawnHandle, native abort"): (LOCAL_SET, 0, 0),
        ("TokioCt", "LocalSpawnHandle 0.7"): (LOCAL_SET, 30, 1),
        ("LocalPool", "LocalSpawnHandle"): (POOL, 120, 2),
        ("LocalPool", "LocalSpawnHandleOs"): (POOL, 140, 3),
    },
    THREADS: {
        ("TokioTp", "Spawn"): (TOKIO, 60, 1),
        ("TokioTp", "SpawnHandle"): (TOKIO, 90, 1),
        ("TokioTp", "SpawnHandleOs"): (TOKIO, 150, 2),
        ("TokioTp", "SpawnHandle, native abort"): (TOKIO, 0, 0),
        ("TokioTp", "Spawn with remote_handle"): (TOKIO, 160, 3),
        ("AsyncStd", "Spawn"): (ASYNC_STD, 100, 1),
        ("AsyncStd", "SpawnHandle"): (ASYNC_STD, 120, 1),
        ("AsyncStd", "SpawnHandleOs"): (ASYNC_STD, 220, 2),
        ("AsyncGlobal", "SpawnHandle 0.7"): (GLOBAL, 90, 1),
        ("ThreadPool", "SpawnHandle"): (THREAD_POOL, 150, 2),
        ("ThreadPool", "SpawnHandleOs"): (THREAD_POOL, 220, 3),
    },
}
#: Rows without handles: under every load they run the program in which none is awaited.
DETACHED = ("Spawn", "LocalSpawn")
#: How much a base takes under a load, compared with the largest joined ring.
LOADS = {"N=10": 1.2, "N=100": 1.1, JOINED: 1.0, LOOP: 0.6, ONE_WORKER: 0.8, CROWDED: 1.5}
#: Processors that worker threads keep busy.
BUSY = 1.6
CONTROLLED = (BASIC, TOKIO)


def rings(sign: float = 1.0, program: float = 0.75, twins: dict[str, float] | None = None, **options) -> Study:
    """A study whose layers add what `LAYERS` says times `sign`; a base takes `program` times as long where no handle is
    awaited.

    `twins` are the true ratios of the controls by group, 1 where they are honest.
    """
    times, cpu, counts, comparisons, groups = {}, {}, {}, [], {}
    for threads, bases in BASES.items():
        rows = {row: (row, 0, 0) for row in bases} | LAYERS[threads]
        for parameter in (*LOADS, DROPPED, LOOP_DROPPED):
            if threads == ONE_THREAD and "workers" in parameter:
                continue
            group = f"{threads}, {parameter}"
            groups[group] = 0.02 if threads == ONE_THREAD else 0.05
            for (bench, variant), (base, added, allocations) in rows.items():
                dropped = "dropped" in parameter or variant in DETACHED
                if parameter == LOOP and variant in DETACHED:
                    continue
                load = LOADS[parameter.removesuffix(" handles=dropped")] * (program if dropped else 1)
                wall = bases[base][0] * load + sign * added
                nodes = int(re.match(r"[NM]=(\d+)", parameter)[1])
                units = nodes + 1 if parameter.startswith("M") else nodes * nodes + nodes
                key = (bench, variant, parameter)
                times[key] = wall * units
                used = 1 if threads == ONE_THREAD or parameter == ONE_WORKER else BUSY
                cpu[key] = {"cpu_ns": (bases[base][0] * load * used + sign * added) * units}
                counts[key] = {"units": units, "spawns": units, "allocations": (2 + allocations) * units}
                counts[key] |= {"messages": nodes * nodes if parameter.startswith("N") else 0}
                counts[key] |= {"workers": 2} if threads == THREADS else {}
                other = bases[base][1] if base == (bench, variant) else base
                if other and not (parameter == LOOP and other[1] in DETACHED):
                    comparisons.append((key, (*other, parameter), group))
                if (bench, variant) in CONTROLLED:
                    twin = (bench, f"{variant} (A/A)", parameter)
                    times[twin], cpu[twin], counts[twin] = (
                        times[key] * (twins or {}).get(group, 1),
                        cpu[key],
                        counts[key],
                    )
                    comparisons.append((twin, key, group))
    made = {"times": times, "metrics": cpu, "counts": counts, "comparisons": comparisons, "groups": groups}
    return Study(**{**made, "controls": ["native (A/A)"], **options})


def made(root, study: Study | None = None, **options):
    """A made-up run of rings alone."""
    settings = {"rounds": 40, "samples": 2, "noise": 0.004} | options
    return make_run(root, None, others={STUDY: study or rings()}, **settings)


@pytest.fixture(scope="module")
def effect_run(runs):
    return made(runs / "effect")


@pytest.fixture(scope="module")
def effect(effect_run) -> Told:
    return tell(ROOM, effect_run)


@pytest.fixture(scope="module")
def reverse(runs) -> Told:
    return tell(ROOM, made(runs / "reverse", rings(sign=-1.0, program=1.25)))


@pytest.fixture(scope="module")
def untrusted(runs) -> Told:
    return tell(ROOM, made(runs / "untrusted", replace(rings(), controls=())))


# -- costs ---------------------------------------------------------------------------------------------------


def test_costs_are_for_one_spawn_in_wall_time_and_in_processor_time(effect_run):
    run = load_run(effect_run)
    measured = Measured.of(run, STUDY)
    found = spawn_apis.compare(measured, spawn_apis.BOXES)
    sides = found.select("bench", "variant", "baseline_bench", "baseline_variant", "parameter").rows()
    wanted = [(*one, *other, load) for load, rows in spawn_apis.BOXES.items() for one, other in rows]
    assert sides == wanted and found["label"].n_unique() == len(wanted)
    for row in found.iter_rows(named=True):
        layers = LAYERS[row["group"].partition(",")[0]]
        base = layers.get((row["baseline_bench"], row["baseline_variant"]), (None, 0, 0))[1]
        truth = layers[row["bench"], row["variant"]][1] - base
        assert row["added_ns"] == pytest.approx(truth, abs=4)
        assert row["cpu_ns"] == pytest.approx(truth, abs=6)
        assert row["low"] <= row["ratio"] <= row["high"] and row["verdict"] == "slower"
    published = found.filter(bench="TokioTp", variant="SpawnHandleOs")["published_ns"].item()
    assert published == pytest.approx((5.1405e6 - 5.0675e6) / 40_200)


def test_layers_stand_beside_the_native_row_of_their_own_executor(effect_run):
    run = load_run(effect_run)
    found = spawn_apis.over_native(Measured.of(run, STUDY), DROPPED, THREADS)
    assert set(found.select("bench", "variant").rows()) == set(LAYERS[THREADS])
    assert found["ratio"].is_sorted()
    remote = found.row(by_predicate=pl.col("variant") == "Spawn with remote_handle", named=True)
    assert remote["ratio"] == pytest.approx(1 + 160 / (500 * 0.75), rel=0.01)


def test_a_spawn_is_compared_with_itself_under_another_load(effect_run):
    run = load_run(effect_run)
    found = spawn_apis.beside_parameter(Measured.of(run, STUDY), SIZES[:1], JOINED)
    row = found.row(by_predicate=pl.col("bench") == "nio", named=True)
    assert row["ratio"] == pytest.approx(1.2, rel=0.01)
    assert not found["variant"].str.contains("A/A").any()


def test_processors_in_use_are_processor_time_over_wall_time(effect_run):
    run = load_run(effect_run)
    found = spawn_apis.processors_in_use(Measured.of(run, STUDY), DROPPED)
    assert set(found["bench"]) == {
        "tokio::Runtime",
        "async_std::task",
        "async_global_executor",
        "smol::Executor",
        "nio",
    }
    assert found["value"].to_list() == pytest.approx([BUSY] * 5, rel=0.01)


def test_a_run_without_processor_time_still_has_costs(runs):
    run = load_run(made(runs / "clock", rings(metrics={}), rounds=12))
    found = spawn_apis.compare(Measured.of(run, STUDY), spawn_apis.BOXES)
    assert found.height == sum(map(len, spawn_apis.BOXES.values())) and found["cpu_ns"].null_count() == found.height


def test_a_layer_that_failed_leaves_only_its_own_rows_out(runs):
    failed = {("TokioTp", "Spawn", DROPPED): 3}
    run = load_run(made(runs / "failed", rings(failed=failed), rounds=12))
    found = spawn_apis.compare(Measured.of(run, STUDY), spawn_apis.BOXES)
    assert found.height == sum(map(len, spawn_apis.BOXES.values())) - 1
    assert found.filter(bench="TokioTp")["variant"].to_list() == ["SpawnHandleOs"]


def test_what_is_chosen_runs_one_program_and_is_declared():
    declared = set(of_today().filter(study=STUDY).select(PAIR).rows())
    for chosen in (spawn_apis.BOXES, spawn_apis.HANDLES, spawn_apis.ALONE, *spawn_apis.PROGRAMS.values()):
        for load, rows in chosen.items():
            for one, other in rows:
                assert (*one, load, *other, load) in declared, (one, other, load)
                if chosen in (spawn_apis.BOXES, spawn_apis.HANDLES):
                    assert load == (DROPPED if {one[1], other[1]} & set(DETACHED) else JOINED), (one, other)


# -- the text follows the run --------------------------------------------------------------------------------


def test_the_answer_is_one_sentence_on_the_box(effect):
    assert effect.trusted
    assert re.match(
        r"Compared with the runtime's own function, spawning through a trait that boxes takes 6(\.\d)? % more time on one thread of tokio "
        r"and 16 % more time on its worker threads\.\n\n",
        effect.answer,
    )
    assert re.search(
        r"A box on one thread of tokio: `TokioCt LocalSpawn / native` adds (19|20|21)(\.\d+)? ns", effect.answer
    )
    assert re.search(
        r"`TokioTp SpawnHandle / native` adds (8|9)\d(\.\d)? ns .*in processor time it is (8|9)\d", effect.answer
    )
    assert "The document says of a box: about 1.50 ns." in effect.answer


def test_the_answer_turns_round_with_the_effect(reverse):
    assert reverse.trusted
    assert re.match(
        r"Compared with .* takes [\d.]+ % less time on one thread of tokio and [\d.]+ % less time on its",
        reverse.answer,
    )
    assert "`TokioCt LocalSpawn / native` saves" in reverse.answer
    assert re.search(r"\*\*Faster\*\* than the same without that box:[^.]*`TokioTp Spawn / native`", reverse.text)


def test_a_published_pair_of_two_programs_is_taken_apart(effect, reverse):
    changed = r"`TokioTp Spawn / native`: two programs, .* \(in the document 0\.731 times\); one program, .*"
    assert re.search(changed + r"changes from \*faster\* to \*slower\*", effect.text)
    assert re.search(changed + r"changes from \*slower\* to \*faster\*", reverse.text)
    assert "the clean comparison has another verdict on" in effect.answer


def test_every_claim_has_its_figure(effect):
    (table,) = (table for table in effect.tables if "R18" in table)
    for number in range(1, 19):
        assert f">R{number}<" in table
    assert "not measured" not in table, "made-up rings hold every published row that a claim is about"


def test_too_many_workers_are_called_that(effect):
    assert "`workers=4 oversubscribed` a spawn takes" in effect.text
    assert "`workers=1` a spawn takes" in effect.text


def test_a_discontinued_runtime_is_called_that():
    prose = "\n".join(cell.source for cell in read(ROOM).cells if cell.cell_type == "markdown")
    assert "async-std is discontinued" in prose


def test_allocations_are_counted_beside_the_native_spawn(effect):
    assert re.search(
        r"No more: `TokioCt LocalSpawnHandle, native abort` and `TokioTp SpawnHandle, native abort`\.", effect.text
    )
    assert re.search(r"Three more: [^.]*`TokioTp Spawn with remote_handle`", effect.text)


# -- without trust there is nothing to conclude --------------------------------------------------------------


def test_a_run_that_is_no_evidence_gives_numbers_without_verdicts(untrusted):
    assert not untrusted.trusted
    assert untrusted.answer.startswith("**This run is not evidence and concludes nothing.**")
    assert "no A/A control" in untrusted.trust
    assert not [word for word in VERDICTS if word in untrusted.text]
    assert not re.search(r"\*(slower|faster|same)\*", untrusted.text)
    assert not re.search(r" (adds|saves) ", untrusted.text)


def test_a_load_whose_control_fails_is_doubted_alone(runs):
    told = tell(ROOM, made(runs / "half", rings(twins={f"{THREADS}, {DROPPED}": 1.2})))
    assert not told.trusted, "the answer rests on it"
    assert f"**Nothing is concluded** from 1 of 14 groups of comparisons, `{THREADS}, {DROPPED}`, because" in told.trust
    assert re.match(r"Compared with .* takes [\d.]+ % more time on one thread of tokio\.\n", told.answer)
    assert "**Slower** than the runtime's own function" in told.text


def test_a_noisy_small_ring_does_not_spoil_the_answer(runs):
    told = tell(ROOM, made(runs / "small", rings(twins={f"{THREADS}, N=10": 1.2})))
    assert told.trusted and "**Nothing is concluded** from 1 of 14 groups" in told.trust


def test_a_quick_run_concludes_nothing(runs):
    told = tell(ROOM, made(runs / "quick", profile="quick", rounds=3))
    assert not told.trusted and "quick" in told.trust
    assert not [word for word in VERDICTS if word in told.text]


def test_a_run_without_rings_says_so_once(runs):
    told = tell(ROOM, make_run(runs / "absent", rounds=12, work=False))
    assert told.answer.strip() == "Spawning was **not measured** in this run."
    assert told.trusted and told.text.count("not measured") == 1


# -- boxes of all studies ------------------------------------------------------------------------------------


def test_boxes_of_spawns_are_read_with_all_other_boxes(effect_run):
    run = load_run(effect_run)
    studies = {pair.study: Measured.of(run, pair.study) for pair in boxing.PAIRS}
    found = boxing.compare(studies)
    assert set(found["study"]) == {STUDY} and found["clean"].all()
    first = found.row(by_predicate=(pl.col("one") == "LocalSpawn") & (pl.col("parameter") == DROPPED), named=True)
    assert first["added_ns"] == pytest.approx(20, abs=3), "for one spawn"
    assert first["verdict"] == "slower" and first["allocations"] == pytest.approx(1)


# -- charts --------------------------------------------------------------------------------------------------


def test_a_row_without_verdict_is_drawn_beside_rows_that_have_one():
    frame = pl.DataFrame({"variant": ["a", "b"], "ratio": [1.2, 1.1], "low": [1.1, 1.0], "high": [1.3, 1.2]})
    chart = charts.ratio_intervals(frame.with_columns(verdict=pl.Series(["slower", None])), description="Two rows.")
    svg = charts.static_svg(chart.to_dict(), charts.WIDE)
    assert "no evidence" in svg and svg.count(f'stroke="{charts.PURPLE}"') >= 2, "interval and estimate"


def test_ticks_are_not_rounded_to_one_another():
    frame = pl.DataFrame({"variant": ["a"], "ratio": [1.1], "low": [0.97], "high": [1.249]})
    svg = charts.static_svg(charts.ratio_intervals(frame, description="One row.").to_dict(), charts.WIDE)
    shown = [float(tick) for tick in re.findall(r">(1(?:\.\d+)?)</text>", svg)]
    assert {1.05, 1.15} <= set(shown)


# -- form ----------------------------------------------------------------------------------------------------


def test_charts_say_what_they_show(effect, reverse):
    assert len(effect.alts) == 9
    check_alts(effect)
    assert effect.alts[0] != reverse.alts[0]


def test_the_notebook_keeps_the_house_rules():
    check_form(read(ROOM))
