//! A bench: variants of doing the same work.

use std::cell::Cell;
use std::fmt::Debug;
use std::hint::black_box;

use by_turns_core::base::key::{Key, is_study, is_unit};
use by_turns_core::base::number::grouped;
use by_turns_core::base::tolerance;
use by_turns_core::judge::pairs::Pair;
use by_turns_core::trial::bencher::{self, Bencher, TrialError};

/// Ways of doing the same work, which are compared with the first of them.
///
/// `W` is what an iteration returns: what it did, such as a sum, a number of items, or all the items. It must be the same
/// for all declared: in the first two calls, before any of them is measured, and in one more after the samples of each trial.
///
/// ```no_run
/// # use by_turns::Bench;
/// by_turns::count_allocations!();
///
/// fn main() {
///     let items: Vec<u64> = (0..1000).collect();
///     Bench::new("sum")
///         .unit("item", 1000)
///         .variant("index", |turn| turn.iter(|| (0..items.len()).map(|at| items[at]).sum::<u64>()))
///         .variant("iterator", |turn| turn.iter(|| items.iter().sum()))
///         .main();
/// }
/// ```
#[must_use = "a bench does nothing before main()"]
pub struct Bench<'a, W> {
    pub(crate) name: String,
    pub(crate) declared: Vec<Declared<'a, W>>,
    next: Settings,
}

/// What is set for the variants that follow.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) load: String,
    pub(crate) unit: String,
    /// How many of them an iteration does.
    pub(crate) units: u64,
    pub(crate) tolerance: f64,
    pub(crate) threads: bool,
}

type Function<'a, W> = dyn Fn(&mut Turn<'_, W>) + 'a;

pub(crate) struct Declared<'a, W> {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    /// Bytes of its future.
    pub(crate) size: Option<u64>,
    function: Box<Function<'a, W>>,
}

/// Something that is measured: a variant, or one of them a second time.
#[derive(Clone)]
pub(crate) struct Variant {
    pub(crate) key: Key,
    /// Its number among the declared.
    pub(crate) declared: usize,
    /// The number of the variant that it is compared with.
    pub(crate) baseline: Option<usize>,
    pub(crate) control: bool,
}

/// The turn of a variant: set up what it needs, then call [`iter`](Self::iter) once.
pub struct Turn<'t, W> {
    /// Iterates as often as it likes.
    hand_over: &'t mut dyn FnMut(&mut dyn FnMut()),
    /// Gets what the call after these returns.
    check: &'t mut dyn FnMut(W),
}

impl<W> Turn<'_, W> {
    /// One call of `run` is one iteration. What stands before is not timed; dropping what `run` returns is.
    pub fn iter(&mut self, mut run: impl FnMut() -> W) {
        (self.hand_over)(&mut || drop(black_box(run())));
        // The clock has stopped. So what is timed need not keep anything, and is not dearer for being proved.
        (self.check)(run());
    }
}

impl<'a, W: PartialEq + Debug> Bench<'a, W> {
    /// A bench of this name: lower-case words joined by hyphens, which become the name of its folder.
    pub fn new(name: impl Into<String>) -> Self {
        let next = Settings {
            load: String::new(),
            unit: "iteration".to_owned(),
            units: 1,
            tolerance: tolerance::COMPUTATION,
            threads: false,
        };
        Self { name: name.into(), declared: vec![], next }
    }

