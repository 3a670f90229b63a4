//! Exact counts of one iteration of each variant: allocations, and instructions (atomic and thread-local ones among
//! them) when valgrind is there.
//!
//! Counts need a program of their own, since a counting allocator would be timed along. Such a program is
//! three lines, compiled by `cargo bench` as `benches/counts.rs` of a study:
//! ```no_run
//! # mod zero_cost { pub fn study() -> harness::Study { harness::Study::new("zero-cost") } }
//! use harness::counting::{self, CountingAllocator};
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator;
//!
//! fn main() {
//!     counting::main(zero_cost::study());
//! }
//! ```
//! What is counted is one iteration, after one that warms up: from the call of the workload through `dyn
//! FnMut` to its return, set-up and tear-down left out. Allocations are those of all threads; instructions
//! are those of the calling thread.
//!
//! With several threads, an iteration may allocate more or less than the one before. So two iterations are
//! counted. Where they differ, the smaller number is the count, and their difference is a count of its own,
//! named `<counter>_varies`; without that row, the two were equal. `<counter>_failed` stands for one that should be
//! there and is not.

use std::time::Duration;

pub use by_turns_core::base::allocator::CountingAllocator;

use crate::base::error::Error;
use crate::measure::measurement::counts_file;
use crate::measure::progress::Progress;
use crate::provenance::codegen::Codegen;
use crate::provenance::repository;
use crate::store::counts;
use crate::store::run;
use crate::study::builder::Study;
use crate::study::checks::Variant;
use by_turns_core::base::allocator;
use by_turns_core::base::key::Key;
use by_turns_core::count::allocations;
use by_turns_core::count::callgrind::{self, Place};
use by_turns_core::count::table::Count;

/// Counts every variant of a study and writes the counts into the run that `ASYNC_COST_PARTIAL` names, or
/// prints them when it names none. A variant that fails is named with its message, and the others are
/// counted. Ends the process with status 1 when nothing could be counted.
///
/// Instructions need a release build and valgrind; without them they are left out with a line that says so.
pub fn main(study: Study) {
    let counted = |study| if callgrind::is_here() { run_variants(&study) } else { count(&study) };
    match study.selected().and_then(counted) {
        Ok(true) => {}
        Ok(false) => std::process::exit(1),
        Err(error) => {
            eprintln!("{error}");
            std::process::exit(1);
        }
    }
}

/// Guess for the time of one variant under valgrind, until one has been measured.
const PLANNED: Duration = Duration::from_millis(50);

/// Runs the variants that the parent process has named, each with one counted iteration.
fn run_variants(study: &Study) -> Result<bool, Error> {
    let (variants, selected) = (study.variants()?, callgrind::selected(study.name()));
    let number = u32::try_from(selected.len()).unwrap_or(u32::MAX);
    let mut progress = Progress::new(study.name(), "variant", number, 1, PLANNED);
    progress.begin(0, 1);
    for (done, index) in (0..).zip(selected) {
        let Variant { key, function, .. } = &variants[index];
        // In this process, isolated or not: callgrind would number the files of every child anew.
        callgrind::count(&**function).map_err(|variant_error| study.variant_error(key, variant_error))?;
        progress.trial(done);
    }
    progress.finish(number);
    Ok(true)
}

