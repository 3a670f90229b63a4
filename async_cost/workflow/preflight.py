"""What can be known before anything is installed, built or measured: what would make it fail in the end, and what a run
would lack. (Whether Python will do is checked before, in `__main__`.)
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator, Sequence

from async_cost.workflow import toolchain
from async_cost.workflow.toolchain import ROOT


def obstacles() -> Iterator[str]:
    """What would fail, each with the remedy."""
    if re.search(r"\s", str(ROOT)):
        yield f"a clone in a path without spaces: evcxr cannot load cells from {ROOT}"
    if shutil.which("cc") is None:
        yield "a C compiler named cc (Debian: apt-get install gcc)"
    if shutil.which("cargo") is None or shutil.which("rustc") is None:
        yield "Rust: install rustup; it fetches the compiler that rust-toolchain.toml names"
    # Where rustup fetches the compiler first, it says so, and does it once, not for several steps at the same time.
    elif subprocess.run(["rustc", "-V"], cwd=ROOT, stdout=subprocess.DEVNULL).returncode != 0:
        yield "the compiler that rust-toolchain.toml names; rustc says above why it is missing"
    if shutil.which("git") is None:
        yield "git: every run names the revision that was measured"
    elif (ROOT / ".git").exists():  # an archive has none, and its runs no revision
        last = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
        if last.returncode != 0:
            yield f"a repository that git can read: {last.stderr.strip()}"


def remarks(studies: Sequence[str], evidence: bool) -> Iterator[str]:
    """What a run would lack, or what would disturb it."""
    if shutil.which("valgrind") is None:
        yield "no valgrind here: instructions are not counted (Debian: apt-get install valgrind)"
    if "call-styles" in studies and not (shutil.which("ruby") and shutil.which("mruby")):
        yield "no ruby or no mruby here: neither is measured (Debian: apt-get install ruby mruby)"
    named = tomllib.loads((ROOT / "rust-toolchain.toml").read_text(encoding="utf-8"))["toolchain"]["channel"]
    if (compiler := toolchain.rustc_version()).split()[1] != named:
        yield f"the compiler is {compiler}, not {named} as in rust-toolchain.toml: see `rustup show`"
    outside = [".", ":(exclude)data/runs", ":(exclude)data/comparisons"]
    command = ["git", "status", "--porcelain", "--untracked-files=normal", "--", *outside]
    archive = not (ROOT / ".git").exists()  # what is around it is another repository, if any
    changed = [] if archive else subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stdout.splitlines()
    if changed and evidence:
        yield f"{len(changed)} files differ from the last commit: commit them, or others cannot measure the same"
