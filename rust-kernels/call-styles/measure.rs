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
// # What does it cost to call something that may wait?
//
// Some code asks a cache, and once in a hundred calls the cache asks the disk. Do you call it like any function and wait
// for it? Start it, and take the result if it is there already? Put it into a queue and look later? Or start it and
// forget it? Each of these is a *call style*, and their work differs: when the callee does not wait, which is the common
// case, and when it does.
//
// In 2017 the author of *Concurrently*, a Ruby library, asked this for its four styles and published what he found with
// a table of advice. His concurrent procedures run in **fibers**, stacks of their own that can be left and entered
// again. Rust's answer to the same wish is a **future**, a value that can be polled again. [His event
// loop](event-loop.ipynb) is rebuilt in Rust, with [two executors](executors.ipynb) on it: one for futures in the place
// of fibers, one for real fibers. This notebook measures both against the executors that people use.
//
// After reading it you can decide which style to use where, and what a fiber, a boxed future and an
// inline future cost for each call.
//
// This is no race between Ruby and Rust. The published figures are here for their ratios: does the *pattern* of the
// advice hold when all of its parts are rebuilt?

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
// :dep async-executor = "=1.14.1"
// :dep call-styles-event-loop = { path = "../../rust-kernels/call-styles/event-loop" }
// :dep call-styles-executors = { path = "../../rust-kernels/call-styles/executors" }
// :dep frontier = { path = "../../rust-kernels/ladder/frontier" }
// :dep futures = "=0.3.34"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep libc = "=0.2.189"
// :dep rustix = { version = "=1.1.6", features = ["pipe"] }
// :dep tokio = { version = "=1.54.1", features = ["rt"] }
// :dep zero-cost-loop = { path = "../../rust-kernels/zero-cost/loop" }

// %% [markdown]
// The loop and its two executors are crates; so are the executors that they are compared with.

// %%
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use async_executor::LocalExecutor;
use call_styles_event_loop::{
    ArcWakers, Counted, Counter, Design, Direct, Epoll, EventLoop, Heap, IndexWakers, Interest, Parts,
    Polling, Probe, Probed, Selector, SortedVec, Timed, Tree, idle_descriptors, idle_timers, yield_now,
};
use call_styles_executors::{
    Boxes, CallState, CallStyles, Evaluation, Executor, FiberProc, Fibers, Fresh, Futures, Reused,
};
use futures::FutureExt;
use futures::executor::{LocalPool, LocalSpawner};
use futures::task::LocalSpawnExt;
use harness::{Bencher, Counts, Key, Study, UnequalWork};
use tokio::runtime::{Builder, Runtime};

// %% [markdown]
// # What is called
//
// The published procedure is empty, or waits once. Ours takes a number and gives it back through `black_box`, so that
// no compiler can leave out in one variant what it does in another, and so that we can check the sum.

// %%
/// What every procedure does in the end.
#[inline(always)]
fn work<P: Probe>(argument: u64) -> u64 {
    P::add(Counter::Executions, 1);
    black_box(argument)
}

/// The procedure that does not wait.
async fn empty<P: Probe>(argument: u64) -> u64 {
    work::<P>(argument)
}

/// Waits on the deferred track for a time that has come already, so many times.
async fn waiting_due<D: Design>(event_loop: Rc<EventLoop<D>>, waits: usize, argument: u64) -> u64 {
    for _ in 0..waits {
        event_loop.wait(Duration::ZERO).await;
    }
    work::<D::Probe>(argument)
}

/// Yields, so many times.
async fn yielding<P: Probe>(waits: usize, argument: u64) -> u64 {
    for _ in 0..waits {
        yield_now().await;
    }
    work::<P>(argument)
}

// %% [markdown]
// The pipes of the benches on readiness hold one byte each, which is never read, or nothing.

// %%
/// A pipe that is never read.
struct Pipe {
    reading_end: OwnedFd,
    writing_end: OwnedFd,
}

impl Pipe {
    /// So many, with a byte in each or not.
    fn with_filled(number: usize, filled: bool) -> Vec<Self> {
        let pipe = |_| {
            let flags = rustix::pipe::PipeFlags::CLOEXEC | rustix::pipe::PipeFlags::NONBLOCK;
            let (reading_end, writing_end) = rustix::pipe::pipe_with(flags).expect("a pipe");
            if filled {
                rustix::io::write(&writing_end, b".").expect("room for one byte");
            }
            Self { reading_end, writing_end }
        };
        (0..number).map(pipe).collect()
    }

    /// The end of which one can be interested so.
    fn end(&self, interest: Interest) -> &OwnedFd {
        if interest == Interest::Writable { &self.writing_end } else { &self.reading_end }
    }
}

// %% [markdown]
// Such a procedure waits for a pipe of its own.

// %%
/// Waits for a descriptor that is ready, so many times.
async fn reading<D: Design>(
    event_loop: Rc<EventLoop<D>>,
    pipes: Rc<Vec<Pipe>>,
    waits: usize,
    argument: u64,
) -> u64 {
    for _ in 0..waits {
        let reading_end = &pipes[argument as usize].reading_end;
        event_loop.await_ready(reading_end, Interest::Readable, None).await.expect("a pipe can be watched");
    }
    work::<D::Probe>(argument)
}

// %% [markdown]
// # How it is called
//
// A *load* says what one iteration does. The batch is the published one: a hundred calls, then settling. It decides how
// often the loop is entered, so it is a factor of its own.

// %%
/// How a procedure is called, and how the batch is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Call each and wait for it.
    Call,
    /// On other executors: await each, without a task.
    Await,
    /// Begin each; await those that wait, in order.
    Nonblock,
    /// The same with an evaluation for each, made before it begins.
    NonblockEagerly,
    /// Schedule each; the root waits once, for the time that it is.
    DetachedSettled,
    /// Schedule each; await them in order.
    Detached,
    /// Schedule each; the root waits once, as above.
    Forget,
}

// %% [markdown]
// The other half of a load is whether the callee waits, and how. In the table of mere waiting only the root waits.

// %%
/// How a procedure waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Not at all.
    Empty,
    /// On the deferred track, for a time that has come.
    Due,
    /// It only lets others have a turn.
    Yield,
    /// For a descriptor that is ready.
    Readable,
}

/// What the root waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootWait {
    /// A time that has come.
    Due,
    /// Its turn.
    Yield,
    /// That a pipe can be read, or written.
    Ready(Interest),
    /// The same with registrations that are kept.
    Registered(Interest),
}

// %% [markdown]
// A load puts that together.

// %%
/// What one iteration does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// How.
    pub style: Style,
    /// What is called.
    pub kind: Kind,
    /// Calls.
    pub batch: usize,
    /// Waits of each call.
    pub waits: usize,
    /// Timers that are not due for a long time, or descriptors that never get ready, in addition to all this.
    pub idle: usize,
    /// What the root itself waits for, in benches that call nothing.
    pub root: RootWait,
}

/// The published batch.
const BATCH: usize = 100;

impl Load {
    /// The published load of this style and kind.
    pub fn published(style: Style, kind: Kind) -> Self {
        let waits = usize::from(kind != Kind::Empty);
        Self { style, kind, batch: BATCH, waits, idle: 0, root: RootWait::Due }
    }

    /// The arguments of the calls.
    #[inline(always)]
    fn arguments(self) -> Range<u64> {
        0..black_box(self.batch) as u64
    }
}

// %% [markdown]
// Every variant is a function that sets itself up under a load and hands over one iteration.

