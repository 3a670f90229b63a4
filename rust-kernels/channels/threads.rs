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
// # What does a message between a thread and a task cost?
//
// A thread that blocks feeds a task: a reader of a device, a pool of computations, a callback of C. Or a task feeds such a
// thread. Channels of async crates have calls that block for this; the channels of the standard library and of crossbeam
// have none that a task could await, so a task has to ask them again and again, or to ask on another thread.
//
// Messages between two threads are the floor, those between tasks on two workers stand beside them. Here two processors
// take part, so how long a message takes depends on how often one end has to wake the other: time varies more than on
// [one thread](measure.ipynb), and processor time and voluntary switches say how an end waits.

// %% [markdown]
// ## Compile cells as for a benchmark

// %% tags=["active-ipynb"]
// :build_env CARGO_PROFILE_DEV_OPT_LEVEL=3
// :build_env CARGO_PROFILE_DEV_DEBUG_ASSERTIONS=false
// :build_env CARGO_PROFILE_DEV_OVERFLOW_CHECKS=false
// :build_env CARGO_PROFILE_DEV_CODEGEN_UNITS=1
// :build_env CARGO_INCREMENTAL=0
// :dep async-channel = "=2.5.0"
// :dep channels = { path = "../../rust-kernels/channels" }
// :dep crossbeam-channel = "=0.5.17"
// :dep crossfire = "=3.1.22"
// :dep crossfire-2 = { package = "crossfire", version = "=2.1.12" }
// :dep flume = "=0.12.0"
// :dep futures = "=0.3.34"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep hdrhistogram = { version = "=7.6.0", default-features = false }
// :dep kanal = "=0.1.1"
// :dep nio = "=0.1.4"
// :dep tokio = { version = "=1.54.1", features = ["rt-multi-thread", "sync"] }

// %% [markdown]
// From here on each cell is also a part of the crate `channels-threads`, except cells that only show something. The
// channels, the programs of tasks and the loads are those of the other notebook.

// %%
use std::hint::spin_loop;
use std::sync::mpsc as of_std;
use std::thread;
use std::time::{Duration, Instant};

use channels::{
    AsyncChannel, BASE, Channel, Crossfire, Ends, Flume, Futures, Item, Kanal, Load, Runtime, Small,
    SmallReceiver, SmallSender, Started, TOKIO, Tokio, TokioChannel, answer, ask, consume, counted, expected,
    libraries, produce, start, time,
};
use crossbeam_channel as of_crossbeam;
use crossfire::{AsyncRx, AsyncTx, MTx, Rx, Tx, mpsc::Array, spsc as for_one};
use futures::{FutureExt, SinkExt, StreamExt, channel::mpsc as of_futures, executor::block_on};
use harness::{Bencher, Counts, Key, Sample, Study, limit, prove_isolated};
use hdrhistogram::Histogram;
use tokio::sync::mpsc as of_tokio;
use tokio::task::{spawn_blocking, yield_now};

// %% [markdown]
// # Ends that block
//
// An end of a channel can be turned into one that blocks its thread. Where a crate has nothing for that, `block_on` of the
// futures crate waits for its future. An end that blocks is driven by the same code as one that waits: its future has
// waited when it was polled once.

// %%
/// A channel whose ends can be made to block.
pub trait Blocking: Channel {
    /// The same with ends that block.
    type Blocks: Channel;
    fn sender<T: Item>(to: Self::Sender<T>) -> <Self::Blocks as Channel>::Sender<T>;
    fn receiver<T: Item>(from: Self::Receiver<T>) -> <Self::Blocks as Channel>::Receiver<T>;
}

/// What a thread does at an end that blocks.
fn block<F: Future>(work: F) -> F::Output {
    work.now_or_never().expect("it blocks instead of being pending")
}

