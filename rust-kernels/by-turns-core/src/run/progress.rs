//! What a bench says while it measures: a line that changes in a terminal, and a line now and then elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::run::budget::shown;

/// Elsewhere than in a terminal, at most one line in so long.
const SELDOM: Duration = Duration::from_secs(10);

/// What is said of a bench.
pub struct Progress {
    bench: String,
    terminal: bool,
    quiet: bool,
    said: Instant,
}

impl Progress {
    /// Of a bench that begins now.
    pub fn of(bench: &str, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal() && !quiet;
        Self { bench: bench.to_owned(), terminal, quiet, said: Instant::now() }
    }

    /// Says it in place of what was said before.
    pub fn say(&mut self, what: &str) {
        if self.terminal {
            eprint!("\r{}: {what}\x1b[K", self.bench);
            let _ = std::io::stderr().flush();
        } else if !self.quiet && self.said.elapsed() >= SELDOM {
            eprintln!("{}: {what}", self.bench);
            self.said = Instant::now();
        }
    }
}

impl Drop for Progress {
    /// What comes next has a line of its own.
    fn drop(&mut self) {
        if self.terminal {
            eprint!("\r\x1b[K");
        }
    }
}

/// How far it is, in processes or `what` is counted instead.
pub fn step(what: &str, done: u32, of: u32, left: Option<Duration>) -> String {
    let left = left
        .map_or(String::new(), |left| format!(", about {} left", shown(left.max(Duration::from_secs(1)))));
    format!("{what} {} of {of}{left}", done + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_is_left() {
        assert_eq!(step("process", 0, 24, None), "process 1 of 24");
        assert_eq!(step("pair", 2, 24, Some(Duration::from_secs(40))), "pair 3 of 24, about 40 s left");
    }
}
