//! What is exact: allocations, instructions, system calls and the sizes of futures.

use crate::base::allocator;
use crate::base::csv;
use crate::base::key::Key;
use crate::bench::builder::{Bench, Variant};
use crate::count::allocations;
use crate::count::callgrind;
use crate::trial::bencher::TrialError;

/// What is counted, and by how many per cent it may grow, unless `--allow` sets another limit. Another build may shuffle a few
/// instructions, and a change of one way those of its neighbours in the program; the others have no excuse.
pub const LENSES: [(&str, f64); 5] = [
    ("instructions", 1.0),
    ("allocations", 0.0),
    ("allocated_bytes", 0.0),
    ("system_calls", 0.0),
    ("future_bytes", 0.0),
];

const HEADER: &str = "study,bench,variant,parameter,counter,value";

/// An exact count of one variant, of one iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The variant.
    pub key: Key,
    /// A lens; with `_varies` behind it, by how much iterations differ.
    pub counter: String,
    /// How much.
    pub value: u64,
}

/// Puts the allocator that counts into the program. One load for each allocation, in all ways alike, is what it adds to
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
    for Variant { key, way, .. } in &own {
        let way_of = &bench.ways[*way];
        let mut note = |counter: &str, value| {
            counts.push(Count { key: key.clone(), counter: counter.to_owned(), value })
        };
        if way_of.settings.units > 1 {
            note("units", way_of.settings.units);
        }
        if let Some(bytes) = way_of.size {
            note("future_bytes", bytes);
        }
        if !allocating {
            continue;
        }
        let counted = allocations::count(&bench.function(*way)).map_err(|trial_error| match trial_error {
            TrialError::Failed(why) | TrialError::Misused(why) => format!("{key} failed: {why}"),
        })?;
        counted.iter().for_each(|(counter, value)| note(counter, *value));
    }
    let alone: Vec<&&Variant> =
        own.iter().filter(|variant| !bench.ways[variant.way].settings.threads).collect();
    if alone.len() < own.len() {
        missing.push("instructions of ways with several threads are not counted".to_owned());
    }
    let ways: Vec<usize> = alone.iter().map(|variant| variant.way).collect();
    let executed = if ways.is_empty() {
        Some(vec![])
    } else {
        callgrind::executed(&bench.name, &ways, None).map_err(|error| format!("valgrind: {error}"))?
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

/// As the table `<bench>.counts.csv`.
pub fn table(study: &str, counts: &[Count]) -> String {
    let row = |Count { key, counter, value }: &Count| {
        csv::line([study, &key.bench, &key.variant, &key.parameter, counter, &value.to_string()]) + "\n"
    };
    format!("{HEADER}\n") + &counts.iter().map(row).collect::<String>()
}

/// What such a table holds; `None` if it is none.
pub fn read(text: &str) -> Option<Vec<Count>> {
    let count = |row: Vec<String>| {
        let [_, bench, variant, parameter, counter, value] = <[String; 6]>::try_from(row).ok()?;
        Some(Count { key: Key::new(bench, variant, parameter), counter, value: value.parse().ok()? })
    };
    csv::rows(text, HEADER)?.into_iter().map(count).collect()
}
