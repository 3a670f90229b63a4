"""Is it true what crates say of two functions? by-turns, criterion, divan, tango-bench and zenbench compare the same
pairs in the same time: copies of a function, and functions that do 2 % or 10 % more; on a quiet machine, and beside a
process that disturbs a core.

    python -m experiments.crates [--runs 10] [--seconds 0.55] [--pairs 28] [--condition quiet]

prints the table, by default after 40 minutes. What was measured is kept in target/crates: there goes on what was ended.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import polars as pl
from scipy.stats import binomtest, norm

from async_cost.workflow import toolchain
from async_cost.workflow.steps import CARGO_ENV
from async_cost.workflow.toolchain import ROOT
from experiments.methods import Unable, run

CRATE = ROOT / "experiments" / "crates"
TARGET = ROOT / "target" / "crates"
CARGO = ["cargo", "bench", "--locked", "--manifest-path", str(CRATE / "Cargo.toml"), "--target-dir", str(TARGET)]
#: Names of pairs: the work, by how many per cent the second side does more, and a number.
PAIRS = [
    f"{work}-{more}-{number}"
    for more, numbers in {0: range(10), 2: (10, 11), 10: (12, 13)}.items()
    for number in numbers
    for work in ("chain", "boxes")
]
CONDITIONS = ("quiet", "noisy")
NANOSECONDS = {"ns": 1.0, "µs": 1e3, "ms": 1e6, "s": 1e9}
#: What is kept of each reading.
COLUMNS = {"library": pl.String, "condition": pl.String, "run": pl.Int64, "pair": pl.String, "more": pl.Int64}
COLUMNS |= {"said": pl.String, "ratio": pl.Float64, "low": pl.Float64, "high": pl.Float64, "seconds": pl.Float64}


class Reading(NamedTuple):
    """What a library says of the second side: `slower`, `faster`, `same`, `undecided` or nothing; its time over that of
    the first, with an interval if there is one.
    """

    said: str | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


#: By what the table calls the library, and by pair.
Readings = dict[str, dict[str, Reading]]
#: The programs, the names of the pairs, and the seconds for each.
Measure = Callable[[dict[str, Path], list[str], float], Readings]


def compare(
    runs: int = 10, seconds: float = 0.55, pairs: int = len(PAIRS), conditions: tuple[str, ...] = CONDITIONS
) -> pl.DataFrame:
    """Let each library measure so many runs of so many pairs, for `seconds` each, under each condition, and return
    `summary`: with version, cpu, measured (the day). Raises `Unable`.
    """
    programs = _built()
    kept = TARGET / f"{pairs}-pairs-{seconds:g}-seconds.csv"
    for number in range(runs):
        for condition in _shuffled(conditions, number, "conditions"):
            for library in _shuffled(LIBRARIES, number, condition):
                if is_kept(kept, library, condition, number):
                    continue
                print(f"  run {number + 1} of {runs}, {condition}: {library}", flush=True)
                chosen = [PAIRS[at * (len(PAIRS) - 1) // max(pairs - 1, 1)] for at in range(pairs)]
                order = _shuffled(chosen, number, condition, library)
                with _disturbed(programs["noise"], number) if condition == "noisy" else nullcontext():
                    start = time.monotonic()
                    readings = LIBRARIES[library](programs, order, seconds)
                    took = (time.monotonic() - start) / len(order)
                keep(kept, readings, condition, number, took)
    rows = pl.read_csv(kept, schema=COLUMNS).filter(pl.col("run") < runs, pl.col("condition").is_in(conditions))
    versions = tomllib.loads((CRATE / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    version = {package["name"]: package["version"] for package in versions}
    origin = {"cpu": toolchain.cpu(), "measured": f"{datetime.now(UTC):%Y-%m-%d}"}
    crate = pl.col("library").str.replace(",.*", "").replace_strict(version)
    return summary(rows).with_columns(version=crate, **{name: pl.lit(fact) for name, fact in origin.items()})


def summary(rows: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each condition and library: `copies`, how many readings of copies there are; `inside`, the share
    whose interval holds one, between `inside_low` and `inside_high` (Wilson, 95 %); how many are called `different` and
    `same`; `planted_2`, readings of functions that do 2 % more, and `found_2`, how many are called slower; `planted_10`
    and `found_10`; `median_error` and `largest_error` of copies, as shares; `seconds` a pair.
    """
    copies = pl.col("more") == 0
    held = (pl.col("low") <= 1) & (pl.col("high") >= 1)
    off = (pl.col("ratio") - 1).abs().filter(copies)

    def said(*words: str) -> pl.Expr:
        return pl.col("said").is_in(words).fill_null(False)

    planted = {
        column: count
        for more in (2, 10)
        for column, count in {
            f"planted_{more}": (pl.col("more") == more).sum(),
            f"found_{more}": (said("slower") & (pl.col("more") == more)).sum(),
        }.items()
    }
    table = rows.group_by("condition", "library").agg(
        copies=copies.sum(),
        with_interval=held.filter(copies).count(),
        held=held.filter(copies).sum(),
        different=(copies & said("slower", "faster")).sum(),
        same=(copies & said("same")).sum(),
        **planted,
        median_error=off.median(),
        largest_error=off.max(),
        seconds=pl.col("seconds").mean(),
    )
    shares = [_share(held, of) for held, of in table.select("held", "with_interval").iter_rows()]
    inside = pl.DataFrame(
        shares, schema=dict.fromkeys(["inside", "inside_low", "inside_high"], pl.Float64), orient="row"
    )
    table = pl.concat([table.drop("held", "with_interval"), inside], how="horizontal")
    first = ["condition", "library", "copies", "inside", "inside_low", "inside_high"]
    return table.select(*first, pl.exclude(first)).sort("condition", "library", descending=[True, False])


