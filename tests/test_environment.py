"""On any machine: any make, any Python, and any configuration of a user."""

import ast
import hashlib
import json
import os
import re
import shutil
import ssl
import subprocess
import sys
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from ours import tracked

from async_cost.workflow import __main__ as entry
from async_cost.workflow import environment, toolchain
from async_cost.workflow.steps import Progress
from async_cost.workflow.toolchain import KERNEL_BUILDS, ROOT, VENV

TOOL = [sys.executable, "-Es", "-m", "async_cost.workflow", "tool"]


def ran(*command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A program, started with `env` set."""
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, capture_output=True, text=True)


KEPT = """
HOME TMPDIR LC_ALL TERM DISPLAY LD_LIBRARY_PATH https_proxy HTTPS_PROXY SSL_CERT_FILE REQUESTS_CA_BUNDLE GIT_SSL_CAINFO
PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_CERT PIP_DEFAULT_TIMEOUT PIP_CONFIG_FILE
CARGO_HOME CARGO_REGISTRIES_MIRROR_INDEX CARGO_SOURCE_CRATES_IO_REPLACE_WITH CARGO_HTTP_CAINFO CARGO_BUILD_JOBS
RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTUP_DIST_SERVER SLURM_CONF LAB_OPTIONS ASYNC_COST_RUNS
"""
DROPPED = """
PYTHONPATH PYTHONHOME PYTHONSTARTUP PYTHONIOENCODING PIP_USER PIP_TARGET PIP_NO_DEPS PIP_CONSTRAINT JUPYTER_CONFIG_PATH
EVCXR_TMPDIR GIT_DIR GIT_INDEX_FILE MYPYPATH RUFF_CONFIG RUSTC RUSTC_WRAPPER RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER CARGO_PROFILE_BENCH_PANIC CARGO_BUILD_TARGET LD_PRELOAD MALLOC_ARENA_MAX
GLIBC_TUNABLES RUST_MIN_STACK TOKIO_WORKER_THREADS RUBYOPT VALGRIND_OPTS
"""
#: Of these, what changes no build and no number.
NOT_TOLD = ["PYTHONSTARTUP", "PYTHONIOENCODING", "PIP_", "JUPYTER_", "EVCXR_", "GIT_", "MYPYPATH", "RUFF_CONFIG"]


def test_programs_get_the_variables_that_are_listed_and_what_else_would_matter_is_told_and_logged(
    tmp_path, monkeypatch, capsys
):
    passed, dropped = (dict.fromkeys(names.split(), "theirs") for names in (KEPT, DROPPED))
    monkeypatch.setattr(os, "environ", passed | dropped | {"PATH": "/bin"})
    monkeypatch.setattr(environment, "TOOLS", tmp_path)
    environment.prepare()
    assert os.environ == passed | environment.OURS | {"PATH": f"{VENV / 'bin'}{os.pathsep}/bin"}
    (notice,) = capsys.readouterr().err.splitlines()
    matter = sorted(name for name in dropped if not name.startswith(tuple(NOT_TOLD)))
    assert notice == f"Not passed on, so that builds and numbers are those of others: {', '.join(matter)}"
    assert (tmp_path / "log" / "environment.log").read_text() == f"{notice}\n"
    environment.prepare()
    assert not capsys.readouterr().err, "once"


@pytest.fixture
def pip_says(tmp_path, monkeypatch):
    """What pip says of a lock with one package, which is in a folder `simple/toy`, and variables of a user."""
    wheel, lock = tmp_path / "simple" / "toy" / "toy-1.0-py3-none-any.whl", tmp_path / "lock.txt"
    wheel.parent.mkdir(parents=True)
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("toy-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
        file.writestr("toy-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr("toy-1.0.dist-info/RECORD", "")

    def run(digest: str = "", **theirs: str) -> str:
        lock.write_text(f"toy==1.0 --hash=sha256:{digest or hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
        words: list[str] = []
        monkeypatch.setattr(Progress, "command", lambda self, command: words.extend(map(str, command)))
        toolchain._install_locked(str(lock), Progress(print, lock, tmp_path))
        done = ran(*TOOL, *words, "--dry-run", "--no-cache-dir", **{"PIP_RETRIES": "0"} | theirs)
        return done.stdout + done.stderr

    return run


@pytest.mark.parametrize(("digest", "answer"), [("", "Would install toy-1.0"), ("0" * 64, "DO NOT MATCH THE HASHES")])
def test_packages_come_from_a_users_folder_and_another_hash_is_refused(pip_says, tmp_path, digest, answer):
    folder = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "simple" / "toy")}
    assert answer in pip_says(digest, **folder, PIP_CONSTRAINT="/nowhere")


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate with openssl")
def test_packages_come_from_a_users_mirror_with_a_certificate_of_its_own(pip_says, tmp_path):
    made = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=mirror -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*made.split(), "-keyout", "key", "-out", "mirror.pem"], cwd=tmp_path, check=True)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=tmp_path))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tmp_path / "mirror.pem", tmp_path / "key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nuser = true\nindex-url = https://127.0.0.1:{server.server_port}/simple\n")
    theirs = {"PIP_CONFIG_FILE": str(config), "PIP_FIND_LINKS": "", "PIP_PROXY": "", "NO_PROXY": "127.0.0.1"}
    others = subprocess.run([sys.executable, "-m", "pip._vendor.certifi"], check=True, capture_output=True, text=True)
    certificates = {"Would install toy-1.0": str(tmp_path / "mirror.pem"), "verify failed": others.stdout.strip()}
    try:
        for answer, file in certificates.items():
            assert answer in pip_says(**theirs, PIP_CERT=file, REQUESTS_CA_BUNDLE=file)
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("file", "again"), [("pyproject.toml", False), ("requirements.txt", True)], ids=["settings", "lock"]
)
def test_packages_are_installed_again_for_another_lock_and_nothing_else(tmp_path, monkeypatch, file, again):
    monkeypatch.setattr(toolchain, "ROOT", tmp_path)
    monkeypatch.setattr(toolchain, "VENV", tmp_path)
    monkeypatch.setattr(Progress, "command", lambda *_: None)
    for name in ("pyproject.toml", "requirements.txt"):
        (tmp_path / name).touch()
    (step,) = toolchain.steps(native=True)
    step.run(Progress(print, tmp_path / "log", tmp_path))
    assert step.done()
    (tmp_path / file).write_text("other", encoding="utf-8")
    assert step.done() != again


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
    code = "from async_cost.workflow import environment; environment.prepare(); print('1/2 \\u00b7 half')"
    done = ran(sys.executable, "-c", code, **theirs)
    assert done.returncode == 0 and " half" in done.stdout, done.stderr


@pytest.mark.parametrize("minor", [10, 14])
def test_a_python_that_will_not_do_is_told_what_does(monkeypatch, minor):
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ensurepip", None)
        assert entry.refusal().endswith("without its module ensurepip (Debian: apt-get install python3-venv)")
    this = SimpleNamespace(executable="/bin/python3", version=f"3.{minor}.1 (main)", version_info=(3, minor, 1))
    monkeypatch.setattr(entry, "sys", this)
    needs = "and this needs 3.11 to 3.13: make PYTHON=python3.11 ..."
    assert entry.refusal() == f"/bin/python3 is Python 3.{minor}.1, {needs}"


def test_an_old_python_can_read_the_check():
    for name in ("__init__.py", "workflow/__init__.py", "workflow/__main__.py"):
        tree = ast.parse((ROOT / "async_cost" / name).read_text(encoding="utf-8"), feature_version=(3, 6))
        imported = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        needed = {"Any", "import_module", "sys"}
        assert {alias.name for node in imported for alias in node.names} <= needed


def test_the_makefile_asks_nothing_of_make_that_only_gnu_make_does():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    gnu = r"(?<!\$)\$\(\w+ .*|^(?:ifdef|ifeq|ifneq|include|export|define)\b.*|.*:=.*"
    assert not re.findall(gnu, text, re.MULTILINE)


@pytest.mark.parametrize("make", [*filter(shutil.which, ("make", "bmake", "gmake"))])
def test_each_make_passes_on_what_it_is_given(tmp_path, make):
    """With a Python that prints its arguments."""
    python = tmp_path / "python"
    shown = 'for word; do printf "%s|" "$word"; done\necho\n[ "$word" != @/dev/stdin ] || cat\n'
    python.write_text(f"#!/bin/sh\n{shown}", encoding="utf-8")
    python.chmod(0o755)

    # What the make that runs the tests says to those that it starts is not for another make.
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL")}

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
    linted = [ROOT / line for line in given("lint-python").stdout.splitlines() if line.endswith((".py", ".ipynb"))]
    assert set(linted) == {*tracked("**/*.py"), *tracked("**/*.ipynb")}, "a notebook of one's own may hold anything"
    assert words("fleet", "NATIVE=1") == ["fleet", "fleet/machines", "--native"]
    incomplete = given("contribute")
    assert incomplete.returncode and "needs a run" in incomplete.stdout + incomplete.stderr
    misspelt = given("test-fast", "STUDIES=zero_cost")
    assert misspelt.returncode and "`zero_cost` did not match" in misspelt.stderr and not misspelt.stdout


def test_cells_are_built_in_a_clone_inside_of_another_workspace(tmp_path):
    for workspace in (tmp_path, tmp_path / "clone"):
        workspace.mkdir(exist_ok=True)
        (workspace / "Cargo.toml").write_text("[workspace]\nmembers = []\n", encoding="utf-8")
    cells = tmp_path / "clone" / KERNEL_BUILDS.relative_to(ROOT) / "study" / "0"
    (cells / "src").mkdir(parents=True)
    (cells / "src" / "lib.rs").touch()
    (cells / "Cargo.toml").write_text('[package]\nname = "ctx"\nversion = "1.0.0"\n', encoding="utf-8")
    done = subprocess.run(["cargo", "metadata", "--format-version=1"], cwd=cells, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
