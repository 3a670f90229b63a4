//! One trial of one variant, and the order of trials in a round.

pub mod bencher;
pub mod draw;
pub mod rounds;
pub mod sampling;
pub mod undisturbed;
