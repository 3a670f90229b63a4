"""The tables of a run and of the literature as schemas, and the one function that reads them.

Every column is declared once, here, with its bounds (`line`, which is in no file, is the line a row stands on, for
messages). What the columns mean, and their units, is in data/README.md. A table is read whole or not at all: the first row that breaks
a rule becomes a `DataError` naming its line, column and remedy.
"""

import csv
import io
import zlib
from pathlib import Path

import dataframely as dy
import polars as pl

from async_cost.errors import DataError, quoted, require_plain_file

#: Words that name a bench, variant, parameter or counter. They are shown in pages and terminals, and compared between
#: files, hence: no control or invisible characters, nothing that a page could take for markup, no outer spaces.
WORD = r"^[^\p{C}\p{Z}<>&\"`\\|]([^\p{C}\p{Zl}\p{Zp}<>&\"`\\|]{0,198}[^\p{C}\p{Z}<>&\"`\\|])?$"
WORD_OR_NOTHING = f"^$|{WORD}"
#: Free text from outside (a CPU name, a source): one line, no control characters. Shown only after `words.escape`.
LINE = r"^[^\p{Cc}\p{Zl}\p{Zp}]*$"
STUDY = r"^[a-z0-9]+(-[a-z0-9]+)*$"
COUNTER = r"^[a-z][a-z0-9_]*$"

REMEASURE = "A run is never edited: restore the file from where it was measured, or measure again"
#: Bytes from which on a compressed table is refused unread: a hundred times what a long run has, and no more than memory holds. Some kilobytes,
#: made for it, unpack to any size.
MOST_UNPACKED = 512 << 20


class TimeRows(dy.Schema):
    """`<study>.time.csv`: one row for each Criterion sample, as it was taken."""

    line = dy.UInt32(nullable=False)
    study = dy.String(nullable=False, regex=STUDY)
    bench = dy.String(nullable=False, primary_key=True, regex=WORD)
    variant = dy.String(nullable=False, primary_key=True, regex=WORD)
    parameter = dy.String(nullable=False, primary_key=True, regex=WORD_OR_NOTHING)
    round = dy.UInt32(nullable=False, primary_key=True)
    position = dy.UInt32(nullable=False)
    sample = dy.UInt32(nullable=False, primary_key=True)
    iterations = dy.UInt64(nullable=False, min=1)
    elapsed_ns = dy.Int64(nullable=False, min=1)


class MetricRows(dy.Schema):
    """`<study>.metrics.csv`: what else was noted about a sample, besides its time."""

    line = dy.UInt32(nullable=False)
    study = dy.String(nullable=False, regex=STUDY)
    bench = dy.String(nullable=False, primary_key=True, regex=WORD)
    variant = dy.String(nullable=False, primary_key=True, regex=WORD)
    parameter = dy.String(nullable=False, primary_key=True, regex=WORD_OR_NOTHING)
    round = dy.UInt32(nullable=False, primary_key=True)
    position = dy.UInt32(nullable=False)
    sample = dy.UInt32(nullable=False, primary_key=True)
    metric = dy.String(nullable=False, primary_key=True, regex=COUNTER)
    value = dy.Int64(nullable=False, min=0)


class CountRows(dy.Schema):
    """`<study>.counts.csv`: exact counts for one iteration."""

    line = dy.UInt32(nullable=False)
    study = dy.String(nullable=False, regex=STUDY)
    bench = dy.String(nullable=False, primary_key=True, regex=WORD)
    variant = dy.String(nullable=False, primary_key=True, regex=WORD)
    parameter = dy.String(nullable=False, primary_key=True, regex=WORD_OR_NOTHING)
    counter = dy.String(nullable=False, primary_key=True, regex=COUNTER)
    value = dy.Int64(nullable=False, min=0)


class PublishedRows(dy.Schema):
    """`data/published/<study>.csv`: a figure that somebody else reported, in the unit in which it was printed."""

    line = dy.UInt32(nullable=False)
    study = dy.String(nullable=False, regex=STUDY)
    bench = dy.String(nullable=False, primary_key=True, regex=WORD)
    variant = dy.String(nullable=False, primary_key=True, regex=WORD)
    parameter = dy.String(nullable=False, primary_key=True, regex=WORD_OR_NOTHING)
    metric = dy.String(nullable=False, primary_key=True, regex=COUNTER)
    unit = dy.String(nullable=False, regex=r"^(ns|us|ms|s|count|mtasks/s)$")
    value = dy.Float64(nullable=False, min=0)
    low = dy.Float64(nullable=True, min=0)
    high = dy.Float64(nullable=True, min=0)
    machine = dy.String(nullable=False, regex=LINE)
    source = dy.String(nullable=False, regex=r"^[^\p{Cc}]+$")

    @dy.rule()
    def low_value_high_ascend(cls) -> pl.Expr:
        return (pl.col("low") <= pl.col("value")) & (pl.col("value") <= pl.col("high"))


