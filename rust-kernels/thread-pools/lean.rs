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
// # Lean thread pools, one change after another
//
// [The pools as described](described.ipynb) put each job in a box, count the references of their handles in one place,
// and wake a worker for every job from outside that finds a sleeper. What does each of these cost? Here are a shared
// channel and work stealing again, of the same queues, with all of this done in another way. Each change can be undone
// by itself, so that [the measuring notebook](measure.ipynb) can ask for each change by itself. Last comes a pool that
// joins: it runs the two halves of a computation, and waits for both.
//
// After reading it you know which parts of a thread pool can be improved, and what that demands of the code.
//
// ## Compile cells as for a benchmark
//
// The cells that look at times need these settings.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep crossbeam-channel = "=0.5.17"
// :dep crossbeam-deque = "=0.8.8"
// :dep crossbeam-utils = "=0.8.23"
// :dep fastrand = "=2.5.0"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep idle = { path = "../../rust-kernels/idle" }
// :dep sync = { path = "../../rust-kernels/sync" }
// :dep thread-pools-described = { path = "../../rust-kernels/thread-pools/described" }

// %% [markdown]
// Whatever the pools' threads share comes from the crate `sync`, so that `tests/loom.rs` can try all their orders.

// %%
use std::cell::{Cell, OnceCell};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::{NonNull, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use crossbeam_utils::CachePadded;
use idle::shielded;
use sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, fence};
use sync::cell::Shared;
use sync::thread::{self, Thread};
use sync::{Arc, Mutex, MutexGuard};
use thread_pools_described::{END, LONGEST, LiveWorkers, Subject};

// %% [markdown]
// # What both pools share
//
// A pool is a queue, and a rule for what workers do when the queue is empty. The second is the harder part, and the
// same in both pools. So first come the parts that they share: the job, the worker that sleeps, the handle, the end.
//
// ## A job
//
// A job is a closure. The originals box it: one allocation where it is submitted, and a release on another thread. But
// most closures are small. So a job has room for some words, and only what does not fit goes to the heap, as in a small
// vector. How many words? The jobs of the published program have three. Room for just these would fit our pools to that
// program alone. So a job is as large as a cache line, the unit that processors pass to each other: a word that says
// what can be done with it, and seven for the closure. The measuring notebook asks where the box begins, and what that
// costs.

// %%
/// Holds a closure, or the box of one that is too large or too strictly aligned.
pub type Storage = MaybeUninit<[usize; 7]>;

/// What can be done with the stored closure.
struct VTable {
    run: unsafe fn(*mut Storage),
    drop: unsafe fn(*mut Storage),
}

/// A closure that runs once, of any type.
pub struct Job {
    vtable: &'static VTable,
    storage: Storage,
}

// SAFETY: a job is made of a closure that is `Send`, and holds nothing else.
unsafe impl Send for Job {}

// %% [markdown]
// A closure that fits is stored itself; of one that does not, its box.

// %%
/// A closure that is called, and dropped, where it is: it may be larger than what is left of the stack.
type Boxed = Box<dyn FnOnce() + Send>;

/// How a closure of this type is stored.
struct Layout<F>(PhantomData<F>);

impl<F: FnOnce() + Send + 'static> Layout<F> {
    const FITS: bool = size_of::<F>() <= size_of::<Storage>() && align_of::<F>() <= align_of::<Storage>();
    const VTABLE: VTable = VTable { run: Self::run, drop: Self::drop };

    /// # Safety
    /// A closure of this type is stored, and is not used again.
    unsafe fn run(storage: *mut Storage) {
        // SAFETY: the caller's promise; here lies the closure or its box.
        unsafe { if Self::FITS { storage.cast::<F>().read()() } else { storage.cast::<Boxed>().read()() } }
    }

    /// # Safety
    /// As for [`Self::run`].
    unsafe fn drop(storage: *mut Storage) {
        // SAFETY: the caller's promise; here lies the closure or its box.
        unsafe {
            if Self::FITS {
                storage.cast::<F>().drop_in_place()
            } else {
                storage.cast::<Boxed>().drop_in_place()
            }
        }
    }
}

// %% [markdown]
// A job is built from a closure, and run or dropped once.

// %%
impl Job {
    /// Of this closure.
    #[inline]
    pub fn new<F: FnOnce() + Send + 'static>(closure: F) -> Self {
        let mut storage = Storage::uninit();
        if Layout::<F>::FITS {
            // SAFETY: it fits, in size and alignment.
            unsafe { storage.as_mut_ptr().cast::<F>().write(closure) };
        } else {
            // SAFETY: such a box is two words.
            unsafe { storage.as_mut_ptr().cast::<Boxed>().write(Box::new(closure)) };
        }
        Self { vtable: &Layout::<F>::VTABLE, storage }
    }

    /// Calls the closure.
    #[inline]
    pub fn run(self) {
        let mut job = ManuallyDrop::new(self);
        // SAFETY: the table is that of the stored closure, which is not dropped after this.
        unsafe { (job.vtable.run)(&raw mut job.storage) }
    }
}

/// A job that is never run drops what its closure holds.
impl Drop for Job {
    fn drop(&mut self) {
        // SAFETY: as for `run`, which does not come here.
        unsafe { (self.vtable.drop)(&raw mut self.storage) }
    }
}

// %% [markdown]
// ## How workers sleep
//
// A worker without work may spin, which occupies a processor, or park, which takes a system call on both sides. The
// usual compromise is to spin for a moment and then park. The difficulty is the moment in between. A job that is queued
// just after a worker has looked for the last time, and just before it sleeps, must not wait for ever. And how many
// should be woken? The originals wake a worker for every job from outside that finds a sleeper; ours wake one only if no
// worker is searching already.
//
// Both are decided by [`idle`](../../rust-kernels/idle/idle.rs), one page that [our
// executor](../runtimes/executor.ipynb) shares. It knows only numbers; what follows adds the threads, and the end.

// %%
/// Which workers are woken for a job from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// A sleeper, unless a worker is searching.
    OneAtATime,
    /// A sleeper for every job.
    EveryJob,
}

/// Which workers search and which sleep, and the threads that are to be woken.
pub struct Sleep {
    idle: idle::Idle,
    /// No more jobs are taken.
    closed: AtomicBool,
    places: Box<[CachePadded<Place>]>,
}

/// A worker's thread, once that has begun, and whether it was woken.
#[derive(Default)]
struct Place {
    thread: OnceLock<Thread>,
    woken: AtomicBool,
}

// %% [markdown]
// First the side of a thread that submits. `offer` is called after the job was queued.

// %%
impl Sleep {
    /// For so many workers, which are at rest until they `begin`.
    pub fn new(workers: usize) -> Self {
        Self {
            idle: idle::Idle::new(workers, workers),
            closed: AtomicBool::new(false),
            places: (0..workers).map(|_| CachePadded::default()).collect(),
        }
    }

    /// Sees to it that a job that was queued just now is found. Says whether the pool takes jobs.
    #[inline]
    pub fn offer(&self, wakes: Wakes) -> bool {
        let named = self.idle.offer();
        let also = wakes == Wakes::EveryJob && named.is_none() && self.idle.resting() > 0;
        self.wake(if also { self.idle.name_any() } else { named });
        !self.closed()
    }

    /// `offer` by a worker that will look into that queue again itself.
    #[inline]
    pub fn hint(&self) {
        self.wake(self.idle.hint());
    }

    /// Whether `close` was called.
    #[inline]
    pub fn closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Wakes the worker that was named.
    #[inline]
    fn wake(&self, named: Option<usize>) {
        if let Some(worker) = named {
            let place = &self.places[worker];
            // A thread that is not known yet has not begun, and will see this. (What it finds is ordered by the queues,
            // and by the fences of `idle`.)
            place.woken.swap(true, Ordering::Relaxed);
            place.thread.get().into_iter().for_each(Thread::unpark);
        }
    }
}

// %% [markdown]
// When the pool ends, all workers have to wake.

// %%
impl Sleep {
    fn wake_all(&self) {
        while let Some(worker) = self.idle.name_any() {
            self.wake(Some(worker));
        }
    }

    /// The pool takes no more jobs.
    pub fn close(&self) {
        // Workers at rest are woken, and those that come to rest later see this, since both lock the list of `idle`.
        self.closed.store(true, Ordering::Relaxed);
        self.wake_all();
    }
}

// %% [markdown]
// And the side of a worker. It is counted as searching from `begin` or `search` until `found` or `announce`.

// %%
impl Sleep {
    /// The calling thread is this worker from now on, and searches.
    pub fn begin(&self, worker: usize) {
        self.places[worker].thread.get_or_init(thread::current);
        self.stay(worker);
    }

    /// A worker begins to search. Says how many do, with it.
    pub fn search(&self) -> usize {
        self.idle.search()
    }

    /// A searcher has found a job. Says whether it has to look whether there is more, and `offer` that.
    pub fn found(&self) -> bool {
        self.idle.found()
    }

    /// A searcher gives up. After it, it has to look once more, and to `sleep` or to `stay`.
    pub fn announce(&self, worker: usize) {
        self.idle.found();
        self.idle.rest(worker);
    }

