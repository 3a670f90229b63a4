//! What `cargo bench -- …` asks for. Cargo, nextest and IDEs send the options of libtest; so those are understood as well.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use by_turns_core::count::table::COUNTERS;
use by_turns_core::run::budget::{self, Profile};

use crate::builder::Variant;
use crate::format::Format;
use by_turns_core::base::key::Key;

/// What is understood.
pub const HELP: &str = "\
Usage: cargo bench [--bench <name>] -- [filter …] [options]

A filter selects the variants whose name, such as sorting/stable@items=10, contains it, and their baselines. If it selects
only a baseline, all variants compared with it are measured.

      --exact                    a filter must equal the whole name
      --skip <filter>            leave out variants whose name contains it; may be repeated
      --list                     print the names of the variants
      --test                     check that variants do equal work, and measure nothing, as `cargo test --benches` does

      --quick                    4 processes with one link order: shows that the bench works, concludes nothing
      --long                     96 processes instead of 24
      --processes <number>       measure in this many processes
      --budget <time>            stop measuring after this time, such as 90s, 2m, 1h or 500ms, without a unit in seconds; by
                                 default a minute, 5 s with --quick, 2.5 s per process with more than 24 (--long: 4 minutes)
      --pin <core>               measure on this core (Linux)
      --no-layouts               use one link order for all processes

      --format <format>          of the table: pretty, json, csv, markdown, bencher (lines of libtest, which bencher.dev and
                                 github-action-benchmark read), criterion (messages of cargo-criterion)
      --plot                     also draw the ratio of each process, on standard error; for markdown, below the table
  -q, --quiet                    no progress
  -h, --help                     print this

      --save-counts <file>       only count, and write the counts to this file, keeping those of other benches
      --gate <file>              only count, compare with the counts in this file, print a table in Markdown, and fail if one
                                 grew by more than its limit
      --allow <counter>=<number> growth allowed in per cent: instructions, allocations, allocated_bytes, system_calls,
                                 future_bytes; 1 for instructions and 0 for the others by default; may be repeated

These options of libtest have no effect: --nocapture, --no-capture, --show-output, --include-ignored, --test-threads, --color,
--report-time, --ensure-time, --exclude-should-panic, --fail-fast, --logfile, --shuffle, --shuffle-seed, -Z. No variant is ignored,
so --ignored selects none.";

/// Whether an option has a value.
#[derive(Clone, Copy)]
enum Value {
    No,
    /// Only behind `=`.
    Perhaps,
    /// What it is.
    Of(&'static str),
}

const OPTIONS: &[(&str, Value)] = &[
    ("--bench", Value::No),
    ("--test", Value::No),
    ("--exact", Value::No),
    ("--skip", Value::Of("filter")),
    ("--list", Value::No),
    ("--ignored", Value::No),
    ("--quick", Value::No),
    ("--long", Value::No),
    ("--processes", Value::Of("number")),
    ("--budget", Value::Of("time")),
    ("--pin", Value::Of("core")),
    ("--no-layouts", Value::No),
    ("--format", Value::Of("format")),
    ("--plot", Value::No),
    ("--quiet", Value::No),
    ("-q", Value::No),
    ("--help", Value::No),
    ("-h", Value::No),
    ("--save-counts", Value::Of("file")),
    ("--gate", Value::Of("file")),
    ("--allow", Value::Of("counter and per cent")),
    // Without effect.
    ("--nocapture", Value::No),
    ("--no-capture", Value::No),
    ("--show-output", Value::No),
    ("--include-ignored", Value::No),
    ("--test-threads", Value::Of("number")),
    ("--color", Value::Of("auto, always or never")),
    ("--report-time", Value::Perhaps),
    ("--ensure-time", Value::No),
    ("--exclude-should-panic", Value::No),
    ("--fail-fast", Value::No),
    ("--logfile", Value::Of("file")),
    ("--shuffle", Value::No),
    ("--shuffle-seed", Value::Of("number")),
    ("-Z", Value::Of("feature")),
];

/// What is to be done with the bench.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// Prove equal work, and no more: what `cargo test --benches` asks for.
    Prove,
    /// Measure all.
    Measure,
    /// Count what is exact, into this file.
    Count(PathBuf),
    /// Count what is exact, and compare it with what is in this file.
    Gate(PathBuf),
    /// Print the names.
    List,
    /// Say what is understood.
    Help,
}

