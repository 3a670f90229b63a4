//! A bench: ways of doing the same work.

use std::cell::RefCell;
use std::fmt::Debug;
use std::hint::black_box;

use crate::base::key::{Key, is_study, is_unit};
use crate::base::limit;
use crate::judge::pairs::Pair;
use crate::trial::bencher::{self, Bencher, Trouble};

/// Ways of doing the same work, which are compared with the first of them.
///
/// `W` is what an iteration returns: what it did, such as a sum, a number of items, or all the items. It must be the same
/// for all ways, in every call, before any of them is measured; so it is proved that they do equal work, by the code that
/// is timed.
///
/// ```no_run
/// # use by_turns::Bench;
/// by_turns::count_allocations!();
///
/// fn main() {
///     let items: Vec<u64> = (0..1000).collect();
///     Bench::new("sum")
///         .unit("item", 1000)
///         .way("index", |turn| turn.iter(|| (0..items.len()).map(|at| items[at]).sum::<u64>()))
///         .way("iterator", |turn| turn.iter(|| items.iter().sum()))
///         .main();
/// }
/// ```
#[must_use = "a bench does nothing before main()"]
pub struct Bench<'a, W> {
    pub(crate) name: String,
    pub(crate) ways: Vec<Way<'a, W>>,
    next: Settings,
}

/// What is set for the ways that follow.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) parameter: String,
    pub(crate) unit: String,
    /// How many of them an iteration does.
    pub(crate) units: u64,
    pub(crate) limit: f64,
    pub(crate) threads: bool,
}

type Function<'a, W> = dyn Fn(&mut Turn<'_, W>) + 'a;

pub(crate) struct Way<'a, W> {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    /// Bytes of its future.
    pub(crate) size: Option<u64>,
    function: Box<Function<'a, W>>,
}

/// Something that is measured: a way, or one of them a second time.
#[derive(Clone)]
pub(crate) struct Variant {
    pub(crate) key: Key,
    /// Its number among the ways.
    pub(crate) way: usize,
    /// The number of the variant that it is compared with.
    pub(crate) baseline: Option<usize>,
    pub(crate) control: bool,
}

/// The turn of a way: set up what it needs, then call [`iter`](Self::iter) once.
pub struct Turn<'t, W> {
    hand_over: &'t mut dyn FnMut(&mut dyn FnMut()),
    /// Where to put what was done, while equal work is proved.
    seen: Option<&'t RefCell<Vec<W>>>,
}

impl<W> Turn<'_, W> {
    /// One call of `run` is one iteration. What stands before is not timed; dropping what `run` returns is.
    pub fn iter(&mut self, mut run: impl FnMut() -> W) {
        match self.seen {
            Some(seen) => (self.hand_over)(&mut || seen.borrow_mut().push(run())),
            None => (self.hand_over)(&mut || drop(black_box(run()))),
        }
    }
}

impl<'a, W: PartialEq + Debug> Bench<'a, W> {
    /// A bench of this name: lower-case words joined by hyphens, which become the name of its folder.
    pub fn new(name: &str) -> Self {
        let next = Settings {
            parameter: String::new(),
            unit: "iteration".to_owned(),
            units: 1,
            limit: limit::COMPUTATION,
            threads: false,
        };
        Self { name: name.to_owned(), ways: vec![], next }
    }

