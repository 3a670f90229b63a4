//! A bench: variants of doing the same work.

use std::cell::Cell;
use std::fmt::{Debug, Display};
use std::hint::black_box;
use std::pin::Pin;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::places::places;
use crate::report::{ITERATION, Report};
use by_turns_core::base::key::{Key, escaped, file_name};
use by_turns_core::base::tolerance;
use by_turns_core::judge::pairs::Pair;
use by_turns_core::trial::bencher::{Prepared, Workload};

/// Several ways of doing the same work, the variants, which are compared with the first of them.
///
/// `W` is what an iteration returns: what it did, such as a sum, a number of items, or all the items. It must be equal for
/// all variants of a load: in the first two calls, before any of them is measured, and in one more after the samples of each trial.
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
    /// As it is shown.
    pub(crate) title: String,
    /// As files and folders are named.
    pub(crate) name: String,
    pub(crate) declared: Vec<Declared<'a, W>>,
    next: Settings,
    /// What the calls that have proved equal work took, without set-up.
    pub(crate) in_calls: Cell<Duration>,
    pub(crate) on_report: Cell<Option<OnReport<'a>>>,
}

type OnReport<'a> = Box<dyn FnOnce(&Report) + 'a>;

/// What is set for the variants that follow.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) load: String,
    pub(crate) unit: String,
    /// Units of work per iteration.
    pub(crate) units: u64,
    pub(crate) tolerance: f64,
    pub(crate) threads: bool,
}

type Function<'a, W> = dyn Fn(&mut Turn<'_, W>) + 'a;

pub(crate) struct Declared<'a, W> {
    pub(crate) name: String,
    pub(crate) settings: Settings,
    /// How many bytes its future has.
    pub(crate) size: Option<u64>,
    /// How it was measured last: by `iter`, `iter_with` or `block_on`.
    pub(crate) by: Cell<&'static str>,
    /// Whether its task ran on another thread than the one that drove it.
    pub(crate) elsewhere: Cell<bool>,
    pub(crate) function: Box<Function<'a, W>>,
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

/// The turn of a variant: set up what it needs, then call [`iter`](Self::iter), [`iter_with`](Self::iter_with) or
/// [`block_on`](Self::block_on) exactly once.
pub struct Turn<'t, W> {
    /// Iterates as often as it likes.
    pub(crate) hand_over: &'t mut dyn FnMut(Workload<'_>),
    /// Gets what the call after these returns.
    pub(crate) check: &'t mut dyn FnMut(W),
    /// Is told of a task that ran on another thread.
    pub(crate) elsewhere: &'t Cell<bool>,
}

