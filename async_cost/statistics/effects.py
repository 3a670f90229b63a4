"""What a run measured of a quantity that a statement is about: its value and its interval.

A quantity is a count, a time, a rate or a metric of one to four places, combined by an operation. If the study declares
the comparison, the number is that of the table of comparisons; what combines several is computed round by round.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import sub, truediv

import polars as pl

from async_cost import words
from async_cost.runs.comparisons import BASE_KEY, KEY
from async_cost.runs.run import Run
from async_cost.statistics import interval
from async_cost.statistics.differences import PLACE, differences, speeds
from async_cost.statistics.interval import CONFIDENCE, quantile
from async_cost.statistics.judge import EQUIVALENCE
from async_cost.statistics.measured import Measured, both_ways
from async_cost.statistics.trials import ALONE, lowest, trial_values

#: How many places the operands of an operation take. Operands of the same place are added up.
PLACES = {"value": 1} | dict.fromkeys(("ratio", "difference"), 2)
PLACES |= dict.fromkeys(("ratio of ratios", "difference of differences"), 4)
#: Nanoseconds in a unit of time.
NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
#: In place of a counter that a difference is divided by: the unit of work of the comparison.
UNIT_OF_WORK = "unit"
#: bench, variant, parameter.
Key = tuple[str, str, str]


@dataclass(frozen=True)
class Operand:
    """A key, and the name of the count or metric if it is none of times. `plus_ns` is added to its time on paper."""

    study: str
    bench: str
    variant: str
    parameter: str
    counter: str = ""
    plus_ns: float = 0.0

    @property
    def key(self) -> Key:
        return self.bench, self.variant, self.parameter


#: One instance of a comparison: the operands of each place, in order.
Case = tuple[tuple[Operand, ...], ...]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """How a number is made of the operands of a case: `operation` (PLACES) over their `quantity` (count, time, rate or
    metric), in `unit`; differences are divided by the counter `per`.

    `break-even` is the work of its own that both sides must do besides so that the first takes the `share` of the
    second's time more, between the loads of a case: two places for each, the first without own work.
    """

    operation: str
    quantity: str
    unit: str
    per: str | None = None
    share: float | None = None

    @property
    def in_ratios(self) -> bool:
        """Whether the effect is a ratio, so that 1 is no effect and distances are factors."""
        return self.operation in ("ratio", "ratio of ratios")


@dataclass(frozen=True)
class Effect:
    """A measured number with its interval. `missing` says why there is none, `doubt` why nothing is concluded from it.

    `base` is the time of what is subtracted, in the unit of the measure; `nothing` the share below which a difference
    counts as none; `fixed` the half width that the controls add to the interval: of a ratio on the scale of logarithms,
    else in the unit of the measure. `freedom` are the interval's degrees of freedom, 0 of an exact number; `sittings`
    is over how many it was measured, `covers_hours` whether it holds for another hour. `undisturbed` are value, low and
    high on an undisturbed machine, where that is something else. `row` is the row of the table of comparisons that the
    effect is.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    base: float = 0.0
    nothing: float = EQUIVALENCE
    fixed: float = 0.0
    doubt: str | None = None
    missing: str | None = None
    freedom: float = 0.0
    sittings: int = 1
    covers_hours: bool = True
    undisturbed: tuple[float, float, float] | None = None
    row: dict | None = None

    def among(self, number: int, logarithmic: bool) -> "Effect":
        """This effect with an interval that holds together with those of `number` effects in all: Bonferroni."""
        if self.value is None or number == 1 or not self.freedom or self.low == self.high:
            return self
        wider = quantile(self.freedom, 1 - (1 - CONFIDENCE) / number) / quantile(self.freedom)

        def ends(value: float, *ends: float) -> tuple[float, ...]:
            if logarithmic:
                return (value, *(value * (end / value) ** wider for end in ends))
            return (value, *(value + (end - value) * wider for end in ends))

        _, low, high = ends(self.value, self.low, self.high)
        undisturbed = self.undisturbed and ends(*self.undisturbed)
        return replace(self, low=low, high=high, fixed=self.fixed * wider, undisturbed=undisturbed)


