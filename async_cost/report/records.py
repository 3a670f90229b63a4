"""What the records of a run say of disturbances, errata and how far it may be relied on, in Markdown."""

from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from async_cost import words
from async_cost.findings import names
from async_cost.runs import errata as known
from async_cost.runs.comparisons import HEADLINES
from async_cost.runs.find import announced
from async_cost.runs.judged import findings_of_today, seen_by
from async_cost.runs.profiles import NOT_EVIDENCE, QUIET_LOAD
from async_cost.runs.run import Run
from async_cost.statistics.interval import LEAST_EPISODES
from async_cost.statistics.measured import Measured
from async_cost.statistics.table import comparisons, covers_hours

#: Least share of the machine's time taken by other guests that deserves a remark.
STEAL_SHARE = 0.01
#: Reasons of a study's groups that are named; of more, only the number.
NAMED = 3


def errata(run: Run, study: str) -> list[str]:
    """Return what was found out about a study of a run after it was measured (data/errata.csv), as sentences."""
    return known.errata(run.info.run_id, study)["statement"].unique(maintain_order=True).to_list()


def remarks(run: Run, study: str) -> list[str]:
    """Return what the records of a study say of disturbances, failures and gaps, sitting by sitting, and its errata."""
    details, virtual = run.study(study), run.info.machine.virtualisation
    sittings = [sitting for sitting in run.sittings if study in sitting.info.studies]
    sentences = errata(run, study)
    if len(details.episodes) < LEAST_EPISODES:
        number = words.counted(len(details.episodes), "process")
        sentences.append(
            f"It was measured by {number}, so its intervals do not cover what differs from process to process."
        )
    for place, sitting in enumerate(sittings, 1):
        where = f"Sitting {place}: " if len(sittings) > 1 else ""
        sentences += [f"{where}{condition}" for condition in _conditions(sitting, study)]
    first, *further = (sitting.counts(study) for sitting in sittings)
    # A further sitting counts only what proves that work is equal.
    if any(counts.join(first, on=first.columns, how="anti").height for counts in further):
        sentences.append("Exact counts differ between sittings; those of the first are shown.")
    if virtual not in (None, "none"):
        sentences.append(f"The machine is virtual ({words.escape(virtual)}).")
    for counter, variants in run.not_counted(study).items():
        sentences.append(f"The {words.code(counter)} of {words.counted(variants, 'variant')} could not be counted.")
    for entry in details.failed:
        name = words.key({"bench": entry.bench, "variant": entry.variant, "parameter": entry.parameter})
        sentences.append(f"{name} failed and is missing or incomplete: {words.escape(entry.error)}.")
    return sentences


def _conditions(run: Run, study: str) -> Iterator[str]:
    """What disturbed one sitting, and whether it is known what it measured, as sentences."""
    details, cores, git = run.study(study), run.info.machine.logical_cores, run.info.git
    if (share := _steal_share(run, study)) is not None and share >= STEAL_SHARE:
        stolen = f"{words.number(100 * share)}{words.PERCENT}"
        yield f"Other guests of the host took {stolen} of the processor time (steal)."
    if details.load_before and cores and details.load_before[0] / cores > QUIET_LOAD:
        yield f"The machine was not idle before the run: load {words.number(details.load_before[0])}."
    if details.resumed:
        times = "once" if details.resumed == 1 else words.counted(details.resumed, "time")
        yield f"The measurement was interrupted and resumed {times}."
    if git is None or git.clean is None:
        yield "It is not known which revision was measured."
    elif not git.clean:
        yield "The measured code had uncommitted changes."


def _steal_share(run: Run, study: str) -> float | None:
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


def ended_early(run: Run) -> str:
    """Return why a series has fewer sittings than announced, as a sentence; else nothing."""
    plan = announced(run)
    if plan is None or not plan.why:
        return ""
    planned, measured = words.numeral(plan.sittings).capitalize(), words.numeral(plan.ended_with)
    return f"{planned} sittings were announced and {measured} measured: {words.escape(plan.why)}."


def findings_tested(run: Run) -> str:
    """Return whether the findings and their limits stood as they are before `run` was measured, as a sentence."""
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
    """Say what the intervals cover: other builds, other hours, or only these processes."""
    studies = run.info.studies
    if any(len(study.episodes) < LEAST_EPISODES for study in studies.values()):
        return "for the very processes of this run: they cover neither another build nor another hour"
    hours = all(covers_hours(run, study) for study in studies)
    drawn = all(episode.layout is not None for study in studies.values() for episode in study.episodes)
    if drawn and hours:
        return "for the average link order and hour on this machine: a single build may lie further off"
    if drawn:
        return "for the average link order on this machine in the hour of the run: a single build may lie further off, and so may another hour"
    if hours:
        return "for this build on this machine, in any hour: they do not cover another build"
    return "for this build on this machine, in the hour of the run: they cover neither another build nor another hour"


def next_build(run: Run, study: str) -> str:
    """Return what a single build will show of the first headline of a study; nothing where that is unknown."""
    for its_study, variant, other, parameter in (
        HEADLINES if study in run.info.studies and covers_hours(run, study) else ()
    ):
        pair = {"variant": variant, "baseline_variant": other, "parameter": parameter}
        rows = comparisons(run).of(study).filter(**pair).drop_nulls("next_low")
        if its_study == study and rows.height:
            ratio, low, high = rows.select("ratio", "next_low", "next_high").row(0)
            ends = words.with_ends(ratio, low, high, 1.0)[1]
            sides = f"{names.name(study, variant)} over {names.name(study, other)}"
            return f"One build, built and measured anew, 95 %: {ends} times, of {sides}."
    return ""


def banner(run: Run, studies: Collection[str]) -> tuple[bool, str]:
    """Return whether anything is judged of those of `studies` that the run holds; and what is not, or with wider
    intervals, and why, with the errata of the run.
    """
    tables = [Measured(run, study) for study in studies if study in run.info.studies]
    judged = any(measured.declared["doubt"].is_null().any() for measured in tables) or not tables
    known = [f"Known since: {erratum}" for measured in tables for erratum in errata(run, measured.study)]
    controlled = [] if run.info.profile in NOT_EVIDENCE else chain.from_iterable(map(exceptions, tables))
    return judged, " ".join([*controlled, *known])


def exceptions(measured: Measured) -> Iterator[str]:
    """Yield which groups of a study are not judged, which with wider intervals than others, and why."""
    for what, why in (("Not judged", measured.refused), ("With wider intervals", measured.widened)):
        if why:
            yield f"{what}: {_groups(measured, why)}."


def _groups(measured: Measured, why: Mapping[str, list[str]]) -> str:
    groups, reasons = measured.declared["group"].n_unique(), list(dict.fromkeys(chain(*why.values())))
    further = len(reasons) - NAMED
    named = [*reasons[:NAMED], *([words.counted(further, "further reason")] if further > 0 else [])]
    which = "" if len(why) == groups else f"{len(why)} of {groups} groups of "
    return f"{which}{words.code(measured.study)}, because {words.listing(named)}"
