//! What is exact: allocations, instructions, system calls and the sizes of futures.

use std::env;
use std::fs;
use std::io;
use std::path::Path;

use crate::builder::{Bench, Variant};
use crate::equal_work;
use crate::places::places;
use by_turns_core::base::allocator;
use by_turns_core::base::csv;
use by_turns_core::base::key::Key;
use by_turns_core::base::lock;
use by_turns_core::count::allocations;
use by_turns_core::count::callgrind::{self, Place};
use by_turns_core::count::table::Count;
use by_turns_core::run::files::{Running, named};
use by_turns_core::trial::bencher::TrialError;

/// Puts the allocator that counts into the program. One load for each allocation, in all variants alike, is what it adds to
/// times. It takes the system's allocator, another one, or the type of another one and how it is made:
///
/// ```
/// # use std::alloc::System as MiMalloc;
/// by_turns::count_allocations!(MiMalloc);
/// # fn main() {}
/// ```
/// ```
/// # use std::alloc::System as Jemalloc;
/// by_turns::count_allocations!(Jemalloc = { Jemalloc });
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! count_allocations {
    () => {
        #[global_allocator]
        static COUNTING_ALLOCATOR: $crate::CountingAllocator = $crate::CountingAllocator;
    };
    ($type:ty = $allocator:expr) => {
        #[global_allocator]
        static COUNTING_ALLOCATOR: $crate::Counting<$type> = $crate::Counting($allocator);
    };
    ($allocator:path) => {
        $crate::count_allocations!($allocator = $allocator);
    };
}

/// Why there are no instructions.
pub(crate) const NO_VALGRIND: &str =
    "instructions and system calls are not counted: valgrind is not installed";

/// First line of a file of counts.
const HEADER: &str = "package,bench,variant,load,counter,value";

/// The name of the package of this program.
///
/// # Errors
/// If cargo, or who runs the program instead, does not say it.
pub(crate) fn package() -> Result<String, String> {
    let why = "counts carry the name of the package: run the bench by cargo, or set CARGO_PKG_NAME";
    env::var("CARGO_PKG_NAME").ok().filter(|name| !name.is_empty()).ok_or_else(|| why.to_owned())
}

