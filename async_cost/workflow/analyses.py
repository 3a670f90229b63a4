"""Execute analyses in as many Python kernels as there are processors: to start one takes longer than an analysis. Each
analysis begins as in a new kernel: in its own folder, without a variable of another one.
"""

import asyncio
import os
import signal
import textwrap
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbclient.util import run_sync
from nbformat import NotebookNode

from async_cost.workflow.execute import STARTUP_S, CellFailed, errors_of, failure_of
from async_cost.workflow.steps import die_with_parent, print_progress

Made = TypeVar("Made")
#: Seconds for what a cell showed to arrive; after nbclient's own four, a page would lack it without a word.
OUTPUT_S = 120


def begin(folder: Path, environ: Mapping[str, str]) -> NotebookNode:
    """The cell before the first one of a notebook in `folder`; of our settings, there are those of `environ` alone."""
    ours = {name: value for name, value in environ.items() if name.startswith("ASYNC_COST_")}
    code = f"""
        %reset -f
        __spec__ = None  # which processes that this one starts look at
        import os
        [os.environ.pop(name) for name in list(os.environ) if name.startswith("ASYNC_COST_")]
        os.environ.update({ours!r})
        os.chdir({str(folder)!r})
    """
    return nbformat.v4.new_code_cell(textwrap.dedent(code))


def execute(
    notebooks: Sequence[Path],
    executed: Sequence[Path],
    environ: Mapping[str, str],
    then: Callable[[Path], Made],
    last: int = 0,
) -> list[Made]:
    """Run `notebooks` from top to bottom, write them to `executed`, even those that fail, and return what `then` makes
    of each, which it does while the kernels go on. The `last` of them begin when all others are written.

    Raises CellFailed, which names notebook and cell, once no kernel is left.
    """
    waiting = deque(zip(notebooks, executed, strict=True))
    others, managers = asyncio.Event(), list[AsyncKernelManager]()

    async def one_kernel(made: dict[Path, asyncio.Future[Made]], pool: ThreadPoolExecutor) -> None:
        manager, client = AsyncKernelManager(kernel_name="python3"), None
        managers.append(manager)
        try:
            history = ["--HistoryManager.hist_file=:memory:"]
            await manager.start_kernel(extra_arguments=history, preexec_fn=die_with_parent)
            client = manager.client()
            client.start_channels()
            await client.wait_for_ready(timeout=STARTUP_S)
            while waiting:
                if len(waiting) <= last < len(notebooks):
                    await others.wait()
                if not waiting:
                    break
                notebook, target = waiting.popleft()
                content = nbformat.read(notebook, as_version=4)
                content.cells.insert(0, begin(notebook.parent, environ))
                runner = NotebookClient(
                    content, km=manager, timeout=None, iopub_timeout=OUTPUT_S, raise_on_iopub_timeout=True
                )
                runner.kc = client
                try:
                    await runner.async_execute()
                except CellExecutionError as error:
                    failed = next(cell for cell in content.cells if errors_of(cell))
                    raise CellFailed(f"{notebook}: {failure_of(failed, errors_of(failed))}") from error
                except (DeadKernelError, TimeoutError) as error:
                    raise CellFailed(f"{notebook}: the kernel died or does not answer ({error})") from error
                finally:
                    del content.cells[0]
                    nbformat.write(content, target)
                made[target] = asyncio.get_running_loop().run_in_executor(pool, then, target)
                print_progress("analysis", len(made), len(notebooks), done=len(made), trials=len(notebooks))
                if len(made) + last >= len(notebooks):
                    others.set()
        except BaseException:
            # Ends the others, too: what waits for a kernel sees that it is dead. (nbclient cannot be cancelled.)
            waiting.clear()
            others.set()
            for other in managers:
                if other is not manager and other.has_kernel:
                    await other.signal_kernel(signal.SIGKILL)
            raise
        finally:
            if client is not None:
                client.stop_channels()
            await manager.shutdown_kernel(now=True)

    async def all_kernels() -> list[Made]:
        made: dict[Path, asyncio.Future[Made]] = {}
        with ThreadPoolExecutor(1) as pool:
            kernels = [one_kernel(made, pool) for _ in range(min(os.cpu_count() or 1, len(notebooks)))]
            ended = [asyncio.ensure_future(kernel) for kernel in kernels]
            await asyncio.wait(ended, return_when=asyncio.FIRST_EXCEPTION)
            first = next((task for task in ended if task.done() and task.exception()), None)
            await asyncio.gather(*ended, return_exceptions=True)  # no kernel is left
            if first:
                first.result()
            return [await made[target] for target in executed]

    return run_sync(all_kernels)()