/// Channels made from the ends of others: how an end is made to block, how it sends and how it receives.
#[macro_export]
macro_rules! blocking {
    ($($of:ty, $blocks:ident, $sends:ty, $receives:ty, |$to:ident| $sender:expr, |$from:ident| $receiver:expr,
       |$by:ident, $message:ident| $send:expr, |$at:ident| $receive:expr;)*) => {
        libraries! { $(
            $blocks, "blocking", $sends, $receives, |_capacity| unreachable!("made from other ends"),
                |$by, $message| $send, |$at| $receive;
        )* }
        $(
            impl Blocking for $of {
                type Blocks = $blocks;

                fn sender<T: Item>($to: Self::Sender<T>) -> <$blocks as Channel>::Sender<T> {
                    $sender
                }

                fn receiver<T: Item>($from: Self::Receiver<T>) -> <$blocks as Channel>::Receiver<T> {
                    $receiver
                }
            }
        )*
    };
}

// %% [markdown]
// Each crate's own calls:

// %%
/// The ends that block. A later cell sees what a macro makes if it is in a module.
pub mod of_libraries {
    use super::*;

    blocking! {
        TokioChannel, TokioBlocks, of_tokio::Sender<T>, of_tokio::Receiver<T>, |to| to, |from| from,
            |to, message| to.blocking_send(message), |from| from.blocking_recv();
        AsyncChannel, AsyncBlocks, async_channel::Sender<T>, async_channel::Receiver<T>, |to| to, |from| from,
            |to, message| to.send_blocking(message), |from| from.recv_blocking().ok();
        Flume, FlumeBlocks, flume::Sender<T>, flume::Receiver<T>, |to| to, |from| from,
            |to, message| to.send(message), |from| from.recv().ok();
        Kanal, KanalBlocks, kanal::Sender<T>, kanal::Receiver<T>, |to| to.to_sync(), |from| from.to_sync(),
            |to, message| to.send(message), |from| from.recv().ok();
        Crossfire, CrossfireBlocks, MTx<Array<T>>, Rx<Array<T>>, |to| to.into_blocking(), |from| from.into_blocking(),
            |to, message| to.send(message), |from| from.recv().ok();
        Futures, FuturesBlocks, of_futures::Sender<T>, of_futures::Receiver<T>, |to| to, |from| from,
            |to, message| block_on(to.send(message)), |from| block_on(from.next());
        Small, SmallBlocks, SmallSender<T>, SmallReceiver<T>, |to| to, |from| from,
            |to, message| block_on(Small::send(to, message)).then_some(()).ok_or(()), |from| block_on(Small::receive(from));
    }
}

pub use of_libraries::*;

// %% [markdown]
// # Two versions of crossfire
//
// Its README says how much faster version 3 made channels, one for a single sender among them. So the newest of version 2 is
// measured beside the newest of version 3, in the ways that the README names. A sender that is the only one cannot be
// cloned.

// %%
/// A sender that has no other.
pub struct Only<S>(S);

impl<S> Clone for Only<S> {
    fn clone(&self) -> Self {
        unreachable!("no program with one producer clones its sender")
    }
}

/// Of version 2, and of both for one sender.
pub mod versions {
    use super::*;

    libraries! {
        Crossfire2, "crossfire 2", crossfire_2::MAsyncTx<T>, crossfire_2::AsyncRx<T>,
            |capacity| crossfire_2::mpsc::bounded_async(capacity),
            |to, message| to.send(message).await, |from| from.recv().await.ok();
        OnlyCrossfire, "crossfire spsc", Only<AsyncTx<for_one::Array<T>>>, AsyncRx<for_one::Array<T>>,
            |capacity| { let (to, from) = for_one::bounded_async(capacity); (Only(to), from) },
            |to, message| to.0.send(message).await, |from| from.recv().await.ok();
        OnlyCrossfire2, "crossfire 2 spsc", Only<crossfire_2::AsyncTx<T>>, crossfire_2::AsyncRx<T>,
            |capacity| { let (to, from) = crossfire_2::spsc::bounded_async(capacity); (Only(to), from) },
            |to, message| to.0.send(message).await, |from| from.recv().await.ok();
    }

