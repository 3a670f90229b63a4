"""The theme of all charts, and the few chart shapes that the studies share.

From `enable()` on, a chart is stored as Vega-Lite (drawn by JupyterLab and by pages) and as SVG (for readers without
scripts), both with its description: the caller says what is drawn, a shape adds what there is to see.

A shape takes a polars frame with the columns it names, keeps its row order, and returns an Altair chart that is as wide
as its container, or None if the frame has no rows. Ratios are plain numbers: 1 is as fast as the baseline.
"""

import math
import os
import re
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from itertools import cycle
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
DARK = {INK: "#e6e9ec", MUTED: "#a3adb8", GRID: "#363d45", PAPER: "#14181c"}
DARK |= {BLUE: "#4aa8e0", VERMILLION: "#f2813a", GREEN: "#2fc49a"}
DARK |= {PURPLE: "#de9cc0", ORANGE: "#f0b73a", SKY: "#8fd0f5"}

#: The word for a row without a verdict among rows that have one.
NO_EVIDENCE = "no evidence"
VERDICT_COLOURS = {"slower": VERMILLION, "faster": BLUE, "same": GREEN, "undecided": MUTED, NO_EVIDENCE: PURPLE}

# JupyterLab 4.6 draws Vega-Lite 5; Altair 6 writes Vega-Lite 6. The charts below mean the same in both, so they
# are stored under the older name, and without the `$schema` line that would make either renderer complain.
VEGALITE_MIME = "application/vnd.vegalite.v5+json"
VEGALITE_VERSION = alt.SCHEMA_VERSION.removeprefix("v").rsplit(".", 1)[0]  # 6.4: what Altair writes
WIDE, NARROW = 680, 330  # pixels: the text column on a desktop, a 375 px phone less its margins
FIT = {"type": "fit-x", "contains": "padding"}
# Letter widths are equal: static pictures are laid out with Liberation Sans, and shown with what the reader has.
FONT = "Arial, Helvetica, 'Liberation Sans', sans-serif"
#: Names the file that says where a machine's fonts are.
FONT_CONFIGURATION = "FONTCONFIG_FILE"
# What the renderer says about single marks, at which a screen reader should not stop: the chart has a description.
OF_MARKS = re.compile(r' (?:role="graphics-[a-z]+"|aria-[a-z]+="[^"]*")')
#: Points on a line that can be told apart, more or less.
MOST_POINTS = 60
#: Shows a tick with all its digits and no more.
PLAIN = "format(datum.value, '~g')"
#: Shows each line of a label below the one before.
LINES = r"split(datum.label, '\n')"
TITLE_CHARACTERS, LABEL_CHARACTERS = 40, 20  # text of 13 px breaks here, so that it still fits on a phone


# -- theme and renderer ----------------------------------------------------------------------------


def enable() -> None:
    """Use the project's theme and renderer in this kernel."""
    alt.theme.register("async-cost", enable=True)(_theme)
    alt.renderers.register("async-cost", mime_bundle)
    alt.renderers.enable("async-cost")


def _theme() -> alt.theme.ThemeConfig:
    labels: Any = {"labelFontSize": 13, "labelColor": INK}
    titles = {"titleFontSize": 13, "titleFontWeight": "normal", "titleColor": MUTED, "titlePadding": 10}
    lines = {"domainColor": MUTED, "tickColor": MUTED, "gridColor": GRID}
    layout = {"top": {"direction": "vertical", "anchor": "start", "margin": 4}}
    legend = {"orient": "top", "direction": "horizontal", "title": None, "columns": 2, "symbolSize": 90}
    return {
        "config": {
            "background": PAPER,
            "font": FONT,
            "view": {"stroke": None, "continuousHeight": 260},
            "axis": labels | titles | lines | {"labelLimit": 0},
            "axisQuantitative": {"tickCount": 5, "labelOverlap": True},
            "legend": labels | legend | {"labelLimit": 260, "layout": layout},
            "title": {"fontSize": 13, "fontWeight": "normal", "color": MUTED, "anchor": "start", "offset": 8},
            "text": {"fontSize": 13, "color": INK},
            "rule": {"color": MUTED},
            "range": {"category": list(PALETTE)},
            "mark": {"color": BLUE},
            "line": {"strokeWidth": 2},
            "locale": {"number": {"decimal": ".", "thousands": "\u202f", "grouping": [3], "currency": ["", ""]}},
        }
    }


