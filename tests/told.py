"""What an executed analysis notebook says, for the tests of analyses; and what its prose must not hold."""

import ast
import atexit
import functools
import os
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import nbformat
from jupyter_client import KernelManager
from nbclient import NotebookClient

from async_cost.words import NBSP, unasked
from async_cost.workflow.analyses import begin
from async_cost.workflow.studies import analysis

#: A number with what would make it a result: a unit, a percentage, "times".
RESULT = re.compile(r"\d\s*(%|‰|ns|µs|us|ms|s\b|times|x\b|fold)")
#: What a template computes.
TAG = re.compile(r"\{([{%]).*?[}%]\}", re.DOTALL)
#: Emphasised words that only a trusted run may say.
VERDICTS = ("**slower**", "**faster**", "**the same**", "**Slower**", "**Faster**", "**The same**", "**undecided**")


@dataclass
class Told:
    """What an executed notebook says, by kind; blanks that do not break are shown as plain ones."""

    answer: str
    trust: str
    trusted: bool
    text: str
    alts: list[str]
    tables: list[str]


def read(room: str) -> nbformat.NotebookNode:
    """The analysis notebook of a room."""
    return nbformat.read(analysis(room), as_version=4)


@functools.cache
def kernel() -> KernelManager:
    """A Python kernel for all notebooks of a test process: to start one and import everything takes three times as long
    as an analysis.
    """
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    atexit.register(manager.shutdown_kernel, now=True)
    return manager


def tell(room: str, run: Path) -> Told:
    """Executes the analysis of `room` on `run` and collects what it says."""
    notebook = read(room)
    notebook.cells.insert(0, begin(analysis(room).parent, {**os.environ, "ASYNC_COST_RUN": str(run)}))
    NotebookClient(notebook, km=kernel(), timeout=300).execute()
    del notebook.cells[0]
    said = [
        (cell.metadata.get("tags", []), output)
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if "data" in output
    ]
    markdown = [(tags, output) for tags, output in said if "text/markdown" in output.data]
    for _, output in markdown:
        output.data["text/markdown"] = unasked(output.data["text/markdown"]).replace(NBSP, " ")
    answers = [output.data["text/markdown"] for tags, output in markdown if "answer" in tags]
    trusts = [output for tags, output in markdown if "trust" in tags]
    assert len(answers) == len(trusts) == 1, "one answer and one word on trust, for the front page"
    return Told(
        answer=answers[0],
        trust=trusts[0].data["text/markdown"],
        trusted=trusts[0].metadata["trusted"],
        text="\n".join(output.data["text/markdown"] for _, output in markdown),
        alts=[output.data["text/plain"] for _, output in said if "image/svg+xml" in output.data],
        tables=[output.data["text/html"] for _, output in said if "text/html" in output.data],
    )


def check_form(notebook: nbformat.NotebookNode) -> None:
    """No typed result, no verdict in prose, a reading after every chart, no stored output, no sentence that leads to
    nothing: one before silent code alone is tagged `code`.
    """
    shown = [cell for cell in notebook.cells if cell.cell_type == "markdown" or not is_silent(cell.source)]
    for cell, after in pairwise(shown):
        if cell.cell_type == after.cell_type == "markdown" and after.source.startswith("## The answer"):
            assert "code" in cell.metadata.get("tags", []), f"tag this sentence `code`: {cell.source}"
    for cell, after in pairwise([*notebook.cells, None]):
        if cell.cell_type == "markdown":
            prose = re.sub(r"`[^`]*`|\]\([^)]*\)", "", cell.source)
            assert not re.search(r"\d", prose), f"a number is typed into prose: {prose}"
            assert not re.search(r"\b(slower|faster) than\b", re.sub(r"\*[^*]+\*", "", prose)), "prose gives a verdict"
            continue
        assert cell.outputs == [] and cell.execution_count is None, "the committed notebook holds output"
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("say", "say.text"):
                # Text from a run must never be taken for a template.
                template = node.args[0]
                written = isinstance(template, ast.Constant) or (
                    isinstance(template, ast.Name) and template.id.isupper()
                )
                assert written, f"a template is a text or the name of a constant: {ast.unparse(template)}"
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not RESULT.search(TAG.sub("", node.value)), f"a result is typed into a sentence: {node.value!r}"
        if re.search(r"^charts\.(?!enable)\w+\(", cell.source, re.MULTILINE):
            read = (
                after is not None and after.cell_type == "code" and re.search(r"^say\(|Markdown\(", after.source, re.M)
            )
            assert read, f"nobody reads the chart of {cell.source}"


def is_silent(code: str) -> bool:
    """Whether a cell shows nothing: it only names things."""
    return not any(isinstance(node, ast.Expr) for node in ast.parse(code).body)


def check_alts(told: Told) -> None:
    """Every chart has its finding as plain text."""
    for alt in told.alts:
        assert len(alt.split()) > 6 and "`" not in alt and "**" not in alt
