//! What everything else uses: errors, keys, plain data.

pub(crate) mod allocator;
pub(crate) mod clock;
pub(crate) mod declared;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod futures;
pub(crate) mod key;
pub mod limit;
pub(crate) mod panics;
pub(crate) mod profile;
pub(crate) mod proof;
pub(crate) mod sample;
pub mod tally;
