"""A run of all studies as programs by `make report`, and one of some studies as cells by `make measure`, each killed
once and resumed.
"""

import csv
import shutil
import tomllib

import polars as pl
import pytest
from conftest import IN_CELLS

from async_cost.literature.claims import load_claims
from async_cost.literature.published import load_published, published_studies
from async_cost.runs.comparisons import PAIR, of_today
from async_cost.runs.find import load_run
from async_cost.statistics.measured import Measured
from async_cost.workflow.publishing import OTHERS
from async_cost.workflow.studies import MEASURED, analysed, measuring
from async_cost.workflow.toolchain import KERNEL_BUILDS, ROOT

KEY = ["bench", "variant", "parameter"]


def test_a_killed_measurement_shows_no_run_and_loses_no_complete_round(whole_run):
    assert whole_run.visible_at_kill == []
    assert whole_run.lines_at_kill, "nothing was measured before the kill: this test would prove nothing"
    for name, before in whole_run.lines_at_kill.items():
        after = (whole_run.run / name).read_text().splitlines()
        rows = [(line, row[4]) for line, row in zip(before, csv.reader(before), strict=True) if len(row) == 9][1:]
        # The last round may be incomplete: it is measured again.
        whole = [line for line, number in rows if number != rows[-1][1]]
        assert after[1 : 1 + len(whole)] == whole
        assert after[0] == before[0]
    studies = load_run(whole_run.run).info.studies
    assert sum(study.resumed for study in studies.values()) >= 1, "the run says that it was resumed"
    assert "left in all" in whole_run.output, "the workflow tells its progress"


def test_every_study_was_measured_by_fresh_processes(whole_run):
    """Which is also what fails when another version of the kernel no longer runs a cell's library again."""
    studies = load_run(whole_run.run).info.studies
    asked = IN_CELLS if whole_run.in_cells else MEASURED
    assert {name: len(study.episodes) >= 2 for name, study in studies.items()} == dict.fromkeys(asked, True)


def test_every_process_was_linked_in_an_order_of_its_own(whole_run):
    """On x86-64 Linux, where rustc brings a linker along that can draw one."""
    info = load_run(whole_run.run).info
    drawn = [episode.layout for study in info.studies.values() for episode in study.episodes]
    if info.toolchain.target == "x86_64-unknown-linux-gnu":
        assert None not in drawn and len(set(drawn)) >= len(drawn) - sum(
            study.resumed for study in info.studies.values()
        )
    else:
        assert set(drawn) == {None}


#: What a study measures is the same code in cells and as a program.
OF_PROGRAMS = pytest.mark.parametrize("whole_run", [pytest.param("native", marks=pytest.mark.native)], indirect=True)


@OF_PROGRAMS
def test_the_workflow_tells_where_the_page_is(whole_run):
    assert f"{whole_run.page.as_uri()}" in whole_run.output
    # A page on machines compares evidence, which a smoke run is not.
    assert {page.stem for page in whole_run.page.parent.glob("*.html")} == {"index", *analysed()} - {OTHERS}


#: Published metrics that are exact counts: they come from counts.csv, whose rows are not keyed by kinds of calls.
COUNTED = ("io_calls",)
#: Published variants by study that are programs in another language.
FOREIGN = {"call-styles": ("ruby 2.4.1", "mruby 1.3.0")}

#: Interpreters that are measured where both are installed.
INTERPRETERS = ("ruby", "mruby")
ABSENT = () if all(map(shutil.which, INTERPRETERS)) else INTERPRETERS


@OF_PROGRAMS
@pytest.mark.parametrize("study", published_studies())
def test_every_published_bench_is_measured(whole_run, study):
    run = load_run(whole_run.run)
    published = load_published(study).filter(~pl.col("metric").is_in(COUNTED)).select(KEY).unique()
    assert not published.is_empty(), (
        f"nothing that is published of {study} is looked for: this test would prove nothing"
    )
    measured = set(run.time(study).select(KEY).rows())
    # What was written in another language is measured here under the same bench and parameter, by a variant of ours.
    benches = {(bench, parameter) for bench, _, parameter in measured}
    foreign = {row for row in published.rows() if row[1] in FOREIGN.get(study, ()) and (row[0], row[2]) in benches}
    missing = set(published.rows()) - measured - foreign - failed(run, study)
    assert not missing, f"not measured: {sorted(missing)}"


@OF_PROGRAMS
@pytest.mark.parametrize("study", MEASURED)
def test_every_clean_comparison_and_every_counterpart_of_a_claim_is_measured(whole_run, study):
    run = load_run(whole_run.run)
    measured = set(run.time(study).select(KEY).rows()) | failed(run, study)
    for claim in load_claims():
        ours = (*claim.clean, *claim.counterpart, *claim.ours)
        for operand in (operand for case in ours for place in case for operand in place):
            if operand.study == study and operand.variant not in ABSENT:
                assert operand.key in measured, f"{claim.id}: {operand} is not measured"


def failed(run, study):
    """The keys that run.json lists as failed: the page names them, and the others went on."""
    return {(entry.bench, entry.variant, entry.parameter) for entry in run.study(study).failed}


@OF_PROGRAMS
@pytest.mark.parametrize("study", MEASURED)
def test_every_variant_that_did_not_fail_is_measured_in_every_round(whole_run, study):
    run = load_run(whole_run.run)
    whole = run.whole_time(study)
    rounds = whole.group_by(KEY).agg(pl.col("round").n_unique())["round"].unique().to_list()
    assert rounds == [run.info.studies[study].rounds]


