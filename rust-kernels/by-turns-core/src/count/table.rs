//! A table of exact counts: `<study>.counts.csv`.

use crate::base::csv;
use crate::base::key::Key;

const HEADER: &str = "study,bench,variant,parameter,counter,value";

/// An exact count of one variant, of one iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    /// The variant.
    pub key: Key,
    /// A counter; with `_varies` behind it, by how much iterations differ.
    pub counter: String,
    /// How much.
    pub value: u64,
}

/// As the table `<bench>.counts.csv`.
pub fn table(study: &str, counts: &[Count]) -> String {
    let row = |Count { key, counter, value }: &Count| {
        csv::line([study, &key.bench, &key.variant, &key.parameter, counter, &value.to_string()]) + "\n"
    };
    format!("{HEADER}\n") + &counts.iter().map(row).collect::<String>()
}
