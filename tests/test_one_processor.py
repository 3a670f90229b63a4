"""The executor and the pools on one processor, where a thread that waits for another keeps it from nothing; and random
programs of the executor, the frontier and the pools, there and on all processors.
"""

import os
import subprocess
import time

import pytest
from cargo_tests import ALL_TESTS, built

from async_cost.workflow.toolchain import ROOT

TESTS = {"runtimes-executor": ("tasks", "idle", "stuck", "ends", "soak"), "thread-pools-lean": ("pools", "destructors")}
#: Tests of random programs: the first ones, or for so many seconds (here a minute all together) new ones.
RANDOM = (
    ("runtimes-executor", "soak"),
    ("frontier", "random_programs"),
    ("frontier", "random_sockets"),
    ("thread-pools-lean", "soak"),
)
SECONDS = 10


@pytest.mark.parametrize(("crate", "test"), [(crate, test) for crate, tests in TESTS.items() for test in tests])
def test_promises_hold_on_one_processor(crate, test):
    run(crate, test, {min(os.sched_getaffinity(0))})


@pytest.mark.soak
@pytest.mark.parametrize("processors", ["one", "all"])
@pytest.mark.parametrize(("crate", "test"), RANDOM)
def test_random_programs_end_and_leave_nothing(crate, test, processors):
    allowed = os.sched_getaffinity(0)
    # Other programs each time; a failure names its own.
    soak = {"ASYNC_COST_SOAK_S": str(SECONDS), "ASYNC_COST_SOAK_SEED": str(time.time_ns())}
    run(crate, test, {min(allowed)} if processors == "one" else allowed, **soak)


def run(crate: str, test: str, processors: set[int], **env: str) -> None:
    done = subprocess.run(
        [built(ALL_TESTS)[crate][test], "--quiet"],
        cwd=ROOT,
        env={**os.environ, **env},
        preexec_fn=lambda: os.sched_setaffinity(0, processors),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
