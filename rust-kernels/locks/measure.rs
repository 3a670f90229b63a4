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
// # Which lock, if tasks share a number?
//
// tokio's tutorial advises to use the mutex of the standard library in async code, unless it is held across an await.
// Others keep the number in a task of its own and ask that by messages, or move the lock to a thread for blocking calls.
// Which is cheaper is asked again and again ([tokio 2599](https://github.com/tokio-rs/tokio/issues/2599), [website
// 714](https://github.com/tokio-rs/website/issues/714), [webrtc
// 119](https://github.com/webrtc-rs/webrtc/issues/119)), and answered with rules.
//
// The base: one task on tokio's current_thread gets a lock that nobody else wants, adds one, and gives it back, without
// an await in between. Then one thing changes at a time: the lock; an await while it is held; how many tasks want it; how
// many threads run them.
//
// After reading it and its analysis you can decide which lock to take, and what a guard that is held across an await
// costs those who wait.

// %% [markdown]
// ## Compile cells as for a benchmark
//
// As in every measuring notebook: without these settings the ratios come out wrong, and the harness refuses to measure.
// tokio's mutex uses one of the standard library inside: its feature `parking_lot` is off.

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep async-channel = "=2.5.0"
// :dep async-lock = "=3.5.0"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep parking_lot = "=0.12.5"
// :dep tokio = { version = "=1.54.1", features = ["rt-multi-thread", "sync"] }

// %% [markdown]
// From here on each cell is also a part of the crate `locks`, except cells that only show something.

// %%
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use harness::{Bencher, Counts, Key, Study, UnequalWork, Watch, limit, prove_isolated};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{spawn_blocking, yield_now};

// %% [markdown]
// # Equal work
//
// Every lock guards a number that begins at zero. Who gets the lock adds one and sees what the number is then. If no two
// ever have it at once, each number is seen exactly once, so after *n* acquisitions what was seen adds up to *n*(*n* + 1)/2;
// an increment that is lost, or one made by two at once, gives another sum. Readers see zero, and each adds one to
// the sum. All that is timed returns this sum, and it is compared every time.

// %%
/// A number that is shared by tasks.
pub trait Lock: Send + Sync + 'static {
    /// As in the data.
    const NAME: &'static str;
    /// Whether it lets readers in, who change nothing.
    const READS: bool = false;

    /// Zero. Called in a task.
    fn new() -> Self;

    /// Gets the lock, adds one, gives the lock back without an await in between, and returns the number. A reader
    /// returns one more than the number.
    fn add(&self) -> impl Future<Output = u64> + Send;
}

/// One that may be held across an await.
pub trait Across: Lock {
    /// As `add`, with a yield between reading the number and writing it.
    fn add_across(&self) -> impl Future<Output = u64> + Send;
}

/// One whose guard may be kept.
pub trait Guarded: Lock {
    /// Gets the lock, which is given back when the guard is dropped.
    fn acquire(&self) -> impl Future<Output = impl Sized>;
}

// %% [markdown]
// What does one do who has got a lock? As little as possible, so that the lock is what is measured. Across an await it is
// the same in two steps, with a yield between them.

// %%
/// What one does who has got a lock.
fn increment(mut number: impl DerefMut<Target = u64>) -> u64 {
    *number += 1;
    *number
}

/// The same with a yield: the scheduler runs every other task that is ready before it goes on.
async fn increment_across(mut number: impl DerefMut<Target = u64>) -> u64 {
    let seen = *number;
    yield_now().await;
    *number = seen + 1;
    seen + 1
}

/// What a reader does.
fn read(number: impl Deref<Target = u64>) -> u64 {
    *number + 1
}

/// The same with a yield.
async fn read_across(number: impl Deref<Target = u64>) -> u64 {
    yield_now().await;
    *number + 1
}

// %% [markdown]
// # The locks
//
// A line for each: its type, its name, what its holder does, and how it is got. The guards of the standard library and
// of parking_lot are not `Send`, so no spawned task can hold one across an await; the others can, after `across`.

// %%
/// A newtype for each.
#[macro_export]
macro_rules! locks {
    ($($name:ident($inner:ty) = $new:expr, $text:literal $reads:literal $change:ident $(across $across:ident)?
        |$lock:ident| $acquire:expr;)*) => {$(
        #[doc = $text]
        pub struct $name(pub $inner);

        impl Lock for $name {
            const NAME: &'static str = $text;
            const READS: bool = $reads;

            fn new() -> Self {
                Self($new)
            }

            async fn add(&self) -> u64 {
                let $lock = &self.0;
                $change($acquire)
            }
        }

        impl Guarded for $name {
            async fn acquire(&self) -> impl Sized {
                let $lock = &self.0;
                $acquire
            }
        }

        $(
            impl Across for $name {
                async fn add_across(&self) -> u64 {
                    let $lock = &self.0;
                    $across($acquire).await
                }
            }
        )?
    )*};
}

