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
// runtime's *policy* is (who gets a new task, how often the shared queue is looked at), how much its `block_on`
// differs from the other's `block_on`, and what waking a thread costs on the operating system at hand. Only the
// first is what one reads into such a table.
//
// This notebook repeats all of it, plus the one table that was announced and left out, with three more runtimes:
// smol, where it makes sense async-std, and [our own executor](executor.ipynb). Then it adds the controls that take the four
// apart. When you have read it, you can decide which of the figures concern your program.

// %% [markdown]
// ## Compile cells as for a benchmark
//
// These settings give cells the profile of `cargo bench`. The harness looks, and refuses to measure without
// them.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_PROFILE_DEV_INCREMENTAL=false
// :dep async-global-executor = "=2.4.1"
// :dep async-std = "=1.13.2"
// :dep futures = "=0.3.34"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep nio = "=0.1.4"
// :dep rand = "=0.10.3"
// :dep runtimes-executor = { path = "../../rust-kernels/runtimes/executor" }
// :dep smol = "=2.0.2"
// :dep tokio = { version = "=1.54.1", features = ["rt-multi-thread", "sync", "time", "net"] }

// %%
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::future::{Future, poll_fn, ready};
use std::hint::black_box;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::thread;
use std::time::{Duration, Instant};

use futures::SinkExt;
use futures::StreamExt;
use futures::channel::{mpsc, oneshot};
use harness::{Bencher, Counts, Key, Study, UnequalWork};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::{Notify, Semaphore, broadcast, watch};

// %% [markdown]
// # What is noted, and what is not timed
//
// Equal work is proven by counts. The suites note what happens: each spawn, each task that has come to its end, each
// message, yield or call. When they are timed, a note is a look at a flag that never changes.

// %%
/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A task was handed to a spawn function.
    Spawn,
    /// The code of a task has run to its end.
    End,
    /// A yield of a task.
    Yield,
    /// A call on a thread for blocking calls.
    Call,
    /// A message sent.
    Sent,
    /// A message received.
    Received,
    /// The computation of a receiver.
    Work,
    /// A permit acquired.
    Acquired,
    /// An operation on a timer.
    Timer,
    /// A sleep that ended too early.
    Early,
}

/// All of them, with their names in the data.
const COUNTED: [(What, &str); 10] = [
    (What::Spawn, "spawns"),
    (What::End, "ends"),
    (What::Yield, "yields"),
    (What::Call, "calls"),
    (What::Sent, "sent"),
    (What::Received, "received"),
    (What::Work, "works"),
    (What::Acquired, "acquired"),
    (What::Timer, "timers"),
    (What::Early, "early"),
];

/// Whether anything is counted in this process.
static COUNTING: AtomicBool = AtomicBool::new(false);
static NOTED: [AtomicU64; COUNTED.len()] = [const { AtomicU64::new(0) }; COUNTED.len()];

#[inline]
fn note(what: What) {
    if COUNTING.load(Ordering::Relaxed) {
        NOTED[what as usize].fetch_add(1, Ordering::Relaxed);
    }
}

// %% [markdown]
// Three more pieces that the suites have in common: a yield, a stall, and some work for receivers of messages.

// %%
/// Yields once: wakes itself, and is ready when it is polled again.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    note(What::Yield);
}

/// Keeps the thread busy for so long, in a way that lets other threads have its processor.
fn stall(length: Duration) {
    let start = Instant::now();
    while start.elapsed() < length {
        thread::yield_now();
    }
}

/// What a receiver does with a message: prints ten random numbers and adds up the bytes.
fn do_work(random: &mut StdRng) -> u32 {
    note(What::Work);
    let mut message = String::new();
    for index in 1..=10 {
        write!(message, " {index}={}", random.random::<f64>()).expect("a string has room");
    }
    message.bytes().map(u32::from).fold(0, u32::wrapping_add)
}

// %% [markdown]
// # One trait, so that every suite is written once
//
// The published suites are compiled twice, with an adapter for each runtime. Ours are generic over a trait. It
// says what a suite may ask for; the runtimes differ in what they make of it, most of all in `block_on`.

// %%
/// How a runtime is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// Worker threads.
    pub workers: usize,
    /// Whether one worker is a thread of its own in tokio as well, instead of the thread that calls `block_on`.
    pub threads: bool,
    /// Tasks that nio gives to a worker before it takes the next; its default, half as many as there are workers, if 0.
    pub packing: usize,
    /// Tasks that a worker of tokio runs between two looks at the shared queue; chosen by tokio if 0.
    pub interval: u32,
}

impl Setup {
    /// So many workers, and each runtime's defaults.
    pub const fn new(workers: usize) -> Self {
        Self { workers, threads: false, packing: 0, interval: 0 }
    }
}

// %%
/// A runtime under test.
pub trait Runtime: Send + Sync + Sized + 'static {
    /// What a spawn gives back.
    type Handle<T: Send + Unpin + 'static>: Future<Output = T> + Send + Unpin;
    /// Starts it.
    fn new(setup: Setup) -> Self;
    /// Starts a task, called by a thread that does not belong to the runtime.
    fn spawn<T: Send + Unpin + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T>;
    /// Starts a task, called by a task or by the root.
    fn spawn_here<T: Send + Unpin + 'static>(
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T>;
    /// As `spawn_here`; where the runtime knows such a thing, the task stays with one worker.
    fn spawn_pinned<T: Send + Unpin + 'static>(
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T> {
        Self::spawn_here(task)
    }
    /// Runs the root in the runtime's own way, and returns when it is ready.
    fn block_on<T: Send>(&self, root: impl Future<Output = T> + Send) -> T;
    /// Makes a call on a thread for calls that block.
    fn blocking<T: Send + Unpin + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T>;
    /// Starts a task that does something with a timer, so many times; on nio, whose timers stay with their thread, a
    /// pinned one where the timer is polled.
    fn timers(timer: Timer, times: u64) -> Self::Handle<()>;
    /// Gives up a handle; the task runs on.
    fn let_go(handle: Self::Handle<()>) {
        drop(handle);
    }
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

/// Longer than any trial's task lives.
const SECOND: Duration = Duration::from_secs(1);

// %% [markdown]
// Timers are the one thing whose type the trait cannot name: nio's stay with their thread, the others may move. So the
// tasks that use them are generic over who makes them, and each runtime starts them in its own way.

// %%
/// Makes timers.
pub trait Clock {
    /// Is ready after so long.
    fn sleep(duration: Duration) -> impl Future;
    /// Waits so long for a future.
    fn timeout(duration: Duration, future: impl Future<Output = u32> + Send) -> impl Future;
}

/// Makes sleeps and drops them.
async fn unpolled<C: Clock>(times: u64) {
    for _ in 0..times {
        note(What::Timer);
        drop(black_box(C::sleep(SECOND)));
    }
}

/// Is pending once, wakes its task, and is ready when it is polled again.
fn pending_once() -> impl Future<Output = u32> + Send {
    let mut polled = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut polled, true) {
            return Poll::Ready(black_box(1));
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}

/// Does anything else with timers.
async fn polled<C: Clock>(timer: Timer, times: u64) {
    for _ in 0..times {
        let start = if let Timer::Expires(_) = timer { Some(Instant::now()) } else { None };
        match timer {
            Timer::Unpolled => {}
            Timer::Timeout => drop(black_box(C::timeout(SECOND, ready(black_box(1))).await)),
            Timer::Pending => drop(black_box(C::timeout(SECOND, pending_once()).await)),
            Timer::Polled => {
                let mut sleep = pin!(C::sleep(SECOND));
                poll_fn(|context| Poll::Ready(black_box(sleep.as_mut().poll(context).is_pending()))).await;
            }
            Timer::Expires(microseconds) => drop(C::sleep(Duration::from_micros(microseconds)).await),
        }
        let early = matches!(timer, Timer::Expires(microseconds) if start.is_some_and(|start| start.elapsed() < Duration::from_micros(microseconds)));
        note(if early { What::Early } else { What::Timer });
    }
}

// %% [markdown]
// ## tokio
//
// One worker is tokio's scheduler for the calling thread, as published; only the timer suite wants a thread for it.
// `block_on` polls the root on the calling thread.

// %%
/// tokio.
pub struct Tokio(tokio::runtime::Runtime);

