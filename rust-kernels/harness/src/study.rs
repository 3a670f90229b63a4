//! A study: its variants, its baseline, its controls and its exact counts.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bencher::{self, Function, Trouble};
use crate::info::Settings;
use crate::key::{validate_change, validate_word};
use crate::outcome::Outcome;
use crate::profile::{MOST_SAMPLES, SAMPLES};
use crate::{Bencher, Error, Key, Profile, UnequalWork, isolation};

/// An exact count of one variant, per iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) key: Key,
    pub(crate) counter: String,
    pub(crate) value: u64,
}

/// Two keys of which a ratio is taken, in each round.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Comparison {
    /// The variant that is compared.
    pub key: Key,
    /// What it is compared with.
    pub baseline: Key,
    /// Name of the group that it is judged with.
    pub group: String,
    /// What changes from the baseline to the key: one line of Markdown.
    pub change: String,
    /// The unit of work in which the time of both is told, such as `request`.
    pub unit: String,
}

impl Comparison {
    /// Whether it is one of a variant with itself, measured a second time.
    pub(crate) fn is_control(&self) -> bool {
        self.key == control_key(&self.baseline)
    }
}

/// A comparison as a study declares it.
struct Declared {
    key: Key,
    baseline: Key,
    change: String,
    /// Whether the comparison of the default rule is made as well.
    beside_default: bool,
}

/// A variant as it was added.
struct Bench {
    key: Key,
    function: Rc<Function<'static>>,
    group: Group,
    unit: String,
    samples: usize,
    resources: bool,
}

/// Comparisons that are judged alike.
#[derive(Clone)]
struct Group {
    name: String,
    /// Half-width of the region of practical equivalence.
    limit: f64,
}

/// What is to be measured a second time.
enum Control {
    /// The baseline of this parameter.
    OfBaseline(String),
    OfKey(Key),
}

/// Half-width of the region of practical equivalence where a study does not say otherwise: 1 %.
const LIMIT: f64 = 0.01;

/// Variants that are measured together, round by round.
///
/// Built step by step; mistakes in it are reported by [`measure`](Self::measure), before anything is
/// measured:
/// ```
/// # use harness::{Bencher, Key, Study};
/// let sum = |bencher: &mut Bencher| bencher.iter(&mut || drop(std::hint::black_box((0..10).sum::<u32>())));
/// let study = Study::new("sums")
///     .baseline("range")
///     .bench(Key::new("sum", "range", "items=10"), sum)
///     .control("items=10")
///     .count(Key::new("sum", "range", "items=10"), "allocations", 0);
/// assert_eq!(study.keys()[1].variant, "range (A/A)");
/// ```
#[must_use]
pub struct Study {
    pub(crate) name: String,
    pub(crate) baseline: Option<String>,
    pub(crate) counts: Vec<Count>,
    benches: Vec<Bench>,
    controls: Vec<Control>,
    /// Comparisons that the default rule does not make.
    compared: Vec<Declared>,
    /// The group of the keys that are added next.
    group: Group,
    /// The unit of work of the keys that are added next.
    unit: String,
    /// Samples of a trial of the keys that are added next.
    samples: usize,
    /// Rounds of the built-in profiles, where the study does not take theirs.
    rounds: Option<[u32; 3]>,
    /// Limit of each call of a variant, when each has a process of its own.
    isolated: Option<Duration>,
    /// Whether samples of the keys that are added next say what the process used meanwhile.
    resources: bool,
    /// Whether callgrind can count this study.
    pub(crate) instructions: bool,
}

/// A variant ready to be run.
pub(crate) struct Variant {
    pub(crate) key: Key,
    pub(crate) function: Rc<Function<'static>>,
    pub(crate) samples: usize,
    /// Whether its samples say what the process used meanwhile.
    pub(crate) resources: bool,
    /// Units of work of an iteration; 1 where no counter says so.
    pub(crate) units: u64,
}

