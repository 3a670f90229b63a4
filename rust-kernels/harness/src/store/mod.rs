//! The folder of a run and its files, whole at any moment.

pub(crate) mod counts;
pub(crate) mod info;
pub(crate) mod metrics;
pub(crate) mod run;
pub(crate) mod table;
pub(crate) mod timings;
