"""The one reader of tables: a file is read entirely or not at all.

The first row that breaks a rule of its schema becomes a `DataError` that names its line, column and remedy.
"""

import csv
import io
import re
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import dataframely as dy
import polars as pl

from async_cost.errors import DataError, quoted

REMEASURE = "A run is never edited: restore the file from where it was measured, or measure again"
#: What to do about a table that is no part of a run, such as data/claims.csv.
CORRECT = "Correct the row, or take it back from version control; data/README.md says what each column means"
#: What such a table is called; those of runs and experiments end in .time.csv, .csv.gz and so on.
BY_HAND = re.compile(r"[^.]+\.csv")
#: A compressed table of this size or more is refused unread: a hundred times the size of a long run, and little enough
#: for memory. A crafted file of a few kilobytes can unpack to any size.
MOST_UNPACKED = 512 << 20


def read_table(path: Path, schema: type[dy.Schema], study: str | None = None) -> pl.DataFrame:
    """All rows of a `.csv` or `.csv.gz` file, typed as `schema` says, with each row's line number in column `line`.

    If `study` is given, every row has to belong to it. Raises `DataError` for a torn or foreign file,
    unknown or missing columns, and the first row that breaks a rule of the schema.
    """
    text = _read_text(path)
    types = {name: column.dtype for name, column in schema.columns().items() if name != "line"}
    nullable = [name for name, column in schema.columns().items() if column.nullable]
    optional = pl.selectors.string() & pl.selectors.by_name(nullable)
    for parse in (_parsed, _split):
        raw = parse(path, text, types)
        if raw is None:
            continue
        good, failed = schema.filter(raw.with_columns(optional.replace("", None)), cast=True)
        if good.height == raw.height:
            break
    else:
        raise _first_failure(path, schema, failed.details())
    if study is not None:
        foreign = good.filter(pl.col("study") != study)
        refuse(path, foreign, "study", f"a row of study '{{study}}' in a file of study {study}")
    return good.sort("line")


def remedy(path: Path, measured: str = REMEASURE) -> str:
    """What to do about a file that cannot be read: `measured` if it is one of a run."""
    return CORRECT if BY_HAND.fullmatch(path.name) else measured


def refuse(path: Path, rows: pl.DataFrame, column: str, problem: str) -> None:
    """Raises `DataError` for the first of these rows, if there is one; `problem` is filled in from its columns."""
    for row in rows.sort("line").head(1).iter_rows(named=True):
        raise DataError(path, problem.format_map(row), remedy(path), row["line"], column)


def read_bytes(path: Path) -> bytes:
    """The content of a plain file, else `DataError`: opening a pipe blocks forever, and a link in a run from a stranger
    may lead to any file on this machine.
    """
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise DataError(path, "this is not a plain file", remedy(path))
        return path.read_bytes()
    except FileNotFoundError:
        raise DataError(path, "the file is missing", remedy(path)) from None
    except OSError as error:
        raise DataError(path, f"the file cannot be read ({type(error).__name__})", remedy(path)) from None


def _read_text(path: Path) -> str:
    data = read_bytes(path)
    if path.suffix == ".gz":
        stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        with suppress(zlib.error):
            data = stream.decompress(data, MOST_UNPACKED)
        if len(data) == MOST_UNPACKED:
            raise DataError(path, f"the compressed file holds {MOST_UNPACKED >> 20} MiB or more", REMEASURE)
        if not stream.eof or stream.unused_data:
            raise DataError(path, "the compressed file is damaged or cut off", REMEASURE)
    try:
        text = data.decode("utf-8-sig")  # an editor's byte order mark is no part of the text
    except UnicodeDecodeError as error:
        row = error.object.count(b"\n", 0, error.start) + 1
        raise DataError(path, "the text is not UTF-8", remedy(path), row=row) from None
    if not text:
        raise DataError(path, "the file is empty and lacks even a header", remedy(path), row=1)
    # A checkout on another system may have changed line ends; that changes no value.
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    if not text.endswith("\n"):
        raise DataError(path, "the last line is cut off", remedy(path), row=text.count("\n") + 1)
    return text


