"""Studies take turns, an episode each; what was measured is not measured again, and a process that dies costs its
episode alone.
"""

import json
import sys
import tarfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from async_cost.workflow import layouts
from async_cost.workflow.episodes import Start, done_file, is_ready, measure, record_program, start_file
from async_cost.workflow.steps import Progress, Seen, StepFailed

#: Stands for a study's program: notes that it was called and with what, and ends as the file `ends` next to it says,
#: one status a line.
PROGRAM = """
import os, pathlib, sys
folder = pathlib.Path(sys.argv[1])
with (folder / "calls").open("a") as calls:
    print(folder.name, os.environ["ASYNC_COST_EPISODE"], sys.stdin.read().strip(), file=calls)
ends = (folder / "ends").read_text().split()
(folder / "ends").write_text(" ".join(ends[1:]))
sys.exit(int(ends[0]) if ends else 40)
"""


@pytest.fixture
def partial(tmp_path):
    """A partial run with two studies of two and three episodes."""
    (tmp_path / "program.py").write_text(PROGRAM)
    for study, until in (("a", [2, 4]), ("b", [1, 2, 3])):
        (tmp_path / study).mkdir()
        (tmp_path / study / "ends").write_text("")
        document = {"program": sys.executable, "arguments": [str(tmp_path / "program.py"), str(tmp_path / study)]}
        document |= {"library": None, "until": until, "done_status": 40, "refused_status": 1}
        start_file(tmp_path, study).write_text(json.dumps(document))
        record_program(tmp_path, study)
    (tmp_path / "run.json").write_text(json.dumps({"run_id": "made-up/20260101T000000Z"}))
    return tmp_path


def starts_otherwise(partial: Path, **changes: object) -> None:
    """Changes how `a` says that it is started."""
    file = start_file(partial, "a")
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def run(partial: Path) -> list[Seen]:
    seen: list[Seen] = []
    measure(partial, {"a": 10.0, "b": 20.0}, {}, Progress(seen.append, partial / "log", partial))
    return seen


def calls(partial: Path, study: str) -> list[str]:
    file = partial / study / "calls"
    return [line.split()[1] for line in file.read_text().splitlines()] if file.exists() else []


def done(partial: Path) -> list[tuple[str, int]]:
    return [tuple(entry) for entry in json.loads(done_file(partial).read_text())]


def test_studies_take_turns(partial):
    run(partial)
    assert done(partial) == [("b", 1), ("a", 2), ("b", 2), ("a", 4), ("b", 3)]


def test_a_process_that_dies_is_started_again_once(partial):
    (partial / "a" / "ends").write_text("40 7")
    run(partial)
    assert calls(partial, "a") == ["2", "4", "4"] and calls(partial, "b") == ["1", "2", "3"]


def test_two_deaths_end_it_and_what_was_measured_is_not_measured_again(partial):
    (partial / "a" / "ends").write_text("40 7 7")
    with pytest.raises(StepFailed, match="exited with 7"):
        run(partial)
    assert done(partial) == [("b", 1), ("a", 2), ("b", 2)]
    run(partial)
    assert calls(partial, "a") == ["2", "4", "4", "4"] and calls(partial, "b") == ["1", "2", "3"]


@pytest.mark.parametrize(("status", "says"), [("1", "exited with 1"), ("0", "make it stand alone")])
def test_a_process_that_would_be_refused_again_is_not_started_again(partial, status, says):
    (partial / "a" / "ends").write_text(status)
    with pytest.raises(StepFailed, match=says):
        run(partial)
    assert calls(partial, "a") == ["2"]


def test_a_cell_runs_from_its_library(partial):
    library = partial / "measures-a.so"
    start = replace(Start.read(partial, "a"), library=library, entry="run_user_code_3")
    start.run("a", 2, {}, Progress(lambda seen: None, partial / "log", partial), 7)
    typed = (partial / "a" / "calls").read_text().split()[2:]
    assert typed == ["LOAD_AND_RUN", str(library), "run_user_code_3"]


def test_each_episode_has_a_link_order_of_its_own_and_the_same_when_it_is_resumed(partial, monkeypatch):
    drawn: list[int] = []

    @contextmanager
    def draw(file, seed):
        drawn.append(seed)
        layout = partial / f"python.layout{seed}"
        layout.symlink_to(file)
        try:
            yield layout
        finally:
            layout.unlink()

    monkeypatch.setattr(layouts, "relinked", draw)
    (partial / "a" / "ends").write_text("7 7")
    with pytest.raises(StepFailed):
        run(partial)
    run(partial)
    first, *of_a = drawn[1:]
    assert of_a[0] == of_a[1] == first, "begun three times"
    assert len(set(drawn)) == len(done(partial)) == 5
    assert f"$ {partial}/python.layout{first} " in (partial / "log").read_text()
    assert layouts.seed("made-up/20260101T000000Z", "a", 2) == first != layouts.seed("another", "a", 2)


def test_a_library_is_linked_again_from_what_the_kernel_linked_last(partial):
    (partial / "deps").mkdir()
    (partial / "measures-a.so").write_bytes(b"code")
    starts_otherwise(partial, library={"path": str(partial / "measures-a.so"), "entry": "e"})
    (partial / "response.txt").touch()
    with tarfile.open(partial / "deps" / "libctx.so.tar", "w") as archive:
        archive.add(partial / "response.txt", "libctx.so/response.txt")
    record_program(partial, "a")
    assert (partial / "measures-a.so.link" / "libctx.so" / "response.txt").exists()


def test_what_is_torn_is_measured_again(partial):
    done_file(partial).write_text("[[")
    run(partial)
    assert len(done(partial)) == 5


def test_a_study_whose_program_is_gone_has_to_be_prepared_again(partial):
    assert Start.read(partial, "a") is not None and Start.read(partial, "c") is None
    starts_otherwise(partial, library={"path": "/nowhere/x.so", "entry": "e"})
    assert Start.read(partial, "a") is None
    starts_otherwise(partial, library=None, program="/nowhere/program")
    assert Start.read(partial, "a") is None


def test_another_build_in_the_same_place_is_not_measured_on(partial):
    library = partial / "measures-a.so"
    library.write_bytes(b"code")
    starts_otherwise(partial, library={"path": str(library), "entry": "e"})
    start = json.loads(start_file(partial, "a").read_text())
    del start["sha256"]
    start_file(partial, "a").write_text(json.dumps(start))
    assert not is_ready(partial, "a"), "nothing says what it was"
    record_program(partial, "a")
    assert is_ready(partial, "a")
    library.write_bytes(b"other")
    assert not is_ready(partial, "a") and Start.read(partial, "a") is None
    with pytest.raises(StepFailed, match="rebuilt meanwhile"):
        run(partial)
