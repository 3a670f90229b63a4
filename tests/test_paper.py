"""The draft of a paper in the form that the Journal of Open Source Software asks for: it becomes a page, and each work
that it cites is listed.
"""

import re

import yaml  # type: ignore[import-untyped]
from nbconvert.filters import markdown2html

from async_cost.paths import repository_root

PAPER = repository_root() / "paper"
#: What the journal asks for, and the most words that it prints.
SECTIONS = {"Summary", "Statement of need", "State of the field", "References"}
WORDS = 1000


def test_the_paper_becomes_a_page_and_cites_what_is_listed():
    _, head, text = (PAPER / "paper.md").read_text(encoding="utf-8").split("---\n", 2)
    about = yaml.safe_load(head)
    assert {"title", "tags", "authors", "bibliography"} <= about.keys()
    listed = re.findall(r"^@\w+\{(\w+),$", (PAPER / about["bibliography"]).read_text(encoding="utf-8"), re.MULTILINE)
    assert {*re.findall(r"@(\w+)", text)} == {*listed} and len(listed) == len({*listed})
    page = markdown2html(text)
    assert {*SECTIONS} <= {*re.findall(r"<h1[^>]*>([^<¶]+)", page)}
    assert len(text.split()) <= WORDS


def test_what_the_paper_points_to_is_there():
    text = (PAPER / "paper.md").read_text(encoding="utf-8")
    named = re.findall(r"`(docs/[^`]+)`", text)
    assert named and all((PAPER.parent / name).exists() for name in named)