def _parsed(_path: Path, text: str, types: Mapping[str, pl.DataType]) -> pl.DataFrame | None:
    """The cells as split by polars, which takes a tenth of the time, whole numbers as such; None if it might read
    anything differently from `_split`.
    """
    header = text.partition("\n")[0].split(",")
    if sorted(header) != sorted(types) or "\r" in text:
        return None
    # A space before a number is an error, which polars would not see.
    spaced = ", " in text or '"' in text or "\t" in text
    read = {name: types[name] if types[name].is_integer() and not spaced else pl.String() for name in header}
    try:
        raw = pl.read_csv(io.BytesIO(text.encode()), schema=read)
    except pl.exceptions.PolarsError:
        return None
    # A row that is too short ends in nulls; so does one whose last cell is empty.
    if raw.is_empty() or raw.to_series(-1).null_count():
        return None
    raw = raw.select(
        pl.int_range(2, raw.height + 2, dtype=pl.UInt32).alias("line"),
        pl.col(pl.String).fill_null(""),
        pl.exclude(pl.String),
    )
    return raw if raw.height == text.count("\n") - 1 else None


def _split(path: Path, text: str, types: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """The cells of every row as texts in the order of the columns, and in `line` the line number of each row."""
    columns = list(types)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows = []
    try:
        header = next(reader)
        _check_header(path, header, columns)
        order = [header.index(name) for name in columns]
        for row in reader:
            if len(row) != len(header):
                problem = f"the row has {len(row)} cells, the header {len(header)}"
                raise DataError(path, problem, remedy(path), row=reader.line_num)
            rows.append((reader.line_num, *(row[place] for place in order)))
    except csv.Error as error:
        raise DataError(path, f"not a CSV row ({error})", remedy(path), row=reader.line_num) from None
    return pl.DataFrame(rows, schema={"line": pl.UInt32} | dict.fromkeys(columns, pl.String), orient="row")


def _check_header(path: Path, header: list[str], columns: list[str]) -> None:
    units = [name for name in header if name.startswith("elapsed_") and name not in columns]
    wrong = [(quoted(name), f"wrong unit: {quoted(name)} instead of elapsed_ns, in whole numbers") for name in units]
    wrong += [(name, f"column {name} is missing") for name in columns if name not in header]
    wrong += [(quoted(name), f"unknown column {quoted(name)}") for name in header if name not in columns]
    wrong += [(name, f"column {name} appears twice") for name in columns if header.count(name) > 1]
    for name, problem in wrong:
        columns_are = f"The columns are {','.join(columns)}; nothing is dropped silently"
        raise DataError(path, problem, columns_are, row=1, column=name)


def _first_failure(path: Path, schema: type[dy.Schema], details: pl.DataFrame) -> DataError:
    """The error for the first row that broke a rule, with the value as written in the file."""
    row = details.sort("line").row(0, named=True)
    # Values are checked before rules for rows, and those before keys: if a duplicate also has a wrong number, the
    # number is reported.
    rules = [name for name, state in row.items() if name not in schema.column_names() and state == "invalid"]
    rule = min(rules, key=lambda name: ("|dtype" not in name, "|" not in name, name == "primary_key"))
    if rule == "primary_key":
        return _duplicate(path, schema, details)
    column, _, kind = rule.partition("|")
    if not kind:
        problem = f"the rule '{rule.replace('_', ' ')}' does not hold"
        return DataError(path, problem, remedy(path), row["line"])
    value = row[column]
    number = schema.columns()[column].dtype.is_numeric()
    if kind in ("dtype", "nan", "inf") or (kind == "nullability" and number):
        whole = schema.columns()[column].dtype.is_integer()
        problem = f"{quoted(value)} is not a {'whole ' if whole else ''}number that fits this column"
        return DataError(path, problem, remedy(path), row["line"], column)
    if kind == "min":
        least = schema.columns()[column].min  # type: ignore[attr-defined]  # every column with this rule has it
        return DataError(path, f"{value} is below {least}", remedy(path), row["line"], column)
    problem = f"{quoted(value)} is not a valid name or value here (control characters, markup, spaces?)"
    renamed = "Rename it where it is declared and measure again"
    return DataError(path, problem, remedy(path, renamed), row["line"], column)


def _duplicate(path: Path, schema: type[dy.Schema], details: pl.DataFrame) -> DataError:
    """The error for a key that is on two lines: it names the second, and says where the first is."""
    key = schema.primary_key()
    first, second = (
        details.filter(pl.col("primary_key") == "invalid")
        .filter(pl.struct(key) == pl.struct(key).sort_by("line").first())
        .sort("line")["line"][:2]
    )
    problem = f"the same {', '.join(key)} is already on line {first}"
    return DataError(path, problem, remedy(path), second, "/".join(key))
