//! Work in a process of its own: what hangs there, crashes there or leaves threads behind there, ends with it.
//!
//! The process is a fork: it begins as a copy of this one, so the work may be any closure. A copy holds the calling
//! thread only. Hence a process that starts threads of its own must not fork any more: the copy would wait for
//! threads that it does not have, and a pool that this process has started would be a pool without workers there.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::base::proof::{Counts, UnequalWork, prove};
use by_turns_core::base::panics;
use by_turns_core::glance::Taken;
use by_turns_core::trial::bencher::TrialError;

/// Runs `work` in a forked child process and returns its result.
///
/// For what must not leave anything behind: threads that `work` starts,
/// pools of whole programs among them, end with the child. So does everything else that it changes, except for what
/// it returns. What it prints goes nowhere.
///
/// # Errors
/// A sentence without the name of the work: it did not end within `limit` and was killed, it was ended by a signal,
/// it left the process, it panicked (with its message), or there was no process to be had.
pub fn isolated<T: Serialize + DeserializeOwned>(
    limit: Duration,
    work: impl FnOnce() -> T,
) -> Result<T, String> {
    let (reader, writer) = pipe().map_err(|error| format!("no pipe for a process of its own: {error}"))?;
    // Installed before the fork: it must not be half done in the copy.
    let quiet = panics::SilencedPanics::begin();
    let parent = std::process::id();
    match fork() {
        Err(error) => Err(format!("no process of its own: {error}")),
        Ok(None) => {
            drop(reader);
            die_with(parent);
            detach();
            let result = catch_unwind(AssertUnwindSafe(work));
            send(writer, result.map_err(|payload| panics::message(payload.as_ref())))
        }
        Ok(Some(child)) => {
            drop((writer, quiet));
            let answer = receive(reader, Patience(limit));
            let end = child.end();
            match answer {
                Ok(answer) => serde_json::from_slice::<Result<T, String>>(&answer)
                    .unwrap_or_else(|error| Err(format!("its answer cannot be read: {error}"))),
                Err(Silent::Late) => Err(format!("did not end within {limit:?}; it was killed")),
                Err(Silent::Ended) => Err(end),
            }
        }
    }
}

/// Proves that `count`, run in a process of its own, sees what is `expected` in every iteration that it counts. Returns
/// the counts of the last one:
/// ```
/// # use std::time::Duration;
/// # use harness::{Counts, prove_isolated};
/// # fn spawn_and_join() -> u64 { 1_000 }
/// # const LIMIT: Duration = Duration::from_secs(60);
/// let expected = Counts::from([("joins", 1_000)]);
/// let twice = || [(), ()].map(|()| Counts::from([("joins", spawn_and_join())]));
/// let proof = prove_isolated("nio", LIMIT, &expected, twice);
/// assert_eq!(proof.unwrap()["joins"], 1_000);
/// ```
///
/// # Errors
/// As [`prove`]; also if nothing is counted, and if the process hangs or crashes, see [`isolated`].
pub fn prove_isolated<I: IntoIterator<Item = Counts>>(
    name: impl fmt::Display,
    limit: Duration,
    expected: &Counts,
    count: impl FnOnce() -> I,
) -> Result<BTreeMap<String, u64>, UnequalWork> {
    let named =
        |counts: Counts| counts.into_iter().map(|(counter, count)| (counter.to_owned(), count)).collect();
    let seen = isolated(limit, || count().into_iter().map(named).collect::<Vec<BTreeMap<String, u64>>>());
    let seen = seen.map_err(|end| format!("{name}: {end}"))?;
    for iteration in &seen {
        prove(&name, expected, iteration)?;
    }
    seen.into_iter().next_back().ok_or_else(|| format!("{name}: nothing was counted").into())
}

/// What takes each trial of a [`Glance`](by_turns_core::Glance) in a process of its own, which is ended when it takes
/// longer.
pub fn in_processes(limit: Duration) -> impl Fn(&dyn Fn() -> Taken) -> Taken {
    move |take| run_isolated(Some(limit), take)
}

/// Does work that calls a variant: with a limit, in a process of its own.
pub fn run_isolated<T: Serialize + DeserializeOwned>(
    limit: Option<Duration>,
    work: impl FnOnce() -> Result<T, TrialError>,
) -> Result<T, TrialError> {
    match limit {
        None => work(),
        Some(limit) => isolated(limit, work).unwrap_or_else(|end| Err(TrialError::Failed(end))),
    }
}

