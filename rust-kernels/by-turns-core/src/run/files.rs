//! Files and folders of a run, and the programs that it calls.

use std::collections::VecDeque;
use std::env;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::base::lock;
use crate::run::process;

/// An error of a file or folder, with its name and, where there is one, a remedy.
pub fn at(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| {
        let remedy = match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                "; you may not write there: set CARGO_TARGET_DIR to a folder of your own"
            }
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "; `cargo clean` makes room, or let CARGO_TARGET_DIR name a folder on another disk"
            }
            _ => "",
        };
        named(path)(error) + remedy
    }
}

/// An error of a file or folder, with its name.
pub fn named(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// The compiler of this toolchain.
pub fn rustc() -> Command {
    Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
}

/// What a program prints.
///
/// # Errors
/// The first line that it says of its failure.
pub fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = process::bound(command, None).stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("{name}: {error}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{name}: {}", said.lines().next().unwrap_or("failed")));
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// So many lines are kept of what a process says.
const LAST_LINES: usize = 60;

/// The last lines of what a process says, once it has said all.
pub fn last_lines(said: impl Read) -> String {
    let mut last = VecDeque::new();
    for line in BufReader::new(said).split(b'\n').map_while(Result::ok) {
        last.push_back(String::from_utf8_lossy(&line).into_owned());
        if last.len() > LAST_LINES {
            last.pop_front();
        }
    }
    last.make_contiguous().join("\n")
}

/// Begins the names of the folders that running benches use.
const RUNNING: &str = ".running-";
/// A file in such a folder, locked for as long as the bench runs.
const LOCK: &str = "lock";

/// A folder for files that are not needed any more when the bench ends. No other bench touches it.
pub struct Running {
    /// The folder.
    pub folder: PathBuf,
    _lock: File,
}

impl Running {
    /// In the folder of the bench, where it removes those of benches that were killed.
    ///
    /// # Errors
    /// Where it cannot be made.
    pub fn begin(place: &Path) -> Result<Self, String> {
        for left in fs::read_dir(place).map_err(at(place))?.filter_map(Result::ok) {
            if left.file_name().to_string_lossy().starts_with(RUNNING)
                && let Some(_lock) = abandoned(&left.path())
            {
                let _ = fs::remove_dir_all(left.path());
            }
        }
        let this = std::process::id();
        for number in 0_u32.. {
            let folder = place.join(format!("{RUNNING}{this}-{number}"));
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                made => made.map_err(at(&folder))?,
            }
            let path = folder.join(LOCK);
            let lock = File::create(&path).map_err(at(&path))?;
            // Another bench may have taken it for one that was killed, in between.
            if lock::locked(&lock, false) != Some(false) && path.exists() {
                return Ok(Self { folder, _lock: lock });
            }
        }
        unreachable!("there is a number that no folder has")
    }
}

/// The lock of a folder whose bench has ended: while it is held, no bench that begins takes the folder.
fn abandoned(folder: &Path) -> Option<File> {
    File::open(folder.join(LOCK)).ok().filter(|lock| lock::locked(lock, false) == Some(true))
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty folder of a test.
    fn empty(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("by-turns-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn what_runs_is_left_alone_and_what_was_killed_is_removed() {
        let place = empty("running");
        let killed = place.join(format!("{RUNNING}1-0"));
        fs::create_dir(&killed).expect("a folder");
        fs::write(killed.join(LOCK), "").expect("a file");
        let held = abandoned(&killed);
        assert!(held.is_some() && abandoned(&killed).is_none(), "one removes it");
        drop(held);
        fs::write(place.join("report.json"), "").expect("a file");
        let first = Running::begin(&place).expect("a folder");
        let second = Running::begin(&place).expect("another one");
        assert!(first.folder != second.folder && first.folder.exists() && !killed.exists());
        let kept = second.folder.clone();
        drop(first);
        assert!(kept.exists());
        drop(second);
        let left: Vec<_> =
            fs::read_dir(&place).expect("a folder").flatten().map(|file| file.file_name()).collect();
        assert_eq!(left, ["report.json"]);
        fs::remove_dir_all(place).expect("it is there");
    }

    #[test]
    fn errors_of_files_name_the_path_and_a_remedy() {
        let said = |kind: ErrorKind| at(Path::new("/w/target"))(kind.into());
        assert!(
            said(ErrorKind::PermissionDenied)
                .starts_with("/w/target: permission denied; you may not write there")
        );
        assert!(said(ErrorKind::ReadOnlyFilesystem).contains("CARGO_TARGET_DIR"));
        assert!(said(ErrorKind::StorageFull).contains("cargo clean"));
        let place = empty("error");
        fs::write(place.join("by-turns"), "").expect("a file");
        let wrong = Running::begin(&place.join("by-turns")).err().expect("it is no folder");
        assert!(wrong.starts_with(&place.join("by-turns").display().to_string()), "{wrong}");
        fs::remove_dir_all(place).expect("it is there");
    }
}
