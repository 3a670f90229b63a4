"""A run is loaded whole or refused with a sentence that says what to repair. Each check has its own broken run."""

import gzip
import json
import shutil
from pathlib import Path

import pytest
from made_up_runs import OFF, ZERO_COST, change_record, changed, make_run
from ours import committed_runs
from refusal import refused

from async_cost.errors import DataError
from async_cost.literature.published import load_published, published_times
from async_cost.paths import repository_root, shown
from async_cost.runs import reader
from async_cost.runs.comparisons import DATA
from async_cost.runs.find import choose_run, find_runs, load_run, open_run, reference
from async_cost.runs.record import read_record
from async_cost.runs.run import open_sitting

STUDY = "zero-cost"
STUDY_FIELD = f"studies.{STUDY}"
TIME, COUNTS, INFO = "zero-cost.time.csv", "zero-cost.counts.csv", "run.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A small run of two studies in which nothing is wrong."""
    how = {"controls": {OFF: 1}, "rounds": 3, "samples": 2}
    return make_run(tmp_path_factory.mktemp("whole"), {("nonbox", OFF): 3.0}, ladder={}, **how)


@pytest.fixture
def run(whole, tmp_path) -> Path:
    """A copy of it to break."""
    return shutil.copytree(whole, tmp_path / "made-up" / whole.name)


def record(field: str, value: object):
    """A change of run.json: a field, by dotted name."""
    return lambda text: json.dumps(changed(json.loads(text), {field: value}))


def replaced(old: str, new: str):
    """A change of a file: the first `old`."""

    def change(text: str) -> str:
        assert old in text
        return text.replace(old, new, 1)

    return change


def without(part: str):
    """A change of a table: no line that holds `part`."""
    return lambda text: "".join(line for line in text.splitlines(keepends=True) if part not in line)


def cell(number: int, column: str, value: str):
    """A change of a table: a cell, on the line of that number."""

    def change(text: str) -> str:
        lines = text.split("\n")
        cells = lines[number - 1].split(",")
        cells[lines[0].split(",").index(column)] = value
        return "\n".join([*lines[: number - 1], ",".join(cells), *lines[number:]])

    return change


def each_line(change):
    """A change of a table, line by line."""
    return lambda text: "".join(f"{change(number, line)}\n" for number, line in enumerate(text.splitlines(), 1))


def edit(file: Path, change) -> None:
    file.write_text(change(file.read_text()))


# -- what loads ------------------------------------------------------------------------------------


def test_a_whole_run_loads_with_every_row(run):
    loaded = load_run(run)
    assert loaded.time(STUDY).height == 3 * 3 * 2, "3 variants, 3 rounds, 2 samples"
    assert loaded.time(STUDY).columns[-3:] == ["elapsed_ns", "episode", "sitting"]
    assert loaded.counts(STUDY)["value"].min() == 0
    assert loaded.info.machine.logical_cores == 2
    assert loaded.study(STUDY).controls == ("manual (A/A)",)


def test_a_compressed_run_loads_like_a_plain_one(run):
    plain = load_run(run)
    for name in (TIME, COUNTS):
        (run / f"{name}.gz").write_bytes(gzip.compress((run / name).read_bytes()))
        (run / name).unlink()
    assert load_run(run).time(STUDY).equals(plain.time(STUDY))


def test_line_ends_of_another_system_change_nothing(run):
    plain = load_run(run)
    (run / TIME).write_bytes((run / TIME).read_bytes().replace(b"\n", b"\r\n"))
    assert load_run(run).time(STUDY).equals(plain.time(STUDY))


@pytest.mark.parametrize("name", [TIME, COUNTS, INFO])
def test_the_byte_order_mark_of_an_editor_changes_nothing(run, name):
    plain = load_run(run)
    (run / name).write_bytes(b"\xef\xbb\xbf" + (run / name).read_bytes())
    marked = load_run(run)
    assert marked.info == plain.info and marked.time(STUDY).equals(plain.time(STUDY))
    assert marked.counts(STUDY).equals(plain.counts(STUDY))


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


