"""docs/sample: the report of the reference run as pages that are readable where the repository is hosted; and the
answer at the head of README.md.

    python -m async_cost.workflow.sample

The reference run is the series that data/runs/REFERENCE lists.
"""

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from async_cost import words
from async_cost.paths import repository_root
from async_cost.report import PublishError, provenance, publish, sample
from async_cost.runs.find import reference_run
from async_cost.runs.run import Run
from async_cost.workflow import experiments
from async_cost.workflow.execute import CellFailed
from async_cost.workflow.publishing import OTHERS, execute, rooms_of

FOLDER = Path("docs") / "sample"
#: The part of README.md between these two lines is generated, and the picture in it.
BEGIN, END = "<!-- answer: made by make sample -->", "<!-- end of the answer -->"
PICTURE = Path("docs") / "answer.svg"


def made(run: Run, executed: Sequence[Path]) -> dict[str, str]:
    """What is made of the executed analyses of `run`, by path: the sample, the answer in README.md and its picture."""
    origin = f"Run {words.code(run.info.run_id)}: {words.escape(provenance.headline(run.info))}."
    how = publish.reading(run)
    pages = sample.pages([notebook for notebook in executed if notebook.stem != OTHERS], origin, how)
    readme = (repository_root() / "README.md").read_text(encoding="utf-8")
    if BEGIN not in readme or END not in readme:
        raise SystemExit(f"README.md: the lines `{BEGIN}` and `{END}` are missing")
    answer = "\n".join(sample.questions([notebook for notebook in executed if notebook.stem != OTHERS], f"{FOLDER}/"))
    between = re.escape(BEGIN) + ".*" + re.escape(END)
    files = {str(FOLDER / name): text for name, text in pages.items()}
    files["README.md"] = re.sub(between, lambda _: f"{BEGIN}\n{answer}\n{END}", readme, flags=re.DOTALL)
    files[str(PICTURE)] = pages[f"{publish.FIRST}-1.svg"]
    files[str(PICTURE.with_stem("answer-dark"))] = pages[f"{publish.FIRST}-1-dark.svg"]
    return files


def main() -> None:
    run, root = reference_run(), repository_root()
    rooms = [room for room in rooms_of(run.info) if room != OTHERS]
    try:
        with tempfile.TemporaryDirectory() as temporary:
            # What is committed is made of what is committed, wherever somebody has measured the measuring, too.
            environ = {"ASYNC_COST_RUN": str(run.path.resolve()), "ASYNC_COST_EXPERIMENTS": experiments.committed()}
            executed = execute(rooms, Path(temporary), environ, Path)
            files = made(run, executed)
    except (CellFailed, PublishError) as error:
        sys.exit(str(error))
    (root / FOLDER).mkdir(exist_ok=True)
    for file in (root / FOLDER).glob("*.*"):
        if file.is_file():
            file.unlink()
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
