"""The studies that measure, what they build on, and the analyses that read them. A new one is added here."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from async_cost.files import read_json
from async_cost.workflow.toolchain import ROOT

#: Seconds that a lone study measures in the quick profile: its page should be worth the wait for what is compiled.
ALONE_S = 40


class Study(NamedTuple):
    """A study that measures: its notebook under notebooks/, and the seconds that measuring takes on two cores in the
    quick profile and in a standard sitting, from which the time left is told until the study says it itself.
    """

    notebook: str
    quick: int
    standard: int

    def seconds(self, profile: str) -> float:
        """What measuring takes in `profile`."""
        return {"smoke": self.quick / 4, "quick": self.quick, "standard": self.standard}.get(profile, 2 * self.standard)

    def times(self, profile: str) -> int:
        """How many times its rounds and episodes fit into `ALONE_S`, if nothing else is measured quickly."""
        return max(1, round(ALONE_S / self.quick)) if profile == "quick" else 1


#: Studies that measure, in order. A study's name is that of its crate and its files.
MEASURED = {
    "zero-cost": Study("zero-cost/measure", quick=3, standard=30),
    "ladder": Study("ladder/measure", quick=2, standard=20),
    "zero-cost-sockets": Study("zero-cost/sockets", quick=11, standard=60),
    "spawn-apis": Study("spawn-apis/measure", quick=40, standard=240),
    "call-styles": Study("call-styles/measure", quick=20, standard=65),
    "thread-pools": Study("thread-pools/measure", quick=40, standard=300),
    "servers": Study("servers/measure", quick=40, standard=175),
    "servers-open": Study("servers/open", quick=47, standard=245),
    "runtimes-executor": Study("runtimes/executor", quick=2, standard=15),
    "runtimes": Study("runtimes/measure", quick=100, standard=480),
    "runtimes-std-mutex": Study("runtimes/std-mutex", quick=3, standard=7),
    "async-fn": Study("async-fn/measure", quick=5, standard=50),
    "async-fn-stopping": Study("async-fn/stopping", quick=5, standard=40),
    "channels": Study("channels/measure", quick=2, standard=26),
    "channels-threads": Study("channels/threads", quick=8, standard=68),
    "locks": Study("locks/measure", quick=4, standard=69),
}


def measuring(study: str) -> Path:
    """The notebook that measures `study`."""
    return ROOT / "notebooks" / f"{MEASURED[study].notebook}.ipynb"


def analysed() -> dict[str, tuple[str, ...]]:
    """Return the folders whose notebook `analysis` reads a run, in the order of the published pages, each with the
    studies of which one must be in the run; none: it has something to say about every run. The notebook's own metadata
    says so: `async_cost` holds `order`, `question` (as the front page asks it) and `studies`.
    """
    notebooks = (ROOT / "notebooks").glob("*/analysis.ipynb")
    about = {path.parent.name: read_json(path, {}).get("metadata", {}).get("async_cost") for path in notebooks}
    ordered = sorted((entry["order"], folder, tuple(entry["studies"])) for folder, entry in about.items() if entry)
    return {folder: studies for _, folder, studies in ordered}


def analysis(folder: str) -> Path:
    """The notebook that reads a run for `folder`."""
    return ROOT / "notebooks" / folder / "analysis.ipynb"


def source_of(notebook: Path) -> Path:
    """The crate root that corresponds to a Rust notebook: the same folder and name under rust-kernels."""
    return ROOT / "rust-kernels" / notebook.parent.name / f"{notebook.stem}.rs"
