//! What `cargo bench -- …` asks for.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// What is understood.
pub const HELP: &str = "\
cargo bench --bench <name> -- [part of a name …] [options]

  --quick             4 processes: shows that everything works, concludes nothing
  --long              96 processes instead of 24
  --processes <n>     so many
  --json              the table as JSON
  --no-layouts        without a link order for each process
  --exact <folder>    count only what is exact, and write <folder>/<bench>.counts.csv
  --gate <folder>     count only what is exact, compare with what --exact wrote there, print a table in
                      Markdown, and fail if something grew by more than it may
  --allow <counter>=<n>  how many per cent it may grow: instructions, allocations, allocated_bytes, system_calls,
                      future_bytes; 1 for instructions and 0 for the others unless you say so";

/// How much is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// As run.json calls it.
    pub name: &'static str,
    /// Fresh processes.
    pub processes: u32,
    /// Rounds in each of them.
    pub rounds: u32,
}

const QUICK: Profile = Profile { name: "quick", processes: 4, rounds: 3 };
/// Half of an interval over so many processes is 0.42 of their standard deviation, which is 1 to 5 % with link orders.
const STANDARD: Profile = Profile { name: "standard", processes: 24, rounds: 24 };
const LONG: Profile = Profile { name: "thorough", processes: 96, rounds: 24 };

/// What is to be done with the bench.
#[derive(Clone, Debug, PartialEq)]
pub enum Task {
    /// Prove equal work, and no more: what `cargo test --benches` asks for.
    Prove,
    /// Measure all.
    Measure,
    /// Count what is exact, into this folder.
    Count(PathBuf),
    /// Count what is exact, and compare it with what is in this folder.
    Gate(PathBuf),
    /// Say what is understood.
    Help,
}

/// The arguments of a bench.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    /// What is to be done.
    pub task: Task,
    /// Parts of names, one of which is in each name that is wanted.
    pub filter: Vec<String>,
    /// How much is measured.
    pub profile: Profile,
    /// Whether the table is printed as JSON.
    pub json: bool,
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
        let given: Vec<String> = given.into_iter().collect();
        let mut found = Self {
            task: Task::Prove,
            filter: vec![],
            profile: STANDARD,
            json: false,
            layouts: true,
            allowed: BTreeMap::new(),
        };
        if given.iter().any(|word| word == "--help") {
            return Ok(Self { task: Task::Help, ..found });
        }
        // Cargo says it for `cargo bench`, and not for `cargo test`, whose arguments mean nothing here.
        if !given.iter().any(|word| word == "--bench") {
            return Ok(found);
        }
        found.task = Task::Measure;
        let mut words = given.into_iter();
        while let Some(word) = words.next() {
            let mut value = |of: &str| words.next().ok_or_else(|| format!("{word}: which {of}?"));
            match word.as_str() {
                "--bench" => {}
                "--quick" => found.profile = QUICK,
                "--long" => found.profile = LONG,
                "--processes" => {
                    let text = value("number")?;
                    let number = text.parse().ok().filter(|number| *number > 0);
                    found.profile.processes =
                        number.ok_or_else(|| format!("--processes: {text:?} is no number"))?;
                }
                "--json" => found.json = true,
                "--no-layouts" => found.layouts = false,
                "--exact" => found.task = Task::Count(PathBuf::from(value("folder")?)),
                "--gate" => found.task = Task::Gate(PathBuf::from(value("folder")?)),
                "--allow" => {
                    let text = value("counter and per cent")?;
                    let said = text
                        .split_once('=')
                        .and_then(|(counter, most)| Some((counter, most.parse::<f64>().ok()?)));
                    let (counter, most) = said
                        .filter(|(_, most)| *most >= 0.0)
                        .ok_or_else(|| format!("--allow: {text:?} is not like instructions=2"))?;
                    found.allowed.insert(counter.to_owned(), most);
                }
                other if other.starts_with('-') => return Err(format!("{other} is not understood\n{HELP}")),
                part => found.filter.push(part.to_owned()),
            }
        }
        Ok(found)
    }

    /// Whether a name is wanted.
    pub fn wants(&self, name: &str) -> bool {
        self.filter.is_empty() || self.filter.iter().any(|part| name.contains(part.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Arguments, String> {
        Arguments::of(text.split(' ').map(str::to_owned))
    }

    #[test]
    fn what_cargo_says_tells_a_bench_from_a_test() {
        assert_eq!(of("--bench").expect("a bench").task, Task::Measure);
        assert_eq!(of("--nocapture").expect("a test").task, Task::Prove);
        assert_eq!(of("--help").expect("a question").task, Task::Help);
    }

    #[test]
    fn every_option_is_understood_and_no_other() {
        let found =
            of("box --quick --processes 7 --json --no-layouts --gate base --allow instructions=2.5 --bench")
                .expect("all are known");
        assert_eq!(found.profile, Profile { processes: 7, ..QUICK });
        assert_eq!(found.task, Task::Gate(PathBuf::from("base")));
        assert_eq!(found.allowed, BTreeMap::from([("instructions".to_owned(), 2.5)]));
        assert!(found.json && !found.layouts && found.wants("b/boxed") && !found.wants("b/inline"));
        for wrong in
            ["--fast", "--processes", "--processes 0", "--allow instructions", "--allow x=-1", "--exact"]
        {
            assert!(of(&format!("--bench {wrong}")).is_err(), "{wrong}");
        }
    }
}
