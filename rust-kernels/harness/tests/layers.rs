//! The source is built in layers, and no two files need each other.
//!
//! What would make this fail: `use crate::study::builder::Study;` in `store/run.rs`, since a study is a later layer
//! than the store; `use crate::base::error::Error;` in `base/key.rs`, since `error` uses `key`; and `use crate::Key;`
//! anywhere, since that does not say where a key comes from.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Of this crate, the one that it builds on and the others that do: a layer uses itself and those before it. The last
/// one has no folders.
const LAYERS: [(&str, &[&str]); 3] = [
    ("harness", &["base", "provenance", "store", "study", "measure"]),
    ("by-turns-core", &["base", "trial", "count", "judge", "run", "glance"]),
    ("by-turns", &[""]),
];

/// Each file of the source of a crate as `layer::file`, with its text.
fn files((name, layers): (&str, &[&str])) -> BTreeMap<String, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src");
    let mut files = BTreeMap::new();
    for layer in layers {
        for entry in fs::read_dir(source.join(layer)).expect("a folder for each layer") {
            let path = entry.expect("readable").path();
            let file = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let file = if layer.is_empty() { file } else { format!("{layer}::{file}") };
            files.insert(file, fs::read_to_string(&path).expect("readable"));
        }
    }
    files
}

/// The lines that are no comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|line| !line.starts_with("//"))
}

/// The files that each file uses, as `layer::file`.
fn uses(files: &BTreeMap<String, String>) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut uses = BTreeMap::new();
    for (user, text) in files {
        let used: &mut BTreeSet<&str> = uses.entry(user.as_str()).or_default();
        for line in code(text) {
            // What a macro hands to other crates is named as they see it.
            for path in line.replace("$crate::", "").split("crate::").skip(1) {
                let named = files.keys().find(|file| {
                    let rest = path.strip_prefix(file.as_str());
                    rest.is_some_and(|rest| rest.starts_with("::") || rest.starts_with(';'))
                });
                used.insert(named.unwrap_or_else(|| panic!("{user}: name the file in `{line}`")));
            }
            assert!(!line.replace("super::*", "").contains("super::"), "{user}: name the file in `{line}`");
        }
    }
    uses
}

fn layer(layers: &[&str], file: &str) -> usize {
    let name = file.split("::").next();
    layers.iter().position(|layer| layer.is_empty() || Some(*layer) == name).expect("a layer")
}

#[test]
fn no_layer_uses_a_later_one() {
    for source in LAYERS {
        let files = files(source);
        for (user, used) in uses(&files) {
            let place = |file: &str| layer(source.1, file);
            let later: Vec<_> = used.iter().filter(|used| place(used) > place(user)).collect();
            assert!(later.is_empty(), "{user} is in an earlier layer than {later:?}");
        }
    }
}

#[test]
fn no_file_uses_itself_by_way_of_others() {
    for source in LAYERS {
        let files = files(source);
        let mut unresolved = uses(&files);
        // A file that uses none of the others is no part of a circle.
        while let Some(resolved) =
            unresolved.iter().find(|(_, used)| used.iter().all(|file| !unresolved.contains_key(file)))
        {
            let resolved = *resolved.0;
            unresolved.remove(resolved);
        }
        assert!(unresolved.is_empty(), "in circles, or on the way to one: {:?}", unresolved.keys());
    }
}
