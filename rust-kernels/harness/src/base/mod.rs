//! What everything else uses: errors, plain data, proofs, processes.

pub(crate) mod declared;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod futures;
pub mod isolation;
pub(crate) mod profile;
pub mod proof;
pub(crate) mod resources;
pub mod tally;
pub(crate) mod watch;
