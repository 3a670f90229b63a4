//! A table of exact counts: `<study>.counts.csv`.

use crate::base::csv;
use crate::base::key::Key;
use crate::base::number::grouped;

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

/// What became of a number of a variant that is there before and after.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is the same.
    Same,
    /// It changed by no more than it may, or cannot be judged.
    Within(String),
    /// It grew by more than it may.
    Grown(String),
    /// It is not counted any more.
    Lost,
}

impl Change {
    /// Of a counter whose values these are, before and after, and which may grow by `most` per cent. What `varies` from iteration to
    /// iteration is not judged. `None` of what was never counted.
    pub fn of(values: [Option<u64>; 2], varies: bool, most: f64) -> Option<Self> {
        Some(match values {
            [None, None] => return None,
            [None, Some(_)] => Self::Within("was not counted before".to_owned()),
            [Some(_), None] => Self::Lost,
            _ if varies => Self::Within("differs from iteration to iteration".to_owned()),
            [Some(old), Some(new)] if old == new => Self::Same,
            [Some(old), Some(new)] => {
                let growth = (new as f64 - old as f64) / old as f64 * 100.0;
                let said =
                    if growth.is_finite() { format!("{growth:+.2} %") } else { format!("+{}", grouped(new)) };
                if growth > most { Self::Grown(said) } else { Self::Within(said) }
            }
        })
    }
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
    fn growth_counts_beyond_its_limit_and_what_is_lost_is_told() {
        let of = |before, after| Change::of([before, after], false, 1.0);
        assert_eq!(of(Some(1_000), Some(1_010)), Some(Change::Within("+1.00 %".to_owned())));
        assert_eq!(of(Some(1_000), Some(1_011)), Some(Change::Grown("+1.10 %".to_owned())));
        assert_eq!(of(Some(0), Some(2_000)), Some(Change::Grown("+2,000".to_owned())));
        assert_eq!((of(Some(0), Some(0)), of(Some(1), None)), (Some(Change::Same), Some(Change::Lost)));
        assert!(matches!(of(None, Some(1)), Some(Change::Within(_))) && of(None, None).is_none());
        assert!(matches!(Change::of([Some(1), Some(9)], true, 1.0), Some(Change::Within(_))));
    }

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