    blocking! {
        Crossfire2, Crossfire2Blocks, crossfire_2::MTx<T>, crossfire_2::Rx<T>,
            |to| to.into_blocking(), |from| from.into_blocking(), |to, message| to.send(message), |from| from.recv().ok();
        OnlyCrossfire, OnlyCrossfireBlocks, Only<Tx<for_one::Array<T>>>, Rx<for_one::Array<T>>,
            |to| Only(to.0.into_blocking()), |from| from.into_blocking(), |to, message| to.0.send(message), |from| from.recv().ok();
        OnlyCrossfire2, OnlyCrossfire2Blocks, Only<crossfire_2::Tx<T>>, crossfire_2::Rx<T>,
            |to| Only(to.0.into_blocking()), |from| from.into_blocking(), |to, message| to.0.send(message), |from| from.recv().ok();
    }
}

pub use versions::*;

// %% [markdown]
// # Ends that a task asks again and again
//
// The bounded channels of the standard library and of crossbeam. A task tries, and lets others run before it tries again.
// So its worker never sleeps.

// %%
/// Channels without futures: each with its name, its module, the type that sends, and what opens it.
#[macro_export]
macro_rules! asked {
    ($($channel:ident, $name:literal, $of:ident, $sender:ident, $open:ident;)*) => { libraries! { $(
        $channel, $name, $of::$sender<T>, $of::Receiver<T>, |capacity| $of::$open(capacity),
            |to, message| {
                let mut message = message;
                loop {
                    match to.try_send(message) {
                        Err($of::TrySendError::Full(back)) => message = back,
                        sent_or_not => break sent_or_not,
                    }
                    yield_now().await;
                }
            },
            |from| loop {
                match from.try_recv() {
                    Err($of::TryRecvError::Empty) => yield_now().await,
                    received => break received.ok(),
                }
            };
    )* } };
}

// %% [markdown]
// Or a task lets another thread wait: `spawn_blocking` for every message that it receives. To send, it asks as above.

// %%
/// Channels of threads.
pub mod without_futures {
    use super::*;

    asked! {
        Std, "std", of_std, SyncSender, sync_channel;
        Crossbeam, "crossbeam", of_crossbeam, Sender, bounded;
    }

    libraries! {
        StdBySpawn, "std, spawn_blocking", of_std::SyncSender<T>, Option<of_std::Receiver<T>>,
            |capacity| { let (to, from) = of_std::sync_channel(capacity); (to, Some(from)) },
            |to, message| Std::send(to, message).await.then_some(()).ok_or(()),
            |from| {
                let receiver = from.take()?;
                let waiting = spawn_blocking(move || (receiver.recv().ok(), receiver));
                let (message, receiver) = waiting.await.expect("it does not panic");
                *from = Some(receiver);
                message
            };
    }

    blocking! {
        Std, StdBlocks, of_std::SyncSender<T>, of_std::Receiver<T>, |to| to, |from| from,
            |to, message| to.send(message), |from| from.recv().ok();
        StdBySpawn, StdBySpawnBlocks, of_std::SyncSender<T>, of_std::Receiver<T>, |to| to, |from| from.expect("it is not lent"),
            |to, message| to.send(message), |from| from.recv().ok();
        Crossbeam, CrossbeamBlocks, of_crossbeam::Sender<T>, of_crossbeam::Receiver<T>, |to| to, |from| from,
            |to, message| to.send(message), |from| from.recv().ok();
    }
}

pub use without_futures::*;

// %% [markdown]
// # nio
//
// A runtime whose workers do not steal: a task stays with the worker that had the least to do when it was started. Its
// `block_on` moves the root to the first worker; it is started as in [the study of runtimes](../runtimes/measure.ipynb).

// %%
/// nio with so many workers.
pub struct Nio<const WORKERS: u8>(nio::Runtime);

