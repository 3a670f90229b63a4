//! A sum, of two revisions.

use std::hint::black_box;

/// What differs between the revisions.
static REVISION: u8 = 0;

/// Adds up, one number after the other.
pub fn sum(items: &[u64]) -> u64 {
    black_box(REVISION);
    items.iter().fold(0, |sum, item| black_box(sum + item))
}
