"""Pages, charts and tables."""

import sys

# jsonschema, which altair imports, would build a parser for addresses with foreign letters: a second, for no chart.
sys.modules.setdefault("rfc3987_syntax", None)  # Python's own way to forbid an import