def test_an_honest_table_is_split_the_quick_way(tmp_path, monkeypatch):
    """Else hundreds of runs would take minutes, and no test would notice."""

    split = reader._split

    def refuse(path, *rest):
        # Small tables next to the runs may have a last column that is empty.
        assert path.parent == DATA, f"{path}: an honest table was split cell by cell"
        return split(path, *rest)

    monkeypatch.setattr(reader, "_split", refuse)
    load_run(make_run(tmp_path, rounds=3, compress=True))
    for folder in committed_runs():
        open_sitting(folder).checked()  # `load_run` reads all sittings of its series


def test_no_run_at_all_says_how_to_get_one(tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNC_COST_RUNS", str(tmp_path / "nothing"))
    for study, says in ((STUDY, f"there is no run of {STUDY}.*make report"), (None, "there is no run.*make report")):
        with pytest.raises(DataError, match=says):
            choose_run(study)


def test_a_study_that_was_not_measured_is_not_an_empty_one(run):
    with pytest.raises(DataError, match="not measured"):
        load_run(run).time("spawn-apis")


# -- torn and foreign tables -------------------------------------------------------------------------


def test_a_torn_compressed_table_is_refused(run):
    packed = gzip.compress((run / TIME).read_bytes())
    (run / TIME).unlink()
    (run / f"{TIME}.gz").write_bytes(packed[:-20])
    assert "damaged" in refused(run).problem


@pytest.mark.parametrize("more", [b"", gzip.compress(b"x", mtime=0)])
def test_a_compressed_table_that_unpacks_to_too_much_or_is_followed_by_another_is_refused(run, more, monkeypatch):
    text = (run / TIME).read_bytes()
    (run / TIME).unlink()
    (run / f"{TIME}.gz").write_bytes(gzip.compress(text) + more)
    if not more:
        monkeypatch.setattr(reader, "MOST_UNPACKED", 1 << 20)
        load_run(run)
        monkeypatch.setattr(reader, "MOST_UNPACKED", 1 << 10)
    problem = refused(run).problem
    assert ("damaged" if more else "0 MiB or more") in problem


def test_a_table_that_is_there_twice_is_refused(run):
    (run / f"{TIME}.gz").write_bytes(gzip.compress((run / TIME).read_bytes()))
    assert "twice" in refused(run).problem


def test_a_missing_table_is_refused(run):
    (run / COUNTS).unlink()
    error = refused(run)
    assert (error.path.name, error.problem) == (COUNTS, "the file is missing")


def test_bytes_that_are_no_text_are_refused_with_their_line(run):
    lines = (run / TIME).read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b"zero", b"z\xffro")
    (run / TIME).write_bytes(b"\n".join(lines))
    assert refused(run).row == 3


def test_a_whole_table_of_another_study_is_refused(run):
    (run / TIME).rename(run / "spawn-apis.time.csv")
    assert refused(run).path.name == "spawn-apis.time.csv"


