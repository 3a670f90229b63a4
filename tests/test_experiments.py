"""Experiments on the measuring: the page on trust finds their truth again, and says what was not measured."""

import json
import re
import tomllib
from itertools import product
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from made_up_runs import OFF, make_run, make_series

from async_cost.runs import experiments as results
from async_cost.runs.find import load_run
from async_cost.statistics import coverage
from async_cost.words import CONTROL
from async_cost.workflow.studies import analysis
from async_cost.workflow.toolchain import ROOT
from experiments import __main__ as experiments
from experiments import cells, shapes
from experiments import coverage as simulation
from experiments.__main__ import COLUMNS

TRUTH = {"manual": 1.0, "nonbox": 2.5, "box": 3.0}


def trials(experiment, setting, repeat, *, rounds=40, factor=None, seed=0) -> pl.DataFrame:
    """Interleaved trials; `factor` multiplies the times of some variants."""
    rng = np.random.default_rng([seed, repeat, len(setting)])
    factor = factor or {}
    rows = [
        (experiment, setting, repeat, name, name, "syscalls=off", number, 1000 * true * factor.get(name, 1) * slow, 0)
        for number in range(rounds)
        for name, true in TRUTH.items()
        for slow in [(1 + 0.5 * np.sin(number / 5)) * np.exp(rng.normal(0, 0.01))]
    ]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def estimated(method, repeat, wrong) -> pl.DataFrame:
    """One estimate for the baseline and one for its control, which is `wrong` times as long."""
    times = {"manual": 1000.0, f"manual{CONTROL}": 1000.0 * wrong}
    rows = [("identical", method, repeat, "manual", name, "syscalls=off", None, ns, None) for name, ns in times.items()]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def controls(method, repeat, wrong=1.0) -> pl.DataFrame:
    """Interleaved rounds of the baseline and its control."""
    made = trials("identical", method, repeat, factor={"nonbox": wrong / TRUTH["nonbox"]})
    return made.remove(variant="box").with_columns(pl.col("variant").replace("nonbox", f"manual{CONTROL}"))