    /// Sleeps until it is woken; then it is searching.
    pub fn sleep(&self, worker: usize) {
        self.sleep_until(worker, || false);
    }

    /// Likewise, or until `is_so`: the thread that makes it true unparks this one.
    pub fn sleep_until(&self, worker: usize, is_so: impl Fn() -> bool) {
        while !self.places[worker].woken.swap(false, Ordering::Relaxed) {
            if is_so() {
                return self.stay(worker);
            }
            thread::park();
        }
    }

    /// After all there is something to do: searches on instead of sleeping.
    pub fn stay(&self, worker: usize) {
        if self.idle.take_back(worker) {
            self.search();
        } else {
            self.sleep(worker);
        }
    }
}

// %% [markdown]
// ## A queue
//
// This is the difference between our first two pools; the one that joins, which comes last, puts halves beside such a
// queue. A worker has a *local* part, which may be nothing. First what a user can choose.

// %%
/// What to do when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Search for a moment, then sleep.
    Park,
    /// Search for ever, yielding to other threads: no worker is woken, and no processor is idle.
    NeverPark,
}

/// How long jobs from outside may wait for those that workers submit to themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fairness {
    /// So long after they were seen, and the job that is running then.
    Timed(Duration),
    /// So long, by a clock that is read after every job.
    Clocked(Duration),
    /// So many jobs.
    Counted(u32),
}

// %% [markdown]
// With the number of workers, these are the settings of a pool.

// %%
/// How a pool is to be.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Worker threads, 1 to 65,535.
    pub workers: usize,
    /// Without work.
    pub idle: Idle,
    /// By jobs from outside.
    pub wakes: Wakes,
    /// Of work stealing; a shared queue is always fair.
    pub fairness: Fairness,
    /// Whether thieves go through the others in an order drawn by lot. By default they begin with the next.
    pub shuffled: bool,
}

impl Settings {
    /// Workers park, and after a millisecond they look outside, as those of the originals do by default.
    pub fn new(workers: usize) -> Self {
        let fairness = Fairness::Timed(Duration::from_millis(1));
        Self { workers, idle: Idle::Park, wakes: Wakes::OneAtATime, fairness, shuffled: false }
    }
}

// %% [markdown]
// Each pool implements this trait.

// %%
/// Where jobs wait.
pub trait Queue: Send + Sync + Sized + 'static {
    /// What one worker has for itself.
    type Local: Send + 'static;
    /// An empty one, with the locals of its workers.
    fn new(settings: &Settings) -> (Self, Vec<Self::Local>);
    /// Takes a job from a thread that is no worker. Every worker can find it.
    fn push(&self, job: Job);
    /// Takes a job from the worker whose local this is. Says whether others have to be notified.
    fn push_local(&self, local: &Self::Local, job: Job) -> Notify;
    /// The next job of this worker, as long as it has some.
    fn next(&self, local: &Self::Local) -> Option<Job>;
    /// Any job that this worker can get hold of.
    fn find(&self, local: &Self::Local) -> Option<Job>;
    /// Whether there is nothing to be found.
    fn is_empty(&self) -> bool;
    /// Any job, for a thread that is no worker.
    fn take(&self) -> Option<Job>;
}

/// Which workers a worker tells of a job that it has queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// None: the worker will come to it.
    None,
    /// A sleeper, if one is seen; the worker will come to it in any case.
    Sleepers,
}

// %% [markdown]
// ## Handles that are counted in advance
//
// How many handles does a pool have? Each worker counts some in advance, its *credit*, as is told below. It is in one
// word, which other threads read.

// %%
/// So many handles are counted in the core beyond those that there are; above that, how often it has changed. Written by
/// its worker only.
#[derive(Default)]
struct Credit(AtomicU64);

impl Credit {
    /// One change more. Below it is room for twice the credit and one.
    const CHANGE: u64 = 1 << 16;

    /// The handles in a word.
    #[inline]
    fn handles(word: u64) -> u64 {
        word % Self::CHANGE
    }

    /// The changes in a word.
    fn changes(word: u64) -> u64 {
        word / Self::CHANGE
    }

    #[inline]
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// To be called by its worker. A thread that sees it sees how the handles came here that are no more.
    #[inline]
    fn set(&self, word: u64) {
        self.0.store(word, Ordering::Release);
    }
}

// %% [markdown]
// ## The core of a pool
//
// What all handles and workers of a pool refer to: the queue, the sleeping workers, the count of handles, and how many
// workers have not ended. A job that panics is counted, and its worker goes on; the originals replace the thread.

// %%
/// What workers and handles of a pool share.
struct Core<Q> {
    queue: Q,
    sleep: Sleep,
    parks: bool,
    wakes: Wakes,
    /// More than so many need not search at a time.
    searchers: usize,
    /// Handles, and the credit that workers have taken for handles.
    handles: CachePadded<AtomicUsize>,
    /// By worker.
    credits: Box<[CachePadded<Credit>]>,
    /// No handle is left, so no job will come.
    abandoned: AtomicBool,
    live: LiveWorkers,
    /// Jobs that panicked.
    panics: AtomicUsize,
}

/// How often a searcher finds nothing, spinning ever longer, before it gives way; and how often it gives way before it
/// sleeps. Loom tries everything, so there once is enough.
const PATIENCE: (u32, u32) = if cfg!(under_loom) { (0, 0) } else { (5, 12) };

/// Waits a little longer with every turn. Says whether that was all.
fn wait(turn: u32) -> bool {
    if turn < PATIENCE.0 {
        (0..1 << turn).for_each(|_| std::hint::spin_loop());
    } else if turn < PATIENCE.0 + PATIENCE.1 {
        thread::yield_now();
    }
    turn >= PATIENCE.0 + PATIENCE.1
}

// %% [markdown]
// Workers survive a panic of a job, even one that panics again when its payload is dropped:
// [`shielded`](../../rust-kernels/idle/shield.rs) sees to that. The thread that releases the last handle frees the core.

