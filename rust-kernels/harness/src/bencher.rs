//! What a study function gets: the place where its set-up ends and its timed region begins.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{self, Trial};
use crate::{counting, panics};

/// One raw observation: so many iterations took so long.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sample {
    /// Iterations, jobs or bursts done; at least 1.
    pub iterations: u64,
    /// Time that all of them took together.
    pub elapsed: Duration,
    /// What else was observed, by name; empty in most studies.
    pub(crate) metrics: Vec<(Cow<'static, str>, u64)>,
}

impl Sample {
    /// `iterations` (at least 1) that took `elapsed` together.
    pub fn new(iterations: u64, elapsed: Duration) -> Self {
        Self { iterations, elapsed, metrics: Vec::new() }
    }

    /// Adds another observation of the same sample. Its name is lower-case words joined by `_`, the last of them the
    /// unit where there is one, as in `p99_ns`. A second value of the same name replaces the first. Every sample of a
    /// variant has the same metrics, in every round.
    #[must_use]
    pub fn with(mut self, metric: impl Into<Cow<'static, str>>, value: u64) -> Self {
        let metric = metric.into();
        self.metrics.retain(|(name, _)| *name != metric);
        counting::uncounted(|| self.metrics.push((metric, value)));
        self
    }

    /// Names of the metrics, in the order in which they were added.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.metrics.iter().map(|(name, _)| name.as_ref())
    }
}

/// Calls back into a study function's workload. A study function sets up what it needs, on its own stack if
/// it likes, and then calls exactly one of [`iter`](Self::iter), [`iter_custom`](Self::iter_custom) and
/// [`samples`](Self::samples) once, or gives up with [`fail`](Self::fail).
///
/// The measuring happens inside that call, so borrowed structures work as they do in any function:
/// ```
/// # use harness::{Bencher, Key, Study};
/// let study = Study::new("sums").bench(Key::new("sum", "slice", "items=3"), |bencher: &mut Bencher| {
///     let items = [1_u64, 2, 3]; // set-up: anew for each trial, not timed
///     bencher.iter(&mut || {
///         std::hint::black_box(items.iter().sum::<u64>());
///     });
/// });
/// # study.run_once(&study.keys()[0]).unwrap();
/// ```
pub struct Bencher {
    mode: Mode,
    calls: u32,
    samples: Vec<Sample>,
    failure: Option<String>,
}

/// What is done with the workload.
#[derive(Clone)]
pub(crate) enum Mode {
    /// Timed.
    Trial(Rc<Trial>),
    /// Run for one iteration, untimed.
    Once,
    /// Run for one iteration to warm up, then `times` times for one inside `around`.
    Counted { around: fn(&mut dyn FnMut()), times: u32 },
}

/// Calls `run` once to warm up and then `times` times inside `around`.
fn counted(around: fn(&mut dyn FnMut()), times: u32, run: &mut dyn FnMut()) {
    run();
    for _ in 0..times {
        around(run);
    }
}

/// Why a study function gave no samples.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Trouble {
    /// The workload panicked, called [`Bencher::fail`] or delivered an impossible sample.
    Failed(String),
    /// The study function did not call the bencher exactly once.
    Misused(String),
}

impl Bencher {
    /// Measures `run`, one call of which is one iteration.
    ///
    /// The timed loop is `for _ in 0..iterations { run() }`: one indirect call per iteration is part of every
    /// variant's time.
    pub fn iter(&mut self, run: &mut dyn FnMut()) {
        if !self.enter() {
            return;
        }
        match &self.mode {
            Mode::Trial(trial) => {
                self.samples = trial.repeated(&mut |iterations| engine::timed(run, iterations))
            }
            Mode::Once => run(),
            Mode::Counted { around, times } => counted(*around, *times, run),
        }
    }

    /// Measures a workload that times itself: `run(n)` does `n` iterations and returns the time they took.
    ///
    /// For counting, `run(1)` is called once to warm up and then counted, whatever of it is timed.
    pub fn iter_custom(&mut self, run: &mut dyn FnMut(u64) -> Duration) {
        if !self.enter() {
            return;
        }
        match &self.mode {
            Mode::Trial(trial) => self.samples = trial.repeated(run),
            Mode::Once => {
                run(1);
            }
            Mode::Counted { around, times } => counted(*around, *times, &mut || {
                let _ = run(1);
            }),
        }
    }

    /// Measures a workload of fixed size that cannot be repeated for any number of iterations: a throughput
    /// run (`iterations` = jobs done) or one burst (`iterations` = 1). `run` is called once to warm up and
    /// then once for each sample, whatever the profile's times say: keep one call short, or ask for fewer samples.
    pub fn samples(&mut self, run: &mut dyn FnMut() -> Sample) {
        if !self.enter() {
            return;
        }
        match &self.mode {
            Mode::Trial(trial) => self.samples = trial.fixed(run),
            Mode::Once => {
                run();
            }
            Mode::Counted { around, times } => counted(*around, *times, &mut || drop(run())),
        }
    }

    /// Gives this variant up with a message, for example because the machine lacks what it needs. The variant
    /// is listed as failed and left out of all further rounds; the run goes on.
    pub fn fail(&mut self, message: impl Into<String>) {
        self.failure.get_or_insert(message.into());
    }

    /// Counts a call; only the first one is carried out.
    fn enter(&mut self) -> bool {
        self.calls += 1;
        self.calls == 1 && self.failure.is_none()
    }
}

