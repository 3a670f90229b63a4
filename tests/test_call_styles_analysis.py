"""The analysis of call styles finds the truth of made-up runs, and its advice reverses with it."""

import re
from dataclasses import replace

import pytest
from told import VERDICTS, Told, check_alts, check_form, read, tell

from async_cost.runs.comparisons import BASE_KEY, KEY, of_today
from async_cost.runs.run import load_run
from async_cost.statistics.measured import Measured
from async_cost.studies import call_styles
from async_cost.studies.call_styles import (
    BATCH,
    CALL,
    CELLS,
    DETACHED,
    FIBERS,
    FORGET,
    FRONTIER,
    INVOKE,
    LOOP,
    NONBLOCK,
    OTHERS,
    PLAIN,
    READABLE,
    STUDY,
    STYLES,
    WAIT,
    YIELD,
    Agreement,
    waiting,
)
from async_cost.testing.made_up_runs import Study, make_run

ROOM = "call-styles"
#: Nanoseconds of one call by each style on the translated loop, when the callee does not wait and when it waits: as the
#: document has it.
EMPTY = {CALL: 11.0, NONBLOCK: 10.0, DETACHED: 24.0, FORGET: 16.0}
WAITING = {CALL: 100.0, NONBLOCK: 60.0, DETACHED: 60.0, FORGET: 50.0}
#: A style that is reversed costs what another one does.
REVERSED = {CALL: FORGET, NONBLOCK: DETACHED, DETACHED: NONBLOCK, FORGET: CALL}
#: How much longer variants take.
FACTORS = {
    LOOP: 1.0,
    FIBERS: 2.0,
    call_styles.DIRECT: 0.8,
    call_styles.INLINE: 0.3,
    FRONTIER: 0.1,
    call_styles.STACKS: 50.0,
}
#: Nanoseconds of one wait of the root.
ROOT = {WAIT: 40.0, READABLE: 900.0, call_styles.WRITABLE: 900.0}
#: What call-styles declares.
DECLARED = of_today().filter(study="call-styles")
LIMITS = {"calls": 0.03, "waits": 0.05, "readiness": 0.05, "waiting calls": 0.03}
CONTROLLED = (INVOKE[CALL], WAIT, READABLE, waiting(NONBLOCK))


def keys() -> set[call_styles.Key]:
    """All that the study measures and compares, but for one that this made-up run lacks."""
    found = set(DECLARED.select(KEY).rows()) | set(DECLARED.select(BASE_KEY).rows())
    return found - {(waiting(NONBLOCK), FRONTIER, YIELD)}


def group(bench: str) -> str:
    """As the measuring program has it."""
    if bench == WAIT:
        return "waits"
    if bench.startswith("wait_methods"):
        return "readiness"
    return "waiting calls" if "/waiting " in bench else "calls"


def cost(key: call_styles.Key, turned: bool) -> float:
    """Nanoseconds of one call."""
    bench, variant, parameter = key
    factor = (
        FACTORS.get(variant, 1.2) * (1.3 if "pending" in parameter else 1.0) * (9.0 if "waits=10" in parameter else 1.0)
    )
    if bench == PLAIN:
        return 2.0
    if bench in ROOT:
        return ROOT[bench] * factor
    style = next(style for style in STYLES if bench.endswith((f".{style}", f"/{style}", f" {style}")))
    of_style = WAITING if "/waiting " in bench else EMPTY
    return of_style[REVERSED[style] if turned else style] * factor


def styles(turned: bool = False, twins: dict[str, float] | None = None, **options) -> Study:
    """A made-up study; `twins` are the true ratios of the controls by group, 1 where they are honest."""
    times, counts, comparisons = {}, {}, []
    known = keys()
    for key in sorted(known):
        bench, variant, parameter = key
        units = int(re.match(r"batch=(\d+)", parameter)[1])
        times[key] = cost(key, turned) * units
        counts[key] = {"units": units, "executions": units, "switches": 2 * units, "system_calls": 0, "clock_reads": 0}
        bases = [(bench, LOOP, parameter), (bench, LOOP, BATCH), (INVOKE[CALL], LOOP, BATCH)]
        base = next((base for base in bases if base in known and base != key), None)
        controlled = bench in CONTROLLED and (variant, parameter) == (LOOP, BATCH)
        if controlled:
            twin = (bench, f"{variant} (A/A)", parameter)
            times[twin], counts[twin] = times[key] * (twins or {}).get(group(bench), 1), counts[key]
            comparisons.append((twin, key, group(bench)))
        elif base:
            comparisons.append((key, base, group(bench)))
    made = {"times": times, "counts": counts, "comparisons": comparisons, "groups": LIMITS}
    return Study(**{**made, "controls": [f"{LOOP} (A/A)"], **options})


