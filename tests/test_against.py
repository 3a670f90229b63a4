"""`cargo by-turns --against`: two revisions of a repository of somebody else's."""

import csv
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]

from async_cost.workflow.toolchain import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it is for Linux")

MANIFEST = f"""[package]
name = "user"
version = "0.1.0"
edition = "2024"

[lib]
bench = false

[dependencies]
libc = "0.2"

[dev-dependencies]

[target.'cfg(unix)'.dev-dependencies]
by-turns = {{ path = "{ROOT}/rust-kernels/by-turns" }}

[[bench]]
name = "own"
harness = false
"""
LIBRARY = """//! A library.

/// Adds up.
pub fn sum(items: &[u64]) -> u64 {
    let mut sum = 0;
    for item in items {
        sum += std::hint::black_box(*item);
    }
    sum
}
"""
BENCH = """use by_turns::Bench;

by_turns::count_allocations!();

fn main() {
    let items: Vec<u64> = (0..1000).collect();
    Bench::new("own").variant("sum", |turn| turn.iter(|| user::sum(&items))).main();
}
"""
#: Changes of the library: what is replaced, and by what.
COMMENT = ("//! A library.", "//! A library that adds up.")
EQUAL = ("let mut sum = 0;", "std::hint::black_box(7_u8);\n    let mut sum = 0;")
#: So much slower that a busy machine does not hide it.
SLOWER = ("    sum\n}", "    for at in 0..20 * items.len() {\n        std::hint::black_box(at);\n    }\n    sum\n}")
ALLOCATES = ("let mut sum = 0;", "let mut sum = std::hint::black_box(Box::new(0_u64)).wrapping_mul(0);")
WRONG = ("let mut sum = 0;", "let mut sum = 1;")
RELEASE = ("sum += std::hint::black_box(*item);", "sum += itoa::Buffer::new().format(*item).len() as u64;")
#: For a base with another name of its function, and a variant of each side.
CHANGED = """#[cfg(by_turns_base)]
use user::total as sum;
#[cfg(not(by_turns_base))]
use user::sum;
#[cfg(by_turns_base)]
const ONLY: &str = "old";
#[cfg(not(by_turns_base))]
const ONLY: &str = "new";
"""
#: Takes another number of instructions in each process.
HASHED = "items.iter().copied().collect::<std::collections::HashSet<u64>>().len()"
#: A count of both sides.
NONE = {"base": 0, "today": 0}
#: Says by a file that it is compiled, which takes long.
BUILDS = """fn main() {
    std::fs::write("compiling", "").unwrap();
    std::thread::sleep(std::time::Duration::from_secs(60));
}
"""
#: Appends to a file for each call, which takes long.
LONG = """fn main() {
    let called = || {
        std::thread::sleep(std::time::Duration::from_millis(40));
        let mut calls = std::fs::OpenOptions::new().append(true).create(true).open("CALLS").unwrap();
        std::io::Write::write_all(&mut calls, b".").unwrap();
        user::sum(&[1])
    };
    by_turns::Bench::new("own").variant("sum", |turn| turn.iter(called)).main();
}
"""
#: Two variants; appends to a file, for each call, in which process which of them was called.
NAMED = """fn main() {
    let called = |name: &str| {
        let mut calls = std::fs::OpenOptions::new().append(true).create(true).open("CALLS").unwrap();
        std::io::Write::write_all(&mut calls, format!("{} {name}\\n", std::process::id()).as_bytes()).unwrap();
        user::sum(&[1])
    };
    by_turns::Bench::new("own")
        .variant("one", |turn| turn.iter(|| called("one")))
        .variant("other", |turn| turn.iter(|| called("other")))
        .main();
}
"""
#: Of what `--json` prints.
SCHEMA = json.loads((ROOT / "rust-kernels" / "cargo-by-turns" / "schema.json").read_text(encoding="utf-8"))


