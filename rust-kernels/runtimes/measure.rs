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
// # nio against tokio, and what the difference is made of
//
// In January 2026 the author of nio, a runtime without work stealing, published a comparison with tokio: 59
// micro-benchmarks in ten tables. In one of them tokio is 242 times slower; in another nio is 13 times faster at
// sending a request and receiving a reply. Figures like these decide which runtime a project picks. Should they?
//
// A micro-benchmark of a runtime measures at least four things at once: how fast queues and tasks are, what the
// runtime's *policy* is (who gets a new task, how often the shared queue is looked at), how much its `block_on` differs
// from the other's `block_on`, and what waking a thread costs on the operating system at hand. Readers take such a table
// for the first alone.
//
// This notebook repeats all of it, plus the one table that was announced and left out, with three more runtimes: smol,
// where it makes sense async-std, and [our own executor](executor.ipynb). Then it adds the controls that take the four
// apart. After reading it you can decide which of the figures concern your program.

// %% [markdown]
// ## Compile cells as for a benchmark
//
// These settings give cells the profile of `cargo bench`. Without them, the harness refuses to measure.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep async-global-executor = "=2.4.1"
// :dep async-std = "=1.13.2"
// :dep futures = "=0.3.34"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep nio = "=0.1.4"
// :dep pin-project-lite = "=0.2.17"
// :dep rand = "=0.10.3"
// :dep runtimes-executor = { path = "../../rust-kernels/runtimes/executor" }
// :dep smol = "=2.0.2"
// :dep tokio = { version = "=1.54.1", features = ["full"] }

// %% [markdown]
// Five runtimes, and the channels of two crates. tokio has all its features, as in the published suites, so its mutexes
// are those of `parking_lot`. [What these alone change](std-mutex.ipynb) is measured apart.

// %%
use std::cell::Cell;
use std::fmt::{Debug, Write};
use std::future::{Future, poll_fn, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::task::{Context, Poll};
use std::thread::{self, LocalKey};
use std::time::{Duration, Instant};

use futures::channel::{mpsc, oneshot};
use futures::{FutureExt, Sink, SinkExt, Stream, StreamExt};
use harness::{Bencher, Counts, Key, Sample, Study, UnequalWork};
use pin_project_lite::pin_project;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use runtimes_executor::Settings;
use tokio::runtime::Builder;
use tokio::sync::{Notify, Semaphore};

// %% [markdown]
// # What is counted, and what is not timed
//
// Equal work is proven by counts. The suites note what happens, under the name that it has in the data: `spawns` and
// `ends` of tasks, `yields`, `calls` on threads for blocking calls, messages `sent` and `received`, `works` of
// receivers, permits `acquired`, operations on `timers`, and sleeps that ended too `early`. During timing, a note only
// reads a flag that never changes.

// %%
/// Whether anything is counted in this process, and what was.
static COUNTING: AtomicBool = AtomicBool::new(false);
static COUNTED: Mutex<Counts> = Mutex::new(Counts::new());

#[inline]
fn note(what: &'static str) {
    if COUNTING.load(Ordering::Relaxed) {
        count(what);
    }
}

#[cold]
fn count(what: &'static str) {
    *COUNTED.lock().expect("no panic inside").entry(what).or_default() += 1;
}

// %% [markdown]
// The suites share a yield, two ways to be busy, and some work for receivers of messages.

// %%
/// Is pending once, wakes its task, and is ready when it is polled again.
async fn pending_once() {
    let mut polled = false;
    poll_fn(|context| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn yield_now() {
    pending_once().await;
    note("yields");
}

/// Keeps the thread busy for so long; `pause` says whether other threads get its processor.
fn busy(microseconds: u64, pause: fn()) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(microseconds) {
        pause();
    }
}

/// What a receiver does with a message: prints ten random numbers and adds up the bytes. `room`: bytes that it reserves
/// for them.
fn do_work(random: &mut StdRng, room: usize) -> u32 {
    note("works");
    let mut message = String::with_capacity(room);
    for index in 1..=10 {
        write!(message, " {index}={}", random.random::<f64>()).expect("a string has room");
    }
    message.bytes().map(u32::from).fold(0, u32::wrapping_add)
}

// %% [markdown]
// # One trait, so that every suite is written once
//
// The published suites are compiled twice, with an adapter for each runtime. Ours are generic over a trait. First, what
// a runtime and a suite can be given. The published suites fix where the root of an iteration runs, and where tasks are
// spawned from; here it can be chosen.

// %%
/// Where the root of an iteration runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    /// In the runtime's own `block_on`.
    BlockOn,
    /// In a task, for which the outside thread waits.
    Task,
}

/// Where tasks are spawned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A thread that does not belong to the runtime.
    Outside,
    /// The root of `block_on`.
    Root,
    /// A task.
    Worker,
}

/// What is done with a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// Wrap a future that is ready in a timeout of a second, and await it.
    Timeout,
    /// The same with a future that is pending once, so that there is something to wait for.
    Pending,
    /// Make a sleep of a second and drop it.
    Unpolled,
    /// Make a sleep of a second, poll it once, drop it.
    Polled,
    /// Sleep for so many microseconds.
    Expires(u64),
}

// %% [markdown]
// With numbers, and two settings that only one runtime has, these make a load.

// %%
/// How a runtime and a suite are set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Worker threads.
    pub workers: usize,
    /// Whether one worker is a thread of its own in tokio as well, instead of the thread that calls `block_on`.
    pub threads: bool,
    /// Tasks that nio gives to a worker before it takes the next; its default, half as many as there are workers, if 0.
    pub packing: usize,
    /// Tasks that a worker of tokio runs between two looks at the shared queue; chosen by tokio if 0.
    pub interval: u32,
    /// Tasks, messages, or whatever there is a number of.
    pub n: usize,
    /// Where the root runs.
    pub driver: Driver,
    /// How long busy tasks stall, or how long each task works, in microseconds.
    pub busy_us: u64,
    /// Bytes that a receiver reserves for what it prints; none as published, so that its string grows.
    pub room: usize,
    /// What timers do.
    pub timer: Timer,
    /// Where tasks are spawned from.
    pub from: Origin,
}

impl Load {
    /// So many workers and so much of whatever there is a number of, with each runtime's defaults.
    pub const fn new(workers: usize, n: usize) -> Self {
        let (driver, timer, from) = (Driver::BlockOn, Timer::Timeout, Origin::Outside);
        Self { workers, threads: false, packing: 0, interval: 0, n, driver, busy_us: 0, room: 0, timer, from }
    }
}

// %% [markdown]
// The trait says what a suite may ask for. The runtimes implement it differently, most of all `block_on`.

// %%
/// The output of a task.
pub trait Output: Send + Unpin + 'static {}
impl<T: Send + Unpin + 'static> Output for T {}

/// What can be spawned.
pub trait Task<T>: Future<Output = T> + Send + 'static {}
impl<T, F: Future<Output = T> + Send + 'static> Task<T> for F {}

/// A runtime under test.
pub trait Runtime: Send + Sync + Sized + 'static {
    /// What a spawn gives back.
    type Handle<T: Output>: Future<Output = T> + Send + Unpin;
    /// Starts it.
    fn new(load: Load) -> Self;
    /// Starts a task, called by a task or by the root.
    fn spawn<T: Output>(task: impl Task<T>) -> Self::Handle<T>;
    /// Starts a task, called by a thread that does not belong to the runtime.
    fn spawn_outside<T: Output>(&self, task: impl Task<T>) -> Self::Handle<T> {
        Self::spawn(task)
    }
    /// As `spawn`; where the runtime knows such a thing, the task stays with one worker.
    fn spawn_pinned<T: Output>(task: impl Task<T>) -> Self::Handle<T> {
        Self::spawn(task)
    }
    /// Runs the root in the runtime's own way, and returns when it is ready.
    fn block_on(&self, root: impl Future<Output = ()> + Send);
    /// Makes a call on a thread for calls that block.
    fn spawn_blocking<T: Output>(call: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T>;
    /// Starts a task that does something with a timer, so many times; on nio, whose timers stay with their thread, a
    /// pinned one where the timer is polled.
    fn spawn_timers(timer: Timer, times: u64) -> Self::Handle<()>;
    /// Gives up a handle; the task runs on.
    fn detach(handle: Self::Handle<()>) {
        drop(handle);
    }
}

// %% [markdown]
// Three of the five runtimes return a `Result` from a join handle, because a task may have panicked. Here that would
// be the end of the trial, so it is unwrapped on the way.

// %%
/// A handle whose task is expected to have an output.
pub struct Unwrapped<H>(H);

impl<T, E: Debug, H: Future<Output = Result<T, E>> + Unpin> Future for Unwrapped<H> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(context).map(|output| output.expect("the task ends well"))
    }
}

// %% [markdown]
// Timers are the one thing whose type the trait cannot name: nio's stay with their thread, the others may move. So the
// tasks that use them are generic over the maker of timers, and each runtime starts them in its own way.

// %%
/// Makes timers.
pub trait Clock {
    /// Is ready after so long.
    fn sleep(duration: Duration) -> impl Future;
    /// Waits so long for a future.
    fn timeout(duration: Duration, future: impl Future<Output = u32> + Send) -> impl Future;
}

/// Longer than any trial's task lives.
const SECOND: Duration = Duration::from_secs(1);

/// Makes sleeps and drops them. Not in [`use_timers`], where nio's would stay with their thread.
fn drop_timers<C: Clock>(times: u64) {
    for _ in 0..times {
        note("timers");
        drop(black_box(C::sleep(SECOND)));
    }
}

/// Does something with timers, so many times.
async fn use_timers<C: Clock>(timer: Timer, times: u64) {
    if timer == Timer::Unpolled {
        return drop_timers::<C>(times);
    }
    for _ in 0..times {
        let mut early = false;
        match timer {
            Timer::Unpolled => {}
            Timer::Timeout => drop(black_box(C::timeout(SECOND, ready(black_box(1))).await)),
            Timer::Pending => {
                drop(black_box(C::timeout(SECOND, pending_once().map(|()| black_box(1))).await))
            }
            Timer::Polled => {
                let mut sleep = pin!(C::sleep(SECOND));
                poll_fn(|context| Poll::Ready(black_box(sleep.as_mut().poll(context).is_pending()))).await;
            }
            Timer::Expires(microseconds) => {
                let (start, length) = (Instant::now(), Duration::from_micros(microseconds));
                drop(C::sleep(length).await);
                early = start.elapsed() < length;
            }
        }
        note(if early { "early" } else { "timers" });
    }
}

