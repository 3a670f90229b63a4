//! The package of a side, as cargo knows it, and the tools that are called.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use by_turns_core::run::files::output;
use serde_json::Value;

/// A bench of a package.
#[derive(Clone, Debug, PartialEq)]
pub struct Bench {
    pub name: String,
    pub source: PathBuf,
}

impl Bench {
    pub fn uses_by_turns(&self) -> bool {
        fs::read_to_string(&self.source).is_ok_and(|text| text.contains("by_turns"))
    }
}

/// A package.
#[derive(Clone, Debug)]
pub struct Package {
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// The folder of its workspace, with the lock file.
    pub workspace: PathBuf,
    /// The folder that cargo builds in.
    pub target: PathBuf,
    pub benches: Vec<Bench>,
    /// As `cargo metadata` tells of them.
    pub dependencies: Vec<Value>,
}

impl Package {
    /// The package of this name, or else the one in the folder of that manifest, or else in this folder.
    ///
    /// # Errors
    /// Where cargo knows none.
    pub fn find(manifest: Option<&Path>, name: Option<&str>) -> Result<Self, String> {
        let mut command = cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        if let Some(manifest) = manifest {
            command.arg("--manifest-path").arg(manifest);
        }
        let text = output(&mut command)?;
        let json: Value = serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
        let here = match manifest {
            Some(manifest) => manifest.to_owned(),
            None => {
                PathBuf::from(output(cargo().args(["locate-project", "--message-format", "plain"]))?.trim())
            }
        };
        let here = here.canonicalize().unwrap_or(here);
        let wanted = |package: &&Value| match name {
            Some(name) => package["name"] == name,
            None => {
                let found = package["manifest_path"].as_str().map(PathBuf::from);
                found.and_then(|path| path.canonicalize().ok()).as_ref() == Some(&here)
            }
        };
        let package = json["packages"].as_array().and_then(|all| all.iter().find(wanted));
        let package = package.ok_or_else(|| match name {
            Some(name) => format!("there is no package {name}"),
            None => format!("{} is no package: say which one by -p", here.display()),
        })?;
        let path = |value: &Value| value.as_str().map(PathBuf::from);
        let found = || {
            let benches = package["targets"].as_array()?.iter().filter(|target| target["kind"][0] == "bench");
            let bench = |target: &Value| {
                Some(Bench { name: target["name"].as_str()?.to_owned(), source: path(&target["src_path"])? })
            };
            Some(Self {
                name: package["name"].as_str()?.to_owned(),
                folder: path(&package["manifest_path"])?.parent()?.to_owned(),
                workspace: path(&json["workspace_root"])?,
                target: path(&json["target_directory"])?,
                benches: benches.map(bench).collect::<Option<_>>()?,
                dependencies: package["dependencies"].as_array()?.clone(),
            })
        };
        found().ok_or_else(|| "cargo metadata is of another version".to_owned())
    }

    /// Whether it names that among its dependencies.
    pub fn depends_on(&self, name: &str) -> bool {
        self.dependencies.iter().any(|one| one["name"] == name)
    }

    pub fn manifest(&self) -> PathBuf {
        self.folder.join("Cargo.toml")
    }

    pub fn lock(&self) -> PathBuf {
        self.workspace.join("Cargo.lock")
    }
}

/// Why there is no base to compare with.
#[derive(Debug)]
pub enum Refused {
    /// It would be the same as today: how it is shown, and what is the same.
    OneSource {
        base: String,
        why: String,
    },
    Failed(String),
}

impl From<String> for Refused {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

/// Cargo, as it has started this program.
pub fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Git in a folder, without what a hook that started this program has set.
pub fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
        command.env_remove(name);
    }
    command
}
