"""All notebooks, executed by the same workflow as `make report PROFILE=quick`, killed once and resumed."""

import json

import polars as pl
import pytest

from async_cost.load import load_run
from async_cost.toolchain import ROOT
from async_cost.workflow import MEASURED

KEY = ["bench", "variant", "parameter"]


def test_a_killed_measurement_shows_no_run(quick_run):
    assert quick_run.visible_at_kill == []


def test_no_complete_round_is_lost_by_a_kill(quick_run):
    assert quick_run.lines_at_kill, "nothing was measured before the kill: this test would prove nothing"
    for name, before in quick_run.lines_at_kill.items():
        after = (quick_run.run / name).read_text().splitlines()
        last_round = before[-1].split(",")[4]  # may be incomplete: it is measured again
        kept = [line for line in before[1:] if line.split(",")[4] != last_round]
        assert after[1 : 1 + len(kept)] == kept
        assert after[0] == before[0]


def test_the_run_says_that_it_was_resumed(quick_run):
    studies = json.loads((quick_run.run / "run.json").read_text())["studies"]
    assert sum(study["resumed"] for study in studies.values()) >= 1


def test_the_workflow_tells_steps_progress_and_where_the_page_is(quick_run):
    assert "left in all" in quick_run.output
    assert f"{quick_run.page.as_uri()}" in quick_run.output
    assert quick_run.page.exists()


#: Studies with a published table; the others are ours alone.
PUBLISHED = [study for study in MEASURED if (ROOT / "data" / "published" / f"{study}.csv").exists()]


@pytest.mark.parametrize("study", PUBLISHED)
def test_every_published_bench_is_measured(quick_run, study):
    run = load_run(quick_run.run)
    time = run.time(study)
    published = pl.read_csv(ROOT / "data" / "published" / f"{study}.csv").filter(pl.col("metric") == "time")
    missing = published.select(KEY).unique().join(time.select(KEY).unique(), on=KEY, how="anti")
    assert missing.is_empty(), f"not measured: {missing.rows()}"


@pytest.mark.parametrize("study", MEASURED)
def test_every_variant_is_measured_in_every_round(quick_run, study):
    run = load_run(quick_run.run)
    rounds = run.time(study).group_by(KEY).agg(pl.col("round").n_unique())["round"].unique().to_list()
    assert rounds == [run.info.studies[study].rounds]


@pytest.mark.parametrize("study", MEASURED)
def test_every_measured_variant_has_exact_counts(quick_run, study):
    run = load_run(quick_run.run)
    counted = run.counts(study).select(KEY).unique()
    timed = run.time(study).select(KEY).unique().filter(~pl.col("parameter").str.contains("work="))
    missing = timed.join(counted, on=KEY, how="anti")
    assert missing.is_empty(), f"timed but not counted: {missing.rows()}"


def test_a_quick_page_says_that_it_is_not_evidence(quick_run):
    assert "not evidence" in quick_run.page.read_text().lower()
