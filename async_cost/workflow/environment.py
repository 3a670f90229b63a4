"""The environment of every process that the workflow starts: `settle` makes it ours before anything else happens, and
all of them inherit it.

What a user has set for Python, pip, Jupyter, git or Cargo must change neither what is installed nor what is built or
measured. What says where to download from, and with which certificates, is kept.
"""

import os
import re
import sys

from async_cost.workflow.toolchain import JUPYTER_PATH, PIP_SOURCES, TOOLS, VENV

_PIP_SOURCES = "|".join([*PIP_SOURCES, "config-file"]).replace("-", "_").upper()
#: Variables of a user that are not passed on, by the program that reads them.
FOREIGN = re.compile(
    "|".join(
        [
            r"PYTHON\w*",
            rf"PIP_(?!(?:{_PIP_SOURCES})$)\w*",
            r"JUPYTER\w*|IPYTHON\w*|JUPYTEXT\w*|EVCXR\w*",
            r"MYPY\w*|RUFF_\w+|CLIPPY_CONF_DIR",
            # Set in hooks and by `git rebase --exec`; they name another repository, or a part of it.
            r"GIT_(?:DIR|WORK_TREE|INDEX_FILE|COMMON_DIR|OBJECT_DIRECTORY|NAMESPACE|PREFIX|CEILING_DIRECTORIES)",
            # rust-toolchain.toml chooses the compiler, and programs are measured as they are.
            r"RUSTC|CARGO_BUILD_RUSTC|CARGO_TARGET_\w+_RUNNER",
            # Benchmarks and cells are compiled as below and as the notebooks say.
            r"CARGO_PROFILE_\w+",
            # They change how a measured program allocates, or how many threads a runtime has.
            r"LD_PRELOAD|MALLOC_\w+|GLIBC_TUNABLES|RUST_MIN_STACK|TOKIO_\w+",
            # What interpreters load first, and how; call-styles measures ruby.
            r"RUBY\w*",
            # These are set by the workflow and the harness alone.
            r"ASYNC_COST_(?:TIMES|VARIANTS|PARTIAL|COMMAND|SERIES|CLAIMS|FINDINGS|PROGRAM|EPISODE|PADDING|PROGRESS|COMPARE|ANALYSES)",
            r"BY_TURNS_COUNTED",
        ]
    )
)
#: With JUPYTER_PATH pointing here, evcxr_jupyter can only update our kernelspec named `rust`: it changes the one that
#: it finds at start. Settings of all users of a machine, in /etc, are not read either.
OURS = {
    "JUPYTER_PATH": str(JUPYTER_PATH),
    "JUPYTER_DATA_DIR": str(TOOLS / "jupyter-data"),
    "JUPYTER_CONFIG_DIR": str(TOOLS / "jupyter-config"),
    "JUPYTER_RUNTIME_DIR": str(TOOLS / "jupyter-runtime"),
    "JUPYTER_NO_CONFIG": "1",
    "IPYTHONDIR": str(TOOLS / "ipython"),
    "EVCXR_CONFIG_DIR": str(TOOLS / "evcxr-config"),
    "PYTHONNOUSERSITE": "1",
    "PYTHONUTF8": "1",
    # How benchmarks are compiled, whatever a user's configuration files say: variables go before these.
    "CARGO_PROFILE_BENCH_OPT_LEVEL": "3",
    "CARGO_PROFILE_BENCH_DEBUG_ASSERTIONS": "false",
    "CARGO_PROFILE_BENCH_OVERFLOW_CHECKS": "false",
    "CARGO_PROFILE_BENCH_CODEGEN_UNITS": "1",
    "CARGO_PROFILE_BENCH_LTO": "false",
    "CARGO_PROFILE_DEV_LTO": "false",
}


def settle() -> None:
    """Make this process's environment the one described above. A terminal with few characters shows others as `?`."""
    for name in filter(FOREIGN.fullmatch, list(os.environ)):
        del os.environ[name]
    first = str(VENV / "bin")
    path = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != first]
    os.environ.update(OURS, PATH=os.pathsep.join([first, *path]))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
