"""Experiments on the measuring find the truth of made-up trials again."""

import json
import random
import re
import tomllib
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from made_up_runs import OFF, make_run, make_series

from async_cost.runs.find import load_run
from async_cost.words import CONTROL
from async_cost.workflow.toolchain import ROOT
from experiments import against, cells, coverage, crates, methods, no_ops, shapes

TRUTH = {"manual": 1.0, "nonbox": 2.5, "box": 3.0}


def trials(setting, repeat, *, rounds=40, factor=None, seed=0) -> pl.DataFrame:
    """Interleaved trials; `factor` multiplies the times of some variants."""
    rng = np.random.default_rng([seed, repeat, len(setting)])
    factor = factor or {}
    rows = [
        (setting, repeat, name, OFF, number, 0, 1000 * true * factor.get(name, 1) * slow)
        for number in range(rounds)
        for name, true in TRUTH.items()
        for slow in [(1 + 0.5 * np.sin(number / 5)) * np.exp(rng.normal(0, 0.01))]
    ]
    return pl.DataFrame(rows, schema=methods.COLUMNS, orient="row")


def controls(setting, repeat, wrong=1.0) -> pl.DataFrame:
    """Interleaved rounds of the baseline and its control, which takes `wrong` times as long."""
    made = trials(setting, repeat, factor={"nonbox": wrong / TRUTH["nonbox"]})
    return made.remove(variant="box").with_columns(pl.col("variant").replace("nonbox", f"manual{CONTROL}"))


@pytest.fixture(scope="module")
def sittings(tmp_path_factory):
    truth = {(name, OFF): ratio for name, ratio in {"nonbox": 3.0, "box": 3.3, "large+box": 4.0}.items()}
    how = {"controls": {OFF: 1.0}, "rounds": 12, "episodes": 6, "between": 0.01, "hour": 0.01}
    return load_run(make_series(tmp_path_factory.mktemp("sittings"), 4, truth=truth, **how)[0])


def test_sittings_are_where_the_others_say_as_often_as_in_honest_series(sittings, monkeypatch):
    monkeypatch.setattr(coverage, "SERIES", 60)
    table = coverage.held_out(sittings)
    assert table.select("of", "cases").rows() == [("ratios", 4 * 4), ("differences", 4 * 4)]
    for share in ("inside_95", "inside_50"):
        assert (table[share] >= table[f"{share}_low"]).all() and (table[share] <= table[f"{share}_high"]).all()
    assert (table["score"] < 1).all(), "moderated intervals are better than those of plain t over sittings"
    assert coverage.held_out(sittings.sittings[0]).is_empty()


def test_simulated_intervals_hold_the_truth_and_find_what_is_large(sittings, monkeypatch):
    monkeypatch.setattr(coverage, "SERIES", 200)
    table = coverage.coverage(coverage.components(sittings))
    assert table.height == len(coverage.DESIGNS) * len(coverage.CORRELATED)
    honest = table.filter(hours="independent", sittings=6).row(0, named=True)
    assert 0.92 < honest["inside"] < 0.98 and 0.92 < honest["inside_added"] < 0.98 and honest["wrong"] < 0.002
    assert honest["found_0.01"] < 0.05 < honest["found_0.05"]


def test_identical_code_shows_the_error_of_each_method():
    parts = []
    for n in range(5):
        printed = (
            f"0    time:   [11.695 µs 12.301 µs]\nFound 4 outliers\nmanual\t1000\n1\nmanual (A/A)\t{1000 + 100 * n}\n"
        )
        parts += [controls("short trials", n), controls("long trials", n, 1.02)]
        parts += [methods.printed_estimates("Criterion", n, printed)]
    table = methods.of_methods(pl.concat(parts))
    assert table["method"].to_list() == ["short trials", "long trials", "Criterion"]
    assert table["readings"].to_list() == [5] * 3
    assert table["median"].to_list() == pytest.approx([0, 0.02, 0.2], abs=0.005)
    assert table["p99"].item(2) == pytest.approx(0.396)
    with pytest.raises(methods.Unable, match="no estimate"):
        methods.printed_estimates("Criterion", 0, "Benchmarking")


