//! What a study amounts to: its variants and comparisons, once it is known to make sense.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

use crate::base::declared::{Comparison, Settings};
use crate::base::error::Error;
use crate::base::profile::MOST_SAMPLES;
use crate::study::builder::{Bench, Control, Declared, Group, Study};
use by_turns_core::base::key::{Key, is_counter, is_study, is_unit, validate_change, validate_word};
use by_turns_core::count::table::Count;
use by_turns_core::trial::bencher::Function;
use by_turns_core::trial::sampling::SAMPLES;

/// A variant ready to be run.
pub(crate) struct Variant {
    pub(crate) key: Key,
    pub(crate) function: Rc<Function<'static>>,
    pub(crate) samples: usize,
    /// Whether its samples say what the process used meanwhile.
    pub(crate) resources: bool,
    /// Whether its allocations and instructions are counted.
    pub(crate) counted: bool,
    /// Units of work of an iteration; 1 where no counter says so.
    pub(crate) units: u64,
    /// What they are.
    pub(crate) unit: String,
}

impl Study {
    /// Everything that is compared with something, in the order of the keys; the controls come last.
    ///
    /// # Errors
    /// [`Error::Key`] and [`Error::Study`] for mistakes in the study.
    pub fn comparisons(&self) -> Result<Vec<Comparison>, Error> {
        self.variants()?;
        self.compared()
    }

    /// All variants, controls included, after the whole study was checked.
    pub(crate) fn variants(&self) -> Result<Vec<Variant>, Error> {
        self.check_name()?;
        let variant = |key, bench: &Bench| Variant {
            key,
            function: Rc::clone(&bench.function),
            samples: bench.samples,
            resources: bench.resources,
            counted: bench.counted,
            units: self.units(&bench.key),
            unit: bench.unit.clone(),
        };
        let mut variants: Vec<Variant> =
            self.benches.iter().map(|bench| variant(bench.key.clone(), bench)).collect();
        for control in &self.controls {
            let bench = self.controlled(control)?;
            variants.push(variant(bench.key.again(), bench));
        }
        if variants.is_empty() {
            return Err(self.wrong("it has no variants; add some with bench(key, function)".to_owned()));
        }
        let mut seen = HashSet::new();
        for Variant { key, .. } in &variants {
            key.validate().map_err(Error::Key)?;
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
        if !is_study(&self.name) {
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
            let variant = self.controlled(control)?.key.again().variant;
            if !controls.contains(&variant) {
                controls.push(variant);
            }
        }
        let mut groups = self.groups()?;
        groups.retain(|name, _| comparisons.iter().any(|comparison| comparison.group == *name));
        let kinds = groups.keys().map(|group| (group.clone(), self.kind(group))).collect();
        let baseline = self.baseline.clone().unwrap_or_default();
        let samples = self.benches.iter().map(|bench| bench.samples).max().unwrap_or(SAMPLES);
        Ok(Settings { baseline, controls, comparisons, groups, kinds, samples })
    }

    /// What the trials of a group are like. What disturbs a computation of microseconds is not what disturbs threads
    /// that wake each other, or a burst that is one long sample; so the controls of one kind say nothing about another.
    fn kind(&self, group: &str) -> &'static str {
        let long = |bench: &Bench| bench.group.name == group && bench.samples == 1;
        match (self.benches.iter().any(long), self.instructions, self.is_isolated()) {
            (true, ..) => "long trials",
            (_, false, _) => "many threads",
            (_, true, true) => "forked trials",
            (_, true, false) => "one thread",
        }
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
            let declared: Vec<&Declared> =
                self.compared.iter().filter(|declared| declared.key == bench.key).collect();
            if declared.iter().all(|declared| declared.keeps_default)
                && let Some(baseline) = self.default_baseline(&bench.key)?
            {
                let change = format!("`{}` instead of `{}`", bench.key.variant, baseline.variant);
                found.push(bench.comparison(&bench.key, baseline, &change));
            }
            let declared = declared.iter();
            found.extend(declared.map(|pair| bench.comparison(&pair.key, &pair.baseline, &pair.change)));
        }
        for control in &self.controls {
            let bench = self.controlled(control)?;
            found.push(bench.comparison(&bench.key.again(), &bench.key, "the same, measured twice"));
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

    /// The baseline of the same bench and parameter, else the only one of the same parameter; `None` for the baseline
    /// itself and where its parameter has none.
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
    pub(crate) fn groups(&self) -> Result<BTreeMap<String, f64>, Error> {
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
            if !is_counter(counter) {
                let rule = "lower-case letters, digits and _, a letter first";
                return Err(self.wrong(format!("the counter {counter:?} cannot be used: {rule}")));
            }
            if !keys.contains(key) {
                return Err(
                    self.wrong(format!("{counter} is given for {key}, which is not among its variants"))
                );
            }
        }
        Ok(())
    }

