"""A cell that fails ends the workflow, and the reader learns why; two kernels do not share a build folder."""

import os
import time
from types import SimpleNamespace

import nbformat
import pytest
import zmq
from jupyter_client.session import Session
from ours import LIBRARIES

from async_cost.workflow.environment import OURS
from async_cost.workflow.execute import GLANCE, CellFailed, execute, sent_as_one
from async_cost.workflow.kernel import PAUSE_S, Relay, claim, sockets

SESSION = Session(key=b"key", signature_scheme="hmac-sha256")
#: What another run has left in a cell.
OLD = [nbformat.v4.new_output("stream", text="of another run\n")]


@pytest.fixture
def rust(tmp_path, monkeypatch):
    """Execute cells in a fresh Rust kernel, as the workflow does."""
    for name, value in OURS.items():
        monkeypatch.setenv(name, value)

    def run(*cells, calls=(), together=False):
        spec = {"name": "rust", "display_name": "Rust", "language": "rust"}
        notebook = nbformat.v4.new_notebook(metadata={"kernelspec": spec})
        tags = [["active-ipynb"] if cell in calls else [] for cell in cells]
        notebook.cells = [
            nbformat.v4.new_code_cell(cell, metadata={"tags": tag}, outputs=OLD)
            for cell, tag in zip(cells, tags, strict=True)
        ]
        folder = tmp_path / "room-of-a-test"
        folder.mkdir()
        nbformat.write(notebook, folder / "cells.ipynb")
        execute(folder / "cells.ipynb", folder / "executed.ipynb", together=together)
        return nbformat.read(folder / "executed.ipynb", as_version=4)

    return run


def test_a_panic_in_a_cell_ends_the_notebook_with_its_message(rust):
    with pytest.raises(CellFailed, match=r"(?s)let wrong.*the proof failed"):
        wrong = 'let wrong = 1;\nif wrong == 1 { panic!("the proof failed"); }'
        rust(wrong, 'println!("went on");', calls=[wrong])


def test_calls_that_are_sent_as_one_keep_what_they_print(rust):
    calls = ['println!("set up");', 'println!("first");', 'println!("second");\nprintln!("{}", number());']
    executed = rust(calls[0], "fn number() -> u32 { 7 }", *calls[1:], calls=calls, together=True)
    printed = ["".join(output["text"] for output in cell.outputs) for cell in executed.cells]
    assert printed == ["set up\n", "", "first\n", "second\n7\n"]


def test_a_panic_in_a_call_of_several_is_told_with_its_cell(rust):
    calls = ['println!("set up");', 'if number() == 7 { panic!("unequal work"); }', 'println!("went on");']
    with pytest.raises(CellFailed, match=r"(?s)begins with `if number.*unequal work"):
        rust(calls[0], "fn number() -> u32 { 7 }", *calls[1:], calls=calls, together=True)


def test_an_error_handed_to_the_kernel_ends_the_notebook(rust):
    with pytest.raises(CellFailed, match="waker_drops"):
        rust('fn prove() -> Result<(), String> { Err("waker_drops: 768 expected".to_owned()) }', "prove()?;")


@pytest.mark.parametrize("more", [[], ['println!("went on");']])
def test_words_that_come_after_the_end_of_their_cell_are_not_lost(rust, more):
    late = 'std::thread::sleep(std::time::Duration::from_millis(300)); eprintln!("too late");'
    with pytest.raises(CellFailed, match="too late"):
        rust(f"std::thread::spawn(|| {{ {late} }});", *more)


def test_of_item_cells_sent_together_the_failing_one_is_named_and_those_before_it_stay(rust):
    with pytest.raises(CellFailed, match=r"(?s)pub fn wrong.*mismatched types"):
        rust("pub fn one() -> u32 { 1 }", "pub fn wrong() -> u32 { one() as u8 }", "pub fn two() -> u32 { 2 }")


def test_a_call_that_panics_is_named_and_not_the_items_that_were_sent_with_it(rust, capfd):
    call = 'println!("called"); check(3);'
    with pytest.raises(CellFailed, match=r"(?s)begins with `println.*the proof failed"):
        rust('pub fn check(found: u32) { assert_eq!(found, 4, "the proof failed"); }', call, calls=[call])
    assert capfd.readouterr().out.count("called") == 1, "what panics is not called again"


def test_items_are_sent_together_with_the_cell_that_calls_them():
    new = nbformat.v4
    call = new.new_code_cell("one()", metadata={"tags": ["active-ipynb"]})
    item, prose = new.new_code_cell("fn one() {}"), new.new_markdown_cell("Then.")
    assert sent_as_one([item, prose, item, call, item, call, item, item]) == {3: [0, 2, 3], 5: [4, 5], 7: [6, 7]}


class Sent(list):
    """Stands for a socket: the messages that were sent, each as its address and what its signature covers."""

    def send_multipart(self, frames):
        address, *rest = frames
        self.append((address, SESSION.deserialize(SESSION.feed_identities(rest)[1])))


