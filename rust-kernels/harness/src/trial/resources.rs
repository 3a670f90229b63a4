//! What the process used while a sample was taken, as the operating system counts it.

use crate::base::sample::Sample;

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
pub(crate) fn around(run: &mut dyn FnMut() -> Sample) -> Sample {
    let before = Usage::now();
    let sample = run();
    let after = Usage::now();
    // The system's counts never fall, but Linux may correct the two parts of the time against each other.
    sample
        .with("cpu_ns", after.cpu_ns.saturating_sub(before.cpu_ns))
        .with("voluntary_switches", after.voluntary_switches.saturating_sub(before.voluntary_switches))
        .with("involuntary_switches", after.involuntary_switches.saturating_sub(before.involuntary_switches))
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
    fn a_sleep_is_a_voluntary_switch_and_all_three_are_there() {
        let sample = around(&mut || {
            std::thread::sleep(Duration::from_millis(1));
            Sample::new(1, Duration::from_millis(1)).with("p99_ns", 4)
        });
        let names: Vec<_> = sample.names().collect();
        assert_eq!(names, ["p99_ns", "cpu_ns", "voluntary_switches", "involuntary_switches"]);
        assert!(sample.metrics[2].1 >= 1, "{sample:?}");
    }
}
