"""The analysis of servers finds the truth of made-up servers, and its words reverse with it."""

import re
from dataclasses import replace

import polars as pl
import pytest
from told import VERDICTS, Told, check_alts, check_form, read, tell

from async_cost.runs.run import load_run
from async_cost.statistics.measured import Measured
from async_cost.studies import servers
from async_cost.studies.servers import FRONTIER, LOOP, STUDY, TOKIO, TOKIO_THREADS
from async_cost.testing.made_up_runs import Study, make_run

ROOM = "servers"
LIMIT = 0.05
THREADS = "thread per connection"
#: Connections, active ones, and steps of own work, of each load.
LOADS = ((10, 10, 0), (1_000, 10, 0), (10_000, 10, 0), (1_000, 1_000, 0), (10_000, 10_000, 0), (1_000, 1_000, 10_000))
#: Nanoseconds of processor time of a request of the loop, and what a step of work adds.
LOOP_NS, STEP_NS = 4_000, 2
#: What the frontier adds to a request of the loop.
ADDED_NS = 400
#: Bytes of a connection.
MEMORY = {LOOP: 200, FRONTIER: 300, TOKIO: 1_200, TOKIO_THREADS: 1_250, THREADS: 10_000}
KERNEL, WALL = 0.9, 1.5


def made_servers(
    ratio: float = 1.2, idle: float = 1.3, twins: dict[str, float] | None = None, frontier: bool = True
) -> Study:
    """A request takes ADDED_NS more on the frontier than in the loop, `ratio` times as long on tokio, twice that with
    several threads, and three times as long with a thread for each connection; `idle` times as long with idle
    connections; `twins` are the true ratios of the controls by load, 1 where they are honest. Older runs have no
    `frontier`.
    """
    factors = {LOOP: 1.0, FRONTIER: 1 + ADDED_NS / LOOP_NS, TOKIO: ratio, TOKIO_THREADS: 2 * ratio, THREADS: 3.0}
    if not frontier:
        del factors[FRONTIER]
    times, metrics, comparisons, groups = {}, {}, [], {}
    for connections, active, work in LOADS:
        parameter = f"connections={connections} active={active}{f' work={work}' if work else ''}"
        groups[parameter] = LIMIT
        for name, factor in factors.items():
            key = ("echo", name, parameter)
            times[key] = LOOP_NS * factor * (idle if active < connections else 1) + STEP_NS * work
            p50 = active * times[key]
            metrics[key] = {
                "wall_ns": WALL * times[key],
                "kernel_ns": KERNEL * times[key],
                "p50_ns": p50,
                "p99_ns": p50 * (5 if name == THREADS else 2),
                "memory_bytes": MEMORY[name] * connections,
            }
            rivals = [] if name == LOOP else [("echo", LOOP, parameter)]
            rivals += [("echo", TOKIO, parameter)] if name == TOKIO_THREADS else []
            rivals += [("echo", name, "connections=10 active=10")] if active < connections else []
            rivals += [("echo", name, parameter.split(" work")[0])] if work and name == LOOP else []
            comparisons += [(key, rival, parameter) for rival in rivals]
        twin, key = ("echo", f"{LOOP} (A/A)", parameter), ("echo", LOOP, parameter)
        times[twin], metrics[twin] = times[key] * (twins or {}).get(parameter, 1), metrics[key]
        comparisons.append((twin, key, parameter))
    counts = {key: {"units": 1} for key in times}
    return Study(times, comparisons, groups, [f"{LOOP} (A/A)"], counts=counts, metrics=metrics)


def made(root, study: Study | None = None, **options):
    """A made-up run of servers alone."""
    settings = {"rounds": 16, "samples": 1, "noise": 0.01} | options
    return make_run(root, None, others={STUDY: study or made_servers()}, **settings)


@pytest.fixture(scope="module")
def effect_run(runs):
    return made(runs / "effect")


@pytest.fixture(scope="module")
def measured(effect_run) -> Measured:
    return Measured.of(load_run(effect_run), STUDY)


@pytest.fixture(scope="module")
def effect(effect_run) -> Told:
    return tell(ROOM, effect_run)


@pytest.fixture(scope="module")
def reverse(runs) -> Told:
    return tell(ROOM, made(runs / "reverse", made_servers(ratio=0.8, idle=1.0, frontier=False)))


# -- figures -------------------------------------------------------------------------------------------------


def test_servers_stand_beside_the_loop_under_every_load_in_the_order_of_loads(measured):
    rows = servers.beside_loop(measured)
    assert rows["load"].unique(maintain_order=True).to_list() == [
        "all of 10 active",
        "10 of 1,000 active",
        "10 of 10,000 active",
        "all of 1,000 active",
        "all of 10,000 active",
        "all of 1,000 active, with work",
    ]
    bare = rows.filter(work=0, variant=TOKIO)
    assert bare["ratio"].to_list() == pytest.approx([1.2] * 5, rel=0.03)
    working = rows.filter(pl.col("work") > 0, pl.col("variant") == TOKIO)
    assert working["ratio"].to_list() == pytest.approx([24_800 / 24_000], rel=0.03)


def test_threads_idle_connections_and_work_are_compared_with_their_counterparts(measured):
    threads, idle = servers.more_threads(measured), servers.more_connections(measured)
    assert threads.height == 6 and threads.filter(work=0)["ratio"].to_list() == pytest.approx([2] * 5, rel=0.03)
    assert idle.height == 2 * len(MEMORY) and idle["ratio"].to_list() == pytest.approx([1.3] * 10, rel=0.03)
    assert servers.own_work(measured)["added_ns"] == pytest.approx(20_000, rel=0.03)


