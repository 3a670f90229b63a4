"""What is compared with what: as run.json declares it, and, in runs of version 1, what their studies declare besides."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from async_cost.errors import DataError
from async_cost.runs.comparisons import KEY, PAIR, of_today
from async_cost.runs.run import load_run
from async_cost.testing.made_up_runs import OFF, ON, make_run

STUDY = "zero-cost"


def key(variant: str, parameter: str = OFF) -> dict[str, str]:
    bench = variant.removesuffix(" (A/A)") + ("+syscalls" if parameter == ON else "")
    return dict(zip(KEY, (bench, variant, parameter), strict=True))


def comparison(one: dict[str, str], other: dict[str, str], group: str = "") -> dict[str, str]:
    return (
        one
        | {f"baseline_{name}": value for name, value in other.items()}
        | {"group": group, "change": "made up", "unit": "request"}
    )


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
    return make_run(tmp_path_factory.mktemp("pairs"), truth, rounds=3, samples=2, work=False)


@pytest.fixture
def run(whole, tmp_path) -> Path:
    return shutil.copytree(whole, tmp_path / "made-up" / whole.name)


def declare(run: Path, comparisons: list[dict[str, str]], groups: dict[str, float] | None = None) -> Path:
    document = json.loads((run / "run.json").read_text())
    document["studies"][STUDY] |= {"comparisons": comparisons, "groups": GROUPS if groups is None else groups}
    (run / "run.json").write_text(json.dumps(document))
    return run


def refused(run: Path) -> DataError:
    with pytest.raises(DataError) as caught:
        load_run(run)
    return caught.value


def test_a_run_of_version_1_is_compared_as_its_study_declares_today(whole, run):
    document = json.loads((run / "run.json").read_text())
    document["schema_version"] = 1
    own = [row | {"group": "loads"} for row in DECLARED[:1]]
    short = [{name: row[name] for name in (*PAIR, "group")} for row in own]
    document["studies"][STUDY] |= {"comparisons": short, "groups": GROUPS}
    (run / "run.json").write_text(json.dumps(document))
    pairs = load_run(run).comparisons(STUDY)
    here = of_today().filter(study=STUDY).join(load_run(run).time(STUDY).select(KEY).unique(), on=KEY, how="semi")
    here = here.filter(pl.col("baseline_variant").is_in(["manual", "nonbox"]))
    added = pairs.filter(~pl.col("control"))
    assert added.select(*PAIR, "change", "unit").rows() == here.select(*PAIR, "change", "unit").rows() != []
    of_manual = added.filter(baseline_variant="manual", parameter=OFF)
    assert of_manual["group"].unique().to_list() == ["loads"], "the group that the run gave to the baseline"
    assert added.filter(parameter=ON)["group"].unique().to_list() == [""], "the group of today"
    assert pairs.filter("control")["group"].to_list() == ["loads"]


def test_declared_comparisons_are_read_as_they_are(run):
    pairs = load_run(declare(run, DECLARED)).comparisons(STUDY)
    assert pairs.select(*PAIR, "group", "change", "unit").to_dicts() == DECLARED
    assert pairs["control"].to_list() == [True, False, True]
    assert pairs["limit"].to_list() == [0.01, 0.05, 0.05]


@pytest.mark.parametrize(
    ("comparisons", "groups", "says"),
    [
        ([comparison(key("nonbox"), key("manual"), "other")], None, "group 'other', which has no limit"),
        ([comparison(key("nonbox"), key("nonbox"))], None, "compared with itself"),
        ([*DECLARED, DECLARED[0]], None, "compared twice"),
        ([comparison(key("box"), key("manual"))], None, "'box / box / syscalls=off', which was neither"),
        ([comparison(key("nonbox"), key("other"))], None, "'other / other / syscalls=off', which was neither"),
        (DECLARED, GROUPS | {"loads": 0}, "no share between 0 and 1"),
        (None, {"loads": 0.05}, "Expected a list, got null"),
    ],
)
def test_comparisons_that_cannot_be_are_refused(run, comparisons, groups, says):
    assert says in refused(declare(run, comparisons, groups)).problem


def test_a_round_without_the_declared_baseline_is_refused(run):
    time = run / f"{STUDY}.time.csv"
    rows = [line for line in time.read_text().splitlines() if f",nonbox,nonbox,{OFF},1," not in line]
    time.write_text("\n".join(rows) + "\n")
    assert refused(declare(run, DECLARED)).problem == f"round 1 has no baseline 'nonbox' for parameter '{OFF}'"


def test_a_key_may_be_compared_with_several_others(run):
    both = [*DECLARED, comparison(key("nonbox", ON), key("manual", ON), "loads")]
    assert load_run(declare(run, both)).comparisons(STUDY).height == len(both)


def test_samples_may_differ_by_key_but_not_within_one(run):
    time = run / f"{STUDY}.time.csv"
    whole = time.read_text().splitlines()

    def keep(dropped) -> None:
        time.write_text("\n".join(line for line in whole if not dropped(line.split(","))) + "\n")

    keep(lambda cells: cells[2] == "nonbox" and cells[6] == "1")
    assert load_run(run).time(STUDY).filter(variant="nonbox")["sample"].max() == 0
    keep(lambda cells: cells[2] == "nonbox" and cells[6] == "1" and cells[4] == "2")
    assert "1 samples instead of 2" in refused(run).problem
