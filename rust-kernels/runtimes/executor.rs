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
// # An executor with threads, to be read in one sitting
//
// Two runtimes are compared in the [next notebook](measure.ipynb), and they differ in everything at once: how tasks are
// laid out, which worker gets a new one, which one is woken for it, and on which thread the caller of `block_on` waits.
// If you want to know which of these decisions a microsecond comes from, you need a third runtime in which you can
// change one of them and leave the rest.
//
// Here it is: a work-stealing executor with join handles, timers, a pool for blocking calls and a shutdown that drops every
// task exactly once. At the end four of its decisions are undone, one at a time, and measured.
//
// Words are tokio's where it has one: a *worker* is a place for one thread to run tasks, its *core* what it has for
// itself, the *LIFO slot* a task that is run next, the *injector* the queue of tasks from outside; to *park* is to put
// a thread to sleep. The *root* is the future given to `block_on`. A task's *home* is where it was spawned.
//
// After reading it you can decide which of them matter to your own runtime, or to your use of one.

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
// :dep crossbeam-deque = "=0.8.8"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep idle = { path = "../../rust-kernels/idle" }
// :dep sync = { path = "../../rust-kernels/sync" }

// %% [markdown]
// ## What comes out
//
// First, the finished crate at work: a call awaited in place, and the same call spawned and awaited
// by its handle, a hundred times in each `block_on`, with two workers. The second line is what a task costs: an allocation,
// a way through a queue, and a join. It is a glance: one process, a second each, no control.

// %% tags=["active-ipynb", "glance"]
// :dep runtimes-executor = { path = "../../rust-kernels/runtimes/executor" }
// {
//     async fn call() -> u64 {
//         std::hint::black_box(1)
//     }
//     async fn calls(spawned: bool) {
//         for _ in 0..100 {
//             match spawned {
//                 true => runtimes_executor::spawn(call()).await.expect("it does not panic"),
//                 false => call().await,
//             };
//         }
//     }
//     let runtime = runtimes_executor::Runtime::new(runtimes_executor::Settings::new(2));
//     harness::Glance::at("call")
//         .each_of(100)
//         .look("awaited", |bencher| bencher.iter(&mut || runtime.block_on(calls(false))))
//         .look("spawned and awaited", |bencher| bencher.iter(&mut || runtime.block_on(calls(true))))
//         .show()
// }

// %% [markdown]
// Which thread runs these tasks? With the first of the four decisions, the one that called `block_on`, as long as it
// waits anyway: it takes the place of a worker, and no thread is woken. Without it, other threads run all of them.

// %% tags=["active-ipynb", "glance"]
// {
//     for takes_core in [true, false] {
//         let settings = runtimes_executor::Settings { takes_core, ..runtimes_executor::Settings::new(2) };
//         let (runtime, caller) = (runtimes_executor::Runtime::new(settings), std::thread::current().id());
//         let here = runtime.block_on(async {
//             let mut here = 0;
//             for _ in 0..1000 {
//                 let task = runtimes_executor::spawn(async { std::thread::current().id() });
//                 here += usize::from(task.await.expect("it does not panic") == caller);
//             }
//             here
//         });
//         println!("takes_core {takes_core}: {here} of 1000 tasks ran on the thread that called block_on");
//     }
// };

// %% [markdown]
// The executor uses the standard library, a queue of crossbeam, and `idle`, of which more below.

// %%
use std::any::Any;
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::ptr::{self, NonNull};
use std::sync::{Condvar, OnceLock};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::{Duration, Instant};

use harness::{Bencher, Counts, Key, Study, UnequalWork};
use idle::{Idle, shielded};

// %% [markdown]
// Threads meet in few places, and for those a run without trouble proves little. So whatever several threads touch
// comes from the crate `sync`, which can turn it over to [loom](https://docs.rs/loom): it then runs a test in every
// order in which threads can meet. crossbeam's queue does not know loom; its stand-in has queues whose growth is seen
// late, for what is to be proven is the executor around them.

// %%
/// A stand-in for crossbeam's queue, which does not know loom.
#[cfg(under_loom)]
#[path = "executor/loom_model.rs"]
mod model;

/// The queue for tasks from outside, in a module because evcxr does not see the cfg of a `use`.
mod queues {
    #[cfg(not(under_loom))]
    pub use crossbeam_deque::{Injector, Steal, Worker as Batch};

    #[cfg(under_loom)]
    pub use super::model::{Batch, Injector, Steal};
}

use self::queues::{Batch, Injector, Steal};
use sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use sync::cell::Shared;
use sync::thread::{
    JoinHandle as Handle, Thread, current, is_current, is_finished, park, park_timeout, start, yield_now,
};
use sync::{Arc, Mutex};

// %% [markdown]
// # What it is made of
//
// Rust wants to know a type before it is used, and so does a reader. We begin with the parts that know nothing of the
// others.
//
// **Timers.** Each worker has a map from deadlines to wakers.

// %%
/// Sleeps that wait for their time.
#[derive(Default)]
struct Timers {
    /// How many there are. Written under the lock of the entries; a thread that has to know of one that another
    /// thread has set is unparked by it.
    armed: std::sync::atomic::AtomicUsize,
    entries: std::sync::Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    /// By deadline, and by a number that tells those of one deadline apart.
    wakers: BTreeMap<(Instant, u64), Waker>,
    /// The last of these numbers.
    last: u64,
    /// They are not fired any more.
    closed: bool,
}

// %% [markdown]
// A waker may be foreign code: if it panics, that affects only the future that waits with it.

// %%
/// Wakes, whatever that does: the waker may be foreign code.
fn wake_shielded(waker: Waker) {
    shielded(|| waker.wake());
}

/// Drops a waker that is no longer needed, whatever that does.
fn drop_shielded(waker: Option<Waker>) {
    if waker.is_some() {
        shielded(|| drop(waker));
    }
}

// %% [markdown]
// Firing timers wakes tasks, which may set and drop timers; so nothing is woken or dropped under the lock. Most
// workers have no timers most of the time, and find that out without a lock.

// %%
impl Timers {
    /// Wakes those whose time has come.
    fn fire(&self) {
        if self.armed.load(Ordering::Relaxed) == 0 {
            return;
        }
        let due: Vec<Waker> = {
            let mut entries = self.entries.lock().unwrap();
            let later = entries.wakers.split_off(&(Instant::now(), u64::MAX));
            self.armed.store(later.len(), Ordering::Relaxed);
            std::mem::replace(&mut entries.wakers, later).into_values().collect()
        };
        due.into_iter().for_each(wake_shielded);
    }

    /// Wakes all, that they may look for another runtime: this one fires no more.
    fn close(&self) {
        let wakers = {
            let mut entries = self.entries.lock().unwrap();
            entries.closed = true;
            self.armed.store(0, Ordering::Relaxed);
            std::mem::take(&mut entries.wakers)
        };
        wakers.into_values().for_each(wake_shielded);
    }

    /// The first deadline.
    fn first(&self) -> Option<Instant> {
        if self.armed.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.entries.lock().unwrap().wakers.keys().next().map(|(deadline, _)| *deadline)
    }
}

// %% [markdown]
// A sleep is set when it is polled before its time has come, and removed when it is dropped before.

// %%
impl Timers {
    /// Adds a sleep, or gives the one of this number another waker; returns its number, which no other sleep of this
    /// worker has, and whether it was added. `None` when they are not fired any more.
    fn set(&self, deadline: Instant, number: Option<u64>, waker: &Waker) -> Option<(u64, bool)> {
        let waker = waker.clone();
        let mut entries = self.entries.lock().unwrap();
        if entries.closed {
            return None;
        }
        let number = number.unwrap_or(entries.last + 1);
        entries.last = entries.last.max(number);
        let former = entries.wakers.insert((deadline, number), waker);
        self.armed.store(entries.wakers.len(), Ordering::Relaxed);
        drop(entries);
        let added = former.is_none();
        drop_shielded(former);
        Some((number, added))
    }

    fn remove(&self, deadline: Instant, number: u64) {
        let mut entries = self.entries.lock().unwrap();
        let removed = entries.wakers.remove(&(deadline, number));
        self.armed.store(entries.wakers.len(), Ordering::Relaxed);
        // The waker last: it may hold the last reference to a task, which may hold a sleep.
        drop(entries);
        drop_shielded(removed);
    }
}

// %% [markdown]
// **Threads for calls that block**: a queue, and the threads that are busy with it. The rest follows when there are tasks.

// %%
/// Threads for calls that block.
struct Blocking<T> {
    state: std::sync::Mutex<BlockingState<T>>,
    /// For threads without a call.
    arrived: Condvar,
    /// Calls that wait.
    waiting: std::sync::atomic::AtomicUsize,
}

struct BlockingState<T> {
    queue: VecDeque<T>,
    threads: usize,
    /// Threads that will look at the queue before they do anything else.
    looking: usize,
    /// Threads that sleep.
    idle: usize,
    /// Threads that were idle, and are called to look.
    called: usize,
    closed: bool,
}

impl<T> Default for Blocking<T> {
    fn default() -> Self {
        let (queue, closed) = (VecDeque::new(), false);
        let state = BlockingState { queue, threads: 0, looking: 0, idle: 0, called: 0, closed };
        Self { state: std::sync::Mutex::new(state), arrived: Condvar::new(), waiting: Default::default() }
    }
}

// %% [markdown]
// # A task
//
// A task is one allocation: a header that every part of the executor can read, and behind it the future, which
// only its own code knows. When the future is done, its output takes its place.
//
// One number says how the task stands. *Scheduled* means that it lies in a queue, or that a thread is about to put it
// there. *Running* means that a thread polls it, or that it is new. While either is set, a wake has no more to do than to
// set *scheduled*. A new task is *running* although it lies in a queue: no waker knows of it yet, so its first poll begins
// without an atomic read-modify-write. The rest of the number counts references: one for the executor until the task is done, one for the
// join handle, one for each waker.

// %%
/// In a queue, or on the way into one, for another poll.
const SCHEDULED: usize = 1;
/// Being polled, or new; or in a queue since a poll that was woken meanwhile.
const RUNNING: usize = 2;
/// The output is there, or was taken, or will not come.
const DONE: usize = 4;
/// There is a join handle.
const JOINED: usize = 8;
/// The header holds a waker for the join handle, which is awaited.
const AWAITED: usize = 16;
/// Its home has noted it, because it has slept. Only the thread that runs the task reads this.
const NOTED: usize = 32;
/// One reference.
const REFERENCE: usize = 64;

/// That number at one moment.
#[derive(Clone, Copy)]
struct State(usize);

impl State {
    fn is_scheduled(self) -> bool {
        self.0 & SCHEDULED != 0
    }

    fn is_running(self) -> bool {
        self.0 & RUNNING != 0
    }

    fn is_done(self) -> bool {
        self.0 & DONE != 0
    }

    fn has_handle(self) -> bool {
        self.0 & JOINED != 0
    }

    fn is_awaited(self) -> bool {
        self.0 & AWAITED != 0
    }

    fn is_noted(self) -> bool {
        self.0 & NOTED != 0
    }

    /// Only wakers know of it.
    fn is_asleep(self) -> bool {
        self.0 & (SCHEDULED | RUNNING | DONE) == 0
    }

    fn is_last_reference(self) -> bool {
        self.0 / REFERENCE == 1
    }

    /// Half of what can be counted: the other half is for threads that come here before the process has ended.
    fn has_too_many_references(self) -> bool {
        self.0 > usize::MAX / 2
    }
}

// %% [markdown]
// **From spawn to join.** This is the number as a spawn leaves it, and as the first poll finds it, then that of a task that is
// woken after it has slept, and after the last poll. The lowest bits are the flags above; the rest counts. Two references begin, and
// one is left, the handle's, since the executor's goes with the end of the task.

// %% tags=["active-ipynb", "glance"]
// {
//     let spawned = RUNNING | JOINED | 2 * REFERENCE;
//     let again = spawned ^ (RUNNING | SCHEDULED);
//     let done = (spawned ^ (RUNNING | DONE)) - REFERENCE;
//     for (moment, number) in [("spawned", spawned), ("woken", again), ("done", done)] {
//         let (state, references) = (State(number), number / REFERENCE);
//         let [queued, running, done] = [state.is_scheduled(), state.is_running(), state.is_done()].map(u8::from);
//         println!("{moment:<8} {number:#010b}: scheduled {queued}, running {running}, done {done}, references {references}");
//     }
// };

// %% [markdown]
// Here is everything that happens to that number, but for its references and for *noted*. A task is
//
// - *asleep*: only wakers know of it;
// - *queued*: in a queue, or on the way there (scheduled);
// - *running*: being polled, or new;
// - *woken*: running and scheduled, that is woken while it is polled, or in a queue since such a poll;
// - *done*, or *done and woken*: by a wake that came too late.
//
// Its handle is *there*, *awaited* or *gone*; of a task that is done also *left*: it went while the thread that ended the
// task was about to use the waker that it had left. A dash stands for no change. A task that was woken during its poll
// is queued as it is, but for a wake at the very end.
//
// | step | the task | its handle | the task then | its handle then |
// |---|---|---|---|---|
// | a wake | asleep | any | queued | - |
// | a wake | queued | any | - | - |
// | a wake | running | any | woken | - |
// | a wake | woken | any | - | - |
// | a wake | done | any | done and woken | - |
// | a wake | done and woken | any | - | - |
// | the start of a poll | queued | any | running | - |
// | the start of a poll | woken | any | running | - |
// | the end of a poll | running | any | asleep | - |
// | the end of a poll | woken | any | - | - |
// | the end of a poll | woken | any | queued | - |
// | the last end of a poll | running | any | done | - |
// | the last end of a poll | woken | any | done and woken | - |
// | after the wake for the handle | any that is done | awaited | - | there |
// | after the wake for the handle | any that is done | left | - | gone |
// | the handle takes its waker back | any that is not done | awaited | - | there |
// | the handle leaves a waker | any | there | - | awaited |
// | the handle was too late | any that is done | awaited | - | there |
// | the handle is dropped | any that is not done | there | - | gone |
// | the handle is dropped | any that is not done | awaited | - | gone |
// | the handle is dropped | any that is done | awaited | - | left |
//
// Builds with debug assertions note which of them they have seen, and tests compare that with the table: in every order,
// under loom, nothing else happens, and something of each row does.

// %%
/// What changes the state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Woken,
    Starts,
    Rests,
    Ends,
    Told,
    TakesBack,
    Leaves,
    TooLate,
    Dropped,
}

/// By step and state before, a bit for each state after it.
static SEEN: [[std::sync::atomic::AtomicU32; NOTED]; Step::ALL.len()] =
    [const { [const { std::sync::atomic::AtomicU32::new(0) }; NOTED] }; Step::ALL.len()];

impl Step {
    /// As the table above calls them.
    pub const ALL: [(Self, &str); 9] = [
        (Self::Woken, "a wake"),
        (Self::Starts, "the start of a poll"),
        (Self::Rests, "the end of a poll"),
        (Self::Ends, "the last end of a poll"),
        (Self::Told, "after the wake for the handle"),
        (Self::TakesBack, "the handle takes its waker back"),
        (Self::Leaves, "the handle leaves a waker"),
        (Self::TooLate, "the handle was too late"),
        (Self::Dropped, "the handle is dropped"),
    ];

