"""Numbers become prose with the right unit, digits and number; what comes from outside stays text."""

import re

import polars as pl
import pytest

from async_cost import words
from async_cost.report.markup import safe_markdown, safe_output_markdown


def blanks(text: str) -> str:
    """`text` with blanks that may break, as they are easier to read in the expectations below."""
    return text.replace(words.NBSP, " ")


MINUS = words.MINUS


@pytest.mark.parametrize(
    ("ns", "low", "high", "text"),
    [
        (258.4, 251.2, 266.3, "258 ns (95 % interval 251 to 266 ns)"),
        (258.4, 158.2, 366.3, "300 ns (95 % interval 200 to 400 ns)"),
        (1084.6, 1084.1, 1085.2, "1.085 µs (95 % interval 1.084 to 1.085 µs)"),
        (66_176, 66_000, 66_300, "66.2 µs (95 % interval 66.0 to 66.3 µs)"),
        (2_560_000, 2_400_000, 2_700_000, "2.6 ms (95 % interval 2.4 to 2.7 ms)"),
        (-30.2, -35.0, -25.1, "\N{MINUS SIGN}30 ns (95 % interval \N{MINUS SIGN}35 to \N{MINUS SIGN}25 ns)"),
    ],
)
def test_a_time_has_the_unit_and_the_digits_that_its_interval_supports(ns, low, high, text):
    assert blanks(words.time_with_interval(ns, low, high)) == text


@pytest.mark.parametrize(
    ("ns", "low", "high", "text"),
    [
        (-25.0, -50.0, -0.31, f"{MINUS}25.0 ns (95 % interval {MINUS}50.0 to {MINUS}0.3 ns)"),
        (30.0, 0.04, 60.0, "30.00 ns (95 % interval 0.04 to 60.00 ns)"),
        (30.0, -0.04, 60.0, "30 ns (95 % interval 0 to 60 ns)"),
    ],
)
def test_an_interval_that_excludes_no_difference_does_not_print_it(ns, low, high, text):
    assert blanks(words.time_with_interval(ns, low, high)) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1.0003, 1.05, "0.03 % more to 5.00 % more"),
        (0.95, 0.9996, "5.00 % less to 0.04 % less"),
        (0.9996, 1.05, "0 to 5 % more"),
        (1.004, 3.4, "1.004 to 3.400 times"),
        (0.996, 3.4, "1 to 3 times"),
    ],
)
def test_an_interval_that_excludes_equality_does_not_print_it(low, high, text):
    assert blanks(words.interval(low, high)) == f"95 % interval {text}"


def test_a_number_and_its_unit_stay_on_one_line():
    said = [
        words.ratio_with_interval(1.1, 1.09, 1.11),
        words.added({"added_ns": 25.0, "low": 20.0, "high": 30.0}, "slower"),
        words.time(66_176),
        words.percent(0.12),
        words.duration(7500),
    ]
    for text in said:
        assert words.NBSP in text and not re.search(r"\d (%|ns|µs|s|min|h)\b", text)


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (3.648, 3.60, 3.70, "3.65 times the time"),
        (3.648, 3.2, 4.1, "3.6 times the time"),
        (1.0937, 1.09, 1.1, "9.4 % more time"),
        (1.0937, 1.05, 1.13, "9 % more time"),
        (0.912, 0.90, 0.93, "9 % less time"),
        (0.2706, 0.26, 0.28, "0.27 times the time"),
        (1.0001, 0.99, 1.01, "the same time"),
    ],
)
def test_a_ratio_reads_as_times_or_as_per_cent(value, low, high, text):
    assert blanks(words.ratio(value, low, high)) == text


def test_an_estimate_near_1_is_the_same_only_where_the_interval_is_narrow():
    assert blanks(words.ratio(1.0, 0.99, 1.02)) == "the same time"
    assert blanks(words.ratio_with_interval(1.0, 0.0, 4.0)).startswith("0 % more time (95 % interval 100 % less to ")