// %% [markdown]
// Which locks are these? Two that block their thread, of std and of parking_lot, and two whose tasks wait, of tokio and of
// async-lock; a mutex each, and a `RwLock` whose writers and readers count as two.

// %%
/// Locks around the number. A later cell sees what a macro makes if it is in a module.
pub mod guarding {
    use super::*;

    locks! {
        StdMutex(std::sync::Mutex<u64>) = Default::default(), "std Mutex" false increment
            |lock| lock.lock().unwrap_or_else(PoisonError::into_inner);
        StdWrite(std::sync::RwLock<u64>) = Default::default(), "std RwLock, write" false increment
            |lock| lock.write().unwrap_or_else(PoisonError::into_inner);
        StdRead(std::sync::RwLock<u64>) = Default::default(), "std RwLock, read" true read
            |lock| lock.read().unwrap_or_else(PoisonError::into_inner);
        ParkingMutex(parking_lot::Mutex<u64>) = Default::default(), "parking_lot Mutex" false increment |lock| lock.lock();
        ParkingWrite(parking_lot::RwLock<u64>) = Default::default(), "parking_lot RwLock, write" false increment |lock| lock.write();
        ParkingRead(parking_lot::RwLock<u64>) = Default::default(), "parking_lot RwLock, read" true read |lock| lock.read();
        TokioMutex(tokio::sync::Mutex<u64>) = Default::default(), "tokio Mutex" false increment across increment_across
            |lock| lock.lock().await;
        TokioWrite(tokio::sync::RwLock<u64>) = Default::default(), "tokio RwLock, write" false increment across increment_across
            |lock| lock.write().await;
        TokioRead(tokio::sync::RwLock<u64>) = Default::default(), "tokio RwLock, read" true read across read_across
            |lock| lock.read().await;
        SmolMutex(async_lock::Mutex<u64>) = Default::default(), "async-lock Mutex" false increment across increment_across
            |lock| lock.lock().await;
        SmolWrite(async_lock::RwLock<u64>) = Default::default(), "async-lock RwLock, write" false increment across increment_across
            |lock| lock.write().await;
        SmolRead(async_lock::RwLock<u64>) = Default::default(), "async-lock RwLock, read" true read across read_across
            |lock| lock.read().await;
    }
}

pub use guarding::*;

// %% [markdown]
// A semaphore guards nothing by itself, and neither does a channel of capacity one, whose only message is what one must have.
// The number lies beside them, and is read and written in two steps, so that two holders at once would be seen. Without any
// lock, it is incremented in one step: that is what everything else in the loop takes.

// %%
/// The message of a channel, which goes back when it is dropped.
pub struct Token<'a>(&'a async_channel::Sender<()>);

impl Drop for Token<'_> {
    fn drop(&mut self) {
        self.0.try_send(()).expect("room for one");
    }
}

/// A channel of capacity one, with its message, and the number.
type Exchange = (async_channel::Sender<()>, async_channel::Receiver<()>, AtomicU64);

fn exchange() -> Exchange {
    let (sender, receiver) = async_channel::bounded(1);
    sender.try_send(()).expect("room for one");
    (sender, receiver, AtomicU64::new(0))
}

/// In two steps, with a permit.
fn with_permit<P>((_permit, number): (P, &AtomicU64)) -> u64 {
    let seen = number.load(Ordering::Relaxed) + 1;
    number.store(seen, Ordering::Relaxed);
    seen
}

/// The same with a yield between them.
async fn with_permit_across<P>((_permit, number): (P, &AtomicU64)) -> u64 {
    let seen = number.load(Ordering::Relaxed) + 1;
    yield_now().await;
    number.store(seen, Ordering::Relaxed);
    seen
}

/// In one step: others may do so at the same time.
fn at_a_stroke<P>((_permit, number): (P, &AtomicU64)) -> u64 {
    number.fetch_add(1, Ordering::Relaxed) + 1
}

/// After a yield.
async fn at_a_stroke_across<P>(held: (P, &AtomicU64)) -> u64 {
    yield_now().await;
    at_a_stroke(held)
}

// %% [markdown]
// Does it help if a few may come in at once? A semaphore of four permits is no mutex, so its holders increment the number
// in one step. That it admits four, and no fifth, is proved apart.

