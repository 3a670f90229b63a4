//! Allocations of one iteration, counted by the program's own allocator.

use crate::base::allocator;
use crate::trial::bencher::{self, Around, Function, TrialError};

/// What is counted.
pub const COUNTERS: [&str; 2] = ["allocations", "allocated_bytes"];

const AROUND: Around = Around { iteration: allocator::around, nothing: allocator::around_nothing };

const ITERATIONS: u32 = 2;

/// Counts two iterations of a variant, after one that warms up. Where they differ, the smaller number is the count, and
/// their difference is a count of its own, named `<counter>_varies`.
///
/// # Errors
/// What the variant fails with.
pub fn count(function: &Function<'_>) -> Result<Vec<(String, u64)>, TrialError> {
    allocator::take_counted();
    bencher::call(function, &mut |mut workload| workload.counted(AROUND, ITERATIONS))?;
    let iterations = allocator::take_counted();
    if iterations.len() < ITERATIONS as usize {
        let why = "what drives it allocates more without an iteration than with one";
        return Err(TrialError::Failed(why.to_owned()));
    }
    let mut counts = Vec::new();
    for (index, counter) in COUNTERS.into_iter().enumerate() {
        let values = || iterations.iter().map(|counted| counted[index]);
        let (least, most) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
        counts.push((counter.to_owned(), least));
        if most > least {
            counts.push((format!("{counter}_varies"), most - least));
        }
    }
    Ok(counts)
}
