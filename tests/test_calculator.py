"""The calculator of the price list adds up what a reader's request does, and keeps the counts in the address."""

import json
import re
from pathlib import Path

import nbformat
import pytest
from browsing import DESKTOP, PHONE
from made_up_runs import LADDER, Study, make_run
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from async_cost import words
from async_cost.findings import prices
from async_cost.report import calculator as calculating
from async_cost.report.calculator import NOT_MEASURED, calculator, total
from async_cost.report.latency import YOURS
from async_cost.report.notebook import page_of
from async_cost.report.publish import publish
from async_cost.runs.find import load_run

ONE = ("spawn/basic_scheduler_spawn_1000", "{}", "driver=task")
TIMES = {"tokio": 239_000.0, "smol": 597_000.0, "nio": 150_000.0}
EXAMPLE = {"spawn-one": 2, "box": 3}
#: A box that a committed machine knows to add less than nothing, or more, and one of its prices that is no evidence.
ELSEWHERE = {("spawn-one", "tokio"): (210.0, 198.0, 224.0, False), ("box", ""): (-1.0, -4.0, 2.0, False)}
ELSEWHERE |= {("spawn-one", "smol"): (430.0, 400.0, 460.0, True)}


@pytest.fixture(scope="module")
def page(runs) -> Path:
    """The page of a run of a thousand spawns and of boxes, beside one committed machine."""
    keys = {who: (ONE[0], who, ONE[2]) for who in TIMES}
    counts = {key: {"spawns": 1000} for key in keys.values()}
    study = Study({keys[who]: ns for who, ns in TIMES.items()}, baseline="tokio", counts=counts)
    run = make_run(runs / "run", None, ladder=LADDER, others={"runtimes": study}, rounds=60, noise=0.002)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calculating.prices, "committed", lambda: {"<Toy>": ELSEWHERE})
        data, metadata = calculator(load_run(run), prices.prices(load_run(run)), EXAMPLE)._repr_mimebundle_()
    output = new_output("display_data", data, metadata=metadata)
    cells = [new_markdown_cell("# What does it cost?"), new_code_cell("run.calculator()", outputs=[output])]
    nbformat.write(new_notebook(cells=cells), runs / "prices.ipynb")
    return publish(run, [page_of(runs / "prices.ipynb")], runs / "report")[1]


@pytest.fixture(scope="module")
def data(page) -> dict:
    """What the script of the page reads."""
    return json.loads(re.search(r"const COUNTED = (.*);\n", page.read_text(encoding="utf-8"))[1])


def together(data: dict, machine: int, runtime: str, **counts: float) -> list[str]:
    """What a sum and its interval read, computed from the table."""
    at = data["runtimes"].index(runtime)
    rows = {row["id"].replace("-", "_"): row["prices"][machine][at] for row in data["rows"]}
    ns, low, high, doubtful = total((count, rows[id]) for id, count in counts.items())
    return [words.time(ns) + (" ?" if doubtful else ""), f"{words.time(low)} to {words.time(high)}"]


def sums(tab) -> list[list[str]]:
    """What the sums of each machine read: a text for each runtime."""
    rows = tab.locator(".calculator tfoot tr").all()
    return [[cell.inner_text().replace("\n", "|") for cell in row.locator("td").all()] for row in rows]


def test_ends_of_intervals_add_up_and_what_was_not_measured_has_no_sum():
    assert total([(2, (10, 8, 13, False)), (0.5, (2, -2, 6, True))]) == (21, 15, 29, True)
    assert total([(1, (10, 8, 13, False)), (1, None)]) is None


def test_every_price_that_is_counted_says_how_it_is_driven():
    for (id, slot), entry in prices.counted().items():
        assert entry["driver"] and entry["workers"], id
        assert slot in ("", *prices.RUNTIMES) and entry["id"] == id


