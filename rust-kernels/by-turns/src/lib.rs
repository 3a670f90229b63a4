#![doc = include_str!("../README.md")]
//!
//! # The source
//! In layers, each of which uses itself and those before it, file by file without circles. What is not shown here is for the
//! crates of the repository, and no promise.
//!
//! | layer | files |
//! |---|---|
//! | `base` | keys, samples, proofs, limits, random numbers, the machine; `allocator` counts |
//! | `trial` | one trial: `bencher`, `sampling`, `undisturbed`, `isolation`, `resources`; `rounds` (their order), `draw` |
//! | `count` | `allocations`, `callgrind` and `disassembly` |
//! | `judge` | `pairs` (ratios), `interval`, `student`, `verdict` |
//! | `glance` | functions in turns for some seconds |
//! | `bench` | `builder`, `program` (what its arguments ask for), `episodes`, `layouts`, `counts`, `gate`, `report`, `store` |

#![warn(missing_docs)]

#[doc(hidden)]
pub mod base;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod count;
mod glance;
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
#[cfg(feature = "bench")]
pub use bench::builder::{Bench, Turn};
pub use glance::{Glance, Seen};
pub use trial::bencher::Bencher;
#[cfg(feature = "bench")]
pub use trial::isolation::{isolated, prove_isolated};
