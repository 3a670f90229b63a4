//! Where a run goes: raw samples as a tidy table, with their provenance, as the package async-cost reads them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::builder::{Bench, Variant};
use by_turns_core::base::clock::Utc;
use by_turns_core::base::machine::{self, Machine};
use by_turns_core::run::budget::{Profile, TRIAL, WARM_UP};
use by_turns_core::run::disturbed::Watch;
use by_turns_core::run::files::{Running, at, output, rustc};

/// First line of the table of samples.
pub const TIMES: &str = "study,bench,variant,parameter,round,position,sample,iterations,elapsed_ns";

/// A process that has measured.
pub struct Process {
    /// Its first round.
    pub first: u32,
    /// When it began.
    pub started: Utc,
    /// When it ended.
    pub ended: Utc,
    /// The number from which its link order was drawn.
    pub layout: Option<u32>,
}

/// What the processes have measured.
pub struct Taken {
    /// From which the order of each round was drawn.
    pub seed: u64,
    /// The samples, as rows of the table.
    pub rows: String,
    /// The processes that are whole.
    pub processes: Vec<Process>,
    /// Their rounds, together.
    pub rounds: u32,
    /// Samples of each trial.
    pub samples: usize,
}

/// What is known before anything is measured.
pub struct Before {
    started: Utc,
    machine: Machine,
    pub watch: Watch,
    throttled: Option<u64>,
}

impl Before {
    /// Looks at the machine.
    pub fn now() -> Self {
        let (watch, throttled) = (Watch::begin(), machine::throttled());
        Self { started: Utc::now(), machine: Machine::this(), watch, throttled }
    }
}

/// Gives a folder the name that it is to have, or, where there is such a one, that with `-2`, `-3`, …
fn named(partial: &Path, place: &Path, name: &str) -> io::Result<PathBuf> {
    let mut whole = place.join(name);
    for number in 2_u32.. {
        match fs::rename(partial, &whole) {
            Err(error) if matches!(error.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => {
                whole = place.join(format!("{name}-{number}"));
            }
            renamed => return renamed.map(|()| whole),
        }
    }
    unreachable!("there is a number that no folder has")
}

/// Writes a run into a folder of its own at `place`, whole or not at all, and returns the folder.
///
/// # Errors
/// Of the operating system.
pub(crate) fn write<W: PartialEq + std::fmt::Debug>(
    bench: &Bench<'_, W>,
    variants: &[Variant],
    profile: &Profile,
    before: &Before,
    taken: &Taken,
    counts: &str,
    (place, running): (&Path, &Running),
) -> Result<PathBuf, String> {
    let (name, time) = (&before.machine.name, before.started.folder());
    let about = about(bench, variants, before, taken);
    let info = json!({
        "schema_version": 4,
        "run_id": format!("{name}/{time}"),
        "origin": "crate",
        "profile": profile.name,
        "command": null,
        "started": before.started.text(),
        "ended": Utc::now().text(),
        "machine": Value::from(before.machine.clone()),
        "toolchain": {"rustc": output(rustc().arg("--version")).ok().map(|text| text.trim().to_owned()), "target": null, "evcxr": null, "linker": null},
        "codegen": {
            "profile": "bench",
            "opt_level": null,
            "debug_assertions": cfg!(debug_assertions),
            "overflow_checks": cfg!(debug_assertions),
            "codegen_units": null,
            "incremental": null,
            "lto": null,
            "prefer_dynamic": null,
            "rustflags": null,
            "options": null,
        },
        "crates": {},
        "git": null,
        "claims": null,
        "findings": null,
        "program": null,
        "series": null,
        "waited_s": null,
        "boot": null,
        "studies": {bench.name.as_str(): about},
    });
    let (partial, place) = (running.folder.join("run"), place.join(name));
    let files = [
        ("run.json".to_owned(), format!("{info:#}\n")),
        (format!("{}.time.csv", bench.name), format!("{TIMES}\n{}", taken.rows)),
        (format!("{}.counts.csv", bench.name), counts.to_owned()),
    ];
    for folder in [&partial, &place] {
        fs::create_dir_all(folder).map_err(at(folder))?;
    }
    for (file, text) in files {
        let path = partial.join(file);
        fs::write(&path, text).map_err(at(&path))?;
    }
    named(&partial, &place, &time).map_err(at(&place))
}

fn about<W: PartialEq + std::fmt::Debug>(
    bench: &Bench<'_, W>,
    variants: &[Variant],
    before: &Before,
    taken: &Taken,
) -> Value {
    let (mut groups, mut kinds, mut comparisons) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for variant in variants {
        let Some(baseline) = variant.baseline.map(|baseline| &variants[baseline]) else { continue };
        let settings = bench.settings(variant);
        groups.insert(&settings.load, settings.tolerance);
        kinds.insert(&settings.load, kind(settings.threads));
        let change = match variant.control {
            true => "the same, measured twice".to_owned(),
            // As Markdown, in which a backtick would end what is code.
            false => {
                let [mine, other] = [variant, baseline].map(|one| one.key.variant.replace('`', "'"));
                format!("`{mine}` instead of `{other}`")
            }
        };
        comparisons.push(json!({
            "bench": variant.key.bench,
            "variant": variant.key.variant,
            "parameter": variant.key.parameter,
            "baseline_bench": baseline.key.bench,
            "baseline_variant": baseline.key.variant,
            "baseline_parameter": baseline.key.parameter,
            "group": settings.load,
            "change": change,
            "unit": settings.unit,
        }));
    }
    let controls = variants.iter().filter(|variant| variant.control).map(|variant| &variant.key.variant);
    let episode = |one: &Process| json!({"first_round": one.first, "started": one.started.text(), "ended": one.ended.text(), "layout": one.layout});
    json!({
        "state": "complete",
        "baseline": "",
        "controls": controls.collect::<Vec<_>>(),
        "comparisons": comparisons,
        "groups": groups,
        "kinds": kinds,
        "seed": taken.seed,
        "rounds": taken.rounds,
        "samples": taken.samples,
        "warm_up_ns": WARM_UP.as_nanos() as u64,
        "trial_ns": TRIAL.as_nanos() as u64,
        "started": before.started.text(),
        "ended": Utc::now().text(),
        "resumed": 0,
        "load_before": before.watch.load,
        "load_after": machine::load(),
        "steal_before_ms": before.watch.steal_ms,
        "steal_after_ms": machine::steal_ms(),
        "throttled_before": before.throttled,
        "throttled_after": machine::throttled(),
        "failed": [],
        "episodes": taken.processes.iter().map(episode).collect::<Vec<_>>(),
    })
}

/// What trials of variants on one thread, or on several, are like.
pub fn kind(threads: bool) -> &'static str {
    if threads { "many threads" } else { "one thread" }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An empty folder of a test.
    fn empty(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("by-turns-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    #[test]
    fn two_runs_in_one_second_are_both_kept() {
        let place = empty("named");
        let kept = ["a", "b", "c"].map(|run| {
            let partial = place.join(run);
            fs::create_dir(&partial).expect("a folder");
            fs::write(partial.join("run.json"), run).expect("a file");
            named(&partial, &place, "20261129T150000Z").expect("a name")
        });
        assert_eq!(kept[0], place.join("20261129T150000Z"));
        assert_eq!(kept[2], place.join("20261129T150000Z-3"));
        assert_eq!(fs::read_to_string(kept[1].join("run.json")).expect("a file"), "b");
        fs::remove_dir_all(place).expect("it is there");
    }
}
