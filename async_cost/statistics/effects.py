"""What a run measured of a quantity that a statement is about: its value and its interval.

A quantity is a count, a time, a rate or a metric of one to four places, combined by an operation. If the study declares
the comparison, the number is that of the table of comparisons; what combines several is computed round by round.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import sub, truediv
from typing import Any

import polars as pl

from async_cost import words
from async_cost.statistics import interval
from async_cost.statistics.differences import PLACE, differences
from async_cost.statistics.interval import CONFIDENCE, quantile
from async_cost.statistics.judge import EQUIVALENCE, TOO_FEW
from async_cost.statistics.measured import Key, Measured
from async_cost.statistics.trials import ALONE

#: Nanoseconds in a unit of time.
NANOSECONDS = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
#: In place of a counter that a difference is divided by: the unit of work of the comparison.
UNIT_OF_WORK = "unit"


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
    """How a number is made of the operands of a case: `operation` over their `quantity` (count, time, rate or metric),
    in `unit`; differences are divided by the counter `per`. Operands of one place are added up: `value` has one place,
    `ratio` and `difference` have two, `ratio of ratios` and `difference of differences` four.

    `break-even` is the own work, on both sides, at which the first side takes `share` more time than the second,
    interpolated between the loads of a case: two places for each load, the first load without own work.
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

    @property
    def no_effect(self) -> float:
        """The value of no effect: 1 for ratios, 0 for everything else."""
        return 1.0 if self.in_ratios else 0.0


