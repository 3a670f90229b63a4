//! A probe whose clock stands still until it is set.
#![allow(dead_code, reason = "not every test reads the clock itself")]

use std::cell::Cell;
use std::time::{Duration, Instant};

use call_styles_event_loop::{Counted, Counter, Probe};

thread_local! {
    static TIME: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Counts as `Counted` does.
pub struct Still;

impl Probe for Still {
    fn add(counter: Counter, times: u64) {
        Counted::add(counter, times);
    }

    fn now(_: Instant) -> Duration {
        TIME.get()
    }
}

/// What the clock of this thread shows.
pub fn time() -> Duration {
    TIME.get()
}

/// Moves the clock of this thread on.
pub fn advance(by: Duration) {
    TIME.set(TIME.get() + by);
}
