//! From arguments to a report.

mod alike;
mod arguments;
mod base;
mod build;
mod copy;
mod judged;
mod lock;
mod manifest;
mod one;
mod package;
mod peer;
mod release;
mod report;
mod samples;
mod turns;
mod worktree;

use std::fs::{self, File};
use std::path::Path;

use by_turns_core::base::lock::{held, locked};
use by_turns_core::run::files::{Running, at};
use by_turns_core::run::process::{Caught, end_with_cargo, parent};
use by_turns_core::run::progress::Progress;

use arguments::{Arguments, HELP};
use one::One;
use package::{Bench, Package};
use report::Report;

/// Does what the arguments ask for, and returns the exit status.
///
/// # Errors
/// Why nothing could be compared.
pub fn run(words: impl IntoIterator<Item = String>) -> Result<u8, String> {
    let Some(arguments) = Arguments::of(words)? else {
        println!("{HELP}");
        return Ok(0);
    };
    end_with_cargo(parent());
    let manifest = arguments.manifest.as_ref().map(Path::new);
    let today = Package::find(manifest, arguments.package.as_deref())?;
    let benches = chosen(&today, &arguments.benches)?;
    let home = today.target.join("by-turns").join("against");
    fs::create_dir_all(&home).map_err(at(&home))?;
    let _alone = alone(&home, arguments.quiet);
    let mut progress = Progress::of("by-turns", arguments.quiet);
    progress.say("preparing the base");
    let base = base::prepared(&arguments, &today, &benches, &home)?;
    let mut report = Report {
        against: arguments.against.clone(),
        base: base.shown.clone(),
        gate_time: arguments.gate_time,
        ..Report::default()
    };
    for bench in &base.gone {
        report.not_compared.push(format!("bench {bench} exists in the base only"));
    }
    let caught = Caught::begin();
    for bench in benches {
        let running = Running::begin(&home)?;
        let one =
            One { arguments: &arguments, today: &today, base: &base, bench, home: &home, running: &running };
        match one.compared(&caught, &mut progress, &mut report) {
            Ok(asked) => report.asked = asked,
            Err(why) => report.not_compared.push(format!("bench {}: {why}", bench.name)),
        }
        report.asked = report.asked.or(caught.asked());
        if report.asked.is_some() {
            break;
        }
    }
    let texts = [&base.package, &today].map(|side| fs::read_to_string(side.lock()).unwrap_or_default());
    report.locks = lock::differences(&texts[0], &texts[1]);
    drop(progress);
    match arguments.json {
        true => println!("{:#}", report.json()),
        false => println!("{}", report.markdown()),
    }
    Ok(report.status())
}

/// Waits until no other process compares here: the folder of a base is one, however many ask for it.
fn alone(home: &Path, quiet: bool) -> Option<File> {
    let taken = File::open(home).ok().and_then(|folder| locked(&folder, false)) == Some(false);
    if taken && !quiet {
        eprintln!("by-turns: waiting for another cargo by-turns --against of this target folder");
    }
    held(home)
}

/// The benches of these names, or all that use by-turns.
fn chosen<'a>(today: &'a Package, names: &[String]) -> Result<Vec<&'a Bench>, String> {
    if let Some(name) = names.iter().find(|name| !today.benches.iter().any(|bench| bench.name == **name)) {
        let known: Vec<&str> = today.benches.iter().map(|bench| bench.name.as_str()).collect();
        return Err(format!("{} has no bench {name}; it has {}", today.name, known.join(", ")));
    }
    let chosen =
        |bench: &&Bench| if names.is_empty() { bench.uses_by_turns() } else { names.contains(&bench.name) };
    let found: Vec<&Bench> = today.benches.iter().filter(chosen).collect();
    if found.is_empty() { Err(format!("{} has no bench that uses by-turns", today.name)) } else { Ok(found) }
}
