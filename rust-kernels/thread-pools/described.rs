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
// # The pools as they are described
//
// A thread pool takes closures and runs them on some threads. The simplest puts them into one queue that all workers
// share. A *work-stealing* pool gives every worker a queue of its own, and lets idle workers steal.
//
// The crate `executors` has three pools, and published times of them: `TP` around the crate `threadpool`, `CBCP` around
// one channel of crossbeam, and `CBWP`, with work stealing. [The measuring notebook](measure.ipynb) asks which of them
// suits which load. It measures the crate itself; but parts of a crate cannot be exchanged. So this notebook builds the
// three again from their description, in code that you can read and change.
//
// After reading it you know what a thread pool consists of, and what its parts cost on your machine.
//
// ## Compile cells as for a benchmark
//
// The cells that look at times need these settings. In the report these pools are, like the crate, compiled in 16
// codegen units: that is what `cargo build --release` does, by which the published program was built. A function that
// lies in another unit is not inlined, which shows where a job takes a tenth of a microsecond. Cells of a notebook are
// compiled in one unit.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep core_affinity = "=0.8.3"
// :dep crossbeam-channel = "=0.5.17"
// :dep crossbeam-deque = "=0.8.8"
// :dep crossbeam-utils = "=0.8.23"
// :dep fastrand = "=2.5.0"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep sync = { path = "../../rust-kernels/sync" }
// :dep threadpool = "=1.8.1"

// %% [markdown]
// An error between threads may take years to show. So the code that decides which workers sleep uses the crate `sync`,
// which can replace threads by [loom](https://docs.rs/loom): that runs a test once for every possible interleaving.
// `tests/loom.rs` does that for the parking of workers below.

// %%
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use crossbeam_deque::{Injector, Stealer, Worker};
use crossbeam_utils::Backoff;
use harness::Bencher;
use sync::atomic::{AtomicBool, AtomicUsize, fence};
use sync::thread::{self, Thread};
use sync::{Condvar, Mutex, MutexGuard};

// %% [markdown]
// ## What is asked of a pool
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

/// How long a pool may take to end.
pub const END: Duration = Duration::from_secs(5);

// %% [markdown]
// With that, pools can be compared at a glance. One thread submits jobs that do nothing to two workers, and waits for
// all of them.

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

// %% [markdown]
// ## TP: the plain pool
//
// The baseline is the crate `threadpool`, wrapped as the original wraps it: one channel of the standard library, whose
// receiver lies in a mutex that all workers share, and one flag that is read before each submission.

// %%
/// The plain thread pool.
#[derive(Clone)]
pub struct Tp {
    pool: threadpool::ThreadPool,
    active: Arc<std::sync::atomic::AtomicBool>,
}

