"""The package has subpackages in the order of the flow: nothing goes back, and nothing in a circle."""

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from ours import tracked

from async_cost.workflow.toolchain import ROOT

PACKAGE = ROOT / "async_cost"
#: A subpackage uses itself and those before it; what all of them use lies next to them.
SUBPACKAGES = ("runs", "statistics", "literature", "findings", "machines", "report", "workflow")


def imports(file: Path, modules: set[str]) -> set[str]:
    """The modules of the package that a file imports anywhere, as `subpackage.file`."""
    imported = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            ours = [name.name for name in node.names if name.name.startswith("async_cost.")]
            imported |= {name.removeprefix("async_cost.") for name in ours}
        elif isinstance(node, ast.ImportFrom) and node.level:
            pytest.fail(f"{file.name}, line {node.lineno}: import by the full name, `from async_cost.` and so on")
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("async_cost"):
            base = node.module.removeprefix("async_cost").removeprefix(".")
            names = {f"{base}.{name.name}".removeprefix(".") for name in node.names}
            imported |= {name if name in modules else base for name in names}
    return imported


@pytest.fixture(scope="module")
def house() -> dict[str, set[str]]:
    files = {file: ".".join(file.relative_to(PACKAGE).with_suffix("").parts) for file in tracked("async_cost/**/*.py")}
    return {name: imports(file, set(files.values())) for file, name in files.items() if file.name != "__init__.py"}


def test_no_module_imports_one_of_a_later_subpackage(house):
    def place(module: str) -> int:
        subpackage = module.partition(".")[0]
        return SUBPACKAGES.index(subpackage) if subpackage in SUBPACKAGES else -1

    assert {module.partition(".")[0] for module in house if "." in module} == set(SUBPACKAGES)
    back = [(module, used) for module, all_used in house.items() for used in all_used if place(used) > place(module)]
    assert not back, f"against the flow: {back}"


def test_no_modules_import_each_other_in_a_circle(house):
    try:
        TopologicalSorter(house).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' -> '.join(error.args[1])}")
