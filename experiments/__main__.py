"""Measure the measuring, in some 25 minutes on a quiet machine.

    python -m experiments [--only NAME]

Each experiment makes the table data/experiments/<name>.csv (data/README.md), which pages read. `crates`, which takes
40 minutes, is made when it is named.
"""

import argparse
import os

from async_cost.runs.experiments import FOLDER
from async_cost.workflow.toolchain import ROOT
from experiments import cells, coverage, crates, forks, methods, shapes

#: What makes each table, and how many decimals it has.
EXPERIMENTS = {
    "coverage": (coverage.of_reference, 4),
    "sittings": (coverage.predictions, 6),
    "shapes": (shapes.measure, 1),
    "cells": (cells.compare, 4),
    "forks": (forks.measure, 4),
    "methods": (methods.identical, 6),
    "orders": (methods.linked, 6),
    "crates": (crates.compare, 6),
}
#: Made only when it is named.
LONG = "crates"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=EXPERIMENTS, action="append", help="one experiment (may be repeated)")
    for name in parser.parse_args().only or [name for name in EXPERIMENTS if name != LONG]:
        print(name)
        make, decimals = EXPERIMENTS[name]
        file = ROOT / FOLDER / f"{name}.csv"
        try:
            make().write_csv(file, float_precision=decimals)
            print(f"The table is in {os.path.relpath(file)}")
        except methods.Unable as error:
            print(f"{name} is left out: {error}")


if __name__ == "__main__":
    main()