class Values:
    """What a run holds of one study, or its absence."""

    def __init__(self, run: Run, name: str) -> None:
        self.name = name
        self.measured = Measured(run, name)

    @cached_property
    def comparisons(self) -> dict[tuple[Key, Key], dict]:
        """The rows of the table of comparisons by key and baseline, as declared and reversed."""
        rows = both_ways(self.measured.comparisons).iter_rows(named=True)
        return {(tuple(row[name] for name in KEY), tuple(row[name] for name in BASE_KEY)): row for row in rows}

    @cached_property
    def times(self) -> dict[Key, pl.DataFrame]:
        """PLACE, speed and ns of each key."""
        return _by_key(self.measured.trials)

    @cached_property
    def lowest(self) -> dict[Key, pl.DataFrame]:
        """The same of an undisturbed machine: a row a process."""
        return _by_key(lowest(self.measured.trials))

    @cached_property
    def hours(self) -> dict[str, float]:
        """What hours do to the times of the study: omega2 of their logarithms, and d0; nothing if that is unknown."""
        sittings = interval.of_sittings(self.measured.trials.with_columns(pl.col("ns").log()), "ns", KEY)
        found = interval.hours(interval.spreads(sittings, KEY).with_columns(pool=0, keys=pl.len()))
        return next(found.select("omega2", "d0").iter_rows(named=True), {})

    @cached_property
    def unsure(self) -> float:
        """The half width of the interval of the speed."""
        return self.measured.declared["speed"].max() or 0.0

    @cached_property
    def metrics(self) -> dict[tuple[str, ...], pl.DataFrame]:
        """PLACE, speed (none) and ns (the metric, whatever its unit; for one iteration if it adds up over a sample) of
        each bench, variant, parameter, metric.
        """
        run = self.measured.run
        parts = [
            trial_values(run, self.name, metric).select(*KEY, *PLACE, metric=pl.lit(metric), speed=0.0, ns="value")
            for metric in run.metrics(self.name)["metric"].unique()
        ]
        return pl.concat(parts).partition_by(*KEY, "metric", as_dict=True, include_key=False) if parts else {}

    @cached_property
    def counts(self) -> dict[tuple[str, ...], int]:
        """Exact counts by bench, variant, parameter, counter."""
        columns = self.measured.run.counts(self.name).select(*KEY, "counter", "value")
        return {row[:-1]: row[-1] for row in columns.iter_rows()}

    @cached_property
    def units(self) -> dict[Key, int]:
        """Units of work of one iteration, by key."""
        return {row[:-1]: row[-1] for row in self.measured.run.units(self.name).iter_rows()}

    @cached_property
    def counted_units(self) -> dict[Key, int | None]:
        """Units of work that the counts of a key are of."""
        return {row[:-1]: row[-1] for row in self.measured.run.counted_units(self.name).iter_rows()}

    def groups(self, key: Key) -> set[str]:
        """The groups that a key is compared in."""
        return {row["group"] for (one, _), row in self.comparisons.items() if one == key}

    def behind(self, case: Case) -> list[dict]:
        """The comparisons behind a case: of its first place with the second and so on; else those of its keys."""
        keys = [place[0].key for place in case]
        pairs = filter(None, map(self.comparisons.get, zip(keys[::2], keys[1::2], strict=False)))
        return list(pairs) or [row for (key, _), row in self.comparisons.items() if key in keys]


def _by_key(trials: pl.DataFrame) -> dict[Key, pl.DataFrame]:
    times = trials.join(speeds(trials), on=PLACE).select(*KEY, *PLACE, "speed", "ns").sort("round")
    return times.partition_by(*KEY, as_dict=True, include_key=False)


def effect(measure: Measure, case: Case, of: Callable[[str], Values]) -> Effect:
    """The number of one case, or why there is none; `of` says what the run holds of a study. Raises ValueError for
    studies that are not compared by two ratios.
    """
    studies = dict.fromkeys(operand.study for place in case for operand in place)
    if len(studies) > 1:
        if measure.operation != "ratio of ratios":
            raise ValueError(
                f"no {measure.operation} is of two studies ({', '.join(studies)}), which share no rounds: take pairs "
                "of one study, or the ratio of their ratios (ac.ratio_of_ratios)"
            )
        ratio = replace(measure, operation="ratio")
        return _apart(effect(ratio, case[:2], of), effect(ratio, case[2:], of))
    values = of(case[0][0].study)
    if not values.measured:
        return Effect(missing=f"this run does not hold {words.code(values.name)}")
    if missing := _missing(measure, case, values):
        return Effect(missing=missing)
    if measure.quantity == "count":
        return _count(measure, case, values)
    single = all(len(place) == 1 and not place[0].plus_ns for place in case)
    same_units = len({values.units.get(place[0].key) for place in case}) == 1 or measure.per == UNIT_OF_WORK
    # Differences for an iteration and for a unit of work are proportional where both sides do as many units.
    declared = measure.operation == "ratio" or (measure.operation == "difference" and same_units)
    if single and declared and measure.quantity != "metric":
        return _declared(measure, case, values)
    return _derived(measure, case, values)