/// The arguments of a bench.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    /// What is to be done.
    pub task: Task,
    /// Parts of names, one of which is in each name that is wanted.
    filter: Vec<String>,
    /// Parts of names that are not wanted.
    skip: Vec<String>,
    /// Whether these are whole names.
    exact: bool,
    /// Whether only what is ignored is wanted, which is nothing.
    ignored: bool,
    /// How much is measured.
    pub profile: Profile,
    /// How many processes, whichever profile is named before or after.
    processes: Option<u32>,
    /// How the table is printed.
    pub format: Format,
    /// Whether ratios are drawn as well.
    pub plot: bool,
    /// Whether no progress is shown.
    pub quiet: bool,
    /// How long it may measure, if that is said.
    pub budget: Option<Duration>,
    /// The core on which all processes run, if one is named.
    pub pin: Option<usize>,
    /// Whether each process has a link order of its own, where that is possible.
    pub layouts: bool,
    /// How much each counter may grow, in per cent.
    pub allowed: BTreeMap<String, f64>,
}

impl Arguments {
    /// Understands them.
    ///
    /// # Errors
    /// The first that is not understood.
    pub fn of(given: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut found = Self {
            task: Task::Measure,
            filter: vec![],
            skip: vec![],
            exact: false,
            ignored: false,
            profile: Profile::STANDARD,
            processes: None,
            format: Format::Pretty,
            plot: false,
            quiet: false,
            budget: None,
            pin: None,
            layouts: true,
            allowed: BTreeMap::new(),
        };
        // Cargo says `--bench` for `cargo bench`, and not for `cargo test`.
        let mut options = Vec::new();
        let mut words = given.into_iter().peekable();
        while let Some(word) = words.next() {
            if word == "--" {
                found.filter.extend(words);
                break;
            }
            if !word.starts_with('-') {
                found.filter.push(word);
                continue;
            }
            let (name, behind) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None if word.starts_with("-Z") && word.len() > 2 => ("-Z", Some(word[2..].to_owned())),
                None => (word.as_str(), None),
            };
            let Some((name, value)) = OPTIONS.iter().find(|(option, _)| *option == name) else {
                return Err(unknown(name));
            };
            let value = match value {
                Value::No if behind.is_some() => return Err(format!("{name} has no value")),
                Value::No | Value::Perhaps => behind.unwrap_or_default(),
                // Cargo appends `--bench`, which is no value.
                Value::Of(what) => behind
                    .or_else(|| words.next_if(|next| !next.starts_with('-')))
                    .ok_or_else(|| format!("{name} needs a value: {what}"))?,
            };
            options.push(*name);
            found.set(name, value)?;
            if found.task == Task::Help {
                return Ok(found);
            }
        }
        let (bench, has) = (options.contains(&"--bench"), |name: &&str| options.contains(name));
        if let Task::Count(_) | Task::Gate(_) = found.task {
            if !bench {
                return Err("only an optimised program is counted: use `cargo bench`".to_owned());
            }
            if let Some(name) = ["--format", "--plot", "--pin", "--budget"].into_iter().find(has) {
                return Err(format!("{name} cannot be used with --save-counts or --gate"));
            }
        }
        if has(&"--allow") && !matches!(found.task, Task::Gate(_)) {
            return Err("--allow needs --gate".to_owned());
        }
        if found.task == Task::Measure && !bench {
            found.task = Task::Prove;
        }
        found.profile.processes = found.processes.unwrap_or(found.profile.processes);
        Ok(found)
    }

    /// Does what an option says.
    fn set(&mut self, name: &str, value: String) -> Result<(), String> {
        match name {
            "--test" => self.task = Task::Prove,
            "--list" => self.task = Task::List,
            "--help" | "-h" => self.task = Task::Help,
            "--save-counts" => self.task = Task::Count(PathBuf::from(value)),
            "--gate" => self.task = Task::Gate(PathBuf::from(value)),
            "--exact" => self.exact = true,
            "--skip" => self.skip.push(value),
            "--ignored" => self.ignored = true,
            "--quick" => self.profile = Profile::QUICK,
            "--long" => self.profile = Profile::LONG,
            "--processes" => {
                let number = value.parse().ok().filter(|number| *number > 0);
                let wrong = || format!("--processes: {value:?} is no number above 0");
                self.processes = Some(number.ok_or_else(wrong)?);
            }
            "--budget" => {
                let wrong = || format!("--budget: {value:?} is not like 60s, 2m or 500ms");
                self.budget = Some(budget::parse(&value).ok_or_else(wrong)?);
            }
            "--pin" => {
                let wrong = |_| format!("--pin: {value:?} is not the number of a core");
                self.pin = Some(value.parse().map_err(wrong)?);
            }
            "--format" => self.format = Format::of(&value)?,
            "--plot" => self.plot = true,
            "--quiet" | "-q" => self.quiet = true,
            "--no-layouts" => self.layouts = false,
            "--allow" => {
                let (counter, most) = value.split_once('=').unwrap_or((&value, ""));
                if !COUNTERS.iter().any(|(known, _)| *known == counter) {
                    let known = COUNTERS.map(|(name, _)| name).join(", ");
                    return Err(format!("--allow: {counter:?} is none of {known}"));
                }
                let most = most.parse().ok().filter(|most| *most >= 0.0);
                let wrong = || format!("--allow: {value:?} is not like instructions=2");
                self.allowed.insert(counter.to_owned(), most.ok_or_else(wrong)?);
            }
            _ => {} // without effect
        }
        Ok(())
    }

    /// The keys of what is wanted of all that a bench can measure; baselines only where they are wanted themselves. `alone`: as for
    /// a comparison of each variant with itself.
    pub fn chosen<'v>(&self, all: &'v [Variant], alone: bool) -> Vec<&'v Key> {
        let skipped = |key: &Key| self.skip.iter().any(|part| self.holds(key, part));
        let wanted = |key: &Key| {
            !self.ignored
                && !skipped(key)
                && (self.filter.is_empty() || self.filter.iter().any(|part| self.holds(key, part)))
        };
        let own: Vec<&Variant> = all.iter().filter(|variant| !variant.control).collect();
        // A time alone says nothing.
        let only_baseline = |of: &Variant| {
            let with = |other: &&&Variant| other.baseline == of.baseline;
            self.task == Task::Measure
                && !alone
                && of.baseline.is_some_and(|baseline| wanted(&all[baseline].key))
                && !own.iter().filter(with).any(|other| wanted(&other.key))
                && !skipped(&of.key)
        };
        let chosen = own.iter().filter(|variant| wanted(&variant.key) || only_baseline(variant));
        chosen.map(|variant| &variant.key).collect()
    }

    fn holds(&self, key: &Key, part: &str) -> bool {
        let name = key.to_string();
        if self.exact { name == part } else { name.contains(part) }
    }

    /// Why nothing is wanted of all that a bench can measure.
    pub fn nothing(&self, all: &[Variant]) -> String {
        let quoted =
            |parts: &[String]| parts.iter().map(|part| format!("{part:?}")).collect::<Vec<_>>().join(" or ");
        let skipped =
            if self.skip.is_empty() { String::new() } else { format!(" --skip {}", quoted(&self.skip)) };
        match (self.ignored, self.filter.is_empty()) {
            (true, _) => "no variant is ignored".to_owned(),
            (false, true) => format!("no variant is left by{skipped}"),
            (false, false) => {
                format!("no variant matches {}{skipped}; {}", quoted(&self.filter), first_names(all))
            }
        }
    }
}

