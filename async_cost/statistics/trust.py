"""May anything be concluded from this run? The A/A control decides.

A control is the baseline measured a second time under another name. Its true ratio is 1, so whatever the run says about
it is what the run says about nothing. When its interval misses 1, or is wider than differences that we want
to speak about, then every other interval of that run is suspect too and no verdict is given.

A study has several controls, at least one for each group of comparisons and each parameter. Their intervals are widened (Bonferroni) so
that they hold 1 all together in 95 % of honest runs; with one interval of 95 % each, two controls would call every tenth honest run
untrustworthy. How far a control may reach from 1 is the limit of its group: the region that counts as "the same" there.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from async_cost import words
from async_cost.runs.comparisons import due_controls
from async_cost.runs.run import KEY, Run
from async_cost.statistics.estimate import CONFIDENCE, estimates, paired_ratios, trial_times

#: Share of the machine's time taken by other guests from which on it is worth a remark.
STEAL_SHARE = 0.01
#: Processes waiting for a core before the run began, for each core, from which on it is worth a remark.
BUSY_LOAD = 0.5


@dataclass(frozen=True)
class Trust:
    """Whether a study of a run is evidence, and why.

    `reasons` say why it is not (empty when trusted), `remarks` what else a reader should know. Both are sentences in
    Markdown, words of the run escaped. `controls` holds bench, variant, parameter, ratio, low, high, q1, q3, rounds, group, limit of the
    controls. `partly` says that the controls of some groups hold though the study as a whole is not trusted: what is compared in them may be
    believed, by `trust` of that group.
    """

    trusted: bool
    reasons: tuple[str, ...]
    remarks: tuple[str, ...]
    controls: pl.DataFrame
    partly: bool = False

    @property
    def extent(self) -> bool | str:
        """What a page says of the study: true, false or "in part"."""
        return self.trusted or ("in part" if self.partly else False)

    def label(self, text: str) -> str:
        """`text`, unless the run is trusted marked as no more than what it showed: for what is said without a verdict."""
        return text if self.trusted else f"*In this run:* {text}"


def trust(run: Run, study: str, limit: float | None = None, group: str | None = None) -> Trust:
    """Judges `study` of `run`, or one `group` of its comparisons alone, by its profile and its controls.

    A study is trusted when all its groups are. `limit` replaces the limits that the study declared. Raises ValueError for a group that
    the study does not have.
    """
    if group is not None and group not in run.study(study).groups:
        raise ValueError(f"{study} has no group {group!r}")
    pairs = run.pairs(study)
    due = due_controls(run.study(study), pairs)
    if group is not None:
        pairs, due = pairs.filter(group=group), due.filter(group=group)
    if limit is not None:
        due = due.with_columns(limit=pl.lit(limit))
    ratios = paired_ratios(trial_times(run.whole_time(study)), due)
    together = 1 - (1 - CONFIDENCE) / max(1, ratios.select(KEY).n_unique())
    controls = estimates(ratios, confidence=together).join(due.select(*KEY, "group", "limit"), on=KEY).sort(KEY)
    reasons = [
        *_profile_reason(run.info.profile),
        *_uncontrolled_groups(pairs, due),
        *_missing_controls(due, controls),
        *(reason for row in controls.iter_rows(named=True) for reason in _control_reasons(row, row["limit"])),
    ]
    failing = {row["group"] for row in controls.iter_rows(named=True) if _control_reasons(row, row["limit"])}
    partly = bool(reasons) and not _profile_reason(run.info.profile) and bool(set(controls["group"]) - failing)
    return Trust(not reasons, tuple(reasons), tuple(_remarks(run, study)), controls, partly)


def origin(run: Run, study: str) -> str:
    """Which run this is: id, profile, rounds, machine and compiler, as one sentence in Markdown."""
    details, machine = run.study(study), run.info.machine
    cores = "cores" if machine.logical_cores is None else words.counted(machine.logical_cores, "logical core")
    how = {"notebook": "measured from the notebook", "native": "measured by cargo bench"}[run.info.origin]
    measured = words.counted(details.rounds, "round")
    # The time between start and end of a resumed measurement includes the break.
    if details.ended and not details.resumed:
        measured += f" in {words.duration(words.seconds_between(details.started, details.ended))}"
    return (
        f"Run {words.code(run.info.run_id)}, profile {run.info.profile}, {how}: {measured}, "
        f"on {words.escape(machine.cpu or 'an unknown processor')}, {cores}, "
        f"{words.escape(machine.kernel or 'unknown kernel')}, {words.escape(run.info.toolchain.rustc or 'unknown compiler')}."
    )


def _profile_reason(profile: str) -> list[str]:
    if profile != "quick":
        return []
    return ["the profile is quick, which shows that everything works and is never evidence"]


def _uncontrolled_groups(pairs: pl.DataFrame, due: pl.DataFrame) -> list[str]:
    """Without a control nobody knows what the ratios of a group are worth."""
    if due.is_empty():
        return ["the run has no A/A control"]
    groups = pairs.join(due, on="group", how="anti")["group"].unique().sort()
    return [f"the comparisons {_of_group(group)} have no A/A control" for group in groups]


def _of_group(group: str) -> str:
    return f"of group {words.code(group)}" if group else "that belong to no named group"


def _missing_controls(due: pl.DataFrame, controls: pl.DataFrame) -> list[str]:
    """Controls that were to be measured and have no ratio: they, or what they repeat, failed or are not there."""
    missing = due.join(controls, on=KEY, how="anti").sort("parameter", "variant", "bench")
    return [f"the A/A control {words.key(row)} was not measured" for row in missing.iter_rows(named=True)]


def _control_reasons(row: dict, limit: float) -> list[str]:
    """Why one control fails: a row of `estimates`."""
    what = f"the A/A control {words.key(row)}"
    if not row["low"] <= 1 <= row["high"]:
        return [f"{what} differs from its twin, to which it is identical: {words.interval(row['low'], row['high'])}"]
    if max(1 - row["low"], row["high"] - 1) > limit:
        shown = words.interval(row["low"], row["high"], limit=limit)
        return [f"{what} is known no better than {shown}, which reaches beyond ±{words.exact_percent(limit)}"]
    return []


def _remarks(run: Run, study: str) -> list[str]:
    """What the records say about disturbances, failures and gaps, as sentences."""
    details, machine = run.study(study), run.info.machine
    remarks = []
    if (share := steal_share(run, study)) is not None and share >= STEAL_SHARE:
        remarks.append(f"Other guests of the host took {words.percent(share)} of the processor time (steal).")
    if details.load_before and machine.logical_cores and details.load_before[0] / machine.logical_cores > BUSY_LOAD:
        remarks.append(f"The machine was not idle before the run: load {words.number(details.load_before[0])}.")
    if details.resumed:
        times = "once" if details.resumed == 1 else words.counted(details.resumed, "time")
        remarks.append(f"The measurement was interrupted and resumed {times}.")
    if machine.virtualisation not in (None, "none"):
        remarks.append(f"The machine is virtual ({words.escape(machine.virtualisation)}).")
    if run.info.git is None or run.info.git.clean is None:
        remarks.append("It is not known which revision was measured.")
    elif not run.info.git.clean:
        remarks.append("The measured code had changes that are in no revision.")
    for entry in details.failed:
        name = words.key(vars(entry))
        remarks.append(f"{name} failed and is missing or incomplete: {words.escape(entry.error)}.")
    return remarks


def steal_share(run: Run, study: str) -> float | None:
    """Share of all processor time between start and end that the host gave to others; None where unknown.

    Of a resumed measurement it is unknown: the break lies between the two readings, perhaps with a restart of the machine.
    """
    details = run.study(study)
    if details.resumed:
        return None
    cores = run.info.machine.logical_cores
    if None in (details.steal_before_ms, details.steal_after_ms, details.ended, cores):
        return None
    seconds = words.seconds_between(details.started, details.ended)
    if seconds <= 0:
        return None
    return (details.steal_after_ms - details.steal_before_ms) / 1000 / (seconds * cores)


def belief(groups: Mapping[str, Trust], whole: Trust) -> tuple[str, bool | str]:
    """What to believe of a study that was measured, by its groups of comparisons: a sentence in Markdown, and to which extent, for the page.

    `whole` is the trust in the study as such, whose reasons are given where no group holds. The extent is True, "in part" or False.
    """
    doubted = sorted(name for name, judged in groups.items() if not judged.trusted)
    if not doubted:
        held = words.counted(len(groups), "group")
        return f"**This run may be believed** as far as its controls go, in all of {held} of comparisons.", True
    if len(doubted) < len(groups):
        text = (
            f"In {len(doubted)} of {len(groups)} groups of comparisons the control fails, and **nothing is concluded** from them: "
            f"{words.listing(map(words.code, doubted))}. The others may be believed as far as their controls go."
        )
        return text, "in part"
    further = len(whole.reasons) - 1
    more = f", and for {words.counted(further, 'further reason')}" if further > 0 else ""
    return f"**Not evidence: this run concludes nothing**, because {whole.reasons[0]}{more}.", False
