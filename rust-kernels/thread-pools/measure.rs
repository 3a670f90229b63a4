// -*- coding: utf-8 -*-
// ---
// jupyter:
//   jupytext:
//     formats: notebooks///ipynb,rust-kernels///rs:percent
//     text_representation:
//       extension: .rs
//       format_name: percent
//       format_version: '1.3'
//       jupytext_version: 1.19.6
//   kernelspec:
//     display_name: Rust
//     language: rust
//     name: rust
// ---

// %% [markdown]
// # Which thread pool for which load?
//
// A pool with one queue for all, or one with work stealing? Which of the two is faster depends on which threads submit
// the jobs, and on whether the workers are busy or asleep at that time.
//
// The crate `executors` has published tables about that: three pools, one to nine threads, two loads for throughput, and
// three sizes of bursts for latency. The tables are of 2019, on a desktop with four cores. This notebook measures all of
// these cells: with the pools [as they are described](described.ipynb), with [the lean ones](lean.ipynb) derived from
// them, with the crate itself, and with other well-known pools, in the same rounds. Then comes what the published
// program leaves out: jobs that do work, bursts that are awaited to their end, and what workers that never sleep cost
// other threads.
//
// After reading it you can decide which pool suits your load, and which of its parts cost what.

// %% [markdown]
// ## Compile cells as for a benchmark
//
// These settings give cells the profile of `cargo bench`. Without them, the harness refuses to measure. Building the
// other crates' pools takes a minute or two the first time.
//
// `executors` appears in four versions. Whether its workers park, what its fairness is based on, and whether they are bound
// to processors is decided at compile time, once per version. Between 0.7 and 0.10 its pools changed only in how they
// poll futures, in 0.9 in the version of crossbeam, and in 0.10 in how they report metrics; so an older version is used
// where another flag is needed, and its name says so. In the report all of them are compiled in 16 codegen units, as by
// the `cargo build --release` of the document, and so are the pools as described; everything else in one. Where the lean
// pools meet them, `CBWP (1 unit)` is work stealing as described, compiled in one unit as well.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep chili = "=0.2.1"
// :dep executors = "=0.10.0"
// :dep executors-counting = { package = "executors", version = "=0.8.0", default-features = false, features = ["workstealing-exec"] }
// :dep executors-pinned = { package = "executors", version = "=0.7.0", features = ["thread-pinning"] }
// :dep executors-never-parking = { package = "executors", version = "=0.9.0", features = ["ws-no-park"] }
// :dep forte = "=1.0.0-alpha.4"
// :dep futures = { version = "=0.3.34", features = ["thread-pool"] }
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep hdrhistogram = { version = "=7.6.0", default-features = false }
// :dep rayon = "=1.12.0"
// :dep thread-pools-described = { path = "../../rust-kernels/thread-pools/described" }
// :dep thread-pools-described-one-unit = { path = "../../rust-kernels/thread-pools/one-unit" }
// :dep thread-pools-lean = { path = "../../rust-kernels/thread-pools/lean" }
// :dep tokio = { version = "=1.54.1", features = ["rt-multi-thread"] }

// %% [markdown]
// The pools come from the two notebooks before this one.

// %%
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use harness::{Bencher, Counts, Key, Sample, Study, UnequalWork, limit};
use hdrhistogram::Histogram;
use thread_pools_described::{DescribedCbcp, DescribedCbwp, END, Subject, Tp};
use thread_pools_described_one_unit as one_unit;
use thread_pools_lean::{
    Forking, InBoxes, InOnePlace, Listed, Ours, Pool, Settings, SharedChannel, Stealing,
};

// %% [markdown]
// # Pools of other crates
//
// The originals, each as its documentation says; `small_pool` is the one of the published program. And three well-known
// pools. `rayon`'s pool is never freed, as its global pool is not, so a handle is a reference. `futures` takes futures,
// so a job becomes a future that is ready when polled once. tokio's `spawn_blocking` is made for closures that block; it
// has a queue of its own, with a mutex.

// %%
/// Keeps a thing for ever, where leak checkers find it.
fn leak<T: Send + Sync>(thing: T) -> &'static T {
    static LEAKED: std::sync::Mutex<Vec<usize>> = std::sync::Mutex::new(vec![]);
    let leaked = Box::leak(Box::new(thing));
    LEAKED.lock().expect("it only grows").push(std::ptr::from_ref(leaked).addr());
    leaked
}

/// Ends with the process of its trial.
fn ends_with_process<P>(_pool: P) -> Result<(), String> {
    Ok(())
}

/// A pool of rayon.
fn of_rayon(workers: usize) -> &'static rayon::ThreadPool {
    leak(rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("threads"))
}

/// A pool of futures.
fn of_futures(workers: usize) -> futures::executor::ThreadPool {
    futures::executor::ThreadPool::builder().pool_size(workers).create().expect("threads")
}

/// A runtime of tokio that has so many threads for closures that block.
fn of_tokio(workers: usize) -> &'static tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    leak(builder.worker_threads(1).max_blocking_threads(workers).build().expect("threads"))
}

// %% [markdown]
// The types of the four versions:

// %%
/// The pools of the crate executors.
pub mod versions {
    use executors::parker::{SmallThreadData, StaticParker};
    use executors_counting::parker as counting;
    use executors_never_parking::parker as never_parking;
    use executors_pinned::parker as pinned;

    pub type Tp = executors::threadpool_executor::ThreadPoolExecutor;
    pub type Cbcp = executors::crossbeam_channel_pool::ThreadPool;
    pub type Cbwp = executors::crossbeam_workstealing_pool::ThreadPool<StaticParker<SmallThreadData>>;
    pub type NeverParking = executors_never_parking::crossbeam_workstealing_pool::ThreadPool<
        never_parking::StaticParker<never_parking::SmallThreadData>,
    >;
    pub type Counting = executors_counting::crossbeam_workstealing_pool::ThreadPool<
        counting::StaticParker<counting::SmallThreadData>,
    >;
    pub type PinnedCbcp = executors_pinned::crossbeam_channel_pool::ThreadPool;
    pub type PinnedCbwp = executors_pinned::crossbeam_workstealing_pool::ThreadPool<
        pinned::StaticParker<pinned::SmallThreadData>,
    >;
}

// %% [markdown]
// In the table: what a handle holds, how a pool is made, how it takes a job, how it ends.

// %%
pub mod others {
    use super::{Subject, ends_with_process, of_futures, of_rayon, of_tokio, versions};

    macro_rules! pools {
        ($($name:ident($inner:ty), $make:expr, |$pool:ident, $job:ident| $execute:expr, $end:expr;)*) => {$(
            #[doc = concat!("`", stringify!($inner), "`")]
            #[derive(Clone)]
            pub struct $name(pub(super) $inner);

            impl Subject for $name {
                fn make(workers: usize) -> Self {
                    Self(($make)(workers))
                }

                #[inline]
                fn execute(&self, $job: impl FnOnce() + Send + 'static) {
                    let $pool = &self.0;
                    $execute;
                }

                fn end(self) {
                    $end(self.0).expect("jobs of the measuring program are short");
                }
            }
        )*};
    }

    macro_rules! originals {
        ($($name:ident($inner:ty), $make:expr, $version:ident;)*) => {
            pools! {$(
                $name($inner), $make,
                    |pool, job| $version::Executor::execute(pool, job), $version::Executor::shutdown;
            )*}
        };
    }

    originals! {
        OriginalTp(versions::Tp), versions::Tp::new, executors;
        OriginalCbcp(versions::Cbcp), versions::Cbcp::new, executors;
        OriginalCbwp(versions::Cbwp), executors::crossbeam_workstealing_pool::small_pool, executors;
        OriginalNeverParking(versions::NeverParking),
            executors_never_parking::crossbeam_workstealing_pool::small_pool, executors_never_parking;
        OriginalCounting(versions::Counting),
            executors_counting::crossbeam_workstealing_pool::small_pool, executors_counting;
        OriginalPinnedCbcp(versions::PinnedCbcp), versions::PinnedCbcp::new, executors_pinned;
        OriginalPinnedCbwp(versions::PinnedCbwp),
            executors_pinned::crossbeam_workstealing_pool::small_pool, executors_pinned;
    }