// %%
impl<Q: Queue> Core<Q> {
    #[inline]
    fn run(&self, job: Job) {
        if !shielded(|| job.run()) {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// So many handles more.
    #[inline]
    fn add_handles(&self, handles: usize) {
        // As `Arc` does: there are so many only if most are forgotten, and beyond zero the count would be wrong.
        if self.handles.fetch_add(handles, Ordering::Relaxed) > isize::MAX as usize {
            std::process::abort();
        }
    }

    /// So many handles are no more. (No reference is handed over here: it may end before this does.)
    ///
    /// # Safety
    /// `this` is the pointer of an `Arc`, so many handles are counted in it, and the caller does not use them
    /// afterwards.
    unsafe fn subtract_handles(this: NonNull<Self>, handles: usize) {
        // SAFETY: the handles keep it alive until they are counted out.
        if unsafe { this.as_ref() }.handles.fetch_sub(handles, Ordering::AcqRel) == handles {
            // SAFETY: all handles together own one reference, which `start` has made, and only the thread that brings
            // their number to zero gets here.
            unsafe { Arc::from_raw(this.as_ptr()) }.abandon();
        }
    }

    /// No job will come.
    #[cold]
    fn abandon(&self) {
        // A worker that sees it sees what all handles have submitted; for workers at rest it is ordered as in
        // `Sleep::close`.
        self.abandoned.store(true, Ordering::Release);
        self.sleep.wake_all();
    }
}

// %% [markdown]
// ## A handle that workers clone without a shared count
//
// Every job of the published program clones the pool's handle. An ordinary handle counts references in one
// place, and all workers write to that place for every job, so its cache line moves between the
// processors. Most of these clones are made on a worker and dropped on a worker. So a worker takes *credit*: it
// adds a thousand to the shared count at once, and from then on counts its own clones and drops in a place
// that no other thread writes to. Before it sleeps, it returns its credit. The shared count is never less than the
// number of handles, and it reaches zero soon after the last of them is gone.
//
// A worker in a long job does not return its credit, and the others should not wait for that job. So a thread that drops
// a handle elsewhere looks whether all that is left is credit, which the worker publishes in one word, together with how
// often it has changed.
//
// To find out whether there are handles, a thread reads all credit twice, with the shared count in between. If no word
// has changed, all of this was so at one moment; and if there was no handle at that moment, there will be none.

// %%
/// Handles that a worker counts in advance, and what it keeps at most.
const CREDIT: usize = 1 << 10;

impl<Q: Queue> Core<Q> {
    /// The credit of all workers, and how often it has changed.
    fn credit(&self) -> (usize, u64) {
        let of = |credit: &CachePadded<Credit>| credit.0.load(Ordering::Acquire);
        let add = |(credit, changes), word| {
            (credit + Credit::handles(word) as usize, Credit::changes(word) + changes)
        };
        self.credits.iter().map(of).fold((0, 0), add)
    }

    /// How many are counted, and whether so many handles of the caller are the only ones.
    fn alone_with(&self, own: usize) -> (usize, bool) {
        loop {
            let before = self.credit();
            let handles = self.handles.load(Ordering::Acquire);
            if before == self.credit() {
                return (handles, handles == before.0 + own);
            }
        }
    }
}

// %% [markdown]
// A worker that returns credit, and a thread that drops a handle, look for that moment.

// %%
impl<Q: Queue> Core<Q> {
    /// A worker returns what it has set its credit down by.
    ///
    /// # Safety
    /// As for [`subtract_handles`](Self::subtract_handles); and the worker has a reference to the core.
    unsafe fn return_credit(this: NonNull<Self>, credit: usize) {
        // SAFETY: by the caller.
        unsafe { Self::subtract_handles(this, credit) };
        // SAFETY: the reference of the worker keeps it alive.
        let core = unsafe { this.as_ref() };
        if core.alone_with(0).1 {
            core.abandon();
        }
    }

    /// A thread that is no worker drops a handle.
    ///
    /// # Safety
    /// As for [`subtract_handles`](Self::subtract_handles).
    unsafe fn drop_handle(this: NonNull<Self>) {
        // SAFETY: the handle keeps it alive until it is counted out.
        let core = unsafe { this.as_ref() };
        loop {
            let (handles, alone) = core.alone_with(1);
            if alone {
                core.abandon();
                // SAFETY: by the caller.
                return unsafe { Self::subtract_handles(this, 1) };
            }
            // Fails where another one was dropped at the same time: then this may be the last.
            if core
                .handles
                .compare_exchange_weak(handles, handles - 1, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
        }
    }
}

// %% [markdown]
// A clone or a drop asks first on which thread it is. So each worker thread has a place for what it knows about itself.

// %%
/// What a worker thread knows about itself.
struct CurrentWorker {
    /// The core of its pool; tells the type of `local` as well.
    core: *const (),
    local: *const (),
    credit: *const Credit,
    live: *const LiveWorkers,
}

/// Where a thread keeps what it knows about itself.
mod place {
    use std::cell::Cell;

    use super::CurrentWorker;

    sync::thread_local! {
        static CURRENT: Cell<*const CurrentWorker> = Cell::new(std::ptr::null());
    }

    #[inline]
    pub fn get() -> *const CurrentWorker {
        CURRENT.with(Cell::get)
    }

    pub fn set(here: *const CurrentWorker) {
        CURRENT.with(|place| place.set(here));
    }
}

// %% [markdown]
// A thread enters when its worker begins, and leaves when it ends. The pointers in between are never read by another
// thread.

// %%
impl CurrentWorker {
    /// This thread becomes a worker until `leave`, which frees the result.
    fn enter<Q: Queue>(core: &Arc<Core<Q>>, worker: usize, local: &Q::Local) -> NonNull<Self> {
        let (credit, live) = (&raw const *core.credits[worker], &raw const core.live);
        let (core, local) = (Arc::as_ptr(core).cast(), std::ptr::from_ref(local).cast());
        let here = NonNull::from(Box::leak(Box::new(Self { core, local, credit, live })));
        place::set(here.as_ptr());
        here
    }

    /// Calls `work` with this thread's worker, if it is one of any pool.
    #[inline]
    fn with_any<T>(work: impl FnOnce(Option<&CurrentWorker>) -> T) -> T {
        // SAFETY: set by `enter` on this thread, and not freed before `leave` takes it back.
        work(unsafe { place::get().as_ref() })
    }

    /// Calls `work` with this thread's worker, if it is one of the pool with this core.
    #[inline]
    fn with<Q, T>(core: NonNull<Core<Q>>, work: impl FnOnce(Option<&CurrentWorker>) -> T) -> T {
        Self::with_any(|here| work(here.filter(|here| here.core == core.as_ptr().cast_const().cast())))
    }

    #[inline]
    fn credit(&self) -> &Credit {
        // SAFETY: it is in the core, to which this thread has a reference until it has left.
        unsafe { &*self.credit }
    }

    #[inline]
    fn live(&self) -> &LiveWorkers {
        // SAFETY: as for `credit`.
        unsafe { &*self.live }
    }

    /// # Safety
    /// `here` comes from `enter` with a core of this type, on this thread, and is not used afterwards.
    unsafe fn leave<Q: Queue>(here: NonNull<Self>) {
        place::set(std::ptr::null());
        // SAFETY: `enter` has made it of a box, and of such a core.
        unsafe {
            here.as_ref().settle::<Q>();
            drop(Box::from_raw(here.as_ptr()));
        }
    }

    /// Gives all credit back.
    ///
    /// # Safety
    /// The core is of this type.
    unsafe fn settle<Q: Queue>(&self) {
        let word = self.credit().get();
        let credit = Credit::handles(word);
        if let Some(core) = NonNull::new(self.core.cast::<Core<Q>>().cast_mut()).filter(|_| credit > 0) {
            self.credit().set(word + Credit::CHANGE - credit);
            // SAFETY: `enter` had it of an `Arc`, and so many handles are counted that there are not.
            unsafe { Core::return_credit(core, credit as usize) };
        }
    }
}

// %% [markdown]
// ## The life of a worker
//
// Run the jobs that are there; when there are none, search; when none is found for a while, sleep. The search is where a
// worker meets the threads that submit. Between `announce` and `sleep` it looks at everything that could have happened in the
// meantime: a job, the end of the pool, the last handle. (A worker that waits for a half
// of a `join`, see below, searches as well, and stops when `is_so`.)

// %%
impl<Q: Queue> Core<Q> {
    /// A job, or `None` when the pool ends, or when `is_so`. The caller is one of so many searchers; with a job, it is no
    /// longer one.
    fn search(
        &self,
        searching: usize,
        worker: usize,
        local: &Q::Local,
        here: &CurrentWorker,
        is_so: impl Fn() -> bool,
    ) -> Option<Job> {
        let impatient = if searching > self.searchers { PATIENCE.0 + PATIENCE.1 } else { 0 };
        let mut turn = impatient;
        loop {
            if self.sleep.closed() || is_so() {
                return None;
            }
            if let Some(job) = self.queue.find(local) {
                if self.sleep.found() && !self.queue.is_empty() {
                    self.sleep.offer(Wakes::OneAtATime);
                }
                return Some(job);
            }
            if !wait(turn) {
                turn += 1;
                continue;
            }
            // SAFETY: the caller has entered with this core.
            unsafe { here.settle::<Q>() };
            if self.abandoned.load(Ordering::Acquire) {
                // What was submitted before the last handle went can be found by now.
                let last = self.queue.find(local);
                if last.is_some() {
                    self.sleep.found();
                }
                return last;
            }
            if !self.parks {
                thread::yield_now();
                continue;
            }
            self.sleep.announce(worker);
            let ends = self.sleep.closed() || self.abandoned.load(Ordering::Relaxed);
            if ends || !self.queue.is_empty() {
                self.sleep.stay(worker);
            } else {
                self.sleep.sleep_until(worker, &is_so);
            }
            turn = 0;
        }
    }
}

// %% [markdown]
// Around the search, the loop of a worker: all its own jobs first, then a search for others.

// %%
impl<Q: Queue> Core<Q> {
    /// Runs jobs until the pool ends; a thread of its own, counted as searching.
    fn work(this: &Arc<Self>, worker: usize, local: Q::Local) {
        let entered = CurrentWorker::enter(this, worker, &local);
        // SAFETY: it is not freed before `leave`.
        let here = unsafe { entered.as_ref() };
        this.sleep.begin(worker);
        let mut searching = 1;
        while let Some(mut job) = this.search(searching, worker, &local, here, || false) {
            loop {
                this.run(job);
                if this.sleep.closed() {
                    break;
                }
                match this.queue.next(&local).or_else(|| this.queue.find(&local)) {
                    Some(next) => job = next,
                    None => break,
                }
            }
            searching = this.sleep.search();
        }
        this.sleep.found();
        if this.sleep.closed() {
            // Still as a worker: a destructor may shut the pool down, which must not wait for itself.
            this.sweep(|| this.queue.next(&local));
            this.sweep(|| this.queue.take());
        }
        // SAFETY: it has entered above, and no job runs here any more.
        unsafe { CurrentWorker::leave::<Q>(entered) };
        // The last thing that a worker does with the pool.
        this.live.one_less();
    }
}

// %% [markdown]
// ## The handle
//
// A handle is a pointer to the core. All handles together own one reference to it.

// %%
/// A pool's handle. Jobs may hold clones of it and submit further jobs; those go to the queue of their worker.
///
/// When the last handle is dropped, what was submitted is still run, and then the workers end, without being waited for.
pub struct Pool<Q: Queue> {
    core: NonNull<Core<Q>>,
}

// SAFETY: a core is shared by all workers anyway; a handle only refers to it.
unsafe impl<Q: Queue> Send for Pool<Q> {}
// SAFETY: as above.
unsafe impl<Q: Queue> Sync for Pool<Q> {}

impl<Q: Queue> Pool<Q> {
    #[inline]
    fn core(&self) -> &Core<Q> {
        // SAFETY: all handles together own one reference to it.
        unsafe { self.core.as_ref() }
    }
}

// %% [markdown]
// Cloned or dropped on a worker, a handle only moves that worker's credit.

// %%
impl<Q: Queue> Clone for Pool<Q> {
    #[inline]
    fn clone(&self) -> Self {
        CurrentWorker::with(self.core, |here| match here {
            None => self.core().add_handles(1),
            Some(here) => {
                let mut word = here.credit().get();
                if Credit::handles(word) == 0 {
                    self.core().add_handles(CREDIT);
                    word += CREDIT as u64;
                }
                here.credit().set(word + Credit::CHANGE - 1);
            }
        });
        Self { core: self.core }
    }
}

// %% [markdown]
// A worker that has collected too much credit gives some of it back.

// %%
impl<Q: Queue> Drop for Pool<Q> {
    #[inline]
    fn drop(&mut self) {
        CurrentWorker::with(self.core, |here| match here {
            // SAFETY: it was counted, and is going.
            None => unsafe { Core::drop_handle(self.core) },
            Some(here) => {
                let word = here.credit().get() + Credit::CHANGE + 1;
                if Credit::handles(word) <= 2 * CREDIT as u64 {
                    here.credit().set(word);
                } else {
                    here.credit().set(word - CREDIT as u64);
                    // SAFETY: more than that are counted here which are no more.
                    unsafe { Core::return_credit(self.core, CREDIT) };
                }
            }
        });
    }
}

// %% [markdown]
// ## Submitting, and the end
//
// `shutdown` is for callers that cannot wait: no more jobs are taken, every worker ends after the job that it is
// running, and what is queued is dropped, so that its destructors run: at once, for a job may wait for another one that
// will not run any more. It says how many workers are not done when the time is up. Nothing is lost by dropping the
// handles instead, which runs all that was submitted.

// %%
/// The pool takes no more jobs. The one that was offered is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// So many workers were still running a job when the time was up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy(pub usize);

impl<Q: Queue> Pool<Q> {
    /// Starts the workers.
    ///
    /// # Panics
    /// If there are none or too many, or the system refuses a thread; those that it gave have ended by then.
    pub fn start(settings: Settings) -> Self {
        // First, since it refuses what is out of bounds.
        let sleep = Sleep::new(settings.workers);
        let (queue, locals) = Q::new(&settings);
        let core = Arc::new(Core {
            queue,
            sleep,
            parks: settings.idle == Idle::Park,
            wakes: settings.wakes,
            searchers: settings.workers.div_ceil(2),
            handles: CachePadded::new(AtomicUsize::new(1)),
            credits: (0..settings.workers).map(|_| CachePadded::default()).collect(),
            abandoned: AtomicBool::new(false),
            live: LiveWorkers::new(settings.workers),
            panics: AtomicUsize::new(0),
        });
        for (worker, local) in locals.into_iter().enumerate() {
            let (named, own) = (thread::Builder::new().name(format!("worker {worker}")), Arc::clone(&core));
            if let Err(refused) = named.spawn(move || Core::work(&own, worker, local)) {
                core.sleep.close();
                (worker..settings.workers).for_each(|_| core.live.one_less());
                core.live.wait(None, LONGEST);
                panic!("the system refuses a thread for worker {worker} of {}: {refused}", settings.workers);
            }
        }
        // SAFETY: an Arc is never null.
        Self { core: unsafe { NonNull::new_unchecked(Arc::into_raw(core).cast_mut()) } }
    }
}

// %% [markdown]
// A job from outside is queued and then offered; one from a worker goes to its own queue, and may wake a sleeper.

// %%
impl<Q: Queue> Core<Q> {
    /// Says whether the pool takes jobs still. If not, the workers may have ended, and would not drop this one.
    #[inline]
    fn submit(&self, job: Job) -> bool {
        self.queue.push(job);
        if self.parks {
            return self.sleep.offer(self.wakes);
        }
        fence(Ordering::SeqCst);
        !self.sleep.closed()
    }

    #[inline]
    fn submit_local(&self, local: &Q::Local, job: Job) -> bool {
        if self.queue.push_local(local, job) == Notify::Sleepers && self.parks {
            self.sleep.hint();
        }
        true
    }
}

// %% [markdown]
// ## Jobs that are not run
//
// Their destructors may do what jobs may: submit, wait for what they submit, shut the pool down, which drops more jobs.
// A job that is refused is dropped at once, since its owner may wait for that. So is what is queued when the pool ends.
// Now and then such a chain of destructors goes on on another thread: a stack has an end.

// %%
/// A thread that is dropping jobs.
struct Dropping {
    /// Of a pool with this core; null for a job that was refused.
    core: *const (),
    /// So many within each other, with this one.
    depth: usize,
    outer: *const Dropping,
}

/// On one thread.
const MOST_WITHIN: usize = 64;

mod dropping {
    use std::cell::Cell;

    use super::Dropping;

    sync::thread_local! {
        static INNERMOST: Cell<*const Dropping> = Cell::new(std::ptr::null());
    }

    pub fn replace(innermost: *const Dropping) -> *const Dropping {
        INNERMOST.with(|place| place.replace(innermost))
    }

    pub fn get() -> *const Dropping {
        INNERMOST.with(Cell::get)
    }
}

impl Dropping {
    /// From the innermost to the outermost.
    fn all<'a>() -> impl Iterator<Item = &'a Self> {
        // SAFETY: they are in frames of this stack that have not ended, see `within`, and so is the caller.
        let innermost = unsafe { dropping::get().as_ref() };
        // SAFETY: the same.
        std::iter::successors(innermost, |dropping| unsafe { dropping.outer.as_ref() })
    }

    fn depth() -> usize {
        Self::all().next().map_or(0, |dropping| dropping.depth)
    }
}

// %% [markdown]
// A refused job is dropped within those that are being dropped, or, deep in them, on another thread.

// %%
impl Dropping {
    /// Calls `work`, which drops jobs, and does not panic.
    fn within(core: *const (), work: impl FnOnce()) {
        let here = Self { core, depth: Self::depth() + 1, outer: dropping::get() };
        dropping::replace(&here);
        work();
        dropping::replace(here.outer);
    }

    /// Calls `work` on another thread, or drops it, and says that the system refuses one.
    fn elsewhere(work: impl FnOnce() + Send + 'static) -> bool {
        thread::Builder::new().spawn(work).is_ok()
    }

    /// Drops a job that is refused.
    #[cold]
    fn refuse(job: Job) {
        if Self::depth() < MOST_WITHIN {
            Self::within(std::ptr::null(), || _ = shielded(|| drop(job)));
        } else {
            shielded(|| _ = Self::elsewhere(move || _ = shielded(|| drop(job))));
        }
    }
}

// %% [markdown]
// A *sweep* drops all that is queued. Each worker does so at its end, and so does the thread that shuts the pool down, or
// whose job came just after that. Deep within others it is left to another thread; a thread that sweeps the same pool
// further out goes on there.

// %%
impl<Q: Queue> Core<Q> {
    /// Drops all that `next` finds, each by itself: its destructors may panic.
    fn sweep(&self, mut next: impl FnMut() -> Option<Job>) {
        Dropping::within(std::ptr::from_ref(self).cast(), || {
            while let Some(job) = next() {
                shielded(|| drop(job));
            }
        });
    }
}

impl<Q: Queue> Pool<Q> {
    /// Drops all queued jobs; before it waits, for workers may wait for that.
    #[cold]
    fn sweep(&self, waits: bool) {
        let core: *const () = self.core.as_ptr().cast_const().cast();
        let is_deep = Dropping::depth() >= MOST_WITHIN;
        if is_deep && !waits && Dropping::all().any(|dropping| dropping.core == core) {
            return; // this thread goes on with it, further out
        }
        let sweep = |core: &Core<Q>| core.sweep(|| core.queue.take());
        let pool = is_deep.then(|| self.clone());
        if !pool.is_some_and(|pool| Dropping::elsewhere(move || sweep(pool.core()))) {
            sweep(self.core());
        }
    }
}

// %% [markdown]
// These are the methods that a user calls.

// %%
impl<Q: Queue> Pool<Q> {
    /// Runs this closure once, on any worker, or drops it if the pool is shut down before. A job that is submitted by a job
    /// may wait until that one has ended.
    ///
    /// # Errors
    /// `Closed` after `shutdown`.
    #[inline]
    pub fn execute(&self, closure: impl FnOnce() + Send + 'static) -> Result<(), Closed> {
        let core = self.core();
        if core.sleep.closed() {
            Dropping::refuse(Job::new(closure));
            return Err(Closed);
        }
        // Not before: a job that lives across a branch is copied once more.
        let job = Job::new(closure);
        let open = CurrentWorker::with(self.core, |here| match here {
            // SAFETY: `CurrentWorker` says that this thread is a worker of this very core, so its local is of this
            // type, and alive.
            Some(here) => core.submit_local(unsafe { &*here.local.cast::<Q::Local>() }, job),
            None => core.submit(job),
        });
        if !open {
            self.sweep(false);
        }
        Ok(())
    }

    /// Ends the pool as soon as the jobs that are running now have ended, and waits for that, for so long at most.
    /// Queued jobs are dropped. May be called by a job of this or another pool, which waits neither for itself nor for
    /// jobs that are in a `shutdown`, too.
    ///
    /// # Errors
    /// `Busy` when the time is up; the workers that are left end after their job, without being waited for.
    pub fn shutdown(&self, limit: Duration) -> Result<(), Busy> {
        let core = self.core();
        core.sleep.close();
        self.sweep(!limit.is_zero());
        match CurrentWorker::with_any(|here| core.live.wait(here.map(CurrentWorker::live), limit)) {
            0 => Ok(()),
            left => Err(Busy(left)),
        }
    }

    /// How many workers sleep right now.
    pub fn sleeping(&self) -> usize {
        self.core().sleep.idle.resting()
    }

    /// How many jobs have panicked so far; after the largest number it begins anew.
    pub fn panics(&self) -> usize {
        self.core().panics.load(Ordering::Relaxed)
    }
}

// %% [markdown]
// ## What is measured
//
// The measuring program makes, gives jobs to and ends a pool by the trait `Subject`. Here are the settings in the type.

// %%
/// One of our pools, and what it is made with. `LEAN_SETTINGS`: how many of three are the lean
/// ones: which workers are woken, the clock, the order of victims.
pub struct Ours<Q: Queue, const PARKS: bool = true, const TIMED: bool = true, const LEAN_SETTINGS: u8 = 3>(
    pub Pool<Q>,
);

impl<Q: Queue, const PARKS: bool, const TIMED: bool, const LEAN_SETTINGS: u8> Clone
    for Ours<Q, PARKS, TIMED, LEAN_SETTINGS>
{
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Jobs that a worker runs before it looks outside, where that is counted; the original's number.
const COUNTED: Fairness = Fairness::Counted(100);

impl<Q: Queue, const PARKS: bool, const TIMED: bool, const LEAN_SETTINGS: u8> Subject
    for Ours<Q, PARKS, TIMED, LEAN_SETTINGS>
{
    fn make(workers: usize) -> Self {
        let usual = Settings::new(workers);
        let idle = if PARKS { Idle::Park } else { Idle::NeverPark };
        let wakes = if LEAN_SETTINGS < 1 { Wakes::EveryJob } else { usual.wakes };
        let fairness = match usual.fairness {
            _ if !TIMED => COUNTED,
            Fairness::Timed(time) if LEAN_SETTINGS < 2 => Fairness::Clocked(time),
            timed => timed,
        };
        Self(Pool::start(Settings { idle, wakes, fairness, shuffled: LEAN_SETTINGS < 3, ..usual }))
    }

    #[inline]
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        // A pool that is ended drops what it is given, as the originals do.
        let _ = self.0.execute(job);
    }

    fn end(self) {
        self.0.shutdown(END).expect("jobs of the measuring program are short");
    }
}

// %% [markdown]
// # CBCP: one shared channel
//
// One unbounded channel of crossbeam for all: first come, first served, wherever a job comes from. The channel can
// block its receivers, which the original makes use of. Ours sleep by the rules above instead.

// %%
/// Jobs in one channel.
pub struct SharedChannel {
    sender: Sender<Job>,
    receiver: Receiver<Job>,
}

/// The pool with one shared crossbeam channel.
pub type Cbcp = Pool<SharedChannel>;

impl Queue for SharedChannel {
    type Local = ();

    fn new(settings: &Settings) -> (Self, Vec<()>) {
        let (sender, receiver) = crossbeam_channel::unbounded();
        (Self { sender, receiver }, vec![(); settings.workers])
    }

    #[inline]
    fn push(&self, job: Job) {
        self.sender.send(job).expect("the receiver is beside it");
    }

    #[inline]
    fn push_local(&self, (): &(), job: Job) -> Notify {
        self.push(job);
        Notify::Sleepers
    }

    #[inline]
    fn next(&self, (): &()) -> Option<Job> {
        self.receiver.try_recv().ok()
    }

    fn find(&self, (): &()) -> Option<Job> {
        self.receiver.try_recv().ok()
    }

    fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    fn take(&self) -> Option<Job> {
        self.receiver.try_recv().ok()
    }
}

// %% [markdown]
// A glance at it: jobs that do nothing from one thread to two workers.

// %% tags=["active-ipynb", "glance"]
// use thread_pools_described::{DescribedCbcp, DescribedCbwp, JOBS, jobs};
// harness::Glance::at("job")
//     .each_of(JOBS)
//     .look("CBCP as described", jobs::<DescribedCbcp<false>>)
//     .look("lean CBCP", jobs::<Ours<SharedChannel>>)
//     .show()

// %% [markdown]
// # CBWP: work stealing
//
// A global queue, the *injector*, takes what comes from outside. Every worker has a deque of its own, first in, first
// out, from which others may steal. A worker that has nothing takes a batch from the injector, up to 32 jobs and one to
// run at once; if that is empty, it steals from the others, each worker in another order.
//
// **Fairness.** Workers that feed themselves would never look at the injector. The original reads the clock after every
// job, and looks outside once a millisecond; or it counts to a hundred. We read the clock only if something *is*
// outside. As long as the injector is empty, no job waits outside, and to see that it is empty takes two reads of memory
// that is not written. When it is not empty, the millisecond begins.
//
// Even then the clock would be read after every job. The processor's own counter can be read instead, but its rate is
// not documented. It is enough to know that it ticks once a nanosecond *or faster*: as many ticks as there are
// nanoseconds left cannot take longer than that. So the counter says when it is worth reading the clock, and the clock
// decides.

// %%
/// A moment to come.
#[derive(Clone, Copy)]
struct Deadline {
    moment: Instant,
    /// The clock need not be read before the counter has this value.
    tick: u64,
}

impl Deadline {
    fn after(time: Duration) -> Self {
        let time = time.min(LONGEST);
        Self { moment: Instant::now() + time, tick: ticks().saturating_add(time.as_nanos() as u64) }
    }

    /// Whether it has passed, and if not, the same with a later tick.
    #[inline]
    fn passed(self) -> Result<(), Self> {
        if ticks() < self.tick {
            return Err(self);
        }
        let left = self.moment.saturating_duration_since(Instant::now());
        if left.is_zero() { Ok(()) } else { Err(Self::after(left)) }
    }
}

/// A counter that ticks once a nanosecond or faster: the base clock of processors that have it is above 1 GHz. Where
/// there is none, its last value, so that the clock is read every time.
#[inline]
fn ticks() -> u64 {
    // SAFETY: every processor of this architecture has the instruction.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    return u64::MAX;
}

// %% [markdown]
// The state of the pool, and of each worker:

// %%
/// Jobs in an injector, and in a deque for each worker.
pub struct Stealing {
    injector: Injector<Job>,
    stealers: Box<[Stealer<Job>]>,
    fairness: Fairness,
}

/// The pool with work stealing.
pub type Cbwp = Pool<Stealing>;

/// The deque of a worker.
pub struct Deque {
    worker: usize,
    jobs: Worker<Job>,
    /// From whom it steals, in this order; from those that come next, without.
    victims: Option<Box<[usize]>>,
    /// Jobs since it has looked outside.
    turns: Cell<u32>,
    /// When it will look outside, once something was seen there.
    deadline: Cell<Option<Deadline>>,
}

impl Deque {
    fn new(worker: usize, jobs: Worker<Job>, settings: &Settings) -> Self {
        let victims = settings.shuffled.then(|| {
            let mut victims: Box<[usize]> = (0..settings.workers).filter(|other| *other != worker).collect();
            fastrand::shuffle(&mut victims);
            victims
        });
        Self { worker, jobs, victims, turns: Cell::new(0), deadline: Cell::new(None) }
    }
}

// %% [markdown]
// A worker asks after each job whether it is time to look outside.

// %%
/// Steals until it is known whether there is something.
fn steal(mut from: impl FnMut() -> Steal<Job>) -> Option<Job> {
    loop {
        match from() {
            Steal::Success(job) => return Some(job),
            Steal::Empty => return None,
            Steal::Retry => std::hint::spin_loop(),
        }
    }
}

impl Stealing {
    /// Whether it is time to look outside, now that a job has ended.
    #[inline]
    fn is_due(&self, own: &Deque) -> bool {
        match (self.fairness, own.deadline.get()) {
            (Fairness::Counted(limit), _) => {
                own.turns.set(own.turns.get() + 1);
                own.turns.get() >= limit
            }
            (Fairness::Clocked(_), Some(deadline)) => Instant::now() > deadline.moment,
            (Fairness::Clocked(limit), None) => {
                own.deadline.set(Some(Deadline::after(limit)));
                false
            }
            (Fairness::Timed(_), Some(deadline)) => {
                let passed = deadline.passed();
                own.deadline.set(passed.err());
                passed.is_ok()
            }
            (Fairness::Timed(limit), None) => {
                if !self.injector.is_empty() {
                    own.deadline.set(Some(Deadline::after(limit)));
                }
                false
            }
        }
    }

    /// One job from outside, and up to 32 more into the worker's deque.
    fn look_outside(&self, own: &Deque) -> Option<Job> {
        own.turns.set(0);
        own.deadline.set(None);
        steal(|| self.injector.steal_batch_and_pop(&own.jobs))
    }
}

// %% [markdown]
// Own jobs first, then a batch from outside, then the deques of others.

// %%
impl Queue for Stealing {
    type Local = Deque;

    fn new(settings: &Settings) -> (Self, Vec<Deque>) {
        let jobs: Vec<Worker<Job>> = (0..settings.workers).map(|_| Worker::new_fifo()).collect();
        let stealers = jobs.iter().map(Worker::stealer).collect();
        let of_worker = |(worker, jobs)| Deque::new(worker, jobs, settings);
        let locals = jobs.into_iter().enumerate().map(of_worker).collect();
        (Self { injector: Injector::new(), stealers, fairness: settings.fairness }, locals)
    }

    #[inline]
    fn push(&self, job: Job) {
        self.injector.push(job);
    }

    #[inline]
    fn push_local(&self, own: &Deque, job: Job) -> Notify {
        own.jobs.push(job);
        // One job is for this worker itself. If there are more, others may help.
        if own.jobs.len() > 1 { Notify::Sleepers } else { Notify::None }
    }

    #[inline]
    fn next(&self, own: &Deque) -> Option<Job> {
        if self.is_due(own)
            && let Some(job) = self.look_outside(own)
        {
            return Some(job);
        }
        own.jobs.pop()
    }

    fn find(&self, own: &Deque) -> Option<Job> {
        self.look_outside(own).or_else(|| {
            let workers = self.stealers.len();
            (1..workers).find_map(|distance| {
                let next = (own.worker + distance) % workers;
                let victim = own.victims.as_ref().map_or(next, |victims| victims[distance - 1]);
                steal(|| self.stealers[victim].steal())
            })
        })
    }

    fn is_empty(&self) -> bool {
        self.injector.is_empty() && self.stealers.iter().all(Stealer::is_empty)
    }

    fn take(&self) -> Option<Job> {
        let of_a_worker = |stealer: &Stealer<Job>| steal(|| stealer.steal());
        steal(|| self.injector.steal()).or_else(|| self.stealers.iter().find_map(of_a_worker))
    }
}

// %% [markdown]
// The same glance with this one, which may never park, too:

// %% tags=["active-ipynb", "glance"]
// harness::Glance::at("job")
//     .each_of(JOBS)
//     .look("CBWP as described", jobs::<DescribedCbwp<true, true, false>>)
//     .look("lean CBCP", jobs::<Ours<SharedChannel>>)
//     .look("lean CBWP", jobs::<Ours<Stealing>>)
//     .look("lean CBWP, never parks", jobs::<Ours<Stealing, false>>)
//     .show()

// %% [markdown]
// # Join: run a half from the caller's stack frame
//
// A computation that splits into two halves may submit one of them as a job. Then a handle is cloned, a job is written
// to a queue and read again, and the halves have to be counted to know when all have ended. But if the function that
// splits returns only when both halves have ended, all that a half needs can stay in the frame of that function. This is
// `join(a, b)`, as in rayon: offer a pointer to `b`, run `a`, and take `b` back. If another worker has stolen it in the
// meantime, work for others until it has ended.
//
// So a *half* is a closure, a place for its result, a mark that it is done, and the thread to be unparked then. The
// frame that holds it must not end while another thread may still touch it: the unsafe part of a join.

// %%
/// What another thread knows of a half.
struct Header {
    run: unsafe fn(NonNull<Header>),
    /// The thread in whose frame it is.
    waiter: NonNull<Thread>,
    /// Set by the thread that has stolen it, which does not touch it afterwards.
    done: AtomicBool,
}

/// What has become of it.
enum Stage<F, R> {
    Waiting(F),
    Running,
    Ended(std::thread::Result<R>),
}

/// A half, in the frame of the function that waits for it.
#[repr(C)]
struct Half<F, R> {
    header: Header,
    stage: Shared<Stage<F, R>>,
}

impl<F: FnOnce() -> R, R> Half<F, R> {
    /// The waiter has to outlive it.
    fn new(code: F, waiter: &Thread) -> Self {
        let header = Header { run: Self::run, waiter: waiter.into(), done: AtomicBool::new(false) };
        Self { header, stage: Shared::new(Stage::Waiting(code)) }
    }

    /// Of the half as a whole.
    fn header(&self) -> NonNull<Header> {
        NonNull::from(self).cast()
    }

    /// # Safety
    /// No other thread does so at the same time.
    unsafe fn replace(&self, stage: Stage<F, R>) -> Stage<F, R> {
        // SAFETY: the caller's promise.
        self.stage.with_mut(|place| unsafe { place.replace(stage) })
    }

    /// # Safety
    /// `header` is that of such a half, which is alive, and which no other thread replaces or runs.
    unsafe fn run(header: NonNull<Header>) {
        // SAFETY: the caller's promise; the header comes first.
        let half = unsafe { header.cast::<Self>().as_ref() };
        // SAFETY: the caller's promise.
        if let Stage::Waiting(code) = unsafe { half.replace(Stage::Running) } {
            let ended = Stage::Ended(catch_unwind(AssertUnwindSafe(code)));
            // SAFETY: the same.
            unsafe { half.replace(ended) };
        }
    }
}

// %% [markdown]
// A thread that has stolen a half runs it, or gives it back by dropping it: that happens to a half in a queue when the
// pool is shut down. Either way it is done, and this is the last that the thread does with it.

// %%
/// A half that this thread alone may run.
struct Stolen(NonNull<Header>);

// SAFETY: what a half holds is `Send`, see `Pool::join`, and its waiter is a `Thread`.
unsafe impl Send for Stolen {}

impl Stolen {
    fn run(self) {
        // SAFETY: the half is alive until it is done, and this thread alone may run it.
        unsafe { (self.0.as_ref().run)(self.0) }
    }

    fn into_job(self) -> Job {
        Job::new(move || self.run())
    }
}

impl Drop for Stolen {
    fn drop(&mut self) {
        // SAFETY: until it is done, the half is alive, and so is its waiter.
        let (waiter, done) =
            unsafe { (self.0.as_ref().waiter.as_ref().clone(), &raw const (*self.0.as_ptr()).done) };
        // SAFETY: the same; nothing of it is used after this store.
        unsafe { (*done).store(true, Ordering::Release) };
        waiter.unpark();
    }
}

/// Does not end before the half is done.
struct Awaits<'a>(&'a AtomicBool);

impl Awaits<'_> {
    fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Awaits<'_> {
    fn drop(&mut self) {
        while !self.is_done() {
            thread::park();
        }
    }
}

// %% [markdown]
// ## Where thieves find halves
//
// The worker takes back its newest half first (LIFO). Thieves steal the oldest first, since it is likely the largest.
// This is the deque of [Chase and Lev](https://doi.org/10.1145/1073970.1073974). rayon uses crossbeam's. Ours never
// grows, stores pointers and so needs no `unsafe`, and loom can model it. When 256 halves are open on a worker, there
// is enough to steal; a further one is not offered, and runs after `a` as an ordinary call.
//
// The worker and a thief may want the same last half. Without a fence each could miss the other's write, and both would
// run it. So taking back a *shared* half needs a fence; rayon pays it for every half. A worker shares only its oldest
// halves, as many as there are other workers; the rest are private and need none. This is a split deque, as in
// [Lace](https://doi.org/10.1007/978-3-319-14313-2_18). In a tree, most halves are private. When thieves have taken
// some, the next join shares more. A worker that shares a half also sees to it that a sleeper wakes. The price: a
// worker that goes on for long without a join shares nothing in the meantime.

// %%
/// So many halves are open on a worker at most.
const OPEN: u64 = if cfg!(under_loom) { 2 } else { 256 };

/// The halves that are open on a worker, by their number. Thieves may take those from `oldest` to `shared`, in this order.
pub struct Halves<T> {
    oldest: CachePadded<AtomicU64>,
    /// Written by the worker only, as are the slots.
    shared: CachePadded<AtomicU64>,
    slots: [AtomicPtr<T>; OPEN as usize],
}

impl<T> Default for Halves<T> {
    fn default() -> Self {
        let slots = std::array::from_fn(|_| AtomicPtr::new(null_mut()));
        Self { oldest: CachePadded::default(), shared: CachePadded::default(), slots }
    }
}

impl<T> Halves<T> {
    fn slot(&self, number: u64) -> &AtomicPtr<T> {
        &self.slots[(number % OPEN) as usize]
    }

