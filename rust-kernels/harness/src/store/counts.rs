//! `<study>.counts.csv`: exact counts, one row each. The notebook and the native count write to the same
//! file.

use std::fs;
use std::path::Path;

use crate::base::error::Error;
use crate::base::file;
use by_turns_core::count::table::{self, Count};

/// Writes counts into the file: rows of the same key and counter are replaced, others are kept.
pub(crate) fn upsert(path: &Path, study: &str, counts: &[Count]) -> Result<(), Error> {
    if counts.is_empty() {
        return Ok(());
    }
    let mut rows = read(path)?;
    for new in counts {
        match rows.iter_mut().find(|row| row.key == new.key && row.counter == new.counter) {
            Some(old) => *old = new.clone(),
            None => rows.push(new.clone()),
        }
    }
    file::replace(path, table::table(study, &rows).as_bytes())
}

fn read(path: &Path) -> Result<Vec<Count>, Error> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path).map_err(Error::io("read", path))?;
    let reason = || "it is not a table of counts; remove it and count again".to_owned();
    table::read(&text).ok_or_else(|| Error::Resume { file: file::name(path), reason: reason() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use by_turns_core::base::key::Key;

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
