//! The folder of a run, from its hidden beginning to its single appearance.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::base::error::Error;
use crate::base::profile::Profile;
use crate::provenance::repository;
use crate::store::info::RunInfo;

/// Names the folder into which an outer program collects several studies.
pub(crate) const PARTIAL: &str = "ASYNC_COST_PARTIAL";

/// A run that is being measured.
pub(crate) struct Run {
    root: PathBuf,
    /// Where its files are now.
    folder: PathBuf,
    /// True when the folder was given from outside, which renames it when all its studies are complete.
    given: bool,
    /// Held from reading run.json until the study is entered there.
    lock: Option<File>,
    pub(crate) info: RunInfo,
}

impl Run {
    /// Opens the folder named by `ASYNC_COST_PARTIAL`, or makes a fresh hidden one.
    pub(crate) fn open(profile: &Profile) -> Result<Self, Error> {
        let root = repository::root()?;
        let fresh = RunInfo::new(&root, profile);
        let Some(folder) = given_folder(&root)? else {
            let folder = hidden_folder(&root, &fresh)?;
            return Ok(Self { root, folder, given: false, lock: None, info: fresh });
        };
        let lock = locked(&folder);
        let mut begun = RunInfo::read(&folder.join("run.json"))?;
        if let Some(begun) = &mut begun {
            begun.agrees_with(&fresh)?;
            begun.note(&fresh);
        }
        Ok(Self { root, folder, given: true, lock, info: begun.unwrap_or(fresh) })
    }

    /// Lets other processes change run.json.
    pub(crate) fn unlock(&mut self) {
        self.lock = None;
    }

    /// A file of this run.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Replaces run.json with what is known now.
    pub(crate) fn save(&mut self) -> Result<(), Error> {
        self.info.update_end();
        self.info.write(&self.file("run.json"))
    }

    /// Reads run.json again, which other processes have written meanwhile.
    pub(crate) fn read_again(&mut self) -> Result<(), Error> {
        if let Some(info) = RunInfo::read(&self.file("run.json"))? {
            self.info = info;
        }
        Ok(())
    }

    /// Where its files are now.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The root of the repository.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The run's folder as seen from the root of the repository.
    pub(crate) fn relative_folder(&self) -> PathBuf {
        self.folder.strip_prefix(&self.root).unwrap_or(&self.folder).to_path_buf()
    }

    /// Whether it is whole and in its final place.
    pub(crate) fn is_published(&self) -> bool {
        !self.given && self.folder.ends_with(&self.info.run_id)
    }

    /// Lets a run of our own appear under its name, by one rename. A given folder stays where it is.
    pub(crate) fn publish(&mut self, profile: &Profile) -> Result<(), Error> {
        if self.given {
            return Ok(());
        }
        // A test's run stays among the hidden ones: it is no evidence.
        let runs = if profile.is_test() { "data/runs/.partial/test" } else { "data/runs" };
        let target = self.root.join(runs).join(&self.info.run_id);
        let machine = target.parent().unwrap_or(&self.root);
        fs::create_dir_all(machine).map_err(Error::io("create", machine))?;
        // Renaming replaces an empty folder at most, never a run that began in the same second.
        fs::rename(&self.folder, &target).map_err(Error::io("rename to", &target))?;
        self.folder = target;
        Ok(())
    }
}

/// The folder that the environment names, relative to the root of the repository unless absolute.
pub(crate) fn given_folder(root: &Path) -> Result<Option<PathBuf>, Error> {
    let Some(folder) = env::var_os(PARTIAL).filter(|folder| !folder.is_empty()) else {
        return Ok(None);
    };
    let folder = root.join(folder);
    if folder.is_dir() {
        Ok(Some(folder))
    } else {
        let reason = "it is not a folder; create it first, or unset the variable".to_owned();
        Err(Error::Setting { name: PARTIAL, reason })
    }
}

/// Waits until no other process changes what lies in `folder`, and keeps them from it until the result is dropped:
/// several studies are counted and prepared at the same time. `None` on a file system that cannot lock; measuring there
/// is still better than not to.
pub(crate) fn locked(folder: &Path) -> Option<File> {
    let folder = File::open(folder).ok()?;
    folder.lock().is_ok().then_some(folder)
}

fn hidden_folder(root: &Path, info: &RunInfo) -> Result<PathBuf, Error> {
    let name = format!("{}-{}", info.run_id.replace('/', "-"), std::process::id());
    let parent = root.join("data/runs/.partial");
    let folder = parent.join(name);
    fs::create_dir_all(&parent).map_err(Error::io("create", &parent))?;
    fs::create_dir(&folder).map_err(Error::io("create", &folder))?;
    Ok(folder)
}
