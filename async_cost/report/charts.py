"""The theme of all charts, and the few chart shapes that the studies share.

From `enable()` on, a chart is stored as Vega-Lite (drawn by JupyterLab and by pages) and as SVG (for readers without
scripts), both with its description: the caller says what is drawn, a shape adds what there is to see.

A shape takes a polars frame with the columns it names, keeps its row order, and returns an Altair chart that is as wide
as its container, or None if the frame has no rows. Ratios are plain numbers: 1 is as fast as the baseline.
"""

import json
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
import numpy as np
import polars as pl
import vl_convert

from async_cost import words

INK, MUTED, GRID, PAPER = "#1f2328", "#59636e", "#d8dde3", "#ffffff"
#: What is no accent, as an area.
GREY = "#b3b9bf"

# Okabe and Ito (2008), "Color Universal Design": colours that all common kinds of colour vision can tell apart.
# Those with the best contrast on white come first; their yellow is left out, it cannot be read on white.
BLUE, VERMILLION, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, ORANGE, SKY = "#cc79a7", "#e69f00", "#56b4e9"
PALETTE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY)

# What each colour becomes on the dark page. The page's style sheet selects on the colour that the SVG
# carries, so a chart is drawn once and still follows the reader's theme.
DARK = {INK: "#e6e9ec", MUTED: "#a3adb8", GRID: "#363d45", PAPER: "#14181c", GREY: "#5f6872"}
DARK |= {BLUE: "#4aa8e0", VERMILLION: "#f2813a", GREEN: "#2fc49a"}
DARK |= {PURPLE: "#de9cc0", ORANGE: "#f0b73a", SKY: "#8fd0f5"}

# JupyterLab 4.6 draws Vega-Lite 5; Altair 6 writes Vega-Lite 6. The charts below mean the same in both, so they
# are stored under the older name, and without the `$schema` line that would make either renderer complain.
VEGALITE_MIME = "application/vnd.vegalite.v5+json"
VEGALITE_VERSION = alt.SCHEMA_VERSION.removeprefix("v").rsplit(".", 1)[0]  # 6.4: what Altair writes
WIDE = 680  # pixels: the text column on a desktop
PHONE, BETWEEN = "phone", 500  # the parameter of a chart that is narrower than so many pixels
FIT = {"type": "fit-x", "contains": "padding"}
# Letter widths are equal: static pictures are laid out with Liberation Sans, and shown with what the reader has.
FONT = "Arial, Helvetica, 'Liberation Sans', sans-serif"
#: Names the file that says where a machine's fonts are.
FONT_CONFIGURATION = "FONTCONFIG_FILE"
# What the renderer says about single marks, at which a screen reader should not stop: the chart has a description.
OF_MARKS = re.compile(r' (?:role="graphics-[a-z]+"|aria-[a-z]+="[^"]*")')
#: Shows a tick with all its digits and no more.
PLAIN = "format(datum.value, '~g')"
#: The same of nanoseconds, in a unit that a person knows.
TIME = "datum.value < 1000 ? datum.value + '\u00a0ns' : format(datum.value / 1000, '~g') + '\u00a0µs'"
TITLE_CHARACTERS, LABEL_CHARACTERS = 40, 20  # text of 13 px breaks here, so that it still fits on a phone
#: A finding above a chart, bold and 15 px, breaks here: in a wide chart and on a phone.
FINDING_CHARACTERS = (80, 38)
LETTER, BOLD, LINE = 6.7, 7.4, 14  # pixels of text of 13 px: a letter, a bold one, and from line to line
HEIGHT, LANE = 300, 16  # pixels: of the plot of `lines`, and of one of several strokes in a row of `intervals`


# -- theme and renderer ----------------------------------------------------------------------------


def enable() -> None:
    """Use the project's theme and renderer in this kernel."""
    alt.theme.register("async-cost", enable=True)(_theme)
    alt.renderers.register("async-cost", mime_bundle)
    alt.renderers.enable("async-cost")


def _theme() -> alt.theme.ThemeConfig:
    labels: Any = {"labelFontSize": 13, "labelColor": INK}
    titles = {"titleFontSize": 13, "titleFontWeight": "normal", "titleColor": MUTED, "titlePadding": 10}
    subtitles: Any = {"subtitleFontSize": 13, "subtitleColor": MUTED, "subtitlePadding": 4}
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
            "title": {"fontSize": 15, "color": INK, "anchor": "start", "frame": "bounds", "offset": 10} | subtitles,
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
    if spec.get("width") != "container" and spec.get("autosize") != FIT:
        return spec
    known = {"expr": f"containerSize()[0] < {BETWEEN}"} if width == "container" else {"value": int(width) < BETWEEN}
    return spec | {"width": width, "autosize": FIT, "params": [{"name": PHONE, **known}]}


