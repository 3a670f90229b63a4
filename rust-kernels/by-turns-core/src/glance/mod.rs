//! A glance at some functions: measured in turns for some seconds, shown where it stands, and kept nowhere.

use std::fmt;
use std::fmt::Write;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::base::number::time;
use crate::base::random;
use crate::base::sample::Sample;
use crate::judge::interval::median;
use crate::judge::student;
use crate::trial::bencher::{Bencher, Function, TrialError};
use crate::trial::rounds;
use crate::trial::sampling::{OF_A_PROCESS, Trial};

/// How long each function is looked at.
const EACH: Duration = Duration::from_secs(1);
/// Fewer rounds give no interval that holds the median in 95 %.
const LEAST_ROUNDS: u32 = 6;
/// Characters of the longest bar.
const BAR: f64 = 40.0;

/// Functions to be compared at a glance, for a cell of a notebook or a terminal. The first one is what the others are
/// compared with.
///
/// ```
/// # use by_turns_core::{Bencher, Glance};
/// # if false {
/// let sum = |end: u64| move |bencher: &mut Bencher| {
///     bencher.iter(&mut || drop(std::hint::black_box((0..std::hint::black_box(end)).fold(0, |sum, n| sum ^ n))))
/// };
/// println!("{}", Glance::at("call").look("short", sum(100)).look("long", sum(200)).show());
/// # }
/// ```
///
/// It is no evidence: one process, some seconds, no control. And it leaves nothing behind. Where a whole notebook is
/// run by a command (`ASYNC_COST_PARTIAL` is set), it is skipped.
#[must_use]
pub struct Glance<'a> {
    unit: String,
    /// How many of them an iteration does, of the functions that are added next.
    units: u64,
    /// What takes each trial, where that is not this process.
    taker: Option<Box<Taker<'a>>>,
    functions: Vec<Candidate<'a>>,
}

/// The samples of a trial.
pub type Taken = Result<Vec<Sample>, TrialError>;
type Taker<'a> = dyn Fn(&dyn Fn() -> Taken) -> Taken + 'a;

/// A function that is looked at.
struct Candidate<'a> {
    name: String,
    units: u64,
    function: Rc<Function<'a>>,
}

impl<'a> Glance<'a> {
    /// One iteration is one `unit`, such as a call.
    pub fn at(unit: &str) -> Self {
        Self { unit: unit.to_owned(), units: 1, taker: None, functions: vec![] }
    }

    /// One iteration of the functions that are added from here on is so many of them.
    ///
    /// # Panics
    /// If that is none.
    pub fn each_of(mut self, units: u64) -> Self {
        assert!(units > 0, "each_of(0): an iteration does at least one {}", self.unit);
        self.units = units;
        self
    }