// %%
/// Permits of a semaphore that admits several.
pub const PERMITS: usize = 4;

/// Locks beside the number.
pub mod beside {
    use super::*;

    locks! {
        NoLock(AtomicU64) = AtomicU64::new(0), "no lock" false at_a_stroke across at_a_stroke_across
            |number| ((), number);
        TokioSemaphore((tokio::sync::Semaphore, AtomicU64)) = (tokio::sync::Semaphore::new(1), AtomicU64::new(0)),
            "tokio Semaphore" false with_permit across with_permit_across
            |lock| (lock.0.acquire().await.expect("it is open"), &lock.1);
        SmolSemaphore((async_lock::Semaphore, AtomicU64)) = (async_lock::Semaphore::new(1), AtomicU64::new(0)),
            "async-lock Semaphore" false with_permit across with_permit_across
            |lock| (lock.0.acquire().await, &lock.1);
        TokioPermits((tokio::sync::Semaphore, AtomicU64)) = (tokio::sync::Semaphore::new(PERMITS), AtomicU64::new(0)),
            "tokio Semaphore, 4 permits" false at_a_stroke across at_a_stroke_across
            |lock| (lock.0.acquire().await.expect("it is open"), &lock.1);
        SmolPermits((async_lock::Semaphore, AtomicU64)) = (async_lock::Semaphore::new(PERMITS), AtomicU64::new(0)),
            "async-lock Semaphore, 4 permits" false at_a_stroke across at_a_stroke_across
            |lock| (lock.0.acquire().await, &lock.1);
        Channel(Exchange) = exchange(), "channel" false with_permit across with_permit_across
            |lock| (lock.1.recv().await.map(|()| Token(&lock.0)).expect("it is open"), &lock.2);
    }
}

pub use beside::*;

// %% [markdown]
// An actor has no lock: a task owns the number, and answers each who asks. Its mailbox has room for all who may ask at
// once, so that nobody waits for room.

// %%
/// Room in the mailbox.
const ROOM: usize = 128;

/// A task that owns the number; a message says whether it yields before it answers.
pub struct Actor(mpsc::Sender<(bool, oneshot::Sender<u64>)>);

impl Actor {
    async fn ask(&self, yields: bool) -> u64 {
        let (answer, answered) = oneshot::channel();
        self.0.send((yields, answer)).await.expect("it answers as long as it is asked");
        answered.await.expect("it answers")
    }
}

impl Lock for Actor {
    const NAME: &'static str = "actor";

    fn new() -> Self {
        let (mailbox, mut messages) = mpsc::channel::<(bool, oneshot::Sender<u64>)>(ROOM);
        tokio::spawn(async move {
            let mut number = 0;
            while let Some((yields, answer)) = messages.recv().await {
                let seen = if yields { increment_across(&mut number).await } else { increment(&mut number) };
                // Who asked may have given up.
                let _ = answer.send(seen);
            }
        });
        Self(mailbox)
    }

    async fn add(&self) -> u64 {
        self.ask(false).await
    }
}

impl Across for Actor {
    async fn add_across(&self) -> u64 {
        self.ask(true).await
    }
}

// %% [markdown]
// And the mutex of the standard library where it cannot block a worker: in a closure for tokio's threads for blocking
// calls.

// %%
/// The mutex is locked by another thread, for which the task waits.
pub struct Elsewhere(Arc<StdMutex>);

impl Lock for Elsewhere {
    const NAME: &'static str = "std Mutex in spawn_blocking";

    fn new() -> Self {
        Self(Arc::new(StdMutex::new()))
    }

    async fn add(&self) -> u64 {
        let lock = Arc::clone(&self.0);
        let add = move || increment(lock.0.lock().unwrap_or_else(PoisonError::into_inner));
        spawn_blocking(add).await.expect("no panic")
    }
}

impl Guarded for Elsewhere {
    async fn acquire(&self) -> impl Sized {
        self.0.acquire().await
    }
}

// %% [markdown]
// How large are they, with the number? What the channel and the actor hold is on the heap.

// %% tags=["active-ipynb"]
// println!("std {}, parking_lot {}, tokio {}, async-lock {} bytes", size_of::<StdMutex>(), size_of::<ParkingMutex>(), size_of::<TokioMutex>(), size_of::<SmolMutex>());

// %% [markdown]
// # Tasks that want it
//
// Each task gets the lock so many times. A task starts the tasks and waits for them: none of them is the root of
// `block_on`, which [costs more to wake](../runtimes/measure.ipynb). On two threads, the first two tasks wait for each other
// before they begin: otherwise one thread may be done with both before the other one is awake, and nothing was contended.

