"""The page on servers that are asked at a rate leaves out what only shows how late its generator was."""

import re

import nbformat
import pytest
from made_up_runs import Study, make_run

from async_cost.report import notebook
from async_cost.runs.comparisons import BASE_KEY, KEY, of_today
from async_cost.workflow.publishing import execute

STUDY, CONTROL = "servers-open", "loop (A/A)"
LATE = "tokio multi_thread"
#: Nanoseconds: p99 by load, and beside requests that compute.
P99 = {"20": 100e3, "50": 200e3, "80": 400e3, "95": 900e3}
DISTURBED = {"tokio + yield_now": 300e3}
ALL = {"capacity_per_s": 25e3, "late_p50_ns": 100.0, "max_ns": 8e6, "long_p50_ns": 5e6, "memory_bytes": 2e5}
#: Of a thousand requests: all system calls, by server, and the part of them that is to an epoll.
CALLS, OTHERS, TO_EPOLL = {"smol": 9_000, "thread per connection": 2_000}, 2_900, 800


def metrics(bench: str, variant: str, parameter: str) -> dict[str, float]:
    load = parameter.split("load=")[1].split()[0]
    p99 = DISTURBED.get(variant, 5e6) if bench == "disturbed" else P99[load]
    late = p99 / (5 if variant == LATE and load == "95" else 50)
    calls = {"system_calls": CALLS.get(variant, OTHERS), "epoll_calls": TO_EPOLL, "futex_calls": 0}
    counted = calls if bench == "echo" and load == "50" else {}
    tail = {"p50_ns": p99 / 3, "p90_ns": p99 / 2, "p99_ns": p99, "p999_ns": 2 * p99, "late_p99_ns": late}
    return ALL | counted | tail


@pytest.fixture(scope="module")
def page(runs) -> nbformat.NotebookNode:
    declared = of_today().filter(study=STUDY)
    compared = [(row[:3], row[3:6], row[6]) for row in declared.select(*KEY, *BASE_KEY, "group").rows()]
    loops = {group: loop for _, loop, group in compared if loop[1] == "loop"}
    compared += [((loop[0], CONTROL, loop[2]), loop, group) for group, loop in loops.items()]
    keys = sorted({key for *pair, _ in compared for key in pair})
    study = Study(
        dict.fromkeys(keys, 40e3),
        comparisons=compared,
        groups=dict.fromkeys(declared["group"].unique(), 0.1),
        baseline="loop",
        controls=[CONTROL],
        counts={key: {"units": 1, "connections": 100, "traced_requests": 1_000} for key in keys},
        metrics={key: metrics(*key) for key in keys},
    )
    run = make_run(runs / STUDY, None, others={STUDY: study}, rounds=40, noise=0.002)
    (path,) = execute(["open-loop"], runs / "executed", {"ASYNC_COST_RUN": str(run)}, lambda path: path)
    return nbformat.read(path, as_version=4)


def test_it_says_what_was_measured(page):
    said = {record.id: record.title.replace("\u00a0", " ") for record in notebook.findings_in(page)}
    assert "one thread is 200 µs; at four fifths, 400 µs; near its capacity, 900 µs" in said["open-loop-load"], said
    assert "300 µs where it yields" in said["open-loop-hog"], said
    assert "tokio makes 2.9 system calls a request, the loop 2.9, smol 9" in said["open-loop-calls"], said


def test_a_row_whose_generator_was_late_is_in_no_chart_and_says_so(page):
    (chart,) = (c for c in page.cells if c.id == "open-loop-06b")
    drawn = str(chart.outputs)
    assert "95 %" in drawn and drawn.count("tokio on several threads") < drawn.count("tokio on one thread"), drawn
    (tables,) = (c for c in page.cells if c.id == "open-loop-16")
    assert str(tables.outputs).count("no: the generator was late") == 1


def test_the_table_has_system_calls_where_they_were_counted(page):
    (table,) = (c for c in page.cells if c.id == "open-loop-16b")
    said = re.findall(r'headers="system_calls" class="[^"]*">([^<]*)<', str(table.outputs))
    assert "2.9" in said and len(set(said)) > 1, said
