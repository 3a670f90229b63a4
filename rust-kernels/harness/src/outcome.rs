//! What a measurement hands back.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::Key;
use crate::info::StudyInfo;
use crate::progress::duration;
use crate::timings::Row;

/// A variant that was given up, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The variant.
    pub key: Key,
    /// Its message, on one line.
    pub error: String,
}

/// One line of the first look at a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The variant.
    pub key: Key,
    /// Median over rounds of the round's median time of one iteration, in nanoseconds.
    pub nanoseconds: f64,
    /// Median over rounds of the ratio to the baseline of the same round and parameter; `None` when that has
    /// none.
    pub ratio: Option<f64>,
}

/// A finished measurement. Displays itself as a table for a first look; intervals and verdicts are the
/// analysis notebook's.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Folder of the run, relative to the repository.
    pub directory: PathBuf,
    /// Rounds measured.
    pub rounds: u32,
    /// Time spent in this call.
    pub elapsed: Duration,
    /// Variants that were left out from some round on, with their messages.
    pub failed: Vec<Failure>,
    /// Name of the variant that the ratios compare with.
    pub baseline: String,
    /// One line per variant, sorted by parameter and then by ratio.
    pub lines: Vec<Line>,
}

impl Outcome {
    pub(crate) fn new(directory: PathBuf, study: &StudyInfo, rows: &[Row], elapsed: Duration) -> Self {
        let baseline = study.baseline.clone();
        let lines = lines(rows, &baseline);
        Self { directory, rounds: study.rounds, elapsed, failed: study.failures(), baseline, lines }
    }

    /// Shows the table in a notebook: evcxr calls this for the value of a cell.
    pub fn evcxr_display(&self) {
        println!("EVCXR_BEGIN_CONTENT text/plain\n{self}\nEVCXR_END_CONTENT");
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = |text: fn(&Key) -> &str| {
            self.lines.iter().map(|line| text(&line.key).chars().count()).max().unwrap_or(0)
        };
        let parameter = width(|key| &key.parameter).max("parameter".len());
        let variant = width(|key| &key.variant).max("variant".len());
        writeln!(
            f,
            "{:parameter$}  {:variant$}  {:>14}  {:>8}",
            "parameter", "variant", "ns/iteration", "ratio"
        )?;
        for Line { key, nanoseconds, ratio } in &self.lines {
            let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
            writeln!(
                f,
                "{:parameter$}  {:variant$}  {nanoseconds:>14.1}  {ratio:>8}",
                key.parameter, key.variant
            )?;
        }
        for Failure { key, error } in &self.failed {
            writeln!(f, "left out: {key}: {error}")?;
        }
        writeln!(
            f,
            "{} rounds in {}; ratio = median over rounds of time / time of {:?} in the same round",
            self.rounds,
            duration(self.elapsed),
            self.baseline
        )?;
        write!(f, "A first look, without intervals: the analysis notebook reads {}", self.directory.display())
    }
}

fn lines(rows: &[Row], baseline: &str) -> Vec<Line> {
    let times = round_times(rows);
    let baselines: HashMap<&str, &BTreeMap<u32, f64>> = times
        .iter()
        .filter(|(key, _)| key.variant == baseline)
        .map(|(key, rounds)| (key.parameter.as_str(), rounds))
        .collect();
    let mut lines: Vec<Line> = times.iter().map(|(key, rounds)| line(key, rounds, &baselines)).collect();
    lines.sort_by(|a, b| {
        let by_ratio = a.ratio.partial_cmp(&b.ratio).unwrap_or(std::cmp::Ordering::Equal);
        a.key.parameter.cmp(&b.key.parameter).then(by_ratio)
    });
    lines
}

fn line(key: &Key, rounds: &BTreeMap<u32, f64>, baselines: &HashMap<&str, &BTreeMap<u32, f64>>) -> Line {
    let ratio = baselines.get(key.parameter.as_str()).and_then(|baseline| {
        median(rounds.iter().filter_map(|(round, time)| Some(time / baseline.get(round)?)).collect())
    });
    let nanoseconds = median(rounds.values().copied().collect()).unwrap_or(f64::NAN);
    Line { key: key.clone(), nanoseconds, ratio }
}

/// Per variant and round, the median over samples of the time of one iteration.
fn round_times(rows: &[Row]) -> BTreeMap<Key, BTreeMap<u32, f64>> {
    let mut samples: BTreeMap<Key, BTreeMap<u32, Vec<f64>>> = BTreeMap::new();
    for row in rows {
        let rounds = samples.entry(Key::new(&row.bench, &row.variant, &row.parameter)).or_default();
        rounds.entry(row.round).or_default().push(row.elapsed_ns as f64 / row.iterations as f64);
    }
    let medians = |rounds: BTreeMap<u32, Vec<f64>>| {
        rounds.into_iter().filter_map(|(round, times)| Some((round, median(times)?))).collect()
    };
    samples.into_iter().map(|(key, rounds)| (key, medians(rounds))).collect()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(variant: &str, times: &[[u64; 2]]) -> Vec<Row> {
        let row = |round: usize, sample: usize, elapsed_ns: u64| Row {
            study: "s".to_owned(),
            bench: "b".to_owned(),
            variant: variant.to_owned(),
            parameter: "p=1".to_owned(),
            round: round as u32,
            position: 0,
            sample,
            iterations: 2,
            elapsed_ns,
        };
        let rounds = times.iter().enumerate();
        rounds.flat_map(|(round, [a, b])| [row(round, 0, *a), row(round, 1, *b)]).collect()
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine is ten times slower in round 1: the ratio is 2 in both.
        let rows = [rows("fast", &[[2, 2], [20, 20]]), rows("slow", &[[4, 4], [40, 40]])].concat();
        let lines = lines(&rows, "fast");
        assert_eq!(lines.iter().map(|line| line.ratio).collect::<Vec<_>>(), [Some(1.0), Some(2.0)]);
        assert_eq!(lines[0].nanoseconds, 5.5);
    }

    #[test]
    fn a_parameter_without_baseline_has_no_ratio() {
        assert_eq!(lines(&rows("slow", &[[4, 4]]), "fast")[0].ratio, None);
    }
}