impl<W> Turn<'_, W> {
    /// Measures calls of `run`, each of which is one iteration. Code before this call is not timed; dropping what `run` returns is.
    pub fn iter(&mut self, mut run: impl FnMut() -> W) {
        (self.hand_over)(Workload::Repeated(&mut || drop(black_box(run()))));
        // The clock has stopped. So what is timed need not keep anything, and is not dearer for being proved.
        (self.check)(run());
    }

    /// Measures calls of `run`, each with an input of its own from `make`. Neither making the input nor dropping the result is
    /// timed or counted. An input that the result does not contain is dropped by `run`, within the time.
    ///
    /// Inputs are made in batches of at most 64, so that the clock is not read around every iteration: as many inputs and
    /// results are in memory at once. Passing an input costs 2 to 3 ns, so use this for all variants of a load or for none.
    /// Making the inputs of a trial's samples takes 50 ms at most: where 64 of them take longer, batches are smaller, and a note says so.
    ///
    /// ```no_run
    /// # fn with(turn: &mut by_turns::Turn<'_, Vec<u64>>) {
    /// let items: Vec<u64> = (0..1000).rev().collect();
    /// turn.iter_with(|| items.clone(), |mut items| { items.sort(); items });
    /// # }
    /// ```
    pub fn iter_with<I>(&mut self, mut make: impl FnMut() -> I, mut run: impl FnMut(I) -> W) {
        (self.hand_over)(Workload::Prepared(&mut Batch {
            make: &mut make,
            run: &mut run,
            inputs: vec![],
            done: vec![],
        }));
        (self.check)(run(make()));
    }

    /// Measures futures: one future of `run`, awaited to completion, is one iteration. All iterations of a sample are awaited
    /// one after the other in one task, which `drive` runs to completion. Only the task's loop is timed: neither spawning the
    /// task nor blocking on it. `run`, its futures and their results must be `Send + 'static`: share inputs by `Arc`.
    ///
    /// Let `drive` spawn the task, so that it is woken like any other: a future awaited directly in `block_on` is woken
    /// through the runtime's parker each time.
    ///
    /// ```no_run
    /// # fn with(turn: &mut by_turns::Turn<'_, u64>) {
    /// let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// turn.block_on(
    ///     |task| runtime.block_on(runtime.spawn(task)).unwrap(),
    ///     || async { tokio::spawn(async { 1 }).await.unwrap() },
    /// );
    /// # }
    /// ```
    /// With smol, `drive` is `|task| smol::block_on(smol::spawn(task))`, which runs it on another thread, as a runtime with worker
    /// threads does: call [`Bench::threads`] before such variants. With an executor of your own that has no tasks,
    /// `|task| block_on(task)`.
    ///
    /// # Panics
    /// If `drive` returns before the task has completed.
    pub fn block_on<R, F>(&mut self, mut drive: impl FnMut(Task), run: R)
    where
        R: FnMut() -> F + Send + 'static,
        F: Future<Output = W> + Send + 'static,
        W: Send + 'static,
    {
        const ENDED: &str = "`drive` must run its task to completion";
        // Each task takes it along and hands it back.
        let mut kept = Some(run);
        (self.hand_over)(Workload::Driven(&mut |iterations| {
            let (send, receive) = mpsc::channel();
            let mut run = kept.take().expect(ENDED);
            drive(Box::pin(async move {
                let start = Instant::now();
                for _ in 0..iterations {
                    drop(black_box(run().await));
                }
                let _ = send.send((start.elapsed(), run));
            }));
            let (elapsed, run) = receive.try_recv().expect(ENDED);
            kept = Some(run);
            elapsed
        }));
        let (send, receive) = mpsc::channel();
        let mut run = kept.expect(ENDED);
        drive(Box::pin(async move { _ = send.send((run().await, thread::current().id())) }));
        let (done, by) = receive.try_recv().expect(ENDED);
        self.elsewhere.set(by != thread::current().id());
        (self.check)(done);
    }
}

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The inputs of iterations to come, and what was returned by those before.
struct Batch<I, W, M, R> {
    make: M,
    run: R,
    inputs: Vec<I>,
    done: Vec<W>,
}

impl<I, W, M: FnMut() -> I, R: FnMut(I) -> W> Prepared for Batch<I, W, M, R> {
    fn prepare(&mut self, iterations: u64) {
        self.done.clear();
        self.done.reserve(iterations as usize);
        self.inputs.extend((0..iterations).map(|_| (self.make)()));
    }

    fn run(&mut self) {
        let input = self.inputs.pop().expect("prepared");
        self.done.push(black_box((self.run)(input)));
    }
}

