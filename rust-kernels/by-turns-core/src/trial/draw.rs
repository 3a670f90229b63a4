//! What a fresh process draws anew, besides its addresses.

use crate::base::random;

/// Moves what is allocated from here on by up to 4 KiB.
pub fn heap() {
    std::mem::forget(Vec::<[u64; 2]>::with_capacity(1 + below(256)));
}

/// An unused text: in the environment of a process, its length shifts the stack.
pub fn padding() -> String {
    "x".repeat(below(4096))
}

/// A number below this; 0 where the system has no random numbers, which moves nothing.
fn below(end: u64) -> usize {
    random::new_seed().map_or(0, |seed| (seed % end) as usize)
}
