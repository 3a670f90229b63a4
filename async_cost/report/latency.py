"""The latency numbers of async Rust, a column for each machine: as tables, and as a picture to share.

Numbers come as nanoseconds by id for each machine, by its name; the first machine is the one that sentences and the
order of a picture speak of. What no machine has is left out.
"""

import math
import re
from collections.abc import Mapping
from html import escape
from itertools import cycle, groupby
from typing import Any, NamedTuple

import altair as alt
import polars as pl

from async_cost import words
from async_cost.findings.committed import judged, machine_of, machines, short
from async_cost.findings.definitions import said_by
from async_cost.findings.latency import Latency, committed, latencies
from async_cost.findings.latency import numbers as measured
from async_cost.report import charts
from async_cost.runs.run import Run

#: Nanoseconds by id of each machine, by its name.
Numbers = Mapping[str, Mapping[str, float]]
#: Whose numbers are in the sentence above the picture: the least and the most of an await, a task, a request.
IN_TITLE = ("call-async-fn", "tokio-await", "tokio-spawn", "tcp-tokio")
#: Those that the sentences above the table need.
IN_LEAD = ("call-async-fn", "request-lean", "request-habits", "tcp-loop", "tcp-tokio", "tcp-frontier")
#: The finding that says what tokio adds, with an interval.
ADDED = ("servers-tokio", "tokio")
#: What to do, with the ids of the numbers that it says.
ADVICE = (
    "Await in place ({tokio-await}), and spawn only what must run beside you ({tokio-spawn}).",
    "Box small futures where a type needs it (+{request-box}), not a large one for each call of a loop (+{call-box-4k}).",
)
CAUTION = (
    "Compare rows within a block. Averages over builds and hours, on cloud machines with two cores{}. Not measured: "
    "`io_uring`, a network."
)
#: What the machine of a reader is called beside the committed ones.
YOURS = "yours"
#: What a badge of a number says on its left, by the id of the number.
BADGES = {
    "call-async-fn": "an async fn",
    "tokio-await": "an await on tokio",
    "tokio-spawn": "spawn and await on tokio",
    "tcp-tokio": "a TCP request on tokio",
}
#: Pixels of a badge: of its letters (browsers fit the text to that), beside the text, its height.
BADGE_LETTER, BADGE_SIDE, BADGE_HEIGHT = 6, 5, 20
#: Pixels of the picture that a link shows, as Open Graph advises, and of its margin.
SHARED, MARGIN = (1200, 630), 40
HOW = "Time for one, on a log scale; + is what it adds; numbers: of the first machine"
#: A machine's mark in text and as a point.
Mark = tuple[str, dict[str, Any]]
MARKS: tuple[Mark, ...] = (
    ("●", {"shape": "circle", "size": 90, "filled": True}),
    ("○", {"shape": "circle", "size": 60}),
    ("□", {"shape": "square", "size": 60}),
    ("◊", {"shape": "diamond", "size": 60}),
)
SVG = "http://www.w3.org/2000/svg"
#: Pixels of a row of the picture, and of its column of numbers.
ROW, COLUMN = 24, 76
HEADING: dict[str, Any] = {"fontSize": 18, "fontWeight": "bold", "color": charts.INK, "frame": "bounds", "offset": 14}
HEADING |= {"subtitleFontSize": 13, "subtitleColor": charts.MUTED, "subtitlePadding": 6}


class Row(NamedTuple):
    """A row of a table, with a cell for each machine."""

    latency: Latency
    cells: list[str]


def shown(latency: Latency, ns: float | None) -> str:
    """Return a number of a table or of the picture: `342 ns`, of what is added `+1.3 ns`; a dash for none."""
    if ns is None:
        return words.NOTHING
    text = words.short_time(ns)
    return text if text.startswith(words.MINUS) or not latency.added else f"+{text}"


def _known(numbers: Numbers) -> list[Latency]:
    """The rows that a machine has."""
    return [latency for latency in latencies().values() if any(latency.id in own for own in numbers.values())]


def blocks(numbers: Numbers) -> list[tuple[str, list[Row]]]:
    """Return the rows of the table by block."""
    return [
        (
            block,
            [
                Row(latency, [shown(latency, own.get(latency.id)) for own in numbers.values()])
                for latency in latencies_of
            ],
        )
        for block, latencies_of in groupby(_known(numbers), key=lambda latency: latency.block)
    ]


def lead(numbers: Numbers) -> str:
    """Return the sentences above the table, in Markdown: of the first machine that has the numbers."""
    known = next(
        ((name, *_in_lead(name, own)) for name, own in numbers.items() if all(id in own for id in IN_LEAD)), None
    )
    if known is None:
        return ""
    name, tokio, lean, call, least, most = known
    return (
        f"**tokio adds {tokio}; our leanest async executor, on the same epoll, takes {lean} in all. An `async fn` "
        f"adds {call} to a call. To a request without a kernel, async adds {least} if written leanly, {most} with the habits "
        f"of general runtimes.** So measured on the {words.escape(name)}."
    )


