//! What the tables of samples have in common: CSV that grows by whole rounds, each row with the sample's place first.

use std::io;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::base::error::Error;
use crate::base::file;
use by_turns::base::key::Key;

/// The first columns of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    study: String,
    bench: String,
    variant: String,
    parameter: String,
    /// From 0.
    pub(crate) round: u32,
    /// Place of the variant in the order of its round, from 0.
    position: usize,
    /// From 0.
    pub(crate) sample: usize,
}

impl Place {
    /// That of the first sample of a trial.
    pub(crate) fn of_trial(study: &str, key: &Key, round: u32, position: usize) -> Self {
        let Key { bench, variant, parameter } = key.clone();
        Self { study: study.to_owned(), bench, variant, parameter, round, position, sample: 0 }
    }

    /// That of another sample of the same trial.
    pub(crate) fn of_sample(&self, sample: usize) -> Self {
        Self { sample, ..self.clone() }
    }

    pub(crate) fn key(&self) -> Key {
        Key::new(&self.bench, &self.variant, &self.parameter)
    }

    /// Whether it belongs to one of these keys of this study.
    pub(crate) fn is_of(&self, study: &str, keys: &[Key]) -> bool {
        self.study == study && keys.contains(&self.key())
    }
}

/// Rows as they are written, without a header.
pub(crate) fn bytes(rows: &[impl Serialize]) -> io::Result<Vec<u8>> {
    let mut writer = csv::WriterBuilder::new().has_headers(false).from_writer(Vec::new());
    for row in rows {
        writer.serialize(row)?;
    }
    writer.into_inner().map_err(|error| error.into_error())
}

/// The rows before the first one that is torn, each with the offset of its end. A header that was cut short by a kill
/// is no error; anything else is not ours to overwrite.
pub(crate) fn rows<T: DeserializeOwned>(
    content: &[u8],
    header: &str,
    path: &Path,
) -> Result<Vec<(T, usize)>, Error> {
    let Some(rest) = content.strip_prefix(header.as_bytes()) else {
        return if header.as_bytes().starts_with(content) { Ok(Vec::new()) } else { Err(foreign(path, 1)) };
    };
    let whole_lines = &rest[..rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1)];
    let mut reader = csv::ReaderBuilder::new().has_headers(false).flexible(true).from_reader(whole_lines);
    let mut record = csv::StringRecord::new();
    let mut rows = Vec::new();
    while let Ok(true) = reader.read_record(&mut record) {
        let Ok(row) = record.deserialize(None) else { break };
        rows.push((row, header.len() + reader.position().byte() as usize));
    }
    Ok(rows)
}

/// The error for a line, counted from 1, that another study has written.
pub(crate) fn foreign(path: &Path, line: usize) -> Error {
    let reason = format!(
        "line {line} is not what this study and its seed lead to, so the study or the file was changed; remove the partial \
         run's folder and measure again"
    );
    Error::Resume { file: file::name(path), reason }
}
