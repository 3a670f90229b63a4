"""Experiments on the measuring: their truth is found again, and what was not measured is said to be missing."""

import json
import tomllib

import numpy as np
import polars as pl
import pytest

from async_cost.errors import DataError
from async_cost.experiments import measure as experiments
from async_cost.experiments import results as measuring
from async_cost.experiments.results import COLUMNS, PAIRS
from async_cost.runs.comparisons import BASE_KEY, KEY, of_today
from async_cost.words import CONTROL
from async_cost.workflow.toolchain import ROOT

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
            0,
            1000 * true * (factor or {}).get(name, 1) * noisy,
        )
        for number, slow in enumerate(1 + 0.5 * np.sin(np.arange(rounds) / 5))
        for name, true in TRUTH.items()
        for noisy in [slow * np.exp(rng.normal(0, noise))]
    ]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def estimated(method, repeat, wrong) -> pl.DataFrame:
    """One estimate for the baseline and one for its twin, which is `wrong` times as long."""
    times = {"manual": 1000.0, f"manual{CONTROL}": 1000.0 * wrong}
    rows = [("identical", method, repeat, "manual", name, "syscalls=off", None, None, ns) for name, ns in times.items()]
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def twins(method, repeat, wrong=1.0) -> pl.DataFrame:
    """Interleaved rounds of the baseline and its twin."""
    found = trials("identical", method, repeat, factor={"nonbox": wrong / TRUTH["nonbox"]}).filter(
        pl.col("variant") != "box"
    )
    return found.with_columns(pl.col("variant").replace("nonbox", f"manual{CONTROL}"))


def repeated(study="zero-cost", *, runs=20, episodes=12, noise=0.004, between=0.0, seed=0) -> pl.DataFrame:
    """Complete runs of the baseline, its twin and two others. Every process has an error of its own, of size `noise`;
    so has every run, of size `between`, which its intervals do not know of.
    """
    rng = np.random.default_rng([seed, runs, episodes])
    rows = []
    for name, true in {"manual": 1.0, f"manual{CONTROL}": 1.0, "nonbox": 2.5, "box": 3.0}.items():
        bench = name.removesuffix(CONTROL)
        of_run, of_process = rng.normal(0, between, runs), rng.normal(0, noise, (runs, episodes))
        for run, episode, place in np.ndindex(runs, episodes, 2):
            ns = 1000 * true * np.exp(of_run[run] + of_process[run, episode] + rng.normal(0, noise))
            rows.append(("repeats", study, run, bench, name, "syscalls=off", 2 * episode + place, episode, ns))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def pairs(study="zero-cost", limit=0.01) -> pl.DataFrame:
    """What is compared in `repeated`."""
    base = ("manual", "manual", "syscalls=off")
    keys = [("manual", f"manual{CONTROL}"), ("nonbox", "nonbox"), ("box", "box")]
    rows = [(study, *key, "syscalls=off", *base, limit, key[1].endswith(CONTROL), "one thread") for key in keys]
    return pl.DataFrame(rows, schema=PAIRS, orient="row")


def record(**changes) -> dict:
    """experiments.json of a machine that does not exist."""
    machine = {"name": "made-up", "cpu": "no processor"}
    return {
        "schema_version": 2,
        "started": "2026-01-01T00:00:00Z",
        "machine": machine,
        "tiny": False,
        "skipped": {},
        "sizes": {"window_ms": 1000},
        **changes,
    }


def test_each_run_has_the_processes_that_it_was_made_of():
    found = measuring.repeats(repeated(), pairs())
    assert found["episodes"].unique().to_list() == [12]


def test_right_intervals_cover_and_narrow_ones_do_not():
    right, narrow = (
        measuring.coverage(measuring.repeats(repeated(between=between), pairs())).row(0, named=True)
        for between in (0.0, 0.01)
    )
    assert right["runs"] == 20 and right["cases"] == 3 * 190
    assert right["expected"] == pytest.approx(0.930, abs=0.001)
    assert right["low"] <= right["expected"] <= right["high"] and right["high"] - right["low"] < 0.2
    assert narrow["share"] < 0.6 and narrow["high"] < narrow["expected"]
    assert measuring.coverage(measuring.repeats(repeated(runs=3), pairs()))["low"].to_list() == [None]


