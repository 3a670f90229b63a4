"""The pages about a run as a whole (replication, trust, prices) and about many runs (hardware), on runs whose truth is
known, in good company and in bad: nothing that a stranger may send runs, and each damaged run is named as text.
"""

import os
import re
from collections import Counter
from pathlib import Path

import nbformat
import pytest
from browsing import DESKTOP, PHONE
from hostile_runs import MARKUP, hostile_copies
from made_up_runs import LADDER, OFF, ON, REVERSED, ZERO_COST, make_run

from async_cost.literature import replication
from async_cost.literature.claims import load_claims
from async_cost.machines import hardware
from async_cost.machines.many import read_many
from async_cost.report import claims as frame
from async_cost.report import notebook
from async_cost.report.publish import publish
from async_cost.report.reading import Reading
from async_cost.runs.find import find_runs, load_run
from async_cost.statistics.statement import Outcome
from async_cost.workflow.publishing import execute

QUIET = {"rounds": 60, "noise": 0.005}
LATER = {"started": "2026-01-02T00:00:00Z", "ended": "2026-01-02T00:30:00Z"}
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)> slower"


def executed(analysis: str, run: Path, folder: Path, **environ: str) -> Path:
    """The notebook of an analysis, executed on a run."""
    (path,) = execute([analysis], folder, {"ASYNC_COST_RUN": str(run)} | environ, Path)
    return path


def of_all(root: Path, report: Path | None = None, *compared: Path) -> notebook.Page:
    """The page on hardware with the runs below `root` in place of data/runs, or of those that are compared."""
    environ = {"ASYNC_COST_RUNS": str(root), "ASYNC_COST_REPORTS": str(root / ".reports")}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        named = {"ASYNC_COST_COMPARE": os.pathsep.join(map(str, compared))} if compared else {}
        run = report or find_runs(root)[0]
        return notebook.page_of(executed("hardware", run, root / ".executed", **environ, **named))


# -- claims --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def effect(runs) -> Path:
    return make_run(runs / "effect", ladder=LADDER, rounds=60, noise=0.002, seed=5)


def test_every_claim_is_a_row_with_its_outcome_and_its_region(effect):
    run = load_run(effect)
    rows = frame.claims(run)
    assert rows["claim"].n_unique() == rows.height == len(load_claims())
    counted = Counter(result.published.outcome.value for result in replication.outcomes(run))
    assert dict(rows.group_by("outcome").len().iter_rows()) == counted | {"no claim": 2}
    assert rows["outcome"][-2:].to_list() == ["no claim"] * 2
    assert rows["outcome"][0] == Outcome.DOES_NOT_HOLD.value, "surprises first"
    (row,) = rows.filter(claim="Z19").to_dicts()
    assert row["clean_outcome"] == "holds" and row["confound"] and "1." in row["clean"]
    (row,) = rows.filter(claim="Z12").to_dicts()
    assert row["here"].startswith("0.2") and row["region"].startswith("from 0.195")
    assert rows.filter(claim="Z1")["here"].to_list() == ["257"]


@pytest.fixture(scope="module")
def claims(effect, runs) -> Path:
    """The notebook on claims, executed on the usual effects."""
    return executed("replication", effect, runs / "claims")


def test_what_its_own_document_has_against_a_claim_stands_in_its_row(effect, claims):
    notes = dict(frame.claims(load_run(effect)).select("claim", "note").rows())
    against = {claim.id: claim.own_figure for claim in load_claims() if claim.own_figure}
    assert {claim: notes[claim].partition("; ")[0] for claim in against} == against
    assert against["N45"] in claims.read_text(encoding="utf-8")


def test_the_page_on_claims_counts_them_and_they_turn_with_the_effects(effect, runs, claims):
    turned = make_run(runs / "reverse", REVERSED, ladder=LADDER, rounds=60, noise=0.002, seed=5)
    outcomes = (Reading(load_run(run)).counted_claims["outcome"].to_list() for run in (effect, turned))
    holding = [outcome.count(Outcome.HOLDS) for outcome in outcomes]
    assert holding[0] > holding[1] > 0
    assert f"In all, {holding[0]} of" in notebook.page_of(claims).answer


def test_a_hostile_statement_is_shown_and_not_run(effect, claims, tmp_path, opened):
    content = nbformat.read(claims, as_version=4)
    for cell in content.cells:
        for output in cell.get("outputs", []):
            if "text/html" in output.get("data", {}):
                html = output["data"]["text/html"]
                output["data"]["text/html"] = html.replace("One run of any variant", HOSTILE)
    nbformat.write(content, tmp_path / claims.name)
    _, file = publish(effect, [notebook.page_of(tmp_path / claims.name)], tmp_path / "out")
    visit = opened(file, viewport=PHONE)
    tab = visit.page
    fold = tab.locator("details.fold").last
    fold.locator("summary").click()
    everything = fold.locator("tbody tr:visible").count()
    fold.get_by_label("Show rows with").fill("waker rc")
    assert 0 < fold.locator("tbody tr:visible").count() < everything
    fold.get_by_label("Show rows with").fill("")
    fold.get_by_role("button", name="outcome").click()
    column = [name.strip() for name in fold.locator("thead th").all_inner_texts()].index("outcome") + 1
    words = fold.locator(f"tbody tr td:nth-child({column})").all_inner_texts()
    assert words == sorted(words) and len(set(words)) > 1
    width, window = tab.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width <= window and visit.complaints == []