// %% [markdown]
// ## tokio
//
// One worker is tokio's scheduler for the calling thread, as published; only the timer suite wants a thread for it.
// `block_on` polls the root on the calling thread. This is what
// [its documentation shows](https://docs.rs/tokio/latest/tokio/runtime/index.html): a runtime from a `Builder`, and its
// `block_on`.
//
// A worker of tokio that finds nothing to do waits in the drivers for sockets and time, where there are any: a system
// call that ours, which has no I/O driver, never makes. tokio's own suites for notifications, broadcasts, watches,
// permits, requests with a reply and spawns leave the drivers out, so these rows have `tokio (no drivers)`, too.

// %%
/// tokio.
pub struct Tokio(tokio::runtime::Runtime);

impl Tokio {
    /// Without drivers for sockets and time.
    fn without_drivers(load: Load) -> Self {
        Self::built(load, |builder| builder)
    }

    fn built(load: Load, drivers: fn(&mut Builder) -> &mut Builder) -> Self {
        let on_caller = load.workers == 1 && !load.threads;
        let mut builder = if on_caller { Builder::new_current_thread() } else { Builder::new_multi_thread() };
        if load.interval > 0 {
            builder.global_queue_interval(load.interval);
        }
        Self(drivers(builder.worker_threads(load.workers)).build().expect("threads for tokio"))
    }
}

impl Clock for Tokio {
    fn sleep(duration: Duration) -> impl Future {
        tokio::time::sleep(duration)
    }

    fn timeout(duration: Duration, future: impl Future<Output = u32> + Send) -> impl Future {
        tokio::time::timeout(duration, future)
    }
}

impl Runtime for Tokio {
    type Handle<T: Output> = Unwrapped<tokio::task::JoinHandle<T>>;

    fn new(load: Load) -> Self {
        Self::built(load, Builder::enable_all)
    }

    fn spawn<T: Output>(task: impl Task<T>) -> Self::Handle<T> {
        Unwrapped(tokio::spawn(task))
    }

    fn spawn_outside<T: Output>(&self, task: impl Task<T>) -> Self::Handle<T> {
        Unwrapped(self.0.spawn(task))
    }

    fn block_on(&self, root: impl Future<Output = ()> + Send) {
        self.0.block_on(root);
    }

    fn spawn_blocking<T: Output>(call: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        Unwrapped(tokio::task::spawn_blocking(call))
    }

    fn spawn_timers(timer: Timer, times: u64) -> Self::Handle<()> {
        Self::spawn(use_timers::<Self>(timer, times))
    }
}

// %% [markdown]
// ## nio
//
// `block_on` moves the root to worker 0, whatever the number of workers, and the calling thread sleeps until the
// root is ready. Runtime and `block_on` are those of
// [the document's own benchmarks](https://github.com/nurmohammed840/nio/tree/45921ca/benchmarks).

// %%
/// nio.
pub struct Nio(nio::Runtime);

impl Clock for Nio {
    fn sleep(duration: Duration) -> impl Future {
        nio::sleep(duration)
    }

    fn timeout(duration: Duration, future: impl Future<Output = u32> + Send) -> impl Future {
        nio::timeout(duration, future)
    }
}

impl Runtime for Nio {
    type Handle<T: Output> = Unwrapped<nio::JoinHandle<T>>;

    fn new(load: Load) -> Self {
        let workers = load.workers.try_into().expect("at most 255 workers");
        let mut builder = nio::RuntimeBuilder::new().worker_threads(workers);
        if load.packing > 0 {
            builder = builder.min_tasks_per_worker(load.packing);
        }
        Self(builder.rt().expect("threads for nio"))
    }

    fn spawn<T: Output>(task: impl Task<T>) -> Self::Handle<T> {
        Unwrapped(nio::spawn(task))
    }

    fn spawn_outside<T: Output>(&self, task: impl Task<T>) -> Self::Handle<T> {
        Unwrapped(self.0.spawn(task))
    }

    fn spawn_pinned<T: Output>(task: impl Task<T>) -> Self::Handle<T> {
        Unwrapped(nio::spawn_pinned(|| task))
    }

    fn block_on(&self, root: impl Future<Output = ()> + Send) {
        self.0.block_on(|| root);
    }

    fn spawn_blocking<T: Output>(call: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        Unwrapped(nio::spawn_blocking(call))
    }

    fn spawn_timers(timer: Timer, times: u64) -> Self::Handle<()> {
        match timer {
            Timer::Unpolled => Self::spawn(async move { drop_timers::<Self>(times) }),
            _ => Unwrapped(nio::spawn_pinned(move || use_timers::<Self>(timer, times))),
        }
    }
}

// %% [markdown]
// ## Ours
//
// The caller of `block_on` takes over the place of a worker that rests. So the root runs on the calling thread, as in
// tokio, *and* on a worker, as in nio. [Its notebook](executor.ipynb) is its documentation.
//
// No more of its workers are awake than there are processors, so a row with more workers compares that policy, too. In
// these rows `ours (all awake)` wakes up to all of them, as tokio and nio do.

// %%
/// The executor of the other notebook of this room.
pub struct Ours(runtimes_executor::Runtime);

impl Clock for Ours {
    fn sleep(duration: Duration) -> impl Future {
        runtimes_executor::sleep(duration)
    }

    fn timeout(duration: Duration, future: impl Future<Output = u32> + Send) -> impl Future {
        runtimes_executor::timeout(duration, future)
    }
}

impl Ours {
    /// As many workers are awake as there are, whatever the number of processors.
    fn all_awake(load: Load) -> Self {
        let settings = Settings { awake: load.workers, ..Settings::new(load.workers) };
        Self(runtimes_executor::Runtime::new(settings))
    }
}

impl Runtime for Ours {
    type Handle<T: Output> = Unwrapped<runtimes_executor::JoinHandle<T>>;

    fn new(load: Load) -> Self {
        Self(runtimes_executor::Runtime::new(Settings::new(load.workers)))
    }

    fn spawn<T: Output>(task: impl Task<T>) -> Self::Handle<T> {
        Unwrapped(runtimes_executor::spawn(task))
    }

    fn spawn_outside<T: Output>(&self, task: impl Task<T>) -> Self::Handle<T> {
        Unwrapped(self.0.spawn(task))
    }

    fn block_on(&self, root: impl Future<Output = ()> + Send) {
        self.0.block_on(root);
    }

    fn spawn_blocking<T: Output>(call: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        Unwrapped(runtimes_executor::spawn_blocking(call))
    }

    fn spawn_timers(timer: Timer, times: u64) -> Self::Handle<()> {
        Self::spawn(use_timers::<Self>(timer, times))
    }
}

// %% [markdown]
// ## Ours, with what tokio does for each task
//
// tokio does more for its users than ours does, and some of it for each task: where ours is faster, that may be why. Two
// of these services are added here around the tasks and handles of ours:
//
// - `ours (ids)`: a task has a number from a shared counter, which its thread knows during each poll. In tokio that is
//   [`task::id`](https://docs.rs/tokio/latest/tokio/task/fn.id.html).
// - `ours (budget)`: each poll has a [budget](https://docs.rs/tokio/latest/tokio/task/coop/index.html) of 128, from which
//   each join handle that is ready takes one. If none is left, the task wakes itself, and lets others run. (tokio's
//   channels and locks ask for its budget on all runtimes; only on tokio does one run out.)
// - `ours (ids, budget)` does both. Abort, metrics and sockets are not added; the rows of tokio without drivers say what
//   its drivers take.

// %%
/// What a poll may take.
pub const BUDGET: u8 = 128;

/// A later cell sees what is thread-local if it is in a module.
pub mod of_poll {
    use super::*;

    thread_local! {
        /// What is left for the poll that this thread is in; `None` outside of tasks with a budget.
        pub static LEFT: Cell<Option<u8>> = const { Cell::new(None) };
        /// The number of the task that this thread polls.
        pub static CURRENT: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// The number of the calling task, if it has one.
    pub fn task_id() -> Option<u64> {
        CURRENT.get()
    }

    /// Puts back what a thread had before.
    pub struct Restore<T: Copy + 'static>(&'static LocalKey<Cell<T>>, T);

    impl<T: Copy> Restore<T> {
        pub fn after(cell: &'static LocalKey<Cell<T>>, value: T) -> Self {
            Self(cell, cell.replace(value))
        }
    }

    impl<T: Copy> Drop for Restore<T> {
        fn drop(&mut self) {
            self.0.set(self.1);
        }
    }
}

pub use of_poll::*;

// %% [markdown]
// The number is in the task, as in tokio; a task without one has no room for it.

// %%
/// The services of a task: a number if `IDS` is 1, and a budget.
pub struct Services<const IDS: usize, const BUDGETED: bool>([u64; IDS]);

/// A later cell sees what a macro makes if it is in a module.
pub mod of_task {
    use super::*;

    pin_project! {
        /// A task with services.
        pub struct Served<F, S> {
            services: S,
            #[pin]
            task: F,
        }
    }

    impl<F, const IDS: usize, const BUDGETED: bool> Served<F, Services<IDS, BUDGETED>> {
        pub fn new(task: F) -> Self {
            static LAST: AtomicU64 = AtomicU64::new(0);
            Self { services: Services([(); IDS].map(|()| LAST.fetch_add(1, Ordering::Relaxed))), task }
        }
    }

    impl<F: Future, const IDS: usize, const BUDGETED: bool> Future for Served<F, Services<IDS, BUDGETED>> {
        type Output = F::Output;

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
            let this = self.project();
            let _id = this.services.0.first().map(|id| Restore::after(&CURRENT, Some(*id)));
            let _left = BUDGETED.then(|| Restore::after(&LEFT, Some(BUDGET)));
            this.task.poll(context)
        }
    }
}

pub use of_task::*;

/// A handle that takes from the budget of the poll, if `BUDGETED`.
pub struct Taking<H, const BUDGETED: bool>(pub H);

impl<H: Future + Unpin, const BUDGETED: bool> Future for Taking<H, BUDGETED> {
    type Output = H::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<H::Output> {
        let left = LEFT.get().filter(|_| BUDGETED);
        if left == Some(0) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        let polled = Pin::new(&mut self.0).poll(context);
        if polled.is_ready()
            && let Some(left) = left
        {
            LEFT.set(Some(left - 1));
        }
        polled
    }
}

// %% [markdown]
// The runtime is the same.

// %%
/// Our executor with these services.
pub struct OursServed<const IDS: usize, const BUDGETED: bool>(Ours);

impl<const IDS: usize, const BUDGETED: bool> Runtime for OursServed<IDS, BUDGETED> {
    type Handle<T: Output> = Taking<<Ours as Runtime>::Handle<T>, BUDGETED>;

    fn new(load: Load) -> Self {
        Self(Ours::new(load))
    }

