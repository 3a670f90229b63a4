"""What the shapes of charts draw, as their specifications say it."""

import re
import textwrap
from typing import Any

import polars as pl
import pytest

from async_cost.report import charts

LOADS = {"load": ["idle", "idle", "busy", "busy"], "server": ["loop", "tokio"] * 2, "ratio": [1.0, 3.0, 1.1, 1.2]}
LOADS |= {"low": [0.9, 2.9, 1.0, 1.1], "high": [1.1, 3.1, 1.2, 1.3]}
BY_SERVER: dict[str, Any] = {"label": "load", "series": "server", "x_title": "ratio (1 = equal)", "description": "d"}
LINES = pl.DataFrame({"x": [1, 10] * 3, "y": [1.0, 50.0, 2.0, 50.5, 3.0, 9.0], "of": ["a", "a", "b", "b", "c", "c"]})
AXES: dict[str, Any] = {"x": "x", "y": "y", "series": "of", "x_title": "x", "y_title": "y", "description": "d"}
REQUESTS = pl.DataFrame(
    {
        "group": ["empty"] * 2 + ["busy"],
        "row": ["Xeon", "EPYC", "Xeon"],
        "base": [62.0, 57, 1672],
        "added": [86.0, 79, 100],
    }
)
RATIOS = pl.DataFrame(
    {
        "group": ["old: 1 of 2 do not hold"] * 2 + ["new: 1 of 1 do not hold"],
        "row": ["a is as fast as b.", "a is slower, " * 9, "c is slower."],
        "then": [1.0, 2.0, 8.0],
        "now": [1.1, 0.5, 0.25],
        "shown": ["1 → 1.1", "2 → 0.5", "8 → 0.25"],
        "matters": [False, True, True],
    }
)


def rows(chart: dict[str, Any], *columns: str) -> list[dict[str, Any]]:
    """The rows of the first data set of a chart that has these columns."""
    sets = chart["datasets"].values()
    return next(data for data in sets if data and set(columns) <= data[0].keys())


