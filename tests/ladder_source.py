"""The table of rungs in the source of the ladder, for tests that ask by which switch two variants differ."""

import re

from async_cost.paths import repository_root

SOURCE = (repository_root() / "rust-kernels" / "ladder" / "measure.rs").read_text(encoding="utf-8")
#: The columns of the table of rungs in rust-kernels/ladder/measure.rs, by the switch that they set.
COLUMNS = ("keeps", "binding", "lookup", "waker", "queue", "storage", "handles", "cells", "buffer")
#: The switches of the variants above the rungs, from the loop down.
ABOVE = ("structure", "task", "dispatch", "placement", "runtime")


def _calls(first: str, last: str) -> list[tuple[str, str, str]]:
    """Rung type ("" above the rungs), variant and base of every variant that is made between two places of the
    source.
    """
    name = r'("[^"]+"|[A-Z]+)'
    body = SOURCE[SOURCE.index(first) : SOURCE.index(last)]
    calls = re.findall(rf"(?:\bnew\(|on_rung::<(\w+)>\()\s*{name},\s*\(?{name},", body)
    known = dict(re.findall(r'const (\w+): &str = "([^"]+)";', SOURCE))
    return [(rung, *(known.get(word, word.strip('"')) for word in words)) for rung, *words in calls]


def branches() -> list[str]:
    """The variants that stand in `branches()`."""
    return [variant for _, variant, _ in _calls("pub fn branches()", "pub fn expected(")]


def steps() -> dict[str, tuple[str, str]]:
    """Base and switch of every variant that is built on another, in the order of `ladder()` and `branches()`."""
    plain = _calls("pub fn ladder()", "pub fn expected(")
    columns = r"(true|false)\s+(true|false)\s+" + r",\s*".join([r"([\w<>]+)"] * 7)
    table = {rung: switches for rung, *switches in re.findall(rf"(\w+):\s+{columns};", SOURCE)}
    rungs = {variant: table[rung] for rung, variant, _ in plain if rung}
    found = {}
    for (_, variant, base), above in zip(plain, [*ABOVE, *[""] * len(plain)], strict=False):
        switches = [above]
        if base in rungs:
            pairs = zip(COLUMNS, rungs[variant], rungs[base], strict=True)
            switches = [column for column, mine, other in pairs if mine != other]
        (found[variant],) = ((base, switch) for switch in switches)
    return found


def turned(one: str, other: str) -> set[str]:
    """The switches that are turned between two variants, on the way over the rung on which both are built."""
    down, ways = steps(), []
    for variant in (one, other):
        way, switches = {variant: set[str]()}, set[str]()
        while variant in down:
            variant, switch = down[variant]
            switches = switches | {switch}
            way[variant] = switches
        ways.append(way)
    common = next(rung for rung in ways[0] if rung in ways[1])
    return ways[0][common] | ways[1][common]
