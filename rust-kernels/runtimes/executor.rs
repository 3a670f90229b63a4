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
// Here it is: a work-stealing executor on the deques of crossbeam, with join handles,
// timers, a pool for blocking calls and a shutdown that drops every task exactly once. At the end four of its
// decisions are undone, one at a time, and measured.
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
// :dep slab = "=0.4.12"
// :dep sync = { path = "../../rust-kernels/sync" }

// %% [markdown]
// The executor uses the standard library, the deques of crossbeam, a slab, and `idle`, of which more below.

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
use slab::Slab;

// %% [markdown]
// Threads meet in few places, and for those a run without trouble proves little. So whatever several threads touch
// comes from the crate `sync`, which can turn it over to [loom](https://docs.rs/loom): it then runs a test in every
// order in which threads can meet. crossbeam's deques do not know loom; its stand-in has queues whose growth is seen
// late, for what is to be proven is the executor around them.

// %%
/// A stand-in for crossbeam's deques, which do not know loom.
#[cfg(under_loom)]
#[path = "executor/loom_model.rs"]
mod model;

/// The deques, in a module because evcxr does not see the cfg of a `use`.
mod deques {
    #[cfg(not(under_loom))]
    pub use crossbeam_deque::{Injector, Steal, Stealer, Worker};

    #[cfg(under_loom)]
    pub use super::model::{Injector, Steal, Stealer, Worker};
}

use self::deques::{Injector, Steal, Stealer, Worker as Deque};
use sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use sync::cell::Shared;
use sync::thread::{
    JoinHandle as Handle, Thread, current, is_finished, park, park_timeout, start, yield_now,
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
    /// How many there are. Written under the lock of the entries; whoever has to know of another thread's is unparked
    /// by it.
    armed: std::sync::atomic::AtomicUsize,
    entries: std::sync::Mutex<Entries>,
}

#[derive(Default)]
struct Entries {
    /// By deadline, and by a number that tells those of one deadline apart.
    wakers: BTreeMap<(Instant, usize), Waker>,
    /// The last of these numbers.
    last: usize,
    /// Nobody fires them any more.
    closed: bool,
}

// %% [markdown]
// A waker may be foreign code: if it panics, that affects only the future that waits with it.

// %%
/// Wakes whoever it is, and whatever that does.
fn wake_shielded(waker: Waker) {
    shielded(|| waker.wake());
}

/// Drops a waker that is no longer needed, and whatever that does.
fn let_go(waker: Option<Waker>) {
    if waker.is_some() {
        shielded(|| drop(waker));
    }
}

// %% [markdown]
// Firing timers wakes tasks, which may set and drop timers; so nothing is woken or dropped under the lock. Most
// workers have no timers most of the time, and find that out without a lock.

