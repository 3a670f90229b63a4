"""Start the Rust kernel with a build folder of its own, and leave out the cells that were sent with one that failed.

    python -m async_cost.workflow.kernel <evcxr_jupyter> <connection file>

evcxr rewrites one source file for every cell, so two kernels in one folder would break each other; in an empty one, a
kernel rebuilds all crates, for a minute. So folders are numbered and kept, a kernel takes the first free one, and a new
one begins with a copy of what was built in another. The lock is passed on to evcxr, and released when that ends.

A front end sends the cells that it is told to run at once, and relies on the kernel to leave out those after an error
(`stop_on_error` in Jupyter's messaging protocol). evcxr runs them all, with what an earlier version of the failed cell
has left: one would measure old code. So requests to execute pass through here, one at a time. (What a panic is, evcxr
does not call an error.)
"""

import fcntl
import hmac
import itertools
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import zmq
from jupyter_client.session import Session

from async_cost.workflow import layouts
from async_cost.workflow.steps import die_with_parent
from async_cost.workflow.toolchain import KERNEL_BUILDS

#: Milliseconds between two looks at whether the kernel lives.
LOOK_MS = 500
#: Seconds after an error in which nothing is executed. What was sent with the failed cell has come by then, and so has
#: what evcxr still prints, which it would take for output of the next one.
PAUSE_S = 0.1
#: Between the routing ids and the parts of a message, and the places of these after it.
DELIMITER, SIGNATURE, HEADER, PARENT, CONTENT = b"<IDS|MSG>", 1, 2, 3, 5


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
    """Copy into `folder` what was built in the newest other folder that no kernel uses, which began with copies itself,
    without what belongs to cells (evcxr calls it ctx and code). Cargo decides what of it can be used.
    """
    there = [place for place in builds.glob("*/*/target") if place.parent != folder]
    made = {place: place.parent.joinpath("lock").stat().st_ctime_ns for place in there}
    for target in sorted(there, key=made.__getitem__, reverse=True):
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
    one after the other, and none of those that were sent with one that failed.
    """

    def __init__(self, outer: zmq.Socket, inner: zmq.Socket, session: Session) -> None:
        self.outer, self.inner, self.session = outer, inner, session
        self.waiting = deque[list[bytes]]()
        #: The request that is executed, and whether that is not done because an earlier one failed.
        self.running: list[bytes] | None = None
        self.left_out = False
        #: The ids of those that are left out next, and until when more are added.
        self.after_error, self.until = set[str](), 0.0

    def run(self, alive: Callable[[], bool]) -> None:
        """Pass on messages until the kernel has ended."""
        poller = zmq.Poller()
        for one in (self.outer, self.inner):
            poller.register(one, zmq.POLLIN)
        while alive():
            pause_ms = 1000 * (self.until - time.monotonic())
            ready = dict(poller.poll(int(min(LOOK_MS, pause_ms + 1)) if pause_ms > 0 else LOOK_MS))
            # Requests first: those that were sent before an error are then known when it comes.
            while self.outer in ready and self.outer.poll(0):
                self.request(self.outer.recv_multipart())
            if self.inner in ready:
                self.reply(self.inner.recv_multipart())
            self.next()

    def request(self, frames: list[bytes]) -> None:
        """What a front end asks; nothing if it does not know the key of the connection."""
        start = frames.index(DELIMITER) if DELIMITER in frames else len(frames)
        said = frames[start + HEADER : start + CONTENT + 1]
        if len(said) < 4 or not hmac.compare_digest(self.session.sign(said), frames[start + SIGNATURE]):
            return
        header = _part(frames, HEADER)
        if header["msg_type"] != "execute_request":
            self.inner.send_multipart(frames)
            return
        self.waiting.append(frames)
        if time.monotonic() < self.until:
            self.after_error.add(header["msg_id"])

    def next(self) -> None:
        """Has the next request executed, if there is one and it is time."""
        if self.running is not None or not self.waiting or time.monotonic() < self.until:
            return
        self.running = frames = self.waiting.popleft()
        id = _part(frames, HEADER)["msg_id"]
        self.left_out = id in self.after_error
        self.after_error.discard(id)
        if self.left_out:
            # The kernel executes nothing instead, so that it says when it is busy and idle, as a front end expects.
            frames = self._with(frames, _part(frames, CONTENT) | {"code": ""})
        self.inner.send_multipart(frames)

    def reply(self, frames: list[bytes]) -> None:
        """What the kernel answers."""
        if self.running and _part(frames, PARENT).get("msg_id") == _part(self.running, HEADER)["msg_id"]:
            asked, self.running = _part(self.running, CONTENT), None
            stops = asked.get("stop_on_error", True) and not asked.get("silent", False)
            if self.left_out:
                frames = self._with(frames, {"status": "aborted"})
            elif stops and _part(frames, CONTENT).get("status") == "error":
                self.after_error |= {_part(one, HEADER)["msg_id"] for one in self.waiting}
                self.until = time.monotonic() + PAUSE_S
        self.outer.send_multipart(frames)

    def _with(self, frames: list[bytes], content: dict) -> list[bytes]:
        """The message with another content."""
        start = frames.index(DELIMITER)
        said = [*frames[start + HEADER : start + CONTENT], json.dumps(content).encode()]
        return [*frames[: start + SIGNATURE], self.session.sign(said), *said, *frames[start + CONTENT + 1 :]]


def _part(frames: list[bytes], place: int) -> dict:
    return json.loads(frames[frames.index(DELIMITER) + place])


def sockets(context: zmq.Context) -> tuple[zmq.Socket, zmq.Socket]:
    """Those of a `Relay`, to front ends and to a kernel."""
    outer, inner = context.socket(zmq.ROUTER), context.socket(zmq.DEALER)
    for one in (outer, inner):
        one.sndhwm = one.rcvhwm = 0  # evcxr reads nothing while a cell is compiled
    # A front end that connects anew, as after a restart, keeps its routing id: without this, all that it sends is
    # dropped while the old connection is not known to be gone.
    outer.router_handover = 1
    return outer, inner


def _free_port(ip: str, taken: set[int]) -> int:
    """One that nobody has, nor will have: the other ports of the connection are bound later."""
    while True:
        with socket.socket() as free:
            free.bind((ip, 0))
            if (port := free.getsockname()[1]) not in taken:
                return port


def main() -> None:
    evcxr, connection = sys.argv[1:]
    outside = json.loads(Path(connection).read_text(encoding="utf-8"))
    folder, lock = claim(Path.cwd().name)
    os.set_inheritable(lock, True)
    os.environ.update(layouts.environment(), EVCXR_TMPDIR=str(folder))
    if outside["transport"] != "tcp":
        os.execv(evcxr, [evcxr, "--control_file", connection])
    port = _free_port(outside["ip"], {value for name, value in outside.items() if name.endswith("_port")})
    inside = folder / "connection.json"
    inside.unlink(missing_ok=True)
    with os.fdopen(os.open(inside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(outside | {"shell_port": port}, file)
    command = [evcxr, "--control_file", str(inside)]
    kernel = subprocess.Popen(command, pass_fds=[lock], preexec_fn=die_with_parent)
    os.close(lock)
    context = zmq.Context()
    try:
        outer, inner = sockets(context)
        outer.bind(f"tcp://{outside['ip']}:{outside['shell_port']}")
        inner.connect(f"tcp://{outside['ip']}:{port}")
        session = Session(key=outside["key"].encode(), signature_scheme=outside["signature_scheme"])
        Relay(outer, inner, session).run(lambda: kernel.poll() is None)
    finally:
        kernel.kill()
        inside.unlink(missing_ok=True)
        context.destroy(linger=0)
    sys.exit(kernel.wait())


if __name__ == "__main__":
    main()
