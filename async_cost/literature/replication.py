"""Which published claims hold in a run: for each of them an effect, its interval, and a verdict.

A claim names a region of effects in which it is true (`region`), the run gives an interval, and `verdict` compares the
two. The comparison that the document made and, where it is confounded, the clean one are weighed alike and kept apart.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import polars as pl

from async_cost import words
from async_cost.literature.claims import Case, Claim, Comparison, load_claims
from async_cost.literature.published import FOREIGN, NANOSECONDS
from async_cost.runs.comparisons import BASE_KEY, KEY
from async_cost.runs.run import Run
from async_cost.statistics.closing import NEAR, Closing, closing
from async_cost.statistics.interval import enough, estimates, relative_standard_error, widened
from async_cost.statistics.judge import EQUIVALENCE
from async_cost.statistics.measured import Measured, both_ways

#: bench, variant, parameter.
Key = tuple[str, str, str]


class Verdict(StrEnum):
    """What a run says about a claim."""

    REPLICATED = "replicated"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    #: The machine has fewer processors than the statement is about.
    NOT_MEASURABLE = "not measurable here"
    NOT_MEASURED = "not measured"


#: The verdicts in the order in which a page shows them: decided ones first, surprises before all.
VERDICTS = (
    Verdict.CONTRADICTED,
    Verdict.REPLICATED,
    Verdict.UNDECIDED,
    Verdict.NOT_MEASURABLE,
    Verdict.NOT_MEASURED,
)


def region(claim: Claim) -> tuple[float, float]:
    """The smallest and the largest effect for which `claim` is true, as stated in data/claims.csv."""
    least = (0.0 if claim.in_ratios else -math.inf) if claim.least is None else claim.least
    return least, math.inf if claim.most is None else claim.most


def counts_for_nothing(claim: Claim, base: float = 0.0, nothing: float = EQUIVALENCE) -> tuple[float, float]:
    """The effects that do not count: ratios that differ from 1 by less than the share `nothing`, and differences of
    less than that share of `base`, the time of what is subtracted, in the unit of the claim.
    """
    return (1 - nothing, 1 + nothing) if claim.in_ratios else (-nothing * abs(base), nothing * abs(base))


def verdict(claim: Claim, low: float, high: float, base: float = 0.0, nothing: float = EQUIVALENCE) -> Verdict:
    """The verdict on `claim` if its effect has the interval [low, high]; `base` and `nothing` as for
    `counts_for_nothing`.

    Replicated when the whole interval lies in the region in which the claim is true, contradicted when all of it lies
    outside, on one side, and undecided when it crosses a border. A claim that something is more or less than something
    else is also contradicted if the interval shows that the difference does not count. An exact count is an interval of
    one point and is never undecided.
    """
    lowest, highest = region(claim)
    if lowest <= low and high <= highest:
        return Verdict.REPLICATED
    if high < lowest or low > highest:
        return Verdict.CONTRADICTED
    none = counts_for_nothing(claim, base, nothing)
    if claim.is_direction and none[0] <= low and high <= none[1]:
        return Verdict.CONTRADICTED
    return Verdict.UNDECIDED


def together(verdicts: Iterable[Verdict]) -> Verdict:
    """The verdict on a claim about several cases, which asserts all of them: one contradicted case is enough."""
    found = set(verdicts)
    if not found - {Verdict.NOT_MEASURED, Verdict.NOT_MEASURABLE}:
        return Verdict.NOT_MEASURABLE if Verdict.NOT_MEASURABLE in found else Verdict.NOT_MEASURED
    if Verdict.CONTRADICTED in found:
        return Verdict.CONTRADICTED
    return Verdict.REPLICATED if found == {Verdict.REPLICATED} else Verdict.UNDECIDED


@dataclass(frozen=True)
class Weighed:
    """One comparison of a claim in one run.

    `effect`, `low` and `high` are in the unit of the claim, null if nothing was measured; of several cases they belong
    to the deciding one, `case`. `holds` is the region in which the claim is true, `none` the effects that count for
    nothing. `reason`, Markdown with words of the data escaped, says why there is no effect or no conclusion. `closing`
    says what would decide it if the interval crosses a border.
    """

    verdict: Verdict
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    case: Case | None = None
    holds: tuple[float, float] | None = None
    none: tuple[float, float] | None = None
    closing: Closing | None = None

    @property
    def counts_for_nothing(self) -> bool:
        """Whether the whole interval is an effect that does not count."""
        return self.effect is not None and self.none[0] <= self.low and self.high <= self.none[1]


@dataclass(frozen=True)
class Outcome:
    """What a run says about one claim: by what the document compared, or by its counterpart here, and by the clean
    comparison, None where there is none.
    """

    claim: Claim
    published: Weighed
    clean: Weighed | None

    @property
    def clean_disagrees(self) -> bool:
        """Whether both comparisons were measured and have different verdicts."""
        words_of_both = {self.published.verdict, self.clean.verdict} if self.clean else set()
        return len(words_of_both) == 2 and not words_of_both & {Verdict.NOT_MEASURED, Verdict.NOT_MEASURABLE}


def outcomes(run: Run, claims: Sequence[Claim] | None = None) -> list[Outcome]:
    """What `run` says about each of `claims` (all of them by default), in their order."""
    claims = load_claims() if claims is None else claims
    studies: dict[str, _Study] = {}

    def weighed(claim: Claim, comparison: Comparison) -> Weighed:
        found = []
        for case in claim.cases(comparison):
            name = case[0][0].study
            if name not in studies:
                studies[name] = _Study(run, name)
            found.append(_weigh(claim, case, studies[name]))
        return _deciding(found)

    return [
        Outcome(claim, weighed(claim, claim.faithful), weighed(claim, Comparison.CLEAN) if claim.clean else None)
        for claim in claims
    ]


def score(run: Run, claims: Sequence[Claim] | None = None) -> dict[Verdict, int]:
    """How many claims `run` replicates, contradicts, leaves undecided and did not measure, by the published
    comparison.
    """
    return tally(outcomes(run, claims))


def tally(found: Iterable[Outcome]) -> dict[Verdict, int]:
    """How often each verdict was given, including those that never were."""
    counts = dict.fromkeys(VERDICTS, 0)
    for outcome in found:
        counts[outcome.published.verdict] += 1
    return counts


#: Relations of claims that name a direction.
SIDED = ("greater", "less", "at most", "about")


def published_ratios(found: Iterable[Outcome]) -> pl.DataFrame:
    """Claims on a ratio of times or rates that were measured and have a published figure: label (the claim), ratio,
    low, high, published, word (the verdict) and sided (whether the claim names a direction).
    """
    schema = (
        {"label": pl.String}
        | dict.fromkeys(("ratio", "low", "high", "published"), pl.Float64)
        | {"word": pl.String, "sided": pl.Boolean}
    )
    rows = [
        (claim.id, one.effect, one.low, one.high, claim.published_value, one.verdict.value, claim.relation in SIDED)
        for claim, one in ((outcome.claim, outcome.published) for outcome in found)
        if claim.in_ratios and claim.quantity != "count" and one.effect is not None
    ]
    return pl.DataFrame(rows, schema=schema, orient="row").drop_nulls("published")


def told_tally(counts: Mapping[Verdict, int]) -> str:
    """How often each verdict was given: `3 contradicted, 9 replicated and 1 undecided`."""
    return words.listing(f"{counts[word]} {word}" for word in VERDICTS if counts[word])


def told(found: Sequence[Outcome]) -> str:
    """How many of one document's claims hold, and where the clean comparison has another verdict."""
    other = [words.code(one.claim.id) for one in found if one.clean_disagrees]
    more = f"; the clean comparison has another verdict on {words.listing(other)}" if other else ""
    return f"of the document's {len(found)} claims: {told_tally(tally(found))}{more}"


