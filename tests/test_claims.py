"""The claims are whole, join with the data, and say what the printed tables say."""

import csv
import shutil
from collections import Counter
from pathlib import Path
from statistics import median

import ladder_source
import pytest

from async_cost.errors import DataError
from async_cost.literature.claims import Claim, Comparison, load_claims
from async_cost.literature.published import load_published, published_studies
from async_cost.paths import repository_root
from async_cost.runs.comparisons import KEY, PAIR, of_today
from async_cost.runs.find import reference_run
from async_cost.statistics.effects import NANOSECONDS, Case, Operand
from async_cost.statistics.statement import region

CLAIMS = load_claims()
BY_ID = {claim.id: claim for claim in CLAIMS}
#: The studies of which a document has printed figures.
PRINTED_STUDIES = tuple(dict.fromkeys(claim.study for claim in CLAIMS if claim.study in published_studies()))
#: How many statements each document makes, by the letter of their ids, with those that no measurement can check and
#: those that are none.
STATED = {"Z": 32, "R": 21, "N": 64, "P": 28, "C": 24, "K": 8, "X": 10}
#: How many places the operands of an operation take.
PLACES = {"value": 1, "ratio": 2, "difference": 2, "ratio of ratios": 4, "difference of differences": 4}
#: Tasks spawned by one iteration of the ring with N=200, and requests of one of zero-cost: what `per` counts in the
#: printed tables.
PRINTED_PER = {"spawns": 40_200, "transactions": 256}


def operands(claim: Claim) -> list[tuple[Comparison, Operand]]:
    cases = [(comparison, case) for comparison in Comparison for case in claim.cases(comparison)]
    return [(comparison, operand) for comparison, case in cases for place in case for operand in place]


def test_a_claim_says_why_its_own_figure_or_the_published_comparison_is_not_judged():
    for claim in CLAIMS:
        least, most = region(claim)
        inside = claim.published_value is None or least <= claim.published_value <= most
        assert inside != bool(claim.own_figure), claim.id
        assert claim.confound or not claim.clean, claim.id
        assert claim.same_as is None or claim.same_as in BY_ID, claim.id


