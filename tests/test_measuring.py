"""Experiments on the measuring: their truth is found again, and what was not measured is said to be missing."""

import json

import numpy as np
import polars as pl
import pytest

from async_cost.errors import DataError
from async_cost.experiments import measure as experiments
from async_cost.experiments import results as measuring
from async_cost.experiments.results import COLUMNS
from async_cost.runs.comparisons import KEY

TRUTH = {"manual": 1.0, "nonbox": 2.5, "box": 3.0}


def trials(experiment, setting, repeat, *, rounds=40, noise=0.01, factor=None, seed=0) -> pl.DataFrame:
    """Interleaved trials; `factor` multiplies the times of some variants."""
    rng = np.random.default_rng([seed, repeat, len(setting)])
    rows = [
        (
            experiment,
            setting,
            repeat,
            name,
            name,
            "syscalls=off",
            number,
            1000 * true * (factor or {}).get(name, 1) * noisy,
        )
        for number, slow in enumerate(1 + 0.5 * np.sin(np.arange(rounds) / 5))
        for name, true in TRUTH.items()
        for noisy in [slow * np.exp(rng.normal(0, noise))]
    ]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def sequential(repeat, wrong) -> pl.DataFrame:
    """One estimate for each variant; `wrong` is by what factor the baseline is off."""
    rows = [
        (
            "precision",
            "sequential",
            repeat,
            name,
            name,
            "syscalls=off",
            None,
            1000 * true * (wrong if name == "manual" else 1),
        )
        for name, true in TRUTH.items()
    ]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def record(**changes) -> dict:
    """experiments.json of a machine that does not exist."""
    machine = {"name": "made-up", "cpu": "no processor"}
    return {
        "schema_version": 1,
        "started": "2026-01-01T00:00:00Z",
        "machine": machine,
        "tiny": False,
        "skipped": {},
        **changes,
    }


def test_errors_are_held_against_the_long_reference():
    parts = [
        trials("precision", "reference", 0, rounds=200),
        trials("precision", "interleaved", 0),
        sequential(0, 1.25),
    ]
    found = measuring.precision(pl.concat(parts))
    assert found.height == 4
    assert found.filter(setting="sequential")["error"].to_list() == pytest.approx([0.2, 0.2], abs=0.01)
    assert found.filter(setting="interleaved")["error"].max() < 0.02
    assert found.filter(variant="nonbox")["truth"].to_list() == pytest.approx([2.5, 2.5], rel=0.01)


def test_an_order_of_linking_that_matters_is_told_from_noise():
    parts = [
        trials("layout", f"order {n}", p, factor={"box": 1.05} if n == 2 else None, seed=n)
        for n in range(3)
        for p in (0, 1)
    ]
    found = measuring.spread(measuring.layouts(pl.concat(parts)))
    box, nonbox = (found.row(by_predicate=pl.col("variant") == name, named=True) for name in ("box", "nonbox"))
    assert box["apart"] and box["moved"] == pytest.approx(0.05, abs=0.01)
    assert not nonbox["apart"] and nonbox["moved"] < 0.02


def test_a_kernel_that_departs_from_the_native_program_is_seen():
    parts = [
        trials("kernel", "native", 0),
        trials("kernel", "notebook", 0, seed=1),
        trials("kernel", "debug notebook", 0, seed=2, factor={"manual": 2.4, "nonbox": 2.0, "box": 2.0}),
    ]
    found = measuring.kernels(pl.concat(parts))
    assert not measuring.departures(found, "notebook")["apart"].any()
    debug = measuring.departures(found, "debug notebook")
    assert debug["apart"].all()
    assert debug["ratio"].to_list() == pytest.approx([2 / 2.4, 2 / 2.4], rel=0.02)
    times = dict(measuring.baseline_times(pl.concat(parts)).select("setting", "ns").rows())
    assert times["debug notebook"] / times["native"] == pytest.approx(2.4, rel=0.05)


