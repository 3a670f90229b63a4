"""The analysis of hardware says what holds on others, with one machine, with several, and in bad company."""

import re
from pathlib import Path

import polars as pl
import pytest
from hostile_runs import hostile_copies
from told import Told, check_alts, check_form, read, tell

from async_cost.machines import hardware
from async_cost.machines.many import read_many
from async_cost.machines.summary import FINDING, NAME
from async_cost.runs.comparisons import of_today
from async_cost.runs.run import find_runs
from async_cost.testing.made_up_runs import LADDER, OFF, ON, SOCKETS, ZERO_COST, make_run, reversed_truth

ROOM = "hardware"
QUIET = {"rounds": 60, "noise": 0.005, "work": False}
SOURCES = {"git": {"revision": "0" * 40, "clean": True}}
LATER = {"started": "2026-01-02T00:00:00Z", "ended": "2026-01-02T00:30:00Z"}


def told_of(root: Path, monkeypatch, *runs: Path, report: Path | None = None) -> Told:
    """What the notebook says with the runs below `root` in place of data/runs, in the report of one of them; or of
    `runs`, named as a pair is.
    """
    monkeypatch.setenv("ASYNC_COST_RUNS", str(root))
    monkeypatch.setenv("ASYNC_COST_REPORTS", str(root / ".reports"))  # where what is made of a run is kept
    if runs:
        monkeypatch.setenv("ASYNC_COST_COMPARE", ":".join(map(str, runs)))
    return tell(ROOM, report or find_runs(root)[0])


def test_one_machine_cannot_say_what_holds_on_others(tmp_path, monkeypatch):
    make_run(tmp_path, ladder=LADDER, sockets=SOCKETS, **QUIET)
    told = told_of(tmp_path, monkeypatch)
    assert told.trusted
    assert told.answer.startswith("**Only one machine is evidence here, and one cannot say what holds on others.**")
    assert "Async / published loop: measured on one machine, 3.6" in told.text
    assert "No machine was measured twice with one compiler." in told.text
    assert "Nothing: every folder under data/runs could be used." in told.text
    check_alts(told)


def declared() -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """The comparisons of zero-cost between variants (variant, parameter) of which a made-up run knows the truth."""
    known = set(ZERO_COST) | {("manual", OFF), ("manual", ON)}
    rows = of_today().filter(study="zero-cost").select("variant", "parameter", "baseline_variant", "baseline_parameter")
    return [(row[:2], row[2:]) for row in rows.iter_rows() if row[:2] in known and row[2:] in known]


def word(truth: dict, one: tuple[str, str], other: tuple[str, str]) -> str:
    """What a quiet run says of two variants."""
    ratio = truth.get(one, 1.0) / truth.get(other, 1.0)
    if abs(abs(ratio - 1) - 0.01) < 0.005:  # too near to the border to say
        return "undecided"
    return "slower" if ratio > 1.01 else "faster" if ratio < 0.99 else "same"


def test_which_findings_are_consistent(tmp_path, monkeypatch):
    make_run(tmp_path, machine="alpha", seed=1, **QUIET)
    other = ZERO_COST | {("nonbox", ON): 0.9, ("box", ON): 1.0}
    make_run(tmp_path, other, machine="beta", seed=2, **QUIET)
    told = told_of(tmp_path, monkeypatch)
    words = [(word(ZERO_COST, *sides), word(other, *sides)) for sides in declared()]
    alike, open_ones = (
        sum(some) for some in zip(*((one == two, "undecided" in (one, two)) for one, two in words), strict=True)
    )
    shared, consistent = map(
        int, re.match(r"\*\*Of (\d+) findings shared by 2 machines, (\d+) are consistent\*\*", told.answer).groups()
    )
    assert shared == len(words) and alike - open_ones <= consistent <= alike
    turned, changed = (
        re.search(rf"{head}: (.*)", told.answer)[1] for head in ("on another", "with different verdicts")
    )
    assert "`nonbox / manual (syscalls=on)`" in turned and "`box / manual (syscalls=on)`" in changed
    assert re.search(r"Async / published loop: \*\*slower\*\* everywhere, 3\.\d+ to 3\.\d+ times the time", told.text)
    assert "Async / loop, with system calls: **reverses**, 1 machine slower and 1 machine faster" in told.text


def test_reversed_machines_say_the_reverse(tmp_path, monkeypatch):
    for seed, name in enumerate(("alpha", "beta")):
        make_run(tmp_path, reversed_truth(), machine=name, seed=seed, **QUIET)
    told = told_of(tmp_path, monkeypatch)
    assert "Async / published loop: **faster** everywhere" in told.text and "**slower**" not in told.text


def test_a_newer_run_and_a_newer_compiler_are_set_against_the_older(tmp_path, monkeypatch):
    make_run(tmp_path, machine="alpha", seed=1, **QUIET)
    make_run(tmp_path, machine="alpha", seed=2, name="20260102T000000Z", changes=LATER, **QUIET)
    make_run(tmp_path, machine="beta", seed=3, changes={"toolchain.rustc": "rustc 1.90.0", **SOURCES}, **QUIET)
    faster = ZERO_COST | {("callerbox", OFF): 2.0}
    make_run(tmp_path, faster, machine="beta", seed=4, name="20260102T000000Z", changes=LATER | SOURCES, **QUIET)
    other = SOURCES | {"toolchain.rustc": "rustc 1.90.0"}
    make_run(tmp_path, machine="gamma", seed=5, changes=other, **QUIET)
    make_run(tmp_path, faster, machine="gamma", seed=6, name="20260102T000000Z", changes=LATER, **QUIET)
    told = told_of(tmp_path, monkeypatch)
    assert "from `gamma/20260101T000000Z`" not in told.text, "of other sources, or of unknown ones"
    same = re.search(r"`alpha`, from `alpha/20260101T000000Z` to `alpha/20260102T000000Z`: .*", told.text)[0]
    assert "moved beyond the noise" not in same
    newer = re.search(r"`beta`, from `beta/20260101T000000Z` to `beta/20260102T000000Z`: .*", told.text)[0]
    moved = re.findall(r"`[^`]+ / [^`]+`", newer.partition("moved beyond the noise: ")[2])
    assert "`callerbox / manual (syscalls=off)`" in moved and all("callerbox" in pair for pair in moved)
    check_alts(told)


