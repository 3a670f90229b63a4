//! Every row of the published tables is measured, under its own name.

use harness::Key;
use thread_pools::{Scale, cells};

#[test]
fn every_published_row_is_measured() {
    let table = include_str!("../../../data/published/thread-pools.csv");
    let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let mut published: Vec<Key> = rows.map(|cells| Key::new(cells[1], cells[2], cells[3])).collect();
    published.dedup();
    // 90 of throughput, 12 of latency, where each has a mean and a bound.
    assert_eq!(published.len(), 102);
    let measured: Vec<Key> = cells(Scale::of("standard")).into_iter().map(|row| row.key).collect();
    for key in published {
        assert!(measured.contains(&key), "{key} is not measured");
    }
}

#[test]
fn no_key_is_measured_twice() {
    let mut keys: Vec<Key> = cells(Scale::of("standard")).into_iter().map(|row| row.key).collect();
    let number = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), number);
}
