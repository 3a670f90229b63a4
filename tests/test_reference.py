"""What is computed of the committed reference run: a comparison has the same word on every page, each finding flips at
the ends of its region, a page has the form of a page, and the sample is of today.
"""

import ast
import csv
import json
import math
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from html import unescape
from pathlib import Path

import ladder_source
import nbformat
import pytest
from ours import committed_runs, tracked

from async_cost import words
from async_cost.findings.committed import judged
from async_cost.findings.finding import Judge
from async_cost.findings.finding import slot as slot_of
from async_cost.findings.lint import SLOT, slots_of
from async_cost.findings.operands import pair
from async_cost.findings.record import Finding, Slot, recorded
from async_cost.paths import repository_root, runs_root
from async_cost.report import finding as shown
from async_cost.report import markup
from async_cost.report.notebook import OF_CODE, answers_of, findings_in, page_of
from async_cost.report.publish import publish
from async_cost.runs.find import reference_run
from async_cost.runs.run import Run
from async_cost.statistics.effects import Effect
from async_cost.statistics.statement import Outcome, counts_for_nothing, region
from async_cost.workflow import publishing
from async_cost.workflow.definitions import FILES, execute_committed, tables
from async_cost.workflow.publishing import analyses_of
from async_cost.workflow.sample import FOLDER, made
from async_cost.workflow.studies import analysed, analysis

#: Below so many nanoseconds a ratio needs them beside it.
SMALL_NS = 20.0
#: A border may be so many times as far as the farthest number of a committed machine, or as near as the nearest.
LOOSE = 2.0
#: Pages whose analyses speak in findings.
ESSAYS = sorted(analysed().keys() - {"prices", "replication", "hardware", "trust"})
#: At most so many lines of code in an analysis as ruff formats it, and words of its page outside of tables and folded
#: parts: twice what an essay should have.
LINES, WORDS = 500, 3000


@pytest.fixture(scope="module", autouse=True)
def committed(tmp_path_factory) -> Iterator[None]:
    """Pages read the committed runs alone, not those measured beside them."""
    ours, theirs = tmp_path_factory.mktemp("committed") / "runs", runs_root()
    for folder in committed_runs():
        shutil.copytree(folder, ours / folder.relative_to(theirs))
    shutil.copytree(theirs.parent / "comparisons", ours.parent / "comparisons")
    for name in ("REFERENCE", "ANNOUNCED"):
        shutil.copy2(theirs / name, ours)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASYNC_COST_RUNS", str(ours))
        yield


@pytest.fixture(scope="module")
def run():
    return reference_run()


@pytest.fixture(scope="module")
def analyses(tmp_path_factory) -> dict[str, tuple[Run, Path]]:
    """All analyses, executed, with the runs that they read, by folder."""
    return execute_committed(tmp_path_factory.mktemp("executed"), {"ASYNC_COST_COMMITTED": "1"})


@pytest.fixture(scope="module")
def judges(analyses) -> dict[str, Judge]:
    """By page; one for all pages of a run: it reads each study once."""
    known = {run.path: Judge(run) for run, _ in analyses.values()}
    return {folder: known[run.path] for folder, (run, _) in analyses.items()}


@pytest.fixture(scope="module")
def executed(analyses) -> dict[str, Path]:
    return {folder: path for folder, (_, path) in analyses.items()}


# -- findings ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def findings(executed) -> list[Finding]:
    return recorded(executed.values())


def made_up(slot: Slot, low: float, high: float, like: Effect) -> Effect:
    """An effect with that interval, in place of a measured one."""
    middle = math.sqrt(low * high) if slot.in_ratios else (low + high) / 2
    return replace(like, value=middle, low=low, high=high, missing=None, doubt=None, freedom=0.0, undisturbed=None)