#: What stands in a column, and what is said of it.
VALUES = [
    *(("elapsed_ns", value, "not a whole number") for value in ("NaN", "inf", "", "12.5", "1e6", "9" * 20)),
    *((column, value, "below 1") for column, value in (("elapsed_ns", "-5"), ("elapsed_ns", "0"), ("iterations", "0"))),
    *((column, "-1", "not a whole number") for column in ("iterations", "position")),
    ("round", "one", "not a whole number"),
    ("bench", "", "not a valid name or value here"),
]
#: Names that would do harm on a page or a terminal.
NAMES = ("<script>alert(1)</script>", "a&lt;b", "\x1b[31mred", "a\u202eb", "a`b")
NAMES += (" manual", "manual ", "tab\tbed", "x" * 300)
#: What is wrong with a table: the change, and the line, the column and some words of the message. It has 19 lines.
TABLES = {
    "torn in the last line": (lambda text: text[:-4], 19, None, "cut off"),
    "cut off between two rounds": (without(f"{OFF},2,"), None, "round", "not measured in round 2"),
    "cut off between two samples": (lambda text: text[: text[:-1].rindex("\n") + 1], 18, "sample", "1 samples instead"),
    "empty": (lambda text: "", 1, None, "empty"),
    "nothing but a header": (lambda text: text.split("\n")[0] + "\n", 1, None, "empty"),
    "an empty line": (each_line(lambda number, line: f"{line}\n" if number == 4 else line), 5, None, "0 cells"),
    "too few cells": (cell(5, "study", "zero-cost\nzero-cost"), 5, None, "1 cells"),
    "a quote that never closes": (cell(4, "study", '"zero-cost'), None, None, "not a CSV row"),
    "text behind a quoted cell": (cell(4, "study", '"zero"-cost'), 4, None, "not a CSV row"),
    "an unknown column": (each_line(lambda _, line: f"{line},note"), 1, "'note'", "unknown column"),
    "a missing column": (each_line(lambda _, line: line.rpartition(",")[0]), 1, "elapsed_ns", "is missing"),
    "a column twice": (each_line(lambda _, line: f"{line},{line.rpartition(',')[2]}"), 1, None, "twice"),
    "another unit": (replaced("elapsed_ns", "elapsed_us"), 1, "'elapsed_us'", "wrong unit"),
    "a sample twice": (lambda text: text + text.split("\n")[4] + "\n", 20, None, "already on line 5"),
    "a row of another study": (cell(6, "study", "spawn-apis"), 6, "study", "a row of study 'spawn-apis'"),
    "no baseline": (without(f",manual,manual,{OFF},1,"), None, "variant", "round 1 has no baseline 'manual'"),
    "a round too few": (without(f",nonbox,{OFF},1,"), None, "round", "not measured in round 1"),
    "two places": (cell(2, "position", "77"), None, "position", "two positions"),
    "a name in two lines": (cell(5, "variant", '"two\nlines"'), None, "variant", "not a valid name"),
    **{f"{column} {value}": (cell(7, column, value), 7, column, says) for column, value, says in VALUES},
    **{f"variant {name!r}": (cell(5, "variant", name), 5, "variant", "not a valid name") for name in NAMES},
}


@pytest.mark.parametrize("damage", TABLES)
def test_a_damaged_table_is_refused_by_line_and_column(run, damage):
    change, row, column, says = TABLES[damage]
    edit(run / TIME, change)
    error = refused(run)
    assert says in error.problem and error.path.name == TIME
    assert (row is None or error.row == row) and (column is None or error.column == column)


def test_a_damaged_count_is_refused(run):
    edit(run / COUNTS, cell(3, "value", "-1"))
    error = refused(run)
    assert (error.row, error.column, error.path.name) == (3, "value", COUNTS)
    edit(run / COUNTS, cell(3, "value", "1"))
    edit(run / COUNTS, lambda text: text + text.split("\n")[1] + "\n")
    assert "already on line 2" in refused(run).problem


# -- run.json ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        lambda cells: [*cells[:-1], str(int(cells[-1]) // 1000)],  # microseconds
        lambda cells: [*cells[:-1], str(int(cells[-1]) * 1000)],  # picoseconds
        lambda cells: [*cells[:-2], cells[-1], cells[-2]],  # iterations and elapsed_ns in each other's place
    ],
)
def test_times_that_do_not_add_up_to_how_long_the_study_took_are_refused(tmp_path, wrong):
    run = make_run(tmp_path, {("nonbox", OFF): 3.0}, rounds=500, samples=10)
    load_run(run)
    edit(run / TIME, each_line(lambda number, line: line if number == 1 else ",".join(wrong(line.split(",")))))
    error = refused(run)
    assert (error.path.name, error.column) == (TIME, "elapsed_ns")
    assert "all samples together take" in error.problem and "nanoseconds" in error.remedy


