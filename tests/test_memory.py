"""Unsafe code under AddressSanitizer and valgrind: the tests of every study crate that has any, run once under each. A
crate that denies `unsafe_code` is left out.

AddressSanitizer watches our crates and what they hand to others, valgrind the crates that they depend on as well. It is
a program of its own, so that a machine may lack it: then its tests skip and say so. ASYNC_COST_REQUIRE_VALGRIND=1 (set
by .ci/run, which installs it) makes a missing valgrind a failure.

A test binary that cannot be run so is named in its crate's Cargo.toml, with the reason:

    [package.metadata.async-cost.leaks]                    # on purpose: AddressSanitizer does not look for leaks
    [package.metadata.async-cost.not-under-valgrind]
    [package.metadata.async-cost.not-under-address-sanitizer]
    threads = "waits for a moment that comes too late at a tenth of the speed"
"""

import os
import shutil
import tomllib
from pathlib import Path

import pytest
from cargo_tests import ALL_TESTS, built, packages, run

from async_cost.workflow.toolchain import ROOT

LEAKS, VALGRIND, ADDRESS_SANITIZER = "leaks", "not-under-valgrind", "not-under-address-sanitizer"


def has_unsafe_code(package: dict) -> bool:
    lints = tomllib.loads(Path(package["manifest_path"]).read_text(encoding="utf-8")).get("lints", {})
    return lints.get("rust", {}).get("unsafe_code") != "deny"


PACKAGES = {name: package for name, package in packages().items() if has_unsafe_code(package)}
#: Of these alone: what is left out takes the compiler as long as all the others.
SANITIZED = f"cargo test{''.join(f' -p {name}' for name in PACKAGES)} --all-features --tests"


def exempted(crate: str, what: str) -> dict[str, str]:
    """Test binaries of `crate` that its manifest exempts from something, with the reason."""
    return ((PACKAGES[crate]["metadata"] or {}).get("async-cost") or {}).get(what, {})


def pass_all(command: list[str], crate: str, **env: str) -> None:
    folder = ROOT / "rust-kernels" / crate
    done = run(command, folder if folder.is_dir() else ROOT, **env)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    assert "test result: ok" in done.stdout


@pytest.mark.parametrize("crate", PACKAGES)
def test_exemptions_name_test_binaries_and_give_a_reason(crate):
    known = {target["name"] for target in PACKAGES[crate]["targets"] if {"lib", "test"} & set(target["kind"])}
    given = (PACKAGES[crate]["metadata"] or {}).get("async-cost", {})
    assert set(given) <= {LEAKS, VALGRIND, ADDRESS_SANITIZER}, f"{crate}: nothing reads {sorted(given)}"
    for what in given:
        for name, reason in exempted(crate, what).items():
            assert name in known, f"{crate}: {what} names {name}, which is no test binary ({', '.join(sorted(known))})"
            assert len(reason.split()) > 3, f"{crate}: why is {name} {what}?"
    for what in (VALGRIND, ADDRESS_SANITIZER):
        assert set(exempted(crate, what)) != known, f"{crate}: nothing is left to run"


@pytest.mark.address_sanitizer
@pytest.mark.parametrize("crate", PACKAGES)
def test_no_memory_error_under_address_sanitizer(crate):
    for name, binary in built(SANITIZED, "under_asan")[crate].items():
        if name in exempted(crate, ADDRESS_SANITIZER):
            continue
        leaks = "0" if name in exempted(crate, LEAKS) else "1"
        pass_all([binary, "--quiet"], crate, ASAN_OPTIONS=f"detect_leaks={leaks}")


@pytest.mark.valgrind
@pytest.mark.parametrize("crate", PACKAGES)
def test_no_memory_error_under_valgrind(crate):
    if shutil.which("valgrind") is None:
        if os.environ.get("ASYNC_COST_REQUIRE_VALGRIND") == "1":
            pytest.fail("valgrind is required here and is not installed")
        pytest.skip("valgrind is not installed (Debian: apt-get install valgrind)")
    for name, binary in built(ALL_TESTS)[crate].items():
        if name in exempted(crate, VALGRIND):
            continue
        # Fair, since valgrind runs one thread at a time: a thread that spins would keep the one it waits for from
        # running.
        valgrind = ["valgrind", "--command-line-only=yes", "-q", "--fair-sched=try", "--error-exitcode=9"]
        valgrind += ["--max-threads=2500"]  # a thread for each of a thousand connections
        # Random programs for some seconds: as many as without it would take a minute.
        pass_all([*valgrind, binary, "--quiet", "--test-threads=1"], crate, ASYNC_COST_SOAK_S="5")
