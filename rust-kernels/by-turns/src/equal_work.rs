//! Proof that variants do equal work: before they are measured, and after the samples of each trial.

use std::cell::Cell;
use std::fmt::Debug;
use std::fs;
use std::time::{Duration, Instant};

use crate::builder::{Bench, Declared, Turn, Variant};
use by_turns_core::base::key::Key;
use by_turns_core::base::panics;
use by_turns_core::run::work::shown;
use by_turns_core::trial::bencher::{self, Bencher, TrialError};

/// Why instructions are not counted where there are several threads.
pub(crate) const NOT_ALONE: &str = "on which callgrind counts nothing: call .threads() before it";

impl<W: PartialEq + Debug> Bench<'_, W> {
    /// A variant as what a count calls.
    pub(crate) fn function(&self, index: usize) -> impl Fn(&mut Bencher<'_>) {
        self.checked(index, |_| None)
    }

    /// A variant as what is counted on one thread. It fails if there are others at its end, on which nothing is counted.
    pub(crate) fn alone(&self, index: usize) -> impl Fn(&mut Bencher<'_>) {
        // Where this cannot be read, threads are not seen.
        let threads = || fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
        self.checked(index, move |_| (threads() > 1).then(|| format!("there are other threads, {NOT_ALONE}")))
    }

    /// A variant as what a trial calls. It fails if the call after its samples does other work than was `proved`.
    pub(crate) fn proved<'b>(
        &'b self,
        variants: &'b [Variant],
        at: usize,
        proved: &'b Proved<W>,
    ) -> impl Fn(&mut Bencher<'_>) + 'b {
        let Variant { key, declared, baseline, .. } = &variants[at];
        let first = baseline.unwrap_or(at);
        self.checked(*declared, move |done| {
            let expected = proved[first].as_ref().expect("the work of each baseline");
            unequal([key, &variants[first].key], "after its samples", &done, expected)
        })
    }

    fn checked(&self, index: usize, check: impl Fn(W) -> Option<String>) -> impl Fn(&mut Bencher<'_>) {
        let Declared { function, by, elsewhere, .. } = &self.declared[index];
        move |bencher: &mut Bencher<'_>| {
            let mut wrong = None;
            function(&mut Turn {
                hand_over: &mut |workload| {
                    by.set(workload.kind());
                    bencher.hand_over(workload);
                },
                check: &mut |done| wrong = check(done),
                elsewhere,
            });
            if let Some(wrong) = wrong {
                bencher.fail(wrong);
            }
        }
    }

    /// Proves that all of these do equal work in the first two calls of each. `brief`: notes what the baselines do in their
    /// first call, for the comparison after the samples of each trial, and no more.
    ///
    /// # Errors
    /// Which one does not, and what it did instead.
    pub(crate) fn prove(&self, variants: &[Variant], brief: bool) -> Result<Proved<W>, String> {
        if size_of::<W>() == 0 {
            return Err(format!(
                "{}: the variants return nothing, so it cannot be proved that they do equal work. Let each return what it did: \
                 a sum, a number of items, the items",
                self.title
            ));
        }
        let mut proved: Proved<W> = Vec::new();
        for (at, Variant { key, declared, baseline, control }) in variants.iter().enumerate() {
            let first = baseline.unwrap_or(at);
            proved.push(None);
            let calls = match (baseline, brief) {
                (Some(_), true) => 0,
                (None, true) => 1,
                (_, false) => 2,
            };
            let when = ["in its first call", "in its second call"].into_iter().enumerate();
            // A control is its baseline once more.
            for (before, when) in when.take(if *control { 0 } else { calls }) {
                let done = self.work_of(*declared, before).map_err(|error| failed(key, error))?;
                match &proved[first] {
                    None => proved[at] = Some(done),
                    Some(expected) => {
                        let wrong = unequal([key, &variants[first].key], when, &done, expected);
                        wrong.map_or(Ok(()), Err)?;
                    }
                }
            }
            let [by, other] = [at, first].map(|at| self.declared[variants[at].declared].by.get());
            if calls > 0 && by != other {
                let other_key = &variants[first].key;
                return Err(format!(
                    "{key} is measured by {by} and {other_key} by {other}, whose own costs differ: use one of them for all variants of a load"
                ));
            }
        }
        Ok(proved)
    }

    /// About what a call takes, and setting a variant up, after a proof that took so long.
    pub(crate) fn each(&self, variants: &[Variant], proof: Duration) -> [Duration; 2] {
        // Controls are not proved again; each other variant is set up twice and called three times.
        let own = variants.iter().filter(|variant| !variant.control).count().max(1) as u32;
        let in_calls = self.in_calls.get();
        [in_calls / (3 * own), proof.saturating_sub(in_calls) / (2 * own)]
    }

    /// What a variant returns after so many calls of one set-up.
    fn work_of(&self, index: usize, before: usize) -> Result<W, TrialError> {
        let (done, set_up) = (Cell::new(None), Cell::new(Instant::now()));
        let function = self.checked(index, |work| {
            self.in_calls.set(self.in_calls.get() + set_up.get().elapsed());
            done.set(Some(work));
            None
        });
        bencher::call(&function, &mut |mut workload| {
            set_up.set(Instant::now());
            workload.single(|run| (0..before).for_each(|_| run()));
        })?;
        Ok(done.take().expect("it called iter"))
    }
}