// %%
/// How many tasks want the lock, how often each in one iteration, and how many threads run them: with one, it is the
/// caller of a current_thread runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    pub tasks: u64,
    pub threads: usize,
    pub times: u64,
}

impl Load {
    /// Thousands of acquisitions an iteration, so that beginning and ending disappear, and more than 128 for each task.
    pub fn new(tasks: u64, threads: usize) -> Self {
        Self { tasks, threads, times: (1_000 / tasks).max(150) }
    }

    /// How it is called in the data.
    pub fn parameter(self) -> String {
        format!("driver=task workers={} tasks={}", self.threads, self.tasks)
    }

    /// A runtime of its own.
    pub fn runtime(self) -> Runtime {
        let one = self.threads == 1;
        let mut builder = if one { Builder::new_current_thread() } else { Builder::new_multi_thread() };
        builder.worker_threads(self.threads).build().expect("a runtime")
    }
}

// %% [markdown]
// Holding it across a yield makes another lock of each. In a task, all of them are got as often as it is told.

// %%
/// As `L`, held across a yield.
pub struct Yielding<L>(L);

impl<L: Across> Lock for Yielding<L> {
    const NAME: &'static str = L::NAME;
    const READS: bool = L::READS;

    fn new() -> Self {
        Self(L::new())
    }

    fn add(&self) -> impl Future<Output = u64> + Send {
        self.0.add_across()
    }
}

/// A lock, how many tasks have begun, and since when as many as there are threads have.
type Shared<L> = Arc<(L, AtomicU64, OnceLock<Instant>)>;

/// What one task does, once `meeting` tasks have begun, and the sum of what it sees.
async fn acquire_often<L: Lock>(shared: Shared<L>, meeting: u64, times: u64) -> u64 {
    let (lock, begun, start) = &*shared;
    begun.fetch_add(1, Ordering::Relaxed);
    while begun.load(Ordering::Relaxed) < meeting {
        thread::yield_now();
    }
    start.get_or_init(Instant::now);
    let mut sum = 0;
    for _ in 0..times {
        sum += lock.add().await;
    }
    sum
}

// %% [markdown]
// When does the clock start? When as many tasks have begun as there are threads. It stops when the last one is done, and
// the sum of what they saw is compared. In a proof, polls and wakes of the same futures are counted; on one thread these
// counts are exact.

// %%
/// Lets the tasks of a load get the lock, `iterations` times as often as it says; returns how long that took.
///
/// # Panics
/// If the sum is another one than it must be.
async fn contend<L: Lock>(load: Load, iterations: u64, watch: Option<Arc<Watch>>) -> Duration {
    let shared: Shared<L> = Arc::new((L::new(), AtomicU64::new(0), OnceLock::new()));
    let (meeting, times) = (load.tasks.min(load.threads as u64), iterations * load.times);
    let tasks: Vec<_> = (0..load.tasks)
        .map(|_| {
            let task = acquire_often(Arc::clone(&shared), meeting, times);
            match &watch {
                None => tokio::spawn(task),
                Some(watch) => tokio::spawn(watch.follow(task)),
            }
        })
        .collect();
    let mut sum = 0;
    for task in tasks {
        sum += task.await.expect("no panic");
    }
    let elapsed = shared.2.get().expect("they have begun").elapsed();
    let all = load.tasks * times;
    let expected = if L::READS { all } else { all * (all + 1) / 2 };
    assert_eq!(sum, expected, "{} lets two in at once, or loses one", L::NAME);
    elapsed
}

/// In a task of this runtime.
pub fn driven<L: Lock>(runtime: &Runtime, load: Load, iterations: u64, seen: Option<Arc<Watch>>) -> Duration {
    runtime.block_on(runtime.spawn(contend::<L>(load, iterations, seen))).expect("equal work")
}

/// An iteration of the code that is timed, and a watched one: how often the lock was got, and polls and wakes where these
/// are exact.
pub fn counted<L: Lock>(load: Load) -> Counts {
    let (runtime, watch) = (load.runtime(), Arc::new(Watch::default()));
    driven::<L>(&runtime, load, 1, None);
    driven::<L>(&runtime, load, 1, Some(Arc::clone(&watch)));
    let mut counts = Counts::from([("acquisitions", load.tasks * load.times)]);
    if load.threads == 1 {
        let [polls, wakes] = watch.take();
        counts.extend([("polls", polls), ("wakes", wakes)]);
    }
    counts
}