def _in_lead(name: str, own: Mapping[str, float]) -> tuple[str, str, str, str, str]:
    """What tokio adds to a request over TCP, with its interval where a committed machine has it, what the frontier
    takes, what an async fn adds to a call, and lean async and all habits to a simulated request.
    """
    loop, more = own["tcp-loop"], own["tcp-tokio"] - own["tcp-loop"]
    series = next((machine.series for machine in machines() if machine.name == name), ())
    said = said_by("finding", series).get(ADDED)
    ends = words.with_ends(said["value"], said["low"], said["high"], 0, 3)[1] if said else ""
    part = f"{words.figure(100 * more / loop)}{words.PERCENT}"
    tokio = f"{words.short_time(more)} {ends} to a TCP request of {words.short_time(loop)} ({part})"
    lean, call, least, most = (
        words.short_time(own[id]) for id in ("tcp-frontier", "call-async-fn", "request-lean", "request-habits")
    )
    return tokio, lean, call, least, most


def screen(numbers: Numbers, pages: str, picture: str) -> str:
    """Return the first screen where a repository is hosted, in Markdown: sentences, picture, table, what to do."""
    parts = [lead(numbers), picture, markdown(numbers, pages), advice(numbers)]
    return "\n\n".join(part for part in parts if part)


def beside_committed(run: Run) -> dict[str, dict[str, float]]:
    """Return the numbers of a run and after them those of the committed machines, unless it is one of theirs; a
    committed run that is not the newest of its machine has its date.
    """
    own = {id: ns for id, ns in measured(run).select("id", "ns").iter_rows() if ns is not None}
    if machine_of(run):
        return committed()
    older = run.info.run_id in judged()["series"]
    return {f"{short(run.info.machine)}, {run.info.started[:10]}" if older else YOURS: own} | committed()


def advice(numbers: Numbers) -> str:
    """Return what to do, with the numbers of the first machine, and how to read the table, in Markdown."""
    own = next((own for own in numbers.values() if all(id in own for id in IN_LEAD)), {})
    texts = {id: words.short_time(ns) for id, ns in own.items()}
    known = [text.format(**texts) for text in ADVICE if texts.keys() >= {*re.findall(r"\{(.+?)\}", text)}]
    cells = [machine.name for machine in machines() if machine.in_cells and machine.name in numbers]
    caution = CAUTION.format(f"; {words.listing(cells)}: of notebook cells" if cells else "")
    return "\n\n".join([*([f"**{' '.join(known)}**"] if known else []), caution])


