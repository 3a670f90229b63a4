//! Fresh processes, each of which measures some of the rounds.
//!
//! Where code, heap and stack lie in memory is drawn when a process starts, and stays for its life; so all rounds of one
//! process err together. The bench starts itself again for each, and tells it by the environment what to measure.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::caution;
use crate::equal_work::failed;
use crate::places::Places;
use by_turns_core::base::csv;
use by_turns_core::base::key::Key;
use by_turns_core::run::budget::{TRIAL, WARM_UP};
use by_turns_core::run::files::{at, last_lines};
use by_turns_core::run::process::{self, Asked, Caught};
use by_turns_core::trial::bencher::Bencher;
use by_turns_core::trial::draw;
use by_turns_core::trial::rounds;
use by_turns_core::trial::sampling::Trial;

/// Tells a process what it measures, as JSON.
const EPISODE: &str = "BY_TURNS_EPISODE";
/// So often it is looked whether a process has ended whose streams are held open by another one, and what a signal asks for.
const TICK: Duration = Duration::from_millis(250);

/// One such process.
#[derive(Clone, Debug, PartialEq)]
pub struct Episode {
    /// The bench.
    pub bench: String,
    /// The first of its rounds.
    pub first: u32,
    /// The round after its last.
    pub until: u32,
    /// Samples of each trial.
    pub samples: usize,
    /// Whether it proves as little as it can.
    pub brief: bool,
    /// From which the order of each round is drawn.
    pub seed: u64,
    /// The work of the baselines in the process that has started it: see [`fingerprint`](by_turns_core::run::work::fingerprint).
    pub work: u64,
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

/// Why a process has left no samples.
#[derive(Debug)]
pub enum End {
    /// A signal asked for it.
    Asked(Asked),
    /// It failed so.
    Failed(String),
}

impl Episode {
    /// What this process was started for, if it was.
    pub fn of_this_process() -> Option<Self> {
        Self::read(&serde_json::from_str(&env::var(EPISODE).ok()?).ok()?)
    }

    fn read(json: &Value) -> Option<Self> {
        let number = |name: &str| json[name].as_u64();
        Some(Self {
            bench: json["bench"].as_str()?.to_owned(),
            first: number("first")? as u32,
            until: number("until")? as u32,
            samples: number("samples")? as usize,
            brief: json["brief"].as_bool()?,
            seed: number("seed")?,
            work: number("work")?,
            to: PathBuf::from(json["to"].as_str()?),
        })
    }

    fn to_json(&self) -> Value {
        let Self { bench, first, until, samples, brief, seed, work, to } = self;
        json!({
            "bench": bench, "first": first, "until": until, "samples": samples, "brief": brief,
            "seed": seed, "work": work, "to": to.to_string_lossy(),
        })
    }

    /// Runs `program`, with the arguments of this one, as a process that measures this. Returns the rows that it wrote.
    ///
    /// # Errors
    /// What became of it.
    pub fn run(
        &self,
        program: &Path,
        places: &Places,
        pin: Option<usize>,
        caught: &Caught,
        meanwhile: &mut dyn FnMut(),
    ) -> Result<String, End> {
        let mut command = Command::new(program);
        command
            .args(env::args_os().skip(1))
            .current_dir(&places.started_in)
            .env(EPISODE, self.to_json().to_string());
        command.env("BY_TURNS_PADDING", draw::padding());
        // The process that started this one prints what the program prints; of errors it shows the last lines.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = process::bound(&mut command, pin).spawn().map_err(|error| {
            let pinned = pin.map_or(String::new(), |core| format!(" on core {core} (--pin)"));
            End::Failed(format!("a process could not be started{pinned}: {error}"))
        })?;
        let (say, said) = mpsc::channel();
        let stderr = child.stderr.take().expect("it is piped");
        thread::spawn(move || say.send(last_lines(stderr)));
        let mut words = String::new();
        let status = loop {
            match said.recv_timeout(TICK) {
                Ok(said) => words = said,
                Err(RecvTimeoutError::Timeout) => meanwhile(),
                Err(RecvTimeoutError::Disconnected) => thread::sleep(TICK / 250), // it is about to end
            }
            if let Some(asked) = caught.asked() {
                let _ = child.kill();
                let _ = child.wait();
                return Err(End::Asked(asked));
            }
            if let Some(status) = child.try_wait().map_err(|error| End::Failed(error.to_string()))? {
                break status;
            }
        };
        if words.is_empty() {
            words = said.recv_timeout(TICK).unwrap_or_default();
        }
        if let Some(asked) = caught.asked() {
            return Err(End::Asked(asked)); // of Ctrl-C, which it got as well
        }
        if !status.success() {
            let said = if words.is_empty() { String::new() } else { format!(":\n{words}") };
            return Err(End::Failed(format!("a process that measures ended with {status}{said}")));
        }
        std::fs::read_to_string(&self.to).map_err(|error| End::Failed(at(&self.to)(error)))
    }

    /// Refuses to measure where the baselines did other work than in the process that has started this one.
    ///
    /// # Errors
    /// Why.
    pub fn same_input(&self, work: u64) -> Result<(), String> {
        if work == self.work {
            return Ok(());
        }
        Err(format!(
            "{}: a baseline's first result in this process differs from that in the process that started it. The program's main \
             runs again in each process that measures, and must have the same input each time: no standard input, no random \
             seed of its own, no file that changes",
            self.bench
        ))
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
                let trial = Trial {
                    warm_up: WARM_UP,
                    time: TRIAL,
                    samples: self.samples,
                    observer: None,
                    undisturbed,
                };
                let samples = trial.run(&**function).map_err(|error| failed(key, error))?;
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
        caution::leave(&self.to.with_extension(caution::DISTURBANCE))?;
        std::fs::write(&self.to, lines).map_err(at(&self.to))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_all_that_it_measures() {
        let episode = Episode {
            bench: "a \"b\" ü".to_owned(),
            first: 24,
            until: 48,
            samples: 2,
            brief: true,
            seed: (1 << 53) - 1,
            work: u64::MAX,
            to: PathBuf::from("/w/a folder/samples.csv"),
        };
        let json = serde_json::from_str(&episode.to_json().to_string()).expect("JSON");
        assert_eq!(Episode::read(&json), Some(episode));
    }

    #[test]
    fn a_process_that_fails_is_quoted_by_its_last_lines() {
        let mut command = Command::new("sh");
        command.args(["-c", "for n in $(seq 200); do echo $n >&2; done"]).stderr(Stdio::piped());
        let mut child = command.spawn().expect("a shell");
        let said = last_lines(child.stderr.take().expect("piped"));
        assert!(child.wait().expect("it ends").success());
        assert!(said.starts_with("141\n") && said.ends_with("\n200"), "{said}");
    }
}