class ClaimRows(dy.Schema):
    """`data/claims.csv`: a sentence that a published document asserts, and the region of effects in which it is true."""

    line = dy.UInt32(nullable=False)
    id = dy.String(nullable=False, primary_key=True, regex=r"^[A-Z][0-9]+$")
    study = dy.String(nullable=False, regex=STUDY)
    basis = dy.String(nullable=False, regex=r"^(prose|figures)$")
    operation = dy.String(
        nullable=False,
        regex=r"^(value|ratio|ratio of ratios|difference|difference of differences|relative standard error)$",
    )
    quantity = dy.String(nullable=False, regex=r"^(time|rate|count)$")
    per = dy.String(nullable=True, regex=COUNTER)
    relation = dy.String(nullable=False, regex=r"^(greater|less|at most|about|same|between|equal)$")
    least = dy.Float64(nullable=True)
    most = dy.Float64(nullable=True)
    published_value = dy.Float64(nullable=True)
    unit = dy.String(nullable=False, regex=r"^(count|ratio|fraction|ns|us|ms|s)$")
    statement = dy.String(nullable=False, regex=LINE)
    confound = dy.String(nullable=True, regex=LINE)
    source = dy.String(nullable=False, regex=LINE)

    @dy.rule()
    def greater_has_only_least_less_and_at_most_only_most_the_others_both(cls) -> pl.Expr:
        needs_least = pl.col("relation").is_in(["greater", "about", "same", "between", "equal"])
        needs_most = pl.col("relation") != "greater"
        return (pl.col("least").is_not_null() == needs_least) & (pl.col("most").is_not_null() == needs_most)

    @dy.rule()
    def least_and_most_agree_unless_the_relation_is_between(cls) -> pl.Expr:
        ordered = pl.col("least") <= pl.col("most")
        return pl.when(pl.col("relation") == "between").then(ordered).otherwise(pl.col("least") == pl.col("most"))

    @dy.rule()
    def only_a_difference_has_a_unit_of_time_or_is_per_something(cls) -> pl.Expr:
        difference = pl.col("operation").str.starts_with("difference")
        in_time = pl.col("unit").is_in(["ns", "us", "ms", "s"])
        return (difference == in_time) & (difference | pl.col("per").is_null())

    @dy.rule()
    def counts_are_values_or_ratios_and_values_are_counts(cls) -> pl.Expr:
        counted = pl.col("quantity") == "count"
        return (
            pl.when(counted)
            .then(pl.col("operation").is_in(["value", "ratio"]))
            .otherwise(pl.col("operation") != "value")
        )


class OperandRows(dy.Schema):
    """`data/claims-operands.csv`: one key of the tidy data that a claim compares."""

    line = dy.UInt32(nullable=False)
    claim = dy.String(nullable=False, primary_key=True, regex=r"^[A-Z][0-9]+$")
    comparison = dy.String(nullable=False, primary_key=True, regex=r"^(published|counterpart|clean)$")
    case = dy.UInt32(nullable=False, primary_key=True, min=1)
    place = dy.UInt32(nullable=False, primary_key=True, min=1)
    study = dy.String(nullable=False, primary_key=True, regex=STUDY)
    bench = dy.String(nullable=False, primary_key=True, regex=WORD)
    variant = dy.String(nullable=False, primary_key=True, regex=WORD)
    parameter = dy.String(nullable=False, primary_key=True, regex=WORD_OR_NOTHING)
    counter = dy.String(nullable=False, primary_key=True, regex=rf"^$|{COUNTER}")
    plus_ns = dy.Float64(nullable=True, min=0)


def read_table(path: Path, schema: type[dy.Schema], study: str | None = None) -> pl.DataFrame:
    """All rows of a `.csv` or `.csv.gz` file, typed as `schema` says, with each row's line number in column `line`.

    `study`, where given, is the study that every row has to belong to. Raises `DataError` for a torn or foreign file,
    unknown or missing columns, and the first row that breaks a rule of the schema.
    """
    text = _read_text(path)
    columns = [name for name in schema.column_names() if name != "line"]
    rows, lines = _split(path, text, columns)
    raw = pl.DataFrame(
        {"line": lines} | {name: list(cells) for name, cells in zip(columns, zip(*rows, strict=True), strict=True)}
        if rows
        else {"line": []} | {name: [] for name in columns},
        schema={"line": pl.UInt32} | dict.fromkeys(columns, pl.String),
    )
    optional = [name for name, column in schema.columns().items() if column.nullable]
    raw = raw.with_columns(pl.col(optional).replace("", None))
    good, failed = schema.filter(raw, cast=True)
    if good.height < raw.height:
        raise _first_failure(path, schema, failed.details())
    if study is not None:
        _all_of_study(path, good, study)
    return good.sort("line")


def unpacked(path: Path, data: bytes) -> bytes:
    """The content of a `.gz` file whose bytes are `data`. Raises `DataError` when it is damaged, cut off, or would take more than `MOST_UNPACKED`."""
    stream = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        text = stream.decompress(data, MOST_UNPACKED)
    except zlib.error:
        raise DataError(path, "the compressed file is damaged or cut off", REMEASURE) from None
    if stream.unconsumed_tail or len(text) == MOST_UNPACKED:
        raise DataError(path, f"the compressed file holds {MOST_UNPACKED >> 20} MiB or more", REMEASURE)
    if not stream.eof or stream.unused_data:
        raise DataError(path, "the compressed file is damaged or cut off", REMEASURE)
    return text


