"""Set up everything inside the clone: Python packages, the evcxr kernel, and the crates that its cells are built from.

Nothing outside the clone is changed (Cargo and pip fill their own download caches). Every step knows when it is done, so that
a second start costs nothing; `make clean` removes it all.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from async_cost.steps import CARGO_ENV, Progress, Step, StepFailed, cargo_progress

EVCXR_VERSION = "0.22.0"

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
TOOLS = ROOT / ".tools"
PYTHON = VENV / "bin" / "python"
JUPYTER_PATH = TOOLS / "jupyter"
KERNEL = JUPYTER_PATH / "kernels" / "rust" / "kernel.json"
#: conda-forge has evcxr prebuilt (environment.yml); everywhere else it is built once into the clone.
CONDA_EVCXR = Path(os.environ.get("CONDA_PREFIX", "/nonexistent")) / "bin" / "evcxr_jupyter"
EVCXR = CONDA_EVCXR if CONDA_EVCXR.exists() else TOOLS / "bin" / "evcxr_jupyter"
#: Each study's cells are built in a folder below this one (named by evcxr.toml beside its notebook).
KERNEL_BUILDS = ROOT / "target" / "kernel"
VENDOR = ROOT / "target" / "vendor"

#: Keeps Jupyter, IPython and evcxr from reading or writing the user's own settings. evcxr_jupyter updates a kernelspec named
#: `rust` that it finds at start; with JUPYTER_PATH pointing here it can only find ours.
ENV = {
    "JUPYTER_PATH": str(JUPYTER_PATH),
    "JUPYTER_DATA_DIR": str(TOOLS / "jupyter-data"),
    "JUPYTER_CONFIG_DIR": str(TOOLS / "jupyter-config"),
    "JUPYTER_RUNTIME_DIR": str(TOOLS / "jupyter-runtime"),
    "IPYTHONDIR": str(TOOLS / "ipython"),
    "EVCXR_CONFIG_DIR": str(TOOLS / "evcxr-config"),
    "PATH": os.pathsep.join([str(VENV / "bin"), os.environ.get("PATH", "")]),
}


def steps() -> list[Step]:
    """The set-up, in order."""
    return [
        Step("Python packages", _install_python, 60, _python_done),
        Step("evcxr kernel", _install_evcxr, 690, _evcxr_done),
        Step("crates for the cells", _vendor, 15, _vendor_done),
    ]


def missing_programs() -> list[str]:
    """What a person must install before anything can work, each with the remedy."""
    missing = []
    if sys.version_info < (3, 11):  # noqa: UP036 (this is where an older one is told so)
        missing.append(f"Python 3.11 or newer (this is {sys.version.split()[0]}); point PYTHON=... at one")
    if shutil.which("cargo") is None:
        missing.append("Rust: install rustup; it fetches the compiler that rust-toolchain.toml names")
    if shutil.which("cc") is None:
        missing.append("a C compiler named cc (Debian: apt-get install gcc)")
    return missing


def _digest(*paths: Path) -> str:
    return hashlib.sha256(b"\0".join(path.read_bytes() if path.exists() else b"" for path in paths)).hexdigest()


def _stamp(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


# Python packages: exact versions with hashes from requirements.txt, then this package itself, editable.


def _python_inputs() -> str:
    # The folder is part of it: the scripts of a virtual environment hold its absolute path, so a moved clone needs a new one.
    return f"{_digest(ROOT / 'requirements.txt', ROOT / 'pyproject.toml')} {ROOT}"


def _python_done() -> bool:
    return PYTHON.exists() and _stamp(VENV / "async-cost.stamp") == _python_inputs()


def _install_python(progress: Progress) -> None:
    if VENV.exists():
        shutil.rmtree(VENV)
    progress(0.0, "virtual environment")
    progress.command([sys.executable, "-m", "venv", VENV])
    wanted = len(re.findall(r"^\S+==", (ROOT / "requirements.txt").read_text(encoding="utf-8"), re.MULTILINE))
    seen = 0

    def count(line: str) -> tuple[float, str] | None:
        nonlocal seen
        if line.startswith("Collecting "):
            seen += 1
            return 0.6 * seen / wanted, f"{seen} of {wanted} packages found"
        if line.startswith("Installing collected"):
            return 0.6, f"installing {wanted} packages"
        return None

    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install"]
    progress.command([*pip, "--require-hashes", "-r", "requirements.txt"], progress=count)
    progress.command([*pip, "--no-deps", "--no-build-isolation", "--no-index", "-e", "."])
    (VENV / "async-cost.stamp").write_text(_python_inputs(), encoding="utf-8")


# The Rust kernel.


def _evcxr_done() -> bool:
    if not (EVCXR.exists() and KERNEL.exists()):
        return False
    argv = json.loads(KERNEL.read_text(encoding="utf-8"))["argv"]
    return argv[0] == str(EVCXR) and _evcxr_built()


def _evcxr_built() -> bool:
    return EVCXR.exists() and (EVCXR == CONDA_EVCXR or _stamp(TOOLS / "evcxr.stamp") == EVCXR_VERSION)


def _install_evcxr(progress: Progress) -> None:
    build = TOOLS / "build"  # kept until it succeeds, so that a killed build goes on where it was
    arguments = ["cargo", "install", "--locked", "--force", "--root", TOOLS, "--target-dir", build]
    if not _evcxr_built():
        progress.command(
            [*arguments, "evcxr_jupyter", "--version", EVCXR_VERSION], env=CARGO_ENV, progress=cargo_progress
        )
        (TOOLS / "evcxr.stamp").write_text(EVCXR_VERSION, encoding="utf-8")
    shutil.rmtree(build, ignore_errors=True)
    progress.command([EVCXR, "--install"])


# One lock for all: evcxr resolves the dependencies of its cells anew, without the workspace's Cargo.lock. It can only choose what
# it finds, so the crates of the lock, and no others, are laid out in a folder that replaces the registry for those builds.


def _vendor_done() -> bool:
    return _stamp(KERNEL_BUILDS / "lock.stamp") == _digest(ROOT / "Cargo.lock")


def _vendor(progress: Progress) -> None:
    if not (ROOT / "Cargo.lock").exists():
        raise StepFailed("Cargo.lock is missing; it belongs to the repository: git checkout Cargo.lock")
    progress(None, "copying the sources that Cargo.lock names")
    progress.command(["cargo", "vendor", "--locked", "--quiet", VENDOR])
    # Builds made from other versions would be mixed with these.
    shutil.rmtree(KERNEL_BUILDS, ignore_errors=True)
    config = KERNEL_BUILDS / ".cargo" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(
        '[source.crates-io]\nreplace-with = "locked"\n\n[source.locked]\ndirectory = "../vendor"\n',
        encoding="utf-8",
    )
    (KERNEL_BUILDS / "lock.stamp").write_text(_digest(ROOT / "Cargo.lock"), encoding="utf-8")


def rustc_version() -> str:
    """`rustc 1.95.0 (…)`, the compiler that rust-toolchain.toml selects here."""
    return subprocess.run(["rustc", "-V"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
