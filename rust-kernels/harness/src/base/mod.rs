//! What everything else uses: errors, keys, plain data.

pub(crate) mod declared;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod futures;
pub(crate) mod profile;
