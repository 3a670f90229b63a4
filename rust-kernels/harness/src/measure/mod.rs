//! Measuring a study, counting it, running it under Criterion; and what of that is shown.

pub mod counting;
#[cfg(feature = "criterion")]
pub mod criterion;
pub(crate) mod episode;
pub(crate) mod glance;
pub(crate) mod measurement;
pub(crate) mod outcome;
pub(crate) mod program;
pub(crate) mod progress;
