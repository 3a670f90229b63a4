"""The processes of the crate `by-turns`: time, signals, folders, and programs that do other things than measure."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from test_crate import Own

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

T = TypeVar("T")

#: A bench that does what ODD says.
ODD = """
use std::{io, thread, time::Duration};

fn main() {
    let odd = std::env::var("ODD").unwrap_or_default();
    let (what, value) = odd.split_once('=').unwrap_or((&odd, ""));
    let mut input = String::new();
    match what {
        "folder" => std::env::set_current_dir(value).unwrap(),
        "print" => println!("{value}"),
        "read" => drop(io::stdin().read_line(&mut input)),
        _ => {}
    }
    let sleep = if what == "sleep" { value.parse().unwrap() } else { 0 };
    let work = || {
        if sleep > 0 {
            thread::sleep(Duration::from_millis(sleep));
        }
        std::hint::black_box(input.len() as u64)
    };
    by_turns::Bench::new("odd")
        .variant("a", |turn| turn.iter(work))
        .variant("b", |turn| turn.iter(|| {
            if what == "panic" {
                panic!("lost a wake") // HERE
            }
            work()
        }))
        .main();
}
"""


class Odd(Own):
    def __init__(self, folder: Path):
        super().__init__(folder)
        (self.folder / "benches" / "odd.rs").write_text(ODD, encoding="utf-8")
        manifest = self.folder / "Cargo.toml"
        bench = '[[bench]]\nname = "odd"\nharness = false\n\n# Benches'
        manifest.write_text(manifest.read_text(encoding="utf-8").replace("# Benches", bench), encoding="utf-8")
        self.results = (self.folder / "target").resolve() / "by-turns" / "your-own" / "odd"
        shutil.rmtree(self.results, ignore_errors=True)

    def start(self, *arguments: str, odd: str = "", within: str = ".", **environ: str) -> subprocess.Popen[str]:
        """Begins it in a process group of its own, as a shell would."""
        inherited = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
        return subprocess.Popen(
            ["cargo", "bench", "--quiet", "--offline", *self.patches, "--bench", "odd", "--", *arguments],
            cwd=self.folder / within,
            env={**inherited, "ODD": odd, **environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def run(self, *arguments: str, typed: str = "", **options: str) -> tuple[int, str, str]:
        started = self.start(*arguments, **options)
        out, error = started.communicate(typed)
        return started.returncode, out, error

    def running(self) -> list[Path]:
        return [*self.results.glob(".running-*")]

    def measuring(self) -> None:
        """Waits until one of its processes is whole."""
        until(lambda: any(is_second(samples) for samples in self.results.glob(".running-*/samples.csv")))


def is_second(samples: Path) -> bool:
    """Whether these are not those of the first process, which began with round 0."""
    return samples.read_text(encoding="utf-8").split("\n")[0].split(",")[4:5] not in ([], ["0"])


@pytest.fixture(scope="module")
def odd(tmp_path_factory) -> Iterator[Odd]:
    yield Odd(tmp_path_factory.mktemp("odd"))


def until(found: Callable[[], T | None], patience: float = 120, pause: float = 0.05) -> T:
    end = time.monotonic() + patience
    while not (there := found()):
        assert time.monotonic() < end, "it never came to be"
        time.sleep(pause)
    return there


def below(process: int) -> list[int]:
    """All processes that a process has started, and those that these have."""
    children = []
    with contextlib.suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{process}/task").iterdir():
            children += (thread / "children").read_text(encoding="utf-8").split()
    return [one for child in children for one in (int(child), *below(int(child)))]


def running_with(process: int, word: str) -> list[int]:
    """Those among them that were started with an argument such as this."""
    found = []
    for one in below(process):
        with contextlib.suppress(OSError):
            if word.encode() in Path(f"/proc/{one}/cmdline").read_bytes():
                found.append(one)
    return found


def test_a_budget_ends_it_and_the_table_says_what_was_cut(odd):
    _, out, error = odd.run("--no-layouts", "--budget", "1s", odd="sleep=30")
    assert "4 processes, all with one link order, 4 rounds" in out, error
    cut = "the budget of 1 s ended it after 4 of 24 processes, 4 of 96 rounds, 1 of 2 samples in each trial"
    assert f"- {cut}" in out


def test_a_quick_look_at_long_iterations_is_one_process(odd):
    _, out, error = odd.run("--no-layouts", "--quick", "--budget", "1s", odd="sleep=150")
    assert "- the budget of 1 s ended it after 1 of 4 processes, 1 of 3 rounds" in out, error


def test_one_process_concludes_nothing(odd):
    _, out, error = odd.run("--no-layouts", "--processes", "1", "--format", "json")
    report = json.loads(out)
    assert report["variants"][1]["ratio"] and report["variants"][1]["verdict"] is None, error
    assert any("a process counts once, and 1 are too few" in note for note in report["notes"])


@pytest.mark.parametrize("linking", [False, True])
def test_ctrl_c_prints_the_table_of_the_processes_that_are_whole(odd, linking):
    bench = odd.start(*([] if linking else ["--no-layouts"]), odd="sleep=10")
    odd.measuring()
    if linking:  # the linker gets the signal as well
        until(lambda: running_with(bench.pid, "response.txt"), pause=0.001)
    os.killpg(bench.pid, signal.SIGINT)
    out, error = bench.communicate()
    assert re.search(r"- interrupted after \d+ of 24 processes", out) and "samples: " in out, error
    assert (Path(out.split("samples: ")[1].strip()) / "odd.time.csv").exists()
    assert not odd.running()


def test_ctrl_c_is_status_130_and_sigterm_is_143_without_a_table(odd):
    found = subprocess.run(
        ["cargo", "bench", "--offline", *odd.patches, "--bench", "odd", "--no-run"],
        cwd=odd.folder,
        env={name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"},
        capture_output=True,
        text=True,
        check=True,
    )
    program = odd.folder / re.search(r"\((target/\S+/odd-\w+)\)", found.stderr)[1]
    shutil.rmtree(
        odd.results.parents[1] / "odd", ignore_errors=True
    )  # a program that cargo does not start has no package
    for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        bench = subprocess.Popen(
            [program, "--bench", "--no-layouts"],
            env={**os.environ, "ODD": "sleep=10"},
            stdout=subprocess.PIPE,
            text=True,
        )
        place = odd.results.parents[1] / "odd"
        until(lambda place=place: any(is_second(samples) for samples in place.glob(".running-*/samples.csv")))
        bench.send_signal(number)
        assert bench.wait() == status and ("interrupted after" in bench.stdout.read()) == (status == 130)
        bench.stdout.close()
        assert not [*place.glob(".running-*")]


def test_bench_and_child_end_with_cargo(odd):
    bench = odd.start("--no-layouts", odd="sleep=10")
    odd.measuring()
    descendants = until(lambda: len(found := below(bench.pid)) >= 2 and found)
    bench.kill()
    bench.communicate()
    until(lambda: not any(Path(f"/proc/{process}").exists() for process in descendants))
    bench = odd.start("--save-counts", "base.csv", odd="sleep=300")
    counting = until(lambda: running_with(bench.pid, "callgrind"))
    for process in counting:
        os.kill(process, signal.SIGSTOP)  # so it does not end by itself
    bench.kill()
    bench.communicate()
    until(lambda: not any(Path(f"/proc/{process}").exists() for process in counting))
    odd.run("--no-layouts", "--quick")
    assert not odd.running(), "what was left is removed by the next one"


def test_two_at_once_leave_two_runs(odd):
    before = {*odd.results.glob("*/*/odd.time.csv")}
    both = [odd.start("--processes", "4") for _ in range(2)]
    for bench in both:
        out, error = bench.communicate()
        assert "4 processes, each with a link order of its own" in out, error
    assert len({*odd.results.glob("*/*/odd.time.csv")} - before) == 2 and not odd.running()


def test_paths_are_what_the_user_typed_wherever_the_program_goes(odd):
    options = {"odd": "folder=benches", "within": "src", "CARGO_TARGET_DIR": "../target"}
    _, out, error = odd.run("--processes", "4", **options)
    assert "each with a link order of its own" in out and str(odd.results) in out, error
    assert not (odd.folder.parent / "target").exists(), "compiled all again"
    status, out, error = odd.run("--save-counts", "base.csv", **options)
    assert status == 0, error
    assert ",odd,a," in (odd.folder / "src" / "base.csv").read_text(encoding="utf-8")
    status, _, error = odd.run("--gate", "base.csv", **options)
    assert status == 0, error


def test_a_panic_is_shown_with_its_place(odd):
    line = 1 + ODD[: ODD.index("// HERE")].count("\n")
    status, _, error = odd.run("--quick", odd="panic", RUST_BACKTRACE="0")
    assert status != 0 and re.search(
        rf"odd/b failed: lost a wake\n.* panicked at benches/odd.rs:{line}:\d+: lost", error
    )
    assert "odd::main" not in error
    assert "odd::main" in odd.run("--quick", odd="panic", RUST_BACKTRACE="1")[2]


def test_what_the_program_prints_is_printed_once(odd):
    _, out, error = odd.run("--quick", "--no-layouts", "--format", "json", odd="print=before")
    assert out.startswith("before\n{") and out.count("before") == 1, error


def test_another_input_in_a_process_is_refused(odd):
    status, out, error = odd.run("--quick", "--no-layouts", odd="read", typed="seven\n")
    assert status != 0 and not out
    assert "The program's main runs again in each process" in error and "no standard input" in error


def test_a_core_that_is_not_there_is_named(odd):
    status, _, error = odd.run("--quick", "--no-layouts", "--pin", "1000")
    assert status != 0 and "could not be started on core 1000 (--pin)" in error
    status, _, error = odd.run("--quick", "--no-layouts", "--pin", str(max(os.sched_getaffinity(0))))
    assert status == 0, error
