"""Studies that compare runtimes: groups with limits of their own, failures, metrics, units, and no zero-cost."""

import pytest
from made_up_runs import REQUESTS, Key, Study, make_run
from refusal import refused

from async_cost.errors import DataError
from async_cost.machines.many import read_many
from async_cost.report.records import banner, remarks
from async_cost.runs.comparisons import KEY
from async_cost.runs.find import choose_run, load_run
from async_cost.statistics.interval import estimates
from async_cost.statistics.measured import Measured
from async_cost.statistics.trials import paired, trial_values

STUDY = "runtimes"
#: One task on one thread, and the same task on several, whose times nobody knows within 1 %.
ALONE, CROWD = "current_thread/spawn", "multi_thread/spawn"


TOKIO, SMOL, NIO, CONTROL = ((ALONE, name, "") for name in ("tokio", "smol", "nio", "tokio (A/A)"))
TOKIOS, SMOLS, NIOS, CONTROLS = ((CROWD, name, "") for name in ("tokio", "smol", "nio", "tokio (A/A)"))
COMPARED = [(key, TOKIO, "") for key in (SMOL, NIO, CONTROL)]
COMPARED += [(key, TOKIOS, "threads") for key in (NIOS, SMOLS, CONTROLS)]
TIMES = {TOKIO: 1e5, SMOL: 1.03e5, NIO: 0.6e5, CONTROL: 1e5, TOKIOS: 4e5, NIOS: 4.1e5, SMOLS: 8e5, CONTROLS: 4e5}


def study(**how) -> Study:
    """All runtimes, compared with tokio on the same threads."""
    given = {
        "times": TIMES,
        "comparisons": COMPARED,
        "groups": {"": 0.01, "threads": 0.05},
        "controls": ["tokio (A/A)"],
        "counts": {name: {"units": 250 if name[0] == CROWD else 1000} for name in TIMES},
    }
    return Study(**given | how)


def made(tmp_path, rounds=60, noise=0.01, **how):
    profile = {"profile": how.pop("profile", "standard")}
    return load_run(make_run(tmp_path, None, others={STUDY: study(**how)}, rounds=rounds, noise=noise, **profile))


def verdicts(run) -> dict[Key, str | None]:
    """The words by key, those of controls included."""
    found = Measured(run, STUDY).declared.drop_nulls("ratio")
    return {row[:3]: row[3] for row in found.select(*KEY, "verdict").iter_rows()}


def refusals(run) -> dict[str, list[str]]:
    return Measured(run, STUDY).refused


# -- groups --------------------------------------------------------------------------------------------------


def test_what_a_difference_means_depends_on_its_group(tmp_path):
    found = verdicts(made(tmp_path, rounds=120))
    assert found[SMOL] == "slower", "3 % is a difference on one thread"
    assert found[NIOS] == "same", "2.5 % is none between threads"
    assert (found[NIO], found[SMOLS]) == ("faster", "slower")


def test_a_control_that_differs_leaves_small_differences_of_its_group_undecided(tmp_path):
    run = made(tmp_path, times=TIMES | {CONTROLS: 1.1 * TIMES[TOKIOS]})
    ((group, (reason,)),) = Measured(run, STUDY).widened.items()
    assert group == "threads" and not refusals(run)
    assert "`tokio (A/A)` in `multi_thread/spawn` differs" in reason and "identical" in reason
    found = verdicts(run)
    assert found[SMOL] == "slower" and found[NIOS] == "undecided"
    judged, said = banner(run, [STUDY])
    assert judged and said.startswith("With wider intervals: 1 of 2 groups of") and reason in said


def test_a_control_that_was_not_measured_takes_the_verdict_from_its_own_comparisons_and_trust_from_the_study(tmp_path):
    run = made(tmp_path, failed={CONTROLS: 0})
    found = verdicts(run)
    assert found[SMOL] == "slower" and found[SMOLS] is None
    together = read_many([run.path])
    words = together.ratios.filter(variant="smol").select("bench", "verdict")
    assert dict(words.rows()) == {ALONE: "slower", CROWD: None}
    missing = "control tokio (A/A) in multi_thread/spawn was not measured"
    assert together.studies.select("trusted", "reason").rows() == [(True, f"in 1 of 2 groups: {missing}")]


def test_a_control_that_reaches_beyond_the_limit_leaves_comparisons_undecided_and_refuses_none(tmp_path):
    run = made(tmp_path, times=TIMES | {NIOS: 4.02e5}, noise=0.06, groups={"": 0.01, "threads": 0.01})
    assert not refusals(run)
    control = Measured(run, STUDY).declared.filter("control", group="threads").row(0, named=True)
    assert max(1 - control["low"], control["high"] - 1) > control["limit"] == 0.01
    assert verdicts(run)[NIOS] == "undecided" and verdicts(run)[SMOLS] == "slower"


# -- failures ------------------------------------------------------------------------------------------------


