//! `<study>.metrics.csv`: what samples observed besides their time, one row each, a whole round at a time.
//!
//! A round is on the disk here before its times are written, so that a round of which the times are whole has its metrics
//! as well. The file comes to be with the first metric.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::base::error::Error;
use crate::store::table::{self, Place, Row};
use by_turns_core::base::key::Key;
use by_turns_core::base::sample::Sample;

/// First line of the file.
const HEADER: &str = "study,bench,variant,parameter,round,position,sample,metric,value\n";

/// The file, and which metrics each key has.
pub(crate) struct Metrics {
    path: PathBuf,
    /// Names of the metrics of a sample, by the key's first trial.
    names: HashMap<Key, Vec<String>>,
}

impl Metrics {
    /// Opens the file, if there is one, and cuts off what follows the first `rounds` rounds, whose times are whole.
    ///
    /// # Errors
    /// When its rows are not of this study.
    pub(crate) fn open(path: &Path, study: &str, keys: &[Key], rounds: u32) -> Result<Self, Error> {
        let mut names = HashMap::new();
        if rounds > 0 {
            names.extend(keys.iter().map(|key| (key.clone(), Vec::new())));
        }
        let mut metrics = Self { path: path.to_path_buf(), names };
        let content = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(metrics),
            content => content.map_err(Error::io("read", path))?,
        };
        let mut end = 0;
        for (index, ((place, [metric, _]), row_end)) in
            table::rows(&content, HEADER, path)?.iter().enumerate()
        {
            if !place.is_of(study, keys) {
                return Err(table::foreign(path, index + 2));
            }
            if place.round < rounds {
                end = *row_end;
            }
            if rounds > 0 && place.round == 0 && place.sample == 0 {
                metrics.names.entry(place.key()).or_default().push(metric.clone());
            }
        }
        metrics.cut(end)?;
        Ok(metrics)
    }

    fn cut(&self, end: usize) -> Result<(), Error> {
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
            file.write_all(&table::bytes(rows))?;
            file.sync_data()
        };
        write().map_err(Error::io("write", &self.path))
    }
}

/// The rows of one trial.
pub(crate) fn rows(trial: &Place, samples: &[Sample]) -> Vec<Row> {
    let row = |sample, (name, value): &(Cow<'static, str>, u64)| {
        (trial.of_sample(sample), [name.to_string(), value.to_string()])
    };
    let samples = samples.iter().enumerate();
    samples.flat_map(|(sample, taken)| taken.metrics.iter().map(move |metric| row(sample, metric))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn keys() -> [Key; 2] {
        ["a, with a comma", "timed only"].map(|variant| Key::new("bench", variant, ""))
    }

    /// Samples of the keys; the last one has no metrics.
    fn samples(key: usize) -> Vec<Sample> {
        let sample = Sample::new(1, Duration::from_nanos(5));
        vec![if key == 0 { sample.with("p50_ns", 3).with("p99_ns", 4) } else { sample }; 2]
    }

    fn scratch(test: &str) -> PathBuf {
        std::env::temp_dir().join(format!("harness-metrics-{test}-{}.csv", std::process::id()))
    }

    #[test]
    fn a_file_torn_anywhere_is_cut_to_the_rounds_whose_times_are_whole() {
        let path = scratch("torn");
        let open = |rounds| Metrics::open(&path, "s", &keys(), rounds).expect("of this study");
        let mut metrics = open(0);
        let mut ends = vec![0];
        for round in 0..3 {
            let trial = Place::of_trial("s", &keys()[0], round, 0);
            metrics.append_round(&rows(&trial, &samples(0))).expect("written");
            ends.push(fs::metadata(&path).expect("written").len() as usize);
        }
        let content = fs::read(&path).expect("written");
        for length in 0..=content.len() {
            let whole = ends.iter().rposition(|end| *end <= length).expect("no round at least");
            fs::write(&path, &content[..length]).expect("torn on purpose");
            let mut metrics = open(whole as u32);
            assert_eq!(fs::read(&path).unwrap_or_default(), content[..ends[whole]], "torn at byte {length}");
            for (index, key) in keys().iter().enumerate() {
                metrics.accept(key, &samples(index)).expect("the same as before");
            }
            let message = metrics.accept(&keys()[1], &samples(0)).expect_err("it had none");
            assert!(message.contains("p99_ns"), "{message}");
        }
        fs::remove_file(&path).expect("ours");
    }

    #[test]
    fn rows_of_another_study_are_refused() {
        let path = scratch("foreign");
        for text in ["study,other\n".to_owned(), format!("{HEADER}s,bench,new,,0,0,0,p99_ns,1\n")] {
            fs::write(&path, text).expect("foreign on purpose");
            assert!(Metrics::open(&path, "s", &keys(), 1).is_err());
        }
        fs::remove_file(&path).expect("ours");
    }
}