    /// Adds a function under a name.
    pub fn look(mut self, name: &str, function: impl Fn(&mut Bencher<'_>) + 'a) -> Self {
        self.functions.push(Candidate {
            name: name.to_owned(),
            units: self.units,
            function: Rc::new(function),
        });
        self
    }

    /// Each trial is taken by this, in a process of its own.
    pub fn trials_by(mut self, taker: impl Fn(&dyn Fn() -> Taken) -> Taken + 'a) -> Self {
        self.taker = Some(Box::new(taker));
        self
    }

    /// Measures all of them in turns, a second for each.
    pub fn show(self) -> Seen {
        let number = self.functions.len();
        if std::env::var_os("ASYNC_COST_PARTIAL").is_some() {
            return Seen { unit: self.unit, rounds: 0, rows: vec![] };
        }
        let longer = if self.taker.is_some() { OF_A_PROCESS } else { 1 };
        let (warm_up, time) = (Duration::from_micros(150) * longer, Duration::from_micros(500) * longer);
        let trial = Trial { warm_up, time, samples: 2, observer: None, undisturbed: self.taker.is_none() };
        let seed = random::new_seed().unwrap_or_default();
        let neighbours = rounds::neighbours(number, (1..number).map(|other| (other, 0)));
        let mut times: Vec<Result<Vec<f64>, String>> = vec![Ok(vec![]); number];
        let (start, mut round) = (Instant::now(), 0);
        while round < LEAST_ROUNDS || start.elapsed() < EACH * number as u32 {
            for index in rounds::order(seed, round, &neighbours) {
                let Ok(taken) = &mut times[index] else { continue };
                let Candidate { units, function, .. } = &self.functions[index];
                let take = || trial.run(&**function);
                match self.taker.as_ref().map_or_else(take, |taker| taker(&take)) {
                    Ok(samples) => {
                        let mut ns: Vec<f64> = samples
                            .iter()
                            .map(|sample| sample.elapsed.as_nanos() as f64 / sample.iterations as f64)
                            .collect();
                        taken.push(median(&mut ns) / *units as f64);
                    }
                    Err(TrialError::Failed(why) | TrialError::Misused(why)) => times[index] = Err(why),
                }
            }
            round += 1;
        }
        let first = times.first().and_then(|times| times.as_ref().ok()).cloned();
        let rows = self.functions.into_iter().zip(times).enumerate();
        let rows = rows.map(|(place, (Candidate { name, .. }, times))| Row {
            name,
            times: times.map(|times| Times::of(&times, first.as_deref().filter(|_| place > 0))),
        });
        Seen { unit: self.unit, rounds: round, rows: rows.collect() }
    }
}

/// What was seen; shows itself as the value of a cell.
#[derive(Clone, Debug)]
pub struct Seen {
    unit: String,
    rounds: u32,
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    name: String,
    times: Result<Times, String>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Times {
    /// Nanoseconds of a unit of work, in the middle over rounds.
    ns: f64,
    /// Over the first one's in the same round: in the middle, and its 95 % interval.
    ratio: Option<[f64; 3]>,
}

impl Times {
    fn of(times: &[f64], first: Option<&[f64]>) -> Self {
        let ratio = first.map(|first| {
            let mut ratios: Vec<f64> = times.iter().zip(first).map(|(ns, other)| ns / other).collect();
            let middle = median(&mut ratios);
            let low = student::rank(ratios.len());
            [middle, ratios[low], ratios[ratios.len() - 1 - low]]
        });
        Self { ns: median(&mut times.to_vec()), ratio }
    }
}

impl Seen {
    /// Name, time, ratio and length of the bar, from 0 to 1. A bar shows the ratio: times of different rounds are not
    /// comparable.
    fn cells(&self) -> impl Iterator<Item = (&str, String, String, f64)> {
        let length = |times: &Times| times.ratio.map_or(1.0, |[middle, ..]| middle);
        let most =
            self.rows.iter().filter_map(|row| Some(length(row.times.as_ref().ok()?))).fold(0.0, f64::max);
        self.rows.iter().map(move |row| match &row.times {
            Err(why) => (&*row.name, format!("failed: {why}"), String::new(), 0.0),
            Ok(times) => {
                let interval =
                    times.ratio.map(|[middle, low, high]| format!("{middle:.3} ({low:.3} to {high:.3})"));
                (&*row.name, time(times.ns), interval.unwrap_or_default(), length(times) / most)
            }
        })
    }

    fn heading(&self) -> String {
        format!(
            "a glance, not evidence: median time for one {}, and median ratio to the first in the same round, over {} rounds of one process; \
             another compilation may differ by more than the brackets say",
            self.unit, self.rounds
        )
    }

    /// Shows it in a notebook: evcxr calls this for the value of a cell.
    pub fn evcxr_display(&self) {
        if self.rows.is_empty() {
            return;
        }
        println!("EVCXR_BEGIN_CONTENT text/html\n{}\nEVCXR_END_CONTENT", self.html());
        println!("EVCXR_BEGIN_CONTENT text/plain\n{self}\nEVCXR_END_CONTENT");
    }