    pools! {
        Rayon(&'static rayon::ThreadPool), of_rayon, |pool, job| pool.spawn(job), ends_with_process;
        RayonFifo(&'static rayon::ThreadPool), of_rayon, |pool, job| pool.spawn_fifo(job), ends_with_process;
        Futures(futures::executor::ThreadPool),
            of_futures, |pool, job| pool.spawn_ok(async move { job() }), ends_with_process;
        Blocking(&'static tokio::runtime::Runtime),
            of_tokio, |runtime, job| drop(runtime.spawn_blocking(job)), ends_with_process;
    }
}

// %% [markdown]
// From here on each has its own name.

// %%
pub use self::others::{
    Blocking, Futures, OriginalCbcp, OriginalCbwp, OriginalCounting, OriginalNeverParking,
    OriginalPinnedCbcp, OriginalPinnedCbwp, OriginalTp, Rayon, RayonFifo,
};

// %% [markdown]
// A glance at some of them. One thread submits jobs that do nothing to two workers.

// %% tags=["active-ipynb", "glance"]
// use thread_pools_described::{JOBS, jobs};
// harness::Glance::at("job")
//     .each_of(JOBS)
//     .look("CBWP as described", jobs::<DescribedCbwp<true, true, false>>)
//     .look("CBWP of executors", jobs::<OriginalCbwp>)
//     .look("lean CBWP", jobs::<Ours<Stealing>>)
//     .look("rayon", jobs::<Rayon>)
//     .show()

// %% [markdown]
// # The program
//
// A message is a **chain**: a job that submits another one, which submits another one, `a` times over. So a message is
// *a* + 1 jobs, of which the first comes from outside, and the others come from workers, strictly one after the other.
// `a` is called amplification: with a small one, half of the jobs come from outside, with a large one hardly any.
//
// Each job works before and after it submits the next. The published work adds up numbers in a loop, and that is the
// first catch: **a compiler knows the sum.** It turns the loop into one multiplication, so all published jobs are empty,
// whatever the options say. That work is kept, under its own name, beside one that no compiler can shorten: every step
// takes the result of the one before, hidden from the compiler.

// %%
/// What a job does apart from submitting the next one.
pub trait Work: Copy + Send + 'static {
    fn before(self);
    fn after(self);
}

/// The published work: adds up the numbers below this, twice. One multiplication each, once compiled.
#[derive(Clone, Copy)]
pub struct Folded(pub u32);

impl Work for Folded {
    #[inline]
    fn before(self) {
        std::hint::black_box(sum_below(u64::from(self.0)));
    }

    #[inline]
    fn after(self) {
        self.before();
    }
}

#[inline(never)]
fn sum_below(end: u64) -> u64 {
    (0..end).fold(0, u64::wrapping_add)
}

// %% [markdown]
// The work that no compiler can shorten, before and after the next job is submitted.

// %%
/// Steps of which each needs the one before. (Small numbers, so that a job still has storage without a box.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opaque {
    /// Before the next job is submitted.
    pub before: u16,
    /// After it.
    pub after: u16,
}

impl Opaque {
    /// So many, half of them before and half after.
    pub const fn halves(steps: u16) -> Self {
        Self { before: steps / 2, after: steps / 2 }
    }
}

// %% [markdown]
// Each step is a multiplication and an addition behind `black_box`.

// %%
#[inline]
pub fn dependent_steps(steps: u32) {
    let mut state = 1_u64;
    for _ in 0..steps {
        state = std::hint::black_box(state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
    }
}

impl Work for Opaque {
    #[inline]
    fn before(self) {
        dependent_steps(self.before.into());
    }

    #[inline]
    fn after(self) {
        dependent_steps(self.after.into());
    }
}

// %% [markdown]
// The second catch is **which jobs are awaited**. The published program waits for the chain that each thread has
// submitted last, and for no other. With a shared queue that chain ends about last. With work stealing it may run alone
// on a worker that stole it, and end long before the rest. So the observer of a chain's end is a parameter here: none, a
// latch, a witness that counts everything, or a list of arrivals.

// %%
/// What becomes of a chain.
pub trait Observer: Copy + Send + Sync + 'static {
    /// A job of it has begun, after which so many are to come.
    fn begin(self, _left: u32) {}
    /// It has ended.
    fn end(self);
}

// %% [markdown]
// The latch unparks the thread that waits, once.

// %%
/// Waits until so many have arrived.
pub struct Latch {
    missing: AtomicU64,
    waiter: std::thread::Thread,
}

impl Latch {
    /// On which this thread will wait.
    pub fn of(number: u64) -> &'static Self {
        leak(Self { missing: AtomicU64::new(number), waiter: std::thread::current() })
    }

    /// One more has arrived.
    #[inline]
    pub fn arrive(&self) {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    /// Returns when all have arrived.
    pub fn wait(&self) {
        while self.missing.load(Ordering::Acquire) > 0 {
            std::thread::park();
        }
    }
}

/// Without a latch, no thread waits for the end.
impl Observer for Option<&'static Latch> {
    #[inline]
    fn end(self) {
        if let Some(latch) = self {
            latch.arrive();
        }
    }
}

// %% [markdown]
// All workers write to the one counter of that latch, which may hide what their pool does. So there are also counters for
// each worker apart. Then the thread that waits has to look at them from time to time, and sees the end up to 50 µs late.

// %%
/// A counter that shares its cache lines with no other.
#[derive(Default)]
#[repr(align(128))]
struct Apart(AtomicU64);

/// Counts for each worker apart what has arrived.
pub struct Counters([Apart; 64]);

/// How long the thread that waits does not look.
const LOOK_AGAIN: Duration = Duration::from_micros(50);

impl Counters {
    /// Of no arrivals.
    pub fn none() -> &'static Self {
        leak(Self(std::array::from_fn(|_| Apart::default())))
    }

    /// Returns when so many have arrived.
    pub fn wait(&self, number: u64) {
        while self.0.iter().map(|of_worker| of_worker.0.load(Ordering::Acquire)).sum::<u64>() < number {
            std::thread::park_timeout(LOOK_AGAIN);
        }
    }
}

impl Observer for &'static Counters {
    #[inline]
    fn end(self) {
        static WORKERS: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static OWN: u64 = WORKERS.fetch_add(1, Ordering::Relaxed);
        }
        let own = OWN.with(|own| *own) as usize % self.0.len();
        self.0[own].0.fetch_add(1, Ordering::Release);
    }
}

// %% [markdown]
// The message itself. Each of its jobs carries a handle of the pool.

// %%
/// A message: this job, and so many to come.
pub struct Chain<P, W, C> {
    pool: P,
    remaining: u32,
    work: W,
    observer: C,
}

impl<P: Subject, W: Work, C: Observer> Chain<P, W, C> {
    #[inline]
    pub fn run(self) {
        let Self { pool, remaining, work, observer } = self;
        observer.begin(remaining);
        work.before();
        if remaining > 0 {
            let next = Self { pool: pool.clone(), remaining: remaining - 1, work, observer };
            pool.execute(move || next.run());
        }
        work.after();
        if remaining == 0 {
            observer.end();
        }
    }
}

// %% [markdown]
// The burst is common to both halves of the program: some threads are started, each submits its messages, and
// the caller waits. Starting the threads is inside of the time, as published.

// %%
/// How much is submitted, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub workers: usize,
    /// Threads that submit.
    pub producers: u64,
    /// Messages of each of them.
    pub messages: u64,
    /// Jobs that follow the first of a message.
    pub amplification: u32,
}

impl Load {
    /// Jobs that are run.
    pub fn jobs(&self) -> u64 {
        self.chains() * u64::from(self.amplification + 1)
    }

    /// Messages of all threads.
    pub fn chains(&self) -> u64 {
        self.producers * self.messages
    }
}

// %% [markdown]
// The threads that submit are scoped, so that a burst has ended all of them when it returns.

// %%
/// Starts the threads that submit, and waits. `submit` is called for each message, and learns whether it is its thread's
/// last. The time until `wait` returns.
fn produce<P: Subject>(
    pool: &P,
    load: &Load,
    submit: impl Fn(&P, bool) + Copy + Send,
    wait: impl FnOnce(),
) -> Duration {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..load.producers {
            let pool = pool.clone();
            scope.spawn(move || {
                (1..=load.messages).for_each(|message| submit(&pool, message == load.messages));
            });
        }
        wait();
        start.elapsed()
    })
}

/// Submits it all and waits. `observer` learns whether a message is its thread's last. The time until `wait` returns.
pub fn burst<P: Subject, W: Work, C: Observer>(
    pool: &P,
    load: &Load,
    work: W,
    observer: impl Fn(bool) -> C + Copy + Send,
    wait: impl FnOnce(),
) -> Duration {
    let submit = move |pool: &P, last| {
        let chain =
            Chain { pool: pool.clone(), remaining: load.amplification, work, observer: observer(last) };
        pool.execute(move || chain.run());
    };
    produce(pool, load, submit, wait)
}

// %% [markdown]
// A message of that program is a closure of 24 bytes. Larger ones are tested by jobs that only carry data. In our pools,
// the last of them does not fit into a job.

// %%
/// Bytes of the closures.
pub const SIZES: [usize; 4] = [16, 24, 32, 64];

/// Submits jobs that hold an observer, which is one word, and so many words more.
fn submit_with_words<P: Subject, C: Observer, const WORDS: usize>(
    pool: &P,
    load: &Load,
    observer: C,
    wait: impl FnOnce(),
) -> Duration {
    let submit = move |pool: &P, _| {
        let words = std::hint::black_box([1_u64; WORDS]);
        let job = move || {
            observer.begin(0);
            std::hint::black_box(words);
            observer.end();
        };
        debug_assert_eq!(size_of_val(&job), 8 * (WORDS + 1));
        pool.execute(job);
    };
    produce(pool, load, submit, wait)
}

/// Submits jobs whose closures have so many bytes, one of [`SIZES`], and waits.
fn submit_sized<P: Subject, C: Observer>(
    pool: &P,
    load: &Load,
    bytes: usize,
    observer: C,
    wait: impl FnOnce(),
) -> Duration {
    match bytes {
        16 => submit_with_words::<P, C, 1>(pool, load, observer, wait),
        24 => submit_with_words::<P, C, 2>(pool, load, observer, wait),
        32 => submit_with_words::<P, C, 3>(pool, load, observer, wait),
        64 => submit_with_words::<P, C, 7>(pool, load, observer, wait),
        _ => panic!("no closure has {bytes} bytes"),
    }
}

// %% [markdown]
// An observer of times: when each message has ended.

// %%
/// When each message has ended.
struct Arrivals {
    start: Instant,
    /// Nanoseconds since the start.
    ns: Box<[AtomicU64]>,
    arrived: AtomicU64,
    latch: &'static Latch,
}

impl Observer for &'static Arrivals {
    fn end(self) {
        let ns = self.start.elapsed().as_nanos() as u64;
        self.ns[self.arrived.fetch_add(1, Ordering::Relaxed) as usize].store(ns, Ordering::Relaxed);
        self.latch.arrive();
    }
}

impl Arrivals {
    fn of(chains: u64) -> &'static Self {
        let ns = (0..chains).map(|_| AtomicU64::new(0)).collect();
        leak(Self { start: Instant::now(), ns, arrived: AtomicU64::new(0), latch: Latch::of(chains) })
    }
}

