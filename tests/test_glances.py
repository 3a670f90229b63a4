"""Cells that glance are left out when a notebook is run by a command, so they are compiled here, as part of a program that uses the notebook's crate."""

import os
import re
import shutil
import subprocess
import tomllib

from async_cost.workflow.execute import GLANCE
from async_cost.workflow.studies import MEASURED, crate_of, measuring
from async_cost.workflow.toolchain import CARGO_ENV, ROOT

#: A cell of the crate view: its tags and its lines, which are comments.
CELL = re.compile(r"^// %% tags=(\[.*\])\n((?://(?: .*)?\n)+)", re.MULTILINE)


def glances(study: str) -> list[str]:
    """The source of each cell that glances, in the notebook of `study`."""
    notebook = measuring(study)
    text = (ROOT / "rust-kernels" / notebook.parent.name / f"{notebook.stem}.rs").read_text(encoding="utf-8")
    return [
        re.sub("^// ?", "", lines, flags=re.MULTILINE) for tags, lines in CELL.findall(text) if f'"{GLANCE}"' in tags
    ]


def test_every_measuring_notebook_glances():
    assert all(glances(study) for study in MEASURED)


def test_glances_compile(tmp_path):
    folders = {study: crate_of(measuring(study)) for study in MEASURED}
    names = {
        study: tomllib.loads((folder / "Cargo.toml").read_text(encoding="utf-8"))["package"]["name"]
        for study, folder in folders.items()
    }
    paths = {names[study]: folder for study, folder in folders.items()} | {"harness": ROOT / "rust-kernels" / "harness"}
    dependencies = "\n".join(f'{name} = {{ path = "{path}" }}' for name, path in paths.items())
    manifest = f'[package]\nname = "glances"\nversion = "0.0.0"\nedition = "2024"\n\n[workspace]\n\n[dependencies]\n{dependencies}\n'
    (tmp_path / "Cargo.toml").write_text(manifest, encoding="utf-8")
    shutil.copy(ROOT / "Cargo.lock", tmp_path)
    modules = []
    for study in MEASURED:
        cells = "".join(
            f"pub fn glance_{number}() -> harness::Seen {{\n{cell}}}\n" for number, cell in enumerate(glances(study))
        )
        crate = names[study].replace("-", "_")
        # A crate does not hand on what it uses itself, a cell does.
        of_others = "use zero_cost::{Load, NoWork, Timed};\n" if "zero_cost::" in cells else ""
        modules.append(f"pub mod of_{crate} {{\n#![allow(unused_imports)]\n{of_others}use {crate}::*;\n{cells}}}\n")
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