// %%
/// Runs an iteration, which returns the sum of all results that it got, as often as is wanted.
pub type Repeat<'a> = &'a mut dyn FnMut(&mut dyn FnMut() -> u64);
/// Sets a variant up under a load, and hands over one iteration.
pub type Workload = fn(Load, Repeat<'_>);

pub fn timed(workload: Workload, load: Load) -> impl Fn(&mut Bencher<'_>) {
    move |bencher| {
        workload(load, &mut |iterate| {
            bencher.iter(&mut || {
                black_box(iterate());
            });
        });
    }
}

// %% [markdown]
// One function makes the batch for futures and for fibers. It follows the published scripts line by line; where those
// map an array to an array, it collects a vector.

// %%
/// One iteration.
fn batch<C>(on: &impl CallStyles<C, Output = u64>, callee: impl Fn(u64) -> C, load: Load) -> u64 {
    let callees = load.arguments().map(callee);
    let result = |evaluation: Evaluation<u64, _>| on.block_on(evaluation).expect("it is not cancelled");
    match load.style {
        Style::Call => callees.map(|callee| on.call(callee)).sum(),
        Style::Nonblock if load.waits == 0 => callees
            .map(|callee| match on.call_nonblock(callee) {
                CallState::Concluded(result) => result,
                CallState::Waiting(_) => unreachable!("it does not wait"),
            })
            .sum(),
        Style::Nonblock => {
            let begun: Vec<_> = callees.map(|callee| on.call_nonblock(callee)).collect();
            let results = begun.into_iter().map(|begun| match begun {
                CallState::Concluded(result) => result,
                CallState::Waiting(evaluation) => result(evaluation),
            });
            results.sum()
        }
        Style::NonblockEagerly => {
            let begun: Vec<_> = callees.map(|callee| on.call_nonblock_eagerly(callee)).collect();
            begun.into_iter().map(result).sum()
        }
        Style::Detached => {
            let begun: Vec<_> = callees.map(|callee| on.call_detached(callee)).collect();
            begun.into_iter().map(result).sum()
        }
        Style::DetachedSettled => {
            callees.for_each(|callee| drop(on.call_detached(callee)));
            on.block_on(on.event_loop().wait(Duration::ZERO));
            0
        }
        Style::Forget => {
            callees.for_each(|callee| on.call_and_forget(callee));
            on.block_on(on.event_loop().wait(Duration::ZERO));
            0
        }
        Style::Await => unimplemented!("there is `inline` for that"),
    }
}

// %% [markdown]
// On our loop: futures in slots, and a future that is not put into a slot. That one stays on the stack of the root,
// which works for `call` alone.

// %%
/// All styles, futures on a loop of design `D`, in boxes of kind `B`.
pub fn with_futures<D: Design, B: Boxes>(load: Load, repeat: Repeat<'_>) {
    let executor = &Futures::<D, B>::new().expect("a selector");
    let (event_loop, waits) = (executor.event_loop(), load.waits);
    match load.kind {
        Kind::Empty => repeat(&mut || batch(executor, empty::<D::Probe>, load)),
        Kind::Due => repeat(&mut || batch(executor, |n| waiting_due(Rc::clone(event_loop), waits, n), load)),
        Kind::Yield => repeat(&mut || batch(executor, |n| yielding::<D::Probe>(waits, n), load)),
        Kind::Readable => {
            let pipes = &Rc::new(Pipe::with_filled(load.batch, true));
            let callee = |n| reading(Rc::clone(event_loop), Rc::clone(pipes), waits, n);
            repeat(&mut || batch(executor, callee, load));
        }
    }
}

/// `call` without a slot: the root polls the future where it stands, on its own stack.
pub fn inline<D: Design>(load: Load, repeat: Repeat<'_>) {
    let executor = &Futures::<D>::new().expect("a selector");
    let (event_loop, waits) = (executor.event_loop(), load.waits);
    match load.kind {
        Kind::Empty => {
            repeat(&mut || load.arguments().map(|n| executor.block_on(empty::<D::Probe>(n))).sum())
        }
        Kind::Due => repeat(&mut || {
            load.arguments().map(|n| executor.block_on(waiting_due(Rc::clone(event_loop), waits, n))).sum()
        }),
        Kind::Yield | Kind::Readable => unimplemented!("measured in slots only"),
    }
}

// %% [markdown]
// Fibers need no futures: the same procedures as plain functions.

// %%
/// All styles, procedures in fibers.
pub fn with_fibers<D: Design<Wakers = Direct>, const POOLED: bool>(load: Load, repeat: Repeat<'_>) {
    let fibers = &Fibers::new(POOLED).expect("a selector");
    let waits = load.waits;
    let procedure: FiberProc<D> = match load.kind {
        Kind::Empty => Rc::new(|_, n| work::<D::Probe>(n)),
        Kind::Due => Rc::new(move |inside, n| {
            (0..waits).for_each(|_| inside.wait(Duration::ZERO));
            work::<D::Probe>(n)
        }),
        Kind::Yield => Rc::new(move |inside, n| {
            (0..waits).for_each(|_| inside.yield_now());
            work::<D::Probe>(n)
        }),
        Kind::Readable => unimplemented!("measured with futures only"),
    };
    repeat(&mut || batch(fibers, |n| (Rc::clone(&procedure), n), load));
}

// %% [markdown]
// ## A regular procedure
//
// The floor is a function call. In Rust there are two: a closure whose type the compiler knows, which it would put
// in place of the call; and one behind a pointer, as all procedures are in Ruby. `black_box` keeps the first from
// disappearing altogether.

// %%
/// A closure.
pub fn closure<P: Probe>(load: Load, repeat: Repeat<'_>) {
    let procedure = |argument| work::<P>(argument);
    repeat(&mut || load.arguments().map(|argument| black_box(&procedure)(argument)).sum());
}

/// A closure of any type.
fn boxed_closure<P: Probe>(load: Load, repeat: Repeat<'_>) {
    let procedure: Box<dyn Fn(u64) -> u64> = Box::new(|argument| work::<P>(argument));
    repeat(&mut || load.arguments().map(|argument| black_box(&procedure)(argument)).sum());
}

// %% [markdown]
// **A glance.** A call that does not wait. Let it wait (`Kind::Due`), or call it by another style.

// %% tags=["active-ipynb", "glance"]
// let load = Load::published(Style::Call, Kind::Empty);
// harness::Glance::at("call")
//     .each_of(load.batch as u64)
//     .look("a future in a slot", timed(with_futures::<Parts, Reused>, load))
//     .look("a future on the stack", timed(inline::<Parts>, load))
//     .look("a fiber", timed(with_fibers::<Parts<Direct>, true>, load))
//     .look("a closure", timed(closure::<Timed>, load))
//     .show()

// %% [markdown]
// ## Waiting, and nothing else
//
// In the published table of "mere waiting" the root itself waits, a hundred times. At any time one descriptor is
// registered, and it is ready: so this measures what it costs to register, to ask and to deregister. Others may be
// registered at the same time.

// %%
/// Waits, and does the work of a procedure, for each call of the batch.
#[inline(always)]
fn for_each<P: Probe>(load: Load, repeat: Repeat<'_>, mut wait: impl FnMut(u64)) {
    repeat(&mut || {
        let once = |n| {
            wait(n);
            work::<P>(n)
        };
        load.arguments().map(once).sum()
    });
}

/// The root waits, again and again.
pub fn root_waits<D: Design>(load: Load, repeat: Repeat<'_>) {
    let executor = Futures::<D>::new().expect("a selector");
    let event_loop = executor.event_loop();
    match load.root {
        RootWait::Due => {
            let _timers = idle_timers(event_loop, load.idle);
            for_each::<D::Probe>(load, repeat, |_| executor.block_on(event_loop.wait(Duration::ZERO)));
        }
        RootWait::Yield => for_each::<D::Probe>(load, repeat, |_| executor.block_on(yield_now())),
        RootWait::Ready(interest) => {
            let _descriptors = idle_descriptors(event_loop, load.idle);
            let pipes = Pipe::with_filled(load.batch, interest == Interest::Readable);
            for_each::<D::Probe>(load, repeat, |n| {
                let end = pipes[n as usize].end(interest);
                let ready = executor.block_on(event_loop.await_ready(end, interest, None));
                assert!(ready.expect("a pipe can be watched"));
            });
        }
        RootWait::Registered(interest) => {
            let _descriptors = idle_descriptors(event_loop, load.idle);
            let pipes = Pipe::with_filled(load.batch, interest == Interest::Readable);
            let ends = pipes.iter().map(|pipe| pipe.end(interest));
            let mut registrations: Vec<_> =
                ends.map(|end| event_loop.register(end).expect("a pipe can be watched")).collect();
            for_each::<D::Probe>(load, repeat, |n| {
                let ready = executor.block_on(registrations[n as usize].ready(interest, None));
                assert!(ready.expect("a pipe can be watched"));
            });
        }
    }
}

// %% [markdown]
// **A glance.** Four waits of the root. Let ten thousand others wait (`idle: 10_000`).

// %% tags=["active-ipynb", "glance"]
// let load = |root| Load { root, ..Load::published(Style::Call, Kind::Due) };
// harness::Glance::at("wait")
//     .each_of(100)
//     .look("for a time", timed(root_waits::<Parts>, load(RootWait::Due)))
//     .look("for its turn", timed(root_waits::<Parts>, load(RootWait::Yield)))
//     .look("for a descriptor", timed(root_waits::<Parts>, load(RootWait::Ready(Interest::Readable))))
//     .look("... kept registered", timed(root_waits::<Parts>, load(RootWait::Registered(Interest::Readable))))
//     .show()

// %% [markdown]
// # The same on other executors
//
// Other executors can call something, too. The same four styles exist on tokio on one thread, on smol's executor, and on
// the `LocalPool` of the futures crate, as their users would write them.
//
// - `call` is a spawn that is awaited at once; and, since an `.await` is simpler where it suffices, the same without a
//   task: `tokio + await` and so on.
// - `call_nonblock` boxes the future and polls it once in place. If it is pending, the box is spawned.
// - `call_detached` is a spawn; `call_and_forget` one whose handle is dropped.
//
// Two things differ. These executors start nothing at once: a spawned task is polled when the caller waits. And their
// timers cannot stand in for `wait(0)`; tokio's, for instance, has ticks of a millisecond. So here all callees *yield*,
// on our loop and on the fibers, too.

// %%
/// Another executor.
pub trait OtherExecutor: Sized {
    /// The handle of a task.
    type Handle;

    fn new() -> Self;
    /// Runs a root.
    fn run<F: Future>(&self, root: F) -> F::Output;
    fn spawn(&self, future: impl Future<Output = u64> + Send + 'static) -> Self::Handle;
    fn join(handle: Self::Handle) -> impl Future<Output = u64>;
    fn spawn_detached(&self, future: impl Future<Output = u64> + Send + 'static) {
        self.spawn(future);
    }
    /// Runs until there is no task.
    fn run_until_idle(&self);
}

/// Awaits handles in order.
async fn join_all<O: OtherExecutor>(handles: Vec<O::Handle>) -> u64 {
    let mut sum = 0;
    for handle in handles {
        sum += O::join(handle).await;
    }
    sum
}

/// Awaits each, without a task.
async fn await_each<F: Future<Output = u64>>(make: impl Fn(u64) -> F, arguments: Range<u64>) -> u64 {
    let mut sum = 0;
    for argument in arguments {
        sum += make(argument).await;
    }
    sum
}

// %% [markdown]
// The batch again, for executors that have handles in place of evaluations.

// %%
/// One iteration on another executor.
fn batch_on_executor<O: OtherExecutor, F: Future<Output = u64> + Send + 'static>(
    on: &O,
    make: impl Fn(u64) -> F,
    load: Load,
) -> u64 {
    let arguments = load.arguments();
    let mut sum = 0;
    match load.style {
        Style::Call => on.run(async {
            for argument in arguments {
                sum += O::join(on.spawn(make(argument))).await;
            }
        }),
        Style::Await => sum = on.run(await_each(make, arguments)),
        Style::Nonblock => on.run(async {
            let mut begun = Vec::new();
            for argument in arguments {
                let mut future = Box::pin(make(argument));
                match futures::poll!(&mut future) {
                    Poll::Ready(result) => sum += result,
                    Poll::Pending => begun.push(on.spawn(future)),
                }
            }
            sum += join_all::<O>(begun).await;
        }),
        Style::Detached => {
            sum = on.run(async {
                join_all::<O>(arguments.map(|argument| on.spawn(make(argument))).collect()).await
            });
        }
        Style::Forget => {
            arguments.for_each(|argument| on.spawn_detached(make(argument)));
            on.run_until_idle();
        }
        Style::NonblockEagerly | Style::DetachedSettled => unimplemented!("measured on our loop only"),
    }
    sum
}

// %% [markdown]
// What is called is the same as on our loop.

// %%
/// All styles on another executor.
pub fn on_executor<O: OtherExecutor, P: Probe>(load: Load, repeat: Repeat<'_>) {
    let on = O::new();
    match load.kind {
        Kind::Empty => repeat(&mut || batch_on_executor(&on, empty::<P>, load)),
        Kind::Yield => repeat(&mut || batch_on_executor(&on, |n| yielding::<P>(load.waits, n), load)),
        Kind::Due | Kind::Readable => unimplemented!("measured on our loop only"),
    }
}

// %% [markdown]
// tokio on one thread. It can say how many of its tasks are alive.

// %%
/// tokio, on the calling thread.
pub struct Tokio(Runtime);

impl OtherExecutor for Tokio {
    type Handle = tokio::task::JoinHandle<u64>;

    fn new() -> Self {
        Self(Builder::new_current_thread().build().expect("a runtime"))
    }

    fn run<F: Future>(&self, root: F) -> F::Output {
        self.0.block_on(root)
    }

    fn spawn(&self, future: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        self.0.spawn(future)
    }

    async fn join(handle: Self::Handle) -> u64 {
        handle.await.expect("no panic")
    }

    fn run_until_idle(&self) {
        self.0.block_on(async {
            while self.0.metrics().num_alive_tasks() > 0 {
                yield_now().await;
            }
        });
    }
}

// %% [markdown]
// smol's knows whether it is empty; a handle of it has to be detached, for dropping it would cancel the task.

// %%
/// The executor of smol.
pub struct Smol(LocalExecutor<'static>);

impl OtherExecutor for Smol {
    type Handle = async_executor::Task<u64>;

    fn new() -> Self {
        Self(LocalExecutor::new())
    }

    fn run<F: Future>(&self, root: F) -> F::Output {
        futures::executor::block_on(self.0.run(root))
    }

    fn spawn(&self, future: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        self.0.spawn(future)
    }

    async fn join(handle: Self::Handle) -> u64 {
        handle.await
    }

    fn spawn_detached(&self, future: impl Future<Output = u64> + Send + 'static) {
        self.0.spawn(future).detach();
    }

    fn run_until_idle(&self) {
        self.run(async {
            while !self.0.is_empty() {
                yield_now().await;
            }
        });
    }
}

// %% [markdown]
// The pool runs until it is empty, and has another way to spawn tasks without a handle.

// %%
/// The local pool of the futures crate.
pub struct Pool {
    pool: RefCell<LocalPool>,
    spawner: LocalSpawner,
}

impl OtherExecutor for Pool {
    type Handle = futures::future::RemoteHandle<u64>;

    fn new() -> Self {
        let pool = LocalPool::new();
        let spawner = pool.spawner();
        Self { pool: RefCell::new(pool), spawner }
    }

    fn run<F: Future>(&self, root: F) -> F::Output {
        self.pool.borrow_mut().run_until(root)
    }

    fn spawn(&self, future: impl Future<Output = u64> + Send + 'static) -> Self::Handle {
        self.spawner.spawn_local_with_handle(future).expect("the pool is there")
    }

    async fn join(handle: Self::Handle) -> u64 {
        handle.await
    }

    fn spawn_detached(&self, future: impl Future<Output = u64> + Send + 'static) {
        self.spawner.spawn_local(future.map(drop)).expect("the pool is there");
    }

    fn run_until_idle(&self) {
        self.pool.borrow_mut().run();
    }
}

// %% [markdown]
// # The frontier
//
// And what does a call that may wait cost at best? [The frontier](../ladder/frontier.ipynb) is an
// executor of our own with real wakers. Its tasks are all of one type and live by value in slots
// that were allocated once. It is used as it is.
//
// On it, `call` is just an `.await`: the callee becomes a part of the caller. `call_nonblock` polls it in
// place; a future that lives there by value cannot be left waiting in a task, so there is no waiting
// `call_nonblock`. `call_detached` spawns, and the result arrives in a cell that the caller has provided.

// %%
/// A result, and who waits for it, in memory of the caller's.
#[derive(Default)]
struct ResultSlot {
    result: Cell<Option<u64>>,
    waiter: Cell<Option<Waker>>,
}

impl ResultSlot {
    fn complete(&self, result: u64) {
        self.result.set(Some(result));
        self.waiter.take().into_iter().for_each(Waker::wake);
    }

    async fn result(&self) -> u64 {
        poll_fn(|context| match self.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                self.waiter.set(Some(context.waker().clone()));
                Poll::Pending
            }
        })
        .await
    }
}

