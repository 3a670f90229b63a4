//! A variant that fails ends itself; a study function that breaks the rules ends the measurement.

mod common;

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::time::Duration;

use common::{Repository, SAMPLES, VARIANTS, fail, succeed};

fn output(repository: &Repository, arguments: &[&str]) -> std::process::Output {
    repository.fixture(arguments, Some(&repository.partial("faults"))).output().expect("the fixture starts")
}

fn info(repository: &Repository) -> serde_json::Value {
    let text = fs::read_to_string(repository.partial("faults").join("run.json")).expect("written");
    serde_json::from_str(&text).expect("run.json is JSON")
}

fn rows(repository: &Repository) -> Vec<String> {
    let text = fs::read_to_string(repository.partial("faults").join("fixture.time.csv")).expect("written");
    text.lines().skip(1).map(str::to_owned).collect()
}

#[test]
fn a_panic_is_recorded_and_the_others_go_on() {
    let repository = Repository::new();
    let done = output(&repository, &["measure", "3", "panic"]);
    assert_eq!(String::from_utf8_lossy(&done.stderr), "", "panics are silent");
    let text = succeed(done);
    assert!(text.contains("left out: sum/faulty@items=100"), "{text}");
    let failed = &info(&repository)["studies"]["fixture"]["failed"];
    assert_eq!(failed.as_array().map(Vec::len), Some(1));
    // One line, and the folder of this machine is not in it.
    assert_eq!(failed[0]["error"], "lost in ~/rust-kernels/inner");
    assert_eq!(rows(&repository).len(), 3 * (VARIANTS - 1) * SAMPLES);
}

#[test]
fn a_variant_that_fails_later_keeps_its_earlier_rounds() {
    let repository = Repository::new();
    succeed(output(&repository, &["measure", "5", "late"]));
    let faulty = rows(&repository).iter().filter(|row| row.contains(",faulty,")).count();
    assert_eq!(faulty, 2 * SAMPLES);
    assert_eq!(info(&repository)["studies"]["fixture"]["failed"][0]["error"], "tired");
}

#[test]
fn what_is_compared_with_a_baseline_that_fails_is_measured_to_the_end() {
    let repository = Repository::new();
    let text = succeed(output(&repository, &["measure", "5", "baseline"]));
    let study = &info(&repository)["studies"]["fixture"];
    // The control runs the same function, so whichever of the two comes third fails with it.
    let failed = study["failed"].as_array().expect("a list");
    assert!(failed.iter().any(|failure| failure["variant"] == "loop"), "{failed:?}");
    let count = |variant: &str| {
        rows(&repository).iter().filter(|row| row.starts_with(&format!("fixture,sum,{variant},"))).count()
    };
    assert!(count("loop") < 5 * SAMPLES);
    assert_eq!(count("custom"), 5 * SAMPLES);
    assert!(text.contains("left out: sum/loop@items=100: gone"), "{text}");
    let again = output(&repository, &["measure", "5", "baseline"]);
    assert!(succeed(again).contains("measured already"), "the run is whole without these rows");
}

/// Measures with a variant that fails in its first trial and returns its message.
fn first_failure(fault: &str) -> String {
    let repository = Repository::new();
    let text = succeed(output(&repository, &["measure", "3", fault]));
    assert_eq!(rows(&repository).len(), 3 * (VARIANTS - 1) * SAMPLES, "{text}");
    let failed = &info(&repository)["studies"]["fixture"]["failed"];
    assert_eq!(failed.as_array().map(Vec::len), Some(1));
    failed[0]["error"].as_str().expect("a text").to_owned()
}

#[test]
fn in_an_isolated_study_a_hang_or_an_abort_ends_that_variant_only() {
    let hang = first_failure("hang");
    assert!(hang.contains("did not end within 300ms"), "{hang}");
    let abort = first_failure("abort");
    assert!(abort.contains("SIGABRT"), "{abort}");
}

#[test]
fn time_for_which_everything_was_stopped_counts_for_no_deadline() {
    let repository = Repository::new();
    let mut fixture = repository.fixture(&["measure", "3", "stop"], Some(&repository.partial("faults")));
    let fixture = fixture.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
    let fixture = fixture.spawn().expect("the fixture starts");
    let (group, mut status) = (fixture.id() as i32, 0);
    // SAFETY: the fixture was not waited for, and only stops here; `status` outlives the call.
    unsafe { libc::waitpid(group, &mut status, libc::WUNTRACED) };
    assert!(libc::WIFSTOPPED(status), "it has ended before its trial has stopped it");
    // Longer than its trials may take.
    std::thread::sleep(Duration::from_millis(1_500));
    // SAFETY: the group of the fixture, which waits for this.
    unsafe { libc::kill(-group, libc::SIGCONT) };
    succeed(fixture.wait_with_output().expect("the fixture ends"));
    assert_eq!(info(&repository)["studies"]["fixture"]["failed"], serde_json::json!([]));
    assert_eq!(rows(&repository).len(), 3 * VARIANTS * SAMPLES);
}

