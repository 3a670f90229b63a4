"""What a run will judge, as hashes that it records before its first round. Uses the standard library alone, since the
workflow passes them to the harness.
"""

import hashlib
import json
import re
from pathlib import Path

from async_cost.paths import repository_root

#: The modules that a region depends on.
REGIONS = ("findings/vocabulary.py", "findings/operands.py", "statistics/statement.py", "statistics/judge.py")
#: A cell that says a finding or makes an operand of one.
OF_FINDINGS = re.compile(r"\b(?:finding|pairs?|Pairs|ratio_of_ratios|more_added)\(")


def claims_of_today(root: Path | None = None) -> str:
    """The SHA-256 of the claims with their present regions and operands: of both files, one after the other."""
    folder = (repository_root() if root is None else root) / "data"
    files = [(folder / name).read_bytes() for name in ("claims.csv", "claims-operands.csv")]
    return hashlib.sha256(b"".join(files)).hexdigest()


def findings_of_today(root: Path | None = None) -> str:
    """The SHA-256 of the findings with their present regions: of the cells of the analyses that say them or make their
    operands, of the modules that give a word its region, and of what is declared and published.
    """
    root = repository_root() if root is None else root
    digest = hashlib.sha256()
    published = sorted((root / "data" / "published").glob("*.csv"))
    for path in (*(root / "async_cost" / name for name in REGIONS), root / "data" / "comparisons.csv", *published):
        digest.update(path.read_bytes() if path.is_file() else b"")
    for notebook in sorted((root / "notebooks").glob("*/analysis.ipynb")):
        for cell in json.loads(notebook.read_bytes())["cells"]:
            source = "".join(cell["source"])
            if cell["cell_type"] == "code" and OF_FINDINGS.search(source):
                digest.update(f"{notebook.parent.name}\0{source}\0".encode())
    return digest.hexdigest()