/// Threads of this process; `None` where the system does not tell.
pub fn threads() -> Option<usize> {
    Some(std::fs::read_dir("/proc/self/task").ok()?.count())
}

/// A pipe whose ends are closed in programs that are started meanwhile: a write end that stays open elsewhere would
/// hide the end of the child.
fn pipe() -> io::Result<(File, File)> {
    let (reader, writer) = io::pipe()?;
    Ok((File::from(OwnedFd::from(reader)), File::from(OwnedFd::from(writer))))
}

/// A child that was not waited for yet.
struct Child(libc::pid_t);

/// Splits this process in two: `None` in the child.
fn fork() -> io::Result<Option<Child>> {
    // Held over the fork by this thread, which is the one that goes on in the child: so no other thread's lock is
    // copied, and no half-written line that both would print.
    let (mut out, _error) = (io::stdout().lock(), io::stderr().lock());
    // A closed stream has nothing left to lose.
    let _ = out.flush();
    // SAFETY: the child goes on with this thread only. Memory is a copy, the allocator's locks are put in order by
    // the C library, the standard streams' locks are held here; other threads, which could hold further locks, are
    // what the caller has to refuse.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(Child(pid))),
    }
}

impl Child {
    /// Ends the child, if it still runs, and says how it came to its end.
    fn end(self) -> String {
        let mut status = 0;
        // SAFETY: the child was not waited for, so its id belongs to no other process; `status` outlives the calls.
        unsafe {
            // A child that has sent its answer, or is late, has nothing to do any more. A child that has ended by
            // itself keeps its own status.
            libc::kill(self.0, libc::SIGKILL);
            while libc::waitpid(self.0, &mut status, 0) < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
        if libc::WIFSIGNALED(status) {
            let signal = libc::WTERMSIG(status);
            format!("was ended by signal {signal}{}", name(signal))
        } else {
            format!("left its process with status {} before it was done", libc::WEXITSTATUS(status))
        }
    }
}

/// The signals that a crash raises.
fn name(signal: i32) -> &'static str {
    match signal {
        libc::SIGABRT => " (SIGABRT, an abort)",
        libc::SIGSEGV => " (SIGSEGV, an invalid address or a stack overflow)",
        libc::SIGBUS => " (SIGBUS, an invalid address)",
        libc::SIGILL => " (SIGILL, an invalid instruction)",
        libc::SIGKILL => " (SIGKILL, perhaps for lack of memory)",
        _ => "",
    }
}

/// Ends the child when its parent ends, and lets a crash leave no core file.
fn die_with(parent: u32) {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `none` is read during the call only.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &none) };
    #[cfg(target_os = "linux")]
    // SAFETY: this option takes a number and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
    // The parent may have ended before that.
    if std::os::unix::process::parent_id() != parent {
        leave();
    }
}

/// Closes the standard streams of the child: they belong to the parent, which may talk to a notebook kernel through
/// them.
fn detach() {
    // Where there is no /dev/null, the child prints next to its parent.
    let Ok(nowhere) = OpenOptions::new().read(true).write(true).open("/dev/null") else {
        return;
    };
    for stream in [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO] {
        // SAFETY: `nowhere` is open; dup2 replaces `stream` in one step and touches no memory.
        unsafe { libc::dup2(nowhere.as_raw_fd(), stream) };
    }
}

/// Sends the answer of the child, its length first, and ends it. Destructors and `atexit` functions belong to the
/// parent.
fn send<T: Serialize>(mut writer: File, result: Result<T, String>) -> ! {
    let answer = serde_json::to_vec(&result).unwrap_or_default();
    // A parent that is gone needs no answer.
    let _ = writer.write_all(&(answer.len() as u64).to_le_bytes()).and_then(|()| writer.write_all(&answer));
    leave()
}

fn leave() -> ! {
    // SAFETY: ends the process at once and touches no memory.
    unsafe { libc::_exit(0) }
}

/// Why there is no answer.
enum Silent {
    /// The child still runs.
    Late,
    /// It has closed the pipe by its end.
    Ended,
}

/// Waits for the whole answer.
///
/// The length is needed because a process that the child has forked may hold the pipe open for longer than the child
/// lives.
fn receive(mut reader: File, mut patience: Patience) -> Result<Vec<u8>, Silent> {
    let mut length = [0; 8];
    fill(&mut reader, &mut length, &mut patience)?;
    let mut answer = vec![0; u64::from_le_bytes(length) as usize];
    fill(&mut reader, &mut answer, &mut patience)?;
    Ok(answer)
}