impl Clock for Tokio {
    fn sleep(duration: Duration) -> impl Future {
        tokio::time::sleep(duration)
    }

    fn timeout(duration: Duration, future: impl Future<Output = u32> + Send) -> impl Future {
        tokio::time::timeout(duration, future)
    }
}

impl Runtime for Tokio {
    type Handle<T: Send + Unpin + 'static> = Unwrapped<tokio::task::JoinHandle<T>>;

    fn new(setup: Setup) -> Self {
        let mut builder = if setup.workers == 1 && !setup.threads {
            tokio::runtime::Builder::new_current_thread()
        } else {
            tokio::runtime::Builder::new_multi_thread()
        };
        if setup.interval > 0 {
            builder.global_queue_interval(setup.interval);
        }
        Self(builder.worker_threads(setup.workers).enable_all().build().expect("threads for tokio"))
    }

    fn spawn<T: Send + Unpin + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T> {
        Unwrapped(self.0.spawn(task))
    }

    fn spawn_here<T: Send + Unpin + 'static>(
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T> {
        Unwrapped(tokio::spawn(task))
    }

    fn block_on<T: Send>(&self, root: impl Future<Output = T> + Send) -> T {
        self.0.block_on(root)
    }

    fn blocking<T: Send + Unpin + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        Unwrapped(tokio::task::spawn_blocking(call))
    }

    fn timers(timer: Timer, times: u64) -> Self::Handle<()> {
        match timer {
            Timer::Unpolled => Self::spawn_here(unpolled::<Self>(times)),
            _ => Self::spawn_here(polled::<Self>(timer, times)),
        }
    }
}

// %% [markdown]
// ## nio
//
// `block_on` moves the root to worker 0, whatever the number of workers, and the calling thread sleeps until the
// root is ready.

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
    type Handle<T: Send + Unpin + 'static> = Unwrapped<nio::JoinHandle<T>>;

    fn new(setup: Setup) -> Self {
        let workers = setup.workers.try_into().expect("at most 255 workers");
        let mut builder = nio::RuntimeBuilder::new().worker_threads(workers);
        if setup.packing > 0 {
            builder = builder.min_tasks_per_worker(setup.packing);
        }
        Self(builder.rt().expect("threads for nio"))
    }

    fn spawn<T: Send + Unpin + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T> {
        Unwrapped(self.0.spawn(task))
    }

    fn spawn_here<T: Send + Unpin + 'static>(
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T> {
        Unwrapped(nio::spawn(task))
    }

    fn spawn_pinned<T: Send + Unpin + 'static>(
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T> {
        Unwrapped(nio::spawn_pinned(|| task))
    }

    fn block_on<T: Send>(&self, root: impl Future<Output = T> + Send) -> T {
        self.0.block_on(|| root)
    }

    fn blocking<T: Send + Unpin + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        Unwrapped(nio::spawn_blocking(call))
    }

    fn timers(timer: Timer, times: u64) -> Self::Handle<()> {
        match timer {
            Timer::Unpolled => Self::spawn_here(unpolled::<Self>(times)),
            _ => Unwrapped(nio::spawn_pinned(move || polled::<Self>(timer, times))),
        }
    }
}

// %% [markdown]
// ## Ours
//
// The caller of `block_on` takes the seat of a worker that rests. So the root runs on the calling thread, as in tokio,
// *and* on a worker, as in nio.

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

impl Runtime for Ours {
    type Handle<T: Send + Unpin + 'static> = Unwrapped<runtimes_executor::JoinHandle<T>>;

    fn new(setup: Setup) -> Self {
        Self(runtimes_executor::Runtime::new(runtimes_executor::Settings::new(setup.workers)))
    }

    fn spawn<T: Send + Unpin + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T> {
        Unwrapped(self.0.spawn(task))
    }

    fn spawn_here<T: Send + Unpin + 'static>(
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T> {
        Unwrapped(runtimes_executor::spawn(task))
    }

    fn block_on<T: Send>(&self, root: impl Future<Output = T> + Send) -> T {
        self.0.block_on(root)
    }

    fn blocking<T: Send + Unpin + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        Unwrapped(runtimes_executor::spawn_blocking(call))
    }

    fn timers(timer: Timer, times: u64) -> Self::Handle<()> {
        match timer {
            Timer::Unpolled => Self::spawn_here(unpolled::<Self>(times)),
            _ => Self::spawn_here(polled::<Self>(timer, times)),
        }
    }
}

// %% [markdown]
// ## smol
//
// smol is an executor without threads: who wants any, lets them run it. These here do nothing else. `smol::block_on`
// polls the root on the calling thread, and nothing but the root. Dropping a handle of smol cancels its task, so it
// is detached where others drop it.

// %%
/// smol, with threads that run its executor.
pub struct Smol;

/// The executor of these threads; there is one such runtime in a process.
fn smol_executor() -> &'static smol::Executor<'static> {
    static EXECUTOR: OnceLock<smol::Executor<'static>> = OnceLock::new();
    EXECUTOR.get_or_init(smol::Executor::new)
}

/// smol has no timeout of its own; this is how its documentation makes one.
async fn smol_timeout<T>(duration: Duration, future: impl Future<Output = T>) -> Option<T> {
    let late = async {
        smol::Timer::after(duration).await;
        None
    };
    smol::future::or(async { Some(future.await) }, late).await
}

impl Clock for Smol {
    fn sleep(duration: Duration) -> impl Future {
        smol::Timer::after(duration)
    }

    fn timeout(duration: Duration, future: impl Future<Output = u32> + Send) -> impl Future {
        smol_timeout(duration, future)
    }
}

// %%
impl Runtime for Smol {
    type Handle<T: Send + Unpin + 'static> = smol::Task<T>;

    fn new(setup: Setup) -> Self {
        for _ in 0..setup.workers {
            thread::spawn(|| smol::block_on(smol_executor().run(std::future::pending::<()>())));
        }
        Self
    }

    fn spawn<T: Send + Unpin + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> smol::Task<T> {
        smol_executor().spawn(task)
    }

    fn spawn_here<T: Send + Unpin + 'static>(
        task: impl Future<Output = T> + Send + 'static,
    ) -> smol::Task<T> {
        smol_executor().spawn(task)
    }

    fn block_on<T: Send>(&self, root: impl Future<Output = T> + Send) -> T {
        smol::block_on(root)
    }

    fn blocking<T: Send + Unpin + 'static>(call: impl FnOnce() -> T + Send + 'static) -> smol::Task<T> {
        smol::unblock(call)
    }

    fn timers(timer: Timer, times: u64) -> smol::Task<()> {
        match timer {
            Timer::Unpolled => Self::spawn_here(unpolled::<Self>(times)),
            _ => Self::spawn_here(polled::<Self>(timer, times)),
        }
    }

    fn let_go(handle: smol::Task<()>) {
        handle.detach();
    }
}

// %% [markdown]
// ## async-std
//
// Discontinued; its authors point to smol. It is measured where its own queues are, in the suites of spawns and of blocking
// calls. Its threads are those of a global executor, which is told here how many.

// %%
/// async-std.
pub struct AsyncStd;

impl Runtime for AsyncStd {
    type Handle<T: Send + Unpin + 'static> = async_std::task::JoinHandle<T>;

    fn new(setup: Setup) -> Self {
        let config = async_global_executor::GlobalExecutorConfig::default();
        async_global_executor::init_with_config(
            config.with_min_threads(setup.workers).with_max_threads(setup.workers),
        );
        Self
    }

    fn spawn<T: Send + Unpin + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T> {
        async_std::task::spawn(task)
    }

    fn spawn_here<T: Send + Unpin + 'static>(
        task: impl Future<Output = T> + Send + 'static,
    ) -> Self::Handle<T> {
        async_std::task::spawn(task)
    }

    fn block_on<T: Send>(&self, root: impl Future<Output = T> + Send) -> T {
        async_std::task::block_on(root)
    }

    fn blocking<T: Send + Unpin + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Self::Handle<T> {
        async_std::task::spawn_blocking(call)
    }

    fn timers(timer: Timer, times: u64) -> Self::Handle<()> {
        match timer {
            Timer::Unpolled => Self::spawn_here(unpolled::<Smol>(times)),
            _ => Self::spawn_here(polled::<Smol>(timer, times)),
        }
    }
}

