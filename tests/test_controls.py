"""Controls correct the intervals of their kind; one that differs from its baseline by more than chance explains widens
those of its group.
"""

from itertools import chain

import numpy as np
import polars as pl
import pytest
from made_up_runs import OFF, ON, ZERO_COST, Study, make_run
from scipy import stats

from async_cost.literature import replication
from async_cost.literature.claims import load_claims
from async_cost.runs.find import load_run
from async_cost.runs.record import KINDS
from async_cost.statistics.interval import RANKS, quantile
from async_cost.statistics.judge import CONTROL_OFF, differing, judged
from async_cost.statistics.measured import Measured

ONE, _, MANY, LONG = KINDS
#: Intervals that only widen with the others.
UNKNOWN = ("undisturbed", "undisturbed_low", "undisturbed_high", "next_low", "next_high", "omega2")


def rows(
    errors: list[float], standard_error: float = 0.01, episodes: int = 10, kind: str = ONE, study: str = "s"
) -> list[dict]:
    """For each error of a control a group: the control that is so many of its standard errors off, and a comparison
    that is 10 % slower.
    """
    entries = []
    for place, error in enumerate(errors):
        freedom = episodes - 1 if episodes > 1 else RANKS
        half = quantile(freedom) * standard_error
        for variant, log in (("a (A/A)", error * standard_error), ("b", np.log(1.1))):
            control = variant == "a (A/A)"
            chance = float(2 * stats.t.sf(abs(error), episodes - 1)) if control else None
            numbers = {"ratio": np.exp(log), "low": np.exp(log - half), "high": np.exp(log + half)}
            added = {"unit_ns": 110.0, "added_ns": 10.0, "added_low": 9.0, "added_high": 12.0}
            names = {"study": study, "bench": "x", "variant": variant, "parameter": ""}
            base = {"baseline_bench": "x", "baseline_variant": "a", "baseline_parameter": ""}
            about = {"group": f"{kind} {place}", "kind": kind, "limit": 0.01, "control": control, "chance": chance}
            over = {"rounds": 60, "episodes": episodes, "sittings": 1}
            over |= {"freedom": float(freedom), "quantile": quantile(freedom)} | dict.fromkeys(UNKNOWN)
            entries.append(names | base | about | numbers | added | over)
    return entries


def table_of(*parts: list[dict], profile: str = "standard") -> pl.DataFrame:
    return judged(frame_of(*parts), profile)


def frame_of(*parts: list[dict]) -> pl.DataFrame:
    frame = pl.DataFrame(list(chain(*parts)), infer_schema_length=None)
    return frame.cast(dict.fromkeys(UNKNOWN, pl.Float64) | {"chance": pl.Float64})


def widths(frame: pl.DataFrame, control: bool = False, **where) -> np.ndarray:
    chosen = frame.filter(pl.col("control") == control, **where)
    return (chosen["high"] / chosen["low"]).log().to_numpy() / 2


def moved(row: dict, by: float) -> dict:
    """A comparison whose ratio is `by`, in place of 1.1."""
    return row if row["control"] else row | {name: row[name] * by / 1.1 for name in ("ratio", "low", "high")}


# -- a control that differs ----------------------------------------------------------------------------------


def test_a_control_off_by_ten_standard_errors_widens_its_group_by_its_farther_end_and_only_that():
    given = rows([0.3, -10.0, -0.5, 0.1])
    before, table = frame_of(given), table_of(given)
    off = (10 + quantile(9)) * 0.01
    assert table["offset"].to_list() == pytest.approx([0, 0, off, off, 0, 0, 0, 0])
    assert widths(table) - widths(before) == pytest.approx([0, off, 0, 0])
    assert widths(table, control=True) == pytest.approx(widths(before, control=True)), "controls are what was measured"
    row, wider = (frame.row(3, named=True) for frame in (before, table))
    assert row["added_low"] - wider["added_low"] == pytest.approx(110 * (1 - np.exp(-off)))
    assert wider["added_high"] - row["added_high"] == pytest.approx(110 * (np.exp(off) - 1))
    assert table["doubt"].null_count() == table.height and table["verdict"].null_count() == 0
    assert table["bias"].unique().to_list() == [0.0], "what differs says nothing of the others"
    assert len(differing(table.filter(group=f"{ONE} 1").to_dicts())) == 1
    assert not differing(table.filter(group=f"{ONE} 0").to_dicts())


