"""Notebooks and the crates that are their other views: both hold the same text, and only what authors have written.

python -m async_cost.workflow.pairing compare notebooks/zero-cost/measure.ipynb ...
python -m async_cost.workflow.pairing tidy notebooks/zero-cost/measure.ipynb ...
"""

import os
import sys
from pathlib import Path

import jupytext

from async_cost.files import write_whole
from async_cost.workflow.studies import source_of

#: Metadata of a notebook, besides which language it is in.
METADATA = ("async_cost", "jupytext", "kernelspec")
#: Tells `jupyter nbconvert --to script` and others what to write. A Rust notebook has none: its bytes are part of what
#: is measured.
PYTHON = {"file_extension": ".py", "name": "python"}


def is_paired(notebook: Path) -> bool:
    """True if the notebook, written as Rust, is identical to its crate root."""
    return jupytext.writes(jupytext.read(notebook), fmt="rs:percent") == source_of(notebook).read_text(encoding="utf-8")


def tidied(path: Path) -> str:
    """The text of a notebook, or of a crate root, without outputs and without metadata of editors."""
    notebook = jupytext.read(path)
    for cell in notebook.cells:
        cell.metadata = {"tags": tags} if (tags := cell.metadata.get("tags")) else {}
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    metadata = {name: value for name, value in notebook.metadata.items() if name in METADATA}
    if metadata.get("kernelspec", {}).get("language") == "python":
        metadata["language_info"] = PYTHON
    notebook.metadata = metadata
    return jupytext.writes(notebook, fmt="ipynb" if path.suffix == ".ipynb" else "rs:percent").rstrip("\n") + "\n"


def tidy(path: Path) -> None:
    """Tidy the file, if it is not. It stays as old as it was: of two views the one that was edited last counts."""
    text, known = tidied(path), path.stat()
    if text != path.read_text(encoding="utf-8"):
        write_whole(path, text)
        os.utime(path, ns=(known.st_atime_ns, known.st_mtime_ns))


if __name__ == "__main__":
    command, *names = sys.argv[1:]
    notebooks = [Path(name).resolve() for name in names]
    if command == "tidy":
        for path in notebooks:
            for view in filter(Path.exists, (path, source_of(path))):
                tidy(view)
    else:
        apart = [str(path) for path in notebooks if not is_paired(path)]
        sys.exit(
            "\n".join(f"{path} and its crate differ: run `make format`, the newer one wins" for path in apart) or 0
        )