/// Times in nanoseconds by how often they came, to three digits. It grows with the longest of them: one that saturates
/// does not, and would call all of them 2 ns.
pub fn distribution(ns: impl IntoIterator<Item = u64>) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).expect("3 significant digits can be kept");
    for ns in ns {
        histogram.record(ns).expect("it grows as far as it must");
    }
    histogram
}

// %% [markdown]
// # Proof of equal work
//
// A witness counts every job by its place in its chain. The proof holds if every place from the first to the last was
// seen exactly once for each message, and if all messages have ended; and if nothing is added after
// the pool has ended. The jobs that are witnessed are as large as the others, and go through the same code.

// %%
/// Jobs that do nothing.
pub const IDLE: Opaque = Opaque::halves(0);
/// The work of the published experiments: 10,000 numbers, before and after.
const PUBLISHED_WORK: Folded = Folded(10_000);

/// What happened to the chains of one burst.
pub struct Ledger {
    /// Jobs that have begun, by how many were to follow in their chain.
    begun: Box<[AtomicU64]>,
    ended: AtomicU64,
    latch: &'static Latch,
}

impl Observer for &'static Ledger {
    fn begin(self, remaining: u32) {
        self.begun[remaining as usize].fetch_add(1, Ordering::Relaxed);
    }

    fn end(self) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.latch.arrive();
    }
}

// %% [markdown]
// What a ledger has seen is compared with what the load asks for.

// %%
impl Ledger {
    fn of(load: &Load) -> &'static Self {
        let begun = (0..=load.amplification).map(|_| AtomicU64::new(0)).collect();
        leak(Self { begun, ended: AtomicU64::new(0), latch: Latch::of(load.chains()) })
    }

    /// What has been seen so far, where each place is to be seen so many times.
    fn observed(&self, times_of: impl Fn(u32) -> u64) -> Counts {
        let begun: Vec<u64> = self.begun.iter().map(|times| times.load(Ordering::SeqCst)).collect();
        let places =
            (0..).zip(&begun).filter(|(remaining, times)| **times == times_of(*remaining)).count() as u64;
        let messages = self.ended.load(Ordering::SeqCst);
        Counts::from([("jobs", begun.iter().sum()), ("places", places), ("messages", messages)])
    }
}

/// What a witness must see.
pub fn expected(load: &Load) -> Counts {
    let places = u64::from(load.amplification) + 1;
    Counts::from([("jobs", load.jobs()), ("places", places), ("messages", load.chains())])
}

// %% [markdown]
// The measurements treat all pools alike, so this trait hides their types.

// %%
/// What the jobs of a burst do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Jobs {
    /// What is published.
    Published,
    /// So much.
    Working(Opaque),
    /// Nothing; their closures have so many bytes.
    Carrying(usize),
}

/// What the program does with a pool.
pub trait Bursts {
    /// As published: folded work, and the last messages are awaited.
    fn until_last(&self, load: &Load) -> Duration;
    /// Opaque work, and all messages are awaited.
    fn until_all(&self, load: &Load, work: Opaque) -> Duration;
    /// No work, and all messages are awaited, which each worker counts apart.
    fn until_all_apart(&self, load: &Load) -> Duration;
    /// All are awaited, and it is known when each of them has ended.
    fn with_arrivals(&self, load: &Load) -> (Duration, Histogram<u64>);
    /// Jobs that hold so many bytes, and all are awaited.
    fn of_size(&self, load: &Load, bytes: usize) -> Duration;
    /// A burst that is witnessed; what was seen when its last message had ended, and a way to look again.
    fn with_ledger(&self, load: &Load, jobs: Jobs) -> &'static Ledger;
}

// %% [markdown]
// Every pool does it alike: the loads differ in what ends a job, and in whom the caller waits for.

// %%
impl<P: Subject> Bursts for P {
    fn until_last(&self, load: &Load) -> Duration {
        let latch = Latch::of(load.producers);
        burst(self, load, PUBLISHED_WORK, |last| last.then_some(latch), || latch.wait())
    }

    fn until_all(&self, load: &Load, work: Opaque) -> Duration {
        let latch = Latch::of(load.chains());
        burst(self, load, work, |_| Some(latch), || latch.wait())
    }

    fn until_all_apart(&self, load: &Load) -> Duration {
        let counters = Counters::none();
        burst(self, load, IDLE, |_| counters, || counters.wait(load.chains()))
    }

    fn with_arrivals(&self, load: &Load) -> (Duration, Histogram<u64>) {
        let arrivals = Arrivals::of(load.chains());
        let time = burst(self, load, IDLE, |_| arrivals, || arrivals.latch.wait());
        (time, distribution(arrivals.ns.iter().map(|ns| ns.load(Ordering::Relaxed))))
    }

    fn of_size(&self, load: &Load, bytes: usize) -> Duration {
        let latch = Latch::of(load.chains());
        submit_sized(self, load, bytes, Some(latch), || latch.wait())
    }

    fn with_ledger(&self, load: &Load, jobs: Jobs) -> &'static Ledger {
        let ledger = Ledger::of(load);
        let wait = || ledger.latch.wait();
        match jobs {
            Jobs::Published => burst(self, load, PUBLISHED_WORK, |_| ledger, wait),
            Jobs::Working(work) => burst(self, load, work, |_| ledger, wait),
            Jobs::Carrying(bytes) => submit_sized(self, load, bytes, ledger, wait),
        };
        ledger
    }
}

// %% [markdown]
// A proof looks at the ledger twice: when the burst has ended, and when the pool has.

// %%
/// Makes a pool with so many workers, passes it on, and ends it.
pub type World = fn(usize, &mut dyn FnMut(&dyn Bursts));

/// Of pools of this type.
fn world<P: Subject>(workers: usize, work: &mut dyn FnMut(&dyn Bursts)) {
    let pool = P::make(workers);
    work(&pool);
    pool.end();
}

