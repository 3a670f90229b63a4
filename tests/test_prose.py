"""Computed prose: templates say what was computed, and fail rather than print what nobody meant."""

import polars as pl
import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from async_cost.report.prose import Prose, ProseError
from async_cost.words import NBSP

ROW = {"variant": "a*b", "parameter": "", "ratio": 2.5, "low": 2.4, "high": 2.6, "verdict": "slower"}
FRAME = pl.DataFrame([ROW])


def plain(template: str, **names: object) -> str:
    return Prose(names).text(template).replace(NBSP, " ")


def shown(say: Prose, *arguments: object, **options: object) -> list[str]:
    InteractiveShell.instance()
    with capture_output() as captured:
        say(*arguments, **options)
    return [output.data["text/markdown"] for output in captured.outputs]


def test_a_paragraph_is_one_line_and_a_list_has_no_gaps():
    template = """
        Two
        lines.

        {% for name in names %}
        - {{ name | code }}
          and more{% if name == "b" %}: last{% endif %}

        {% endfor %}

        {% if names | length > 9 %}
        Not said.
        {% endif %}
        The
        {% if false %}gone{% endif %}
        end.
    """
    assert plain(template, names=["a", "b"]) == "Two lines.\n\n- `a` and more.\n- `b` and more: last.\n\nThe end."


def test_a_block_is_a_list_in_a_sentence():
    template = """
        It is
        {% filter listing %}
        {% for n in some %}
        {{ n | numeral }}
        {% endfor %}
        {% endfilter %}.
    """
    assert plain(template, some=[1, 2, 3]) == "It is one, two and three."


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{{ row | ratio }}", "2.5 times the time (95 % interval 2.4 to 2.6 times)"),
        ("{{ row | bare_ratio }} {{ row | key }}", "2.5 `a*b`"),
        (
            "{{ row | verdict('`a`', '`b`') }}",
            "`a` is **slower** than `b`: it takes 2.5 times the time (95 % interval 2.4 to 2.6 times).",
        ),
        ("{{ 0.0123 | percent }}, {{ 0.5 | exact_percent }}", "1.2 %, 50 %"),
        ("{{ ['a', 'b'] | codes('or') }}", "`a` or `b`"),
        ("{{ 1 | counted('case') }} {{ 1 | verb('is', 'are') }}, {{ 0 | numeral('none') }}", "1 case is, none"),
        ("{{ 1.07 | longer }} x, {{ 2.1 | longer }} y", "7.0 % more time than x, 2.10 times as long as y"),
        ("{{ frame | by_verdict('x') }}", "**Slower** than x: `a*b`."),
    ],
)
def test_filters_are_the_words_of_the_house(template, said):
    assert plain(template, row=ROW, frame=FRAME) == said


@pytest.mark.parametrize("template", ["{{ lost }}", "{% if lost %}x{% endif %}", "{{ lost | code }}", "{{ row.lost }}"])
def test_an_unknown_name_fails_and_the_template_is_shown(template):
    with pytest.raises(ProseError, match=r"lost.* in the template:\n.*lost"):
        plain(template, row=ROW)


@pytest.mark.parametrize("template", ["{{ none }}", "{{ row.ratio }}", "{{ true }}", "{{ row }}"])
def test_what_is_no_text_is_not_printed(template):
    with pytest.raises(ProseError, match="choose a filter, in the template"):
        plain(template, row=ROW)


def test_a_template_that_is_none_is_refused():
    with pytest.raises(ProseError, match=r"in the template:\n.*endfor"):
        plain("{% for x in y %}{% endif %}{% endfor %}")


def test_nothing_is_said_of_nothing_and_what_is_no_evidence_is_marked():
    say = Prose({"word": "Yes."})
    doubtful = FRAME.with_columns(verdict=pl.lit(None, pl.String))
    assert shown(say, "{{ word }}") == ["Yes."]
    assert shown(say, "{{ word }}", about=FRAME) == ["Yes."]
    assert shown(say, "{{ word }}", about=doubtful) == ["*In this run:* Yes."]
    assert shown(say, "{{ lost }}", about=FRAME.clear()) == []
    assert shown(say, "{% if false %}x{% endif %}") == []


def test_names_are_looked_up_when_a_template_is_said():
    names = {"n": 1}
    say = Prose(names)
    names["n"] = 2
    assert say.text("{{ n }} {{ m }}", m=3) == "2 3"