impl Study {
    /// An empty study of this name, the first word of its rows and of its files (`<name>.time.csv`).
    /// Lower-case words joined by hyphens.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            baseline: None,
            counts: Vec::new(),
            benches: Vec::new(),
            controls: Vec::new(),
            compared: Vec::new(),
            group: Group { name: String::new(), limit: LIMIT },
            unit: "iteration".to_owned(),
            samples: SAMPLES,
            rounds: None,
            isolated: None,
            resources: false,
            instructions: true,
        }
    }

    /// The variant that all others of the same parameter are compared with: the one of the same bench where there is
    /// one, else the only one of that parameter. Not needed where every comparison is made with
    /// [`compare`](Self::compare).
    pub fn baseline(mut self, variant: impl Into<String>) -> Self {
        self.baseline = Some(variant.into());
        self
    }

    /// Adds a variant. `function` is called anew for each trial; what it does before it calls the bencher is
    /// not timed.
    pub fn bench(mut self, key: Key, function: impl Fn(&mut Bencher) + 'static) -> Self {
        self.benches.push(Bench {
            key,
            function: Rc::new(function),
            group: self.group.clone(),
            unit: self.unit.clone(),
            samples: self.samples,
            resources: self.resources,
        });
        self
    }

    /// Adds a variant whose proof of equal work came out like this. If that failed, because the counts are wrong or because the
    /// variant hung or crashed in its process, it is never run: it is listed as failed, with what the proof says, and the
    /// others are measured.
    pub fn proven<T>(
        self,
        key: Key,
        proof: Result<T, UnequalWork>,
        function: impl Fn(&mut Bencher) + 'static,
    ) -> Self {
        match proof {
            Ok(_) => self.bench(key, function),
            Err(wrong) => self.bench(key, move |bencher: &mut Bencher| bencher.fail(wrong.to_string())),
        }
    }

    /// Compares `key` with `baseline` instead of the baseline that the default rule gives it. Both are among the
    /// variants, added before or afterwards; their parameters may differ. A key may be compared with several others.
    ///
    /// `change` says in a few words what differs from the baseline to the key, as in "`Arc` handles instead of `Rc`": one
    /// line of Markdown of at most 200 characters, without `<`, `>` and `&`.
    pub fn compare(self, key: Key, baseline: Key, change: impl Into<String>) -> Self {
        self.declare(key, baseline, change.into(), false)
    }

    /// As [`compare`](Self::compare), but beside the comparison that the default rule makes.
    pub fn also_compare(self, key: Key, baseline: Key, change: impl Into<String>) -> Self {
        self.declare(key, baseline, change.into(), true)
    }

    fn declare(mut self, key: Key, baseline: Key, change: String, beside_default: bool) -> Self {
        self.compared.push(Declared { key, baseline, change, beside_default });
        self
    }

    /// Puts the variants that are added from here on into a group of this name. The comparisons of a group are judged
    /// alike: differences below `limit` (0.01 is 1 %) do not matter, and the group's A/A control has to keep within it
    /// as well. A study begins in the group `""` with 0.01.
    pub fn group(mut self, name: impl Into<String>, limit: f64) -> Self {
        self.group = Group { name: name.into(), limit };
        self
    }

    /// Tells the time of the variants that are added from here on per `unit`: `request`, `spawn`, `call`; lower-case words,
    /// in the singular. A study begins with `iteration`. How many of them one iteration does is said by the exact count
    /// `units` (or `transactions`) of each variant; see [`count`](Self::count). What is compared has the same unit.
    pub fn unit(mut self, unit: impl Into<String>) -> Self {
        self.unit = unit.into();
        self
    }

    /// Adds the baseline of this parameter a second time: [`control_of`](Self::control_of) its key.
    pub fn control(mut self, parameter: impl Into<String>) -> Self {
        self.controls.push(Control::OfBaseline(parameter.into()));
        self
    }

    /// Adds this variant a second time, under the variant name `<variant> (A/A)`, compared with the first and in its
    /// group. The ratio is 1 by construction, so what is measured for it is the error of the measurement.
    pub fn control_of(mut self, key: Key) -> Self {
        self.controls.push(Control::OfKey(key));
        self
    }

    /// Measures so many rounds in the three profiles instead of the profile's own number: more for workloads whose rounds
    /// differ more than those of a computation (an interval shrinks with the square root), fewer for long trials.
    pub fn rounds(mut self, quick: u32, standard: u32, thorough: u32) -> Self {
        self.rounds = Some([quick, standard, thorough]);
        self
    }

    /// [`rounds`](Self::rounds) with the profiles' own numbers times `factor`.
    pub fn more_rounds(self, factor: u32) -> Self {
        let [quick, standard, thorough] =
            Profile::BUILT_IN_ROUNDS.map(|rounds| rounds.saturating_mul(factor));
        self.rounds(quick, standard, thorough)
    }

    /// Takes so many samples in each trial of the variants that are added from here on, 1 to 100; 10 at the beginning.
    /// Fewer are for workloads of which one iteration lasts about as long as a trial.
    pub fn samples(mut self, samples: u32) -> Self {
        self.samples = samples as usize;
        self
    }

    /// Calls every variant in a process of its own, a fork of this one, for each trial, for
    /// [`run_once`](Self::run_once) and for counting. For variants that start threads, or that may hang or crash: a call
    /// that does not end within `limit` is killed, and the variant fails with a message that says so; an abort or a
    /// signal fails it, too. Pools and threads end with the process, so that no variant runs beside the leftovers of
    /// another.
    ///
    /// Two rules follow. The measuring process starts no threads itself; whatever a proof has to start, it starts
    /// within [`isolated`](crate::isolated()). And no trial sees what an earlier one has changed.
    pub fn isolated(mut self, limit: Duration) -> Self {
        self.isolated = Some(limit);
        self
    }

    /// Adds to each sample of the variants that are added from here on what the process used while it was taken: `cpu_ns`
    /// (user and system time of all threads), `voluntary_switches` and `involuntary_switches`. They go to
    /// `<study>.metrics.csv`. Best with [`isolated`](Self::isolated), so that nothing else runs in the process.
    pub fn resources(mut self) -> Self {
        self.resources = true;
        self
    }

    /// Whether callgrind counts instructions, which it does unless told otherwise. It counts those of the calling thread
    /// and runs one thread at a time: say `false` for work that several threads do.
    pub fn instructions(mut self, counted: bool) -> Self {
        self.instructions = counted;
        self
    }

    /// Records an exact count per iteration, written to `<study>.counts.csv` when the study is measured. A
    /// second value for the same key and counter replaces the first.
    pub fn count(mut self, key: Key, counter: impl Into<String>, value: u64) -> Self {
        let counter = counter.into();
        self.counts.retain(|count| !(count.key == key && count.counter == counter));
        self.counts.push(Count { key, counter, value });
        self
    }

    /// All keys in the order in which they were added, followed by the controls.
    pub fn keys(&self) -> Vec<Key> {
        let benches = self.benches.iter().map(|bench| bench.key.clone());
        let controls = self.controls.iter().filter_map(|control| self.controlled(control).ok());
        benches.chain(controls.map(|bench| control_key(&bench.key))).collect()
    }

    /// Everything that is compared with something, in the order of the keys; the controls come last.
    ///
    /// # Errors
    /// [`Error::Key`] and [`Error::Study`] for mistakes in the study.
    pub fn comparisons(&self) -> Result<Vec<Comparison>, Error> {
        self.variants()?;
        self.compared()
    }

    /// The name given to [`new`](Self::new).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs one variant for one iteration, untimed: what a test wants.
    ///
    /// # Errors
    /// [`Error::Study`] when there is no such key or its function misuses the bencher; [`Error::Variant`]
    /// when it fails or panics.
    pub fn run_once(&self, key: &Key) -> Result<(), Error> {
        let variants = self.variants()?;
        let variant = variants.iter().find(|variant| variant.key == *key);
        let variant = variant.ok_or_else(|| self.wrong(format!("there is no variant {key}")))?;
        self.shielded(|| bencher::call(&*variant.function, &mut |mut workload| workload.single(|run| run())))
            .map_err(|trouble| self.trouble(key, trouble))
    }

    /// Measures all variants in interleaved rounds and exports the raw samples with their provenance.
    ///
    /// Where the run goes and how an interrupted one is resumed is described in the crate's documentation.
    ///
    /// # Errors
    /// [`Error::Gate`] when this build must not be measured, [`Error::Key`] and [`Error::Study`] for mistakes
    /// in the study, [`Error::Resume`] when the partial run given by `ASYNC_COST_PARTIAL` is not a beginning
    /// of this one, [`Error::Setting`] and [`Error::Io`]. A variant that fails is not an error: see
    /// [`Outcome::failed`].
    pub fn measure(&self, profile: &Profile) -> Result<Outcome, Error> {
        crate::measure::measure(self, profile)
    }

    /// Does work that calls a variant: in a process of its own when the study is isolated.
    pub(crate) fn shielded<T: Serialize + DeserializeOwned>(
        &self,
        work: impl FnOnce() -> Result<T, Trouble>,
    ) -> Result<T, Trouble> {
        match self.isolated {
            None => work(),
            Some(limit) => isolation::isolated(limit, work).unwrap_or_else(|end| Err(Trouble::Failed(end))),
        }
    }

    /// Whether each trial has a process of its own.
    pub(crate) fn is_isolated(&self) -> bool {
        self.isolated.is_some()
    }

    /// The error for a variant that failed where that is not tolerated.
    pub(crate) fn trouble(&self, key: &Key, trouble: Trouble) -> Error {
        match trouble {
            Trouble::Failed(message) => Error::Variant { key: key.clone(), message },
            Trouble::Misused(reason) => self.misused(key, &reason),
        }
    }

    /// Refuses to fork a process that has threads: a fork has only one of them.
    pub(crate) fn check_threads(&self) -> Result<(), Error> {
        match isolation::threads() {
            Some(threads) if threads > 1 && self.isolated.is_some() => Err(self.wrong(format!(
                "it is isolated, and this process has {} threads besides its main one; start them within \
                 harness::isolated(limit, work), and restart the kernel",
                threads - 1
            ))),
            _ => Ok(()),
        }
    }

    /// The profile with the rounds of this study.
    pub(crate) fn profile(&self, profile: &Profile) -> Profile {
        let rounds = self.rounds.and_then(|rounds| profile.choose(rounds)).unwrap_or(profile.rounds);
        Profile { rounds, ..profile.clone() }
    }

    /// The error for a study function that does not keep to the rules of [`Bencher`].
    pub(crate) fn misused(&self, key: &Key, reason: &str) -> Error {
        self.wrong(format!("{key} cannot be measured: {reason}; see harness::Bencher"))
    }

    /// All variants, controls included, after the whole study was checked.
    pub(crate) fn variants(&self) -> Result<Vec<Variant>, Error> {
        self.check_name()?;
        let variant = |key, bench: &Bench| Variant {
            key,
            function: Rc::clone(&bench.function),
            samples: bench.samples,
            resources: bench.resources,
            units: self.units(&bench.key),
        };
        let mut variants: Vec<Variant> =
            self.benches.iter().map(|bench| variant(bench.key.clone(), bench)).collect();
        for control in &self.controls {
            let bench = self.controlled(control)?;
            variants.push(variant(control_key(&bench.key), bench));
        }
        if variants.is_empty() {
            return Err(self.wrong("it has no variants; add some with bench(key, function)".to_owned()));
        }
        let mut seen = HashSet::new();
        for Variant { key, .. } in &variants {
            key.validate()?;
            if !seen.insert(key) {
                return Err(self.wrong(format!("{key} was added twice")));
            }
        }
        self.check_baseline()?;
        self.compared()?;
        self.groups()?;
        if let Some(bench) = self.benches.iter().find(|bench| !(1..=MOST_SAMPLES).contains(&bench.samples)) {
            let reason =
                format!("{} has {} samples; 1 to {MOST_SAMPLES} are possible", bench.key, bench.samples);
            return Err(self.wrong(reason));
        }
        if let Some(bench) = self.benches.iter().find(|bench| !is_unit(&bench.unit)) {
            let reason = format!("the unit {:?} of {} is not lower-case words", bench.unit, bench.key);
            return Err(self.wrong(reason));
        }
        self.check_counts(&seen)?;
        Ok(variants)
    }

    fn units(&self, key: &Key) -> u64 {
        let of = |counter| self.counts.iter().find(|count| count.key == *key && count.counter == counter);
        ["units", "transactions"].into_iter().find_map(of).map_or(1, |count| count.value)
    }

    fn check_name(&self) -> Result<(), Error> {
        if !self.name.split('-').all(is_plain_word) {
            return Err(self.wrong("the name of a study is lower-case words joined by hyphens".to_owned()));
        }
        Ok(())
    }

    /// What run.json says about the study before its first round.
    pub(crate) fn settings(&self) -> Result<Settings, Error> {
        if self.baseline.is_none() && self.compared.is_empty() {
            return Err(self.wrong(
                "nothing is compared; name a baseline with baseline(variant), or pairs with compare(key, baseline, change)"
                    .to_owned(),
            ));
        }
        let comparisons = self.compared()?;
        let mut controls = Vec::new();
        for control in &self.controls {
            let variant = control_key(&self.controlled(control)?.key).variant;
            if !controls.contains(&variant) {
                controls.push(variant);
            }
        }
        let mut groups = self.groups()?;
        groups.retain(|name, _| comparisons.iter().any(|comparison| comparison.group == *name));
        let baseline = self.baseline.clone().unwrap_or_default();
        let samples = self.benches.iter().map(|bench| bench.samples).max().unwrap_or(SAMPLES);
        Ok(Settings { baseline, controls, comparisons, groups, samples })
    }

    /// All comparisons, checked.
    fn compared(&self) -> Result<Vec<Comparison>, Error> {
        let named = |key: &Key| self.benches.iter().any(|bench| bench.key == *key);
        if let Some(key) =
            self.compared.iter().flat_map(|pair| [&pair.key, &pair.baseline]).find(|key| !named(key))
        {
            return Err(self.wrong(format!("compare() names {key}, which is not among its variants")));
        }
        let mut found = Vec::new();
        for bench in &self.benches {
            let comparison = |key: &Key, baseline: &Key, change: String| Comparison {
                key: key.clone(),
                baseline: baseline.clone(),
                group: bench.group.name.clone(),
                change,
                unit: bench.unit.clone(),
            };
            let declared: Vec<&Declared> =
                self.compared.iter().filter(|declared| declared.key == bench.key).collect();
            if declared.iter().all(|declared| declared.beside_default)
                && let Some(baseline) = self.default_baseline(&bench.key)?
            {
                let change = format!("`{}` instead of `{}`", bench.key.variant, baseline.variant);
                found.push(comparison(&bench.key, baseline, change));
            }
            found.extend(
                declared
                    .iter()
                    .map(|Declared { key, baseline, change, .. }| comparison(key, baseline, change.clone())),
            );
        }
        for control in &self.controls {
            let bench = self.controlled(control)?;
            found.push(Comparison {
                key: control_key(&bench.key),
                baseline: bench.key.clone(),
                group: bench.group.name.clone(),
                change: "the same, measured twice".to_owned(),
                unit: bench.unit.clone(),
            });
        }
        self.check_comparisons(&found)?;
        Ok(found)
    }

    fn check_comparisons(&self, comparisons: &[Comparison]) -> Result<(), Error> {
        let mut seen = HashSet::new();
        for Comparison { key, baseline, change, unit, .. } in comparisons {
            if key == baseline {
                return Err(self.wrong(format!("{key} is compared with itself; control_of(key) does that")));
            }
            if !seen.insert([key, baseline]) || seen.contains(&[baseline, key]) {
                return Err(self.wrong(format!("{key} and {baseline} are compared twice; once is enough")));
            }
            validate_change(change).map_err(|reason| {
                self.wrong(format!(
                    "what changes from {baseline} to {key} cannot be said by {change:?}: {reason}; say it in other words with \
                     compare(key, baseline, change)"
                ))
            })?;
            if let Some(other) =
                self.benches.iter().find(|bench| bench.key == *baseline && bench.unit != *unit)
            {
                return Err(self.wrong(format!(
                    "the time of {key} is told per {unit:?} and that of {baseline} per {:?}; what is compared has one unit",
                    other.unit
                )));
            }
        }
        Ok(())
    }

    /// The baseline of the same bench and parameter, else the only one of the same parameter; `None` for the baseline itself
    /// and where its parameter has none.
    fn default_baseline(&self, key: &Key) -> Result<Option<&Key>, Error> {
        if self.baseline.as_ref() == Some(&key.variant) {
            return Ok(None);
        }
        let candidates = self.baselines(&key.parameter);
        let same_bench = candidates.iter().find(|bench| bench.key.bench == key.bench);
        match (same_bench, candidates.as_slice()) {
            (Some(bench), _) => Ok(Some(&bench.key)),
            (None, []) => Ok(None),
            (None, [bench]) => Ok(Some(&bench.key)),
            (None, [first, second, ..]) => Err(self.wrong(format!(
                "{key} could be compared with {} or {}; say which with compare(key, baseline, change)",
                first.key, second.key
            ))),
        }
    }

    /// The baselines of this parameter, one for each bench that has one.
    fn baselines(&self, parameter: &str) -> Vec<&Bench> {
        let is_baseline = |bench: &&Bench| {
            self.baseline.as_ref() == Some(&bench.key.variant) && bench.key.parameter == parameter
        };
        self.benches.iter().filter(is_baseline).collect()
    }

    /// All groups with their limits.
    fn groups(&self) -> Result<BTreeMap<String, f64>, Error> {
        let mut groups = BTreeMap::new();
        for Group { name, limit } in self.benches.iter().map(|bench| &bench.group) {
            if !name.is_empty() {
                validate_word(name)
                    .map_err(|reason| self.wrong(format!("the group {name:?} cannot be used: {reason}")))?;
            }
            if !(*limit > 0.0 && *limit < 1.0) {
                return Err(self.wrong(format!("the limit {limit} of group {name:?} is not between 0 and 1")));
            }
            let first = *groups.entry(name.clone()).or_insert(*limit);
            if first != *limit {
                return Err(self.wrong(format!("group {name:?} has two limits, {first} and {limit}")));
            }
        }
        Ok(groups)
    }

    fn check_baseline(&self) -> Result<(), Error> {
        match &self.baseline {
            Some(name) if !self.benches.iter().any(|bench| bench.key.variant == *name) => {
                Err(self.wrong(format!("its baseline {name:?} is not among its variants")))
            }
            _ => Ok(()),
        }
    }

    fn check_counts(&self, keys: &HashSet<&Key>) -> Result<(), Error> {
        for Count { key, counter, .. } in &self.counts {
            validate_word(counter)
                .map_err(|reason| self.wrong(format!("the counter {counter:?} cannot be used: {reason}")))?;
            if !keys.contains(key) {
                return Err(
                    self.wrong(format!("{counter} is given for {key}, which is not among its variants"))
                );
            }
        }
        Ok(())
    }

    /// The variant that a control repeats.
    fn controlled(&self, control: &Control) -> Result<&Bench, Error> {
        let parameter = match control {
            Control::OfKey(key) => {
                let bench = self.benches.iter().find(|bench| bench.key == *key);
                return bench.ok_or_else(|| {
                    self.wrong(format!("control_of() names {key}, which is not among its variants"))
                });
            }
            Control::OfBaseline(parameter) => parameter,
        };
        let name = self.baseline.as_ref().ok_or_else(|| {
            self.wrong("control() repeats the baseline; name it with baseline(variant)".to_owned())
        })?;
        match self.baselines(parameter).as_slice() {
            [bench] => Ok(bench),
            [] => {
                Err(self
                    .wrong(format!("control({parameter:?}) needs the baseline {name:?} with this parameter")))
            }
            [first, second, ..] => Err(self.wrong(format!(
                "control({parameter:?}) could repeat {} or {}; say which with control_of(key)",
                first.key, second.key
            ))),
        }
    }

    fn wrong(&self, reason: String) -> Error {
        Error::Study { study: self.name.clone(), reason }
    }
}

