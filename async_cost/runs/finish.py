"""Make a finished partial run appear under data/runs, by one rename.

python -m async_cost.runs.finish data/runs/.partial/<id> data/runs outcome.json
"""

from __future__ import annotations

import json
import os
import re
import sys
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from async_cost.errors import DataError
from async_cost.files import write_whole
from async_cost.runs import comparisons
from async_cost.runs.reader import read_json
from async_cost.runs.record import PROCESSOR
from async_cost.runs.run import open_sitting


def finish(partial: Path, runs: Path, outcome: Path) -> Path:
    """Check the partial run the way every reader does, enter how many rows each table has, and rename it to
    data/runs/<machine>/<utc-time>; returns that folder.

    `outcome` is written before anything is deleted: after a kill between it and the rename (the folder it names is not
    there yet), this is all that is left to do. Raises DataError, and leaves the partial run where it is, if a study is
    incomplete or a file is invalid.
    """
    info_file = partial / "run.json"
    if not info_file.exists():
        remedy = "Look for the reason in .tools/log, then measure again"
        raise DataError(info_file, "this run holds no measurement", remedy)
    open_sitting(partial).checked()
    document = read_json(info_file)  # as it stands in the file: nothing is written that was only made of it for readers
    if document["ended"] is None:
        document["ended"] = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    document["machine"]["name"], time = own_name(document["machine"], runs), document["run_id"].partition("/")[2]
    document["run_id"] = f"{document['machine']['name']}/{time}"
    tables = sorted(file for lens in ("time", "counts", "metrics") for file in partial.glob(f"*.{lens}.csv"))
    document["rows"] = {file.name: file.read_bytes().count(b"\n") - 1 for file in tables}
    target = runs / document["run_id"]
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        remedy = "Move it away and run the command again"
        raise DataError(target, "a run of this machine and time exists already", remedy)
    outcome.write_text(json.dumps({"run": document["run_id"], "plan": partial.name}) + "\n", encoding="utf-8")
    comparisons.record(partial, document["studies"])
    write_whole(info_file, json.dumps(document, indent=2) + "\n")
    # Files that only served the measuring: a run holds data alone.
    served = ("*.measure.ipynb", "*.episode.json", "*.counted", "*.tmp", ".*.partial", "episodes.json")
    for file in (file for pattern in served for file in partial.glob(pattern)):
        file.unlink()
    os.rename(partial, target)
    return target


def own_name(machine: dict, runs: Path) -> str:
    """Return what a machine is called: as it calls itself, unless runs of that name are of another processor, as
    virtual machines hide the model of theirs; then also by its first-level cache, as in amd-epyc-l1d-32k-2c, or by a
    number.
    """

    def is_free(name: str) -> bool:
        others = (read_json(file)["machine"] for file in (runs / name).glob("*/run.json"))
        return all(other.get(part) == machine[part] for other in others for part in PROCESSOR)

    name = machine["name"]
    first = next((one["bytes"] for one in machine["caches"] or () if (one["level"], one["kind"]) == (1, "data")), 0)
    cached = re.sub(r"(?=-\d+c(?:-|$))", f"-l1d-{first // 1024}k", name, count=1)
    return next(name for name in chain((name, cached), (f"{cached}-{number}" for number in count(2))) if is_free(name))


if __name__ == "__main__":
    try:
        finish(*map(Path, sys.argv[1:]))
    except DataError as error:
        sys.exit(str(error))
