"""What a notebook holds, as HTML that is safe to open: no scripts, nothing fetched, no styles of its own.

A run may come from a stranger, and its words (a machine's name, an error message) reach the page through the
outputs of the notebook. Tags and attributes are therefore let through by a list, and in the outputs' Markdown
tags mean nothing at all. The page's content security policy is the second lock on the same door.
"""

import base64
import json
import re
from collections.abc import Mapping
from html import escape, unescape
from itertools import count
from typing import Any

import nh3
from markupsafe import Markup
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from async_cost.report import charts

TAGS = (
    "a abbr b blockquote br caption code col colgroup dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img kbd li "
    "mark ol p pre s small span strong sub summary sup table tbody td tfoot th thead tr ul"
)
# Colours and fonts of a table's own style would not follow the reader's theme.
STYLES = {"text-align", "font-weight", "font-style", "white-space"}
ATTRIBUTES = {"class", "id", "style", "title", "scope", "colspan", "rowspan", "open", "aria-label", "alt", "data-value"}
#: Tags that go with all that is in them.
UNSEEN = {"style", "script", "template"}
#: A notebook's link to its neighbours in the repository; a page turns it into a link to their pages.
NOTEBOOK = re.compile(r"(?:\.\./(?P<room>[\w-]+)/)?(?P<name>[\w-]+)\.ipynb(?P<place>#[\w-]+)?")
# To anything else in the repository, which a page does not have, it is plain text.
LINKS = ("#", "http://", "https://", "mailto:")
#: Characters of a picture from which on it is shown to phones as it is, only smaller, in place of a second one for
#: them.
LARGE = 20_000
TABLE = re.compile(r"(<table\b.*?</table>)", re.DOTALL)


#: Rows from which on a table is folded.
LONG = 20


class MissingDescription(ValueError):
    """A picture without words for those who cannot see it."""


def safe_markdown(source: str) -> str:
    """Markdown that the notebook's author wrote; harmless HTML in it is kept."""
    return _cleaned(_rendered(source, escape_html=False))


def safe_output_markdown(source: str) -> str:
    """Markdown that a cell computed, from a run's words among others; HTML in it is shown as text."""
    return _cleaned(_rendered(source, escape_html=True))


def inline(source: str) -> Markup:
    """One line of Markdown that was computed, without a paragraph around it."""
    return Markup(re.sub(r"^\s*<p>(.*)</p>\s*$", r"\1", safe_output_markdown(source), flags=re.DOTALL))


def safe_table(html: str) -> str:
    """HTML that a cell showed, such as a table of great-tables or polars, in the page's own style."""
    return _cleaned(html)


def plain(html: str) -> str:
    """The words of an HTML fragment; still escaped."""
    return " ".join(nh3.clean(re.sub(r"<a class=\"anchor-link\".*?</a>", "", html), tags=set()).split())


def words_of(html: str) -> str:
    """The words of an HTML fragment as text, no longer escaped."""
    return unescape(plain(html))


class Charts:
    """Turns chart outputs into figures; `seen` says whether the page needs the chart library, `first` shows the first
    of them without a script.

    The pictures of notebooks with other `names` may stand on one page.
    """

    def __init__(self, names: str = "") -> None:
        self.seen = False
        self.first: str | None = None
        self._names = names
        self._numbers = count()

    def chart(self, output: Mapping[str, Any]) -> str:
        """A figure holding the static pictures (the wide one of the notebook, and a narrow one for phones) and the data
        of the live chart.
        """
        spec = output["data"].get(charts.VEGALITE_MIME)
        if spec is None:
            return ""
        alt = escape(_described(spec.get("description")))
        self.seen = True
        wide, narrow = (f"{self._names}picture-{next(self._numbers)}-" for _ in range(2))
        drawn = {"wide": _named(output["data"]["image/svg+xml"], wide)}
        large = len(drawn["wide"]) > LARGE
        if not large:
            drawn["narrow"] = _named(charts.static_svg(spec, charts.NARROW), narrow)
        else:
            drawn = {"": drawn["wide"]}
        pictures = "\n".join(f'<div class="static {name}">{svg}</div>' for name, svg in drawn.items())
        self.first = self.first or f'<figure class="picture">{pictures}</figure>'
        data = json.dumps(_rounded(charts.live_spec(spec)), ensure_ascii=True, separators=(",", ":")).replace(
            "<", "\\u003c"
        )
        return (
            f'<figure class="chart">\n{pictures}\n<div class="live" role="img" aria-label="{alt}"></div>\n'
            f'<script type="application/json">{data}</script>\n</figure>'
        )

    def picture(self, output: Mapping[str, Any], mime: str) -> str:
        """An image that is no chart of ours, as a data URI: scripts in an SVG do not run there."""
        data, metadata = output["data"], output.get("metadata", {}).get(mime, {})
        alt = escape(_described(metadata.get("alt") or data.get("text/plain")))
        content = data[mime]
        if mime == "image/svg+xml":
            content = base64.b64encode(content.encode()).decode()
        return f'<figure><img src="data:{mime};base64,{"".join(content.split())}" alt="{alt}"></figure>'


def _named(svg: str, prefix: str) -> str:
    """The picture with names of its own: those of one SVG reach into the next on the same page."""
    return (
        svg.replace(' id="', f' id="{prefix}').replace("url(#", f"url(#{prefix}").replace('href="#', f'href="#{prefix}')
    )


def _rounded(value: Any) -> Any:
    """A chart whose numbers have no more digits than a tooltip shows."""
    match value:
        case float():
            return float(f"{value:.6g}")
        case dict():
            return {key: _rounded(one) for key, one in value.items()}
        case list():
            return [_rounded(one) for one in value]
        case _:
            return value


def _rendered(source: str, *, escape_html: bool) -> str:
    renderer = IPythonRenderer(escape=escape_html, allow_harmful_protocols=False)
    return MarkdownWithMath(renderer=renderer).render(source)


def _cleaned(html: str) -> str:
    html = nh3.clean(
        html,
        tags=set(TAGS.split()),
        clean_content_tags=UNSEEN,
        attributes={"*": ATTRIBUTES, "a": {"href"}, "img": {"src"}},
        attribute_filter=_allowed,
        filter_style_properties=STYLES,
        url_schemes={"http", "https", "mailto", "data"},
        link_rel=None,
    )
    # What is wider than the page scrolls in a box, which has to be in reach of the keyboard.
    if '<details class="fold"' not in html:
        html = TABLE.sub(_folded, html)
    html = TABLE.sub(r'<div class="table" role="group" aria-label="Table" tabindex="0">\1</div>', html)
    return html.replace("<pre>", '<pre tabindex="0">')


def _folded(table: re.Match[str]) -> str:
    """A table, folded if it is long."""
    rows = table[0].count("<tr") - 1
    return (
        table[0]
        if rows <= LONG
        else f'<details class="fold"><summary>Table of {rows} rows</summary>{table[0]}</details>'
    )


def _allowed(tag: str, name: str, value: str) -> str | None:
    """The value of an attribute that may stay."""
    if (tag, name) == ("a", "href") and NOTEBOOK.fullmatch(value):
        return value
    places = {("a", "href"): LINKS, ("img", "src"): ("data:image/",)}
    return value if value.startswith(places.get((tag, name), ("",))) else None


def _described(text: str | None) -> str:
    if not text or text.startswith("<"):
        raise MissingDescription("a chart has no description; pass description= with what the chart shows")
    return text
