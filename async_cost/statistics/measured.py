"""One study of a run, and how two of its variants compare.

A run may lack a study that a notebook reads. Such a study has no comparisons and no trust: every question gets an empty
frame, which pages call not measured.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import polars as pl

from async_cost.runs.comparisons import turned
from async_cost.runs.find import not_as_announced
from async_cost.runs.run import Run
from async_cost.statistics.judge import CONTRADICTED, VERDICTS, Trust, trust
from async_cost.statistics.table import COLUMNS, comparisons
from async_cost.statistics.trials import NO_TRIALS, lowest, trial_times

_OPPOSITE = {"slower": "faster", "faster": "slower"}


@dataclass(frozen=True)
class Measured:
    """`declared`: the table of comparisons (`table.Comparisons.of`) of `study` in `run`; empty where the run lacks the
    study.
    """

    run: Run
    study: str
    declared: pl.DataFrame

    @classmethod
    def of(cls, run: Run, study: str) -> Self:
        """`study` as measured by `run`, or nothing."""
        known = study in run.info.studies
        return cls(run, study, comparisons(run).of(study) if known else pl.DataFrame(schema=COLUMNS))

    def __bool__(self) -> bool:
        return self.study in self.run.info.studies

    @cached_property
    def comparisons(self) -> pl.DataFrame:
        """The rows of the table that were measured, without controls."""
        return self.declared.filter(~pl.col("control")).drop_nulls("ratio")

    @cached_property
    def trials(self) -> pl.DataFrame:
        """As from `trial_times`, including controls: for everything that is not a comparison."""
        return trial_times(self.run.whole_time(self.study)) if self else NO_TRIALS

    @cached_property
    def lowest(self) -> pl.DataFrame:
        """The trials of an undisturbed machine (`trials.lowest`)."""
        return lowest(self.trials)

    @cached_property
    def trust(self) -> Trust:
        """The trust in the study as a whole."""
        if not self:
            return Trust(False, ("it was not measured",), self.declared)
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
    logs = [("ratio", "low", "high"), ("ratio", "q1", "q3"), ("ratio", "next_low", "next_high")]
    logs.append(("undisturbed", "undisturbed_low", "undisturbed_high"))
    turn = {
        name: 1 / pl.col(other)
        for value, low, high in logs
        for name, other in ((value, value), (low, high), (high, low))
    }
    back = turned(found).with_columns(
        **{name: other for name, other in turn.items() if name in found.columns},
        added_ns=-pl.col("added_ns"),
        added_low=-pl.col("added_high"),
        added_high=-pl.col("added_low"),
        verdict=pl.col("verdict").cast(pl.String).replace(_OPPOSITE).cast(VERDICTS),
        change=pl.lit(None, pl.String),
        smallest=pl.lit(None, pl.Float64),
        to_decide=pl.when(~pl.col("to_decide").str.starts_with(CONTRADICTED)).then("to_decide"),
    )
    return pl.concat([found, back.select(found.columns)])