@pytest.fixture
def relay(monkeypatch):
    """A relay, with what it has sent to front ends and to the kernel, and a clock that a test moves."""
    clock = [0.0]
    monkeypatch.setattr("async_cost.workflow.kernel.time.monotonic", lambda: clock[0])
    relay = Relay(Sent(), Sent(), SESSION)

    def ask(code, kind="execute_request", **content):
        relay.request([b"front", *SESSION.serialize(SESSION.msg(kind, {"code": code, **content}))])
        relay.next()

    def answer(status):
        """The status that the front end sees of what is executed."""
        reply = SESSION.msg("execute_reply", {"status": status}, parent=relay.inner[-1][1])
        relay.reply([b"front", *SESSION.serialize(reply)])
        relay.next()
        return relay.outer[-1][1]["content"]["status"]

    def later():
        clock[0] += PAUSE_S
        relay.next()

    def executed():
        return [one["content"]["code"] for _, one in relay.inner]

    return SimpleNamespace(ask=ask, answer=answer, later=later, executed=executed, relay=relay)


def test_what_was_sent_with_a_cell_that_failed_is_left_out(relay):
    for code in ("one", "two"):
        relay.ask(code)
    assert relay.executed() == ["one"], "one at a time"
    assert relay.answer("error") == "error"
    relay.ask("three")  # sent at once, too, and on its way until now
    relay.later()
    assert [relay.answer("ok"), relay.answer("ok")] == ["aborted", "aborted"]
    relay.ask("four")
    assert relay.answer("ok") == "ok" and relay.executed() == ["one", "", "", "four"]
    assert {address for address, _ in relay.relay.inner + relay.relay.outer} == {b"front"}


@pytest.mark.parametrize("content", [{"stop_on_error": False}, {"silent": True}])
def test_an_error_that_is_expected_or_silent_leaves_nothing_out(relay, content):
    relay.ask("one", **content)
    relay.ask("two")
    assert [relay.answer("error"), relay.answer("ok")] == ["error", "ok"] and relay.executed() == ["one", "two"]


def test_other_requests_do_not_wait_and_those_without_the_key_are_ignored(relay):
    relay.ask("one")
    relay.ask("", kind="kernel_info_request")
    assert [one["msg_type"] for _, one in relay.relay.inner] == ["execute_request", "kernel_info_request"]
    stranger = Session(key=b"other", signature_scheme="hmac-sha256")
    for frames in (stranger.serialize(stranger.msg("execute_request", {"code": "x"})), [b"x"], [b"<IDS|MSG>", b""]):
        relay.relay.request([b"stranger", *frames])
    assert len(relay.relay.inner) == 2 and not relay.relay.waiting


def test_a_front_end_that_connects_anew_under_its_old_name_is_heard():
    context = zmq.Context()
    try:
        outer, _ = sockets(context)
        port = outer.bind_to_random_port("tcp://127.0.0.1")
        front_ends = [context.socket(zmq.DEALER) for _ in range(2)]
        for said, one in zip((b"before", b"after"), front_ends, strict=True):
            one.routing_id = b"lab"
            one.connect(f"tcp://127.0.0.1:{port}")
            one.send(said)
            assert outer.poll(10_000), f"{said!r} was dropped"
            assert outer.recv_multipart() == [b"lab", said]
        outer.send_multipart([b"lab", b"answer"])
        assert front_ends[1].poll(10_000), "the answer went to the old connection"
    finally:
        context.destroy(linger=0)


def test_two_kernels_of_a_room_build_in_two_folders_and_a_free_one_is_taken_again(tmp_path):
    first, lock = claim("room", tmp_path)
    second, other = claim("room", tmp_path)
    assert first != second
    os.close(lock)
    assert claim("room", tmp_path)[0] == first
    os.close(other)


def test_a_new_build_folder_begins_with_the_crates_of_one_that_no_kernel_holds(tmp_path):
    def built(room: str, name: str) -> int:
        folder, lock = claim(room, tmp_path)
        (folder / "target" / "deps").mkdir(parents=True, exist_ok=True)
        (folder / "target" / "deps" / name).write_text(name)
        return lock

    os.close(built("old", "libold.rlib"))
    time.sleep(0.02)  # a file's time is that of the kernel's last tick
    os.close(built("free", "libserde.rlib"))
    os.close(built("free", "libctx.so"))
    time.sleep(0.02)
    locked = built("locked", "liblocked.rlib")
    (tmp_path / "new" / "0" / "part" / "deps").mkdir(parents=True)  # a copy that was killed
    (tmp_path / "new" / "0" / "part" / "deps" / "torn.rlib").touch()
    folder, lock = claim("new", tmp_path)
    assert {path.name for path in folder.rglob("*.*")} == {"libold.rlib", "libserde.rlib"}
    assert not (folder / "part").exists()
    os.close(lock)
    os.close(locked)


@pytest.mark.parametrize("library", LIBRARIES, ids=str)
def test_the_kernel_runs_every_cell_of_a_library(rust, library, tmp_path):
    """No study runs it, so nothing else would notice a cell that the kernel refuses. (That its glances compile is
    tested with the others.)
    """
    execute(library, tmp_path / "executed.ipynb")
    cells = nbformat.read(tmp_path / "executed.ipynb", as_version=4).cells
    last = [cell for cell in cells if cell.cell_type == "code" and GLANCE not in cell.metadata.get("tags", [])][-1]
    assert last.execution_count