    fn spawn<T: Output>(task: impl Task<T>) -> Self::Handle<T> {
        Taking(Ours::spawn(Served::<_, Services<IDS, BUDGETED>>::new(task)))
    }

    fn spawn_outside<T: Output>(&self, task: impl Task<T>) -> Self::Handle<T> {
        Taking(self.0.spawn_outside(Served::<_, Services<IDS, BUDGETED>>::new(task)))
    }

    fn block_on(&self, root: impl Future<Output = ()> + Send) {
        self.0.block_on(root);
    }

    fn spawn_blocking<T: Output>(call: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        Taking(Ours::spawn_blocking(call))
    }

    fn spawn_timers(timer: Timer, times: u64) -> Self::Handle<()> {
        Self::spawn(use_timers::<Ours>(timer, times))
    }
}

// %% [markdown]
// ## smol
//
// smol is an executor without threads of its own: any thread can run it. There are two ways to wait for a root,
// and they are two programs:
//
// - `smol` is what [`smol::spawn`](https://docs.rs/smol/latest/smol/fn.spawn.html) shows: threads in the background run the
//   executor, and `smol::block_on(root)` polls the root on the calling thread, and nothing but the root.
// - `smol (run)` is `smol::block_on(executor.run(root))`, after
//   [`Executor::run`](https://docs.rs/smol/latest/smol/struct.Executor.html#method.run), whose example has the `block_on` of
//   futures, which watches no sockets and timers. The calling thread runs tasks as well, as one of as many threads as
//   there are workers; a single worker is the calling thread, as in tokio.
//
// Where the root is a task, or a thread outside waits for the last task, `block_on` has no part, and there is one smol.
//
// It has no timeout of its own; this one is made as its documentation shows.

// %%
/// smol, with threads that run its executor; with `RUNS`, the caller of `block_on` is one of them.
pub struct Smol<const RUNS: bool = false>;

/// The executor of these threads; there is one such runtime in a process.
static SMOL_EXECUTOR: smol::Executor<'static> = smol::Executor::new();

async fn smol_timeout<T>(duration: Duration, future: impl Future<Output = T>) -> Option<T> {
    let late = async {
        smol::Timer::after(duration).await;
        None
    };
    smol::future::or(async { Some(future.await) }, late).await
}

impl<const RUNS: bool> Clock for Smol<RUNS> {
    fn sleep(duration: Duration) -> impl Future {
        smol::Timer::after(duration)
    }

    fn timeout(duration: Duration, future: impl Future<Output = u32> + Send) -> impl Future {
        smol_timeout(duration, future)
    }
}

// %% [markdown]
// Dropping a handle of smol cancels its task, so it is detached where others drop it.

// %%
impl<const RUNS: bool> Runtime for Smol<RUNS> {
    type Handle<T: Output> = smol::Task<T>;

    fn new(load: Load) -> Self {
        for _ in usize::from(RUNS)..load.workers {
            thread::spawn(|| smol::block_on(SMOL_EXECUTOR.run(std::future::pending::<()>())));
        }
        Self
    }

    fn spawn<T: Output>(task: impl Task<T>) -> smol::Task<T> {
        SMOL_EXECUTOR.spawn(task)
    }

    fn block_on(&self, root: impl Future<Output = ()> + Send) {
        if RUNS {
            smol::block_on(SMOL_EXECUTOR.run(root));
        } else {
            smol::block_on(root);
        }
    }

    fn spawn_blocking<T: Output>(call: impl FnOnce() -> T + Send + 'static) -> smol::Task<T> {
        smol::unblock(call)
    }

    fn spawn_timers(timer: Timer, times: u64) -> smol::Task<()> {
        Self::spawn(use_timers::<Self>(timer, times))
    }

    fn detach(handle: smol::Task<()>) {
        handle.detach();
    }
}

// %% [markdown]
// ## async-std
//
// Discontinued; its authors point to smol. It is measured in one suite, `rt_multi_threaded`, which is about its queues
// and about nothing else. Its threads are those of a global executor; here it gets their number. The root is polled by
// [`task::block_on`](https://docs.rs/async-std/latest/async_std/task/fn.block_on.html), as there.

// %%
/// async-std.
pub struct AsyncStd;

impl Runtime for AsyncStd {
    type Handle<T: Output> = async_std::task::JoinHandle<T>;

    fn new(load: Load) -> Self {
        let config = async_global_executor::GlobalExecutorConfig::default();
        let config = config.with_min_threads(load.workers).with_max_threads(load.workers);
        async_global_executor::init_with_config(config);
        Self
    }

    fn spawn<T: Output>(task: impl Task<T>) -> Self::Handle<T> {
        async_std::task::spawn(task)
    }

    fn block_on(&self, root: impl Future<Output = ()> + Send) {
        async_std::task::block_on(root);
    }

    fn spawn_blocking<T: Output>(call: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        async_std::task::spawn_blocking(call)
    }

    fn spawn_timers(timer: Timer, times: u64) -> Self::Handle<()> {
        Self::spawn(use_timers::<Smol>(timer, times))
    }
}

// %% [markdown]
// # How an iteration is driven
//
// A suite sets itself up on a runtime, and returns a function that does so many iterations and says how long they
// took. Nothing is shut down in here, and nothing of it freed: each trial has a process of its own, and ends with it.

// %%
/// Does so many iterations of a suite that is set up, and returns the time that they took.
pub type Iterations = Box<dyn FnMut(u64) -> Duration>;

/// Times so many iterations.
fn timed(mut iterate: impl FnMut() + 'static) -> Iterations {
    Box::new(move |iterations| {
        let start = Instant::now();
        for _ in 0..iterations {
            iterate();
        }
        start.elapsed()
    })
}

/// What lives until the process ends.
pub fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

// %% [markdown]
// Most suites call `block_on` once for each iteration, and what is compared is then two meanings of `block_on`.
// So each of them can also be driven in a way that means the same on every runtime: the root is a **task**, and
// the outside thread waits on a channel of the standard library until it is done.

// %%
/// Runs the root of one iteration.
fn run_root<R: Runtime>(runtime: &R, driver: Driver, root: impl Task<()>) {
    match driver {
        Driver::BlockOn => runtime.block_on(root),
        Driver::Task => {
            let (done, wait) = sync_channel(1);
            let task = async move {
                root.await;
                done.send(()).expect("the outside thread waits");
            };
            R::detach(runtime.spawn_outside(task));
            wait.recv().expect("the root ends");
        }
    }
}

/// Iterations of one root each.
fn roots<F: Task<()>>(
    runtime: &'static impl Runtime,
    load: Load,
    root: impl Fn() -> F + 'static,
) -> Iterations {
    timed(move || run_root(runtime, load.driver, root()))
}

// %% [markdown]
// In other suites `block_on` is not called: the last task reports to the outside thread, which waits for that.

// %%
/// Tasks that have not ended yet, of the iteration that runs.
static RUNNING: AtomicUsize = AtomicUsize::new(0);

/// Reports the end of a task, if it is the last.
fn report_last(done: &SyncSender<()>) {
    if RUNNING.fetch_sub(1, Ordering::Relaxed) == 1 {
        done.send(()).expect("the outside thread waits");
    }
}

/// Iterations that end with a report; `left` tasks have to end before, where they count.
fn until_reported(left: usize, begin: impl Fn(&SyncSender<()>) + 'static) -> Iterations {
    let (done, wait) = sync_channel(1000);
    timed(move || {
        RUNNING.store(left, Ordering::Relaxed);
        begin(&done);
        wait.recv().expect("the last task reports");
    })
}

// %% [markdown]
// Spawning and joining, with notes.

// %%
/// Starts a task from a task or from the root.
fn spawn<R: Runtime, T: Output>(task: impl Task<T>) -> R::Handle<T> {
    note("spawns");
    R::spawn(task)
}

/// Starts a task from outside.
fn spawn_outside<R: Runtime, T: Output>(runtime: &R, task: impl Task<T>) -> R::Handle<T> {
    note("spawns");
    runtime.spawn_outside(task)
}

/// Does nothing.
async fn empty_task() {
    note("ends");
}

/// Collects all handles, and so starts their tasks; then waits for them in order, and hands on their outputs.
async fn join<H: Future>(handles: impl Iterator<Item = H>, mut take: impl FnMut(H::Output)) {
    let handles: Vec<H> = handles.collect();
    for handle in handles {
        take(handle.await);
    }
}

/// Spawns so many tasks, and waits for them in order.
async fn spawn_and_join<R: Runtime, F: Task<()>>(n: usize, task: impl Fn() -> F) {
    join((0..n).map(|_| spawn::<R, _>(task())), drop).await;
}

// %% [markdown]
// After each kind of suite there is a glance at one of them, on tokio, nio and our executor.

// %%
/// How long one trial may take before it counts as hanging: far longer than any of them takes.
pub const LIMIT: Duration = Duration::from_secs(30);
pub const TOKIO: &str = "tokio";
pub const NIO: &str = "nio";
const OURS: &str = "ours";
const ASYNC_STD: &str = "async-std";
const NO_DRIVERS: &str = "tokio (no drivers)";
const SMOL: &str = "smol";
const SMOL_RUN: &str = "smol (run)";
const AWAKE: &str = "ours (all awake)";
const WITH_IDS: &str = "ours (ids)";
const WITH_BUDGET: &str = "ours (budget)";
const WITH_BOTH: &str = "ours (ids, budget)";

/// A suite on one runtime.
type Suite<R> = fn(&'static R, Load) -> Iterations;

fn measured<R: Runtime>(suite: Suite<R>, load: Load) -> impl Fn(&mut Bencher<'_>) {
    move |bencher| bencher.iter_custom(&mut *suite(leak(R::new(load)), load))
}

/// Looks at a suite on each runtime in turns, a second each, with a process for each trial.
pub fn glance(load: Load, tokio: Suite<Tokio>, nio: Suite<Nio>, ours: Suite<Ours>) -> harness::Seen {
    let key = |variant| Key::new("suite", variant, "");
    let study = Study::new("glance").baseline(TOKIO).isolated(LIMIT).bench(key(TOKIO), measured(tokio, load));
    let study = study.bench(key(NIO), measured(nio, load)).bench(key(OURS), measured(ours, load));
    study.control_of(key(TOKIO)).glance(|_| true).unwrap_or_else(harness::stop)
}

// %% [markdown]
// # The suites
//
// ## rt_current_thread
//
// One worker. The root spawns 1000 tasks that do nothing, and joins them; in the second test next to a task that does
// nothing but spawn its successor. Each suite of ours has the name of the published test, where one name is enough.

// %%
/// `rt_spawn_many_local`.
pub fn spawn_many_on_one<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    roots(runtime, load, move || spawn_and_join::<R, _>(load.n, empty_task))
}