// %% [markdown]
// First the styles that need no task.

// %%
/// Polls each in place, once: none may wait.
async fn poll_each<F: Future<Output = u64>>(make: impl Fn(u64) -> F, arguments: Range<u64>) -> u64 {
    let mut sum = 0;
    for argument in arguments {
        match futures::poll!(pin!(make(argument))) {
            Poll::Ready(result) => sum += result,
            Poll::Pending => unreachable!("it does not wait"),
        }
    }
    sum
}

/// Keeps the frontier's probe silent; ours looks on from the procedures.
type NoProbe = zero_cost_loop::Timed<ResultSlot>;

/// The styles that need no task.
fn without_spawns<F: Future<Output = u64>>(make: impl Fn(u64) -> F + Copy, load: Load, repeat: Repeat<'_>) {
    let reactor = frontier::Reactor::<_, NoProbe>::new((), 0).expect("room for nothing");
    let executor = frontier::Executor::<_, std::future::Ready<()>, _>::new(&reactor, 0);
    if load.style == Style::Call {
        repeat(&mut || executor.run(await_each(make, load.arguments())));
    } else {
        repeat(&mut || executor.run(poll_each(make, load.arguments())));
    }
}

// %% [markdown]
// And those that do. A task that was forgotten has no cell for its result.

