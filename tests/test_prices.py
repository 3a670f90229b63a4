"""The price list holds what a run measured, for one unit, and says what it lacks; its page sorts, filters and hands it
out.
"""

import csv
import io
import re
from urllib.parse import unquote

import nbformat
import polars as pl
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from told import VERDICTS, check_alts, check_form, read, tell

from async_cost.report import price_list
from async_cost.report.headline import reference_run
from async_cost.report.notebook import page_of
from async_cost.report.publish import publish
from async_cost.runs.comparisons import BASE_KEY, KEY, of_today
from async_cost.runs.run import load_run
from async_cost.statistics import interval
from async_cost.studies import prices
from async_cost.testing.made_up_runs import BEST_NS, FEW, LADDER, REQUESTS, RUNGS, Study, make_run
from async_cost.workflow.studies import MEASURED

ROOM = "prices"
SPAWN = ("spawn/basic_scheduler_spawn_1000", "tokio", "")
SMOL = (SPAWN[0], "smol", "")


@pytest.fixture(scope="module")
def run(runs):
    """The ladder, and of the runtimes a thousand tasks of two of them."""
    counts = {"spawns": 1000, "allocations": 2000, "allocated_bytes": 64_000}
    study = Study(
        {SPAWN: 500_000.0, SMOL: 250_000.0},
        baseline="tokio",
        counts={SPAWN: counts},
        metrics={SPAWN: {"cpu_ns": 900_000.0}},
    )
    return make_run(runs / "run", None, ladder=LADDER, others={"runtimes": study}, rounds=60, noise=0.002, work=False)


@pytest.fixture(scope="module")
def listed(run) -> pl.DataFrame:
    return prices.prices(load_run(run))


# -- the table behind the list -------------------------------------------------------------------------------------


def test_every_price_is_a_key_that_its_study_compares():
    known = of_today()
    keys = pl.concat(
        [known.select("study", *KEY), known.select("study", *BASE_KEY).rename(dict(zip(BASE_KEY, KEY, strict=True)))]
    )
    entries = prices.entries().filter(pl.col("study") != "")
    assert set(entries["study"]) <= set(MEASURED)
    found = {
        entry["what"]: not keys.filter(
            study=entry["study"], **{name: entry[name] for name in KEY if name != "bench" or entry["bench"]}
        ).is_empty()
        for entry in entries.sort("what").iter_rows(named=True)
        if entry["variant"] != "smol"  # which is not measured at every load
    }
    assert [what for what, known in found.items() if not known] == []


def test_every_difference_is_a_comparison_that_its_study_declares():
    known = of_today()
    for entry in prices.entries().filter(pl.col("baseline_variant") != "").iter_rows(named=True):
        names = (
            "study",
            "variant",
            "parameter",
            "baseline_variant",
            *(name for name in ("bench", "baseline_bench") if entry[name]),
        )
        assert not known.filter(**{name: entry[name] for name in names}).is_empty(), entry


def test_everything_that_a_reader_looks_for_is_listed_and_the_reference_run_knows_sixty():
    listed = prices.prices(reference_run())
    assert listed["ns"].count() >= 60
    assert listed.filter(pl.col("ns").is_null())["lacks"].null_count() == 0
    kinds = {
        "box",
        "wake",
        "poll",
        "spawn and join",
        "spawn through a trait",
        "block_on",
        "yield and switch",
        "channel",
        "lock",
    }
    assert kinds | {"notify", "timer", "spawn_blocking", "job of a pool", "connection"} <= set(listed["kind"])


# -- numbers -------------------------------------------------------------------------------------------------------


def test_a_difference_is_what_one_thing_adds_to_a_unit(listed):
    row = interval.row(listed, variant="lean + box")
    (boxed, more, allocated), (plain, less, none) = RUNGS["lean + box"], RUNGS["slab index"]
    assert row["ns"] == pytest.approx((boxed - plain) * BEST_NS / REQUESTS, rel=0.02)
    assert row["low"] < row["ns"] < row["high"]
    assert row["instructions"] == pytest.approx(more - less, abs=1) and row["allocations"] == allocated - none
    assert row["cpu_ns"] is None and row["evidence"]


def test_a_whole_is_shared_out_among_what_an_iteration_does(listed):
    row = interval.row(listed, bench=SPAWN[0], variant="tokio")
    assert row["ns"] == pytest.approx(500, rel=0.01) and row["low"] < row["ns"] < row["high"]
    assert row["cpu_ns"] == pytest.approx(900, rel=0.01)
    assert row["allocations"] == 2 and row["bytes"] == 64 and row["instructions"] is None


