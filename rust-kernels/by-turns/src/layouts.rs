//! A link order for each process. Where the linker puts a function changes its speed by some per cent, so each process
//! runs a copy of the program whose functions were linked in an order of its own.
//!
//! The bench has cargo compile it once more, with the options that cargo was called with, so that the linker keeps what
//! it links; from that a copy is linked in a fraction of a second. Only LLVM's linker can do this, which rustc brings along
//! and uses on x86-64 Linux.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Begins the names of copies.
const COPY: &str = "layout";

/// What the program was linked from.
pub struct Linked {
    /// The folder with the response file of the linker.
    parts: PathBuf,
    linker: PathBuf,
    /// Where copies are put.
    folder: PathBuf,
}

impl Linked {
    /// Has the linker keep in `folder` what this program is made of.
    ///
    /// # Errors
    /// Why there are no link orders.
    pub fn prepare(folder: &Path) -> Result<Self, String> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err("only on x86-64 Linux does rustc bring a linker along that can".to_owned());
        }
        let cargo = env::var_os("CARGO").ok_or("the program was not started by cargo")?;
        let manifest = env::var("CARGO_MANIFEST_DIR").map_err(|_| "the program was not started by cargo")?;
        let manifest = format!("{manifest}/Cargo.toml");
        let options = options(&words_of_parent()?)?;
        let metadata = output(Command::new(&cargo).args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--manifest-path",
            &manifest,
        ]))?;
        let bench = target(&serde_json::from_str(&metadata).unwrap_or_default(), &manifest, &crate_name()?)
            .ok_or("cargo does not know this program as a bench")?;
        let linker = linker().ok_or("rustc brings no linker of LLVM along")?;
        fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        let left = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
        for copy in left.filter(|entry| entry.file_name().to_string_lossy().starts_with(COPY)) {
            let _ = fs::remove_file(copy.path()); // of a bench that was killed
        }
        let (archive, parts) = (folder.join("linked.tar"), folder.join("linked"));
        let compiled = Command::new(&cargo)
            .args(["rustc", "--quiet", "--manifest-path", &manifest, "--bench", &bench])
            .args(options)
            .args(["--", "-C", &format!("link-arg=-Wl,--reproduce={}", archive.display())])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if !compiled.is_ok_and(|status| status.success()) || !archive.exists() {
            return Err("the linker cannot keep what it links".to_owned());
        }
        let _ = fs::remove_dir_all(&parts); // of another build
        fs::create_dir_all(&parts).map_err(|error| error.to_string())?;
        output(Command::new("tar").arg("-xf").arg(&archive).arg("-C").arg(&parts))?;
        let inner = fs::read_dir(&parts).ok().and_then(|mut entries| entries.next()?.ok());
        let parts = inner.ok_or("the linker has kept nothing")?.path();
        let linked = Self { parts, linker, folder: folder.to_path_buf() };
        fs::remove_file(linked.draw(1)?).map_err(|error| error.to_string())?;
        Ok(linked)
    }

    /// A copy of the program, linked in the order that `seed` draws.
    ///
    /// # Errors
    /// Why it could not be linked.
    pub fn draw(&self, seed: u32) -> Result<PathBuf, String> {
        let copy = self.folder.join(format!("{COPY}{seed}"));
        output(
            Command::new(&self.linker)
                .current_dir(&self.parts)
                .arg("@response.txt")
                .arg("-o")
                .arg(&copy)
                .arg(format!("--shuffle-sections=.text*={seed}")),
        )?;
        Ok(copy)
    }
}

/// What a program prints.
fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{name}: {}", said.lines().next().unwrap_or("failed")));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// The command by which cargo was started, which has started this program.
#[cfg(unix)]
fn words_of_parent() -> Result<Vec<String>, String> {
    let path = format!("/proc/{}/cmdline", std::os::unix::process::parent_id());
    let words = fs::read(path).map_err(|error| format!("how cargo was called is not known: {error}"))?;
    Ok(words.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect())
}

#[cfg(not(unix))]
fn words_of_parent() -> Result<Vec<String>, String> {
    Err("how cargo was called is not known".to_owned())
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
            || word.starts_with("-F") && word.len() > 2
        {
            found.push(word.clone());
        }
    }
    if !found.iter().any(|word| word == "--profile" || word.starts_with("--profile=")) {
        found.extend(["--profile", "bench"].map(str::to_owned));
    }
    Ok(found)
}

/// The name of this program without cargo's hash.
fn crate_name() -> Result<String, String> {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    Ok(name.rsplit_once('-').map_or(&*name, |(name, _)| name).to_owned())
}

/// The bench of this package whose program has this name.
fn target(metadata: &Value, manifest: &str, name: &str) -> Option<String> {
    let package =
        metadata["packages"].as_array()?.iter().find(|package| package["manifest_path"] == manifest)?;
    let benches = package["targets"].as_array()?.iter().filter(|target| target["kind"][0] == "bench");
    let mut names = benches.filter_map(|bench| bench["name"].as_str());
    names.find(|bench| bench.replace('-', "_") == name.replace('-', "_")).map(str::to_owned)
}

/// LLVM's linker, as rustc brings it along.
fn linker() -> Option<PathBuf> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let root = output(Command::new(rustc).args(["--print", "sysroot"])).ok()?;
    let hosts = fs::read_dir(Path::new(root.trim()).join("lib/rustlib")).ok()?;
    let places = hosts.filter_map(|host| Some(host.ok()?.path().join("bin/gcc-ld/ld.lld")));
    places.into_iter().find(|place| place.exists())
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
        assert_eq!(of("cargo bench --profile lto").expect("a bench"), ["--profile", "lto"]);
        assert!(of("sh -c x").is_err());
    }

    #[test]
    fn a_program_is_found_among_the_benches_of_its_package() {
        let target_of = |kind, name| serde_json::json!({"kind": [kind], "name": name});
        let targets = [target_of("lib", "my_sum"), target_of("bench", "my-sum")];
        let metadata = serde_json::json!({"packages": [{"manifest_path": "m", "targets": targets}]});
        assert_eq!(target(&metadata, "m", "my_sum").as_deref(), Some("my-sum"));
        assert_eq!((target(&metadata, "m", "sum"), target(&metadata, "n", "my_sum")), (None, None));
    }
}