// %%
/// The styles that make tasks, for procedures of one type.
fn in_tasks<F: Future<Output = u64>>(make: impl Fn(u64) -> F + Copy, load: Load, repeat: Repeat<'_>) {
    let reactor = frontier::Reactor::<_, NoProbe>::new((), 0).expect("room for nothing");
    if load.style == Style::Forget {
        let executor = frontier::Executor::new(&reactor, load.batch);
        return repeat(&mut || {
            executor.run(async {
                for argument in load.arguments() {
                    executor.spawn(|| make(argument).map(drop)).expect("a vacant slot");
                }
            });
            0
        });
    }
    let slots: Vec<ResultSlot> = (0..load.batch).map(|_| ResultSlot::default()).collect();
    let slots = &slots[..];
    let fill_slot = async move |argument: u64| slots[argument as usize].complete(make(argument).await);
    let executor = frontier::Executor::new(&reactor, load.batch);
    repeat(&mut || {
        executor.run(async {
            for argument in load.arguments() {
                executor.spawn(|| fill_slot(argument)).expect("a vacant slot");
            }
            let mut sum = 0;
            for slot in slots {
                sum += slot.result().await;
            }
            sum
        })
    });
}

// %% [markdown]
// Which of the two is used depends on the style.

// %%
/// All styles on the frontier.
pub fn frontier<P: Probe>(load: Load, repeat: Repeat<'_>) {
    let tasks = matches!(load.style, Style::Detached | Style::Forget);
    match load.kind {
        Kind::Empty if tasks => in_tasks(empty::<P>, load, repeat),
        Kind::Empty => without_spawns(empty::<P>, load, repeat),
        Kind::Yield if tasks => in_tasks(|n| yielding::<P>(load.waits, n), load, repeat),
        Kind::Yield => without_spawns(|n| yielding::<P>(load.waits, n), load, repeat),
        Kind::Due | Kind::Readable => unimplemented!("the frontier has no clock and no descriptors"),
    }
}

// %% [markdown]
// **A glance.** A call that is scheduled, yields once, and is awaited, on five executors. Forget it (`Style::Forget`).

// %% tags=["active-ipynb", "glance"]
// let load = Load::published(Style::Detached, Kind::Yield);
// harness::Glance::at("call")
//     .each_of(load.batch as u64)
//     .look("our loop", timed(with_futures::<Parts, Reused>, load))
//     .look("tokio", timed(on_executor::<Tokio, Timed>, load))
//     .look("smol", timed(on_executor::<Smol, Timed>, load))
//     .look("LocalPool", timed(on_executor::<Pool, Timed>, load))
//     .look("frontier", timed(frontier::<Timed>, load))
//     .show()

// %% [markdown]
// # Subjects
//
// A subject is one bench by one variant under one load. Its code is there twice, once to be timed and once to be
// counted.

// %%
/// What is measured.
#[derive(Clone)]
pub struct Subject {
    /// As published, the table and the name in it.
    pub bench: &'static str,
    /// Who does it.
    pub variant: &'static str,
    /// Under what.
    pub parameter: String,
    /// The load.
    pub load: Load,
    /// The code that is timed, and the same code with the probe that counts.
    pub workloads: [Workload; 2],
    /// What one iteration must count, in addition to executions.
    pub expected: Option<Counts>,
}

impl Subject {
    /// Its name in the data.
    pub fn key(&self) -> Key {
        Key::new(self.bench, self.variant, self.parameter.clone())
    }
}

/// The design of the document, translated; and one change to it each.
type Published = Parts;
type WithHeap = Parts<ArcWakers, Heap>;
type WithTree = Parts<ArcWakers, Tree>;
type WithEpoll = Parts<ArcWakers, SortedVec, Epoll>;
type WithIndexWakers = Parts<IndexWakers>;
type WithoutWakers = Parts<Direct>;

// %% [markdown]
// Each way to call, with both probes. Three of the changes are measured in two tables, so they are listed here.

// %%
/// Futures on a loop of this design.
#[inline]
fn on_loop<D: Design>() -> [Workload; 2] {
    [with_futures::<D, Reused>, with_futures::<Probed<Counted, D>, Reused>]
}

/// Fibers from a pool, or fresh ones.
#[inline]
fn in_fibers<const POOLED: bool>() -> [Workload; 2] {
    [with_fibers::<WithoutWakers, POOLED>, with_fibers::<Probed<Counted, WithoutWakers>, POOLED>]
}

/// Waits of the root.
#[inline]
fn waits_of_root<D: Design>() -> [Workload; 2] {
    [root_waits::<D>, root_waits::<Probed<Counted, D>>]
}

/// Another executor.
#[inline]
fn executor_workloads<O: OtherExecutor>() -> [Workload; 2] {
    [on_executor::<O, Timed>, on_executor::<O, Counted>]
}

