"""The environment of every process that the workflow starts: `prepare` makes it ours before anything else happens, and
all of them inherit it.

Of a user's own variables a process gets those listed here: where programs and packages come from, and what a terminal
or a browser needs. Any other could change what is installed, built or measured.
"""

import os
import re
import sys

from async_cost.workflow.toolchain import JUPYTER_PATH, TOOLS, VENV

#: Variables of a user that are passed on.
PASSED = re.compile(
    "|".join(
        [
            r"PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|TZ|LANG|LANGUAGE|LC_\w+|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH",
            r"TERM|COLORTERM|NO_COLOR|COLUMNS|LINES|DISPLAY|WAYLAND_DISPLAY|XAUTHORITY|XDG_\w+|DBUS_\w+|BROWSER|SSH_AUTH_SOCK",
            # Proxies and certificates.
            r"(?i:\w+_proxy)|SSL_CERT_\w+|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NIX_SSL_CERT_FILE",
            # Where git and pip get things from; pip reads the user's configuration files, too.
            r"GIT_(?:SSL|SSH|CONFIG|PROXY)\w*",
            r"PIP_(?:\w+_URL|FIND_LINKS|NO_INDEX|TRUSTED_HOST|KEYRING_PROVIDER|\w*CERT|PROXY|\w*TIMEOUT|RETRIES|\w*CACHE_DIR|CONFIG_FILE)",
            # The compilers that are there, the registries of Cargo, where it builds, and with how many processes.
            r"RUSTUP_\w+|RUST_BACKTRACE|CONDA_\w+|CC|CXX|AR|SDKROOT|DEVELOPER_DIR",
            r"CARGO_(?:HOME|TARGET_DIR|INCREMENTAL|BUILD_JOBS|TERM_\w+|(?:HTTP|NET|REGISTRY|REGISTRIES|SOURCE)_\w+)",
            r"SLURM_\w+|SBATCH_\w+|LAB_OPTIONS",
            # Of our own, what a user, a fleet or a test sets (CONTRIBUTING.md).
            r"ASYNC_COST_(?:RUNS?|COMPARE|REPORTS|SITE|CHROMIUM|MACHINE|PROFILE|FLEET|ORDERINGS|WEAKEN|TRACED|(?:REQUIRE|SOAK)_\w+)",
        ]
    )
)
#: Of those that are not, what would change a build or a measurement.
MATTERS = re.compile(
    r"VALGRIND_\w+|RUSTC\w*|\w*RUSTFLAGS|CARGO_(?:PROFILE|BUILD|TARGET)_\w+|(?:C|CXX|CPP|LD)FLAGS|LD_PRELOAD|MALLOC_\w+|"
    r"GLIBC_TUNABLES|RUST_MIN_STACK|TOKIO_\w+|RUBY\w+|PYTHON(?:PATH|HOME|OPTIMIZE)"
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
    "PIP_USER": "0",  # goes before a configuration file
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


def prepare() -> None:
    """Make this process's environment the one described above, and tell and log which variables that matter it lacks.
    A terminal with few characters shows others as `?`.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]
    dropped = [name for name, value in os.environ.items() if not PASSED.fullmatch(name) and OURS.get(name) != value]
    for name in dropped:
        del os.environ[name]
    if matter := sorted(filter(MATTERS.fullmatch, dropped)):
        message = f"Not passed on, so that builds and numbers are those of others: {', '.join(matter)}"
        print(message, file=sys.stderr)
        log = TOOLS / "log" / "environment.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"{message}\n", encoding="utf-8")
    first = str(VENV / "bin")
    path = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if folder != first]
    os.environ.update(OURS, PATH=os.pathsep.join([first, *path]))