/// How long one trial or proof may take before it counts as hanging: far longer than any of them takes.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Whether the ledger that `run` fills, in a process of its own, is as expected: when `run` looks at it, and once more
/// at the end.
fn prove_ledger(
    key: &Key,
    limit: Duration,
    expected: &Counts,
    times_of: impl Fn(u32) -> u64,
    run: impl FnOnce(&mut dyn FnMut(&'static Ledger)),
) -> Result<(), UnequalWork> {
    let look_twice = || {
        let (mut looked_at, mut observed) = (None, vec![]);
        run(&mut |ledger| observed.push(looked_at.insert(ledger).observed(&times_of)));
        observed.extend(looked_at.map(|ledger| ledger.observed(&times_of)));
        observed
    };
    harness::prove_isolated(key, limit, expected, look_twice).map(drop)
}

// %% [markdown]
// For a burst, each place of a chain must be seen once per message.

// %%
/// Proves a burst.
///
/// # Errors
/// If the pool runs other jobs than it should, or not all: says which pool, and what is wrong.
pub fn prove(key: &Key, world: World, load: &Load, jobs: Jobs, limit: Duration) -> Result<(), UnequalWork> {
    prove_ledger(
        key,
        limit,
        &expected(load),
        |_| load.chains(),
        |check| {
            world(load.workers, &mut |pool| check(pool.with_ledger(load, jobs)));
        },
    )
}

// %% [markdown]
// ## Fork and join
//
// Another load is the one rayon was made for: a call that splits its work into halves and waits for both, down to
// leaves. With a `join`, that takes no allocation, and a half that is not stolen is an ordinary call.
// [Ours](lean.ipynb) is measured beside that of rayon, and those of `chili` and `forte`, which offer a half to other
// threads only from time to time. The FIFO pools have no `join`; there one half is submitted, the other is run at once,
// and a latch waits for the leaves. It costs each leaf an atomic operation, and their queues hold whole levels of the
// tree.

// %%
/// What can go through a tree.
pub trait ForkJoin: Sized {
    /// With so many threads, among them the caller's, if that takes part.
    fn make(workers: usize) -> Self;
    /// Goes through a tree of so many levels below its root, with so many steps of work in each leaf. `observer` hears
    /// of every node, and of every leaf as an end.
    fn traverse<C: Observer>(&self, levels: u32, steps: u32, observer: C);
    /// Whether `traverse` returns before the last leaf.
    const RETURNS_EARLY: bool = false;
    /// Ends its threads as soon as possible.
    fn end(self) {}
}

#[inline]
fn leaf<C: Observer>(steps: u32, observer: C) {
    dependent_steps(steps);
    observer.end();
}

// %% [markdown]
// For a pool without `join`, each node submits one half and goes on with the other.

// %%
/// A pool without `join`.
pub struct Submitting<P>(P);

impl<P: Subject> Submitting<P> {
    fn node<C: Observer>(pool: P, remaining: u32, steps: u32, observer: C) {
        observer.begin(remaining);
        if remaining == 0 {
            return leaf(steps, observer);
        }
        let other = pool.clone();
        pool.execute(move || Self::node(other, remaining - 1, steps, observer));
        Self::node(pool, remaining - 1, steps, observer);
    }
}

impl<P: Subject> ForkJoin for Submitting<P> {
    const RETURNS_EARLY: bool = true;

    fn make(workers: usize) -> Self {
        Self(P::make(workers))
    }

    fn traverse<C: Observer>(&self, levels: u32, steps: u32, observer: C) {
        let pool = self.0.clone();
        self.0.execute(move || Self::node(pool, levels, steps, observer));
    }

    fn end(self) {
        self.0.end();
    }
}

// %% [markdown]
// rayon offers two ways. `join` returns when both halves have ended.

// %%
/// rayon's `join`.
pub struct RayonJoin(Rayon);

impl ForkJoin for RayonJoin {
    fn make(workers: usize) -> Self {
        Self(Rayon::make(workers))
    }

    fn traverse<C: Observer>(&self, levels: u32, steps: u32, observer: C) {
        fn node<C: Observer>(remaining: u32, steps: u32, observer: C) {
            observer.begin(remaining);
            if remaining == 0 {
                return leaf(steps, observer);
            }
            rayon::join(|| node(remaining - 1, steps, observer), || node(remaining - 1, steps, observer));
        }
        self.0.0.install(|| node(levels, steps, observer));
    }
}

// %% [markdown]
// In a `scope` one half is spawned, and may outlive the node that spawned it.

// %%
/// rayon's `scope`, in which one half is spawned.
pub struct RayonScope(Rayon);

impl ForkJoin for RayonScope {
    fn make(workers: usize) -> Self {
        Self(Rayon::make(workers))
    }

    fn traverse<C: Observer>(&self, levels: u32, steps: u32, observer: C) {
        fn node<'scope, C: Observer>(scope: &rayon::Scope<'scope>, remaining: u32, steps: u32, observer: C) {
            observer.begin(remaining);
            if remaining == 0 {
                return leaf(steps, observer);
            }
            scope.spawn(move |scope| node(scope, remaining - 1, steps, observer));
            node(scope, remaining - 1, steps, observer);
        }
        self.0.0.scope(|scope| node(scope, levels, steps, observer));
    }
}

// %% [markdown]
// Ours has n workers for n threads. The caller, outside, comes on top: it hands its first `join` over to a worker, and
// waits.

// %%
/// Our `join`.
pub struct LeanJoin(Pool<Forking<Listed>>);

impl ForkJoin for LeanJoin {
    fn make(workers: usize) -> Self {
        Self(Pool::start(Settings::new(workers)))
    }

    fn traverse<C: Observer>(&self, levels: u32, steps: u32, observer: C) {
        fn node<C: Observer>(pool: &Pool<Forking<Listed>>, remaining: u32, steps: u32, observer: C) {
            observer.begin(remaining);
            if remaining == 0 {
                return leaf(steps, observer);
            }
            let half = || node(pool, remaining - 1, steps, observer);
            pool.join(half, half);
        }
        node(&self.0, levels, steps, observer);
    }

    fn end(self) {
        self.0.shutdown(END).expect("it has returned from its last join");
    }
}

// %% [markdown]
// In chili and forte the thread outside takes part, so n threads are n - 1 workers and the caller.

// %%
impl ForkJoin for chili::ThreadPool {
    fn make(workers: usize) -> Self {
        let thread_count = std::num::NonZero::new(workers);
        Self::with_config(chili::Config { thread_count, ..Default::default() })
    }

    fn traverse<C: Observer>(&self, levels: u32, steps: u32, observer: C) {
        fn node<C: Observer>(scope: &mut chili::Scope<'_>, remaining: u32, steps: u32, observer: C) {
            observer.begin(remaining);
            if remaining == 0 {
                return leaf(steps, observer);
            }
            let half = |scope: &mut chili::Scope<'_>| node(scope, remaining - 1, steps, observer);
            scope.join(half, half);
        }
        node(&mut self.scope(), levels, steps, observer);
    }
}

/// A pool of forte, which ends with the process.
pub struct Forte(&'static forte::ThreadPool);

impl ForkJoin for Forte {
    fn make(workers: usize) -> Self {
        let pool = leak(forte::ThreadPool::new());
        pool.resize_to(workers - 1);
        Self(pool)
    }

    fn traverse<C: Observer>(&self, levels: u32, steps: u32, observer: C) {
        fn node<C: Observer>(worker: &forte::Worker, remaining: u32, steps: u32, observer: C) {
            observer.begin(remaining);
            if remaining == 0 {
                return leaf(steps, observer);
            }
            let half = |worker: &forte::Worker| node(worker, remaining - 1, steps, observer);
            worker.join(half, half);
        }
        self.0.with_worker(|worker| node(worker, levels, steps, observer));
    }
}

// %% [markdown]
// The same for both purposes, timing and proof: a tree has one root, and each level twice as many nodes as the one
// above it.

// %%
/// What the program does with a tree.
pub trait Trees {
    /// So many steps in each leaf; the time until all leaves have ended.
    fn time(&self, levels: u32, steps: u32) -> Duration;
    /// A tree that is witnessed, until what is timed would have ended.
    fn witness(&self, levels: u32, steps: u32) -> &'static Ledger;
}

impl<F: ForkJoin> Trees for F {
    fn time(&self, levels: u32, steps: u32) -> Duration {
        let latch = F::RETURNS_EARLY.then(|| Latch::of(1 << levels));
        let start = Instant::now();
        self.traverse(levels, steps, latch);
        latch.into_iter().for_each(Latch::wait);
        start.elapsed()
    }

    fn witness(&self, levels: u32, steps: u32) -> &'static Ledger {
        let ledger =
            Ledger::of(&Load { workers: 0, producers: 1, messages: 1 << levels, amplification: levels });
        self.traverse(levels, steps, ledger);
        if F::RETURNS_EARLY {
            ledger.latch.wait();
        }
        ledger
    }
}

/// Makes it with so many threads, hands it over, and ends it.
pub type TreeWorld = fn(usize, &mut dyn FnMut(&dyn Trees));

fn tree_world<F: ForkJoin>(workers: usize, work: &mut dyn FnMut(&dyn Trees)) {
    let made = F::make(workers);
    work(&made);
    made.end();
}

// %% [markdown]
// All trees have the same size.

// %%
/// Levels of the trees below their root, and nodes of all of them.
const LEVELS: u32 = 14;
const NODES: u64 = (2 << LEVELS) - 1;

/// Proves that every node of a tree is seen once.
///
/// # Errors
/// If it is not: says in whose tree, and what is wrong.
pub fn prove_tree(key: &Key, world: TreeWorld, workers: usize, steps: u32) -> Result<(), UnequalWork> {
    let of_place = |remaining| 1_u64 << (LEVELS - remaining);
    let places = u64::from(LEVELS) + 1;
    let counts = Counts::from([("jobs", NODES), ("places", places), ("messages", of_place(0))]);
    prove_ledger(key, LIMIT, &counts, of_place, |check| {
        world(workers, &mut |trees| check(trees.witness(LEVELS, steps)));
    })
}

// %% [markdown]
// # What is measured
//
// Under their published names, the pools as described; with the word `executors` before it, the original that each of
// them is compared with; with the word `lean`, ours. All jobs are compiled in one codegen unit, and so are the lean pools.

// %%
/// Runs a job where it is submitted: what the work itself takes.
#[derive(Clone, Copy)]
pub struct NoPool;

impl Subject for NoPool {
    fn make(_workers: usize) -> Self {
        Self
    }

    #[inline]
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        job();
    }
}

/// A pool as described, compiled in one codegen unit.
#[derive(Clone)]
pub struct OneUnit<P>(P);

impl<P: one_unit::Subject> Subject for OneUnit<P> {
    fn make(workers: usize) -> Self {
        Self(P::make(workers))
    }

    #[inline]
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.0.execute(job);
    }

    fn end(self) {
        self.0.end();
    }
}

/// A pool under a name.
#[derive(Clone, Copy)]
pub struct Variant {
    pub name: &'static str,
    pub world: World,
    pub tree_world: TreeWorld,
}

const fn variant<P: Subject>(name: &'static str) -> Variant {
    Variant { name, world: world::<P>, tree_world: tree_world::<Submitting<P>> }
}

/// What knows no other jobs than halves.
const fn forks<F: ForkJoin>(name: &'static str) -> Variant {
    Variant { name, world: |_, _| panic!("this one knows only `Kind::Tree`"), tree_world: tree_world::<F> }
}

// %% [markdown]
// The names are those in the data.

// %%
pub const TP: Variant = variant::<Tp>("TP");
pub const CBCP: Variant = variant::<DescribedCbcp>("CBCP");
pub const DEFAULT: Variant = variant::<DescribedCbwp>("CBWP (default-features)");
pub const NEVER_PARK: Variant = variant::<DescribedCbwp<false>>("CBWP (ws-no-park)");
pub const COUNTING: Variant = variant::<DescribedCbwp<true, false>>("CBWP (no ws-timed-fairness)");
/// The name of the default in the tables on latency.
pub const CBWP: Variant = variant::<DescribedCbwp>("CBWP");
pub const ONE_UNIT: Variant = variant::<OneUnit<one_unit::DescribedCbwp>>("CBWP (1 unit)");
pub const LEAN_CBCP: Variant = variant::<Ours<SharedChannel>>("lean CBCP");
pub const LEAN_CBWP: Variant = variant::<Ours<Stealing>>("lean CBWP");
pub const LEAN_NEVER_PARK: Variant = variant::<Ours<Stealing, false>>("lean CBWP (ws-no-park)");
pub const X_TP: Variant = variant::<OriginalTp>("executors TP");
pub const X_CBCP: Variant = variant::<OriginalCbcp>("executors CBCP");
pub const X_CBWP: Variant = variant::<OriginalCbwp>("executors CBWP");
pub const X_NEVER_PARK: Variant = variant::<OriginalNeverParking>("executors 0.9 CBWP (ws-no-park)");
pub const X_COUNTING: Variant = variant::<OriginalCounting>("executors 0.8 CBWP (no ws-timed-fairness)");
pub const PINNED_CBCP: Variant = variant::<DescribedCbcp<true>>("CBCP (pinned)");
pub const PINNED_CBWP: Variant = variant::<DescribedCbwp<true, true, true>>("CBWP (pinned)");
pub const X_PINNED_CBCP: Variant = variant::<OriginalPinnedCbcp>("executors 0.7 CBCP (pinned)");
pub const X_PINNED_CBWP: Variant = variant::<OriginalPinnedCbwp>("executors 0.7 CBWP (pinned)");
pub const RAYON: Variant = variant::<Rayon>("rayon spawn");
pub const RAYON_FIFO: Variant = variant::<RayonFifo>("rayon spawn_fifo");
pub const RAYON_JOIN: Variant = forks::<RayonJoin>("rayon join");
pub const RAYON_SCOPE: Variant = forks::<RayonScope>("rayon scope");
pub const CHILI: Variant = forks::<chili::ThreadPool>("chili join");
pub const FORTE: Variant = forks::<Forte>("forte join");
pub const LEAN_JOIN: Variant = forks::<LeanJoin>("lean join");
pub const FUTURES: Variant = variant::<Futures>("futures ThreadPool");
pub const BLOCKING: Variant = variant::<Blocking>("tokio spawn_blocking");
pub const NO_POOL: Variant = variant::<NoPool>("no pool");

