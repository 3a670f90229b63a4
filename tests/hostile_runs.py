"""Run folders as a careless or a hostile stranger could send them: every kind of damage that we could think of, at
random places.
"""

import gzip
import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path

TIME, COUNTS, INFO = "zero-cost.time.csv", "zero-cost.counts.csv", "run.json"
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
CONTROLS = ("\x1b", "\x00", "\u202e", "\n", "\ud800")
NO_DAYS = ("2026-02-30T00:00:00Z", "2026-01-01T25:00:00Z", "0000-00-00T00:00:00Z", "yesterday", "")
NOT_A_NUMBER = ("", "x", "-1", "1.5", "1e400", "NaN", "0x10", "9" * 30, "\u0661", "=1+1")


def hostile_copies(honest: Path, root: Path, number: int, seed: int) -> dict[str, str]:
    """Writes `number` damaged copies of the run `honest` below `root`; the kind of damage by `<machine>/<utc-time>`."""
    rng = random.Random(seed)
    kinds = {}
    for place in range(number):
        folder = root / f"stranger-{place:04}" / "20260101T000000Z"
        shutil.copytree(honest, folder)
        info = json.loads((folder / INFO).read_text())
        info["run_id"], info["machine"]["name"] = f"{folder.parent.name}/{folder.name}", folder.parent.name
        _write(folder, info)
        damage = DAMAGES[place % len(DAMAGES)]
        _damage(folder, damage, rng)
        kinds[f"{folder.parent.name}/{folder.name}"] = damage.__name__
    return kinds


def _write(folder: Path, info: object) -> None:
    (folder / INFO).write_text(json.dumps(info))


def _records(value: object, place: tuple = ()) -> list[tuple]:
    """The places of all fields of a run.json, but for the names of crates, which are free."""
    if not isinstance(value, dict | list):
        return []
    entries = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    found = (
        [(*place, name) for name, _ in entries]
        if isinstance(value, dict) and place not in ((), ("crates",), ("studies",))
        else []
    )
    return found + [inner for name, entry in entries if name != "crates" for inner in _records(entry, (*place, name))]


def _at(info: dict, place: tuple) -> tuple[dict, str]:
    for name in place[:-1]:
        info = info[name]
    return info, place[-1]


def _study(info: dict) -> dict:
    return info["studies"]["zero-cost"]


def _damage(folder: Path, change: Callable, rng: random.Random) -> None:
    """Makes a change of the folder, of its run.json or of the lines of time.csv, as the name of its parameter says; a
    changed table is packed afterwards every other time.
    """
    match change.__code__.co_varnames[0]:
        case "info":
            info = json.loads((folder / INFO).read_text())
            change(info, rng)
            _write(folder, info)
        case "lines":
            lines = (folder / TIME).read_text().split("\n")
            change(lines, rng)
            text = "\n".join(lines).encode("utf-8", "surrogatepass")
            (folder / TIME).write_bytes(text)
            if rng.random() < 0.5:
                (folder / TIME).unlink()
                (folder / f"{TIME}.gz").write_bytes(gzip.compress(text))
        case _:
            change(folder, rng)


# -- run.json ------------------------------------------------------------------------------------------------


def a_field_is_missing(info, rng):
    record, name = _at(info, rng.choice(_records(info)))
    del record[name]


def a_field_is_unknown(info, rng):
    record, _ = _at(info, rng.choice(_records(info)))
    record[rng.choice(MARKUP)] = 1


def a_field_is_of_another_type(info, rng):
    record, name = _at(info, rng.choice(_records(info)))
    record[name] = {"a": [rng.choice(MARKUP)]}


def a_field_is_beyond_measure(info, rng):
    fields = ["rounds", "samples", "seed", "trial_ns", "resumed", "steal_before_ms"]
    _study(info)[rng.choice(fields)] = 10 ** rng.randrange(20, 4000)


def another_schema_version(info, rng):
    info["schema_version"] = rng.choice([0, 1, 2, 5, 99, "1", None, True, -1, 1.5, [1], rng.choice(MARKUP)])


def markup_in_the_machine_name(info, rng):
    info["machine"]["name"] = rng.choice(MARKUP)
    if rng.random() < 0.5:
        info["run_id"] = f"{info['machine']['name']}/20260101T000000Z"


def markup_in_a_study(info, rng):
    info["studies"][rng.choice([*MARKUP, "../../zero-cost", "a/b"])] = info["studies"].pop("zero-cost")


def a_control_character(info, rng):
    info["machine"][rng.choice(["cpu", "kernel", "os"])] = f"CPU{rng.choice(CONTROLS)}x"


def ended_before_it_began(info, rng):
    info["ended"] = f"{rng.randrange(2016, 2025)}-01-01T00:00:00Z"


def a_day_that_is_not(info, rng):
    rng.choice([info, _study(info)])["started"] = rng.choice(NO_DAYS)


def a_day_of_another_age(info, rng):
    day = rng.choice(["1970-01-01T00:00:00Z", "9998-01-01T00:00:00Z"])
    rng.choice([info, _study(info)]).update(started=day, ended=None)


def no_time_for_the_samples(info, rng):
    for episode in _study(info)["episodes"]:
        episode["ended"] = episode["started"]


def more_is_announced_than_measured(info, rng):
    _study(info)[rng.choice(["rounds", "samples"])] += rng.randrange(1, 999_000)