def made(root, study: Study | None = None, **options):
    """A made-up run of call styles alone."""
    settings = {"rounds": 40, "samples": 2, "noise": 0.004, "seed": 7} | options
    return make_run(root, None, others={STUDY: study or styles()}, **settings)


@pytest.fixture(scope="module")
def published_run(runs):
    return made(runs / "published")


@pytest.fixture(scope="module")
def published(published_run) -> Told:
    return tell(ROOM, published_run)


@pytest.fixture(scope="module")
def turned(runs) -> Told:
    return tell(ROOM, made(runs / "turned", styles(turned=True)))


@pytest.fixture(scope="module")
def untrusted(runs) -> Told:
    return tell(ROOM, made(runs / "untrusted", replace(styles(), controls=())))


# -- advice --------------------------------------------------------------------------------------------------


def advice(folder, variant: str = LOOP, parameter: str = BATCH) -> list[call_styles.Advice]:
    run = load_run(folder)
    measured = Measured.of(run, STUDY)
    return [call_styles.advise(measured, variant, cell, parameter) for cell in CELLS]


def test_advice_names_the_cheapest_style_and_all_that_are_not_told_from_it(published_run):
    found = advice(published_run)
    assert [one.best for one in found] == [(NONBLOCK, DETACHED), (FORGET,), (NONBLOCK,), (NONBLOCK,)]
    assert [one.agreement for one in found] == [Agreement.AGREES] * 4
    assert [one.ns for one in found] == pytest.approx([60, 50, 10, 10], rel=0.01)


def test_advice_turns_round_with_the_costs(runs):
    found = advice(made(runs / "turned-only", styles(turned=True)))
    assert found[0].best == (CALL,), "of those that give a result; it costs what forgetting did"
    assert found[0].agreement is Agreement.DISAGREES and found[1].agreement is Agreement.DISAGREES
    assert found[3].best == (DETACHED,) and found[3].agreement is Agreement.DISAGREES


def test_one_of_two_advised_styles_is_agreement_in_part(runs):
    study = styles()
    study.times[waiting(DETACHED), LOOP, BATCH] *= 1.2
    assert advice(made(runs / "part", study, rounds=20))[0].agreement is Agreement.IN_PART


def test_without_trust_there_is_a_cheapest_style_and_no_agreement(runs):
    found = advice(made(runs / "doubted", styles(twins={"calls": 1.1}), rounds=20))
    assert [one.agreement for one in found] == [Agreement.AGREES] * 2 + [None] * 2
    assert found[2].best == (NONBLOCK,)


def test_an_executor_without_a_style_has_advice_on_the_others(published_run):
    found = advice(published_run, FRONTIER, YIELD)
    assert found[0].best == (DETACHED,) and found[0].agreement is Agreement.AGREES
    assert {one.variant for one in found} == {FRONTIER}
    assert advice(published_run, "nobody") == [None] * 4


def test_the_turning_point_is_where_both_mixtures_cost_the_same(published_run):
    run = load_run(published_run)
    found = call_styles.turning_point(Measured.of(run, STUDY), LOOP)
    assert found["share"] == pytest.approx(6 / 16, abs=0.01) and found["low"] < found["share"] < found["high"]


def test_there_is_no_turning_point_where_one_style_always_wins(runs):
    study = styles()
    study.times[waiting(FORGET), LOOP, BATCH] *= 2
    run = load_run(made(runs / "always", study, rounds=12))
    assert call_styles.turning_point(Measured.of(run, STUDY), LOOP) is None


# -- costs ---------------------------------------------------------------------------------------------------


def test_every_step_is_found_with_its_cost_for_one_call(published_run):
    run = load_run(published_run)
    found = call_styles.stackful(Measured.of(run, STUDY))
    assert found["label"].to_list()[0] == f"{CALL}\n{FIBERS}" and found.height == 2 * len(STYLES)
    first = found.row(0, named=True)
    assert first["ratio"] == pytest.approx(2 / 0.8, rel=0.01) and first["verdict"] == "slower"
    assert first["added_ns"] == pytest.approx(11 * 1.2, rel=0.03)