def _apart(one: Effect, other: Effect) -> Effect:
    """A ratio of ratios from two programs: they have no rounds in common, so their errors add up as squares, with the
    degrees of freedom of Welch and Satterthwaite. It is known as far as the ratio is that is known less.
    """
    if one.missing or other.missing:
        return Effect(missing=one.missing or other.missing)
    if not one.value or not other.value:
        return Effect(missing="one of its ratios is zero")
    ends = ((one.low, other.high), (one.high, other.low))
    low, high = (math.hypot(math.log(mine / one.value), math.log(its / other.value)) for mine, its in ends)
    value = one.value / other.value
    # Exact numbers have no error, and no degrees of freedom.
    uncertain = [each for each in (one, other) if each.low < each.high]
    errors = [(math.log(each.high / each.low) / quantile(each.freedom)) ** 2 for each in uncertain]
    parts = sum(error**2 / each.freedom for error, each in zip(errors, uncertain, strict=True))
    return Effect(
        value=value,
        low=value * math.exp(-low),
        high=value * math.exp(high),
        nothing=max(one.nothing, other.nothing),
        fixed=math.hypot(one.fixed, other.fixed),
        doubt=one.doubt or other.doubt,
        freedom=sum(errors) ** 2 / parts if parts else 0.0,
        sittings=min(one.sittings, other.sittings),
        covers_hours=one.covers_hours and other.covers_hours,
    )


def _count(measure: Measure, case: Case, values: Values) -> Effect:
    """An exact number, which no control of times can put in doubt."""
    counts = []
    for place in case:
        units = values.counted_units[place[0].key] if measure.per == UNIT_OF_WORK else 1
        if not units:
            return Effect(missing="of how many units of work its counts are was not noted")
        counts.append(sum(values.counts[*operand.key, operand.counter] for operand in place) / units)
    if measure.in_ratios and 0 in counts[1:]:
        return Effect(missing="it divides by a count of zero")
    combined = truediv if measure.in_ratios else sub
    pairs = [combined(*pair) for pair in zip(counts[::2], counts[1::2], strict=False)] or counts
    value = reduce(combined, pairs)
    return Effect(value, value, value, base=counts[-1])


def _declared(measure: Measure, case: Case, values: Values) -> Effect:
    """A row of the table of comparisons, whose times are for a unit of work, in the unit of the measure. Two keys
    of one group that are compared with others alone are compared round by round.
    """
    one, other = (place[0].key for place in case)
    over, under = (other, one) if measure.quantity == "rate" else (one, other)
    row = values.comparisons.get((over, under))
    if row is None and values.groups(one) & values.groups(other):
        return _derived(measure, case, values)
    if row is None:
        return Effect(missing="this run has both sides of it and does not compare them")
    units = values.units if {one, other} <= values.units.keys() else {one: 1, other: 1}
    fixed = row["quantile"] * (row["bias"] or 0.0)
    about = {"nothing": row["limit"], "doubt": row["doubt"], "fixed": fixed, "row": row}
    about |= {"freedom": row["freedom"], "sittings": row["sittings"], "covers_hours": row["omega2"] is not None}
    if measure.operation == "ratio":
        scale = 1.0 if measure.per == UNIT_OF_WORK else units[over] / units[under]
        if row["undisturbed"] is not None:
            ends = ("undisturbed", "undisturbed_low", "undisturbed_high")
            about["undisturbed"] = tuple(row[name] * scale for name in ends)
        return Effect(*(row[name] * scale for name in ("ratio", "low", "high")), **about)
    unit = units[one] * NANOSECONDS[measure.unit] if measure.per == UNIT_OF_WORK else _unit(measure, case, values)
    scale = units[one] / unit
    mine, its = (values.times[key]["ns"].median() / units[key] * scale for key in (one, other))
    about |= {"fixed": max(mine, its) * fixed, "base": its}
    return Effect(*(row[name] * scale for name in ("added_ns", "added_low", "added_high")), **about)


