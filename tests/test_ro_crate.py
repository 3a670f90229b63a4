"""The metadata of a run follow RO-Crate 1.1: every file is there, and whatever is named is described."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_up_runs import make_run, publish_example

from async_cost.report import ro_crate
from async_cost.runs.record import Toolchain

#: What an entity of each type must say, of the types that the specification has rules for.
REQUIRED = {
    "Dataset": {"name", "description", "datePublished", "license", "author", "hasPart"},
    "File": {"name", "encodingFormat", "contentSize", "conformsTo"},
    "CreateAction": {"name", "instrument", "result", "startTime"},
    "IndividualProduct": {"name", "description"},
    "SoftwareSourceCode": {"name", "version", "license", "author"},
    "Organization": {"name"},
    "Person": {"name"},
    "CreativeWork": set(),
}


def referred(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield value["@id"]
    elif isinstance(value, list):
        for part in value:
            yield from referred(part)


def checked(folder: Path) -> dict[str, dict]:
    """The entities of a crate by id, if they follow the rules and describe each file of the folder."""
    document = json.loads((folder / ro_crate.NAME).read_text(encoding="utf-8"))
    assert document["@context"] == "https://w3id.org/ro/crate/1.1/context"
    entities = {entity["@id"]: entity for entity in document["@graph"]}
    assert len(entities) == len(document["@graph"])
    about = entities[ro_crate.NAME]
    assert about["conformsTo"] == {"@id": "https://w3id.org/ro/crate/1.1"} and about["about"] == {"@id": "./"}
    for id, entity in entities.items():
        assert not (REQUIRED[entity["@type"]] - {name for name, value in entity.items() if value}), id
        named = {name for key, value in entity.items() if key[0] != "@" for name in referred(value)}
        assert named - entities.keys() <= {"https://w3id.org/ro/crate/1.1"}, id
    files = {path.name for path in folder.iterdir() if path.is_file() and path.name != ro_crate.NAME}
    assert {*referred(entities["./"]["hasPart"])} == files
    return entities


def test_the_command_describes_a_run_in_its_folder(tmp_path, monkeypatch):
    run = make_run(tmp_path, rounds=30, compress=True)
    monkeypatch.setattr(sys, "argv", ["ro_crate", str(run)])
    ro_crate.main()
    entities = checked(run)
    meaning = entities[entities["zero-cost.time.csv.gz"]["conformsTo"]["@id"]]
    assert meaning["name"].startswith("<study>.time.csv") and "| `elapsed_ns` |" in meaning["text"]
    assert entities["./"]["license"] == [{"@id": f"https://spdx.org/licenses/{id}"} for id in ("MIT", "Apache-2.0")]
    assert entities["#machine"]["name"] == "made-up"


def test_the_data_of_a_report_are_a_crate(tmp_path):
    entities = checked(publish_example(tmp_path) / "data")
    assert entities["#program"]["version"] == "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize("left_out", ["a file", "what a file is", "the machine"])
def test_a_gap_is_found(tmp_path, left_out):
    data = publish_example(tmp_path) / "data"
    document = json.loads((data / ro_crate.NAME).read_text(encoding="utf-8"))
    if left_out == "a file":
        shutil.copy(data / "run.json", data / "other.json")
    gone = {"a file": "", "what a file is": "#run-json", "the machine": "#machine"}[left_out]
    document["@graph"] = [entity for entity in document["@graph"] if entity["@id"] != gone]
    (data / ro_crate.NAME).write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(AssertionError):
        checked(data)


def test_what_a_run_does_not_know_is_left_out(tmp_path):
    changes = {"command": None, "ended": None, "git": None, "machine.cpu": None, "machine.os": None}
    changes["toolchain"] = dict.fromkeys(Toolchain.__struct_fields__)
    report = publish_example(tmp_path, **changes)
    entities = checked(report / "data")
    assert "endTime" not in entities["#measuring"] and "model" not in entities["#machine"]
    assert "None" not in (report / "data" / ro_crate.NAME).read_text(encoding="utf-8")


def test_authors_are_people_or_groups():
    person = {"given-names": "Ada", "family-names": "Lovelace", "orcid": "https://orcid.org/0000-0000-0000-0000"}
    assert ro_crate._author(person) == {"@id": person["orcid"], "@type": "Person", "name": "Ada Lovelace"}
    assert ro_crate._author({"name": "A group"}) == {"@id": "#A%20group", "@type": "Organization", "name": "A group"}