def test_two_named_runs_stand_for_themselves(tmp_path, monkeypatch):
    one = make_run(tmp_path, machine="alpha", seed=1, **QUIET)
    make_run(tmp_path, machine="ignored", seed=3, **QUIET)
    two = make_run(
        tmp_path,
        ZERO_COST | {("box", OFF): 0.5},
        machine="alpha",
        seed=2,
        name="20260102T000000Z",
        changes=LATER,
        **QUIET,
    )
    told = told_of(tmp_path, monkeypatch, one, two)
    assert "shared by 2 runs" in told.answer and "ignored" not in told.text
    assert "slower on one run and faster on another: `box / manual (syscalls=off)`" in told.answer


def test_only_evidence_votes(tmp_path, monkeypatch):
    make_run(tmp_path, machine="hasty", profile="quick", **QUIET)
    make_run(tmp_path, machine="shaky", seed=2, controls={OFF: 1.05, ON: 1.0}, **QUIET)
    told = told_of(tmp_path, monkeypatch)
    assert not told.trusted
    assert told.answer == "**No machine here is evidence yet, so nothing can be said about others.**"
    assert "quick profile" in told.text and "differs from its twin" in told.text
    assert not re.search(r"\*\*(slower|faster|the same)\*\*", told.text)


def test_a_machine_speaks_by_its_newest_evidence(tmp_path):
    make_run(tmp_path, machine="m", seed=1, **QUIET)
    make_run(tmp_path, machine="m", seed=2, name="20260102T000000Z", changes=LATER, **QUIET)
    make_run(tmp_path, machine="m", seed=3, name="20260103T000000Z", profile="quick", changes=LATER, **QUIET)
    chosen = hardware.one_of_each(read_many(find_runs(tmp_path)))
    assert chosen["run"].unique().to_list() == ["m/20260102T000000Z"]


def test_hundreds_of_machines_fit_on_the_page(tmp_path, monkeypatch):
    for number in range(200):
        make_run(tmp_path, machine=f"m-{number}", seed=number, rounds=12, samples=2, noise=0.002, work=False)
    told = told_of(tmp_path, monkeypatch)
    assert re.match(r"\*\*Of \d+ findings shared by \d{3} machines", told.answer)


def test_hostile_runs_are_named_and_the_rest_goes_on(tmp_path, monkeypatch):
    honest = make_run(tmp_path, machine="alpha", seed=1, **QUIET)
    kinds = hostile_copies(honest, tmp_path, 60, seed=5)
    told = told_of(tmp_path, monkeypatch, report=honest)
    assert told.answer.startswith("**Only one machine is evidence here")
    assert f"{len(kinds)} folders could not be used" in told.answer
    for run in kinds:
        assert f"- `{run}`: " in told.text


def test_the_change_between_two_runs_has_an_honest_interval(tmp_path):
    """Of two runs of one truth, some 95 % of the intervals hold 1."""
    held = []
    for seed in range(6):
        for day in (1, 2):
            name = f"2026010{day}T000000Z"
            make_run(tmp_path, machine=f"m-{seed}", seed=100 * seed + day, name=name, noise=0.01, rounds=60, work=False)
        runs = read_many(find_runs(tmp_path)).ratios.filter(machine=f"m-{seed}")
        change = hardware.change(runs, f"m-{seed}/20260101T000000Z", f"m-{seed}/20260102T000000Z")
        held += ((change["low"] <= 1) & (change["high"] >= 1)).to_list()
    assert 0.88 <= sum(held) / len(held) <= 0.995


def test_the_notebook_keeps_the_house_rules():
    check_form(read(ROOM))


@pytest.fixture(autouse=True)
def no_pair(monkeypatch):
    monkeypatch.delenv("ASYNC_COST_COMPARE", raising=False)


def test_a_repetition_is_told_study_by_study():
    rows = [
        ("a", "one", 2.0, 1.9, 2.1, "slower"),
        ("a", "two", 1.0, 0.99, 1.01, "same"),
        ("b", "one", 0.5, 0.49, 0.51, "faster"),
        ("b", "two", 1.01, 1.0, 1.02, "undecided"),
    ]
    numbers = ("ratio", "low", "high", "verdict")
    names = {"machine": "m", "study": "s", "bench": "b", "other": "loop", "parameter": ""}
    ratios = pl.DataFrame(
        [
            {**names, "run": run, "variant": variant, **dict(zip(numbers, more, strict=True))}
            for run, variant, *more in rows
        ]
    )
    ratios = ratios.cast({name: NAME for name in ("run", *FINDING)})
    found = hardware.by_study(hardware.change(ratios, "a", "b")).row(0, named=True)
    assert found["findings"] == 2 and found["agree"] == 0.5
    assert found["most"] > found["half"] > 0.01
    assert hardware.reversed_between(ratios, "a", "b")["variant"].to_list() == ["one"]
