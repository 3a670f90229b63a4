//! The sources of a revision, in a worktree of git.

use std::fs;
use std::path::{Path, PathBuf};

use by_turns_core::run::files::output;

use crate::against::package::{Package, Refused, git};

/// The folder of the repository, if there is one.
pub fn top(today: &Package) -> Option<PathBuf> {
    let top = output(git(&today.folder).args(["rev-parse", "--show-toplevel"])).ok()?;
    Some(PathBuf::from(top.trim()))
}

/// Whether it is the name of a tag, such as `crate@1.2.3`.
pub fn is_tag(today: &Package, name: &str) -> bool {
    let mut tag = git(&today.folder);
    tag.args(["rev-parse", "--verify", "--quiet", "--end-of-options"]).arg(format!("refs/tags/{name}"));
    output(&mut tag).is_ok()
}

/// A worktree of the revision in `home`, and how it is shown. `parts` of the working tree count as no difference.
///
/// # Errors
/// Why there is none, and where nothing but these parts differs.
pub fn of(
    revision: &str,
    today: &Package,
    parts: &[PathBuf],
    home: &Path,
) -> Result<(PathBuf, String), Refused> {
    let top = top(today).ok_or_else(|| format!("{} is in no repository of git", today.folder.display()))?;
    let commit = output(
        git(&top)
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(format!("{revision}^{{commit}}")),
    )
    .map_err(|_| {
        let release = match today.depends_on(revision) {
            true => format!("; a release of the dependency is written {revision}@<version>"),
            false => String::new(),
        };
        format!("{revision} is no revision of {}{release}", top.display())
    })?;
    let commit = commit.trim();
    let short = &commit[..commit.len().min(12)];
    let shown = format!("{revision} ({short})");
    let mut differs = git(&top);
    differs.args(["diff", "--quiet", commit, "--", "."]);
    for part in parts {
        let part = part.strip_prefix(&top).unwrap_or(part).display().to_string();
        differs.arg(format!(":(exclude){part}"));
    }
    if differs.status().is_ok_and(|status| status.success()) {
        let why = "nothing but benches differs between the working tree and it".to_owned();
        return Err(Refused::OneSource { base: shown, why });
    }
    let folder = home.join(short);
    // Of this worktree alone: where its `.git` is broken, git would take the repository around it.
    let own = |words: &[&str]| {
        let mut command = git(&folder);
        command.arg("--git-dir").arg(folder.join(".git")).arg("--work-tree").arg(&folder);
        output(command.args(words)).ok()
    };
    let as_committed = || {
        let head = own(&["rev-parse", "HEAD"])?;
        own(&["reset", "-q", "--hard"])?;
        // What an earlier run has put there.
        own(&["clean", "-ffdxq"])?;
        (head.trim() == commit).then_some(())
    };
    if as_committed().is_none() {
        let _ = fs::remove_dir_all(&folder);
        // Twice: a worktree of this path may be known that has gone, and locked by a git that was killed.
        let mut add = git(&top);
        add.args(["worktree", "add", "-q", "--force", "--force", "--detach"]).arg(&folder).arg(commit);
        output(&mut add)?;
    }
    Ok((folder, shown))
}

/// Removes a worktree with all that is in it, or a folder that is none.
pub fn remove(today: &Package, folder: &Path) {
    let _ = output(git(&today.folder).args(["worktree", "remove", "--force", "--force"]).arg(folder));
    let _ = fs::remove_dir_all(folder);
}
