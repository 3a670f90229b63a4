"""Sittings of a series are read as one run, wherever runs are read; what does not belong together is refused."""

import shutil
from pathlib import Path

import pytest
from made_up_runs import OFF, change_record, make_run, make_series
from refusal import refused

from async_cost.errors import DataError
from async_cost.machines.many import read_many
from async_cost.report.records import covers, next_build, remarks
from async_cost.runs.find import find_runs, load_run, reference, reference_run
from async_cost.runs.run import open_sitting
from async_cost.statistics import table
from async_cost.workflow.contribute import contribute

STUDY = "zero-cost"
HOW = {"truth": {("nonbox", OFF): 3.0, ("box", OFF): 3.3}, "controls": {OFF: 1.0}}
HOW |= {"rounds": 24, "episodes": 6, "between": 0.01, "hour": 0.02}


def made(folder: Path, sittings: int = 3, **how) -> list[Path]:
    return make_series(folder, sittings, **HOW | how)


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> list[Path]:
    return made(tmp_path_factory.mktemp("series"))


def test_whichever_run_is_named_the_series_is_opened(three):
    alone = [open_sitting(folder).checked() for folder in three]
    for named in three:
        run = load_run(named)
        assert run.path.resolve() == three[0].resolve() and len(run.sittings) == 3
        assert (run.study(STUDY).rounds, len(run.study(STUDY).episodes)) == (72, 18)
        time = run.time(STUDY)
        assert time.height == sum(sitting.time(STUDY).height for sitting in alone)
        assert time.select("sitting", "round").n_unique() == time["round"].n_unique() == 72
        assert time.select("sitting", "episode").n_unique() == time["episode"].n_unique() == 18
    assert run.info.ended == alone[-1].info.ended and run.comparisons(STUDY).equals(alone[0].comparisons(STUDY))


def test_the_table_covers_hours_that_one_sitting_does_not_know(three, tmp_path):
    shown = table.make(load_run(three[0])).frame.filter(variant="nonbox", baseline_variant="manual").row(0, named=True)
    assert (shown["sittings"], shown["episodes"], shown["rounds"]) == (3, 18, 72)
    assert shown["omega2"] > 0 and shown["next_low"] < shown["low"] < 3 < shown["high"] < shown["next_high"]
    alone = make_run(tmp_path, **HOW, drawn=True)
    only = table.make(load_run(alone)).frame
    assert only["omega2"].null_count() == only["next_low"].null_count() == only.height
    average = "for the average link order and hour on this machine: a single build may lie further off"
    assert covers(load_run(three[0])) == average
    assert covers(load_run(alone)).endswith("so may another hour") and not next_build(load_run(alone), STUDY)
    assert "built and measured anew, 95 %" in next_build(load_run(three[0]), STUDY)
    assert "neither another build nor another hour" in covers(load_run(make_run(tmp_path / "plain", **HOW)))


def test_what_takes_300_times_as_long_widens_no_other_difference(tmp_path):
    series = made(tmp_path, truth={("nonbox", OFF): 1.02, ("box", OFF): 300.0}, between=0.02, hour=0.01)
    row = table.make(load_run(series[0])).frame.filter(variant="nonbox", baseline_variant="manual").row(0, named=True)
    base = row["added_ns"] / (row["ratio"] - 1)
    assert row["added_high"] - row["added_low"] == pytest.approx((row["high"] - row["low"]) * base, rel=0.1)
    assert (row["added_low"] > 0) == (row["low"] > 1)


def test_one_sitting_takes_the_hours_of_the_reference_on_its_machine_and_on_no_other(tmp_path, monkeypatch):
    root, runs = tmp_path / "runs", {}
    monkeypatch.setenv("ASYNC_COST_RUNS", str(root))
    series = made(root)
    (root / "REFERENCE").write_text("".join(f"{folder.parent.name}/{folder.name}\n" for folder in series))
    known = table.make(reference_run()).frame
    for machine in ("made-up", "elsewhere"):
        folder = make_run(root, name="20260301T000000Z", machine=machine, **HOW, drawn=True, seed=99)
        runs[machine] = table.make(load_run(folder)).frame
    assert runs["elsewhere"]["omega2"].null_count() == known.height
    (root / "REFERENCE").write_text("made-up/20260301T000000Z\n")
    later = make_run(root, name="20260401T000000Z", **HOW, drawn=True, seed=98)
    assert covers(load_run(later)).endswith("so may another hour"), "a reference of one sitting knows none"
    (root / "REFERENCE").write_text("made-up/20250101T000000Z\n")
    with pytest.raises(DataError, match="20250101T000000Z"):
        table.make(load_run(later))
    for name in ("omega2", "d0"):
        assert runs["made-up"][name].equals(known[name])
    assert runs["made-up"]["speed2"].equals(known["speed2"]) and runs["elsewhere"]["speed2"].is_null().all()
    for name in ("high", "added_high", "speed"):
        here, elsewhere = (runs[machine].filter(variant="box")[name][0] for machine in ("made-up", "elsewhere"))
        assert here > elsewhere, name