def test_every_section_shows_what_the_study_declares(published_run):
    measured = Measured.of(load_run(published_run), STUDY)
    sections = ("stackful", "slots", "handles", "wakers", "queues", "selectors", "kinds", "elsewhere")
    found = {name: getattr(call_styles, name)(measured) for name in sections}
    heights = {name: rows.height for name, rows in found.items()}
    expected = {"stackful": 8, "slots": 14, "handles": 2, "wakers": 12, "queues": 12, "selectors": 6, "kinds": 9}
    assert heights == expected | {"elsewhere": 37}, "one of 38 was not measured"
    for name, rows in found.items():
        assert not rows["label"].is_duplicated().any() and (rows["change"] != "").all(), name


def test_published_ratios_stand_beside_those_of_the_run(published_run):
    run = load_run(published_run)
    found = call_styles.beside_published(Measured.of(run, STUDY), [PLAIN, INVOKE[FORGET]], INVOKE[CALL])
    ruby = found.filter(label=INVOKE[FORGET].partition("/")[2], unit="ruby 2.4.1, published").row(0, named=True)
    assert ruby["ratio"] == pytest.approx((1.0001 / 721_800) / (1.0000 / 734_000))
    futures = found.filter(label=PLAIN.partition("/")[2], unit="futures, this run").row(0, named=True)
    assert futures["ratio"] == pytest.approx(2 / 11, rel=0.01)


def test_batches_of_other_sizes_are_compared_for_one_call(published_run):
    run = load_run(published_run)
    found = call_styles.beside_batch(Measured.of(run, STUDY), ["batch=1"]).filter(variant=LOOP)
    assert found["ratio"].to_list() == pytest.approx([1.0] * found.height, abs=0.01) and found.height == 8


# -- the text follows the run --------------------------------------------------------------------------------


def test_the_answer_counts_the_cells_that_hold(published, turned):
    assert published.trusted and turned.trusted
    assert published.answer.startswith("The published advice on call styles holds in four of four cases")
    assert re.match(r"The published advice on call styles holds in (no|one|two) of four cases", turned.answer)
    assert "(*disagrees*)" in turned.answer and "(*disagrees*)" not in published.answer


def test_the_answer_says_what_each_form_of_a_call_costs(published):
    assert re.search(r"A boxed future in a pooled slot of the event loop: (10\.9|11)\S* ns", published.answer)
    assert re.search(r"A pooled fiber: 2[12](\.\d+)? ns", published.answer)
    assert re.search(r"A pooled fiber, when it waits once: (199|20\d)(\.\d+)? ns", published.answer)


def test_every_claim_has_its_figure_or_no_counterpart(published):
    (table,) = (table for table in published.tables if "C23" in table)
    for number in range(1, 24):
        assert f">C{number}<" in table
    assert table.count("not measured") == 8, (
        "the claims on one interpreter compared with the other, or on something that only mruby does"
    )
    assert (
        "`C7`, `C8`, `C9`, `C10`, `C11`, `C14`, `C15` and `C21`, for there is no counterpart here to a program in another language"
        in published.text
    )


def test_all_executors_have_their_own_advice(published):
    (table,) = (table for table in published.tables if "tokio, yielding" in table)
    for name in (*OTHERS, FRONTIER):
        assert f"{name}, yielding" in table


# -- without trust there is nothing to conclude --------------------------------------------------------------


def test_a_run_that_is_no_evidence_gives_numbers_without_verdicts(untrusted):
    assert not untrusted.trusted
    assert untrusted.answer.startswith("**This run is not evidence and concludes nothing.**")
    assert not [word for word in VERDICTS if word in untrusted.text]
    assert not re.search(r"\*(agrees|disagrees)[ *]", untrusted.text)


def test_a_quick_run_concludes_nothing(runs):
    told = tell(ROOM, made(runs / "quick", profile="quick", rounds=3))
    assert not told.trusted and "quick" in told.trust
    assert not [word for word in VERDICTS if word in told.text]


def test_a_run_without_call_styles_says_so_once(runs):
    told = tell(ROOM, make_run(runs / "absent", rounds=12, work=False))
    assert told.answer.strip() == "Call styles were **not measured** in this run."
    assert told.trusted and told.text.count("not measured") == 1


# -- form ----------------------------------------------------------------------------------------------------


def test_charts_say_what_they_show(published, untrusted):
    check_alts(published)
    check_alts(untrusted)


def test_the_notebook_is_in_form():
    check_form(read(ROOM))