fn fill(reader: &mut File, mut rest: &mut [u8], patience: &mut Patience) -> Result<(), Silent> {
    while !rest.is_empty() {
        if !patience.wait(|time| readable(reader, time)) {
            return Err(Silent::Late);
        }
        match reader.read(rest) {
            Ok(0) => return Err(Silent::Ended),
            Ok(length) => rest = &mut rest[length..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Err(Silent::Ended),
        }
    }
    Ok(())
}

/// The time for which is waited. What this process was stopped for does not count, since the child was stopped with it:
/// by Ctrl-Z, or because the whole machine was.
struct Patience(Duration);

impl Patience {
    /// A single wait is at most this long: seldom enough to disturb no measurement.
    const TICK: Duration = Duration::from_secs(1);
    /// How much longer than asked a wait may last on a busy machine. If it is more, this process was stopped meanwhile.
    const LATE: Duration = Duration::from_millis(250);

    /// Waits by `ready`, which is given a time and returns whether there is something; false when no time is left.
    fn wait(&mut self, mut ready: impl FnMut(Duration) -> bool) -> bool {
        while !self.0.is_zero() {
            let (asked, start) = (self.0.min(Self::TICK), Instant::now());
            let ready = ready(asked);
            let waited = start.elapsed();
            if waited < asked + Self::LATE {
                self.0 = self.0.saturating_sub(waited);
            }
            if ready {
                return true;
            }
        }
        false
    }
}

/// Waits until there is something to read, or the other end is closed; false if the time is over before.
pub fn readable(reader: &File, time: Duration) -> bool {
    // Rounded up, so that the last millisecond is not spent in a loop.
    let milliseconds = i32::try_from(time.as_millis() + 1).unwrap_or(i32::MAX);
    let mut poll = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: `poll` is one entry and outlives the call.
    unsafe { libc::poll(&mut poll, 1, milliseconds) > 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Far longer than anything here takes, but for what is meant to hang.
    const WATCHDOG: Duration = Duration::from_secs(60);

    #[test]
    fn a_result_larger_than_a_pipe_arrives_whole() {
        let numbers: Vec<u64> = (0..200_000).collect();
        assert_eq!(isolated(WATCHDOG, || numbers.clone()), Ok(numbers));
    }

    #[test]
    fn what_the_child_changes_stays_there() {
        let cell = std::cell::Cell::new(1);
        assert_eq!(isolated(WATCHDOG, || cell.replace(2)), Ok(1));
        assert_eq!(cell.get(), 1);
    }

    #[test]
    fn every_way_to_break_off_is_told_apart() {
        let broken = |limit, work: &dyn Fn()| isolated(limit, work).expect_err("it breaks off");
        assert_eq!(broken(WATCHDOG, &|| panic!("lost {}", 3)), "lost 3");
        assert!(broken(WATCHDOG, &|| std::process::abort()).contains("SIGABRT"));
        assert!(broken(WATCHDOG, &|| leave()).contains("status 0"));
        let hang = broken(Duration::from_millis(50), &|| loop {
            std::thread::park();
        });
        assert!(hang.contains("did not end within 50ms"), "{hang}");
    }

    #[test]
    fn a_wait_that_was_stopped_does_not_count() {
        let mut patience = Patience(Duration::from_millis(20));
        let mut asked = Vec::new();
        let ready = patience.wait(|time| {
            asked.push(time);
            // As long as the time and half a second more, as if stopped; then to its end.
            std::thread::sleep(if asked.len() == 1 { Duration::from_millis(520) } else { time });
            false
        });
        assert!(!ready);
        assert_eq!(asked.get(1), Some(&Duration::from_millis(20)), "the first wait has used nothing up");
    }

    #[test]
    fn threads_of_the_work_do_not_keep_the_child_alive() {
        let work = || {
            std::thread::spawn(|| {
                loop {
                    std::thread::park();
                }
            });
            7
        };
        assert_eq!(isolated(WATCHDOG, work), Ok(7));
    }

    #[test]
    fn a_grandchild_that_holds_the_pipe_does_not_delay_the_answer() {
        // SAFETY: the grandchild sleeps and ends, it touches nothing.
        let work = || unsafe {
            if libc::fork() == 0 {
                libc::sleep(5);
                libc::_exit(0);
            }
            7
        };
        assert_eq!(isolated(Duration::from_secs(4), work), Ok(7));
    }
}
