"""The crate `by-turns`, which others use: it judges as the table does, and a repository of theirs works with it."""

import csv
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import nbconvert.filters
import nbformat
import polars as pl
import pytest

import async_cost
from async_cost.runs.comparisons import BASE_KEY, KEY, PAIR
from async_cost.runs.find import load_run
from async_cost.runs.run import Run
from async_cost.statistics.judge import CONTROL_OFF, _groups_behind, in_sittings
from async_cost.statistics.table import make
from async_cost.workflow import layouts
from async_cost.workflow.toolchain import ROOT

METHODS = ("tango-bench", "Criterion")
#: What the table and the crate both say, as numbers.
NUMBERS = ("ratio", "low", "high", "undisturbed", "undisturbed_low", "undisturbed_high", "bias", "chance", "offset")
#: A control that is made to differ from its baseline, in a group that comparisons of two loads depend on.
STUDY_OFF, OFF = "call-styles", {"bench": "call_methods_waiting/waiting call_nonblock", "variant": "event loop (A/A)"}
#: One that is made to differ, so imprecise that chance may explain it among all.
STUDY_UNSURE = "runtimes"
UNSURE = {"bench": "sync_broadcast/contention/100", "variant": "tokio (A/A)", "parameter": ""}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Iterator[Run]:
    """A sitting where there is no other: the crate has no series, from which an interval learns what an hour adds. The
    controls of a kind are off together, and one is made to differ by 16 %, so that intervals are widened by both;
    another by 15 %, which is not significant.
    """
    alone = tmp_path_factory.mktemp("runs") / "amd-epyc-2c" / "20261127T015429Z"
    shutil.copytree(ROOT / "data" / "runs" / alone.parent.name / alone.name, alone)
    for study, key, by in ((STUDY_OFF, OFF, 1.16), (STUDY_UNSURE, UNSURE, 1.15)):
        file = alone / f"{study}.time.csv.gz"
        ns, off = (
            pl.col("elapsed_ns"),
            pl.all_horizontal(pl.col(name).fill_null("") == value for name, value in key.items()),
        )
        longer = pl.when(off).then((by * ns).cast(pl.Int64)).otherwise(ns).alias("elapsed_ns")
        pl.read_csv(file).with_columns(longer).write_csv(file, compression="gzip")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASYNC_COST_RUNS", str(alone.parents[1]))
        yield load_run(alone)


@pytest.fixture(scope="module")
def table(run) -> pl.DataFrame:
    return make(run).frame


@pytest.fixture(scope="module")
def by_the_crate(run, table, tmp_path_factory) -> list[dict[str, str]]:
    """What the example `judge` of the crate says of each row of the table, from the same samples."""
    folder = tmp_path_factory.mktemp("judge")
    for study in run.info.studies:
        run.whole_time(study).select(
            "study", *KEY, "round", "position", "sample", "iterations", "elapsed_ns"
        ).write_csv(folder / f"{study}.time.csv")
        starts = [episode.first_round for episode in run.study(study).episodes]
        pl.DataFrame({"first_round": starts}).write_csv(folder / f"{study}.episodes.csv")
    units = pl.concat(run.units(study).select(*KEY, "units", study=pl.lit(study)) for study in run.info.studies)
    behind = [";".join(group for _, group in groups[1:]) for groups in _groups_behind(table)]
    rows = table.with_columns(behind=pl.Series(behind))
    rows = rows.join(units, on=["study", *KEY], how="left", maintain_order="left").join(
        units.rename({"units": "baseline_units"}),
        left_on=["study", *BASE_KEY],
        right_on=["study", *KEY],
        how="left",
        maintain_order="left",
    )
    both = pl.col("units").is_not_null() & pl.col("baseline_units").is_not_null()
    rows = rows.with_columns(pl.when(both).then(name).otherwise(1).alias(name) for name in ("units", "baseline_units"))
    names = ("study", *PAIR, "group", "kind", "limit", "control", "units", "baseline_units", "behind")
    rows.select(names).write_csv(folder / "comparisons.csv")
    command = ["cargo", "run", "--quiet", "--release", "-p", "by-turns-core", "--example", "judge", "--", folder]
    environ = {**os.environ, **layouts.environment()}
    output = subprocess.run(command, cwd=ROOT, env=environ, check=True, capture_output=True, text=True).stdout
    return list(csv.DictReader(io.StringIO(output)))


