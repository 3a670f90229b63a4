"""What async adds to a reader's own request is the sum that the prices of a run make, in Python and on the page
alike.
"""

import math

import nbformat
import pytest
from example_report import run_info, write_run
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from async_cost.report import price_list
from async_cost.report.notebook import page_of
from async_cost.report.publish import publish
from async_cost.runs.run import load_run
from async_cost.studies.program import Term, added, terms
from async_cost.testing.made_up_runs import ALL, BEST_NS, LADDER, ON, REQUESTS, RUNGS, ZERO_COST, make_run

TERMS = [
    Term("request", "a request", 100.0, 90.0, 120.0, 0, 1, 1, 1, "a < b"),
    Term("work", "work", 0.0, 0.0, 0.0, 0, 0, 50, 10, "<b>nothing</b>"),
    Term("boxes", "boxes", 20.0, 16.0, 23.0, 0, 0, 1, 0, "a box"),
    Term("connections", "connections", -0.5, -0.7, -0.1, 3, 3, 256, 3, "a crowd"),
]
CASES = [
    {},
    {"boxes": 1},
    {"boxes": 12.5, "work": 3},
    {"work": 1000, "connections": 10_000},
    {"boxes": 0, "connections": 0},
]


def test_squares_of_errors_add_up_each_side_for_itself():
    found = added(TERMS, {"request": 1, "boxes": 3, "connections": 13})
    assert found.ns == pytest.approx(100 + 60 - 5)
    assert found.low == pytest.approx(155 - math.hypot(10, 12, 2)) and found.high == pytest.approx(
        155 + math.hypot(20, 9, 4)
    )
    assert found.beyond == ["boxes"]


def test_a_number_within_what_was_measured_does_not_extrapolate():
    assert added(TERMS, {"request": 1, "boxes": 1, "work": 50, "connections": 256}).beyond == []
    assert added(TERMS, {"request": 1, "work": 50.1, "connections": 2}).beyond == ["work", "connections"]


def test_terms_are_those_of_the_run(runs):
    truth = ZERO_COST | {("manual (best)", ON): 0.97}
    rungs = LADDER | {("frontier", ALL): 1.5}
    found = {
        term.name: term for term in terms(load_run(make_run(runs / "all", truth, ladder=rungs, rounds=60, noise=0.002)))
    }
    assert found["request"].ns == pytest.approx(0.4 * BEST_NS / REQUESTS, rel=0.02)
    assert found["request"].address and found["boxes"].address
    assert found["boxes"].ns == pytest.approx(
        (RUNGS["lean + box"][0] - RUNGS["slab index"][0]) * BEST_NS / REQUESTS, rel=0.05
    )
    assert found["connections"].ns == pytest.approx(0.1 * BEST_NS / REQUESTS / 253, rel=0.1)
    assert found["work"].most == pytest.approx(10, rel=0.05), "ten thousand steps of a nanosecond"
    assert "tasks" not in found, "no runtime was measured"


def test_without_the_leanest_server_there_is_no_sum(runs):
    assert terms(load_run(make_run(runs / "none", rounds=20, work=False))) == []


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    root = tmp_path_factory.mktemp("program")
    form = new_output("display_data", {"text/html": price_list.program(TERMS), "text/plain": "…"})
    cells = [new_markdown_cell("# Prices"), new_code_cell("form", outputs=[form], execution_count=1)]
    nbformat.write(new_notebook(cells=cells), root / "prices.ipynb")
    publish(write_run(root / "run", run_info()), [page_of(root / "prices.ipynb")], root / "report", pdf=False)
    return (root / "report" / "prices.html").as_uri()


@pytest.mark.parametrize("counts", CASES)
def test_the_page_adds_up_what_python_adds_up(address, browser, counts):
    page = browser.new_page()
    page.goto(address)
    for name, count in counts.items():
        page.locator(f".program [name={name}]").fill(str(count))
    result = page.locator(".program output")
    entered = {term.name: term.usual for term in TERMS} | counts
    expected = added(TERMS, entered)
    for name in ("ns", "low", "high"):
        assert float(result.get_attribute(f"data-{name}")) == pytest.approx(getattr(expected, name))
    assert result.get_attribute("data-beyond") == " ".join(expected.beyond)
    assert ("extrapolates" in result.inner_text()) == bool(expected.beyond)
    page.close()


def test_a_link_carries_the_values(address, browser):
    page = browser.new_page()
    page.goto(address)
    page.get_by_label("Boxes").fill("4")
    assert "boxes=4" in page.evaluate("location.hash")
    page.goto("about:blank")
    page.goto(f"{address}#program?boxes=7&work=2.5&unknown=1&connections=<b>")
    assert page.get_by_label("Boxes").input_value() == "7" and page.get_by_label("Work").input_value() == "2.5"
    assert page.get_by_label("Connections").input_value() == "3", "what is no number is left as it was"
    page.close()


def test_without_the_script_the_prices_are_there_to_be_read():
    shown = price_list.program(TERMS)
    assert "&lt;b&gt;nothing" in shown and "<b>" not in shown and "20 ns" in shown.replace("\N{NO-BREAK SPACE}", " ")
