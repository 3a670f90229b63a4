//! Records what cargo tells build scripts alone of how this crate is compiled. The notebook kernel compiles all its cells
//! with the same settings.

use std::env;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    for name in ["PROFILE", "OPT_LEVEL", "TARGET"] {
        record(name, &env::var(name).unwrap_or_default());
    }
    record("RUSTFLAGS", &rust_flags());
    record("RUSTC", &compiler());
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
