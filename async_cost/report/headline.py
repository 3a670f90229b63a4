"""The first lines of the README: one answer and one picture, made from the committed reference run.

    python -m async_cost.report.headline          # write them
    python -m async_cost.report.headline --check  # exit with 1 when they are not what the run says

The reference run is the one that data/runs/REFERENCE names.
"""

import argparse
import re
import sys
from pathlib import Path

import polars as pl

from async_cost import words
from async_cost.literature import published, replication
from async_cost.paths import repository_root, runs_root
from async_cost.report import charts
from async_cost.report.belief import errata
from async_cost.runs.run import Run, open_run
from async_cost.statistics import interval
from async_cost.statistics.measured import Measured
from async_cost.studies import ladder

STUDY, LEAN, BEST = "zero-cost", "nonbox", "manual (best)"
OFF, ON = "syscalls=off", "syscalls=on"
#: Who published the servers of that study.
DOCUMENT = "[rust-async-bench](https://github.com/jkarneges/rust-async-bench/tree/818a146) (2022)"
PICTURE = Path("docs") / "headline.svg"
#: The README's part between these two lines is generated.
BEGIN, END = "<!-- headline: made by python -m async_cost.report.headline -->", "<!-- end of headline -->"


def reference_run() -> Run:
    """The committed run that data/runs/REFERENCE names."""
    return open_run(runs_root() / (runs_root() / "REFERENCE").read_text(encoding="utf-8").strip())


def text(run: Run) -> str:
    """Markdown: what async costs in this run, the picture, the machine under it, and how many published claims hold."""
    measured, baseline = Measured.of(run, STUDY), run.study(STUDY).baseline
    judged = measured.trust

    belief = (
        "" if judged.trusted else "**The reference run concludes nothing**: its A/A control differs from its twin.\n\n"
    )
    if known := [*errata(run, ladder.STUDY), *errata(run, STUDY)]:
        belief += f"**Known since:** {' '.join(known)}\n\n"
    machine, details = run.info.machine, run.study(STUDY)
    processes = f" in {len(details.episodes)} processes" if len(details.episodes) > 1 else ""
    return (
        f"{belief}{_limit(run)}The async server of {DOCUMENT} that allocates nothing takes\n\n"
        f"- against that document's hand-written loop: {_against(measured, LEAN, baseline, OFF)};\n"
        f"- against the best loop we could write: {_against(measured, LEAN, BEST, OFF)};\n"
        f"- against that document's loop, with a system call behind every I/O operation: "
        f"{_against(measured, LEAN, baseline, ON)}.\n\n"
        f"![{words.plain(_description(run))}]({PICTURE})\n\n"
        f"{words.escape(machine.cpu or machine.name)}, {words.counted(machine.logical_cores, 'core')}, "
        f"{words.escape(run.info.toolchain.rustc)}, {words.counted(details.rounds, 'interleaved round')}{processes}, "
        f"run `{run.info.run_id}`. Hollow diamonds: the figures of that document.\n\n"
        f"{replication.told_score(replication.score(run))}"
    )


def _against(measured: Measured, variant: str, other: str, parameter: str) -> str:
    row = interval.row(measured.compare(variant, other), parameter=parameter)
    extra = interval.row(measured.added(variant, other), parameter=parameter)
    ratio = words.ratio_with_interval(row["ratio"], row["low"], row["high"])
    more = [words.added(extra, row["verdict"])]
    for counter, noun, where, units in (
        ("instructions", "instruction", "", measured.requests),
        ("connection_bytes", "byte", " to each connection", 1),
    ):
        mine, base = (measured.run.count(measured.study, counter, name, parameter) for name in (variant, other))
        if mine and base:
            more.append(f"{words.counted(round(mine / units) - round(base / units), noun)}{where}")
    return f"**{ratio}**; it {words.listing(more)}"


def _limit(run: Run) -> str:
    """What async takes at its best; nothing where the ladder was not measured."""
    if ladder.STUDY not in run.info.studies:
        return ""
    time = _against(Measured.of(run, ladder.STUDY), ladder.FRONTIER, ladder.MANUAL, ladder.FEW)
    return f"The leanest async server that we could write takes, against the best loop: {time}.\n\n"


def _designs(run: Run) -> pl.DataFrame:
    baseline = run.study(STUDY).baseline
    ratios = Measured.of(run, STUDY).comparisons.filter(baseline_variant=baseline, parameter=OFF)
    return published.beside_published(ratios, published.published_ratios(STUDY, baseline)).sort("ratio")


def _description(run: Run) -> str:
    designs = _designs(run)
    ends = [
        f"{row['variant']} {words.number(row['ratio'])}"
        for row in (designs.row(0, named=True), designs.row(-1, named=True))
    ]
    return f"Time of each variant relative to the hand-written loop, without system calls: from {ends[0]} to {ends[1]} times."


def picture(run: Run) -> str:
    """The ratios of all variants to `manual` as SVG."""
    charts.enable()
    chart = charts.ratio_intervals(_designs(run), description=_description(run), finding="", log=True)
    return charts.to_svg(chart.properties(width=640, background="white").to_dict())


def readme(run: Run, current: str) -> str:
    """The README's text with the generated part replaced."""
    if BEGIN not in current or END not in current:
        raise SystemExit(f"README.md: the lines `{BEGIN}` and `{END}` are missing")
    return re.sub(
        re.escape(BEGIN) + ".*" + re.escape(END), lambda _: f"{BEGIN}\n{text(run)}\n{END}", current, flags=re.DOTALL
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 when README or picture are old"
    )
    arguments = parser.parse_args()
    run, root = reference_run(), repository_root()
    made = {
        root / "README.md": readme(run, (root / "README.md").read_text(encoding="utf-8")),
        root / PICTURE: picture(run),
    }
    old = [path for path, content in made.items() if not path.exists() or path.read_text(encoding="utf-8") != content]
    if arguments.check:
        for path in old:
            print(
                f"{path.relative_to(root)} is not what the reference run says: python -m async_cost.report.headline",
                file=sys.stderr,
            )
        return 1 if old else 0
    for path in old:
        path.write_text(made[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