/// `spawn_many_remote_busy`.
fn spawn_many_on_one_busy<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    R::detach(runtime.spawn_outside(async { chain::<R>(0) }));
    spawn_many_on_one(runtime, load)
}

/// Keeps the thread busy for so long, if at all, and spawns a task that does the same.
fn chain<R: Runtime>(microseconds: u64) {
    if microseconds > 0 {
        busy(microseconds, thread::yield_now);
    }
    R::detach(R::spawn(async move { chain::<R>(microseconds) }));
}

// %% [markdown]
// **A glance.** A thousand tasks that do nothing, on one worker. Try 10, or 10,000.

// %% tags=["active-ipynb", "glance"]
// glance(Load::new(1, 1000), spawn_many_on_one, spawn_many_on_one, spawn_many_on_one)

// %% [markdown]
// ## rt_multi_threaded
//
// Four workers. The names do not say what is done: `spawn_many_local` spawns from outside, `spawn_many_remote` from
// within the pool, `busy1` from the root and `busy2` from outside. In `spawn_many_remote` four tasks that stay with a
// worker spawn a quarter each.

// %%
pub fn spawn_many_local<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    until_reported(load.n, move |done| {
        for _ in 0..load.n {
            let done = done.clone();
            R::detach(spawn_outside(runtime, async move {
                note("ends");
                report_last(&done);
            }));
        }
    })
}

pub fn spawn_many_remote<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    async fn unit_task() -> usize {
        note("ends");
        1
    }
    async fn quarter<R: Runtime>(tasks: usize) -> usize {
        let mut sum = 0;
        join((0..tasks).map(|_| spawn::<R, _>(unit_task())), |output| sum += output).await;
        note("ends");
        sum
    }
    roots(runtime, load, move || async move {
        let pinned = |_| {
            note("spawns");
            R::spawn_pinned(quarter::<R>(load.n / 4))
        };
        let mut sum = 0;
        join((0..4).map(pinned), |part| sum += part).await;
        assert_eq!(sum, load.n);
    })
}

// %% [markdown]
// Three more are about spawning: with idle workers; next to eight tasks that stall and yield (with tokio's yield, as
// published, which wakes at once where there is no tokio); and next to four chains of tasks that stall and spawn their
// successors.

// %%
fn spawn_many_remote_idle<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    timed(move || {
        let handles: Vec<_> = (0..load.n).map(|_| spawn_outside(runtime, empty_task())).collect();
        run_root(runtime, load.driver, join(handles.into_iter(), drop));
    })
}

fn spawn_many_remote_busy1<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    for _ in 0..8 {
        R::detach(runtime.spawn_outside(async move {
            loop {
                tokio::task::yield_now().await;
                busy(load.busy_us, thread::yield_now);
            }
        }));
    }
    spawn_many_on_one(runtime, load)
}

fn spawn_many_remote_busy2<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    for _ in 0..4 {
        R::detach(runtime.spawn_outside(async move { chain::<R>(load.busy_us) }));
    }
    spawn_many_remote_idle(runtime, load)
}

// %% [markdown]
// The other three are about tasks that wake each other, or themselves. `ping_pong`: pairs of tasks greet and answer by
// two one-shot channels.

// %%
pub fn ping_pong<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    async fn pair<R: Runtime>(done: SyncSender<()>) {
        let (ping, pinged) = oneshot::channel();
        let (pong, ponged) = oneshot::channel();
        R::detach(spawn::<R, _>(async move {
            pinged.await.expect("a ping");
            note("received");
            note("ends");
            pong.send(()).expect("a task waits for the pong");
        }));
        ping.send(()).expect("a task waits for the ping");
        note("sent");
        ponged.await.expect("a pong");
        note("received");
        note("ends");
        report_last(&done);
    }
    until_reported(load.n, move |done| {
        let done = done.clone();
        R::detach(spawn_outside(runtime, async move {
            for _ in 0..load.n {
                R::detach(spawn::<R, _>(pair::<R>(done.clone())));
            }
        }));
    })
}

// %% [markdown]
// `yield_many`: tasks yield 1000 times each. `chained_spawn`: a task spawns a task, and so on; the last one reports.

// %%
fn yield_many<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    let (done, wait) = sync_channel(load.n);
    timed(move || {
        for _ in 0..load.n {
            let done = done.clone();
            R::detach(spawn_outside(runtime, async move {
                for _ in 0..1000 {
                    yield_now().await;
                }
                note("ends");
                done.send(()).expect("the outside thread waits");
            }));
        }
        (0..load.n).for_each(|_| wait.recv().expect("every task reports"));
    })
}

fn chained_spawn<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    fn link<R: Runtime>(done: SyncSender<()>, left: usize) {
        note("ends");
        if left == 0 {
            done.send(()).expect("the outside thread waits");
        } else {
            R::detach(spawn::<R, _>(async move { link::<R>(done, left - 1) }));
        }
    }
    until_reported(0, move |done| {
        let done = done.clone();
        R::detach(spawn_outside(runtime, async move { link::<R>(done, load.n) }));
    })
}

// %% [markdown]
// **A glance.** Pairs of tasks on four workers. Try one, or as many as you have processors.

// %% tags=["active-ipynb", "glance"]
// glance(Load::new(4, 1000), ping_pong, ping_pong, ping_pong)

// %% [markdown]
// ## spawn_blocking and spawn
//
// *n* tasks make 100 times 16 blocking calls each and wait for the sixteen. And a number of tasks compute something,
// yield once and return it.

// %%
pub fn spawn_blocking<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    async fn call_blocking<R: Runtime>() {
        fn call() -> usize {
            note("calls");
            0
        }
        for _ in 0..100 {
            join((0..16).map(|_| R::spawn_blocking(call)), |output| assert_eq!(output, 0)).await;
        }
        note("ends");
    }
    roots(runtime, load, move || spawn_and_join::<R, _>(load.n, call_blocking::<R>))
}

pub fn spawn_and_yield<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    async fn work() -> usize {
        let value = black_box(1) + black_box(1);
        yield_now().await;
        note("ends");
        black_box(value)
    }
    roots(runtime, load, move || {
        join((0..load.n).map(|_| spawn::<R, _>(work())), |output| assert_eq!(output, 2))
    })
}

// %% [markdown]
// **A glance.** A thousand tasks that yield once, on two workers.

// %% tags=["active-ipynb", "glance"]
// glance(Load::new(2, 1000), spawn_and_yield, spawn_and_yield, spawn_and_yield)

// %% [markdown]
// ## Channels
//
// Those of the futures crate, and broadcast, watch, `Notify` and `Semaphore` of tokio: the same on all runtimes. In
// broadcast and watch, *n* receivers do some work for each of 100 messages, and the last receiver of a round calls the
// sender. That work grows a string, so whether threads wait for each other's memory is part of these rows; in two more,
// the string has its room from the start.

// %%
/// Rounds of a broadcast or of a watch, in one iteration.
const ROUNDS: usize = 100;

/// Receivers that have not done the work of a round yet, and how the sender waits for them.
#[derive(Default)]
struct Round {
    left: AtomicUsize,
    over: Notify,
    /// As in a load.
    room: usize,
}

impl Round {
    fn of(load: Load) -> Self {
        Self { room: load.room, ..Self::default() }
    }

    /// What a receiver does with a message.
    fn receive(&self, random: &mut StdRng) {
        note("received");
        black_box(do_work(random, self.room));
        if self.left.fetch_sub(1, Ordering::Release) == 1 {
            self.over.notify_one();
        }
    }

    /// Sends in every round, and waits for so many receivers.
    async fn send_all(&self, receivers: usize, send: impl Fn(usize)) {
        for number in 0..ROUNDS {
            let left = self.left.fetch_add(receivers, Ordering::Relaxed);
            assert_eq!(left, 0, "a round begins before the last is over");
            note("sent");
            send(number);
            while self.left.load(Ordering::Acquire) != 0 {
                self.over.notified().await;
            }
        }
    }
}

// %% [markdown]
// A broadcast channel keeps what its receivers have not seen yet, up to 1000 messages; a watch keeps the last.

// %%
/// `sync_broadcast`.
fn broadcast<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    let (sender, unread) = tokio::sync::broadcast::channel(1000);
    let (sender, round) = (leak((sender, unread)), leak(Round::of(load)));
    for index in 0..load.n {
        let (mut receiver, mut random) = (sender.0.subscribe(), StdRng::seed_from_u64(index as u64));
        R::detach(runtime.spawn_outside(async move {
            while receiver.recv().await.is_ok() {
                round.receive(&mut random);
            }
        }));
    }
    let send = |number| assert!(sender.0.send(number).is_ok(), "there are receivers");
    roots(runtime, load, move || round.send_all(load.n, send))
}

/// `sync_watch`: the root of an iteration spawns one task, which sends.
fn watch<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    let (sender, receiver) = tokio::sync::watch::channel(0);
    let (sender, round) = (leak(sender), leak(Round::of(load)));
    for index in 0..load.n {
        let (mut receiver, mut random) = (receiver.clone(), StdRng::seed_from_u64(index as u64));
        R::detach(runtime.spawn_outside(async move {
            while receiver.changed().await.is_ok() {
                black_box(*receiver.borrow_and_update());
                round.receive(&mut random);
            }
        }));
    }
    let sending = move || async move {
        round.send_all(load.n, |_| sender.send(42).expect("there are receivers")).await;
        note("ends");
    };
    // Inside of `async`, for a task is spawned by the root, and not by the function that makes the root.
    roots(runtime, load, move || async move { spawn::<R, _>(sending()).await })
}

// %% [markdown]
// `request_reply`: one side asks, a task answers, 1000 times in turn.

// %%
/// `sync_mpsc_oneshot`.
pub fn request_reply<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    let (sender, mut requests) = mpsc::channel::<oneshot::Sender<()>>(10);
    let answering = async move {
        while let Some(reply) = requests.next().await {
            note("received");
            reply.send(()).expect("a task waits for the reply");
        }
    };
    // Spawned by the root, as published.
    runtime.block_on(async { R::detach(R::spawn(answering)) });
    roots(runtime, load, move || {
        let mut sender = sender.clone();
        async move {
            for _ in 0..load.n {
                let (reply, answer) = oneshot::channel();
                sender.send(reply).await.expect("the server runs");
                note("sent");
                answer.await.expect("an answer");
            }
        }
    })
}

// %% [markdown]
// `mpsc`: five tasks send to the root, 1000 messages each, or the root sends to itself.

