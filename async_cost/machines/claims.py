"""On how many machines each published claim holds."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl

from async_cost.findings.definitions import committed, series_of
from async_cost.literature.claims import load_claims
from async_cost.literature.replication import outcomes
from async_cost.machines.hardware import representative_runs
from async_cost.machines.many import ManyRuns, rows_of
from async_cost.runs.judged import claims_of_today
from async_cost.runs.run import Run
from async_cost.statistics.statement import Outcome

VERDICTS = dict.fromkeys(("run", "claim", "study", "verdict"), pl.String)
#: The verdicts that a page counts.
COUNTED = (Outcome.HOLDS, Outcome.DOES_NOT_HOLD, Outcome.UNDECIDED)


def by_number_of_machines(many: ManyRuns) -> pl.DataFrame:
    """Return a row for each claim that was measured: claim, study, holds, does not hold, undecided (numbers of
    machines), machines (their sum).

    Of each machine the run counts that speaks for the study of the claim. A machine that does not hold the operands of
    a claim is left out.
    """
    chosen = representative_runs(many).filter("trusted").cast({"run": pl.String, "study": pl.String})
    folders = [many.folders[name] for name in chosen["run"].unique(maintain_order=True)]
    with ThreadPoolExecutor() as pool:
        verdicts = pl.concat([pl.DataFrame(schema=VERDICTS), *pool.map(_verdicts, folders)])
    verdicts = verdicts.join(chosen, on=["run", "study"], how="semi").filter(pl.col("verdict").is_in(list(COUNTED)))
    counts = (pl.col("verdict").eq(word).sum().alias(word) for word in COUNTED)
    return verdicts.group_by("claim", "study", maintain_order=True).agg(*counts, machines=pl.len()).sort("claim")


def _verdicts(folder: Path) -> pl.DataFrame:
    """What a run says about each claim: the columns VERDICTS. Of a committed series it is known already."""
    hashes = claims_of_today()
    if known := committed("claim", series_of(folder), {(id, ""): hash for id, hash in hashes.items()}):
        studies = {claim.id: claim.study for claim in load_claims()}
        rows = [(row["series"], id, studies[id], row["outcome"]) for (id, _), row in known.items() if id in studies]
        return pl.DataFrame(rows, schema=VERDICTS, orient="row")

    def judged(run: Run) -> list[tuple]:
        return [
            (run.info.run_id, result.claim.id, result.claim.study, result.published.outcome.value)
            for result in outcomes(run)
        ]

    return rows_of(folder, VERDICTS, judged)