/// The design with another way to keep futures, or other wakers.
#[inline]
fn variations() -> [(&'static str, [Workload; 2]); 3] {
    [
        (
            "event loop + fresh boxes",
            [with_futures::<Published, Fresh>, with_futures::<Probed<Counted>, Fresh>],
        ),
        ("event loop + index wakers", on_loop::<WithIndexWakers>()),
        ("event loop + no wakers", on_loop::<WithoutWakers>()),
    ]
}

// %% [markdown]
// ## What each must count
//
// Here is what the original does in one iteration of *n* calls, read from its source, in the words that
// [the event loop](event-loop.ipynb) explains. A call into a task and out of
// it is two switches, the loop entered and left is two more. `waiting call`, in full: into the callee; out again
// at its wait; into the loop; into the callee; out at its end; out of the loop. Six switches, three readings of
// the clock, two carts, one evaluation, two passes. The other waiting styles share their passes among the batch.
//
// There is one deviation. In the original a call that was forgotten needs an evaluation all the same, as soon as
// it waits, for that is what its timer holds. Our timer holds a waker, so it needs none.

// %%
/// Counts of one iteration, in the order in which the document's table is laid out here.
fn counts(
    [switches, clock_reads, carts, handles, passes]: [usize; 5],
    [selects, registrations, system_calls]: [usize; 3],
) -> Counts {
    let named = [
        ("switches", switches),
        ("clock_reads", clock_reads),
        ("carts", carts),
        ("handles", handles),
        ("passes", passes),
        ("selects", selects),
        ("registrations", registrations),
        ("system_calls", system_calls),
    ];
    named.map(|(name, count)| (name, count as u64)).into()
}

// %% [markdown]
// Now the table of the document, style by style.

// %%
/// What the document's library does with a batch of `n`, where it has this style and this kind of wait.
pub fn expected(load: Load) -> Option<Counts> {
    let n = load.batch;
    let waits = match load.kind {
        Kind::Empty => 0,
        Kind::Due if load.waits == 1 => 1,
        _ => return None,
    };
    let of_library = match (load.style, waits) {
        (Style::Call | Style::Nonblock, 0) => [2 * n, 0, 0, 0, 0],
        (Style::NonblockEagerly, 0) => [2 * n, 0, 0, n, 0],
        (Style::DetachedSettled, 0) => [2 * n + 2, 2, n + 1, n, 1],
        (Style::Detached, 0) => [2 * n + 2, 0, n + 1, n, 2],
        (Style::Forget, 0) => [2 * n + 2, 2, n + 1, 0, 1],
        (Style::Call, _) => [6 * n, 3 * n, 2 * n, n, 2 * n],
        (Style::Nonblock | Style::NonblockEagerly, _) => [4 * n + 2, n + 2, n + 1, n, 2],
        (Style::Detached, _) => [4 * n + 2, n + 2, 2 * n + 1, n, 3],
        (Style::Forget, _) => [4 * n + 2, n + 2, 2 * n + 1, 0, 1],
        (Style::Await | Style::DetachedSettled, _) => return None,
    };
    Some(counts(of_library, [0; 3]))
}

// %% [markdown]
// And the waits of the root, where the selector's system calls are known.

// %%
/// The same for the root's own waits, with a selector that makes so many system calls to wait once.
fn expected_of_root(wait: RootWait, calls: u64, n: usize) -> Option<Counts> {
    let system_calls = |changes: usize| [n, changes * n, (changes + calls as usize) * n];
    Some(match wait {
        RootWait::Due => counts([2 * n, 3 * n, n, 0, n], [0; 3]),
        RootWait::Ready(_) => counts([2 * n, 0, 0, 0, 0], system_calls(2)),
        RootWait::Registered(_) => counts([2 * n, 0, 0, 0, 0], system_calls(1)),
        RootWait::Yield => return None,
    })
}

// %% [markdown]
// ## The tables
//
// Now everything has a name. The design of the document, translated, is called `event loop`; what is different is added
// to its name. First the table of mere invocation.

// %%
/// The translated design, with which all others are compared.
const EVENT_LOOP: &str = "event loop";
/// A regular procedure.
const PROCEDURE: &str = "call_methods/proc.call";
/// Styles of the first table.
const INVOCATIONS: [(&str, Style); 4] = [
    ("call_methods/conproc.call", Style::Call),
    ("call_methods/conproc.call_nonblock", Style::Nonblock),
    ("call_methods/conproc.call_detached", Style::DetachedSettled),
    ("call_methods/conproc.call_and_forget", Style::Forget),
];

impl Load {
    /// How this load is called in the data.
    fn parameter(&self) -> String {
        let mut parameter = format!("batch={}", self.batch);
        match self.kind {
            Kind::Yield => parameter += " wait=yield",
            Kind::Readable => parameter += " wait=readable",
            Kind::Empty | Kind::Due => {}
        }
        if self.waits > 1 {
            parameter += &format!(" waits={}", self.waits);
        }
        parameter
    }
}

// %% [markdown]
// A subject is compared with what the library does, unless it does something else.

// %%
/// A subject that does what the document's library does, where that has this load.
fn subject(bench: &'static str, variant: &'static str, load: Load, workloads: [Workload; 2]) -> Subject {
    Subject { bench, variant, parameter: load.parameter(), load, workloads, expected: expected(load) }
}

/// A subject that does other work: counts that are given, or unknown ones.
fn with_other_work(expected: Option<Counts>, subject: Subject) -> Subject {
    Subject { expected, ..subject }
}

// %% [markdown]
// Every style on the design, its variations and fibers; then a future on the stack, an eager evaluation, and the
// regular procedure.

// %%
/// Mere invocation.
#[inline]
fn invocations() -> Vec<Subject> {
    let mut all = vec![];
    for (bench, style) in INVOCATIONS {
        let load = Load::published(style, Kind::Empty);
        let fibers = [("fibers", in_fibers::<true>()), ("fibers + fresh stacks", in_fibers::<false>())];
        let variants = [(EVENT_LOOP, on_loop::<Published>())].into_iter().chain(variations()).chain(fibers);
        all.extend(variants.map(|(variant, workloads)| subject(bench, variant, load, workloads)));
    }
    let [(bench, _), (nonblock, _), ..] = INVOCATIONS;
    let call = Load::published(Style::Call, Kind::Empty);
    let nothing = |bench, variant, workloads| {
        with_other_work(Some(counts([0; 5], [0; 3])), subject(bench, variant, call, workloads))
    };
    let eager = Load::published(Style::NonblockEagerly, Kind::Empty);
    all.extend([
        nothing(bench, "event loop + inline", [inline::<Published>, inline::<Probed<Counted>>]),
        subject(nonblock, "event loop + eager handles", eager, on_loop::<Published>()),
        nothing(PROCEDURE, "closure", [closure::<Timed>, closure::<Counted>]),
        nothing(PROCEDURE, "boxed closure", [boxed_closure::<Timed>, boxed_closure::<Counted>]),
    ]);
    all
}

// %% [markdown]
// Mere waiting. The timer queues also have 10,000 other timers to keep, the selectors 99 and 9,999 other
// descriptors.

// %%
/// The number of idle timers, and of registered descriptors, in the larger loads.
const MANY: usize = 10_000;
const WAIT: &str = "wait_methods/wait";
const READINESS: [(&str, Interest); 2] = [
    ("wait_methods/await_readable", Interest::Readable),
    ("wait_methods/await_writable", Interest::Writable),
];

/// Waits of the root, next to so many others; `name` says so in the data.
fn root_subject(
    bench: &'static str,
    variant: &'static str,
    (name, idle): (&str, usize),
    root: RootWait,
    workloads: [Workload; 2],
) -> Subject {
    let load = Load { idle, root, ..Load::published(Style::Call, Kind::Due) };
    let calls = if variant.contains("epoll") { Epoll::CALLS } else { Polling::CALLS };
    let parameter = format!("batch={BATCH}{name}");
    Subject { bench, variant, parameter, load, workloads, expected: expected_of_root(root, calls, BATCH) }
}

// %% [markdown]
// First the wait for a time: three queues, alone and among many timers, and three kinds of wakers.

// %%
/// Waiting of the root for a time.
#[inline]
fn root_timers() -> Vec<Subject> {
    let queues: [(&str, [Workload; 2]); 3] = [
        (EVENT_LOOP, waits_of_root::<Published>()),
        ("event loop + heap", waits_of_root::<WithHeap>()),
        ("event loop + tree", waits_of_root::<WithTree>()),
    ];
    let wakers: [(&str, [Workload; 2]); 2] = [
        ("event loop + index wakers", waits_of_root::<WithIndexWakers>()),
        ("event loop + no wakers", waits_of_root::<WithoutWakers>()),
    ];
    let (alone, pending) = (("", 0), (&*format!(" pending={MANY}"), MANY));
    let due =
        |others| move |(variant, workloads)| root_subject(WAIT, variant, others, RootWait::Due, workloads);
    let mut all: Vec<_> = queues.into_iter().chain(wakers).map(due(alone)).collect();
    all.extend(queues.map(due(pending)));
    all.push(root_subject(WAIT, EVENT_LOOP, (" wait=yield", 0), RootWait::Yield, queues[0].1));
    all
}

// %% [markdown]
// Readiness has two selectors and two kinds of registration.

// %%
/// Waiting of the root for readiness: with each selector, registered per wait or kept, alone or among others.
#[inline]
fn root_readiness() -> Vec<Subject> {
    use RootWait::{Ready, Registered};
    const SELECTORS: [&str; 4] =
        [EVENT_LOOP, "event loop + kept", "event loop + epoll", "event loop + epoll + kept"];
    let by_crate = waits_of_root::<Published>();
    let by_epoll = waits_of_root::<WithEpoll>();
    let mut all = vec![];
    for (bench, interest) in READINESS {
        for variant in SELECTORS {
            let workloads = if variant.contains("epoll") { by_epoll } else { by_crate };
            let wait = if variant.ends_with("kept") { Registered(interest) } else { Ready(interest) };
            let mut add = |name: &str, idle| {
                all.push(root_subject(bench, variant, (name, idle), wait, workloads));
            };
            add("", 0);
            if wait == Ready(Interest::Readable) {
                add(" registered=100", 99);
                add(&format!(" registered={MANY}"), MANY - 1);
            }
        }
    }
    all
}

// %% [markdown]
// The third table: calls that do not wait, settled otherwise than in the first, and calls that wait once.

// %%
/// Styles of the third table, for a procedure that does not wait and for one that does.
const CALLS: [(&str, &str, Style); 4] = [
    ("call_methods_waiting/call", "call_methods_waiting/waiting call", Style::Call),
    ("call_methods_waiting/call_nonblock", "call_methods_waiting/waiting call_nonblock", Style::Nonblock),
    ("call_methods_waiting/call_detached", "call_methods_waiting/waiting call_detached", Style::Detached),
    ("call_methods_waiting/call_and_forget", "call_methods_waiting/waiting call_and_forget", Style::Forget),
];

/// Other executors under a load, and the frontier, where it has this style.
#[inline]
fn others(bench: &'static str, load: Load) -> Vec<Subject> {
    let executors =
        [executor_workloads::<Tokio>(), executor_workloads::<Smol>(), executor_workloads::<Pool>()];
    let on_each = |variants: [&'static str; 3], load| {
        let pairs = variants.into_iter().zip(executors);
        pairs.map(move |(variant, workloads)| with_other_work(None, subject(bench, variant, load, workloads)))
    };
    let mut all: Vec<_> = on_each(["tokio", "smol", "LocalPool"], load).collect();
    if load.style == Style::Call {
        let load = Load { style: Style::Await, ..load };
        all.extend(on_each(["tokio + await", "smol + await", "LocalPool + await"], load));
    }
    if load.style != Style::Nonblock || load.kind == Kind::Empty {
        all.push(with_other_work(
            None,
            subject(bench, "frontier", load, [frontier::<Timed>, frontier::<Counted>]),
        ));
    }
    all
}

// %% [markdown]
// On our loop also in other batches than the published one.

// %%
/// Calls that do not wait: on ours and on other executors.
#[inline]
fn empty_calls() -> Vec<Subject> {
    let mut all = vec![];
    for (bench, _, style) in CALLS {
        let load = Load::published(style, Kind::Empty);
        let ours = |batch| {
            let load = Load { batch, ..load };
            let subject = |variant, workloads| subject(bench, variant, load, workloads);
            [subject(EVENT_LOOP, on_loop::<Published>()), subject("fibers", in_fibers::<true>())]
        };
        all.extend(ours(BATCH));
        all.extend(others(bench, load));
        all.extend([1, 10, 1000].into_iter().flat_map(ours));
    }
    all
}

// %% [markdown]
// Calls that wait have most variants: what a wait leaves behind, where it waits, and what it waits for.

// %%
/// Calls that wait.
#[inline]
fn waiting_calls() -> Vec<Subject> {
    let mut all = vec![];
    for (_, bench, style) in CALLS {
        let load = Load::published(style, Kind::Due);
        let (futures, fibers) = (on_loop::<Published>(), in_fibers::<true>());
        let mut add = |variant, load, workloads| all.push(subject(bench, variant, load, workloads));
        add(EVENT_LOOP, load, futures);
        add("event loop + heap", load, on_loop::<WithHeap>());
        add("event loop + tree", load, on_loop::<WithTree>());
        variations().into_iter().for_each(|(variant, workloads)| add(variant, load, workloads));
        add("fibers", load, fibers);
        let of_ten = Load { waits: 10, ..load };
        let batches = [1, 10, 1000].map(|batch| Load { batch, ..load });
        let yielding = Load::published(style, Kind::Yield);
        for load in batches.into_iter().chain([of_ten, yielding]) {
            add(EVENT_LOOP, load, futures);
            add("fibers", load, fibers);
        }
        all.extend(others(bench, yielding));
        let readable = Load::published(style, Kind::Readable);
        all.push(subject(bench, EVENT_LOOP, readable, futures));
        all.push(subject(bench, "event loop + epoll", readable, on_loop::<WithEpoll>()));
    }
    let [(_, call, _), (_, nonblock, _), ..] = CALLS;
    let load = Load::published(Style::Call, Kind::Due);
    let alone = expected_of_root(RootWait::Due, Polling::CALLS, BATCH);
    let inlined =
        subject(call, "event loop + inline", load, [inline::<Published>, inline::<Probed<Counted>>]);
    all.push(with_other_work(alone, inlined));
    let load = Load::published(Style::NonblockEagerly, Kind::Due);
    all.push(subject(nonblock, "event loop + eager handles", load, on_loop::<Published>()));
    all
}

/// All subjects.
#[inline]
pub fn subjects() -> Vec<Subject> {
    [invocations(), root_timers(), root_readiness(), empty_calls(), waiting_calls()].concat()
}

// %% [markdown]
// # Proof
//
// Each subject runs some iterations in a process of its own, with the probe that counts. All but the last two warm
// up: calls that were forgotten and wait end in a *later* iteration, since the root's own wait is due before
// theirs, so that it takes as many iterations as they have waits until each ends as many as it begins. The last two
// must both count what the library does, execute as many procedures as were called, and return the sum of their
// results. The timed code, which counts nothing, must return the same sum.

// %%
/// How long one trial may take before it counts as hanging: far longer than any of them takes.
pub const LIMIT: Duration = Duration::from_secs(20);

/// The counts of one iteration, proven.
///
/// # Errors
/// If the subject does other work than it should, or none: says which subject, and what is wrong.
pub fn prove(subject: &Subject, limit: Duration) -> Result<BTreeMap<String, u64>, UnequalWork> {
    let (load, [timed, counted], n) = (subject.load, subject.workloads, subject.load.batch as u64);
    let results = !matches!(load.style, Style::DetachedSettled | Style::Forget);
    let sum = if results { n * (n - 1) / 2 } else { 0 };
    let mut expected = subject.expected.clone().unwrap_or_default();
    expected.extend([("executions", n), ("sum", sum), ("timed sum", sum)]);
    let mut proven = harness::prove_isolated(subject.key(), limit, &expected, || {
        let (iterations, mut sums, mut seen) = (load.waits + 3, vec![], vec![]);
        timed(load, &mut |iterate| sums.extend((0..iterations).map(|_| iterate())));
        counted(load, &mut |iterate| {
            for timed_sum in &sums {
                drop(Counted::take());
                let sum = iterate();
                seen.push(Counted::take());
                seen.last_mut().expect("the last one").extend([("sum", sum), ("timed sum", *timed_sum)]);
            }
        });
        seen.into_iter().skip(iterations - 2)
    })?;
    proven.retain(|counter, _| Counter::NAMES.contains(&&**counter));
    Ok(proven)
}

// %% [markdown]
// What the translated design counts for each call:

// %% tags=["active-ipynb"]
// for subject in subjects().into_iter().filter(|subject| subject.variant == EVENT_LOOP && subject.parameter == "batch=100") {
//     let counts = prove(&subject, LIMIT).unwrap_or_else(harness::stop);
//     let per_call = |name: &str| counts[name] as f64 / BATCH as f64;
//     let [switches, clock, carts, handles, passes, calls] =
//         ["switches", "clock_reads", "carts", "handles", "passes", "system_calls"].map(per_call);
//     println!("{:<45} {switches:>4.2} switches {clock:>4.2} clock {carts:>4.2} carts {handles:>4.2} handles {passes:>4.2} passes {calls:>4.2} system calls", subject.bench);
// }

// %% [markdown]
// # The study
//
// Differences of less than 2 % do not matter in the choice of a style. Each family of subjects is a group with
// a control: the translated design, measured a second time.

// %%
/// The group of comparisons that a subject belongs to.
fn group(subject: &Subject) -> &'static str {
    match subject.bench {
        WAIT => "waits",
        bench if bench.starts_with("wait_methods") => "readiness",
        _ if subject.load.kind == Kind::Empty => "calls",
        _ => "waiting calls",
    }
}