// %% [markdown]
// Two tasks on one thread, with a yield: each acquisition takes two polls, one that has got the lock and yields, and one
// that goes on, gives it back and asks again. Without a yield nobody should ever find the lock taken. But tokio makes a task
// yield when it has got its locks, its messages and the like 128 times in one poll, and its mutex counts that when it has been
// got: the task yields with the lock in its hand. All others queue up for it; whoever gives it back asks again at the end of
// the queue; so from then on each acquisition is a poll. async-lock counts nothing.

// %% tags=["active-ipynb"]
// println!("two tasks, across a yield: {:?}", counted::<Yielding<TokioMutex>>(Load::new(2, 1)));
// for times in [128, 129] {
//     let load = Load { times, ..Load::new(100, 1) };
//     println!("a hundred, {times} times each: {:?}; async-lock: {:?}", counted::<TokioMutex>(load), counted::<SmolMutex>(load));
// }

// %% [markdown]
// # What a lock that is held elsewhere does to others
//
// Another thread holds the lock for a millisecond, asleep. A task wants it, and after that task a bystander of the same
// thread is ready, which wants nothing. How long until its turn?

// %%
/// Polls a future once.
fn poll_once<F: Future + ?Sized>(mut future: Pin<&mut F>) -> Option<F::Output> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// How long the bystander waits for its turn, and whether the other one had got the lock by then.
async fn stand_by<L: Guarded>(hold: Duration) -> (Duration, bool) {
    let (lock, got) = (Arc::new(L::new()), Arc::new(AtomicBool::new(false)));
    let (tell, told) = oneshot::channel();
    let (held, wanted, gets) = (Arc::clone(&lock), lock, Arc::clone(&got));
    let holder = thread::spawn(move || {
        let _guard = poll_once(pin!(held.acquire())).expect("it is free");
        tell.send(()).expect("somebody listens");
        thread::sleep(hold);
    });
    told.await.expect("it is held");
    let start = Instant::now();
    let wants = tokio::spawn(async move {
        assert_eq!(wanted.add().await, 1);
        gets.store(true, Ordering::Relaxed);
    });
    let bystander = tokio::spawn(async move { (start.elapsed(), got.load(Ordering::Relaxed)) });
    let turn = bystander.await.expect("no panic");
    wants.await.expect("it gets it");
    holder.join().expect("no panic");
    turn
}

/// In a task, on one thread.
pub fn bystander<L: Guarded>(hold: Duration) -> (Duration, bool) {
    let runtime = Load::new(1, 1).runtime();
    runtime.block_on(runtime.spawn(stand_by::<L>(hold))).expect("no panic")
}

// %% [markdown]
// # An acquisition that is given up
//
// A future that waits for a lock may be dropped, by a `select!` or a timeout. Does the lock, or its queue, lose anything?
// One holds it, three wait in order, and the first of them gives up: before the lock is given back, or after it has been
// woken and before it is polled. Then the last are asked first, so that only a queue that keeps its order hands the lock
// on in order.

// %%
/// What becomes of those that wait if the first of three gives up, and asks again: `served`: how many get the lock;
/// `in_order`: in the order of the queue; `at_once`: who asks again gets it at once, before those that have waited;
/// `free`: it can be got afterwards.
pub fn give_up<L: Guarded>(woken: bool) -> [u64; 4] {
    let lock = L::new();
    let ask = || Box::pin(lock.acquire());
    let mut holder = poll_once(ask().as_mut());
    let mut queue: Vec<_> = (0..3).map(|_| ask()).collect();
    assert!(queue.iter_mut().all(|waits| poll_once(waits.as_mut()).is_none()), "it is held");
    if woken {
        holder = None;
    }
    drop(queue.remove(0));
    queue.push(ask());
    let again = poll_once(queue[2].as_mut());
    let at_once = u64::from(again.is_some());
    queue.truncate(3 - again.iter().len());
    drop((holder, again));
    let (mut served, mut in_order) = (at_once, 0);
    while let Some((place, guard)) =
        (0..queue.len()).rev().find_map(|place| Some((place, poll_once(queue[place].as_mut())?)))
    {
        (served, in_order) = (served + 1, in_order + u64::from(place == 0));
        drop((queue.remove(place), guard));
    }
    [served, in_order, at_once, poll_once(ask().as_mut()).is_some().into()]
}

// %% [markdown]
// Nothing may be lost by any lock. A lock of tokio is handed to the next in the queue before that one has been polled.
// Those of async-lock, and the channel, are free by then, and who asks again at once gets them. A semaphore of async-lock
// and the channel also let one in that is polled for another reason, as in a `join!`, before the one that was woken.