impl<const WORKERS: u8> Runtime for Nio<WORKERS> {
    fn start() -> Self {
        Self(nio::RuntimeBuilder::new().worker_threads(WORKERS).rt().expect("threads for nio"))
    }

    fn spawn(task: impl Future<Output = ()> + Send + 'static) {
        drop(nio::spawn(task));
    }

    fn run<T: Send + 'static>(&self, root: impl Future<Output = T> + Send + 'static) -> T {
        self.block_on(self.0.spawn(root)).expect("the root does not panic")
    }

    fn block_on<T: Send>(&self, root: impl Future<Output = T> + Send) -> T {
        self.0.block_on(|| root)
    }
}

// %% [markdown]
// # The programs
//
// The same stream and the same exchange, with a thread at one end or at both. The thread at hand is one of them, so none
// has to be started, except for the second of two.

// %%
/// What is sent.
type Number = [u64; 1];

/// Starts a program whose messages come from a thread or a task and go to one; in an exchange, a thread asks.
pub fn bridge<C: Blocking, const FROM_TASK: bool, const TO_TASK: bool>() -> Started {
    let runtime = Tokio::<1>::start();
    Box::new(move |load| {
        let ((to, mut from), (answers, replies)) = (C::open(load.capacity), C::open(load.capacity));
        let start = Instant::now();
        let arrived = if load.burst > 0 {
            if TO_TASK {
                runtime.0.spawn(answer::<C, Number>((answers, from), load.burst));
            } else {
                let ends = (C::sender(answers), C::receiver(from));
                thread::spawn(move || block(answer::<C::Blocks, Number>(ends, load.burst)));
            }
            block(ask::<C::Blocks, Number>((C::sender(to), C::receiver(replies)), load))
        } else if TO_TASK {
            let consumer = runtime.0.spawn(async move { consume::<C, Number>(&mut from).await });
            block(produce::<C::Blocks, Number>(C::sender(to), 0..load.messages));
            runtime.block_on(consumer).expect("it does not panic")
        } else {
            if FROM_TASK {
                runtime.0.spawn(produce::<C, Number>(to, 0..load.messages));
            } else {
                let to = C::sender(to);
                thread::spawn(move || block(produce::<C::Blocks, Number>(to, 0..load.messages)));
            }
            block(consume::<C::Blocks, Number>(&mut C::receiver(from)))
        };
        (start.elapsed(), arrived)
    })
}

// %% [markdown]
// # One message at a low rate
//
// A thread sends a message every 50 µs, at times that were fixed before: it does not wait until the last one has arrived.
// The receiver, a task, is asleep by then. The latency of a message is the time from when it was due until the task has it.

// %%
/// Between two messages.
const INTERVAL: Duration = Duration::from_micros(50);
/// Messages of a sample.
const LONE: u64 = 1_000;

/// How long each message took that a thread has sent to a task.
fn latencies<C: Blocking>(runtime: &Tokio<1>) -> Vec<u64> {
    let (to, mut from) = C::open(BASE.capacity);
    let epoch = Instant::now();
    let now = move || u64::try_from(epoch.elapsed().as_nanos()).expect("less than centuries");
    let receiver = runtime.0.spawn(async move {
        let mut latencies = Vec::with_capacity(LONE as usize);
        while let Some(due) = C::receive(&mut from).await {
            latencies.push(now() - due);
        }
        latencies
    });
    let mut to = C::sender(to);
    for number in 1..=LONE {
        let due = number * INTERVAL.as_nanos() as u64;
        while now() < due {
            spin_loop();
        }
        assert!(block(C::Blocks::send(&mut to, due)), "the receiver waits for all");
    }
    drop(to);
    runtime.block_on(receiver).expect("it does not panic")
}