impl Subject for Tp {
    fn make(workers: usize) -> Self {
        Self { pool: threadpool::ThreadPool::new(workers), active: Arc::new(true.into()) }
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
// The time of a job in the simplest pool:

// %% tags=["active-ipynb", "glance"]
// harness::Glance::at("job").each_of(JOBS).look("TP", jobs::<Tp>).show()

// %% [markdown]
// ## CBCP: one shared channel
//
// One channel carries jobs and requests to stop. A job is a closure in a box, and a request holds the signal for which
// the thread that ends the pool waits.

// %%
/// A closure in a box.
type Boxed = Box<dyn FnOnce() + Send>;

/// A hundred years: not every clock counts to more.
pub const LONGEST: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

// %% [markdown]
// A pool ends when its workers have. A thread that ends it waits for that; but a worker that ends its own pool, or that of
// another worker which ends this one, would wait for ever. So workers are counted that wait for workers: when all that are
// left of a pool wait, there is nothing to wait for.

// %%
/// Workers that have not ended, and a place to wait for that.
pub struct LiveWorkers {
    live: Mutex<Live>,
    changed: Condvar,
}

struct Live {
    workers: usize,
    /// Those of them that wait here, or for the workers of another pool.
    waiting: usize,
    /// How often all workers were waiting.
    rounds: usize,
}

impl LiveWorkers {
    pub fn new(workers: usize) -> Self {
        Self { live: Mutex::new(Live { workers, waiting: 0, rounds: 0 }), changed: Condvar::new() }
    }

    pub fn one_less(&self) {
        self.change(|live| live.workers -= 1);
    }

    fn change(&self, change: impl FnOnce(&mut Live)) {
        let mut live = self.lock();
        change(&mut live);
        live.rounds += usize::from(live.workers == live.waiting);
        self.changed.notify_all();
    }
}

// %% [markdown]
// A wait ends with the last worker, with its time, or when all that are left wait as well.

// %%
impl LiveWorkers {
    /// Waits until all have ended, or for so long. Says how many are left. A worker says of which workers it is one; it
    /// does not wait for those that wait themselves, which would never end.
    pub fn wait(&self, of: Option<&Self>, limit: Duration) -> usize {
        let (deadline, round) = (Instant::now() + limit.min(LONGEST), self.lock().rounds);
        if let Some(own) = of {
            own.change(|live| live.waiting += 1);
        }
        let mut live = self.lock();
        let left = loop {
            let left = match of {
                None => live.workers,
                // Those that waited with it may have gone on before it has come to look.
                Some(_) if live.rounds != round => 0,
                Some(_) => live.workers - live.waiting,
            };
            let time = deadline.saturating_duration_since(Instant::now());
            if left == 0 || time.is_zero() {
                break left;
            }
            live = self.changed.wait_timeout(live, time).expect("no thread panics with these numbers").0;
        };
        drop(live);
        if let Some(own) = of {
            own.lock().waiting -= 1;
        }
        left
    }

    fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().expect("no thread panics with these numbers")
    }
}

// %% [markdown]
// The pool of the crate runs futures as well, whose steps go through the same channel. No future is submitted here. But
// with room for them a message is three words, not two, and every job is written to the channel and read from it.

// %%
/// What goes through the channel of [`DescribedCbcp`].
enum Message {
    Run(Boxed),
    #[expect(dead_code, reason = "no future is submitted")]
    Step(Arc<fn()>),
    Stop(Arc<LiveWorkers>),
}

// %% [markdown]
// A worker whose job panics is replaced: a value that it drops when it ends finds out. If the user wants it, as many
// workers as there are processors are bound to one each, which the crate calls pinning. The operating system may then
// not move such a worker to an idle processor, even if its own is busy.

// %%
/// Calls this when its thread panics.
struct Sentinel<R: FnMut()>(R);

impl<R: FnMut()> Drop for Sentinel<R> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

/// Binds the calling worker to a processor, if there is one left for it; other workers may run anywhere.
fn pin(worker: usize) {
    let processors = core_affinity::get_core_ids().expect("the system says on which processors this may run");
    if let Some(&processor) = processors.get(worker) {
        assert!(core_affinity::set_for_current(processor), "worker {worker} cannot be bound");
    }
}

// %% [markdown]
// The pool, made of these parts. The function that takes a box is not generic, so it is compiled here, in as many
// codegen units as this crate, and not where a job is submitted. The original does the same.

// %%
/// A handle counts three references, as that of the crate does.
#[derive(Clone)]
struct ChannelPool {
    /// For workers that replace others.
    _core: Arc<Receiver<Message>>,
    sender: Sender<Message>,
    workers: usize,
    shut: Arc<AtomicBool>,
}

impl ChannelPool {
    fn start(workers: usize, pins: bool) -> Self {
        const { assert!(size_of::<Message>() == 3 * size_of::<usize>()) };
        let (sender, receiver) = crossbeam_channel::unbounded();
        let core = Arc::new(receiver);
        (0..workers).for_each(|number| Self::start_worker(&core, number, pins));
        Self { _core: core, sender, workers, shut: Arc::new(AtomicBool::new(false)) }
    }

    fn start_worker(core: &Arc<Receiver<Message>>, number: usize, pins: bool) {
        let (receiver, core) = (Receiver::clone(core), Arc::downgrade(core));
        let worker = move || {
            if pins {
                pin(number);
            }
            let _sentinel = Sentinel(|| {
                if let Some(core) = core.upgrade() {
                    Self::start_worker(&core, number, pins);
                }
            });
            while let Ok(message) = receiver.recv() {
                match message {
                    Message::Run(job) => job(),
                    Message::Step(step) => step(),
                    Message::Stop(live) => return live.one_less(),
                }
            }
        };
        thread::Builder::new().spawn(worker).expect("the system has a thread");
    }

    fn send(&self, job: Boxed) {
        if !self.shut.load(Ordering::SeqCst) {
            self.sender.send(Message::Run(job)).expect("the core holds the receiver");
        }
    }

    /// Ends when each worker has received a request to stop.
    fn stop(&self) {
        self.shut.store(true, Ordering::SeqCst);
        let live = Arc::new(LiveWorkers::new(self.workers));
        (0..self.workers).for_each(|_| drop(self.sender.send(Message::Stop(live.clone()))));
        assert_eq!(live.wait(None, END), 0, "jobs of the measuring program are short");
    }
}

// %% [markdown]
// And what is measured:

// %%
/// The pool with one shared crossbeam channel, as described.
#[derive(Clone)]
pub struct DescribedCbcp<const PINS: bool = false>(ChannelPool);

impl<const PINS: bool> Subject for DescribedCbcp<PINS> {
    fn make(workers: usize) -> Self {
        Self(ChannelPool::start(workers, PINS))
    }

