"""run.json is read by one decoder: what it refuses, it refuses in our words, with the field and a remedy."""

import json

import pytest

from async_cost.errors import DataError
from async_cost.paths import repository_root
from async_cost.runs.comparisons import PAIR
from async_cost.runs.find import find_runs
from async_cost.runs.record import read_record, read_run_info

COMPARISON = dict(
    zip((*PAIR, "group", "change", "unit"), ("b", "w", "", "b", "v", "", "", "a box", "request"), strict=True)
)


@pytest.fixture
def document() -> dict:
    """A run.json with two studies."""
    (newest, *_) = (
        json.loads((run / "run.json").read_text()) for run in find_runs(repository_root() / "data" / "runs")
    )
    study = newest["studies"].popitem()[1]
    study |= {"groups": {"": 0.01}, "kinds": {"": "one thread"}, "comparisons": [COMPARISON]}
    return json.loads(json.dumps(newest | {"studies": {"one": study, "two": study}}))


@pytest.fixture
def refused(document, tmp_path):
    """What is said of the document, changed at a place."""

    def refusal(*place, value) -> DataError:
        part = document
        for step in place[:-1]:
            part = part[step]
        part[place[-1]] = value
        with pytest.raises(DataError) as caught:
            read(document, tmp_path)
        return caught.value

    return refusal


def read(document, folder):
    folder = folder / document["run_id"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.json").write_text(json.dumps(document))
    return read_run_info(folder / "run.json")


@pytest.mark.parametrize(
    ("place", "value", "field", "problem"),
    [
        (("machine", "logical_cores"), "two", "machine.logical_cores", "Expected a whole number or null, got text"),
        (("machine", "logical_cores"), True, "machine.logical_cores", "a whole number or null, got true or false"),
        (("machine", "logical_cores"), -1, "machine.logical_cores", "Expected a whole number >= 0"),
        (("machine", "caches", 1, "bytes"), 2**63, "machine.caches[1].bytes", f"a whole number <= {2**63 - 1}"),
        (("machine", "caches"), {}, "machine.caches", "Expected a list or null, got an object"),
        (("machine", "owner"), "me", "machine.'owner'", "unknown field 'owner'"),
        (("owner - at $.x",), "me", "'owner - at $.x'", "unknown field 'owner - at $.x'"),
        (("crates", "slab"), 4, "crates", "Expected text or a list, got a whole number"),
        (("git",), [], "git", "Expected an object or null, got a list"),
        (("studies", "two", "rounds"), 1.5, "studies.two.rounds", "Expected a whole number, got a number"),
        (("studies", "two", "groups", ""), "1 %", "studies.two.groups", "Expected a number, got text"),
        (("studies", "two", "groups", ""), 1.0, "studies.two.groups", "is not a share between 0 and 1"),
        (("studies", "two", "samples"), 10**6 + 1, "studies.two.samples", "Expected a whole number <= 1000000"),
        (("studies", "two"), [], "studies.two", "Expected an object, got a list"),
        (("studies", "two", "load_after"), [1, 10**400], "studies.two.load_after[1]", "Number out of range"),
        (("studies", "two", "comparisons"), None, "studies.two.comparisons", "Expected a list, got null"),
        (("studies", "two", "failed"), [{"bench": ""}], "studies.two.failed[0].variant", "the field is missing"),
        (("studies", "two", "controls"), ["a\nb"], "studies.two.controls[0]", "holds control characters"),
        (("machine", "a\tb"), 1, "machine", "holds control characters"),
        (("a`b",), 1, None, "the name of a field holds a backquote"),
    ],
)
def test_what_is_wrong_is_said_with_its_field(refused, place, value, field, problem):
    error = refused(*place, value=value)
    assert error.column == field
    assert problem in error.problem


def test_the_line_where_json_is_torn_is_named(tmp_path):
    (tmp_path / "run.json").write_text('{"schema_version": 2,\n"run_id":\n')
    with pytest.raises(DataError, match=r"run\.json, line 3: torn or invalid JSON"):
        read_record(tmp_path / "run.json")


def test_a_record_is_no_run_yet(document, tmp_path):
    """What experiments measure has a profile of its own and may be compiled for debugging."""
    document["profile"], document["codegen"]["opt_level"] = "test", 0
    with pytest.raises(DataError, match="profile"):
        read(document, tmp_path)
    assert read_record(tmp_path / document["run_id"] / "run.json").codegen.opt_level == 0
