"""A run is loaded whole or refused with a sentence that says what to repair. Each check has its own broken run."""

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from async_cost.errors import DataError
from async_cost.literature.published import load_published, published_ratios
from async_cost.paths import repository_root, shown
from async_cost.runs import reader
from async_cost.runs.comparisons import DATA
from async_cost.runs.run import choose_run, find_runs, load_run, open_run
from async_cost.testing.made_up_runs import LADDER, OFF, ZERO_COST, make_run

STUDY = "zero-cost"
TIME, COUNTS, INFO = "zero-cost.time.csv", "zero-cost.counts.csv", "run.json"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A small run in which nothing is wrong."""
    truth = {("nonbox", OFF): 3.0}
    return make_run(tmp_path_factory.mktemp("whole"), truth, controls={OFF: 1}, rounds=3, samples=2, work=False)


@pytest.fixture
def run(whole, tmp_path) -> Path:
    """A copy of it to break."""
    return shutil.copytree(whole, tmp_path / "made-up" / whole.name)


def edit_line(file: Path, line: int, old: str, new: str) -> None:
    lines = file.read_text().split("\n")
    assert old in lines[line - 1], f"{old!r} is not on line {line}: {lines[line - 1]!r}"
    lines[line - 1] = lines[line - 1].replace(old, new, 1)
    file.write_text("\n".join(lines))


def set_cell(file: Path, line: int, column: str, value: str) -> None:
    lines = file.read_text().split("\n")
    place = lines[0].split(",").index(column)
    cells = lines[line - 1].split(",")
    cells[place] = value
    lines[line - 1] = ",".join(cells)
    file.write_text("\n".join(lines))


def set_info(run: Path, **fields: object) -> None:
    """Replaces fields of run.json; `machine__name` is machine.name."""
    document = json.loads((run / INFO).read_text())
    for name, value in fields.items():
        part, names = document, name.split("__")
        for step in names[:-1]:
            part = part[step]
        part[names[-1]] = value
    (run / INFO).write_text(json.dumps(document))


def refused(run: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        load_run(run)
    message = str(caught.value)
    assert message.isprintable(), "a message is safe on a terminal"
    assert caught.value.remedy in message
    return caught.value


# -- what loads ------------------------------------------------------------------------------------


def test_a_whole_run_loads_with_every_row(run):
    loaded = load_run(run)
    assert loaded.time(STUDY).height == 3 * 3 * 2, "3 variants, 3 rounds, 2 samples"
    assert loaded.time(STUDY).columns[-2:] == ["elapsed_ns", "episode"]
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


def test_a_failed_variant_keeps_the_rounds_it_has(tmp_path):
    run = make_run(tmp_path, rounds=3, failed=[("box", OFF)])
    time = load_run(run).time(STUDY)
    assert time.filter(variant="box", parameter=OFF)["round"].unique().to_list() == [0]


def test_runs_are_found_newest_first_and_unfinished_ones_are_not(tmp_path):
    for name in ("20260101T000000Z", "20270101T000000Z"):
        make_run(tmp_path, {}, rounds=2, work=False, name=name)
    (tmp_path / ".partial" / "20280101T000000Z").mkdir(parents=True)
    assert [run.name for run in find_runs(tmp_path)] == ["20270101T000000Z", "20260101T000000Z"]
    assert choose_run(STUDY, {}, tmp_path).path.name == "20270101T000000Z"


def test_the_environment_names_the_run(tmp_path):
    old = make_run(tmp_path, {}, rounds=2, work=False)
    make_run(tmp_path, {}, rounds=2, work=False, name="20270101T000000Z")
    assert choose_run(STUDY, {"ASYNC_COST_RUN": str(old)}, tmp_path).path == old


def test_a_notebook_about_every_run_takes_the_newest(tmp_path):
    make_run(tmp_path, rounds=2, name="20260101T000000Z")
    newest = make_run(tmp_path, rounds=2, name="20260102T000000Z")
    assert choose_run(environ={}, root=tmp_path).path == newest
    with pytest.raises(DataError, match="no run is here"):
        choose_run(environ={}, root=tmp_path / "nowhere")


def test_a_damaged_newest_run_is_not_passed_over(tmp_path):
    make_run(tmp_path, {}, rounds=2, work=False)
    newest = make_run(tmp_path, {}, rounds=2, work=False, name="20270101T000000Z")
    (newest / TIME).unlink()
    with pytest.raises(DataError, match="20270101T000000Z"):
        choose_run(STUDY, {}, tmp_path).time(STUDY)
    (newest / "run.json").write_text("{")
    with pytest.raises(DataError, match="20270101T000000Z"):
        choose_run(STUDY, {}, tmp_path)


def test_only_what_is_asked_for_is_opened(tmp_path):
    run = make_run(tmp_path, sockets={}, rounds=2, work=False)
    for table in ("zero-cost-sockets.time.csv", "zero-cost-sockets.counts.csv", "zero-cost.counts.csv"):
        (run / table).write_text("torn")
    assert not open_run(run).time(STUDY).is_empty()
    with pytest.raises(DataError, match="zero-cost-sockets"):
        open_run(run).time("zero-cost-sockets")
    with pytest.raises(DataError, match="cut off"):
        load_run(run)


def test_a_study_has_todays_name_in_a_run_that_was_made_under_another(tmp_path):
    run = make_run(tmp_path, None, ladder=LADDER, rounds=8, work=False, version=1)
    former = json.loads((run / "run.json").read_text())["studies"]["ladder"]
    set_info(run, studies={"zero-cost-ladder": former})
    for table in run.glob("ladder.*.csv"):
        text = table.read_text().replace("\nladder,", "\nzero-cost-ladder,")
        (run / f"zero-cost-{table.name}").write_text(text)
        table.unlink()
    loaded = load_run(run)
    assert list(loaded.info.studies) == ["ladder"]
    for table in (loaded.time("ladder"), loaded.counts("ladder")):
        assert table["study"].unique().to_list() == ["ladder"]


def test_an_honest_table_is_split_the_quick_way(tmp_path, monkeypatch):
    """Else hundreds of runs would take minutes, and no test would notice."""

    split = reader._split

    def refuse(path, *rest):
        # Small tables next to the runs may have a last column that is empty.
        assert path.parent == DATA, f"{path}: an honest table was split cell by cell"
        return split(path, *rest)

    monkeypatch.setattr(reader, "_split", refuse)
    load_run(make_run(tmp_path, rounds=3, compress=True))
    for folder in find_runs():
        load_run(folder)


def test_no_run_at_all_says_how_to_get_one(tmp_path):
    with pytest.raises(DataError, match="make report"):
        choose_run(STUDY, {}, tmp_path / "nothing")


def test_a_study_that_was_not_measured_is_not_an_empty_one(run):
    with pytest.raises(DataError, match="not measured"):
        load_run(run).time("spawn-apis")


# -- torn and foreign tables -------------------------------------------------------------------------


def test_a_torn_last_line_is_refused(run):
    text = (run / TIME).read_text()
    (run / TIME).write_text(text[:-4])
    error = refused(run)
    assert (error.row, error.path.name) == (text.count("\n"), TIME)
    assert "cut off" in error.problem


def test_a_run_cut_off_between_two_rounds_is_refused(run):
    lines = (run / TIME).read_text().splitlines()
    (run / TIME).write_text("\n".join(line for line in lines if f"{OFF},2," not in line) + "\n")
    assert "not measured in round 2" in refused(run).problem


def test_a_run_cut_off_between_two_samples_is_refused(run):
    lines = (run / TIME).read_text().splitlines()
    (run / TIME).write_text("\n".join(lines[:-1]) + "\n")
    error = refused(run)
    assert error.column == "sample"
    assert "1 samples instead of 2" in error.problem


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


def test_an_empty_file_is_refused(run):
    (run / TIME).write_text("")
    assert "empty" in refused(run).problem


def test_a_run_without_rows_is_refused(run):
    (run / TIME).write_text((run / TIME).read_text().split("\n")[0] + "\n")
    assert "empty" in refused(run).problem


def test_bytes_that_are_no_text_are_refused_with_their_line(run):
    lines = (run / TIME).read_bytes().split(b"\n")
    lines[2] = lines[2].replace(b"zero", b"z\xffro")
    (run / TIME).write_bytes(b"\n".join(lines))
    assert refused(run).row == 3


@pytest.mark.parametrize("line", ["", "zero-cost,manual"])
def test_a_row_with_other_than_nine_cells_is_refused(run, line):
    lines = (run / TIME).read_text().split("\n")
    lines.insert(4, line)
    (run / TIME).write_text("\n".join(lines))
    assert refused(run).row == 5


def test_a_quote_that_never_closes_is_refused(run):
    edit_line(run / TIME, 4, "zero-cost", '"zero-cost')
    assert refused(run).path.name == TIME


def test_an_unknown_column_is_refused(run):
    lines = (run / TIME).read_text().splitlines()
    (run / TIME).write_text("\n".join([lines[0] + ",note", *(line + ",x" for line in lines[1:])]) + "\n")
    error = refused(run)
    assert (error.row, error.column) == (1, "'note'")


def test_a_missing_column_is_refused(run):
    lines = (run / TIME).read_text().splitlines()
    (run / TIME).write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")
    error = refused(run)
    assert (error.row, error.column) == (1, "elapsed_ns")


def test_a_column_that_stands_twice_is_refused(run):
    lines = (run / TIME).read_text().splitlines()
    doubled = [f"{line},{line.rpartition(',')[2]}" for line in lines]
    (run / TIME).write_text("\n".join(doubled) + "\n")
    assert "twice" in refused(run).problem


def test_a_time_in_another_unit_is_refused(run):
    edit_line(run / TIME, 1, "elapsed_ns", "elapsed_us")
    error = refused(run)
    assert "unit" in error.problem
    assert "nanoseconds" in error.remedy


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [
        ("elapsed_ns", "NaN", "not a whole number"),
        ("elapsed_ns", "inf", "not a whole number"),
        ("elapsed_ns", "", "not a whole number"),
        ("elapsed_ns", "12.5", "not a whole number"),
        ("elapsed_ns", "1e6", "not a whole number"),
        ("elapsed_ns", "99999999999999999999", "not a whole number"),
        ("elapsed_ns", "-5", "below 1"),
        ("elapsed_ns", "0", "below 1"),
        ("iterations", "0", "below 1"),
        ("iterations", "-1", "not a whole number"),
        ("round", "one", "not a whole number"),
        ("position", "-1", "not a whole number"),
        ("bench", "", "not a valid name or value here"),
    ],
)
def test_a_value_that_cannot_be_measured_is_refused_with_line_and_column(run, column, value, says):
    set_cell(run / TIME, 7, column, value)
    error = refused(run)
    assert (error.row, error.column) == (7, column)
    assert says in error.problem


def test_a_negative_count_is_refused(run):
    set_cell(run / COUNTS, 3, "value", "-1")
    error = refused(run)
    assert (error.row, error.column, error.path.name) == (3, "value", COUNTS)


def test_a_sample_that_stands_twice_is_refused(run):
    lines = (run / TIME).read_text().splitlines()
    (run / TIME).write_text("\n".join([*lines, lines[4]]) + "\n")
    error = refused(run)
    assert error.row == len(lines) + 1
    assert "line 5" in error.problem


def test_a_count_that_stands_twice_is_refused(run):
    lines = (run / COUNTS).read_text().splitlines()
    (run / COUNTS).write_text("\n".join([*lines, lines[1]]) + "\n")
    assert refused(run).row == len(lines) + 1


def test_rows_of_another_study_are_refused(run):
    set_cell(run / TIME, 6, "study", "spawn-apis")
    error = refused(run)
    assert (error.row, error.column) == (6, "study")


def test_a_whole_table_of_another_study_is_refused(run):
    (run / TIME).rename(run / "spawn-apis.time.csv")
    assert refused(run).path.name == "spawn-apis.time.csv"


def test_a_round_without_its_baseline_is_refused(run):
    text = (run / TIME).read_text()
    rows = [line for line in text.splitlines() if f",manual,manual,{OFF},1," not in line]
    (run / TIME).write_text("\n".join(rows) + "\n")
    error = refused(run)
    assert "round 1 has no baseline 'manual'" in error.problem
    assert error.row == next(i for i, line in enumerate(rows, 1) if f"{OFF},1," in line)


def test_a_round_that_the_run_does_not_have_is_refused(run):
    document = json.loads((run / INFO).read_text())
    document["studies"][STUDY]["rounds"] = 2
    (run / INFO).write_text(json.dumps(document))
    assert "round 2 in a run of 2 rounds" in refused(run).problem


def test_a_variant_that_lacks_a_round_without_having_failed_is_refused(run):
    rows = [line for line in (run / TIME).read_text().splitlines() if f",nonbox,{OFF},1," not in line]
    (run / TIME).write_text("\n".join(rows) + "\n")
    assert "not measured in round 1" in refused(run).problem


def rewrite(file: Path, line: Callable[[list[str]], list[str]]) -> None:
    """Change the cells of every row."""
    head, *rows = file.read_text().splitlines()
    file.write_text("\n".join([head, *(",".join(line(row.split(","))) for row in rows)]) + "\n")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda cells: [*cells[:-1], str(int(cells[-1]) // 1000)],  # microseconds
        lambda cells: [*cells[:-1], str(int(cells[-1]) * 1000)],  # picoseconds
        lambda cells: [*cells[:-2], cells[-1], cells[-2]],  # iterations and elapsed_ns in each other's place
    ],
)
def test_times_that_do_not_add_up_to_how_long_the_study_took_are_refused(tmp_path, wrong):
    run = make_run(tmp_path, {("nonbox", OFF): 3.0}, rounds=500, samples=10, work=False)
    load_run(run)
    rewrite(run / TIME, wrong)
    error = refused(run)
    assert (error.path.name, error.column) == (TIME, "elapsed_ns")
    assert "all samples together take" in error.problem and "nanoseconds" in error.remedy


def test_a_trial_in_two_places_of_its_round_is_refused(run):
    set_cell(run / TIME, 2, "position", "77")
    assert refused(run).column == "position"


# -- hostile names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "<script>alert(1)</script>",
        "a&lt;b",
        "\x1b[31mred",
        "a\u202eb",
        "a`b",
        " manual",
        "manual ",
        "tab\tbed",
        "x" * 300,
    ],
)
def test_a_variant_named_to_do_harm_is_refused(run, name):
    set_cell(run / TIME, 5, "variant", name)
    error = refused(run)
    assert (error.row, error.column) == (5, "variant")


def test_a_line_break_in_a_name_is_refused(run):
    set_cell(run / TIME, 5, "variant", '"two\nlines"')
    assert refused(run).column == "variant"


@pytest.mark.parametrize("name", ["../../etc", "a/b", "..", "", "<b>x</b>", "a b", "Ünï", "a\x00b", "-x"])
def test_a_machine_named_to_leave_its_folder_or_page_is_refused(run, name):
    set_info(run, machine__name=name)
    assert refused(run).column == "machine.name"


@pytest.mark.parametrize(
    "run_id", ["made-up/../x", "made-up", "made-up/20260101", "../20260101T000000Z", "made-up/20260101T000000Z\n"]
)
def test_a_run_id_that_is_no_run_id_is_refused(run, run_id):
    set_info(run, run_id=run_id)
    assert refused(run).column == "run_id"


def test_a_run_that_lies_under_another_name_is_refused(run, tmp_path):
    moved = tmp_path / "made-up" / "20300101T000000Z"
    run.rename(moved)
    assert refused(moved).column == "run_id"


@pytest.mark.parametrize("cpu", ["a\nb", "\x1b[2J", "x\u0000"])
def test_control_characters_in_a_machine_fact_are_refused(run, cpu):
    set_info(run, machine__cpu=cpu)
    assert refused(run).column == "machine.cpu"


# -- run.json --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [5, 0, "1", None, True])
def test_another_schema_version_is_refused(run, version):
    set_info(run, schema_version=version)
    assert refused(run).column == "schema_version"


def test_torn_json_is_refused(run):
    text = (run / INFO).read_text()
    (run / INFO).write_text(text[: len(text) // 2])
    assert "JSON" in refused(run).problem


@pytest.mark.parametrize("text", ["[]", "null", '{"schema_version": NaN}', '{"a": 1, "a": 2}', "[" * 100_000])
def test_json_that_is_no_run_is_refused(run, text):
    (run / INFO).write_text(text)
    assert refused(run).path.name == INFO


def test_a_folder_without_run_json_is_refused(run):
    (run / INFO).unlink()
    assert refused(run).path.name == INFO


def test_a_missing_field_is_refused(run):
    document = json.loads((run / INFO).read_text())
    del document["machine"]["kernel"]
    (run / INFO).write_text(json.dumps(document))
    assert refused(run).column == "machine.kernel"


def test_an_unknown_field_is_refused(run):
    set_info(run, machine__owner="somebody")
    assert "owner" in refused(run).column


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("machine__logical_cores", "two"),
        ("machine__logical_cores", True),
        ("machine__memory_bytes", -1),
        ("machine__caches", {}),
        ("profile", "fast"),
        ("origin", "elsewhere"),
        ("started", "yesterday"),
        ("studies", []),
    ],
)
def test_a_field_of_another_type_is_refused(run, field, value):
    set_info(run, **{field: value})
    assert refused(run).column.startswith(field.replace("__", "."))


def test_an_unfinished_study_is_refused(run):
    document = json.loads((run / INFO).read_text())
    document["studies"][STUDY]["state"] = "measuring"
    (run / INFO).write_text(json.dumps(document))
    error = refused(run)
    assert error.column == "studies.zero-cost.state"
    assert "Resume" in error.remedy


def test_a_run_without_studies_is_refused(run):
    set_info(run, studies={})
    assert refused(run).column == "studies"


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("opt_level", "2"),
        ("opt_level", 0),
        ("debug_assertions", True),
        ("overflow_checks", True),
        ("codegen_units", 16),
        ("codegen_units", None),
        ("incremental", True),
    ],
)
def test_a_run_from_a_debug_kernel_is_refused(run, flag, value):
    set_info(run, **{f"codegen__{flag}": value})
    error = refused(run)
    assert error.column == f"codegen.{flag}"
    assert "CARGO_PROFILE_DEV_" in error.remedy


# -- messages and the literature -----------------------------------------------------------------------------


def test_a_place_is_shown_without_the_folders_above_the_repository():
    assert shown(repository_root() / "data" / "runs" / "m" / "t") == "data/runs/m/t"
    assert shown(Path("/elsewhere/runs/m/t/run.json")) == "m/t/run.json"
    assert "\x1b" not in shown(Path("/x/\x1b[31m/t"))


@pytest.mark.parametrize("study", ["zero-cost", "spawn-apis", "thread-pools", "runtimes", "call-styles"])
def test_every_published_table_loads(study):
    assert load_published(study).height > 0


def test_published_ratios_are_those_of_the_printed_table():
    ratios = published_ratios("zero-cost", "manual").filter(variant="nonbox", parameter=OFF).row(0, named=True)
    assert ratios["published"] == pytest.approx(90.724 / 24.548)
    assert ratios["published_low"] < ratios["published"] < ratios["published_high"]
    assert ratios["published_added_ns"] == pytest.approx(66_176)


def test_every_published_zero_cost_key_has_a_made_up_truth():
    keys = published_ratios("zero-cost", "manual").filter(variant="nonbox").select("variant", "parameter")
    assert set(keys.rows()) <= set(ZERO_COST)


def test_a_published_interval_that_misses_its_value_is_refused(tmp_path):
    folder = tmp_path / "data" / "published"
    folder.mkdir(parents=True)
    source = repository_root() / "data" / "published" / "zero-cost.csv"
    (folder / "zero-cost.csv").write_text(source.read_text().replace("24.536", "24.550"))
    with pytest.raises(DataError, match="low value high ascend"):
        load_published("zero-cost", tmp_path)


# -- rarer faults ---------------------------------------------------------------------------------------------


def edit_info(run: Path, old: str, new: str) -> None:
    text = (run / INFO).read_text()
    assert old in text
    (run / INFO).write_text(text.replace(old, new, 1))


def test_a_field_that_stands_twice_is_refused(run):
    edit_info(run, '"origin":', '"origin": "native", "origin":')
    assert "twice" in refused(run).problem


def test_a_load_that_is_no_number_is_refused(run):
    edit_info(run, '"load_before": [\n', '"load_before": [\nNaN,\n')
    assert "NaN is not a number" in refused(run).problem


@pytest.mark.parametrize("name", ["../zero-cost", "Zero", "a b", "<b>"])
def test_a_study_named_to_leave_its_folder_is_refused(run, name):
    edit_info(run, '"zero-cost": {', f'"{name}": {{')
    assert refused(run).column == "studies"


def test_an_end_that_is_no_time_is_refused(run):
    set_info(run, ended="later")
    assert refused(run).column == "ended"


def test_a_study_that_ended_at_no_time_is_refused(run):
    document = json.loads((run / INFO).read_text())
    document["studies"][STUDY]["started"] = "2026-01-01"
    (run / INFO).write_text(json.dumps(document))
    assert refused(run).column == "studies.zero-cost.started"


@pytest.mark.parametrize("field", ["rounds", "samples"])
def test_a_study_without_rounds_or_samples_is_refused(run, field):
    document = json.loads((run / INFO).read_text())
    document["studies"][STUDY][field] = 0
    (run / INFO).write_text(json.dumps(document))
    assert refused(run).column == f"studies.zero-cost.{field}"


def test_a_folder_that_does_not_exist_is_no_run(tmp_path):
    assert refused(tmp_path / "nothing").problem == "there is no such run"


def test_text_behind_a_quoted_cell_is_refused(run):
    edit_line(run / TIME, 4, "zero-cost", '"zero"-cost')
    assert refused(run).row == 4


def test_requests_that_differ_by_variant_are_refused(run):
    assert load_run(run).requests(STUDY) == 256
    counts = (run / COUNTS).read_text()
    (run / COUNTS).write_text(counts.replace("transactions,256", "transactions,255", 1))
    with pytest.raises(DataError, match="transactions"):
        load_run(run).requests(STUDY)


def test_a_run_id_that_is_no_time_is_refused_even_where_its_folder_agrees(run):
    moved = run.rename(run.parent / "latest")
    set_info(moved, run_id="made-up/latest")
    assert "not a run id" in refused(moved).problem