/// How a variant failed. A panic is shown with its place, as it would be without a bench.
pub(crate) fn failed(key: &Key, error: TrialError) -> String {
    match error {
        TrialError::Failed(why) => {
            let places: Vec<String> = panics::places().iter().map(|place| format!("\n  {place}")).collect();
            format!("{key} failed: {why}{}", places.concat())
        }
        TrialError::Misused(why) => format!("{key} cannot be measured: {why}"),
    }
}

/// What the baselines did in their first call, each at its place among the variants.
pub(crate) type Proved<W> = Vec<Option<W>>;

/// How `done`, of the first of these, differs from what the other one did in its first call.
fn unequal<W: PartialEq + Debug>(
    [key, other]: [&Key; 2],
    when: &str,
    done: &W,
    expected: &W,
) -> Option<String> {
    if done == expected {
        return None;
    }
    #[allow(clippy::eq_op)] // false where there is a NaN
    let alike = [done == done, expected == expected];
    let [done, expected] = shown([format!("{done:?}"), format!("{expected:?}")]);
    if let Some((key, work)) = [(key, &done), (other, &expected)]
        .into_iter()
        .zip(alike)
        .find_map(|(of, alike)| (!alike).then_some(of))
    {
        return Some(format!(
            "what {key} returns is not equal to itself, as NaN is: return its bits, or a sum without NaN. It{work}"
        ));
    }
    Some(format!(
        "{key} returned a different result {when} from {other} in its first call; either may be wrong:\n  {key}{done}\n  {other}{expected}"
    ))
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::builder::tests::bench;
    use by_turns_core::trial::sampling::Trial;

    fn thread_name() -> String {
        thread::current().name().unwrap_or_default().to_owned()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_has_other_threads_is_not_counted_on_one() {
        // This test has a thread of its own.
        let counted =
            bencher::call(&bench(&[("a", 1)]).alone(0), &mut |mut workload| workload.single(|run| run()));
        let Err(TrialError::Failed(why)) = counted else { panic!("a count") };
        assert!(why.contains("call .threads()"), "{why}");
    }

    #[test]
    fn variants_of_one_load_are_measured_alike() {
        let mixed = Bench::new("b")
            .variant("a", |turn| turn.iter(|| 7))
            .variant("b", |turn| turn.iter_with(|| 7, |input| input));
        let refusal = mixed.prove(&mixed.variants(|_| true).expect("sound"), false).unwrap_err();
        assert!(refusal.starts_with("b/b is measured by iter_with and b/a by iter,"), "{refusal}");
        let apart = Bench::new("b").loads("n", [1, 2], |bench, n| {
            let turned = move |turn: &mut Turn<'_, i32>| match n {
                1 => turn.iter(|| 7),
                _ => turn.iter_with(|| 7, |input| input),
            };
            bench.variant("a", turned).variant("b", turned)
        });
        apart.prove(&apart.variants(|_| true).expect("sound"), false).expect("another load, another way");
    }

    #[test]
    fn unequal_work_is_refused() {
        let refusal = |bench: Bench<'_, u64>| {
            bench.prove(&bench.variants(|_| true).expect("sound"), false).unwrap_err()
        };
        let wrong = refusal(bench(&[("a", 1), ("b", 2)]));
        let lines = [
            "b/b returned a different result in its first call from b/a in its first call; either may be wrong:",
            "  b/b did 2",
            "  b/a did 1",
        ];
        assert_eq!(wrong, lines.join("\n"));
        let calls = std::cell::Cell::new(0);
        let wears_out = bench(&[]).variant("a", |turn| turn.iter(|| calls.replace(calls.get() + 1)));
        let wrong = refusal(wears_out.variant("b", |turn| turn.iter(|| 0)));
        assert!(
            wrong.starts_with("b/a returned a different result in its second call from b/a in its first"),
            "{wrong}"
        );
        let panics = bench(&[("a", 1)]).variant("b", |turn| turn.iter(|| panic!("lost a wake")));
        by_turns_core::base::panics::record_places();
        let said = refusal(panics);
        let place = format!("b/b failed: lost a wake\n  thread '{}' panicked at {}:", thread_name(), file!());
        assert!(said.starts_with(&place) && said.contains(": lost a wake"), "{said}");
        assert!(refusal(bench(&[("a", 1)]).variant("b", |_| ())).contains("never measured anything"));
        let nothing =
            Bench::new("b").variant("a", |turn| turn.iter(|| ())).variant("b", |turn| turn.iter(|| ()));
        let variants = nothing.variants(|_| true).expect("sound");
        assert!(nothing.prove(&variants, false).unwrap_err().contains("return nothing"));
    }

    #[test]
    fn a_nan_is_named() {
        let nan = Bench::new("b")
            .variant("a", |turn| turn.iter(|| vec![1.0, f64::NAN]))
            .variant("b", |turn| turn.iter(|| vec![1.0, f64::NAN]));
        let wrong = nan.prove(&nan.variants(|_| true).expect("sound"), false).unwrap_err();
        assert_eq!(
            wrong,
            "what b/a returns is not equal to itself, as NaN is: return its bits, or a sum without NaN. It did [1.0, NaN]"
        );
        let one = Bench::new("b")
            .variant("a", |turn| turn.iter(|| 1.0))
            .variant("b", |turn| turn.iter(|| f64::NAN));
        let wrong = one.prove(&one.variants(|_| true).expect("sound"), false).unwrap_err();
        assert!(wrong.starts_with("what b/b returns is not equal to itself"), "{wrong}");
    }

    #[test]
    fn a_variant_that_does_other_work_after_a_while_fails_in_the_trial() {
        let trial = Trial {
            warm_up: Duration::from_micros(100),
            time: Duration::from_micros(300),
            samples: 2,
            observer: None,
            undisturbed: false,
        };
        for sound in [2, 3, 4, 100, u64::MAX] {
            let wears_out = bench(&[("a", 1)]).variant("b", move |turn| {
                let mut calls = 0;
                turn.iter(|| {
                    calls += 1;
                    1 + u64::from(calls > sound)
                });
            });
            let variants = wears_out.variants(|_| true).expect("sound");
            let proved = wears_out.prove(&variants, false).expect("equal in the first two calls");
            let [a, b] = [0, 1].map(|at| trial.run(&wears_out.proved(&variants, at, &proved)));
            assert!(a.is_ok());
            match b {
                Ok(_) => assert_eq!(sound, u64::MAX),
                Err(TrialError::Failed(why)) => {
                    assert!(
                        why.starts_with("b/b returned a different result after its samples from b/a"),
                        "{why}"
                    )
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn what_calls_take_is_told_without_set_up() {
        let slow = |turn: &mut Turn<'_, u64>| {
            thread::sleep(Duration::from_millis(20));
            turn.iter(|| 1);
        };
        let bench = bench(&[]).variant("a", slow).variant("b", slow);
        let start = Instant::now();
        bench.prove(&bench.variants(|_| true).expect("sound"), false).expect("equal work");
        let calls = bench.in_calls.get();
        assert!(calls > Duration::ZERO && calls < start.elapsed() / 2, "{calls:?}");
    }
}
