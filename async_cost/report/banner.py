"""How far a page may be relied on: a property of the run and of the studies that the page speaks of, said once, above
everything else.
"""

from collections.abc import Collection
from dataclasses import dataclass

from async_cost import words
from async_cost.report.records import errata
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.run import Run
from async_cost.statistics.measured import Measured

#: Refused groups of a study that are named; of more, only the number.
NAMED = 3


@dataclass(frozen=True)
class Banner:
    """`judged` says whether anything that these studies hold is; `text` what is not and why, and what was found out
    about the run since, in Markdown; nothing where there is nothing to say.
    """

    judged: bool
    text: str


def banner(run: Run, studies: Collection[str]) -> Banner:
    """What there is to say of `studies` in `run`; those that it lacks are left out. (Of a profile that is no evidence,
    every page says so: `provenance.notices`.)
    """
    held = [Measured.of(run, study) for study in studies if study in run.info.studies]
    judged = any(measured.trust.extent for measured in held) or not held
    known = [f"Known since: {said}" for measured in held for said in errata(run, measured.study)]
    refused = [] if run.info.profile in NOT_EVIDENCE else filter(None, map(_refused, held))
    return Banner(judged, " ".join([*refused, *known]))


def _refused(measured: Measured) -> str:
    """Which groups of a study are refused and why; nothing where none is."""
    refused = {name: trust for name, trust in measured.groups.items() if not trust.trusted}
    if not refused:
        return ""
    reasons = list(dict.fromkeys(reason for trust in refused.values() for reason in trust.reasons))
    further = len(reasons) - NAMED
    named = [*reasons[:NAMED], *([words.counted(further, "further reason")] if further > 0 else [])]
    which = "" if len(refused) == len(measured.groups) else f"{len(refused)} of {len(measured.groups)} groups of "
    return f"Not judged: {which}{words.code(measured.study)}, because {words.listing(named)}."