// %% [markdown]
// The steps from a described pool to the lean one, each of which changes one thing:

// %%
/// A step from one pool to the next, and what changes there.
type Step = (Variant, &'static str);

/// From CBCP to what we made of it.
const TO_LEAN_CBCP: [Step; 5] = [
    (CBCP, ""),
    (
        variant::<InBoxes<InOnePlace<Ours<SharedChannel, true, true, 0>>>>("CBCP, step 1"),
        "our worker, which does not block in the channel and wakes nobody for its own jobs while somebody searches; handles that count once, not three times; one codegen unit, not 16",
    ),
    (
        variant::<InOnePlace<Ours<SharedChannel, true, true, 0>>>("CBCP, step 2"),
        "small closures without a box",
    ),
    (variant::<Ours<SharedChannel, true, true, 0>>("CBCP, step 3"), "handles on credit"),
    (LEAN_CBCP, "nobody is woken while somebody searches"),
];

/// From CBWP to what we made of it.
const TO_LEAN_CBWP: [Step; 7] = [
    (CBWP, ""),
    (
        variant::<InBoxes<InOnePlace<Ours<Stealing, true, true, 0>>>>("CBWP, step 1"),
        "our worker and our parking, which tells sleepers of a worker's own jobs, too; one codegen unit, not 16",
    ),
    (variant::<InOnePlace<Ours<Stealing, true, true, 0>>>("CBWP, step 2"), "small closures without a box"),
    (variant::<Ours<Stealing, true, true, 0>>("CBWP, step 3"), "handles on credit"),
    (variant::<Ours<Stealing, true, true, 1>>("CBWP, step 4"), "nobody is woken while somebody searches"),
    (
        variant::<Ours<Stealing, true, true, 2>>("CBWP, step 5"),
        "a clock that is read only when jobs wait outside",
    ),
    (LEAN_CBWP, "victims in turn instead of by lot"),
];

// %% [markdown]
// For the comparisons below: the pool one step before a pool, and its original.

// %%
/// The pool one step before this one, and what changes.
fn previous_step(to: &str) -> Option<(&'static str, &'static str)> {
    let found = |steps: &[Step]| {
        let pair = steps.windows(2).find(|pair| pair[1].0.name == to)?;
        Some((pair[0].0.name, pair[1].1))
    };
    found(&TO_LEAN_CBCP).or_else(|| found(&TO_LEAN_CBWP))
}

/// The original of one of ours.
pub fn original(of: &str) -> Option<&'static str> {
    match of {
        "TP" => Some(X_TP.name),
        "CBCP" => Some(X_CBCP.name),
        "CBWP" | "CBWP (default-features)" => Some(X_CBWP.name),
        "CBWP (ws-no-park)" => Some(X_NEVER_PARK.name),
        "CBWP (no ws-timed-fairness)" => Some(X_COUNTING.name),
        "CBCP (pinned)" => Some(X_PINNED_CBCP.name),
        "CBWP (pinned)" => Some(X_PINNED_CBWP.name),
        _ => None,
    }
}

// %% [markdown]
// ## How much of it
//
// The published runs take minutes per cell, and gigabytes for what is queued. Ours are cut down to some milliseconds:
// 20,000 and 50,000 jobs instead of 40 and 100 million, or more if the profile says so. Their number is exported with
// the data. What is cut is the number of messages, and for high amplification also the length of a chain, so that there
// are still many more chains than workers. Many short runs are interleaved, so that what is compared runs under the
// same conditions of a shared machine.

// %%
/// How much a profile measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Factor on the messages of throughput.
    pub messages: u64,
    /// Fewest and most bursts of one sample of latency.
    pub bursts: (u64, u64),
    /// Whether throughput is also measured with as many jobs as published.
    pub published: bool,
}

impl Scale {
    pub fn of(profile: &str) -> Self {
        match profile {
            "thorough" => Self { messages: 4, bursts: (3, 10), published: true },
            "standard" => Self { messages: 1, bursts: (2, 4), published: false },
            _ => Self { messages: 1, bursts: (1, 1), published: false },
        }
    }
}

// %% [markdown]
// A row of the data is a pool under a load, measured in one of these ways:

// %%
/// Something that is measured: a pool under a load.
pub struct Row {
    pub key: Key,
    pub variant: Variant,
    pub load: Load,
    pub kind: Kind,
}

impl Row {
    fn new(bench: &str, variant: Variant, parameter: &str, load: Load, kind: Kind) -> Self {
        Self { key: Key::new(bench, variant.name, parameter), variant, load, kind }
    }
}

/// What is done with a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Throughput as published.
    Published,
    /// Throughput of all jobs, with opaque work.
    All(Opaque),
    /// Throughput of all jobs, which do nothing and are counted for each worker apart.
    Apart,
    /// Throughput of jobs whose closures have so many bytes.
    Sized(usize),
    /// Latency as published, with a pause before each burst.
    LastOfBurst(Duration),
    /// Latency of whole bursts.
    WholeBurst(Duration),
    /// A tree, with so many steps in each leaf.
    Tree(u32),
    Idle,
    /// Other threads compute, one for each processor, while the pool has nothing to do.
    Neighbour,
}

// %% [markdown]
// First the published throughput, in all its cells.

// %%
/// The published benches of throughput: half of the jobs come from outside, or nearly all from workers.
const LOW: &str = "throughput/low-amplification";
const HIGH: &str = "throughput/high-amplification";
/// The same programs, with the size in the parameter.
const LOW_BY_SIZE: &str = "size/low-amplification";
const HIGH_BY_SIZE: &str = "size/high-amplification";

/// The published throughput: one to nine threads, two submit.
fn published_throughput(scale: Scale) -> Vec<Row> {
    let low = (LOW, 5_000 * scale.messages, 1);
    let high = (HIGH, 50 * scale.messages, 500);
    let variants = [TP, CBCP, DEFAULT, NEVER_PARK, COUNTING, X_CBCP, X_CBWP, X_NEVER_PARK, X_COUNTING];
    let further = [X_TP, ONE_UNIT, LEAN_CBCP, LEAN_CBWP, LEAN_NEVER_PARK];
    let mut cells = vec![];
    for (bench, messages, amplification) in [low, high] {
        for workers in (1..=9).rev() {
            let load = Load { workers, producers: 2, messages, amplification };
            // Enough to see where these stand.
            let further = if workers.is_power_of_two() { &further[..] } else { &[] };
            for &variant in variants.iter().chain(further) {
                cells.push(Row::new(bench, variant, &format!("threads={workers}"), load, Kind::Published));
            }
        }
    }
    cells
}

// %% [markdown]
// From which size on does the rate not depend on how long a run is? Three of the cells in growing sizes.

// %%
/// Three cells of the published throughput in growing sizes.
fn sizes(scale: Scale) -> Vec<Row> {
    let low = [5_000, 50_000, 500_000, 10_000_000].map(|messages| (messages, 1));
    let high = [(50, 500), (50, 5_000), (500, 5_000), (1_000, 50_000)];
    let number = if scale.published { 4 } else { 2 };
    let (low, high) = (&low[..number], &high[..number]);
    let mut rows = vec![];
    for (bench, workers, sizes, variants) in
        [(LOW_BY_SIZE, 4, low, &[CBCP, DEFAULT][..]), (HIGH_BY_SIZE, 8, high, &[DEFAULT])]
    {
        for &(messages, amplification) in sizes {
            let parameter = format!("threads={workers} m={messages} a={amplification}");
            let load = Load { workers, producers: 2, messages, amplification };
            rows.extend(variants.iter().map(|&of| Row::new(bench, of, &parameter, load, Kind::Published)));
        }
    }
    rows
}

// %% [markdown]
// In runs of some milliseconds TP is as fast with two workers as with one: before its workers have met at the mutex, the
// run is over. What the document says of more workers is about runs of seconds. So these are longer.

// %%
const LONG_LOW: &str = "long/low-amplification";
const LONG_HIGH: &str = "long/high-amplification";

/// Whether the cell is one of a long run, which is compared with that of one worker.
fn is_long(cell: &Row) -> bool {
    [LONG_LOW, LONG_HIGH].contains(&&*cell.key.bench)
}

/// TP under the published loads, in longer runs.
fn long_runs() -> Vec<Row> {
    let mut rows = vec![];
    for (bench, messages, amplification) in [(LONG_LOW, 20_000, 1), (LONG_HIGH, 200, 2_000)] {
        for workers in [1, 2, 8] {
            let load = Load { workers, producers: 2, messages, amplification };
            let parameter = format!("threads={workers} m={messages} a={amplification}");
            rows.push(Row::new(bench, TP, &parameter, load, Kind::Published));
        }
    }
    rows
}

// %% [markdown]
// Then latency: the last message of a burst, as published, and whole bursts.

