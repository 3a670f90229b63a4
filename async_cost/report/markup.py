"""What a notebook holds, as HTML that is safe to open: no scripts, nothing fetched, no styles of its own.

A run may come from a stranger, and its words (a machine's name, an error message) reach the page through the
outputs of the notebook. Tags and attributes are therefore let through by a list, and in the outputs' Markdown
tags mean nothing at all. The page's content security policy is the second lock on the same door.
"""

import json
import re
from collections.abc import Iterator, Mapping
from html import escape, unescape
from typing import Any

import nh3
from markupsafe import Markup
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from async_cost.report import PublishError, charts

TAGS = (
    "a abbr b blockquote br caption code col colgroup dd del details div dl dt em h1 h2 h3 h4 h5 h6 hr i img kbd li "
    "mark ol p pre s small span strong sub summary sup table tbody td tfoot th thead tr ul"
)
# Colours and fonts of a table's own style would not follow the reader's theme.
STYLES = {"text-align", "font-weight", "font-style", "white-space"}
ATTRIBUTES = {"class", "id", "style", "title", "scope", "colspan", "rowspan", "open", "aria-label", "alt"}
#: A notebook's link to its neighbours in the repository; a page turns it into a link to their pages.
NOTEBOOK = re.compile(r"(?:\.\./(?P<folder>[\w-]+)/)?(?P<name>[\w-]+)\.ipynb(?P<place>#[\w-]+)?")
TABLE = re.compile(r"(<table\b.*?</table>)", re.DOTALL)


def safe_markdown(source: str) -> str:
    """Return Markdown of the notebook's author as HTML; harmless HTML in it is kept."""
    return _cleaned(_rendered(source, escape_html=False))


def safe_output(data: Mapping[str, str]) -> str:
    """Return what a cell showed: its HTML in the page's own style, else its Markdown, with HTML in it as text."""
    if "text/html" in data:
        return _cleaned(data["text/html"])
    return _cleaned(_rendered(data["text/markdown"], escape_html=True))


def inline(source: str) -> Markup:
    """Return one line of Markdown that was computed, without a paragraph around it."""
    html = safe_output({"text/markdown": source})
    return Markup(html.strip().removeprefix("<p>").removesuffix("</p>"))


def plain(html: str) -> str:
    """Return the words of an HTML fragment; still escaped."""
    return " ".join(nh3.clean(re.sub(r"<a class=\"anchor-link\".*?</a>", "", html), tags=set()).split())


def words_of(html: str) -> str:
    """Return the words of an HTML fragment as text, no longer escaped."""
    return unescape(plain(html))


def chart(page: str, numbers: Iterator[int], output: Mapping[str, Any]) -> str:
    """Return a figure with the static pictures of a chart, a wide and a narrow one for phones, and the data of the live
    one; `numbers` are for names that no other picture of the page has.
    """
    spec = output["data"][charts.VEGALITE_MIME]
    if not spec.get("description"):
        raise PublishError(f"{page}: a chart has no description; pass description= with what it shows")
    drawn = {"wide": output["data"]["image/svg+xml"], "narrow": charts.static_svg(spec, charts.NARROW)}
    pictures = "\n".join(
        f'<div class="static {name}">{_named(svg, f"{page}-picture-{next(numbers)}-")}</div>'
        for name, svg in drawn.items()
    )
    data = json.dumps(charts.sized(spec, "container"), separators=(",", ":")).replace("<", "\\u003c")
    return (
        f'<figure class="chart">\n{pictures}\n'
        f'<div class="live" role="img" aria-label="{escape(spec["description"])}"></div>\n'
        f'<script type="application/json">{data}</script>\n</figure>'
    )


def _named(svg: str, prefix: str) -> str:
    """The picture with names of its own: those of one SVG reach into the next on the same page."""
    return (
        svg.replace(' id="', f' id="{prefix}').replace("url(#", f"url(#{prefix}").replace('href="#', f'href="#{prefix}')
    )


def _rendered(source: str, *, escape_html: bool) -> str:
    renderer = IPythonRenderer(escape=escape_html, allow_harmful_protocols=False)
    return MarkdownWithMath(renderer=renderer).render(source)


def _cleaned(html: str) -> str:
    html = nh3.clean(
        html,
        tags=set(TAGS.split()),
        clean_content_tags={"style", "script", "template"},
        attributes={"*": ATTRIBUTES, "a": {"href"}, "img": {"src"}},
        attribute_filter=_allowed,
        filter_style_properties=STYLES,
        url_schemes={"http", "https", "mailto", "data"},
        link_rel=None,
    )
    # What is wider than the page scrolls in a box, which has to be in reach of the keyboard.
    html = TABLE.sub(r'<div class="table" role="group" aria-label="Table" tabindex="0">\1</div>', html)
    return html.replace("<pre>", '<pre tabindex="0">')


def _allowed(tag: str, name: str, value: str) -> str | None:
    """The value of an attribute that may stay: a link to a file that a page does not have is plain text."""
    if (tag, name) == ("img", "src"):
        return value if value.startswith("data:image/") else None
    if (tag, name) == ("a", "href") and not NOTEBOOK.fullmatch(value):
        return value if value.startswith(("#", "http://", "https://", "mailto:")) else None
    return value