def places(slot: Slot, like: Effect) -> Iterator[tuple[Outcome, float, float]]:
    """Intervals inside of the region, outside of each end, across each, and no effect, with the outcomes they must
    have.
    """
    exact, (least, most) = slot.quantity == "count", region(slot)
    end = least if math.isfinite(least) else most
    step = 0.04 * (most - least if math.isfinite(most - least) else max(1.0, abs(end)))
    step = step or 0.04 * max(1.0, abs(most))
    # What is more or less than nothing must also be more than what counts for nothing.
    nothing = counts_for_nothing(slot, like.base, like.nothing)
    step = max(step, 3 * (nothing[1] - nothing[0])) if slot.is_direction else step
    if slot.relation == "equal":
        yield Outcome.HOLDS, least, least
    elif slot.in_ratios and least <= 0:
        yield Outcome.HOLDS, most / 4, most / (4 if exact else 3.9)
    else:
        inside = least + 2 * step if math.isfinite(least) else most - 2 * step
        yield Outcome.HOLDS, inside, inside + (0 if exact else step / 4)
    for end, away in ((least, -1), (most, 1)):
        if math.isfinite(end) and not (slot.in_ratios and end == 0):
            yield Outcome.DOES_NOT_HOLD, *sorted((end + away * step, end + away * (1 if exact else 1.25) * step))
            if not exact:
                yield Outcome.UNDECIDED, end - step / 2, end + step / 2
    no_effect = 1.0 if slot.in_ratios else 0.0
    a_side = slot.is_direction or slot.relation in ("less", "greater")
    holds = least <= no_effect <= most and not (a_side and no_effect in (least, most))
    yield Outcome.HOLDS if holds else Outcome.DOES_NOT_HOLD, no_effect, no_effect


def test_every_finding_flips_at_the_ends_of_its_regions(judges, findings):
    """With what its page says: its sentence only while all its numbers are as expected, and its advice with it."""
    flipped = 0
    marks = {Outcome.HOLDS: "✓", Outcome.DOES_NOT_HOLD: "≠", Outcome.UNDECIDED: "≈?"}
    for finding in findings:
        judge = judges[finding.page]
        # Numbers that are only shown are measured ones.
        measured = {slot.name: judge.effects(slot.main) for slot in finding.slots}
        made = {
            slot.name: [
                (outcome, [made_up(slot, low, high, like) for like in measured[slot.name]])
                for outcome, low, high in places(slot, measured[slot.name][0])
            ]
            for slot in finding.judged
        }
        inside = {
            name: next(effects for outcome, effects in some if outcome is Outcome.HOLDS) for name, some in made.items()
        }
        for name, (outcome, effects) in ((name, place) for name, some in made.items() for place in some):
            result = judge(finding, measured | inside | {name: effects})
            spoken = shown.said(result, judge.run)
            text = words.plain(shown.markdown(spoken))
            about = finding.id, name, outcome, effects[0].low, effects[0].high, spoken.head
            assert result.outcome is outcome, about
            assert spoken.mark in marks[outcome], about
            holds = outcome is Outcome.HOLDS
            assert spoken.asserted == holds and bool(spoken.so) == (holds and bool(finding.so)), about
            begins = words.plain(SLOT.split(finding.sentence if holds or not finding.label else finding.label)[0])
            assert begins.lower() in text.lower() and ("\n\n" in text) == bool(spoken.so), about
            flipped += 1
    assert flipped > 4 * sum(len(finding.judged) for finding in findings) > 0


def test_findings_of_the_reference_are_measured_and_most_hold(judges, findings):
    results = [judges[finding.page](finding) for finding in findings]
    assert not {result.finding.id for result in results if not all(slot.measured for slot in result.slots)}
    outcomes = {result.finding.id: result.outcome for result in results if result.judged}
    holding = sum(outcome is Outcome.HOLDS for outcome in outcomes.values())
    assert holding >= 0.8 * len(outcomes), {name: word for name, word in outcomes.items() if word is not Outcome.HOLDS}


