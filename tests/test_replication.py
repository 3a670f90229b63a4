"""Every verdict can be provoked, follows the data, and is given to every claim."""

from collections import Counter
from dataclasses import replace

import polars as pl
import pytest
from made_up_runs import LADDER, OFF, ON, ZERO_COST, bench_of, make_run

from async_cost.findings.committed import definitions
from async_cost.findings.record import SHOWN
from async_cost.literature.claims import Claim, Comparison, load_claims
from async_cost.literature.replication import ClaimResult, outcomes, score, validity_sentence
from async_cost.paths import repository_root
from async_cost.report.claims import COUNTS, FASTER, SIZE, advice, in_numbers
from async_cost.report.records import findings_tested
from async_cost.runs.comparisons import PAIR
from async_cost.runs.find import load_run, reference_run
from async_cost.runs.judged import claims_of_today, findings_of_today, recorded, seen_by
from async_cost.statistics.effects import Operand
from async_cost.statistics.statement import OUTCOMES, departure, outcome, together
from async_cost.workflow.definitions import committed_series

CLAIMS = load_claims()
BY_ID = {claim.id: claim for claim in CLAIMS}
HERE = [claim for claim in CLAIMS if claim.study == "zero-cost"]
DOES_NOT_HOLD, HOLDS, UNDECIDED, NOT_MEASURABLE, NOT_MEASURED = OUTCOMES


def ratio(relation: str, least: float | None, most: float | None) -> Claim:
    """A claim on a ratio of times."""
    return replace(BY_ID["Z12"], relation=relation, least=least, most=most, published_value=least or most)


MORE, LESS = ratio("greater", 1, None), ratio("less", None, 1)


def weighed(run_folder, *claims: Claim) -> list[ClaimResult]:
    return outcomes(load_run(run_folder), claims or HERE)


def made(root, truth: dict | None = None, **options):
    """A made-up run with little noise, whose truth differs from the usual one by `truth`."""
    settings = {"rounds": 30, "noise": 0.002, "seed": 5} | options
    return make_run(root, ZERO_COST | (truth or {}), **settings)


# -- the rules -----------------------------------------------------------------------------------------------


#: Claims, with intervals by which each holds, does not hold, and is undecided.
INTERVALS = [
    # Less than 1 % to either side is neither more nor less, also on the side that the claim says.
    (
        MORE,
        [(1.02, 1.03), (1.001, 1.03)],
        [(1.001, 1.003), (0.9, 0.95), (0.995, 1.005)],
        [(0.985, 1.005), (0.995, 1.05)],
    ),
    (LESS, [(0.5, 0.6)], [(1.001, 1.02)], [(0.98, 1.001)]),
    (ratio("greater", 0.5, None), [], [], [(0.498, 0.502)]),  # a border that is no direction
    (ratio("at most", None, 1.1), [(0.9, 1.05)], [(1.12, 1.2)], [(0.9, 1.2)]),
    (ratio("about", 1.68, 2.38), [(1.7, 2.3)], [(1.2, 1.6)], [(2.2, 2.5)]),
    (ratio("same", 0.95, 1.053), [(0.96, 1.04)], [(1.06, 1.07)], []),
    (ratio("between", 1, 2), [(1.02, 1.5)], [(1.0, 1.005)], []),  # a side with an end
    (ratio("at least", 1.5, None), [(1.6, 3)], [(1.2, 1.4)], []),
    (replace(MORE, quantity="count"), [(1.001, 1.001)], [], []),  # what is counted exactly always counts
    (BY_ID["Z1"], [(257, 257)], [(258, 258)], []),
    (BY_ID["R3"], [(1.2, 1.8)], [(86, 271), (-124, -90)], [(-124, 127)]),
    (BY_ID["R6"], [(4.5, 7.5)], [], [(3, 5)]),
]


def test_an_outcome_compares_an_interval_with_the_region_of_the_claim():
    for claim, *by_word in INTERVALS:
        for word, intervals in zip((HOLDS, DOES_NOT_HOLD, UNDECIDED), by_word, strict=True):
            assert [outcome(claim, *ends) for ends in intervals] == [word] * len(intervals), (claim.id, word, intervals)


def test_a_difference_has_a_side_and_is_none_within_one_per_cent_of_what_is_subtracted():
    claim = BY_ID["R8"]
    assert outcome(claim, 0.5, 2, base=100) is HOLDS
    assert outcome(claim, -0.5, 0.9, base=100) is DOES_NOT_HOLD
    assert outcome(claim, -3, 0.5, base=100) is UNDECIDED
    assert outcome(claim, -3, -0.5, base=100) is DOES_NOT_HOLD