impl<'a, W: PartialEq + Debug> Bench<'a, W> {
    /// Begins a bench of this name. Names may be any non-empty text, here and for variants, loads and units. The bench's files
    /// are named after it if it is lower-case words joined by hyphens, else after its letters and digits and a hash.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        let next = Settings {
            load: String::new(),
            unit: ITERATION.to_owned(),
            units: 1,
            tolerance: tolerance::COMPUTATION,
            threads: false,
        };
        places(); // before the program goes elsewhere
        Self {
            title: escaped(&name),
            name: file_name(&name),
            declared: vec![],
            next,
            in_calls: Cell::default(),
            on_report: Cell::default(),
        }
    }

    /// Adds a variant. The first one of a load is the baseline: the others of that load are compared with it.
    pub fn variant(mut self, name: impl Into<String>, function: impl Fn(&mut Turn<'_, W>) + 'a) -> Self {
        let (settings, function) = (self.next.clone(), Box::new(function));
        self.declared.push(Declared {
            name: escaped(&name.into()),
            settings,
            size: None,
            by: Cell::new(""),
            elsewhere: Cell::new(false),
            function,
        });
        self
    }

    /// Says how many bytes the future of the variant added last has: a count, shown in the table and checked by `--gate`.
    ///
    /// ```no_run
    /// # use by_turns::Bench;
    /// # async fn read() -> u64 { 1 }
    /// # fn with(bench: Bench<'_, u64>) -> Bench<'_, u64> {
    /// bench.variant("read", |turn| turn.iter(|| 1)).future_bytes(size_of_val(&read()))
    /// # }
    /// ```
    ///
    /// # Panics
    /// If there is no variant yet.
    pub fn future_bytes(mut self, bytes: usize) -> Self {
        self.declared.last_mut().expect("call `future_bytes` after `variant`").size = Some(bytes as u64);
        self
    }

    /// Says that one iteration of the variants that follow does `number` units of work, such as requests: the table shows the
    /// time per unit, and units a second. For throughput in B/s, as by criterion's `Throughput::Bytes`, the unit is `byte`. Counts
    /// remain those of an iteration.
    ///
    /// # Panics
    /// If `number` is not positive.
    pub fn unit(mut self, unit: impl Into<String>, number: impl TryInto<u64>) -> Self {
        let number = number.try_into().unwrap_or(0);
        assert!(number > 0, "an iteration must do at least one unit of work");
        (self.next.unit, self.next.units) = (escaped(&unit.into()), number);
        self
    }

    /// Names the load of the variants that follow, such as `tasks=100`: only variants of the same load are compared.
    pub fn load(mut self, load: impl Into<String>) -> Self {
        self.next.load = escaped(&load.into());
        self
    }

    /// Calls `declare` with each of these loads, which are named after `name`, such as `items=10`. What `declare` sets holds for
    /// that load only.
    ///
    /// ```no_run
    /// # use by_turns::Bench;
    /// # use std::hint::black_box;
    /// # fn main() {
    /// Bench::new("sum")
    ///     .loads("items", [10, 1000], |bench, n| {
    ///         bench
    ///             .unit("item", n)
    ///             .variant("sum", move |turn| turn.iter(|| (0..n).map(black_box).sum::<u64>()))
    ///             .variant("fold", move |turn| turn.iter(|| (0..n).map(black_box).fold(0, |sum, item| sum + item)))
    ///     })
    ///     .main();
    /// # }
    /// ```
    pub fn loads<L: Display>(
        mut self,
        name: &str,
        loads: impl IntoIterator<Item = L>,
        mut declare: impl FnMut(Self, L) -> Self,
    ) -> Self {
        let before = self.next.clone();
        for load in loads {
            self = self.load(format!("{name}={load}"));
            self = declare(self, load);
            self.next = before.clone();
        }
        self
    }

    /// Says how small a difference matters for the variants that follow, as a share: 0.02 is 2 %. By default
    /// [`tolerance::COMPUTATION`], 1 %. Choose it before you measure. That of a baseline holds for all variants of its load.
    ///
    /// ```no_run
    /// # use by_turns::{Bench, tolerance};
    /// # fn with(bench: Bench<'_, u64>) -> Bench<'_, u64> {
    /// bench.tolerance(tolerance::CALLS).variant("direct", |turn| turn.iter(|| 1))
    /// # }
    /// ```
    ///
    /// # Panics
    /// If it is not between 0 and 1.
    pub fn tolerance(mut self, share: f64) -> Self {
        assert!(0.0 < share && share < 1.0, "a tolerance is a share between 0 and 1");
        self.next.tolerance = share;
        self
    }

    /// Says that the variants that follow use several threads: their samples do not wait for an undisturbed core, and
    /// instructions and system calls, which valgrind counts on one thread, are left out. Sets the tolerance to
    /// [`tolerance::THREADS`], 5 %; for another one, call [`tolerance`](Self::tolerance) afterwards. Nothing unsets it, but
    /// within [`loads`](Self::loads) it holds for that load only. A baseline's setting holds for all variants of its load.
    ///
    /// ```no_run
    /// # use by_turns::Bench;
    /// # fn main() {
    /// Bench::new("handover")
    ///     .threads()
    ///     .variant("thread", |turn| turn.iter(|| std::thread::spawn(|| 7).join().unwrap()))
    ///     .variant("scope", |turn| turn.iter(|| std::thread::scope(|scope| scope.spawn(|| 7).join().unwrap())))
    ///     .main();
    /// # }
    /// ```
    pub fn threads(mut self) -> Self {
        (self.next.threads, self.next.tolerance) = (true, tolerance::THREADS);
        self
    }

    /// Calls `function` with what was measured, after the table is printed. It is called once, in the process that `cargo bench`
    /// started, although main runs again in each process that measures; also after Ctrl-C, with the processes that have
    /// finished. It is not called where nothing is measured, as for `--list`, `--test` or `--gate`.
    ///
    /// ```no_run
    /// # use by_turns::Bench;
    /// # fn with(bench: Bench<'_, u64>) -> Bench<'_, u64> {
    /// bench.on_report(|report| {
    ///     for variant in report.variants.iter().filter(|variant| !variant.control) {
    ///         let Some([ratio, low, high]) = variant.ratio else { continue }; // a baseline
    ///         eprintln!("{}: {ratio:.2} ({low:.2} to {high:.2}), {:?}", variant.name(), variant.verdict);
    ///     }
    /// })
    /// # }
    /// ```
    pub fn on_report(self, function: impl FnOnce(&Report) + 'a) -> Self {
        self.on_report.set(Some(Box::new(function)));
        self
    }

    /// All that is measured: the variants that `chosen` accepts, what they are compared with, and each of these a second
    /// time.
    ///
    /// # Errors
    /// Why the bench makes no sense.
    pub(crate) fn variants(&self, chosen: impl Fn(&Key) -> bool) -> Result<Vec<Variant>, String> {
        let mut wanted = self.wanted(chosen);
        for index in 0..wanted.len() {
            wanted[self.first(index)] |= wanted[index];
        }
        self.listed(&wanted)
    }

    /// The variants that `chosen` accepts, and no others: what shares a process with them may change their times. The first of a
    /// load is the baseline of the others.
    ///
    /// # Errors
    /// Why the bench makes no sense.
    pub(crate) fn only(&self, chosen: impl Fn(&Key) -> bool) -> Result<Vec<Variant>, String> {
        self.listed(&self.wanted(chosen))
    }

    fn wanted(&self, chosen: impl Fn(&Key) -> bool) -> Vec<bool> {
        self.declared.iter().map(|of| chosen(&self.key(of))).collect()
    }

    fn key(&self, of: &Declared<'_, W>) -> Key {
        Key::new(&self.title, &of.name, &of.settings.load)
    }

    /// The number of the first that was declared for the load of another one.
    fn first(&self, of: usize) -> usize {
        let load = &self.declared[of].settings.load;
        self.declared.iter().position(|one| one.settings.load == *load).expect("it is one itself")
    }

    fn listed(&self, wanted: &[bool]) -> Result<Vec<Variant>, String> {
        let named = self.declared.iter().flat_map(|one| [&one.name, &one.settings.unit]);
        if named.chain([&self.title]).any(String::is_empty) {
            return Err(format!("{:?}: the bench, each variant and each unit need a name", self.title));
        }
        let mut variants: Vec<Variant> = Vec::new();
        for (declared, of) in self.declared.iter().enumerate().filter(|(index, _)| wanted[*index]) {
            let baseline = variants.iter().position(|variant| variant.key.parameter == of.settings.load);
            variants.push(Variant { key: self.key(of), declared, baseline, control: false });
        }
        for at in 0..variants.len() {
            let Variant { key, declared, baseline, .. } = variants[at].clone();
            if variants.iter().any(|variant| variant.baseline == Some(at)) && baseline.is_none() {
                variants.push(Variant { key: key.again(), declared, baseline: Some(at), control: true });
            }
        }
        for (at, Variant { key, .. }) in variants.iter().enumerate() {
            if variants[..at].iter().any(|variant| variant.key == *key) {
                return Err(format!("{key} was added twice"));
            }
        }
        Ok(variants)
    }

    /// Whether any variants are compared with each other: without that, a bench can only be compared with another revision.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn compares(&self) -> Result<(), String> {
        let mut loads: Vec<&str> = self.declared.iter().map(|one| one.settings.load.as_str()).collect();
        loads.sort_unstable();
        if loads.windows(2).any(|two| two[0] == two[1]) {
            return Ok(());
        }
        let which = if loads.len() < 2 { "add two variants" } else { "add two variants of one load" };
        Err(format!(
            "{}: nothing to compare: {which}; one alone is counted by --save-counts and --gate, and compared with another revision by \
             `cargo by-turns --against`",
            self.title
        ))
    }

    /// What is set for the first variant of a load, and so for all of that load.
    pub(crate) fn settings(&self, variant: &Variant) -> &Settings {
        &self.declared[self.first(variant.declared)].settings
    }

    /// What a variant is compared with, in units of work.
    pub(crate) fn pair(&self, variants: &[Variant], variant: &Variant) -> Option<Pair> {
        let baseline = &variants[variant.baseline?];
        let units = [variant, baseline].map(|variant| self.declared[variant.declared].settings.units as f64);
        Some(Pair { key: variant.key.clone(), baseline: baseline.key.clone(), units })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::{Cell, RefCell};
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;

    pub(crate) fn bench<'a>(declared: &[(&str, u64)]) -> Bench<'a, u64> {
        declared.iter().fold(Bench::new("b"), |bench, (name, work)| {
            let work = *work;
            bench.variant(*name, move |turn| turn.iter(|| work))
        })
    }

    fn names(variants: &[Variant]) -> Vec<String> {
        variants.iter().map(|variant| variant.key.to_string()).collect()
    }

    #[test]
    fn each_variant_is_compared_with_the_first_of_its_load_and_that_with_itself() {
        let bench = bench(&[("a", 1), ("b", 1)]).load("n=2").variant("c", |turn| turn.iter(|| 2));
        let bench = bench.variant("d", |turn| turn.iter(|| 2));
        let variants = bench.variants(|_| true).expect("sound");
        assert_eq!(names(&variants), ["b/a", "b/b", "b/c@n=2", "b/d@n=2", "b/a (A/A)", "b/c (A/A)@n=2"]);
        let baselines: Vec<Option<usize>> = variants.iter().map(|variant| variant.baseline).collect();
        assert_eq!(baselines, [None, Some(0), None, Some(2), Some(0), Some(2)]);
        bench.prove(&variants, false).expect("equal work, for each load");
        let some = bench.variants(|key| key.variant == "d").expect("sound");
        assert_eq!(names(&some), ["b/c@n=2", "b/d@n=2", "b/c (A/A)@n=2"]);
        let alone = bench.variants(|key| key.variant == "c").expect("its equal work can be proved");
        assert_eq!(names(&alone), ["b/c@n=2"]);
        bench.prove(&alone, false).expect("equal in its first two calls");
        let only = bench.only(|key| key.variant == "d").expect("sound");
        assert_eq!(names(&only), ["b/d@n=2"]);
        bench.prove(&only, true).expect("what it does, without its baseline");
    }

    #[test]
    fn what_is_set_for_a_baseline_holds_for_what_is_compared_with_it() {
        let bench = bench(&[("a", 1)]).threads().variant("b", |turn| turn.iter(|| 1));
        let variants = bench.variants(|_| true).expect("sound");
        assert!(variants.iter().all(|variant| !bench.settings(variant).threads));
        let only = bench.only(|key| key.variant == "b").expect("sound");
        assert!(only.len() == 1 && !bench.settings(&only[0]).threads, "without its baseline, too");
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

    /// What is done, in its order: `m` a make, `r` a run, `d` a drop, `[` and `]` the clock.
    fn in_order(batch: &mut dyn Prepared, iterations: u64, order: &RefCell<String>) -> String {
        batch.prepare(iterations);
        order.borrow_mut().push('[');
        (0..iterations).for_each(|_| batch.run());
        order.borrow_mut().push(']');
        batch.prepare(0);
        order.take()
    }

    #[test]
    fn inputs_are_made_and_results_dropped_outside_of_the_time() {
        #[derive(PartialEq, Debug)]
        struct Noting<'o>(&'o RefCell<String>);
        impl Drop for Noting<'_> {
            fn drop(&mut self) {
                self.0.borrow_mut().push('d');
            }
        }
        let order = RefCell::new(String::new());
        let note = |what| order.borrow_mut().push(what);
        let mut seen = String::new();
        Turn {
            hand_over: &mut |workload| match workload {
                Workload::Prepared(batch) => seen = in_order(batch, 3, &order),
                _ => panic!("another workload"),
            },
            check: &mut |_| note('c'),
            elsewhere: &Cell::new(false),
        }
        .iter_with(
            || {
                note('m');
                Noting(&order)
            },
            |input| {
                note('r');
                input
            },
        );
        assert_eq!((seen.as_str(), order.take().as_str()), ("mmm[rrr]ddd", "mrcd"));
    }

    /// Polls until it is ready.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                return done;
            }
        }
    }

    #[test]
    fn all_iterations_of_a_sample_are_driven_as_one_task() {
        let (tasks, runs) = (Cell::new(0), Arc::new(AtomicU64::new(0)));
        let (mut samples, mut checked) = (0, 0);
        Turn {
            hand_over: &mut |workload| match workload {
                Workload::Driven(run) => (0..3).for_each(|iterations| {
                    samples += 1;
                    run(10 * iterations);
                }),
                _ => panic!("another workload"),
            },
            check: &mut |done| checked = done,
            elsewhere: &Cell::new(false),
        }
        .block_on(
            |task| {
                tasks.set(tasks.get() + 1);
                block_on(task);
            },
            {
                let runs = runs.clone();
                move || {
                    let runs = runs.clone();
                    async move { runs.fetch_add(1, Ordering::Relaxed) + 1 }
                }
            },
        );
        assert_eq!((samples, tasks.get(), checked), (3, 4, 31), "20, 10 and none, and one that is checked");
    }

    #[test]
    fn a_task_that_runs_on_another_thread_is_seen() {
        let bench = Bench::new("b").variant("here", |turn| turn.block_on(block_on, || async { 7 }));
        let bench = bench.variant("there", |turn| {
            turn.block_on(|task| thread::spawn(|| block_on(task)).join().expect("an end"), || async { 7 });
        });
        bench.prove(&bench.variants(|_| true).expect("sound"), false).expect("equal work");
        let elsewhere: Vec<bool> = bench.declared.iter().map(|declared| declared.elsewhere.get()).collect();
        assert_eq!(elsewhere, [false, true]);
    }

    #[test]
    fn tokio_drives_what_is_spawned_and_a_task_that_is_not_driven_is_a_failure() {
        let driven = Bench::new("b")
            .variant("spawned", |turn| {
                let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
                turn.block_on(
                    |task| runtime.block_on(runtime.spawn(task)).expect("an end"),
                    || async { tokio::spawn(async { 7 }).await.expect("its end") },
                );
            })
            .variant("alone", |turn| turn.block_on(block_on, || async { 7 }));
        let variants = driven.variants(|_| true).expect("sound");
        driven.prove(&variants, false).expect("equal work");
        let lost = Bench::new("b").variant("a", |turn| turn.block_on(drop, || async { 7 }));
        let lost = lost.variant("b", |turn| turn.iter(|| 7));
        let refusal = lost.prove(&lost.variants(|_| true).expect("sound"), false).unwrap_err();
        assert!(refusal.contains("b/a failed: ") && refusal.contains("to completion"), "{refusal}");
    }

    #[test]
    fn what_is_set_for_a_load_holds_for_it_alone() {
        let bench = Bench::new("b").unit("call", 3).loads("items", [1, 64], |bench, items| {
            bench
                .unit("item", items)
                .variant("a", move |turn| turn.iter(|| items))
                .variant("b", move |turn| turn.iter(|| items))
        });
        let bench = bench.variant("c", |turn| turn.iter(|| 0)).variant("d", |turn| turn.iter(|| 0));
        let variants = bench.variants(|key| !key.variant.ends_with('c')).expect("sound");
        assert_eq!(
            names(&variants[..6]),
            ["b/a@items=1", "b/b@items=1", "b/a@items=64", "b/b@items=64", "b/c", "b/d"]
        );
        let baselines: Vec<Option<usize>> = variants.iter().map(|variant| variant.baseline).collect();
        assert_eq!(baselines[..6], [None, Some(0), None, Some(2), None, Some(4)]);
        let units: Vec<u64> = bench.declared.iter().map(|one| one.settings.units).collect();
        assert_eq!(units, [1, 1, 64, 64, 3, 3]);
        bench.prove(&variants, false).expect("equal work, for each load");
    }

    #[test]
    fn a_bench_that_compares_nothing_is_refused() {
        let refusal =
            |bench: Bench<'_, u64>| bench.variants(|_| true).and_then(|_| bench.compares()).unwrap_err();
        assert!(refusal(bench(&[("a", 1)])).contains("two variants"));
        assert!(refusal(bench(&[("a", 1), ("a", 1)])).contains("twice"));
        assert!(refusal(bench(&[("a", 1), ("", 1)])).contains("need a name"));
        assert!(refusal(bench(&[("b\n", 1), ("b\\n", 1)])).contains("b/b\\n was added twice"));
        let loads = bench(&[("a", 1)]).load("n=2").variant("b", |turn| turn.iter(|| 1));
        assert!(refusal(loads).contains("of one load"));
    }

    #[test]
    fn any_text_is_a_name() {
        let bench = Bench::new("Vec<u8> & co").unit("µs", 1).load("n, \"2\"");
        let bench =
            bench.variant("`a`|b", |turn| turn.iter(|| 1)).variant("line\nbreak", |turn| turn.iter(|| 1));
        let variants = bench.variants(|_| true).expect("sound");
        assert_eq!(names(&variants)[1], "Vec<u8> & co/line\\nbreak@n, \"2\"");
        assert!(bench.name.starts_with("vec-u8-co-"), "{}", bench.name);
    }
}