// %% [markdown]
// # How an iteration is driven
//
// A suite sets itself up, and hands over its iterations: a function that does so many of them and says how long they
// took. Runtimes are never shut down in here; each trial has a process of its own, and ends with it.
//
// Most suites call `block_on` once for each iteration, and what is compared is then two meanings of `block_on`.
// So each of them can also be driven in a way that means the same on every runtime: the root is a **task**, and
// the outside thread waits on a channel of the standard library until it is done.

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

/// How a suite is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The runtime.
    pub setup: Setup,
    /// Tasks, messages, or whatever there is a number of.
    pub n: usize,
    /// Where the root runs.
    pub driver: Driver,
    /// How long busy tasks stall, or how long each task works, in microseconds.
    pub busy_us: u64,
    /// What timers do.
    pub timer: Timer,
    /// Where tasks are spawned from.
    pub from: Origin,
}

// %%
/// Is handed the iterations of a suite: a function that does so many and returns the time that they took.
pub type Drive<'a> = &'a mut dyn FnMut(&mut dyn FnMut(u64) -> Duration);

/// A suite, written once for all runtimes.
pub trait Suite {
    /// Sets it up for a load on a runtime, and hands its iterations to the drive.
    fn run<R: Runtime>(load: Load, drive: Drive<'_>);
}

/// A suite on one runtime.
pub type World = fn(Load, Drive<'_>);

impl Load {
    /// So many workers and so much of whatever there is a number of.
    pub const fn new(workers: usize, n: usize) -> Self {
        Self {
            setup: Setup::new(workers),
            n,
            driver: Driver::BlockOn,
            busy_us: 0,
            timer: Timer::Timeout,
            from: Origin::Outside,
        }
    }
}

// %%
/// Times so many iterations.
fn timed(iterations: u64, mut iterate: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..iterations {
        iterate();
    }
    start.elapsed()
}

/// Runs the root of one iteration.
fn run_root<R: Runtime>(runtime: &R, driver: Driver, root: impl Future<Output = ()> + Send + 'static) {
    match driver {
        Driver::BlockOn => runtime.block_on(root),
        Driver::Task => {
            let (done, wait) = sync_channel(1);
            let task = async move {
                root.await;
                done.send(()).expect("the outside thread waits");
            };
            R::let_go(runtime.spawn(task));
            wait.recv().expect("the root ends");
        }
    }
}

/// A suite of which one iteration is one root.
fn rooted<R: Runtime, F: Future<Output = ()> + Send + 'static>(
    load: Load,
    drive: Drive<'_>,
    runtime: &R,
    root: impl Fn() -> F,
) {
    drive(&mut |iterations| timed(iterations, || run_root(runtime, load.driver, root())));
}

/// A runtime that is not shut down.
fn started<R: Runtime>(setup: Setup) -> &'static R {
    Box::leak(Box::new(R::new(setup)))
}

// %%
/// Starts a task from a task or from the root, and notes it.
fn spawn<R: Runtime, T: Send + Unpin + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> R::Handle<T> {
    note(What::Spawn);
    R::spawn_here(task)
}

/// Starts a task from outside, and notes it.
fn spawn_outside<R: Runtime, T: Send + Unpin + 'static>(
    runtime: &R,
    task: impl Future<Output = T> + Send + 'static,
) -> R::Handle<T> {
    note(What::Spawn);
    runtime.spawn(task)
}

/// Does nothing, and notes its end.
async fn nothing() {
    note(What::End);
}

/// Spawns so many tasks, and waits for them in order.
async fn spawn_and_join<R: Runtime, F: Future<Output = ()> + Send + 'static>(n: usize, task: impl Fn() -> F) {
    let mut handles = Vec::with_capacity(n);
    handles.extend((0..n).map(|_| spawn::<R, _>(task())));
    for handle in handles {
        handle.await;
    }
}

// %% [markdown]
// # The suites
//
// ## rt_current_thread
//
// One worker. The root spawns 1000 tasks that do nothing, and joins them; in the second test next to a task that does
// nothing but spawn its successor.

// %%
/// `rt_spawn_many_local`.
pub struct SpawnManyOnOne;

impl Suite for SpawnManyOnOne {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        rooted(load, drive, runtime, || spawn_and_join::<R, _>(load.n, nothing));
    }
}

/// `spawn_many_remote_busy`.
pub struct SpawnManyOnOneBusy;

impl Suite for SpawnManyOnOneBusy {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        R::let_go(runtime.spawn(async { successor::<R>() }));
        rooted(load, drive, runtime, || spawn_and_join::<R, _>(load.n, nothing));
    }
}

/// Spawns a task that does the same.
fn successor<R: Runtime>() {
    R::let_go(R::spawn_here(async { successor::<R>() }));
}

// %% [markdown]
// ## rt_multi_threaded
//
// Four workers. The names do not say what is done: `spawn_many_local` spawns from outside, `spawn_many_remote` from within
// the pool, `busy1` from the root and `busy2` from outside.

// %%
/// `spawn_many_local`: outside spawns, the last task reports.
pub struct SpawnManyLocal;

impl Suite for SpawnManyLocal {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        static LEFT: AtomicUsize = AtomicUsize::new(0);
        let runtime = started::<R>(load.setup);
        let (done, wait) = sync_channel(1000);
        drive(&mut |iterations| {
            timed(iterations, || {
                LEFT.store(load.n, Ordering::Relaxed);
                for _ in 0..load.n {
                    let done = done.clone();
                    R::let_go(spawn_outside(runtime, async move {
                        note(What::End);
                        if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
                            done.send(()).expect("the outside thread waits");
                        }
                    }));
                }
                wait.recv().expect("the last task reports");
            })
        });
    }
}

// %%
/// `spawn_many_remote`: four tasks that stay with a worker spawn a quarter each, and join them.
pub struct SpawnManyRemote;

impl Suite for SpawnManyRemote {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        rooted(load, drive, runtime, move || async move {
            let quarter = || async move {
                let one = || {
                    spawn::<R, _>(async {
                        note(What::End);
                        1
                    })
                };
                let handles: Vec<_> = (0..load.n / 4).map(|_| one()).collect();
                let mut sum = 0;
                for handle in handles {
                    sum += handle.await;
                }
                note(What::End);
                sum
            };
            let pinned = |_| {
                note(What::Spawn);
                R::spawn_pinned(quarter())
            };
            let handles: Vec<_> = (0..4).map(pinned).collect();
            let mut sum = 0;
            for handle in handles {
                sum += handle.await;
            }
            assert_eq!(sum, load.n);
        });
    }
}

// %%
/// Spawns from outside, and joins in `block_on`.
fn spawn_outside_and_join<R: Runtime>(runtime: &R, load: Load) {
    let mut handles = Vec::with_capacity(load.n);
    handles.extend((0..load.n).map(|_| spawn_outside(runtime, nothing())));
    run_root(runtime, load.driver, async {
        for handle in handles {
            handle.await;
        }
    });
}

/// `spawn_many_remote_idle`.
pub struct SpawnManyRemoteIdle;

impl Suite for SpawnManyRemoteIdle {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        drive(&mut |iterations| timed(iterations, || spawn_outside_and_join(runtime, load)));
    }
}

/// `spawn_many_remote_busy1`: next to eight tasks that stall and yield. With tokio's yield, as published, which wakes at
/// once where there is no tokio.
pub struct SpawnManyRemoteBusy1;

impl Suite for SpawnManyRemoteBusy1 {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        static BUSY: AtomicBool = AtomicBool::new(true);
        let runtime = started::<R>(load.setup);
        for _ in 0..8 {
            R::let_go(runtime.spawn(async move {
                while BUSY.load(Ordering::Relaxed) {
                    tokio::task::yield_now().await;
                    stall(Duration::from_micros(load.busy_us));
                }
            }));
        }
        rooted(load, drive, runtime, || spawn_and_join::<R, _>(load.n, nothing));
        BUSY.store(false, Ordering::Relaxed);
    }
}

// %%
/// `spawn_many_remote_busy2`: next to four chains of tasks that stall and spawn their successors.
pub struct SpawnManyRemoteBusy2;

