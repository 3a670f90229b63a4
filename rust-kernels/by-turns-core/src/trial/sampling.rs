//! One trial: a warm-up and the samples of one variant.

use std::time::{Duration, Instant};

use crate::base::key::is_counter;
use crate::base::sample::Sample;
use crate::trial::bencher::{self, Function, Prepared, TrialError, Workload};
use crate::trial::undisturbed;

/// Samples of one trial, unless a study sets another number. More rounds tell more than more samples, because the machine
/// drifts between rounds and hardly within one.
pub const SAMPLES: usize = 2;

/// How many times as long a trial in a process of its own lasts: memory is copied when it is first written.
pub const OF_A_PROCESS: u32 = 6;

/// What takes a sample by calling what it is given.
pub type Observer = fn(&mut dyn FnMut() -> Sample) -> Sample;

/// How a variant is tried.
pub struct Trial {
    /// Least time that a workload which can be repeated runs before its samples.
    pub warm_up: Duration,
    /// Time that its samples take together.
    pub time: Duration,
    /// How many.
    pub samples: usize,
    /// Takes each sample, and adds to it what it has seen meanwhile.
    pub observer: Option<Observer>,
    /// Whether its samples wait for a core that is undisturbed: of work on one thread.
    pub undisturbed: bool,
}

/// How long a sample waits for that, in times of a sample, and at most.
const PATIENCE: (f64, Duration) = (10.0, Duration::from_millis(10));

impl Trial {
    /// Samples of this variant, of which ratios can be taken and whose metrics make a table.
    pub fn run(&self, function: &Function<'_>) -> Result<Vec<Sample>, TrialError> {
        let mut samples = Vec::new();
        bencher::call(function, &mut |workload| samples = self.samples(workload))?;
        check(&samples)?;
        Ok(samples)
    }

    fn samples(&self, workload: Workload<'_>) -> Vec<Sample> {
        match workload {
            Workload::Repeated(run) => self.repeated(&mut |iterations| timed(run, iterations)),
            Workload::Clocked(run) | Workload::Driven(run) => self.repeated(run),
            Workload::Prepared(prepared) => {
                let samples = self.prepared(&mut |iterations| timed_batches(prepared, iterations));
                prepared.prepare(0);
                samples
            }
            Workload::Fixed(run) => {
                run();
                (0..self.samples).map(|_| self.observed(run)).collect()
            }
        }
    }

    /// Doubles the iterations until the warm-up is over, then gives every sample as many as let the trial last as long
    /// as it should, at least one.
    fn repeated(&self, run: &mut dyn FnMut(u64) -> Duration) -> Vec<Sample> {
        let Warm { done, passed, .. } = self.warmed_up(run);
        self.taken(times(self.share(), passed / done), run)
    }

    /// As [`repeated`](Self::repeated), by the time without what prepares iterations.
    fn prepared(&self, run: &mut dyn FnMut(u64) -> Duration) -> Vec<Sample> {
        let warm = self.warmed_up(run);
        self.taken(self.prepared_iterations(&warm), run)
    }

    /// At least a batch, unless preparing so many takes too long.
    fn prepared_iterations(&self, Warm { done, passed, timed }: &Warm) -> u64 {
        let most = times(MAKING.as_secs_f64() / self.samples as f64, (passed - timed) / done);
        times(self.share(), timed / done).max(BATCH).min(most)
    }

    fn share(&self) -> f64 {
        self.time.as_secs_f64() / self.samples as f64
    }

    /// A warm-up that was interrupted is repeated: it would tell of slow iterations, and samples of a few would follow.
    fn warmed_up(&self, run: &mut dyn FnMut(u64) -> Duration) -> Warm {
        let mut warm = self.warm_up_once(run);
        for _ in 0..2 {
            if warm.done == 1.0 || warm.passed <= INTERRUPTED * self.warm_up.as_secs_f64() {
                break;
            }
            warm = self.warm_up_once(run);
        }
        warm
    }

    fn warm_up_once(&self, run: &mut dyn FnMut(u64) -> Duration) -> Warm {
        let start = Instant::now();
        let (mut iterations, mut done, mut timed) = (1, 0, Duration::ZERO);
        loop {
            timed += run(iterations);
            done += iterations;
            if start.elapsed() >= self.warm_up {
                break;
            }
            iterations *= 2;
        }
        let [passed, timed] = [start.elapsed(), timed].map(|time| time.as_secs_f64());
        Warm { done: done as f64, passed, timed }
    }

