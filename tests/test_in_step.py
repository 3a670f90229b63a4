"""A Rust notebook and its crate are one thing: the two views agree, and a notebook is committed without outputs."""

import os
import re
import tomllib

import jupytext
import nbformat
import pytest
from jupytext.config import find_jupytext_configuration_file
from nbconvert.exporters import ScriptExporter
from nbformat.v4 import new_output
from ours import FIRST, LIBRARIES, NOTEBOOKS, RUST, crate_of

from async_cost.workflow.pairing import is_paired, tidied, tidy
from async_cost.workflow.studies import source_of
from async_cost.workflow.toolchain import ROOT

ANALYSIS = ROOT / "notebooks" / "boxing-cost" / "analysis.ipynb"
#: Items at the left margin of a cell, after the words that may stand before them.
BEFORE = r'^(?:pub(?:\([a-z]+\))? )?(?:(?:async|const|unsafe|extern "") )*'
ITEM = re.compile(rf"{BEFORE}(fn|struct|enum|trait|const|static|type) (\w+)", re.MULTILINE)
#: Names that mean something else before the notebook defines them: an attribute, a library's type, a variant, an
#: argument.
ELSEWHERE = {"inline", "JoinHandle", "Remote", "AsyncStd", "serve"}


def study(path):
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("notebook", LIBRARIES, ids=study)
def test_a_notebook_that_measures_is_a_study_of_the_workflow(notebook):
    assert ".measure(&profile)" not in notebook.read_text(encoding="utf-8"), "add it to MEASURED"


@pytest.mark.parametrize("notebook", RUST, ids=study)
def test_notebook_and_crate_show_the_same_text(notebook):
    assert is_paired(notebook), f"{study(notebook)} and its crate differ: edit one of them, then `make format`"


def test_no_settings_of_a_user_decide_how_notebooks_are_paired():
    assert find_jupytext_configuration_file(str(RUST[0].parent)) == str(ROOT / "pyproject.toml")


@pytest.mark.parametrize("notebook", RUST, ids=study)
def test_crate_and_notebook_survive_the_way_back(notebook):
    source = source_of(notebook)
    cells = jupytext.read(source).cells
    ours = nbformat.read(notebook, as_version=4).cells
    assert [(cell.cell_type, cell.source) for cell in cells] == [(cell.cell_type, cell.source) for cell in ours]


@pytest.mark.parametrize("notebook", RUST, ids=study)
def test_dep_lines_name_the_crates_dependencies(notebook):
    package = tomllib.loads((crate_of(notebook) / "Cargo.toml").read_text(encoding="utf-8"))
    manifest = package["dependencies"]
    cells = nbformat.read(notebook, as_version=4).cells
    lines = [line for cell in cells if cell.cell_type == "code" for line in cell.source.splitlines()]
    deps = {}
    for line in lines:
        if match := re.match(r":dep (\S+) = (.+)$", line):
            deps[match[1]] = tomllib.loads(f"dependency = {match[2]}")["dependency"]
    if (itself := package["package"]["name"]) in deps:  # a glance at its own crate
        manifest = manifest | {itself: {"path": "."}}
    assert set(deps) == set(manifest), "the :dep lines and Cargo.toml name different crates"
    for name, wanted in manifest.items():
        if isinstance(wanted, dict) and "path" in wanted:
            here = (notebook.parent / deps[name]["path"]).resolve()
            assert here == (crate_of(notebook) / wanted["path"]).resolve(), f"{name}: other path in the notebook"
        else:
            assert deps[name] == wanted, f"{name}: {deps[name]} in the notebook, {wanted} in Cargo.toml"


