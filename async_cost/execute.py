"""Execute one notebook in a fresh kernel and show on the terminal what it prints.

    python -m async_cost.execute notebooks/zero-cost/measure.ipynb executed.ipynb

The notebook runs in its own folder, as it does in JupyterLab. The executed copy is written even when a cell fails.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from async_cost.steps import die_with_parent


class EchoingClient(NotebookClient):
    """Runs a notebook, repeating its printed lines and counting its code cells on standard output."""

    def process_message(self, message, cell, cell_index):
        """Repeat what a cell prints; everything else is nbclient's business."""
        if message["msg_type"] == "stream":
            sys.stdout.write(message["content"]["text"])
            sys.stdout.flush()
        return super().process_message(message, cell, cell_index)


def execute(notebook: Path, executed: Path) -> None:
    """Run `notebook` from top to bottom and write the result to `executed`.

    Raises CellExecutionError naming the cell and the kernel's message, or DeadKernelError when the kernel was killed.
    """
    content = nbformat.read(notebook, as_version=4)
    client = EchoingClient(content, timeout=None, resources={"metadata": {"path": str(notebook.parent)}})
    code = [index for index, cell in enumerate(content.cells) if cell.cell_type == "code"]

    def announce(cell, cell_index, **_):
        if cell_index in code:
            print(f"cell {code.index(cell_index) + 1} of {len(code)}", flush=True)

    client.on_cell_execute = announce
    try:
        client.execute(preexec_fn=die_with_parent)
    finally:
        nbformat.write(content, executed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebook", type=Path)
    parser.add_argument("executed", type=Path)
    arguments = parser.parse_args()
    try:
        execute(arguments.notebook.resolve(), arguments.executed.resolve())
    except CellExecutionError as error:
        print(f"{arguments.notebook}: {error}", file=sys.stderr)
        return 1
    except (DeadKernelError, RuntimeError) as error:
        # A kernel that does not even start is a RuntimeError in jupyter_client; its own words stand above.
        print(f"{arguments.notebook}: no living kernel ({error})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