def _share(held: int, of: int) -> tuple[float, float, float] | tuple[None, None, None]:
    if not of:
        return None, None, None
    ends = binomtest(held, of).proportion_ci(method="wilson")
    return held / of, ends.low, ends.high


def _shuffled(names: Iterable[str], *seed: object) -> list[str]:
    """In an order that is the same when a run goes on."""
    return sorted(names, key=lambda name: random.Random(str((name, *seed))).random())


# -- libraries -----------------------------------------------------------------------------------------------


def by_turns(programs: dict[str, Path], pairs: list[str], seconds: float) -> Readings:
    """It compares all pairs in turns, and has cargo compile it once more, for link orders."""
    # It is started by cargo, whose options it reads.
    budget = f"{round(1000 * seconds * len(pairs))}ms"
    asked = {"PAIRS": ",".join(pairs), "PATH": _without_valgrind()}
    printed = run(*CARGO, "--bench", "by_turns", "--", "--budget", budget, "--format", "json", **asked)
    return {"by-turns": read_by_turns(printed)}


def _without_valgrind() -> str:
    """Where programs are, but for valgrind: to count instructions takes by-turns longer than to measure."""
    folders = []
    for folder in os.get_exec_path():
        if Path(folder, "valgrind").exists():
            (links := TARGET / "programs").mkdir(exist_ok=True)
            for file in Path(folder).iterdir():
                if file.name != "valgrind" and not os.path.lexists(links / file.name):
                    (links / file.name).symlink_to(file)
            folder = str(links)
        folders.append(folder)
    return os.pathsep.join(folders)


def read_by_turns(printed: str) -> dict[str, Reading]:
    """What it says of each pair, in JSON."""
    lines = [line for line in json.loads(printed)["variants"] if line["variant"] == "b"]
    # There is no ratio where too few processes have measured.
    return {line["load"]: Reading(line["verdict"], *(line["ratio"] or ())) for line in lines}


def criterion(programs: dict[str, Path], pairs: list[str], seconds: float) -> Readings:
    """It is read twice: its verdict on a change, and whether the intervals of both sides are apart."""
    with tempfile.TemporaryDirectory() as folder:
        printed = _run(programs, "criterion", pairs, "--bench", env={"SECONDS": str(seconds), "CRITERION_HOME": folder})
        changes = {pair: change_of(Path(folder, pair, "change", "estimates.json")) for pair in pairs}
    said, apart = read_criterion(printed)
    return {
        "criterion": {pair: Reading(said[pair], *changes[pair]) for pair in pairs},
        "criterion, intervals": apart,
    }


def read_criterion(printed: str) -> tuple[dict[str, str | None], dict[str, Reading]]:
    """Its verdict on each pair, and whether the intervals of both sides, which it prints, are apart."""
    words = {"Performance has regressed.": "slower", "Performance has improved.": "faster"}
    verdicts = re.findall(r"^(\S+) .*\n +change: .*\n +(.*)$", printed, re.MULTILINE)
    times = re.findall(r"^(\S+) +time: +\[([\d.]+) (\S+) ([\d.]+) (\S+) ([\d.]+) (\S+)\]", printed, re.MULTILINE)
    sides: dict[str, list[list[float]]] = {}
    for pair, *ends in times:
        numbers = [float(ends[at]) * NANOSECONDS[ends[at + 1]] for at in (0, 2, 4)]
        sides.setdefault(pair, []).append(numbers)
    return {pair: words.get(said) for pair, said in verdicts}, {pair: _apart(*both) for pair, both in sides.items()}


