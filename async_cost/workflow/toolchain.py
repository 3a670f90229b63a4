"""Set up everything inside the clone: Python packages, the evcxr kernel, and the crates that its cells are built from.

Nothing outside the clone is changed (except that Cargo and pip fill their own download caches). Every step knows
whether it is done, so a second start costs nothing; `make clean` removes everything.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from async_cost.workflow.steps import CARGO_ENV, Progress, Step, cargo_progress

EVCXR_VERSION = "0.22.0"

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
TOOLS = ROOT / ".tools"
PYTHON = VENV / "bin" / "python"
JUPYTER_PATH = TOOLS / "jupyter"
KERNEL = JUPYTER_PATH / "kernels" / "rust" / "kernel.json"
#: conda-forge has evcxr prebuilt (environment.yml); everywhere else it is built once into the clone.
CONDA_EVCXR = Path(os.environ.get("CONDA_PREFIX", "/nonexistent")) / "bin" / "evcxr_jupyter"
EVCXR = CONDA_EVCXR if CONDA_EVCXR.exists() else TOOLS / "bin" / "evcxr_jupyter"
#: The kernel's own work on a cell is small beside the compiler's, so it is not worth minutes of optimising.
EVCXR_PROFILE = {
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "0",
    "CARGO_PROFILE_RELEASE_DEBUG": "false",
    "CARGO_PROFILE_RELEASE_LTO": "off",
}
#: What every kernel reads the standard library with, at its start and for its first cell: 4.3 s of a processor if these
#: are optimised fully, 8 s at opt-level 1; with none optimised, 26 s for the start alone. Optimising all other crates
#: as well would take minutes.
OPTIMISED_CRATES = (
    *("ra-ap-rustc_lexer", "ra_ap_base_db", "ra_ap_hir_def", "ra_ap_hir_expand", "ra_ap_intern", "ra_ap_mbe"),
    *("ra_ap_parser", "ra_ap_span", "ra_ap_syntax", "ra_ap_syntax-bridge", "ra_ap_tt", "ra_ap_vfs"),
    *("boxcar", "drop_bomb", "hashbrown", "indexmap", "libmimalloc-sys", "memchr", "rowan", "rustc-hash", "salsa"),
    *("smallvec", "text-size", "triomphe"),
)
#: Each kernel builds its cells in a folder of its own below this one (`async_cost.workflow.kernel`). Cargo looks for no
#: workspace above a folder of this name: cells belong to none, neither to ours nor to one around the clone.
KERNEL_BUILDS = ROOT / "target" / "package"
VENDOR = ROOT / "target" / "vendor"

#: The kernelspec's command: evcxr, given a build folder of its own.
KERNEL_COMMAND = [str(PYTHON), "-m", "async_cost.workflow.kernel", str(EVCXR), "{connection_file}"]

#: Names of steps that others need.
PACKAGES, EVCXR_STEP, CRATES = "Python packages", "evcxr kernel", "crates for the cells"


def steps(native: bool = False) -> list[Step]:
    """The steps that a measurement and its pages need; `native` leaves out what only the Rust kernel needs."""
    python = _stamped(PACKAGES, _install_python, 30, VENV / "async-cost.stamp", ["requirements.txt"], [])
    if native:
        return [python]
    crates = _stamped(CRATES, _vendor, 15, KERNEL_BUILDS / "lock.stamp", ["Cargo.lock", "Cargo.toml"], [])
    return [python, Step(EVCXR_STEP, _install_evcxr, 480, _evcxr_done, needs=[]), crates]


def lab_step() -> Step:
    """Install what JupyterLab and the tests need besides."""
    lock, stamp = "requirements-lab.txt", VENV / "lab.stamp"  # which goes away with the packages
    return _stamped("JupyterLab and tests", partial(_install_locked, lock), 40, stamp, [lock], [PACKAGES])


def _stamped(
    name: str,
    install: Callable[[Progress], None],
    expected_s: float,
    stamp: Path,
    files: Sequence[str],
    needs: list[str],
) -> Step:
    """A step that is done until one of `files` changes, or the clone is moved: the scripts of a virtual environment
    hold its absolute path. The file `stamp` says for what it was done.
    """

    def depends_on() -> str:
        return hashlib.sha256(b"\0".join([bytes(ROOT), *((ROOT / name).read_bytes() for name in files)])).hexdigest()

    def run(progress: Progress) -> None:
        install(progress)
        stamp.write_text(depends_on(), encoding="utf-8")

    return Step(name, run, expected_s, lambda: _holds(stamp, depends_on()), needs)


def _holds(stamp: Path, text: str) -> bool:
    return stamp.exists() and stamp.read_text(encoding="utf-8") == text


# Python packages: exact versions with hashes, all that are needed (so pip has nothing to resolve), then this package
# itself, editable. What is imported is compiled when it is; to compile everything takes longer than to install it.


def _install_python(progress: Progress) -> None:
    progress("virtual environment")
    if VENV.is_symlink():
        sys.exit(f"{VENV} is a link to another clone's packages, which this would delete: remove the link")
    progress.command([sys.executable, "-m", "venv", "--clear", VENV])
    _install_locked("requirements.txt", progress)
    _pip(progress, "--no-build-isolation", "--no-index", "-e", ".")


def _install_locked(lock: str, progress: Progress) -> None:
    progress(f"packages of {lock}")
    _pip(progress, "--require-hashes", "-r", lock)


def _pip(progress: Progress, *what: str) -> None:
    options = ("--disable-pip-version-check", "--no-deps", "--no-compile")
    progress.command([PYTHON, "-m", "pip", "install", *options, *what])


# The Rust kernel.


def _evcxr_done() -> bool:
    built = _evcxr_built() and KERNEL.exists()
    return built and json.loads(KERNEL.read_text(encoding="utf-8"))["argv"] == KERNEL_COMMAND


def _evcxr_built() -> bool:
    return EVCXR.exists() and (EVCXR == CONDA_EVCXR or _holds(TOOLS / "evcxr.stamp", EVCXR_VERSION))


def _install_evcxr(progress: Progress) -> None:
    build = TOOLS / "build"  # stays until it succeeds, so that a killed build goes on where it was
    if not _evcxr_built():
        cargo: list[str | Path] = ["cargo", "install", "--locked", "--force", "--root", TOOLS, "--target-dir", build]
        cargo += ["evcxr_jupyter", "--version", EVCXR_VERSION]
        for crate in OPTIMISED_CRATES:
            cargo += ["--config", f"profile.release.package.{crate}.opt-level=3"]
        progress.command(cargo, env={**CARGO_ENV, **EVCXR_PROFILE}, progress=cargo_progress)
        (TOOLS / "evcxr.stamp").write_text(EVCXR_VERSION, encoding="utf-8")
    shutil.rmtree(build, ignore_errors=True)
    progress.command([EVCXR, "--install"])
    spec = json.loads(KERNEL.read_text(encoding="utf-8"))
    KERNEL.write_text(json.dumps({**spec, "argv": KERNEL_COMMAND}, indent=1) + "\n", encoding="utf-8")


# One lock for all: evcxr resolves the dependencies of its cells anew, without the workspace's Cargo.lock, so the crates
# of the lock, and no others, are in a folder that replaces the registry for those builds.


def _vendor(progress: Progress) -> None:
    progress("copying the sources that Cargo.lock names")
    progress.command(["cargo", "vendor", "--locked", "--quiet", "--respect-source-config", VENDOR])
    # Builds made from other versions would be mixed with these.
    shutil.rmtree(KERNEL_BUILDS, ignore_errors=True)
    config = KERNEL_BUILDS / ".cargo" / "config.toml"
    config.parent.mkdir(parents=True)
    text = '[source.crates-io]\nreplace-with = "locked"\n\n[source.locked]\ndirectory = "../vendor"\n'
    config.write_text(f"{text}{_of_packages()}", encoding="utf-8")


def _of_packages() -> str:
    """The settings of single crates in Cargo.toml: the cells' crates are compiled as those of a native program."""
    profile = tomllib.loads((ROOT / "Cargo.toml").read_text(encoding="utf-8"))["profile"]["release"]
    lines = []
    for name, settings in profile["package"].items():
        lines += [f"\n[profile.dev.package.{name}]\n", *(f"{key} = {value}\n" for key, value in settings.items())]
    return "".join(lines)


def rustc_version() -> str:
    """`rustc 1.95.0 (…)`, the compiler that rust-toolchain.toml selects here."""
    return subprocess.run(["rustc", "-V"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def cpu() -> str:
    """The processor, as Linux calls it; elsewhere its architecture."""
    facts = Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    match = re.search(r"^(?:model name|Hardware)\s*: (.*)", facts, re.MULTILINE)
    return match[1] if match else os.uname().machine


def revision(checkout: Path = ROOT) -> str:
    """The commit that is checked out; empty without one."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, capture_output=True, text=True)
    return head.stdout.strip()