def told_score(counts: Mapping[Verdict, int]) -> str:
    """The score as a sentence in Markdown: `This run decides 106 of 141 published claims: …`."""
    decided = counts[Verdict.REPLICATED] + counts[Verdict.CONTRADICTED]
    return (
        f"This run decides {decided} of {sum(counts.values())} published claims: **{counts[Verdict.REPLICATED]} replicated**, "
        f"**{counts[Verdict.CONTRADICTED]} contradicted**; {counts[Verdict.UNDECIDED]} {'stays' if counts[Verdict.UNDECIDED] == 1 else 'stay'} open, "
        + "".join(
            f"{counts[word]} {'is' if counts[word] == 1 else 'are'} {word}{end}"
            for word, end in ((Verdict.NOT_MEASURABLE, "; "), (Verdict.NOT_MEASURED, "."))
            if counts[word] or word is Verdict.NOT_MEASURED
        )
    )


def departure(claim: Claim, weighed: Weighed) -> str | None:
    """How a contradicted effect differs from the claim: its reverse, none that counts, smaller, larger, or another
    number.

    None where the claim is not contradicted.
    """
    if weighed.verdict is not Verdict.CONTRADICTED:
        return None
    if claim.quantity == "count" or claim.relation == "between" or claim.unit == "fraction":
        return "another number"
    if claim.relation == "same":
        return "a difference that counts"
    nothing = (
        weighed.none[0] <= weighed.effect <= weighed.none[1] if claim.in_ratios else weighed.low <= 0 <= weighed.high
    )
    if nothing:
        return "no effect that counts"
    found, stated = weighed.effect, claim.published_value
    if claim.in_ratios:
        found, stated = math.log(found), math.log(stated or 1.0)
    if not stated or (found > 0) != (stated > 0):
        return "the reverse"
    return "a smaller effect" if abs(found) < abs(stated) else "a larger effect"