    /// Whether a thief finds none.
    pub fn is_empty(&self) -> bool {
        self.oldest.load(Ordering::Relaxed) >= self.shared.load(Ordering::Relaxed)
    }

    /// The oldest one, for a thief.
    pub fn steal(&self) -> Option<NonNull<T>> {
        while !self.is_empty() {
            let oldest = self.oldest.load(Ordering::Relaxed);
            // Here and in `take_back`: of a thief and the worker that are after the same half, one sees the other.
            fence(Ordering::SeqCst);
            // With it comes what was written before the half was shared.
            if oldest < self.shared.load(Ordering::Acquire) {
                let half = self.slot(oldest).load(Ordering::Relaxed);
                if self.claim(oldest) {
                    return NonNull::new(half);
                }
            }
        }
        None
    }

    /// Takes this one, if it is the oldest. (`Release`: the slot has been read before the worker writes to it again.)
    fn claim(&self, half: u64) -> bool {
        loop {
            match self.oldest.compare_exchange_weak(half, half + 1, Ordering::Release, Ordering::Relaxed) {
                Err(oldest) if oldest == half => {}
                claimed => return claimed.is_ok(),
            }
        }
    }
}

// %% [markdown]
// The side of the worker, which knows the number of its next half.

// %%
impl<T> Halves<T> {
    /// Opens a half, and shares the oldest ones, so many at most. Says whether it has shared any; `None` if there is no
    /// room.
    #[inline]
    pub fn push(&self, next: &Cell<u64>, half: NonNull<T>, most: u64) -> Option<bool> {
        let (number, oldest) = (next.get(), self.oldest.load(Ordering::Acquire));
        if number - oldest >= OPEN {
            return None;
        }
        self.slot(number).store(half.as_ptr(), Ordering::Relaxed);
        next.set(number + 1);
        let shared = (oldest + most).min(number + 1);
        let more = shared > self.shared.load(Ordering::Relaxed);
        if more {
            self.shared.store(shared, Ordering::Release);
        }
        Some(more)
    }