def _derived(measure: Measure, case: Case, values: Values) -> Effect:
    """An effect that combines several comparisons, round by round, or times with something added on paper."""
    places = [f"place{number}" for number in range(len(case))]
    metric = measure.quantity == "metric"
    rounds = _aligned(measure, case, values, values.metrics if metric else values.times)
    if rounds.height < 2:
        return Effect(missing="fewer than two rounds have all of its sides")
    if (measure.in_ratios or measure.quantity == "rate") and rounds.select(pl.min_horizontal(places).min()).item() <= 0:
        return Effect(missing="a ratio needs values above 0, and some are 0")
    rows = values.behind(case)
    about = {
        "nothing": max((row["limit"] for row in rows), default=EQUIVALENCE),
        "doubt": next((row["doubt"] for row in rows if row["doubt"]), None),
    }
    if not interval.enough(rounds.height, rounds["episode"].n_unique()):
        about["doubt"] = about["doubt"] or "too few rounds"
    found = _combined(measure, case, values, rows, rounds)
    if found.missing:
        return found
    if not metric and rows and all(row["kind"] == ALONE for row in rows) and found.freedom < interval.RANKS:
        quiet = _combined(measure, case, values, rows, _aligned(measure, case, values, values.lowest))
        about["undisturbed"] = None if quiet.missing else (quiet.value, quiet.low, quiet.high)
    return replace(found, **about)


def _combined(measure: Measure, case: Case, values: Values, rows: list[dict], rounds: pl.DataFrame) -> Effect:
    """The effect of a measure over `rounds` (`_aligned`), with the error of the comparisons behind it, `rows`."""
    places = [name for name in rounds.columns if name.startswith("place")]
    if measure.quantity == "rate":
        faster = [(1 / pl.col(name)).alias(name) for name in places]
        rounds = rounds.with_columns(*faster, speed=-pl.col("speed"))
    rounds = rounds.with_columns(pl.col(places) / _unit(measure, case, values), of=0, unsure=values.unsure)
    factors = (1.0, -1.0, -1.0, 1.0)[: len(places)]
    metric, crossing = measure.quantity == "metric", measure.operation == "break-even"
    # Ratios are estimated as logarithms, as those of the table are, and times by themselves as those of the price list.
    of_time = measure.operation == "value" and not metric
    logs = measure.in_ratios or of_time or crossing
    lever, crossings = 1.0, rounds
    if crossing:
        crossed = _crossing(rounds, measure.share or 0.0)
        if isinstance(crossed, str):
            return Effect(missing=crossed)
        crossings, lever = crossed
    known = [(row["omega2"], row["d0"]) for row in rows if row["omega2"] is not None]
    hours = values.hours if of_time else {}
    if known and not of_time and not metric:
        omega2 = max(one for one, _ in known) * (len(places) / 2 if measure.in_ratios else lever**2)
        hours = {"omega2": omega2, "d0": min(one for _, one in known)}
    if crossing:
        found = interval.estimates(crossings.with_columns(of=0), "value", ("of",), **hours).row(0, named=True)
    elif logs or metric:
        each = (pl.col(name).log() if logs else pl.col(name) for name in places)
        value = pl.sum_horizontal(factor * one for factor, one in zip(factors, each, strict=True))
        found = interval.estimates(rounds.with_columns(value=value), "value", ("of",), **hours).row(0, named=True)
    else:
        found = differences(rounds, factors, ("of",), **hours).row(0, named=True)
    # Each of the comparisons behind the effect has the bias of its kind: of a ratio as it is, of a difference times the
    # larger of its sides.
    sides = rounds.select(pl.col(places).median()).row(0)
    larger = [1.0 if logs else max(sides[at : at + 2]) for at in range(0, len(sides), 2)]
    larger = [lever] if crossing else larger
    fixed = found["quantile"] * max((row["bias"] or 0.0 for row in rows), default=0.0) * math.hypot(*larger)
    low, high = interval.widened(found["value"], found["low"], found["high"], fixed)
    about = {"freedom": found["freedom"], "sittings": found["sittings"], "covers_hours": found["omega2"] is not None}
    about["fixed"] = fixed if measure.in_ratios or not logs else fixed * math.exp(found["value"])
    if logs:
        return Effect(*(math.exp(one) for one in (found["value"], low, high)), **about)
    return Effect(found["value"], low, high, sides[-1], **about)


