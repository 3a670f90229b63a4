"""One study of a run: its comparisons, trials and counts."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from async_cost.runs.comparisons import BASE_KEY, KEY
from async_cost.runs.find import not_as_announced
from async_cost.runs.run import Run
from async_cost.statistics import interval
from async_cost.statistics.differences import PLACE, speeds
from async_cost.statistics.judge import CONTRADICTED, VERDICTS, differing, reasons
from async_cost.statistics.table import USED, comparisons
from async_cost.statistics.trials import lowest, trial_times, trial_values

#: bench, variant, parameter.
Key = tuple[str, str, str]
_OPPOSITE = {"slower": "faster", "faster": "slower"}


@dataclass(frozen=True)
class Measured:
    """`study` as measured by `run`; false where the run lacks the study."""

    run: Run
    study: str

    def __bool__(self) -> bool:
        return self.study in self.run.info.studies

    @cached_property
    def declared(self) -> pl.DataFrame:
        """The table of comparisons (`table.Comparisons.of`)."""
        return comparisons(self.run).of(self.study)

    @cached_property
    def comparisons(self) -> pl.DataFrame:
        """The rows of the table that were measured, without controls."""
        return self.declared.filter(~pl.col("control")).drop_nulls("ratio")

    @cached_property
    def trials(self) -> pl.DataFrame:
        """As from `trial_times`, including controls."""
        return trial_times(self.run.whole_time(self.study))

    @cached_property
    def refused(self) -> dict[str, list[str]]:
        """Why nothing is concluded from a group of comparisons, in sentences (Markdown), by group."""
        profile, incomplete = self.run.info.profile, not_as_announced(self.run)
        return self._by_group(lambda rows: list(reasons(rows, profile, incomplete).values()))

    @cached_property
    def widened(self) -> dict[str, list[str]]:
        """Which controls that differ from their baselines widen the intervals of a group, in such sentences."""
        return self._by_group(differing)

    def _by_group(self, why: Callable[[list[dict]], list[str]]) -> dict[str, list[str]]:
        groups = self.declared.partition_by("group", as_dict=True)
        said = {group: why(rows.to_dicts()) for (group,), rows in groups.items()}
        return {group: sentences for group, sentences in sorted(said.items()) if sentences}

    @cached_property
    def rows(self) -> dict[tuple[Key, Key], dict]:
        """The rows of `comparisons` by key and baseline, as declared and reversed."""
        both = both_ways(self.comparisons).iter_rows(named=True)
        return {(tuple(row[name] for name in KEY), tuple(row[name] for name in BASE_KEY)): row for row in both}

    @cached_property
    def times(self) -> dict[Key, pl.DataFrame]:
        """Rounds of each key: PLACE, speed, value (nanoseconds)."""
        return _by_key(self.trials)

    @cached_property
    def lowest(self) -> dict[Key, pl.DataFrame]:
        """Lowest-decile time of each key, one row per process."""
        return _by_key(lowest(self.trials))

    @cached_property
    def metrics(self) -> dict[tuple[str, ...], pl.DataFrame]:
        """Rounds by bench, variant, parameter, metric: PLACE, speed (0), value (for an iteration if it adds up)."""
        parts = [
            trial_values(self.run, self.study, metric).select(*KEY, *PLACE, "value", metric=pl.lit(metric), speed=0.0)
            for metric in self.run.metrics(self.study)["metric"].unique()
        ]
        return pl.concat(parts).partition_by(*KEY, "metric", as_dict=True, include_key=False) if parts else {}

    @cached_property
    def counts(self) -> dict[tuple[str, ...], int]:
        """Exact counts by bench, variant, parameter, counter."""
        return _last(self.run.counts(self.study).select(*KEY, "counter", "value"))

    @cached_property
    def units(self) -> dict[tuple[str, ...], int]:
        """Units of work of one iteration, by key."""
        return _last(self.run.units(self.study))

    @cached_property
    def counted_units(self) -> dict[tuple[str, ...], int | None]:
        """Units of work that the counts of a key are of."""
        return _last(self.run.counted_units(self.study))

    @cached_property
    def hours(self) -> dict[str, float]:
        """The variance `omega2` of the logarithms of times between hours, and its `d0`; empty where unknown."""
        sittings = interval.of_sittings(self.trials.with_columns(pl.col("ns").log()), "ns", KEY)
        known = interval.hours(interval.spreads(sittings, KEY).with_columns(pool=0, keys=pl.len()))
        return next(known.select("omega2", "d0").iter_rows(named=True), {})


def _last(frame: pl.DataFrame) -> dict:
    """The last column by the others."""
    return {row[:-1]: row[-1] for row in frame.iter_rows()}


def _by_key(trials: pl.DataFrame) -> dict:
    times = trials.join(speeds(trials), on=PLACE).select(*KEY, *PLACE, "speed", value="ns").sort("round")
    return times.partition_by(*KEY, as_dict=True, include_key=False)


def both_ways(rows: pl.DataFrame) -> pl.DataFrame:
    """Return every comparison as declared and reversed: the reciprocal ratio, minus the added time, the opposite
    verdict.

    `change` and `smallest` are stated for the declared direction only: reversed, they are null.
    """
    ends = [("low", "high"), ("q1", "q3"), ("next_low", "next_high"), ("undisturbed_low", "undisturbed_high")]
    other_end = {name: name for name in ("ratio", "undisturbed")} | dict(ends) | {high: low for low, high in ends}
    of_key, of_baseline = (*KEY, *USED), (*BASE_KEY, *(f"baseline_{name}" for name in USED))
    turned = dict(zip((*of_key, *of_baseline), (*of_baseline, *of_key), strict=True))
    back = rows.rename(turned).with_columns(
        **{name: 1 / pl.col(end) for name, end in other_end.items()},
        added_ns=-pl.col("added_ns"),
        added_low=-pl.col("added_high"),
        added_high=-pl.col("added_low"),
        verdict=pl.col("verdict").cast(pl.String).replace(_OPPOSITE).cast(VERDICTS),
        change=pl.lit(None, pl.String),
        smallest=pl.lit(None, pl.Float64),
        to_decide=pl.when(~pl.col("to_decide").str.starts_with(CONTRADICTED)).then("to_decide"),
    )
    return pl.concat([rows, back.select(rows.columns)])
