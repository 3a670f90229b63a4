"""A measure notebook and its crate are the same: is what will be timed (the notebook) what was counted and tested (the
crate)?

python -m async_cost.workflow.in_step notebooks/zero-cost/measure.ipynb ...
"""

import sys
from pathlib import Path

import jupytext

from async_cost.workflow.studies import source_of


def is_paired(notebook: Path) -> bool:
    """True if the notebook, written as Rust, is identical to its crate root."""
    return jupytext.writes(jupytext.read(notebook), fmt="rs:percent") == source_of(notebook).read_text(encoding="utf-8")


if __name__ == "__main__":
    apart = [name for name in sys.argv[1:] if not is_paired(Path(name).resolve())]
    differ = (
        f"{name} and {source_of(Path(name).resolve())} differ: run `make format`, the newer one wins" for name in apart
    )
    sys.exit("\n".join(differ) or None)