# -- effects -------------------------------------------------------------------------------------------------


class _Study:
    """One study of a run, or its absence."""

    def __init__(self, run: Run, name: str) -> None:
        self.name, self.held = name, name in run.info.studies
        self.measured = Measured.of(run, name)

    @cached_property
    def comparisons(self) -> dict[tuple[Key, Key], dict]:
        """The rows of the table of comparisons by key and baseline, as declared and reversed."""
        rows = both_ways(self.measured.comparisons).iter_rows(named=True)
        return {(tuple(row[name] for name in KEY), tuple(row[name] for name in BASE_KEY)): row for row in rows}

    @cached_property
    def times(self) -> dict[Key, pl.DataFrame]:
        """round, episode and ns of each key."""
        times = self.measured.compared.select(*KEY, "round", "episode", "ns").sort("round")
        return times.partition_by(*KEY, as_dict=True, include_key=False)

    @cached_property
    def counts(self) -> dict[tuple[str, ...], int]:
        """Exact counts by bench, variant, parameter, counter."""
        columns = self.measured.run.counts(self.name).select(*KEY, "counter", "value")
        return {row[:-1]: row[-1] for row in columns.iter_rows()}

    @cached_property
    def units(self) -> dict[Key, int]:
        """Units of work of one iteration, by key."""
        return {row[:-1]: row[-1] for row in self.measured.run.units(self.name).iter_rows()}

    def behind(self, case: Case) -> list[dict]:
        """The comparisons behind a case: of its first place with the second, of its third with the fourth; else those
        of its keys.
        """
        keys = [place[0].key for place in case]
        pairs = [
            self.comparisons[pair] for pair in zip(keys[::2], keys[1::2], strict=False) if pair in self.comparisons
        ]
        return pairs or [row for (key, _), row in self.comparisons.items() if key in keys]