def _crossing(rounds: pl.DataFrame, share: float) -> tuple[pl.DataFrame, float] | str:
    """The own work, in the unit of the times, at which the first of two places takes the `share` of the second's time
    more: of each process (sitting, episode, round) `value`, its logarithm; and by how much that moves if a ratio moves
    by one; or why there is none, in plain text.

    Each two places are a load, the first one without own work; the work of a load is what its second place takes more
    than that of the first load. Between the two loads around the crossing, what the first place takes beyond the share
    changes evenly, so the interval knows how what it adds grows with the work. A process moves the crossing as far as
    its ratios at both loads do (the delta method).
    """
    places = [name for name in rounds.columns if name.startswith("place")]
    loads = dict(enumerate(zip(places[::2], places[1::2], strict=True)))
    ratios = {f"ratio{at}": (pl.col(one) / pl.col(loop)).log() for at, (one, loop) in loads.items()}
    times = {f"time{at}": pl.col(loop).log() for at, (_, loop) in loads.items()}
    medians = pl.col(*ratios, *times).median()
    by_process = rounds.with_columns(**ratios, **times).group_by("sitting", "episode", maintain_order=True)
    processes = by_process.agg(medians).with_columns(round="episode")
    mean = processes.select(pl.col(*ratios, *times).mean().exp()).row(0, named=True)
    beyond = [mean[f"time{at}"] * (mean[f"ratio{at}"] - 1 - share) for at in loads]
    above = [at for at in loads if beyond[at] > 0]
    if not above or above[-1] + 1 == len(loads):
        told = "at the last of the measured loads it costs more" if above else "at all measured loads it costs less"
        return f"{told} than {words.exact_percent(share)}"
    at = above[-1]  # beyond it, the share is never reached again
    part = beyond[at] / (beyond[at] - beyond[at + 1])
    start, end = mean[f"time{at}"], mean[f"time{at + 1}"]
    time = start + part * (end - start)
    work = time - mean["time0"]
    if not mean["time0"] <= start < end or work <= 0:
        return "its times do not grow with the work: they are too noisy"
    lever = (end - start) / (beyond[at] - beyond[at + 1]) / work
    moved = [
        weight * mean[f"time{load}"] * mean[f"ratio{load}"] * (pl.col(f"ratio{load}") - math.log(mean[f"ratio{load}"]))
        for load, weight in ((at, 1 - part), (at + 1, part))
    ]
    values = processes.select("sitting", "episode", "round", value=math.log(work) + lever * (moved[0] + moved[1]))
    return values, lever * (1 + share) * time


def _unit(measure: Measure, case: Case, values: Values) -> float:
    """How many of what is aligned (nanoseconds, or the own unit of a metric) are one unit of the measure."""
    own = measure.per not in (None, UNIT_OF_WORK)
    each = values.counts[*case[0][0].key, measure.per] if own else 1
    return NANOSECONDS.get(measure.unit, 1.0) * each


def _missing(measure: Measure, case: Case, values: Values) -> str | None:
    """Which operands the run lacks, in Markdown; None if it has all."""
    exact = values.metrics if measure.quantity == "metric" else values.counts
    needed = [(one.key, one.counter, exact if one.counter else values.times) for place in case for one in place]
    if measure.per not in (None, UNIT_OF_WORK):
        needed.append((case[0][0].key, measure.per, values.counts))
    lacks = dict[str, Key]()
    for key, counter, held in needed:
        if ((*key, counter) if counter else key) not in held:
            bench, variant, parameter = key
            before = f"{words.code(counter)} of " if counter else f"{words.code(bench)} by " if bench != variant else ""
            lacks[before + words.key({"variant": variant, "parameter": parameter})] = key
    of_failed = {one.key for one in values.measured.run.study(values.name).failed}
    failed = [name for name, key in lacks.items() if key in of_failed]
    parts = [f"{words.listing(failed)} failed"] if failed else []
    if names := [name for name in lacks if name not in failed]:
        parts.append(f"{words.listing(names)} {'was' if len(names) == 1 else 'were'} not measured")
    return ", and ".join(parts) or None


def _aligned(measure: Measure, case: Case, values: Values, observed: dict) -> pl.DataFrame:
    """PLACE, speed, place0, place1, ...: nanoseconds, or the metric, of each place, round by round, for one unit of its
    work where the measure is; only rounds that all operands have. `observed` are the rounds of each operand.
    """
    joined = None
    for number, place in enumerate(case):
        keys = [(*one.key, one.counter) if measure.quantity == "metric" else one.key for one in place]
        parts = [observed[key].with_columns(pl.col("ns") + one.plus_ns) for key, one in zip(keys, place, strict=True)]
        units = values.units.get(place[0].key, 1) if measure.per == UNIT_OF_WORK else 1
        total = (pl.col("ns").sum() / units).alias(f"place{number}")
        mine = pl.concat(parts).group_by(PLACE).agg(total, pl.col("speed").first(), parts=pl.len())
        mine = mine.filter(parts=len(place)).drop("parts")
        joined = mine if joined is None else joined.join(mine.drop("speed"), on=PLACE)
    return joined.sort("round")