def static_svg(spec: dict[str, Any], width: int) -> str:
    """The chart as an SVG, `width` pixels wide, that shrinks with its container: the same on every machine."""
    _read_fonts()
    svg = vl_convert.vegalite_to_svg(sized(spec, width), vl_version=VEGALITE_VERSION, allowed_base_urls=[])
    alt_text = escape(spec.get("description", ""))
    return OF_MARKS.sub("", svg).replace(
        "<svg", f'<svg role="img" aria-label="{alt_text}" style="max-width:100%;height:auto"', 1
    )


def png(svg: str) -> bytes:
    """An SVG as pixels, with the same fonts on every machine."""
    _read_fonts()
    return vl_convert.svg_to_png(svg)


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
    series: str,
    x_title: str,
    title: str = "",
    label: str = "variant",
    accent: str | None = None,
    sort: bool = False,
) -> alt.LayerChart | None:
    """Draw a row for each `label`, in it the number of each of `series` as a stroke on its interval, on a log scale;
    against a dashed line at 1, if it is a ratio or `x_title` says what 1 is, as in "(1 = equal)".

    Two series (of six at most) are named beside their first stroke, more beside each. `accent`, a value of `label` or
    `series`, is coloured, and all else grey. `sort` puts the least first.

    Columns: `label`, `series`, ratio or value (ns), low, high.
    """
    by, value = [label, series], "value" if "value" in frame.columns else "ratio"
    if frame.select(*by, value, "low", "high").is_empty():
        return None
    frame = frame.with_columns(pl.col(by).cast(pl.String))
    frame = frame.sort(pl.col(value).max().over(label), maintain_order=True) if sort else frame
    ratio = value == "ratio" or "1 =" in x_title
    shown = [
        words.with_ends(number, low, high, equal=1)[0] if ratio else words.short_time(number)
        for number, low, high in frame.select(value, "low", "high").iter_rows()
    ]
    frame = frame.with_columns(shown=pl.Series(shown), matters=_matters(by, accent))
    seen, columns = _ends(frame, value, by, x_title, "" if ratio else "shown"), [*by, value, "low", "high"]
    frame = frame.select(*columns, "shown", "matters")
    rows = _rows(label, {name: name for name in frame[label]})
    lanes = frame.select(pl.len().over(label).max()).item()
    lines_each = max(len(_lines(name, LABEL_CHARACTERS)) for name in frame[label])
    row = max(32, 12 + LANE * lanes, 4 + LINE * lines_each)
    lane = pl.int_range(pl.len()).over(label) - (pl.len().over(label) - 1) / 2
    frame, low = frame.with_columns(lane=row / 2 + LANE * lane), "low"
    if (frame["low"] <= 0).any():  # of hardly any processes, and a logarithm has no place for it
        low, least = "begins", frame.select(value, "high").min().row(0)
        frame = frame.with_columns(begins=pl.when(pl.col("low") > 0).then("low").otherwise(min(least) / 2))
    drawn = [*[1.0] * ratio, *frame[value], *frame[low], *frame["high"]]
    along_x: Any = {
        "title": wrapped(x_title),
        "scale": alt.Scale(nice=False, padding=10, type="log"),
        "axis": _log_axis(drawn),
    }
    if not ratio:
        along_x["axis"].labelExpr = TIME
    frame = _named(frame, series, low, middle=math.sqrt(min(drawn) * max(drawn)))
    base = alt.Chart(frame).encode(y=rows, tooltip=_tooltip(frame, columns), yOffset=alt.YOffset("lane:Q", scale=None))
    accented = alt.condition("datum.matters", alt.value(BLUE), alt.value(MUTED))
    base = base.encode(color=accented if accent else _colours(series, _of_palette(frame[series])))
    layers: list[alt.Chart] = [_rule(x=alt.XDatum(1, **along_x))] if ratio else []
    stroke = base.mark_point(shape="M0,-1V1", size=150, strokeWidth=2.5)
    layers += [
        base.mark_rule(strokeWidth=9, opacity=0.4).encode(x=alt.X(f"{low}:Q", **along_x), x2="high:Q"),
        stroke.encode(x=alt.X(f"{value}:Q", **along_x), opacity=alt.value(1)),
    ]
    weight = {"fontWeight": alt.expr("datum.matters ? 'bold' : 'normal'")} if accent else {}
    layers += _haloed(base, "shown", alt.X("high:Q", **along_x), align="left", dx=6, **weight)
    layers += _haloed(base, "before", alt.X(f"{low}:Q", **along_x), align="right", dx=-6, **weight)
    return _chart(layers, f"{description} {seen}", row * frame[label].n_unique(), title)


