//! One raw observation.

use std::borrow::Cow;
use std::time::Duration;

use crate::base::allocator::uncounted;

/// One raw observation: so many iterations took so long.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "studies", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Sample {
    /// Iterations, jobs or bursts done; at least 1.
    pub iterations: u64,
    /// Time that all of them took together.
    pub elapsed: Duration,
    /// What else was observed, by name; empty in most studies.
    pub metrics: Vec<(Cow<'static, str>, u64)>,
}

impl Sample {
    /// `iterations` (at least 1) that took `elapsed` together.
    pub fn new(iterations: u64, elapsed: Duration) -> Self {
        Self { iterations, elapsed, metrics: Vec::new() }
    }

    /// Adds another observation of the same sample. Its name is lower-case words joined by `_`, the last of them the
    /// unit where there is one, as in `p99_ns`. A second value of the same name replaces the first. Every sample of a
    /// variant has the same metrics, in every round.
    #[must_use]
    pub fn with(mut self, metric: impl Into<Cow<'static, str>>, value: u64) -> Self {
        let metric = metric.into();
        self.metrics.retain(|(name, _)| *name != metric);
        uncounted(|| self.metrics.push((metric, value)));
        self
    }

    /// Names of the metrics, in the order in which they were added.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().map(|(name, _)| name.as_ref())
    }
}
