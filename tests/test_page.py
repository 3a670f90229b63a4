"""The published pages as a reader meets them: opened from disk in a browser, on a desk and on a phone."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import DESKTOP, DRAWN_MS, PHONE, Visit
from made_up_runs import publish_example

LOCAL = ("file:", "data:", "blob:")

# For each chart, the size in pixels of what is seen of it: live chart or static picture.
SEEN = """() => [...document.querySelectorAll("figure.chart")].map(figure =>
    [...figure.querySelectorAll(".live svg.marks, .static svg")]
        .filter(svg => svg.checkVisibility() && svg.parentElement.getBoundingClientRect().height > 0)
        .map(svg => svg.getBoundingClientRect())
        .map(box => [box.width, box.height]))"""


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    return publish_example(tmp_path_factory.mktemp("report"), profile="quick")


@pytest.fixture(scope="module", params=["light", "dark"])
def scheme(request) -> str:
    return request.param


@pytest.fixture(scope="module", params=[DESKTOP, PHONE], ids=["desktop", "phone"])
def viewport(request) -> dict[str, int]:
    return request.param


@pytest.fixture(scope="module", params=["index.html", "zero-cost.html"])
def visit(report, browser, viewport, scheme, request) -> Iterator[Visit]:
    """Opened once for all tests that only read."""
    visit = Visit(browser, report / request.param, viewport=viewport, color_scheme=scheme)
    visit.wait_until_drawn()
    yield visit
    visit.page.context.close()


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


def test_a_mark_tells_its_numbers(report, opened):
    visit = opened(report / "zero-cost.html", viewport=DESKTOP)
    visit.wait_until_drawn()
    # The tick of a baseline is a line without a width, which Playwright takes for hidden.
    visit.page.locator(".live .mark-symbol.role-mark path[aria-label*='ratio']").first.hover(force=True)
    tooltip = visit.page.locator("#vg-tooltip-element")
    tooltip.wait_for(state="visible", timeout=DRAWN_MS)
    assert "ratio" in tooltip.inner_text()


def test_charts_are_there_without_scripts(report, opened, viewport, scheme):
    visit = opened(report / "zero-cost.html", viewport=viewport, color_scheme=scheme, java_script_enabled=False)
    for figure in visit.page.locator("figure.chart").all():
        seen = [picture for picture in figure.locator(".static > svg").all() if picture.is_visible()]
        assert len(seen) == 1
        box = seen[0].bounding_box()
        assert 200 < box["width"] <= viewport["width"] and box["height"] > 80
