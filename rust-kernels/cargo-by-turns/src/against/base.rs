//! The base: its sources, with today's benches and today's by-turns, in a folder of its own.

use std::cmp::Reverse;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use by_turns_core::run::files::at;
use serde_json::Value;

use crate::against::arguments::Arguments;
use crate::against::package::{Bench, Package, Refused};
use crate::against::release::Release;
use crate::against::worktree::{self, top};
use crate::against::{copy, manifest};

/// How a side is shown, and what it was made of.
pub struct Prepared {
    pub package: Package,
    /// The folder that cargo builds it in: one of its own, since cargo takes the packages of two workspaces for one if they lie
    /// alike in them, and what was compiled of one for what the other needs.
    pub target: PathBuf,
    /// As the table calls it.
    pub shown: String,
    /// Benches that only the base has, if all are asked for.
    pub gone: Vec<String>,
    /// Those that it does not have.
    pub new: Vec<String>,
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
) -> Result<Prepared, Refused> {
    let against = &arguments.against;
    let release = Release::of(against).filter(|_| !worktree::is_tag(today, against));
    let release = release.map(|release| Ok::<_, Refused>((release.replaced(today)?, release))).transpose()?;
    let (folder, shown) = match &release {
        None => {
            let parts: Vec<PathBuf> = benches.iter().map(|bench| copied(bench, today)).collect();
            worktree::of(against, today, &parts, home)?
        }
        Some((_, Release { name, version })) => {
            (copy::tree(today, &home.join(format!("{name}-{version}")))?, against.clone())
        }
    };
    let target = target_of(&folder);
    let filled = filled(arguments, today, benches, &folder, &shown, release);
    if filled.is_err() && !target.exists() {
        // It is none of those that are kept.
        worktree::remove(today, &folder);
    }
    let (base, gone, new) = filled?;
    fs::create_dir_all(&target).map_err(at(&target))?;
    for old in aged(home, &target)? {
        worktree::remove(today, &old);
        let _ = fs::remove_dir_all(target_of(&old));
    }
    Ok(Prepared { package: base, target, shown, gone, new })
}

/// The package of the base, whose sources are in the folder, with what its benches need; and the names of benches that only the base
/// has, and that it lacks.
fn filled(
    arguments: &Arguments,
    today: &Package,
    benches: &[&Bench],
    folder: &Path,
    shown: &str,
    release: Option<(String, Release)>,
) -> Result<(Package, Vec<String>, Vec<String>), Refused> {
    let top = top(today).unwrap_or_else(|| today.workspace.clone());
    let within = |path: &Path| -> Result<PathBuf, String> {
        let inner =
            path.strip_prefix(&top).map_err(|_| format!("{} is not in {}", path.display(), top.display()))?;
        Ok(folder.join(inner))
    };
    let of_base = within(&today.folder)?.join("Cargo.toml");
    if !of_base.exists() {
        let none = format!("{shown} has no package {}: there is no {}", today.name, of_base.display());
        return Err(none.into());
    }
    let base = apart(&of_base, &today.name, folder)?;
    for bench in benches {
        put(bench, today, &base)?;
    }
    let text = fs::read_to_string(&of_base).map_err(at(&of_base))?;
    let text = manifest::with(&text, &elsewhere(benches, today, &base), &for_benches(today, &base));
    fs::write(&of_base, text).map_err(at(&of_base))?;
    if today.lock().exists() {
        fs::copy(today.lock(), base.lock()).map_err(at(&base.lock()))?;
    }
    if let Some((replaced, release)) = &release {
        release.choose(arguments, today, &base, replaced)?;
    }
    let lacks = |package: &Package, name: &str| !package.benches.iter().any(|other| other.name == name);
    let gone = base.benches.iter().filter(|bench| bench.uses_by_turns() && lacks(today, &bench.name));
    let gone = gone.filter(|_| arguments.benches.is_empty()).map(|bench| bench.name.clone()).collect();
    let new = benches.iter().map(|bench| bench.name.clone()).filter(|name| lacks(&base, name)).collect();
    Ok((base, gone, new))
}

/// Ends the name of the folder that a base is built in, behind that of its own.
const TARGET: &str = ".target";
/// So many bases are kept: going back and forth between two compiles neither anew.
const KEPT: usize = 2;