def test_the_frontier_stands_beside_the_loop_with_what_it_adds_and_the_part_of_the_kernel(measured):
    rows = servers.frontier_beside_loop(measured)
    assert rows["load"].to_list() == servers.beside_loop(measured)["load"].unique(maintain_order=True).to_list()
    first = rows.row(0, named=True)
    assert first["added_low"] < ADDED_NS < first["added_high"]
    assert first["added_ns"] == pytest.approx(ADDED_NS, rel=0.15)
    assert (first["loop_ns"], first["kernel"]) == pytest.approx((LOOP_NS, KERNEL), rel=0.03)


def test_what_adds_up_is_told_for_a_request_and_memory_for_a_connection(measured):
    wall = servers.of_metric(measured, "wall_ns").filter(variant=LOOP)
    assert wall["value"][0] == pytest.approx(WALL * LOOP_NS, rel=0.03)
    ratios = servers.wall_beside_loop(measured).filter(variant=THREADS, connections=10)
    assert ratios["ratio"].to_list() == pytest.approx([3.0], rel=0.03)
    shares = servers.kernel_shares(measured)
    assert shares["value"].to_list() == pytest.approx([KERNEL] * shares.height, rel=0.03)
    memory = dict(servers.memory(measured).select("variant", "value").rows())
    assert memory == pytest.approx(MEMORY, rel=0.03)
    assert not any("A/A" in name for name in (*memory, *shares["variant"]))


# -- the text follows the run --------------------------------------------------------------------------------


def test_the_answer_says_how_the_others_stand_compared_with_the_loop(effect, reverse):
    assert effect.trusted and reverse.trusted
    assert re.match(
        r"Compared with the best loop, and with all of 10,000 active, a request takes from (19|20|21)[.\d]* % more processor time \(.*\) with `tokio current_thread` to "
        r"(2\.9|3\.0|3\.1)\d* times the processor time \(.*\) with `thread per connection`\.",
        effect.answer,
    )
    assert re.match(
        r"Compared with the best loop, .* takes from (19|20|21)[.\d]* % less processor time", reverse.answer
    )


def test_the_choice_turns_round(effect, reverse):
    def choice(told: Told) -> str:
        return told.text.partition("No more processor time than the best loop:")[2]

    assert "All of 10 active: `loop`." in choice(effect)
    assert "All of 10 active: `loop` and `tokio current_thread`." in choice(reverse)


def test_idle_connections_that_cost_something_are_told(effect, reverse):
    slow = r"10 of 10,000 active: \*\*Slower\*\* than the same server with the active ones alone: "
    assert re.search(slow, effect.text) and not re.search(slow, reverse.text)


def test_what_the_frontier_adds_is_told_load_by_load_next_to_the_part_of_the_kernel(effect, reverse):
    assert re.search(
        r"All of 10 active: the frontier adds (3[5-9]|4[0-5])\d ns \(95 % interval \d+ to \d+ ns\) to a request\. "
        r"With the loop, a request takes (4\.0|3\.9)\d µs, of which (89|90|91) % is the kernel's\.",
        effect.text,
    )
    assert "All of 1,000 active, with work: the frontier changes a request by a negligible amount, " in effect.text
    assert re.search(r"With the frontier, [\w ]+, it takes (9|10|11)[.\d]* % more processor time \(", effect.answer)
    assert re.search(r"minus that in the loop: (3[5-9]|4[0-5])\d ns \(all of 10 active\)", effect.answer)
    assert "frontier" not in reverse.text, "nothing is said of what was not measured"


def test_memory_and_evenness_are_told(effect):
    least, most = (
        r"(199|200|201) bytes of the process's memory with `loop`",
        r"(9,9|10,0)\d\d bytes with `thread per connection`",
    )
    assert re.search(f"{least} and {most}", effect.text)
    assert re.search(
        r"All of 10 active: (2\.0|1\.9)\d* with `[\w ]+`, (5\.0|4\.9)\d* with `thread per connection`", effect.text
    )


# -- without trust there is nothing to conclude --------------------------------------------------------------


def test_memory_that_a_system_does_not_tell_is_missed_alone(runs):
    study = made_servers()
    metrics = {
        key: {name: one for name, one in of.items() if name != "memory_bytes"} for key, of in study.metrics.items()
    }
    told = tell(ROOM, made(runs / "without", replace(study, metrics=metrics)))
    assert "- The memory of a connection was not measured" in told.answer and "the kernel's, by load" in told.answer


def test_a_run_that_is_no_evidence_gives_numbers_without_verdicts(runs):
    told = tell(ROOM, made(runs / "untrusted", replace(made_servers(), controls=())))
    assert not told.trusted
    assert told.answer.startswith("**This run is not evidence and concludes nothing.**")
    assert not [word for word in VERDICTS if word in told.text]
    assert "No more processor time" not in told.text


def test_a_load_whose_control_fails_is_doubted_alone(runs):
    told = tell(ROOM, made(runs / "half", made_servers(twins={"connections=10 active=10": 1.5})))
    assert (
        "**Nothing is concluded** from 1 of 6 groups of comparisons, `connections=10 active=10`, because" in told.trust
    )


def test_a_run_without_servers_says_so_once(runs):
    told = tell(ROOM, make_run(runs / "absent", rounds=12, work=False))
    assert told.answer.strip() == "Servers were **not measured** in this run."
    assert told.trusted and told.text.count("not measured") == 1


# -- form ----------------------------------------------------------------------------------------------------


def test_charts_say_what_they_show(effect, reverse):
    assert len(effect.alts) == 5
    check_alts(effect)
    assert effect.alts[0] != reverse.alts[0]


def test_the_notebook_keeps_the_house_rules():
    check_form(read(ROOM))