    fn html(&self) -> String {
        let mut text = format!(
            "<table><caption>{}</caption><tr><th></th><th>one {}</th><th>ratio (95 %)</th><th></th></tr>",
            escaped(&self.heading()),
            escaped(&self.unit)
        );
        for (name, time, ratio, bar) in self.cells() {
            let bar =
                format!("<div style=\"background:#4c78a8;height:1em;width:{:.1}em\"></div>", 20.0 * bar);
            let cells = [escaped(name), escaped(&time), escaped(&ratio), bar];
            let row: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
            let _ = write!(text, "<tr>{row}</tr>");
        }
        text + "</table>"
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let wide = |of: fn((&str, String, String, f64)) -> usize| self.cells().map(of).max().unwrap_or(0);
        let (names, times, ratios) = (
            wide(|cells| cells.0.chars().count()),
            wide(|cells| cells.1.chars().count()),
            wide(|cells| cells.2.len()),
        );
        write!(f, "{}", self.heading())?;
        for (name, time, ratio, bar) in self.cells() {
            let bar = "█".repeat((BAR * bar).round() as usize);
            write!(f, "\n{name:names$}  {time:>times$}  {ratio:ratios$}  {bar}")?;
        }
        Ok(())
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: Vec<(&str, Result<Times, String>)>) -> Seen {
        let rows = rows.into_iter().map(|(name, times)| Row { name: name.to_owned(), times }).collect();
        Seen { unit: "call".to_owned(), rounds: 9, rows }
    }

    #[test]
    fn the_interval_is_that_of_order_statistics() {
        let times = Times::of(&[2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0], Some(&[1.0; 7]));
        assert_eq!(times, Times { ns: 8.0, ratio: Some([8.0, 2.0, 14.0]) });
    }

    #[test]
    fn it_is_read_in_a_terminal_and_in_a_notebook() {
        let seen = shown(vec![
            ("manual", Ok(Times { ns: 118.3, ratio: None })),
            ("non<box", Ok(Times { ns: 236.6, ratio: Some([2.0, 1.9, 2.1]) })),
            ("lost", Err("a wake".to_owned())),
        ]);
        let lines: Vec<String> = seen.to_string().lines().map(str::to_owned).collect();
        assert_eq!(
            lines[0],
            "a glance, not evidence: median time for one call, and median ratio to the first in the same round, over 9 rounds of one process; \
             another compilation may differ by more than the brackets say"
        );
        assert!(lines[1].starts_with("manual ") && lines[1].contains("118 ns"), "{}", lines[1]);
        assert!(lines[2].contains("2.000 (1.900 to 2.100)") && lines[2].ends_with(&"█".repeat(40)));
        assert!(lines[1].ends_with(&"█".repeat(20)) && !lines[1].ends_with(&"█".repeat(21)));
        assert!(lines[3].contains("failed: a wake"));
        assert!(seen.html().contains("<td>non&lt;box</td>") && !seen.html().contains("non<box"));
        assert!(seen.html().contains("<th>one call</th><th>ratio (95 %)</th>"), "{}", seen.html());
        assert_eq!(shown(vec![]).to_string(), "", "nothing was looked at");
    }

    #[test]
    fn twice_the_work_takes_longer_and_what_fails_says_why() {
        let sum = |end: u64| {
            move |bencher: &mut Bencher<'_>| {
                bencher.iter(&mut || {
                    let end = std::hint::black_box(end);
                    std::hint::black_box((0..end).fold(0_u64, |sum, n| std::hint::black_box(sum ^ n)));
                });
            }
        };
        let shown = Glance::at("step")
            .each_of(100)
            .look("short", sum(100))
            .look("long", sum(200))
            .look("broken", |bencher| bencher.fail("on purpose"))
            .show();
        assert!(shown.rounds >= LEAST_ROUNDS);
        let [short, long, broken] = &shown.rows[..] else { panic!("three rows") };
        let (short, long) = (short.times.clone().expect("a time"), long.times.clone().expect("a time"));
        assert!(short.ratio.is_none() && long.ratio.is_some_and(|[middle, ..]| middle > 1.2), "{long:?}");
        assert_eq!(broken.times, Err("on purpose".to_owned()));
    }
}
