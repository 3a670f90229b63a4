"""Start the Rust kernel with a build folder of its own.

    python -m async_cost.workflow.kernel <evcxr_jupyter> <connection file>

evcxr rewrites one source file for every cell, so two kernels in one folder would break each other; in an empty one, a
kernel rebuilds all crates, for a minute. So folders are numbered and kept, a kernel takes the first free one, and a new
one begins with a copy of what was built in another. The lock is passed on to evcxr, and released when that ends.
"""

import fcntl
import itertools
import os
import shutil
import sys
from pathlib import Path

from async_cost.workflow import layouts
from async_cost.workflow.toolchain import KERNEL_BUILDS


def claim(name: str, builds: Path = KERNEL_BUILDS) -> tuple[Path, int]:
    """The first free folder `<builds>/<name>/<number>` and the descriptor whose lock reserves it."""
    numbers = itertools.count()
    while True:
        folder = builds / name / str(next(numbers))
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        if not (folder / "target").exists():
            _begin_with_a_copy(folder, builds)
        return folder, lock


def _begin_with_a_copy(folder: Path, builds: Path) -> None:
    """Copy into `folder` what was built in the newest other folder that no kernel uses, which began with copies itself,
    without what belongs to cells (evcxr calls it ctx and code). Cargo decides what of it can be used.
    """
    there = [place for place in builds.glob("*/*/target") if place.parent != folder]
    made = {place: place.parent.joinpath("lock").stat().st_ctime_ns for place in there}
    for target in sorted(there, key=made.__getitem__, reverse=True):
        with (target.parent / "lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                continue
            part = folder / "part"  # a copy that was killed is started again
            shutil.rmtree(part, ignore_errors=True)
            of_cells = shutil.ignore_patterns("*ctx*", "libcode_*", "measures-*")
            shutil.copytree(target, part, symlinks=True, ignore=of_cells)
            part.rename(folder / "target")
            return


def main() -> None:
    evcxr, connection = sys.argv[1:]
    folder, lock = claim(Path.cwd().name)
    os.set_inheritable(lock, True)
    os.environ.update(layouts.environment(), EVCXR_TMPDIR=str(folder))
    os.execv(evcxr, [evcxr, "--control_file", connection])


if __name__ == "__main__":
    main()
