"""What `make` starts: `python3 -Es -m async_cost.workflow <command>`, with the system's Python.

An older Python can read this file too, and says which one is needed.
"""

import shutil
import subprocess
import sys

#: The Pythons that the packages of requirements.txt are made for.
OLDEST, NEWEST = 11, 13


def refusal():
    """Why this Python will not do, with the remedy; empty if it will."""
    this = f"{sys.executable} is Python {sys.version.split()[0]}"
    if not (3, OLDEST) <= sys.version_info[:2] <= (3, NEWEST):
        names = [f"python3.{minor}" for minor in range(NEWEST, OLDEST - 1, -1)]
        there = next(filter(works, names), None)
        remedy = f"you have one: make PYTHON={there} ..." if there else f"install one, then make PYTHON={names[-1]} ..."
        return f"{this}, and this needs 3.{OLDEST} to 3.{NEWEST}; {remedy}"
    for module in ("ctypes", "ensurepip", "ssl", "venv", "zlib"):
        try:
            __import__(module)
        except ImportError:
            return f"{this} without its module {module} (Debian: apt-get install python3-venv)"
    return ""


def works(name):
    """Whether there is such a program; pyenv has placeholders for those that are not chosen."""
    return shutil.which(name) is not None and subprocess.call([name, "-c", ""], stderr=subprocess.DEVNULL) == 0


if __name__ == "__main__":
    if refusal():
        sys.exit(refusal())
    from async_cost.workflow import environment

    environment.settle()
    from async_cost.workflow.commands import main

    sys.exit(main())
