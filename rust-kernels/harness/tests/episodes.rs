//! A run is measured by several processes, each of which measures some of its rounds.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Repository, SAMPLES, VARIANTS, fail, succeed};

fn measure(
    repository: &Repository,
    partial: &Path,
    rounds: &str,
    episode: &[(&str, &str)],
) -> std::process::Output {
    let mut command = repository.fixture(&["measure", rounds], Some(partial));
    command.envs(episode.iter().copied()).output().expect("the fixture starts")
}

fn info(partial: &Path) -> serde_json::Value {
    let text = fs::read_to_string(partial.join("run.json")).expect("written");
    serde_json::from_str(&text).expect("run.json is JSON")
}

fn study(partial: &Path) -> serde_json::Value {
    info(partial)["studies"]["fixture"].clone()
}

fn first_rounds(partial: &Path) -> Vec<u64> {
    let episodes = study(partial)["episodes"].as_array().expect("a list").clone();
    episodes.iter().map(|episode| episode["first_round"].as_u64().expect("a number")).collect()
}

fn rows(partial: &Path) -> Vec<String> {
    let text = fs::read_to_string(partial.join("fixture.time.csv")).expect("written");
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn each_episode_is_a_process_of_its_own() {
    let repository = Repository::new();
    let partial = repository.partial("episodes");
    let text = succeed(measure(&repository, &partial, "7/3", &[]));
    assert!(text.contains("7 rounds") && text.contains("round 7 of 7"), "{text}");
    assert_eq!(first_rounds(&partial), [0, 2, 4]);
    assert_eq!(rows(&partial).len(), 7 * VARIANTS * SAMPLES);
    let study = study(&partial);
    assert_eq!((&study["state"], &study["resumed"]), (&"complete".into(), &0.into()));
    assert_eq!(study["kinds"][""], "one thread");
    let ended =
        study["episodes"].as_array().expect("a list").iter().all(|episode| episode["ended"].is_string());
    assert!(ended, "every episode says when it ended");
    // A variant that gives up at the third trial of its process never comes to it.
    let calm = repository.partial("calm");
    let mut command = repository.fixture(&["measure", "6/3", "late"], Some(&calm));
    succeed(command.output().expect("the fixture starts"));
    assert_eq!(info(&calm)["studies"]["fixture"]["failed"].as_array().map(Vec::len), Some(0));
}

#[test]
fn an_outer_program_is_told_how_to_start_episodes_and_starts_them() {
    let repository = Repository::new();
    let partial = repository.partial("outer");
    succeed(measure(&repository, &partial, "6/3", &[("ASYNC_COST_EPISODE", "prepare")]));
    let text = fs::read_to_string(partial.join("fixture.episode.json")).expect("it was told");
    let start: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(start["until"], serde_json::json!([2, 4, 6]));
    assert_eq!((&start["library"], &start["arguments"][1]), (&serde_json::Value::Null, &"6/3".into()));
    assert_eq!(study(&partial)["state"], "measuring");
    for until in ["2", "4", "4", "6"] {
        let output = measure(&repository, &partial, "6/3", &[("ASYNC_COST_EPISODE", until)]);
        assert_eq!(output.status.code().map(i64::from), start["done_status"].as_i64());
    }
    // The second process for the same rounds had nothing to do.
    assert_eq!(first_rounds(&partial), [0, 2, 4]);
    assert_eq!(study(&partial)["state"], "complete");
}

#[test]
fn an_episode_knows_its_link_order_by_the_name_of_its_file() {
    let repository = Repository::new();
    let partial = repository.partial("layouts");
    let linked = repository.0.join("fixture.layout42");
    fs::copy(repository.fixture(&[], None).get_program(), &linked).expect("a temporary file");
    for (until, program) in [("2", Some(&linked)), ("4", None)] {
        let given = repository.fixture(&["measure", "4/2"], Some(&partial));
        let mut command = Command::new(program.map_or(given.get_program(), |program| program.as_os_str()));
        command.args(given.get_args()).current_dir(&repository.0);
        command.env("ASYNC_COST_PARTIAL", &partial).env("ASYNC_COST_EPISODE", until);
        assert_eq!(command.status().expect("it starts").code(), Some(40));
    }
    let layouts = study(&partial)["episodes"].as_array().expect("a list").clone();
    let layouts: Vec<_> = layouts.iter().map(|episode| episode["layout"].as_u64()).collect();
    assert_eq!(layouts, [Some(42), None]);
}

#[test]
fn a_kill_after_the_last_round_and_before_the_last_word_is_made_good() {
    let repository = Repository::new();
    let partial = repository.partial("last");
    succeed(measure(&repository, &partial, "4/2", &[]));
    let mut info = info(&partial);
    info["studies"]["fixture"]["state"] = "measuring".into();
    fs::write(partial.join("run.json"), info.to_string()).expect("a temporary file");
    let output = measure(&repository, &partial, "4/2", &[("ASYNC_COST_EPISODE", "4")]);
    assert_eq!(output.status.code(), Some(40));
    assert_eq!(study(&partial)["state"], "complete");
}

#[test]
fn a_process_that_is_refused_ends_the_measurement_and_says_why() {
    let repository = Repository::new();
    let partial = repository.partial("refused");
    let mut command = repository.fixture(&["measure", "4/2", "lazy"], Some(&partial));
    let message = fail(command.output().expect("the fixture starts"));
    assert!(message.contains("never measured anything"), "{message}");
    assert!(message.contains("an episode of fixture was not measured"), "{message}");
    let output = measure(&repository, &partial, "4/2", &[("ASYNC_COST_EPISODE", "soon")]);
    assert!(fail(output).contains("neither a number of rounds nor"));
}