def test_an_episode_that_was_stopped_for_an_hour_loses_nothing(tmp_path):
    run = make_run(tmp_path, rounds=20, samples=10, episodes=4)
    load_run(change_record(run, {f"{STUDY_FIELD}.episodes.0.ended": "2026-01-01T23:00:01Z"}))


#: What is wrong with run.json: fields with values that are refused, and some words of the message.
FIELDS = {
    "machine.name": (["a/b", "..", "", "-x", "../../etc", "<b>x</b>", "a b", "Ünï", "a\x00b"], ""),
    "run_id": (["made-up/../x", "made-up", "made-up/2026", "../20260101T000000Z", "made-up/20260101T000000Z\n"], ""),
    "schema_version": ([5, 2, 0, "1", None, True], "this package reads 4. Use the revision"),
    "profile": (["fast"], "is none of"),
    "origin": (["elsewhere"], "is none of"),
    "started": (["yesterday"], "not a time in UTC"),
    "ended": (["later"], "not a time in UTC"),
    "studies": ([[], {}], ""),
    f"{STUDY_FIELD}.state": (["measuring"], "not complete. Resume it"),
    f"{STUDY_FIELD}.started": (["2026-01-01"], "not a time in UTC"),
    f"{STUDY_FIELD}.rounds": ([0], ""),
    f"{STUDY_FIELD}.samples": ([0], ""),
    "codegen.opt_level": (["2", 0], "CARGO_PROFILE_DEV_"),
    "codegen.debug_assertions": ([True], "CARGO_PROFILE_DEV_"),
    "codegen.overflow_checks": ([True], "CARGO_PROFILE_DEV_"),
    "codegen.codegen_units": ([16, None], "CARGO_PROFILE_DEV_"),
    "codegen.incremental": ([True], "CARGO_PROFILE_DEV_"),
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, (values, _) in FIELDS.items() for value in values]
)
def test_a_wrong_field_is_refused_by_name(run, field, value):
    error = refused(change_record(run, {field: value}))
    assert error.column.startswith(field) and FIELDS[field][1] in str(error)


