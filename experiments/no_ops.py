"""How often do tools that compare two revisions call a change slower or faster that changes nothing? Comments, renamed
locals, functions that something else calls and reordered items of three crates, beside planted changes, by which 2 %
or 10 % of the work is done twice.

    python -m experiments.no_ops [--changes 30] [--others 10] [--planted 5] [--seconds 60] [--crate itoa]

prints a table for each crate: `cargo by-turns --against` compares all changes, and the others the planted ones and so
many no-ops. What was measured is kept in target/no-ops: there goes on what was ended.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

from async_cost.workflow.toolchain import ROOT
from experiments import crates
from experiments.crates import COLUMNS, NANOSECONDS, Reading
from experiments.methods import Unable, run

TEMPLATE = ROOT / "experiments" / "no_ops"
TARGET = ROOT / "target" / "no-ops"
#: The edition of each crate. `ours` is by-turns-core; experiments/crates locks the release of the others.
CRATES = {"ours": "2024", "itoa": "2021", "memchr": "2021"}
FEATURES = {"memchr": 'default = ["std"]\nstd = ["alloc"]\nalloc = []\nlibc = []\nlogging = []\nrustc-dep-of-std = []'}
#: The last of every so many calls is made twice: none in the base.
EVERY = {0: 1_000_000, 2: 50, 10: 10}
PLANTED = """
const EVERY: usize = 1000000;

/// How often a call is made.
#[inline(never)]
pub fn planted(at: usize) -> usize {
    let every = core::hint::black_box(EVERY);
    1 + usize::from(at % every == every - 1)
}

