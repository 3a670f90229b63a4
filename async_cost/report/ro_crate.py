"""A run as an RO-Crate 1.1 (https://w3id.org/ro/crate/1.1), in JSON-LD that archives read: its files and what their
columns mean, the machine and the program, when, by whom, under which licence.

    python -m async_cost.report.ro_crate data/runs/<machine>/<utc-time>

Made of run.json, CITATION.cff and data/README.md.
"""

import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import yaml  # type: ignore[import-untyped]

from async_cost.errors import DataError
from async_cost.files import write_whole
from async_cost.paths import repository_root, shown
from async_cost.report import provenance
from async_cost.runs.find import open_run
from async_cost.runs.record import RunInfo

NAME = "ro-crate-metadata.json"
VERSION = "https://w3id.org/ro/crate/1.1"
#: How a file's name ends, and how the section of data/README.md begins that says what is in it.
SECTIONS = {f"{lens}.csv": f"`<study>.{lens}.csv`" for lens in ("time", "metrics", "counts")}
#: What was compared (`<hash>.csv`) is described with run.json.
OTHERS = "`run.json`"
FORMATS = {".json": "application/json", ".csv": "text/csv", ".gz": "application/gzip"}
Entity = dict[str, Any]


def metadata(info: RunInfo, files: Iterable[Path]) -> str:
    """Return what ro-crate-metadata.json says beside these files of a run."""
    root = repository_root()
    cited = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    explained = (root / "data" / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]
    licences = [_entity(f"https://spdx.org/licenses/{id}", "CreativeWork", name=id) for id in cited["license"]]
    authors = [_author(author) for author in cited["authors"]]
    owned = {"author": _refs(authors), "license": _refs(licences)}
    meanings, parts = dict[str, Entity](), list[Entity]()
    for file in files:
        begin = next(
            (section for end, section in SECTIONS.items() if file.name.removesuffix(".gz").endswith(end)), OTHERS
        )
        heading, text = next(section for section in explained if section.startswith(begin)).split("\n", 1)
        id = f"#{re.sub(r'[^a-z]+', '-', begin).strip('-')}"
        meanings[id] = _entity(id, "CreativeWork", name=heading.replace("`", ""), text=text.strip())
        about = {"name": file.name, "encodingFormat": FORMATS[file.suffix], "contentSize": str(file.stat().st_size)}
        parts.append(_entity(quote(file.name), "File", **about, conformsTo={"@id": id}))
    machine, revision = info.machine, info.git and info.git.revision
    system = filter(None, (provenance.machine(info), machine.architecture, machine.os, machine.kernel))
    used = [
        _entity("#machine", "IndividualProduct", name=machine.name, model=machine.cpu, description=", ".join(system)),
        _entity("#program", "SoftwareSourceCode", name=cited["title"], version=revision or cited["version"], **owned),
    ]
    times = {"startTime": info.started, "endTime": info.ended}
    measuring: Entity = {
        "name": info.command or "a measurement",
        "instrument": _refs(used),
        "result": _refs(parts),
        **times,
    }
    action = _entity("#measuring", "CreateAction", **measuring)
    run: Entity = {
        "name": f"async-cost run {info.run_id}",
        "identifier": info.run_id,
        "description": provenance.headline(info),
    }
    run |= {"datePublished": info.ended or info.started, "hasPart": _refs(parts), "mentions": _refs([action]), **owned}
    descriptor = {"conformsTo": {"@id": VERSION}, "about": {"@id": "./"}}
    graph = [_entity(NAME, "CreativeWork", **descriptor), _entity("./", "Dataset", **run), *parts, action, *used]
    graph += [*meanings.values(), *authors, *licences]
    return json.dumps({"@context": f"{VERSION}/context", "@graph": graph}, indent=1, ensure_ascii=False) + "\n"


def _entity(id: str, kind: str, **properties: object) -> Entity:
    """An entity with what is known of it."""
    return {"@id": id, "@type": kind} | {name: value for name, value in properties.items() if value is not None}


def _refs(entities: Iterable[Entity]) -> Entity | list[Entity]:
    """What names these entities: a list, unless there is one alone, as RO-Crate recommends."""
    refs = [{"@id": entity["@id"]} for entity in entities]
    return refs[0] if len(refs) == 1 else refs


def _author(author: Entity) -> Entity:
    """An author of CITATION.cff: a person, who has a family name, or a group."""
    name = author.get("name") or f"{author['given-names']} {author['family-names']}"
    kind = "Person" if "family-names" in author else "Organization"
    return _entity(author.get("orcid") or author.get("website") or f"#{quote(name)}", kind, name=name)


def main() -> None:
    try:
        for run in open_run(Path(sys.argv[1])).sittings:
            tables = (run.file(study, lens) for study in run.info.studies for lens in ("time", "metrics", "counts"))
            files = [run.path / "run.json", *filter(Path.exists, tables)]
            write_whole(run.path / NAME, metadata(run.info, files))
            print(shown(run.path / NAME))
    except DataError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
