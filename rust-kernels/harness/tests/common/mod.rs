//! A scratch repository and the fixture program that measures in it.

// Each test file is a program of its own and uses a part of this.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// Variants of the fixture's study, its control included.
pub const VARIANTS: usize = 6;

/// Samples of one trial.
pub const SAMPLES: usize = 2;

/// An empty repository in a temporary folder, removed with this value.
pub struct Repository(pub PathBuf);

impl Repository {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("harness-test-{}-{number}", std::process::id()));
        fs::create_dir_all(root.join("rust-kernels/inner")).expect("a temporary folder");
        fs::create_dir_all(root.join("data/runs")).expect("a temporary folder");
        // Folders are compared as text later on, so links such as macOS's /tmp are followed now.
        Self(root.canonicalize().expect("it was just made"))
    }

    /// A folder for partial runs, as an outer program would make it.
    pub fn partial(&self, name: &str) -> PathBuf {
        let folder = self.0.join("data/runs/.partial").join(name);
        fs::create_dir_all(&folder).expect("a temporary folder");
        folder
    }

    /// The fixture, started in a folder below the root, as a notebook is.
    pub fn fixture(&self, arguments: &[&str], partial: Option<&Path>) -> Command {
        let mut command = Command::new(fixture());
        command.args(arguments).current_dir(self.0.join("rust-kernels/inner"));
        command
            .env_remove("ASYNC_COST_PARTIAL")
            .env_remove("ASYNC_COST_PROFILE")
            .env_remove("ASYNC_COST_PROGRESS")
            .env_remove("ASYNC_COST_EPISODE")
            .env_remove("ASYNC_COST_COMMAND");
        if let Some(partial) = partial {
            command.env("ASYNC_COST_PARTIAL", partial);
        }
        command
    }

    /// Names of the runs that a reader sees.
    pub fn visible(&self) -> Vec<String> {
        let names = fs::read_dir(self.0.join("data/runs")).expect("it is there");
        let names = names.map(|entry| entry.expect("readable").file_name().into_string().expect("plain"));
        names.filter(|name| !name.starts_with('.')).collect()
    }

    /// Finished runs of the fixture, which are kept among the hidden ones.
    pub fn finished(&self) -> Vec<PathBuf> {
        let pattern = |folder: PathBuf| {
            fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("readable").path())
        };
        pattern(self.0.join("data/runs/.partial/test")).flat_map(pattern).collect()
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the folder is ours");
    }
}

/// Standard output of a program that must succeed.
pub fn succeed(output: Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// Standard error of a program that must fail.
pub fn fail(output: Output) -> String {
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `examples/fixture.rs`, which cargo builds along with the tests.
fn fixture() -> PathBuf {
    let test = std::env::current_exe().expect("tests have a path");
    let build = test.parent().and_then(Path::parent).expect("tests lie in <build>/deps");
    let program = build.join("examples/fixture");
    assert!(program.exists(), "run `cargo test` without `--test`, or `cargo build --example fixture` before");
    program
}