// %%
/// Sends so many messages.
async fn send_all(mut sender: impl Sink<usize, Error: Debug> + Unpin, messages: usize) {
    for number in 0..messages {
        note("sent");
        sender.send(number).await.expect("the receiver runs");
    }
}

/// Receives so many messages.
async fn receive_all(mut receiver: impl Stream<Item = usize> + Unpin, messages: usize) {
    for _ in 0..messages {
        receiver.next().await.expect("a message");
        note("received");
    }
}

/// `contention/unbounded`.
fn mpsc_contended<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    roots(runtime, load, move || async move {
        let (sender, receiver) = mpsc::unbounded();
        for _ in 0..5 {
            R::detach(spawn::<R, _>(send_all(sender.clone(), load.n / 5)));
        }
        receive_all(receiver, load.n).await;
    })
}

/// `uncontented/unbounded`.
fn mpsc_alone<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    roots(runtime, load, move || async move {
        let (sender, receiver) = mpsc::unbounded();
        send_all(sender, load.n).await;
        receive_all(receiver, load.n).await;
    })
}

// %% [markdown]
// **A glance.** A thousand requests, one after the other, on one worker. Let the root be a task: `Load { driver:
// Driver::Task, ..Load::new(1, 1000) }`.

// %% tags=["active-ipynb", "glance"]
// glance(Load::new(1, 1000), request_reply, request_reply, request_reply)

// %% [markdown]
// ## sync_notify
//
// *n* tasks wait on one `Notify`, and count how often they are woken. The outside thread calls `notify_one` or
// `notify_waiters` as fast as it can until they have counted to 500. How often it has to call is up to the runtime;
// wakes that are left over count in the next iteration. That is the published definition, and a loose one.

// %%
/// Wake-ups of one iteration, at least.
const WAKE_UPS: usize = 500;

/// Waits until the tasks have counted to 500, calling `call` as fast as possible.
fn notify<R: Runtime>(runtime: &'static R, load: Load, call: fn(&Notify)) -> Iterations {
    let (notify, counter) = leak((Notify::new(), AtomicUsize::new(0)));
    for _ in 0..load.n {
        R::detach(runtime.spawn_outside(async move {
            loop {
                notify.notified().await;
                if load.busy_us > 0 {
                    busy(load.busy_us, std::hint::spin_loop);
                }
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    timed(move || {
        counter.store(0, Ordering::Relaxed);
        while counter.load(Ordering::Relaxed) < WAKE_UPS {
            call(notify);
        }
        (0..WAKE_UPS).for_each(|_| note("received"));
    })
}

pub fn notify_one<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    notify(runtime, load, Notify::notify_one)
}

pub fn notify_waiters<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    notify(runtime, load, Notify::notify_waiters)
}

// %% [markdown]
// How loose, the same loop says when it counts its calls: those that come before the task that they are to wake has run
// wake nothing. In some processes few are futile, in others nearly all, and the time differs likewise. So of these rows we
// only repeat what the document claims.

// %%
/// Calls of the outside thread, where they are counted, and iterations of a sample that counts them.
const COUNTED_ITERATIONS: u64 = 10;
static CALLS: AtomicUsize = AtomicUsize::new(0);

fn counted_notify_one<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    notify(runtime, load, |waiting| {
        CALLS.fetch_add(1, Ordering::Relaxed);
        waiting.notify_one();
    })
}

fn counted_notify_waiters<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    notify(runtime, load, |waiting| {
        CALLS.fetch_add(1, Ordering::Relaxed);
        waiting.notify_waiters();
    })
}

// %% [markdown]
// **Acknowledged.** Here no call is futile: the outside thread calls again when each task that was woken waits for the
// next wake, and has said so. Wakes and calls are counted exactly. The outside thread never sleeps, so with a worker for each
// processor one thread too many is busy, and times differ much between processes.

// %%
/// Wakes `woken` tasks at a time, 500 in all; each answers before the next call.
fn acknowledged<R: Runtime>(runtime: &'static R, load: Load, woken: usize, call: fn(&Notify)) -> Iterations {
    let (notify, counter) = leak((Notify::new(), AtomicUsize::new(0)));
    for _ in 0..load.n {
        R::detach(runtime.spawn_outside(async move {
            loop {
                let mut notified = pin!(notify.notified());
                let waits =
                    poll_fn(|context| Poll::Ready(notified.as_mut().poll(context).is_pending())).await;
                assert!(waits, "nothing wakes before the next call");
                counter.fetch_add(1, Ordering::Release);
                notified.await;
                note("received");
            }
        }));
    }
    let answers = |all: usize| {
        while counter.load(Ordering::Acquire) < all {
            std::hint::spin_loop();
        }
    };
    let mut all = load.n;
    answers(all);
    timed(move || {
        for _ in 0..WAKE_UPS / woken {
            note("calls");
            call(notify);
            all += woken;
            answers(all);
        }
    })
}

fn acknowledged_one<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    acknowledged(runtime, load, 1, Notify::notify_one)
}

fn acknowledged_waiters<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    acknowledged(runtime, load, load.n, Notify::notify_waiters)
}

// %% [markdown]
// **A glance.** A hundred tasks that wait on one `Notify`, on six workers. Let each of them compute for a while:
// `busy_us: 10`.

// %% tags=["active-ipynb", "glance"]
// glance(Load::new(6, 100), notify_one, notify_one, notify_one)

// %% [markdown]
// ## sync_semaphore
//
// The document announces this suite and has no table for it; the source was deleted two days before. Six acquirers and
// *n* permits: five, then there is contention, or ten. The acquirers are six tasks, six futures in one task, or one
// future six times in turn.

// %%
/// Acquires a permit, and gives it back.
async fn acquire(semaphore: &Semaphore) {
    let permit = semaphore.acquire().await.expect("it is never closed");
    note("acquired");
    drop(permit);
}

/// `concurrent_multi`.
pub fn semaphore_in_tasks<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    async fn acquire_in_task(semaphore: &Semaphore) {
        acquire(semaphore).await;
        note("ends");
    }
    let semaphore = leak(Semaphore::new(load.n));
    roots(runtime, load, move || async move {
        let task = || spawn::<R, _>(acquire_in_task(semaphore));
        futures::join!(task(), task(), task(), task(), task(), task());
    })
}

/// `concurrent_single`.
fn semaphore_in_futures<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    let semaphore = leak(Semaphore::new(load.n));
    roots(runtime, load, move || async move {
        let permit = || acquire(semaphore);
        futures::join!(permit(), permit(), permit(), permit(), permit(), permit());
    })
}

/// `multi`.
fn semaphore_in_turn<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    let semaphore = leak(Semaphore::new(load.n));
    roots(runtime, load, move || async move {
        for _ in 0..6 {
            acquire(semaphore).await;
        }
    })
}

// %% [markdown]
// **A glance.** Six tasks and five permits.

// %% tags=["active-ipynb", "glance"]
// glance(Load::new(6, 5), semaphore_in_tasks, semaphore_in_tasks, semaphore_in_tasks)

// %% [markdown]
// ## timer
//
// As many tasks as workers share the operations of a sample; what does not divide is dropped, as published. With eight
// workers the figure is a throughput: wall time by operations of all. We add `expiry`, where every task sleeps once,
// and its timer really expires.

// %%
/// Starts tasks that do something with timers, so many times each, and waits for them.
async fn timers_in_tasks<R: Runtime>(load: Load, times: u64) {
    let task = |_| {
        note("spawns");
        R::spawn_timers(load.timer, times)
    };
    join((0..load.n).map(task), drop).await;
}

/// The four tests of the timer suite, and those that we add: `load.timer` says what an operation is.
pub fn timer_operations<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    Box::new(move |operations| {
        let start = Instant::now();
        run_root(runtime, load.driver, timers_in_tasks::<R>(load, operations / load.n as u64));
        start.elapsed()
    })
}

fn expiry<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    roots(runtime, load, move || timers_in_tasks::<R>(load, 1))
}

// %% [markdown]
// **A glance.** A sleep that is made and dropped, on one worker. Try `Timer::Polled`.

// %% tags=["active-ipynb", "glance"]
// glance(Load { timer: Timer::Unpolled, threads: true, ..Load::new(1, 1) }, timer_operations, timer_operations, timer_operations)

// %% [markdown]
// ## What we add: where tasks are spawned from
//
// The same 1000 tasks that do nothing, spawned by the outside thread, by the root of `block_on`, or by a task; the last
// of them reports to the outside thread. In the published suites this differs from row to row, and from runtime to
// runtime.

// %%
pub fn spawn_from<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    async fn task(done: SyncSender<()>) {
        note("ends");
        report_last(&done);
    }
    until_reported(load.n, move |done| {
        let done = done.clone();
        if load.from == Origin::Outside {
            return (0..load.n).for_each(|_| R::detach(spawn_outside(runtime, task(done.clone()))));
        }
        let spawning = async move { (0..load.n).for_each(|_| R::detach(spawn::<R, _>(task(done.clone())))) };
        match load.from {
            Origin::Root => runtime.block_on(spawning),
            _ => R::detach(runtime.spawn_outside(spawning)),
        }
    })
}

// %% [markdown]
// **A glance.** A thousand tasks spawned by a task, on four workers. Try `Origin::Root`, and `Origin::Outside`.

// %% tags=["active-ipynb", "glance"]
// glance(Load { from: Origin::Worker, ..Load::new(4, 1000) }, spawn_from, spawn_from, spawn_from)

// %% [markdown]
// ## What we add: three programs
//
// Authors of a runtime know its benchmarks. So here are three programs that are in none of these suites, chosen
// before any of them was measured: messages through a line of tasks, a tree of tasks that wait for their halves, and
// tasks that keep a lock while others run. The root is a task, and there are as many workers as processors, on every
// runtime.

// %%
/// Channels of the pipeline; each but the last has a task that passes on what comes out of it.
const STAGES: usize = 6;

/// Messages go from task to task through bounded channels, to the root.
fn pipeline<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    roots(runtime, load, move || async move {
        let (sender, mut receiver) = mpsc::channel::<usize>(10);
        R::detach(spawn::<R, _>(send_all(sender, load.n)));
        for _ in 1..STAGES {
            let (mut next, output) = mpsc::channel(10);
            let mut input = std::mem::replace(&mut receiver, output);
            R::detach(spawn::<R, _>(async move {
                while let Some(number) = input.next().await {
                    note("sent");
                    next.send(number).await.expect("the receiver runs");
                }
            }));
        }
        for number in 0..load.n {
            assert_eq!(receiver.next().await, Some(number));
            note("received");
        }
    })
}

// %% [markdown]
// In `fork_join` a task spawns two for its halves, down to one leaf, and waits for both. In `locked` tasks take a lock
// ten times in turn, and yield while they have it.

