"""The page on trust says of each study whether it may be believed, and of a machine what was done to it."""

import re

import polars as pl
import pytest
from test_measuring import estimated, pairs, record, repeated, trials, twins
from told import VERDICTS, Told, check_alts, check_form, read, tell

from async_cost.experiments import measure as experiments
from async_cost.testing.made_up_runs import LADDER, OFF, ON, SOCKETS, Study, make_run

ROOM = "trust"


@pytest.fixture(scope="module")
def honest(runs) -> Told:
    run = make_run(runs / "honest", ladder=LADDER, sockets=SOCKETS, seed=5, rounds=60, noise=0.005, work=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASYNC_COST_EXPERIMENTS", "none")
        return tell(ROOM, run)


@pytest.fixture(scope="module")
def troubled(runs) -> Told:
    """A machine that slows down to a half and recovers, is robbed by others, and has one control that fails."""
    changes = {
        "studies.zero-cost-sockets.steal_after_ms": 120_000,
        "studies.zero-cost.load_before": [3.0, 3.0, 3.0],
        "studies.zero-cost.resumed": 1,
    }
    controls = {OFF: 1.05, ON: 1.0}
    return tell(
        ROOM,
        make_run(
            runs / "troubled", sockets=SOCKETS, rounds=60, noise=0.005, drift=2.0, controls=controls, changes=changes
        ),
    )


def test_every_study_has_its_verdict_first(honest):
    assert honest.trusted
    assert honest.answer.startswith("All three studies of this run may be believed.")
    for study in ("zero-cost", "ladder", "zero-cost-sockets"):
        assert f"- `{study}` **may be believed**: its two controls lie within 0." in honest.answer


def test_a_study_that_fails_is_named_with_its_reason_and_the_others_stay(troubled):
    assert not troubled.trusted
    assert troubled.answer.startswith("**Not all of this run is evidence**: nothing is concluded from `zero-cost`.")
    assert "- `zero-cost` is **not evidence** and concludes nothing" in troubled.answer
    assert "- `zero-cost-sockets` **may be believed**" in troubled.answer
    assert "differs from its twin" in troubled.trust and "sockets" not in troubled.trust


def test_a_quick_run_concludes_nothing(runs):
    told = tell(ROOM, make_run(runs / "quick", rounds=2, work=False, profile="quick"))
    assert not told.trusted
    assert told.answer.startswith("**This run is not evidence and concludes nothing.**")
    assert "the profile is quick" in told.trust
    assert "none is shown to matter" in told.text and "No chart: there are too few rounds to tell." in told.text


def test_a_study_of_runtimes_is_told_group_by_group(runs):
    lone, crowd = (
        (("one thread", name, "") for name in ("tokio", "tokio (A/A)")),
        (("threads", name, "") for name in ("tokio", "tokio (A/A)")),
    )
    (base, twin), (bases, twins) = lone, crowd
    broken = ("threads", "nio", "")
    runtimes = Study(
        times={base: 1e5, twin: 1e5, bases: 4e5, twins: 4e5, broken: 3e5},
        comparisons=[(twin, base, ""), (twins, bases, "threads"), (broken, bases, "threads")],
        groups={"": 0.01, "threads": 0.05},
        controls=["tokio (A/A)"],
        failed={broken: 7},
        metrics={base: {"involuntary_switches": 0.01}},
    )
    told = tell(ROOM, make_run(runs / "runtimes", None, others={"runtimes": runtimes}, rounds=60, noise=0.004))
    assert told.answer.startswith("The one study of this run may be believed.")
    assert re.search(
        r"within 0\.\d+ % of equality and within 0\.\d+ % of equality \(`threads`\); identical code differs by",
        told.answer,
    )
    assert "Something failed in `runtimes`; the other variants went on." in told.text
    check_alts(told)


def test_the_page_gives_no_verdict_on_variants(honest, troubled):
    for told in (honest, troubled):
        assert not [word for word in VERDICTS if word in told.text]


def test_drift_is_measured_and_so_is_what_it_does_to_a_sequential_reading(honest, troubled):
    assert re.search(r"`zero-cost`: the slowest round took [12] % more time than the fastest", honest.text)
    times = re.search(r"`zero-cost`: the slowest round took ([\d.]+) times as long as the fastest", troubled.text)[1]
    assert 1.8 < float(times) < 2.2
    wrong = r"`zero-cost`: typically wrong by [\d.]+ % instead of [\d.]+ %, ([\d.]+) times as much"
    assert float(re.search(wrong, honest.text)[1]) < 2.5
    assert float(re.search(wrong, troubled.text)[1]) > 20


def test_disturbances_on_record_are_told(honest, troubled):
    assert "Nobody is known to have taken 1 % of the time from any study." in honest.text
    assert "Others took 1 % of the time or more from `zero-cost-sockets`." in troubled.text
    assert "How much was taken from `zero-cost` is not known." in troubled.text
    assert "The machine was not idle before the run: load 3.00." in troubled.text
    assert "resumed once" in troubled.text


def test_order_and_course_are_quiet_in_an_honest_run(honest):
    for study in ("zero-cost", "ladder", "zero-cost-sockets"):
        for found in (r"place[s]?, none is shown to matter", r"ratios, none is shown to have moved"):
            assert re.search(rf"`{study}`: of \d+ {found}", honest.text)


def test_a_repetition_is_told_with_how_far_it_agrees(tmp_path, monkeypatch, honest):
    made = [
        make_run(tmp_path, name=name, seed=seed, rounds=40, noise=0.005, work=False)
        for name, seed in (("20260101T000000Z", 1), ("20260102T000000Z", 2))
    ]
    monkeypatch.setenv("ASYNC_COST_EXPERIMENTS", "none")
    monkeypatch.setenv("ASYNC_COST_RUNS", str(tmp_path))
    told = tell(ROOM, made[1])
    assert "`made-up/20260101T000000Z` was repeated as `made-up/20260102T000000Z`" in told.text
    assert re.search(r"They agree in \d+ %; if nothing but chance differed, it would be about 95 %", told.text)
    assert "There is no second run of this machine" in honest.text


def test_experiments_that_were_not_made_are_said_to_be_missing(honest):
    assert honest.text.count("It was **not measured**; `make experiments` does that.") == 6


def test_experiments_of_another_machine_are_called_that(runs):
    told = tell(ROOM, make_run(runs / "elsewhere", rounds=20, work=False))
    assert "**another machine than that of this run**" in told.text, "the committed experiments are of a real machine"


def test_experiments_are_told_with_what_they_found(runs):
    debug = {"manual": 2.4, "nonbox": 2.0, "box": 2.0}
    parts = [
        repeated(),
        *(part for n in range(3) for part in (twins("short trials", n), estimated("Criterion", n, 1.25))),
        *(trials("layout", f"order {n}", 0, factor={"box": 1.05} if n else None, seed=n) for n in range(2)),
        trials("kernel", "native", 0),
        trials("kernel", "notebook", 0, seed=1),
        trials("kernel", "debug notebook", 0, seed=2, factor=debug),
    ]
    more = {
        "toolchain": {"rustc": "rustc <b>1</b>"},
        "git": None,
        "comparisons": pairs().to_dicts(),
        "skipped": {"tango-bench": "no network"},
        "codegen": {"kernel debug notebook": {"opt_level": "0"}},
    }
    folder = experiments.write(record(**more), pl.concat(parts), runs / "experiments")
    run = make_run(runs / "tried", rounds=20, work=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASYNC_COST_EXPERIMENTS", str(folder))
        told = tell(ROOM, run)
    assert re.search(
        r"- `zero-cost`, 20 runs: from one to another identical code departs by 0\.\d+ % .* of 570 cases .*: \*\*they hold\*\*.*; dealt out, in \d+\.\d % ",
        told.text,
    )
    assert re.search(
        r"`zero-cost`, limit 1 %, 40 cases of each effect: .* 5 % more time is called slower in 100 % of cases; 20 %",
        told.text,
    )
    assert "the judge is wrong in 0 % of the cases of `zero-cost`" in told.text
    assert re.search(
        r"Criterion, one after the other: off by 25 % in the middle, .* \d+ times as much as with short trials",
        told.text,
    )
    assert "tango-bench was left out. The last attempt said: no network" in told.text
    assert "Of 2 ratios in the notebook, none is shown to differ from the native one." in told.text
    assert re.search(r"In the debug build, `manual` takes 2\.\d+ times as long as natively\.", told.text)
    assert "Of 2 ratios in the debug build, two are shown to differ" in told.text
    assert "opt level: 0" in told.text
    assert re.search(
        r"moves by up to (4\.\d|5\.\d) % \(`box`, .* the orders differ beyond their intervals for `box`", told.text
    )
    assert "<b>" not in told.text and "not measured" not in told.text
    assert len(told.alts) == 9


def test_charts_say_what_they_show(honest, troubled):
    assert len(honest.alts) == 5
    check_alts(honest)
    assert honest.alts[1] != troubled.alts[1]


def test_the_notebook_keeps_the_house_rules():
    check_form(read(ROOM))
