"""What tests are about: files that are committed or added, as git tells. Whatever else normal work leaves in a clone,
such as runs and notebooks of one's own, what editors and systems write, or what was built, is nothing to them.
"""

import functools
import subprocess
from pathlib import Path

from async_cost.workflow.studies import MEASURED, analysed, analysis, measuring
from async_cost.workflow.toolchain import ROOT


@functools.cache
def tracked(pattern: str = "**") -> list[Path]:
    """The files that git knows whose path in the repository fits `pattern`, and that are there, sorted."""
    command = ["git", "ls-files", "-z", "--", f":(glob){pattern}"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [path for name in sorted(listed.split("\0")) if (path := ROOT / name).is_file()]


def committed_runs() -> list[Path]:
    """The folders of committed runs."""
    return [file.parent for file in tracked("data/runs/*/*/run.json")]


#: These notebooks, and those that the workflow finds: a study in work is tested as well.
NOTEBOOKS = sorted({*tracked("notebooks/**/*.ipynb"), *map(measuring, MEASURED), *map(analysis, analysed())})
#: The one that only glances, and is no study.
FIRST = ROOT / "notebooks" / "start-here.ipynb"
#: Those in Rust that have a crate: of the studies, and what these are built on, which glances and measures nothing.
RUST = [path for path in NOTEBOOKS if path.parent.parent.name == "notebooks" and path.name != "analysis.ipynb"]
LIBRARIES = [path for path in RUST if path not in {*map(measuring, MEASURED)}]


def crate_of(notebook: Path) -> Path:
    """The folder of the crate that a Rust notebook is: for `measure` that of all its notebooks, else one in it."""
    folder = ROOT / "rust-kernels" / notebook.parent.name
    return folder if notebook.stem == "measure" else folder / notebook.stem
