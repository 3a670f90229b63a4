//! What a study asks for and what becomes of it, as plain data.

use std::collections::BTreeMap;

use by_turns_core::base::key::Key;

/// Two keys of which a ratio is taken, in each round.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// The variant that is compared.
    pub key: Key,
    /// What it is compared with.
    pub baseline: Key,
    /// Name of the group that it is judged with.
    pub group: String,
    /// What changes from the baseline to the key: one line of Markdown.
    pub change: String,
    /// The unit of work in which the time of both is told, such as `request`.
    pub unit: String,
}

impl Comparison {
    /// Whether it is one of a variant with itself, measured a second time.
    pub(crate) fn is_control(&self) -> bool {
        self.key == self.baseline.again()
    }
}

/// What a study asks for: the part of its section that must not change between an interruption and its resumption.
pub(crate) struct Settings {
    /// Empty when every comparison names its own baseline.
    pub(crate) baseline: String,
    pub(crate) controls: Vec<String>,
    pub(crate) comparisons: Vec<Comparison>,
    pub(crate) groups: BTreeMap<String, f64>,
    /// What the trials of each group are like: their measurements err alike.
    pub(crate) kinds: BTreeMap<String, &'static str>,
    /// The largest number of samples of a trial.
    pub(crate) samples: usize,
}

/// A variant that was given up, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The variant.
    pub key: Key,
    /// Its message, on one line.
    pub error: String,
}