/// A sample of them, in nanoseconds to three digits.
fn sample_latencies<C: Blocking>(runtime: &Tokio<1>) -> Sample {
    let latencies = latencies::<C>(runtime);
    assert_eq!(latencies.len() as u64, LONE, "all messages arrive");
    let mut histogram = Histogram::<u64>::new(3).expect("3 significant digits can be kept");
    latencies.iter().for_each(|latency| histogram.record(*latency).expect("it grows as far as it must"));
    let quantile = |of| histogram.value_at_quantile(of);
    Sample::new(LONE, Duration::from_nanos(latencies.iter().sum()))
        .with("p50_ns", quantile(0.5))
        .with("p99_ns", quantile(0.99))
        .with("p999_ns", quantile(0.999))
}

// %% [markdown]
// # A race
//
// [The other notebook](measure.ipynb) cancels a `recv` in states that are set up. Here one thread sends, and on another one each
// `recv` that finds nothing is dropped at once: how many messages never arrive? None must be lost in any race, so zero says
// only that none was lost in these.

// %%
/// Messages of a race.
const RACED: u64 = 10_000;

/// How many of them are lost.
///
/// # Panics
/// If nobody receives while messages are sent.
pub fn race<C: Channel>() -> u64 {
    let (to, mut from) = C::open(BASE.capacity);
    let sender = thread::spawn(move || block_on(produce::<C, Number>(to, 0..RACED)));
    let mut received = 0;
    loop {
        match C::receive(&mut from).now_or_never() {
            Some(Some(_message)) => received += 1,
            Some(None) => break,
            // It would have waited, and is dropped.
            None => {}
        }
    }
    sender.join().expect("whoever receives stays until all is sent");
    RACED - received
}

/// A sample of it.
fn sample_race<C: Channel>() -> Sample {
    let start = Instant::now();
    let lost = race::<C>();
    Sample::new(RACED, start.elapsed()).with("raced_lost", lost)
}

// %% [markdown]
// # The rows

// %%
/// What is measured of a channel: the bench, who is at which end, the program and its load.
type Way = (&'static str, &'static str, fn() -> Started, Load);

const PING_PONG: Load = Load { burst: 1, ..BASE };

/// A thread at one end at least.
fn with_threads<C: Blocking>() -> [Way; 7] {
    let (threads, to_task, from_task) =
        (bridge::<C, false, false>, bridge::<C, false, true>, bridge::<C, true, false>);
    [
        ("stream", "thread to thread", threads, BASE),
        ("stream", "thread to thread, capacity=1", threads, Load { capacity: 1, ..BASE }),
        ("stream", "thread to thread, capacity=1024", threads, Load { capacity: 1024, ..BASE }),
        ("stream", "thread to task", to_task, BASE),
        ("stream", "task to thread", from_task, BASE),
        ("exchange", "thread and thread", threads, PING_PONG),
        ("exchange", "thread and task", to_task, PING_PONG),
    ]
}

/// Tasks on two workers, of tokio or of nio, or a task on one and the thread in `block_on`.
fn with_tasks<C: Channel>() -> [Way; 6] {
    let (one, two, nio) =
        (start::<C, Tokio<1>, Number>, start::<C, Tokio<2>, Number>, start::<C, Nio<2>, Number>);
    [
        ("stream", "task to task", two, BASE),
        ("stream", "task to block_on", one, Load { by_block_on: true, ..BASE }),
        ("exchange", "task and task", two, PING_PONG),
        ("stream", "task to task, nio", nio, BASE),
        ("exchange", "task and task, nio", nio, PING_PONG),
        ("exchange", "block_on and task", one, Load { by_block_on: true, ..PING_PONG }),
    ]
}

// %% [markdown]
// Versions of crossfire are compared between threads and between tasks, with one sender and with four.

// %%
/// Four tasks that send.
fn with_senders<C: Channel>() -> Way {
    ("stream", "task to task, producers=4", start::<C, Tokio<2>, Number>, Load { producers: 4, ..BASE })
}

