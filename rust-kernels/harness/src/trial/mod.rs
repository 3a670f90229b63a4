//! One trial of one variant.

pub(crate) mod bencher;
pub(crate) mod isolation;
pub(crate) mod resources;
pub(crate) mod sampling;
pub(crate) mod undisturbed;