// %%
/// The published latency, and whole bursts next to it. The largest burst is cut down where it is awaited wholly.
fn latency() -> Vec<Row> {
    let sizes = [("small", 1), ("medium", 100), ("large", 10_000)];
    let mut cells = vec![];
    let load = |amplification| Load { workers: 6, producers: 1, messages: 100, amplification };
    let mut add = |kind: &str, size: &str, amplification, pause: Duration, variants: &[Variant]| {
        let parameter = format!("threads=6 p=1 m=100 a={amplification} s={}ms", pause.as_millis());
        let bench = format!("{kind}/{size}-bursts");
        let kind = if kind == "latency" { Kind::LastOfBurst(pause) } else { Kind::WholeBurst(pause) };
        let rows = variants.iter().map(|&of| Row::new(&bench, of, &parameter, load(amplification), kind));
        cells.extend(rows);
    };
    for (size, amplification) in sizes {
        let crates = [X_CBCP, X_CBWP, X_NEVER_PARK];
        let all = [TP, CBCP, CBWP, NEVER_PARK, ONE_UNIT, LEAN_CBCP, LEAN_CBWP, LEAN_NEVER_PARK];
        let all = [&all[..], &crates].concat();
        add("latency", size, amplification, Duration::from_millis(100), &all);
    }
    for (size, amplification) in sizes {
        let all =
            [TP, CBCP, CBWP, NEVER_PARK, ONE_UNIT, LEAN_CBCP, LEAN_CBWP, LEAN_NEVER_PARK, RAYON, FUTURES];
        add("whole", size, amplification.min(1_000), Duration::from_millis(10), &all);
    }
    cells
}

// %% [markdown]
// ## The corrected experiment
//
// All jobs are awaited. `external` is a load without amplification: every job comes from outside. `internal` has long
// chains. First with empty jobs, on one to eight threads, where the steps from the described pools to the lean ones
// stand as well; then with jobs of a hundred to ten thousand steps. `no pool` runs the jobs of one thread where they are
// submitted.

// %%
/// Steps of work in a job, and how many times fewer jobs there are.
const WORKS: [(u16, u64); 3] = [(100, 4), (1_000, 20), (10_000, 100)];

/// Throughput of all jobs.
fn corrected_throughput(scale: Scale) -> Vec<Row> {
    let external = ("jobs/external", 10_000 * scale.messages, 0);
    let internal = ("jobs/internal", 50 * scale.messages, 500);
    let lean = [LEAN_CBCP, LEAN_CBWP, LEAN_NEVER_PARK, RAYON, RAYON_FIFO];
    let pinned = [PINNED_CBCP, PINNED_CBWP, X_PINNED_CBCP, X_PINNED_CBWP];
    let every = [TP, CBCP, CBWP, ONE_UNIT].into_iter().chain(pinned).chain(lean);
    let mut cells = vec![];
    for (bench, messages, amplification) in [external, internal] {
        let mut add = |variant: Variant, workers, steps, producers, fewer: u64| {
            let (messages, amplification) = match amplification {
                0 => (messages / fewer, 0),
                _ => (messages, amplification / fewer as u32),
            };
            let load = Load { workers, producers, messages, amplification };
            let parameter = format!("threads={workers} work={steps}");
            cells.push(Row::new(bench, variant, &parameter, load, Kind::All(Opaque::halves(steps))));
        };
        for workers in [8, 4, 2, 1] {
            every.clone().for_each(|variant| add(variant, workers, 0, 2, 1));
            if [2, 8].contains(&workers) {
                [FUTURES, BLOCKING].into_iter().for_each(|variant| add(variant, workers, 0, 2, 1));
                for steps in [&TO_LEAN_CBCP[..], &TO_LEAN_CBWP] {
                    steps[1..steps.len() - 1].iter().for_each(|&(variant, _)| add(variant, workers, 0, 2, 1));
                }
            }
        }
        for (steps, fewer) in WORKS {
            for variant in [TP, CBCP, CBWP, ONE_UNIT, LEAN_CBCP, LEAN_CBWP, RAYON] {
                add(variant, 2, steps, 2, fewer);
            }
            add(NO_POOL, 2, steps, 1, fewer);
        }
    }
    cells
}

// %% [markdown]
// The document says of jobs that come "from a single thread that isn't part of the threadpool" that its shared channel
// suits them best. Its tables have two such threads, and half of their jobs come from workers. So here is one.

// %%
/// All jobs from one thread outside, as many as from two.
fn single_producer(scale: Scale) -> Vec<Row> {
    let row = |workers| {
        let load = Load { workers, producers: 1, messages: 20_000 * scale.messages, amplification: 0 };
        let parameter = format!("threads={workers} p=1 work=0");
        [CBCP, CBWP, X_CBCP, X_CBWP]
            .map(|of| Row::new("jobs/external", of, &parameter, load, Kind::All(IDLE)))
    };
    [8, 4, 1].into_iter().flat_map(row).collect()
}

// %% [markdown]
// Every job of these loads ends on one counter. So here each worker has its own.

// %%
/// All jobs from outside, counted for each worker apart.
fn counted_apart(scale: Scale) -> Vec<Row> {
    let load = Load { workers: 2, producers: 2, messages: 10_000 * scale.messages, amplification: 0 };
    [TP, CBCP, CBWP, ONE_UNIT, LEAN_CBCP, LEAN_CBWP, RAYON]
        .map(|of| Row::new("jobs/external", of, "threads=2 work=0 counters=apart", load, Kind::Apart))
        .into()
}

// %% [markdown]
// Closures of 16 to 64 bytes, all from outside: ours store some of them in the job itself, the other two put each into a
// box.

// %%
/// The same load with closures of several sizes.
const BY_BYTES: &str = "jobs/closure";

fn closures(scale: Scale) -> Vec<Row> {
    let load = Load { workers: 2, producers: 2, messages: 10_000 * scale.messages, amplification: 0 };
    let row = |bytes| {
        let parameter = format!("threads=2 bytes={bytes}");
        [LEAN_CBWP, CBWP, ONE_UNIT, RAYON]
            .map(|of| Row::new(BY_BYTES, of, &parameter, load, Kind::Sized(bytes)))
    };
    SIZES.into_iter().flat_map(row).collect()
}

// %% [markdown]
// Trees, and idle pools.

// %%
/// Trees of 32,767 nodes.
fn trees() -> Vec<Row> {
    let pools = [CBCP, CBWP, ONE_UNIT, LEAN_CBCP, LEAN_CBWP, RAYON];
    let joins = [RAYON_JOIN, RAYON_SCOPE, CHILI, FORTE, LEAN_JOIN];
    let mut cells = vec![];
    for (workers, steps) in [(2, 0), (2, 100), (1, 0), (1, 100)] {
        let load = Load { workers, producers: 1, messages: 1, amplification: NODES as u32 - 1 };
        let parameter = format!("threads={workers} work={steps}");
        let variants = pools.into_iter().chain(joins);
        cells.extend(variants.map(|of| Row::new("tree", of, &parameter, load, Kind::Tree(steps))));
    }
    cells
}

/// What a pool costs others that has nothing to do.
fn without_work() -> Vec<Row> {
    let load = Load { workers: 6, producers: 0, messages: 0, amplification: 0 };
    let pools = [CBCP, CBWP, NEVER_PARK, LEAN_CBCP, LEAN_CBWP, LEAN_NEVER_PARK, TP, RAYON, NO_POOL];
    let cell = |bench, kind| pools.map(|of| Row::new(bench, of, "threads=6", load, kind));
    [cell("idle", Kind::Idle), cell("neighbour", Kind::Neighbour)].into_iter().flatten().collect()
}

// %% [markdown]
// Together, these are all rows.

// %%
/// Everything that is measured.
#[inline]
pub fn cells(scale: Scale) -> Vec<Row> {
    let parts = [
        published_throughput(scale),
        sizes(scale),
        long_runs(),
        latency(),
        corrected_throughput(scale),
        single_producer(scale),
        counted_apart(scale),
        closures(scale),
        trees(),
        without_work(),
    ];
    parts.into_iter().flatten().collect()
}

// %% [markdown]
// ## How each kind is sampled
//
// **Throughput as published**: a new pool for every run, made before and shut down after the timed part. What the last
// chains have left behind is dropped with it. A sample is one run, and one iteration of it is one job. A run with a
// tenth of the messages warms up. **Throughput of all jobs**: one pool for the trial, as nothing is left behind.
//
// **Latency**: a pause, then a burst, with one pool throughout; one iteration is one burst. The published program
// repeats this until the relative standard error of the mean is small enough, or there were too many: today 1 % and 100
// to 10,000 bursts, 10 % and 30 to 1000 when the tables were made. A sample here obeys the same rule with 10 % and the
// bounds of the profile, and has its relative standard error next to it. Rounds repeat it: over the 12 of a standard
// sitting there are at least 24 bursts, and the analysis asks for the error over all of them. The burst that warms a
// large cell up is a hundredth of its size.

// %%
/// Relative standard error of a mean that ends a sample of latency; the tables were made with the same.
const TARGET: f64 = 0.1;

/// Standard error of the mean over the mean; 0 for less than two.
fn relative_standard_error(times: &[f64]) -> f64 {
    let n = times.len() as f64;
    let mean = times.iter().sum::<f64>() / n;
    let squares: f64 = times.iter().map(|time| (time - mean).powi(2)).sum();
    if times.len() < 2 { 0.0 } else { (squares / (n - 1.0)).sqrt() / n.sqrt() / mean }
}

/// Bursts until the rule is content: their times in nanoseconds.
pub fn until_precise(bursts: (u64, u64), mut burst: impl FnMut() -> Duration) -> Vec<f64> {
    let (least, most) = bursts;
    let mut times = vec![];
    loop {
        times.push(burst().as_nanos() as f64);
        let number = times.len() as u64;
        if number >= most || number >= least && relative_standard_error(&times) <= TARGET {
            return times;
        }
    }
}

/// A sample of these bursts.
fn sample_of(times: &[f64]) -> Sample {
    let all = Duration::from_nanos(times.iter().sum::<f64>() as u64);
    Sample::new(times.len() as u64, all).with("rse_ppm", (1e6 * relative_standard_error(times)) as u64)
}

// %% [markdown]
// Two measurements need no pool: other threads that compute, and a pause.

// %%
/// Length of an idle pause, and steps of each neighbour's computation, whose time is that of the slowest: many turns of
/// a scheduler, which are some milliseconds each.
const PAUSE: Duration = Duration::from_millis(10);
const NEIGHBOUR: u32 = 20_000_000;

