"""docs/sample: the report of the reference run as pages that are readable where the repository is hosted; the first
screen of README.md, and the sentence at the head of each analysis.

    python -m async_cost.workflow.sample

The reference run is the series that data/runs/REFERENCE lists. The page of a study that it lacks is of the newest
committed series that measured it.
"""

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from async_cost import words
from async_cost.errors import DataError
from async_cost.findings.latency import committed
from async_cost.paths import repository_root
from async_cost.report import charts, latency, provenance, publish, sample
from async_cost.runs.find import reference_run
from async_cost.runs.run import Run
from async_cost.workflow.definitions import execute_committed
from async_cost.workflow.execute import CellFailed
from async_cost.workflow.studies import analysis

FOLDER = Path("docs") / "sample"
#: The part of README.md between these two lines is generated, and the picture in it.
BEGIN, END = "<!-- answer: made by make sample -->", "<!-- end of the answer -->"
PICTURE = Path("docs") / "latency.svg"


def made(run: Run, analyses: Sequence[tuple[Run, Path]]) -> dict[str, str]:
    """What is made of the executed analyses, each with its run, by path: the sample, the first screen of README.md with
    its picture, and the sentence at the head of each analysis. `run` is the reference.
    """
    executed = [path for _, path in analyses]
    # Of another run a page says which.
    named = {run.path: ""} | {
        of.path: f" Run {words.code(of.info.run_id)}." for of, _ in analyses if of.path != run.path
    }
    signs = [f"{publish.signs(of)}{named[of.path]}" for of, _ in analyses]
    origin = f"Run {words.code(run.info.run_id)}: {words.escape(provenance.headline(run.info))}."
    numbers = committed()
    card = latency.card(numbers)
    alt = f"{latency.title(numbers)}. The numbers are in the table below."

    def screen(pages: str, pictures: str) -> str:
        light, dark = (f"{pictures}{PICTURE.stem}{theme}.svg" for theme in ("", "-dark"))
        return latency.screen(numbers, pages, sample.picture(light, dark, alt))

    pages = sample.pages(executed, origin, publish.reading(run), signs, screen("{}.md", "../"))
    readme = (repository_root() / "README.md").read_text(encoding="utf-8")
    if BEGIN not in readme or END not in readme:
        raise SystemExit(f"README.md: the lines `{BEGIN}` and `{END}` are missing")
    questions = "\n".join(sample.questions(executed, f"{FOLDER}/", brief=True))
    answer = f"{screen(f'{FOLDER}/{{}}.md', f'{PICTURE.parent}/')}\n\n{questions}"
    between = re.escape(BEGIN) + ".*" + re.escape(END)
    files = {str(FOLDER / name): text for name, text in pages.items()}
    files["README.md"] = re.sub(between, lambda _: f"{BEGIN}\n{answer}\n{END}", readme, flags=re.DOTALL)
    files |= {str(PICTURE): f"{card}\n", str(PICTURE.with_stem(f"{PICTURE.stem}-dark")): f"{charts.dark(card)}\n"}
    for notebook in executed:
        ours = analysis(notebook.stem)
        files[str(ours.relative_to(repository_root()))] = sample.headed(ours, notebook)
    return files


def main() -> None:
    root = repository_root()
    try:
        with tempfile.TemporaryDirectory() as temporary:
            executed = execute_committed(Path(temporary), {"ASYNC_COST_COMMITTED": "1"})
            files = made(reference_run(), list(executed.values()))
    except (CellFailed, DataError) as error:
        sys.exit(str(error))
    (root / FOLDER).mkdir(exist_ok=True)
    for file in (root / FOLDER).glob("*.*"):
        if file.is_file():
            file.unlink()
    for name, text in files.items():
        (root / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
