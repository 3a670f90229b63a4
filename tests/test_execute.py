"""A cell that fails ends the workflow, and the reader learns why; two kernels do not share a build folder."""

import os
import time

import nbformat
import pytest
from ours import LIBRARIES

from async_cost.workflow.environment import OURS
from async_cost.workflow.execute import CellFailed, execute, joined
from async_cost.workflow.kernel import claim


@pytest.fixture
def rust(tmp_path, monkeypatch):
    """Execute cells in a fresh Rust kernel, as the workflow does."""
    for name, value in OURS.items():
        monkeypatch.setenv(name, value)

    def run(*cells, calls=()):
        spec = {"name": "rust", "display_name": "Rust", "language": "rust"}
        notebook = nbformat.v4.new_notebook(metadata={"kernelspec": spec})
        tags = [["active-ipynb"] if cell in calls else [] for cell in cells]
        notebook.cells = [
            nbformat.v4.new_code_cell(cell, metadata={"tags": tag}) for cell, tag in zip(cells, tags, strict=True)
        ]
        folder = tmp_path / "folder-of-a-test"
        folder.mkdir()
        nbformat.write(notebook, folder / "cells.ipynb")
        execute(folder / "cells.ipynb", folder / "executed.ipynb")

    return run


WRONG = 'let wrong = 1;\nif wrong == 1 { panic!("the proof failed"); }'
PROOF = 'fn prove() -> Result<(), String> { Err("waker_drops: 768 expected".to_owned()) }'


@pytest.mark.parametrize(
    ("cells", "says"),
    [((WRONG, 'println!("went on");'), "(?s)let wrong.*the proof failed"), ((PROOF, "prove()?;"), "waker_drops")],
    ids=["panic", "error"],
)
def test_a_cell_that_fails_ends_the_notebook_with_its_message(rust, cells, says):
    with pytest.raises(CellFailed, match=says):
        rust(*cells, calls=[WRONG])


@pytest.mark.parametrize("more", [[], ['println!("went on");']])
def test_words_that_come_after_the_end_of_their_cell_are_not_lost(rust, more):
    late = 'std::thread::sleep(std::time::Duration::from_millis(300)); eprintln!("too late");'
    with pytest.raises(CellFailed, match="too late"):
        rust(f"std::thread::spawn(|| {{ {late} }});", *more)


def test_of_items_that_are_sent_as_one_the_wrong_line_is_told(rust):
    with pytest.raises(CellFailed, match=r"(?s)begins with `pub fn one.*mismatched types.*one\(\) as u8"):
        rust("pub fn one() -> u32 { 1 }", "pub fn wrong() -> u32 { one() as u8 }", "pub fn two() -> u32 { 2 }")


def test_items_are_sent_with_the_call_after_them_and_neither_prose_nor_glances():
    new = nbformat.v4
    item, prose = new.new_code_cell("fn one() {}"), new.new_markdown_cell("Then.")
    call, glance = (new.new_code_cell("one()", metadata={"tags": ["active-ipynb", *more]}) for more in ([], ["glance"]))
    cells = [item, prose, item, glance, call, call, item, item]
    sent = ["fn one() {}\nfn one() {}\none()", "one()", "fn one() {}\nfn one() {}"]
    assert [cell.source for cell in joined(cells)] == sent


def test_two_kernels_of_a_folder_build_in_two_folders_and_a_free_one_is_taken_again(tmp_path):
    first, lock = claim("study", tmp_path)
    second, other = claim("study", tmp_path)
    assert first != second
    os.close(lock)
    assert claim("study", tmp_path)[0] == first
    os.close(other)


def test_a_new_build_folder_begins_with_the_crates_of_one_that_no_kernel_holds(tmp_path):
    def built(study: str, name: str) -> int:
        folder, lock = claim(study, tmp_path)
        (folder / "target" / "deps").mkdir(parents=True, exist_ok=True)
        (folder / "target" / "deps" / name).write_text(name)
        return lock

    os.close(built("old", "libold.rlib"))
    time.sleep(0.02)  # a file's time is that of the kernel's last tick
    os.close(built("free", "libserde.rlib"))
    os.close(built("free", "libctx.so"))
    time.sleep(0.02)
    locked = built("locked", "liblocked.rlib")
    (tmp_path / "new" / "0" / "part" / "deps").mkdir(parents=True)  # a copy that was killed
    (tmp_path / "new" / "0" / "part" / "deps" / "torn.rlib").touch()
    folder, lock = claim("new", tmp_path)
    assert {path.name for path in folder.rglob("*.*")} == {"libold.rlib", "libserde.rlib"}
    assert not (folder / "part").exists()
    os.close(lock)
    os.close(locked)


@pytest.mark.parametrize("library", LIBRARIES, ids=str)
def test_the_kernel_runs_every_cell_of_a_library(rust, library, tmp_path):
    """No study runs it, so nothing else would notice a cell that the kernel refuses. (That its glances compile is
    tested with the others.)
    """
    execute(library, tmp_path / "executed.ipynb")
    assert nbformat.read(tmp_path / "executed.ipynb", as_version=4).cells[-1].execution_count
