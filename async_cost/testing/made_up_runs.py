"""Made-up runs whose truth is known, in the very format of a measured one.

Tests use them to see whether the estimates find the truth and whether the words follow it; a person uses them to see
what a notebook says about an effect, its reverse, or a machine that cannot be trusted:

    python -m async_cost.testing.made_up_runs /tmp/runs --reversed
    ASYNC_COST_RUN=/tmp/runs/made-up/20260101T000000Z jupyter lab
"""

import argparse
import gzip
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from async_cost.runs.comparisons import KEY, SCHEMA, with_later
from async_cost.runs.record import (
    ADDED,
    KINDS,
    SCHEMA_VERSIONS,
    Codegen,
    Machine,
    Record,
    RunInfo,
    StudyInfo,
    Toolchain,
    records_at,
)
from async_cost.statistics.trials import TOTALS

OFF, ON = "syscalls=off", "syscalls=on"
BASELINE = "manual"
#: The two loads of zero-cost-sockets: few clients at a time, and all of them at once.
FEW, ALL = "live=3", "live=256"
#: The same where connections are kept, and the null subject of that: its system calls alone.
FEW_KEPT, ALL_KEPT, ALONE = "live=3 asks=64", "live=256 asks=8", "calls alone"
#: Its null subject: what remains of the time when there is no server to speak of.
FLOOR = "client"
#: The baseline of ladder.
BEST = "manual (best)"
#: Requests served by one iteration of any study, and of one on kept connections.
REQUESTS = 256
KEPT_REQUESTS = {FEW_KEPT: 192, ALL_KEPT: 2048}
#: Steps of own work that zero-cost executes for each request.
WORK_STEPS = (100, 300, 1000, 3000, 10_000)
#: System calls of one iteration by load (those on sockets; the ladder makes none).
SYSTEM_CALLS = {OFF: 0, ON: 2308, FEW: 4362, ALL: 3342}
#: True time of `manual` for one iteration, and of one step of own work, in nanoseconds.
MANUAL_NS = {OFF: 26_000.0, ON: 500_000.0, FEW: 4_100_000.0, ALL: 3_600_000.0}
MANUAL_NS |= {parameter: requests * 1000.0 for parameter, requests in KEPT_REQUESTS.items()}
STEP_NS = 1.0
#: The same for `manual (best)` of the ladder, which is a faster loop.
BEST_NS = 14_000.0