    /// Notes what it has changed, in builds with debug assertions.
    #[inline]
    fn note(self, before: usize, after: usize) {
        if cfg!(debug_assertions) {
            SEEN[self as usize][before % NOTED].fetch_or(1 << (after % NOTED), Ordering::Relaxed);
        }
    }

    /// The states before and after it that were seen in this process: 1 for scheduled, 2 for running, 4 for done, 8 for a
    /// handle, 16 for one that is awaited.
    pub fn seen(self) -> impl Iterator<Item = (usize, usize)> {
        let all = (0..NOTED).flat_map(|before| (0..NOTED).map(move |after| (before, after)));
        all.filter(move |(before, after)| {
            SEEN[self as usize][*before].load(Ordering::Relaxed) >> after & 1 == 1
        })
    }
}

// %% [markdown]
// What may be done with the future goes through four functions that know its type. The output is a `Result`, because a
// task may panic, or be dropped with its runtime.

// %%
/// What depends on the future of a task. All of it wants a pointer to the allocation of a task with that future.
struct Code {
    /// Polls, and keeps the output; true if there is one.
    poll: unsafe fn(*const (), &mut Context<'_>) -> bool,
    /// Ends the task without an output.
    cancel: unsafe fn(*const ()),
    /// Moves the output to where the second pointer says, an `Option<Result<T, JoinError>>`; drops it if that is null.
    take: unsafe fn(*const (), *mut ()),
    /// Frees the allocation.
    free: unsafe fn(*const ()),
}

/// Why a task has no output.
pub enum JoinError {
    /// It panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
    /// The runtime was dropped before the task was done.
    Cancelled,
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(_) => f.write_str("the task panicked"),
            Self::Cancelled => f.write_str("the runtime was dropped before the task was done"),
        }
    }
}

// %% [markdown]
// # Workers and their cores
//
// A worker's belongings are its deque, its LIFO slot and a few numbers: its *core*. The thread that has a core of the
// worker is the worker. That need not always be the same thread, and this is the first decision that differs from both
// runtimes that we shall compare.
//
// nio moves the future given to `block_on` to a worker, and puts the calling thread to sleep: two threads have to be
// woken for each call. tokio polls it where it is, on a thread that belongs to no worker: what it spawns goes
// through the shared queue, and a worker has to be woken for it. Here **the caller takes the place of a worker that
// rests**. Its future spawns into a deque of that worker, and runs these tasks itself while it waits. Up to some
// thousand of them, no thread needs to be woken. When it is done, or has nothing left to run, it gives the place back.
//
// It runs what it has spawned or woken, and what that has, and nothing else: whatever comes from elsewhere may take
// long, and its own future would wait for it although it is ready. What if that future blocks its thread, on a channel
// say, until one of its tasks has run? tokio's may do so, and so may this one. So each worker has a second core, for a
// caller: if that caller does not get on, or there are tasks that are not for it, the worker's own thread comes back to
// its place beside it: the place is *handed off*, as Go calls it. If no worker rests, the caller takes the second core of
// one that is busy.

// %%
/// How a runtime is set up. The switches exist to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Workers, 1 to 65,535: so many tasks run at once, at the most, not counting those that callers of `block_on` run and
    /// those that call it themselves.
    pub workers: usize,
    /// So many workers are awake at once, at the most, not counting callers of `block_on` and workers whose task keeps
    /// its thread: threads beyond the number of processors only take turns. At least one; as many as there are
    /// processors, by default.
    pub awake: usize,
    /// Whether the caller of `block_on` takes the place of a worker that rests.
    pub takes_core: bool,
    /// Whether a task that a task wakes is run next.
    pub lifo: bool,
    /// How often a worker without work searches everywhere before it rests.
    pub searches: u32,
}

/// Searches of a worker without work, before it rests.
const SEARCHES: u32 = if cfg!(under_loom) { 1 } else { 200 };

impl Settings {
    /// So many workers, at least one, and all that this executor can do.
    pub fn new(workers: usize) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = workers.max(1);
        Self { workers, awake: processors.min(workers), takes_core: true, lifo: true, searches: SEARCHES }
    }
}

// %% [markdown]
// And a task that can run has its turn.

// %%
/// When a task is to be run that can run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// As soon as possible.
    Next,
    /// After all others.
    Last,
}

// %% [markdown]
// ## A local queue
//
// The tasks of a core are in a bounded ring. Its owner puts tasks in at the back; the owner and thieves take them out at the
// front, first in, first out. Both ends only ever grow, so a front that has not moved says that nothing was taken. (The
// numbers wrap around; a thief would have to sleep while as many tasks are taken as there are numbers.)
//
// - A thief first reads the tasks, and then moves the front beyond them. If it has moved meanwhile, what was read may be
//   something else by now, and is forgotten.
// - The owner writes to a place again only after it has seen the front beyond it, and with it that all thieves have read.
// - A thread that reads the back also sees the tasks before it.
//
// crossbeam's deques grow and shrink. What they outgrow is freed by some thread later, and that costs more than it seems:
// [*Caches of the allocator*](#Caches-of-the-allocator) below has the number. This one allocates once, 32 KiB. What it has no
// room for goes to the injector.

// %%
/// Tasks that a deque has room for.
const LENGTH: usize = if cfg!(under_loom) { 4 } else { 1 << 12 };
/// Tasks that a thief takes at once, at the most.
const MOST: usize = if cfg!(under_loom) { 2 } else { 32 };

struct Ring<H> {
    front: AtomicUsize,
    back: AtomicUsize,
    /// Tasks from front to back, each at its number modulo the length.
    tasks: Box<[AtomicPtr<H>]>,
}

impl<H> Ring<H> {
    fn at(&self, number: usize) -> &AtomicPtr<H> {
        &self.tasks[number % LENGTH]
    }
}

/// The owner's end of a deque; it goes from thread to thread, and no two have it at once.
struct Deque<H>(Arc<Ring<H>>, PhantomData<Cell<()>>);
/// A thief's end.
struct Stealer<H>(Arc<Ring<H>>);

// %% [markdown]
// The owner puts a task in without an atomic read-modify-write, and takes one out by a compare-exchange.

// %%
impl<H> Deque<H> {
    fn new() -> Self {
        let tasks = (0..LENGTH).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
        // A test in every order passes the end of all numbers.
        let start = || AtomicUsize::new(if cfg!(under_loom) { usize::MAX } else { 0 });
        let (front, back) = (start(), start());
        Self(Arc::new(Ring { front, back, tasks }), PhantomData)
    }

    fn stealer(&self) -> Stealer<H> {
        Stealer(Arc::clone(&self.0))
    }

    fn len(&self) -> usize {
        self.0.back.load(Ordering::Relaxed).wrapping_sub(self.0.front.load(Ordering::Relaxed))
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts a task in, or gives it back if there is no room.
    fn push(&self, task: NonNull<H>) -> Result<(), NonNull<H>> {
        let (ring, back) = (&*self.0, self.0.back.load(Ordering::Relaxed));
        if back.wrapping_sub(ring.front.load(Ordering::Acquire)) == LENGTH {
            return Err(task);
        }
        ring.at(back).store(task.as_ptr(), Ordering::Relaxed);
        ring.back.store(back.wrapping_add(1), Ordering::Release);
        Ok(())
    }

    /// Takes the oldest task.
    fn pop(&self) -> Option<NonNull<H>> {
        let (ring, back) = (&*self.0, self.0.back.load(Ordering::Relaxed));
        let mut front = ring.front.load(Ordering::Relaxed);
        while front != back {
            let task = ring.at(front).load(Ordering::Relaxed);
            let next = front.wrapping_add(1);
            match ring.front.compare_exchange_weak(front, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return NonNull::new(task),
                Err(moved) => front = moved,
            }
        }
        None
    }
}

// %% [markdown]
// A thief takes half of what is there.

// %%
impl<H> Stealer<H> {
    /// How many tasks are there after this front, which may have moved on.
    fn after(&self, front: usize) -> usize {
        let count = self.0.back.load(Ordering::Acquire).wrapping_sub(front);
        if count.cast_signed() < 0 { 0 } else { count }
    }

    fn is_empty(&self) -> bool {
        self.after(self.0.front.load(Ordering::Relaxed)) == 0
    }

    /// Takes half of the tasks, `most` at the most: gives one, and the others to `rest`.
    fn steal(&self, most: usize, rest: impl FnMut(NonNull<H>)) -> Option<NonNull<H>> {
        let ring = &*self.0;
        let mut front = ring.front.load(Ordering::Relaxed);
        loop {
            let count = self.after(front).div_ceil(2).min(most);
            if count == 0 {
                return None;
            }
            let mut read = [ptr::null_mut(); MOST];
            for (index, task) in read[..count].iter_mut().enumerate() {
                *task = ring.at(front.wrapping_add(index)).load(Ordering::Relaxed);
            }
            let next = front.wrapping_add(count);
            match ring.front.compare_exchange_weak(front, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => {
                    let mut tasks = read.into_iter().map_while(NonNull::new);
                    let first = tasks.next();
                    tasks.for_each(rest);
                    return first;
                }
                Err(moved) => front = moved,
            }
        }
    }
}

// %% [markdown]
// ## What threads see of one another
//
// These types describe a worker, its cores and a caller of `block_on`. What a core and a task are comes right after, since
// they refer to all of this: `C` and the head `H` of a task stand for them here.

// %%
/// A worker, as other threads see it.
struct RemoteOf<S> {
    /// For its own thread, and for a caller of `block_on` in its place.
    seats: [S; 2],
    /// The worker's own thread, and whether it has to come.
    own: Mutex<Own>,
    called: AtomicBool,
    timers: Timers,
}

/// A worker's own thread, which looks after its place while no caller has it.
enum Own {
    /// It has not begun, or another one is on its way.
    Coming,
    Known(Thread),
    /// It is in `block_on` within a task. This sends for another one.
    Away(Box<dyn FnOnce() + Send>),
}

/// A core, as other threads see it.
struct SeatOf<C, H> {
    held: Mutex<HeldOf<C>>,
    stealer: Stealer<H>,
    open: Arc<OpenOf<H>>,
}

/// A core, unless a thread has it.
struct HeldOf<C> {
    core: Option<Box<C>>,
    /// The worker is in its place, although a caller has this core.
    handed_off: bool,
}

/// What other threads may see of a core, and take, while one has it.
struct OpenOf<H> {
    /// The LIFO slot; null if it is empty. Only the thread with the core puts a task there.
    next: AtomicPtr<H>,
    /// How often a task was searched for, or a root polled; and how often when it was last watched.
    polls: std::sync::atomic::AtomicUsize,
    watched: std::sync::atomic::AtomicUsize,
}

/// The seats of a worker: its own, and that of a caller.
const OWN: usize = 0;
const CALLER: usize = 1;

// %% [markdown]
// A caller of `block_on` has less, and so has a runtime.

// %%
/// A thread in `block_on`, and whether its future was woken.
struct Root {
    woken: AtomicBool,
    thread: Thread,
}

/// What a runtime has, besides its pool, until its end.
struct Parts<H> {
    homes: Vec<Arc<H>>,
    threads: Vec<Handle<()>>,
}

impl<H> Default for Parts<H> {
    fn default() -> Self {
        Self { homes: Vec::new(), threads: Vec::new() }
    }
}

// %% [markdown]
// Here is all of it at one glance. A task knows its home, a home its pool, the pool all workers, and a worker its cores,
// unless threads have them. A core is for one thread at a time; what others see of it meanwhile is the other end of
// its deque, its LIFO slot, and how often it has polled. What others see of a worker is what tokio calls its `Remote`.

// %%
/// The executor's reference to a task. The thread that takes it out of a queue may poll the task.
#[derive(Clone, Copy)]
struct Task(NonNull<Header>);

/// What all tasks have in common.
struct Header {
    state: AtomicUsize,
    code: &'static Code,
    /// Where the task was spawned, and stays while it sleeps; and the tasks that are noted there before and after it.
    home: HomeOf,
    neighbours: Shared<[Option<Task>; 2]>,
    /// To be woken when the task is done; written by the handle while `AWAITED` is not set.
    joiner: Shared<Option<Waker>>,
}

struct HomeOf(ManuallyDrop<Arc<Home>>);

/// Where tasks come from: one for each worker, one for threads without a core, which has the number 0 as well.
struct Home {
    pool: Arc<Pool>,
    worker: usize,
    /// The first of the tasks that have slept. Each knows its neighbours, so that a note goes with its task.
    asleep: Mutex<Option<Task>>,
}

/// What all threads of a runtime share.
struct Pool {
    settings: Settings,
    /// Tasks from threads without a core.
    injector: Injector<Task>,
    workers: Box<[RemoteOf<SeatOf<Core, Header>>]>,
    /// Workers whose place no thread has, and how many of the others search for work.
    idle: Idle,
    closed: AtomicBool,
    /// Threads that are a worker's own, or were until they went away.
    working: std::sync::atomic::AtomicUsize,
    blocking: Blocking<Task>,
    /// The thread that watches the workers, and what is left to it when the runtime is dropped by one of its own tasks.
    watch: OnceLock<Thread>,
    left: std::sync::Mutex<Option<Parts<Home>>>,
    /// Threads that were sent for: there are no threads for calls that block.
    #[cfg(under_loom)]
    substitutes: Mutex<Vec<Handle<()>>>,
}

/// What a thread has for itself as a worker: tasks, and how many in a row came from the LIFO slot.
struct Core {
    home: Arc<Home>,
    /// References to it that are counted, and that no task has.
    spare: Cell<usize>,
    /// Which of the worker's cores it is.
    seat: usize,
    deque: Deque<Header>,
    /// Where tasks of the injector are on their way to the deque.
    batch: Batch<Task>,
    open: Arc<OpenOf<Header>>,
    streak: Cell<u32>,
    /// When the task in the LIFO slot is to be run, if one is there.
    turn: Cell<Turn>,
    /// As in [`HeldOf`], as far as it is known here.
    handed_off: Cell<bool>,
}

// %% [markdown]
// A task goes from thread to thread, with what it refers to.

// %%
// SAFETY: futures and outputs that are not `Send` cannot be spawned, and the header is made for several threads.
unsafe impl Send for Task {}

type Open = OpenOf<Header>;
type Seat = SeatOf<Core, Header>;
type Remote = RemoteOf<Seat>;

// %% [markdown]
// The slot belongs to the thread that has the core, but a task in it must not wait for a poll that does not end. So the
// thread that watches may take it out, and the slot is an atomic pointer. To find it empty, and to fill it then, takes no
// more than a load and a store: only its owner puts anything there.

// %%
impl Open {
    /// Takes the task out of the slot.
    fn take_next(&self) -> Option<Task> {
        if self.next.load(Ordering::Relaxed).is_null() {
            return None;
        }
        NonNull::new(self.next.swap(ptr::null_mut(), Ordering::Acquire)).map(Task)
    }
}

impl Core {
    fn take_next(&self) -> Option<Task> {
        self.open.take_next()
    }

