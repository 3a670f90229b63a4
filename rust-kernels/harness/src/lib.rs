//! Measures variants in interleaved rounds and exports raw samples with their provenance.

#![warn(missing_docs)]

mod bencher;
pub mod counting;
mod engine;
mod error;
mod key;
mod measure;
mod outcome;
mod panics;
mod profile;
mod study;

pub use bencher::{Bencher, Sample};
pub use error::Error;
pub use key::Key;
pub use outcome::{Failure, Outcome};
pub use profile::Profile;
pub use study::Study;
