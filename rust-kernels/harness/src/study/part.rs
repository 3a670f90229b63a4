//! A part of a study: the variants that were asked for, and what they are judged by.

use std::collections::{BTreeSet, HashSet};

use crate::base::declared::Comparison;
use crate::base::error::Error;
use crate::study::builder::{Bench, Control, Study};
use by_turns_core::base::key::Key;

/// Names the variants to be measured, with semicolons between them. Without it all are.
const VARIANTS: &str = "ASYNC_COST_VARIANTS";

impl Study {
    /// The variants of these names, what they are compared with, and a control of each of their groups. A name stands
    /// for all parameters under which it was added.
    ///
    /// ```
    /// # use harness::{Bencher, Key, Study};
    /// # let sum = |bencher: &mut Bencher| bencher.iter(&mut || drop(std::hint::black_box((0..10).sum::<u32>())));
    /// # let mut study = Study::new("sums").baseline("range");
    /// # for name in ["range", "fold", "loop"] { study = study.bench(Key::new("sum", name, ""), sum); }
    /// let mine = study.control("").only(&["loop"]).unwrap();
    /// let names: Vec<String> = mine.keys().into_iter().map(|key| key.variant).collect();
    /// assert_eq!(names, ["range", "loop", "range (A/A)"]);
    /// ```
    ///
    /// # Errors
    /// [`Error::Study`] where it has no variant of such a name, and for the mistakes that [`measure`](Self::measure)
    /// reports.
    pub fn only(&self, names: &[&str]) -> Result<Self, Error> {
        let comparisons = self.comparisons()?;
        if let Some(unknown) =
            names.iter().find(|name| !self.benches.iter().any(|bench| bench.key.variant == **name))
        {
            let there: BTreeSet<&str> = self.benches.iter().map(|bench| &*bench.key.variant).collect();
            let there: Vec<&str> = there.into_iter().collect();
            return Err(self.wrong(format!("there is no variant {unknown:?}; there is {}", there.join("; "))));
        }
        let named = |key: &Key| names.contains(&&*key.variant);
        let selected: Vec<&Comparison> =
            comparisons.iter().filter(|comparison| named(&comparison.key)).collect();
        let mut keys: HashSet<Key> =
            self.benches.iter().map(|bench| bench.key.clone()).filter(|key| named(key)).collect();
        keys.extend(selected.iter().map(|comparison| comparison.baseline.clone()));
        let held = self.benches.iter().filter(|bench| keys.contains(&bench.key));
        let groups: BTreeSet<&str> = held.map(|bench| &*bench.group.name).collect();
        let controlled: Vec<&Bench> =
            self.controls.iter().map(|control| self.controlled(control)).collect::<Result<_, _>>()?;
        let mut controls = Vec::new();
        for group in groups {
            let of_group =
                || controlled.iter().filter(|bench| bench.group.name == group).map(|bench| &bench.key);
            let near: Vec<&Key> = of_group().filter(|key| keys.contains(key)).collect();
            let chosen = if near.is_empty() { of_group().take(1).collect() } else { near };
            keys.extend(chosen.iter().copied().cloned());
            controls.extend(chosen.into_iter().cloned().map(Control::OfKey));
        }
        let mut part = Self { controls, ..self.clone() };
        part.benches.retain(|bench| keys.contains(&bench.key));
        part.counts.retain(|count| keys.contains(&count.key));
        part.compared.retain(|pair| keys.contains(&pair.key) && keys.contains(&pair.baseline));
        part.baseline = part.baseline.filter(|name| keys.iter().any(|key| key.variant == *name));
        Ok(part)
    }

    /// The part that the environment asks for; all of it, where it asks for none.
    pub(crate) fn selected(&self) -> Result<Self, Error> {
        match std::env::var(VARIANTS) {
            Ok(names) => self.only(&names.split(';').map(str::trim).collect::<Vec<_>>()),
            Err(_) => Ok(self.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use by_turns_core::base::tolerance as limit;
    use by_turns_core::trial::bencher::Bencher;

    fn nothing(bencher: &mut Bencher) {
        bencher.iter(&mut || ());
    }

    fn key(variant: &str, parameter: &str) -> Key {
        Key::new("b", variant, parameter)
    }

    fn study() -> Study {
        let mut study = Study::new("s").baseline("loop");
        for parameter in ["p=1", "p=2"] {
            for variant in ["loop", "boxed", "boxed twice"] {
                study =
                    study.bench(key(variant, parameter), nothing).count(key(variant, parameter), "units", 3);
            }
        }
        study
            .compare(key("boxed twice", "p=1"), key("boxed", "p=1"), "a second box")
            .group("apart", limit::CALLS)
            .bench(key("alone", "p=3"), nothing)
            .bench(key("other", "p=3"), nothing)
            .compare(key("other", "p=3"), key("alone", "p=3"), "other work")
            .control("p=1")
            .control("p=2")
            .control_of(key("alone", "p=3"))
    }

    fn pairs(study: &Study) -> Vec<String> {
        let comparisons = study.comparisons().expect("a sound study");
        comparisons.iter().map(|comparison| format!("{} : {}", comparison.key, comparison.baseline)).collect()
    }

    #[test]
    fn a_part_is_compared_as_the_whole_is() {
        let whole = pairs(&study());
        for names in [vec!["boxed"], vec!["boxed twice"], vec!["other", "boxed"], vec!["loop"]] {
            let part = study().only(&names).expect("names of variants");
            let part = pairs(&part);
            assert!(!part.is_empty() && part.iter().all(|pair| whole.contains(pair)), "{names:?}: {part:?}");
            let selected = |pair: &&String| names.iter().any(|name| pair.starts_with(&format!("b/{name}@")));
            assert!(whole.iter().filter(selected).all(|pair| part.contains(pair)), "{names:?}: {part:?}");
        }
    }

    #[test]
    fn each_group_keeps_a_control_and_nothing_else_is_kept() {
        let part = study().only(&["other"]).expect("the name of a variant");
        let variants: Vec<String> = part.keys().into_iter().map(|key| key.variant).collect();
        assert_eq!(variants, ["alone", "other", "alone (A/A)"]);
        assert!(part.settings().is_ok_and(|settings| settings.baseline.is_empty()) && part.counts.is_empty());
        let part = study().only(&["boxed"]).expect("the name of a variant");
        assert_eq!(part.counts.len(), 4);
        assert_eq!(part.settings().expect("a sound study").controls, ["loop (A/A)"]);
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let refusal = study().only(&["boxed", "bxoed"]).err().expect("refused").to_string();
        assert!(
            refusal.contains(r#"no variant "bxoed"; there is alone; boxed; boxed twice; loop; other"#),
            "{refusal}"
        );
    }
}
