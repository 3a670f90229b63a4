"""The one table of comparisons: a row for each, from the raw samples of a run to a verdict.

It covers the whole run, since the controls of all its studies correct and are tested together. Pages, claims, the runs
of other machines and the headline are joins on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from async_cost.paths import runs_root
from async_cost.runs import series
from async_cost.runs.comparisons import BASE_KEY, DATA, KEY, SCHEMA
from async_cost.runs.find import not_as_announced, open_run, reference, reference_run
from async_cost.runs.run import Run
from async_cost.statistics.differences import PLACE, differences, speeds
from async_cost.statistics.interval import LEAST_EPISODES, estimates
from async_cost.statistics.judge import VERDICTS, judged
from async_cost.statistics.trials import ALONE, TOTALS, lowest, paired, trial_times, trial_values

#: What a side used, by its column: the metric.
USED = {"busy": "busy_threads", "cpu_ns": "cpu_ns"}
#: The columns of the table, in their order.
COLUMNS: dict[str, Any] = (
    {"study": pl.String}
    | SCHEMA
    | {"kind": pl.String}
    | dict.fromkeys(("ratio", "low", "high", "q1", "q3"), pl.Float64)
    | dict.fromkeys(("rounds", "episodes", "sittings"), pl.Int64)
    | dict.fromkeys(("freedom", "quantile", "undisturbed", "undisturbed_low", "undisturbed_high"), pl.Float64)
    | dict.fromkeys(("next_low", "next_high", "added_ns", "added_low", "added_high", "smallest"), pl.Float64)
    | dict.fromkeys(("omega2", "d0", "prior", "chance", "bias", "offset"), pl.Float64)
    | dict.fromkeys(("speed", "speed2"), pl.Float64)
    | dict.fromkeys((f"{side}{name}" for name in USED for side in ("", "baseline_")), pl.Float64)
    | {"doubt": pl.String, "verdict": VERDICTS, "to_decide": pl.String}
)
#: The number of a pair in the run: grouped faster than the words of its name. All studies are estimated at once: the
#: small steps of each would take longer than the samples.
BY = ("pair",)
#: What shares a variance between hours. Controls are by themselves: an hour moves equal code less.
POOL = ("study", "kind", "control")
HOURS = ("omega2", "d0")
#: A difference is a sum of both sides (`differences`).
PLACES, FACTORS = {"ns": "place0", "base": "place1"}, (1.0, -1.0)


@dataclass(frozen=True)
class Comparisons:
    """The table of a run, and by study how many samples (`rows`) it was computed from, and their time `elapsed_ns`.

    Columns of `frame`, study by study in the order of declaration: study; those of `runs.comparisons.SCHEMA`; kind (of
    the group); ratio (time of the key over that of its baseline), low, high (its interval: `interval.estimates`, as the
    controls correct it), q1, q3 (quartiles over rounds); rounds, episodes (processes that measured them), sittings;
    freedom (degrees of), quantile (half the width of the interval in standard errors); undisturbed, undisturbed_low,
    undisturbed_high (the ratio of the lowest deciles, null where threads meet); next_low, next_high (the interval of
    the mean of one other build in another hour, null where that is unknown); added_ns, added_low, added_high (what it
    adds to one unit of work); smallest (the least slowdown that would have been called slower); omega2, d0, prior (the
    variance between hours, the degrees of freedom of the prior, and the prior variance of a sitting, on the scale of
    logarithms; omega2 is null where the interval does not cover another hour); speed, speed2 (half the width of the
    interval of the machine's speed in the study, and its variance between hours: `differences`); busy, baseline_busy,
    cpu_ns, baseline_cpu_ns (of each side: threads, and processor time of a unit of work; null in a study that does not
    look); chance, bias, offset, doubt, verdict, to_decide
    (`judge.judged`). A key that failed has a row without numbers.
    """

    frame: pl.DataFrame
    rows: Mapping[str, int]
    elapsed_ns: Mapping[str, int]

    def of(self, study: str) -> pl.DataFrame:
        """Return the rows of one study."""
        return self.frame.filter(study=study)


def comparisons(run: Run) -> Comparisons:
    """Return the table of `run`, made once in a process from the same files."""
    outside = (DATA / "comparisons.csv", runs_root() / "REFERENCE", runs_root() / "ANNOUNCED")
    inside = (path for sitting in series.folders(run.path) for path in sorted(sitting.iterdir()))
    states = ((path, path.lstat()) for path in (*filter(Path.is_file, outside), *inside))
    return _of_files(run.path, tuple((path.name, state.st_size, state.st_mtime_ns) for path, state in states))


@lru_cache(maxsize=64)
def _of_files(folder: Path, files: tuple) -> Comparisons:
    """The table of the run in `folder`, whose files are in this state: each page wants it study by study."""
    return make(open_run(folder))  # the files as they are now, whatever was read of them before


def make(run: Run) -> Comparisons:
    """Compute the table from the raw samples."""
    parts = list[tuple[pl.DataFrame, ...]]()
    rows, elapsed_ns, used = {}, {}, []
    for study in run.info.studies:
        alone = run.uncached()  # the samples of one study are let go before those of the next are read
        time = alone.time(study)
        rows[study], elapsed_ns[study] = time.height, time.select(pl.col("elapsed_ns").sum()).item()
        parts.append(rounds_of(alone, study, sum(declared.height for declared, *_ in parts)))
        used.append(_used(alone, study, parts[-1][0]))
    declared, rounds, low, speed = (pl.concat(some) for some in zip(*parts, strict=True))
    estimated = _estimated(declared, rounds, low, speed, _known_hours(run))
    smallest = (pl.col("high") / pl.col("low")).sqrt() * (1 + pl.col("limit")) - 1
    frame = judged(estimated, run.info.profile, not_as_announced(run)).with_columns(smallest=smallest)
    frame = frame.join(pl.concat(used), on=BY, how="left", maintain_order="left")
    return Comparisons(frame.select(*COLUMNS), rows, elapsed_ns)


def _used(run: Run, study: str, declared: pl.DataFrame) -> pl.DataFrame:
    """What both sides of each pair used while they were timed: pair, and both columns of each of `USED`."""
    table = declared.select(*BY)
    for name, metric in USED.items():
        units = run.units(study) if metric in TOTALS else run.units(study).clear()
        # Of all metrics, as a run is used entirely or not at all.
        sides = paired(trial_values(run, study, metric).rename({"value": "ns"}), declared, units, BY)
        medians = sides.group_by(BY).agg(pl.median("ns").alias(name), pl.median("base").alias(f"baseline_{name}"))
        table = table.join(medians, on=BY, how="left", maintain_order="left")
    return table


def rounds_of(run: Run, study: str, first: int) -> tuple[pl.DataFrame, ...]:
    """Return the comparisons of a study, with the kind of their group, their number in the run, from `first` on, and
    whether the order of linking was drawn for each process; their rounds, with the speed of each; the ratios of the
    lowest deciles of work on one thread; and the speeds by themselves.
    """
    details, units = run.study(study), run.units(study)
    kind = pl.col("group").replace_strict(details.kinds, return_dtype=pl.String)
    drawn = all(episode.layout is not None for episode in details.episodes)
    declared = run.comparisons(study).with_row_index("pair", first)
    declared = declared.with_columns(study=pl.lit(study), kind=kind, drawn=pl.lit(drawn))
    trials = trial_times(run.whole_time(study))
    several = pl.len().over(BY) > 1  # one round has no interval
    low = paired(lowest(trials), declared.filter(kind=ALONE), units, BY)
    speed = speeds(trials)
    rounds = paired(trials, declared, units, BY).filter(several).join(speed, on=PLACE, maintain_order="left")
    return declared, rounds, low.filter(several), speed.filter(pl.len() > 1).with_columns(study=pl.lit(study))


def _estimated(
    declared: pl.DataFrame, rounds: pl.DataFrame, low: pl.DataFrame, speed: pl.DataFrame, known: pl.DataFrame
) -> pl.DataFrame:
    """The comparisons of a run with their numbers, before any correction by controls: the input of `judge.judged`."""
    pools = _pools(declared, rounds, known)
    ratios = estimates(rounds, "log_ratio", BY, pools)
    declared = declared.join(_speeds(speed, known), on="study", how="left", maintain_order="left")
    both = rounds.rename(PLACES).join(declared.select(*BY, unsure="speed"), on=BY, maintain_order="left")
    added = differences(
        both, FACTORS, BY, pools.drop(HOURS).join(ratios.select(*BY, *HOURS), on=BY, maintain_order="left")
    )
    added = added.select(*BY, added_ns="value", added_low="low", added_high="high", unit_ns="larger")
    deciles = estimates(low, "log_ratio", BY, pools).filter(pl.col("episodes") >= LEAST_EPISODES)
    deciles = deciles.select(*BY, undisturbed="log_ratio", undisturbed_low="low", undisturbed_high="high")
    table = declared
    for more in (ratios, deciles, added):
        table = table.join(more, on=BY, how="left", maintain_order="left")
    other = (pl.col("error") ** 2 + pl.col("omega2") + pl.col("within")).sqrt() * pl.col("quantile")
    other = pl.when("drawn").then(other)
    table = table.with_columns(next_low=pl.col("log_ratio") - other, next_high=pl.col("log_ratio") + other)
    logs = ("log_ratio", "low", "high", "q1", "q3", "undisturbed", "undisturbed_low", "undisturbed_high")
    table = table.with_columns(
        pl.col(*logs, "next_low", "next_high").exp(),
        chance=pl.when("control").then("chance"),
    )
    return table.rename({"log_ratio": "ratio"}).drop("drawn")


def _pools(declared: pl.DataFrame, rounds: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """What `interval.estimates` moderates together, by pair. What one sitting cannot know comes from `known`."""
    measured = declared.join(rounds, on=BY, how="semi")
    sides = [measured.select(*POOL, key=pl.concat_str(*names, separator="\0")) for names in (KEY, BASE_KEY)]
    keys = pl.concat(sides).group_by(POOL).agg(keys=pl.col("key").n_unique())
    once = rounds.group_by(BY).agg(once=pl.col("sitting").n_unique() == 1)
    pools = declared.select(*BY, *POOL)
    for more, on in ((keys, POOL), (once, BY), (known, POOL)):
        pools = pools.join(more, on=on, how="left", maintain_order="left")
    of_one = (pl.when("once").then(name).alias(name) for name in HOURS)
    return pools.select(*BY, "keys", *of_one, pool=pl.struct(POOL).rank("dense"))


def _speeds(speed: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """By study: speed and speed2, as in the table. What one sitting cannot know comes from `known`."""
    known = known.group_by("study").agg(omega2=pl.col("speed2").first(), d0=pl.col("hours").first())
    pools = speed.group_by("study").agg(once=pl.col("sitting").n_unique() == 1).join(known, on="study", how="left")
    of_one = (pl.when("once").then(name).alias(name) for name in HOURS)
    pools = pools.select("study", *of_one, keys=2, pool=pl.col("study").rank("dense"))
    half = (pl.col("high") - pl.col("low")) / 2
    return estimates(speed, "speed", ("study",), pools).select("study", speed=half, speed2="omega2")


def covers_hours(run: Run, study: str) -> bool:
    """Say whether the intervals of a study cover another hour."""
    measured = comparisons(run).of(study).filter(~pl.col("control"), pl.col("episodes") >= LEAST_EPISODES)
    return measured.height > 0 and measured["omega2"].null_count() == 0


def _known_hours(run: Run) -> pl.DataFrame:
    """What the reference shows of hours on this machine: POOL, HOURS, speed2, and hours, the degrees of freedom of
    speed2. No rows where it shows none, or `run` is the reference. Raises `DataError` for a damaged reference.
    """
    name = reference()
    if name.rpartition("/")[0] == run.info.machine.name and name != run.info.run_id:
        other = reference_run()
        mine, its = run.info.machine, other.info.machine
        if (mine.cpu, mine.caches) == (its.cpu, its.caches) and len(other.sittings) > 1:
            shown = comparisons(other).frame.drop_nulls("omega2")
            return shown.group_by(POOL).agg(pl.col(*HOURS, "speed2").first(), hours=pl.col("sittings").max() - 1.0)
    return pl.DataFrame(schema={name: COLUMNS[name] for name in (*POOL, *HOURS, "speed2")} | {"hours": pl.Float64})
