//! The base: its sources, with today's benches and today's by-turns, in a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use by_turns_core::run::files::{at, output};
use by_turns_core::run::process;
use serde_json::Value;

use crate::against::arguments::{Arguments, Base};
use crate::against::lock;
use crate::against::manifest;
use crate::against::package::{Bench, Package, cargo, git};

/// How a side is shown, and what it was made of.
pub struct Prepared {
    pub package: Package,
    /// The folder that cargo builds it in: one of its own, since cargo takes the packages of two workspaces for one if they lie
    /// alike in them, and what was compiled of one for what the other needs.
    pub target: PathBuf,
    /// As the table calls it.
    pub shown: String,
    /// Benches that only the base has.
    pub gone: Vec<String>,
}

/// Puts the base of these benches into a folder within `home`.
///
/// # Errors
/// Why there is none, and where both sides are one source.
pub fn prepared(
    arguments: &Arguments,
    today: &Package,
    benches: &[&Bench],
    home: &Path,
) -> Result<Prepared, String> {
    let (folder, shown) = match &arguments.base {
        Base::Revision(revision) => worktree(revision, today, benches, home)?,
        Base::Release { name, version } => (copy(today, name, version, home)?, arguments.against.clone()),
    };
    let top = top(today).unwrap_or_else(|| today.workspace.clone());
    let within = |path: &Path| -> Result<PathBuf, String> {
        let inner =
            path.strip_prefix(&top).map_err(|_| format!("{} is not in {}", path.display(), top.display()))?;
        Ok(folder.join(inner))
    };
    let of_base = within(&today.folder)?.join("Cargo.toml");
    if !of_base.exists() {
        return Err(format!("{shown} has no package {}: there is no {}", today.name, of_base.display()));
    }
    apart(&of_base, &folder)?;
    let base = Package::find(Some(&of_base), Some(&today.name))?;
    for bench in benches {
        put(bench, today, &base)?;
    }
    let missing: Vec<(&Bench, &Path)> = benches
        .iter()
        .filter(|bench| !base.benches.iter().any(|other| other.name == bench.name))
        .filter_map(|bench| Some((*bench, bench.source.strip_prefix(&today.folder).ok()?)))
        .collect();
    let text = fs::read_to_string(&of_base).map_err(at(&of_base))?;
    let text = manifest::with(&text, &missing, &for_benches(today, &base));
    fs::write(&of_base, text).map_err(at(&of_base))?;
    if today.lock().exists() {
        fs::copy(today.lock(), base.lock()).map_err(at(&base.lock()))?;
    }
    if let Base::Release { name, version } = &arguments.base {
        released(arguments, today, &base, name, version)?;
    }
    let gone =
        base.benches.iter().filter(|bench| !today.benches.iter().any(|other| other.name == bench.name));
    let gone = gone.map(|bench| bench.name.clone()).collect();
    let mut target = folder.into_os_string();
    target.push(".target");
    let target = target.into();
    Ok(Prepared { package: base, target, shown, gone })
}

/// The folder of the repository, if there is one.
fn top(today: &Package) -> Option<PathBuf> {
    let top = output(git(&today.folder).args(["rev-parse", "--show-toplevel"])).ok()?;
    Some(PathBuf::from(top.trim()))
}

/// The sources of a revision, and how it is shown.
fn worktree(
    revision: &str,
    today: &Package,
    benches: &[&Bench],
    home: &Path,
) -> Result<(PathBuf, String), String> {
    let top = top(today).ok_or_else(|| format!("{} is in no repository of git", today.folder.display()))?;
    let commit = output(
        git(&top)
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(format!("{revision}^{{commit}}")),
    )
    .map_err(|_| format!("{revision} is no revision of {}", top.display()))?;
    let commit = commit.trim();
    let short = &commit[..commit.len().min(12)];
    let mut differs = git(&top);
    differs.args(["diff", "--quiet", commit, "--", "."]);
    for bench in benches {
        let part = copied(bench, today);
        let part = part.strip_prefix(&top).unwrap_or(&part).display().to_string();
        differs.arg(format!(":(exclude){part}"));
    }
    if differs.status().is_ok_and(|status| status.success()) {
        return Err(format!(
            "both sides are one source: nothing but benches differs between the working tree and {revision} ({short})"
        ));
    }
    let folder = home.join(short);
    let there = folder.join(".git").exists()
        && output(git(&folder).args(["rev-parse", "HEAD"])).is_ok_and(|head| head.trim() == commit);
    if there {
        output(git(&folder).args(["reset", "-q", "--hard"]))?;
    } else {
        let _ = fs::remove_dir_all(&folder);
        output(git(&top).args(["worktree", "prune"]))?;
        output(git(&top).args(["worktree", "add", "-q", "--force", "--detach"]).arg(&folder).arg(commit))?;
    }
    Ok((folder, format!("{revision} ({short})")))
}

