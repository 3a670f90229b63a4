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
// :dep channels = { path = "../../rust-kernels/channels" }
// :dep crossbeam-channel = "=0.5.17"
// :dep crossfire = "=3.1.22"
// :dep futures = "=0.3.34"
// :dep harness = { path = "../../rust-kernels/harness" }
// :dep hdrhistogram = { version = "=7.6.0", default-features = false }
// :dep kanal = "=0.1.1"
// :dep tokio = { version = "=1.54.1", features = ["rt-multi-thread"] }

// %% [markdown]
// From here on each cell is also a part of the crate `channels-threads`, except cells that only show something. The
// channels, the programs of tasks and the loads are those of the other notebook.

// %%
use std::hint::spin_loop;
use std::sync::mpsc as of_std;
use std::thread;
use std::time::{Duration, Instant};

use channels::{
    AsyncChannel, BASE, ByMutex, Channel, Crossfire, Ends, Flume, Futures, Item, Kanal, Load, Message,
    Outcome, RIVALS, Root, Runtime, Small, Started, TOKIO, Tokio, TokioChannel, answer, consume, expected,
    least_served, produce, start, time,
};
use crossbeam_channel as of_crossbeam;
use futures::executor::block_on;
use harness::{Bencher, Counts, Key, Sample, Study, limit, prove_isolated};
use hdrhistogram::Histogram;

// %% [markdown]
// # Ends that block
//
// An end of a channel can be turned into one that blocks its thread. Where a crate has nothing for that, `block_on` of the
// futures crate waits for its future.

// %%
/// What is sent.
pub type Word = Message<1>;

/// A channel whose ends can also be used by threads that block.
pub trait Blocking: Channel {
    type Sends: Send + 'static;
    type Receives: Send + 'static;
    /// Makes the sender one that blocks.
    fn sender(to: Self::Sender<Word>) -> Self::Sends;
    /// Makes the receiver one that blocks.
    fn receiver(from: Self::Receiver<Word>) -> Self::Receives;
    /// Sends it when there is room; false if nobody can receive it.
    fn send_blocking(to: &mut Self::Sends, message: Word) -> bool;
    /// The next message; none if all senders are gone and all messages are received.
    fn receive_blocking(from: &mut Self::Receives) -> Option<Word>;
}

/// How the ends of a channel block: their types, how they are made, and their calls.
#[macro_export]
macro_rules! blocking {
    ($channel:ty, $sends:ty, $receives:ty, |$sender:ident| $sending:expr, |$receiver:ident| $receiving:expr,
     |$to:ident, $message:ident| $send:expr, |$from:ident| $receive:expr) => {
        impl Blocking for $channel {
            type Sends = $sends;
            type Receives = $receives;

            fn sender($sender: Self::Sender<Word>) -> Self::Sends {
                $sending
            }

            fn receiver($receiver: Self::Receiver<Word>) -> Self::Receives {
                $receiving
            }

            fn send_blocking($to: &mut Self::Sends, $message: Word) -> bool {
                $send
            }

            fn receive_blocking($from: &mut Self::Receives) -> Option<Word> {
                $receive
            }
        }
    };
    ($channel:ty, |$to:ident, $message:ident| $send:expr, |$from:ident| $receive:expr) => {
        blocking!(
            $channel,
            Self::Sender<Word>,
            Self::Receiver<Word>,
            |to| to,
            |from| from,
            |$to, $message| $send,
            |$from| $receive
        );
    };
}

// %% [markdown]
// Each crate's own calls:

// %%
blocking!(TokioChannel, |to, message| to.blocking_send(message).is_ok(), |from| from.blocking_recv());
blocking!(AsyncChannel, |to, message| to.send_blocking(message).is_ok(), |from| from.recv_blocking().ok());
blocking!(Flume, |to, message| to.send(message).is_ok(), |from| from.recv().ok());
blocking!(
    Kanal,
    kanal::Sender<Word>,
    kanal::Receiver<Word>,
    |to| to.to_sync(),
    |from| from.to_sync(),
    |to, message| to.send(message).is_ok(),
    |from| from.recv().ok()
);
blocking!(
    Crossfire,
    crossfire::MTx<crossfire::mpsc::Array<Word>>,
    crossfire::Rx<crossfire::mpsc::Array<Word>>,
    |to| to.into_blocking(),
    |from| from.into_blocking(),
    |to, message| to.send(message).is_ok(),
    |from| from.recv().ok()
);
blocking!(Futures, |to, message| block_on(Self::send(to, message)), |from| block_on(Self::receive(from)));
blocking!(Small<ByMutex>, |to, message| block_on(Self::send(to, message)), |from| block_on(Self::receive(
    from
)));

