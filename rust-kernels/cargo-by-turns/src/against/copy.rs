//! Copies of sources.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use by_turns_core::run::files::{at, output};

use crate::against::package::{Package, git};
use crate::against::worktree::top;

/// Today's sources, all that git knows or does not ignore, in a new folder in place of that one, which is returned.
///
/// # Errors
/// Where there is no repository, and of the file system.
pub fn tree(today: &Package, folder: &Path) -> Result<PathBuf, String> {
    let top = top(today).ok_or_else(|| {
        format!("{} is in no repository of git, which says which files to copy", today.folder.display())
    })?;
    let _ = fs::remove_dir_all(folder);
    let list = output(git(&top).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
    for file in list.split('\0').filter(|file| !file.is_empty()) {
        let from = top.join(file);
        if !from.is_dir() || from.is_symlink() {
            all(&from, &folder.join(file))?;
        }
    }
    Ok(folder.to_owned())
}

/// Copies a file, or a folder with all that is in it. A symbolic link stays one: what it leads to may hold this folder.
///
/// # Errors
/// Of the file system.
pub fn all(from: &Path, to: &Path) -> Result<(), String> {
    let kind = match from.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()), // git has it, and the working tree not
        kind => kind.map_err(at(from))?.file_type(),
    };
    if kind.is_dir() {
        for entry in fs::read_dir(from).map_err(at(from))?.filter_map(Result::ok) {
            all(&entry.path(), &to.join(entry.file_name()))?;
        }
        return Ok(());
    }
    let copied = || {
        fs::create_dir_all(to.parent().unwrap_or(to))?;
        // Not into what is there: it may be a link to elsewhere, or not be writable.
        match fs::remove_file(to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        if kind.is_symlink() {
            return symlink(fs::read_link(from)?, to);
        }
        fs::copy(from, to)?;
        // As old as the file, so that cargo compiles nothing anew because of it.
        fs::File::open(to)?.set_modified(fs::metadata(from)?.modified()?)
    };
    if kind.is_file() || kind.is_symlink() { copied().map_err(at(to)) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stay_links_and_nothing_is_written_through_one() {
        let place = std::env::temp_dir().join(format!("by-turns-copy-{}", std::process::id()));
        let _ = fs::remove_dir_all(&place);
        let [from, to] = ["from", "to"].map(|name| place.join(name));
        fs::create_dir_all(from.join("benches/own")).expect("a folder");
        fs::create_dir_all(to.join("own")).expect("a folder");
        symlink("..", from.join("benches/root")).expect("a link");
        fs::write(from.join("benches/own/main.rs"), "today").expect("a file");
        fs::write(place.join("elsewhere"), "mine").expect("a file");
        symlink(place.join("elsewhere"), to.join("own/main.rs")).expect("a link");
        let read_only = |path: &Path| {
            let mut rights = fs::metadata(path).expect("a file").permissions();
            rights.set_readonly(true);
            fs::set_permissions(path, rights).expect("ours");
        };
        read_only(&from.join("benches/own/main.rs"));
        for _ in 0..2 {
            all(&from.join("benches"), &to).expect("copied");
        }
        assert_eq!(fs::read_link(to.join("root")).expect("a link"), Path::new(".."));
        assert_eq!(fs::read_to_string(to.join("own/main.rs")).expect("a file"), "today");
        assert_eq!(fs::read_to_string(place.join("elsewhere")).expect("a file"), "mine");
        let changed = |path: PathBuf| fs::metadata(path).and_then(|data| data.modified()).expect("a time");
        assert_eq!(changed(to.join("own/main.rs")), changed(from.join("benches/own/main.rs")));
        fs::remove_dir_all(place).expect("ours");
    }
}