/// A variant that could not be counted, what of it, and why.
type NotCounted = (Key, &'static str, String);

/// Counts and exports; false when every variant failed.
fn count(study: &Study) -> Result<bool, Error> {
    require_allocator()?;
    let variants = study.variants()?;
    let (mut all_counts, mut not_counted) = (Vec::new(), Vec::new());
    let mut countable = Vec::new();
    for (index, variant) in variants.iter().enumerate().filter(|(_, variant)| variant.counted) {
        match allocations(study, variant) {
            Ok(counts) => {
                all_counts.extend(counts);
                countable.push(index);
            }
            Err(Error::Variant { key, message }) => not_counted.push((key, "allocations", message)),
            Err(error) => return Err(error),
        }
    }
    println!("{}: allocations of {} variants counted", study.name(), countable.len());
    let (counts, failed) = instructions(study, &variants, &countable)?;
    all_counts.extend(counts);
    not_counted.extend(failed);
    for (key, counter, message) in not_counted {
        println!("not counted: {key}: {counter}: {message}");
        all_counts.push(Count { key, counter: format!("{counter}_failed"), value: 1 });
    }
    export(study, &all_counts)?;
    Ok(!countable.is_empty() || variants.iter().all(|variant| !variant.counted))
}

/// How often `run` allocates, on all threads together: for tests of programs that use [`CountingAllocator`].
///
/// `run` is counted three times and the least number taken, since a test program has a thread of its own, which
/// allocates now and then to keep track of the tests.
///
/// # Panics
/// If the program does not use it.
pub fn count_allocations(run: &mut dyn FnMut()) -> u64 {
    require_allocator().unwrap_or_else(|error| panic!("{error}"));
    allocator::take_counted();
    (0..3).for_each(|_| allocator::around(run));
    allocator::take_counted().iter().map(|[allocations, _]| *allocations).min().unwrap_or(0)
}

/// Without its allocator, a program would report zero allocations for everything.
fn require_allocator() -> Result<(), Error> {
    if allocator::is_used() {
        return Ok(());
    }
    let reason = "this program does not use it; add `#[global_allocator] static A: CountingAllocator = CountingAllocator;`";
    Err(Error::Setting { name: "CountingAllocator", reason: reason.to_owned() })
}

fn allocations(study: &Study, variant: &Variant) -> Result<Vec<Count>, Error> {
    // The numbers are taken where the variant runs, which may be another process.
    let counted = study.run_isolated(|| allocations::count(&*variant.function));
    let counted = counted.map_err(|variant_error| study.variant_error(&variant.key, variant_error))?;
    let count = |(counter, value)| Count { key: variant.key.clone(), counter, value };
    Ok(counted.into_iter().map(count).collect())
}

fn instructions(
    study: &Study,
    variants: &[Variant],
    countable: &[usize],
) -> Result<(Vec<Count>, Vec<NotCounted>), Error> {
    let left_out = |reason: &str| {
        println!("{}: instructions not counted: {reason}", study.name());
        Ok((Vec::new(), Vec::new()))
    };
    if !study.instructions {
        return left_out("several threads do the work of this study, and callgrind sees one");
    }
    if Codegen::of_this_build().profile == "dev" {
        return left_out("this is a dev build; use `cargo bench`");
    }
    let counted = std::env::current_dir().and_then(|started_in| {
        let place = Place { started_in: &started_in, files: &std::env::temp_dir() };
        callgrind::executed(study.name(), countable, study.system.as_deref(), place)
    });
    let counted = counted.map_err(|source| Error::Io { action: "count with valgrind".to_owned(), source });
    let Some(values) = counted? else {
        return left_out("valgrind is not installed (for example `apt install valgrind`)");
    };
    let (mut all_counts, mut not_counted) = (Vec::new(), Vec::new());
    for (index, value) in countable.iter().zip(values) {
        let key = &variants[*index].key;
        match value {
            Ok(value) => {
                let kinds = [
                    ("instructions", Some(value.instructions)),
                    ("atomic_instructions", value.atomic),
                    ("thread_local_instructions", value.thread_local),
                    ("own_instructions", value.own),
                ];
                all_counts.extend(kinds.into_iter().filter_map(|(counter, value)| {
                    Some(Count { key: key.clone(), counter: counter.to_owned(), value: value? })
                }));
            }
            Err(reason) => not_counted.push((key.clone(), "instructions", reason)),
        }
    }
    Ok((all_counts, not_counted))
}

fn export(study: &Study, all_counts: &[Count]) -> Result<(), Error> {
    let folder = match std::env::var_os(run::PARTIAL) {
        Some(_) => run::given_folder(&repository::root()?)?,
        None => None,
    };
    if let Some(folder) = folder {
        let _lock = run::locked(&folder);
        return counts::upsert(&folder.join(counts_file(study)), study.name(), all_counts);
    }
    let width = all_counts.iter().map(|count| count.key.to_string().chars().count()).max().unwrap_or(0);
    for Count { key, counter, value } in all_counts {
        println!("{:width$}  {counter:25}  {value:>12}", key.to_string());
    }
    Ok(())
}
