"""Small files of our own: written whole or not at all, and read as nothing where they are torn. Uses the standard
library alone.
"""

import json
import os
from pathlib import Path
from typing import Any


def write_whole(file: Path, content: str | bytes) -> None:
    """Writes a file entirely or not at all: a reader never sees half of it."""
    partial = file.with_name(f".{file.name}.partial")
    partial.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(partial, file)


def read_json(file: Path, instead: Any) -> Any:
    """What a file of JSON holds; `instead` where it is missing, or was cut off (on a full disk, for instance)."""
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return instead
