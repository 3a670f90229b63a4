"""async-cost: from the raw samples of a run to sentences with error bars.

A notebook says `import async_cost` and finds here what it needs: `open`, the operands of findings, and the shapes of
charts.

Packages in the order in which data flows; none uses a later one: `runs` (a run, or an error that says what to repair),
`statistics` (from samples to the table of comparisons, and what may be concluded), `literature` (what others reported
and claimed), `findings` (what our authors say, judged like those claims), `machines` (many runs), `report` (charts,
words about a run, pages). `workflow` is what `make` starts. Modules that all of them use are next to them: `words`
(numbers as prose), `errors`, `paths`, `files`.
"""

import sys
from importlib import import_module
from typing import Any

# jsonschema, which Jupyter and altair import, would build a parser for addresses with foreign letters: a second for
# each process, and no notebook and no chart has one.
sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]  # Python's own way to forbid an import

#: What a notebook uses, by the module that defines it. It is imported when it is first asked for: `workflow` runs
#: before any package is installed.
_OF_NOTEBOOKS = {
    "async_cost.report.reading": ("open", "say"),
    "async_cost.report.machines": ("open_machines",),
    "async_cost.findings.operands": ("pair", "pairs", "Pairs", "ratio_of_ratios", "difference_of_differences"),
    "async_cost.report.charts": ("intervals", "waterfall", "bars", "lines", "matrix", "changes"),
    "async_cost.report.tables": ("table", "comparison_table", "time_text"),
    "async_cost.runs.experiments": ("last_experiment",),
}
_MODULES = {name: module for module, names in _OF_NOTEBOOKS.items() for name in names}
__all__ = sorted(_MODULES)


def __dir__() -> "list[str]":
    return __all__


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"async_cost has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(_MODULES[name]), name)