    /// Adds a way of doing the work. The first one with a parameter is what the others with it are compared with.
    pub fn way(mut self, name: &str, function: impl Fn(&mut Turn<'_, W>) + 'a) -> Self {
        let (settings, function) = (self.next.clone(), Box::new(function));
        self.ways.push(Way { name: name.to_owned(), settings, size: None, function });
        self
    }

    /// The future of the way that was added last has so many bytes, as `size_of_val(&future)` tells.
    ///
    /// # Panics
    /// Where there is no way yet.
    pub fn size(mut self, bytes: usize) -> Self {
        self.ways.last_mut().expect("a way whose size this is").size = Some(bytes as u64);
        self
    }

    /// One iteration of the ways that follow does `number` units of work, such as requests; times are told by unit.
    ///
    /// # Panics
    /// If that is none.
    pub fn unit(mut self, unit: &str, number: u64) -> Self {
        assert!(number > 0, "an iteration does some units of work");
        (self.next.unit, self.next.units) = (unit.to_owned(), number);
        self
    }

    /// The load of the ways that follow, such as `tasks=100`: only ways with the same parameter are compared.
    pub fn parameter(mut self, parameter: &str) -> Self {
        parameter.clone_into(&mut self.next.parameter);
        self
    }

    /// How small a difference matters for the ways that follow, as a share: [`limit::COMPUTATION`] unless you say
    /// otherwise. Choose it before you measure. That of the first way with a parameter holds for all of them.
    ///
    /// # Panics
    /// If it is not between 0 and 1.
    pub fn limit(mut self, share: f64) -> Self {
        assert!(0.0 < share && share < 1.0, "a limit is a share between 0 and 1");
        self.next.limit = share;
        self
    }

    /// The ways that follow use several threads: nobody waits for one quiet core, and instructions, which callgrind
    /// counts on one thread, are not counted. Less than [`limit::THREADS`] does not matter, unless you say so
    /// afterwards. The first way with a parameter says it for all of them.
    pub fn threads(mut self) -> Self {
        (self.next.threads, self.next.limit) = (true, limit::THREADS);
        self
    }

    /// All that is measured: the ways that `chosen` accepts, what they are compared with, and each of these a second
    /// time.
    ///
    /// # Errors
    /// Why the bench makes no sense.
    pub(crate) fn variants(&self, chosen: impl Fn(&Key) -> bool) -> Result<Vec<Variant>, String> {
        if !is_study(&self.name) {
            return Err(format!("the bench {:?}: its name is lower-case words joined by hyphens", self.name));
        }
        if let Some(way) = self.ways.iter().find(|way| !is_unit(&way.settings.unit)) {
            return Err(format!("{}: the unit {:?} is not lower-case words", self.name, way.settings.unit));
        }
        let key = |way: &Way<'_, W>| Key::new(&self.name, &way.name, &way.settings.parameter);
        let first = |of: usize| {
            self.ways.iter().position(|way| way.settings.parameter == self.ways[of].settings.parameter)
        };
        let firsts: Vec<usize> = (0..self.ways.len()).filter_map(first).collect();
        let mut wanted: Vec<bool> = self.ways.iter().map(|way| chosen(&key(way))).collect();
        for (way, first) in firsts.iter().enumerate() {
            wanted[*first] |= wanted[way];
        }
        let mut variants: Vec<Variant> = Vec::new();
        for (way, first) in firsts.iter().enumerate().filter(|(way, _)| wanted[*way]) {
            let baseline = variants.iter().position(|variant| variant.way == *first);
            variants.push(Variant { key: key(&self.ways[way]), way, baseline, control: false });
        }
        for at in 0..variants.len() {
            let Variant { key, way, baseline, .. } = variants[at].clone();
            if variants.iter().any(|variant| variant.baseline == Some(at)) && baseline.is_none() {
                variants.push(Variant { key: key.again(), way, baseline: Some(at), control: true });
            }
        }
        for (at, Variant { key, .. }) in variants.iter().enumerate() {
            key.validate().map_err(|invalid| invalid.to_string())?;
            if variants[..at].iter().any(|variant| variant.key == *key) {
                return Err(format!("{key} was added twice"));
            }
        }
        if !variants.iter().any(|variant| variant.baseline.is_some()) {
            let which =
                if self.ways.len() < 2 { "add two ways of doing the work" } else { "no name holds that" };
            return Err(format!("{}: nothing to compare: {which}", self.name));
        }
        Ok(variants)
    }

    /// What a variant is compared with, in units of work.
    pub(crate) fn pair(&self, variants: &[Variant], variant: &Variant) -> Option<Pair> {
        let baseline = &variants[variant.baseline?];
        let units = [variant, baseline].map(|variant| self.ways[variant.way].settings.units as f64);
        Some(Pair { key: variant.key.clone(), baseline: baseline.key.clone(), units })
    }

    /// A way as what a trial or a count calls.
    pub(crate) fn function(&self, way: usize) -> impl Fn(&mut Bencher<'_>) {
        let function = &self.ways[way].function;
        move |bencher: &mut Bencher<'_>| {
            function(&mut Turn { hand_over: &mut |run| bencher.iter(run), seen: None });
        }
    }

    /// Proves that all of these do equal work, by two calls of each.
    ///
    /// # Errors
    /// Which one does not, and what it did instead.
    pub(crate) fn prove(&self, variants: &[Variant]) -> Result<(), String> {
        if size_of::<W>() == 0 {
            return Err(format!(
                "{}: the ways return nothing, so it cannot be proved that they do equal work. Let each return what it did: \
                 a sum, a number of items, the items",
                self.name
            ));
        }
        let mut done: Vec<Vec<W>> = Vec::new();
        for Variant { key, way, baseline, .. } in variants {
            let seen = self.work_of(*way).map_err(|trouble| match trouble {
                Trouble::Failed(why) => format!("{key} failed: {why}"),
                Trouble::Misused(why) => format!("{key} cannot be measured: {why}"),
            })?;
            let expected = &baseline.map_or(&seen, |baseline| &done[baseline])[0];
            if let Some(other) = seen.iter().find(|other| *other != expected) {
                return Err(format!(
                    "{key} does other work than it should: it did {}, expected was {}",
                    shown(other),
                    shown(expected)
                ));
            }
            done.push(seen);
        }
        Ok(())
    }

