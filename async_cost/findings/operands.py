"""What a finding is about: declared pairs of variants, groups of them, and the numbers that are made of them.

A pair is one that its study declares today (data/comparisons.csv), in either direction; any other raises LookupError.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

import polars as pl

from async_cost.literature.published import published_times
from async_cost.runs.comparisons import BASE_KEY, KEY, of_today
from async_cost.statistics.effects import UNIT_OF_WORK, Case, Measure, Operand
from async_cost.statistics.measured import Key
from async_cost.words import CONTROL

#: Of more names than these an error message lists the first.
LISTED = 12


@dataclass(frozen=True, kw_only=True)
class Quantity(Measure):
    """A number of each of `cases`."""

    cases: tuple[Case, ...]
    #: A figure that a document reports, in place of what a run measures.
    constant: float | None = None

    def expect(
        self, least: float | None = None, most: float | None = None, *, of: str = "all", why: str = ""
    ) -> "Expected":
        """Return the quantity with the region in which it is expected: a border may be open, and least and most may be
        one number. `of` says of how many of several cases: all or most; `why` is the reason for an open border, or for
        one that is looser than what was measured asks for. Raises ValueError without a border.
        """
        if least is most is None:
            raise ValueError("expect() needs at least one border; a quantity by itself is only shown")
        relation = (
            "equal" if least == most else "at most" if least is None else "at least" if most is None else "between"
        )
        return Expected(self, relation, least, most, why, of)


@dataclass(frozen=True)
class Expected:
    """A quantity with the region in which it is expected; `relation` names the region as those of claims are named."""

    quantity: Quantity
    relation: str
    least: float | None = None
    most: float | None = None
    why: str = ""
    of: str = "all"


@dataclass(frozen=True)
class Pair:
    """`key` compared with `baseline` in `study`, by time or by the count or metric that `counter` names; `unit` is the
    declared unit of work, such as request, `per` what numbers are for: that unit, or one of what an iteration does of a
    counter.
    """

    study: str
    key: Key
    baseline: Key
    unit: str
    quantity: str = "time"
    counter: str = ""
    per: str | None = UNIT_OF_WORK

    @property
    def name(self) -> str:
        """What a chart or a sentence calls the first side: its variant."""
        return self.key[1]

    @property
    def ratio(self) -> Quantity:
        """That of the first side over that of the baseline, for a unit of work."""
        return self._made("ratio", "ratio")

    @property
    def added(self) -> Quantity:
        """What a unit of work takes or has more than the baseline's, in nanoseconds where it is a time."""
        return self._made("difference")

    @property
    def each(self) -> Quantity:
        """What the first side takes or has for a unit of work."""
        made = self._made("value")
        return replace(made, cases=tuple(case[:1] for case in made.cases))

    @property
    def all(self) -> Quantity:
        """What the first side has in all, whatever its work: for what is held once, such as memory or a future."""
        return replace(self.each, per=None)

    @property
    def turned(self) -> "Pair":
        """The baseline compared with the first side."""
        return replace(self, key=self.baseline, baseline=self.key)

    @property
    def reported(self) -> Quantity:
        """The ratio that the document of the study reports. Raises KeyError where it reports none."""
        times = {tuple(key): ns for *key, ns in published_times(self.study).select(*KEY, "ns").iter_rows()}
        return replace(self.ratio, constant=times[self.key] / times[self.baseline])

    def time(self, per: str = UNIT_OF_WORK) -> Quantity:
        """Nanoseconds of the first side for a unit of work, or for one of the counter `per`, such as spawns."""
        return replace(self, per=per).each

    def counted(self, counter: str) -> "Pair":
        """Return the same two sides by an exact count instead of by time."""
        return replace(self, quantity="count", counter=counter)

    def metric(self, metric: str, per: str | None = UNIT_OF_WORK) -> "Pair":
        """Return the same two sides by a metric of the samples, such as cpu_ns: of each, the median of a round."""
        return replace(self, quantity="metric", counter=metric, per=per)

    @property
    def cases(self) -> tuple[Case, ...]:
        """The one case of the pair."""
        return (tuple((Operand(self.study, *key, self.counter),) for key in (self.key, self.baseline)),)

    def _made(self, operation: str, unit: str = "") -> Quantity:
        in_time = self.quantity == "time" or self.counter.endswith("_ns")
        unit = unit or ("ns" if in_time else "count")
        return Quantity(operation=operation, quantity=self.quantity, unit=unit, per=self.per, cases=self.cases)


