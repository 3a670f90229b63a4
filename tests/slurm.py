"""A Slurm of our own for tests: munged, slurmctld and two nodes on this machine, as children of the test.

Node `a` has the feature alpha, node `b` the feature beta.
"""

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import psutil

NODES = {"a": "alpha", "b": "beta"}
#: Seconds for whatever is waited for; jobs compile in them.
PATIENCE_S = 1800
CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock,cred_expire=10
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SchedulerParameters=bf_interval=2
SlurmdTimeout=10
ReturnToService=2
SlurmdParameters=config_overrides
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """A running Slurm; commands find it by `env`."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.file = folder, folder / "slurm.conf"
        self.env = {**os.environ, "SLURM_CONF": str(self.file)}
        self.daemons: dict[str, subprocess.Popen] = {}

    def start(self) -> None:
        """Starts everything; the nodes are idle then."""
        key = self.folder / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        files = [f"--{name}-file={self.folder}/munge.{name}" for name in ("key", "pid", "log", "seed")]
        host = socket.gethostname().split(".")[0]
        with ExitStack() as stack:  # ports that nobody listens on
            sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(1 + len(NODES))]
            ports = [server.getsockname()[1] for server in sockets]
        for name in ("state", *(f"spool-{node}" for node in NODES)):
            (self.folder / name).mkdir()
        user = os.environ.get("USER") or "root"
        text = CONFIGURATION.format(host=host, controller=ports[0], user=user, folder=self.folder)
        for (node, feature), port in zip(NODES.items(), ports[1:], strict=True):
            text += f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 Feature={feature}\n"
        self.file.write_text(text)
        munged = self._start(
            "munged", "munged", "--foreground", "--force", f"--socket={self.folder}/munge.sock", *files
        )
        until((self.folder / "munge.sock").exists, munged)
        controller = self._start("slurmctld", "slurmctld", "-D", "-f", self.file)
        for node in NODES:
            self.start_node(node)
        until(lambda: self.states() == dict.fromkeys(NODES, "idle"), controller)

    def start_node(self, node: str) -> None:
        self._start(node, "slurmd", "-D", "-N", node, "-f", self.file)

    def states(self) -> dict[str, str]:
        """By node what sinfo says of it."""
        output = subprocess.run(
            ["sinfo", "-h", "-N", "-o", "%N %t"], env=self.env, capture_output=True, text=True
        ).stdout
        return dict(line.split() for line in output.splitlines())

    def jobs(self, form: str = "%N", *options: str) -> list[str]:
        """What squeue lists: the node of each job, or what `form` says."""
        listed = ["squeue", "-h", "-o", form, *options]
        return subprocess.run(listed, env=self.env, capture_output=True, text=True, check=True).stdout.splitlines()

    def kill_node(self, node: str) -> None:
        """Ends a node and all processes of its jobs, as a power failure does."""
        steps = tuple(f"slurmstepd: [{job}." for job in self.jobs("%i", "-w", node))
        daemon = psutil.Process(self.daemons[node].pid)
        processes = [p for p in psutil.process_iter(["cmdline"]) if " ".join(p.info["cmdline"] or ()).startswith(steps)]
        for process in [
            daemon,
            *(child for step in processes if steps for child in [*step.children(recursive=True), step]),
        ]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.daemons.pop(node).wait()

    def stop(self) -> None:
        """Ends everything that was started here, by process id."""
        with suppress(subprocess.CalledProcessError):  # as when there is no controller
            for node in NODES & self.daemons.keys():
                self.kill_node(node)
        for daemon in self.daemons.values():
            daemon.kill()
            daemon.wait()

    def _start(self, name: str, *command: object) -> subprocess.Popen:
        with (self.folder / f"{name}.out").open("a") as output:
            self.daemons[name] = subprocess.Popen([*map(str, command)], env=self.env, stdout=output, stderr=output)
        return self.daemons[name]


def until(condition: Callable[[], object], process: subprocess.Popen) -> None:
    """Waits for a condition, as long as the process lives."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "nothing happens"
        output = process.stdout.read() if process.poll() is not None and process.stdout else ""
        assert process.poll() is None, f"{process.args} ended early:\n{output}"
        time.sleep(0.02)
