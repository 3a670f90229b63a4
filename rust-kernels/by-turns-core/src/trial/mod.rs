//! One trial of one variant, and the order of trials in a round.

pub mod bencher;
pub mod draw;
#[cfg(feature = "bench")]
pub mod isolation;
#[cfg(feature = "bench")]
pub mod resources;
pub mod rounds;
pub mod sampling;
pub mod undisturbed;