fn target_of(folder: &Path) -> PathBuf {
    let mut target = folder.as_os_str().to_owned();
    target.push(TARGET);
    target.into()
}

/// The folders of bases in `home` that are not among the last that were used, of which this one is.
fn aged(home: &Path, target: &Path) -> Result<Vec<PathBuf>, String> {
    let used = |path: &Path| fs::metadata(path).and_then(|data| data.modified()).unwrap_or(UNIX_EPOCH);
    let now = File::open(target).and_then(|folder| folder.set_modified(SystemTime::now()));
    now.map_err(at(target))?;
    let entries = fs::read_dir(home).map_err(at(home))?.filter_map(|entry| Some(entry.ok()?.path()));
    let folder = |target: PathBuf| Some(home.join(target.file_name()?.to_str()?.strip_suffix(TARGET)?));
    let mut bases: Vec<PathBuf> = entries.filter_map(folder).collect();
    bases.sort_by_key(|base| Reverse(used(&target_of(base))));
    Ok(bases.split_off(bases.len().min(KEPT)))
}

/// The package of this manifest, made the root of a workspace where `folder` has none for it: cargo would look for one around it,
/// and find today's.
fn apart(manifest: &Path, name: &str, folder: &Path) -> Result<Package, String> {
    let find = || Package::find(Some(manifest), Some(name));
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let first = find();
    if first.as_ref().is_ok_and(|base| real(&base.workspace).starts_with(real(folder))) {
        return first;
    }
    let text = fs::read_to_string(manifest).map_err(at(manifest))?;
    fs::write(manifest, format!("{text}\n[workspace]\n")).map_err(at(manifest))?;
    find().map_err(|second| {
        let why = first.err().unwrap_or(second);
        match folder.join(".gitmodules").exists() {
            true => format!("{why}; submodules of git are not checked out for the base"),
            false => why,
        }
    })
}

/// What is copied of a bench: the folder of benches that it is in, or one of its own, which may hold modules of it.
fn copied(bench: &Bench, today: &Package) -> PathBuf {
    let Ok(inner) = bench.source.strip_prefix(&today.folder) else { return bench.source.clone() };
    let folder = inner.parent().unwrap_or(inner);
    if folder.as_os_str().is_empty() || folder.starts_with("src") {
        return bench.source.clone();
    }
    let benches = folder.ancestors().find(|path| path.ends_with("benches"));
    today.folder.join(benches.unwrap_or(folder))
}

fn put(bench: &Bench, today: &Package, base: &Package) -> Result<(), String> {
    let from = copied(bench, today);
    let inner = from.strip_prefix(&today.folder).map_err(|_| {
        format!("bench {} is not in the folder of its package, from which it is copied", bench.name)
    })?;
    copy::all(&from, &base.folder.join(inner))
}

/// Benches that the base does not have in the file in which today has them, and their files.
fn elsewhere<'a>(benches: &[&'a Bench], today: &Package, base: &Package) -> Vec<(&'a Bench, &'a Path)> {
    let inner = |bench: &'a Bench| Some((bench, bench.source.strip_prefix(&today.folder).ok()?));
    let has = |(bench, file): &(&Bench, &Path)| {
        let same =
            |other: &Bench| other.name == bench.name && other.source.strip_prefix(&base.folder) == Ok(*file);
        base.benches.iter().any(same)
    };
    benches.iter().filter_map(|bench| inner(bench)).filter(|bench| !has(bench)).collect()
}

