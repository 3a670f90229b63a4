"""What `make` starts: `python3 -Es -m async_cost.workflow <command>`, with the system's Python.

An older Python can read this file too, and says which one is needed.
"""

import sys

#: The Pythons that the packages of requirements.txt are made for.
OLDEST, NEWEST = 11, 13


def refusal():
    """Why this Python will not do, with the remedy; empty if it will."""
    this = f"{sys.executable} is Python {sys.version.split()[0]}"
    if not (3, OLDEST) <= sys.version_info[:2] <= (3, NEWEST):
        return f"{this}, and this needs 3.{OLDEST} to 3.{NEWEST}: make PYTHON=python3.{OLDEST} ..."
    for module in ("ctypes", "ensurepip", "ssl", "venv", "zlib"):
        try:
            __import__(module)
        except ImportError:
            return f"{this} without its module {module} (Debian: apt-get install python3-venv)"
    return ""


if __name__ == "__main__":
    if refusal():
        sys.exit(refusal())
    from async_cost.workflow import environment

    environment.prepare()
    from async_cost.workflow.commands import main

    sys.exit(main())
