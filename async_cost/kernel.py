"""Start the Rust kernel with a build folder of its own.

    python -m async_cost.kernel <evcxr_jupyter> <connection file>

evcxr rewrites one source file for every cell, so two kernels in one folder break each other; in a new folder, a kernel builds all
crates anew, which takes a minute. So the folders are numbered and kept, and a kernel takes the first that no other kernel
holds. The lock on it is passed on to evcxr, and ends when that does.
"""

import fcntl
import itertools
import os
import sys
from pathlib import Path

from async_cost.toolchain import KERNEL_BUILDS


def claim(room: str, builds: Path = KERNEL_BUILDS) -> tuple[Path, int]:
    """The first free folder `<builds>/<room>/<number>` and the descriptor whose lock keeps it."""
    for number in itertools.count():
        folder = builds / room / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        return folder, lock


def main() -> None:
    evcxr, connection = sys.argv[1:]
    folder, lock = claim(Path.cwd().name)
    os.set_inheritable(lock, True)
    os.environ["EVCXR_TMPDIR"] = str(folder)
    os.execv(evcxr, [evcxr, "--control_file", connection])


if __name__ == "__main__":
    main()
