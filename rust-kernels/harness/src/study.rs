//! A study: its variants, its baseline, its controls and its exact counts.

use std::collections::HashSet;
use std::rc::Rc;

use crate::bencher::{self, Mode, Trouble};
use crate::key::validate_word;
use crate::outcome::Outcome;
use crate::{Bencher, Error, Key, Profile};

/// Sets a variant up and hands its workload to the bencher.
pub(crate) type Function = Rc<dyn Fn(&mut Bencher)>;

/// An exact count of one variant, per iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) key: Key,
    pub(crate) counter: String,
    pub(crate) value: u64,
}

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
    benches: Vec<(Key, Function)>,
    controls: Vec<String>,
    /// How many times the rounds of the profile are measured.
    pub(crate) rounds_factor: u32,
}

/// A variant ready to be run.
pub(crate) struct Variant {
    pub(crate) key: Key,
    pub(crate) function: Function,
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
            rounds_factor: 1,
        }
    }

    /// The variant that all others of the same parameter are compared with.
    pub fn baseline(mut self, variant: impl Into<String>) -> Self {
        self.baseline = Some(variant.into());
        self
    }

    /// Adds a variant. `function` is called anew for each trial; what it does before it calls the bencher is
    /// not timed.
    pub fn bench(mut self, key: Key, function: impl Fn(&mut Bencher) + 'static) -> Self {
        self.benches.push((key, Rc::new(function)));
        self
    }

    /// Adds the baseline of this parameter a second time, under the baseline's bench and the variant name
    /// `<baseline> (A/A)`. Its ratio is 1 by construction, so what is measured for it is the error of the
    /// measurement.
    pub fn control(mut self, parameter: impl Into<String>) -> Self {
        self.controls.push(parameter.into());
        self
    }

    /// Measures `factor` times as many rounds as the profile says, for workloads whose rounds differ more than those
    /// of a computation: real system calls, several threads. An interval shrinks with the square root of it.
    pub fn more_rounds(mut self, factor: u32) -> Self {
        self.rounds_factor = factor;
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
        let benches = self.benches.iter().map(|(key, _)| key.clone());
        benches.chain(self.controls.iter().filter_map(|parameter| self.control_key(parameter).ok())).collect()
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
        self.call(variant, Mode::Once).map(drop)
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

    /// Calls a variant for something other than a trial.
    pub(crate) fn call(&self, variant: &Variant, mode: Mode) -> Result<(), Error> {
        bencher::call(&*variant.function, mode).map(drop).map_err(|trouble| match trouble {
            Trouble::Failed(message) => Error::Variant { key: variant.key.clone(), message },
            Trouble::Misused(reason) => self.misused(&variant.key, reason),
        })
    }

    /// The error for a study function that does not keep to the rules of [`Bencher`].
    pub(crate) fn misused(&self, key: &Key, reason: &str) -> Error {
        self.wrong(format!("{key} cannot be measured: {reason}; call exactly one of them, once"))
    }

    /// All variants, controls included, after the whole study was checked.
    pub(crate) fn variants(&self) -> Result<Vec<Variant>, Error> {
        self.check_name()?;
        let mut variants: Vec<Variant> = Vec::new();
        for (key, function) in &self.benches {
            variants.push(Variant { key: key.clone(), function: Rc::clone(function) });
        }
        for parameter in &self.controls {
            variants.push(Variant {
                key: self.control_key(parameter)?,
                function: self.baseline_of(parameter)?.1.clone(),
            });
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
        self.check_counts(&seen)?;
        Ok(variants)
    }

    fn check_name(&self) -> Result<(), Error> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        if self.name.split('-').any(|word| word.is_empty() || !word.chars().all(plain)) {
            return Err(self.wrong("the name of a study is lower-case words joined by hyphens".to_owned()));
        }
        Ok(())
    }

    /// The baseline, without which nothing can be compared.
    pub(crate) fn named_baseline(&self) -> Result<&str, Error> {
        let missing = || self.wrong("it has no baseline; name one with baseline(variant)".to_owned());
        self.baseline.as_deref().ok_or_else(missing)
    }

    /// The variant names of the controls: one, however many parameters have it.
    pub(crate) fn control_variants(&self) -> Vec<String> {
        let name = self.baseline.iter().filter(|_| !self.controls.is_empty());
        name.map(|baseline| control_name(baseline)).collect()
    }

    fn check_baseline(&self) -> Result<(), Error> {
        match &self.baseline {
            Some(name) if !self.benches.iter().any(|(key, _)| key.variant == *name) => {
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

    fn control_key(&self, parameter: &str) -> Result<Key, Error> {
        let key = &self.baseline_of(parameter)?.0;
        Ok(Key { variant: control_name(&key.variant), ..key.clone() })
    }

    fn baseline_of(&self, parameter: &str) -> Result<&(Key, Function), Error> {
        let name = self.baseline.as_ref().ok_or_else(|| {
            self.wrong("control() repeats the baseline; name it with baseline(variant)".to_owned())
        })?;
        self.benches.iter().find(|(key, _)| key.variant == *name && key.parameter == parameter).ok_or_else(
            || self.wrong(format!("control({parameter:?}) needs the baseline {name:?} with this parameter")),
        )
    }

    fn wrong(&self, reason: String) -> Error {
        Error::Study { study: self.name.clone(), reason }
    }
}

/// The name under which the baseline is measured a second time.
fn control_name(baseline: &str) -> String {
    format!("{baseline} (A/A)")
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

    #[test]
    fn misuse_names_the_variant() {
        let study = Study::new("s").bench(Key::new("b", "lazy", "p=1"), |_: &mut Bencher| ());
        let message = study.run_once(&study.keys()[0]).unwrap_err().to_string();
        assert!(message.contains("b/lazy@p=1"), "{message}");
    }
}