#: True ratios to `manual` unless a caller says otherwise: an effect of about the published size.
ZERO_COST: dict[tuple[str, str], float] = {
    ("manual (best)", OFF): 0.6,
    ("manual (best)", ON): 0.97,
    ("nonbox", OFF): 3.6,
    ("callerbox", OFF): 3.65,
    ("large+nonbox", OFF): 7.5,
    ("box", OFF): 4.0,
    ("box+callerbox", OFF): 3.95,
    ("large+box", OFF): 8.5,
    ("box+rc", OFF): 3.9,
    ("box+chkrc", OFF): 4.6,
    ("box+arc", OFF): 4.2,
    ("nonbox", ON): 1.10,
    ("box", ON): 1.12,
    ("box+rc", ON): 1.11,
    ("box+chkrc", ON): 1.135,
    ("box+arc", ON): 1.12,
}
#: The same for zero-cost-sockets.
SOCKETS: dict[tuple[str, str], float] = {
    ("async", FEW): 1.04,
    ("async", ALL): 1.05,
    ("async+box", FEW): 1.06,
    ("async+box", ALL): 1.08,
    (FLOOR, FEW): 0.7,
    (FLOOR, ALL): 0.8,
}
#: What a run of it holds as well if it has kept connections.
KEPT: dict[tuple[str, str], float] = {
    ("async", FEW_KEPT): 1.03,
    ("async", ALL_KEPT): 1.03,
    (ALONE, FEW_KEPT): 0.95,
    (ALONE, ALL_KEPT): 0.95,
}
#: The same for ladder, whose ratios are those to `manual (best)`, with instructions and allocations for a request.
RUNGS: dict[str, tuple[float, int, int]] = {
    "fake alone": (0.6, 330, 0),
    "split": (1.2, 720, 0),
    "frontier": (1.4, 750, 0),
    "ready queue": (1.6, 890, 0),
    "stream in future": (1.64, 900, 0),
    "generic runtime": (1.68, 940, 0),
    "slab index": (1.8, 1050, 0),
    "cloned waker": (1.9, 1080, 0),
    "bound per operation": (2.1, 1330, 0),
    "embedded waker": (2.2, 1340, 0),
    "Rc waker": (2.3, 1380, 0),
    "Arc waker": (3.0, 1380, 0),
    "atomic queue": (3.5, 1390, 0),
    "Arc per task": (3.9, 1620, 1),
    "boxed dyn": (4.5, 1870, 2),
    "Rc handles": (4.6, 1900, 2),
    "checked cells": (4.75, 1990, 2),
    "mutex queue": (5.6, 2280, 2),
    "lean + Rc handles": (1.83, 1090, 0),
    "lean + checked cells": (1.86, 1130, 0),
    "lean + atomic queue": (2.2, 1060, 0),
    "lean + mutex queue": (2.6, 1310, 0),
    "lean + box": (2.0, 1265, 1),
    "lean + dyn": (2.1, 1350, 1),
    "lean + dyn by caller": (2.1, 1350, 1),
    "lean + dyn in place": (2.05, 1300, 1),
    "16 KiB zeroed": (7.0, 17_455, 0),
    "16 KiB uninitialised": (1.8, 1050, 0),
    "16 KiB uninitialised + dyn": (7.5, 18_080, 1),
    "16 KiB uninitialised + dyn in place": (2.4, 1550, 1),
    "noop waker": (2.08, 1350, 0),
    "Rc waker, cached check": (2.5, 1650, 0),
    "Rc waker, asked check": (2.6, 1710, 0),
    "Rc waker, address check": (2.35, 1460, 0),
    "Arc waker, kept": (1.95, 1085, 0),
    "no wakers": (1.3, 720, 0),
    "out of line": (1.5, 800, 0),
}
LADDER: dict[tuple[str, str], float] = {(rung, FEW): ratio for rung, (ratio, _, _) in RUNGS.items()} | {
    ("frontier", ALL): 1.5
}


#: bench, variant, parameter.
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Study:
    """The truth of a study with any name, by key (bench, variant, parameter).

    `times` are nanoseconds for one iteration. `comparisons` are (key, baseline, group); without any, every key is
    compared with `baseline` at its parameter. What a real study of that name declares is compared as well, where both
    keys are there. `metrics` are the true values of a metric, for one iteration where it is one of `trials.TOTALS`.
    `samples` are those of keys that have fewer than the others; `failed` are the rounds for which a failed key lasted.
    `kinds` are those of groups that are not of one thread.
    """

    times: Mapping[Key, float]
    comparisons: Sequence[tuple[Key, Key, str]] | None = None
    groups: Mapping[str, float] = field(default_factory=lambda: {"": 0.01})
    controls: Sequence[str] = ()
    baseline: str = ""
    counts: Mapping[Key, Mapping[str, int]] = field(default_factory=dict)
    metrics: Mapping[Key, Mapping[str, float]] = field(default_factory=dict)
    samples: Mapping[Key, int] = field(default_factory=dict)
    failed: Mapping[Key, int] = field(default_factory=dict)
    kinds: Mapping[str, str] = field(default_factory=dict)


def reversed_truth(truth: Mapping[tuple[str, str], float] = ZERO_COST) -> dict[tuple[str, str], float]:
    """Every effect turned round: what was slower than `manual` is as much faster. The floors below all servers stay."""
    return {key: ratio if key[0] in (FLOOR, ALONE) else 1 / ratio for key, ratio in truth.items()}


