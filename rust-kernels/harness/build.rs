//! Records how cargo was told to compile this crate. Cargo passes some of that to build scripts, some of it
//! stands in the environment and the rest in the workspace's manifest. The notebook kernel compiles all its
//! cells with the same settings.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["PROFILE", "OPT_LEVEL", "TARGET"] {
        record(name, &env::var(name).unwrap_or_default());
    }
    let settings = ["CODEGEN_UNITS", "INCREMENTAL", "LTO"];
    let names = ["DEV", "RELEASE", "BENCH"]
        .map(|profile| settings.map(|name| format!("CARGO_PROFILE_{profile}_{name}")));
    let told = names.as_flattened().iter().map(|name| format!("{name}={}", environment(name)));
    record("CARGO_PROFILES", &told.collect::<Vec<_>>().join(" "));
    record("CARGO_INCREMENTAL", &environment("CARGO_INCREMENTAL"));
    record("RUSTFLAGS", &rust_flags());
    record("RUSTC", &compiler());
    copy_workspace_manifest();
}

/// Passes a value to the crate as `HARNESS_<name>`; an empty one means that cargo was not told.
fn record(name: &str, value: &str) {
    println!("cargo::rustc-env=HARNESS_{name}={value}");
}

fn environment(name: &str) -> String {
    println!("cargo::rerun-if-env-changed={name}");
    env::var(name).unwrap_or_default()
}

/// The compiler's flags, those that hold a path left out: they may name a person.
fn rust_flags() -> String {
    let flags = environment("CARGO_ENCODED_RUSTFLAGS");
    let plain = flags.split('\u{1f}').filter(|flag| !flag.contains(['/', '\\', '\n']));
    plain.collect::<Vec<_>>().join(" ")
}

fn compiler() -> String {
    let output = env::var_os("RUSTC").and_then(|rustc| Command::new(rustc).arg("--version").output().ok());
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// Copies the nearest manifest with a `[workspace]` into the output folder; an empty file when there is none.
fn copy_workspace_manifest() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let manifest = here.ancestors().map(|folder| folder.join("Cargo.toml")).find(|path| is_workspace(path));
    let text = manifest.as_ref().map(|path| {
        println!("cargo::rerun-if-changed={}", path.display());
        fs::read_to_string(path).unwrap_or_default()
    });
    let copy = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("workspace.toml");
    fs::write(copy, text.unwrap_or_default()).expect("the output folder can be written");
}

fn is_workspace(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text.lines().any(|line| line.trim() == "[workspace]"))
}