    #[inline]
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.0.send(Box::new(job));
    }

    fn end(self) {
        self.0.stop();
    }
}

// %% [markdown]
// The shared channel beside the simplest pool, with workers that may move and with pinned ones:

// %% tags=["active-ipynb", "glance"]
// harness::Glance::at("job")
//     .each_of(JOBS)
//     .look("TP", jobs::<Tp>)
//     .look("CBCP", jobs::<DescribedCbcp<false>>)
//     .look("CBCP, pinned", jobs::<DescribedCbcp<true>>)
//     .show()

// %% [markdown]
// ## How workers of CBWP park
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
    /// Which workers sleep or are about to.
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
        self.states.lock().expect("no thread panics with the states")
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

    /// It has not: sleeps, unless `unpark_one` was called in the meantime.
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
// ## CBWP: work stealing
//
// A global queue, the *injector*, takes what comes from outside. Every worker has a deque of its own, first in, first
// out, from which others may steal. A worker runs what is in its own deque until that is empty or a millisecond has
// passed, by a clock that it reads after every job. Then it reads messages of the pool, takes a batch from the injector,
// and steals one job from another. A job that a worker submits goes to its own deque and wakes no other worker. A
// sleeper is woken only when the worker has looked outside after a millisecond, found nothing, and has more to do.
//
// Three things can be chosen, which in the crate are features of the compiler: whether workers park at all, whether they
// read the clock or count to a hundred, and whether they are bound to processors.

// %%
/// What the pool tells a worker.
enum Control {
    /// From whom to steal.
    Others(Vec<Stealer<Task>>),
    Stop(Arc<LiveWorkers>),
}

/// What is in the queues.
enum Task {
    Run(Boxed),
    #[expect(dead_code, reason = "no future is submitted")]
    Step(Arc<fn()>),
}

impl Task {
    fn run(self) {
        match self {
            Self::Run(job) => job(),
            Self::Step(step) => step(),
        }
    }
}

/// What is chosen of a [`DescribedCbwp`].
#[derive(Clone, Copy)]
struct Features {
    parks: bool,
    timed: bool,
    pins: bool,
}

/// How long, or for how many jobs of its own, a worker does not look outside.
const FAIR: (Duration, u32) = (Duration::from_millis(1), 100);

/// What workers and handles of [`DescribedCbwp`] share.
struct StealingCore {
    injector: Injector<Task>,
    parker: Parker,
    shut: AtomicBool,
    features: Features,
    /// The deque of each worker, and how it gets messages.
    workers: Mutex<Vec<(Stealer<Task>, Sender<Control>)>>,
}

// %% [markdown]
// A thread finds its deque in a thread-local. Each worker gets the stealers of the deques of the others, again after each
// replacement.

// %%
/// Reads the place for the deque of this thread, which is empty unless it is a worker of such a pool.
#[inline]
fn own_deque<Out>(read: impl FnOnce(&std::cell::OnceCell<Worker<Task>>) -> Out) -> Out {
    thread_local! {
        static OWN: std::cell::OnceCell<Worker<Task>> = const { std::cell::OnceCell::new() };
    }
    OWN.with(read)
}

impl StealingCore {
    /// Tells every worker of the deques of the others.
    fn introduce(&self) {
        let workers = self.workers.lock().expect("no thread panics with the list of workers");
        for (worker, (_, control)) in workers.iter().enumerate() {
            let others = workers.iter().enumerate().filter(|(other, _)| *other != worker);
            // One that has ended does not listen.
            let _ = control.send(Control::Others(others.map(|(_, (stealer, _))| stealer.clone()).collect()));
        }
    }
}

// %% [markdown]
// The loop of a worker. It asks for its pool anew in each turn. `prepared` means only that its bit is set; it looks for
// work once more before it sleeps.

