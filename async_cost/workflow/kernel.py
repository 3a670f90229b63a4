"""Start the Rust kernel with a build folder of its own, and let no cell run after one that failed.

    python -m async_cost.workflow.kernel <evcxr_jupyter> <connection file>

evcxr rewrites one source file for every cell, so two kernels in one folder would break each other; in an empty one, a
kernel rebuilds all crates, for a minute. So folders are numbered and kept, a kernel takes the first free one, and a new
one begins with a copy of what was built in another. The lock is passed on to evcxr, and released when that ends.

A front end sends the cells that it is told to run at once, and relies on the kernel to leave out those after an error
(`stop_on_error` in Jupyter's messaging protocol). evcxr runs them all, with what an earlier version of the failed cell
has left: one would measure old code. So requests pass through here, one at a time.
"""

import fcntl
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path

import zmq
from jupyter_client.session import Session

from async_cost.workflow import layouts
from async_cost.workflow.steps import die_with_parent
from async_cost.workflow.toolchain import KERNEL_BUILDS

#: Milliseconds between two looks whether the kernel still lives.
LOOK_MS = 500
#: What is between the addresses and the parts of a message, and the places of those after it; the signature is first.
DELIMITER, HEADER, PARENT, CONTENT = b"<IDS|MSG>", 2, 3, 5


def claim(room: str, builds: Path = KERNEL_BUILDS) -> tuple[Path, int]:
    """The first free folder `<builds>/<room>/<number>` and the descriptor whose lock reserves it."""
    numbers = itertools.count()
    while True:
        folder = builds / room / str(next(numbers))
        folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        if not (folder / "target").exists():
            _begin_with_a_copy(folder, builds)
        return folder, lock


def _begin_with_a_copy(folder: Path, builds: Path) -> None:
    """Copy into `folder` what was built in the oldest other folder that no kernel uses, without what belongs to cells
    (evcxr calls it ctx and code). Cargo decides what of it can be used.
    """
    there = [place for place in builds.glob("*/*/target") if place.parent != folder]
    for target in sorted(there, key=lambda place: place.parent.joinpath("lock").stat().st_ctime_ns):
        with (target.parent / "lock").open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                continue
            part = folder / "part"  # a copy that was killed is started again
            shutil.rmtree(part, ignore_errors=True)
            of_cells = shutil.ignore_patterns("*ctx*", "libcode_*", "measures-*", "episode-of-*")
            shutil.copytree(target, part, symlinks=True, ignore=of_cells)
            part.rename(folder / "target")
            return


class Relay:
    """Passes messages between front ends at `outer`, a ROUTER, and a kernel at `inner`, a DEALER: requests to execute
    one after the other, and after an error none of those that are waiting.
    """

    def __init__(self, outer: zmq.Socket, inner: zmq.Socket, session: Session) -> None:
        self.outer, self.inner, self.session = outer, inner, session
        self.waiting = deque[list[bytes]]()
        #: Id of the request that is executed, and ids of those that are left out.
        self.running: str | None = None
        self.left_out = set[str]()

    def run(self, alive: Callable[[], bool]) -> None:
        """Pass on messages until the kernel has ended."""
        poller = zmq.Poller()
        for one in (self.outer, self.inner):
            poller.register(one, zmq.POLLIN)
        while alive():
            for ready, _ in poller.poll(LOOK_MS):
                (self.request if ready is self.outer else self.reply)(ready.recv_multipart())

    def request(self, frames: list[bytes]) -> None:
        """What a front end asks."""
        if _part(frames, HEADER)["msg_type"] == "execute_request":
            self.waiting.append(frames)
            self._next()
        else:
            self.inner.send_multipart(frames)

    def _next(self) -> None:
        if self.running is not None or not self.waiting:
            return
        frames = self.waiting.popleft()
        self.running = _part(frames, HEADER)["msg_id"]
        if self.running in self.left_out:
            # The kernel executes nothing instead, so that it says when it is busy and idle, as a front end expects.
            frames = self._with(frames, _part(frames, CONTENT) | {"code": ""})
        self.inner.send_multipart(frames)

    def reply(self, frames: list[bytes]) -> None:
        """What the kernel answers."""
        if (of := _part(frames, PARENT).get("msg_id")) == self.running:
            self.running = None
            if of in self.left_out:
                self.left_out.remove(of)
                frames = self._with(frames, {"status": "aborted"})
            elif _part(frames, CONTENT).get("status") == "error":
                stopped = (one for one in self.waiting if _part(one, CONTENT).get("stop_on_error", True))
                self.left_out |= {_part(one, HEADER)["msg_id"] for one in stopped}
        self.outer.send_multipart(frames)
        self._next()

    def _with(self, frames: list[bytes], content: dict) -> list[bytes]:
        """The message with another content."""
        start = frames.index(DELIMITER)
        said = [*frames[start + HEADER : start + CONTENT], json.dumps(content).encode()]
        return [*frames[: start + 1], self.session.sign(said), *said, *frames[start + CONTENT + 1 :]]


def _part(frames: list[bytes], place: int) -> dict:
    return json.loads(frames[frames.index(DELIMITER) + place])


def main() -> None:
    evcxr, connection = sys.argv[1:]
    outside = json.loads(Path(connection).read_text(encoding="utf-8"))
    folder, lock = claim(Path.cwd().name)
    with socket.socket() as free:
        free.bind((outside["ip"], 0))
        port = free.getsockname()[1]
    inside = folder / "connection.json"
    inside.touch(mode=0o600)
    inside.write_text(json.dumps(outside | {"shell_port": port}), encoding="utf-8")
    env = {**os.environ, **layouts.environment(), "EVCXR_TMPDIR": str(folder)}
    command = [evcxr, "--control_file", str(inside)]
    kernel = subprocess.Popen(command, env=env, pass_fds=[lock], preexec_fn=die_with_parent)
    os.close(lock)
    context = zmq.Context()
    outer, inner = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    outer.bind(f"tcp://{outside['ip']}:{outside['shell_port']}")
    inner.connect(f"tcp://{outside['ip']}:{port}")
    session = Session(key=outside["key"].encode(), signature_scheme=outside["signature_scheme"])
    Relay(outer, inner, session).run(lambda: kernel.poll() is None)
    context.destroy(linger=0)
    sys.exit(kernel.returncode)


if __name__ == "__main__":
    main()