def test_a_claim_on_several_cases_asserts_all_of_them():
    assert together([HOLDS, HOLDS]) is HOLDS
    assert together([HOLDS, DOES_NOT_HOLD, NOT_MEASURED]) is DOES_NOT_HOLD
    assert together([HOLDS, UNDECIDED]) is UNDECIDED
    assert together([HOLDS, NOT_MEASURED]) is UNDECIDED
    assert together([NOT_MEASURED]) is NOT_MEASURED
    assert together([NOT_MEASURABLE, NOT_MEASURED]) is together([NOT_MEASURABLE]) is NOT_MEASURABLE
    assert together([]) is NOT_MEASURED
    assert together([HOLDS, HOLDS, DOES_NOT_HOLD], "most") is HOLDS
    assert together([HOLDS, UNDECIDED, DOES_NOT_HOLD], "most") is UNDECIDED
    assert together([HOLDS, DOES_NOT_HOLD], "most") is DOES_NOT_HOLD


def test_one_case_that_fails_among_ten_is_told_from_chance(tmp_path):
    """With a border that its interval clears alone, and not together with the others."""
    folder, claim = made(tmp_path), BY_ID["Z23"]
    ten = replace(claim, published=claim.published * 10)
    alone, together_ = (result.published.low for result in weighed(folder, claim, ten))
    border = {"relation": "at most", "least": None, "most": (alone + together_) / 2}
    results = weighed(folder, replace(claim, **border), replace(ten, **border))
    assert [result.published.outcome for result in results] == [DOES_NOT_HOLD, UNDECIDED]


# -- effects -------------------------------------------------------------------------------------------------


def test_each_operation_finds_the_truth_of_a_made_up_run(tmp_path):
    rate = replace(BY_ID["Z12"], id="Z112", quantity="rate")
    twice = replace(BY_ID["Z15"], id="Z115", operation="difference of differences", unit="us")
    claims = [BY_ID["Z12"], rate, BY_ID["Z15"], BY_ID["Z18"], twice, BY_ID["Z7"], BY_ID["Z9"], BY_ID["Z16"]]
    effects = [result.published for result in weighed(made(tmp_path), *claims)]
    truth = [1 / 3.6, 3.6, 1.1 / 3.6, 2.6 * 26_000 / 256, 0.1 * 500 - 2.6 * 26, 1, 0, 3_060_000 / 3_110_000]
    for effect, true in zip(effects, truth, strict=True):
        assert effect.effect == pytest.approx(true, rel=0.03), effect
        assert effect.low <= effect.effect <= effect.high
    assert effects[5].low == effects[5].high, "a count is exact"


@pytest.mark.parametrize("quantity", ["time", "rate"])
def test_two_keys_of_one_group_that_are_compared_with_a_third_are_compared_round_by_round(tmp_path, quantity):
    keys = ("box+arc", OFF), ("callerbox", OFF)
    case = tuple((Operand("zero-cost", bench_of(*key), *key),) for key in keys)
    claim = replace(BY_ID["Z12"], quantity=quantity, published=(case,))
    truth = ZERO_COST[keys[0]] / ZERO_COST[keys[1]]
    (result,) = weighed(made(tmp_path), claim)
    assert result.published.effect == pytest.approx(truth if quantity == "time" else 1 / truth, rel=0.02)
    assert result.published.low < result.published.effect < result.published.high


# -- the verdicts follow the data ----------------------------------------------------------------------------


def test_an_effect_its_reverse_and_too_much_noise_give_three_words(tmp_path):
    """Z23 says that Arc wakers are slower than Rc wakers."""
    assessments = {
        name: weighed(made(tmp_path / name, {("box+arc", OFF): value}, noise=noise), BY_ID["Z23"])[0].published
        for name, value, noise in (("effect", 4.2, 0.002), ("reverse", 3.6, 0.002), ("noise", 3.95, 0.05))
    }
    assert [assessment.outcome for assessment in assessments.values()] == [HOLDS, DOES_NOT_HOLD, UNDECIDED]
    assert departure(BY_ID["Z23"], assessments["reverse"]) == "the reverse"
    assert departure(BY_ID["Z23"], assessments["effect"]) is None


def times_of(claim: Claim, study: str = "zero-cost") -> set[tuple[str, str]]:
    """Variants and parameters of `study` whose times a claim rests on, by either comparison."""
    places = [place for comparison in Comparison for case in claim.cases(comparison) for place in case]
    timed = [operand for place in places for operand in place if not operand.counter and operand.study == study]
    return {(operand.variant, operand.parameter) for operand in timed}