def change_of(file: Path) -> tuple[float, float, float]:
    mean = json.loads(file.read_text(encoding="utf-8"))["mean"]
    ends = mean["confidence_interval"]
    return 1 + mean["point_estimate"], 1 + ends["lower_bound"], 1 + ends["upper_bound"]


def _apart(first: list[float], second: list[float]) -> Reading:
    low, high = second[0] / first[2], second[2] / first[0]
    return Reading("slower" if low > 1 else "faster" if high < 1 else None, second[1] / first[1], low, high)


def divan(programs: dict[str, Path], pairs: list[str], seconds: float) -> Readings:
    """It says nothing of a difference: its medians are compared."""
    time = [f"--m{end}-time={seconds / 2}" for end in ("in", "ax")]
    return {"divan": read_divan(_run(programs, "divan", pairs, "--bench", *time))}


def read_divan(printed: str) -> dict[str, Reading]:
    """The ratios of medians, in the table of divan."""
    cell = r"[^│]*│"
    rows = re.findall(rf"(\S+)/(a|b) {cell}{cell} +([\d.]+) (\S+) +│", printed)
    medians = {(pair, side): float(number) * NANOSECONDS[unit] for pair, side, number, unit in rows}
    return {pair: Reading(None, medians[pair, "b"] / medians[pair, "a"]) for pair, side in medians if side == "a"}


def tango(programs: dict[str, Path], pairs: list[str], seconds: float) -> Readings:
    """It prints no interval: here it is that of the mean difference, which it judges, of the samples that it keeps."""
    with tempfile.TemporaryDirectory() as folder:
        sides = ["--strip-baseline", "a/*", "--strip-candidate", "b/*"]
        # It says by its status whether something is slower.
        printed = _run(programs, "tango", pairs, "compare", *sides, "--time", seconds, "--dump", folder, may_fail=True)
        intervals = {pair: of_samples(Path(folder, f"{pair}.csv")) for pair in pairs}
    said = {
        pair: sign + star for pair, sign, star in re.findall(r"^(\S+) .*?([+-])[\d.]+%(\*?)$", printed, re.MULTILINE)
    }
    words = {"+*": "slower", "-*": "faster"}
    return {"tango-bench": {pair: Reading(words.get(said[pair]), *intervals[pair]) for pair in pairs}}


def of_samples(file: Path) -> tuple[float, float, float]:
    samples = pl.read_csv(file, has_header=False, new_columns=["base", "candidate", "iterations"])
    base, mean, deviation, count = samples.select(
        pl.col("base").mean(),
        (pl.col("candidate") - pl.col("base")).mean().alias("mean"),
        (pl.col("candidate") - pl.col("base")).std().alias("deviation"),
        pl.len(),
    ).row(0)
    half = norm.ppf(0.975) * (deviation or 0) / count**0.5
    return 1 + mean / base, 1 + (mean - half) / base, 1 + (mean + half) / base


def zenbench(programs: dict[str, Path], pairs: list[str], seconds: float) -> Readings:
    """Without its gate, which waits for a quiet machine."""
    with tempfile.TemporaryDirectory() as folder:
        kept = {"SECONDS": str(seconds), "ZENBENCH_DATA_DIR": folder}
        printed = _run(programs, "zenbench", pairs, "--no-busy-gate", "--format=json", env=kept)
    return {"zenbench": read_zenbench(printed)}


def read_zenbench(printed: str) -> dict[str, Reading]:
    """What it says of each group, in JSON."""
    readings = {}
    for group in json.loads(printed)["comparisons"]:
        ((_, _, analysis),) = group["analyses"]
        base = analysis["baseline"]["mean"]
        ratios = [1 + ns / base for ns in (analysis["diff"]["mean"], analysis["ci_lower"], analysis["ci_upper"])]
        said = ("slower" if ratios[0] > 1 else "faster") if analysis["significant"] else None
        readings[group["group_name"]] = Reading(said, *ratios)
    return readings


