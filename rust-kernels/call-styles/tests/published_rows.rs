//! Every bench of the published table is measured, under its own name and parameter, by a variant of ours.

use std::collections::BTreeSet;

use call_styles::{INTERPRETED, INTERPRETERS, subjects};

#[test]
fn every_published_bench_is_measured() {
    let table = include_str!("../../../data/published/call-styles.csv");
    let rows = table.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let published: BTreeSet<_> = rows.map(|cells| (cells[1].to_owned(), cells[3].to_owned())).collect();
    assert_eq!(published.len(), 16);
    let measured: BTreeSet<_> =
        subjects().into_iter().map(|subject| (subject.bench.to_owned(), subject.parameter)).collect();
    let missing: Vec<_> = published.difference(&measured).collect();
    assert!(missing.is_empty(), "not measured: {missing:?}");
}

#[test]
fn no_subject_is_there_twice() {
    let keys: Vec<_> = subjects().iter().map(|subject| subject.key().to_string()).collect();
    let distinct: BTreeSet<_> = keys.iter().collect();
    assert_eq!(keys.len(), distinct.len());
}

#[test]
fn every_counterpart_of_a_claim_is_measured() {
    let operands = include_str!("../../../data/claims-operands.csv");
    let ours = operands.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let ours = ours.filter(|cells| cells[4] == "call-styles" && cells[1] != "published");
    let wanted: BTreeSet<_> = ours.map(|cells| format!("{}/{}@{}", cells[5], cells[6], cells[7])).collect();
    let mut measured: BTreeSet<_> = subjects().iter().map(|subject| subject.key().to_string()).collect();
    for interpreter in INTERPRETERS {
        measured.extend(INTERPRETED.map(|bench| format!("{bench}/{interpreter}@batch=100")));
    }
    assert!(wanted.len() > 10);
    let missing: Vec<_> = wanted.difference(&measured).collect();
    assert!(missing.is_empty(), "not measured: {missing:?}");
}