// %%
/// Of both: the first gives up before the lock is given back, and after.
pub fn give_up_both<L: Guarded>() -> Counts {
    let [waiting, woken] = [false, true].map(give_up::<L>);
    let names = ["served", "in_order", "at_once", "free"];
    names.into_iter().zip(waiting.iter().zip(woken).map(|(one, other)| one + other)).collect()
}

/// An actor does what it was asked, even if nobody waits for the answer any more.
pub fn done_anyway() -> Counts {
    let runtime = Load::new(1, 1).runtime();
    let dropped = async {
        let actor = Actor::new();
        let asked = poll_fn(|context| Poll::Ready(pin!(actor.add()).poll(context).is_pending())).await;
        u64::from(asked && actor.add().await == 2)
    };
    Counts::from([("done_anyway", runtime.block_on(runtime.spawn(dropped)).expect("no panic"))])
}

/// How many have a lock at once, of more who want it.
fn admitted<L: Guarded>() -> Counts {
    let lock = L::new();
    let mut wanted: Vec<_> = (0..2 * PERMITS).map(|_| Box::pin(lock.acquire())).collect();
    let held: Vec<_> = wanted.iter_mut().map_while(|wants| poll_once(wants.as_mut())).collect();
    Counts::from([("admitted", held.len() as u64)])
}

