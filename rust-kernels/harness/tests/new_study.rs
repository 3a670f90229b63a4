//! The study that CONTRIBUTING.md adds, so that the page keeps its word.

use std::hint::black_box;

use harness::{Bencher, Key, Study};

/// Adds up some numbers.
type Way = fn(&[u64]) -> u64;

const WAYS: [(&str, Way); 2] = [("index", by_index), ("iterator", |items| items.iter().sum())];

#[expect(clippy::needless_range_loop, reason = "what an index costs is the question")]
fn by_index(items: &[u64]) -> u64 {
    let mut sum = 0;
    for index in 0..items.len() {
        sum += items[index];
    }
    sum
}

/// What is measured: every way that adds up right, and the first of them a second time.
pub fn study() -> Result<Study, String> {
    let mut study = Study::new("sum").baseline("index");
    for (name, way) in WAYS {
        if way(&[1, 2, 3]) != 6 {
            return Err(format!("{name} does not add up"));
        }
        let items: Vec<u64> = (0..1000).collect();
        let key = Key::new("sum", name, "");
        study = study.count(key.clone(), "units", 1000).bench(key, move |bencher: &mut Bencher| {
            bencher.iter(&mut || {
                black_box(way(black_box(&items)));
            });
        });
    }
    Ok(study.control(""))
}

#[test]
fn each_way_is_measured_and_the_baseline_twice() {
    let study = study().expect("ways that add up right");
    let variants: Vec<_> = study.keys().into_iter().map(|key| key.variant).collect();
    assert_eq!(variants, ["index", "iterator", "index (A/A)"]);
    for key in study.keys() {
        study.run_once(&key).expect("it runs");
    }
}

#[test]
fn the_code_that_is_shown_is_the_code_above() {
    let here: Vec<_> = include_str!("new_study.rs").lines().map(str::trim_start).collect();
    let shown: Vec<_> = include_str!("../../../CONTRIBUTING.md")
        .lines()
        .map(str::trim_start)
        .skip_while(|line| !line.starts_with("/// What is measured"))
        .take_while(|line| !line.starts_with("// %%"))
        .filter(|line| !line.is_empty())
        .collect();
    assert!(shown.len() > 10, "CONTRIBUTING.md shows no study");
    let begin = here.iter().position(|line| *line == shown[0]).expect("its first line");
    assert_eq!(here[begin..begin + shown.len()], shown[..]);
}
