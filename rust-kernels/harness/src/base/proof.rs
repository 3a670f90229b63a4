//! Equal work, proven by counts before anything is timed.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// What one iteration did, by the name of the counter.
pub type Counts = BTreeMap<&'static str, u64>;

/// Compares what was counted with what must be; counters that are not expected are not compared.
///
/// What was counted may come from a child process ([`isolated`](crate::isolated())), with names of its own:
/// ```
/// # use std::collections::BTreeMap;
/// # use std::time::Duration;
/// # use harness::{Counts, isolated, prove};
/// let count = || BTreeMap::from([("spawns".to_owned(), 1_000), ("wakes".to_owned(), 3)]);
/// let found = isolated(Duration::from_secs(60), count).unwrap();
/// assert!(prove("nio", &Counts::from([("spawns", 1_000)]), &found).is_ok());
/// let wrong = prove("nio", &Counts::from([("spawns", 999), ("joins", 999)]), &found).unwrap_err();
/// let lines = ["nio does other work than it should:", "joins: 999 expected, nothing counted", "spawns: 999 expected, 1000 counted"];
/// assert_eq!(wrong.to_string(), lines.join("\n"));
/// ```
///
/// # Errors
/// One line for each count that is missing or wrong, below a line with `name`.
pub fn prove(
    name: impl fmt::Display,
    expected: &Counts,
    found: &BTreeMap<impl Borrow<str> + Ord, u64>,
) -> Result<(), UnequalWork> {
    let wrong = expected.iter().filter(|(counter, count)| found.get(**counter) != Some(*count));
    let lines: Vec<String> = wrong
        .map(|(counter, count)| {
            let found = found.get(*counter).map_or("nothing".to_owned(), u64::to_string);
            format!("{counter}: {count} expected, {found} counted")
        })
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    Err(UnequalWork(format!("{name} does other work than it should:\n{}", lines.join("\n"))))
}

/// Proves a variant whose code is compiled twice, once to be timed and once to count.
///
/// `counted`, of the counting code, must hold what is `expected`. `timed` holds the counts that the timed code keeps as
/// well, such as its calls of a fake system, and those must be equal. Returns `counted`:
/// ```
/// # use harness::{Counts, UnequalWork, prove_both};
/// # fn count_of(_: fn()) -> Counts { Counts::from([("reads", 256), ("wakes", 256)]) }
/// # fn calls_of(_: fn()) -> Counts { Counts::from([("reads", 256)]) }
/// # fn timed() {}
/// # fn counting() {}
/// let expected = Counts::from([("reads", 256), ("wakes", 256)]);
/// let counts = prove_both("boxed", &expected, count_of(counting), &calls_of(timed))?;
/// assert_eq!(counts["wakes"], 256);
/// # Ok::<(), UnequalWork>(())
/// ```
///
/// # Errors
/// As [`prove`], for either code.
///
/// # Panics
/// If the timed code counts nothing: then nothing about it is proven.
pub fn prove_both(
    name: impl fmt::Display,
    expected: &Counts,
    counted: Counts,
    timed: &Counts,
) -> Result<Counts, UnequalWork> {
    assert!(!timed.is_empty(), "{name}: the timed code counts nothing, so nothing about it is proven");
    prove(&name, expected, &counted)?;
    let also_timed: Counts =
        timed.keys().map(|counter| (*counter, counted.get(counter).copied().unwrap_or(0))).collect();
    prove(format!("the timed code of {name}"), &also_timed, timed)?;
    Ok(counted)
}

/// A variant does other work than it should. Says which one, and one line for each count that is wrong.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnequalWork(String);

/// For a proof that found something other than a wrong count, such as one that broke off in its process.
impl From<String> for UnequalWork {
    fn from(reason: String) -> Self {
        Self(reason)
    }
}

impl fmt::Display for UnequalWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// As `Display`, because this is what is shown when `main` returns it.
impl fmt::Debug for UnequalWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UnequalWork {}

/// Says what is wrong and ends the program. In a notebook this fails the cell, and no later one is run: the kernel
/// itself only prints an error that a cell hands to `?`, and goes on.
pub fn stop<T>(error: impl fmt::Display) -> T {
    println!("{error}");
    std::process::exit(1)
}
