"""What every page holds: its template, style, icon and scripts, in the file itself."""

import base64
import hashlib
import os
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from urllib.parse import quote

import jinja2
import vl_convert
from markupsafe import Markup
from pygments.formatters import HtmlFormatter

from async_cost.files import write_whole
from async_cost.report import charts, markup, provenance

TEMPLATE = Path(__file__).parent / "template" / "async-cost"
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#0072b2"/>'
    '<path d="M3 5h10M3 11h6" stroke="#fff" stroke-width="2.4"/></svg>'
)


def write_page(path: Path, name: str, scripts: Sequence[str] = (), **values: object) -> Path:
    """Write one page by the template `name`, with everything that it shows and runs; returns its path."""
    template = _environment().get_template(name)
    icon, run = Markup(f"data:image/svg+xml,{quote(ICON)}"), [Markup(script) for script in scripts]
    site = os.environ.get("ASYNC_COST_SITE", "").rstrip("/")
    html = template.render(**values, css=_css(), icon=icon, scripts=run, policy=_policy(scripts), site=site)
    write_whole(path, html)
    return path


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        finalize=provenance.shown,
    )
    environment.filters |= {"moment": provenance.moment, "inline": markup.inline}
    return environment


def _policy(scripts: Sequence[str]) -> str:
    """Nothing is fetched, and no script runs but these: not even one that a run's words smuggled in."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes) or "'none'"
    return f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:"


@cache
def _css() -> Markup:
    # Of the styles at hand, the one all of whose colours stand out from the page's tint as WCAG asks, 4.5 to 1.
    light = HtmlFormatter(style="xcode").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    recoloured = charts.dark_css("figure.chart")
    return Markup(
        f"{light}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n{recoloured}\n}}\n{script('page.css')}"
    )


@cache
def chart_library() -> str:
    library = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", charts.VEGALITE_VERSION)
    return library.replace("</script", "<\\/script")


@cache
def script(name: str) -> str:
    return (TEMPLATE / name).read_text(encoding="utf-8")