def make_run(
    root: Path,
    truth: Mapping[tuple[str, str], float] | None = ZERO_COST,
    *,
    others: Mapping[str, Study] | None = None,
    sockets: Mapping[tuple[str, str], float] | None = None,
    ladder: Mapping[tuple[str, str], float] | None = None,
    controls: Mapping[str, float] | None = None,
    rounds: int = 120,
    samples: int = 3,
    noise: float = 0.01,
    drift: float = 1.0,
    work: bool = True,
    seed: int = 4,
    profile: str = "standard",
    name: str = "20260101T000000Z",
    machine: str = "made-up",
    compress: bool = False,
    failed: Sequence[tuple[str, str]] = (),
    episodes: int = 1,
    between: float = 0.0,
    hour: float = 0.0,
    drawn: bool = False,
    only: Mapping[int, Sequence[Key]] | None = None,
    changes: Mapping[str, object] | None = None,
    version: int = SCHEMA_VERSIONS[-1],
) -> Path:
    """Writes a run below `root` and returns its folder. It holds zero-cost (unless `truth` is None), zero-cost-sockets
    and ladder if `sockets` and `ladder` have their truth, and whatever studies `others` names.

    `truth`, `sockets`, `ladder` and `failed` are keyed by (variant, parameter). `controls` are the true ratios of the
    A/A control by parameter (1 in an honest run; the loads of the other studies may be left out). `noise` is the
    relative standard deviation of a trial. `drift` is by what factor the machine slows down and recovers in the course
    of the run. `work` adds the levels of own work, in which async adds to each request what it adds without. So many
    processes, `episodes`, share the rounds; in each of them a key is off by a factor with the relative standard
    deviation `between`, and in the whole run by one with that of `hour`; `drawn` gives each process a link order of its
    own; `only` are the keys that an episode measured, by its number, if not all. `changes` are replaced
    fields of run.json, by dotted name; `version` its schema version.
    """
    controls = {OFF: 1.0, ON: 1.0} if controls is None else controls
    studies: dict[str, Study] = {}
    if truth is not None:
        levels = [(OFF, steps) for steps in WORK_STEPS] + [(ON, 5000)]
        theirs = {load: ratio for load, ratio in controls.items() if load in (OFF, ON)}
        times = _true_times(truth, theirs, levels if work else [], "nonbox")
        studies["zero-cost"] = _zero_cost("zero-cost", times, BASELINE, failed)
    honest = {load: controls.get(load, 1.0) for load in (FEW, ALL)}
    if sockets is not None:
        levels = [(ALL, steps) for steps in WORK_STEPS if steps in (1000, 10_000)]
        kept = {load: controls.get(load, 1.0) for load in KEPT_REQUESTS if (ALONE, load) in sockets}
        times = _true_times(sockets, honest | kept, levels if work else [], "async")
        studies["zero-cost-sockets"] = _zero_cost("zero-cost-sockets", times, BASELINE, failed)
    if ladder is not None:
        levels = [(FEW, steps) for steps in WORK_STEPS if steps in (1000, 10_000)]
        best_ns = dict.fromkeys((FEW, ALL), BEST_NS)
        times = _true_times(ladder, honest, levels if work else [], "frontier", BEST, best_ns)
        studies["ladder"] = _zero_cost("ladder", times, BEST, failed)
    studies |= others or {}
    folder = Path(root) / machine / name
    folder.mkdir(parents=True)
    info = run_record(machine, name, profile)
    rng_of_hour = np.random.default_rng(seed)
    firsts = [number * rounds // episodes for number in range(episodes)]
    for number, (study, made) in enumerate(studies.items()):
        rng = np.random.default_rng(seed + number)
        moved = {key: ns * np.exp(rng_of_hour.normal(0, hour)) for key, ns in made.times.items()}
        time = _sampled(study, moved, rounds, samples, noise, drift, between, firsts, rng)
        time = _as_chosen(_as_it_failed(time, made), firsts, only or {})
        _write(folder / f"{study}.time.csv", time, compress)
        _write(folder / f"{study}.counts.csv", _rows(study, made.counts), compress)
        if made.metrics:
            _write(folder / f"{study}.metrics.csv", _metrics(time, made.metrics, noise, rng), compress)
        info["studies"][study] = study_record(study, rounds, samples, seed + number, made)
        lasted = _episodes(firsts, only or {}, float(time["elapsed_ns"].sum()) / 1e9)
        lasted = [one | {"layout": seed + place} for place, one in enumerate(lasted)] if drawn else lasted
        info["studies"][study] |= {"episodes": lasted, "ended": lasted[-1]["ended"]}
    info = older(info, version)
    for field_name, value in (changes or {}).items():
        _replace(info, field_name.split("."), value)
    (folder / "run.json").write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")
    return folder


def make_series(root: Path, sittings: int = 3, *, seed: int = 4, **how: Any) -> list[Path]:
    """So many runs of one series, as from `make_run`, on days of their own; the first one first."""
    named = {"series": f"{how.get('machine', 'made-up')}/20260101T000000Z", "program": "0" * 64}
    how |= {"drawn": True, "changes": named | how.get("changes", {})}
    return [
        make_run(root, name=f"202601{number + 1:02}T000000Z", seed=seed + 1000 * number, **how)
        for number in range(sittings)
    ]


def older(info: dict, version: int) -> dict:
    """A run.json as that of an earlier version: without what later ones added."""
    info = json.loads(json.dumps(info)) | {"schema_version": version}
    for records in (records for since, records in ADDED.items() if since > version):
        for record, names in records.items():
            for _, part in records_at(info, record.split(".") if record else []):
                for name in names:
                    part.pop(name, None)
    return info


def bench_of(variant: str, parameter: str) -> str:
    """The bench word that goes with a variant and parameter: `nonbox`, `nonbox+syscalls`, `nonbox+syscalls+work`,
    `async+kept`.
    """
    bench, kinds = variant.removesuffix(" (A/A)"), {ON: "+syscalls", "work=": "+work", "asks=": "+kept"}
    return bench + "".join(kind for mark, kind in kinds.items() if mark in parameter)


def _true_times(
    truth: Mapping[tuple[str, str], float],
    controls: Mapping[str, float],
    levels: Sequence[tuple[str, int]],
    lean: str,
    baseline: str = BASELINE,
    baseline_ns: Mapping[str, float] = MANUAL_NS,
) -> dict[tuple[str, str], float]:
    """True nanoseconds for one iteration, by (variant, parameter); at `levels` of own work for `baseline` and
    `lean`.
    """
    parameters = sorted({parameter for _, parameter in truth} | set(controls))
    times = {(baseline, parameter): baseline_ns[parameter] for parameter in parameters}
    times |= {(f"{baseline} (A/A)", parameter): ratio * baseline_ns[parameter] for parameter, ratio in controls.items()}
    times |= {(variant, parameter): ratio * baseline_ns[parameter] for (variant, parameter), ratio in truth.items()}
    for parameter, steps in levels:
        for variant in (baseline, lean):
            if (variant, parameter) in times:
                times[variant, f"{parameter} work={steps}"] = times[variant, parameter] + REQUESTS * steps * STEP_NS
    return times


def _zero_cost(
    study: str, times: Mapping[tuple[str, str], float], baseline: str, failed: Sequence[tuple[str, str]]
) -> Study:
    """A study of the family of zero-cost, whose times are keyed by (variant, parameter); what failed did so after a
    round.
    """
    key = {(variant, parameter): (bench_of(variant, parameter), variant, parameter) for variant, parameter in times}
    counts = _ladder_counts(times) if study == "ladder" else _counts(study, times)
    return Study(
        {key[name]: ns for name, ns in times.items()},
        controls=[f"{baseline} (A/A)"],
        baseline=baseline,
        counts={key[name]: counters for name, counters in counts.items()},
        failed={key[name]: 1 for name in failed if name in times},
    )


def _sampled(
    study: str,
    times: Mapping[Key, float],
    rounds: int,
    samples: int,
    noise: float,
    drift: float,
    between: float,
    firsts: Sequence[int],
    rng: np.random.Generator,
) -> pl.DataFrame:
    """Rows of time.csv: every key once a round in shuffled order, on a machine that slows down and recovers, by
    processes that begin at `firsts`.
    """
    keys = list(times)
    count = len(keys)
    order = np.argsort(rng.random((rounds, count)), axis=1)  # order[round, position] is a key
    moment = (np.arange(rounds)[:, None] + np.arange(count)[None, :] / count) / rounds
    speed = drift ** np.sin(np.pi * moment)
    true = np.array([times[key] for key in keys])
    trial = true[order] * speed * np.exp(rng.normal(0, noise, (rounds, count)))
    if between:
        layout = np.exp(rng.normal(0, between, (len(firsts), count)))
        episode = np.searchsorted(firsts, np.arange(rounds), side="right") - 1
        trial *= layout[episode[:, None], order]
    sample = trial[:, :, None] * np.exp(rng.normal(0, noise / 4, (rounds, count, samples)))
    iterations = np.maximum(1, np.round(1e6 / sample)).astype(np.int64)
    shape = sample.shape
    return pl.DataFrame(
        {
            "study": study,
            **{name: _spread([key[place] for key in keys], order, samples) for place, name in enumerate(KEY)},
            "round": np.broadcast_to(np.arange(rounds)[:, None, None], shape).ravel(),
            "position": np.broadcast_to(np.arange(count)[None, :, None], shape).ravel(),
            "sample": np.broadcast_to(np.arange(samples)[None, None, :], shape).ravel(),
            "iterations": iterations.ravel(),
            "elapsed_ns": np.maximum(1, np.round(sample * iterations)).astype(np.int64).ravel(),
        }
    )


def _spread(words: Sequence[str], order: np.ndarray, samples: int) -> np.ndarray:
    return np.repeat(np.array(words, dtype=object)[order], samples)


def _as_it_failed(time: pl.DataFrame, made: Study) -> pl.DataFrame:
    """Without the rounds that failed keys did not live to see, and without samples that a key does not take."""
    for limited, column in ((made.failed, "round"), (made.samples, "sample")):
        for key, least in limited.items():
            this = pl.all_horizontal(pl.col(name) == word for name, word in zip(KEY, key, strict=True))
            time = time.filter(~(this & (pl.col(column) >= least)))
    return time


def _as_chosen(time: pl.DataFrame, firsts: Sequence[int], only: Mapping[int, Sequence[Key]]) -> pl.DataFrame:
    """Without the keys that an episode left out."""
    episode = pl.Series(firsts).search_sorted(time["round"], side="right") - 1
    for number, keys in only.items():
        chosen = pl.DataFrame(list(keys), schema=dict.fromkeys(KEY, pl.String), orient="row").with_columns(chosen=True)
        mine = time.join(chosen, on=KEY, how="left", maintain_order="left")["chosen"].fill_null(False)
        measured = (episode != number) | mine
        time, episode = time.filter(measured), episode.filter(measured)
    return time


def _episodes(firsts: Sequence[int], only: Mapping[int, Sequence[Key]], sampled_s: float) -> list[dict]:
    """The processes that measured, in run.json, one after the other: for twice the time of their samples."""
    each, began = max(1.0, 2 * sampled_s / len(firsts)), datetime.fromisoformat("2026-01-01T00:00:00Z")
    clock = [
        f"{began + timedelta(seconds=round(number * each)):%Y-%m-%dT%H:%M:%SZ}" for number in range(len(firsts) + 1)
    ]
    return [
        {
            "first_round": first,
            "started": clock[number],
            "ended": clock[number + 1],
            "only": [list(key) for key in only[number]] if number in only else None,
            "layout": None,
        }
        for number, first in enumerate(firsts)
    ]


def _rows(study: str, counts: Mapping[Key, Mapping[str, int]]) -> pl.DataFrame:
    """Rows of counts.csv."""
    rows = [(study, *key, counter, value) for key, counters in counts.items() for counter, value in counters.items()]
    texts = dict.fromkeys(("study", *KEY, "counter"), pl.String)
    return pl.DataFrame(rows, schema=texts | {"value": pl.Int64}, orient="row")


def _metrics(
    time: pl.DataFrame, metrics: Mapping[Key, Mapping[str, float]], noise: float, rng: np.random.Generator
) -> pl.DataFrame:
    """Rows of metrics.csv, for the samples of `time`."""
    true = [(*key, metric, value) for key, values in metrics.items() for metric, value in values.items()]
    texts = dict.fromkeys((*KEY, "metric"), pl.String)
    rows = time.join(
        pl.DataFrame(true, schema=texts | {"true": pl.Float64}, orient="row"), on=KEY, maintain_order="left"
    )
    times = pl.when(pl.col("metric").is_in(TOTALS)).then(pl.col("iterations")).otherwise(1)
    noisy = pl.col("true") * times * pl.Series(np.exp(rng.normal(0, noise, rows.height)))
    return rows.with_columns(value=noisy.round().cast(pl.Int64)).drop("iterations", "elapsed_ns", "true")


def _counts(study: str, times: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, int]]:
    """The exact counts that the algorithm has: the same I/O for all, and what each variant adds."""
    operations = {"register": 257, "unregister": 257, "poll": 258, "accept": 512, "read": 512, "write": 512}
    polled = {"waker_clones": 1536, "waker_drops": 1536, "wakes": 768, "polls": 1025}
    counts = {}
    for variant, parameter in times:
        manual = variant.startswith(BASELINE)
        boxes = not manual and variant not in ("nonbox", "large+nonbox", "async")
        counts[variant, parameter] = {
            **({"client_syscalls": 1537} if study == "zero-cost-sockets" else operations),
            "syscalls": 2306 if variant == FLOOR else SYSTEM_CALLS[parameter.partition(" ")[0]],
            **({"units": KEPT_REQUESTS[parameter]} if parameter in KEPT_REQUESTS else {"transactions": REQUESTS}),
            "allocations": 257 * boxes,
            "instructions": 280_000 if manual else 610_000,
            "atomic_instructions": 3072 if variant == "box+arc" else 0,
            "thread_local_instructions": 1542 * boxes,
            **(dict.fromkeys(polled, 0) if manual else polled),
        }
    return counts