    fn next_is_empty(&self) -> bool {
        self.open.next.load(Ordering::Relaxed).is_null()
    }

    fn is_empty(&self) -> bool {
        self.next_is_empty() && self.deque.is_empty()
    }

    /// Puts a task into the slot; the one that was there before.
    fn put_next(&self, task: Task, turn: Turn) -> Option<Task> {
        self.turn.set(turn);
        if self.next_is_empty() {
            self.open.next.store(task.0.as_ptr(), Ordering::Release);
            return None;
        }
        NonNull::new(self.open.next.swap(task.0.as_ptr(), Ordering::AcqRel)).map(Task)
    }
}

// %% [markdown]
// ## Which worker to call, and when
//
// Waking costs the waker a system call, and the woken thread a pass through the scheduler. So:
//
// - A helper is called only when a task waits *behind another one*. The worker that queued it will run the first.
// - At most one worker looks for work on behalf of a call. When it finds some, and there is more, it calls the next.
// - No more workers are awake than there are processors. (tokio and nio wake up to all of them.)
//
// All three rely on polls that end soon. For those that do not, a thread watches, below.
//
// Nothing may be lost over that: [`idle`](../../rust-kernels/idle/idle.rs) says why nothing is, on one page, and our
// thread pools sleep by the same rules. It knows only numbers. Here are the workers.

// %%
impl Remote {
    /// Takes the core of this seat, unless a thread has it. `handed_off`: beside the worker.
    fn take(&self, seat: usize, handed_off: bool) -> Option<Box<Core>> {
        let mut held = self.seats[seat].held.lock().unwrap();
        let core = held.core.take()?;
        held.handed_off = handed_off;
        core.handed_off.set(handed_off);
        Some(core)
    }
}

impl Pool {
    /// Wakes a worker's own thread, or sends for another.
    fn unpark(&self, worker: usize) {
        let mut own = self.workers[worker].own.lock().unwrap();
        match &*own {
            Own::Known(thread) => thread.unpark(),
            Own::Away(_) if !self.closed.load(Ordering::Relaxed) => {
                let away = std::mem::replace(&mut *own, Own::Coming);
                drop(own);
                if let Own::Away(send) = away {
                    send();
                }
            }
            _ => {}
        }
    }

    /// Wakes the thread that watches if it sleeps. After a worker was named or taken.
    fn begin_watch(&self) {
        if self.idle.is_unwatched() {
            self.watch.get().into_iter().for_each(Thread::unpark);
        }
    }

    /// Has a worker's own thread come, if `idle` has named it.
    fn call(&self, named: Option<usize>) {
        let Some(worker) = named else { return };
        self.workers[worker].called.swap(true, Ordering::Relaxed);
        self.unpark(worker);
        self.begin_watch();
    }
}

// %% [markdown]
// A place is handed off by calling its worker. And after each search a task may be left for which no helper was called.

// %%
impl Pool {
    /// Has a worker's own thread come back to its place beside the caller that has a core of it.
    fn hand_off(&self, worker: usize) {
        let mut held = self.workers[worker].seats[CALLER].held.lock().unwrap();
        if held.core.is_none() && !std::mem::replace(&mut held.handed_off, true) {
            drop(held);
            self.idle.search();
            self.call(Some(worker));
        }
    }

    /// Calls a helper if a task waits anywhere. By a thread that searched for work, or had a core, and does no longer:
    /// while it did, threads that queued tasks called no helper.
    fn call_for_waiting(&self) {
        if self.has_waiting() {
            self.call(self.idle.hint());
        }
    }

    /// Whether there is a task that others could run.
    fn has_waiting(&self) -> bool {
        !self.injector.is_empty() || self.seats().any(|seat| !seat.stealer.is_empty())
    }

    fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.workers.iter().flat_map(|worker| &worker.seats)
    }
}

// %% [markdown]
// A place is taken by a thread that has work for it, and given up by one that has none.

// %%
impl Pool {
    /// Takes the place of a worker that rests, or else a core beside one that is busy.
    fn take_place(&self) -> Option<Box<Core>> {
        if let Some(worker) = self.idle.take() {
            self.begin_watch();
            let core = self.workers[worker].take(CALLER, false);
            if core.is_some() {
                return core;
            }
            // A caller whose place was handed off still has it.
            self.leave_place(worker);
        }
        self.workers.iter().find_map(|worker| worker.take(CALLER, true))
    }

    /// Gives a core up, and calls a helper if there is a task that no thread may have seen.
    fn leave_core(&self, core: Box<Core>) {
        let worker = core.home.worker;
        if self.put_back(core) {
            // Its place was handed off. Threads that queued tasks may have counted on this one all the same.
            let named = if self.has_waiting() { self.idle.offer() } else { None };
            self.call(named);
            self.leave_timers(worker);
        } else {
            self.leave_place(worker);
        }
    }

    /// Puts a core back; whether its place had been handed off. Its tasks go to the injector: threads that always have
    /// something to run look there, but do not steal.
    fn put_back(&self, core: Box<Core>) -> bool {
        let left = std::iter::from_fn(|| core.pop());
        left.for_each(|task| self.injector.push(task));
        let mut held = self.workers[core.home.worker].seats[core.seat].held.lock().unwrap();
        held.core = Some(core);
        std::mem::take(&mut held.handed_off)
    }

    /// Gives the place of a worker up.
    fn leave_place(&self, worker: usize) {
        self.idle.rest(worker);
        self.call_for_waiting();
        self.leave_timers(worker);
    }

    /// Leaves the timers to the worker's own thread.
    fn leave_timers(&self, worker: usize) {
        if self.workers[worker].timers.first().is_some() {
            // It has to know how long it may sleep.
            self.unpark(worker);
        }
    }
}

// %% [markdown]
// ## Which task is next
//
// A task that is **woken** by another goes to the LIFO slot: whatever the two exchange is still in the cache. That is
// tokio's invention, and so is the limit: after three from the slot the deque has its turn. A task that is **spawned**
// goes to the back of the deque, unlike in tokio. Two tasks that spawn their successors for ever would otherwise keep
// all other tasks waiting for three polls out of four.
//
// The injector holds what comes from outside. tokio looks there after some number of tasks, which it chooses so that
// it happens every 200 µs or so; nio has no such queue and gives each outside task to a worker at once. Here the
// worker looks after every task whether there is anything, which costs two loads, and takes its share to the *back* of
// its deque: no task overtakes another. While the deque is full, it takes one task after 61 others, so none waits for ever. A
// caller of `block_on` leaves the injector to the workers.
//
// Timers wake whatever waits for them, which need not be ours, and may call `block_on`: then the core may be gone
// afterwards, as it may be after a poll. So the core belongs to the thread's *place*, which is asked for it each time.

// %%
/// Tasks from the LIFO slot, before it is the others' turn.
const STREAK: u32 = 3;
/// Tasks after which the timers are checked, as in tokio and nio, and a root that was woken has its turn, as in tokio.
const INTERVAL: usize = 61;
/// Searches after which the timers are checked, for settings by which they take long.
const TIMERS_IN_SEARCH: u32 = 64;

/// Where a thread is while it runs tasks.
struct Place<'a> {
    home: Cell<&'a Arc<Home>>,
    /// Its core, if it has one; and whether tasks are polled here, and not calls that block.
    core: Cell<Option<NonNull<Core>>>,
    polls: bool,
    /// Whether the thread ends the runtime.
    ends: bool,
    /// Where it was before: a task may call `block_on`.
    outer: Cell<*const Place<'static>>,
}

impl Place<'_> {
    /// Its core. Not to be kept while code of others runs: that may give it away.
    fn core(&self) -> Option<&Core> {
        // SAFETY: it is this place's until it is given away, by this thread.
        self.core.get().map(|core| unsafe { core.as_ref() })
    }
}

// %% [markdown]
// What a core has, and what it takes from the injector:

// %%
impl Core {
    /// Takes from the injector what is a worker's share; or sees to it that a worker does.
    fn fetch(&self) {
        let pool = &self.home.pool;
        if self.seat == OWN && self.has_room() {
            // If it fails, another worker has taken them: there is another time.
            let _ = pool.injector.steal_batch_with_limit(&self.batch, MOST);
            self.unpack();
        }
        let named = pool.idle.hint();
        if self.seat == CALLER
            && named.is_none()
            && !pool.idle.is_searched()
            && !self.handed_off.replace(true)
        {
            return pool.hand_off(self.home.worker);
        }
        pool.call(named);
    }

    /// What the core has.
    fn pop(&self) -> Option<Task> {
        self.take_next().or_else(|| self.deque.pop().map(Task))
    }

    /// Whether the deque has room for what comes from the injector at once.
    fn has_room(&self) -> bool {
        LENGTH - self.deque.len() >= MOST
    }

    /// Puts a batch of the injector into the deque.
    fn unpack(&self) {
        std::iter::from_fn(|| self.batch.pop()).for_each(|task| self.put_last(task));
    }

    /// Puts a task behind all others.
    fn put_last(&self, task: Task) {
        if let Err(task) = self.deque.push(task.0) {
            self.home.pool.injector.push(Task(task));
        }
    }

    fn timers(&self) -> &Timers {
        &self.home.pool.workers[self.home.worker].timers
    }

    /// Another poll begins; how many there were. (No other thread counts here.)
    fn count_poll(&self) -> usize {
        let polls = self.open.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.open.polls.store(polls, Ordering::Relaxed);
        polls
    }
}

// %% [markdown]
// Timers and calls for helpers may run code of others, which may give the core away. So the place is asked for it again
// after each.

// %%
impl Place<'_> {
    /// The next task, if there is one in the deque or, for a worker, in the injector.
    fn next(&self) -> Option<Task> {
        let mut core = self.core()?;
        let looks_around = core.count_poll().is_multiple_of(INTERVAL);
        if looks_around {
            core.timers().fire();
            core = self.core()?;
        }
        let fed = !core.home.pool.injector.is_empty();
        // Otherwise tasks there would wait until some of these end.
        if fed
            && looks_around
            && core.seat == OWN
            && !core.has_room()
            && let Some(task) = core.home.pool.take_injected()
        {
            return Some(task);
        }
        if fed {
            core.fetch();
            core = self.core()?;
        }
        match core.take_next() {
            // What came from outside was there before a task that is to be run after all others.
            Some(task) if core.streak.get() < STREAK && !(fed && core.turn.get() == Turn::Last) => {
                core.streak.set(core.streak.get() + 1);
                return Some(task);
            }
            Some(task) => core.put_last(task),
            None => {}
        }
        core.streak.set(0);
        core.deque.pop().map(Task).or_else(|| {
            core.timers().fire();
            self.core()?.pop()
        })
    }
}

// %% [markdown]
// A task that goes behind others is a reason to call a helper; one that is alone will be run by this worker in a
// moment.

// %%
impl Core {
    /// Puts a task where it will be run, and calls a helper if more tasks wait than one.
    fn push(&self, task: Task, turn: Turn) {
        let first = self.is_empty();
        let behind = match turn {
            _ if !self.home.pool.settings.lifo => Some(task),
            Turn::Next => self.put_next(task, turn),
            // Alone, it overtakes no task in the slot, and need not go through the deque.
            Turn::Last if first => self.put_next(task, turn),
            Turn::Last => Some(task),
        };
        if let Some(task) = behind {
            self.put_last(task);
            if !first {
                self.home.pool.call(self.home.pool.idle.hint());
            }
        }
    }
}

// %% [markdown]
// ## Where am I?
//
// `spawn` and wakers want to know whether they are called by a worker of the right runtime.

