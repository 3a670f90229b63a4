"""Run folders as a careless or a hostile stranger could send them: every kind of damage that we could think of, at
random places.
"""

import gzip
import json
import os
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from made_up_runs import change_record, copy_of

TIME, COUNTS, INFO = "zero-cost.time.csv", "zero-cost.counts.csv", "run.json"
STUDY = "studies.zero-cost"
#: Each would be noticed in a browser: a dialog, or a name on the window.
MARKUP = (
    "<script>window.hacked=1</script>",
    "<img src=x onerror='window.hacked=1'>",
    "</title></style></script><svg onload=window.hacked=1>",
    "[x](javascript:window.hacked=1)",
    "`</code><iframe srcdoc='<script>parent.hacked=1</script>'>`",
    "{{ 7 * 7 }}{% raw %}",
    "$x$ \\(<b onmouseover=alert(1)>\\)",
)
NO_DAYS = ("2026-02-30T00:00:00Z", "2026-01-01T25:00:00Z", "0000-00-00T00:00:00Z", "yesterday", "")
OTHER_AGES = ("1970-01-01T00:00:00Z", "9998-01-01T00:00:00Z")
BEYOND_MEASURE = (10**20, 10**100, 10**3999)
#: Fields of run.json, each with values that no honest run has.
FIELDS: dict[str, Sequence[object]] = {
    "schema_version": (0, 1, 2, 5, 99, "1", None, True, -1, 1.5, [1], MARKUP[0]),
    "run_id": ("z00000000000000T101010102/0000-regnarts", "../../etc/passwd", "", *MARKUP),
    "machine.name": MARKUP,
    **{f"machine.{name}": [f"CPU{c}x" for c in "\x1b\x00\u202e\n\ud800"] for name in ("cpu", "kernel", "os")},
    "started": (*NO_DAYS, *OTHER_AGES),
    "ended": ("2016-01-01T00:00:00Z", "2024-01-01T00:00:00Z"),
    f"{STUDY}.state": ("measuring", "", *MARKUP),
    f"{STUDY}.baseline": ("", "nobody", *MARKUP),
    f"{STUDY}.started": (*NO_DAYS, *OTHER_AGES),
    f"{STUDY}.rounds": (9, 999_000, *BEYOND_MEASURE),
    f"{STUDY}.samples": (3, 999_000, *BEYOND_MEASURE),
    **{f"{STUDY}.{name}": BEYOND_MEASURE for name in ("seed", "trial_ns", "resumed", "steal_before_ms")},
}
#: What may stand in a cell of a table of times, by the column.
CELLS: dict[str, Sequence[str]] = {
    "study": ("thread-pools", '"zero-cost'),
    "variant": [f'"{markup}"' for markup in MARKUP[:3]],
    **dict.fromkeys(
        ("round", "sample", "iterations", "elapsed_ns"),
        ("", "x", "-1", "1.5", "1e400", "NaN", "0x10", "9" * 30, "\u0661", "=1+1", "4294967295", f"7,{MARKUP[0]}"),
    ),
}
#: Changes a run in its folder.
Damage = Callable[[Path, random.Random], object]


def hostile_copies(honest: Path, number: int, seed: int) -> dict[str, str]:
    """Writes `number` damaged copies of the run `honest` beside it; the kind of damage by `<machine>/<utc-time>`."""
    rng = random.Random(seed)
    kinds = {}
    for place in range(number):
        folder, kind = copy_of(honest, f"stranger-{place:04}"), list(DAMAGES)[place % len(DAMAGES)]
        DAMAGES[kind](folder, rng)
        kinds[f"{folder.parent.name}/{folder.name}"] = kind
    return kinds


def _field(name: str, values: Sequence[object]) -> Damage:
    return lambda folder, rng: change_record(folder, {name: rng.choice(values)})


def _cell(file: str, column: str, values: Sequence[str]) -> Damage:
    def change(lines: list[str], rng: random.Random) -> None:
        place = rng.randrange(1, len(lines) - 1)
        cells = lines[place].split(",")
        cells[lines[0].split(",").index(column)] = rng.choice(values)
        lines[place] = ",".join(cells)

    return _lines(change, file)


def _lines(change: Callable[[list[str], random.Random], object], file: str = TIME) -> Damage:
    """Changes the lines of a table, which is packed afterwards every other time."""

    def damage(folder: Path, rng: random.Random) -> None:
        lines = (folder / file).read_text().split("\n")
        change(lines, rng)
        text = "\n".join(lines).encode("utf-8", "surrogatepass")
        (folder / file).write_bytes(text)
        if rng.random() < 0.5:
            (folder / file).unlink()
            (folder / f"{file}.gz").write_bytes(gzip.compress(text))

    return damage


