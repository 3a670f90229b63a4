"""The look of every chart, and the few chart shapes that the studies share.

`enable()` is called once at the top of an analysis notebook. From then on a chart is stored as Vega-Lite (drawn by
JupyterLab and by the published page) and as SVG (for readers without scripts), both with the chart's description as the
text that a screen reader speaks. The caller says what is drawn; the builder adds what there is to see (which rows are
slower, or the range of the values), unless the caller has a `finding` of its own.

Builders take a polars frame with the columns they name, keep its row order, and return an Altair chart that
is as wide as its container, or None if the frame has no rows. Ratios are plain numbers: 1 is as fast as the baseline.
"""

import json
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import cache, wraps
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import altair as alt
import polars as pl
import vl_convert

from async_cost import words

INK, MUTED, GRID, PAPER = "#1f2328", "#59636e", "#d8dde3", "#ffffff"

# Okabe and Ito (2008), "Color Universal Design": colours that all common kinds of colour vision can tell apart.
# Those with the best contrast on white come first; their yellow is left out, it cannot be read on white.
BLUE, VERMILLION, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, ORANGE, SKY = "#cc79a7", "#e69f00", "#56b4e9"
PALETTE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)

# What each colour becomes on the dark page. The page's style sheet selects on the colour that the SVG
# carries, so a chart is drawn once and still follows the reader's theme.
DARK = {
    INK: "#e6e9ec",
    MUTED: "#a3adb8",
    GRID: "#363d45",
    PAPER: "#14181c",
    BLUE: "#4aa8e0",
    VERMILLION: "#f2813a",
    GREEN: "#2fc49a",
    PURPLE: "#de9cc0",
    ORANGE: "#f0b73a",
    SKY: "#8fd0f5",
}

#: The word for a row without a verdict among rows that have one.
NO_EVIDENCE = "no evidence"
VERDICT_COLOURS = {"slower": VERMILLION, "faster": BLUE, "same": GREEN, "undecided": MUTED, NO_EVIDENCE: PURPLE}

# JupyterLab 4.6 draws Vega-Lite 5; Altair 6 writes Vega-Lite 6. The charts below mean the same in both, so they
# are stored under the older name, and without the `$schema` line that would make either renderer complain.
VEGALITE_MIME = "application/vnd.vegalite.v5+json"
VEGALITE_VERSION = alt.SCHEMA_VERSION.removeprefix("v").rsplit(".", 1)[0]  # 6.4: what Altair writes
WIDE, NARROW = 680, 330  # pixels: the text column on a desktop, a 375 px phone less its margins
#: In JupyterLab a chart has a width of its own: one that follows its container makes the browser hang there (4.6.6).
FIT = {"type": "fit-x", "contains": "padding"}
# Fonts with the same letter widths: the static pictures are laid out here, with Liberation Sans, and shown
# with whichever of these the reader has.
FONT = "Arial, Helvetica, 'Liberation Sans', sans-serif"
#: Names the file that says where a machine's fonts are.
FONT_CONFIGURATION = "FONTCONFIG_FILE"
NUMBERS: Any = {"decimal": ".", "thousands": "\u202f", "grouping": [3], "currency": ["", ""]}
# What the renderer says about single marks. The whole chart is one picture with a description; a screen reader should
# not stop at its marks, which have none. What is so anyway only makes the page larger.
OF_MARKS = re.compile(r' (?:role="graphics-[a-z]+"|aria-[a-z]+="[^"]*"|pointer-events="none"|opacity="1")')
#: A mark that is a circle, as the renderer draws it: half of a page with many of them.
CIRCLE = re.compile(r'd="M([\d.]+),0A\1,\1,0,1,1,-\1,0A\1,\1,0,1,1,\1,0"')
PATH = re.compile(r"<path( [^>]*?)(/>|></path>)")
#: Where something lies, and a number in it with more digits than a screen has pixels for.
PLACE = re.compile(r' (?:transform|d|r|x2|y2|width|height)="[^"]*"')
LONG = re.compile(r"(\d+\.\d)\d+")
_INTERVAL = ("ratio", "low", "high")
#: Strokes on one line that can be told apart, more or less. (A chart of more than 5,000 marks is not drawn at all.)
MOST_STROKES = 200
TITLE_CHARACTERS = 40  # an axis title of 13 px breaks here, so that it still fits on a phone


# -- theme and renderer ----------------------------------------------------------------------------


