"""Experiments on the measuring: the page on trust finds their truth again, and says what was not measured."""

import json
import tomllib

import numpy as np
import polars as pl
import pytest

from async_cost.errors import DataError
from async_cost.runs.comparisons import KEY
from async_cost.testing.made_up_runs import make_run
from async_cost.words import CONTROL
from async_cost.workflow import experiments
from async_cost.workflow.experiments import COLUMNS, PAIRS
from async_cost.workflow.studies import analysis
from async_cost.workflow.toolchain import ROOT

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


def repeated(study, *, runs=20, episodes=12, noise=0.004, between=0.0) -> pl.DataFrame:
    """Complete runs of the baseline, its control and two others. Each process has an error of its own, of size `noise`;
    so has every run, of size `between`, which its intervals do not know of.
    """
    rng = np.random.default_rng([0, runs, episodes])
    rows = []
    for name, true in {"manual": 1.0, f"manual{CONTROL}": 1.0, "nonbox": 2.5, "box": 3.0}.items():
        bench = name.removesuffix(CONTROL)
        of_run, of_process = rng.normal(0, between, runs), rng.normal(0, noise, (runs, episodes))
        for run, episode, place in np.ndindex(runs, episodes, 2):
            ns = 1000 * true * np.exp(of_run[run] + of_process[run, episode] + rng.normal(0, noise))
            rows.append(("repeats", study, run, bench, name, "syscalls=off", 2 * episode + place, ns, episode))
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def pairs(study, limit=0.01) -> list[dict]:
    """What is compared in `repeated`."""
    base = ("manual", "manual", "syscalls=off")
    keys = [("manual", f"manual{CONTROL}"), ("nonbox", "nonbox"), ("box", "box")]
    rows = [(study, *key, "syscalls=off", *base, limit, key[1].endswith(CONTROL), "one thread") for key in keys]
    return pl.DataFrame(rows, schema=PAIRS, orient="row").to_dicts()


def record(**changes) -> dict:
    """experiments.json of a machine that does not exist."""
    machine = {"name": "made-up", "cpu": "no processor"}
    return {"schema_version": 2, "started": "2026-01-01T00:00:00Z", "machine": machine, "tiny": False} | changes


