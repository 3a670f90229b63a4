//! `<study>.metrics.csv`: what samples observed besides their time, one row each, a whole round at a time.
//!
//! A round is written here before its times are, so that a round of which the times are whole has its metrics as
//! well. The file comes to be with the first metric.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::base::error::Error;
use crate::store::table::{self, Place};
use by_turns::base::key::Key;
use by_turns::base::sample::Sample;

/// First line of the file.
const HEADER: &str = "study,bench,variant,parameter,round,position,sample,metric,value\n";

/// One row: one metric of one sample.
pub(crate) type Row = (Place, Metric);

/// The last columns of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Metric {
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
        let rows: Vec<(Row, usize)> = table::rows(&content, HEADER, path)?;
        for (index, ((place, _), _)) in rows.iter().enumerate() {
            let goes_on = index == 0 || rows[index - 1].0.0.round <= place.round;
            if !place.is_of(study, keys) || !goes_on {
                return Err(table::foreign(path, index + 2));
            }
        }
        let torn = content.len() > rows.last().map_or(HEADER.len(), |(_, end)| *end);
        Ok(Self { path: path.to_path_buf(), names: HashMap::new(), rows, torn })
    }

    /// How many of the first `rounds` rounds are whole here, too.
    ///
    /// That is known from the first round, because every sample of a key has the same metrics in every round. Only
    /// these `keys`, which did not fail, are asked. `expected` says that every sample has some.
    pub(crate) fn whole_rounds(&self, rounds: u32, keys: &[Key], expected: bool) -> u32 {
        let mut shapes: Vec<Vec<(Key, usize, &str)>> = vec![Vec::new(); rounds as usize];
        for ((place, Metric { metric, .. }), _) in &self.rows {
            if let Some(shape) = shapes.get_mut(place.round as usize)
                && keys.contains(&place.key())
            {
                shape.push((place.key(), place.sample, metric));
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
        self.rows.retain(|((place, _), _)| place.round < round);
        self.torn = false;
        if round > 0 {
            self.names.extend(keys.iter().map(|key| (key.clone(), Vec::new())));
        }
        for ((place, Metric { metric, .. }), _) in &self.rows {
            if place.round == 0 && place.sample == 0 {
                self.names.entry(place.key()).or_default().push(metric.clone());
            }
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
            file.set_len(end as u64)?;
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
        let write = || {
            let mut file = OpenOptions::new().append(true).create(true).open(&self.path)?;
            if file.metadata()?.len() == 0 {
                file.write_all(HEADER.as_bytes())?;
            }
            file.write_all(&table::bytes(rows)?)?;
            File::sync_data(&file)
        };
        write().map_err(Error::io("write", &self.path))
    }
}

/// The rows of one trial.
pub(crate) fn rows(trial: &Place, samples: &[Sample]) -> Vec<Row> {
    let row = |sample, (name, value): &(Cow<'static, str>, u64)| {
        (trial.of_sample(sample), Metric { metric: name.to_string(), value: *value })
    };
    let samples = samples.iter().enumerate();
    samples.flat_map(|(sample, taken)| taken.metrics.iter().map(move |metric| row(sample, metric))).collect()
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
        let trial = |(position, index): (usize, usize)| {
            rows(&Place::of_trial("s", &keys()[index], round, position), &samples(index))
        };
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
            let whole = metrics.whole_rounds(3, &keys(), true);
            let there = ends.iter().filter(|end| **end <= length).count() as u32;
            // One round alone cannot be told to be whole.
            assert_eq!(whole, if there == 1 { 0 } else { there }, "torn at byte {length}");
            metrics.cut(whole, &keys()).expect("cut");
            let left = fs::read(&path).unwrap_or_default();
            assert_eq!(left, content[..if whole == 0 { 0 } else { ends[whole as usize - 1] }]);
        }
        // The times of round 2 are not there: its metrics are cut off, whole or not.
        fs::write(&path, &content[..content.len() - 3]).expect("torn on purpose");
        assert_eq!(open(&path).whole_rounds(2, &keys(), true), 2);
        fs::remove_file(&path).expect("ours");
    }

    #[test]
    fn keys_that_failed_and_keys_without_metrics_are_not_missed() {
        let path = scratch("failed");
        let mut metrics = open(&path);
        metrics.append_round(&round_rows(0)).expect("written");
        metrics.append_round(&rows(&Place::of_trial("s", &keys()[1], 1, 0), &samples(1))).expect("written");
        let metrics = open(&path);
        assert_eq!(metrics.whole_rounds(2, &keys()[1..], true), 2);
        assert_eq!(metrics.whole_rounds(2, &keys(), true), 0);
        fs::remove_file(&path).expect("ours");
        assert_eq!(open(&path).whole_rounds(4, &keys(), false), 4, "a study without metrics");
        assert_eq!(open(&path).whole_rounds(4, &keys(), true), 0, "the file was lost");
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