def bars(
    frame: pl.DataFrame,
    *,
    description: str,
    title: str = "",
    subtitle: str = "",
    unit: str = "ns",
    accent: str | None = None,
    sort: bool = False,
) -> alt.LayerChart | None:
    """A bar for each row, its number at the end: what is `added` to a grey `base`; without a base, how much there is.

    Columns: row and added, and if there are any: base; group, the head above its rows; low and high, the interval of
    what is added; strong and plain, the texts at the end, by default the number (with its sign if there is a base) and
    nothing. Nanoseconds are shown in the unit of the longest bar, another `unit` as it is. `accent` is the only row
    with a colour. `sort` puts the least of each group first.
    """
    if frame.select("row", "added").is_empty():
        return None
    given, stacked = set(frame.columns), "base" in frame.columns
    base, ends = pl.col("base") if stacked else pl.lit(0.0), [end for end in ("low", "high") if end in given]
    group = pl.col("group").cast(pl.String) if "group" in given else pl.lit("")
    rows = frame.with_columns(group=group, start=base, end=base + pl.col("added"))
    if sort:
        rows = rows.with_row_index("at").sort(pl.col("at").min().over("group"), "end").drop("at")

    def amount(value: float) -> str:
        number = words.short_time(value) if unit == "ns" else f"{words.figure(value)}{words.NBSP}{unit}"
        return f"+{number}" if stacked and value > 0 else number

    rows = rows.with_columns(
        *(pl.col(end) + base for end in ends),
        matters=_matters(["row"], accent),
        plain=pl.col("plain").fill_null("") if "plain" in given else pl.lit(""),
        strong="strong" if "strong" in given else pl.Series(map(amount, rows["added"]), dtype=pl.String),
    )
    columns: list[str] = [name for name in ("group", "row", "base", "added") if name in given]
    seen = _ends(rows, "added", [name for name in columns if name in ("row", "group")], shown="strong")
    layers = _bars(rows, [*ends, "start", "end"], columns, unit)
    height = 30 * (rows.height + rows.filter(pl.col("group") != "")["group"].n_unique())
    return _chart(layers, f"{description} {seen}", height, title, subtitle)


