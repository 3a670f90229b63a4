//! One trial of one variant, and the order of trials in a round.

pub mod bencher;
pub mod draw;
#[cfg(all(feature = "studies", unix))]
pub mod resources;
pub mod rounds;
pub mod sampling;
pub mod undisturbed;
