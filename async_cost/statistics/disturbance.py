"""What disturbed a measurement: load, stolen time and interruptions.

None of this decides whether a run is evidence; the A/A controls do (`judge`). It shows what they had to cope with.
"""

import polars as pl

from async_cost import words
from async_cost.runs.comparisons import KEY
from async_cost.runs.run import Run

#: The columns of `conditions`.
CONDITIONS = (
    {"sitting": pl.Int64, "study": pl.String}
    | dict.fromkeys(("rounds", "keys"), pl.Int64)
    | dict.fromkeys(("seconds", "load_before", "load_after", "steal", "interruptions"), pl.Float64)
    | dict.fromkeys(("resumed", "failed"), pl.Int64)
)


def conditions(run: Run) -> pl.DataFrame:
    """Return a row for each study of each sitting, in the order of measuring; unknown values are null.

    Columns: sitting, study, rounds, keys (how many were measured), seconds, load_before and load_after (average over a
    minute), steal (share of the processors' time), interruptions (how often in a second of measured time a thread lost
    its core involuntarily, to any other thread; null if the study does not record it), resumed (how often), failed
    (keys).
    Seconds and steal of a resumed study would include its break, so they are unknown.
    """
    rows = []
    for number, sitting in enumerate(run.sittings, 1):
        for study, details in sorted(sitting.info.studies.items(), key=lambda entry: entry[1].started):
            keys = sitting.time(study).select(KEY).n_unique()
            before, after = (load[0] if load else None for load in (details.load_before, details.load_after))
            disturbed = (
                sitting.seconds(study),
                before,
                after,
                steal_share(sitting, study),
                _interruptions(sitting, study),
            )
            rows.append((number, study, details.rounds, keys, *disturbed, details.resumed, len(details.failed)))
    return pl.DataFrame(rows, schema=CONDITIONS, orient="row")


def _interruptions(run: Run, study: str) -> float | None:
    noted = run.metrics(study).filter(metric="involuntary_switches")
    samples = noted.join(run.time(study), on=[*KEY, "round", "sample"])
    times, ns = noted.select(pl.col("value").sum()).item(), samples.select(pl.col("elapsed_ns").sum()).item()
    return times / (ns / 1e9) if ns else None


def steal_share(run: Run, study: str) -> float | None:
    """Share of all processor time between start and end that the host gave to others; None if unknown.

    For a resumed measurement it is unknown: the break is between the two readings, perhaps with a restart of the
    machine.
    """
    details, cores = run.study(study), run.info.machine.logical_cores
    before, after = details.steal_before_ms, details.steal_after_ms
    if details.resumed or before is None or after is None or details.ended is None or cores is None:
        return None
    seconds = words.seconds_between(details.started, details.ended)
    return (after - before) / 1000 / (seconds * cores) if seconds > 0 else None