def lines(
    frame: pl.DataFrame,
    *,
    description: str,
    title: str = "",
    x: str,
    y: str = "value",
    series: str,
    x_title: str,
    y_title: str,
    log: bool = False,
) -> alt.LayerChart | None:
    """Draw how `y` changes with `x`: a line for each of two `series` at most, with its name at the right, and, with
    columns low and high, the band of its interval. Log axes leave out what is not above 0.
    """
    frame = frame.filter(pl.col(y) > 0) if log else frame
    if frame.select(x, y, series).is_empty():
        return None
    ends = ["low", "high"] if {"low", "high"} <= set(frame.columns) else []
    if ends and log:
        frame = frame.with_columns(pl.col("low").clip(pl.col(y).min()))
    columns = list(dict.fromkeys([series, x, y, *ends]))
    frame, axis = frame.select(columns), alt.Axis(grid=False)
    along_x: Any = {"title": wrapped(x_title), "scale": alt.Scale(nice=False, padding=10, zero=False), "axis": axis}
    along_y: Any = {"title": None, "scale": alt.Scale(zero=True), "axis": axis}
    if log:
        along_x |= {"scale": alt.Scale(nice=False, padding=10, type="log"), "axis": _log_axis(frame[x])}
        along_y |= {"scale": alt.Scale(nice=False, padding=10, type="log"), "axis": _log_axis(frame[y])}
    colour = _colours(series, _of_palette(frame[series]))
    base = alt.Chart(frame).encode(color=colour, tooltip=_tooltip(frame, columns), x=alt.X(f"{x}:Q", **along_x))
    layers: list[alt.Chart] = []
    if ends:
        layers.append(base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q", **along_y), y2="high:Q"))
    height = alt.Y(f"{y}:Q", **along_y)
    layers += [base.mark_line().encode(y=height), base.mark_point(filled=True, size=55, opacity=1).encode(y=height)]
    last = frame.drop_nulls(y).sort(x).group_by(series).last().sort(y, descending=True)
    # That of the line that ends above is above it, so that no name lies on the other.
    places: Any = ((last.head(1), "bottom"), (last.slice(1), "top"))
    for names, baseline in places if last.height > 1 else places[:1]:
        name = alt.Chart(names).encode(y=height, x=alt.value("width"), text=f"{series}:N", color=colour)
        layers.append(name.mark_text(align="left", dx=5, baseline=baseline, fontWeight="bold"))
    return _chart(layers, f"{description} {_ends(frame, y, [series], y_title)}", HEIGHT, title, y_title)


# -- pieces ----------------------------------------------------------------------------------------


def _chart(layers: list[alt.Chart], description: str, height: float, title: str, subtitle: str = "") -> alt.LayerChart:
    """The chart below its finding, which has no full stop there, and below the title of its vertical axis: upright, and
    no width lost on a phone.
    """
    sentence = words.plain(title).removesuffix(".")
    text = f"{sentence}. {description}" if sentence else description
    chart: Any = alt.layer(*layers).properties(width="container", height=height, description=text.strip())
    chart = chart.add_params(alt.param(PHONE, value=False))
    below = textwrap.wrap(subtitle, 48)
    if sentence:
        wide, narrow = (textwrap.wrap(sentence, most) for most in FINDING_CHARACTERS)
        return chart.properties(title=alt.Title(alt.expr(_by_width(wide, narrow)), subtitle=below or alt.Undefined))
    only = alt.Title(below, fontSize=13, fontWeight="normal", color=MUTED)
    return chart.properties(title=only) if below else chart


def _by_width(wide: object, narrow: object) -> str:
    """A Vega expression: one value in a wide chart, the other on a phone."""
    return f"({PHONE} ? {json.dumps(narrow)} : {json.dumps(wide)})"


def _fitting(base: alt.Chart, **mark: Any) -> alt.Chart:
    """The text of the column wide, or on a phone of narrow, around the middle of its row."""
    chart = base.transform_calculate(said=f"{PHONE} ? datum.narrow : datum.wide")
    middle = alt.expr(rf"-{LINE / 2} * (length(split(datum.said, '\n')) - 1)")
    return chart.mark_text(lineBreak="\n", lineHeight=LINE, dy=middle, **mark).encode(text="said:N")


def _haloed(base: alt.Chart, text: str, x: Any, **mark: Any) -> list[alt.Chart]:
    """Text on a rim of paper, so that no line crosses it."""
    shown = base.encode(x=x, text=f"{text}:N", color=alt.value(INK))
    return [shown.mark_text(stroke=PAPER, strokeWidth=4, **mark), shown.mark_text(**mark)]


def _matters(columns: list[str], accent: str | None) -> pl.Expr:
    """Whether a row is to be in colour: that of the accent, without one each."""
    return pl.lit(value=True) if accent is None else pl.any_horizontal(pl.col(columns) == accent)


def _named(frame: pl.DataFrame, series: str, low: str, *, middle: float) -> pl.DataFrame:
    """With the name of each of `series` at its first stroke, of more than two at each: before the number, or `before`
    the interval if that has more room.
    """
    first = pl.col(series).is_first_distinct() | (frame[series].n_unique() > 2)
    right = pl.col(low) > middle
    return frame.with_columns(
        shown=pl.when(first & ~right).then(pl.format("{}: {}", series, "shown")).otherwise("shown"),
        before=pl.when(first & right).then(series).otherwise(pl.lit("")),
    )


def _bars(rows: pl.DataFrame, ends: list[str], tooltip: list[str], unit: str) -> list[alt.Chart]:
    """Bars from start to end, coloured where a row matters, below the heads of their groups; grey ones up to the start
    if there is a base, the intervals from low to high if there are any, and behind each bar its texts.
    """
    stacked, drawn = "base" in rows.columns, rows.select(ends).to_numpy()
    least, most = 1.1 * min(0.0, np.nanmin(drawn)), max(0.0, np.nanmax(drawn))
    unit, size = words.unit_of(most) if unit == "ns" else (unit, 1.0)
    rows = rows.with_columns(
        pl.col(ends) / size,
        far=pl.max_horizontal(ends) / size,
        share=(pl.max_horizontal(ends) - least) / (most - least or 1),
        zero=0.0,
        id=pl.col("group") + "\t" + pl.col("row"),
        wide="plain",
        narrow=pl.col("plain").str.replace(": ", ":\n", literal=True).map_elements(_label, pl.String),
        after=20 + BOLD * pl.col("strong").str.len_chars(),
    )
    scale = alt.Scale(domain=[least / size, most / size], nice=False, range=[0, alt.expr(_room(rows))])
    number = f"datum.value ? format(datum.value, ',~r') + '{words.NBSP}{unit}' : '0'"
    along_x: Any = {"title": None, "scale": scale, "axis": alt.Axis(grid=False, labelExpr=number)}
    heads = rows.filter(pl.col("group") != "").unique("group", maintain_order=True)
    narrow = pl.col("group").map_elements(lambda head: "\n".join(_lines(head, FINDING_CHARACTERS[1] - 6)), pl.String)
    heads = heads.select(id=pl.col("group") + "\t", wide="group", narrow=narrow)
    labels: dict[str, str] = {}
    for head, id, label in rows.select("group", "id", "row").iter_rows():
        labels |= ({f"{head}\t": ""} if head else {}) | {id: label}
    along_y = _rows("id", labels, LABEL_CHARACTERS + 10)
    chart = alt.Chart(rows).encode(y=along_y, tooltip=_tooltip(rows, tooltip))
    bar, far = chart.mark_bar(height=18), alt.X("far:Q", **along_x)
    colour = alt.condition("datum.matters", alt.value(BLUE), alt.value(MUTED if stacked else GREY))
    layers = [bar.encode(x=alt.X("zero:Q", **along_x), x2="start:Q", color=alt.value(GREY))] if stacked else []
    layers.append(bar.encode(x=alt.X("start:Q", **along_x), x2="end:Q", color=colour))
    if "high" in ends:
        layers.append(chart.mark_rule(strokeWidth=2, color=INK).encode(x=alt.X("low:Q", **along_x), x2="high:Q"))
    accented = alt.condition("datum.matters", alt.value(BLUE), alt.value(INK))
    strong = chart.mark_text(align="left", dx=6, fontWeight=alt.expr("datum.matters ? 'bold' : 'normal'"))
    layers.append(strong.encode(x=far, text="strong:N", color=accented))
    layers.append(_fitting(chart, align="left", dx=alt.expr("datum.after")).encode(x=far))
    if heads.height:
        at_head = alt.Chart(heads).encode(y=along_y, x=alt.value(0))
        layers.append(_fitting(at_head, align="left", fontWeight="bold", dx=1))
    return layers


def _room(rows: pl.DataFrame) -> str:
    """A Vega expression: how many pixels the longest bar may take, so that the texts behind each bar have theirs."""

    def least_of(texts: str) -> str:
        longest = pl.col(texts).str.split("\n").list.eval(pl.element().str.len_chars()).list.max()
        taken = rows.select("share", pixels=pl.col("after") + LETTER * longest).filter(pl.col("share") > 0)
        return "".join(f", (width - {pixels:.0f}) / {share:.3f}" for share, pixels in taken.rows())

    return f"max(40, {PHONE} ? min(width{least_of('narrow')}) : min(width{least_of('wide')}))"


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


def _lines(text: str, most: int) -> list[str]:
    """A text in lines of so many characters, where its words and the parts of its paths allow it; a line break begins a
    line.
    """
    # Behind each slash, a NUL and a space let the line break, and are taken out again.
    parts = [textwrap.wrap(line.replace("/", "/\0 "), most, break_long_words=False) for line in text.split("\n")]
    return [line.replace("/\0 ", "/").replace("/\0", "/") for own in parts for line in own or [""]]


def _label(text: str) -> str:
    """A text broken into lines that are short enough beside a chart on a phone."""
    return "\n".join(_lines(text, LABEL_CHARACTERS))


def _rows(column: str, labels: dict[str, str], most: int = LABEL_CHARACTERS) -> alt.Y:
    """The rows of a chart, with a label for each value of a column, in lines of `most` characters or of a phone's."""
    wide, narrow = (
        {name: _lines(label, characters) for name, label in labels.items()} for characters in (most, LABEL_CHARACTERS)
    )
    shown = f"{_by_width(wide, narrow)}[datum.label]"
    axis = alt.Axis(domain=False, ticks=False, grid=False, labelExpr=shown)
    # The renderer puts the first line where the middle should be.
    axis.labelOffset = {"condition": {"test": "true", "expr": f"-{LINE / 2} * (length({shown}) - 1)"}, "expr": "0"}
    scale = alt.Scale(type="band", padding=0, domain=list(labels), range=[0, alt.expr("height")])
    return alt.Y(f"{column}:N", sort=list(labels), scale=scale, title=None, axis=axis)


def _colours(column: str, colours: dict[str, str]) -> alt.Color:
    """The colour of each name, which stands beside its mark, so that no legend is needed."""
    return alt.Color(
        f"{column}:N", sort=None, legend=None, scale=alt.Scale(domain=list(colours), range=list(colours.values()))
    )


def _of_palette(names: pl.Series) -> dict[str, str]:
    return dict(zip(names.unique(maintain_order=True), cycle(PALETTE), strict=False))


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