def test_operands_fill_the_places_of_their_operation_from_one_study():
    with (repository_root() / "data" / "claims-operands.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    places, studies = {}, {}
    for row in rows:
        claim, case = BY_ID[row["claim"]], (row["claim"], row["comparison"], row["case"])
        places.setdefault(case, set()).add(int(row["place"]))
        studies.setdefault(case, set()).add(row["study"])
        assert (claim.quantity == "count") == bool(row["counter"]) and not (row["counter"] and row["plus_ns"]), row
        assert row["comparison"] != Comparison.PUBLISHED or row["study"] == claim.study, row
    for case, some in places.items():
        assert some == {*range(1, PLACES[BY_ID[case[0]].operation] + 1)} and len(studies[case]) == 1, case


def test_no_claim_is_missing():
    assert Counter(name[0] for name in BY_ID) == STATED
    assert len(CLAIMS) == len(BY_ID)


def test_only_claims_that_no_table_shows_have_no_published_operands():
    unshown = [claim for claim in CLAIMS if claim.is_claim and not claim.published]
    assert [claim.id for claim in unshown if claim.study in PRINTED_STUDIES] == ["Z32", "R21", "N44", "P28"]
    assert [claim.id for claim in CLAIMS if not claim.is_claim] == ["R17", "P26"]


def test_every_row_of_the_benchmarks_of_nio_is_claimed():
    claimed = {operand.key for claim in CLAIMS if claim.study == "runtimes" for _, operand in operands(claim)}
    assert set(load_published("runtimes").select(KEY).rows()) <= claimed


def test_every_operand_of_a_published_comparison_is_a_key_of_the_published_tables():
    known = {(study, *row) for study in PRINTED_STUDIES for row in load_published(study).select(KEY).rows()}
    for claim in CLAIMS:
        for comparison, operand in operands(claim):
            if comparison is Comparison.PUBLISHED:
                assert (operand.study, *operand.key) in known, f"{claim.id}: {operand} was not published"


def test_every_counter_of_a_measured_study_is_counted():
    run = reference_run()
    for claim in CLAIMS:
        for _, operand in operands(claim):
            if operand.counter and operand.study in run.info.studies:
                key = dict(zip(KEY, operand.key, strict=True))
                counted = run.counts(operand.study).filter(**key, counter=operand.counter)
                assert counted.height == 1, f"{claim.id}: {operand}"


def printed(study: str) -> dict[tuple[str, ...], float]:
    """Nanoseconds of each key as printed; of a rate, those for one execution."""
    rows = {}
    for row in load_published(study).iter_rows(named=True):
        rows.setdefault((row["bench"], row["variant"], row["parameter"]), {})[row["metric"]] = row
    printed_ns = {}
    for key, metrics in rows.items():
        if "throughput" in metrics:
            printed_ns[key] = 1e3 / metrics["throughput"]["value"]
        elif "executions" in metrics:
            printed_ns[key] = 1e9 * metrics["elapsed"]["value"] / metrics["executions"]["value"]
        elif time := metrics.get("time") or metrics.get("latency_mean"):
            printed_ns[key] = time["value"] * NANOSECONDS[time["unit"]]
    return printed_ns


PRINTED = {study: printed(study) for study in PRINTED_STUDIES}
#: How far a figure of prose may be rounded.
ROUNDED = 0.006
#: Claims whose effects follow from times that are printed.
TIMED = [claim for claim in CLAIMS if claim.published and claim.quantity != "count"]


def printed_effect(claim: Claim, case: Case) -> float:
    """The effect that the printed times have."""
    ns = PRINTED[claim.study]
    place = [sum(ns[operand.key] + operand.plus_ns for operand in operands) for operands in case]
    if claim.quantity == "rate":
        place = [1 / time for time in place]
    if claim.in_ratios:
        return place[0] / place[1] / (place[2] / place[3] if len(place) == 4 else 1)
    effect = place[0] - place[1] - (place[2] - place[3] if len(place) == 4 else 0)
    return effect / (NANOSECONDS[claim.unit] * PRINTED_PER.get(claim.per, 1))


def printed_effects(claim: Claim) -> list[float]:
    """That of each case; the median where the claim is about most of them."""
    effects = [printed_effect(claim, case) for case in claim.published]
    return [median(effects)] if claim.of == "most" else effects


def follows(claim: Claim) -> bool:
    """Whether the printed times have the effect that the claim publishes, in the region in which it is true unless it
    says why not.

    Of several cases one is given and all must lie there.
    """
    effects = printed_effects(claim)
    if not any(effect == pytest.approx(claim.published_value, rel=ROUNDED) for effect in effects):
        return False
    least, most = (end * (1 - away) for end, away in zip(region(claim), (1e-4, -1e-4), strict=True))
    return all(least <= effect <= most for effect in (*effects, claim.published_value)) != bool(claim.own_figure)


@pytest.mark.parametrize("study", PRINTED_STUDIES)
def test_published_values_follow_from_the_printed_tables(study):
    """The operands and the operation are the right ones: from the printed times they give the printed effect."""
    claims = [claim for claim in TIMED if claim.study == study]
    assert [claim.id for claim in claims if not follows(claim)] == []
    assert len(claims) > 10


def test_a_claim_needs_as_many_processors_as_its_document_had_for_as_many_workers():
    fewer = [claim for claim in CLAIMS if claim.is_claim and claim.processors < (claim.published_processors or 1)]
    assert [claim.id for claim in fewer if claim.study != "spawn-apis"] == ["N26"]


def test_published_counts_are_those_of_the_printed_table():
    printed = {row[1:]: row[0] for row in load_published("zero-cost").select("value", "variant", "parameter").rows()}
    variants = {"manual": "manual", "nonbox": "async"}
    followed = set()
    for claim in CLAIMS:
        for case in claim.published if claim.quantity == "count" else ():
            keys = [[(variants.get(operand.variant), f"call={operand.counter}") for operand in place] for place in case]
            if all(key in printed for place in keys for key in place):
                counts = [sum(printed[key] for key in place) for place in keys]
                assert claim.published_value == counts[0] / (counts[1] if len(counts) > 1 else 1), claim.id
                followed.add(claim.id)
    assert followed == {"Z1", "Z2", "Z3", "Z4", "Z5", "Z6", "Z7"}


def test_whatever_a_claim_compares_is_declared_by_its_study():
    """The pair itself, or both of its keys in one group."""
    declared, groups = set(), {}
    for study, group, *pair in of_today().select("study", "group", *PAIR).rows():
        keys = tuple(pair[:3]), tuple(pair[3:])
        declared.add((study, *sorted(keys)))
        for key in keys:
            groups.setdefault((study, key), set()).add(group)
    checked = 0
    for claim in CLAIMS:
        for case in (*claim.cases(claim.faithful), *claim.clean, *claim.ours):
            keys = [place[0].key for place in case]
            if claim.quantity == "count":
                continue
            for pair in zip(keys[::2], keys[1::2], strict=False):
                study = case[0][0].study
                alike = set.intersection(*(groups[study, key] for key in pair))
                assert (study, *sorted(pair)) in declared or alike, f"{claim.id}: {pair}"
                checked += 1
    assert checked > 100


def test_what_was_published_of_ruby_is_judged_on_ruby():
    installed = {"ruby 2.4.1": "ruby", "mruby 1.3.0": "mruby"}

    def variants(cases: tuple[Case, ...]) -> list[str]:
        return [operand.variant for case in cases for place in case for operand in place]

    for claim in CLAIMS:
        if claim.study == "call-styles":
            assert variants(claim.counterpart) == [installed[name] for name in variants(claim.published)], claim.id


def test_clean_comparisons_on_the_ladder_differ_in_one_switch():
    for claim in CLAIMS:
        for (first, *_), (second, *_), *_ in claim.clean:
            if first.study == "ladder":
                assert len(ladder_source.turned(first.variant, second.variant)) == 1, (
                    f"{claim.id}: {first} and {second}"
                )


# -- a damaged file is refused -------------------------------------------------------------------------------


@pytest.fixture
def copy(tmp_path) -> Path:
    """A repository root whose claims may be edited."""
    (tmp_path / "data").mkdir()
    for name in ("claims.csv", "claims-operands.csv"):
        shutil.copy(repository_root() / "data" / name, tmp_path / "data" / name)
    return tmp_path


@pytest.mark.parametrize(
    ("where", "cells", "column"),
    [
        ("Z12", {"relation": "roughly"}, "relation"),
        ("Z12", {"least": "a quarter"}, "least"),
        ("Z12", {"most": ""}, None),
        ("Z1", {"most": "258"}, None),
        ("Z13", {"most": "2"}, None),
        ("Z12", {"processors": ""}, None),
        ("R17", {"operation": "ratio"}, None),
        ("Z12", {"statement": "two\u2028lines"}, "statement"),
    ],
)
def test_a_claim_that_cannot_be_weighed_is_refused_with_its_line(copy, where, cells, column):
    path = copy / "data" / "claims.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    number = next(number for number, row in enumerate(rows) if row["id"] == where)
    rows[number] |= cells
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with pytest.raises(DataError) as error:
        load_claims(copy)
    assert (error.value.path.name, error.value.row, error.value.column) == (path.name, number + 2, column)
    assert error.value.remedy