/// The subjects that are measured a second time, one for each group.
const CONTROLLED: [&str; 4] = [INVOCATIONS[0].0, WAIT, READINESS[0].0, CALLS[1].1];

// %% [markdown]
// First, each variant is compared with the translated design, in the same bench under the same load.
// Fibers differ from it in their wakers, too, so they are also compared with the design that has none.

// %%
/// The first, what it is compared with, and what changes.
type Compared = (Key, Key, String);

/// What a variant changes in the translated design.
fn change(variant: &str) -> String {
    let changed = match variant {
        "event loop + fresh boxes" => "a fresh box in the place of a pooled slot",
        "event loop + index wakers" => "index wakers in the place of `Arc` wakers",
        "event loop + no wakers" => "no wakers in the place of `Arc` wakers",
        "event loop + inline" => "no slot: the future is polled where it stands",
        "event loop + eager handles" => "an eager handle in the place of a lazy one",
        "event loop + heap" => "a heap in the place of a sorted vector",
        "event loop + tree" => "a tree in the place of a sorted vector",
        "event loop + kept" => "registrations that are kept",
        "event loop + epoll" => "plain epoll in the place of the `polling` crate",
        "event loop + epoll + kept" => "plain epoll, and registrations that are kept",
        "fibers" => "fibers without wakers in the place of futures",
        "fibers + fresh stacks" => "fibers without wakers, on fresh stacks, in the place of futures",
        "closure" => "a regular procedure that the compiler knows",
        "boxed closure" => "a regular procedure behind a pointer",
        other => return format!("{other} in the place of the translated loop"),
    };
    changed.to_owned()
}