    /// All samples, of so many iterations each.
    fn taken(&self, iterations: u64, run: &mut dyn FnMut(u64) -> Duration) -> Vec<Sample> {
        let mut sample = || Sample::new(iterations, run(iterations));
        let patience = Duration::from_secs_f64(PATIENCE.0 * self.share()).min(PATIENCE.1);
        let mut taken = || match self.undisturbed {
            true => undisturbed::sample(patience, || self.observed(&mut sample)),
            false => self.observed(&mut sample),
        };
        (0..self.samples).map(|_| taken()).collect()
    }

    fn observed(&self, run: &mut dyn FnMut() -> Sample) -> Sample {
        match self.observer {
            Some(observer) => observer(run),
            None => run(),
        }
    }
}

/// How much longer than asked for a warm-up may take. Doubling its iterations makes it up to three times as long.
const INTERRUPTED: f64 = 4.0;

/// What a warm-up did.
struct Warm {
    /// Iterations.
    done: f64,
    /// Seconds that passed.
    passed: f64,
    /// Those that the workload told of.
    timed: f64,
}

/// How often `one` fits into `time`, at least once. The cast keeps to the largest number where the quotient is beyond it.
fn times(time: f64, one: f64) -> u64 {
    ((time / one).round() as u64).max(1)
}

/// The timed loop of every variant. Not inlined, so that it is the same machine code for all of them.
#[inline(never)]
pub fn timed(run: &mut dyn FnMut(), iterations: u64) -> Duration {
    let start = Instant::now();
    for _ in 0..iterations {
        run();
    }
    start.elapsed()
}

/// Iterations whose inputs lie in memory at once: enough that reading the clock before and after them, some 50 ns, is
/// less than a nanosecond of each.
pub const BATCH: u64 = 64;

/// The time that preparing the iterations of a trial's samples may take.
pub const MAKING: Duration = Duration::from_millis(50);

/// [`timed`], for iterations that are prepared: what prepares them is not timed.
#[inline(never)]
pub fn timed_batches(prepared: &mut dyn Prepared, iterations: u64) -> Duration {
    let (mut left, mut elapsed) = (iterations, Duration::ZERO);
    while left > 0 {
        let batch = left.min(BATCH);
        prepared.prepare(batch);
        let start = Instant::now();
        for _ in 0..batch {
            prepared.run();
        }
        elapsed += start.elapsed();
        left -= batch;
    }
    elapsed
}

