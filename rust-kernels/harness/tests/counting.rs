//! Counts of one iteration.

mod common;

use std::fs;

use common::{Repository, succeed};

#[test]
fn allocations_of_one_iteration_are_exact_and_join_other_counts() {
    let repository = Repository::new();
    let partial = repository.partial("counts");
    succeed(repository.fixture(&["measure", "1"], Some(&partial)).output().expect("the fixture starts"));
    succeed(repository.fixture(&["count"], Some(&partial)).output().expect("the fixture starts"));
    let text = fs::read_to_string(partial.join("fixture.counts.csv")).expect("written");
    for row in [
        // Recorded by the study when it was measured.
        "fixture,sum,loop,items=100,polls,0",
        // Set-up allocates, an iteration does not.
        "fixture,sum,loop,items=100,allocations,0",
        "fixture,sum,\"box, with a comma\",items=100,allocations,1",
        "fixture,sum,\"box, with a comma\",items=100,allocated_bytes,8",
        "fixture,sum,loop (A/A),items=100,allocations,0",
    ] {
        assert!(text.lines().any(|line| line == row), "{row} is missing in\n{text}");
    }
}

#[test]
fn without_a_run_the_counts_are_printed() {
    let repository = Repository::new();
    let text = succeed(repository.fixture(&["count"], None).output().expect("the fixture starts"));
    assert!(text.contains("sum/loop@items=100"), "{text}");
    // Tests are dev builds, whose instructions are not those that are measured.
    assert!(
        !cfg!(debug_assertions) || text.contains("instructions not counted: this is a dev build"),
        "{text}"
    );
}

/// In a release build with valgrind: `cargo test --release`.
#[test]
#[cfg(not(debug_assertions))]
fn instructions_are_the_same_each_time() {
    let count = |repository: &Repository| {
        let text = succeed(repository.fixture(&["count"], None).output().expect("the fixture starts"));
        text.lines().filter(|line| line.contains(" instructions ")).map(str::to_owned).collect::<Vec<_>>()
    };
    let repository = Repository::new();
    let (first, second) = (count(&repository), count(&repository));
    assert_eq!(first, second);
    // Empty when valgrind is not installed.
    assert!(first.is_empty() || first.len() == common::VARIANTS, "{first:?}");
}
