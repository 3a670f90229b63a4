"""Execute one Rust notebook in a fresh kernel and show its output on the terminal.

    python -m async_cost.workflow.execute notebooks/zero-cost/measure.ipynb executed.ipynb

The notebook runs in its own folder, as it does in JupyterLab. The executed copy is written even if a cell fails.

evcxr compiles and links one library for every cell, and recompiles all earlier items each time, which takes a minute
for hundreds of item cells. So item cells are sent as one with the call after them. Cells with the tag `glance` are for
JupyterLab and are left out.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode

from async_cost.workflow.steps import die_with_parent, print_progress

#: Colours and other terminal control in a kernel's messages.
CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: The tag of a cell that takes a glance at some variants for some seconds and keeps nothing.
GLANCE = "glance"
#: Seconds for a kernel to start: rust-analyzer loads the standard library first, on a machine that may be busy.
STARTUP_S = 600
#: Seconds to wait for output on standard error after a cell, and after the last one: evcxr forwards it in a thread,
#: sometimes after the cell is done. What comes even later is noticed with a later cell.
LATE_S, LAST_S = 0.1, 1.0


class CellFailed(Exception):
    """A cell failed; the message has the cell's first line and the kernel's own words."""


class EchoingClient(NotebookClient):
    """Runs a notebook, repeats what it prints, and keeps what comes on standard error, also between cells."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.complaints: list[str] = []

    async def async_start_new_kernel_client(self):
        """Connect to the kernel, and listen to standard error between cells as well, which nbclient does not."""
        connected = await super().async_start_new_kernel_client()
        assert connected is not None
        receive = connected.iopub_channel.get_msg

        async def receive_and_note(*arguments, **options):
            message = await receive(*arguments, **options)
            if message["msg_type"] == "stream" and message["content"]["name"] == "stderr":
                self.complaints.append(message["content"]["text"])
            return message

        connected.iopub_channel.get_msg = receive_and_note
        return connected

    async def complaint(self, seconds: float) -> str:
        """Return what has come on standard error, after waiting `seconds` for more."""
        assert self.kc is not None, "the kernel was started"
        with suppress(Empty):
            while True:
                await self.kc.iopub_channel.get_msg(timeout=seconds)
        return CONTROL.sub("", "".join(self.complaints))

    def process_message(self, message, cell, cell_index):
        """Repeat what a cell prints; nbclient does everything else."""
        if message["msg_type"] == "stream":
            print(message["content"]["text"], end="", flush=True)
        return super().process_message(message, cell, cell_index)


def execute(notebook: Path, executed: Path) -> None:
    """Run `notebook` from top to bottom and write its code, as it was sent, with what it printed to `executed`.

    Raises CellFailed for an error in a cell (also a panic, or anything on standard error), DeadKernelError or
    RuntimeError if there is no living kernel.
    """
    content = nbformat.read(notebook, as_version=4)
    content.cells = joined(content.cells)
    resources = {"metadata": {"path": str(notebook.parent)}}
    client = EchoingClient(content, timeout=None, startup_timeout=STARTUP_S, resources=resources)

    def announce(cell, cell_index, **_):
        print_progress("cell", cell_index + 1, len(content.cells))

    async def refuse_complaint(cell, cell_index, **_):
        # After a panic, or an error returned by `?`, evcxr continues; it reports them on standard error only.
        if complaint := await client.complaint(LATE_S if cell_index + 1 < len(content.cells) else LAST_S):
            raise CellFailed(failure_of(cell, complaint))

    client.on_cell_execute, client.on_cell_executed = announce, refuse_complaint
    try:
        client.execute(preexec_fn=die_with_parent)
    except CellExecutionError as error:
        failed = next(cell for cell in content.cells if errors_of(cell))
        raise CellFailed(failure_of(failed, errors_of(failed))) from error
    finally:
        nbformat.write(content, executed)


def joined(cells: Sequence[NotebookNode]) -> list[NotebookNode]:
    """Return the code cells as they are sent: items as one with the call after them, without prose and glances."""
    groups: list[list[NotebookNode]] = [[]]
    for cell in cells:
        tags = cell.metadata.get("tags", [])
        if cell.cell_type == "code" and GLANCE not in tags:
            groups[-1].append(cell)
            if "active-ipynb" in tags:
                groups.append([])
    return [nbformat.v4.new_code_cell("\n".join(cell.source for cell in group)) for group in groups if group]


def errors_of(cell) -> str:
    """The kernel's messages among a cell's outputs."""
    errors = [output for output in cell.get("outputs", []) if output["output_type"] == "error"]
    return CONTROL.sub(
        "",
        "\n".join(
            "\n".join([error["ename"], error["evalue"], *([] if error["ename"] == "DataError" else error["traceback"])])
            for error in errors
        ),
    )


def failure_of(cell, words: str) -> str:
    """The failure of a cell, for the terminal."""
    return f"the cell that begins with `{cell.source.splitlines()[0]}` failed:\n{words}"


def main() -> None:
    notebook, executed = map(Path, sys.argv[1:])
    try:
        execute(notebook.resolve(), executed.resolve())
    except CellFailed as error:
        sys.exit(f"{notebook}: {error}")
    except (DeadKernelError, RuntimeError) as error:
        # A kernel that does not start is a RuntimeError in jupyter_client; its own words are above.
        sys.exit(f"{notebook}: the kernel died or did not start ({error})")


if __name__ == "__main__":
    main()
