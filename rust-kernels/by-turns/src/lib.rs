#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod arguments;
mod builder;
mod caution;
mod counts;
mod episodes;
mod equal_work;
mod format;
mod gate;
mod judging;
mod layouts;
mod places;
mod plot;
mod program;
mod report;
mod serve;
mod store;

pub use builder::{Bench, Turn};
pub use by_turns_core::base::tolerance;
pub use report::{Report, VariantReport};

#[doc(hidden)]
pub use by_turns_core::{Counting, CountingAllocator};
