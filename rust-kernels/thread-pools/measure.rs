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
// A thread pool takes closures and runs them on some threads. The simplest puts them into one queue that all
// workers share. A *work-stealing* pool gives every worker a queue of its own, and lets those who have nothing
// to do steal. Which of the two is faster depends on who submits the jobs, and on whether the workers are busy
// or asleep when they come.
//
// The crate `executors` has published tables about that: three pools, one to nine threads, two loads for
// throughput, and three sizes of bursts for latency. The tables are of 2019, on a desktop with four cores.
// This notebook builds the pools again, in code that you can read and change here, and measures all of these
// cells. The originals and other well-known pools are measured in the same rounds. Then
// comes what the published program leaves out: jobs that do work, bursts that are awaited to their end, and
// what workers that never sleep cost other threads.
//
// When you have read it you can decide which pool suits your load, and which of its parts cost what.

// %% [markdown]
// ## Compile cells as for a benchmark
//
// These settings give cells the profile of `cargo bench`. The harness looks, and refuses to measure without
// them. Building the pools of the field takes a minute or two the first time.
//
// `executors` appears in three versions. Whether its workers park, and what its fairness is based on, is decided at
// compile time, once per version. Between 0.8 and 0.10 its pools changed only in how they report metrics and, in 0.9,
// in the version of crossbeam; so an older version is used where another flag is needed, and its name says so.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep chili = "=0.2.1"
// :dep core_affinity = "=0.8.3"
// :dep crossbeam-channel = "=0.5.17"
// :dep crossbeam-deque = "=0.8.8"
// :dep crossbeam-utils = "=0.8.23"
// :dep executors = "=0.10.0"
// :dep executors-counting = { package = "executors", version = "=0.8.0", default-features = false, features = ["workstealing-exec"] }
// :dep executors-never-parking = { package = "executors", version = "=0.9.0", features = ["ws-no-park"] }
// :dep fastrand = "=2.5.0"
// :dep futures = { version = "=0.3.34", features = ["thread-pool"] }
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep hdrhistogram = { version = "=7.6.0", default-features = false }
// :dep idle = { path = "../../rust-kernels/idle" }
// :dep rayon = "=1.12.0"
// :dep sync = { path = "../../rust-kernels/sync" }
// :dep threadpool = "=1.8.1"
// :dep tokio = { version = "=1.54.1", features = ["rt-multi-thread"] }

// %% [markdown]
// An error between threads may take years to show. So whatever the pools' threads share comes from the crate `sync`,
// which can turn it over to [loom](https://docs.rs/loom): that runs a test once for every possible interleaving.
// `tests/loom.rs` does that for the parking of workers below.

// %%
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use crossbeam_utils::CachePadded;
use harness::{Bencher, Counts, Key, Sample, Study, UnequalWork, limit};
use hdrhistogram::Histogram;
use idle::shielded;
use sync::atomic::{AtomicBool, AtomicUsize, fence};
use sync::thread::{self, Thread};
use sync::{Arc, Condvar, Mutex, MutexGuard};

// %% [markdown]
// # What all our pools share
//
// A pool is a queue, and a rule for what workers do when the queue is empty. The second is the harder part, and the
// same in both of our pools. So first come the parts that they share: the job, the worker that sleeps, the handle, the
// end.
//
// ## A job
//
// A job is a closure. The originals box it: one allocation where it is submitted, and a release on another thread. But
// most closures are small. So a job has room for some words, and only what does not fit goes to the heap, as in a small
// vector. How many words? The jobs of the published program have three. Room for just these would fit our pools to that
// program, and not to those of people who capture a fourth. So a job is as large as a cache line, which is what
// processors hand to each other: a word that says what can be done with it, and seven for the closure. Further down,
// `jobs/closure` measures where the box begins, and what that costs.

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
/// How a closure of this type is stored.
struct Layout<F>(PhantomData<F>);

impl<F: FnOnce() + Send + 'static> Layout<F> {
    const FITS: bool = size_of::<F>() <= size_of::<Storage>() && align_of::<F>() <= align_of::<Storage>();
    const VTABLE: VTable = VTable { run: Self::run, drop: Self::drop };

    /// # Safety
    /// A closure of this type is stored, and nobody takes it out again.
    unsafe fn take(storage: *mut Storage) -> F {
        if Self::FITS {
            // SAFETY: the caller's promise; a closure that fits lies there itself.
            unsafe { storage.cast::<F>().read() }
        } else {
            // SAFETY: the same; here lies its box.
            unsafe { *storage.cast::<Box<F>>().read() }
        }
    }

    unsafe fn run(storage: *mut Storage) {
        // SAFETY: the caller's promise.
        unsafe { Self::take(storage)() };
    }

    unsafe fn drop(storage: *mut Storage) {
        // SAFETY: the caller's promise.
        drop(unsafe { Self::take(storage) });
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
            // SAFETY: a box is one word.
            unsafe { storage.as_mut_ptr().cast::<Box<F>>().write(Box::new(closure)) };
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
// should be woken? The originals wake a worker for every job from outside that finds a sleeper; we wake one only if
// nobody is searching already.
//
// Both are decided by [`idle`](../../rust-kernels/idle/idle.rs), one page that [our
// executor](../runtimes/executor.ipynb) shares. It knows only numbers; what follows adds the threads, and the end.

// %%
/// Who is woken for a job from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakes {
    /// A sleeper, unless somebody is searching.
    OneAtATime,
    /// A sleeper for every job.
    EveryJob,
}

/// Who searches and who sleeps, and the threads that are to be woken.
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
// When the pool ends, everybody has to wake.

// %%
impl Sleep {
    fn wake_all(&self) {
        while let Some(worker) = self.idle.name_any() {
            self.wake(Some(worker));
        }
    }

