//! What is asked of the operating system about processes. Elsewhere than on Unix, nothing is.

use std::process::Command;

use crate::base::child;

/// What a signal asked for while [`Caught`] lived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(unix), allow(dead_code))]
pub enum Asked {
    /// Ctrl-C.
    Interrupt,
    /// To end at once.
    Terminate,
}

impl Asked {
    /// The exit status of a program that it has ended.
    pub fn status(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

#[cfg(unix)]
mod unix {
    use std::io;
    use std::os::unix::process::{CommandExt, parent_id};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    static INTERRUPTED: AtomicBool = AtomicBool::new(false);
    static TERMINATED: AtomicBool = AtomicBool::new(false);

    extern "C" fn interrupted(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::SeqCst);
    }

    extern "C" fn terminated(_: libc::c_int) {
        TERMINATED.store(true, Ordering::SeqCst);
    }

    /// While it lives, SIGINT and SIGTERM are noted instead of ending the process, unless they were ignored. A second SIGINT ends
    /// it.
    pub struct Caught([libc::sigaction; 2]);

    impl Caught {
        /// From now on.
        pub fn begin() -> Self {
            // A group that is terminated gets SIGTERM twice: also when cargo ends.
            let handlers: [(libc::c_int, extern "C" fn(libc::c_int), libc::c_int); 2] =
                [(libc::SIGINT, interrupted, libc::SA_RESETHAND), (libc::SIGTERM, terminated, 0)];
            Self(handlers.map(|(signal, handler, flags)| {
                // SAFETY: both structures are plain data for which zeros are valid, and outlive the calls; the handlers
                // store into atomics and do nothing else.
                unsafe {
                    let (mut new, mut old): (libc::sigaction, libc::sigaction) =
                        (std::mem::zeroed(), std::mem::zeroed());
                    new.sa_sigaction = handler as *const () as usize;
                    new.sa_flags = libc::SA_RESTART | flags;
                    libc::sigemptyset(&mut new.sa_mask);
                    libc::sigaction(signal, std::ptr::null(), &mut old);
                    if old.sa_sigaction != libc::SIG_IGN {
                        libc::sigaction(signal, &new, std::ptr::null_mut());
                    }
                    old
                }
            }))
        }

        /// Ctrl-C ends cargo as well, whose end then terminates this process: so an interrupt comes first.
        pub fn asked(&self) -> Option<Asked> {
            if INTERRUPTED.load(Ordering::SeqCst) {
                Some(Asked::Interrupt)
            } else {
                TERMINATED.load(Ordering::SeqCst).then_some(Asked::Terminate)
            }
        }
    }

    impl Drop for Caught {
        fn drop(&mut self) {
            for (signal, old) in [libc::SIGINT, libc::SIGTERM].into_iter().zip(&self.0) {
                // SAFETY: `old` is what sigaction has written.
                unsafe { libc::sigaction(signal, old, std::ptr::null_mut()) };
            }
        }
    }

    /// Ends this process with cargo, if `parent` is that.
    pub fn end_with_cargo(parent: u32) {
        if std::env::var_os("CARGO").is_some() && !child::end_with_parent(parent, libc::SIGTERM) {
            std::process::exit(128 + libc::SIGTERM);
        }
    }

    /// The process that has started this one.
    pub fn parent() -> u32 {
        parent_id()
    }

    /// What the command starts ends with this process, and runs on one core if so asked.
    pub fn bound(command: &mut Command, pin: Option<usize>) -> &mut Command {
        child::bound(command);
        // SAFETY: between fork and exec it makes system calls only, and allocates nothing.
        unsafe { command.pre_exec(move || pin.map_or(Ok(()), run_on)) }
    }

    #[cfg(target_os = "linux")]
    fn run_on(core: usize) -> io::Result<()> {
        if core >= libc::CPU_SETSIZE as usize {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        // SAFETY: zeros are the empty set; `core` lies within it; it outlives the call.
        let set = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(core, &mut set);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
        };
        if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    #[cfg(not(target_os = "linux"))]
    fn run_on(_: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(not(unix))]
#[allow(missing_docs)] // it is the same elsewhere
mod elsewhere {
    use super::*;

    pub struct Caught;

    impl Caught {
        pub fn begin() -> Self {
            Self
        }

        pub fn asked(&self) -> Option<Asked> {
            None
        }
    }

    pub fn end_with_cargo(_: u32) {}

    pub fn parent() -> u32 {
        0
    }

    pub fn bound(command: &mut Command, _: Option<usize>) -> &mut Command {
        command
    }
}

#[cfg(not(unix))]
pub use elsewhere::*;
#[cfg(unix)]
pub use unix::*;

/// Why a process cannot be kept on that core here.
pub fn no_pin(pin: Option<usize>) -> Result<(), String> {
    match pin {
        Some(_) if !cfg!(target_os = "linux") => {
            Err("--pin: only Linux keeps a process on a core".to_owned())
        }
        _ => Ok(()),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_on_the_core_that_is_asked_for() {
        let mut allowed = Command::new("grep");
        allowed.args(["Cpus_allowed_list", "/proc/self/status"]);
        let core = {
            let of_this = std::fs::read_to_string("/proc/self/status").expect("Linux");
            let list =
                of_this.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("a list");
            list.trim().split([',', '-']).next_back().expect("a core").parse::<usize>().expect("a number")
        };
        let said = bound(&mut allowed, Some(core)).output().expect("it runs");
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        assert_eq!(said.split_whitespace().last(), Some(core.to_string().as_str()));
        for nowhere in [1023, 100_000] {
            assert!(bound(&mut Command::new("true"), Some(nowhere)).status().is_err(), "{nowhere}");
        }
    }

    #[test]
    fn signals_are_noted_and_an_interrupt_comes_first() {
        // SAFETY: to ignore it, and to do what is done by default.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
        let ignoring = Caught::begin();
        // SAFETY: it is ignored.
        unsafe { libc::raise(libc::SIGINT) };
        assert_eq!(ignoring.asked(), None);
        drop(ignoring);
        // SAFETY: as above.
        unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        let caught = Caught::begin();
        assert_eq!(caught.asked(), None);
        // SAFETY: both are caught.
        unsafe { libc::raise(libc::SIGTERM) };
        assert_eq!(caught.asked(), Some(Asked::Terminate));
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGINT) };
        assert_eq!(caught.asked(), Some(Asked::Interrupt));
        // SAFETY: as above.
        let next = unsafe { libc::signal(libc::SIGINT, libc::SIG_DFL) };
        assert_eq!(next, libc::SIG_DFL, "a second one ends it");
    }
}
