"""The page on published claims says what became of each, shows hostile words as words, and can be filtered."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
from example_report import HOSTILE, run_info, write_run
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from told import Told, check_alts, check_form, read, tell

from async_cost.literature.claims import load_claims
from async_cost.literature.replication import outcomes, tally
from async_cost.report import claim_cards
from async_cost.report.notebook import page_of
from async_cost.report.publish import publish
from async_cost.runs.run import load_run
from async_cost.statistics.statement import Outcome
from async_cost.testing.made_up_runs import LADDER, OFF, ON, make_run, reversed_truth

ROOM = "replication"
CLAIMS = load_claims()


@pytest.fixture(scope="module")
def effect_run(runs) -> Path:
    return make_run(runs / "effect", ladder=LADDER, rounds=60, noise=0.003, work=False, seed=4)


@pytest.fixture(scope="module")
def effect(effect_run) -> Told:
    return tell(ROOM, effect_run)


@pytest.fixture(scope="module")
def reverse(runs) -> Told:
    run = make_run(
        runs / "reverse", reversed_truth(), ladder=reversed_truth(LADDER), rounds=60, noise=0.003, work=False
    )
    return tell(ROOM, run)


@pytest.fixture(scope="module")
def untrusted(runs) -> Told:
    return tell(ROOM, make_run(runs / "untrusted", rounds=60, noise=0.003, work=False, controls={OFF: 1.05, ON: 1.0}))


def stated(told: Told) -> dict[str, int]:
    """The score as the answer states it."""
    found = re.search(
        r"decides (\d+) of (\d+) .*?\*\*(\d+) hold\*\*, \*\*(\d+) do not\*\*; (\d+) stays? open, (\d+) (?:is|are) not",
        told.answer,
    )
    decided, *score = map(int, found.groups())
    assert decided == score[1] + score[2]
    return dict(zip(("all", "holds", "does not hold", "undecided", "not measured"), score, strict=True))


# -- the text follows the run --------------------------------------------------------------------------------


def test_the_answer_counts_every_claim_once(effect, effect_run):
    counted = tally(outcomes(load_run(effect_run)))
    score = stated(effect)
    assert score.pop("all") == len(CLAIMS) == sum(score.values())
    assert score == {word.value: counted[word] for word in Outcome if word is not Outcome.NOT_MEASURABLE}


def test_the_answer_turns_round_with_the_effects(effect, reverse):
    assert effect.trusted and reverse.trusted
    assert stated(effect)["holds"] > stated(reverse)["holds"]
    assert "`Z23`, the reverse" in reverse.answer and "`Z23`" not in effect.answer
    assert "`Z11`, the reverse" in reverse.answer
    assert re.search(r"\d+ have it in this run; `Z\d+`.* are reversed", reverse.text)


def test_a_confounded_claim_is_said_to_differ_from_its_clean_comparison(runs, effect):
    told = tell(
        ROOM,
        make_run(
            runs / "clean", ladder=LADDER | {("lean + dyn", "live=3"): 1.0}, rounds=60, noise=0.003, work=False, seed=4
        ),
    )
    assert re.search(r"The clean comparison has another verdict on [^.]*`Z19`", told.answer)
    assert not re.search(r"The clean comparison has another verdict on [^.]*`Z19`", effect.answer)


def test_a_run_that_is_no_evidence_replicates_and_contradicts_nothing_but_counts(untrusted, effect_run):
    assert not untrusted.trusted and "differs from its twin" in untrusted.trust
    assert untrusted.answer.startswith("**Not all of `zero-cost` is evidence, and what is not concludes nothing.**")
    counted = tally(one for one in outcomes(load_run(effect_run)) if one.claim.quantity == "count")
    score = stated(untrusted)
    assert (score["holds"], score["does not hold"]) == (counted[Outcome.HOLDS], 0)
    assert "*In this run, which is no evidence:*" in untrusted.text


def test_a_run_without_any_study_of_a_document_still_has_a_page(runs):
    run = make_run(runs / "ladder", ladder=LADDER, rounds=30, noise=0.003, work=False)
    for lens in ("time", "counts"):
        (run / f"zero-cost.{lens}.csv").unlink()
    info = json.loads((run / "run.json").read_text(encoding="utf-8"))
    del info["studies"]["zero-cost"]
    (run / "run.json").write_text(json.dumps(info), encoding="utf-8")
    told = tell(ROOM, run)
    assert stated(told)["not measured"] == len(CLAIMS)
    assert "clean comparison" not in told.answer, "a clean comparison alone goes with nothing"


def test_charts_say_what_they_show(effect, reverse):
    assert effect.alts and effect.alts != reverse.alts
    check_alts(effect)


def test_the_notebook_keeps_the_house_rules():
    check_form(read(ROOM))


# -- cards ---------------------------------------------------------------------------------------------------


def test_cards_hold_every_claim_the_decided_and_surprising_ones_first(effect_run):
    found = outcomes(load_run(effect_run))
    html = claim_cards.cards(found)
    assert sorted(re.findall(r'id="claim-(\w+)"', html)) == sorted(claim.id for claim in CLAIMS)
    verdicts = re.findall(r'class="claim (\S+) of-zero-cost', html)
    order = ["does-not-hold", "holds", "undecided", "not-measured"]
    assert verdicts == sorted(verdicts, key=order.index) and len(set(verdicts)) > 1


def test_a_confounded_claim_shows_both_verdicts(effect_run):
    html = claim_cards.cards([one for one in outcomes(load_run(effect_run)) if one.claim.id == "Z19"])
    assert '<span class="word">holds</span>' in html
    assert "<dt>confounded</dt>" in html
    assert "<dt>clean comparison</dt><dd>holds; lean + dyn / slab index, live=3: 1.1" in html


def test_words_of_a_claim_are_no_markup(effect_run):
    claim = next(claim for claim in CLAIMS if claim.id == "Z19")
    hostile = replace(claim, statement=HOSTILE, confound=HOSTILE, source=HOSTILE)
    html = claim_cards.cards(outcomes(load_run(effect_run), [hostile]))
    assert "<script" not in html and "<img" not in html
    assert html.count("&lt;script&gt;") == 3


# -- the page in a browser -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def page(tmp_path_factory, effect_run) -> Path:
    """The published page of the cards alone, one claim of which means harm."""
    folder = tmp_path_factory.mktemp("page")
    claims = [replace(claim, statement=HOSTILE) if claim.id == "Z12" else claim for claim in CLAIMS]
    html = claim_cards.cards(outcomes(load_run(effect_run), claims))
    output = new_output("display_data", {"text/html": html})
    cells = [
        new_markdown_cell("# Claims\n\n## Claim by claim"),
        new_code_cell("cards", outputs=[output], execution_count=1),
    ]
    nbformat.write(new_notebook(cells=cells), folder / "replication.ipynb")
    run = write_run(folder / "run", run_info())
    return publish(run, [page_of(folder / "replication.ipynb")], folder / "report", pdf=False)[1]


@pytest.fixture
def visit(browser, page, request) -> Iterator[object]:
    context = browser.new_context(**getattr(request, "param", {}))
    tab = context.new_page()
    tab.complaints = []
    tab.on("console", lambda message: tab.complaints.append(message.text))
    tab.on("dialog", lambda dialog: tab.complaints.append("a dialog was opened"))
    tab.goto(page.as_uri())
    yield tab
    assert tab.complaints == []
    context.close()


def shown(tab) -> list[str]:
    """The ids of the claims that a reader sees."""
    return [
        element.get_attribute("id").removeprefix("claim-")
        for element in tab.locator(".claim").all()
        if element.is_visible()
    ]


def test_filters_leave_what_was_asked_for(visit, effect_run):
    visit.get_by_label("Outcome").select_option("does-not-hold")
    found = outcomes(load_run(effect_run))
    wanted = {one.claim.id for one in found if one.published.outcome is Outcome.DOES_NOT_HOLD}
    assert set(shown(visit)) == wanted
    assert visit.locator("output").inner_text() == f"{len(wanted)} of {len(CLAIMS)} claims"
    visit.get_by_label("Outcome").select_option("not-measured")
    visit.get_by_label("Study").select_option("of-runtimes")
    visit.get_by_label("Words").fill("notify_one 500")
    ids = {claim.id for claim in CLAIMS if claim.study == "runtimes" and "notify_one/500" in claim.statement}
    assert ids and set(shown(visit)) == ids, "what was folded away is opened when it is asked for"


def test_filters_can_be_taken_back(visit):
    before = shown(visit)
    visit.get_by_label("Basis").select_option("figures")
    assert shown(visit) != before
    visit.get_by_label("Basis").select_option("")
    assert shown(visit) == before


@pytest.mark.parametrize("visit", [{"java_script_enabled": False}], indirect=True)
def test_without_scripts_every_claim_can_be_read(visit):
    assert visit.locator(".filters").count() == 0
    for summary in visit.locator("details.rest > summary").all():
        summary.click()
    assert len(shown(visit)) == len(CLAIMS)


@pytest.mark.parametrize("visit", [{"viewport": {"width": 375, "height": 740}}], indirect=True)
def test_claims_fit_on_a_phone(visit):
    width, room = visit.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width <= room


def test_a_hostile_statement_is_shown_and_not_run(visit):
    assert "<script>" in visit.locator("#claim-Z12").inner_text()
    assert visit.locator("#claim-Z12 img").count() == 0
