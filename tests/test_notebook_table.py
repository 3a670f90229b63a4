"""Notebooks stay readable: their cells are short, prose comes before code, a chart is read right after it, and prose of
a measuring notebook says what differs between two variants. How much that costs is for the analysis to compute.
"""

import ast
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import nbformat
import polars as pl
import pytest
from ours import NOTEBOOKS

from async_cost.workflow.toolchain import ROOT

#: Lines of the longest cell. A cell of an analysis is a chain, a chart, or the findings of a section.
LONGEST = {"analysis": 70, "measure": 60}
#: Lines of the middle cell of an analysis.
MEDIAN = 16
#: Share of the code cells of an analysis that follow a paragraph.
AFTER_PROSE = 0.7
#: What makes a code cell a paragraph, and a chart.
SAYS = re.compile(r"^(?:say|ac\.say|run\.finding)\(|^    ac\.say\(", re.MULTILINE)
DRAWS = ("ac.intervals", "ac.bars", "ac.lines", "ac.matrix", "ac.waterfall", "alt.Chart")
ANALYSES = [path for path in NOTEBOOKS if path.name == "analysis.ipynb"]
COMPARISONS = pl.read_csv(ROOT / "data" / "comparisons.csv")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT / "notebooks").with_suffix(""))


def cells_of(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, as_version=4).cells if cell.source.strip()]


def lengths(path: Path) -> list[int]:
    """Lines that are not blank, of each code cell."""
    code = (cell.source for cell in cells_of(path) if cell.cell_type == "code")
    return [sum(bool(line.strip()) for line in source.splitlines()) for source in code]


def unread(cells: Sequence[nbformat.NotebookNode]) -> list[str]:
    """The cells that show a chart, by a call of our own or of a function of the notebook that makes one, that neither
    have a computed title, such as a finding, nor a paragraph in the next cell, be it written, computed, or findings.
    """
    trees = {place: ast.parse(cell.source) for place, cell in enumerate(cells) if cell.cell_type == "code"}
    makers = {
        made
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.Assign) and any(drawing in ast.unparse(node) for drawing in DRAWS)
        for made in ([node.name] if isinstance(node, ast.FunctionDef) else map(ast.unparse, node.targets))
    }
    sources = []
    for place, tree in trees.items():
        last = tree.body[-1]
        if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call):
            called = ast.unparse(last.value.func)
            titles = [word.value for word in last.value.keywords if word.arg == "title"]
            titled = any(not isinstance(title, ast.Constant) for title in titles)
            read = titled or any(map(reads, cells[place + 1 : place + 2]))
            if (called in makers or called.startswith(DRAWS)) and not read:
                sources.append(cells[place].source)
    return sources


def reads(cell: nbformat.NotebookNode) -> bool:
    return (cell.cell_type == "markdown" or bool(SAYS.search(cell.source))) and not cell.source.startswith("#")


def after_prose(cells: Sequence[nbformat.NotebookNode]) -> float:
    """The share of code cells that follow a paragraph, be it written or made of findings."""
    code = [place for place, cell in enumerate(cells) if cell.cell_type == "code"]
    follow = (cells[place - 1].cell_type == "markdown" or reads(cells[place - 1]) for place in code if place)
    return sum(follow) / len(code)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_cells_are_short(path):
    limit = LONGEST["analysis" if path in ANALYSES else "measure"]
    assert max(lengths(path)) <= limit, f"a cell of {name(path)} has {max(lengths(path))} lines: split it"


@pytest.mark.parametrize("path", ANALYSES, ids=name)
def test_an_analysis_is_prose_short_cells_and_charts_that_are_read(path):
    cells, middle = cells_of(path), median(lengths(path))
    assert middle <= MEDIAN, f"the middle cell has {middle} lines: a cell is one chain, one chart or one paragraph"
    assert unread(cells) == [], "charts that the next cell does not read"
    share = after_prose(cells)
    assert share >= AFTER_PROSE, f"{share:.0%} of the cells follow prose: say what they are for"


# -- prose that does not judge ---------------------------------------------------------------------------------

