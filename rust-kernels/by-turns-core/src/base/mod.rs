//! What everything else uses: keys, samples, proofs, tolerances.

pub mod allocator;
pub mod clock;
pub mod csv;
pub mod key;

#[cfg(feature = "bench")]
pub mod machine;
pub mod number;
pub mod panics;
pub mod proof;
pub mod random;
pub mod sample;
pub mod tally;
pub mod tolerance;