// %%
impl StealingCore {
    fn work(pool: &Weak<Self>, worker: usize, messages: &Receiver<Control>, own: &Worker<Task>) {
        let Some(Features { parks, timed, .. }) = pool.upgrade().map(|core| core.features) else { return };
        let mut victims: Vec<Stealer<Task>> = vec![];
        let (backoff, mut prepared) = (Backoff::new(), false);
        loop {
            let (end, mut jobs, mut fair) = (timed.then(|| Instant::now() + FAIR.0), 0, false);
            while !fair && let Some(job) = own.pop() {
                job.run();
                backoff.reset();
                jobs += 1;
                fair = end.map_or(jobs >= FAIR.1, |end| Instant::now() > end);
            }
            let Some(core) = pool.upgrade() else { return };
            while let Ok(message) = messages.try_recv() {
                match message {
                    Control::Others(others) => {
                        victims = others;
                        fastrand::shuffle(&mut victims);
                    }
                    Control::Stop(live) => return live.one_less(),
                }
                if std::mem::take(&mut prepared) {
                    core.parker.abort_park(worker);
                }
            }
            let mut found = core.injector.steal_batch_and_pop(own).success();
            if found.is_none() && fair {
                if parks {
                    core.parker.unpark_one();
                }
                continue;
            }
            found = found.or_else(|| victims.iter().find_map(|victim| victim.steal().success()));
            if let Some(job) = found {
                if std::mem::take(&mut prepared) {
                    core.parker.abort_park(worker);
                }
                job.run();
                backoff.reset();
            } else if !parks {
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
impl StealingCore {
    fn start(workers: usize, features: Features) -> Arc<Self> {
        let core = Arc::new(Self {
            injector: Injector::new(),
            parker: Parker::new(workers),
            shut: AtomicBool::new(false),
            features,
            workers: Mutex::new(vec![]),
        });
        (0..workers).for_each(|worker| core.start_worker(worker));
        core.introduce();
        core
    }

    /// Starts this worker with a deque of its own, or starts it again after a panic.
    fn start_worker(self: &Arc<Self>, worker: usize) {
        let (control, messages) = crossbeam_channel::unbounded();
        let deque = Worker::new_fifo();
        {
            let mut workers = self.workers.lock().expect("no thread panics with the list of workers");
            let entry = (deque.stealer(), control);
            if worker < workers.len() { workers[worker] = entry } else { workers.push(entry) }
        }
        let (pool, pins) = (Arc::downgrade(self), self.features.pins);
        let work = move || {
            if pins {
                pin(worker);
            }
            let _sentinel = Sentinel(|| {
                if let Some(core) = pool.upgrade() {
                    core.start_worker(worker);
                    core.introduce();
                }
            });
            own_deque(|own| Self::work(&pool, worker, &messages, own.get_or_init(|| deque)));
        };
        thread::Builder::new().spawn(work).expect("the system has a thread");
    }
}

// %% [markdown]
// Submitting depends on the thread: to its own deque if it has one, otherwise to the injector.

// %%
impl StealingCore {
    fn submit(&self, job: Boxed) {
        if self.shut.load(Ordering::Relaxed) {
            return;
        }
        // The deque of whatever pool this thread works for: so it is described.
        own_deque(|own| match own.get() {
            Some(own) => own.push(Task::Run(job)),
            None => {
                self.injector.push(Task::Run(job));
                if self.features.parks {
                    self.parker.unpark_one();
                }
            }
        });
    }

    fn stop(&self) {
        self.shut.store(true, Ordering::SeqCst);
        let workers = self.workers.lock().expect("no thread panics with the list of workers");
        let live = Arc::new(LiveWorkers::new(workers.len()));
        for (_, control) in workers.iter() {
            control.send(Control::Stop(live.clone())).expect("every worker listens");
        }
        drop(workers);
        self.parker.unpark_all();
        assert_eq!(live.wait(None, END), 0, "jobs of the measuring program are short");
    }
}

// %% [markdown]
// And what is measured:

// %%
/// The pool with work stealing, as described.
#[derive(Clone)]
pub struct DescribedCbwp<const PARKS: bool = true, const TIMED: bool = true, const PINS: bool = false>(
    Arc<StealingCore>,
);

impl<const PARKS: bool, const TIMED: bool, const PINS: bool> Subject for DescribedCbwp<PARKS, TIMED, PINS> {
    fn make(workers: usize) -> Self {
        Self(StealingCore::start(workers, Features { parks: PARKS, timed: TIMED, pins: PINS }))
    }

    #[inline]
    fn execute(&self, job: impl FnOnce() + Send + 'static) {
        self.0.submit(Box::new(job));
    }

    fn end(self) {
        self.0.stop();
    }
}

// %% [markdown]
// All three pools, and the third with workers that never park:

// %% tags=["active-ipynb", "glance"]
// harness::Glance::at("job")
//     .each_of(JOBS)
//     .look("TP", jobs::<Tp>)
//     .look("CBCP", jobs::<DescribedCbcp<false>>)
//     .look("CBWP", jobs::<DescribedCbwp<true, true, false>>)
//     .look("CBWP, never parks", jobs::<DescribedCbwp<false, true, false>>)
//     .show()

// %% [markdown]
// # What next
//
// - Give a job some work, in `jobs`, and see from when on the pools are alike.
// - [The lean pools](lean.ipynb) change one part after another.
// - [The measuring notebook](measure.ipynb) asks which pool suits which load.
