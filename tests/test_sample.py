"""docs/sample is small, and readable without a server. (That it is of today is tested in test_reference.py, where the
analyses of the reference run are executed.)
"""

import re
from xml.etree import ElementTree

import nbformat
import pytest
from example_report import write_notebook

from async_cost.paths import repository_root
from async_cost.report import charts, sample
from async_cost.workflow.sample import FOLDER

LIMIT_BYTES = 3_000_000


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    notebook = write_notebook(tmp_path_factory.mktemp("sample") / "zero-cost.ipynb")
    content = nbformat.read(notebook, as_version=4)
    content.cells[
        0
    ].source += (
        "\n\n[a](../ladder/measure.ipynb) [b](../ladder/analysis.ipynb) [c](sockets.ipynb) [d](../../data/prices.csv)"
    )
    nbformat.write(content, notebook)
    return sample.pages([notebook], "Made up.")


def test_the_committed_sample_is_small_and_its_links_lead_somewhere():
    folder = repository_root() / FOLDER
    assert sum(path.stat().st_size for path in folder.iterdir()) <= LIMIT_BYTES
    for page in folder.glob("*.md"):
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r'\]\(([^)#:]+)\)|(?:src|srcset)="([^"]+)"', text):
            assert (folder / "".join(target)).exists(), f"{page.name}: {target}"


def test_links_of_a_notebook_lead_to_the_same_files(pages):
    text = pages["zero-cost.md"]
    for link in (
        "a](../../notebooks/ladder/measure.ipynb)",
        "b](ladder.md)",
        "c](../../notebooks/zero-cost/sockets.ipynb)",
        "d](../../data/prices.csv)",
    ):
        assert link in text


def test_a_chart_is_two_pictures_with_one_description(pages):
    text = pages["zero-cost.md"]
    assert text.count("<picture>") == 4 and 'srcset="zero-cost-1-dark.svg"' in text
    light, dark = pages["zero-cost-1.svg"], pages["zero-cost-1-dark.svg"]
    assert f'="{charts.PAPER}"' in light and f'="{charts.DARK[charts.PAPER]}"' in dark
    assert f'="{charts.INK}"' not in dark
    assert ElementTree.fromstring(light).get("aria-label") in text


def test_what_a_stranger_wrote_is_no_markup(pages):
    """What a cell printed is indented, which makes it code."""
    text = re.sub(r"(?m)^ {4}.*$", "", pages["zero-cost.md"])
    assert "&lt;script" in text and "<script" not in text and "onclick" not in text and "<img src=x" not in text


def test_one_notebook_makes_the_same_pages_twice(pages, tmp_path):
    notebook = write_notebook(tmp_path / "zero-cost.ipynb")
    one, other = (sample.pages([notebook], "Made up.") for _ in range(2))
    assert one == other