// %%
/// Calls `work` with the thread's pointer to its place; null where it has none.
fn with_place<R>(work: impl FnOnce(&Cell<*const Place<'static>>) -> R) -> R {
    sync::thread_local! {
        static PLACE: Cell<*const Place<'static>> = Cell::new(ptr::null());
    }
    PLACE.with(work)
}

impl<'a> Place<'a> {
    fn new(home: &'a Arc<Home>, polls: bool) -> Self {
        Self {
            home: Cell::new(home),
            core: Cell::new(None),
            polls,
            ends: false,
            outer: Cell::new(ptr::null()),
        }
    }

    /// From here on it has this core.
    fn sit(&self, core: Box<Core>) {
        self.core.set(Some(NonNull::from(Box::leak(core))));
    }

    /// Gives the core up, if it has one.
    fn leave(&self) {
        let Some(core) = self.core.take() else { return };
        // SAFETY: `sit` leaked it, and from here on the pointer is not used.
        let core = unsafe { Box::from_raw(core.as_ptr()) };
        self.home.get().pool.leave_core(core);
    }
}

// %% [markdown]
// A thread enters its place, and finds it again.

// %%
impl<'a> Place<'a> {
    /// Calls `work` with this as the thread's place.
    fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Puts the former place back, and gives the core up, also when the root panics.
        struct Leave<'a, 'b>(*const Place<'static>, &'b Place<'a>);
        impl Drop for Leave<'_, '_> {
            fn drop(&mut self) {
                with_place(|place| place.set(self.0));
                self.1.leave();
            }
        }
        let outer = with_place(|place| place.replace(ptr::from_ref(self).cast()));
        let _leave = Leave(outer, self);
        self.outer.set(outer);
        work()
    }

    /// Calls `work` with the thread's place, if it has one.
    fn here<R>(work: impl FnOnce(Option<&Place<'_>>) -> R) -> R {
        // SAFETY: `enter` borrows what it sets until it has put the former one back.
        with_place(|place| work(unsafe { place.get().as_ref() }))
    }

    /// The thread's latest place in this pool of which `is_wanted` is true.
    fn within(pool: &Pool, is_wanted: impl Fn(&Place<'static>) -> bool) -> Option<&'a Place<'static>> {
        let mut place = with_place(Cell::get);
        // SAFETY: as above; those before it are left later, and the caller keeps none for longer than its own.
        while let Some(here) = unsafe { place.as_ref() } {
            if ptr::eq(&*here.home.get().pool, pool) && is_wanted(here) {
                return Some(here);
            }
            place = here.outer.get();
        }
        None
    }
}

// %% [markdown]
// A task has a reference to its home. To count it would take two atomic operations for each task, on a number that all
// threads share. So the thread with a core of that home keeps the references of tasks that it frees for those that it
// spawns, and counts them with a number of its own.

// %%
impl Core {
    /// A reference to the home, if one is spare.
    fn take_spare(&self) -> Option<Arc<Home>> {
        self.spare.set(self.spare.get().checked_sub(1)?);
        // SAFETY: `keep_spare` has left a count of this allocation that nothing owns.
        Some(unsafe { Arc::from_raw(Arc::as_ptr(&self.home)) })
    }

    /// Keeps a reference to this home, as many as a deque has tasks: another core may have spawned them all.
    fn keep_spare(&self, home: Arc<Home>) {
        debug_assert!(Arc::ptr_eq(&home, &self.home), "a reference to another home");
        if self.spare.get() < LENGTH {
            self.spare.set(self.spare.get() + 1);
            std::mem::forget(home);
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        std::iter::from_fn(|| self.take_spare()).for_each(drop);
    }
}

impl HomeOf {
    fn new(home: &Arc<Home>) -> Self {
        let own = |place: &Place<'_>| place.core().filter(|core| Arc::ptr_eq(&core.home, home))?.take_spare();
        let spare = Place::here(|place| place.and_then(own));
        Self(ManuallyDrop::new(spare.unwrap_or_else(|| Arc::clone(home))))
    }
}

impl std::ops::Deref for HomeOf {
    type Target = Arc<Home>;

    fn deref(&self) -> &Arc<Home> {
        &self.0
    }
}

impl Drop for HomeOf {
    fn drop(&mut self) {
        // SAFETY: it is not used afterwards.
        let home = unsafe { ManuallyDrop::take(&mut self.0) };
        Place::here(|place| match place.and_then(Place::core) {
            Some(core) if Arc::ptr_eq(&core.home, &home) => core.keep_spare(home),
            _ => drop(home),
        });
    }
}

// %% [markdown]
// And where a thread is decides where a task goes that can run: to the core of this thread, or, from anywhere else,
// through the injector.

// %%
impl Task {
    fn header(&self) -> &Header {
        // SAFETY: the executor's reference keeps it alive.
        unsafe { self.0.as_ref() }
    }

    /// Its allocation, as its code and its wakers know it.
    fn cell(&self) -> *const () {
        self.0.as_ptr().cast_const().cast()
    }

    /// Whether the task slept, and is now the caller's to put in a queue.
    fn claim(&self) -> bool {
        let before = self.header().state.fetch_or(SCHEDULED, Ordering::AcqRel);
        Step::Woken.note(before, before | SCHEDULED);
        State(before).is_asleep()
    }

    /// Puts it in a queue. For the thread that has spawned or claimed it, or polled it last.
    fn schedule(self, turn: Turn) {
        Place::here(|place| {
            let pool = ptr::from_ref(&*self.header().home.pool);
            match place.and_then(Place::core) {
                Some(core) if ptr::eq(&*core.home.pool, pool) => core.push(self, turn),
                _ => {
                    // Once it is in the queue the task may end, and take the last reference to the pool with it.
                    let home = Arc::clone(&self.header().home);
                    home.pool.injector.push(self);
                    home.pool.call(home.pool.idle.offer());
                }
            }
        });
    }
}

// %% [markdown]
// ## Wakers
//
// A wake sets *scheduled*. A waker that finds the task asleep has to put it in a queue, and has the executor's
// reference for it.

// %%
/// Drops a reference, and with the last one the task.
fn drop_reference(task: NonNull<Header>) {
    // SAFETY: the caller's reference keeps it alive.
    let header = unsafe { task.as_ref() };
    // What others did with the task comes before its end. If this is the last reference, no thread changes the number any
    // more, and nobody has to be told.
    let is_last = State(header.state.load(Ordering::Acquire)).is_last_reference()
        || State(header.state.fetch_sub(REFERENCE, Ordering::AcqRel)).is_last_reference();
    if is_last {
        // SAFETY: it was the last one.
        unsafe { (header.code.free)(task.as_ptr().cast()) };
    }
}

impl Header {
    /// One more reference. Wakers that are forgotten must not count round to none, so too many end the process, as those
    /// of the standard library's `Arc` do.
    fn add_reference(&self) {
        if State(self.state.fetch_add(REFERENCE, Ordering::Relaxed)).has_too_many_references() {
            too_many();
        }
    }
}

/// Not inlined: it is never needed.
#[cold]
#[inline(never)]
fn too_many() -> ! {
    eprintln!("a task has more references than can be counted");
    std::process::abort()
}

// %% [markdown]
// The four functions of a waker:

// %%
const WAKER: RawWakerVTable = RawWakerVTable::new(clone_waker, wake, wake_by_ref, drop_waker);

/// # Safety
/// All four want the pointer of a waker of [`Task::run`].
unsafe fn clone_waker(task: *const ()) -> RawWaker {
    // SAFETY: the waker keeps it alive.
    unsafe { &*task.cast::<Header>() }.add_reference();
    RawWaker::new(task, &WAKER)
}

unsafe fn wake(task: *const ()) {
    // SAFETY: the caller's promise.
    unsafe {
        wake_by_ref(task);
        drop_waker(task);
    }
}

unsafe fn wake_by_ref(task: *const ()) {
    // SAFETY: a waker's pointer is not null.
    let task = Task(unsafe { NonNull::new_unchecked(task.cast_mut().cast()) });
    if task.claim() {
        task.schedule(Turn::Next);
    }
}

unsafe fn drop_waker(task: *const ()) {
    // SAFETY: as above.
    drop_reference(unsafe { NonNull::new_unchecked(task.cast_mut().cast()) });
}

// %% [markdown]
// An output may hold a join handle, of a task whose output holds another, and so on, a hundred thousand of them. Were
// each dropped within the drop of the one before, the stack would not do. Were each dropped after it, a destructor that
// drops a handle, and then waits for what only the end of that output brings, would wait for ever. So they are dropped
// within one another, as one expects, until they are 64 deep; what hangs on the last is dropped right after it. The
// same goes for tasks that are cancelled: a destructor may spawn another task meanwhile, which is cancelled in turn.

// %%
/// So many destructors of outputs and of cancelled tasks run within one another.
const DEPTH: usize = 64;

/// What destructors run for, with a reference.
enum Last {
    /// The output of a task that is done, and whose handle is gone.
    Discard(NonNull<Header>),
    /// A task that was in a queue, or claimed.
    Cancel(Task),
}

/// How deep a thread is in them, and what was put off; null before the greatest depth.
#[derive(Clone, Copy)]
struct Deep(usize, *mut Vec<Last>);

fn with_deep<R>(work: impl FnOnce(&Cell<Deep>) -> R) -> R {
    sync::thread_local! {
        static DEEP: Cell<Deep> = Cell::new(Deep(0, ptr::null_mut()));
    }
    DEEP.with(work)
}

// %% [markdown]
// At the greatest depth the first of them makes a list, and runs what comes into it.

// %%
impl Last {
    /// Runs the destructors; at the greatest depth, after those that are under way.
    fn run(self) {
        let Deep(depth, list) = with_deep(Cell::get);
        // SAFETY: it points to `all` below, further down on this thread, and no reference to it is kept.
        if let Some(all) = unsafe { list.as_mut() } {
            return all.push(self);
        }
        if depth + 1 < DEPTH {
            with_deep(|deep| deep.set(Deep(depth + 1, list)));
            self.run_here();
        } else {
            let mut all = vec![self];
            let list = &raw mut all;
            with_deep(|deep| deep.set(Deep(DEPTH, list)));
            // SAFETY: as above.
            while let Some(last) = unsafe { (*list).pop() } {
                last.run_here();
            }
        }
        with_deep(|deep| deep.set(Deep(depth, list)));
    }

    /// Does not panic.
    fn run_here(self) {
        match self {
            Self::Discard(task) => {
                // SAFETY: the reference keeps it alive; the task is done, and without its handle this is the only taker.
                unsafe { (task.as_ref().code.take)(task.as_ptr().cast(), ptr::null_mut()) };
                drop_reference(task);
            }
            Self::Cancel(task) => {
                task.start();
                // SAFETY: it came out of a queue, so no other thread may poll or cancel it.
                unsafe { (task.header().code.cancel)(task.cell()) };
                task.end();
            }
        }
    }
}

// %% [markdown]
// ## Future and output
//
// They lie in one place behind the header, one after the other.

// %%
/// The allocation of a task.
#[repr(C)]
struct TaskCell<F: Future> {
    header: Header,
    stage: Shared<Stage<F>>,
}

enum Stage<F: Future> {
    Future(F),
    Output(Result<F::Output, JoinError>),
    Taken,
}

// %% [markdown]
// A panic ends its task and nothing else: it is caught here, and handed to the join handle. The future is dropped while
// its thread still panics, so that its destructors can tell. The destructor of a future may panic as well, and that of the
// output which then is of no use; [`shielded`](../../rust-kernels/idle/shield.rs) keeps that from us.

// %%
impl<F: Future> TaskCell<F> {
    /// # Safety
    /// The pointer is to such a cell, which outlives the reference.
    unsafe fn of<'a>(cell: *const ()) -> &'a Self {
        // SAFETY: the caller's promise.
        unsafe { &*cell.cast() }
    }

    /// # Safety
    /// As [`Self::of`], and no other thread polls, cancels or takes.
    unsafe fn poll(cell: *const (), context: &mut Context<'_>) -> bool {
        // SAFETY: the caller's promise.
        let cell = unsafe { Self::of(cell) };
        let polled = cell.stage.with_mut(|stage| {
            // SAFETY: no other thread is there.
            let Stage::Future(future) = (unsafe { &mut *stage }) else {
                unreachable!("a task is polled after its end")
            };
            /// Drops the future if its poll panics.
            struct Panicked<F: Future>(*mut Stage<F>);
            impl<F: Future> Drop for Panicked<F> {
                fn drop(&mut self) {
                    // SAFETY: no other thread is there, and the poll is over. The future is dropped in place.
                    shielded(|| unsafe { *self.0 = Stage::Taken });
                }
            }
            catch_unwind(AssertUnwindSafe(|| {
                let panicked = Panicked(stage);
                // SAFETY: the cell is never moved, and the future is dropped in place.
                let polled = unsafe { Pin::new_unchecked(future) }.poll(context);
                std::mem::forget(panicked);
                polled
            }))
        });
        let output = match polled {
            Ok(Poll::Pending) => return false,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => Err(JoinError::Panicked(payload)),
        };
        cell.finish(output);
        true
    }

    /// Puts an output in the place of the future. For a thread that may poll.
    fn finish(&self, output: Result<F::Output, JoinError>) {
        self.stage.with_mut(|stage| {
            // SAFETY: no other thread is there. The future is dropped in place.
            let dropped = catch_unwind(AssertUnwindSafe(|| unsafe { *stage = Stage::Taken }));
            let output = match dropped {
                Ok(()) => output,
                Err(payload) => {
                    shielded(|| drop(output));
                    Err(JoinError::Panicked(payload))
                }
            };
            // SAFETY: as above.
            unsafe { *stage = Stage::Output(output) };
        });
    }
}

// %% [markdown]
// The other three functions move or drop what is there. A null pointer stands for an output that is not wanted.

// %%
impl<F: Future> TaskCell<F> {
    const CODE: Code = Code { poll: Self::poll, cancel: Self::cancel, take: Self::take, free: Self::free };

    /// # Safety
    /// As for `poll`.
    unsafe fn cancel(cell: *const ()) {
        // SAFETY: the caller's promise.
        unsafe { Self::of(cell) }.finish(Err(JoinError::Cancelled));
    }

    /// # Safety
    /// The task is done, no other thread takes, and `to` points to an `Option<Result<F::Output, JoinError>>`.
    unsafe fn take(cell: *const (), to: *mut ()) {
        // SAFETY: the caller's promise.
        unsafe { Self::of(cell) }.stage.with_mut(|stage| {
            // SAFETY: as above.
            if let Stage::Output(output) = unsafe { std::mem::replace(&mut *stage, Stage::Taken) } {
                // SAFETY: as above. A null pointer asks to drop the output.
                match unsafe { to.cast::<Option<Result<F::Output, JoinError>>>().as_mut() } {
                    Some(to) => *to = Some(output),
                    None => _ = shielded(|| drop(output)),
                }
            }
        });
    }

    /// # Safety
    /// The cell was made by [`Task::new`], and this was the last reference to it.
    unsafe fn free(cell: *const ()) {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(cell.cast_mut().cast::<Self>()) });
    }
}

// %% [markdown]
// ## The handle
//
// It waits by leaving its own waker in the header. It writes it while *awaited* is not set, and sets that
// afterwards; the thread that ends the task reads the waker only if *awaited* was set in time, and clears it when it has
// woken. The waker is dropped with its last use: by the handle, if that goes while *awaited* is not set or the task is
// not done, and otherwise by the thread that ends the task. Dropping the handle lets the task run on.

// %%
/// Waits for the output of a task. The task runs on when this is dropped.
pub struct JoinHandle<T> {
    task: NonNull<Header>,
    output: PhantomData<T>,
}

// SAFETY: a handle moves the output, which has to be `Send` for it; the header is made for several threads.
unsafe impl<T: Send> Send for JoinHandle<T> {}
// SAFETY: nothing can be done with a shared one.
unsafe impl<T: Send> Sync for JoinHandle<T> {}

impl<T> Unpin for JoinHandle<T> {}

impl<T> Future for JoinHandle<T> {
    /// The task's own, or why there is none.
    type Output = Result<T, JoinError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: the handle's reference keeps it alive.
        let header = unsafe { self.task.as_ref() };
        let is_done = State(header.state.load(Ordering::Acquire)).is_done();
        if !is_done && header.register(context.waker()) {
            return Poll::Pending;
        }
        let mut output = None;
        // SAFETY: it is done, only the handle takes, and this is the type of its output.
        unsafe { (header.code.take)(self.task.as_ptr().cast(), ptr::from_mut(&mut output).cast()) };
        Poll::Ready(output.expect("a handle that is done is not polled again"))
    }
}

// %% [markdown]
// The protocol between the handle and the thread that ends the task is in one function.

// %%
impl Header {
    /// Leaves a waker for the handle; false if the task is done.
    fn register(&self, waker: &Waker) -> bool {
        let mut state = State(self.state.load(Ordering::Acquire));
        // SAFETY: while it is awaited, only the handle itself writes.
        let former =
            || self.joiner.with(|joiner| unsafe { &*joiner }.as_ref().is_some_and(|w| w.will_wake(waker)));
        if state.is_awaited() && former() {
            return !state.is_done();
        }
        while state.is_awaited() && !state.is_done() {
            let (old, new) = (state.0, state.0 & !AWAITED);
            match self.state.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    Step::TakesBack.note(old, new);
                    state = State(new);
                }
                Err(now) => state = State(now),
            }
        }
        if state.is_done() {
            return false;
        }
        let waker = waker.clone();
        // SAFETY: it is not awaited, so no other thread reads or writes.
        drop_shielded(self.joiner.with_mut(|joiner| unsafe { (*joiner).replace(waker) }));
        let before = self.state.fetch_or(AWAITED, Ordering::AcqRel);
        Step::Leaves.note(before, before | AWAITED);
        let waits = !State(before).is_done();
        if !waits {
            // It was too late, and only the handle uses the waker.
            let before = self.state.fetch_and(!AWAITED, Ordering::Relaxed);
            Step::TooLate.note(before, before & !AWAITED);
        }
        waits
    }

    /// Drops the waker of the handle. For the thread that may use it last.
    fn drop_joiner(&self) {
        // SAFETY: no other thread uses it any more.
        drop_shielded(self.joiner.with_mut(|joiner| unsafe { (*joiner).take() }));
    }
}

// %% [markdown]
// A handle that is dropped after the end has to drop the output; before the end it leaves that to the task.