@dataclass(frozen=True)
class Effect:
    """A measured number with its interval. `missing` says why there is none, `doubt` why nothing is concluded from it.

    `base` is the time of what is subtracted, in the unit of the measure; `nothing` the share below which a difference
    counts as none; `fixed` the half width that the controls of its kind add to the interval, as squares, and `offset`
    what those of its group add: of a ratio on the scale of logarithms, else in the unit of the measure. `freedom` are
    the interval's degrees of freedom, 0 of an exact number; `sittings` is over how many it was measured, `covers_hours`
    whether it holds for another hour. `undisturbed` are value, low and high on an undisturbed machine, where that is
    something else. `row` is the row of the table of comparisons that the effect is.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    base: float = 0.0
    nothing: float = EQUIVALENCE
    fixed: float = 0.0
    offset: float = 0.0
    doubt: str | None = None
    missing: str | None = None
    freedom: float = 0.0
    sittings: int = 1
    covers_hours: bool = True
    undisturbed: tuple[float, float, float] | None = None
    row: dict | None = None

    @property
    def numbers(self) -> tuple[float, float, float]:
        """Value, low and high. Raises ValueError where they are missing."""
        if self.value is None or self.low is None or self.high is None:
            raise ValueError(self.missing)
        return self.value, self.low, self.high

    def among(self, number: int, logarithmic: bool) -> "Effect":
        """Return this effect with an interval that holds together with those of all `number` effects (Bonferroni)."""
        if self.value is None or number == 1 or not self.freedom or self.low == self.high:
            return self
        wider = quantile(self.freedom, 1 - (1 - CONFIDENCE) / number) / quantile(self.freedom)

        def widened(value: float, low: float, high: float) -> tuple[float, float, float]:
            if logarithmic:
                return value, value * (low / value) ** wider, value * (high / value) ** wider
            return value, value + (low - value) * wider, value + (high - value) * wider

        _, low, high = widened(*self.numbers)
        undisturbed = widened(*self.undisturbed) if self.undisturbed else None
        fixed, offset = self.fixed * wider, self.offset * wider
        return replace(self, low=low, high=high, fixed=fixed, offset=offset, undisturbed=undisturbed)


def effect(measure: Measure, case: Case, study: Callable[[str], Measured]) -> Effect:
    """Return the number of one case, or why there is none; `study` gives what the run holds of a study.

    Raises ValueError for several studies, unless two ratios are compared.
    """
    studies = dict.fromkeys(operand.study for place in case for operand in place)
    if len(studies) > 1:
        if measure.operation != "ratio of ratios":
            raise ValueError(
                f"no {measure.operation} is of two studies ({', '.join(studies)}), which share no rounds: take pairs "
                "of one study, or the ratio of their ratios (ac.ratio_of_ratios)"
            )
        ratio = replace(measure, operation="ratio")
        return _apart(effect(ratio, case[:2], study), effect(ratio, case[2:], study))
    measured = study(case[0][0].study)
    if not measured:
        return Effect(missing=f"this run does not hold {words.code(measured.study)}")
    if missing := _missing(measure, case, measured):
        return Effect(missing=missing)
    if measure.quantity == "count":
        return _count(measure, case, measured)
    single = all(len(place) == 1 and not place[0].plus_ns for place in case)
    same_units = len({measured.units.get(place[0].key) for place in case}) == 1 or measure.per == UNIT_OF_WORK
    # Differences for an iteration and for a unit of work are proportional where both sides do as many units.
    declared = measure.operation == "ratio" or (measure.operation == "difference" and same_units)
    if single and declared and measure.quantity != "metric":
        return _declared(measure, case, measured)
    return _derived(measure, case, measured)


def _apart(first: Effect, second: Effect) -> Effect:
    """A ratio of ratios from two programs: they have no rounds in common, so their errors add up as squares, with the
    degrees of freedom of Welch and Satterthwaite, except for their offsets. It is known as far as the ratio is that is
    known less.
    """
    if first.missing or second.missing:
        return Effect(missing=first.missing or second.missing)
    (value, low, high), (its, its_low, its_high) = first.numbers, second.numbers
    if not value or not its:
        return Effect(missing="one of its ratios is zero")
    # Exact numbers have no error, and no degrees of freedom.
    below, above = math.log(value / low) - first.offset, math.log(high / value) - first.offset
    its_below, its_above = math.log(its / its_low) - second.offset, math.log(its_high / its) - second.offset
    widths, offset = (
        ((below + above, first.freedom), (its_below + its_above, second.freedom)),
        first.offset + second.offset,
    )
    errors = [((width / quantile(free)) ** 2, free) for width, free in widths if width > 0]
    parts = sum(error**2 / free for error, free in errors)
    return Effect(
        value=value / its,
        low=value / its * math.exp(-math.hypot(below, its_above) - offset),
        high=value / its * math.exp(math.hypot(above, its_below) + offset),
        nothing=max(first.nothing, second.nothing),
        fixed=math.hypot(first.fixed, second.fixed),
        offset=offset,
        doubt=first.doubt or second.doubt,
        freedom=sum(error for error, _ in errors) ** 2 / parts if parts else 0.0,
        sittings=min(first.sittings, second.sittings),
        covers_hours=first.covers_hours and second.covers_hours,
    )


def _count(measure: Measure, case: Case, measured: Measured) -> Effect:
    """An exact number, which no control of times can put in doubt."""
    counts = []
    for place in case:
        units = measured.counted_units[place[0].key] if measure.per == UNIT_OF_WORK else 1
        if not units:
            return Effect(missing="of how many units of work its counts are was not noted")
        counts.append(sum(measured.counts[*operand.key, operand.counter] for operand in place) / units)
    if measure.in_ratios and 0 in counts[1:]:
        return Effect(missing="it divides by a count of zero")
    combined = truediv if measure.in_ratios else sub
    pairs = [combined(*pair) for pair in zip(counts[::2], counts[1::2], strict=False)] or counts
    value = reduce(combined, pairs)
    return Effect(value, value, value, base=counts[-1])


def _known(estimate: Mapping) -> dict[str, Any]:
    """How well a row of `interval.estimates`, or of the table, is known, as fields of an effect."""
    hours = estimate["omega2"] is not None
    return {"freedom": estimate["freedom"], "sittings": estimate["sittings"], "covers_hours": hours}


def _declared(measure: Measure, case: Case, measured: Measured) -> Effect:
    """A row of the table of comparisons, whose times are for a unit of work, in the unit of the measure. Two keys
    of one group that are compared with others alone are compared round by round.
    """
    first, second = (place[0].key for place in case)
    over, under = (second, first) if measure.quantity == "rate" else (first, second)
    row = measured.rows.get((over, under))
    if row is None:
        mine, its = (
            {row["group"] for (key, _), row in measured.rows.items() if key == side} for side in (first, second)
        )
        if mine & its:
            return _derived(measure, case, measured)
        return Effect(missing="this run has both sides of it and does not compare them")
    units = measured.units if {first, second} <= measured.units.keys() else {first: 1, second: 1}
    fixed = row["quantile"] * (row["bias"] or 0.0)
    about = _known(row) | {"nothing": row["limit"], "doubt": row["doubt"], "row": row}
    about |= {"fixed": fixed, "offset": row["offset"]}
    if measure.operation == "ratio":
        scale = 1.0 if measure.per == UNIT_OF_WORK else units[over] / units[under]
        if row["undisturbed"] is not None:
            ends = ("undisturbed", "undisturbed_low", "undisturbed_high")
            about["undisturbed"] = tuple(row[name] * scale for name in ends)
        return Effect(*(row[name] * scale for name in ("ratio", "low", "high")), **about)
    unit = units[first] * NANOSECONDS[measure.unit] if measure.per == UNIT_OF_WORK else _unit(measure, case, measured)
    scale = units[first] / unit
    sides = [
        measured.times[key].select(pl.col("value").median() / units[key]).item() * scale for key in (first, second)
    ]
    about |= {"fixed": max(sides) * fixed, "offset": max(sides) * math.expm1(row["offset"]), "base": sides[1]}
    return Effect(*(row[name] * scale for name in ("added_ns", "added_low", "added_high")), **about)


def _derived(measure: Measure, case: Case, measured: Measured) -> Effect:
    """An effect that combines several comparisons, round by round, or times with something added on paper."""
    metric = measure.quantity == "metric"
    rounds = _aligned(measure, case, measured, measured.metrics if metric else measured.times)
    if rounds.height < 2:
        return Effect(missing="fewer than two rounds have all of its sides")
    divides = measure.in_ratios or measure.quantity == "rate"
    if divides and rounds.select(pl.min_horizontal("^place.*$").min()).item() <= 0:
        return Effect(missing="a ratio needs values above 0, and some are 0")
    rows = _behind(case, measured)
    combined = _combined(measure, case, measured, rows, rounds)
    if combined.missing:
        return combined
    undisturbed = None
    if not metric and rows and all(row["kind"] == ALONE for row in rows) and combined.freedom < interval.RANKS:
        lowest = _combined(measure, case, measured, rows, _aligned(measure, case, measured, measured.lowest))
        undisturbed = None if lowest.missing else lowest.numbers
    reason = next((row["doubt"] for row in rows if row["doubt"]), None)
    if combined.freedom >= interval.RANKS:
        reason = reason or TOO_FEW
    nothing = max((row["limit"] for row in rows), default=EQUIVALENCE)
    return replace(combined, nothing=nothing, doubt=reason, undisturbed=undisturbed)


def _behind(case: Case, measured: Measured) -> list[dict]:
    """The comparisons behind a case: of its first place with the second and so on; else those of its keys."""
    keys = [place[0].key for place in case]
    pairs = filter(None, map(measured.rows.get, zip(keys[::2], keys[1::2], strict=False)))
    return list(pairs) or [row for (key, _), row in measured.rows.items() if key in keys]


def _combined(measure: Measure, case: Case, measured: Measured, rows: list[dict], rounds: pl.DataFrame) -> Effect:
    """The effect of a measure over `rounds` (`_aligned`), with the error of the comparisons behind it, `rows`."""
    places = [name for name in rounds.columns if name.startswith("place")]
    if measure.quantity == "rate":
        faster = [(1 / pl.col(name)).alias(name) for name in places]
        rounds = rounds.with_columns(*faster, speed=-pl.col("speed"))
    # The half width of the interval of the speed is that of the study.
    unsure = pl.lit(measured.declared.select(pl.col("speed").max().fill_null(0.0)).item())
    rounds = rounds.with_columns(pl.col(places) / _unit(measure, case, measured), of=0, unsure=unsure)
    factors = (1.0, -1.0, -1.0, 1.0)[: len(places)]
    metric, crossing = measure.quantity == "metric", measure.operation == "break-even"
    # Ratios are estimated as logarithms, as those of the table are, and values by themselves as those of the price
    # list: an hour or a process multiplies a latency as it does a time. Counts add up, and 0 has no logarithm.
    alone = measure.operation == "value" and measure.unit != "count"
    of_time = alone and not metric
    logs = measure.in_ratios or crossing or (alone and rounds.select(pl.col(places).min()).item() > 0)
    lever, crossings = 1.0, rounds
    if crossing:
        crossed = _crossing(rounds, measure.share or 0.0)
        if isinstance(crossed, str):
            return Effect(missing=crossed)
        crossings, lever = crossed
    known = [(row["omega2"], row["d0"]) for row in rows if row["omega2"] is not None]
    hours: dict[str, Any] = measured.hours if of_time else {}
    if known and not of_time and not metric:
        omega2 = max(omega2 for omega2, _ in known) * (len(places) / 2 if measure.in_ratios else lever**2)
        hours = {"omega2": omega2, "d0": min(d0 for _, d0 in known)}
    if crossing:
        estimate = interval.estimates(crossings.with_columns(of=0), "value", ("of",), **hours).row(0, named=True)
    elif logs or metric:
        columns = (pl.col(name).log() if logs else pl.col(name) for name in places)
        value = pl.sum_horizontal(factor * side for factor, side in zip(factors, columns, strict=True))
        estimate = interval.estimates(rounds.with_columns(value=value), "value", ("of",), **hours).row(0, named=True)
    else:
        estimate = differences(rounds, factors, ("of",), **hours).row(0, named=True)
    # Each of the comparisons behind the effect has the bias of its kind and the offset of its group: of a ratio as they
    # are, of a difference times the larger of its sides.
    sides = rounds.select(pl.col(places).median()).row(0)
    larger = [1.0 if logs else max(sides[at : at + 2]) for at in range(0, len(sides), 2)]
    larger = [lever] if crossing else larger
    fixed = estimate["quantile"] * max((row["bias"] or 0.0 for row in rows), default=0.0) * math.hypot(*larger)
    offset = max((row["offset"] for row in rows), default=0.0)
    offset = (offset if logs else math.expm1(offset)) * sum(larger)
    value = estimate["value"]
    low, high = interval.widened(value, estimate["low"], estimate["high"], fixed, offset)
    scale = 1.0 if measure.in_ratios or not logs else math.exp(value)
    about = _known(estimate) | {"fixed": fixed * scale, "offset": offset * scale}
    if logs:
        return Effect(math.exp(value), math.exp(low), math.exp(high), **about)
    return Effect(value, low, high, sides[-1], **about)


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
    ratios = {f"ratio{at}": (pl.col(place) / pl.col(loop)).log() for at, (place, loop) in loads.items()}
    times = {f"time{at}": pl.col(loop).log() for at, (_, loop) in loads.items()}
    medians = pl.col(*ratios, *times).median()
    by_process = rounds.with_columns(**ratios, **times).group_by("sitting", "episode", maintain_order=True)
    processes = by_process.agg(medians).with_columns(round="episode")
    mean = processes.select(pl.col(*ratios, *times).mean().exp()).row(0, named=True)
    beyond = [mean[f"time{at}"] * (mean[f"ratio{at}"] - 1 - share) for at in loads]
    above = [at for at in loads if beyond[at] > 0]
    if not above or above[-1] + 1 == len(loads):
        where = "at the last of the measured loads it costs more" if above else "at all measured loads it costs less"
        return f"{where} than {words.exact_percent(share)}"
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


def _unit(measure: Measure, case: Case, measured: Measured) -> float:
    """How many of what is aligned (nanoseconds, or the own unit of a metric) are one unit of the measure."""
    counted = 1 if measure.per in (None, UNIT_OF_WORK) else measured.counts[*case[0][0].key, str(measure.per)]
    return NANOSECONDS.get(measure.unit, 1.0) * counted


def _missing(measure: Measure, case: Case, measured: Measured) -> str | None:
    """Which operands the run lacks, in Markdown; None if it has all."""
    exact = measured.metrics if measure.quantity == "metric" else measured.counts
    needed = [
        (operand.key, operand.counter, exact if operand.counter else measured.times)
        for place in case
        for operand in place
    ]
    if measure.per not in (None, UNIT_OF_WORK):
        needed.append((case[0][0].key, str(measure.per), measured.counts))
    lacks = dict[str, Key]()
    for key, counter, held in needed:
        if ((*key, counter) if counter else key) not in held:
            bench, variant, parameter = key
            before = f"{words.code(counter)} of " if counter else f"{words.code(bench)} by " if bench != variant else ""
            lacks[before + words.key({"variant": variant, "parameter": parameter})] = key
    of_failed = {failure.key for failure in measured.run.study(measured.study).failed}
    failed = [name for name, key in lacks.items() if key in of_failed]
    parts = [f"{words.listing(failed)} failed"] if failed else []
    if names := [name for name in lacks if name not in failed]:
        parts.append(f"{words.listing(names)} {'was' if len(names) == 1 else 'were'} not measured")
    return ", and ".join(parts) or None


def _aligned(measure: Measure, case: Case, measured: Measured, rounds: dict) -> pl.DataFrame:
    """PLACE, speed, place0, place1, ...: nanoseconds, or the metric, of each place, round by round, for one unit of its
    work where the measure is; only rounds that all operands have. `rounds` are those of each operand.
    """
    joined = pl.DataFrame()
    for number, place in enumerate(case):
        keys = [(*operand.key, operand.counter) if measure.quantity == "metric" else operand.key for operand in place]
        parts = [
            rounds[key].with_columns(pl.col("value") + operand.plus_ns)
            for key, operand in zip(keys, place, strict=True)
        ]
        units = measured.units.get(place[0].key, 1) if measure.per == UNIT_OF_WORK else 1
        total = (pl.col("value").sum() / units).alias(f"place{number}")
        mine = pl.concat(parts).group_by(PLACE).agg(total, pl.col("speed").first(), parts=pl.len())
        mine = mine.filter(parts=len(place)).drop("parts")
        joined = joined.join(mine.drop("speed"), on=PLACE) if number else mine
    return joined.sort("round")