    /// Adds a variant of doing the work. The first one with a parameter is what the others with it are compared with.
    pub fn variant(mut self, name: impl Into<String>, function: impl Fn(&mut Turn<'_, W>) + 'a) -> Self {
        let (settings, function) = (self.next.clone(), Box::new(function));
        self.declared.push(Declared { name: name.into(), settings, size: None, function });
        self
    }

    /// The future of the variant that was added last has so many bytes, as `size_of_val(&future)` tells.
    ///
    /// # Panics
    /// Where there is no variant yet.
    pub fn future_bytes(mut self, bytes: usize) -> Self {
        self.declared.last_mut().expect("a variant whose size this is").size = Some(bytes as u64);
        self
    }

    /// One iteration of the variants that follow does `number` units of work, such as requests; times are told by unit.
    ///
    /// # Panics
    /// If that is none.
    pub fn unit(mut self, unit: impl Into<String>, number: u64) -> Self {
        assert!(number > 0, "an iteration does some units of work");
        (self.next.unit, self.next.units) = (unit.into(), number);
        self
    }

    /// The load of the variants that follow, such as `tasks=100`: only variants with the same parameter are compared.
    pub fn load(mut self, parameter: impl Into<String>) -> Self {
        self.next.load = parameter.into();
        self
    }

    /// How small a difference matters for the variants that follow, as a share: [`tolerance::COMPUTATION`] unless you say
    /// otherwise. Choose it before you measure. That of the first variant with a parameter holds for all of them.
    ///
    /// # Panics
    /// If it is not between 0 and 1.
    pub fn tolerance(mut self, share: f64) -> Self {
        assert!(0.0 < share && share < 1.0, "a tolerance is a share between 0 and 1");
        self.next.tolerance = share;
        self
    }

    /// The variants that follow use several threads: trials do not wait for an undisturbed core, and instructions, which callgrind
    /// counts on one thread, are not counted. Less than [`tolerance::THREADS`] does not matter, unless you say so
    /// afterwards. The first variant with a parameter says it for all of them.
    pub fn threads(mut self) -> Self {
        (self.next.threads, self.next.tolerance) = (true, tolerance::THREADS);
        self
    }

    /// All that is measured: the variants that `chosen` accepts, what they are compared with, and each of these a second
    /// time.
    ///
    /// # Errors
    /// Why the bench makes no sense.
    pub(crate) fn variants(&self, chosen: impl Fn(&Key) -> bool) -> Result<Vec<Variant>, String> {
        if !is_study(&self.name) {
            return Err(format!("the bench {:?}: its name is lower-case words joined by hyphens", self.name));
        }
        if let Some(way) = self.declared.iter().find(|way| !is_unit(&way.settings.unit)) {
            return Err(format!("{}: the unit {:?} is not lower-case words", self.name, way.settings.unit));
        }
        let key = |way: &Declared<'_, W>| Key::new(&self.name, &way.name, &way.settings.load);
        let first = |of: usize| {
            self.declared.iter().position(|way| way.settings.load == self.declared[of].settings.load)
        };
        let firsts: Vec<usize> = (0..self.declared.len()).filter_map(first).collect();
        let mut wanted: Vec<bool> = self.declared.iter().map(|way| chosen(&key(way))).collect();
        for (way, first) in firsts.iter().enumerate() {
            wanted[*first] |= wanted[way];
        }
        let mut variants: Vec<Variant> = Vec::new();
        for (way, first) in firsts.iter().enumerate().filter(|(way, _)| wanted[*way]) {
            let baseline = variants.iter().position(|variant| variant.declared == *first);
            variants.push(Variant { key: key(&self.declared[way]), declared: way, baseline, control: false });
        }
        for at in 0..variants.len() {
            let Variant { key, declared, baseline, .. } = variants[at].clone();
            if variants.iter().any(|variant| variant.baseline == Some(at)) && baseline.is_none() {
                variants.push(Variant { key: key.again(), declared, baseline: Some(at), control: true });
            }
        }
        for (at, Variant { key, .. }) in variants.iter().enumerate() {
            key.validate().map_err(|invalid| invalid.to_string())?;
            if variants[..at].iter().any(|variant| variant.key == *key) {
                return Err(format!("{key} was added twice"));
            }
        }
        if firsts.iter().enumerate().all(|(way, first)| way == *first) {
            let which =
                if self.declared.len() < 2 { "add two variants" } else { "add two variants of one load" };
            return Err(format!("{}: nothing to compare: {which}", self.name));
        }
        Ok(variants)
    }

    /// What a variant is compared with, in units of work.
    pub(crate) fn pair(&self, variants: &[Variant], variant: &Variant) -> Option<Pair> {
        let baseline = &variants[variant.baseline?];
        let units = [variant, baseline].map(|variant| self.declared[variant.declared].settings.units as f64);
        Some(Pair { key: variant.key.clone(), baseline: baseline.key.clone(), units })
    }

    /// A variant as what a count calls.
    pub(crate) fn function(&self, way: usize) -> impl Fn(&mut Bencher<'_>) {
        self.checked(way, |_| None)
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

    fn checked(&self, way: usize, check: impl Fn(W) -> Option<String>) -> impl Fn(&mut Bencher<'_>) {
        let function = &self.declared[way].function;
        move |bencher: &mut Bencher<'_>| {
            let mut wrong = None;
            function(&mut Turn {
                hand_over: &mut |run| bencher.iter(run),
                check: &mut |done| wrong = check(done),
            });
            if let Some(wrong) = wrong {
                bencher.fail(wrong);
            }
        }
    }

    /// Proves that all of these do equal work in the first two calls of each.
    ///
    /// # Errors
    /// Which one does not, and what it did instead.
    pub(crate) fn prove(&self, variants: &[Variant]) -> Result<Proved<W>, String> {
        if size_of::<W>() == 0 {
            return Err(format!(
                "{}: the variants return nothing, so it cannot be proved that they do equal work. Let each return what it did: \
                 a sum, a number of items, the items",
                self.name
            ));
        }
        let mut proved: Proved<W> = Vec::new();
        for (at, Variant { key, declared, baseline, .. }) in variants.iter().enumerate() {
            let first = baseline.unwrap_or(at);
            proved.push(None);
            for (before, when) in ["in its first call", "in its second call"].into_iter().enumerate() {
                let done = self.work_of(*declared, before).map_err(|trial_error| match trial_error {
                    TrialError::Failed(why) => format!("{key} failed: {why}"),
                    TrialError::Misused(why) => format!("{key} cannot be measured: {why}"),
                })?;
                match &proved[first] {
                    None => proved[at] = Some(done),
                    Some(expected) => {
                        let wrong = unequal([key, &variants[first].key], when, &done, expected);
                        wrong.map_or(Ok(()), Err)?;
                    }
                }
            }
        }
        Ok(proved)
    }

    /// What a variant returns after so many calls of one set-up.
    fn work_of(&self, way: usize, before: usize) -> Result<W, TrialError> {
        let done = Cell::new(None);
        let function = |bencher: &mut Bencher<'_>| {
            (self.declared[way].function)(&mut Turn {
                hand_over: &mut |run| bencher.iter(run),
                check: &mut |work| done.set(Some(work)),
            });
        };
        bencher::call(&function, &mut |mut workload| {
            workload.single(|run| (0..before).for_each(|_| run()));
        })?;
        Ok(done.into_inner().expect("it called iter"))
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
    let [done, expected] = shown([format!("{done:?}"), format!("{expected:?}")]);
    Some(format!(
        "{key} does other work {when} than {other} in its first call; either may be the wrong one:\n  {key}{done}\n  {other}{expected}"
    ))
}

/// Longer works are shown where they begin to differ.
const LONGEST: usize = 100;
/// So much before that is shown.
const BEFORE: usize = 30;

/// Two works, at most a line of each, with the place where they begin to differ.
fn shown(works: [String; 2]) -> [String; 2] {
    if works.iter().all(|work| work.chars().count() <= LONGEST) {
        return works.map(|work| format!(" did {work}"));
    }
    let [one, other] = &works;
    let alike = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    works.map(|work| {
        let length = work.chars().count();
        let from = alike.saturating_sub(BEFORE);
        let part: String = work.chars().skip(from).take(LONGEST).collect();
        let [before, after] = [from > 0, from + LONGEST < length].map(|cut| if cut { "…" } else { "" });
        format!(
            " did, from character {} of {}: {before}{part}{after}",
            grouped(alike as u64 + 1),
            grouped(length as u64)
        )
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use by_turns_core::trial::sampling::Trial;

    fn bench<'a>(declared: &[(&str, u64)]) -> Bench<'a, u64> {
        declared.iter().fold(Bench::new("b"), |bench, (name, work)| {
            let work = *work;
            bench.variant(*name, move |turn| turn.iter(|| work))
        })
    }

    fn names(variants: &[Variant]) -> Vec<String> {
        variants.iter().map(|variant| variant.key.to_string()).collect()
    }

    #[test]
    fn each_way_is_compared_with_the_first_of_its_parameter_and_that_with_itself() {
        let bench = bench(&[("a", 1), ("b", 1)]).load("n=2").variant("c", |turn| turn.iter(|| 2));
        let bench = bench.variant("d", |turn| turn.iter(|| 2));
        let variants = bench.variants(|_| true).expect("sound");
        assert_eq!(names(&variants), ["b/a", "b/b", "b/c@n=2", "b/d@n=2", "b/a (A/A)", "b/c (A/A)@n=2"]);
        let baselines: Vec<Option<usize>> = variants.iter().map(|variant| variant.baseline).collect();
        assert_eq!(baselines, [None, Some(0), None, Some(2), Some(0), Some(2)]);
        bench.prove(&variants).expect("equal work, for each parameter");
        let some = bench.variants(|key| key.variant == "d").expect("sound");
        assert_eq!(names(&some), ["b/c@n=2", "b/d@n=2", "b/c (A/A)@n=2"]);
        let alone = bench.variants(|key| key.variant == "c").expect("its equal work can be proved");
        assert_eq!(names(&alone), ["b/c@n=2"]);
        bench.prove(&alone).expect("equal in its first two calls");
    }

    #[test]
    fn names_and_loads_may_be_computed() {
        let bench = [1_u64, 2].into_iter().fold(Bench::new(String::from("b")), |bench, n| {
            let bench = bench.unit(String::from("item"), n).load(format!("n={n}"));
            bench
                .variant("a", move |turn| turn.iter(|| n))
                .variant(format!("plus{n}"), move |turn| turn.iter(|| n))
        });
        let variants = bench.variants(|key| key.parameter == "n=2").expect("sound");
        assert_eq!(names(&variants), ["b/a@n=2", "b/plus2@n=2", "b/a (A/A)@n=2"]);
    }

    #[test]
    fn unequal_work_is_refused() {
        let refusal =
            |bench: Bench<'_, u64>| bench.prove(&bench.variants(|_| true).expect("sound")).unwrap_err();
        let wrong = refusal(bench(&[("a", 1), ("b", 2)]));
        let lines = [
            "b/b does other work in its first call than b/a in its first call; either may be the wrong one:",
            "  b/b did 2",
            "  b/a did 1",
        ];
        assert_eq!(wrong, lines.join("\n"));
        let calls = std::cell::Cell::new(0);
        let wears_out = bench(&[]).variant("a", |turn| turn.iter(|| calls.replace(calls.get() + 1)));
        let wrong = refusal(wears_out.variant("b", |turn| turn.iter(|| 0)));
        assert!(wrong.starts_with("b/a does other work in its second call than b/a in its first"), "{wrong}");
        let panics = bench(&[("a", 1)]).variant("b", |turn| turn.iter(|| panic!("lost a wake")));
        assert_eq!(refusal(panics), "b/b failed: lost a wake");
        assert!(refusal(bench(&[("a", 1)]).variant("b", |_| ())).contains("never called iter"));
        let nothing =
            Bench::new("b").variant("a", |turn| turn.iter(|| ())).variant("b", |turn| turn.iter(|| ()));
        let variants = nothing.variants(|_| true).expect("sound");
        assert!(nothing.prove(&variants).unwrap_err().contains("return nothing"));
    }

    #[test]
    fn a_way_that_does_other_work_after_a_while_fails_in_the_trial() {
        let trial = Trial {
            warm_up: Duration::from_micros(100),
            time: Duration::from_micros(300),
            samples: 2,
            resources: false,
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
            let proved = wears_out.prove(&variants).expect("equal in the first two calls");
            let [a, b] = [0, 1].map(|at| trial.run(&wears_out.proved(&variants, at, &proved)));
            assert!(a.is_ok());
            match b {
                Ok(_) => assert_eq!(sound, u64::MAX),
                Err(TrialError::Failed(why)) => {
                    assert!(why.starts_with("b/b does other work after its samples than b/a"), "{why}")
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn long_works_are_shown_where_they_begin_to_differ() {
        let items: Vec<u64> = (0..1000).collect();
        let other: Vec<u64> = (0..999).chain([7]).collect();
        let [one, other] = shown([format!("{items:?}"), format!("{other:?}")]);
        assert_eq!(one, " did, from character 4,887 of 4,890: …993, 994, 995, 996, 997, 998, 999]");
        assert_eq!(other, " did, from character 4,887 of 4,888: …993, 994, 995, 996, 997, 998, 7]");
        let [short, long] = shown(["[0]".to_owned(), format!("{items:?}")]);
        assert_eq!(short, " did, from character 3 of 3: [0]");
        assert!(long.contains(": [0, 1, 2, ") && long.ends_with('…'));
    }

    #[test]
    fn a_bench_that_compares_nothing_is_refused() {
        let refusal = |bench: Bench<'_, u64>| bench.variants(|_| true).err().expect("refused");
        assert!(refusal(bench(&[("a", 1)])).contains("two variants"));
        assert!(refusal(bench(&[("a", 1), ("a", 1)])).contains("twice"));
        assert!(refusal(bench(&[("a", 1), ("b\n", 1)])).contains("cannot be used"));
        assert!(refusal(Bench::new("A b")).contains("lower-case"));
        let loads = bench(&[("a", 1)]).load("n=2").variant("b", |turn| turn.iter(|| 1));
        assert!(refusal(loads).contains("of one load"));
        let odd = Bench::new("b")
            .unit("µs", 1)
            .variant("a", |turn| turn.iter(|| 1))
            .variant("b", |turn| turn.iter(|| 1));
        assert!(refusal(odd).contains("unit"));
    }
}