// %% [markdown]
// # Ends that a task asks again and again
//
// The bounded channels of the standard library and of crossbeam. A task tries, and lets others run before it tries again.
// So its worker never sleeps.

// %%
/// A channel without futures: its name, its module, the types of its ends, and what opens it.
#[macro_export]
macro_rules! asked {
    ($channel:ident, $name:literal, $of:ident, $sender:ident, $open:ident) => {
        #[doc = concat!("The channel ", $name, ".")]
        pub struct $channel;

        impl Channel for $channel {
            const NAME: &str = $name;
            type Sender<T: Item> = $of::$sender<T>;
            type Receiver<T: Item> = $of::Receiver<T>;

            fn open<T: Item>(capacity: usize) -> Ends<Self, T> {
                $of::$open(capacity)
            }

            async fn send<T: Item>(to: &mut Self::Sender<T>, mut message: T) -> bool {
                loop {
                    match to.try_send(message) {
                        Ok(()) => return true,
                        Err($of::TrySendError::Disconnected(_)) => return false,
                        Err($of::TrySendError::Full(back)) => message = back,
                    }
                    tokio::task::yield_now().await;
                }
            }

            async fn receive<T: Item>(from: &mut Self::Receiver<T>) -> Option<T> {
                loop {
                    match from.try_recv() {
                        Ok(message) => return Some(message),
                        Err($of::TryRecvError::Disconnected) => return None,
                        Err($of::TryRecvError::Empty) => tokio::task::yield_now().await,
                    }
                }
            }
        }

        blocking!($channel, |to, message| to.send(message).is_ok(), |from| from.recv().ok());
    };
}

asked!(Std, "std", of_std, SyncSender, sync_channel);
asked!(Crossbeam, "crossbeam", of_crossbeam, Sender, bounded);

// %% [markdown]
// # Ends on another thread
//
// Or a task lets a thread for blocking calls wait for it: `spawn_blocking` for every message. To send, it asks as above.

// %%
/// The channel of the standard library, received from in `spawn_blocking`.
pub struct StdBySpawn;

impl Channel for StdBySpawn {
    const NAME: &str = "std, spawn_blocking";
    type Sender<T: Item> = of_std::SyncSender<T>;
    /// It is on its way while a thread waits.
    type Receiver<T: Item> = Option<of_std::Receiver<T>>;

    fn open<T: Item>(capacity: usize) -> Ends<Self, T> {
        let (to, from) = of_std::sync_channel(capacity);
        (to, Some(from))
    }

    fn send<T: Item>(to: &mut Self::Sender<T>, message: T) -> impl Future<Output = bool> + Send {
        Std::send(to, message)
    }

    async fn receive<T: Item>(from: &mut Self::Receiver<T>) -> Option<T> {
        let receiver = from.take()?;
        let waiting = tokio::task::spawn_blocking(move || (receiver.recv().ok(), receiver));
        let (message, receiver) = waiting.await.expect("it does not panic");
        *from = Some(receiver);
        message
    }
}

blocking!(StdBySpawn, |to, message| to.send(message).is_ok(), |from| from.as_ref()?.recv().ok());

// %% [markdown]
// # The programs
//
// The same stream and the same exchange, with a thread at one end or at both. The thread at hand is one of them, so none
// has to be started, except for the second of two.

// %%
fn feed<C: Blocking>(mut to: C::Sends, messages: u64) {
    for number in 0..messages {
        assert!(C::send_blocking(&mut to, [number]), "the receiver waits for all");
    }
}

fn take_all<C: Blocking>(mut from: C::Receives) -> [u64; 2] {
    let (mut received, mut sum) = (0, 0);
    while let Some([number]) = C::receive_blocking(&mut from) {
        received += 1;
        sum += number;
    }
    [received, sum]
}

fn reply<C: Blocking>(mut from: C::Receives, mut to: C::Sends, burst: u64) {
    loop {
        let mut sum = 0;
        for _ in 0..burst {
            let Some([number]) = C::receive_blocking(&mut from) else { return };
            sum += number;
        }
        C::send_blocking(&mut to, [sum]);
    }
}

fn ask<C: Blocking>(mut to: C::Sends, mut from: C::Receives, load: Load) -> [u64; 2] {
    let (mut received, mut sum) = (0, 0);
    for exchange in 0..load.messages / (load.burst + 1) {
        for number in exchange * load.burst..(exchange + 1) * load.burst {
            assert!(C::send_blocking(&mut to, [number]), "the other end waits for all");
        }
        let [answer] = C::receive_blocking(&mut from).expect("an answer");
        received += load.burst + 1;
        sum += answer;
    }
    [received, sum]
}

// %% [markdown]
// Who is at which end:

// %%
/// Starts a program whose messages come from a thread or a task and go to one; in an exchange, a thread asks.
pub fn bridge<C: Blocking, const FROM_TASK: bool, const TO_TASK: bool>() -> Started {
    let runtime = Tokio::<1>::start();
    Box::new(move |load| {
        let (to, mut from) = C::open::<Word>(load.capacity);
        let start = Instant::now();
        let [received, sum] = if load.burst > 0 {
            let (answers, replies) = C::open::<Word>(load.capacity);
            if TO_TASK {
                runtime.0.spawn(answer::<C, 1>((from, answers), load.burst));
            } else {
                let (from, answers) = (C::receiver(from), C::sender(answers));
                thread::spawn(move || reply::<C>(from, answers, load.burst));
            }
            ask::<C>(C::sender(to), C::receiver(replies), load)
        } else if TO_TASK {
            let consumer = runtime.0.spawn(async move { consume::<C, 1>(&mut from).await });
            feed::<C>(C::sender(to), load.messages);
            runtime.block_on(consumer).expect("it does not panic")
        } else {
            if FROM_TASK {
                runtime.0.spawn(produce::<C, 1>(to, 0..load.messages));
            } else {
                let to = C::sender(to);
                thread::spawn(move || feed::<C>(to, load.messages));
            }
            take_all::<C>(C::receiver(from))
        };
        Outcome { elapsed: start.elapsed(), received, sum }
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

/// Latencies in nanoseconds to three digits.
fn distribution(latencies: &[u64]) -> Histogram<u64> {
    let mut histogram = Histogram::new(3).expect("3 significant digits can be kept");
    for &latency in latencies {
        histogram.record(latency).expect("it grows as far as it must");
    }
    histogram
}

/// How long each message took that a thread has sent to a task.
fn latencies<C: Blocking>(runtime: &Tokio<1>) -> Vec<u64> {
    let (to, mut from) = C::open::<Word>(BASE.capacity);
    let epoch = Instant::now();
    let now = move || u64::try_from(epoch.elapsed().as_nanos()).expect("less than centuries");
    let receiver = runtime.0.spawn(async move {
        let mut latencies = Vec::with_capacity(LONE as usize);
        while let Some([due]) = C::receive(&mut from).await {
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
        assert!(C::send_blocking(&mut to, [due]), "the receiver waits for all");
    }
    drop(to);
    runtime.block_on(receiver).expect("it does not panic")
}

/// A sample of them.
fn sample_latencies<C: Blocking>(runtime: &Tokio<1>) -> Sample {
    let latencies = latencies::<C>(runtime);
    assert_eq!(latencies.len() as u64, LONE, "all messages arrive");
    let histogram = distribution(&latencies);
    let quantile = |of| histogram.value_at_quantile(of);
    Sample::new(LONE, Duration::from_nanos(latencies.iter().sum()))
        .with("p50_ns", quantile(0.5))
        .with("p99_ns", quantile(0.99))
        .with("p999_ns", quantile(0.999))
}

// %% [markdown]
// # Who is served?
//
// Sixteen producers on two workers send without end; how many of a hundred messages for each are from the one that sent the
// fewest?

// %%
/// Messages for each producer.
const FOR_EACH: u64 = 1_000;

/// A sample of how many messages the producer sent that sent the fewest.
fn sample_shares<C: Channel>(runtime: &Tokio<2>) -> Sample {
    let start = Instant::now();
    let least = runtime.run(least_served::<C, Tokio<2>>(BASE.capacity, FOR_EACH));
    Sample::new(FOR_EACH * RIVALS as u64, start.elapsed()).with("least_served_of_100", least * 100 / FOR_EACH)
}

// %% [markdown]
// # The rows

// %%
/// What is measured of a channel: the bench, who is at which end, the program and its load.
type Way = (&'static str, &'static str, fn() -> Started, Load);

const PING_PONG: Load = Load { burst: 1, ..BASE };

/// A channel with all that is done to it.
pub struct Subject {
    pub name: &'static str,
    ways: Vec<Way>,
    /// A sample of latencies, started anew for each trial.
    latencies: fn() -> Box<dyn Fn() -> Sample>,
    shares: Option<fn() -> Box<dyn Fn() -> Sample>>,
}

fn of_threads<C: Blocking>() -> Subject {
    let ways: Vec<Way> = vec![
        ("stream", "thread to thread", bridge::<C, false, false>, BASE),
        ("stream", "thread to task", bridge::<C, false, true>, BASE),
        ("stream", "task to thread", bridge::<C, true, false>, BASE),
        ("exchange", "thread and thread", bridge::<C, false, false>, PING_PONG),
        ("exchange", "thread and task", bridge::<C, false, true>, PING_PONG),
    ];
    let latencies: fn() -> Box<dyn Fn() -> Sample> = || {
        let runtime = Tokio::start();
        Box::new(move || sample_latencies::<C>(&runtime))
    };
    Subject { name: C::NAME, ways, latencies, shares: None }
}

/// With what only tasks do, on two workers; or a task and the thread in `block_on`.
fn of_tasks<C: Blocking>() -> Subject {
    let mut subject = of_threads::<C>();
    let (two, one): (fn() -> Started, fn() -> Started) = (start::<C, Tokio<2>, 1>, start::<C, Tokio<1>, 1>);
    subject.ways.extend([
        ("stream", "task to task", two, BASE),
        ("stream", "task to block_on", one, Load { root: Root::BlockOn, ..BASE }),
        ("exchange", "task and task", two, PING_PONG),
        ("exchange", "block_on and task", one, Load { root: Root::BlockOn, ..PING_PONG }),
    ]);
    subject.shares = Some(|| {
        let runtime = Tokio::start();
        Box::new(move || sample_shares::<C>(&runtime))
    });
    subject
}

/// All channels.
pub fn subjects() -> Vec<Subject> {
    vec![
        of_tasks::<TokioChannel>(),
        of_tasks::<AsyncChannel>(),
        of_tasks::<Flume>(),
        of_tasks::<Kanal>(),
        of_tasks::<Crossfire>(),
        of_tasks::<Futures>(),
        of_tasks::<Small<ByMutex>>(),
        of_threads::<Std>(),
        of_threads::<Crossbeam>(),
        of_threads::<StdBySpawn>(),
    ]
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
    [(), ()].map(|()| {
        let Outcome { received, sum, .. } = started(load);
        Counts::from([("received", received), ("sum", sum)])
    })
}

// %% [markdown]
// # The study
//
// Each trial has a process of its own, since runtimes and channels have threads. Everything is compared with tokio, and
// what has a task or `block_on` at an end with the same channel between threads or tasks.

// %%
/// The parameters of latencies and of shares.
const EVERY_50_US: &str = "thread to task, every 50 us";
const SIXTEEN: &str = "producers=16";

/// What a way is compared with besides tokio, and what changes.
fn other(way: &str) -> Option<(&'static str, &'static str)> {
    Some(match way {
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

/// All of it, proven. A channel that loses a message or hangs is left out of that row, and named.
pub fn study() -> Study {
    let mut study = Study::new("channels-threads").baseline(TOKIO).rounds(2, 20).isolated(LIMIT);
    study = study.resources().instructions(false).unit("message");
    for Subject { name, ways, latencies, shares } in subjects() {
        study = study.group("messages", limit::THREADS).samples(2);
        for (bench, parameter, program, load) in ways {
            let key = Key::new(bench, name, parameter);
            let proof = prove_isolated(&key, LIMIT, &expected(load), || arrived(program, load));
            study = study.count(key.clone(), "units", load.messages);
            study = study.proven(key.clone(), proof, time(program, load));
            if let Some((base, change)) = other(parameter) {
                study = study.also_compare(key, Key::new(bench, name, base), change);
            }
        }
        study = study.samples(1);
        for (bench, parameter, sample) in
            [("latency", EVERY_50_US, Some(latencies)), ("shares", SIXTEEN, shares)]
        {
            let Some(start) = sample else { continue };
            let (key, sent) = (Key::new(bench, name, parameter), Counts::from([("samples", 1)]));
            let proof = prove_isolated(&key, LIMIT, &sent, || {
                start()();
                [sent.clone()]
            });
            study = study.group(bench, limit::CROWDS).proven(key, proof, move |bencher: &mut Bencher<'_>| {
                let sample = start();
                bencher.samples(&mut || sample());
            });
        }
    }
    for (bench, parameter) in [
        ("stream", "task to task"),
        ("stream", "thread to task"),
        ("exchange", "task and task"),
        ("latency", EVERY_50_US),
        ("shares", SIXTEEN),
    ] {
        study = study.control_of(Key::new(bench, TOKIO, parameter));
    }
    study
}

// %% [markdown]
// # A glance
//
// Ping-pong of a thread and a task, a second for each channel. Nothing is stored. Choose another row and run the cell again.

// %% tags=["active-ipynb", "glance"]
// study().glance(|key| key.parameter == "thread and task").unwrap_or_else(harness::stop)

// %% [markdown]
// # Measurement
//
// `quick` takes some seconds and is not evidence. For evidence, set the environment variable `ASYNC_COST_PROFILE` to
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
// - A task that asks a channel again and again keeps its worker busy, whatever the time says: see the processor time.