def record() -> dict:
    """The record of a machine that does not exist."""
    machine = {"name": "made-up", "cpu": "no processor"}
    return {"started": "2026-01-01T00:00:00Z", "machine": machine}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The variables of the page on trust after it has read a table of results."""
    root = tmp_path_factory.mktemp("page")
    run = make_run(root, rounds=4)

    def read(made) -> dict:
        code = [cell for cell in json.loads(analysis("trust").read_bytes())["cells"] if cell["cell_type"] == "code"]
        variables: dict = {}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ASYNC_COST_RUN", str(run))
            patch.setattr(results, "FOLDER", made.parent)
            for cell in code:
                exec("".join(cell["source"]), variables)
        return variables

    return read


@pytest.fixture(scope="module")
def computed(page, tmp_path_factory) -> dict:
    """What the page computes from experiments whose truth is known."""
    parts = []
    for n in range(5):
        parts += [controls("short trials", n), controls("long trials", n, 1.02), estimated("Criterion", n, 1 + 0.1 * n)]
    for n, p in np.ndindex(3, 4):
        parts.append(trials("layout", f"order {n}", p, factor={"box": 1.05} if n == 2 else None, seed=n))
    made = experiments.write(record(), pl.concat(parts), tmp_path_factory.mktemp("results"))
    return page(made)


def rows_of(computed, name, **key) -> pl.DataFrame:
    return computed[name].filter(**key)


@pytest.fixture(scope="module")
def sittings(tmp_path_factory):
    truth = {(name, OFF): ratio for name, ratio in {"nonbox": 3.0, "box": 3.3, "large+box": 4.0}.items()}
    how = {"controls": {OFF: 1.0}, "rounds": 12, "episodes": 6, "between": 0.01, "hour": 0.01}
    return load_run(make_series(tmp_path_factory.mktemp("sittings"), 4, truth=truth, **how)[0])


def test_sittings_are_where_the_others_say_as_often_as_in_honest_series(sittings, monkeypatch):
    monkeypatch.setattr(coverage, "SERIES", 60)
    table = coverage.held_out(sittings)
    kinds = product(("ratios", "differences"), ("each from the rest", "half from half"))
    assert table.select("of", "test").rows() == list(kinds)
    assert table["cases"].to_list() == [4 * 4, 3 * 4] * 2
    for share in ("inside_95", "inside_50"):
        assert (table[share] >= table[f"{share}_low"]).all() and (table[share] <= table[f"{share}_high"]).all()
    assert (table["score"] < 1).all(), "moderated intervals are better than those of plain t over sittings"
    assert coverage.held_out(sittings.sittings[0]).is_empty()


def test_simulated_intervals_hold_the_truth_and_find_what_is_large(sittings, monkeypatch):
    monkeypatch.setattr(coverage, "SERIES", 200)
    table = simulation.coverage(coverage.components(sittings))
    assert table.height == len(simulation.DESIGNS) * len(simulation.CORRELATED)
    honest = table.filter(hours="independent", sittings=6).row(0, named=True)
    assert 0.92 < honest["inside"] < 0.98 and 0.92 < honest["inside_added"] < 0.98 and honest["wrong"] < 0.002
    assert honest["found_0.01"] < 0.05 < honest["found_0.05"]


def test_identical_code_shows_the_error_of_each_method(computed):
    methods = computed["methods"]
    assert methods["setting"].to_list() == ["short trials", "long trials", "Criterion"]
    assert methods["readings"].to_list() == [5] * 3
    assert methods["median"].to_list() == pytest.approx([0, 0.02, 0.2], abs=0.005)
    assert methods["p99"].item(2) == pytest.approx(0.396)


def test_an_order_of_linking_that_matters_is_told_from_noise(computed):
    box, nonbox = (rows_of(computed, "orders", variant=name).row(0, named=True) for name in ("box", "nonbox"))
    assert box["apart"] and box["moved"] == pytest.approx(0.05, abs=0.01)
    assert not nonbox["apart"] and nonbox["moved"] < 0.02


def test_estimates_are_read_from_what_criterion_prints():
    printed = "0    time:   [11.695 µs 12.301 µs]\nFound 4 outliers\nmanual\t12301.25\n1\nmanual (A/A)\t39045.5\n"
    made = experiments.estimates("identical Criterion", printed, 3)
    assert made.select("setting", "bench", "variant", "ns", "round", "repeat").rows() == [
        ("Criterion", "manual", "manual", 12301.25, None, 3),
        ("Criterion", "manual", "manual (A/A)", 39045.5, None, 3),
    ]
    with pytest.raises(experiments.Unable, match="no estimate"):
        experiments.estimates("identical Criterion", "Benchmarking", 0)


def test_what_is_recorded_of_a_failure_names_no_folder():
    made = {"skipped": {}}
    message = "cargo exited with 1:\n/elsewhere/x/measure.ipynb: `/elsewhere/y.rs` is not ../there"
    experiments.leave_out(made, "layout", experiments.Unable(message))
    assert made["skipped"]["layout"] == "measure.ipynb: `y.rs` is not ../there"


def test_a_tiny_measurement_is_whole(monkeypatch, page):
    def far():
        raise experiments.Unable("350 MB of sources for one experiment")

    monkeypatch.setattr(experiments, "_build_tango", far)
    monkeypatch.setenv("CARGO_PROFILE_BENCH_OPT_LEVEL", "0")  # no time is looked at
    monkeypatch.setenv("CARGO_PROFILE_BENCH_CODEGEN_UNITS", "16")
    made = experiments.measure(experiments.TINY, ("identical", "layout"))
    skipped = json.loads(made.with_name("trials.json").read_text())["skipped"]
    assert "identical" not in skipped
    assert "350 MB" in skipped["tango-bench"], "what cannot be built is left out, with the reason"
    identical = page(made)["methods"]
    assert {*experiments.TRIALS, "Criterion"} <= {*identical["setting"]}


def test_the_lock_of_tango_bench_names_the_crates_of_the_workspace():
    """Else it could not be built, or would measure another program."""
    locks = (folder / "Cargo.lock" for folder in (experiments.TANGO.parent, ROOT))
    mine, ours = (tomllib.loads(lock.read_text())["package"] for lock in locks)
    versions = {package["name"]: package["version"] for package in mine}
    for crate in ("harness", "zero-cost/loop"):
        manifest = tomllib.loads((ROOT / "rust-kernels" / crate / "Cargo.toml").read_text())
        needed = [name for name, wanted in manifest["dependencies"].items() if "optional" not in wanted]
        for name in needed:
            assert versions[name] in {package["version"] for package in ours if package["name"] == name}, name


# -- cells beside programs ---------------------------------------------------------------------------------------------


def test_cells_differ_where_their_ratio_is_another_by_more_than_counts(tmp_path):
    """Of two comparisons with a limit of 1 %, one is 5 % larger from cells, and one the same."""
    plans = {}
    for seed, (way, more) in enumerate({"program": 1.0, "cells": 1.05}.items()):
        truth = {("box", OFF): 3.0 * more, ("nonbox", OFF): 2.0}
        how = {"noise": 0.01, "between": 0.01, "episodes": cells.PROCESSES, "rounds": 10 * cells.PROCESSES}
        partial = make_run(tmp_path, truth, machine=way, seed=seed, **how)
        plans[way] = SimpleNamespace(partial=partial)
    compared = cells._compared(plans, "zero-cost").filter(baseline_variant="manual", parameter=OFF)
    rows = {row["variant"]: row for row in compared.iter_rows(named=True)}
    assert rows["box"]["differs"] and not rows["nonbox"]["differs"]
    assert rows["box"]["both"] == pytest.approx(1.05, rel=0.02)
    assert rows["box"]["low"] < 1.05 < rows["box"]["high"] and rows["nonbox"]["low"] < 1 < rows["nonbox"]["high"]


# -- what shapes cost before they run ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", shapes.CALLS)
def test_a_shape_is_compiled_with_nothing_but_what_it_needs(shape):
    crate = shapes.crate(shapes.CALLS[shape], shapes.SOURCE.read_text(encoding="utf-8"))
    of_others = {
        "#[async_trait]": "async_trait",
        "Either": "enum",
        "AsyncFn": "AsyncFn",
        "Waits(PendingTimes": "by hand",
    }
    assert [shape.startswith(owner) for text, owner in of_others.items() if text in crate] in ([], [True])
    assert not re.search(r"harness|smol|tokio|Buffer|study", crate)


def test_every_shape_of_the_study_is_compiled_but_the_one_that_has_one_depth():
    study = pl.read_csv(ROOT / "data" / "comparisons.csv").filter(study="async-fn", bench="shape")
    measured = {*study["variant"], *study["baseline_variant"]} - {"dyn, one place"}
    assert measured == shapes.CALLS.keys() - {"nothing"}


def test_a_shape_has_its_machine_code_and_its_time():
    calls = {name: shapes.CALLS[name] for name in ("nothing", "fn", "async fn")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "CALLS", calls)
        patch.setattr(shapes, "_extern", list)
        table = shapes.measure(builds=1)
    assert table["shape"].to_list() == list(calls)
    assert table["text_bytes"].is_sorted() and table["text_bytes"].n_unique() == 3
    assert (table["cpu_ms"] > 0).all() and table["rustc"].str.starts_with("rustc 1.").all()
