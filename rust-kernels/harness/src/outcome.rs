//! What a measurement hands back.

use std::path::PathBuf;
use std::time::Duration;

use crate::Key;

/// A variant that was given up, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The variant.
    pub key: Key,
    /// Its message, on one line.
    pub error: String,
}

/// A finished measurement.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Folder of the run, relative to the repository.
    pub directory: PathBuf,
    /// Rounds measured.
    pub rounds: u32,
    /// Time spent in this call.
    pub elapsed: Duration,
    /// Variants that were left out, with their messages.
    pub failed: Vec<Failure>,
}
