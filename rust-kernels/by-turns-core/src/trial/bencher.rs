//! What a study function gets: the place where its set-up ends and its timed region begins.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::base::panics;
use crate::base::sample::Sample;

/// Calls back into a study function's workload. A study function sets up what it needs, on its own stack if
/// it likes, and then calls exactly one of [`iter`](Self::iter), [`iter_custom`](Self::iter_custom) and
/// [`samples`](Self::samples) once, or gives up with [`fail`](Self::fail).
///
/// The measuring happens inside that call, so borrowed structures work as they do in any function:
/// ```
/// # use by_turns_core::{Bencher, Glance};
/// let glance = Glance::at("sum").look("slice", |bencher: &mut Bencher| {
///     let items = [1_u64, 2, 3]; // set-up: anew for each trial, not timed
///     bencher.iter(&mut || {
///         std::hint::black_box(items.iter().sum::<u64>());
///     });
/// });
/// ```
pub struct Bencher<'a> {
    user: &'a mut dyn FnMut(Workload<'_>),
    calls: u32,
    failure: Option<String>,
}

/// Sets a variant up and hands its workload to the bencher.
pub type Function<'a> = dyn Fn(&mut Bencher<'_>) + 'a;

/// What a study function has handed over.
pub enum Workload<'a> {
    /// One call is one iteration.
    Repeated(&'a mut dyn FnMut()),
    /// Does so many iterations and says how long they took.
    Clocked(&'a mut dyn FnMut(u64) -> Duration),
    /// One call is a sample.
    Fixed(&'a mut dyn FnMut() -> Sample),
    /// Iterations for which something is prepared outside of the time.
    Prepared(&'a mut dyn Prepared),
    /// Does so many iterations, or none, and says how long they took. What one costs is the difference to none.
    Driven(&'a mut dyn FnMut(u64) -> Duration),
}

/// Iterations for which something is prepared that is neither timed nor counted.
pub trait Prepared {
    /// Drops what earlier iterations have left, and prepares for so many.
    fn prepare(&mut self, iterations: u64);
    /// Does one of them.
    fn run(&mut self);
}

/// What counts an iteration.
#[derive(Clone, Copy)]
pub struct Around {
    /// Counts what it calls.
    pub iteration: fn(&mut dyn FnMut()),
    /// Counts what surrounds the next iteration, to be taken off its count: what drives a future.
    pub nothing: fn(&mut dyn FnMut()),
}

impl Workload<'_> {
    /// What it is called by.
    pub fn kind(&self) -> &'static str {
        match self {
            Workload::Repeated(_) => "iter",
            Workload::Clocked(_) => "iter_custom",
            Workload::Fixed(_) => "samples",
            Workload::Prepared(_) => "iter_with",
            Workload::Driven(_) => "block_on",
        }
    }

    /// Hands out the least that can be done, one iteration or one sample, untimed.
    pub fn single(&mut self, user: impl FnOnce(&mut dyn FnMut())) {
        match self {
            // As it is: a reference to it would be one more indirect call.
            Workload::Repeated(run) => user(*run),
            Workload::Clocked(run) | Workload::Driven(run) => user(&mut || _ = run(1)),
            Workload::Fixed(run) => user(&mut || drop(run())),
            Workload::Prepared(prepared) => user(&mut || {
                prepared.prepare(1);
                prepared.run();
            }),
        }
    }

    /// Does it once to warm up, and then so many times inside `around`.
    pub fn counted(&mut self, around: Around, times: u32) {
        self.single(|run| run());
        for _ in 0..times {
            match self {
                Workload::Prepared(prepared) => {
                    prepared.prepare(1);
                    (around.iteration)(&mut || prepared.run());
                }
                Workload::Driven(run) => {
                    (around.nothing)(&mut || _ = run(0));
                    (around.iteration)(&mut || _ = run(1));
                }
                _ => self.single(around.iteration),
            }
        }
    }
}

/// Why a study function gave no samples.
#[derive(Debug, PartialEq, Eq)]
#[cfg_attr(feature = "studies", derive(serde::Serialize, serde::Deserialize))]
pub enum TrialError {
    /// The workload panicked, called [`Bencher::fail`] or delivered an impossible sample.
    Failed(String),
    /// The study function did not call the bencher exactly once.
    Misused(String),
}

impl Bencher<'_> {
    /// Measures `run`, one call of which is one iteration.
    ///
    /// The timed loop is `for _ in 0..iterations { run() }`: one indirect call per iteration is part of every
    /// variant's time.
    pub fn iter(&mut self, run: &mut dyn FnMut()) {
        self.hand_over(Workload::Repeated(run));
    }

    /// Measures a workload that times itself: `run(n)` does `n` iterations and returns the time they took.
    ///
    /// For counting, `run(1)` is called once to warm up and then counted, whatever of it is timed.
    pub fn iter_custom(&mut self, run: &mut dyn FnMut(u64) -> Duration) {
        self.hand_over(Workload::Clocked(run));
    }

    /// Measures a workload of fixed size that cannot be repeated for any number of iterations: a throughput
    /// run (`iterations` = jobs done) or one burst (`iterations` = 1). `run` is called once to warm up and
    /// then once for each sample, whatever the profile's times say: keep one call short, or ask for fewer samples.
    pub fn samples(&mut self, run: &mut dyn FnMut() -> Sample) {
        self.hand_over(Workload::Fixed(run));
    }

    /// Gives this variant up with a message, for example because the machine lacks what it needs. The variant
    /// is listed as failed and left out of all further rounds; the run goes on.
    pub fn fail(&mut self, message: impl Into<String>) {
        self.failure.get_or_insert(message.into());
    }

    /// Measures any workload. Only the first call is carried out.
    pub fn hand_over(&mut self, workload: Workload<'_>) {
        self.calls += 1;
        if self.calls == 1 && self.failure.is_none() {
            (self.user)(workload);
        }
    }
}

/// Calls a study function once, with its panics caught and kept off the terminal, and hands its workload to `user`.
pub fn call(function: &Function<'_>, user: &mut dyn FnMut(Workload<'_>)) -> Result<(), TrialError> {
    let mut bencher = Bencher { user, calls: 0, failure: None };
    // The study function's own state may be left broken by a panic, but it is never called again.
    let outcome = {
        let _silenced = panics::SilencedPanics::begin();
        catch_unwind(AssertUnwindSafe(|| function(&mut bencher)))
    };
    if let Err(payload) = outcome {
        return Err(TrialError::Failed(panics::message(payload.as_ref())));
    }
    if let Some(message) = bencher.failure {
        return Err(TrialError::Failed(message));
    }
    match bencher.calls {
        0 => Err(TrialError::Misused(
            "it never measured anything: call one of the measuring methods exactly once".to_owned(),
        )),
        1 => Ok(()),
        _ => Err(TrialError::Misused(
            "it measured more than once: call one of the turn's methods exactly once".to_owned(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    fn once(function: impl Fn(&mut Bencher)) -> Result<(), TrialError> {
        call(&function, &mut |mut workload| workload.single(|run| run()))
    }

    #[test]
    fn a_function_that_measures_nothing_is_misuse() {
        assert!(matches!(once(|_| ()), Err(TrialError::Misused(_))));
    }

    #[test]
    fn a_second_call_is_misuse_and_not_carried_out() {
        let runs = std::cell::Cell::new(0);
        let count = || runs.set(runs.get() + 1);
        let outcome = once(|bencher| {
            bencher.iter(&mut || count());
            bencher.iter(&mut || count());
        });
        assert!(matches!(outcome, Err(TrialError::Misused(_))));
        assert_eq!(runs.get(), 1);
    }

    #[test]
    fn a_panic_and_a_given_up_variant_are_failures_with_their_message() {
        let panicked = once(|bencher| bencher.iter(&mut || panic!("lost a wake of task {}", 3)));
        assert_eq!(panicked, Err(TrialError::Failed("lost a wake of task 3".to_owned())));
        let gave_up = once(|bencher| bencher.fail("needs four cores"));
        assert_eq!(gave_up, Err(TrialError::Failed("needs four cores".to_owned())));
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
        let around = Around { iteration: around, nothing: |_| unreachable!("it is for what is driven") };
        for kind in kinds {
            call(kind, &mut |mut workload| workload.counted(around, 2)).expect("a countable variant");
        }
        assert_eq!((runs.get(), INSIDE.load(Ordering::Relaxed)), (9, 6));
    }

    thread_local! {
        static SEEN: RefCell<String> = const { RefCell::new(String::new()) };
    }

    fn seen(what: &str) {
        SEEN.with_borrow_mut(|seen| *seen += what);
    }

    const SEEING: Around = Around {
        iteration: |run| {
            seen("[");
            run();
            seen("]");
        },
        nothing: |run| {
            seen("(");
            run();
            seen(")");
        },
    };

    #[test]
    fn what_is_counted_of_a_prepared_iteration_is_without_its_preparation() {
        struct Seeing;
        impl Prepared for Seeing {
            fn prepare(&mut self, iterations: u64) {
                seen(&format!("p{iterations}"));
            }
            fn run(&mut self) {
                seen("r");
            }
        }
        Workload::Prepared(&mut Seeing).counted(SEEING, 2);
        assert_eq!(SEEN.take(), "p1rp1[r]p1[r]");
    }

    #[test]
    fn what_drives_an_iteration_is_counted_apart() {
        let run = &mut |iterations: u64| {
            seen(&iterations.to_string());
            Duration::ZERO
        };
        Workload::Driven(run).counted(SEEING, 2);
        assert_eq!(SEEN.take(), "1(0)[1](0)[1]");
    }
}