def numbers(results: list[ClaimResult]) -> dict[str, tuple]:
    return {result.claim.id: (result.published, result.clean) for result in results}


def _told(name: str, judged: dict[str, tuple]) -> list:
    """What is compared of a judgement: of a difference not the interval, which knows the speed of all keys."""
    difference = BY_ID[name].operation.startswith("difference")
    return [assessment.effect if assessment and difference else assessment for assessment in judged[name]]


@pytest.fixture(scope="module")
def usual(tmp_path_factory) -> dict[str, tuple]:
    return numbers(weighed(made(tmp_path_factory.mktemp("usual"), ladder=LADDER)))


@pytest.mark.parametrize("key", list(ZERO_COST)[::4], ids=" ".join)
def test_turning_one_effect_changes_exactly_the_claims_that_rest_on_it(tmp_path, usual, key):
    turned = numbers(weighed(made(tmp_path, {key: 1 / ZERO_COST[key]}, ladder=LADDER)))
    changed = {name for name in usual if _told(name, turned) != _told(name, usual)}
    resting = {claim.id for claim in HERE if key in times_of(claim)}
    # Z11 speaks of all variants and shows the one nearest to the border; turned below 1, that is this one.
    assert changed == resting
    if key[1] == OFF and key[0] != "manual (best)":
        assert usual["Z11"][0].outcome is HOLDS and turned["Z11"][0].outcome is DOES_NOT_HOLD


def test_turning_a_rung_of_the_ladder_changes_clean_comparisons_alone(tmp_path, usual):
    turned = numbers(weighed(made(tmp_path, ladder=LADDER | {("lean + dyn", "live=3"): 1.0})))
    changed = {name for name in usual if turned[name] != usual[name]}
    assert changed == {claim.id for claim in HERE if ("lean + dyn", "live=3") in times_of(claim, "ladder")}
    assert changed == {"Z19"}
    assert turned["Z19"][0] == usual["Z19"][0]
    assert (usual["Z19"][1].outcome, turned["Z19"][1].outcome) == (HOLDS, DOES_NOT_HOLD)


def test_a_count_that_is_off_by_one_contradicts_the_claims_on_it_alone(tmp_path):
    folder = made(tmp_path)
    before = numbers(weighed(folder))
    file = folder / "zero-cost.counts.csv"
    text = file.read_text(encoding="utf-8")
    assert text.count("zero-cost,box+rc,box+rc,syscalls=off,read,512\n") == 1
    file.write_text(text.replace("box+rc,box+rc,syscalls=off,read,512\n", "box+rc,box+rc,syscalls=off,read,513\n"))
    after = numbers(weighed(folder))
    assert {name for name in before if before[name] != after[name]} == {"Z5"}
    assert after["Z5"][0].outcome is DOES_NOT_HOLD and after["Z5"][0].effect == 513
    assert after["Z5"][0].case[0][0].variant == "box+rc", "the case that decides is the one to show"


@pytest.mark.parametrize("options", [{"episodes": 3}, {"profile": "quick"}])
def test_a_study_that_is_no_evidence_concludes_nothing(tmp_path, options):
    results = weighed(made(tmp_path, ladder=LADDER, **options), *CLAIMS)
    timed = Counter(result.published.outcome for result in results if result.claim.quantity != "count")
    assert timed[HOLDS] == timed[DOES_NOT_HOLD] == 0 and timed[UNDECIDED] > 10
    counts = Counter(result.published.outcome for result in results if result.claim.quantity == "count")
    assert counts[HOLDS] > 5 and counts[UNDECIDED] == 0, "no clock has a say in what was counted"
    assert all("no evidence" in result.published.reason for result in results if result.published.outcome is UNDECIDED)


def test_the_clean_comparison_is_believed_by_its_own_study(tmp_path):
    judged = numbers(weighed(made(tmp_path, ladder=LADDER, controls={OFF: 1.0, ON: 1.0, "live=3": 9.0})))
    assert judged["Z19"][0].outcome is HOLDS and judged["Z19"][1].outcome is UNDECIDED