def test_processes_are_dealt_out_so_that_intervals_know_what_differs_between_runs():
    made = repeated(between=0.01)
    dealt = measuring.dealt(made)
    assert dealt.select("setting", "repeat", *KEY, "round").is_unique().all()
    source = made.select(*KEY, "round", "ns", whose="repeat").join(dealt, on=[*KEY, "round", "ns"])
    assert source.group_by("repeat").agg(pl.col("whose").n_unique())["whose"].to_list() == [12] * 20, (
        "each of another run"
    )
    right = measuring.coverage(measuring.repeats(dealt, pairs())).row(0, named=True)
    assert right["high"] > right["expected"] > 0.9 and right["share"] > 0.9


def test_planted_effects_are_found_and_never_in_the_wrong_direction():
    found = measuring.planted(measuring.repeats(repeated(noise=0.002), pairs()))
    assert found["effect"].to_list() == list(measuring.EFFECTS)
    assert found["cases"].to_list() == [40] * 5, "of two comparisons; a control is none"
    assert found["faster"].sum() == found["wrong"].sum() == 0
    assert found["found"].min() > 0.95, "what is above the limit is slower, the rest the same"
    wide = measuring.planted(measuring.repeats(repeated(noise=0.002), pairs(limit=0.1)))
    assert wide["same"].to_list() == pytest.approx([1, 1, 1, 1, 0]) and wide["found"].min() == 1


def test_what_noise_hides_is_missed_and_narrow_intervals_are_wrong():
    noisy = measuring.planted(measuring.repeats(repeated(noise=0.05), pairs())).filter(effect=0.02)
    assert noisy["missed"].item() > 0.5 and noisy["wrong"].item() < 0.1
    narrow = measuring.planted(measuring.repeats(repeated(noise=0.002, between=0.03), pairs()))
    assert narrow["wrong"].max() > 0.3


def test_identical_code_shows_the_error_of_each_method():
    parts = [
        part
        for n in range(5)
        for part in (twins("short trials", n), twins("long trials", n, 1.02), estimated("Criterion", n, 1 + 0.1 * n))
    ]
    found = measuring.identical(pl.concat(parts))
    assert found.height == 15
    errors = measuring.errors(found)
    assert (
        errors["setting"].to_list() == ["short trials", "long trials", "Criterion"]
        and errors["readings"].to_list() == [5] * 3
    )
    assert errors["median"].to_list() == pytest.approx([0, 0.02, 0.2], abs=0.005)
    assert errors["p99"].item(2) == pytest.approx(0.396)


