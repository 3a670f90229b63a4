"""A number of a page shows where it comes from: by pointer, finger and keyboard, with and without the script."""

import re

import nbformat
import pytest
from made_up_runs import OFF, Study, make_run
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from async_cost import words
from async_cost.report import figures
from async_cost.report.notebook import page_of
from async_cost.report.notes import comparisons_by_address, notes
from async_cost.report.publish import publish
from async_cost.report.reading import Reading
from async_cost.report.tables import comparison_table
from async_cost.runs.comparisons import address
from async_cost.runs.find import load_run
from async_cost.statistics.measured import Measured, both_ways


def linked(row: dict, turned: dict) -> str:
    """Both ratios and what one adds, each a link to where it comes from."""
    shown = [(row, figures.RATIO, "ratio", "low", "high"), (turned, figures.RATIO, "ratio", "low", "high")]
    shown.append((row, figures.ADDED, "added_ns", "added_low", "added_high"))
    return "; ".join(
        figures.value(what, *(comparison[name] for name in names), address(comparison))
        for comparison, what, *names in shown
    )


@pytest.fixture(scope="module")
def run(runs):
    return make_run(runs / "notes", rounds=40, episodes=8, between=0.01)


@pytest.fixture(scope="module")
def rows(run) -> tuple[dict, dict]:
    """`nonbox` against `manual`, and the other way round."""
    measured = Measured(load_run(run), "zero-cost")
    both = both_ways(measured.comparisons).filter(parameter=OFF, baseline_parameter=OFF)
    pairs = (("nonbox", "manual"), ("manual", "nonbox"))
    return tuple(both.filter(variant=variant, baseline_variant=other).row(0, named=True) for variant, other in pairs)


@pytest.fixture(scope="module")
def report(run, rows, tmp_path_factory):
    root = tmp_path_factory.mktemp("notes")
    row, turned = rows
    text = linked(row, turned)
    records = {"rows": [address(row), address(turned), "0" * 12]}
    shown = new_output("display_data", {"text/markdown": text, "text/plain": "…"}, metadata=records)
    cells = [
        new_markdown_cell("# Notes"),
        new_code_cell("say", outputs=[shown], execution_count=1, metadata={"tags": ["answer"]}),
    ]
    nbformat.write(new_notebook(cells=cells), root / "zero-cost.ipynb")
    publish(run, [page_of(root / "zero-cost.ipynb")], root / "report")
    return root / "report"


# -- links ---------------------------------------------------------------------------------------------------------


def test_numbers_of_comparisons_are_links_and_read_as_before(rows):
    row, turned = rows
    text = linked(row, turned)
    assert text.count(f"](#note-{address(row)})") == 2 and text.count(f"](#note-{address(turned)})") == 1
    assert "note-" not in words.plain(text) and words.plain(text) == words.unlinked(text)


def test_a_number_of_a_table_is_a_link(run, rows):
    html = comparison_table(Reading(load_run(run)).comparisons, "All").data
    for row in rows:
        shown = figures.value(figures.RATIO, row["ratio"], row["low"], row["high"]).split(" ")[0]
        assert f'<a href="#note-{address(row)}">{shown}</a>' in html


def test_busy_threads_and_processor_time_of_both_sides_stand_beside_their_ratio(runs):
    """The latter for a unit of work, of which an iteration does ten."""
    one, two = (("spawn", name, "") for name in ("tokio", "nio"))
    metrics = {one: {"busy_threads": 1, "cpu_ns": 2e6}, two: {"busy_threads": 3, "cpu_ns": 4e6}}
    times, counts = {one: 2e6, two: 1e6}, {key: {"units": 10} for key in (one, two)}
    study = Study(times, baseline="tokio", metrics=metrics, counts=counts)
    reading = Reading(load_run(make_run(runs / "busy", None, others={"runtimes": study}, rounds=40, noise=1e-4)))
    nio, tokio = (comparison_table(reading.comparisons.filter(variant=name), name).data for name in ("nio", "tokio"))
    assert ">3 / 1<" in nio and re.search(r">2\.00. \(400.µs / 200.µs\)<", nio)
    assert ">1 / 3<" in tokio and re.search(r">0\.500. \(200.µs / 400.µs\)<", tokio)
    unknown = comparison_table(reading.comparisons.with_columns(busy=None, cpu_ns=None), "none").data
    assert "busy threads" not in unknown and "processor time" not in unknown


def test_a_row_that_is_no_comparison_or_has_other_numbers_has_no_note(rows):
    row = rows[0]
    assert address({"ratio": 2.0, "low": 1.0, "high": 3.0}) is None
    assert address(row | {"ratio": row["ratio"] * 1.001}) != address(row)
    assert address(row | {"note": "more"}) == address(row)


# -- notes ---------------------------------------------------------------------------------------------------------


def test_a_note_says_baseline_unit_rows_and_command(run, rows):
    row = rows[0]
    loaded = load_run(run)
    (note,) = notes(loaded, comparisons_by_address(loaded), [address(row), "0" * 12, address(row)])
    assert "nonbox" in note["names"] and "<code>manual</code>" in note["baseline"]
    assert "more a request" in note["numbers"]
    assert note["command"] == 'make report STUDIES=zero-cost ONLY="nonbox; manual"'
    assert note["rows"] == "data/zero-cost.time.csv"


def test_every_link_of_a_page_has_its_note_and_every_file_of_a_note_is_there(report):
    page = (report / "zero-cost.html").read_text(encoding="utf-8")
    linked = set(re.findall(r'href="#(note-\w+)"', page))
    assert linked == set(re.findall(r'<article id="(note-\w+)"', page)) and len(linked) == 2
    assert "40 rounds in 8 processes" in page
    assert all((report / file).is_file() for file in re.findall(r'href="(data/[^"]+)"', page))


# -- in a browser --------------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["script", "no script"])
def page(report, opened, request):
    return opened(report / "zero-cost.html", java_script_enabled=request.param).page


def test_a_tap_shows_the_note_and_close_hides_it(page):
    note = page.locator(".notes article").first
    assert not note.is_visible()
    page.locator('a[href^="#note-"]').first.click()
    assert note.is_visible() and "make report STUDIES=zero-cost" in note.inner_text()
    note.get_by_role("link", name="Close").click()
    assert not note.is_visible()


def test_pointing_and_focus_show_the_note_and_escape_gives_the_focus_back(report, opened):
    page = opened(report / "zero-cost.html").page
    link, note = page.locator('a[href^="#note-"]').first, page.locator(".notes article").first
    link.hover()
    assert note.is_visible()
    page.mouse.move(0, 0)
    assert not note.is_visible()
    link.focus()
    assert note.is_visible()
    page.keyboard.press("Enter")
    assert note.evaluate("note => note === document.activeElement")
    page.keyboard.press("Escape")
    assert not note.is_visible() and link.evaluate("link => link === document.activeElement")
