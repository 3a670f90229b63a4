//! Measures the measuring, for the page on trust. `python -m experiments` starts it, in one of three
//! modes:
//!
//! ```text
//! experiments interleaved ROUNDS                         five of its variants, in interleaved rounds
//! experiments twins ROUNDS WARM_UP_US TRIAL_US SAMPLES   the baseline and itself, in interleaved rounds with trials of this length
//! experiments sequential WARM_UP_MS TIME_MS              the baseline and itself, one after the other, by `harness::criterion`
//! ```
//!
//! The first two write a run into the folder that `ASYNC_COST_PARTIAL` names, with the profile `test`, so that it is
//! not taken for a run of the study. The last one prints one line for each variant: its name, a tab, and the nanoseconds
//! that Criterion estimates.

use std::env;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Duration;

use harness::criterion::Criterion;
use harness::{Bencher, Key, Profile, Study};
use zero_cost::{PUBLISHED, variants};

/// The baseline, the leanest async, and three that differ from it in a box, an executor and a waker.
const FEW: [&str; 5] = ["manual", "nonbox", "callerbox", "box", "box+arc"];
/// What is measured against itself.
const TWIN: &str = FEW[0];

fn main() -> Result<(), Box<dyn Error>> {
    // Cargo adds `--bench`.
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["interleaved", rounds] => {
            study_of(&FEW, Study::new("zero-cost")).measure(&profile(rounds.parse()?)).map(drop)?
        }
        ["twins", rounds, warm_up, trial, samples] => {
            let (warm_up, trial) =
                (Duration::from_micros(warm_up.parse()?), Duration::from_micros(trial.parse()?));
            let profile = Profile { warm_up, trial, ..profile(rounds.parse()?) };
            let study = study_of(&[TWIN], Study::new("zero-cost").samples(samples.parse()?));
            study.measure(&profile).map(drop)?
        }
        ["sequential", warm_up, time] => {
            sequential(Duration::from_millis(warm_up.parse()?), Duration::from_millis(time.parse()?))?
        }
        // `cargo bench` without arguments runs all targets.
        [] => println!("started by `python -m experiments`; see the head of this file"),
        _ => return Err("not one of the modes: see the head of benches/experiments.rs".into()),
    }
    Ok(())
}

/// Trials as in a standard run.
fn profile(rounds: u32) -> Profile {
    Profile { name: "test".to_owned(), rounds, episodes: 1, ..Profile::standard() }
}

/// Variants that [`zero_cost::study`] proves to do equal work, and the control of their baseline; the proof is not
/// repeated here.
fn study_of(names: &[&str], study: Study) -> Study {
    let chosen = variants()
        .into_iter()
        .filter(|variant| names.contains(&variant.name) && variant.loads[0] == PUBLISHED[0]);
    let study = chosen.fold(study.baseline("manual"), |study, variant| {
        study.bench(variant.key(PUBLISHED[0]), move |bencher: &mut Bencher| {
            (variant.timed)(PUBLISHED[0], &mut |_, run| bencher.iter(run));
        })
    });
    study.control("syscalls=off")
}

/// Criterion with its own defaults, but for the times and the bootstrap, which its point estimate does not need.
fn sequential(warm_up: Duration, time: Duration) -> Result<(), Box<dyn Error>> {
    let folder = env::temp_dir().join(format!("async-cost-sequential-{}", std::process::id()));
    let criterion = Criterion::default()
        .without_plots()
        .output_directory(&folder)
        .nresamples(1_001)
        .warm_up_time(warm_up)
        .measurement_time(time);
    let study = study_of(&[TWIN], Study::new("zero-cost"));
    if let [failure, ..] = harness::criterion::bench(&study, criterion)?.as_slice() {
        return Err(format!("{}: {}", failure.key, failure.error).into());
    }
    for key in study.keys() {
        println!("{}\t{}", key.variant, estimate(&folder.join(place(&study, &key)))?);
    }
    fs::remove_dir_all(&folder)?;
    Ok(())
}

/// Where Criterion puts what it found about this key: a folder for each part of its name, in which a slash is no
/// separator.
fn place(study: &Study, Key { bench, variant, parameter }: &Key) -> String {
    let group = if bench == variant { study.name().to_owned() } else { format!("{}/{bench}", study.name()) };
    [group.as_str(), variant, parameter].map(|part| part.replace('/', "_")).join("/")
}

/// Criterion's estimate: the slope of time over iterations, or the mean where it did not vary the iterations.
fn estimate(folder: &Path) -> Result<f64, Box<dyn Error>> {
    let text = fs::read_to_string(folder.join("new/estimates.json"))?;
    let estimates: serde_json::Value = serde_json::from_str(&text)?;
    let typical = if estimates["slope"].is_null() { &estimates["mean"] } else { &estimates["slope"] };
    typical["point_estimate"].as_f64().ok_or_else(|| format!("no estimate in {text}").into())
}
