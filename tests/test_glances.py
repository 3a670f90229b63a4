"""Cells that glance are left out when a notebook is run by a command, so they are compiled here, as part of a program
that uses the notebook's crate.
"""

import json
import os
import re
import shutil
import subprocess
import tomllib

from ours import RUST, crate_of

from async_cost.workflow.execute import GLANCE
from async_cost.workflow.studies import source_of
from async_cost.workflow.toolchain import CARGO_ENV, ROOT

#: A cell of the crate view: its tags and its lines, which are comments.
CELL = re.compile(r"^// %% tags=(\[.*\])\n((?://(?: .*)?\n)+)", re.MULTILINE)


def glances(text: str) -> list[str]:
    """The source of each cell that glances, in the crate view of a notebook."""
    return [
        re.sub("^// ?", "", lines, flags=re.MULTILINE) for tags, lines in CELL.findall(text) if f'"{GLANCE}"' in tags
    ]


#: Each with its crate view.
TEXTS = {notebook: source_of(notebook).read_text(encoding="utf-8") for notebook in RUST}


def test_every_rust_notebook_glances():
    assert all(map(glances, TEXTS.values()))


def test_glances_compile(tmp_path):
    folders = [*(crate_of(notebook) for notebook in RUST), ROOT / "rust-kernels" / "harness"]
    manifests = [tomllib.loads((folder / "Cargo.toml").read_text(encoding="utf-8")) for folder in folders]
    names = [manifest["package"]["name"] for manifest in manifests]
    ours = "|".join(names).replace("-", "_")
    # With the features and profiles of the workspace's tests, what others wrote is compiled once for both.
    dependencies = "\n".join(
        f'{name} = {{ path = "{folder}", features = {json.dumps(list(manifest.get("features", ())))} }}'
        for name, folder, manifest in zip(names, folders, manifests, strict=True)
    )
    workspace = (ROOT / "Cargo.toml").read_text(encoding="utf-8")
    profiles = "".join(re.findall(r"^\[profile[^\[]*", workspace, re.MULTILINE))
    head = '[package]\nname = "glances"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\nresolver = "3"\n\n'
    (tmp_path / "Cargo.toml").write_text(f"{head}{profiles}\n[dependencies]\n{dependencies}\n", encoding="utf-8")
    shutil.copy(ROOT / "Cargo.lock", tmp_path)
    modules = []
    for text, name in zip(TEXTS.values(), names, strict=False):
        crate = name.replace("-", "_")
        cells = "".join(
            f"pub fn glance_{number}() -> harness::Seen {{\n{cell}}}\n" for number, cell in enumerate(glances(text))
        )
        # A crate does not hand on what it uses itself, a cell does, one that glances as well.
        used = re.findall(rf"^(?:// )?(use (?:std|{ours})::[^;]+;)$", text, re.MULTILINE)
        uses = "\n".join([*used, f"use {crate}::*;"])
        modules.append(f"pub mod of_{crate} {{\n#![allow(unused_imports)]\n{uses}\n{cells}}}\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "lib.rs").write_text("\n".join(modules), encoding="utf-8")
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target"))
    done = subprocess.run(
        ["cargo", "check", "--offline", "--quiet"],
        cwd=tmp_path,
        env={**os.environ, **CARGO_ENV, "CARGO_TARGET_DIR": target},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