/// A copy of today's sources, for another release of a dependency.
fn copy(today: &Package, name: &str, version: &str, home: &Path) -> Result<PathBuf, String> {
    let top = top(today).ok_or_else(|| {
        format!("{} is in no repository of git, which says which files to copy", today.folder.display())
    })?;
    let folder = home.join(format!("{name}-{version}"));
    let _ = fs::remove_dir_all(&folder);
    let list = output(git(&top).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
    for file in list.split('\0').filter(|file| !file.is_empty()) {
        let (from, to) = (top.join(file), folder.join(file));
        if from.is_file() {
            copied_file(&from, &to)?;
        }
    }
    Ok(folder)
}

/// A copy as old as the file, so that cargo compiles nothing anew because of it.
fn copied_file(from: &Path, to: &Path) -> Result<(), String> {
    let copied = || {
        fs::create_dir_all(to.parent().unwrap_or(to))?;
        fs::copy(from, to)?;
        let changed = fs::metadata(from)?.modified()?;
        fs::File::options().write(true).open(to)?.set_modified(changed)
    };
    copied().map_err(at(to))
}

/// Makes it the root of a workspace where its own sources have none: one that the folder lies in is today's.
fn apart(manifest: &Path, folder: &Path) -> Result<(), String> {
    let has = |path: &Path| {
        let text = fs::read_to_string(path.join("Cargo.toml")).unwrap_or_default();
        text.lines().any(|line| line.trim_start().starts_with("[workspace"))
    };
    let inner = manifest.ancestors().skip(1).take_while(|path| path.starts_with(folder));
    if inner.into_iter().any(has) {
        return Ok(());
    }
    let text = fs::read_to_string(manifest).map_err(at(manifest))?;
    fs::write(manifest, format!("{text}\n[workspace]\n")).map_err(at(manifest))
}

/// What is copied of a bench: its folder, which may hold modules of it, if it has one of its own.
fn copied(bench: &Bench, today: &Package) -> PathBuf {
    let folder = bench.source.parent().unwrap_or(&today.folder);
    let shared = folder == today.folder || folder.ends_with("src") || !folder.starts_with(&today.folder);
    if shared { bench.source.clone() } else { folder.to_owned() }
}

fn put(bench: &Bench, today: &Package, base: &Package) -> Result<(), String> {
    let from = copied(bench, today);
    let inner = from.strip_prefix(&today.folder).map_err(|_| {
        format!("bench {} is not in the folder of its package, from which it is copied", bench.name)
    })?;
    let to = base.folder.join(inner);
    if from.is_file() { copied_file(&from, &to) } else { copied_folder(&from, &to) }
}

fn copied_folder(from: &Path, to: &Path) -> Result<(), String> {
    for entry in fs::read_dir(from).map_err(at(from))?.filter_map(Result::ok) {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() { copied_folder(&from, &to)? } else { copied_file(&from, &to)? }
    }
    Ok(())
}

/// What benches need besides the package: by-turns as today's, and what the base does not have.
fn for_benches<'a>(today: &'a Package, base: &Package) -> Vec<&'a Value> {
    let of_benches = today.dependencies.iter().filter(|dependency| dependency["kind"] == "dev");
    let has = |name: &str| base.dependencies.iter().any(|other| manifest::named(other) == name);
    of_benches.filter(|one| one["name"] == "by-turns" || !has(manifest::named(one))).collect()
}

/// Has cargo choose this release in the base's lock file.
fn released(
    arguments: &Arguments,
    today: &Package,
    base: &Package,
    name: &str,
    version: &str,
) -> Result<(), String> {
    let text = fs::read_to_string(today.lock()).map_err(at(&today.lock()))?;
    let before = lock::versions(&text, name);
    let Some(chosen) = lock::nearest(&before, version) else {
        return Err(format!("{name} is no dependency of {}", today.name));
    };
    if before.iter().any(|one| one == version) {
        return Err(format!(
            "both sides are one source: {} resolves to {name} {version} already",
            today.name
        ));
    }
    let offline = arguments.cargo.iter().filter(|word| *word == "--offline");
    let mut update = cargo();
    update.args(["update", "-p", &format!("{name}@{chosen}"), "--precise", version, "--manifest-path"]);
    update.arg(base.manifest()).args(offline.clone());
    let done = process::bound(&mut update, None).stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("cargo: {error}"))?;
    if !done.status.success() {
        let pins = pins(today, name, version, offline);
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{name} {version} cannot be chosen{pins}; cargo says:\n{}", said.trim_end()));
    }
    let after = fs::read_to_string(base.lock()).map_err(at(&base.lock()))?;
    if lock::versions(&after, name).iter().any(|one| one == version) {
        return Ok(());
    }
    Err(format!("both sides are one source: cargo did not choose {name} {version}"))
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
    fn pins_of_all_packages_are_named_and_other_requirements_are_not() {
        let package = |name: &str, requirement: &str| json!({"name": name, "version": "1.0.0", "dependencies": [{"name": "a", "req": requirement}, {"name": "b", "req": "=7.0.0"}]});
        let metadata = json!({"packages": [package("user", "=1.2.0"), package("other", "=1.3.0"), package("free", "^1"), package("asked", "=1.1.0")]});
        let told = "user 1.0.0 requires =1.2.0, other 1.0.0 requires =1.3.0";
        assert_eq!(pinned(&metadata, "a", "1.1.0"), told);
        assert_eq!(pinned(&Value::Null, "a", "1.1.0"), "");
    }
}
