"""Where things are in the repository, and how messages name a path."""

import os
import re
from pathlib import Path

#: A name of a machine, which is a folder below data/runs.
SLUG = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


def repository_root() -> Path:
    """The folder that holds `rust-kernels` and `data`: searched upwards from the current folder, else from this
    package.

    The harness searches in the same way, so notebook, test and command line agree in any folder of the repository.
    """
    package = Path(__file__).resolve().parent
    for start in (Path.cwd().resolve(), package):
        for folder in (start, *start.parents):
            if (folder / "rust-kernels").is_dir() and (folder / "data").is_dir():
                return folder
    return package.parent


def runs_root() -> Path:
    """The folder of all measured runs: data/runs, or the one in ASYNC_COST_RUNS."""
    return _folder("ASYNC_COST_RUNS", Path("data") / "runs")


def reports_root() -> Path:
    """The folder of all reports: reports, or the one in ASYNC_COST_REPORTS."""
    return _folder("ASYNC_COST_REPORTS", Path("reports"))


def _folder(variable: str, usual: Path) -> Path:
    return Path(os.environ.get(variable) or repository_root() / usual).resolve()


def shown(path: Path) -> str:
    """`path` as error messages show it: relative to the repository, or its last three parts; never a home folder.

    Terminal control characters are escaped.
    """
    path = Path(path)
    try:
        # Unlike Path.resolve, this does not fail for a link that leads to itself.
        parts = Path(os.path.realpath(path)).relative_to(repository_root()).parts
    except ValueError:
        parts = path.parts[-3:]
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in "/".join(parts))
