//! What cancelling loses is what the table says, and each program does equal work.

use channels::{bounded, losses, proven, rows, study};

#[test]
fn cancelling_loses_what_the_table_says() {
    let differ: Vec<_> = bounded()
        .iter()
        .map(|one| (one.name, losses(one.name), (one.cancelling)()))
        .filter(|(_, told, counted)| told != counted)
        .collect();
    assert!(differ.is_empty(), "{differ:#?}");
}

#[test]
fn every_program_receives_all_that_was_sent() {
    for row in rows() {
        proven(&row.key, row.program, row.load).expect("equal work");
    }
}

#[test]
fn the_study_can_be_measured() {
    study().expect("equal work").comparisons().expect("a study");
}
