"""On anybody's machine: any make, any Python, and whatever somebody has configured."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from ours import tracked

from async_cost.workflow import __main__ as entry
from async_cost.workflow import environment, toolchain
from async_cost.workflow.steps import Progress, StepFailed
from async_cost.workflow.toolchain import KERNEL_BUILDS, ROOT, VENV, pip_sources

TOOL = [sys.executable, "-Es", "-m", "async_cost.workflow", "tool"]


def ran(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A program, started by somebody who has set `env`."""
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)


THEIRS = """
PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONOPTIMIZE PYTHONSAFEPATH PYTHONIOENCODING
PIP_USER PIP_TARGET PIP_PREFIX PIP_NO_DEPS PIP_REQUIRE_VIRTUALENV PIP_CONSTRAINT PIP_DRY_RUN
JUPYTER_CONFIG_PATH JUPYTERLAB_DIR EVCXR_TMPDIR EVCXR_IS_RUNTIME GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE
RUSTC CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER CARGO_PROFILE_BENCH_PANIC MYPYPATH RUFF_CONFIG
LD_PRELOAD MALLOC_ARENA_MAX GLIBC_TUNABLES RUST_MIN_STACK TOKIO_WORKER_THREADS RUBYOPT RUBYLIB
"""


@pytest.mark.parametrize("name", THEIRS.split())
def test_what_somebody_has_set_for_other_programs_reaches_none_of_ours(monkeypatch, name):
    assert environment.FOREIGN.fullmatch(name)
    monkeypatch.setattr(os, "environ", {name: "theirs", "PATH": "/bin"})
    environment.settle()
    assert name not in os.environ and os.environ["PATH"] == f"{VENV / 'bin'}{os.pathsep}/bin"


KEPT = "PIP_INDEX_URL PIP_CERT PIP_CONFIG_FILE PIP_FIND_LINKS CARGO_HOME GIT_SSL_CAINFO HTTPS_PROXY ASYNC_COST_RUNS"


@pytest.mark.parametrize("name", KEPT.split())
def test_where_to_download_from_is_kept(name):
    assert not environment.FOREIGN.fullmatch(name)


