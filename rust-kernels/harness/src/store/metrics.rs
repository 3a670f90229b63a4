//! `<study>.metrics.csv`: what samples observed besides their time, one row each, a whole round at a time.
//!
//! A round is written here before its times are, so that a round of which the times are whole has its metrics as
//! well. The file comes to be with the first metric.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::error::Error;
use crate::base::file;
use crate::base::key::Key;
use crate::base::sample::Sample;
use crate::store::timings::complete_rows;

/// First line of the file.
const HEADER: &str = "study,bench,variant,parameter,round,position,sample,metric,value\n";

/// One row: one metric of one sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    study: String,
    bench: String,
    variant: String,
    parameter: String,
    round: u32,
    position: usize,
    sample: usize,
    metric: String,
    value: u64,
}

/// The file, and which metrics each key has.
pub(crate) struct Metrics {
    path: PathBuf,
    /// Names of the metrics of a sample, by the key's first trial.
    names: HashMap<Key, Vec<String>>,
    rows: Vec<(Row, usize)>,
    /// True when the file ends within a row.
    torn: bool,
}

impl Metrics {
    /// Reads the file, if there is one.
    ///
    /// # Errors
    /// When its rows are not of this study.
    pub(crate) fn open(path: &Path, study: &str, keys: &[Key]) -> Result<Self, Error> {
        let content = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            content => content.map_err(Error::io("read", path))?,
        };
        let rest = match content.strip_prefix(HEADER.as_bytes()) {
            Some(rest) => rest,
            None if HEADER.as_bytes().starts_with(&content) => &[],
            None => return Err(foreign(path, 1)),
        };
        let rows: Vec<(Row, usize)> = complete_rows(rest);
        let keys: HashSet<&Key> = keys.iter().collect();
        for (index, (row, _)) in rows.iter().enumerate() {
            let goes_on = index == 0 || rows[index - 1].0.round <= row.round;
            if row.study != study || !keys.contains(&row.key()) || !goes_on {
                return Err(foreign(path, index + 2));
            }
        }
        let torn = rest.len() > rows.last().map_or(0, |(_, end)| *end);
        Ok(Self { path: path.to_path_buf(), names: HashMap::new(), rows, torn })
    }

    /// How many of the first `rounds` rounds are whole here, too.
    ///
    /// That is known from the first round, because every sample of a key has the same metrics in every round. Keys
    /// that failed are not asked. `expected` says that every sample has some.
    pub(crate) fn whole_rounds(&self, rounds: u32, failed: &[Key], expected: bool) -> u32 {
        let mut shapes: Vec<Vec<(Key, usize, &str)>> = vec![Vec::new(); rounds as usize];
        for (row, _) in &self.rows {
            if let Some(shape) = shapes.get_mut(row.round as usize)
                && !failed.contains(&row.key())
            {
                shape.push((row.key(), row.sample, &row.metric));
            }
        }
        // The order of the keys differs from round to round.
        shapes.iter_mut().for_each(|shape| shape.sort());
        let whole = shapes.iter().take_while(|shape| **shape == shapes[0]).count() as u32;
        // The first round itself can only be told by another one.
        let alone = whole == 1 && (rounds > 1 || self.torn);
        let empty = expected && shapes.first().is_some_and(Vec::is_empty);
        if alone || empty { 0 } else { whole }
    }

    /// Cuts off everything from this round on, and learns from the rest which metrics each of these keys has.
    pub(crate) fn cut(&mut self, round: u32, keys: &[Key]) -> Result<(), Error> {
        self.rows.retain(|(row, _)| row.round < round);
        self.torn = false;
        if round > 0 {
            self.names.extend(keys.iter().map(|key| (key.clone(), Vec::new())));
        }
        for (row, _) in self.rows.iter().filter(|(row, _)| row.round == 0 && row.sample == 0) {
            self.names.entry(row.key()).or_default().push(row.metric.clone());
        }
        if !self.path.exists() {
            return Ok(());
        }
        let end = self.rows.last().map_or(0, |(_, end)| *end);
        if end == 0 {
            return fs::remove_file(&self.path).map_err(Error::io("remove", &self.path));
        }
        let cut = || {
            let file = OpenOptions::new().write(true).open(&self.path)?;
            file.set_len((HEADER.len() + end) as u64)?;
            file.sync_all()
        };
        cut().map_err(Error::io("cut", &self.path))
    }

    /// Accepts the samples of a trial, or says how their metrics differ from those of the key's first trial.
    pub(crate) fn accept(&mut self, key: &Key, samples: &[Sample]) -> Result<(), String> {
        let names: Vec<String> =
            samples.first().iter().flat_map(|sample| sample.names()).map(str::to_owned).collect();
        let first = self.names.entry(key.clone()).or_insert_with(|| names.clone());
        if *first == names {
            Ok(())
        } else {
            Err(format!("its metrics were {first:?} in its first round and {names:?} later"))
        }
    }

    /// Appends the rows of one round and waits until they are on the disk.
    pub(crate) fn append_round(&mut self, rows: &[Row]) -> Result<(), Error> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
        let broken = |error: String| Error::Resume { file: file::name(&self.path), reason: error };
        for row in rows {
            writer.serialize(row).map_err(|error| broken(error.to_string()))?;
        }
        let bytes = writer.into_inner().map_err(|error| broken(error.to_string()))?;
        let write = || {
            let mut file = OpenOptions::new().append(true).create(true).open(&self.path)?;
            if file.metadata()?.len() == 0 {
                file.write_all(HEADER.as_bytes())?;
            }
            file.write_all(&bytes)?;
            File::sync_data(&file)
        };
        write().map_err(Error::io("write", &self.path))
    }
}

