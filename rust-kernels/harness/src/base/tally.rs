//! Numbers that a program leaves as it runs, a set for each thread: for probes, which count in one instance of generic
//! code what they ignore in the other.
//!
//! ```
//! # use harness::{Counts, tally};
//! enum Counter { Polls, Peak }
//! tally::add(Counter::Polls as usize, 2);
//! tally::peak(Counter::Peak as usize, 3);
//! tally::peak(Counter::Peak as usize, 1);
//! assert_eq!(tally::take(["polls", "peak"]), Counts::from([("polls", 2), ("peak", 3)]));
//! assert_eq!(tally::value(Counter::Polls as usize), 0);
//! ```

use std::cell::Cell;

use crate::base::proof::Counts;

/// How many numbers there are.
const ROOM: usize = 32;

thread_local! {
    static TALLY: [Cell<u64>; ROOM] = const { [const { Cell::new(0) }; ROOM] };
}

/// `times` more of this number.
pub fn add(number: usize, times: u64) {
    TALLY.with(|tally| tally[number].update(|value| value + times));
}

/// It is this large `now`; the largest value counts.
pub fn peak(number: usize, now: u64) {
    TALLY.with(|tally| tally[number].update(|value| value.max(now)));
}

/// What this number of this thread has become since it was last taken.
pub fn value(number: usize) -> u64 {
    TALLY.with(|tally| tally[number].get())
}

/// The first numbers of this thread, by name; all begin again at zero.
pub fn take<const COUNT: usize>(names: [&'static str; COUNT]) -> Counts {
    TALLY.with(|tally| names.into_iter().zip(tally.each_ref().map(Cell::take)).collect())
}
