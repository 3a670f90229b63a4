"""The executor and the pools on one processor: a thread that waits for another keeps it from nothing."""

import os
import subprocess

import pytest
from cargo_tests import ALL_TESTS, built

from async_cost.workflow.toolchain import ROOT

TESTS = {"runtimes-executor": ("tasks", "idle", "stuck", "ends", "soak"), "thread-pools": ("pools",)}


@pytest.mark.parametrize(("crate", "test"), [(crate, test) for crate, tests in TESTS.items() for test in tests])
def test_promises_hold_on_one_processor(crate, test):
    processor = min(os.sched_getaffinity(0))
    done = subprocess.run(
        [built(ALL_TESTS)[crate][test], "--quiet"],
        cwd=ROOT,
        preexec_fn=lambda: os.sched_setaffinity(0, {processor}),
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
