//! Another release of a dependency: today's sources, with that in the lock file.

use std::fs;
use std::process::Stdio;

use by_turns_core::run::files::{at, output};
use by_turns_core::run::process;
use serde_json::Value;

use crate::against::arguments::Arguments;
use crate::against::lock;
use crate::against::package::{Package, cargo};

/// A release of a dependency.
#[derive(Clone, Debug, PartialEq)]
pub struct Release {
    pub name: String,
    pub version: String,
}

impl Release {
    /// What `name@version` asks for, whose parts hold what such names may: no `/`, for one. `None` of other text.
    pub fn of(text: &str) -> Option<Self> {
        let (name, version) = text.split_once('@')?;
        let holds = |text: &str, others: &str| {
            !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
        };
        let numbered = version.starts_with(|c: char| c.is_ascii_digit());
        (numbered && holds(name, "_-") && holds(version, "+-."))
            .then(|| Self { name: name.to_owned(), version: version.to_owned() })
    }

    /// The version in today's lock file that it takes the place of.
    ///
    /// # Errors
    /// If it takes none's.
    pub fn replaced(&self, today: &Package) -> Result<String, String> {
        let Self { name, version } = self;
        let text = fs::read_to_string(today.lock()).map_err(at(&today.lock()))?;
        let before = lock::versions(&text, name);
        let of = &today.name;
        if before.contains(version) {
            return Err(format!("both sides are one source: {of} resolves to {name} {version} already"));
        }
        let nearest = lock::nearest(&before, version).cloned();
        nearest.ok_or_else(|| format!("{name} is no dependency of {of}"))
    }

    /// Has cargo choose it in the base's lock file.
    ///
    /// # Errors
    /// Why cargo does not.
    pub fn choose(
        &self,
        arguments: &Arguments,
        today: &Package,
        base: &Package,
        replaced: &str,
    ) -> Result<(), String> {
        let Self { name, version } = self;
        let offline = arguments.cargo.iter().filter(|word| *word == "--offline");
        let mut update = cargo();
        update.args(["update", "-p", &format!("{name}@{replaced}"), "--precise", version]);
        update.arg("--manifest-path").arg(base.manifest()).args(offline.clone());
        let done = process::bound(&mut update, None).stdin(Stdio::null()).output();
        let done = done.map_err(|error| format!("cargo: {error}"))?;
        if !done.status.success() {
            let pins = pins(today, name, version, offline);
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(format!("{name} {version} cannot be chosen{pins}; cargo says:\n{}", said.trim_end()));
        }
        let after = fs::read_to_string(base.lock()).map_err(at(&base.lock()))?;
        if lock::versions(&after, name).contains(version) {
            return Ok(());
        }
        Err(format!("both sides are one source: cargo did not choose {name} {version}"))
    }
}

/// The packages that require one other release of it, of all that the lock file names.
fn pins<'a>(today: &Package, name: &str, version: &str, offline: impl Iterator<Item = &'a String>) -> String {
    let mut command = cargo();
    command
        .args(["metadata", "--format-version", "1", "--manifest-path"])
        .arg(today.manifest())
        .args(offline);
    let told = output(&mut command).ok().and_then(|text| serde_json::from_str(&text).ok());
    let pins = pinned(&told.unwrap_or(Value::Null), name, version);
    if pins.is_empty() { pins } else { format!(": {pins}") }
}

/// What `=` requirements forbid the version, in what `cargo metadata` tells.
fn pinned(metadata: &Value, name: &str, version: &str) -> String {
    let all = |json: &Value, name: &str| json[name].as_array().cloned().unwrap_or_default();
    let mut pins: Vec<String> = vec![];
    for package in all(metadata, "packages") {
        let of = all(&package, "dependencies").into_iter().filter(|one| one["name"] == name);
        for requirement in of.filter_map(|one| one["req"].as_str().map(str::to_owned)) {
            if requirement.split(',').any(|part| part.trim().starts_with('='))
                && !requirement.contains(version)
            {
                let (package, of) = (package["name"].as_str(), package["version"].as_str());
                let [package, of] = [package, of].map(Option::unwrap_or_default);
                pins.push(format!("{package} {of} requires {requirement}"));
            }
        }
    }
    pins.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_release_is_told_from_a_revision_and_from_a_path() {
        let release = |text: &str| Release::of(text).map(|Release { name, version }| (name, version));
        let known = |name: &str, version: &str| Some((name.to_owned(), version.to_owned()));
        assert_eq!(release("tokio@1.45.0"), known("tokio", "1.45.0"));
        assert_eq!(release("a_b-c@0.1.0-rc.1+x"), known("a_b-c", "0.1.0-rc.1+x"));
        for other in ["main", "v1.2", "main@{1}", "a@b", "@1", "a@", "/w/mine@2", "../mine@2", "a@2/../../b"]
        {
            assert_eq!(release(other), None, "{other}");
        }
    }

    #[test]
    fn pins_of_all_packages_are_named_and_other_requirements_are_not() {
        let package = |name: &str, requirement: &str| json!({"name": name, "version": "1.0.0", "dependencies": [{"name": "a", "req": requirement}, {"name": "b", "req": "=7.0.0"}]});
        let metadata = json!({"packages": [package("user", "=1.2.0"), package("other", "=1.3.0"), package("free", "^1"), package("asked", "=1.1.0")]});
        let told = "user 1.0.0 requires =1.2.0, other 1.0.0 requires =1.3.0";
        assert_eq!(pinned(&metadata, "a", "1.1.0"), told);
        assert_eq!(pinned(&Value::Null, "a", "1.1.0"), "");
    }
}
