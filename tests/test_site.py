"""The site as its readers use it: by keyboard, by a screen reader, without scripts, on paper, and as a list of runs."""

import json
import re
from pathlib import Path

import pytest
from browsing import DESKTOP, PHONE
from made_up_runs import HOSTILE, example_run, write_notebook

from async_cost.report import site
from async_cost.report.notebook import page_of
from async_cost.report.publish import publish

AXE = Path(__file__).parent / "assets" / "axe.min.js"
#: How bad axe may find nothing. Below are hints, such as two landmarks of one name.
GRAVE = ("serious", "critical")


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> Path:
    """reports/ with two runs, one of them no evidence, each with two pages."""
    root = tmp_path_factory.mktemp("site")
    for number, profile in enumerate(("standard", "quick")):
        name = f"2026112{number}T190102Z"
        run = example_run(root / name, name, profile=profile, started=f"2026-11-2{number}T19:01:02Z", ended=None)
        notebooks = [write_notebook(root / name / f"{study}.ipynb") for study in ("zero-cost", "ladder")]
        publish(run, map(page_of, notebooks), root / "reports" / "toy-2c" / name, reports=root / "reports")
    return root / "reports"


PAGES = [
    "runs.html",
    "toy-2c/20261120T190102Z/index.html",
    "toy-2c/20261121T190102Z/index.html",
    "toy-2c/20261121T190102Z/zero-cost.html",
]
FRONT, ANALYSIS = "toy-2c/20261120T190102Z/index.html", "toy-2c/20261120T190102Z/zero-cost.html"


# -- for everyone ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_no_grave_barrier(reports, opened, page, scheme):
    visit = opened(reports / page, viewport=PHONE, color_scheme=scheme, bypass_csp=True)
    visit.wait_until_drawn()
    for details in visit.page.locator("main details:not(.vega-embed details)").all():
        details.evaluate("e => e.open = true")  # what is folded is read, too
    visit.page.add_script_tag(path=str(AXE))
    report = visit.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    assert report["testEngine"]["version"] == "4.14.1" and len(report["passes"]) > 20, "axe looked at nothing"
    grave = [
        (problem["id"], problem["help"], [node["html"][:120] for node in problem["nodes"][:3]])
        for problem in report["violations"]
        if problem["impact"] in GRAVE
    ]
    assert grave == []


@pytest.mark.parametrize("page", [FRONT, ANALYSIS, "runs.html"])
def test_everything_can_be_read_without_scripts(reports, opened, page):
    visit = opened(reports / page, viewport=PHONE, java_script_enabled=False)
    headings = visit.page.locator("main h2:not(.provenance > h2)").all()
    assert headings and all(heading.is_visible() for heading in headings)


# -- to find things --------------------------------------------------------------------------------------------


def test_pages_lead_to_each_other_and_to_all_runs(reports, opened):
    visit = opened(reports / "runs.html", viewport=DESKTOP)
    visit.page.get_by_role("link", name="toy-2c/20261120T190102Z").click()
    visit.page.locator(".questions a[href='zero-cost.html']").click()
    visit.page.locator("nav.turn [rel=next]").click()
    assert visit.page.url.endswith("ladder.html")
    visit.page.locator("nav.turn [rel=prev]").click()
    assert visit.page.url.endswith("zero-cost.html")
    visit.page.locator("nav a.runs").click()
    assert visit.page.url == (reports / "runs.html").as_uri()


# -- the front page and the list of runs --------------------------------------------------------------------------


def test_the_front_page_gives_each_answer_in_one_sentence(tmp_path):
    notebook = write_notebook(tmp_path / "zero-cost.ipynb")
    text = notebook.read_text().replace("hand-written loop.", "hand-written loop.\\n\\n- And a longer story.")
    notebook.write_text(text)
    publish(example_run(tmp_path / "run"), [page_of(notebook)], tmp_path / "report")
    front, page = ((tmp_path / "report" / name).read_text() for name in ("index.html", "zero-cost.html"))
    card = re.search(r'<dl class="questions">.*?</dl>', front, re.DOTALL)[0]
    assert "hand-written loop." in card and "And a longer story." not in card
    assert "And a longer story." in page


def test_all_runs_are_listed_newest_first(reports):
    html = (reports / "runs.html").read_text(encoding="utf-8")
    links = re.findall(r'<h2><a href="([^"]+)">', html)
    assert links[0].startswith("toy-2c/20261121") and links[-1] == FRONT and len(links) == 2
    assert all((reports / link).exists() for link in links)
    assert html.count("<strong>Not evidence</strong>") == 1


def test_the_front_of_the_site_is_the_reference_run_or_the_newest_report(reports, opened):
    runs = site.summaries(reports)
    assert site.front(runs, "toy-2c/20261120T190102Z") == FRONT
    assert site.front(runs, "") == runs[0]["href"]
    visit = opened(reports / "index.html")
    visit.page.wait_for_url(f"**/{runs[0]['href']}")


def test_damaged_notes_do_not_hide_the_other_runs(tmp_path):
    for name, text in (("a", "{"), ("b", "[]"), ("c", json.dumps({"title": HOSTILE, "when": "2026"}))):
        folder = tmp_path / "machine" / name
        folder.mkdir(parents=True)
        (folder / site.SUMMARY).write_text(text)
        (folder / "index.html").write_text("")
    assert [facts["href"] for facts in site.summaries(tmp_path)] == ["machine/c/index.html"]


# -- on paper --------------------------------------------------------------------------------------------------


def test_a_browser_prints_the_pictures_and_what_is_folded(reports, opened):
    visit = opened(reports / ANALYSIS)
    visit.wait_until_drawn()
    visit.page.emulate_media(media="print")
    assert not visit.page.locator("figure.chart .live").first.is_visible()
    assert visit.page.locator(".static.wide > svg").first.is_visible()
    assert visit.page.locator("details.provenance dl").first.is_visible()
    assert visit.page.pdf().startswith(b"%PDF")
