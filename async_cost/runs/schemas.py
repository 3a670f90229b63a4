"""The tables of a run and of the literature as schemas, which `reader` reads: data/README.md says what columns mean."""

import dataframely as dy
import polars as pl

#: Words that name a bench, variant, parameter or counter. They are shown in pages and terminals, and compared between
#: files, hence: no control or invisible characters, nothing that a page could take for markup, no outer spaces.
#: (No length in the expression: a bounded repetition of such classes made reading fifty times slower.)
WORD = r"^[^\p{C}\p{Z}<>&\"`\\|]([^\p{C}\p{Zl}\p{Zp}<>&\"`\\|]*[^\p{C}\p{Z}<>&\"`\\|])?$"
WORD_OR_NOTHING = f"^$|{WORD}"
#: Any text of one line in which all can be seen: a name in a run of the crate by-turns, which writes the rest out.
SEEN = r"^[^\p{Cc}\x{ad}\x{61c}\x{200b}-\x{200f}\x{2028}-\x{202e}\x{2060}-\x{206f}\x{feff}]+$"
#: Characters that such a word has at most.
LONGEST = 200
#: Free text from outside (a CPU name, a source): one line, no control characters. Shown only after `words.escape`.
LINE = r"^[^\p{Cc}\p{Zl}\p{Zp}]*$"
STUDY = r"^[a-z0-9]+(-[a-z0-9]+)*$"
COUNTER = r"^[a-z][a-z0-9_]*$"
#: When something changed, and what.
CHANGED = r"^\d{4}-\d\d-\d\d: [^\p{Cc}\p{Zl}\p{Zp}]+$"


class Rows(dy.Schema):
    """A row, with the number of its line, which is in no file."""

    line = dy.UInt32(nullable=False)


class KeyRows(Rows):
    """A row about one measured thing."""

    study = dy.String(nullable=False, regex=STUDY)
    bench = dy.String(nullable=False, primary_key=True, regex=WORD, max_length=LONGEST)
    variant = dy.String(nullable=False, primary_key=True, regex=WORD, max_length=LONGEST)
    parameter = dy.String(nullable=False, primary_key=True, regex=WORD_OR_NOTHING, max_length=LONGEST)


class SampleRows(KeyRows):
    """A row about one sample."""

    round = dy.UInt32(nullable=False, primary_key=True)
    position = dy.UInt32(nullable=False)
    sample = dy.UInt32(nullable=False, primary_key=True)  # type: ignore[assignment]  # hides a method that is not called


class TimeRows(SampleRows):
    """`<study>.time.csv`: one row for each sample, as it was taken."""

    iterations = dy.UInt64(nullable=False, min=1)
    elapsed_ns = dy.Int64(nullable=False, min=1)


class MetricRows(SampleRows):
    """`<study>.metrics.csv`: what else was noted about a sample, besides its time."""

    metric = dy.String(nullable=False, primary_key=True, regex=COUNTER)
    value = dy.Int64(nullable=False, min=0)


class CountRows(KeyRows):
    """`<study>.counts.csv`: exact counts for one iteration."""

    counter = dy.String(nullable=False, primary_key=True, regex=COUNTER)
    value = dy.Int64(nullable=False, min=0)


def of_crate(schema: type[dy.Schema]) -> type[dy.Schema]:
    """Return the schema of the same table in a run of the crate by-turns, where any text is a name."""
    name = {"nullable": False, "primary_key": True}
    bench, variant = (dy.String(**name, regex=SEEN) for _ in range(2))  # type: ignore[arg-type]
    columns = {"bench": bench, "variant": variant, "parameter": dy.String(**name, regex=f"^$|{SEEN}")}  # type: ignore[arg-type]
    return type(schema.__name__, (schema,), columns)


class PublishedRows(KeyRows):
    """`data/published/<study>.csv`: a figure that a document reported, in the printed unit."""

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


class ClaimRows(Rows):
    """`data/claims.csv`: a sentence that a document asserts, and the region of effects in which it is true."""

    id = dy.String(nullable=False, primary_key=True, regex=r"^[A-Z][0-9]+$")
    study = dy.String(nullable=False, regex=STUDY)
    basis = dy.String(nullable=False, regex=r"^(prose|figures|no claim)$")
    operation = dy.String(nullable=True, regex=r"^(value|ratio|ratio of ratios|difference|difference of differences)$")
    quantity = dy.String(nullable=True, regex=r"^(time|rate|count)$")
    per = dy.String(nullable=True, regex=COUNTER)
    of = dy.String(nullable=True, regex=r"^(all|most)$")
    relation = dy.String(nullable=True, regex=r"^(greater|less|at least|at most|about|same|between|equal)$")
    least = dy.Float64(nullable=True)
    most = dy.Float64(nullable=True)
    reason = dy.String(nullable=False, regex=LINE, min_length=1)
    published_value = dy.Float64(nullable=True)
    own_figure = dy.String(nullable=True, regex=LINE)
    unit = dy.String(nullable=True, regex=r"^(count|ratio|ns|us|ms|s)$")
    processors = dy.UInt32(nullable=True, min=1)
    published_processors = dy.UInt32(nullable=True, min=1)
    same_as = dy.String(nullable=True, regex=r"^[A-Z][0-9]+$")
    changed = dy.String(nullable=True, regex=CHANGED)
    statement = dy.String(nullable=False, regex=LINE)
    confound = dy.String(nullable=True, regex=LINE)
    source = dy.String(nullable=False, regex=LINE)

    @dy.rule()
    def what_is_no_claim_compares_nothing_and_a_claim_says_what(cls) -> pl.Expr:
        says = pl.all_horizontal(pl.col("operation", "quantity", "of", "relation", "unit", "processors").is_not_null())
        return pl.when(pl.col("basis") == "no claim").then(pl.col("operation").is_null()).otherwise(says)

    @dy.rule()
    def greater_and_at_least_have_only_least_less_and_at_most_only_most_the_others_both(cls) -> pl.Expr:
        needs_least = ~pl.col("relation").is_in(["less", "at most"])
        needs_most = ~pl.col("relation").is_in(["greater", "at least"])
        return (pl.col("least").is_not_null() == needs_least) & (pl.col("most").is_not_null() == needs_most)

    @dy.rule()
    def least_is_below_most_and_equal_to_it_where_the_relation_is_equal(cls) -> pl.Expr:
        least, most = pl.col("least"), pl.col("most")
        return pl.when(pl.col("relation") == "equal").then(least == most).otherwise(least < most)


class OperandRows(KeyRows):
    """`data/claims-operands.csv`: one key of the tidy data that a claim compares."""

    claim = dy.String(nullable=False, primary_key=True, regex=r"^[A-Z][0-9]+$")
    comparison = dy.String(nullable=False, primary_key=True, regex=r"^(published|counterpart|clean|ours)$")
    case = dy.UInt32(nullable=False, primary_key=True, min=1)
    place = dy.UInt32(nullable=False, primary_key=True, min=1)
    study = dy.String(nullable=False, primary_key=True, regex=STUDY)
    counter = dy.String(nullable=False, primary_key=True, regex=rf"^$|{COUNTER}")
    plus_ns = dy.Float64(nullable=True, min=0)