def test_beside_a_control_off_by_16_percent_58_times_is_slower_and_little_is_undecided():
    given, off = [*rows([0.1, 0.2, -0.1]), *rows([16.0], kind=MANY)], (16 + quantile(9)) * 0.01
    for ratio, verdict in ((58.0, "slower"), (1 / 58, "faster"), (1.15, "undecided"), (1.0, "undecided")):
        row = table_of([moved(row, ratio) for row in given]).row(-1, named=True)
        assert (row["verdict"], row["offset"]) == (verdict, pytest.approx(off)), ratio
        if ratio == 1.15:
            assert row["to_decide"].startswith("no number of sittings")
            assert "identical code differs" in row["to_decide"]
    assert row["to_decide"] == CONTROL_OFF


def test_nothing_is_the_same_beside_a_control_that_is_off_by_more_than_the_limit():
    rng, seen = np.random.default_rng(3), set()
    for _ in range(60):
        limit, error, ratio = rng.uniform(0.01, 0.1), rng.uniform(7, 400), np.exp(rng.normal(0, 0.01))
        given = rows([error], standard_error=0.0005, episodes=30) + rows([0.0] * 3, kind=MANY)
        row = table_of([moved(row, ratio) | {"limit": limit} for row in given]).row(1, named=True)
        seen.add((row["verdict"], row["offset"] > limit))
        assert row["verdict"] != "same" or row["offset"] < -np.log(1 - limit)
    assert {("same", False), ("undecided", True)} <= seen


@pytest.mark.parametrize("number", [5, 9, 20, 40])
def test_nothing_is_the_same_beside_a_broken_control_that_precise_ones_outweigh(number):
    rng, seen = np.random.default_rng(number), set()
    for _ in range(50):
        limit, precise = rng.uniform(0.005, 0.1), 0.0002
        wide, error = rng.uniform(0.2, 2) * limit, rng.uniform(1.5, 8) * rng.choice([-1, 1])
        given = [*rows([error], wide, episodes=30), *rows([0.0] * number, precise, episodes=30, study="others")]
        control = given.pop(0) | {"limit": limit}
        ends = {name: given[1][name] / given[1]["ratio"] for name in ("ratio", "low", "high")}
        given = [control, *(row if row["control"] else row | ends | {"limit": limit} for row in given)]
        given.append(given[1] | {name: 9 * end for name, end in ends.items()})
        beside, far = (table_of(given).row(place, named=True) for place in (1, -1))
        off, offset = control["low"] > 1 + limit or control["high"] < 1 - limit, beside["offset"] > 0
        seen.add((off, offset, beside["low"] >= 1 - limit and beside["high"] <= 1 + limit))
        assert not off or (beside["verdict"], beside["to_decide"]) == ("undecided", CONTROL_OFF)
        assert off or offset or beside["verdict"] == "same"
        assert far["verdict"] == "slower", "a large difference stays one"
    assert {(True, True, False), (False, False, True)} <= seen
    assert number < 20 or (True, False, True) in seen, "without the rule it would be the same"


@pytest.mark.parametrize(("extra", "broken"), [(0.0, 0.0), (0.03, 0.0), (0.0, 0.16), (0.03, 0.5)])
def test_identical_code_is_called_different_in_one_of_twenty_comparisons_at_most(extra, broken):
    """Each key is off by an error of its own; the baseline of the first of twenty groups also by `broken`."""
    rng, wrong, runs, noise = np.random.default_rng(11), 0, 40, 0.01
    for _ in range(runs):
        copy, variant, baseline = rng.normal(0, np.hypot(extra, noise / np.sqrt(2)), (3, 20))
        baseline[0] += broken
        given = rows(list((copy - baseline) / noise), noise, episodes=30)
        ratios = iter(np.exp(variant - baseline))
        table = table_of([row if row["control"] else moved(row, next(ratios)) for row in given])
        called = table.filter(~pl.col("control"))["verdict"]
        assert called.null_count() == 0
        wrong += called.is_in(["slower", "faster"]).sum()
        assert not broken or table["offset"][0] > broken / 2
    assert wrong <= 0.05 * 20 * runs