@pytest.mark.parametrize("notebook", [FIRST, *RUST], ids=study)
def test_first_cell_compiles_cells_like_cargo_bench(notebook):
    cells = nbformat.read(notebook, as_version=4).cells
    first = next(cell.source for cell in cells if cell.cell_type == "code")
    for setting in [
        "CARGO_PROFILE_DEV_OPT_LEVEL=3",
        "CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false",
        "CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false",
        "CARGO_PROFILE_DEV_CODEGEN_UNITS=1",
        "CARGO_INCREMENTAL=0",
    ]:
        assert f":build_env {setting}\n" in first + "\n", f"{study(notebook)}: {setting} is not set first"


@pytest.mark.parametrize("notebook", RUST, ids=study)
def test_no_cell_uses_an_item_that_only_a_later_one_defines(notebook):
    """The workflow sends neighbouring items together and the crate is one file, but a reader runs cell after cell."""
    cells = [cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    cells = [re.sub(r'//[^\n]*|"(?:\\.|[^"\\])*"', '""', cell) for cell in cells]
    defined = {}
    for number, cell in enumerate(cells):
        for kind, name in ITEM.findall(cell):
            defined.setdefault(name, (number, kind))
    assert len(defined) > 3, "hardly an item was found: this test would prove nothing"
    for name, (later, kind) in defined.items():
        call, mention = rf"(?<!fn ){name}(?:::<[^>]*>)?\(", rf"(?<!type ){name}\b(?! *[,:=](?!:)| as )"
        used = re.compile(rf"(?<![\w.:']){call if kind == 'fn' else mention}")
        users = [cell for cell in cells[:later] if used.search(cell) and name not in ELSEWHERE]
        assert not users, f"{study(notebook)}: {name} is defined after this cell, which uses it:\n{users[0]}"


@pytest.mark.parametrize("notebook", RUST, ids=study)
def test_no_cell_uses_what_a_macro_made_in_another_outside_of_a_module(notebook):
    cells = [cell.source for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    for at, source in enumerate(cells):
        # The kernel keeps the items of a cell that it finds by their keywords: none of these.
        for made in re.findall(r"^[\w:]+! \{\n(.*?)^\}", source, re.MULTILINE | re.DOTALL):
            for name in re.findall(
                r"^ {4}(?:pub(?:\(crate\))? )?(?:static|struct|enum|fn|const) (\w+)", made, re.MULTILINE
            ):
                users = [cell for cell in cells[:at] + cells[at + 1 :] if re.search(rf"\b{name}\b", cell)]
                assert not users, f"later cells do not see {name}: put the macro that makes it into a module"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=study)
def test_notebooks_are_committed_without_outputs_or_metadata_of_editors(notebook):
    assert tidied(notebook) == notebook.read_text(encoding="utf-8"), (
        f"{notebook.relative_to(ROOT)} holds outputs or metadata of an editor; clear them before the commit (`make format`)"
    )


@pytest.mark.parametrize("view", [RUST[0], source_of(RUST[0]), ANALYSIS], ids=["notebook", "crate", "analysis"])
def test_what_editors_note_in_a_notebook_is_dropped_and_what_was_edited_last_still_counts(tmp_path, view):
    copy = tmp_path / view.name
    notebook = jupytext.read(view)
    for cell in notebook.cells:
        cell.metadata |= {"vscode": {"languageId": "rust"}, "papermill": {}, "jupyter": {"source_hidden": True}}
        if cell.cell_type == "code":
            cell.execution_count, cell.outputs = 3, [new_output("stream", text="1\n")]
    notebook.metadata |= {"vscode": {}, "language_info": {"name": "python", "version": "3.11.2"}}
    jupytext.write(notebook, copy, fmt=copy.suffix.lstrip(".") + ":percent" * (copy.suffix == ".rs"))
    os.utime(copy, (1, 1))
    assert "vscode" in copy.read_text(encoding="utf-8")
    tidy(copy)
    assert copy.read_bytes() == view.read_bytes() and copy.stat().st_mtime == 1


def test_an_analysis_is_known_for_python_without_a_kernel():
    assert ScriptExporter().from_filename(str(ANALYSIS))[1]["output_extension"] == ".py"