/// What benches need besides the package: by-turns as today's, and what the base does not have.
fn for_benches<'a>(today: &'a Package, base: &Package) -> Vec<&'a Value> {
    let has = |name: &str| base.dependencies.iter().any(|other| manifest::named(other) == name);
    let new = |one: &&Value| one["kind"] == "dev" && !has(manifest::named(one));
    today.dependencies.iter().filter(|one| one["name"] == "by-turns" || new(one)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(folder: &str, benches: &[(&str, &str)]) -> Package {
        let bench = |(name, source): &(&str, &str)| Bench {
            name: (*name).to_owned(),
            source: Path::new(folder).join(source),
        };
        Package {
            name: "p".to_owned(),
            folder: folder.into(),
            workspace: folder.into(),
            target: "/t".into(),
            benches: benches.iter().map(bench).collect(),
            dependencies: vec![],
        }
    }

    #[test]
    fn a_package_that_its_workspace_excludes_is_apart_from_todays() {
        let place = std::env::temp_dir().join(format!("by-turns-apart-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        let base = place.join("target/base");
        let write = |folder: &Path, text: &str| {
            fs::create_dir_all(folder.join("src")).expect("a folder");
            fs::write(folder.join("src/lib.rs"), "").expect("a file");
            fs::write(folder.join("Cargo.toml"), text).expect("a file");
        };
        let package = |name: &str| format!("[package]\nname = \"{name}\"\nedition = \"2024\"\n");
        for root in [&place, &base] {
            write(root, &(package("root") + "[workspace]\nexclude = [\"perf\"]\n"));
        }
        write(&base.join("perf"), &package("perf"));
        let found = apart(&base.join("perf/Cargo.toml"), "perf", &base).expect("one of its own");
        assert!(found.workspace.ends_with("base/perf"), "{found:?}");
        let found = apart(&base.join("Cargo.toml"), "root", &base).expect("its own already");
        assert!(found.workspace.ends_with("base"), "{found:?}");
        fs::write(base.join(".gitmodules"), "").expect("a file");
        let lacking = package("lacking") + "[dependencies]\nvend = { path = \"../vend\" }\n[workspace]\n";
        write(&base.join("lacking"), &lacking);
        let why = apart(&base.join("lacking/Cargo.toml"), "lacking", &base).expect_err("no submodule");
        assert!(
            why.contains("vend") && why.ends_with("submodules of git are not checked out for the base"),
            "{why}"
        );
        fs::remove_dir_all(place).expect("ours");
    }

    #[test]
    fn the_last_two_bases_are_kept() {
        let home = std::env::temp_dir().join(format!("by-turns-bases-{}", std::process::id()));
        let _ = fs::remove_dir_all(&home);
        for (age, name) in (1..).zip(["b", "c", "a", "now"]) {
            let target = home.join(name).with_extension("target");
            fs::create_dir_all(home.join("samples"))
                .and_then(|()| fs::create_dir_all(&target))
                .expect("a folder");
            let then = SystemTime::now() - std::time::Duration::from_secs(60 * age);
            File::open(&target).and_then(|folder| folder.set_modified(then)).expect("a time");
        }
        let mut old = aged(&home, &home.join("now.target")).expect("readable");
        old.sort();
        assert_eq!(old, ["a", "c"].map(|name| home.join(name)), "the present one, and the last before");
        fs::remove_dir_all(home).expect("ours");
    }

    #[test]
    fn benches_go_with_their_folder_and_are_told_by_their_files() {
        let files = ["benches/a.rs", "benches/b/main.rs", "perf/c.rs", "src/d.rs", "e.rs"];
        let benches = ["a", "b", "c", "d", "e"].into_iter().zip(files).collect::<Vec<_>>();
        let today = package("/w", &benches);
        let parts = today.benches.iter().map(|bench| copied(bench, &today));
        let told = ["/w/benches", "/w/benches", "/w/perf", "/w/src/d.rs", "/w/e.rs"].map(PathBuf::from);
        assert_eq!(parts.collect::<Vec<_>>(), told);
        let base = package("/v", &[("a", "benches/a.rs"), ("b", "benches/b/main.rs"), ("c", "benches/c.rs")]);
        let all: Vec<&Bench> = today.benches.iter().collect();
        let files: Vec<_> = elsewhere(&all, &today, &base).into_iter().map(|(_, file)| file).collect();
        assert_eq!(files, ["perf/c.rs", "src/d.rs", "e.rs"].map(Path::new), "moved, and new");
    }

    #[test]
    fn the_base_gets_todays_by_turns_of_any_kind_and_what_it_lacks_for_development() {
        let of = |name: &str, kind: Option<&str>| json!({"name": name, "kind": kind});
        let (mut today, mut base) = (package("/w", &[]), package("/v", &[]));
        today.dependencies =
            vec![of("by-turns", None), of("a", Some("dev")), of("b", Some("dev")), of("c", None)];
        base.dependencies = vec![of("by-turns", None), of("b", None)];
        let names: Vec<_> = for_benches(&today, &base).into_iter().map(manifest::named).collect();
        assert_eq!(names, ["by-turns", "a"]);
    }
}