@dataclass(frozen=True)
class _Effect:
    """The measured effect of one case, with its interval. `missing` says why there is none, `doubt` why nothing is
    concluded from it.

    `base` is the time of what is subtracted, in the unit of the claim; `nothing` the share below which a difference
    counts as none; `fixed` the half width that the controls add to the interval: of a ratio on the scale of logarithms,
    else in the unit of the claim.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    base: float = 0.0
    nothing: float = EQUIVALENCE
    fixed: float = 0.0
    doubt: str | None = None
    missing: str | None = None


def _effect(claim: Claim, case: Case, study: _Study) -> _Effect:
    if not study.held:
        return _Effect(missing=f"this run does not hold {words.code(study.name)}")
    if any(one.variant in FOREIGN.get(study.name, ()) for place in case for one in place):
        return _Effect(missing="there is no counterpart here to a program in another language")
    if gaps := list(_gaps(claim, case, study)):
        return _Effect(missing=f"{words.listing(gaps)} {'was' if len(gaps) == 1 else 'were'} not measured")
    if claim.quantity == "count":
        return _count(claim, case, study)
    single = all(len(place) == 1 and not place[0].plus_ns for place in case)
    if single and (claim.operation == "ratio" or (claim.operation == "difference" and _same_units(case, study))):
        return _declared(claim, case, study)
    return _derived(claim, case, study)


def _same_units(case: Case, study: _Study) -> bool:
    """Whether one iteration does the same number of units of work on all sides, so that differences for an iteration
    and for a unit are proportional.
    """
    return len({study.units.get(place[0].key) for place in case}) == 1


def _count(claim: Claim, case: Case, study: _Study) -> _Effect:
    """An exact number, which no control of times can put in doubt."""
    counts = [sum(study.counts[*operand.key, operand.counter] for operand in place) for place in case]
    if claim.operation == "ratio" and not counts[1]:
        return _Effect(missing="it divides by a count of zero")
    value = counts[0] / counts[1] if claim.operation == "ratio" else float(counts[0])
    return _Effect(value, value, value)


def _declared(claim: Claim, case: Case, study: _Study) -> _Effect:
    """A row of the table of comparisons, in the unit of the claim. Times there are for a unit of work, here for an
    iteration.
    """
    one, other = (place[0].key for place in case)
    row = study.comparisons.get((other, one) if claim.quantity == "rate" else (one, other))
    if row is None:
        return _Effect(missing="this run has both sides of it and does not compare them")
    units = {key: study.units.get(key, 1) if one in study.units and other in study.units else 1 for key in (one, other)}
    fixed = row["quantile"] * (row["bias"] or 0.0)
    about = {"nothing": row["limit"], "doubt": row["doubt"], "fixed": fixed}
    if claim.operation == "ratio":
        scale = units[one] / units[other] if claim.quantity == "time" else units[other] / units[one]
        return _Effect(*(row[name] * scale for name in ("ratio", "low", "high")), **about)
    unit = _unit(claim, case, study)
    base, about["fixed"] = (
        study.times[key]["ns"].median() * share / unit for key, share in ((other, 1.0), (one, fixed))
    )
    scale = units[one] / unit
    added = (row[name] * scale for name in ("added_ns", "added_low", "added_high"))
    return _Effect(*added, base=base, **about)


def _derived(claim: Claim, case: Case, study: _Study) -> _Effect:
    """An effect that combines several comparisons, round by round, or times with something added on paper."""
    places = [f"place{number}" for number in range(len(case))]
    rounds = _aligned(case, study)
    if rounds.height < 2:
        return _Effect(missing="fewer than two rounds, or undisturbed processes, have all of its sides")
    if claim.quantity == "rate":
        rounds = rounds.with_columns(1 / pl.col(places))
    rows = study.behind(case)
    about = {
        "nothing": max((row["limit"] for row in rows), default=EQUIVALENCE),
        "doubt": next((row["doubt"] for row in rows if row["doubt"]), None),
    }
    if not enough(rounds.height, rounds["episode"].n_unique()):
        about["doubt"] = about["doubt"] or "too few rounds"
    if claim.operation == "relative standard error":
        return _Effect(*relative_standard_error(rounds["place0"].to_numpy()), **about)
    sides = [pl.col(name) for name in places]
    unit = _unit(claim, case, study)
    # Ratios are estimated as logarithms, as those of the table are.
    value = {
        "ratio": lambda: (sides[0] / sides[1]).log(),
        "ratio of ratios": lambda: ((sides[0] / sides[1]) / (sides[2] / sides[3])).log(),
        "difference": lambda: (sides[0] - sides[1]) / unit,
        "difference of differences": lambda: ((sides[0] - sides[1]) - (sides[2] - sides[3])) / unit,
    }[claim.operation]()
    looks = max((row["looks"] for row in rows), default=1)
    rounds = rounds.with_columns(effect=value, of=pl.lit(""), looks=looks)
    found = estimates(rounds, "effect", by=("of",)).row(0, named=True)
    # Each of the comparisons behind the effect has the bias of its kind: of a ratio as it is, of a difference times
    # what is subtracted from.
    bias = max((row["bias"] or 0.0 for row in rows), default=0.0)
    shares = [1.0 if claim.in_ratios else rounds[name].median() / unit for name in places[::2]]
    about["fixed"] = found["quantile"] * bias * math.hypot(*shares)
    low, high = widened(found["effect"], found["low"], found["high"], about["fixed"])
    if claim.in_ratios:
        return _Effect(*(math.exp(one) for one in (found["effect"], low, high)), **about)
    return _Effect(found["effect"], low, high, rounds[places[-1]].median() / unit, **about)


def _unit(claim: Claim, case: Case, study: _Study) -> float:
    """Nanoseconds of one iteration in one unit of the claim."""
    return NANOSECONDS.get(claim.unit, 1.0) * (study.counts[*case[0][0].key, claim.per] if claim.per else 1)


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


def _aligned(case: Case, study: _Study) -> pl.DataFrame:
    """round, episode, place0, place1, ...: nanoseconds of each place, round by round; only rounds that all operands
    have.
    """
    joined = None
    for number, place in enumerate(case):
        parts = [study.times[operand.key].with_columns(pl.col("ns") + operand.plus_ns) for operand in place]
        both = pl.concat(parts).group_by("round", "episode")
        mine = both.agg(pl.col("ns").sum().alias(f"place{number}"), parts=pl.len())
        mine = mine.filter(pl.col("parts") == len(place)).drop("parts")
        joined = mine if joined is None else joined.join(mine, on=["round", "episode"])
    return joined.sort("round")


# -- verdicts ------------------------------------------------------------------------------------------------


def _weigh(claim: Claim, case: Case, study: _Study) -> Weighed:
    """The judgement on one case of a comparison. A group of comparisons that is no evidence decides nothing."""
    effect = _effect(claim, case, study)
    if effect.missing:
        return Weighed(Verdict.NOT_MEASURED, reason=effect.missing, case=case)
    word, reason, closes = verdict(claim, effect.low, effect.high, effect.base, effect.nothing), None, None
    holds, none = region(claim), counts_for_nothing(claim, effect.base, effect.nothing)
    cores = study.measured.run.info.machine.logical_cores
    if cores is not None and cores < claim.processors:
        word = Verdict.NOT_MEASURABLE
        reason = (
            f"it is about {words.counted(claim.processors, 'processor')}, and this machine has {words.numeral(cores)}"
        )
    elif effect.doubt:
        word, reason = Verdict.UNDECIDED, f"no evidence in this run: {words.escape(effect.doubt)}"
    elif word is Verdict.UNDECIDED:
        closes = _closing(claim, effect, holds, study.measured.run.seconds(study.name))
    return Weighed(word, effect.value, effect.low, effect.high, reason, case, holds, none, closes)


def _closing(claim: Claim, effect: _Effect, holds: tuple[float, float], seconds: float | None) -> Closing:
    """What would decide on which side of a border of `holds` the effect lies; for a direction also whether the effect
    counts at all, if that is decided sooner.
    """
    near = NEAR * effect.nothing
    if claim.is_direction:
        none = counts_for_nothing(claim, effect.base, effect.nothing)
        bound = 1.0 if claim.in_ratios else 0.0
        if min(effect.value - none[0], none[1] - effect.value) > abs(effect.value - bound):
            holds = none
    if claim.in_ratios:
        value, low, high = (math.log(number) for number in (effect.value, effect.low, effect.high))
        borders = [math.log(end) for end in holds if 0 < end < math.inf]
        return closing(value, low, high, borders, math.log1p(near), effect.nothing, effect.fixed, seconds)
    scale = abs(effect.base) if claim.unit in NANOSECONDS else abs(effect.value)
    return closing(effect.value, effect.low, effect.high, holds, near * scale, effect.nothing, effect.fixed, seconds)


def _deciding(cases: Sequence[Weighed]) -> Weighed:
    """The verdict on all cases together, with the numbers of the one that supports the claim least."""
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
    # A claim with several open cases stays open as long as the one that takes longest.
    open_ones = [weighed.closing for weighed in cases if weighed.closing] if word is Verdict.UNDECIDED else []
    return replace(shown, verdict=word, reason=reason, closing=max(open_ones, key=lambda one: one.times, default=None))
