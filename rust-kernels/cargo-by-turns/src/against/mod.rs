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
use std::io::IsTerminal;
use std::path::Path;

use by_turns_core::base::lock::{held, locked};
use by_turns_core::run::files::{Running, at};
use by_turns_core::run::process::{Caught, end_with_cargo, parent};
use by_turns_core::run::progress::Progress;

use arguments::{Arguments, Task};
use one::One;
use package::{Bench, Package, Refused};
use report::{Report, Style};

/// Does what the arguments ask for, and returns the exit status.
///
/// # Errors
/// Why nothing could be compared.
pub fn run(words: impl IntoIterator<Item = String>) -> Result<u8, String> {
    let arguments = match Arguments::of(words)? {
        Task::Compare(arguments) => arguments,
        Task::Print(text) => {
            println!("{}", text.trim_end());
            return Ok(0);
        }
    };
    end_with_cargo(parent());
    // Ctrl-C ends cargo, git and benches as well, which is no error of theirs.
    let caught = Caught::begin();
    let report = compared(&arguments, &caught);
    if let Some(asked) = caught.asked()
        && !report.as_ref().is_ok_and(|report| !report.benches.is_empty())
    {
        eprintln!("by-turns: interrupted before anything was compared");
        return Ok(asked.status());
    }
    let report = match report {
        Err(why) if arguments.json => Report { not_compared: vec![why], ..Report::of(&arguments) },
        report => report?,
    };
    let style = match arguments.markdown || !std::io::stdout().is_terminal() {
        true => Style::Markdown,
        false => Style::Terminal,
    };
    match arguments.json {
        true => println!("{:#}", report.json()),
        false => println!("{}", report.text(style)),
    }
    Ok(report.status())
}

fn compared(arguments: &Arguments, caught: &Caught) -> Result<Report, String> {
    let manifest = arguments.manifest.as_ref().map(Path::new);
    let today = &Package::find(manifest, arguments.package.as_deref())?;
    let benches = &chosen(today, &arguments.benches)?;
    let home = &today.target.join("by-turns").join("against");
    fs::create_dir_all(home).map_err(at(home))?;
    let _alone = alone(home, arguments.quiet);
    let mut progress = Progress::of("by-turns", arguments.quiet);
    progress.say("preparing the base");
    let mut report = Report { package: today.name.clone(), ..Report::of(arguments) };
    let base = match base::prepared(arguments, today, benches, home) {
        Ok(base) => base,
        Err(Refused::OneSource { base, why }) => {
            return Ok(Report { base, one_source: Some(why), ..report });
        }
        Err(Refused::Failed(why)) => return Err(why),
    };
    report.base.clone_from(&base.shown);
    report.one_sided.extend(base.gone.iter().map(|bench| format!("bench {bench} exists in the base only")));
    let mut unmatched = arguments.filters.clone();
    for bench in benches {
        let running = Running::begin(home)?;
        let one = One { arguments, today, base: &base, bench, home, running: &running };
        let done = one.compared(caught, &mut progress, &mut report);
        report.asked = caught.asked();
        if report.asked.is_some() {
            break;
        }
        match done {
            Ok(names) => unmatched.retain(|filter| !names.iter().any(|name| name.contains(filter))),
            Err(why) => {
                unmatched.clear(); // that one may have variants of this name
                report.not_compared.push(format!("bench {}: {why}", bench.name));
            }
        }
    }
    if report.asked.is_none() {
        report.not_compared.extend(unmatched.iter().map(|filter| format!("no variant matches {filter:?}")));
    }
    let texts = [&base.package, today].map(|side| fs::read_to_string(side.lock()).unwrap_or_default());
    report.locks = lock::differences(&texts[0], &texts[1]);
    Ok(report)
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