def loose(slot: Slot, rows: Iterable[Mapping[str, float]], counts: float = 0.01) -> list[float]:
    """Return the borders of a slot that are looser than the numbers of committed machines ask for; `rows` have their
    low, high, least and greatest. An outer border may be twice as far from no effect as the farthest number, an inner
    one half as far as the nearest; around no effect, twice as far as the farthest number or end of an interval, or as
    what `counts` as a difference of ratios.
    """
    rows = [row for row in rows if row["low"] is not None]
    borders = [end for end in (slot.least, slot.most) if end is not None]
    if slot.why or slot.relation not in ("between", "at most", "at least") or not rows:
        return []

    def size(number: float) -> float:
        """How far from no effect: of a ratio, how much more the slower side takes."""
        return max(number, 1 / number) - 1 if slot.in_ratios else abs(number)

    nothing = 1.0 if slot.in_ratios else 0.0
    around = all(end is None or sign * (end - nothing) >= 0 for end, sign in ((slot.least, -1), (slot.most, 1)))
    if around:
        farthest = max(size(row[name]) for row in rows for name in ("low", "high", "least", "greatest"))
        return [end for end in borders if size(end) > LOOSE * max(farthest, counts if slot.in_ratios else 1.0) + 1e-9]
    sizes = [size(row[name]) for row in rows for name in ("least", "greatest")]
    return [end for end in borders if not min(sizes) / LOOSE <= size(end) <= LOOSE * max(sizes)]


ADDED, RATIO = (getattr(pair("zero-cost", "nonbox", "manual", "syscalls=off"), name) for name in ("added", "ratio"))


@pytest.mark.parametrize(
    ("quantity", "numbers", "tight", "too_far"),
    [
        (ADDED, (40, 80), (20, 160), (19.9, 160.1)),
        (ADDED, (40, 80), (-161.6, 161.6), (-161.7, 161.7)),
        (RATIO, (2, 4), (1.5, 7), (1.45, 7.1)),
        (RATIO, (1 / 2, 1 / 4), (1 / 7, 1 / 1.5), (1 / 7.1, 1 / 1.45)),
        (RATIO, (1.0,), (0.981, 1.019), (0.979, 1.021)),
    ],
)
def test_a_loose_border_is_seen(quantity, numbers, tight, too_far):
    """Each number of a committed machine has an interval of a hundredth."""
    rows = [{"low": 0.99 * at, "high": 1.01 * at, "least": at, "greatest": at} for at in numbers]
    for borders, seen in ((tight, []), (too_far, [*too_far])):
        judged = slot_of("page-id", "it", quantity.expect(*borders), "It is {it}.")
        assert loose(judged, [*rows, dict.fromkeys(rows[0])]) == seen
        assert not loose(replace(judged, why="measured on two machines alone"), rows)


def test_no_border_is_looser_than_what_the_committed_series_measured_asks_for(findings):
    """Of what was written after the series: what stood before it is a test, and would be none if tightened now."""
    known = judged().filter(kind="finding").partition_by("id", "slot", as_dict=True)
    slots = [slot for finding in findings if finding.label for slot in finding.judged]
    slots = [slot for slot in slots if not known[slot.id, slot.name]["tested"].eq("yes").any()]
    too_far = {(slot.id, slot.name): loose(slot, known[slot.id, slot.name].iter_rows(named=True)) for slot in slots}
    assert len(too_far) > 10 and not {place: borders for place, borders in too_far.items() if borders}


def test_a_sentence_shows_nanoseconds_beside_the_ratio_of_a_small_difference(judges, findings):
    differences = {}
    for finding in findings:
        named = [slot for slot in finding.slots if finding.label and slot.name in slots_of(finding.sentence)]
        for slot in named if not any(other.by_the_clock for other in named) else ():
            if slot.operation == "ratio" and slot.quantity == "time" and slot.main.constant is None:
                added = judges[finding.page].effects(replace(slot.main, operation="difference", unit="ns"))
                known = [abs(effect.value) for effect in added if effect.value is not None]
                differences[finding.id, slot.name] = max(known, default=SMALL_NS)
    assert len(differences) > 5
    assert not {place: ns for place, ns in differences.items() if ns < SMALL_NS}