// %%
pub fn fork_join<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    fn branch<R: Runtime>(leaves: usize) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            if leaves > 1 {
                let half = || spawn::<R, _>(branch::<R>(leaves / 2));
                for half in [half(), half()] {
                    half.await;
                }
            }
            note("ends");
        })
    }
    roots(runtime, load, move || branch::<R>(load.n))
}

fn locked<R: Runtime>(runtime: &'static R, load: Load) -> Iterations {
    let lock = leak(Semaphore::new(1));
    let task = move || async move {
        for _ in 0..10 {
            let permit = lock.acquire().await.expect("it is never closed");
            note("acquired");
            yield_now().await;
            drop(permit);
        }
        note("ends");
    };
    roots(runtime, load, move || spawn_and_join::<R, _>(load.n, task))
}

// %% [markdown]
// **A glance.** A tree of 1024 leaves, on four workers.

// %% tags=["active-ipynb", "glance"]
// glance(Load { driver: Driver::Task, ..Load::new(4, 1024) }, fork_join, fork_join, fork_join)

// %% [markdown]
// # The rows
//
// A row is a test with a load, on all runtimes that can have it, and with what one iteration of it must do. First all
// suites on all runtimes, by their names. (What is `inline` here is so for the kernel's sake: it compiles all items
// with every cell. As a program, which has the feature `program`, all rows are compiled once.)

// %%
/// Sets a suite up on one runtime.
pub type Start = fn(Load) -> Iterations;

/// The runtimes, by their names in the data.
const RUNTIMES: [&str; 11] =
    [TOKIO, NIO, OURS, SMOL, ASYNC_STD, NO_DRIVERS, SMOL_RUN, AWAKE, WITH_IDS, WITH_BUDGET, WITH_BOTH];

#[inline]
fn on_all(suite: &str, runtime: &str) -> Start {
    macro_rules! on_all {
        ($runtimes:tt $($suite:ident)*) => {
            match suite {
                $(stringify!($suite) => on_all!(@each $suite $runtimes),)*
                other => unreachable!("{other} is no suite"),
            }
        };
        (@each $suite:ident [$($name:pat => $new:path),*]) => {
            match runtime {
                $($name => |load| $suite(leak($new(load)), load),)*
                other => unreachable!("{other} is no runtime"),
            }
        };
    }
    if [WITH_IDS, WITH_BUDGET, WITH_BOTH].contains(&runtime) {
        return on_all! {
            [
                WITH_IDS => OursServed::<1, false>::new, WITH_BUDGET => OursServed::<0, true>::new,
                WITH_BOTH => OursServed::<1, true>::new
            ]
            spawn_and_yield request_reply spawn_from pipeline fork_join locked
        };
    }
    on_all! {
        [
            TOKIO => Tokio::new, NIO => Nio::new, OURS => Ours::new, SMOL => Smol::<false>::new,
            ASYNC_STD => AsyncStd::new, NO_DRIVERS => Tokio::without_drivers, SMOL_RUN => Smol::<true>::new,
            AWAKE => Ours::all_awake
        ]
        spawn_many_on_one spawn_many_on_one_busy spawn_many_local spawn_many_remote spawn_many_remote_idle
        spawn_many_remote_busy1 spawn_many_remote_busy2 ping_pong yield_many chained_spawn spawn_blocking
        spawn_and_yield broadcast watch request_reply mpsc_contended mpsc_alone notify_one notify_waiters
        counted_notify_one counted_notify_waiters acknowledged_one acknowledged_waiters semaphore_in_tasks
        semaphore_in_futures semaphore_in_turn timer_operations expiry spawn_from pipeline fork_join locked
    }
}

// %% [markdown]
// A row of the document may be measured under other loads, too.

// %%
/// One test under one load.
#[derive(Clone)]
pub struct Row {
    /// Suite and test.
    pub bench: String,
    /// What differs from the published load; the published table, where there are two.
    pub parameter: String,
    /// The function that sets it up, by its name.
    pub program: &'static str,
    /// How it is set up.
    pub load: Load,
    /// The runtimes that it is run on.
    pub runtimes: Vec<&'static str>,
    /// What one proof must count.
    pub expected: Counts,
    /// Iterations of one proof.
    pub iterations: u64,
}

// %% [markdown]
// Which runtimes a row has follows from the row:
//
// - tokio, nio and ours have all, and smol all but the longest, and the second table of `sync_notify`, which differs in a
//   setting of nio.
// - async-std has published rows of one suite.
// - tokio without drivers has the suites that tokio runs like this itself.
// - smol's second way has the published rows in which `block_on` waits for the root, and no worker must be a thread of its
//   own.
// - `ours (all awake)` has the published rows with so many workers that it may differ from `ours`, but for the longest.
// - Ours with services has a thousand tasks or messages, and programs, where a task drives them: there, services cost most.

// %%
/// The tables of `sync_notify`, by nio's setting; its default comes first.
const TABLES: [&str; 2] = ["table: min_tasks_per_worker=3", "table: min_tasks_per_worker=10"];
/// The suites that tokio runs without drivers itself.
const WITHOUT_DRIVERS: [&str; 6] =
    ["sync_notify", "sync_broadcast", "sync_watch", "sync_semaphore", "sync_mpsc_oneshot", "spawn"];
/// Programs whose iterations end with a report or an answer, and not with a root.
const WITHOUT_ROOT: [&str; 11] = [
    "spawn_many_local",
    "ping_pong",
    "yield_many",
    "chained_spawn",
    "notify_one",
    "notify_waiters",
    "counted_notify_one",
    "counted_notify_waiters",
    "acknowledged_one",
    "acknowledged_waiters",
    "spawn_from",
];
/// Suites with four or six workers.
const CROWDS: [&str; 6] =
    ["rt_multi_threaded", "sync_notify", "sync_broadcast", "sync_watch", "sync_semaphore", "sync_mpsc"];

// %% [markdown]
// A row begins on all runtimes that these rules give it; under another load they may give it others.

