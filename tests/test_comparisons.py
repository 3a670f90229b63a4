"""What is compared with what, as run.json declares it."""

import json
import re
import shutil
from pathlib import Path

import ladder_source
import pytest
from made_up_runs import OFF, ON, bench_of, change_record, make_run
from refusal import refused

from async_cost.paths import repository_root
from async_cost.runs.comparisons import KEY, PAIR, of_today
from async_cost.runs.find import load_run, open_run
from async_cost.runs.record import KINDS
from async_cost.statistics import table
from async_cost.statistics.table import COLUMNS, make

STUDY = "zero-cost"


def key(variant: str, parameter: str = OFF) -> dict[str, str]:
    return dict(zip(KEY, (bench_of(variant, parameter), variant, parameter), strict=True))


def comparison(first: dict[str, str], baseline: dict[str, str], group: str = "") -> dict[str, str]:
    base = {f"baseline_{name}": value for name, value in baseline.items()}
    return first | base | {"group": group, "change": "made up", "unit": "request"}


#: A control, and a variant that is compared with itself under another load.
DECLARED = [
    comparison(key("manual (A/A)"), key("manual")),
    comparison(key("nonbox", ON), key("nonbox"), "loads"),
    comparison(key("manual (A/A)", ON), key("manual", ON), "loads"),
]
GROUPS = {"": 0.01, "loads": 0.05}


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    truth = {("nonbox", OFF): 3.0, ("nonbox", ON): 1.1}
    return make_run(tmp_path_factory.mktemp("pairs"), truth, rounds=3, samples=2, episodes=1)


@pytest.fixture
def run(whole, tmp_path) -> Path:
    return shutil.copytree(whole, tmp_path / "made-up" / whole.name)


def declare(run: Path, comparisons: list[dict[str, str]]) -> Path:
    declared = {"comparisons": comparisons, "groups": GROUPS, "kinds": dict.fromkeys(GROUPS, KINDS[0])}
    return change_record(run, {f"studies.{STUDY}.{name}": value for name, value in declared.items()})


def test_declared_comparisons_are_read_as_they_are(run):
    pairs = load_run(declare(run, DECLARED)).comparisons(STUDY)
    assert pairs.select(*PAIR, "group", "change", "unit").to_dicts() == DECLARED
    assert pairs["control"].to_list() == [True, False, True]
    assert pairs["limit"].to_list() == [0.01, 0.05, 0.05]


@pytest.mark.parametrize(
    ("comparisons", "says"),
    [
        ([comparison(key("nonbox"), key("manual"), "other")], "group 'other', which has no limit"),
        ([comparison(key("nonbox"), key("other"))], "'other / other / syscalls=off', which was neither"),
    ],
)
def test_comparisons_that_cannot_be_are_refused(run, comparisons, says):
    assert says in refused(declare(run, comparisons)).problem


def test_a_study_without_comparisons_has_an_empty_table(run):
    table = make(load_run(declare(run, [])))
    assert table.frame.schema == COLUMNS and table.frame.is_empty() and table.rows[STUDY] > 0


def test_one_round_has_rows_without_numbers(run):
    time = run / f"{STUDY}.time.csv"
    rows = [line for line in time.read_text().splitlines() if line.split(",")[4] in ("round", "0")]
    time.write_text("\n".join(rows) + "\n")
    frame = make(load_run(declare(change_record(run, {f"studies.{STUDY}.rounds": 1}), DECLARED))).frame
    assert frame["ratio"].null_count() == frame["verdict"].null_count() == len(DECLARED)


def slow_down(run: Path) -> None:
    """Makes the first sample take ten times as long."""
    time = run / f"{STUDY}.time.csv"
    line = time.read_text().splitlines()[1]
    time.write_text(time.read_text().replace(line, f"{line}0", 1))


@pytest.mark.parametrize("change", [slow_down, lambda run: change_record(run, {"profile": "thorough"})])
def test_a_table_is_made_once_and_again_when_a_file_of_the_run_changed(run, change):
    first = table.comparisons(open_run(run))
    assert table.comparisons(open_run(run)) is first
    change(run)
    again = table.comparisons(open_run(run))
    assert again is not first and again.frame.equals(make(load_run(run)).frame)


# -- the ladder ----------------------------------------------------------------------------------------------


def test_each_rung_of_the_ladder_is_compared_with_the_one_that_it_is_built_on():
    declared = set(of_today().filter(study="ladder", parameter="live=3").select("variant", "baseline_variant").rows())
    built_on = {(variant, base) for variant, (base, _) in ladder_source.steps().items()}
    assert len(built_on) > 30 and built_on <= declared


def test_the_page_of_the_ladder_draws_every_rung_in_order():
    page = json.loads((repository_root() / "notebooks/ladder/analysis.ipynb").read_text(encoding="utf-8"))
    code = "\n".join("".join(cell["source"]) for cell in page["cells"])
    drawn = re.findall(r'"([^"]+)"', re.search(r"^LADDER = \[(.*?)^\]", code, re.DOTALL | re.MULTILINE)[1])
    branches = ladder_source.branches()
    assert drawn == [variant for variant in ladder_source.steps() if variant not in branches]
