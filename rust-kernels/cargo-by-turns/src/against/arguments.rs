//! What `cargo by-turns …` asks for.

use std::collections::BTreeMap;
use std::time::Duration;

use by_turns_core::count::table::COUNTERS;
use by_turns_core::run::budget;

/// What is understood.
pub const HELP: &str = "\
Usage: cargo by-turns --against <revision | crate@version> [options] [filter …]

Compares the working tree with a revision of git, or with another release of one dependency: the same benches, in two programs
that take turns, trial by trial. A filter selects the variants whose name, such as sorting/stable@items=10, contains it.

      --against <what>           a revision, such as main or v1.2, or a dependency's release, such as tokio@1.45.0
      --bench <name>             this bench; may be repeated; by default all that use by-turns
      --budget <time>            stop measuring each bench after this time, such as 90s, 2m or 1h; by default a minute
      --pairs <number>           pairs of programs, each with link orders of its own; by default 24; fewer than four conclude
                                 nothing
      --limit <time>             a side that does not answer for so long ends the comparison; by default 60s
      --gate-time                also end with status 1 if a variant is slower; by default only if a count grew
      --allow <counter>=<number> growth allowed in per cent: instructions, allocations, allocated_bytes, system_calls,
                                 future_bytes; 1 for instructions and 0 for the others by default; may be repeated
      --pin <core>               measure on this core
      --no-layouts               use one link order for each side
      --markdown                 print Markdown also in a terminal, as elsewhere
      --json                     print JSON
      --schema                   print the schema of that JSON
  -q, --quiet                    no progress
  -h, --help                     print this

These are passed on to cargo, for both sides: --features, -F, --all-features, --no-default-features, --profile, --config,
--locked, --offline, --frozen. --manifest-path <path> or -p <package> choose the package.

Status: 0 nothing got worse, 1 something did (counts; with --gate-time, times as well), 2 something could not be compared, 130 or 143 it was interrupted.";

/// Of the JSON.
const SCHEMA: &str = include_str!("../../schema.json");

/// What a line of arguments asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    Compare(Box<Arguments>),
    Print(&'static str),
}

/// The arguments.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    /// What the working tree is compared with: a revision of git, or a dependency's release.
    pub against: String,
    pub benches: Vec<String>,
    pub budget: Option<Duration>,
    pub pairs: u32,
    pub limit: Duration,
    pub gate_time: bool,
    pub allowed: BTreeMap<String, f64>,
    pub pin: Option<usize>,
    pub layouts: bool,
    pub json: bool,
    /// Also in a terminal.
    pub markdown: bool,
    pub quiet: bool,
    pub manifest: Option<String>,
    pub package: Option<String>,
    /// For cargo, when it builds.
    pub cargo: Vec<String>,
    pub filters: Vec<String>,
}

const WITH_VALUE: [&str; 4] = ["--features", "-F", "--profile", "--config"];
const ALONE: [&str; 5] = ["--all-features", "--no-default-features", "--locked", "--offline", "--frozen"];