def not_complete(info, rng):
    _study(info)["state"] = rng.choice(["measuring", "", *MARKUP])


def compiled_for_debugging(info, rng):
    info["codegen"][rng.choice(["debug_assertions", "overflow_checks"])] = True


def another_id(info, rng):
    info["run_id"] = rng.choice(["stranger-0000/20260101T000000Z"[::-1], "../../etc/passwd", "", *MARKUP])


def no_baseline(info, rng):
    _study(info)["baseline"] = rng.choice(["", "nobody", *MARKUP])


def torn_run_json(folder, rng):
    text = (folder / INFO).read_text()
    (folder / INFO).write_text(text[: rng.randrange(len(text) - 1)])


def a_number_without_end(folder, rng):
    text = (folder / INFO).read_text()
    endless = '"schema_version": ' + "1" * rng.randrange(4301, 9999)
    (folder / INFO).write_text(re.sub(r'"schema_version": \d+', endless, text))


def nested_without_end(folder, rng):
    (folder / INFO).write_text(rng.choice(["[", '{"a":']) * rng.randrange(1000, 100_000))


def not_even_text(folder, rng):
    (folder / rng.choice([INFO, TIME, COUNTS])).write_bytes(rng.randbytes(rng.randrange(1, 5000)))


def a_file_is_missing(folder, rng):
    (folder / rng.choice([INFO, TIME, COUNTS])).unlink()


def a_folder_for_a_file(folder, rng):
    path = folder / rng.choice([INFO, TIME, COUNTS])
    path.unlink()
    path.mkdir()


def a_pipe_for_a_file(folder, rng):
    path = folder / rng.choice([INFO, TIME, COUNTS])
    path.unlink()
    os.mkfifo(path)


def a_link_to_itself(folder, rng):
    path = folder / rng.choice([INFO, TIME, COUNTS])
    path.unlink()
    path.symlink_to(path.name)


def a_link_to_elsewhere(folder, rng):
    path = folder / rng.choice([INFO, TIME, COUNTS])
    elsewhere = folder.parent / path.name
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


# -- tables --------------------------------------------------------------------------------------------------


def torn_in_the_middle(lines, rng):
    text = "\n".join(lines)
    lines[:] = text[: rng.randrange(1, len(text))].split("\n")


def a_row_is_missing(lines, rng):
    del lines[rng.randrange(1, len(lines) - 1)]


def a_row_stands_twice(lines, rng):
    lines.insert(rng.randrange(1, len(lines) - 1), lines[rng.randrange(1, len(lines) - 1)])


def a_number_is_none(lines, rng):
    place = rng.randrange(1, len(lines) - 1)
    cells = lines[place].split(",")
    cells[rng.choice([4, 6, 7, 8])] = rng.choice(NOT_A_NUMBER)
    lines[place] = ",".join(cells)


def markup_in_a_variant(lines, rng):
    word = '"' + rng.choice(MARKUP[:3]).replace('"', "") + '"'
    for place, line in enumerate(lines):
        lines[place] = line.replace(",nonbox,", f",{word},")


def a_row_of_another_study(lines, rng):
    place = rng.randrange(1, len(lines) - 1)
    lines[place] = lines[place].replace("zero-cost,", "thread-pools,", 1)


def another_header(lines, rng):
    lines[0] = rng.choice(
        ["", lines[0].replace("elapsed_ns", "elapsed_us"), lines[0] + ",more", lines[0].replace("round", "sample")]
    )


def a_cell_too_many(lines, rng):
    lines[rng.randrange(1, len(lines) - 1)] += f",{rng.choice(MARKUP)}"


def an_open_quote(lines, rng):
    place = rng.randrange(1, len(lines) - 1)
    lines[place] = '"' + lines[place]


def nothing_but_a_header(lines, rng):
    lines[1:] = [""]


def a_round_too_late(lines, rng):
    lines[-2] = ",".join(
        cell if place != 4 else str(rng.randrange(4, 2**31)) for place, cell in enumerate(lines[-2].split(","))
    )


def torn_packing(folder, rng):
    packed = gzip.compress((folder / TIME).read_bytes())
    (folder / TIME).unlink()
    (folder / f"{TIME}.gz").write_bytes(packed[: rng.randrange(len(packed))])


def there_twice(folder, rng):
    name = rng.choice([TIME, COUNTS])
    (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))


def a_table_of_nobody(folder, rng):
    (folder / rng.choice(["thread-pools.time.csv", "x.csv", "zero-cost.csv.gz"])).write_text("study,bench\n")


def a_count_is_none(folder, rng):
    lines = (folder / COUNTS).read_text().split("\n")
    place = rng.randrange(1, len(lines) - 1)
    lines[place] = lines[place].rpartition(",")[0] + "," + rng.choice(["", "x", "-1", "1.5", *MARKUP[:1]])
    (folder / COUNTS).write_text("\n".join(lines))


def torn_counts(folder, rng):
    text = (folder / COUNTS).read_text().rstrip("\n")
    (folder / COUNTS).write_text(text[: -rng.randrange(1, 9)])


def samples_of_another(folder, rng):
    """Nothing is damaged: it is a copy of an honest run under another name."""


DAMAGES = [
    change
    for change in list(globals().values())
    if callable(change) and getattr(change, "__code__", None) and change.__code__.co_varnames[1:2] == ("rng",)
]
