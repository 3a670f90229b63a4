//! From trials to the lines of the table.

use std::collections::HashMap;
use std::fmt::Debug;
use std::time::Duration;

use crate::builder::{Bench, Variant};
use crate::report::{VariantReport, to_decide, wider};
use crate::store;
use by_turns_core::base::key::Key;
use by_turns_core::count::table::Count;
use by_turns_core::judge::interval::{Estimate, LEAST_EPISODES, median};
use by_turns_core::judge::pairs::Trials;
use by_turns_core::judge::verdict::{Row, Verdict, judge};
use by_turns_core::run::budget::Profile;

impl<W: PartialEq + Debug> Bench<'_, W> {
    /// A line for each variant; what is to be said of them is added to the notes.
    pub(crate) fn judged(
        &self,
        variants: &[Variant],
        trials: &Trials,
        counts: &[Count],
        profile: &Profile,
        each: Option<Duration>,
        notes: &mut Vec<String>,
    ) -> Vec<VariantReport> {
        let compared: Vec<&Variant> = variants.iter().filter(|variant| variant.baseline.is_some()).collect();
        let row = |variant: &&Variant| {
            let settings = self.settings(variant);
            Row {
                kind: store::kind(settings.threads).to_owned(),
                group: settings.load.clone(),
                behind: vec![],
                control: variant.control,
                tolerance: settings.tolerance,
                ratios: self.pair(variants, variant).and_then(|pair| pair.ratios(trials, !settings.threads)),
            }
        };
        let rows: Vec<Row> = compared.iter().map(row).collect();
        let judged: HashMap<&Key, _> =
            compared.iter().map(|variant| &variant.key).zip(judge(&rows)).collect();
        let quick = !profile.concludes;
        if quick {
            notes.push("nothing is concluded: --quick shows that everything works".to_owned());
        }
        let few = (profile.processes as usize) < LEAST_EPISODES;
        if few && !quick {
            notes.push(format!(
                "nothing is concluded: a process counts once, and {} are too few: at least {LEAST_EPISODES}",
                profile.processes
            ));
        }
        let line = |variant: &Variant| {
            let line = self.line(variants, variant, trials, counts);
            let Some(judged) = judged.get(&variant.key) else { return line };
            let mut line = line.judged(judged);
            if quick {
                (line.verdict, line.reason) = (None, Some("quick profile".to_owned()));
            } else if few {
                // Said once, above.
            } else if variant.control {
                let wide = judged.offset > 0.0 && judged.inconclusive.is_none();
                notes.extend(wide.then(|| wider(&line, judged.offset)));
            } else if let Some(reason) = judged.inconclusive {
                notes.push(format!("{}: nothing is concluded: {}", line.name(), reason.said("processes")));
            } else if let Some((needed, ratios)) = judged.needed.zip(judged.ratios) {
                let tolerance = self.settings(variant).tolerance;
                let alone = Verdict::at(ratios.typical.value, tolerance);
                notes.push(to_decide(&line.name(), needed, alone, profile.processes, each));
            }
            line
        };
        variants.iter().map(line).collect()
    }

    /// What is known of a variant before anything is judged.
    fn line(
        &self,
        variants: &[Variant],
        variant: &Variant,
        trials: &Trials,
        counts: &[Count],
    ) -> VariantReport {
        let settings = &self.declared[variant.declared].settings;
        let mut times: Vec<(u32, f64)> = trials
            .get(&variant.key)
            .into_iter()
            .flatten()
            .map(|(_, time)| (time.episode, time.ns / settings.units as f64))
            .collect();
        let (time_ns, time_deviation_ns) = middle(&times).unzip();
        times.iter_mut().for_each(|(_, ns)| *ns = ns.ln());
        let interval = Estimate::of(&times).map(|ns| [ns.low, ns.high].map(f64::exp));
        let mine = counts.iter().filter(|count| count.key == variant.key);
        VariantReport {
            variant: variant.key.variant.clone(),
            load: variant.key.parameter.clone(),
            unit: settings.unit.clone(),
            units: settings.units,
            time_ns: time_ns.unwrap_or(f64::NAN),
            time_interval_ns: interval,
            time_deviation_ns,
            baseline: variant.baseline.map(|baseline| variants[baseline].key.variant.clone()),
            control: variant.control,
            counts: mine.map(|count| (count.counter.clone(), count.value)).collect(),
            ..VariantReport::default()
        }
    }
}

/// The median of times, and their median absolute deviation from it.
fn middle(times: &[(u32, f64)]) -> Option<(f64, f64)> {
    let mut times: Vec<f64> = times.iter().map(|(_, ns)| *ns).collect();
    let centre = (!times.is_empty()).then(|| median(&mut times))?;
    times.iter_mut().for_each(|ns| *ns = (*ns - centre).abs());
    Some((centre, median(&mut times)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use by_turns_core::judge::pairs::Time;

    /// What is said of a variant with a load, whose processes show these ratios in each round, and what is noted.
    fn judged(ratios: &[f64], rounds: u32) -> (VariantReport, Vec<String>) {
        let bench = Bench::new("b").load("n=2").variant("a", |turn| turn.iter(|| 1));
        let bench = bench.variant("b", |turn| turn.iter(|| 1));
        let variants = bench.variants(|_| true).expect("sound");
        let times = |of: &dyn Fn(f64) -> f64| {
            let all = ratios.iter().flat_map(|ratio| (0..rounds).map(|_| *ratio));
            let time = |(round, ratio)| (round, Time { episode: round / rounds, ns: of(ratio) });
            (0..).zip(all).map(time).collect()
        };
        let control = |ratio: f64| 100.0 + (ratio - 1.0075);
        let measured: [&dyn Fn(f64) -> f64; 3] = [&|_| 100.0, &|ratio| 100.0 * ratio, &control];
        let trials = variants.iter().zip(measured).map(|(variant, of)| (variant.key.clone(), times(of)));
        let profile = Profile { processes: ratios.len() as u32, rounds, ..Profile::STANDARD };
        let mut notes = vec![];
        let lines = bench.judged(&variants, &trials.collect(), &[], &profile, None, &mut notes);
        (lines.into_iter().nth(1).expect("b"), notes)
    }

    fn noted(ratios: &[f64]) -> Vec<String> {
        judged(ratios, 1).1
    }

    #[test]
    fn fewer_than_four_processes_conclude_nothing_however_many_their_rounds() {
        for processes in 1..4 {
            let (line, notes) = judged(&vec![1.5; processes], 24);
            assert_eq!((line.verdict, line.reason.as_deref()), (None, Some("fewer than four processes")));
            assert!(notes[0].starts_with("nothing is concluded: a process counts once"), "{notes:?}");
        }
        assert!(judged(&[1.0, 1.015, 1.0, 1.015], 24).0.verdict.is_some());
    }

    #[test]
    fn what_is_noted_names_the_load() {
        let undecided = noted(&[1.0, 1.02, 1.0, 1.02, 1.0, 1.0, 1.02, 1.0]);
        assert!(undecided[0].starts_with("b (n=2): --processes "), "{undecided:?}");
        assert!(undecided[0].contains(" perhaps, as same if"), "{undecided:?}");
    }
}