def _ladder_counts(times: Iterable[tuple[str, str]]) -> dict[tuple[str, str], dict[str, int]]:
    """The exact counts of the ladder that its analysis reads."""
    counts = {}
    for variant, parameter in times:
        _, instructions, allocations = RUNGS.get(variant, (1.0, 570, 0))
        large = variant.startswith("16 KiB")
        future = 0 if variant.startswith(BEST) else 16_528 if large else 272
        counts[variant, parameter] = {
            "transactions": REQUESTS,
            "instructions": REQUESTS * instructions,
            "allocations": REQUESTS * allocations,
            "allocated_bytes": REQUESTS * allocations * future,
            "zeroed_bytes": REQUESTS * (16_384 if variant == "16 KiB zeroed" else 128),
            "waker_clones": 1536 if "waker" in variant else 0,
            "future_bytes": future,
            "connection_bytes": {BEST: 185, "frontier": 304}.get(variant, 0),
        }
    return counts


def run_record(machine: str, name: str, profile: str) -> dict:
    """run.json of a machine that does not exist, without its studies."""
    return _unknown(RunInfo) | {
        "schema_version": SCHEMA_VERSIONS[-1],
        "run_id": f"{machine}/{name}",
        "origin": "notebook",
        "profile": profile,
        "command": "python -m async_cost.testing.made_up_runs",
        "started": "2026-01-01T00:00:00Z",
        "ended": "2026-01-01T00:10:00Z",
        "machine": _unknown(Machine)
        | {
            "name": machine,
            "cpu": f"no processor: made-up samples, {machine}",
            "architecture": "x86_64",
            "logical_cores": 2,
            "physical_cores": 1,
            "caches": [{"level": 1, "kind": "data", "bytes": 32768}],
            "memory_bytes": 8 * 2**30,
            "kernel": "Linux 6.1",
        },
        "toolchain": _unknown(Toolchain)
        | {"rustc": "rustc 1.95.0", "target": "x86_64-unknown-linux-gnu", "evcxr": "0.22.0"},
        "codegen": _unknown(Codegen)
        | {"profile": "dev", "opt_level": "3", "codegen_units": 1, "prefer_dynamic": True}
        | dict.fromkeys(("debug_assertions", "overflow_checks", "incremental"), False),
        "crates": {"criterion": "0.8.2"},
        "studies": {},
    }


