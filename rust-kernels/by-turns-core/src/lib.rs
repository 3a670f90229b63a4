#![doc = include_str!("../README.md")]
//!
//! # The source
//! In layers, each of which uses itself and those before it, file by file without circles:
//!
//! | layer | files |
//! |---|---|
//! | `base` | keys, samples, tolerances, random numbers, the machine; `allocator` counts |
//! | `trial` | one trial: `bencher`, `sampling`, `undisturbed`; `rounds` (their order), `draw` |
//! | `count` | `allocations`, `callgrind` and `disassembly`; `table` (how counts are written) |
//! | `judge` | `pairs` (ratios), `interval`, `student`, `verdict` |
//! | `glance` | functions in turns for some seconds |
//! | `run` | `process`, `files`, `link` (link orders), `budget`, `progress`, `disturbed`, `work` (what was done, as text) |

#![warn(missing_docs)]

pub mod base;
#[cfg(feature = "bench")]
pub mod count;
pub mod glance;
pub mod judge;
#[cfg(feature = "bench")]
pub mod run;
pub mod trial;

pub use base::allocator::{Counting, CountingAllocator};
pub use base::key::{InvalidKey, Key};
pub use base::sample::Sample;
pub use base::tolerance;
pub use glance::{Glance, Seen};
pub use trial::bencher::Bencher;
