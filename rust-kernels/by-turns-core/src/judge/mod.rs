//! From samples to a word.

pub mod interval;
pub mod pairs;
pub mod student;
pub mod verdict;
