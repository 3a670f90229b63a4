//! What the table warns of: what samples met, and iterations that do hardly anything.

use std::fs::{self, OpenOptions};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;

use by_turns_core::base::number::time;
use by_turns_core::run::files::at;
use by_turns_core::trial::sampling::{BATCH, timed};
use by_turns_core::trial::undisturbed::{Disturbance, take_disturbance};

/// How the names of such files end.
pub const DISTURBANCE: &str = "disturbance";

/// Adds what the samples of this process have met to a file.
///
/// # Errors
/// Where it cannot be written.
pub fn leave(file: &Path) -> Result<(), String> {
    let Disturbance { samples, again, disturbed } = take_disturbance();
    let opened = OpenOptions::new().create(true).append(true).open(file);
    opened.and_then(|mut file| writeln!(file, "{samples} {again} {disturbed}")).map_err(at(file))
}

/// What the samples of all processes have met, each of which left a line in this file.
pub fn met(file: &Path) -> Disturbance {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.lines().fold(Disturbance::default(), |all, line| {
        let mut numbers = line.split(' ').map(|number| number.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Disturbance {
            samples: all.samples + next(),
            again: all.again + next(),
            disturbed: all.disturbed + next(),
        }
    })
}

/// Nanoseconds of an iteration that does nothing: the call itself.
pub fn floor() -> f64 {
    const CALLS: u64 = 10_000;
    let nothing = &mut || _ = black_box(0_u64);
    let least = (0..50).map(|_| timed(nothing, CALLS)).min().unwrap_or_default();
    least.as_nanos() as f64 / CALLS as f64
}

/// Less than this many times the call itself is mostly that.
const MOSTLY: f64 = 3.0;
/// Less than this many times the call itself is no work at all.
const NOTHING: f64 = 1.3;

/// What to tell of an iteration that takes hardly longer than the call of it.
pub fn hardly_anything(name: &str, ns: f64, floor: f64) -> Option<String> {
    let remedy = match ns / floor {
        times if times < NOTHING => {
            "as long as one that does nothing: let an iteration do more; if it should take longer, the compiler has removed the work: \
             pass inputs through `black_box`"
        }
        times if times < MOSTLY => {
            "mostly the call itself: let an iteration do more, and say so by `.unit(…)`"
        }
        _ => return None,
    };
    Some(format!("{name}: an iteration takes {}, {remedy}", time(ns)))
}

/// Less between two readings of the clock, in nanoseconds, is partly the reading, some 50 ns, and caches that `make` has used.
const AT_ONCE: f64 = 5_000.0;

/// What to tell of an iteration of `iter_with` that takes `ns`, so many of which are timed at once.
pub fn short_batch(name: &str, ns: f64, at_once: u64) -> Option<String> {
    let few = match at_once {
        1 => "1 iteration is".to_owned(),
        some => format!("{some} iterations are"),
    };
    let why = if at_once < BATCH { ", since making an input takes long" } else { "" };
    let all = ns * at_once as f64;
    (all < AT_ONCE).then(|| {
        format!(
            "{name}: {few} timed at once{why}: {} is partly reading the clock and loading what `make` displaced from caches; let an \
             iteration do more, and say so by `.unit(…)`",
            time(all)
        )
    })
}

/// What to tell of a variant whose task runs on another thread than the one that drives it.
pub fn elsewhere(name: &str) -> String {
    format!(
        "{name}: its task runs on another thread, whose core may be disturbed unseen and whose instructions are not counted: call \
         `.threads()` before it"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_processes_met_adds_up() {
        let file = std::env::temp_dir().join(format!("by-turns-met-{}", std::process::id()));
        fs::write(&file, "10 2 1\n20 3 0\n").expect("a file");
        leave(&file).expect("a file");
        assert_eq!(met(&file), Disturbance { samples: 30, again: 5, disturbed: 1 });
        fs::remove_file(&file).expect("it is there");
        assert_eq!(met(&file), Disturbance::default());
    }

    #[test]
    fn what_is_hardly_longer_than_reading_the_clock_is_told() {
        let told = short_batch("a", 17.5, BATCH).expect("1 µs");
        assert!(told.starts_with("a: 64 iterations are timed at once: 1.12 µs is partly"), "{told}");
        let few = short_batch("a", 500.0, 1).expect("half a microsecond");
        assert!(
            few.starts_with("a: 1 iteration is timed at once, since making an input takes long: "),
            "{few}"
        );
        assert_eq!([short_batch("a", 80.0, BATCH), short_batch("a", 6_000.0, 1)], [None, None]);
    }

    #[test]
    fn an_iteration_that_does_hardly_anything_is_told() {
        assert_eq!(hardly_anything("a", 5.2, 1.7), None);
        let some = hardly_anything("a (n=2)", 4.0, 1.7).expect("mostly the call");
        assert!(some.starts_with("a (n=2): an iteration takes 4.00 ns, mostly the call itself"), "{some}");
        let none = hardly_anything("a", 1.8, 1.7).expect("no more than the call");
        assert!(none.contains("black_box"), "{none}");
        assert!(floor() > 0.1);
    }
}
