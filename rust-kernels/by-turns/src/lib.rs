//! Compares your own code, by turns: in interleaved rounds.

#![warn(missing_docs)]

#[doc(hidden)]
pub mod base;
#[doc(hidden)]
pub mod bench;
#[doc(hidden)]
pub mod count;
#[doc(hidden)]
pub mod judge;
#[doc(hidden)]
pub mod trial;

pub use base::allocator::CountingAllocator;
pub use base::key::{InvalidKey, Key};
pub use base::limit;
pub use base::proof::{Counts, UnequalWork, prove, prove_both, stop};
pub use base::sample::Sample;
pub use base::tally;
pub use bench::builder::{Bench, Turn};
pub use bench::glance::{Glance, Seen};
pub use trial::bencher::Bencher;
pub use trial::isolation::{isolated, prove_isolated};
