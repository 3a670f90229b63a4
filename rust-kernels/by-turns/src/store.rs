//! Where a run goes: raw samples as a tidy table, with their provenance, as the package async-cost reads them.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::arguments::Profile;
use crate::builder::{Bench, Variant};
use crate::episodes::{TRIAL, WARM_UP};
use by_turns_core::base::clock::Utc;
use by_turns_core::base::machine::{self, Machine};
use by_turns_core::trial::sampling::SAMPLES;

/// First line of the table of samples.
pub const TIMES: &str = "study,bench,variant,parameter,round,position,sample,iterations,elapsed_ns";

/// A process that has measured.
pub struct Process {
    /// Its first round.
    pub first: u32,
    /// When.
    pub started: Utc,
    /// Until when.
    pub ended: Utc,
    /// The number from which its link order was drawn.
    pub layout: Option<u32>,
}

/// What is known before anything is measured.
pub struct Before {
    started: Utc,
    machine: Machine,
    load: Option<[f64; 3]>,
    steal_ms: Option<u64>,
    throttled: Option<u64>,
}

impl Before {
    /// Looks at the machine.
    pub fn now() -> Self {
        let (load, steal_ms, throttled) = (machine::load(), machine::steal_ms(), machine::throttled());
        Self { started: Utc::now(), machine: Machine::this(), load, steal_ms, throttled }
    }
}

/// The folder of all that a bench leaves: `by-turns/<bench>` in the folder that cargo builds in.
///
/// # Errors
/// Of the operating system.
pub fn folder(bench: &str) -> io::Result<PathBuf> {
    let program = env::current_exe()?;
    let target =
        program.ancestors().find(|folder| folder.ends_with("deps")).and_then(|deps| deps.parent()?.parent());
    let folder = target.unwrap_or(Path::new("target")).join("by-turns").join(bench);
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Writes a run into a folder of its own, whole or not at all, and returns the folder.
///
/// # Errors
/// Of the operating system.
#[allow(clippy::too_many_arguments)]
pub(crate) fn write<W: PartialEq + std::fmt::Debug>(
    bench: &Bench<'_, W>,
    variants: &[Variant],
    profile: &Profile,
    seed: u64,
    before: &Before,
    processes: &[Process],
    samples: &str,
    counts: &str,
) -> io::Result<PathBuf> {
    let (name, time) = (&before.machine.name, before.started.folder());
    let about = about(bench, variants, profile, seed, before, processes);
    let info = json!({
        "schema_version": 4,
        "run_id": format!("{name}/{time}"),
        "origin": "crate",
        "profile": profile.name,
        "command": null,
        "started": before.started.text(),
        "ended": Utc::now().text(),
        "machine": Value::from(before.machine.clone()),
        "toolchain": {"rustc": compiler(), "target": null, "evcxr": null, "linker": null},
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
    let place = folder(&bench.name)?.join(name);
    let (partial, whole) = (place.join(format!(".partial-{}", std::process::id())), place.join(time));
    fs::create_dir_all(&partial)?;
    fs::write(partial.join("run.json"), format!("{info:#}\n"))?;
    fs::write(partial.join(format!("{}.time.csv", bench.name)), format!("{TIMES}\n{samples}"))?;
    fs::write(partial.join(format!("{}.counts.csv", bench.name)), counts)?;
    fs::rename(&partial, &whole)?;
    Ok(whole)
}

fn about<W: PartialEq + std::fmt::Debug>(
    bench: &Bench<'_, W>,
    variants: &[Variant],
    profile: &Profile,
    seed: u64,
    before: &Before,
    processes: &[Process],
) -> Value {
    let (mut groups, mut kinds, mut comparisons) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for variant in variants {
        let Some(baseline) = variant.baseline.map(|baseline| &variants[baseline]) else { continue };
        let settings = &bench.declared[baseline.declared].settings;
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
        "seed": seed,
        "rounds": profile.processes * profile.rounds,
        "samples": SAMPLES,
        "warm_up_ns": WARM_UP.as_nanos() as u64,
        "trial_ns": TRIAL.as_nanos() as u64,
        "started": before.started.text(),
        "ended": Utc::now().text(),
        "resumed": 0,
        "load_before": before.load,
        "load_after": machine::load(),
        "steal_before_ms": before.steal_ms,
        "steal_after_ms": machine::steal_ms(),
        "throttled_before": before.throttled,
        "throttled_after": machine::throttled(),
        "failed": [],
        "episodes": processes.iter().map(episode).collect::<Vec<_>>(),
    })
}

/// What trials of variants on one thread, or on several, are like.
pub fn kind(threads: bool) -> &'static str {
    if threads { "many threads" } else { "one thread" }
}

fn compiler() -> Option<String> {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let said = Command::new(rustc).arg("--version").output().ok()?;
    Some(String::from_utf8_lossy(&said.stdout).trim().to_owned()).filter(|text| !text.is_empty())
}
