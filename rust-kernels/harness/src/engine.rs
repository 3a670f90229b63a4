//! One trial, timed by Criterion, or by a plain loop where fewer samples are wanted than Criterion takes.
//!
//! Criterion decides how often to iterate and collects the samples; its statistics are not used, because ten
//! samples of one trial say nothing without the other rounds. It has no switch for that, but it stops before
//! its analysis (a bootstrap and six files per trial) when a sample reads zero. So the measured time is kept
//! here and zero is handed over: its warm-up goes by its own clock and is not affected. Should another
//! version of Criterion analyse all the same, then a trial takes longer and leaves files in a temporary
//! folder, but the samples stay right.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode};

use crate::bencher::Sample;
use crate::profile::SAMPLES;
use crate::resources;
use crate::silence::Silence;

/// A trial of one variant.
pub(crate) struct Trial {
    pub(crate) engine: Rc<Engine>,
    pub(crate) samples: usize,
    /// Whether each sample says what the process used meanwhile.
    pub(crate) resources: bool,
}

impl Trial {
    /// Samples of a workload that can be repeated: `run` does the given number of iterations and returns their time.
    pub(crate) fn repeated(&self, run: &mut dyn FnMut(u64) -> Duration) -> Vec<Sample> {
        let mut sample = |iterations| self.observed(&mut || Sample::new(iterations, run(iterations)));
        if self.samples == SAMPLES {
            self.engine.criterion_trial(&mut sample)
        } else {
            self.plain(&mut sample)
        }
    }

    /// Samples of a workload of fixed size, after one call that warms up.
    pub(crate) fn fixed(&self, run: &mut dyn FnMut() -> Sample) -> Vec<Sample> {
        run();
        (0..self.samples).map(|_| self.observed(run)).collect()
    }

    fn observed(&self, run: &mut dyn FnMut() -> Sample) -> Sample {
        if self.resources { resources::around(run) } else { run() }
    }

    /// Does what Criterion does, with fewer samples: doubles the iterations until the warm-up is over, then gives
    /// every sample as many as let the trial last as long as it should, at least one.
    fn plain(&self, sample: &mut dyn FnMut(u64) -> Sample) -> Vec<Sample> {
        let start = Instant::now();
        let (mut iterations, mut done) = (1, 0);
        loop {
            sample(iterations);
            done += iterations;
            if start.elapsed() >= self.engine.warm_up {
                break;
            }
            iterations *= 2;
        }
        let one = start.elapsed().as_secs_f64() / done as f64;
        let share = self.engine.trial.as_secs_f64() / self.samples as f64;
        // The cast keeps to the largest number where the quotient is beyond it.
        let iterations = ((share / one).round() as u64).max(1);
        (0..self.samples).map(|_| sample(iterations)).collect()
    }
}

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
        let engine = Self { warm_up, trial, folder };
        // The first one asks cargo for its target folder, which takes long: not in the first trial, and not in the
        // trial of each process of an isolated study.
        let _silence = Silence::new();
        drop(engine.criterion());
        engine
    }

    /// Runs one trial of `sample`, which does the given number of iterations. The samples are Criterion's last ten
    /// calls; those before them were its warm-up.
    fn criterion_trial(&self, sample: &mut dyn FnMut(u64) -> Sample) -> Vec<Sample> {
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
                    calls.push(sample(iterations));
                    Duration::ZERO
                });
            });
        }
        let warm_up_calls = calls.len().saturating_sub(SAMPLES);
        calls.split_off(warm_up_calls)
    }

    /// A fresh Criterion for each trial, since one that is kept remembers every name it has seen.
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

    fn trial(samples: usize) -> Trial {
        let engine = Engine::new(Duration::from_micros(100), Duration::from_micros(300));
        Trial { engine: Rc::new(engine), samples, resources: false }
    }

    #[test]
    fn a_trial_is_the_last_ten_calls_with_equal_iterations() {
        let mut calls = Vec::new();
        let samples = trial(SAMPLES).repeated(&mut |iterations| {
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
        let trial = trial(SAMPLES);
        trial.repeated(&mut |iterations| timed(&mut || (), iterations));
        assert!(!trial.engine.folder.exists(), "Criterion analyses again: see the head of this file");
    }

    #[test]
    fn fewer_samples_have_equal_iterations_too() {
        for wanted in 1..SAMPLES {
            let mut calls = Vec::new();
            let samples = trial(wanted).repeated(&mut |iterations| {
                calls.push(iterations);
                timed(&mut || drop(std::hint::black_box(Box::new(1))), iterations)
            });
            let last: Vec<u64> = calls[calls.len() - wanted..].to_vec();
            assert_eq!(samples.iter().map(|sample| sample.iterations).collect::<Vec<_>>(), last);
            assert!(calls.len() > wanted, "it was warmed up");
            assert!(last.iter().all(|iterations| *iterations == last[0]), "{last:?}");
        }
    }

    #[test]
    fn an_iteration_longer_than_the_trial_is_run_once_a_sample() {
        let mut calls = Vec::new();
        trial(2).repeated(&mut |iterations| {
            calls.push(iterations);
            let start = Instant::now();
            std::thread::sleep(Duration::from_millis(1));
            start.elapsed()
        });
        assert_eq!(calls, [1; 3], "one to warm up, two samples");
    }

    #[test]
    fn the_timed_loop_iterates_as_often_as_asked() {
        let mut runs = 0;
        timed(&mut || runs += 1, 1_000);
        assert_eq!(runs, 1_000);
    }
}