def test_a_chance_that_one_control_alone_would_not_have_is_usual_among_many():
    """2.5 standard errors: p = 0.034 of one control, which is none of forty."""
    assert table_of(rows([2.6]))["offset"].max() > 0.02
    for one in (rows([2.2]), rows([2.6], episodes=100) + rows([0.0] * 39, kind=MANY)):
        assert table_of(one)["offset"].max() == 0


def test_holm_steps_down():
    """Of p-values .001, .02, .03 and .04 three controls are compared with .05 / 4, / 3, / 2: only the first is small
    enough.
    """
    chances = iter((0.02, 0.001, 0.04, 0.03))
    given = [row | {"chance": next(chances) if row["control"] else None} for row in rows([0.0] * 4)]
    table = table_of(given).filter("control")
    assert table["chance"].to_list() == pytest.approx([0.06, 0.004, 0.06, 0.06])
    assert (table["offset"] > 0).to_list() == [False, True, False, False]


def test_one_process_concludes_nothing_however_many_rounds_it_has():
    for episodes, doubts in ((1, {"fewer than four processes"}), (3, {"fewer than four processes"}), (4, {None})):
        table = table_of([row | {"rounds": 96, "episodes": episodes} for row in rows([0.5])])
        assert set(table["doubt"]) == doubts and table["verdict"].is_null().all() == (episodes < 4)
    assert set(table_of(rows([0.5], episodes=1), profile="quick")["doubt"]) == {"quick profile"}


# -- correcting ----------------------------------------------------------------------------------------------


def test_a_bias_in_common_widens_every_interval_of_its_kind_and_no_other():
    rng = np.random.default_rng(2)
    planted, error, episodes = 0.02, 0.01, 30
    off = np.clip(rng.normal(0, np.hypot(planted, error) / error, 40), -3.0, 3.0)  # none of them differs
    given = [rows(list(off), kind=MANY, episodes=episodes), rows(list(rng.normal(0, 0.7, 20)), episodes=episodes)]
    before, after = frame_of(*given), table_of(*given)
    assert after["offset"].max() == 0
    beta = after.filter(kind=MANY)["bias"].unique().item()
    assert beta == pytest.approx(planted, rel=0.35)
    expected = np.sqrt(widths(before, kind=MANY) ** 2 + (quantile(episodes - 1) * beta) ** 2)
    assert widths(after, kind=MANY) == pytest.approx(expected)
    assert after.filter(kind=ONE)["bias"].unique().to_list() == [0.0]
    assert (widths(after, kind=ONE) == widths(before, kind=ONE)).all()
    assert (widths(after, control=True) == widths(before, control=True)).all(), "controls stay what was measured"


def test_controls_that_are_all_off_correct_one_another_and_do_not_differ_one_by_one():
    """Twins whose true errors are three standard errors: each is a miss by itself, and usual among the others of its
    kind.
    """
    rng, betas, differ = np.random.default_rng(5), [], 0
    for _ in range(20):
        table = table_of(rows(list(rng.normal(0, np.hypot(3, 1), 20)), episodes=30))
        betas.append(table["bias"][0] / 0.01)
        differ += table["offset"].max() > 0
    assert 2.6 < np.mean(betas) < 3.3 and differ <= 3
    alone = table_of(rows([0.2, -0.4, 12.0, 0.1, 0.3], episodes=30))
    assert (alone["offset"] > 0).sum() == 2, "one that is off alone differs"