def _unknown(record: type[Record]) -> dict[str, None]:
    """The fields of a record, of all of which nothing is known."""
    return dict.fromkeys(record.__struct_fields__)


def study_record(study: str, rounds: int, samples: int, seed: int, made: Study) -> dict:
    """One study in run.json: complete, and on a quiet machine."""
    return _unknown(StudyInfo) | {
        "state": "complete",
        "baseline": made.baseline,
        "controls": list(made.controls),
        "comparisons": _declared(study, made).drop("limit", "control").to_dicts(),
        "groups": dict(made.groups),
        "kinds": dict.fromkeys(made.groups, KINDS[0]) | dict(made.kinds),
        "seed": seed,
        "rounds": rounds,
        "samples": samples,
        "warm_up_ns": 2_000_000,
        "trial_ns": 6_000_000,
        "started": "2026-01-01T00:00:00Z",
        "ended": "2026-01-01T00:10:00Z",
        "resumed": 0,
        "load_before": [0.1, 0.1, 0.1],
        "load_after": [1.0, 0.5, 0.2],
        "steal_before_ms": 0,
        "steal_after_ms": 0,
        "failed": [dict(zip(KEY, key, strict=True)) | {"error": "made-up failure"} for key in made.failed],
        "episodes": [],
    }


def _declared(study: str, made: Study) -> pl.DataFrame:
    """The comparisons of a made-up study, as from `runs.comparisons.declared`."""
    base = {key[2]: key for key in made.times if key[1] == made.baseline}
    default = [(key, base[key[2]], "") for key in made.times if key[1] != made.baseline and key[2] in base]
    rows = [
        (*key, *baseline, group, "made up", "iteration", made.groups[group], key[1] in made.controls)
        for key, baseline, group in (default if made.comparisons is None else made.comparisons)
    ]
    keys = pl.DataFrame(list(made.times), schema=dict.fromkeys(KEY, pl.String), orient="row")
    return with_later(pl.DataFrame(rows, schema=SCHEMA, orient="row"), study, made.groups, keys)