class Repository:
    """A made-up workspace with a package; its branch `main` is what the working tree is compared with."""

    def __init__(self, root: Path):
        self.root, self.folder = root, root / "a package"
        files = {"Cargo.toml": MANIFEST, "src/lib.rs": LIBRARY, "benches/own.rs": BENCH, "text.txt": "1"}
        files |= {"../Cargo.toml": '[workspace]\nresolver = "3"\nmembers = ["a package"]\n'}
        files |= {"../.gitignore": "/target\n"}
        for name, text in files.items():
            self.write(name, text)
        for name in ("Cargo.lock", "rust-toolchain.toml"):  # its versions, and this compiler, are here
            shutil.copy(ROOT / name, root)
        # What others wrote is compiled once.
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "against-user"
        target.mkdir(parents=True, exist_ok=True)
        (root / "target").symlink_to(target)
        self.locked("--offline")
        self.git("init", "-q", "-b", "main")
        self.commit()

    def locked(self, *words: str) -> None:
        """Leave in the lock file what the manifest needs."""
        metadata = ["cargo", "metadata", "--format-version", "1", *words]
        subprocess.run(metadata, cwd=self.folder, check=True, capture_output=True)

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=user", "-c", "user.email=user@example.org")
        command: list[str | Path] = ["git", *identity, "-C", self.root, *words]
        # One commit in all tests, so that what others wrote is compiled once for the base as well.
        dates = {name: "2026-01-01T00:00:00Z" for name in ("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE")}
        environ = os.environ | dates
        return subprocess.run(command, env=environ, check=True, capture_output=True, text=True).stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "-q", "-m", "it")

    def changed(self, name: str, change: tuple[str, str]) -> None:
        text = (self.folder / name).read_text(encoding="utf-8")
        assert change[0] in text
        self.write(name, text.replace(*change))

    def against(self, base: str, *words: str, offline: bool = True) -> subprocess.CompletedProcess[str]:
        command = ["cargo", "by-turns", "--against", base, "--pairs", "4", "--budget", "2s", "-q", *words]
        command += ["--offline"] if offline else []
        return subprocess.run(command, cwd=self.folder, env=self.environ(), capture_output=True, text=True)

    def programs(self) -> set[Path]:
        """What was made of the bench, on both sides."""
        return {file.resolve() for file in (self.root / "target").glob("**/release/deps/own-*")}

    def environ(self) -> dict[str, str]:
        """In which cargo knows the program."""
        path = f"{program().parent}{os.pathsep}{os.environ['PATH']}"
        return {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"} | {"PATH": path}


def program() -> Path:
    """The program, built in the profile of tests."""
    build = ["cargo", "build", "--quiet", "--offline", "-p", "cargo-by-turns"]
    subprocess.run(build, cwd=ROOT, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "debug" / "cargo-by-turns"


@pytest.fixture
def user(tmp_path) -> Iterator[Repository]:
    yield Repository(tmp_path / "user of it")


def lines(done: subprocess.CompletedProcess[str]) -> dict[str, dict]:
    """The variants in the JSON that was printed, by name."""
    report = json.loads(done.stdout)
    jsonschema.validate(report, SCHEMA)
    (bench,) = report["benches"]
    return {line["variant"]: line for line in bench["variants"]}


def test_an_equal_revision_is_not_worse_and_the_samples_say_whose_they_are(user):
    user.changed("src/lib.rs", EQUAL)
    done = user.against("main", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    (bench,) = report["benches"]
    assert bench["measured"].startswith("4 pairs") and report["locks"] == [] == report["not_compared"]
    line = lines(done)["sum"]
    assert line["counts"]["allocations"] == NONE and line["grown"] == []
    with (Path(bench["samples"]) / "own.time.csv").open(encoding="utf-8") as file:
        samples = list(csv.DictReader(file))
    assert {row["side"] for row in samples} == {"base", "today", "base again"}
    rounds = {row["round"] for row in samples}
    assert len(samples) == 3 * 2 * len(rounds)
    layouts = json.loads((Path(bench["samples"]) / "against.json").read_text(encoding="utf-8"))["pairs"]
    drawn = [order for pair in layouts for order in pair["layouts"].values()]
    if "link orders" in bench["measured"]:
        assert len({*drawn}) == 12 and None not in drawn
    assert line["today_ns"] == pytest.approx(line["base_ns"] * line["ratio"]["value"])
    changed = ' M "a package/src/lib.rs"\n'
    assert user.git("status", "--porcelain") == changed, "nothing of the user's is touched"


def test_of_identical_programs_what_they_read_is_compared(user):
    user.changed("benches/own.rs", ("user::sum(&items)", 'std::fs::read_to_string("text.txt").unwrap().is_empty()'))
    user.changed("src/lib.rs", COMMENT)
    done = user.against("main", "--json")
    line = lines(done)["sum"]
    assert done.returncode == 0 and line["reason"] is None is line["ratio"], done.stdout + done.stderr
    assert line["counts"]["allocations"]["base"] == line["counts"]["allocations"]["today"] > 0
    (bench,) = json.loads(done.stdout)["benches"]
    assert bench["identical"] and bench["measured"] == "identical programs: no times to measure"
    assert (of_one_run := user.programs())
    user.write("text.txt", "1" * 5000)
    done = user.against("main", "--json")
    assert done.returncode == 1 and "allocated_bytes" in lines(done)["sum"]["grown"], done.stdout + done.stderr
    assert user.programs() == of_one_run, "each run takes the place of the one before"
    user.write("text.txt", "")
    done = user.against("main")
    assert done.returncode == 2 and "does not do equal work" in done.stdout, done.stdout + done.stderr
    user.git("checkout", "-q", "--", "a package/benches/own.rs")
    user.changed("benches/own.rs", ("user::sum(&items)", HASHED))
    done = user.against("main", "--json")
    (bench,) = json.loads(done.stdout)["benches"]
    assert done.returncode == 0 and bench["identical"], done.stdout + done.stderr
    instructions = bench["variants"][0]["counts"]["instructions"]
    assert instructions["base"] != instructions["today"]
    assert "counts of the base vary from process to process, as of a HashMap" in bench["notes"]


def test_a_planted_loop_is_slower_and_gates_if_asked(user):
    user.changed("src/lib.rs", SLOWER)
    done = user.against("main", "--gate-time", "--allow", "instructions=10000")
    assert done.returncode == 1 and ": **worse: time of 1 variant**\n" in done.stdout, done.stdout + done.stderr
    assert "| slower |" in done.stdout and "and so does a variant that is slower" in done.stdout
    (ratio,) = re.findall(r"^\| sum \|.*?\| ([\d.]+) \(", done.stdout, re.MULTILINE)
    assert float(ratio) > 1.2


def test_what_allocates_more_is_worse(user):
    user.changed("src/lib.rs", ALLOCATES)
    done = user.against("main", "--json", "--allow", "instructions=10000")
    assert done.returncode == 1, done.stderr
    line = lines(done)["sum"]
    assert line["grown"] == ["allocations", "allocated_bytes"]
    assert line["counts"]["allocations"] == {"base": 0, "today": 1}


def test_what_could_not_be_counted_is_not_compared(user):
    user.changed("src/lib.rs", EQUAL)
    threads = "std::thread::scope(|all| all.spawn(|| user::sum(&items)).join().unwrap())"
    user.changed("benches/own.rs", ("user::sum(&items)", threads))
    done = user.against("main", "--json", "--allow", "instructions=10000")
    assert done.returncode == 2 and lines(done)["sum"]["ratio"], done.stdout + done.stderr
    (why,) = json.loads(done.stdout)["not_compared"]
    assert "instructions of own/sum are not counted" in why


def test_another_result_is_never_measured(user):
    user.changed("src/lib.rs", WRONG)
    done = user.against("main")
    assert done.returncode == 2 and "sum does not do equal work on both sides" in done.stdout, done.stderr
    assert "the base did 499500" in done.stdout and "today did 499501" in done.stdout


def test_a_base_of_another_interface_says_what_to_write_and_what_is_of_one_side_is_named(user):
    """And is no reason to fail, where something is on both."""
    user.changed("src/lib.rs", ("pub fn sum", "pub fn total"))
    user.write("benches/gone.rs", BENCH.replace("own", "gone").replace("::sum", "::total"))
    user.commit()
    user.changed("src/lib.rs", ("pub fn total", "pub fn sum"))
    (user.folder / "benches" / "gone.rs").unlink()
    done = user.against("main", "--bench", "own")
    assert done.returncode == 2, done.stderr
    assert "the base does not compile" in done.stdout and r"cfg(by\_turns\_base)" in done.stdout, done.stdout
    user.write("benches/new.rs", BENCH.replace("own", "new"))
    user.write("benches/own.rs", CHANGED + BENCH.replace("user::sum(&items)", "sum(&items)"))
    user.changed("benches/own.rs", (".main();", ".variant(ONLY, |turn| turn.iter(|| sum(&items))).main();"))
    done = user.against("main", "--json")
    assert done.returncode == 0 and lines(done)["sum"]["counts"]["allocations"] == NONE, done.stdout + done.stderr
    said = [what.split("\n")[0] for what in json.loads(done.stdout)["one_sided"]]
    assert sorted(said) == [
        "bench gone exists in the base only",
        "bench new exists today only, and the base does not compile it:",
        "own: new exists today only",
        "own: old exists in the base only",
    ]


def test_what_is_not_of_the_base_is_left_alone_and_what_is_left_of_one_does_no_harm(user, tmp_path):
    """A folder of that name, a worktree whose disk is away, files of an earlier run, and what a killed git leaves."""
    user.write("text.txt", str(tmp_path))
    user.commit()  # of which no other test has a base
    user.write("benches/tmp.rs", BENCH.replace("own", "tmp"))
    (user.folder / "benches" / "root").symlink_to("..")
    user.changed("src/lib.rs", ("    sum\n}", "    no_such_name\n}"))  # it ends when today is compiled
    mine, away = tmp_path / "mine-2", tmp_path / "away"
    mine.mkdir()
    done = user.against(f"{tmp_path}/mine@2")
    assert done.returncode == 2 and "is no revision" in done.stderr and mine.exists(), done.stderr
    user.git("worktree", "add", "-q", str(tmp_path / "other"))
    (tmp_path / "other").rename(away)
    done = user.against("main")
    assert done.returncode == 2 and "bench tmp: today does not compile" in done.stdout, done.stdout + done.stderr
    away.rename(tmp_path / "other")
    assert "other" in user.git("-C", str(tmp_path / "other"), "status")
    (base,) = [
        Path(line[9:]) for line in user.git("worktree", "list", "--porcelain").splitlines() if "by-turns" in line
    ]
    benches = base / "a package" / "benches"
    assert (benches / "root").is_symlink() and (benches / "tmp.rs").exists()
    (user.folder / "benches" / "tmp.rs").unlink()
    user.git("tag", "user@1.0.0")
    for lock in (None, *(user.root / ".git" / "worktrees").glob("[0-9a-f]*/HEAD")):
        if lock:
            lock.with_name("index.lock").touch()
        done = user.against("user@1.0.0")
        assert "own: today does not compile" in done.stdout and "bench tmp" not in done.stdout, (
            done.stdout + done.stderr
        )
    shutil.rmtree(base)
    user.git("worktree", "lock", str(base))
    done = user.against("main")
    assert "own: today does not compile" in done.stdout, done.stdout + done.stderr


def test_of_one_source_nothing_is_measured_and_another_bench_does_not_make_it_two(user):
    done = user.against("main")
    assert done.returncode == 0 and "both sides are one source" in done.stdout, done.stderr
    user.changed("benches/own.rs", ("0..1000", "0..2000"))
    done = user.against("main", "--json")
    report = json.loads(done.stdout)
    jsonschema.validate(report, SCHEMA)
    assert done.returncode == 0 == report["status"] and "nothing but benches differs" in report["one_source"]
    libc = next(
        block.split('"')[3]
        for block in (ROOT / "Cargo.lock").read_text(encoding="utf-8").split("[[package]]")
        if block.startswith('\nname = "libc"')
    )
    done = user.against(f"libc@{libc}")
    assert done.returncode == 0 and f"resolves to libc {libc} already" in done.stdout, done.stderr
    done = user.against("memchr@99.0.0")
    why = "memchr is no dependency of user, but of another package, such as by-turns, only; to compare there is: libc"
    assert done.returncode == 2 and why in done.stderr, done.stderr
    done = user.against("libc@99.0.0")
    assert done.returncode == 2 and "user 0.1.0 requires ^0.2; cargo says:\n" in done.stderr, done.stderr
    user.write("../other/src/lib.rs", "")
    other = '[package]\nname = "other"\nversion = "2.0.0"\n[dependencies]\nlibc = "={}"\n'
    user.write("../other/Cargo.toml", other.format(libc))
    user.changed("Cargo.toml", ('libc = "0.2"', f'libc = "={libc}"\nother = {{ path = "../other" }}'))
    user.locked("--offline")
    done = user.against("libc@0.2.100")
    assert done.returncode == 2 and f"other 2.0.0 requires ={libc}" in done.stderr, done.stderr
    assert f"user 0.1.0 requires ={libc}" in done.stderr and "cargo says:\n" in done.stderr
    done = user.against("no-such-branch", "--json")
    report = json.loads(done.stdout)
    jsonschema.validate(report, SCHEMA)
    (why,) = report["not_compared"]
    assert done.returncode == 2 == report["status"] and "no-such-branch is no revision of" in why
    done = user.against("libc")
    assert "a release of the dependency is written libc@<version>" in done.stderr, done.stderr
    assert not [*(user.root / "target" / "by-turns" / "against").glob("libc-*")], "nothing of a base that there is not"


def test_a_side_that_does_not_answer_is_named(user):
    user.changed(
        "src/lib.rs",
        ("    let mut sum = 0;", "    std::thread::sleep(std::time::Duration::from_secs(60));\n    let mut sum = 0;"),
    )
    done = user.against("main", "--limit", "3s")
    assert done.returncode == 2 and "today did not answer within 5 s" in done.stdout, done.stdout + done.stderr


def test_another_release_of_a_dependency_is_the_base(user):
    user.changed("Cargo.toml", ('libc = "0.2"', 'itoa = "1"'))
    user.changed("src/lib.rs", RELEASE)
    user.locked()
    (user.root / "linked").symlink_to("a package")
    done = user.against("itoa@1.0.9", "--json", "--allow", "instructions=10000", offline=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (lock,) = json.loads(done.stdout)["locks"]
    assert (user.root / "target" / "by-turns" / "against" / "itoa-1.0.9" / "linked").is_symlink()
    assert lock.startswith("itoa: 1.0.9 in the base, 1.") and lines(done)["sum"]["ratio"]["value"] > 0


def test_long_iterations_are_called_no_more_than_they_must_be(user):
    user.changed("src/lib.rs", EQUAL)
    file = user.folder / "calls"
    user.write("benches/own.rs", LONG.replace("CALLS", str(file)))
    done = user.against("main", "--json")
    (bench,) = json.loads(done.stdout)["benches"]
    assert any("1 of 2 samples in each trial" in note for note in bench["notes"]), bench
    # 4 pairs of 3 processes: one to prove, one to warm up, one sample, one check. And 3 to prove on each side.
    more = file.stat().st_size - (4 * 3 * 4 + 2 * 3)
    # A sample that something disturbed is taken again, which is said of many; one more in each process were twelve.
    assert 0 <= more < 4 * 3 or any("were taken again" in note for note in bench["notes"]), more


def test_a_process_that_measures_runs_one_variant_and_a_filter_chooses_what_matches_it_alone(user):
    """What its neighbour allocates, on the side where that was changed, would change its time."""
    user.changed("src/lib.rs", EQUAL)
    file = user.folder / "calls"
    user.write("benches/own.rs", NAMED.replace("CALLS", str(file)))
    done = user.against("main", "--json", "--budget", "1s")
    assert lines(done).keys() == {"one", "other"}, done.stdout + done.stderr
    calls = Counter(file.read_text(encoding="utf-8").splitlines())
    # Others prove equal work and count, in a few calls.
    measured = [line.split()[0] for line, number in calls.items() if number > 20]
    assert len(measured) == len({*measured}) == 4 * 3 * 2
    assert all(sum(line.startswith(f"{process} ") for line in calls) == 1 for process in measured)
    assert lines(user.against("main", "--json", "--budget", "1s", "own/other")).keys() == {"other"}


def test_each_bench_of_a_program_is_compared_and_a_filter_for_none_is_told(user):
    user.changed("src/lib.rs", EQUAL)
    own = '    Bench::new("own").variant("sum", |turn| turn.iter(|| user::sum(&items))).main();\n'
    third = "    #[cfg(not(by_turns_base))]\n" + own.replace("own", "third")
    user.changed("benches/own.rs", (own, third + own + own.replace("own", "second")))
    done = user.against("main", "--json", "--budget", "1s")
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert [bench["bench"] for bench in report["benches"]] == ["own", "second"]
    assert report["one_sided"] == ["third exists today only"]
    assert all(line["ratio"] for bench in report["benches"] for line in bench["variants"])
    done = user.against("main", "none", "fourth")
    for filter in ("none", "fourth"):
        assert done.returncode == 2 and f'no variant matches "{filter}"' in done.stdout, done.stdout + done.stderr


def test_a_second_run_says_that_it_waits(user):
    home = user.root / "target" / "by-turns" / "against"
    home.mkdir(parents=True, exist_ok=True)
    folder = os.open(home, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    command = ["cargo", "by-turns", "--against", "main"]
    with subprocess.Popen(command, cwd=user.folder, env=user.environ(), stdout=PIPE, stderr=PIPE, text=True) as waiting:
        assert waiting.stderr and "waiting for another" in waiting.stderr.readline()
        os.close(folder)
        assert waiting.stdout and "both sides are one source" in waiting.stdout.read()
    assert waiting.returncode == 0


def test_ctrl_c_while_it_compiles_is_no_error_and_does_no_harm(user):
    user.changed("src/lib.rs", ("    sum\n}", "    no_such_name\n}"))
    user.write("build.rs", BUILDS)
    command = ["cargo", "by-turns", "--against", "main", "--offline"]
    settings = {"cwd": user.folder, "env": user.environ(), "start_new_session": True, "text": True}
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, **settings) as ended:
        while not (user.folder / "compiling").exists():
            assert ended.poll() is None, ended.communicate()
            time.sleep(0.1)
        os.killpg(ended.pid, signal.SIGINT)
        assert ended.communicate() == ("", "by-turns: interrupted before anything was compared\n")
    assert ended.returncode == 130
    assert not [*(user.root / "target" / "by-turns" / "against").glob(".running-*")]
    (user.folder / "build.rs").unlink()
    done = user.against("main")
    assert "own: today does not compile" in done.stdout, done.stdout + done.stderr


def test_the_schema_is_printed():
    said = subprocess.run([program(), "--schema"], capture_output=True, text=True, check=True)
    assert json.loads(said.stdout) == SCHEMA


def test_the_example_workflows_are_sound_and_ask_for_what_is_there():
    """Their form, the shell of their steps, and the options of the program."""
    for file in (ROOT / "examples" / "your-own" / ".github" / "workflows").glob("*.yml"):
        workflow = yaml.safe_load(file.read_text(encoding="utf-8"))
        assert {*workflow} == {"name", True, "permissions", "jobs"}, file.name  # YAML reads `on` as true
        for step in (step for job in workflow["jobs"].values() for step in job["steps"]):
            assert ("uses" in step) != ("run" in step) and {*step} <= {"name", "uses", "with", "run", "env"}, step
            subprocess.run(["bash", "-n"], input=step.get("run", ""), text=True, check=True)
            shell = step.get("run", "")
            assert {*re.findall(r"\$([A-Z]+)\b", shell)} <= {*step.get("env", {})}, step
            if "cargo by-turns" in shell:
                said = subprocess.run([program(), "--help"], capture_output=True, text=True, check=True).stdout
                assert all(option in said for option in re.findall(r"--[a-z-]+", shell)), shell


def test_two_majors_of_the_readme_are_two_crates(user):
    page = (ROOT / "rust-kernels" / "by-turns" / "README.md").read_text(encoding="utf-8")
    section = page.split("## Is this regression real?")[1].split("\n## ")[0]
    (recipe,) = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
    user.changed("Cargo.toml", ("[dev-dependencies]\n", recipe))
    user.locked()
    versions = re.findall(r'name = "itoa"\nversion = "(\d)', (user.root / "Cargo.lock").read_text(encoding="utf-8"))
    assert versions == ["0", "1"]
