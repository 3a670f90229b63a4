"""A comparison has the same word on every page: over the committed reference run, on all of its pages and next to other
runs.
"""

from pathlib import Path

import nbformat
import polars as pl
import pytest

from async_cost.machines.many import read_many
from async_cost.paths import repository_root
from async_cost.report.charts import VEGALITE_MIME
from async_cost.report.headline import reference_run
from async_cost.runs.comparisons import PAIR
from async_cost.statistics.measured import Measured, both_ways
from async_cost.studies import boxing_cost, call_styles, ladder, runtimes, spawn_apis, thread_pools
from async_cost.workflow.publishing import execute, rooms_of
from async_cost.workflow.sample import FOLDER, made, old

NO_EVIDENCE = "no evidence"


@pytest.fixture(scope="module")
def run():
    return reference_run()


@pytest.fixture(scope="module")
def measured(run) -> dict[str, Measured]:
    return {study: Measured.of(run, study) for study in run.info.studies}


@pytest.fixture(scope="module")
def table(measured) -> pl.DataFrame:
    """The table of comparisons of all studies, as declared and turned round."""
    return both_ways(pl.concat(one.declared.drop_nulls("ratio") for one in measured.values()))


def test_every_room_shows_rows_of_the_one_table(measured, table):
    ring, styles = measured[spawn_apis.STUDY], measured[call_styles.STUDY]
    pools, rows = measured[thread_pools.STUDY], measured[runtimes.STUDY]
    sections = ("stackful", "slots", "handles", "wakers", "queues", "selectors", "kinds", "elsewhere")
    chosen = (spawn_apis.BOXES, spawn_apis.HANDLES, spawn_apis.ALONE, *spawn_apis.PROGRAMS.values())
    threads = (spawn_apis.ONE_THREAD, spawn_apis.THREADS)
    shown = [
        *(ladder.steps(measured[ladder.STUDY], load) for load in (ladder.FEW, ladder.ALL)),
        boxing_cost.compare(measured),
        *(spawn_apis.compare(ring, some) for some in chosen),
        *(spawn_apis.over_native(ring, spawn_apis.DROPPED, place) for place in threads),
        spawn_apis.runtimes(ring, spawn_apis.JOINED),
        *(getattr(call_styles, name)(styles) for name in sections),
        thread_pools.against_originals(pools),
        thread_pools.against(pools, thread_pools.LEAN_CBWP, "rayon spawn", [thread_pools.INTERNAL]),
        runtimes.beside_tokio(rows),
        runtimes.beside_the_better(rows),
        *(runtimes.both_ways(rows, parameter) for parameter in (runtimes.BY_TASK, runtimes.HONEST)),
    ]
    for frame in shown:
        assert frame.height
        both = frame.select("study", *PAIR, "ratio", "verdict").join(table, on=["study", *PAIR], suffix="_table")
        assert both.height == frame.height, "each row is one of the table"
        assert both["verdict"].equals(both["verdict_table"], null_equal=True) and both["ratio"].equals(
            both["ratio_table"]
        )


def test_beside_other_runs_a_finding_has_the_word_of_its_own_pages(run, measured):
    found = read_many([run.path]).ratios
    for study, one in measured.items():
        mine, there = one.declared.drop_nulls("ratio").remove("control"), found.filter(study=study)
        for column in ("variant", "ratio", "low", "high", "verdict"):
            assert there[column].equals(mine[column], null_equal=True), f"{study}: {column}"


@pytest.fixture(scope="module")
def executed(run, tmp_path_factory) -> list[Path]:
    """All analyses of the reference run."""
    folder = tmp_path_factory.mktemp("executed")
    return execute(rooms_of(run.info), folder, {"ASYNC_COST_RUN": str(run.path.resolve())}, Path)


def test_the_committed_sample_is_what_the_code_makes_of_the_reference_run(run, executed):
    assert old(made(run, executed), repository_root() / FOLDER) == [], "make sample"


def test_every_chart_of_every_page_has_the_words_of_the_table(table, executed):
    """What a page draws is told by its three numbers: wherever they are those of a comparison, the word is, too."""
    words = {}
    for *numbers, verdict in table.select("ratio", "low", "high", "verdict").iter_rows():
        words.setdefault(tuple(f"{number:.9g}" for number in numbers), set()).add(verdict or NO_EVIDENCE)
    seen = {}
    for notebook in executed:
        for row in drawn(nbformat.read(notebook, as_version=4)):
            key = tuple(f"{row[name]:.9g}" for name in ("ratio", "low", "high"))
            if key in words:
                assert (row["verdict"] or NO_EVIDENCE) in words[key], f"{notebook.stem} says {row['verdict']} of {row}"
                seen.setdefault(notebook.stem, []).append(key)
    assert sum(map(len, seen.values())) > 150 and len(seen) >= 6, {name: len(keys) for name, keys in seen.items()}


def drawn(notebook: nbformat.NotebookNode) -> list[dict]:
    """The rows of all charts that have a ratio and a word."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    charts = (output["data"][VEGALITE_MIME] for output in outputs if VEGALITE_MIME in output.get("data", {}))
    rows = (row for chart in charts for rows in chart.get("datasets", {}).values() for row in rows)
    return [row for row in rows if {"ratio", "low", "high", "verdict"} <= set(row)]