    /// Takes the youngest half back. Says whether that was still there; if not, none is open.
    #[inline]
    pub fn take_back(&self, next: &Cell<u64>) -> bool {
        let youngest = next.get() - 1;
        if youngest < self.shared.load(Ordering::Relaxed) {
            return self.take_shared_back(next, youngest);
        }
        next.set(youngest);
        true
    }

    fn take_shared_back(&self, next: &Cell<u64>, youngest: u64) -> bool {
        // (`Release`: a thief that sees this one may have seen no other.)
        self.shared.store(youngest, Ordering::Release);
        fence(Ordering::SeqCst);
        let oldest = self.oldest.load(Ordering::Relaxed);
        if oldest < youngest {
            next.set(youngest);
            return true;
        }
        // The last one: thieves may have seen it before.
        let taken = oldest == youngest && self.claim(youngest);
        self.shared.store(youngest + 1, Ordering::Relaxed);
        taken
    }
}

// %% [markdown]
// ## The queue of a pool that knows halves
//
// It is one of the queues above, and such halves for each worker. A worker looks for halves before it looks for jobs, so
// that what has begun ends first. (Its own jobs come before both, and so do those from outside that have waited long.)

// %%
/// Another queue, and halves for each worker.
pub struct Forking<Q> {
    queue: Q,
    halves: Box<[CachePadded<Halves<Header>>]>,
}

/// What a worker has for itself: that of the other queue, and what it knows of its halves.
pub struct Own<L> {
    local: L,
    worker: usize,
    /// The number of its next half.
    next: Cell<u64>,
    thread: OnceCell<Thread>,
}

impl<Q: Queue> Forking<Q> {
    fn steal(&self, own: &Own<Q::Local>) -> Option<Stolen> {
        let (before, from_own) = self.halves.split_at(own.worker);
        // A half that is open is alive, and the thread that takes it out of there alone may run it.
        from_own.iter().skip(1).chain(before).find_map(|halves| halves.steal()).map(Stolen)
    }
}

// %% [markdown]
// To the pool it is a queue like the others: jobs go to the one within, and a worker without any looks at the halves of the
// others first.

// %%
impl<Q: Queue> Queue for Forking<Q> {
    type Local = Own<Q::Local>;

