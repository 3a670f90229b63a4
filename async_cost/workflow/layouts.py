"""A link order for each process. Where the linker puts a function changes its speed by some per cent, so each episode
runs a program, or a cell's library, whose functions were linked in an order of its own.

`rust-kernels/harness/linker` stands before the linker and keeps what was linked. Nothing is compiled again, and a link
takes a few hundredths of a second. Only LLVM's linker can do this, which rustc brings along and uses on x86-64 Linux;
elsewhere every process has the order of the compiler.
"""

import hashlib
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from async_cost.workflow.toolchain import ROOT

LINKER = ROOT / "rust-kernels" / "harness" / "linker"


def environment() -> dict[str, str]:
    """Makes cargo link by `LINKER`. All that builds for one folder sets it, else cargo compiles everything again."""
    about = subprocess.run(["rustc", "-vV"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    (host,) = re.findall(r"^host: (.+)$", about, re.MULTILINE)
    return {f"CARGO_TARGET_{host.upper().replace('-', '_')}_LINKER": str(LINKER)}


def seed(run_id: str, study: str, until: int) -> int:
    """The number from which the order of an episode is drawn: the same again when it is resumed."""
    digest = hashlib.sha256(f"{run_id} {study} {until}".encode()).digest()
    # The linker takes 32 bits, of which 0 would be another number each time, and all ones another rule.
    return 1 + int.from_bytes(digest[:4], "big") // 4


def store(file: Path, linked: Path) -> None:
    """Keep next to `file`, a program or library, what it was linked from: the linker wrote it beside `linked`."""
    folder = _stored(file)
    shutil.rmtree(folder, ignore_errors=True)
    if (archive := Path(f"{linked}.tar")).exists():
        with tarfile.open(archive) as what:
            what.extractall(folder, filter="data")


@contextmanager
def relinked(file: Path, seed: int) -> Iterator[Path | None]:
    """`file`, linked in the order that `seed` draws and removed afterwards; None where it cannot be."""
    for stale in file.parent.glob(f"{file.name}.layout*"):  # of a process that was killed
        stale.unlink()
    layout, linker = Path(f"{file}.layout{seed}"), _linker()
    response = next(_stored(file).glob("*/response.txt"), None)
    if not (response and linker):
        yield None
        return
    command: list[str | Path] = [linker, "@response.txt", "-o", layout, f"--shuffle-sections=.text*={seed}"]
    done = subprocess.run(command, cwd=response.parent, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield layout if done.returncode == 0 else None
    finally:
        layout.unlink(missing_ok=True)


def _stored(file: Path) -> Path:
    return Path(f"{file}.link")


def _linker() -> Path | None:
    """LLVM's linker, as rustc brings it along."""
    root = subprocess.run(["rustc", "--print", "sysroot"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return next(Path(root.strip()).glob("lib/rustlib/*/bin/gcc-ld/ld.lld"), None)
