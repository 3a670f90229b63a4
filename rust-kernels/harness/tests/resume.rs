//! A run that is killed at any moment loses at most the round in progress, and no reader sees it before it is
//! whole.

mod common;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use common::{Repository, SAMPLES, VARIANTS, succeed};

/// Rounds of the fixture per kill; they last about 0.4 s, so that nearly all kills hit a run in progress.
const ROUNDS_PER_KILL: u32 = 40;

/// Longest time before a kill. Half of it is the average.
const LONGEST: Duration = Duration::from_millis(600);

/// Kills per test.
const KILLS: u32 = 8;

const ROUNDS: u32 = ROUNDS_PER_KILL * KILLS;

/// What the fixture measures: its rounds, in two episodes for each kill.
fn wanted() -> String {
    format!("{ROUNDS}/{}", 2 * KILLS)
}

/// The part of a time.csv up to the end of its last whole round, found by counting rows.
fn whole_rounds(text: &str) -> &str {
    let mut end = text.find('\n').map_or(0, |at| at + 1);
    let rows_per_round = VARIANTS * SAMPLES;
    let mut rest = &text[end..];
    loop {
        let lines: Vec<&str> = rest.split_inclusive('\n').take(rows_per_round).collect();
        if lines.len() < rows_per_round || !lines[rows_per_round - 1].ends_with('\n') {
            return &text[..end];
        }
        let length: usize = lines.iter().map(|line| line.len()).sum();
        end += length;
        rest = &text[end..];
    }
}

/// Starts the fixture and kills it after a random time, unless it ends before.
fn measure_and_kill(repository: &Repository, partial: Option<&Path>) {
    let rounds = wanted();
    let mut command = repository.fixture(&["measure", &rounds], partial);
    let mut fixture = command.stdout(std::process::Stdio::null()).spawn().expect("the fixture starts");
    std::thread::sleep(LONGEST.mul_f64(random_fraction()));
    // Kill is SIGKILL on Unix: no destructor runs, no buffer is flushed.
    fixture.kill().expect("it can be killed, or is over");
    fixture.wait().expect("it is over");
}

/// A number from 0 to 1 from the hasher that the standard library seeds anew for each map.
fn random_fraction() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0) as f64 / u64::MAX as f64
}

fn read(partial: &Path, name: &str) -> String {
    fs::read_to_string(partial.join(name)).unwrap_or_default()
}

fn info(folder: &Path) -> serde_json::Value {
    serde_json::from_str(&read(folder, "run.json")).expect("run.json is whole at any moment")
}

#[test]
fn a_killed_run_goes_on_where_it_was_and_is_not_published() {
    let repository = Repository::new();
    let partial = repository.partial("killed");
    let mut kept = String::new();
    for _ in 0..KILLS {
        measure_and_kill(&repository, Some(&partial));
        assert_eq!(repository.visible(), [""; 0], "a run appeared before it was whole");
        let now = read(&partial, "fixture.time.csv");
        assert!(now.starts_with(&kept), "whole rounds were changed");
        kept = whole_rounds(&now).to_owned();
    }
    let rounds = wanted();
    succeed(repository.fixture(&["measure", &rounds], Some(&partial)).output().expect("the fixture starts"));
    let text = read(&partial, "fixture.time.csv");
    assert!(text.starts_with(&kept), "whole rounds were changed");
    check_complete(&text);
    let study = &info(&partial)["studies"]["fixture"];
    assert_eq!(study["state"], "complete");
    assert!(study["resumed"].as_u64() > Some(0), "every kill came too late: raise ROUNDS_PER_KILL");
    check_metrics(&read(&partial, "fixture.metrics.csv"));
}

/// The one variant with a metric has it once for each sample of each round, in the order of the rounds.
fn check_metrics(text: &str) {
    let rows: Vec<Vec<&str>> = text.lines().skip(1).map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), SAMPLES * ROUNDS as usize);
    for (index, row) in rows.iter().enumerate() {
        assert_eq!((row[2], row[7], row[8]), ("jobs", "p99_ns", "9"));
        assert_eq!((row[4], row[6]), (&*(index / SAMPLES).to_string(), &*(index % SAMPLES).to_string()));
    }
}

/// Every round holds each variant once, with all its samples.
fn check_complete(text: &str) {
    let mut samples: HashMap<String, Vec<usize>> = HashMap::new();
    for columns in text.lines().skip(1).map(columns) {
        let [variant, round, sample] = columns;
        samples.entry(format!("{variant} {round}")).or_default().push(sample.parse().expect("a number"));
    }
    assert_eq!(samples.len(), VARIANTS * ROUNDS as usize);
    assert!(samples.values().all(|samples| *samples == (0..SAMPLES).collect::<Vec<_>>()));
}

/// Variant, round and sample, counted from the end of the line: one variant's name holds a comma.
fn columns(line: &str) -> [&str; 3] {
    let mut columns: Vec<&str> = line.rsplitn(7, ',').collect();
    columns.reverse();
    [columns[0], columns[2], columns[4]]
}

#[test]
fn a_run_without_an_outer_program_appears_by_its_own_rename_only() {
    let repository = Repository::new();
    for _ in 0..3 {
        measure_and_kill(&repository, None);
        let finished = repository.finished();
        assert!(finished.iter().all(|run| info(run)["studies"]["fixture"]["state"] == "complete"));
    }
    let before = repository.finished().len();
    succeed(repository.fixture(&["measure", "2"], None).output().expect("the fixture starts"));
    let finished = repository.finished();
    assert_eq!(finished.len(), before + 1);
    for run in finished {
        let id = info(&run)["run_id"].as_str().expect("a text").to_owned();
        assert!(run.ends_with(&id), "{id} lies in another folder");
    }
    assert_eq!(repository.visible(), [""; 0], "a test's run is no evidence");
}

#[test]
fn a_complete_study_is_not_measured_again() {
    let repository = Repository::new();
    let partial = repository.partial("twice");
    let measure = || {
        succeed(repository.fixture(&["measure", "2"], Some(&partial)).output().expect("the fixture starts"))
    };
    measure();
    let files = || (read(&partial, "run.json"), read(&partial, "fixture.time.csv"));
    let before = files();
    assert!(measure().contains("measured already"));
    assert!(files() == before);
}

#[test]
fn a_run_begun_with_other_settings_is_refused() {
    let repository = Repository::new();
    let partial = repository.partial("other");
    succeed(repository.fixture(&["measure", "2"], Some(&partial)).output().expect("the fixture starts"));
    let before = read(&partial, "fixture.time.csv");
    let message = common::fail(
        repository.fixture(&["measure", "3"], Some(&partial)).output().expect("the fixture starts"),
    );
    assert!(message.contains("rounds"), "{message}");
    assert_eq!(read(&partial, "fixture.time.csv"), before);
}
