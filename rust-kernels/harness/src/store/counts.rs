//! `<study>.counts.csv`: exact counts, one row each. The notebook and the native count write to the same
//! file.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::base::declared::Count;
use crate::base::error::Error;
use crate::base::file;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    study: String,
    bench: String,
    variant: String,
    parameter: String,
    counter: String,
    /// Per iteration.
    value: u64,
}

/// Writes counts into the file: rows of the same key and counter are replaced, others are kept.
pub(crate) fn upsert(path: &Path, study: &str, counts: &[Count]) -> Result<(), Error> {
    if counts.is_empty() {
        return Ok(());
    }
    let mut rows = read(path)?;
    for count in counts {
        let new = row(study, count);
        match rows.iter_mut().find(|row| new == Row { value: new.value, ..(*row).clone() }) {
            Some(old) => *old = new,
            None => rows.push(new),
        }
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    for row in &rows {
        writer.serialize(row).map_err(|error| unreadable(path, &error.to_string()))?;
    }
    let content = writer.into_inner().map_err(|error| unreadable(path, &error.to_string()))?;
    file::replace(path, &content)
}

fn read(path: &Path) -> Result<Vec<Row>, Error> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let content = fs::read(path).map_err(Error::io("read", path))?;
    let rows: Result<Vec<Row>, _> = csv::Reader::from_reader(content.as_slice()).into_deserialize().collect();
    rows.map_err(|error| unreadable(path, &error.to_string()))
}

fn row(study: &str, count: &Count) -> Row {
    Row {
        study: study.to_owned(),
        bench: count.key.bench.clone(),
        variant: count.key.variant.clone(),
        parameter: count.key.parameter.clone(),
        counter: count.counter.clone(),
        value: count.value,
    }
}

fn unreadable(path: &Path, problem: &str) -> Error {
    Error::Resume { file: file::name(path), reason: format!("{problem}; remove it and count again") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use by_turns::base::key::Key;

    fn count(variant: &str, counter: &str, value: u64) -> Count {
        Count { key: Key::new("b", variant, "p=1"), counter: counter.to_owned(), value }
    }

    #[test]
    fn equal_keys_are_replaced_and_others_kept() {
        let path = std::env::temp_dir().join(format!("harness-counts-{}.csv", std::process::id()));
        upsert(&path, "s", &[count("v, quoted", "polls", 1), count("w", "polls", 2)]).expect("a new file");
        upsert(&path, "s", &[count("w", "polls", 3), count("w", "allocations", 0)]).expect("an old file");
        let text = fs::read_to_string(&path).expect("written");
        fs::remove_file(&path).expect("ours");
        let rows = "s,b,\"v, quoted\",p=1,polls,1\ns,b,w,p=1,polls,3\ns,b,w,p=1,allocations,0\n";
        assert_eq!(text, format!("study,bench,variant,parameter,counter,value\n{rows}"));
    }

    #[test]
    fn an_unreadable_file_is_not_overwritten() {
        let path = std::env::temp_dir().join(format!("harness-counts-bad-{}.csv", std::process::id()));
        fs::write(&path, "study,bench\nx\n").expect("a temporary file");
        assert!(upsert(&path, "s", &[count("w", "polls", 3)]).is_err());
        assert_eq!(fs::read_to_string(&path).expect("still there"), "study,bench\nx\n");
        fs::remove_file(&path).expect("ours");
    }
}
