"""The pages on channels and on locks, executed on made-up runs: what they say follows the truth of each."""

import re
from pathlib import Path

import pytest
from made_up_runs import Key, Study, make_run

from async_cost.report import markup, notebook
from async_cost.runs.comparisons import BASE_KEY, KEY, of_today
from async_cost.workflow.publishing import execute

#: Messages or acquisitions of an iteration.
UNITS = 100
#: What every key counts, and what the key of the base counts besides.
USUAL = {"units": UNITS, "wakes": 10, "polls": UNITS, "allocations": 1, "allocated_bytes": 64}
USUAL |= {"instructions": 200 * UNITS, "atomic_instructions": 2 * UNITS, "least_served_of_1000": 200}
OF_BASE = dict.fromkeys(["receive_handed_lost", "send_freed_lost", "next_stuck", "reordered", "at_once"], 0)
OF_BASE |= {"served": 6, "in_order": 6, "free": 2, "lock_bytes": 16}
BASES = ("driver=task", "driver=task workers=1 tasks=1")
LATENCIES = {"p50_ns": 20_000.0, "p99_ns": 50_000.0}


def study(name: str, times: dict[str, float]) -> Study:
    """Everything that the study compares today; each variant takes its time for a unit, and every other one 30 ns."""
    declared = of_today().filter(study=name)
    keys: list[Key] = list(dict.fromkeys([*declared.select(KEY).rows(), *declared.select(BASE_KEY).rows()]))
    groups = dict(declared.select("group", "limit").rows())
    first = {row[-1]: row[:3] for row in declared.reverse().select(*BASE_KEY, "group").rows()}
    controls = {(bench, f"{variant} (A/A)", parameter): group for group, (bench, variant, parameter) in first.items()}
    return Study(
        {key: UNITS * times.get(key[1].removesuffix(" (A/A)"), 30.0) for key in [*keys, *controls]},
        comparisons=[(key, first[group], group) for key, group in controls.items()],
        groups=groups,
        controls=sorted({key[1] for key in controls}),
        counts={key: USUAL | (OF_BASE if key[2] in BASES and key[0] in ("stream", "short") else {}) for key in keys},
        metrics={key: LATENCIES for key in keys if key[0] == "latency"},
    )


def page(folder: Path, analysis: str, **studies: dict[str, float]) -> str:
    """What the page says of a run with this truth."""
    others = {name.replace("_", "-"): study(name.replace("_", "-"), times) for name, times in studies.items()}
    run = make_run(folder, None, others=others, rounds=24, samples=1, noise=0.002)
    (executed,) = execute([analysis], folder / "executed", {"ASYNC_COST_RUN": str(run)}, Path)
    found = notebook.page_of(executed)
    return re.sub(r"(\s|&nbsp;)+", " ", markup.plain(f"{found.answer} {found.body}"))


@pytest.mark.parametrize(("tokio", "kanal"), [(40.0, 20.0), (20.0, 60.0)])
def test_what_a_message_takes_is_the_truth_of_the_run(tmp_path, tokio, kanal):
    times = {"tokio": tokio, "kanal": kanal}
    said = page(tmp_path, "channels", channels=times, channels_threads=times)
    first, second = (rf"{ns:.0f}[.0]* ns" for ns in (tokio, kanal))
    asserted = f"takes {first} through tokio's channel, {second} through kanal's"
    # Outside of its region it is shown only.
    assert re.search(f"{asserted}|through tokio's channel: {first}; kanal's: {second}", said)
    changed = re.search(r"by (\S+) ns with 4 KiB in a box|; 4 KiB in a box: (\S+) ns", said)
    assert changed
    assert (float((changed[1] or changed[2]).replace("\N{MINUS SIGN}", "-")) < 0) == (kanal < tokio)


@pytest.mark.parametrize(("std", "tokio"), [(5.0, 30.0), (10.0, 20.0)])
def test_what_a_lock_takes_is_the_truth_of_the_run(tmp_path, std, tokio):
    said = page(tmp_path, "locks", locks={"std Mutex": std, "tokio Mutex": tokio})
    first, second = (rf"{ns:.0f}[.0]* ns" for ns in (std, tokio - std))
    assert re.search(f"takes {first}; tokio's adds {second}|wants it: {first}; what tokio's adds: {second}", said)
