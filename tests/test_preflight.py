"""What would fail after an hour is found before anything starts; what a run would lack is said."""

import os
import resource
import shutil
import subprocess
import tomllib
from collections import namedtuple

import pytest

from async_cost.workflow import preflight
from async_cost.workflow.studies import MEASURED


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A repository with one commit, and nothing installed in it."""
    (tmp_path / "Cargo.toml").write_text('[workspace.package]\nrust-version = "1.95"\n', encoding="utf-8")
    commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]
    for command in (["init", "-q"], ["add", "."], commit):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(preflight, "ROOT", tmp_path)
    for name in ("RUNS", "REPORTS"):
        monkeypatch.setenv(f"ASYNC_COST_{name}", str(tmp_path / name))
    return tmp_path


def found() -> str:
    return "\n".join(preflight.obstacles(builds=True))


def test_nothing_stands_in_the_way_of_a_sound_clone(clone):
    assert found() == ""


def test_a_clone_whose_owner_git_does_not_trust_is_told_the_remedy(clone, monkeypatch):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert "dubious ownership" in found() and "safe.directory" in found()
    assert not list(preflight.obstacles(builds=False)), "pages need no revision"


def test_an_archive_without_a_repository_will_do(clone):
    shutil.rmtree(clone / ".git")
    assert found() == ""


@pytest.mark.parametrize(
    ("says", "expected"),
    [
        ("echo rustc 1.63.0 '(4b91a6ea7 2022-08-08)'", "Rust 1.95 or newer"),
        ("exit 1", "the compiler that rust-toolchain.toml names"),
        ("echo rustc 1.97.0-nightly", ""),
    ],
)
def test_a_compiler_that_is_too_old_or_absent_is_named(clone, monkeypatch, says, expected):
    (clone / "bin").mkdir()
    (clone / "bin" / "rustc").write_text(f"#!/bin/sh\n{says}\n", encoding="utf-8")
    (clone / "bin" / "rustc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{clone / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert found().startswith(expected) and bool(found()) == bool(expected)


@pytest.mark.parametrize("folder", ["target", "reports"])
def test_a_folder_of_another_user_is_named(clone, monkeypatch, folder):
    (clone / folder).mkdir()
    monkeypatch.setenv("ASYNC_COST_REPORTS", str(clone / "reports"))
    monkeypatch.setattr(preflight.os, "access", lambda path, mode: not str(path).endswith(f"/{folder}"))
    assert f"write access to {clone / folder}: it belongs to another user" in found()


def test_a_full_disk_is_found_before_the_build(clone, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(preflight.shutil, "disk_usage", lambda path: usage(2_000_000_000))
    monkeypatch.setattr(preflight.toolchain, "steps", lambda native: [preflight.toolchain.Step("new", print, 1)])
    assert "6 GB of free space" in found()
    monkeypatch.setattr(preflight.toolchain, "steps", lambda native: [])
    assert found() == "", "once all is installed, less will do"


def test_a_name_that_no_reader_would_accept_is_refused(clone, monkeypatch):
    monkeypatch.setenv("ASYNC_COST_MACHINE", "My Laptop")
    assert "a valid ASYNC_COST_MACHINE: 'My Laptop' is not" in found()


def remarks(*studies: str, only: str | None = None) -> str:
    return "\n".join(preflight.remarks(studies or tuple(MEASURED), only, evidence=True))


def test_a_run_without_valgrind_on_a_busy_machine_with_few_descriptors_is_told_so(monkeypatch):
    monkeypatch.setattr(preflight.shutil, "which", lambda name: None)
    monkeypatch.setattr(preflight.os, "getloadavg", lambda: (3.0, 1.0, 0.5))
    monkeypatch.setattr(preflight.resource, "getrlimit", lambda which: (1024, 4096))
    said = remarks()
    assert all(one in said for one in ("no valgrind", "load 3.0", "10000 connections", "`ulimit -Hn` is 4096"))
    assert "connections" not in remarks("ladder")
    monkeypatch.setattr(preflight.resource, "getrlimit", lambda which: (1024, resource.RLIM_INFINITY))
    assert "connections" not in remarks()


def test_a_compiler_that_is_not_the_chosen_one_is_named(monkeypatch):
    chosen = tomllib.loads((preflight.ROOT / "rust-toolchain.toml").read_text(encoding="utf-8"))["toolchain"]["channel"]
    for version, noted in ((chosen, False), (f"{chosen}-nightly", True)):
        monkeypatch.setattr(preflight.toolchain, "rustc_version", lambda version=version: f"rustc {version} (1234)")
        assert (f"the compiler is rustc {version} (1234), not {chosen}" in remarks()) == noted


def test_a_variant_that_no_study_compares_is_questioned():
    assert "nonbxo: no variant of zero-cost unless it is new; known are " in remarks("zero-cost", only="nonbxo; box")
    assert "unless it is new" not in remarks("zero-cost", only="nonbox; box")


def test_processes_that_all_have_the_same_addresses_are_told(monkeypatch):
    assert "setarch -R" not in remarks("zero-cost")
    monkeypatch.setattr(preflight, "_kernel_says", {"/proc/self/personality": "00040000"}.get)
    assert "setarch -R" in remarks("zero-cost")
