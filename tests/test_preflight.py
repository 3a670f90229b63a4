"""What would fail after an hour is found before anything starts; what a run would lack is said."""

import os
import shutil
import subprocess
import tomllib

import pytest

from async_cost.workflow import preflight


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A repository with one commit, and nothing installed in it."""
    commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-qm", "first"]
    for command in (["init", "-q"], commit):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    monkeypatch.setattr(preflight, "ROOT", tmp_path)
    return tmp_path


def found() -> str:
    return "\n".join(preflight.obstacles())


def test_a_clone_whose_owner_git_does_not_trust_is_told_the_remedy(clone, monkeypatch):
    monkeypatch.setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1")
    assert "dubious ownership" in found() and "safe.directory" in found()


def test_a_sound_clone_will_do_and_an_archive_without_a_repository(clone):
    assert found() == ""
    shutil.rmtree(clone / ".git")
    assert found() == ""


def test_a_compiler_that_is_absent_is_named(clone, monkeypatch):
    (clone / "bin").mkdir()
    (clone / "bin" / "rustc").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (clone / "bin" / "rustc").chmod(0o755)
    monkeypatch.setenv("PATH", f"{clone / 'bin'}{os.pathsep}{os.environ['PATH']}")
    assert found() == "the compiler that rust-toolchain.toml names; rustc says above why it is missing"


def test_a_clone_where_cells_cannot_be_loaded_and_nothing_can_be_linked_is_told_so(clone, monkeypatch):
    monkeypatch.setattr(preflight, "ROOT", clone / "a b")
    monkeypatch.setattr(preflight.shutil, "which", lambda name: None)
    said = list(preflight.obstacles())
    for one, named in zip(said, ("a path without spaces", "a C compiler", "install rustup", "git: "), strict=True):
        assert named in one


def remarks() -> str:
    return "\n".join(preflight.remarks(["zero-cost", "call-styles"], evidence=True))


def test_a_run_without_valgrind_and_ruby_is_told_so(monkeypatch):
    monkeypatch.setattr(preflight.shutil, "which", lambda name: None)
    assert all(one in remarks() for one in ("no valgrind", "no ruby"))


def test_a_compiler_that_is_not_the_chosen_one_is_named(monkeypatch):
    chosen = tomllib.loads((preflight.ROOT / "rust-toolchain.toml").read_text(encoding="utf-8"))["toolchain"]["channel"]
    for version, noted in ((chosen, False), (f"{chosen}-nightly", True)):
        monkeypatch.setattr(preflight.toolchain, "rustc_version", lambda version=version: f"rustc {version} (1234)")
        assert (f"the compiler is rustc {version} (1234), not {chosen}" in remarks()) == noted
