//! A link order for each process. Where the linker puts a function changes its speed by some per cent, so each process
//! runs a copy of the program whose functions were linked in an order of its own.
//!
//! The bench has cargo compile it once more, with the options that cargo was called with, so that the linker keeps what
//! it links.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::places::{Places, metadata};
use by_turns_core::base::lock;
use by_turns_core::run::files::{Running, at, output};
use by_turns_core::run::link::{self, Linked};

/// Begins the names of archives.
const ARCHIVE: &str = "linked-";

/// Has the linker keep what this program is made of, in an archive at `place`, and unpacks that into the folder of the
/// running bench. Cargo compiles nothing where it knows the archive already.
///
/// # Errors
/// Why there are no link orders.
pub fn prepare(places: &Places, place: &Path, running: &Running) -> Result<Linked, String> {
    let linker = link::linker()?;
    let options = options(&words_of_parent(places.parent)?)?;
    let metadata = metadata(places)?;
    let manifest = places.started_in.join("Cargo.toml");
    let name = crate_name(&places.program);
    let bench = target(&metadata, &manifest, &name).ok_or("cargo does not know this program as a bench")?;
    let _lock = lock::held(place); // until the archive is unpacked
    let compile = |archive: &Path| {
        let mut command = Command::new(env::var_os("CARGO").unwrap_or_default());
        command.args(["rustc", "--quiet", "--manifest-path"]).arg(&manifest).args(["--bench", &bench]);
        command.args(&options).args(["--", "-C"]).arg(link::keeping(archive));
        // Where cargo was called before, relative paths mean what they meant, and what is compiled is found.
        output(command.current_dir(&places.stands).stderr(Stdio::null())).is_ok() && archive.exists()
    };
    // Cargo's hash of how it was compiled is in the name of the program.
    let mut archive = place.join(format!("{ARCHIVE}{:x}.tar", hash(&places.program)));
    for old in fs::read_dir(place).map_err(at(place))?.filter_map(Result::ok) {
        if old.file_name().to_string_lossy().starts_with(ARCHIVE) && old.path() != archive {
            let _ = fs::remove_file(old.path());
        }
    }
    if !compile(&archive) {
        // Cargo has compiled it before, but the archive is gone. With a new name cargo does it again.
        archive = running.folder.join("linked.tar");
        if !compile(&archive) {
            return Err(link::NO_ARCHIVE.to_owned());
        }
    }
    Linked::unpacked(&archive, linker, &running.folder)
}

/// The command by which cargo was started, which has started this program.
fn words_of_parent(parent: u32) -> Result<Vec<String>, String> {
    let path = format!("/proc/{parent}/cmdline");
    let words = fs::read(path).map_err(|error| format!("how cargo was called is not known: {error}"))?;
    Ok(words.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

/// Options of `cargo bench` that say how it compiles, with a value and without.
const WITH_VALUE: [&str; 7] = ["--features", "-F", "--profile", "--target", "--config", "--target-dir", "-Z"];
const ALONE: [&str; 5] = ["--all-features", "--no-default-features", "--locked", "--offline", "--frozen"];

/// What `cargo bench …` was told about compiling, for `cargo rustc`.
fn options(words: &[String]) -> Result<Vec<String>, String> {
    if !words.iter().any(|word| word == "bench") {
        return Err("it was not started by `cargo bench`".to_owned());
    }
    let (mut found, mut words) = (Vec::new(), words.iter().take_while(|word| *word != "--").skip(1));
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word.as_str()) {
            found.push(word.clone());
            found.extend(words.next().cloned());
        } else if ALONE.contains(&word.as_str())
            || WITH_VALUE.iter().any(|name| word.starts_with(&format!("{name}=")))
            || ["-F", "-Z"].iter().any(|name| word.starts_with(name) && word.len() > 2)
        {
            found.push(word.clone());
        }
    }
    if !found.iter().any(|word| word == "--profile" || word.starts_with("--profile=")) {
        found.extend(["--profile", "bench"].map(str::to_owned));
    }
    Ok(found)
}

/// The name of the program without cargo's hash.
fn crate_name(program: &Path) -> String {
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    name.rsplit_once('-').map_or(&*name, |(name, _)| name).to_owned()
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// The bench of this package whose program has this name.
fn target(metadata: &Value, manifest: &Path, name: &str) -> Option<String> {
    let mut packages = metadata["packages"].as_array()?.iter();
    let package =
        packages.find(|package| package["manifest_path"].as_str().map(Path::new) == Some(manifest))?;
    let benches = package["targets"].as_array()?.iter().filter(|target| target["kind"][0] == "bench");
    let mut names = benches.filter_map(|bench| bench["name"].as_str());
    names.find(|bench| bench.replace('-', "_") == name.replace('-', "_")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<String>, String> {
        options(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_cargo_was_told_about_compiling_is_told_again_and_nothing_else() {
        let words = "cargo bench -p mine --bench x --features a,b --no-default-features --target-dir=t -- box --quick";
        let kept = "--features a,b --no-default-features --target-dir=t --profile bench";
        assert_eq!(of(words).expect("a bench").join(" "), kept);
        let kept = "-Zbuild-dir-new-layout -Fa -Z unstable-options --profile bench";
        assert_eq!(
            of("cargo -Zbuild-dir-new-layout bench -Fa -Z unstable-options").expect("a bench").join(" "),
            kept
        );
        assert_eq!(of("cargo bench --profile lto").expect("a bench"), ["--profile", "lto"]);
        assert!(of("sh -c x").is_err());
    }

    #[test]
    fn a_program_is_found_among_the_benches_of_its_package() {
        let target_of = |kind, name| serde_json::json!({"kind": [kind], "name": name});
        let targets = [target_of("lib", "my_sum"), target_of("bench", "my-sum")];
        let metadata = serde_json::json!({"packages": [{"manifest_path": "m", "targets": targets}]});
        assert_eq!(target(&metadata, Path::new("m"), "my_sum").as_deref(), Some("my-sum"));
        assert_eq!(
            (target(&metadata, Path::new("m"), "sum"), target(&metadata, Path::new("n"), "my_sum")),
            (None, None)
        );
    }
}