@dataclass(frozen=True)
class Pairs:
    """Several pairs that a finding speaks of together."""

    each: tuple[Pair, ...]

    def __iter__(self) -> Iterator[Pair]:
        return iter(self.each)

    def __add__(self, other: "Pairs") -> "Pairs":
        return Pairs(self.each + other.each)

    def where(self, wanted: Callable[[Pair], bool]) -> "Pairs":
        """Return those of which `wanted` is true."""
        return Pairs(tuple(filter(wanted, self.each)))

    @property
    def ratio(self) -> Quantity:
        """The ratio of each."""
        return self._together([pair.ratio for pair in self.each])

    def time(self, per: str = UNIT_OF_WORK) -> Quantity:
        """Return the time of the first side of each."""
        return self._together([pair.time(per) for pair in self.each])

    @property
    def added(self) -> Quantity:
        """What each adds to a unit of work."""
        return self._together([pair.added for pair in self.each])

    def break_even(self, share: float) -> Quantity:
        """Microseconds of own work in each unit of work from which on the first side takes less than `share` more time
        than its baseline, interpolated between these pairs: one comparison at several loads, that without own work
        first. Raises LookupError for a single load, since what is added may grow with the work.
        """
        if len(self.each) < 2:
            raise LookupError("a break-even lies between measured loads, and there is one")
        first = self.each[0]
        made = replace(first._made("break-even", "us"), share=share)
        return replace(made, cases=(tuple(place for pair in self.each for place in pair.cases[0]),))

    def counted(self, counter: str) -> Quantity:
        """Return the ratio of each by an exact count."""
        return self._together([pair.counted(counter).ratio for pair in self.each])

    @staticmethod
    def _together(quantities: list[Quantity]) -> Quantity:
        if not quantities:
            raise LookupError("no pair is left to compare")
        return replace(quantities[0], cases=tuple(case for quantity in quantities for case in quantity.cases))


def pair(
    study: str,
    variant: str,
    baseline: str,
    parameter: str = "",
    *,
    bench: str | None = None,
    baseline_parameter: str | None = None,
) -> Pair:
    """Return the comparison of `variant` with `baseline` under one parameter, or two; `bench` where the variant is in
    several. Raises LookupError where the study does not declare exactly one.
    """
    other = parameter if baseline_parameter is None else baseline_parameter
    named = {"variant": variant, "bench": bench, "baseline_variant": baseline}
    rows = _named(_both_ways(study), named | {"parameter": parameter, "baseline_parameter": other})
    if rows.height > 1:
        raise LookupError(
            f"{study} compares {variant!r} in several benches: choose bench= from {_listed(rows, 'bench')}"
        )
    return next(_of_rows(rows))


def pairs(
    study: str,
    *,
    variant: str | None = None,
    baseline: str | None = None,
    parameter: str | None = None,
    bench: str | None = None,
    only: Collection[str] | None = None,
) -> Pairs:
    """Return all comparisons that `study` declares of `variant`, with `baseline`, under `parameter`, in `bench` (None:
    any), in the order of declaration; of the variants `only`, in their order. Controls are never among them.

    Raises LookupError where there is none.
    """
    rows = _both_ways(study) if variant or baseline else _named(of_today(), {"study": study})
    rows = rows.filter(pl.col("parameter") == pl.col("baseline_parameter"))
    rows = rows.remove(pl.any_horizontal(pl.col("variant", "baseline_variant").str.ends_with(CONTROL)))
    rows = _named(rows, {"variant": variant, "bench": bench, "baseline_variant": baseline, "parameter": parameter})
    if only is not None:
        rows = pl.concat(_named(rows, {"variant": name}) for name in only)
    return Pairs(tuple(_of_rows(rows)))


def ratio_of_ratios(one: Pair, other: Pair) -> Quantity:
    """Return the ratio of `one` over that of `other`, from the same rounds where they are of one study."""
    cases = (one.cases[0] + other.cases[0],)
    return replace(one.ratio, operation="ratio of ratios", cases=cases)


def difference_of_differences(one: Pair, other: Pair) -> Quantity:
    """Return what `one` adds to a unit of work, less what `other` adds, from the same rounds."""
    return replace(one.added, operation="difference of differences", cases=(one.cases[0] + other.cases[0],))


def _named(rows: pl.DataFrame, names: Mapping[str, str | None]) -> pl.DataFrame:
    """The comparisons with these names, by column. Raises LookupError for the first name that leaves none."""
    for column, name in names.items():
        if name is not None:
            known = rows
            rows = rows.filter(pl.col(column) == name)
            if rows.is_empty():
                near = known.filter(pl.col(column).is_in(get_close_matches(name, known[column].unique().to_list())))
                listed = _listed(known if near.is_empty() else near, column)
                unlisted = "; `make comparisons STUDIES=…` enters what a study declares into data/comparisons.csv"
                raise LookupError(f"no comparison that is listed has {column} {name!r}, but {listed}{unlisted}")
    return rows


def _listed(rows: pl.DataFrame, column: str) -> str:
    names = rows[column].unique(maintain_order=True).to_list()
    return ", ".join(map(repr, names[:LISTED])) + (" …" if len(names) > LISTED else "")


def _both_ways(study: str) -> pl.DataFrame:
    """What the study declares, as it stands and turned."""
    rows = _named(of_today(), {"study": study})
    swap = dict(zip((*KEY, *BASE_KEY), (*BASE_KEY, *KEY), strict=True))
    return pl.concat([rows, rows.rename(swap).select(rows.columns)]).unique((*KEY, *BASE_KEY), maintain_order=True)


def _of_rows(rows: pl.DataFrame) -> Iterator[Pair]:
    for row in rows.iter_rows(named=True):
        key, baseline = (tuple(row[name] for name in names) for names in (KEY, BASE_KEY))
        yield Pair(row["study"], key, baseline, row["unit"])