def test_each_group_of_comparisons_has_its_own_controls_and_limit(tmp_path):
    """With system calls a difference counts from 5 % on, and without them the control is off by more than any."""

    def entry(variant: str, parameter: str, group: str, other: str = "manual") -> dict[str, str]:
        key, base = ((bench_of(name, parameter), name, parameter) for name in (variant, other))
        return dict(zip((*PAIR, "group", "change", "unit"), (*key, *base, group, "made up", "request"), strict=True))

    declared = [entry("manual (A/A)", OFF, ""), entry("manual (A/A)", ON, "calls")]
    declared += [entry(variant, parameter, "calls" if parameter == ON else "") for variant, parameter in ZERO_COST]
    changes = {"studies.zero-cost.comparisons": declared, "studies.zero-cost.groups": {"": 0.01, "calls": 0.05}}
    changes["studies.zero-cost.kinds"] = {"": "one thread", "calls": "long trials"}
    judged = numbers(weighed(made(tmp_path, changes=changes, controls={OFF: 9.0, ON: 1.0})))
    assert {judged[name][0].outcome for name in ("Z12", "Z18")} == {UNDECIDED}
    assert judged["Z1"][0].outcome is HOLDS, "a count"
    assert judged["Z14"][0].outcome is HOLDS
    assert judged["Z15"][0].outcome is UNDECIDED, "it rests on both groups"


def test_a_variant_that_failed_leaves_its_claims_unmeasured(tmp_path):
    judged = numbers(weighed(made(tmp_path, failed=[("box+arc", OFF)])))
    assert judged["Z23"][0].outcome is NOT_MEASURED and "`box+arc`" in judged["Z23"][0].reason
    assert judged["Z11"][0].outcome is UNDECIDED and "`box+arc`" in judged["Z11"][0].reason
    assert judged["Z25"][0].outcome is not NOT_MEASURED
    assert judged["Z1"][0].outcome is HOLDS, "its counts were made before it failed"


# -- the score -----------------------------------------------------------------------------------------------


def test_no_claim_is_silently_missing_and_studies_that_a_run_does_not_hold_are_not_measured(tmp_path):
    results = outcomes(load_run(made(tmp_path)))
    assert len(results) == sum(claim.is_claim for claim in CLAIMS)
    for result in results:
        if result.claim.study != "zero-cost" or result.claim.id == "Z32":
            assert result.published.outcome is NOT_MEASURED and result.published.effect is None
            assert result.published.reason
        if result.clean and result.claim.id != "Z16":
            assert result.clean.outcome is NOT_MEASURED


def made_up_claims(*rows: tuple) -> pl.DataFrame:
    """What a run says of claims: same_as, kind, outcome and outcome of the clean comparison of each."""
    names = ("claim", "same_as", "kind", "outcome", "clean_outcome")
    return pl.DataFrame(
        [(f"A{at}", *row) for at, row in enumerate(rows)], dict.fromkeys(names, pl.String), orient="row"
    )


GROUPED = made_up_claims(
    (None, FASTER, "holds", "does not hold"),
    (None, FASTER, "holds", None),
    (None, SIZE, "holds", None),
    ("A2", SIZE, "does not hold", None),
    (None, COUNTS, "holds", None),
    (None, FASTER, "undecided", None),
)


def test_what_may_be_quoted_counts_a_group_once_and_tells_counts_and_confounded_claims_apart():
    faster = "check which is faster (2 of 3 hold, 1 confounded)"
    assert advice(GROUPED) == f"quote counts (1 of 1 holds); {faster}; do not quote by how much (0 of 1 hold)"


def test_kinds_with_one_advice_are_said_together():
    hold, fails = (None, FASTER, "holds", None), (None, SIZE, "does not hold", None)
    assert advice(made_up_claims(hold)) == "quote which is faster (1 of 1 holds)"
    assert advice(made_up_claims(hold, (None, COUNTS, "holds", None), fails)) == (
        "quote which is faster and counts (2 of 2 hold); do not quote by how much (0 of 1 hold)"
    )
    larger = (None, SIZE, "not measurable here", None)
    assert advice(made_up_claims(larger, (None, FASTER, "undecided", None))) == (
        "check each claim (0 of 2 hold, 1 needs more processors)"
    )


def test_the_numbers_of_a_document_are_those_of_each_kind_here_and_elsewhere():
    there = {"A0": "holds", "A1": "holds", "A2": "holds", "A3": "holds", "A4": "does not hold"}
    here = "Which is faster: 2 of 3 claims hold, 1 of them confounded, 1 undecided. By how much: 0 of 1 claims hold, 1 does not"
    assert in_numbers(GROUPED, {"EPYC": there}) == (
        f"**{here}. Counts: 1 of 1 claims holds.** EPYC: 2, 1 and 0 hold; 0, 0 and 1 do not."
    )


