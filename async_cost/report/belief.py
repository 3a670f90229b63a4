"""What a page says about the run that it reads: which one it is, how far it may be believed, and what disturbed it.
Markdown, with words from the run escaped.
"""

import math

import polars as pl

from async_cost import words
from async_cost.paths import repository_root
from async_cost.runs.run import Run
from async_cost.statistics.disturbance import steal_share
from async_cost.statistics.interval import LEAST_EPISODES
from async_cost.statistics.measured import Measured

#: Least share of the machine's time taken by other guests that deserves a remark.
STEAL_SHARE = 0.01
#: Least number of processes per core waiting before the run that deserves a remark.
BUSY_LOAD = 0.5


def origin(run: Run, study: str) -> str:
    """Which run this is: id, profile, rounds, machine and compiler, as one sentence in Markdown."""
    details, machine = run.study(study), run.info.machine
    cores = "cores" if machine.logical_cores is None else words.counted(machine.logical_cores, "logical core")
    how = {"notebook": "measured from the notebook", "native": "measured by cargo bench"}[run.info.origin]
    measured = words.counted(details.rounds, "round")
    if len(details.episodes) > 1:
        measured += f" by {words.counted(len(details.episodes), 'process', 'processes')}"
    if (seconds := run.seconds(study)) is not None:
        measured += f" in {words.duration(seconds)}"
    return (
        f"Run {words.code(run.info.run_id)}, profile {run.info.profile}, {how}: {measured}, "
        f"on {words.escape(machine.cpu or 'an unknown processor')}, {cores}, "
        f"{words.escape(machine.kernel or 'unknown kernel')}, {words.escape(run.info.toolchain.rustc or 'unknown compiler')}."
    )


def errata(run: Run, study: str) -> list[str]:
    """What was found out about the run after it was measured (data/errata.csv), as sentences."""
    known = pl.read_csv(
        repository_root() / "data" / "errata.csv", schema=dict.fromkeys(("run", "study", "statement"), pl.String)
    )
    return known.filter(run=run.info.run_id, study=study)["statement"].to_list()


def remarks(run: Run, study: str) -> list[str]:
    """What the records say about disturbances, failures and gaps, and what was found out since, as sentences."""
    details, machine = run.study(study), run.info.machine
    found = errata(run, study)
    if len(details.episodes) < LEAST_EPISODES:
        number = words.counted(len(details.episodes), "process", "processes")
        found.append(
            f"It was measured by {number}, so its intervals do not cover what differs from process to process."
        )
    if (share := steal_share(run, study)) is not None and share >= STEAL_SHARE:
        found.append(f"Other guests of the host took {words.percent(share)} of the processor time (steal).")
    if details.load_before and machine.logical_cores and details.load_before[0] / machine.logical_cores > BUSY_LOAD:
        found.append(f"The machine was not idle before the run: load {words.number(details.load_before[0])}.")
    if details.resumed:
        times = "once" if details.resumed == 1 else words.counted(details.resumed, "time")
        found.append(f"The measurement was interrupted and resumed {times}.")
    if machine.virtualisation not in (None, "none"):
        found.append(f"The machine is virtual ({words.escape(machine.virtualisation)}).")
    if run.info.git is None or run.info.git.clean is None:
        found.append("It is not known which revision was measured.")
    elif not run.info.git.clean:
        found.append("The measured code had uncommitted changes.")
    for entry in details.failed:
        name = words.key({"bench": entry.bench, "variant": entry.variant, "parameter": entry.parameter})
        found.append(f"{name} failed and is missing or incomplete: {words.escape(entry.error)}.")
    return found


def records(measured: Measured) -> str:
    """Which run this is, and what its records say about a study, as a list; nothing if it was not measured."""
    if not measured:
        return ""
    return f"{origin(measured.run, measured.study)}\n\n{words.bullets(remarks(measured.run, measured.study))}"


def belief(measured: Measured) -> tuple[str, dict[str, bool | str]]:
    """How far a study may be believed, by its groups of comparisons: a sentence in Markdown, and the study with its
    extent, for the page.
    """
    if not measured:
        return "There is nothing to believe or to doubt.", {}
    groups, whole = measured.groups, measured.trust
    doubted = sorted(name for name, judged in groups.items() if not judged.trusted)
    if not doubted:
        held = "its only group" if len(groups) == 1 else f"all {len(groups)} groups"
        text = f"**This run may be believed**, in {held} of comparisons: {correction(measured)}."
    elif len(doubted) < len(groups):
        text = (
            f"**Nothing is concluded** from {len(doubted)} of {len(groups)} groups of comparisons, {words.listing(map(words.code, doubted))}, "
            f"because {words.listing(whole.reasons)}. The others may be believed: {correction(measured)}."
        )
    else:
        further = len(whole.reasons) - 1
        more = f", and for {words.counted(further, 'further reason')}" if further > 0 else ""
        text = f"**Not evidence: this run concludes nothing**, because {whole.reasons[0]}{more}."
    return text, {measured.study: whole.extent}


def _processes(measured: Measured) -> str:
    """Which processes the ratios of work on one thread come from (`trials.compared`), after a semicolon; nothing if all
    of them do.
    """
    used, every = measured.compared["episode"].n_unique(), measured.trials["episode"].n_unique()
    if used == every:
        return ""
    all_rounds = measured.comparisons.filter(pl.col("episodes") < LEAST_EPISODES).height
    rest = f", {words.counted(all_rounds, 'comparison')} from all of them" if all_rounds else ""
    return f"; its ratios come from the {used} of {every} processes that ran undisturbed{rest}"


def correction(measured: Measured) -> str:
    """What the controls of a study's kinds add to its intervals, as half a sentence in Markdown, and what was found out
    about the run since.
    """
    since = " ".join(errata(measured.run, measured.study)).removesuffix(".")
    known = f". **Known since:** {since}" if since else ""
    processes = _processes(measured)
    shown = measured.declared.drop_nulls("bias").select("kind", "bias").unique().filter(pl.col("bias") > 0).sort("kind")
    if shown.is_empty():
        return f"identical code differs by no more than its intervals explain{processes}{known}"
    errors = (
        f"{words.percent(math.expm1(row['bias']))} ({words.escape(row['kind'])})" for row in shown.iter_rows(named=True)
    )
    return f"identical code differs by {words.listing(errors)} more than its intervals explain, and every interval of that kind is wider by that{processes}{known}"