// %%
impl Timers {
    /// Wakes whoever's time has come.
    fn fire(&self) {
        if self.armed.load(Ordering::Relaxed) == 0 {
            return;
        }
        let due: Vec<Waker> = {
            let mut entries = self.entries.lock().unwrap();
            let later = entries.wakers.split_off(&(Instant::now(), usize::MAX));
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
    /// worker has, and whether it was added. `None` when nobody fires them any more.
    fn set(&self, deadline: Instant, number: Option<usize>, waker: &Waker) -> Option<(usize, bool)> {
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
        let_go(former);
        Some((number, added))
    }

    fn remove(&self, deadline: Instant, number: usize) {
        let mut entries = self.entries.lock().unwrap();
        let removed = entries.wakers.remove(&(deadline, number));
        self.armed.store(entries.wakers.len(), Ordering::Relaxed);
        // The waker last: it may hold the last reference to a task, which may hold a sleep.
        drop(entries);
        let_go(removed);
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
// there. *Running* means that a thread polls it. While either is set, a wake has no more to do than to set *scheduled*.
// The rest of the number counts references: one for the executor until the task is done, one for the join handle, one
// for each waker.

// %%
/// In a queue, or on the way into one.
const SCHEDULED: usize = 1;
/// Being polled; or in a queue since a poll that was woken meanwhile.
const RUNNING: usize = 2;
/// The output is there, or was taken, or will not come.
const DONE: usize = 4;
/// There is a join handle.
const JOINED: usize = 8;
/// The header holds the waker of whoever awaits the join handle.
const AWAITED: usize = 16;
/// One reference.
const REFERENCE: usize = 32;

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
// woken for each call. tokio polls it where it is, on a thread that belongs to no worker: what it spawns goes through
// the shared queue, and a worker has to be woken for it. Here **the caller takes the place of a worker that rests**. Its
// future spawns into a deque of that worker, and runs these tasks itself while it waits. No other thread needs to be
// woken. When it is done, or has nothing left to run, it gives the place back. If no worker rests, the caller asks: a
// worker that is busy lets it have its place after the task that it runs.
//
// What if that future blocks its thread, on a channel say, until one of its tasks has run? tokio's may do so, and so may
// this one. So each worker has a second core, for a caller in its place: if that caller does not get on, the worker's own
// thread can come back and run what it has left, as we shall see.

// %%
/// How a runtime is set up. The switches exist to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Worker threads, 1 to 65,535: so many tasks run at once, at the most, unless callers of `block_on` run some, too.
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
// First what threads see of one another: of a worker, of its cores, and of a caller of `block_on`. What a core and a task
// are comes right after, since they refer to all of this: `C`, `T` and the head `H` of a task stand for them here.

// %%
/// A worker, as other threads see it.
struct RemoteOf<S> {
    /// For its own thread, and for a caller of `block_on` in its place.
    seats: [S; 2],
    /// The worker's own thread, and whether it has to come.
    thread: OnceLock<Thread>,
    called: AtomicBool,
    timers: Timers,
}

/// A core, as other threads see it.
struct SeatOf<C, T, H> {
    held: Mutex<HeldOf<C>>,
    stealer: Stealer<T>,
    open: Arc<OpenOf<H>>,
}

/// A core, unless somebody has it.
struct HeldOf<C> {
    core: Option<Box<C>>,
    /// The worker is back in its place, although the caller still has this core.
    relieved: bool,
}

/// What others may see of a core, and take, while somebody has it.
struct OpenOf<H> {
    /// The LIFO slot; null if it is empty. Only who has the core puts a task there.
    next: AtomicPtr<H>,
    /// How often a task was searched for, or a root polled; and how often when somebody watched.
    polls: std::sync::atomic::AtomicUsize,
    watched: std::sync::atomic::AtomicUsize,
}

/// The seats of a worker: its own, and that of a caller.
const OWN: usize = 0;
const CALLER: usize = 1;

/// A thread in `block_on`: whether its future was woken, and the core that it has asked for and was given.
struct RootOf<C> {
    woken: AtomicBool,
    given: Mutex<Option<Box<C>>>,
    thread: Thread,
}

// %% [markdown]
// Here is all of it at one glance. A task knows its home, a home its pool, the pool all workers, and a worker its cores,
// unless somebody has them. A core is for one thread at a time; what others see of it, whoever has it, is the other end of
// its deque, its LIFO slot, and how often it has polled. What others see of a worker is what tokio calls its `Remote`.

// %%
/// The executor's reference to a task. Whoever has it out of a queue may poll the task.
#[derive(Clone, Copy)]
struct Task(NonNull<Header>);

/// What all tasks have in common.
struct Header {
    state: AtomicUsize,
    code: &'static Code,
    /// Where the task was spawned, and stays while it sleeps; and where it is noted there, touched by whoever runs it.
    home: Arc<Home>,
    note: Shared<Option<usize>>,
    /// Whoever awaits the handle; written by the handle while `AWAITED` is not set.
    joiner: Shared<Option<Waker>>,
}

/// Where tasks come from: one for each worker, one for threads without a core, which has the number 0 as well.
struct Home {
    pool: Arc<Pool>,
    worker: usize,
    /// Tasks spawned here that sleep, or have slept before.
    asleep: Mutex<Slab<Task>>,
}

/// What all threads of a runtime share.
struct Pool {
    settings: Settings,
    /// Tasks from threads without a core.
    injector: Injector<Task>,
    workers: Box<[Remote]>,
    /// Workers whose place nobody has, and how many of the others look for work.
    idle: Idle,
    /// Callers of `block_on` that wait for a place, and how many they are.
    callers: Mutex<VecDeque<std::sync::Arc<Root>>>,
    wanted: AtomicUsize,
    closed: AtomicBool,
    blocking: Blocking<Task>,
    /// The thread that watches the workers, and what is left to it when the runtime is dropped by one of its own tasks.
    watch: OnceLock<Thread>,
    left: std::sync::Mutex<Option<Parts>>,
}

/// What a runtime has, besides its pool, until its end.
#[derive(Default)]
struct Parts {
    homes: Vec<Arc<Home>>,
    threads: Vec<Handle<()>>,
}

/// What a thread has for itself as a worker: tasks, and how many in a row came from the LIFO slot.
struct Core {
    home: Arc<Home>,
    /// Which of the worker's cores it is.
    seat: usize,
    deque: Deque<Task>,
    open: Arc<Open>,
    streak: Cell<u32>,
    /// When the task in the LIFO slot is to be run, if one is there.
    turn: Cell<Turn>,
}

type Open = OpenOf<Header>;
type Seat = SeatOf<Core, Task, Header>;
type Remote = RemoteOf<Seat>;
type Root = RootOf<Core>;

// %% [markdown]
// A task goes from thread to thread, with what it refers to.

// %%
// SAFETY: futures and outputs that are not `Send` cannot be spawned, and the header is made for several threads.
unsafe impl Send for Task {}

// %% [markdown]
// The slot belongs to whoever has the core, but a task in it must not wait for a poll that does not end. So whoever
// watches may take it out, and the slot is an atomic pointer. To find it empty, and to fill it then, takes no more than a
// load and a store: nobody else puts anything there.

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
    /// Wakes its own thread.
    fn unpark(&self) {
        // One that is not known has not begun: the runtime ends before all have.
        self.thread.get().into_iter().for_each(Thread::unpark);
    }

    /// Takes the core of this seat, unless somebody has it.
    fn take(&self, seat: usize) -> Option<Box<Core>> {
        self.seats[seat].held.lock().unwrap().core.take()
    }
}

impl Pool {
    /// Wakes the thread that watches if it sleeps. After a worker was named or taken.
    fn begin_watch(&self) {
        if self.idle.is_unwatched() {
            self.watch.get().into_iter().for_each(Thread::unpark);
        }
    }

    /// Has a worker's own thread come, if `idle` has named it.
    fn call(&self, named: Option<usize>) {
        let Some(worker) = named.map(|worker| &self.workers[worker]) else { return };
        worker.called.swap(true, Ordering::Relaxed);
        worker.unpark();
        self.begin_watch();
    }

    /// Calls a helper if a task waits anywhere. By whoever looked for work, or had a core, and does no longer:
    /// while it did, those who queued tasks called nobody.
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
    /// Takes the place of a worker that rests.
    fn take_place(&self) -> Option<Box<Core>> {
        let worker = self.idle.take()?;
        self.begin_watch();
        let core = self.workers[worker].take(CALLER);
        if core.is_none() {
            // A caller that was relieved still has it.
            self.leave_place(worker);
        }
        core
    }

    /// Gives a core up, and calls a helper if there is a task that nobody may have seen.
    fn leave_core(&self, core: Box<Core>) {
        let worker = core.home.worker;
        if self.put_back(core) {
            // Its place was taken back already. Those who queued tasks may have counted on this thread all the same.
            let named = if self.has_waiting() { self.idle.offer() } else { None };
            self.call(named);
            self.leave_timers(worker);
        } else {
            self.leave_place(worker);
        }
    }

    /// Puts a core back; whether it had been relieved. Its tasks go to the injector: threads that always have something
    /// to run look there, but steal from nobody.
    fn put_back(&self, core: Box<Core>) -> bool {
        let left = std::iter::from_fn(|| core.take_next().or_else(|| core.deque.pop()));
        left.for_each(|task| self.injector.push(task));
        let mut held = self.workers[core.home.worker].seats[core.seat].held.lock().unwrap();
        held.core = Some(core);
        std::mem::take(&mut held.relieved)
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
            self.workers[worker].unpark();
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
// worker looks after every task whether there is anything, which costs two loads, and takes its share to the
// *back* of its deque. No task overtakes another one, and none is left waiting.

// %%
/// Tasks from the LIFO slot, before it is the others' turn.
const STREAK: u32 = 3;
/// Tasks after which the timers are checked, as in tokio and nio.
const TIMERS: usize = 61;

impl Core {
    /// The next task, if there is one in the deque or in the injector.
    fn next(&self) -> Option<Task> {
        let pool = &self.home.pool;
        if self.count_poll().is_multiple_of(TIMERS) {
            self.timers().fire();
        }
        let fed = !pool.injector.is_empty();
        if fed {
            // Somebody else was faster, if it fails: there is another time.
            let _ = pool.injector.steal_batch(&self.deque);
            pool.call(pool.idle.hint());
        }
        match self.take_next() {
            // What came from outside was there before a task that is to be run after all others.
            Some(task) if self.streak.get() < STREAK && !(fed && self.turn.get() == Turn::Last) => {
                self.streak.set(self.streak.get() + 1);
                return Some(task);
            }
            Some(task) => self.deque.push(task),
            None => {}
        }
        self.streak.set(0);
        self.deque.pop().or_else(|| {
            self.timers().fire();
            self.take_next().or_else(|| self.deque.pop())
        })
    }

    fn timers(&self) -> &Timers {
        &self.home.pool.workers[self.home.worker].timers
    }

    /// Another poll begins; how many there were. (Nobody else counts here.)
    fn count_poll(&self) -> usize {
        let polls = self.open.polls.load(Ordering::Relaxed).wrapping_add(1);
        self.open.polls.store(polls, Ordering::Relaxed);
        polls
    }
}

// %% [markdown]
// A task that goes behind others is a reason to call a helper; one that is alone will be run by this worker in a
// moment.

// %%
impl Core {
    /// Puts a task where it will be run, and calls a helper if more tasks wait than one.
    fn push(&self, task: Task, turn: Turn) {
        let first = self.next_is_empty() && self.deque.is_empty();
        let behind = match turn {
            _ if !self.home.pool.settings.lifo => Some(task),
            Turn::Next => self.put_next(task, turn),
            // Alone, it overtakes nobody in the slot, and need not go through the deque.
            Turn::Last if first => self.put_next(task, turn),
            Turn::Last => Some(task),
        };
        if let Some(task) = behind {
            self.deque.push(task);
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
/// Where a thread is while it runs tasks.
struct Place<'a> {
    home: &'a Arc<Home>,
    /// Its core, if it has one.
    core: Option<&'a Core>,
    /// Where it was before: a task may call `block_on`.
    outer: Cell<*const Place<'static>>,
}

/// Calls `work` with the thread's pointer to its place; null where it has none.
fn with_place<R>(work: impl FnOnce(&Cell<*const Place<'static>>) -> R) -> R {
    sync::thread_local! {
        static PLACE: Cell<*const Place<'static>> = Cell::new(ptr::null());
    }
    PLACE.with(work)
}

impl<'a> Place<'a> {
    fn new(home: &'a Arc<Home>, core: Option<&'a Core>) -> Self {
        Self { home, core, outer: Cell::new(ptr::null()) }
    }

    /// Calls `work` with this as the thread's place.
    fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Puts the former place back, also when the root panics.
        struct Leave(*const Place<'static>);
        impl Drop for Leave {
            fn drop(&mut self) {
                with_place(|place| place.set(self.0));
            }
        }
        let outer = with_place(|place| place.replace(ptr::from_ref(self).cast()));
        let _leave = Leave(outer);
        self.outer.set(outer);
        work()
    }

    /// Calls `work` with the thread's place, if it has one.
    fn here<R>(work: impl FnOnce(Option<&Place<'_>>) -> R) -> R {
        // SAFETY: `enter` borrows what it sets until it has put the former one back.
        with_place(|place| work(unsafe { place.get().as_ref() }))
    }

    /// Calls `work` with each place of the thread in this pool, the latest first, until there is an answer.
    fn within<R>(pool: &Pool, work: impl Fn(&Place<'_>) -> Option<R>) -> Option<R> {
        Self::here(|mut place| {
            while let Some(here) = place {
                if ptr::eq(&*here.home.pool, pool)
                    && let Some(answer) = work(here)
                {
                    return Some(answer);
                }
                // SAFETY: as above; those before it are left later.
                place = unsafe { here.outer.get().as_ref() };
            }
            None
        })
    }
}

// %% [markdown]
// That decides where a task goes that can run: to the core of this thread, or, from anywhere else, through the
// injector.

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
        before & (SCHEDULED | RUNNING | DONE) == 0
    }

    /// Puts it in a queue. For whoever has spawned or claimed it, or polled it last.
    fn schedule(self, turn: Turn) {
        Place::here(|place| {
            let pool = ptr::from_ref(&*self.header().home.pool);
            match place.and_then(|place| place.core) {
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
// A wake sets *scheduled*. Whoever finds that the task slept has to put it in a queue, and has the executor's
// reference for it.

// %%
/// Gives a reference back.
fn release(task: NonNull<Header>) {
    // SAFETY: the caller's reference keeps it alive.
    let header = unsafe { task.as_ref() };
    if header.state.fetch_sub(REFERENCE, Ordering::Release) / REFERENCE == 1 {
        // What others did with the task comes before its end. (A load, where a fence would do: loom and sanitizers
        // see it.)
        header.state.load(Ordering::Acquire);
        // SAFETY: it was the last one.
        unsafe { (header.code.free)(task.as_ptr().cast()) };
    }
}

const WAKER: RawWakerVTable = RawWakerVTable::new(clone_waker, wake, wake_by_ref, drop_waker);

/// # Safety
/// All four want the pointer of a waker of [`Task::run`].
unsafe fn clone_waker(task: *const ()) -> RawWaker {
    // SAFETY: the waker keeps it alive.
    unsafe { &*task.cast::<Header>() }.state.fetch_add(REFERENCE, Ordering::Relaxed);
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
    release(unsafe { NonNull::new_unchecked(task.cast_mut().cast()) });
}

// %% [markdown]
// An output may hold a join handle, of a task whose output holds another, and so on, a hundred thousand of them. Were
// each dropped within the drop of the one before, the stack would not do. So a handle that is dropped while an output is
// dropped waits until that is over.

// %%
/// Handles of tasks whose outputs are still to be dropped.
type Postponed = Vec<NonNull<Header>>;

/// Calls `work` with the thread's pointer to what is postponed; null while nothing has to be.
fn with_postponed<R>(work: impl FnOnce(&Cell<*mut Postponed>) -> R) -> R {
    sync::thread_local! {
        static POSTPONED: Cell<*mut Postponed> = Cell::new(ptr::null_mut());
    }
    POSTPONED.with(work)
}

/// Drops an output, and then those that hang on it, one after the other. `work` does not panic.
fn one_by_one(work: impl FnOnce()) {
    let mut all = Postponed::new();
    let first = with_postponed(|postponed| {
        let first = postponed.get().is_null();
        if first {
            postponed.set(&raw mut all);
        }
        first
    });
    work();
    if first {
        let next = || {
            // SAFETY: it points to `all`, which nobody else uses meanwhile.
            with_postponed(|postponed| unsafe { (*postponed.get()).pop() })
        };
        while let Some(task) = next() {
            discard(task);
        }
        with_postponed(|postponed| postponed.set(ptr::null_mut()));
    }
}

/// Drops the output of a task that is done, for its handle, which is gone.
fn discard(task: NonNull<Header>) {
    // SAFETY: the handle's reference keeps it alive; the task is done, and only the handle takes.
    unsafe { (task.as_ref().code.take)(task.as_ptr().cast(), ptr::null_mut()) };
    release(task);
}

/// The same, after the output that is being dropped, if one is.
fn discard_later(task: NonNull<Header>) {
    with_postponed(|postponed| {
        // SAFETY: `one_by_one` takes it back before the list ends.
        match unsafe { postponed.get().as_mut() } {
            Some(all) => all.push(task),
            None => discard(task),
        }
    });
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
    /// As [`Self::of`], and nobody else polls, cancels or takes.
    unsafe fn poll(cell: *const (), context: &mut Context<'_>) -> bool {
        // SAFETY: the caller's promise.
        let cell = unsafe { Self::of(cell) };
        let polled = cell.stage.with_mut(|stage| {
            // SAFETY: nobody else is there.
            let Stage::Future(future) = (unsafe { &mut *stage }) else {
                unreachable!("a task is polled after its end")
            };
            /// Drops the future if its poll panics.
            struct Panicked<F: Future>(*mut Stage<F>);
            impl<F: Future> Drop for Panicked<F> {
                fn drop(&mut self) {
                    // SAFETY: nobody else is there, and the poll is over. The future is dropped in place.
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

    /// Puts an output in the place of the future. For whoever may poll.
    fn finish(&self, output: Result<F::Output, JoinError>) {
        self.stage.with_mut(|stage| {
            // SAFETY: nobody else is there. The future is dropped in place.
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
    /// The task is done, nobody else takes, and `to` points to an `Option<Result<F::Output, JoinError>>`.
    unsafe fn take(cell: *const (), to: *mut ()) {
        // SAFETY: the caller's promise.
        unsafe { Self::of(cell) }.stage.with_mut(|stage| {
            // SAFETY: as above.
            if let Stage::Output(output) = unsafe { std::mem::replace(&mut *stage, Stage::Taken) } {
                // SAFETY: as above. A null pointer asks to drop the output.
                match unsafe { to.cast::<Option<Result<F::Output, JoinError>>>().as_mut() } {
                    Some(to) => *to = Some(output),
                    None if std::mem::needs_drop::<F::Output>() || output.is_err() => one_by_one(|| {
                        shielded(|| drop(output));
                    }),
                    None => {}
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
// afterwards; whoever ends the task reads the waker only if *awaited* was set in time, and clears it when it has woken.
// The waker is dropped with its last use: by the handle, if that goes while *awaited* is not set or the task is not
// done, and otherwise by whoever ends the task. Dropping the handle lets the task run on.

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
        if header.state.load(Ordering::Acquire) & DONE == 0 && header.leave(context.waker()) {
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
    /// Leaves the waker of whoever awaits the handle; false if the task is done.
    fn leave(&self, waker: &Waker) -> bool {
        let mut state = self.state.load(Ordering::Acquire);
        // SAFETY: nobody writes while it is awaited, except for the handle itself.
        let former =
            || self.joiner.with(|joiner| unsafe { &*joiner }.as_ref().is_some_and(|w| w.will_wake(waker)));
        if state & AWAITED != 0 && former() {
            return state & DONE == 0;
        }
        while state & (AWAITED | DONE) == AWAITED {
            let taken = state & !AWAITED;
            match self.state.compare_exchange_weak(state, taken, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => state = taken,
                Err(now) => state = now,
            }
        }
        if state & DONE != 0 {
            return false;
        }
        let waker = waker.clone();
        // SAFETY: it is not awaited, so nobody else reads or writes.
        let_go(self.joiner.with_mut(|joiner| unsafe { (*joiner).replace(waker) }));
        let waits = self.state.fetch_or(AWAITED, Ordering::AcqRel) & DONE == 0;
        if !waits {
            // It was too late, and nobody else uses the waker.
            self.state.fetch_and(!AWAITED, Ordering::Relaxed);
        }
        waits
    }

    /// Drops the waker of whoever awaited the handle. For whoever may use it last.
    fn drop_joiner(&self) {
        // SAFETY: nobody else uses it any more.
        let_go(self.joiner.with_mut(|joiner| unsafe { (*joiner).take() }));
    }
}

// %% [markdown]
// A handle that is dropped after the end has to drop the output; before the end it leaves that to the task.

// %%
impl<T> Drop for JoinHandle<T> {
    fn drop(&mut self) {
        // SAFETY: the handle's reference keeps it alive.
        let header = unsafe { self.task.as_ref() };
        let mut state = header.state.load(Ordering::Acquire);
        // Whoever ends the task has to know, unless it needs nothing of this any more.
        while state & (DONE | AWAITED) != DONE {
            let left = state & if state & DONE == 0 { !(JOINED | AWAITED) } else { !JOINED };
            match header.state.compare_exchange_weak(state, left, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        if state & (DONE | AWAITED) != DONE | AWAITED {
            header.drop_joiner();
        }
        if state & DONE == 0 { release(self.task) } else { discard_later(self.task) }
    }
}

// %% [markdown]
// A new task has two references: the executor's and its handle's.

// %%
impl Task {
    /// A task that is about to be put in a queue, and its handle.
    fn new<F: Future>(home: &Arc<Home>, future: F) -> (Self, JoinHandle<F::Output>) {
        let header = Header {
            state: AtomicUsize::new(SCHEDULED | JOINED | (2 * REFERENCE)),
            code: const { &TaskCell::<F>::CODE },
            home: Arc::clone(home),
            note: Shared::new(None),
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
// When a poll returns `Pending` there are two cases. Either somebody has woken the task meanwhile, then it goes to
// the back of the queue, and keeps *running* set: one atomic operation less for each yield. Or it goes to sleep.
//
// A sleeping task is in no queue; only its wakers know where it is, and they may be anywhere, in the task itself
// for one. So before it sleeps for the first time, its home notes it, that it may be dropped with the runtime. A
// task that never sleeps never gets there, which is why spawning costs no lock.

// %%
impl Task {
    /// After a poll that was not the last.
    fn rest(self) {
        let header = self.header();
        if header.state.load(Ordering::Relaxed) & SCHEDULED == 0 {
            header.note.with_mut(|note| {
                // SAFETY: whoever runs the task may touch its note.
                unsafe { &mut *note }.get_or_insert_with(|| header.home.asleep.lock().unwrap().insert(self));
            });
            // From here on it may be woken, polled and freed by others. (What was written before a wake that came
            // already is seen by `poll`.)
            let before = header.state.fetch_and(!RUNNING, Ordering::Release);
            if before & SCHEDULED == 0 {
                return;
            }
        }
        self.schedule(Turn::Last);
    }

    /// After the last poll, with the output in its place.
    fn end(self) {
        let header = self.header();
        // SAFETY: whoever runs the task may touch its note.
        if let Some(note) = header.note.with_mut(|note| unsafe { (*note).take() }) {
            header.home.asleep.lock().unwrap().remove(note);
        }
        let mut state = header.state.load(Ordering::Relaxed);
        // Mostly there is a handle which nobody awaits yet, and a single operation does.
        while state & (JOINED | AWAITED) == JOINED {
            let done = (state ^ RUNNING | DONE) - REFERENCE;
            match header.state.compare_exchange_weak(state, done, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
        let before = header.state.fetch_xor(RUNNING | DONE, Ordering::AcqRel);
        if before & JOINED == 0 {
            // SAFETY: the task is done, and without a handle nobody else takes.
            unsafe { (header.code.take)(self.cell(), ptr::null_mut()) };
        } else if before & AWAITED != 0 {
            header.joiner.with(|joiner| {
                // SAFETY: the handle writes no more once the task is done.
                let joiner = unsafe { &*joiner }.as_ref();
                shielded(|| joiner.into_iter().for_each(Waker::wake_by_ref));
            });
            if header.state.fetch_and(!AWAITED, Ordering::AcqRel) & JOINED == 0 {
                header.drop_joiner();
            }
        }
        release(self.0);
    }
}

// %% [markdown]
// While the executor has its reference, the waker for a poll needs none of its own: it is not dropped.

// %%
impl Task {
    /// Notes that the task is being polled, from out of a queue.
    fn start(&self) {
        let state = &self.header().state;
        let running = state.load(Ordering::Relaxed) & RUNNING;
        state.fetch_xor(SCHEDULED | (running ^ RUNNING), Ordering::AcqRel);
    }

    /// Polls it.
    fn run(self) {
        self.start();
        // SAFETY: for as long as the executor has its reference, a waker more needs none of its own.
        let waker = ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(self.cell(), &WAKER)) });
        // SAFETY: it came out of a queue, so nobody else may poll it.
        if unsafe { (self.header().code.poll)(self.cell(), &mut Context::from_waker(&waker)) } {
            self.end();
        } else {
            self.rest();
        }
    }

    /// Ends it without an output.
    fn cancel(self) {
        self.start();
        // SAFETY: as for `run`.
        unsafe { (self.header().code.cancel)(self.cell()) };
        self.end();
    }
}

// %% [markdown]
// ## Looking for work
//
// Not more than half of the workers look around at once. Each looks at the injector and at everybody's deque, several
// times, because work may come before a thread could be put to sleep and woken for it.

// %%
impl Core {
    /// Looks for a task elsewhere until `stop` is true or it has looked often enough. `called`: as a helper, already
    /// counted.
    fn look_around(&self, called: bool, stop: impl Fn() -> bool) -> Option<Task> {
        let pool = &self.home.pool;
        if !called {
            if pool.idle.is_crowded() {
                return None;
            }
            pool.idle.search();
        } else {
            // Perhaps somebody does not get on whose timers are due.
            pool.workers.iter().for_each(|worker| worker.timers.fire());
        }
        let mut found = None;
        for _ in 0..pool.settings.searches.max(1) {
            found = self.deque.pop().or_else(|| self.steal());
            if found.is_some() || stop() {
                break;
            }
            std::hint::spin_loop();
        }
        if pool.idle.found() {
            pool.call_for_waiting();
        }
        found
    }
}

// %% [markdown]
// A thief takes half of what it finds. It begins with another worker each time, so that no worker is everybody's first
// choice.

// %%
impl Core {
    /// Takes tasks from the injector, or half of what another worker has.
    fn steal(&self) -> Option<Task> {
        let pool = &self.home.pool;
        let first = self.open.polls.load(Ordering::Relaxed);
        loop {
            let mut again = false;
            match pool.injector.steal_batch_and_pop(&self.deque) {
                Steal::Success(task) => return Some(task),
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
                    match seat.stealer.steal_batch_and_pop(&self.deque) {
                        Steal::Success(task) => return Some(task),
                        Steal::Retry => again = true,
                        Steal::Empty => {}
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
// It sleeps until it is called, or until the first timer of its worker expires. In the second case somebody else may
// have its core, who will see to the timers.

// %%
impl Pool {
    /// What the thread of this worker does.
    fn work(&self, worker: usize) {
        while let Some(called) = self.wait(worker) {
            let core = self.workers[worker].take(OWN).expect("nobody else uses this core");
            Place::new(&core.home, Some(&core)).enter(|| self.run_all(&core, called));
            self.end_turn(core);
        }
    }

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

    /// Runs tasks until there are none or a caller wants the core. `called`: as a helper, who is counted as looking
    /// around.
    fn run_all(&self, core: &Core, mut called: bool) {
        let closed = || self.closed.load(Ordering::Relaxed);
        while called || !closed() {
            let task = if called { None } else { core.next() };
            let Some(task) = task.or_else(|| core.look_around(called, closed)) else { return };
            called = false;
            task.run();
            if self.is_wanted(core) {
                return;
            }
        }
    }
}

// %% [markdown]
// ## Polls that take long
//
// A poll may take long: a root that receives from a channel, a task that waits for a lock. Three things must not wait
// with it: the task in its LIFO slot, which nobody else looks at; its timers; and whoever is not awake because this
// thread is. To see to each of them at once would cost a wake for each task that is spawned. So one thread *watches*, as
// that of Go's scheduler does: every ten milliseconds, while anybody is awake, it looks whether each core has polled
// since. If one has not,
//
// - its LIFO slot is emptied into the injector;
// - a caller of `block_on` is *relieved*: the thread of the worker comes back to its place;
// - for a worker, one more may be awake;
// - if a task waits, or a timer, a helper is called, who fires the timers of all.
//
// So what such a poll holds up waits for twenty milliseconds, and not for its end. tokio has no such thread, and a task
// of it that blocks keeps what is in its slot to itself.

// %%
/// How often somebody looks whether everybody gets on.
const WATCH: Duration = Duration::from_millis(10);

impl Pool {
    /// What the thread that watches does until the runtime is closed.
    fn watch(&self) {
        while !self.closed.load(Ordering::Relaxed) {
            let busy = self.look_after_all();
            // Whoever takes a place from here on sees to it that it is watched.
            if !busy && self.idle.leave_unwatched() { park() } else { park_timeout(WATCH) }
        }
    }

    /// Helps those who have not polled since the last time. Whether anybody has a core.
    fn look_after_all(&self) -> bool {
        let (mut busy, mut stuck, mut due) = (false, vec![], false);
        for (number, worker) in self.workers.iter().enumerate() {
            for (index, seat) in worker.seats.iter().enumerate() {
                let polls = seat.open.polls.load(Ordering::Relaxed);
                let same = seat.open.watched.swap(polls, Ordering::Relaxed) == polls;
                let mut held = seat.held.lock().unwrap();
                if held.core.is_some() {
                    continue;
                }
                busy = true;
                if !same {
                    continue;
                }
                let relieves = index == CALLER && !std::mem::replace(&mut held.relieved, index == CALLER);
                drop(held);
                seat.open.take_next().into_iter().for_each(|task| self.injector.push(task));
                stuck.extend((index == OWN).then_some(worker));
                due |= worker.timers.first().is_some_and(|first| first <= Instant::now());
                if relieves {
                    self.idle.search();
                    self.call(Some(number));
                }
            }
        }
        self.idle.permit(self.settings.awake.saturating_add(stuck.len()));
        if busy && (due || self.has_waiting()) {
            match self.idle.offer() {
                // Perhaps one of them is a call of `block_on` within a task, which can help itself.
                None => stuck.into_iter().for_each(Remote::unpark),
                named => self.call(named),
            }
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
    known: Option<(Arc<Home>, usize)>,
}

/// Ready when so much time has passed from now on, or a hundred years, and never before: not every clock counts to more.
pub fn sleep(duration: Duration) -> Sleep {
    const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    Sleep { deadline: Instant::now() + duration.min(LONGEST), known: None }
}

// %% [markdown]
// A sleep that is polled again may have another waker by then, and its runtime may be gone: then it is entered where it
// is polled.

// %%
impl Future for Sleep {
    type Output = ();

    /// # Panics
    /// When it has to wait on a thread that belongs to no runtime, or to one that is gone.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // Outside of a runtime there is nobody else to look.
        let reads_clock = self.known.is_some() || Place::here(|place| place.is_none());
        if reads_clock && Instant::now() >= self.deadline {
            return Poll::Ready(());
        }
        if let Some((home, number)) = &self.known {
            let worker = &home.pool.workers[home.worker];
            if let Some((_, added)) = worker.timers.set(self.deadline, Some(*number), context.waker()) {
                if added {
                    // It fired since we read the clock, perhaps for another task.
                    worker.unpark();
                }
                return Poll::Pending;
            }
        }
        let deadline = self.deadline;
        // If there was a runtime that knew it, it is gone.
        self.known = Place::here(|place| {
            let place = place.expect("a sleep needs a runtime");
            let worker = &place.home.pool.workers[place.home.worker];
            let set = worker.timers.set(deadline, None, context.waker());
            let (number, _) = set.expect("a sleep needs a runtime that is not shut down");
            if place.core.is_none() {
                worker.unpark();
            }
            Some((Arc::clone(place.home), number))
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
            let work = move || Place::new(&home, None).enter(|| Self::work(&home));
            if std::thread::Builder::new().spawn(work).is_err() {
                // The system has no thread: one that is busy will come to it.
                (state.threads, state.looking) = (state.threads - 1, state.looking - 1);
            }
        }
    }
}

// %% [markdown]
// A thread that has made its call looks at the queue for a while before it sleeps, and ends when nobody has called it
// for long.

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
    parts: Parts,
    /// The thread that watches.
    watch: Option<Handle<()>>,
}

// %% [markdown]
// The threads begin last, those of the workers and the one that watches.

// %%
impl Runtime {
    fn start(&mut self) -> std::io::Result<()> {
        for worker in 0..self.pool.workers.len() {
            let pool = Arc::clone(&self.pool);
            let (handle, thread) = start(move || pool.work(worker))?;
            self.parts.threads.push(handle);
            self.pool.workers[worker].thread.get_or_init(|| thread);
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

    /// Looks once whether everybody gets on, as the thread that watches does.
    #[cfg(under_loom)]
    pub fn look_after_all(&self) {
        self.pool.look_after_all();
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
        let deques: Vec<[Deque<Task>; 2]> =
            (0..settings.workers).map(|_| [(); 2].map(|()| Deque::new_fifo())).collect();
        let seat = |deque: &Deque<Task>| Seat {
            held: Mutex::new(HeldOf { core: None, relieved: false }),
            stealer: deque.stealer(),
            open: Arc::new(Open {
                next: AtomicPtr::new(ptr::null_mut()),
                polls: Default::default(),
                watched: Default::default(),
            }),
        };
        let worker = |[own, caller]: &[Deque<Task>; 2]| Remote {
            seats: [seat(own), seat(caller)],
            called: AtomicBool::new(false),
            thread: OnceLock::new(),
            timers: Timers::default(),
        };
        let pool = Arc::new(Pool {
            settings,
            injector: Injector::new(),
            workers: deques.iter().map(worker).collect(),
            idle,
            callers: Mutex::default(),
            wanted: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            blocking: Blocking::default(),
            watch: OnceLock::new(),
            left: Default::default(),
        });
        let home =
            |worker| Arc::new(Home { pool: Arc::clone(&pool), worker, asleep: Mutex::new(Slab::new()) });
        let mut homes: Vec<_> = (0..settings.workers).map(home).collect();
        for (deques, home) in deques.into_iter().zip(&homes) {
            for (seat, deque) in deques.into_iter().enumerate() {
                let place = &pool.workers[home.worker].seats[seat];
                let (home, open) = (Arc::clone(home), Arc::clone(&place.open));
                let core =
                    Core { home, seat, deque, open, streak: Cell::new(0), turn: Cell::new(Turn::Next) };
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
    task.schedule(Turn::Last);
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
    Place::here(|place| work(place.expect("this thread belongs to no runtime").home))
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
// ## `block_on`
//
// The calling thread takes the place of a worker if one is free, polls its future, and runs tasks for as long as there
// are any. Before it goes to sleep, it gives the place back. Without one, it asks for one before it goes to sleep:
// otherwise a worker that never rests would wake it for each task that it awaits.

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

impl Pool {
    /// Waits until the future is woken or a worker hands its core over; the core, if it does.
    fn wait_for_core(&self, root: &std::sync::Arc<Root>) -> Option<Box<Core>> {
        {
            let mut callers = self.callers.lock().unwrap();
            callers.push_back(std::sync::Arc::clone(root));
            self.wanted.store(callers.len(), Ordering::Relaxed);
        }
        root.wait();
        let mut callers = self.callers.lock().unwrap();
        callers.retain(|caller| !std::sync::Arc::ptr_eq(caller, root));
        self.wanted.store(callers.len(), Ordering::Relaxed);
        drop(callers);
        // From here on nobody hands it anything.
        root.given.lock().unwrap().take()
    }

    /// Whether a caller waits for a core, and this one has tasks left for it.
    fn is_wanted(&self, core: &Core) -> bool {
        self.wanted.load(Ordering::Relaxed) > 0 && !(core.next_is_empty() && core.deque.is_empty())
    }

    /// Lets the caller that has waited longest have this worker's place. `None` if nobody waits any more, or a caller
    /// that was relieved still has the core for it.
    fn hand_over(&self, worker: usize) -> Option<()> {
        let mut callers = self.callers.lock().unwrap();
        let root = callers.front().map(std::sync::Arc::clone)?;
        let core = self.workers[worker].take(CALLER)?;
        callers.pop_front();
        self.wanted.store(callers.len(), Ordering::Relaxed);
        *root.given.lock().unwrap() = Some(core);
        root.thread.unpark();
        Some(())
    }

    /// Lets a caller that waits have the worker's place, or gives it up.
    fn end_turn(&self, core: Box<Core>) {
        let worker = core.home.worker;
        let wanted = self.is_wanted(&core);
        self.put_back(core);
        if wanted && self.hand_over(worker).is_some() {
            return;
        }
        self.leave_place(worker);
    }
}

// %% [markdown]
// While it has a core, the caller does what a worker does, except that its own future comes first whenever it was
// woken.

// %%
/// A core on loan; given back also when the root panics.
struct Loan<'a>(&'a Pool, Option<Box<Core>>);

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        self.1.take().into_iter().for_each(|core| self.0.leave_core(core));
    }
}

impl Root {
    /// Waits until the future is woken or the root was given a core.
    fn wait(&self) {
        while !self.woken.load(Ordering::Relaxed) && self.given.lock().unwrap().is_none() {
            park();
        }
    }

    /// Polls the future when it was woken, and runs tasks of this core; nothing when there are none and the
    /// future waits.
    fn attend<F: Future>(
        &self,
        mut future: Pin<&mut F>,
        waker: &Waker,
        core: Option<&Core>,
    ) -> Option<F::Output> {
        let woken = || self.woken.load(Ordering::Relaxed);
        loop {
            if woken() {
                self.woken.swap(false, Ordering::Acquire);
                core.into_iter().for_each(|core| {
                    core.count_poll();
                });
                if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(waker)) {
                    return Some(output);
                }
            }
            match core?.next().or_else(|| core?.look_around(false, woken)) {
                Some(task) => task.run(),
                None if woken() => {}
                None => return None,
            }
        }
    }
}

// %% [markdown]
// So `block_on` is a loop around that: with a place that is free, with one that was handed over, or with none. Within a
// task of the same runtime the thread has a core, and does not give it away: whoever watches wakes it if there is a task
// for it.

// %%
impl Root {
    /// The same within a task, with the core that it runs on.
    fn attend_within<F: Future>(&self, mut future: Pin<&mut F>, waker: &Waker, core: &Core) -> F::Output {
        Place::new(&core.home, Some(core)).enter(|| {
            loop {
                if let Some(output) = self.attend(future.as_mut(), waker, Some(core)) {
                    return output;
                }
                match core.timers().first().map(|first| first.saturating_duration_since(Instant::now())) {
                    None => park(),
                    Some(left) => park_timeout(left),
                }
            }
        })
    }
}

// %% [markdown]
// And outside of any task:

// %%
impl Runtime {
    /// Runs a future on the calling thread, and tasks meanwhile, until the future is ready. Within a task of this
    /// runtime, the tasks that it runs meanwhile are on top of that one: they must not wait for it.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        let pool = &*self.pool;
        let root = Root { woken: AtomicBool::new(true), given: Mutex::new(None), thread: current() };
        let root = std::sync::Arc::new(root);
        let waker = Waker::from(std::sync::Arc::clone(&root));
        let mut future = pin!(future);
        if let Some(core) = Place::within(pool, |place| place.core.map(NonNull::from)) {
            // SAFETY: whoever has it, further down on this thread, keeps it until this is over.
            return root.attend_within(future, &waker, unsafe { core.as_ref() });
        }
        let (takes_core, mut given) = (pool.settings.takes_core, None);
        loop {
            let loan = Loan(pool, given.take().or_else(|| if takes_core { pool.take_place() } else { None }));
            let core = loan.1.as_deref();
            let home = core.map_or(self.outside(), |core| &core.home);
            let attended = Place::new(home, core).enter(|| root.attend(future.as_mut(), &waker, core));
            if let Some(output) = attended {
                return output;
            }
            let had_none = loan.1.is_none();
            drop(loan);
            if takes_core && had_none {
                given = pool.wait_for_core(&root);
            } else {
                root.wait();
            }
        }
    }

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
// First the workers end, so that nobody polls any more, and the timers. A worker may be in a poll that waits for what
// only the end of another task brings; if it does not end soon, the others are ended meanwhile. Then every task is in a
// queue, or it sleeps and its home has noted it, or somebody outside has just claimed it and is about to queue it; so this
// is repeated until nothing is left. Blocking calls that are under way are waited for meanwhile: they may spawn tasks, and may well wait for
// what only the end of one brings. Wakers and handles that outlive the runtime find their tasks done.
//
// If it is one of its own tasks that drops the runtime, or a call, the thread cannot wait for its own end. Then whoever
// watches does all that.

// %%
impl Drop for Runtime {
    fn drop(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        let inside = Place::within(&self.pool, |_| Some(())).is_some();
        let mine = if inside {
            *self.pool.left.lock().unwrap() = Some(parts);
            None
        } else {
            Some(parts)
        };
        self.pool.closed.store(true, Ordering::Relaxed);
        self.pool.workers.iter().for_each(Remote::unpark);
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
impl Parts {
    /// Ends the threads and all tasks.
    fn end(mut self, pool: &Pool) {
        let mut patience = 0..100;
        while !self.threads.iter().all(is_finished) {
            if patience.next().is_some() {
                yield_now();
            } else {
                self.cancel_tasks(pool);
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        for thread in self.threads.drain(..) {
            thread.join().expect("workers catch the panics of their tasks");
        }
        pool.workers.iter().for_each(|worker| worker.timers.close());
        pool.blocking.close().into_iter().for_each(Task::cancel);
        loop {
            self.cancel_tasks(pool);
            let none_asleep = || self.homes.iter().all(|home| home.asleep.lock().unwrap().is_empty());
            if pool.blocking.wait() && !pool.has_waiting() && none_asleep() {
                break;
            }
            yield_now();
        }
        // A core knows its pool, which would keep both for ever.
        pool.seats().for_each(|seat| drop(seat.held.lock().unwrap().core.take()));
    }

    /// Ends all tasks that nobody polls.
    fn cancel_tasks(&self, pool: &Pool) {
        while let Some(task) = pool.take_waiting() {
            task.cancel();
        }
        for home in &self.homes {
            // Those that were claimed are freed by nobody else, and before that they are noted here.
            let claimed: Vec<Task> = {
                let asleep = home.asleep.lock().unwrap();
                asleep.iter().map(|(_, task)| *task).filter(Task::claim).collect()
            };
            claimed.into_iter().for_each(Task::cancel);
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
        loop {
            let mut again = false;
            let stolen = std::iter::once_with(|| self.injector.steal());
            for stolen in stolen.chain(self.seats().map(|seat| seat.stealer.steal())) {
                match stolen {
                    Steal::Success(task) => return Some(task),
                    Steal::Retry => again = true,
                    Steal::Empty => {}
                }
            }
            if !again {
                return None;
            }
        }
    }
}

// %% [markdown]
// That is all of it. What is promised is tested next to the crate: a million wakes and none lost, panics that reach
// their handles, a shutdown that drops every task once whatever state it is in, and the protocols under loom, in every
// order.
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
// The pairs of `relay` pass a baton: whoever has it hands it over and waits until it is back.

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
// - `block_on` within a task of the same runtime runs other tasks on top of that one. One that waits for it hangs.
//   (tokio refuses the call.)
// - Timers are fired by the thread in the worker's place. If its polls take long, they fire that much later.
// - Handles that are dropped with an output are dropped after it, not within: a chain of them needs no stack. The chains
//   that a future of your own makes of boxes need theirs.