/// What the program calls before anything is measured.
pub fn prepared() -> u64 {
    core::hint::black_box(0)
}
"""
#: Of a ratio in by-turns' JSON.
ENDS = ("value", "low", "high")
#: By what the table calls the tool.
Said = dict[str, Reading]
#: What compares the programs before and after a change, in so many seconds.
Measure = Callable[[Path, Path, float], Said]


def compare(changes: int, others: int, planted: int, seconds: float, names: list[str]) -> pl.DataFrame:
    """Return `crates.summary` of the changes of these crates, which stand for the conditions. Raises `Unable`."""
    TARGET.mkdir(parents=True, exist_ok=True)
    kept = TARGET / f"{seconds:g}-seconds.csv"
    run("cargo", "build", "--quiet", "--release", "--locked", "-p", "cargo-by-turns")
    wanted = [(0, number) for number in range(changes)]
    wanted += [(more, number) for number in range(planted) for more in (2, 10)]
    for name in names:
        folder = _made(name)
        for more, number in wanted:
            for tool in ("by-turns", *MEASURES) if more or number < others else ("by-turns",):
                if crates.is_kept(kept, tool, name, 1000 * more + number):
                    continue
                kind = _changed(folder, more, number)
                print(f"  {name}, {kind} {number}, {more} %: {tool}", flush=True)
                programs = {} if tool == "by-turns" else _programs(folder)
                start = time.monotonic()
                if tool == "by-turns":
                    said = against(folder, seconds)
                else:
                    said = MEASURES[tool](TARGET / "programs" / name / tool, programs[tool], seconds)
                pair = f"{kind}-{more}-{number}"
                readings = {tool: {pair: reading} for tool, reading in said.items()}
                crates.keep(kept, readings, name, 1000 * more + number, time.monotonic() - start)
    rows = pl.read_csv(kept, schema=COLUMNS).filter(pl.col("condition").is_in(names))
    of_ours = rows.filter(library="by-turns", more=0).group_by("condition").agg(_identical().sum(), pl.len())
    for name, same, all_ in sorted(of_ours.iter_rows()):
        print(f"{name}: {same} of {all_} changes left the program as it was, so there was nothing to measure")
    return summary(rows)


def summary(rows: pl.DataFrame) -> pl.DataFrame:
    """Return `crates.summary` of readings, of by-turns without those of programs that a change left as they were."""
    return crates.summary(rows.remove(_identical()))


def _identical() -> pl.Expr:
    return (pl.col("said") == "identical").fill_null(False)


# -- changes -------------------------------------------------------------------------------------------------


def _changed(folder: Path, more: int, number: int) -> str:
    """Change the sources, always alike for these numbers, and return what kind of change it is. Raises `Unable`."""
    git(folder, "checkout", "-q", "main", "--", "src")
    library = folder / "src" / "lib.rs"
    if more:
        # A function beside it, another one each time, so that the code lies elsewhere.
        text = _function(library.read_text(encoding="utf-8"), random.Random(f"{folder.name} {more} {number}"))
        library.write_text(text.replace(f"= {EVERY[0]};", f"= {EVERY[more]};"), encoding="utf-8")
        return "planted"
    kind, edit = list(EDITS.items())[number % len(EDITS)]
    for attempt in range(1000):
        drawn = random.Random(f"{folder.name} {number} {attempt}")
        file = drawn.choice(sorted((folder / "src").rglob("*.rs")))
        text = file.read_text(encoding="utf-8")
        if (other := edit(text, drawn)) == text:
            continue
        file.write_text(other, encoding="utf-8")
        if subprocess.run(["cargo", "check", "--quiet", "--lib"], cwd=folder, capture_output=True).returncode == 0:
            return kind
        file.write_text(text, encoding="utf-8")
    raise Unable(f"{folder.name}: no change {number} of the kind {kind} compiles")


def _comment(text: str, drawn: random.Random) -> str:
    places = [match.start() for match in re.finditer(r"^ *(pub |fn |impl|struct |mod |let )", text, re.MULTILINE)]
    return (
        _inserted(text, drawn.choice(places), f"// Nothing is different here: {drawn.random()}.\n") if places else text
    )


def _local(text: str, drawn: random.Random) -> str:
    functions = re.findall(r"^( *)((?:pub.* )?fn [^;]*?\{\n.*?^\1\}\n)", text, re.MULTILINE | re.DOTALL)
    if not functions:
        return text
    _, function = drawn.choice(functions)
    locals_ = re.findall(r"\blet (?:mut )?([a-z]\w*)\b", function)
    if not locals_:
        return text
    name = drawn.choice(locals_)
    return text.replace(function, re.sub(rf"(?<![.\w]){name}\b(?![(!])", f"{name}_renamed", function), 1)


def _function(text: str, drawn: random.Random) -> str:
    """A function that the program calls, but not in what is measured: other code lies elsewhere."""
    number = drawn.randrange(1_000_000)
    called = text.replace("black_box(0)", f"black_box(added_{number}({number}))")
    sum_ = f"(0..{number % 97}).fold(from, |sum, at| sum.rotate_left(at % 7) ^ {number})"
    added = f"\n/// It is called once.\n#[inline(never)]\nfn added_{number}(from: u64) -> u64 {{\n    {sum_}\n}}\n"
    return text if called == text else called + added


def _order(text: str, drawn: random.Random) -> str:
    """Two neighbours change places: functions, types, modules, whatever stands between empty lines at the left."""
    items = re.split(r"\n\n(?=[^\s}])", text.rstrip("\n"))
    if len(items) < 4:
        return text
    at = drawn.randrange(1, len(items) - 1)
    items[at], items[at + 1] = items[at + 1], items[at]
    return "\n\n".join(items) + "\n"


def _inserted(text: str, at: int, what: str) -> str:
    return text[:at] + what + text[at:]


EDITS = {"comment": _comment, "local": _local, "function": _function, "order": _order}


# -- tools ---------------------------------------------------------------------------------------------------


def against(folder: Path, seconds: float) -> Said:
    """By-turns' reading of the time, and its instructions at a threshold of 1 %."""
    program = ROOT / "target" / "release" / "cargo-by-turns"
    command = [
        str(program),
        "--against",
        "main",
        "--bench",
        "by_turns",
        "--budget",
        f"{seconds:g}s",
        "--json",
        "--quiet",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise Unable(f"cargo by-turns: {(done.stdout + done.stderr)[-600:]}")
    return read_against(done.stdout)


def read_against(printed: str) -> Said:
    """What it says, in JSON,. Instructions that change by over 1 % count either way, as times do."""
    (bench,) = json.loads(printed)["benches"]
    if bench["identical"]:
        return {"by-turns": Reading("identical"), "instructions": Reading("identical")}
    (line,) = bench["variants"]
    of = line["counts"].get("instructions", {})
    grown = of["today"] / of["base"] if of.get("base") and of.get("today") else 1.0
    counted = Reading("slower" if grown > 1.01 else "faster" if grown < 0.99 else None, grown)
    ratio = (line["ratio"][end] for end in ENDS if line["ratio"])
    return {"by-turns": Reading(line["verdict"], *ratio), "instructions": counted}


def criterion(before: Path, after: Path, seconds: float) -> Said:
    """With a saved baseline."""
    with tempfile.TemporaryDirectory() as home:
        # Of the time, as by default: 3 of 8 seconds.
        times = ["--warm-up-time", seconds * 3 / 16, "--measurement-time", seconds * 5 / 16]
        printed = _run(before, "--bench", *times, "--save-baseline", "base", CRITERION_HOME=home)
        printed += _run(after, "--bench", *times, "--baseline", "base", CRITERION_HOME=home)
        said, _ = crates.read_criterion(printed)
        change = crates.change_of(Path(home, "work", "change", "estimates.json"))
    return {"criterion": Reading(said["work"], *change)}


def divan(before: Path, after: Path, seconds: float) -> Said:
    """It says nothing of a difference: its medians are compared."""
    times = [f"--m{end}-time={seconds / 2}" for end in ("in", "ax")]
    medians = [read_divan(_run(program, "--bench", *times)) for program in (before, after)]
    return {"divan": Reading(None, medians[1] / medians[0])}


def read_divan(printed: str) -> float:
    """The median, in its table."""
    ((number, unit),) = re.findall(r"work [^│]*│[^│]*│ +([\d.]+) (\S+) +│", printed)
    return float(number) * NANOSECONDS[unit]


def tango(before: Path, after: Path, seconds: float) -> Said:
    """It compares two programs."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["compare", before, "--time", seconds, "--dump", folder]
        printed = _run(after, *words, may_fail=True)
        ((sign, star),) = re.findall(r"^work .*?([+-])[\d.]+%(\*?)$", printed, re.MULTILINE)
        interval = crates.of_samples(Path(folder, "work.csv"))
    return {"tango": Reading({"+*": "slower", "-*": "faster"}.get(sign + star), *interval)}


def zenbench(before: Path, after: Path, seconds: float) -> Said:
    """With a baseline that it has confirmed in five processes, for which it waits for a quiet machine; its rounds take
    some 10 ms.
    """
    with tempfile.TemporaryDirectory() as home:
        rounds = f"--rounds={max(2, round(10 * seconds))}"
        words = ["--bench", "--mode=confirm", "--workload-id=work", rounds]
        done = _ran(before, *words, "--save-baseline=base", ZENBENCH_DATA_DIR=home)
        if done.returncode == 0:
            done = _ran(after, *words, "--baseline=base", "--max-regression=1", ZENBENCH_DATA_DIR=home)
    return {"zenbench": read_zenbench(done.stderr)}


def read_zenbench(printed: str) -> Reading:
    """Whether it has confirmed that the change is at most 1 % slower, or that it is slower."""
    words = {"PASS:": "same", "FAIL:": "slower", "INCONCLUSIVE": "undecided", "cannot promote baseline": "undecided"}
    for word, said in words.items():
        if f"[zenbench] {word}" in printed:
            return Reading(said)
    raise Unable(f"zenbench says nothing of its baseline: {printed[-600:]}")


MEASURES: dict[str, Measure] = {"criterion": criterion, "divan": divan, "tango": tango, "zenbench": zenbench}


def _ran(program: Path, *words: object, **env: str) -> subprocess.CompletedProcess[str]:
    command = [str(program), *map(str, words)]
    return subprocess.run(command, cwd=TARGET, env={**os.environ, **env}, capture_output=True, text=True)


def _run(program: Path, *words: object, may_fail: bool = False, **env: str) -> str:
    done = _ran(program, *words, **env)
    if done.returncode and not may_fail:
        raise Unable(f"{program.name} exited with {done.returncode}: {done.stderr[-600:].strip()}")
    return done.stdout


# -- repositories --------------------------------------------------------------------------------------------


def git(folder: Path, *words: str) -> None:
    """Call git in a folder, as somebody."""
    identity = ("-c", "user.name=user", "-c", "user.email=user@example.org")
    run("git", *identity, "-C", folder, *words)


def _made(name: str) -> Path:
    """A repository of a crate, with a bench of each tool, whose programs of `main` are kept."""
    folder = TARGET / name
    if (folder / ".git").exists():
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    sources = _sources(name)
    shutil.copytree(sources, folder / "src")
    if (readme := sources.parent / "README.md").exists():
        shutil.copy(readme, folder)  # which documents the crate
    (folder / "benches").mkdir()
    for file, other in {"by_turns.rs": "by_turns.rs", "work.rs": "work.rs", f"{name}.rs": "one.rs"}.items():
        shutil.copy(TEMPLATE / file, folder / "benches" / other)
    shutil.copytree(TEMPLATE / "tools", folder / "tools")
    shutil.copy(crates.CRATE / "Cargo.lock", folder / "tools")
    for file in ("Cargo.lock", "rust-toolchain.toml"):
        shutil.copy(ROOT / file, folder)
    for place in (".", "tools"):
        # As Cargo.toml, cargo would read it in every repository that fetches this one.
        shutil.copy(TEMPLATE / place / "manifest.toml", folder / place / "Cargo.toml")
    facts = {"NAME": name, "EDITION": CRATES[name], "FEATURES": FEATURES.get(name, ""), "ROOT": str(ROOT)}
    for path in (folder / "Cargo.toml", folder / "tools" / "Cargo.toml", folder / "benches" / "work.rs"):
        text = re.sub("|".join(facts), lambda found: facts[found[0]], path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")
    (folder / ".gitignore").write_text("target\n", encoding="utf-8")
    with (folder / "src" / "lib.rs").open("a", encoding="utf-8") as library:
        library.write(PLANTED)
    kept = TARGET / "programs" / name
    kept.mkdir(parents=True, exist_ok=True)
    for tool, program in _programs(folder).items():
        shutil.copy(program, kept / tool)
    run("cargo", "metadata", "--format-version=1", "--manifest-path", folder / "Cargo.toml")  # writes the lock file
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "main")
    return folder


def _sources(name: str) -> Path:
    if name == "ours":
        return ROOT / "rust-kernels" / "by-turns-core" / "src"
    printed = run("cargo", "metadata", "--format-version=1", "--locked", "--manifest-path", crates.CRATE / "Cargo.toml")
    (manifest,) = [of["manifest_path"] for of in json.loads(printed)["packages"] if of["name"] == name]
    return Path(manifest).parent / "src"


def _programs(folder: Path) -> dict[str, Path]:
    """Compile the benches of the tools, and return the programs by name."""
    command = ["cargo", "bench", "--quiet", "--no-run", "--message-format=json"]
    # The tools are compiled once for all crates.
    env = {**os.environ, "CARGO_TARGET_DIR": str(TARGET / "tools")}
    done = subprocess.run(command, cwd=folder / "tools", env=env, capture_output=True, text=True)
    if done.returncode:
        raise Unable(f"{folder.name} does not compile: {done.stderr[-600:]}")
    messages = [json.loads(line) for line in done.stdout.splitlines() if '"executable":"' in line]
    return {message["target"]["name"]: Path(message["executable"]) for message in messages}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=30)
    parser.add_argument("--others", type=int, default=10)
    parser.add_argument("--planted", type=int, default=5, help="changes of 2 %%, and of 10 %%")
    parser.add_argument("--seconds", type=float, default=60, help="that each tool measures a change")
    parser.add_argument("--crate", choices=CRATES, action="append", help="one crate (may be repeated)")
    asked = parser.parse_args()
    try:
        table = compare(asked.changes, asked.others, asked.planted, asked.seconds, asked.crate or [*CRATES])
        print(crates.markdown(table))
    except Unable as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
