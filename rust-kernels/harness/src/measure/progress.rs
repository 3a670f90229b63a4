//! One line that says how far the measurement is and how long it will take.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Least time between two lines: a log of a long run stays readable.
const PAUSE: Duration = Duration::from_secs(2);

/// Characters inside the bar.
const WIDTH: u64 = 20;

/// Prints progress to standard output; on a terminal the line is redrawn in place.
pub(crate) struct Progress {
    study: String,
    /// What is counted in the line: `round` or `variant`.
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
    terminal: bool,
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
            terminal: std::io::stdout().is_terminal(),
        }
    }

    /// Prints the first line, with the trials of an earlier process counted as done.
    pub(crate) fn begin(&mut self, round: u32, variants: usize) {
        self.done = u64::from(round) * variants as u64;
        let text = self.line(round, self.time_left());
        self.print(&text);
    }

    /// Counts a trial of this round (from 0) and prints a line when the last one is old enough.
    pub(crate) fn trial(&mut self, round: u32) {
        self.done += 1;
        self.done_here += 1;
        if self.printed.is_none_or(|printed| printed.elapsed() >= PAUSE) {
            let text = self.line(round + 1, self.time_left());
            self.print(&text);
        }
    }

    /// Prints the last line.
    pub(crate) fn finish(&mut self) {
        self.done = self.trials;
        let text = self.line(self.rounds, format!("done in {}", duration(self.started.elapsed())));
        self.print(&text);
        if self.terminal {
            println!();
        }
    }

    fn time_left(&self) -> String {
        let trial = match u32::try_from(self.done_here) {
            Ok(done) if done > 0 => self.started.elapsed() / done,
            _ => self.planned_trial,
        };
        let left = trial.as_secs_f64() * self.trials.saturating_sub(self.done) as f64;
        format!("about {} left", duration(Duration::from_secs_f64(left)))
    }

    fn line(&self, round: u32, rest: String) -> String {
        let of = |whole: u64| (self.done * whole).checked_div(self.trials).unwrap_or(whole).min(whole);
        let (percent, full) = (of(100), of(WIDTH) as usize);
        let bar = format!("{}{}", "#".repeat(full), "-".repeat(WIDTH as usize - full));
        format!("[{bar}] {percent:>3} % · {} · {} {round} of {} · {rest}", self.study, self.unit, self.rounds)
    }

    fn print(&mut self, text: &str) {
        self.printed = Some(Instant::now());
        let mut out = std::io::stdout().lock();
        // Progress that nobody can read any more must not end a measurement.
        let _ = if self.terminal { write!(out, "\r{text}\x1b[K") } else { writeln!(out, "{text}") };
        let _ = out.flush();
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

    #[test]
    fn a_line_has_the_form_that_programs_read() {
        let mut progress = progress();
        progress.done = 240;
        let line = progress.line(24, "about 1 min 12 s left".to_owned());
        assert_eq!(line, "[########------------]  40 % · zero-cost · round 24 of 60 · about 1 min 12 s left");
    }

    #[test]
    fn the_plan_is_used_until_a_trial_was_measured() {
        assert_eq!(progress().time_left(), "about 1 min 12 s left");
    }

    #[test]
    fn a_resumed_run_does_not_count_earlier_trials_as_its_own_speed() {
        let mut progress = progress();
        progress.done = 300;
        assert_eq!(progress.time_left(), "about 36 s left");
    }

    #[test]
    fn durations_are_short() {
        let texts = [0, 59, 60, 3_599, 7_500].map(|seconds| duration(Duration::from_secs(seconds)));
        assert_eq!(texts, ["0 s", "59 s", "1 min 0 s", "59 min 59 s", "2 h 5 min"]);
    }

    #[test]
    fn the_bar_never_overflows() {
        let mut progress = progress();
        progress.done = 10_000;
        assert!(progress.line(60, String::new()).starts_with("[####################] 100 %"));
    }
}
