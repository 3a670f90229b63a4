//! What a measurement hands back.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::base::declared::Failure;
use crate::measure::progress::duration;

/// A finished measurement: what was measured, and where the samples are. What they say is the analysis' business.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Name of the study.
    pub study: String,
    /// Variants, controls and those that failed included.
    pub variants: usize,
    /// Pairs of variants that are compared.
    pub comparisons: usize,
    /// Rounds measured.
    pub rounds: u32,
    /// Time spent in this call.
    pub elapsed: Duration,
    /// Variants that were left out from some round on, with their messages.
    pub failed: Vec<Failure>,
    /// Folder of the run, relative to the repository.
    pub directory: PathBuf,
    /// Whether the folder is that of a whole run, which can be shown; else an outer program goes on with it.
    pub(crate) whole: bool,
}

impl Outcome {
    /// Shows it in a notebook: evcxr calls this for the value of a cell.
    pub fn evcxr_display(&self) {
        println!("EVCXR_BEGIN_CONTENT text/plain\n{self}\nEVCXR_END_CONTENT");
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { study, variants, comparisons, rounds, .. } = self;
        let (elapsed, folder) = (duration(self.elapsed), self.directory.display());
        writeln!(f, "{study}: {variants} variants, {comparisons} comparisons, {rounds} rounds in {elapsed}")?;
        for Failure { key, error } in &self.failed {
            writeln!(f, "left out: {key}: {error}")?;
        }
        write!(f, "every sample is in {folder}")?;
        if self.whole { write!(f, "; show it: make report RUN={folder}") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use by_turns_core::base::key::Key;

    #[test]
    fn it_says_what_was_measured_what_failed_and_how_to_go_on() {
        let failed = Failure { key: Key::new("b", "v", "p=1"), error: "lost".to_owned() };
        let mut outcome = Outcome {
            study: "sum".to_owned(),
            variants: 3,
            comparisons: 2,
            rounds: 12,
            elapsed: Duration::from_secs(72),
            failed: vec![failed],
            directory: PathBuf::from("data/runs/m/t"),
            whole: true,
        };
        let text = "sum: 3 variants, 2 comparisons, 12 rounds in 1 min 12 s\nleft out: b/v@p=1: lost\nevery sample is in data/runs/m/t";
        assert_eq!(outcome.to_string(), format!("{text}; show it: make report RUN=data/runs/m/t"));
        outcome.whole = false;
        assert_eq!(outcome.to_string(), text);
    }
}
