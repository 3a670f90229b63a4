//! What a bench is made of, and what it shows.

pub mod glance;
