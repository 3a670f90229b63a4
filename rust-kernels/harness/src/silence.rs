//! Keeps Criterion's printing away from the reader.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// While this lives, whatever the process prints goes nowhere.
///
/// Criterion offers no way to be quiet, so the standard streams are redirected around each trial, as in a
/// shell. Threads that a variant started are silenced with it. Without effect on systems other than Unix, and
/// when a stream cannot be redirected.
pub(crate) struct Silence {
    #[cfg(unix)]
    saved: Vec<unix::Saved>,
    /// One at a time: two that overlap would save each other's silence. Two trials at a time would disturb
    /// each other anyway. None in a process that is silent for good.
    _alone: Option<MutexGuard<'static, ()>>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Silence {
    #[cfg(unix)]
    pub(crate) fn new() -> Self {
        if FOR_GOOD.load(Ordering::Relaxed) {
            return Self { saved: Vec::new(), _alone: None };
        }
        let _alone = Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner));
        unix::flush();
        Self { saved: unix::redirect(), _alone }
    }

    #[cfg(not(unix))]
    pub(crate) fn new() -> Self {
        Self { _alone: Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner)) }
    }
}

/// True in a child process that was silenced by [`for_good`].
static FOR_GOOD: AtomicBool = AtomicBool::new(false);

/// Silences this process, a child that was just forked, until its end, and closes its input: both belong to the
/// parent, which may talk to a notebook kernel through them.
#[cfg(unix)]
pub(crate) fn for_good() {
    // Not restored, and without the lock, which another thread of the parent may have held.
    unix::detach();
    FOR_GOOD.store(true, Ordering::Relaxed);
}

impl Drop for Silence {
    fn drop(&mut self) {
        #[cfg(unix)]
        {
            // Rust buffers the last unfinished line of standard output: it must go where it belongs.
            unix::flush();
            for saved in self.saved.drain(..) {
                unix::restore(saved);
            }
        }
    }
}

#[cfg(unix)]
mod unix {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

    /// A stream and a copy of where it went.
    pub(super) struct Saved {
        stream: RawFd,
        target: OwnedFd,
    }

    pub(super) fn flush() {
        // A closed stream has nothing left to lose.
        let _ = std::io::stdout().flush();
    }

    pub(super) fn redirect() -> Vec<Saved> {
        let Ok(nowhere) = OpenOptions::new().write(true).open("/dev/null") else {
            return Vec::new();
        };
        [libc::STDOUT_FILENO, libc::STDERR_FILENO]
            .into_iter()
            .filter_map(|stream| save(stream, nowhere.as_raw_fd()))
            .collect()
    }

    pub(super) fn detach() {
        let Ok(nowhere) = OpenOptions::new().read(true).write(true).open("/dev/null") else {
            return;
        };
        for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
            // SAFETY: `nowhere` is open; dup2 replaces `stream` in one step and touches no memory.
            unsafe { libc::dup2(nowhere.as_raw_fd(), stream) };
        }
    }

    fn save(stream: RawFd, nowhere: RawFd) -> Option<Saved> {
        // SAFETY: duplicating a descriptor touches no memory; a closed one is reported by -1. The copy is
        // closed in programs that the process may start meanwhile.
        let copy = unsafe { libc::fcntl(stream, libc::F_DUPFD_CLOEXEC, 0) };
        if copy < 0 {
            return None;
        }
        // SAFETY: fcntl has just made this descriptor, so nobody else owns it.
        let target = unsafe { OwnedFd::from_raw_fd(copy) };
        // SAFETY: both descriptors are open (`nowhere` by the caller, `stream` since it could be copied);
        // dup2 replaces `stream` in one step, so that no other thread can see it closed.
        let replaced = unsafe { libc::dup2(nowhere, stream) };
        (replaced >= 0).then_some(Saved { stream, target })
    }

    pub(super) fn restore(saved: Saved) {
        // SAFETY: `target` is owned by `saved` and open until the end of this function. Failing would leave
        // the stream silent, which is no reason to lose a measurement.
        unsafe { libc::dup2(saved.target.as_raw_fd(), saved.stream) };
    }
}
