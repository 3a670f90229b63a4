//! One trial, timed by Criterion.
//!
//! Criterion decides how often to iterate and collects the samples; its statistics are not used, because ten
//! samples of one trial say nothing without the other rounds. It has no switch for that, but it stops before
//! its analysis (a bootstrap and six files per trial) when a sample reads zero. So the measured time is kept
//! here and zero is handed over: its warm-up goes by its own clock and is not affected. Should another
//! version of Criterion analyse all the same, then a trial takes longer and leaves files in a temporary
//! folder, but the samples stay right.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode};

use crate::bencher::Sample;
use crate::profile::SAMPLES;
use crate::silence::Silence;

/// Criterion, set up for trials of a fixed length.
pub(crate) struct Engine {
    warm_up: Duration,
    trial: Duration,
    /// Where Criterion would write, were it to write.
    folder: PathBuf,
}

/// Resamples of Criterion's bootstrap, should it run: the least that it does not complain about.
const RESAMPLES: usize = 1_001;

impl Engine {
    /// Trials that last `trial` after a warm-up of at least `warm_up`.
    pub(crate) fn new(warm_up: Duration, trial: Duration) -> Self {
        let folder = std::env::temp_dir().join(format!("async-cost-criterion-{}", std::process::id()));
        Self { warm_up, trial, folder }
    }

    /// Runs one trial of `run`, which does the given number of iterations and returns the time they took.
    /// The samples are Criterion's last ten calls; those before them were its warm-up.
    pub(crate) fn trial(&self, run: &mut dyn FnMut(u64) -> Duration) -> Vec<Sample> {
        // Warm-up doubles its iterations from call to call: 64 calls at the very most.
        let mut calls = Vec::with_capacity(64 + SAMPLES);
        {
            // Declared first, dropped last: Criterion prints when its group is dropped, too.
            let _silence = Silence::new();
            let mut criterion = self.criterion();
            let mut group = criterion.benchmark_group("trial");
            group.sampling_mode(SamplingMode::Flat);
            group.bench_function("trial", |bencher| {
                bencher.iter_custom(|iterations| {
                    let elapsed = run(iterations);
                    calls.push(Sample { iterations, elapsed });
                    Duration::ZERO
                });
            });
        }
        let warm_up_calls = calls.len().saturating_sub(SAMPLES);
        calls.split_off(warm_up_calls)
    }

    /// A fresh Criterion for each trial, since one that is kept remembers every name it has seen. The first
    /// one asks cargo for its target folder, all others are cheap.
    fn criterion(&self) -> Criterion {
        Criterion::default()
            .without_plots()
            .output_directory(&self.folder)
            .sample_size(SAMPLES)
            .nresamples(RESAMPLES)
            .warm_up_time(self.warm_up)
            .measurement_time(self.trial)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Not there unless Criterion wrote something; what cannot be removed from a temporary folder may
        // stay.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The timed loop of every variant. Not inlined, so that it is the same machine code for all of them.
#[inline(never)]
pub(crate) fn timed(run: &mut dyn FnMut(), iterations: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..iterations {
        run();
    }
    start.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn engine() -> Engine {
        Engine::new(Duration::from_micros(100), Duration::from_micros(300))
    }

    #[test]
    fn a_trial_is_the_last_ten_calls_with_equal_iterations() {
        let mut calls = Vec::new();
        let samples = engine().trial(&mut |iterations| {
            calls.push(iterations);
            std::thread::sleep(Duration::from_micros(20));
            Duration::from_nanos(iterations)
        });
        assert_eq!(samples.len(), SAMPLES);
        let last: Vec<u64> = calls[calls.len() - SAMPLES..].to_vec();
        assert_eq!(samples.iter().map(|sample| sample.iterations).collect::<Vec<_>>(), last);
        assert!(last.iter().all(|iterations| *iterations == last[0]), "flat sampling");
        assert!(samples.iter().all(|sample| sample.elapsed.as_nanos() == u128::from(sample.iterations)));
    }

    #[test]
    fn criterion_writes_no_files() {
        let engine = engine();
        engine.trial(&mut |iterations| timed(&mut || (), iterations));
        assert!(!engine.folder.exists(), "Criterion analyses again: see the head of this file");
    }

    #[test]
    fn the_timed_loop_iterates_as_often_as_asked() {
        let mut runs = 0;
        timed(&mut || runs += 1, 1_000);
        assert_eq!(runs, 1_000);
    }
}
