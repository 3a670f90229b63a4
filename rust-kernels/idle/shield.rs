//! Keeps what others have written from ending a thread of ours.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Keeps a panic from the caller. Says whether there was none. For one job, one wake or one destructor at a time: what
/// comes after a panic in `work` is not done.
pub fn shielded(work: impl FnOnce()) -> bool {
    let Err(mut payload) = catch_unwind(AssertUnwindSafe(work)) else { return true };
    // What was thrown may itself throw when it is dropped, and so may that. Somewhere it has to end: the third is given
    // up.
    for _ in 0..2 {
        match catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            Ok(()) => return false,
            Err(next) => payload = next,
        }
    }
    std::mem::forget(payload);
    false
}