def test_an_order_of_linking_that_matters_is_told_from_noise():
    parts = [trials(f"order {n}", p, factor={"box": 1.05} if n == 2 else None, seed=n) for n, p in np.ndindex(3, 4)]
    rows = {row["variant"]: row for row in methods.of_orders(pl.concat(parts)).iter_rows(named=True)}
    assert rows["box"]["apart"] and rows["box"]["moved"] == pytest.approx(0.05, abs=0.01)
    assert not rows["nonbox"]["apart"] and rows["nonbox"]["moved"] < 0.02


def test_a_tiny_measurement_is_whole(monkeypatch, capsys):
    def far():
        raise methods.Unable("350 MB of sources for one experiment")

    monkeypatch.setattr(methods, "_build_tango", far)
    monkeypatch.setenv("CARGO_PROFILE_BENCH_OPT_LEVEL", "0")  # no time is looked at
    monkeypatch.setenv("CARGO_PROFILE_BENCH_CODEGEN_UNITS", "16")
    identical = methods.identical(windows=2, window_ms=40)
    assert {*identical["method"]} == {*methods.TRIALS, "Criterion"} and identical["readings"].to_list() == [2] * 3
    assert "tango-bench is left out: 350 MB" in capsys.readouterr().out
    linked = methods.linked(orders=2, passes=1, rounds=3)
    assert "nonbox" in linked["variant"] and linked["measured"].str.len_chars().min() == 10


def test_what_crates_say_of_known_pairs_is_counted():
    said = {
        "chain-0-0": ("same", 1.001, 0.999, 1.003),
        "chain-0-1": (None, 1.02, 0.99, 1.05),
        "boxes-0-2": ("faster", 0.96, 0.95, 0.97),
        "chain-2-10": ("slower", 1.02, 1.015, 1.025),
        "chain-2-11": ("undecided", 1.01, 0.99, 1.03),
        "boxes-10-12": ("faster", 0.9, 0.8, 0.95),
    }
    rows = [("x", "noisy", 0, pair, int(pair.split("-")[1]), *reading, 2.0) for pair, reading in said.items()]
    rows += [("divan", "noisy", 0, "chain-0-0", 0, None, 0.9, None, None, 1.0)]
    divan, x = crates.summary(pl.DataFrame(rows, schema=crates.COLUMNS, orient="row")).iter_rows(named=True)
    counts = {"copies": 3, "different": 1, "same": 1, "planted_2": 2, "found_2": 1, "planted_10": 1, "found_10": 0}
    assert {name: x[name] for name in counts} == counts
    assert x["inside"] == pytest.approx(2 / 3) and x["inside_low"] < 0.3 and x["inside_high"] > 0.9
    assert (x["median_error"], x["largest_error"]) == pytest.approx((0.02, 0.04)) and x["seconds"] == 2
    assert divan["inside"] is None and divan["largest_error"] == pytest.approx(0.1) and divan["different"] == 0


def test_the_tables_beside_other_crates_are_those_that_were_measured():
    page = (ROOT / "rust-kernels" / "by-turns" / "README.md").read_text(encoding="utf-8")
    printed = crates.markdown(pl.read_csv(ROOT / "data" / "experiments" / "crates.csv"))
    tables = re.findall(r"(?:^\|.*\n?)+", printed, re.MULTILINE)
    assert len(tables) == 2 and all(table in page for table in tables)