impl Suite for SpawnManyRemoteBusy2 {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        static BUSY: AtomicBool = AtomicBool::new(true);
        fn link<R: Runtime>(length: Duration) {
            if BUSY.load(Ordering::Relaxed) {
                stall(length);
                R::let_go(R::spawn_here(async move { link::<R>(length) }));
            }
        }
        let runtime = started::<R>(load.setup);
        for _ in 0..4 {
            R::let_go(runtime.spawn(async move { link::<R>(Duration::from_micros(load.busy_us)) }));
        }
        drive(&mut |iterations| timed(iterations, || spawn_outside_and_join(runtime, load)));
        BUSY.store(false, Ordering::Relaxed);
    }
}

// %%
/// `ping_pong`: pairs of tasks that greet and answer by two one-shot channels.
pub struct PingPong;

impl Suite for PingPong {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        static LEFT: AtomicUsize = AtomicUsize::new(0);
        async fn pair<R: Runtime>(done: SyncSender<()>) {
            let (ping, pinged) = oneshot::channel();
            let (pong, ponged) = oneshot::channel();
            R::let_go(spawn::<R, _>(async move {
                pinged.await.expect("a ping");
                note(What::Received);
                note(What::End);
                pong.send(()).expect("somebody waits for the pong");
            }));
            ping.send(()).expect("somebody waits for the ping");
            note(What::Sent);
            ponged.await.expect("a pong");
            note(What::Received);
            note(What::End);
            if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
                done.send(()).expect("the outside thread waits");
            }
        }
        let runtime = started::<R>(load.setup);
        let (done, wait) = sync_channel(1000);
        drive(&mut |iterations| {
            timed(iterations, || {
                LEFT.store(load.n, Ordering::Relaxed);
                let done = done.clone();
                R::let_go(spawn_outside(runtime, async move {
                    for _ in 0..load.n {
                        R::let_go(spawn::<R, _>(pair::<R>(done.clone())));
                    }
                }));
                wait.recv().expect("the last pair reports");
            })
        });
    }
}

// %%
/// `yield_many`: tasks that yield 1000 times.
pub struct YieldMany;

impl Suite for YieldMany {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        let (done, wait) = sync_channel(load.n);
        drive(&mut |iterations| {
            timed(iterations, || {
                for _ in 0..load.n {
                    let done = done.clone();
                    R::let_go(spawn_outside(runtime, async move {
                        for _ in 0..1000 {
                            yield_now().await;
                        }
                        note(What::End);
                        done.send(()).expect("the outside thread waits");
                    }));
                }
                (0..load.n).for_each(|_| wait.recv().expect("every task reports"));
            })
        });
    }
}

/// `chained_spawn`: a task spawns a task, and so on; the last one reports.
pub struct ChainedSpawn;

impl Suite for ChainedSpawn {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        fn link<R: Runtime>(done: SyncSender<()>, left: usize) {
            note(What::End);
            if left == 0 {
                done.send(()).expect("the outside thread waits");
            } else {
                R::let_go(spawn::<R, _>(async move { link::<R>(done, left - 1) }));
            }
        }
        let runtime = started::<R>(load.setup);
        let (done, wait) = sync_channel(1000);
        drive(&mut |iterations| {
            timed(iterations, || {
                let done = done.clone();
                R::let_go(spawn_outside(runtime, async move { link::<R>(done, load.n) }));
                wait.recv().expect("the last link reports");
            })
        });
    }
}

// %% [markdown]
// ## spawn_blocking and spawn
//
// *n* tasks make 100 times 16 blocking calls each and wait for the sixteen. And a number of tasks compute something, yield
// once and return it.

// %%
/// `spawn_blocking/concurrency/n`.
pub struct SpawnBlocking;

impl Suite for SpawnBlocking {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        rooted(load, drive, runtime, move || async move {
            let calling = || async {
                for _ in 0..100 {
                    let call = || {
                        R::blocking(|| {
                            note(What::Call);
                            0
                        })
                    };
                    let calls: Vec<_> = (0..16).map(|_| call()).collect();
                    for call in calls {
                        assert_eq!(call.await, 0);
                    }
                }
                note(What::End);
            };
            let handles: Vec<_> = (0..load.n).map(|_| spawn::<R, _>(calling())).collect();
            for handle in handles {
                handle.await;
            }
        });
    }
}

/// `basic_scheduler_spawn_c` and `threaded_scheduler_spawn_c`.
pub struct SpawnAndYield;

impl Suite for SpawnAndYield {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        rooted(load, drive, runtime, move || async move {
            let work = || async {
                let value = black_box(1) + black_box(1);
                yield_now().await;
                note(What::End);
                black_box(value)
            };
            let mut handles = Vec::with_capacity(load.n);
            handles.extend((0..load.n).map(|_| spawn::<R, _>(work())));
            for handle in handles {
                assert_eq!(handle.await, 2);
            }
        });
    }
}

// %% [markdown]
// ## Channels
//
// Those of the futures crate, and broadcast, watch, `Notify` and `Semaphore` of tokio: the same on all runtimes. In broadcast
// and watch, *n* receivers do some work for each of 100 messages, and whoever is the last of a round calls
// the sender.

// %%
/// Rounds of a broadcast or of a watch, in one iteration.
const ROUNDS: usize = 100;

/// Receivers that have not done the work of a round yet, and how the sender waits for them.
#[derive(Default)]
struct Round {
    left: AtomicUsize,
    over: Notify,
}

impl Round {
    fn begin(&self, receivers: usize) {
        assert_eq!(
            self.left.fetch_add(receivers, Ordering::Relaxed),
            0,
            "a round begins before the last is over"
        );
        note(What::Sent);
    }

    fn done(&self) {
        if self.left.fetch_sub(1, Ordering::Release) == 1 {
            self.over.notify_one();
        }
    }

    async fn ended(&self) {
        while self.left.load(Ordering::Acquire) != 0 {
            self.over.notified().await;
        }
    }
}

// %%
/// `sync_broadcast`.
pub struct BroadcastToAll;

impl Suite for BroadcastToAll {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        let (sender, _unread) = broadcast::channel::<usize>(1000);
        let round = Arc::new(Round::default());
        for index in 0..load.n {
            let (mut receiver, round) = (sender.subscribe(), Arc::clone(&round));
            let mut random = StdRng::seed_from_u64(index as u64);
            R::let_go(runtime.spawn(async move {
                while receiver.recv().await.is_ok() {
                    note(What::Received);
                    black_box(do_work(&mut random));
                    round.done();
                }
            }));
        }
        rooted(load, drive, runtime, || {
            let (sender, round) = (sender.clone(), Arc::clone(&round));
            async move {
                for number in 0..ROUNDS {
                    round.begin(load.n);
                    sender.send(number).expect("there are receivers");
                    round.ended().await;
                }
            }
        });
    }
}

// %%
/// `sync_watch`: the root of an iteration spawns one task, which sends.
pub struct WatchByAll;

impl Suite for WatchByAll {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        let (sender, receiver) = watch::channel(0);
        let (sender, round) = (Arc::new(sender), Arc::new(Round::default()));
        for index in 0..load.n {
            let (mut receiver, round) = (receiver.clone(), Arc::clone(&round));
            let mut random = StdRng::seed_from_u64(index as u64);
            R::let_go(runtime.spawn(async move {
                while receiver.changed().await.is_ok() {
                    black_box(*receiver.borrow_and_update());
                    note(What::Received);
                    black_box(do_work(&mut random));
                    round.done();
                }
            }));
        }
        rooted(load, drive, runtime, || {
            let (sender, round) = (Arc::clone(&sender), Arc::clone(&round));
            async move {
                let sending = spawn::<R, _>(async move {
                    for _ in 0..ROUNDS {
                        round.begin(load.n);
                        sender.send(42).expect("there are receivers");
                        round.ended().await;
                    }
                    note(What::End);
                });
                sending.await;
            }
        });
    }
}

// %% [markdown]
// `request_reply`: somebody asks, a task answers, 1000 times in turn. `mpsc`: five tasks send to the root, or the root
// sends to itself.

// %%
/// `sync_mpsc_oneshot`.
pub struct RequestReply;

impl Suite for RequestReply {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        let (sender, mut requests) = mpsc::channel::<oneshot::Sender<()>>(10);
        R::let_go(runtime.spawn(async move {
            while let Some(reply) = requests.next().await {
                note(What::Received);
                reply.send(()).expect("somebody waits for the reply");
            }
        }));
        rooted(load, drive, runtime, || {
            let mut sender = sender.clone();
            async move {
                for _ in 0..load.n {
                    let (reply, answer) = oneshot::channel();
                    sender.send(reply).await.expect("somebody answers");
                    note(What::Sent);
                    answer.await.expect("an answer");
                }
            }
        });
    }
}

