//! Processes that write into one folder, one after the other.

use std::fs::File;
use std::path::Path;

/// Waits until no other process holds `folder`, and holds it until the result is dropped; `None` on a file system or a system
/// without such locks.
pub fn held(folder: &Path) -> Option<File> {
    let folder = File::open(folder).ok()?;
    #[cfg(unix)]
    loop {
        use std::os::fd::AsRawFd;
        // SAFETY: `flock` takes any descriptor, and this one stays open meanwhile.
        if unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX) } == 0 {
            return Some(folder);
        }
        if std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            break;
        }
    }
    None
}