fn check(samples: &[Sample]) -> Result<(), TrialError> {
    for sample in samples {
        if sample.iterations == 0 || sample.elapsed.is_zero() {
            return Err(TrialError::Failed("a sample has no iterations or took no time".to_owned()));
        }
        if let Some(name) = sample.names().find(|name| !is_counter(name)) {
            let rule = "the name of a metric is lower-case letters, digits and _, a letter first";
            return Err(TrialError::Misused(format!("it delivered the metric {name:?}; {rule}")));
        }
        if !sample.names().eq(samples[0].names()) {
            return Err(TrialError::Failed("the samples of a trial do not have the same metrics".to_owned()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trial::bencher::Bencher;

    fn trial(samples: usize) -> Trial {
        let (warm_up, time) = (Duration::from_micros(100), Duration::from_micros(300));
        Trial { warm_up, time, samples, observer: None, undisturbed: false }
    }

    /// The calls of a workload in a trial of so many samples, by their iterations, and the samples.
    fn calls(samples: usize, run: impl Fn()) -> (Vec<u64>, Vec<Sample>) {
        let mut calls = Vec::new();
        let taken = trial(samples).samples(Workload::Clocked(&mut |iterations| {
            calls.push(iterations);
            timed(&mut || run(), iterations)
        }));
        (calls, taken)
    }

    #[test]
    fn a_trial_is_the_last_calls_with_equal_iterations() {
        for wanted in [1, SAMPLES, 100] {
            let (calls, samples) = calls(wanted, || drop(std::hint::black_box(Box::new(1))));
            let last: Vec<u64> = calls[calls.len() - wanted..].to_vec();
            assert_eq!(samples.iter().map(|sample| sample.iterations).collect::<Vec<_>>(), last);
            assert!(calls.len() > wanted, "it was warmed up");
            assert!(last.iter().all(|iterations| *iterations == last[0]), "{last:?}");
        }
    }

    #[test]
    fn an_interrupted_warm_up_is_repeated() {
        let mut calls = 0;
        let samples = trial(2).samples(Workload::Clocked(&mut |iterations| {
            calls += 1;
            if calls == 3 {
                std::thread::sleep(Duration::from_millis(5));
            }
            timed(&mut || drop(std::hint::black_box(Box::new(1))), iterations)
        }));
        // 150 µs, of some 20 ns each, and not of the 700 µs that the first seven took.
        assert!(samples[0].iterations > 100, "{} iterations", samples[0].iterations);
    }

    #[test]
    fn an_iteration_longer_than_the_trial_is_run_once_a_sample() {
        let (calls, _) = calls(2, || std::thread::sleep(Duration::from_millis(1)));
        assert_eq!(calls, [1; 3], "one to warm up, two samples");
    }

    #[test]
    fn a_workload_with_its_own_clock_is_believed() {
        let run = &mut |iterations| {
            std::thread::sleep(Duration::from_micros(20));
            Duration::from_nanos(3 * iterations)
        };
        for sample in trial(SAMPLES).samples(Workload::Clocked(run)) {
            assert_eq!(sample.elapsed.as_nanos(), 3 * u128::from(sample.iterations));
        }
    }

    /// Notes what is prepared, which has to be done before more is.
    #[derive(Default)]
    struct Noting {
        making: Duration,
        ready: u64,
        batches: Vec<u64>,
    }

    impl Prepared for Noting {
        fn prepare(&mut self, iterations: u64) {
            assert_eq!(self.ready, 0, "what was prepared is done");
            self.ready = iterations;
            self.batches.push(iterations);
            std::thread::sleep(self.making * iterations as u32);
        }

        fn run(&mut self) {
            self.ready = self.ready.checked_sub(1).expect("prepared");
        }
    }

    #[test]
    fn what_is_prepared_comes_in_batches() {
        let mut noting = Noting::default();
        timed_batches(&mut noting, 2 * BATCH + 3);
        assert_eq!((noting.ready, noting.batches), (0, vec![BATCH, BATCH, 3]));
    }

    #[test]
    fn a_batch_is_full_however_slow_its_preparation_unless_that_takes_too_long() {
        let iterations = |making: f64, run: f64| {
            let trial = Trial { time: Duration::from_millis(1), ..trial(SAMPLES) };
            trial.prepared_iterations(&Warm { done: 2.0, passed: 2.0 * (making + run), timed: 2.0 * run })
        };
        assert_eq!(iterations(1e-7, 1e-6), 500, "half of the trial");
        assert_eq!(iterations(1e-5, 1e-6), 500, "without what prepares them");
        assert_eq!(iterations(1e-4, 1e-5), BATCH);
        assert_eq!(iterations(1e-3, 1e-7), 25, "25 ms for each sample");
        assert_eq!(iterations(1.0, 1e-7), 1);
    }

    #[test]
    fn inputs_that_take_too_long_are_few() {
        let mut noting = Noting { making: MAKING, ..Noting::default() };
        trial(SAMPLES).samples(Workload::Prepared(&mut noting));
        assert_eq!(noting.batches, [1, 1, 1, 0], "one to warm up, two samples, and what is left is dropped");
    }

    #[test]
    fn the_timed_loop_iterates_as_often_as_asked() {
        let mut runs = 0;
        timed(&mut || runs += 1, 1_000);
        assert_eq!(runs, 1_000);
    }

    fn fixed(run: impl Fn() -> Sample) -> Result<Vec<Sample>, TrialError> {
        trial(3).run(&|bencher: &mut Bencher| bencher.samples(&mut || run()))
    }

    #[test]
    fn samples_without_time_are_a_failure() {
        assert!(matches!(fixed(|| Sample::new(1, Duration::ZERO)), Err(TrialError::Failed(_))));
    }

    #[test]
    fn metrics_are_the_same_in_all_samples_and_have_plain_names() {
        let calls = std::cell::Cell::new(0_u64);
        let sample = || Sample::new(1, Duration::from_nanos(1));
        let next = || calls.replace(calls.get() + 1);
        let good = fixed(|| sample().with("p50_ns", 1).with("p99_ns", next()).with("p50_ns", 2));
        let last = good.expect("three samples").pop().expect("a last one");
        // The first of the four calls was the warm-up.
        assert_eq!(last.metrics, [("p99_ns".into(), 3), ("p50_ns".into(), 2)]);
        let odd = fixed(|| if next() % 2 == 0 { sample() } else { sample().with("p50_ns", 1) });
        assert!(matches!(odd, Err(TrialError::Failed(_))));
        for name in ["", "P99", "a b", "a\n", "_a"] {
            assert!(matches!(fixed(|| sample().with(name, 1)), Err(TrialError::Misused(_))), "{name:?}");
        }
    }
}
