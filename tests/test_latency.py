"""The latency numbers on the first screen are declared, driven alike within a block, and shown for all machines."""

import re
from itertools import groupby
from xml.etree import ElementTree

import polars as pl
import pytest
from made_up_runs import BEST_NS, LADDER, REQUESTS, RUNGS, make_run

from async_cost import words
from async_cost.findings import latency
from async_cost.findings.definitions import definitions
from async_cost.report import charts
from async_cost.report import latency as shown
from async_cost.runs.comparisons import of_today
from async_cost.runs.find import load_run

ROWS = list(latency.latencies().values())
BLOCKS = [list(rows) for _, rows in groupby(ROWS, key=lambda row: row.block)]
FAST = {row.id: 2.0 * (1 + at) for at, row in enumerate(ROWS)}


def parts(parameter: str) -> dict[str, str]:
    """`driver=task workers=cores` as a mapping."""
    return dict(part.split("=", 1) for part in parameter.split() if "=" in part)


# -- the table behind the screen -----------------------------------------------------------------------------------


def test_no_name_is_there_twice_and_rows_of_a_block_stand_together():
    for names in ([row.short for row in ROWS], [row.card for row in ROWS if row.card], [row.quantity for row in ROWS]):
        assert len(set(names)) == len(names)
    assert len({rows[0].block for rows in BLOCKS}) == len(BLOCKS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_what_adds_is_a_comparison_that_its_study_declares(row):
    if row.added:
        declared = of_today().filter(study=row.price.study, variant=row.price.key[1], parameter=row.price.key[2])
        assert row.price.baseline[1] in declared["baseline_variant"]
        assert row.quantity.operation == "difference"


@pytest.mark.parametrize("rows", BLOCKS, ids=lambda rows: rows[0].block)
def test_a_block_is_driven_alike(rows):
    assert len({(row.driver, row.workers) for row in rows}) == 1
    wholes = {row.price.key for row in rows if not row.added}
    added = [row for row in rows if row.added]
    assert not added or wholes <= {row.price.baseline for row in added}, "a whole that nothing here is compared with"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_row_is_driven_as_its_keys_say(row):
    for _, _, parameter in (row.price.key, row.price.baseline):
        stated = parts(parameter)
        assert stated.get("driver", row.driver) == row.driver
        assert stated.get("workers", row.workers) == row.workers
        assert (row.driver == "task") == ("driver" in stated), "a root that is a task is said to be one"


def test_the_findings_that_explain_them_exist():
    known = set(definitions()["id"])
    assert {row.finding for row in ROWS if row.finding} <= known
    assert {row.page for row in ROWS if not row.finding} <= {""}


# -- numbers of a run ----------------------------------------------------------------------------------------------


def test_a_run_has_the_numbers_of_its_studies_and_says_what_it_lacks(runs):
    run = load_run(make_run(runs / "run", None, ladder=LADDER, rounds=60, noise=0.002))
    numbers = latency.numbers(run)
    assert numbers["id"].to_list() == list(latency.latencies())
    lean = numbers.row(by_predicate=pl.col("id") == "request-lean", named=True)
    assert lean["added"] and lean["lacks"] is None and lean["low"] < lean["ns"] < lean["high"]
    assert lean["ns"] == pytest.approx((RUNGS["frontier"][0] - 1) * BEST_NS / REQUESTS, rel=0.05)
    loop = numbers.row(by_predicate=pl.col("id") == "request-loop", named=True)
    assert not loop["added"] and loop["ns"] == pytest.approx(BEST_NS / REQUESTS, rel=0.02)
    assert "servers" in numbers.filter(id="tcp-loop")["lacks"][0]


# -- tables and picture --------------------------------------------------------------------------------------------


TIMES = {0.04: "0.04 ns", 1.31: "1.3 ns", 9.96: "10 ns", 86.4: "86 ns", 121.4: "121 ns", 999.7: "1.0 µs"}
TIMES |= {3633: "3.6 µs", 11725: "12 µs", 4.2e6: "4.2 ms", -0.86: f"{words.MINUS}0.86 ns"}


@pytest.mark.parametrize(("ns", "text"), TIMES.items())
def test_a_time_has_two_digits_or_is_whole(ns, text):
    assert words.short_time(ns).replace(words.NBSP, " ") == text


LEAST = {"call-async-fn": 1.31, "tokio-await": 77.6, "tokio-spawn": 341.6, "tcp-tokio": 4039.0}
SLOWER = f"{words.MINUS}0.86{words.NBSP}ns"


@pytest.mark.parametrize("more", [{}, {"yours": {"tokio-await": 100.0}}], ids=["two machines", "three"])
def test_each_machine_has_a_column(more):
    numbers = {"Xeon": FAST, "EPYC": {**FAST, "request-lean": -0.86}} | more
    markdown = shown.markdown(numbers, "docs/sample/{}.md")
    assert {line.count("|") for line in markdown.splitlines()} == {2 + len(numbers)}
    assert {len(row.cells) for _, rows in shown.blocks(numbers) for row in rows} == {len(numbers)}
    assert SLOWER in markdown and f"+{SLOWER}" not in markdown
    assert markdown.count(f" {words.NOTHING} ") == len(more) * (len(ROWS) - 1)
    assert "[await a call that waits once](docs/sample/call-styles.md#finding-call-styles-await)" in markdown


def test_the_picture_says_its_numbers_and_follows_the_page():
    sentence = "An async fn adds 1.3 ns; an await takes 78 ns, a task 342 ns, TCP 4.0 µs"
    assert shown.title({"Xeon": LEAST}).replace(words.NBSP, " ") == sentence
    many = [f"a processor with a long name {number}" for number in range(4)]
    svg = shown.card(dict.fromkeys(many, LEAST | {"call-async-fn": -0.86}))
    for text in (SLOWER, *many, "10 µs"):
        assert text in svg
    rightmost = re.search(r'translate\(([\d.]+),12\)"[^>]*>10 µs</text>', svg)
    assert float(rightmost[1]) > 200, "the machines leave no room for the points"
    assert charts.INK in svg and charts.INK not in charts.dark(svg)


def test_a_badge_says_the_number_of_the_first_machine_and_a_link_shows_the_picture():
    files, slower = (shown.to_share({"Xeon": LEAST | more, "EPYC": FAST}) for more in ({}, {"tokio-spawn": 999.0}))
    assert len(files) == 1 + len(shown.IN_TITLE)
    badge = ElementTree.fromstring(files["badge-tokio-spawn.svg"])
    assert [text.replace(words.NBSP, " ") for text in badge.itertext() if text][1:] == [
        "spawn and await on tokio",
        "342 ns (Xeon)",
    ]
    assert f">+1.3{words.NBSP}ns (Xeon)<" in files["badge-call-async-fn.svg"]
    card = files["card.png"]
    assert card.startswith(b"\x89PNG") and tuple(int.from_bytes(card[at : at + 4]) for at in (16, 20)) == (1200, 630)
    assert card != slower["card.png"], "the picture shows no numbers"
    assert shown.to_share({}) == shown.to_share({"Xeon": {"tokio-await": 1.0}}) == {}