def test_an_order_of_linking_that_matters_is_told_from_noise():
    parts = [
        trials("layout", f"order {n}", p, factor={"box": 1.05} if n == 2 else None, seed=n)
        for n in range(3)
        for p in (0, 1, 2, 3)
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


def test_what_was_not_measured_is_empty_everywhere(tmp_path):
    nothing = measuring.newest("made-up", {}, tmp_path)
    assert nothing.record is None
    for ask in (measuring.identical, measuring.layouts, measuring.kernels):
        assert ask(nothing.of("identical")).is_empty()
    assert measuring.errors(measuring.identical(nothing.of("identical"))).is_empty()
    runs = measuring.repeats(nothing.of("repeats"), nothing.pairs)
    for ask in (measuring.coverage, measuring.planted):
        assert ask(runs).is_empty()
    assert measuring.spread(measuring.layouts(nothing.of("layout"))).is_empty()
    assert measuring.departures(measuring.kernels(nothing.of("kernel")), "notebook").is_empty()


def test_results_are_written_whole_and_read_back(tmp_path):
    made = trials("layout", "order 0", 0)
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


def test_results_of_the_first_version_know_no_episodes(tmp_path):
    folder = experiments.write(record(schema_version=1), trials("layout", "order 0", 0).drop("episode"), tmp_path)
    found = measuring.load(folder)
    assert found.trials.columns == list(COLUMNS) and found.trials["episode"].is_null().all()
    assert found.pairs.is_empty() and measuring.layouts(found.trials).height == 2


def test_damaged_results_are_named(tmp_path):
    folder = experiments.write(record(), trials("layout", "order 0", 0), tmp_path)
    (folder / "trials.csv.gz").write_bytes(b"torn")
    with pytest.raises(DataError, match=r"trials\.csv\.gz: the compressed file is damaged"):
        measuring.load(folder)
    (folder / "experiments.json").write_text(json.dumps(record(schema_version=3)))
    with pytest.raises(DataError, match="schema version 1 or 2"):
        measuring.load(folder)
    (folder / "experiments.json").write_text("{")
    with pytest.raises(DataError, match=r"experiments\.json: not readable"):
        measuring.load(folder)


def test_estimates_are_read_from_what_criterion_prints():
    table = experiments.Table()
    printed = (
        "0    time:   [11.695 µs 12.301 µs 13.057 µs]\nFound 4 outliers\nmanual\t12301.25\n1\nmanual (A/A)\t39045.5\n"
    )
    table.add_estimates("identical", "Criterion", 3, printed)
    assert table.parts[0].select("bench", "variant", "ns", "round", "repeat").rows() == [
        ("manual", "manual", 12301.25, None, 3),
        ("manual", "manual (A/A)", 39045.5, None, 3),
    ]
    with pytest.raises(experiments.Unable, match="no estimate"):
        table.add_estimates("identical", "Criterion", 0, "Benchmarking")


def test_the_copies_of_the_notebook_differ_in_their_settings_alone():
    plain, debug = (experiments.notebook(7, 3, like_bench) for like_bench in (True, False))
    told = [
        (one.source, other.source)
        for one, other in zip(plain.cells, debug.cells, strict=True)
        if one.source != other.source
    ]
    assert len(told) == 1
    one, other = told[0]
    assert "CARGO_PROFILE_DEV_OPT_LEVEL=3" in one and "build_env" not in other
    assert other.splitlines() == [line for line in one.splitlines() if not line.startswith(":build_env")]
    assert any("rounds: 7, episodes: 3" in cell.source for cell in plain.cells)


def test_what_is_recorded_of_a_failure_names_no_folder():
    message = "cargo exited with 1:\n/elsewhere/x/measure.ipynb: `/elsewhere/y.rs` is not ../there"
    assert experiments.public(message) == "measure.ipynb: `y.rs` is not ../there"


def test_all_readings_of_identical_code_take_the_same_time():
    sizes = experiments.Sizes()
    for warm_up, trial, _ in experiments.TRIALS.values():
        assert sizes.rounds(warm_up, trial) * 2 * (1.5 * warm_up + trial) == pytest.approx(
            1000 * sizes.window_ms, rel=0.02
        )


def test_what_is_repeated_is_compared_by_its_studies():
    """Every key is on one side of a declared comparison, or the control of one that is."""
    for study, keys in experiments.REPEATED.items():
        today = of_today().filter(study=study)
        known = {*today.select(KEY).rows(), *today.select(BASE_KEY).rows()}
        assert {(bench, variant.removesuffix(CONTROL), parameter) for bench, variant, parameter in keys} <= known
        assert any(variant.endswith(CONTROL) for _, variant, _ in keys)


def test_a_tiny_measurement_without_the_kernel_is_whole(tmp_path, monkeypatch):
    def far():
        raise experiments.Unable("350 MB of sources for one experiment")

    monkeypatch.setattr(experiments, "FOLDER", tmp_path)
    monkeypatch.setattr(experiments, "_build_tango", far)
    # One study, since the crates of another take longer to compile than all else here.
    monkeypatch.setattr(experiments, "REPEATED", {"zero-cost": experiments.REPEATED["zero-cost"]})
    made = measuring.load(experiments.measure(experiments.TINY, ("repeats", "identical", "layout"), lambda text: None))
    assert made.record["tiny"] and not {"repeats", "identical"} & made.record["skipped"].keys()
    runs = measuring.repeats(made.of("repeats"), made.pairs)
    assert dict(runs.group_by("study").len().rows()) == {"zero-cost": 3 * 6}
    assert dict(made.pairs.group_by("study").agg(pl.col("limit").first()).rows()) == {"zero-cost": 0.01}
    assert made.of("repeats")["episode"].unique().sort().to_list() == [0, 1]
    assert "350 MB" in made.record["skipped"]["tango-bench"], "what cannot be built is left out, with the reason"
    assert {*experiments.TRIALS, "Criterion"} <= {*measuring.identical(made.of("identical"))["setting"]}


def test_the_lock_of_tango_bench_names_the_crates_of_the_workspace():
    """Else it could not be built, or would measure another program."""
    mine, ours = (
        tomllib.loads((folder / "Cargo.lock").read_text())["package"] for folder in (experiments.TANGO.parent, ROOT)
    )
    versions = {package["name"]: package["version"] for package in mine}
    for crate in ("harness", "zero-cost"):
        manifest = tomllib.loads((ROOT / "rust-kernels" / crate / "Cargo.toml").read_text())
        needed = [name for name, wanted in manifest["dependencies"].items() if "optional" not in wanted]
        for name in needed:
            assert versions[name] in {package["version"] for package in ours if package["name"] == name}, name