#[test]
fn in_an_isolated_study_no_trial_leaves_anything_behind() {
    let repository = Repository::new();
    succeed(output(&repository, &["measure", "3", "leak"]));
    assert_eq!(info(&repository)["studies"]["fixture"]["failed"], serde_json::json!([]));
    assert_eq!(rows(&repository).len(), 3 * VARIANTS * SAMPLES);
}

#[test]
#[cfg(target_os = "linux")]
fn an_isolated_study_is_refused_in_a_process_with_threads() {
    let repository = Repository::new();
    let message = fail(output(&repository, &["measure", "1", "thread"]));
    assert!(message.contains("harness::isolated(limit, work)"), "{message}");
}

#[test]
fn run_json_says_what_is_compared_with_what() {
    let repository = Repository::new();
    succeed(output(&repository, &["measure", "1"]));
    let study = &info(&repository)["studies"]["fixture"];
    let comparisons = study["comparisons"].as_array().expect("a list");
    assert_eq!(comparisons.len(), VARIANTS - 1);
    let control = serde_json::json!({
        "bench": "sum", "variant": "loop (A/A)", "parameter": "items=100",
        "baseline_bench": "sum", "baseline_variant": "loop", "baseline_parameter": "items=100", "group": "",
        "change": "the same, measured twice", "unit": "iteration",
    });
    assert_eq!(comparisons[VARIANTS - 2], control);
    assert_eq!(study["groups"], serde_json::json!({ "": 0.01 }));
}

#[test]
#[cfg(target_os = "linux")]
fn run_json_says_from_the_beginning_what_is_judged_and_how_it_was_compiled_and_started() {
    let repository = Repository::new();
    let mut fixture = repository.fixture(&["measure", "1"], Some(&repository.partial("faults")));
    // SAFETY: it changes a flag of the child, which is single-threaded before its program begins.
    unsafe {
        fixture.pre_exec(|| {
            libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
            Ok(())
        });
    }
    let fixture =
        fixture.env("ASYNC_COST_CLAIMS", "of the claims").env("ASYNC_COST_PROGRAM", "of the program");
    succeed(fixture.output().expect("the fixture starts"));
    let info = info(&repository);
    assert_eq!([&info["claims"], &info["program"]], ["of the claims", "of the program"]);
    assert_eq!(info["machine"]["address_randomisation"], 0, "as after setarch -R");
    assert_ne!(info["codegen"]["options"], serde_json::json!([]));
}

#[test]
fn a_function_that_never_measures_is_an_error_with_its_name() {
    let repository = Repository::new();
    let message = fail(output(&repository, &["measure", "2", "lazy"]));
    assert!(message.contains("sum/faulty@items=100"), "{message}");
}

#[test]
fn programs_read_progress_as_json() {
    let repository = Repository::new();
    let mut fixture = repository.fixture(&["measure", "4"], Some(&repository.partial("faults")));
    let text = succeed(fixture.env("ASYNC_COST_PROGRESS", "json").output().expect("the fixture starts"));
    let lines = text.lines().filter(|line| line.starts_with('{'));
    let states: Vec<serde_json::Value> =
        lines.map(|line| serde_json::from_str(line).expect("one object a line")).collect();
    let trials = 4 * VARIANTS;
    let last = serde_json::json!({
        "study": "fixture", "unit": "round", "round": 4, "rounds": 4, "done": trials, "trials": trials, "seconds_left": 0.0,
    });
    assert_eq!(states.last(), Some(&last), "{text}");
    assert!(states[0]["done"] == 0 && states[0]["seconds_left"].is_f64(), "{text}");
}

#[test]
fn outside_of_a_repository_the_message_says_where_to_start() {
    let repository = Repository::new();
    fs::remove_dir_all(repository.0.join("data")).expect("the folder is ours");
    let mut fixture = repository.fixture(&["measure", "1"], None);
    let message = fail(fixture.output().expect("the fixture starts"));
    assert!(message.contains("inside the repository"), "{message}");
}

#[test]
fn nothing_in_a_run_names_this_machine_or_its_user() {
    let repository = Repository::new();
    succeed(output(&repository, &["measure", "2", "panic"]));
    let text = fs::read_to_string(repository.partial("faults").join("run.json")).expect("written");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let private = [
        repository.0.display().to_string(),
        std::env::var("HOME").unwrap_or_default(),
        host.trim().to_owned(),
    ];
    for name in private.iter().filter(|name| name.len() > 3) {
        assert!(!text.contains(name.as_str()), "run.json holds {name}");
    }
}
