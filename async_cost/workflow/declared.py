"""Write data/comparisons.csv: the comparisons that every study declares, as listed by its native program.

python -m async_cost.workflow.declared
"""

import os
import shutil
import subprocess
import sys

from async_cost.paths import repository_root
from async_cost.workflow import layouts
from async_cost.workflow.studies import MEASURED


def main() -> None:
    if not (shutil.which("ruby") and shutil.which("mruby")):
        sys.exit("call-styles compares ruby and mruby where they are installed: install both")
    header, rows = "", []
    for study in MEASURED:
        command = ["cargo", "bench", "--locked", "-p", study, "--bench", "measure", "--", "--comparisons"]
        environment = {**os.environ, **layouts.environment()}
        listed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
        # Cargo may say something of its own before the program does.
        header, body = listed[listed.index("study,bench,") :].split("\n", 1)
        rows.append(body)
    file = repository_root() / "data" / "comparisons.csv"
    file.write_text(f"{header}\n{''.join(rows)}", encoding="utf-8")


if __name__ == "__main__":
    main()
