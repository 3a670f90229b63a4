"""What the shapes of a call cost before they run: bytes of machine code, and processor time of the compiler.

Each shape of the notebook on async functions is compiled as a crate that holds nothing but it: a call, and what that
needs of the notebook's own source. All are compiled in turn, several times.
"""

import json
import os
import re
import resource
import subprocess
import tempfile
from collections.abc import Collection
from pathlib import Path

import polars as pl

from async_cost.workflow import layouts, toolchain
from async_cost.workflow.toolchain import ROOT

SOURCE = ROOT / "rust-kernels" / "async-fn" / "measure.rs"
#: The call of each shape, four deep; `nothing` is what every crate has.
CALLS = {
    "nothing": "job.seed",
    "fn": "<D4 as Shape>::plain(job)",
    "fn, out of line": "<D4 as Shape>::plain_apart(job)",
    "async fn": "block_on(pin!(functions::f4(job))).value",
    "async fn, out of line": "block_on_apart(pin!(<D4 as Shape>::apart(job))).value",
    "async fn in a trait": "block_on(pin!(<D4 as Shape>::in_trait(job))).value",
    "by hand": "block_on(pin!(<H4 as ByHand>::call(job))).value",
    "Box dyn Future": "block_on(pin!(<D4 as Shape>::in_box(job))).value",
    "async_trait": "block_on(pin!(ByMacro::call(&D4::default(), job))).value",
    "async_trait, dyn": "block_on(of_dyn(4).call(job).as_mut()).value",
    "enum": "block_on(pin!(<D4 as Shape>::in_enum(job))).value",
    "AsyncFn": "let outermost = around_closure(around_closure(around_closure(async |job: Job| innermost_call!(job))));\n"
    "    block_on(pin!(outermost(job))).value",
    "recursion": "block_on(pin!(recursed(4, job))).value",
}
#: Crates that some of them need.
EXTERN = ("async_trait", "futures")
#: As programs that are measured are compiled, see Cargo.toml.
CODEGEN = [
    "--edition=2024",
    "--crate-type=lib",
    "--emit=obj",
    "-Copt-level=3",
    "-Ccodegen-units=1",
    "--cap-lints=allow",
]

#: The items of a crate, as rustfmt formats them, and their names; the methods of an implementation or a trait.
BETWEEN = re.compile(r"\n\n+(?=\S)|(?<=;)\n(?=type |use |#\[)")
DEFINED = re.compile(r"^(?:pub )?(?:async )?(?:struct|enum|trait|fn|mod|type|const|macro_rules!) (\w+)", re.MULTILINE)
METHOD = re.compile(r"(?:^    #\[.*\]\n)*^    (?:async )?fn (\w+)\((?:[^;{]*;|.*?^    \})\n+", re.DOTALL | re.MULTILINE)


def crate(call: str, source: str) -> str:
    """The items of `source` that this call needs, be it by way of others, and a function that makes it."""
    source = re.sub(r"^ *//.*\n", "", source, flags=re.MULTILINE)
    # Of the functions that call each other, the last four.
    source = re.sub(r"use functions::.*|(?<=functions!\()f32 .*(?=f4 )", "", source)
    # Of the trait with a method for each shape, the one that is called; `plain_apart` ends with `plain`.
    methods = {*re.findall(r"Shape>::(\w+)", call), *re.findall("plain", call)}
    items = [_with(methods, item) if "Shape" in item.split("{")[0] else item for item in BETWEEN.split(source)]
    defined = {name for item in items for name in DEFINED.findall(item)}
    entry = f"#[inline(never)]\npub fn entry(job: Job) -> u64 {{\n    {call}\n}}\n"
    chosen: list[str] = []
    while True:
        mentioned = _words("\n".join([entry, *chosen]))
        needed = [item for item in items if _needed(item, mentioned, defined)]
        if needed == chosen:
            return "\n\n".join([*chosen, entry])
        chosen = needed


def _with(methods: Collection[str], item: str) -> str:
    return METHOD.sub(lambda method: method[0] if method[1] in methods else "", item)


def _words(text: str) -> set[str]:
    return set(re.findall(r"(?<![\w.:'$])(?<!fn )\w+", text))


def _needed(item: str, mentioned: set[str], defined: set[str]) -> bool:
    if re.match(r"(?:#\[.*\]\n)*impl\b", item):
        return bool(types := _words(item.split("{")[0]) & defined) and types <= mentioned
    names = re.findall(r"(\w+)[,;}]", item) if item.startswith("use ") else DEFINED.findall(item)
    return not mentioned.isdisjoint(names)


def measure(builds: int = 5) -> pl.DataFrame:
    """A row a shape: `text_bytes` of its `functions` and how many these are; `cpu_ms` of the compiler, user and system,
    the median of so many builds; `rustc` and `cpu`. Raises CalledProcessError if a crate does not compile.
    """
    rustc = Path(_run("rustc", "--print=sysroot").strip(), "bin", "rustc")
    extern, source = _extern(), SOURCE.read_text(encoding="utf-8")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number, (shape, call) in [*enumerate(CALLS.items())] * builds:
            (file := Path(folder, f"shape_{number}.rs")).write_text(crate(call, source), encoding="utf-8")
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            _run(rustc, *CODEGEN, *extern, file, "-o", file.with_suffix(".o"))
            spent = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_ms = 1000 * (spent.ru_utime + spent.ru_stime - before.ru_utime - before.ru_stime)
            sizes = _functions(file.with_suffix(".o"))
            rows.append((shape, sum(sizes), len(sizes), cpu_ms))
    built = pl.DataFrame(rows, schema=["shape", "text_bytes", "functions", "cpu_ms"], orient="row")
    result = built.group_by("shape", maintain_order=True).agg(pl.first("text_bytes", "functions"), pl.median("cpu_ms"))
    return result.with_columns(rustc=pl.lit(_run(rustc, "--version").strip()), cpu=pl.lit(toolchain.cpu()))


def _functions(file: Path) -> list[int]:
    """The bytes of each function of an object file."""
    symbols = (line.split() for line in _run("nm", "--defined-only", "-S", "-t", "d", file).splitlines())
    return [int(symbol[1]) for symbol in symbols if len(symbol) == 4 and symbol[2] in "tTwW"]


def _extern() -> list[str]:
    """What tells rustc of the crates in `EXTERN`, which cargo has built for the notebook's own."""
    # With the linker that everything in this folder is built with: else cargo would compile all of it again.
    environment = {**os.environ, **layouts.environment()}
    printed = _run(
        "cargo", "build", "--locked", "--release", "-p", "async-fn", "--message-format=json", env=environment
    )
    artifacts = [json.loads(line) for line in printed.splitlines() if '"compiler-artifact"' in line]
    files = {artifact["target"]["name"].replace("-", "_"): artifact["filenames"][0] for artifact in artifacts}
    named = [f"--extern={name}={files[name]}" for name in EXTERN]
    return [*named, f"-Ldependency={Path(files['futures']).parent}"]


def _run(*command: str | Path, env: dict[str, str] | None = None) -> str:
    return subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout
