//! What is measured: variants and comparisons.

pub(crate) mod builder;
pub(crate) mod checks;
pub(crate) mod part;
pub(crate) mod running;