def test_an_interval_near_1_says_on_which_side_its_ends_lie():
    assert blanks(words.interval(0.988, 1.023)) == "95 % interval 1 % less to 2 % more"
    assert blanks(words.interval(3.58, 3.72)) == "95 % interval 3.58 to 3.72 times"
    assert blanks(words.interval(1.0, 1.04)) == "95 % interval 0 to 4 % more"


@pytest.mark.parametrize(("count", "text"), [(0, "0 rounds"), (1, "1 round"), (2, "2 rounds"), (2308, "2,308 rounds")])
def test_one_round_is_singular(count, text):
    assert words.counted(count, "round") == text


def test_irregular_plurals():
    assert words.counted(1, "entry", "entries") == "1 entry"
    assert words.counted(3, "entry", "entries") == "3 entries"


@pytest.mark.parametrize(
    ("items", "text"), [([], "none"), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_lists(items, text):
    assert words.listing(items) == text


def test_what_async_adds_follows_the_verdict():
    row = {"added_ns": 250.0, "low": 240.0, "high": 260.0}
    assert blanks(words.added(row, "slower")).startswith("adds 250 ns (95 % interval 240 to 260 ns)")
    turned = {"added_ns": -250.0, "low": -260.0, "high": -240.0}
    assert blanks(words.added(turned, "faster")).startswith("saves 250 ns (95 % interval 240 to 260 ns)")
    assert blanks(words.added(row, None)) == "differs by 250 ns (95 % interval 240 to 260 ns) on each request"


def test_an_interval_that_reaches_beyond_a_limit_is_seen_to():
    assert blanks(words.interval(0.988, 1.009, limit=0.01)) == "95 % interval 1.2 % less to 0.9 % more"
    assert blanks(words.interval(0.98996, 1.009, limit=0.01)) == "95 % interval 1.004 % less to 0.900 % more"


def test_without_verdicts_only_the_ends_are_said():
    frame = pl.DataFrame(
        {"variant": ["a", "b", "c"], "ratio": [2.0, 1.0, 4.0], "low": [1.8, 0.8, 3.8], "high": [2.2, 1.2, 4.2]}
    ).with_columns(verdict=pl.lit(None, pl.String))
    assert words.by_verdict(frame, "x") == "The smallest of these 3 ratios is 1.0 (`b`), the largest 4.0 (`c`)."
    assert words.by_verdict(frame.head(1), "x") == "The ratio is 2.0 (`a`)."


@pytest.mark.parametrize(("count", "text"), [(0, "no"), (3, "three"), (257, "257")])
def test_small_counts_are_words(count, text):
    assert words.numeral(count) == text


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
    for render in (safe_output_markdown, safe_markdown):
        html = render(words.escape(text)) + render(f"The machine {words.escape(text)} was measured.")
        for tag in ("<script", "<a ", "<img", "<strong", "<em", "<code", "<h1", "<li", "<table"):
            assert tag not in html
    assert words.escape(text).isprintable()


def test_escaped_text_comes_back_whole():
    html = safe_output_markdown(words.escape("AMD EPYC 7B13 (x86_64) @ 2.45 GHz <fast> & [cool]"))
    assert "AMD EPYC 7B13 (x86_64) @ 2.45 GHz &lt;fast&gt; &amp; [cool]" in html


def test_a_name_in_code_type_cannot_end_it():
    html = safe_output_markdown(words.code("a`<b>**x**"))
    assert html.count("<code>") == 1
    assert "<b>" not in html and "<strong>" not in html


def test_a_sentence_starts_big_and_ends_once():
    assert words.sentence("the run stands.") == "The run stands."
    assert words.bullets(["a", "b!"]) == "- A.\n- B!"


@pytest.mark.parametrize(("seconds", "text"), [(45, "45 s"), (720, "12 min"), (7500, "2 h 5 min")])
def test_durations(seconds, text):
    assert blanks(words.duration(seconds)) == text
