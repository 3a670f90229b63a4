//! Fresh processes, each of which measures some of the rounds.
//!
//! Where code, heap and stack lie in memory is drawn when a process starts, and stays for its life; so all rounds of one
//! process err together. The bench starts itself again for each, and tells it by the environment what to measure.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::caution;
use by_turns_core::base::csv;
use by_turns_core::base::key::Key;
use by_turns_core::trial::bencher::{Bencher, TrialError};
use by_turns_core::trial::draw;
use by_turns_core::trial::rounds;
use by_turns_core::trial::sampling::{SAMPLES, Trial};

/// Tells a process of which bench it measures which rounds, in which order, and where to.
const EPISODE: &str = "BY_TURNS_EPISODE";
/// Least time that a trial runs untimed, and the time that its samples take together.
pub const WARM_UP: Duration = Duration::from_micros(300);
/// The time that the samples of a trial take together.
pub const TRIAL: Duration = Duration::from_millis(1);

/// One such process.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// The bench.
    pub bench: String,
    /// The first of its rounds.
    pub first: u32,
    /// The round after its last.
    pub until: u32,
    /// From which the order of each round is drawn.
    pub seed: u64,
    /// The file that it writes its samples to.
    pub to: PathBuf,
}

/// What is measured in turns.
pub struct Measured<'a> {
    /// Its name.
    pub key: Key,
    /// It, as a trial calls it.
    pub function: Box<dyn Fn(&mut Bencher<'_>) + 'a>,
    /// Whether it uses several threads.
    pub threads: bool,
}

impl Episode {
    /// What this process was started for, if it was.
    pub fn of_this_process() -> Option<Self> {
        let told = env::var(EPISODE).ok()?;
        let mut words = told.splitn(5, ' ');
        let bench = words.next()?.to_owned();
        let (first, until) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(Self {
            bench,
            first,
            until,
            seed: words.next()?.parse().ok()?,
            to: PathBuf::from(words.next()?),
        })
    }

    /// Runs `program`, with the arguments of this one, as a process that measures this. Returns the rows that it wrote.
    ///
    /// # Errors
    /// What became of it.
    pub fn run(&self, program: &Path) -> Result<String, String> {
        let Self { bench, first, until, seed, to } = self;
        let status = Command::new(program)
            .args(env::args_os().skip(1))
            .env(EPISODE, format!("{bench} {first} {until} {seed} {}", to.display()))
            .env("BY_TURNS_PADDING", draw::padding())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status()
            .map_err(|error| format!("a process could not be started: {error}"))?;
        if !status.success() {
            return Err(format!("a process that measures ended with {status}"));
        }
        std::fs::read_to_string(to).map_err(|error| format!("a process left no samples: {error}"))
    }

    /// Measures, in this process. `neighbours` says what each is compared with.
    ///
    /// # Errors
    /// What failed.
    pub fn measure(&self, measured: &[Measured<'_>], neighbours: &[Vec<usize>]) -> Result<(), String> {
        draw::heap();
        let mut lines = String::new();
        for round in self.first..self.until {
            for (position, index) in rounds::order(self.seed, round, neighbours).into_iter().enumerate() {
                let Measured { key, function, threads } = &measured[index];
                let undisturbed = !threads;
                let trial =
                    Trial { warm_up: WARM_UP, time: TRIAL, samples: SAMPLES, resources: false, undisturbed };
                let samples = trial.run(&**function).map_err(|trial_error| match trial_error {
                    TrialError::Failed(why) | TrialError::Misused(why) => format!("{key} failed: {why}"),
                })?;
                for (number, sample) in samples.iter().enumerate() {
                    let place = [round as usize, position, number].map(|number| number.to_string());
                    let taken = [sample.iterations.to_string(), sample.elapsed.as_nanos().to_string()];
                    let names = [&self.bench, &key.bench, &key.variant, &key.parameter];
                    let cells = names.into_iter().chain(&place).chain(&taken);
                    lines.push_str(&csv::line(cells));
                    lines.push('\n');
                }
            }
        }
        caution::leave(&self.to.with_extension(caution::MET))?;
        std::fs::write(&self.to, lines).map_err(|error| format!("the samples could not be written: {error}"))
    }
}
