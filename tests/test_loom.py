"""Threads that meet in every possible order: what can be woken from elsewhere, as loom runs it (the tests/loom.rs of each crate)."""

import os
import re
import subprocess

import pytest
from cargo_tests import built

from async_cost.workflow.toolchain import ROOT

CRATES = ("frontier", "runtimes-executor", "call-styles-event-loop", "thread-pools")
#: The same for all crates, so that what they depend on is compiled once. (`loom` itself would change dependencies, too.)
SETTINGS = {
    "RUSTFLAGS": "--cfg under_loom",
    "CARGO_TARGET_DIR": str(ROOT / "target" / "loom"),
    # Nothing is measured with it.
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
}


def binary_of(crate: str) -> str:
    """The loom tests of a crate; all crates are built at once."""
    all_of_them = " ".join(f"-p {name}" for name in CRATES)
    return built(f"cargo test --release {all_of_them} --test loom", **SETTINGS)[crate]["loom"]


@pytest.mark.parametrize("crate", CRATES)
def test_no_wake_is_lost_in_any_order(crate):
    done = subprocess.run([binary_of(crate)], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert re.search(r"test result: ok\. [1-9]\d* passed", done.stdout), "built without the cfg: nothing was tested"


#: Sources whose atomics can be weakened one by one (rust-kernels/weakened.rs), by file name.
WEAKENED = {"executor.rs": "runtimes/executor.rs", "idle.rs": "idle/idle.rs", "measure.rs": "thread-pools/measure.rs"}


@pytest.mark.parametrize("crate", ["runtimes-executor", "thread-pools"])
def test_every_fence_is_missed_by_a_test_in_some_order(crate):
    """Each fence is left out in turn, and some test must fail. With ASYNC_COST_ORDERINGS=1 also each ordering of a single access, which takes long."""
    binary = binary_of(crate)
    used = places(binary)
    text = {place: line_of(place) for place in used}
    everything = os.environ.get("ASYNC_COST_ORDERINGS") == "1"
    chosen = [place for place in used if everything or "fence(" in text[place]]
    assert chosen, "nothing could be weakened: this test would prove nothing"
    unseen = [f"{place}: {text[place]}" for place in chosen if not missed(binary, place, used[place])]
    assert not unseen, f"no test fails without {unseen}"


def line_of(place: str) -> str:
    """The text of `file.rs:line`."""
    name, line = place.split(":")
    return (ROOT / "rust-kernels" / WEAKENED[name]).read_text(encoding="utf-8").splitlines()[int(line) - 1].strip()


def places(binary: str) -> dict[str, list[str]]:
    """What could be weakened, as `file.rs:line`, and the tests that get there."""
    listed = subprocess.run([binary, "--list"], check=True, capture_output=True, text=True).stdout
    found = {}
    for test in re.findall(r"^(\w+): test$", listed, re.MULTILINE):
        for place in re.findall(r"^place (\S+)$", run(binary, test, "list", "--nocapture").stdout, re.MULTILINE):
            found.setdefault(place, []).append(test)
    return found


def missed(binary: str, place: str, tests: list[str]) -> bool:
    """Whether one of the tests fails when this place is weakened."""
    return any(run(binary, test, place).returncode != 0 for test in tests)


def run(binary: str, test: str, weakened: str, *options: str) -> subprocess.CompletedProcess:
    env = {**os.environ, "ASYNC_COST_WEAKEN": weakened}
    command = [binary, "--exact", test, *options]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=900)
