"""The price list holds what a run measured, for one unit, and says what it lacks."""

import polars as pl
import pytest
from made_up_runs import BEST_NS, LADDER, REQUESTS, RUNGS, Study, make_run

from async_cost.findings import prices
from async_cost.runs.comparisons import BASE_KEY, KEY, of_today
from async_cost.runs.find import load_run, reference_run
from async_cost.workflow.studies import MEASURED

SPAWN = ("spawn/basic_scheduler_spawn_1000", "tokio", "driver=task")
SMOL = (SPAWN[0], "smol", SPAWN[2])


@pytest.fixture(scope="module")
def run(runs):
    """The ladder, and of the runtimes a thousand tasks of two of them."""
    counts = {"spawns": 1000, "allocations": 2000, "allocated_bytes": 64_000}
    more = {"counts": {SPAWN: counts}, "metrics": {SPAWN: {"cpu_ns": 900_000.0}}}
    study = Study({SPAWN: 500_000.0, SMOL: 250_000.0}, baseline="tokio", **more)
    return make_run(runs / "run", None, ladder=LADDER, others={"runtimes": study}, rounds=60, noise=0.002)


@pytest.fixture(scope="module")
def listed(run) -> pl.DataFrame:
    return prices.prices(load_run(run))


# -- the table behind the list -------------------------------------------------------------------------------------


def test_every_price_is_a_key_or_a_difference_that_its_study_compares():
    known = of_today()
    keys = {(study, *key) for side in (KEY, BASE_KEY) for study, *key in known.select("study", *side).iter_rows()}
    listed = prices.entries().filter(pl.col("study") != "")
    assert set(listed["study"]) <= set(MEASURED)
    for entry in listed.iter_rows(named=True):
        price = prices.priced(entry)  # raises for a difference that is not declared
        assert {(price.study, *price.key), (price.study, *price.baseline)} <= keys, entry
        assert prices.is_added(price) == (entry["baseline_variant"] != "")


def test_the_runtimes_had_as_many_workers_and_the_driver_that_is_said():
    run = reference_run()
    counted = run.counts("runtimes").filter(counter="workers")
    cores = str(run.info.machine.logical_cores)
    of_runtimes = prices.entries().filter(study="runtimes").join(counted, on=["study", *KEY])
    assert of_runtimes.height
    for entry in of_runtimes.iter_rows(named=True):
        parameters = dict(part.split("=", 1) for part in entry["parameter"].split() if "=" in part)
        assert entry["value"] == int(entry["workers"].replace("cores", cores)), entry
        assert parameters.items() & entry.items() == {
            at for at in parameters.items() if at[0] in ("driver", "workers")
        }, entry


def test_runtimes_are_priced_side_by_side_only_where_one_driver_means_the_same_on_all():
    of_runtimes = prices.entries().filter(study="runtimes").with_columns(others=pl.len().over("what"))
    assert set(of_runtimes.filter(pl.col("others") > 1)["driver"]) == {"task", "outside"}
    assert set(of_runtimes.filter(driver="block_on")["variant"]) == {"tokio"}


def test_everything_that_a_reader_looks_for_is_listed_and_the_reference_run_knows_sixty():
    listed = prices.prices(reference_run())
    assert listed["ns"].count() >= 60
    assert listed.filter(pl.col("ns").is_null())["lacks"].null_count() == 0
    kinds = ["box", "wake", "poll", "spawn and join", "spawn through a trait", "block_on", "yield and switch"]
    kinds += ["channel", "lock", "timer", "spawn_blocking", "job of a pool", "connection"]
    assert set(kinds) <= set(listed["kind"])


# -- numbers -------------------------------------------------------------------------------------------------------


def test_a_difference_is_what_one_thing_adds_to_a_unit(listed):
    row = listed.filter(variant="lean + box").row(0, named=True)
    (boxed, more, allocated), (plain, less, none) = RUNGS["lean + box"], RUNGS["slab index"]
    assert row["ns"] == pytest.approx((boxed - plain) * BEST_NS / REQUESTS, rel=0.02)
    assert row["low"] < row["ns"] < row["high"]
    assert row["instructions"] == pytest.approx(more - less, abs=1) and row["allocations"] == allocated - none
    assert row["cpu_ns"] is None and row["lacks"] is None


def test_a_whole_is_shared_out_among_what_an_iteration_does(listed):
    row = listed.filter(bench=SPAWN[0], variant="tokio", parameter=SPAWN[2]).row(0, named=True)
    assert row["ns"] == pytest.approx(500, rel=0.01) and row["low"] < row["ns"] < row["high"]
    assert row["cpu_ns"] == pytest.approx(900, rel=0.01)
    assert row["allocations"] == 2 and row["bytes"] == 64 and row["instructions"] is None


def test_what_is_not_measured_says_why(listed):
    assert "no study" in listed.filter(kind="block_on")["lacks"][0]
    assert "does not hold thread-pools" in listed.filter(study="thread-pools")["lacks"][0]
    assert (
        listed.filter(bench=SPAWN[0], variant="nio", parameter=SPAWN[2])["lacks"][0]
        == f"{SPAWN[0]} by nio (driver=task) and spawns of nio (driver=task) were not measured"
    )
    assert (
        listed.filter(bench=SPAWN[0], variant="smol", parameter=SPAWN[2])["lacks"][0]
        == "spawns of smol (driver=task) was not measured"
    )
    assert listed.filter(pl.col("lacks").is_not_null())["ns"].null_count() == listed["ns"].null_count()


def test_a_price_of_one_process_is_no_evidence(runs):
    run = make_run(runs / "refused", None, ladder=LADDER, rounds=60, noise=0.002, episodes=1)
    row = prices.prices(load_run(run)).filter(variant="lean + box").row(0, named=True)
    assert "no evidence" in row["lacks"] and row["ns"] > 0


def test_counts_of_a_session_are_divided_by_its_requests_or_left_out(runs):
    """A server allocates so much in a session of so many requests; before that number was noted, nobody knew."""
    key = ("echo", "smol", "connections=1000 active=1000")
    rows = {}
    for name, more in (("known", {"counted_requests": 20_000}), ("unknown", {})):
        counts = {"units": 1, "connections": 1000, "allocations": 5000, "allocated_bytes": 80_000, **more}
        times, metrics = {("echo", "loop", key[2]): 3000.0, key: 4500.0}, {key: {"cpu_ns": 4500.0}}
        study = Study(times, baseline="loop", counts={key: counts}, metrics=metrics)
        run = make_run(runs / name, None, others={"servers": study}, rounds=30, noise=0.002)
        listed = prices.prices(load_run(run)).drop_nulls("ns")
        rows[name] = listed.filter(variant="smol", study="servers").row(0, named=True)
    assert (rows["known"]["allocations"], rows["known"]["bytes"]) == (0.25, 4)
    assert (rows["unknown"]["allocations"], rows["unknown"]["bytes"]) == (None, None)
    assert rows["known"]["ns"] == rows["unknown"]["ns"]
