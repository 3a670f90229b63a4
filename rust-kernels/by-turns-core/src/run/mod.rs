//! A run: its processes, files, link orders and time.

pub mod budget;
pub mod disturbed;
pub mod files;
pub mod link;
pub mod process;
pub mod progress;
pub mod protocol;
pub mod work;
