//! What a bench is made of, how it is measured, and what it shows.

pub mod arguments;
pub mod builder;
pub mod counts;
pub mod episodes;
pub mod gate;
pub mod layouts;
pub mod program;
pub mod report;
pub mod store;