#: What may cost something, besides everything that has a name in code or in the data.
FACTORS = r"""
    `[^`]+` | async | await | keyword | futures? | box(?:es|ed|ing)? | allocat\w+ | wakers? | wakes? | executors? | runtimes? | reactors?
    | queues? | deques? | loops? | tasks? | pools? | threads? | workers? | spawn\w* | clos(?:ure|ures) | mutex | locks? | timers? | selectors?
    | handles? | counts? | counting | checks? | system\ calls? | bitmaps? | index | references? | copies | copying | zeroing | dyn | abstraction
"""
#: Judgements on what something costs.
JUDGEMENTS = r"""
    (?:fast|slow|cheap|dear|lean|light|quick)(?:er|est) | cheap(?:ly)? | dear | costly | expensive | inexpensive | negligibl[ey]
    | (?:close\ to|almost|nearly|practically|as\ good\ as)\ free | for\ free(?!\ ports) | free\ of\ charge | at\ no\ cost
    | (?:saves?|saved|costs?|gains?|adds?|takes?|pays?|buys?|loses?)\ (?:(?:very|too|so|as)\ )?(?:little|nothing|much|most|more|less|a\ lot)(?!\ than\ (?:half\ )?a\ minute)
    | most\ of\ (?:its|that|what|this|the\ (?:cost|price|gap|difference|instructions))
    | (?:half|a\ third|a\ quarter)\ of\ (?:its|the|their)\ (?:cost|price|time|gap|difference|instructions)
    | (?:twice|half|thrice|\d+\ times|several\ times)\ as\ (?:fast|slow|long|much|dear|cheap) | (?:a|some|the)\ multiple\ of(?!\ (?:\d|a\ power))
    | barely | hardly | dominat\w+ | insignificant | noticeabl[ey] | outperforms? | beats? | pays?\ off
    | (?:much|far|a\ good\ deal|somewhat|slightly|a\ little)\ (?:more|less|larger|smaller|better|worse)
"""
FACTOR = re.compile(rf"(?<![\w-])(?:{FACTORS})(?![\w-])", re.IGNORECASE | re.VERBOSE)
VARIANT = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, COMPARISONS['variant'].unique()))})(?![\w-])")
JUDGEMENT = re.compile(rf"(?<![\w-])(?:{JUDGEMENTS})(?![\w-])", re.IGNORECASE | re.VERBOSE)

#: How sentences begin that may judge, and why.
ALLOWED = {
    "for all 256 requests a bare loop takes 24.5 µs, the leanest of his async executors": "quotes what was published",
    "In one of them tokio is 242 times slower": "quotes what was published",
    "in another nio is 13 times faster": "quotes what was published",
    "below 1, ours takes less time": "says how to read a ratio",
    "Which of the two is faster depends on": "leaves it open",
}


def sentences(prose: str) -> list[str]:
    """The sentences of some Markdown, each on one line."""
    prose = re.sub(r"^#+ (.*)$", r"\n\1\n", prose, flags=re.MULTILINE)
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.|\|)\s)", prose, flags=re.MULTILINE)
    lines = (" ".join(block.split()) for block in blocks)
    return [sentence for line in lines for sentence in re.split(r"(?<=[.?!:;])\**\s+", line) if sentence]


def judges(sentence: str) -> bool:
    """Whether a sentence names what may cost something, and says how much it costs."""
    return bool(JUDGEMENT.search(sentence) and (FACTOR.search(sentence) or VARIANT.search(sentence)))


def prose(path: Path) -> list[str]:
    """Everything that a notebook says outside of code: its paragraphs, and the comments in its code."""
    cells = nbformat.read(path, as_version=4).cells
    written = [cell.source for cell in cells if cell.cell_type == "markdown"]
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    comments = [re.findall(r"^\s*//[/!]? ?(.*)$", source, re.MULTILINE) for source in code]
    return [sentence for text in [*written, *map("\n".join, comments)] for sentence in sentences(text)]


@pytest.mark.parametrize("path", [path for path in NOTEBOOKS if path not in ANALYSES], ids=name)
def test_a_measuring_notebook_does_not_judge(path):
    judging = [text for text in prose(path) if judges(text) and not text.startswith(tuple(ALLOWED))]
    assert not judging, "\n".join(["say what differs, and let the analysis say how much:", *judging])


def test_what_changes_between_two_variants_is_said_without_judging():
    changes = COMPARISONS["change"].unique().sort()
    assert [change for change in changes if JUDGEMENT.search(change)] == []


@pytest.mark.parametrize(
    ("sentence", "verdict"),
    [
        ("Writing the futures by hand saves little over `async fn`, which pays for moving its arguments.", True),
        ("So the keyword is close to free, and the separation is not.", True),
        ("The leanest async server executes a multiple of the instructions of the best loop.", True),
        ("A channel and its wake-ups cost far more than a box.", True),
        ("`nonbox` hardly differs from the loop.", True),
        ("Which costs more is for the clock to say.", False),
        ("The flags of an executor lie at a multiple of 1024.", False),
        ("`quick` takes less than half a minute.", False),
        ("`Arc` counts with atomic operations where `Rc` does not.", False),
    ],
)
def test_verdicts_are_found_and_other_sentences_left_alone(sentence, verdict):
    assert judges(sentence) == verdict
