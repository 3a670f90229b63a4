"""Threads that meet in every possible order: what can be woken from elsewhere, as loom runs it (the tests/loom.rs of
each crate).
"""

import functools
import os
import re
import subprocess
import time
from typing import NamedTuple

import pytest
from cargo_tests import built, run

from async_cost.workflow.toolchain import ROOT

pytestmark = pytest.mark.loom
CRATES = ("frontier", "runtimes-executor", "call-styles-event-loop", "thread-pools-described", "thread-pools-lean")


class Explored(NamedTuple):
    """A test and what came of it: its program, exit status, words, the places that could be weakened (as
    `file.rs:line`), and how long it took.
    """

    binary: str
    status: int
    output: str
    places: frozenset[str]
    seconds: float


@functools.cache
def explored(crate: str) -> dict[str, Explored]:
    """Every loom test of a crate, run in every order; nothing is weakened, and each tells what could be."""
    binary = built("cargo test --workspace --all-features --test loom", "under_loom")[crate]["loom"]
    listed = subprocess.run([binary, "--list"], check=True, capture_output=True, text=True).stdout
    tests = {}
    for test in re.findall(r"^(\S+): test$", listed, re.MULTILINE):
        began = time.monotonic()
        done = weakened(binary, test, "list", "--nocapture")
        places = frozenset(re.findall(r"^place (\S+)$", done.stdout, re.MULTILINE))
        tests[test] = Explored(binary, done.returncode, done.stdout + done.stderr, places, time.monotonic() - began)
    return tests


@pytest.mark.parametrize("crate", CRATES)
def test_no_wake_is_lost_in_any_order(crate):
    tests = explored(crate)
    assert tests, "built without the cfg: nothing was tested"
    for name, done in tests.items():
        assert done.status == 0, f"{name}\n{done.output[-3000:]}"


#: Sources whose atomics can be weakened one by one (rust-kernels/sync/weakened.rs), by file name.
WEAKENED = {
    "described.rs": "thread-pools/described.rs",
    "event-loop.rs": "call-styles/event-loop.rs",
    "executor.rs": "runtimes/executor.rs",
    "frontier.rs": "ladder/frontier.rs",
    "idle.rs": "idle/idle.rs",
    "lean.rs": "thread-pools/lean.rs",
}
#: Orderings that loom cannot see, each with what it is for.
UNSEEN = {
    "unsafe { &*self.first.load(Ordering::Acquire) }": "the first block may be new, and loom does not see it being made",
    "block.first.store(ptr::from_ref(first).cast_mut(), Ordering::Release);": "the other side of it",
    "self.0.store(word, Ordering::Release);": "the fence of `found` has ordered what came with a job; a handle may come while "
    "it runs",
    ".compare_exchange_weak(handles, handles - 1, Ordering::AcqRel, Ordering::Relaxed)": "as that of `Arc`: the use of "
    "what is freed comes before; loom sees jobs alone, which the fence of `offer` has ordered by then",
    "match self.oldest.compare_exchange_weak(half, half + 1, Ordering::Release, Ordering::Relaxed) {": "a slot that is read "
    "before it is written again: loom does not let a load see what is stored later",
    "let (number, oldest) = (next.get(), self.oldest.load(Ordering::Acquire));": "the other side of it",
    "match ring.front.compare_exchange_weak(front, next, Ordering::Release, Ordering::Relaxed) {": "a place of a deque, as "
    "that slot",
    "if back.wrapping_sub(ring.front.load(Ordering::Acquire)) == LENGTH {": "the other side of it",
    "self.shared.store(youngest, Ordering::Release);": "loom takes it for a part of the release before it by the same thread",
    "let before = header.state.fetch_xor(RUNNING | new, Ordering::Release);": "a_poll_sees_what_the_one_before_it_has_"
    "written fails without it, but with two preemptions, which take more than a minute",
    "NonNull::new(self.next.swap(ptr::null_mut(), Ordering::Acquire)).map(Task)": "loom takes the fence of `found`, which "
    "each helper passes, for as much; without both, the_thread_that_runs_what_a_blocked_root_has_spawned_sees_it fails",
}
#: Crates of which each ordering is weakened, and not only each fence.
ALL_ORDERINGS = ("frontier", "runtimes-executor", "call-styles-event-loop")


@pytest.mark.parametrize("crate", CRATES)
def test_every_fence_is_missed_by_a_test_in_some_order(crate):
    """Each fence is left out in turn, and some test must fail; likewise each ordering of a single access, which for the
    pools takes long and wants ASYNC_COST_ORDERINGS=1.
    """
    # A test that sees nothing looks at every order, so those that take the least time come first.
    tests = sorted(explored(crate).items(), key=lambda test: test[1].seconds)
    text = {place: line_of(place) for place in sorted({place for _, test in tests for place in test.places})}
    everything = crate in ALL_ORDERINGS or os.environ.get("ASYNC_COST_ORDERINGS") == "1"
    chosen = [place for place in text if (everything or "fence(" in text[place]) and text[place] not in UNSEEN]
    sources = "".join((ROOT / "rust-kernels" / path).read_text(encoding="utf-8") for path in WEAKENED.values())
    assert all(line in sources for line in UNSEEN), "an exception that stands for nothing"
    assert chosen, "nothing could be weakened: this test would prove nothing"
    unseen = [
        f"{place}: {text[place]}"
        for place in chosen
        if not any(place in test.places and weakened(test.binary, name, place).returncode for name, test in tests)
    ]
    assert not unseen, f"no test fails without {unseen}"


def line_of(place: str) -> str:
    """The text of `file.rs:line`."""
    name, line = place.split(":")
    return (ROOT / "rust-kernels" / WEAKENED[name]).read_text(encoding="utf-8").splitlines()[int(line) - 1].strip()


def weakened(binary: str, test: str, place: str, *options: str) -> subprocess.CompletedProcess:
    return run([binary, "--exact", test, *options], ASYNC_COST_WEAKEN=place)