#: Texts that are no run.json, and what is said of them.
TEXTS = {
    "torn": (lambda text: text[: len(text) // 2], "JSON"),
    **{text[:30]: (lambda _, text=text: text, "") for text in ("[]", "null", '{"schema_version": NaN}', "[" * 100_000)},
    "a field twice": (replaced('"origin":', '"origin": "native", "origin":'), "twice"),
    "no number": (replaced('"load_before": [\n', '"load_before": [\nNaN,\n'), "NaN is not a number"),
    "fewer rounds": (record(f"{STUDY_FIELD}.rounds", 2), "round 2 in a run of 2 rounds"),
    **{name: (replaced('"zero-cost": {', f'"{name}": {{'), "not a study") for name in ("../z", "Zero", "a b", "<b>")},
}


@pytest.mark.parametrize("damage", TEXTS)
def test_a_damaged_record_is_refused(run, damage):
    change, says = TEXTS[damage]
    edit(run / INFO, change)
    assert says in refused(run).problem


#: A field that no decoder of run.json takes: its name, what it holds, where the error is, and what is said.
DECODED = [
    ("machine.logical_cores", "two", "machine.logical_cores", "Expected a whole number or null, got text"),
    ("machine.logical_cores", True, "machine.logical_cores", "Expected a whole number or null, got true or false"),
    ("machine.logical_cores", -1, "machine.logical_cores", "Expected a whole number >= 0"),
    ("machine.caches.0.bytes", 2**63, "machine.caches[0].bytes", f"Expected a whole number <= {2**63 - 1}"),
    ("machine.caches", {}, "machine.caches", "Expected a list or null, got an object"),
    ("machine.owner", "me", "machine.'owner'", "unknown field 'owner'"),
    ("crates.slab", 4, "crates", "Expected text or a list, got a whole number"),
    ("git", [], "git", "Expected an object or null, got a list"),
    ("studies.ladder.rounds", 1.5, "studies.ladder.rounds", "Expected a whole number, got a number"),
    ("studies.ladder.groups.", "1 %", "studies.ladder.groups", "Expected a number, got text"),
    ("studies.ladder.groups.", 1.0, "studies.ladder.groups", "is not a share between 0 and 1"),
    ("studies.ladder.samples", 10**6 + 1, "studies.ladder.samples", "Expected a whole number <= 1000000"),
    ("studies.ladder", [], "studies.ladder", "Expected an object, got a list"),
    ("studies.ladder.load_after", [1, 10**400], "studies.ladder.load_after[1]", "Number out of range"),
    ("studies.ladder.comparisons", None, "studies.ladder.comparisons", "Expected a list, got null"),
    ("studies.ladder.failed", [{"bench": ""}], "studies.ladder.failed[0].variant", "the field is missing"),
    ("studies.ladder.controls", ["a\nb"], "studies.ladder.controls[0]", "holds control characters"),
    ("machine.a\tb", 1, "machine", "holds control characters"),
    ("a`b", 1, None, "the name of a field holds a backquote"),
]


@pytest.mark.parametrize(("field", "value", "column", "problem"), DECODED)
def test_what_no_decoder_takes_is_said_in_our_words_with_its_field(run, field, value, column, problem):
    error = refused(change_record(run, {field: value}))
    assert error.column == column and problem in error.problem


def test_a_field_that_is_missing_or_has_the_name_of_a_place_is_named(run):
    edit(run / INFO, without('"kernel"'))
    assert refused(run).column == "machine.kernel"
    edit(run / INFO, replaced('"origin":', '"owner - at $.x": "me", "origin":'))
    assert refused(run).column == "'owner - at $.x'"


def test_the_line_where_json_is_torn_is_named(run):
    edit(run / INFO, lambda text: '{"schema_version": 2,\n"run_id":\n')
    assert "run.json, line 3: torn or invalid JSON" in str(refused(run))


def test_a_record_is_no_run_yet(run):
    """What experiments measure has a profile of its own and may be compiled for debugging."""
    change_record(run, {"profile": "test", "codegen.opt_level": 0})
    assert refused(run).column == "profile" and read_record(run / INFO).codegen.opt_level == 0


def test_a_run_in_another_place_or_without_a_record_is_refused(run):
    moved = run.rename(run.parent / "20300101T000000Z")
    assert refused(moved).column == "run_id"
    latest = moved.rename(run.parent / "latest")
    change_record(latest, {"run_id": "made-up/latest"})
    assert "not a run id" in refused(latest).problem
    (latest / INFO).unlink()
    assert refused(latest).path.name == INFO
    assert refused(run).problem == "there is no such run"


# -- messages and the literature -----------------------------------------------------------------------------


def test_a_place_is_shown_without_the_folders_above_the_repository():
    assert shown(repository_root() / "data" / "runs" / "m" / "t") == "data/runs/m/t"
    assert shown(Path("/elsewhere/runs/m/t/run.json")) == "m/t/run.json"
    assert "\x1b" not in shown(Path("/x/\x1b[31m/t"))


def test_every_published_zero_cost_key_has_a_made_up_truth():
    keys = published_times("zero-cost").filter(variant="nonbox").select("variant", "parameter")
    assert set(keys.rows()) <= set(ZERO_COST)


def test_a_published_interval_that_misses_its_value_is_refused(tmp_path):
    folder = tmp_path / "data" / "published"
    folder.mkdir(parents=True)
    source = repository_root() / "data" / "published" / "zero-cost.csv"
    (folder / "zero-cost.csv").write_text(source.read_text().replace("24.536", "24.550"))
    with pytest.raises(DataError, match=r"line .*low value high ascend.* Correct the row"):
        load_published("zero-cost", tmp_path)
