//! Each row proves its work in a fork of this process, which therefore starts no threads besides: a copy of a process with
//! threads may wait for one that it does not have. So no other test stands in this file.

use locks::{comparisons, rows};

#[test]
fn every_row_does_equal_work_as_often_as_it_says() {
    let rows = rows();
    let keys: Vec<_> = rows.iter().map(|row| row.key.clone()).collect();
    assert!((0..keys.len()).all(|place| !keys[..place].contains(&keys[place])), "each key is there once");
    for row in &rows {
        let counts = row.proven().expect("equal work");
        assert!(
            counts.get("acquisitions").is_none_or(|count| *count == row.units),
            "{}: {counts:?}",
            row.key
        );
    }
    assert!(comparisons(&rows).len() > 100);
}