/// The names that a filter may match, or the first of them.
fn first_names(all: &[Variant]) -> String {
    const SHOWN: usize = 4;
    let names: Vec<String> =
        all.iter().filter(|variant| !variant.control).map(|variant| variant.key.to_string()).collect();
    let more = match names.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more, which `--list` names"),
    };
    format!("there are {}{more}", names[..names.len().min(SHOWN)].join(", "))
}

/// Says what an option that is not understood may have been meant for.
fn unknown(name: &str) -> String {
    let far = |option: &str| distance(name, option);
    let closest = OPTIONS.iter().map(|(option, _)| *option).min_by_key(|option| far(option)).expect("some");
    let meant =
        if far(closest) <= 1 + name.len() / 4 { format!("did you mean {closest}? ") } else { String::new() };
    format!("unknown option {name}; {meant}`--help` lists all")
}

/// By how many characters, inserted, removed or replaced, two words differ.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, c) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, d) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(c != *d);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Arguments, String> {
        Arguments::of(text.split_whitespace().map(str::to_owned))
    }

    fn task(text: &str) -> Task {
        of(text).expect("understood").task
    }

    #[test]
    fn what_cargo_says_tells_a_bench_from_a_test() {
        assert_eq!(task("--bench"), Task::Measure);
        assert_eq!(task(""), Task::Prove);
        assert_eq!(task("--test --bench"), Task::Prove);
        for help in ["-h", "--help", "--quick --help --bench", "--help --fast"] {
            assert_eq!(task(help), Task::Help, "{help}");
        }
    }

    #[test]
    fn what_others_send_is_understood() {
        // nextest, rust-analyzer and IntelliJ, in this order.
        for list in ["--list --format terse", "--list --format terse --ignored", "--list"] {
            assert_eq!(task(list), Task::List);
        }
        assert_eq!(task("--exact b/boxed --nocapture"), Task::Prove);
        assert_eq!(task("--exact b/boxed --nocapture --bench"), Task::Measure);
        assert_eq!(task("--nocapture --no-capture --show-output --include-ignored --bench"), Task::Measure);
        assert_eq!(task("-Z unstable-options --format=json --report-time --show-output"), Task::Prove);
        assert_eq!(
            task("-Zunstable-options --report-time=plain --ensure-time --exclude-should-panic"),
            Task::Prove
        );
        assert_eq!(task("--test-threads 1 --test-threads=1 --color always --color=never"), Task::Prove);
        assert_eq!(task("--fail-fast --logfile x --shuffle --shuffle-seed 1"), Task::Prove);
        assert!(of("-q").expect("known").quiet && of("--quiet").expect("known").quiet);
    }

    #[test]
    fn every_option_is_understood_with_its_value() {
        let found =
            of("box --processes 7 --quick --no-layouts --gate base.csv --allow instructions=2.5 --bench")
                .expect("all are known");
        assert_eq!(found.profile, Profile { processes: 7, ..Profile::QUICK });
        assert_eq!(found.task, Task::Gate(PathBuf::from("base.csv")));
        assert_eq!(found.allowed, BTreeMap::from([("instructions".to_owned(), 2.5)]));
        assert!(!found.layouts && !found.quiet);
        assert_eq!(
            found,
            of("box --quick --processes=7 --no-layouts --gate=base.csv --allow=instructions=2.5 --bench")
                .expect("the same")
        );
        let found = of("--plot --format csv --long --bench").expect("known");
        assert!(found.plot && found.format == Format::Csv && found.profile == Profile::LONG);
        assert_eq!(task("--save-counts=a/b.csv --bench"), Task::Count(PathBuf::from("a/b.csv")));
    }

    #[test]
    fn a_budget_and_a_core_are_numbers() {
        let found = of("--budget 2m --pin=1 --bench").expect("both are known");
        assert_eq!((found.budget, found.pin), (Some(Duration::from_secs(120)), Some(1)));
        for wrong in ["--budget", "--budget soon", "--pin", "--pin first"] {
            assert!(of(&format!("--bench {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_option_is_in_the_help() {
        for (option, _) in OPTIONS.iter().filter(|(option, _)| *option != "--bench") {
            assert!(HELP.contains(option), "{option}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (wrong, said) in [
            ("--bench --quik", "unknown option --quik; did you mean --quick? `--help` lists all"),
            ("--bench --saev-counts=x", "unknown option --saev-counts; did you mean --save-counts?"),
            ("--json", "unknown option --json"),
            ("--unheard-of", "unknown option --unheard-of; `--help` lists all"),
            ("--save-counts --bench", "--save-counts needs a value: file"),
            ("--gate --bench", "--gate needs a value: file"),
            ("--processes", "--processes needs a value: number"),
            ("--processes 0", "\"0\" is no number above 0"),
            ("--processes x", "\"x\" is no number above 0"),
            ("--quick=yes", "--quick has no value"),
            ("--format xml", "\"xml\""),
            ("--allow instructions", "is not like instructions=2"),
            ("--allow allocations=-1", "is not like instructions=2"),
            ("--allow alloc=1", "\"alloc\" is none of instructions, allocations, "),
            ("--save-counts x", "use `cargo bench`"),
            ("--bench --allow allocations=1", "--allow needs --gate"),
            ("--bench --gate x --plot", "--plot cannot be used with"),
            ("--budget 9s --save-counts x --bench", "--budget cannot be used with"),
        ] {
            let why = of(wrong).expect_err(wrong);
            assert!(why.contains(said), "{wrong}: {why}");
        }
    }

    /// These, where `b` and `bc` are compared with `a`, and `d` with `inline` of another load.
    fn all() -> [Variant; 6] {
        let variant = |(at, name, load, baseline): (usize, &str, &str, Option<usize>)| Variant {
            key: Key::new("x", name, load),
            declared: at,
            baseline,
            control: at > 4,
        };
        [
            (0, "a", "", None),
            (1, "b", "", Some(0)),
            (2, "bc", "", Some(0)),
            (3, "inline", "n=1", None),
            (4, "d", "n=1", Some(3)),
            (5, "a (A/A)", "", Some(0)),
        ]
        .map(variant)
    }

    fn chosen(text: &str) -> Vec<String> {
        of(text).expect("understood").chosen(&all(), false).into_iter().map(Key::to_string).collect()
    }

    #[test]
    fn filters_choose() {
        assert_eq!(chosen("--bench"), ["x/a", "x/b", "x/bc", "x/inline@n=1", "x/d@n=1"]);
        assert_eq!(chosen("x/b --bench"), ["x/b", "x/bc"]);
        assert_eq!(chosen("x/b --exact --bench"), ["x/b"]);
        assert_eq!(chosen("x/bc x/d@n=1 --exact --bench"), ["x/bc", "x/d@n=1"]);
        assert_eq!(chosen("--skip b --skip n=1 --bench"), ["x/a"]);
        assert_eq!(chosen("--exact --skip x/b @n=1 --bench"), [""; 0], "@n=1 is no whole name");
        assert_eq!(chosen("n=1 --skip inline --bench"), ["x/d@n=1"]);
        assert_eq!(chosen("--ignored"), [""; 0]);
        assert_eq!(chosen("--include-ignored n=1"), ["x/inline@n=1", "x/d@n=1"]);
        assert_eq!(chosen("-- --bench"), [""; 0], "a filter that looks like an option");
    }

    #[test]
    fn a_filter_for_a_baseline_alone_chooses_what_is_compared_with_it() {
        assert_eq!(chosen("inline --bench"), ["x/inline@n=1", "x/d@n=1"]);
        assert_eq!(chosen("x/a --bench"), ["x/a", "x/b", "x/bc"]);
        assert_eq!(chosen("x/a x/bc --bench"), ["x/a", "x/bc"]);
        assert_eq!(chosen("x/a --skip bc --bench"), ["x/a", "x/b"]);
        // Equal work can be proved, and counts taken, of one alone.
        assert_eq!(chosen("x/a --exact --nocapture"), ["x/a"]);
        assert_eq!(chosen("x/a --save-counts=x --bench"), ["x/a"]);
        assert_eq!(of("inline").expect("understood").chosen(&all(), true)[0].to_string(), "x/inline@n=1");
        assert_eq!(of("inline").expect("understood").chosen(&all(), true).len(), 1, "of two revisions");
    }

    #[test]
    fn why_nothing_is_chosen_is_said() {
        let why = |text| of(text).expect("understood").nothing(&all());
        assert_eq!(
            why("boxed"),
            "no variant matches \"boxed\"; there are x/a, x/b, x/bc, x/inline@n=1 and 1 more, which `--list` names"
        );
        assert!(
            why("a b --skip c").starts_with("no variant matches \"a\" or \"b\" --skip \"c\"; there are x/a")
        );
        assert!(of("e").expect("understood").nothing(&all()[..2]).ends_with("; there are x/a, x/b"));
        assert_eq!(why("--skip c"), "no variant is left by --skip \"c\"");
        assert_eq!(why("--ignored"), "no variant is ignored");
    }
}
