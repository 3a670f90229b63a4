//! The fixture's study under Criterion, with the arguments that its users know.

mod common;

use std::fs;

use common::{Repository, VARIANTS, succeed};

/// What the fixture prints with these arguments, and whether it succeeded.
fn criterion(repository: &Repository, fault: &str, arguments: &[&str]) -> (String, bool) {
    let mut fixture = repository.fixture(arguments, None);
    fixture.args(["--bench", "--noplot", "--warm-up-time", "0.001", "--measurement-time", "0.002"]);
    fixture.args(["--sample-size", "10", "--nresamples", "1001"]);
    fixture.env("FIXTURE_UNDER_CRITERION", fault).env("CRITERION_HOME", repository.0.join("criterion"));
    let output = fixture.output().expect("the fixture starts");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.success())
}

/// How many benchmarks have a time in this text.
fn measured(text: &str) -> usize {
    text.lines().filter(|line| line.contains(" time:   [")).count()
}

#[test]
fn every_variant_is_measured_with_its_units_of_work() {
    let repository = Repository::new();
    let (text, success) = criterion(&repository, "", &[]);
    assert!(success, "{text}");
    assert_eq!(measured(&text), VARIANTS, "{text}");
    let throughput = |folder: &str| {
        let path =
            repository.0.join("criterion/fixture_sum").join(folder).join("items=100/new/benchmark.json");
        let text = fs::read_to_string(path).expect("Criterion has written it");
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON")["throughput"].clone()
    };
    assert_eq!(throughput("loop"), serde_json::json!({ "Elements": 100 }));
    assert_eq!(throughput("loop (A_A)"), serde_json::json!({ "Elements": 100 }));
    assert_eq!(throughput("custom"), serde_json::json!({ "Elements": 1 }));
}

#[test]
fn a_filter_is_a_regular_expression_or_a_name_as_it_is() {
    let repository = Repository::new();
    let names = |filter| {
        let (text, success) = criterion(&repository, "", &["--list", filter]);
        assert!(success, "{text}");
        text.lines()
            .filter_map(|line| line.strip_suffix(": benchmark"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(names("loop (A/A)"), ["fixture/sum/loop (A/A)/items=100"]);
    assert_eq!(names("cust.m"), ["fixture/sum/custom/items=100"]);
    assert_eq!(names("loop").len(), 2);
    assert_eq!(names("").len(), VARIANTS);
}

#[test]
fn a_baseline_is_saved_and_compared_with() {
    let repository = Repository::new();
    assert!(criterion(&repository, "", &["--save-baseline", "before", "custom"]).1);
    let (text, success) = criterion(&repository, "", &["--baseline", "before", "custom"]);
    assert!(success && text.contains("change:"), "{text}");
    let (text, success) = criterion(&repository, "", &["--baseline", "never", "custom"]);
    assert!(
        !success && text.contains("not measured: sum/custom@items=100: Baseline 'never' must exist"),
        "{text}"
    );
}

#[test]
fn a_variant_that_fails_is_named_and_the_others_are_measured() {
    for (fault, message) in
        [("panic", "lost"), ("hang", "did not end within 300ms"), ("abort", "was ended by signal 6")]
    {
        let (text, success) = criterion(&Repository::new(), fault, &[]);
        let line = text.lines().find(|line| line.starts_with("not measured: sum/faulty@items=100: "));
        assert!(line.is_some_and(|line| line.contains(message)) && !success, "{fault}: {text}");
        assert_eq!(measured(&text), VARIANTS - 1, "{fault}: {text}");
    }
}

#[test]
fn each_sample_of_an_isolated_study_has_a_process_of_its_own() {
    let (text, success) = criterion(&Repository::new(), "leak", &[]);
    assert!(success && measured(&text) == VARIANTS, "{text}");
}

#[test]
fn under_cargo_test_each_variant_runs_once() {
    let repository = Repository::new();
    let mut fixture = repository.fixture(&["--test"], None);
    let text = succeed(fixture.env("FIXTURE_UNDER_CRITERION", "").output().expect("the fixture starts"));
    assert_eq!(text.lines().filter(|line| line.starts_with("Testing ")).count(), VARIANTS, "{text}");
}
