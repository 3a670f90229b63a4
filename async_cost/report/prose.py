"""Computed prose: a paragraph is a template in which one can read the sentence, filled in with what a notebook has
computed.

`say = Prose(globals())` once at the top of a notebook; then

    say("{{ differing | numeral }} of {{ controls.height | counted('control') }} differ from their twins.")

The templates are those of Jinja2, with the words of `async_cost.words` as filters; `verdict` and the other filters of
rows take a row of comparisons. Lines of a template are joined as in Markdown: a paragraph ends at an empty line, and `-
` begins an entry of a list, which is made a sentence. A line that holds nothing but tags, or whose tags come to
nothing, leaves no trace. `{% filter listing %}` makes "a, b and c" of the lines within.

A template fails, and the error shows it, when it names what is not there, or would print None or a number that has not
gone through a filter: only a filter knows how many digits are known. Nothing is escaped on the way: text that comes
from a file goes through `code` or `escape`, as everywhere, and is never a template itself; tags in the outputs of a
page mean nothing (`markup.safe_output_markdown`). The number of a row of the table of comparisons becomes a link to
what a page tells of that comparison (`report/asked.py`).
"""

import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from functools import cache
from textwrap import dedent

import jinja2
import polars as pl
from IPython.display import Markdown, display

from async_cost import words
from async_cost.runs.comparisons import address
from async_cost.statistics.judge import Trust
from async_cost.statistics.measured import Measured

#: Stands for an empty line of a template while it is filled in.
GAP = "\0"
#: What a paragraph is about: nothing is said of what was not measured, and what is no evidence is marked.
About = Measured | Trust | pl.DataFrame


class ProseError(ValueError):
    """A template that cannot be filled in; the message shows it."""


class Prose:
    """Says templates with the variables of a notebook, looked up when they are said."""

    def __init__(self, names: Mapping[str, object]) -> None:
        self.names = names

    def __call__(
        self,
        template: str,
        *,
        about: About | None = None,
        metadata: MutableMapping[str, object] | None = None,
        **more: object,
    ) -> None:
        """Show a paragraph; nothing where it is about nothing, or has no words. `more` are further variables."""
        evidence = _evidence(about)
        text = "" if evidence is None else self.text(template, **more)
        if text:
            display(Markdown(text if evidence else words.in_this_run(text)), metadata=metadata)

    def text(self, template: str, **more: object) -> str:
        """The filled in template, as Markdown."""
        try:
            # An empty line of the template ends a paragraph, one that its tags leave behind does not.
            source = re.sub(r"\n[ \t]*(?=\n)", f"\n{GAP}", dedent(template).strip())
            filled = _environment().from_string(source).render({**self.names, **more})
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise ProseError(f"{error}, in the template:\n{dedent(template).strip()}") from error
        return _joined(filled)


def _evidence(about: About | None) -> bool | None:
    """Whether what a paragraph is about is evidence; None where there is nothing to speak about."""
    match about:
        case None:
            return True
        case pl.DataFrame():
            return None if about.is_empty() else "verdict" not in about.columns or about["verdict"].null_count() == 0
        case Measured():
            return about.trust.trusted if about else None
        case Trust():
            return about.trusted


def _joined(text: str) -> str:
    """One line for each paragraph and each entry of a list, which is a sentence; an empty one between them, none
    between entries.
    """
    joined, gap = [""], True
    for line in filter(None, (line.strip(" \t") for line in text.split("\n"))):
        entry = line.startswith("- ")
        if line != GAP and not gap and not entry:
            joined[-1] += f" {line}"
        elif line != GAP:
            joined += [line] if entry and joined[-1].startswith("- ") else ["", line]
        gap = line == GAP
    lines = (f"- {words.sentence(line[2:])}" if line.startswith("- ") else line for line in joined)
    return re.sub(" {2,}", " ", "\n".join(lines).strip("\n"))


def _printed(value: object) -> object:
    """What a template may print as it is: a number that is no count has to go through a filter. A text is a paragraph,
    perhaps with a list.
    """
    if isinstance(value, str | jinja2.Undefined) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise TypeError(f"{value!r} is no text: choose a filter")


def _of_row(show: Callable[[float, float, float], str]) -> Callable[..., str]:
    """The filter for a row with ratio, low and high, or with a value of another name."""

    def filtered(row: Mapping[str, float], value: str = "ratio", low: str = "low", high: str = "high") -> str:
        return _asked(row)(show(row[value], row[low], row[high]))

    return filtered


def _asked(row: Mapping[str, object] | None) -> Callable[[str], str]:
    """What makes of a number of `row` a link to where it comes from."""
    where = row and address(row)
    return lambda text: words.asked(text, where)


def _listing(items: Iterable[str] | str, last: str = "and") -> str:
    """`words.listing`, of a block of a template its lines."""
    lines = items.splitlines() if isinstance(items, str) else items
    return words.listing([line.strip() for line in lines if line.strip(f"{GAP} ")], last)


def _verdict(row: dict | None, name: str, other: str) -> str:
    """`a is **slower** than b: ...`, from a row of comparisons and two names as they are shown."""
    return words.comparison(name, other, row, _asked(row))


def _cost(row: dict | None, name: str, other: str) -> str:
    """The verdict on two variants by their names, and what the first adds to each request."""
    verdict = _verdict(row, words.code(name), words.code(other))
    return f"{verdict} It {_added(row)}." if row else verdict


def _added(row: dict | None, to: str = "each request") -> str:
    """`adds 258 ns (...) to each request`, from a row with added_ns and its ends."""
    return words.added(row, row and row.get("verdict"), to, _asked(row))


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(autoescape=False, undefined=jinja2.StrictUndefined, finalize=_printed)
    environment.filters |= {
        # of one value
        "code": words.code,
        "counted": words.counted,
        "duration": words.duration,
        "escape": words.escape,
        "exact_percent": words.exact_percent,
        "number": words.number,
        "numeral": words.numeral,
        "longer": words.longer,
        "percent": lambda share, half=None: words.rough_percent(share) if half is None else words.percent(share, half),
        "rough_ratio": words.rough_ratio,
        "verb": words.verb,
        "whole": words.whole,
        "sentence": words.sentence,
        "time": words.time,
        # of several
        "codes": lambda names, last="and": words.listing(map(words.code, names), last),
        "listing": _listing,
        "rows": lambda frame: frame.to_dicts(),
        # of rows
        "added": _added,
        "cost": _cost,
        "bare_ratio": _of_row(words.bare_ratio),
        "interval": lambda row: words.interval(row["low"], row["high"], around=row["ratio"]),
        "key": words.key,
        "price": lambda row: _of_row(words.time_with_interval)(row, "added_ns", "added_low", "added_high"),
        "ratio": _of_row(words.ratio_with_interval),
        "short_ratio": _of_row(words.ratio),
        "timed": _of_row(words.time_with_interval),
        "verdict": _verdict,
        # of frames
        "evident": words.evident,
        "by_verdict": words.by_verdict,
    }
    return environment
