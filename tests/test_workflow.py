"""What `make measure` and `make report` decide before anything runs: studies, what they depend on, and which analyses
have a page.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from made_up_runs import OFF, make_run
from msgspec.structs import replace
from nbformat.v4 import new_code_cell, new_notebook, new_output
from ours import NOTEBOOKS, tracked

from async_cost.report.records import remarks
from async_cost.runs.find import load_run
from async_cost.runs.judged import claims_of_today, findings_of_today
from async_cost.runs.record import read_run_info
from async_cost.workflow import commands, environment, plan, publishing, toolchain
from async_cost.workflow.commands import chosen_studies
from async_cost.workflow.plan import Plan, measured_files
from async_cost.workflow.publishing import analyses_of
from async_cost.workflow.steps import Progress, StepFailed
from async_cost.workflow.studies import ALONE_S, MEASURED, analysed, analysis, measuring
from async_cost.workflow.toolchain import ROOT


def test_every_analysis_has_its_place_and_its_question_and_reads_studies_that_are_measured():
    notebooks = [path for path in NOTEBOOKS if path.name == "analysis.ipynb"]
    about = [nbformat.read(path, as_version=4).metadata["async_cost"] for path in notebooks]
    assert {path.parent.name for path in notebooks} == set(analysed())
    assert all(entry.question.endswith("?") and set(entry.studies) <= set(MEASURED) for entry in about)
    assert len({entry.order for entry in about}) == len({entry.question for entry in about}) == len(about)


@pytest.mark.parametrize(
    ("study", "expected"), [("a", ["one", "either", "always"]), ("b", ["either", "always"]), ("c", ["always"])]
)
def test_an_analysis_has_a_page_when_the_run_holds_one_of_its_studies(tmp_path, monkeypatch, study, expected):
    monkeypatch.setattr(publishing, "analysed", lambda: {"one": ("a",), "either": ("a", "b"), "always": ()})
    info = read_run_info(make_run(tmp_path, {}, rounds=2) / "run.json")
    assert analyses_of(replace(info, studies={study: info.studies["zero-cost"]})) == expected


@pytest.mark.parametrize("folder", [folder for folder, needed in analysed().items() if needed])
def test_an_analysis_opens_a_run_that_holds_any_one_of_its_studies(folder):
    source = "\n".join(cell.source for cell in nbformat.read(analysis(folder), as_version=4).cells)
    (arguments,) = re.findall(r"ac\.open\((.*?)\)", source)
    assert set(re.findall(r'"(.+?)"', arguments)) in (set(), set(analysed()[folder]))


@pytest.fixture
def analyses(tmp_path, monkeypatch):
    """Makes analyses of one cell."""

    def write(**sources):
        for name, source in sources.items():
            notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
            nbformat.write(notebook, tmp_path / f"{name}.ipynb")
        monkeypatch.setattr(publishing, "analysed", lambda: dict.fromkeys(sources, ()))
        monkeypatch.setattr(publishing, "analysis", lambda name: tmp_path / f"{name}.ipynb")

    return write


def test_an_analysis_knows_nothing_of_the_one_before_it_in_its_kernel(tmp_path, analyses, monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    shown = "import os; print(os.getcwd(), os.environ.get('ASYNC_COST_COMPARE'), 'left' in globals())"
    analyses(first="left, __import__('os').environ['ASYNC_COST_COMPARE'] = 1, 'x'", second=shown)
    _, second = publishing.execute(["first", "second"], tmp_path / "executed", {}, lambda path: nbformat.read(path, 4))
    assert second.cells[0].outputs[0].text.split() == [str(tmp_path), "None", "False"]


def test_an_analysis_that_fails_has_the_last_word_and_no_other_begins(tmp_path, monkeypatch, analyses):
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    analyses(bad="raise ValueError('the reason')", other="1")
    run = make_run(tmp_path, {}, rounds=2)
    monkeypatch.setenv("ASYNC_COST_REPORTS", str(tmp_path / "reports"))
    monkeypatch.setattr(sys, "argv", ["publishing", str(run)])
    with pytest.raises(SystemExit) as ended:
        publishing.main()
    message = str(ended.value).strip()
    assert "the reason" in message.splitlines()[-1] and "bad.ipynb: the cell that begins with `raise" in message
    assert [path.stem for path in tmp_path.glob("reports/*/*/.notebooks/*")] == ["bad"]


def test_the_first_page_can_be_read_while_others_are_made(tmp_path, monkeypatch, analyses, capfd):
    run = make_run(tmp_path, {}, rounds=2)
    page = tmp_path / "reports" / run.parent.name / run.name / "asked.html"
    monkeypatch.setenv("ASYNC_COST_REPORTS", str(tmp_path / "reports"))
    waits = f"import pathlib, time; [time.sleep(0.1) for _ in range(600) if not pathlib.Path({str(page)!r}).exists()]"
    shown = f"print(open({str(page)!r}).read().count('what was asked for'), 'times')"
    analyses(asked="print('what was asked', 'for')", trust=f"{waits}; {shown}")
    made = publishing.publish_run(run)
    assert [path.name for path in made[:3]] == ["index.html", "asked.html", "trust.html"]
    assert re.search(r"[1-9] times", made[2].read_text(encoding="utf-8"))
    lines = []
    step = commands.publishing(lambda: run)
    monkeypatch.setattr(Progress, "command", lambda *_, progress: [*map(progress, capfd.readouterr().out.splitlines())])
    step.run(Progress(print, tmp_path / "log", tmp_path, say=lines.append))
    assert lines == [f"The page: {commands.where(page)}"]


def test_studies_are_chosen_by_name_and_measured_in_their_own_order():
    first, second, *_ = MEASURED
    assert chosen_studies(f" {second}  {first} ") == (first, second)
    assert chosen_studies(" ") == tuple(MEASURED)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["measure", "--studies", "zero-cots"], f"no study 'zero-cots'; there is {', '.join(MEASURED)}"),
        (["report", "--studies", "zero-cost", "--run", "data/runs/x"], "leave one of them out"),
        (["report", "--native", "--run", "data/runs/x"], "--run and --native exclude each other"),
        (["measure", "--profile", "quick", "--run", "data/runs/x"], "--run and --profile exclude each other"),
        (["measure", "--only", "nonbox"], 'make measure STUDIES=zero-cost ONLY="nonbox; box"'),
    ],
)
def test_a_choice_that_makes_no_sense_is_refused_with_what_does(options, says):
    command = [sys.executable, "-m", "async_cost.workflow", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and says in done.stderr, done.stderr


def test_a_fleet_without_slurm_is_refused_before_anything_is_installed(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(commands, "run_steps", lambda *_: pytest.fail("installs"))
    with pytest.raises(StepFailed, match="there is no sbatch here"):
        commands.fleet(SimpleNamespace(machines=ROOT / "fleet" / "machines"))


def test_a_plan_measures_the_chosen_studies_alone(record_property):
    plan = Plan("measure", "standard", ("ladder",))
    steps = {step.name: step.expected_s for step in plan.steps()}
    assert steps["measure 1 in turns (standard)"] == MEASURED["ladder"].standard
    minutes = round(sum(study.standard for study in MEASURED.values()) / 60)
    record_property("minutes of measuring in a standard run", minutes)
    assert 10 <= minutes <= 40, "some twenty minutes"
    assert plan.command == 'make measure PROFILE=standard STUDIES="ladder"'
    assert Plan("report", "quick").command == "make report PROFILE=quick"
    native = Plan("measure", "quick", ("ladder",), native=True)
    assert native.command == 'make measure PROFILE=quick STUDIES="ladder" NATIVE=1'
    some = Plan("measure", "quick", ("ladder",), only="frontier; split")
    assert some.command == 'make measure PROFILE=quick STUDIES="ladder" ONLY="frontier; split"'


def test_a_run_is_told_what_it_judges_and_measures_and_a_user_cannot_change_how_it_is_compiled():
    env = Plan("measure", "quick", ("ladder",))._env()
    assert set(env["ASYNC_COST_CLAIMS"].split()) == set(claims_of_today().values())
    assert set(env["ASYNC_COST_FINDINGS"].split()) == set(findings_of_today().values())
    assert len(env["ASYNC_COST_PROGRAM"]) == 64
    assert env["CARGO_INCREMENTAL"] == "0" and environment.OURS["CARGO_PROFILE_BENCH_CODEGEN_UNITS"] == "1"


def test_a_lone_quick_study_is_measured_longer():
    alone, two = Plan("measure", "quick", ("ladder",)), Plan("measure", "quick", ("zero-cost", "ladder"))
    assert alone.times > 1 and sum(alone._seconds().values()) == ALONE_S
    assert two.times == 1 == Plan("measure", "standard", ("ladder",)).times
    assert alone._env()["ASYNC_COST_TIMES"] == str(alone.times)
    assert Plan("measure", "quick", ("runtimes",)).times == 1, "it takes longer already"


@pytest.mark.parametrize("native", [True, False])
def test_nothing_else_runs_while_it_measures_and_what_differs_is_told_before(native):
    steps = [*toolchain.steps(native), *Plan("measure", "quick", ("ladder",), native).steps()]
    names = [step.name for step in steps]
    measure = next(number for number, name in enumerate(names) if name.startswith("measure"))
    assert "compare notebooks and crates" in names[:measure]
    assert [step.needs for step in steps[measure:]] == [None] * (len(steps) - measure)
    for number, step in enumerate(steps[:measure]):
        assert set(step.needs) <= set(names[:number]), f"{step.name} waits for what comes after it"
    first = {step.name for step in steps if step.needs == []}
    assert {"Python packages", "count 1"} <= first


def test_plans_that_would_measure_different_things_do_not_share_a_partial_run():
    chosen = (None, ("zero-cost",))
    plans = [Plan("measure", profile, studies) for profile in ("quick", "standard") for studies in chosen]
    plans.append(Plan("measure", "quick", native=True))
    plans += [Plan("measure", "quick", ("zero-cost",), only=only) for only in ("nonbox", "box")]
    assert len({plan.partial for plan in plans}) == len(plans)
    assert Plan("measure", "quick").partial == Plan("report", "quick").partial, "one continues the other"


def test_numbers_depend_on_notebooks_and_on_what_is_committed_of_crates_but_tests_and_texts():
    texts = (".md", "LICENSE-APACHE", "LICENSE-MIT", "thread-sanitizer.txt")
    crates = {
        path
        for path in tracked("rust-kernels/**")
        if plan.UNUSED.isdisjoint(path.parts) and not path.name.endswith(texts)
    }
    assert crates | {*map(measuring, MEASURED), ROOT / "Cargo.lock"} <= set(measured_files())
    assert not [path for path in measured_files() if "tests" in path.parts], "a test changes no number"
    left = (".lib.rs.swp", "lib.rs~", "#lib.rs#", ".DS_Store", "._lib.rs", "README.md", "lib.rs.orig", "4913")
    assert not [*filter(plan.READ.fullmatch, left)], "nor what an editor or a system leaves"


def test_a_notebook_that_was_run_is_the_same_program_and_one_with_another_cell_is_not(tmp_path, monkeypatch):
    notebook, hashes = tmp_path / "measure.ipynb", []
    monkeypatch.setattr(plan, "ROOT", tmp_path)
    monkeypatch.setattr(plan, "measured_files", lambda: [notebook])
    for change in ({}, {"execution_count": 3, "outputs": [new_output("stream", text="6")]}, {"source": "2"}):
        cell = new_code_cell(**{"source": "1\n2", "metadata": {"tags": ["active-ipynb"]}, **change})
        nbformat.write(new_notebook(cells=[cell]), notebook)
        hashes.append(plan._sources().hexdigest())
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize(
    ("profile", "together"), [("smoke", [["ladder", "runtimes"]]), ("quick", [["ladder"], ["runtimes"]])]
)
def test_a_study_is_counted_when_its_counts_were_made_and_with_others_in_a_smoke_run_alone(
    tmp_path, monkeypatch, profile, together
):
    """Else one study would be measured with features of what another depends on."""
    plan, started = Plan("measure", profile, ("ladder", "runtimes")), []
    plan.partial = tmp_path
    monkeypatch.setattr(Progress, "command", lambda self, command, *_: started.append(command))
    (tmp_path / "ladder.counts.csv").write_text("study\n")
    assert not plan._counted("ladder"), "preparing a study writes some counts, too"
    plan._count(Progress(print, tmp_path / "log", tmp_path))
    assert plan._counted("ladder") and plan._counted("runtimes")
    assert [[word[2:] for word in command if word.startswith("-p")] for command in started] == together


def test_what_could_not_be_counted_is_told_on_the_page(tmp_path):
    run = make_run(tmp_path, {("nonbox", OFF): 3.0})
    counts = run / "zero-cost.counts.csv"
    counts.write_text(counts.read_text().replace(",instructions,", ",instructions_failed,"), encoding="utf-8")
    read = load_run(run)
    number = read.not_counted("zero-cost")["instructions"]
    assert number > 1 and f"The `instructions` of {number} variants could not be counted." in remarks(read, "zero-cost")
    assert not read.counts("zero-cost").filter(counter="instructions").height


def test_what_compares_machines_begins_when_all_others_are_written(tmp_path, analyses):
    shown = "import os, pathlib; print(sorted(path.name for path in pathlib.Path(os.environ['ASYNC_COST_ANALYSES']).iterdir()))"
    analyses(hardware=shown, slow="import time; time.sleep(1)", quick="1")
    last, *_ = publishing.execute(["hardware", "slow", "quick"], tmp_path / "executed", {}, Path)
    assert "['quick.ipynb', 'slow.ipynb']" in last.read_text(encoding="utf-8")
