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
        // What a sample's metrics take is the harness's own.
        "fixture,sum,jobs,items=100,allocations,0",
    ] {
        assert!(text.lines().any(|line| line == row), "{row} is missing in\n{text}");
    }
}

/// What counting with this fault writes and prints.
fn count_with(fault: &str) -> (String, String) {
    let repository = Repository::new();
    let partial = repository.partial("counts");
    let output = repository.fixture(&["count", fault], Some(&partial)).output().expect("the fixture starts");
    let printed = succeed(output);
    (fs::read_to_string(partial.join("fixture.counts.csv")).expect("written"), printed)
}

#[test]
fn a_variant_that_fails_is_named_and_the_others_are_counted() {
    for (fault, message) in
        [("panic", "lost"), ("hang", "did not end within 300ms"), ("abort", "was ended by signal 6")]
    {
        let (written, printed) = count_with(fault);
        let line = printed.lines().find(|line| line.starts_with("not counted: sum/faulty@items=100: "));
        assert!(line.is_some_and(|line| line.contains(message)), "{fault}: {printed}");
        let counted = written.lines().filter(|line| line.contains(",allocations,")).count();
        assert_eq!(counted, common::VARIANTS - 1, "{fault}: {written}");
        assert!(
            written.contains("fixture,sum,faulty,items=100,allocations_failed,1\n"),
            "{fault}: {written}"
        );
    }
}

#[test]
fn counts_of_isolated_variants_come_back_from_their_processes() {
    let (written, _) = count_with("leak");
    for row in [
        "fixture,sum,\"box, with a comma\",items=100,allocations,1",
        "fixture,sum,loop,items=100,allocations,0",
    ] {
        assert!(written.lines().any(|line| line == row), "{row} is missing in\n{written}");
    }
}

#[test]
fn a_count_that_varies_says_by_how_much() {
    let (written, _) = count_with("varies");
    // In a release build, the row of its instructions stands there as well.
    let of_faulty = written.lines().filter_map(|line| line.strip_prefix("fixture,sum,faulty,items=100,"));
    let of_faulty: Vec<&str> = of_faulty.filter(|row| row.starts_with("alloc")).collect();
    // The second and the third iteration are counted.
    let expected =
        ["allocations,2", "allocations_varies,1", "allocated_bytes,16", "allocated_bytes_varies,8"];
    assert_eq!(of_faulty, expected);
    assert_eq!(written.matches("_varies").count(), 2, "{written}");
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
