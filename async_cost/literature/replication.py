"""Which published claims hold in a run: for each of them an effect, its interval, and one of four words.

A claim names a region of effects in which it is true (`region`), the run gives an interval, and `verdict` compares the two. The
comparison that the document made and, where it is confounded, the clean one are weighed alike and kept apart.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np
import polars as pl

from async_cost import words
from async_cost.literature.claims import Case, Claim, Comparison, Operand, load_claims
from async_cost.literature.published import FOREIGN
from async_cost.runs.comparisons import BASE_KEY, KEY
from async_cost.runs.run import Run
from async_cost.statistics import estimate
from async_cost.statistics.trust import Trust, trust
from async_cost.statistics.verdict import EQUIVALENCE

#: How far an effect may be from a stated size and still be "about" that: a share of the stated effect.
ABOUT = 0.25
#: Nanoseconds in the unit of a claim.
UNITS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


class Verdict(StrEnum):
    """What a run says about a claim."""

    REPLICATED = "replicated"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    NOT_MEASURED = "not measured"


#: The words in the order in which a page shows them: surprises first.
VERDICTS = (Verdict.CONTRADICTED, Verdict.UNDECIDED, Verdict.REPLICATED, Verdict.NOT_MEASURED)


def region(claim: Claim, base: float = 0.0, nothing: float = EQUIVALENCE) -> tuple[float, float]:
    """The effects in which `claim` is true, from the least to the greatest.

    `nothing` is the share below which a difference counts as none: 1 %, unless the study declares another one for the group of
    comparisons. A ratio is greater than 1 when it is so by more than that; a difference is greater than 0 when it exceeds that share
    of `base`, the time of what is subtracted, in the unit of the claim. With 1 %:

    - greater, less: beyond the bound by more than 1 %; at most: no more than 1 % above it;
    - about: within a quarter of the stated effect, and never narrower than ±1 %. The effect of a ratio is its distance from 1 on a
      logarithmic scale: about 2 reaches from 1.68 to 2.38, about 0.99 from 0.98 to 1;
    - same: as near to 1 as the document's own figure, which it calls no difference, and never narrower than ±1 %;
    - between, and any bound of a relative standard error: as they are stated; equal: exactly that number.
    """
    least, most = claim.least, claim.most
    if claim.relation in ("between", "equal"):
        return least, most
    least, most = -math.inf if least is None else least, math.inf if most is None else most
    if claim.operation == "relative standard error":
        return least, most
    if claim.in_ratios:
        return _ratio_region(claim, least, most, nothing)
    return _difference_region(claim, least, most, nothing * abs(base))


def _ratio_region(claim: Claim, least: float, most: float, nothing: float) -> tuple[float, float]:
    more, less = 1 + nothing, 1 - nothing
    match claim.relation:
        case "greater":
            return least * more, math.inf
        case "less":
            return 0.0, most * less
        case "at most":
            return 0.0, most * more
        case "same":
            reach = max(more, math.exp(abs(math.log(claim.published_value or 1.0))))
            return least / reach, least * reach
        case _:
            ends = least ** (1 - ABOUT), least ** (1 + ABOUT)
            return min(*ends, least * less), max(*ends, least * more)


def _difference_region(claim: Claim, least: float, most: float, nothing: float) -> tuple[float, float]:
    match claim.relation:
        case "greater":
            return least + nothing, math.inf
        case "less":
            return -math.inf, most - nothing
        case "at most":
            return -math.inf, most + nothing
        case "same":
            return least - nothing, least + nothing
        case _:
            reach = max(ABOUT * abs(least), nothing)
            return least - reach, least + reach


def verdict(claim: Claim, low: float, high: float, base: float = 0.0, nothing: float = EQUIVALENCE) -> Verdict:
    """The word for `claim` when its effect has the interval [low, high]; `base` and `nothing` as for `region`.

    Replicated when the whole interval lies in the region in which the claim is true, contradicted when all of it lies outside, on
    one side, and undecided when it reaches across a border. An exact count is an interval of one point and is never undecided.
    """
    lowest, highest = region(claim, base, nothing)
    if lowest <= low and high <= highest:
        return Verdict.REPLICATED
    if high < lowest or low > highest:
        return Verdict.CONTRADICTED
    return Verdict.UNDECIDED


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The word for a claim on several cases, which asserts all of them: one that is contradicted is enough."""
    found = set(verdicts)
    if not found - {Verdict.NOT_MEASURED}:
        return Verdict.NOT_MEASURED
    if Verdict.CONTRADICTED in found:
        return Verdict.CONTRADICTED
    return Verdict.REPLICATED if found == {Verdict.REPLICATED} else Verdict.UNDECIDED