def test_definitions_and_verdicts_of_committed_series_are_those_of_today(findings):
    remedy = "run `make findings`, look at what it changes in data/, and commit that"
    columns = {name: list(schema) for name, schema in FILES.items()}
    for name, rows in tables(findings).items():
        with (repository_root() / "data" / name).open(encoding="utf-8", newline="") as file:
            committed = list(csv.DictReader(file))
        made = [[_value(row.get(column)) for column in columns[name]] for row in rows]
        # The last digits of a number depend on the order of a sum.
        near = [
            [pytest.approx(value, rel=1e-4) if isinstance(value, float) else value for value in row] for row in made
        ]
        assert [[_value(row[column]) for column in columns[name]] for row in committed] == near, remedy


def _value(written: object) -> float | str:
    """A value as a file holds it."""
    text = "" if written is None else str(written)
    try:
        return float(text)
    except ValueError:
        return text


def test_boxes_on_the_ladder_are_compared_with_what_differs_in_its_storage_alone(findings):
    slots = [slot for finding in findings if finding.page == "boxing-cost" for slot in finding.judged]
    cases = [case for slot in slots for case in slot.main.cases if len(case) == 2]
    ladder = [(operand.variant, other.variant) for (operand,), (other,) in cases if operand.study == "ladder"]
    assert len(ladder) > 5 and all(ladder_source.turned(*sides) == {"storage"} for sides in ladder), ladder


# -- pages ---------------------------------------------------------------------------------------------------


def words_of_page(body: str) -> int:
    """Words outside of tables, folded parts and charts."""
    for tag in ("details", "table", "figure", "script"):
        while (cut := re.sub(rf"<{tag}\b(?:(?!<{tag}\b).)*?</{tag}>", "", body, flags=re.DOTALL)) != body:
            body = cut
    return len(markup.plain(body).split())


@pytest.mark.parametrize("folder", ESSAYS)
def test_an_essay_is_short_and_its_code_is_polars_and_altair(folder, executed, record_property):
    cells = json.loads(analysis(folder).read_text(encoding="utf-8"))["cells"]
    code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    lines = sum(len(source.splitlines()) for source in code)
    record_property("lines of code in an analysis", lines)
    assert lines <= LINES
    imported = set()
    for node in ast.walk(ast.parse("\n".join(code))):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    assert imported <= {"polars", "altair", "async_cost"}, imported
    page = page_of(executed[folder])
    read = words_of_page(f"{page.answer}{page.body}")
    record_property("words on a page", read)
    assert read <= WORDS
    for folded in re.findall(r'<details class="fold">.*?</details>', page.body, re.DOTALL):
        rest = re.sub(r"<summary>.*?</summary>|<table.*?</table>", "", folded, flags=re.DOTALL)
        assert not markup.plain(rest), "folded parts hold tables alone"


@pytest.mark.parametrize("folder", ESSAYS)
def test_an_essay_answers_first_and_types_no_result_into_its_prose(folder, executed):
    content = nbformat.read(executed[folder], as_version=4)
    answers = [cell for cell in content.cells if "answer" in cell.metadata.get("tags", [])]
    outputs = [output.get("metadata", {}) for cell in answers for output in cell.outputs]
    assert 2 <= sum("said" in metadata and not metadata["said"]["is_yardstick"] for metadata in outputs) <= 4
    for cell in content.cells:
        if cell.cell_type == "markdown" and OF_CODE not in cell.metadata.get("tags", []):
            prose = re.sub(r"`[^`]*`|\]\([^)]*\)|\d{4}|\d+ KiB", "", cell.source)
            typed = re.search(r"\d\s*(%|ns|µs|us|ms|times|x\b|fold)", prose)
            assert not typed, f"a result is typed into prose: {prose}"


def test_every_analysis_has_something_to_say_about_a_committed_run(analyses):
    assert list(analyses) == list(analysed())


@pytest.fixture(scope="module")
def report(run, executed, tmp_path_factory) -> Path:
    """The report of the reference run, which is the front of the site."""
    folder = tmp_path_factory.mktemp("report")
    publish(run.path, [page_of(executed[name]) for name in analyses_of(run.info)], folder)
    return folder


