//! One line that says how far the measurement is and how long it will take.
//!
//! People read `[########------------]  40 % · zero-cost · round 24 of 60 · about 1 min 12 s left`. A program that sets
//! `ASYNC_COST_PROGRESS=json` reads one JSON object a line:
//! ```text
//! {"study":"zero-cost","unit":"round","round":24,"rounds":60,"done":240,"trials":600,"seconds_left":72.0}
//! ```
//!
//! | field | meaning |
//! |---|---|
//! | `study` | name of the study |
//! | `unit` | what `round` and `rounds` count: `round`, or `variant` while instructions are counted |
//! | `round` | the one in progress, from 1; in the first line, how many are whole |
//! | `rounds` | how many there are |
//! | `done` | trials done, those of earlier processes and of variants that failed included |
//! | `trials` | how many there are |
//! | `seconds_left` | estimate, to a tenth; 0 in the last line |

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Asks for JSON instead of a line for people.
pub(crate) const FORM: &str = "ASYNC_COST_PROGRESS";

/// Least time between two lines: a log of a long run stays readable.
const PAUSE: Duration = Duration::from_secs(2);

/// Characters inside the bar.
const WIDTH: u64 = 20;

/// Prints progress to standard output; on a terminal the line is redrawn in place.
pub(crate) struct Progress {
    study: String,
    unit: &'static str,
    rounds: u32,
    /// Trials of the whole study, and those done, in earlier processes included.
    trials: u64,
    done: u64,
    /// Trials done by this process: only they tell how fast this machine is now.
    done_here: u64,
    /// What a trial should take as long as none has been measured.
    planned_trial: Duration,
    started: Instant,
    printed: Option<Instant>,
    form: Form,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Form {
    /// Lines for people.
    Lines,
    /// One line for people, redrawn in place.
    Terminal,
    Json,
}

impl Form {
    /// What the environment asks for, else what suits standard output.
    pub(crate) fn here() -> Self {
        match std::env::var(FORM).as_deref() {
            Ok("json") => Self::Json,
            Ok("terminal") => Self::Terminal,
            _ if std::io::stdout().is_terminal() => Self::Terminal,
            _ => Self::Lines,
        }
    }

    /// What asks for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Lines => "lines",
            Self::Terminal => "terminal",
            Self::Json => "json",
        }
    }
}

/// What is known at one moment: see the head of this file.
#[derive(Serialize)]
struct State<'a> {
    study: &'a str,
    unit: &'a str,
    round: u32,
    rounds: u32,
    done: u64,
    trials: u64,
    seconds_left: f64,
}

impl Progress {
    /// Progress over `rounds` rounds (or whatever `unit` calls them) of so many variants each.
    pub(crate) fn new(
        study: &str,
        unit: &'static str,
        rounds: u32,
        variants: usize,
        planned_trial: Duration,
    ) -> Self {
        Self {
            study: study.to_owned(),
            unit,
            rounds,
            trials: u64::from(rounds) * variants as u64,
            done: 0,
            done_here: 0,
            planned_trial,
            started: Instant::now(),
            printed: None,
            form: Form::here(),
        }
    }

    /// Prints the first line, with the trials of an earlier process counted as done.
    pub(crate) fn begin(&mut self, round: u32, variants: usize) {
        self.done = u64::from(round) * variants as u64;
        self.print(round);
    }

    /// Counts a trial of this round (from 0) and prints a line when the last one is old enough.
    pub(crate) fn trial(&mut self, round: u32) {
        self.done += 1;
        self.done_here += 1;
        if self.printed.is_none_or(|printed| printed.elapsed() >= PAUSE) {
            self.print(round + 1);
        }
    }

    /// Prints the last line, when so many rounds are whole.
    pub(crate) fn finish(&mut self, rounds: u32) {
        if rounds == self.rounds {
            self.done = self.trials;
        }
        self.print(rounds);
        if self.form == Form::Terminal {
            println!();
        }
    }

    fn state(&self, round: u32) -> State<'_> {
        let trial = match u32::try_from(self.done_here) {
            Ok(done) if done > 0 => self.started.elapsed() / done,
            _ => self.planned_trial,
        };
        let left = trial.as_secs_f64() * self.trials.saturating_sub(self.done) as f64;
        let seconds_left = (10.0 * left).round() / 10.0;
        let Self { rounds, done, trials, .. } = *self;
        State { study: &self.study, unit: self.unit, round, rounds, done, trials, seconds_left }
    }

    fn line(&self, state: &State<'_>) -> String {
        let State { study, unit, round, rounds, done, trials, seconds_left } = state;
        let of = |whole: u64| (done * whole).checked_div(*trials).unwrap_or(whole).min(whole);
        let (percent, full) = (of(100), of(WIDTH) as usize);
        let bar = format!("{}{}", "#".repeat(full), "-".repeat(WIDTH as usize - full));
        let time = if done < trials {
            format!("about {} left", duration(Duration::from_secs_f64(*seconds_left)))
        } else {
            format!("done in {}", duration(self.started.elapsed()))
        };
        format!("[{bar}] {percent:>3} % · {study} · {unit} {round} of {rounds} · {time}")
    }

    fn print(&mut self, round: u32) {
        let state = self.state(round);
        let mut out = std::io::stdout().lock();
        // A closed output must not end a measurement.
        let _ = match self.form {
            Form::Lines => writeln!(out, "{}", self.line(&state)),
            Form::Terminal => write!(out, "\r{}\x1b[K", self.line(&state)),
            Form::Json => writeln!(out, "{}", serde_json::to_string(&state).unwrap_or_default()),
        };
        let _ = out.flush();
        self.printed = Some(Instant::now());
    }
}

/// A duration for people: `45 s`, `1 min 12 s`, `2 h 5 min`.
pub(crate) fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().round() as u64;
    match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        Progress::new("zero-cost", "round", 60, 10, Duration::from_millis(120))
    }

    /// Both forms after so many trials, all of an earlier process.
    fn forms(done: u64, round: u32) -> (String, String) {
        let mut progress = progress();
        progress.done = done;
        let state = progress.state(round);
        (progress.line(&state), serde_json::to_string(&state).expect("plain data"))
    }

    #[test]
    fn people_and_programs_are_told_the_same() {
        let (line, json) = forms(240, 24);
        assert_eq!(line, "[########------------]  40 % · zero-cost · round 24 of 60 · about 43 s left");
        let expected = r#"{"study":"zero-cost","unit":"round","round":24,"rounds":60,"done":240,"trials":600,"seconds_left":43.2}"#;
        assert_eq!(json, expected);
    }

    #[test]
    fn the_plan_is_used_until_a_trial_was_measured_and_earlier_ones_do_not_count_as_that() {
        assert!(forms(0, 0).0.ends_with("about 1 min 12 s left"));
        assert!(forms(300, 30).0.ends_with("about 36 s left"));
    }

    #[test]
    fn nothing_is_left_in_the_end_and_the_bar_never_overflows() {
        for done in [600, 10_000] {
            let (line, json) = forms(done, 60);
            assert!(
                line.starts_with("[####################] 100 %") && line.ends_with("done in 0 s"),
                "{line}"
            );
            assert!(json.ends_with("\"seconds_left\":0.0}"), "{json}");
        }
    }

    #[test]
    fn durations_are_short() {
        let texts = [0, 59, 60, 3_599, 7_500].map(|seconds| duration(Duration::from_secs(seconds)));
        assert_eq!(texts, ["0 s", "59 s", "1 min 0 s", "59 min 59 s", "2 h 5 min"]);
    }
}
