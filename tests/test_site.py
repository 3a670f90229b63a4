"""The site as its readers meet it, opened from disk in a browser: on a desk and on a phone, by keyboard, by a screen
reader, without scripts, on paper, and as a list of runs.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import DESKTOP, DRAWN_MS, PHONE, Visit
from made_up_runs import example_run, write_notebook

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
LOCAL = ("file:", "data:", "blob:")

# For each chart, the size in pixels of what is seen of it: live chart or static picture.
SEEN = """() => [...document.querySelectorAll("figure.chart")].map(figure =>
    [...figure.querySelectorAll(".live svg.marks, .static svg")]
        .filter(svg => svg.checkVisibility() && svg.parentElement.getBoundingClientRect().height > 0)
        .map(svg => svg.getBoundingClientRect())
        .map(box => [box.width, box.height]))"""


@pytest.fixture(scope="module", params=["light", "dark"])
def scheme(request) -> str:
    return request.param


@pytest.fixture(scope="module", params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def viewport(request) -> dict[str, int]:
    return request.param


@pytest.fixture(scope="module", params=[FRONT, ANALYSIS])
def visit(reports, browser, viewport, scheme, request) -> Iterator[Visit]:
    """Opened once for all tests that only read."""
    visit = Visit(browser, reports / request.param, viewport=viewport, color_scheme=scheme)
    visit.wait_until_drawn()
    yield visit
    visit.page.context.close()


# -- what is seen ----------------------------------------------------------------------------------------------


def test_page_opens_quietly_and_alone(visit):
    assert visit.complaints == []
    assert [url[:100] for url in visit.requests if not url.startswith(LOCAL)] == []


def test_page_does_not_scroll_sideways(visit):
    width, window = visit.page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert width <= window, f"the page is {width} px wide in a window of {window} px"


def test_every_chart_is_drawn_once(visit):
    assert visit.page.locator("figure, .latencies").count()
    for number, seen in enumerate(visit.page.evaluate(SEEN)):
        assert len(seen) == 1, f"chart {number} is seen {len(seen)} times"
        width, height = seen[0]
        assert width > 200 and height > 80, f"chart {number} is {width} by {height} px"


def test_text_stands_out_from_its_ground(visit, scheme):
    """WCAG asks for 4.5:1; measured on the text that charts and pages are read by."""
    ratios = visit.page.evaluate(
        """() => {
            const luminance = colour => {
                const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
                    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const paper = luminance(getComputedStyle(document.body).backgroundColor);
            const contrast = colour => {
                const ink = luminance(colour);
                return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
            };
            const words = [...document.querySelectorAll("main p, main details:not([title]) > summary, footer p, .live svg text")];
            return words.map(e => [e.textContent, contrast(getComputedStyle(e)[e.closest("svg") ? "fill" : "color"])]);
        }"""
    )
    assert ratios
    assert [(text, ratio) for text, ratio in ratios if ratio < 4.5] == []


def test_a_mark_tells_its_numbers(reports, opened):
    visit = opened(reports / ANALYSIS, viewport=DESKTOP)
    visit.wait_until_drawn()
    # The tick of a baseline is a line without a width, which Playwright takes for hidden.
    visit.page.locator(".live .mark-symbol.role-mark path[aria-label*='ratio']").first.hover(force=True)
    tooltip = visit.page.locator("#vg-tooltip-element")
    tooltip.wait_for(state="visible", timeout=DRAWN_MS)
    assert "ratio" in tooltip.inner_text()


def test_charts_are_there_without_scripts(reports, opened, viewport, scheme):
    visit = opened(reports / ANALYSIS, viewport=viewport, color_scheme=scheme, java_script_enabled=False)
    for figure in visit.page.locator("figure.chart").all():
        seen = [picture for picture in figure.locator(".static > svg").all() if picture.is_visible()]
        assert len(seen) == 1
        box = seen[0].bounding_box()
        assert 200 < box["width"] <= viewport["width"] and box["height"] > 40


# -- for everyone ----------------------------------------------------------------------------------------------


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
    visit.page.locator("nav").get_by_role("link", name="ladder").click()
    assert visit.page.url.endswith("ladder.html")
    visit.page.locator("nav a.runs").click()
    assert visit.page.url == (reports / "runs.html").as_uri()


# -- the front page and the list of runs --------------------------------------------------------------------------


def test_all_runs_are_listed_newest_first_and_the_newest_or_the_reference_run_is_in_front(reports, opened, monkeypatch):
    html = (reports / "runs.html").read_text(encoding="utf-8")
    newest = FRONT.replace("20261120", "20261121")
    assert re.findall(r'<li><a href="([^"]+)">', html) == [newest, FRONT]
    opened(reports / "index.html").page.wait_for_url(f"**/{newest}")
    monkeypatch.setattr("async_cost.report.publish.reference", lambda: "toy-2c/20261120T190102Z")
    root = reports.parent / "20261121T190102Z"
    publish(root / "toy-2c" / root.name, [], reports / "toy-2c" / root.name, reports=reports)
    assert f"url={FRONT}" in (reports / "index.html").read_text(encoding="utf-8")


# -- on paper --------------------------------------------------------------------------------------------------


def test_a_browser_prints_the_pictures_and_what_is_folded(reports, opened):
    visit = opened(reports / ANALYSIS)
    visit.wait_until_drawn()
    visit.page.emulate_media(media="print")
    assert not visit.page.locator("figure.chart .live").first.is_visible()
    assert visit.page.locator(".static > svg").first.is_visible()
    assert visit.page.locator("details.provenance dl").first.is_visible()
    assert visit.page.pdf().startswith(b"%PDF")
