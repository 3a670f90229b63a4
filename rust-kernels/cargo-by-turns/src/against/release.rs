//! Another release of a dependency: today's sources, with that in the lock file.

use std::fs;
use std::process::Stdio;

use by_turns_core::run::files::{at, output};
use by_turns_core::run::process;
use semver::{Version, VersionReq};
use serde_json::Value;

use crate::against::arguments::Arguments;
use crate::against::lock;
use crate::against::package::{Package, Refused, cargo};

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
    /// If it takes none's, or today has it already.
    pub fn replaced(&self, today: &Package) -> Result<String, Refused> {
        let Self { name, version } = self;
        let whole = Version::parse(version);
        whole.map_err(|_| format!("{name}@{version}: a release has three numbers, such as {name}@1.2.3"))?;
        let text = fs::read_to_string(today.lock()).map_err(at(&today.lock()))?;
        let reached = lock::reached(&text, &today.name);
        let before: Vec<&str> = reached.iter().filter(|one| one.0 == name).map(|one| one.1).collect();
        let of = &today.name;
        if before.contains(&version.as_str()) {
            let why = format!("{of} resolves to {name} {version} already");
            return Err(Refused::OneSource { base: format!("{name}@{version}"), why });
        }
        if name == of {
            let why =
                format!("{name} is the package itself: compare it with a revision, such as main or a tag");
            return Err(why.into());
        }
        let nearest = lock::nearest(&before, version).map(str::to_owned);
        Ok(nearest.ok_or_else(|| {
            let own = if lock::holds(&text, name) {
                ", but of another package, such as by-turns, only"
            } else {
                ""
            };
            let mut direct: Vec<&str> =
                reached.iter().map(|one| one.0).filter(|other| today.depends_on(other)).collect();
            direct.dedup();
            let others = if direct.is_empty() { "nothing" } else { "what these depend on" };
            direct.push(others);
            format!("{name} is no dependency of {of}{own}; to compare there is: {}", direct.join(", "))
        })?)
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
            let mut told = cargo();
            told.args(["metadata", "--format-version", "1", "--manifest-path"])
                .arg(today.manifest())
                .args(offline);
            let told = output(&mut told).ok().and_then(|text| serde_json::from_str(&text).ok());
            let why = forbidding(&told.unwrap_or(Value::Null), name, replaced, version).join(", ");
            let why = match why.is_empty() {
                true => format!("there may be no such release: `cargo info {name}` names the newest"),
                false => why,
            };
            let said = String::from_utf8_lossy(&done.stderr);
            return Err(format!(
                "{name} {version} cannot be chosen: {why}; cargo says:\n{}",
                said.trim_end()
            ));
        }
        let after = fs::read_to_string(base.lock()).map_err(at(&base.lock()))?;
        match lock::reached(&after, &today.name).contains(&(name.as_str(), version.as_str())) {
            true => Ok(()),
            false => Err(format!("cargo did not choose {name} {version} in place of {replaced}")),
        }
    }
}

/// The packages that allow the present version of it and forbid the wanted one, in what `cargo metadata` tells.
fn forbidding(metadata: &Value, name: &str, present: &str, wanted: &str) -> Vec<String> {
    let all = |json: &Value, name: &str| json[name].as_array().cloned().unwrap_or_default();
    let matches = |requirement: &str, version: &str| {
        let parsed = VersionReq::parse(requirement).ok().zip(Version::parse(version).ok());
        parsed.is_some_and(|(requirement, version)| requirement.matches(&version))
    };
    let mut found = vec![];
    for package in all(metadata, "packages") {
        for dependency in all(&package, "dependencies").into_iter().filter(|one| one["name"] == name) {
            let requirement = dependency["req"].as_str().unwrap_or_default();
            if matches(requirement, present) && !matches(requirement, wanted) {
                let [package, of] =
                    ["name", "version"].map(|field| package[field].as_str().unwrap_or_default());
                found.push(format!("{package} {of} requires {requirement}"));
            }
        }
    }
    found.dedup();
    found
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
    fn what_forbids_a_release_is_named_and_what_is_resolved_to_another_is_not() {
        let package = |name: &str, requirement: &str| json!({"name": name, "version": "1.0.0", "dependencies": [{"name": "a", "req": requirement}, {"name": "b", "req": "=7.0.0"}]});
        let metadata = json!({"packages": [package("user", "=1.2.0"), package("other", "^1.2"), package("free", "^1"), package("old", "^0.3"), package("both", ">=1, <3")]});
        let forbidding = |wanted| forbidding(&metadata, "a", "1.2.0", wanted).join(", ");
        assert_eq!(forbidding("1.1.0"), "user 1.0.0 requires =1.2.0, other 1.0.0 requires ^1.2");
        assert_eq!(forbidding("2.0.0").matches(" requires ").count(), 3);
        assert_eq!(forbidding("1.2.0"), "");
    }

    #[test]
    fn a_release_takes_the_place_of_one_that_the_package_depends_on() {
        let folder = std::env::temp_dir().join(format!("by-turns-release-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let package = |name: &str, dependencies: &str| {
            format!(
                "[[package]]\nname = \"{name}\"\nversion = \"2.1.0\"\ndependencies = [\n{dependencies}]\n"
            )
        };
        let text = package("user", " \"a\",\n \"by-turns\",\n")
            + &package("a", " \"b\",\n")
            + &package("by-turns", " \"memchr\",\n")
            + &["b", "memchr"].map(|name| package(name, "")).concat();
        fs::write(folder.join("Cargo.lock"), text).expect("a file");
        let today = Package {
            name: "user".to_owned(),
            folder: folder.clone(),
            workspace: folder.clone(),
            target: folder.clone(),
            benches: vec![],
            dependencies: vec![json!({"name": "a"}), json!({"name": "by-turns"})],
        };
        let replaced = |text: &str| match Release::of(text).expect("a release").replaced(&today) {
            Ok(version) => version,
            Err(Refused::OneSource { why, .. } | Refused::Failed(why)) => why,
        };
        assert_eq!(
            (replaced("b@2.0.0"), replaced("a@2.1.0")),
            ("2.1.0".into(), "user resolves to a 2.1.0 already".into())
        );
        let none = "is no dependency of user";
        let there = "; to compare there is: a, what these depend on";
        assert_eq!(replaced("c@1.0.0"), format!("c {none}{there}"));
        let own = ", but of another package, such as by-turns, only";
        assert_eq!(replaced("memchr@99.0.0"), format!("memchr {none}{own}{there}"));
        let itself = "user is the package itself: compare it with a revision, such as main or a tag";
        assert_eq!(replaced("user@1.0.0"), itself);
        assert_eq!(replaced("a@2"), "a@2: a release has three numbers, such as a@1.2.3");
        fs::remove_dir_all(folder).expect("ours");
    }
}
