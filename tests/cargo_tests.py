"""Test binaries of the crates, built for many of them at once: one by one, cargo would choose other features of what
they share for each, and compile it again.
"""

import functools
import json
import os
import subprocess
from pathlib import Path

from async_cost.workflow.toolchain import ROOT

#: Unit and integration tests of all crates, as `make test` has built them before: a choice of crates would be built
#: with other features.
ALL_TESTS = "cargo test --workspace --all-features --tests"
#: The crates that the studies measure by.
OURS = ("harness", "by-turns", "by-turns-core", "cargo-by-turns")


@functools.cache
def packages() -> dict[str, dict]:
    """The crates of the studies, without those that they measure by, as `cargo metadata` tells of them, by name."""
    metadata = subprocess.run(
        ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    crates = {package["name"]: package for package in json.loads(metadata.stdout)["packages"]}
    return {name: crates[name] for name in sorted(crates) if name not in OURS}


def run(command: list[str], folder: Path = ROOT, **env: str) -> subprocess.CompletedProcess:
    """What comes of running tests; they end within a quarter of an hour."""
    variables = {**os.environ, **env}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=900)


@functools.cache
def built(command: str, compiler: str = "") -> dict[str, dict[str, str]]:
    """Run `command`, a `cargo test`, without running the tests; by crate and test target the executable. `compiler` is
    one of tests/compilers.
    """
    wrapper = {"RUSTC_WORKSPACE_WRAPPER": str(ROOT / "tests" / "compilers" / compiler)} if compiler else {}
    done = subprocess.run(
        [*command.split(), "--locked", "--no-run", "--message-format=json"],
        cwd=ROOT,
        env={**os.environ, **wrapper},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    executables = [
        (message["manifest_path"], message["target"]["name"], message["executable"])
        for message in messages
        if message.get("executable") and message.get("profile", {}).get("test")
    ]
    return {
        name: {target: path for manifest, target, path in executables if manifest == package["manifest_path"]}
        for name, package in packages().items()
    }
