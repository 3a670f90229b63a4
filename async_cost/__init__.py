"""async-cost: from the raw samples of a run to sentences with error bars.

Packages in the order in which data flows; none uses a later one: `runs` (a run, or an error that says what to repair),
`statistics` (from samples to the table of comparisons, and what may be concluded), `literature` (what others reported
and claimed), `studies` (what a page picks from the table), `machines` (many runs), `report` (charts, words about a run,
pages). `workflow` is what `make` starts, `experiments` measures the measuring, `testing` makes up runs whose truth is
known. Modules that all of them use are next to them: `words` (numbers as prose), `errors`, `paths`.

No package is imported here: `workflow` runs before any is installed.
"""

import sys

# jsonschema, which Jupyter and altair import, would build a parser for addresses with foreign letters: a second for
# each process, and no notebook and no chart has one.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # Python's own way to forbid an import