/// A lock, what counts, and what that must come to.
pub type Table = (&'static str, fn() -> Counts, Counts);

/// All that can be given up, and how many are admitted.
pub fn given_up() -> Vec<Table> {
    let of = |served, in_order, at_once, free| {
        Counts::from([("served", served), ("in_order", in_order), ("at_once", at_once), ("free", free)])
    };
    vec![
        (TokioMutex::NAME, give_up_both::<TokioMutex>, of(6, 6, 0, 2)),
        (TokioWrite::NAME, give_up_both::<TokioWrite>, of(6, 6, 0, 2)),
        (TokioSemaphore::NAME, give_up_both::<TokioSemaphore>, of(6, 6, 0, 2)),
        (SmolMutex::NAME, give_up_both::<SmolMutex>, of(6, 5, 1, 2)),
        (SmolWrite::NAME, give_up_both::<SmolWrite>, of(6, 5, 1, 2)),
        (SmolSemaphore::NAME, give_up_both::<SmolSemaphore>, of(6, 2, 1, 2)),
        (TokioPermits::NAME, admitted::<TokioPermits>, Counts::from([("admitted", PERMITS as u64)])),
        (SmolPermits::NAME, admitted::<SmolPermits>, Counts::from([("admitted", PERMITS as u64)])),
        (Channel::NAME, give_up_both::<Channel>, of(6, 2, 1, 2)),
        (Actor::NAME, done_anyway, Counts::from([("done_anyway", 1)])),
    ]
}

// %% [markdown]
// What comes of giving up, for each lock that has a queue, and how many a semaphore of four permits admits:

// %% tags=["active-ipynb"]
// for (name, count, _) in given_up() {
//     println!("{name}: {:?}", count());
// }

// %% [markdown]
// # The study
//
// A row is timed after its proof, in a process of its own, since two threads are part of some.

// %%
/// How long a trial may take.
pub const LIMIT: Duration = Duration::from_secs(60);
/// Names of the benches.
pub const SHORT: &str = "short";
pub const ACROSS: &str = "across a yield";
pub const BYSTANDER: &str = "bystander";
/// How long another thread holds a lock; and while that is proved, so long that nothing else takes as long.
const HOLD: Duration = Duration::from_millis(1);
const LONG_HOLD: Duration = Duration::from_millis(20);
/// Does so many iterations on a runtime.
pub type Timed = Rc<dyn Fn(&Runtime, u64) -> Duration>;

/// What is timed, and what its proof must come to.
#[derive(Clone)]
pub struct Row {
    pub key: Key,
    pub load: Load,
    pub unit: &'static str,
    pub units: u64,
    /// Bytes of the lock.
    pub bytes: usize,
    pub expected: Counts,
    pub count: Rc<dyn Fn() -> Counts>,
    pub time: Timed,
}

impl Row {
    /// Whether threads are part of it besides the one that calls.
    pub fn has_threads(&self) -> bool {
        self.load.threads > 1 || self.key.bench == BYSTANDER || self.key.variant == Elsewhere::NAME
    }

    /// Its counts, proven in a process of its own.
    ///
    /// # Errors
    /// If it does other work than it must, hangs or breaks off.
    pub fn proven(&self) -> Result<BTreeMap<String, u64>, UnequalWork> {
        prove_isolated(&self.key, LIMIT, &self.expected, || [(self.count)()])
    }
}

/// Tasks that want a lock.
fn contending<L: Lock>(bench: &str, load: Load) -> Row {
    let units = load.tasks * load.times;
    Row {
        key: Key::new(bench, L::NAME, load.parameter()),
        load,
        unit: "acquisition",
        units,
        bytes: size_of::<L>(),
        expected: Counts::from([("acquisitions", units)]),
        count: Rc::new(move || counted::<L>(load)),
        time: Rc::new(move |runtime, iterations| driven::<L>(runtime, load, iterations, None)),
    }
}

// %% [markdown]
// Two kinds of rows differ from that one: tasks that hold the lock across a yield, and the bystander. His proof takes a longer
// hold, so that nothing else could have delayed him as much.

// %%
/// Tasks that hold it across a yield.
fn held_across<L: Across>(load: Load) -> Row {
    contending::<Yielding<L>>(ACROSS, load)
}

/// The bystander's turn; `blocked`: whether it comes only when the other one has got the lock.
fn standing_by<L: Guarded>(blocked: bool) -> Row {
    let load = Load { tasks: 1, threads: 1, times: 1 };
    Row {
        key: Key::new(BYSTANDER, L::NAME, "driver=task hold=1ms"),
        unit: "turn",
        expected: Counts::from([("blocked", blocked.into())]),
        count: Rc::new(|| Counts::from([("blocked", bystander::<L>(LONG_HOLD).1.into())])),
        time: Rc::new(|_, iterations| (0..iterations).map(|_| bystander::<L>(HOLD).0).sum()),
        ..contending::<L>(BYSTANDER, load)
    }
}

// %% [markdown]
// Every lock in the base. Under the other loads those of one kind stand for all; readers and writers are measured again
// where they are held across an await, semaphores everywhere.

// %%
/// A row for each of these locks.
#[macro_export]
macro_rules! each {
    ($row:ident $arguments:tt: $($lock:ident)*) => { vec![$($row::<$lock>$arguments),*] };
}

/// Every row; first those on one thread, whose instructions can be counted.
pub fn rows() -> Vec<Row> {
    let load = Load::new;
    let mut rows = each!(contending(SHORT, load(1, 1)): NoLock StdMutex StdWrite StdRead ParkingMutex ParkingWrite
        ParkingRead TokioMutex TokioWrite TokioRead SmolMutex SmolWrite SmolRead TokioSemaphore SmolSemaphore
        TokioPermits SmolPermits Channel Actor);
    for load in [load(100, 1), load(1, 2), load(2, 2), load(100, 2)] {
        rows.extend(each!(contending(SHORT, load): NoLock StdMutex ParkingMutex TokioMutex SmolMutex
            TokioSemaphore SmolSemaphore TokioPermits SmolPermits Channel Actor));
    }
    for load in [load(1, 1), load(2, 1), load(100, 1), load(2, 2), load(100, 2)] {
        rows.extend(
            each!(held_across(load): NoLock TokioMutex TokioWrite TokioRead SmolMutex SmolWrite SmolRead
            TokioSemaphore SmolSemaphore TokioPermits SmolPermits Channel Actor),
        );
    }
    rows.sort_by_key(|row| row.load.threads);
    rows.extend(each!(contending(SHORT, Load { tasks: 1, threads: 1, times: 50 }): Elsewhere));
    rows.extend(each!(standing_by(true): StdMutex ParkingMutex));
    rows.extend(each!(standing_by(false): TokioMutex SmolMutex Elsewhere));
    rows
}

// %% [markdown]
// What is compared: locks under one load, and one lock under two loads. Readers, writers and semaphores are compared with
// the mutex of their crate, and several permits with one.

// %%
/// A lock, and another one.
const LOCKS: [(&str, &[&str]); 9] = [
    ("std Mutex", &["no lock"]),
    ("parking_lot Mutex", &["std Mutex"]),
    ("tokio Mutex", &["no lock", "std Mutex"]),
    ("async-lock Mutex", &["std Mutex", "tokio Mutex"]),
    ("tokio Semaphore, 4 permits", &["tokio Semaphore"]),
    ("async-lock Semaphore, 4 permits", &["async-lock Semaphore"]),
    ("channel", &["std Mutex", "tokio Mutex"]),
    ("actor", &["std Mutex", "tokio Mutex", "channel"]),
    ("std Mutex in spawn_blocking", &["std Mutex", "tokio Mutex"]),
];

/// All pairs of measured keys, and what is different.
pub fn comparisons(rows: &[Row]) -> Vec<(Key, Key, String)> {
    let mut pairs = Vec::new();
    for Row { key, load: Load { tasks, threads, .. }, .. } in rows {
        let family = key.variant.split_once(' ').filter(|(_, kind)| !kind.starts_with("Mutex"));
        let of_family = family.map(|(family, _)| format!("{family} Mutex"));
        let others = LOCKS.iter().filter(|(lock, _)| *lock == key.variant).flat_map(|(_, others)| *others);
        for variant in others.map(|other| (*other).to_owned()).chain(of_family) {
            let change = format!("{} instead of {variant}", key.variant);
            pairs.push((key.clone(), Key { variant, ..key.clone() }, change));
        }
        let under = |bench: &str, load: Load| Key::new(bench, &key.variant, load.parameter());
        let one_task = under(&key.bench, Load::new(1, *threads));
        let one_thread = under(&key.bench, Load::new(*tasks, 1));
        let at_once =
            under(if key.bench == ACROSS { SHORT } else { &key.bench }, Load::new(*tasks, *threads));
        let others = [one_task, one_thread, at_once].into_iter();
        for (other, change) in
            others.zip(["more tasks than one", "two threads instead of one", "a yield while it is held"])
        {
            pairs.push((key.clone(), other, change.to_owned()));
        }
    }
    pairs.retain(|(key, other, _)| key != other && rows.iter().any(|row| row.key == *other));
    pairs
}

// %% [markdown]
// Each load is a group with a control. Where threads wait for each other, a trial is one sample: such trials differ more
// from each other than samples within one.

// %%
/// All of it, proven. A lock whose proof fails is left out and named.
///
/// # Errors
/// If a lock loses anything when somebody gives up.
pub fn study() -> Result<Study, UnequalWork> {
    let mut study = Study::new("locks").rounds(2, 24).isolated(LIMIT).resources();
    let rows = rows();
    for row in &rows {
        let Row { key, load, .. } = row;
        let name = format!("{} {}", key.bench, key.parameter);
        study = match (row.has_threads(), load.tasks, load.threads) {
            (false, ..) => study.group(name.trim_end(), limit::CALLS),
            (_, 100, _) => study.uncounted().samples(1).group(name, limit::CROWDS),
            (_, _, 2) => study.uncounted().samples(1).group(name, limit::THREADS),
            _ => study.uncounted().samples(1).group(format!("{name}, threads"), limit::THREADS),
        };
        let is_control = [TokioMutex::NAME, Elsewhere::NAME].contains(&key.variant.as_str());
        study = if is_control { study.control_of(key.clone()) } else { study };
        let (proof, timed) = (row.proven(), row.clone());
        let more = [("units", row.units), ("lock_bytes", row.bytes as u64)];
        study = study.unit(row.unit).counts(key, proof.clone().unwrap_or_default()).counts(key, more);
        study = study.proven(key.clone(), proof, move |bencher: &mut Bencher<'_>| {
            let runtime = timed.load.runtime();
            bencher.iter_custom(&mut |iterations| (timed.time)(&runtime, iterations));
        });
    }
    for (name, count, expected) in given_up() {
        let key = Key::new(SHORT, name, Load::new(1, 1).parameter());
        study = study.counts(&key, prove_isolated(&key, LIMIT, &expected, || [count()])?);
    }
    let compare = |study: Study, (key, other, change)| study.compare(key, other, change);
    Ok(comparisons(&rows).into_iter().fold(study, compare))
}

// %% [markdown]
// # A glance
//
// The mutexes in the base, a second each. Choose `workers=2 tasks=2`, where two threads want one lock.

// %% tags=["active-ipynb", "glance"]
// study().unwrap_or_else(harness::stop).glance(|key| {
//     key.bench == SHORT && key.parameter == "driver=task workers=1 tasks=1" && key.variant.ends_with("Mutex")
// }).unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// `quick` takes some seconds once it is compiled, and is no evidence. For evidence, set the environment variable `ASYNC_COST_PROFILE` to
// `standard` or `thorough` before you start the kernel.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().unwrap_or_else(harness::stop).measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) has the results.
//
// # What this does not say
//
// What is guarded is one number, in the cache of who has it. Who has one of several permits increments it in one step, which
// *no lock* does, too, and the mutex does not need. Two threads at most; on more, those who wait get in each
// other's way more often. All tasks run on tokio; async-lock is at home on smol. Nobody holds a lock for long, but for the
// thread beside the bystander, which sleeps.
