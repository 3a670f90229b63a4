//! Samples that are taken while no other work uses the processor core.
//!
//! A virtual processor is often one of two hardware threads of a core, and what the other one runs takes up to half of
//! the core's throughput: not of all code alike. On a rented machine with two cores, trials of one thread ran in one of
//! two states, each for 5 to 20 ms, and a ratio of two variants was 2.6 in the one and 2.2 in the other. The share of
//! either state differs from minute to minute, so the median over both moved by a tenth between runs; taken in the
//! undisturbed state it moved by a hundredth.
//!
//! So a short computation is timed before and after each sample. When it takes longer than the least that it took
//! before, the sample is taken again, for a limited time. What a sample itself took plays no part in this, so slow
//! samples of a variant are as welcome as fast ones.
//!
//! Neither computation sees that the scheduler gave the core to another thread in between, for 8 to 25 ms where two programs
//! share it. The system counts that, so such a sample is taken again as well: it tells of another program's time slice.

use std::cell::Cell;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Steps of the computation: about 10 µs.
const STEPS: u64 = 10_000;
/// How much longer than its least time the computation may take. Clock frequencies differ by less, another hardware
/// thread slows it down by more: on an AMD EPYC by 1.15 and by 1.3 to 2.
const SLACK: f64 = 1.22;
/// How much of its least time is forgotten with each computation, so that a machine that became slower for good counts
/// as undisturbed again: after a quarter of a second of nothing else.
const FORGOTTEN: f64 = 1e-5;
/// The time that interrupted samples may take together until the last of them counts as it is: some time slices of another
/// program. They do not try the patience, which one would end; and to samples as long as this an interruption means little.
const INTERRUPTED: Duration = Duration::from_millis(100);
/// Computations from which the first least time is taken.
const FIRST: u32 = 100;

/// What samples met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbance {
    /// Samples that were to wait for an undisturbed core.
    pub samples: u64,
    /// Those among them that were taken more than once.
    pub again: u64,
    /// Those that were kept although the core was disturbed.
    pub disturbed: u64,
}

thread_local! {
    /// The least time so far, in seconds.
    static LEAST: Cell<Option<f64>> = const { Cell::new(None) };
    static DISTURBANCE: Cell<Disturbance> = const { Cell::new(Disturbance { samples: 0, again: 0, disturbed: 0 }) };
}

/// What the samples of this thread have met since the last call.
pub fn take_disturbance() -> Disturbance {
    DISTURBANCE.take()
}

/// What `sample` returns, called again until the core was undisturbed before and after the call and the thread had it all the
/// time, or `patience` is over.
pub fn sample<T>(patience: Duration, sample: impl FnMut() -> T) -> T {
    taken_while(is_undisturbed, interruptions, patience, sample)
}

/// How often this thread had to leave its core to another one; 0 where the system does not tell.
fn interruptions() -> i64 {
    #[cfg(all(feature = "bench", target_os = "linux"))]
    {
        let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: getrusage writes all of a `rusage` where it returns 0, and touches nothing else.
        unsafe {
            if libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) == 0 {
                return usage.assume_init().ru_nivcsw;
            }
        }
    }
    0
}

fn taken_while<T>(
    mut undisturbed: impl FnMut() -> bool,
    mut interruptions: impl FnMut() -> i64,
    patience: Duration,
    mut sample: impl FnMut() -> T,
) -> T {
    let (mut start, mut times, mut lost) = (Instant::now(), 0, Duration::ZERO);
    loop {
        let before = loop {
            let now = undisturbed();
            if now || start.elapsed() >= patience {
                break now;
            }
        };
        let (begun, so_far) = (Instant::now(), interruptions());
        let taken = sample();
        times += 1;
        let interrupted = interruptions() > so_far;
        let took = begun.elapsed();
        if interrupted && lost + took < INTERRUPTED {
            (start, lost) = (start + took, lost + took);
            continue;
        }
        let after = undisturbed() && !interrupted;
        if after || start.elapsed() >= patience {
            let Disturbance { samples, again, disturbed } = DISTURBANCE.get();
            DISTURBANCE.set(Disturbance {
                samples: samples + 1,
                again: again + u64::from(times > 1),
                disturbed: disturbed + u64::from(!before || !after),
            });
            return taken;
        }
    }
}

