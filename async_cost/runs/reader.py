"""The one reader of files: a file is read entirely or not at all.

The first row that breaks a rule of its schema becomes a `DataError` that names its line, column and remedy.
"""

import codecs
import gzip
import re
import zlib
from pathlib import Path
from typing import NoReturn

import dataframely as dy
import msgspec
import polars as pl

from async_cost.errors import DataError, quoted

REMEASURE = "A run is never edited: restore the file from where it was measured, or measure again"
#: What to do about a table that is no part of a run, such as data/claims.csv.
CORRECT = "Correct the row, or take it back from version control; data/README.md says what each column means"
#: What such a table is called; those of runs and experiments end in .time.csv, .csv.gz and so on.
BY_HAND = re.compile(r"[^.]+\.csv")
QUOTED_CELL = re.compile(rb'(?:(?<=,)|^)"(?:[^"]|"")*"(?=,|$)')


def read_table(path: Path, schema: type[dy.Schema], study: str | None = None) -> pl.DataFrame:
    """Read a `.csv` or `.csv.gz` file, typed as `schema` says, with each row's line number in column `line`.

    If `study` is given, every row has to belong to it. Raises `DataError` for a torn or foreign file,
    unknown or missing columns, and the first row that breaks a rule of the schema.
    """
    data = _unpacked(path)
    columns = {name: column for name, column in schema.columns().items() if name != "line"}
    header = data[: data.index(b"\n")].decode(errors="replace").split(",")
    _check_header(path, header, list(columns))
    nullable = pl.selectors.by_name(*(name for name, column in columns.items() if column.nullable))
    if BY_HAND.fullmatch(path.name):
        _check_lines(path, data)
    failed = None
    # A table with a bad cell is read again as text, to find it.
    for types in ({name: columns[name].dtype for name in header}, dict.fromkeys(header, pl.String)):
        try:
            rows = pl.read_csv(
                data, schema=types, row_index_name="line", row_index_offset=2, empty_string_is_null=False
            )
        except pl.exceptions.PolarsError:
            continue
        if rows.height != data.count(b"\n") - 1:
            continue
        good, failed = schema.filter(rows.with_columns((pl.selectors.string() & nullable).replace("", None)), cast=True)
        if good.height == rows.height:
            break
    else:
        _check_lines(path, data)
        if failed is None:
            raise DataError(path, "this is no CSV table", remedy(path))
        _refuse_first(path, schema, failed.details())
    if study is not None:
        foreign = good.filter(pl.col("study") != study)
        refuse(path, foreign, "study", f"a row of study '{{study}}' in a file of study {study}")
    return good


def read_own(path: Path, **numbers: type[pl.DataType]) -> pl.DataFrame:
    """Read a table of ours, such as data/names.csv: text, empty where nothing is, but for the columns `numbers`."""
    return pl.read_csv(path, infer_schema=False, empty_string_is_null=False).cast(numbers)  # type: ignore[arg-type]


def read_json(path: Path) -> dict:
    """Read a JSON file that holds one object. Raises `DataError` for a file that holds anything else."""
    try:
        document = msgspec.json.decode(read_bytes(path))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(path, f"torn or invalid JSON ({error})", REMEASURE) from None
    if not isinstance(document, dict):
        raise DataError(path, "not a JSON object", REMEASURE)
    return document


def read_bytes(path: Path) -> bytes:
    """Read a plain file, without an editor's byte order mark, else raise `DataError`: opening a pipe blocks forever,
    and a link in a run from a stranger may lead to any file on this machine.
    """
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise DataError(path, "this is not a plain file", remedy(path))
        return path.read_bytes().removeprefix(codecs.BOM_UTF8)
    except FileNotFoundError:
        raise DataError(path, "the file is missing", remedy(path)) from None
    except OSError as error:
        raise DataError(path, f"the file cannot be read ({type(error).__name__})", remedy(path)) from None


def remedy(path: Path) -> str:
    """Return what to do about a file that cannot be read."""
    return CORRECT if BY_HAND.fullmatch(path.name) else REMEASURE


def refuse(path: Path, rows: pl.DataFrame, column: str, problem: str) -> None:
    """Raise `DataError` for the first of these rows, if there is one; `problem` is filled in from its columns."""
    for row in rows.sort("line").head(1).iter_rows(named=True):
        raise DataError(path, problem.format_map(row), remedy(path), row["line"], column)


def _unpacked(path: Path) -> bytes:
    data = read_bytes(path)
    if path.suffix == ".gz":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            raise DataError(path, "the compressed file is damaged or cut off", REMEASURE) from None
    if not data.endswith(b"\n"):
        problem = "the last line is cut off" if data else "the file is empty and lacks even a header"
        raise DataError(path, problem, remedy(path), row=data.count(b"\n") + 1)
    # A checkout on another system may have changed line ends; that changes no value.
    return data.replace(b"\r\n", b"\n")


def _check_header(path: Path, header: list[str], columns: list[str]) -> None:
    wrong = [(name, f"column {name} is missing") for name in columns if name not in header]
    wrong += [(quoted(name), f"unknown column {quoted(name)}") for name in header if name not in columns]
    wrong += [(name, f"column {name} appears twice") for name in columns if header.count(name) > 1]
    for name, problem in wrong:
        columns_are = f"The columns are {','.join(columns)}; nothing is dropped silently"
        raise DataError(path, problem, columns_are, row=1, column=name)


def _check_lines(path: Path, data: bytes) -> None:
    """Refuse the first line that is no row: polars fills a short one up, and says of others not where they are."""
    cells = data[: data.index(b"\n")].count(b",") + 1
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        bare, problem = QUOTED_CELL.sub(b"", line), ""
        if b'"' in bare:
            problem = "a quote stands within a cell, or its cell does not end in this line"
        elif (count := bare.count(b",") + 1) != cells:
            problem = f"the row has {count} cells, the header {cells}"
        else:
            try:
                line.decode()
            except UnicodeDecodeError:
                problem = "the text is not UTF-8"
        if problem:
            raise DataError(path, problem, remedy(path), row=number)


def _refuse_first(path: Path, schema: type[dy.Schema], details: pl.DataFrame) -> NoReturn:
    """Raise the error for the first row that broke a rule, with the value as written in the file."""
    row = details.sort("line").row(0, named=True)
    # Values are checked before rules for rows, and those before keys: if a duplicate also has a wrong number, the
    # number is reported.
    rules = [name for name, state in row.items() if name not in schema.column_names() and state == "invalid"]
    column, _, kind = min(rules, key=lambda name: ("|" not in name, name == "primary_key")).partition("|")
    if column == "primary_key":
        key = schema.primary_key()
        same = details.filter(pl.struct(key) == pl.struct(key).sort_by("line").first())
        first, second = same.sort("line")["line"][:2]
        problem = f"the same {', '.join(key)} is already on line {first}"
        raise DataError(path, problem, remedy(path), second, "/".join(key))
    if not kind:
        raise DataError(path, f"the rule '{column.replace('_', ' ')}' does not hold", remedy(path), row["line"])
    declared, value = schema.columns()[column], quoted(row[column])
    if kind == "min":
        problem = f"{value} is below {declared.min}"  # type: ignore[attr-defined]  # each column with this rule has it
    elif declared.dtype.is_numeric():
        problem = f"{value} is not a {'whole ' if declared.dtype.is_integer() else ''}number that fits this column"
    else:
        problem = f"{value} is not a valid name or value here (control characters, markup, spaces?)"
    raise DataError(path, problem, remedy(path), row["line"], column)