    fn new(settings: &Settings) -> (Self, Vec<Self::Local>) {
        let (queue, locals) = Q::new(settings);
        let halves = (0..settings.workers).map(|_| CachePadded::default()).collect();
        let own = |(worker, local)| Own { local, worker, next: Cell::new(0), thread: OnceCell::new() };
        (Self { queue, halves }, locals.into_iter().enumerate().map(own).collect())
    }

    #[inline]
    fn push(&self, job: Job) {
        self.queue.push(job);
    }

    #[inline]
    fn push_local(&self, own: &Self::Local, job: Job) -> Notify {
        self.queue.push_local(&own.local, job)
    }

    #[inline]
    fn next(&self, own: &Self::Local) -> Option<Job> {
        self.queue.next(&own.local)
    }

    fn find(&self, own: &Self::Local) -> Option<Job> {
        // A worker that waits for a half does not come to its own jobs otherwise.
        let jobs = || self.queue.next(&own.local).or_else(|| self.queue.find(&own.local));
        self.steal(own).map(Stolen::into_job).or_else(jobs)
    }

    fn is_empty(&self) -> bool {
        self.halves.iter().all(|halves| halves.is_empty()) && self.queue.is_empty()
    }

    /// Not a half: its worker takes it back.
    fn take(&self) -> Option<Job> {
        self.queue.take()
    }
}

// %% [markdown]
// In a pool used only for joins, the only jobs are the roots of computations, so a locked list is enough. `lean join`
// measures this pool.

// %%
/// Jobs in one list behind a mutex, where they are few.
#[derive(Default)]
pub struct Listed(Mutex<VecDeque<Job>>);

impl Listed {
    fn jobs(&self) -> MutexGuard<'_, VecDeque<Job>> {
        self.0.lock().expect("no thread panics with the list")
    }
}