def test_a_count_changes_sum_interval_and_address_and_a_reload_restores_it(page, data, opened):
    assert data["machines"] == [YOURS, "<Toy>"]
    visit = opened(page, viewport=DESKTOP)
    tab = visit.page
    assert sums(tab)[0][0] == "|".join(together(data, 0, "tokio", spawn_one=2, box=3))
    tab.get_by_label("spawn and join a thousand tasks that yield, one worker, by a task").fill("7.5")
    changed = sums(tab)
    assert changed[0] == ["|".join(together(data, 0, on, spawn_one=7.5, box=3)) for on in data["runtimes"]]
    assert changed[1][0] == "|".join(together(data, 1, "tokio", spawn_one=7.5, box=3))
    assert changed[1][1:] == ["|".join(together(data, 1, "smol", spawn_one=7.5, box=3)), NOT_MEASURED]
    assert tab.url.endswith("#counts:box=3&spawn-one=7.5")
    tab.reload()
    assert sums(tab) == changed
    tab.get_by_label("spawn and join a thousand tasks that yield, one worker, by a task").fill("0")
    tab.get_by_label("a box of dyn around a small future").fill("1")
    assert sums(tab)[1][0] == f"{words.MINUS}1.00 ns|{words.MINUS}4.00 ns to 2.00 ns".replace(" ns", f"{words.NBSP}ns")
    tab.get_by_label("an async lock that a hundred tasks want").fill("1")
    assert {text for texts in sums(tab) for text in texts} == {NOT_MEASURED}
    assert "one thread, simulated" in tab.get_by_role("status").inner_text(), "the drivers that are mixed"
    tab.get_by_role("button", name="Back to the worked example").press("Enter")
    assert sums(tab)[0][0] == "|".join(together(data, 0, "tokio", spawn_one=2, box=3))
    assert visit.complaints == []


@pytest.mark.parametrize("bad", ["-3", "1e400", "1000001", "<b>2</b>"])
def test_what_is_no_count_is_refused_and_said(page, opened, bad):
    tab = opened(page, viewport=DESKTOP).page
    before = tab.url
    field = tab.get_by_label("a box of dyn around a small future")
    field.fill(bad)
    assert {text for texts in sums(tab) for text in texts} == {words.NOTHING}
    status = tab.get_by_role("status").inner_text()
    assert f"“{bad}” is no count for “a box of dyn around a small future”" in status and "0 to 1,000,000" in status
    assert field.get_attribute("aria-invalid") == "true" and tab.url == before
    field.fill("1")
    assert words.NOTHING not in {text for texts in sums(tab) for text in texts}
    tab.evaluate("bad => { location.hash = '#counts:box=' + encodeURIComponent(bad) + '&nothing=1' }", bad)
    tab.get_by_text(f"“{bad}” is no count").wait_for()
    assert "“nothing”, which has no price here" in tab.get_by_role("status").inner_text()


def test_without_a_script_the_worked_example_stands_there(page, data, opened):
    tab = opened(page, viewport=PHONE, java_script_enabled=False).page
    text = tab.locator(".calculator").inner_text()
    assert ", ".join(together(data, 0, "tokio", spawn_one=2, box=3)) in text
    assert "together, <Toy>" in text and NOT_MEASURED in text and tab.locator("input").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_on_a_phone_and_prints_what_is_counted(page, opened, scheme):
    visit = opened(page, viewport={"width": 400, "height": 800}, color_scheme=scheme)
    tab = visit.page
    box = "document.querySelector('.calculator .table')"
    assert tab.evaluate(f"{box}.scrollWidth <= {box}.clientWidth"), "no scrolling sideways"
    colour, paper = tab.locator(".calculator input").first.evaluate(
        "e => [getComputedStyle(e).color, getComputedStyle(e).backgroundColor]"
    )
    assert colour != paper
    tab.emulate_media(media="print")
    assert tab.locator(".calculator tbody tr:visible").count() == len(EXAMPLE)