def test_what_was_to_be_compared_with_a_failed_baseline_is_kept_without_a_ratio(tmp_path):
    run = made(tmp_path, rounds=12, failed={TOKIOS: 5})
    assert run.time(STUDY).filter(bench=CROWD, variant="tokio")["round"].max() == 4
    assert run.time(STUDY).filter(bench=CROWD, variant="nio")["round"].n_unique() == 12
    assert NIOS not in verdicts(run) and SMOL in verdicts(run)
    assert list(refusals(run)) == ["threads"]
    assert "`tokio (A/A)` in `multi_thread/spawn` was not measured" in " ".join(refusals(run)["threads"])
    assert "`tokio` in `multi_thread/spawn` failed" in " ".join(remarks(run, STUDY)), "and no empty brackets"


def test_a_baseline_that_failed_at_once_has_no_row_and_the_run_still_loads(tmp_path):
    run = made(tmp_path, rounds=12, failed={TOKIO: 0, TOKIOS: 0})
    assert "tokio" not in run.time(STUDY)["variant"]
    assert not verdicts(run)
    assert refusals(run)


# -- units and metrics ------------------------------------------------------------------------------------------


def test_times_are_for_one_unit_of_work_as_often_as_each_key_does_it(tmp_path):
    run = made(tmp_path)
    assert dict(run.units(STUDY).filter(variant="nio").select("bench", "units").rows()) == {ALONE: 1000, CROWD: 250}
    zero_cost = load_run(make_run(tmp_path / "zero-cost", rounds=2))
    assert zero_cost.units("zero-cost")["units"].unique().to_list() == [REQUESTS]


def noted(tmp_path, **how):
    metrics = {NIO: {"cpu_ns": 5e4, "p99_ns": 700.0}, TOKIO: {"cpu_ns": 1e5, "p99_ns": 900.0}}
    return made(tmp_path, metrics=metrics, **{"rounds": 8} | how)


def test_what_adds_up_over_a_sample_is_told_for_one_iteration_and_a_quantile_as_it_is(tmp_path):
    run = noted(tmp_path)
    for metric, true in (("cpu_ns", 5e4), ("p99_ns", 700)):
        values = trial_values(run, STUDY, metric).filter(variant="nio")
        assert values.columns == [*KEY, "round", "sitting", "episode", "position", "value"]
        assert values.height == 8
        assert values["value"].median() == pytest.approx(true, rel=0.02)
    assert trial_values(run, STUDY, "voluntary_switches").is_empty()


def test_metrics_are_compared_like_times(tmp_path):
    run = noted(tmp_path)
    trials = trial_values(run, STUDY, "cpu_ns").rename({"value": "ns"})
    found = estimates(paired(trials, run.comparisons(STUDY), run.units(STUDY)))
    assert found["ratio"].to_list() == pytest.approx([0.5], rel=0.02)


def test_the_metrics_of_a_failed_key_are_not_estimated(tmp_path):
    run = noted(tmp_path, failed={NIO: 3})
    assert run.metrics(STUDY).filter(variant="nio")["round"].max() == 2
    assert "nio" not in trial_values(run, STUDY, "cpu_ns")["variant"]


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (lambda lines: lines[:-1], "is there for 23 of its 24 samples"),
        (lambda lines: [*lines[:-1], lines[-1].replace(",7,", ",70,", 1)], "of a sample that has no time"),
        (lambda lines: [*lines, lines[-1]], "is already on line"),
        (lambda lines: [*lines[:-1], lines[-1].rpartition(",")[0] + ",-1"], "below 0"),
        (lambda lines: [*lines[:-1], lines[-1].rpartition(",")[0] + ",0.5"], "not a whole number"),
        (lambda lines: [lines[0].replace("metric", "counter"), *lines[1:]], "column metric is missing"),
    ],
)
def test_metrics_that_do_not_belong_to_the_samples_are_refused(tmp_path, edit, says):
    run = noted(tmp_path)
    file = run.path / f"{STUDY}.metrics.csv"
    file.write_text("\n".join(edit(file.read_text().splitlines())) + "\n")
    error = refused(run.path)
    assert says in error.problem and error.path == file


# -- what else a run may be ----------------------------------------------------------------------------------------


def test_a_run_without_zero_cost_is_found_by_the_study_that_it_holds(tmp_path, monkeypatch):
    monkeypatch.setenv("ASYNC_COST_RUNS", str(tmp_path))
    made(tmp_path, rounds=2)
    assert list(choose_run(STUDY).info.studies) == [STUDY]
    with pytest.raises(DataError, match="no run of zero-cost"):
        choose_run("zero-cost")


def test_keys_may_have_fewer_samples_than_the_study(tmp_path):
    run = made(tmp_path, rounds=12, samples={SMOLS: 1})
    assert run.time(STUDY).filter(bench=CROWD, variant="smol").height == 12
    assert SMOLS in verdicts(run)
