"""What publishing promises, checked in the text of the pages; test_site.py looks at them in a browser."""

import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import msgspec
import nbformat
import pytest
from made_up_runs import (
    ANSWER,
    FINDING,
    OFF,
    ON,
    QUESTION,
    example_run,
    make_run,
    publish_example,
    write_notebook,
)
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from async_cost.errors import DataError
from async_cost.findings.committed import machines
from async_cost.findings.finding import Judge, finding
from async_cost.findings.operands import pair
from async_cost.findings.record import record
from async_cost.report import charts, markup, publish
from async_cost.report import finding as report_finding
from async_cost.report.notebook import Page, page_of
from async_cost.report.reading import Reading
from async_cost.runs.find import open_run
from async_cost.runs.record import Machine, Toolchain

LIMIT_BYTES = 3_000_000


class Elements(HTMLParser):
    """Every element of a page with its attributes, as a parser sees them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def all(self, *tags: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.found if tag in tags]


def page_saying(folder: Path, *outputs) -> Page:
    """The page of a notebook whose answer is these outputs."""
    answer = new_code_cell("say", outputs=list(outputs), execution_count=1, metadata={"tags": ["answer"]})
    nbformat.write(new_notebook(cells=[new_markdown_cell("# Free?"), answer]), folder / "zero-cost.ipynb")
    return page_of(folder / "zero-cost.ipynb")


def stated(run: Path, name: str, statement: str, load: str = OFF, *, most: float = 9.0) -> nbformat.NotebookNode:
    """The output of a finding of that name, as a notebook shows it."""
    ratio = pair("zero-cost", "nonbox", "manual", load).ratio.expect(1.5, most)
    definition = finding("zero-cost", name, f"{statement} {{ratio}}.", f"{statement}: {{ratio}}", {"ratio": ratio})
    reading = Reading(open_run(run))
    rendered = report_finding.said(Judge(reading.run)(definition), reading.run)
    records = {"finding": record(definition), "said": msgspec.to_builtins(rendered)}
    return new_output("display_data", {"text/markdown": report_finding.markdown(rendered)}, metadata=records)


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> Path:
    return publish_example(tmp_path_factory.mktemp("report"), profile="quick")


@pytest.fixture(params=["index.html", "zero-cost.html"])
def html(report: Path, request) -> str:
    return (report / request.param).read_text(encoding="utf-8")


def test_nothing_is_fetched(html):
    for attributes in Elements(html).all("script", "link", "img", "iframe", "object", "embed", "source"):
        for name in ("src", "href", "data"):
            value = attributes.get(name) or "data:"
            assert value.startswith("data:"), f"{name}={value[:80]} would be fetched"
    assert not re.search(r"@import|url\(\s*['\"]?https?:", html), "a style sheet fetches something"


def test_a_link_shows_a_picture_if_pages_know_their_address(tmp_path, monkeypatch):
    run, reports = example_run(tmp_path / "run"), tmp_path / "reports"
    for site, picture in (("https://example.org/here/", ["https://example.org/here/card.png"]), ("", [])):
        monkeypatch.setenv("ASYNC_COST_SITE", site)
        publish.publish(run, [], reports / "toy-2c" / run.name, reports=reports)
        pages = [reports / "index.html", reports / "runs.html", reports / "toy-2c" / run.name / "index.html"]
        for page in pages:
            metas = Elements(page.read_text(encoding="utf-8")).all("meta")
            assert [a["content"] for a in metas if a.get("property") == "og:image"] == picture, page.name
    assert {path.name for path in reports.iterdir()} >= {"card.png", "badge-tokio-spawn.svg"}


def test_words_of_the_run_are_no_markup(html):
    page = Elements(html)
    assert not [a for _, a in page.found if any(name.startswith("on") for name in a)], "an event handler got through"
    scripts = [a for a in page.all("script") if a.get("type") != "application/json"]
    assert len(scripts) == (0 if 'class="questions"' in html else 2), "the charts: any other script is not ours"
    assert "<script>alert" not in html


def test_only_our_scripts_may_run(html):
    policy = next(a["content"] for a in Elements(html).all("meta") if a.get("http-equiv"))
    assert "default-src 'none'" in policy
    allowed = policy.split("script-src")[1].split(";")[0]
    assert "unsafe" not in allowed, f"script-src{allowed} lets any script run"


def test_provenance_is_on_every_page(html):
    for fact in ("toy-2c/20261120T190102Z", "Toy CPU 3000", "rustc 1.95.0", "0123456789abcdef", "clean", "40 ms"):
        assert fact in html, f"{fact} is missing"
    assert "<dt>Frequency governor</dt><dd>unknown</dd>" in html, "what is not known must be called unknown"


def test_a_quick_run_says_so_once_and_never_that_it_judges_nothing(html):
    assert html.count("A quick run: intervals are rough.") == html.count('class="notice"') == 1
    assert "ot judged" not in html and "would follow" not in html


def test_the_front_page_gives_each_question_its_answer_and_page(report):
    front = (report / "index.html").read_text(encoding="utf-8")
    questions = re.search(r'<dl class="questions">.*?</dl>', front, re.DOTALL)[0]
    assert f">{QUESTION}</a>" in questions and ANSWER in questions and 'href="zero-cost.html"' in questions
    assert "a longer story" not in questions
    table = front.split("What people ask")[0]
    assert all(f'<th scope="col">{name}</th>' in table for name in ("yours", *(machine.name for machine in machines())))


def test_a_page_says_which_groups_are_not_judged_or_less_surely_and_the_front_page_that_nothing_is(tmp_path):
    for controls, said, why, concluded in (
        ({}, "Not judged:", "have no A/A control", False),
        ({OFF: 1.05, ON: 1.0}, "With wider intervals:", "differs from its baseline", True),
    ):
        folder = tmp_path / why
        run = make_run(folder, rounds=30, controls=controls)
        outputs = [stated(run, name, "It takes", load) for name, load in (("off", OFF), ("on", ON))]
        pages = publish.publish(run, [page_saying(folder, *outputs)], folder / "report")
        front, page = (file.read_text(encoding="utf-8") for file in pages)
        assert said in page and why in page
        assert ("Nothing is concluded from this run" in front) != concluded


def test_the_front_page_lists_what_the_run_refuted_or_left_open(tmp_path):
    run = make_run(tmp_path, rounds=30, noise=0.002)
    outputs = [stated(run, name, f"It is {name} <b>", most=most) for name, most in (("held", 9.0), ("refuted", 2.0))]
    pages = publish.publish(run, [page_saying(tmp_path, *outputs)], tmp_path / "report")
    others = pages[0].read_text(encoding="utf-8").split("What this run refuted")[1].split("</ul>")[0]
    (listed,) = re.findall(r'<li>(.) <a href="zero-cost.html#finding-zero-cost-(\w+)">(.*?)</a>', others)
    assert listed[:2] == ("≠", "refuted") and listed[2].startswith("It is refuted &lt;b&gt;: ")


def test_the_answer_stands_directly_under_the_title(report):
    page = (report / "zero-cost.html").read_text(encoding="utf-8")
    title, answer, provenance = (page.index(mark) for mark in ("<h1>", f"<p>{ANSWER}", 'class="provenance"'))
    assert title < answer < provenance
    assert ">The answer" not in page, "no heading is left without its text"
    assert page.count(f"<p>{ANSWER}") == 1


def test_failed_variants_and_uncommitted_changes_are_said(tmp_path):
    failed = {"bench": "box", "variant": "box", "parameter": "syscalls=on", "error": "<b>lost a wake</b>"}
    changes = {"git": {"revision": "abc", "clean": False}, "studies.zero-cost.failed": [failed]}
    report = publish_example(tmp_path, **changes)
    html = (report / "index.html").read_text(encoding="utf-8")
    assert 'class="notice"' not in (publish_example(tmp_path / "good") / "index.html").read_text(encoding="utf-8")
    for words in ("Uncommitted changes", "does not say anything about", "box (syscalls=on)", "&lt;b&gt;lost a wake"):
        assert words in html, f"{words} is missing"


def test_what_a_user_has_set_and_numbers_depend_on_is_said(tmp_path):
    changes = {"machine.address_randomisation": 0, "codegen.lto": "fat"}
    changes |= {"machine.mitigations": {"mds": "Not affected", "spectre_v2": "Mitigation: Retpolines"}}
    changes |= {"codegen.rustflags": ["-Cprefer-dynamic", "-Ctarget-cpu=native"]}
    changes |= {"machine.quota_cores": 1.5, "machine.affinity": [0, 2]}
    changes |= {"git": {"revision": "0" * 40, "clean": None}}
    changes |= {"studies.zero-cost.throttled_before": 3, "studies.zero-cost.throttled_after": 10}
    html = (publish_example(tmp_path, **changes) / "index.html").read_text(encoding="utf-8")
    assert "setarch -R" in html and "with -Ctarget-cpu=native lto=fat, as" in html
    assert "measured: zero-cost 7 times." in html
    assert "<dd>spectre_v2: Mitigation: Retpolines</dd>" in html
    assert "<dd>1.5 cores</dd>" in html and "<dd>0, 2</dd>" in html and "(unknown)" in html


def test_every_local_link_leads_somewhere(report, html):
    for attributes in Elements(html).all("a"):
        target = attributes.get("href") or "#"
        if not target.startswith(("#", "https://example.org")):
            file, _, anchor = target.partition("#")
            assert (report / file).exists(), f"link to {target}, which is not there"
            there = not anchor or f'id="{anchor}"' in (report / file).read_text(encoding="utf-8")
            assert there, f"{target} leads nowhere"
    assert (report / "data" / "zero-cost.time.csv").exists()


def test_pages_are_small_and_well_formed(html):
    assert len(html.encode()) < LIMIT_BYTES
    page = Elements(html)
    assert len(page.all("h1")) == 1
    assert page.all("html")[0]["lang"] == "en"
    assert any(a.get("name") == "viewport" for a in page.all("meta"))
    levels = [int(tag[1]) for tag, _ in page.found if re.fullmatch(r"h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in pairwise(levels)), f"a heading level is left out: {levels}"


def test_a_chart_has_its_finding_as_text(report):
    page = Elements((report / "zero-cost.html").read_text(encoding="utf-8"))
    labels = [a.get("aria-label", "") for a in page.all("div", "svg") if a.get("role") == "img"]
    assert all(labels) and sum(label.startswith(FINDING) for label in labels) == 2, "static and live"


def test_tables_scroll_in_a_box_and_lose_their_own_style():
    table = "<style>td { color: red }</style><table style='width: 90em'><tr><td>1</td></tr></table>"
    html = markup.safe_output({"text/html": table})
    assert html.startswith('<div class="table"')
    assert "color" not in html and "90em" not in html


def test_computed_markdown_cannot_link_to_a_script():
    assert "javascript:" not in markup.safe_output({"text/markdown": "[here](javascript:alert(1))"})


def test_a_chart_without_description_is_refused(tmp_path):
    output = new_output("display_data", {charts.VEGALITE_MIME: {"mark": "bar"}})
    with pytest.raises(DataError, match=r"zero-cost.*description"):
        page_saying(tmp_path, output)


def test_links_into_the_repository_become_words_but_for_notebooks():
    html = markup.safe_markdown("[data](../data.csv), [method](https://example.org), [below](#below)")
    assert "data.csv" not in html and ">data<" in html
    assert 'href="https://example.org"' in html and 'href="#below"' in html


def test_facts_that_no_machine_could_tell_are_unknown(tmp_path):
    changes = {"command": None, "ended": None, "git": None, "crates": {}}
    changes["machine"] = dict.fromkeys(Machine.__struct_fields__) | {"name": "toy-2c"}
    changes["toolchain"] = dict.fromkeys(Toolchain.__struct_fields__)
    for name in ("ended", "load_before", "load_after", "steal_before_ms", "steal_after_ms"):
        changes[f"studies.zero-cost.{name}"] = None
    html = (publish_example(tmp_path, **changes) / "index.html").read_text(encoding="utf-8")
    for row in ("Command", "Ended", "Revision", "Caches", "Memory", "Criterion", "Crates", "Time stolen by the host"):
        assert f"<dt>{row}</dt><dd>unknown</dd>" in html, row
    assert "<dd>unknown; unknown</dd>" in html and "<dd>unknown (unknown)</dd>" in html
    assert "None" not in html


def test_an_analysis_whose_studies_the_run_lacks_is_said_to_be_not_measured(tmp_path):
    run = example_run(tmp_path / "run")
    absent = tmp_path / "absent" / "analysis.ipynb"
    write_notebook(absent)
    content = nbformat.read(absent, as_version=4)
    content.cells[0].source = "# Who pays for a <b>spawn</b>?"
    for cell in content.cells[1:]:
        cell |= {"outputs": [], "execution_count": None} if cell.cell_type == "code" else {}
    nbformat.write(content, absent)
    notebook = write_notebook(tmp_path / "zero-cost.ipynb")
    pages = publish.publish(run, [page_of(notebook)], tmp_path / "report", not_measured=[absent])
    assert [page.name for page in pages] == ["index.html", "zero-cost.html"]
    front = pages[0].read_text(encoding="utf-8")
    assert front.index("Not in this run: 1 more question") < front.index("Who pays") < front.index("</details>")
    assert "<b>spawn" not in front and "analysis.html" not in front