/// Calls a study function once, with its panics caught and kept off the terminal.
pub(crate) fn call(function: &dyn Fn(&mut Bencher), mode: Mode) -> Result<Vec<Sample>, Trouble> {
    let mut bencher = Bencher { mode, calls: 0, samples: Vec::new(), failure: None };
    // The study function's own state may be left broken by a panic, but it is never called again.
    let outcome = {
        let _quiet = panics::Quiet::new();
        catch_unwind(AssertUnwindSafe(|| function(&mut bencher)))
    };
    if let Err(payload) = outcome {
        return Err(Trouble::Failed(panics::message(payload.as_ref())));
    }
    if let Some(message) = bencher.failure {
        return Err(Trouble::Failed(message));
    }
    match bencher.calls {
        0 => Err(Trouble::Misused("it never called iter, iter_custom or samples".to_owned())),
        1 => check(bencher.samples, &bencher.mode),
        _ => Err(Trouble::Misused("it called iter, iter_custom or samples more than once".to_owned())),
    }
}

/// Refuses samples that no ratio can be taken of, and metrics that do not make a table.
fn check(samples: Vec<Sample>, mode: &Mode) -> Result<Vec<Sample>, Trouble> {
    let fail = |message: &str| Err(Trouble::Failed(message.to_owned()));
    let Mode::Trial(trial) = mode else {
        return Ok(samples);
    };
    if samples.len() != trial.samples {
        return fail("the trial did not deliver all its samples");
    }
    for sample in &samples {
        if sample.iterations == 0 || sample.elapsed.is_zero() {
            return fail("a sample has no iterations or took no time");
        }
        if let Some(name) = sample.names().find(|name| !is_metric(name)) {
            let rule = "the name of a metric is lower-case words joined by _";
            return Err(Trouble::Misused(format!("it delivered the metric {name:?}; {rule}")));
        }
        if !sample.names().eq(samples[0].names()) {
            return fail("the samples of a trial do not have the same metrics");
        }
    }
    Ok(samples)
}

fn is_metric(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    name.len() <= 200 && name.split('_').all(|word| !word.is_empty() && word.chars().all(plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Engine;

    fn once(function: impl Fn(&mut Bencher)) -> Result<Vec<Sample>, Trouble> {
        call(&function, Mode::Once)
    }

    #[test]
    fn a_function_that_measures_nothing_is_misuse() {
        assert!(matches!(once(|_| ()), Err(Trouble::Misused(_))));
    }

    #[test]
    fn a_second_call_is_misuse_and_not_carried_out() {
        let runs = std::cell::Cell::new(0);
        let count = || runs.set(runs.get() + 1);
        let outcome = once(|bencher| {
            bencher.iter(&mut || count());
            bencher.iter(&mut || count());
        });
        assert!(matches!(outcome, Err(Trouble::Misused(_))));
        assert_eq!(runs.get(), 1);
    }

    #[test]
    fn a_panic_and_a_given_up_variant_are_failures_with_their_message() {
        let panicked = once(|bencher| bencher.iter(&mut || panic!("lost a wake of task {}", 3)));
        assert_eq!(panicked, Err(Trouble::Failed("lost a wake of task 3".to_owned())));
        let gave_up = once(|bencher| bencher.fail("needs four cores"));
        assert_eq!(gave_up, Err(Trouble::Failed("needs four cores".to_owned())));
    }

    #[test]
    fn counting_warms_up_once_and_then_counts_single_iterations_of_each_kind() {
        use std::sync::atomic::{AtomicU32, Ordering};
        static INSIDE: AtomicU32 = AtomicU32::new(0);
        fn around(run: &mut dyn FnMut()) {
            INSIDE.fetch_add(1, Ordering::Relaxed);
            run();
        }
        let runs = std::cell::Cell::new(0);
        let count = || runs.set(runs.get() + 1);
        let sample = Sample::new(5, Duration::from_nanos(1));
        let kinds: [&dyn Fn(&mut Bencher); 3] = [
            &|bencher| bencher.iter(&mut || count()),
            &|bencher| {
                bencher.iter_custom(&mut |iterations| {
                    assert_eq!(iterations, 1);
                    count();
                    Duration::ZERO
                })
            },
            &|bencher| {
                bencher.samples(&mut || {
                    count();
                    sample.clone()
                })
            },
        ];
        for kind in kinds {
            call(kind, Mode::Counted { around, times: 2 }).expect("a countable variant");
        }
        assert_eq!((runs.get(), INSIDE.load(Ordering::Relaxed)), (9, 6));
    }

    fn trial(run: impl Fn() -> Sample) -> Result<Vec<Sample>, Trouble> {
        let engine = Engine::new(Duration::from_micros(10), Duration::from_micros(10));
        let trial = Trial { engine: Rc::new(engine), samples: 3, resources: false };
        call(&|bencher: &mut Bencher| bencher.samples(&mut || run()), Mode::Trial(Rc::new(trial)))
    }

    #[test]
    fn samples_without_time_are_a_failure() {
        assert!(matches!(trial(|| Sample::new(1, Duration::ZERO)), Err(Trouble::Failed(_))));
    }

    #[test]
    fn metrics_are_the_same_in_all_samples_and_have_plain_names() {
        let calls = std::cell::Cell::new(0_u64);
        let sample = || Sample::new(1, Duration::from_nanos(1));
        let next = || calls.replace(calls.get() + 1);
        let good = trial(|| sample().with("p50_ns", 1).with("p99_ns", next()).with("p50_ns", 2));
        let last = good.expect("three samples").pop().expect("a last one");
        // The first of the four calls was the warm-up.
        assert_eq!(last.metrics, [("p99_ns".into(), 3), ("p50_ns".into(), 2)]);
        let odd = trial(|| if next() % 2 == 0 { sample() } else { sample().with("p50_ns", 1) });
        assert!(matches!(odd, Err(Trouble::Failed(_))));
        for name in ["", "P99", "a b", "a\n", "_a"] {
            assert!(matches!(trial(|| sample().with(name, 1)), Err(Trouble::Misused(_))), "{name:?}");
        }
    }
}