def enable() -> None:
    """Use the project's theme and renderer in this kernel."""
    alt.theme.register("async-cost", enable=True)(_theme)
    alt.renderers.register("async-cost", mime_bundle)
    alt.renderers.enable("async-cost")


def _theme() -> alt.theme.ThemeConfig:
    axis: Any = {
        "labelFontSize": 13,
        "titleFontSize": 13,
        "titleFontWeight": "normal",
        "labelColor": INK,
        "titleColor": MUTED,
        "domainColor": MUTED,
        "tickColor": MUTED,
        "gridColor": GRID,
        "labelLimit": 0,
        "titlePadding": 10,
    }
    return {
        "config": {
            "background": PAPER,
            "font": FONT,
            "view": {"stroke": None, "continuousHeight": 260},
            "axis": axis,
            "axisQuantitative": {"tickCount": 5, "labelOverlap": True},
            "legend": {
                "orient": "top",
                "direction": "horizontal",
                "title": None,
                "labelFontSize": 13,
                "labelColor": INK,
                "labelLimit": 260,
                "symbolSize": 90,
                "layout": {"top": {"direction": "vertical", "anchor": "start", "margin": 4}},
            },
            "title": {"fontSize": 15, "color": INK, "anchor": "start", "fontWeight": 600},
            "text": {"fontSize": 13, "color": INK},
            "rule": {"color": MUTED},
            "range": {"category": list(PALETTE)},
            "mark": {"color": BLUE},
            "line": {"strokeWidth": 2},
            "locale": {"number": NUMBERS},
        }
    }


