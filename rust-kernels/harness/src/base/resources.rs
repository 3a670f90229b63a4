//! What the process used while a sample was taken, as the operating system counts it.

use std::collections::HashMap;
use std::fs;

use by_turns_core::base::sample::Sample;

/// What the operating system has counted for this process so far.
struct Usage {
    /// User and system time of all threads, in nanoseconds; the system counts in microseconds.
    cpu_ns: u64,
    /// How often a thread gave up its processor because it had to wait.
    voluntary_switches: u64,
    /// How often a thread's processor was taken away.
    involuntary_switches: u64,
}

/// Takes a sample and adds what this process used meanwhile: all its threads, also those that the variant did not
/// start, and everything that the call does outside of its timed region.
pub fn around(run: &mut dyn FnMut() -> Sample) -> Sample {
    let threads_before = thread_times();
    let before = Usage::now();
    let sample = run();
    let after = Usage::now();
    let busy = threads_before.zip(thread_times()).map(|(before, after)| busy_threads(&before, &after));
    // The system's counts never fall, but Linux may correct the two parts of the time against each other.
    let sample = sample
        .with("cpu_ns", after.cpu_ns.saturating_sub(before.cpu_ns))
        .with("voluntary_switches", after.voluntary_switches.saturating_sub(before.voluntary_switches))
        .with("involuntary_switches", after.involuntary_switches.saturating_sub(before.involuntary_switches));
    match busy {
        Some(busy) => sample.with("busy_threads", busy),
        None => sample,
    }
}

/// Nanoseconds that each thread of this process has run so far, by its number; `None` where the system does not say.
fn thread_times() -> Option<HashMap<u64, u64>> {
    let mut times = HashMap::new();
    for thread in fs::read_dir("/proc/self/task").ok()? {
        let path = thread.ok()?.path();
        // A thread may end while this looks at it.
        let Ok(text) = fs::read_to_string(path.join("schedstat")) else { continue };
        let number = path.file_name()?.to_str()?.parse().ok()?;
        times.insert(number, text.split(' ').next()?.parse().ok()?);
    }
    times.insert(calling_thread()?, own_time());
    Some(times)
}

/// The number of the calling thread.
fn calling_thread() -> Option<u64> {
    fs::read_link("/proc/thread-self").ok()?.file_name()?.to_str()?.parse().ok()
}

/// Nanoseconds that the calling thread has run so far: of a thread that runs, `schedstat` may be a clock tick late.
fn own_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` outlives the call, and every thread has this clock, so the call cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Threads that had at least a hundredth of what all of them ran meanwhile; those that have ended are not known.
fn busy_threads(before: &HashMap<u64, u64>, after: &HashMap<u64, u64>) -> u64 {
    let ran = |(number, time): (&u64, &u64)| time.saturating_sub(*before.get(number).unwrap_or(&0));
    let all: u64 = after.iter().map(ran).sum();
    after.iter().map(ran).filter(|time| *time > 0 && *time >= all / 100).count() as u64
}

impl Usage {
    fn now() -> Self {
        // SAFETY: all of its fields are numbers, for which zero is a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: `usage` outlives the call, and this process is always known, so the call cannot fail.
        unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
        Self {
            cpu_ns: ns(usage.ru_utime) + ns(usage.ru_stime),
            voluntary_switches: usage.ru_nvcsw as u64,
            involuntary_switches: usage.ru_nivcsw as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn who_ran_a_hundredth_was_busy() {
        let before = HashMap::from([(1, 500), (2, 10), (3, 7)]);
        let after = HashMap::from([(1, 1_490), (2, 20), (3, 7), (4, 9)]);
        assert_eq!(busy_threads(&before, &after), 2, "990, 10, 0 and 9 of 1009 nanoseconds");
        assert_eq!(busy_threads(&after, &after), 0);
    }

    /// It is the caller of `block_on`, or spins beside its workers.
    #[test]
    fn the_calling_thread_is_seen_while_it_runs() {
        let Some(before) = thread_times() else { return };
        let (own, start) = (calling_thread().expect("it is known"), own_time());
        while own_time() < start + 1_000_000 {}
        let after = thread_times().expect("it was known before");
        assert!(after[&own] - before[&own] >= 1_000_000);
    }

    #[test]
    fn a_sleep_is_a_voluntary_switch_and_all_are_there() {
        let sample = around(&mut || {
            std::thread::sleep(Duration::from_millis(1));
            Sample::new(1, Duration::from_millis(1)).with("p99_ns", 4)
        });
        let names: Vec<_> = sample.names().collect();
        assert_eq!(names[..4], ["p99_ns", "cpu_ns", "voluntary_switches", "involuntary_switches"]);
        assert!(sample.metrics[2].1 >= 1, "{sample:?}");
    }
}