    /// The variant that a control repeats.
    pub(super) fn controlled(&self, control: &Control) -> Result<&Bench, Error> {
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

    pub(crate) fn wrong(&self, reason: String) -> Error {
        Error::Study { study: self.name.clone(), reason }
    }
}

impl Bench {
    /// A comparison in the group and the unit of this variant.
    fn comparison(&self, key: &Key, baseline: &Key, change: &str) -> Comparison {
        Comparison {
            key: key.clone(),
            baseline: baseline.clone(),
            group: self.group.name.clone(),
            change: change.to_owned(),
            unit: self.unit.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::profile::Profile;
    use by_turns_core::trial::bencher::Bencher;

    fn nothing(bencher: &mut Bencher) {
        bencher.iter(&mut || ());
    }

    fn key(variant: &str) -> Key {
        Key::new("b", variant, "")
    }

    /// A study of the variants `a` and `b`.
    fn two() -> Study {
        Study::new("s").bench(key("a"), nothing).bench(key("b"), nothing)
    }

    fn refusal(study: &Study) -> String {
        study.variants().err().expect("the study must be refused").to_string()
    }

    fn pairs(study: &Study) -> Vec<String> {
        let pair = |c: &Comparison| format!("{} : {} [{}]", c.key, c.baseline, c.group);
        study.comparisons().expect("a sound study").iter().map(pair).collect()
    }

    #[test]
    fn mistakes_are_refused_with_what_is_wrong() {
        let compare = |study: Study, variant, other| study.compare(key(variant), key(other), "x");
        let unit = |unit| two().unit(unit).bench(key("c"), nothing).compare(key("c"), key("a"), "x");
        let mistakes = [
            (Study::new("s"), "no variants"),
            (two().bench(key("a"), nothing), "twice"),
            (two().control(""), "baseline(variant)"),
            (two().baseline("a").control("p=2"), "p=2"),
            (two().baseline("other"), "other"),
            (two().count(key("c"), "polls", 1), "b/c"),
            (two().count(key("a"), "a\nb", 1), "counter"),
            (two().bench(Key::new("b\n", "v", ""), nothing), "bench"),
            (compare(two(), "x", "a"), "b/x"),
            (compare(two(), "a", "x"), "b/x"),
            (compare(two(), "a", "a"), "itself"),
            (compare(compare(two(), "a", "b"), "a", "b"), "twice"),
            (two().baseline("a").also_compare(key("b"), key("a"), "again"), "twice"),
            (two().baseline("a").also_compare(key("a"), key("b"), "again"), "twice"),
            (two().control_of(key("x")), "b/x"),
            (two().group("", 0.02).bench(key("c"), nothing), "two limits"),
            (two().group("a\nb", 0.02).bench(key("c"), nothing), "group"),
            (unit("call"), "one unit"),
        ];
        for (study, wrong) in mistakes {
            assert!(refusal(&study).contains(wrong), "{}", refusal(&study));
        }
        for name in ["", "../s", "a b", "a\nb", "A", "-", "a--b"] {
            assert!(refusal(&Study { name: name.to_owned(), ..two() }).contains("name"), "{name:?}");
        }
        for limit in [0.0, -0.1, 1.0, f64::NAN, f64::INFINITY] {
            assert!(refusal(&two().group("g", limit).bench(key("c"), nothing)).contains("limit"), "{limit}");
        }
        for name in ["", "Call", "a  b", "a_b", " a", "µs"] {
            assert!(refusal(&unit(name)).contains("unit"), "{name:?}");
        }
        for samples in [0, 101] {
            assert!(refusal(&two().samples(samples).bench(key("c"), nothing)).contains("samples"));
        }
        assert!(two().settings().is_err(), "nothing is compared");
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
        let study = two()
            .baseline("a")
            .bench(key("c"), nothing)
            .bench(key("d"), nothing)
            .also_compare(key("c"), key("b"), "a box less")
            .compare(key("d"), key("b"), "a wake less")
            .compare(key("d"), key("c"), "both: *box* and `wake`")
            .control("");
        let comparisons = study.comparisons().expect("a sound study");
        let line = |c: &Comparison| format!("{} : {}: {}", c.key.variant, c.baseline.variant, c.change);
        let lines: Vec<String> = comparisons.iter().map(line).collect();
        let expected = [
            "b : a: `b` instead of `a`",
            "c : a: `c` instead of `a`",
            "c : b: a box less",
            "d : b: a wake less",
            "d : c: both: *box* and `wake`",
            "a (A/A) : a: the same, measured twice",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn a_unit_holds_for_the_variants_that_follow() {
        let study = two().unit("blocking call").bench(key("c"), nothing).bench(key("d"), nothing);
        let study =
            study.compare(key("b"), key("a"), "x").compare(key("d"), key("c"), "x").control_of(key("c"));
        let units: Vec<String> = study.comparisons().expect("sound").into_iter().map(|c| c.unit).collect();
        assert_eq!(units, ["iteration", "blocking call", "blocking call"]);
    }

    #[test]
    fn a_change_is_one_printable_line_without_markup_of_pages() {
        let study = |change: &str| two().compare(key("b"), key("a"), change);
        for change in ["`Arc` handles instead of `Rc`", "2 × 3 µs → *less*", &"µ".repeat(200)] {
            study(change).variants().unwrap_or_else(|error| panic!("{error}"));
        }
        for change in
            ["", " ", "a\nb", "a\u{1b}[31m", "a\u{202e}b", "a <b>", "a > b", "a &amp; b", &"x".repeat(201)]
        {
            assert!(refusal(&study(change)).contains("b/b"), "{change:?}");
        }
    }

    #[test]
    fn rounds_and_samples_are_those_of_the_study() {
        let study = |samples| Study::new("s").samples(samples).bench(key("a"), nothing);
        for samples in [1, 100] {
            assert_eq!(study(samples).variants().expect("sound")[0].samples, samples as usize);
        }
        let rounds = |study: &Study| {
            [Profile::smoke(), Profile::quick(), Profile::standard(), Profile::thorough()]
                .map(|p| study.profile(&p).rounds)
        };
        assert_eq!(study(1).profile(&Profile::standard()), Profile::standard());
        assert_eq!(rounds(&study(1).rounds(1, 2)), [1, 1, 2, 4]);
        assert_eq!(rounds(&study(1).rounds(9, 10))[0], Profile::smoke().rounds, "at most its own");
        let of_a_process = study(1).isolated(std::time::Duration::from_secs(1)).profile(&Profile::standard());
        assert_eq!(of_a_process.trial, 6 * Profile::standard().trial);
        let thrice = study(1).rounds(1, 2).profile(&Profile { times: 3, ..Profile::quick() });
        assert_eq!((thrice.rounds, thrice.episodes), (3, 3 * Profile::quick().episodes), "also its own");
        let test = Profile { name: "test".to_owned(), rounds: 7, ..Profile::quick() };
        assert_eq!(study(1).rounds(1, 2).profile(&test).rounds, 7, "a test says itself how much");
    }
}