// %%
impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        // SAFETY: the handle's reference keeps it alive.
        let header = unsafe { self.task.as_ref() };
        let mut state = State(header.state.load(Ordering::Acquire));
        // The thread that ends the task has to know, unless it needs nothing of this any more.
        while !state.is_done() || state.is_awaited() {
            let left = state.0 & if state.is_done() { !JOINED } else { !(JOINED | AWAITED) };
            match header.state.compare_exchange_weak(state.0, left, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => {
                    Step::Dropped.note(state.0, left);
                    break;
                }
                Err(now) => state = State(now),
            }
        }
        // That thread uses the waker if the task is done and the handle still awaited.
        if !state.is_done() || !state.is_awaited() {
            header.drop_joiner();
        }
        if state.is_done() { Last::Discard(self.task).run() } else { drop_reference(self.task) }
    }
}

// %% [markdown]
// A new task has two references: the executor's and its handle's.

// %%
impl Task {
    /// A task that is about to be put in a queue, and its handle.
    fn new<F: Future>(home: &Arc<Home>, future: F) -> (Self, JoinHandle<F::Output>) {
        let header = Header {
            state: AtomicUsize::new(RUNNING | JOINED | (2 * REFERENCE)),
            code: const { &TaskCell::<F>::CODE },
            home: HomeOf::new(home),
            neighbours: Shared::new([None; 2]),
            joiner: Shared::new(None),
        };
        let cell = Box::new(TaskCell { header, stage: Shared::new(Stage::Future(future)) });
        let task = NonNull::from(Box::leak(cell)).cast();
        (Self(task), JoinHandle { task, output: PhantomData })
    }
}

// %% [markdown]
// ## Polling
//
// When a poll returns `Pending` there are two cases. Either the task was woken meanwhile, then it goes to
// the back of the queue, and keeps *running* set: one atomic operation less for each yield. Or it goes to sleep.
//
// A sleeping task is in no queue; only its wakers know where it is, and they may be anywhere, in the task itself
// for one. So before it sleeps for the first time, its home notes it, that it may be dropped with the runtime. A
// task that never sleeps never gets there, which is why spawning costs no lock.

// %%
const BEFORE: usize = 0;
const AFTER: usize = 1;

impl Home {
    /// Notes a task that will sleep.
    fn note(&self, task: Task) {
        let mut first = self.asleep.lock().unwrap();
        task.put_beside(BEFORE, None);
        task.put_beside(AFTER, *first);
        first.into_iter().for_each(|next| next.put_beside(BEFORE, Some(task)));
        *first = Some(task);
    }

    /// Forgets a task that has ended.
    fn forget(&self, task: Task) {
        let mut first = self.asleep.lock().unwrap();
        let [before, after] = [BEFORE, AFTER].map(|side| task.beside(side));
        match before {
            Some(before) => before.put_beside(AFTER, after),
            None => *first = after,
        }
        after.into_iter().for_each(|after| after.put_beside(BEFORE, before));
    }

    /// Claims all that sleep.
    fn claim_all(&self) -> Vec<Task> {
        let first = self.asleep.lock().unwrap();
        std::iter::successors(*first, |task| task.beside(AFTER)).filter(Task::claim).collect()
    }
}

/// Neighbours, under the lock of the home.
impl Task {
    fn beside(&self, side: usize) -> Option<Task> {
        self.header().neighbours.with(|both| {
            // SAFETY: neighbours are read and written under the lock of the home.
            unsafe { (*both)[side] }
        })
    }

    fn put_beside(&self, side: usize, task: Option<Task>) {
        // SAFETY: as above.
        self.header().neighbours.with_mut(|both| unsafe { (*both)[side] = task });
    }
}

// %% [markdown]
// What is noted before a sleep is forgotten at the end.

// %%
impl Task {
    /// After a poll that was not the last.
    fn rest(self) {
        let header = self.header();
        let state = State(header.state.load(Ordering::Relaxed));
        if state.is_scheduled() {
            Step::Rests.note(state.0, state.0);
        } else {
            let new = if state.is_noted() { 0 } else { NOTED };
            if new != 0 {
                header.home.note(self);
            }
            // From here on it may be woken, polled and freed by others. (What was written before a wake that came
            // already is seen by `poll`.)
            let before = header.state.fetch_xor(RUNNING | new, Ordering::Release);
            Step::Rests.note(before, before ^ RUNNING);
            if !State(before).is_scheduled() {
                return;
            }
        }
        self.schedule(Turn::Last);
    }

    /// After the last poll, with the output in its place.
    fn end(self) {
        let header = self.header();
        let mut state = State(header.state.load(Ordering::Relaxed));
        if state.is_noted() {
            header.home.forget(self);
        }
        // Mostly there is a handle that is not awaited yet, and a single operation does.
        while state.has_handle() && !state.is_awaited() {
            let done = (state.0 ^ (RUNNING | DONE)) - REFERENCE;
            match header.state.compare_exchange_weak(state.0, done, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Step::Ends.note(state.0, done),
                Err(now) => state = State(now),
            }
        }
        let before = header.state.fetch_xor(RUNNING | DONE, Ordering::AcqRel);
        Step::Ends.note(before, before ^ (RUNNING | DONE));
        if !State(before).has_handle() {
            return Last::Discard(self.0).run();
        }
        if State(before).is_awaited() {
            header.joiner.with(|joiner| {
                // SAFETY: the handle writes no more once the task is done.
                let joiner = unsafe { &*joiner }.as_ref();
                shielded(|| joiner.into_iter().for_each(Waker::wake_by_ref));
            });
            let before = header.state.fetch_and(!AWAITED, Ordering::AcqRel);
            Step::Told.note(before, before & !AWAITED);
            if !State(before).has_handle() {
                header.drop_joiner();
            }
        }
        drop_reference(self.0);
    }
}

// %% [markdown]
// While the executor has its reference, the waker for a poll needs none of its own: it is not dropped.

// %%
impl Task {
    /// Notes that the task is being polled, from out of a queue.
    fn start(&self) {
        let state = &self.header().state;
        let queued = State(state.load(Ordering::Relaxed));
        if !queued.is_scheduled() {
            // It is new.
            return;
        }
        let change = if queued.is_running() { SCHEDULED } else { SCHEDULED | RUNNING };
        let before = state.fetch_xor(change, Ordering::AcqRel);
        Step::Starts.note(before, before ^ change);
    }

    /// Polls it.
    fn run(self) {
        self.start();
        // SAFETY: for as long as the executor has its reference, a waker more needs none of its own.
        let waker = ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(self.cell(), &WAKER)) });
        // SAFETY: it came out of a queue, so no other thread may poll it.
        if unsafe { (self.header().code.poll)(self.cell(), &mut Context::from_waker(&waker)) } {
            self.end();
        } else {
            self.rest();
        }
    }

    /// Ends it without an output.
    fn cancel(self) {
        Last::Cancel(self).run();
    }
}

// %% [markdown]
// ## Looking for work
//
// Not more than half of the workers look around at once. Each looks at the injector and at all deques, several
// times, because work may come before a thread could be put to sleep and woken for it. A caller of `block_on` only waits
// for what it has spawned to come back, or for its wake: for as long, but no task may count on it.

// %%
impl Place<'_> {
    /// Searches for a task elsewhere until `stop` is true or it has searched often enough. `called`: as a helper, already
    /// counted.
    fn search(&self, called: bool, stop: impl Fn() -> bool) -> Option<Task> {
        let pool = &*self.home.get().pool;
        if !called {
            if pool.idle.is_crowded() {
                return None;
            }
            pool.idle.search();
        } else {
            // Perhaps a worker whose timers are due does not get on.
            pool.workers.iter().for_each(|worker| worker.timers.fire());
        }
        let found = self.search_with(stop, |core| core.pop().or_else(|| core.steal()));
        if pool.idle.found() {
            pool.call_for_waiting();
        }
        found
    }

    /// As a caller: waits for its own tasks, or until there are others, which are not for it.
    fn wait_for_own(&self, stop: impl Fn() -> bool) -> Option<Task> {
        let pool = &*self.home.get().pool;
        if pool.idle.is_crowded() {
            return None;
        }
        self.search_with(|| stop() || !pool.injector.is_empty(), Core::pop)
    }

    /// Calls `find` until it has found something, `stop` is true, or it was called often enough.
    fn search_with(&self, stop: impl Fn() -> bool, find: impl Fn(&Core) -> Option<Task>) -> Option<Task> {
        for search in 1..=self.home.get().pool.settings.searches.max(1) {
            let core = self.core()?;
            if let Some(task) = find(core) {
                return Some(task);
            }
            if stop() {
                break;
            }
            if search % TIMERS_IN_SEARCH == 0 {
                core.timers().fire();
            }
            std::hint::spin_loop();
        }
        None
    }
}

// %% [markdown]
// A thief takes half of what it finds. It begins with another worker each time, so that no worker is the first
// choice of all. To take no more than four tasks of a caller at a time, since the caller waits for them and takes none
// back, was tried and rejected: a hundred receivers of a watch took longer.

// %%
impl Core {
    /// Takes tasks from the injector, or half of what another worker has.
    fn steal(&self) -> Option<Task> {
        let pool = &self.home.pool;
        let first = self.open.polls.load(Ordering::Relaxed);
        loop {
            let mut again = false;
            match pool.injector.steal_batch_with_limit_and_pop(&self.batch, MOST) {
                Steal::Success(task) => {
                    self.unpack();
                    return Some(task);
                }
                Steal::Retry => again = true,
                Steal::Empty => {}
            }
            for index in 0..pool.workers.len() {
                let worker = first.wrapping_add(index) % pool.workers.len();
                for (number, seat) in pool.workers[worker].seats.iter().enumerate() {
                    // A place without a caller has nothing, and is not worth a second search.
                    if (worker, number) == (self.home.worker, self.seat) || seat.stealer.is_empty() {
                        continue;
                    }
                    let task = seat.stealer.steal(MOST, |task| self.put_last(Task(task)));
                    if task.is_some() {
                        return task.map(Task);
                    }
                }
            }
            if !again {
                return None;
            }
        }
    }
}

// %% [markdown]
// ## The worker's thread
//
// It sleeps until it is called, or until the first timer of its worker expires. In the second case another thread may
// have its core, and will see to the timers.
//
// A task may call `block_on`, and wait. To run other tasks on top of it meanwhile would use up the stack, and let it
// wait for them when it need not. So it gives the core up, and the worker's place with it, and its thread is *away*. If
// the worker is called meanwhile, another thread is sent for, from those for calls that block, and stays. The one
// that was away ends with its poll, unless none was needed: then it is the worker's own again.
//
// ### Caches of the allocator
//
// glibc has several arenas, each with a lock, and for each thread a cache of blocks that the thread has freed, whichever
// arena they are of. A new thread first frees a small block of its parent's arena, which so comes into its cache. From then on
// a string that it begins may be in that block, and each `realloc` of it locks the parent's arena, which the parent uses,
// too. In the suites of broadcast and watch of the [next notebook](measure.ipynb) each receiver grows a string, and nine
// waits out of ten were for that lock.
//
// So a worker keeps the first block of that size that it is given, and fills its cache with blocks of its own arena. With six
// workers on two processors of a Xeon (model 207, glibc 2.36), new over old time was 0.50 [0.36, 0.69] for a broadcast to ten
// receivers, 0.37 [0.36, 0.39] to a hundred and 0.38 [0.35, 0.43] to a thousand (six pairs of processes, 95 %). It does not last
// while deques grow and shrink, since what they outgrow is a block of the same size that some other thread frees later: a watch of a
// thousand took 0.88 [0.74, 1.04]. With a ring that does neither, no `realloc` of these suites was of another thread's block,
// where 45 % had been.

// %%
/// Fills the thread's cache of the smallest blocks with its own; the block that was there, to be kept while the thread runs.
fn fill_cache() -> Box<[u64; 3]> {
    /// Blocks of one size in a cache: 7 in glibc, and 16 from 2.42 on.
    const CACHED: usize = 16;
    let block = || std::hint::black_box(Box::new([1; 3]));
    let first = block();
    drop([(); CACHED].map(|()| block()));
    first
}

// %% [markdown]
// So that is where a worker's own thread begins.

// %%
impl Home {
    /// Makes the calling thread the worker's own, unless it has one.
    fn is_to_come_back(&self) -> bool {
        let mut own = self.pool.workers[self.worker].own.lock().unwrap();
        let comes = !matches!(*own, Own::Known(_));
        if comes {
            *own = Own::Known(current());
        }
        comes
    }

    /// What a worker's own thread does until the end, or until it has been away and another one has come.
    fn work(home: &Arc<Self>) {
        let pool = &*home.pool;
        pool.working.fetch_add(1, Ordering::Relaxed);
        let _kept = fill_cache();
        while let Some(called) = pool.wait(home.worker) {
            let place = Place::new(home, true);
            place.sit(pool.workers[home.worker].take(OWN, false).expect("only this thread uses this core"));
            let kept = place.enter(|| {
                pool.run_all(&place, called);
                place.core().is_some()
            });
            if !kept && !home.is_to_come_back() {
                break;
            }
        }
        pool.working.fetch_sub(1, Ordering::Release);
    }
}

// %% [markdown]
// In between it waits for work, and runs what there is.

// %%
impl Pool {
    /// Sleeps until there is something to do; whether the thread was called for it. `None` when the runtime is closed.
    fn wait(&self, number: usize) -> Option<bool> {
        let worker = &self.workers[number];
        loop {
            // First, since tasks that are left at the end are no reason to come.
            if self.closed.load(Ordering::Relaxed) {
                return None;
            }
            if worker.called.swap(false, Ordering::Relaxed) {
                return Some(true);
            }
            match worker.timers.first().map(|first| first.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) if self.idle.take_back(number) => {
                    self.begin_watch();
                    return Some(false);
                }
                None | Some(Duration::ZERO) => park(),
                Some(left) => park_timeout(left),
            }
        }
    }

    /// Runs tasks until there are none, or the core is gone. `called`: as a helper, counted as searching already.
    fn run_all(&self, place: &Place<'_>, mut called: bool) {
        let closed = || self.closed.load(Ordering::Relaxed);
        loop {
            let task = if called { None } else { place.next() };
            let Some(task) = task.or_else(|| place.search(called, closed)) else { return };
            called = false;
            if closed() {
                // It is cancelled, also if a destructor has spawned it at the end.
                return self.injector.push(task);
            }
            task.run();
        }
    }
}

// %% [markdown]
// ## Polls that take long
//
// A poll may take long: a root that receives from a channel, a task that waits for a lock. Three things must not wait
// with it: the task in its LIFO slot, which no other thread looks at; its timers; and workers that are not awake
// because this thread is. To see to each of them at once would cost a wake for each task that is spawned. So one thread
// *watches*, as that of Go's scheduler does: every ten milliseconds, while any worker is awake, it looks whether each
// core has polled since. If one has not,
//
// - its LIFO slot is emptied into the injector;
// - a caller of `block_on` has its place *handed off*: the thread of the worker comes back to it;
// - for a worker, one more may be awake;
// - if a task waits, or a timer, a helper is called, which fires the timers of all.
//
// So what such a poll holds up waits for twenty milliseconds, and not for its end. tokio has no such thread, and a task
// of it that blocks keeps what is in its slot to itself.

// %%
/// How often it is checked whether all cores have polled.
const WATCH: Duration = Duration::from_millis(10);

