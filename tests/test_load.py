"""A run is loaded whole or refused with a sentence that says what to repair, for each kind of damage."""

import gzip
import shutil
from pathlib import Path

import pytest
from hostile_runs import COUNTS, DAMAGES, INFO, TIME, record
from made_up_runs import OFF, make_run
from refusal import refused

from async_cost.errors import DataError
from async_cost.literature.published import load_published
from async_cost.paths import repository_root, shown
from async_cost.runs.find import choose_run, find_runs, load_run, open_run, reference

STUDY = "zero-cost"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A small run of two studies in which nothing is wrong."""
    how = {"controls": {OFF: 1}, "rounds": 3, "samples": 2}
    return make_run(tmp_path_factory.mktemp("whole"), {("nonbox", OFF): 3.0}, ladder={}, **how)


@pytest.fixture
def run(whole, tmp_path) -> Path:
    """A copy of it to break."""
    return shutil.copytree(whole, tmp_path / "made-up" / whole.name)


# -- what loads ------------------------------------------------------------------------------------


def test_a_whole_run_loads_with_every_row(run):
    loaded = load_run(run)
    assert loaded.time(STUDY).height == 3 * 3 * 2, "3 variants, 3 rounds, 2 samples"
    assert loaded.time(STUDY).columns[-3:] == ["elapsed_ns", "episode", "sitting"]
    assert loaded.counts(STUDY)["value"].min() == 0
    assert loaded.info.machine.logical_cores == 2
    assert loaded.study(STUDY).controls == ("manual (A/A)",)


def packed(file: Path) -> None:
    (file.parent / f"{file.name}.gz").write_bytes(gzip.compress(file.read_bytes()))
    file.unlink()


@pytest.mark.parametrize(
    "change",
    [
        lambda file: file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n")),  # line ends of another system
        lambda file: file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes()),  # the byte order mark of an editor
        lambda file: file.suffix == ".csv" and packed(file),
    ],
)
def test_what_an_editor_or_packing_does_changes_nothing(run, change):
    plain = load_run(run)
    for name in (TIME, COUNTS, INFO):
        change(run / name)
    again = load_run(run)
    assert again.info == plain.info and again.time(STUDY).equals(plain.time(STUDY))
    assert again.counts(STUDY).equals(plain.counts(STUDY))


def test_a_failed_variant_keeps_the_rounds_it_has(tmp_path):
    run = make_run(tmp_path, rounds=3, failed=[("box", OFF)])
    time = load_run(run).time(STUDY)
    assert time.filter(variant="box", parameter=OFF)["round"].unique().to_list() == [0]


def test_the_newest_finished_run_is_read_or_the_one_that_the_environment_names(tmp_path, monkeypatch):
    committed = f"data/runs/{reference()}"
    monkeypatch.setenv("ASYNC_COST_RUNS", str(tmp_path))
    for name in ("20260101T000000Z", "20270101T000000Z"):
        make_run(tmp_path, {}, rounds=2, name=name)
    (tmp_path / ".partial" / "20280101T000000Z").mkdir(parents=True)
    newest, old = find_runs()
    assert [newest.name, old.name] == ["20270101T000000Z", "20260101T000000Z"]
    assert choose_run(STUDY).path == choose_run().path == newest
    announced = [f"{path.parent.name}/{path.name} 2 20251231T000000Z\n" for path in (newest, old)]
    (tmp_path / "ANNOUNCED").write_text(announced[0])
    assert choose_run(STUDY).path == old, "the newer one lacks a sitting that was announced"
    (tmp_path / "ANNOUNCED").write_text("".join(announced))
    assert choose_run(STUDY).path == newest
    monkeypatch.setenv("ASYNC_COST_RUN", str(old))
    assert choose_run(STUDY).path == old
    monkeypatch.setenv("ASYNC_COST_RUN", committed)  # from any folder, as a notebook is executed in its own
    assert choose_run(STUDY).path.samefile(repository_root() / committed)


def test_a_damaged_newest_run_is_not_passed_over(tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNC_COST_RUNS", str(tmp_path))
    make_run(tmp_path, {}, rounds=2)
    newest = make_run(tmp_path, {}, rounds=2, name="20270101T000000Z")
    (newest / TIME).unlink()
    with pytest.raises(DataError, match="20270101T000000Z"):
        choose_run(STUDY).time(STUDY)
    (newest / "run.json").write_text("{")
    with pytest.raises(DataError, match="20270101T000000Z"):
        choose_run(STUDY)


def test_only_what_is_asked_for_is_opened(tmp_path):
    run = make_run(tmp_path, ladder={}, rounds=2)
    for table in ("ladder.time.csv", "ladder.counts.csv", "zero-cost.counts.csv"):
        (run / table).write_text("torn")
    assert not open_run(run).time(STUDY).is_empty()
    with pytest.raises(DataError, match="ladder"):
        open_run(run).time("ladder")
    with pytest.raises(DataError, match="cut off"):
        load_run(run)


def test_no_run_at_all_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNC_COST_RUNS", str(tmp_path / "nothing"))
    for study, says in ((STUDY, f"there is no run of {STUDY}.*make report"), (None, "there is no run.*make report")):
        with pytest.raises(DataError, match=says):
            choose_run(study)


def test_a_study_that_was_not_measured_is_not_an_empty_one(run):
    with pytest.raises(DataError, match="not measured"):
        load_run(run).time("spawn-apis")


# -- what is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_run_is_refused_by_file_line_and_column(run, kind):
    damage = DAMAGES[kind]
    damage.change(run)
    error = refused(run)
    assert damage.says in error.problem and error.path.name == damage.file
    assert damage.row in (None, error.row) and damage.column in (None, error.column)


@pytest.mark.parametrize(
    ("field", "value", "column"),
    [
        ("machine.logical_cores", True, "machine.logical_cores"),
        ("machine.caches.0.bytes", 2**63, "machine.caches[0].bytes"),
        ("studies.ladder.rounds", 1.5, "studies.ladder.rounds"),
        ("studies.ladder.failed", [{"bench": ""}], "studies.ladder.failed[0]"),
    ],
)
def test_a_field_of_another_type_or_size_is_named(run, field, value, column):
    record(field, value)(run)
    assert refused(run).column == column


def test_a_run_in_another_place_is_refused(run):
    moved = run.rename(run.parent / "20300101T000000Z")
    assert refused(moved).column == "run_id" and refused(run).problem == "there is no such run"


# -- messages and the literature -----------------------------------------------------------------------------


def test_a_place_is_shown_without_the_folders_above_the_repository():
    assert shown(repository_root() / "data" / "runs" / "m" / "t") == "data/runs/m/t"
    assert shown(Path("/elsewhere/runs/m/t/run.json")) == "m/t/run.json"
    assert "\x1b" not in shown(Path("/x/\x1b[31m/t"))


def test_a_published_interval_that_misses_its_value_is_refused(tmp_path):
    folder = tmp_path / "data" / "published"
    folder.mkdir(parents=True)
    source = repository_root() / "data" / "published" / "zero-cost.csv"
    (folder / "zero-cost.csv").write_text(source.read_text().replace("24.536", "24.550"))
    with pytest.raises(DataError, match=r"line .*low value high ascend.* Correct the row"):
        load_published("zero-cost", tmp_path)


def test_a_short_row_of_a_table_made_by_hand_is_refused(tmp_path):
    """polars alone would fill its last column up."""
    folder = tmp_path / "data" / "published"
    folder.mkdir(parents=True)
    header, *rows = (repository_root() / "data" / "published" / "zero-cost.csv").read_text().splitlines()
    (folder / "zero-cost.csv").write_text("\n".join([header, rows[0].rpartition(",")[0], ""]))
    with pytest.raises(DataError, match="line 2: the row has"):
        load_published("zero-cost", tmp_path)