# -- how far to rely on it -----------------------------------------------------------------------------------------


def test_the_page_on_trust_counts_controls_that_differ_and_lists_disturbances(runs, tmp_path):
    changes = {"studies.zero-cost.load_before": [3.0, 3.0, 3.0], "studies.zero-cost.resumed": 1}
    troubled = make_run(runs / "troubled", ladder=LADDER, controls={OFF: 1.05, ON: 1.0}, changes=changes, **QUIET)
    page = notebook.page_of(executed("trust", troubled, tmp_path))
    assert "<strong>1 of" in page.answer and "the intervals of their groups are that much wider" in page.answer
    assert "not idle before the run" in page.body and "resumed once" in page.body


# -- many machines -------------------------------------------------------------------------------------------------


def test_machines_that_differ_are_counted_as_turned_round(tmp_path):
    make_run(tmp_path, machine="alpha", seed=1, **QUIET)
    make_run(tmp_path, ZERO_COST | {("box", OFF): 0.5}, machine="beta", seed=2, **QUIET)
    answer = of_all(tmp_path).answer
    turned = int(re.search(r"(\d+) are turned round", answer)[1])
    assert turned >= 1 and "on 2 machines" in answer


def test_two_named_runs_stand_for_themselves(tmp_path):
    first = make_run(tmp_path, machine="alpha", seed=1, **QUIET)
    make_run(tmp_path, machine="ignored", seed=3, **QUIET)
    second = make_run(tmp_path, machine="alpha", seed=2, name="20260102T000000Z", changes=LATER, **QUIET)
    page = of_all(tmp_path, second, first, second)
    assert "on 2 runs" in page.answer and "ignored" not in page.body


@pytest.fixture(scope="module")
def crowd(runs) -> tuple[Path, dict[str, str]]:
    """The page that reads damaged and hostile runs, published, and what damaged each."""
    honest = make_run(runs / "crowd", machine="alpha", rounds=8, samples=2)
    make_run(runs / "crowd", machine="hasty", profile="quick", **QUIET)
    kinds = hostile_copies(honest)
    _, path = publish(honest, [of_all(runs / "crowd", honest)], runs / "report")
    return path, kinds


def test_no_markup_of_a_stranger_runs(crowd, opened):
    path, _ = crowd
    visit = opened(path, viewport=DESKTOP, bypass_csp=True)  # the words are harmless even without the second lock
    visit.wait_until_drawn()
    visit.page.mouse.wheel(0, 100_000)
    assert visit.page.evaluate("window.hacked") is None and visit.complaints == []
    assert visit.page.locator("main iframe, main b[onmouseover], main svg[onload], main img[onerror]").count() == 0


def test_one_machine_cannot_say_what_holds_on_others(crowd):
    assert "Fewer than two machines are evidence here" in crowd[0].read_text(encoding="utf-8")


def test_every_stranger_is_named_with_a_reason(crowd, opened):
    path, kinds = crowd
    visit = opened(path, viewport=DESKTOP, java_script_enabled=False)
    aside = visit.page.locator("details.fold", has_text="Folders that cannot be used")
    aside.locator("summary").click()
    rows = [row.split("\t", 1) for row in aside.locator("tbody tr").all_inner_texts()]
    reasons = {run.strip(): reason for run, reason in rows}
    assert all(len(reasons[run].split()) > 5 for run in kinds)
    assert any(MARKUP[0][:30] in reason for reason in reasons.values()), "markup is shown as the text that it is"


def test_a_machine_speaks_by_its_newest_evidence(tmp_path):
    make_run(tmp_path, machine="m", seed=1, **QUIET)
    make_run(tmp_path, machine="m", seed=2, name="20260102T000000Z", changes=LATER, **QUIET)
    make_run(tmp_path, machine="m", seed=3, name="20260103T000000Z", profile="quick", changes=LATER, **QUIET)
    chosen = hardware.representative_ratios(read_many(find_runs(tmp_path)))
    assert chosen["run"].unique().to_list() == ["m/20260102T000000Z"]
    make_run(tmp_path, machine="m", seed=4, name="20260101T000001Z", changes={"origin": "native"}, **QUIET)
    chosen = hardware.representative_ratios(read_many(find_runs(tmp_path)))
    assert chosen["run"].unique().to_list() == ["m/20260101T000001Z"], "programs, not cells"


def test_the_change_between_two_runs_has_an_honest_interval(tmp_path):
    """Of two runs of one truth, some 95 % of the intervals hold 1."""
    covering = []
    for seed in range(6):
        for day in (1, 2):
            name = f"2026010{day}T000000Z"
            make_run(tmp_path, machine=f"m-{seed}", seed=100 * seed + day, name=name, noise=0.01, rounds=60)
        runs = read_many(find_runs(tmp_path)).ratios.filter(machine=f"m-{seed}")
        days = (f"m-{seed}/20260101T000000Z", f"m-{seed}/20260102T000000Z")
        change = hardware.changes(runs, [(f"m-{seed}", *days)])
        covering += ((change["low"] <= 1) & (change["high"] >= 1)).to_list()
    assert 0.88 <= sum(covering) / len(covering) <= 0.995
