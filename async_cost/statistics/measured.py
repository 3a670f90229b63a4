"""One study of a run, and how two of its variants compare."""

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from async_cost.runs.comparisons import BASE_KEY, KEY, PAIR
from async_cost.runs.find import not_as_announced
from async_cost.runs.run import Run
from async_cost.statistics.judge import CONTRADICTED, VERDICTS, Trust, trust
from async_cost.statistics.table import comparisons
from async_cost.statistics.trials import trial_times

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
        """As from `trial_times`, including controls: for everything that is not a comparison."""
        return trial_times(self.run.whole_time(self.study))

    @cached_property
    def trust(self) -> Trust:
        """The trust in the study as a whole."""
        return trust(self.declared, self.run.info.profile, not_as_announced(self.run))

    @cached_property
    def groups(self) -> dict[str, Trust]:
        """The trust in each group of comparisons by itself."""
        parts, refused = self.declared.partition_by("group", as_dict=True), not_as_announced(self.run)
        return {group: trust(rows, self.run.info.profile, refused) for (group,), rows in sorted(parts.items())}


def both_ways(found: pl.DataFrame) -> pl.DataFrame:
    """Every comparison as declared and reversed: the reciprocal ratio, minus the added time, the opposite verdict.

    What changes is stated for the declared direction only: reversed, it is null. So is `smallest`.
    """
    ends = [("low", "high"), ("q1", "q3"), ("next_low", "next_high"), ("undisturbed_low", "undisturbed_high")]
    other_end = {name: name for name in ("ratio", "undisturbed")} | dict(ends) | {high: low for low, high in ends}
    back = found.rename(dict(zip(PAIR, (*BASE_KEY, *KEY), strict=True))).with_columns(
        **{name: 1 / pl.col(end) for name, end in other_end.items()},
        added_ns=-pl.col("added_ns"),
        added_low=-pl.col("added_high"),
        added_high=-pl.col("added_low"),
        verdict=pl.col("verdict").cast(pl.String).replace(_OPPOSITE).cast(VERDICTS),
        change=pl.lit(None, pl.String),
        smallest=pl.lit(None, pl.Float64),
        to_decide=pl.when(~pl.col("to_decide").str.starts_with(CONTRADICTED)).then("to_decide"),
    )
    return pl.concat([found, back.select(found.columns)])
