//! The repository around a measurement: where it is, what it was made from.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::base::error::Error;

/// The revision that is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Git {
    pub(crate) revision: Option<String>,
    /// False when a file differs from the revision or is not in it; runs do not count.
    pub(crate) clean: Option<bool>,
}

/// Version of a package; all of them when the lock holds several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Versions {
    One(String),
    Several(Vec<String>),
}

/// The nearest folder, from the current one upwards, that holds `rust-kernels` and `data`.
///
/// # Errors
/// [`Error::Setting`] if there is none.
pub fn root() -> Result<PathBuf, Error> {
    let here = env::current_dir().map_err(Error::io("find", Path::new("the current folder")))?;
    let root =
        here.ancestors().find(|folder| folder.join("rust-kernels").is_dir() && folder.join("data").is_dir());
    root.map(Path::to_path_buf).ok_or_else(|| Error::Setting {
        name: "current folder",
        reason:
            "neither it nor a folder above it holds rust-kernels and data; start from inside the repository"
                .to_owned(),
    })
}

/// The revision of the repository; `None` when it is not a git repository or there is no git.
pub(crate) fn git(root: &Path) -> Option<Git> {
    if !root.join(".git").exists() {
        return None;
    }
    let revision = run(root, &["rev-parse", "HEAD"])?.trim().to_owned();
    let files = [".", ":(exclude)data/runs", ":(exclude)data/comparisons"];
    let changes =
        run(root, &[&["status", "--porcelain", "--untracked-files=normal", "--"][..], &files].concat());
    Some(Git { revision: Some(revision), clean: changes.map(|text| text.trim().is_empty()) })
}

fn run(root: &Path, arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    let output = git.arg("-C").arg(root).args(arguments).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Every package of the workspace's Cargo.lock; empty when there is none.
pub(crate) fn crates(root: &Path) -> BTreeMap<String, Versions> {
    fs::read_to_string(root.join("Cargo.lock")).map(|text| packages(&text)).unwrap_or_default()
}

/// Names and versions, as Cargo writes them: each in a line, one after the other.
fn packages(lock: &str) -> BTreeMap<String, Versions> {
    let value = |line: &str, name| Some(line.strip_prefix(name)?.strip_suffix('"')?.to_owned());
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut last = None;
    for line in lock.lines() {
        if let Some(name) = value(line, "name = \"") {
            last = Some(name);
        } else if let (Some(version), Some(name)) = (value(line, "version = \""), last.take()) {
            found.entry(name).or_default().push(version);
        }
    }
    let single = |mut versions: Vec<String>| match versions.len() {
        1 => Versions::One(versions.remove(0)),
        _ => Versions::Several(versions),
    };
    found.into_iter().map(|(name, versions)| (name, single(versions))).collect()
}

/// Text of a variant's failure for run.json: one line of harmless characters, without the folders of this
/// machine.
pub(crate) fn public_text(text: &str, root: &Path) -> String {
    let mut text = text.to_owned();
    let private = [Some(root.to_path_buf()), env::var_os("HOME").map(PathBuf::from)];
    for folder in
        private.iter().flatten().filter_map(|folder| folder.to_str()).filter(|folder| folder.len() > 1)
    {
        text = text.replace(folder, "~");
    }
    let harmless = |c: char| c.is_ascii_graphic() || c.is_alphanumeric() || "·×µ≤≥→–…".contains(c);
    let words = text.chars().map(|c| if harmless(c) { c } else { ' ' }).collect::<String>();
    words.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST_TEXT).collect()
}

/// Characters of a failure's text that are kept: enough for its first sentence.
const LONGEST_TEXT: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_of_the_lock_is_listed_with_all_its_versions() {
        let lock = "version = 4\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n[[package]]\nname = \"b\"\nversion = \"1.0.0\"\n\
                    [[package]]\nname = \"b\"\nversion = \"2.0.0\"\n";
        let json = serde_json::to_string(&packages(lock)).expect("plain data");
        assert_eq!(json, r#"{"a":"1.0.0","b":["1.0.0","2.0.0"]}"#);
    }

    #[test]
    fn a_new_file_is_a_change_whatever_git_is_told_to_show() {
        let root = env::temp_dir().join(format!("async-cost-repository-{}", std::process::id()));
        fs::create_dir_all(&root).expect("a folder");
        let user = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--allow-empty", "-qm", "first"];
        for command in [&["init", "-q"][..], &user, &["config", "status.showUntrackedFiles", "no"]] {
            run(&root, command).expect("git");
        }
        let clean = || git(&root).expect("a repository").clean;
        let before = clean();
        fs::write(root.join("new.rs"), "").expect("a file");
        assert_eq!((before, clean()), (Some(true), Some(false)));
        fs::remove_dir_all(&root).expect("the folder");
    }

    #[test]
    fn failures_name_no_folder_and_hold_no_markup_of_terminals() {
        let text = public_text(
            "lost\nin /somewhere/project/x.rs:\u{1b}[31m 3 \u{202e}µs",
            Path::new("/somewhere/project"),
        );
        assert_eq!(text, "lost in ~/x.rs: [31m 3 µs");
    }
}