def test_the_front_of_the_site_says_what_the_sample_and_the_readme_say(report):
    front = (report / "index.html").read_text(encoding="utf-8")
    answers = dict(re.findall(r'<dt><a href="([\w-]+).html">.*?</dt>\s*<dd>(.*?)</dd>', front, re.DOTALL))
    sample, readme = (
        dict(
            re.findall(
                r"^- \[.*?\]\((?:docs/sample/)?([\w-]+)\.md\) (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE
            )
        )
        for file in (repository_root() / FOLDER / "README.md", repository_root() / "README.md")
    )
    assert all(text.startswith(readme[page]) for page, text in sample.items()) and sample.keys() == readme.keys()
    assert sample.keys() >= answers.keys() - COMPUTED.keys()
    for page in sample.keys() & answers.keys():
        assert text_of(unescape(markup.plain(answers[page]))) == text_of(sample[page]), page


def text_of(sentence: str) -> str:
    """The words of Markdown, or of a text, with plain blanks between them."""
    return " ".join(words.plain(sentence).split())


def test_each_finding_can_be_linked_to_on_its_page(run, report, findings, executed):
    records = [
        record for notebook in executed.values() for record in findings_in(nbformat.read(notebook, as_version=4))
    ]
    assert [record.id for record in records] == [finding.id for finding in findings]
    for record in (record for record in records if record.page in analyses_of(run.info)):
        page = (report / f"{record.page}.html").read_text(encoding="utf-8")
        assert page.count(f'id="finding-{record.id}"') == (not record.is_yardstick and not record.absent)


def first(answer: str) -> list[int]:
    """The first two numbers of an answer."""
    return [int(number) for number in re.findall(r"\d+", answer)[:2]]


#: What notebooks without findings say below their question, and whether their answer bears it out.
COMPUTED = {
    "replication": (
        "Published counts may be quoted, and each claim on which is faster has to be looked up.",
        lambda answer: answer.startswith("**Together: quote counts; check which is faster"),
    ),
    "hardware": (
        "Most ratios of two programs differ by more than a tenth between the committed machines.",
        lambda answer: int(re.search(r"(\d+) % agree", answer)[1]) < 50,
    ),
    "trust": (
        "At most one control in fifty differs from its baseline by more than chance explains.",
        lambda answer: 50 * first(answer)[0] <= first(answer)[1],
    ),
}


@pytest.mark.parametrize("folder", analysed())
def test_a_notebook_begins_with_its_question_and_an_answer_that_holds(folder, run, findings, executed):
    """Where the repository is hosted, a notebook without outputs shows nothing else of what was found."""
    question, head = nbformat.read(analysis(folder), as_version=4).cells[:2]
    assert question.source.startswith("# ") and "?" in question.source and head.metadata.tags == [OF_CODE]
    sentence, page = re.fullmatch(r"(.+) So says .*\]\(([^)]+)\).", head.source).groups()
    assert (analysis(folder).parent / page).exists()
    content = nbformat.read(executed[folder], as_version=4)
    if records := [record for record in findings_in(content) if not record.is_yardstick]:
        assert records[0].asserted and records[0].mark in ("✓", shown.FITTED) and sentence == shown.head(records[0])
    else:
        statement, so = COMPUTED[folder]
        answer = answers_of(content)[0].data["text/markdown"]
        assert sentence == f"**{statement}**" and so(answer), answer


def test_a_verdict_made_by_hand_from_the_samples_is_that_of_the_table(run, tmp_path):
    """The notebook compares its own row with the table's, and fails if they differ."""
    by_hand = repository_root() / "notebooks" / "from-samples.ipynb"
    environ = {**os.environ, "ASYNC_COST_RUN": str(run.path.resolve())}
    assert publishing.execute_all([by_hand], [tmp_path / by_hand.name], environ, Path) == [tmp_path / by_hand.name]


# -- one word ------------------------------------------------------------------------------------------------


def test_the_committed_sample_is_what_the_code_makes_of_the_committed_runs(run, analyses):
    files, root = made(run, list(analyses.values())), repository_root()
    assert not [name for name, text in files.items() if (root / name).read_text(encoding="utf-8") != text], (
        "make sample; if notebooks/ holds an analysis of your own with findings, put that aside first"
    )
    assert {str(FOLDER / path.name) for path in tracked(f"{FOLDER}/**")} <= files.keys(), "make sample"
