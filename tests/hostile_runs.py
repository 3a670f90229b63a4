"""Run folders as a careless or a hostile stranger could send them: a copy for each kind of damage."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from made_up_runs import OFF, change_record, copy_of

TIME, COUNTS, INFO = "zero-cost.time.csv", "zero-cost.counts.csv", "run.json"
STUDY = "studies.zero-cost"
#: Each would be noticed in a browser: a dialog, or a name on the window.
MARKUP = (
    "<img src=x onerror='window.hacked=1'>",
    "</title></style></script><svg onload=window.hacked=1>",
    "[x](javascript:window.hacked=1)`</code><iframe srcdoc='<script>parent.hacked=1</script>'>`",
)


class Damage(NamedTuple):
    """What changes a run in its folder, and what is said of it then: words, the file, the line, the column."""

    change: Callable[[Path], object]
    says: str
    file: str = TIME
    row: int | None = None
    column: str | None = None


def record(field: str, value: object) -> Callable[[Path], object]:
    """A field of run.json, by dotted name."""
    return lambda run: change_record(run, {field: value})


def text(change: Callable[[str], str], file: str = TIME) -> Callable[[Path], object]:
    """A change of a file's text."""
    return lambda run: (run / file).write_text(change((run / file).read_text()), errors="surrogateescape")


def cell(number: int, column: str, value: str, file: str = TIME) -> Callable[[Path], object]:
    """A cell, on the line of that number."""

    def change(table: str) -> str:
        lines = table.split("\n")
        cells = lines[number - 1].split(",")
        cells[lines[0].split(",").index(column)] = value
        return "\n".join([*lines[: number - 1], ",".join(cells), *lines[number:]])

    return text(change, file)


def replaced(old: str, new: str, file: str = TIME) -> Callable[[Path], object]:
    """The first `old`."""
    return text(lambda table: table.replace(old, new, 1), file)


def without(part: str) -> Callable[[Path], object]:
    """No line that holds `part`."""
    return text(lambda table: "".join(line for line in table.splitlines(keepends=True) if part not in line))


def a_link(run: Path) -> None:
    (run / INFO).rename(run.parent / INFO)
    (run / INFO).symlink_to(run.parent / INFO)


def torn_packing(run: Path) -> None:
    packed = gzip.compress((run / TIME).read_bytes())
    (run / TIME).unlink()
    (run / f"{TIME}.gz").write_bytes(packed[:-20])


#: By kind.
DAMAGES = {
    "a torn table": Damage(text(lambda table: table[:-4]), "cut off"),
    "a torn packing": Damage(torn_packing, "damaged or cut off", f"{TIME}.gz"),
    "nothing but a header": Damage(text(lambda table: table.split("\n")[0] + "\n"), "the run is empty", row=1),
    "no table": Damage(lambda run: (run / COUNTS).unlink(), "the file is missing", COUNTS),
    "a table of another study": Damage(lambda run: (run / "x.time.csv").touch(), "no such study", "x.time.csv"),
    "a table twice": Damage(lambda run: (run / f"{TIME}.gz").touch(), "there twice"),
    "a link": Damage(a_link, "not a plain file", INFO),
    "no text": Damage(cell(3, "study", "z\udcffro"), "not UTF-8", row=3),
    "an open quote": Damage(cell(4, "study", '"zero-cost'), "a quote stands within", row=4),
    "an unknown column": Damage(replaced("elapsed_ns", "elapsed_ns,note"), "unknown column", row=1, column="'note'"),
    "no number": Damage(cell(7, "elapsed_ns", "NaN"), "'NaN' is not a whole number", row=7, column="elapsed_ns"),
    "a negative count": Damage(cell(3, "value", "-1", COUNTS), "is below 0", COUNTS, 3, "value"),
    "a name that is markup": Damage(cell(5, "variant", f'"{MARKUP[0]}"'), "valid name", row=5, column="variant"),
    "a row of another study": Damage(cell(6, "study", "spawn-apis"), "a row of study", row=6, column="study"),
    "a sample twice": Damage(text(lambda table: table + table.split("\n")[4] + "\n"), "already on line 5"),
    "a sample too few": Damage(text(lambda table: table[: table[:-1].rindex("\n") + 1]), "1 samples instead of 2"),
    "a round too few": Damage(without(f",nonbox,{OFF},1,"), "was measured in 2 rounds", column="round"),
    "two positions": Damage(cell(2, "position", "77"), "2 positions", column="position"),
    "torn JSON": Damage(text(lambda info: info[:-100], INFO), "torn or invalid JSON", INFO),
    "another version": Damage(record("schema_version", 5), "this package reads 4", INFO, column="schema_version"),
    "an unknown field": Damage(
        replaced('"machine": {', f'"machine": {{"{MARKUP[0]}": 1,', INFO), "unknown field", INFO
    ),
    "a path for a machine": Damage(record("machine.name", "../../etc"), "matching regex", INFO, column="machine.name"),
    "a study that is markup": Damage(replaced('"zero-cost": {', f'"{MARKUP[1]}": {{', INFO), "regex", INFO),
    "unfinished": Damage(record(f"{STUDY}.state", MARKUP[2]), "not complete", INFO, column=f"{STUDY}.state"),
    "a limit of all": Damage(record(f"{STUDY}.groups.", 1.0), "`float` < 1.0", INFO, column=f"{STUDY}.groups[...]"),
    "a debug build": Damage(record("codegen.debug_assertions", True), "as a debug build", INFO),
}


def hostile_copies(honest: Path) -> dict[str, str]:
    """Writes a damaged copy of a run for each kind beside it; the kind by `<machine>/<utc-time>`."""
    kinds = {f"stranger-{place:02}": kind for place, kind in enumerate(DAMAGES)}
    for machine, kind in kinds.items():
        DAMAGES[kind].change(copy_of(honest, machine))
    return {f"{machine}/{honest.name}": kind for machine, kind in kinds.items()}