def mime_bundle(spec: dict[str, Any], **_options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The two forms of a chart that a notebook stores; its description as plain text and as the picture's alt text."""
    alt_text = spec.get("description") or "Chart without a description"
    # In JupyterLab 4.6 a chart that follows the width of its container makes the browser hang.
    spec = sized({key: value for key, value in spec.items() if key != "$schema"}, WIDE)
    bundle = {VEGALITE_MIME: spec, "image/svg+xml": static_svg(spec, WIDE), "text/plain": alt_text}
    return bundle, {"image/svg+xml": {"alt": alt_text}, VEGALITE_MIME: {"embed_options": {"renderer": "svg"}}}


def sized(spec: dict[str, Any], width: int | str) -> dict[str, Any]:
    """The chart in a width of pixels or of its "container", if it is one that fits into its container."""
    fits = spec.get("width") == "container" or spec.get("autosize") == FIT
    return spec | {"width": width, "autosize": FIT} if fits else spec


def static_svg(spec: dict[str, Any], width: int) -> str:
    """The chart as an SVG, `width` pixels wide, that shrinks with its container: the same on every machine."""
    _read_fonts()
    svg = vl_convert.vegalite_to_svg(sized(spec, width), vl_version=VEGALITE_VERSION, allowed_base_urls=[])
    alt_text = escape(spec.get("description", ""))
    return OF_MARKS.sub("", svg).replace(
        "<svg", f'<svg role="img" aria-label="{alt_text}" style="max-width:100%;height:auto"', 1
    )


@cache
def _read_fonts() -> None:
    """Have the renderer read its fonts, which it does once, without those of this machine, whose widths may differ."""
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


def dark(svg: str) -> str:
    """The picture in the colours of a dark page."""
    for light, colour in DARK.items():
        svg = svg.replace(f'="{light}"', f'="{colour}"')
    return svg


def dark_css(scope: str) -> str:
    """Style rules that recolour the charts below `scope` (a CSS selector) for a dark page."""
    return "\n".join(
        f'{scope} [{attribute}="{light}"] {{ {attribute}: {dark}; }}'
        for light, dark in DARK.items()
        for attribute in ("fill", "stroke")
    )


# -- chart shapes ----------------------------------------------------------------------------------


def intervals(
    frame: pl.DataFrame,
    *,
    description: str,
    label: str = "variant",
    series: str | None = None,
    title: str = "time / time of the baseline (1 = equal)",
    log: bool = False,
) -> alt.LayerChart | None:
    """One row for each `label`: its ratio, against a dashed line at 1, or its value as a stroke on its interval.

    Columns: `label`, ratio or value, low, high. With `series`, each of its values (six at most) has a stroke and a
    colour of its own, on a log scale. Without, a row shows its number as well, the colour is the `verdict` (null among
    others is "no evidence"), and `published`, where a row has it, is a hollow diamond. A line break in a label begins
    its next line.
    """
    by, value = [label, series] if series else [label], "value" if "value" in frame.columns else "ratio"
    if frame.select(*by, value, "low", "high").is_empty():
        return None
    if twice := frame.filter(frame.select(by).is_duplicated())[label].to_list():
        raise ValueError(
            f"two rows are called {twice[0]!r}: choose a label= that tells them apart, such as variant and parameter"
        )
    with_verdict, published = (
        not series and name in frame.columns and frame[name].count() > 0 for name in ("verdict", "published")
    )
    if with_verdict:
        frame = frame.with_columns(pl.col("verdict").cast(pl.String).fill_null(NO_EVIDENCE))
    seen = _by_verdict(frame, label) if with_verdict else _ends(frame, value, by, title)
    shown = [words.with_ends(*row, equal=1)[0] for row in frame.select(value, "low", "high").iter_rows()]
    columns = [*by, value, "low", "high", *(["verdict"] if with_verdict else []), *(["published"] if published else [])]
    frame = frame.select(*columns, shown=pl.Series(shown))
    if series:
        frame = frame.with_columns(pl.col(label).map_elements(_broken, pl.String))

    log, low = log or series is not None, "low"
    if log and (frame["low"] <= 0).any():  # of hardly any processes, and a logarithm has no place for it
        low, least = "begins", frame.select(value, "high").min().row(0)
        frame = frame.with_columns(begins=pl.when(pl.col("low") > 0).then("low").otherwise(min(least) / 2))
    drawn = [*frame[value], *frame[low], *frame["high"], *(frame["published"] if published else [])]
    along_x: Any = {
        "title": wrapped(title),
        "scale": alt.Scale(nice=False, padding=10, **({"type": "log"} if log else {"zero": False})),
        "axis": _log_axis(drawn) if log else alt.Axis(grid=True, tickCount=9, labelExpr=PLAIN),
    }
    ours = "measured, 95 % interval"
    shapes = alt.Scale(domain=[ours, "published"], range=["M0,-1V1", "diamond"])
    legend = alt.Legend(symbolStrokeColor=INK, symbolStrokeWidth=2, columns=1) if published else None
    shape = alt.Shape("whose:N", scale=shapes, legend=legend)
    names = frame[series].unique(maintain_order=True).to_list() if series else []
    colours = dict(zip(names, PALETTE, strict=False))
    if with_verdict:
        colours = {word: of for word, of in VERDICT_COLOURS.items() if word in frame["verdict"]}
    colour = _colours(series or "verdict", colours) if colours else alt.value(BLUE)
    base = alt.Chart(frame).encode(y=_rows(label), color=colour, tooltip=_tooltip(frame, columns))
    base = base.encode(yOffset=alt.YOffset(f"{series}:N", sort=None)) if series else base
    stroke = base.transform_calculate(whose=f"'{ours}'").mark_point(size=150 if series else 260, strokeWidth=2.5)
    layers: list[alt.Chart] = [_rule(x=alt.XDatum(1, **along_x))] if value == "ratio" else []
    layers += [
        base.mark_rule(strokeWidth=9, opacity=0.4).encode(x=alt.X(f"{low}:Q", **along_x), x2="high:Q"),
        stroke.encode(x=alt.X(f"{value}:Q", **along_x), shape=shape, opacity=alt.value(1)),
    ]
    if not series:
        # Beside the chart the numbers never meet the rule, wherever the ratios lie.
        number = base.mark_text(align="left", dx=6).encode(x=alt.value("width"), text="shown:N")
        layers.append(number.encode(color=alt.value(INK)))
    if published:
        others = base.transform_filter("isValid(datum.published)").transform_calculate(whose="'published'")
        diamond = others.mark_point(size=70, strokeWidth=1.6, fill=PAPER, yOffset=12)
        diamond = diamond.encode(x=alt.X("published:Q", **along_x), shape=shape, opacity=alt.value(1))
        layers.append(diamond.encode(color=alt.value(INK)))
    lines_each = frame[label].str.count_matches("\n", literal=True).max() + 1
    row = 24 + 14 * len(names) if series else max(46 if published else 0, 20 + 12 * lines_each)
    return _chart(layers, f"{description} {seen}", row * frame[label].n_unique())


def staircase(frame: pl.DataFrame, *, description: str, value: str, title: str) -> alt.LayerChart | None:
    """Totals one below the other, each drawn as the step from the one before: columns variant and `value`."""
    steps = frame.select("variant", start=pl.col(value).shift(1, fill_value=0.0), end=value)
    if steps.is_empty():
        return None
    step = pl.col("end") - pl.col("start")
    change = pl.when(step < 0).then(pl.lit("less")).otherwise(pl.lit("more"))
    way = pl.when(pl.col("start") == 0).then(pl.lit("total")).otherwise(change)
    steps = steps.with_columns(step=step, far=pl.max_horizontal("start", "end"), way=way)
    along_x: Any = {
        "title": wrapped(title),
        "scale": alt.Scale(domain=[0, max(steps["far"].to_list()) * 1.18], nice=False),
        "axis": alt.Axis(format=",~r"),
    }
    base = alt.Chart(steps).encode(y=_rows("variant"), tooltip=_tooltip(steps, ["variant", "start", "step", "end"]))
    colour = _colours("way", {"total": MUTED, "more": VERMILLION, "less": BLUE}).legend(None)
    bar = base.mark_bar(minBandSize=2).encode(x=alt.X("start:Q", **along_x), x2="end:Q", color=colour)
    number = base.transform_calculate(shown="format(datum.step, datum.way == 'total' ? ',.0f' : '+,.0f')")
    number = number.mark_text(align="left", dx=5).encode(x=alt.X("far:Q", **along_x), text="shown:N")
    seen = _ends(steps, "end", ["variant"], title)
    return _chart([bar, number], f"{description} {seen}", 30 * steps["variant"].n_unique())


def lines(
    frame: pl.DataFrame,
    *,
    description: str,
    x: str,
    y: str = "value",
    series: str | None = None,
    x_title: str,
    y_title: str,
    log_x: bool = False,
    log_y: bool = False,
    rules: Sequence[float] = (),
) -> alt.LayerChart | None:
    """How `y` changes with `x`: a line for each of `series`, its points if they are few, and, with columns low and
    high, the band of the interval. `rules` are values of y worth a dashed line with their number. A log axis leaves out
    what is not above 0.
    """
    by = [series] if series else []
    frame = frame.filter(pl.col(y) > 0) if log_y else frame
    if frame.select(x, y, *by).is_empty():
        return None
    ends = ["low", "high"] if {"low", "high"} <= set(frame.columns) else []
    if ends and log_y:
        frame = frame.with_columns(pl.col("low").clip(frame[y].min()))
    columns = list(dict.fromkeys([*by, x, y, *ends]))
    axis = alt.Axis(grid=False)
    along_x: Any = {"title": wrapped(x_title), "scale": alt.Scale(nice=False, padding=10, zero=False), "axis": axis}
    along_y: Any = {"title": None, "scale": alt.Scale(zero=True), "axis": axis}
    if log_x:
        along_x |= {"scale": alt.Scale(nice=False, padding=10, type="log"), "axis": _log_axis(frame[x])}
    if log_y:
        heights = [*rules, *(height for name in (y, *ends) for height in frame[name])]
        along_y |= {"scale": alt.Scale(nice=False, padding=10, type="log"), "axis": _log_axis(heights)}
    names = frame[series].unique(maintain_order=True).to_list() if series else []
    colour = _colours(series, dict(zip(names, cycle(PALETTE), strict=False))) if series else alt.value(BLUE)
    base = alt.Chart(frame.select(columns)).encode(color=colour, tooltip=_tooltip(frame, columns))
    base = base.encode(x=alt.X(f"{x}:Q", **along_x))
    layers: list[alt.Chart] = [_rule(y=alt.datum(value)) for value in rules]
    if ends:
        layers.append(base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", **along_y), y2="high:Q"))
    layers.append(base.mark_line().encode(y=alt.Y(f"{y}:Q", **along_y)))
    if frame[x].n_unique() <= MOST_POINTS:
        layers.append(base.mark_point(filled=True, size=55, opacity=1).encode(y=alt.Y(f"{y}:Q", **along_y)))
    layers += [_rule_label(value, right=at % 2 == 1) for at, value in enumerate(rules)]
    return _chart(layers, f"{description} {_ends(frame, y, by, y_title)}", 300, y_title)


def matrix(
    frame: pl.DataFrame, *, description: str, row: str = "row", column: str = "column", within: str | None = None
) -> alt.LayerChart | None:
    """A figure for each `row` and `column`: columns of these names, value (the shade, on a log scale within each value
    of the column `within`, by default each row) and text (what is written).
    """
    if frame.select(row, column, "value", "text").is_empty():
        return None
    shade = pl.col("value").log10() - pl.col("value").log10().min().over(within or row)
    breaks = frame[column].cast(pl.String).str.count_matches("\n", literal=True).max()
    names = alt.Axis(orient="top", labelAngle=0, labelPadding=4 + 13 * breaks, domain=False, ticks=False)
    names.labelExpr = LINES
    base = alt.Chart(frame.with_columns(shade=shade)).encode(
        x=alt.X(f"{column}:N", sort=None, title=None, axis=names),
        y=_rows(row),
        tooltip=_tooltip(frame, [row, column, "text"]),
    )
    strength = alt.Scale(domain=[0, 2], range=[0.06, 0.6], clamp=True)
    cell = base.mark_rect(color=VERMILLION).encode(opacity=alt.Opacity("shade:Q", legend=None, scale=strength))
    seen = _ends(frame, "value", [row, column], shown="text")
    return _chart([cell, base.mark_text().encode(text="text:N")], f"{description} {seen}", 30 * frame[row].n_unique())


# -- pieces ----------------------------------------------------------------------------------------


def _chart(layers: list[alt.Chart], description: str, height: int, y_title: str = "") -> alt.LayerChart:
    """The chart; the title of the vertical axis is above it: upright, and no width lost on a phone."""
    chart = alt.layer(*layers).properties(width="container", height=height, description=description.strip())
    return chart.properties(title=wrapped(y_title)) if y_title else chart


def _by_verdict(frame: pl.DataFrame, label: str) -> str:
    """`Slower than manual: a and b. The same as manual: c.`"""
    others = frame["baseline_variant"].unique().to_list() if "baseline_variant" in frame.columns else []
    other = others[0] if len(others) == 1 else "the baseline"
    heads = {"slower": f"Slower than {other}", "faster": f"Faster than {other}", "same": f"The same as {other}"}
    found = {word: frame.filter(verdict=word)[label].to_list() for word in VERDICT_COLOURS}
    named = (f"{heads.get(word, word.capitalize())}: {words.listing(names)}." for word, names in found.items() if names)
    return " ".join(named).replace("\n", " ")


def _ends(frame: pl.DataFrame, value: str, names: Sequence[str], title: str = "", shown: str = "") -> str:
    """`ns a request: from 1.02 (a) to 3.1 (b).` The two are as written in column `shown`, or numbers."""
    known = frame.drop_nulls(value).sort(value)

    def end(row: dict[str, Any]) -> str:
        number = row[shown] if shown else words.number(row[value])
        return number + (f" ({', '.join(str(row[name]) for name in names)})" if names else "")

    least, most = (end(known.row(place, named=True)) for place in (0, -1))
    range_of = f"from {least} to {most}." if known.height > 1 else f"it is {least}."
    unit = title.replace(" (log scale)", "").replace(", log scale", "")
    return (f"{unit}: {range_of}" if unit else range_of[0].upper() + range_of[1:]).replace("\n", " ")


def wrapped(title: str) -> list[str]:
    """An axis title in lines that fit on a phone; it breaks before a remark in brackets if that is enough."""
    head, bracket, remark = title.partition(" (")
    parts = [head, f"({remark}"] if bracket and len(title) > TITLE_CHARACTERS else [title]
    return [line for part in parts for line in textwrap.wrap(part, TITLE_CHARACTERS)]


def _broken(label: str) -> str:
    """A label in lines that fit beside a chart of several colours."""
    lines = (textwrap.wrap(line, LABEL_CHARACTERS, break_long_words=False) for line in label.split("\n"))
    return "\n".join(part for line in lines for part in line)


def _rows(label: str) -> alt.Y:
    axis = alt.Axis(domain=False, ticks=False, grid=False, labelExpr=LINES)
    return alt.Y(f"{label}:N", sort=None, title=None, axis=axis)


def _colours(column: str, colours: dict[str, str]) -> alt.Color:
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    legend = alt.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=6)
    return alt.Color(f"{column}:N", sort=None, scale=scale, legend=legend)


def _tooltip(frame: pl.DataFrame, columns: Iterable[str]) -> list[alt.Tooltip]:
    schema, number = frame.schema, alt.Tooltip(format=",.4~r", type="quantitative")
    return [number.field(name) if schema[name].is_numeric() else alt.Tooltip(f"{name}:N") for name in columns]


def _log_axis(values: Iterable[float | None]) -> alt.Axis:
    """An axis for a log scale with 1, 2 and 5 times powers of ten, where there are values; with their count, since the
    renderer thins ticks out to the number that the theme asks for.
    """
    known = [value for value in values if value is not None and value > 0]
    powers = range(math.floor(math.log10(min(known))), math.ceil(math.log10(max(known))) + 1)
    ticks = [factor * 10.0**power for power in powers for factor in (1, 2, 5)]
    ticks = [tick for tick in ticks if min(known) * 0.999 <= tick <= max(known) * 1.001]
    if len(ticks) < 3:
        return alt.Axis(grid=False)
    return alt.Axis(grid=False, values=ticks, tickCount=len(ticks), labelExpr=PLAIN)


def _rule(**place: Any) -> alt.Chart:
    return alt.Chart(alt.Data(values=[{}])).mark_rule(strokeDash=[5, 3]).encode(**place)


def _rule_label(value: float, right: bool) -> alt.Chart:
    """The number of a dashed line, above one of its ends."""
    align, dx, x = ("right", -4, "width") if right else ("left", 4, 0)
    mark = alt.Chart(alt.Data(values=[{}])).mark_text(align=align, baseline="bottom", dx=dx, dy=-2, color=MUTED)
    return mark.encode(x=alt.value(x), y=alt.datum(value), text=alt.value(f"{value:g}{words.PERCENT}"))