/// One computation for each processor, at the same time.
fn neighbours() {
    std::thread::scope(|scope| {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        (0..processors).for_each(|_| drop(scope.spawn(|| dependent_steps(NEIGHBOUR))));
    });
}

/// A sample of one iteration.
fn timed(work: impl FnOnce()) -> Sample {
    let start = Instant::now();
    work();
    Sample::new(1, start.elapsed())
}

// %% [markdown]
// A sample of whole bursts carries the quantiles of its messages.

// %%
/// Whole bursts, and when their messages have ended, in quantiles over all of them.
fn whole_bursts(bursts: (u64, u64), pause: Duration, load: &Load, pool: &dyn Bursts) -> Sample {
    let mut arrivals = distribution([]);
    let times = until_precise(bursts, || {
        std::thread::sleep(pause);
        let (time, of_burst) = pool.with_arrivals(load);
        arrivals.add(of_burst).expect("it grows as far as it must");
        time
    });
    let quantile = |share| arrivals.value_at_quantile(share);
    sample_of(&times)
        .with("p50_ns", quantile(0.5))
        .with("p90_ns", quantile(0.9))
        .with("p99_ns", quantile(0.99))
        .with("max_ns", arrivals.max())
}

// %% [markdown]
// Each kind, then, in one match.

// %%
impl Row {
    /// One trial.
    fn trial(&self, scale: Scale, bencher: &mut Bencher) {
        let (Self { variant, load, .. }, workers) = (self, self.load.workers);
        let mut warm = false;
        match self.kind {
            Kind::Published => bencher.samples(&mut || {
                let warms = !std::mem::replace(&mut warm, true);
                let messages = if warms { load.messages.div_ceil(10) } else { load.messages };
                let (load, mut time) = (Load { messages, ..*load }, Duration::ZERO);
                (variant.world)(workers, &mut |pool| time = pool.until_last(&load));
                Sample::new(load.jobs(), time)
            }),
            Kind::All(work) => (variant.world)(workers, &mut |pool| {
                bencher.samples(&mut || Sample::new(load.jobs(), pool.until_all(load, work)))
            }),
            Kind::Apart => (variant.world)(workers, &mut |pool| {
                bencher.samples(&mut || Sample::new(load.jobs(), pool.until_all_apart(load)))
            }),
            Kind::Sized(bytes) => (variant.world)(workers, &mut |pool| {
                bencher.samples(&mut || Sample::new(load.jobs(), pool.of_size(load, bytes)))
            }),
            Kind::LastOfBurst(pause) => (variant.world)(workers, &mut |pool| {
                bencher.samples(&mut || {
                    if !std::mem::replace(&mut warm, true) {
                        let few = Load { amplification: load.amplification.div_ceil(100), ..*load };
                        return sample_of(&[pool.until_last(&few).as_nanos() as f64]);
                    }
                    sample_of(&until_precise(scale.bursts, || {
                        std::thread::sleep(pause);
                        pool.until_last(load)
                    }))
                })
            }),
            Kind::WholeBurst(pause) => (variant.world)(workers, &mut |pool| {
                bencher.samples(&mut || whole_bursts(scale.bursts, pause, load, pool))
            }),
            Kind::Tree(steps) => (variant.tree_world)(workers, &mut |trees| {
                bencher.samples(&mut || Sample::new(NODES, trees.time(LEVELS, steps)))
            }),
            Kind::Idle => (variant.world)(workers, &mut |_| {
                bencher.samples(&mut || timed(|| std::thread::sleep(PAUSE)))
            }),
            Kind::Neighbour => (variant.world)(workers, &mut |_| bencher.samples(&mut || timed(neighbours))),
        }
    }
}

// %% [markdown]
// # The study
//
// Every bench under every parameter is a group of its own, with a control: work stealing as described a second time. (The
// long runs of TP are one for each load, with TP on one worker.)
// How threads interleave differs from run to run. So the limit is 10 % where jobs are timed, and 5 % for the
// neighbours' computation.

// %%
/// The cell that is measured twice in its group.
fn is_control(cell: &Row) -> bool {
    match cell.kind {
        _ if is_long(cell) => cell.load.workers == 1,
        Kind::Neighbour => cell.variant.name == NO_POOL.name,
        Kind::Idle => false,
        _ => [CBWP.name, DEFAULT.name].contains(&cell.variant.name),
    }
}

/// What one iteration is.
fn unit(kind: Kind) -> &'static str {
    match kind {
        Kind::Published | Kind::All(_) | Kind::Apart | Kind::Sized(_) | Kind::Tree(_) => "job",
        Kind::LastOfBurst(_) | Kind::WholeBurst(_) => "burst",
        Kind::Idle | Kind::Neighbour => "iteration",
    }
}

// %% [markdown]
// And the described counterpart of a lean pool.

// %%
/// The pool as described of a lean one.
fn described(of: &str, kind: Kind) -> Option<&'static str> {
    match of {
        "lean CBCP" => Some(CBCP.name),
        "lean CBWP" if kind == Kind::Published => Some(DEFAULT.name),
        "lean CBWP" => Some(CBWP.name),
        "lean CBWP (ws-no-park)" => Some(NEVER_PARK.name),
        _ => None,
    }
}

// %% [markdown]
// These are compared under every load that both have: the pools as described with their originals, and the lean ones
// with the described ones. Every pool with lean work stealing where all jobs are awaited and do nothing, and in small
// bursts. With no pool at all where jobs work, and for the neighbours. In bursts, also pools as described that differ in
// one thing.

// %%
/// With what a pool is compared under its load.
fn baselines(cell: &Row) -> Vec<&'static str> {
    let name = cell.variant.name;
    let stealing = if cell.kind == Kind::Published { DEFAULT.name } else { CBWP.name };
    if name == ONE_UNIT.name {
        return vec![stealing];
    }
    let one_unit = (name == LEAN_CBWP.name).then_some(ONE_UNIT.name);
    let pinned = name.strip_suffix(" (pinned)");
    let step = previous_step(name).map(|(before, _)| before).filter(|_| matches!(cell.kind, Kind::All(_)));
    let in_between = step.is_some() && !name.starts_with("lean");
    let of_the_field = [RAYON, RAYON_FIFO, FUTURES, BLOCKING].iter().any(|variant| variant.name == name);
    let (lean, nothing) = match cell.kind {
        Kind::Neighbour if name != NO_POOL.name => return vec![NO_POOL.name],
        Kind::Idle | Kind::Neighbour => return vec![],
        Kind::Tree(_) if name == RAYON_JOIN.name => return vec![],
        Kind::Tree(_) if name == LEAN_JOIN.name => return vec![RAYON_JOIN.name, CHILI.name, FORTE.name],
        Kind::Tree(_) => {
            return [described(name, cell.kind), one_unit, Some(RAYON_JOIN.name)]
                .into_iter()
                .flatten()
                .collect();
        }
        Kind::Published => (false, false),
        _ if in_between || pinned.is_some() => (false, false),
        Kind::All(work) => (work == IDLE || of_the_field, work != IDLE),
        Kind::Apart => (true, false),
        Kind::Sized(_) => (of_the_field, false),
        Kind::WholeBurst(_) if cell.load.amplification == 1 => (true, false),
        Kind::LastOfBurst(_) | Kind::WholeBurst(_) => {
            ([LEAN_CBCP.name, LEAN_NEVER_PARK.name].contains(&name) || of_the_field, false)
        }
    };
    let burst = matches!(cell.kind, Kind::LastOfBurst(_) | Kind::WholeBurst(_));
    let baselines = [
        original(name),
        described(name, cell.kind),
        one_unit,
        step,
        pinned,
        (burst && name == CBCP.name).then_some(TP.name),
        (cell.kind != Kind::Published && [CBCP.name, NEVER_PARK.name].contains(&name)).then_some(CBWP.name),
        lean.then_some(LEAN_CBWP.name),
        nothing.then_some(NO_POOL.name),
    ];
    // Not with itself, and not twice with its original or what was made of it.
    let known = |other: &str| original(other) == Some(name) || described(other, cell.kind) == Some(name);
    baselines.into_iter().flatten().filter(|other| *other != name && !known(other)).collect()
}

// %% [markdown]
// Each comparison describes the change in words.

// %%
/// What changes from one pool to another.
fn change(one: &str, other: &str) -> String {
    let changed = match (one, other) {
        _ if previous_step(one).is_some_and(|(before, _)| before == other) => {
            previous_step(one).map_or("", |(_, changed)| changed)
        }
        _ if one.strip_suffix(" (pinned)") == Some(other) => "workers bound to processors",
        (_, "no pool") => "a pool instead of none",
        ("CBWP (1 unit)", _) => "one codegen unit instead of 16",
        ("lean CBWP", "CBWP (1 unit)") => "lean instead of as described, both in one codegen unit",
        ("CBWP (ws-no-park)", "CBWP" | "CBWP (default-features)") => "workers that never park",
        ("CBWP (no ws-timed-fairness)", "CBWP (default-features)") => {
            "counting jobs instead of reading the clock"
        }
        ("CBWP (default-features)", "TP") => "work stealing instead of a queue behind a mutex",
        ("CBWP (default-features)", "CBCP") => "work stealing instead of one channel for all",
        ("CBCP", "CBWP") => "one channel for all instead of work stealing",
        ("CBCP", "TP") => "a channel instead of a queue behind a mutex",
        ("TP", "lean CBWP") => "a queue behind a mutex instead of lean work stealing",
        ("lean CBWP (ws-no-park)", "lean CBWP") => "workers that never park",
        ("lean CBCP", "lean CBWP") => "one channel for all instead of work stealing",
        _ if original(one) == Some(other) => "as described instead of the original",
        _ if one.strip_prefix("lean ").is_some_and(|rest| other.starts_with(rest)) => {
            "lean instead of as described"
        }
        _ => return format!("`{one}` instead of `{other}`"),
    };
    changed.to_owned()
}