@pytest.mark.parametrize(
    ("hold", "others", "verb"),
    [
        (9, {NOT_MEASURABLE: 14}, "check"),
        (3, {NOT_MEASURED: 1}, "quote"),
        (2, {UNDECIDED: 1}, "check"),
        (1, {DOES_NOT_HOLD: 1, UNDECIDED: 9}, "check"),
        (1, {DOES_NOT_HOLD: 2, NOT_MEASURABLE: 9}, "do not quote"),
    ],
)
def test_what_may_be_quoted_depends_on_all_claims_and_not_on_the_decided_alone(hold, others, verb):
    words = [HOLDS] * hold + [word for word, count in others.items() for _ in range(count)]
    text = advice(made_up_claims(*((None, FASTER, word.value, None) for word in words)))
    assert text.startswith(f"{verb} which is faster") and f"({hold} of {len(words)} hold" in text


def test_a_run_tests_the_claims_and_findings_that_are_defined_as_before_it(tmp_path):
    """Also those of a run that recorded one hash of all, whatever else was changed since."""

    def says(name: str, what: str, hashes: str | None) -> str:
        run = load_run(made(tmp_path / name, changes={what: hashes} if hashes else {}))
        return (validity_sentence if what == "claims" else findings_tested)(run)

    for what, today in (("claims", claims_of_today()), ("findings", findings_of_today())):
        assert "before" in says(f"{what}-today", what, recorded(today.values()))
        for name, none in (("unknown", "0" * 64), ("nothing", None)):
            assert "no test of the" in says(f"{what}-{name}", what, none)
    changed, *others = claims_of_today()
    few = recorded(claims_of_today()[id] for id in others)
    assert says("one", "claims", few).endswith(f"written or changed since: {changed}.")
    few = recorded(list(findings_of_today().values())[:-1])
    number = len(findings_of_today())
    assert f"tests {number - 1} of {number} findings" in says("others", "findings", few)


def test_the_committed_series_test_what_was_defined_as_today_before_them():
    reference = reference_run()
    tested = pl.col("hash").is_in(seen_by(reference, "findings"))
    unseen = definitions().filter(~tested, pl.col("relation") != SHOWN).select("id", "slot", "changed")
    assert unseen.filter(pl.col("changed").fill_null("") < reference.info.started[:10]).rows() == []
    for run in committed_series():
        tested, day = seen_by(run, "claims"), run.info.started[:10]
        unseen = [id for id, hash in claims_of_today().items() if hash not in tested]
        known = pl.read_csv(repository_root() / "data" / "earlier-definitions.csv")["id"]
        untold = [id for id in unseen if id in known and not (BY_ID[id].changed or "") >= day]
        unseen = definitions().filter(
            ~pl.col("hash").is_in(seen_by(run, "findings")),
            pl.col("id").is_in(known.implode()),
            pl.col("relation") != SHOWN,
        )
        untold += unseen.filter(pl.col("changed").fill_null("") < day)["id"].to_list()
        assert tested and not untold, f"{untold} changed after {run.info.run_id}: say so in `changed`"


def test_words_of_a_claim_are_no_part_of_its_definition_and_its_operands_are(tmp_path):
    (tmp_path / "data").mkdir()

    def changed(name: str, *change: tuple[str, str]) -> set[str]:
        for file in ("claims.csv", "claims-operands.csv"):
            text = (repository_root() / "data" / file).read_text(encoding="utf-8")
            for old, new in change if file == name else ():
                assert old in text
                text = text.replace(old, new)
            (tmp_path / "data" / file).write_text(text, encoding="utf-8")
        return {id for id, hash in claims_of_today(tmp_path).items() if claims_of_today().get(id) != hash}

    assert not changed("claims.csv", ("a count is exact", "counted"), (",257,257,", ",257.0,257,"))
    assert changed(
        "claims.csv",
        ("Z8,zero-cost,prose,value,count,,all,equal,256,256", "Z8,zero-cost,prose,value,count,,all,equal,255,256"),
    ) == {"Z8"}
    assert changed(
        "claims-operands.csv", ("Z1,published,1,1,zero-cost,manual,manual", "Z1,published,1,1,zero-cost,box,box")
    ) == {"Z1"}


def test_a_claim_about_more_processors_than_there_are_is_shown_and_not_judged(tmp_path):
    claim = replace(BY_ID["Z12"], processors=4)
    (few,) = weighed(made(tmp_path / "few"), claim)
    (many,) = weighed(made(tmp_path / "many", changes={"machine.logical_cores": 4}), claim)
    assert few.published.outcome is NOT_MEASURABLE and few.published.effect == many.published.effect
    assert many.published.outcome is HOLDS
    assert few.published.reason == "it is about 4 processors, and this machine has two"
    assert score(Counter({NOT_MEASURABLE: 1})) == "0 of 1 claims hold, 1 needs more processors"
    assert departure(claim, few.published) is None