def test_what_is_not_measured_says_why(listed):
    assert "no study" in interval.row(listed, kind="block_on")["lacks"]
    assert "does not hold thread-pools" in listed.filter(study="thread-pools")["lacks"][0]
    assert interval.row(listed, bench=SPAWN[0], variant="nio")["lacks"] == "this run did not measure it"
    assert interval.row(listed, bench=SPAWN[0], variant="smol")["lacks"] == "what an iteration does was not counted"
    assert listed.filter(pl.col("lacks").is_not_null())["ns"].null_count() == listed["ns"].null_count()


def test_a_price_of_a_refused_group_is_no_evidence(runs):
    run = make_run(runs / "refused", None, ladder=LADDER, rounds=60, noise=0.002, work=False, controls={FEW: 1.05})
    row = interval.row(prices.prices(load_run(run)), variant="lean + box")
    assert not row["evidence"] and row["ns"] > 0


# -- the page ------------------------------------------------------------------------------------------------------


def test_the_notebook_has_the_form_of_an_analysis():
    check_form(read(ROOM))


def test_the_page_says_what_the_run_says(run, listed):
    told = tell(ROOM, run)
    known = listed["ns"].count()
    assert re.search(r"a box around a small future costs (10\.9|11\.[01]) ns", told.answer)
    assert f"{known} prices are listed" in told.answer and told.trusted
    assert told.tables[0].count('<tr class="known">') == known
    assert "not measured: no study measures it by itself" in told.tables[0]
    check_alts(told)


def test_a_run_that_is_no_evidence_marks_every_price(runs):
    told = tell(ROOM, make_run(runs / "quick", None, ladder=LADDER, rounds=20, work=False, profile="quick"))
    assert not told.trusted and "Not evidence" in told.trust
    assert told.tables[0].count("not evidence") == told.tables[0].count('<tr class="known">') > 0
    assert not any(word in told.text for word in VERDICTS)


def test_words_of_a_run_are_no_markup(listed):
    strange = listed.head(1).with_columns(what=pl.lit("<b>x</b>"), who=pl.lit("<i>"), variant=pl.lit("<u>"))
    shown = price_list.table(strange)
    assert "&lt;b&gt;x" in shown and not any(tag in shown for tag in ("<b>", "<i>", "<u>"))


@pytest.fixture(scope="module")
def page(run, listed, browser, tmp_path_factory):
    root = tmp_path_factory.mktemp("prices")
    table = new_output("display_data", {"text/html": price_list.table(listed), "text/plain": "…"})
    cells = [new_markdown_cell("# Prices"), new_code_cell("table", outputs=[table], execution_count=1)]
    nbformat.write(new_notebook(cells=cells), root / "prices.ipynb")
    publish(run, [page_of(root / "prices.ipynb")], root / "report", pdf=False)
    page = browser.new_page()
    page.goto((root / "report" / "prices.html").as_uri())
    yield page
    page.close()


def test_the_list_can_be_filtered_and_taken_away(page, listed):
    page.get_by_label("Kind").select_option("box")
    shown = page.locator(".prices tbody tr:visible")
    assert shown.count() == listed.filter(kind="box").height
    page.get_by_label("Words").fill("16 KiB zeroed")
    link = page.get_by_role("link", name="These rows as CSV").get_attribute("href")
    rows = list(csv.DictReader(io.StringIO(unquote(link.split(",", 1)[1]))))
    price = interval.row(listed, variant="16 KiB zeroed")
    assert [row["what"] for row in rows] == [price["what"]] and rows[0]["kind"] == "box"
    assert float(rows[0]["time"]) == pytest.approx(price["ns"], rel=1e-4)
    page.get_by_label("Words").fill("")
    page.get_by_label("Kind").select_option("")


def test_a_price_that_is_a_comparison_can_be_asked(page, listed):
    note = page.locator(f".asked #asked-{interval.row(listed, variant='lean + box')['asked']}")
    page.locator(".prices tbody tr", has_text="a box around a small future of known type").locator("a").click()
    assert note.is_visible() and "slab index" in note.inner_text()
    page.keyboard.press("Escape")


def test_the_list_can_be_sorted_by_keyboard_with_what_is_unknown_last(page, listed):
    for down in (False, True):
        page.get_by_role("button", name="time", exact=True).press("Enter")
        values = [
            float(cell)
            for cell in page.locator(".prices td:nth-child(3)[data-value]").evaluate_all(
                "cells => cells.map(cell => cell.dataset.value)"
            )
        ]
        assert values == sorted(values, reverse=down) and len(values) == listed["ns"].count()
        assert "not measured" in page.locator(".prices tbody tr").last.inner_text()
