//! What the tables of samples have in common: CSV that grows by whole rounds, each row with the sample's place first.

use std::path::Path;

use crate::base::error::Error;
use crate::base::file;
use by_turns_core::base::csv;
use by_turns_core::base::key::Key;

/// A row: where the sample belongs, and the two columns after that.
pub(crate) type Row = (Place, [String; 2]);

/// The first columns of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
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
pub(crate) fn bytes(rows: &[Row]) -> Vec<u8> {
    let line = |(place, columns): &Row| {
        let Place { study, bench, variant, parameter, round, position, sample } = place;
        let numbers = [round.to_string(), position.to_string(), sample.to_string()];
        let names = [study, bench, variant, parameter];
        csv::line(names.into_iter().chain(&numbers).chain(columns)) + "\n"
    };
    rows.iter().map(line).collect::<String>().into_bytes()
}

/// The rows before the first one that is torn, each with the offset of its end. A header that was cut short by a kill
/// is no error; anything else is not ours to overwrite.
pub(crate) fn rows(content: &[u8], header: &str, path: &Path) -> Result<Vec<(Row, usize)>, Error> {
    let Some(rest) = content.strip_prefix(header.as_bytes()) else {
        return if header.as_bytes().starts_with(content) { Ok(Vec::new()) } else { Err(foreign(path, 1)) };
    };
    let (mut rows, mut end) = (Vec::new(), header.len());
    for line in rest.split_inclusive(|byte| *byte == b'\n') {
        let Some(row) = row(line) else { break };
        end += line.len();
        rows.push((row, end));
    }
    Ok(rows)
}

fn row(line: &[u8]) -> Option<Row> {
    let cells = csv::cells(str::from_utf8(line).ok()?.strip_suffix('\n')?)?;
    let [study, bench, variant, parameter, round, position, sample, first, second] =
        <[String; 9]>::try_from(cells).ok()?;
    let (round, position, sample) = (round.parse().ok()?, position.parse().ok()?, sample.parse().ok()?);
    Some((Place { study, bench, variant, parameter, round, position, sample }, [first, second]))
}

/// The error for a line, counted from 1, that another study has written.
pub(crate) fn foreign(path: &Path, line: usize) -> Error {
    let reason = format!(
        "line {line} is not what this study and its seed lead to, so the study or the file was changed; remove the partial \
         run's folder and measure again"
    );
    Error::Resume { file: file::name(path), reason }
}