    /// The pool takes no more jobs.
    pub fn close(&self) {
        // Whoever is at rest is woken, and whoever comes to rest later sees this, since both lock the list of `idle`.
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

    /// Sleeps until somebody wakes it; then it is searching.
    pub fn sleep(&self, worker: usize) {
        while !self.places[worker].woken.swap(false, Ordering::Relaxed) {
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
// This is what tells our two pools apart. A worker has a *local* part, which may be nothing. First what a user can
// choose.

// %%
/// What to do when there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Search for a moment, then sleep.
    Park,
    /// Search for ever, yielding to other threads: nobody is woken, and no processor is idle.
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
    /// Takes a job from a thread that is no worker. Everybody can find it.
    fn push(&self, job: Job);
    /// Takes a job from the worker whose local this is. Says whether others have to be notified.
    fn push_local(&self, local: &Self::Local, job: Job) -> Notify;
    /// The next job of this worker, as long as it has some.
    fn next(&self, local: &Self::Local) -> Option<Job>;
    /// Any job that this worker can get hold of.
    fn find(&self, local: &Self::Local) -> Option<Job>;
    /// Whether nobody could find anything.
    fn is_empty(&self) -> bool;
    /// Any job, for a thread that is no worker.
    fn take(&self) -> Option<Job>;
}

/// Whom a worker tells of a job that it has queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notify {
    /// Nobody: the worker will come to it.
    Nobody,
    /// A sleeper, if one is seen; the worker will come to it in any case.
    Sleepers,
}

// %% [markdown]
// ## The core of a pool
//
// What all handles and workers of a pool refer to. A job that panics is counted, and its worker goes on; the originals
// replace the thread.

// %%
/// A hundred years: not every clock counts to more.
const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Workers that have not ended, and a place to wait for that.
struct LiveWorkers {
    number: Mutex<usize>,
    changed: Condvar,
}

impl LiveWorkers {
    fn new(workers: usize) -> Self {
        Self { number: Mutex::new(workers), changed: Condvar::new() }
    }

    fn one_less(&self) {
        *self.number() -= 1;
        self.changed.notify_all();
    }

    /// Waits until all but so many have ended, or for so long. Says how many more are left.
    fn wait_for_all_but(&self, few: usize, limit: Duration) -> usize {
        let (deadline, mut number) = (Instant::now() + limit.min(LONGEST), self.number());
        while *number > few {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            number = self.changed.wait_timeout(number, left).expect("nobody panics with this number").0;
        }
        number.saturating_sub(few)
    }

    fn number(&self) -> MutexGuard<'_, usize> {
        self.number.lock().expect("nobody panics with this number")
    }
}

// %% [markdown]
// Together with the queue, the sleeping workers and the count of handles, that is the core.

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
// [`shielded`](../../rust-kernels/idle/shield.rs) sees to that. The core is freed by whoever releases its last handle.

// %%
impl<Q: Queue> Core<Q> {
    #[inline]
    fn run(&self, job: Job) {
        if !shielded(|| job.run()) {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Drops all queued jobs, each by itself: its destructors may panic.
    fn clear(&self) {
        while let Some(job) = self.queue.take() {
            shielded(|| drop(job));
        }
    }

    /// So many handles are no more. (No reference is handed over here: it may end before this does.)
    ///
    /// # Safety
    /// `this` is the pointer of an `Arc`, so many handles are counted in it, and the caller does not use them
    /// afterwards.
    unsafe fn release(this: NonNull<Self>, handles: usize) {
        // SAFETY: the handles keep it alive until they are counted out.
        if unsafe { this.as_ref() }.handles.fetch_sub(handles, Ordering::AcqRel) == handles {
            // SAFETY: all handles together own one reference, which `start` has made, and only who brings their
            // number to zero gets here.
            let core = unsafe { Arc::from_raw(this.as_ptr()) };
            // Whoever sees it sees what all handles have submitted; to who rests it is ordered as in `Sleep::close`.
            core.abandoned.store(true, Ordering::Release);
            core.sleep.wake_all();
        }
    }
}

// %% [markdown]
// ## A handle that workers clone without a shared count
//
// Every job of the published program clones the pool's handle. An ordinary handle counts references in one
// place, and all workers write to that place for every job, so its cache line moves between the
// processors. Most of these clones are made on a worker and dropped on a worker. So a worker takes *credit*: it
// adds a thousand to the shared count at once, and from then on counts its own clones and drops in a cell
// that no other thread sees. Before it sleeps, it returns its credit. The shared count is never less than the number of
// handles, and it reaches zero soon after the last of them is gone.

// %%
/// What a worker thread knows about itself.
struct CurrentWorker {
    /// The core of its pool; tells the type of `local` as well.
    core: *const (),
    local: *const (),
    /// So many handles are counted in the core beyond those that there are.
    credit: Cell<usize>,
}

/// Handles that a worker counts in advance, and what it keeps at most.
const CREDIT: usize = 1 << 10;

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
    fn enter<Q: Queue>(core: &Arc<Core<Q>>, local: &Q::Local) -> NonNull<Self> {
        let (core, local) = (Arc::as_ptr(core).cast(), std::ptr::from_ref(local).cast());
        let here = NonNull::from(Box::leak(Box::new(Self { core, local, credit: Cell::new(0) })));
        place::set(here.as_ptr());
        here
    }

    /// Calls `work` with this thread's worker, if it is one of the pool with this core.
    #[inline]
    fn with<Q, T>(core: NonNull<Core<Q>>, work: impl FnOnce(Option<&CurrentWorker>) -> T) -> T {
        let here = place::get();
        // SAFETY: set by `enter` on this thread, and not freed before `leave` takes it back.
        let here = unsafe { here.as_ref() };
        work(here.filter(|here| here.core == core.as_ptr().cast_const().cast()))
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
        let credit = self.credit.take();
        if let Some(core) = NonNull::new(self.core.cast::<Core<Q>>().cast_mut()).filter(|_| credit > 0) {
            // SAFETY: `enter` had it of an `Arc`, and so many handles are counted that there are not.
            unsafe { Core::release(core, credit) };
        }
    }
}

// %% [markdown]
// ## The life of a worker
//
// Run what there is; when there is nothing, search; when nothing is found for a while, sleep. The search is where a
// worker meets those who submit. Between `announce` and `sleep` it looks at everything that could have happened in the
// meantime: a job, the end of the pool, the last handle.

// %%
impl<Q: Queue> Core<Q> {
    /// A job, or `None` when the pool ends. The caller is one of so many who search; with a job, it is no longer one.
    fn search(&self, searching: usize, worker: usize, local: &Q::Local, here: &CurrentWorker) -> Option<Job> {
        let impatient = if searching > self.searchers { PATIENCE.0 + PATIENCE.1 } else { 0 };
        let mut turn = impatient;
        loop {
            if self.sleep.closed() {
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
                self.sleep.sleep(worker);
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
        let entered = CurrentWorker::enter(this, &local);
        // SAFETY: it is not freed before `leave`.
        let here = unsafe { entered.as_ref() };
        this.sleep.begin(worker);
        let mut searching = 1;
        while let Some(mut job) = this.search(searching, worker, &local, here) {
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
        // SAFETY: it has entered above, and no job runs here any more.
        unsafe { CurrentWorker::leave::<Q>(entered) };
        if this.sleep.closed() {
            while let Some(job) = this.queue.next(&local) {
                shielded(|| drop(job));
            }
            this.clear();
        }
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
/// When the last handle is dropped, what was submitted is still run, and then the workers end; nobody waits for them.
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
            None => {
                self.core().handles.fetch_add(1, Ordering::Relaxed);
            }
            Some(here) => {
                if here.credit.get() == 0 {
                    self.core().handles.fetch_add(CREDIT, Ordering::Relaxed);
                    here.credit.set(CREDIT);
                }
                here.credit.set(here.credit.get() - 1);
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
            None => unsafe { Core::release(self.core, 1) },
            Some(here) => {
                here.credit.set(here.credit.get() + 1);
                if here.credit.get() > 2 * CREDIT {
                    here.credit.set(CREDIT);
                    // SAFETY: more than that are counted here which are no more.
                    unsafe { Core::release(self.core, CREDIT + 1) };
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
// will not run any more. It says how many workers are not done when the time is up. Nothing is lost by dropping the handles instead, which runs all that was
// submitted.

// %%
/// The pool takes no more jobs. The one that was offered is dropped, unless a worker took it just before the pool was
/// closed: then it was run.
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
            abandoned: AtomicBool::new(false),
            live: LiveWorkers::new(settings.workers),
            panics: AtomicUsize::new(0),
        });
        for (worker, local) in locals.into_iter().enumerate() {
            let (named, own) = (thread::Builder::new().name(format!("worker {worker}")), Arc::clone(&core));
            if let Err(refused) = named.spawn(move || Core::work(&own, worker, local)) {
                core.sleep.close();
                (worker..settings.workers).for_each(|_| core.live.one_less());
                core.live.wait_for_all_but(0, LONGEST);
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
    #[inline]
    fn submit(&self, job: Job) -> Result<(), Closed> {
        self.queue.push(job);
        let open = if self.parks {
            self.sleep.offer(self.wakes)
        } else {
            fence(Ordering::SeqCst);
            !self.sleep.closed()
        };
        if open { Ok(()) } else { self.refuse() }
    }

    #[inline]
    fn submit_local(&self, local: &Q::Local, job: Job) -> Result<(), Closed> {
        if self.sleep.closed() {
            shielded(|| drop(job));
            return Err(Closed);
        }
        if self.queue.push_local(local, job) == Notify::Sleepers && self.parks {
            self.sleep.hint();
        }
        Ok(())
    }

    /// A job came when the workers may have ended: nobody else would drop it.
    #[cold]
    fn refuse(&self) -> Result<(), Closed> {
        self.clear();
        Err(Closed)
    }
}

// %% [markdown]
// These are the methods that a user calls.

// %%
impl<Q: Queue> Pool<Q> {
    /// Runs this closure once, on any worker. A job that is submitted by a job may wait until that one has ended.
    ///
    /// # Errors
    /// `Closed` after `shutdown`. Who offers the job to another pool then must be able to bear it twice.
    #[inline]
    pub fn execute(&self, closure: impl FnOnce() + Send + 'static) -> Result<(), Closed> {
        let (core, job) = (self.core(), Job::new(closure));
        CurrentWorker::with(self.core, |here| match here {
            // SAFETY: `CurrentWorker` says that this thread is a worker of this very core, so its local is of this
            // type, and alive.
            Some(here) => core.submit_local(unsafe { &*here.local.cast::<Q::Local>() }, job),
            None => core.submit(job),
        })
    }

    /// Ends the pool as soon as the jobs that are running now have ended, and waits for that, for so long at most.
    /// Queued jobs are dropped. May be called by a job, which does not wait for itself.
    ///
    /// # Errors
    /// `Busy` when the time is up; the workers that are left end after their job, without being waited for.
    pub fn shutdown(&self, limit: Duration) -> Result<(), Busy> {
        let core = self.core();
        let myself = CurrentWorker::with(self.core, |here| here.map_or(0, |_| 1));
        core.sleep.close();
        core.clear();
        match core.live.wait_for_all_but(myself, limit) {
            0 => Ok(()),
            left => Err(Busy(left)),
        }
    }

    /// How many workers sleep right now.
    pub fn sleeping(&self) -> usize {
        self.core().sleep.idle.resting()
    }

    /// How many jobs have panicked so far.
    pub fn panics(&self) -> usize {
        self.core().panics.load(Ordering::Relaxed)
    }
}

// %% [markdown]
// # The three pools
//
// ## CBCP: one shared channel
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
// ## CBWP: work stealing
//
// A global queue, the *injector*, takes what comes from outside. Every worker has a deque of its own, first in, first
// out, from which others may steal. A worker that has nothing takes a batch from the injector, up to 32 jobs and one to
// run at once; if that is empty, it steals from the others, each worker in another order.
//
// **Fairness.** Workers that feed themselves would never look at the injector. The original reads the clock after
// every job, and looks outside once a millisecond; or it counts to a hundred. We read the clock only if something
// *is* outside. As long as the injector is empty, there is nobody to be fair to, and to see that it is empty
// takes two reads of memory that nobody writes. When it is found not to be, the millisecond begins.
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
    #[cfg(target_arch = "x86_64")]
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
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
        if own.jobs.len() > 1 { Notify::Sleepers } else { Notify::Nobody }
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
// ## TP: the plain pool
//
// The baseline is the crate `threadpool`, wrapped as the original wraps it: one channel of the standard library, whose
// receiver lies in a mutex that all workers share, and one flag that is read before each submission.
//
// # All pools of the table
//
// The measuring program needs four things of a pool: make it, clone its handle, give it a job, end it.

// %%
/// A pool under measurement.
pub trait Subject: Clone + Send + 'static {
    fn make(workers: usize) -> Self;
    fn execute(&self, job: impl FnOnce() + Send + 'static);
    /// Ends its workers as soon as possible, so that they do not disturb what comes next.
    fn end(self) {}
}

// %% [markdown]
// Our pools implement it with the settings that their type names.

// %%
/// How long a pool may take to end.
const END: Duration = Duration::from_secs(5);

/// One of our pools, and what it is made with. `FAR`: how many of its three settings are the lean ones: who is woken,
/// the clock, the order of victims.
pub struct Ours<Q: Queue, const PARKS: bool = true, const TIMED: bool = true, const FAR: u8 = 3>(pub Pool<Q>);

impl<Q: Queue, const PARKS: bool, const TIMED: bool, const FAR: u8> Clone for Ours<Q, PARKS, TIMED, FAR> {
    #[inline]
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Jobs that a worker runs before it looks outside, where that is counted; the original's number.
const COUNTED: Fairness = Fairness::Counted(100);

impl<Q: Queue, const PARKS: bool, const TIMED: bool, const FAR: u8> Subject for Ours<Q, PARKS, TIMED, FAR> {
    fn make(workers: usize) -> Self {
        let usual = Settings::new(workers);
        let idle = if PARKS { Idle::Park } else { Idle::NeverPark };
        let wakes = if FAR < 1 { Wakes::EveryJob } else { usual.wakes };
        let fairness = match usual.fairness {
            _ if !TIMED => COUNTED,
            Fairness::Timed(time) if FAR < 2 => Fairness::Clocked(time),
            timed => timed,
        };
        Self(Pool::start(Settings { idle, wakes, fairness, shuffled: FAR < 3, ..usual }))
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
// The plain pool:

// %%
/// The plain thread pool.
#[derive(Clone)]
pub struct Tp {
    pool: threadpool::ThreadPool,
    active: std::sync::Arc<std::sync::atomic::AtomicBool>,
}

impl Subject for Tp {
    fn make(workers: usize) -> Self {
        Self { pool: threadpool::ThreadPool::new(workers), active: std::sync::Arc::new(true.into()) }
    }

    #[inline]
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        if self.active.load(Ordering::SeqCst) {
            self.pool.execute(job);
        }
    }

    fn end(self) {
        self.active.store(false, Ordering::SeqCst);
        self.pool.join();
    }
}

// %% [markdown]
// Now pools can be glanced at. One thread submits jobs that do nothing to two workers, and waits for all of them.

// %%
/// Jobs of an iteration of [`jobs`].
pub const JOBS: u64 = 1_000;

/// Submits [`JOBS`] jobs to a new pool again and again, and waits each time until they are done.
pub fn jobs<S: Subject>(bencher: &mut Bencher) {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let pool = S::make(2);
    bencher.iter(&mut || {
        DONE.store(0, Ordering::Relaxed);
        for _ in 0..JOBS {
            pool.execute(|| {
                DONE.fetch_add(1, Ordering::Release);
            });
        }
        while DONE.load(Ordering::Acquire) < JOBS {
            std::thread::yield_now();
        }
    });
    pool.end();
}

// %% tags=["active-ipynb", "glance"]
// harness::Glance::at("job")
//     .each_of(JOBS)
//     .look("TP", jobs::<Tp>)
//     .look("lean CBCP", jobs::<Ours<SharedChannel>>)
//     .look("lean CBWP", jobs::<Ours<Stealing>>)
//     .look("lean CBWP, never parks", jobs::<Ours<Stealing, false>>)
//     .show()

// %% [markdown]
// # The pools as described
//
// The claims of the document are about its pools, which ours above no longer are. So here is what it describes, without
// our changes: each job in a box, a handle that counts references, a channel in which workers block, a wake for every
// job from outside that finds a sleeper, a clock that is read after every job, thieves in an order drawn by lot. They
// are measured under the published names. The original crates take part in the same rounds, and a table of the report
// compares the two.
//
// ## CBCP as described
//
// One channel carries jobs and requests to stop. A worker whose job panics is replaced. If the user wants it, as many
// workers as there are processors are bound to one each, which the crate calls pinning. The operating system may then
// not move such a worker to an idle processor, even if its own is busy.

// %%
/// Binds the calling worker to a processor, if there is one left for it; other workers may run anywhere.
fn pin(worker: usize) {
    let processors = core_affinity::get_core_ids().expect("the system says on which processors this may run");
    if let Some(&processor) = processors.get(worker) {
        assert!(core_affinity::set_for_current(processor), "worker {worker} cannot be bound");
    }
}

/// A closure in a box.
type Boxed = Box<dyn FnOnce() + Send>;

/// What goes through the channel of [`DescribedCbcp`].
enum Message {
    Run(Boxed),
    Stop,
}

/// What its workers and handles share.
struct ChannelCore {
    receiver: Receiver<Message>,
    workers: usize,
    live: LiveWorkers,
}

// %% [markdown]
// A value that the worker drops when it ends finds out whether it panicked.

// %%
/// Calls `replace` when its thread panics, and `end` when it does not.
struct Sentinel<R: FnMut(), E: FnMut()> {
    replace: R,
    end: E,
}

impl<R: FnMut(), E: FnMut()> Drop for Sentinel<R, E> {
    fn drop(&mut self) {
        if std::thread::panicking() { (self.replace)() } else { (self.end)() }
    }
}

// %% [markdown]
// The pool, made of these parts.

// %%
/// The pool with one shared crossbeam channel, as described. A handle counts three references, as that of the crate
/// does.
#[derive(Clone)]
pub struct DescribedCbcp<const PINS: bool = false> {
    core: Arc<ChannelCore>,
    sender: Sender<Message>,
    shut: Arc<AtomicBool>,
}

impl<const PINS: bool> DescribedCbcp<PINS> {
    fn start_worker(core: &Arc<ChannelCore>, number: usize) {
        let core = Arc::clone(core);
        let worker = move || {
            if PINS {
                pin(number);
            }
            let _sentinel =
                Sentinel { replace: || Self::start_worker(&core, number), end: || core.live.one_less() };
            while let Ok(Message::Run(job)) = core.receiver.recv() {
                job();
            }
        };
        thread::Builder::new().spawn(worker).expect("the system has a thread");
    }
}

// %% [markdown]
// It ends when each worker has received a request to stop.

// %%
impl<const PINS: bool> Subject for DescribedCbcp<PINS> {
    fn make(workers: usize) -> Self {
        let (sender, receiver) = crossbeam_channel::unbounded();
        let core = Arc::new(ChannelCore { receiver, workers, live: LiveWorkers::new(workers) });
        (0..workers).for_each(|number| Self::start_worker(&core, number));
        Self { core, sender, shut: Arc::new(AtomicBool::new(false)) }
    }

    #[inline]
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        if !self.shut.load(Ordering::SeqCst) {
            self.sender.send(Message::Run(Box::new(job))).expect("the core holds the receiver");
        }
    }

    fn end(self) {
        self.shut.store(true, Ordering::SeqCst);
        (0..self.core.workers).for_each(|_| drop(self.sender.send(Message::Stop)));
        assert_eq!(self.core.live.wait_for_all_but(0, END), 0, "jobs of the measuring program are short");
    }
}

// %% [markdown]
// ## How workers of CBWP park, as described
//
// One bit for each worker that sleeps or is about to, and a state for each behind a mutex. A thread that submits from
// outside reads the bits, and takes the mutex only if one is set. A worker that finds the mutex taken does not wait for
// it, and looks for work instead.

// %%
/// What a worker is doing, as the parker knows it.
enum Parking {
    Awake,
    Asleep(Thread),
    /// It is about to sleep, and should not.
    NoSleep,
    Waking,
}

/// How [`Parker::park`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parked {
    /// The mutex was taken: look for work, and try again.
    Retry,
    /// There is work.
    Abort,
    /// It slept, and was woken.
    Woken,
}

/// Parks up to 64 workers.
pub struct Parker {
    /// Who sleeps or is about to.
    bits: AtomicUsize,
    states: Mutex<Vec<Parking>>,
}

// %% [markdown]
// First the side of a worker that finds nothing to do: prepare, look once more, park.

// %%
impl Parker {
    /// For so many workers, all awake.
    ///
    /// # Panics
    /// If there are more of them than bits.
    pub fn new(workers: usize) -> Self {
        assert!(workers <= usize::BITS as usize, "{workers} workers are more than bits");
        Self { bits: AtomicUsize::new(0), states: Mutex::new((0..workers).map(|_| Parking::Awake).collect()) }
    }

    fn states(&self) -> MutexGuard<'_, Vec<Parking>> {
        self.states.lock().expect("nobody panics with the states")
    }

    /// A worker says that it is about to sleep. It then looks for work once more, and calls `park` or `abort_park`.
    pub fn prepare_park(&self, worker: usize) {
        self.bits.fetch_or(1 << worker, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// It has found some.
    pub fn abort_park(&self, worker: usize) {
        self.bits.fetch_and(!(1 << worker), Ordering::Relaxed);
    }

    /// It has not: sleeps, unless somebody has called `unpark_one` in the meantime.
    pub fn park(&self, worker: usize) -> Parked {
        let Ok(mut states) = self.states.try_lock() else { return Parked::Retry };
        let slept = !matches!(states[worker], Parking::NoSleep);
        if slept {
            states[worker] = Parking::Asleep(thread::current());
            loop {
                drop(states);
                thread::park();
                states = self.states();
                // A thread may wake for no reason.
                if !matches!(states[worker], Parking::Asleep(_)) {
                    break;
                }
            }
        }
        states[worker] = Parking::Awake;
        self.abort_park(worker);
        if slept { Parked::Woken } else { Parked::Abort }
    }
}

// %% [markdown]
// The other side: a thread that has queued a job.

// %%
impl Parker {
    /// Wakes a worker, or keeps one awake, if there is one whose bit is set. To be called after a job was queued.
    #[inline]
    pub fn unpark_one(&self) {
        // On x86-64 every queue of crossbeam ends its push with an instruction that is such a fence: only the compiler
        // has to be kept from a swap.
        #[cfg(any(under_loom, not(target_arch = "x86_64")))]
        fence(Ordering::SeqCst);
        #[cfg(not(any(under_loom, not(target_arch = "x86_64"))))]
        std::sync::atomic::compiler_fence(Ordering::SeqCst);
        if self.bits.load(Ordering::Relaxed) != 0 {
            self.unpark_some(1);
        }
    }

    /// The same for all of them.
    pub fn unpark_all(&self) {
        fence(Ordering::SeqCst);
        self.unpark_some(usize::MAX);
    }

    #[cold]
    fn unpark_some(&self, most: usize) {
        let mut states = self.states();
        let mut left = most;
        for (worker, state) in states.iter_mut().enumerate() {
            if left == 0 || self.bits.load(Ordering::Relaxed) & (1 << worker) == 0 {
                continue;
            }
            match std::mem::replace(state, Parking::Waking) {
                Parking::Awake => *state = Parking::NoSleep,
                Parking::Asleep(thread) => thread.unpark(),
                was => {
                    *state = was;
                    continue;
                }
            }
            left -= 1;
        }
    }
}

// %% [markdown]
// ## CBWP as described
//
// A worker runs what is in its own deque until that is empty or a millisecond has passed, by a clock that it reads
// after every job. Then it reads messages of the pool, takes a batch from the injector, and steals one job from
// another. What a worker submits goes to its own deque and wakes nobody. A sleeper is woken only when the worker has
// looked outside after a millisecond, found nothing, and has more to do.

// %%
/// What the pool tells a worker.
enum Control {
    /// From whom to steal.
    Others(Vec<Stealer<Boxed>>),
    Stop,
}

/// What workers and handles of [`DescribedCbwp`] share.
struct StealingCore {
    injector: Injector<Boxed>,
    parker: Parker,
    shut: AtomicBool,
    /// The deque of each worker, and how it gets messages.
    workers: Mutex<Vec<(Stealer<Boxed>, Sender<Control>)>>,
    live: LiveWorkers,
}

// %% [markdown]
// A thread finds its deque in a thread-local. Each worker gets the stealers of the deques of the others, again after each
// replacement.

// %%
/// Reads the place for the deque of this thread, which is empty unless it is a worker of such a pool.
#[inline]
fn own_deque<Out>(read: impl FnOnce(&std::cell::OnceCell<Worker<Boxed>>) -> Out) -> Out {
    thread_local! {
        static OWN: std::cell::OnceCell<Worker<Boxed>> = const { std::cell::OnceCell::new() };
    }
    OWN.with(read)
}

/// The pool with work stealing, as described.
pub struct DescribedCbwp<const PARKS: bool = true, const TIMED: bool = true, const PINS: bool = false>(
    Arc<StealingCore>,
);

impl<const PARKS: bool, const TIMED: bool, const PINS: bool> Clone for DescribedCbwp<PARKS, TIMED, PINS> {
    #[inline]
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl StealingCore {
    /// Tells every worker of the deques of the others.
    fn introduce(&self) {
        let workers = self.workers.lock().expect("nobody panics with the list of workers");
        for (worker, (_, control)) in workers.iter().enumerate() {
            let others = workers.iter().enumerate().filter(|(other, _)| *other != worker);
            // One that has ended does not listen.
            let _ = control.send(Control::Others(others.map(|(_, (stealer, _))| stealer.clone()).collect()));
        }
    }
}

// %% [markdown]
// The loop of a worker. `prepared` means only that its bit is set; it looks for work once more before it sleeps.

// %%
impl<const PARKS: bool, const TIMED: bool, const PINS: bool> DescribedCbwp<PARKS, TIMED, PINS> {
    fn work(core: &StealingCore, worker: usize, messages: &Receiver<Control>) {
        const MILLISECOND: Duration = Duration::from_millis(1);
        const JOBS: u32 = 100;
        let own_job = || own_deque(|own| own.get().and_then(Worker::pop));
        let from_outside = || own_deque(|own| own.get().map(|own| core.injector.steal_batch_and_pop(own)));
        let mut victims: Vec<Stealer<Boxed>> = vec![];
        let (backoff, mut prepared) = (crossbeam_utils::Backoff::new(), false);
        loop {
            let (start, mut jobs, mut fair) = (TIMED.then(Instant::now), 0, false);
            while !fair && let Some(job) = own_job() {
                job();
                backoff.reset();
                jobs += 1;
                fair = start.map_or(jobs >= JOBS, |start| start.elapsed() > MILLISECOND);
            }
            while let Ok(message) = messages.try_recv() {
                match message {
                    Control::Others(others) => {
                        victims = others;
                        fastrand::shuffle(&mut victims);
                    }
                    Control::Stop => return,
                }
                if std::mem::take(&mut prepared) {
                    core.parker.abort_park(worker);
                }
            }
            let mut found = from_outside().and_then(Steal::success);
            if found.is_none() && fair {
                if PARKS {
                    core.parker.unpark_one();
                }
                continue;
            }
            found = found.or_else(|| victims.iter().find_map(|victim| victim.steal().success()));
            if let Some(job) = found {
                if std::mem::take(&mut prepared) {
                    core.parker.abort_park(worker);
                }
                job();
                backoff.reset();
            } else if !PARKS {
                backoff.snooze();
            } else if prepared {
                if core.parker.park(worker) != Parked::Retry {
                    prepared = false;
                    backoff.reset();
                }
            } else if backoff.is_completed() {
                core.parker.prepare_park(worker);
                prepared = true;
            } else {
                backoff.snooze();
            }
        }
    }
}

// %% [markdown]
// A worker that panics is replaced by one with a new deque.

// %%
impl<const PARKS: bool, const TIMED: bool, const PINS: bool> DescribedCbwp<PARKS, TIMED, PINS> {
    /// Starts this worker with a deque of its own, or starts it again after a panic.
    fn start_worker(core: &Arc<StealingCore>, worker: usize) {
        let (control, messages) = crossbeam_channel::unbounded();
        let deque = Worker::new_fifo();
        {
            let mut workers = core.workers.lock().expect("nobody panics with the list of workers");
            let entry = (deque.stealer(), control);
            if worker < workers.len() { workers[worker] = entry } else { workers.push(entry) }
        }
        let core = Arc::clone(core);
        let work = move || {
            if PINS {
                pin(worker);
            }
            own_deque(|own| own.set(deque).unwrap_or_else(|_| unreachable!("the thread is new")));
            let replace = || {
                Self::start_worker(&core, worker);
                core.introduce();
            };
            let _sentinel = Sentinel { replace, end: || core.live.one_less() };
            Self::work(&core, worker, &messages);
        };
        thread::Builder::new().spawn(work).expect("the system has a thread");
    }
}

// %% [markdown]
// Submitting depends on the thread: to its own deque if it has one, otherwise to the injector.

// %%
impl<const PARKS: bool, const TIMED: bool, const PINS: bool> Subject for DescribedCbwp<PARKS, TIMED, PINS> {
    fn make(workers: usize) -> Self {
        let core = Arc::new(StealingCore {
            injector: Injector::new(),
            parker: Parker::new(workers),
            shut: AtomicBool::new(false),
            workers: Mutex::new(vec![]),
            live: LiveWorkers::new(workers),
        });
        (0..workers).for_each(|worker| Self::start_worker(&core, worker));
        core.introduce();
        Self(core)
    }

    #[inline]
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        if self.0.shut.load(Ordering::Relaxed) {
            return;
        }
        let job: Boxed = Box::new(job);
        // The deque of whatever pool this thread works for: so it is described.
        let left = own_deque(|own| match own.get() {
            Some(own) => {
                own.push(job);
                None
            }
            None => Some(job),
        });
        if let Some(job) = left {
            self.0.injector.push(job);
            if PARKS {
                self.0.parker.unpark_one();
            }
        }
    }

    fn end(self) {
        self.0.shut.store(true, Ordering::SeqCst);
        for (_, control) in self.0.workers.lock().expect("nobody panics with the list of workers").iter() {
            // One that has ended does not listen.
            let _ = control.send(Control::Stop);
        }
        self.0.parker.unpark_all();
        assert_eq!(self.0.live.wait_for_all_but(0, END), 0, "jobs of the measuring program are short");
    }
}

// %% [markdown]
// ## From the described pools to the lean ones
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
        let job: Boxed = Box::new(job);
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
// At a glance: the pools as described, and the lean ones with a box for each job and with one count for all handles.

// %% tags=["active-ipynb", "glance"]
// harness::Glance::at("job")
//     .each_of(JOBS)
//     .look("CBCP as described", jobs::<DescribedCbcp<false>>)
//     .look("CBWP as described", jobs::<DescribedCbwp<true, true, false>>)
//     .look("lean CBWP in boxes, counted in one place", jobs::<InBoxes<InOnePlace<Ours<Stealing>>>>)
//     .look("lean CBWP", jobs::<Ours<Stealing>>)
//     .show()

// %% [markdown]
// ## Pools of other crates
//
// The originals, each as its documentation says; `small_pool` is the one of the published program. And three of the
// field. `rayon`'s pool is never freed, as its global pool is not, so a handle is a reference. `futures` takes futures,
// so a job becomes a future that is ready when polled once. tokio's `spawn_blocking` is made for closures that block;
// it has a queue of its own, with a mutex.

// %%
/// Keeps a thing for ever, where leak checkers find it.
fn leaked<T: Send + Sync>(thing: T) -> &'static T {
    static LEAKED: std::sync::Mutex<Vec<usize>> = std::sync::Mutex::new(vec![]);
    let leaked = Box::leak(Box::new(thing));
    LEAKED.lock().expect("it only grows").push(std::ptr::from_ref(leaked).addr());
    leaked
}

/// `StaticParker<SmallThreadData>` of each version of the executors crate.
mod small {
    pub type Parker = executors::parker::StaticParker<executors::parker::SmallThreadData>;
    pub type NeverParking =
        executors_never_parking::parker::StaticParker<executors_never_parking::parker::SmallThreadData>;
    pub type Counting = executors_counting::parker::StaticParker<executors_counting::parker::SmallThreadData>;
}

// %% [markdown]
// In the table: what a handle holds, how a pool is made, how it takes a job, how it ends.

// %%
pub mod others {
    use executors::{crossbeam_channel_pool as channel, crossbeam_workstealing_pool as stealing};
    use executors_counting::crossbeam_workstealing_pool as stealing_counting;
    use executors_never_parking::crossbeam_workstealing_pool as stealing_never_parking;

    use super::{Subject, leaked, small};

    macro_rules! pools {
        ($($name:ident($inner:ty), |$workers:ident| $make:expr, |$pool:ident, $job:ident| $execute:expr, $end:expr;)*) => {$(
            #[doc = concat!("`", stringify!($inner), "`")]
            #[derive(Clone)]
            pub struct $name(pub(super) $inner);

            impl Subject for $name {
                fn make($workers: usize) -> Self {
                    Self($make)
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

    /// These pools end with the process of their trial.
    fn left<P>(_pool: P) -> Result<(), String> {
        Ok(())
    }

    pools! {
        OriginalCbcp(channel::ThreadPool), |workers| channel::ThreadPool::new(workers),
            |pool, job| executors::Executor::execute(pool, job), executors::Executor::shutdown;
        OriginalCbwp(stealing::ThreadPool<small::Parker>), |workers| stealing::small_pool(workers),
            |pool, job| executors::Executor::execute(pool, job), executors::Executor::shutdown;
        OriginalNeverParking(stealing_never_parking::ThreadPool<small::NeverParking>),
            |workers| stealing_never_parking::small_pool(workers),
            |pool, job| executors_never_parking::Executor::execute(pool, job),
            executors_never_parking::Executor::shutdown;
        OriginalCounting(stealing_counting::ThreadPool<small::Counting>),
            |workers| stealing_counting::small_pool(workers),
            |pool, job| executors_counting::Executor::execute(pool, job),
            executors_counting::Executor::shutdown;
        Rayon(&'static rayon::ThreadPool),
            |workers| leaked(rayon::ThreadPoolBuilder::new().num_threads(workers).build().expect("threads")),
            |pool, job| pool.spawn(job), left;
        RayonFifo(Rayon), |workers| Rayon::make(workers), |rayon, job| rayon.0.spawn_fifo(job), left;
        Futures(futures::executor::ThreadPool),
            |workers| futures::executor::ThreadPool::builder().pool_size(workers).create().expect("threads"),
            |pool, job| pool.spawn_ok(async move { job() }), left;
        Blocking(&'static tokio::runtime::Runtime), |workers| leaked({
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(1).max_blocking_threads(workers).build().expect("threads")
        }), |runtime, job| drop(runtime.spawn_blocking(job)), left;
    }
}

// %% [markdown]
// From here on each goes by its own name.

// %%
pub use self::others::{
    Blocking, Futures, OriginalCbcp, OriginalCbwp, OriginalCounting, OriginalNeverParking, Rayon, RayonFifo,
};

// %% [markdown]
// # The program
//
// A message is a **chain**: a job that submits another one, which submits another one, `a` times over. So a message is
// *a* + 1 jobs, of which the first comes from outside, and the others come from workers, strictly one after the other.
// `a` is called amplification: with a small one, half of the jobs come from outside, with a large one hardly any.
//
// Each job works before and after it submits the next. The published work adds up numbers in a loop, and that is the
// first catch: **a compiler knows the sum.** It turns the loop into one multiplication, so all published jobs are
// empty, whatever the options say. We keep that work, under its own name, and add one that no compiler can
// shorten: every step takes the result of the one before, hidden from the compiler.

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
pub fn so_many(steps: u32) {
    let mut state = 1_u64;
    for _ in 0..steps {
        state = std::hint::black_box(state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1));
    }
}

impl Work for Opaque {
    #[inline]
    fn before(self) {
        so_many(self.before.into());
    }

    #[inline]
    fn after(self) {
        so_many(self.after.into());
    }
}

// %% [markdown]
// The second catch is **who is awaited**. The published program waits for the chain that each thread has submitted
// last, and for no other. With a shared queue that chain ends about last. With work stealing it may run alone on a
// worker that stole it, and end long before the rest. So the end of a chain is a parameter here: nobody, a latch, a
// witness that counts everything, or a list of arrivals.

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
        leaked(Self { missing: AtomicU64::new(number), waiter: std::thread::current() })
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

/// Nobody waits, or this latch does.
impl Observer for Option<&'static Latch> {
    #[inline]
    fn end(self) {
        if let Some(latch) = self {
            latch.arrive();
        }
    }
}

// %% [markdown]
// The message itself. Each of its jobs carries a handle of the pool.

// %%
/// A message: this job, and so many to come.
pub struct Chain<P, W, C> {
    pool: P,
    left: u32,
    work: W,
    observer: C,
}

impl<P: Subject, W: Work, C: Observer> Chain<P, W, C> {
    #[inline]
    pub fn run(self) {
        let Self { pool, left, work, observer } = self;
        observer.begin(left);
        work.before();
        if left > 0 {
            let next = Self { pool: pool.clone(), left: left - 1, work, observer };
            pool.execute(move || next.run());
        }
        work.after();
        if left == 0 {
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
        let chain = Chain { pool: pool.clone(), left: load.amplification, work, observer: observer(last) };
        pool.execute(move || chain.run());
    };
    produce(pool, load, submit, wait)
}

// %% [markdown]
// A message of that program is a closure of 24 bytes. What becomes of larger ones is asked by jobs that do nothing but
// carry something. In our pools, the last of them does not fit into a job.

// %%
/// Bytes of the closures.
pub const SIZES: [usize; 4] = [16, 24, 32, 64];

/// Submits jobs that hold an observer, which is one word, and so many words more.
fn carried<P: Subject, C: Observer, const WORDS: usize>(
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
fn sized<P: Subject, C: Observer>(
    pool: &P,
    load: &Load,
    bytes: usize,
    observer: C,
    wait: impl FnOnce(),
) -> Duration {
    match bytes {
        16 => carried::<P, C, 1>(pool, load, observer, wait),
        24 => carried::<P, C, 2>(pool, load, observer, wait),
        32 => carried::<P, C, 3>(pool, load, observer, wait),
        64 => carried::<P, C, 7>(pool, load, observer, wait),
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
        leaked(Self { start: Instant::now(), ns, arrived: AtomicU64::new(0), latch: Latch::of(chains) })
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
    fn begin(self, left: u32) {
        self.begun[left as usize].fetch_add(1, Ordering::Relaxed);
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
        leaked(Self { begun, ended: AtomicU64::new(0), latch: Latch::of(load.chains()) })
    }

    /// What has been seen so far, where each place is to be seen so many times.
    fn seen(&self, times_of: impl Fn(u32) -> u64) -> Counts {
        let begun: Vec<u64> = self.begun.iter().map(|times| times.load(Ordering::SeqCst)).collect();
        let places = (0..).zip(&begun).filter(|(left, times)| **times == times_of(*left)).count() as u64;
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
    /// All are awaited, and it is known when each of them has ended.
    fn with_arrivals(&self, load: &Load) -> (Duration, Histogram<u64>);
    /// Jobs that hold so many bytes, and all are awaited.
    fn of_size(&self, load: &Load, bytes: usize) -> Duration;
    /// A burst that is witnessed; what was seen when its last message had ended, and a way to look again.
    fn witnessed(&self, load: &Load, jobs: Jobs) -> &'static Ledger;
}

impl<P: Subject> Bursts for P {
    fn until_last(&self, load: &Load) -> Duration {
        let latch = Latch::of(load.producers);
        burst(self, load, PUBLISHED_WORK, |last| last.then_some(latch), || latch.wait())
    }

    fn until_all(&self, load: &Load, work: Opaque) -> Duration {
        let latch = Latch::of(load.chains());
        burst(self, load, work, |_| Some(latch), || latch.wait())
    }

    fn with_arrivals(&self, load: &Load) -> (Duration, Histogram<u64>) {
        let arrivals = Arrivals::of(load.chains());
        let time = burst(self, load, IDLE, |_| arrivals, || arrivals.latch.wait());
        (time, distribution(arrivals.ns.iter().map(|ns| ns.load(Ordering::Relaxed))))
    }

    fn of_size(&self, load: &Load, bytes: usize) -> Duration {
        let latch = Latch::of(load.chains());
        sized(self, load, bytes, Some(latch), || latch.wait())
    }

    fn witnessed(&self, load: &Load, jobs: Jobs) -> &'static Ledger {
        let ledger = Ledger::of(load);
        let wait = || ledger.latch.wait();
        match jobs {
            Jobs::Published => burst(self, load, PUBLISHED_WORK, |_| ledger, wait),
            Jobs::Working(work) => burst(self, load, work, |_| ledger, wait),
            Jobs::Carrying(bytes) => sized(self, load, bytes, ledger, wait),
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
        let (mut looked_at, mut seen) = (None, vec![]);
        run(&mut |ledger| seen.push(looked_at.insert(ledger).seen(&times_of)));
        seen.extend(looked_at.map(|ledger| ledger.seen(&times_of)));
        seen
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
            world(load.workers, &mut |pool| check(pool.witnessed(load, jobs)));
        },
    )
}

// %% [markdown]
// ## Fork and join
//
// Another load is what rayon was made for: a call that splits its work into halves and waits for both, down to leaves.
// With a `join`, that takes no allocation, and a half that nobody steals is an ordinary call. Our pools have no `join`.
// There, one half is submitted, the other is run at once, and a latch waits for the leaves. It costs each leaf an
// atomic operation, and queues that are first in, first out hold whole levels of the tree. `chili` is measured as well,
// which offers a half to other threads only from time to time.

// %%
/// What can go through a tree.
pub trait ForkJoin: Sized {
    /// With so many threads, among them the caller's, if that takes part.
    fn make(workers: usize) -> Self;
    /// Goes through a tree of so many levels below its root, with so many steps of work in each leaf. `observer` hears
    /// of every node, and of every leaf as an end.
    fn go_through<C: Observer>(&self, levels: u32, steps: u32, observer: C);
    /// Whether `go_through` returns before the last leaf.
    const RETURNS_EARLY: bool = false;
    /// Ends its threads as soon as possible.
    fn end(self) {}
}

#[inline]
fn leaf<C: Observer>(steps: u32, observer: C) {
    so_many(steps);
    observer.end();
}

// %% [markdown]
// For a pool without `join`, each node submits one half and goes on with the other.

// %%
/// A pool without `join`.
pub struct Submitting<P>(P);

impl<P: Subject> Submitting<P> {
    fn node<C: Observer>(pool: P, left: u32, steps: u32, observer: C) {
        observer.begin(left);
        if left == 0 {
            return leaf(steps, observer);
        }
        let other = pool.clone();
        pool.execute(move || Self::node(other, left - 1, steps, observer));
        Self::node(pool, left - 1, steps, observer);
    }
}

impl<P: Subject> ForkJoin for Submitting<P> {
    const RETURNS_EARLY: bool = true;

    fn make(workers: usize) -> Self {
        Self(P::make(workers))
    }

    fn go_through<C: Observer>(&self, levels: u32, steps: u32, observer: C) {
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

    fn go_through<C: Observer>(&self, levels: u32, steps: u32, observer: C) {
        fn node<C: Observer>(left: u32, steps: u32, observer: C) {
            observer.begin(left);
            if left == 0 {
                return leaf(steps, observer);
            }
            rayon::join(|| node(left - 1, steps, observer), || node(left - 1, steps, observer));
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

    fn go_through<C: Observer>(&self, levels: u32, steps: u32, observer: C) {
        fn node<'scope, C: Observer>(scope: &rayon::Scope<'scope>, left: u32, steps: u32, observer: C) {
            observer.begin(left);
            if left == 0 {
                return leaf(steps, observer);
            }
            scope.spawn(move |scope| node(scope, left - 1, steps, observer));
            node(scope, left - 1, steps, observer);
        }
        self.0.0.scope(|scope| node(scope, levels, steps, observer));
    }
}

// %% [markdown]
// And chili one.

// %%
impl ForkJoin for chili::ThreadPool {
    fn make(workers: usize) -> Self {
        let thread_count = std::num::NonZero::new(workers);
        Self::with_config(chili::Config { thread_count, ..Default::default() })
    }

    fn go_through<C: Observer>(&self, levels: u32, steps: u32, observer: C) {
        fn node<C: Observer>(scope: &mut chili::Scope<'_>, left: u32, steps: u32, observer: C) {
            observer.begin(left);
            if left == 0 {
                return leaf(steps, observer);
            }
            let half = |scope: &mut chili::Scope<'_>| node(scope, left - 1, steps, observer);
            scope.join(half, half);
        }
        node(&mut self.scope(), levels, steps, observer);
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
        self.go_through(levels, steps, latch);
        latch.into_iter().for_each(Latch::wait);
        start.elapsed()
    }

    fn witness(&self, levels: u32, steps: u32) -> &'static Ledger {
        let ledger =
            Ledger::of(&Load { workers: 0, producers: 1, messages: 1 << levels, amplification: levels });
        self.go_through(levels, steps, ledger);
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
    let of_place = |left| 1_u64 << (LEVELS - left);
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
// them is compared with; with the word `lean`, ours.

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
pub const LEAN_CBCP: Variant = variant::<Ours<SharedChannel>>("lean CBCP");
pub const LEAN_CBWP: Variant = variant::<Ours<Stealing>>("lean CBWP");
pub const LEAN_NEVER_PARK: Variant = variant::<Ours<Stealing, false>>("lean CBWP (ws-no-park)");
pub const X_CBCP: Variant = variant::<OriginalCbcp>("executors CBCP");
pub const X_CBWP: Variant = variant::<OriginalCbwp>("executors CBWP");
pub const X_NEVER_PARK: Variant = variant::<OriginalNeverParking>("executors 0.9 CBWP (ws-no-park)");
pub const X_COUNTING: Variant = variant::<OriginalCounting>("executors 0.8 CBWP (no ws-timed-fairness)");
pub const PINNED_CBCP: Variant = variant::<DescribedCbcp<true>>("CBCP (pinned)");
pub const PINNED_CBWP: Variant = variant::<DescribedCbwp<true, true, true>>("CBWP (pinned)");
pub const RAYON: Variant = variant::<Rayon>("rayon spawn");
pub const RAYON_FIFO: Variant = variant::<RayonFifo>("rayon spawn_fifo");
pub const RAYON_JOIN: Variant = forks::<RayonJoin>("rayon join");
pub const RAYON_SCOPE: Variant = forks::<RayonScope>("rayon scope");
pub const CHILI: Variant = forks::<chili::ThreadPool>("chili join");
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
        "our worker, which does not block in the channel and wakes nobody for its own jobs while somebody searches; handles that count once, not three times",
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
        "our worker and our parking, which tells sleepers of a worker's own jobs, too",
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
fn step_before(to: &str) -> Option<(&'static str, &'static str)> {
    let found = |steps: &[Step]| {
        let pair = steps.windows(2).find(|pair| pair[1].0.name == to)?;
        Some((pair[0].0.name, pair[1].1))
    };
    found(&TO_LEAN_CBCP).or_else(|| found(&TO_LEAN_CBWP))
}

/// The original of one of ours.
pub fn original(of: &str) -> Option<&'static str> {
    match of {
        "CBCP" => Some(X_CBCP.name),
        "CBWP" | "CBWP (default-features)" => Some(X_CBWP.name),
        "CBWP (ws-no-park)" => Some(X_NEVER_PARK.name),
        "CBWP (no ws-timed-fairness)" => Some(X_COUNTING.name),
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
// A row of the data is a pool under a load, measured in one of these ways.

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
    let lean = [LEAN_CBCP, LEAN_CBWP, LEAN_NEVER_PARK];
    let mut cells = vec![];
    for (bench, messages, amplification) in [low, high] {
        for workers in (1..=9).rev() {
            let load = Load { workers, producers: 2, messages, amplification };
            // Enough to see where the lean ones stand.
            let lean = if workers.is_power_of_two() { &lean[..] } else { &[] };
            for &variant in variants.iter().chain(lean) {
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
    let number = if scale.published { 4 } else { 3 };
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
        let all =
            [TP, CBCP, CBWP, NEVER_PARK, X_CBCP, X_CBWP, X_NEVER_PARK, LEAN_CBCP, LEAN_CBWP, LEAN_NEVER_PARK];
        add("latency", size, amplification, Duration::from_millis(100), &all);
    }
    for (size, amplification) in sizes {
        let all = [TP, CBCP, CBWP, NEVER_PARK, LEAN_CBCP, LEAN_CBWP, LEAN_NEVER_PARK, RAYON, FUTURES];
        add("whole", size, amplification.min(1_000), Duration::from_millis(10), &all);
    }
    cells
}

// %% [markdown]
// ## The corrected experiment
//
// All jobs are awaited. `external` is a load without amplification: every job comes from outside. `internal` has long
// chains. First with empty jobs, on one to eight threads, where the steps from the described pools to the lean ones
// stand as well; then with jobs of a hundred to ten thousand steps. `no pool` runs the jobs of one thread where they
// are submitted: what is left when there is no pool.

// %%
/// Steps of work in a job, and how many times fewer jobs there are.
const WORKS: [(u16, u64); 3] = [(100, 4), (1_000, 20), (10_000, 100)];

/// Throughput of all jobs.
fn corrected_throughput(scale: Scale) -> Vec<Row> {
    let external = ("jobs/external", 10_000 * scale.messages, 0);
    let internal = ("jobs/internal", 50 * scale.messages, 500);
    let lean = [LEAN_CBCP, LEAN_CBWP, LEAN_NEVER_PARK, RAYON, RAYON_FIFO];
    let every = [TP, CBCP, CBWP, PINNED_CBCP, PINNED_CBWP].into_iter().chain(lean);
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
            for variant in [TP, CBCP, CBWP, LEAN_CBCP, LEAN_CBWP, RAYON] {
                add(variant, 2, steps, 2, fewer);
            }
            add(NO_POOL, 2, steps, 1, fewer);
        }
    }
    cells
}

// %% [markdown]
// Closures of 16 to 64 bytes, all from outside: ours have room for some of them in the job itself, the other two put
// each into a box.

// %%
/// The same load with closures of several sizes.
const BY_BYTES: &str = "jobs/closure";

fn closures(scale: Scale) -> Vec<Row> {
    let load = Load { workers: 2, producers: 2, messages: 10_000 * scale.messages, amplification: 0 };
    let row = |bytes| {
        let parameter = format!("threads=2 bytes={bytes}");
        [LEAN_CBWP, CBWP, RAYON].map(|of| Row::new(BY_BYTES, of, &parameter, load, Kind::Sized(bytes)))
    };
    SIZES.into_iter().flat_map(row).collect()
}

// %% [markdown]
// Trees, and the pools that have nothing to do.

// %%
/// Trees of 32,767 nodes.
fn trees() -> Vec<Row> {
    let variants = [CBCP, CBWP, LEAN_CBCP, LEAN_CBWP, RAYON, RAYON_JOIN, RAYON_SCOPE, CHILI];
    let mut cells = vec![];
    for (workers, steps) in [(2, 0), (2, 100), (1, 0), (1, 100)] {
        let load = Load { workers, producers: 1, messages: 1, amplification: NODES as u32 - 1 };
        let parameter = format!("threads={workers} work={steps}");
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
        latency(),
        corrected_throughput(scale),
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
pub fn by_the_rule(bursts: (u64, u64), mut burst: impl FnMut() -> Duration) -> Vec<f64> {
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
fn of_bursts(times: &[f64]) -> Sample {
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
        (0..processors).for_each(|_| drop(scope.spawn(|| so_many(NEIGHBOUR))));
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
    let times = by_the_rule(bursts, || {
        std::thread::sleep(pause);
        let (time, of_burst) = pool.with_arrivals(load);
        arrivals.add(of_burst).expect("it grows as far as it must");
        time
    });
    let quantile = |share| arrivals.value_at_quantile(share);
    of_bursts(&times)
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
            Kind::Sized(bytes) => (variant.world)(workers, &mut |pool| {
                bencher.samples(&mut || Sample::new(load.jobs(), pool.of_size(load, bytes)))
            }),
            Kind::LastOfBurst(pause) => (variant.world)(workers, &mut |pool| {
                bencher.samples(&mut || {
                    if !std::mem::replace(&mut warm, true) {
                        let few = Load { amplification: load.amplification.div_ceil(100), ..*load };
                        return of_bursts(&[pool.until_last(&few).as_nanos() as f64]);
                    }
                    of_bursts(&by_the_rule(scale.bursts, || {
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
// Every bench under every parameter is a group of its own, with a control: work stealing as described a second time.
// How threads interleave differs from run to run. So the limit is 10 % where jobs are timed, and 5 % for the
// neighbours' computation.

// %%
/// The cell that is measured twice in its group.
fn is_control(cell: &Row) -> bool {
    match cell.kind {
        Kind::Neighbour => cell.variant.name == NO_POOL.name,
        Kind::Idle => false,
        _ => [CBWP.name, DEFAULT.name].contains(&cell.variant.name),
    }
}

/// What one iteration is.
fn unit(kind: Kind) -> &'static str {
    match kind {
        Kind::Published | Kind::All(_) | Kind::Sized(_) | Kind::Tree(_) => "job",
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
// What is compared with what? Under every load that both have: the pools as described with their originals, and the
// lean ones with the described ones. Every pool with lean work stealing where all jobs are awaited and do nothing, and
// in small bursts. With no pool at all where jobs work, and for the neighbours. In bursts, also pools as described that
// differ in one thing.

// %%
/// With what a pool is compared under its load.
fn rivals(cell: &Row) -> Vec<&'static str> {
    let name = cell.variant.name;
    let pinned = name.strip_suffix(" (pinned)");
    let step = step_before(name).map(|(before, _)| before).filter(|_| matches!(cell.kind, Kind::All(_)));
    let in_between = step.is_some() && !name.starts_with("lean");
    let of_the_field = [RAYON, RAYON_FIFO, FUTURES, BLOCKING].iter().any(|variant| variant.name == name);
    let (lean, nothing) = match cell.kind {
        Kind::Neighbour if name != NO_POOL.name => return vec![NO_POOL.name],
        Kind::Idle | Kind::Neighbour => return vec![],
        Kind::Tree(_) if name == RAYON_JOIN.name => return vec![],
        Kind::Tree(_) => {
            return [described(name, cell.kind), Some(RAYON_JOIN.name)].into_iter().flatten().collect();
        }
        Kind::Published => (false, false),
        _ if in_between || pinned.is_some() => (false, false),
        Kind::All(work) => (work == IDLE || of_the_field, work != IDLE),
        Kind::Sized(_) => (of_the_field, false),
        Kind::WholeBurst(_) if cell.load.amplification == 1 => (true, false),
        Kind::LastOfBurst(_) | Kind::WholeBurst(_) => {
            ([LEAN_CBCP.name, LEAN_NEVER_PARK.name].contains(&name) || of_the_field, false)
        }
    };
    let burst = matches!(cell.kind, Kind::LastOfBurst(_) | Kind::WholeBurst(_));
    let rivals = [
        original(name),
        described(name, cell.kind),
        step,
        pinned,
        (burst && name == CBCP.name).then_some(TP.name),
        (cell.kind != Kind::Published && [CBCP.name, NEVER_PARK.name].contains(&name)).then_some(CBWP.name),
        lean.then_some(LEAN_CBWP.name),
        nothing.then_some(NO_POOL.name),
    ];
    // Not with itself, and not twice with its original or what was made of it.
    let known = |other: &str| original(other) == Some(name) || described(other, cell.kind) == Some(name);
    rivals.into_iter().flatten().filter(|other| *other != name && !known(other)).collect()
}

// %% [markdown]
// Each comparison says in words what changes.

// %%
/// What changes from one pool to another.
fn change(one: &str, other: &str) -> String {
    let changed = match (one, other) {
        _ if step_before(one).is_some_and(|(before, _)| before == other) => {
            step_before(one).map_or("", |(_, changed)| changed)
        }
        _ if one.strip_suffix(" (pinned)") == Some(other) => "workers bound to processors",
        (_, "no pool") => "a pool instead of none",
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
// other numbers of threads.

// %%
/// A pool with so many threads.
type OfThreads = (Variant, u32);

/// Cells of the published tables: the bench, the cell, and the one that it is compared with.
const PUBLISHED: [(&str, OfThreads, OfThreads); 19] = [
    (HIGH, (DEFAULT, 8), (CBCP, 8)),
    (HIGH, (DEFAULT, 1), (CBCP, 1)),
    (LOW, (DEFAULT, 8), (CBCP, 8)),
    (LOW, (DEFAULT, 6), (CBCP, 6)),
    (LOW, (DEFAULT, 4), (CBCP, 4)),
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
        for other in rivals(cell) {
            let rival = Key { variant: other.to_owned(), ..cell.key.clone() };
            all.push((cell.key.clone(), rival, change(cell.variant.name, other)));
        }
    }
    for (bench, (one, threads), (other, other_threads)) in PUBLISHED {
        let key = |variant: Variant, threads| Key::new(bench, variant.name, format!("threads={threads}"));
        let changed = match one.name == other.name {
            true => format!("{threads} threads instead of {other_threads}"),
            false => change(one.name, other.name),
        };
        all.push((key(one, threads), key(other, other_threads), changed));
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
        study =
            study.group(format!("{}, {}", key.bench, key.parameter), limit).unit(unit(cell.kind)).samples(1);
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
            Kind::WholeBurst(_) | Kind::All(_) | Kind::Sized(_) | Kind::Tree(_) | Kind::Idle
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
// Rounds follow one another; each runs everything above in an order drawn by lot, each trial in a process of its own.
//
// `quick` takes half a minute and shows that everything works; it is not evidence. For that, set the
// environment variable `ASYNC_COST_PROFILE` to `standard` or `thorough` before you start the kernel.

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
// - Most jobs here do nothing. The more a job does itself, the smaller is the share of its pool.
// - Two threads submit, and they need processors, too. On a machine with two, every published cell is crowded.
// - The flags of the originals are fixed when they are compiled. Two of them are older versions for that reason.
// - A pause of 100 ms lets the workers fall asleep, not the processor: how deep that sleeps depends on the machine.
//
// # What next
//
// - Let `push_local` always return `Notify::Sleepers` in the work-stealing pool, and see what it costs.
// - Take `Worker::new_lifo` instead of `new_fifo`.
// - Give `Job` more room, or none, and count: `cargo bench -p thread-pools --bench counts`.
