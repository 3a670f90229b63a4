"""Threads that meet in every possible order: what can be woken from elsewhere, as loom runs it (the tests/loom.rs of each crate)."""

import re
import subprocess

import pytest
from cargo_tests import built

from async_cost.workflow.toolchain import ROOT

CRATES = ("ladder", "runtimes-executor", "call-styles", "thread-pools")
#: The same for all crates, so that what they depend on is compiled once. (`loom` itself would change dependencies, too.)
SETTINGS = {
    "RUSTFLAGS": "--cfg under_loom",
    "CARGO_TARGET_DIR": str(ROOT / "target" / "loom"),
    # Nothing is measured with it.
    "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16",
}


@pytest.mark.parametrize("crate", CRATES)
def test_no_wake_is_lost_in_any_order(crate):
    chosen = " ".join(f"-p {name}" for name in CRATES)
    binary = built(f"cargo test --release {chosen} --test loom", **SETTINGS)[crate]["loom"]
    done = subprocess.run([binary], cwd=ROOT, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    assert re.search(r"test result: ok\. [1-9]\d* passed", done.stdout), "built without the cfg: nothing was tested"