@OF_PROGRAMS
@pytest.mark.parametrize("study", MEASURED)
def test_something_is_compared_and_controlled_in_every_group(whole_run, study):
    declared = Measured(load_run(whole_run.run), study).declared
    compared, controlled = declared.filter(~pl.col("control")), declared.filter("control")
    # What only other groups are compared with, as the smallest of several sizes, has no comparison of its own.
    assert set(compared.drop_nulls("ratio")["group"]) == set(compared["group"]), "a group in which everything failed"
    assert set(controlled.drop_nulls("ratio")["group"]) == set(declared["group"]), "a group without a control"


#: Loads with a number of workers that follows from the processors of the machine: other words on another machine.
OF_THE_MACHINE = pl.col("parameter").str.contains(r"workers=\d+( |$)")


@OF_PROGRAMS
@pytest.mark.parametrize("study", MEASURED)
def test_the_committed_comparisons_are_those_that_the_study_declares(whole_run, study):
    columns = [*PAIR, "group", "change", "unit"]
    declared = load_run(whole_run.run).comparisons(study).filter(~pl.col("control"), ~OF_THE_MACHINE)
    committed = of_today().filter(~OF_THE_MACHINE, ~pl.col("variant").is_in(ABSENT), study=study)
    assert declared.height > 5
    assert declared.select(columns).rows() == committed.select(columns).rows(), (
        "run `make comparisons` and commit what it writes"
    )


@OF_PROGRAMS
@pytest.mark.parametrize("study", MEASURED)
def test_every_measured_variant_has_exact_counts(whole_run, study):
    run = load_run(whole_run.run)
    counted = run.counts(study).select(KEY).unique()
    timed = run.whole_time(study).filter(~pl.col("parameter").str.contains("work="))
    # A control is its baseline once more.
    timed = timed.with_columns(pl.col("variant").str.strip_suffix(" (A/A)")).select(KEY).unique()
    of_ours = ~pl.col("variant").str.contains(f"^({'|'.join(INTERPRETERS)})( |$)")  # an interpreter counts nothing
    in_call = pl.col("bench") != "beside a thread"  # which is measured in a process of its own
    missing = timed.filter(of_ours, in_call).join(counted, on=KEY, how="anti")
    assert missing.is_empty(), f"timed but not counted: {missing.rows()}"


@OF_PROGRAMS
def test_every_choice_in_zero_cost_makes_another_program(whole_run):
    """A choice that a slip or the optimiser took away would count the same instructions as the program without it."""
    counts = load_run(whole_run.run).counts("zero-cost").filter(counter="instructions")
    chosen = counts.filter(pl.col("variant").str.contains(r"^(manual|nonbox|box) \([^bA]")).with_columns(
        of=pl.col("variant").str.extract(r"^(\S+) \(")
    )
    both = chosen.join(counts.select("parameter", of="variant", described="value"), on=["of", "parameter"])
    assert both.height == chosen.height > 0
    assert both.filter(pl.col("value") == pl.col("described")).is_empty()


@OF_PROGRAMS
def test_every_server_of_the_ladder_executes_equally_much_in_the_fake(whole_run):
    """What is left, its own instructions, is then not about the fake."""
    counts = load_run(whole_run.run).counts("ladder").filter(pl.col("counter").str.ends_with("instructions"))
    both = counts.pivot("counter", index=["variant", "parameter"], values="value").filter(parameter="live=3")
    assert both.select(pl.col("instructions") - pl.col("own_instructions")).n_unique() == 1 < both.height


@OF_PROGRAMS
def test_a_smoke_page_says_that_it_is_not_evidence(whole_run):
    assert "A smoke run: intervals are rough." in whole_run.page.read_text()


@OF_PROGRAMS
def test_every_page_opens_without_an_error(whole_run, browser):
    pages = sorted(whole_run.page.parent.glob("*.html"))
    assert {"index.html", "zero-cost.html"} <= {page.name for page in pages}
    for page in pages:
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        complaints: list[str] = []
        tab.on("console", lambda message, log=complaints: message.type == "error" and log.append(message.text))
        tab.on("pageerror", lambda error, log=complaints: log.append(str(error)))
        tab.goto(page.as_uri())
        tab.wait_for_function("!document.querySelector('figure.chart:not(.drawn)')")
        width, window = tab.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert not complaints and width <= window, f"{page.name}: {complaints}, {width} px wide in a window of {window}"
        tab.close()


OF_CELLS = pytest.mark.parametrize("whole_run", [pytest.param("cells", marks=pytest.mark.kernel)], indirect=True)


@OF_CELLS
@pytest.mark.parametrize("folder", sorted({measuring(study).parent.name for study in IN_CELLS}))
def test_the_kernel_builds_what_the_lock_says(whole_run, folder):
    """The run leaves the lock that cargo wrote for the cells."""
    ours, built = (
        {
            (package["name"], package["version"])
            for package in tomllib.loads(path.read_text(encoding="utf-8"))["package"]
            if package["name"] != "ctx"
        }
        for path in (ROOT / "Cargo.lock", KERNEL_BUILDS / folder / "0" / "Cargo.lock")
    )
    assert built, "the kernel's lock is empty"
    assert built <= ours, f"the kernel builds what Cargo.lock does not name: {sorted(built - ours)}"
