"""Cells that glance are left out when a notebook is run by a command, so they are compiled here, as functions of the
notebook's crate. The notebook to begin with needs nothing but the standard library for its glance.
"""

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

from ours import FIRST, RUST, crate_of

from async_cost.workflow.execute import GLANCE
from async_cost.workflow.studies import source_of
from async_cost.workflow.toolchain import CARGO_ENV, ROOT

#: A cell of the crate view: its tags and its lines, which are comments.
CELL = re.compile(r"^// %% tags=(\[.*\])\n((?://(?: .*)?\n)+)", re.MULTILINE)


def glances(text: str) -> list[str]:
    """The source of each cell that glances, in the crate view of a notebook, without the crate that it loads."""
    return [
        re.sub("^// ?(?::dep .*)?", "", lines, flags=re.MULTILINE)
        for tags, lines in CELL.findall(text)
        if GLANCE in json.loads(tags)
    ]


def name_of(notebook: Path) -> str:
    """What cargo calls its crate."""
    return tomllib.loads((crate_of(notebook) / "Cargo.toml").read_text(encoding="utf-8"))["package"]["name"]


def cargo(*arguments: str, folder: Path = ROOT) -> str:
    """What it prints."""
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    environ = {**os.environ, **CARGO_ENV, "CARGO_TARGET_DIR": target}
    done = subprocess.run(["cargo", *arguments], cwd=folder, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_rust_notebook_glances():
    assert all(glances(source_of(notebook).read_text(encoding="utf-8")) for notebook in RUST)


def test_glances_compile(tmp_path):
    """At the end of its crate, a cell finds what it finds in the kernel: all items, its crate by name, and what other
    cells of the kernel alone use.
    """
    for name in ("Cargo.toml", "Cargo.lock", "rust-toolchain.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "rust-kernels", tmp_path / "rust-kernels", ignore_dangling_symlinks=True)
    for notebook in RUST:
        source = tmp_path / source_of(notebook).relative_to(ROOT)
        text = source.read_text(encoding="utf-8")
        uses = "\n".join(dict.fromkeys(re.findall(r"^// (use \w+::[^;]+;)$", text, re.MULTILINE)))
        text += f"\nextern crate self as {name_of(notebook).replace('-', '_')};\n"
        for number, cell in enumerate(glances(text)):
            text += f"pub fn glance_{number}() -> impl Sized {{\n{uses}\n{{\n{cell}}}\n}}\n"
        source.write_text(text, encoding="utf-8")
    crates = [word for notebook in RUST for word in ("-p", name_of(notebook))]
    cargo("check", "--offline", "--quiet", "--lib", *crates, folder=tmp_path)


def test_the_first_glance_needs_the_standard_library_alone():
    alone = ':dep by-turns-core = { path = \\"../rust-kernels/by-turns-core\\" }'
    assert re.findall(":dep .*}", FIRST.read_text(encoding="utf-8")) == [alone]
    of_it = ("--offline", "-p", "by-turns-core")
    assert len(cargo("tree", *of_it, "--edges", "normal").splitlines()) == 1
    cargo("clippy", *of_it, "--quiet", "--lib", "--", "-D", "warnings")
