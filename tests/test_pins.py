"""One version of everything: pyproject.toml, requirements.txt, environment.yml, the compiler and the crates agree."""

import re
import subprocess
import tomllib
from importlib.metadata import requires

import pytest
from ours import crate_of, tracked
from packaging.requirements import Requirement

from async_cost.workflow.studies import MEASURED, measuring
from async_cost.workflow.toolchain import EVCXR_VERSION, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENVIRONMENT = (ROOT / "environment.yml").read_text(encoding="utf-8")
TOOLCHAIN = tomllib.loads((ROOT / "rust-toolchain.toml").read_text(encoding="utf-8"))["toolchain"]

#: Of the crates that git knows, and of those of studies in work.
MANIFESTS = sorted(
    {*tracked("rust-kernels/**/Cargo.toml"), *(crate_of(measuring(study)) / "Cargo.toml" for study in MEASURED)}
)


def pinned(requirements: str) -> dict[str, str]:
    """Name to version of every `name==version` line."""
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\;]+)", requirements, re.MULTILINE))


LOCKS = {
    "requirements.txt": PROJECT["dependencies"],
    "requirements-lab.txt": [pin for extra in PROJECT["optional-dependencies"].values() for pin in extra],
}


@pytest.mark.parametrize("lock", LOCKS)
def test_every_direct_dependency_is_locked_in_the_version_that_pyproject_names(lock):
    locked = pinned((ROOT / lock).read_text(encoding="utf-8"))
    for dependency in LOCKS[lock]:
        name, separator, version = dependency.partition("==")
        assert separator, f"pyproject.toml: {dependency} has no exact version; write {dependency}==X.Y.Z"
        assert locked.get(name) == version, (
            f"{lock} has {name} {locked.get(name)}, pyproject.toml {version}: compile it again (CONTRIBUTING.md)"
        )


def test_no_package_is_installed_twice_nor_lacks_what_it_needs():
    """Of what is installed here, since pip is told not to look for dependencies."""
    first, second = (pinned((ROOT / lock).read_text(encoding="utf-8")).keys() for lock in LOCKS)
    assert not first & second
    locked = {re.sub(r"[-_.]+", "-", name).lower() for name in first | second}
    for name in locked:
        for need in map(Requirement, requires(name) or []):
            if need.marker is None or need.marker.evaluate({"extra": ""}):
                assert re.sub(r"[-_.]+", "-", need.name).lower() in locked, f"{name} needs {need.name}"


@pytest.mark.parametrize("name", LOCKS)
def test_every_locked_package_carries_hashes_and_no_host(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=\S)", text.strip())
    without = [block.split("==")[0] for block in blocks if "--hash=sha256:" not in block]
    assert not without, f"{name}: no hash for {without}"
    assert "://" not in text, f"{name} names a host; compile it without an index option"


def test_conda_users_get_the_same_packages_and_compiler():
    binder = (ROOT / "postBuild").read_text(encoding="utf-8")
    assert all(f"-r {lock}" in binder for lock in LOCKS), "postBuild must take the Python packages from the locks"
    python = re.search(r"- python=(\S+)", ENVIRONMENT)[1]
    assert PROJECT["requires-python"].startswith(f">={python}"), f"environment.yml: python {python} is not pyproject's"
    rust = re.search(r"- rust=(\S+)", ENVIRONMENT)[1]
    assert rust == TOOLCHAIN["channel"], f"environment.yml has rust {rust}, rust-toolchain.toml {TOOLCHAIN['channel']}"
    evcxr = re.search(r"- evcxr>=(\S+)", ENVIRONMENT)[1]
    assert tuple(map(int, evcxr.split("."))) <= tuple(map(int, EVCXR_VERSION.split(".")))
    assert f"builds evcxr_jupyter {EVCXR_VERSION}." in ENVIRONMENT, "environment.yml says what it differs from"


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.parent.name)
def test_crates_name_exact_versions(manifest):
    """But for a crate that is published, whose users choose: it names the versions of our lock as the least."""
    content = tomllib.loads(manifest.read_text(encoding="utf-8"))
    published = content["package"].get("publish", True) is True
    locked = {(package["name"], package["version"]) for package in lock_packages(ROOT / "Cargo.lock")}
    kinds = ("dependencies", "dev-dependencies", "build-dependencies")
    tables = [part.get(kind, {}) for part in (content, *content.get("target", {}).values()) for kind in kinds]
    for name, wanted in (dependency for table in tables for dependency in table.items()):
        version = wanted if isinstance(wanted, str) else wanted.get("version")
        if isinstance(wanted, dict) and "path" in wanted:
            continue
        if published:
            assert (name, version) in locked, f"{manifest.parent.name}: {name} {version} is not in Cargo.lock"
        else:
            assert version and version.startswith("="), f'{manifest.parent.name}: write {name} = "=X.Y.Z"'


def tree(crate, shown):
    """What a crate depends on, as cargo shows it."""
    command = ["cargo", "tree", "--locked", "-e", "normal,build", "--no-dedupe", "--prefix", "none", "-f", shown]
    listed = subprocess.run([*command, "-p", crate], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return {line.replace(" (proc-macro)", "") for line in listed.splitlines()}


def test_the_tokio_with_std_mutexes_lacks_nothing_but_parking_lot():
    """Each study is compiled alone, so that features of one do not reach another; all else is the same."""

    def of_tokio(study):
        (features,) = {line.split("|")[1] for line in tree(study, "{p}|{f}") if line.startswith("tokio v")}
        return set(features.split(","))

    assert of_tokio("runtimes") - of_tokio("runtimes-std-mutex") == {"full", "parking_lot"}
    assert of_tokio("runtimes-std-mutex") < of_tokio("runtimes")


def lock_packages(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))["package"]