// %% [markdown]
// # Proof of equal work
//
// As on one thread: all messages arrive once. Each proof has a process of its own, and takes place before anything is timed.

// %%
/// How long a trial or a proof may take before it counts as hanging.
pub const LIMIT: Duration = Duration::from_secs(30);

/// Two iterations: what arrived.
fn arrived(program: fn() -> Started, load: Load) -> [Counts; 2] {
    let started = program();
    [(), ()].map(|()| counted(started(load).1))
}

// %% [markdown]
// # The study
//
// Each trial has a process of its own, since runtimes and channels have threads. Everything is compared with tokio, and
// what has a task or `block_on` at an end with the same channel between threads or tasks.

// %%
/// The parameters of latencies and of races.
const EVERY_50_US: &str = "thread to task, every 50 us";
const CANCELLED: &str = "thread to thread, recv cancelled";

/// What a way is compared with besides tokio, and what changes.
fn other(way: &str) -> Option<(&'static str, &'static str)> {
    Some(match way {
        "thread to thread, capacity=1" => ("thread to thread", "a capacity of 1 instead of 64"),
        "thread to thread, capacity=1024" => ("thread to thread", "a capacity of 1,024 instead of 64"),
        "task to task, producers=4" => ("task to task", "four senders instead of one"),
        "task to task, nio" => ("task to task", "nio instead of tokio"),
        "task and task, nio" => ("task and task", "nio instead of tokio"),
        "thread to task" => ("thread to thread", "a task receives, not a thread"),
        "task to thread" => ("thread to thread", "a task sends, not a thread"),
        "task to task" => ("thread to thread", "tasks on two workers instead of threads"),
        "task to block_on" => ("task to task", "`block_on` receives, not a task"),
        "thread and task" => ("thread and thread", "a task answers, not a thread"),
        "task and task" => ("thread and thread", "tasks on two workers instead of threads"),
        "block_on and task" => ("task and task", "`block_on` asks, not a task"),
        _ => return None,
    })
}

/// Adds a channel in some ways, proven. One that loses a message or hangs there is left out, and named.
fn add<C: Channel>(mut study: Study, ways: impl IntoIterator<Item = Way>) -> Study {
    study = study.group("messages", limit::THREADS).samples(2);
    for (bench, parameter, program, load) in ways {
        let key = Key::new(bench, C::NAME, parameter);
        let proof = prove_isolated(&key, LIMIT, &expected(load), || arrived(program, load));
        study = study.count(key.clone(), "units", load.messages);
        study = study.proven(key.clone(), proof, time(program, load));
        if let Some((base, change)) = other(parameter) {
            study = study.also_compare(key, Key::new(bench, C::NAME, base), change);
        }
    }
    study.samples(1)
}

// %% [markdown]
// With latencies, and with what only tasks do.

// %%
/// A channel with a thread at one end at least, and its latencies.
fn of_threads<C: Blocking>(study: Study) -> Study {
    let key = Key::new("latency", C::NAME, EVERY_50_US);
    let proof = prove_isolated(&key, LIMIT, &Counts::from([("received", LONE)]), || {
        [Counts::from([("received", latencies::<C>(&Tokio::start()).len() as u64)])]
    });
    let study = add::<C>(study, with_threads::<C>()).group("latency", limit::CROWDS);
    study.proven(key, proof, |bencher: &mut Bencher<'_>| {
        let runtime = Tokio::start();
        bencher.samples(&mut || sample_latencies::<C>(&runtime));
    })
}

