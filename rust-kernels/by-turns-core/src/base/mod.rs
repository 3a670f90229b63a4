//! What everything else uses: keys, samples, tolerances, the machine.

pub mod allocator;
#[cfg(feature = "bench")]
pub mod child;
pub mod clock;
pub mod csv;
pub mod key;

#[cfg(feature = "bench")]
pub mod lock;
#[cfg(feature = "bench")]
pub mod machine;
pub mod markdown;
pub mod number;
pub mod panics;
pub mod random;
pub mod sample;
pub mod tolerance;