// %% [markdown]
// A regular procedure is in a bench of its own, and compared with a call.

// %%
/// A variant compared with the design, or with another that is nearer to it.
fn compared_with_design(subject: &Subject) -> Vec<Compared> {
    // A regular procedure is in a bench of its own.
    let bench = if subject.bench == PROCEDURE { INVOCATIONS[0].0 } else { subject.bench };
    let against = |variant: &str, change: &str| {
        (subject.key(), Key::new(bench, variant, subject.parameter.as_str()), change.to_owned())
    };
    let mut all = vec![against(EVENT_LOOP, &change(subject.variant))];
    all.extend(match subject.variant {
        "fibers" => Some(against("event loop + no wakers", "a fiber in the place of a boxed future")),
        "fibers + fresh stacks" => Some(against("fibers", "a fresh stack in the place of a pooled fiber")),
        "boxed closure" => Some(against("fibers", "a regular procedure behind a pointer")),
        variant => variant
            .strip_suffix(" + await")
            .map(|executor| against(executor, "an `.await` in the place of a task")),
    });
    all
}

// %% [markdown]
// Then style with style. The others of a published table are compared with one of its styles, `call` in the first and
// `call_nonblock` in the third. Advice needs every style against every other, for a callee that waits once and for one
// that does not, on every executor.

// %%
/// The styles of a table, the one first that others are compared with.
const TABLES: [[&str; 4]; 3] = [
    [INVOCATIONS[0].0, INVOCATIONS[1].0, INVOCATIONS[2].0, INVOCATIONS[3].0],
    [CALLS[1].0, CALLS[0].0, CALLS[2].0, CALLS[3].0],
    [CALLS[1].1, CALLS[0].1, CALLS[2].1, CALLS[3].1],
];

/// A style compared with others of its table, with the same executor under the same load.
fn compared_with_styles(subject: &Subject) -> Vec<Compared> {
    let place_in = |table: &[&str; 4]| table.iter().position(|bench| *bench == subject.bench);
    let Some((number, place)) =
        TABLES.iter().enumerate().find_map(|(number, table)| Some((number, place_in(table)?)))
    else {
        return vec![];
    };
    let Load { kind, batch, waits, .. } = subject.load;
    let to_choose = batch == BATCH && waits <= 1 && kind != Kind::Readable;
    let others = match subject.variant {
        variant if variant.contains(" + ") => 0,
        _ if number > 0 && to_choose => place,
        EVENT_LOOP => place.min(1),
        "fibers" if number == 0 => place.min(1),
        _ => 0,
    };
    let style = |bench: &'static str| bench.rsplit(['/', '.', ' ']).next().unwrap_or(bench);
    let against = |other: &'static str| {
        let changed = format!("`{}` instead of `{}`", style(subject.bench), style(other));
        (subject.key(), Key::new(other, subject.variant, subject.parameter.as_str()), changed)
    };
    TABLES[number][..others].iter().copied().map(against).collect()
}

// %% [markdown]
// And load with load: kinds of waits with the wait for a time, waiting among others with waiting alone, batches of
// other sizes with the published one, a callee that waits ten times with one that waits once.

// %%
/// A load compared with the published one, or a wait compared with the wait for a time.
fn compared_with_loads(subject: &Subject) -> Option<Compared> {
    let Subject { bench, variant, load, .. } = subject;
    let published = format!("batch={BATCH}");
    let itself =
        |changed: String| Some((subject.key(), Key::new(*bench, *variant, published.as_str()), changed));
    let ours = *variant == EVENT_LOOP;
    match load.root {
        RootWait::Due if load.idle > 0 => itself(format!("among {} other timers", load.idle)),
        _ if load.idle > 0 => itself(format!("among {} other descriptors", load.idle)),
        RootWait::Yield => itself("a bare yield instead of a timer".to_owned()),
        RootWait::Ready(_) | RootWait::Registered(_) => {
            let way = variant.strip_prefix("event loop + ").map_or(String::new(), |way| format!(" ({way})"));
            let kind = bench.trim_start_matches("wait_methods/");
            let changed = format!("`{kind}`{way} instead of a timer");
            Some((subject.key(), Key::new(WAIT, EVENT_LOOP, published.as_str()), changed))
        }
        RootWait::Due if load.waits > 1 => itself(format!("{} waits instead of 1", load.waits)),
        RootWait::Due if ours && load.batch != BATCH => {
            itself(format!("batches of {} instead of {BATCH}", load.batch))
        }
        RootWait::Due if ours && *bench == CALLS[1].1 && load.kind != Kind::Due => {
            let kind = if load.kind == Kind::Yield { "a yield" } else { "a descriptor that is ready" };
            itself(format!("{kind} instead of a timer"))
        }
        RootWait::Due => None,
    }
}

// %% [markdown]
// A few claims compare something else.

// %%
/// Benches that the document also compares with each other, and what changes.
const CLAIMED: [(&str, &str, &str); 3] = [
    (INVOCATIONS[3].0, INVOCATIONS[2].0, "`call_and_forget` instead of `call_detached`"),
    (INVOCATIONS[3].0, INVOCATIONS[1].0, "`call_and_forget` instead of `call_nonblock`"),
    (CALLS[1].1, CALLS[1].0, "a callee that waits"),
];
/// The same, of waits.
const CLAIMED_OF_WAITS: [(&str, &str); 2] = [
    (EVENT_LOOP, "`await_readable` instead of `await_writable`"),
    ("event loop + epoll", "`await_readable` instead of `await_writable` (epoll)"),
];

/// Everything that is compared.
fn comparisons(subjects: &[Subject]) -> Vec<Compared> {
    let mut all = vec![];
    for subject in subjects {
        all.extend(compared_with_design(subject));
        all.extend(compared_with_styles(subject));
        all.extend(compared_with_loads(subject));
    }
    let published = |bench, variant| Key::new(bench, variant, format!("batch={BATCH}"));
    for variant in [EVENT_LOOP, "fibers"] {
        all.extend(CLAIMED.map(|(one, other, changed)| {
            (published(one, variant), published(other, variant), changed.to_owned())
        }));
    }
    all.extend(CLAIMED_OF_WAITS.map(|(variant, changed)| {
        let [(one, _), (other, _)] = READINESS;
        (published(one, variant), published(other, variant), changed.to_owned())
    }));
    let keys: Vec<Key> = subjects.iter().map(Subject::key).collect();
    all.retain(|(one, other, _)| one != other && keys.contains(other));
    all
}

// %% [markdown]
// # The document's own languages
//
// Some claims compare Ruby with mruby, or are about mruby alone. So the loop is there once more, as [a program in
// Ruby](../../rust-kernels/call-styles/fibers.rb) that both interpreters run, on their own fibers. Where both are
// installed, each is started once and waits for orders: a bench to set up, or so many iterations of it. So its slices lie
// in the same rounds as everything else. Each order is answered with the sum of the arguments of all procedures that
// ended meanwhile, which proves the timed work; the time is the processor time of that process.
//
// Two things are not as in the document. Its procedures are empty, and these add their argument to that sum. Its library
// asks libev on Ruby and `poll` on mruby, each through a gem; without a gem, both interpreters have `IO.select`.

// %%
/// An interpreter that runs the benches of the document.
struct Interpreter {
    process: Child,
    orders: RefCell<ChildStdin>,
    answers: RefCell<BufReader<ChildStdout>>,
    /// 30102 stands for 3.1.2.
    version: u64,
}