def test_the_variance_is_that_of_dersimonian_and_laird_about_zero():
    """Errors of 2, 1 and -2 standard errors of 0.01 over 10 processes: 9 - 3 * 9/7 over 3 / 0.0001."""
    table = table_of(rows([2.0, 1.0, -2.0]))
    assert table["bias"].unique().item() == pytest.approx(np.sqrt((9 - 3 * 9 / 7) / 3) * 0.01)
    single = table_of(rows([2.0, 1.0, -2.0], episodes=1))
    assert single["bias"].unique().item() == pytest.approx(np.sqrt((9 - 3) / 3) * 0.01), (
        "what ranks say is expected at 1"
    )


def test_each_side_of_an_interval_and_the_added_time_are_widened_for_themselves():
    given = [row | ({} if row["control"] else {"low": 1.0, "high": 1.3}) for row in rows([2.0, -2.0])]
    row = table_of(given).filter(~pl.col("control")).row(0, named=True)
    more = quantile(9) * row["bias"]
    assert row["bias"] > 0
    assert np.log(row["ratio"] / row["low"]) == pytest.approx(np.hypot(np.log(1.1), more))
    assert np.log(row["high"] / row["ratio"]) == pytest.approx(np.hypot(np.log(1.3 / 1.1), more))
    assert 10 - row["added_low"] == pytest.approx(np.hypot(1, 110 * more))
    assert row["added_high"] - 10 == pytest.approx(np.hypot(2, 110 * more))


def test_a_kind_without_controls_has_no_bias():
    alone = [row for row in rows([0.0], kind=LONG) if not row["control"]]
    table = table_of(alone, rows([0.0])).filter(kind=LONG)
    assert table["bias"].to_list() == [None] and table["doubt"].to_list() == ["no control"]
    assert table_of(rows([20.0]))["bias"].null_count() == 2, "controls that differ are none"


def test_controls_of_one_kind_speak_for_all_studies_of_the_run(tmp_path):
    """Twins that are off by a little each, in two studies: both are corrected by what they show together."""

    def study(kind: str, *off: float) -> Study:
        times, comparisons = {}, []
        for place, ratio in enumerate(off):
            keys = [("x", name, f"p={place}") for name in ("a", "a (A/A)", "b")]
            times |= dict(zip(keys, (1e5, ratio * 1e5, 1.5e5), strict=True))
            comparisons += [(key, keys[0], f"g{place}") for key in keys[1:]]
        groups = {f"g{place}": 0.01 for place in range(len(off))}
        return Study(times, comparisons, groups, ["a (A/A)"], kinds=dict.fromkeys(groups, kind))

    others = {"one": study(MANY, 1.004, 0.997, 1.003), "two": study(MANY, 0.996, 1.002), "three": study(ONE, 1.0, 1.0)}
    run = load_run(make_run(tmp_path, None, others=others, rounds=60, episodes=10, noise=0.006, seed=2))
    bias = {name: set(Measured(run, name).declared["bias"]) for name in others}
    assert bias["one"] == bias["two"] and 0.0003 < min(bias["one"]) < 0.006
    assert bias["three"] != bias["one"]


# -- claims --------------------------------------------------------------------------------------------------


def test_what_is_made_of_comparisons_has_their_bias(tmp_path):
    """The same samples, read with controls that are off together: claims on ratios of ratios become less sure, too."""
    claims = [claim for claim in load_claims() if claim.study == "zero-cost" and claim.quantity == "time"]
    how = {"rounds": 200, "episodes": 20, "noise": 0.008}
    plain, off = (
        load_run(make_run(tmp_path / name, ZERO_COST, controls={OFF: 1 + error, ON: 1 - error}, **how))
        for name, error in (("plain", 0.0), ("off", 0.006))
    )
    derived = [
        claim for claim in claims if claim.operation in ("ratio of ratios", "difference of differences", "difference")
    ]
    assert derived
    bias = [Measured(run, "zero-cost").declared["bias"][0] for run in (plain, off)]
    assert bias[1] > 0.002 > bias[0]
    for result, biased in zip(replication.outcomes(plain, derived), replication.outcomes(off, derived), strict=True):
        if result.published.effect is not None and result.published.low != result.published.high:
            assert biased.published.high - biased.published.low > result.published.high - result.published.low, (
                result.claim.id
            )
