"""One study of a run, ready to be asked how two of its variants compare.

A run may lack a study that a notebook also reads. That one has no trials and no trust: every question to it gets an empty
frame, which the words call not measured.
"""

from dataclasses import dataclass
from typing import Self

import polars as pl

from async_cost.estimate import added_time, between, estimates, trial_times
from async_cost.load import KEY, Run
from async_cost.trust import Trust, trust
from async_cost.verdict import with_verdicts

NO_TRIALS = pl.DataFrame(
    schema=dict.fromkeys(KEY, pl.String) | {"round": pl.Int64, "position": pl.Int64, "ns": pl.Float64}
)


@dataclass(frozen=True)
class Measured:
    """`trials` as from `trial_times`; `trust` in this study, by its own controls; `requests` served by one iteration."""

    trials: pl.DataFrame
    trust: Trust
    requests: int

    @classmethod
    def of(cls, run: Run, study: str) -> Self:
        """`study` as measured by `run`, or nothing."""
        if study not in run.info.studies:
            return cls(NO_TRIALS, Trust(False, ("it was not measured",), (), NO_TRIALS.clear()), 1)
        return cls(trial_times(run.whole_time(study)), trust(run, study), run.requests(study))

    def __bool__(self) -> bool:
        return not self.trials.is_empty()

    def compare(self, variant: str, other: str) -> pl.DataFrame:
        """Ratio and verdict of one variant against another, for each parameter: as `estimates`, and verdict."""
        return with_verdicts(estimates(between(self.trials, variant, other)), self.trust)

    def added(self, variant: str, other: str) -> pl.DataFrame:
        """Nanoseconds that one variant adds to a request of another, for each parameter: as `added_time`."""
        return added_time(between(self.trials, variant, other), self.requests)