def _read_text(path: Path) -> str:
    try:
        require_plain_file(path)
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = unpacked(path, data)
    except FileNotFoundError:
        raise DataError(path, "the file is missing", REMEASURE) from None
    except OSError as error:
        raise DataError(path, f"the file cannot be read ({type(error).__name__})", REMEASURE) from None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        raise DataError(path, "the text is not UTF-8", REMEASURE, row=row) from None
    if not text:
        raise DataError(path, "the file is empty, not even a header is there", REMEASURE, row=1)
    # A checkout on another system may have changed line ends; that changes no value.
    text = text.replace("\r\n", "\n")
    if not text.endswith("\n"):
        raise DataError(path, "the last line is cut off", REMEASURE, row=text.count("\n") + 1)
    return text


def _split(path: Path, text: str, columns: list[str]) -> tuple[list[list[str]], list[int]]:
    """The cells of every row in the order of `columns`, and the line each row stands on."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows, lines = [], []
    try:
        header = next(reader)
        _check_header(path, header, columns)
        for row in reader:
            if len(row) != len(header):
                problem = f"{len(row)} cells in this row where the header names {len(header)}"
                raise DataError(path, problem, REMEASURE, row=reader.line_num)
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise DataError(path, f"not a CSV row ({error})", REMEASURE, row=reader.line_num) from None
    if header != columns:
        order = [header.index(name) for name in columns]
        rows = [[row[place] for place in order] for row in rows]
    return rows, lines


def _check_header(path: Path, header: list[str], columns: list[str]) -> None:
    unknown = [name for name in header if name not in columns]
    for name in unknown:
        if name.startswith("elapsed_"):
            remedy = "Times are kept in nanoseconds: export elapsed_ns, as whole numbers"
            raise DataError(path, f"wrong unit: {quoted(name)} instead of elapsed_ns", remedy, 1, quoted(name))
    for name in columns:
        if name not in header:
            remedy = f"The columns are {','.join(columns)}"
            raise DataError(path, f"column {name} is missing", remedy, row=1, column=name)
    for name in unknown:
        remedy = f"The columns are {','.join(columns)}; nothing is dropped silently"
        raise DataError(path, f"unknown column {quoted(name)}", remedy, row=1, column=quoted(name))
    if len(header) != len(columns):
        raise DataError(path, "a column appears twice", f"The columns are {','.join(columns)}", row=1)


def _first_failure(path: Path, schema: type[dy.Schema], details: pl.DataFrame) -> DataError:
    """The error for the first row that broke a rule, with the value as it stands in the file."""
    row = details.sort("line").row(0, named=True)
    # Values are looked at before rules for rows, and these before keys: a duplicate whose number is also wrong is first of all wrong.
    rules = [name for name, state in row.items() if name not in schema.column_names() and state == "invalid"]
    rule = min(rules, key=lambda name: ("|dtype" not in name, "|" not in name, name == "primary_key"))
    if rule == "primary_key":
        return _duplicate(path, schema, details)
    column, _, kind = rule.partition("|")
    if not kind:
        problem = f"the rule '{rule.replace('_', ' ')}' does not hold"
        return DataError(path, problem, "Compare the row with its source", row["line"])
    value = row[column]
    number = schema.columns()[column].dtype.is_numeric()
    if kind in ("dtype", "nan", "inf") or (kind == "nullability" and number):
        whole = schema.columns()[column].dtype.is_integer()
        problem = f"{quoted(value)} is not a {'whole ' if whole else ''}number that fits this column"
        return DataError(path, problem, REMEASURE, row["line"], column)
    if kind == "min":
        least = schema.columns()[column].min
        return DataError(path, f"{value} is below {least}", REMEASURE, row["line"], column)
    problem = f"{quoted(value)} is not a name or value that may stand here (control characters, markup, blanks?)"
    return DataError(path, problem, "Rename it where it is declared and measure again", row["line"], column)


def _duplicate(path: Path, schema: type[dy.Schema], details: pl.DataFrame) -> DataError:
    """The error for a key that stands on two lines: names the second, and where the first is."""
    key = schema.primary_key()
    first, second = (
        details.filter(pl.col("primary_key") == "invalid")
        .filter(pl.struct(key) == pl.struct(key).sort_by("line").first())
        .sort("line")["line"][:2]
    )
    problem = f"the same {', '.join(key)} stands already on line {first}"
    return DataError(path, problem, REMEASURE, second, "/".join(key))


def _all_of_study(path: Path, table: pl.DataFrame, study: str) -> None:
    foreign = table.filter(pl.col("study") != study).sort("line").head(1)
    for row in foreign.iter_rows(named=True):
        problem = f"a row of study {quoted(row['study'])} in a file of study {study}"
        raise DataError(path, problem, "Put each study's rows into its own file", row["line"], "study")
