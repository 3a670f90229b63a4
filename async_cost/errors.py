"""The one error for data that cannot be used."""

from pathlib import Path

from async_cost.paths import shown


class DataError(Exception):
    """A file is invalid. The message names file, row, column and remedy.

    `row` is the line in the file, counted from 1 (the header is line 1), None if no single line is to blame.
    `column` is a column of a table or a field of run.json (`machine.name`). Values from outside are quoted by
    `quoted`, so that a message is safe on a terminal.
    """

    def __init__(self, path: Path, problem: str, remedy: str, row: int | None = None, column: str | None = None):
        self.path, self.problem, self.remedy, self.row, self.column = Path(path), problem, remedy, row, column
        where = shown(path)
        if row is not None:
            where += f", line {row}"
        if column is not None:
            where += f", {column}"
        super().__init__(f"{where}: {problem}. {remedy}")


def quoted(value: object) -> str:
    """`value` for an error message: control characters escaped, never longer than about 60 characters."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."