def test_what_was_not_measured_is_empty_everywhere(tmp_path):
    nothing = measuring.newest("made-up", {}, tmp_path)
    assert nothing.record is None
    for ask in (measuring.precision, measuring.layouts, measuring.kernels, measuring.baseline_times):
        assert ask(nothing.of("precision")).is_empty()
    assert measuring.spread(measuring.layouts(nothing.of("layout"))).is_empty()
    assert measuring.departures(measuring.kernels(nothing.of("kernel")), "notebook").is_empty()


def test_results_are_written_whole_and_read_back(tmp_path):
    made = trials("precision", "reference", 0)
    folder = experiments.write(record(), made, tmp_path)
    assert folder == tmp_path / "made-up" / "20260101T000000Z"
    found = measuring.newest("made-up", {}, tmp_path)
    assert found.record == record()
    assert found.trials.select(KEY).equals(made.select(KEY)) and found.trials["ns"].to_numpy() == pytest.approx(
        made["ns"], abs=0.1
    )
    other = experiments.write(record() | {"machine": record()["machine"] | {"name": "other"}}, made, tmp_path)
    assert measuring.newest("made-up", {}, tmp_path).record == record(), "its own comes first"
    assert measuring.newest("third", {}, tmp_path).record["machine"]["name"] == "other", (
        "else any, and the page says so"
    )
    assert other.parent.name == "other"
    assert measuring.newest("another", {"ASYNC_COST_EXPERIMENTS": str(folder)}, tmp_path).record == record()


def test_damaged_results_are_named(tmp_path):
    folder = experiments.write(record(), trials("precision", "reference", 0), tmp_path)
    (folder / "trials.csv.gz").write_bytes(b"torn")
    with pytest.raises(DataError, match=r"trials\.csv\.gz: the compressed file is damaged"):
        measuring.load(folder)
    (folder / "experiments.json").write_text(json.dumps(record(schema_version=2)))
    with pytest.raises(DataError, match="schema version 1"):
        measuring.load(folder)
    (folder / "experiments.json").write_text("{")
    with pytest.raises(DataError, match=r"experiments\.json: not readable"):
        measuring.load(folder)


def test_estimates_are_read_from_what_criterion_prints():
    table = experiments.Table()
    printed = "0    time:   [11.695 µs 12.301 µs 13.057 µs]\nFound 4 outliers\nmanual\t12301.25\n1\nbox+arc\t39045.5\n"
    table.add_estimates("precision", "sequential", 3, printed)
    assert table.parts[0].select("variant", "ns", "round", "repeat").rows() == [
        ("manual", 12301.25, None, 3),
        ("box+arc", 39045.5, None, 3),
    ]
    with pytest.raises(experiments.Unable, match="no estimate"):
        table.add_estimates("precision", "sequential", 0, "Benchmarking")


def test_the_copies_of_the_notebook_differ_in_their_settings_alone():
    plain, debug = (experiments.notebook(7, like_bench) for like_bench in (True, False))
    told = [
        (one.source, other.source)
        for one, other in zip(plain.cells, debug.cells, strict=True)
        if one.source != other.source
    ]
    assert len(told) == 1
    one, other = told[0]
    assert "CARGO_PROFILE_DEV_OPT_LEVEL=3" in one and "build_env" not in other
    assert other.splitlines() == [line for line in one.splitlines() if not line.startswith(":build_env")]
    assert any("rounds: 7" in cell.source for cell in plain.cells)


def test_what_is_recorded_of_a_failure_names_no_folder():
    message = "cargo exited with 1:\n/elsewhere/x/measure.ipynb: `/elsewhere/y.rs` is not ../there"
    assert experiments.public(message) == "measure.ipynb: `y.rs` is not ../there"


def test_both_readings_take_the_same_time():
    sizes = experiments.Sizes()
    assert sizes.rounds * experiments.TRIAL_MS == pytest.approx(sizes.warm_up_ms + sizes.time_ms, rel=0.01)