    fn work_of(&self, way: usize) -> Result<Vec<W>, Trouble> {
        let seen = RefCell::new(Vec::new());
        let function = |bencher: &mut Bencher<'_>| {
            (self.ways[way].function)(&mut Turn {
                hand_over: &mut |run| bencher.iter(run),
                seen: Some(&seen),
            });
        };
        let twice =
            &mut |mut workload: bencher::Workload<'_>| workload.single(|run| (0..2).for_each(|_| run()));
        bencher::call(&function, twice)?;
        Ok(seen.into_inner())
    }
}

/// At most a line of it.
fn shown(work: &impl Debug) -> String {
    let text = format!("{work:?}");
    if text.chars().count() <= 100 { text } else { text.chars().take(99).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bench<'a>(ways: &[(&str, u64)]) -> Bench<'a, u64> {
        ways.iter().fold(Bench::new("b"), |bench, (name, work)| {
            let work = *work;
            bench.way(name, move |turn| turn.iter(|| work))
        })
    }

    fn names(variants: &[Variant]) -> Vec<String> {
        variants.iter().map(|variant| variant.key.to_string()).collect()
    }

    #[test]
    fn each_way_is_compared_with_the_first_of_its_parameter_and_that_with_itself() {
        let bench = bench(&[("a", 1), ("b", 1)]).parameter("n=2").way("c", |turn| turn.iter(|| 2));
        let bench = bench.way("d", |turn| turn.iter(|| 2));
        let variants = bench.variants(|_| true).expect("sound");
        assert_eq!(names(&variants), ["b/a", "b/b", "b/c@n=2", "b/d@n=2", "b/a (A/A)", "b/c (A/A)@n=2"]);
        let baselines: Vec<Option<usize>> = variants.iter().map(|variant| variant.baseline).collect();
        assert_eq!(baselines, [None, Some(0), None, Some(2), Some(0), Some(2)]);
        bench.prove(&variants).expect("equal work, for each parameter");
        let some = bench.variants(|key| key.variant == "d").expect("sound");
        assert_eq!(names(&some), ["b/c@n=2", "b/d@n=2", "b/c (A/A)@n=2"]);
    }

    #[test]
    fn unequal_work_is_refused() {
        let refusal =
            |bench: Bench<'_, u64>| bench.prove(&bench.variants(|_| true).expect("sound")).unwrap_err();
        let wrong = refusal(bench(&[("a", 1), ("b", 2)]));
        assert_eq!(wrong, "b/b does other work than it should: it did 2, expected was 1");
        let calls = std::cell::Cell::new(0);
        let wears_out = bench(&[]).way("a", |turn| turn.iter(|| calls.replace(calls.get() + 1)));
        assert!(refusal(wears_out.way("b", |turn| turn.iter(|| 0))).starts_with("b/a does other work"));
        let panics = bench(&[("a", 1)]).way("b", |turn| turn.iter(|| panic!("lost a wake")));
        assert_eq!(refusal(panics), "b/b failed: lost a wake");
        assert!(refusal(bench(&[("a", 1)]).way("b", |_| ())).contains("never called iter"));
        let nothing = Bench::new("b").way("a", |turn| turn.iter(|| ())).way("b", |turn| turn.iter(|| ()));
        let variants = nothing.variants(|_| true).expect("sound");
        assert!(nothing.prove(&variants).unwrap_err().contains("return nothing"));
    }

    #[test]
    fn a_bench_that_compares_nothing_is_refused() {
        let refusal = |bench: Bench<'_, u64>| bench.variants(|_| true).err().expect("refused");
        assert!(refusal(bench(&[("a", 1)])).contains("two ways"));
        assert!(refusal(bench(&[("a", 1), ("a", 1)])).contains("twice"));
        assert!(refusal(bench(&[("a", 1), ("b\n", 1)])).contains("cannot be used"));
        assert!(refusal(Bench::new("A b")).contains("lower-case"));
        assert!(bench(&[("a", 1), ("b", 1)]).variants(|_| false).is_err());
        let odd =
            Bench::new("b").unit("µs", 1).way("a", |turn| turn.iter(|| 1)).way("b", |turn| turn.iter(|| 1));
        assert!(refusal(odd).contains("unit"));
    }
}
