//! Measures variants in interleaved rounds and exports raw samples with their provenance.

#![warn(missing_docs)]

mod bencher;
mod callgrind;
mod clock;
mod codegen;
pub mod counting;
mod counts;
mod engine;
mod error;
mod gate;
mod info;
mod kernel;
mod key;
mod machine;
mod measure;
mod outcome;
mod panics;
mod profile;
mod progress;
mod repository;
mod rounds;
mod run;
mod silence;
mod study;
mod timings;

pub use bencher::{Bencher, Sample};
pub use error::Error;
pub use key::Key;
pub use outcome::{Failure, Line, Outcome};
pub use profile::Profile;
pub use study::Study;