def test_the_tables_of_changes_that_change_nothing_are_those_that_were_measured():
    page = (ROOT / "rust-kernels" / "by-turns" / "README.md").read_text(encoding="utf-8")
    rows = pl.read_csv(ROOT / "data" / "experiments" / "no_ops.csv", schema=crates.COLUMNS)
    tables = re.findall(r"(?:^\|.*\n?)+", crates.markdown(no_ops.summary(rows)), re.MULTILINE)
    assert len(tables) == 3 and all(table.strip() in page for table in tables)
    ours = rows.filter(library="by-turns", more=0)
    same = ours.filter(said="identical").height
    assert f"Of {ours.height} such changes, {same} left the program as it was" in page
    different = ours.filter(pl.col("said").is_in(["slower", "faster"])).height
    text = " ".join(page.split())
    alike, undecided = (ours.filter(said=said).height for said in ("same", "undecided"))
    counted = f"{alike} were called the same, and {undecided} were left undecided."
    assert f"of the other {ours.height - same}, {different or 'none'} was called slower or faster: {counted}" in text
    measured = ours.filter(pl.col("said") != "identical")
    kinds = measured["pair"].str.split("-").list.first().value_counts(sort=True).rows()
    assert "They are {} added functions and {} comments.".format(*dict(kinds).values()) in text and len(kinds) == 2
    said = rows.filter(more=0).group_by("library").agg(pl.col("said").is_in(["slower", "faster"]).sum(), pl.len())
    others = {library: count for library, count, of in said.iter_rows() if of == 30}
    unsure = rows.filter(pl.col("said") == "undecided", library="zenbench", more=0).height
    told = f"criterion called {others['criterion']} of 30 slower or faster, tango {others['tango']}, and zenbench"
    assert f"{told} {others['zenbench']}, while it left {unsure} undecided." in text
    again = rows.join(measured.filter(pl.col("run") < 10).select("condition", "run"), on=["condition", "run"])
    called = again.filter(more=0).group_by("library").agg(pl.col("said").is_in(["slower", "faster"]).sum(), pl.len())
    counts = {library: (count, of) for library, count, of in called.iter_rows()}
    criterion, tango, zenbench, own = (counts[name][0] for name in ("criterion", "tango", "zenbench", "by-turns"))
    of = counts["by-turns"][1]
    left = again.filter(pl.col("said") == "undecided", library="by-turns", more=0).height
    told = f"Of the {of} that are not alike, which by-turns measured again on that day, criterion called {criterion} different"
    assert f"{told}, tango {tango}, zenbench {zenbench} and by-turns {own}; by-turns left {left} undecided." in text
    planted = [rows.filter(library="by-turns", more=more) for more in (2, 10)]
    (two, found_two), (ten, found_ten) = ((some.height, some.filter(said="slower").height) for some in planted)
    assert (
        f"Of {two} planted changes of 2 %, {found_two} were found to be slower; of {ten} of 10 %, {found_ten}." in page
    )


def test_regressions_that_trackers_describe_are_listed_as_they_were_found():
    page = (ROOT / "rust-kernels" / "by-turns" / "README.md").read_text(encoding="utf-8")
    for row in pl.read_csv(ROOT / "data" / "experiments" / "regressions.csv").iter_rows(named=True):
        (line,) = [line for line in page.splitlines() if f"/{row['tracker']}/issues/{row['issue']})" in line]
        said = f"{row['ratio']:.3f} ({row['low']:.3f} to {row['high']:.3f}) {row['said']}"
        assert said in line, said
        if row["instructions_base"]:
            assert f"{100 * (row['instructions_today'] / row['instructions_base'] - 1):+.2f} %" in line


def test_what_crates_print_is_understood(tmp_path):
    table = """\
divan             fastest       │ slowest       │ median        │ mean          │ samples │ iters
╰─ side                         │               │               │               │         │
   ├─ chain-0-3/a  895.1 ns     │ 53.56 µs      │ 928.5 ns      │ 948.3 ns      │ 63031   │ 252124
   ╰─ chain-0-3/b  895.3 ns     │ 1.006 ms      │ 1.857 µs      │ 943.4 ns      │ 64283   │ 257132
"""
    assert crates.read_divan(table) == {"chain-0-3": crates.Reading(None, 2.0)}
    analysis = {
        "baseline": {"mean": 100.0},
        "diff": {"mean": 5.0},
        "ci_lower": 4.0,
        "ci_upper": 6.0,
        "significant": True,
    }
    groups = [{"group_name": "boxes-2-10", "analyses": [["a", "b", analysis]]}]
    said = crates.read_zenbench(json.dumps({"comparisons": groups}))["boxes-2-10"]
    assert said.said == "slower" and said[1:] == pytest.approx((1.05, 1.04, 1.06))
    printed = """\
chain-2-10              time:   [1.0000 µs 1.1000 µs 1.2000 µs]
chain-2-10              time:   [1.4000 µs 1.5400 µs 1.6000 µs]
                        change: [+30.0% +40.0% +50.0%] (p = 0.00 < 0.05)
                        Performance has regressed.
"""
    said, apart = crates.read_criterion(printed)
    assert said == {"chain-2-10": "slower"}
    assert apart["chain-2-10"].said == "slower" and apart["chain-2-10"].ratio == pytest.approx(1.4)


