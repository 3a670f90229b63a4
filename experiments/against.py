"""What does it cost that two living processes take turns? One bench, in turns within a process by `cargo bench` and
between processes by `cargo by-turns --against`: what its baseline takes, and how far that is from itself.

    python -m experiments.against [--runs 10] [--seconds 60]

prints a table. What was measured is kept in target/against-turns: there goes on what was ended.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl

from async_cost.workflow.toolchain import ROOT
from experiments.methods import Unable, run

CRATE = ROOT / "experiments" / "against"
TARGET = ROOT / "target" / "against-turns"
WAYS = ("one process", "two processes")
#: Link orders would differ between processes, and not within one.
ALIKE = "--no-layouts"
#: `ns` is of an item; `off` is the ratio of the baseline to itself; `trial_ms` is what a trial takes between processes,
#: with its share of their start.
COLUMNS = {"run": pl.Int64, "way": pl.String, "load": pl.String, "ns": pl.Float64, "off": pl.Float64}
COLUMNS |= {"trial_ms": pl.Float64}


def compare(runs: int, seconds: float) -> pl.DataFrame:
    """Return `summary` of so many runs of each way. Raises `Unable`."""
    folder = _made()
    run("cargo", "build", "--quiet", "--release", "--locked", "-p", "cargo-by-turns")
    kept = TARGET / f"{seconds:g}-seconds.csv"
    for number in range(runs):
        for way in WAYS[:: -1 if number % 2 else 1]:
            done = kept.exists() and not pl.read_csv(kept, schema=COLUMNS).filter(run=number, way=way).is_empty()
            if done:
                continue
            print(f"  run {number + 1} of {runs}: {way}", flush=True)
            read = in_one(folder, seconds) if way == "one process" else in_two(folder, seconds)
            new = pl.DataFrame([(number, way, *row) for row in read], schema=COLUMNS, orient="row")
            with kept.open("a", encoding="utf-8") as file:
                file.write(new.write_csv(include_header=not kept.stat().st_size))
    return summary(pl.read_csv(kept, schema=COLUMNS))


def summary(rows: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each load and way: medians over the runs, of `off` as a distance from one, with the largest."""
    off = (pl.col("off") - 1).abs()
    medians = {
        "ns": pl.col("ns").median(),
        "off": off.median(),
        "largest": off.max(),
        "ms": pl.col("trial_ms").median(),
    }
    return rows.group_by("load", "way", maintain_order=True).agg(runs=pl.len(), **medians)


def in_one(folder: Path, seconds: float) -> list[tuple]:
    """The baselines of the bench, by its JSON."""
    words = [
        "cargo",
        "bench",
        "--quiet",
        "--bench",
        "sums",
        "--",
        "--budget",
        f"{seconds:g}s",
        "--format",
        "json",
        ALIKE,
    ]
    lines = json.loads(_ran(words, folder))["variants"]
    controls = {line["load"]: line["ratio"][0] for line in lines if line["control"]}
    baselines = [line for line in lines if line["variant"] == "sum" and not line["control"]]
    return [(line["load"], line["time_ns"], controls[line["load"]], None) for line in baselines]


def in_two(folder: Path, seconds: float) -> list[tuple]:
    """The base of the same variants, which is its own control."""
    words = [ROOT / "target" / "release" / "cargo-by-turns", "--against", "main", "--budget", f"{seconds:g}s", ALIKE]
    (bench,) = json.loads(_ran([*words, "--json", "--quiet", "--allow", "instructions=100"], folder))["benches"]
    about = json.loads(Path(bench["samples"], "against.json").read_text(encoding="utf-8"))
    trial_ms = 1000 * about["elapsed_s"] / (3 * len(bench["variants"]) * about["rounds"])
    lines = [line for line in bench["variants"] if line["variant"] == "sum"]
    return [(line["load"], line["base_ns"], line["control"]["value"], trial_ms) for line in lines]


def _ran(words: list, folder: Path) -> str:
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise Unable(f"{words[0]} exited with {done.returncode}: {(done.stderr or done.stdout)[-600:]}")
    return done.stdout


def _made() -> Path:
    """A repository whose working tree differs in a number."""
    folder = TARGET / "sums"
    if (folder / ".git").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(CRATE, folder)
    manifest = (folder / "Cargo.toml").read_text(encoding="utf-8")
    (folder / "Cargo.toml").write_text(manifest.replace("../..", os.fspath(ROOT)), encoding="utf-8")
    (folder / ".gitignore").write_text("/target\n", encoding="utf-8")
    for file in ("Cargo.lock", "rust-toolchain.toml"):
        shutil.copy(ROOT / file, folder)
    git = ["git", "-c", "user.name=user", "-c", "user.email=user@example.org", "-C", folder]
    run(*git, "init", "-q", "-b", "main")
    run(*git, "add", "--all")
    run(*git, "commit", "-q", "-m", "main")
    library = folder / "sum.rs"
    library.write_text(library.read_text(encoding="utf-8").replace("u8 = 0", "u8 = 1"), encoding="utf-8")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60, help="of each run, for each way")
    asked = parser.parse_args()
    try:
        with pl.Config(tbl_rows=-1, tbl_formatting="MARKDOWN", tbl_hide_column_data_types=True):
            print(compare(asked.runs, asked.seconds))
    except Unable as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
