"""The JSON schema of run.json, for programs that are not ours: made from the records of `async_cost.runs.record`.

python -m async_cost.runs.schema        # writes data/run.schema.json
"""

import json

import msgspec

from async_cost.paths import repository_root
from async_cost.runs.record import RunInfo


def text() -> str:
    """The schema, as JSON Schema 2020-12: types, names and limits. `read_run_info` demands more."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(RunInfo)}
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    (repository_root() / "data" / "run.schema.json").write_text(text(), encoding="utf-8")
