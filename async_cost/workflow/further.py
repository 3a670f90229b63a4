"""Choose what a run measures after the episodes that every study gets: comparisons that a claim or a headline needs and
that are still undecided.

    python -m async_cost.workflow.further data/runs/.partial/<id> <share>

The run is judged once before and once after, and the intervals of what may be chosen allow for that (`looks` of a
comparison). Every chosen key gets as many further episodes as it had, so the second look has a fixed size; each has
more rounds if the rounds of one process differ more than the processes do. The cheapest come first, until the measuring
time is used up; what would stay open even then is left out. Writes `further.json` into the partial run (see
`async_cost.workflow.episodes`) and says what it chose.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from async_cost.errors import DataError
from async_cost.literature.replication import outcomes
from async_cost.runs.comparisons import BASE_KEY, HEADLINES, KEY, PAIR
from async_cost.runs.run import Run, open_run
from async_cost.statistics.closing import of_comparison_closing
from async_cost.statistics.interval import LEAST_EPISODES, after_looks, quantile, trimmed
from async_cost.statistics.measured import Measured
from async_cost.statistics.ratios import paired
from async_cost.statistics.statement import Outcome
from async_cost.statistics.trials import compared
from async_cost.workflow.episodes import done_episodes, further_file, seconds_by_study, write_json

#: How many times the rounds of an episode a further one may have.
MORE_ROUNDS = (1, 2, 4)

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Open:
    """A question that a run leaves open: its name, the keys that it is about, and how many times the measuring time it
    takes in total to close it.
    """

    name: str
    study: str
    keys: tuple[Key, ...]
    times: float


@dataclass
class Chosen:
    """What is measured further in a study: these keys, in episodes with a multiple of the usual rounds."""

    keys: set[Key]
    more: int


def open_questions(run: Run) -> Iterator[Open]:
    """The claims and headlines that are undecided in `run` and that more time is predicted to decide."""
    for outcome in outcomes(run):
        weighed, claim = outcome.published, outcome.claim
        if weighed.outcome is Outcome.UNDECIDED and weighed.closing and math.isfinite(weighed.closing.times):
            operands = [operand for case in claim.cases(claim.faithful) for place in case for operand in place]
            keys = tuple(dict.fromkeys(operand.key for operand in operands))
            yield Open(claim.id, operands[0].study, keys, weighed.closing.times)
    for headline in HEADLINES:
        rows = Measured.of(run, headline.study).comparisons.filter(
            variant=headline.variant, baseline_variant=headline.other, parameter=headline.parameter
        )
        for row in rows.iter_rows(named=True):
            found = of_comparison_closing(row, None)
            if found and math.isfinite(found.times):
                keys = tuple(tuple(row[name] for name in names) for names in (KEY, BASE_KEY))
                yield Open(headline.label, headline.study, keys, found.times)


def with_controls(run: Run, question: Open) -> set[Key]:
    """Its keys, and the controls of the groups in which they are compared, which must be measured with them."""
    declared = Measured.of(run, question.study).declared.filter(pl.col("ratio").is_not_null())
    keys = pl.DataFrame(list(question.keys), schema=dict.fromkeys(KEY, pl.String), orient="row")
    groups = declared.join(keys, on=KEY, how="semi").select("group").unique()
    controls = declared.filter("control").join(groups, on="group", how="semi")
    twins = {tuple(row) for names in (KEY, BASE_KEY) for row in controls.select(names).iter_rows()}
    return {*question.keys, *twins}


class Costs:
    """Seconds that a study takes: `start` for an episode before its first trial, `trial` for each key."""

    def __init__(self, run: Run, study: str, seconds: list[float]) -> None:
        details = run.study(study)
        warm_up = 1.5 * details.warm_up_ns  # it doubles its iterations until it is over
        trials = run.time(study).group_by(*KEY, "round").agg(pl.col("elapsed_ns").sum())
        trials = trials.group_by(KEY).agg((pl.col("elapsed_ns").median() + warm_up) / 1e9)
        self.trial: dict[Key, float] = {tuple(row[:-1]): row[-1] for row in trials.iter_rows()}
        self.episodes, self.rounds = len(details.episodes), details.rounds
        measuring = sum(self.trial.values()) * self.rounds
        self.start = max(sum(seconds) - measuring, 0.0) / max(len(seconds), 1)

    @property
    def usual(self) -> int:
        """Rounds of an episode."""
        return max(1, round(self.rounds / self.episodes))

    def seconds(self, chosen: Chosen) -> float:
        """What all further episodes of `chosen` take."""
        trials = sum(self.trial.get(key, 0.0) for key in chosen.keys)
        return self.episodes * (self.start + trials * self.usual * chosen.more)


def share_within(run: Run, question: Open) -> float:
    """The share of the variance of an episode's value that is due to its rounds, from 0 to 1; 1 if it is unknown.

    The rounds of an episode are dealt into two halves in turn, each of which has a value. Half their difference varies
    as their mean does within episodes. Both variances are those of trimmed values, as in the interval.
    """
    measured, (one, other) = Measured.of(run, question.study), question.keys[:2]
    pair = pl.DataFrame([(*one, *other)], schema=dict.fromkeys(PAIR, pl.String), orient="row")
    dealt = (measured.trials.filter(pl.col("round") % 2 == turn) for turn in (0, 1))
    first, second = (
        paired(compared(trials, run.study(question.study).kinds.values()), pair)
        .group_by("episode")
        .agg(pl.col("log_ratio").median())
        for trials in dealt
    )
    halves = first.join(second, on="episode")
    if halves.height < LEAST_EPISODES:
        return 1.0
    both, apart = (
        (pl.col("log_ratio") + pl.col("log_ratio_right")) / 2,
        (pl.col("log_ratio") - pl.col("log_ratio_right")) / 2,
    )
    halves = halves.select("episode", log_ratio=both, apart=apart)
    errors = {
        name: trimmed(halves.with_columns(of=pl.lit("")), name, ["of"])["error"].item()
        for name in ("log_ratio", "apart")
    }
    return min(1.0, (errors["apart"] / errors["log_ratio"]) ** 2) if errors["log_ratio"] else 1.0


def gain(within: float, more: int, episodes: int) -> float:
    """How many times the measuring time it is worth to have as many episodes again, with `more` times the rounds: by
    the variance of their mean.

    A t interval over more episodes is also shorter because their spread is known better.
    """
    variance = 4 / (1 + (1 - within) + within / more)
    now, then = (quantile(number, after_looks(2)) for number in (episodes, 2 * episodes))
    return variance * (now / then) ** 2


def choose(run: Run, seconds: dict[str, list[float]], share: float) -> tuple[dict[str, Chosen], dict[str, float]]:
    """What to measure further in each study, and the seconds that it takes: at most `share` of the measuring time so
    far.

    `seconds` are those of the episodes of each study.
    """
    costs = {study: Costs(run, study, seconds[study]) for study in run.info.studies if seconds.get(study)}
    budget = share * sum(map(sum, seconds.values()))
    wanted = []
    for question in open_questions(run):
        cost = costs.get(question.study)
        if cost is None or cost.episodes < LEAST_EPISODES or len(question.keys) < 2:
            continue
        within = share_within(run, question)
        enough = (more for more in MORE_ROUNDS if gain(within, more, cost.episodes) >= question.times)
        if more := next(enough, None):
            keys = with_controls(run, question)
            wanted.append((cost.seconds(Chosen(keys, more)), question.study, keys, more))
    chosen: dict[str, Chosen] = {}
    for _, study, keys, more in sorted(wanted, key=lambda one: one[0]):
        before = chosen.get(study, Chosen(set(), 1))
        taken = {**chosen, study: Chosen(before.keys | keys, max(before.more, more))}
        if sum(costs[name].seconds(one) for name, one in taken.items()) <= budget:
            chosen = taken
    return chosen, {study: costs[study].seconds(one) for study, one in chosen.items()}


def has_more(run: Run) -> bool:
    """Whether something was already measured further."""
    return any(episode.only for details in run.info.studies.values() for episode in details.episodes)


def plan(run: Run, chosen: dict[str, Chosen], seconds: dict[str, float]) -> dict[str, dict]:
    """`chosen` as `further.json` holds it: by study `only` (keys), `until` (the rounds at which the further episodes
    end), `seconds`.
    """
    told = {}
    for study, one in chosen.items():
        details = run.study(study)
        episodes = len(details.episodes)
        rounds = max(1, round(details.rounds / episodes)) * one.more
        until = [details.rounds + rounds * number for number in range(1, episodes + 1)]
        told[study] = {"only": sorted(one.keys), "until": until, "seconds": seconds[study]}
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("partial", type=Path)
    parser.add_argument("share", type=float, help="of the measuring time so far")
    arguments = parser.parse_args()
    try:
        told: dict[str, dict] = {}
        run = open_run(arguments.partial)
        # There are two looks, so what was measured further already is all.
        if arguments.share and not has_more(run):
            seconds = seconds_by_study(done_episodes(arguments.partial))
            told = plan(run, *choose(run, seconds, arguments.share))
    except DataError as error:
        print(error, file=sys.stderr)
        return 1
    for study, one in told.items():
        print(f"{study}: {len(one['only'])} keys, {len(one['until'])} episodes, about {one['seconds']:.0f} s")
    write_json(further_file(arguments.partial), told)
    return 0


if __name__ == "__main__":
    sys.exit(main())