// %%
/// `contention/unbounded`: 5 tasks send 1000 messages each.
pub struct MpscContention;

impl Suite for MpscContention {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        rooted(load, drive, runtime, move || async move {
            let (sender, mut receiver) = mpsc::unbounded::<usize>();
            for _ in 0..5 {
                let mut sender = sender.clone();
                R::let_go(spawn::<R, _>(async move {
                    for number in 0..load.n / 5 {
                        note(What::Sent);
                        sender.send(number).await.expect("somebody receives");
                    }
                }));
            }
            for _ in 0..load.n {
                receiver.next().await.expect("a message");
                note(What::Received);
            }
        });
    }
}

/// `uncontented/unbounded`: the root sends to itself.
pub struct MpscAlone;

impl Suite for MpscAlone {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        rooted(load, drive, runtime, move || async move {
            let (mut sender, mut receiver) = mpsc::unbounded::<usize>();
            for number in 0..load.n {
                sender.send(number).await.expect("somebody receives");
                note(What::Sent);
            }
            for _ in 0..load.n {
                receiver.next().await.expect("a message");
                note(What::Received);
            }
        });
    }
}

// %% [markdown]
// ## sync_notify
//
// *n* tasks wait on one `Notify`, and count how often they are woken. The outside thread calls `notify_one` or
// `notify_waiters` as fast as it can until they have counted to 500. How often it has to call is up to the runtime; wakes
// that are left over count in the next iteration. That is the published definition, and a loose one.

// %%
/// Wake-ups of one iteration, at least.
const WAKE_UPS: usize = 500;

/// Waits until the tasks have counted to 500, calling `call` as fast as possible.
fn notify<R: Runtime>(load: Load, drive: Drive<'_>, call: impl Fn(&Notify)) {
    let runtime = started::<R>(load.setup);
    let shared = Arc::new((Notify::new(), AtomicUsize::new(0)));
    for _ in 0..load.n {
        let shared = Arc::clone(&shared);
        R::let_go(runtime.spawn(async move {
            loop {
                shared.0.notified().await;
                if load.busy_us > 0 {
                    compute(Duration::from_micros(load.busy_us));
                }
                shared.1.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    let (bell, counter) = (&shared.0, &shared.1);
    drive(&mut |iterations| {
        timed(iterations, || {
            counter.store(0, Ordering::Relaxed);
            while counter.load(Ordering::Relaxed) < WAKE_UPS {
                call(bell);
            }
            (0..WAKE_UPS).for_each(|_| note(What::Received));
        })
    });
}

/// Keeps the processor busy for so long.
fn compute(length: Duration) {
    let start = Instant::now();
    while start.elapsed() < length {
        std::hint::spin_loop();
    }
}

/// `notify_one/n`.
pub struct NotifyOne;

impl Suite for NotifyOne {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        notify::<R>(load, drive, Notify::notify_one);
    }
}

/// `notify_waiters/n`.
pub struct NotifyWaiters;

impl Suite for NotifyWaiters {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        notify::<R>(load, drive, Notify::notify_waiters);
    }
}

// %% [markdown]
// ## sync_semaphore
//
// The document announces this suite and has no table for it; the source was deleted two days before. Six
// acquirers and *n* permits: five, then there is contention, or ten.

// %%
/// Acquires a permit, and gives it back.
async fn acquire(semaphore: &Semaphore) {
    let permit = semaphore.acquire().await.expect("it is never closed");
    note(What::Acquired);
    drop(permit);
}

/// `concurrent_multi`: six tasks.
pub struct SemaphoreTasks;

impl Suite for SemaphoreTasks {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        let semaphore: &'static Semaphore = Box::leak(Box::new(Semaphore::new(load.n)));
        rooted(load, drive, runtime, move || async move {
            let task = || {
                spawn::<R, _>(async {
                    acquire(semaphore).await;
                    note(What::End);
                })
            };
            futures::join!(task(), task(), task(), task(), task(), task());
        });
    }
}

/// `concurrent_single`: six futures in one task.
pub struct SemaphoreFutures;

impl Suite for SemaphoreFutures {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        let semaphore: &'static Semaphore = Box::leak(Box::new(Semaphore::new(load.n)));
        rooted(load, drive, runtime, move || async move {
            let one = || acquire(semaphore);
            futures::join!(one(), one(), one(), one(), one(), one());
        });
    }
}

/// `multi`: six times in turn.
pub struct SemaphoreAlone;

impl Suite for SemaphoreAlone {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        let semaphore: &'static Semaphore = Box::leak(Box::new(Semaphore::new(load.n)));
        rooted(load, drive, runtime, move || async move {
            for _ in 0..6 {
                acquire(semaphore).await;
            }
        });
    }
}

// %% [markdown]
// ## timer
//
// As many tasks as workers share the operations of a sample; what does not divide is dropped, as published. With eight
// workers the figure is a throughput: wall time by operations of all.

// %%
/// The four tests of the timer suite, and those that we add: `load.timer` says what an operation is.
pub struct TimerOperations;

impl Suite for TimerOperations {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        drive(&mut |operations| {
            let tasks = load.n as u64;
            timed(1, || {
                run_root(runtime, load.driver, async move {
                    let timers = |_| {
                        note(What::Spawn);
                        R::timers(load.timer, operations / tasks)
                    };
                    let handles: Vec<_> = (0..tasks).map(timers).collect();
                    for handle in handles {
                        handle.await;
                    }
                });
            })
        });
    }
}

/// Timers that really expire: every task sleeps once.
pub struct Expiry;

impl Suite for Expiry {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        rooted(load, drive, runtime, move || async move {
            let timers = |_| {
                note(What::Spawn);
                R::timers(load.timer, 1)
            };
            let handles: Vec<_> = (0..load.n).map(timers).collect();
            for handle in handles {
                handle.await;
            }
        });
    }
}

// %% [markdown]
// ## What we add: where tasks are spawned from
//
// The same 1000 tasks that do nothing, spawned and joined by the outside thread, by the root of `block_on`, or by a
// task. In the published suites this differs from row to row, and from runtime to runtime.

// %%
/// `spawn_from`: the last task reports to the outside thread, whoever has spawned it.
pub struct SpawnFrom;

impl Suite for SpawnFrom {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        static LEFT: AtomicUsize = AtomicUsize::new(0);
        let runtime = started::<R>(load.setup);
        let (done, wait) = sync_channel(1);
        let task = move |done: SyncSender<()>| async move {
            note(What::End);
            if LEFT.fetch_sub(1, Ordering::Relaxed) == 1 {
                done.send(()).expect("the outside thread waits");
            }
        };
        drive(&mut |iterations| {
            timed(iterations, || {
                LEFT.store(load.n, Ordering::Relaxed);
                let root = done.clone();
                let spawning = async move {
                    (0..load.n).for_each(|_| R::let_go(spawn::<R, _>(task(root.clone()))));
                };
                match load.from {
                    Origin::Outside => {
                        (0..load.n).for_each(|_| R::let_go(spawn_outside(runtime, task(done.clone()))));
                    }
                    Origin::Root => runtime.block_on(spawning),
                    Origin::Worker => R::let_go(runtime.spawn(spawning)),
                }
                wait.recv().expect("the last task reports");
            })
        });
    }
}

// %% [markdown]
// ## What we add: three programs
//
// Whoever writes a runtime knows its benchmarks. So here are three programs that are in none of these suites, chosen before any of
// them was measured: messages through a line of tasks, a tree of tasks that wait for their halves, and tasks
// that keep a lock while others run. The root is a task, and there are as many workers as processors, on every runtime.

// %%
/// `pipeline`: messages go from task to task through [`STAGES`] bounded channels, to the root.
pub struct Pipeline;

/// Channels of the pipeline; each but the last has a task that passes on what comes out of it.
const STAGES: usize = 6;