impl Queue for Listed {
    type Local = ();

    fn new(settings: &Settings) -> (Self, Vec<()>) {
        (Self::default(), vec![(); settings.workers])
    }

    fn push(&self, job: Job) {
        self.jobs().push_back(job);
    }

    fn push_local(&self, (): &(), job: Job) -> Notify {
        self.push(job);
        Notify::Sleepers
    }

    fn next(&self, (): &()) -> Option<Job> {
        self.take()
    }

    fn find(&self, (): &()) -> Option<Job> {
        self.take()
    }

    fn is_empty(&self) -> bool {
        self.jobs().is_empty()
    }

    fn take(&self) -> Option<Job> {
        self.jobs().pop_front()
    }
}

// %% [markdown]
// ## The join
//
// Both halves are run, whatever becomes of the other one: a panic of `a` is kept until `b` has ended. The panic is
// caught first: a worker that waits may run stolen halves, and during unwinding `thread::panicking()` would be true in
// them.
//
// Joins nest: those inside `a` have ended when `a` ends. So this worker's newest open half is `b`, unless it was
// stolen.

// %%
/// The results of both halves, of which the first has ended. Panics with the panic of the first, or else of the second.
#[inline]
fn both<A, B>(a: std::thread::Result<A>, b: Stage<impl FnOnce() -> B, B>) -> (A, B) {
    match (a, b) {
        (Ok(a), Stage::Waiting(b)) => (a, b()),
        (Ok(a), Stage::Ended(Ok(b))) => (a, b),
        (Ok(_), Stage::Ended(Err(panic))) => resume_unwind(panic),
        (Ok(_), Stage::Running) => unreachable!("the thread that runs it ends it"),
        (Err(panic), b) => {
            shielded(|| if let Stage::Waiting(b) = b { drop(b()) } else { drop(b) });
            resume_unwind(panic)
        }
    }
}

impl<Q: Queue> Core<Forking<Q>> {
    /// On a worker of this core.
    #[inline]
    fn join<A, B>(
        &self,
        own: &Own<Q::Local>,
        here: &CurrentWorker,
        a: impl FnOnce() -> A,
        b: impl FnOnce() -> B,
    ) -> (A, B) {
        let halves = &*self.queue.halves[own.worker];
        let half = Half::new(b, own.thread.get_or_init(thread::current));
        let others = self.queue.halves.len() as u64 - 1;
        let open = halves.push(&own.next, half.header(), others);
        if open == Some(true) && self.parks {
            self.sleep.offer(Wakes::OneAtATime);
        }
        let a = catch_unwind(AssertUnwindSafe(a));
        if open.is_some() && !halves.take_back(&own.next) {
            self.wait(own, here, &half.header.done);
        }
        // SAFETY: it was not offered, or taken back, or it is done.
        both(a, unsafe { half.replace(Stage::Running) })
    }

    /// Works for others until a half is done. When the pool ends, it only waits.
    #[cold]
    fn wait(&self, own: &Own<Q::Local>, here: &CurrentWorker, done: &AtomicBool) {
        let half = Awaits(done);
        while !half.is_done() && !self.sleep.closed() {
            let searching = self.sleep.search();
            if let Some(job) = self.search(searching, own.worker, own, here, || half.is_done()) {
                self.run(job);
            } else if self.sleep.found() && !self.queue.is_empty() {
                self.sleep.offer(Wakes::OneAtATime);
            }
        }
    }
}

// %% [markdown]
// A thread that is no worker hands its join over to one, and waits. If the pool is shut down, the join comes back as a
// half that did not run, and the thread calls both closures itself, one after the other. So does a worker of another
// pool: if workers of two pools waited for each other, both pools might wait for ever.

