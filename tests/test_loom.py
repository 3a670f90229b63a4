"""Threads that meet in every possible order: the executor of ladder.rs as loom runs it (rust-kernels/zero-cost/ladder/tests/loom.rs)."""

import os
import re
import subprocess

from async_cost.toolchain import ROOT


def test_no_wake_is_lost_in_any_order():
    done = subprocess.run(
        ["cargo", "test", "--locked", "--release", "-p", "zero-cost-ladder", "--test", "loom"],
        cwd=ROOT,
        env={**os.environ, "RUSTFLAGS": "--cfg loom", "CARGO_TARGET_DIR": str(ROOT / "target" / "loom")},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert re.search(r"test result: ok\. [1-9]\d* passed", done.stdout), "built without --cfg loom: nothing was tested"