/// Whether the core is undisturbed now. What is known of its speed goes on in a process that is forked.
pub fn is_undisturbed() -> bool {
    let least = LEAST.get().unwrap_or_else(|| (0..FIRST).map(|_| probe()).fold(f64::INFINITY, f64::min));
    judged(least, probe())
}

fn judged(least: f64, now: f64) -> bool {
    LEAST.set(Some((least * (1.0 + FORGOTTEN)).min(now)));
    now <= least * SLACK
}

/// Times, in seconds, a computation in registers that keeps several of the core's units busy, as another hardware
/// thread would, and leaves caches alone.
fn probe() -> f64 {
    let start = Instant::now();
    black_box(compute(black_box(STEPS)));
    start.elapsed().as_secs_f64()
}

#[inline(never)]
fn compute(steps: u64) -> u64 {
    let (mut a, mut b, mut c, mut d) = (1_u64, 2_u64, 3_u64, 4_u64);
    for step in 0..steps {
        a = a.wrapping_mul(3).wrapping_add(step);
        b = (b ^ step).rotate_left(5);
        c = c.wrapping_add(b | 1);
        d ^= a.wrapping_add(c);
    }
    a ^ b ^ c ^ d
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a sample is taken on a core that is, one after the other, disturbed (`-`) or not (`+`).
    fn calls(states: &str, patience: Duration) -> u32 {
        let (mut states, mut calls) = (states.chars(), 0);
        let state = || states.next().expect("no more questions than that") == '+';
        taken_while(state, || 0, patience, || calls += 1);
        assert_eq!(states.next(), None, "as many questions");
        calls
    }

    #[test]
    fn a_sample_is_taken_again_when_the_core_was_disturbed_after_it() {
        let patience = Duration::from_secs(3600);
        assert_eq!(calls("++", patience), 1);
        assert_eq!(calls("--++", patience), 1);
        assert_eq!(calls("+-++", patience), 2);
        assert_eq!(calls("+---+-++", patience), 3);
        assert_eq!(take_disturbance(), Disturbance { samples: 4, again: 2, disturbed: 0 });
    }

    #[test]
    fn a_sample_is_taken_again_when_the_thread_was_interrupted() {
        let calls = |interrupted: u32, took: Duration| {
            let (mut calls, so_far) = (0, Cell::new(0));
            let sample = || {
                calls += 1;
                so_far.set(so_far.get() + i64::from(calls <= interrupted));
                std::thread::sleep(took);
            };
            take_disturbance();
            taken_while(|| true, || so_far.get(), took / 2, sample);
            (calls, take_disturbance().disturbed)
        };
        let short = Duration::from_millis(1);
        assert_eq!(calls(0, short), (1, 0));
        assert_eq!(calls(3, short), (4, 0), "what they took does not try the patience");
        let (all, disturbed) = calls(u32::MAX, short);
        assert!(all > 1 && disturbed == 1, "and then it counts as it is: {all} calls, {disturbed} disturbed");
        assert_eq!(calls(u32::MAX, INTERRUPTED), (1, 1), "a long one counts at once");
    }

    #[test]
    fn a_disturbed_core_is_waited_for_no_longer_than_allowed() {
        assert_eq!(calls("--", Duration::ZERO), 1);
        assert_eq!(take_disturbance(), Disturbance { samples: 1, again: 0, disturbed: 1 });
    }

    #[test]
    fn a_core_that_became_slower_for_good_is_undisturbed_again() {
        let answers: Vec<bool> = (0..100_000).map(|_| judged(LEAST.get().unwrap_or(1e-5), 1.6e-5)).collect();
        let first = answers.iter().position(|undisturbed| *undisturbed).expect("in the end");
        assert!((20_000..40_000).contains(&first), "after a quarter of a second: {first}");
        assert!(judged(1e-5, 1.2e-5) && !judged(1e-5, 1.3e-5), "a clock frequency, another hardware thread");
    }

    #[test]
    fn what_is_computed_takes_time() {
        assert!(probe() > 1e-7);
    }
}
