"""Leave in notebooks, and in the crates that are their other views, only what somebody has written: no outputs, and no
metadata of editors.

python -m async_cost.workflow.tidy notebooks/zero-cost/measure.ipynb ...
"""

import os
import sys
from pathlib import Path

import jupytext

from async_cost.files import write_whole
from async_cost.workflow.studies import source_of

#: Metadata of a notebook, besides which language it is in.
KEPT = ("async_cost", "jupytext", "kernelspec")
#: Tells `jupyter nbconvert --to script` and others what to write. A Rust notebook has none: its bytes are part of what
#: is measured.
PYTHON = {"file_extension": ".py", "name": "python"}


def tidied(path: Path) -> str:
    """The text of a notebook, or of a crate root, without what is not ours."""
    notebook = jupytext.read(path)
    for cell in notebook.cells:
        cell.metadata = {"tags": tags} if (tags := cell.metadata.get("tags")) else {}
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    metadata = {name: value for name, value in notebook.metadata.items() if name in KEPT}
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
    for named in map(Path, sys.argv[1:]):
        for view in filter(Path.exists, (named, source_of(named))):
            tidy(view)