fn is_plain_word(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// Lower-case words that are joined by spaces or hyphens.
fn is_unit(text: &str) -> bool {
    text.split([' ', '-']).all(is_plain_word)
}

/// The key under which a variant is measured a second time.
fn control_key(key: &Key) -> Key {
    Key { variant: format!("{} (A/A)", key.variant), ..key.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing(bencher: &mut Bencher) {
        bencher.iter(&mut || ());
    }

    fn refusal(study: Study) -> String {
        study.variants().err().expect("the study must be refused").to_string()
    }

    #[test]
    fn an_empty_study_is_refused() {
        assert!(refusal(Study::new("empty")).contains("no variants"));
    }

    #[test]
    fn a_key_given_twice_is_refused() {
        let key = Key::new("b", "manual", "p=1");
        assert!(refusal(Study::new("s").bench(key.clone(), nothing).bench(key, nothing)).contains("twice"));
    }

    #[test]
    fn a_control_without_its_baseline_is_refused() {
        let study = || Study::new("s").bench(Key::new("b", "manual", "p=1"), nothing);
        assert!(refusal(study().control("p=1")).contains("baseline(variant)"));
        assert!(refusal(study().baseline("manual").control("p=2")).contains("p=2"));
        assert!(refusal(study().baseline("other")).contains("other"));
    }

    #[test]
    fn hostile_names_are_refused() {
        for name in ["", "../s", "a b", "a\nb", "A", "-", "a--b"] {
            assert!(Study::new(name).bench(Key::new("b", "v", "p"), nothing).variants().is_err(), "{name:?}");
        }
        assert!(Study::new("s").bench(Key::new("b\n", "v", "p"), nothing).variants().is_err());
    }

    #[test]
    fn counts_belong_to_a_variant() {
        let key = Key::new("b", "manual", "p=1");
        let study = || Study::new("s").bench(key.clone(), nothing);
        assert!(study().count(key.clone(), "polls", 1).variants().is_ok());
        assert!(refusal(study().count(Key::new("b", "nonbox", "p=1"), "polls", 1)).contains("nonbox"));
        assert!(refusal(study().count(key.clone(), "a\nb", 1)).contains("counter"));
    }

    #[test]
    fn a_control_is_the_baseline_under_another_variant_name() {
        let study =
            Study::new("s").baseline("manual").bench(Key::new("b", "manual", "p=1"), nothing).control("p=1");
        assert_eq!(study.keys()[1], Key::new("b", "manual (A/A)", "p=1"));
        study.run_once(&study.keys()[1]).expect("the control runs");
    }

    fn pairs(study: &Study) -> Vec<String> {
        let pair = |c: &Comparison| format!("{} : {} [{}]", c.key, c.baseline, c.group);
        study.comparisons().expect("a sound study").iter().map(pair).collect()
    }

    #[test]
    fn by_default_a_baseline_of_the_same_bench_comes_before_one_of_the_same_parameter() {
        let study = Study::new("s")
            .baseline("tokio")
            .bench(Key::new("ping", "tokio", ""), nothing)
            .bench(Key::new("ping", "nio", ""), nothing)
            .bench(Key::new("chain", "tokio", ""), nothing)
            .bench(Key::new("chain", "nio", ""), nothing)
            .bench(Key::new("alone", "tokio", "p=1"), nothing)
            .bench(Key::new("other", "nio", "p=1"), nothing)
            .bench(Key::new("other", "nio", "p=2"), nothing);
        let expected =
            ["ping/nio : ping/tokio []", "chain/nio : chain/tokio []", "other/nio@p=1 : alone/tokio@p=1 []"];
        assert_eq!(pairs(&study), expected);
        let third = study.bench(Key::new("third", "nio", ""), nothing);
        let message = third.settings().err().expect("which baseline?").to_string();
        assert!(message.contains("compare(key, baseline, change)"), "{message}");
    }

    #[test]
    fn comparisons_controls_and_groups_are_what_was_asked_for() {
        let key = |variant| Key::new("b", variant, "");
        let study = Study::new("s")
            .compare(key("c"), key("b"), "c for b")
            .bench(key("a"), nothing)
            .group("threads", 0.05)
            .bench(key("b"), nothing)
            .bench(key("c"), nothing)
            .compare(key("b"), key("a"), "b for a")
            .control_of(key("c"));
        study.variants().expect("a sound study");
        assert_eq!(
            pairs(&study),
            ["b/b : b/a [threads]", "b/c : b/b [threads]", "b/c (A/A) : b/c [threads]"]
        );
        let settings = study.settings().expect("a sound study");
        assert_eq!(settings.baseline, "");
        assert_eq!(settings.controls, ["c (A/A)"]);
        // Nothing is compared in the group that the study began with.
        assert_eq!(settings.groups, BTreeMap::from([("threads".to_owned(), 0.05)]));
    }

    #[test]
    fn a_key_may_be_compared_with_several_and_the_default_is_made_unless_replaced() {
        let key = |variant| Key::new("b", variant, "");
        let all = || {
            ["a", "b", "c", "d"]
                .into_iter()
                .fold(Study::new("s").baseline("a"), |s, v| s.bench(key(v), nothing))
        };
        let study = all()
            .also_compare(key("c"), key("b"), "a box less")
            .compare(key("d"), key("b"), "a wake less")
            .compare(key("d"), key("c"), "both: *box* and `wake`")
            .control("");
        let told = study.comparisons().expect("a sound study");
        let told: Vec<String> = told
            .iter()
            .map(|c| format!("{} : {}: {}", c.key.variant, c.baseline.variant, c.change))
            .collect();
        let expected = [
            "b : a: `b` instead of `a`",
            "c : a: `c` instead of `a`",
            "c : b: a box less",
            "d : b: a wake less",
            "d : c: both: *box* and `wake`",
            "a (A/A) : a: the same, measured twice",
        ];
        assert_eq!(told, expected);
        for (one, other) in [("c", "a"), ("a", "c")] {
            let twice = all().also_compare(key(one), key(other), "again");
            assert!(refusal(twice).contains("compared twice"), "{one} and {other}, beside the default");
        }
    }

    #[test]
    fn a_unit_holds_for_the_variants_that_follow_and_for_both_sides() {
        let key = |variant| Key::new("b", variant, "");
        let study = |unit: &str| {
            let study = Study::new("s").bench(key("a"), nothing).bench(key("b"), nothing).unit(unit);
            study.bench(key("c"), nothing).bench(key("d"), nothing).compare(key("b"), key("a"), "x")
        };
        let sound = study("blocking call").compare(key("d"), key("c"), "x").control_of(key("c"));
        let units: Vec<String> = sound.comparisons().expect("sound").into_iter().map(|c| c.unit).collect();
        assert_eq!(units, ["iteration", "blocking call", "blocking call"]);
        assert!(refusal(study("call").compare(key("d"), key("a"), "x")).contains("one unit"));
        for unit in ["", "Call", "a  b", "a_b", " a", "µs"] {
            assert!(refusal(study(unit)).contains("unit"), "{unit:?}");
        }
    }

    #[test]
    fn a_change_is_one_printable_line_without_markup_of_pages() {
        let key = |variant| Key::new("b", variant, "");
        let study = |change: &str| {
            let study = Study::new("s").bench(key("a"), nothing).bench(key("b"), nothing);
            study.compare(key("b"), key("a"), change)
        };
        for change in ["`Arc` handles instead of `Rc`", "2 × 3 µs → *less*", &"µ".repeat(200)] {
            study(change).variants().unwrap_or_else(|error| panic!("{error}"));
        }
        for change in
            ["", " ", "a\nb", "a\u{1b}[31m", "a\u{202e}b", "a <b>", "a > b", "a &amp; b", &"x".repeat(201)]
        {
            assert!(refusal(study(change)).contains("b/b"), "{change:?}");
        }
    }

    #[test]
    fn rounds_and_samples_are_those_of_the_study() {
        let key = Key::new("b", "a", "");
        let study = |samples| Study::new("s").samples(samples).bench(key.clone(), nothing);
        for samples in [0, 101] {
            assert!(refusal(study(samples)).contains("samples"));
        }
        for samples in [1, 100] {
            assert_eq!(study(samples).variants().expect("sound")[0].samples, samples as usize);
        }
        let rounds = |study: &Study| {
            [Profile::quick(), Profile::standard(), Profile::thorough()].map(|p| study.profile(&p).rounds)
        };
        assert_eq!(rounds(&study(1)), Profile::BUILT_IN_ROUNDS);
        assert_eq!(rounds(&study(1).rounds(1, 2, 3)), [1, 2, 3]);
        assert_eq!(rounds(&study(1).more_rounds(3)), Profile::BUILT_IN_ROUNDS.map(|rounds| 3 * rounds));
        let test = Profile { name: "test".to_owned(), rounds: 7, ..Profile::quick() };
        assert_eq!(study(1).rounds(1, 2, 3).profile(&test).rounds, 7, "a test says itself how much");
    }

    #[test]
    fn a_variant_whose_proof_failed_is_never_run_and_says_why() {
        let key = |variant| Key::new("b", variant, "");
        let lost = isolation::isolated(Duration::from_millis(100), std::thread::park);
        let lost = lost.map_err(|end| UnequalWork::from(format!("{}: {end}", key("lost"))));
        let study = Study::new("s")
            .baseline("good")
            .proven(key("good"), Ok(()), nothing)
            .proven(key("lost"), lost, |_: &mut Bencher| panic!("it is run"))
            .control_of(key("lost"));
        study.run_once(&key("good")).expect("its proof was right");
        for key in &study.keys()[1..] {
            let message = study.run_once(key).unwrap_err().to_string();
            assert!(message.contains("b/lost: did not end within 100ms"), "{message}");
        }
    }

    #[test]
    fn a_single_run_of_an_isolated_variant_ends_with_its_process() {
        let study = Study::new("s").isolated(Duration::from_millis(100));
        let key = |variant| Key::new("b", variant, "");
        let study = study
            .bench(key("abort"), |_: &mut Bencher| std::process::abort())
            .bench(key("hang"), |bencher: &mut Bencher| bencher.iter(&mut || std::thread::park()))
            .bench(key("good"), nothing);
        let message = |variant| study.run_once(&key(variant)).unwrap_err().to_string();
        assert!(message("abort").contains("b/abort failed: was ended by signal 6"), "{}", message("abort"));
        assert!(message("hang").contains("b/hang failed: did not end within 100ms"), "{}", message("hang"));
        study.run_once(&key("good")).expect("it works");
    }

    #[test]
    fn comparisons_and_groups_that_make_no_sense_are_refused() {
        let key = |variant| Key::new("b", variant, "");
        let study = || Study::new("s").bench(key("a"), nothing).bench(key("b"), nothing);
        let compare = |study: Study, one, other| study.compare(key(one), key(other), "x");
        assert!(refusal(compare(study(), "x", "a")).contains("b/x"));
        assert!(refusal(compare(study(), "a", "x")).contains("b/x"));
        assert!(refusal(compare(study(), "a", "a")).contains("itself"));
        assert!(refusal(compare(compare(study(), "a", "b"), "a", "b")).contains("twice"));
        assert!(refusal(study().control_of(key("x"))).contains("b/x"));
        for limit in [0.0, -0.1, 1.0, f64::NAN, f64::INFINITY] {
            assert!(refusal(study().group("g", limit).bench(key("c"), nothing)).contains("limit"), "{limit}");
        }
        assert!(refusal(study().group("", 0.02).bench(key("c"), nothing)).contains("two limits"));
        assert!(refusal(study().group("a\nb", 0.02).bench(key("c"), nothing)).contains("group"));
        assert!(study().settings().is_err(), "nothing is compared");
    }

    #[test]
    fn misuse_names_the_variant() {
        let study = Study::new("s").bench(Key::new("b", "lazy", "p=1"), |_: &mut Bencher| ());
        let message = study.run_once(&study.keys()[0]).unwrap_err().to_string();
        assert!(message.contains("b/lazy@p=1"), "{message}");
    }
}
