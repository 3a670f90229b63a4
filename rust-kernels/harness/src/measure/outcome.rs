//! What a measurement hands back.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::base::declared::{Comparison, Failure};
use crate::base::key::Key;
use crate::measure::progress::duration;
use crate::store::info::StudyInfo;
use crate::store::timings::Row;

/// One line of the first look at a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The variant.
    pub key: Key,
    /// Median over rounds of the round's median time of one iteration, in nanoseconds.
    pub nanoseconds: f64,
    /// What it is compared with; `None` when it is compared with nothing.
    pub baseline: Option<Key>,
    /// Median over rounds of the ratio to the baseline of the same round; `None` without a baseline, and when
    /// they share no round.
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
    /// Name of the variant that the ratios compare with unless a comparison says otherwise; may be empty.
    pub baseline: String,
    /// One line per variant: those compared with the same baseline together, sorted by ratio.
    pub lines: Vec<Line>,
}

impl Outcome {
    pub(crate) fn new(
        directory: PathBuf,
        study: &StudyInfo,
        comparisons: &[Comparison],
        rows: &[Row],
        elapsed: Duration,
    ) -> Self {
        let baseline = study.baseline.clone();
        let lines = lines(rows, comparisons);
        Self { directory, rounds: study.rounds, elapsed, failed: study.failures(), baseline, lines }
    }

    /// True when variant and parameter alone do not tell the lines apart.
    fn needs_bench(&self) -> bool {
        let mut seen = HashSet::new();
        !self.lines.iter().all(|line| seen.insert((&line.key.variant, &line.key.parameter)))
    }

    /// What the ratios of the table are taken of.
    fn of_what(&self) -> String {
        let compared = self.lines.iter().filter_map(|line| line.baseline.as_ref());
        let variants: HashSet<&str> = compared.map(|baseline| baseline.variant.as_str()).collect();
        match variants.iter().next() {
            Some(variant) if variants.len() == 1 => format!("{variant:?}"),
            _ => "its baseline".to_owned(),
        }
    }

    /// Shows the table in a notebook: evcxr calls this for the value of a cell.
    pub fn evcxr_display(&self) {
        println!("EVCXR_BEGIN_CONTENT text/plain\n{self}\nEVCXR_END_CONTENT");
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bench = |key: &Key| if self.needs_bench() { key.bench.clone() } else { String::new() };
        let columns = |key: &Key| [bench(key), key.parameter.clone(), key.variant.clone()];
        let heads = ["bench", "parameter", "variant"].map(str::to_owned);
        let cells: Vec<[String; 3]> = self.lines.iter().map(|line| columns(&line.key)).collect();
        // A column without a word in it is left out, with its head.
        let width = |column: usize| {
            let widest = cells.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
            if widest == 0 { 0 } else { widest.max(heads[column].len()) }
        };
        let widths = [width(0), width(1), width(2)];
        let key = |cells: &[String; 3]| {
            let shown = (0..3).filter(|column| widths[*column] > 0);
            let padded = shown.map(|column| format!("{:1$}  ", cells[column], widths[column]));
            padded.collect::<String>()
        };
        writeln!(f, "{}{:>14}  {:>8}", key(&heads), "ns/iteration", "ratio")?;
        for (line, cells) in self.lines.iter().zip(&cells) {
            let ratio = line.ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.3}"));
            writeln!(f, "{}{:>14.1}  {ratio:>8}", key(cells), line.nanoseconds)?;
        }
        for Failure { key, error } in &self.failed {
            writeln!(f, "left out: {key}: {error}")?;
        }
        writeln!(
            f,
            "{} rounds in {}; ratio = median over rounds of time / time of {} in the same round",
            self.rounds,
            duration(self.elapsed),
            self.of_what()
        )?;
        write!(f, "A first look, without intervals: the analysis notebook reads {}", self.directory.display())
    }
}

fn lines(rows: &[Row], comparisons: &[Comparison]) -> Vec<Line> {
    let times = round_times(rows);
    let baselines: HashMap<&Key, &Key> =
        comparisons.iter().map(|comparison| (&comparison.key, &comparison.baseline)).collect();
    let mut lines: Vec<Line> = times
        .iter()
        .map(|(key, rounds)| {
            let baseline = baselines.get(key).copied();
            line(key, rounds, baseline, baseline.and_then(|baseline| times.get(baseline)))
        })
        .collect();
    lines.sort_by(|a, b| {
        let block = |line: &Line| {
            let Key { bench, variant, parameter } = line.baseline.as_ref().unwrap_or(&line.key).clone();
            (parameter, bench, variant)
        };
        let by_ratio = a.ratio.unwrap_or(1.0).total_cmp(&b.ratio.unwrap_or(1.0));
        block(a).cmp(&block(b)).then(by_ratio)
    });
    lines
}

fn line(
    key: &Key,
    rounds: &BTreeMap<u32, f64>,
    baseline: Option<&Key>,
    baseline_rounds: Option<&BTreeMap<u32, f64>>,
) -> Line {
    let ratio = baseline_rounds.and_then(|baseline| {
        median(rounds.iter().filter_map(|(round, time)| Some(time / baseline.get(round)?)).collect())
    });
    let nanoseconds = median(rounds.values().copied().collect()).unwrap_or(f64::NAN);
    Line { key: key.clone(), nanoseconds, baseline: baseline.cloned(), ratio }
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

    fn key(variant: &str) -> Key {
        Key::new("b", variant, "p=1")
    }

    fn against(variant: &str, baseline: &str) -> Comparison {
        let [group, change, unit] = [const { String::new() }; 3];
        Comparison { key: key(variant), baseline: key(baseline), group, change, unit }
    }

    #[test]
    fn ratios_are_taken_within_a_round() {
        // The machine is ten times slower in round 1: the ratio is 2 in both.
        let rows = [rows("fast", &[[2, 2], [20, 20]]), rows("slow", &[[4, 4], [40, 40]])].concat();
        let lines = lines(&rows, &[against("slow", "fast")]);
        assert_eq!(lines.iter().map(|line| line.ratio).collect::<Vec<_>>(), [None, Some(2.0)]);
        assert_eq!(lines[0].nanoseconds, 5.5);
    }

    #[test]
    fn a_baseline_that_failed_leaves_no_ratio_in_its_missing_rounds() {
        let rows = [rows("gone", &[[2, 2]]), rows("slow", &[[4, 4], [400, 400]])].concat();
        let ratio = |rows: &[Row]| lines(rows, &[against("slow", "gone")]).pop().expect("slow").ratio;
        assert_eq!(ratio(&rows), Some(2.0));
        assert_eq!(ratio(&rows[2..]), None, "it failed before its first round");
    }
}