def _replace(document: dict, names: list[str], value: object) -> None:
    for name in names[:-1]:
        document = document[name]
    document[names[-1]] = value


def _write(path: Path, table: pl.DataFrame, compress: bool) -> None:
    buffer = io.BytesIO()
    table.write_csv(buffer)
    if compress:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(buffer.getvalue()))
    else:
        path.write_bytes(buffer.getvalue())


def main() -> None:
    """Writes one made-up run and prints its folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, help="the run is written to <root>/made-up/20260101T000000Z")
    parser.add_argument("--reversed", action="store_true", help="turn every effect round")
    parser.add_argument("--untrusted", action="store_true", help="let the A/A control fail")
    parser.add_argument("--quick", action="store_true", help="label the run as quick")
    parser.add_argument("--drift", type=float, default=1.0, help="factor by which the machine slows down on the way")
    arguments = parser.parse_args()
    folder = make_run(
        arguments.root,
        reversed_truth() if arguments.reversed else ZERO_COST,
        sockets=reversed_truth(SOCKETS) if arguments.reversed else SOCKETS,
        ladder=reversed_truth(LADDER) if arguments.reversed else LADDER,
        controls=dict.fromkeys((OFF, ON, FEW, ALL), 1.05) if arguments.untrusted else None,
        profile="quick" if arguments.quick else "standard",
        drift=arguments.drift,
    )
    print(folder)


if __name__ == "__main__":
    main()