// %%
impl Row {
    fn new(
        bench: impl Into<String>,
        program: &'static str,
        load: Load,
        expected: &[(&'static str, usize)],
    ) -> Self {
        let (bench, parameter) = (bench.into(), String::new());
        let expected = expected.iter().map(|(name, count)| (*name, *count as u64)).collect();
        Self { bench, parameter, program, load, runtimes: vec![], expected, iterations: 1 }.on_its_runtimes()
    }

    /// On all runtimes that it can have, or is for.
    fn on_its_runtimes(mut self) -> Self {
        let (suite, load) = (self.suite(), self.load);
        let is_published = self.parameter.is_empty() || self.parameter == TABLES[0];
        let has = |runtime: &str| match runtime {
            SMOL => !self.is_long() && self.parameter != TABLES[1],
            ASYNC_STD => suite == "rt_multi_threaded" && is_published,
            NO_DRIVERS => WITHOUT_DRIVERS.contains(&suite),
            SMOL_RUN => is_published && self.waits_by_block_on() && !load.threads && !self.is_long(),
            AWAKE => is_published && CROWDS.contains(&suite) && load.workers > 1 && !self.is_long(),
            WITH_IDS | WITH_BUDGET | WITH_BOTH => match suite {
                "spawn_from" => load.from == Origin::Worker,
                "spawn" | "sync_mpsc_oneshot" => load.driver == Driver::Task && load.n == 1000,
                _ => suite == "programs",
            },
            _ => true,
        };
        self.runtimes = RUNTIMES.into_iter().filter(|name| has(name)).collect();
        self
    }
}

// %% [markdown]
// What the rules ask of a row, and rows that are made of it.

// %%
impl Row {
    /// Whether the outside thread waits for the root of an iteration, in the runtime's own `block_on`.
    fn waits_by_block_on(&self) -> bool {
        self.load.driver == Driver::BlockOn && !WITHOUT_ROOT.contains(&self.program)
    }

    /// Whether it is all computation, and takes long.
    fn is_long(&self) -> bool {
        ["broadcast", "watch"].contains(&self.program) && self.load.n > 100
    }

    /// The same test under another load.
    fn under(&self, parameter: impl Into<String>, change: impl FnOnce(&mut Load)) -> Self {
        let mut row = Self { parameter: parameter.into(), ..self.clone() };
        change(&mut row.load);
        row.on_its_runtimes()
    }

    /// On this runtime only.
    fn only(mut self, variant: &str) -> Self {
        self.runtimes.retain(|name| *name == variant);
        self
    }

    /// The suite, which is a group of the study.
    pub fn suite(&self) -> &str {
        self.bench.split('/').next().unwrap_or_default()
    }

    /// How it is called on this runtime.
    pub fn key(&self, variant: &str) -> Key {
        Key::new(&self.bench, variant, &self.parameter)
    }

    /// Its suite on this runtime.
    #[inline]
    pub fn start(&self, variant: &str) -> Start {
        on_all(self.program, variant)
    }
}

/// Processors that this process may use.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

// %% [markdown]
// The published rows, with their names and constants. `spawn_blocking` there stops at the number of processors; we go
// to 16 on every machine, as on the published one, and the analysis marks what exceeds it. First the suites of spawns.

// %%
/// What must be counted, by its name in the data.
type Expected<'a> = &'a [(&'static str, usize)];

#[inline]
fn spawn_rows() -> Vec<Row> {
    let (few, many) = ([("spawns", 1000), ("ends", 1000)], [("spawns", 10_000), ("ends", 10_000)]);
    let on_one_thread =
        |test, suite| Row::new(format!("rt_current_thread/{test}"), suite, Load::new(1, 1000), &few);
    let mut rows = vec![
        on_one_thread("rt_spawn_many_local", "spawn_many_on_one"),
        on_one_thread("spawn_many_remote_busy", "spawn_many_on_one_busy"),
    ];
    let four: [(&str, usize, Expected<'_>); 8] = [
        ("spawn_many_local", 10_000, &many),
        ("spawn_many_remote", 10_000, &[("spawns", 10_004), ("ends", 10_004)]),
        ("spawn_many_remote_idle", 10_000, &many),
        ("spawn_many_remote_busy1", 10_000, &many),
        ("spawn_many_remote_busy2", 1000, &few),
        ("ping_pong", 1000, &[("spawns", 2001), ("ends", 2000), ("sent", 1000), ("received", 2000)]),
        ("yield_many", 200, &[("spawns", 200), ("yields", 200_000), ("ends", 200)]),
        ("chained_spawn", 1000, &[("spawns", 1001), ("ends", 1001)]),
    ];
    rows.extend(four.map(|(test, n, expected)| {
        let load = Load { busy_us: 10, ..Load::new(4, n) };
        Row::new(format!("rt_multi_threaded/{test}"), test, load, expected)
    }));
    rows.extend([1, 2, 4, 8, 16].map(|n| {
        let name = format!("spawn_blocking/spawn_blocking/concurrency/{n}");
        let expected = [("spawns", n), ("ends", n), ("calls", 1600 * n)];
        Row::new(name, "spawn_blocking", Load::new(processors(), n), &expected)
    }));
    for (family, workers) in [("basic", 1), ("threaded", 2)] {
        rows.extend([10, 100, 1000, 10_000].map(|n| {
            let expected = [("spawns", n), ("yields", n), ("ends", n)];
            let name = format!("spawn/{family}_scheduler_spawn_{n}");
            Row::new(name, "spawn_and_yield", Load::new(workers, n), &expected)
        }));
    }
    rows
}

// %% [markdown]
// Then those of channels. The large broadcasts and watches are all computation, and long, so smol does not run them.

// %%
#[inline]
fn channel_rows() -> Vec<Row> {
    let mut rows = vec![];
    for n in [10, 100, 500, 1000] {
        let messages = [("sent", 100), ("received", 100 * n), ("works", 100 * n)];
        let with_task = [&messages[..], &[("spawns", 1), ("ends", 1)]].concat();
        let tests: [(_, _, Expected<'_>); 2] = [
            ("sync_broadcast/contention", "broadcast", &messages),
            ("sync_watch/contention_resubscribe", "watch", &with_task),
        ];
        rows.extend(tests.map(|(test, suite, expected)| {
            Row::new(format!("{test}/{n}"), suite, Load::new(6, n), expected)
        }));
    }
    for (test, workers) in [("request_reply", 1), ("request_reply #2", 2)] {
        let expected = [("sent", 1000), ("received", 1000)];
        let load = Load::new(workers, 1000);
        rows.push(Row::new(format!("sync_mpsc_oneshot/{test}"), "request_reply", load, &expected));
    }
    let (load, messages) = (Load::new(6, 5000), [("sent", 5000), ("received", 5000)]);
    let contended = [&messages[..], &[("spawns", 5)]].concat();
    rows.push(Row::new("sync_mpsc/contention/unbounded", "mpsc_contended", load, &contended));
    rows.push(Row::new("sync_mpsc/uncontented/unbounded", "mpsc_alone", load, &messages));
    rows
}

// %% [markdown]
// Those of notifications and permits. `sync_notify` has two published tables, one for each setting of nio; tokio was
// measured again with it.

// %%
#[inline]
fn sync_rows() -> Vec<Row> {
    let mut rows = vec![];
    for (table, packing) in TABLES.into_iter().zip([3, 10]) {
        for n in [10, 50, 100, 200, 500] {
            for suite in ["notify_one", "notify_waiters"] {
                let load = Load::new(6, n);
                let row =
                    Row::new(format!("sync_notify/{suite}/{n}"), suite, load, &[("received", WAKE_UPS)]);
                rows.push(row.under(table, |load| load.packing = packing));
            }
        }
    }
    let semaphores = [
        ("contention/concurrent_multi", "semaphore_in_tasks", 6, 5, 6),
        ("contention/concurrent_single", "semaphore_in_futures", 1, 5, 0),
        ("uncontented/multi", "semaphore_in_turn", 6, 10, 0),
        ("uncontented/concurrent_multi", "semaphore_in_tasks", 6, 10, 6),
        ("uncontented/concurrent_single", "semaphore_in_futures", 1, 10, 0),
    ];
    rows.extend(semaphores.map(|(test, suite, workers, permits, tasks)| {
        let expected = [("acquired", 6), ("spawns", tasks), ("ends", tasks)];
        Row::new(format!("sync_semaphore/{test}"), suite, Load::new(workers, permits), &expected)
    }));
    rows
}

// %% [markdown]
// And that of timers, with nio as published for it, and tokio with a thread even for one worker.

// %%
/// Operations of a proof of the timer suite, enough to be divided among all workers.
const OPERATIONS: usize = 8000;

#[inline]
fn timer_rows() -> Vec<Row> {
    let tests = [
        ("single_thread_timeout", 1, Timer::Timeout),
        ("multi_thread_timeout-8", 8, Timer::Timeout),
        ("single_thread_sleep", 1, Timer::Unpolled),
        ("multi_thread_sleep-8", 8, Timer::Unpolled),
    ];
    let row = |(test, workers, timer)| {
        let load = Load { timer, packing: 1, threads: true, ..Load::new(workers, workers) };
        let expected = [("spawns", workers), ("timers", workers * (OPERATIONS / workers))];
        let row = Row::new(format!("timer/{test}"), "timer_operations", load, &expected);
        Row { iterations: OPERATIONS as u64, ..row }
    };
    tests.map(row).into()
}

/// All published rows, and those of the suite that was left out.
#[inline]
pub fn published() -> Vec<Row> {
    [spawn_rows(), channel_rows(), sync_rows(), timer_rows()].concat()
}

// %% [markdown]
// # The controls that the published comparison lacks
//
// - `driver=task`: the root is a task, and the outside thread waits on a channel; the same on all runtimes. tokio then
//   has a thread even for one worker, as nio has. Every row that `block_on` waits for has such a twin, but those that
//   take long.
// - `workers=cores`: as many workers as this machine has processors, where the document has another number; with nio's
//   default packing, which is made for this number.
// - `spawn_from`: the same tasks spawned from outside, from the root, from a worker.
// - `global_queue_interval`: how often tokio's workers look at the queue that outside tasks go to.
// - `packing`: how many tasks nio gives to one worker before it takes the next.
// - `work`: each notified task computes for a while. `stall`: the busy tasks stall for less.
// - `polled` timers are registered before they are dropped, and the timers of `expiry` really expire. A timeout under
//   `pending` is around a future that is not ready at once: of one that is, some runtimes make no timer at all.
//
// - `acknowledged`: each wake is answered before the next. `calls counted`: how many calls the published loop makes.
//
// The first two are for many rows.

// %%
/// The published rows of these tests under another load; of two tables those of the first.
fn others(
    published: &[Row],
    tests: impl Fn(&Row) -> bool,
    parameter: &str,
    change: impl Fn(&mut Load),
) -> Vec<Row> {
    let rows = published.iter().filter(|row| row.parameter != TABLES[1] && tests(row));
    rows.map(|row| row.under(parameter, &change)).collect()
}

/// Those that `block_on` waits for, with a task as the root.
fn driven_by_tasks(rows: &[Row], parameter: &str) -> Vec<Row> {
    let tests = |row: &Row| row.waits_by_block_on() && !row.is_long();
    others(rows, tests, parameter, |load| (load.driver, load.threads) = (Driver::Task, true))
}

fn on_all_processors(published: &[Row]) -> Vec<Row> {
    let tests = |row: &Row| match row.suite() {
        "rt_multi_threaded" => true,
        "sync_broadcast" | "sync_watch" => row.load.n <= 100,
        "sync_notify" => [10, 500].contains(&row.load.n),
        _ => ["sync_mpsc/contention/unbounded", "sync_semaphore/contention/concurrent_multi"]
            .contains(&&*row.bench),
    };
    others(published, tests, "workers=cores", |load| (load.workers, load.packing) = (processors(), 0))
}

/// Notifications on as many workers as processors: with their calls counted, or each acknowledged.
fn exact_notifications(on_all_processors: &[Row]) -> Vec<Row> {
    let mut rows = vec![];
    for row in on_all_processors.iter().filter(|row| row.suite() == "sync_notify") {
        let each_wakes = if row.program == "notify_one" { 1 } else { row.load.n };
        let programs = match row.program {
            "notify_one" => ["counted_notify_one", "acknowledged_one"],
            _ => ["counted_notify_waiters", "acknowledged_waiters"],
        };
        for (program, word) in programs.into_iter().zip(["calls counted", "acknowledged"]) {
            let mut row = Row { program, ..row.under(format!("{word} workers=cores"), |_| ()) };
            if word == "acknowledged" {
                row.expected.insert("calls", (WAKE_UPS / each_wakes) as u64);
            }
            rows.push(row);
        }
    }
    rows
}

// %% [markdown]
// The others are for single tests.

// %%
/// Receivers reserve the room for what they print.
const RESERVED: &str = "message=reserved";

#[inline]
fn other_controls(published: &[Row]) -> Vec<Row> {
    let under = |test: &str, parameter: String, change: &dyn Fn(&mut Load)| {
        others(published, |row| row.bench == test, &parameter, change).remove(0)
    };
    let mut rows = vec![];
    for (from, word) in [(Origin::Outside, "outside"), (Origin::Root, "root"), (Origin::Worker, "worker")] {
        let load = Load { from, ..Load::new(processors(), 1000) };
        let row = Row::new("spawn_from/spawn_1000", "spawn_from", load, &[("spawns", 1000), ("ends", 1000)]);
        rows.push(Row { parameter: format!("from={word} workers=cores"), ..row });
    }
    let busy2 = "rt_multi_threaded/spawn_many_remote_busy2";
    rows.extend([1, 61].map(|interval| {
        let parameter = format!("global_queue_interval={interval}");
        under(busy2, parameter, &|load| load.interval = interval).only(TOKIO)
    }));
    rows.push(under(busy2, "stall=1us".to_owned(), &|load| load.busy_us = 1));
    let packed = |test: &str, packing| {
        under(test, format!("packing={packing}"), &|load| load.packing = packing).only(NIO)
    };
    for test in ["notify_one/10", "notify_one/500", "notify_waiters/500"] {
        rows.extend([1, 1000].map(|packing| packed(&format!("sync_notify/{test}"), packing)));
    }
    rows.push(packed("sync_mpsc_oneshot/request_reply #2", 1));
    rows.extend([1, 10].map(|busy_us| {
        under("sync_notify/notify_one/500", format!("work={busy_us}us"), &|load| load.busy_us = busy_us)
    }));
    rows.extend(["sync_broadcast/contention/100", "sync_watch/contention_resubscribe/100"].map(|test| {
        let mut row = under(test, RESERVED.to_owned(), &|load| load.room = 512);
        row.runtimes.retain(|name| [TOKIO, NIO, OURS].contains(name));
        row
    }));
    for (kind, name, timer) in [("sleep", "polled", Timer::Polled), ("timeout", "pending", Timer::Pending)] {
        for test in [format!("timer/single_thread_{kind}"), format!("timer/multi_thread_{kind}-8")] {
            rows.push(under(&test, name.to_owned(), &|load| load.timer = timer));
        }
    }
    let load = Load { timer: Timer::Expires(1000), ..Load::new(processors(), 100) };
    let expected = [("spawns", 100), ("timers", 100), ("early", 0)];
    let row = Row::new("timer/expiry", "expiry", load, &expected);
    rows.extend(driven_by_tasks(std::slice::from_ref(&row), "driver=task sleep=1ms tasks=100 workers=cores"));
    rows.push(Row { parameter: "sleep=1ms tasks=100 workers=cores".to_owned(), ..row });
    rows
}

// %% [markdown]
// Finally the programs that are in no document.

// %%
#[inline]
fn programs() -> Vec<Row> {
    let programs: [(&str, usize, Expected<'_>); 3] = [
        ("pipeline", 1000, &[("spawns", STAGES), ("sent", 1000 * STAGES), ("received", 1000)]),
        ("fork_join", 1024, &[("spawns", 2046), ("ends", 2047)]),
        ("locked", 100, &[("spawns", 100), ("acquired", 1000), ("yields", 1000), ("ends", 100)]),
    ];
    let row = |(name, n, expected): (&'static str, usize, Expected<'_>)| {
        let load = Load { driver: Driver::Task, threads: true, ..Load::new(processors(), n) };
        let row = Row::new(format!("programs/{name}"), name, load, expected);
        Row { parameter: "driver=task workers=cores".to_owned(), ..row }
    };
    programs.map(row).into()
}

/// All rows.
#[cfg_attr(not(feature = "program"), inline)]
pub fn rows() -> Vec<Row> {
    let published = published();
    let on_all = on_all_processors(&published);
    let controls = [
        driven_by_tasks(&published, "driver=task"),
        driven_by_tasks(&on_all, "driver=task workers=cores"),
        exact_notifications(&on_all),
        other_controls(&published),
        programs(),
    ];
    [published, controls.concat(), on_all].concat()
}

// %% [markdown]
// # Proof of equal work
//
// Two iterations of each row on each runtime, in a process of its own. What is counted when an iteration returns must be
// what the suite says, exactly. A runtime that loses a task never returns; it is killed after a while, and the error
// names the runtime.

// %%
/// Proves one row on one runtime.
///
/// # Errors
/// If it does other work than it should, or none: says which row on which runtime, and what is wrong.
pub fn prove(row: &Row, variant: &str, start: Start, limit: Duration) -> Result<(), UnequalWork> {
    let take = || std::mem::take(&mut *COUNTED.lock().expect("no panic inside"));
    let proof = harness::prove_isolated(row.key(variant), limit, &row.expected, || {
        COUNTING.store(true, Ordering::SeqCst);
        let mut iterations = start(row.load);
        [(), ()].map(|()| {
            drop(take());
            iterations(row.iterations);
            let mut seen: Counts = row.expected.keys().map(|name| (*name, 0)).collect();
            seen.extend(take());
            seen
        })
    });
    proof.map(drop)
}

// %% [markdown]
// What one iteration of the published rows does:

// %% tags=["active-ipynb"]
// for row in published() {
//     for variant in &row.runtimes {
//         prove(&row, variant, row.start(variant), LIMIT).unwrap_or_else(harness::stop);
//     }
//     let counts: Vec<String> = row.expected.iter().map(|(name, count)| format!("{count} {name}")).collect();
//     println!("{:<45} {}", row.bench, counts.join(", "));
// }

// %% [markdown]
// # The study
//
// Each suite is a group with a control of its own: one of its rows on tokio, measured a second time under another name.
// On one worker differences of 5 % count. On a shared machine several threads meet by chance, and how many of them are
// asleep differs from round to round; there it is 10 %. A trial is one sample, because more rounds say more than more
// samples.
//
// Processor time and voluntary context switches are taken in addition to wall time. They show a runtime that wins by
// letting a worker spin.

// %%
/// Half-width of what counts as equal in a suite.
fn limit(suite: &str) -> f64 {
    if ["rt_current_thread", "timer", "spawn"].contains(&suite) {
        harness::limit::THREADS
    } else {
        harness::limit::CROWDS
    }
}

/// The rows of which tokio is measured twice, one for each suite at least.
const CONTROLS: [(&str, &str); 14] = [
    ("rt_current_thread/rt_spawn_many_local", ""),
    ("rt_multi_threaded/spawn_many_remote", ""),
    ("rt_multi_threaded/yield_many", ""),
    ("spawn_blocking/spawn_blocking/concurrency/2", ""),
    ("spawn/basic_scheduler_spawn_1000", ""),
    ("sync_broadcast/contention/100", ""),
    ("sync_mpsc_oneshot/request_reply", ""),
    ("sync_mpsc/uncontented/unbounded", ""),
    ("sync_notify/notify_one/100", "table: min_tasks_per_worker=3"),
    ("sync_semaphore/uncontented/multi", ""),
    ("sync_watch/contention_resubscribe/100", ""),
    ("timer/single_thread_timeout", ""),
    ("spawn_from/spawn_1000", "from=worker workers=cores"),
    ("programs/fork_join", "driver=task workers=cores"),
];

// %% [markdown]
// Every runtime is compared with tokio in each of its rows; our executor also with nio, since the better of those two is
// not the same everywhere; and a runtime of which there are two with the other one. A setting that only one runtime has is
// compared with its default, as receivers that reserve room are with those that do not, and the two tables of one suite
// with each other. Last comes nio compared with a tokio that looks at its shared queue after every task.

// %%
/// What is compared in addition to every runtime with tokio: the first, what it is compared with, and what changes.
fn comparisons(rows: &[Row]) -> Vec<(Key, Key, String)> {
    let mut all = vec![];
    for row in rows {
        if row.runtimes.contains(&OURS) && row.runtimes.contains(&NIO) {
            all.push((row.key(OURS), row.key(NIO), "`ours` instead of `nio`".to_owned()));
        }
        let ours = [
            (AWAKE, "all workers are awake"),
            (WITH_IDS, "ids"),
            (WITH_BUDGET, "a budget"),
            (WITH_BOTH, "ids and a budget"),
        ];
        let alike = ours.map(|(variant, change)| (variant, OURS, change));
        for (variant, other, change) in alike.into_iter().chain([(SMOL_RUN, SMOL, "the caller runs tasks")]) {
            if row.runtimes.contains(&variant) {
                all.push((row.key(variant), row.key(other), change.to_owned()));
            }
        }
        if row.parameter == RESERVED {
            let alone = |variant: &&str| Key::new(&row.bench, *variant, "");
            let change = "receivers reserve room for their strings";
            all.extend(row.runtimes.iter().map(|name| (row.key(name), alone(name), change.to_owned())));
        }
        if let [variant] = row.runtimes[..] {
            let published = if row.suite() == "sync_notify" { TABLES[0] } else { "" };
            let change = format!("`{}` instead of the default", row.parameter);
            all.push((row.key(variant), Key::new(&row.bench, variant, published), change));
        }
    }
    for test in ["notify_one/10", "notify_one/500", "notify_waiters/10", "notify_waiters/500"] {
        let [few, many] = TABLES.map(|table| Key::new(format!("sync_notify/{test}"), NIO, table));
        all.push((many, few, "ten tasks for each worker instead of three".to_owned()));
    }
    let busy = |variant, parameter| Key::new("rt_multi_threaded/spawn_many_remote_busy2", variant, parameter);
    let change = "nio instead of a tokio that looks at its shared queue after every task";
    all.push((busy(NIO, ""), busy(TOKIO, "global_queue_interval=1"), change.to_owned()));
    all
}

// %% [markdown]
// The study puts it together. A row whose proof fails on a runtime is left out, and named.

// %%
/// A study of these rows on all their runtimes, proven.
pub fn study_of(name: &str, rows: &[Row], start: impl Fn(&Row, &str) -> Start) -> Study {
    let mut study = Study::new(name).baseline(TOKIO).rounds(2, 12).samples(1);
    study = study.isolated(LIMIT).resources().instructions(false);
    for row in rows {
        study = study.group(row.suite(), limit(row.suite()));
        for variant in &row.runtimes {
            let (key, load, start) = (row.key(variant), row.load, start(row, variant));
            let proof = prove(row, variant, start, LIMIT);
            let counts_calls = row.program.starts_with("counted");
            study = study.proven(key.clone(), proof, move |bencher: &mut Bencher| {
                let mut iterations = start(load);
                if !counts_calls {
                    return bencher.iter_custom(&mut *iterations);
                }
                bencher.samples(&mut || {
                    CALLS.store(0, Ordering::Relaxed);
                    let elapsed = iterations(COUNTED_ITERATIONS);
                    let calls = CALLS.load(Ordering::Relaxed) as u64;
                    Sample::new(COUNTED_ITERATIONS, elapsed).with("calls", calls)
                });
            });
            study = study.count(key.clone(), "workers", load.workers as u64);
            if row.iterations == 1 {
                study = study.counts(&key, row.expected.clone());
            }
        }
        if CONTROLS.contains(&(&row.bench, &row.parameter)) {
            study = study.control_of(row.key(TOKIO));
        }
    }
    study
}

/// All rows.
#[inline]
pub fn study() -> Study {
    let rows = rows();
    let study = study_of("runtimes", &rows, Row::start);
    let compared = comparisons(&rows).into_iter();
    compared.fold(study, |study, (key, other, change)| study.also_compare(key, other, change))
}

// %% [markdown]
// In the crate, the proofs are also a test in a file of its own, with runtimes that are broken on purpose.
//
// # A glance
//
// One published row on all its runtimes in turns, a second each: its time, and how many times that of the first.
// Nothing is kept, and nothing is concluded. Choose another row and run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().glance(|key| {
//     key.bench == "rt_current_thread/rt_spawn_many_local" && key.parameter.is_empty()
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// Rounds follow one another; each runs everything above in random order, each trial in a process of its own.
//
// `quick` takes less than half a minute and shows that everything works; it is not evidence. For evidence, set the
// environment variable `ASYNC_COST_PROFILE` to `standard` or `thorough` before you start the kernel.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) takes ratios to tokio in the same round, puts the published ratios and claims next to
// them, and says which of the gaps stay when the root is driven in the same way everywhere.
//
// # What this does not say
//
// - None of these tasks does anything useful for long. A row gives a difference for each task or message; its share of a
//   request depends on the request.
// - Nothing is read from a socket. How a runtime polls the operating system is not measured.
// - The published numbers of workers exceed the processors of many machines. Then the row measures how a runtime behaves
//   with too many threads; `workers=cores` avoids that.
// - `workers=1` means one thread in tokio and in smol's second way (the caller's), one other than the caller in nio and
//   smol, and in ours one at a time. How many threads were busy, the caller among them, is shown beside each ratio.
// - Which task has a turn while others stall, is a policy. The rows of `busy` tasks, of `packing` and of
//   `global_queue_interval` compare policies, and no speed.