def markdown(numbers: Numbers, pages: str) -> str:
    """Return the table as Markdown; `pages` is where the page of a study is, such as `docs/sample/{}.md`."""
    lines = [["", *map(words.escape, numbers)], ["---", *["--:"] * len(numbers)]]
    for block, rows in blocks(numbers):
        lines.append([f"**{block}**", *[""] * len(numbers)])
        for latency, cells in rows:
            name = (
                f"[{latency.short}]({pages.format(latency.page)}#finding-{latency.finding})"
                if latency.page
                else latency.short
            )
            lines.append([name, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def title(numbers: Numbers) -> str:
    """Return the sentence above the picture, with the numbers of the first machine."""
    own = next(iter(numbers.values()))
    call, awaited, task, request = (words.short_time(own[id]) for id in IN_TITLE)
    return f"An async fn adds {call}; an await takes {awaited}, a task {task}, TCP {request}"


def card(numbers: Numbers) -> str:
    """Return the picture of README.md as SVG for a light page (`charts.dark` makes the other): the rows with a name on
    the card, quickest first on the first machine, those of the title in colour.
    """
    frame = _of_card(numbers)
    names = frame["name"].unique(maintain_order=True).to_list()
    charts.enable()
    marks = list(zip(numbers, cycle(MARKS), strict=False))
    # The first machine lies on top of the others, and has its numbers beside the points.
    layers = [_points(frame, names, machine, point) for machine, (_, point) in reversed(marks)]
    layers.append(_numbers(frame, names, marks[0][0]))
    key = ", ".join(f"{sign} {machine}" for machine, (sign, _) in marks)
    about = alt.TitleParams(title(numbers), subtitle=[HOW, key], **HEADING)
    description = f"{title(numbers)}. By {words.listing(numbers)}: {words.listing(names)}."
    drawn = alt.layer(*layers).properties(
        width="container", height=ROW * len(names), title=about, description=description
    )
    return charts.static_svg(drawn.to_dict(), charts.WIDE)


def to_share(numbers: Numbers) -> dict[str, str | bytes]:
    """Return the files that others show, by name: the picture of README.md as a PNG, and a badge for each number of its
    title, of the first machine; none if that lacks one of them.
    """
    machine, own = next(iter(numbers.items()), ("", {}))
    if not all(id in own for id in BADGES):
        return {}
    rows = {latency.id: latency for latency in _known(numbers)}
    badges = {f"badge-{id}.svg": _badge(what, f"{shown(rows[id], own[id])} ({machine})") for id, what in BADGES.items()}
    return {"card.png": _shared(card(numbers)), **badges}


def _badge(what: str, number: str) -> str:
    """Two words side by side, as badges of forges look."""
    left, right = (BADGE_LETTER * len(text) + 2 * BADGE_SIDE for text in (what, number))
    parts = ((what, 0, left, charts.MUTED), (number, left, right, charts.BLUE))
    drawn = "".join(
        f'<rect x="{x}" width="{width}" height="{BADGE_HEIGHT}" fill="{colour}"/>'
        f'<text x="{x + BADGE_SIDE}" y="14" textLength="{width - 2 * BADGE_SIDE}">{escape(text)}</text>'
        for text, x, width, colour in parts
    )
    size, label = f'width="{left + right}" height="{BADGE_HEIGHT}"', escape(f"{what}: {number}")
    head = f'<svg xmlns="{SVG}" {size} role="img" aria-label="{label}"><title>{label}</title>'
    return f'{head}<g font-family="{charts.FONT}" font-size="11" fill="{charts.PAPER}">{drawn}</g></svg>\n'


def _shared(svg: str) -> bytes:
    """A chart as a PNG of the size that a link shows."""
    (width, height), (head, _, rest) = SHARED, svg.partition(">")
    head = re.sub(r' (?:style|width|height)="[^"]*"', "", head)
    place = f'x="{MARGIN}" y="{MARGIN}" width="{width - 2 * MARGIN}" height="{height - 2 * MARGIN}"'
    paper = f'<rect width="{width}" height="{height}" fill="{charts.PAPER}"/>'
    return charts.png(f'<svg xmlns="{SVG}" width="{width}" height="{height}">{paper}{head} {place}>{rest}</svg>')


def _of_card(numbers: Numbers) -> pl.DataFrame:
    """Of each row of the picture and each machine: name, machine, ns, text, colour; quickest first."""
    rows = [
        (
            latency.card,
            machine,
            ns := own.get(latency.id),
            shown(latency, ns),
            charts.BLUE if latency.id in IN_TITLE else charts.MUTED,
        )
        for latency in _known(numbers)
        for machine, own in numbers.items()
        if latency.card
    ]
    texts: dict[str, Any] = dict.fromkeys(("name", "machine", "ns", "text", "colour"), pl.String)
    frame = pl.DataFrame(rows, schema=texts | {"ns": pl.Float64}, orient="row")
    return frame.sort(pl.col("ns").drop_nulls().first().over("name"), maintain_order=True)


def _points(frame: pl.DataFrame, names: list[str], machine: str, point: dict[str, Any]) -> alt.Chart:
    """The points of a machine."""
    # A log scale has no place for what is not above 0.
    points = _rows(frame, names, machine).transform_filter("datum.ns > 0").mark_point(opacity=1, **point)
    return points.encode(x=alt.X("ns:Q", title=None, **_decades(frame["ns"])))


def _numbers(frame: pl.DataFrame, names: list[str], machine: str) -> alt.Chart:
    """The numbers of a machine, in a column beside the points."""
    texts = _rows(frame, names, machine).mark_text(align="right", dx=COLUMN)
    return texts.encode(x=alt.value("width"), text="text:N")


def _rows(frame: pl.DataFrame, names: list[str], machine: str) -> alt.Chart:
    """The rows of a machine, from top to bottom, each in its colour."""
    along_y = alt.Y("name:N", sort=names, title=None, axis=alt.Axis(domain=False, ticks=False, labelPadding=10))
    return alt.Chart(frame.filter(machine=machine)).encode(y=along_y, color=alt.Color("colour:N", scale=None))


def _decades(times: pl.Series) -> dict[str, Any]:
    """Scale and axis from the power of ten below the least of these nanoseconds to that above the most."""
    logs = [math.log10(ns) for ns in times.drop_nulls() if ns > 0]
    powers = [10.0**power for power in range(math.floor(min(logs)), math.ceil(max(logs)) + 1)]
    shown = "datum.value < 1e3 ? datum.value + ' ns' : datum.value / 1e3 + ' µs'"
    axis = alt.Axis(values=powers, tickCount=len(powers), labelExpr=shown, ticks=False, domain=False, labelFlush=False)
    return {"axis": axis, "scale": alt.Scale(type="log", domain=[powers[0], powers[-1]], nice=False)}
