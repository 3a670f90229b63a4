"""One study of a run, ready to be asked how two of its variants compare.

A run may lack a study that a notebook also reads. That one has no trials and no trust: every question to it gets an empty
frame, which the words call not measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import polars as pl

from async_cost.runs.comparisons import SCHEMA
from async_cost.runs.run import KEY, Run
from async_cost.statistics.estimate import added_time, between, estimates, paired_ratios, trial_times
from async_cost.statistics.trust import Trust, trust
from async_cost.statistics.verdict import EQUIVALENCE, with_verdicts

NO_TRIALS = pl.DataFrame(
    schema=dict.fromkeys(KEY, pl.String) | {"round": pl.Int64, "position": pl.Int64, "ns": pl.Float64}
)
NO_PAIRS = pl.DataFrame(schema=SCHEMA)


@dataclass(frozen=True)
class Measured:
    """`trials` as from `trial_times`; `trust` in this study, by its own controls; `requests` served by one iteration (1 where the study
    serves none); `pairs` as from `Run.pairs`; `groups`, the trust in each group of comparisons by itself."""

    trials: pl.DataFrame
    trust: Trust
    requests: int
    pairs: pl.DataFrame = field(default_factory=NO_PAIRS.clone)
    groups: Mapping[str, Trust] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, study: str) -> Self:
        """`study` as measured by `run`, or nothing."""
        if study not in run.info.studies:
            return cls(NO_TRIALS, Trust(False, ("it was not measured",), (), NO_TRIALS.clear()), 1)
        trials, pairs, judged = trial_times(run.whole_time(study)), run.pairs(study), trust(run, study)
        names = pairs["group"].unique().sort()
        # Most studies have one group, and what holds for all holds for it.
        groups = {name: judged if names.len() == 1 else trust(run, study, group=name) for name in names}
        serves = run.counts(study).filter(counter="transactions").height
        return cls(trials, judged, run.requests(study) if serves else 1, pairs, groups)

    def __bool__(self) -> bool:
        return not self.trials.is_empty()

    def compare(self, variant: str, other: str) -> pl.DataFrame:
        """Ratio and verdict of one variant against another, for each parameter: as `estimates`, and verdict.

        A difference matters from the wider limit of the groups on in which the two are compared.
        """
        theirs = self.pairs.filter(pl.col("variant").is_in([variant, other])).group_by("parameter")
        limits = theirs.agg(pl.col("limit").max())
        estimated = estimates(between(self.trials, variant, other)).join(limits, on="parameter", how="left")
        return with_verdicts(estimated, self.trust, pl.col("limit").fill_null(EQUIVALENCE)).drop("limit")

    def compared(self) -> pl.DataFrame:
        """Every comparison that the study declared and the run measured, judged by its group's limit and controls.

        Columns: those of `estimates`, of `pairs`, and verdict (null where the group's controls do not hold).
        """
        return self.judged(estimates(paired_ratios(self.trials, self.pairs)).join(self.pairs, on=KEY)).sort(KEY)

    def judged(self, estimated: pl.DataFrame) -> pl.DataFrame:
        """Adds verdict to ratios (low, high) in groups (group, limit): by the limit and the controls of each row's group."""
        parts = [with_verdicts(estimated.clear(), self.trust)]
        parts += [
            with_verdicts(part, self.groups[group], pl.col("limit"))
            for (group,), part in estimated.group_by("group", maintain_order=True)
        ]
        return pl.concat(parts)

    def added(self, variant: str, other: str) -> pl.DataFrame:
        """Nanoseconds that one variant adds to a request of another, for each parameter: as `added_time`."""
        return added_time(between(self.trials, variant, other), self.requests)
