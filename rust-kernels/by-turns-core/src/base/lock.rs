//! Processes that write into one folder, one after the other.

use std::fs::File;
use std::path::Path;

/// Waits until no other process holds `folder`, and holds it until the result is dropped; `None` on a file system or a system
/// without such locks.
pub fn held(folder: &Path) -> Option<File> {
    let folder = File::open(folder).ok()?;
    locked(&folder, true)?.then_some(folder)
}

/// Locks what was opened until it is closed, also by the end of the process. False if another process holds it and `wait` is
/// not wished; `None` on a file system or a system without such locks.
pub fn locked(file: &File, wait: bool) -> Option<bool> {
    #[cfg(unix)]
    loop {
        use std::io::{Error, ErrorKind};
        use std::os::fd::AsRawFd;

        let how = if wait { libc::LOCK_EX } else { libc::LOCK_EX | libc::LOCK_NB };
        // SAFETY: `flock` takes any descriptor, and this one stays open meanwhile.
        if unsafe { libc::flock(file.as_raw_fd(), how) } == 0 {
            return Some(true);
        }
        match Error::last_os_error().kind() {
            ErrorKind::Interrupted => {}
            ErrorKind::WouldBlock => return Some(false),
            _ => return None,
        }
    }
    #[cfg(not(unix))]
    {
        let _ = (file, wait);
        None
    }
}