impl Row {
    fn key(&self) -> Key {
        Key::new(&self.bench, &self.variant, &self.parameter)
    }
}

/// The rows of one trial.
pub(crate) fn rows(study: &str, key: &Key, round: u32, position: usize, samples: &[Sample]) -> Vec<Row> {
    let of_sample = |(sample, taken): (usize, &Sample)| {
        let row = move |(metric, value): &(std::borrow::Cow<'static, str>, u64)| Row {
            study: study.to_owned(),
            bench: key.bench.clone(),
            variant: key.variant.clone(),
            parameter: key.parameter.clone(),
            round,
            position,
            sample,
            metric: metric.to_string(),
            value: *value,
        };
        taken.metrics.iter().map(row).collect::<Vec<_>>()
    };
    samples.iter().enumerate().flat_map(of_sample).collect()
}

fn foreign(path: &Path, line: usize) -> Error {
    let reason = format!(
        "line {line} is not of this study, so the study or the file was changed; remove the partial run's folder and measure again"
    );
    Error::Resume { file: file::name(path), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SAMPLES: usize = 2;

    fn keys() -> [Key; 3] {
        ["a", "b, with a comma", "timed only"].map(|variant| Key::new("bench", variant, ""))
    }

    /// Samples of the keys; the last one has no metrics.
    fn samples(key: usize) -> Vec<Sample> {
        let sample = Sample::new(1, Duration::from_nanos(5));
        let sample = match key {
            0 => sample.with("p50_ns", 3).with("p99_ns", 4),
            1 => sample.with("cpu_ns", 5),
            _ => sample,
        };
        vec![sample; SAMPLES]
    }

    /// Rounds of the first two keys alternate in their order.
    fn round_rows(round: u32) -> Vec<Row> {
        let order = if round.is_multiple_of(2) { [0, 1, 2] } else { [1, 2, 0] };
        let trial =
            |(position, index): (usize, usize)| rows("s", &keys()[index], round, position, &samples(index));
        order.into_iter().enumerate().flat_map(trial).collect()
    }

    fn scratch(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("harness-metrics-{test}-{}.csv", std::process::id()))
    }

    fn open(path: &Path) -> Metrics {
        Metrics::open(path, "s", &keys()).expect("of this study")
    }

    #[test]
    fn a_file_torn_anywhere_is_known_to_be_whole_up_to_the_round_before() {
        let path = scratch("torn");
        let mut metrics = open(&path);
        let mut ends = Vec::new();
        for round in 0..3 {
            metrics.append_round(&round_rows(round)).expect("written");
            ends.push(fs::metadata(&path).expect("written").len() as usize);
        }
        let content = fs::read(&path).expect("written");
        for length in 0..=content.len() {
            fs::write(&path, &content[..length]).expect("torn on purpose");
            let mut metrics = open(&path);
            let whole = metrics.whole_rounds(3, &[], true);
            let there = ends.iter().filter(|end| **end <= length).count() as u32;
            // One round alone cannot be told to be whole.
            assert_eq!(whole, if there == 1 { 0 } else { there }, "torn at byte {length}");
            metrics.cut(whole, &keys()).expect("cut");
            let left = fs::read(&path).unwrap_or_default();
            assert_eq!(left, content[..if whole == 0 { 0 } else { ends[whole as usize - 1] }]);
        }
        // The times of round 2 are not there: its metrics are cut off, whole or not.
        fs::write(&path, &content[..content.len() - 3]).expect("torn on purpose");
        assert_eq!(open(&path).whole_rounds(2, &[], true), 2);
        fs::remove_file(&path).expect("ours");
    }

    #[test]
    fn keys_that_failed_and_keys_without_metrics_are_not_missed() {
        let path = scratch("failed");
        let mut metrics = open(&path);
        metrics.append_round(&round_rows(0)).expect("written");
        metrics.append_round(&rows("s", &keys()[1], 1, 0, &samples(1))).expect("written");
        let metrics = open(&path);
        assert_eq!(metrics.whole_rounds(2, &keys()[..1], true), 2);
        assert_eq!(metrics.whole_rounds(2, &[], true), 0);
        fs::remove_file(&path).expect("ours");
        assert_eq!(open(&path).whole_rounds(4, &[], false), 4, "a study without metrics");
        assert_eq!(open(&path).whole_rounds(4, &[], true), 0, "the file was lost");
    }

    #[test]
    fn a_key_keeps_its_metrics_over_an_interruption() {
        let path = scratch("names");
        let mut metrics = open(&path);
        metrics.append_round(&round_rows(0)).expect("written");
        let mut metrics = open(&path);
        metrics.cut(1, &keys()).expect("cut");
        for (index, key) in keys().iter().enumerate() {
            metrics.accept(key, &samples(index)).expect("the same as before");
        }
        let message = metrics.accept(&keys()[2], &samples(1)).expect_err("it had none");
        assert!(message.contains("cpu_ns"), "{message}");
        fs::remove_file(&path).expect("ours");
    }

    #[test]
    fn rows_of_another_study_are_refused() {
        let path = scratch("foreign");
        for text in ["study,other\n".to_owned(), format!("{HEADER}s,bench,new,,0,0,0,p99_ns,1\n")] {
            fs::write(&path, text).expect("foreign on purpose");
            assert!(Metrics::open(&path, "s", &keys()).is_err());
        }
        fs::remove_file(&path).expect("ours");
    }
}