/// One whose ends tasks can wait for, with tasks at both, and what it loses in a race.
fn of_tasks<C: Blocking>(study: Study) -> Study {
    let key = Key::new("race", C::NAME, CANCELLED);
    let ends = prove_isolated(&key, LIMIT, &Counts::new(), || [Counts::from([("raced_lost", race::<C>())])]);
    let study = add::<C>(of_threads::<C>(study), with_tasks::<C>()).group("race", limit::CROWDS);
    study.proven(key, ends, |bencher: &mut Bencher<'_>| bencher.samples(&mut sample_race::<C>))
}

// %% [markdown]
// Two versions of crossfire, in the ways that its README names.

// %%
/// Adds an older version in these ways, with which the newer one is compared.
fn add_older<C: Channel, Newer: Channel>(study: Study, ways: &[Way]) -> Study {
    ways.iter().fold(add::<C>(study, ways.iter().copied()), |study, (bench, parameter, ..)| {
        let [newer, older] = [Newer::NAME, C::NAME].map(|name| Key::new(*bench, name, *parameter));
        study.also_compare(newer, older, "version 3 instead of 2")
    })
}

/// crossfire 2 beside 3, and both for one sender.
fn of_versions(study: Study) -> Study {
    let ([threads, one_place, ..], [tasks, ..]) = (with_threads::<Crossfire2>(), with_tasks::<Crossfire2>());
    let ways = [threads, one_place, tasks, with_senders::<Crossfire2>()];
    let study = add::<Crossfire>(study, [with_senders::<Crossfire>()]);
    let study = add_older::<Crossfire2, Crossfire>(study, &ways);
    let study = add::<OnlyCrossfire>(study, with_threads::<OnlyCrossfire>().into_iter().take(1));
    add_older::<OnlyCrossfire2, OnlyCrossfire>(study, &with_threads::<OnlyCrossfire2>()[..1])
}

// %% [markdown]
// All channels, with a control for each kind of way.

// %%
/// All of it, proven.
pub fn study() -> Study {
    let study = Study::new("channels-threads").baseline(TOKIO).rounds(2, 12).isolated(LIMIT);
    let study = study.resources().instructions(false).unit("message");
    let channels: [fn(Study) -> Study; 11] = [
        of_tasks::<TokioChannel>,
        of_tasks::<AsyncChannel>,
        of_tasks::<Flume>,
        of_tasks::<Kanal>,
        of_tasks::<Crossfire>,
        of_tasks::<Futures>,
        of_tasks::<Small>,
        of_threads::<Std>,
        of_threads::<Crossbeam>,
        of_threads::<StdBySpawn>,
        of_versions,
    ];
    let study = channels.into_iter().fold(study, |study, add| add(study));
    let bridged = [("stream", "task to task"), ("stream", "thread to task"), ("exchange", "task and task")];
    let controls = bridged.into_iter().chain([("latency", EVERY_50_US), ("race", CANCELLED)]);
    let control = |study: Study, (bench, parameter)| study.control_of(Key::new(bench, TOKIO, parameter));
    controls.fold(study, control)
}

// %% [markdown]
// # A glance
//
// Ping-pong of a thread and a task: a second for each channel, once the cell is compiled, which takes about a minute. Nothing is stored. Choose another row and run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().glance(|key| key.parameter == "thread and task").unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// `quick` takes some seconds once it is compiled, and is no evidence. For evidence, set the environment variable `ASYNC_COST_PROFILE` to
// `standard` or `thorough` before you start the kernel.

// %% tags=["active-ipynb"]
// {
//     let profile = harness::Profile::from_env().unwrap_or_else(harness::stop);
//     let outcome = study().measure(&profile).unwrap_or_else(harness::stop);
//     println!("{outcome}");
// };

// %% [markdown]
// The [analysis](analysis.ipynb) has the results.
//
// # What this does not say
//
// - Whether a message finds its receiver asleep depends on how fast both ends are. Each of these programs is as fast as it
//   can be; in yours an end may be busy with something else.
// - With a thousand messages of a sample, p99.9 is that of the second slowest: a hint at the tail, and no more.
// - In a latency is the time of the clock, some 30 ns, and the sender keeps its processor busy until a message is due.
// - A race is timed as everything is, and its time says nothing: it counts polls that found nothing.
// - A task that asks a channel again and again keeps its worker busy, whatever the time says: see the processor time.