@dataclass(frozen=True)
class Weighed:
    """One comparison of a claim in one run.

    `effect`, `low` and `high` are in the unit of the claim, null where nothing was measured; of several cases they are those of the one that
    decides, `case`. `holds` is the region in which the claim is true, `nothing` the share below which a difference counts as none.
    `reason`, Markdown with words of the data escaped, says why there is no effect or no conclusion.
    """

    verdict: Verdict
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    case: Case | None = None
    holds: tuple[float, float] | None = None
    nothing: float = EQUIVALENCE


@dataclass(frozen=True)
class Outcome:
    """What a run says about one claim: by what the document compared, or by its counterpart here, and by the clean comparison, None where
    there is none."""

    claim: Claim
    published: Weighed
    clean: Weighed | None

    @property
    def own_figure_fails(self) -> bool:
        """Whether the document's own figure lies outside the region of its claim."""
        value = self.claim.published_value
        if value is None:
            return False
        lowest, highest = region(self.claim)
        # A claim of "same" reaches to exactly this figure, up to rounding.
        return not (lowest <= value <= highest or math.isclose(value, lowest) or math.isclose(value, highest))

    @property
    def clean_disagrees(self) -> bool:
        """Whether both comparisons were measured and say different words."""
        if self.clean is None or Verdict.NOT_MEASURED in (self.published.verdict, self.clean.verdict):
            return False
        return self.clean.verdict != self.published.verdict


def outcomes(run: Run, claims: Sequence[Claim] | None = None) -> list[Outcome]:
    """What `run` says about each of `claims` (all of them by default), in their order. None is left out."""
    claims = load_claims() if claims is None else claims
    wanted = [(claim, comparison) for claim in claims for comparison in (claim.faithful, Comparison.CLEAN)]
    studies: dict[str, _Study] = {}
    for claim, comparison in wanted:
        for case in claim.cases(comparison):
            studies.setdefault(_study_of(case), _Study(run, _study_of(case)))
    found = [
        (claim, comparison, number, _effect(claim, case, studies[_study_of(case)]))
        for claim, comparison in wanted
        for number, case in enumerate(claim.cases(comparison))
    ]
    intervals = _intervals([effect for *_, effect in found])
    by_comparison: dict[tuple[str, Comparison], list[Weighed]] = {}
    for (claim, comparison, number, effect), interval in zip(found, intervals, strict=True):
        case = claim.cases(comparison)[number]
        weighed = _weigh(claim, case, effect, interval, studies[_study_of(case)])
        by_comparison.setdefault((claim.id, comparison), []).append(weighed)
    return [
        Outcome(
            claim,
            _deciding(claim, by_comparison.get((claim.id, claim.faithful), [])),
            _deciding(claim, by_comparison[claim.id, Comparison.CLEAN]) if claim.clean else None,
        )
        for claim in claims
    ]


def score(run: Run, claims: Sequence[Claim] | None = None) -> dict[Verdict, int]:
    """How many claims `run` replicates, contradicts, leaves undecided and did not measure, by the published comparison."""
    return tally(outcomes(run, claims))


def tally(found: Iterable[Outcome]) -> dict[Verdict, int]:
    """How often each verdict was given, none left out."""
    counts = dict.fromkeys(VERDICTS, 0)
    for outcome in found:
        counts[outcome.published.verdict] += 1
    return counts


def told_score(counts: Mapping[Verdict, int]) -> str:
    """The score as a sentence in Markdown: `Of 141 published claims this run replicates 13, …`."""
    measured = sum(counts.values()) - counts[Verdict.NOT_MEASURED]
    return (
        f"Of {sum(counts.values())} published claims this run measures {measured}: **{counts[Verdict.REPLICATED]} replicated**, "
        f"**{counts[Verdict.CONTRADICTED]} contradicted**, **{counts[Verdict.UNDECIDED]} undecided**. "
        f"The other {counts[Verdict.NOT_MEASURED]} are not measured."
    )