impl Pool {
    /// What the thread that watches does until the runtime is closed.
    fn watch(&self) {
        while !self.closed.load(Ordering::Relaxed) {
            let busy = self.check_progress();
            // A thread that takes a place from here on sees to it that it is watched.
            if !busy && self.idle.leave_unwatched() { park() } else { park_timeout(WATCH) }
        }
    }

    /// Helps threads that have not polled since the last time. Whether any has a core.
    fn check_progress(&self) -> bool {
        let (mut busy, mut stuck, mut due) = (false, 0, false);
        for (number, worker) in self.workers.iter().enumerate() {
            for (index, seat) in worker.seats.iter().enumerate() {
                let polls = seat.open.polls.load(Ordering::Relaxed);
                let same = seat.open.watched.swap(polls, Ordering::Relaxed) == polls;
                let held = seat.held.lock().unwrap();
                if held.core.is_some() {
                    continue;
                }
                busy = true;
                if !same {
                    continue;
                }
                drop(held);
                seat.open.take_next().into_iter().for_each(|task| self.injector.push(task));
                stuck += usize::from(index == OWN);
                due |= worker.timers.first().is_some_and(|first| first <= Instant::now());
                if index == CALLER {
                    self.hand_off(number);
                }
            }
        }
        self.idle.permit(self.settings.awake.saturating_add(stuck));
        if busy && (due || self.has_waiting()) {
            self.call(self.idle.offer());
        }
        busy
    }
}

// %% [markdown]
// # Timers
//
// Each worker has a map from deadlines to wakers. A sleep takes the time when it is made, as tokio's does and nio's
// does not, and is entered when it is first polled, without reading the clock again: if its time has come by then, it
// is found with all others that are due, after 61 tasks at most.

// %%
/// Is ready at a certain time.
pub struct Sleep {
    deadline: Instant,
    /// Whose timers know it, since it was first polled, and its number there.
    known: Option<(Arc<Home>, u64)>,
}

/// Ready when so much time has passed from now on, or a hundred years, and never before: not every clock counts to more.
pub fn sleep(duration: Duration) -> Sleep {
    const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    Sleep { deadline: Instant::now() + duration.min(LONGEST), known: None }
}

// %% [markdown]
// The thread that ends a runtime fires its timers, too; a destructor that waits there for a sleep would wait for ever.

// %%
impl Pool {
    /// Whether the thread that calls is ending this runtime.
    fn ends_here(&self) -> bool {
        self.closed.load(Ordering::Relaxed) && Place::within(self, |place| place.ends).is_some()
    }
}

// %% [markdown]
// A sleep that is polled again may have another waker by then, and its runtime may be gone: then it is entered where it
// is polled.

// %%
impl Future for Sleep {
    type Output = ();

    /// # Panics
    /// When it has to wait on a thread that belongs to no runtime, or to one that is gone or that this thread ends.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Outside of a runtime no worker looks at the clock.
        let reads_clock = self.known.is_some() || Place::here(|place| place.is_none());
        if reads_clock && Instant::now() >= self.deadline {
            return Poll::Ready(());
        }
        if let Some((home, number)) = &self.known
            && !home.pool.ends_here()
        {
            let worker = &home.pool.workers[home.worker];
            if let Some((_, added)) = worker.timers.set(self.deadline, Some(*number), context.waker()) {
                if added {
                    // It fired since we read the clock, perhaps for another task.
                    home.pool.unpark(home.worker);
                }
                return Poll::Pending;
            }
        }
        let deadline = self.deadline;
        // If there was a runtime that knew it, it is gone.
        self.known = Place::here(|place| {
            let place = place.expect("a sleep needs a runtime");
            let home = place.home.get();
            let lives = (!home.pool.ends_here()).then_some(&home.pool.workers[home.worker].timers);
            let set = lives.and_then(|timers| timers.set(deadline, None, context.waker()));
            let (number, _) = set.expect("a sleep needs a runtime that is not shut down");
            if place.core().is_none() {
                home.pool.unpark(home.worker);
            }
            Some((Arc::clone(home), number))
        });
        Poll::Pending
    }
}

// %% [markdown]
// A sleep that is dropped is forgotten by its timers.

// %%
impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some((home, number)) = self.known.take() {
            home.pool.workers[home.worker].timers.remove(self.deadline, number);
        }
    }
}

// %% [markdown]
// A timeout makes its sleep only when the future was not ready at once.

// %%
/// The output of a future, or nothing if it comes too late.
pub struct Timeout<F> {
    future: F,
    duration: Duration,
    /// From the first time on that the future was not ready.
    sleep: Option<Sleep>,
}

/// Waits so long for a future, counted from the end of its first poll. A future that is ready then does not read the
/// clock.
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout { future, duration, sleep: None }
}

impl<F: Future> Future for Timeout<F> {
    type Output = Option<F::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<F::Output>> {
        // SAFETY: `future` and `sleep` are pinned for as long as this is, and nothing moves them.
        let this = unsafe { self.get_unchecked_mut() };
        // SAFETY: as above.
        if let Poll::Ready(output) = unsafe { Pin::new_unchecked(&mut this.future) }.poll(context) {
            return Poll::Ready(Some(output));
        }
        let sleep = this.sleep.get_or_insert_with(|| sleep(this.duration));
        // SAFETY: as above.
        unsafe { Pin::new_unchecked(sleep) }.poll(context).map(|()| None)
    }
}

// %% [markdown]
// # Calls that block
//
// A call that blocks is a task that is done with its first poll, on a thread that is meant for it. Any of them may
// block for ever, so each waiting call has to find a thread. But not each needs a wake: one thread is on its way at
// a time, and when it has taken a call and leaves another behind, it sends for the next thread *before* it makes its
// call.

// %%
/// Threads for blocking calls, at the most; as in tokio and nio.
const MOST_BLOCKING: usize = 512;
/// How long a thread waits for another call before it ends; as in tokio and nio.
const KEEP: Duration = Duration::from_secs(10);

impl Blocking<Task> {
    /// Queues a call; false if the runtime is closed. Calls for which the system has no thread, not even one, are
    /// cancelled.
    fn push(home: &Arc<Home>, task: Task) -> bool {
        let mut state = home.pool.blocking.state.lock().unwrap();
        if state.closed {
            return false;
        }
        state.queue.push_back(task);
        Self::fetch(home, &mut state);
        let given_up = if state.threads == 0 { std::mem::take(&mut state.queue) } else { VecDeque::new() };
        drop(state);
        // Without the lock: what a call holds may do anything when it is dropped.
        given_up.into_iter().for_each(Task::cancel);
        true
    }

    /// Sends for a thread, if calls wait and none is on its way.
    fn fetch(home: &Arc<Home>, state: &mut BlockingState<Task>) {
        let this = &home.pool.blocking;
        this.waiting.store(state.queue.len(), Ordering::Relaxed);
        if state.queue.is_empty() || state.looking > 0 {
            return;
        }
        if state.idle > 0 {
            (state.idle, state.called, state.looking) = (state.idle - 1, state.called + 1, state.looking + 1);
            this.arrived.notify_one();
        } else if state.threads < MOST_BLOCKING {
            (state.threads, state.looking) = (state.threads + 1, state.looking + 1);
            let home = Arc::clone(home);
            let work = move || Place::new(&home, false).enter(|| Self::work(&home));
            if std::thread::Builder::new().spawn(work).is_err() {
                // The system has no thread: one that is busy will come to it.
                (state.threads, state.looking) = (state.threads - 1, state.looking - 1);
            }
        }
    }
}

// %% [markdown]
// A thread that has made its call looks at the queue for a while before it sleeps, and ends when it was not called for
// long.

// %%
impl Blocking<Task> {
    /// What each of its threads does.
    fn work(home: &Arc<Home>) {
        let this = &home.pool.blocking;
        let mut state = this.state.lock().unwrap();
        loop {
            while let Some(task) = state.queue.pop_front() {
                state.looking -= 1;
                Self::fetch(home, &mut state);
                drop(state);
                task.run();
                state = this.state.lock().unwrap();
                state.looking += 1;
            }
            drop(state);
            (0..home.pool.settings.searches)
                .take_while(|_| {
                    this.waiting.load(Ordering::Relaxed) == 0 && !home.pool.closed.load(Ordering::Relaxed)
                })
                .for_each(|_| std::hint::spin_loop());
            state = this.state.lock().unwrap();
            if !state.queue.is_empty() {
                continue;
            }
            (state.looking, state.idle) = (state.looking - 1, state.idle + 1);
            // Of a burst nothing is kept.
            state.queue.shrink_to(MOST_BLOCKING);
            let waits = |state: &mut BlockingState<Task>| state.called == 0 && !state.closed;
            state = this.arrived.wait_timeout_while(state, KEEP, waits).unwrap().0;
            if state.called == 0 {
                (state.idle, state.threads) = (state.idle - 1, state.threads - 1);
                // For the shutdown, which waits until all are gone.
                return this.arrived.notify_all();
            }
            state.called -= 1;
        }
    }

    /// Takes no more calls, and hands back those that were not begun.
    fn close(&self) -> VecDeque<Task> {
        let mut state = self.state.lock().unwrap();
        state.closed = true;
        self.arrived.notify_all();
        std::mem::take(&mut state.queue)
    }

    /// Waits for calls that are under way, but not for long; whether there are none.
    fn wait(&self) -> bool {
        let (state, limit) = (self.state.lock().unwrap(), WATCH);
        self.arrived.wait_timeout_while(state, limit, |state| state.threads > 0).unwrap().0.threads == 0
    }
}

// %% [markdown]
// # The runtime
//
// A runtime is a pool, its homes and its threads.

// %%
/// A pool of threads that run tasks. Dropping it waits for the polls and the blocking calls that are under way, and
/// drops all tasks that are not done. One of its own tasks or calls that drops it does not wait: that is done on another
/// thread.
pub struct Runtime {
    pool: Arc<Pool>,
    parts: Parts<Home>,
    /// The thread that watches.
    watch: Option<Handle<()>>,
}

// %% [markdown]
// The threads begin last, those of the workers and the one that watches.

// %%
impl Runtime {
    fn start(&mut self) -> std::io::Result<()> {
        for worker in 0..self.pool.workers.len() {
            let home = Arc::clone(&self.parts.homes[worker]);
            let work = move || {
                if home.is_to_come_back() {
                    Home::work(&home);
                }
            };
            self.parts.threads.push(start(work)?.0);
        }
        // Under loom time stands still, and tests watch by themselves.
        if !cfg!(under_loom) {
            let pool = Arc::clone(&self.pool);
            let (handle, thread) = start(move || {
                pool.watch();
                let left = pool.left.lock().unwrap().take();
                left.into_iter().for_each(|parts| parts.end(&pool));
            })?;
            self.watch = Some(handle);
            self.pool.watch.get_or_init(|| thread);
        }
        Ok(())
    }

    /// Checks once whether all cores have polled, as the thread that watches does.
    #[cfg(under_loom)]
    pub fn check_progress(&self) {
        self.pool.check_progress();
    }
}

// %% [markdown]
// Cores and threads refer to each other, so they are made in turn: deques, the pool, its homes, the cores, and the
// threads at last.

// %%
impl Runtime {
    /// Starts the worker threads.
    ///
    /// # Panics
    /// If there are no workers or too many, if none of them may be awake, or if the system refuses a thread; those that
    /// it gave have ended by then.
    pub fn new(settings: Settings) -> Self {
        // First, since it refuses what is out of bounds.
        let idle = Idle::new(settings.workers, settings.awake);
        let deques: Vec<[Deque<Header>; 2]> =
            (0..settings.workers).map(|_| [(); 2].map(|()| Deque::new())).collect();
        let seat = |deque: &Deque<Header>| Seat {
            held: Mutex::new(HeldOf { core: None, handed_off: false }),
            stealer: deque.stealer(),
            open: Arc::new(Open {
                next: AtomicPtr::new(ptr::null_mut()),
                polls: Default::default(),
                watched: Default::default(),
            }),
        };
        let worker = |[own, caller]: &[Deque<Header>; 2]| Remote {
            seats: [seat(own), seat(caller)],
            called: AtomicBool::new(false),
            own: Mutex::new(Own::Coming),
            timers: Timers::default(),
        };
        let pool = Arc::new(Pool {
            settings,
            injector: Injector::new(),
            workers: deques.iter().map(worker).collect(),
            idle,
            closed: AtomicBool::new(false),
            working: Default::default(),
            blocking: Blocking::default(),
            watch: OnceLock::new(),
            left: Default::default(),
            #[cfg(under_loom)]
            substitutes: Default::default(),
        });
        let home = |worker| Arc::new(Home { pool: Arc::clone(&pool), worker, asleep: Mutex::new(None) });
        let mut homes: Vec<_> = (0..settings.workers).map(home).collect();
        for (deques, home) in deques.into_iter().zip(&homes) {
            for (seat, deque) in deques.into_iter().enumerate() {
                let place = &pool.workers[home.worker].seats[seat];
                let (home, open) = (Arc::clone(home), Arc::clone(&place.open));
                let (streak, turn, handed_off) = (Cell::new(0), Cell::new(Turn::Next), Cell::new(false));
                let (spare, batch) = (Cell::new(0), Batch::new_fifo());
                let core = Core { home, spare, seat, deque, batch, open, streak, turn, handed_off };
                place.held.lock().unwrap().core = Some(Box::new(core));
            }
        }
        // The last one is for threads without a core.
        homes.push(home(0));
        let parts = Parts { homes, threads: Vec::with_capacity(settings.workers) };
        // From here on its end ends the threads that were started.
        let mut runtime = Self { pool, parts, watch: None };
        runtime.start().expect("the system has a thread");
        runtime
    }
}

// %% [markdown]
// What is spawned from outside has a home of its own. Tasks and blocking calls are spawned by free functions, which ask
// the thread where it is, or by methods of the runtime.

// %%
impl Runtime {
    /// Home of what threads without a core spawn.
    fn outside(&self) -> &Arc<Home> {
        &self.parts.homes[self.pool.workers.len()]
    }
}

/// Starts a task at this place; dropping the handle lets it run on.
fn spawn_at<T: Send + 'static>(
    home: &Arc<Home>,
    future: impl Future<Output = T> + Send + 'static,
) -> JoinHandle<T> {
    let (task, handle) = Task::new(home, future);
    if home.pool.closed.load(Ordering::Relaxed) {
        task.cancel()
    } else {
        task.schedule(Turn::Last)
    }
    handle
}

/// Makes a call at this place's threads for such calls.
fn spawn_blocking_at<T: Send + 'static>(
    home: &Arc<Home>,
    call: impl FnOnce() -> T + Send + 'static,
) -> JoinHandle<T> {
    let (task, handle) = Task::new(home, async { call() });
    if !Blocking::push(home, task) {
        task.cancel();
    }
    handle
}

/// Calls `work` with the home of the thread's place.
fn at_home<R>(work: impl FnOnce(&Arc<Home>) -> R) -> R {
    Place::here(|place| work(place.expect("this thread belongs to no runtime").home.get()))
}

/// Starts a task on the runtime of the calling task.
///
/// # Panics
/// On a thread that belongs to no runtime.
pub fn spawn<T: Send + 'static>(future: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    at_home(|home| spawn_at(home, future))
}

