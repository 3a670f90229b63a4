"""Made-up runs whose truth is known, in the very format of a measured one, and a made-up report.

Tests use them to see whether the estimates find the truth and whether the words follow it, and whether pages are safe
with what a stranger may send. To see what a notebook says about an effect or its reverse:

    PYTHONPATH=tests python -c 'from made_up_runs import *; make_run("/tmp/runs", REVERSED, ladder=LADDER)'
    ASYNC_COST_RUN=/tmp/runs/made-up/20260101T000000Z jupyter lab
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import polars as pl
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from async_cost.report import charts
from async_cost.report.notebook import OF_CODE, page_of
from async_cost.report.publish import publish
from async_cost.runs.comparisons import KEY, PAIR, of_today
from async_cost.runs.record import KINDS, SCHEMA_VERSION
from async_cost.statistics.interval import LEAST_EPISODES
from async_cost.statistics.trials import TOTALS

OFF, ON = "syscalls=off", "syscalls=on"
BASELINE = "manual"
#: The load of the ladder.
FEW = "live=3"
#: The baseline of ladder.
BEST = "manual (best)"
#: Requests served by one iteration of any study.
REQUESTS = 256
#: True time of `manual` for one iteration, in nanoseconds.
MANUAL_NS = {OFF: 26_000.0, ON: 500_000.0}
#: The same for `manual (best)` of the ladder, which is a faster loop.
BEST_NS = 14_000.0

HERE = Path(__file__).parent
#: What the page of a made-up analysis answers, as the front page asks it.
QUESTION = "Is it free?"
TRUTH = pl.read_csv(HERE / "truth.csv").rows_by_key("study", named=True)
#: True ratios to `manual` unless a caller says otherwise: an effect of about the published size.
ZERO_COST = {(row["variant"], row["parameter"]): row["ratio"] for row in TRUTH["zero-cost"]}
#: The same for the rungs of the ladder that claims, prices and headlines rest on, whose ratios are those to
#: `manual (best)`, with instructions and allocations for a request.
RUNGS = {row["variant"]: (row["ratio"], row["instructions"], row["allocations"]) for row in TRUTH["ladder"]}
LADDER = {(rung, FEW): ratio for rung, (ratio, _, _) in RUNGS.items()}
#: Every effect of zero-cost turned round: what was slower than `manual` is as much faster.
REVERSED = {key: 1 / ratio for key, ratio in ZERO_COST.items()}
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


def make_run(
    root: Path,
    truth: Mapping[tuple[str, str], float] | None = ZERO_COST,
    *,
    others: Mapping[str, Study] | None = None,
    ladder: Mapping[tuple[str, str], float] | None = None,
    controls: Mapping[str, float] | None = None,
    rounds: int = 120,
    samples: int = 3,
    noise: float = 0.01,
    drift: float = 1.0,
    seed: int = 4,
    profile: str = "standard",
    name: str = "20260101T000000Z",
    machine: str = "made-up",
    compress: bool = False,
    failed: Sequence[tuple[str, str]] = (),
    episodes: int | None = None,
    between: float = 0.0,
    hour: float = 0.0,
    drawn: bool = False,
    changes: Mapping[str, object] | None = None,
) -> Path:
    """Writes a run below `root` and returns its folder. It holds zero-cost (unless `truth` is None), ladder if
    that has its truth, and whatever studies `others` names.

    `truth`, `ladder` and `failed` are keyed by (variant, parameter). `controls` are the true ratios of the
    A/A control by parameter (1 in an honest run; the loads of the other studies may be left out). `noise` is the
    relative standard deviation of a trial. `drift` is by what factor the machine slows down and recovers in the course
    of the run. So many processes, `episodes` (else four), share the rounds; in each of them a key is off by a factor
    with the relative standard deviation `between`, and in the whole run by one with that of `hour`; `drawn` gives each
    process a link order of its own. `changes` are replaced fields of run.json, by dotted name.
    """
    controls = {OFF: 1.0, ON: 1.0} if controls is None else controls
    studies: dict[str, Study] = {}
    if truth is not None:
        theirs = {load: ratio for load, ratio in controls.items() if load in (OFF, ON)}
        studies["zero-cost"] = _zero_cost(BASELINE, MANUAL_NS, truth, theirs, failed, _counts)
    if ladder is not None:
        theirs = {FEW: controls.get(FEW, 1.0)}
        studies["ladder"] = _zero_cost(BEST, {FEW: BEST_NS}, ladder, theirs, failed, _counts_of_ladder)
    studies |= others or {}
    folder = Path(root) / machine / name
    folder.mkdir(parents=True)
    info = json.loads((HERE / "run.json").read_text(encoding="utf-8"))
    usual = info["studies"].pop("")
    info |= {"schema_version": SCHEMA_VERSION, "run_id": f"{machine}/{name}", "profile": profile}
    info["machine"] |= {"name": machine, "cpu": f"no processor: made-up samples, {machine}"}
    rng_of_hour = np.random.default_rng(seed)
    episodes = episodes or min(LEAST_EPISODES, rounds)
    firsts = [number * rounds // episodes for number in range(episodes)]
    for number, (study, made) in enumerate(studies.items()):
        rng = np.random.default_rng(seed + number)
        moved = {key: ns * np.exp(rng_of_hour.normal(0, hour)) for key, ns in made.times.items()}
        time = _sampled(study, replace(made, times=moved), rounds, samples, noise, drift, between, firsts, rng)
        counts = _values(made.counts, "counter", pl.Int64).select(pl.lit(study).alias("study"), pl.all())
        tables = {"time": time, "counts": counts}
        if made.metrics:
            tables["metrics"] = _metrics(time, made, noise, rng)
        for lens, table in tables.items():
            file = folder / f"{study}.{lens}.csv{'.gz' if compress else ''}"
            table.write_csv(file, compression="gzip" if compress else "uncompressed")
        lasted = _episodes(firsts, float(time["elapsed_ns"].sum()) / 1e9, seed if drawn else None)
        declared = {"baseline": made.baseline, "controls": list(made.controls), "comparisons": _declared(study, made)}
        kinds = dict.fromkeys(made.groups, KINDS[0]) | dict(made.kinds)
        failures = [dict(zip(KEY, key, strict=True)) | {"error": "made-up failure"} for key in made.failed]
        info["studies"][study] = usual | declared | {"groups": dict(made.groups), "kinds": kinds, "failed": failures}
        info["studies"][study] |= {"seed": seed + number, "rounds": rounds, "samples": samples}
        info["studies"][study] |= {"episodes": lasted, "ended": lasted[-1]["ended"]}
    info = changed(info, changes or {})
    (folder / "run.json").write_text(json.dumps(info, indent=2) + "\n", encoding="utf-8")
    return folder


def changed(info: dict, fields: Mapping[str, object]) -> dict:
    """A run.json with other fields, by dotted name; an entry of a list has its number for a name."""
    for names, value in fields.items():
        part: Any = info
        *records, last = names.split(".")
        for name in records:
            part = part[int(name) if isinstance(part, list) else name]
        part[last] = value
    return info


def change_record(run: Path, fields: Mapping[str, object]) -> Path:
    """Changes these fields of the run.json of a run, and returns the run."""
    info = json.loads((run / "run.json").read_text(encoding="utf-8"))
    (run / "run.json").write_text(json.dumps(changed(info, fields)), encoding="utf-8")
    return run


def copy_of(run: Path, machine: str) -> Path:
    """The folder of a copy of a run that calls its machine otherwise."""
    copy = shutil.copytree(run, run.parents[1] / machine / run.name)
    return change_record(copy, {"run_id": f"{machine}/{run.name}", "machine.name": machine})


def make_series(root: Path, sittings: int = 3, *, seed: int = 4, **how: Any) -> list[Path]:
    """So many runs of one series, as from `make_run`, on days of their own; the first one first."""
    named = {"series": f"{how.get('machine', 'made-up')}/20260101T000000Z", "program": "0" * 64}
    how |= {"drawn": True, "changes": named | how.get("changes", {})}
    return [
        make_run(root, name=f"202601{number + 1:02}T000000Z", seed=seed + 1000 * number, **how)
        for number in range(sittings)
    ]


def bench_of(variant: str, parameter: str) -> str:
    """The bench word that goes with a variant and parameter: `nonbox`, `nonbox+syscalls`."""
    return variant.removesuffix(" (A/A)") + ("+syscalls" if parameter == ON else "")


def _zero_cost(
    baseline: str,
    of_baseline: Mapping[str, float],
    truth: Mapping[tuple[str, str], float],
    controls: Mapping[str, float],
    failed: Sequence[tuple[str, str]],
    counts: Callable[[str, str], dict[str, int]],
) -> Study:
    """A study of the family of zero-cost; `of_baseline` are times by load. What failed did so after a round."""
    parameters = sorted({parameter for _, parameter in truth} | set(controls))
    ratios = {(baseline, parameter): 1.0 for parameter in parameters}
    ratios |= {(f"{baseline} (A/A)", parameter): ratio for parameter, ratio in controls.items()} | dict(truth)
    times = {(bench_of(*name), *name): ratio * of_baseline[name[1]] for name, ratio in ratios.items()}
    return Study(
        times,
        controls=[f"{baseline} (A/A)"],
        baseline=baseline,
        counts={key: counts(*key[1:]) for key in times},
        failed={key: 1 for key in times if key[1:] in failed},
    )


def _sampled(
    study: str,
    made: Study,
    rounds: int,
    samples: int,
    noise: float,
    drift: float,
    between: float,
    firsts: Sequence[int],
    rng: np.random.Generator,
) -> pl.DataFrame:
    """Rows of time.csv: every key once a round in shuffled order, on a machine that slows down and recovers, by
    processes that begin at `firsts`. Without the rounds that failed keys did not live to see, and samples that a key
    does not take.
    """
    keys = list(made.times)
    count = len(keys)
    order = np.argsort(rng.random((rounds, count)), axis=1)  # order[round, position] is a key
    moment = (np.arange(rounds)[:, None] + np.arange(count)[None, :] / count) / rounds
    speed = drift ** np.sin(np.pi * moment)
    true = np.array([made.times[key] for key in keys])
    trial = true[order] * speed * np.exp(rng.normal(0, noise, (rounds, count)))
    if between:
        layout = np.exp(rng.normal(0, between, (len(firsts), count)))
        episode = np.searchsorted(firsts, np.arange(rounds), side="right") - 1
        trial *= layout[episode[:, None], order]
    sample = trial[:, :, None] * np.exp(rng.normal(0, noise / 4, (rounds, count, samples)))
    iterations = np.maximum(1, np.round(1e6 / sample)).astype(np.int64)
    places = dict(zip(("round", "position", "sample"), map(np.ravel, np.indices(sample.shape)), strict=True))
    time = pl.DataFrame(
        {
            "study": study,
            **{
                name: np.repeat(np.array([key[place] for key in keys], dtype=object)[order], samples)
                for place, name in enumerate(KEY)
            },
            **places,
            "iterations": iterations.ravel(),
            "elapsed_ns": np.maximum(1, np.round(sample * iterations)).astype(np.int64).ravel(),
        }
    )
    for limited, column in ((made.failed, "round"), (made.samples, "sample")):
        for key, least in limited.items():
            time = time.remove(pl.col(column) >= least, **dict(zip(KEY, key, strict=True)))
    return time


def _episodes(firsts: Sequence[int], sampled_s: float, layout: int | None) -> list[dict]:
    """The processes that measured, in run.json, one after the other: for twice the time of their samples. `layout` is
    the link order of the first one.
    """
    duration, began = max(1.0, 2 * sampled_s / len(firsts)), datetime(2026, 1, 1)
    clock = [f"{began + timedelta(seconds=round(at * duration)):%Y-%m-%dT%H:%M:%SZ}" for at in range(len(firsts) + 1)]
    return [
        {
            "first_round": first,
            "started": started,
            "ended": ended,
            "layout": None if layout is None else layout + number,
        }
        for number, (first, (started, ended)) in enumerate(zip(firsts, pairwise(clock), strict=True))
    ]


def _values(by_key: Mapping[Key, Mapping[str, float]], name: str, kind: type[pl.DataType]) -> pl.DataFrame:
    """A row for each named value of each key."""
    rows = [(*key, *item) for key, values in by_key.items() for item in values.items()]
    return pl.DataFrame(rows, schema=dict.fromkeys((*KEY, name), pl.String) | {"value": kind}, orient="row")


def _metrics(time: pl.DataFrame, made: Study, noise: float, rng: np.random.Generator) -> pl.DataFrame:
    """Rows of metrics.csv, for the samples of `time`."""
    rows = time.join(_values(made.metrics, "metric", pl.Float64), on=KEY, maintain_order="left")
    times = pl.when(pl.col("metric").is_in(TOTALS)).then(pl.col("iterations")).otherwise(1)
    noisy = pl.col("value") * times * pl.Series(np.exp(rng.normal(0, noise, rows.height)))
    return rows.with_columns(noisy.round().cast(pl.Int64).alias("value")).drop("iterations", "elapsed_ns")


def _counts(variant: str, parameter: str) -> dict[str, int]:
    """The exact counts that the algorithm has: the same I/O for all, and what each variant adds."""
    operations = {"register": 257, "unregister": 257, "poll": 258, "accept": 512, "read": 512, "write": 512}
    polled = {"waker_clones": 1536, "waker_drops": 1536, "wakes": 768, "polls": 1025}
    manual = variant.startswith(BASELINE)
    boxes = not manual and variant not in ("nonbox", "large+nonbox")
    return {
        **operations,
        "syscalls": 2308 if parameter == ON else 0,
        "transactions": REQUESTS,
        "allocations": 257 * boxes,
        "instructions": 280_000 if manual else 610_000,
        "atomic_instructions": 3072 if variant == "box+arc" else 0,
        "thread_local_instructions": 1542 * boxes,
        **(dict.fromkeys(polled, 0) if manual else polled),
    }


def _counts_of_ladder(variant: str, parameter: str) -> dict[str, int]:
    """The exact counts of the ladder."""
    _, instructions, allocations = RUNGS.get(variant, (1.0, 570, 0))
    counts = {"instructions": instructions, "allocations": allocations, "allocated_bytes": 272 * allocations}
    return {"transactions": REQUESTS} | {name: REQUESTS * count for name, count in counts.items()}


def _declared(study: str, made: Study) -> list[dict[str, str]]:
    """The comparisons of a made-up study, with those that a real study of its name declares today."""
    base = {key[2]: key for key in made.times if key[1] == made.baseline}
    default = [(key, base[key[2]], "") for key in made.times if key[1] != made.baseline and key[2] in base]
    given = {(key, other): group for key, other, group in (default if made.comparisons is None else made.comparisons)}
    groups = {other: group for (_, other), group in given.items()} | {key: group for (key, _), group in given.items()}
    words = ("group", "change", "unit")
    today = {(row[:3], row[3:6]): row[6:] for row in of_today().filter(study=study).select(*PAIR, *words).rows()}
    entries = []
    for key, other in dict.fromkeys([*today, *given]):
        usual, change, unit = today.get((key, other), ("", "made up", "iteration"))
        group = given.get((key, other), groups.get(key, groups.get(other, usual)))
        known = (key, other) in given or ({key, other} <= made.times.keys() and (other, key) not in given)
        if known and group in made.groups:
            entries.append(dict(zip((*PAIR, *words), (*key, *other, group, change, unit), strict=True)))
    return entries


# -- a made-up report ------------------------------------------------------------------------------------------

HOSTILE = "<script>alert('mine')</script><img src=x onerror=alert(1)>"
ANSWER = "Plain async takes 2.61 times as long as the hand-written loop."
#: Every kind of word that code is coloured by, and a line that is wider than the page.
CODE = '''# a comment
import polars as pl
@decorated
class Sample(Base):
    """Words."""
    def shown(self, number: int = 7, *rest) -> str:
        return f"{number:g} {self}" if not number in [1, 0x10, 2.5] and None is not True else b"\\n" + print(lambda x: x**2)
assert len(name) > 3, "a long line that nobody broke, so that whoever reads it on a phone has to move it sideways, which takes a keyboard or a finger"
'''
FINDING = "nonbox takes 2.61 times as long as manual; boxing adds to it"

RATIOS = pl.read_csv(HERE / "ratios.csv").with_columns(of=pl.lit("this run"))
FADING = pl.DataFrame({"work_us": [0.1, 1.0, 10.0], "low": [130.0, 13.0, 1.3], "high": [170.0, 17.0, 1.7], "of": "box"})
DRIFT = {"round": range(60), "time": [33 + n % 7 / 5 + 20 * (20 < n < 30) for n in range(60)]}
DRIFT = pl.DataFrame(DRIFT).with_columns(of=pl.lit("nonbox"))
COUNTS = pl.DataFrame({"row": ["manual", "nonbox", "box"], "added": [2308, 2308, 514]})


def example_run(root: Path, name: str = "20261120T190102Z", **changes: Any) -> Path:
    """A small run of a machine whose owner is hostile; `changes` replace top-level fields of its run.json."""
    facts = {
        "machine.cpu": "Toy CPU 3000 with a rather long name @ 2.40 GHz",
        "machine.virtualisation": "kvm",
        "machine.os": f"Toy OS {HOSTILE}",
        "git": {"revision": "0123456789abcdef0123456789abcdef01234567", "clean": True},
        "studies.zero-cost.resumed": 1,
        "studies.zero-cost.steal_after_ms": 40,
    }
    return make_run(root, {}, machine="toy-2c", name=name, changes=facts | changes, rounds=2, samples=2)


def write_notebook(path: Path) -> Path:
    """An executed analysis notebook with one of everything that ours hold."""
    table = "| variant | " + " | ".join(f"a long column {n}" for n in range(9)) + " |\n"
    table += "|---|" + "---|" * 9 + "\n| nonbox |" + " 2.61 |" * 9 + "\n"
    shown = f"<style>td {{ color: red }}</style><table onclick='x()'><tr><td>7{HOSTILE}</td></tr></table>"
    axes: Any = {"x": "work_us", "y": "low", "x_title": "own work (µs)", "y_title": "overhead (%)"}
    fading = charts.lines(FADING, **axes, series="of", log=True, description="fades at 3 µs")
    axes = {"x": "round", "y": "time", "x_title": "round", "y_title": "time"}
    drifting = charts.lines(DRIFT, **axes, series="of", description="rounds 21 to 29 were slow")
    cells = [
        new_markdown_cell("# Is async `zero` cost?\n\nThe question of this page.\n\n## The answer"),
        _cell("display(Markdown(answer))", _markdown(f"{ANSWER}\n\n- And a longer story."), tags=["answer"]),
        new_markdown_cell(
            "## The charts\n\nMeasured `here`: [how](https://example.org/method), [source](measure.ipynb)."
        ),
        _cell(
            "ac.intervals(ratios)",
            _chart(charts.intervals(RATIOS, series="of", x_title="time / time of the baseline", description=FINDING)),
        ),
        _cell("ac.lines(rows)", _chart(fading)),
        new_markdown_cell("What the code below computes.", metadata={"tags": [OF_CODE]}),
        _cell(CODE, _markdown("What the code above says.")),
        _cell("ac.lines(drift)", _chart(drifting)),
        _cell("ac.bars(rows)", _chart(charts.bars(COUNTS, unit="calls", description="same I/O"))),
        _cell("wide", _markdown(table)),
        _cell("hostile", _markdown(f"Measured on {HOSTILE}")),
        _cell("table", new_output("display_data", {"text/html": shown, "text/plain": "a table"})),
        _cell("print('x' * 300)", new_output("stream", name="stdout", text=HOSTILE + "x" * 300)),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=cells, metadata={"async_cost": {"question": QUESTION}}), path)
    return path


def publish_example(root: Path, **run: Any) -> Path:
    """The folder of a published example report below `root`; `run` as for `example_run`."""
    notebook = write_notebook(root / "zero-cost.ipynb")
    publish(example_run(root / "run", **run), [page_of(notebook)], root / "report")
    return root / "report"


def _cell(source: str, output: nbformat.NotebookNode, tags: list[str] | None = None) -> nbformat.NotebookNode:
    return new_code_cell(source, outputs=[output], execution_count=1, metadata={"tags": tags or []})


def _markdown(text: str, **metadata: object) -> nbformat.NotebookNode:
    return new_output("display_data", {"text/markdown": text, "text/plain": "…"}, metadata=metadata)


def _chart(chart: Any) -> nbformat.NotebookNode:
    charts.enable()
    data, metadata = charts.mime_bundle(chart.to_dict())
    return new_output("display_data", data, metadata=metadata)