/// Writes counts of a bench into a file, in place of those there that `replaced` accepts among its own. Rows of others stay.
///
/// # Errors
/// Of the file.
pub(crate) fn save(
    file: &Path,
    package: &str,
    bench: &str,
    replaced: impl Fn(&Key) -> bool,
    counts: &[Count],
) -> Result<(), String> {
    let at = named(file);
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(&at)?;
    let _lock = lock::held(folder);
    let mut rows = match fs::read_to_string(file) {
        Ok(text) => rows(file, &text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => vec![],
        Err(error) => return Err(at(error)),
    };
    rows.retain(|(of, count)| !(of == package && count.key.bench == bench && replaced(&count.key)));
    let new = counts.iter().map(|count| (package.to_owned(), count.clone()));
    rows.extend(new);
    let line = |(package, Count { key, counter, value }): &(String, Count)| {
        csv::line([package, &key.bench, &key.variant, &key.parameter, counter, &value.to_string()]) + "\n"
    };
    let text = format!("{HEADER}\n") + &rows.iter().map(line).collect::<String>();
    // Whole or not at all.
    let mut partial = file.as_os_str().to_owned();
    partial.push(format!(".{}", std::process::id()));
    fs::write(&partial, text).and_then(|()| fs::rename(&partial, file)).map_err(|error| {
        let _ = fs::remove_file(&partial);
        at(error)
    })
}

/// The counts of a bench in such a file.
///
/// # Errors
/// Of the file, or that it has none.
pub(crate) fn load(file: &Path, package: &str, bench: &str) -> Result<Vec<Count>, String> {
    let text = fs::read_to_string(file).map_err(|error| named(file)(error) + "; --save-counts writes it")?;
    let mut rows = rows(file, &text)?;
    rows.retain(|(of, count)| of == package && count.key.bench == bench);
    Ok(rows.into_iter().map(|(_, count)| count).collect())
}

fn rows(file: &Path, text: &str) -> Result<Vec<(String, Count)>, String> {
    let row = |cells: Vec<String>| {
        let [package, bench, variant, load, counter, value] = <[String; 6]>::try_from(cells).ok()?;
        Some((package, Count { key: Key::new(bench, variant, load), counter, value: value.parse().ok()? }))
    };
    csv::rows(text, HEADER).and_then(|rows| rows.into_iter().map(row).collect()).ok_or_else(|| {
        format!("{} is no file of counts: its first line is not {HEADER}, or a row is torn", file.display())
    })
}

/// What was counted, and what not.
pub(crate) struct Counted {
    pub(crate) counts: Vec<Count>,
    /// What is left out, and why.
    pub(crate) left_out: Vec<String>,
    /// What should have been counted, and why it was not.
    pub(crate) failed: Vec<String>,
}

/// Counts all variants but controls, or `only` that one; without valgrind where there is `no_valgrind` for a reason. `running` has its files.
///
/// # Errors
/// What fails.
pub(crate) fn count<W: PartialEq + std::fmt::Debug>(
    bench: &Bench<'_, W>,
    variants: &[Variant],
    only: Option<usize>,
    running: &Running,
    no_valgrind: Option<String>,
) -> Result<Counted, String> {
    let (mut counts, mut left_out, mut failed) = (Vec::new(), Vec::new(), Vec::new());
    let own = variants
        .iter()
        .enumerate()
        .filter(|(at, variant)| !variant.control && only.is_none_or(|one| one == *at));
    let own: Vec<&Variant> = own.map(|(_, variant)| variant).collect();
    let allocating = allocator::is_used();
    if !allocating {
        left_out.push(
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
        match allocations::count(&bench.function(*declared)) {
            Ok(counted) => counted.iter().for_each(|(counter, value)| note(counter, *value)),
            Err(TrialError::Failed(why)) => {
                failed.push(format!("allocations of {key} are not counted: {why}"));
            }
            Err(misused) => return Err(equal_work::failed(key, misused)),
        }
    }
    let alone: Vec<&&Variant> = own.iter().filter(|variant| !bench.settings(variant).threads).collect();
    if alone.len() < own.len() {
        left_out.push(
            "instructions and system calls of variants with several threads are not counted".to_owned(),
        );
    }
    let declared: Vec<usize> = alone.iter().map(|variant| variant.declared).collect();
    let without = no_valgrind.is_some();
    left_out.extend(no_valgrind.map(|why| format!("instructions and system calls are not counted: {why}")));
    let executed = if declared.is_empty() || without {
        Some(vec![])
    } else {
        let place = Place { started_in: &places().started_in, files: &running.folder };
        callgrind::executed_alone(&bench.name, &declared, None, place)
            .map_err(|error| format!("valgrind: {error}"))?
    };
    match executed {
        // There is none for many Macs.
        None if cfg!(target_os = "macos") => left_out.push(NO_VALGRIND.to_owned()),
        None => failed.push(NO_VALGRIND.to_owned()),
        Some(found) => {
            for (Variant { key, .. }, found) in alone.iter().zip(found) {
                match found {
                    Err(why) => failed.push(format!("instructions of {key} are not counted: {why}")),
                    Ok(found) if found.made_thread => failed.push(format!(
                        "instructions of {key} are not counted: it makes a thread, {}",
                        equal_work::NOT_ALONE
                    )),
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
    Ok(Counted { counts, left_out, failed })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(bench: &str, variant: &str, value: u64) -> Count {
        Count { key: Key::new(bench, variant, "n=1, 2"), counter: "instructions".to_owned(), value }
    }

    #[test]
    fn a_bench_replaces_its_own_rows_only() {
        let folder = env::temp_dir().join(format!("by-turns-counts-{}", std::process::id()));
        let file = folder.join("deep/counts.csv");
        let all =
            |package: &str, bench: &str, counts: &[Count]| save(&file, package, bench, |_| true, counts);
        let values = |package, bench| {
            load(&file, package, bench).map(|found| found.iter().map(|count| count.value).collect::<Vec<_>>())
        };
        all("one", "b", &[count("b", "a", 1), count("b", "gone", 2)]).expect("a new folder");
        all("two", "b", &[count("b", "a", 3)]).expect("another package");
        all("one", "c", &[count("c", "a", 4)]).expect("another bench");
        all("one", "b", &[count("b", "a", 5)]).expect("once more");
        assert_eq!(
            [values("one", "b"), values("two", "b"), values("one", "c")],
            [Ok(vec![5]), Ok(vec![3]), Ok(vec![4])]
        );
        assert_eq!(load(&file, "one", "b"), Ok(vec![count("b", "a", 5)]));
        save(&file, "one", "b", |key| key.variant == "x", &[count("b", "x", 6)]).expect("some of them");
        assert_eq!(values("one", "b"), Ok(vec![5, 6]));
        assert_eq!(fs::read_dir(folder.join("deep")).expect("there").count(), 1, "nothing partial stays");
        fs::write(&file, "study,bench\n").expect("writable");
        assert!(all("one", "b", &[]).unwrap_err().contains("is no file of counts"));
        fs::remove_dir_all(folder).expect("ours");
    }

    #[test]
    fn benches_that_save_at_once_lose_nothing() {
        let folder = env::temp_dir().join(format!("by-turns-counts-at-once-{}", std::process::id()));
        let file = folder.join("counts.csv");
        std::thread::scope(|scope| {
            for package in ["a", "b", "c", "d", "e", "f", "g", "h"] {
                let file = &file;
                scope
                    .spawn(move || save(file, package, "b", |_| true, &[count("b", "v", 1)]).expect("saved"));
            }
        });
        assert_eq!(fs::read_to_string(&file).expect("there").lines().count(), 1 + 8);
        fs::remove_dir_all(folder).expect("ours");
    }
}
