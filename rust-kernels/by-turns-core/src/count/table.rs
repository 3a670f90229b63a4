//! A table of exact counts: `<study>.counts.csv`.

use crate::base::csv;
use crate::base::key::Key;

const HEADER: &str = "study,bench,variant,parameter,counter,value";

/// What is counted, and by how many per cent it may grow, unless `--allow` sets another limit. Another build may shuffle a few
/// instructions, and a change of one variant those of its neighbours in the program; the others have no excuse.
pub const COUNTERS: [(&str, f64); 5] = [
    ("instructions", 1.0),
    ("allocations", 0.0),
    ("allocated_bytes", 0.0),
    ("system_calls", 0.0),
    ("future_bytes", 0.0),
];

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

/// What such a table holds; `None` if it is none.
pub fn read(text: &str) -> Option<Vec<Count>> {
    let count = |row: Vec<String>| {
        let [_, bench, variant, parameter, counter, value] = <[String; 6]>::try_from(row).ok()?;
        Some(Count { key: Key::new(bench, variant, parameter), counter, value: value.parse().ok()? })
    };
    csv::rows(text, HEADER)?.into_iter().map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_read_as_they_were_written() {
        let count = |variant: &str, value| Count {
            key: Key::new("b", variant, "n=1"),
            counter: "instructions".to_owned(),
            value,
        };
        let some = vec![count("a, b", 1), count("c", 2)];
        assert_eq!(read(&table("b", &some)), Some(some));
        assert_eq!(read("study\n"), None);
    }
}
