"""The studies that measure, what they build on, and the analyses that read them. A new one is added here."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

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
    "zero-cost-sockets": Study("zero-cost/sockets", quick=6, standard=30),
    "spawn-apis": Study("spawn-apis/measure", quick=40, standard=240),
    "call-styles": Study("call-styles/measure", quick=20, standard=65),
    "thread-pools": Study("thread-pools/measure", quick=40, standard=300),
    "servers": Study("servers/measure", quick=40, standard=175),
    "runtimes-executor": Study("runtimes/executor", quick=2, standard=15),
    "runtimes": Study("runtimes/measure", quick=60, standard=290),
    "runtimes-std-mutex": Study("runtimes/std-mutex", quick=3, standard=7),
    "async-fn": Study("async-fn/measure", quick=5, standard=50),
    "async-fn-stopping": Study("async-fn/stopping", quick=5, standard=40),
}
#: Notebooks that others are built on, under notebooks/. They glance and measure nothing that is kept, so no run holds
#: them; what they cost is measured by the studies that use them.
LIBRARIES = (
    *("zero-cost/loop", "zero-cost/executors"),
    *("ladder/frontier", "call-styles/event-loop", "call-styles/executors"),
    *("thread-pools/described", "thread-pools/lean"),
)
#: Rooms whose notebook `analysis` reads a run, in the order of the published page, each with the studies of which one
#: must be in the run for its page to say something; none: it has something to say about every run.
ANALYSED = {
    "zero-cost": ("zero-cost",),
    "ladder": ("ladder",),
    "boxing-cost": ("ladder", "zero-cost"),
    "async-fn": ("async-fn", "async-fn-stopping"),
    "runtimes": ("runtimes",),
    "servers": ("servers",),
    "spawn-apis": ("spawn-apis",),
    "thread-pools": ("thread-pools",),
    "call-styles": ("call-styles",),
    "prices": tuple(MEASURED),
    "replication": (),
    "hardware": (),
    "trust": (),
}


def measuring(study: str) -> Path:
    """The notebook that measures `study`."""
    return ROOT / "notebooks" / f"{MEASURED[study].notebook}.ipynb"


def left_by(report: Path, study: str) -> Path:
    """Where the notebook that measured `study` is left, as it was executed, for the pages in the folder `report`."""
    return report / ".notebooks" / f"{MEASURED[study].notebook}.ipynb"


def analysis(room: str) -> Path:
    """The notebook that reads a run for `room`."""
    return ROOT / "notebooks" / room / "analysis.ipynb"


def source_of(notebook: Path) -> Path:
    """The crate root that corresponds to a Rust notebook: the same folder and name under rust-kernels."""
    return ROOT / "rust-kernels" / notebook.parent.name / f"{notebook.stem}.rs"


def crate_of(notebook: Path) -> Path:
    """The folder of the crate that a Rust notebook is: the room's for `measure`, else one of its own in the room."""
    room = ROOT / "rust-kernels" / notebook.parent.name
    return room if notebook.stem == "measure" else room / notebook.stem