def departure(claim: Claim, weighed: Weighed) -> str | None:
    """How a contradicted effect departs from the claim: the reverse of it, none that counts, smaller, larger, or another number.

    None where the claim is not contradicted.
    """
    if weighed.verdict is not Verdict.CONTRADICTED:
        return None
    if claim.quantity == "count" or claim.relation == "between" or claim.unit == "fraction":
        return "another number"
    if claim.relation == "same":
        return "a difference that counts"
    if not claim.in_ratios:
        found, stated = weighed.effect, claim.least if claim.relation == "about" else claim.published_value
        nothing = weighed.low <= 0 <= weighed.high
    else:
        found = math.log(weighed.effect)
        stated = math.log(claim.least if claim.relation == "about" else claim.published_value or 1.0)
        nothing = abs(found) <= math.log1p(weighed.nothing)
    if nothing:
        return "no effect that counts"
    if not stated or (found > 0) != (stated > 0):
        return "the reverse"
    return "a smaller effect" if abs(found) < abs(stated) else "a larger effect"


# -- effects -------------------------------------------------------------------------------------------------


class _Study:
    """One study of a run, or its absence."""

    def __init__(self, run: Run, name: str) -> None:
        self.name, self._run = name, run
        self.held = name in run.info.studies
        self._trusts: dict[str, Trust] = {}

    def judged(self, case: Case) -> tuple[bool, float]:
        """Whether the groups of comparisons that `case` is among are evidence, and the widest of their limits."""
        pairs = self._run.pairs(self.name)
        keys = {operand.key for place in case for operand in place}

        def groups(names: Sequence[str]) -> dict[str, float]:
            """Group and limit of the comparisons in which the key with these column names is one of ours."""
            rows = pairs.iter_rows(named=True)
            return {row["group"]: row["limit"] for row in rows if tuple(row[name] for name in names) in keys}

        # Much is compared with a baseline, so its groups count only where no other operand says which of them it is.
        found = groups(KEY) or groups(BASE_KEY) or self._run.study(self.name).groups
        return all(self._trust(group).trusted for group in found), max(found.values())

    def _trust(self, group: str) -> Trust:
        if group not in self._trusts:
            self._trusts[group] = trust(self._run, self.name, group=group)
        return self._trusts[group]

    @cached_property
    def times(self) -> dict[tuple[str, ...], pl.DataFrame]:
        """round and ns of each key."""
        trials = estimate.trial_times(self._run.whole_time(self.name))
        return {
            key: rows.select("round", "ns").sort("round")
            for key, rows in trials.partition_by("bench", "variant", "parameter", as_dict=True).items()
        }

    @cached_property
    def counts(self) -> dict[tuple[str, ...], int]:
        """Exact counts by bench, variant, parameter, counter."""
        columns = self._run.counts(self.name).select("bench", "variant", "parameter", "counter", "value")
        return {row[:-1]: row[-1] for row in columns.iter_rows()}


@dataclass(frozen=True)
class _Effect:
    """What was measured of one case: an exact number, or a value for each round. `missing` says why there is neither."""

    exact: float | None = None
    rounds: np.ndarray | None = None
    base: float = 0.0
    missing: str | None = None
    #: The relative standard error is a statement on all rounds together, the others are a median over rounds.
    of_all: bool = False


def _effect(claim: Claim, case: Case, study: _Study) -> _Effect:
    if not study.held:
        return _Effect(missing=f"this run does not hold {words.code(study.name)}")
    if foreign := [one.variant for place in case for one in place if one.variant in FOREIGN.get(study.name, ())]:
        named = words.listing(map(words.code, dict.fromkeys(foreign)))
        return _Effect(missing=f"there is no counterpart here: it compares {named} with one another")
    if gaps := list(_gaps(claim, case, study)):
        return _Effect(missing=f"{words.listing(gaps)} {'was' if len(gaps) == 1 else 'were'} not measured")
    if claim.quantity == "count":
        counts = [sum(study.counts[*operand.key, operand.counter] for operand in place) for place in case]
        if claim.operation == "value":
            return _Effect(exact=float(counts[0]))
        return _Effect(exact=counts[0] / counts[1]) if counts[1] else _Effect(missing="it divides by a count of zero")
    places = _aligned(case, study)
    if claim.quantity == "rate":
        places = [1 / ns for ns in places]
    unit = UNITS.get(claim.unit, 1.0) * (study.counts[*case[0][0].key, claim.per] if claim.per else 1)
    match claim.operation:
        case "relative standard error":
            return _Effect(rounds=places[0], of_all=True)
        case "ratio":
            return _Effect(rounds=places[0] / places[1])
        case "ratio of ratios":
            return _Effect(rounds=(places[0] / places[1]) / (places[2] / places[3]))
        case "difference":
            return _Effect(rounds=(places[0] - places[1]) / unit, base=float(np.median(places[1])) / unit)
        case _:
            differences = (places[0] - places[1]) - (places[2] - places[3])
            return _Effect(rounds=differences / unit, base=float(np.median(places[3])) / unit)


