"""Many runs side by side: the honest ones say what each says alone, the others are set aside with a reason."""

from pathlib import Path

import pytest
from hostile_runs import hostile_copies
from made_up_runs import LADDER, OFF, REVERSED, change_record, copy_of, make_run

from async_cost.findings.operands import pair
from async_cost.machines.many import candidate_folders, read_many
from async_cost.runs.comparisons import HEADLINES
from async_cost.runs.find import find_runs, load_run
from async_cost.statistics.measured import Measured

SMALL = {"rounds": 4, "samples": 2}


@pytest.fixture(scope="module")
def honest(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("honest")
    make_run(root, machine="alpha", ladder=LADDER, rounds=60)
    make_run(root, machine="beta", rounds=60, seed=9, compress=True)
    make_run(root, REVERSED, machine="gamma", rounds=60, seed=10, failed=[("box", OFF)])
    return root


def test_many_runs_say_what_each_says_alone(honest):
    folders = find_runs(honest)
    together = read_many(folders)
    assert together.aside.is_empty() and together.runs.height == 3
    for folder in folders:
        run = load_run(folder)
        for study in run.info.studies:
            alone = Measured(run, study).comparisons
            ratios = together.ratios.filter(run=run.info.run_id, study=study)
            assert ratios.height == alone.height > 0
            for column in ("variant", "ratio", "low", "high", "verdict"):
                assert ratios[column].equals(alone[column]), column


def test_a_run_without_comparisons_stands_beside_the_others(tmp_path):
    make_run(tmp_path, machine="alpha", rounds=6)
    empty = make_run(tmp_path, machine="beta", rounds=6, seed=9)
    change_record(empty, {"studies.zero-cost.comparisons": []})
    many = read_many(find_runs(tmp_path))
    assert many.aside.is_empty() and many.ratios["machine"].unique().to_list() == ["alpha"]
    assert many.studies.filter(run=f"beta/{empty.name}").row(0)[2:4] == (False, "no comparisons")


# -- what cannot be used -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """Three honest runs among damaged ones: folder, kind of damage by run, and what was read."""
    root = tmp_path_factory.mktemp("crowd")
    for number, name in enumerate(("alpha", "beta", "gamma")):
        make_run(root, machine=name, seed=number, **SMALL)
    kinds = hostile_copies(root / "alpha" / "20260101T000000Z")
    honest_first = sorted(find_runs(root), key=lambda folder: folder.parent.name)
    return root, kinds, read_many(honest_first)


def test_every_damaged_run_is_set_aside_with_a_reason(crowd):
    root, kinds, together = crowd
    assert sorted(together.runs["machine"]) == ["alpha", "beta", "gamma"]
    reasons = dict(together.aside.rows())
    accepted = {run: kind for run, kind in kinds.items() if run not in reasons}
    assert not accepted, f"damaged and accepted all the same: {accepted}"
    for run, reason in reasons.items():
        assert run.split("/")[0] in reason and len(reason.split()) > 5, f"{kinds[run]}: {reason!r} helps nobody"
        assert reason.isprintable() and str(root) not in reason
        assert len(reason) < 500


def test_honest_runs_say_the_same_in_bad_company(crowd):
    root, _, together = crowd
    alone = read_many([root / name / "20260101T000000Z" for name in ("alpha", "beta", "gamma")])
    assert alone.ratios.equals(together.ratios)


def test_a_copy_under_another_name_is_no_second_witness(tmp_path):
    run = make_run(tmp_path, machine="first", rounds=10)
    copy = copy_of(run, "second")
    for order in ([run, copy], [copy, run]):
        together = read_many(order)
        assert together.runs["machine"].to_list() == ["first"], "the oldest is the original"
        assert "the same samples as run first/" in together.aside["reason"].item()


def test_a_run_cannot_speak_for_a_machine_of_another_processor(tmp_path):
    runs = [make_run(tmp_path, machine="first", seed=day, name=f"2026010{day}T000000Z", **SMALL) for day in (1, 2, 3)]
    change_record(runs[1], {"machine.cpu": "another"})
    together = read_many(runs[::-1])
    assert together.runs["run"].to_list() == ["first/20260103T000000Z", "first/20260101T000000Z"]
    assert "is from another processor" in together.aside["reason"].item()


def test_one_id_in_two_places_counts_once(tmp_path):
    first, second = (make_run(tmp_path / place, machine="m", seed=seed, rounds=10) for seed, place in enumerate("ab"))
    together = read_many([first, second])
    assert together.runs.height == 1
    assert "another folder holds a run of the same id" in together.aside["reason"].item()


# -- which runs ----------------------------------------------------------------------------------------------------


def test_all_runs_and_the_one_of_the_report_are_chosen_once(tmp_path, monkeypatch):
    inside, outside = make_run(tmp_path / "runs", **SMALL), make_run(tmp_path / "else", machine="other", **SMALL)
    monkeypatch.setenv("ASYNC_COST_RUNS", str(tmp_path / "runs"))
    monkeypatch.setenv("ASYNC_COST_RUN", str(outside))
    assert candidate_folders() == [outside, inside]
    monkeypatch.setenv("ASYNC_COST_RUN", str(inside))
    assert candidate_folders() == [inside]
    monkeypatch.setenv("ASYNC_COST_COMPARE", f"{outside}:{inside}:{outside}")
    assert candidate_folders() == [outside, inside]


def test_headlines_are_of_pairs_that_are_compared():
    """A name that no study measures would be a line that never appears."""
    for headline in HEADLINES:
        assert pair(*headline)