def test_the_crate_judges_each_comparison_as_the_table_does(table, by_the_crate):
    assert len(by_the_crate) == table.height > 100
    for theirs, ours in zip(by_the_crate, table.iter_rows(named=True), strict=True):
        which = " ".join(str(ours[name]) for name in ("study", *PAIR))
        for name in NUMBERS:
            number, other = float(theirs[name] or "nan"), math.nan if ours[name] is None else ours[name]
            same = math.isclose(number, other, rel_tol=1e-7, abs_tol=1e-9) or (math.isnan(number) and math.isnan(other))
            assert same, f"{which}: {name} is {number} by the crate, {other} in the table"
        assert (theirs["verdict"] or None) == ours["verdict"], which
        assert bool(theirs["reason"]) == (ours["doubt"] is not None), which
        hours = ours["omega2"] is not None
        assert theirs["reason"] or to_decide(theirs["needed"], hours) == ours["to_decide"], which


def to_decide(needed: str, covers_hours: bool) -> str | None:
    """What the crate says would decide it, in the words of the table."""
    if needed == "control":
        return CONTROL_OFF
    if "/" in needed:
        return "nothing: {} on a typical machine, {} on an undisturbed one".format(*needed.split("/"))
    return in_sittings(float(needed), covers_hours) if needed else None


def test_the_run_holds_every_word(table):
    assert {"slower", "faster", "same", "undecided"} == {*table["verdict"].drop_nulls()}
    assert (table["bias"] > 0).any() and table["undisturbed"].is_not_null().any()
    unsure = table.filter(study=STUDY_UNSURE, group="sync_broadcast")
    assert unsure["offset"].max() == 0 and unsure.filter(**UNSURE)["verdict"].item() == "slower"
    inside = (pl.col("low") >= 1 - pl.col("limit")) & (pl.col("high") <= 1 + pl.col("limit"))
    same = unsure.filter(inside & ~pl.col("control"))
    assert {*same["verdict"]} == {"undecided"} and {*same["to_decide"]} == {CONTROL_OFF}
    off, loads = table.filter(pl.col("offset") > 0), pl.col("parameter") != pl.col("baseline_parameter")
    assert off.filter(**OFF).height == 1 and off.filter(loads, group="calls").height > 1 < off.filter(~loads).height


# -- the trust page's figures in the documentation -----------------------------------------------------------


def test_the_figures_against_a_gate_on_time_are_those_of_the_trust_page():
    page = (ROOT / "docs" / "sample" / "trust.md").read_text(encoding="utf-8")
    document = (ROOT / "rust-kernels" / "by-turns" / "README.md").read_text(encoding="utf-8")
    for ours, theirs in (("trials in turns, as here", "short trials"), *((name, name) for name in METHODS)):
        median, p90 = re.search(rf"<td>{theirs}</td><td>64</td><td>([\d.]+)</td><td>([\d.]+)</td>", page).groups()
        assert f"| {ours} | {median} % | {p90} % |" in document, f"{ours}: {median} and {p90} %"
    moved = re.findall(r"<td>([\d.]+)</td><td>(?:True|False)</td>", page.split("in several orders")[1])
    assert f"differed from itself by up to {max(map(float, moved[:5]))} %" in document


# -- a repository of somebody else's -------------------------------------------------------------------------