// %% [markdown]
// Last come the cells of the published tables that the text compares: pools with each other, and with themselves on
// other numbers of threads. Work stealing is recommended before the shared channel, so these two are compared in all
// cells.

// %%
/// A pool with so many threads.
type OfThreads = (Variant, u32);

/// Cells of the published tables: the bench, the cell, and the one that it is compared with.
const PUBLISHED: [(&str, OfThreads, OfThreads); 14] = [
    (LOW, (CBCP, 4), (TP, 4)),
    (HIGH, (CBCP, 8), (TP, 8)),
    (LOW, (DEFAULT, 4), (TP, 4)),
    (HIGH, (DEFAULT, 8), (TP, 8)),
    (LOW, (TP, 8), (TP, 1)),
    (HIGH, (TP, 8), (TP, 1)),
    (HIGH, (DEFAULT, 2), (DEFAULT, 1)),
    (HIGH, (DEFAULT, 8), (DEFAULT, 1)),
    (LOW, (DEFAULT, 9), (DEFAULT, 4)),
    (LOW, (NEVER_PARK, 9), (NEVER_PARK, 4)),
    (LOW, (NEVER_PARK, 8), (DEFAULT, 8)),
    (HIGH, (NEVER_PARK, 8), (DEFAULT, 8)),
    (HIGH, (COUNTING, 8), (DEFAULT, 8)),
    (LOW, (COUNTING, 4), (DEFAULT, 4)),
];

// %% [markdown]
// All pairs, from these rules and this table.

// %%
/// Whether the cell is one of several sizes.
pub fn has_sizes(cell: &Row) -> bool {
    [LOW_BY_SIZE, HIGH_BY_SIZE, BY_BYTES].contains(&&*cell.key.bench)
}

/// Everything that is compared: the first, what it is compared with, and what changes.
pub fn comparisons(cells: &[Row]) -> Vec<(Key, Key, String)> {
    let mut all = vec![];
    for cell in cells {
        for other in baselines(cell) {
            let rival = Key { variant: other.to_owned(), ..cell.key.clone() };
            all.push((cell.key.clone(), rival, change(cell.variant.name, other)));
        }
    }
    let recommended = |bench| (1..=9).map(move |threads| (bench, (DEFAULT, threads), (CBCP, threads)));
    for (bench, (one, threads), (other, other_threads)) in
        [HIGH, LOW].into_iter().flat_map(recommended).chain(PUBLISHED)
    {
        let key = |variant: Variant, threads| Key::new(bench, variant.name, format!("threads={threads}"));
        let changed = match one.name == other.name {
            true => format!("{threads} threads instead of {other_threads}"),
            false => change(one.name, other.name),
        };
        all.push((key(one, threads), key(other, other_threads), changed));
    }
    for cell in cells.iter().filter(|cell| is_long(cell) && cell.load.workers > 1) {
        let same = |other: &&Row| is_long(other) && other.key.bench == cell.key.bench;
        if let Some(one) = cells.iter().find(same) {
            let changed = format!("{} threads instead of {}", cell.load.workers, one.load.workers);
            all.push((cell.key.clone(), one.key.clone(), changed));
        }
    }
    for cell in cells.iter().filter(|cell| cell.kind == Kind::Apart) {
        let parameter = format!("threads={} work=0", cell.load.workers);
        let shared = Key { parameter, ..cell.key.clone() };
        all.push((cell.key.clone(), shared, "a counter for each worker instead of one for all".to_owned()));
    }
    // Each size compared with the one before it.
    for (at, cell) in cells.iter().enumerate().filter(|(_, cell)| has_sizes(cell)) {
        let same =
            |other: &&Row| other.key.bench == cell.key.bench && other.variant.name == cell.variant.name;
        if let Some(smaller) = cells[..at].iter().rfind(same) {
            let change = match (cell.kind, smaller.kind) {
                (Kind::Sized(bytes), Kind::Sized(fewer)) => {
                    format!("closures of {bytes} bytes instead of {fewer}")
                }
                _ => format!("{} jobs instead of {}", cell.load.jobs(), smaller.load.jobs()),
            };
            all.push((cell.key.clone(), smaller.key.clone(), change));
        }
    }
    all.retain(|(_, other, _)| cells.iter().any(|cell| cell.key == *other));
    all
}

// %% [markdown]
// A proof is shared by all rows that run the same program; that with fewer workers is tested in `tests/program.rs`.

// %%
/// Everything, proven, as large as that. A cell whose proof fails is left out, and named.
pub fn study_of(scale: Scale) -> Study {
    let cells = cells(scale);
    let comparisons = comparisons(&cells);
    let mut study = Study::new("thread-pools").rounds(2, 12).isolated(LIMIT).instructions(false);
    let mut proofs = std::collections::HashMap::new();
    for cell in cells {
        let (key, load) = (cell.key.clone(), cell.load);
        let jobs = match cell.kind {
            Kind::All(work) => Jobs::Working(work),
            Kind::Apart => Jobs::Working(IDLE),
            Kind::Sized(bytes) => Jobs::Carrying(bytes),
            _ => Jobs::Published,
        };
        // With the most workers; the same program with fewer is tested apart from this.
        let proof = if load.jobs() > 0 {
            let program = (key.variant.clone(), load.jobs(), load.messages, jobs);
            let prove = || match cell.kind {
                Kind::Tree(steps) => prove_tree(&key, cell.variant.tree_world, load.workers, steps),
                _ => prove(&key, cell.variant.world, &load, jobs, LIMIT),
            };
            proofs.entry(program).or_insert_with(prove).clone()
        } else {
            Ok(())
        };
        let control = is_control(&cell);
        let limit = if cell.kind == Kind::Neighbour { limit::THREADS } else { limit::CROWDS };
        let group =
            if is_long(&cell) { key.bench.clone() } else { format!("{}, {}", key.bench, key.parameter) };
        study = study.group(group, limit).unit(unit(cell.kind)).samples(1);
        let exact = [
            ("units", 1),
            ("workers", load.workers as u64),
            ("producers", load.producers),
            ("burst_messages", load.chains()),
            ("amplification", u64::from(load.amplification)),
            ("burst_jobs", load.jobs()),
        ];
        study = study.counts(&key, exact);
        // From the corrected experiment on; elsewhere the process does more than what is timed.
        if matches!(
            cell.kind,
            Kind::WholeBurst(_) | Kind::All(_) | Kind::Apart | Kind::Sized(_) | Kind::Tree(_) | Kind::Idle
        ) {
            study = study.resources();
        }
        study = study.proven(key.clone(), proof, move |bencher: &mut Bencher| cell.trial(scale, bencher));
        if control {
            study = study.control_of(key);
        }
    }
    for (one, other, change) in comparisons {
        study = study.compare(one, other, change);
    }
    study
}

// %% [markdown]
// How large it is depends on the profile.

// %%
/// Everything, proven, as large as the profile that is set in the environment wants it.
///
/// # Errors
/// If the profile is none.
#[inline]
pub fn study() -> Result<Study, harness::Error> {
    let profile = harness::Profile::from_env()?;
    Ok(study_of(Scale::of(&profile.name)))
}

// %% [markdown]
// # Your own load
//
// The published program takes its parameters from the command line: threads of the pool and threads that submit,
// messages and amplification, work in each job, a pause before each burst. Here they are the arguments of a function. A
// cell below calls it.

// %%
/// A glance at some pools under a load: the first is what the others are compared with. The time is that of a job, or
/// of a burst where `kind` has a pause.
pub fn glance(variants: &[Variant], load: Load, kind: Kind) -> harness::Seen {
    let rows = variants.iter().map(|&variant| Row::new("glance", variant, "", load, kind));
    let study = rows.fold(Study::new("thread-pools").unit(unit(kind)).isolated(LIMIT), |study, row| {
        study.bench(row.key.clone(), move |bencher: &mut Bencher| row.trial(Scale::of("quick"), bencher))
    });
    study.glance(|_| true).unwrap_or_else(harness::stop)
}

// %% [markdown]
// # A glance
//
// All jobs are awaited (`Kind::All`), each does nothing. With work, for example 500 steps before it submits the next
// job and 100 after, write `Kind::All(Opaque { before: 500, after: 100 })`. Other kinds: `Kind::Published`, which
// awaits the last chains only, and `Kind::LastOfBurst` and `Kind::WholeBurst` with their pause. Change the load and run
// the cell again.

// %% tags=["active-ipynb", "glance"]
// glance(&[TP, CBCP, CBWP, LEAN_CBWP, RAYON], Load { workers: 2, producers: 2, messages: 2_000, amplification: 1 }, Kind::All(IDLE))

// %% [markdown]
// # Measurement
//
// Rounds follow one another; each runs everything above in random order, each trial in a process of its own.
//
// `quick` takes half a minute and shows that everything works; it is not evidence. For evidence, set the environment
// variable `ASYNC_COST_PROFILE` to `standard` or `thorough` before you start the kernel.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().unwrap_or_else(harness::stop).measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) takes ratios to the original, in the same round and under the same load: below 1, ours
// takes less time. It shows the published tables with them, marks where there were more threads than processors, and
// checks the claims.
//
// # What this does not say
//
// - Most jobs here do nothing. The more a job does, the smaller is the share of its pool.
// - Two threads submit, and they need processors, too. On a machine with two, every published cell is crowded.
// - The flags of the originals are fixed when they are compiled. Three of them are older versions for that reason.
// - A pause of 100 ms lets the workers fall asleep, not the processor: how deep that sleeps depends on the machine.
//
// # What next
//
// - Take another load in the glance above: one worker, one thread that submits, long chains.
// - [The lean pools](lean.ipynb) are made of parts that you can exchange.