def mime_bundle(spec: dict[str, Any], **_options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two forms of a chart that a notebook stores, and the alt text in the metadata of the picture.

    The description is also the plain-text form, which terminals and diff tools show.
    """
    alt_text = spec.get("description") or "Chart without a description"
    spec = {key: value for key, value in spec.items() if key != "$schema"}
    if spec.get("width") == "container":
        spec |= {"width": WIDE, "autosize": FIT}
    bundle = {VEGALITE_MIME: spec, "image/svg+xml": static_svg(spec, WIDE), "text/plain": alt_text}
    return bundle, {"image/svg+xml": {"alt": alt_text}, VEGALITE_MIME: {"embed_options": {"renderer": "svg"}}}


def live_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """The chart for a page, where it is as wide as its container."""
    if spec.get("autosize") != FIT:
        return spec
    return {name: value for name, value in spec.items() if name != "autosize"} | {"width": "container"}


def to_svg(spec: dict[str, Any]) -> str:
    """The chart as an SVG, the same on every machine; needs no network."""
    _read_fonts()
    return vl_convert.vegalite_to_svg(json.dumps(spec), vl_version=VEGALITE_VERSION, allowed_base_urls=[])


@cache
def _read_fonts() -> None:
    """Have the renderer read its fonts, which it does once, without those of this machine: a Liberation Sans of another
    version has other widths.
    """
    before = os.environ.get(FONT_CONFIGURATION)
    with TemporaryDirectory() as folder:
        configuration = Path(folder) / "fonts.conf"
        configuration.write_text(f"<fontconfig><dir>{folder}</dir></fontconfig>", encoding="utf-8")
        os.environ[FONT_CONFIGURATION] = str(configuration)
        try:
            vl_convert.vegalite_to_svg({"mark": "point", "title": "text", "data": {"values": []}})
        finally:
            os.environ.pop(FONT_CONFIGURATION)
            if before is not None:
                os.environ[FONT_CONFIGURATION] = before


def static_svg(spec: dict[str, Any], width: int) -> str:
    """The chart as an SVG that is `width` pixels wide and shrinks with its container; needs no network."""
    fits = spec.get("width") == "container" or spec.get("autosize") == FIT
    sized = spec | {"width": width, "autosize": FIT} if fits else spec
    svg = to_svg(sized)
    alt_text = escape(spec.get("description", ""))
    head, rest = svg.split(">", 1)
    rest = PATH.sub(_circle, OF_MARKS.sub("", rest))
    rest = PLACE.sub(lambda place: LONG.sub(r"\1", place[0]), rest)
    return f'{head} role="img" aria-label="{alt_text}" style="max-width:100%;height:auto">{rest}'


def dark(svg: str) -> str:
    """The picture in the colours of a dark page."""
    for light, colour in DARK.items():
        svg = svg.replace(f'="{light}"', f'="{colour}"')
    return svg


def _circle(path: re.Match[str]) -> str:
    """A path as a circle, if it is one."""
    drawn, circles = CIRCLE.subn(r'r="\1"', path[1])
    return f"<circle{drawn}/>" if circles else path[0]


def dark_css(scope: str) -> str:
    """Style rules that recolour the charts below `scope` (a CSS selector) for a dark page."""
    return "\n".join(
        f'{scope} [{attribute}="{light}"] {{ {attribute}: {dark}; }}'
        for light, dark in DARK.items()
        for attribute in ("fill", "stroke")
    )


# -- chart shapes ----------------------------------------------------------------------------------


def _builder(finding: Callable[..., str]) -> Callable:
    """A builder of charts: it draws nothing for a frame without rows, and its description ends with what `finding` says
    about the frame.
    """
    of_frame = finding

    def decorate(build: Callable[..., alt.LayerChart]) -> Callable[..., alt.LayerChart | None]:
        @wraps(build)
        def built(
            frame: pl.DataFrame, *, description: str, finding: str | None = None, **options: Any
        ) -> alt.LayerChart | None:
            if frame.is_empty():
                return None
            chart = build(frame, **options)
            seen = of_frame(frame, **options) if finding is None else finding
            return chart.properties(description=f"{description} {seen}".strip())

        return built

    return decorate


def _by_verdict(frame: pl.DataFrame, *, baseline: str = "manual", label: str | None = None, **_options: Any) -> str:
    """Which rows are slower, faster and the same; without verdicts, the range of the ratios."""
    if _has_values(frame, "verdict"):
        return words.plain(words.by_verdict(frame, baseline, label, show=_one_line))
    return _reach(frame, "ratio", [label or words.label_of(frame)])


def _reach(frame: pl.DataFrame, value: str, names: Sequence[str]) -> str:
    """`From 1.02 (a) to 3.1 (b).`"""
    known = frame.drop_nulls(value).sort(value)
    if known.is_empty():
        return ""

    def end(place: int) -> str:
        row = known.row(place, named=True)
        which = ", ".join(_one_line(row[name]) for name in names if name in row)
        return words.number(row[value]) + (f" ({which})" if which else "")

    return f"From {end(0)} to {end(-1)}." if known.height > 1 else f"It is {end(0)}."


def _one_line(text: object) -> str:
    return str(text).replace("\n", " ")


@_builder(_by_verdict)
def _intervals(
    frame: pl.DataFrame,
    *,
    baseline: str = "manual",
    label: str | None = None,
    title: str,
    log: bool = False,
) -> alt.LayerChart:
    """One row for each label: the ratio as a stroke on its interval and as a number, against a rule at 1.

    Columns: `label` (if not given, that of `words.label_of`), ratio, low, high; optional `published` (ratio, null where
    there is none: a hollow diamond below ours) and `verdict` (slower, faster, same, undecided: the colour; null among
    others is "no evidence"). `title` replaces the axis title. A line break in a label begins its next line. The numbers
    have the digits that the interval supports.
    """
    label = label or words.label_of(frame)
    _require(frame, [label, "ratio", "low", "high"])
    shown = [words.bare_ratio(*row) for row in frame.select("ratio", "low", "high").iter_rows()]
    frame = _drawn(frame.with_columns(pl.Series("shown", shown)), [label, *_INTERVAL, "verdict", "published", "shown"])
    if _has_values(frame, "verdict"):
        frame = frame.with_columns(pl.col("verdict").cast(pl.String).fill_null(NO_EVIDENCE))
    published = _has_values(frame, "published")
    scale = alt.Scale(type="log" if log else "linear", domain=_ratio_domain(frame, log), nice=False)
    colour = _verdict_colour(frame)
    ours, theirs = "measured, 95 % interval", "published"
    shapes = alt.Scale(domain=[ours, theirs], range=["M0,-1V1", "diamond"])
    legend = alt.Legend(symbolStrokeColor=INK, symbolStrokeWidth=2, columns=1) if published else None
    shape = alt.Shape("whose:N", scale=shapes, legend=legend)

    line_count = frame[label].str.count_matches("\n", literal=True).max() + 1
    lines = {"labelExpr": r"split(datum.label, '\n')"} if line_count > 1 else {}
    names = alt.Axis(domain=False, ticks=False, grid=False, **lines)
    base = alt.Chart(frame).encode(
        y=alt.Y(f"{label}:N", sort=None, title=None, axis=names),
        tooltip=_ratio_tooltip(frame, label),
    )
    grid = alt.Axis(grid=False) if log else _axis_at(_ratio_ticks(frame), grid=True)
    along_x = {"title": wrapped(title), "scale": scale, "axis": grid}
    interval = base.mark_rule(strokeWidth=9, opacity=0.4)
    interval = interval.encode(x=alt.X("low:Q", **along_x), x2="high:Q", color=colour)
    estimate = base.transform_calculate(whose=f"'{ours}'").mark_point(size=260, strokeWidth=2.5, opacity=1)
    estimate = estimate.encode(x=alt.X("ratio:Q", **along_x), color=colour, shape=shape)
    # In a column of their own the numbers never meet the rule, wherever the ratios lie.
    number = base.mark_text(align="right", dy=-1).encode(x=alt.value("width"), text=alt.Text("shown:N"))
    layers = [
        alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=[5, 3]).encode(x=alt.XDatum(1, **along_x)),
        interval,
        estimate,
        number,
    ]
    if published:
        diamond = base.transform_filter("isValid(datum.published)").transform_calculate(whose=f"'{theirs}'")
        diamond = diamond.mark_point(size=70, strokeWidth=1.6, fill=PAPER, stroke=INK, opacity=1, yOffset=12)
        layers.append(diamond.encode(x=alt.X("published:Q", **along_x), shape=shape))
    height = max(46 if published else 0, 20 + 12 * line_count) * frame[label].n_unique()
    return alt.layer(*layers).properties(width="container", height=height)


@_builder(lambda frame, label="label", unit="unit", **_: _reach(frame, "ratio", [label, unit]))
def _by_series(
    frame: pl.DataFrame,
    *,
    label: str = "label",
    unit: str = "unit",
    title: str = "time of the first / time of the second, same round (1 = equal, log scale)",
) -> alt.LayerChart:
    """One row for each finding, with one stroke for each unit (a machine or a run): where do they agree?

    Columns: `label`, `unit`, ratio, low, high. A few units have a colour and an interval each, one below the other;
    many are strokes on one line, which shows where they cluster; of more than `MOST_STROKES`, evenly spaced ones are
    drawn.
    """
    _require(frame, [label, unit, "ratio", "low", "high"])
    units = frame[unit].unique(maintain_order=True).to_list()
    few = len(units) <= len(PALETTE)
    title += f"; of {len(units):,}, {MOST_STROKES} are drawn" if len(units) > MOST_STROKES else ""
    along_x = {
        "title": wrapped(title),
        "scale": alt.Scale(type="log", domain=_ratio_domain(frame, True, room=0.04), nice=False),
        "axis": alt.Axis(grid=False),
    }
    names = alt.Axis(domain=False, ticks=False, grid=False, labelExpr=r"split(datum.label, '\n')")
    frame = _drawn(_thinned(frame, label), [label, unit, *_INTERVAL]).with_columns(
        pl.col(label).map_elements(lambda text: "\n".join(textwrap.wrap(text, 20, break_long_words=False)), pl.String)
    )
    base = alt.Chart(frame).encode(
        y=alt.Y(f"{label}:N", sort=None, title=None, axis=names),
        tooltip=[
            alt.Tooltip(f"{unit}:N", title=unit),
            *(alt.Tooltip(f"{c}:Q", format=".3f") for c in ("ratio", "low", "high")),
        ],
    )
    rule = alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=[5, 3]).encode(x=alt.XDatum(1, **along_x))
    if few:
        base = base.encode(yOffset=alt.YOffset(f"{unit}:N", sort=None))
    colour = (
        alt.Color(f"{unit}:N", sort=None, scale=alt.Scale(domain=units, range=list(PALETTE)[: len(units)]))
        if few
        else alt.value(BLUE)
    )
    interval = base.mark_rule(strokeWidth=7, opacity=0.45)
    interval = interval.encode(x=alt.X("low:Q", **along_x), x2="high:Q", color=colour)
    middle = base.mark_tick(thickness=2.5, size=13, opacity=1) if few else base.mark_tick(size=20, opacity=0.35)
    middle = middle.encode(x=alt.X("ratio:Q", **along_x), color=colour)
    layers = [rule, interval, middle] if few else [rule, middle]
    height = frame[label].n_unique() * (24 + (14 * len(units) if few else 20))
    return alt.layer(*layers).properties(width="container", height=height)


def _thinned(frame: pl.DataFrame, label: str) -> pl.DataFrame:
    """At most `MOST_STROKES` rows for each label, evenly spaced by rank of the ratio, with the smallest and largest."""
    rank, last = (pl.col("ratio").rank("ordinal") - 1).over(label).cast(pl.Int64), pl.len().over(label) - 1
    # A row is kept where the place among the strokes moves on.
    place, before = (((MOST_STROKES - 1) * at).floordiv(last) for at in (rank, rank - 1))
    return frame.filter((last < MOST_STROKES) | (rank == 0) | (place != before))


@_builder(lambda frame, label="variant", **_: _reach(frame, "end", [label]))
def _steps_down(
    frame: pl.DataFrame,
    *,
    title: str,
    label: str = "variant",
) -> alt.LayerChart:
    """How a total grows step by step: a bar from the total before to the total after, with the step as a number.

    Columns: `label`, start, end. The first bar usually begins at 0 and shows the total before any step.
    """
    _require(frame, [label, "start", "end"])
    steps = frame.with_columns(
        step=pl.col("end") - pl.col("start"),
        far=pl.max_horizontal("start", "end"),
        way=pl.when(pl.col("start") == 0)
        .then(pl.lit("total"))
        .when(pl.col("end") < pl.col("start"))
        .then(pl.lit("less"))
        .otherwise(pl.lit("more")),
    )
    largest = max(steps["far"].to_list())
    scale = alt.Scale(domain=[0, largest * 1.18 or 1], nice=False)
    colours = alt.Scale(domain=["total", "more", "less"], range=[MUTED, VERMILLION, BLUE])
    names = alt.Axis(domain=False, ticks=False)
    base = alt.Chart(steps).encode(
        y=alt.Y(f"{label}:N", sort=None, title=None, axis=names),
        tooltip=[f"{label}:N", *(alt.Tooltip(f"{c}:Q", format=",.1f") for c in ("start", "step", "end"))],
    )
    along_x = {"title": wrapped(title), "scale": scale, "axis": alt.Axis(format=",~r", tickCount=4)}
    bar = base.mark_bar(minBandSize=2).encode(
        x=alt.X("start:Q", **along_x), x2="end:Q", color=alt.Color("way:N", scale=colours, legend=None)
    )
    number = base.mark_text(align="left", dx=5).encode(
        x=alt.X("far:Q", **along_x),
        text=alt.Text("shown:N"),
    )
    number = number.transform_calculate(
        shown="(datum.way == 'total' || abs(datum.step) < 0.5 ? '' : datum.step < 0 ? '\u2212' : '+')"
        " + format(abs(datum.step), ',.0f')"
    )
    height = 30 * frame[label].n_unique()
    return alt.layer(bar, number).properties(width="container", height=height)


def intervals(
    frame: pl.DataFrame,
    *,
    description: str,
    label: str = "variant",
    series: str | None = None,
    title: str = "time / time of the baseline (1 = equal)",
    log: bool = False,
) -> alt.LayerChart | None:
    """One row for each `label`: ratio, low and high as a stroke on its interval, against a rule at 1.

    Columns: `label`, ratio, low, high. With `series`, a stroke for each of its values in a colour of its own; without,
    the colour is the `verdict`, and `published`, where a row has it, is a hollow diamond.
    """
    _require(frame, [label, *([series] if series else [])])
    if frame.select(label, *([series] if series else [])).is_duplicated().any():
        twice = frame.filter(frame.select(label).is_duplicated())[label][0]
        raise ValueError(
            f"two rows are called {twice!r}: choose a label= that tells them apart, such as variant and parameter"
        )
    if series is not None:
        return _by_series(frame, description=description, label=label, unit=series, title=title)
    names = set(frame.get_column("baseline_variant", default=pl.Series(dtype=pl.String)))
    baseline = names.pop() if len(names) == 1 else "the baseline"
    return _intervals(frame, description=description, baseline=baseline, label=label, title=title, log=log)


def staircase(
    frame: pl.DataFrame, *, description: str, label: str = "variant", value: str = "value", title: str
) -> alt.LayerChart | None:
    """Totals one below the other, each drawn as the step from the one before: columns `label` and `value`."""
    steps = frame.select(label, start=pl.col(value).shift(1, fill_value=0.0), end=value)
    return _steps_down(steps, description=description, label=label, title=title)


@_builder(lambda frame, label="label", what="what", **_: _reach(frame, "value", [label, what]))
def spread(frame: pl.DataFrame, *, title: str, label: str = "label", what: str = "what") -> alt.LayerChart:
    """One row for each `label`, with a mark for each of several values, on a log scale: runtimes, or quantiles.

    Columns: `label`, `what` (a colour each, at most six), value (above 0, in the unit of `title`). A line break in a
    label begins its next line.
    """
    _require(frame, [label, what, "value"])
    frame, kinds = _drawn(frame, [label, what, "value"]), frame[what].unique(maintain_order=True).to_list()
    names = alt.Axis(domain=False, ticks=False, grid=False, labelExpr=r"split(datum.label, '\n')")
    base = alt.Chart(frame).encode(y=alt.Y(f"{label}:N", sort=None, title=None, axis=names))
    along_x: Any = {
        "title": wrapped(title),
        "scale": alt.Scale(type="log", nice=False, padding=10),
        "axis": _log_axis(frame["value"].to_list(), grid=False),
    }
    line = base.mark_rule(strokeWidth=2, opacity=0.35)
    colours = alt.Scale(domain=kinds, range=list(PALETTE)[: len(kinds)])
    marks = base.mark_point(filled=True, size=70, opacity=1).encode(
        x=alt.X("value:Q", **along_x),
        color=alt.Color(f"{what}:N", sort=None, scale=colours, legend=alt.Legend(columns=2)),
        tooltip=[f"{label}:N", f"{what}:N", alt.Tooltip("value:Q", format=",.3~g")],
    )
    lines_each = frame[label].str.count_matches("\n", literal=True).max() + 1
    height = (14 + 14 * lines_each) * frame[label].n_unique()
    return alt.layer(line.encode(x=alt.X("min(value):Q", **along_x), x2=alt.X2("max(value):Q")), marks).properties(
        width="container", height=height
    )


@_builder(lambda frame, y="value", series=None, **_: _reach(frame, y, [series] if series else []))
def lines(
    frame: pl.DataFrame,
    *,
    x: str,
    y: str = "value",
    series: str | None = None,
    x_title: str,
    y_title: str,
    log_x: bool = False,
    log_y: bool = False,
    rules: Sequence[float] = (),
) -> alt.LayerChart:
    """How `y` changes with `x`: line, points and, with columns low and high, the band of the interval; a line for each
    of `series`. `rules` are values of y worth a dashed line with their number. A log axis leaves out what is not above
    0.
    """
    banded = {"low", "high"} <= set(frame.columns)
    ends = [name for name in ("low", "high") if banded]
    _require(frame, [x, y])
    if log_y:
        frame = frame.filter(pl.col(y) > 0)
        frame = frame.with_columns(pl.col("low").clip(frame[y].min())) if banded else frame
    of_x, of_y = (
        alt.Scale(nice=False, padding=10, **({"type": "log"} if log else {"zero": False})) for log in (log_x, log_y)
    )
    of_y = of_y if log_y else alt.Scale(zero=True)
    heights = [value for name in (y, *ends) for value in frame[name].to_list()] + list(rules)
    axis_x = _log_axis(frame[x].to_list(), grid=False) if log_x else alt.Axis(grid=False)
    axis_y = _log_axis(heights, grid=False) if log_y else alt.Axis(grid=False)
    names = frame[series].unique(maintain_order=True).to_list() if series else []
    colours = alt.Scale(domain=names, range=[PALETTE[at % len(PALETTE)] for at in range(len(names))])
    base = alt.Chart(_drawn(frame, [x, y, *ends, *([series] if series else [])])).encode(
        x=alt.X(f"{x}:Q", title=wrapped(x_title), scale=of_x, axis=axis_x),
        color=alt.Color(f"{series}:N", sort=None, scale=colours, legend=alt.Legend(columns=2))
        if series
        else alt.value(BLUE),
    )
    along_y = {"title": None, "scale": of_y, "axis": axis_y}
    tooltip = [f"{name}:N" for name in ([series] if series else [])]
    tooltip += [alt.Tooltip(f"{name}:Q", format=",.3~g") for name in (x, y, *ends)]
    layers = [_rule_y(value) for value in rules]
    if banded:
        layers.append(base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", **along_y), y2="high:Q"))
    layers.append(base.mark_line().encode(y=alt.Y(f"{y}:Q", **along_y)))
    points = base.mark_point(filled=True, size=55, opacity=1)
    layers.append(points.encode(y=alt.Y(f"{y}:Q", **along_y), tooltip=tooltip))
    layers += [_rule_label(value) for value in _apart(rules, [0.0, *heights], log_y)]
    return alt.layer(*layers).properties(width="container", height=300, title=_y_title(y_title))


@_builder(lambda frame, label="label", **_: _reach(frame, "after", [label]))
def slope(
    frame: pl.DataFrame, *, label: str = "label", before: str, after: str, title: str, word: str | None = None
) -> alt.LayerChart:
    """One line for each `label`, from its value `before` to its value `after`, columns of these names, on a log scale:
    what was published and what is measured here. `word` is a column for the colour.
    """
    _require(frame, [label, "before", "after"])
    long = frame.unpivot(["before", "after"], index=[label, *([word] if word else [])], variable_name="side")
    long = long.with_columns(pl.col("side").replace({"before": before, "after": after}))
    base = alt.Chart(long).encode(
        x=alt.X("side:N", sort=None, title=None, axis=alt.Axis(labelAngle=0)),
        y=alt.Y(
            "value:Q", title=None, scale=alt.Scale(type="log", nice=False), axis=_log_axis(long["value"].to_list())
        ),
        detail=f"{label}:N",
        color=alt.Color(f"{word}:N", sort=None) if word else alt.value(BLUE),
        tooltip=[f"{label}:N", "side:N", alt.Tooltip("value:Q", format=".3~g")],
    )
    layers = [base.mark_line(opacity=0.6), base.mark_point(filled=True, size=45, opacity=1)]
    return alt.layer(*layers).properties(width="container", height=360, title=_y_title(title))


@_builder(lambda frame, row="row", column="column", **_: _reach(frame, "value", [row, column]))
def matrix(
    frame: pl.DataFrame, *, row: str = "row", column: str = "column", text: str = "text", within: str | None = None
) -> alt.LayerChart:
    """A figure for each `row` and `column`: columns of these names, value (the shade, on a log scale within each value
    of the column `within`, by default each row) and `text` (what is written).
    """
    _require(frame, [row, column, "value", text])
    shade = (pl.col("value").log() - pl.col("value").log().min().over(within or row)) / 2.302585
    breaks = frame[column].cast(pl.String).str.count_matches("\n", literal=True).max()
    names = alt.Axis(orient="top", labelAngle=0, labelPadding=4 + 13 * breaks, domain=False, ticks=False)
    names.labelExpr = r"split(datum.label, '\n')"
    base = alt.Chart(frame.with_columns(shade=shade)).encode(
        x=alt.X(f"{column}:N", sort=None, title=None, axis=names),
        y=alt.Y(f"{row}:N", sort=None, title=None, axis=alt.Axis(domain=False, ticks=False)),
        tooltip=[f"{row}:N", f"{column}:N", f"{text}:N"],
    )
    cell = base.mark_rect(color=VERMILLION).encode(
        opacity=alt.Opacity("shade:Q", legend=None, scale=alt.Scale(domain=[0, 2], range=[0.06, 0.6], clamp=True))
    )
    layers = [cell, base.mark_text().encode(text=f"{text}:N")]
    return alt.layer(*layers).properties(width="container", height=30 * frame[row].n_unique())


def wrapped(title: str) -> list[str]:
    """An axis title in lines that fit on a phone; it breaks before a remark in brackets if that is enough."""
    head, bracket, remark = title.partition(" (")
    parts = [head, f"({remark}"] if bracket and len(title) > TITLE_CHARACTERS else [title]
    return [line for part in parts for line in textwrap.wrap(part, TITLE_CHARACTERS)] or [""]


# -- pieces ----------------------------------------------------------------------------------------


def _require(frame: pl.DataFrame, columns: Sequence[str]) -> None:
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise ValueError(f"chart needs column {', '.join(missing)}; the frame has {', '.join(frame.columns)}")


def _drawn(frame: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Only the columns that a chart draws: all others would make the page larger."""
    return frame.select(name for name in dict.fromkeys(columns) if name in frame.columns)


def _has_values(frame: pl.DataFrame, column: str) -> bool:
    return column in frame.columns and frame[column].null_count() < frame.height


def _ratio_domain(frame: pl.DataFrame, log: bool, room: float = 0.26) -> list[float]:
    """From left of the smallest value to right of the largest, with `room` for the column of numbers there."""
    columns = [c for c in ("ratio", "low", "high", "published") if c in frame.columns]
    values = [float(v) for c in columns for v in frame[c].to_list() if v is not None and math.isfinite(v)]
    least, most = min([1.0, *values]), max([1.0, *values])
    if log:
        span = max(math.log(most / least), 0.01)
        return [least * math.exp(-0.04 * span), most * math.exp(room * span)]
    span = max(most - least, 0.01)
    return [max(least - 0.04 * span, 0), most + room * span]


def _ratio_ticks(frame: pl.DataFrame) -> list[float]:
    """Round numbers, 1 among them, over what is drawn: none below the column of numbers at the right."""
    columns = [c for c in ("low", "high", "ratio", "published") if c in frame.columns]
    values = [1.0, *(float(v) for c in columns for v in frame[c].to_list() if v is not None and math.isfinite(v))]
    least, most = min(values), max(values)
    span = max(most - least, 0.01)
    step = next(s for s in _steps(span / 100) if span / s <= 9)
    below, above = math.floor((1 - least) / step), math.floor((most - 1) / step)
    return [round(1 + n * step, 6) for n in range(-below, above + 1)]


def _steps(least: float) -> Iterator[float]:
    """1, 2 and 5 times powers of ten, from `least` on."""
    power = math.floor(math.log10(least))
    while True:
        yield from (factor * 10.0**power for factor in (1, 2, 5))
        power += 1


def _log_axis(values: Sequence[float | None], **options: Any) -> alt.Axis:
    """An axis for a log scale with round numbers where there are values."""
    above = [v for v in values if v is not None and v > 0]
    ticks = []
    for tick in _steps(min(above)):
        if tick > max(above) * 1.001:
            break
        ticks += [tick] if tick >= min(above) * 0.999 else []
    return _axis_at(ticks, **options) if len(ticks) > 1 else alt.Axis(**options)


def _axis_at(ticks: Sequence[float], **options: Any) -> alt.Axis:
    """An axis with these ticks, each with all its digits.

    Without its count, the renderer thins them out to the number that the theme asks for. With a plain format it rounds
    them to the digits that this many ticks over the whole axis would need.
    """
    return alt.Axis(values=list(ticks), tickCount=len(ticks), labelExpr="format(datum.value, '~g')", **options)


def _apart(thresholds: Sequence[float], values: Sequence[float | None], log: bool) -> list[float]:
    """The thresholds whose labels do not overlap on an axis that spans `values`; of two that would, the greater."""
    if log:
        return list(thresholds)
    known = [v for v in values if v is not None]
    room = (max(known) - min(known)) * 0.06
    kept: list[float] = []
    for value in sorted(thresholds, reverse=True):
        if not kept or kept[-1] - value >= room:
            kept.append(value)
    return kept


def _verdict_colour(frame: pl.DataFrame) -> Any:
    if not _has_values(frame, "verdict"):
        return alt.value(BLUE)
    present = [word for word in VERDICT_COLOURS if word in frame["verdict"].to_list()]
    scale = alt.Scale(domain=present, range=[VERDICT_COLOURS[word] for word in present])
    return alt.Color(
        "verdict:N",
        scale=scale,
        legend=alt.Legend(symbolType="stroke", columns=2, symbolOpacity=1, symbolStrokeWidth=6),
    )


def _ratio_tooltip(frame: pl.DataFrame, label: str) -> list[alt.Tooltip]:
    numbers = [alt.Tooltip(f"{c}:Q", format=".3f") for c in ("ratio", "low", "high")]
    if _has_values(frame, "published"):
        numbers.append(alt.Tooltip("published:Q", format=".3f"))
    verdict = [alt.Tooltip("verdict:N")] if _has_values(frame, "verdict") else []
    open_ones = [alt.Tooltip("to_decide:N", title="to decide it")] if _has_values(frame, "to_decide") else []
    return [alt.Tooltip(f"{label}:N"), *numbers, *verdict, *open_ones]


def _rule_y(value: float) -> alt.Chart:
    return alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=[5, 3]).encode(y=alt.datum(value))


def _rule_label(value: float) -> alt.Chart:
    """The number of a dashed rule, above its left end."""
    mark = alt.Chart(alt.Data(values=[{}])).mark_text(align="left", baseline="bottom", dx=4, dy=-2, color=MUTED)
    return mark.encode(x=alt.value(0), y=alt.datum(value), text=alt.value(f"{value:g}{words.PERCENT}"))


def _y_title(text: str) -> alt.TitleParams:
    """The title of the vertical axis, written above the chart: upright, and no width lost on a phone."""
    return alt.TitleParams(text=wrapped(text), fontSize=13, fontWeight="normal", color=MUTED, offset=8)