@pytest.mark.parametrize(
    ("folder", "named"),
    [(methods.TANGO.parent, ("harness", "zero-cost/loop")), (crates.CRATE, ("by-turns", "by-turns-core"))],
)
def test_a_lock_of_its_own_names_the_crates_of_the_workspace(folder, named):
    """Else it could not be built, or would measure another program."""
    mine, ours = (tomllib.loads((of / "Cargo.lock").read_text())["package"] for of in (folder, ROOT))
    versions = {package["name"]: package["version"] for package in mine}
    for crate in named:
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


# -- changes of crates -------------------------------------------------------------------------------------------------

SOURCE = """//! A crate.

mod one;
mod two;

/// Doubles.
pub fn double(number: u64) -> u64 {
    let twice = 2 * number;
    twice
}

pub fn half(number: u64) -> u64 {
    let half = number / 2;
    half
}

pub fn prepared() -> u64 {
    core::hint::black_box(0)
}

struct Last;
"""


@pytest.mark.parametrize("kind", no_ops.EDITS)
def test_a_change_is_drawn_alike_and_changes_a_line(kind):
    first, again = (no_ops.EDITS[kind](SOURCE, random.Random("1")) for _ in range(2))
    assert first == again != SOURCE
    if kind == "order":
        assert sorted(first.split()) == sorted(SOURCE.split())
    if kind == "local":
        assert first.replace("_renamed", "") == SOURCE and first.count("_renamed") == 2


def test_what_tools_say_of_a_change_is_read():
    line = {
        "verdict": "slower",
        "ratio": {"value": 1.1, "low": 1.0, "high": 1.2},
        "counts": {"instructions": {"base": 100, "today": 110}},
        "grown": ["instructions"],
    }
    report = {"benches": [{"identical": False, "variants": [line]}]}
    assert no_ops.read_against(json.dumps(report)) == {
        "by-turns": ("slower", 1.1, 1.0, 1.2),
        "instructions": ("slower", 1.1, None, None),
    }
    report["benches"][0] |= {"identical": True, "variants": []}
    assert {reading.said for reading in no_ops.read_against(json.dumps(report)).values()} == {"identical"}
    assert no_ops.read_divan("╰─ work  1.1 µs      │ 2 µs      │ 1.25 µs      │ 1.3 µs │ 100 │ 100") == 1250
    assert no_ops.read_zenbench("[zenbench] FAIL: confirmed regression exceeds 1% margin").said == "slower"
    with pytest.raises(methods.Unable):
        no_ops.read_zenbench("[zenbench] invalid round count")


def test_runs_between_processes_are_summed_up_beside_those_within_one():
    rows = [
        (run, way, "kib=4", ns + run, off, ms)
        for run in range(3)
        for way, ns, off, ms in (("one process", 10.0, 0.99, None), ("two processes", 11.0, 1.02, 1.5))
    ]
    summary = against.summary(pl.DataFrame(rows, schema=against.COLUMNS, orient="row"))
    one, two = summary.iter_rows(named=True)
    assert (one["ns"], one["ms"], two["ns"], two["ms"], two["runs"]) == (11.0, None, 12.0, 1.5, 3)
    assert one["off"] == pytest.approx(0.01) and two["largest"] == pytest.approx(0.02)
