"""A made-up run and executed notebook, as nasty as a stranger could send them, published for the page tests."""

import json
from pathlib import Path

import nbformat
import polars as pl
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from async_cost.report import charts
from async_cost.report.notebook import OF_CODE, page_of
from async_cost.report.publish import publish
from async_cost.testing.made_up_runs import Study, older, run_record, study_record

HOSTILE = "<script>alert('mine')</script><img src=x onerror=alert(1)>"
ANSWER = "Plain async takes 2.61 times as long as the hand-written loop."
#: Every kind of word that code is coloured by, and a line that is wider than the page.
CODE = '''# a comment
import polars as pl
@decorated
class Sample(Base):
    """Words."""
    def shown(self, number: int = 7, *rest) -> str:
        return f"{number:g} {self}" if not number in [1, 0x10, 2.5] and None is not True else b"\\n" + print(lambda x: x**2)
assert len(name) > 3, "a long line that nobody broke, so that whoever reads it on a phone has to move it sideways, which takes a keyboard or a finger"
'''
FINDING = "nonbox takes 2.61 times as long as manual; boxing adds to it"

RATIOS = pl.DataFrame(
    {
        "variant": ["manual (A/A)", "manual (best)", "nonbox", "large+nonbox", "box", "box+chkrc"],
        "ratio": [1.001, 0.82, 2.61, 4.9, 2.98, 3.3],
        "low": [0.998, 0.80, 2.58, 4.7, 2.9, 2.7],
        "high": [1.004, 0.83, 2.66, 5.1, 3.05, 3.7],
        "published": [None, None, 3.7, 7.6, 4.0, 4.53],
        "verdict": ["same", "faster", "slower", "slower", "slower", "undecided"],
    }
)
BREAK_EVEN = pl.DataFrame(
    {
        "work_us": [0.1, 0.3, 1.0, 3.0, 10.0],
        "overhead": [120.0, 50.0, 15.0, 5.0, 1.4],
        "low": [100.0, 45.0, 13.0, 4.0, 0.9],
        "high": [140.0, 55.0, 17.0, 6.0, 1.9],
    }
)
DRIFT = pl.DataFrame({"round": range(60), "time": [33 + n % 7 / 5 + 20 * (20 < n < 30) for n in range(60)]})
COUNTS = pl.DataFrame(
    {
        "variant": ["manual", "nonbox", "box"] * 2,
        "value": [2308, 2308, 2308, 1, 1, 514],
        "series": ["I/O operations"] * 3 + ["allocations"] * 3,
        "text": ["2,308"] * 3 + ["0", "1", "514"],
    }
)


def run_info(**changes: object) -> dict[str, object]:
    """A run.json; `changes` replace its top-level entries."""
    span = {"started": "2026-11-20T19:01:02Z", "ended": "2026-11-20T19:04:02Z"}
    study = study_record("zero-cost", 60, 10, 7, Study(times={}, baseline="manual")) | span
    study["episodes"] = [{"first_round": 0, "only": None, "layout": None, **span}]
    study |= {"resumed": 1, "steal_before_ms": 100, "steal_after_ms": 140}
    info = older(run_record("toy-2c", "20261120T190102Z", "standard") | {"studies": {"zero-cost": study}}, 3)
    cpu = "Toy CPU 3000 with a rather long name @ 2.40 GHz"
    info["machine"] |= {"cpu": cpu, "virtualisation": "kvm", "os": f"Toy OS {HOSTILE}"}
    git = {"revision": "0123456789abcdef0123456789abcdef01234567", "clean": True}
    return info | span | {"command": "make report PROFILE=standard", "git": git} | changes


def write_run(root: Path, info: dict[str, object]) -> Path:
    """Writes a run below `root` and returns its folder."""
    folder = root / str(info["run_id"])
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps(info), encoding="utf-8")
    (folder / "zero-cost.time.csv").write_text("study,bench\n", encoding="utf-8")
    (folder / "zero-cost.counts.csv.gz").write_bytes(b"\x1f\x8b")
    return folder


def write_notebook(path: Path) -> Path:
    """An executed analysis notebook with one of everything that ours hold."""
    table = "| variant | " + " | ".join(f"a long column {n}" for n in range(9)) + " |\n"
    table += "|---|" + "---|" * 9 + "\n| nonbox |" + " 2.61 |" * 9 + "\n"
    shown = (
        f"<style>td {{ color: red }}</style><table onclick='x()'><tr><td class='gt_right'>7{HOSTILE}</td></tr></table>"
    )
    cells = [
        new_markdown_cell("# Is async `zero` cost?\n\nThe question of this page.\n\n## The answer"),
        _cell("display(Markdown(answer))", _markdown(ANSWER), tags=["answer"]),
        new_markdown_cell(
            "## The charts\n\nMeasured `here`, see [the method](https://example.org/method) and [its source](measure.ipynb).\n"
        ),
        _cell("ac.intervals(ratios)", _chart(charts.intervals(RATIOS, description=FINDING))),
        _cell(
            "ac.lines(rows)",
            _chart(
                charts.lines(
                    BREAK_EVEN,
                    x="work_us",
                    y="overhead",
                    x_title="own work (µs)",
                    y_title="overhead (%)",
                    log_x=True,
                    rules=[1, 5],
                    description="fades at 3 µs",
                )
            ),
        ),
        new_markdown_cell("What the code below computes.", metadata={"tags": [OF_CODE]}),
        _cell(CODE, _markdown("What the code above says.")),
        _cell(
            "ac.lines(drift)",
            _chart(
                charts.lines(
                    DRIFT, x="round", y="time", x_title="round", y_title="time", description="rounds 21 to 29 were slow"
                )
            ),
        ),
        _cell("ac.matrix(rows)", _chart(charts.matrix(COUNTS, row="variant", column="series", description="same I/O"))),
        _cell("wide", _markdown(table)),
        _cell("hostile", _markdown(f"Measured on {HOSTILE}")),
        _cell("table", new_output("display_data", {"text/html": shown, "text/plain": "a table"})),
        _cell("print('x' * 300)", new_output("stream", name="stdout", text=HOSTILE + "x" * 300)),
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=cells), path)
    return path


def publish_example(root: Path, *, pdf: bool = False, **changes: object) -> Path:
    """The folder of a published example report below `root`."""
    run = write_run(root / "run", run_info(**changes))
    notebook = write_notebook(root / "zero-cost.ipynb")
    publish(run, [page_of(notebook)], root / "report", pdf=pdf)
    return root / "report"


def _cell(source: str, output: nbformat.NotebookNode, tags: list[str] | None = None) -> nbformat.NotebookNode:
    return new_code_cell(source, outputs=[output], execution_count=1, metadata={"tags": tags or []})


def _markdown(text: str, **metadata: object) -> nbformat.NotebookNode:
    return new_output("display_data", {"text/markdown": text, "text/plain": "…"}, metadata=metadata)


def _chart(chart: object) -> nbformat.NotebookNode:
    charts.enable()
    data, metadata = charts.mime_bundle(chart.to_dict())
    return new_output("display_data", data, metadata=metadata)