impl Arguments {
    /// Understands them.
    ///
    /// # Errors
    /// The first that is not understood.
    pub fn of(given: impl IntoIterator<Item = String>) -> Result<Task, String> {
        let mut found = Self {
            against: String::new(),
            benches: vec![],
            budget: None,
            pairs: 24,
            limit: Duration::from_secs(60),
            gate_time: false,
            allowed: BTreeMap::new(),
            pin: None,
            layouts: true,
            json: false,
            markdown: false,
            quiet: false,
            manifest: None,
            package: None,
            cargo: vec![],
            filters: vec![],
        };
        let mut words = given.into_iter().peekable();
        // Cargo says the name of its subcommand first.
        words.next_if(|word| word == "by-turns");
        while let Some(word) = words.next() {
            if !word.starts_with('-') {
                found.filters.push(word);
                continue;
            }
            let (name, behind) = match word.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (word, None),
            };
            match name.as_str() {
                "--help" | "-h" => return Ok(Task::Print(HELP)),
                "--schema" => return Ok(Task::Print(SCHEMA)),
                _ => {}
            }
            if found.switch(&name) {
                if behind.is_some() {
                    return Err(format!("{name} has no value"));
                }
                continue;
            }
            let mut value = || {
                let next = behind.clone().or_else(|| words.next_if(|next| !next.starts_with('-')));
                next.ok_or_else(|| format!("{name} needs a value"))
            };
            let time = |value: String| {
                budget::parse(&value).ok_or_else(|| format!("{name}: {value:?} is not like 60s, 2m or 500ms"))
            };
            let number =
                |value: String| value.parse::<u32>().map_err(|_| format!("{name}: {value:?} is no number"));
            match name.as_str() {
                "--against" => found.against = value()?,
                "--bench" => found.benches.push(value()?),
                "--budget" => found.budget = Some(time(value()?)?),
                "--limit" => found.limit = time(value()?)?,
                "--pairs" => found.pairs = pairs(number(value()?)?)?,
                "--pin" => found.pin = Some(number(value()?)? as usize),
                "--allow" => {
                    let (counter, most) = allowed(&value()?)?;
                    found.allowed.insert(counter, most);
                }
                "--manifest-path" => found.manifest = Some(value()?),
                "-p" | "--package" => found.package = Some(value()?),
                _ if WITH_VALUE.contains(&name.as_str()) => {
                    let value = value()?;
                    found.cargo.extend([name.clone(), value]);
                }
                _ => return Err(format!("unknown option {name}; `--help` lists all")),
            }
        }
        if found.against.is_empty() {
            return Err("--against is missing: a revision, such as main, or a release, such as tokio@1.45.0"
                .to_owned());
        }
        Ok(Task::Compare(Box::new(found)))
    }

    /// Whether it is an option without a value, which is set.
    fn switch(&mut self, name: &str) -> bool {
        match name {
            "--gate-time" => self.gate_time = true,
            "--no-layouts" => self.layouts = false,
            "--json" => self.json = true,
            "--markdown" => self.markdown = true,
            "--quiet" | "-q" => self.quiet = true,
            _ if ALONE.contains(&name) => self.cargo.push(name.to_owned()),
            _ => return false,
        }
        true
    }
}

fn pairs(number: u32) -> Result<u32, String> {
    if number > 0 { Ok(number) } else { Err("--pairs: 0 pairs measure nothing".to_owned()) }
}

/// A counter, and by how many per cent it may grow.
fn allowed(text: &str) -> Result<(String, f64), String> {
    let (counter, most) = text.split_once('=').unwrap_or((text, ""));
    if !COUNTERS.iter().any(|(known, _)| *known == counter) {
        let known = COUNTERS.map(|(name, _)| name).join(", ");
        return Err(format!("--allow: {counter:?} is none of {known}"));
    }
    let most = most.parse().ok().filter(|most| *most >= 0.0);
    Ok((counter.to_owned(), most.ok_or_else(|| format!("--allow: {text:?} is not like instructions=2"))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Task, String> {
        Arguments::of(text.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn every_option_is_understood_and_in_the_help() {
        let text = "--against main --bench a --bench=b --budget 2m --limit 5s --pairs 8 --gate-time --allow instructions=2 \
                    --pin 1 --no-layouts --json --markdown -q --features x --offline -p mine a/b";
        let Task::Compare(found) = of(text).expect("understood") else { panic!("it compares") };
        assert_eq!((found.benches.len(), found.pairs, found.pin), (2, 8, Some(1)));
        assert!(found.gate_time && found.json && found.markdown && found.quiet && !found.layouts);
        assert_eq!(found.cargo, ["--features", "x", "--offline"]);
        assert_eq!((found.filters, found.allowed["instructions"]), (vec!["a/b".to_owned()], 2.0));
        for option in text.split(' ').filter(|word| word.starts_with('-')) {
            assert!(HELP.contains(option.split('=').next().expect("a word")), "{option}");
        }
        assert_eq!(of("--help --fast"), Ok(Task::Print(HELP)));
        assert!(HELP.contains("--schema") && of("--schema") == Ok(Task::Print(SCHEMA)));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (wrong, said) in [
            ("", "--against is missing"),
            ("--against", "--against needs a value"),
            ("--against main --fast", "unknown option --fast"),
            ("--against main --json=yes", "--json has no value"),
            ("--against main --budget soon", "\"soon\" is not like"),
            ("--against main --pairs 0", "0 pairs measure nothing"),
            ("--against main --pairs few", "\"few\" is no number"),
            ("--against main --allow alloc=1", "\"alloc\" is none of"),
            ("--against main --allow allocations", "is not like instructions=2"),
        ] {
            let why = of(wrong).expect_err(wrong);
            assert!(why.contains(said), "{wrong}: {why}");
        }
    }
}