#: Runs whose intervals are right, too narrow, too few; precise ones under two limits; and what noise or hours hide.
REPEATED = {
    "right": {},
    "narrow": {"between": 0.01},
    "few": {"runs": 3},
    "precise": {"noise": 0.002},
    "wide": {"noise": 0.002},
    "noisy": {"noise": 0.05},
    "hours": {"noise": 0.002, "between": 0.03},
}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The variables of the page on trust after it has read a folder of results, or `none`."""
    root = tmp_path_factory.mktemp("page")
    run = make_run(root, rounds=4, work=False)

    def read(results) -> dict:
        code = [cell for cell in json.loads(analysis("trust").read_bytes())["cells"] if cell["cell_type"] == "code"]
        variables: dict = {}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("ASYNC_COST_RUN", str(run))
            patch.setenv("ASYNC_COST_EXPERIMENTS", str(results))
            for cell in code:
                exec("".join(cell["source"]), variables)
        return variables

    return read


@pytest.fixture(scope="module")
def found(page, tmp_path_factory) -> dict:
    """What the page computes from experiments whose truth is known."""
    parts = [repeated(study, **how) for study, how in REPEATED.items()]
    for n in range(5):
        parts += [controls("short trials", n), controls("long trials", n, 1.02), estimated("Criterion", n, 1 + 0.1 * n)]
    for n, p in np.ndindex(3, 4):
        parts.append(trials("layout", f"order {n}", p, factor={"box": 1.05} if n == 2 else None, seed=n))
    parts += [trials("kernel", "native", 0), trials("kernel", "notebook", 0, seed=1)]
    parts.append(trials("kernel", "debug notebook", 0, seed=2, factor={"manual": 2.4, "nonbox": 2.0, "box": 2.0}))
    compared = [pair for study in REPEATED for pair in pairs(study, limit=0.1 if study == "wide" else 0.01)]
    made = experiments.write(record(comparisons=compared), pl.concat(parts), tmp_path_factory.mktemp("results"))
    return page(made)


def of(found, name, **key) -> pl.DataFrame:
    return found[name].filter(**key)


def test_right_intervals_cover_and_narrow_ones_do_not(found):
    assert of(found, "repeated", study="right")["episodes"].unique().to_list() == [12]
    right, narrow, few = (of(found, "covered", study=name).row(0, named=True) for name in ("right", "narrow", "few"))
    assert right["runs"] == 20 and right["cases"] == 3 * 190
    assert right["expected"] == pytest.approx(0.930, abs=0.001)
    assert right["low"] <= right["expected"] <= right["high"] and right["high"] - right["low"] < 0.2
    assert narrow["share"] < 0.6 and narrow["high"] < narrow["expected"]
    assert few["low"] is None


def test_planted_effects_are_found_and_never_in_the_wrong_direction(found):
    precise = of(found, "planted", study="precise")
    assert precise["effect"].to_list() == [0.0, 0.005, 0.02, 0.05, 0.2]
    assert precise["cases"].to_list() == [40] * 5, "of two comparisons; a control is none"
    assert precise["faster"].sum() == 0 and precise["wrong"].to_list() == pytest.approx([0] * 5)
    assert precise["found"].min() > 0.95, "what is above the limit is slower, the rest the same"
    assert of(found, "planted", study="wide")["found"].min() == 1


def test_what_noise_hides_is_missed_and_narrow_intervals_are_wrong(found):
    noisy = of(found, "planted", study="noisy", effect=0.02)
    assert noisy["missed"].item() > 0.5 and noisy["wrong"].item() < 0.1
    assert of(found, "planted", study="hours")["wrong"].max() > 0.3


def test_identical_code_shows_the_error_of_each_method(found):
    methods = found["methods"]
    assert methods["setting"].to_list() == ["short trials", "long trials", "Criterion"]
    assert methods["readings"].to_list() == [5] * 3
    assert methods["median"].to_list() == pytest.approx([0, 0.02, 0.2], abs=0.005)
    assert methods["p99"].item(2) == pytest.approx(0.396)


def test_an_order_of_linking_that_matters_is_told_from_noise(found):
    box, nonbox = (of(found, "orders", variant=name).row(0, named=True) for name in ("box", "nonbox"))
    assert box["apart"] and box["moved"] == pytest.approx(0.05, abs=0.01)
    assert not nonbox["apart"] and nonbox["moved"] < 0.02


def test_a_kernel_that_departs_from_the_native_program_is_seen(found):
    assert not of(found, "departures", how="notebook")["apart"].any()
    debug = of(found, "departures", how="debug notebook")
    assert debug["apart"].all()
    assert debug["ratio"].to_list() == pytest.approx([2 / 2.4, 2 / 2.4], rel=0.02)


def test_what_was_not_measured_is_empty_everywhere(page):
    nothing = page("none")
    for name in ("orders", "covered", "planted", "methods", "departures"):
        assert nothing[name].is_empty(), name


def test_results_are_written_whole_and_read_back(tmp_path):
    made = trials("layout", "order 0", 0)
    folder = experiments.write(record(), made, tmp_path)
    assert folder == tmp_path / "made-up" / "20260101T000000Z"
    found = experiments.newest("made-up", {}, tmp_path)
    assert found.record == record() and found.trials.select(KEY).equals(made.select(KEY))
    assert found.trials["ns"].to_numpy() == pytest.approx(made["ns"], abs=0.1)
    experiments.write(record(machine={"name": "other"}), made, tmp_path)
    assert experiments.newest("made-up", {}, tmp_path).record == record(), "its own comes first"
    assert experiments.newest("third", {}, tmp_path).record["machine"]["name"] == "other", "else any"
    assert experiments.newest("another", {"ASYNC_COST_EXPERIMENTS": str(folder)}, tmp_path).record == record()
    assert experiments.newest("made-up", {}, tmp_path / "nothing").record is None


def test_results_of_the_first_version_know_no_episodes(tmp_path):
    made = trials("layout", "order 0", 0).drop("episode")
    found = experiments.load(experiments.write(record(schema_version=1), made, tmp_path))
    assert found.trials.columns == list(COLUMNS) and found.trials["episode"].is_null().all()
    assert found.pairs.is_empty()


def test_damaged_results_are_named(tmp_path):
    folder = experiments.write(record(), trials("layout", "order 0", 0), tmp_path)
    with_zero = trials("layout", "order 0", 0).with_columns(ns=pl.lit(0.0))
    zero = experiments.write(record(machine={"name": "zero"}), with_zero, tmp_path)
    with pytest.raises(DataError, match=r"trials\.csv\.gz, line 2, ns: 0\.000 is below 0\.001"):
        experiments.load(zero)
    (folder / "trials.csv.gz").write_bytes(b"torn")
    with pytest.raises(DataError, match=r"trials\.csv\.gz: the compressed file is damaged"):
        experiments.load(folder)
    (folder / "experiments.json").write_text(json.dumps(record(schema_version=3)))
    with pytest.raises(DataError, match="schema version 1 or 2"):
        experiments.load(folder)
    (folder / "experiments.json").write_text("{")
    with pytest.raises(DataError, match=r"experiments\.json.*: torn or invalid JSON"):
        experiments.load(folder)


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
    changed = [
        (one.source, other.source)
        for one, other in zip(plain.cells, debug.cells, strict=True)
        if one.source != other.source
    ]
    assert len(changed) == 1
    one, other = changed[0]
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


def test_a_tiny_measurement_without_the_kernel_is_whole(tmp_path, monkeypatch, page):
    def far():
        raise experiments.Unable("350 MB of sources for one experiment")

    monkeypatch.setattr(experiments, "FOLDER", tmp_path)
    monkeypatch.setattr(experiments, "_build_tango", far)
    # One study, since the crates of another take longer to compile than all else here.
    monkeypatch.setattr(experiments, "REPEATED", {"zero-cost": experiments.REPEATED["zero-cost"]})
    folder = experiments.measure(experiments.TINY, ("repeats", "identical", "layout"), lambda text: None)
    made = experiments.load(folder)
    assert made.record["tiny"] and not {"repeats", "identical"} & made.record["skipped"].keys()
    repeats = made.trials.filter(experiment="repeats")
    assert dict(repeats.group_by("setting").agg(pl.col("repeat").n_unique()).rows()) == {"zero-cost": 3}
    assert {"nonbox", "manual (best)", "box"} <= {*made.pairs["variant"]}
    assert repeats["episode"].unique().sort().to_list() == [0, 1]
    assert "350 MB" in made.record["skipped"]["tango-bench"], "what cannot be built is left out, with the reason"
    identical = page(folder)["methods"]
    assert {*experiments.TRIALS, "Criterion"} <= {*identical["setting"]}


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
