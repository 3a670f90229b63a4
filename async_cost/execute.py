"""Execute one notebook in a fresh kernel and show on the terminal what it prints.

    python -m async_cost.execute notebooks/zero-cost/measure.ipynb executed.ipynb

The notebook runs in its own folder, as it does in JupyterLab. The executed copy is written even when a cell fails.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

from async_cost.steps import die_with_parent

#: Colours and other terminal control in a kernel's messages.
CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: Seconds for a kernel to start: rust-analyzer loads the standard library first, on a machine that may be busy.
STARTUP_S = 600


class CellFailed(Exception):
    """A cell did not do what it should; the message holds the cell's first line and the kernel's own words."""


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

    Raises CellFailed for an error in a cell (in Rust also a panic, or anything on standard error), DeadKernelError or RuntimeError when there is no living kernel.
    """
    content = nbformat.read(notebook, as_version=4)
    resources = {"metadata": {"path": str(notebook.parent)}}
    client = EchoingClient(content, timeout=None, startup_timeout=STARTUP_S, resources=resources)
    code = [index for index, cell in enumerate(content.cells) if cell.cell_type == "code"]

    def announce(cell, cell_index, **_):
        if cell_index in code:
            print(f"cell {code.index(cell_index) + 1} of {len(code)}", flush=True)

    def refuse_complaint(cell, cell_index, **_):
        # evcxr goes on after a panic or an error that `?` hands it, having said so on standard error and nowhere else.
        if content.metadata.kernelspec.language == "rust" and words_of(cell, "stream"):
            raise CellFailed(told(cell, "stream"))

    client.on_cell_execute, client.on_cell_executed = announce, refuse_complaint
    try:
        client.execute(preexec_fn=die_with_parent)
    except CellExecutionError as error:
        failed = next(cell for cell in content.cells if words_of(cell, "error"))
        raise CellFailed(told(failed, "error")) from error
    finally:
        nbformat.write(content, executed)


def words_of(cell, kind: str) -> str:
    """What a cell's outputs of one kind say: `stream` (printed, standard error) or `error` (with the kernel's message)."""
    texts = []
    for output in cell.get("outputs", []):
        if output["output_type"] == kind == "stream" and output["name"] == "stderr":
            texts.append(output["text"])
        if output["output_type"] == kind == "error":
            texts.append("\n".join([output["ename"], output["evalue"], *output["traceback"]]))
    return CONTROL.sub("", "\n".join(texts))


def told(cell, kind: str) -> str:
    """The failure of a cell, for the terminal."""
    return f"the cell that begins with `{cell.source.splitlines()[0]}` failed:\n{words_of(cell, kind)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebook", type=Path)
    parser.add_argument("executed", type=Path)
    arguments = parser.parse_args()
    try:
        execute(arguments.notebook.resolve(), arguments.executed.resolve())
    except CellFailed as error:
        print(f"{arguments.notebook}: {error}", file=sys.stderr)
        return 1
    except (DeadKernelError, RuntimeError) as error:
        # A kernel that does not even start is a RuntimeError in jupyter_client; its own words stand above.
        print(f"{arguments.notebook}: no living kernel ({error})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
