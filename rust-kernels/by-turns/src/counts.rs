//! What is exact: allocations, instructions, system calls and the sizes of futures.

use crate::builder::{Bench, Variant};
use by_turns_core::base::allocator;
use by_turns_core::count::allocations;
use by_turns_core::count::callgrind;
use by_turns_core::count::table::Count;
use by_turns_core::trial::bencher::TrialError;

/// What is counted, and by how many per cent it may grow, unless `--allow` sets another limit. Another build may shuffle a few
/// instructions, and a change of one variant those of its neighbours in the program; the others have no excuse.
pub const COUNTERS: [(&str, f64); 5] = [
    ("instructions", 1.0),
    ("allocations", 0.0),
    ("allocated_bytes", 0.0),
    ("system_calls", 0.0),
    ("future_bytes", 0.0),
];

/// Puts the allocator that counts into the program. One load for each allocation, in all variants alike, is what it adds to
/// times.
#[macro_export]
macro_rules! count_allocations {
    () => {
        #[global_allocator]
        static COUNTING_ALLOCATOR: $crate::CountingAllocator = $crate::CountingAllocator;
    };
}

/// Counts all variants but controls. Returns the counts, and why some are not there.
///
/// # Errors
/// What fails.
pub(crate) fn count<W: PartialEq + std::fmt::Debug>(
    bench: &Bench<'_, W>,
    variants: &[Variant],
) -> Result<(Vec<Count>, Vec<String>), String> {
    let (mut counts, mut missing) = (Vec::new(), Vec::new());
    let own: Vec<&Variant> = variants.iter().filter(|variant| !variant.control).collect();
    let allocating = allocator::is_used();
    if !allocating {
        missing.push(
            "allocations are not counted: write `by_turns::count_allocations!();` above main".to_owned(),
        );
    }
    for Variant { key, declared, .. } in &own {
        let of = &bench.declared[*declared];
        let mut note = |counter: &str, value| {
            counts.push(Count { key: key.clone(), counter: counter.to_owned(), value })
        };
        if of.settings.units > 1 {
            note("units", of.settings.units);
        }
        if let Some(bytes) = of.size {
            note("future_bytes", bytes);
        }
        if !allocating {
            continue;
        }
        let counted =
            allocations::count(&bench.function(*declared)).map_err(|trial_error| match trial_error {
                TrialError::Failed(why) | TrialError::Misused(why) => format!("{key} failed: {why}"),
            })?;
        counted.iter().for_each(|(counter, value)| note(counter, *value));
    }
    let alone: Vec<&&Variant> =
        own.iter().filter(|variant| !bench.declared[variant.declared].settings.threads).collect();
    if alone.len() < own.len() {
        missing.push("instructions of variants with several threads are not counted".to_owned());
    }
    let declared: Vec<usize> = alone.iter().map(|variant| variant.declared).collect();
    let executed = if declared.is_empty() {
        Some(vec![])
    } else {
        callgrind::executed_alone(&bench.name, &declared).map_err(|error| format!("valgrind: {error}"))?
    };
    match executed {
        None => missing
            .push("instructions and system calls are not counted: valgrind is not installed".to_owned()),
        Some(found) => {
            for (Variant { key, .. }, found) in alone.iter().zip(found) {
                match found {
                    Err(why) => missing.push(format!("instructions of {key} are not counted: {why}")),
                    Ok(found) => {
                        for (counter, value) in
                            [("instructions", found.instructions), ("system_calls", found.system_calls)]
                        {
                            counts.push(Count { key: key.clone(), counter: counter.to_owned(), value });
                        }
                    }
                }
            }
        }
    }
    Ok((counts, missing))
}