// %%
impl<Q: Queue> Pool<Forking<Q>> {
    /// Calls both closures, perhaps at the same time, and returns when both have ended. Meanwhile a worker may run other
    /// jobs.
    ///
    /// # Panics
    /// With the panic of `a`, or else of `b`.
    #[inline]
    pub fn join<A: Send, B: Send>(
        &self,
        a: impl FnOnce() -> A + Send,
        b: impl FnOnce() -> B + Send,
    ) -> (A, B) {
        let in_turn = |a, b| both(catch_unwind(AssertUnwindSafe(a)), Stage::Waiting(b));
        self.fork(a, b, |a, b| {
            if CurrentWorker::with_any(|here| here.is_some()) {
                return in_turn(a, b);
            }
            self.inside(|| self.fork(a, b, in_turn))
        })
    }

    /// Joins on a worker of this pool; on any other thread, does as is said.
    #[inline]
    fn fork<F: FnOnce() -> A, A, G: FnOnce() -> B, B>(
        &self,
        a: F,
        b: G,
        elsewhere: impl FnOnce(F, G) -> (A, B),
    ) -> (A, B) {
        CurrentWorker::with(self.core, |here| match here {
            Some(here) => {
                // SAFETY: `CurrentWorker` says that this thread is a worker of this very core, so its local is of this
                // type, and alive.
                let own = unsafe { &*here.local.cast::<Own<Q::Local>>() };
                self.core().join(own, here, a, b)
            }
            None => elsewhere(a, b),
        })
    }
}

// %% [markdown]
// A thread that is no worker hands the first call over, as a half of its own frame, and waits.

// %%
impl<Q: Queue> Pool<Forking<Q>> {
    /// Calls `work` on a worker, and waits for it; here, if the pool takes no jobs.
    #[cold]
    fn inside<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        let waiter = thread::current();
        let half = Half::new(work, &waiter);
        let (core, ends) = (self.core(), Awaits(&half.header.done));
        let job = Stolen(half.header()).into_job();
        if core.sleep.closed() {
            drop(job);
        } else if !core.submit(job) {
            self.sweep(false);
        }
        drop(ends);
        // SAFETY: it is done.
        match unsafe { half.replace(Stage::Running) } {
            Stage::Waiting(work) => work(),
            Stage::Ended(ended) => ended.unwrap_or_else(|panic| resume_unwind(panic)),
            Stage::Running => unreachable!("the thread that runs it ends it"),
        }
    }
}

// %% [markdown]
// At a glance: a tree of 2,047 calls by `join`, with one worker, where nothing is shared, and with two; each tree
// includes the handover from the calling thread.

// %% tags=["active-ipynb", "glance"]
// fn tree(pool: &Pool<Forking<Listed>>, levels: u32) -> u64 {
//     if levels == 0 {
//         return std::hint::black_box(1);
//     }
//     let (a, b) = pool.join(|| tree(pool, levels - 1), || tree(pool, levels - 1));
//     a + b
// }
// let pools = [1, 2].map(|workers| Pool::start(Settings::new(workers)));
// harness::Glance::at("tree of 2,047 calls")
//     .look("one worker", |bencher: &mut harness::Bencher| bencher.iter(&mut || assert_eq!(tree(&pools[0], 10), 1 << 10)))
//     .look("two workers", |bencher: &mut harness::Bencher| bencher.iter(&mut || assert_eq!(tree(&pools[1], 10), 1 << 10)))
//     .show()

// %% [markdown]
// # From the described pools to the lean ones
//
// What does each of our changes contribute? That can be asked for one at a time, from one pool to the other. Two of
// them can be taken back around a lean pool: its closures can be put in boxes, and its handles can be counted in one
// place. The others are settings of our pool: `wakes`, `fairness` and `shuffled`.

// %%
/// A pool that is given boxes.
#[derive(Clone)]
pub struct InBoxes<P>(P);

impl<P: Subject> Subject for InBoxes<P> {
    fn make(workers: usize) -> Self {
        Self(P::make(workers))
    }

    #[inline]
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        let job: Box<dyn FnOnce() + Send> = Box::new(job);
        self.0.execute(job);
    }

    fn end(self) {
        self.0.end();
    }
}

/// A pool whose handles are counted in one place.
#[derive(Clone)]
pub struct InOnePlace<P>(std::sync::Arc<P>);

impl<P: Subject + Sync> Subject for InOnePlace<P> {
    fn make(workers: usize) -> Self {
        Self(std::sync::Arc::new(P::make(workers)))
    }

    #[inline]
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.0.execute(job);
    }

    fn end(self) {
        P::clone(&self.0).end();
    }
}

// %% [markdown]
// At a glance: what these two take by themselves.

// %% tags=["active-ipynb", "glance"]
// harness::Glance::at("job")
//     .each_of(JOBS)
//     .look("lean CBWP", jobs::<Ours<Stealing>>)
//     .look("in boxes", jobs::<InBoxes<Ours<Stealing>>>)
//     .look("counted in one place", jobs::<InOnePlace<Ours<Stealing>>>)
//     .look("both", jobs::<InBoxes<InOnePlace<Ours<Stealing>>>>)
//     .show()

// %% [markdown]
// # What is promised
//
// Jobs are written by users, and so are the destructors of what they hold, which may do what jobs may. Each promise, and
// each limit, has a test in [`tests`](../../rust-kernels/thread-pools/lean/tests).
//
// | of | promise | test |
// |---|---|---|
// | `execute` | `Ok`: the job is run once, or dropped if the pool is shut down before; `Closed`: it was not run | `jobs_from_outside_and_from_workers_are_each_run_once`, `a_job_that_was_taken_is_never_refused` |
// | | what a refused job holds is dropped by then; *limit:* of more than 64 within each other, on another thread, if the system has one | `queued_jobs_may_wait_for_what_they_submit_when_dropped`, `refused_jobs_may_submit_the_next_one_when_dropped` |
// | | a job of any size is run, or dropped, where it is | `a_large_job_is_run_where_it_is`, `a_large_job_is_dropped_where_it_is` |
// | | a job or a destructor that panics ends no other job | `a_panic_is_counted_and_disturbs_no_other_job`, `each_queued_job_is_dropped_although_destructors_panic` |
// | `shutdown` | queued jobs are dropped before it waits, *limit:* deep in refused jobs perhaps after it; they may shut the pool down again | `shutdown_ends_a_job_that_waits_for_queued_ones`, `queued_jobs_may_shut_the_pool_down_when_dropped` |
// | | a job waits neither for itself nor for jobs that wait in a `shutdown`, of whatever pool | `a_job_may_shut_its_own_pool_down`, `jobs_that_shut_their_pool_down_together_wait_only_for_others`, `jobs_may_shut_the_pools_of_each_other_down` |
// | | a worker may call it while it drops jobs | `a_worker_may_shut_its_pool_down_while_it_drops_jobs` |
// | | *limit:* destructors of a worker's thread-locals may still run afterwards | `thread_locals_of_workers_may_outlive_the_pool` |
// | `Pool` | when the last handle is dropped, what was submitted is run, and workers end, idle ones also beside a busy one | `dropping_the_last_handle_runs_what_was_submitted_and_ends_the_workers`, `idle_workers_end_beside_a_busy_one` |
// | | *limit:* if a job drops it, when that job has ended | `a_job_that_drops_the_last_handle_ends_idle_workers_when_it_has_ended` |
// | | more handles than can be counted end the process | `more_handles_than_can_be_counted_end_the_process` (on 32 bits) |
// | `join` | both closures have been called and have ended when it returns or panics, also if the pool is shut down | `both_halves_have_ended_when_one_of_them_panics`, `a_join_of_a_pool_that_is_shut_down_meanwhile_still_returns` |
// | | a shared half runs in parallel if another worker sleeps or searches; *limit:* younger halves are shared only by a later `join`, those of a worker of another pool, or beyond 256 within each other, not at all | `a_sleeping_worker_is_woken_for_a_half_and_for_the_end_of_one`, `more_halves_than_there_is_room_for_are_all_run` |
// | | any thread, job or destructor may call it | `a_join_may_be_called_from_any_thread_and_among_jobs`, `destructors_of_jobs_and_of_thread_locals_may_join` |
// | | a worker that waits for a half runs jobs, *limit:* on the same stack | `a_worker_that_waits_for_a_half_runs_jobs` |
// | | *limit:* a half that shuts its pool down, or a job that is run meanwhile, waits for its join until the time is up | `a_half_that_shuts_its_pool_down_waits_for_its_join_until_the_time_is_up` |
// | `start` | a pool that gets too few threads leaves none | `a_pool_that_gets_too_few_threads_leaves_none` |
// | all of them | random programs, in which jobs, destructors and ends of threads do all of this, end and leave nothing | `random_programs_end_and_leave_nothing_behind` |
// | memory | nothing is kept of a job, a handle or a pool after its last use | `a_thousand_rounds_leave_nothing_behind` |

// %% [markdown]
// # What next
//
// - Let `push_local` always return `Notify::Sleepers` in the work-stealing pool, and see what it costs.
// - Take `Worker::new_lifo` instead of `new_fifo`.
// - Let `push` share all halves, as the deque of Chase and Lev does, and count what the fences cost.
// - Give `Job` more room, or none, and count: `cargo bench -p thread-pools --bench counts`.
// - [The measuring notebook](measure.ipynb) asks which pool suits which load.