impl Suite for Pipeline {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        rooted(load, drive, runtime, move || async move {
            let (mut sender, mut receiver) = mpsc::channel::<usize>(10);
            R::let_go(spawn::<R, _>(async move {
                for number in 0..load.n {
                    note(What::Sent);
                    sender.send(number).await.expect("somebody receives");
                }
            }));
            for _ in 1..STAGES {
                let (mut next, output) = mpsc::channel(10);
                let mut input = std::mem::replace(&mut receiver, output);
                R::let_go(spawn::<R, _>(async move {
                    while let Some(number) = input.next().await {
                        note(What::Sent);
                        next.send(number).await.expect("somebody receives");
                    }
                }));
            }
            for number in 0..load.n {
                assert_eq!(receiver.next().await, Some(number));
                note(What::Received);
            }
        });
    }
}

// %%
/// `fork_join`: a task spawns two for its halves, down to one leaf, and waits for both.
pub struct ForkJoin;

impl Suite for ForkJoin {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        fn branch<R: Runtime>(leaves: usize) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(async move {
                if leaves > 1 {
                    let half = || spawn::<R, _>(branch::<R>(leaves / 2));
                    for half in [half(), half()] {
                        half.await;
                    }
                }
                note(What::End);
            })
        }
        let runtime = started::<R>(load.setup);
        rooted(load, drive, runtime, || branch::<R>(load.n));
    }
}

// %%
/// `locked`: tasks take a lock ten times in turn, and yield while they have it.
pub struct Locked;

impl Suite for Locked {
    fn run<R: Runtime>(load: Load, drive: Drive<'_>) {
        let runtime = started::<R>(load.setup);
        let lock: &'static Semaphore = Box::leak(Box::new(Semaphore::new(1)));
        let task = move || async move {
            for _ in 0..10 {
                let permit = lock.acquire().await.expect("it is never closed");
                note(What::Acquired);
                yield_now().await;
                drop(permit);
            }
            note(What::End);
        };
        rooted(load, drive, runtime, || spawn_and_join::<R, _>(load.n, task));
    }
}

// %% [markdown]
// # The rows
//
// A row is a test with a load, on all runtimes that can have it, and with what one iteration of it must do. (What is `inline`
// here is so for the kernel's sake: it compiles all items with every cell, and these hold all suites on all runtimes.)

