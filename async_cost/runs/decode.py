"""JSON files as typed records (`msgspec.Struct`): complete and of the right types, or a `DataError` with the field."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import NoReturn, TypeVar

import msgspec

from async_cost.errors import DataError, quoted
from async_cost.runs.reader import REMEASURE, read_bytes

#: What msgspec calls the types of JSON, in our words.
TYPES = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false"}
TYPES |= {"array": "a list", "object": "an object"}
Kind = TypeVar("Kind")
#: What msgspec knows of a type it collects at the first conversion; two threads at once have crashed it.
ONE_AT_A_TIME = Lock()


def read_json(path: Path) -> dict:
    """The JSON object in a file, all of whose words are plain text. (msgspec itself lets doubled fields pass.)"""

    def plain_fields(pairs: list) -> dict:
        seen = dict(pairs)
        if len(seen) != len(pairs):
            raise DataError(path, "a field appears twice", REMEASURE)
        if any("`" in name for name in seen):  # it would be taken for the end of the name in messages of msgspec
            raise DataError(path, "the name of a field holds a backquote", REMEASURE)
        return seen

    def no_constant(name: str) -> NoReturn:
        raise DataError(path, f"{name} is not a number", "Write null for an unknown fact")

    data = read_bytes(path)
    try:
        document = json.loads(data.decode("utf-8-sig"), object_pairs_hook=plain_fields, parse_constant=no_constant)
        unprintable = [(field, word) for field, word in _words(document) if not word.isprintable()]
    except json.JSONDecodeError as error:
        raise DataError(path, "torn or invalid JSON", REMEASURE, row=error.lineno) from None
    except (ValueError, RecursionError):  # not UTF-8, a number of thousands of digits, or thousands of brackets
        raise DataError(path, "not JSON text", REMEASURE) from None
    if not isinstance(document, dict):
        raise DataError(path, "not a JSON object", REMEASURE)
    for field, word in unprintable[:1]:
        problem = f"{quoted(word)} holds control characters"
        raise DataError(path, problem, "Write plain text in one line", column=field)
    return document


def _words(value: object, field: str = "") -> Iterator[tuple[str, str]]:
    """All texts in a JSON value, names of fields included, each with the dotted name of its field."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, list):
        for place, entry in enumerate(value):
            yield from _words(entry, f"{field}[{place}]")
    elif isinstance(value, dict):
        for name, entry in value.items():
            yield field, name
            yield from _words(entry, f"{field}.{name}".lstrip("."))


def typed(path: Path, kind: type[Kind], document: dict, field: str = "") -> Kind:
    """`document`, the content of `field` in `path`, as a record. Objections of msgspec are put in our words."""
    try:
        with ONE_AT_A_TIME:
            return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        problem, _, place = str(error).removesuffix("`").partition(" - at `$")
    # For an entry of a mapping msgspec says `[...]`.
    field = (field + place.replace("[...]", "")).lstrip(".")
    what, _, name = problem.removesuffix("`").partition(" field `")
    if what == "Object missing required":
        remedy = "An unknown fact is null, not left out; an older run has to be measured again"
        raise DataError(path, "the field is missing", remedy, column=f"{field}.{name}".lstrip("."))
    if what == "Object contains unknown":
        remedy = "Nothing is dropped silently: use the revision of async-cost that made the run"
        raise DataError(path, f"unknown field {quoted(name)}", remedy, column=f"{field}.{quoted(name)}".lstrip("."))
    problem = re.sub(r"\w+", lambda word: TYPES.get(word[0], word[0]), problem.replace("`", "").replace(" |", " or"))
    raise DataError(path, problem, "See data/README.md, or measure again", column=field)