/// Makes a call that may block, on a thread that is meant for it.
///
/// # Panics
/// On a thread that belongs to no runtime.
pub fn spawn_blocking<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    at_home(|home| spawn_blocking_at(home, call))
}

// %% [markdown]
// A thread that is sent for in the place of one that is away makes a call that blocks: the call is the worker's own thread
// until it goes away in turn.

// %%
/// A thread that is sent for.
struct Substitute(Option<Arc<Home>>);

impl Substitute {
    /// The worker's own thread is away until it comes back, or another one is needed.
    fn may_be_needed(home: &Arc<Home>) -> Own {
        let own = Arc::clone(home);
        Own::Away(Box::new(|| Self::send_for(own)))
    }

    fn send_for(home: Arc<Home>) {
        let substitute = Self(Some(Arc::clone(&home)));
        #[cfg(not(under_loom))]
        drop(spawn_blocking_at(&home, move || substitute.work()));
        #[cfg(under_loom)]
        home.pool.substitutes.lock().unwrap().push(start(move || substitute.work()).unwrap().0);
    }

    fn work(mut self) {
        let home = self.0.take().expect("it works once");
        if home.is_to_come_back() {
            Home::work(&home);
        }
    }
}

impl Drop for Substitute {
    /// There is no thread for it: the next thread that needs one tries again.
    fn drop(&mut self) {
        if let Some(home) = self.0.take() {
            let mut own = home.pool.workers[home.worker].own.lock().unwrap();
            if let Own::Coming = *own {
                *own = Self::may_be_needed(&home);
            }
        }
    }
}

// %% [markdown]
// ## `block_on`
//
// The calling thread takes the place of a worker if one is free, polls its future, and runs its tasks for as long as there
// are any. Before it goes to sleep, it gives the place back.

// %%
impl Wake for Root {
    fn wake(self: std::sync::Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &std::sync::Arc<Self>) {
        if !self.woken.swap(true, Ordering::Release) {
            self.thread.unpark();
        }
    }
}

// %% [markdown]
// While it has a core, the caller does what a worker does, but for its own future: if that was woken, it has its turn when
// no task is left, or after 61 tasks. A root that joins a thousand tasks one after the other is woken by each of them. If it
// were polled every time, that would be a thousand polls; so it is seldom polled, and finds most of them done.

// %%
impl Root {
    /// Waits until the future is woken. After a core was given up within a task, that worker's timers have to be seen to
    /// while no thread has come for it: there may be none.
    fn wait(&self, left: Option<&Home>) {
        while !self.woken.load(Ordering::Relaxed) {
            let Some(home) = left else { return park() };
            let remote = &home.pool.workers[home.worker];
            if matches!(*remote.own.lock().unwrap(), Own::Coming) {
                remote.timers.fire();
                park_timeout(WATCH);
            } else {
                park();
            }
        }
    }

    /// Polls the future if it was woken.
    fn poll<F: Future>(&self, future: Pin<&mut F>, waker: &Waker, place: &Place<'_>) -> Poll<F::Output> {
        if !self.woken.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        self.woken.swap(false, Ordering::Acquire);
        place.core().into_iter().for_each(|core| _ = core.count_poll());
        future.poll(&mut Context::from_waker(waker))
    }

    /// The same, and runs tasks of the core until there are none and the future waits.
    fn attend<F: Future>(
        &self,
        mut future: Pin<&mut F>,
        waker: &Waker,
        place: &Place<'_>,
    ) -> Poll<F::Output> {
        let woken = || self.woken.load(Ordering::Relaxed);
        'root: loop {
            let polled = self.poll(future.as_mut(), waker, place);
            if polled.is_ready() || place.core().is_none() {
                return polled;
            }
            let mut ran = 0;
            while let Some(task) = place.next() {
                task.run();
                ran += 1;
                if woken() && (ran >= INTERVAL || place.core().is_none_or(Core::is_empty)) {
                    continue 'root;
                }
            }
            match place.wait_for_own(woken) {
                Some(task) => task.run(),
                None if woken() => {}
                None => return Poll::Pending,
            }
        }
    }
}

// %% [markdown]
// So `block_on` is a loop around that. Within a task of the same runtime, the thread's core is lent to it for the first
// poll, and given up if that was not the last. Whatever becomes of the future, it is dropped here, where its destructor
// finds the runtime.

// %%
/// Gives back the core that was lent for a poll, if it is still there.
struct Lent<'a, 'b>(Option<&'b Place<'static>>, &'b Place<'a>);

impl Drop for Lent<'_, '_> {
    fn drop(&mut self) {
        if let Some(outer) = self.0 {
            outer.core.set(self.1.core.take());
        }
    }
}

impl Runtime {
    /// Runs a future on the calling thread, and what it spawns meanwhile, until the future is ready. Within a task of
    /// this runtime it runs that future alone, and another thread takes the worker's place if the future waits.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let pool = &*self.pool;
        let root = std::sync::Arc::new(Root { woken: AtomicBool::new(true), thread: current() });
        let waker = Waker::from(std::sync::Arc::clone(&root));
        let outer = Place::within(pool, |place| place.polls);
        let place = Place::new(outer.map_or(self.outside(), |outer| outer.home.get()), true);
        place.enter(|| {
            let _lent = Lent(outer, &place);
            place.core.set(outer.and_then(|outer| outer.core.take()));
            let mut future = pin!(future);
            loop {
                if outer.is_none()
                    && pool.settings.takes_core
                    && let Some(core) = pool.take_place()
                {
                    place.home.set(&self.parts.homes[core.home.worker]);
                    place.sit(core);
                }
                let polled = match outer {
                    None => root.attend(future.as_mut(), &waker, &place),
                    Some(_) => root.poll(future.as_mut(), &waker, &place),
                };
                if let Poll::Ready(output) = polled {
                    return output;
                }
                if place.core().is_some_and(|core| core.seat == OWN) {
                    let home = place.home.get();
                    *pool.workers[home.worker].own.lock().unwrap() = Substitute::may_be_needed(home);
                }
                place.leave();
                root.wait(outer.map(|outer| &**outer.home.get()));
            }
        })
    }
}

// %% [markdown]
// From outside, tasks and calls are spawned by methods of the runtime.

// %%
impl Runtime {
    /// Starts a task; dropping the handle lets it run on.
    pub fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        spawn_at(self.outside(), future)
    }

    /// Makes a call that may block, on a thread that is meant for it.
    pub fn spawn_blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        spawn_blocking_at(self.outside(), call)
    }
}

// %% [markdown]
// ## The end
//
// First the workers end, so that no task is polled any more, and the timers. A worker may be in a poll that waits for what
// only the end of another task brings; if it does not end soon, the others are ended meanwhile. Then every task is in a
// queue, or it sleeps and its home has noted it, or a waker outside has just claimed it and is about to queue it; so this is
// repeated until nothing is left. Blocking calls that are under way are waited for meanwhile: they may spawn tasks, and may
// well wait for what only the end of one brings. Wakers and handles that outlive the runtime find their tasks done.
//
// If it is one of its own tasks that drops the runtime, or a call, the thread cannot wait for its own end. Then the
// thread that watches does all that.

// %%
impl Drop for Runtime {
    fn drop(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        let inside = Place::within(&self.pool, |_| true).is_some();
        let mine = if inside {
            *self.pool.left.lock().unwrap() = Some(parts);
            None
        } else {
            Some(parts)
        };
        self.pool.closed.store(true, Ordering::Relaxed);
        (0..self.pool.workers.len()).for_each(|worker| self.pool.unpark(worker));
        self.pool.watch.get().into_iter().for_each(Thread::unpark);
        if let Some(parts) = mine {
            self.watch.take().into_iter().for_each(|watch| {
                watch.join().expect("it runs nothing that could panic");
            });
            parts.end(&self.pool);
        }
    }
}

// %% [markdown]
// The parts that end are the threads and the tasks.

// %%
impl Parts<Home> {
    /// Ends the threads and all tasks. What destructors spawn meanwhile is cancelled, too, as part of this runtime.
    fn end(mut self, pool: &Pool) {
        let threads = std::mem::take(&mut self.threads);
        let outside = self.homes.last().expect("a runtime has homes");
        let place = Place { ends: true, ..Place::new(outside, false) };
        place.enter(|| self.end_all(threads, pool));
        for remote in &pool.workers {
            // A core and a thread that is away know their pool, which would keep both for ever.
            *remote.own.lock().unwrap() = Own::Coming;
            remote.seats.iter().for_each(|seat| drop(seat.held.lock().unwrap().core.take()));
        }
    }

