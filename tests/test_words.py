"""Numbers become prose with the right unit, digits and number; what comes from outside stays text."""

import math
import re

import pytest

from async_cost import words
from async_cost.report.markup import safe_markdown, safe_output


def computed(markdown: str) -> str:
    """What a cell computed, as a page shows it."""
    return safe_output({"text/markdown": markdown})


MINUS = words.MINUS


@pytest.mark.parametrize(
    ("value", "low", "high", "equal", "text"),
    [
        (3.648, 3.60, 3.70, 1, "3.65 [3.60, 3.70]"),
        (3.648, 3.2, 4.1, 1, "3.6 [3.2, 4.1]"),
        (1.0846, 1.0841, 1.0852, 1, "1.085 [1.084, 1.085]"),
        (300.0, 200.0, 400.0, 1, "300 [200, 400]"),
        (1.03, 1.0003, 1.05, 1, "1.0300 [1.0003, 1.0500]"),
        (0.97, 0.95, 0.9996, 1, "0.9700 [0.9500, 0.9996]"),
        (1.02, 0.9996, 1.05, 1, "1.02 [1.00, 1.05]"),
        (-25.0, -50.0, -0.31, 0, f"{MINUS}25.0 [{MINUS}50.0, {MINUS}0.3]"),
        (30.0, 0.04, 60.0, 0, "30.00 [0.04, 60.00]"),
        (30.0, -0.04, 60.0, 0, "30 [0, 60]"),
        (3.648, 0.9, math.inf, 1, "3.65 [0.90, ∞]"),
        (-3.0, -math.inf, math.inf, 0, f"{MINUS}3.00 [{MINUS}∞, ∞]"),
        (math.nan, 0.5, math.nan, 1, f"{words.NOTHING} [0.50, {words.NOTHING}]"),
    ],
)
def test_a_number_has_the_digits_that_its_interval_supports_and_excludes_equality_visibly(
    value, low, high, equal, text
):
    assert " ".join(words.with_ends(value, low, high, equal)) == text


def test_a_number_and_its_unit_stay_on_one_line():
    for text in (words.time(66_176), words.exact_percent(0.12), words.interval(0.98, 1.02)):
        assert words.NBSP in text and not re.search(r"\d (%|ns|µs|s|min|h)\b", text)


def test_what_is_infinite_or_unknown_is_shown_as_that():
    assert words.number(math.inf) == words.whole(math.inf) == "∞" and words.number(math.nan) == words.NOTHING
    assert words.time(math.inf) == f"∞{words.NBSP}s"
    assert words.interval(0.98, math.inf) == f"95{words.PERCENT} interval 0.98 to ∞"


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (words.counted(0, "round"), "0 rounds"),
        (words.counted(1, "round"), "1 round"),
        (words.counted(2308, "round"), "2,308 rounds"),
        (words.counted(1, "process"), "1 process"),
        (words.counted(2, "process"), "2 processes"),
        (words.counted(3, "entry"), "3 entries"),
        (words.counted(2, "way"), "2 ways"),
        (words.listing([]), "none"),
        (words.listing(["a"]), "a"),
        (words.listing(["a", "b"]), "a and b"),
        (words.listing(["a", "b", "c"]), "a, b and c"),
        (words.numeral(0), "no"),
        (words.numeral(3), "three"),
        (words.numeral(257), "257"),
    ],
)
def test_counts_and_lists_are_as_in_a_sentence(shown, text):
    assert shown == text


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "**bold** _it_ `code`",
        "[x](javascript:alert(1))",
        "![x](http://example.org/a.png)",
        "# heading",
        "- item",
        "$x^2$",
        "https://example.org",
        "a & b &lt; c",
        "| a | b |",
        "line\nbreak\x1b[31m",
    ],
)
def test_text_from_outside_is_shown_as_it_is(text):
    for render in (computed, safe_markdown):
        html = render(words.escape(text)) + render(f"The machine {words.escape(text)} was measured.")
        for tag in ("<script", "<a ", "<img", "<strong", "<em", "<code", "<h1", "<li", "<table"):
            assert tag not in html
    assert words.escape(text).isprintable()


def test_escaped_text_comes_back_whole():
    html = computed(words.escape("AMD EPYC 7B13 (x86_64) @ 2.45 GHz <fast> & [cool]"))
    assert "AMD EPYC 7B13 (x86_64) @ 2.45 GHz &lt;fast&gt; &amp; [cool]" in html


def test_a_name_in_code_type_cannot_end_it():
    html = computed(words.code("a`<b>**x**"))
    assert html.count("<code>") == 1
    assert "<b>" not in html and "<strong>" not in html
