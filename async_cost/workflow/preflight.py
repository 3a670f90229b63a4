"""What can be known before anything is installed, built or measured: what would make it fail in the end, and what a run
would lack.
"""

from __future__ import annotations

import csv
import os
import re
import resource
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

from async_cost.paths import SLUG, reports_root, runs_root
from async_cost.workflow import toolchain
from async_cost.workflow.toolchain import ROOT

#: Bytes that must be free before the first build: with the Rust kernel, without it, and once all is installed.
FREE = {"first": 6e9, "native": 2e9, "later": 1e9}
#: A flag of personality(2).
ADDR_NO_RANDOMIZE = 0x40000


def obstacles(builds: bool, native: bool = False) -> Iterator[str]:
    """What would fail, each with the remedy; `builds` unless a run is only rendered, `native` without the kernel."""
    ours = [ROOT, *(ROOT / name for name in (".tools", ".venv", "target")), runs_root(), reports_root()]
    there = (next(place for place in (folder, *folder.parents) if place.exists()) for folder in ours)
    for folder in dict.fromkeys(there):
        if not os.access(folder, os.W_OK | os.X_OK):
            yield f"write access to {folder}: it belongs to another user, or is read-only"
    done = all(step.done() for step in toolchain.steps(native))
    free, wanted = shutil.disk_usage(ROOT).free, FREE["later" if done else "native" if native else "first"]
    if free < wanted:
        yield f"{wanted / 1e9:.0f} GB of free space: {ROOT} has {free / 1e9:.1f} GB"
    if not builds:
        return
    if re.search(r"\s", str(ROOT)):
        yield f"a clone in a path without spaces: evcxr cannot load cells from {ROOT}"
    if os.statvfs(ROOT).f_flag & getattr(os, "ST_NOEXEC", 0):  # known on Linux
        yield f"a clone on a file system that allows programs: {ROOT} is mounted with noexec"
    if shutil.which("cc") is None:
        yield "a C compiler named cc (Debian: apt-get install gcc)"
    yield from _compiler()
    if shutil.which("git") is None:
        yield "git: every run names the revision that was measured"
    elif (ROOT / ".git").exists():  # an archive has none, and its runs no revision
        last = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        if last.returncode != 0:
            yield f"a repository that git can read: {last.stderr.strip()}"
    name = os.environ.get("ASYNC_COST_MACHINE", "a")
    if not SLUG.fullmatch(name):
        yield f"a valid ASYNC_COST_MACHINE: {name!r} is not one of lower-case letters, digits and hyphens"


def _compiler() -> Iterator[str]:
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        yield "Rust: install rustup; it fetches the compiler that rust-toolchain.toml names"
        return
    # Where rustup fetches the compiler first, it says so, and does it once, not for several steps at the same time.
    version = subprocess.run(["rustc", "-V"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if version.returncode != 0:
        yield "the compiler that rust-toolchain.toml names; rustc says above why it is missing"
        return
    oldest = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["workspace"]["package"]["rust-version"]
    if list(map(int, re.findall(r"\d+", version.stdout)[:2])) < list(map(int, oldest.split("."))):
        yield f"Rust {oldest} or newer, such as from rustup: {shutil.which('rustc')} is {version.stdout.strip()}"


def remarks(studies: Sequence[str], only: str | None, evidence: bool) -> Iterator[str]:
    """What a run would lack, or what would disturb it."""
    if shutil.which("valgrind") is None:
        yield "no valgrind here: instructions are not counted (Debian: apt-get install valgrind)"
    if "call-styles" in studies and not (shutil.which("ruby") and shutil.which("mruby")):
        yield "no ruby or no mruby here: neither is measured (Debian: apt-get install ruby mruby)"
    named = tomllib.loads((ROOT / "rust-toolchain.toml").read_text(encoding="utf-8"))["toolchain"]["channel"]
    if (compiler := toolchain.rustc_version()).split()[1] != named:
        yield f"the compiler is {compiler}, not {named} as in rust-toolchain.toml: see `rustup show`"
    cores, load = os.cpu_count() or 1, os.getloadavg()[0]
    if load > 1:
        yield f"other programs are running (load {load:.1f}, {cores} cores): they disturb the measurement"
    if any(_kernel_says(str(file)) == "0" for file in Path("/sys/class/power_supply").glob("A*/online")):
        yield "this machine runs on its battery: it may slow down"
    no_randomize = int(_kernel_says("/proc/self/personality") or "0", 16) & ADDR_NO_RANDOMIZE
    if no_randomize or _kernel_says("/proc/sys/kernel/randomize_va_space") == "0":
        yield "addresses are not randomised here (setarch -R): intervals do not cover differences between processes"
    command = ["git", "status", "--porcelain", "--untracked-files=normal", "--", ".", ":(exclude)data/runs"]
    archive = not (ROOT / ".git").exists()  # what is around it is another repository, if any
    changed = [] if archive else subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    if changed and evidence:
        yield f"{len(changed)} files differ from the last commit: commit them, or others cannot measure the same"
    with (ROOT / "data" / "comparisons.csv").open(encoding="utf-8-sig", newline="") as file:
        compared = [row for row in csv.DictReader(file) if row["study"] in studies]
    connections = re.findall(r"connections=(\d+)", "\n".join(row["parameter"] for row in compared))
    needed = max(map(int, connections), default=0)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < needed + 200:
        yield f"{needed} connections are left out: they need as many open files, and `ulimit -Hn` is {most}"
    known = {row[column] for row in compared for column in ("variant", "baseline_variant")}
    if only and (unknown := [name for name in map(str.strip, only.split(";")) if name not in known]):
        yield f"{' and '.join(unknown)}: no variant of {studies[0]} unless it is new; known are {'; '.join(sorted(known))}"


def _kernel_says(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