def _study_of(case: Case) -> str:
    return case[0][0].study


def _gaps(claim: Claim, case: Case, study: _Study) -> Iterator[str]:
    """The operands that the run lacks, in Markdown."""
    for operand in dict.fromkeys(operand for place in case for operand in place):
        name = f"{words.code(operand.variant)}" + (f" ({words.code(operand.parameter)})" if operand.parameter else "")
        if operand.counter:
            if (*operand.key, operand.counter) not in study.counts:
                yield f"{words.code(operand.counter)} of {name}"
        elif operand.key not in study.times:
            yield f"{words.code(operand.bench)} by {name}" if operand.bench != operand.variant else name
    if claim.per and (*case[0][0].key, claim.per) not in study.counts:
        yield f"{words.code(claim.per)} of {words.code(case[0][0].variant)}"


def _aligned(case: Case, study: _Study) -> list[np.ndarray]:
    """Nanoseconds of each place, round by round; only rounds that all operands have."""

    def place_ns(place: tuple[Operand, ...], name: str) -> pl.DataFrame:
        parts = [study.times[operand.key].with_columns(pl.col("ns") + operand.plus_ns) for operand in place]
        return pl.concat(parts).group_by("round").agg(pl.col("ns").sum().alias(name), pl.len().alias("parts"))

    joined = None
    for number, place in enumerate(case):
        mine = place_ns(place, f"place{number}").filter(pl.col("parts") == len(place)).drop("parts")
        joined = mine if joined is None else joined.join(mine, on="round")
    joined = joined.sort("round")
    return [joined[f"place{number}"].to_numpy() for number in range(len(case))]


def _intervals(effects: Sequence[_Effect]) -> list[tuple[float, float, float] | None]:
    """Effect, low and high of each; None where nothing was measured."""
    medians = [
        pl.DataFrame({"number": number, "round": np.arange(len(effect.rounds)), "effect": effect.rounds})
        for number, effect in enumerate(effects)
        if effect.rounds is not None and not effect.of_all
    ]
    found: dict[int, tuple[float, float, float]] = {}
    if medians:
        estimated = estimate.estimates(pl.concat(medians), "effect", by=("number",))
        found = {row[0]: row[1:] for row in estimated.select("number", "effect", "low", "high").iter_rows()}
    for number, effect in enumerate(effects):
        if effect.exact is not None:
            found[number] = (effect.exact,) * 3
        elif effect.of_all:
            found[number] = estimate.relative_standard_error(effect.rounds)
    return [found.get(number) for number in range(len(effects))]


# -- verdicts ------------------------------------------------------------------------------------------------


def _weigh(
    claim: Claim, case: Case, effect: _Effect, interval: tuple[float, float, float] | None, study: _Study
) -> Weighed:
    """One case of a comparison. A group of comparisons that is no evidence decides nothing, counts included."""
    if interval is None:
        return Weighed(Verdict.NOT_MEASURED, reason=effect.missing, case=case)
    value, low, high = interval
    trusted, nothing = study.judged(case)
    holds = region(claim, effect.base, nothing)
    if not trusted:
        reason = f"{words.code(study.name)} is no evidence in this run"
        return Weighed(Verdict.UNDECIDED, value, low, high, reason, case, holds, nothing)
    return Weighed(verdict(claim, low, high, effect.base, nothing), value, low, high, None, case, holds, nothing)


def _deciding(claim: Claim, cases: Sequence[Weighed]) -> Weighed:
    """The verdict of all cases together, with the numbers of the one that is least on the claim's side."""
    if not cases:
        return Weighed(Verdict.NOT_MEASURED, reason="no count and no time of these studies tells it")

    def on_its_side(weighed: Weighed) -> tuple[bool, bool, float]:
        if weighed.effect is None:
            return True, True, 0.0
        lowest, highest = weighed.holds
        room = min(weighed.low - lowest, highest - weighed.high)
        return False, weighed.verdict is not Verdict.CONTRADICTED, room

    word = together(weighed.verdict for weighed in cases)
    shown = min(cases, key=on_its_side)
    gaps = [weighed.reason for weighed in cases if weighed.verdict is Verdict.NOT_MEASURED]
    reason = shown.reason
    if word is Verdict.UNDECIDED and gaps and reason is None:
        reason = words.listing(dict.fromkeys(gaps))
    return replace(shown, verdict=word, reason=reason)
