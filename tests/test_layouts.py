"""Each episode runs a file that was linked in an order of its own; where the linker cannot do that, the file itself."""

import platform
import subprocess
import sys

import pytest

from async_cost.workflow import layouts

#: Where rustc links by a linker that can draw an order.
CAN = sys.platform == "linux" and platform.machine() == "x86_64"
PROGRAM = "".join(f"#[inline(never)] fn f{n}(of: usize) -> usize {{ of.rotate_left({n}) + {n} }}\n" for n in range(20))
PROGRAM += f'fn main() {{ println!("{{}}", std::env::args().count(){"".join(f" + f{n}({n})" for n in range(20))}) }}\n'


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """A program with many functions, linked as the workflow has it linked."""
    folder = tmp_path_factory.mktemp("program")
    (folder / "program.rs").write_text(PROGRAM)
    program = folder / "measure-it"
    rustc = ["rustc", f"-Clinker={layouts.LINKER}", "-o", program, folder / "program.rs"]
    subprocess.run(rustc, check=True, cwd=folder)
    layouts.store(program, program)
    return program


def functions(file) -> list[str]:
    """Ours, in the order of their addresses."""
    listed = subprocess.run(["nm", "-n", file], check=True, capture_output=True, text=True).stdout
    return [line.split()[2] for line in listed.splitlines() if "program" in line]


def test_each_number_draws_an_order_and_always_the_same(program):
    outputs, orders = set(), []
    for number in (7, 8, 7):
        with layouts.relinked(program, number) as file:
            assert (file is not None) == CAN
            outputs.add(subprocess.run([file or program], check=True, capture_output=True).stdout)
            orders.append(functions(file or program))
    assert len(outputs) == 1, "all do the same"
    assert orders[0] == orders[2] and sorted(orders[0]) == sorted(orders[1]) == sorted(functions(program))
    assert (orders[0] != orders[1]) == CAN


def test_a_link_is_gone_with_its_process_and_so_is_that_of_a_process_that_was_killed(program):
    (program.parent / "measure-it.layout5").touch()
    with layouts.relinked(program, 9) as file:
        assert file is None or file.name == "measure-it.layout9"
        assert list(program.parent.glob("*.layout*")) == [file] * CAN
    assert not list(program.parent.glob("*.layout*"))


def test_what_the_linker_did_not_keep_is_not_linked_again(program, tmp_path):
    other = tmp_path / "other"
    layouts.store(other, other)
    with layouts.relinked(other, 7) as file:
        assert file is None