def test_pip_takes_from_a_users_configuration_where_packages_come_from_and_nothing_else():
    listed = [":env:.cert='/mine'", "global.cert='/theirs'", "global.user='true'", "install.no-deps='1'"]
    listed += ["global.target='/elsewhere'", "download.cert='/other'"]
    listed += ["install.extra-index-url='\\nhttps://a\\nhttps://b'"]
    assert pip_sources("\n".join(listed)) == {"PIP_CERT": "/mine", "PIP_EXTRA_INDEX_URL": "\nhttps://a\nhttps://b"}


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """The step that installs the packages of a clone in `tmp_path`, and what runs it with `install` in place of pip."""
    for name in ("pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    for name in ("ROOT", "TOOLS", "VENV"):
        monkeypatch.setattr(toolchain, name, tmp_path / getattr(toolchain, name).relative_to(ROOT))
    toolchain.TOOLS.mkdir()
    monkeypatch.setattr(Progress, "command", lambda *_: toolchain.VENV.mkdir())
    (step,) = toolchain.steps(native=True)

    def run(install) -> None:
        monkeypatch.setattr(toolchain, "_pip", lambda *_: install())
        step.run(Progress(lambda seen: None, tmp_path / "log", tmp_path))

    return step, run


def test_packages_that_cannot_be_downloaded_leave_those_that_are_there(packages):
    def offline():
        (toolchain.VENV / "new").touch()
        raise StepFailed("no network")

    def there() -> list[str]:
        return [file.name for file in toolchain.VENV.iterdir() if not file.suffix]

    step, run = packages
    run((toolchain.VENV / "ours").touch)
    with pytest.raises(StepFailed):
        run(offline)
    assert step.done() and there() == ["ours"]
    toolchain.VENV.rename(toolchain.TOOLS / ".venv.old")  # as a process leaves it that is killed while it installs
    toolchain.VENV.mkdir()
    with pytest.raises(StepFailed):
        run(offline)
    assert step.done() and there() == ["ours"]
    run((toolchain.VENV / "others").touch)
    assert step.done() and there() == ["others"]
    assert not any(toolchain.TOOLS.iterdir())


@pytest.mark.parametrize(
    ("file", "text", "other", "again"),
    [
        ("pyproject.toml", "line-length = 120", "line-length = 100", False),
        ("pyproject.toml", "setuptools==80.9.0", "setuptools==80.9.1", True),
        ("requirements.txt", "sha256:", "sha256:0", True),
    ],
)
def test_packages_are_installed_again_for_what_decides_them_and_nothing_else(packages, file, text, other, again):
    step, run = packages
    run(lambda: None)
    (toolchain.ROOT / file).write_text((ROOT / file).read_text(encoding="utf-8").replace(text, other), encoding="utf-8")
    assert step.done() != again


def test_variables_between_our_programs_cannot_be_set_from_outside():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Settings by environment\n")[2]
    rows = [line.split("|") for line in page.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    ours = [row[1] for row in rows if not re.search("you|tests|fleet|ci", row[3])]
    internal = {name for names in ours for name in re.findall("[A-Z_]{2,}", names)}
    assert internal and all(environment.FOREIGN.fullmatch(f"ASYNC_COST_{name}") for name in internal), internal


def test_foreign_packages_settings_and_encodings_do_not_get_in(tmp_path):
    for module in ("polars", "json", "re"):
        (tmp_path / f"{module}.py").write_text("raise SystemExit('foreign')", encoding="utf-8")
    code = "import json, os, polars, sys; print(json.dumps([sys.flags.optimize, sys.stdout.encoding, os.environ['JUPYTER_CONFIG_DIR']]))"
    theirs = {"PYTHONPATH": str(tmp_path), "PYTHONOPTIMIZE": "2", "PYTHONIOENCODING": "iso8859-2"}
    theirs |= {"PYTHONWARNINGS": "error", "LC_ALL": "C", "JUPYTER_CONFIG_DIR": str(tmp_path)}
    done = ran(*TOOL, sys.executable, "-c", code, **theirs)
    assert done.returncode == 0, done.stderr
    optimize, encoding, configured = json.loads(done.stdout)
    assert (optimize, encoding) == (0, "utf-8") and configured.startswith(str(ROOT))


@pytest.mark.parametrize(
    "theirs", [{"PYTHONIOENCODING": "iso8859-2"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
def test_a_terminal_with_few_characters_shows_progress(theirs):
    code = "from async_cost.workflow import environment; environment.settle(); print('1/2 \\u00b7 half')"
    done = ran(sys.executable, "-c", code, **theirs)
    assert done.returncode == 0 and " half" in done.stdout, done.stderr


OF_PYENV = map(str, sorted((ROOT.home() / ".pyenv/versions").glob("3.*/bin/python3")))
OTHER_PYTHONS = [*filter(entry.works, ("python3.8", "python3.9", "python3.10", "python3.14", *OF_PYENV))]


@pytest.mark.parametrize("python", OTHER_PYTHONS)
def test_another_python_is_refused_in_one_line_that_names_the_right_one(python):
    minor = int(ran(python, "-c", "import sys; print(sys.version_info[1])").stdout)
    done = ran(python, *TOOL[1:], "true")
    if entry.OLDEST <= minor <= entry.NEWEST:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "make PYTHON=python3.1" in done.stderr


@pytest.mark.parametrize("minor", [10, 14])
def test_a_python_that_is_too_old_or_too_new_is_refused(monkeypatch, minor):
    this = SimpleNamespace(executable="/bin/python3", version=f"3.{minor}.1 (main)", version_info=(3, minor, 1))
    monkeypatch.setattr(entry, "sys", this)
    monkeypatch.setattr(entry, "works", lambda name: name == "python3.12")
    needs = "and this needs 3.11 to 3.13; you have one: make PYTHON=python3.12 ..."
    assert entry.refusal() == f"/bin/python3 is Python 3.{minor}.1, {needs}"


def test_a_python_without_what_installs_packages_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ensurepip", None)
    assert entry.refusal().endswith("without its module ensurepip (Debian: apt-get install python3-venv)")


def test_an_old_python_can_read_the_check():
    for name in ("__init__.py", "workflow/__init__.py", "workflow/__main__.py"):
        tree = ast.parse((ROOT / "async_cost" / name).read_text(encoding="utf-8"), feature_version=(3, 6))
        imported = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        needed = {"Any", "import_module", "shutil", "subprocess", "sys"}
        assert {alias.name for node in imported for alias in node.names} <= needed


def test_the_makefile_asks_nothing_of_make_that_only_gnu_make_does():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    gnu = r"(?<!\$)\$\(\w+ .*|^(?:ifdef|ifeq|ifneq|include|export|define)\b.*|.*:=.*"
    assert not re.findall(gnu, text, re.MULTILINE)


@pytest.mark.parametrize("make", [*filter(shutil.which, ("make", "bmake", "gmake"))])
def test_each_make_passes_on_what_it_is_given(tmp_path, make):
    """With a Python that prints its arguments."""
    python, rustup = tmp_path / "python", tmp_path / "rustup"
    shown = 'for word; do printf "%s|" "$word"; done\necho $RUSTUP_TOOLCHAIN\n[ "$word" != @/dev/stdin ] || cat\n'
    python.write_text(f"#!/bin/sh\n{shown}", encoding="utf-8")
    rustup.write_text('#!/bin/sh\ntest "$2" != absent || { echo "$2 is not installed"; exit 1; }\n', encoding="utf-8")
    for program in (python, rustup):
        program.chmod(0o755)

    # What the make that runs the tests says to those that it starts is not for another make.
    other = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "RUSTUP_TOOLCHAIN")
    env = {name: value for name, value in os.environ.items() if name not in other}
    env["PATH"] = os.pathsep.join([str(tmp_path), env["PATH"]])

    def given(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [make, f"PYTHON={python}", *arguments]
        return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)

    def words(*arguments: str) -> list[str]:
        done = given(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip("|\n").split("|")[3:]

    assert words("report") == ["report"] and words("measure", "RUN=a b") == ["measure", "--run", "a b"]
    chosen = words("measure", "PROFILE=quick", "STUDIES=zero-cost ladder", "ONLY=nonbox; box (x)", "NATIVE=1")
    options = "--profile|quick|--studies|zero-cost ladder|--only|nonbox; box (x)|--native"
    assert "|".join(chosen) == f"measure|{options}"
    swept = given("sweep", "RUSTC=1.95.0 nightly", "PROFILE=quick").stdout.replace("-Es|-m|async_cost.workflow|", "")
    options = "--profile|quick|--native|"
    assert swept.split("\n") == [f"measure|{options}1.95.0", f"report|{options}nightly", ""]
    assert given("sweep", "RUSTC=1.95.0 absent").stdout.startswith("absent is not installed")
    linted = [ROOT / line for line in given("lint-python").stdout.splitlines() if line.endswith((".py", ".ipynb"))]
    assert set(linted) == {*tracked("**/*.py"), *tracked("**/*.ipynb")}, "a notebook of one's own may hold anything"
    assert words("fleet") == ["fleet", "fleet/config.toml"]
    lacking = {"compare A=x": "needs a second run", "contribute": "needs a run"}
    lacking["sweep"] = 'needs compilers: make sweep RUSTC="1.95.0 nightly"'
    for incomplete, says in lacking.items():
        done = given(*incomplete.split())
        assert done.returncode and says in done.stdout + done.stderr
    misspelt = given("test-fast", "STUDIES=zero_cost")
    assert misspelt.returncode and "`zero_cost` did not match" in misspelt.stderr and not misspelt.stdout


def test_cells_are_built_in_a_clone_inside_of_another_workspace(tmp_path):
    for workspace in (tmp_path, tmp_path / "clone"):
        workspace.mkdir(exist_ok=True)
        (workspace / "Cargo.toml").write_text("[workspace]\nmembers = []\n", encoding="utf-8")
    cells = tmp_path / "clone" / KERNEL_BUILDS.relative_to(ROOT) / "room" / "0"
    (cells / "src").mkdir(parents=True)
    (cells / "src" / "lib.rs").touch()
    (cells / "Cargo.toml").write_text('[package]\nname = "ctx"\nversion = "1.0.0"\n', encoding="utf-8")
    done = subprocess.run(["cargo", "metadata", "--format-version=1"], cwd=cells, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
