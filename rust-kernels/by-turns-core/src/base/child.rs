//! Processes that do not outlive the one that has started them.

use std::process::Command;

/// Has the system send `signal` to this process when its parent ends. False if that has ended already.
#[cfg(unix)]
pub fn end_with_parent(parent: u32, signal: libc::c_int) -> bool {
    #[cfg(target_os = "linux")]
    // SAFETY: this option takes a number and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, signal as libc::c_ulong);
    }
    let _ = signal;
    std::os::unix::process::parent_id() == parent
}

/// What the command starts ends with this process: on Linux with the thread that starts it.
pub fn bound(command: &mut Command) -> &mut Command {
    #[cfg(unix)]
    {
        use std::io::ErrorKind;
        use std::os::unix::process::CommandExt;

        let this = std::process::id();
        // SAFETY: between fork and exec it makes system calls only, and allocates nothing.
        unsafe {
            command.pre_exec(move || match end_with_parent(this, libc::SIGKILL) {
                true => Ok(()),
                false => Err(ErrorKind::BrokenPipe.into()),
            });
        }
    }
    command
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn what_is_bound_ends_with_the_thread_that_started_it() {
        let start = || bound(Command::new("sleep").arg("60")).spawn().expect("a process");
        let mut child = std::thread::spawn(start).join().expect("no panic");
        assert_eq!(child.wait().expect("it ends").signal(), Some(libc::SIGKILL));
    }
}