LIBRARIES: dict[str, Measure] = {
    "by-turns": by_turns,
    "criterion": criterion,
    "divan": divan,
    "tango-bench": tango,
    "zenbench": zenbench,
}


# -- programs ------------------------------------------------------------------------------------------------


def _built() -> dict[str, Path]:
    """Compile the programs. Raises `Unable`, also if copies are not copies."""
    printed = run(*CARGO, "--no-run", "--message-format=json", **CARGO_ENV)
    messages = [json.loads(line) for line in printed.splitlines() if '"executable":"' in line]
    programs = {message["target"]["name"]: Path(message["executable"]) for message in messages}
    for library in ("by_turns", "criterion", "divan", "tango", "zenbench"):
        symbols = run("nm", "-CS", programs[library])
        for work in ("chain", "boxes", "read::{{closure}}"):
            copies = re.findall(rf"^(\w+) (\w+) t crates::{re.escape(work)}$", symbols, re.MULTILINE)
            if len(set(copies)) != len(PAIRS) or len({size for _, size in copies}) != 1:
                raise Unable(f"{library}: of the {len(PAIRS)} copies of {work} there are {len(set(copies))}")
    return programs


def _run(
    programs: dict[str, Path],
    name: str,
    pairs: list[str],
    *options: object,
    env: dict[str, str] | None = None,
    may_fail: bool = False,
) -> str:
    command = [str(programs[name]), *map(str, options)]
    env = {**os.environ, **(env or {}), "PAIRS": ",".join(pairs)}
    done = subprocess.run(command, cwd=TARGET, env=env, capture_output=True, text=True)
    if done.returncode != 0 and not may_fail:
        raise Unable(f"{name} exited with {done.returncode}: {done.stderr[-600:].strip()}")
    return done.stdout


@contextmanager
def _disturbed(noise: Path, seed: int) -> Iterator[None]:
    """Disturb the last of the cores."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        # It ends with its standard input, also when this process is killed.
        process = subprocess.Popen([noise, str(seed)], stdin=subprocess.PIPE)
    finally:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        process.communicate()


# -- what was measured ---------------------------------------------------------------------------------------


def is_kept(kept: Path, library: str, condition: str, number: int) -> bool:
    return (
        kept.exists()
        and not pl.read_csv(kept, schema=COLUMNS).filter(library=library, condition=condition, run=number).is_empty()
    )


def keep(kept: Path, readings: Readings, condition: str, number: int, seconds: float) -> None:
    rows = [
        (library, condition, number, pair, int(pair.split("-")[1]), *reading, seconds)
        for library, of_pairs in readings.items()
        for pair, reading in of_pairs.items()
    ]
    new = pl.DataFrame(rows, schema=COLUMNS, orient="row")
    with kept.open("a", encoding="utf-8") as file:
        file.write(new.write_csv(include_header=not kept.stat().st_size))


def markdown(table: pl.DataFrame) -> str:
    """Return `summary` as a table in Markdown for each condition."""
    heads = ["", "intervals that hold the truth", "copies called different", "2 % found", "10 % found"]
    heads += ["error, median", "largest", "time per pair"]
    lines = []
    for (condition,), rows in table.group_by("condition", maintain_order=True):
        lines += [f"\n{condition}:\n", f"| {' | '.join(heads)} |", f"|---|{'--:|' * (len(heads) - 1)}"]
        for row in rows.iter_rows(named=True):
            none = row["inside"] is None
            silent = none and not any(row[said] for said in ("different", "same", "found_2", "found_10"))
            cells = [
                row["library"],
                ""
                if none
                else f"{100 * row['inside']:.0f} % ({100 * row['inside_low']:.0f} to {100 * row['inside_high']:.0f})",
                "" if silent else f"{row['different']} of {row['copies']}",
                *(
                    ""
                    if silent or not row[f"planted_{more}"]
                    else f"{row[f'found_{more}']} of {row[f'planted_{more}']}"
                    for more in (2, 10)
                ),
                *(
                    "" if row[error] is None else f"{100 * row[error]:.2f} %"
                    for error in ("median_error", "largest_error")
                ),
                f"{row['seconds']:.1f} s",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.55, help="that each library measures a pair")
    parser.add_argument("--pairs", type=int, default=len(PAIRS))
    parser.add_argument("--condition", choices=CONDITIONS, action="append", help="one condition (may be repeated)")
    asked = parser.parse_args()
    try:
        print(markdown(compare(asked.runs, asked.seconds, asked.pairs, tuple(asked.condition or CONDITIONS))))
    except Unable as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
