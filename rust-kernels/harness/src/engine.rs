//! One trial, timed by Criterion.

use std::time::{Duration, Instant};

use crate::bencher::Sample;

/// Criterion, set up for trials of a fixed length.
pub(crate) struct Engine {
    warm_up: Duration,
    trial: Duration,
}

impl Engine {
    pub(crate) fn new(warm_up: Duration, trial: Duration) -> Self {
        Self { warm_up, trial }
    }

    pub(crate) fn trial(&self, _run: &mut dyn FnMut(u64) -> Duration) -> Vec<Sample> {
        let _ = (self.warm_up, self.trial);
        unimplemented!()
    }
}

/// The timed loop of every variant.
pub(crate) fn timed(run: &mut dyn FnMut(), iterations: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..iterations {
        run();
    }
    start.elapsed()
}
