//! Where the program and its user stand: looked up when the first bench is made, before the program goes elsewhere.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use serde_json::Value;

use by_turns_core::run::files::{at, output};
use by_turns_core::run::process;

/// What is known from the start.
pub struct Places {
    /// The program.
    pub program: PathBuf,
    /// The folder in which it was started, which is that of the package.
    pub started_in: PathBuf,
    /// The folder in which its user called cargo.
    pub stands: PathBuf,
    /// The package, if cargo has started it.
    pub package: String,
    /// The process that has started it.
    pub parent: u32,
}

/// What was known when this was called first.
pub fn places() -> &'static Places {
    static PLACES: OnceLock<Places> = OnceLock::new();
    PLACES.get_or_init(|| {
        let variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let here = env::current_dir().unwrap_or_default();
        let package = variable("CARGO_MANIFEST_DIR");
        let by_cargo = package.is_some() && variable("CARGO").is_some();
        let parent = process::parent();
        let stands = stands(fs::read_link(format!("/proc/{parent}/cwd")).ok(), variable("PWD"));
        Places {
            program: env::current_exe().unwrap_or_default(),
            // The program may have left it already.
            started_in: package.filter(|_| by_cargo).unwrap_or_else(|| here.clone()),
            stands: stands.filter(|_| by_cargo).unwrap_or(here),
            package: env::var("CARGO_PKG_NAME").unwrap_or_default(),
            parent,
        }
    })
}

/// The folder of cargo's process, where the system tells it, or else that of the shell.
fn stands(of_cargo: Option<PathBuf>, of_shell: Option<PathBuf>) -> Option<PathBuf> {
    of_cargo.or(of_shell).filter(|folder| folder.is_absolute() && folder.is_dir())
}

impl Places {
    /// A path as the user has typed it.
    pub fn typed(&self, path: &Path) -> PathBuf {
        self.stands.join(path)
    }

    /// The folder that cargo builds in.
    ///
    /// # Errors
    /// Where there is none.
    pub fn target(&self) -> Result<PathBuf, String> {
        let built = self.program.ancestors().find(|folder| folder.ends_with("deps"));
        if let Some(target) = built.and_then(|deps| deps.parent()?.parent()) {
            return Ok(target.to_owned());
        }
        let told = metadata(self).ok().and_then(|told| told["target_directory"].as_str().map(PathBuf::from));
        let marked = || self.program.ancestors().find(|folder| folder.join("CACHEDIR.TAG").exists());
        told.or_else(|| marked().map(Path::to_owned)).ok_or_else(|| {
            format!("{}: cargo does not say in which folder it builds", self.program.display())
        })
    }

    /// The folder of all that a bench leaves: `by-turns/<package>/<bench>` in the folder that cargo builds in.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn folder(&self, bench: &str) -> Result<PathBuf, String> {
        let folder = self.target()?.join("by-turns").join(&self.package).join(bench);
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        Ok(folder)
    }
}

/// What cargo says of the package.
///
/// # Errors
/// Where the program was not started by cargo, or cargo fails.
pub fn metadata(places: &Places) -> Result<Value, String> {
    let cargo = env::var_os("CARGO").ok_or("the program was not started by cargo")?;
    let manifest = places.started_in.join("Cargo.toml");
    let mut command = Command::new(cargo);
    command.args(["metadata", "--no-deps", "--format-version", "1", "--manifest-path"]).arg(manifest);
    let text = output(command.current_dir(&places.stands))?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_the_user_is_that_of_cargo_or_of_the_shell() {
        let folder = |path: &str| Some(PathBuf::from(path));
        assert_eq!(stands(folder("/"), folder("/tmp")), folder("/"));
        assert_eq!(stands(None, folder("/tmp")), folder("/tmp"));
        assert_eq!(stands(None, folder("relative")), None);
        assert_eq!(stands(None, folder("/no/such/folder")), None);
    }

    #[test]
    fn paths_do_not_change_with_the_folder_of_the_program() {
        let places = Places {
            program: PathBuf::from("/w/target/release/deps/boxes-12"),
            started_in: PathBuf::from("/w/package"),
            stands: PathBuf::from("/w"),
            package: "package".to_owned(),
            parent: 1,
        };
        assert_eq!(places.typed(Path::new("base")), Path::new("/w/base"));
        assert_eq!(places.typed(Path::new("/tmp/base")), Path::new("/tmp/base"));
        assert_eq!(places.target().as_deref(), Ok(Path::new("/w/target")));
    }
}