    fn end_all(&self, threads: Vec<Handle<()>>, pool: &Pool) {
        let mut patience = 0..100;
        let works = || !cfg!(under_loom) && pool.working.load(Ordering::Acquire) > 0;
        while works() || !threads.iter().all(is_finished) {
            if patience.next().is_some() {
                yield_now();
            } else {
                self.cancel_tasks(pool);
                // For roots within tasks, whose worker's thread is gone.
                pool.workers.iter().for_each(|worker| worker.timers.fire());
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        for thread in threads {
            // A thread that was away may be past its work, in a thread-local's destructor that ends the runtime.
            if !is_current(&thread) {
                thread.join().expect("workers catch the panics of their tasks");
            }
        }
        #[cfg(under_loom)]
        while let Some(thread) = { pool.substitutes.lock().unwrap().pop() } {
            thread.join().unwrap();
        }
        pool.workers.iter().for_each(|worker| worker.timers.close());
        pool.blocking.close().into_iter().for_each(Task::cancel);
        loop {
            self.cancel_tasks(pool);
            let none_asleep = || self.homes.iter().all(|home| home.asleep.lock().unwrap().is_none());
            if pool.blocking.wait() && !pool.has_waiting() && none_asleep() {
                break;
            }
            yield_now();
        }
    }

    /// Ends all tasks that no thread polls.
    fn cancel_tasks(&self, pool: &Pool) {
        while let Some(task) = pool.take_waiting() {
            task.cancel();
        }
        for home in &self.homes {
            // Those that were claimed are freed by this thread alone, and before that they are noted here.
            home.claim_all().into_iter().for_each(Task::cancel);
        }
    }
}

// %% [markdown]
// A task that is to be polled is in the injector, in a deque, or in the slot of a worker that is in a poll.

// %%
impl Pool {
    /// A task of a queue.
    fn take_waiting(&self) -> Option<Task> {
        if let Some(task) = self.seats().find_map(|seat| seat.open.take_next()) {
            return Some(task);
        }
        self.take_injected().or_else(|| self.seats().find_map(|seat| seat.stealer.steal(1, |_| {})).map(Task))
    }

    /// A task of the injector.
    fn take_injected(&self) -> Option<Task> {
        loop {
            match self.injector.steal() {
                Steal::Success(task) => return Some(task),
                Steal::Retry => {}
                Steal::Empty => return None,
            }
        }
    }
}

// %% [markdown]
// That is all of it.
//
// ## What is promised
//
// Your destructors may do what your other code may, whenever they run, in chains of any length. No thread waits for work
// that only that thread could do. A task and a handle keep their runtime wherever they are moved. Threads end, and memory
// is freed, with their owner. Type by type, and the test of each promise:
//
// | of | promise | test |
// |---|---|---|
// | `Runtime::block_on` | The future's destructor finds this runtime, also after a panic. | `a_root_spawns_when_it_is_dropped_also_after_a_panic` |
// | `Runtime::block_on` | Roots within one another each spawn on their own runtime. | `what_a_root_spawns_when_it_is_dropped_belongs_to_its_own_runtime` |
// | `Runtime::block_on` | It runs only what its root, or a task that it runs, has spawned or woken. | `a_caller_runs_no_task_from_elsewhere` |
// | `Runtime::block_on` | *Limit:* the root waits for polls of these, of 61 at the most, unless it takes no core. | `a_root_waits_for_a_poll_of_what_it_has_spawned_unless_it_takes_no_core` |
// | `Runtime::block_on` | A root that was woken has its turn, although its tasks never end; it is not polled after each of them. | `a_root_has_its_turn_beside_tasks_that_never_end`, `a_root_that_joins_a_thousand_tasks_is_not_polled_for_each` |
// | `Runtime::block_on` | Within tasks, thousands at once need no more stack than one. | `thousands_of_tasks_may_call_block_on_at_once` |
// | `Runtime::block_on` | Within a task, it waits for no other task than its future does. | `a_task_in_block_on_does_not_wait_for_the_one_that_waits_for_it` |
// | `Runtime::block_on` | A root may block its thread, whatever it waits for. | `a_root_may_block_on_tasks_that_wake_one_another` |
// | `Runtime::block_on` | A panic of the root is the caller's, and leaves the runtime in order. | `a_panic_of_the_root_leaves_the_runtime_in_order` |
// | `Runtime::block_on` | A value of a thread that ends may call it. | `a_value_of_a_thread_uses_a_runtime_when_the_thread_ends` |
// | `Runtime::spawn` | A task from outside is run, although more tasks than a deque has room for never end. | `a_task_from_outside_has_its_turn_beside_more_than_a_deque_has_room_for` |
// | `Runtime::spawn` | What it starts is awaited on any runtime, or none. | `a_task_from_outside_can_be_waited_for_from_anywhere` |
// | `Runtime::spawn` | Tasks that spawn or wake one another for ever keep no other waiting. | `a_task_that_spawns_its_successor_for_ever_keeps_no_other_waiting`, `two_tasks_that_wake_each_other_for_ever_keep_no_other_waiting` |
// | `Runtime::spawn` | *Limit:* while the tasks of all workers block their threads, no other task runs. | `while_the_tasks_of_all_workers_block_no_other_task_runs` |
// | `Runtime::spawn_blocking` | Up to 512 calls block at once, and may spawn; *limit:* the next one waits for one of them to end. | `all_blocking_calls_block_at_once`, `of_a_burst_nothing_is_kept_while_the_runtime_lives`, `a_blocking_call_may_spawn` |
// | `Runtime::spawn_blocking` | Calls that have not begun are dropped with the runtime. | `blocking_calls_that_have_not_begun_are_dropped_with_the_runtime` |
// | `Runtime::spawn_blocking` | A call that gets no thread is cancelled, and disturbs no other. | `a_call_that_gets_no_thread_is_reported_and_disturbs_no_other` |
// | `Runtime`, its end | Every task and every future is dropped once. | `dropping_the_runtime_drops_every_task_exactly_once` |
// | `Runtime`, its end | What polls and calls under way wait for is ended meanwhile. | `a_poll_may_wait_for_what_the_end_of_another_task_brings` |
// | `Runtime`, its end | *Limit:* what destructors spawn meanwhile is not run, and its handle says so. | `what_a_destructor_spawns_at_the_end_is_cancelled_and_its_handle_says_so` |
// | `Runtime`, its end | Its own tasks may drop it. | `a_task_that_drops_its_own_runtime_ends_it` |
// | `Runtime`, its end | A thread-local of one of its threads may drop it. | `a_thread_local_of_a_thread_of_the_runtime_drops_it` |
// | `Runtime`, its end | *Limit:* destructors of thread-locals of a thread for calls may run afterwards. | `thread_locals_of_threads_for_calls_may_outlive_the_runtime` |
// | `Runtime`, its end | *Limit:* an output that holds its own handle is never dropped. | `an_output_that_holds_its_own_handle_is_never_dropped` |
// | `Runtime`, its end | No thread is left, also where the system refuses one to `new`, and after random programs. | `a_runtime_that_gets_too_few_threads_leaves_none`, `random_programs_end_and_every_future_is_dropped_once` |
// | `Runtime`, memory | Of a burst of tasks, sleeps or calls nothing is kept. | `of_a_burst_nothing_is_kept_while_the_runtime_lives` |
// | `spawn`, `spawn_blocking`, `sleep` | *Limit:* on a thread that belongs to no runtime they panic, a sleep when it has to wait. | `on_a_thread_without_a_runtime_nothing_is_spawned_and_no_sleep_waits` |
// | `JoinHandle` | Dropped before the end, it lets the task run on. | `a_dropped_handle_lets_the_task_run_on` |
// | `JoinHandle` | Dropped, it drops the output there and then, whose destructor may wait for others of its kind. | `an_output_waits_for_the_end_of_another_when_it_is_dropped` |
// | `JoinHandle` | That destructor may block on the runtime. | `an_output_blocks_on_its_runtime_when_it_is_dropped` |
// | `JoinHandle` | A chain of handles, outputs and payloads of any length is dropped. | `no_depth_of_destructors_uses_up_the_stack`, `a_long_chain_of_outputs_that_hold_handles_is_dropped` |
// | `JoinHandle`, `Runtime` | *Limit:* of outputs and cancelled tasks, 64 are dropped within one another, as far as the stack has room for them; what hangs on the last is dropped after it, so a destructor there that waits for it waits for ever. | `what_hangs_on_the_64th_output_is_dropped_after_it` |
// | `JoinHandle`, `JoinError` | A panic of a poll, a destructor or a payload is its own, and ends no thread. | `whatever_panics_ends_its_task_and_no_thread` |
// | wakers of a task | They may outlive the runtime. Forgotten wakers are counted: on 32 bits, too many end the process. | `a_waker_may_outlive_the_runtime`, `wakers_that_are_forgotten_end_the_process_and_no_task` |
// | wakers of another executor | One that panics ends no thread. | `a_waker_that_panics_ends_no_thread` |
// | `Sleep` | It goes over to another runtime when its own is gone. | `a_sleep_goes_over_to_another_runtime_when_its_own_is_gone` |
// | `Sleep` | *Limit:* in a destructor that the end of its runtime runs, it panics if it has to wait. | `a_sleep_at_the_end_of_its_runtime_does_not_wait` |
// | `Sleep` | Dropped or moved, it leaves nothing. | `a_sleep_that_was_moved_is_forgotten_when_it_is_dropped` |
// | `Sleep` | It is woken although its worker blocks while another is free, or searches. | `a_timer_fires_although_its_worker_is_blocked`, `timers_fire_although_their_worker_searches` |
// | `Timeout` | A duration of zero is over at once; `Duration::MAX` never is. | `a_duration_without_end_is_far_away_and_none_is_over_at_once` |
// | `Timeout` | It ends with its future or its time, whichever comes first. | `a_timeout_is_what_comes_first` |
// | `Step` | No task does what the table of states does not have. | `tasks_do_what_the_table_of_their_states_has` |
// | `Settings` | Those that could run nothing are refused. | `settings_that_could_run_nothing_are_refused` |
//
// The protocols are tested under loom, in every order, and random programs do all of it at once.
//
// **A glance.** A future that is ready, a task that is spawned and joined, and a call on a thread for blocking calls,
// each from `block_on` with two workers. Change the settings and look again.

// %% tags=["active-ipynb", "glance"]
// {
//     let runtime = Runtime::new(Settings::new(2));
//     harness::Glance::at("block_on")
//         .look("ready", |bencher| bencher.iter(&mut || runtime.block_on(async {})))
//         .look("spawn and join", |bencher| {
//             bencher.iter(&mut || runtime.block_on(async { spawn(async {}).await.expect("it does not panic") }));
//         })
//         .look("spawn_blocking", |bencher| {
//             bencher.iter(&mut || runtime.block_on(async { spawn_blocking(|| ()).await.expect("it does not panic") }));
//         })
//         .show()
// }

// %% [markdown]
// # What do four decisions cost or save?
//
// One decision at a time can be undone:
//
// - `not seated` (`takes_core: false`): the caller of `block_on` polls its future where it is, as in tokio, and takes no core.
// - `no LIFO slot`: a task that is woken goes to the back of the deque.
// - `no looks`: a worker without work looks around once, and rests.
// - `all awake`: as many workers are awake as there are, whatever the number of processors.
//
// The workloads are chosen so that each decision has one that should care, and one that should not.
//
// - `spawn_and_join`: the root spawns 1000 tasks and joins them. Nothing is woken but the root.
// - `one_task`: the root spawns a single task, and waits for it: the shortest way there and back.
// - `relay`: 100 pairs of tasks wake one another, 20 times each.
// - `from_outside`: another thread spawns 1000 tasks, and waits for the last.
// - `blocking`: a task makes a call on a thread for blocking calls and waits for it, 20 times.
//
// Two numbers of workers: as many as there are processors, and four times as many.

// %%
/// What was done in one iteration.
#[derive(Default)]
struct Done {
    spawned: AtomicUsize,
    ended: AtomicUsize,
    woken: AtomicUsize,
}

impl Done {
    fn add(count: &AtomicUsize) {
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A workload: one iteration on a runtime.
type Workload = fn(&Runtime, &Arc<Done>);

/// Tasks of `spawn_and_join` and `from_outside`.
const TASKS: usize = 1000;
/// Pairs of `relay`, and how often each of a pair wakes the other.
const PAIRS: usize = 100;
const TURNS: usize = 20;

// %% [markdown]
// The first two workloads are spawns and joins.

// %%
/// A task that counts its end.
async fn ending(done: Arc<Done>) {
    Done::add(&done.ended);
}

/// Collects all handles, and so starts their tasks; then waits for them in order.
async fn join(handles: impl Iterator<Item = JoinHandle<()>>) {
    let handles: Vec<_> = handles.collect();
    for handle in handles {
        handle.await.expect("it does not panic");
    }
}

/// Spawns so many tasks, and joins them in order.
async fn spawn_and_join(tasks: usize, done: &Arc<Done>) {
    let task = |_| {
        Done::add(&done.spawned);
        spawn(ending(Arc::clone(done)))
    };
    join((0..tasks).map(task)).await;
}

// %% [markdown]
// The two that do not begin with a spawn of the root:

// %%
fn from_outside(runtime: &Runtime, done: &Arc<Done>) {
    let (last, wait) = std::sync::mpsc::sync_channel(1);
    let left = Arc::new(AtomicUsize::new(TASKS));
    for _ in 0..TASKS {
        Done::add(&done.spawned);
        let (done, last, left) = (Arc::clone(done), last.clone(), Arc::clone(&left));
        drop(runtime.spawn(async move {
            ending(done).await;
            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                last.send(()).expect("the outside thread waits");
            }
        }));
    }
    wait.recv().expect("the last task reports");
}

fn blocking(runtime: &Runtime, done: &Arc<Done>) {
    let done = Arc::clone(done);
    let task = async move {
        for _ in 0..TURNS {
            Done::add(&done.spawned);
            let call = Arc::clone(&done);
            spawn_blocking(move || Done::add(&call.ended)).await.expect("it does not panic");
        }
    };
    runtime.block_on(async { spawn(task).await.expect("it does not panic") });
}

// %% [markdown]
// The pairs of `relay` pass a baton: the task that has it hands it over and waits until it is back.

// %%
/// Whose turn it is among two, and the waker of the other.
#[derive(Default)]
struct Baton(std::sync::Mutex<(usize, Option<Waker>)>);

impl Baton {
    /// Waits for player `mine`'s turn, and hands over.
    async fn play(&self, mine: usize) {
        std::future::poll_fn(|context| {
            let mut state = self.0.lock().unwrap();
            if state.0 % 2 != mine {
                state.1 = Some(context.waker().clone());
                return Poll::Pending;
            }
            state.0 += 1;
            let other = state.1.take();
            drop(state);
            other.into_iter().for_each(Waker::wake);
            Poll::Ready(())
        })
        .await;
    }
}

// %% [markdown]
// Each of a pair is a task.

// %%
fn relay(runtime: &Runtime, done: &Arc<Done>) {
    runtime.block_on(async {
        let mut handles = Vec::with_capacity(2 * PAIRS);
        for _ in 0..PAIRS {
            let baton = std::sync::Arc::new(Baton::default());
            handles.extend([0, 1].map(|mine| {
                Done::add(&done.spawned);
                let (done, baton) = (Arc::clone(done), std::sync::Arc::clone(&baton));
                spawn(async move {
                    for _ in 0..TURNS {
                        baton.play(mine).await;
                        Done::add(&done.woken);
                    }
                    Done::add(&done.ended);
                })
            }));
        }
        join(handles.into_iter()).await;
    });
}

// %% [markdown]
// ## Proof of equal work, and the study
//
// What each workload must do, and the settings of each variant.

// %%
/// Name, code, and what one iteration must count: spawns, ends, turns.
const WORKLOADS: [(&str, Workload, [usize; 3]); 5] = [
    ("spawn_and_join", |runtime, done| runtime.block_on(spawn_and_join(TASKS, done)), [TASKS, TASKS, 0]),
    ("one_task", |runtime, done| runtime.block_on(spawn_and_join(1, done)), [1, 1, 0]),
    ("relay", relay, [2 * PAIRS, 2 * PAIRS, 2 * PAIRS * TURNS]),
    ("from_outside", from_outside, [TASKS, TASKS, 0]),
    ("blocking", blocking, [TURNS, TURNS, 0]),
];

/// All decisions, and all but one, by their names in the data. What changes without it is said in a few words.
pub fn decisions(workers: usize) -> [(&'static str, &'static str, Settings); 5] {
    let all = Settings::new(workers);
    [
        (ALL, "", all),
        ("not seated", "who calls `block_on` polls its future there", Settings { takes_core: false, ..all }),
        ("no LIFO slot", "a woken task goes to the back of the deque", Settings { lifo: false, ..all }),
        ("no looks", "a worker without work looks around once", Settings { searches: 0, ..all }),
        ("all awake", "all workers are awake", Settings { awake: workers, ..all }),
    ]
}

/// The executor as it stands above.
const ALL: &str = "ours";

// %% [markdown]
// Two iterations of each must do exactly that, in a process of their own.

// %%
/// How long a trial may take before it counts as hanging.
const LIMIT: Duration = Duration::from_secs(30);

/// The counts of one iteration of a workload, proven twice in a process of its own.
fn prove(
    key: &Key,
    settings: Settings,
    workload: Workload,
    counts: [usize; 3],
) -> Result<BTreeMap<String, u64>, UnequalWork> {
    let named = |counts: [usize; 3]| -> Counts {
        ["spawns", "ends", "turns"].into_iter().zip(counts.map(|count| count as u64)).collect()
    };
    harness::prove_isolated(key, LIMIT, &named(counts), || {
        let runtime = Runtime::new(settings);
        [(), ()].map(|()| {
            let done = Arc::new(Done::default());
            workload(&runtime, &done);
            named([&done.spawned, &done.ended, &done.woken].map(|count| count.load(Ordering::SeqCst)))
        })
    })
}

// %% [markdown]
// The study puts both together. A variant whose proof fails is left out, and named.

// %%
/// Every workload with all decisions, and with all but one, which is compared with all.
#[inline]
pub fn study() -> Study {
    let mut study = Study::new("runtimes-executor").baseline(ALL);
    study = study.rounds(2, 24).isolated(LIMIT).resources().instructions(false);
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    for (workers, parameter) in [(processors, "workers=cores"), (4 * processors, "workers=4*cores")] {
        for (bench, workload, counts) in WORKLOADS {
            study = study.group(format!("{bench}, {parameter}"), 0.05);
            for (variant, change, settings) in decisions(workers) {
                if variant == "all awake" && workers == processors {
                    continue;
                }
                let key = Key::new(bench, variant, parameter);
                let proof = prove(&key, settings, workload, counts);
                study = study.counts(&key, proof.clone().unwrap_or_default());
                study = study.count(key.clone(), "workers", workers as u64);
                if variant != ALL {
                    study = study.compare(key.clone(), Key::new(bench, ALL, parameter), change);
                }
                study = study.proven(key, proof, move |bencher: &mut Bencher| {
                    let (runtime, done) = (Runtime::new(settings), Arc::new(Done::default()));
                    bencher.iter(&mut || workload(&runtime, &done));
                    // The process ends with the trial, and the runtime with it.
                    std::mem::forget(runtime);
                });
            }
            study = study.control_of(Key::new(bench, ALL, parameter));
        }
    }
    study
}

// %% [markdown]
// What the executor as it stands does in one iteration:

// %% tags=["active-ipynb"]
// for (bench, workload, counts) in WORKLOADS {
//     let key = Key::new(bench, ALL, "workers=2");
//     let counts = prove(&key, Settings::new(2), workload, counts).unwrap_or_else(harness::stop);
//     println!("{bench:<15} {counts:?}");
// }

// %% [markdown]
// # A glance
//
// A workload without each of the decisions, in turns, a second each: its time, and how many times that of the first.
// Nothing is kept, and nothing is concluded. First spawns and joins:

// %% tags=["active-ipynb", "glance"]
// study().glance(|key| {
//     key.bench == "spawn_and_join" && key.parameter == "workers=cores"
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// Then tasks that wake one another. Choose another workload and run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().glance(|key| {
//     key.bench == "relay" && key.parameter == "workers=cores"
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// `quick` takes less than half a minute and is not evidence; for evidence, set `ASYNC_COST_PROFILE` to `standard` or
// `thorough` before you start the kernel.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) reads this together with the comparison with the other runtimes.
//
// # What this executor does not do
//
// - It reads no sockets: there is no reactor, and a worker never polls the operating system.
// - A task cannot be aborted by its handle, only by the end of the runtime.
// - Unlike in tokio, tasks have no ids and no budget after which they let others run, and there are no metrics.
// - A root, a caller of `block_on` or a task that blocks its thread is noticed after ten to twenty milliseconds; only then
//   is what it holds run by others, and one more worker awake. It is better off with `spawn_blocking`.
// - While the tasks of all workers block, no other task runs: no thread is left. (tokio's and nio's do the same.)
// - `block_on` within a task of the same runtime takes a thread of those for calls that block, if its worker is needed
//   meanwhile. While all 512 are taken, the worker has no thread, and its tasks wait. (tokio refuses the call.)
// - A root waits for polls of what it has spawned or woken, of up to 61 tasks, on its thread and its stack. With `takes_core: false` it
//   does not, and each spawn wakes a worker.
// - A timer is seen to by the thread in the worker's place. Between two polls that take long, it may come as late.
// - An output that is dropped within 63 others is dropped before the outputs of the handles that it holds. The chains that
//   a future of your own makes of boxes need a stack of their own.
// - What a destructor spawns while the runtime ends is not run, and its handle says so. A destructor that then waits for
//   another task to end may wait for ever: tasks are ended one after the other.