def test_a_series_is_one_run_among_many_and_is_contributed_whole(three, tmp_path, monkeypatch):
    root = tmp_path / "runs"
    shutil.copytree(three[0].parents[1], root)
    make_run(root, machine="other", **HOW)
    many = read_many(find_runs(root))
    ids = [f"{name}/20260101T000000Z" for name in ("made-up", "other")]
    assert many.aside.is_empty() and sorted(many.runs["run"]) == ids
    monkeypatch.setenv("ASYNC_COST_RUNS", str(root))
    assert len(contribute(root / "made-up" / three[1].name).sittings) == 3
    assert len(list(root.glob("made-up/*/*.time.csv.gz"))) == 3


def test_remarks_are_told_of_each_sitting(tmp_path):
    series = made(tmp_path, 2)
    change_record(series[1], {f"studies.{STUDY}.load_before": [1.9, 1.0, 0.5]})
    counts = series[1] / f"{STUDY}.counts.csv"
    counts.write_text(counts.read_text().replace(",610000\n", ",610001\n"))
    run = load_run(series[0])
    texts = remarks(run, STUDY)
    assert "Sitting 2: The machine was not idle before the run: load 1.90." in texts
    assert "Exact counts differ between sittings; those of the first are shown." in texts
    lines = counts.read_text().splitlines(keepends=True)
    counts.write_text("".join(line for line in lines if ",610001" not in line))
    assert not any("Exact counts" in remark for remark in remarks(load_run(series[0]), STUDY)), (
        "a further one counts less"
    )
    assert run.counts(STUDY).equals(open_sitting(series[0]).counts(STUDY))


# -- what does not belong together -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("program", "1" * 64),
        ("machine.cpu", "another"),
        ("codegen.lto", "fat"),
        (f"studies.{STUDY}.groups", {"": 0.02}),
    ],
)
def test_a_sitting_of_something_else_is_refused(tmp_path, field, value):
    series = made(tmp_path, 2)
    change_record(series[1], {field: value})
    error = refused(series[0])
    assert error.path == series[1].resolve() / "run.json" and error.column == field.removesuffix(".lto")
    assert "differs from that of made-up/20260101T000000Z" in error.problem
    assert error.problem in read_many(series).aside["reason"].item()


def test_torn_missing_and_copied_sittings_are_refused(tmp_path):
    series = made(tmp_path / "torn", 2)
    time = series[1] / f"{STUDY}.time.csv"
    time.write_text(time.read_text()[:-5])
    assert refused(series[0]).path == time.resolve()
    series = made(tmp_path / "missing", 2)
    shutil.rmtree(series[0])
    error = refused(series[1])
    assert error.column == "series" and "its first run 'made-up/20260101T000000Z' is not next to it" in error.problem
    assert error.problem in read_many([series[1]]).aside["reason"].item()
    series = made(tmp_path / "chain", 3)
    change_record(series[2], {"series": f"made-up/{series[1].name}"})
    assert "is not the first run of a series: it names 'made-up/20260101T000000Z'" in refused(series[2]).problem
    series = made(tmp_path / "copied", 2)
    shutil.copyfile(series[0] / f"{STUDY}.time.csv", series[1] / f"{STUDY}.time.csv")
    assert "holds the same samples as made-up/20260101T000000Z" in refused(series[0]).problem


def test_a_run_of_another_machine_that_names_the_series_is_none_of_it(three, tmp_path):
    root = tmp_path / "runs"
    shutil.copytree(three[0].parents[1], root)
    stranger = make_run(root, machine="stranger", changes={"series": "made-up/20260101T000000Z"}, **HOW)
    assert len(load_run(root / three[0].parent.name / three[0].name).sittings) == 3
    assert refused(stranger).column == "series"


# -- the reference -----------------------------------------------------------------------------------------------


@pytest.fixture
def listed(tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNC_COST_RUNS", str(tmp_path))
    series = made(tmp_path, 2)

    def write(*runs: Path) -> None:
        (tmp_path / "REFERENCE").write_text("".join(f"{folder.parent.name}/{folder.name}\n" for folder in runs))

    write(*series)
    return series, write


def test_the_reference_is_the_series_that_its_file_lists(listed):
    series, write = listed
    assert reference() == "made-up/20260101T000000Z" and len(reference_run().sittings) == 2
    for wrong in (series[:1], series[::-1], [*series, Path("made-up/20270101T000000Z")]):
        write(*wrong)
        with pytest.raises(DataError, match="the series consists of made-up/20260101T000000Z, made-up/20260102"):
            reference_run()
