"""Where things lie in the repository, and how a place is named to a reader."""

import os
from pathlib import Path


def repository_root() -> Path:
    """The folder that holds `rust-kernels` and `data`: upwards from the current folder, else from this package.

    The harness looks in the same way, so notebook, test and command line agree from any folder of the repository.
    """
    package = Path(__file__).resolve().parent
    for start in (Path.cwd().resolve(), package):
        for folder in (start, *start.parents):
            if (folder / "rust-kernels").is_dir() and (folder / "data").is_dir():
                return folder
    return package.parent


def runs_root() -> Path:
    """The folder of all measured runs."""
    return repository_root() / "data" / "runs"


def shown(path: Path) -> str:
    """`path` as error messages name it: from the repository on, or its last three parts; never a home folder.

    Characters that a terminal would obey are shown escaped.
    """
    path = Path(path)
    try:
        # Unlike Path.resolve, this does not fail for a link that leads to itself.
        parts = Path(os.path.realpath(path)).relative_to(repository_root()).parts
    except ValueError:
        parts = path.parts[-3:]
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in "/".join(parts))
