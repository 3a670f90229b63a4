"""The repository keeps its promises: generated text is fresh, links lead somewhere, nothing names a machine or a
registry.
"""

import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from cargo_tests import packages
from ours import committed_runs, tracked

from async_cost.paths import runs_root
from async_cost.runs.comparisons import DATA
from async_cost.runs.find import reference_run
from async_cost.runs.profiles import NOT_EVIDENCE
from async_cost.runs.reader import read_own
from async_cost.runs.run import open_sitting
from async_cost.statistics.measured import Measured
from async_cost.workflow.environment import PASSED
from async_cost.workflow.toolchain import ROOT

#: Bytes that a committed run may take: the repository keeps every run for ever.
LIMIT_BYTES = 6_000_000
TRACKED = [str(path.relative_to(ROOT)) for path in tracked()]
PAGES = [name for name in TRACKED if name.endswith(".md")]


#: Studies whose controls must hold in the reference run. In the others each group is judged by its own, and one that
#: fails concludes nothing on any page: threads, and processes that live for a moment, vary too much on two shared cores
#: for every group to hold.
EVIDENCE = ("zero-cost", "ladder", "zero-cost-sockets")


def test_the_reference_run_is_evidence():
    run = reference_run()
    assert run.info.git.clean, "the reference run was measured with uncommitted changes"
    for study in EVIDENCE:
        assert not Measured(run, study).refused, study


def test_the_readme_is_one_screen():
    """Outside of tables, folded parts and pictures."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    text = re.sub(r"(?s:<details>.*?</details>|<picture>.*?</picture>)|^\|.*$", " ", text, flags=re.MULTILINE)
    assert len(re.sub(r"<[^>]+>|\]\([^)]*\)|```", " ", text).split()) <= 500


def test_every_committed_run_is_sound_and_none_is_one_that_is_never_evidence():
    runs = [open_sitting(folder).checked() for folder in committed_runs()]
    assert [run.info.run_id for run in runs if run.info.profile in NOT_EVIDENCE] == []


def git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_every_run_of_history_is_there_or_in_the_list_of_deleted_runs():
    there = {folder.relative_to(ROOT / "data" / "runs").as_posix() for folder in committed_runs()}
    rows = read_own(ROOT / "data" / "runs" / "DELETED.csv")
    listed = {run: (day, subject) for run, day, subject in rows.select("run", "deleted", "subject").iter_rows()}
    assert len(listed) == rows.height and not listed.keys() & there and "" not in rows["reason"]
    deleted = dict[str, tuple[str, ...]]()
    seen = set[str]()
    log = git("log", "--no-renames", "--diff-filter=AD", "--name-status", "--format=%x00%as%x09%s", "--", "data/runs")
    for commit in log.split("\0")[1:]:  # the newest first
        head, _, files = commit.partition("\n")
        for kind, run in re.findall(r"^([AD])\tdata/runs/([^./][^/]*/[^/]+)/run\.json$", files, re.MULTILINE):
            if run not in seen and kind == "D":
                deleted[run] = tuple(head.split("\t", 1))
            seen.add(run)
    # A clone without all of the history knows fewer of them.
    assert seen - there <= listed.keys(), "data/runs/DELETED.csv: a row for each run that is gone, with the reason"
    assert deleted == {run: listed[run] for run in deleted}, "not the day and the subject of the commit that deleted it"


def test_no_crate_hides_tests_from_cargo():
    """A library without tests says so in its manifest, which spares building it once more for nothing."""
    for name, package in packages().items():
        for target in (target for target in package["targets"] if "lib" in target["kind"]):
            code = Path(target["src_path"]).read_text(encoding="utf-8")
            example = re.search(r"^\s*//[/!] ```(?!text)\w*$.*?^\s*//[/!] ```$", code, re.M | re.S)
            for what, there in (("test", "#[test]" in code), ("doctest", example)):
                assert target[what] or not there, f"{name} has what `{what} = false` hides: delete that in Cargo.toml"


def test_every_variable_of_the_environment_is_documented_and_passed_on_if_others_set_it():
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("## Settings by environment\n")[2]
    rows = [line.split("|") for line in page.partition("\n## ")[0].splitlines() if line.startswith("| `")]
    set_by_others = {
        name: bool(re.search("you|tests|fleet|ci", row[3])) for row in rows for name in re.findall("[A-Z_]{2,}", row[1])
    }
    sources = [ROOT / name for name in TRACKED if name == ".ci/run" or name.endswith((".py", ".rs", ".ipynb"))]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    assert set(re.findall(r"\bASYNC_COST_([A-Z_]*[A-Z])\b", text)) == set_by_others.keys()
    assert set_by_others == {name: bool(PASSED.fullmatch(f"ASYNC_COST_{name}")) for name in set_by_others}


@pytest.mark.parametrize(
    ("table", "key"), [("names", ("study", "variant")), ("prices", ("what",)), ("latency", ("id",))]
)
def test_a_table_of_ours_names_each_thing_once(table, key):
    rows = read_own(DATA / f"{table}.csv").select(key)
    assert rows.height and not rows.is_duplicated().any()


def test_no_report_is_committed():
    """A table next to a report is believed: only this machine may have made it."""
    assert not [name for name in TRACKED if name.startswith("reports/")]


def test_committed_runs_stay_small():
    sizes = Counter()
    for name in TRACKED:
        if name.startswith("data/runs/") and name.count("/") > 3:
            sizes[name.rsplit("/", 1)[0]] += (ROOT / name).stat().st_size
    assert sizes, f"no run is committed below {runs_root()}"
    large = [run for run, size in sizes.items() if size > LIMIT_BYTES]
    assert not large, f"compress the tables (gzip -9): {large}"


@pytest.mark.parametrize("page", PAGES)
def test_links_between_files_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = [target.split("#")[0] for target in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in target]
    missing = [target for target in targets if target and not ((ROOT / page).parent / target).exists()]
    assert not missing, f"{page} links to {missing}"


def test_no_tracked_file_names_a_home_folder_or_a_registry_host():
    hosts = "|".join(["crates" + r"\.io/", "index" + r"\.crates", "pypi" + r"\.org", "pythonhosted", "artifactory"])
    pattern = re.compile(rf"/(home/[a-z]+|root)/|{hosts}")
    named = []
    for name in TRACKED:
        if name.endswith((".gz", ".png")) or name.startswith("tests/"):  # tests hold such names on purpose
            continue
        text = (ROOT / name).read_text(encoding="utf-8", errors="replace")
        named += [f"{name}: {match[0]}" for match in pattern.finditer(text)]
    assert not named, named