impl Interpreter {
    /// Starts it; it ends with the pipe that it reads. `NotFound` also where it does not say its version: under valgrind
    /// a program that is not there seems to start.
    fn start(name: &str) -> io::Result<Self> {
        let program = harness::root().map_err(io::Error::other)?.join("rust-kernels/call-styles/fibers.rb");
        let mut process =
            Command::new(name).arg(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let orders = RefCell::new(process.stdin.take().expect("a pipe"));
        let answers = RefCell::new(BufReader::new(process.stdout.take().expect("a pipe")));
        let mut started = Self { process, orders, answers, version: 0 };
        let parts: Result<Vec<u64>, _> = started.next_line().split('.').map(str::parse).collect();
        let parts = parts.map_err(|_| io::ErrorKind::NotFound)?;
        started.version = parts.iter().fold(0, |version, part| version * 100 + part);
        Ok(started)
    }

    /// The next line that it prints.
    fn next_line(&self) -> String {
        let mut line = String::new();
        self.answers.borrow_mut().read_line(&mut line).expect("an interpreter that answers");
        line.trim_end().to_owned()
    }

    /// The processor time that it has taken.
    fn time(&self) -> Duration {
        let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
        let process = self.process.id().cast_signed();
        // SAFETY: each call writes to the variable that it is given, which outlives it.
        let failed = unsafe {
            libc::clock_getcpuclockid(process, &mut clock) != 0 || libc::clock_gettime(clock, &mut time) != 0
        };
        assert!(!failed, "an interpreter that runs has a clock");
        Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
    }

    /// Gives an order; the sum that it answers, and the processor time that this took.
    fn run_order(&self, order: impl Display) -> (u64, Duration) {
        let before = self.time();
        writeln!(self.orders.borrow_mut(), "{order}").expect("an interpreter that listens");
        let answer = self.next_line();
        (answer.parse().unwrap_or_else(|_| panic!("answered {answer:?}")), self.time() - before)
    }
}

// %% [markdown]
// The time of the exchange itself is subtracted: before each order, one of no iterations is timed.

// %%
/// The sum that an iteration adds.
const SUM: u64 = (BATCH * (BATCH - 1) / 2) as u64;

/// Iterations of a bench by an interpreter.
fn interpreted(interpreter: &Interpreter, bench: &str, bencher: &mut Bencher<'_>) {
    interpreter.run_order(bench);
    bencher.iter_custom(&mut |iterations| {
        let (_, exchange) = interpreter.run_order(0);
        let (sum, time) = interpreter.run_order(iterations);
        assert_eq!(sum, iterations * SUM, "{bench} does other work than it should");
        time.saturating_sub(exchange).max(Duration::from_nanos(1))
    });
}

// %% [markdown]
// mruby is compared with Ruby in each bench. On mruby, the waits for readiness are compared with that for a time, and
// calls that wait with the style that forgets them.

// %%
/// The interpreters, by their names.
pub const INTERPRETERS: [&str; 2] = ["ruby", "mruby"];
/// What they are asked for: the tables of the document, without the calls of the third that do not wait.
pub const INTERPRETED: [&str; 12] = [
    PROCEDURE,
    INVOCATIONS[0].0,
    INVOCATIONS[1].0,
    INVOCATIONS[2].0,
    INVOCATIONS[3].0,
    WAIT,
    READINESS[0].0,
    READINESS[1].0,
    CALLS[0].1,
    CALLS[1].1,
    CALLS[2].1,
    CALLS[3].1,
];

/// What is compared with what.
fn interpreters_compared() -> Vec<Compared> {
    let key = |bench: &str, interpreter| Key::new(bench, interpreter, format!("batch={BATCH}"));
    let [ruby, mruby] = INTERPRETERS;
    let mut all: Vec<Compared> = INTERPRETED
        .map(|bench| (key(bench, mruby), key(bench, ruby), "mruby in the place of Ruby".to_owned()))
        .into();
    for interpreter in INTERPRETERS {
        let mut against = |one: &str, other: &str, change: String| {
            all.push((key(one, interpreter), key(other, interpreter), change));
        };
        for (bench, _) in READINESS {
            against(
                bench,
                WAIT,
                format!("`{}` instead of a timer", bench.trim_start_matches("wait_methods/")),
            );
        }
        let call_and_forget = CALLS[3].1;
        for (_, bench, _) in &CALLS[..3] {
            let style = bench.rsplit(' ').next().unwrap_or(bench);
            against(call_and_forget, bench, format!("`call_and_forget` instead of `{style}`"));
        }
    }
    all
}

// %% [markdown]
// Without both interpreters their rows are absent. Their versions are kept among the counts.

// %%
/// The study with the interpreters, if both are there.
fn with_interpreters(study: Study) -> io::Result<Study> {
    let [ruby, mruby] = INTERPRETERS.map(Interpreter::start);
    let mut study = study.group("interpreters", harness::limit::CALLS).uncounted();
    let both = [(ruby?, PROCEDURE), (mruby?, CALLS[0].1)];
    for (name, (interpreter, controlled)) in INTERPRETERS.into_iter().zip(both) {
        let interpreter = Rc::new(interpreter);
        for bench in INTERPRETED {
            let key = Key::new(bench, name, format!("batch={BATCH}"));
            let proof = harness::prove_isolated(&key, LIMIT, &Counts::from([("sum", SUM)]), || {
                interpreter.run_order(bench);
                [Counts::from([("sum", interpreter.run_order(1).0)])]
            });
            let runs = Rc::clone(&interpreter);
            study = study
                .unit(if bench.starts_with("wait_methods") { "wait" } else { "call" })
                .proven(key.clone(), proof, move |bencher| interpreted(&runs, bench, bencher))
                .count(key.clone(), "units", BATCH as u64)
                .count(key, "version", interpreter.version);
        }
        study = study.control_of(Key::new(controlled, name, format!("batch={BATCH}")));
    }
    let compared = interpreters_compared().into_iter();
    Ok(compared.fold(study, |study, (one, other, change)| study.compare(one, other, change)))
}

// %% [markdown]
// The study puts it together. A subject whose proof fails is left out, and named.

// %%
/// All subjects, proven.
#[inline]
pub fn study() -> Study {
    let subjects = subjects();
    let mut study = Study::new("call-styles").rounds(6, 24).isolated(LIMIT);
    for subject in &subjects {
        let (key, load, proof) = (subject.key(), subject.load, prove(subject, LIMIT));
        let counts = proof.clone().unwrap_or_default();
        let unit = if subject.bench.starts_with("wait_methods") { "wait" } else { "call" };
        study = study.group(group(subject), harness::limit::CALLS).unit(unit).proven(
            key.clone(),
            proof,
            timed(subject.workloads[0], load),
        );
        study = study.count(key.clone(), "units", load.batch as u64);
        // Other executors count nothing but the procedures.
        let counts_all = subject.expected.is_some() || subject.variant.starts_with(EVENT_LOOP);
        study = study
            .counts(&key, counts.into_iter().filter(|(counter, _)| counts_all || counter == "executions"));
        if subject.variant == EVENT_LOOP
            && subject.parameter == format!("batch={BATCH}")
            && CONTROLLED.contains(&subject.bench)
        {
            study = study.control_of(key);
        }
    }
    for (one, other, change) in comparisons(&subjects) {
        study = study.compare(one, other, change);
    }
    match with_interpreters(study.clone()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => study,
        added => added.unwrap_or_else(harness::stop),
    }
}

// %% [markdown]
// # A glance
//
// `call` of a procedure that does not wait, by all variants in turns, a second each: the time of a call, and how many
// times that of the first. Nothing is kept, and nothing is concluded. Choose another bench, or a variant of your own,
// and run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().glance(|key| {
//     key.bench == "call_methods/conproc.call" && key.parameter == "batch=100"
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
// The [analysis](analysis.ipynb) derives the table of advice anew from this run, and puts the published claims next to
// it. Before you read a ratio, look at the control of its group, `event loop (A/A)`.
//
// # What this does not say
//
// - The procedures are empty, so every call costs what the style costs. In a program whose procedures do something,
//   that is a smaller part of the whole.
// - Foreground styles use the same slot again and again, background styles a hundred slots. That is part of the style,
//   and the reason why batches of one and of a thousand are measured, too.
// - A descriptor that is ready all the time measures what it costs to register, to ask and to deregister. Waiting
//   for a peer costs what the peer takes.
// - Fibers are measured with their stacks in the cache. Their memory, a stack each, is in no figure of time.
// - Other executors yield where ours has a timer, so only `wait=yield` compares them.
//
// # What next
//
// - Give the procedures some work, and see from which size on the style stops mattering.
// - `cargo bench -p call-styles --bench counts` counts the allocations and instructions of all of it; divide by
//   `units`.