// %%
/// A suite on each of the runtimes.
pub type Worlds = [(&'static str, World); 5];

const TOKIO: &str = "tokio";
const NIO: &str = "nio";
const OURS: &str = "ours";

/// This suite on all runtimes, by their names in the data.
fn on_all<S: Suite>() -> Worlds {
    [
        (TOKIO, S::run::<Tokio>),
        (NIO, S::run::<Nio>),
        (OURS, S::run::<Ours>),
        ("smol", S::run::<Smol>),
        ("async-std", S::run::<AsyncStd>),
    ]
}

/// One test under one load.
#[derive(Clone)]
pub struct Row {
    /// Suite and test.
    pub bench: String,
    /// What differs from the published load; the published table, where there are two.
    pub parameter: String,
    /// How it is set up.
    pub load: Load,
    /// The runtimes that it is run on.
    pub worlds: Vec<(&'static str, World)>,
    /// What one proof must count.
    pub expected: Counts,
    /// Iterations of one proof.
    pub iterations: u64,
}

// %%
impl Row {
    fn new(bench: impl Into<String>, load: Load, worlds: Worlds, expected: &[(&'static str, usize)]) -> Self {
        Self {
            bench: bench.into(),
            parameter: String::new(),
            load,
            // async-std is asked for where it is wanted.
            worlds: worlds[..4].to_vec(),
            expected: expected.iter().map(|(name, count)| (*name, *count as u64)).collect(),
            iterations: 1,
        }
    }

    /// The same test under another load, on the three runtimes that this is about.
    fn under(&self, parameter: impl Into<String>, change: impl FnOnce(&mut Load)) -> Self {
        let mut row = Self { parameter: parameter.into(), ..self.clone() };
        row.worlds.truncate(3);
        change(&mut row.load);
        row
    }

    /// On this runtime only.
    fn only(mut self, variant: &str) -> Self {
        self.worlds.retain(|(name, _)| *name == variant);
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
}

/// Processors that this process may use.
pub fn processors() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

// %% [markdown]
// The published rows, with their names and constants. `spawn_blocking` there stops at the number of processors; we go to 16 on
// every machine, as on the published one, and the analysis marks what exceeds it.

// %%
/// The suites of spawns.
#[inline]
fn spawn_rows() -> Vec<Row> {
    let mut rows = vec![];
    let one = |name, world| {
        let expected = [("spawns", 1000), ("ends", 1000)];
        Row::new(format!("rt_current_thread/{name}"), Load::new(1, 1000), world, &expected)
    };
    rows.push(one("rt_spawn_many_local", on_all::<SpawnManyOnOne>()));
    rows.push(one("spawn_many_remote_busy", on_all::<SpawnManyOnOneBusy>()));
    let mut four = |name, n, worlds: Worlds, expected: &[(&'static str, usize)]| {
        let load = Load { busy_us: 10, ..Load::new(4, n) };
        let row = Row::new(format!("rt_multi_threaded/{name}"), load, worlds, expected);
        rows.push(Row { worlds: worlds.to_vec(), ..row });
    };
    let (many, more) = ([("spawns", 10_000), ("ends", 10_000)], [("spawns", 10_004), ("ends", 10_004)]);
    four("spawn_many_local", 10_000, on_all::<SpawnManyLocal>(), &many);
    four("spawn_many_remote", 10_000, on_all::<SpawnManyRemote>(), &more);
    four("spawn_many_remote_idle", 10_000, on_all::<SpawnManyRemoteIdle>(), &many);
    four("spawn_many_remote_busy1", 10_000, on_all::<SpawnManyRemoteBusy1>(), &many);
    let few = [("spawns", 1000), ("ends", 1000)];
    four("spawn_many_remote_busy2", 1000, on_all::<SpawnManyRemoteBusy2>(), &few);
    let pairs = [("spawns", 2001), ("ends", 2000), ("sent", 1000), ("received", 2000)];
    four("ping_pong", 1000, on_all::<PingPong>(), &pairs);
    four("yield_many", 200, on_all::<YieldMany>(), &[("spawns", 200), ("yields", 200_000), ("ends", 200)]);
    four("chained_spawn", 1000, on_all::<ChainedSpawn>(), &[("spawns", 1001), ("ends", 1001)]);
    for n in [1, 2, 4, 8, 16] {
        let name = format!("spawn_blocking/spawn_blocking/concurrency/{n}");
        let expected = [("spawns", n), ("ends", n), ("calls", 1600 * n)];
        rows.push(Row::new(name, Load::new(processors(), n), on_all::<SpawnBlocking>(), &expected));
    }
    for (family, workers) in [("basic", 1), ("threaded", 2)] {
        for n in [10, 100, 1000, 10_000] {
            let name = format!("spawn/{family}_scheduler_spawn_{n}");
            let expected = [("spawns", n), ("yields", n), ("ends", n)];
            rows.push(Row::new(name, Load::new(workers, n), on_all::<SpawnAndYield>(), &expected));
        }
    }
    rows
}

// %%
/// The suites of channels and locks.
#[inline]
fn sync_rows() -> Vec<Row> {
    let mut rows = vec![];
    for n in [10, 100, 500, 1000] {
        let messages = [("sent", 100), ("received", 100 * n), ("works", 100 * n)];
        let load = Load::new(6, n);
        let broadcast =
            Row::new(format!("sync_broadcast/contention/{n}"), load, on_all::<BroadcastToAll>(), &messages);
        let with_task = [&messages[..], &[("spawns", 1), ("ends", 1)]].concat();
        let name = format!("sync_watch/contention_resubscribe/{n}");
        let watch = Row::new(name, load, on_all::<WatchByAll>(), &with_task);
        // The large ones are all computation, and long: on the runtimes of the document and on ours.
        rows.extend([broadcast, watch].map(|row| if n > 100 { row.under("", |_| ()) } else { row }));
    }
    for (name, workers) in [("request_reply", 1), ("request_reply #2", 2)] {
        let expected = [("sent", 1000), ("received", 1000)];
        let load = Load::new(workers, 1000);
        rows.push(Row::new(format!("sync_mpsc_oneshot/{name}"), load, on_all::<RequestReply>(), &expected));
    }
    let (load, messages) = (Load::new(6, 5000), [("sent", 5000), ("received", 5000)]);
    let contended = [&messages[..], &[("spawns", 5)]].concat();
    rows.push(Row::new("sync_mpsc/contention/unbounded", load, on_all::<MpscContention>(), &contended));
    rows.push(Row::new("sync_mpsc/uncontented/unbounded", load, on_all::<MpscAlone>(), &messages));
    for packing in [3, 10] {
        for n in [10, 50, 100, 200, 500] {
            let mut load = Load::new(6, n);
            load.setup.packing = packing;
            for (name, worlds) in
                [("notify_one", on_all::<NotifyOne>()), ("notify_waiters", on_all::<NotifyWaiters>())]
            {
                let row =
                    Row::new(format!("sync_notify/{name}/{n}"), load, worlds, &[("received", WAKE_UPS)]);
                let row = Row { parameter: format!("table: min_tasks_per_worker={packing}"), ..row };
                // The setting is nio's; tokio was measured again with it.
                rows.push(if packing == 3 { row } else { row.under(row.parameter.as_str(), |_| ()) });
            }
        }
    }
    let mut semaphore = |name, workers, permits, worlds, tasks| {
        let expected = [("acquired", 6), ("spawns", tasks), ("ends", tasks)];
        rows.push(Row::new(format!("sync_semaphore/{name}"), Load::new(workers, permits), worlds, &expected));
    };
    semaphore("contention/concurrent_multi", 6, 5, on_all::<SemaphoreTasks>(), 6);
    semaphore("contention/concurrent_single", 1, 5, on_all::<SemaphoreFutures>(), 0);
    semaphore("uncontented/multi", 6, 10, on_all::<SemaphoreAlone>(), 0);
    semaphore("uncontented/concurrent_multi", 6, 10, on_all::<SemaphoreTasks>(), 6);
    semaphore("uncontented/concurrent_single", 1, 10, on_all::<SemaphoreFutures>(), 0);
    rows
}

// %%
/// Operations of a proof of the timer suite, enough to be divided among all workers.
const OPERATIONS: usize = 8000;

/// The suite of timers.
#[inline]
fn timer_rows() -> Vec<Row> {
    let row = |name: &str, workers, timer| {
        let mut load = Load { timer, ..Load::new(workers, workers) };
        // nio as published for this suite, and tokio with a thread even for one worker.
        (load.setup.packing, load.setup.threads) = (1, true);
        let counted = [("spawns", workers), ("timers", workers * (OPERATIONS / workers))];
        let row = Row::new(format!("timer/{name}"), load, on_all::<TimerOperations>(), &counted);
        Row { iterations: OPERATIONS as u64, ..row }
    };
    vec![
        row("single_thread_timeout", 1, Timer::Timeout),
        row("multi_thread_timeout-8", 8, Timer::Timeout),
        row("single_thread_sleep", 1, Timer::Unpolled),
        row("multi_thread_sleep-8", 8, Timer::Unpolled),
    ]
}

/// All published rows, and those of the suite that was left out.
#[inline]
pub fn published() -> Vec<Row> {
    [spawn_rows(), sync_rows(), timer_rows()].concat()
}

// %% [markdown]
// # The controls that the published comparison lacks
//
// - `driver=task`: the root is a task, and the outside thread waits on a channel; the same on all runtimes. tokio then has a
//   thread even for one worker, as nio has.
// - `workers=cores`: as many workers as this machine has processors, where the document has four, six or eight.
// - `spawn_from`: the same tasks spawned from outside, from the root, from a worker.
// - `global_queue_interval`: how often tokio's workers look at the queue that outside tasks go to.
// - `packing`: how many tasks nio gives to one worker before it takes the next.
// - `work`: each notified task computes for a while. `stall`: the busy tasks stall for less.
// - `polled` timers are registered before they are dropped, and the timers of `expiry` really expire. A timeout under `pending` is around a future
//   that is not ready at once: of one that is, some runtimes make no timer at all.

// %%
/// The published rows of these benches.
fn rows_of(published: &[Row], benches: &[&str]) -> Vec<Row> {
    published
        .iter()
        .filter(|row| benches.contains(&row.bench.as_str()) && !row.parameter.ends_with("=10"))
        .cloned()
        .collect()
}

/// Rows under `driver=task`.
fn driven_by_tasks(published: &[Row]) -> Vec<Row> {
    let benches = [
        "rt_current_thread/rt_spawn_many_local",
        "rt_multi_threaded/spawn_many_remote_busy1",
        "spawn/basic_scheduler_spawn_10",
        "spawn/basic_scheduler_spawn_1000",
        "spawn/basic_scheduler_spawn_10000",
        "spawn/threaded_scheduler_spawn_10",
        "spawn/threaded_scheduler_spawn_1000",
        "spawn/threaded_scheduler_spawn_10000",
        "sync_broadcast/contention/10",
        "sync_broadcast/contention/100",
        "sync_mpsc_oneshot/request_reply",
        "sync_mpsc_oneshot/request_reply #2",
        "sync_mpsc/contention/unbounded",
        "sync_mpsc/uncontented/unbounded",
    ];
    let rows = rows_of(published, &benches);
    let driven = |row: &Row| {
        row.under("driver=task", |load| {
            load.driver = Driver::Task;
            load.setup.threads = true;
        })
    };
    rows.iter().map(driven).collect()
}

// %%
/// Rows under `workers=cores`, where the document has another number.
fn on_all_processors(published: &[Row]) -> Vec<Row> {
    let benches = [
        "rt_multi_threaded/spawn_many_local",
        "rt_multi_threaded/spawn_many_remote",
        "rt_multi_threaded/spawn_many_remote_idle",
        "rt_multi_threaded/spawn_many_remote_busy1",
        "rt_multi_threaded/spawn_many_remote_busy2",
        "rt_multi_threaded/ping_pong",
        "rt_multi_threaded/yield_many",
        "rt_multi_threaded/chained_spawn",
        "sync_broadcast/contention/10",
        "sync_broadcast/contention/100",
        "sync_watch/contention_resubscribe/10",
        "sync_watch/contention_resubscribe/100",
        "sync_mpsc/contention/unbounded",
        "sync_notify/notify_one/10",
        "sync_notify/notify_one/500",
        "sync_notify/notify_waiters/10",
        "sync_notify/notify_waiters/500",
    ];
    let honest = |row: &Row| {
        row.under("workers=cores", |load| {
            // With nio's default packing, which is made for this number.
            (load.setup.workers, load.setup.packing) = (processors(), 0);
        })
    };
    rows_of(published, &benches).iter().map(honest).collect()
}

// %%
/// Rows under everything else that the comparison lacks.
#[inline]
fn other_controls(published: &[Row]) -> Vec<Row> {
    let row = |bench: &str| rows_of(published, &[bench]).remove(0);
    let mut rows = vec![];
    for (from, word) in [(Origin::Outside, "outside"), (Origin::Root, "root"), (Origin::Worker, "worker")] {
        let load = Load { from, ..Load::new(processors(), 1000) };
        let counted = [("spawns", 1000), ("ends", 1000)];
        let spawned = Row::new("spawn_from/spawn_1000", load, on_all::<SpawnFrom>(), &counted);
        rows.push(Row { parameter: format!("from={word} workers=cores"), ..spawned });
    }
    let busy = row("rt_multi_threaded/spawn_many_remote_busy2");
    for interval in [1, 61] {
        let looking =
            busy.under(format!("global_queue_interval={interval}"), |load| load.setup.interval = interval);
        rows.push(looking.only(TOKIO));
    }
    rows.push(busy.under("stall=1us", |load| load.busy_us = 1));
    for bench in ["sync_notify/notify_one/10", "sync_notify/notify_one/500", "sync_notify/notify_waiters/500"]
    {
        for packing in [1, 1000] {
            let packed = row(bench).under(format!("packing={packing}"), |load| load.setup.packing = packing);
            rows.push(packed.only(NIO));
        }
    }
    let apart = |load: &mut Load| load.setup.packing = 1;
    rows.push(row("sync_mpsc_oneshot/request_reply #2").under("packing=1", apart).only(NIO));
    for microseconds in [1, 10] {
        let work = |load: &mut Load| load.busy_us = microseconds;
        rows.push(row("sync_notify/notify_one/500").under(format!("work={microseconds}us"), work));
    }
    let polled = |load: &mut Load| load.timer = Timer::Polled;
    rows.push(row("timer/single_thread_sleep").under("polled", polled));
    rows.push(row("timer/multi_thread_sleep-8").under("polled", polled));
    let pending = |load: &mut Load| load.timer = Timer::Pending;
    rows.push(row("timer/single_thread_timeout").under("pending", pending));
    rows.push(row("timer/multi_thread_timeout-8").under("pending", pending));
    let load = Load { timer: Timer::Expires(1000), ..Load::new(processors(), 100) };
    let expiring =
        Row::new("timer/expiry", load, on_all::<Expiry>(), &[("spawns", 100), ("timers", 100), ("early", 0)]);
    rows.push(Row { parameter: "sleep=1ms tasks=100 workers=cores".to_owned(), ..expiring });
    rows
}

// %%
/// Programs that are in no document.
#[inline]
fn programs() -> Vec<Row> {
    let row = |name: &str, n, worlds, expected: &[(&'static str, usize)]| {
        let mut load = Load { driver: Driver::Task, ..Load::new(processors(), n) };
        load.setup.threads = true;
        let row = Row::new(format!("programs/{name}"), load, worlds, expected);
        Row { parameter: "driver=task workers=cores".to_owned(), ..row }
    };
    vec![
        row(
            "pipeline",
            1000,
            on_all::<Pipeline>(),
            &[("spawns", STAGES), ("sent", 1000 * STAGES), ("received", 1000)],
        ),
        row("fork_join", 1024, on_all::<ForkJoin>(), &[("spawns", 2046), ("ends", 2047)]),
        row(
            "locked",
            100,
            on_all::<Locked>(),
            &[("spawns", 100), ("acquired", 1000), ("yields", 1000), ("ends", 100)],
        ),
    ]
}

/// All rows.
#[inline]
pub fn rows() -> Vec<Row> {
    let published = published();
    let controls =
        [driven_by_tasks(&published), on_all_processors(&published), other_controls(&published), programs()];
    [published, controls.concat()].concat()
}

// %% [markdown]
// # Proof of equal work
//
// Two iterations of each row on each runtime, in a process of its own. What is counted when an iteration returns must be what the
// suite says, exactly. A runtime that loses a task never returns; it is killed after a while, and the error says whose
// it was.

// %%
/// How long one trial may take before it counts as hanging: far longer than any of them takes.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Proves one row on one runtime.
///
/// # Errors
/// If it does other work than it should, or none: says which row on which runtime, and what is wrong.
pub fn prove(row: &Row, variant: &str, world: World, limit: Duration) -> Result<(), UnequalWork> {
    let key = row.key(variant);
    let counted = harness::isolated(limit, || {
        COUNTING.store(true, Ordering::SeqCst);
        let mut seen = vec![];
        world(row.load, &mut |iterate| {
            for _ in 0..2 {
                NOTED.iter().for_each(|noted| noted.store(0, Ordering::SeqCst));
                iterate(row.iterations);
                let noted = |(what, name): (What, &str)| {
                    (name.to_owned(), NOTED[what as usize].load(Ordering::SeqCst))
                };
                seen.push(COUNTED.map(noted).into_iter().collect::<BTreeMap<String, u64>>());
            }
        });
        seen
    });
    for seen in counted.map_err(|reason| format!("{key}: {reason}"))? {
        harness::prove(&key, &row.expected, &seen)?;
    }
    Ok(())
}

// %% tags=["active-ipynb"]
// for row in published() {
//     for (variant, world) in &row.worlds {
//         prove(&row, variant, *world, LIMIT).unwrap_or_else(harness::stop);
//     }
//     let counts: Vec<String> = row.expected.iter().map(|(name, count)| format!("{count} {name}")).collect();
//     println!("{:<45} {}", row.bench, counts.join(", "));
// }

// %% [markdown]
// # The study
//
// Each suite is a group with a control of its own: one of its rows on tokio, measured a second time under another name. On one
// worker differences of 5 % count. Several threads on a machine that others use as well meet by chance, and how many of them are found
// asleep differs from round to round; there it is 10 %. A trial is one sample, because more rounds tell more than more samples.
//
// Processor time and voluntary context switches are taken besides wall time. A runtime that wins by letting a worker spin shows
// there.

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
// What is compared with what? Every runtime with tokio in each of its rows; and our executor with nio, too, for the better of
// those two is not the same everywhere. A setting that only one runtime has is compared with its default, and the two
// tables of one suite with each other. Last comes nio compared with a tokio that looks at its shared queue after every task.

// %%
/// The tables of `sync_notify`, by nio's setting; its default comes first.
const TABLES: [&str; 2] = ["table: min_tasks_per_worker=3", "table: min_tasks_per_worker=10"];
/// Rows in which the two are compared.
const IN_BOTH_TABLES: [&str; 4] = [
    "sync_notify/notify_one/10",
    "sync_notify/notify_one/500",
    "sync_notify/notify_waiters/10",
    "sync_notify/notify_waiters/500",
];

/// What is compared besides every runtime with tokio: the first, what it is compared with, and what changes.
fn comparisons(rows: &[Row]) -> Vec<(Key, Key, String)> {
    let mut all = vec![];
    for row in rows {
        let runs = |name| row.worlds.iter().any(|(variant, _)| *variant == name);
        if runs(OURS) && runs(NIO) {
            all.push((row.key(OURS), row.key(NIO), "`ours` instead of `nio`".to_owned()));
        }
        if let [(variant, _)] = row.worlds[..] {
            let published = if row.suite() == "sync_notify" { TABLES[0] } else { "" };
            let change = format!("`{}` instead of the default", row.parameter);
            all.push((row.key(variant), Key::new(&row.bench, variant, published), change));
        }
    }
    for bench in IN_BOTH_TABLES {
        let [few, many] = TABLES.map(|table| Key::new(bench, NIO, table));
        all.push((many, few, "ten tasks for each worker instead of three".to_owned()));
    }
    let busy = |variant, parameter| Key::new("rt_multi_threaded/spawn_many_remote_busy2", variant, parameter);
    let change = "nio instead of a tokio that looks at its shared queue after every task";
    all.push((busy(NIO, ""), busy(TOKIO, "global_queue_interval=1"), change.to_owned()));
    all
}

// %%
/// All rows on all their runtimes, proven. One whose proof fails is left out, and named.
#[inline]
pub fn study() -> Study {
    let mut study = Study::new("runtimes").baseline(TOKIO);
    study = study
        .rounds(2, 24, 80)
        .episodes(2, 12, 20)
        .samples(1)
        .isolated(LIMIT)
        .resources()
        .instructions(false);
    let rows = rows();
    for row in &rows {
        study = study.group(row.suite(), limit(row.suite()));
        for (variant, world) in &row.worlds {
            let proof = prove(row, variant, *world, LIMIT);
            let (key, load, world) = (row.key(variant), row.load, *world);
            study = study.proven(key.clone(), proof, move |bencher: &mut Bencher| {
                world(load, &mut |iterate| bencher.iter_custom(iterate));
            });
            study = study.count(key.clone(), "workers", load.setup.workers as u64);
            if row.iterations == 1 {
                for (name, count) in &row.expected {
                    study = study.count(key.clone(), *name, *count);
                }
            }
        }
        if CONTROLS.contains(&(&row.bench, &row.parameter)) {
            study = study.control_of(row.key(TOKIO));
        }
    }
    for (one, other, change) in comparisons(&rows) {
        study = study.also_compare(one, other, change);
    }
    study
}

// %% [markdown]
// For those who read this as a crate, the proofs as a test are in a file of their own, with runtimes that are broken on purpose.
//
// # A glance
//
// One benchmark on all runtimes in turns, a second each: its time, and how many times that of the first. Nothing is kept, and nothing is concluded. Choose others, or one of your own, and run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().glance(|key| {
//     key.bench == "rt_current_thread/rt_spawn_many_local" && key.parameter.is_empty()
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// Rounds follow one another; each runs everything above in an order drawn by lot, each trial in a process of its own.
//
// `quick` takes less than half a minute and shows that everything works; it is not evidence. For that, set the
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
// - None of these tasks does anything useful for long. Next to a request that takes a millisecond, no row here matters.
// - Nothing is read from a socket. How a runtime polls the operating system is not measured.
// - The published numbers of workers exceed the processors of many a machine. What is then measured is how a runtime behaves with
//   too many threads; `workers=cores` is the honest setting.
// - `workers=1` means one thread in tokio (the caller's), one besides the caller in nio and smol, and in ours one at a time.
