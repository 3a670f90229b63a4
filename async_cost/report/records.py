"""What the records of a run say: what disturbed it, what was found out since, and how far it may be relied on, in
Markdown. Words from the run are escaped.
"""

from collections.abc import Collection
from itertools import chain

from async_cost import words
from async_cost.findings import names
from async_cost.runs import errata as known
from async_cost.runs.comparisons import HEADLINES
from async_cost.runs.find import announced
from async_cost.runs.judged import findings_of_today, seen_by
from async_cost.runs.profiles import NOT_EVIDENCE, QUIET_LOAD
from async_cost.runs.run import Run
from async_cost.statistics.disturbance import steal_share
from async_cost.statistics.interval import LEAST_EPISODES
from async_cost.statistics.measured import Measured
from async_cost.statistics.table import comparisons, covers_hours

#: Least share of the machine's time taken by other guests that deserves a remark.
STEAL_SHARE = 0.01
#: Reasons for refused groups of a study that are named; of more, only the number.
NAMED = 3


def errata(run: Run, study: str) -> list[str]:
    """What was found out about the run after it was measured (data/errata.csv), as sentences."""
    return known.errata(run.info.run_id, study)["statement"].unique(maintain_order=True).to_list()


def remarks(run: Run, study: str) -> list[str]:
    """What the records say of disturbances, failures and gaps, sitting by sitting, and what was found out since."""
    details, machine = run.study(study), run.info.machine
    sittings = [one for one in run.sittings if study in one.info.studies]
    found = errata(run, study)
    if len(details.episodes) < LEAST_EPISODES:
        number = words.counted(len(details.episodes), "process")
        found.append(
            f"It was measured by {number}, so its intervals do not cover what differs from process to process."
        )
    for place, one in enumerate(sittings, 1):
        in_sitting = f"Sitting {place}: " if len(sittings) > 1 else ""
        found += [f"{in_sitting}{said}" for said in _conditions(one, study)]
    first, *further = (one.counts(study) for one in sittings)
    # A further sitting counts only what proves that work is equal.
    if any(one.join(first, on=first.columns, how="anti").height for one in further):
        found.append("Exact counts differ between sittings; those of the first are shown.")
    if machine.virtualisation not in (None, "none"):
        found.append(f"The machine is virtual ({words.escape(machine.virtualisation)}).")
    for counter, variants in run.not_counted(study).items():
        found.append(f"The {words.code(counter)} of {words.counted(variants, 'variant')} could not be counted.")
    for entry in details.failed:
        name = words.key({"bench": entry.bench, "variant": entry.variant, "parameter": entry.parameter})
        found.append(f"{name} failed and is missing or incomplete: {words.escape(entry.error)}.")
    return found


def _conditions(run: Run, study: str) -> list[str]:
    """What disturbed one sitting, and whether it is known what it measured, as sentences."""
    details, machine, found = run.study(study), run.info.machine, []
    if (share := steal_share(run, study)) is not None and share >= STEAL_SHARE:
        stolen = f"{words.number(100 * share)}{words.PERCENT}"
        found.append(f"Other guests of the host took {stolen} of the processor time (steal).")
    if details.load_before and machine.logical_cores and details.load_before[0] / machine.logical_cores > QUIET_LOAD:
        found.append(f"The machine was not idle before the run: load {words.number(details.load_before[0])}.")
    if details.resumed:
        times = "once" if details.resumed == 1 else words.counted(details.resumed, "time")
        found.append(f"The measurement was interrupted and resumed {times}.")
    if run.info.git is None or run.info.git.clean is None:
        found.append("It is not known which revision was measured.")
    elif not run.info.git.clean:
        found.append("The measured code had uncommitted changes.")
    return found


def ended_early(run: Run) -> str:
    """That a series has fewer sittings than announced, and why, as a sentence; else nothing."""
    found = announced(run)
    if found is None or not found.why:
        return ""
    planned, measured = words.numeral(found.sittings).capitalize(), words.numeral(found.ended_with)
    return f"{planned} sittings were announced and {measured} measured: {words.escape(found.why)}."


def findings_tested(run: Run) -> str:
    """Whether the findings and their limits stood as they are before `run` was measured, as a sentence."""
    hashes = findings_of_today()
    tested = sum(hash in seen_by(run, "findings") for hash in hashes.values())
    if not tested:
        return "This run is no test of the findings: they may have been written after it was seen."
    if tested == len(hashes):
        return "The findings and their limits stood as they are before the first round, so this run tests them."
    return (
        f"This run tests {tested} of {len(hashes)} findings, whose limits stood as they are before its first round; those that "
        "were written or changed since say so."
    )


def covers(run: Run) -> str:
    """What the intervals of a run are for."""
    if any(len(one.episodes) < LEAST_EPISODES for one in run.info.studies.values()):
        return "for the very processes of this run: they cover neither another build nor another hour"
    hours = all(covers_hours(run, study) for study in run.info.studies)
    drawn = all(episode.layout is not None for one in run.info.studies.values() for episode in one.episodes)
    if drawn and hours:
        return "for the average link order and hour on this machine: a single build may lie further off"
    if drawn:
        return "for the average link order on this machine in the hour of the run: a single build may lie further off, and so may another hour"
    if hours:
        return "for this build on this machine, in any hour: they do not cover another build"
    return "for this build on this machine, in the hour of the run: they cover neither another build nor another hour"


def next_build(run: Run, study: str) -> str:
    """What a single build will show of the first headline of a study, in Markdown; nothing where that is unknown."""
    for of, variant, other, parameter in HEADLINES if study in run.info.studies and covers_hours(run, study) else ():
        named = {"variant": variant, "baseline_variant": other, "parameter": parameter}
        rows = comparisons(run).of(study).filter(**named).drop_nulls("next_low")
        if of == study and rows.height:
            ends = words.with_ends(rows["ratio"][0], rows["next_low"][0], rows["next_high"][0], 1.0)[1]
            sides = f"{names.name(study, variant)} over {names.name(study, other)}"
            return f"One build, built and measured anew, 95 %: {ends} times, of {sides}."
    return ""


def banner(run: Run, studies: Collection[str]) -> tuple[bool, str]:
    """How far `run` may be relied on for `studies`, without those that it lacks, and without its profile: whether
    anything that they hold is judged; what is not and why, and what was found out about the run since.
    """
    tables = [Measured(run, study) for study in studies if study in run.info.studies]
    judged = any(measured.declared["doubt"].is_null().any() for measured in tables) or not tables
    known = [f"Known since: {erratum}" for measured in tables for erratum in errata(run, measured.study)]
    refused = [] if run.info.profile in NOT_EVIDENCE else filter(None, map(refused_groups, tables))
    return judged, " ".join([*refused, *known])


def refused_groups(measured: Measured) -> str:
    """Which groups of a study are refused and why; nothing where none is."""
    refused, groups = measured.refused, measured.declared["group"].n_unique()
    if not refused:
        return ""
    reasons = list(dict.fromkeys(chain(*refused.values())))
    further = len(reasons) - NAMED
    named = [*reasons[:NAMED], *([words.counted(further, "further reason")] if further > 0 else [])]
    which = "" if len(refused) == groups else f"{len(refused)} of {groups} groups of "
    return f"Not judged: {which}{words.code(measured.study)}, because {words.listing(named)}."