class Own:
    """The template, copied out of the repository, with the crates as they are packaged."""

    def __init__(self, folder: Path):
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "your-own"
        shutil.rmtree(target / "package", ignore_errors=True)
        package = ["cargo", "package", "--quiet", "--offline", "--allow-dirty", "--no-verify"]
        crates = ["-p", "by-turns-core", "-p", "by-turns"]
        subprocess.run([*package, *crates, "--target-dir", target], cwd=ROOT, check=True)
        for archive in (target / "package").glob("*.crate"):
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
        for source in folder.rglob("*.rs"):
            source.touch()  # packed, all are of one date: cargo would take what it compiled before for this
        (core,) = folder.glob("by-turns-core-*")
        (self.crate,) = {*folder.glob("by-turns-*")} - {core}
        #: The crates in place of those of a registry.
        self.patches = [
            argument
            for name, path in (("by-turns", self.crate), ("by-turns-core", core))
            for argument in ("--config", f'patch.crates-io.{name}.path="{path}"')
        ]
        self.folder = folder / "your-own"
        shutil.copytree(ROOT / "examples" / "your-own", self.folder, ignore=shutil.ignore_patterns("target"))
        for name in ("Cargo.lock", "rust-toolchain.toml"):  # its versions, and this compiler, are here
            shutil.copy(ROOT / name, self.folder)
        # What others wrote is compiled once.
        (self.folder / "target").symlink_to(target)

    def cargo(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
        return subprocess.run(
            ["cargo", command, "--quiet", "--offline", *self.patches, "--bench", "own", "--", *arguments],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
        )

    def changed(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture(scope="module")
def own(tmp_path_factory) -> Own:
    return Own(tmp_path_factory.mktemp("own"))


@pytest.mark.parametrize("source", ["--git", "--path"])
def test_the_readme_says_how_to_add_it(source, tmp_path):
    """From a clone beside the package: nothing is fetched from elsewhere."""
    page = (ROOT / "rust-kernels" / "by-turns" / "README.md").read_text(encoding="utf-8")
    (words,) = re.findall(rf"(cargo add --dev by-turns {source} [^`\n]+)", page)
    clone, user = tmp_path / "async-cost", tmp_path / "user"
    if source == "--git":
        subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{ROOT}", clone], check=True)
        words = words.replace("<address of the repository async-cost>", f"file://{clone}")
    else:
        clone.symlink_to(ROOT)
    (user / "src").mkdir(parents=True)
    (user / "src" / "lib.rs").touch()
    (user / "Cargo.toml").write_text('[package]\nname = "user"\nedition = "2024"\n[workspace]\n', encoding="utf-8")
    for name in ("Cargo.lock", "rust-toolchain.toml"):
        shutil.copy(ROOT / name, user)
    # What cargo clones stays here; what it has of the registry is there already.
    registry = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")) / "registry"
    (tmp_path / "cargo").mkdir()
    (tmp_path / "cargo" / "registry").symlink_to(registry)
    environ = {**os.environ, "CARGO_HOME": str(tmp_path / "cargo")}
    done = subprocess.run(words.split(), cwd=user, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tree = ["cargo", "tree", "--edges", "normal,dev", "--prefix", "none"]
    done = subprocess.run(tree, cwd=user, env=environ, capture_output=True, text=True)
    assert done.returncode == 0 and re.search(r"^by-turns v[\d.]+ \(", done.stdout, re.MULTILINE), done.stderr


def test_a_user_compiles_at_most_eight_other_crates(own):
    tree = ["cargo", "tree", "--offline", *own.patches, "--package", "by-turns"]
    options = ["--edges", "normal,dev", "--prefix", "none", "--format", "{p}", "--no-dedupe"]
    lines = subprocess.run([*tree, *options], cwd=own.folder, check=True, capture_output=True, text=True).stdout
    crates = {line.split()[0] for line in lines.splitlines()} - {"by-turns"}
    assert {"by-turns-core", "serde_json"} <= crates and len(crates) <= 8, f"{len(crates)}: {sorted(crates)}"


@pytest.fixture(scope="module")
def report(own) -> dict:
    done = own.cargo("bench", "--processes", "4", "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_bench_of_ones_own_says_what_each_way_costs(own, report):
    inline, boxed, control = report["variants"]
    assert [way["variant"] for way in report["variants"]] == ["inline", "boxed", "inline (A/A)"]
    assert control["control"] and control["ratio"]
    assert boxed["verdict"] == "slower" or boxed["reason"], "a box costs ten times as much"
    sizes = {"future_bytes": inline["counts"]["future_bytes"]}
    assert (inline["counts"] | {"allocations": 1000, "allocated_bytes": 1000 * sizes["future_bytes"]}).items() >= {
        name: boxed["counts"][name] for name in ("allocations", "allocated_bytes", "future_bytes", "units")
    }.items()
    assert inline["counts"]["allocations"] == inline["counts"]["allocated_bytes"] == 0
    if shutil.which("valgrind"):
        more = boxed["counts"]["instructions"] - inline["counts"]["instructions"]
        assert inline["counts"]["instructions"] > 1000 and more > 30 * 1000, "malloc and free are called"
        assert boxed["counts"]["system_calls"] == 0
    else:
        assert any("valgrind" in note for note in report["notes"])


@pytest.mark.skipif(sys.platform != "linux" or os.uname().machine != "x86_64", reason="no linker that can")
def test_each_process_has_a_link_order_of_its_own_without_the_user_doing_anything(report):
    assert "4 processes, each with a link order of its own" in report["measured"]
    info = json.loads(Path(report["samples"], "run.json").read_text())
    layouts = [episode["layout"] for episode in info["studies"]["own"]["episodes"]]
    assert len({*layouts}) == 4 and None not in layouts


def test_its_run_is_read_and_judged_like_one_of_ours(report):
    table = make(load_run(Path(report["samples"]))).frame
    for way in report["variants"][1:]:
        row = table.row(by_predicate=pl.col("variant") == way["variant"], named=True)
        ours = [row[name] for name in ("ratio", "low", "high")]
        assert all(math.isclose(*pair, rel_tol=1e-7) for pair in zip(way["ratio"], ours, strict=True)), way["variant"]
        assert way["verdict"] == row["verdict"], way["variant"]


def executed(notebook: Path, folder: Path, **environ: str) -> str:
    """The page that it makes."""
    options = ["-m", "nbconvert", "--execute", "--to", "html", "--output", "page", "--output-dir"]
    done = subprocess.run(
        [sys.executable, *options, folder, notebook],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environ},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return (folder / "page.html").read_text(encoding="utf-8")


def test_its_notebook_becomes_a_page_with_the_answer(own, report):
    page = executed(own.folder / "own.ipynb", own.folder)
    assert f"<strong>boxed</strong> is {report['variants'][1]['verdict'] or 'measured'}" in page
    assert "4 processes" in page


def test_from_samples_computes_its_verdict_by_hand(report, tmp_path):
    notebook = nbformat.read(ROOT / "notebooks" / "from-samples.ipynb", as_version=4)
    first = next(cell for cell in notebook.cells if "STUDY, VARIANT" in cell.source)
    pair = 'STUDY, VARIANT, BASELINE, PARAMETER = "own", "boxed", "inline", ""'
    first.source = re.sub(r"STUDY, VARIANT.*", pair, first.source).replace('ac.open("zero-cost")', 'ac.open("own")')
    nbformat.write(notebook, tmp_path / "by-hand.ipynb")
    assert "the package" in executed(tmp_path / "by-hand.ipynb", tmp_path, ASYNC_COST_RUN=report["samples"])


def test_any_text_is_a_name_in_the_run_and_on_its_pages(own, monkeypatch):
    variant = '**Vec<u8>**, "x" | `y`\\n'
    literal = json.dumps(variant.replace("\\n", "\n"))
    for old, new in (('"boxed"', literal), ('new("own")', 'new("Own & <co>")')):
        own.changed("benches/own.rs", old, new)
    done = own.cargo("bench", "--processes", "4", "--no-layouts", "--format", "json")
    for old, new in (('"boxed"', literal), ('new("own")', 'new("Own & <co>")')):
        own.changed("benches/own.rs", new, old)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["bench"] == "Own & <co>" and report["variants"][1]["variant"] == variant
    monkeypatch.setenv("ASYNC_COST_RUN", report["samples"])
    (study,) = load_run(Path(report["samples"])).checked().info.studies
    assert re.fullmatch("own-co-[0-9a-f]{16}", study) and Path(report["samples"], f"{study}.svg").exists()
    rows = async_cost.open(study).comparisons
    assert variant in rows["variant"].to_list()
    page = async_cost.comparison_table(rows, "all").data
    assert "Vec&lt;u8&gt;" in page and "**Vec" in page and "<u8" not in page
    cells = nbformat.read(own.folder / "own.ipynb", as_version=4).cells
    (answer,) = (cell.source for cell in cells if "def said" in cell.source)
    names = {"re": re, "report": report, "Markdown": lambda text: None}
    exec(answer, names)
    html = nbconvert.filters.markdown2html(names["said"](report["variants"][1]))
    assert "Vec&lt;u8&gt;" in html and "<u8" not in html


def test_where_link_orders_are_not_drawn_the_table_says_so_and_a_quick_one_concludes_nothing(own):
    done = own.cargo("bench", "box", "--quick")
    assert done.returncode == 0, done.stderr
    assert "4 processes, all with one link order, 12 rounds" in done.stdout
    assert "- link orders were not drawn (--quick)" in done.stdout
    assert "- nothing is concluded: --quick" in done.stdout and "slower" not in done.stdout


def test_a_report_is_handed_over_once_although_main_runs_in_each_process(own, tmp_path):
    handed, last = tmp_path / "handed.txt", "    .future_bytes(size_of_val(&*boxed(0)))"
    mine = f"""{last}
        .on_report(|report| {{
            use std::io::Write;
            let file = std::fs::OpenOptions::new().create(true).append(true).open({json.dumps(str(handed))});
            let names: Vec<String> = report.variants.iter().map(|variant| variant.name()).collect();
            writeln!(file.expect("a file"), "{{}}: {{}}", report.bench, names.join(", ")).expect("it is written");
        }})"""
    own.changed("benches/own.rs", last, mine)
    others = [own.cargo("test"), own.cargo("bench", "--list")]
    early = handed.exists()
    run = own.cargo("bench", "--quick", "--no-layouts")
    own.changed("benches/own.rs", mine, last)
    assert [done.returncode for done in (*others, run)] == [0, 0, 0], run.stderr
    assert not early and handed.read_text(encoding="utf-8") == "own: inline, boxed, inline (A/A)\n"
    assert "4 processes" in run.stdout


def test_a_plot_is_a_part_of_markdown_and_of_no_other_output(own):
    plot = own.cargo("bench", "--quick", "--no-layouts", "--plot", "--format", "markdown").stdout
    table, drawn = plot.split("\n\n```text\n")
    assert table.startswith("### own\n") and drawn.startswith("boxed ") and drawn.endswith("\n```\n")
    other = own.cargo("bench", "--quick", "--no-layouts", "--plot", "--format", "json")
    assert json.loads(other.stdout)["bench"] == "own" and "\nboxed " in other.stderr and "```" not in other.stderr


def test_a_filter_that_matches_nothing_lets_cargo_go_on_and_one_for_a_baseline_compares(own):
    nobody = own.cargo("bench", "nobody")
    assert nobody.returncode == 0
    assert 'own: 0 measured: no variant matches "nobody"; there are own/inline, own/boxed\n' in nobody.stderr
    baseline = own.cargo("bench", "inline", "--quick", "--no-layouts", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(baseline.stdout)))
    assert [row["variant"] for row in rows] == ["inline", "boxed", "inline (A/A)"], baseline.stderr


def test_others_run_it_like_a_test(own):
    """As nextest lists and runs tests, and cannot be asked for something else."""
    listed = own.cargo("test", "--list", "--format", "terse")
    assert listed.stdout == "own/inline: benchmark\nown/boxed: benchmark\n", listed.stderr
    ignored = own.cargo("test", "--list", "--format", "terse", "--ignored")
    assert (ignored.returncode, ignored.stdout) == (0, "")
    one = own.cargo("test", "--exact", "own/boxed", "--nocapture")
    assert one.returncode == 0 and "all do equal work" in one.stdout
    wrong = own.cargo("bench", "--quik")
    assert wrong.returncode != 0 and "unknown option --quik; did you mean --quick?" in wrong.stderr


@pytest.mark.skipif(sys.platform == "darwin", reason="for many Macs there is no valgrind")
def test_without_valgrind_counts_are_not_saved_and_only_those_that_need_none_pass_the_gate(own, tmp_path):
    own.cargo("bench", "--list")
    programs = (own.folder / "target" / "release" / "deps").glob("own-" + 16 * "[0-9a-f]")
    program = max(programs, key=lambda file: file.stat().st_mtime)
    base = tmp_path / "base.csv"

    def ran(option: str) -> subprocess.CompletedProcess[str]:
        words = [program, "--bench", option, str(base)]
        environ = {"PATH": "", "CARGO_PKG_NAME": "your-own"}
        return subprocess.run(words, cwd=own.folder, env=environ, capture_output=True, text=True)

    saved = ran("--save-counts")
    assert saved.returncode == 1 and "valgrind is not installed" in saved.stderr and not base.exists()
    row = "package,bench,variant,load,counter,value\nyour-own,own,inline,,{}\n"
    for counted, status in [("allocations,0", 0), ("instructions,9", 1)]:
        base.write_text(row.format(counted), encoding="utf-8")
        compared = ran("--gate")
        assert compared.returncode == status and "valgrind is not installed" in compared.stdout, compared


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_a_gate_passes_what_is_equal_and_stops_what_allocates_more(own, tmp_path):
    base = tmp_path / "of" / "base.csv"
    counted = own.cargo("bench", "--save-counts", str(base))
    assert counted.returncode == 0 and f"counts in {base}" in counted.stdout, counted.stderr
    same = own.cargo("bench", "--gate", str(base))
    assert same.returncode == 0 and "nothing that is exact has changed" in same.stdout
    workflow = (own.folder / ".github" / "workflows" / "costs.yml").read_text(encoding="utf-8")
    (header,) = re.findall('echo "(.*)" > "[$]RUNNER_TEMP/base.csv"', workflow)
    (tmp_path / "first.csv").write_text(header + "\n", encoding="utf-8")
    first = own.cargo("bench", "--gate", str(tmp_path / "first.csv"))
    assert first.returncode == 0 and "| new | 0 % |" in first.stdout, first.stderr
    plain, more = "    Box::pin(next(number))", "    Box::pin(next(*std::hint::black_box(Box::new(number))))"
    own.changed("src/lib.rs", plain, more)
    grown = own.cargo("bench", "--gate", str(base))
    lenses = [f"{lens}=1000" for lens in ("instructions", "allocations", "allocated_bytes")]
    allowed = own.cargo("bench", "--gate", str(base), *(word for lens in lenses for word in ("--allow", lens)))
    own.changed("src/lib.rs", more, plain)
    assert (
        grown.returncode != 0
        and "| boxed | allocations | 1,000 | 2,000 | +100.00 % | 0 % | **too much** |" in grown.stdout
    )
    assert allowed.returncode == 0, allowed.stdout


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_variants_that_are_compared_with_nothing_are_counted_all_the_same(own, tmp_path):
    compared, alone = '        .variant("boxed"', '        .load("alone")\n        .variant("boxed"'
    own.changed("benches/own.rs", compared, alone)
    base = str(tmp_path / "base.csv")
    runs = [own.cargo("bench", *words) for words in (["--save-counts", base], ["--gate", base], ["--quick"])]
    own.changed("benches/own.rs", alone, compared)
    assert [run.returncode for run in runs[:2]] == [0, 0], runs
    assert "nothing that is exact has changed" in runs[1].stdout
    assert runs[2].returncode != 0 and "own: nothing to compare: add two variants of one load; " in runs[2].stderr


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_what_a_user_has_set_for_valgrind_changes_no_count(own, tmp_path, monkeypatch):
    # Cargo and rustup live in the true one.
    monkeypatch.setenv("CARGO_HOME", os.environ.get("CARGO_HOME", str(Path.home() / ".cargo")))
    monkeypatch.setenv("RUSTUP_HOME", os.environ.get("RUSTUP_HOME", str(Path.home() / ".rustup")))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("VALGRIND_OPTS", "--no-such-option")
    files = [own.folder / ".valgrindrc", tmp_path / ".valgrindrc"]
    for file in files:
        file.write_text("--no-such-option\n", encoding="utf-8")
    counted = own.cargo("bench", "--save-counts", str(tmp_path / "base.csv"))
    files[0].unlink()
    assert counted.returncode == 0, counted.stderr
    assert ",instructions," in (tmp_path / "base.csv").read_text(encoding="utf-8")


#: Variants that are the same, with what a neighbour leaves behind: blocks of the allocator. One fails under valgrind.
IDENTICAL = """
use std::sync::{Mutex, mpsc};

by_turns::count_allocations!();

fn work(turn: &mut by_turns::Turn<'_, u64>) {
    let (lock, (send, receive)) = (Mutex::new(0_u64), mpsc::channel());
    turn.iter(|| {
        let start = std::time::Instant::now();
        *lock.lock().unwrap() += 1;
        (0..100).for_each(|job| send.send(Box::new(job)).unwrap());
        let sum: u64 = (0..100).map(|_| *receive.recv().unwrap()).sum();
        sum + u64::from(start.elapsed().is_zero())
    })
}

fn main() {
    let names = std::env::var("VARIANTS").unwrap();
    let bench = names.split(' ').fold(by_turns::Bench::new("own"), |bench, name| {
        bench.variant(name, move |turn| {
            let counted = std::env::var_os("BY_TURNS_COUNTED").is_some();
            assert!(!(counted && name == "broken"), "no such machine");
            work(turn)
        })
    });
    bench.main();
}
"""


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
def test_what_stands_above_a_variant_changes_none_of_its_counts_and_a_stripped_program_has_the_same(
    own, tmp_path, monkeypatch
):
    bench, file = own.folder / "benches" / "own.rs", tmp_path / "base.csv"
    before = bench.read_text(encoding="utf-8")
    bench.write_text(IDENTICAL, encoding="utf-8")
    monkeypatch.setenv("VARIANTS", "a b c")
    saved = own.cargo("bench", "--save-counts", str(file))
    rows = list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"))))
    monkeypatch.setenv("VARIANTS", "new a b c")
    above = own.cargo("bench", "--gate", str(file), "--allow", "instructions=0")
    monkeypatch.setenv("VARIANTS", "a b")
    gone = own.cargo("bench", "--gate", str(file))
    monkeypatch.setenv("VARIANTS", "a b c broken")
    broken = own.cargo("bench", "--gate", str(file))
    refused = own.cargo("bench", "--save-counts", str(file))
    monkeypatch.setenv("VARIANTS", "a b c")
    monkeypatch.setenv("CARGO_PROFILE_BENCH_STRIP", "true")
    stripped = own.cargo("bench", "--gate", str(file), "--allow", "instructions=0")
    bench.write_text(before, encoding="utf-8")
    assert saved.returncode == 0, saved.stderr
    assert list(rows[0]) == ["package", "bench", "variant", "load", "counter", "value"]
    assert {row["package"] for row in rows} == {"your-own"}
    counts = {name: {(row["counter"], row["value"]) for row in rows if row["variant"] == name} for name in "abc"}
    assert len(counts["a"]) == 4 and counts["a"] == counts["b"] == counts["c"]
    assert ("system_calls", "2") in counts["a"], "the clock is read twice"
    assert above.returncode == 0 and "| 2 | new | 0 % |" in above.stdout, above.stdout
    assert "The same: 12 numbers." in above.stdout, above.stdout
    assert gone.returncode != 0 and "| c | allocations |" in gone.stdout and "missing; if" in gone.stdout
    assert broken.returncode != 0 and "instructions of own/broken are not counted: under valgrind" in broken.stdout
    assert "no such machine" in broken.stdout and "own/broken" in refused.stderr and refused.returncode != 0
    assert stripped.returncode == 0 and "nothing that is exact has changed" in stripped.stdout, stripped.stdout


def test_unequal_work_is_never_measured(own):
    proved = own.cargo("test")
    assert proved.returncode == 0 and "all do equal work" in proved.stdout
    right, wrong = "finish(boxed(black_box(call)))", "finish(boxed(black_box(call + 1)))"
    own.changed("benches/own.rs", right, wrong)
    runs = [own.cargo("test"), own.cargo("bench", "--quick")]
    own.changed("benches/own.rs", wrong, right)
    for run in runs:
        assert (
            run.returncode != 0
            and "own/boxed returned a different result in its first call from own/inline" in run.stderr
        )


def test_a_way_that_does_other_work_only_after_a_while_is_never_judged(own):
    right = "|turn| turn.iter(|| (0..CALLS).map(|call| finish(boxed(black_box(call)))).sum())"
    wrong = """|turn| {
            let mut before = 0;
            turn.iter(|| {
                before += 1;
                u64::from(before > 3) + (0..CALLS).map(|call| finish(boxed(black_box(call)))).sum::<u64>()
            });
        }"""
    own.changed("benches/own.rs", right, wrong)
    run = own.cargo("bench", "--quick", "--no-layouts")
    own.changed("benches/own.rs", wrong, right)
    assert (
        run.returncode != 0 and "own/boxed returned a different result after its samples from own/inline" in run.stderr
    )
    assert "verdict" not in run.stdout