def marks(chart: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """The layers of a chart that are marks of a kind."""
    return [layer for layer in chart["layer"] if layer["mark"]["type"] == kind]


def texts(svg: str) -> set[str]:
    return set(re.findall(r">([^<>]+)</(?:text|tspan)>", svg))


@pytest.mark.parametrize(
    "chart",
    [
        lambda **more: charts.intervals(pl.DataFrame(LOADS), **BY_SERVER | more),
        lambda **more: charts.bars(REQUESTS, **more),
        lambda **more: charts.waterfall(LINES.select(variant="of", y="y"), value="y", x_title="ns", **more),
        lambda **more: charts.lines(LINES, **AXES | more),
        lambda **more: charts.matrix(LINES.select(row="x", column="of", value="y", text="of"), **more),
        lambda **more: charts.changes(RATIOS, before="then", after="now", **more),
    ],
    ids=["intervals", "bars", "waterfall", "lines", "matrix", "changes"],
)
def test_a_finding_is_the_title_in_lines_of_the_width_and_the_first_words_of_the_alt_text(chart):
    finding = "On a phone, async adds **79 to 185\xa0ns** to each request of `tokio`\\'s many servers."
    spec = chart(title=finding, description="Bars.").to_dict()
    plain = "On a phone, async adds 79 to 185\xa0ns to each request of tokio's many servers"
    assert spec["description"].startswith(f"{plain}. Bars.")
    wide, narrow = (texts(charts.static_svg(spec, width)) for width in (charts.WIDE, charts.NARROW))
    assert plain in wide
    broken = textwrap.wrap(plain, charts.FINDING_CHARACTERS[1])
    assert len(broken) > 1 and set(broken) <= narrow


def test_the_title_of_the_vertical_axis_is_below_a_finding_or_alone():
    assert charts.lines(LINES, **AXES).to_dict()["title"]["text"] == ["y"]
    assert charts.lines(LINES, **AXES, title="It grows.").to_dict()["title"]["subtitle"] == ["y"]


def test_two_series_are_named_where_their_first_strokes_are_and_more_at_each():
    chart = charts.intervals(pl.DataFrame(LOADS), **BY_SERVER).to_dict()
    drawn = rows(chart, "shown")
    assert [row["shown"] for row in drawn] == ["loop: 1.0", "3.0", "1.1", "1.2"]
    assert [row["before"] for row in drawn] == ["", "tokio", "", ""], "on the side that has room for it"
    equal, strokes = (layer["encoding"] for layer in marks(chart, "rule"))
    assert equal["x"]["datum"] == 1 and strokes["color"]["legend"] is None
    more = pl.concat([pl.DataFrame(LOADS), pl.DataFrame(LOADS).head(1).with_columns(server=pl.lit("smol"))])
    shown = [row["shown"] for row in rows(charts.intervals(more, **BY_SERVER).to_dict(), "shown")]
    assert shown == ["loop: 1.0", "3.0", "loop: 1.1", "tokio: 1.2", "smol: 1.0"]


def test_strokes_of_a_row_are_around_its_middle_whichever_series_it_lacks():
    frame = pl.DataFrame(LOADS).filter((pl.col("load") == "idle") | (pl.col("server") == "tokio"))
    drawn = rows(charts.intervals(frame, **BY_SERVER).to_dict(), "lane")
    idle, busy = ([row["lane"] for row in drawn if row["load"] == load] for load in ("idle", "busy"))
    assert len(idle) == 2 and [sum(idle) / 2] == busy


@pytest.mark.parametrize(("accent", "coloured"), [("tokio", ["1.2", "3.0"]), ("busy", ["1.2", "1.1"])])
def test_an_accent_is_a_series_or_a_row_and_rows_are_sorted_by_their_largest_value(accent, coloured):
    frame = pl.DataFrame(LOADS).reverse()
    chart = charts.intervals(frame, **BY_SERVER, accent=accent, sort=True).to_dict()
    drawn = rows(chart, "matters")
    assert [row["shown"].rpartition(" ")[2] for row in drawn if row["matters"]] == coloured
    colour = marks(chart, "rule")[-1]["encoding"]["color"]
    assert (colour["condition"]["value"], colour["value"]) == (charts.BLUE, charts.MUTED)
    assert marks(chart, "rule")[-1]["encoding"]["y"]["sort"] == ["busy", "idle"]


def test_lines_are_named_at_their_ends_and_those_that_end_together_below_one_another():
    chart = charts.lines(LINES, **AXES).to_dict()
    down = {row["of"]: row["down"] for row in rows(chart, "down")}
    assert down["a"] - down["b"] >= charts.LINE, "b is higher, and their names do not overlap"
    assert down["c"] == pytest.approx(charts.HEIGHT * (1 - 9 / (50.5 * 1.04)), abs=0.01), "where the line ends"
    assert all(layer["encoding"]["color"]["legend"] is None for layer in marks(chart, "line"))
    assert {"a", "b", "c"} <= texts(charts.static_svg(chart, charts.NARROW))


def test_names_of_many_lines_stay_within_the_plot():
    many = pl.DataFrame({"x": [1] * 12, "y": [0.1] * 12, "of": [f"study {n}" for n in range(12)]})
    down = [row["down"] for row in rows(charts.lines(many, **AXES, marks=[(1, 9.0, "9")]).to_dict(), "down")]
    assert max(down) < charts.HEIGHT and len({round(place) for place in down}) == 12


def test_bars_stand_on_their_base_below_the_heads_of_their_groups():
    chart = charts.bars(REQUESTS.with_columns(plain=pl.lit("on it")), description="d").to_dict()
    drawn = rows(chart, "start", "end")
    assert [(row["start"], row["end"]) for row in drawn] == [(0.062, 0.148), (0.057, 0.136), (1.672, 1.772)], "in µs"
    assert [row["strong"] for row in drawn] == ["+86\xa0ns", "+79\xa0ns", "+100\xa0ns"]
    assert marks(chart, "bar")[0]["encoding"]["y"]["sort"] == [
        *("empty\t", "empty\tXeon", "empty\tEPYC"),
        *("busy\t", "busy\tXeon"),
    ]
    shown = texts(charts.static_svg(chart, charts.NARROW))
    assert {"empty", "busy", "Xeon", "EPYC", "+86\xa0ns", "on it", "1\xa0µs"} <= shown


def test_bars_without_a_base_have_one_accent_and_are_sorted_within_their_groups():
    servers = {"group": ["p99", "p99", "p99", "p50"], "row": ["thread", "tokio", "loop", "loop"]}
    servers["added"] = [9744.0, 1234.0, 185.0, 1.0]
    chart = charts.bars(pl.DataFrame(servers), unit="B", accent="tokio", sort=True, description="d").to_dict()
    drawn = rows(chart, "way")
    assert [row["row"] for row in drawn] == ["loop", "tokio", "thread", "loop"]
    assert [row["way"] for row in drawn] == ["rest", "accent", "rest", "rest"]
    assert len(marks(chart, "bar")) == 1 and drawn[0]["strong"] == "185\xa0B"


def test_bars_may_have_an_interval():
    frame = pl.DataFrame({"row": ["box", "Rc"], "added": [8.04, -1.26], "low": [7.0, -4.0], "high": [9.0, 2.0]})
    chart = charts.bars(frame, description="d").to_dict()
    assert [row["strong"] for row in rows(chart, "strong")] == ["8.0\xa0ns", "\N{MINUS SIGN}1.3\xa0ns"]
    assert chart["description"] == "d From \N{MINUS SIGN}1.3\xa0ns (Rc) to 8.0\xa0ns (box)."
    assert len(marks(chart, "rule")) == 1


@pytest.mark.parametrize("width", [charts.WIDE, charts.NARROW])
def test_texts_of_a_matrix_fit_into_their_cells(width):
    long = "nobody, while the process lives"
    frame = pl.DataFrame({"row": ["nio"] * 4, "column": list("ABCD"), "value": [1, 2, 3, 4], "text": long})
    svg = charts.static_svg(charts.matrix(frame, description="d").to_dict(), width)
    pieces = [text for text in texts(svg) if text in long]
    assert long.split() == [word for word in long.split() if any(word in piece for piece in pieces)], "nothing is lost"
    space = (width - 30) / 4
    assert max(map(len, pieces)) * charts.LETTER < space
    height = float(re.search(r'height="([\d.]+)"', svg)[1])
    assert height > charts.LINE * len(pieces)


def test_a_unit_is_below_its_number_where_a_cell_is_too_narrow_for_both():
    frame = pl.DataFrame({"row": ["r"] * 7, "column": list("ABCDEFG"), "value": 76.7, "text": "76.7\xa0ns"})
    spec = charts.matrix(frame, description="d").to_dict()
    assert "76.7\xa0ns" in texts(charts.static_svg(spec, charts.WIDE))
    assert {"76.7", "ns"} <= texts(charts.static_svg(spec, charts.NARROW))


@pytest.mark.parametrize(
    ("within", "shades"), [(None, [0, 1, 2, 3]), ("row", [0, 1, 0, 1]), ("column", [0, 0, 2, 2])], ids=str
)
def test_the_shades_of_a_matrix_are_comparable_over_the_chart_or_within_what_its_caller_says(within, shades):
    cells = {"row": ["a", "a", "b", "b"], "column": ["c", "d"] * 2, "value": [1, 10, 100, 1000], "text": "x"}
    chart = charts.matrix(pl.DataFrame(cells), within=within, description="d").to_dict()
    assert [row["shade"] for row in rows(chart, "shade")] == pytest.approx(shades)


def test_an_interval_below_zero_has_a_beginning_on_a_log_scale():
    """A mean of two processes of a smoke run may have one; a browser would draw the whole chart at NaN."""
    frame = {"variant": ["a", "b"], "of": "all", "value": [10.0, 20.0], "low": [-5.0, 15.0], "high": [30.0, 40.0]}
    chart = charts.intervals(pl.DataFrame(frame), series="of", x_title="ns", description="Two rows.").to_dict()
    (drawn,) = chart["datasets"].values()
    field = marks(chart, "rule")[-1]["encoding"]["x"]["field"]
    assert [row[field] for row in drawn] == [5.0, 15.0] and drawn[0]["low"] == -5.0


def test_only_rows_that_matter_have_a_sentence_numbers_and_a_colour_and_they_are_first():
    spec = charts.changes(RATIOS, before="then", after="now", description="Claims.").to_dict()
    assert spec["description"] == "Claims. old: 1 of 2 do not hold; new: 1 of 1 do not hold."
    svg = charts.static_svg(spec, charts.WIDE)
    assert {"2 → 0.5", "8 → 0.25"} <= texts(svg) and not {"1 → 1.1", "a is as fast as b."} & texts(svg)
    drawn = [row for row in rows(spec, "then", "down_wide") if row["place"] == 2]
    assert [row["now"] for row in drawn] == [0.5, 1.1, 0.25]
    for name in ("down_wide", "down_narrow"):
        assert [row[name] for row in drawn] == sorted(row[name] for row in drawn)
    assert drawn[-1]["down_narrow"] > drawn[-1]["down_wide"], "sentences take more lines on a phone"


def test_numbers_of_a_row_are_on_the_side_that_has_room():
    spec = charts.changes(
        RATIOS.with_columns(then=pl.Series([1.0, 0.3, 8.0])), before="then", after="now", description=""
    ).to_dict()
    sides = {row["row"]: (row["left"], row["right"]) for row in rows(spec, "left", "right") if row["matters"]}
    assert list(sides.values()) == [("", "2 → 0.5"), ("8 → 0.25", "")]
