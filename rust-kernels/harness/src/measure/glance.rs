//! Variants of a study at a glance.

use std::collections::HashSet;

use by_turns_core::base::key::Key;
use by_turns_core::{Glance, Seen};

use crate::base::error::Error;
use crate::base::isolation::in_processes;
use crate::study::builder::Study;

impl Study {
    /// The variants that are `chosen` at a glance. The first of them in the study is what the others are compared with;
    /// controls are left out.
    ///
    /// # Errors
    /// [`Error::Study`] where none is, and for the mistakes that [`measure`](Self::measure) reports.
    pub fn glance(&self, chosen: impl Fn(&Key) -> bool) -> Result<Seen, Error> {
        let mut variants = self.variants()?;
        self.check_threads()?;
        let own = variants.len() - self.controls.len();
        variants.truncate(own);
        variants.retain(|variant| chosen(&variant.key));
        let Some(first) = variants.first() else {
            return Err(self.wrong("no variant was chosen to be glanced at".to_owned()));
        };
        if let Some(other) = variants.iter().find(|other| other.unit != first.unit) {
            let units = format!("{} of {} and {} of {}", first.unit, first.key, other.unit, other.key);
            return Err(self.wrong(format!("what is compared at a glance has one unit, not {units}")));
        }
        let mut glance = Glance::at(&first.unit);
        if let Some(limit) = self.isolated {
            glance = glance.trials_by(in_processes(limit));
        }
        let names: HashSet<&str> = variants.iter().map(|variant| &*variant.key.variant).collect();
        let name =
            |key: &Key| if names.len() == variants.len() { key.variant.clone() } else { key.to_string() };
        for variant in &variants {
            let function = &variant.function;
            glance = glance.each_of(variant.units).look(&name(&variant.key), |bencher| function(bencher));
        }
        Ok(glance.show())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn variants_of_a_study_are_seen_by_their_own_units_of_work() {
        let key = |variant| Key::new("sum", variant, "p=1");
        let mut study = Study::new("sums").unit("step").baseline("short");
        for (variant, steps, ns) in [("short", 100, 1000), ("long", 200, 3000), ("other", 100, 1000)] {
            let of = move |iterations| {
                std::thread::sleep(Duration::from_micros(150)); // else the warm-up would double them without end
                Duration::from_nanos(iterations * ns)
            };
            study = study
                .bench(key(variant), move |bencher| bencher.iter_custom(&mut |iterations| of(iterations)))
                .count(key(variant), "units", steps);
        }
        let shown = study.glance(|key| key.variant != "other").expect("both are there");
        let lines: Vec<String> = shown.to_string().lines().map(str::to_owned).collect();
        assert!(lines[0].contains("time for one step") && lines.len() == 3, "{lines:?}");
        assert!(lines[1].contains("short  10.0 ns") && !lines[1].contains("to"), "{lines:?}");
        assert!(lines[2].contains("long   15.0 ns  1.500 (1.500 to 1.500)"), "{lines:?}");
        let refusal = study.glance(|key| key.variant == "shrot").expect_err("refused").to_string();
        assert!(refusal.contains("no variant was chosen"), "{refusal}");
    }
}
