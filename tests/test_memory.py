"""Unsafe code under AddressSanitizer and valgrind: the tests of every study crate, run once under each.

AddressSanitizer needs a nightly compiler and valgrind is a program of its own, so that a machine may lack them: then these tests
skip and say so. ASYNC_COST_REQUIRE_VALGRIND=1 (set by .ci/run, which installs it) makes a missing valgrind a failure.
"""

import json
import os
import shutil
import subprocess

import pytest

from async_cost.toolchain import ROOT

#: Test binaries that leak on purpose: they keep a waker beyond its executor, or let a future panic in its drop; what cannot be
#: freed safely then is given up.
LEAKING = {"zero-cost": ("lifetimes", "threads", "unruly_wakers")}


def study_crates() -> list[str]:
    metadata = subprocess.run(
        ["cargo", "metadata", "--locked", "--no-deps", "--format-version", "1"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    names = [package["name"] for package in json.loads(metadata.stdout)["packages"]]
    return sorted(name for name in names if name != "harness")


def test_binaries(crate: str, *cargo: str, env: dict[str, str] | None = None) -> dict[str, str]:
    """Build the tests of a crate (unit tests and integration tests); name of the test target to its executable."""
    command = [
        "cargo",
        *cargo,
        "test",
        "--locked",
        "-p",
        crate,
        "--lib",
        "--tests",
        "--no-run",
        "--message-format=json",
    ]
    if env:
        command += ["--target", host()]
    built = subprocess.run(command, cwd=ROOT, env={**os.environ, **(env or {})}, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-3000:]
    messages = [json.loads(line) for line in built.stdout.splitlines() if line.startswith("{")]
    return {
        message["target"]["name"]: message["executable"]
        for message in messages
        if message.get("executable") and message.get("profile", {}).get("test")
    }


test_binaries.__test__ = False  # a helper, whatever its name looks like


def host() -> str:
    version = subprocess.run(["rustc", "-vV"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return next(line.removeprefix("host: ") for line in version.splitlines() if line.startswith("host: "))


def run(command: list[str], crate: str, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        cwd=ROOT / "rust-kernels" / crate if (ROOT / "rust-kernels" / crate).is_dir() else ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    assert "test result: ok" in done.stdout


@pytest.mark.parametrize("crate", study_crates())
def test_no_memory_error_under_address_sanitizer(crate):
    toolchains = subprocess.run(["rustup", "toolchain", "list"], capture_output=True, text=True).stdout
    if "nightly" not in toolchains:
        pytest.skip(
            "no nightly compiler is installed, and AddressSanitizer needs one: rustup toolchain install nightly"
        )
    build = {"RUSTFLAGS": "-Zsanitizer=address", "CARGO_TARGET_DIR": str(ROOT / "target" / "asan")}
    for name, binary in test_binaries(crate, "+nightly", env=build).items():
        leaks = "0" if name in LEAKING.get(crate, ()) else "1"
        run([binary, "--quiet"], crate, {"ASAN_OPTIONS": f"detect_leaks={leaks}"})


@pytest.mark.parametrize("crate", study_crates())
def test_no_memory_error_under_valgrind(crate):
    if shutil.which("valgrind") is None:
        if os.environ.get("ASYNC_COST_REQUIRE_VALGRIND") == "1":
            pytest.fail("valgrind is required here and is not installed")
        pytest.skip("valgrind is not installed (Debian: apt-get install valgrind)")
    for binary in test_binaries(crate).values():
        run(["valgrind", "-q", "--error-exitcode=9", binary, "--quiet", "--test-threads=1"], crate)
