"""Execute one Rust notebook in a fresh kernel and show its output on the terminal.

    python -m async_cost.workflow.execute notebooks/zero-cost/measure.ipynb executed.ipynb [--together]

The notebook runs in its own folder, as it does in JupyterLab. The executed copy is written even if a cell fails.

evcxr compiles and links one library for every cell, and recompiles all earlier items each time, which takes a minute
for hundreds of item cells. So neighbouring item cells are sent as one, together with the cell that calls them next.
Cells with the tag `glance` are meant for a person in JupyterLab and are skipped. `--together` sends all as one but the
first, which sets the kernel up: what is proved and then measured is compiled once. Since that is another program, it is
for what is no evidence.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
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
#: Seconds to wait for output on standard error after a cell that calls something, and after the last cell: evcxr
#: forwards it in a thread, sometimes after the cell is done. What comes even later is noticed with a later cell.
LATE_S, LAST_S = 0.1, 1.0
#: Begins a line of output that tells the place of the call that comes next, where several calls are sent as one.
PLACE, ANNOUNCED = "\x1e", 'println!("\\u{{1e}}{}");\n'
#: A call of several that the processes which measure do not repeat: they run what was sent last.
ONCE = 'if std::env::var("ASYNC_COST_EPISODE").map_or(true, |episode| episode == "prepare") {{\n{}\n}}'


class CellFailed(Exception):
    """A cell failed; the message has the cell's first line and the kernel's own words."""


class EchoingClient(NotebookClient):
    """Runs a notebook and repeats its printed lines; items go to the kernel together with the cell that calls them."""

    #: Positions of cells that are sent together, by the position of the last of them.
    together: Mapping[int, list[int]] = {}
    #: The call whose output comes, of several that were sent as one.
    place: int | None = None

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        #: Cells by the request that they were sent with, and what came on standard error so far, by request.
        self.sent: dict[str, NotebookNode] = {}
        self.complaints: list[tuple[str, str]] = []

    async def async_start_new_kernel_client(self):
        """Connect to the kernel, and listen to standard error between cells as well, which nbclient does not."""
        connected = await super().async_start_new_kernel_client()
        assert connected is not None
        receive = connected.iopub_channel.get_msg

        async def receive_and_note(*arguments, **options):
            message = await receive(*arguments, **options)
            if message["msg_type"] == "stream" and message["content"]["name"] == "stderr":
                request = message["parent_header"].get("msg_id", "")
                self.complaints.append((request, message["content"]["text"]))
            return message

        connected.iopub_channel.get_msg = receive_and_note
        return connected

    async def complaint(self, seconds: float) -> str:
        """Output on standard error, with the cell that it belongs to, after waiting `seconds` for more; or nothing."""
        assert self.kc is not None, "the kernel was started"
        with suppress(Empty):
            while True:
                await self.kc.iopub_channel.get_msg(timeout=seconds)
        messages, self.complaints = self.complaints, []
        if not messages:
            return ""
        cell = self.sent.get(messages[0][0]) or list(self.sent.values())[-1]
        if self.place is not None:
            cell = self.nb.cells[self.place]
        return failure_of(cell, CONTROL.sub("", "".join(text for _, text in messages)))

    async def async_execute_cell(self, cell, cell_index, *arguments, **options):
        """Execute a cell with the neighbours sent with it; after a failure one by one, to name the right one."""
        group = self.together.get(cell_index)
        if group is None:
            if any(cell_index in others for others in self.together.values()):
                return cell  # sent with the last of its group
            return await super().async_execute_cell(cell, cell_index, *arguments, **options)
        members = [self.nb.cells[index] for index in group]
        joined = NotebookNode({**cell, "source": self._joined(group)})
        try:
            await super().async_execute_cell(joined, cell_index, *arguments, **options)
        except CellExecutionError:
            self.place = None
            for index, member in zip(group, members, strict=True):
                await super().async_execute_cell(member, index, *arguments, **options)
            return cell
        for member in members:
            member.execution_count = joined.execution_count
        cell.outputs = joined.outputs
        self.nb.cells[cell_index] = cell  # nbclient has put the joined one there
        return cell

    def _joined(self, group):
        """The cells of a group as they are sent: of several calls, each tells where its output begins."""
        calls = [index for index in group if is_call(self.nb.cells[index])]
        places = {index: ANNOUNCED.format(index) for index in calls if len(calls) > 1}
        sent = []
        for index in group:
            source = places.get(index, "") + self.nb.cells[index].source
            sent.append(source if index == group[-1] or index not in places else ONCE.format(source))
        return "\n".join(sent)

    def output(self, outs, message, display_id, cell_index):
        """Keep what a call of several prints with its own cell."""
        if message["msg_type"] == "stream" and message["content"]["text"].startswith(PLACE):
            self.place = int(message["content"]["text"].strip(PLACE))
            return None
        if self.place not in (None, cell_index):
            outs = self.nb.cells[self.place].outputs
        return super().output(outs, message, display_id, cell_index)

    def process_message(self, message, cell, cell_index):
        """Repeat what a cell prints and remember which cell it was; nbclient does everything else."""
        self.sent[message["parent_header"]["msg_id"]] = self.nb.cells[cell_index]
        if message["msg_type"] == "stream" and not message["content"]["text"].startswith(PLACE):
            sys.stdout.write(message["content"]["text"])
            sys.stdout.flush()
        return super().process_message(message, cell, cell_index)


def execute(notebook: Path, executed: Path, together: bool = False) -> None:
    """Run `notebook` from top to bottom and write the result to `executed`; `together` sends all cells but the
    first as one.

    Raises CellFailed for an error in a cell (also a panic, or anything on standard error), DeadKernelError or
    RuntimeError if there is no living kernel.
    """
    content = nbformat.read(notebook, as_version=4)
    resources = {"metadata": {"path": str(notebook.parent)}}
    client = EchoingClient(content, timeout=None, startup_timeout=STARTUP_S, resources=resources)
    client.together = sent_as_one(content.cells, together)
    client.skip_cells_with_tag = GLANCE
    code = [index for index, cell in enumerate(content.cells) if cell.cell_type == "code"]
    for index in code:  # what JupyterLab has saved is of other runs
        content.cells[index].outputs = []

    def announce(cell, cell_index, **_):
        if cell_index in code:
            print_progress("cell", code.index(cell_index) + 1, len(code))

    async def refuse_complaint(cell, cell_index, **_):
        # After a panic, or an error returned by `?`, evcxr continues; it reports them on standard error only.
        complaint = await client.complaint(LAST_S if cell_index == code[-1] else LATE_S if is_call(cell) else 0)
        if complaint:
            raise CellFailed(complaint)

    client.on_cell_execute, client.on_cell_executed = announce, refuse_complaint
    try:
        client.execute(preexec_fn=die_with_parent)
    except CellExecutionError as error:
        failed = next(cell for cell in content.cells if errors_of(cell))
        raise CellFailed(failure_of(failed, errors_of(failed))) from error
    finally:
        nbformat.write(content, executed)


def is_call(cell: NotebookNode) -> bool:
    """Whether a cell calls something, and does not only define items."""
    return "active-ipynb" in cell.metadata.get("tags", [])


def sent_as_one(cells: list[NotebookNode], together: bool = False) -> dict[int, list[int]]:
    """Item cells and the call after them, with nothing but prose and glances between: positions, by the last; if
    `together`, all after the first call.
    """
    groups: list[list[int]] = [[]]
    for index, cell in enumerate(cells):
        if cell.cell_type == "code" and GLANCE not in cell.metadata.get("tags", []):
            groups[-1].append(index)
            if is_call(cell) and (len(groups) == 1 or not together):
                groups.append([])
    return {group[-1]: group for group in groups if len(group) > 1}


def errors_of(cell) -> str:
    """The kernel's messages among a cell's outputs."""
    errors = [output for output in cell.get("outputs", []) if output["output_type"] == "error"]
    return CONTROL.sub("", "\n".join("\n".join([one["ename"], one["evalue"], *one["traceback"]]) for one in errors))


def failure_of(cell, words: str) -> str:
    """The failure of a cell, for the terminal."""
    return f"the cell that begins with `{cell.source.splitlines()[0]}` failed:\n{words}"


def main() -> None:
    notebook, executed, *how = sys.argv[1:]
    try:
        execute(Path(notebook).resolve(), Path(executed).resolve(), "--together" in how)
    except CellFailed as error:
        sys.exit(f"{notebook}: {error}")
    except (DeadKernelError, RuntimeError) as error:
        # A kernel that does not start is a RuntimeError in jupyter_client; its own words are above.
        sys.exit(f"{notebook}: the kernel died or did not start ({error})")


if __name__ == "__main__":
    main()
