//! Whether this code runs in a notebook kernel, and in which.

use std::fs;
use std::path::Path;

/// The variable that the kernel sets for the process which runs the cells.
const KERNEL: &str = "EVCXR_IS_RUNTIME";

/// True in a cell of a notebook.
pub(crate) fn is_here() -> bool {
    std::env::var_os(KERNEL).is_some()
}

/// The process that waits for this measurement, if there is one: a kernel, or what has started this episode.
///
/// A kernel that is killed leaves the process with the cells behind, and that one would measure on, unseen, into a run
/// which the next command resumes.
pub(crate) struct ParentWatch {
    /// Its process id.
    parent: Option<u32>,
}

impl ParentWatch {
    /// Notes the parent of this process, in a notebook or where it is the `child` of a measurement.
    pub(crate) fn begin(child: bool) -> Self {
        Self { parent: (child || is_here()).then(std::os::unix::process::parent_id) }
    }

    /// True once that has died: an orphan gets another parent.
    pub(crate) fn parent_died(&self) -> bool {
        self.parent.is_some_and(|parent| parent != std::os::unix::process::parent_id())
    }
}

/// The kernel's version, from the list of the installer that put its program there: cargo or conda. The
/// kernel itself does not tell.
pub(crate) fn version() -> Option<String> {
    if !is_here() {
        return None;
    }
    let program = std::env::current_exe().ok()?;
    let prefix = program.parent()?.parent()?;
    installed_by_cargo(&fs::read_to_string(prefix.join(".crates.toml")).unwrap_or_default())
        .or_else(|| installed_by_conda(&prefix.join("conda-meta")))
}

/// Finds the version in a line such as `"evcxr_jupyter 0.22.0 (registry+...)" = [...]`.
fn installed_by_cargo(list: &str) -> Option<String> {
    let line = list.lines().find_map(|line| line.strip_prefix("\"evcxr_jupyter "))?;
    line.split(' ').next().map(str::to_owned)
}

/// Finds the version in a file name such as `evcxr-0.21.1-h1234567_0.json`.
fn installed_by_conda(folder: &Path) -> Option<String> {
    let names = fs::read_dir(folder).ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.into_iter().find_map(|name| conda_version(&name))
}

fn conda_version(file: &str) -> Option<String> {
    let version = file.strip_prefix("evcxr-")?.split('-').next()?;
    version.starts_with(|c: char| c.is_ascii_digit()).then(|| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_kernel_that_died_ends_the_wait() {
        let parent = std::os::unix::process::parent_id();
        let waiting = |parent| ParentWatch { parent }.parent_died();
        assert!(waiting(Some(parent + 1)), "another parent: the kernel is dead");
        assert!(!waiting(Some(parent)));
        assert!(!waiting(None), "outside of a notebook no process waits");
    }

    #[test]
    fn both_installers_are_understood() {
        let list = "[v1]\n\"evcxr_jupyter 0.22.0 (registry+somewhere)\" = [\"evcxr_jupyter\"]\n";
        assert_eq!(installed_by_cargo(list).as_deref(), Some("0.22.0"));
        assert_eq!(installed_by_cargo("[v1]\n"), None);
        assert_eq!(conda_version("evcxr-0.21.1-h1234567_0.json").as_deref(), Some("0.21.1"));
        assert_eq!(conda_version("evcxr-tools-1.0-0.json"), None);
    }
}