def _record(change: Callable[[dict, str, random.Random], object]) -> Damage:
    """Changes any one field of run.json, other than the names of crates, which are free."""

    def damage(folder: Path, rng: random.Random) -> None:
        info = json.loads((folder / INFO).read_text())
        records = [info["machine"], info["toolchain"], info["codegen"], info["studies"]["zero-cost"]]
        change(*rng.choice(_fields(records)), rng)
        (folder / INFO).write_text(json.dumps(info))

    return damage


def _fields(part: object) -> list[tuple[dict, str]]:
    """All fields of the records in a part of run.json: the record, and the field's name."""
    entries = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
    own = [(part, name) for name in part] if isinstance(part, dict) else []
    return own + [inner for entry in entries for inner in _fields(entry)]


def _in_place_of_a_file(put: Callable[[Path], object]) -> Damage:
    def damage(folder: Path, rng: random.Random) -> None:
        path = folder / rng.choice([INFO, TIME, COUNTS])
        path.unlink()
        put(path)

    return damage


# -- run.json ------------------------------------------------------------------------------------------------


def markup_in_a_study(folder, rng):
    info = json.loads((folder / INFO).read_text())
    info["studies"][rng.choice([*MARKUP, "../../zero-cost", "a/b"])] = info["studies"].pop("zero-cost")
    (folder / INFO).write_text(json.dumps(info))


def torn_run_json(folder, rng):
    text = (folder / INFO).read_text()
    (folder / INFO).write_text(text[: rng.randrange(len(text) - 1)])


def a_number_without_end(folder, rng):
    text = (folder / INFO).read_text()
    endless = '"schema_version": ' + "1" * rng.randrange(4301, 9999)
    (folder / INFO).write_text(re.sub(r'"schema_version": \d+', endless, text))


def nested_without_end(folder, rng):
    (folder / INFO).write_text(rng.choice(["[", '{"a":']) * rng.randrange(1000, 100_000))


# -- files ---------------------------------------------------------------------------------------------------


def not_even_text(folder, rng):
    (folder / rng.choice([INFO, TIME, COUNTS])).write_bytes(rng.randbytes(rng.randrange(1, 5000)))


def a_link_to_elsewhere(folder, rng):
    path = folder / rng.choice([INFO, TIME, COUNTS])
    elsewhere = folder.parent / path.name
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


def torn_packing(folder, rng):
    packed = gzip.compress((folder / TIME).read_bytes())
    (folder / TIME).unlink()
    (folder / f"{TIME}.gz").write_bytes(packed[: rng.randrange(len(packed))])


def a_table_of_nobody(folder, rng):
    (folder / rng.choice(["thread-pools.time.csv", "x.csv", "zero-cost.csv.gz"])).write_text("study,bench\n")


def torn_counts(folder, rng):
    text = (folder / COUNTS).read_text().rstrip("\n")
    (folder / COUNTS).write_text(text[: -rng.randrange(1, 9)])


# -- tables --------------------------------------------------------------------------------------------------


def torn_in_the_middle(lines, rng):
    text = "\n".join(lines)
    lines[:] = text[: rng.randrange(1, len(text))].split("\n")


def a_row_is_missing(lines, rng):
    del lines[rng.randrange(1, len(lines) - 1)]


def a_row_stands_twice(lines, rng):
    lines.insert(rng.randrange(1, len(lines) - 1), lines[rng.randrange(1, len(lines) - 1)])


def another_header(lines, rng):
    changed = [lines[0].replace("elapsed_ns", "elapsed_us"), lines[0].replace("round", "sample")]
    lines[0] = rng.choice(["", f"{lines[0]},more", *changed])


RECORD = {
    "a field is missing": lambda record, name, rng: record.pop(name),
    "a field is unknown": lambda record, name, rng: record.update({rng.choice(MARKUP): 1}),
    "a field is of another type": lambda record, name, rng: record.update({name: {"a": [rng.choice(MARKUP)]}}),
}
IN_PLACE = {
    "no file": lambda path: None,
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a link to itself": lambda path: path.symlink_to(path.name),
}
OF_FOLDERS = (markup_in_a_study, torn_run_json, a_number_without_end, nested_without_end, not_even_text)
OF_FOLDERS += (a_link_to_elsewhere, torn_packing, a_table_of_nobody, torn_counts)
OF_LINES = (torn_in_the_middle, a_row_is_missing, a_row_stands_twice, another_header)
DAMAGES: dict[str, Damage] = {
    **{name: _field(name, values) for name, values in FIELDS.items()},
    **{name: _record(change) for name, change in RECORD.items()},
    **{name: _in_place_of_a_file(put) for name, put in IN_PLACE.items()},
    **{column: _cell(TIME, column, values) for column, values in CELLS.items()},
    "a count": _cell(COUNTS, "value", ("", "x", "-1", "1.5", MARKUP[0])),
    **{change.__name__: change for change in OF_FOLDERS},
    **{change.__name__: _lines(change) for change in OF_LINES},
}
