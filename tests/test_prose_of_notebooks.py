"""Prose of a measuring notebook says what differs between two variants. How much that costs is for the analysis to
compute.
"""

import re
from pathlib import Path

import nbformat
import polars as pl
import pytest

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = sorted(path for path in ROOT.glob("notebooks/**/*.ipynb") if path.name != "analysis.ipynb")
COMPARISONS = pl.read_csv(ROOT / "data" / "comparisons.csv")

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
    comments = [
        re.findall(r"^\s*//[/!]? ?(.*)$", cell.source, re.MULTILINE) for cell in cells if cell.cell_type == "code"
    ]
    return [sentence for text in [*written, *map("\n".join, comments)] for sentence in sentences(text)]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT / "notebooks").with_suffix(""))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=name)
def test_a_measuring_notebook_does_not_judge(path):
    found = [text for text in prose(path) if judges(text) and not text.startswith(tuple(ALLOWED))]
    assert not found, "\n".join(["say what differs, and let the analysis say how much:", *found])


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


def test_comments_and_paragraphs_are_read_sentence_by_sentence(tmp_path):
    text = "# Boxes are slower\n\nA box is made. It\nis **cheap**: a list follows.\n- One\n- Two"
    code = "/// A queue.\n/// It is faster.\nlet fast = 1; // not read"
    cells = [nbformat.v4.new_markdown_cell(text), nbformat.v4.new_code_cell(code)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "measure.ipynb")
    paragraphs = ["Boxes are slower", "A box is made.", "It is **cheap**:", "a list follows.", "- One", "- Two"]
    assert prose(tmp_path / "measure.ipynb") == [*paragraphs, "A queue.", "It is faster."]
